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


def columns_by_places(x: Any) -> Any:
    a = np.outer(x, x)[:, [0, 1, 2]]
    v, w = a.reshape(-1), a.T.reshape(-1)
    v[0], w[4] = 9.0, x[1]
    return np.sum(a * np.arange(12).reshape(4, 3)) + 2 * v[0]


def places_apart(x: Any) -> Any:
    a = np.outer(x, x).reshape(2, 4, 2)[[0, 1], :, [1, 0]]
    v = a.reshape(-1)
    v[0] = x[1]
    return np.sum(a)


def taken_columns(x: Any) -> Any:
    a = np.outer(x, x)
    b, c = np.take(a, [0, 1], axis=1), np.take(a, 1, axis=0)
    v = b.reshape(-1)
    v[0], c[0] = 9.0, x[3]
    return np.sum(a) + np.sum(b)


def einsum_in_the_order_of_operands(x: Any) -> Any:
    a = np.outer(x, x)
    b, c = np.einsum("ij,jk->ki", a, a), np.einsum("ij,jk->ik", a, a)
    v, w = b.reshape(-1), c.reshape(-1)
    v[1], w[1] = 9.0, x[2]
    return np.sum(b) + np.sum(c)


def einsum_views(x: Any) -> Any:
    a = np.outer(x, x)
    b = np.einsum("ij->ji", a)
    b[0, 1] = x[2] * 3
    return np.sum(a * np.arange(16).reshape(4, 4))


def transposed_of_zeros(x: Any) -> Any:
    a = np.zeros((2, 4)).T * 2
    v = a.reshape(-1)
    v[0] = x[0]
    return np.sum(a) + v[0]


def repeated_rows(x: Any) -> Any:
    a = np.broadcast_to(x, (3, 4))
    b = np.array(a)
    v, w = b.T.reshape(-1), a.flatten("C")
    v[0], w[1] = 9.0, x[3]
    return np.sum(b) + v[0] + w[1]


def chosen_in_fortran_order(x: Any) -> Any:
    a = np.outer(x, x).T * 2
    for k in range(2):
        a = a + 1 if x[k] > 0 else a * 3
    return np.sum(a.ravel("K") * np.arange(16))


def in_fortran_order_after_a_loop(x: Any) -> Any:
    a = np.outer(x, np.ones(4)).T + 1
    for _ in range(200):
        a = a * 0.9 + 1
    v = a.reshape(-1)
    v[1] = 9.0
    return np.sum(a) + v[1]


def ufunc_in_a_given_order(x: Any) -> Any:
    a = np.outer(x, x)
    b, c = np.multiply(a, 2, order="F"), np.add(a.T, 1, order="C")
    v, w = b.reshape(-1), c.reshape(-1)
    v[1], w[1] = 9.0, x[2]
    return np.sum(b) + np.sum(c)


def parts_of_complex(x: Any) -> Any:
    z = np.outer(x, x) * (1 + 2j)
    z.real[0, 1] = x[1]
    part = z.imag
    part[1] += x
    v = z.real.ravel()
    v[2] = 9.0
    z.imag = z.imag * 2
    return np.sum(np.abs(z) ** 2) + v[2]


def parts_of_flat_are_copies(x: Any) -> Any:
    a = np.outer(x, x)
    v = a.flat[1:3]
    v[0] = 9.0
    a.flat[2:4] = x[:2]
    b = np.zeros((2, 2))
    b.flat = x
    return np.sum(a * np.arange(16).reshape(4, 4)) + v[0] + np.sum(b * np.arange(4).reshape(2, 2))


def viewed_whole(x: Any) -> Any:
    a = np.outer(x, x)
    b = np.where(a.T > 1, a.T, 0.0)
    v = b.view()
    v[0, 1] = x[2]
    return np.sum(b * np.arange(16).reshape(4, 4))


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
        columns_by_places,
        places_apart,
        taken_columns,
        einsum_in_the_order_of_operands,
        einsum_views,
        transposed_of_zeros,
        repeated_rows,
        chosen_in_fortran_order,
        in_fortran_order_after_a_loop,
        ufunc_in_a_given_order,
        parts_of_complex,
        parts_of_flat_are_copies,
        viewed_whole,
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
        tg.function(lambda a: np.linspace(a, 2 * a, 3, axis=-1).ravel("K"))(np.ones(3))


def test_items_of_a_list_in_another_order() -> None:
    def items(x: Any) -> Any:
        made = []
        for k in range(200):
            made.append(np.outer(x, x).T * k)
        v = made[3].reshape(-1)
        v[1] = 9.0
        return np.sum(made[3])

    with pytest.raises(TracegradError, match="memory order"):
        tg.function(items)(X)


def test_diagonal_by_einsum_is_not_read_after_a_write() -> None:
    def diagonal(x: Any) -> Any:
        a = np.outer(x, x)
        d = np.einsum("ii->i", a)
        d[0] = 9.0
        return np.sum(a)

    with pytest.raises(TracegradError, match="another name may share"):
        tg.function(diagonal)(X)


def test_a_store_into_the_shape() -> None:
    def reshaped(x: Any) -> Any:
        x.shape = (2, 2)
        return np.sum(x)

    with pytest.raises(CaptureError, match=r"a store into \.shape is not supported \[TG103\]"):
        tg.function(reshaped)(X)
