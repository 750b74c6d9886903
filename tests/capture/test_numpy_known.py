"""Contents known at capture: used by NumPy itself, and never frozen in a loop that changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg


def read_then_written(x: Any, n: int) -> Any:
    count = np.zeros(3)
    total = 0.0
    for i in range(n):
        y = count * 2 + 1
        count[0] += x[i]
        total = total + np.sum(y)
    return total


def branch_on_flag(x: Any, n: int) -> Any:
    flag = np.zeros(2, bool)
    total = 0.0
    for i in range(n):
        if flag[0]:
            total = total + x[i]
        flag[0] = True
    return total


def index_from_array(x: Any, n: int) -> Any:
    index = np.zeros(2, int)
    total = 0.0
    for _ in range(n):
        total = total + x[index[0]]
        index[0] += 1
    return total


def view_of_written(x: Any, n: int) -> Any:
    a = np.zeros(4)
    b = a[1:]
    total = 0.0
    for i in range(n):
        total = total + np.sum(b * 1.0)
        a[1] = i + 1.0
    return total * x[0]


def while_on_array(x: Any, n: int) -> Any:
    k = np.zeros(1, int)
    total = 0.0
    while k[0] < n:
        total = total + x[k[0]] ** 2
        k[0] += 1
    return total


def nested(x: Any, n: int) -> Any:
    seen = np.zeros(2)
    total = 0.0
    for i in range(n):
        total = total + seen[0] * x[i]
        for j in range(n):
            seen[0] += x[j]
    return total


def only_read(x: Any, n: int) -> Any:
    weights = np.zeros(3)
    weights[1] = 2.0
    order = np.argsort(-weights)
    total = 0.0
    for i in range(n):
        total = total + weights[order[0]] * x[i] + len(weights)
    return total


@pytest.mark.parametrize(
    "function",
    [read_then_written, branch_on_flag, index_from_array, view_of_written, while_on_array, nested, only_read],
)
def test_content_is_not_frozen_in_a_loop(function: Callable[..., Any]) -> None:
    x = np.arange(1.0, 5.0)
    assert tg.function(function)(x, 4) == pytest.approx(function(x, 4), rel=1e-12)
    step = 1e-6
    differences = [(function(x + step * e, 4) - function(x - step * e, 4)) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(tg.grad(function)(x, 4), differences, rtol=1e-6, atol=1e-6)
