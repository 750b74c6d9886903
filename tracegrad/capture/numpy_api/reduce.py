"""Reductions and scans: sum, mean, var, max, argmax, any, norm, cumsum, diff, trapezoid and the NaN-skipping ones.

Previous: shape.py; next: sorting.py.
"""

from __future__ import annotations

import builtins
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.contents import iota
from tracegrad.capture.lengths import unknown_length
from tracegrad.capture.masked import Selection
from tracegrad.capture.numpy_api.common import (
    as_axes,
    as_axis,
    as_bool,
    as_known,
    covers,
    dim_value,
    full,
    insert_dims,
    is_known,
    known_scalar,
    reshape,
    select,
    spread,
)
from tracegrad.capture.numpy_api.elementwise import (
    absolute,
    add,
    conjugate,
    divide,
    equal,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    not_equal,
    safe_sqrt,
    square,
    subtract,
)
from tracegrad.capture.numpy_api.shape import join, slice_axis
from tracegrad.capture.tracer import (
    HANDLERS,
    Tracer,
    apply,
    asarray,
    call_handler,
    cast_to,
    from_value,
    unsupported,
)
from tracegrad.ir.types import BOOL, DTYPES, F32, F64, I64, is_complex, is_inexact, is_integer

_NO_VALUE = np._NoValue


def _strong(value: Any) -> Tracer:
    """Return an operand as an array: a Python scalar loses its weakness."""
    tracer = asarray(value)
    return cast_to(tracer, tracer.dtype)


def _kept(result: Tracer, tracer: Tracer, axes: tuple[int, ...], keepdims: Any) -> Tracer:
    if keepdims is _NO_VALUE or not keepdims:
        return result
    return reshape(result, tuple(1 if k in axes else d for k, d in enumerate(tracer.type.shape)))


def _where(where: Any) -> bool:
    return where is not True and where is not _NO_VALUE


