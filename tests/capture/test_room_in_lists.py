"""Lists that lose items in the loop that fills them: there is room for what they hold before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (np.array([0.2, 0.5, -0.4, 0.9]), np.array([-0.3, 1.2, 0.7, 0.1]))


def taken_behind_an_inner_loop(x: Any) -> Any:
    values = list(x)
    for _ in range(3):
        for j in range(2):
            if x[j] < 1:
                values.append(x[2] * x[j])
        values.pop(0)
    return sum(v * (k + 1) for k, v in enumerate(values))


def taken_behind_a_condition(x: Any) -> Any:
    values = list(x)
    for i in range(50):
        if x[0] < 1:
            values.append(x[i % 4] * i)
        values.pop(0)
    return sum(v * (k + 1) for k, v in enumerate(values))


def two_for_one(x: Any) -> Any:
    values = [x[0]]
    for i in range(40):
        values.append(x[2] * i)
        values.append(x[1])
        values.pop(0)
    return sum(v * (k + 1) for k, v in enumerate(values))


def taken_at_two_levels(x: Any) -> Any:
    values = list(x)
    for i in range(12):
        for _ in range(2):
            for k in range(3):
                if x[1] * i < 8.3:
                    values.append(x[2] * i + k)
            values.pop(0)
        values.pop()
    return sum(v * (k + 1) for k, v in enumerate(values))


def taken_by_a_function(x: Any) -> Any:
    values = list(x)

    def add(v: Any) -> None:
        for w in x:
            if w < v:
                values.append(w * v)

    for v in x:
        add(v)
        values.pop(0)
    return sum(v * (k + 1) for k, v in enumerate(values))


def records_taken(x: Any) -> Any:
    values = [(v, 0) for v in x]
    for i in range(16):
        for _ in range(2):
            if x[1] * i < 8.3:
                values.append((x[2] * i, i))
        values.pop(0)
    return sum(v * (k + n) for k, (v, n) in enumerate(values))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f",
    [
        taken_behind_an_inner_loop,
        taken_behind_a_condition,
        two_for_one,
        taken_at_two_levels,
        taken_by_a_function,
        records_taken,
    ],
)
def test_there_is_room_for_items_until_others_are_taken(f: Callable[[Any], Any], backend: str) -> None:
    check_agreement(f, backend, *POINTS)
