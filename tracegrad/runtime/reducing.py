"""Reductions, running operations, sorting, and products of eager tensors.

Reads and writes tensors. Previous: shaping.py; next: building.py.
"""

from __future__ import annotations

import math
import string
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracegrad import ops
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.capture.tracer import from_value
from tracegrad.runtime import dtypes
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.kinds import refuse_kinds
from tracegrad.runtime.layout import LIKE_OPERANDS, ROWS, common_shape, settle
from tracegrad.runtime.operate import (
    _cast,
    broadcast_shape,
    cast,
    in_single,
    logaddexp_of,
    mul,
    named,
    promoting,
    require_floats,
    require_one_dtype,
    to_tensor,
)
from tracegrad.runtime.shaping import axis_of, cat, expand, permute
from tracegrad.runtime.tape import (
    Plan,
    apply_composition,
    apply_plan,
    as_torch_calls,
    planned,
    require_current,
    retitled,
    shielding,
    underivable,
)
from tracegrad.runtime.tensor import Tensor, integer, method, public, require_bool, require_tensors, wrap

Axes = tuple[int, ...]


def axes_of(dim: Any, ndim: int) -> Axes:
    """Return sorted non-negative axes; all of them for None or ()."""
    if dim is None:
        return tuple(range(ndim))
    given = tuple(dim) if isinstance(dim, Iterable) and not isinstance(dim, Tensor | str) else (dim,)
    if not given:
        return tuple(range(ndim))
    axes = tuple(axis_of(d, ndim) for d in given)
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {given[0]} appears multiple times in the list of dims")
    return tuple(sorted(axes)) if ndim else ()


class _Whole:
    """The axis of a reduction of all elements, where none was given."""

    def __repr__(self) -> str:
        return "None"


WHOLE: Any = _Whole()


def whole_or(name: str, dim: Any, keepdim: bool) -> Any:
    """Return axes, None where none were given.

    Raises:
        TypeError: axes are to be kept, but none were given.
    """
    if dim is not WHOLE:
        return dim
    if keepdim:
        raise TypeError(f"{name}(): keepdim needs dim, which was not given\n  help: dim=None keeps all axes")
    return None


def _accumulating(array: Any, dtype: Any) -> Any:
    """Return the dtype that a sum has: that asked for, i64 for integers."""
    if dtype is not None:
        return dtypes.numpy_dtype(dtype)
    return np.dtype(np.int64) if dtypes.category(array.dtype) < 2 else array.dtype


_SUM_OVER = Composition(
    "Sum", lambda axes, keep, dtype, x: _cast(np.sum(_cast(x, dtype), axis=axes, keepdims=keep), dtype), overload=1
)
_MEAN_OVER = Composition(
    "Mean", lambda axes, keep, dtype, x: np.mean(_cast(x, dtype), axis=axes, keepdims=keep), overload=1
)
_PROD_OVER = Composition(
    "Prod", lambda axes, keep, dtype, x: _cast(np.prod(_cast(x, dtype), axis=axes, keepdims=keep), dtype), overload=1
)

_SUM, _MEAN, _PROD = (Composition(c.name, c.function) for c in (_SUM_OVER, _MEAN_OVER, _PROD_OVER))


