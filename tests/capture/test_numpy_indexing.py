"""Indexing, basic, advanced, traced, by windows and masks: reads, writes and gradients against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.numpy_rows import capture, check, check_values, h, random, rows
from tracegrad.errors import NeedsPythonValue
from tracegrad.testing.interpret import interpret

V = random(8)
M = random(4, 5)
T = random(3, 4, 5)
Q = random(2, 3, 4, 5)
K, L = np.int64(1), np.int64(-2)
IDX = np.array([2, 0, -1])
GRID = np.array([[0, 2], [1, 1]])
BOOLS = np.array([True, False, True, True])
WRITE = random(2, 3, 4, 5, seed=9)

READS: list[tuple[Any, Any]] = [
    (V, np.s_[2]),
    (V, np.s_[-1]),
    (V, np.s_[2:5]),
    (V, np.s_[::2]),
    (V, np.s_[::-1]),
    (V, np.s_[6:1:-2]),
    (V, np.s_[-3:]),
    (V, np.s_[10:20]),
    (V, np.s_[:-2]),
    (V, np.s_[...]),
    (V, np.s_[None]),
    (V, np.s_[:, None]),
    (V, np.s_[[1, 3]]),
    (V, IDX),
    (V, GRID),
    (M, np.s_[1]),
    (M, np.s_[1, 2]),
    (M, np.s_[:, 2]),
    (M, np.s_[1:3, ::2]),
    (M, np.s_[..., 0]),
    (M, np.s_[None, 1, :, None]),
    (M, np.s_[::-1, ::-2]),
    (M, np.s_[IDX]),
    (M, np.s_[IDX, IDX]),
    (M, np.s_[IDX, 1:3]),
    (M, np.s_[:, IDX]),
    (M, np.s_[1, IDX]),
    (M, np.s_[IDX[:, None], GRID[:1]]),
    (M, BOOLS),
    (M, np.s_[BOOLS, 1]),
    (M, np.s_[:, [0, 0, 4]]),
    (M, M > 0),
    (T, np.s_[1, :, 2]),
    (T, np.s_[0, IDX]),
    (T, np.s_[0, :, IDX]),
    (T, np.s_[IDX, :, IDX]),
    (T, np.s_[:, IDX, IDX]),
    (T, np.s_[IDX, IDX]),
    (T, np.s_[:, None, GRID]),
    (T, np.s_[..., GRID]),
    (T, np.s_[IDX, None, IDX]),
    (T, np.s_[IDX, 0]),
    (T, np.s_[0, 1:3, ::-1]),
    (Q, np.s_[:, IDX, :, IDX]),
    (Q, np.s_[:, IDX, IDX]),
    (Q, np.s_[0, :, IDX, None, 1:]),
    (Q, np.s_[1, ..., IDX]),
    (Q, np.s_[:, 1, GRID, ::2]),
]
IDS = [f"{a.shape}-{key!r}"[:60].replace("\n", "") for a, key in READS]


@pytest.mark.parametrize(("array", "key"), READS, ids=IDS)
def test_reads(array: Any, key: Any) -> None:
    check(lambda x: x[key] * 2, [array])


@pytest.mark.parametrize(("array", "key"), READS, ids=IDS)
def test_writes(array: Any, key: Any) -> None:
    values = np.resize(WRITE, array[key].shape) if np.ndim(array[key]) else np.float64(3.0)
    if (isinstance(key, np.ndarray) and key.dtype == bool) or "-1]), slice" in repr(key):
        values = np.asarray(values)

    def write(x: Any, v: Any) -> Any:
        y = x * 1
        y[key] = v
        return y

    def accumulate(x: Any, v: Any) -> Any:
        y = x * 1
        y[key] += v
        return y

    def scalar(x: Any) -> Any:
        y = x * 1
        y[key] = 7
        return y

    check(write, [array, values])
    check(accumulate, [array, values])
    check(scalar, [array])


@pytest.mark.parametrize(("array", "key"), READS, ids=IDS)
def test_reads_of_known_arrays(array: Any, key: Any) -> None:
    check(lambda s: h(np.multiply)(s, 1.0) * np.asarray(array)[key], [np.float64(2.0)])


#: reads with traced indices: the function gets the array and the index
TRACED: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "scalar": (lambda x, i: x[i], V, K),
    "negative": (lambda x, i: x[i], V, L),
    "row": (lambda x, i: x[i], M, K),
    "column": (lambda x, i: x[:, i], M, L),
    "element": (lambda x, i: x[i, i + 2], M, K),
    "row_then_element": (lambda x, i: x[i][2], M, K),
    "row_then_slice": (lambda x, i: x[i][1:3], M, K),
    "row_static_column": (lambda x, i: x[i, 0], M, K),
    "row_slice": (lambda x, i: x[i, 1:4:2], M, K),
    "slice_column": (lambda x, i: x[1:, i], M, K),
    "new_axis": (lambda x, i: x[None, i], M, K),
    "middle": (lambda x, i: x[:, i], T, K),
    "ends": (lambda x, i: x[i, :, i], T, K),
    "array": (lambda x, i: x[i], V, IDX),
    "grid": (lambda x, i: x[i], M, GRID),
    "array_column": (lambda x, i: x[:, i], M, IDX),
    "array_pair": (lambda x, i: x[i, i + 1], M, np.array([0, 1, 2])),
    "array_and_slice": (lambda x, i: x[i, 1:3], M, IDX),
    "array_and_int": (lambda x, i: x[0, :, i], T, IDX),
    "window": (lambda x, i: x[i : i + 3], V, K),
    "window_around": (lambda x, i: x[i - 1 : i + 2], V, K),
    "window_step": (lambda x, i: x[2 * i : 2 * i + 4 : 2], V, K),
    "window_rows": (lambda x, i: x[i : i + 2], M, K),
    "window_columns": (lambda x, i: x[:, i : i + 2], M, K),
    "window_both": (lambda x, i: x[i : i + 2, i : i + 3], M, K),
    "window_and_point": (lambda x, i: x[i, i : i + 3], M, K),
    "window_blocks": (lambda x, i: x[i * 3 : (i + 1) * 3], V, K),
    "window_negative": (lambda x, i: x[i - 2 : i], V, L),
    "list_of_traced": (lambda x, i: x[[i, i + 1]], V, K),
    "tuple_of_arrays": (lambda x, i: x[(i, i)], M, np.array([0, 1, 2])),
    "ellipsis": (lambda x, i: x[..., i], T, K),
    "take": (lambda x, i: np.take(x, i), V, IDX),
    "take_axis": (lambda x, i: np.take(x, i, axis=1), M, GRID),
    "take_wrap": (lambda x, i: np.take(x, i, mode="wrap"), V, np.array([9, -3])),
    "take_clip": (lambda x, i: np.take(x, i, mode="clip"), V, np.array([9, 3])),
    "take_along_axis": (lambda x, i: np.take_along_axis(x, i, axis=1), M, np.array([[0, 2], [1, 1], [4, 3], [0, 0]])),
    "int32": (lambda x, i: x[i], V, np.int32(2)),
    "view_of_row": (lambda x, i: x[i][::-1][:2], M, K),
}


@pytest.mark.parametrize("name", TRACED)
def test_traced_reads(name: str) -> None:
    function, array, index = TRACED[name]
    check(function, [array, index])


def _updating(write: Callable[..., None]) -> Callable[..., Any]:
    def function(x: Any, i: Any, v: Any) -> Any:
        y = x * 1
        write(y, i, v)
        return y

    return function


def _row_view(y: Any, i: Any, v: Any) -> None:
    row = y[i]
    row[2] = v
    row[3:] += v


def _chain(y: Any, i: Any, v: Any) -> None:
    y[i][1] = v
    y[i][2] += y[i][1] * v


def _window_view(y: Any, i: Any, v: Any) -> None:
    w = y[i : i + 3]
    w *= v
    w[0] = 1.0


def _overlap(y: Any, i: Any, v: Any) -> None:
    y[1:] = y[:-1] * v
    y[i : i + 2] = y[i + 1 : i + 3]


def _swap(y: Any, i: Any, v: Any) -> None:
    y[i], y[i + 1] = y[i + 1] * v, y[i]


def _set(key: Callable[[Any], Any]) -> Callable[..., Any]:
    def write(y: Any, i: Any, v: Any) -> None:
        y[key(i)] = v

    return _updating(write)


def _add(key: Callable[[Any], Any]) -> Callable[..., Any]:
    def write(y: Any, i: Any, v: Any) -> None:
        y[key(i)] += v

    return _updating(write)


S = np.float64(1.5)
WRITES: dict[str, tuple[Any, ...]] = {
    "scalar": (_set(lambda i: i), V, K, S),
    "scalar_negative": (_set(lambda i: i), V, L, S),
    "element": (_set(lambda i: (i, i + 1)), M, K, S),
    "element_mixed": (_set(lambda i: (i, 2)), M, K, S),
    "row": (_set(lambda i: i), M, K, random(5)),
    "row_broadcast": (_set(lambda i: i), M, K, S),
    "column": (_set(lambda i: (slice(None), i)), M, K, random(4)),
    "row_slice": (_set(lambda i: (i, slice(1, 3))), M, K, random(2)),
    "row_slice_backwards": (_set(lambda i: (i, slice(3, 0, -1))), M, K, random(3)),
    "slice_column": (_set(lambda i: (slice(1, None, 2), i)), M, K, random(2)),
    "array": (_set(lambda i: i), V, IDX, random(3)),
    "array_repeated": (_set(lambda i: i), V, np.array([1, 1, 2]), random(3)),
    "array_rows": (_set(lambda i: i), M, IDX, random(3, 5)),
    "array_rows_slice": (_set(lambda i: (i, slice(0, 2))), M, IDX, random(3, 2)),
    "array_column": (_set(lambda i: (slice(None), i)), M, IDX, random(4, 3)),
    "array_pair": (_set(lambda i: (i, i)), M, IDX, random(3)),
    "array_separated": (_set(lambda i: (i, slice(None), i)), T, IDX, random(3, 4)),
    "new_axis": (_set(lambda i: (None, i)), M, K, random(1, 5)),
    "window": (_set(lambda i: slice(i, i + 3)), V, K, random(3)),
    "window_number": (_set(lambda i: slice(i - 1, i + 2)), V, K, S),
    "window_both": (_set(lambda i: (slice(i, i + 2), slice(i, i + 3))), M, K, random(2, 3)),
    "window_point": (_set(lambda i: (i, slice(i, i + 3))), M, K, random(3)),
    "add_scalar": (_add(lambda i: i), V, K, S),
    "add_row": (_add(lambda i: i), M, K, random(5)),
    "add_array": (_add(lambda i: i), V, np.array([2, 0, 3]), random(3)),
    "add_window": (_add(lambda i: slice(i, i + 3)), V, K, random(3)),
    "row_view": (_updating(_row_view), M, K, S),
    "chain": (_updating(_chain), M, K, S),
    "window_view": (_updating(_window_view), V, K, S),
    "overlap": (_updating(_overlap), V, K, S),
    "swap": (_updating(_swap), V, K, S),
    "int_array_truncates": (_set(lambda i: i), np.arange(5), K, S),
    "leading_ones": (_set(lambda i: i), M, K, random(1, 5)),
    "put_along_axis": (
        _updating(lambda y, i, v: h(np.put_along_axis)(y, i, v, axis=1)), M, np.array([[0], [1], [4], [0]]), S,
    ),
    "add_at": (_updating(lambda y, i, v: np.add.at(y, i, v)), V, np.array([1, 1, 2]), random(3)),
    "add_at_rows": (_updating(lambda y, i, v: np.add.at(y, i, v)), M, np.array([1, 1, 2]), random(3, 5)),
    "add_at_pair": (_updating(lambda y, i, v: np.add.at(y, (i, i), v)), M, np.array([1, 1, 2]), random(3)),
    "add_at_slice": (_updating(lambda y, i, v: np.add.at(y, slice(1, 3), v * i)), V, K, S),
    "subtract_at": (_updating(lambda y, i, v: np.subtract.at(y, i, v)), V, np.array([1, 1, 2]), random(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_traced_writes(name: str) -> None:
    function, *arrays = WRITES[name]
    check(function, arrays)


@rows(
    multiply_at=(lambda x, v: _at(np.multiply, x, [0, 3], v), V, random(2)),
    maximum_at=(lambda x, v: _at(np.maximum, x, [0, 3], v), V, random(2)),
    add_at_known=(lambda x, v: _at(np.add, x, [0, 0, 3], v), V, random(3)),
    ix=(lambda x: x[np.ix_([0, 2], [1, 3, 4])], M),
    put=(lambda x, v: _put(x, v), M, random(2)),
    take_static=(lambda x: np.take(x, [0, -1], axis=0), M),
    unravel=(lambda x: x[np.unravel_index(np.argmax(x), (4, 5))] * x, M),
    ravel_multi=(lambda x, i: x.reshape(-1)[np.ravel_multi_index((i, i + 1), (4, 5))], M, np.array([0, 2])),
    item=(lambda x: np.ones(5) * x.item(3) * x.item((1, 2)), M),
)
def test_other(function: Any, arrays: Any) -> None:
    check(function, arrays)


def _at(ufunc: Any, x: Any, index: Any, v: Any) -> Any:
    y = x * 1
    ufunc.at(y, index, v)
    return y


def _put(x: Any, v: Any) -> Any:
    y = x * 1
    h(np.put)(y, [1, 7], v)
    return y


# ---- masks


def _mask_assign(x: Any) -> Any:
    y = x * 1
    y[x > 0.2] = 0.0
    y[x < -0.2] += 2.0
    y[y > 1.5] *= x[0, 0]
    return y


def _mask_rows(x: Any) -> Any:
    y = x * 1
    y[x[:, 0] > 0] = x[1]
    y[x[:, 1] > 0] -= 1.0
    return y


def _mask_same(x: Any) -> Any:
    y = x * 1
    positive = x > 0
    y[positive] = np.log(x[positive])
    y[~positive] = x[~positive] ** 2 + 1
    y[y > 0.5] = y[y > 0.5] * 3
    return y


def _mask_column(x: Any) -> Any:
    y = x * 1
    y[x[:, 0] > 0, 1] = 5.0
    y[1:, 2][x[1:, 2] > 0] = -1.0
    y[:, x[0] > 0] = 2.0
    return y


def _mask_expression(x: Any) -> Any:
    m = x > 0
    return (
        np.sqrt(x[m] * 2 + 1).sum() + (x[m] ** 2).mean() - x[m].max() + x[~m].min() + np.sum(abs(x[~m])) + np.std(x[m])
    )


@rows(
    assign=(_mask_assign, M),
    rows=(_mask_rows, M),
    same=(_mask_same, M),
    column=(_mask_column, M),
    sum=(lambda x: x[x > 0].sum(), M),
    mean=(lambda x: np.mean(x[x > 0]), M),
    expression=(_mask_expression, M),
    size=(lambda x: x[x > 0].size * x, M),
    length=(lambda x: h(len)(x[x > 0]) * x, M),
    rows_sum=(lambda x: x[x[:, 0] > 0].sum(axis=0), M),
    other_array=(lambda x, y: np.sum(x[y > 0] * y[y > 0]), M, random(4, 5, seed=3)),
)
def test_masks(function: Any, arrays: Any) -> None:
    check(function, arrays)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sort(x[x > 0]),
        lambda x: np.fft.rfft(x[x > 0]),
        lambda x: x[x > 0] * x[x < 0],
        lambda x: np.concatenate([x[x > 0], x]),
    ],
)
def test_masks_of_unknown_count(function: Any) -> None:
    with pytest.raises(NotImplementedError, match="known only at run time"):
        capture(function, [V])


# ---- refusals and run-time errors


def test_window_of_unknown_length() -> None:
    with pytest.raises(NeedsPythonValue, match="length of an array"):
        capture(lambda x, i: x[:i], [V, K])


@pytest.mark.parametrize("index", [8, -9])
def test_index_out_of_range_at_run_time(index: int) -> None:
    made, _ = capture(lambda x, i: x[i], [V, K])
    with pytest.raises(IndexError):
        interpret(made, V, index)


@pytest.mark.parametrize("index", [0, 6])
def test_window_out_of_range_at_run_time(index: int) -> None:
    made, _ = capture(lambda x, i: x[i - 1 : i + 2], [V, K])
    with pytest.raises(IndexError):
        interpret(made, V, index + (index == 6))


def test_float_index() -> None:
    with pytest.raises(IndexError, match="only integers"):
        capture(lambda x: x[x[0]], [V])


def test_scalar_write_touches_only_the_element() -> None:
    def write(x: Any, i: Any) -> Any:
        y = x * 1
        y[i, i + 1] = 3.0
        y[i][2] = 4.0
        return y

    made, _ = capture(write, [M, K])
    scatters = [o for o in made.body.operations if o.op == "scatter_set"]
    assert [o.operands[-1].shape for o in scatters] == [(), ()]
    check_values(write, [M, K])


def _doubled_by_ellipsis(x: Any, i: Any) -> Any:
    y = x * 1
    place = y[i, ...]
    place *= 2
    place[...] = place + x[0]
    return y


def _doubled_by_shape(x: Any, i: Any) -> Any:
    y = x * 1
    place = y[1:2].reshape(())
    place *= 2
    return y + i


def _element_follows(x: Any, i: Any) -> Any:
    y = x * 1
    place = y[i, ...]
    y[i] = 5.0
    return place * x[0]


def _number_of_0d(x: Any, i: Any) -> Any:
    total = np.sum(x) * i
    copied = total[()]
    copied *= 2
    return total


@pytest.mark.parametrize("f", [_doubled_by_ellipsis, _doubled_by_shape, _element_follows, _number_of_0d])
def test_views_without_axes_are_arrays_and_elements_are_numbers(f: Callable[..., Any]) -> None:
    check_values(f, [V, K])