def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which NumPy adds: bool and small ints in a long."""
    if dtype == BOOL:
        return I64
    if is_integer(dtype) and dtype.itemsize < 8:
        return np.dtype(np.uint64) if dtype.kind == "u" else I64
    return dtype


def reduce_with(op: Any, tracer: Tracer, axes: tuple[int, ...], keepdims: Any = False) -> Tracer:
    """Apply a reduction op."""
    result = apply(op, tracer, axes=tuple(sorted(axes))) if axes else tracer.copy()
    return _kept(result, tracer, axes, keepdims)


@covers(np.sum)
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NO_VALUE,
    where: Any = _NO_VALUE,
) -> Tracer:
    tracer = _strong(a)
    tracer = cast_to(tracer, np.dtype(dtype) if dtype is not None else _sum_dtype(tracer.dtype))
    if tracer.dtype == BOOL:
        return _any(tracer, axis, keepdims)
    if _where(where):
        tracer = select(where, tracer, full((), 0, tracer.dtype))
    result = reduce_with(ops.reduce_sum, tracer, as_axes(axis, tracer.ndim), keepdims)
    return result if initial is _NO_VALUE else cast_to(add(result, initial), tracer.dtype)


@covers(np.prod)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NO_VALUE,
    where: Any = _NO_VALUE,
) -> Tracer:
    tracer = _strong(a)
    tracer = cast_to(tracer, np.dtype(dtype) if dtype is not None else _sum_dtype(tracer.dtype))
    if _where(where):
        tracer = select(where, tracer, full((), 1, tracer.dtype))
    result = reduce_with(ops.reduce_prod, tracer, as_axes(axis, tracer.ndim), keepdims)
    return result if initial is _NO_VALUE else cast_to(multiply(result, initial), tracer.dtype)


def _extreme(op: Any, name: str, choose: Callable[..., Tracer]) -> Callable[..., Tracer]:
    def extreme(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = _NO_VALUE,
        where: Any = _NO_VALUE,
    ) -> Tracer:
        tracer = _strong(a)
        if _where(where):
            if initial is _NO_VALUE:
                raise ValueError(
                    f"reduction operation '{name}' has no identity, so to use a where mask one has to specify 'initial'"
                )
            tracer = select(where, tracer, cast_to(asarray(initial), tracer.dtype))
        axes = as_axes(axis, tracer.ndim)
        empty = any(tracer.type.shape[k] == 0 for k in axes)
        if empty and initial is _NO_VALUE:
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        if empty:
            rest = tuple(d for k, d in enumerate(tracer.type.shape) if k not in axes)
            result = _kept(spread(cast_to(asarray(initial), tracer.dtype), rest), tracer, axes, keepdims)
        elif tracer.dtype == BOOL:
            result = reduce_with(ops.reduce_any if op is ops.reduce_max else ops.reduce_all, tracer, axes, keepdims)
        else:
            result = reduce_with(op, tracer, axes, keepdims)
        return result if initial is _NO_VALUE else choose(result, initial)

    return extreme


max = covers(np.max, np.amax)(_extreme(ops.reduce_max, "maximum", maximum))
min = covers(np.min, np.amin)(_extreme(ops.reduce_min, "minimum", minimum))


@covers(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Tracer:
    return subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def _position(op: Any, name: str) -> Callable[..., Tracer]:
    def position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tracer:
        tracer = _strong(a)
        flat = reshape(tracer, (tracer.type.size,)) if axis is None else tracer
        place = 0 if axis is None else as_axis(axis, tracer.ndim)
        if flat.type.shape[place] == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        result: Tracer = apply(op, flat, axis=place)
        return _kept(result, tracer, tuple(range(tracer.ndim)) if axis is None else (place,), keepdims)

    return position


argmax = covers(np.argmax)(_position(ops.argmax, "argmax"))
argmin = covers(np.argmin)(_position(ops.argmin, "argmin"))


def _any(tracer: Tracer, axis: Any, keepdims: Any) -> Tracer:
    return reduce_with(ops.reduce_any, as_bool(tracer), as_axes(axis, tracer.ndim), keepdims)


@covers(np.any)
def any_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = _NO_VALUE) -> Tracer:
    tracer = as_bool(_strong(a))
    return _any(logical_and(tracer, where) if _where(where) else tracer, axis, keepdims)


@covers(np.all)
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = _NO_VALUE) -> Tracer:
    tracer = as_bool(_strong(a))
    if _where(where):
        tracer = logical_or(tracer, logical_not(where))
    return reduce_with(ops.reduce_all, tracer, as_axes(axis, tracer.ndim), keepdims)


@covers(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tracer:
    return sum(as_bool(_strong(a)), axis, keepdims=keepdims)


@covers(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    first, second = asarray(a1), asarray(a2)
    if first.type.shape != second.type.shape:
        return False
    same = equal(first, second)
    if equal_nan:
        same = logical_or(same, logical_and(isnan(first), isnan(second)))
    return from_value(all_(same).value, weak=True)


@covers(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    return from_value(all_(equal(a1, a2)).value, weak=True)


# ---- means and variances


def _count(tracer: Tracer, axes: tuple[int, ...], where: Any, keepdims: Any, dtype: np.dtype[Any]) -> Any:
    """Return how many elements a mean is over: a Python number, or an array of the reduced shape."""
    if not _where(where):
        size = math.prod(tracer.type.shape[k] for k in axes)
        return float(size) if isinstance(size, int) else cast_to(dim_value(size), dtype)
    mask = spread(as_bool(where), tracer.type.shape)
    return cast_to(reduce_with(ops.reduce_sum, cast_to(mask, I64), axes, keepdims), dtype)


def _mean_dtypes(tracer: Tracer, dtype: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtypes to compute a mean in and to return it in."""
    if dtype is not None:
        return np.dtype(dtype), np.dtype(dtype)
    if not is_inexact(tracer.dtype):
        return F64, F64
    return (F32 if tracer.dtype in (DTYPES["f16"], DTYPES["bf16"]) else tracer.dtype), tracer.dtype


@covers(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = _NO_VALUE
) -> Tracer:
    tracer = _strong(a)
    working, returned = _mean_dtypes(tracer, dtype)
    tracer = cast_to(tracer, working)
    axes = as_axes(axis, tracer.ndim)
    total = sum(tracer, axes, keepdims=keepdims, where=where)
    return cast_to(divide(total, _count(tracer, axes, where, keepdims, total.dtype)), returned)


@covers(np.var)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = _NO_VALUE,
    mean: Any = _NO_VALUE,
    correction: Any = _NO_VALUE,
) -> Tracer:
    tracer = _strong(a)
    working, returned = _mean_dtypes(tracer, dtype)
    tracer = cast_to(tracer, working)
    axes = as_axes(axis, tracer.ndim)
    less = ddof if correction is _NO_VALUE else correction
    if mean is _NO_VALUE:
        total = sum(tracer, axes, keepdims=True, where=where)
        center = divide(total, _count(tracer, axes, where, True, total.dtype))
    else:
        center = asarray(mean)
    away = subtract(tracer, center)
    squares = call_handler(np.real, multiply(away, conjugate(away))) if is_complex(away.dtype) else square(away)
    total = sum(squares, axes, keepdims=keepdims, where=where)
    count = _count(tracer, axes, where, keepdims, total.dtype)
    if isinstance(count, float):
        degrees: Any = (
            builtins.max(count - less, 0.0) if known_scalar(less) is not None else maximum(subtract(count, less), 0.0)
        )
    else:
        degrees = maximum(subtract(count, less), 0.0)
    result = divide(total, degrees)
    if is_complex(returned):
        returned = result.dtype
    return cast_to(result, returned)