@public()
@method("sum")
@planned()
def sum(input: Tensor, dim: Any = WHOLE, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum of all elements, or over axes."""
    a, dim = input._a, whole_or("sum", dim, keepdim)
    static = (axes_of(dim, a.ndim), keepdim, _accumulating(a, dtype))
    return Plan(_SUM if dim is None else _SUM_OVER, static, [input])


def require_inexact(name: str, of_input: np.dtype[Any], dtype: Any) -> None:
    """Check the dtype of a mean, which is that of the input unless another one is asked for.

    Raises:
        RuntimeError: it holds integers or bools.
    """
    found, whose = (of_input, "Input") if dtype is None else (dtypes.numpy_dtype(dtype), "Optional")
    if dtypes.category(found) < 2:
        raise RuntimeError(
            f"{name}(): could not infer output dtype. {whose} dtype must be either a floating point or complex dtype. "
            f"Got: {dtypes.of(found).title}"
        )


@public()
@method("mean")
@planned()
def mean(input: Tensor, dim: Any = WHOLE, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the mean of all elements, or over axes."""
    a, dim = input._a, whole_or("mean", dim, keepdim)
    require_inexact("mean", a.dtype, dtype)
    static = (axes_of(dim, a.ndim), keepdim, _accumulating(a, dtype))
    return Plan(_MEAN if dim is None else _MEAN_OVER, static, [input])


@public()
@method("prod")
@planned()
def prod(input: Tensor, dim: Any = WHOLE, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the product of all elements, or along an axis."""
    dim = whole_or("prod", dim, keepdim)
    dim = None if dim is None else axis_of(dim, input._a.ndim)
    static = (axes_of(dim, input._a.ndim), keepdim, _accumulating(input._a, dtype))
    return Plan(_PROD if dim is None else _PROD_OVER, static, [input])


@public()
@method("nansum")
@planned()
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum of the elements that are not NaN."""
    if input._a.dtype.kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    return Plan(_NANSUM, (axes_of(dim, input._a.ndim), keepdim, _accumulating(input._a, dtype)), [input])


_NANSUM = Composition(
    "Nansum",
    lambda axes, keep, dtype, x: _SUM.function(axes, keep, dtype, np.where(x != x, x.dtype.type(0), x)),
)


def _variance(axes: Axes, correction: float, keep: bool, x: Any) -> Any:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    centred = x - np.mean(x, axis=axes, keepdims=True)
    squares = (centred * np.conj(centred)).real if x.dtype.kind == "c" else np.square(centred)
    divisor = max(count - correction, 0)
    return np.sum(squares, axis=axes, keepdims=keep) / (divisor if divisor else x.dtype.type(0).real)


def _deviation(axes: Axes, correction: float, keep: bool, x: Any) -> Any:
    return _root(_variance(axes, correction, keep, x))


def _root(x: Any) -> Any:
    """Return the square root, with derivative 0 at 0."""
    zero = x == 0
    return np.where(zero, x * 0, np.sqrt(np.where(zero, x * 0 + 1, x)))


#: what torch adds up variances in
_WIDER = {
    dtypes.float32.dtype: dtypes.float64.dtype, dtypes.complex64.dtype: dtypes.complex128.dtype,
    dtypes.float16.dtype: dtypes.float32.dtype, dtypes.bfloat16.dtype: dtypes.float64.dtype,
}  # fmt: skip


def _in_wider(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have a function of one array compute in a wider dtype, and round its results once."""

    def inside(axes: Axes, correction: float, keep: bool, x: Any) -> Any:
        wide = _WIDER.get(x.dtype)
        if wide is None:
            return function(axes, correction, keep, x)
        made = function(axes, correction, keep, x.astype(wide))
        if isinstance(made, tuple):
            return tuple(_narrowed(m, x) for m in made)
        return _narrowed(made, x)

    return inside


def _narrowed(made: Any, x: Any) -> Any:
    return made.astype(x.real.dtype if x.dtype.kind == "c" != made.dtype.kind else x.dtype)


_VAR = Composition("Var", _in_wider(_variance))
_STD = Composition("Std", _in_wider(_deviation))


def _correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


def _refuse_integers(input: Tensor) -> None:
    if dtypes.category(input._a.dtype) < 2:
        raise RuntimeError("std and var only support floating point and complex dtypes")


def _warn_if_too_few(name: str, input: Tensor, dim: Any, correction: float) -> None:
    count = math.prod(input._a.shape[axis] for axis in axes_of(dim, input._a.ndim))
    if count <= correction:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            stacklevel=3,
        )


@public()
@method("var")
@planned()
def var(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """Return the variance; its divisor is the count minus `correction`, 1 by default."""
    dim, less = _correction(dim, unbiased, correction)
    _refuse_integers(input)
    _warn_if_too_few("var", input, dim, less)
    return Plan(_VAR, (axes_of(dim, input._a.ndim), less, keepdim), [input])


@public()
@method("std")
@planned()
def std(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """Return the standard deviation; its gradient is 0 where it is 0."""
    dim, less = _correction(dim, unbiased, correction)
    _refuse_integers(input)
    _warn_if_too_few("std", input, dim, less)
    return Plan(_STD, (axes_of(dim, input._a.ndim), less, keepdim), [input])


@public()
@planned()
def var_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """Return variance and mean."""
    return _moments("var", input, dim, unbiased, keepdim, correction)


@public()
@planned()
def std_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """Return standard deviation and mean."""
    return _moments("std", input, dim, unbiased, keepdim, correction)


def _moments(name: str, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
    dim, less = _correction(dim, unbiased, correction)
    _refuse_integers(input)
    _warn_if_too_few(f"{name}_mean", input, dim, less)
    return Plan(_MOMENTS[name], (axes_of(dim, input._a.ndim), less, keepdim), [input])


def _with_mean(spread: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axes, correction, keep, x: (
        spread(axes, correction, keep, x), np.mean(x, axis=axes, keepdims=keep)
    )  # fmt: skip


_MOMENTS = {"var": Composition("VarMean", _in_wider(_with_mean(_variance))),
            "std": Composition("StdMean", _in_wider(_with_mean(_deviation)))}  # fmt: skip


_AMAX = Composition("Amax", lambda axes, keep, x: np.max(x, axis=axes, keepdims=keep))
_AMIN = Composition("Amin", lambda axes, keep, x: np.min(x, axis=axes, keepdims=keep))
_AMINMAX = Composition("Aminmax", lambda axes, keep, x: (_AMIN.function(axes, keep, x), _AMAX.function(axes, keep, x)))
_MAX_ALL = Composition("Max", _AMAX.function, overload=1)
_MIN_ALL = Composition("Min", _AMIN.function, overload=1)


def _refuse_nothing(name: str, input: Tensor, dim: Any = None) -> None:
    """Check that there are elements to choose from, of all or along axes.

    Raises:
        IndexError: an axis has none.
        RuntimeError: no axis was given, and there are no elements at all.
    """
    a = input._a
    if a.size:
        return
    if dim is None or dim == ():
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
            "the 'dim' argument."
        )
    for axis in axes_of(dim, a.ndim):
        if not a.shape[axis]:
            raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


@public()
@method("amax")
@planned()
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    """Return the greatest element over axes; ties share the gradient."""
    refuse_kinds("amax", input)
    _refuse_nothing("amax", input, dim)
    return Plan(_AMAX, (axes_of(dim, input._a.ndim), keepdim), [input])


@public()
@method("amin")
@planned()
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    """Return the smallest element over axes; ties share the gradient."""
    refuse_kinds("amin", input)
    _refuse_nothing("amin", input, dim)
    return Plan(_AMIN, (axes_of(dim, input._a.ndim), keepdim), [input])


class Bounds(NamedTuple):
    """The smallest and the greatest element, printed as torch does."""

    min: Any
    max: Any

    def __repr__(self) -> str:
        return f"torch.return_types.aminmax(\nmin={self.min!r},\nmax={self.max!r})"


@public()
@method("aminmax")
def aminmax(input: Tensor, *, dim: Any = None, keepdim: bool = False) -> Bounds:
    """Return the smallest and the greatest element, of all or along an axis."""
    refuse_kinds("aminmax", input)
    dim = None if dim is None else axis_of(dim, input._a.ndim)
    _refuse_nothing("aminmax", input, dim)
    return Bounds(*apply_composition(_AMINMAX, (axes_of(dim, input._a.ndim), keepdim), [input]))


class Pair(NamedTuple):
    """Values and their positions, printed as torch does."""

    values: Any
    indices: Any


def _pair(name: str) -> Any:
    def text(self: Pair) -> str:
        return f"torch.return_types.{name}(\nvalues={self.values!r},\nindices={self.indices!r})"

    return type(name, (Pair,), {"__repr__": text})


_PAIRS = {
    name: _pair(name)
    for name in ("max", "min", "sort", "topk", "median", "nanmedian", "mode", "cummax", "cummin", "kthvalue")
}
_ALONG = {
    name: Composition(
        name.capitalize(),
        lambda dim, keep, x, index: _pick(x, index, dim, keep),
        overload=1 if name.endswith("median") else 0,
        layout=LIKE_OPERANDS if name == "sort" else ROWS,
    )
    for name in _PAIRS
}


def _pick(x: Any, index: Any, dim: int, keep: bool) -> Any:
    if not x.ndim:
        return x.copy()
    taken = np.take_along_axis(x, index, axis=dim) if x.size else np.reshape(x, index.shape)
    return taken if keep else np.squeeze(taken, dim)


def _picked(name: str, input: Tensor, index: np.ndarray[Any, Any], dim: int, keepdim: bool = True) -> Any:
    """Return values at positions along an axis together with the positions; of a number, the number and 0."""
    if not input._a.ndim:
        places = wrap(np.zeros((), np.int64))
        return _PAIRS[name](apply_composition(_ALONG[name], (0, True), [input, places]), places)
    places = wrap(np.asarray(index, np.int64))
    places._a = settle(str(_ALONG[name].layout), (input._a,), places._a)
    values = apply_composition(_ALONG[name], (dim, keepdim), [input, places])
    if not keepdim:
        places = wrap(settle(ROWS, (), np.squeeze(places._a, dim)))
    return _PAIRS[name](values, places)


def _equal_ones(is_nan: bool, x: Any, places: Any) -> Any:
    """Return the value of equal elements, which share the gradient."""
    values = np.reshape(x, (-1,))[places]
    return np.mean(values) if is_nan else np.max(values)


_NAN_OF = {name: Composition(name.capitalize(), _equal_ones, overload=1) for name in ("max", "min")}
_MEDIAN_OF = {name: Composition(name.capitalize(), _equal_ones) for name in ("median", "nanmedian")}


def _is_nan(tensor: Tensor) -> bool:
    """Return whether a number is NaN; of a traced one nothing is known."""
    return isinstance(tensor._a, np.ndarray) and bool(tensor._a != tensor._a)


def _shared(composition: Composition, input: Tensor, chosen: Any) -> Any:
    """Return the value of the chosen elements, which are equal or all NaN."""
    places = np.flatnonzero(chosen)
    is_nan = bool(np.isnan(input._a.reshape(-1)[places[0]]))
    return apply_composition(composition, (is_nan,), [input, wrap(places)])


def _extreme(name: str, whole: Composition, find: Callable[..., Any]) -> Callable[..., Any]:
    @as_torch_calls
    def apply(input: Tensor, dim: Any = WHOLE, keepdim: bool = False) -> Any:
        a, dim = input._a, whole_or(name, dim, keepdim)
        if isinstance(dim, Tensor):
            return getattr(input, f"{name}imum")(dim)
        if isinstance(dim, float):
            raise TypeError(f"{name}(): argument 'dim' (position 2) must be int, not float")
        refuse_kinds(f"{name}_all" if dim is None else name, input)
        _refuse_nothing(name, input, dim)
        if dim is None:
            made = apply_composition(whole, (tuple(range(a.ndim)), False), [input])
            return _shared(_NAN_OF[name], input, np.isnan(a)) if _is_nan(made) else made
        axis = axis_of(dim, a.ndim)
        index = np.expand_dims(find(a, axis=axis), axis) if a.ndim else np.zeros((), np.int64)
        return _picked(name, input, index, axis, keepdim)

    apply.__name__ = name
    apply.__doc__ = f"Return the {name}imum of all elements, along an axis with positions, or of two tensors."
    return apply


for _name, _whole, _find in (("max", _MAX_ALL, np.argmax), ("min", _MIN_ALL, np.argmin)):
    _made = _extreme(_name, _whole, _find)
    public(_name)(_made)
    method(_name)(_made)


def _position(name: str, find: Callable[..., Any]) -> None:
    @as_torch_calls
    def apply(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        refuse_kinds(name, input)
        if dim is None and not input._a.size:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        _refuse_nothing(name, input, dim)
        axis = None if dim is None else axis_of(dim, input._a.ndim)
        found = np.asarray(find(input._a, axis=axis))
        if keepdim and input._a.ndim:
            found = found.reshape((1,) * input._a.ndim) if axis is None else np.expand_dims(found, axis)
        return wrap(settle(ROWS, (), np.asarray(found, np.int64)))

    apply.__name__ = name
    apply.__doc__ = f"Return the position: {name}."
    public(name)(apply)
    method(name)(apply)


_position("argmax", np.argmax)
_position("argmin", np.argmin)


@public()
@method("argsort")
@as_torch_calls
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the positions that sort along an axis."""
    return sort(input, dim, descending).indices


@public()
@method("sort")
@as_torch_calls
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the elements in order along an axis, and their positions; equal ones keep their order."""
    refuse_kinds("sort", input)
    a, axis = input._a, axis_of(dim, input._a.ndim)
    if not a.ndim:
        return _picked("sort", input, np.zeros((), np.int64), 0)
    if descending:
        n = a.shape[axis]
        index = n - 1 - np.flip(np.argsort(np.flip(dtypes.comparable(a), axis), axis=axis, kind="stable"), axis)
    else:
        index = np.argsort(dtypes.comparable(a), axis=axis, kind="stable")
    return _picked("sort", input, index, axis)


@public()
@method("topk")
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k greatest (or smallest) elements along an axis, and their positions."""
    refuse_kinds("topk", input)
    axis = axis_of(dim, input._a.ndim)
    count = input._a.shape[axis] if input._a.ndim else 1
    k = integer(k)
    if not 0 <= k <= count:
        raise RuntimeError("selected index k out of range")
    if not input._a.ndim or not 0 < 8 * k < count:
        index = sort(input.detach(), axis, descending=largest).indices._a
        return _picked("topk", input, np.take(index, np.arange(k), axis=axis), axis)
    values = dtypes.comparable(input._a)
    chosen = np.argpartition(values, count - k if largest else k - 1, axis=axis)
    chosen = np.take(chosen, np.arange(count - k, count) if largest else np.arange(k), axis=axis)
    order = np.argsort(np.take_along_axis(values, chosen, axis), axis=axis, kind="stable")
    index = np.take_along_axis(chosen, np.flip(order, axis) if largest else order, axis)
    return _picked("topk", input, index, axis)


@public()
@method("kthvalue")
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the k-th smallest element along an axis."""
    if input._a.ndim:
        refuse_kinds("kthvalue", input)
    axis = axis_of(dim, input._a.ndim)
    if input._a.ndim and not input._a.shape[axis]:
        raise IndexError(f"kthvalue(): Expected reduction dim {axis} to have non-zero size.")
    k = integer(k)
    if not 1 <= k <= (input._a.shape[axis] if input._a.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    values = dtypes.comparable(input._a)
    index = np.argsort(values, axis=axis, kind="stable") if input._a.ndim else np.zeros(1, np.int64)
    return _picked("kthvalue", input, np.take(index, [k - 1], axis=axis), axis, keepdim)


def _define_median(name: str, nan_counts: bool) -> None:
    def apply(input: Tensor, dim: Any = WHOLE, keepdim: bool = False) -> Any:
        a, dim = input._a, whole_or(name, dim, keepdim)
        refuse_kinds(name, input)
        if dim is None:
            if not a.size:
                if a.dtype.kind in "iu":
                    return wrap(np.asarray(np.iinfo(a.dtype).min, a.dtype))
                return apply_composition(_MEDIAN_OF[name], (True,), [input, wrap(np.zeros(0, np.int64))])
            places = _middle(a.reshape(-1), 0, nan_counts)
            value = a.reshape(-1)[places[0]]
            return _shared(_MEDIAN_OF[name], input, np.isnan(a) if value != value else a == value)
        axis = axis_of(dim, a.ndim)
        if not a.ndim:
            return _picked(name, input, a, 0)
        if not a.shape[axis]:
            raise IndexError(f"median(): Expected reduction dim {axis} to have non-zero size.")
        return _picked(name, input, _middle(a, axis, nan_counts), axis, keepdim)

    apply.__name__ = name
    counting = "NaN if any is NaN" if nan_counts else "of those that are not NaN"
    apply.__doc__ = f"Return the lower median, {counting}: of all elements, or along an axis with positions."
    public(name)(apply)
    method(name)(apply)


def _middle(a: Any, axis: int, nan_counts: bool) -> Any:
    """Return the position of the lower median along an axis: where NaN counts, that of the first one."""
    nan = np.isnan(a)
    present = a.shape[axis] - nan.sum(axis, keepdims=True)
    index = np.take_along_axis(
        np.argsort(dtypes.comparable(a), axis=axis, kind="stable"), np.maximum(present - 1, 0) // 2, axis
    )
    return np.where(nan.any(axis, keepdims=True), np.argmax(nan, axis, keepdims=True), index) if nan_counts else index


_define_median("median", True)
_define_median("nanmedian", False)


@public()
@method("mode")
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the most frequent element along an axis, the smallest of several, and the last of its positions."""
    a, axis = input._a, axis_of(dim, input._a.ndim)
    if not a.ndim:
        return _picked("mode", input, a, 0)
    refuse_kinds("mode", input)
    if not a.shape[axis]:
        raise IndexError(f"mode(): Expected reduction dim {axis} to have non-zero size.")
    order = np.argsort(dtypes.comparable(a), axis=axis, kind="stable")
    ordered = np.moveaxis(np.take_along_axis(a, order, axis), axis, -1)
    shape = (*ordered.shape[:-1], 1)
    starts = np.concatenate([np.zeros(shape, np.bool_), ordered[..., 1:] == ordered[..., :-1]], -1)
    places = np.arange(ordered.shape[-1])
    length = places - np.maximum.accumulate(np.where(starts, 0, places), -1)
    last = np.moveaxis(np.argmax(length, -1, keepdims=True), -1, axis)
    return _picked("mode", input, np.take_along_axis(order, last, axis), axis, keepdim)


def _greatest(axes: Any, x: Any) -> Any:
    """Return the greatest element, or real part, over axes as a constant, 0 where there is none."""
    x = x.real if x.dtype.kind == "c" else x
    return _stopped(np.max(x, axis=axes, keepdims=True)) if x.size else x.dtype.type(0)


def _log_sum_exp(axes: Axes, keep: bool, x: Any) -> Any:
    greatest = _greatest(axes, x)
    safe = np.where(np.isfinite(greatest), greatest, greatest.dtype.type(0))
    total = np.log(np.sum(np.exp(x - safe), axis=axes, keepdims=True)) + safe
    return total if keep else np.squeeze(total, axes)


def _stopped(x: Any) -> Any:
    """Return a value that counts as constant: a shift that cancels needs no derivative."""
    return from_value(ops.stop_gradient(as_tracer(x).value))


_LOGSUMEXP = Composition("Logsumexp", in_single(_log_sum_exp))


@public()
@method("logsumexp")
@planned()
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Any:
    """Return log(sum(exp(x))) over axes without overflow."""
    if dtypes.category(input._a.dtype) < 2:
        input = cast(input, dtypes.default_of(2))
    return Plan(_LOGSUMEXP, (axes_of(dim, input._a.ndim), keepdim), [input])


def _softmax(axis: int, x: Any) -> Any:
    powers = np.exp(x - _greatest(axis, x))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _log_softmax(axis: int, x: Any) -> Any:
    shifted = x - _greatest(axis, x)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _along_axis(name: str, function: Callable[..., Any]) -> Composition:
    wide = in_single(function)

    def apply(axis: int, dtype: Any, x: Any) -> Any:
        return wide(axis, _cast(x, dtype)) if x.ndim else wide(0, _cast(x, dtype).reshape((1,))).reshape(())

    return Composition(name, apply)


_SOFTMAX, _LOG_SOFTMAX = _along_axis("Softmax", _softmax), _along_axis("LogSoftmax", _log_softmax)


def implied_axis(name: str, ndim: int, stacklevel: int = 6) -> int:
    """Return the axis that torch takes where none is given, with a warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        UserWarning,
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _exponential(composition: Composition, input: Tensor, dim: int, dtype: Any) -> Any:
    name = "softmax" if composition is _SOFTMAX else "log_softmax"
    kind = input._a.dtype if dtype is None else dtypes.numpy_dtype(dtype)
    if dtypes.category(kind) < 2:
        require_floats(name, input)
    if dtypes.category(kind) == 3:
        raise NotImplementedError(f"\"{name}_lastdim_kernel_impl\" not implemented for '{dtypes.of(kind).title}'")
    return Plan(composition, (axis_of(dim, input._a.ndim), kind), [input])


@public()
@method("softmax")
@shielding(0)
@planned()
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Any:
    """Return exp(x) divided by its sum along an axis."""
    return _exponential(_SOFTMAX, input, dim, dtype)


@public()
@method("log_softmax")
@shielding(0)
@planned()
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Any:
    """Return the logarithm of softmax."""
    return _exponential(_LOG_SOFTMAX, input, dim, dtype)


def _any_all(name: str, function: Callable[..., Any]) -> None:
    @as_torch_calls
    def apply(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        axes = () if isinstance(dim, tuple | list) and not dim else axes_of(dim, input._a.ndim)
        found = np.asarray(function(input._a, axis=axes, keepdims=keepdim))
        return wrap(settle(ROWS, (), found.astype(np.uint8) if input._a.dtype == np.uint8 else found))

    apply.__name__ = name
    apply.__doc__ = f"Return whether {name} elements are true."
    public(name)(apply)
    method(name)(apply)


_any_all("any", np.any)
_any_all("all", np.all)


@public()
@method("count_nonzero")
def count_nonzero(input: Tensor, dim: Any = None) -> Any:
    """Return the number of elements that are not zero."""
    return wrap(np.asarray(np.count_nonzero(input._a, axis=axes_of(dim, input._a.ndim)), np.int64))


# ---- norms


def norm_of(order: Any, axes: Axes, keep: bool, x: Any) -> Any:
    """Return the vector norm of an order over axes; its derivative at 0 is 0."""
    size = np.abs(x)
    if order == np.inf:
        return np.max(size, axis=axes, keepdims=keep)
    if order == -np.inf:
        return np.min(size, axis=axes, keepdims=keep)
    if order == 0:
        return np.sum((size != 0).astype(size.dtype), axis=axes, keepdims=keep)
    if order == 1:
        return np.sum(size, axis=axes, keepdims=keep)
    if order == 2:
        squares = np.square(x) if x.dtype.kind != "c" else np.square(x.real) + np.square(x.imag)
        return _root(np.sum(squares, axis=axes, keepdims=keep))
    zero = size == 0
    powers = np.power(np.where(zero, size * 0 + 1, size), size.dtype.type(order))
    if order > 0:
        powers = np.where(zero, size * 0, powers)
    total = np.sum(powers, axis=axes, keepdims=keep)
    none = total == 0 if order > 0 else np.any(zero, axis=axes, keepdims=keep)
    return np.where(none, total * 0, np.power(np.where(none, total * 0 + 1, total), total.dtype.type(1.0 / order)))


_NORM = Composition("LinalgVectorNorm", in_single(norm_of))


@planned()
def vector_norm(input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the vector norm over axes."""
    if isinstance(ord, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    if dtypes.category(input._a.dtype) < 2:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            + dtypes.of(input._a.dtype).title
        )
    if dtype is not None:
        wanted = dtypes.numpy_dtype(dtype)
        if dtypes.join(input._a.dtype, wanted) != wanted:
            raise RuntimeError(
                f"linalg.vector_norm: the dtype of the input ({input.dtype.title}) should be convertible without "
                f"narrowing to the specified dtype ({dtypes.of(wanted).title})"
            )
        input = cast(input, wanted)
    order, axes = float(ord), axes_of(dim, input._a.ndim)
    _check_identity(order, None if dim is None else axes, input._a.shape)
    return Plan(_NORM, (order, axes, keepdim), [input])


def _check_identity(order: float, axes: Sequence[int] | None, shape: Sequence[int]) -> None:
    """Check that there are elements where the norm of none is not 0.

    Args:
        axes: None for all.
    """
    if 0 <= order < math.inf:
        return
    text, why = f"linalg.vector_norm cannot compute the {order:g} norm on", "the operation does not have an identity"
    if 0 in shape and not axes:
        raise RuntimeError(f"{text} an empty tensor because {why}")
    for axis in axes or ():
        if not shape[axis]:
            raise RuntimeError(f"{text} the dimension {axis} because this dimension is empty and {why}")


@public()
@method("norm")
@as_torch_calls
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return the norm of all elements, or over axes; "nuc" is the sum of the singular values of matrices."""
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    if p == "nuc":
        if input._a.ndim < 2:
            raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
        axes = axes_of((0, 1) if dim is None else dim, input._a.ndim)
        input = input if dtype is None else cast(input, dtypes.numpy_dtype(dtype))
        values = sum(input.movedim(axes, (-2, -1)).svd()[1], -1)
        if not keepdim:
            return values
        return retitled(
            values.reshape([1 if k in axes else n for k, n in enumerate(input._a.shape)]), "PermuteBackward0"
        )
    return vector_norm(input, 2.0 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@public()
@method("dist")
def dist(input: Tensor, other: Tensor, p: Any = 2) -> Any:
    """Return the norm of the difference."""
    dtype = dtypes.result_type([input._a, other._a], [])
    if dtypes.category(dtype) < 2:
        require_floats("dist", input)
    _check_identity(float(p), None, common_shape([input._a.shape, other._a.shape]))
    return apply_composition(_DIST, (float(p),), [cast(input, dtype), cast(other, dtype)])


_DIST = Composition("Dist", in_single(lambda order, x, y: norm_of(order, tuple(range((x - y).ndim)), False, x - y)))


# ---- running operations

_CUMSUM = Composition(
    "Cumsum", lambda dim, dtype, x: _cast(np.cumsum(_cast(x, dtype), axis=dim), dtype) if x.ndim else _cast(x, dtype)
)
_CUMPROD = Composition(
    "Cumprod", lambda dim, dtype, x: _cast(np.cumprod(_cast(x, dtype), axis=dim), dtype) if x.ndim else _cast(x, dtype)
)


def _running_options(name: str, input: Tensor, dim: int, dtype: Any) -> tuple[int, np.dtype[Any]]:
    found = _accumulating(input._a, dtype)
    if found == np.bool_:
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
    return axis_of(dim, input._a.ndim), found


@public()
@method("cumsum")
@planned()
def cumsum(input: Tensor, dim: int, dtype: Any = None) -> Any:
    """Return the running sum along an axis."""
    return Plan(_CUMSUM, _running_options("cumsum", input, dim, dtype), [input])


@public()
@method("cumprod")
@planned()
def cumprod(input: Tensor, dim: int, dtype: Any = None) -> Any:
    """Return the running product along an axis."""
    return Plan(_CUMPROD, _running_options("cumprod", input, dim, dtype), [input])


def _running(name: str, accumulate: Callable[..., Any]) -> None:
    def apply(input: Tensor, dim: int) -> Any:
        refuse_kinds(name, input)
        a, axis = input._a, axis_of(dim, input._a.ndim)
        if not a.ndim:
            return _picked(name, input, np.zeros((), np.int64), 0)
        best = accumulate(a, axis=axis)
        shape = tuple(a.shape[axis] if k == axis else 1 for k in range(a.ndim))
        places = np.where((a == best) | np.isnan(a), np.arange(a.shape[axis]).reshape(shape), 0)
        return _picked(name, input, np.maximum.accumulate(places, axis=axis), axis)

    apply.__name__ = name
    apply.__doc__ = f"Return the running extreme along an axis, and its positions: {name}."
    public(name)(apply)
    method(name)(apply)


_running("cummax", np.maximum.accumulate)
_running("cummin", np.minimum.accumulate)


def _log_cum_sum_exp(dim: int, x: Any) -> Any:
    step = 1
    lead = (slice(None),) * dim
    while x.ndim and step < x.shape[dim]:
        later, earlier = x[(*lead, slice(step, None))], x[(*lead, slice(None, -step))]
        x = np.concatenate([x[(*lead, slice(None, step))], logaddexp_of(later, earlier)], axis=dim)
        step *= 2
    return x.copy() if step == 1 else x


_LOGCUMSUMEXP = Composition("Logcumsumexp", in_single(_log_cum_sum_exp))


@public()
@method("logcumsumexp")
@planned()
def logcumsumexp(input: Tensor, dim: int) -> Any:
    """Return the running log(sum(exp(x)))."""
    require_floats("logcumsumexp_out_cpu", input)
    return Plan(_LOGCUMSUMEXP, (axis_of(dim, input._a.ndim),), [input])


@public()
@method("diff")
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Any:
    """Return differences of neighbours along an axis, with more elements before and after."""
    if prepend is not None or append is not None:
        input = cat([t for t in (prepend, input, append) if t is not None], dim)
    if not input._a.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    n = integer(n)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    size = input._a.shape[axis_of(dim, input._a.ndim)]
    for _ in range(min(n, size)):
        size -= 1
        after, before = input.narrow(dim, 1, size), input.narrow(dim, 0, size)
        input = after.logical_xor(before) if input._a.dtype == np.bool_ else after - before
    return input


@public()
@method("trace")
def trace(input: Tensor) -> Any:
    """Return the sum of the diagonal."""
    if input._a.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    if input._a.dtype == np.bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return apply_composition(_TRACE, (_accumulating(input._a, None),), [input])


_TRACE = Composition("Trace", lambda dtype, x: np.sum(_cast(np.diagonal(x), dtype)))


@public()
@method("unique")
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Return the different elements, or slices along an axis, in order; on demand where they are, and how often."""
    for flag in (sorted, return_inverse, return_counts):
        require_bool(flag)
    refuse_kinds("unique", input)
    find = _unique_elements if dim is None else _unique_slices
    return find(input, None if dim is None else axis_of(dim, input._a.ndim), return_inverse, return_counts)


def _unique(input: Tensor, axis: int | None, return_inverse: bool, return_counts: bool) -> Any:
    a = input._a
    values, inverse, counts = np.unique(
        dtypes.comparable(a), return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    shape = a.shape if axis is None else (a.shape[axis],)
    return _different(values.astype(a.dtype), inverse.reshape(shape), counts, return_inverse, return_counts)


_unique_elements = underivable("_unique2", "Unique2Backward0")(_unique)
_unique_slices = underivable("unique_dim", "UniqueDimBackward0")(_unique)


def _different(values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    given = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    made = tuple(wrap(np.ascontiguousarray(x).reshape(np.shape(x))) for x in given)
    return made if len(made) > 1 else made[0]


@public()
@method("unique_consecutive")
@underivable("unique_consecutive", "UniqueConsecutiveBackward0")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the elements, or slices along an axis, that differ from the one before; on demand where, and how often."""
    for flag in (return_inverse, return_counts):
        require_bool(flag)
    refuse_kinds("unique", input)
    a = input._a
    axis = 0 if dim is None else axis_of(dim, a.ndim)
    slices = a.reshape(-1) if dim is None or not a.ndim else np.moveaxis(a, axis, 0)
    count = len(slices)
    if dim is not None and 0 in slices.shape[1:]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    differ = (slices[1:] != slices[:-1]).reshape(max(count - 1, 0), math.prod(slices.shape[1:])).any(1)
    starts = np.flatnonzero(np.concatenate([[True], differ])) if count else np.zeros(0, np.int64)
    counts = np.diff(np.append(starts, count))
    inverse = np.repeat(np.arange(len(starts)), counts).reshape(a.shape if dim is None else (count,))
    return _different(np.moveaxis(slices[starts], 0, axis), inverse, counts, return_inverse, return_counts)


@public()
@method("bincount")
@underivable("bincount")
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    """Return how often each number occurs, or the sum of the weights where it does."""
    if dtypes.category(input._a.dtype) != 1:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{input.dtype.title}'")
    if weights is None:
        return wrap(np.bincount(input._a, minlength=minlength).astype(np.int64))
    made = np.bincount(input._a, weights._a, minlength)
    return wrap(made.astype(np.float32) if weights._a.dtype == np.float32 else made)


# ---- products


def product_of(x: Any, y: Any) -> Any:
    """Return x @ y: for a stack of matrices and one matrix as one product, not one for each."""
    if x.ndim < 3 or y.ndim != 2:
        return x @ y
    return (x.reshape((math.prod(x.shape[:-1]), x.shape[-1])) @ y).reshape((*x.shape[:-1], y.shape[1]))


_MM, _MV, _DOT, _BMM = (Composition(n, product_of) for n in ("Mm", "Mv", "Dot", "Bmm"))
_MATMUL = Composition("Matmul", product_of, title="UnsafeViewBackward0")
_ROW_TIMES = Composition("Matmul", product_of, title="SqueezeBackward4")
#: by the ranks of the operands; torch composes the others of several nodes
_PRODUCTS = {(2, 2): _MM, (2, 1): _MV, (1, 1): _DOT, (1, 2): _ROW_TIMES}
_VECDOT = Composition("LinalgVecdot", lambda dim, x, y: np.sum(np.conj(x) * y, axis=dim))
_OUTER = promoting("Mul", lambda x, y: x.reshape((-1, 1)) * y.reshape((1, -1)))
_EINSUM = Composition("Einsum", lambda text, *xs: np.einsum(text, *xs), title="ViewBackward0")
_EINSUM_UNSUMMED = Composition("Einsum", _EINSUM.function, title="MulBackward0")
_TENSORDOT = Composition("Tensordot", lambda axes, x, y: np.tensordot(x, y, axes), title="ViewBackward0")
_KRON = promoting("Kron", lambda x, y: np.kron(x, y), title="UnsafeViewBackward0")
_CROSS = Composition("LinalgCross", lambda dim, x, y: np.cross(x, y, axis=dim))


def _product_error(a: tuple[int, ...], b: tuple[int, ...]) -> RuntimeError:
    """Return torch's error for inner sizes that differ."""
    if len(a) == len(b) == 1:
        return RuntimeError(
            f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same number of elements, "
            f"but got {a[0]} and {b[0]} elements respectively"
        )
    if len(b) == 1:
        rows = math.prod(a[:-1])
        return RuntimeError(f"size mismatch, got input ({rows}), mat ({rows}x{a[-1]}), vec ({b[0]})")
    if len(a) > 2 and len(b) > 2:
        stack = math.prod(common_shape([a[:-2], b[:-2]]))
        return RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{stack}, {a[-1]}] but got: "
            f"[{stack}, {b[-2]}]."
        )
    return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({math.prod(a[:-1])}x{a[-1]} and {b[-2]}x{b[-1]})")


def require_same_dtype(x: Tensor, y: Tensor) -> None:
    if x._a.dtype == y._a.dtype:
        return
    a, b, ranks = x.dtype.title, y.dtype.title, (x._a.ndim, y._a.ndim)
    names = [dtypes.scalar_name(t._a.dtype).replace("long long", "long int") for t in (x, y)]
    text = f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}"
    if ranks == (1, 1):
        text = f"dot : expected both vectors to have same dtype, but found {a} and {b}"
    elif ranks == (2, 1):
        text = f"addmv input tensors must have the same dtype, but got {b}, {a}, and {b}"
    elif ranks == (3, 3):
        text = f"expected scalar type {a} but found {b}"
    raise RuntimeError(f"{text}\n  help: convert one of them: .to({y.dtype!r})")


def _plan_matmul(input: Tensor, other: Tensor) -> Any:
    """Return the matrix product, over stacks of matrices too."""
    x, y = input._a, other._a
    if x.dtype != y.dtype:
        require_same_dtype(input, other)
    if not x.ndim or not y.ndim:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {x.ndim}D and {y.ndim}D")
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise _product_error(x.shape, y.shape)
    if x.ndim > 2 and y.ndim > 2:
        common_shape([x.shape[:-2], y.shape[:-2]])
    ranks = (x.ndim, y.ndim)
    if x.dtype == np.bool_:
        name = "dot" if ranks == (1, 1) else "addmm_impl_cpu_"
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")
    return Plan(_PRODUCTS.get(ranks, _MATMUL), (), [input, other])


matmul = public()(method("matmul")(named(_plan_matmul, "matmul", _plan_matmul.__doc__ or "")))


@method("__matmul__")
@planned()
def _matmul_operator(self: Tensor, other: Any) -> Any:
    return _plan_matmul(self, other) if isinstance(other, Tensor) else NotImplemented


method("__rmatmul__")(lambda self, other: matmul(to_tensor(other), self))


def _check_ranks(factors: tuple[Tensor, Tensor], ranks: tuple[int, int]) -> None:
    for number, (factor, wanted) in enumerate(zip(factors, ranks, strict=True), 1):
        if factor._a.ndim != wanted:
            kind = ("", "vector", "matrix", "3D tensor")[wanted]
            name = "batch" if wanted == 3 else "mat"
            raise RuntimeError(f"{name}{number} must be a {kind}, got {factor._a.ndim}-D tensor")


def _product(name: str, ranks: tuple[int, int], input: Tensor, other: Tensor) -> Any:
    """Return the product of tensors with so many axes each."""
    require_tensors(input, other)
    found = (input._a.ndim, other._a.ndim)
    if name == "dot" and found != ranks:
        raise RuntimeError(f"1D tensors expected, but got {found[0]}D and {found[1]}D tensors")
    _check_ranks((input, other), ranks)
    if name == "bmm" and input._a.shape[::2] != other._a.shape[:2]:
        wanted, shape = [input._a.shape[0], input._a.shape[2]], list(other._a.shape[:2])
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: {shape}.")
    plan = _plan_matmul(input, other)
    return apply_plan(_BMM if name == "bmm" else plan.composition, plan.static, plan.operands)


@public()
@method("mm")
@as_torch_calls
def mm(input: Tensor, mat2: Tensor) -> Any:
    """Return the product of two matrices."""
    return _product("mm", (2, 2), input, mat2)


@public()
@method("mv")
@as_torch_calls
def mv(input: Tensor, vec: Tensor) -> Any:
    """Return the product of a matrix and a vector."""
    return _product("mv", (2, 1), input, vec)


@public()
@method("dot")
@as_torch_calls
def dot(input: Tensor, tensor: Tensor) -> Any:
    """Return the sum of products of the elements of two vectors."""
    return _product("dot", (1, 1), input, tensor)


@public()
@method("bmm")
@as_torch_calls
def bmm(input: Tensor, mat2: Tensor) -> Any:
    """Return the products of matrices along the first axis."""
    return _product("bmm", (3, 3), input, mat2)


@public()
@method("inner")
@as_torch_calls
def inner(input: Tensor, other: Tensor) -> Any:
    """Return the products of elements summed over the last axes: of all rows of one with all rows of the other."""
    require_tensors(input, other)
    if not input._a.ndim or not other._a.ndim:
        return mul(input, other)
    if input._a.shape[-1] != other._a.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input._a.shape)} and {list(other._a.shape)}"
        )
    require_same_dtype(input, other)
    return tensordot(input, other, ((-1,), (-1,))) if input._a.ndim + other._a.ndim > 2 else matmul(input, other)


