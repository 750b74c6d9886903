"""Strides: of results, which follow from those of the operands as in torch, and of views.

Reads and makes arrays. Previous: engine.py; next: mirrors.py.

Elementwise operations walk memory in the order of their operands, so that a chain over transposed tensors stays
transposed; all other operations give row-major results. Axes of size 1 have strides too, which matter to nobody but are
shown: they are those that torch gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.runtime.engine import engine

Array = np.ndarray[Any, Any]
Strides = tuple[int, ...]

#: what a composition may say of its results
ROWS, LIKE_OPERANDS = "rows", "like operands"


def _strided(array: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Return a view of the memory of an array that begins where the array begins; `strides` are in bytes."""
    made = np.lib.stride_tricks.as_strided(array, shape, strides, writeable=array.flags.writeable)
    return made.view(np.ndarray)


strided: Callable[[Array, Sequence[int], Sequence[int]], Array] = engine.strided if engine else _strided


def row_major(shape: Sequence[int], itemsize: int) -> Strides:
    """Return the strides in bytes of an array without gaps whose last axis runs fastest."""
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def is_dense(array: Array) -> bool:
    """Return whether elements fill their memory without gaps or overlaps, in some order of the axes."""
    expected = array.itemsize
    for stride, size in sorted((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which all shapes are broadcast.

    Raises:
        RuntimeError: they do not go together.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise _shape_error(shapes) from None


def check_written(target: tuple[int, ...], source: tuple[int, ...]) -> None:
    """Check that what has a shape can be filled with elements of another.

    Raises:
        RuntimeError: the shapes do not go together.
    """
    shape = common_shape((target, source))
    if shape != target or len(source) > len(target):
        raise RuntimeError(f"output with shape {list(target)} doesn't match the broadcast shape {list(shape)}")


def _shape_error(shapes: Sequence[tuple[int, ...]]) -> RuntimeError:
    """Return torch's error for shapes that do not broadcast."""
    a, b = next(
        pair
        for pair in itertools.combinations(shapes, 2)
        if any(n != m and 1 not in (n, m) for n, m in zip(pair[0][::-1], pair[1][::-1], strict=False))
    )
    n = max(len(a), len(b))
    wide_a, wide_b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    axis = max(k for k in range(n) if wide_a[k] != wide_b[k] and 1 not in (wide_a[k], wide_b[k]))
    return RuntimeError(
        f"The size of tensor a ({wide_a[axis]}) must match the size of tensor b ({wide_b[axis]}) at non-singleton "
        f"dimension {axis}\n  shapes: {list(a)} and {list(b)}"
    )


def _broadcast_strides(array: Array, shape: Sequence[int]) -> Strides:
    new = len(shape) - array.ndim
    own = [
        0 if n == 1 and m != 1 else s for n, m, s in zip(array.shape, shape[new:], array.strides, strict=True)
    ]  # fmt: skip
    return (*[0] * new, *own)


def dense_strides(operands: Sequence[Array], shape: tuple[int, ...], itemsize: int) -> Strides:
    """Return the strides in bytes that a result of elementwise operands has.

    The axes are sorted, those with the smallest strides last; where the strides of one operand do not decide, those of
    the next do. Source: reorder_dimensions of torch's TensorIterator.
    """
    if all(array.shape == shape for array in operands):
        if all(array.flags.c_contiguous for array in operands):
            return row_major(shape, itemsize)
        first = operands[0]
        if is_dense(first) and all(array.strides == first.strides for array in operands):
            return tuple(s // first.itemsize * itemsize for s in first.strides)
    rank = len(shape)
    given = [_broadcast_strides(array, shape) for array in operands]

    def must_swap(a: int, b: int) -> int:
        for strides in given:
            if not strides[a] or not strides[b]:
                continue
            if strides[a] != strides[b]:
                return 1 if strides[a] > strides[b] else -1
            if shape[a] > shape[b]:
                return 1
        return 0

    order = list(reversed(range(rank)))  # the fastest axis first
    for start in range(1, rank):
        moving = start
        for k in reversed(range(start)):
            verdict = must_swap(order[k], order[moving])
            if verdict > 0:
                order[k], order[moving] = order[moving], order[k]
                moving = k
            elif verdict < 0:
                break
    strides, step = [0] * rank, itemsize
    for axis in order:
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def empty(shape: tuple[int, ...], dtype: Any, strides: Strides) -> Array:
    """Return a new array with strides that fill its memory without gaps."""
    order = sorted(range(len(shape)), key=lambda axis: strides[axis], reverse=True)
    flat = np.empty([shape[axis] for axis in order], dtype)
    made = flat.transpose(np.argsort(order)) if order else flat
    return made if made.strides == strides else strided(made, shape, strides)


def arrange(layout: str, operands: Sequence[Array], out: Array) -> Array:
    """Return the result of an operation with the strides that it should have; a copy if it has others."""
    strides = (
        row_major(out.shape, out.itemsize) if layout == ROWS else dense_strides(operands, out.shape, out.itemsize)
    )  # fmt: skip
    if all(s == t or n == 1 for s, t, n in zip(out.strides, strides, out.shape, strict=True)):
        return out if out.strides == strides else strided(out, out.shape, strides)
    made = empty(out.shape, out.dtype, strides)
    np.copyto(made, out)
    return made


def settle(layout: str | None, operands: Sequence[Array], out: Array) -> Array:
    """Return the result of an operation with the right strides: `arrange` where there can be something to do."""
    if layout is None or not out.ndim:
        return out
    if out.flags.c_contiguous and (layout == ROWS or all(array.flags.c_contiguous for array in operands)):
        strides = row_major(out.shape, out.itemsize)
        return out if out.strides == strides else strided(out, out.shape, strides)
    return arrange(layout, operands, out)


# ---- views


def reshaped_strides(array: Array, shape: Sequence[int]) -> Strides | None:
    """Return the strides in bytes of an array seen under another shape of as many elements; None if it needs a copy.

    Source: computeStride of torch.
    """
    old, strides = array.shape, array.strides
    if not array.size:
        return strides if old == tuple(shape) else row_major(shape, array.itemsize)
    if not old:
        return (array.itemsize,) * len(shape)
    made = [0] * len(shape)
    axis = len(shape) - 1
    base, count, seen = strides[-1], 1, 1
    for k in reversed(range(len(old))):
        count *= old[k]
        if k and (old[k - 1] == 1 or strides[k - 1] == count * base):
            continue
        while axis >= 0 and (seen < count or shape[axis] == 1):
            made[axis] = seen * base
            seen *= shape[axis]
            axis -= 1
        if seen != count:
            return None
        if k:
            base, count, seen = strides[k - 1], 1, 1
    return tuple(made) if axis < 0 else None


def reshaped(array: Array, shape: tuple[int, ...]) -> Array | None:
    """Return a view under another shape, None if there is none."""
    if array.flags.c_contiguous and 1 not in array.shape:
        return array.reshape(shape)
    strides = reshaped_strides(array, shape)
    return None if strides is None else strided(array, shape, strides)


def expanded(array: Array, shape: tuple[int, ...]) -> Array:
    """Return a view repeated to a shape."""
    new = len(shape) - array.ndim
    made: list[int] = []
    for axis in reversed(range(len(shape))):
        if axis >= new:
            repeated = array.shape[axis - new] != shape[axis]
            stride = array.strides[axis - new]
        else:
            repeated = shape[axis] != 1
            stride = made[-1] * shape[axis + 1] if made else array.itemsize
        made.append(0 if repeated else stride)
    return strided(array, shape, made[::-1])


def unsqueezed(array: Array, at: int) -> Array:
    """Return a view with a new axis of size 1."""
    shape, strides = array.shape, array.strides
    stride = array.itemsize if at >= len(shape) else shape[at] * strides[at]
    return strided(array, (*shape[:at], 1, *shape[at:]), (*strides[:at], stride, *strides[at:]))