@covers(np.std)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = _NO_VALUE,
    mean: Any = _NO_VALUE,
    correction: Any = _NO_VALUE,
) -> Tracer:
    """Standard deviation; its derivative at 0 is 0."""
    return safe_sqrt(var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))


@covers(np.average, masked=True)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    if isinstance(a, Selection) or isinstance(weights, Selection):
        return _average_of_selected(a, axis, weights, returned, keepdims=keepdims)
    tracer = _strong(a)
    if weights is None:
        result = mean(tracer, axis, keepdims=keepdims)
        count = _count(tracer, as_axes(axis, tracer.ndim), True, False, result.dtype)
        return (result, spread(cast_to(asarray(count), result.dtype), result.type.shape)) if returned else result
    weight = asarray(weights)
    dtype = np.result_type(tracer.dtype, weight.dtype)
    dtype = dtype if is_inexact(dtype) else F64
    tracer, weight = cast_to(tracer, dtype), cast_to(weight, dtype)
    if weight.type.shape != tracer.type.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = as_axes(axis, tracer.ndim)
        if weight.type.shape != tuple(tracer.type.shape[k] for k in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        order = sorted(range(len(axes)), key=lambda k: axes[k])
        weight = call_handler(np.transpose, weight, order)
        weight = reshape(weight, tuple(d if k in axes else 1 for k, d in enumerate(tracer.type.shape)))
        weight = spread(weight, tracer.type.shape)
    scale = sum(weight, axis, keepdims=keepdims)
    result = divide(sum(multiply(tracer, weight), axis, keepdims=keepdims), scale)
    return (result, scale) if returned else result


def _average_of_selected(a: Any, axis: Any, weights: Any, returned: bool, **kwargs: Any) -> Any:
    """Average numbers of which it is known only at run time how many they are."""
    if not kwargs["keepdims"]:
        del kwargs["keepdims"]
    if weights is None:
        if returned:
            raise unknown_length()
        return call_handler(np.mean, a, axis, **kwargs)
    values, weights = (part if isinstance(part, Selection) else asarray(part) for part in (a, weights))
    if weights.ndim == 1 < values.ndim:
        place = as_axis(axis, values.ndim)
        column = tuple(-1 if k == place else 1 for k in range(values.ndim))
        weights = call_handler(np.reshape, weights, column)
        scale = call_handler(np.sum, weights)
    else:
        scale = call_handler(np.sum, weights, axis, **kwargs)
    total = call_handler(np.sum, call_handler(np.multiply, values, weights), axis, **kwargs)
    result = call_handler(np.divide, total, scale)
    return (result, scale) if returned else result


@covers(np.cov, masked=True)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Tracer:
    if isinstance(m, Selection) or isinstance(y, Selection):
        if fweights is not None or aweights is not None or dtype is not None:
            raise unknown_length()
        return _cov_of_selected(m, y, rowvar, ddof if ddof is not None else 0 if bias else 1)
    tracer = call_handler(np.atleast_2d, _inexact(m))
    if not rowvar and asarray(m).ndim != 1:
        tracer = call_handler(np.transpose, tracer)
    if y is not None:
        other = call_handler(np.atleast_2d, _inexact(y))
        tracer = join([tracer, call_handler(np.transpose, other) if not rowvar and asarray(y).ndim != 1 else other], 0)
    less = ddof if ddof is not None else 0 if bias else 1
    if fweights is None and aweights is None:
        away = weighted = subtract(tracer, mean(tracer, 1, keepdims=True))
        scale = subtract(_count(tracer, (1,), True, False, tracer.dtype), float(less))
    else:
        weights = cast_to(asarray(1.0 if fweights is None else fweights), F64)
        if aweights is not None:
            weights = multiply(weights, aweights)
        total = sum(weights)
        away = subtract(tracer, divide(sum(multiply(tracer, weights), 1, keepdims=True), total))
        weighted = multiply(away, weights)
        less = (
            float(less) if aweights is None else multiply(divide(sum(multiply(weights, aweights)), total), float(less))
        )
        scale = subtract(total, less)
    product = call_handler(np.matmul, away, call_handler(np.transpose, conjugate(weighted)))
    return call_handler(np.squeeze, divide(product, scale))  # type: ignore[no-any-return]


def _cov_of_selected(m: Any, y: Any, rowvar: bool, ddof: Any) -> Tracer:
    """Return covariances of numbers, real ones, of which it is known only at run time how many they are."""
    series = [part if isinstance(part, Selection) else _inexact(part) for part in (m, y) if part is not None]
    if any(part.dtype.kind == "c" for part in series) or (len(series) > 1 and series[0].ndim + series[1].ndim > 2):
        raise unknown_length()
    first = series[0]
    if first.ndim == 1:
        away = [call_handler(np.subtract, part, call_handler(np.mean, part)) for part in series]
        rows = [[call_handler(np.sum, call_handler(np.multiply, one, other)) for other in away] for one in away]
        product, count = asarray(rows if y is not None else rows[0][0]), call_handler(np.size, first)
    else:
        matrix = call_handler(np.transpose, first) if rowvar else first
        centered = call_handler(np.subtract, matrix, call_handler(np.mean, matrix, 0))
        product = call_handler(np.matmul, call_handler(np.transpose, centered), centered)
        count = call_handler(np.shape, matrix)[0]
    return divide(product, call_handler(np.maximum, count - ddof, 0))


@covers(np.corrcoef, masked=True)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tracer:
    c = cov(x, y, rowvar)
    if not c.ndim:
        return divide(c, c)
    deviation = safe_sqrt(call_handler(np.diagonal, c).copy())
    size = deviation.type.shape[0]
    return divide(divide(c, reshape(deviation, (size, 1))), reshape(deviation, (1, size)))


def _inexact(value: Any) -> Tracer:
    tracer = _strong(value)
    return tracer if is_inexact(tracer.dtype) else cast_to(tracer, F64)


# ---- without NaN


def _missing(value: Any, fill: Any) -> tuple[Tracer, Tracer]:
    """Return an array with NaN replaced, and where it has numbers."""
    tracer = _strong(value)
    if not is_inexact(tracer.dtype):
        return tracer, full(tracer.type.shape, True, BOOL)
    nan = isnan(tracer)
    return select(nan, full((), fill, tracer.dtype), tracer), logical_not(nan)


@covers(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NO_VALUE,
    where: Any = _NO_VALUE,
) -> Tracer:
    return sum(_missing(a, 0)[0], axis, dtype, None, keepdims, initial, where)


@covers(np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NO_VALUE,
    where: Any = _NO_VALUE,
) -> Tracer:
    return prod(_missing(a, 1)[0], axis, dtype, None, keepdims, initial, where)


@covers(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = _NO_VALUE
) -> Tracer:
    numbers, present = _missing(a, 0)
    return mean(numbers, axis, dtype, None, keepdims, where=logical_and(present, where) if _where(where) else present)


@covers(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = _NO_VALUE,
) -> Tracer:
    numbers, present = _missing(a, 0)
    keep = logical_and(present, where) if _where(where) else present
    return var(numbers, axis, dtype, None, ddof, keepdims, where=keep)


@covers(np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = _NO_VALUE,
) -> Tracer:
    return safe_sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where=where))


