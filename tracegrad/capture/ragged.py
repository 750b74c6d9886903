"""Arrays with an axis whose length is found when the program runs: `x[:i]`, `A[k + 1:, k]`, `np.zeros(i)` in a loop.

Previous: contents.py; next: numpy_api/, whose ragged_*.py say what functions do with these arrays.

A Ragged keeps a content of a fixed size and, for each such axis, where its elements start and how many there are.
Elementwise operations work on the whole content; reductions and products leave the other elements out by a select;
writes go through a select too. Lengths that must agree and may differ are compared when the program runs. What cannot
be done so is refused with NeedsPythonValue, and the loop around is unrolled where that is possible.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tracegrad.capture.axes import Axis, Stride, is_same_start, narrow, position_of, stride_of
from tracegrad.capture.contents import at, cut, holds, iota, mask_of, shifted, smallest, taken
from tracegrad.capture.context import current
from tracegrad.capture.lengths import (
    OUTSIDE,
    UNEQUAL,
    at_least,
    is_index,
    is_index_array,
    is_zero,
    known_distance,
    most_between,
    plus,
    require_equal,
    unknown_length,
)
from tracegrad.capture.masked import ELEMENTWISE, LEADING, OF_ELEMENTS, Masked, Selection, same_value
from tracegrad.capture.sizes import as_size
from tracegrad.capture.tracer import OPERATORS, Tracer, asarray, call_handler, cast_to, check, make_weak
from tracegrad.ir.types import Dim, is_integer

F = TypeVar("F", bound=Callable[..., Any])

#: function -> what it does where one of its arguments is ragged
_HANDLERS: dict[Any, Callable[..., Any]] = {}
#: functions whose handler takes arrays with axes in either order: it gives views, or looks at the shape alone
_EITHER_ORDER: set[Any] = set()
_signature = functools.cache(inspect.signature)


def covers_ragged(*functions: Any, either_order: bool = False) -> Callable[[F], F]:
    """Register the decorated function as what `functions` do where one of their arguments is ragged."""

    def decorate(handler: F) -> F:
        for function in functions:
            _HANDLERS[function] = handler
        if either_order:
            _EITHER_ORDER.update(functions)
        return handler

    return decorate


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
                index = call_handler(np.subtract, axis.stop - 1, iota((content.type.shape[k],)))
                content = taken(content, k, call_handler(np.maximum, index, 0))
                own[k] = Axis(axis.length)
        return self if content is self.content else Ragged(content, own)

    def copy(self, order: str = "C") -> Ragged:
        return Ragged(self.content.copy(), self.axes)

    def narrowed(self) -> Ragged:
        """Return the same array with a content of no more elements along the first axis than it can have."""
        axis, size = self.axes[0], self.content.type.shape[0]
        most = most_between(axis.start, axis.stop)
        if most is None or holds(size, most):
            return self
        own = self.forwards()
        content = cut(shifted(own.content, 0, own.axes[0]), 0, most)
        return Ragged(content, {**own.axes, 0: Axis(own.axes[0].length)})

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
            return handler(*(args if function in _EITHER_ORDER else _all_forwards(args)), **kwargs)
        args = _all_forwards(args)
        place = OF_ELEMENTS.get(function, len(args))
        own = args[place] if place < len(args) else None
        if isinstance(own, Ragged) and sum(isinstance(a, Ragged) for a in args) == 1:
            result = call_handler(function, *args[:place], own.content, *args[place + 1 :], **kwargs)
            return Ragged(result, own.axes)
        is_ufunc = isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None
        if (is_ufunc or function in ELEMENTWISE) and not set(kwargs) - {"_python"}:
            return elementwise(function, args, kwargs)
        raise unknown_length()

    # ---- indexing

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Ragged) and key.ndim == self.ndim == 1 and key.dtype.kind == "b":
            return self._selected(key)
        if isinstance(key, Selection) or is_index_array(key):
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
            inside = mask_of(places, {0: part.axes[0]}) if isinstance(part, Ragged) else part.mask
            found = call_handler(np.logical_or, found, call_handler(np.logical_not, inside))
            places = call_handler(np.where, inside, places, 0)
        check(call_handler(np.all, found), "IndexError", OUTSIDE)
        content = taken(shifted(own.content, 0, own.axes[0]), 0, places)
        if isinstance(part, Masked):
            return part.like(content)
        rest = {k - 1 + places.ndim: axis for k, axis in own.axes.items() if k}
        if isinstance(part, Ragged):
            rest[0] = part.axes[0]
        return Ragged(content, rest) if rest else content

    def update_at(self, ufunc: np.ufunc, key: Any, values: Any) -> None:
        """Do what the method `at` of a ufunc does, for the elements at the places in an array of ints."""
        if tuple(self.axes) != (0,) or isinstance(key, Selection) or not is_index_array(key):
            raise unknown_length("an index array or a mask for a part of unknown length")
        axis, places = self.axes[0], asarray(key)
        places = call_handler(np.where, call_handler(np.less, places, 0), places + axis.length, places)
        found = call_handler(np.logical_and, places >= 0, places < axis.length)
        check(call_handler(np.all, found), "IndexError", OUTSIDE)
        places = axis.stop - 1 - places if axis.backwards else places + axis.start
        call_handler(ufunc.at, self.content, places, values, _bound=(ufunc, "at"))

    def thinned(self, k: int, stride: Stride) -> Ragged:
        """Return every so many of the elements along an axis: a view where they begin at a place that is known."""
        own, step = self.axes[k], stride.step
        if stride.first is not None:
            view = call_handler(operator.getitem, self.content, at(k, slice(stride.first, None, step)))
            length = plus(own.stop, step - 1 - stride.first) // step
            if not at_least(length, 0):
                length = make_weak(call_handler(np.maximum, length, 0))
            return Ragged(view, {**self.axes, k: Axis(length)})
        forwards = self.forwards()
        content = shifted(forwards.content, k, forwards.axes[k])
        thin = call_handler(operator.getitem, content, at(k, slice(None, None, step))).copy()
        for storage in (thin._storage, self.content.root._storage):
            current().pin(storage, "every so many elements of a part that begins at a traced place: `.copy()` it")
        return Ragged(thin, {**forwards.axes, k: Axis((own.length + (step - 1)) // step)})

    def _selected(self, key: Ragged) -> Masked:
        content, mask, _ = self._under(key)
        return Masked(content.copy(), mask, 1)

    def _under(self, key: Ragged) -> tuple[Tracer, Tracer, dict[int, Axis]]:
        """Return a content, which of its elements a mask selects, and which are those of the array."""
        (content, mask), axes = align([self.forwards(), key.forwards()])
        if axes:
            mask = call_handler(np.logical_and, mask, mask_of(mask, axes))
        return content, mask, axes

    def _mask_of(self, places: Masked) -> Ragged:
        """Return the mask of which `places` is the `np.nonzero`."""
        size, (axis,) = places.mask.type.shape[0], self.axes.values()
        beyond = call_handler(np.logical_and, places.mask, iota((size,)) >= axis.length)
        check(call_handler(np.logical_not, call_handler(np.any, beyond)), "IndexError", OUTSIDE)
        if not is_zero(axis.start) or size != self.content.type.shape[0]:
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
            elif is_index(part):
                inner.append(part if axis is None else position_of(part, axis))
            else:
                raise unknown_length("an index array or a mask for a part of unknown length")
        return tuple(inner), axes, steps

    def picked(self, order: Ragged) -> Ragged:
        """Return the elements of a single axis at the positions in an array that is as long."""
        content = shifted(self.forwards().content, 0, self.forwards().axes[0])
        return Ragged(taken(content, 0, order.content), {0: order.axes[0]})

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
                new = placed(new, own, self.axes.get(axis), shape[axis])
        result = call_handler(np.where, mask_of(content, self.axes), cast_to(new.content, self.dtype), content)
        if result.type.shape != shape:
            raise unknown_length()
        content.assign(cast_to(result, self.dtype).value)

    def has_length(self, k: int, length: Any) -> bool:
        """Return whether an axis surely is of a length."""
        own = self.axes[k].length if k in self.axes else as_size(self.content.type.shape[k])
        return known_distance(own, length) == 0

    def laid_out(self, shape: tuple[Dim, ...], axes: tuple[int, ...]) -> Ragged:
        """Return the same array with a content of a shape, its elements from 0 on, and all of `axes` ragged."""
        array = self.forwards()
        content = array.content
        if content._view is not None:
            content = content.copy()
        own: dict[int, Axis] = {}
        for k in axes:
            axis = array.axes.get(k, Axis(as_size(content.type.shape[k])))
            content, own[k] = shifted(content, k, axis), Axis(axis.length)
            if not at_least(as_size(shape[k]) - axis.length, 0):
                check(call_handler(np.less_equal, axis.length, as_size(shape[k])), "ValueError", UNEQUAL)
            if holds(content.type.shape[k], shape[k]):
                missing = as_size(shape[k] - content.type.shape[k])
                widths = [(0, missing if j == k else 0) for j in range(content.ndim)]
                content = call_handler(np.pad, content, widths)
            else:
                content = cut(content, k, shape[k]).copy()
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
            content = shifted(content, k, axis)
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
            if place < 0 or not holds(shape[place], content.type.shape[k]):
                raise unknown_length()
            require_equal(axis.length, as_size(shape[place]))
            content = cut(shifted(content, k, axis), k, shape[place])
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


def filled(array: Ragged, axes: Sequence[int], fill: Any) -> Tracer:
    """Return the content with a value in the elements that do not belong to the array, along some axes."""
    ragged = {k: array.axes[k] for k in axes if k in array.axes}
    if not ragged:
        return array.content
    result: Tracer = call_handler(np.where, mask_of(array.content, ragged), array.content, fill)
    return result


def placed(value: Ragged, k: int, axis: Axis | None, size: Dim) -> Ragged:
    """Return a value with its axis k laid out as in an array that it is written into: at `axis`, or all of `size`."""
    own, dim = value.axes.get(k), value.content.type.shape[k]
    if own is None and dim == 1:
        return value
    length = own.length if own is not None else as_size(dim)
    require_equal(length, axis.length if axis is not None else as_size(size))
    rest = {j: a for j, a in value.axes.items() if j != k}
    content = value.content
    start = axis.start if axis is not None else 0
    if own is not None:
        if axis is not None and not axis.backwards and dim == size and is_same_start(own, axis):
            return Ragged(content, rest)
        content = shifted(content, k, own)
    inner = content.type.shape[k]
    if axis is not None and axis.backwards:
        index = call_handler(np.subtract, axis.stop - 1, iota((size,)))
    elif is_zero(start) and holds(size, inner):
        return Ragged(cut(content, k, size), rest)
    else:
        index = call_handler(np.subtract, iota((size,)), start)
    return Ragged(taken(content, k, call_handler(np.clip, index, 0, as_size(inner) - 1)), rest)


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
        is_same_start(axis, value.axes[k])
        and axis.backwards is value.axes[k].backwards
        and known_distance(axis.length, value.axes[k].length) == 0
        for k, axis in target.axes.items()
    )


# ---- elementwise


def align(operands: list[Ragged]) -> tuple[list[Tracer], dict[int, Axis]]:
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
                require_equal(axis.length, as_size(fixed[0]))
                content = shifted(contents[j], k, axis)
                if not holds(fixed[0], content.type.shape[k]):
                    raise unknown_length()
                contents[j] = cut(content, k, fixed[0])
            continue
        for _, _, axis in ragged[1:]:
            require_equal(axis.length, first.length)
        if all(is_same_start(axis, first) for _, _, axis in ragged) and all(size == sizes[0] for size in sizes):
            axes[ndim - last] = first
            continue
        for j, k, axis in ragged:
            contents[j] = shifted(contents[j], k, axis)
        least = smallest([contents[j].type.shape[k] for j, k in having])
        for j, k, _ in ragged:
            contents[j] = cut(contents[j], k, least)
        axes[ndim - last] = Axis(first.length)
    return contents, axes


def elementwise(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    operands = [as_operand(a) for a in args]
    contents, axes = align([o for o in operands if o is not None])
    rest = iter(contents)
    result = call_handler(
        function, *[a if o is None else next(rest) for a, o in zip(args, operands, strict=True)], **kwargs
    )
    return Ragged(result, axes) if axes else result


def as_operand(value: Any) -> Ragged | None:
    """Return an operand that has axes, None for the others."""
    if isinstance(value, Masked):
        value = value.compressed()
    if isinstance(value, Ragged):
        return value
    if value is None or isinstance(value, bool | int | float | complex | np.generic) or hasattr(value, "dim"):
        return None
    tracer = asarray(value)
    return Ragged(tracer, {}) if tracer.ndim else None


def chosen_axes(array: Ragged, axis: Any) -> tuple[int, ...]:
    every = tuple(range(array.ndim))
    return every if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, array.ndim)


def require_some(array: Ragged, axes: Sequence[int], what: str) -> None:
    for k in axes:
        if k in array.axes and not at_least(array.axes[k].length, 1):
            check(call_handler(np.greater, array.axes[k].length, 0), "ValueError", what)


def leading(array: Any) -> tuple[Tracer, Any]:
    """Return a content of one axis whose first elements are those of an array, and how many they are."""
    if not isinstance(array, Ragged):
        array = array.compressed() if isinstance(array, Masked) else Ragged(asarray(array), {})
    if array.ndim != 1:
        raise unknown_length()
    array = array.forwards()
    return shifted(array.content, 0, array.axes[0]) if array.axes else array.content, array.shape[0]


def together(*arrays: Any) -> tuple[list[Tracer], Tracer | None]:
    """Return contents of one axis that hold the elements of arrays, equally many, and which of theirs belong to them
    (None: all)."""
    first = arrays[0]
    if isinstance(first, Masked) and all(map(first._is_alike, arrays)):
        flat = [call_handler(np.ravel, part.content) for part in arrays]
        return flat, call_handler(np.ravel, first.mask)
    parts = [part.reshape(-1) if isinstance(part, Ragged) else part for part in map(as_operand, arrays)]
    if any(part is None or part.ndim != 1 for part in parts):
        raise unknown_length()
    contents, axes = align([part.forwards() for part in parts if part is not None])
    return contents, mask_of(contents[0], axes) if axes else None


# ---- methods


def _inplace(ufunc: Any) -> Callable[[Ragged, Any], Ragged]:
    def method(self: Ragged, other: Any) -> Ragged:
        self.write(self.call(ufunc, (self, other), {}))
        return self

    return method


for _name, _ufunc in OPERATORS.items():
    setattr(Ragged, f"__i{_name}__", _inplace(_ufunc))
