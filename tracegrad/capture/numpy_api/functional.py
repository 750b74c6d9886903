"""Functions that take functions: vectorize, piecewise, apply_along_axis, fromfunction, reduce.

Previous: scalar.py; next: scipy_special.py.

Each call of the user's function is captured in turn, so counts must be known.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from tracegrad.capture.contents import iota
from tracegrad.capture.masked import Masked, Selection, same_value, unknown_count
from tracegrad.capture.numpy_api.common import as_axis, as_bool, as_shape, covers, full, reshape, select, spread
from tracegrad.capture.numpy_api.elementwise import logical_not, logical_or
from tracegrad.capture.numpy_api.indexing import getitem
from tracegrad.capture.tracer import (
    HANDLERS,
    Tracer,
    asarray,
    broadcast_shapes,
    call_handler,
    call_user,
    cast_to,
    unsupported,
)

#: more calls than this are refused: each is captured by itself
_CALL_LIMIT = 1000


def _few(count: int, what: str) -> None:
    if count > _CALL_LIMIT:
        raise unsupported(
            f"{what} over {count} elements (at most {_CALL_LIMIT})",
            "write a loop `for i in range(n): y[i] = f(x[i])`, which is staged once, or use NumPy functions on arrays",
        )


def vectorize_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the function once per element."""
    if self.signature is not None:
        return _vectorized_over_cores(self, args, kwargs)
    names = [name for name in kwargs if name not in self.excluded]
    places = [k for k in range(len(args)) if k not in self.excluded]
    if len(places) < len(args) or kwargs:
        positional = args
        fixed = {name: value for name, value in kwargs.items() if name in self.excluded}

        def inner(*values: Any) -> Any:
            given = list(positional)
            for place, value in zip(places, values, strict=False):
                given[place] = value
            return call_user(self.pyfunc, *given, **dict(zip(names, values[len(places) :], strict=True)), **fixed)

        args = (*(args[k] for k in places), *(kwargs[name] for name in names))
    else:
        inner = functools.partial(call_user, self.pyfunc)
    arrays = [asarray(a) for a in args]
    shape = broadcast_shapes(*[a.type.shape for a in arrays])
    sizes = [operator.index(d) for d in shape]
    _few(int(np.prod(sizes)), "np.vectorize")
    arrays = [spread(a, shape) for a in arrays]
    results = [
        inner(*[getitem(a, place) if place else a for a in arrays]) for place in itertools.product(*map(range, sizes))
    ]
    if results and isinstance(results[0], tuple):
        return tuple(_collected([r[k] for r in results], shape) for k in range(len(results[0])))
    result = _collected(results, shape)
    return cast_to(result, np.dtype(self.otypes[0])) if self.otypes else result


def _collected(results: list[Any], shape: tuple[Any, ...]) -> Tracer:
    table = asarray(call_handler(np.array, results))
    return reshape(table, (*shape, *table.type.shape[1:]))


covers(np.vectorize.__call__)(vectorize_call)


@covers(np.piecewise, native=False)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tracer:
    """Evaluate each function on the elements that its condition selects, and select."""
    tracer = asarray(x)
    conditions = [as_bool(c) for c in (condlist if isinstance(condlist, list | tuple) else [condlist])]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"with {len(conditions)} condition(s), {len(conditions)} or {len(conditions) + 1} functions are expected"
        )
    if len(functions) > len(conditions):
        conditions.append(logical_not(functools.reduce(logical_or, conditions)))
    result = spread(full((), 0, tracer.dtype), tracer.type.shape)
    for condition, function in zip(conditions, functions, strict=True):
        mask = spread(condition, tracer.type.shape)
        value = function
        if callable(function):
            value = call_user(function, Masked(tracer.copy(), mask, tracer.ndim), *args, **kw)
        if isinstance(value, Masked):
            if not same_value(value.mask.value, mask.value):
                raise unknown_count("a function of np.piecewise that returns another selection")
            value = value.content
        elif asarray(value).type.size != 1:
            raise unknown_count("a function of np.piecewise that is not elementwise")
        result = select(mask, cast_to(asarray(value), tracer.dtype), result)
    return result


