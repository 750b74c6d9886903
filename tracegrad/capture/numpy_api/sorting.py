"""Sorting and searching: sort, argsort, median, quantile, searchsorted, digitize, bincount.

Previous: reduce.py; next: distinct.py.

The derivative of a sort is the permutation; equal elements keep their order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.masked import Selection
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
from tracegrad.capture.ragged import together
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
    a: Any, axis: Any, keepdims: bool, pick: Callable[[Tracer, Any], Tracer], missing: bool = False
) -> Tracer:
    """Sort the reduced axes as one leading axis and pick from it, by the rows and their number.

    NaN where any element is NaN; where `missing`, NaN are left out: they are sorted to the end, and the number of the
    others is an array, one for each column.
    """
    tracer = asarray(a)
    if not is_inexact(tracer.dtype):
        tracer = cast_to(tracer, F64)
    axes = as_axes(axis, tracer.ndim)
    rest = tuple(k for k in range(tracer.ndim) if k not in axes)
    shape = tracer.type.shape
    moved = call_handler(np.transpose, tracer, (*axes, *rest))
    count: Any = math.prod(shape[k] for k in axes)
    rows = reshape(moved, (count, *[shape[k] for k in rest]))
    absent = isnan(rows)
    if missing:
        count = call_handler(np.sum, cast_to(logical_not(absent), I64), axis=0)
        result = pick(sorted_along(rows, 0), call_handler(np.maximum, count, 1))
        spoiled = call_handler(np.equal, count, 0)
    else:
        result = pick(sorted_along(rows, 0), count)
        spoiled = any_(absent, 0)
    lead = result.ndim - len(rest)
    result = select(spoiled, full((), np.nan, result.dtype), result)
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

    return _statistic(a, axis, keepdims, pick)


#: method -> where the quantile lies between the sorted numbers, for a share and their count; the first is at 0
_PLACES: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("linear", "lower", "higher", "midpoint", "nearest"), lambda q, n: multiply(q, subtract(n, 1.0))),
    "interpolated_inverted_cdf": lambda q, n: subtract(multiply(q, n), 1.0),
    "hazen": lambda q, n: subtract(multiply(q, n), 0.5),
    "weibull": lambda q, n: subtract(multiply(q, add(n, 1.0)), 1.0),
    "median_unbiased": lambda q, n: subtract(multiply(q, add(n, 1.0 / 3.0)), 2.0 / 3.0),
    "normal_unbiased": lambda q, n: subtract(multiply(q, add(n, 0.25)), 0.625),
    "inverted_cdf": lambda q, n: subtract(call_handler(np.ceil, multiply(q, n)), 1.0),
    "averaged_inverted_cdf": lambda q, n: subtract(multiply(q, n), 1.0),
    "closest_observation": lambda q, n: subtract(rint(multiply(q, n)), 1.0),
}


def _quantile(a: Any, q: Any, axis: Any, method: str, keepdims: bool, missing: bool = False) -> Tracer:
    if method not in _PLACES:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {', '.join(_PLACES)}")
    fraction = asarray(q)

    def pick(rows: Tracer, count: Any) -> Tracer:
        dtype = np.result_type(rows.dtype, F64) if not fraction.weak and fraction.dtype == F64 else rows.dtype
        ahead = (*fraction.type.shape, *[1] * (rows.ndim - 1))
        shares = reshape(cast_to(fraction, F64), ahead)
        number = cast_to(count if isinstance(count, Tracer) else dim_value(count), F64)
        place = _PLACES[method](shares, number)
        place = call_handler(np.minimum, call_handler(np.maximum, place, 0.0), subtract(number, 1.0))
        below, above = floor(place), call_handler(np.ceil, place)
        if method in ("lower", "higher", "nearest"):
            below = above = {"lower": below, "higher": above, "nearest": rint(place)}[method]
        weight: Any = subtract(place, below)
        if method == "midpoint":
            weight = 0.5
        elif method == "averaged_inverted_cdf":  # between two numbers where the share falls on one
            count_below = multiply(shares, number)
            exact = logical_and(call_handler(np.equal, count_below, rint(count_below)), less(0.0, count_below))
            below = select(exact, below, above)
            above = call_handler(np.minimum, select(exact, add(below, 1.0), above), subtract(number, 1.0))
            weight = 0.5
        if isinstance(weight, Tracer):
            weight = cast_to(weight, dtype)
        low, high = cast_to(_at(rows, below, fraction), dtype), cast_to(_at(rows, above, fraction), dtype)
        return add(low, multiply(weight, subtract(high, low)))

    return _statistic(a, axis, keepdims, pick, missing)


def _at(rows: Tracer, place: Tracer, fraction: Tracer) -> Tracer:
    """Return rows at places that have their axes in front, and length 1 or the number of columns along the others."""
    ahead = fraction.ndim
    place = cast_to(place, I64)
    if all(d == 1 for d in place.type.shape[ahead:]):
        return _row(rows, reshape(place, fraction.type.shape))
    columns = spread(reshape(rows, (*[1] * ahead, *rows.type.shape)), (*fraction.type.shape, *rows.type.shape))
    index = reshape(place, (*fraction.type.shape, 1, *place.type.shape[ahead:]))
    found = take_along_axis(columns, spread(index, (*fraction.type.shape, 1, *rows.type.shape[1:])), ahead)
    return reshape(found, (*fraction.type.shape, *rows.type.shape[1:]))


def _register_quantiles(function: Any, *, percent: bool, missing: bool) -> None:
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
            raise unsupported(f"np.{function.__name__} with weights", "sort and use np.cumsum of the weights")
        share = known_scalar(q)
        if percent:
            q = share / 100 if share is not None else divide(q, 100.0)
        keepdims = keepdims is True  # NumPy's own no-value object for those that leave NaN out
        return _quantile(a, q, axis, interpolation or method, keepdims, missing)

    covers(function)(quantile)


_register_quantiles(np.quantile, percent=False, missing=False)
_register_quantiles(np.percentile, percent=True, missing=False)
_register_quantiles(np.nanquantile, percent=False, missing=True)
_register_quantiles(np.nanpercentile, percent=True, missing=True)


@covers(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Tracer:
    return _quantile(a, 0.5, axis, "linear", keepdims is True, missing=True)


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
    rising = searchsorted(edges, x, "left" if right else "right")
    size = edges.type.shape[0]
    if is_known(edges):
        content = np.asarray(edges.concrete)
        falls: Any = len(content) > 1 and bool(content[0] > content[-1])
        if not falls:
            return rising
    elif isinstance(size, int) and size < 2:
        return rising
    else:
        falls = less(edges[-1], edges[0])
    turned = subtract(dim_value(size), searchsorted(call_handler(np.flip, edges), x, "right" if right else "left"))
    return turned if falls is True else select(falls, turned, rising)


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


def _edges(a: Any, bins: Any, limits: Any, weights: Any = None) -> Tracer:
    """Return the edges of the bins of a histogram, whose number must be known."""
    if isinstance(bins, str):
        raise unsupported(f"a histogram with bins={bins!r} of traced values", "give the number of bins, or their edges")
    given = asarray(bins)
    if given.ndim == 1:
        return given
    count = operator.index(bins)
    if limits is None:
        low, high = call_handler(np.min, a), call_handler(np.max, a)
    else:
        low, high = (cast_to(asarray(end), F64) for end in limits)
    same = call_handler(np.equal, low, high)
    low, high = select(same, subtract(low, 0.5), low), select(same, add(high, 0.5), high)
    return call_handler(np.linspace, low, high, count + 1)  # type: ignore[no-any-return]


def _bins(values: Tracer, edges: Tracer) -> Tracer:
    """Return the bin of each value, or the number of bins where it has none; the last bin has both of its edges."""
    last = subtract(dim_value(edges.type.shape[0]), 1)
    found = subtract(searchsorted(edges, values, "right"), 1)
    found = select(call_handler(np.equal, values, edges[-1]), subtract(last, 1), found)
    inside = logical_and(call_handler(np.greater_equal, found, 0), less(found, last))
    return select(inside, found, last)


def _flat(values: Any) -> Tracer:
    tracer = asarray(values)
    return reshape(tracer, (tracer.type.size,))


@covers(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tracer:
    return _edges(_flat(a), bins, range)


@covers(np.histogram, masked=True)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Count, or add the weights, per bin: the counts are constant in the values, as steps are."""
    inside = None
    if isinstance(a, Selection) or isinstance(weights, Selection):
        edges = _edges(a, bins, range)
        given, inside = together(*(part for part in (a, weights) if part is not None))
        values, amounts = given[0], given[1] if weights is not None else None
    else:
        values = _flat(a)
        edges = _edges(values, bins, range)
        amounts = None if weights is None else _flat(weights)
    count = operator.index(edges.shape[0]) - 1
    places = _bins(values, edges)
    if inside is not None:
        places = select(inside, places, count)
    sums = bincount(places, amounts, minlength=count + 1)[:count]
    if density:
        sums = divide(divide(sums, call_handler(np.diff, edges)), call_handler(np.sum, sums))
    return sums, edges


