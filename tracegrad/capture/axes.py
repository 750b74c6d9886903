"""Axes of a length found when the program runs: where their elements start, and which of them slices and indices take.

Previous: lengths.py; next: contents.py.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tracegrad.capture.lengths import OUTSIDE, as_number, at_least, int_value, is_below, is_zero, plus, span_of
from tracegrad.capture.masked import same_value
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import MaybeNone, Tracer, call_handler, check, make_weak, resolve_content
from tracegrad.ir.bounds import static_value
from tracegrad.ir.types import is_integer


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The elements of an axis that belong to the array: from `start` to before `stop`, as ints, sizes or traced ints,
    in this order or backwards."""

    stop: Any
    start: Any = 0
    backwards: bool = False

    @property
    def length(self) -> Any:
        return self.stop if is_zero(self.start) else self.stop - self.start


class Stride(NamedTuple):
    """Of how many elements one is taken, and where in the content the first of these stands, if that is known."""

    step: int
    first: int | None


def _front(bound: Any, size: Any, least: int) -> Any:
    """Return a bound of a slice counted from the front and cut to least ... size + least."""
    bound = as_number(bound)
    if not at_least(bound, 0):
        found = span_of(bound)
        if found is not None and decide(found[1], "<"):
            bound = bound + size
        else:
            bound = make_weak(call_handler(np.where, bound < 0, bound + size, bound))
        if not at_least(bound, least):
            bound = make_weak(call_handler(np.maximum, bound, least))
    most = plus(size, least)
    return bound if at_least(most - bound, 0) else make_weak(call_handler(np.minimum, bound, most))


def settled(part: slice, size: Any) -> slice:
    """Return a slice of an axis whose bounds are surely there or not: one that may be None is the end that it stands
    for where it is."""
    backwards = part.step is not None and part.step < 0
    first, last = (size - 1, -1 - size) if backwards else (0, size)
    return slice(_end(part.start, first), _end(part.stop, last), part.step)


def _end(bound: Any, end: Any) -> Any:
    if not isinstance(bound, MaybeNone):
        return bound
    return make_weak(call_handler(np.where, bound.present, bound.some, end))


def stride_of(axis: Axis, part: slice) -> Stride | None:
    """Return which of the elements from its first to its last a slice takes, None where it takes all of them."""
    step = 1 if part.step is None else operator.index(part.step)
    if abs(step) == 1:
        return None
    start = 0 if part.start is None else part.start
    known = step > 0 and not axis.backwards and type(axis.start) is int and type(start) is int and start >= 0
    return Stride(abs(step), axis.start + start if known else None)


def narrow(axis: Axis, part: slice) -> Axis:
    """Return the elements of an axis from the first to the last that a slice selects; `Ragged.thinned` takes every
    second one, third one and so on."""
    step = 1 if part.step is None else operator.index(part.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    size = axis.length
    part = settled(part, size)
    if step > 0:
        low = 0 if part.start is None else _front(part.start, size, 0)
        high = size if part.stop is None else _front(part.stop, size, 0)
    else:
        low = 0 if part.stop is None else _front(part.stop, size, -1) + 1
        high = size if part.start is None else _front(part.start, size, -1) + 1
    if not is_zero(low) and not at_least(high - low, 0):
        high = make_weak(call_handler(np.maximum, high, low))
    if axis.backwards:
        start = axis.start if high is size else axis.stop - high
        return Axis(axis.stop if is_zero(low) else axis.stop - low, start, step > 0)
    return Axis(axis.stop if high is size else plus(axis.start, high), plus(axis.start, low), step < 0)


def position_of(index: Any, axis: Axis, message: str = OUTSIDE) -> Any:
    """Return where an element stands in the content; that there is one is checked when the program runs."""
    index = as_number(index)
    if not at_least(index, 0):
        found = span_of(index)
        negative = found is not None and decide(found[1], "<")
        index = index + axis.length if negative else call_handler(np.where, index < 0, index + axis.length, index)
        if not at_least(index, 0):
            check(call_handler(np.greater_equal, index, 0), "IndexError", message)
    if not is_below(index, axis.length):
        check(call_handler(np.less, index, axis.length), "IndexError", message)
    return axis.stop - 1 - index if axis.backwards else plus(axis.start, index)


def is_same_start(x: Axis, y: Axis) -> bool:
    if x.start is y.start or (is_zero(x.start) and is_zero(y.start)):
        return True
    return same_value(int_value(x.start), int_value(y.start))


def measured(shape: Any) -> tuple[Any, dict[int, Axis]]:
    """Return a shape with the greatest that they can get for sizes known only at run time, and the axes of these."""
    if not isinstance(shape, tuple | list):
        (dim,), axes = measured((shape,))
        return dim, axes
    dims = list(shape)
    axes = {}
    for k, length in enumerate(dims):
        if not isinstance(length, Tracer) or length.ndim or not is_integer(length.dtype) or length.concrete is not None:
            continue
        if static_value(length.value) is not None or (found := span_of(length)) is None:
            continue
        if resolve_content(length) is None:
            if not decide(found[0], ">="):
                length = make_weak(call_handler(np.maximum, length, 0))
            dims[k], axes[k] = as_size(found[1]), Axis(length)
    return tuple(dims), axes
