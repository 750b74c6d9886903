"""Reductions, running operations and statistics of arrays whose length is found when the program runs.

Previous: statistics_api.py; next: ragged_products.py.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.capture.axes import Axis
from tracegrad.capture.contents import at, mask_of, shifted
from tracegrad.capture.lengths import at_least, unknown_length
from tracegrad.capture.masked import Selection, extreme
from tracegrad.capture.numpy_api.reduce import log_sum_exp
from tracegrad.capture.ragged import Ragged, chosen_axes, covers_ragged, filled, require_some
from tracegrad.capture.tracer import asarray, call_handler, check, make_weak

#: what stands for the elements that do not belong to the array, and functions of Python that do the same
_FILLS: dict[Any, tuple[Any, ...]] = {
    np.sum: (0, sum, math.fsum),
    np.nansum: (0,),
    np.prod: (1, math.prod),
    np.any: (False, any),
    np.all: (True, all),
    np.count_nonzero: (0,),
    np.max: ("lowest", max),
    np.min: ("highest", min),
}


def axes_left(array: Ragged, gone: Sequence[int], keepdims: bool) -> dict[int, Axis]:
    """Return the ragged axes that are left after a reduction."""
    rest = {k: axis for k, axis in array.axes.items() if k not in gone}
    return rest if keepdims else {k - sum(1 for g in gone if g < k): axis for k, axis in rest.items()}


def _reduction(function: Any, fill: Any, default: Any = None) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = default, **kwargs: Any) -> Any:
        if not isinstance(a, Ragged) or set(kwargs) - {"keepdims", "dtype"}:
            raise unknown_length()
        axes = chosen_axes(a, axis)
        value = fill
        if isinstance(fill, str):
            require_some(a, axes, f"zero-size array to reduction operation {function.__name__} which has no identity")
            value = extreme(a.dtype, fill)
        result = call_handler(function, filled(a, axes, value), axis=axes, **kwargs)
        rest = axes_left(a, axes, kwargs.get("keepdims", False))
        return Ragged(result, rest) if rest else result

    return reduce


for _function, (_fill, *_builtins) in _FILLS.items():
    covers_ragged(_function, *_builtins)(_reduction(_function, _fill))
for _ufunc, _function in ((np.add, np.sum), (np.multiply, np.prod), (np.maximum, np.max), (np.minimum, np.min)):
    covers_ragged(_ufunc.reduce)(_reduction(_function, _FILLS[_function][0], 0))


@covers_ragged(np.logaddexp.reduce)
def _log_sum(a: Any, axis: Any = 0, keepdims: bool = False) -> Any:
    if not isinstance(a, Ragged):
        raise unknown_length()
    axes = chosen_axes(a, axis)
    a = Ragged(call_handler(np.add, a.content, 0.0), a.axes)
    inside, rest, middle = {k: a.axes[k] for k in axes if k in a.axes}, axes_left(a, axes, keepdims), None
    if inside:
        mask = call_handler(np.broadcast_to, mask_of(a.content, inside), a.content.shape)
        count = call_handler(np.sum, mask, axis=axes)
        mean = call_handler(np.sum, filled(a, axes, 0), axis=axes) / call_handler(np.maximum, count, 1)
        middle = call_handler(np.where, call_handler(np.equal, count, 0), -np.inf, mean)
    result = log_sum_exp(filled(a, axes, -np.inf), axes, keepdims, middle=middle)
    return Ragged(result, rest) if rest else result


def _moment(function: Any) -> Callable[..., Any]:
    def moment(a: Any, axis: Any = None, **kwargs: Any) -> Any:
        if not isinstance(a, Ragged) or set(kwargs) - {"keepdims", "ddof", "dtype"}:
            raise unknown_length()
        axes = chosen_axes(a, axis)
        inside = {k: a.axes[k] for k in axes if k in a.axes}
        where = call_handler(np.broadcast_to, mask_of(a.content, inside), a.content.shape) if inside else True
        result = call_handler(function, a.content, axis=axes, where=where, **kwargs)
        rest = axes_left(a, axes, kwargs.get("keepdims", False))
        return Ragged(result, rest) if rest else result

    return moment


for _function in (np.mean, np.var, np.std):
    covers_ragged(_function)(_moment(_function))


def _extremum(function: Any, fill: str) -> Callable[..., Any]:
    def find(a: Any, axis: Any = None) -> Any:
        if not isinstance(a, Ragged) or (a.ndim > 1 and axis is None):
            raise unknown_length()
        (k,) = chosen_axes(a, axis)
        require_some(a, (k,), f"attempt to get {function.__name__} of an empty sequence")
        if k in a.axes:
            a = Ragged(shifted(a.content, k, a.axes[k]), {**a.axes, k: Axis(a.axes[k].length)})
        result = call_handler(function, filled(a, (k,), extreme(a.dtype, fill)), axis=k)
        rest = axes_left(a, (k,), False)
        return Ragged(result, rest) if rest else result

    return find


covers_ragged(np.argmax)(_extremum(np.argmax, "lowest"))
covers_ragged(np.argmin)(_extremum(np.argmin, "highest"))


@covers_ragged(np.ptp)
def _ptp(a: Any, axis: Any = None) -> Any:
    return call_handler(np.max, a, axis) - call_handler(np.min, a, axis)


def _cumulative(function: Any, default: Any = None) -> Callable[..., Any]:
    def cumulate(a: Any, axis: Any = default, **kwargs: Any) -> Any:
        if not isinstance(a, Ragged) or (a.ndim > 1 and axis is None) or kwargs:
            raise unknown_length()
        (k,) = chosen_axes(a, axis)
        if k not in a.axes:
            return Ragged(function(a.content, k), a.axes)
        own = a.axes[k]
        return Ragged(function(shifted(a.content, k, own), k), {**a.axes, k: Axis(own.length)})

    return cumulate


for _function in (np.cumsum, np.cumprod):
    covers_ragged(_function)(_cumulative(functools.partial(call_handler, _function)))
for _running in (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp):
    _accumulate = functools.partial(call_handler, _running.accumulate, _bound=(_running, "accumulate"))
    covers_ragged(_running.accumulate)(_cumulative(_accumulate, 0))


@covers_ragged(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if not isinstance(x, Ragged):
        raise unknown_length()
    axes = chosen_axes(x, axis)
    if any(k in x.axes for k in axes) and ord not in (None, "fro", 1, 2, np.inf):
        raise unknown_length()
    rest = axes_left(x, axes, keepdims)
    result = call_handler(np.linalg.norm, filled(x, axes, 0), ord, axis, keepdims)
    return Ragged(result, rest) if rest else result


@covers_ragged(np.diff)
def _diff(a: Any, n: Any = 1, axis: Any = -1) -> Any:
    if not isinstance(a, Ragged) or n != 1:
        raise unknown_length()
    (k,) = chosen_axes(a, axis)
    return a[at(k, slice(1, None))] - a[at(k, slice(None, -1))]


@covers_ragged(np.trapezoid, *filter(None, [getattr(np, "trapz", None)]))
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    values = y if isinstance(y, Ragged) else Ragged(asarray(y), {})
    (k,) = chosen_axes(values, axis)
    widths = dx
    if x is not None:
        widths = call_handler(np.diff, x) if np.ndim(x) == 1 else call_handler(np.diff, x, axis=axis)
        if np.ndim(x) == 1:
            widths = call_handler(np.reshape, widths, tuple(-1 if j == k else 1 for j in range(values.ndim)))
    pairs = call_handler(np.add, values[at(k, slice(1, None))], values[at(k, slice(None, -1))])
    return call_handler(np.sum, call_handler(np.multiply, widths, pairs) / 2.0, axis=k)


def _statistic(function: Any, least: int = 1, **kwargs: Any) -> Callable[..., Any]:
    def find(data: Any) -> Any:
        if not isinstance(data, Ragged) or data.ndim > 1:
            raise unknown_length()
        if not at_least(data.shape[0], least):
            few = f"{function.__name__} requires at least {least} data point{'s' if least > 1 else ''}"
            check(call_handler(np.greater_equal, data.shape[0], least), "ValueError", few)
        return make_weak(data.call(function, (data,), kwargs))

    return find


for _name, _function, _least, _kwargs in (
    ("mean", np.mean, 1, {}),
    ("fmean", np.mean, 1, {}),
    ("median", np.median, 1, {}),
    ("pvariance", np.var, 1, {}),
    ("pstdev", np.std, 1, {}),
    ("variance", np.var, 2, {"ddof": 1}),
    ("stdev", np.std, 2, {"ddof": 1}),
):
    covers_ragged(getattr(statistics, _name))(_statistic(_function, _least, **_kwargs))


# ---- sums into places


def _at(ufunc: np.ufunc) -> Callable[..., None]:
    def accumulate(a: Any, indices: Any, b: Any, /) -> None:
        if not isinstance(a, Ragged) or isinstance(b, Selection):
            raise unknown_length()
        a.update_at(ufunc, indices, b)

    return accumulate


covers_ragged(np.add.at, either_order=True)(_at(np.add))
covers_ragged(np.subtract.at, either_order=True)(_at(np.subtract))