@public()
@method("vdot")
def vdot(input: Tensor, other: Tensor) -> Any:
    """Return the dot product with the conjugate of the first."""
    if input._a.ndim != 1 or other._a.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input._a.ndim}D and {other._a.ndim}D tensors")
    return retitled(matmul(input.conj(), other), "VdotBackward0")


@planned()
def vecdot(input: Tensor, other: Tensor, dim: int = -1) -> Any:
    """Return dot products along an axis."""
    return Plan(_VECDOT, (dim,), [input, other])


def _scaled_addition(name: str, ranks: tuple[int, int]) -> None:
    def sum_of(beta: Any, alpha: Any, x: Any, a: Any, b: Any) -> Any:
        product = alpha * (a @ b)
        # what is not counted does not matter, be it NaN
        return np.where(np.isfinite(x), x * 0, 0) + product if beta == 0 else beta * x + product

    composition = Composition(name.capitalize(), in_single(sum_of))

    def plan(input: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        found = {input._a.dtype, a._a.dtype, b._a.dtype}
        if len(found) > 1:
            other = next(t for t in (a, b) if t._a.dtype != input._a.dtype)
            which = "mat2" if other is b else "mat1"
            raise RuntimeError(
                f"self and {which} must have the same dtype, but got {input.dtype.title} and {other.dtype.title}"
            )
        if input._a.dtype == np.bool_:
            refused = {"addmm": "addmm_impl_cpu_", "addmv": "addmv_impl_cpu"}.get(name, name)
            raise NotImplementedError(f"\"{refused}\" not implemented for 'Bool'")
        beta, alpha = (dtypes.factor(t.item() if isinstance(t, Tensor) else t, input._a.dtype) for t in (beta, alpha))
        _check_ranks((a, b), ranks)
        columns = b._a.shape[-1:] if ranks[1] > 1 else ()
        if a._a.shape[-1] != b._a.shape[-2 if columns else 0] or a._a.shape[:-2] != b._a.shape[:-2]:
            raise _product_error(a._a.shape, b._a.shape)
        expand(input.detach(), (*a._a.shape[:-1], *columns))
        return Plan(composition, (beta, alpha), [input, a, b])

    apply = named(plan, name, f"Return beta * input + alpha * (a @ b): {name}.")
    public(name)(apply)
    method(name)(apply)


for _name, _ranks in (("addmm", (2, 2)), ("addmv", (2, 1)), ("baddbmm", (3, 3))):
    _scaled_addition(_name, _ranks)


@public("outer", "ger")
@method("outer", "ger")
@planned()
def outer(input: Tensor, vec2: Tensor) -> Any:
    """Return all products of elements of two vectors."""
    for name, vector in (("self", input), ("vec2", vec2)):
        if vector._a.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {vector._a.ndim}-D")
    return Plan(_OUTER, (dtypes.result_type([input._a, vec2._a], []),), [input, vec2])


def _check_subscripts(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        relation = "fewer" if len(shapes) < len(terms) else "more"
        raise RuntimeError(f"einsum(): {relation} operands were provided than specified in the equation")
    sizes: dict[str, int] = {}
    for number, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        letters = term.replace("...", "")
        if len(letters) > len(shape) or (len(letters) != len(shape) and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(letters)}) does not match the number of "
                f"dimensions ({len(shape)}) for operand {number} and no ellipsis was given"
            )
        before = len(term.partition("...")[0])
        own: dict[str, int] = {}
        for k, letter in enumerate(letters):
            size = shape[k if k < before else k - len(letters)]
            if own.setdefault(letter, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {letter} is repeated for operand {number} but the sizes don't match, "
                    f"{size} != {own[letter]}"
                )
            if size != sizes.get(letter, size) and 1 not in (size, sizes[letter]):
                raise RuntimeError(
                    f"einsum(): subscript {letter} has size {size} for operand {number} which does not broadcast with "
                    f"previously seen size {sizes[letter]}"
                )
            sizes[letter] = max(size, sizes.get(letter, size)) if size != 1 else sizes.get(letter, size)
    for letter in output.replace("...", "") if arrow else "":
        if letter not in sizes:
            raise RuntimeError(
                f"einsum(): output subscript {letter} does not appear in the equation for any input operand"
            )


