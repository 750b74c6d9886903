"""Indexing, views and masks inside loops and branches, through the public interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

X = np.random.default_rng(5).uniform(-1.0, 1.0, 6)


def view_before_loop(x: Any) -> Any:
    a = np.zeros((3, 6))
    row = a[1]
    for i in range(6):
        row[i] = x[i] * 2
        if x[i] > 0:
            a[2, i] += row[i] ** 2
    return np.sum(a * np.arange(18.0).reshape(3, 6))


def view_in_loop(x: Any) -> Any:
    a = np.outer(x, x)
    for i in range(5):
        row = a[i]
        row[i + 1] = x[i]
        a[i + 1] += row * 0.5
    return np.sum(a**2)


def stencil_windows(x: Any) -> Any:
    y = x * 1
    for _ in range(3):
        z = y * 1
        for i in range(1, 5):
            z[i] = np.mean(y[i - 1 : i + 2])
        y = z
    return np.sum(y**2)


def block_writes(x: Any) -> Any:
    a = np.zeros(12)
    for i in range(3):
        a[4 * i : 4 * (i + 1)] = x[i : i + 4] * (i + 1)
    return np.sum(a**2)


def masks_in_loop(x: Any) -> Any:
    y = x * 1
    for k in range(4):
        y[y > 0.3] *= 0.5
        y[y < -0.3] += 0.1 * k
    return np.sum(y**2) + y[y > 0].sum()


def chained_rows(x: Any) -> Any:
    a = np.ones((4, 6))
    for i in range(1, 4):
        for j in range(1, 6):
            a[i][j] = a[i - 1][j] * x[j] + a[i][j - 1]
    return a[3][5] + np.sum(a)


def swaps(x: Any) -> Any:
    y = x * 1
    for i in range(5):
        if y[i] > y[i + 1]:
            y[i], y[i + 1] = y[i + 1], y[i]
    return np.sum(y * np.arange(6.0))


def transposed_writes(x: Any) -> Any:
    a = np.zeros((6, 2))
    t = a.T
    for i in range(6):
        t[0, i] = x[i] ** 2
        t[1][i] = x[i] * t[0][i]
    return np.sum(a)


def negative_indices(x: Any) -> Any:
    total = 0.0
    for i in range(6):
        total += x[-1 - i] * x[i - 1]
    return total


def scatter_counts(x: Any) -> Any:
    bins = np.zeros(3)
    for i in range(6):
        bins[int(x[i] * 1.4 + 1.5)] += x[i]
    np.add.at(bins, np.array([0, 0, 2]), x[:3])
    return np.sum(bins**2)


def running_maximum(x: Any) -> Any:
    best = x[0]
    place = 0
    for i in range(1, 6):
        if x[i] > best:
            best, place = x[i], i
    return best * 2 + x[place]


def gather_by_order(x: Any) -> Any:
    order = np.argsort(x)
    total = 0.0
    for k in range(6):
        total += (k + 1) * x[order[k]]
    return total


def while_with_window(x: Any) -> Any:
    i = 0
    total = 0.0
    while i + 2 < 6 and total < 10.0:
        total = total + np.sum(x[i : i + 2] ** 2)
        i += 2
    return total


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize(
    "function",
    [
        view_before_loop,
        view_in_loop,
        stencil_windows,
        block_writes,
        masks_in_loop,
        chained_rows,
        swaps,
        transposed_writes,
        negative_indices,
        scatter_counts,
        running_maximum,
        gather_by_order,
        while_with_window,
    ],
)
def test_gradient(function: Callable[..., Any], backend: str) -> None:
    assert tg.function(function, backend=backend)(X) == pytest.approx(function(X), rel=1e-12)
    step = 1e-6
    differences = [(function(X + step * e) - function(X - step * e)) / (2 * step) for e in np.eye(6)]
    np.testing.assert_allclose(tg.grad(function, backend=backend)(X), differences, rtol=1e-6, atol=1e-7)
