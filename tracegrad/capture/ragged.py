"""Arrays with an axis whose length is found when the program runs: `x[:i]`, `A[k + 1:, k]`, `np.zeros(i)` in a loop.

Previous: masked.py; next: numpy_api/.

A Ragged keeps a content of a fixed size and, for each such axis, where its elements start and how many there are.
Elementwise operations work on the whole content; reductions and products leave the other elements out by a select;
writes go through a select too. Lengths that must agree and may differ are compared when the program runs. What cannot
be done so is refused with NeedsPythonValue, and the loop around is unrolled where that is possible.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tracegrad import ops
from tracegrad.capture.context import current, user_span
from tracegrad.capture.linear import difference, ends, quotient
from tracegrad.capture.masked import ELEMENTWISE, LEADING, OF_ELEMENTS, Masked, Selection, cutoff, extreme, same_value
from tracegrad.capture.memory import UNKNOWN
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import (
    OPERATORS,
    MaybeNone,
    Tracer,
    asarray,
    call_handler,
    cast_to,
    check,
    from_value,
    make_weak,
    resolve_content,
    stage,
)
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Value
from tracegrad.ir.types import I64, Dim, is_integer

F = TypeVar("F", bound=Callable[..., Any])

#: function -> what it does where one of its arguments is ragged
_HANDLERS: dict[Any, Callable[..., Any]] = {}
_signature = functools.cache(inspect.signature)


def _does(*functions: Any) -> Callable[[F], F]:
    def decorate(handler: F) -> F:
        for function in functions:
            _HANDLERS[function] = handler
        return handler

    return decorate


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The elements of an axis that belong to the array: from `start` to before `stop`, as ints, sizes or traced ints,
    in this order or backwards."""

    stop: Any
    start: Any = 0
    backwards: bool = False

    @property
    def length(self) -> Any:
        return self.stop if _is_zero(self.start) else self.stop - self.start


class Stride(NamedTuple):
    """Of how many elements one is taken, and where in the content the first of these stands, if that is known."""

    step: int
    first: int | None


