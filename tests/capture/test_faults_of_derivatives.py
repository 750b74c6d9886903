"""Derivatives raise what the function raises, also where they need nothing of what fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

POINT = np.array([0.5, 1.5, 0.25])


def one_too_many(x: Any) -> Any:
    a = np.zeros(3)
    for i in range(4):
        a[i] = x[0]
    return np.sum(a)


def written_in_a_while_loop(x: Any) -> Any:
    a, k = np.zeros(3), 0
    while k < x[0] * 20:
        a[k] = x[1]
        k += 1
    return np.sum(a)


def written_outside(x: Any) -> Any:
    y = np.zeros(2)
    y[int(x[1] * 4)] = x[0]
    return np.sum(y)


def read_outside(x: Any) -> Any:
    return np.sum(x) + np.arange(3.0)[int(x[1] * 9)]


def read_outside_in_a_loop(x: Any) -> Any:
    weights, total = [1.0, 2.0, 3.0], 0.0
    for k in range(50):
        total += 0.1 * x[0] + weights[k - 10 if k > 2 else k]
    return total


def singular(x: Any) -> Any:
    return np.sum(x) + np.sum(np.linalg.inv(np.floor(x[2]) * np.eye(2)))


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("transform", [tg.function, tg.grad, tg.jacobian, tg.hessian], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "f",
    [one_too_many, written_in_a_while_loop, written_outside, read_outside, read_outside_in_a_loop, singular],
    ids=lambda f: f.__name__,
)
def test_the_error_is_raised(f: Callable[..., Any], transform: Callable[..., Any], backend: Any) -> None:
    with pytest.raises((IndexError, np.linalg.LinAlgError)) as plain:
        f(POINT)
    with pytest.raises(plain.type):
        transform(f, backend=backend)(POINT)


def rows_at(x: Any, places: Any) -> Any:
    return np.sum(x[places] ** 2)


def test_what_fails_in_the_derivative_itself_is_not_checked_twice() -> None:
    text = tg.grad(rows_at).source(POINT, np.array([0, 2, 2]))
    assert "IndexError" not in text
