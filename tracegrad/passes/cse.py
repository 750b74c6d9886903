"""Common subexpressions: an operation that was done before, here or in an outer block, is not done again.

Reads and writes IR in place. Previous: elements.py; next: hoist.py.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable
from typing import Any

import numpy as np

from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.liveness import has_effect
from tracegrad.ir.opdef import TABLE

_COMMUTATIVE = frozenset({"add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"})


def eliminate_common_subexpressions(function: Function) -> bool:
    """Replace operations by earlier equal ones that are visible; return whether any was replaced."""
    return _block(function.body, ChainMap(), {})


def _block(block: Block, known: ChainMap[Hashable, list[Value]], mapping: dict[Value, Value]) -> bool:
    changed = False
    kept: list[Operation] = []
    for operation in block.operations:
        operation.operands = [mapping.get(v, v) for v in operation.operands]
        for nested in operation.blocks:
            changed |= _block(nested, known.new_child(), mapping)
        if operation.blocks or has_effect(operation) or _is_fresh(operation):
            kept.append(operation)
            continue
        key = _key(operation)
        earlier = known.get(key)
        if earlier is None:
            known[key] = operation.results
            kept.append(operation)
            continue
        changed = True
        for old, new in zip(operation.results, earlier, strict=True):
            new.name = new.name or old.name
            mapping[old] = new
    block.operations = kept
    block.yields = [mapping.get(v, v) for v in block.yields]
    return changed


def _is_fresh(operation: Operation) -> bool:
    """Return whether an operation is better done again: zeros that are written into would have to be copied."""
    return operation.op in ("full", "undefined") and bool(operation.result.shape)


def _key(operation: Operation) -> Hashable:
    values: list[Hashable] = list(operation.operands)
    if TABLE[operation.op].inplace is None:
        values = [_operand_key(v) for v in operation.operands]
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
