"""np.setdiff1d, union1d, intersect1d and setxor1d: of known values at capture, of traced ones when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

FIXED = [0, 3]
FIXED_ARRAY = np.array([3, 0, 3])
POINTS = (np.array([1.0, 0.6, 0.3, 0.9]), np.array([0.2, 1.6, 1.3, -0.9]))


def free_places(x: Any) -> Any:
    free = np.setdiff1d(np.arange(len(x)), FIXED)
    return np.sum(x[free] ** 2) * len(free)


def free_places_as_a_shape(x: Any) -> Any:
    free = np.setdiff1d(np.arange(len(x)), FIXED_ARRAY)
    y = np.zeros(len(free))
    for row, place in enumerate(free):
        y[row] = x[place] ** 2
    return y @ y


def places_of_either(x: Any) -> Any:
    return np.sum(x[np.union1d(np.arange(2), FIXED_ARRAY)] ** 2)


def places_of_both(x: Any) -> Any:
    both, left, right = np.intersect1d(np.arange(1, 4), FIXED_ARRAY, return_indices=True)
    return np.sum(x[both] ** 2) * x[left[0]] + np.sum(x[right] ** 3)


def places_of_one(x: Any) -> Any:
    return np.sum(x[np.setxor1d(np.arange(3), FIXED)] ** 2)


def traced_places(x: Any) -> Any:
    active = np.flatnonzero(x > 0.7)
    rest = np.setdiff1d(np.arange(4), active, assume_unique=True)
    total = np.sum(x[rest] ** 2) * len(rest) + np.sum(x[np.union1d(active, [0])] ** 3)
    return total + np.sum(x[np.intersect1d(active, [0, 1])]) ** 2


def traced_values(x: Any) -> Any:
    some = x[x > 0.5]
    total = np.sum(np.union1d(some, 2 * x[:2]) ** 2) + np.sum(np.union1d(x, x + 1) ** 3)
    total = total + np.sum(np.setdiff1d(some, x[:2]) ** 2) + np.sum(np.setdiff1d(x, some) ** 3)
    total = total + np.sum(np.intersect1d(some, x[:2]) ** 2) + np.sum(np.intersect1d(x, some) ** 3)
    return total + np.sum(np.setxor1d(some, x[:2]) ** 2) + np.sum(np.setxor1d(x, x[:3].reshape(3, 1)) ** 3)


def unsorted_values(x: Any) -> Any:
    rest = np.setdiff1d(x, x[:1], assume_unique=True)  # in their order
    total = rest[0] ** 2 + rest[1] ** 3 + 2 * rest[2]
    both = np.intersect1d(x, x[1:3], assume_unique=True)
    one = np.setxor1d(x, x[1:3], assume_unique=True)
    return total + both[0] ** 2 + 3 * both[1] + one[0] ** 3 - one[1]


PROGRAMS: list[Callable[..., Any]] = [
    free_places,
    free_places_as_a_shape,
    places_of_either,
    places_of_both,
    places_of_one,
    traced_places,
    traced_values,
    unsorted_values,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_places_in_traced_values_are_refused() -> None:
    def f(x: Any) -> Any:
        return np.intersect1d(x, x[:2], return_indices=True)[0].sum()

    with pytest.raises(TracegradError, match="return_indices"):
        tg.grad(f)(POINTS[0])
