"""Drops writes into the array that a loop carries when neither the loop nor what follows it reads the element again.

Reads and writes IR in place. Previous: fold.py; next: canonicalize.py.

The reverse of `x[i] = v` takes the cotangent of the element and sets it to zero; where the loop does not come back to
the element the zero is for nobody.
"""

from __future__ import annotations

from tracegrad.ir.accesses import Access, find_accesses, may_follow, touches
from tracegrad.ir.core import Function, Operation, Value, substitute, walk
from tracegrad.ir.types import ArrayType


def drop_unread_writes(function: Function) -> bool:
    """Apply the rule to all loops; return whether anything changed."""
    readers: dict[Value, list[Operation]] = {}
    yielded = set(function.results)
    loops: list[Operation] = []
    for operation in walk(function.body):
        if operation.op == "for":
            loops.append(operation)
        for operand in operation.operands:
            readers.setdefault(operand, []).append(operation)
        for block in operation.blocks:
            yielded.update(block.yields)
    changed = False
    for loop in loops:
        for position, result in enumerate(loop.results):
            after = readers.get(result, [])
            is_array = isinstance(result.type, ArrayType) and result.shape
            if is_array and result not in yielded and all(reader.op == "slice" for reader in after):
                changed |= _drop_from(loop, position, after)
    return changed


def _drop_from(loop: Operation, position: int, after: list[Operation]) -> bool:
    accesses = find_accesses(loop, position) or []
    unread = [a for a in accesses if a.writes and not _is_read_after(a, accesses, after)]
    for access in unread:
        access.block.operations.remove(access.operation)
        substitute(access.block, {access.operation.result: access.operation.operands[0]})
    return bool(unread)


def _is_read_after(write: Access, accesses: list[Access], after: list[Operation]) -> bool:
    in_loop = any(other.reads and may_follow(write, other) for other in accesses)
    return in_loop or any(touches(write, reader) for reader in after)
