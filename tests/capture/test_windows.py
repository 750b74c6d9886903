"""Slices at a fixed distance from a traced index: inside the axis, and leaving it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.testing import check_grads

X = np.array([0.3, 0.7, 0.5, 0.9, 0.2])


def back(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += np.prod(x[i : i + 2])
    return s


def both(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += np.sum(x[i - 1 : i + 2] ** 2)
    return s


def descending(x: Any) -> Any:
    s = 0.0
    for i in range(len(x) - 1, -1, -2):
        s += np.prod(x[i : i + 2])
    return s


def negative(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += np.sum(x[-i - 2 : -i] ** 2)
    return s


def nested(x: Any) -> Any:
    s = 0.0
    for i in range(3):
        for j in range(200):
            s += np.prod(x[i : i + 4]) * j
    return s


def written(x: Any) -> Any:
    y = x.copy()
    for i in range(len(x)):
        y[i : i + 2] = y[i : i + 2] * x[i]
    return np.sum(y)


def guarded(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        if i > 0:
            s += np.prod(x[i - 1 : i + 1])
    return s


def inside(x: Any) -> Any:
    s = 0.0
    for i in range(1, len(x)):
        s += np.prod(x[i - 1 : i + 1])
    return s


FUNCTIONS = [back, both, descending, negative, nested, written, guarded, inside]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_slices_in_loops(function: Callable[[Any], Any]) -> None:
    for backend in BACKENDS:
        np.testing.assert_allclose(tg.function(function, backend=backend)(X), function(X), rtol=1e-14)
    check_grads(function, X)


def test_any_size() -> None:
    gradient = tg.grad(back)
    for size in range(2, 9):
        np.testing.assert_allclose(gradient(np.ones(size)), [1.0, *[2.0] * (size - 1)])


def test_loops_that_stay_inside_are_staged() -> None:
    text = tg.grad(inside).ir(X)
    assert "for " in text
    assert "check" not in text
    assert "for " in tg.grad(guarded).ir(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_loops(backend: str) -> None:
    x = np.linspace(0.5, 1.5, 1000)
    np.testing.assert_allclose(tg.function(back, backend=backend)(x), back(x), rtol=1e-12)
    assert "for " in tg.grad(back).ir(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("k", [-2, 3])
def test_bounds_known_at_run_time(backend: str, k: int) -> None:
    compiled = tg.function(lambda x, k: np.sum(x[k : k + 3]), backend=backend)
    assert compiled(X, np.array(1)) == np.sum(X[1:4])
    assert compiled(X, np.array(-4)) == np.sum(X[-4:-1])
    with pytest.raises(IndexError, match="leaves the axis, where NumPy would cut it"):
        compiled(X, np.array(k))
