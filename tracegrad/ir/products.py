"""Recognizes products and squares that are powers of one value, `x ** 2 * x`.

Reads IR. Used by transform/ for their shorter derivative and by codegen/ for their text. Previous: triangles.py; next:
nouns.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tracegrad.ir.core import Operation, Value


def as_power(operation: Operation, is_inner: Callable[[Value], bool]) -> tuple[Value, int] | None:
    """Return the base and the exponent of a power that an operation makes with squares and products, else None.

    Args:
        is_inner: whether a value is a part of the power, if it is one, and not its base.
    """
    match operation.op:
        case "square":
            base, exponent = _power_of(operation.operands[0], is_inner)
            return base, 2 * exponent
        case "multiply":
            (base, exponent), (other, more) = (_power_of(v, is_inner) for v in operation.operands)
            return (base, exponent + more) if base is other else None
    return None


def _power_of(value: Value, is_inner: Callable[[Value], bool]) -> tuple[Value, int]:
    made = value.producer
    found = as_power(made, is_inner) if made is not None and is_inner(value) else None
    return (value, 1) if found is None else found


def is_unnamed_in(operation: Operation) -> Callable[[Value], bool]:
    """Return whether a value has no name and comes from the user's line that an operation comes from."""

    def is_inner(value: Value) -> bool:
        made = value.producer
        if value.name or made is None or made.span is None or operation.span is None:
            return False
        return (made.span.file, made.span.line) == (operation.span.file, operation.span.line)

    return is_inner
