"""Functions with decorators, defined inside captured functions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (np.array([3.021, 1.033, 2.074, 0.572, 2.513, 0.231]), np.array([0.415, 2.622, 1.717, 3.318, 0.123, 0.219]))


def logged(fn: Any) -> Any:
    calls: list[Any] = []

    def inner(v: Any) -> Any:
        calls.append(v)
        inner.total = sum(calls)  # type: ignore[attr-defined]
        return fn(v)

    return inner


class Memo:
    def __init__(self, f: Any) -> None:
        self.f, self.n = f, 0
        self.seen: dict[int, Any] = {}

    def __call__(self, k: int) -> Any:
        if k not in self.seen:
            self.n += 1
            self.seen[k] = self.f(k)
        return self.seen[k]


class Registry:
    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def register(self, f: Any) -> Any:
        self.found[f.__name__] = f
        return f

    def scaled(self, s: Any) -> Any:
        def apply(f: Any) -> Any:
            self.found[f.__name__] = lambda v: s * f(v)
            return f

        return apply


def list_in_the_closure(x: Any) -> Any:
    @logged
    def sq(v: Any) -> Any:
        return v * v

    return sq(x[0]) + sq(x[1]) * sq.total


def object_of_a_class(x: Any) -> Any:
    @Memo
    def g(k: Any) -> Any:
        return x[k] * 2 if k < 2 else g(k - 1) * g(k - 2) * 0.5 + x[k]

    return g(5) * g.n


def methods(x: Any) -> Any:
    r = Registry()

    @r.register
    def a(v: Any) -> Any:
        return v * 2

    @r.scaled(x[1])
    def b(v: Any) -> Any:
        return v**2

    return sum(f(x[0]) * (i + 1) for i, f in enumerate(r.found.values()))


def order_of_several(x: Any) -> Any:
    order = []

    def number(n: int) -> Any:
        order.append(n)

        def apply(f: Any) -> Any:
            order.append(n * 10)
            return lambda v: f(v) + n * x[2]

        return apply

    @number(1)
    @number(2)
    def f(v: Any) -> Any:
        return v * 3

    return f(x[0]) + sum(k * o for k, o in enumerate(order))


def of_the_library(x: Any) -> Any:
    @functools.lru_cache
    def f(k: int) -> Any:
        return x[k] if k < 2 else f(k - 1) + f(k - 2) * x[k]

    @contextlib.contextmanager
    def doubled(v: Any) -> Any:
        yield v * 2

    with doubled(x[3]) as q:
        return f(5) + q


def with_wraps(x: Any) -> Any:
    def counted(fn: Any) -> Any:
        n = [0]

        @functools.wraps(fn)
        def inner(*args: Any) -> Any:
            n[0] += 1
            inner.n = n[0]  # type: ignore[attr-defined]
            return fn(*args)

        return inner

    @counted
    def g(a: Any, b: Any = 2.0) -> Any:
        return a * b

    t = 0.0
    for i in range(3):
        t += g(x[i]) * g.n
    return t


PROGRAMS = [list_in_the_closure, object_of_a_class, methods, order_of_several, of_the_library, with_wraps]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_decorators_inside(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)
