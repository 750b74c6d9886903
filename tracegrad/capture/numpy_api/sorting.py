"""Sorting and searching: sort, argsort, median, quantile, searchsorted, digitize, bincount.

Previous: reduce.py; next: products.py.

The derivative of a sort is the permutation; equal elements keep their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.numpy_api.common import (
    as_axes,
    as_axis,
    as_dim,
    covers,
    dim_value,
    full,
    is_known,
    known_scalar,
    reshape,
    select,
    spread,
)
from tracegrad.capture.numpy_api.elementwise import (
    add,
    divide,
    floor,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    resolve,
    rint,
    subtract,
)
from tracegrad.capture.numpy_api.indexing import take_along_axis
from tracegrad.capture.numpy_api.reduce import any_
from tracegrad.capture.numpy_api.shape import take_axis
from tracegrad.capture.tracer import (
    Tracer,
    apply,
    asarray,
    call_handler,
    cast_to,
    from_value,
    stage,
    unsupported,
)
from tracegrad.ir.types import BOOL, F64, I64, is_inexact


def _flat_or_axis(a: Any, axis: Any) -> tuple[Tracer, int]:
    tracer = asarray(a)
    if axis is None:
        return reshape(tracer, (tracer.type.size,)), 0
    return tracer, as_axis(axis, tracer.ndim)


def _order(tracer: Tracer, axis: int) -> Tracer:
    return apply(ops.argsort, cast_to(tracer, I64) if tracer.dtype == BOOL else tracer, axis=axis)  # type: ignore[no-any-return]


def sorted_along(tracer: Tracer, axis: int) -> Tracer:
    """Return the array sorted along an axis."""
    order = _order(tracer, axis)
    return take_axis(tracer, order, 0) if tracer.ndim == 1 else take_along_axis(tracer, order, axis)


@covers(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tracer:
    return _order(*_flat_or_axis(a, axis))


@covers(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tracer:
    return sorted_along(*_flat_or_axis(a, axis))


@covers(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Tracer:
    """Sort: every element is where a full sort puts it, which a partition allows."""
    return sort(a, axis)


@covers(np.argpartition)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Tracer:
    return argsort(a, axis)


@covers(np.lexsort)
def lexsort(keys: Any, axis: Any = -1) -> Tracer:
    parts = [asarray(k) for k in keys]
    place = as_axis(axis, parts[0].ndim)
    order = _order(parts[0], place)
    for part in parts[1:]:
        ranks = _order(take_along_axis(part, order, place), place)
        order = take_along_axis(order, ranks, place)
    return order


# ---- order statistics


def _statistic(
    a: Any, axis: Any, keepdims: bool, rank: Callable[[Any], Any], pick: Callable[[Tracer, Any], Tracer]
) -> Tracer:
    """Sort the reduced axes as one leading axis and pick from it; NaN where any element is NaN."""
    tracer = asarray(a)
    if not is_inexact(tracer.dtype):
        tracer = cast_to(tracer, F64)
    axes = as_axes(axis, tracer.ndim)
    rest = tuple(k for k in range(tracer.ndim) if k not in axes)
    shape = tracer.type.shape
    moved = call_handler(np.transpose, tracer, (*axes, *rest))
    count = math.prod(shape[k] for k in axes)
    rows = reshape(moved, (count, *[shape[k] for k in rest]))
    result = pick(sorted_along(rows, 0), rank(count))
    lead = result.ndim - len(rest)
    missing = any_(isnan(rows), 0)
    result = select(missing, full((), np.nan, result.dtype), result)
    if keepdims:
        kept = tuple(1 if k in axes else d for k, d in enumerate(shape))
        result = reshape(result, (*result.type.shape[:lead], *kept))
    return result


def _row(rows: Tracer, index: Any) -> Tracer:
    """Return rows at an index along the first axis: an int, or a traced array whose shape goes in front."""
    return take_axis(rows, index if isinstance(index, Tracer) else dim_value(index), 0)


@covers(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Tracer:
    def pick(rows: Tracer, count: Any) -> Tracer:
        low, high = _row(rows, (count - 1) // 2), _row(rows, count // 2)
        if isinstance(count, int) and count % 2:
            return low
        return multiply(add(low, high), full((), 0.5, rows.dtype))

    return _statistic(a, axis, keepdims, lambda count: count, pick)


_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(a: Any, q: Any, axis: Any, method: str, keepdims: bool) -> Tracer:
    if method not in _METHODS:
        raise unsupported(f"np.quantile with method={method!r}", f"use one of {', '.join(_METHODS)}")
    fraction = asarray(q)

    def pick(rows: Tracer, count: Any) -> Tracer:
        dtype = np.result_type(rows.dtype, F64) if not fraction.weak and fraction.dtype == F64 else rows.dtype
        last = cast_to(dim_value(count - 1), F64)
        place = multiply(cast_to(fraction, F64), last)
        below = floor(place)
        if method == "lower":
            return _row(rows, cast_to(below, I64))
        above = call_handler(np.ceil, place)
        if method == "higher":
            return _row(rows, cast_to(above, I64))
        if method == "nearest":
            return _row(rows, cast_to(rint(place), I64))
        low, high = _row(rows, cast_to(below, I64)), _row(rows, cast_to(above, I64))
        weight: Any = 0.5 if method == "midpoint" else subtract(place, below)
        if isinstance(weight, Tracer):
            weight = cast_to(reshape(weight, (*weight.type.shape, *[1] * (rows.ndim - 1))), dtype)
        low, high = cast_to(low, dtype), cast_to(high, dtype)
        return add(low, multiply(weight, subtract(high, low)))

    return _statistic(a, axis, keepdims, lambda count: count, pick)


@covers(np.quantile)
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: Any = None,
) -> Tracer:
    if weights is not None:
        raise unsupported("np.quantile with weights", "sort and use np.cumsum of the weights")
    return _quantile(a, q, axis, interpolation or method, keepdims)


@covers(np.percentile)
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: Any = None,
) -> Tracer:
    if weights is not None:
        raise unsupported("np.percentile with weights", "sort and use np.cumsum of the weights")
    fraction = known_scalar(q)
    scaled = fraction / 100 if fraction is not None else divide(q, 100.0)
    return _quantile(a, scaled, axis, interpolation or method, keepdims)


@covers(np.nanmedian, np.nanquantile, np.nanpercentile)
def refuse_nan(*args: Any, **kwargs: Any) -> Any:
    raise unsupported("nanmedian, nanquantile or nanpercentile", "replace NaN first, or use np.median")


# ---- searching


@covers(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tracer:
    """Count the elements before each value. The array may be traced; it must be sorted, as for NumPy."""
    if side not in ("left", "right"):
        raise ValueError(f"search side must be one of 'left' or 'right' (got {side!r})")
    table, values = asarray(a), asarray(v)
    if table.ndim != 1:
        raise ValueError("object too deep for desired array")
    if sorter is not None:
        table = take_axis(table, asarray(sorter), 0)
    dtype = resolve(np.less, [table, values])[0]
    table, values = cast_to(table, dtype), cast_to(values, dtype)
    column = reshape(values, (*values.type.shape, 1))
    whole = (*values.type.shape, table.type.shape[0])
    left, right = spread(table, whole), spread(column, whole)
    before = less(left, right) if side == "left" else less_equal(left, right)
    if is_inexact(dtype):  # NaN sorts to the end
        after = logical_and(isnan(right), logical_not(isnan(left)) if side == "left" else full((), True, BOOL))
        before = logical_or(before, after)
    return apply(ops.reduce_sum, cast_to(before, I64), axes=(len(whole) - 1,))  # type: ignore[no-any-return]


@covers(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Tracer:
    edges = asarray(bins)
    falling = False
    if is_known(edges):
        content = np.asarray(edges.concrete)
        falling = len(content) > 1 and bool(content[0] > content[-1])
    if not falling:
        return searchsorted(edges, x, "left" if right else "right")
    count = dim_value(edges.type.shape[0])
    flipped = call_handler(np.flip, edges)
    return subtract(count, searchsorted(flipped, x, "right" if right else "left"))


@covers(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Tracer:
    """Add up weights per index; the number of bins must be known at capture."""
    places = asarray(x)
    if is_known(places):
        content = np.asarray(places.concrete)
        bins = max(as_dim(minlength), int(content.max()) + 1 if content.size else 0)
    else:
        bins = as_dim(minlength)
        if isinstance(bins, int) and bins == 0:
            raise unsupported(
                "np.bincount of traced indices without minlength",
                "give minlength: the number of bins must be known at capture; greater indices are an IndexError",
            )
    if weights is None:
        values, zero = spread(full((), 1, I64), places.type.shape), full((), 0, I64)
    else:
        values, zero = cast_to(asarray(weights), F64), full((), 0, F64)
    empty = spread(zero, (bins,))
    index = cast_to(places, I64)
    return from_value(stage(ops.scatter_add, empty.value, index.value, values.value, axes=(0,)))


@covers(np.histogram, np.histogram2d, np.histogramdd, np.histogram_bin_edges)
def refuse_histogram(*args: Any, **kwargs: Any) -> Any:
    raise unsupported("a histogram of traced values", "use np.bincount(np.digitize(x, edges), minlength=n)")


@covers(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Tracer:
    values, table = asarray(element), asarray(test_elements)
    flat = reshape(table, (table.type.size,))
    column = reshape(values, (*values.type.shape, 1))
    found = any_(call_handler(np.equal, column, flat), -1)
    return logical_not(found) if invert else found
