"""The printer of Python source: what it prints parses to the same tree, and reads as a person writes."""

from __future__ import annotations

import ast
import inspect
import types

import astunparse
import gast
import numpy as np
import pytest

import tracegrad.codegen.numpy_source
import tracegrad.codegen.text
from tracegrad.codegen.text import LINE_LENGTH, BlankLine, Comment, SourcePrinter, print_source, with_comment

EXPRESSIONS = """
a + b * c - (d - e)
(a + b) * c / (d / e) // f % g
-x ** 2
(-x) ** 2
2 ** -x ** y
(2 ** x) ** y
not a == b
(not a) == b
a < b <= c != (d < e)
(a and b) or c and (d or e)
a and (b and c)
~a & b | c ^ d
(a & b) == c
a & (b == c)
x[1:2, ...]
x[1:2, None, ::-1]
x[:, idx]
x[(1, 2)]
x[1,]
x[()]
x[a:b:c][i]
x[i] if c else y[j] if d else z
(x if c else y) + 1
f(x, *args, key=1, **kwargs)
f(a for a in b)
f((a for a in b), c)
(lambda x, y=1, *a, k, **kw: x + y)(2)
lambda: (yield)
[a + b for a, b in zip(x, y) if a if b]
{k: v for k, v in x}
{1, 2}
{**a, "b": 1}
(1,)
()
(a, b), [c, *d]
x.T @ y.T
(x + y).T
(x @ y)[0].sum()
(1).real + 1.5.real
-1 .bit_length()
1j * (2 + 3j)
1e400 - 1e400
"it's" + 'say "so"' + 'both \\' and "'
b"bytes"
f"{x!r:>{width}} and {y}"
(a := b)
f(a := 1)
await_ + 1
...
"""

STATEMENTS = [
    "a = b = c\na, b = b, a\n(a, *b) = c\nx[0] = y.z = 1\n",
    "a += 1\nx[i, :] @= y\na: int = 3\n(a): int\nb: tuple = 1, 2\n",
    "def f(a, /, b: int = 1, *, c=(1, 2), **d) -> int:\n    '''Doc.'''\n    return a, b\n",
    "@d\nasync def f():\n    async for x in y:\n        await x\n    async with a as b, c:\n        pass\n",
    "class A(B, metaclass=C):\n    x = 1\n\n    def f(self):\n        y = yield 1\n        return (yield from z)\n",
    "if a:\n    pass\nelif b:\n    pass\nelse:\n    c\n",
    "while x > tol:\n    break\nelse:\n    pass\nfor i, j in a, b:\n    continue\n",
    "try:\n    a\nexcept (A, B) as e:\n    raise X from e\nexcept:\n    raise\nelse:\n    b\nfinally:\n    c\n",
    "try:\n    a\nexcept* A:\n    b\n",
    "with open(a) as (b, c):\n    pass\n",
    "match a, b:\n    case [1, x, *_] if x:\n        pass\n    case {'a': 1 | 2 as y, **rest}:\n        pass\n"
    "    case A(1, b=None) | -1.5 + 2j | a.b:\n        pass\n    case _:\n        pass\n",
    "import a.b as c\nfrom . import d\nfrom ..e import f as g, h\nglobal x\ndel a, b[0]\nassert a, (b, c)\n",
]


def assert_round_trip(source: str) -> str:
    tree = ast.parse(source)
    printed = print_source(tree)
    assert ast.dump(ast.parse(printed)) == ast.dump(tree), printed
    return printed


@pytest.mark.parametrize("source", EXPRESSIONS.strip().splitlines())
def test_expressions_round_trip(source: str) -> None:
    assert_round_trip(source)


@pytest.mark.parametrize("source", STATEMENTS)
def test_statements_round_trip(source: str) -> None:
    assert_round_trip(source)


@pytest.mark.parametrize("module", [astunparse.unparser, np.ma.core, np.linalg._linalg, tracegrad.codegen.text, ast])
def test_modules_round_trip(module: types.ModuleType) -> None:
    assert_round_trip(inspect.getsource(module))


@pytest.mark.parametrize(
    "source",
    [
        "a + b * c",
        "(a + b) * c",
        "-x ** 2",
        "(-x) ** -2",
        "x[1:2, ...]",
        "x[:, None] @ y.T",
        "a - (b - c)",
        "not (a < b) and c",
        "a, b = b, a + b",
        "return_ = f(x, axis=(0, 1))[0].sum()",
        'raise ZeroDivisionError("division by zero")',
    ],
)
def test_text_is_kept(source: str) -> None:
    expected = source.replace("not (a < b)", "not a < b")
    assert print_source(ast.parse(source)) == expected + "\n"


def test_gast_trees_are_accepted() -> None:
    assert print_source(gast.parse("x = y[1:2, ...]")) == "x = y[1:2, ...]\n"


def test_comments_and_blank_lines() -> None:
    loop = ast.parse("for i in x:\n    y = i").body[0]
    assert isinstance(loop, ast.For)
    loop.body.insert(0, Comment("inside"))
    with_comment(loop, "header")
    with_comment(loop.body[1], "end of line")
    module = ast.Module([Comment("model.py:1  a line"), *ast.parse("z = 1").body, BlankLine(), loop], [])
    assert print_source(module) == (
        "# model.py:1  a line\nz = 1\n\nfor i in x:  # header\n    # inside\n    y = i  # end of line\n"
    )


def test_long_lines_are_broken_inside_brackets() -> None:
    source = f"def f():\n    x = np.concatenate([{', '.join(f'a_long_name_{i} + {i}' for i in range(20))}], axis=1)\n"
    printed = assert_round_trip(source)
    assert max(map(len, printed.splitlines())) <= LINE_LENGTH
    assert "    x = np.concatenate(\n        [\n            a_long_name_0 + 0, a_long_name_1 + 1," in printed


def test_the_time_for_a_table_grows_with_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = []
    dispatch = SourcePrinter.dispatch

    def counted(self: SourcePrinter, tree: object) -> None:
        printed.append(tree)
        dispatch(self, tree)

    monkeypatch.setattr(SourcePrinter, "dispatch", counted)
    counts = []
    for rows in (10, 100):
        printed.clear()
        print_source(ast.parse(f"x = np.array({[[0.1234567890123456 * k for k in range(7)]] * rows})"))
        counts.append(len(printed))
    assert counts[1] < 11 * counts[0]
