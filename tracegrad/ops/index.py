"""Gathers from and scatters into data-dependent places; the transpose of a gather is a scatter_add.

Previous: shape.py; next: reduce.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracegrad.ir.core import Operation, Value
from tracegrad.ir.opdef import OpDef, Sample, type_of
from tracegrad.ir.types import I64, Dim
from tracegrad.ops import c_rules
from tracegrad.ops.creation import full, iota, zeros_like
from tracegrad.ops.elementwise import equal, select
from tracegrad.ops.infer import infer_gather, infer_scatter
from tracegrad.ops.record import linear
from tracegrad.ops.shape import broadcast_to, lift, reshape, transpose
from tracegrad.ops.text import tuple_text

Axes = tuple[int, ...]


def take_along(x: Any, indices: Any, *, axis: int) -> Any:
    """Gather one element of `x` per element of `indices` (both of one rank): np.take_along_axis."""
    return gather(x, *_all_indices(indices, axis), axes=tuple(range(type_of(x).ndim)))


def add_along(x: Any, indices: Any, values: Any, *, axis: int) -> Any:
    """Add each of `values` to the element of `x` that take_along would read: the transpose of take_along."""
    return scatter_add(x, *_all_indices(indices, axis), values, axes=tuple(range(type_of(x).ndim)))


def _all_indices(indices: Any, axis: int) -> list[Any]:
    shape = type_of(indices).shape
    return [indices if k == axis else iota(shape=shape, dtype=I64, axis=k) for k in range(len(shape))]


def _batch_gather(op: OpDef, size: Dim, batched: Sequence[bool], x: Any, *indices: Any, axes: Axes) -> Any:
    has, *by_element = batched
    if not any(by_element):
        found = op(x, *indices, axes=tuple(a + 1 for a in axes))
        return _move_axis(found, type_of(indices[0]).ndim, 0)
    lifted = lift(size, by_element, indices)
    if not has:
        return op(x, *lifted, axes=axes)
    return op(x, _element_number(lifted[0]), *lifted, axes=(0, *(a + 1 for a in axes)))


def _batch_scatter(op: OpDef, size: Dim, batched: Sequence[bool], x: Any, *rest: Any, axes: Axes) -> Any:
    *indices, values = rest
    moved = tuple(a + 1 for a in axes)
    x, values = lift(size, (batched[0], batched[-1]), (x, values))
    if not any(batched[1:-1]):
        return op(x, *indices, _move_axis(values, 0, type_of(indices[0]).ndim), axes=moved)
    lifted = lift(size, batched[1:-1], indices)
    return op(x, _element_number(lifted[0]), *lifted, values, axes=(0, *moved))


def _element_number(like: Any) -> Any:
    return iota(shape=type_of(like).shape, dtype=I64, axis=0)


def _move_axis(x: Any, source: int, target: int) -> Any:
    if source == target:
        return x
    order = [k for k in range(type_of(x).ndim) if k != source]
    order.insert(target, source)
    return transpose(x, axes=tuple(order))


# fmt: off

def _gather_text(operation: Operation, x: str, *indices: str) -> str:
    axes, operand = operation.attrs["axes"], operation.operands[0]
    chosen = ", ".join(indices)
    count, ndim, scalar = len(axes), len(operand.shape), not operation.operands[1].shape
    if axes == tuple(range(count)):
        return f"{x}[{chosen}]"
    if axes == tuple(sorted(axes)) and scalar:
        by_axis = dict(zip(axes, indices, strict=True))
        return f"{x}[{', '.join(by_axis.get(k, ':') for k in range(axes[-1] + 1))}]"
    if axes == (1,) and ndim == 2:
        return f"{x}.T[{chosen}]"
    return f"np.moveaxis({x}, {axes}, {tuple(range(count))})[{chosen}]"


def _scatter_text(operation: Operation, x: str, *rest: str) -> str:
    *indices, values = rest
    return f"{operation.op}({x}, {tuple_text(indices)}, {values}, {operation.attrs['axes']})"


gather = linear(
    "gather", ("x", "*indices"),
    "Elements of x at index arrays of shape B along axes: moveaxis(x, axes, 0..k-1)[indices], of shape B + other axes. "
    "Negative indices count from the end; others out of range raise IndexError.",
    attributes=("axes",), c=c_rules.gather_c,
    infer=infer_gather, numpy=_gather_text, cheap=True, batch=_batch_gather,
    transpose=lambda ct, x, *indices, axes: (
        scatter_add(zeros_like(x), *indices, ct, axes=axes), *(None for _ in indices),
    ),
    samples=(
        Sample("f[3] i[]", {"axes": (0,)}, integers=(-3, 3)), Sample("f[3,2] i[4]", {"axes": (0,)}, integers=(-3, 3)),
        Sample("f[2,3] i[4]", {"axes": (1,)}, integers=(0, 3)), Sample("f[2,3] i[]", {"axes": (1,)}, integers=(0, 3)),
        Sample("f[3,3,2] i[2,2] i[2,2]", {"axes": (0, 1)}, integers=(0, 3)),
        Sample("f[2,4,2] i[3] i[3]", {"axes": (2, 0)}, integers=(-2, 2)),
        Sample("f[2,3,2] i[] i[]", {"axes": (0, 2)}), Sample("f[3] i[0]", {"axes": (0,)}),
    ),
)
scatter_add: OpDef = linear(
    "scatter_add", ("x", "*indices", "values"), "x with x[indices] += values, places as in gather; duplicates add up.",
    in_operands=(0, 2), attributes=("axes",), c=c_rules.scatter_add_small_c, c_statement=c_rules.scatter_add_statement,
    infer=infer_scatter, inplace=0,
    numpy=_scatter_text, numpy_helper="scatter_add", batch=_batch_scatter,
    transpose=lambda ct, x, *rest, axes: (ct, *(None for _ in rest[:-1]), gather(ct, *rest[:-1], axes=axes)),
    samples=(
        Sample("f[3] i[] f[]", {"axes": (0,)}, integers=(-3, 3)),
        Sample("f[3,2] i[4] f[4,2]", {"axes": (0,)}, integers=(-3, 3)),
        Sample("f[2,3] i[4] f[4,2]", {"axes": (1,)}, integers=(0, 3)),
        Sample("f[3,3,2] i[4] i[4] f[4,2]", {"axes": (0, 1)}, integers=(0, 3)),
    ),
)


def _scatter_set_transpose(ct: Any, x: Any, *rest: Any, axes: Axes) -> tuple[Any, ...]:
    *indices, values = rest
    read = gather(ct, *indices, axes=axes)
    if type_of(indices[0]).shape and not _is_run(indices[0]):
        read = select(_is_last(indices, axes, x, values), read, zeros_like(values))
    return (scatter_set(ct, *indices, zeros_like(values), axes=axes), *(None for _ in indices), read)


def _is_run(index: Any) -> bool:
    """Return whether an index array is known to be i, i + 1, i + 2, ..., so that none of its places comes twice."""
    made = index.producer if isinstance(index, Value) and len(index.shape) == 1 else None
    if made is not None and made.op == "add":
        sources = [v.producer for v in made.operands]
        numbers = [o for o in sources if o is not None and (o.op != "broadcast_to" or o.operands[0].shape)]
        made = numbers[0] if len(numbers) == 1 else None
    return made is not None and made.op == "iota"


def _is_last(indices: list[Any], axes: Axes, x: Any, values: Any) -> Any:
    """Return, in the shape of `values`, whether no later index writes the same place: each place keeps who wrote it."""
    shape = type_of(indices[0]).shape
    numbers = _count(shape)
    places = full(shape=tuple(type_of(x).shape[a] for a in axes), dtype=I64, value=0)
    along = tuple(range(len(axes)))
    writer = gather(scatter_set(places, *indices, numbers, axes=along), *indices, axes=along)
    last = equal(writer, numbers)
    full_shape = type_of(values).shape
    if full_shape == shape:
        return last
    return broadcast_to(reshape(last, shape=(*shape, *(1 for _ in full_shape[len(shape):]))), shape=full_shape)


def _count(shape: tuple[Any, ...]) -> Any:
    """Return 0, 1, 2, ... in a shape."""
    size = math.prod(shape)
    flat = iota(shape=(size,), dtype=I64, axis=0)
    return flat if shape == (size,) else reshape(flat, shape=shape)


scatter_set = linear(
    "scatter_set", ("x", "*indices", "values"),
    "x with x[indices] = values, the places as in gather; of duplicates the last wins.",
    in_operands=(0, 2), attributes=("axes",), c=c_rules.scatter_set_small_c, c_statement=c_rules.scatter_set_statement,
    infer=infer_scatter, inplace=0,
    numpy=_scatter_text, numpy_helper="scatter_set", transpose=_scatter_set_transpose, batch=_batch_scatter,
    samples=(
        Sample("f[3] i[] f[]", {"axes": (0,)}, integers=(-3, 3)),
        Sample("f[3,2] i[4] f[4,2]", {"axes": (0,)}, integers=(-3, 3)),
        Sample("f[2,3] i[4] f[4,2]", {"axes": (1,)}, integers=(0, 3)),
        Sample("f[3,3] i[2,2] i[2,2] f[2,2]", {"axes": (1, 0)}, integers=(0, 3)),
    ),
)

# fmt: on
