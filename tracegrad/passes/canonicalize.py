"""Brings programs into the plain form: writes instead of sums of whole arrays, no branches and loops that are none.

Reads and writes IR in place. Previous: unread.py; next: elements.py.

Keeps values, save that the sum of n equal numbers becomes a product, which is one rounding instead of n - 1.
"""

from __future__ import annotations

import math
from itertools import pairwise

from tracegrad.ir.bounds import trip_count
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value, substitute
from tracegrad.ir.liveness import defined_in, keep_results
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import Dim, is_static
from tracegrad.ir.writes import is_filled_with, is_sparse, slices_of, writes_of
from tracegrad.ops import full
from tracegrad.passes.rewrite import Rule, rewrite

#: a row of at most so many elements is written out whole
_SHORT = 6


def canonicalize(function: Function) -> bool:
    """Apply all rules until nothing changes; return whether anything did."""
    changed = False
    while rewrite(function, _RULES):
        changed = True
    return changed


def _add_sparse(operation: Operation, builder: Builder) -> Value | None:
    """Write into an array instead of adding zeros with something written into them."""
    x, y = operation.operands
    if not is_sparse(y):
        x, y = y, x
    if not is_sparse(y):
        return None
    total = x
    for op, operands, attrs in writes_of(y):
        total = TABLE[op](total, *operands, **attrs)
    return total


def _sum_of_broadcast(operation: Operation, builder: Builder) -> Value | None:
    """Multiply by the number of copies instead of adding them up."""
    operand, axes = operation.operands[0], operation.attrs["axes"]
    producer = operand.producer
    count = math.prod(operand.shape[a] for a in axes)
    if producer is None or not isinstance(count, int) or count == 0:
        return None
    result = operation.result.array_type
    if producer.op == "full":
        total = producer.attrs["value"] * count
        filled = TABLE["full"](shape=result.shape, dtype=result.dtype, value=total)
        return filled if isinstance(filled, Value) else None
    if producer.op != "broadcast_to":
        return None
    source = producer.operands[0]
    shift = operand.array_type.ndim - source.array_type.ndim
    if any(a >= shift and source.shape[a - shift] != 1 for a in axes):
        return None
    rest = tuple(d for a, d in enumerate(source.shape) if a + shift not in axes)
    copies = TABLE["full"](shape=rest, dtype=result.dtype, value=result.dtype.type(count).item())
    product = TABLE["multiply"](TABLE["reshape"](source, shape=rest), copies)
    total_value = TABLE["broadcast_to"](product, shape=result.shape)
    return total_value if isinstance(total_value, Value) else None


def _join_parts(operation: Operation, builder: Builder) -> Value | None:
    """Concatenate slices that are written into zeros and together fill them, or a short row with the zeros between."""
    if not is_static(operation.result.shape):
        return None
    shape = tuple(d for d in operation.result.shape if isinstance(d, int))
    parts: list[tuple[int, int, int, Value]] = []
    for place, value in slices_of(operation.result):
        extents = [(a, b) for a, b in zip(place["start"], place["stop"], strict=True)]
        partial = [axis for axis, extent in enumerate(extents) if extent != (0, shape[axis])]
        if len(partial) != 1 or any(step != 1 for step in place["step"]):
            return None
        parts.append((partial[0], *extents[partial[0]], value))
    if len(parts) < 2 or len({axis for axis, *_ in parts}) != 1:
        return None
    parts.sort(key=lambda part: part[1])
    axis = parts[0][0]
    if len(shape) == 1 and shape[0] <= _SHORT:
        kind = operation.result.dtype
        for (_, _, end, _), (_, start, _, _) in pairwise([(0, 0, 0, None), *parts, (0, shape[0], 0, None)]):
            for at in range(end, start):
                parts.append((axis, at, at + 1, full(shape=(1,), dtype=kind, value=0.0)))
        parts.sort(key=lambda part: part[1])
    if [start for _, start, _, _ in parts] + [shape[axis]] != [0, *(stop for _, _, stop, _ in parts)]:
        return None
    result = TABLE["concatenate"](*(value for *_, value in parts), axis=axis)
    return result if isinstance(result, Value) else None


def _fill_part(operation: Operation, builder: Builder) -> Value | None:
    """Concatenate what is added to a part that is zero so far."""
    whole, value = operation.operands
    made = whole.producer
    if made is None or made.op != "concatenate" or len(whole.shape) != 1 or operation.attrs["step"] != (1,):
        return None
    start, stop = operation.attrs["start"][0], operation.attrs["stop"][0]
    offset: Dim = 0
    for k, part in enumerate(made.operands):
        end = offset + part.shape[0]
        if (offset, end) == (start, stop) and is_filled_with(part, 0):
            parts = [*made.operands[:k], value, *made.operands[k + 1 :]]
            result = TABLE["concatenate"](*parts, axis=0)
            return result if isinstance(result, Value) else None
        offset = end
    return None


def _known_branch(operation: Operation, builder: Builder) -> list[Value] | None:
    """Put the branch that is taken in the place of an `if` with a known condition."""
    for number, block in zip((True, False), operation.blocks, strict=True):
        if is_filled_with(operation.operands[0], number):
            builder.block.operations.extend(block.operations)
            return block.yields
    return None


def _equal_branches(operation: Operation, builder: Builder) -> list[Value] | None:
    """Replace results for which both branches yield the same value from outside."""
    inside = defined_in(operation.blocks[0])
    same = [x is y and x not in inside for x, y in zip(*(block.yields for block in operation.blocks), strict=True)]
    if not any(same):
        return None
    results = [y if s else r for r, y, s in zip(operation.results, operation.blocks[0].yields, same, strict=True)]
    keep_results(operation, [i for i, s in enumerate(same) if not s])
    builder.block.operations.append(operation)
    return results


def _unused_loop(operation: Operation, builder: Builder) -> list[Value] | None:
    """Drop a loop that does not run; open one that runs once."""
    count = trip_count(operation)
    start, _, *inits = operation.operands
    if count == 0:
        return inits
    if count != 1:
        return None
    body = operation.blocks[0]
    once = Block()
    once.operations, once.yields = body.operations, body.yields
    substitute(once, dict(zip(body.params, [start, *inits], strict=True)))
    builder.block.operations.extend(once.operations)
    return once.yields


def _invariant_carries(operation: Operation, builder: Builder) -> list[Value] | None:
    """Use the initial value for what a loop carries without changing it."""
    first, shift = (2, 1) if operation.op == "for" else (0, 0)
    body = operation.blocks[-1]
    unchanged = [out is param for out, param in zip(body.yields, body.params[shift:], strict=True)]
    if not any(unchanged):
        return None
    inits = operation.operands[first:]
    for block in operation.blocks:
        pairs = zip(block.params[shift:], inits, unchanged, strict=True)
        substitute(block, {param: init for param, init, same in pairs if same})
    results = [i if same else r for r, i, same in zip(operation.results, inits, unchanged, strict=True)]
    keep_results(operation, [i for i, same in enumerate(unchanged) if not same])
    builder.block.operations.append(operation)
    return results


_RULES: dict[str, tuple[Rule, ...]] = {
    "add": (_add_sparse,),
    "add_slice": (_join_parts, _fill_part),
    "reduce_sum": (_sum_of_broadcast,),
    "if": (_known_branch, _equal_branches),
    "for": (_unused_loop, _invariant_carries),
    "while": (_invariant_carries,),
}
