"""Slopes of powers, and of quotients by powers, as a person writes them: `3.0 * x ** 2`, and not that of each product.

Stages IR through the current interpreter. Used by vjp.py and jvp.py. Previous: residuals.py; next: cotangents.py.
"""

from __future__ import annotations

from typing import Any

from tracegrad.ir.core import Operation, Value
from tracegrad.ir.products import as_power, is_unnamed_in
from tracegrad.ops.creation import full_like
from tracegrad.ops.elementwise import divide, multiply, power_by_products


def slope_of_power(operation: Operation, least: int = 2) -> tuple[Value, Any] | None:
    """Return the base of a power that squares and products make, and the slope by it; None for other operations.

    Args:
        least: the smallest exponent that counts.
    """
    found = as_power(operation, is_unnamed_in(operation))
    if found is None or found[1] < least:
        return None
    base, exponent = found
    return base, multiply(full_like(base, float(exponent)), power_by_products(base, exponent - 1))


def slope_of_quotient(operation: Operation) -> tuple[Value, Any] | None:
    """Return the base of a power that an operation divides by, and the slope by it: `-n * out / x` for `a / x**n`.

    So nothing is computed that can overflow when the result does not.
    """
    if operation.op not in ("divide", "reciprocal"):
        return None
    made, is_inner = operation.operands[-1].producer, is_unnamed_in(operation)
    found = as_power(made, is_inner) if made is not None and is_inner(operation.operands[-1]) else None
    if found is None:
        return None
    base, exponent = found
    return base, divide(multiply(full_like(base, -float(exponent)), operation.result), base)
