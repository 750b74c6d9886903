"""Finding the source of functions: the right one, at its own place, or a reason why not."""

from __future__ import annotations

import asyncio
import dis
import doctest
import functools
import importlib.util
import inspect
import linecache
import sys
import types
from pathlib import Path
from typing import Any

import gast
import pytest

from tests.capture.hooks import NativeHooks
from tracegrad.capture.convert import convert, dump_converted, is_converted
from tracegrad.capture.source import SourceUnavailable, find_source

FACTOR = 3


def load_file(path: Path, text: str) -> types.ModuleType:
    path.write_text(text)
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def test_lambdas_on_one_line() -> None:
    first, second, third = lambda x: x + 1, lambda x: x * 2, lambda x: x and x - 1
    nested = lambda x: lambda y: (x, lambda z: (x, y, z))
    assert [convert(f, NativeHooks())(5) for f in (first, second, third)] == [6, 10, 4]
    inner = nested(1)
    innermost = inner(2)[1]
    assert convert(inner, NativeHooks())(7)[0] == 1
    assert convert(innermost, NativeHooks())(3) == (1, 2, 3)
    assert find_source(second).node.body.left.id == "x"
    assert isinstance(find_source(second).node.body.op, gast.Mult)
    several = [lambda x: x + 1, lambda x: x + 1]
    columns = [find_source(f).node.col_offset for f in several]
    assert columns[0] < columns[1]


def test_lambda_in_default_and_over_lines() -> None:
    def outer(
        f=lambda x: x + 1,
        g=lambda x: (
            x
            * FACTOR
            if x
            else 0
        ),
    ):  # fmt: skip
        return f(1), g(2)

    defaults = outer.__defaults__
    assert defaults is not None
    assert [convert(f, NativeHooks())(4) for f in defaults] == [5, 12]
    assert convert(outer, NativeHooks())() == (2, 6)


def test_what_a_function_carries() -> None:
    cell = [1]

    def wrapped(a: int, /, b: int = 2, *args: int, c: int = 3, **kwargs: int) -> int:
        """Documented."""
        return a + b + c + len(args) + len(kwargs) + cell[0]

    wrapped.note = "kept"  # type: ignore[attr-defined]
    result = convert(wrapped, NativeHooks())
    assert result(1) == 7 and result(1, 1, 1, c=0, d=1) == 5
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__"):
        assert getattr(result, attribute) == getattr(wrapped, attribute), attribute
    assert result.note == "kept" and result.__annotations__ == {} and result.__globals__ is globals()
    assert inspect.signature(result).parameters.keys() == inspect.signature(wrapped).parameters.keys()
    assert result.__code__.co_filename == __file__
    cell = [10]
    assert result(1) == 16
    assert "tg__" not in globals()


def test_conversion_is_cached_by_code() -> None:
    def make(n: int) -> Any:
        return lambda x: x and x + n

    hooks = NativeHooks()
    first, second = convert(make(1), hooks), convert(make(2), hooks)
    assert first.__code__ is second.__code__
    assert (first(1), second(1)) == (2, 3)
    assert convert(first, hooks) is first
    other = convert(first, NativeHooks())
    assert other is not first and other.__code__ is first.__code__ and other(1) == 2
    assert is_converted(first) and not is_converted(make(1))


def test_functions_made_by_converted_functions_are_converted() -> None:
    def make(n):
        def inner(x):
            if x:
                return x + n
            return n

        return inner, lambda: 3

    hooks = NativeHooks()
    for function in convert(make, hooks)(1):
        assert is_converted(function)
        assert convert(function, hooks) is function
    assert convert(make, hooks)(1)[0].__qualname__ == make(1)[0].__qualname__


def test_decorated() -> None:
    def doubled(f):
        @functools.wraps(f)
        def wrapper(*args):
            return 2 * f(*args)

        return wrapper

    @doubled
    @functools.lru_cache(
        maxsize=8,
    )
    def function(x):
        return x if x else 1

    inner = function.__wrapped__.__wrapped__
    assert convert(inner, NativeHooks())(3) == 3
    assert convert(function, NativeHooks())(3) == 6


def test_closures_keep_their_cells() -> None:
    def make():
        total, unset = 0, None

        def add(x):
            nonlocal total
            for i in range(x):
                if i % 2:
                    total += i
            return total

        def late():
            return later() if total else unset

        def fact(n):
            if n < 2:
                return 1
            return n * fact(n - 1)

        def later():
            return "later", fact(4)

        return add, late, fact, lambda: total

    add, late, fact, read = make()
    converted = [convert(f, NativeHooks()) for f in (add, late, fact, read)]
    assert (converted[0](4), add(4), read(), converted[3]()) == (4, 8, 8, 8)
    assert converted[1]() == ("later", 24) and converted[2](5) == 120


