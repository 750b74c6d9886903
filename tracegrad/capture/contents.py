"""Moves and masks contents: arrays of a fixed size of which only some elements belong to the array that they stand for.

Stages operations on tracers. Previous: axes.py; next: ragged.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.axes import Axis
from tracegrad.capture.context import current
from tracegrad.capture.lengths import is_zero, known_distance, span_of
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import Tracer, asarray, call_handler, cast_to, from_value, stage
from tracegrad.ir.types import I64, Dim


def iota(shape: tuple[Dim, ...], axis: int = 0, dtype: Any = I64) -> Tracer:
    """Return positions along an axis."""
    return from_value(stage(ops.iota, shape=shape, dtype=np.dtype(dtype), axis=axis))


def mask_of(content: Tracer, axes: dict[int, Axis]) -> Any:
    """Return which elements of a content belong to the array with these axes."""
    mask: Any = None
    for k, axis in axes.items():
        size = content.type.shape[k]
        positions = iota((size,))
        inside = None if known_distance(axis.stop, as_size(size)) == 0 else call_handler(np.less, positions, axis.stop)
        if not is_zero(axis.start) or inside is None:
            after = call_handler(np.greater_equal, positions, axis.start)
            inside = after if inside is None else call_handler(np.logical_and, after, inside)
        column = call_handler(np.reshape, inside, (-1, *[1] * (content.ndim - k - 1)))
        mask = column if mask is None else call_handler(np.logical_and, mask, column)
    return mask


def at(k: int, part: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * k, part)


def taken(content: Tracer, k: int, index: Any) -> Tracer:
    """Return the elements at some positions of axis k, which all are in the content."""
    if content.type.shape[k] == 0:
        shape = (*content.shape[:k], index.shape[0], *content.shape[k + 1 :])
        empty: Tracer = call_handler(np.broadcast_to, cast_to(asarray(0), content.dtype), shape)
        return empty
    with current().builder.certain():
        part: Tracer = call_handler(operator.getitem, content, at(k, index))
    return part


def shifted(content: Tracer, k: int, axis: Axis) -> Tracer:
    """Return a content in which the elements of axis k begin at 0."""
    if is_zero(axis.start):
        return content
    size = content.type.shape[k]
    if isinstance(axis.start, int):
        return cut(content, k, size, axis.start)
    found = span_of(axis.start)
    least = found[0] if found is not None and decide(found[0], ">=") else 0
    last = as_size(size) - 1
    index = call_handler(np.minimum, call_handler(np.add, iota((size - least,)), axis.start), last)
    return taken(content, k, index)


def cut(content: Tracer, k: int, stop: Dim, start: Dim = 0) -> Tracer:
    if content.type.shape[k] == stop and start == 0:
        return content
    part: Tracer = call_handler(operator.getitem, content, at(k, slice(as_size(start), as_size(stop))))
    return part


def holds(inner: Dim, outer: Dim) -> bool:
    return inner == outer or decide(outer - inner, ">=")


def smallest(dims: Sequence[Dim]) -> Dim:
    least = dims[0]
    for dim in dims[1:]:
        least = least if holds(least, dim) else dim
    return least
