"""Common subexpressions: an operation that was done before, here or in an outer block, is not done again; nor a check.

A branch knows also what the same side of an earlier branch on the same condition has computed and passed on. Reads and
writes IR in place. Previous: elements.py; next: factors.py.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.liveness import has_effect
from tracegrad.ir.opdef import TABLE

_COMMUTATIVE = frozenset({"add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"})


def eliminate_common_subexpressions(function: Function) -> bool:
    """Replace operations by earlier equal ones that are visible; return whether any was replaced."""
    return _block(function.body, ChainMap(), ChainMap(), {})


def _block(
    block: Block,
    known: ChainMap[Hashable, list[Value]],
    branches: ChainMap[Value, list[Operation]],
    mapping: dict[Value, Value],
) -> bool:
    """Replace operations in a block.

    Args:
        known: results of the operations done before, by what they compute.
        branches: the branches before, by condition.
        mapping: what stands for the results of operations left out.
    """
    changed = False
    kept: list[Operation] = []
    for operation in block.operations:
        operation.operands = [mapping.get(v, v) for v in operation.operands]
        for side, nested in enumerate(operation.blocks):
            inner = known.new_child()
            if operation.op == "if":
                for earlier in branches.get(operation.operands[0], ()):
                    inner.update(_passed_on(earlier, side))
            changed |= _block(nested, inner, branches.new_child(), mapping)
        if operation.op == "if":
            before = branches.get(operation.operands[0], [])
            branches[operation.operands[0]] = [*before, operation]
        if operation.op == "check":
            if _key(operation) in known:
                changed = True
                continue
            known[_key(operation)] = []
        if operation.blocks or has_effect(operation) or _is_fresh(operation):
            kept.append(operation)
            continue
        key = _key(operation)
        found = known.get(key)
        if found is None:
            known[key] = operation.results
            kept.append(operation)
            continue
        changed = True
        for old, new in zip(operation.results, found, strict=True):
            new.take_name(old)
            mapping[old] = new
    block.operations = kept
    block.yields = [mapping.get(v, v) for v in block.yields]
    return changed


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
    """Return whether an operation is better done again: zeros that are written into would have to be copied."""
    return operation.op in ("full", "undefined") and bool(operation.result.shape)


def _key(operation: Operation, given: Sequence[Value] | None = None) -> Hashable:
    """Return what an operation computes, as a key; `given` stands for its operands."""
    used = operation.operands if given is None else given
    values: list[Hashable] = list(used)
    if TABLE[operation.op].inplace is None:
        values = [_operand_key(v) for v in used]
    operands: Hashable = frozenset(values) if operation.op in _COMMUTATIVE else tuple(values)
    attrs = tuple((name, _attribute_key(value)) for name, value in sorted(operation.attrs.items()))
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
