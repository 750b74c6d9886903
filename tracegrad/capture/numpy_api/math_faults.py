"""What the functions of math raise where those of NumPy give NaN or an infinity: one table of arguments for each error.

Called by scalar.py, which has the functions. Previous: elementwise.py.

Python says: NaN of arguments that are none is a ValueError, and so is an infinity at a pole; an infinity that is only
too large is an OverflowError. Most are seen by one comparison of the argument, false for NaN.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.context import current
from tracegrad.capture.numpy_api.common import known_scalar
from tracegrad.capture.numpy_api.elementwise import (
    absolute,
    equal,
    floor,
    isfinite,
    isnan,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
)
from tracegrad.capture.tracer import Tracer, apply_one, call_handler, check
from tracegrad.ir.core import Operation, Value

#: the largest argument whose exponential is finite
_LARGEST = math.log(sys.float_info.max)

_Test = Callable[..., Tracer]


def _beyond(compare: Any, limit: float, *, magnitude: bool = False) -> _Test:
    return lambda x: call_handler(compare, absolute(x) if magnitude else x, limit)


def _too_large(compare: Any, limit: float, *, magnitude: bool = False) -> _Test:
    def test(x: Tracer) -> Tracer:
        value = absolute(x) if magnitude else x
        return logical_and(call_handler(compare, value, limit), not_equal(value, math.inf))

    return test


def _is_pole(x: Tracer) -> Tracer:
    return logical_and(less_equal(x, 0.0), equal(x, floor(x)))


def _has_no_remainder(x: Tracer, y: Tracer) -> Tracer:
    divisor, infinite = known_scalar(y), equal(absolute(x), math.inf)
    if divisor is not None and divisor:
        return logical_and(infinite, not math.isnan(divisor))
    by_zero = logical_and(equal(y, 0.0), logical_not(isnan(x)))
    return logical_or(logical_and(infinite, logical_not(isnan(y))), by_zero)


#: function of math -> says of its arguments whether it raises ValueError
_DOMAINS: dict[Any, _Test] = {
    math.log: _beyond(np.less_equal, 0.0),
    math.log2: _beyond(np.less_equal, 0.0),
    math.log10: _beyond(np.less_equal, 0.0),
    math.log1p: _beyond(np.less_equal, -1.0),
    math.sqrt: _beyond(np.less, 0.0),
    math.acos: _beyond(np.greater, 1.0, magnitude=True),
    math.asin: _beyond(np.greater, 1.0, magnitude=True),
    math.acosh: _beyond(np.less, 1.0),
    math.atanh: _beyond(np.greater_equal, 1.0, magnitude=True),
    math.sin: _beyond(np.equal, math.inf, magnitude=True),
    math.cos: _beyond(np.equal, math.inf, magnitude=True),
    math.tan: _beyond(np.equal, math.inf, magnitude=True),
    math.gamma: _is_pole,
    math.lgamma: lambda x: logical_and(_is_pole(x), isfinite(x)),
    math.fmod: _has_no_remainder,
    math.remainder: _has_no_remainder,
}
#: and whether it raises OverflowError
_RANGES: dict[Any, _Test] = {
    math.exp: _too_large(np.greater, _LARGEST),
    math.expm1: _too_large(np.greater, _LARGEST),
    math.sinh: _too_large(np.greater, _LARGEST + math.log(2.0), magnitude=True),
    math.cosh: _too_large(np.greater, _LARGEST + math.log(2.0), magnitude=True),
}
if hasattr(math, "exp2"):
    _RANGES[math.exp2] = _too_large(np.greater_equal, 1024.0)
#: functions that raise OverflowError where the result is infinite, and the first argument is not
_GROWING = frozenset({math.gamma, math.lgamma, math.ldexp})
#: functions that only an infinity is outside of: it gives NaN where no handler is around them, so that code is not
#: full of tests
_PERIODIC = frozenset({math.sin, math.cos, math.tan})
#: op -> the largest magnitude of its results
_BOUNDS = {"sin": 1.0, "cos": 1.0, "tanh": 1.0, "arcsin": 2.0, "arccos": 4.0, "arctan": 2.0, "arctan2": 4.0}


def check_arguments(function: Any, *args: Tracer) -> None:
    """Stage the errors that a function of math raises for some of its arguments."""
    if function in _PERIODIC and (not current().windows or math.isfinite(_bound(args[0].value))):
        return
    for table, error, message in (
        (_DOMAINS, "ValueError", "math domain error"),
        (_RANGES, "OverflowError", "math range error"),
    ):
        if function in table:
            check(logical_not(table[function](*args)), error, message)


def check_result(function: Any, result: Tracer, x: Tracer) -> None:
    """Stage the error that a function of math raises where its result is too large."""
    if function in _GROWING:
        too_large = logical_and(apply_one(ops.isinf, result), isfinite(x))
        check(logical_not(too_large), "OverflowError", "math range error")


def _bound(value: Value) -> float:
    """Return a number that the magnitude of a value does not exceed, as its operations show; infinity for none."""
    return _bound_of(value, {})


def _bound_of(value: Value, known: dict[Value, float]) -> float:
    if value not in known:
        known[value] = _bound_of_result(value.producer, known)
    return known[value]


def _bound_of_result(operation: Operation | None, known: dict[Value, float]) -> float:
    if operation is None:
        return math.inf
    if operation.op == "constant":
        given = operation.attrs["value"]
        return float(np.max(np.abs(given))) if np.size(given) else math.inf
    operands = operation.operands
    if operation.op in ("negative", "absolute"):
        return _bound_of(operands[0], known)
    if operation.op in ("add", "subtract"):
        return _bound_of(operands[0], known) + _bound_of(operands[1], known)
    if operation.op == "multiply":
        return _bound_of(operands[0], known) * _bound_of(operands[1], known)
    return _BOUNDS.get(operation.op, math.inf)