def _nan_extreme(extreme: Callable[..., Tracer], fill: float) -> Callable[..., Tracer]:
    def without_nan(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = _NO_VALUE,
        where: Any = _NO_VALUE,
    ) -> Tracer:
        numbers, present = _missing(a, fill)
        if not is_inexact(numbers.dtype):
            return extreme(numbers, axis, None, keepdims, initial, where)
        result = extreme(numbers, axis, None, keepdims, initial, where)
        nothing = logical_not(any_(present, axis, keepdims=keepdims))
        return select(nothing, full((), np.nan, numbers.dtype), result) if initial is _NO_VALUE else result

    return without_nan


nanmax = covers(np.nanmax)(_nan_extreme(max, -np.inf))
nanmin = covers(np.nanmin)(_nan_extreme(min, np.inf))


@covers(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tracer:
    return argmax(_missing(a, -np.inf)[0], axis, keepdims=keepdims)


@covers(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Tracer:
    return argmin(_missing(a, np.inf)[0], axis, keepdims=keepdims)


@covers(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tracer:
    return cumsum(_missing(a, 0)[0], axis, dtype)


@covers(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tracer:
    return cumprod(_missing(a, 1)[0], axis, dtype)


# ---- norms


def _power_sum(tracer: Tracer, order: Any, axes: tuple[int, ...], keepdims: Any) -> Tracer:
    """Return sum(|x|**p)**(1/p); derivative 0 where it is 0."""
    powers = call_handler(np.power, absolute(tracer), order)
    total = reduce_with(ops.reduce_sum, powers, axes, keepdims)
    zero = equal(total, full((), 0, total.dtype))
    root = call_handler(np.power, select(zero, full((), 1, total.dtype), total), call_handler(np.divide, 1.0, order))
    return select(zero, full((), 0, total.dtype), root)


def _vector_norm(tracer: Tracer, ord: Any, axes: tuple[int, ...], keepdims: Any) -> Tracer:
    order = known_scalar(ord)
    if ord is None or order == 2:
        squares = (
            call_handler(np.real, multiply(tracer, conjugate(tracer))) if is_complex(tracer.dtype) else square(tracer)
        )
        return safe_sqrt(reduce_with(ops.reduce_sum, squares, axes, keepdims))
    if order == np.inf:
        return max(absolute(tracer), axes, keepdims=keepdims)
    if order == -np.inf:
        return min(absolute(tracer), axes, keepdims=keepdims)
    if order == 0:
        return cast_to(sum(not_equal(tracer, 0), axes, keepdims=keepdims), absolute(tracer).dtype)
    if order == 1:
        return sum(absolute(tracer), axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    return _power_sum(tracer, ord, axes, keepdims)


def _singular_norm(tracer: Tracer, ord: Any, axes: tuple[int, int], keepdims: Any) -> Tracer:
    """Return the sum (ord "nuc"), the greatest (2) or the smallest (-2) of the singular values over two axes."""
    values = call_handler(np.linalg.svdvals, call_handler(np.moveaxis, tracer, axes, (-2, -1)))
    function = {"nuc": sum, 2: max, -2: min}[ord]
    result = function(values, -1)
    return reshape(result, insert_dims(result.type.shape, axes)) if keepdims else result


def _matrix_norm(tracer: Tracer, ord: Any, axes: tuple[int, ...], keepdims: Any) -> Tracer:
    row, column = axes
    if ord in ("fro", "f"):
        return _vector_norm(tracer, None, axes, keepdims)
    if ord in (2, -2, "nuc"):
        return _singular_norm(tracer, ord, (row, column), keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    first, second = (row, column) if abs(ord) == 1 else (column, row)
    totals = reduce_with(ops.reduce_sum, absolute(tracer), (first,), True)
    extreme = max if ord > 0 else min
    result = extreme(totals, (second,), keepdims=True)
    shape = tracer.type.shape
    return result if keepdims else reshape(result, tuple(d for k, d in enumerate(shape) if k not in axes))


@covers(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Tracer:
    """Norms of vectors and matrices; the derivative at 0 is 0."""
    tracer = _inexact(x)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and tracer.ndim == 2) or (known_scalar(ord) == 2 and tracer.ndim == 1):
            return _vector_norm(tracer, None, tuple(range(tracer.ndim)), keepdims)
        axes = tuple(range(tracer.ndim))
    else:
        axes = as_axes(axis, tracer.ndim)
    if len(axes) == 1:
        return _vector_norm(tracer, ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    return _matrix_norm(tracer, "fro" if ord is None else ord, axes, keepdims)


@covers(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Tracer:
    tracer = _inexact(x)
    return _vector_norm(tracer, ord, as_axes(axis, tracer.ndim), keepdims)


@covers(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: Any = False, ord: Any = "fro") -> Tracer:
    tracer = _inexact(x)
    return _matrix_norm(tracer, ord, (tracer.ndim - 2, tracer.ndim - 1), keepdims)


# ---- scans


def _scan(op: Any) -> Callable[..., Tracer]:
    def scan(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tracer:
        tracer = _strong(a)
        tracer = cast_to(tracer, np.dtype(dtype) if dtype is not None else _sum_dtype(tracer.dtype))
        if axis is None:
            tracer, place = reshape(tracer, (tracer.type.size,)), 0
        else:
            place = as_axis(axis, tracer.ndim)
        return apply(op, tracer, axis=place, reverse=False)  # type: ignore[no-any-return]

    return scan


cumsum = covers(np.cumsum)(_scan(ops.cumsum))
cumprod = covers(np.cumprod)(_scan(ops.cumprod))


def _cumulative(scan: Callable[..., Tracer], start: int) -> Callable[..., Tracer]:
    def cumulative(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Tracer:
        tracer = _strong(x)
        place = 0 if axis is None and tracer.ndim == 1 else as_axis(axis, tracer.ndim)
        result = scan(tracer, place, dtype)
        if not include_initial:
            return result
        shape = list(result.type.shape)
        shape[place] = 1
        return join([spread(full((), start, result.dtype), tuple(shape)), result], place)

    return cumulative


covers(np.cumulative_sum)(_cumulative(cumsum, 0))
covers(np.cumulative_prod)(_cumulative(cumprod, 1))


@covers(np.diff)
def diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = _NO_VALUE, append: Any = _NO_VALUE) -> Tracer:
    tracer = _strong(a)
    times = operator.index(n)
    if times < 0:
        raise ValueError("order must be non-negative but got " + repr(n))
    if not tracer.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    place = as_axis(axis, tracer.ndim)

    def border(value: Any) -> Tracer:
        edge = asarray(value)
        shape = list(tracer.type.shape)
        shape[place] = 1
        return spread(edge, tuple(shape)) if not edge.ndim else edge

    parts = [
        *([border(prepend)] if prepend is not _NO_VALUE else []),
        tracer,
        *([border(append)] if append is not _NO_VALUE else []),
    ]
    result = join(parts, place) if len(parts) > 1 else tracer
    for _ in range(times):
        later, earlier = slice_axis(result, place, slice(1, None)), slice_axis(result, place, slice(None, -1))
        result = not_equal(later, earlier) if result.dtype == BOOL else subtract(later, earlier)
    return result if times else result.copy()


@covers(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tracer:
    tracer = _strong(ary)
    parts = [diff(reshape(tracer, (tracer.type.size,)))]
    if to_begin is not None:
        parts.insert(0, cast_to(call_handler(np.ravel, asarray(to_begin)), tracer.dtype))
    if to_end is not None:
        parts.append(cast_to(call_handler(np.ravel, asarray(to_end)), tracer.dtype))
    return join(parts, 0)


@covers(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided ones at the ends."""
    tracer = _inexact(f)
    axes = as_axes(axis, tracer.ndim)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    spacings = list(varargs) or [1.0]
    spacings = spacings * len(axes) if len(spacings) == 1 else spacings
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    results = [_gradient_axis(tracer, place, asarray(h), edge_order) for place, h in zip(axes, spacings, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _gradient_axis(tracer: Tracer, axis: int, spacing: Tracer, edge_order: int) -> Tracer:
    def part(start: Any, stop: Any) -> Tracer:
        return slice_axis(tracer, axis, slice(start, stop))

    def step(start: Any, stop: Any) -> Tracer:
        shape: list[Any] = [1] * tracer.ndim
        piece = slice_axis(steps, 0, slice(start, stop))
        shape[axis] = piece.type.shape[0]
        return reshape(piece, tuple(shape))

    if not spacing.ndim:
        h = spacing
        inside = divide(subtract(part(2, None), part(None, -2)), multiply(2.0, h))
        if edge_order == 1:
            first = divide(subtract(part(1, 2), part(0, 1)), h)
            last = divide(subtract(part(-1, None), part(-2, -1)), h)
        else:
            first = divide(
                add(multiply(-1.5, part(0, 1)), subtract(multiply(2.0, part(1, 2)), multiply(0.5, part(2, 3)))), h
            )
            last = divide(
                add(subtract(multiply(0.5, part(-3, -2)), multiply(2.0, part(-2, -1))), multiply(1.5, part(-1, None))),
                h,
            )
        return join([first, inside, last], axis)
    steps = diff(spacing)
    before, after = step(None, -1), step(1, None)
    both = add(before, after)
    inside = add(
        add(
            multiply(divide(negated(after), multiply(before, both)), part(None, -2)),
            multiply(divide(subtract(after, before), multiply(before, after)), part(1, -1)),
        ),
        multiply(divide(before, multiply(after, both)), part(2, None)),
    )
    if edge_order == 2:
        first = _outer_slope([part(0, 1), part(1, 2), part(2, 3)], step(0, 1), step(1, 2))
        last = _outer_slope([part(-1, None), part(-2, -1), part(-3, -2)], step(-1, None), step(-2, -1))
        return join([first, inside, negated(last)], axis)
    first = divide(subtract(part(1, 2), part(0, 1)), step(0, 1))
    last = divide(subtract(part(-1, None), part(-2, -1)), step(-1, None))
    return join([first, inside, last], axis)


def _outer_slope(values: list[Tracer], near: Tracer, far: Tracer) -> Tracer:
    """Return the slope, away from the end, of the parabola through the first three values of uneven spacing."""
    both = add(near, far)
    first = multiply(negated(divide(add(both, near), multiply(near, both))), values[0])
    second = multiply(divide(both, multiply(near, far)), values[1])
    return subtract(add(first, second), multiply(divide(near, multiply(far, both)), values[2]))


def negated(tracer: Tracer) -> Tracer:
    return call_handler(np.negative, tracer)  # type: ignore[no-any-return]


@covers(np.trapezoid, *filter(None, [getattr(np, "trapz", None)]))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Tracer:
    values = _inexact(y)
    place = as_axis(axis, values.ndim)
    if x is None:
        widths: Any = dx
    else:
        points = asarray(x)
        widths = diff(points) if points.ndim == 1 else diff(points, axis=place)
        if points.ndim == 1:
            widths = reshape(widths, tuple(widths.type.shape[0] if k == place else 1 for k in range(values.ndim)))
    pairs = add(slice_axis(values, place, slice(1, None)), slice_axis(values, place, slice(None, -1)))
    return sum(divide(multiply(widths, pairs), 2.0), place)


# ---- angles


@covers(np.unwrap, masked=True)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Any:
    """Return angles without jumps of more than half a period: whole periods are added, which have no derivative."""
    array = p if isinstance(p, Selection) else asarray(p)
    steps = call_handler(np.diff, array, axis=axis) if isinstance(array, Tracer) else call_handler(np.diff, array)
    whole = is_integer(steps.dtype) and isinstance(period, int)
    high = period // 2 if whole else period / 2
    turned = call_handler(np.remainder, steps + high, period) - high
    if not whole or period % 2 == 0:
        turned = call_handler(np.where, call_handler(np.logical_and, turned == -high, steps > 0), high, turned)
    small = call_handler(np.absolute, steps) < (period / 2 if discont is None else discont)
    added = call_handler(np.where, small, 0, call_handler(np.round, (turned - steps) / period) * period)
    added = call_handler(np.cumsum, added.astype(np.int64) if whole else added, axis=axis)
    place = np.lib.array_utils.normalize_axis_index(axis, array.ndim)
    first = array[(*[slice(None)] * place, slice(0, 1))]
    return array + call_handler(np.concatenate, (call_handler(np.zeros_like, first), added), axis=place)


# ---- ufunc.reduce and ufunc.accumulate

_REDUCERS: dict[Any, Callable[..., Tracer]] = {
    np.add: sum,
    np.multiply: prod,
    np.maximum: max,
    np.minimum: min,
    np.logical_and: all_,
    np.logical_or: any_,
}


def _register_methods(ufunc: np.ufunc, reducer: Callable[..., Tracer]) -> None:
    with_dtype = ufunc in (np.add, np.multiply)

    def reduce(
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = _NO_VALUE,
        where: Any = True,
    ) -> Tracer:
        keywords: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "where": where}
        if with_dtype:
            keywords["dtype"] = dtype
        elif dtype is not None:
            array = cast_to(asarray(array), np.dtype(dtype))
        if initial is not _NO_VALUE:
            keywords["initial"] = initial
        return reducer(array, **keywords)

    covers((ufunc, "reduce"))(reduce)


for _ufunc, _reducer in _REDUCERS.items():
    _register_methods(_ufunc, _reducer)


@covers((np.logaddexp, "reduce"))
def logaddexp_reduce(
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    if initial is not None or where is not True or dtype is not None:
        raise unsupported("np.logaddexp.reduce with initial, where or dtype", "leave them out")
    tracer = _inexact(array)
    return log_sum_exp(tracer, as_axes(axis, tracer.ndim), keepdims)


def log_sum_exp(
    tracer: Tracer, axes: tuple[int, ...], keepdims: Any, weights: Tracer | None = None, middle: Tracer | None = None
) -> Tracer:
    """Return log(sum(weights * exp(x))) without overflow; its derivative does not depend on the peak.

    Where all of x is -inf, so that no exponential tells its share, the mean (`middle`) stands for it: equal shares.
    """
    peak = apply(ops.stop_gradient, max(tracer, axes))
    nothing = call_handler(np.equal, peak, full((), -np.inf, peak.dtype))
    peak = select(call_handler(np.isfinite, peak), peak, full((), 0, peak.dtype))
    shape = tuple(1 if k in axes else d for k, d in enumerate(tracer.type.shape))
    terms = call_handler(np.exp, subtract(tracer, reshape(peak, shape) if peak.type.shape else peak))
    total = sum(terms if weights is None else multiply(weights, terms), axes)
    total = add(total, cast_to(nothing, total.dtype))
    result = add(call_handler(np.log, total), peak)
    middle = mean(tracer, axes) if middle is None else middle
    result = add(result, select(nothing, middle, full((), 0, result.dtype)))
    return reshape(result, shape) if keepdims else result


def _accumulate(ufunc: np.ufunc, op: Any) -> None:
    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Tracer:
        tracer = _strong(array)
        if ufunc in (np.add, np.multiply):
            tracer = cast_to(tracer, np.dtype(dtype) if dtype is not None else _sum_dtype(tracer.dtype))
        attrs = {"axis": as_axis(axis, tracer.ndim)}
        if ufunc in (np.add, np.multiply):
            attrs["reverse"] = False
        return apply(op, tracer, **attrs)  # type: ignore[no-any-return]

    covers((ufunc, "accumulate"))(accumulate)


@covers((np.logaddexp, "accumulate"))
def logaddexp_accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Tracer:
    """Return log(cumsum(exp(x))): sums relative to the greatest element so far, which are carried to the next one."""
    tracer = _inexact(array)
    place = as_axis(axis, tracer.ndim)
    peak = apply(ops.cummax, apply(ops.stop_gradient, tracer), axis=place)
    nothing = call_handler(np.equal, peak, full((), -np.inf, peak.dtype))
    peak = select(call_handler(np.isfinite, peak), peak, full((), 0, peak.dtype))
    before = join([slice_axis(peak, place, slice(0, 1)), slice_axis(peak, place, slice(0, -1))], place)
    carried = call_handler(np.exp, subtract(before, peak))
    terms = call_handler(np.exp, subtract(tracer, peak))
    total = apply(ops.linear_recurrence, carried, terms, axis=place, reverse=False)
    total = add(total, cast_to(nothing, total.dtype))
    result = add(call_handler(np.log, total), peak)
    counts = add(iota(tracer.type.shape, place, result.dtype), 1.0)
    means = divide(apply(ops.cumsum, tracer, axis=place, reverse=False), counts)
    return add(result, select(nothing, means, full((), 0, result.dtype)))


for _ufunc, _op in (
    (np.add, ops.cumsum),
    (np.multiply, ops.cumprod),
    (np.maximum, ops.cummax),
    (np.minimum, ops.cummin),
):
    _accumulate(_ufunc, _op)


def _register_outer(ufunc: np.ufunc) -> None:
    def outer(a: Any, b: Any, **kwargs: Any) -> Any:
        first, second = asarray(a), asarray(b)
        column = reshape(first, (*first.type.shape, *[1] * second.ndim))
        return call_handler(ufunc, column, second, **kwargs)

    covers((ufunc, "outer"))(outer)


for _candidate in list(vars(np).values()):
    if isinstance(_candidate, np.ufunc) and (_candidate.nin, _candidate.nout, _candidate.signature) == (2, 1, None):
        _register_outer(_candidate)


# ---- the methods of other ufuncs, and reduceat, by steps along the axis

#: more steps than this are refused: each is an operation of its own
_STEP_LIMIT = 256


def _steps(ufunc: np.ufunc, array: Any, axis: Any, method: str) -> tuple[Tracer, int, int]:
    tracer = _strong(array)
    place = as_axis(axis, tracer.ndim)
    count = operator.index(tracer.shape[place])
    if count > _STEP_LIMIT:
        raise unsupported(
            f"np.{ufunc.__name__}.{method} of {count} traced elements (at most {_STEP_LIMIT})",
            "write a loop, which is staged once",
        )
    return tracer, place, count


def _register_steps(ufunc: np.ufunc) -> None:
    def results(array: Any, axis: Any, method: str) -> tuple[list[Any], int]:
        tracer, place, count = _steps(ufunc, array, axis, method)
        if not count:
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        parts = [slice_axis(tracer, place, slice(k, k + 1)) for k in range(count)]
        return list(itertools.accumulate(parts, lambda x, y: call_handler(ufunc, x, y))), place

    def reduce(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        if axis is None and asarray(array).ndim == 1:
            axis = 0
        if axis is None or isinstance(axis, tuple) or dtype is not None:
            raise unsupported(
                f"np.{ufunc.__name__}.reduce with dtype or over several axes", "reduce one axis at a time"
            )
        found, place = results(array, axis, "reduce")
        return found[-1] if keepdims else call_handler(np.squeeze, found[-1], place)

    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        if dtype is not None:
            raise unsupported(f"np.{ufunc.__name__}.accumulate with dtype", "cast the operand first")
        found, place = results(array, axis, "accumulate")
        return join(found, place)

    covers((ufunc, "reduce"))(reduce)
    covers((ufunc, "accumulate"))(accumulate)


def _register_reduceat(ufunc: np.ufunc) -> None:
    def reduceat(array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        if not is_known(indices):
            raise unsupported(f"np.{ufunc.__name__}.reduceat with traced indices", "give them as Python ints")
        if dtype is not None:
            array = cast_to(asarray(array), np.dtype(dtype))
        tracer = _strong(array)
        place = as_axis(axis, tracer.ndim)
        starts = [operator.index(k) for k in np.asarray(as_known(indices)).tolist()]
        size = operator.index(tracer.shape[place])
        if any(not 0 <= k < size for k in starts):
            raise IndexError(
                f"index {builtins.max(starts, key=abs)} out-of-bounds in {ufunc.__name__}.reduceat [0, {size})"
            )
        ends = [*starts[1:], size]
        parts = [
            slice_axis(tracer, place, slice(start, end if end > start else start + 1))
            for start, end in zip(starts, ends, strict=True)
        ]
        reduced = [HANDLERS[ufunc, "reduce"](part, axis=place, keepdims=True) for part in parts]
        return join([asarray(part) for part in reduced], place)

    covers((ufunc, "reduceat"))(reduceat)


# of other ufuncs, such as np.power, NumPy's own results depend on how its loops are written
for _ufunc in (np.subtract, np.divide, np.hypot, np.fmax, np.fmin):
    _register_steps(_ufunc)
    _register_reduceat(_ufunc)
for _ufunc in (*_REDUCERS, np.logaddexp):
    _register_reduceat(_ufunc)
