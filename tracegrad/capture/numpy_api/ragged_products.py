"""Products, least squares and convolutions of arrays whose length is found when the program runs.

Previous: ragged_reduce.py; next: ragged_shape.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.capture.axes import Axis
from tracegrad.capture.contents import shifted
from tracegrad.capture.lengths import at_least, unknown_length
from tracegrad.capture.masked import cutoff
from tracegrad.capture.ragged import Ragged, align, as_operand, covers_ragged, filled, require_some
from tracegrad.capture.tracer import Tracer, call_handler, check, make_weak


def _contracted(a: Ragged, j: int, b: Ragged, k: int) -> tuple[Ragged, Ragged]:
    """Return operands whose axes j and k are summed over: of one size, and zero outside."""
    (x, y), axes = align([Ragged(_last(a.content, j), _only(a, j)), Ragged(_last(b.content, k), _only(b, k))])
    size = max(x.ndim, y.ndim) - 1
    if size in axes:
        axis = axes[size]
        x = filled(Ragged(x, {x.ndim - 1: axis}), (x.ndim - 1,), 0)
        y = filled(Ragged(y, {y.ndim - 1: axis}), (y.ndim - 1,), 0)
    return (
        Ragged(_last(x, j), {i: axis for i, axis in a.axes.items() if i != j}),
        Ragged(_last(y, k), {i: axis for i, axis in b.axes.items() if i != k}),
    )


def _only(a: Ragged, j: int) -> dict[int, Axis]:
    return {a.ndim - 1: a.axes[j]} if j in a.axes else {}


def _last(content: Tracer, j: int) -> Tracer:
    """Return the content with axis j and the last one exchanged."""
    return content if j == content.ndim - 1 else call_handler(np.swapaxes, content, j, -1)


@covers_ragged(np.matmul, np.dot)
def _matmul(a: Any, b: Any, **kwargs: Any) -> Any:
    x, y = as_operand(a), as_operand(b)
    if kwargs or x is None or y is None or x.ndim > 2 or y.ndim > 2:
        raise unknown_length()
    if x.ndim == y.ndim == 1:
        if all(0 in part.axes for part in (x, y)):
            return call_handler(np.sum, call_handler(np.multiply, x, y))
    x, y = _contracted(x, x.ndim - 1, y, max(y.ndim - 2, 0))
    result = call_handler(np.matmul, x.content, y.content)
    axes = {0: x.axes[0]} if 0 in x.axes else {}
    if y.ndim == 2 and 1 in y.axes:
        axes[x.ndim - 1] = y.axes[1]
    return Ragged(result, axes) if axes else result


@covers_ragged(np.inner, np.vdot)
def _inner(a: Any, b: Any) -> Any:
    x, y = as_operand(a), as_operand(b)
    if x is None or y is None or x.ndim != 1 or y.ndim != 1 or x.dtype.kind == "c":
        raise unknown_length()
    return _matmul(x, y)


@covers_ragged(np.outer)
def _outer(a: Any, b: Any) -> Any:
    x, y = as_operand(a), as_operand(b)
    if x is None or y is None or x.ndim != 1 or y.ndim != 1:
        raise unknown_length()
    return call_handler(np.multiply, x[:, None] if x.axes else x.content[:, None], y if y.axes else y.content)


# ---- least squares: rows of zeros change no solution


@covers_ragged(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    matrix, right = as_operand(a), as_operand(b)
    if matrix is None or right is None or matrix.ndim != 2 or 1 in matrix.axes or 1 in right.axes:
        raise unknown_length()
    if rcond is None:
        size = call_handler(np.maximum, matrix.shape[0], matrix.shape[1])
        rcond = cutoff(size, matrix.dtype)
    rows, values = _contracted(matrix, 0, right, 0)
    return call_handler(np.linalg.lstsq, rows.content, values.content, rcond)


@covers_ragged(np.polyfit)
def _polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None) -> Any:
    points, values = as_operand(x), as_operand(y)
    if points is None or values is None or points.ndim != 1 or 1 in values.axes:
        raise unknown_length()
    if rcond is None:
        rcond = cutoff(points.shape[0], points.dtype)
    weights = as_operand(call_handler(np.ones_like, points, dtype=values.dtype) if w is None else w)
    if weights is None:
        raise unknown_length()
    weights, _ = _contracted(weights, 0, values, 0)
    points, values = _contracted(points, 0, values, 0)
    return call_handler(np.polyfit, points.content, values.content, deg, rcond, full, weights.content)


@covers_ragged(np.convolve)
def _convolve(a: Any, v: Any, mode: Any = "full") -> Ragged:
    given = [as_operand(part) for part in (a, v)]
    parts = [part for part in given if part is not None and part.ndim == 1]
    if len(parts) < 2 or mode not in ("full", "same", "valid"):
        raise unknown_length()
    contents, lengths = [], []
    for part in parts:
        require_some(part, (0,), "an array that is convolved cannot be empty")
        own = {0: Axis(part.shape[0])} if part.axes else {}
        content = shifted(part.content, 0, part.axes[0]) if part.axes else part.content
        contents.append(filled(Ragged(content, own), (0,), 0))
        lengths.append(part.shape[0])
    n, m = lengths
    full = Ragged(call_handler(np.convolve, *contents), {0: Axis(n + m - 1)})
    if mode == "full":
        return full
    if at_least(n - m, 0):
        longer, shorter = n, m
    else:
        longer, shorter = (make_weak(call_handler(choose, n, m)) for choose in (np.maximum, np.minimum))
    start = (shorter - 1) // 2 if mode == "same" else shorter - 1
    middle: Ragged = full[start : start + longer if mode == "same" else longer]
    return middle


@covers_ragged(np.correlate)
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Ragged:
    first, second = as_operand(a), as_operand(v)
    if first is None or second is None or first.ndim != 1 or second.ndim != 1 or second.dtype.kind == "c":
        raise unknown_length()
    if mode != "full" and not at_least(first.shape[0] - second.shape[0], 0):
        shorter = "np.correlate of an array of unknown length takes a second one that is not longer"
        check(call_handler(np.greater_equal, first.shape[0], second.shape[0]), "ValueError", shorter)
    return _convolve(first, second[::-1].forwards() if second.axes else second.content[::-1], mode)
