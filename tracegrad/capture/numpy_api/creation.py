"""Functions that make arrays: zeros, full, arange, linspace, eye, array, copies, and the `_like` family.

Previous: elementwise.py; next: shape.py.
"""

from __future__ import annotations

import builtins
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.axes import Axis, measured
from tracegrad.capture.constants import constant_value
from tracegrad.capture.contents import iota
from tracegrad.capture.context import current, user_span
from tracegrad.capture.lengths import count_between
from tracegrad.capture.linear import difference
from tracegrad.capture.memory import deciding_inputs, follows, layout_of, note_copy, note_unknown, ordered, set_layout
from tracegrad.capture.numpy_api.common import (
    as_axes,
    as_dim,
    as_shape,
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
    divide,
    equal,
    exp,
    greater_equal,
    less,
    log,
    multiply,
    resolve,
    subtract,
)
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sizes import decide
from tracegrad.capture.tracer import (
    Tracer,
    apply,
    asarray,
    broadcast_shapes,
    call_handler,
    cast_to,
    from_concrete,
    from_value,
    unsupported,
)
from tracegrad.errors import NeedsPythonValue, TracedValueError
from tracegrad.ir.types import F64, I64, is_complex, is_inexact

__all__ = ["constant_value", "is_creator"]


def is_creator(function: Any) -> bool:
    """Return whether a call on untraced arguments may give a new array that captured code then owns."""
    if isinstance(function, np.ufunc):
        return True
    if isinstance(function, types.MethodType | types.BuiltinMethodType) and isinstance(
        function.__self__, np.ndarray | np.generic | np.ufunc
    ):
        return True
    return (getattr(function, "__module__", None) or "").partition(".")[0] in ("numpy", "scipy")


def _dtype(dtype: Any, default: Any) -> np.dtype[Any]:
    chosen: np.dtype[Any] = np.dtype(default if dtype is None else dtype)
    return chosen


def _no_like(like: Any) -> None:
    if like is not None:
        raise unsupported("like=", "leave it out")


# ---- filled arrays


def _sized(make: Callable[[tuple[Any, ...]], Tracer], shape: Any) -> Any:
    """Return what `make` makes of a shape, some of whose sizes may be known only at run time."""
    dims, axes = measured(shape)
    made = make(as_shape(dims))
    return Ragged(made, axes) if axes else made


@covers(np.zeros)
def zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    _no_like(like)
    return _sized(lambda dims: ordered(full(dims, 0, _dtype(dtype, F64)), order), shape)


