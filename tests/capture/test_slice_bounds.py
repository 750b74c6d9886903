"""Bounds of slices that are None on some paths, and those that are cut at the ends of an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_ragged import slopes

X = np.array([0.6, -1.1, 2.3, 0.2, 1.7, -0.4, 0.9])


def products_with_a_lag(x):
    s = 0.0
    for lag in range(3):
        s = s + np.sum(x[lag:] * x[: -lag or None]) * (lag + 1)
    return s


def end_by_a_conditional_expression(x):
    s = 0.0
    for lag in range(4):
        end = -lag if lag else None
        s = s + np.sum(x[:end] ** 2)
    return s


def end_by_a_traced_branch(x):
    end = None if x[0] > 0 else -1
    start = -2 if x[1] > 0 else None
    return np.sum(x[:end] ** 2) + np.sum(x[start:] ** 3) + len(x[start:end])


def backwards(x):
    s = 0.0
    for k in range(4):
        stop = None if k == 0 else k - 1
        s = s + np.sum(x[3:stop:-1] * (k + 1.0)) + np.sum(x[stop::-1] ** 2)
    return s


def writes(x):
    a = x * 1.0
    for k in range(3):
        a[-k or None :] = a[-k or None :] * 2
        a[: -k or None] *= 1.5
    return np.sum(a**2)


def slice_of_a_slice(x):
    s = 0.0
    for i in range(1, 5):
        part = x[:i]
        for k in range(3):
            s = s + np.sum(part[: -k or None] ** 2)
    return s


def in_a_while_loop(x):
    s, k = 0.0, 0
    while s < 9.0 and k < 4:
        s = s + np.sum(x[: -k or None] ** 2)
        k += 1
    return s


def in_two_axes(x):
    a = np.outer(x, x)
    s = 0.0
    for k in range(3):
        s = s + np.sum(a[k:, : -k or None] ** 2) * (k + 1)
    return s


def moving_mean(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[max(0, i - 2) : i + 3].mean()
    return np.sum(y**2)


def cut_at_both_ends(x):
    s, n = 0.0, len(x)
    for i in range(n):
        part = x[max(i - 1, 0) : min(n, i + 2)]
        s = s + np.sum(part**2) * i + np.max(part)
    return s


def bounds_with_names(x):
    s, n = 0.0, len(x)
    for i in range(n):
        low, high = max(i - 1, 0), min(n - 1, i + 1)
        s = s + np.sort(x[low : high + 1])[0] * (high - low)
    return s


def stop_counted_from_the_back(x):
    s = 0.0
    for i in range(len(x)):
        s = s + np.sum(x[max(0, i - 2) : i - 1] ** 2) * (i + 1)
    return s


def cut_at_the_end(x):
    s, n = 0.0, len(x)
    for i in range(n):
        s = s + np.sum(x[i : min(i + 3, n)] ** 3) + np.sum(x[np.maximum(i - 1, 0) : np.minimum(i + 2, n)])
    return s


def writes_near_the_ends(x):
    a = x * 1.0
    for i in range(len(x)):
        a[max(0, i - 1) : i + 2] *= 1.1
    return np.sum(a**2)


def blocks(x):
    a = np.outer(x, x)
    s, n = 0.0, len(x)
    for i in range(n):
        for j in range(n):
            s = s + np.mean(a[max(0, i - 1) : i + 2, max(0, j - 1) : j + 2]) ** 2
    return s


WINDOWS = [
    moving_mean,
    cut_at_both_ends,
    bounds_with_names,
    stop_counted_from_the_back,
    cut_at_the_end,
    writes_near_the_ends,
    blocks,
]
PROGRAMS = [
    products_with_a_lag,
    end_by_a_conditional_expression,
    end_by_a_traced_branch,
    backwards,
    writes,
    slice_of_a_slice,
    in_a_while_loop,
    in_two_axes,
    *WINDOWS,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradient(f: Callable[[Any], Any], backend: str) -> None:
    traced = tg.value_and_grad(f, backend=backend)
    for x in (X, -X, X[:5], np.append(X, [0.3, -0.8])):  # from the second size on, the size is a symbol
        value, gradient = traced(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes(f, x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_no_loop_is_unrolled(f: Callable[[Any], Any]) -> None:
    assert "unrolled" not in str(tg.explain(f)(X))


@pytest.mark.parametrize("f", [f for f in WINDOWS if f is not stop_counted_from_the_back], ids=lambda f: f.__name__)
def test_iterations_touch_the_window_alone(f: Callable[[Any], Any]) -> None:
    x = np.cos(np.arange(50.0))
    loop = str(tg.grad(f).ir(x)).partition(" for ")[2]
    made = [line for line in loop.splitlines() if "[50]" in line and "select" in line]
    assert made == []
