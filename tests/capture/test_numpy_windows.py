"""np.i0, window functions, np.unwrap, and running extremes, with lengths and parameters that are traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_ragged import slopes

X = np.array([0.6, -1.1, 1.3, 2.5, 0.1])


def windows_of_all_lengths(x):
    s = 0.0
    for n in range(1, 6):
        s = s + np.sum(np.hamming(n) * x[:n] ** 2) + np.sum(np.hanning(n) * x[:n] * n)
        s = s + np.sum(np.blackman(n) * x[:n] ** 2) + np.sum(np.bartlett(n) * x[:n] ** 3)
    return s


def kaiser_of_all_lengths(x):
    s = 0.0
    for n in range(1, 6):
        s = s + np.sum(np.kaiser(n, 3 * x[3]) * x[:n])
    return s


def kaiser_of_a_length(x):
    return np.sum(np.kaiser(5, 10 * abs(x[0])) * np.kaiser(len(x), 14.0) * x) + np.kaiser(1, x[0])[0]


def bessel(x):
    return np.sum(np.i0(x * 20) * np.exp(-np.abs(x * 20))) + np.i0(x[0])


def unwrapped(x):
    return np.sum(np.unwrap(x * 4) ** 2) + np.sum(np.unwrap(np.outer(x * 4, x), axis=0) ** 2)


def unwrapped_with_options(x):
    return np.sum(np.unwrap(x * 9, period=3.0) ** 2) + np.sum(np.unwrap(x * 9, discont=4.0) ** 2)


def running_extremes(x):
    s = 0.0
    for n in range(1, 6):
        s = s + np.sum(np.maximum.accumulate(x[:n]) ** 2) + np.sum(np.minimum.accumulate(x[:n]) ** 2 * n)
        s = s + np.sum(np.add.accumulate(x[:n]) ** 2) + np.sum(np.multiply.accumulate(np.outer(x[:n], x)) ** 2)
    return s


def until_a_condition_holds(x):
    n = 1
    while n < 4 and x[n] < 2:
        n += 1
    return np.sum(np.maximum.accumulate(x[:n]) ** 2) + np.sum(np.unwrap(x[:n] * 4) * np.cumsum(x[:n]))


PROGRAMS = [
    windows_of_all_lengths,
    kaiser_of_all_lengths,
    kaiser_of_a_length,
    bessel,
    unwrapped,
    unwrapped_with_options,
    running_extremes,
    until_a_condition_holds,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradient(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.value_and_grad(f, backend=backend)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes(f, X), rtol=1e-6, atol=1e-6)
    assert "unrolled" not in str(tg.explain(f)(X))


@pytest.mark.parametrize("p", [np.array([0, 350, 10, 200, 20]), np.array([0.0, 3.5, 7.5, -1.0, 2 * np.pi])])
@pytest.mark.parametrize("period", [360, 2 * np.pi, 5])
def test_unwrap_of_ints_and_of_half_periods(p: Any, period: Any) -> None:
    found = tg.function(lambda p: np.unwrap(p, period=period))(p)
    expected = np.unwrap(p, period=period)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
