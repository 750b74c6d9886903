"""Lists that a loop fills with numbers of which some may be None, and with tuples that have such ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

POINTS = (np.array([0.5, 0.7]), np.array([-1.2, 1.3]), np.array([2.0, -0.9]))


def best_so_far(x: Any) -> Any:
    best, history = None, []
    for i in range(20):
        v = np.sin(x[0] * i) * x[1]
        if v > 0.1:
            best = v if best is None else max(best, v)
        history.append(best)
    total = 0.0
    for h in history:
        if h is not None:
            total = total + h
    return total


def chosen(x: Any) -> Any:
    kept = []
    for i in range(20):
        v = np.sin(x[0] * i) * x[1]
        kept.append(v if v > 0 else None)
    return sum(k * k for k in kept if k is not None) + sum(1.0 for k in kept if k is None) * x[0]


def under_a_condition(x: Any) -> Any:
    best, kept = None, []
    for i in range(20):
        v = np.sin(x[0] * i) * x[1]
        if v > 0.5:
            best = v
        if v < 0.4:
            kept.append(best)
    total = x[0]
    for k in kept:
        total = total * 0.9 + (0.1 if k is None else k)
    return total


def in_a_while_loop(x: Any) -> Any:
    t, found = x[0] ** 2, []
    while t < 6.0:
        t = t * 1.2 + 0.1
        v = np.sin(t) * x[1]
        found.append(v if v > 0 else None)
    total = 0.0
    for f in found:
        total = total + (t if f is None else f)
    return total


def one_side_appends_none(x: Any) -> Any:
    found = []
    for i in range(20):
        v = np.sin(x[0] * i) * x[1]
        if v > 0.2:
            found.append(v)
        else:
            found.append(None)
    return sum(f**2 for f in found if f is not None)


def none_after_numbers(x: Any) -> Any:
    found = [x[0], x[1]]
    for i in range(15):
        v = np.sin(x[0] * i) * x[1]
        found.append(v if v > 0.2 else None)
    return sum(f * (k + 1) for k, f in enumerate(found) if f is not None)


def numbers_after_none(x: Any) -> Any:
    found = [None, None]
    for i in range(15):
        found.append(np.sin(x[0] * i) * x[1])
    return sum(f**2 * (k + 1) for k, f in enumerate(found) if f is not None)


def stored(x: Any) -> Any:
    found = [x[0] * i for i in range(15)]
    for i in range(15):
        v = np.sin(x[0] * i) * x[1]
        found[i] = v if v > 0.2 else None
    return sum(f**2 for f in found if f is not None)


def filled_by_two_loops(x: Any) -> Any:
    found = []
    for i in range(10):
        found.append(x[0] * i)
    for i in range(10):
        v = np.sin(x[0] * i) * x[1]
        found.append(v if v > 0.1 else None)
    return sum(f**2 for f in found if f is not None)


def arrays_or_none(x: Any) -> Any:
    found = []
    for i in range(12):
        v = np.sin(x * i)
        found.append(v if v[0] > 0.1 else None)
    return sum(np.sum(f * x) for f in found if f is not None)


def tuples(x: Any) -> Any:
    found = []
    for i in range(20):
        v = np.sin(x[0] * i) * x[1]
        found.append((i * x[0], v if v > 0 else None))
    total = 0.0
    for t, v in found:
        if v is None:
            total = total - t
        else:
            total = total + v * t
    return total


def tuples_by_both_sides(x: Any) -> Any:
    found = []
    for i in range(20):
        v = np.sin(x[0] * i) * x[1]
        if v > 0:
            found.append((i * x[0], v))
        else:
            found.append((v, None))
    return sum(t if v is None else v * t for t, v in found)


def tuples_in_a_while_loop(x: Any) -> Any:
    t, found = x[0] ** 2, [(x[1], None)]
    while t < 6.0:
        t = t * 1.2 + 0.1
        v = np.sin(t) * x[1]
        found.append((t, v if v > 0 else None))
    total = 0.0
    for s, v in found:
        total = total + (s if v is None else v * s)
    return total


def popped(x: Any) -> Any:
    t, stack, total = x[0] ** 2, [], x[1]
    while t < 6.0:
        t = t * 1.2 + 0.1
        v = np.sin(t) * x[1]
        stack.append((t, v if v > 0 else None))
    while stack:
        s, v = stack.pop()
        total = total * 0.8 + (s if v is None else v * s)
    return total


def list_of_the_iteration(x: Any) -> Any:
    total, before = 0.0, [x[0], None]
    for i in range(12):
        v = np.sin(x[0] * i) * x[1]
        before = [v if v > 0 else None, before[0]]
        if before[1] is not None:
            total = total + before[1] * v
    return total


PROGRAMS: list[Callable[[Any], Any]] = [
    best_so_far,
    chosen,
    under_a_condition,
    in_a_while_loop,
    one_side_appends_none,
    none_after_numbers,
    numbers_after_none,
    stored,
    filled_by_two_loops,
    arrays_or_none,
    tuples,
    tuples_by_both_sides,
    tuples_in_a_while_loop,
    popped,
    list_of_the_iteration,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python_has_it(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def read_as_numbers(x: Any) -> Any:
    found = []
    for i in range(12):
        v = np.sin(x[0] * i) * x[1]
        found.append(v if v > -0.5 else None)
    return found[0] + sum(found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_none_where_a_number_is_needed(backend: str) -> None:
    check_agreement(read_as_numbers, backend, POINTS[0] * 0.3)
    with pytest.raises(TypeError, match="a number is expected, and there is None"):
        tg.grad(read_as_numbers, backend=backend)(POINTS[1])


def test_a_list_with_none_is_not_returned() -> None:
    def found(x: Any) -> Any:
        values = []
        for i in range(12):
            v = np.sin(x[0] * i) * x[1]
            values.append(v if v > 0 else None)
        return values

    with pytest.raises(CaptureError, match="None on some paths only"):
        tg.function(found)(POINTS[0])