def _from_lists(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the equation, and the operands, for operands each followed by a list of numbers or Ellipsis."""
    letters = string.ascii_uppercase + string.ascii_lowercase

    def term(axes: Sequence[Any]) -> str:
        return "".join("..." if axis is Ellipsis else letters[axis] for axis in axes)

    count = len(given) // 2
    terms = ",".join(term(given[2 * k + 1]) for k in range(count))
    arrow = f"->{term(given[-1])}" if len(given) % 2 else ""
    return terms + arrow, given[: 2 * count : 2]


@public()
def einsum(equation: Any, *operands: Any) -> Any:
    """Return a sum of products in Einstein's notation: an equation, or after each operand the numbers of its axes."""
    if isinstance(equation, Tensor) and len(operands):
        equation, operands = _from_lists((equation, *operands))
    if not isinstance(equation, str) or not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    text = equation.replace(" ", "")
    _check_subscripts(text, [t._a.shape for t in given])
    if len(given) == 1:
        return _einsum_of_one(text, given[0])
    inputs, arrow, output = text.partition("->")
    letters = [letter for letter in inputs if letter.isalpha()]
    summed = set(letters) - set(output if arrow else [x for x in letters if letters.count(x) == 1])
    if summed:
        require_one_dtype(*given)
    dtype = dtypes.result_type([t._a for t in given], [])
    return apply_composition(_EINSUM if summed else _EINSUM_UNSUMMED, (text,), [cast(t, dtype) for t in given])


def _einsum_of_one(text: str, operand: Tensor) -> Any:
    """Return diagonals of a tensor, with axes exchanged and summed; where none is summed, a view."""
    term, arrow, output = text.partition("->")
    hidden = operand._a.ndim - len(term.replace("...", ""))
    names: list[Any] = [*term.partition("...")[0], *range(hidden), *term.partition("...")[2]]
    kept = range(hidden if "..." in output else 0)
    wanted: list[Any] = [*output.partition("...")[0], *kept, *output.partition("...")[2]]
    if not arrow:
        wanted = [*range(hidden), *sorted(name for name in set(term) - {"."} if term.count(name) == 1)]
    for name in [n for n in dict.fromkeys(names) if names.count(n) > 1]:
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            operand = operand.diagonal(0, first, second)
            names = [*names[:first], *names[first + 1 : second], *names[second + 1 :], name]
    summed = [name for name in names if name not in wanted]
    moved = permute(operand, [names.index(name) for name in (*wanted, *summed)])
    return sum(moved, tuple(range(len(wanted), len(names)))) if summed else moved


@public()
@planned()
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Any:
    """Return the sum of products over axes."""
    if a._a.dtype != b._a.dtype:
        raise RuntimeError("both inputs should have same dtype")
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a._a.ndim, b._a.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = range(-dims, 0), range(dims)
    if len(dims[0]) != len(dims[1]):
        raise RuntimeError("both dimension lists should have same length")
    axes = tuple(tuple(axis_of(d, x._a.ndim) for d in given) for given, x in zip(dims, (a, b), strict=True))
    for d, e, own, other in zip(*dims, *axes, strict=True):
        if a._a.shape[own] != b._a.shape[other]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a._a.shape[own]} in dim {d} and second has "
                f"size {b._a.shape[other]} in dim {e}"
            )
    for given in axes:
        for d in given:
            if given.count(d) > 1:
                raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return Plan(_TENSORDOT, (axes,), [a, b])


