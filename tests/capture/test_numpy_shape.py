"""Creation, rearranging, joining and splitting: values and gradients against NumPy; writes through views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.capture.numpy_rows import capture, check, h, random, rows
from tracegrad.errors import TracedValueError

V, W = random(6), random(6, seed=1)
M, N = random(3, 4), random(3, 4, seed=1)
T = random(2, 3, 4)
S = 1.5
I = np.array([[3, 1], [2, 0]])


@rows(
    reshape=(lambda x: np.reshape(x, (4, 3)), M),
    reshape_method=(lambda x: x.reshape(2, -1), M),
    reshape_unknown=(lambda x: x.reshape(-1), T),
    reshape_tuple=(lambda x: x.reshape((2, 6)), M),
    reshape_fortran=(lambda x: np.reshape(x, (4, 3), order="F"), M),
    reshape_of_transpose=(lambda x: x.T.reshape(2, 6), M),
    ravel=(lambda x: np.ravel(x), M),
    ravel_fortran=(lambda x: x.ravel(order="F"), M),
    flatten=(lambda x: x.flatten(), T),
    flat=(lambda x: x.flat[2] * x.T.flat[2], M),
    transpose=(lambda x: np.transpose(x), T),
    transpose_axes=(lambda x: x.transpose(1, 2, 0), T),
    transpose_attribute=(lambda x: x.T, M),
    matrix_transpose=(lambda x: x.mT, T),
    swapaxes=(lambda x: np.swapaxes(x, 0, -1), T),
    moveaxis=(lambda x: np.moveaxis(x, [0, 1], [-1, 0]), T),
    rollaxis=(lambda x: np.rollaxis(x, 2), T),
    rollaxis_start=(lambda x: np.rollaxis(x, 0, 3), T),
    squeeze=(lambda x: np.squeeze(x[:, None, :, None]), M),
    squeeze_axis=(lambda x: x[None].squeeze(axis=0), M),
    expand_dims=(lambda x: np.expand_dims(x, (0, -1)), M),
    atleast_1d=(lambda s: np.atleast_1d(s * 2), np.float64(S)),
    atleast_2d=(lambda x: np.atleast_2d(x), V),
    atleast_3d=(lambda x, y: np.atleast_3d(x, y), V, M),
    broadcast_to=(lambda x: np.broadcast_to(x, (2, 3, 4)), M),
    broadcast_arrays=(lambda x, y: np.broadcast_arrays(x, y), random(3, 1), random(4)),
    sizes=(lambda x: np.zeros(np.shape(x)) + np.size(x) + np.ndim(x) + x.size + x.ndim, M),
    copy=(lambda x: np.copy(x), M),
    flat_of_transpose=(lambda x: x.T.flat[1:4], M),
    astype=(lambda x: np.astype(x, np.float64) * 2, M),
    apply_over_axes=(lambda x: np.apply_over_axes(np.sum, x, (0, 2)), T),
    tril_indices_from=(lambda x: x[np.tril_indices_from(x)], M),
    linalg_trace=(lambda x: np.linalg.trace(x), T),
)
def test_rearranging(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    concatenate=(lambda x, y: np.concatenate([x, y]), V, W),
    concatenate_axis=(lambda x, y: np.concatenate((x, y), axis=1), M, N),
    concatenate_none=(lambda x, y: np.concatenate((x, y), axis=None), M, V),
    concatenate_list=(lambda x: np.concatenate([[1.0, 2.0], x, [3]]), V),
    concatenate_promotes=(lambda x: np.concatenate([x, [1.0]]), random(3, dtype=np.float32)),
    stack=(lambda x, y: np.stack([x, y]), M, N),
    stack_last=(lambda x, y: np.stack([x, y], axis=-1), M, N),
    stack_scalars=(lambda x: np.stack([x[0], x[1] * x[2], 3.0]), V),
    vstack=(lambda x, y: np.vstack([x, y]), V, W),
    hstack=(lambda x, y: np.hstack([x, y]), V, W),
    hstack_matrices=(lambda x, y: np.hstack([x, y]), M, N),
    dstack=(lambda x, y: np.dstack([x, y]), M, N),
    column_stack=(lambda x, y: np.column_stack([x, y]), V, W),
    block=(lambda x: np.block([[x, x], [x * 2, np.ones((3, 4))]]), M),
    append=(lambda x: np.append(x, [1.0, 2.0]), V),
    append_axis=(lambda x, y: np.append(x, y, axis=0), M, N),
    array_nested=(lambda x: h(np.array)([[x[0], x[1]], [0.0, x[2] ** 2]]), V),
    array_of_rows=(lambda x: h(np.array)([x[0], x[1] * 2]), M),
    array_copy=(lambda x: h(np.array)(x), M),
    array_dtype=(lambda x: h(np.array)([x[0], 1], dtype=float), V),
    array_scalar=(lambda x: h(np.array)(x[0]), V),
    asarray=(lambda x: h(np.asarray)([x[0], x[1]]), V),
    split=(lambda x: np.split(x, 3), V),
    split_at=(lambda x: np.split(x, [1, 4]), V),
    array_split=(lambda x: np.array_split(x, 4), V),
    hsplit=(lambda x: np.hsplit(x, 2), M),
    vsplit=(lambda x: np.vsplit(x, 3), M),
    repeat=(lambda x: np.repeat(x, 2), M),
    repeat_axis=(lambda x: np.repeat(x, 3, axis=1), M),
    repeat_counts=(lambda x: np.repeat(x, [1, 0, 2], axis=0), M),
    repeat_method=(lambda x: x.repeat(2, axis=0), M),
    tile=(lambda x: np.tile(x, 3), V),
    tile_matrix=(lambda x: np.tile(x, (2, 2)), M),
    tile_more_axes=(lambda x: np.tile(x, (2, 1, 2)), M),
    flip=(lambda x: np.flip(x), M),
    flip_axis=(lambda x: np.flip(x, axis=1), M),
    fliplr=(lambda x: np.fliplr(x), M),
    flipud=(lambda x: np.flipud(x), M),
    roll=(lambda x: np.roll(x, 2), V),
    roll_flat=(lambda x: np.roll(x, -3), M),
    roll_axis=(lambda x: np.roll(x, 1, axis=0), M),
    roll_axes=(lambda x: np.roll(x, (1, -2), axis=(0, 1)), M),
    roll_traced=(lambda x, i: np.roll(x, i), V, np.int64(2)),
    rot90=(lambda x: np.rot90(x), M),
    rot90_twice=(lambda x: np.rot90(x, 2), M),
    rot90_back=(lambda x: np.rot90(x, -1), M),
    pad=(lambda x: np.pad(x, 2), V),
    pad_pairs=(lambda x: np.pad(x, ((1, 2), (0, 1))), M),
    pad_pair=(lambda x: np.pad(x, (1, 2)), V),
    pad_value=(lambda x: np.pad(x, 1, constant_values=3.0), M),
    pad_traced_value=(lambda x, s: np.pad(x, (1, 2), constant_values=s), V, np.float64(S)),
    pad_edge=(lambda x: np.pad(x, 1, mode="edge"), M),
    pad_reflect=(lambda x: np.pad(x, 2, mode="reflect"), M),
    pad_symmetric=(lambda x: np.pad(x, 2, mode="symmetric"), M),
    pad_wrap=(lambda x: np.pad(x, ((1, 1), (2, 2)), mode="wrap"), M),
    insert=(lambda x: np.insert(x, 2, 7.0), V),
    insert_several=(lambda x, y: np.insert(x, [1, 3], y[:2]), V, W),
    insert_row=(lambda x, y: np.insert(x, 1, y[0], axis=0), M, N),
    delete=(lambda x: np.delete(x, [1, 3]), V),
    delete_axis=(lambda x: np.delete(x, 1, axis=0), M),
    unstack=(lambda x: np.unstack(x), M),
)
def test_joining(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    tril=(lambda x: np.tril(x), M),
    triu=(lambda x: np.triu(x, 1), M),
    tril_below=(lambda x: np.tril(x, -1), T),
    diag_of_vector=(lambda x: np.diag(x), V),
    diag_offset=(lambda x: np.diag(x, -2), V),
    diag_of_matrix=(lambda x: np.diag(x), M),
    diag_above=(lambda x: np.diag(x, 1), M),
    diagonal=(lambda x: np.diagonal(x, 1, 0, 2), T),
    diagonal_method=(lambda x: x.diagonal(-1), M),
    diagflat=(lambda x: np.diagflat(x, 1), M),
    trace=(lambda x: np.trace(x), M),
    trace_offset=(lambda x: np.trace(x, 1, 1, 2), T),
    trace_ints=(lambda x: np.trace(x), I),
)
def test_diagonals(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    zeros_like=(lambda x: np.zeros_like(x) + x, M),
    ones_like=(lambda x: np.ones_like(x, dtype=np.float32), M),
    full_like=(lambda x: np.full_like(x, 2.0), M),
    full_like_traced=(lambda x, s: np.full_like(x, s), M, np.float64(S)),
    full=(lambda s: h(np.full)((2, 3), s), np.float64(S)),
    full_broadcast=(lambda x: h(np.full)((2, 6), x), V),
    zeros=(lambda x: np.zeros((2, 2)) + x[0], V),
    eye_times=(lambda s: np.eye(3) * s, np.float64(S)),
    linspace=(lambda a, b: np.linspace(a, b, 5), np.float64(0.5), np.float64(2.0)),
    linspace_open=(lambda a: np.linspace(a, 3.0, 4, endpoint=False), np.float64(0.5)),
    linspace_step=(lambda a: np.linspace(a, 3.0, 4, retstep=True), np.float64(0.5)),
    linspace_arrays=(lambda x: np.linspace(x, 2 * x, 3, axis=-1), V),
    linspace_one=(lambda a: np.linspace(a, 3.0, 1), np.float64(0.5)),
    logspace=(lambda a: np.logspace(a, 1.0, 4), np.float64(0.5)),
    geomspace=(lambda a, b: np.geomspace(a, b, 4), np.float64(0.5), np.float64(8.0)),
    arange=(lambda i: h(np.arange)(i, i + 4) * 1.5, np.int64(3)),
    arange_step=(lambda i: h(np.arange)(2 * i, 2 * i + 7, 3), np.int64(3)),
    meshgrid=(lambda x, y: np.meshgrid(x, y), V, random(3)),
    meshgrid_ij=(lambda x, y: np.meshgrid(x, y, indexing="ij"), V, random(3)),
    vander=(lambda x: np.vander(x, 4), V),
    vander_increasing=(lambda x: np.vander(x, increasing=True), random(3)),
    number_times_array=(lambda s: s * np.ones(3), np.float64(S)),
    array_of_weak=(lambda s: h(np.array)([s, 1.0]), S),
    asarray_of_weak=(lambda s: h(np.asarray)(s) * np.float32(2.0), S),
)
def test_creation(function: Any, arrays: Any) -> None:
    check(function, arrays)


def _write_transposed(x: Any) -> Any:
    y = x.copy()
    y.T[0] = x[:, 1] * 2
    return y


def _write_reshaped(x: Any) -> Any:
    y = x * 1
    y.reshape(-1)[3:5] = x[0, :2] ** 2
    return y


def _write_ravelled(x: Any) -> Any:
    y = x * 1
    r = np.ravel(y)
    r *= 3
    return y, r


def _write_column_of_view(x: Any) -> Any:
    y = x * 1
    view = y[1:]
    view[:, 0] = x[0, 0]
    view[0] += x[0]
    return y, view


def _write_diagonal(x: Any) -> Any:
    y = x[:, :3] * 1
    np.fill_diagonal(y, x[0, 3])
    return y


def _copy_is_no_view(x: Any) -> Any:
    y = x.T.reshape(-1)
    y[0] = 100.0
    return x * 1, y


def _write_flipped(x: Any) -> Any:
    y = x * 1
    y[::-1][0] = 5.0
    np.flip(y, 1)[:, 0] = x[:, 1]
    return y


def _write_flat(x: Any) -> Any:
    y = x * 1
    y.T.flat[1] = 7.0
    y.flat[3:5] = x[0, :2] * 2
    return y


def _write_split(x: Any) -> Any:
    y = x * 1
    a, b = np.split(y, 2)
    a[...] = b * 2
    return y


def _write_squeezed(x: Any) -> Any:
    y = x[None] * 1
    y.squeeze()[0] = x[1]
    np.expand_dims(y, -1)[0, 1, 2, 0] = 3.0
    return y


def _swap(x: Any) -> Any:
    y = x * 1
    y[0], y[1] = y[1].copy(), y[0].copy()
    y[[0, 2]] = y[[2, 0]]
    return y


def _known_then_traced(x: Any) -> Any:
    y = np.zeros_like(x)
    y[0] = 1.0
    y[1] = x[1]
    z = np.zeros_like(x)
    z[2, 1:] += x[0, 1:]
    return y, z


def _copyto(x: Any) -> Any:
    y = np.empty_like(x)
    np.copyto(y, x * 2)
    np.copyto(y, 0.0, where=x > 0)
    return y


@rows(
    transposed=(_write_transposed, M),
    reshaped=(_write_reshaped, M),
    ravelled=(_write_ravelled, M),
    column_of_view=(_write_column_of_view, M),
    fill_diagonal=(_write_diagonal, M),
    copy_is_no_view=(_copy_is_no_view, M),
    flipped=(_write_flipped, M),
    split=(_write_split, V),
    flat=(_write_flat, M),
    squeezed=(_write_squeezed, M),
    swap=(_swap, M),
    known_then_traced=(_known_then_traced, M),
    copyto=(_copyto, M),
)
def test_writes_through_views(function: Any, arrays: Any) -> None:
    check(function, arrays)


def _out(x: Any) -> Any:
    y = np.empty_like(x)
    result = np.multiply(x, 2.0, out=y)
    np.add(y, x, y)
    total = np.zeros_like(x[0])
    np.sum(x, axis=0, out=total)
    np.exp(total, out=(total,))
    return y, result, total


def test_out() -> None:
    check(_out, [M])


def test_broadcast_view_is_read_only() -> None:
    def write(x: Any) -> None:
        np.broadcast_to(x, (2, 6))[0, 0] = 1.0

    with pytest.raises(TypeError, match="read-only"):
        capture(write, [V])


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda x: x.reshape(5), ValueError, "cannot reshape array of size 12"),
        (lambda x: np.sum(x, axis=2), np.exceptions.AxisError, "axis 2 is out of bounds"),
        (lambda x: np.concatenate([x, x[:, :2]]), ValueError, "must match exactly"),
        (lambda x: x + x[:, :3], ValueError, "could not be broadcast"),
        (lambda x: np.transpose(x, (0, 0)), ValueError, "repeated axis"),
        (lambda x: np.split(x, 2), ValueError, "equal division"),
        (lambda x: np.stack([x, x[0]]), ValueError, "same shape"),
        (lambda x: x[5], IndexError, "index 5 is out of bounds for axis 0 with size 3"),
        (lambda x: x[0, 0, 0], IndexError, "too many indices"),
        (lambda x: x @ x, ValueError, "do not fit"),
        (lambda x: np.squeeze(x, 0), ValueError, "size not equal to one"),
        (lambda x: np.unique(x, axis=0), NotImplementedError, "rows or columns"),
        (lambda x: np.trim_zeros(x[0]), NotImplementedError, "trim_zeros"),
        (lambda x: np.linalg.eig(x), NotImplementedError, "eig"),
        (lambda x: h(float)(x), TypeError, "only arrays of one element"),
        (lambda x: np.add(x, 1j, out=x), TypeError, "cannot cast"),
    ],
)
def test_misuse(function: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        capture(function, [M])


def test_errors_name_the_line() -> None:
    with pytest.raises(TracedValueError) as caught:
        capture(lambda x: x.reshape(5), [M])
    assert caught.value.span is not None
    assert caught.value.span.file == __file__


def test_large_uniform_constant_is_not_embedded() -> None:
    made, _ = capture(lambda x: np.zeros((1000, 1000))[:3, :4] + x + np.ones((500, 4))[:3] + np.arange(4000.0)[:4], [M])
    assert not any(o.op == "constant" and o.attrs["value"].size > 16 for o in made.body.operations)
