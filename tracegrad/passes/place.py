"""Fills arrays where they belong: a part that a loop fills, and that becomes part of a larger array, is filled there.

Reads and writes IR in place. Previous: hoist.py; next: dce.py.

The Jacobian of each element of a batch is filled row by row, then it becomes a part of the result. Filled in its place
there is nothing to clear and nothing to copy. The same goes for what the loops of a reverse sweep add to zeros, a row
per iteration.
"""

from __future__ import annotations

from tracegrad.ir.bounds import static_value, trip_count
from tracegrad.ir.core import Block, Function, Operation, Value, substitute
from tracegrad.ir.liveness import uses
from tracegrad.ir.types import ArrayType
from tracegrad.ir.writes import is_filled_with


def fill_in_place(function: Function) -> bool:
    """Let loops fill parts of larger arrays directly; return whether any does now."""
    return _block(function.body, uses(function.body))


def _block(block: Block, counts: dict[Value, int]) -> bool:
    changed = False
    for write in tuple(block.operations):
        for nested in write.blocks:
            changed |= _block(nested, counts)
        loop = write.operands[-1].producer if write.op == "scatter_set" else None
        if loop is not None and loop.op == "for" and loop in block.operations:
            changed |= _fill(block, loop, write, counts)
    return changed


def _fill(block: Block, loop: Operation, write: Operation, counts: dict[Value, int]) -> bool:
    """Let a loop fill the array that its result is written into, if nothing else uses either; return whether it can."""
    whole, *places, part = write.operands
    number = loop.results.index(part)
    body, init = loop.blocks[0], loop.operands[2 + number]
    param, end = body.params[1 + number], body.yields[number]
    inner = end.producer
    later = block.operations[block.operations.index(loop) :]
    made_later = {r for o in later for r in o.results}
    fits = (
        init.producer is not None
        and init.producer.op == "undefined"
        and inner is not None
        and inner in body.operations
        and _sets_a_leading_part(inner)
        and _sets_a_leading_part(write)
        and inner.operands[0] is param
        and [counts[v] for v in (whole, part, param, end)] == [1, 1, 1, 1]
        and not made_later.intersection([whole, *places])
    )
    if not fits:
        return False
    assert inner is not None and isinstance(whole.type, ArrayType), "it fits"
    operands = [param, *places, *inner.operands[1:]]
    inner.operands, inner.attrs = operands, {"axes": tuple(range(len(operands) - 2))}
    loop.operands[2 + number] = whole
    counts[init] -= 1
    if not counts[init] and init.producer in block.operations:
        block.operations.remove(init.producer)
    name = whole.name or write.result.name
    for value in (param, end, part):
        value.type, value.name = whole.type, name or value.name
    block.operations.remove(write)
    substitute(block, {write.result: part})
    counts[part] = counts.get(write.result, 0)
    counts.update(dict.fromkeys(places, 2))
    return True


def _sets_a_leading_part(operation: Operation) -> bool:
    """Return whether an operation sets the part of an array at numbers for its first axes."""
    if operation.op != "scatter_set" or any(v.shape for v in operation.operands[1:-1]):
        return False
    axes: tuple[int, ...] = operation.attrs["axes"]
    return axes == tuple(range(len(axes)))


def set_what_is_added_once(function: Function) -> bool:
    """Set, in an array that starts undefined, the rows that the iterations of a loop add to zeros, each to its own.

    The zeros need not be written then, and the iterations do not depend on each other, see ir/parallel.py.
    """
    return _set_in(function.body, uses(function.body))


def _set_in(block: Block, counts: dict[Value, int]) -> bool:
    changed = False
    for loop in tuple(block.operations):
        for nested in loop.blocks:
            changed |= _set_in(nested, counts)
        if loop.op != "for" or static_value(loop.operands[0]) != 0 or loop.attrs["step"] != 1:
            continue
        index, *carries = loop.blocks[0].params
        for number, (param, end) in enumerate(zip(carries, loop.blocks[0].yields, strict=True), 2):
            start, write = loop.operands[number], end.producer
            if (
                write is not None
                and write.op == "scatter_add"
                and write.operands[:2] == [param, index]
                and write.attrs["axes"] == (0,)
                and counts[param] == counts[end] == 1
                and is_filled_with(start, 0)
                and start.shape[0] == trip_count(loop)
            ):
                kind = start.array_type
                made = Operation("undefined", [], {"type": kind}, [], [kind], loop.span)
                block.operations.insert(block.operations.index(loop), made)
                write.op, loop.operands[number] = "scatter_set", made.result
                changed = True
    return changed
