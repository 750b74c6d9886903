"""Writes into slices of lists, in loops and branches, of the same and of another length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (np.array([0.5, 0.7]), np.array([0.2, -1.3]), np.array([1.9, 0.4]))


def all_items(x: Any) -> Any:
    values = [x[0] * k for k in range(20)]
    for _ in range(12):
        values[:] = [a * x[1] for a in values]
    return sum(values)


def all_items_shifted(x: Any) -> Any:
    values = [x[0] * k for k in range(5)]
    for _ in range(150):
        values[:] = [*values[1:], values[0] * x[1] * 0.5]
    return sum(values) + values[0]


def fewer_items(x: Any) -> Any:
    values = [x[0] * k for k in range(20)]
    for _ in range(12):
        values[:] = [0.5 * (values[i] + values[i + 1] * x[1]) for i in range(len(values) - 1)]
    return sum(values)


def two_items(x: Any) -> Any:
    values = [x[0] * k for k in range(5)]
    for _ in range(200):
        values[1:3] = [values[0] * x[1], values[2] * 0.5]
    return sum(values) + values[0]


def every_other_item(x: Any) -> Any:
    values = [x[0] * k for k in range(30)]
    for k in range(200):
        values[::2] = [0.9 * v + k * 1e-3 * x[1] for v in values[1::2]]
    return sum(v * v for v in values)


def in_reverse(x: Any) -> Any:
    values = [x[0] * k for k in range(30)]
    for _ in range(7):
        values[:] = values[::-1]
        values[0] = values[0] * x[1]
    return sum(k * v for k, v in enumerate(values))


def arrays_in_reverse(x: Any) -> Any:
    values = [x * k for k in range(4)]
    for _ in range(7):
        values[:] = values[::-1]
        values[0] = values[0] * x[1]
    return sum(k * np.sum(v) for k, v in enumerate(values))


def counts_become_floats(x: Any) -> Any:
    values = list(range(30))
    for _ in range(5):
        values[3:5] = [values[4] * x[0], values[3] + x[1]]
    return sum(values)


def under_a_condition(x: Any) -> Any:
    values = [x[0] * k for k in range(6)]
    if x[0] > 0.4:
        values[1:3] = [x[1], x[0] * x[1]]
    return sum(k * v for k, v in enumerate(values))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        all_items,
        all_items_shifted,
        fewer_items,
        two_items,
        every_other_item,
        in_reverse,
        arrays_in_reverse,
        counts_become_floats,
        under_a_condition,
    ],
    ids=lambda f: f.__name__,
)
def test_values_and_gradients(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)
