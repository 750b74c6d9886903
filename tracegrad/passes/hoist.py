"""Moves loop-invariant operations in front of their loop.

Reads and writes IR in place. Previous: cse.py; next: dce.py.

Moved are operations whose operands come from outside, when their result is not a large array that would have to live
through the loop. An operation that can fault stays in a loop that may run zero times, and so does a branch or a loop.
Constants move only along with an operation that reads them.
"""

from __future__ import annotations

from tracegrad.ir.bounds import size_guess, surely_runs
from tracegrad.ir.core import Block, Function, Operation, Value, free_values
from tracegrad.ir.liveness import defined_in, has_effect
from tracegrad.ir.types import ArrayType, is_integer

#: ops that can raise an error at run time, by name; integer division too
_FAULTING = frozenset(
    {"gather", "scatter_add", "scatter_set", "solve", "triangular_solve", "cholesky", "inv", "call", "argmax", "argmin"}
    | {"reduce_max", "reduce_min", "eigh", "svd", "pinv"}
)
_INTEGER_FAULTING = frozenset({"floor_divide", "remainder", "fmod", "power", "left_shift", "right_shift"})
_SMALL_BYTES = 1 << 16


def hoist_invariants(function: Function) -> bool:
    """Move invariant operations out of loops, as far out as they go; return whether any was moved."""
    return _block(function.body)


def can_fault(operation: Operation) -> bool:
    """Return whether running an operation can raise an error."""
    if operation.op in _INTEGER_FAULTING:
        kind = operation.results[0].type
        return isinstance(kind, ArrayType) and is_integer(kind.dtype)
    return operation.op in _FAULTING


def _block(block: Block) -> bool:
    changed = False
    kept: list[Operation] = []
    for operation in block.operations:
        for nested in operation.blocks:
            changed |= _block(nested)
        if operation.op in ("for", "while"):
            moved = _invariants(operation)
            changed |= bool(moved)
            kept.extend(moved)
        kept.append(operation)
    block.operations = kept
    return changed


def _invariants(loop: Operation) -> list[Operation]:
    """Take the invariant operations out of the blocks of a loop and return them."""
    moved: list[Operation] = []
    for block in loop.blocks:
        # the condition of a `while` runs at least once
        surely = surely_runs(loop) or (loop.op == "while" and block is loop.blocks[0])
        inside = defined_in(block)
        constants: dict[Value, Operation] = {}
        chosen: dict[Operation, None] = {}
        for operation in block.operations:
            if has_effect(operation) or not _is_worth_moving(operation):
                continue
            used = [*operation.operands, *(v for nested in operation.blocks for v in free_values(nested))]
            if not used:
                if not operation.blocks:
                    constants[operation.result] = operation
                continue
            if any(v in inside and v not in constants for v in used):
                continue
            if (operation.blocks or can_fault(operation)) and not surely:
                continue
            chosen.update(dict.fromkeys(constants[v] for v in used if v in constants))
            chosen[operation] = None
            _name_element(operation)
            inside.difference_update(operation.results)
        # a constant that moved is outside for everyone; order of the block is kept
        moved.extend(o for o in block.operations if o in chosen)
        block.operations = [o for o in block.operations if o not in chosen]
    return moved


def _name_element(operation: Operation) -> None:
    """Name an element that lives through a loop after its array: `w_0` is w[0]."""
    part = operation.operands[0].producer if operation.op == "reshape" else None
    if part is None or part.op != "slice" or operation.result.shape or operation.result.name:
        return
    if part.operands[0].name:
        operation.result.name = "_".join([part.operands[0].name, *map(str, part.attrs["start"])])


def _is_worth_moving(operation: Operation) -> bool:
    for result in operation.results:
        if not isinstance(result.type, ArrayType):
            return False
        operand_sizes = [size_guess(v.shape) for v in operation.operands if isinstance(v.type, ArrayType)]
        size = size_guess(result.shape)
        if size * result.dtype.itemsize > _SMALL_BYTES and size > max(operand_sizes, default=0):
            return False
    return operation.op != "undefined"
