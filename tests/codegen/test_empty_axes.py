"""Axes without elements, beside axes whose size is a symbol: the same numbers from both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg


def kernel(X, Y):
    n, _ = X.shape
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / 0.7**2) + 1e-2 * np.eye(n)
    return K.sum() + (Y**2).sum()


def outer(X, Y):
    return (np.outer(Y, X.sum(1)) ** 2).sum() + (X.sum(0) * Y[0] ** 2).sum()


def products(X, Y):
    return np.prod(X, axis=1).sum() * np.tanh(Y).sum() + np.exp(X @ X.T).sum()


def shares(X, Y):
    E = np.exp(X)
    return (E / (1 + E.sum(1, keepdims=True))).sum() + (Y[:, None] * E.sum(1)[None]).sum()


def distances(X, Y):
    D = X[:, None, :] - Y[None, :, None]
    return (np.exp(-np.abs(D)).sum(1).sum(0) ** 2).sum() + np.einsum("ijk,j->ik", D, Y).sum()


SIZES = [(3, 2, 5), (4, 3, 6), (3, 4, 5), (0, 2, 5), (0, 3, 6), (3, 0, 5), (4, 0, 6), (0, 0, 5)]


@pytest.mark.parametrize("program", [kernel, outer, products, shares, distances])
def test_c_equals_numpy(program: Callable[..., Any]) -> None:
    c = tg.value_and_grad(program, argnums=(0, 1), backend="c")
    expected = tg.value_and_grad(program, argnums=(0, 1), backend="numpy")
    for n, d, k in SIZES:
        X, Y = np.linspace(-1.0, 1.5, n * d).reshape(n, d), np.linspace(0.5, 1.0, k)
        value, gradients = c(X, Y)
        assert value == pytest.approx(program(X, Y))
        for found, right in zip(gradients, expected(X, Y)[1], strict=True):
            assert found.shape == right.shape
            np.testing.assert_allclose(found, right, rtol=1e-10)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_indices_are_checked_where_nothing_is_read(backend: str) -> None:
    take = tg.function(lambda x, i: x[i], backend=backend)
    for size in (2, 3):
        with pytest.raises(IndexError):
            take(np.zeros((size, 0)), np.array(5))