@public()
@method("kron")
@planned()
def kron(input: Tensor, other: Tensor) -> Any:
    """Return the Kronecker product."""
    return Plan(_KRON, (dtypes.join(input._a.dtype, other._a.dtype),), [input, other])


@public()
@method("cross")
@planned()
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Any:
    """Return the cross product, along the first axis of size 3 if none is given."""
    require_one_dtype(input, other)
    refuse_kinds("cross", input)
    shape = input._a.shape
    if dim is None and 3 not in shape:
        raise RuntimeError("no dimension of size 3 in input")
    if input._a.ndim != other._a.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = shape.index(3) if dim is None else axis_of(dim, len(shape))
    sizes = shape[axis], other._a.shape[axis]
    if sizes != (3, 3):
        raise RuntimeError(
            f"linalg.cross: inputs dimension {axis if dim is None else dim} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}"
        )
    broadcast_shape(input, other)
    return Plan(_CROSS, (axis,), [input, other])


@public()
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Any:
    """Return the cosine of the angle between vectors along an axis."""
    first, second = (x / vector_norm(x, 2, dim, True).clamp_min(eps) for x in (x1, x2))
    return sum(mul(first, second), dim)


def _refuse_other_dtype(input: Tensor, other: Tensor) -> None:
    if input._a.dtype != other._a.dtype:
        raise RuntimeError(f"{input.dtype.title} did not match {other.dtype.title}")
    broadcast_shape(input, other)


def _check_tolerances(rtol: float, atol: float) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")


@public()
@method("allclose")
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements are near."""
    _refuse_other_dtype(input, other)
    _check_tolerances(rtol, atol)
    return bool(np.allclose(input._a, other._a, rtol, atol, equal_nan))


@public()
@method("isclose")
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Return which elements are near."""
    _refuse_other_dtype(input, other)
    _check_tolerances(rtol, atol)
    require_current(input, other)
    return wrap(np.asarray(np.isclose(input._a, other._a, rtol, atol, equal_nan)))


@public()
@method("equal")
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether shape and all elements are equal."""
    return input._a.shape == other._a.shape and bool(np.all(input._a == other._a))
