"""NumPy's iterators and joiners, updates with repeated indices, and Python functions with keys that are traced."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

X = np.array([1.0, 2.5, 2.0, 4.5])


def joined_rows(x: Any) -> Any:
    return np.sum(np.r_[x, 0.0, 0:3, x[1:]] ** 2)


def joined_columns(x: Any) -> Any:
    return np.sum(np.c_[x, x * 2, np.c_[x, x * 3]] * np.arange(4.0))


def enumerated(x: Any) -> Any:
    total, matrix = 0.0, x.reshape(2, 2)
    for (i, j), value in np.ndenumerate(matrix):
        total = total + value * (1 + i - 2 * j) * matrix[j, i]
    return total


def places(x: Any) -> Any:
    filled = np.zeros((2, 2))
    for i, j in np.ndindex(filled.shape):
        filled[i, j] = x[i * 2 + j] ** 2
    return filled[0, 1] * filled[1, 0]


def elements(x: Any) -> Any:
    total = 0.0
    for value in np.nditer(x):
        total = total + value**2
    return total


def windows(x: Any) -> Any:
    return np.sum(np.lib.stride_tricks.sliding_window_view(x, 2).prod(axis=1))


def windows_of_a_matrix(x: Any) -> Any:
    matrix = np.outer(x, x)
    both = np.lib.stride_tricks.sliding_window_view(matrix, (2, 3))
    return np.sum(both[:, :, 0, 1] * both[:, :, 1, 2]) + np.sum(
        np.lib.stride_tricks.sliding_window_view(matrix, 2, axis=1)[..., 1]
    )


def integer_functions(x: Any) -> Any:
    total = 0.0
    for i in range(4):
        total = total + x[i] ** 2 * math.comb(4, i) * math.gcd(i, 2) / math.factorial(i)
    return total


def multiplied(x: Any) -> Any:
    a = np.ones(4)
    np.multiply.at(a, np.array([0, 1, 1, 2]), x)
    return np.sum(a)


def multiplied_twice(x: Any) -> Any:
    a = np.ones(4)
    np.multiply.at(a, np.array([3, -1, 0, 1]), x)
    return np.sum(a)


def largest(x: Any) -> Any:
    a = np.zeros((3, 2))
    np.maximum.at(a, (np.array([0, 1, 1, 2]), np.array([0, 1, 1, 0])), x)
    return np.sum(a * a)


def multiplied_rows(x: Any) -> Any:
    a = np.ones((3, 4))
    np.multiply.at(a, np.array([0, 2, 0]), x)
    return np.sum(a)


def best_by_key(x: Any) -> Any:
    return max(x, key=lambda v: -((v - 2.2) ** 2)) * min(range(4), key=lambda i: -x[i])


def sorted_by_key(x: Any) -> Any:
    order = sorted(range(4), key=lambda i: -x[i])
    values = sorted(x, key=lambda v: (v - 2.2) ** 2, reverse=True)
    return x[order[0]] * values[0] + x[order[1]] * values[3]


def default_lists(x: Any) -> Any:
    groups = collections.defaultdict(list)
    for i in range(4):
        groups["ab"[i % 2]].append(x[i])
    return sum(groups["a"]) * sum(groups["b"]) * len(groups)


def default_arrays(x: Any) -> Any:
    sums: Any = collections.defaultdict(lambda: np.zeros(2))
    for i in range(4):
        sums["a"][i % 2] += x[i]
        sums["b"][0] += x[i] ** 2
    return sums["a"][0] * sums["a"][1] * sums["b"][0]


CASES: list[Callable[[Any], Any]] = [
    joined_rows,
    joined_columns,
    enumerated,
    places,
    elements,
    windows,
    windows_of_a_matrix,
    integer_functions,
    multiplied,
    multiplied_twice,
    largest,
    multiplied_rows,
    best_by_key,
    sorted_by_key,
    default_lists,
    default_arrays,
]


def slope(f: Callable[[Any], Any], x: Any) -> Any:
    steps = np.eye(4) * 1e-6
    return np.array([(f(x + d) - f(x - d)) / 2e-6 for d in steps])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_value_and_gradient(f: Callable[[Any], Any], backend: str) -> None:
    np.testing.assert_allclose(tg.function(f, backend=backend)(X), f(X), rtol=1e-12)
    np.testing.assert_allclose(tg.grad(f, backend=backend)(X), slope(f, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("indices", [[0, 1, 1, 2], [3, 3, 3, -1]])
def test_updates_at_traced_indices(indices: list[int], backend: str) -> None:
    def f(x: Any, i: Any) -> Any:
        a = np.ones(4)
        np.multiply.at(a, i, x)
        return np.sum(a**2)

    i = np.array(indices)
    np.testing.assert_allclose(tg.function(f, backend=backend)(X, i), f(X, i))
    np.testing.assert_allclose(tg.grad(f, backend=backend)(X, i), slope(lambda x: f(x, i), X), rtol=1e-5)


@pytest.mark.parametrize("name", ["flags", "strides"])
def test_memory_layout_is_refused(name: str) -> None:
    with pytest.raises(CaptureError, match="memory layout"):
        tg.function(lambda x: getattr(x, name))(X)
