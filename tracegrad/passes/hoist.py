"""Moves loop-invariant operations in front of their loop.

Reads and writes IR in place. Previous: factors.py; next: place.py.

Moved are operations whose operands come from outside, when their result is not a large array that would have to live
through the loop. An operation that can fault stays in a loop that may run zero times, and so does a branch or a loop.
Constants and tests of numbers move only along with an operation that reads them. In the end, what is invariant in a
branch whose condition is invariant moves too, into a branch of its own on the same condition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tracegrad.ir.bounds import size_guess, surely_runs
from tracegrad.ir.core import Block, Function, Operation, Value, clone_operation, free_values, substitute
from tracegrad.ir.liveness import defined_in, has_effect
from tracegrad.ir.types import ArrayType, is_integer

#: ops that can raise an error at run time, by name; integer division too
_FAULTING = frozenset(
    {"gather", "scatter_add", "scatter_set", "solve", "triangular_solve", "cholesky", "inv", "call", "argmax", "argmin"}
    | {"reduce_max", "reduce_min", "eigh", "svd", "pinv"}
)
#: ops that take no longer than reading what they gave
_TESTS = frozenset({"isfinite", "isnan", "isinf", "logical_not"})
#: ops whose results are as well made again as passed on
_REPEATED = frozenset({"constant", "full", "dim", "iota", "broadcast_to", "reshape", "slice", "transpose", "gather"})
_INTEGER_FAULTING = frozenset({"floor_divide", "remainder", "fmod", "power", "left_shift", "right_shift"})
_SMALL_BYTES = 1 << 16


def hoist_invariants(function: Function) -> bool:
    """Move invariant operations out of loops, as far out as they go; return whether any was moved."""
    return _block(function.body, split=False)


def hoist_from_branches(function: Function) -> bool:
    """Move invariant operations out of loops, and what is invariant in their branches; return whether any was moved."""
    return _block(function.body, split=True)


def can_fault(operation: Operation) -> bool:
    """Return whether running an operation can raise an error."""
    if operation.op in _INTEGER_FAULTING:
        kind = operation.results[0].type
        return isinstance(kind, ArrayType) and is_integer(kind.dtype)
    return operation.op in _FAULTING


def _block(block: Block, split: bool) -> bool:
    changed = False
    kept: list[Operation] = []
    for operation in block.operations:
        for nested in operation.blocks:
            changed |= _block(nested, split)
        if operation.op in ("for", "while"):
            moved = _invariants(operation, split)
            changed |= bool(moved)
            kept.extend(moved)
        kept.append(operation)
    block.operations = kept
    return changed


def _invariants(loop: Operation, split: bool) -> list[Operation]:
    """Take the invariant operations out of the blocks of a loop and return them."""
    moved: list[Operation] = []
    for block in loop.blocks:
        # the condition of a `while` runs at least once
        surely = surely_runs(loop) or (loop.op == "while" and block is loop.blocks[0])
        inside = defined_in(block)
        chosen = _choose(block, inside, surely)
        # a constant that moved is outside for everyone; order of the block is kept
        moved.extend(o for o in block.operations if o in chosen)
        block.operations = [o for o in block.operations if o not in chosen]
        for branch in block.operations if split else ():
            if branch.op == "if" and branch.operands[0] not in inside:
                part, replaced = _invariant_part(branch, inside, surely)
                inside.difference_update(replaced)
                substitute(block, replaced)
                moved.extend([part] if part is not None else [])
    return moved


def _choose(block: Block, inside: set[Value], surely: bool) -> dict[Operation, None]:
    """Return the operations of a block to move out of the loop around it.

    Args:
        inside: values that change in the loop; the results of what is chosen are taken from it.
        surely: the loop runs at least once.
    """
    light: dict[Value, Operation] = {}
    chosen: dict[Operation, None] = {}

    def choose(operation: Operation, used: Sequence[Value]) -> None:
        for value in used:
            if value in light:
                source = light.pop(value)
                choose(source, source.operands)
        chosen[operation] = None
        inside.difference_update(operation.results)

    for operation in block.operations:
        if has_effect(operation) or not _is_worth_moving(operation):
            continue
        used = [*operation.operands, *(v for nested in operation.blocks for v in free_values(nested))]
        if any(v in inside and v not in light for v in used):
            continue
        if not operation.blocks and ((not used and operation.op != "iota") or operation.op in _TESTS):
            light[operation.result] = operation
        elif surely or not (operation.blocks or can_fault(operation)):
            choose(operation, used)
            _name_element(operation)
    return chosen


def _invariant_part(branch: Operation, inside: set[Value], surely: bool) -> tuple[Operation | None, dict[Value, Value]]:
    """Take what is invariant out of the sides of a branch.

    Returns:
        It, as a branch on the same condition, if there is any; and what stands for results that do not change.
    """
    sides = [Block(), Block()]
    mappings: list[dict[Value, Value]] = [{}, {}]
    changing: list[set[Value]] = []
    for block, side, mapping in zip(branch.blocks, sides, mappings, strict=True):
        chosen = _choose(block, inside | defined_in(block), surely)
        side.operations = [clone_operation(operation, mapping) for operation in chosen]
        block.operations = [o for o in block.operations if o not in chosen or o.op in _REPEATED]
        changing.append(inside | defined_in(block) - mapping.keys())
    results: list[Value] = []
    replaced: dict[Value, Value] = {}
    for result, *ends in zip(branch.results, *(block.yields for block in branch.blocks), strict=True):
        moves = any(v in mapping for v, mapping in zip(ends, mappings, strict=True))
        if moves and not any(v in own and not _is_unset(v) for v, own in zip(ends, changing, strict=True)):
            replaced[result] = result.twin()
            for side, end, mapping in zip(sides, ends, mappings, strict=True):
                if _is_unset(end) and end.producer is not None:
                    side.operations.append(clone_operation(end.producer, mapping))
                side.yields.append(mapping.get(end, end))
    _drop_results(branch, replaced)
    results.extend(replaced.values())
    for block, side, other, mapping in zip(branch.blocks, sides, reversed(sides), mappings, strict=True):
        left = {v for o in block.operations for v in o.results}
        passed = [v for v in free_values(block) if v in mapping and v not in left]
        replacements = {v: v.twin() for v in passed}
        substitute(block, replacements)
        results.extend(replacements.values())
        side.yields.extend(mapping[v] for v in passed)
        unset = [Operation("undefined", [], {"type": v.type}, [], [v.type], branch.span) for v in passed]
        other.operations.extend(unset)
        other.yields.extend(o.result for o in unset)
    if not results:
        return None, replaced
    part = Operation("if", branch.operands[:1], {}, sides, [v.type for v in results], branch.span)
    part.results = results
    for result in results:
        result.producer = part
    return part, replaced


def _is_unset(value: Value) -> bool:
    return value.producer is not None and value.producer.op == "undefined"


def _drop_results(branch: Operation, dropped: Collection[Value]) -> None:
    kept = [number for number, result in enumerate(branch.results) if result not in dropped]
    branch.results = [branch.results[number] for number in kept]
    for block in branch.blocks:
        block.yields = [block.yields[number] for number in kept]


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
