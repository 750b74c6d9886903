"""`a += [v]` and `a = a + [v]` in loops without a known end do what `a.append(v)` does, where that is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

POINTS = (np.array([0.5, 0.7]), np.array([0.2, -1.3]), np.array([6.0, 0.4]))


class Record:
    def __init__(self, values: list[Any]) -> None:
        self.values = values


def in_place(x: Any) -> Any:
    a, s = [x[0]], x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        a += [s * x[1]]
    return sum(a) + a[-1] ** 2


def from_nothing(x: Any) -> Any:
    a, s = [0.0], x[0]
    a.clear()
    while s < 7.0:
        s = s * 1.3 + 0.1
        a += [s * x[1], s]
    return np.sum(np.array(a) ** 2) + len(a)


def attribute(x: Any) -> Any:
    record, s = Record([x[0]]), x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        record.values += [s * x[1]]
    return sum(record.values)


def item(x: Any) -> Any:
    d, s = {"k": [x[0]], "n": 0.0}, x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        d["k"] += [s * x[1]]
        d["n"] += 1.0
    return sum(d["k"]) * d["n"]


def under_a_condition(x: Any) -> Any:
    a: list[Any] = []
    s = x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        if s > 2.0:
            a += [s * x[1]]
    return sum(a) + s


def attribute_under_a_condition(x: Any) -> Any:
    record, s = Record([x[1]]), x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        if s > 2.0:
            record.values += [s * x[1]]
        else:
            record.values += [s, s]
    return sum(record.values) + s


def tuples(x: Any) -> Any:
    a, s = [(x[0], x[1])], x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        a += [(s, s * x[1])]
    return sum(p * q for p, q in a)


def arrays(x: Any) -> Any:
    a, s = [x], x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        a += (s * x,)
    return np.sum(np.array(a) * a[-1])


def two_names(x: Any) -> Any:
    a, s = [x[0]], x[0]
    b = a
    while s < 5.0:
        s = s * 1.3 + 0.1
        a += [s * x[1]]
    return sum(b) * len(b) + sum(a)


def read_and_popped(x: Any) -> Any:
    a, s = [x[0], x[1]], x[0]
    while s < 9.0:
        s = s * 1.3 + 0.1
        a += [s * a[-1]]
        if s > 4.0:
            a.pop()
    return sum(a)


def loop_in_a_loop(x: Any) -> Any:
    a, s = [x[0]], x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        t = s
        while t > 1.0:
            t = t * 0.7
            a += [t * x[1]]
    return sum(a)


def new_list(x: Any) -> Any:
    a, s = [x[0]], x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        a = a + [s * x[1] + a[-1]]
    return sum(a)


def new_list_of_items(x: Any) -> Any:
    ts, ys = [0.0], [x[0]]
    while ts[-1] < 2.0:
        ys = [*ys, ys[-1] + 0.1 * np.sin(ys[-1] * x[1])]
        ts = [*ts, ts[-1] + 0.17 + 0.01 * x[1] ** 2]
    return np.trapezoid(np.array(ys), np.array(ts)) + sum(y**2 for y in ys)


def returned(x: Any) -> Any:
    a: list[Any] = []
    s = x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        if s > 1.0:
            a = a + [s * x[1]]
    return np.sum(np.array(a)) + s


PROGRAMS: list[Callable[[Any], Any]] = [
    in_place,
    from_nothing,
    attribute,
    item,
    under_a_condition,
    attribute_under_a_condition,
    tuples,
    arrays,
    two_names,
    read_and_popped,
    loop_in_a_loop,
    new_list,
    new_list_of_items,
    returned,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python_has_it(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def another_name_for_the_old_list(x: Any) -> Any:
    a = [x[0]]
    b = a
    for k in range(4):
        a = a + [x[1] * k]
    return sum(b) * 10.0 + sum(a)


def kept_in_another_list(x: Any) -> Any:
    a, kept = [x[0]], []
    for k in range(4):
        kept.append(a)
        a = a + [x[1] * k]
    return sum(len(part) * sum(part) for part in kept)


def seen_by_a_function(x: Any) -> Any:
    a = [x[0]]
    start = a

    def before() -> Any:
        return sum(start)

    for k in range(4):
        a = a + [x[1] * k]
    return before() * 10.0 + sum(a)


def run_through_while_it_is_made(x: Any) -> Any:
    a = [x[0], x[1]]
    for v in a:
        a = a + [v * x[1]]
    return sum(a)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [another_name_for_the_old_list, kept_in_another_list, seen_by_a_function, run_through_while_it_is_made],
    ids=lambda f: f.__name__,
)
def test_the_old_list_stays_what_it_is(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def bound_anew(x: Any) -> Any:
    a, s = [x[0]], x[0]
    while s < 5.0:
        s = s * 1.3 + 0.1
        a += [s * x[1]]
        if s > 2.0:
            a = [s]
    return sum(a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_list_that_grows_may_be_bound_anew(backend: str) -> None:
    check_agreement(bound_anew, backend, *POINTS)


def another_name_in_a_while_loop(x: Any) -> Any:
    a, s = [x[0]], x[0]
    b = a
    while s < 5.0:
        s = s * 1.3 + 0.1
        a = a + [s * x[1]]
    return sum(b) * 10.0 + sum(a)


def test_a_list_that_is_another_one_by_then_is_refused() -> None:
    with pytest.raises(CaptureError, match="the loop cannot be staged"):
        tg.grad(another_name_in_a_while_loop)(POINTS[0])
