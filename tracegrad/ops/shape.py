"""Ops that move elements: reshape, transpose, broadcast and the sum that undoes it, slice and pad, flip, concatenate.

Previous: special.py; next: index.py. All are linear, and the transpose of each is another op of this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import OpDef, Sample, type_of
from tracegrad.ir.types import Dim, Shape
from tracegrad.ops import c_rules
from tracegrad.ops.creation import zeros_like
from tracegrad.ops.infer import (
    infer_broadcast_to,
    infer_concatenate,
    infer_flip,
    infer_pad,
    infer_reduce,
    infer_reshape,
    infer_slice,
    infer_transpose,
    infer_write,
    numeric,
    slice_size,
)
from tracegrad.ops.record import linear
from tracegrad.ops.text import axis_text, dtype_text, shape_text, slice_text, subscript_text, tuple_text

X = ("x",)


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes `axes`."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def keep_axes(x: Any, axes: Sequence[int], shape: Shape) -> Any:
    """Give back to `x` the axes that a reduction of an array of `shape` removed, with size 1."""
    kept = tuple(1 if k in axes else d for k, d in enumerate(shape))
    return x if kept == type_of(x).shape else reshape(x, shape=kept)


def spread(x: Any, axes: Sequence[int], shape: Shape) -> Any:
    """Repeat `x` along the axes that a reduction of an array of `shape` removed."""
    if not axes:
        return x
    leading = sorted(axes) == list(range(len(axes)))
    return broadcast_to(x if leading else keep_axes(x, axes, shape), shape=shape)


def lift(size: Dim, batched: Sequence[bool], operands: Sequence[Any]) -> list[Any]:
    """Give a leading axis to the operands that have none."""
    pairs = zip(batched, operands, strict=True)
    return [x if has else broadcast_to(x, shape=(size, *type_of(x).shape)) for has, x in pairs]


def batch_stacks(op: OpDef, size: Dim, batched: Sequence[bool], *operands: Any, **attrs: Any) -> Any:
    """Apply an op that takes any number of leading axes."""
    return op(*lift(size, batched, operands), **attrs)


def batch_axes(op: OpDef, size: Dim, batched: Sequence[bool], *operands: Any, **attrs: Any) -> Any:
    """Apply an op along the same axes, each of which now stands one further."""
    if "axis" in attrs:
        attrs["axis"] += 1
    else:
        attrs["axes"] = tuple(a + 1 for a in attrs["axes"])
    return op(*lift(size, batched, operands), **attrs)


def batch_place(op: OpDef, size: Dim, batched: Sequence[bool], *operands: Any, **place: Any) -> Any:
    """Apply an op on a place given by start, stop and step to the whole leading axis."""
    whole = {"start": 0, "stop": size, "step": 1}
    return op(*lift(size, batched, operands), **{key: (first, *place[key]) for key, first in whole.items()})


def _batch_transpose(op: OpDef, size: Dim, batched: Sequence[bool], x: Any, *, axes: Sequence[int]) -> Any:
    return op(x, axes=(0, *(a + 1 for a in axes)))


def _batch_reshape(op: OpDef, size: Dim, batched: Sequence[bool], x: Any, *, shape: Shape) -> Any:
    return op(x, shape=(size, *shape))


def _batch_broadcast_to(op: OpDef, size: Dim, batched: Sequence[bool], x: Any, *, shape: Shape) -> Any:
    _, *own = type_of(x).shape
    new = len(shape) - len(own)
    return op(reshape(x, shape=(size, *(1,) * new, *own)) if new else x, shape=(size, *shape))


def _batch_pad(op: OpDef, size: Dim, batched: Sequence[bool], x: Any, **widths: Any) -> Any:
    return op(x, **{key: (0, *width) for key, width in widths.items()})


def dtype_keyword(operation: Operation) -> str:
    """Return `, dtype=...` where NumPy would widen the integers of a reduction."""
    dtype = operation.operands[0].dtype
    return f", dtype={dtype_text(dtype)}" if dtype.kind in "iu" and dtype.itemsize < 8 else ""


# fmt: off

def _reshape_text(operation: Operation, x: str) -> str:
    shape = operation.attrs["shape"]
    if not operation.operands[0].shape or not shape:
        return f"np.reshape({x}, {tuple_text(shape)})"
    return f"{x}.reshape({', '.join(map(str, shape))})"


reshape: OpDef = linear(
    "reshape", X, "The elements of x, in row-major order, under another shape.",
    attributes=("shape",), c=c_rules.reshape_c,
    batch=_batch_reshape,
    infer=infer_reshape, numpy=_reshape_text, cheap=True,
    transpose=lambda ct, x, *, shape: (reshape(ct, shape=type_of(x).shape),),
    samples=(
        Sample("f[2,3]", {"shape": (3, 2)}), Sample("f[]", {"shape": (1, 1)}), Sample("f[1]", {"shape": ()}),
        Sample("f[0,3]", {"shape": (0,)}), Sample("i[4]", {"shape": (2, 2)}),
    ),
)


def _transpose_text(operation: Operation, x: str) -> str:
    axes = operation.attrs["axes"]
    if axes == tuple(reversed(range(len(axes)))):
        return f"{x}.T" if axes else x
    return f"np.transpose({x}, {axes})"


transpose: OpDef = linear(
    "transpose", X, "Axes in another order: axis k of the result is axis axes[k] of x.",
    attributes=("axes",), c=c_rules.transpose_c,
    batch=_batch_transpose,
    infer=infer_transpose, numpy=_transpose_text, cheap=True,
    transpose=lambda ct, x, *, axes: (transpose(ct, axes=inverse_permutation(axes)),),
    samples=(
        Sample("f[2,3]", {"axes": (1, 0)}), Sample("f[2,3,4]", {"axes": (1, 2, 0)}), Sample("f[3]", {"axes": (0,)}),
    ),
)


def _broadcast_transpose(ct: Any, x: Any, *, shape: Shape) -> tuple[Any, ...]:
    source = type_of(x).shape
    new = len(shape) - len(source)
    stretched = [k + new for k, (d, e) in enumerate(zip(source, shape[new:], strict=True)) if d != e]
    summed = reduce_sum(ct, axes=(*range(new), *stretched)) if new or stretched else ct
    return (reshape(summed, shape=source) if stretched else summed,)


broadcast_to = linear(
    "broadcast_to", X, "x repeated to a shape as in NumPy: axes align at the end, new ones and ones of size 1 stretch.",
    attributes=("shape",), c=c_rules.broadcast_to_c,
    batch=_batch_broadcast_to,
    infer=infer_broadcast_to, cheap=True,
    numpy=lambda operation, x: f"np.broadcast_to({x}, {shape_text(operation.attrs['shape'])})",
    transpose=_broadcast_transpose,
    samples=(
        Sample("f[3]", {"shape": (2, 3)}), Sample("f[]", {"shape": (2, 3)}), Sample("f[2,1]", {"shape": (4, 2, 3)}),
        Sample("f[1]", {"shape": (0,)}), Sample("f[3]", {"shape": (3,)}),
    ),
)
reduce_sum = linear(
    "reduce_sum", X, "Sum over axes, which are removed.",
    attributes=("axes",), c=c_rules.reduce_c, c_reduce=("0", "add"),
    batch=batch_axes,
    infer=infer_reduce(numeric),
    numpy=lambda operation, x: (
        f"np.sum({x}{axis_text(operation.attrs['axes'], len(operation.operands[0].shape))}{dtype_keyword(operation)})"
        if operation.attrs["axes"] else x
    ),
    transpose=lambda ct, x, *, axes: (spread(ct, axes, type_of(x).shape),),
    samples=(
        Sample("f[2,3]", {"axes": (0,)}), Sample("f[2,3]", {"axes": (0, 1)}), Sample("f[2,3,4]", {"axes": (0, 2)}),
        Sample("f[3]", {"axes": ()}), Sample("f[0,2]", {"axes": (0,)}), Sample("i32[2,3]", {"axes": (1,)}),
        Sample("c128[3]", {"axes": (0,)}),
    ),
)


def slices_text(operation: Operation, shape: Shape) -> str:
    """Return the subscript `[1:, :3]` of the attributes start, stop and step."""
    start, stop, step = (operation.attrs[k] for k in ("start", "stop", "step"))
    return subscript_text([slice_text(*parts) for parts in zip(start, stop, step, shape, strict=True)])


def _slice_transpose(
    ct: Any, x: Any, *, start: tuple[Dim, ...], stop: tuple[Dim, ...], step: tuple[int, ...]
) -> tuple[Any, ...]:
    low, high, interior = [], [], []
    for a, b, s, d in zip(start, stop, step, type_of(x).shape, strict=True):
        count = slice_size(a, b, s)
        low.append(a)
        high.append(d - a if count == 0 else d - a - (count - 1) * s - 1)
        interior.append(s - 1 if count != 0 else 0)
    return (pad(ct, low=tuple(low), high=tuple(high), interior=tuple(interior)),)


slice_ = linear(
    "slice", X, "The elements start:stop:step of each axis, with 0 <= start <= stop <= size and step >= 1.",
    attributes=("start", "stop", "step"), c=c_rules.slice_c,
    batch=batch_place,
    infer=infer_slice, cheap=True,
    numpy=lambda operation, x: f"{x}{slices_text(operation, operation.operands[0].shape)}",
    transpose=_slice_transpose,
    samples=(
        Sample("f[5]", {"start": (1,), "stop": (4,), "step": (1,)}),
        Sample("f[4,6]", {"start": (0, 1), "stop": (4, 6), "step": (1, 2)}),
        Sample("f[4,6]", {"start": (3, 1), "stop": (3, 5), "step": (1, 3)}),
        Sample("f[7,2]", {"start": (0, 0), "stop": (7, 2), "step": (3, 1)}),
    ),
)


def _pad_transpose(
    ct: Any, x: Any, *, low: tuple[Dim, ...], high: tuple[Dim, ...], interior: tuple[int, ...]
) -> tuple[Any, ...]:
    stop = tuple(d - h for d, h in zip(type_of(ct).shape, high, strict=True))
    return (slice_(ct, start=low, stop=stop, step=tuple(i + 1 for i in interior)),)


def _pad_text(operation: Operation, x: str) -> str:
    low, high, interior = (operation.attrs[k] for k in ("low", "high", "interior"))
    if any(interior):
        return f"pad_between({x}, {tuple_text(low)}, {tuple_text(high)}, {tuple_text(interior)})"
    if len(low) == 1:
        return f"np.pad({x}, ({low[0]}, {high[0]}))"
    return f"np.pad({x}, {tuple_text([tuple_text(pair) for pair in zip(low, high, strict=True)])})" if low else x


pad = linear(
    "pad", X, "x with zeros added along each axis: `low` before, `high` after, `interior` between neighbours.",
    attributes=("low", "high", "interior"), c=c_rules.pad_c,
    batch=_batch_pad,
    infer=infer_pad, numpy=_pad_text, numpy_helper="pad_between",
    transpose=_pad_transpose,
    samples=(
        Sample("f[3]", {"low": (1,), "high": (2,), "interior": (0,)}),
        Sample("f[2,3]", {"low": (0, 1), "high": (1, 0), "interior": (0, 2)}),
        Sample("f[2,3]", {"low": (0, 1), "high": (1, 0), "interior": (0, 0)}),
        Sample("f[0]", {"low": (1,), "high": (2,), "interior": (1,)}),
    ),
)


def _flip_text(operation: Operation, x: str) -> str:
    axes, ndim = operation.attrs["axes"], len(operation.operands[0].shape)
    return f"{x}{subscript_text(['::-1' if k in axes else ':' for k in range(ndim)])}"


flip: OpDef = linear(
    "flip", X, "Elements in reverse order along axes.",
    attributes=("axes",), c=c_rules.flip_c,
    batch=batch_axes,
    infer=infer_flip, numpy=_flip_text, cheap=True,
    transpose=lambda ct, x, *, axes: (flip(ct, axes=axes),),
    samples=(Sample("f[3]", {"axes": (0,)}), Sample("f[2,3]", {"axes": (1,)}), Sample("f[2,3]", {"axes": (0, 1)})),
)


def _concatenate_transpose(ct: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    shape, parts = type_of(ct).shape, []
    position: Dim = 0
    for x in xs:
        end = position + type_of(x).shape[axis]
        start = tuple(position if k == axis else 0 for k in range(len(shape)))
        stop = tuple(end if k == axis else d for k, d in enumerate(shape))
        parts.append(slice_(ct, start=start, stop=stop, step=(1,) * len(shape)))
        position = end
    return tuple(parts)


def _concatenate_text(operation: Operation, *xs: str) -> str:
    axis = operation.attrs["axis"]
    return f"np.concatenate([{', '.join(xs)}]{f', axis={axis}' if axis else ''})"


concatenate = linear(
    "concatenate", ("*xs",), "Arrays joined along an axis.",
    attributes=("axis",), c=c_rules.concatenate_c, c_statement=c_rules.concatenate_statement,
    batch=batch_axes,
    infer=infer_concatenate, numpy=_concatenate_text, transpose=_concatenate_transpose,
    samples=(
        Sample("f[2] f[3]", {"axis": 0}), Sample("f[2,1] f[2,0] f[2,3]", {"axis": 1}), Sample("f[2]", {"axis": 0}),
    ),
)

# Writes into slices


def _set_slice_transpose(ct: Any, x: Any, values: Any, **place: Any) -> tuple[Any, ...]:
    read = slice_(ct, **place)  # before the write, which can then happen in place
    return set_slice(ct, zeros_like(values), **place), read


set_slice: OpDef = linear(
    "set_slice", ("x", "values"), "x with the elements start:stop:step replaced by values.", in_operands=(0, 1),
    attributes=("start", "stop", "step"), c=c_rules.set_slice_c, c_statement=c_rules.set_slice_statement,
    batch=batch_place,
    infer=infer_write, inplace=0, numpy_helper="set_slice",
    numpy=lambda operation, x, values: f"set_slice({x}, np.s_{_place(operation)}, {values})",
    transpose=_set_slice_transpose,
    samples=(
        Sample("f[5] f[2]", {"start": (1,), "stop": (3,), "step": (1,)}),
        Sample("f[4,5] f[4,2]", {"start": (0, 1), "stop": (4, 4), "step": (1, 2)}),
        Sample("f[3] f[0]", {"start": (1,), "stop": (1,), "step": (1,)}),
    ),
)
add_slice = linear(
    "add_slice", ("x", "values"), "x with values added to the elements start:stop:step.", in_operands=(0, 1),
    attributes=("start", "stop", "step"), c=c_rules.add_slice_c, c_statement=c_rules.add_slice_statement,
    batch=batch_place,
    infer=infer_write, inplace=0, numpy_helper="add_slice",
    numpy=lambda operation, x, values: f"add_slice({x}, np.s_{_place(operation)}, {values})",
    transpose=lambda ct, x, values, **place: (ct, slice_(ct, **place)),
    samples=(
        Sample("f[5] f[2]", {"start": (1,), "stop": (3,), "step": (1,)}),
        Sample("f[4,5] f[4,2]", {"start": (0, 1), "stop": (4, 4), "step": (1, 2)}),
    ),
)


def _place(operation: Operation) -> str:
    return slices_text(operation, operation.operands[0].shape) or "[...]"

# fmt: on
