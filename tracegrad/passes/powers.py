"""Writes small powers as products, or inverses of products, which are faster than a power.

Reads and writes IR in place. Previous: cse.py; next: factors.py.

Runs when nothing is differentiated any more: the slope of `1 / x**2` is no number where `x**2` is infinite or 0, and 0
where its square is too small; that of a power is right there.
"""

from __future__ import annotations

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.types import is_inexact
from tracegrad.ir.writes import is_filled_with
from tracegrad.ops import reciprocal
from tracegrad.ops.elementwise import power_by_products
from tracegrad.passes.rewrite import rewrite

#: exponents that are products of few factors, each rounded
_EXPONENTS = (2, 3, 4, 5, 6, 8, -2, -3, -4)


def lower_powers(function: Function) -> bool:
    """Replace powers by small known integers; return whether there were any."""
    return rewrite(function, {"power": (_product,)})


def _product(operation: Operation, builder: Builder) -> Value | None:
    x, y = operation.operands
    if not is_inexact(x.dtype):
        return None
    exponent = next((n for n in _EXPONENTS if is_filled_with(y, n)), None)
    if exponent is None:
        return None
    product = power_by_products(x, abs(exponent))
    made: Value = product if exponent > 0 else reciprocal(product)
    return made
