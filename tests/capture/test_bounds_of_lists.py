"""How many items a list can have at most: what is added in each iteration counts, and a list that makes itself longer
gets its room when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (np.array([0.2, 0.5, -0.4, 0.9]), np.array([-0.3, 1.2, 0.7, 0.1]))
LONG = np.random.default_rng(12).uniform(-0.3, 0.7, 12)


def weighted(values: Any) -> Any:
    return sum(v * (k + 1) for k, v in enumerate(values))


def slices_in_branches(x: Any) -> Any:
    values = list(x)
    if x[0] < 1.5:
        if x[1] < 1.0:
            values.insert(1, x[1] * x[2])
        values.extend(values[:2])
    return weighted(values)


def slices_in_a_loop(x: Any) -> Any:
    values = list(x[:3])
    for v in x:
        if v > 0.3:
            values.append(v * v)
        values.extend(values[:2])
        values += values[-2:]
    return weighted(values)


def slices_under_a_condition(x: Any) -> Any:
    values = list(x)
    for v in x:
        if v > 0.3:
            values.extend(values[1:3])
    return weighted(values)


def one_list_into_the_next(x: Any) -> Any:
    first, second, third, last = [x[0]], [x[1]], [x[2]], [0.0]
    for v in x:
        if v > 0.3:
            first.append(v * v)
        second.extend(first)
        third.extend(second)
        last.extend(third)
    return weighted(last)


def products_of_what_is_there(x: Any) -> Any:
    ways = [x[0]]
    for v in x:
        ways.extend([w * v for w in ways if w * v > 0.05])
    return weighted(ways)


def a_copy_that_is_added(x: Any) -> Any:
    values = [x[0]]
    for v in x[:4]:
        if v > 0.3:
            values.append(v)
        both = values[:]
        values.extend(both)
    return weighted(values)


def products_in_a_loop_over_a_copy(x: Any) -> Any:
    values = [x[0]]
    for v in x:
        for u in values[:]:
            if u * v > 0.11:
                values.append(u * v)
    return weighted(values)


def itself(x: Any) -> Any:
    values = [x[0] * x[1], x[1]]
    if x[2] > 0:
        values.extend(values)
    values += values
    for v in x[:3]:
        if v > 0.3:
            values += values
    return weighted(values)


def longer_and_shorter(x: Any) -> Any:
    values = [x[0]]
    for v in x[:5]:
        if v > 0.3:
            values += [u * v for u in values]
        while len(values) > 6:
            values.pop()
    return weighted(values)


PROGRAMS = [
    slices_in_branches,
    slices_in_a_loop,
    slices_under_a_condition,
    one_list_into_the_next,
    products_of_what_is_there,
    a_copy_that_is_added,
    products_in_a_loop_over_a_copy,
    itself,
    longer_and_shorter,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_lists_that_slices_and_copies_make_longer(f: Callable[[Any], Any], backend: str) -> None:
    check_agreement(f, backend, *POINTS, LONG)


def largest_array(f: Callable[[Any], Any], x: np.ndarray) -> int:
    """Return how many elements the largest array of a program has."""
    operations = list(tg.function(f).lower(x).splitlines())
    found = [text.partition("[")[2].partition("]")[0] for line in operations for text in line.split(": ")[1:2]]
    return max(int(size) for size in found if size.isdigit())


@pytest.mark.parametrize("f", [slices_in_branches, slices_in_a_loop, slices_under_a_condition])
def test_no_array_is_much_longer_than_the_list_gets(f: Callable[[Any], Any]) -> None:
    assert largest_array(f, POINTS[0]) < 100


def until_it_is_far(x: Any) -> Any:
    seen = []
    for k in range(10**9):
        if x[0] * k > 2.1:
            break
        seen.append(x[1] * k)
    return weighted(seen)


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_of_very_many_iterations_that_end_early_reserve_what_they_need(backend: str) -> None:
    check_agreement(until_it_is_far, backend, POINTS[0])
    assert largest_array(until_it_is_far, POINTS[0]) < 10**4


@pytest.mark.parametrize("backend", BACKENDS)
def test_too_little_memory_is_an_error_that_says_so(backend: str) -> None:
    def too_large(x: Any) -> Any:
        values = np.full(10**14, x[0])
        for k in range(3):
            values[k] = x[k]
        return values[0] + np.sum(values)

    with pytest.raises(MemoryError, match=r"(?i)no memory|unable to allocate"):
        tg.function(too_large, backend=backend)(POINTS[0])
