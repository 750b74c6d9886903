"""Which derivatives compute quotients and other factors with poles that a choice may drop: they must warn of none.

Reads a function in IR. Previous: numpy_statements.py; next: numpy_source.py.
"""

from __future__ import annotations

from tracegrad.ir.core import Function, Value, walk
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.writes import filled_number, is_filled_with


def drops_infinities(function: Function) -> bool:
    """Return whether a derivative computes quotients that a choice may drop, or guards factors."""
    operations = list(walk(function.body))
    if any(o.op in ("keep_zero", "isfinite") for o in operations):
        return True
    if not any(r.name.startswith("ct_") for o in operations for r in o.results):
        return False
    for operation in operations:
        if operation.op == "select":
            _, x, y = operation.operands
            kept = y if is_filled_with(x, 0) else x if is_filled_with(y, 0) else None
            again = kept is not None and kept.producer is not None and kept.producer.op == "select"
            if kept is not None and _has_quotient(kept, spread=again):
                return True
    return False


def _has_quotient(value: Value, *, spread: bool, limit: int = 12) -> bool:
    """Return whether a factor or a term of a value is a quotient, or a function with poles.

    Args:
        spread: whether one that is broadcast counts; what is shared by the elements of an axis is seldom dropped.
        limit: how many operations back it is searched.
    """
    passing = {"multiply", "add", "subtract", "negative", "square", "select"}
    passing |= {"broadcast_to", "reshape"} if spread else set()
    level = {value}
    for _ in range(limit):
        producers = {v.producer for v in level if v.producer is not None}
        for operation in producers:
            if any(TABLE[operation.op].singular):
                if operation.op != "divide" or not _is_nonzero_number(operation.operands[1]):
                    return True
        level = {
            operand
            for operation in producers
            if operation.op in passing and not any(TABLE[operation.op].singular)
            for operand in operation.operands
        }
    return False


def _is_nonzero_number(value: Value) -> bool:
    number = filled_number(value)
    return number is not None and number != 0