def test_private_names(tmp_path: Path) -> None:
    module = load_file(
        tmp_path / "private.py",
        "class _Counter:\n"
        "    __limit = 3\n"
        "    def __init__(self, __x=0):\n"
        "        self.__n = __x\n"
        "        self.__n += 1\n"
        "    def step(self):\n"
        "        def inner(obj):\n"
        "            if obj.__n < self.__limit:\n"
        "                obj.__n = obj.__n + 1\n"
        "            return obj.__n\n"
        "        return inner(self)\n"
        "    def clear(self):\n"
        "        del self.__n\n",
    )
    counter = module._Counter()
    convert(module._Counter.__init__, NativeHooks())(counter, 1)
    step = convert(module._Counter.step, NativeHooks())
    assert [step(counter) for _ in range(3)] == [3, 3, 3]
    convert(module._Counter.clear, NativeHooks())(counter)
    assert vars(counter) == {}


def test_no_source() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x):\n    return x", scope)
    with pytest.raises(SourceUnavailable, match="<string> has no source text"):
        convert(scope["f"], NativeHooks())
    with pytest.raises(SourceUnavailable, match="no source text"):
        convert(scope["f"], NativeHooks())  # from the cache


def test_coroutines() -> None:
    async def coroutine():
        await asyncio.sleep(0)

    async def generator():
        yield 1

    for function in (coroutine, generator):
        with pytest.raises(SourceUnavailable, match="is a coroutine"):
            convert(function, NativeHooks())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "for i in x:\n        try:\n            if i():\n                continue\n            i()\n        "
            "finally:\n            break",
            "line 3: 'finally' is left by a jump, as is its 'try'",
        ),
        ("return locals()", r"line 2: locals\(\) reads the variables of its caller"),
        ("return eval('x')", r"eval\(\)"),
        ("tg__ = 3", "a name of tracegrad's own"),
    ],
)
def test_refused(tmp_path: Path, body: str, reason: str) -> None:
    module = load_file(tmp_path / "refused.py", f"def f(x):\n    {body}\n")
    with pytest.raises(SourceUnavailable, match=reason):
        convert(module.f, NativeHooks())


