"""Writes small negative powers as inverses of products, which are faster than a power.

Reads and writes IR in place. Previous: cse.py; next: factors.py.

Runs when nothing is differentiated any more: the slope of `1 / x**2` is no number where `x**2` is infinite or 0, and 0
where its square is too small; that of a power is right there.
"""

from __future__ import annotations

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.types import is_inexact
from tracegrad.ir.writes import is_filled_with
from tracegrad.ops import multiply, reciprocal, square
from tracegrad.passes.rewrite import rewrite


def lower_powers(function: Function) -> bool:
    """Replace powers by -2 to -4; return whether there were any."""
    return rewrite(function, {"power": (_inverse,)})


def _inverse(operation: Operation, builder: Builder) -> Value | None:
    x, y = operation.operands
    if not is_inexact(x.dtype):
        return None
    number = next((n for n in (2, 3, 4) if is_filled_with(y, -n)), None)
    if number is None:
        return None
    product = square(x)
    if number > 2:
        product = multiply(product, x) if number == 3 else square(product)
    made: Value = reciprocal(product)
    return made