def _vectorized_over_cores(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function once per element of the axes in front of those that the signature names."""
    if kwargs or self.excluded:
        raise unsupported("np.vectorize with signature and keywords or excluded", "give the values in order")
    named = re.findall(r"\(([^()]*)\)", self.signature.partition("->")[0])
    cores = [len([name for name in part.split(",") if name.strip()]) for part in named]
    arrays = [asarray(a) for a in args]
    if len(cores) != len(arrays):
        raise TypeError(f"wrong number of positional arguments: expected {len(cores)}, got {len(arrays)}")
    fronts = [a.type.shape[: a.ndim - core] for a, core in zip(arrays, cores, strict=True)]
    front = broadcast_shapes(*fronts)
    _few(int(np.prod([operator.index(d) for d in front])), "np.vectorize")
    arrays = [spread(a, (*front, *a.type.shape[a.ndim - core :])) for a, core in zip(arrays, cores, strict=True)]
    results = [
        call_user(self.pyfunc, *[getitem(a, place) if place else a for a in arrays])
        for place in itertools.product(*(range(operator.index(d)) for d in front))
    ]
    if results and isinstance(results[0], tuple):
        return tuple(_collected([r[k] for r in results], front) for k in range(len(results[0])))
    return _collected(results, front)


@covers(np.apply_along_axis, native=False)
def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Tracer:
    """Call the function once per vector along the axis."""
    tracer = asarray(arr)
    place = as_axis(axis, tracer.ndim)
    outer = tracer.type.shape[:place] + tracer.type.shape[place + 1 :]
    sizes = [operator.index(d) for k, d in enumerate(tracer.shape) if k != place]
    _few(int(np.prod(sizes)), "np.apply_along_axis")
    results = []
    for index in itertools.product(*map(range, sizes)):
        vector = getitem(tracer, (*index[:place], slice(None), *index[place:]))
        results.append(asarray(call_user(func1d, vector, *args, **kwargs)))
    inner = results[0].type.shape
    stacked = reshape(asarray(call_handler(np.stack, results)), (*outer, *inner))
    count = len(outer)
    order = [*range(place), *range(count, count + len(inner)), *range(place, count)]
    return call_handler(np.transpose, stacked, order).copy()  # type: ignore[no-any-return]


@covers(np.apply_over_axes, native=False)
def apply_over_axes(func: Any, a: Any, axes: Any) -> Tracer:
    result = asarray(a)
    for axis in axes if isinstance(axes, tuple | list) else (axes,):
        before = result.ndim
        result = asarray(call_user(func, result, axis))
        if result.ndim != before:
            result = asarray(call_handler(np.expand_dims, result, axis))
    return result


@covers(np.fromfunction, native=False)
def fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    dims = as_shape(shape)
    return call_user(function, *[iota(dims, axis, dtype) for axis in range(len(dims))], **kwargs)


# ---- iterators over elements, and what joins by indexing


def _places(tracer: Tracer, what: str) -> list[tuple[int, ...]]:
    sizes = [operator.index(d) for d in tracer.shape]
    _few(int(np.prod(sizes)), what)
    return list(itertools.product(*map(range, sizes)))


@covers(np.ndenumerate, native=False)
def ndenumerate(arr: Any) -> Iterator[Any]:
    tracer = asarray(arr)
    return iter([(place, getitem(tracer, place)) for place in _places(tracer, "np.ndenumerate")])


@covers(np.nditer, native=False)
def nditer(op: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
    if args or kwargs or not isinstance(op, Tracer):
        raise unsupported("np.nditer of several arrays, or with flags", "use np.ndindex and index the arrays")
    return iter([getitem(op, place) for place in _places(op, "np.nditer")])


def _joined(key: Any, by_column: bool) -> Any:
    parts: list[Any] = []
    items = key if isinstance(key, tuple) else (key,)
    selection = next((item for item in items if isinstance(item, Selection)), None)
    if selection is not None:
        items = tuple(item if np.ndim(item) else reshape(asarray(item), (1,)) for item in items)
        return selection.call(np.c_ if by_column else np.concatenate, (items,), {})
    for item in items:
        if isinstance(item, str):
            raise unsupported("np.r_ and np.c_ with a string", "use np.concatenate with an axis")
        part = asarray(np.r_[item] if isinstance(item, slice) else item)
        if not part.ndim:
            part = reshape(part, (1, 1) if by_column else (1,))
        elif by_column and part.ndim == 1:
            part = reshape(part, (part.type.shape[0], 1))
        parts.append(part)
    return asarray(call_handler(np.concatenate, parts, axis=-1 if by_column else 0))


HANDLERS[np.r_] = functools.partial(_joined, by_column=False)
HANDLERS[np.c_] = functools.partial(_joined, by_column=True)


@covers(np.lib.stride_tricks.sliding_window_view, native=False)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tracer:
    if writeable:
        raise unsupported("sliding_window_view(writeable=True)", "write into the array itself")
    result = asarray(x)
    windows = tuple(window_shape) if isinstance(window_shape, tuple | list) else (window_shape,)
    axes = range(result.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    if len(windows) != len(tuple(axes)):
        raise ValueError("Must provide matching length window_shape and axis")
    for window, place in zip(windows, [as_axis(a, asarray(x).ndim) for a in axes], strict=True):
        count = operator.index(result.shape[place]) - window + 1
        if count < 1:
            raise ValueError("window shape cannot be larger than input array shape")
        rows = np.arange(count)[:, None] + np.arange(window)
        taken = call_handler(np.take, result, rows, axis=place)
        result = asarray(call_handler(np.moveaxis, taken, place + 1, -1))
    return result


_MISSING = object()


@covers(functools.reduce, native=False, always=True)
def reduce(function: Any, iterable: Any, initial: Any = _MISSING, /) -> Any:
    items = iter(iterable)
    if initial is _MISSING:
        initial = next(items, _MISSING)
        if initial is _MISSING:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in items:
        initial = call_user(function, initial, item)
    return initial


@covers(itertools.accumulate, native=False, always=True)
def accumulate(iterable: Any, function: Any = None, *, initial: Any = None) -> Iterator[Any]:
    """Yield the totals as they are asked for, of the items that there are by then."""
    items = iter(iterable)
    for total in items if initial is None else [initial]:
        yield total
        for item in items:
            total = total + item if function is None else call_user(function, total, item)
            yield total
