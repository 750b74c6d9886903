"""`np.add.at` for arrays whose length is found at run time, as sums of groups by floating-point labels are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_ragged import slopes

X = np.array([1.5, 2.25, 1.75, 4.0, 2.5])


def groups(x):
    labels, inverse = np.unique(np.floor(x), return_inverse=True)
    sums = np.zeros(len(labels))
    np.add.at(sums, inverse, x * 2)
    return np.sum(sums**2 * (1 + np.arange(len(sums))))


def means(x):
    labels, inverse = np.unique(np.floor(x), return_inverse=True)
    sums, counts = np.zeros(len(labels)), np.zeros(len(labels))
    np.add.at(sums, inverse, x**2)
    np.add.at(counts, inverse, 1)
    return np.sum((sums / counts) ** 2)


def differences(x):
    n = int(x[0]) + 2
    kept = x[:n].copy()
    np.subtract.at(kept, np.array([0, -1, 0, 1]), x[1:] * x[0])
    return np.sum(kept**3)


def part(x):
    y = x.copy()
    n = int(x[0])
    np.add.at(y[n:], np.array([0, -1, 1]), x[:3] ** 2)
    return np.sum(y**2)


def in_a_loop(x):
    total = 0.0
    for n in range(1, 4):
        sums = np.zeros(n)
        np.add.at(sums, np.arange(5) % n, x * n)
        total += np.sum(sums**2)
    return total


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", [groups, means, differences, part, in_a_loop])
def test_as_numpy(f: Callable[[Any], Any], backend: Any) -> None:
    traced = tg.value_and_grad(f, backend=backend)
    for x in (X, X[::-1].copy(), np.array([1.25, 2.5, 3.5, 1.75, 2.75])):
        x[0] = min(x[0], 2.5)
        value, gradient = traced(x.copy())
        np.testing.assert_allclose(value, f(x.copy()), rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes(f, x.copy()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_place_outside_is_an_error(backend: Any) -> None:
    def f(x):
        kept = 0 * x[: int(x[0])]
        np.add.at(kept, np.array([0, 2]), x[:2])
        return np.sum(kept)

    traced = tg.function(f, backend=backend)
    assert traced(np.array([3.0, 2.0, 1.0])) == 5.0
    with pytest.raises(IndexError):
        traced(np.array([2.0, 2.0, 1.0]))
