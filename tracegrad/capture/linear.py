"""Sums of traced integers: lengths that are the same at every run, such as that of `x[i - 1:i + 2]`.

Reads IR values; writes nothing. Used by numpy_api/ for slices and ranges whose bounds are traced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tracegrad.capture.sizes import decide
from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Value
from tracegrad.ir.types import BOOL, Dim, is_float, is_integer

#: coefficients of values (None: the constant part) of a sum
_Sum = dict[Value | None, Dim]
#: index of a loop -> its least and its greatest value, each a value and what is added to it
Indices = Mapping[Value, tuple[tuple[Value, int], tuple[Value, int]]]


def difference(x: Value, y: Value) -> Dim | None:
    """Return x - y when it is a dimension whatever the traced integers in both are, else None."""
    total = _combine(_linear(x), _linear(y), -1)
    return total.get(None, 0) if all(value is None for value in total) else None


def most_above(x: Value, y: Value, indices: Indices) -> int | None:
    """Return a number that x - y never exceeds, None when none is known."""
    return _most(_combine(_linear(x), _linear(y), -1), indices)


def _most(total: _Sum, indices: Indices, depth: int = 4) -> int | None:
    if all(value is None for value in total):
        constant = total.get(None, 0)
        return constant if isinstance(constant, int) else None
    found = []
    for value, coefficient in total.items():
        if value is None or not depth or coefficient not in (1, -1):
            continue
        rest = {v: c for v, c in total.items() if v is not value}
        if value in indices:
            end, more = indices[value][coefficient == 1]
            limit = _combine(_linear(end), {None: more}, 1)
            found.append(_most(_combine(rest, limit, coefficient), indices, depth - 1))
        extremum = _extremum(value)
        if extremum is None:
            continue
        given = [_most(_combine(rest, _linear(v), coefficient), indices, depth - 1) for v in extremum[1]]
        if extremum[0] == ("<=" if coefficient == 1 else ">="):
            found += given  # a maximum is never below its operands, a minimum never above
        elif None not in given:
            found.append(max(most for most in given if most is not None))  # it is one of them
    return min((most for most in found if most is not None), default=None)


def quotient(x: Value, number: int) -> _Sum | None:
    """Return x // number as coefficients of values (None: the constant part), where those of values are multiples."""
    total = _linear(x)
    if any(value is not None and (not isinstance(c, int) or c % number) for value, c in total.items()):
        return None
    return {value: c // number for value, c in total.items()}


def ends(x: Value, ranges: Mapping[Value, tuple[Dim, Dim]]) -> tuple[Dim, Dim] | None:
    """Return the least and the greatest that x gets while the values in it take those of their ranges; None when that
    is not known."""
    if x in ranges:
        return ranges[x]
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
    """Return the least and the greatest of a quotient by a number, a remainder, a bool, a count of bools, a choice, a
    maximum or a minimum."""
    operation = value.producer
    if operation is not None and operation.op == "cast" and operation.operands[0].dtype == BOOL:
        return 0, 1
    if operation is not None and operation.op == "reduce_sum":
        found = _ends_of(operation.operands[0], ranges)
        if found is None or found != (0, 1):
            return None
        shape = operation.operands[0].shape
        return 0, math.prod(shape[axis] for axis in operation.attrs["axes"])
    if operation is not None and operation.op == "remainder":
        divisor = static_value(operation.operands[1])
        return (0, divisor - 1) if divisor is not None and decide(divisor, ">") else None
    if operation is not None and operation.op == "floor_divide":
        found, by = (ends(operand, ranges) for operand in operation.operands)
        known = [end for pair in (found, by) if pair is not None for end in pair if isinstance(end, int)]
        if len(known) != 4 or not 0 < known[2] == known[3]:
            return None
        return known[0] // known[2], known[1] // known[2]
    extremum = _extremum(value)
    if extremum is not None:
        pair, relations = extremum[1], (extremum[0], extremum[0])
    elif operation is not None and operation.op == "select":
        pair, relations = (operation.operands[1], operation.operands[2]), ("<=", ">=")
    else:
        return None
    one, other = (ends(operand, ranges) for operand in pair)
    if one is None or other is None:
        return None
    low, high = (a if decide(a - b, relation) else b for a, b, relation in zip(one, other, relations, strict=True))
    return low, high


def _extremum(value: Value | None) -> tuple[str, tuple[Value, Value]] | None:
    """Return the two integers of which a value is the greater (">=") or the lesser ("<="), None for other values."""
    operation = value.producer if value is not None else None
    if operation is None:
        return None
    if operation.op in ("maximum", "minimum"):
        x, y = operation.operands
        return ">=" if operation.op == "maximum" else "<=", (x, y)
    if operation.op != "select":
        return None
    test, x, y = operation.operands
    compared = test.producer
    if compared is None or compared.op not in ("greater", "greater_equal", "less", "less_equal"):
        return None
    given = [_linear(v) for v in compared.operands]
    greater = compared.op.startswith("greater")
    if given == [_linear(x), _linear(y)]:
        return ">=" if greater else "<=", (x, y)
    return ("<=" if greater else ">=", (x, y)) if given == [_linear(y), _linear(x)] else None


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
