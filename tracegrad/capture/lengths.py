"""Lengths that are known only when the program runs: what is known of traced ints before, and the checks of the rest.

Reads ints, sizes and tracers; stages checks. Previous: linear.py; next: axes.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.capture.context import current, user_span
from tracegrad.capture.linear import difference, ends, most_above, quotient
from tracegrad.capture.masked import same_value
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import Tracer, asarray, call_handler, cast_to, check, from_value, make_weak
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.core import Value
from tracegrad.ir.types import I64, Dim, is_integer

OUTSIDE = "an index is out of bounds for a part whose length is known only at run time"
UNEQUAL = (
    "operands could not be broadcast together: the lengths of slices differ (one of length 1 is not spread where its "
    "length is known only at run time)"
)


def unknown_length(
    found: str = "an array whose length is known only at run time, where it must be known before",
    help: str = "pass the bound as a Python int, or compute it from floats by which no derivative is taken, use bounds "
    "at a fixed distance (`x[i:i + 3]`), or the whole axis with a mask: np.where(np.arange(n) < i, x, 0)",
) -> Exception:
    """Return the error for what needs the length of a ragged axis; where lists are filled under conditions, it names
    them."""
    made: list[Any] = [container for container, _ in current().created.values() if isinstance(container, list)]
    names = {name: None for m in made if getattr(m, "varies", False) and (name := getattr(m, "name", ""))}
    if names:
        found += f"; {', '.join(map(repr, names))}: a list of unknown length, since it is filled under a condition"
        help = f"append to the list on every path, zeros where there would be nothing; or {help}"
    return NeedsPythonValue(
        "the length of an array depends on traced values", code="TG118", span=user_span(), found=found, help=help
    )


def int_value(number: Any) -> Value:
    return cast_to(asarray(number), I64).value


def span_of(number: Any) -> tuple[Dim, Dim] | None:
    """Return the least and greatest that an int, size or traced int gets in the loops around, None when not known."""
    if isinstance(number, int):
        return number, number
    return ends(int_value(number), current().ranges)


def at_least(number: Any, least: int) -> bool:
    """Return whether a number is surely `least` or more."""
    found = span_of(number)
    return found is not None and decide(found[0] - least, ">=")


def is_below(x: Any, y: Any) -> bool:
    """Return whether an int, size or traced int is surely less than another one."""
    if at_least(y - 1 - x, 0):
        return True
    most = most_above(int_value(x), int_value(y), current().indices)
    return most is not None and most < 0


def plus(x: Any, y: Any) -> Any:
    return y if is_zero(x) else x if is_zero(y) else x + y


def is_zero(number: Any) -> bool:
    return isinstance(number, int) and number == 0


def is_index(part: Any) -> bool:
    if isinstance(part, bool | np.bool_ | list | tuple):
        return False
    tracer = asarray(part)
    return not tracer.ndim and is_integer(tracer.dtype)


def is_index_array(part: Any) -> bool:
    if isinstance(part, tuple | slice) or part is None or part is Ellipsis:
        return False
    tracer = asarray(part)
    return bool(tracer.ndim) and is_integer(tracer.dtype)


def as_number(part: Any) -> Any:
    """Return a bound or an index as an int, a size or a traced Python int."""
    if hasattr(part, "dim") or type(part) is int:
        return part
    if not is_index(part):
        raise TypeError("only integer scalar arrays can be converted to a scalar index")
    tracer = asarray(part)
    return int(tracer.concrete) if tracer.concrete is not None else make_weak(tracer)


def known_distance(x: Any, y: Any) -> Dim | None:
    """Return x - y, None when it is not known."""
    if isinstance(x, int) and isinstance(y, int):
        return x - y
    a, b = int_value(x), int_value(y)
    return 0 if same_value(a, b) else difference(a, b)


def most_between(x: Any, y: Any) -> Dim | None:
    """Return a number that y - x never exceeds, None when none is known."""
    found, most = span_of(y - x), most_above(int_value(y), int_value(x), current().indices)
    if found is None or (most is not None and decide(found[1] - most, ">")):
        return most
    return found[1]


def require_equal(x: Any, y: Any, message: str = UNEQUAL) -> None:
    """Check that two numbers are equal, when the program runs where it is not known before.

    Raises:
        NeedsPythonValue: they surely differ.
    """
    distance = known_distance(x, y)
    if distance is None:
        check(call_handler(np.equal, x, y), "ValueError", message)
    elif decide(distance, "!="):
        raise unknown_length("parts of different lengths")


def count_between(first: Tracer, last: Tracer, step: int) -> Any:
    """Return how many numbers are in range(first, last, step), of traced ints or floats made of these; None elsewhere.
    It is negative where there are none."""
    if first.ndim or last.ndim or step == 0:
        return None
    sign = 1 if step > 0 else -1
    distance = call_handler(np.subtract, last, first) * sign + (abs(step) - 1)
    terms = quotient(asarray(distance).value, abs(step))
    if terms is None:
        return call_handler(np.floor_divide, distance, abs(step)) if is_integer(distance.dtype) else None
    if any(value is not None and not is_integer(value.dtype) for value in terms):
        return None
    total: Any = as_size(terms.pop(None, 0))
    for value, coefficient in terms.items():
        assert value is not None
        total = plus(total, from_value(value, weak=True) * as_size(coefficient))
    return total
