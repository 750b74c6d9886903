"""Sums of traced integers: lengths that are the same at every run, such as that of `x[i - 1:i + 2]`.

Reads IR values; writes nothing. Used by numpy_api/ for slices and ranges whose bounds are traced.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Value
from tracegrad.ir.types import Dim, is_float, is_integer

#: coefficients of values (None: the constant part) of a sum
_Sum = dict[Value | None, Dim]


def difference(x: Value, y: Value) -> Dim | None:
    """Return x - y when it is a dimension whatever the traced integers in both are, else None."""
    total = _combine(_linear(x), _linear(y), -1)
    return total.get(None, 0) if all(value is None for value in total) else None


def quotient(x: Value, number: int) -> _Sum | None:
    """Return x // number as coefficients of values (None: the constant part), where those of values are multiples."""
    total = _linear(x)
    if any(value is not None and (not isinstance(c, int) or c % number) for value, c in total.items()):
        return None
    return {value: c // number for value, c in total.items()}


def ends(x: Value, ranges: Mapping[Value, tuple[Dim, Dim]]) -> tuple[Dim, Dim] | None:
    """Return the least and the greatest that x gets while the values in it take those of their ranges; None when that
    is not known."""
    least: Dim = 0
    greatest: Dim = 0
    for value, coefficient in _linear(x).items():
        if value is None:
            least, greatest = least + coefficient, greatest + coefficient
            continue
        found = ranges.get(value) or _ends_of(value, ranges)
        if found is None or not isinstance(coefficient, int):
            return None
        low, high = found if coefficient > 0 else found[::-1]
        least, greatest = least + coefficient * low, greatest + coefficient * high
    return least, greatest


def _ends_of(value: Value, ranges: Mapping[Value, tuple[Dim, Dim]]) -> tuple[Dim, Dim] | None:
    """Return the least and the greatest of a quotient by a number, a maximum or a minimum."""
    operation = value.producer
    if operation is None or operation.op not in ("floor_divide", "maximum", "minimum"):
        return None
    pair = [ends(operand, ranges) for operand in operation.operands]
    known = [end for found in pair if found is not None for end in found if isinstance(end, int)]
    if len(known) != 4:
        return None
    low, high, least, most = known
    if operation.op == "floor_divide":
        return (low // least, high // least) if 0 < least == most else None
    choose = max if operation.op == "maximum" else min
    return choose(low, least), choose(high, most)


def _combine(x: _Sum, y: _Sum, factor: Dim) -> _Sum:
    total = dict(x)
    for value, coefficient in y.items():
        total[value] = total.get(value, 0) + factor * coefficient
    return {v: c for v, c in total.items() if c != 0}


def _linear(value: Value) -> _Sum:
    """Return an integer, or a float made of integers, as a sum."""
    known = static_value(value)
    if known is not None:
        return {None: known} if known != 0 else {}
    operation = value.producer
    if operation is None or value.shape:
        return {value: 1}
    operands = operation.operands
    match operation.op:
        case "constant" if is_float(value.dtype) and float(operation.attrs["value"]).is_integer():
            return _combine({}, {None: int(operation.attrs["value"])}, 1)
        case "add":
            return _combine(_linear(operands[0]), _linear(operands[1]), 1)
        case "subtract":
            return _combine(_linear(operands[0]), _linear(operands[1]), -1)
        case "negative":
            return _combine({}, _linear(operands[0]), -1)
        case "cast" if is_integer(operands[0].dtype):
            return _linear(operands[0])
        case "multiply":
            for factor, other in (operands, operands[::-1]):
                scale = _linear(factor)
                if set(scale) <= {None}:
                    return _combine({}, _linear(other), scale.get(None, 0))
    return {value: 1}
