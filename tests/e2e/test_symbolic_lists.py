"""Python's lists, ints and names where sizes have become symbolic: from the second size on the same as at the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS


def weights(x):
    w = [1.0] + [2.0] * (len(x) - 2) + [1.0]
    return np.sum(np.array(w) * x)


def repeated(x):
    n = len(x)
    s = 0.0
    for k, v in enumerate([0.5] * (n + 1)):
        s += v * k
    return s * x[0] + len([0, 1] * n) + len((0.0,) * n) + len("ab" * n)


def ends_halved(x):
    w = [1.0] * len(x)
    w[0] = w[-1] = 0.5
    return sum(a * b for a, b in zip(w, x, strict=True))


def rows_of_lists(x):
    n = len(x)
    return np.sum(np.array([[1.0] * n] * 2) * x) + max([x[0]] * n + [0.5])


def folds(x):
    return sum(b.sum() * (k + 1) for k, b in enumerate(np.array_split(x, 2)))


def folds_of_columns(x):
    return sum(b.sum() * (k + 1) for k, b in enumerate(np.array_split(np.outer(x, x), 3, axis=1)))


def variable_called_n(x):
    n = 0.0
    total = 0.0
    for v in x:
        total += v**3
        n += v
    return total * n


def running_sums(x):
    s = [0.0] * len(x)
    for i in range(1, len(x)):
        s[i] = s[i - 1] + x[i]
    return s[-1]


def distance_table(x):
    n = len(x)
    D = [[np.inf] * (n + 1) for _ in range(n + 1)]
    D[0][0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            D[i][j] = (x[i - 1] - x[j - 1] * 0.5) ** 2 + min(D[i - 1][j], D[i][j - 1], D[i - 1][j - 1])
    return D[n][n]


def filled_with_none(x):
    out = [None] * len(x)
    for i in range(len(x)):
        out[i] = x[i] ** 2
    return sum(out)


def bits(x):
    n = len(x)
    return np.sum(x) * (n & 1) + (n | 1) * x[0] + (n ^ 3) + (n >> 1) * x[1] + (1 << n) + ~n + n.bit_length() * x[0]


def padded_to_a_power(x):
    n, k = len(x), 1
    while k < n:
        k *= 2
    pad = np.zeros(k)
    pad[:n] = x
    return pad.sum()


FUNCTIONS = [
    weights, repeated, ends_halved, rows_of_lists, folds, folds_of_columns, variable_called_n, running_sums,
    distance_table, filled_with_none, bits, padded_to_a_power,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_sizes_in_turn(f: Callable[[Any], Any], backend: str) -> None:
    gradient, hessian = tg.value_and_grad(f, backend=backend), tg.hessian(f, backend=backend)
    for n in (4, 5, 3, 7, 6):
        x = np.linspace(0.3, 1.7, n) ** 2
        value, slope = gradient(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        np.testing.assert_allclose(slope, central_differences(f, x), rtol=1e-6, atol=1e-6)
        rows = central_differences(lambda x: gradient(x)[1], x)
        np.testing.assert_allclose(hessian(x), rows, rtol=1e-5, atol=1e-5)
