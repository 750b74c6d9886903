"""Common subexpressions: what was done before, here or in an outer block, is not done again: an operation, a check,
or a whole loop or branch.

A branch knows also what the same side of an earlier branch on the same condition has computed and passed on. Where its
condition is decided around it, or by a check before, only the side that is taken is left. Reads and writes IR in place.
Previous: elements.py; next: powers.py.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.liveness import find_dead, has_effect
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.writes import is_filled_with

_COMMUTATIVE = frozenset({"add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"})


def eliminate_common_subexpressions(function: Function) -> bool:
    """Replace operations by earlier equal ones that are visible; return whether any was replaced."""
    return _block(function.body, ChainMap(), ChainMap(), {})


def eliminate_repeated_loops(function: Function) -> bool:
    """Do the same where a loop stands twice, as what a `try` runs again does: before dead code is removed from one of
    them, which makes them differ. What is dead itself stands for nothing: it may be where it would fail."""
    loops = [(o.span, o.op, len(o.results)) for o in walk(function.body) if o.op in ("for", "while")]
    if len(set(loops)) == len(loops):
        return False
    return _block(function.body, ChainMap(), ChainMap(), {}, {operation for _, operation in find_dead(function)})


def _block(
    block: Block,
    known: ChainMap[Hashable, list[Value]],
    branches: ChainMap[Value, list[Operation]],
    mapping: dict[Value, Value],
    dead: Collection[Operation] = (),
) -> bool:
    """Replace operations in a block.

    Args:
        known: results of the operations done before, by what they compute; and what is known of conditions.
        branches: the branches before, by condition.
        mapping: what stands for the results of operations left out.
        dead: operations to leave alone.
    """
    operations, block.operations = block.operations, []
    changed = _replace(operations, block.operations, known, branches, mapping, dead)
    block.yields = [mapping.get(v, v) for v in block.yields]
    return changed


def _replace(
    operations: list[Operation],
    kept: list[Operation],
    known: ChainMap[Hashable, list[Value]],
    branches: ChainMap[Value, list[Operation]],
    mapping: dict[Value, Value],
    dead: Collection[Operation],
) -> bool:
    """Add to `kept` what is left of operations; the other arguments are those of `_block`."""
    changed = False
    for operation in operations:
        operation.operands = [mapping.get(v, v) for v in operation.operands]
        taken = _side_taken(operation, known)
        if taken is not None and operation not in dead:
            _replace(taken.operations, kept, known, branches, mapping, dead)
            for old, new in zip(operation.results, taken.yields, strict=True):
                mapping[old] = mapping.get(new, new)
                mapping[old].take_name(old)
            changed = True
            continue
        for side, nested in enumerate(operation.blocks):
            inner = known.new_child()
            if operation.op == "if":
                inner[_truth_of(operation.operands[0], side == 0)] = []
                for earlier in branches.get(operation.operands[0], ()):
                    inner.update(_passed_on(earlier, side))
            changed |= _block(nested, inner, branches.new_child(), mapping, dead)
        if operation in dead:
            kept.append(operation)
            continue
        if operation.op == "check":
            truth = _truth_of(operation.operands[0], True)
            if truth in known:
                changed = True
                continue
            known[truth] = []
        if operation.blocks:
            found = _done_before(operation, known)
        elif has_effect(operation) or _is_fresh(operation):
            found = None
        else:
            key = _key(operation)
            found = known.get(key)
            if found is None:
                known[key] = operation.results
        if found is None:
            kept.append(operation)
            if operation.op == "if":
                before = branches.get(operation.operands[0], [])
                branches[operation.operands[0]] = [*before, operation]
            continue
        changed = True
        for old, new in zip(operation.results, found, strict=True):
            new.take_name(old)
            mapping[old] = new
    return changed


def _side_taken(operation: Operation, known: ChainMap[Hashable, list[Value]]) -> Block | None:
    """Return the side of a branch that is always taken, since its condition is known, or decided around it or before;
    else None."""
    if operation.op != "if":
        return None
    condition = operation.operands[0]
    for outcome, block in zip((True, False), operation.blocks, strict=True):
        if is_filled_with(condition, outcome) or _truth_of(condition, outcome) in known:
            return block
    return None


def _done_before(operation: Operation, known: ChainMap[Hashable, list[Value]]) -> list[Value] | None:
    """Return the results of an earlier loop or branch that computes the same, or None; note this one."""
    if not operation.results:
        return None
    key = operation.op, tuple(r.type for r in operation.results), _attributes(operation)
    alike = known.get(key, [])
    numbers: dict[Hashable, int] = {}
    number = _number(operation, {}, numbers, 0) if alike else None
    for value in alike if number is not None else ():
        earlier = value.producer
        assert earlier is not None, "an operation made it"
        if number == _number(earlier, {}, numbers, 0):
            return earlier.results
    known[key] = [*alike, operation.results[0]]
    return None


def _number(operation: Operation, values: dict[Value, int], numbers: dict[Hashable, int], depth: int) -> int | None:
    """Return the number of what an operation computes; None where it does more than that and checks.

    Args:
        values: the numbers of the values in the blocks around it, below those that are compared.
        numbers: what is computed, by the numbers of operands -> its number.
        depth: of the blocks around it, by which parameters of blocks are numbered.
    """
    parts: list[Hashable] = []
    for block in operation.blocks:
        for position, param in enumerate(block.params):
            values[param] = numbers.setdefault(("parameter", depth, position, param.type), len(numbers))
        checks = []
        for inner in block.operations:
            if not inner.blocks and inner.op != "check" and has_effect(inner):
                return None
            number = _number(inner, values, numbers, depth + 1)
            if number is None:
                return None
            if inner.op == "check" or not inner.results:
                checks.append(number)
            for position, result in enumerate(inner.results):
                values[result] = numbers.setdefault(("result", number, position), len(numbers))
        parts.append((tuple(checks), tuple(_value_number(v, values, numbers) for v in block.yields)))
    operands = tuple(_value_number(v, values, numbers) for v in operation.operands)
    types = tuple(r.type for r in operation.results)
    key = operation.op, operands, _attributes(operation), types, tuple(parts)
    return numbers.setdefault(key, len(numbers))


def _value_number(value: Value, values: dict[Value, int], numbers: dict[Hashable, int]) -> int:
    """Return the number of a value; one from outside is told apart by what it is, or computed from others there."""
    if value in values:
        return values[value]
    made = value.producer
    if made is None or made.blocks or has_effect(made):
        return numbers.setdefault(value, len(numbers))
    operands = tuple(numbers.setdefault(v, len(numbers)) for v in made.operands)
    key = made.op, operands, _attributes(made), tuple(r.type for r in made.results), ()
    number = numbers.setdefault(key, len(numbers))
    return numbers.setdefault(("result", number, made.results.index(value)), len(numbers))


def _attributes(operation: Operation) -> Hashable:
    return tuple((name, _attribute_key(value)) for name, value in sorted(operation.attrs.items()))


def _truth_of(condition: Value, truth: bool) -> Hashable:
    """Return the key for what is known of a condition."""
    while condition.producer is not None and condition.producer.op == "logical_not":
        condition, truth = condition.producer.operands[0], not truth
    return "truth", condition, truth


def _passed_on(branch: Operation, side: int) -> dict[Hashable, list[Value]]:
    """Return what one side of a branch computes from values seen outside, where the results are results of the
    branch."""
    block = branch.blocks[side]
    outside: dict[Value, Value] = dict(zip(reversed(block.yields), reversed(branch.results), strict=True))
    own = {r for o in block.operations for r in o.results}
    found: dict[Hashable, list[Value]] = {}
    for operation in block.operations:
        if operation.blocks or not operation.operands or has_effect(operation):
            continue
        if all(r in outside for r in operation.results) and all(
            v in outside or v not in own for v in operation.operands
        ):
            operands = [outside.get(v, v) for v in operation.operands]
            found[_key(operation, operands)] = [outside[r] for r in operation.results]
    return found


def _is_fresh(operation: Operation) -> bool:
    """Return whether an operation is better done again: zeros that are written into would have to be copied.

    What is undefined stands for another value each time.
    """
    return operation.op == "undefined" or (operation.op == "full" and bool(operation.result.shape))


def _key(operation: Operation, given: Sequence[Value] | None = None) -> Hashable:
    """Return what an operation computes, as a key; `given` stands for its operands."""
    used = operation.operands if given is None else given
    values: list[Hashable] = list(used)
    if TABLE[operation.op].inplace is None:
        values = [_operand_key(v) for v in used]
    operands: Hashable = frozenset(values) if operation.op in _COMMUTATIVE else tuple(values)
    attrs = _attributes(operation)
    if not operation.operands and operation.op != "dim":
        # a constant is as cheap as a name, and reads better than one named after something else
        operands = tuple(r.name for r in operation.results)
    # the types tell apart what attributes do not: dtype and shape of a constant
    return operation.op, operands, attrs, tuple(r.type for r in operation.results)


def _operand_key(value: Value) -> Hashable:
    """Return what tells operands apart: arrays filled with one number are equal when the numbers are."""
    made = value.producer
    if made is None or made.op != "full":
        return value
    return value.type, _attribute_key(made.attrs["value"])


def _attribute_key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, bool | int | float | complex):
        return type(value), repr(value)  # 1, 1.0 and True differ, and so do 0.0 and -0.0
    if isinstance(value, tuple | list):
        return tuple(_attribute_key(v) for v in value)
    hashable: Hashable = value
    return hashable
