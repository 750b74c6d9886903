"""np.delete and np.insert at an index that is known at run time only: the size of the result is known all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])
X = np.array([0.5, 1.5, -0.7, 2.0])
A = np.array([[2.0, 0.5, 1.0], [0.25, 3.0, -1.0], [1.5, 0.75, 4.0]])


def jackknife(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        rest = np.delete(x, i)
        total = total + np.mean(rest) ** 3 + np.prod(np.delete(x, -i - 1))
    return total


def by_minors(a: Any) -> Any:
    total = 0.0
    for j in range(3):
        minor = np.delete(a[1:], j, axis=1)
        total = total + (-1.0) ** j * a[0, j] * (minor[0, 0] * minor[1, 1] - minor[0, 1] * minor[1, 0])
    return total


def without_the_greatest(x: Any) -> Any:
    return np.sum(np.delete(x, np.argmax(x)) ** 2) + np.sum(np.delete(np.outer(x, x), np.argmin(x), axis=0))


def inserted(x: Any) -> Any:
    total = 0.0
    weights = np.arange(1.0, 6.0)
    for i in range(len(x) + 1):
        total = total + np.sum(weights * np.insert(x, i, x[0] * x[1])) ** 2
    return total + np.sum(weights * np.insert(x, np.argmin(x) - 4, 2.0) * x[1])


def rows_inserted(x: Any) -> Any:
    table = np.outer(x, np.arange(1.0, 4.0))
    i = np.argmax(x)
    one = np.insert(table, i, x[:3], axis=0)
    two = np.insert(table, i, np.stack([x[:3], x[1:]]), axis=0)
    columns = np.insert(table, i - 2, x, axis=1)
    return sum(np.sum(np.arange(float(part.size)).reshape(part.shape) * part**2) for part in (one, two, columns))


PROGRAMS: list[tuple[Callable[[Any], Any], Any]] = [
    (jackknife, X),
    (by_minors, A),
    (without_the_greatest, X),
    (inserted, X),
    (rows_inserted, X),
]


@each_backend
@pytest.mark.parametrize(("f", "x"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_one_index(f: Callable[[Any], Any], x: Any, backend: str) -> None:
    value, gradient = tg.value_and_grad(f, backend=backend)(x)
    assert value == pytest.approx(float(f(x)), rel=1e-12)
    steps = 1e-6 * np.eye(x.size).reshape(x.size, *x.shape)
    expected = np.array([(f(x + s) - f(x - s)) / 2e-6 for s in steps]).reshape(x.shape)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)


@each_backend
def test_leave_one_out_under_vmap(backend: str) -> None:
    rest = tg.vmap(lambda i: np.delete(X, i), backend=backend)(np.array([0, 2, -1]))
    np.testing.assert_array_equal(rest, [np.delete(X, i) for i in (0, 2, -1)])


@each_backend
@pytest.mark.parametrize("index", [4, -5])
def test_an_index_out_of_bounds_is_an_error_of_the_call(index: int, backend: str) -> None:
    at = np.array(index)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 4"):
        tg.function(lambda x, i: np.delete(x, i), backend=backend)(X, at)
    if index < 0:
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 4"):
            tg.function(lambda x, i: np.insert(x, i, 1.0), backend=backend)(X, at)
