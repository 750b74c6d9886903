"""Recognizes choices that keep a triangle of matrices, whatever compares the indices of rows and columns.

Reads IR. Used by nouns.py and codegen/. Previous: accesses.py; next: products.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tracegrad.ir.core import Operation, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ir.writes import filled_number, is_filled_with

#: comparisons of column - row with a number, as (keeps what is above, steps from the number to the last diagonal kept)
_BANDS = {"less": (False, -1), "less_equal": (False, 0), "greater": (True, 1), "greater_equal": (True, 0)}
#: the same comparison, the operands exchanged
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


@dataclass(frozen=True, slots=True)
class Band:
    """The elements of matrices on and above (else on and below) a diagonal, counted upwards from the main one."""

    is_upper: bool
    diagonal: int

    def complement(self) -> Band:
        return Band(not self.is_upper, self.diagonal + (-1 if self.is_upper else 1))


def triangle_of(operation: Operation) -> tuple[Band, int] | None:
    """Return which band of matrices a choice keeps, with zeros elsewhere, and the position of the operand kept."""
    if operation.op != "select" or operation.result.dtype.kind not in "fiu":
        return None
    mask, x, y = operation.operands
    band = band_of(mask)
    if band is None:
        return None
    if _is_zero(y):
        return band, 1
    return (band.complement(), 2) if _is_zero(x) else None


def band_of(mask: Value) -> Band | None:
    """Return which elements of matrices a mask chooses by their row and column."""
    made = mask.producer
    if made is not None and made.op == "broadcast_to" and len(made.operands[0].shape) == 2:
        made = made.operands[0].producer if made.operands[0].shape == mask.shape[-2:] else None
    if made is None or made.op not in _BANDS:
        return None
    found = _offset(made)
    if found is None:
        return None
    sign, number = found
    is_upper, step = _BANDS[made.op if sign > 0 else _MIRRORED[made.op]]
    return Band(is_upper, sign * number + step)


def _offset(comparison: Operation) -> tuple[int, int] | None:
    """Return s and n of a comparison of s * (column - row) with n."""
    x, y = comparison.operands
    number = _integer(y)
    if number is None:
        sign = _direction(x, y)
        return None if sign is None else (sign, 0)
    difference = x.producer
    if difference is None or difference.op != "subtract":
        return None
    sign = _direction(*difference.operands)
    return None if sign is None else (sign, number)


def _direction(x: Value, y: Value) -> int | None:
    """Return 1 for columns and rows, -1 for rows and columns."""
    axes = []
    for value in (x, y):
        made = value.producer
        if made is None or made.op != "iota" or value.dtype.kind != "i":
            return None
        axes.append(made.attrs["axis"] - len(value.shape))
    return {(-1, -2): 1, (-2, -1): -1}.get((axes[0], axes[1]))


def _integer(value: Value) -> int | None:
    made = value.producer
    while made is not None and made.op in ("broadcast_to", "reshape"):
        made = made.operands[0].producer
    if made is None or not isinstance(made.results[0].type, ArrayType):
        return None
    if made.op == "constant" and not made.result.shape and made.result.dtype.kind == "i":
        return int(made.attrs["value"])
    return int(made.attrs["value"]) if made.op == "full" and made.result.dtype.kind == "i" else None


def _is_zero(value: Value) -> bool:
    number = filled_number(value)
    return is_filled_with(value, 0) and (number is None or math.copysign(1.0, number) > 0)
