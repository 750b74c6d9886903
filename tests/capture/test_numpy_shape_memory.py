"""Views and copies as NumPy makes them, by the order of the elements in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import CaptureError, TracegradError

X = np.array([1.0, 2.0, 3.0, 4.5])


def ascontiguousarray_copies(x: Any) -> Any:
    a = np.zeros((2, 2)).T
    c = np.ascontiguousarray(a)
    c[0, 1] = x[1]
    return np.sum(a) + 2 * np.sum(c)


def ravel_of_transposed_twice_is_a_view(x: Any) -> Any:
    b = np.zeros((2, 2)).T
    d = b.T.ravel()
    d[1] = x[2]
    return np.sum(b) + 2 * np.sum(d)


def column_is_viewed(x: Any) -> Any:
    a = np.zeros((2, 3))
    u = a[:, 1:2].reshape(-1)
    u[0] = x[2]
    return np.sum(a)


def one_element_of_a_column_is_viewed(x: Any) -> Any:
    a = np.outer(x, x)
    u = a[:1, 1].ravel()
    u[0] = x[2]
    return np.sum(a * np.arange(16).reshape(4, 4))


def ravel_of_every_second_copies(x: Any) -> Any:
    a = np.outer(x, x)
    u, w, v = a[0, ::2].ravel(), a[:, 1].ravel(), a[1:2, ::2].reshape(-1)
    u[0] = x[2]
    w *= 2
    v[1] = x[3]
    return np.sum(a * np.arange(16).reshape(4, 4))


def fortran_zeros(x: Any) -> Any:
    a = np.zeros((4, 4), order="F")
    u = a.ravel()
    u[0] = x[0]
    w = a.T.reshape(-1)
    w[1] = x[1]
    return np.sum(a * np.arange(16).reshape(4, 4))


def ravel_of_transposed_product(x: Any) -> Any:
    b = np.stack([x, x], axis=1).T * 2
    w = b.ravel()
    w[1] = 7 * x[1]
    return np.sum(b)


def reshape_of_transposed(x: Any) -> Any:
    a = np.zeros((2, 3))
    t = a.T
    r = t.reshape(6)
    r[1] = x[0]
    return np.sum(a) + np.sum(r)


def copy_is_in_c_order(x: Any) -> Any:
    a = np.zeros((2, 3))
    t = a.T.copy()
    r = t.reshape(6)
    r[1] = x[0]
    return np.sum(t) + np.sum(r)


def sum_keeps_order(x: Any) -> Any:
    a = np.zeros((2, 3))
    t = a.T + x[0]
    r = t.reshape(6)
    r[1] = x[0]
    return np.sum(t * np.arange(6).reshape(3, 2)) + np.sum(r)


def sine_keeps_order(x: Any) -> Any:
    a = np.outer(x, x)
    t = np.sin(a.T)
    r = t.ravel()
    r[1] = 0
    return np.sum(t * np.arange(16).reshape(4, 4))


def rows_with_step(x: Any) -> Any:
    a = np.outer(x, x)[::2]
    r = a.ravel()
    r[1] = 0
    return np.sum(a)


def rows(x: Any) -> Any:
    a = np.outer(x, x)[1:3]
    r = a.ravel()
    r[1] = 0
    return np.sum(a)


def columns_reversed(x: Any) -> Any:
    a = np.outer(x, x)
    b = a[:, ::-1]
    r = b.reshape(-1)
    r[0] = 0
    return np.sum(a)


def reversed_(x: Any) -> Any:
    a = x * 1
    b = a[::-1]
    r = b.reshape(2, 2)
    r[0, 0] = 0
    return np.sum(a)


def every_second(x: Any) -> Any:
    a = x * 1
    b = a[::2]
    r = b.reshape(2, 1)
    r[0, 0] = 0
    return np.sum(a)


def flatten_copies(x: Any) -> Any:
    a = np.outer(x, x)
    b = a.flatten()
    b[0] = 0
    c = a.T.flatten()
    c[0] = 0
    return np.sum(a)


def empty_like_keeps_order(x: Any) -> Any:
    a = np.empty_like(np.zeros((4, 3)).T)
    a[:] = x[:3, None]
    r = a.ravel()
    r[0] = 5 * x[0]
    return np.sum(a)


def zeros_like_keeps_order(x: Any) -> Any:
    a = np.zeros_like(np.outer(x, x[:2]).T)
    r = a.reshape(-1)
    r[0] = 5 * x[0]
    return np.sum(a)


def swapped_axes(x: Any) -> Any:
    a = np.swapaxes(np.outer(x, x).reshape(2, 2, 4), 0, 1)
    r = a.reshape(2, 8)
    r[0, 0] = 5
    return np.sum(a)


def asarray_in_c_order(x: Any) -> Any:
    a = np.outer(x, x)
    r = np.asarray(a.T, order="C")
    r[0, 1] = 5
    return np.sum(a * np.arange(16).reshape(4, 4))


def asfortranarray_of_transposed(x: Any) -> Any:
    a = np.outer(x, x)
    r = np.asfortranarray(a.T)
    r[0, 1] = 5
    return np.sum(a * np.arange(16).reshape(4, 4))


def astype_keeps_order(x: Any) -> Any:
    a = np.outer(x, x).T.astype(float)
    r = a.ravel()
    r[1] = 5
    return np.sum(a * np.arange(16).reshape(4, 4))


def matrix_product_is_in_c_order(x: Any) -> Any:
    a = np.outer(x, x).T @ np.outer(x, x)
    r = a.ravel()
    r[1] = 5
    return np.sum(a * np.arange(16).reshape(4, 4))


def in_a_loop(x: Any) -> Any:
    a = np.outer(x, x).T
    for i in range(3):
        r = a.ravel()
        r[i] = x[i]
    return np.sum(a * np.arange(16).reshape(4, 4))


def choice(x: Any) -> Any:
    a = np.where(np.outer(x, x).T > 4, 1.0, 2.0) * x[0]
    r = a.ravel()
    r[1] = 5
    return np.sum(a * np.arange(16).reshape(4, 4))


def reduction(x: Any) -> Any:
    a = np.sum(np.outer(x, np.outer(x, x[:2])).reshape(4, 4, 2).T, axis=0)
    r = a.ravel()
    r[1] = 5
    return np.sum(a * np.arange(16).reshape(4, 4))


def joined(x: Any) -> Any:
    a = np.concatenate([np.outer(x, x).T, np.outer(x, x).T])
    r = a.ravel()
    r[1] = 5
    return np.sum(a * np.arange(32).reshape(8, 4))


def rows_by_index(x: Any) -> Any:
    a = np.outer(x, x).T[[0, 1]]
    r = a.ravel()
    r[1] = 5
    return np.sum(a * np.arange(8).reshape(2, 4))


@pytest.mark.parametrize(
    "function",
    [
        ascontiguousarray_copies,
        ravel_of_transposed_twice_is_a_view,
        column_is_viewed,
        one_element_of_a_column_is_viewed,
        ravel_of_every_second_copies,
        fortran_zeros,
        ravel_of_transposed_product,
        reshape_of_transposed,
        copy_is_in_c_order,
        sum_keeps_order,
        sine_keeps_order,
        rows_with_step,
        rows,
        columns_reversed,
        reversed_,
        every_second,
        flatten_copies,
        empty_like_keeps_order,
        zeros_like_keeps_order,
        swapped_axes,
        asarray_in_c_order,
        asfortranarray_of_transposed,
        astype_keeps_order,
        matrix_product_is_in_c_order,
        in_a_loop,
    ],
)
def test_views_and_copies(function: Callable[[Any], Any]) -> None:
    expected = function(X)
    np.testing.assert_array_equal(tg.function(function, backend="numpy")(X), expected)
    step = 1e-6 * np.eye(4)
    slopes = [(function(X + d) - function(X - d)) / 2e-6 for d in step]
    np.testing.assert_allclose(tg.grad(function, backend="numpy")(X), slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("function", [choice, reduction, joined, rows_by_index])
def test_write_where_a_view_is_not_sure_is_refused(function: Callable[[Any], Any]) -> None:
    with pytest.raises(TracegradError, match="memory order"):
        tg.function(function)(X)


def test_order_in_memory() -> None:
    def fortran(x: Any) -> Any:
        a = np.zeros((2, 3), order="F")
        a[:] = x[:3]
        return np.sum(a.ravel("K") * np.arange(6)) + 2 * np.sum(a.reshape(-1, order="A") * np.arange(6))

    assert tg.function(fortran, backend="numpy")(X) == fortran(X)
    with pytest.raises(CaptureError, match="order='K'"):
        tg.function(lambda a: a.ravel("K"))(np.ones((2, 3)))