class Ragged(Selection):
    """An array whose `axes` (axis -> Axis) hold fewer elements than those of `content`, perhaps a view."""

    __slots__ = ("axes",)

    def __init__(self, content: Tracer, axes: dict[int, Axis]) -> None:
        super().__init__(content)
        self.axes = axes

    def as_tracer(self) -> Tracer:
        raise unknown_length()

    def __repr__(self) -> str:
        return f"<an array of {self.ndim} dimensions and a length known only when the compiled function runs>"

    @property
    def ndim(self) -> int:
        return self.content.ndim

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.axes[k].length if k in self.axes else d for k, d in enumerate(self.content.shape))

    @property
    def size(self) -> Any:
        total: Any = 1
        for length in self.shape:
            total = total * length
        return total

    def __len__(self) -> int:
        return operator.index(self.shape[0])

    def __iter__(self) -> Any:
        raise unknown_length()

    def forwards(self) -> Ragged:
        """Return the same array with all axes in the order of the content; a copy when they are not."""
        content, own = self.content, dict(self.axes)
        for k, axis in self.axes.items():
            if axis.backwards:
                index = call_handler(np.subtract, axis.stop - 1, _positions(content.type.shape[k]))
                content = _taken(content, k, call_handler(np.maximum, index, 0))
                own[k] = Axis(axis.length)
        return self if content is self.content else Ragged(content, own)

    def copy(self, order: str = "C") -> Ragged:
        return Ragged(self.content.copy(), self.axes)

    def astype(self, dtype: Any, **kwargs: Any) -> Ragged:
        return Ragged(self.content.astype(dtype, **kwargs), self.axes)

    def fill(self, value: Any) -> None:
        self.write(value)

    def sort(self, axis: int = -1) -> None:
        self.write(self.call(np.sort, (self, axis), {}))

    def partition(self, kth: Any, axis: int = -1) -> None:
        self.sort(axis)

    def view(self, *args: Any) -> Ragged:
        return Ragged(self.content.view(*args), self.axes)

    def item(self, *index: Any) -> Any:
        if not index:
            return self.fixed((1,) * self.ndim).item()
        key = index[0] if len(index) == 1 else index
        scalar = self[key] if isinstance(key, tuple) else self.reshape(-1)[key]
        return make_weak(scalar)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements stand together in memory."""
        *_, last = self.axes
        before = [d for k, d in enumerate(self.content.type.shape) if k < last]
        return self.content.is_contiguous and not self.axes[last].backwards and all(d == 1 for d in before)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler = _HANDLERS.get(np.nonzero if function is np.where and len(args) == 1 else function)
        if handler is not None:
            try:
                _signature(handler).bind(*args, **kwargs)
            except TypeError:
                raise unknown_length() from None
            return handler(*(args if function in _VIEWS else _all_forwards(args)), **kwargs)
        args = _all_forwards(args)
        place = OF_ELEMENTS.get(function, len(args))
        own = args[place] if place < len(args) else None
        if isinstance(own, Ragged) and sum(isinstance(a, Ragged) for a in args) == 1:
            result = call_handler(function, *args[:place], own.content, *args[place + 1 :], **kwargs)
            return Ragged(result, own.axes)
        is_ufunc = isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None
        if (is_ufunc or function in ELEMENTWISE) and not set(kwargs) - {"_python"}:
            return _elementwise(function, args, kwargs)
        raise unknown_length()

    # ---- indexing

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Ragged) and key.ndim == self.ndim == 1 and key.dtype.kind == "b":
            return self._selected(key)
        if isinstance(key, Selection) or _is_index_array(key):
            return self._at_places(key)
        inner, axes, steps = self._resolve(key)
        part = call_handler(operator.getitem, self.content, inner)
        if isinstance(part, Ragged):
            axes = {**part.axes, **axes}
            part = part.content
        if not axes:
            return part
        part = Ragged(part, axes)
        for place, stride in steps.items():
            part = part.thinned(place, stride)
        return part

    def _at_places(self, key: Any) -> Any:
        """Return the elements at the places in an array of ints; that they are there is checked at run time."""
        if isinstance(key, Masked) and (key.ndim > 1 or self.ndim > 1):
            key = key.compressed()
        own = self.forwards()
        part: Any = key.forwards() if isinstance(key, Ragged) else key
        places = part.content if isinstance(part, Selection) else asarray(part)
        if not is_integer(places.dtype) or 0 not in own.axes or (isinstance(part, Ragged) and part.ndim > 1):
            raise unknown_length("an index array or a mask for a part of unknown length")
        length = own.axes[0].length
        places = call_handler(np.where, call_handler(np.less, places, 0), places + length, places)
        found = call_handler(np.logical_and, places >= 0, places < length)
        if isinstance(part, Selection):
            inside = _mask(part, (0,)) if isinstance(part, Ragged) else part.mask
            found = call_handler(np.logical_or, found, call_handler(np.logical_not, inside))
            places = call_handler(np.where, inside, places, 0)
        check(call_handler(np.all, found), "IndexError", _OUTSIDE)
        content = _taken(_shifted(own.content, 0, own.axes[0]), 0, places)
        if isinstance(part, Masked):
            return part.like(content)
        rest = {k - 1 + places.ndim: axis for k, axis in own.axes.items() if k}
        if isinstance(part, Ragged):
            rest[0] = part.axes[0]
        return Ragged(content, rest) if rest else content

    def thinned(self, k: int, stride: Stride) -> Ragged:
        """Return every so many of the elements along an axis: a view where they begin at a place that is known."""
        own, step = self.axes[k], stride.step
        if stride.first is not None:
            view = call_handler(operator.getitem, self.content, _at(k, slice(stride.first, None, step)))
            length = _plus(own.stop, step - 1 - stride.first) // step
            if not _at_least(length, 0):
                length = make_weak(call_handler(np.maximum, length, 0))
            return Ragged(view, {**self.axes, k: Axis(length)})
        forwards = self.forwards()
        content = _shifted(forwards.content, k, forwards.axes[k])
        thin = call_handler(operator.getitem, content, _at(k, slice(None, None, step))).copy()
        for storage in (thin._storage, self.content.root._storage):
            current().pin(storage, "every so many elements of a part that begins at a traced place: `.copy()` it")
        return Ragged(thin, {**forwards.axes, k: Axis((own.length + (step - 1)) // step)})

    def _selected(self, key: Ragged) -> Masked:
        content, mask, _ = self._under(key)
        return Masked(content.copy(), mask, 1)

    def _under(self, key: Ragged) -> tuple[Tracer, Tracer, dict[int, Axis]]:
        """Return a content, which of its elements a mask selects, and which are those of the array."""
        (content, mask), axes = _align([self.forwards(), key.forwards()])
        if axes:
            mask = call_handler(np.logical_and, mask, _mask(Ragged(mask, axes), axes))
        return content, mask, axes

    def _mask_of(self, places: Masked) -> Ragged:
        """Return the mask of which `places` is the `np.nonzero`."""
        size, (axis,) = places.mask.type.shape[0], self.axes.values()
        beyond = call_handler(np.logical_and, places.mask, _positions(size) >= axis.length)
        check(call_handler(np.logical_not, call_handler(np.any, beyond)), "IndexError", _OUTSIDE)
        if not _is_zero(axis.start) or size != self.content.type.shape[0]:
            raise unknown_length("an index array or a mask for a part of unknown length")
        return Ragged(places.mask, {0: Axis(axis.length)})

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, Selection):
            self._write_at(key, value)
            return
        inner, axes, _ = self._resolve(key)
        if axes:
            self[key].write(value)
        else:
            call_handler(operator.setitem, self.content, inner, value)

    def _write_at(self, key: Selection, value: Any) -> None:
        """Write into the elements that a mask selects: a number, or what has been selected by the same mask."""
        if isinstance(key, Masked) and key.ndim == self.ndim == 1 and key.are_positions(0):
            key = self._mask_of(key)
        if not isinstance(key, Ragged) or key.dtype.kind != "b" or key.ndim != 1 or self.ndim != 1:
            raise unknown_length("an index array or a mask for a part of unknown length")
        content, mask, axes = self._under(key)
        if isinstance(value, Masked) and same_value(value.mask.value, mask.value):
            value = value.content
        elif isinstance(value, Selection) or asarray(value).ndim:
            raise unknown_length("elements of a part of unknown length, written by others than a number or their like")
        new = cast_to(call_handler(np.where, mask, value, content), self.dtype)
        self.write(Ragged(new, axes) if axes else new)

    def _resolve(self, key: Any) -> tuple[tuple[Any, ...], dict[int, Axis], dict[int, Stride]]:
        """Return a key for the content, the ragged axes of what it selects, and the steps other than 1 along these."""
        parts = list(key) if isinstance(key, tuple) else [key]
        missing = self.ndim - sum(1 for part in parts if part is not None and part is not Ellipsis)
        if missing < 0:
            raise IndexError(f"too many indices for array: array is {self.ndim}-dimensional")
        dots = [k for k, part in enumerate(parts) if part is Ellipsis] or [len(parts)]
        parts[dots[0] : dots[0] + 1] = [slice(None)] * missing
        inner: list[Any] = []
        axes: dict[int, Axis] = {}
        steps: dict[int, Stride] = {}
        own = place = 0
        for part in parts:
            if part is None:
                inner.append(None)
                place += 1
                continue
            axis = self.axes.get(own)
            own += 1
            if isinstance(part, slice):
                if axis is not None:
                    axes[place] = narrow(axis, part)
                    if (stride := stride_of(axis, part)) is not None:
                        steps[place] = stride
                inner.append(part if axis is None else slice(None))
                place += 1
            elif _is_index(part):
                inner.append(part if axis is None else _position(part, axis))
            else:
                raise unknown_length("an index array or a mask for a part of unknown length")
        return tuple(inner), axes, steps

    def picked(self, order: Ragged) -> Ragged:
        """Return the elements of a single axis at the positions in an array that is as long."""
        content = _shifted(self.forwards().content, 0, self.forwards().axes[0])
        return Ragged(_taken(content, 0, order.content), {0: order.axes[0]})

    def write(self, value: Any) -> None:
        """Write a value into the elements, as `self[...] = value` does."""
        content, shape = self.content, self.content.type.shape
        if isinstance(value, Ragged) and _is_same(self, value):
            return  # `x[:i] += v` has written already
        new = value.forwards() if isinstance(value, Ragged) else Ragged(asarray(value), {})
        if new.ndim > self.ndim:
            raise unknown_length()
        for axis in set(self.axes) | {k + self.ndim - new.ndim for k in new.axes}:
            own = axis - self.ndim + new.ndim
            if own >= 0:
                new = _place(new, own, self.axes.get(axis), shape[axis])
        result = call_handler(np.where, _mask(self, self.axes), cast_to(new.content, self.dtype), content)
        if result.type.shape != shape:
            raise unknown_length()
        content.assign(cast_to(result, self.dtype).value)

    def has_length(self, k: int, length: Any) -> bool:
        """Return whether an axis surely is of a length."""
        own = self.axes[k].length if k in self.axes else as_size(self.content.type.shape[k])
        return _distance(own, length) == 0

    def laid_out(self, shape: tuple[Dim, ...], axes: tuple[int, ...]) -> Ragged:
        """Return the same array with a content of a shape, its elements from 0 on, and all of `axes` ragged."""
        array = self.forwards()
        content = array.content
        if content._view is not None:
            content = content.copy()
        own: dict[int, Axis] = {}
        for k in axes:
            axis = array.axes.get(k, Axis(as_size(content.type.shape[k])))
            content, own[k] = _shifted(content, k, axis), Axis(axis.length)
            if not _at_least(as_size(shape[k]) - axis.length, 0):
                check(call_handler(np.less_equal, axis.length, as_size(shape[k])), "ValueError", _UNEQUAL)
            if _holds(content.type.shape[k], shape[k]):
                missing = as_size(shape[k] - content.type.shape[k])
                widths = [(0, missing if j == k else 0) for j in range(content.ndim)]
                content = call_handler(np.pad, content, widths)
            else:
                content = _cut(content, k, shape[k]).copy()
        return Ragged(content, own)

    def carried(self) -> tuple[Tracer, list[Any]]:
        """Return a content whose elements begin at 0, and the lengths, as values that loops carry.

        Raises:
            NeedsPythonValue: the array is a view, which would lose its connection.
        """
        if self.content._view is not None:
            raise unknown_length("a name bound to a view in a loop or branch (help: copy it, `.copy()`)")
        array = self.forwards()
        content = array.content
        for k, axis in array.axes.items():
            content = _shifted(content, k, axis)
        return content, [axis.length for axis in array.axes.values()]

    def fixed(self, shape: tuple[Any, ...]) -> Tracer:
        """Return the array as one of a fixed shape, checked when the program runs.

        Raises:
            NeedsPythonValue: it does not fit.
        """
        array = self.forwards()
        content = array.content
        for k, axis in array.axes.items():
            place = k - self.ndim + len(shape)
            if place < 0 or not _holds(shape[place], content.type.shape[k]):
                raise unknown_length()
            _require_equal(axis.length, as_size(shape[place]))
            content = _cut(_shifted(content, k, axis), k, shape[place])
        return content


@dataclass(frozen=True, slots=True)
class Cut:
    """Makes a result of a length that is known when the program has run: of a content, and the length of each axis."""

    axes: tuple[int, ...]

    def __call__(self, content: Any, *lengths: Any) -> Any:
        known = dict(zip(self.axes, lengths, strict=True))
        part = content[tuple(slice(known.get(k)) for k in range(max(self.axes) + 1))]
        return part if part.shape == content.shape else part.copy()

    def text(self, content: str, *lengths: str) -> str:
        """Return the same as Python text."""
        known = dict(zip(self.axes, lengths, strict=True))
        return f"{content}[{', '.join(f':{known.get(k, str())}' for k in range(max(self.axes) + 1))}]"


LEADING.append(lambda content, length: Ragged(content, {0: Axis(length)}))


def _all_forwards(args: Any) -> Any:
    if isinstance(args, Selection):
        return (args.compressed() if isinstance(args, Masked) else args).forwards()
    if type(args) is tuple:
        return tuple(map(_all_forwards, args))
    return list(map(_all_forwards, args)) if isinstance(args, list) else args


def unknown_length(
    found: str = "an array whose length is known only at run time, where it must be known before",
    help: str = "pass the bound as a Python int, or compute it from floats by which no derivative is taken, use bounds "
    "at a fixed distance (`x[i:i + 3]`), or the whole axis with a mask: np.where(np.arange(n) < i, x, 0)",
) -> Exception:
    """Return the error for what needs the length of a ragged axis."""
    return NeedsPythonValue(
        "the length of an array depends on traced values", code="TG118", span=user_span(), found=found, help=help
    )


# ---- traced ints


def _value(number: Any) -> Value:
    return cast_to(asarray(number), I64).value


def span_of(number: Any) -> tuple[Dim, Dim] | None:
    """Return the least and greatest that an int, size or traced int gets in the loops around, None when not known."""
    if isinstance(number, int):
        return number, number
    return ends(_value(number), current().ranges)


def _at_least(number: Any, least: int) -> bool:
    """Return whether a number is surely `least` or more."""
    found = span_of(number)
    return found is not None and decide(found[0] - least, ">=")


def _plus(x: Any, y: Any) -> Any:
    return y if _is_zero(x) else x if _is_zero(y) else x + y


def _is_zero(number: Any) -> bool:
    return isinstance(number, int) and number == 0


def _is_index(part: Any) -> bool:
    if isinstance(part, bool | np.bool_ | list | tuple):
        return False
    tracer = asarray(part)
    return not tracer.ndim and is_integer(tracer.dtype)


def _is_index_array(part: Any) -> bool:
    if isinstance(part, tuple | slice) or part is None or part is Ellipsis:
        return False
    tracer = asarray(part)
    return bool(tracer.ndim) and is_integer(tracer.dtype)


def _number(part: Any) -> Any:
    """Return a bound or an index as an int, a size or a traced Python int."""
    if hasattr(part, "dim") or type(part) is int:
        return part
    if not _is_index(part):
        raise TypeError("only integer scalar arrays can be converted to a scalar index")
    tracer = asarray(part)
    return int(tracer.concrete) if tracer.concrete is not None else make_weak(tracer)


def _front(bound: Any, size: Any, least: int) -> Any:
    """Return a bound of a slice counted from the front and cut to least ... size + least."""
    bound = _number(bound)
    if not _at_least(bound, 0):
        found = span_of(bound)
        if found is not None and decide(found[1], "<"):
            bound = bound + size
        else:
            bound = make_weak(call_handler(np.where, bound < 0, bound + size, bound))
        if not _at_least(bound, least):
            bound = make_weak(call_handler(np.maximum, bound, least))
    most = _plus(size, least)
    return bound if _at_least(most - bound, 0) else make_weak(call_handler(np.minimum, bound, most))


def settled(part: slice, size: Any) -> slice:
    """Return a slice of an axis whose bounds are surely there or not: one that may be None is the end that it stands
    for where it is."""
    backwards = part.step is not None and part.step < 0
    first, last = (size - 1, -1 - size) if backwards else (0, size)
    return slice(_end(part.start, first), _end(part.stop, last), part.step)


def _end(bound: Any, end: Any) -> Any:
    if not isinstance(bound, MaybeNone):
        return bound
    return make_weak(call_handler(np.where, bound.present, bound.some, end))


def stride_of(axis: Axis, part: slice) -> Stride | None:
    """Return which of the elements from its first to its last a slice takes, None where it takes all of them."""
    step = 1 if part.step is None else operator.index(part.step)
    if abs(step) == 1:
        return None
    start = 0 if part.start is None else part.start
    known = step > 0 and not axis.backwards and type(axis.start) is int and type(start) is int and start >= 0
    return Stride(abs(step), axis.start + start if known else None)


def narrow(axis: Axis, part: slice) -> Axis:
    """Return the elements of an axis from the first to the last that a slice selects; `Ragged.thinned` takes every
    second one, third one and so on."""
    step = 1 if part.step is None else operator.index(part.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    size = axis.length
    part = settled(part, size)
    if step > 0:
        low = 0 if part.start is None else _front(part.start, size, 0)
        high = size if part.stop is None else _front(part.stop, size, 0)
    else:
        low = 0 if part.stop is None else _front(part.stop, size, -1) + 1
        high = size if part.start is None else _front(part.start, size, -1) + 1
    if not _is_zero(low) and not _at_least(high - low, 0):
        high = make_weak(call_handler(np.maximum, high, low))
    if axis.backwards:
        start = axis.start if high is size else axis.stop - high
        return Axis(axis.stop if _is_zero(low) else axis.stop - low, start, step > 0)
    return Axis(axis.stop if high is size else _plus(axis.start, high), _plus(axis.start, low), step < 0)


def _position(index: Any, axis: Axis) -> Any:
    """Return where an element stands in the content; that there is one is checked when the program runs."""
    index = _number(index)
    if not _at_least(index, 0):
        found = span_of(index)
        negative = found is not None and decide(found[1], "<")
        index = index + axis.length if negative else call_handler(np.where, index < 0, index + axis.length, index)
        if not _at_least(index, 0):
            check(call_handler(np.greater_equal, index, 0), "IndexError", _OUTSIDE)
    if not _at_least(axis.length - 1 - index, 0):
        check(call_handler(np.less, index, axis.length), "IndexError", _OUTSIDE)
    return axis.stop - 1 - index if axis.backwards else _plus(axis.start, index)


_OUTSIDE = "an index is out of bounds for a part whose length is known only at run time"
_UNEQUAL = (
    "operands could not be broadcast together: the lengths of slices differ (one of length 1 is not spread where its "
    "length is known only at run time)"
)


def _distance(x: Any, y: Any) -> Dim | None:
    """Return x - y, None when it is not known."""
    if isinstance(x, int) and isinstance(y, int):
        return x - y
    a, b = _value(x), _value(y)
    return 0 if same_value(a, b) else difference(a, b)


def _require_equal(x: Any, y: Any, message: str = _UNEQUAL) -> None:
    """Check that two numbers are equal, when the program runs where it is not known before.

    Raises:
        NeedsPythonValue: they surely differ.
    """
    distance = _distance(x, y)
    if distance is None:
        check(call_handler(np.equal, x, y), "ValueError", message)
    elif decide(distance, "!="):
        raise unknown_length("parts of different lengths")


def _is_same_start(x: Axis, y: Axis) -> bool:
    return (
        x.start is y.start or (_is_zero(x.start) and _is_zero(y.start)) or same_value(_value(x.start), _value(y.start))
    )


def measured(shape: Any) -> tuple[Any, dict[int, Axis]]:
    """Return a shape with the greatest that they can get for sizes known only at run time, and the axes of these."""
    if not isinstance(shape, tuple | list):
        (dim,), axes = measured((shape,))
        return dim, axes
    dims = list(shape)
    axes = {}
    for k, length in enumerate(dims):
        if not isinstance(length, Tracer) or length.ndim or not is_integer(length.dtype) or length.concrete is not None:
            continue
        if static_value(length.value) is not None or (found := span_of(length)) is None:
            continue
        if resolve_content(length) is None:
            if not decide(found[0], ">="):
                length = make_weak(call_handler(np.maximum, length, 0))
            dims[k], axes[k] = as_size(found[1]), Axis(length)
    return tuple(dims), axes


def count_between(first: Tracer, last: Tracer, step: int) -> Any:
    """Return how many numbers are in range(first, last, step), of traced ints or floats made of these; None elsewhere.
    It is negative where there are none."""
    if first.ndim or last.ndim or step == 0:
        return None
    sign = 1 if step > 0 else -1
    distance = call_handler(np.subtract, last, first) * sign + (abs(step) - 1)
    terms = quotient(asarray(distance).value, abs(step))
    if terms is None:
        return call_handler(np.floor_divide, distance, abs(step)) if is_integer(distance.dtype) else None
    if any(value is not None and not is_integer(value.dtype) for value in terms):
        return None
    total: Any = as_size(terms.pop(None, 0))
    for value, coefficient in terms.items():
        assert value is not None
        total = _plus(total, from_value(value, weak=True) * as_size(coefficient))
    return total


# ---- moving and masking contents


def _positions(size: Dim) -> Any:
    return from_value(stage(ops.iota, shape=(size,), dtype=I64, axis=0))


def _mask(array: Ragged, axes: Sequence[int] | dict[int, Axis]) -> Any:
    """Return which elements of the content belong to the array, along some axes."""
    mask: Any = None
    for k in axes:
        axis = array.axes[k]
        size = array.content.type.shape[k]
        positions = _positions(size)
        inside = None if _distance(axis.stop, as_size(size)) == 0 else call_handler(np.less, positions, axis.stop)
        if not _is_zero(axis.start) or inside is None:
            after = call_handler(np.greater_equal, positions, axis.start)
            inside = after if inside is None else call_handler(np.logical_and, after, inside)
        column = call_handler(np.reshape, inside, (-1, *[1] * (array.ndim - k - 1)))
        mask = column if mask is None else call_handler(np.logical_and, mask, column)
    return mask


def _filled(array: Any, axes: Sequence[int], fill: Any) -> Tracer:
    """Return the content with a value in the elements that do not belong to the array, along some axes."""
    axes = [k for k in axes if k in array.axes]
    result: Tracer = call_handler(np.where, _mask(array, axes), array.content, fill) if axes else array.content
    return result


def _at(k: int, part: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * k, part)


def _taken(content: Tracer, k: int, index: Any) -> Tracer:
    """Return the elements at some positions of axis k."""
    if content.type.shape[k] == 0:
        shape = (*content.shape[:k], index.shape[0], *content.shape[k + 1 :])
        empty: Tracer = call_handler(np.broadcast_to, cast_to(asarray(0), content.dtype), shape)
        return empty
    taken: Tracer = call_handler(operator.getitem, content, _at(k, index))
    return taken


def _shifted(content: Tracer, k: int, axis: Axis) -> Tracer:
    """Return a content in which the elements of axis k begin at 0."""
    if _is_zero(axis.start):
        return content
    size = content.type.shape[k]
    if isinstance(axis.start, int):
        return _cut(content, k, size, axis.start)
    found = span_of(axis.start)
    least = found[0] if found is not None and decide(found[0], ">=") else 0
    last = as_size(size) - 1
    index = call_handler(np.minimum, call_handler(np.add, _positions(size - least), axis.start), last)
    return _taken(content, k, index)


def _cut(content: Tracer, k: int, stop: Dim, start: Dim = 0) -> Tracer:
    if content.type.shape[k] == stop and start == 0:
        return content
    part: Tracer = call_handler(operator.getitem, content, _at(k, slice(as_size(start), as_size(stop))))
    return part


def _holds(inner: Dim, outer: Dim) -> bool:
    return inner == outer or decide(outer - inner, ">=")


def _smallest(dims: Sequence[Dim]) -> Dim:
    least = dims[0]
    for dim in dims[1:]:
        least = least if _holds(least, dim) else dim
    return least


def _place(value: Ragged, k: int, axis: Axis | None, size: Dim) -> Ragged:
    """Return a value with its axis k laid out as in an array that it is written into: at `axis`, or all of `size`."""
    own, dim = value.axes.get(k), value.content.type.shape[k]
    if own is None and dim == 1:
        return value
    length = own.length if own is not None else as_size(dim)
    _require_equal(length, axis.length if axis is not None else as_size(size))
    rest = {j: a for j, a in value.axes.items() if j != k}
    content = value.content
    start = axis.start if axis is not None else 0
    if own is not None:
        if axis is not None and not axis.backwards and dim == size and _is_same_start(own, axis):
            return Ragged(content, rest)
        content = _shifted(content, k, own)
    inner = content.type.shape[k]
    if axis is not None and axis.backwards:
        index = call_handler(np.subtract, axis.stop - 1, _positions(size))
    elif _is_zero(start) and _holds(size, inner):
        return Ragged(_cut(content, k, size), rest)
    else:
        index = call_handler(np.subtract, _positions(size), start)
    return Ragged(_taken(content, k, call_handler(np.clip, index, 0, as_size(inner) - 1)), rest)


def _is_same(target: Ragged, value: Ragged) -> bool:
    """Return whether two are surely the same part of one array."""
    ours, theirs = target.content, value.content
    if set(target.axes) != set(value.axes) or target.dtype != value.dtype:
        return False
    if ours is not theirs:
        a, b = ours._view, theirs._view
        if a is None or b is None or a.base is not b.base or a.key is None or b.key is None or len(a.key) != len(b.key):
            return False
        if not all(p.same(q) for p, q in zip(a.key, b.key, strict=True)):
            return False
    return all(
        _is_same_start(axis, value.axes[k])
        and axis.backwards is value.axes[k].backwards
        and _distance(axis.length, value.axes[k].length) == 0
        for k, axis in target.axes.items()
    )


# ---- elementwise


def _align(operands: list[Ragged]) -> tuple[list[Tracer], dict[int, Axis]]:
    """Return contents that broadcast, and the ragged axes of what is computed from them."""
    ndim = max(o.ndim for o in operands)
    contents = [o.content for o in operands]
    axes: dict[int, Axis] = {}
    for last in range(1, ndim + 1):
        having = [
            (j, o.ndim - last)
            for j, o in enumerate(operands)
            if o.ndim >= last and (o.ndim - last in o.axes or contents[j].type.shape[o.ndim - last] != 1)
        ]
        ragged = [(j, k, operands[j].axes[k]) for j, k in having if k in operands[j].axes]
        if not ragged:
            continue
        first = ragged[0][2]
        fixed = [contents[j].type.shape[k] for j, k in having if k not in operands[j].axes]
        sizes = [contents[j].type.shape[k] for j, k in having]
        if fixed:
            for j, k, axis in ragged:
                _require_equal(axis.length, as_size(fixed[0]))
                content = _shifted(contents[j], k, axis)
                if not _holds(fixed[0], content.type.shape[k]):
                    raise unknown_length()
                contents[j] = _cut(content, k, fixed[0])
            continue
        for _, _, axis in ragged[1:]:
            _require_equal(axis.length, first.length)
        if all(_is_same_start(axis, first) for _, _, axis in ragged) and all(size == sizes[0] for size in sizes):
            axes[ndim - last] = first
            continue
        for j, k, axis in ragged:
            contents[j] = _shifted(contents[j], k, axis)
        least = _smallest([contents[j].type.shape[k] for j, k in having])
        for j, k, _ in ragged:
            contents[j] = _cut(contents[j], k, least)
        axes[ndim - last] = Axis(first.length)
    return contents, axes


def _elementwise(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    operands = [_as_operand(a) for a in args]
    contents, axes = _align([o for o in operands if o is not None])
    rest = iter(contents)
    result = call_handler(
        function, *[a if o is None else next(rest) for a, o in zip(args, operands, strict=True)], **kwargs
    )
    return Ragged(result, axes) if axes else result


def _as_operand(value: Any) -> Ragged | None:
    """Return an operand that has axes, None for the others."""
    if isinstance(value, Masked):
        value = value.compressed()
    if isinstance(value, Ragged):
        return value
    if value is None or isinstance(value, bool | int | float | complex | np.generic) or hasattr(value, "dim"):
        return None
    tracer = asarray(value)
    return Ragged(tracer, {}) if tracer.ndim else None


# ---- reductions

_FILLS: dict[Any, Any] = {
    np.sum: 0,
    np.nansum: 0,
    np.prod: 1,
    np.any: False,
    np.all: True,
    np.count_nonzero: 0,
    np.max: "lowest",
    np.min: "highest",
}


def _chosen(array: Ragged, axis: Any) -> tuple[int, ...]:
    every = tuple(range(array.ndim))
    return every if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, array.ndim)


def _without(array: Ragged, gone: Sequence[int], keepdims: bool) -> dict[int, Axis]:
    """Return the ragged axes that are left after a reduction."""
    rest = {k: axis for k, axis in array.axes.items() if k not in gone}
    return rest if keepdims else {k - sum(1 for g in gone if g < k): axis for k, axis in rest.items()}


def _require_some(array: Ragged, axes: Sequence[int], what: str) -> None:
    for k in axes:
        if k in array.axes and not _at_least(array.axes[k].length, 1):
            check(call_handler(np.greater, array.axes[k].length, 0), "ValueError", what)


def _reduction(function: Any, fill: Any) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, **kwargs: Any) -> Any:
        if not isinstance(a, Ragged) or set(kwargs) - {"keepdims", "dtype"}:
            raise unknown_length()
        axes = _chosen(a, axis)
        value = fill
        if isinstance(fill, str):
            _require_some(a, axes, f"zero-size array to reduction operation {function.__name__} which has no identity")
            value = extreme(a.dtype, fill)
        result = call_handler(function, _filled(a, axes, value), axis=axes, **kwargs)
        rest = _without(a, axes, kwargs.get("keepdims", False))
        return Ragged(result, rest) if rest else result

    return reduce


for _function, _fill in _FILLS.items():
    _HANDLERS[_function] = _reduction(_function, _fill)
for _builtin, _function in (
    (sum, np.sum),
    (math.fsum, np.sum),
    (math.prod, np.prod),
    (max, np.max),
    (min, np.min),
    (any, np.any),
    (all, np.all),
):
    _HANDLERS[_builtin] = _HANDLERS[_function]
for _ufunc, _function in ((np.add, np.sum), (np.multiply, np.prod), (np.maximum, np.max), (np.minimum, np.min)):
    _HANDLERS[_ufunc.reduce] = lambda a, axis=0, _reduce=_HANDLERS[_function], **kwargs: _reduce(a, axis, **kwargs)


def _moment(function: Any) -> Callable[..., Any]:
    def moment(a: Any, axis: Any = None, **kwargs: Any) -> Any:
        if not isinstance(a, Ragged) or set(kwargs) - {"keepdims", "ddof", "dtype"}:
            raise unknown_length()
        axes = _chosen(a, axis)
        inside = [k for k in axes if k in a.axes]
        where = call_handler(np.broadcast_to, _mask(a, inside), a.content.shape) if inside else True
        result = call_handler(function, a.content, axis=axes, where=where, **kwargs)
        rest = _without(a, axes, kwargs.get("keepdims", False))
        return Ragged(result, rest) if rest else result

    return moment


for _function in (np.mean, np.var, np.std):
    _HANDLERS[_function] = _moment(_function)


def _extremum(function: Any, fill: str) -> Callable[..., Any]:
    def find(a: Any, axis: Any = None) -> Any:
        if not isinstance(a, Ragged) or (a.ndim > 1 and axis is None):
            raise unknown_length()
        (k,) = _chosen(a, axis)
        _require_some(a, (k,), f"attempt to get {function.__name__} of an empty sequence")
        if k in a.axes:
            a = Ragged(_shifted(a.content, k, a.axes[k]), {**a.axes, k: Axis(a.axes[k].length)})
        result = call_handler(function, _filled(a, (k,), extreme(a.dtype, fill)), axis=k)
        rest = _without(a, (k,), False)
        return Ragged(result, rest) if rest else result

    return find


_HANDLERS[np.argmax] = _extremum(np.argmax, "lowest")
_HANDLERS[np.argmin] = _extremum(np.argmin, "highest")


@_does(np.ptp)
def _ptp(a: Any, axis: Any = None) -> Any:
    return call_handler(np.max, a, axis) - call_handler(np.min, a, axis)


def _cumulative(function: Any, default: Any = None) -> Callable[..., Any]:
    def cumulate(a: Any, axis: Any = default, **kwargs: Any) -> Any:
        if not isinstance(a, Ragged) or (a.ndim > 1 and axis is None) or kwargs:
            raise unknown_length()
        (k,) = _chosen(a, axis)
        if k not in a.axes:
            return Ragged(function(a.content, k), a.axes)
        own = a.axes[k]
        return Ragged(function(_shifted(a.content, k, own), k), {**a.axes, k: Axis(own.length)})

    return cumulate


for _function in (np.cumsum, np.cumprod):
    _HANDLERS[_function] = _cumulative(functools.partial(call_handler, _function))
for _ufunc in (np.add, np.multiply, np.maximum, np.minimum):
    _accumulate = functools.partial(call_handler, _ufunc.accumulate, _bound=(_ufunc, "accumulate"))
    _HANDLERS[_ufunc.accumulate] = _cumulative(_accumulate, 0)


@_does(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if not isinstance(x, Ragged):
        raise unknown_length()
    axes = _chosen(x, axis)
    if any(k in x.axes for k in axes) and ord not in (None, "fro", 1, 2, np.inf):
        raise unknown_length()
    rest = _without(x, axes, keepdims)
    result = call_handler(np.linalg.norm, _filled(x, axes, 0), ord, axis, keepdims)
    return Ragged(result, rest) if rest else result


# ---- products


def _contracted(a: Ragged, j: int, b: Ragged, k: int) -> tuple[Ragged, Ragged]:
    """Return operands whose axes j and k are summed over: of one size, and zero outside."""
    (x, y), axes = _align([Ragged(_last(a.content, j), _only(a, j)), Ragged(_last(b.content, k), _only(b, k))])
    size = max(x.ndim, y.ndim) - 1
    if size in axes:
        axis = axes[size]
        x = _filled(Ragged(x, {x.ndim - 1: axis}), (x.ndim - 1,), 0)
        y = _filled(Ragged(y, {y.ndim - 1: axis}), (y.ndim - 1,), 0)
    return (
        Ragged(_last(x, j), {i: axis for i, axis in a.axes.items() if i != j}),
        Ragged(_last(y, k), {i: axis for i, axis in b.axes.items() if i != k}),
    )


def _only(a: Ragged, j: int) -> dict[int, Axis]:
    return {a.ndim - 1: a.axes[j]} if j in a.axes else {}


def _last(content: Tracer, j: int) -> Tracer:
    """Return the content with axis j and the last one exchanged."""
    return content if j == content.ndim - 1 else call_handler(np.swapaxes, content, j, -1)


@_does(np.matmul, np.dot)
def _matmul(a: Any, b: Any, **kwargs: Any) -> Any:
    x, y = _as_operand(a), _as_operand(b)
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


@_does(np.inner, np.vdot)
def _inner(a: Any, b: Any) -> Any:
    x, y = _as_operand(a), _as_operand(b)
    if x is None or y is None or x.ndim != 1 or y.ndim != 1 or x.dtype.kind == "c":
        raise unknown_length()
    return _matmul(x, y)


@_does(np.outer)
def _outer(a: Any, b: Any) -> Any:
    x, y = _as_operand(a), _as_operand(b)
    if x is None or y is None or x.ndim != 1 or y.ndim != 1:
        raise unknown_length()
    return call_handler(np.multiply, x[:, None] if x.axes else x.content[:, None], y if y.axes else y.content)


# ---- least squares: rows of zeros change no solution


@_does(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    matrix, right = _as_operand(a), _as_operand(b)
    if matrix is None or right is None or matrix.ndim != 2 or 1 in matrix.axes or 1 in right.axes:
        raise unknown_length()
    if rcond is None:
        size = call_handler(np.maximum, matrix.shape[0], matrix.shape[1])
        rcond = cutoff(size, matrix.dtype)
    rows, values = _contracted(matrix, 0, right, 0)
    return call_handler(np.linalg.lstsq, rows.content, values.content, rcond)


@_does(np.polyfit)
def _polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None) -> Any:
    points, values = _as_operand(x), _as_operand(y)
    if points is None or values is None or points.ndim != 1 or 1 in values.axes:
        raise unknown_length()
    if rcond is None:
        rcond = cutoff(points.shape[0], points.dtype)
    weights = _as_operand(call_handler(np.ones_like, points, dtype=values.dtype) if w is None else w)
    if weights is None:
        raise unknown_length()
    weights, _ = _contracted(weights, 0, values, 0)
    points, values = _contracted(points, 0, values, 0)
    return call_handler(np.polyfit, points.content, values.content, deg, rcond, full, weights.content)


# ---- shape


@_does(len)
def _len(x: Ragged) -> Any:
    return x.shape[0]


@_does(np.shape)
def _shape(a: Ragged) -> Any:
    return a.shape


@_does(np.size)
def _size(a: Ragged, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[_chosen(a, axis)[0]]


@_does(np.ndim)
def _ndim(a: Ragged) -> int:
    return a.ndim


@_does(np.copy, np.array)
def _copy(a: Any, dtype: Any = None, **kwargs: Any) -> Ragged:
    if set(kwargs) - {"copy"}:
        raise unknown_length()
    array = a if isinstance(a, Ragged) else _stack(a)
    return array.copy() if dtype is None else array.astype(dtype).copy()


@_does(np.asarray, np.ascontiguousarray, np.atleast_1d)
def _asarray(a: Any, dtype: Any = None) -> Ragged:
    if not isinstance(a, Ragged):
        return _copy(a, dtype)
    return a if dtype is None or np.dtype(dtype) == a.dtype else a.astype(dtype)


def _permuted(a: Ragged, order: Sequence[int]) -> Ragged:
    return Ragged(
        call_handler(np.transpose, a.content, tuple(order)), {order.index(k): axis for k, axis in a.axes.items()}
    )


@_does(np.transpose)
def _transpose(a: Ragged, axes: Any = None) -> Ragged:
    return _permuted(a, range(a.ndim)[::-1] if axes is None else _chosen(a, tuple(axes)))


@_does(np.swapaxes)
def _swapaxes(a: Ragged, axis1: int, axis2: int) -> Ragged:
    first, second = _chosen(a, (axis1, axis2))
    order = list(range(a.ndim))
    order[first], order[second] = second, first
    return _permuted(a, order)


@_does(np.reshape)
def _reshape(a: Ragged, shape: Any, order: str = "C") -> Ragged:
    """Return a view with other axes of length 1; the others stay as they are."""
    dims = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    kept = [k for k, d in enumerate(a.shape) if k in a.axes or d != 1]
    lengths = [d for d in dims if not (isinstance(d, int) and d == 1)]
    if len(lengths) != len(kept):
        raise unknown_length()
    for k, length in zip(kept, lengths, strict=True):
        if not (isinstance(length, int) and length == -1):
            _require_equal(a.shape[k], length, "a reshape keeps the number of elements")
    bare = a[tuple(slice(None) if k in kept else 0 for k in range(a.ndim))]
    part: Ragged = bare[tuple(None if isinstance(d, int) and d == 1 else slice(None) for d in dims)]
    return part


@_does(np.ravel)
def _ravel(a: Ragged, order: str = "C") -> Ragged:
    flat = _reshape(a, -1)
    if a.is_contiguous:
        return flat
    made = flat.copy()
    if not _at_least(a.size, 2):  # of one element NumPy makes a view
        made.content._storage.pinned = UNKNOWN
    return made


@_does(np.ndarray.flat)
def _flat(a: Ragged) -> Ragged:
    return _reshape(a, -1)


@_does(np.expand_dims)
def _expand_dims(a: Ragged, axis: Any) -> Ragged:
    given = axis if isinstance(axis, tuple | list) else (axis,)
    places = np.lib.array_utils.normalize_axis_tuple(axis, a.ndim + len(given))
    part: Ragged = a[tuple(None if k in places else slice(None) for k in range(a.ndim + len(places)))]
    return part


@_does(np.squeeze)
def _squeeze(a: Ragged, axis: Any = None) -> Ragged:
    gone = [k for k, d in enumerate(a.shape) if k not in a.axes and d == 1] if axis is None else _chosen(a, axis)
    if any(k in a.axes for k in gone):
        raise unknown_length()
    if any(a.shape[k] != 1 for k in gone):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    part: Ragged = a[tuple(0 if k in gone else slice(None) for k in range(a.ndim))]
    return part


@_does(np.take)
def _take(a: Any, indices: Any, axis: Any = None) -> Any:
    if not isinstance(a, Ragged):
        raise unknown_length()
    (k,) = _chosen(a, axis) if axis is not None or a.ndim == 1 else (None,)
    if k is None:
        raise unknown_length()
    return a[_at(k, indices)]


@_does(np.diagonal, np.diag)
def _diagonal(a: Any, offset: int = 0) -> Ragged:
    if not isinstance(a, Ragged) or a.ndim > 2 or offset != 0:
        raise unknown_length()
    if a.ndim == 1:
        return Ragged(call_handler(np.diag, _filled(a, (0,), 0)), {0: a.axes[0], 1: a.axes[0]})
    content, lengths = a.content, a.shape
    for k, axis in a.axes.items():
        content = _shifted(content, k, axis)
    sure = [k for k in (0, 1) if _at_least(lengths[1 - k] - lengths[k], 0)]
    length = lengths[sure[0]] if sure else make_weak(call_handler(np.minimum, *lengths))
    return Ragged(call_handler(np.copy, call_handler(np.diagonal, content)), {0: Axis(length)})


@_does(np.trace)
def _trace(a: Any, offset: int = 0) -> Any:
    return call_handler(np.sum, _diagonal(a, offset))


@_does(np.repeat)
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if not isinstance(a, Ragged) or not isinstance(repeats, int) or (axis is None and a.ndim > 1):
        raise unknown_length()
    (k,) = _chosen(a, axis)
    axes = {j: Axis(own.stop * repeats, own.start * repeats) if j == k else own for j, own in a.axes.items()}
    return Ragged(call_handler(np.repeat, a.content, repeats, k), axes)


@_does(np.flip)
def _flip_all(m: Ragged, axis: Any = None) -> Ragged:
    chosen = _chosen(m, axis)
    part: Ragged = m[tuple(slice(None, None, -1 if k in chosen else 1) for k in range(m.ndim))]
    return part


@_does(np.append)
def _append(arr: Any, values: Any, axis: Any = None) -> Ragged:
    return _concatenate((arr, values if np.ndim(values) else [values]))


@_does(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0) -> Ragged:
    parts = [part if isinstance(part, Ragged) else Ragged(asarray(part), {}) for part in arrays]
    ndim = parts[0].ndim
    if axis is None or any(part.ndim != ndim for part in parts):
        raise unknown_length()
    (k,) = _chosen(parts[0], axis)
    if k != 0:
        if ndim != 2:
            raise unknown_length()
        columns: Ragged = _stack([part[:, j] for part in parts for j in range(operator.index(part.shape[1]))], 1)
        return columns
    if any(set(part.axes) - {0} for part in parts):
        raise unknown_length()
    dtype = np.result_type(*[part.dtype for part in parts])
    content, length = parts[0].content, parts[0].shape[0]
    if parts[0].axes:
        content = _shifted(content, 0, parts[0].axes[0])
    for part in parts[1:]:
        size = content.type.shape[0] + part.content.type.shape[0]
        positions = _positions(size)
        widths = [(0, part.content.shape[0]), *[(0, 0)] * (ndim - 1)]
        moved = part.content
        if part.content.type.shape[0] != 1:
            own = part.axes[0].start if part.axes else 0
            index = _plus(call_handler(np.subtract, positions, length), own)
            moved = _taken(moved, 0, call_handler(np.clip, index, 0, part.content.shape[0] - 1))
        before = call_handler(np.reshape, positions < length, (-1, *[1] * (ndim - 1)))
        content = call_handler(np.where, before, call_handler(np.pad, content, widths), moved)
        length = _plus(length, part.shape[0])
    return Ragged(cast_to(content, dtype), {0: Axis(length)})


@_does(np.hstack)
def _hstack(tup: Any) -> Ragged:
    return _concatenate(tup, 0 if np.ndim(tup[0]) < 2 else 1)


@_does(np.diff)
def _diff(a: Any, n: Any = 1, axis: Any = -1) -> Any:
    if not isinstance(a, Ragged) or n != 1:
        raise unknown_length()
    (k,) = _chosen(a, axis)
    return a[_at(k, slice(1, None))] - a[_at(k, slice(None, -1))]


@_does(np.nonzero)
def _nonzero(a: Ragged) -> tuple[Masked, ...]:
    mask = a.content if a.dtype.kind == "b" else call_handler(np.not_equal, a.content, 0)
    axes = {k: Axis(own.length) for k, own in a.axes.items()}
    for k, own in a.axes.items():
        mask = _shifted(mask, k, own)
    mask = call_handler(np.logical_and, mask, _mask(Ragged(mask, axes), axes))
    shape = mask.type.shape
    places = [from_value(stage(ops.iota, shape=shape, dtype=I64, axis=k)) for k in range(len(shape))]
    return tuple(Masked(place, mask, len(shape)) for place in places)


@_does(np.flatnonzero)
def _flatnonzero(a: Ragged) -> Masked:
    return _nonzero(_reshape(a, -1))[0]


@_does(np.argwhere)
def _argwhere(a: Ragged) -> Any:
    return call_handler(np.stack, _nonzero(a), 1)


@_does(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Ragged:
    if not isinstance(a, Ragged) or np.ndim(axis) or (axis is None and a.ndim > 1):
        raise unknown_length()
    (k,) = _chosen(a, axis)
    if k not in a.axes:
        return Ragged(call_handler(np.roll, a.content, shift, k), a.axes)
    length = a.axes[k].length
    content = _shifted(a.content, k, a.axes[k])
    whole = length if _at_least(length, 1) else call_handler(np.maximum, length, 1)
    places = call_handler(np.remainder, call_handler(np.subtract, _positions(content.type.shape[k]), shift), whole)
    return Ragged(_taken(content, k, places), {**a.axes, k: Axis(length)})


@_does(np.convolve)
def _convolve(a: Any, v: Any, mode: Any = "full") -> Ragged:
    given = [_as_operand(part) for part in (a, v)]
    parts = [part for part in given if part is not None and part.ndim == 1]
    if len(parts) < 2 or mode not in ("full", "same", "valid"):
        raise unknown_length()
    contents, lengths = [], []
    for part in parts:
        _require_some(part, (0,), "an array that is convolved cannot be empty")
        own = {0: Axis(part.shape[0])} if part.axes else {}
        content = _shifted(part.content, 0, part.axes[0]) if part.axes else part.content
        contents.append(_filled(Ragged(content, own), (0,), 0))
        lengths.append(part.shape[0])
    n, m = lengths
    full = Ragged(call_handler(np.convolve, *contents), {0: Axis(n + m - 1)})
    if mode == "full":
        return full
    if _at_least(n - m, 0):
        longer, shorter = n, m
    else:
        longer, shorter = (make_weak(call_handler(choose, n, m)) for choose in (np.maximum, np.minimum))
    start = (shorter - 1) // 2 if mode == "same" else shorter - 1
    middle: Ragged = full[start : start + longer if mode == "same" else longer]
    return middle


@_does(np.correlate)
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Ragged:
    first, second = _as_operand(a), _as_operand(v)
    if first is None or second is None or first.ndim != 1 or second.ndim != 1 or second.dtype.kind == "c":
        raise unknown_length()
    if mode != "full" and not _at_least(first.shape[0] - second.shape[0], 0):
        shorter = "np.correlate of an array of unknown length takes a second one that is not longer"
        check(call_handler(np.greater_equal, first.shape[0], second.shape[0]), "ValueError", shorter)
    return _convolve(first, second[::-1].forwards() if second.axes else second.content[::-1], mode)


@_does(np.trapezoid, *filter(None, [getattr(np, "trapz", None)]))
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    values = y if isinstance(y, Ragged) else Ragged(asarray(y), {})
    (k,) = _chosen(values, axis)
    widths = dx
    if x is not None:
        widths = call_handler(np.diff, x) if np.ndim(x) == 1 else call_handler(np.diff, x, axis=axis)
        if np.ndim(x) == 1:
            widths = call_handler(np.reshape, widths, tuple(-1 if j == k else 1 for j in range(values.ndim)))
    pairs = call_handler(np.add, values[_at(k, slice(1, None))], values[_at(k, slice(None, -1))])
    return call_handler(np.sum, call_handler(np.multiply, widths, pairs) / 2.0, axis=k)


def _like(function: Any) -> Callable[..., Any]:
    def make(a: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(a, Ragged) or "shape" in kwargs:
            raise unknown_length()
        return Ragged(call_handler(function, a.content, *args, **kwargs), a.axes)

    return make


for _function in (np.zeros_like, np.ones_like, np.full_like, np.empty_like):
    _HANDLERS[_function] = _like(_function)


@_does(np.stack)
def _stack(arrays: Any, axis: int = 0) -> Any:
    parts = [part if isinstance(part, Ragged) else Ragged(asarray(part), {}) for part in arrays]
    ndim = parts[0].ndim
    if any(part.ndim != ndim for part in parts):
        raise unknown_length()
    contents, axes = _align(parts)
    if any(content.type.shape != contents[0].type.shape for content in contents):
        raise unknown_length()
    place = np.lib.array_utils.normalize_axis_index(axis, ndim + 1)
    return Ragged(call_handler(np.stack, contents, place), {k + (k >= place): own for k, own in axes.items()})


@_does(np.vstack)
def _vstack(tup: Any) -> Any:
    if all(np.ndim(part) == 1 for part in tup):
        return _stack(tup)
    return _concatenate([part if np.ndim(part) > 1 else call_handler(np.reshape, part, (1, -1)) for part in tup])


@_does(np.column_stack)
def _column_stack(tup: Any) -> Any:
    return _concatenate([part if np.ndim(part) > 1 else call_handler(np.expand_dims, part, 1) for part in tup], 1)


@_does(np.c_)
def _columns(key: Any) -> Any:
    return _column_stack(key)


@_does(np.vander)
def _vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    if not isinstance(x, Ragged) or x.ndim != 1 or N is None:
        raise unknown_length()
    powers = [call_handler(np.ones_like, x)]
    for _ in range(1, operator.index(N)):
        powers.append(powers[-1] * x)
    return _stack(powers[: operator.index(N)][:: 1 if increasing else -1], 1)


# ---- order


def _ordering(function: Any) -> Callable[..., Any]:
    def order(a: Any, axis: Any = -1, kind: Any = None) -> Any:
        if not isinstance(a, Ragged) or (axis is None and a.ndim > 1):
            raise unknown_length()
        (k,) = _chosen(a, axis)
        if k not in a.axes:
            return Ragged(call_handler(function, a.content, k), a.axes)
        own = {**a.axes, k: Axis(a.axes[k].length)}
        last = np.nan if a.dtype.kind in "fc" else extreme(a.dtype, "highest")
        return Ragged(
            call_handler(function, _filled(Ragged(_shifted(a.content, k, a.axes[k]), own), (k,), last), k), own
        )

    return order


# what does not belong to the array comes last, after its equals: a sort keeps their order
_HANDLERS[np.sort] = _ordering(np.sort)
_HANDLERS[np.argsort] = _ordering(np.argsort)


def leading(array: Any) -> tuple[Tracer, Any]:
    """Return a content of one axis whose first elements are those of an array, and how many they are."""
    if not isinstance(array, Ragged):
        array = array.compressed() if isinstance(array, Masked) else Ragged(asarray(array), {})
    if array.ndim != 1:
        raise unknown_length()
    array = array.forwards()
    return _shifted(array.content, 0, array.axes[0]) if array.axes else array.content, array.shape[0]


def together(*arrays: Any) -> tuple[list[Tracer], Tracer | None]:
    """Return contents of one axis that hold the elements of arrays, equally many, and which of theirs belong to them
    (None: all)."""
    first = arrays[0]
    if isinstance(first, Masked) and all(map(first._is_alike, arrays)):
        flat = [call_handler(np.ravel, part.content) for part in arrays]
        return flat, call_handler(np.ravel, first.mask)
    parts = [_reshape(part, -1) if isinstance(part, Ragged) else part for part in map(_as_operand, arrays)]
    if any(part is None or part.ndim != 1 for part in parts):
        raise unknown_length()
    contents, axes = _align([part.forwards() for part in parts if part is not None])
    return contents, _mask(Ragged(contents[0], axes), axes) if axes else None


@_does(np.searchsorted)
def _searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    if not isinstance(a, Ragged):
        return _elementwise(np.searchsorted, (a, v), {"side": side})
    if isinstance(v, Ragged):
        raise unknown_length()
    last = np.nan if a.dtype.kind == "f" else extreme(a.dtype, "highest")
    return call_handler(np.minimum, call_handler(np.searchsorted, _filled(a, (0,), last), v, side), a.shape[0])


@_does(np.quantile)
def _quantile(a: Any, q: Any, axis: Any = None) -> Any:
    if not isinstance(a, Ragged) or isinstance(q, Ragged) or (axis is None and a.ndim > 1) or np.ndim(axis):
        raise unknown_length()
    (k,) = _chosen(a, axis)
    if k not in a.axes:
        if np.ndim(q):
            raise unknown_length()
        return Ragged(call_handler(np.quantile, a.content, q, k), _without(a, (k,), False))
    ordered, count = call_handler(np.sort, a, k), a.shape[k]
    content = ordered.content if k == 0 else call_handler(np.moveaxis, ordered.content, k, 0)
    place = call_handler(np.multiply, call_handler(np.maximum, count - 1, 0), q)
    below = call_handler(np.floor, place)
    picked: list[Any] = [
        _taken(content, 0, call_handler(np.clip, index, 0, as_size(content.type.shape[0]) - 1))
        for index in (call_handler(np.int64, below), call_handler(np.int64, call_handler(np.ceil, place)), count - 1)
    ]
    low, high, last = picked
    there = call_handler(np.logical_and, count > 0, call_handler(np.logical_not, call_handler(np.isnan, last)))
    part = call_handler(np.subtract, place, below)
    if np.ndim(q):
        part = call_handler(np.reshape, part, (*part.shape, *[1] * (a.ndim - 1)))
    result = call_handler(np.where, there, low + (high - low) * part, np.nan)
    rest = _without(a, (k,), False)
    return Ragged(result, {j + np.ndim(q): own for j, own in rest.items()}) if rest else result


@_does(np.median)
def _median(a: Any, axis: Any = None) -> Any:
    return _quantile(a, 0.5, axis)


@_does(np.percentile)
def _percentile(a: Any, q: Any, axis: Any = None) -> Any:
    return _quantile(a, call_handler(np.divide, q, 100.0), axis)


def _statistic(function: Any, least: int = 1, **kwargs: Any) -> Callable[..., Any]:
    def find(data: Any) -> Any:
        if not isinstance(data, Ragged) or data.ndim > 1:
            raise unknown_length()
        if not _at_least(data.shape[0], least):
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
    _HANDLERS[getattr(statistics, _name)] = _statistic(_function, _least, **_kwargs)


@_does(operator.getitem)
def _items_at(a: Any, key: Any) -> Any:
    if isinstance(a, Ragged) or not isinstance(key, Ragged) or not is_integer(key.dtype):
        raise unknown_length("an index array or a mask for a part of unknown length")
    return Ragged(call_handler(operator.getitem, a, _filled(key, tuple(key.axes), 0)), key.axes)


#: functions that give views, or look at the shape alone
_VIEWS = frozenset(
    {np.transpose, np.swapaxes, np.reshape, np.ravel, np.ndarray.flat, np.expand_dims, np.squeeze, np.take, np.flip}
    | {np.asarray, np.ascontiguousarray, np.atleast_1d, len, np.shape, np.size, np.ndim}
)


# ---- methods


def _inplace(ufunc: Any) -> Callable[[Ragged, Any], Ragged]:
    def method(self: Ragged, other: Any) -> Ragged:
        self.write(self.call(ufunc, (self, other), {}))
        return self

    return method


for _name, _ufunc in OPERATORS.items():
    setattr(Ragged, f"__i{_name}__", _inplace(_ufunc))
