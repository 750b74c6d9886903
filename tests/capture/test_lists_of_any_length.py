"""Lists whose length is known only at run time: next, zip, comparisons and `in`; lists that branches and loops make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = [np.random.default_rng(seed).normal(size=12) for seed in (1, 2)]


def positive(x: Any) -> Any:
    return [v for v in x if v > 0]


def first_that_passes(x: Any) -> Any:
    log = [(v, v * v) for v in x if v > 0]
    found = next((q[1] for q in log if q[1] > 1), log[-1][0])
    return found * next(v for v, _ in log) * next((w for _, w in log if w > 100), 3.0)


def zipped_with_the_reverse(x: Any) -> Any:
    values, v = [], 1.0
    while v < 5:
        v = v + 0.3 + abs(x[0])
        values.append(v * x[1])
    total = sum(a * b for a, b in zip(values, reversed(values[:4]), strict=False))
    for k, (a, b) in enumerate(zip(reversed(x), values[1:], strict=False)):
        total += k * a * b
    return total + sum(k * b for k, b in zip(range(2, 50), values, strict=False))


def ranges_zipped_in_a_loop(x: Any) -> Any:
    total = 0.0
    for i in range(2, len(x)):
        for a, b in zip(range(i), range(i, 0, -1), strict=True):
            total += x[a] * x[b] * i
    return total


def compared(x: Any) -> Any:
    a, b, c = positive(x), [v * v for v in x if v > 0], positive(x)
    tests = [a <= b, a == c, a != b, a >= c, a[:1] < a, a > [0.1], a == [], b > []]
    return sum(k * v for k, (v, holds) in enumerate(zip(x, tests, strict=False)) if holds) + x[-1]


def chosen_by_a_comparison(x: Any) -> Any:
    return 2 * x[0] if positive(x) < [v * v for v in x if v < 0] else 3 * x[1]


def looked_for(x: Any) -> Any:
    return x[1] * 3 if x[0] in positive(x) else x[2]


def halved(x: Any) -> Any:
    trace = []
    for _ in range(30):
        trace.append(x)
        if x > 5.0:
            raise ArithmeticError
        if x < 0.1:
            break
        x = x * 0.5
    return x, trace


def tried_again(x: Any) -> Any:
    s = 9.0 + x[0]
    for _ in range(3):
        try:
            y, trace = halved(s)
        except ArithmeticError:
            s = s / 2
            continue
        break
    else:
        return s * 100
    return y + trace[-1] * len(trace)


def tried_until_it_works(x: Any) -> Any:
    s = 30.0 + x[0]
    while True:
        try:
            y, trace = halved(s)
            break
        except ArithmeticError:
            s = s / 2
    trace.append(x[1])
    return y + sum(trace)


def powers(v: Any, factor: float) -> Any:
    values = []
    while v < 40:
        v = v * factor
        values.append(v)
    return values


def made_in_each_iteration(x: Any) -> Any:
    v = 2.0 + x[0]
    while True:
        values = powers(v, 1.5)
        same = values[:]
        v = v + same[0]
        if len(values) < 3:
            break
    values.append(v)
    return sum(values) * v + values[-1] ** 2


def records_in_each_iteration(x: Any) -> Any:
    v = 2.0 + x[0]
    while True:
        records = [(p, 2 * p) for p in powers(v, 1.5) if p > 5]
        v = v + records[0][1]
        if len(records) < 4:
            break
    return sum(p * q for p, q in records) * v


def made_in_two_branches(x: Any) -> Any:
    if x[0] > 0:
        values = powers(1.0 + x[1] ** 2, 1.5)
    else:
        values = powers(1.0 + x[2] ** 2, 1.001)
    values.append(x[0])
    return sum(values) * values[0]


def rows_in_two_branches(x: Any) -> Any:
    if x[0] > 0:
        rows = [np.array([v, 1.0]) for v in x if v > 0.2]
    else:
        rows = [np.array([v, x[1]]) for v in x if v < 0.5]
    rows[0][0] = 3 * x[2]
    return sum(row[0] * row[1] for row in rows)


PROGRAMS: list[Callable[[Any], Any]] = [
    first_that_passes,
    zipped_with_the_reverse,
    ranges_zipped_in_a_loop,
    compared,
    chosen_by_a_comparison,
    looked_for,
    tried_again,
    tried_until_it_works,
    made_in_each_iteration,
    records_in_each_iteration,
    made_in_two_branches,
    rows_in_two_branches,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python_has_it(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_next_of_nothing(backend: str) -> None:
    with pytest.raises(Exception, match="no item passes the test"):
        tg.function(lambda x: next(v for v in positive(x) if v > 100), backend=backend)(POINTS[0])


def list_with_a_default(x: Any) -> Any:
    """What the error advises where one side of a branch has a list of another length (TG112)."""
    large = [v for v in x if v > 0.5]
    if not large:
        large.append(0.1)
    values = np.array(large)
    return np.sum(values**2) * x[0] + np.mean(values) + sum(large) * len(large)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_list_gets_a_default(backend: str) -> None:
    check_agreement(list_with_a_default, backend, np.array([0.2, 0.7, 0.9]), np.array([0.2, 0.3, 0.4]))
