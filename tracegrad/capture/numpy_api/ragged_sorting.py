"""Orders, quantiles and searches of arrays whose length is found when the program runs.

Previous: ragged_shape.py; next: scipy_special.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.capture.axes import Axis
from tracegrad.capture.contents import iota, mask_of, shifted, taken
from tracegrad.capture.lengths import unknown_length
from tracegrad.capture.masked import Masked, extreme
from tracegrad.capture.numpy_api.ragged_reduce import axes_left
from tracegrad.capture.ragged import Ragged, chosen_axes, covers_ragged, elementwise, filled
from tracegrad.capture.sizes import as_size
from tracegrad.capture.tracer import call_handler


@covers_ragged(np.nonzero)
def _nonzero(a: Ragged) -> tuple[Masked, ...]:
    mask = a.content if a.dtype.kind == "b" else call_handler(np.not_equal, a.content, 0)
    axes = {k: Axis(own.length) for k, own in a.axes.items()}
    for k, own in a.axes.items():
        mask = shifted(mask, k, own)
    mask = call_handler(np.logical_and, mask, mask_of(mask, axes))
    shape = mask.type.shape
    places = [iota(shape, k) for k in range(len(shape))]
    return tuple(Masked(place, mask, len(shape)) for place in places)


@covers_ragged(np.flatnonzero)
def _flatnonzero(a: Ragged) -> Masked:
    return _nonzero(a.reshape(-1))[0]


@covers_ragged(np.argwhere)
def _argwhere(a: Ragged) -> Any:
    return call_handler(np.stack, _nonzero(a), 1)


def _ordering(function: Any) -> Callable[..., Any]:
    def order(a: Any, axis: Any = -1, kind: Any = None) -> Any:
        if not isinstance(a, Ragged) or (axis is None and a.ndim > 1):
            raise unknown_length()
        (k,) = chosen_axes(a, axis)
        if k not in a.axes:
            return Ragged(call_handler(function, a.content, k), a.axes)
        own = {**a.axes, k: Axis(a.axes[k].length)}
        last = np.nan if a.dtype.kind in "fc" else extreme(a.dtype, "highest")
        return Ragged(call_handler(function, filled(Ragged(shifted(a.content, k, a.axes[k]), own), (k,), last), k), own)

    return order


# what does not belong to the array comes last, after its equals: a sort keeps their order
covers_ragged(np.sort)(_ordering(np.sort))
covers_ragged(np.argsort)(_ordering(np.argsort))


@covers_ragged(np.searchsorted)
def _searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    if not isinstance(a, Ragged):
        return elementwise(np.searchsorted, (a, v), {"side": side})
    if isinstance(v, Ragged):
        raise unknown_length()
    last = np.nan if a.dtype.kind == "f" else extreme(a.dtype, "highest")
    return call_handler(np.minimum, call_handler(np.searchsorted, filled(a, (0,), last), v, side), a.shape[0])


@covers_ragged(np.quantile)
def _quantile(a: Any, q: Any, axis: Any = None) -> Any:
    if not isinstance(a, Ragged) or isinstance(q, Ragged) or (axis is None and a.ndim > 1) or np.ndim(axis):
        raise unknown_length()
    (k,) = chosen_axes(a, axis)
    if k not in a.axes:
        if np.ndim(q):
            raise unknown_length()
        return Ragged(call_handler(np.quantile, a.content, q, k), axes_left(a, (k,), False))
    ordered, count = call_handler(np.sort, a, k), a.shape[k]
    content = ordered.content if k == 0 else call_handler(np.moveaxis, ordered.content, k, 0)
    place = call_handler(np.multiply, call_handler(np.maximum, count - 1, 0), q)
    below = call_handler(np.floor, place)
    picked: list[Any] = [
        taken(content, 0, call_handler(np.clip, index, 0, as_size(content.type.shape[0]) - 1))
        for index in (call_handler(np.int64, below), call_handler(np.int64, call_handler(np.ceil, place)), count - 1)
    ]
    low, high, last = picked
    there = call_handler(np.logical_and, count > 0, call_handler(np.logical_not, call_handler(np.isnan, last)))
    part = call_handler(np.subtract, place, below)
    if np.ndim(q):
        part = call_handler(np.reshape, part, (*part.shape, *[1] * (a.ndim - 1)))
    result = call_handler(np.where, there, low + (high - low) * part, np.nan)
    rest = axes_left(a, (k,), False)
    return Ragged(result, {j + np.ndim(q): own for j, own in rest.items()}) if rest else result


@covers_ragged(np.median)
def _median(a: Any, axis: Any = None) -> Any:
    return _quantile(a, 0.5, axis)


@covers_ragged(np.percentile)
def _percentile(a: Any, q: Any, axis: Any = None) -> Any:
    return _quantile(a, call_handler(np.divide, q, 100.0), axis)
