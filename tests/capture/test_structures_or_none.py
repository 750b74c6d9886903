"""A tuple, dict, list or object on some paths and `None` on the others, in branches, loops and results of helpers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import NeedsPythonValue

X = np.array([0.7, -0.4, 1.9, -1.3, 0.2, 1.1])


class Point:
    def __init__(self, v: Any, w: Any) -> None:
        self.v, self.w = v, w

    def norm(self) -> Any:
        return self.v**2 + self.w


class Tracker:
    def __init__(self) -> None:
        self.best: Any = None
        self.seen = 0

    def see(self, v: Any, k: int) -> None:
        self.seen += 1
        if self.best is None or v < self.best["v"]:
            self.best = {"v": v, "k": k}


def _least(x: Any) -> Any:
    best = None
    for i in range(len(x)):
        if x[i] < 0:
            continue
        v = (x[i] - 1) ** 2
        if best is None or v < best[0]:
            best = (v, i)
    if best is None:
        return 0.0
    v, i = best
    return v * x[i]


def _rows(x: Any) -> Any:
    best = None
    for i in range(2):
        if x[i] < -3:
            continue
        v = (x[i] - 1) ** 2
        if best is None or v < best[0]:
            best = (v, i, x * v, x < v)
    if best is None:
        return 0.0
    v, i, y, m = best
    return v * x[i] + y.sum() + y[m].sum()


def _last_of_while(x: Any) -> Any:
    last: Any = None
    t = 0
    s = 0.0
    while t < len(x):
        if x[t] > 0:
            if last:
                s += last[0] * x[t]
            last = (x[t], t)
        t += 1
    if not last:
        return s
    return s + last[0] * last[1]


def _written_later(x: Any) -> Any:
    best: Any = None
    for v in x:
        if v < 0:
            continue
        p = Point(v, v * v)
        if best is None or p.w > best.w:
            best = p
        p.v += 1.0
    return -1.0 if best is None else best.norm()


def _tracked(x: Any) -> Any:
    tracker = Tracker()
    for k, v in enumerate(x):
        if v > 0:
            tracker.see(v, k)
    return tracker.best["v"] * (1 + tracker.best["k"]) + tracker.seen if tracker.best is not None else -1.0


def _found(x: Any) -> Any:
    def find(limit: float) -> Any:
        for i in range(len(x)):
            if x[i] > limit:
                return i, x[i]
        return None

    total = 0.0
    for limit in (0.9, 13.0):
        result = find(limit)
        if result is not None:
            i, v = result
            total += v**2 + x[i - 1]
    return total


def _runs(x: Any) -> Any:
    run: Any = None
    total = 0.0
    for v in x:
        if v > 0:
            if run is None:
                run = [v, v]
            else:
                run[1] = v * 2
        elif run is not None:
            total += run[0] * run[1]
            run = None
    if run is not None:
        total += run[0] * run[1]
    return total


def _step(state: Any, v: Any) -> Any:
    if state is None:
        return v, np.array([v, v * v])
    s, a = state
    return s * v, a + s


def _state(x: Any) -> Any:
    state: Any = None
    for v in x:
        if v > 0:
            state = _step(state, v)
    return 0.0 if state is None else state[0] + state[1].sum()


def _same(x: Any) -> Any:
    first = Point(x[0], x[1])
    chosen = first if x[2] > 0 else None
    first.v *= 3.0
    return chosen.v * x[3] if chosen is first else x[4]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program", [_least, _rows, _last_of_while, _written_later, _tracked, _found, _runs, _state, _same]
)
def test_structure_on_some_paths(program: Any, backend: str) -> None:
    check_agreement(program, backend, X, -X, -np.abs(X), X[::-1])


def _item(x: Any) -> Any:
    best: Any = None
    for v in x:
        if v > 10:
            best = (v, 1.0)
    return best[0]


def _attribute(x: Any) -> Any:
    best: Any = None
    for v in x:
        if v > 10:
            best = Point(v, 1.0)
    return best.v


def _iterated(x: Any) -> Any:
    pair = (x[0], x[1]) if x[0] > 10 else None
    return sum(v for v in pair)  # type: ignore[union-attr]


def _unpacked(x: Any) -> Any:
    pair = (x[0], x[1]) if x[0] > 10 else None
    a, b = pair  # type: ignore[misc]
    return a * b


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_item, _attribute, _iterated, _unpacked])
def test_use_of_none_is_the_error_of_python(program: Any, backend: str) -> None:
    with pytest.raises((TypeError, AttributeError)) as plain:
        program(X)
    with pytest.raises(plain.type, match=str(plain.value)):
        tg.grad(program, backend=backend)(X)
    assert np.all(np.isfinite(tg.grad(program, backend=backend)(X + 20)))


def test_its_class_is_asked_for() -> None:
    def f(x: Any) -> Any:
        made = (x[0], x[1]) if x[0] > 0 else None
        return x[0] * isinstance(made, tuple) + x[1] * isinstance(made, list)

    for backend in ("numpy", "c"):
        for x in (np.array([2.0, 3.0]), np.array([-2.0, 3.0])):
            value, gradient = tg.value_and_grad(f, backend=backend)(x)
            assert value == f(x)
            np.testing.assert_allclose(gradient, [x[0] > 0, 0.0])


def test_what_asks_whether_it_is_none_at_capture_is_refused() -> None:
    def returned(x: Any) -> Any:
        return (x[0], x[1]) if x[0] > 0 else None

    def of_class(x: Any) -> Any:
        return x[0] * (type(returned(x)) is tuple)

    for program in (returned, of_class):
        with pytest.raises(NeedsPythonValue, match="TG112"):
            tg.function(program)(X)
