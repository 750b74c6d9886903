"""Shapes, views, joins and copies of arrays whose length is found when the program runs.

Previous: ragged_products.py; next: ragged_sorting.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.capture.axes import Axis
from tracegrad.capture.contents import at, iota, shifted, taken
from tracegrad.capture.lengths import at_least, plus, require_equal, unknown_length
from tracegrad.capture.memory import UNKNOWN
from tracegrad.capture.ragged import Ragged, align, chosen_axes, covers_ragged, filled
from tracegrad.capture.sizes import as_dim
from tracegrad.capture.tracer import asarray, call_handler, cast_to, make_weak
from tracegrad.ir.types import is_integer


@covers_ragged(len, either_order=True)
def _len(x: Ragged) -> Any:
    return x.shape[0]


@covers_ragged(np.shape, either_order=True)
def _shape(a: Ragged) -> Any:
    return a.shape


@covers_ragged(np.size, either_order=True)
def _size(a: Ragged, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[chosen_axes(a, axis)[0]]


@covers_ragged(np.ndim, either_order=True)
def _ndim(a: Ragged) -> int:
    return a.ndim


@covers_ragged(np.copy, np.array)
def _copy(a: Any, dtype: Any = None, **kwargs: Any) -> Ragged:
    if set(kwargs) - {"copy"}:
        raise unknown_length()
    array = a if isinstance(a, Ragged) else _stack(a)
    return array.copy() if dtype is None else array.astype(dtype).copy()


@covers_ragged(np.asarray, np.ascontiguousarray, np.atleast_1d, either_order=True)
def _asarray(a: Any, dtype: Any = None) -> Ragged:
    if not isinstance(a, Ragged):
        return _copy(a, dtype)
    return a if dtype is None or np.dtype(dtype) == a.dtype else a.astype(dtype)


def _permuted(a: Ragged, order: Sequence[int]) -> Ragged:
    return Ragged(
        call_handler(np.transpose, a.content, tuple(order)), {order.index(k): axis for k, axis in a.axes.items()}
    )


@covers_ragged(np.transpose, either_order=True)
def _transpose(a: Ragged, axes: Any = None) -> Ragged:
    return _permuted(a, range(a.ndim)[::-1] if axes is None else chosen_axes(a, tuple(axes)))


@covers_ragged(np.moveaxis, either_order=True)
def _moveaxis(a: Ragged, source: Any, destination: Any) -> Ragged:
    sources, targets = chosen_axes(a, source), chosen_axes(a, destination)
    order = [k for k in range(a.ndim) if k not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return _permuted(a, order)


@covers_ragged(np.swapaxes, either_order=True)
def _swapaxes(a: Ragged, axis1: int, axis2: int) -> Ragged:
    first, second = chosen_axes(a, (axis1, axis2))
    order = list(range(a.ndim))
    order[first], order[second] = second, first
    return _permuted(a, order)


def _merged(a: Ragged, k: int) -> Ragged:
    """Return the array with the ragged axis k and the axis after it as one."""
    if k + 1 in a.axes:
        raise unknown_length()
    a = a.forwards()
    dims = a.content.shape
    content = call_handler(np.reshape, a.content, (*dims[:k], dims[k] * dims[k + 1], *dims[k + 2 :]))
    axes = {j - (j > k): own for j, own in a.axes.items()}
    return Ragged(content, {**axes, k: Axis(a.axes[k].stop * dims[k + 1], a.axes[k].start * dims[k + 1])})


@covers_ragged(np.reshape, either_order=True)
def _reshape(a: Ragged, shape: Any, order: str = "C") -> Ragged:
    """Return a view with other axes of length 1, or with several axes as one; the others stay as they are."""
    dims = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    gone, place = a.ndim - len(dims), next((k for k, d in enumerate(dims) if isinstance(d, int) and d == -1), None)
    if gone > 0 and place is not None and order == "C" and set(a.axes) == {place}:
        rest = [d for k, d in enumerate(a.content.type.shape) if not place <= k <= place + gone]
        if rest == [as_dim(d) for k, d in enumerate(dims) if k != place]:
            return functools.reduce(lambda merged, _: _merged(merged, place), range(gone), a)
    kept = [k for k, d in enumerate(a.shape) if k in a.axes or d != 1]
    lengths = [d for d in dims if not (isinstance(d, int) and d == 1)]
    if len(lengths) != len(kept):
        raise unknown_length()
    for k, length in zip(kept, lengths, strict=True):
        if not (isinstance(length, int) and length == -1):
            require_equal(a.shape[k], length, "a reshape keeps the number of elements")
    bare = a[tuple(slice(None) if k in kept else 0 for k in range(a.ndim))]
    part: Ragged = bare[tuple(None if isinstance(d, int) and d == 1 else slice(None) for d in dims)]
    return part


@covers_ragged(np.ravel, either_order=True)
def _ravel(a: Ragged, order: str = "C") -> Ragged:
    flat = _reshape(a, -1)
    if a.is_contiguous:
        return flat
    made = flat.copy()
    if not at_least(a.size, 2):  # of one element NumPy makes a view
        made.content._storage.pinned = UNKNOWN
    return made


@covers_ragged(np.ndarray.flat, either_order=True)
def _flat(a: Ragged) -> Ragged:
    return _reshape(a, -1)


@covers_ragged(np.expand_dims, either_order=True)
def _expand_dims(a: Ragged, axis: Any) -> Ragged:
    given = axis if isinstance(axis, tuple | list) else (axis,)
    places = np.lib.array_utils.normalize_axis_tuple(axis, a.ndim + len(given))
    part: Ragged = a[tuple(None if k in places else slice(None) for k in range(a.ndim + len(places)))]
    return part


@covers_ragged(np.atleast_2d, either_order=True)
def _atleast_2d(a: Ragged) -> Ragged:
    return a if a.ndim > 1 else _expand_dims(a, 0)


@covers_ragged(np.squeeze, either_order=True)
def _squeeze(a: Ragged, axis: Any = None) -> Ragged:
    gone = [k for k, d in enumerate(a.shape) if k not in a.axes and d == 1] if axis is None else chosen_axes(a, axis)
    if any(k in a.axes for k in gone):
        raise unknown_length()
    if any(a.shape[k] != 1 for k in gone):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    part: Ragged = a[tuple(0 if k in gone else slice(None) for k in range(a.ndim))]
    return part


@covers_ragged(np.take, either_order=True)
def _take(a: Any, indices: Any, axis: Any = None) -> Any:
    if not isinstance(a, Ragged):
        raise unknown_length()
    (k,) = chosen_axes(a, axis) if axis is not None or a.ndim == 1 else (None,)
    if k is None:
        raise unknown_length()
    return a[at(k, indices)]


@covers_ragged(np.diagonal, np.diag)
def _diagonal(a: Any, offset: int = 0) -> Ragged:
    if not isinstance(a, Ragged) or a.ndim > 2 or offset != 0:
        raise unknown_length()
    if a.ndim == 1:
        return Ragged(call_handler(np.diag, filled(a, (0,), 0)), {0: a.axes[0], 1: a.axes[0]})
    content, lengths = a.content, a.shape
    for k, axis in a.axes.items():
        content = shifted(content, k, axis)
    sure = [k for k in (0, 1) if at_least(lengths[1 - k] - lengths[k], 0)]
    length = lengths[sure[0]] if sure else make_weak(call_handler(np.minimum, *lengths))
    return Ragged(call_handler(np.copy, call_handler(np.diagonal, content)), {0: Axis(length)})


@covers_ragged(np.trace)
def _trace(a: Any, offset: int = 0) -> Any:
    return call_handler(np.sum, _diagonal(a, offset))


@covers_ragged(np.repeat)
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if not isinstance(a, Ragged) or not isinstance(repeats, int) or (axis is None and a.ndim > 1):
        raise unknown_length()
    (k,) = chosen_axes(a, axis)
    axes = {j: Axis(own.stop * repeats, own.start * repeats) if j == k else own for j, own in a.axes.items()}
    return Ragged(call_handler(np.repeat, a.content, repeats, k), axes)


@covers_ragged(np.flip, either_order=True)
def _flip_all(m: Ragged, axis: Any = None) -> Ragged:
    chosen = chosen_axes(m, axis)
    part: Ragged = m[tuple(slice(None, None, -1 if k in chosen else 1) for k in range(m.ndim))]
    return part


@covers_ragged(np.append)
def _append(arr: Any, values: Any, axis: Any = None) -> Ragged:
    if axis is None:
        return _concatenate([call_handler(np.ravel, part) for part in (arr, values)])
    return _concatenate((arr, values), axis)


@covers_ragged(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0) -> Ragged:
    parts = [part if isinstance(part, Ragged) else Ragged(asarray(part), {}) for part in arrays]
    ndim = parts[0].ndim
    if axis is None or any(part.ndim != ndim for part in parts):
        raise unknown_length()
    (k,) = chosen_axes(parts[0], axis)
    if k != 0:
        if ndim != 2:
            raise unknown_length()
        columns: Ragged = _stack([part[:, j] for part in parts for j in range(operator.index(part.shape[1]))], 1)
        return columns
    if any(set(part.axes) - {0} for part in parts):
        raise unknown_length()
    dtype = np.result_type(*[part.dtype for part in parts])
    content, length = parts[0].content, parts[0].shape[0]
    if parts[0].axes:
        content = shifted(content, 0, parts[0].axes[0])
    for part in parts[1:]:
        size = content.type.shape[0] + part.content.type.shape[0]
        positions = iota((size,))
        widths = [(0, part.content.shape[0]), *[(0, 0)] * (ndim - 1)]
        moved = part.content
        if part.content.type.shape[0] != 1:
            own = part.axes[0].start if part.axes else 0
            index = plus(call_handler(np.subtract, positions, length), own)
            moved = taken(moved, 0, call_handler(np.clip, index, 0, part.content.shape[0] - 1))
        before = call_handler(np.reshape, positions < length, (-1, *[1] * (ndim - 1)))
        content = call_handler(np.where, before, call_handler(np.pad, content, widths), moved)
        length = plus(length, part.shape[0])
    return Ragged(cast_to(content, dtype), {0: Axis(length)})


@covers_ragged(np.hstack)
def _hstack(tup: Any) -> Ragged:
    return _concatenate(tup, 0 if np.ndim(tup[0]) < 2 else 1)


@covers_ragged(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Ragged:
    if not isinstance(a, Ragged) or np.ndim(axis) or (axis is None and a.ndim > 1):
        raise unknown_length()
    (k,) = chosen_axes(a, axis)
    if k not in a.axes:
        return Ragged(call_handler(np.roll, a.content, shift, k), a.axes)
    length = a.axes[k].length
    content = shifted(a.content, k, a.axes[k])
    whole = length if at_least(length, 1) else call_handler(np.maximum, length, 1)
    places = call_handler(np.remainder, call_handler(np.subtract, iota((content.type.shape[k],)), shift), whole)
    return Ragged(taken(content, k, places), {**a.axes, k: Axis(length)})


def _like(function: Any) -> Callable[..., Any]:
    def make(a: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(a, Ragged) or "shape" in kwargs:
            raise unknown_length()
        return Ragged(call_handler(function, a.content, *args, **kwargs), a.axes)

    return make


for _function in (np.zeros_like, np.ones_like, np.full_like, np.empty_like):
    covers_ragged(_function)(_like(_function))


@covers_ragged(np.stack)
def _stack(arrays: Any, axis: int = 0) -> Any:
    parts = [part if isinstance(part, Ragged) else Ragged(asarray(part), {}) for part in arrays]
    ndim = parts[0].ndim
    if any(part.ndim != ndim for part in parts):
        raise unknown_length()
    contents, axes = align(parts)
    if any(content.type.shape != contents[0].type.shape for content in contents):
        raise unknown_length()
    place = np.lib.array_utils.normalize_axis_index(axis, ndim + 1)
    return Ragged(call_handler(np.stack, contents, place), {k + (k >= place): own for k, own in axes.items()})


@covers_ragged(np.vstack)
def _vstack(tup: Any) -> Any:
    if all(np.ndim(part) == 1 for part in tup):
        return _stack(tup)
    return _concatenate([part if np.ndim(part) > 1 else call_handler(np.reshape, part, (1, -1)) for part in tup])


@covers_ragged(np.column_stack)
def _column_stack(tup: Any) -> Any:
    return _concatenate([part if np.ndim(part) > 1 else call_handler(np.expand_dims, part, 1) for part in tup], 1)


@covers_ragged(np.c_)
def _columns(key: Any) -> Any:
    return _column_stack(key)


@covers_ragged(np.vander)
def _vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    if not isinstance(x, Ragged) or x.ndim != 1 or N is None:
        raise unknown_length()
    powers = [call_handler(np.ones_like, x)]
    for _ in range(1, operator.index(N)):
        powers.append(powers[-1] * x)
    return _stack(powers[: operator.index(N)][:: 1 if increasing else -1], 1)


@covers_ragged(operator.getitem)
def _items_at(a: Any, key: Any) -> Any:
    if isinstance(a, Ragged) or not isinstance(key, Ragged) or not is_integer(key.dtype):
        raise unknown_length("an index array or a mask for a part of unknown length")
    return Ragged(call_handler(operator.getitem, a, filled(key, tuple(key.axes), 0)), key.axes)