@covers(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tracer, Tracer, Tracer]:
    pair = bins if isinstance(bins, list | tuple) and len(bins) == 2 else (bins, bins)
    limits = (None, None) if range is None else range
    points = [_flat(x), _flat(y)]
    edges = [_edges(values, each, ends) for values, each, ends in zip(points, pair, limits, strict=True)]
    rows, columns = (operator.index(part.shape[0]) - 1 for part in edges)
    places = add(multiply(_bins(points[0], edges[0]), columns + 1), _bins(points[1], edges[1]))
    amounts = full((points[0].type.size,), 1, F64) if weights is None else _flat(weights)
    sums = reshape(bincount(places, amounts, minlength=(rows + 1) * (columns + 1)), (rows + 1, columns + 1))
    sums = sums[:rows, :columns]
    if density:
        area = call_handler(np.outer, call_handler(np.diff, edges[0]), call_handler(np.diff, edges[1]))
        sums = divide(divide(sums, area), call_handler(np.sum, sums))
    return sums, edges[0], edges[1]


@covers(np.histogramdd)
def refuse_histogram(*args: Any, **kwargs: Any) -> Any:
    raise unsupported("np.histogramdd of traced values", "use np.bincount of np.ravel_multi_index, with minlength")


@covers(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Tracer:
    values, table = asarray(element), asarray(test_elements)
    flat = reshape(table, (table.type.size,))
    column = reshape(values, (*values.type.shape, 1))
    found = any_(call_handler(np.equal, column, flat), -1)
    return logical_not(found) if invert else found
