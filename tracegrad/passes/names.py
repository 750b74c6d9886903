"""Takes from primal values the names of cotangents that they have been given.

Reads and writes IR in place. Previous: dce.py; next: manager.py.

A cotangent can be a primal value as it is: that of `x` in `x * f(y)` is `f(y)` where the product is the result. So
this, when it has no name, is `ct_x`: a wrong name for what is computed, and for what primal operations read. An element
or view that the sweep alone reads keeps it.
"""

from __future__ import annotations

from tracegrad.ir.core import Function, Operation, walk

#: what computes nothing
_MOVES = frozenset({"gather", "slice", "reshape", "transpose", "broadcast_to", "constant", "full"})


def name_primal_values(function: Function) -> bool:
    """Drop names of cotangents from what primal operations compute or read; return whether there were any."""
    operations = list(walk(function.body))
    named = {
        result
        for operation in operations
        if _is_primal(operation)
        for result in operation.results
        if result.name.startswith("ct_") or result.noun.startswith("ct_")
    }
    if not named:
        return False
    read = {v for operation in operations if _is_primal(operation) for v in operation.operands}
    wrong = {v for v in named if v in read or (v.producer is not None and v.producer.op not in _MOVES)}
    for value in wrong:
        value.name = "" if value.name.startswith("ct_") else value.name
        value.noun = "" if value.noun.startswith("ct_") else value.noun
    return bool(wrong)


def _is_primal(operation: Operation) -> bool:
    return operation.span is not None and not operation.span.reverse
