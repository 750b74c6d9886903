"""`del`, `pop`, heaps, bisection and large Python ints do what Python does, or say why they cannot."""

from __future__ import annotations

import bisect
import heapq
import math
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import CaptureError, NeedsPythonValue

X = np.array([1.0, 2.0, 3.0, 4.5])


class Box:
    def __init__(self) -> None:
        self.deleted = 0

    def __delitem__(self, key: Any) -> None:
        self.deleted = self.deleted + key


def deletions(x: Any) -> Any:
    d = {"a": x[0], "b": x[1], "c": x[2]}
    items = [x[0], x[1], x[2]]
    box = Box()
    del items[1], d["c"]
    box.extra = x[0]
    for i in range(4):
        del d["a"]
        d["a"] = x[i] * d["b"]
        del box[i]
        del box.extra
        box.extra = x[i]
        scratch = {"k": x[i], "l": x[0]}
        del scratch["l"]
        d["b"] = d["b"] + scratch["k"] * len(scratch)
    return d["a"] * items[1] * len(items) + box.deleted * box.extra * len(d)


def popped(x: Any) -> Any:
    d = {"a": x[0]}
    s = 0.0
    for i in range(4):
        v = d.pop("a")
        s += d.pop("missing", 2.0)
        d["a"] = v * x[i]
    return d["a"] + s


def heap_of_known_order(x: Any) -> Any:
    heap: list[Any] = []
    for i in range(4):
        heapq.heappush(heap, ((i * 3) % 4, x[i]))
    return heapq.heappop(heap)[1] + 10 * heapq.heappop(heap)[1]


def bisected(x: Any) -> Any:
    grid = [1.0, 2.0, 3.0]
    s = 0.0
    for v in x:
        s += bisect.bisect(grid, v) + 10 * bisect.bisect_left(grid, v) * v
    return s + x[bisect.bisect_right(grid, x[1])]


def factorial(x: Any) -> Any:
    f = 1
    for i in range(1, 25):
        f *= i
    return x[0] * f * 1e-20 + x[1] / f + (x[2] < f) + math.exp(x[0]) * 10**30


def generator(x: Any) -> Any:
    s, t = 0, 0.0
    for i in range(4):
        s = (6364136223846793005 * s + 1442695040888963407) % 2**64
        t += x[i] * s * 2.0**-64
    return t


@pytest.mark.parametrize(
    "function", [deletions, popped, heap_of_known_order, bisected, factorial, generator], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_as_python(function: Any, backend: Any) -> None:
    np.testing.assert_allclose(tg.function(function, backend=backend)(X), function(X), rtol=1e-14)


def test_a_deletion_in_a_staged_loop() -> None:
    def f(x: Any) -> Any:
        d = {"a": x[0], "b": x[1]}
        while x[0] > 0:
            del d["a"]
            x = x - 10.0
        return x[0] * len(d)

    with pytest.raises(CaptureError, match="delitem of a dict in a staged loop"):
        tg.function(f)(X)


def test_a_large_int_with_traced_ints() -> None:
    with pytest.raises(NeedsPythonValue, match="does not fit 64 bits"):
        tg.function(lambda x: (int(x[0]) + 1) % 2**64)(X)


def test_an_int_that_outgrows_64_bits_in_a_loop() -> None:
    def f(x: Any, n: Any) -> Any:
        product, t = 1, 0.0
        for i in range(1, n):
            product *= i
            t += x[0] * product
        return t

    for backend in ("numpy", "c"):
        g = tg.function(f, backend=backend)
        assert g(X, np.int64(20)) == pytest.approx(f(X, 20), rel=1e-14)
        with pytest.raises(OverflowError, match="an int in a loop outgrows 64 bits"):
            g(X, np.int64(25))