def test_edited_file(tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    module = load_file(path, "def f(x):\n    return x + 1\n\ndef g(x):\n    return x + 1\n\ndef h(x):\n    return x\n")
    path.write_text("def f(x):\n    return x + 2\n\n\ndef g(x):\n    return x + 1\n\ndef h(x): return (\n        x)\n")
    with pytest.raises(SourceUnavailable, match="has changed since it was imported"):
        convert(module.f, NativeHooks())
    with pytest.raises(SourceUnavailable, match="does not define g"):
        convert(module.g, NativeHooks())


def test_file_rewritten_before_import(tmp_path: Path) -> None:
    path = tmp_path / "rewritten.py"
    old = load_file(path, "def f(x):\n    return x + 1\n")
    assert convert(old.f, NativeHooks())(1) == 2
    path.write_text("\n\ndef f(x):\n    return x and x + 20\n")
    spec = importlib.util.spec_from_file_location("rewritten", path)
    assert spec is not None and spec.loader is not None
    new = importlib.util.module_from_spec(spec)
    exec(compile(path.read_text(), str(path), "exec"), new.__dict__)
    assert convert(new.f, NativeHooks())(1) == 21
    assert convert(old.f, NativeHooks())(1) == 2


def test_calls_of_imported_modules(tmp_path: Path) -> None:
    module = load_file(
        tmp_path / "imports.py",
        "from __future__ import annotations\n"
        "try:\n    import math\nexcept ImportError:\n    math = None\n"
        "def f(x):\n    import cmath\n    return math.floor(x).bit_length(), cmath.sqrt(x).real\n",
    )
    assert convert(module.f, NativeHooks())(4.0) == (3, 2.0)


def test_asserts_rewritten_by_pytest() -> None:
    def function(x):
        assert x > 1, "small"
        return x

    assert convert(function, NativeHooks())(2) == 2
    with pytest.raises(AssertionError, match="small"):
        convert(function, NativeHooks())(1)


def test_doctest() -> None:
    """Functions of a doctest are found while it runs."""
    text = """
    >>> from tracegrad.capture.convert import convert
    >>> from tests.capture.hooks import NativeHooks
    >>> def f(x):
    ...     return x if x else 7
    >>> convert(f, NativeHooks())(0)
    7
    """
    example = doctest.DocTestParser().get_doctest(text, {}, "example", "example", 0)
    assert doctest.DocTestRunner(verbose=False).run(example) == (0, 4)


def test_several_statements_on_a_line(tmp_path: Path) -> None:
    module = load_file(tmp_path / "line.py", "f = lambda x: x + 1; g = lambda x: x + 1; h = lambda y: y\n")
    assert [find_source(f).node.col_offset for f in (module.f, module.g, module.h)] == [4, 25, 46]


def test_non_ascii_columns(tmp_path: Path) -> None:
    module = load_file(tmp_path / "letters.py", "é, f = lambda ä: ä + 1, lambda ä: ä * 2\n")
    assert convert(module.f, NativeHooks())(4) == 8
    assert convert(vars(module)["é"], NativeHooks())(4) == 5


class SpanHooks(NativeHooks):
    """Plain Python that notes where each hook is called from."""

    def __init__(self) -> None:
        self.spans: dict[str, list[tuple[str, str]]] = {}

    def __getattribute__(self, name: str) -> Any:
        caller = sys._getframe(1).f_code.co_filename
        if not name.startswith("_") and name != "spans" and caller != inspect.getfile(NativeHooks):
            return functools.partial(self._note, name)
        return super().__getattribute__(name)

    def _note(self, name: str, *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        line, end_line, column, end_column = positions
        assert line is not None
        lines = linecache.getlines(frame.f_code.co_filename)[line - 1 : end_line]
        text = lines[0][column:end_column] if len(lines) == 1 else lines[0][column:].rstrip() + " ..."
        self.spans.setdefault(name, []).append((text, frame.f_code.co_qualname))
        return getattr(super(), name)(*args, **kwargs)


def spans_of(function: types.FunctionType, *arguments: Any) -> dict[str, list[str]]:
    hooks = SpanHooks()
    convert(function, hooks)(*arguments)
    for found in hooks.spans.values():
        for _, name in found:
            assert name.split(".<locals>.<lambda>")[0] == function.__qualname__
    return {name: [text for text, _ in found] for name, found in hooks.spans.items()}


# fmt: off
def sample(x, n):
    d = {"k": [x]}
    if x > 0 and n:
        d["k"][0] += n
    elif x < 0:
        n = -n
    for i, v in enumerate(d["k"]):
        if i == 3 + v:
            break
        while (
            n > 1
        ):
            n -= (
                1
            )
    a, *b = d["k"]
    return abs(
        a
    ), b if n else x, [len(str(c)) for c in b if not c], 0 < x < n
# fmt: on


def test_positions() -> None:
    spans = spans_of(sample, 1, 3)
    assert spans["if_stmt"] == ["if x > 0 and n", "if i == 3 + v"]
    assert spans["and_"] == ["x > 0 and n"]
    assert spans["for_stmt"] == ['for i, v in enumerate(d["k"])']
    assert spans["while_stmt"] == ["while ( ..."]
    assert spans["aug_setitem"] == ['d["k"][0] += n']
    assert spans["aug_name"] == ["n -= ( ..."] * 2
    assert 'd["k"]' in spans["getitem"]
    assert spans["unpack"][-1] == 'a, *b = d["k"]'
    assert spans["call"] == ['enumerate(d["k"])', "abs( ..."]
    assert spans["if_exp"] == ["b if n else x"]
    assert spans["compare_chain"] == ["0 < x < n"]
    assert spans["each"] == ["b"]
    assert spans["ret"] == ["return abs( ..."]
    assert spans["name"][0] == 'd = {"k": [x]}'


def test_every_instruction_has_a_position() -> None:
    def codes(code: types.CodeType) -> Any:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from codes(constant)

    lines = inspect.getsourcelines(sample)
    for code in codes(convert(sample, NativeHooks()).__code__):
        for instruction in dis.get_instructions(code):
            positions = instruction.positions
            assert positions is not None
            if positions.lineno is not None:
                assert lines[1] <= positions.lineno < lines[1] + len(lines[0])


def test_traceback_shows_the_line_of_the_user() -> None:
    def fails(x):
        for i in range(3):
            if i:
                x = x / (i - 1)
        return x

    with pytest.raises(ZeroDivisionError) as caught:
        convert(fails, NativeHooks())(1.0)
    entry = caught.traceback[-2]  # the last one is the hook that divides
    assert str(entry.statement).strip() == "x = x / (i - 1)" and entry.frame.code.raw.co_qualname == fails.__qualname__


def test_dump_is_readable() -> None:
    def function(x):
        if x > 0:
            y = x
        else:
            y = -x
        return y

    text = dump_converted(function)
    assert "    def tg_then():\n        nonlocal y\n        y = tg__.name('y', x)\n" in text
    assert "tg__.if_stmt(tg__.operate('gt', x, 0), tg_then, tg_else, lambda: (y,), tg_set, ('y',))" in text
    assert "return tg__.ret(y)" in text


def test_straight_code_stays_plain() -> None:
    def function(x, y):
        z = x + y
        z = z * x
        return z, z

    assert dump_converted(function).splitlines() == [
        "def function(x, y):",
        "    z = tg__.name('z', tg__.operate('add', x, y))",
        "    z = tg__.name('z', tg__.operate('mul', z, x))",
        "    return tg__.ret((z, z))",
    ]