@covers(np.empty, native=False, always=True)
def empty(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """Zeros: what happens to be in memory does not belong into generated code."""
    _no_like(like)
    return call_handler(np.zeros, shape, float if dtype is None else dtype, order)


@covers(np.empty_like, native=False, always=True)
def empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """Zeros, as for `np.empty`."""
    return call_handler(np.zeros_like, prototype, dtype, order, subok, shape)


@covers(np.ones)
def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    _no_like(like)
    return _sized(lambda dims: ordered(full(dims, 1, _dtype(dtype, F64)), order), shape)


@covers(np.full)
def full_(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    _no_like(like)
    return _sized(lambda dims: ordered(_filled(dims, fill_value, dtype), order), shape)


def _filled(shape: tuple[Any, ...], fill_value: Any, dtype: Any) -> Tracer:
    value = asarray(fill_value)
    value = cast_to(value, _dtype(dtype, value.dtype))
    if known_scalar(value) is not None:
        return full(shape, known_scalar(value).item(), value.dtype)
    if broadcast_shapes(value.type.shape, shape) != shape:
        raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {shape}")
    return spread(value, shape).copy()


def _like_shape(prototype: Tracer, shape: Any) -> tuple[Any, ...]:
    return prototype.type.shape if shape is None else as_shape(shape)


@covers(np.zeros_like, native=False)
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tracer:
    a = asarray(a)
    return ordered(full(_like_shape(a, shape), 0, _dtype(dtype, a.dtype)), order, a)


@covers(np.ones_like, native=False)
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tracer:
    a = asarray(a)
    return ordered(full(_like_shape(a, shape), 1, _dtype(dtype, a.dtype)), order, a)


@covers(np.full_like, native=False)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tracer:
    a = asarray(a)
    return ordered(_filled(_like_shape(a, shape), fill_value, _dtype(dtype, a.dtype)), order, a)


@covers(np.eye)
def eye(
    N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
) -> Tracer:
    _no_like(like)
    shape = (as_dim(N), as_dim(N if M is None else M))
    return cast_to(equal(add(iota(shape, 0), k), iota(shape, 1)), np.dtype(dtype))


@covers(np.identity)
def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Tracer:
    _no_like(like)
    return eye(n, dtype=_dtype(dtype, F64))


@covers(np.tri)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Tracer:
    _no_like(like)
    shape = (as_dim(N), as_dim(N if M is None else M))
    return cast_to(greater_equal(add(iota(shape, 0), k), iota(shape, 1)), np.dtype(dtype))


@covers(np.indices)
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    shape = as_shape(dimensions)
    parts = [iota(shape, axis, dtype) for axis in range(len(shape))]
    if sparse:
        raise unsupported("np.indices with sparse=True", "use np.arange with None in the index")
    return apply(ops.concatenate, *[reshape(p, (1, *shape)) for p in parts], axis=0)


# ---- progressions


@covers(np.arange)
def arange(
    start: Any = None, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None, like: Any = None
) -> Any:
    _no_like(like)
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    first, last, stride = asarray(start), asarray(stop), asarray(step)
    result_dtype = _dtype(dtype, np.result_type(*[t.dtype for t in (first, last, stride)]))
    count: Any = None
    axes: dict[int, Axis] = {}
    known_step = known_scalar(stride)
    if known_step is not None and is_known((first, last)):
        count = len(np.arange(known_scalar(first), known_scalar(last), known_step))
    elif known_step is not None and not is_inexact(result_dtype):
        distance = difference(last.value, first.value)
        if distance is not None:
            number = int(known_step)
            sign = 1 if number > 0 else -1
            count = (sign * distance + (abs(number) - 1)) // abs(number)
            if decide(count, "<"):
                count = 0
    if count is None and known_step is not None and known_step == int(known_step):
        (count,), axes = measured((count_between(first, last, int(known_step)),))
    if count is None or isinstance(count, Tracer):
        raise NeedsPythonValue(
            "the number of elements of np.arange is known only at run time",
            code="TG107",
            span=user_span(),
            found="traced bounds whose difference is not a size",
            help="pass the bounds as Python ints, make them from shapes, or use np.linspace with a fixed number of "
            "elements",
        )
    positions = iota((count,), 0, result_dtype)
    if known_step != 1:
        positions = multiply(positions, cast_to(stride, result_dtype))
    if known_scalar(first) is None or known_scalar(first) != 0:
        positions = add(positions, cast_to(first, result_dtype))
    return Ragged(positions, axes) if axes else positions


def _line(start: Tracer, stop: Tracer, num: Any, endpoint: bool, axis: int, count: Any = None) -> tuple[Tracer, Tracer]:
    """Return num values from start to stop along a new axis, and the step; a traced `count` says where stop is."""
    dtype = resolve(np.divide, [cast_to(start, start.dtype), cast_to(stop, stop.dtype)])[-1]
    start, stop = cast_to(start, dtype), cast_to(stop, dtype)
    shape = broadcast_shapes(start.type.shape, stop.type.shape)
    start, stop = spread(start, shape), spread(stop, shape)
    intervals = num - 1 if endpoint else num
    width = subtract(stop, start)
    if count is not None:
        intervals = call_handler(np.maximum, count - 1, 1) if endpoint else count
        step = divide(width, cast_to(asarray(intervals), dtype))
    elif isinstance(intervals, int):
        step = divide(width, float(max(intervals, 1)))
    else:
        step = divide(width, cast_to(dim_value(intervals), F64))
    (place,) = as_axes(axis, len(shape) + 1)
    whole = (*shape[:place], num, *shape[place:])
    column = insert_dims(shape, (place,))
    weights = iota(whole, place, dtype)
    result = add(spread(reshape(start, column), whole), multiply(weights, spread(reshape(step, column), whole)))
    if endpoint and num != 1:  # the last is stop exactly
        last = dim_value(num - 1) if count is None else call_handler(np.where, count > 1, count - 1, -1)
        is_last = equal(iota(whole, place), last)
        result = select(is_last, reshape(stop, column), result)
    return result, step


def _count(num: Any) -> Any:
    num = as_dim(num)
    if isinstance(num, int) and num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    return num


@covers(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    most, axes = measured(num)
    result, step = _line(asarray(start), asarray(stop), _count(most), endpoint, axis, axes[0].length if axes else None)
    if dtype is not None:
        result = cast_to(result, np.dtype(dtype))
    if axes:
        (place,) = as_axes(axis, result.ndim)
        return (Ragged(result, {place: axes[0]}), step) if retstep else Ragged(result, {place: axes[0]})
    return (result, step) if retstep else result


# ---- windows


def _window(shape: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a window of M points, from what it is at numbers from -1 to 1 (0 for a single point)."""

    def window(M: Any) -> Any:
        return shape(call_handler(np.arange, 1 - M, M, 2) / call_handler(np.maximum, M - 1, 1))

    return window


def _cosines(*weights: float) -> Callable[[Any], Any]:
    return _window(
        lambda place: builtins.sum(call_handler(np.cos, place * (k * math.pi)) * w for k, w in enumerate(weights))
    )


covers(np.hamming)(_cosines(0.54, 0.46))
covers(np.hanning)(_cosines(0.5, 0.5))
covers(np.blackman)(_cosines(0.42, 0.5, 0.08))
covers(np.bartlett)(_window(lambda place: 1 - call_handler(np.absolute, place)))


@covers(np.kaiser)
def kaiser(M: Any, beta: Any) -> Any:
    beta = cast_to(asarray(beta), F64)
    window = _window(lambda place: call_handler(np.i0, beta * call_handler(np.sqrt, 1 - place * place)))
    return window(M) / call_handler(np.i0, beta)


@covers(np.logspace)
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Tracer:
    exponents, _ = _line(asarray(start), asarray(stop), _count(num), endpoint, axis)
    result = exp(multiply(exponents, log(asarray(base))))
    return cast_to(result, np.dtype(dtype)) if dtype is not None else result


@covers(np.geomspace)
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tracer:
    first, last = asarray(start), asarray(stop)
    if is_complex(first.dtype) or is_complex(last.dtype):
        raise unsupported("np.geomspace of complex numbers", "use np.exp of np.linspace")
    negative = less(first, 0)
    num = _count(num)
    exponents, _ = _line(log(absolute(first)), log(absolute(last)), num, endpoint, axis)
    result = exp(exponents)
    sign = select(negative, -1.0, 1.0)
    (place,) = as_axes(axis, result.ndim)
    if sign.ndim:
        sign = reshape(sign, insert_dims(sign.type.shape, (place,)))
    result = multiply(result, sign)
    return cast_to(result, np.dtype(dtype)) if dtype is not None else result


# ---- arrays from values


def _nested(value: Any) -> tuple[tuple[Any, ...], list[Tracer]]:
    """Return shape and leaves of nested lists; every leaf has the shape that the nesting leaves over."""
    if not isinstance(value, list | tuple) and not hasattr(type(value), "as_tracer"):
        return (), [asarray(value)]
    if not isinstance(value, list | tuple):
        return (), [value.as_tracer()]
    if not value:
        return (0,), []
    parts = [_nested(v) for v in value]
    for shape, _ in parts[1:]:
        if shape != parts[0][0]:
            raise _ragged()
    return (len(value), *parts[0][0]), [leaf for _, leaves in parts for leaf in leaves]


def _ragged() -> TracedValueError:
    return TracedValueError(
        "the rows of a new array differ in length",
        code="TG125",
        span=user_span(),
        found="setting an array element with a sequence: an inhomogeneous shape",
        help="make all rows equally long",
    )


@covers(np.array)
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
) -> Tracer:
    """Make a new array from an array, a number, or nested lists of them."""
    _no_like(like)
    result = _stacked(object, dtype)
    if ndmin > result.ndim:
        result = reshape(result, (1,) * (ndmin - result.ndim) + result.type.shape)
    if result is object and not copy:
        current().native.add(result._storage)
        return asarray_(result, order=order)
    made = result.copy() if result is object else result
    if not isinstance(object, Tracer) or object.ndim == made.ndim or order in ("C", "F"):
        return ordered(made, order, object if isinstance(object, Tracer) else None)
    made._storage.follows = follows(object)
    return made if object.is_contiguous else set_layout(made, None)


def _stacked(object: Any, dtype: Any) -> Tracer:
    if isinstance(object, Tracer) or not isinstance(object, list | tuple):
        tracer = asarray(object)
        return cast_to(tracer, _dtype(dtype, tracer.dtype))
    shape, leaves = _nested(object)
    if not leaves:
        return from_concrete(np.zeros(tuple(d for d in shape), _dtype(dtype, F64)))
    inner = leaves[0].type.shape
    if any(leaf.type.shape != inner for leaf in leaves):
        raise _ragged()
    kind = _dtype(dtype, np.result_type(*[leaf.dtype for leaf in leaves]))
    parts = [reshape(cast_to(leaf, kind), (1, *inner)) for leaf in leaves]
    joined = parts[0] if len(parts) == 1 else apply(ops.concatenate, *parts, axis=0)
    return reshape(joined, (*shape, *inner))


@covers(np.ascontiguousarray, native=False)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tracer:
    return _in_order(asarray_(a, dtype, like=like), "C")


@covers(np.asfortranarray, native=False)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tracer:
    return _in_order(asarray_(a, dtype, like=like), "F")


def _in_order(tracer: Tracer, order: str) -> Tracer:
    """Return an array itself when it lies in memory in C or F order, else a copy that does."""
    inputs = deciding_inputs(tracer)
    if tracer.ndim < 2 or (order == "C" and tracer.is_contiguous):
        note_copy(tracer, tracer, inputs)
        return tracer
    layout = layout_of(tracer)
    made = ordered(tracer.copy(), order)
    note_copy(made, tracer, inputs)
    if layout is None:
        note_unknown(made, tracer)
        return made
    return tracer if (layout.flags.c_contiguous if order == "C" else layout.flags.f_contiguous) else made


@covers(np.asarray, np.asanyarray, np.require, native=False)
def asarray_(
    a: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    copy: Any = None,
    like: Any = None,
    requirements: Any = None,
) -> Tracer:
    """Return the array itself when it has the dtype, as NumPy does."""
    _no_like(like)
    if order in ("C", "F"):
        return _in_order(asarray_(a, dtype, copy=copy), order)
    if isinstance(a, Tracer):
        if dtype is None or np.dtype(dtype) == a.dtype:
            if dtype is not None:
                current().native.add(a._storage)
            return (a.copy() if a.weak or copy else a) if a.ndim or not a.weak else from_value(a.value)
        return ordered(cast_to(a, np.dtype(dtype)), "K", a)
    return _stacked(a, dtype)


@covers(np.asarray_chkfinite, native=False)
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    raise unsupported("np.asarray_chkfinite", "use np.asarray")


@covers(np.copy, native=False)
def copy(a: Any, order: str = "K", subok: bool = False, *, _like: Tracer | None = None) -> Tracer:
    tracer = asarray(a)
    return ordered(
        tracer.copy() if not tracer.weak else from_value(tracer.value), order, tracer if _like is None else _like
    )


@covers(np.astype, native=False)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tracer:
    return asarray(x).astype(dtype, copy=copy)


@covers(np.fromiter, native=False, always=True)
def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Tracer:
    _no_like(like)
    items = list(iter)
    return array(items if count == -1 else items[:count], dtype)


@covers(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tracer, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [asarray(v) for v in xi]
    vectors = [reshape(v, (v.type.size,)) for v in vectors]
    order = list(builtins.range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    shape: list[Any] = [1] * len(vectors)
    for vector, axis in zip(vectors, order, strict=True):
        shape[axis] = vector.type.shape[0]
    result = []
    for vector, axis in zip(vectors, order, strict=True):
        own = tuple(vector.type.shape[0] if k == axis else 1 for k in builtins.range(len(vectors)))
        part = reshape(vector, own)
        result.append(part.copy() if sparse else spread(part, tuple(shape)).copy())
    return tuple(result)


@covers(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Tracer:
    x = asarray(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = as_dim(x.shape[0] if N is None else N)
    dtype = np.result_type(x.dtype, I64) if not is_inexact(x.dtype) else x.dtype
    column = cast_to(x, dtype)
    powers = [full(x.type.shape, 1, dtype)]
    for _ in builtins.range(1, int(count)):
        powers.append(multiply(powers[-1], column))
    powers = powers[: int(count)]
    if not increasing:
        powers.reverse()
    return apply(ops.concatenate, *[reshape(p, (*x.type.shape, 1)) for p in powers], axis=1)  # type: ignore[no-any-return]
