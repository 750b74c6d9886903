"""Lists whose length is known only at run time: next, zip, comparisons and `in`."""

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


PROGRAMS: list[Callable[[Any], Any]] = [
    first_that_passes,
    zipped_with_the_reverse,
    ranges_zipped_in_a_loop,
    compared,
    chosen_by_a_comparison,
    looked_for,
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
