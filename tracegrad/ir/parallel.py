"""Which loops may run their iterations in any order, or at the same time.

Reads IR. Used by codegen/. Previous: bounds.py; next: writes.py.
"""

from __future__ import annotations

from tracegrad.ir.core import Function, Operation, Value, walk
from tracegrad.ir.liveness import uses
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import StackType


def is_independent(loop: Operation, function: Function) -> bool:
    """Return whether no iteration of a `for` reads or changes what another one writes.

    So it is when each carried array starts undefined and all that happens to it is that an iteration sets the part at
    its own index, by one write or by those of one loop, and when the stacks that the body uses are used nowhere else:
    between two iterations these are empty, because what a sweep pushes its reverse pops. Printing, and calls, which can
    print, keep their order.
    """
    if loop.op != "for" or loop.attrs["step"] != 1:
        return False
    body = loop.blocks[0]
    index, carries = body.params[0], body.params[1:]
    inside = list(walk(body))
    if any(o.op == "call" or (TABLE[o.op].effect and o.op not in ("push", "pop", "check")) for o in inside):
        return False
    starts = zip(loop.operands[2:], carries, body.yields, strict=True)
    counts = uses(body)
    if not all(_is_undefined(i) and _is_own_part(param, end, index, counts) for i, param, end in starts):
        return False
    own = set(inside)
    stacks = {v for o in inside for v in o.operands if isinstance(v.type, StackType)}
    return all(o in own or not stacks.intersection(o.operands) for o in walk(function.body))


def _is_undefined(value: Value) -> bool:
    return value.producer is not None and value.producer.op == "undefined"


def _is_own_part(param: Value, end: Value, index: Value, counts: dict[Value, int]) -> bool:
    """Return whether a carried array is only written, at places whose first index is that of the loop."""
    write = end.producer
    if write is None or counts.get(param) != 1 or counts.get(end) != 1:
        return False
    if write.op == "for":
        number = write.results.index(end)
        body = write.blocks[0]
        return write.operands[2 + number] is param and _is_own_part(
            body.params[1 + number], body.yields[number], index, counts
        )
    return write.op == "scatter_set" and write.operands[:2] == [param, index] and write.attrs["axes"][0] == 0
