"""Random programs that take items of iterators in several ways: the value and gradient of Python, or an error."""

from __future__ import annotations

import itertools
import linecache
import random
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.errors import CaptureError

POINTS = (np.array([0.8, 0.31, 1.1, 0.6]), np.array([0.5, 1.2, 0.2, 0.7]))

BEFORE = """
import itertools
import numpy as np

def number(v):
    return number(v[-1]) if isinstance(v, tuple) else v

def scaled(x):
    for v in x:
        yield v * 1.25

def in_pairs(items):
    for v in items:
        yield v, next(items, 0.1)

def noted(items, log):
    for v in items:
        log.append(1)
        yield v

def first(items, x):
    for v in items:
        if number(v) > 0.9:
            return number(v)
    return x[1]

class Marching:
    def __init__(self, x):
        self.x, self.k = x, 0
    def __iter__(self):
        return self
    def __next__(self):
        if self.k >= len(self.x):
            raise StopIteration
        self.k += 1
        return self.x[self.k - 1]
"""

SOURCES = (
    *("iter(x)", "iter(list(x))", "iter(tuple(x))", "iter([1.0, x[1], 4.0])", "iter(range(5))", "iter(sorted(x))"),
    *("scaled(x)", "in_pairs(iter(x))", "(v * 1.5 for v in x)", "Marching(x)", "reversed(x)", "reversed(list(x))"),
    *("map(abs, x)", "map(abs, iter(x))", "map(max, x, y)", "map(max, iter(x), y)", "iter([v for v in x if v > 0.4])"),
    *("filter(lambda v: v > 0.4, x)", "filter(lambda v: v > 0.4, iter(x))", "iter({'a': x[0], 'b': x[1]}.items())"),
    *("zip(x, y)", "zip(iter(x), range(9))", "enumerate(x)", "enumerate(iter(x))", "np.ndenumerate(x)"),
    *(
        "itertools.islice(x, 1, None)",
        "itertools.chain(iter(x), y)",
        "itertools.accumulate(x)",
        "itertools.pairwise(x)",
    ),
)

#: `it` is the iterator and `ends` a condition on the item v, or the count n
STEPS = (
    "for v in it:\n    if ends: break\n    s += number(v)\n    n += 1",
    "for v in it:\n    s += number(v)\n    if ends: break\nelse:\n    s += 7.0",
    "for k, v in enumerate(it):\n    if ends: break\n    s += k * number(v)",
    "for v in map(number, it):\n    if ends: break\n    s += v",
    "for v in (number(w) for w in it):\n    if ends: break\n    s += v",
    "for v in filter(lambda w: number(w) > 0.33, it):\n    if ends: break\n    s += number(v)",
    "for v in itertools.islice(it, 2):\n    if ends: break\n    s += number(v)",
    "for v, w in zip(it, y):\n    if ends: break\n    s += number(v) * w",
    "for v in noted(it, log):\n    if ends: break\n    s += number(v)",
    "for _ in range(3):\n    for v in it:\n        if ends: break\n        s += number(v)",
    "for v in it:\n    for w in it:\n        if number(w) > number(v): break\n        s += number(w)",
    "for v in it:\n    s += number(v) * number(next(it, 0.2))\n    if ends: break",
    "while s < 2.0:\n    s += 0.5 + number(next(it, 1.0)) ** 2",
    "if x[0] > 0.6:\n    s += number(next(it, 0.3))",
    "if any(ends for v in it):\n    s += 2.0 * x[1]",
    "if all(not ends for v in it):\n    s += 3.0 * x[1]",
    "s += 2.0 if x[1] in map(number, it) else x[0]",
    "s += number(next((v for v in it if ends), 0.25))",
    "s += first(it, x)",
    "s += number(next(it, 0.5))",
    "s += sum(number(v) for v in it)",
    "s += sum([number(v) for v in it if number(v) > 0.47])",
    "s += sum(map(number, it)) + len(log)",
    "s += len([*it]) * x[1]",
    "g = (number(v) for v in it)\ns += next(g, 0.1)",
    "g = map(number, it)\ns += next(g, 0.1)",
    "g = zip(it, y)\ns += number(next(g, 0.1))",
    "t = [x[0]]\nt += it\ns += sum(map(number, t))",
    "for v, w in zip(it, it):\n    s += number(v) * number(w)",
)
ENDS = ("number(v) > 0.9", "number(v) > x[0]", "x[0] < 9.0", "x[0] > 9.0", "n == 1")


def write(seed: int) -> str:
    """Return the text of a random function `program`."""
    choose = random.Random(seed).choice
    steps = [choose(STEPS).replace("ends", f"({choose(ENDS)})") for _ in range(choose((2, 2, 3)))]
    lines = ["y, log, s, n = x[::-1], [], 0.0 * x[0], 0", f"it = {choose(SOURCES)}", *steps]
    lines.append(choose(("s += 3.0 * sum(map(number, it))", "")))
    return f"{BEFORE}\ndef program(x):\n{textwrap.indent(chr(10).join(lines), '    ')}\n    return s + 0.01 * n\n"


def define(seed: int) -> Callable[..., Any]:
    text, file = write(seed), f"<random iterators {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    program: Callable[..., Any] = scope["program"]
    return program


def agrees(program: Callable[..., Any], backend: str) -> bool:
    """Check a program at all points; return whether it was captured at all."""
    compiled = tg.value_and_grad(program, backend=backend)
    for x in POINTS:
        try:
            value, gradient = compiled(x.copy())
        except CaptureError:
            return False
        np.testing.assert_allclose(value, program(x.copy()), rtol=1e-11)
        np.testing.assert_allclose(gradient, central_differences(program, x), rtol=1e-6, atol=1e-7)
    return True


@pytest.mark.parametrize("start", range(0, 80, 20))
def test_random_programs(start: int) -> None:
    captured = [agrees(define(seed), "numpy") for seed in range(start, start + 20)]
    assert any(captured)


def test_random_programs_in_c() -> None:
    programs = filter(lambda program: agrees(program, "numpy"), map(define, itertools.count(1000)))
    assert all(agrees(program, "c") for program in itertools.islice(programs, 4))
