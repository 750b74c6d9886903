"""Slices and sizes in loops, at several sizes of the argument: from the second size on, sizes are symbolic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def tails(x: Any) -> Any:
    s = 0.0
    for k in range(1, 3):
        s += (x[k:] ** 2).sum()
    return s


def correlation(x: Any) -> Any:
    s = 0.0
    for k in range(1, 3):
        s += np.dot(x[k:], x[:-k])
    return s


def heads(x: Any) -> Any:
    s = 0.0
    for k in range(1, 3):
        s += k * (x[: len(x) - k] ** 2).sum()
    return s


def backwards(x: Any) -> Any:
    s = 0.0
    for k in range(1, 3):
        s += (x[k::-1] ** 2).sum() + (x[:k:-1] ** 3).sum()
    return s


def pairs(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += x[i] * x[i + 1 :].sum()
    return s


def means(x: Any) -> Any:
    s = 0.0
    for k in range(1, len(x)):
        s += x[k:].mean() ** 2
    return s


def chunks(x: Any) -> Any:
    s = 0.0
    n = len(x)
    i = 0
    while i < n:
        j = min(i + 3, n)
        s += np.mean(x[i:j]) ** 2
        i = j
    return s


def written(x: Any) -> Any:
    y = np.zeros(len(x))
    for k in range(1, 3):
        y[k:] += k * x[k:] * x[:-k]
    return (y**2).sum()


def cut_at_computed_size(x: Any) -> Any:
    return (x[: np.minimum(len(x), 6)] ** 2).sum()


def scaled_by_computed_size(x: Any) -> Any:
    least = np.minimum(len(x), 6)
    return x.sum() ** 2 * float(least) * (3 if least > 5 else 2)


def _differences(f: Callable[[Any], Any], x: np.ndarray[Any, Any], h: float = 1e-6) -> np.ndarray[Any, Any]:
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


@each_backend
@pytest.mark.parametrize(
    "f",
    [
        tails,
        correlation,
        heads,
        backwards,
        pairs,
        means,
        chunks,
        written,
        cut_at_computed_size,
        scaled_by_computed_size,
    ],
)
def test_gradients_at_several_sizes(f: Callable[[Any], Any], backend: str) -> None:
    gradient = tg.grad(f, backend=backend)
    for size in (5, 8, 6, 9, 5):
        x = np.linspace(0.3, 1.7, size) ** 2
        np.testing.assert_allclose(gradient(x), _differences(f, x), rtol=1e-6, atol=1e-7)


def ranges(x: Any, n: Any) -> Any:
    s = 0.0
    for i in range(n):
        s += np.sum(x[0] ** 2 * np.arange(i + 1)) + np.sum(x[1] * np.arange(1, 2 * i + 3, 2))
    return s


@each_backend
def test_arange_of_a_loop_variable(backend: str) -> None:
    gradient = tg.grad(ranges, backend=backend)
    x = np.array([1.5, 0.5])
    for n in (3, 5, 2):
        expected = _differences(functools.partial(ranges, n=n), x)
        np.testing.assert_allclose(gradient(x, n), expected, rtol=1e-6)
