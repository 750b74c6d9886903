"""Reading and writing `x[key]`: basic and advanced indexing, views, traced indices, windows, masks; take, put, `.at`.

Previous: creation.py; next: shape.py.

A key is parsed into one `Item` per axis and new axis. Reading is then at most a gather of the points and windows, a
slice of the rest, a transpose and a reshape. Writing is one set_slice when all bounds are static, else one scatter_set
that touches only what is written.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.axes import Axis, Stride, narrow, settled, stride_of
from tracegrad.capture.contents import iota
from tracegrad.capture.context import current, user_span
from tracegrad.capture.lengths import unknown_length
from tracegrad.capture.linear import difference, ends, most_above
from tracegrad.capture.masked import Masked, Selection, same_value, unknown_count
from tracegrad.capture.memory import dense_layout, set_layout
from tracegrad.capture.numpy_api.common import (
    as_axis,
    as_bool,
    as_dim,
    as_known,
    covers,
    dim_value,
    is_known,
    select,
    spread,
    wrap_known,
)
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import (
    Tracer,
    asarray,
    broadcast_shapes,
    call_handler,
    cast_to,
    check,
    from_concrete,
    from_value,
    resolve_content,
    stage,
    unsupported,
    view_of,
)
from tracegrad.errors import TracedIndexError, TracedValueError
from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Value
from tracegrad.ir.types import BOOL, I64, SymbolicDim, is_integer

#: known arrays up to this size stay known after a write of known values
_KNOWN_WRITE_LIMIT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """What a key says of one axis.

    Attributes:
        kind: "slice" (static), "window" (traced start, static length), "ragged" (traced length), "int" (static),
            "point" (traced scalar), "array" (index array, one axis), "mask" (traced bool array; may cover several
            axes), or "new" (None).
        axis: the first axis it is about; -1 for "new".
        start, stop, step: of a slice, as IR dimensions, 0 <= start <= stop <= size and step >= 1; an int is start; of
            ragged ones as they are given.
        reverse: the slice runs backwards over start:stop:step.
        full: the slice is the whole axis, forwards.
        length: number of elements of a slice or window; of a ragged one the most that it can be, None when not known.
        index: value of a point, window start, index array or mask.
    """

    kind: str
    axis: int
    start: Any = 0
    stop: Any = 0
    step: int = 1
    reverse: bool = False
    full: bool = False
    length: Any = None
    index: Value | None = None

    def same(self, other: Item) -> bool:
        """Return whether two items surely select the same."""
        ours = (self.kind, self.axis, self.start, self.stop, self.step, self.reverse, self.length)
        if ours != (other.kind, other.axis, other.start, other.stop, other.step, other.reverse, other.length):
            return False
        if self.index is None or other.index is None:
            return self.index is other.index
        return same_value(self.index, other.index)


# ---- parsing a key


def parse(shape: tuple[Any, ...], key: Any) -> list[Item]:
    """Return items for all axes of an array of this shape, in the order of the key.

    Raises:
        TracedIndexError: a static index is out of range, or there are too many.
    """
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = [_part(p) for p in parts]
    used = sum(_axes_of(p) for p in parts)
    if used > len(shape):
        raise TracedIndexError(
            "too many indices for array",
            code="TG116",
            span=user_span(),
            found=f"{used} indices for an array of {len(shape)} dimensions",
            help="remove the indices that are too many",
        )
    dots = [k for k, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    place = dots[0] if dots else len(parts)
    parts[place : place + len(dots)] = [slice(None)] * (len(shape) - used)
    items: list[Item] = []
    axis = 0
    for part in parts:
        for item in _items(part, axis, shape):
            items.append(item)
        axis += _axes_of(part)
    return items


def _part(part: Any) -> Any:
    """Bring one entry of a key into one of: None, Ellipsis, slice, a dimension, Tracer."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if isinstance(part, bool | np.bool_):
        raise unsupported("a bool as an index", "use an int, or a mask of the shape of the array")
    if isinstance(part, int | SymbolicDim):
        return part
    if isinstance(part, Masked):
        raise unknown_count()
    if hasattr(part, "dim"):
        return part.dim
    if isinstance(part, np.integer):
        return int(part)
    if isinstance(part, list | tuple) and not part:
        return from_concrete(np.zeros(0, np.int64))
    tracer = asarray(part)
    if tracer.dtype != BOOL and not is_integer(tracer.dtype):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are valid indices, "
            f"not {part!r}"
        )
    if not tracer.ndim:
        if tracer.dtype == BOOL:
            raise unsupported("a traced bool as an index", "use np.where")
        if tracer.concrete is not None:
            return int(tracer.concrete)
        known = static_value(tracer.value)
        return known if known is not None else tracer
    return tracer


def _axes_of(part: Any) -> int:
    """Return how many axes of the array an entry is about."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, Tracer) and part.dtype == BOOL else 1


def _items(part: Any, axis: int, shape: tuple[Any, ...]) -> list[Item]:
    if part is None:
        return [Item("new", -1, length=1)]
    if isinstance(part, slice):
        return [_slice_item(part, axis, shape[axis])]
    if not isinstance(part, Tracer):
        return [Item("int", axis, start=_wrapped(part, axis, shape[axis]))]
    if part.dtype == BOOL:
        covered = shape[axis : axis + part.ndim]
        if part.type.shape != covered:
            wrong = next(k for k in range(part.ndim) if part.type.shape[k] != covered[k])
            raise TracedIndexError(
                "boolean index did not match the indexed array",
                code="TG126",
                span=user_span(),
                found=f"size {covered[wrong]} along axis {axis + wrong}, and the mask has {part.type.shape[wrong]}",
                help="make the mask as large as the axes that it indexes",
            )
        if part.concrete is not None:
            return [_array_item(index, axis + k, shape[axis + k]) for k, index in enumerate(part.concrete.nonzero())]
        return [Item("mask", axis, index=part.value)]
    if not part.ndim:
        return [Item("point", axis, index=cast_to(part, I64).value)]
    if part.concrete is not None:
        return [_array_item(part.concrete, axis, shape[axis])]
    return [Item("array", axis, index=cast_to(part, I64).value)]


def _array_item(content: np.ndarray[Any, Any], axis: int, size: Any) -> Item:
    if isinstance(size, int) and content.size:
        for extreme in (content.min(), content.max()):
            _wrapped(int(extreme), axis, size)
        content = np.where(content < 0, content + size, content)
    return Item("array", axis, index=from_concrete(content.astype(np.int64)).value)


def _wrapped(index: Any, axis: int, size: Any) -> Any:
    """Return a static index counted from the front."""
    if decide(index, "<"):
        front = index + size
        inside = not decide(front, "<")
    else:
        front, inside = index, decide(index - size, "<")
    if not inside:
        raise TracedIndexError(
            "an index is out of range",
            code="TG117",
            span=user_span(),
            found=f"index {index} is out of bounds for axis {axis} with size {size}",
            help=f"use an index from {-size} to {size - 1}" if size != 0 else "test before whether the array is empty",
        )
    return front


def _bound(value: Any) -> Any:
    """Return a bound of a slice: None, a dimension, or a traced scalar."""
    part = None if value is None else _part(value)
    if isinstance(part, Tracer) and part.ndim:
        raise TypeError("only integer scalar arrays can be converted to a scalar index")
    return part


def _slice_item(part: slice, axis: int, size: Any) -> Item:
    part = settled(part, as_size(size))
    start, stop, step = _bound(part.start), _bound(part.stop), _bound(part.step)
    if isinstance(step, Tracer | SymbolicDim):
        step = operator.index(step)  # type: ignore[arg-type]
    step = 1 if step is None else step
    if isinstance(start, Tracer) or isinstance(stop, Tracer):
        return _window_item(start, stop, step, axis, size)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step > 0:
        low = 0 if start is None else _limited(start, size, 0, size)
        high = size if stop is None else _limited(stop, size, 0, size)
        first, count = low, (high - low + (step - 1)) // step if step > 1 else high - low
    else:
        # from `first` down to above `last`
        first = size - 1 if start is None else _limited(start, size, -1, size - 1)
        last = -1 if stop is None else _limited(stop, size, -1, size - 1)
        count = (first - last + (-step - 1)) // -step if step < -1 else first - last
        low, high = first - (count - 1) * -step, first + 1
    if not decide(count, ">"):
        return Item("slice", axis, start=0, stop=0, length=0)
    if step > 1:
        high = low + (count - 1) * step + 1
    return _static(axis, low, high, abs(step), step < 0, count, size)


def _limited(bound: Any, size: Any, least: Any, most: Any) -> Any:
    """Return a static bound of a slice counted from the front and cut to an interval, as Python does."""
    if decide(bound, "<"):
        bound = bound + size
    if decide(bound - least, "<"):
        return least
    return most if decide(bound - most, ">") else bound


def _static(axis: int, low: Any, high: Any, step: int, reverse: bool, length: Any, size: Any) -> Item:
    full = low == 0 and high == size and step == 1 and not reverse
    return Item("slice", axis, start=low, stop=high, step=step, reverse=reverse, full=full, length=length)


def _known_bound(bound: Any) -> Any:
    """Return a bound of a slice as an int when it is traced and its content is known, else as it is."""
    content = resolve_content(bound, floats=True) if isinstance(bound, Tracer) else None
    return bound if content is None else int(content)


def _window_item(start: Any, stop: Any, step: int, axis: int, size: Any) -> Item:
    low = start if isinstance(start, Tracer) else dim_value(0 if start is None else start)
    high = stop if isinstance(stop, Tracer) else dim_value(size if stop is None else stop)
    low, high = cast_to(low, I64), cast_to(high, I64)
    distance = difference(high.value, low.value)
    if distance is None or step < 1:
        first, last = _known_bound(start), _known_bound(stop)
        if not isinstance(first, Tracer) and not isinstance(last, Tracer):
            return _slice_item(slice(first, last, step), axis, size)
        return Item(
            "ragged", axis, start=start, stop=stop, step=step, length=_most_elements(low.value, high.value, step)
        )
    if decide(distance, "<"):
        distance = 0
    if distance != 0:
        leaves = _leaves_axis(low.value, distance, size)
        if leaves:
            most = distance if step == 1 else None
            return Item("ragged", axis, start=start, stop=stop, step=step, length=most)
        if leaves is not False:
            # Python cuts a slice that leaves the axis; with a fixed length that is an error instead
            whole = call_handler(
                np.logical_and,
                call_handler(np.greater_equal, low, 0),
                call_handler(np.less_equal, high, dim_value(size)),
            )
            check(call_handler(np.logical_or, whole, call_handler(np.less, high, 0)), "IndexError", _LEAVES)
    length = distance if step == 1 else (distance + (step - 1)) // step
    return Item("window", axis, step=step, length=length, index=low.value)


def _most_elements(low: Value, high: Value, step: int) -> int | None:
    """Return a number of elements that a slice never exceeds, None when none is known."""
    most = most_above(high, low, current().indices)
    stops = ends(high, current().ranges)
    # a stop below zero is counted from the back
    return max(most, 0) if most is not None and step == 1 and stops is not None and decide(stops[0], ">=") else None


_LEAVES = (
    "a slice with traced bounds leaves the axis, where NumPy would cut it: keep the bounds inside, pass them as Python "
    "ints, or pad the array"
)


def _leaves_axis(start: Value, length: Any, size: Any) -> bool | None:
    """Return whether a window leaves its axis, by the ranges of the loops around; None when that is not known."""
    known = ends(start, current().ranges)
    if known is None:
        return None
    least, greatest = known
    if decide(least, ">="):
        return decide(greatest + length - size, ">")
    return decide(greatest + length, ">=") or decide(least + size, "<")


# ---- reading and writing items


def _constant_index(item: Item) -> Value:
    if item.kind == "int":
        return dim_value(item.start).value
    assert item.index is not None
    return item.index


def _is_pointlike(item: Item, gathers: bool) -> bool:
    return item.kind in ("array", "point") or (gathers and item.kind == "int")


def _own_index(item: Item) -> Value:
    """Return the positions along its axis that a window or slice covers: i64[length]."""
    positions: Value = stage(ops.iota, shape=(item.length,), dtype=I64, axis=0)
    if item.reverse:
        positions = stage(ops.flip, positions, axes=(0,))
    if item.step != 1:
        positions = stage(ops.multiply, positions, _filled(item.step, item.length))
    if item.kind == "window":
        assert item.index is not None
        return stage(ops.add, positions, stage(ops.broadcast_to, item.index, shape=(item.length,)))  # type: ignore[no-any-return]
    if item.start == 0:
        return positions
    start: Value = dim_value(item.start).value
    return stage(ops.add, positions, stage(ops.broadcast_to, start, shape=(item.length,)))  # type: ignore[no-any-return]


def _filled(number: int, length: Any) -> Value:
    return stage(ops.full, shape=(length,), dtype=I64, value=number)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a parsed key is read and written.

    The dimensions after the gather are: those of the points, one per indexed slice or window, then the other axes.

    Attributes:
        points: items that a gather takes one element of per index.
        ranged: windows (and, for writes, partial slices) that a gather covers by index arrays.
        rest: the other slices, in order of axis.
        point_shape: broadcast shape of the index arrays of `points`.
        order: transpose from those dimensions to the result, without new axes.
        shape: shape of the result.
    """

    points: tuple[Item, ...]
    ranged: tuple[Item, ...]
    rest: tuple[Item, ...]
    point_shape: tuple[Any, ...]
    order: tuple[int, ...]
    shape: tuple[Any, ...]
    plain: tuple[Any, ...]


def plan(items: Sequence[Item], *, writing: bool) -> Plan:
    """Decide what is gathered, what is sliced and where dimensions go, by NumPy's rules."""
    advanced = any(item.kind == "array" for item in items)
    gathers = advanced or any(item.kind in ("point", "window") for item in items)
    points = tuple(item for item in items if _is_pointlike(item, gathers))
    ranged = tuple(
        item
        for item in items
        if item.kind == "window" or (writing and gathers and item.kind == "slice" and not item.full)
    )
    rest = tuple(
        sorted(
            (i for i in items if i.kind in ("slice", "int") and i not in ranged and i not in points),
            key=lambda i: i.axis,
        )
    )
    shapes = [i.index.shape for i in points if i.index is not None]
    point_shape = broadcast_shapes(*shapes) if shapes else ()
    # where the dimensions of index arrays go: in the place of the arrays when these stand together, else to the front
    places = [k for k, item in enumerate(items) if advanced and item.kind in ("array", "point", "int")]
    together = bool(places) and places[-1] - places[0] + 1 == len(places)
    lead = len(point_shape)
    order: list[int] = [] if together or not advanced else list(range(lead))
    shape: list[Any] = [] if together or not advanced else list(point_shape)
    for position, item in enumerate(items):
        if together and position == places[0]:
            order.extend(range(lead))
            shape.extend(point_shape)
        if item.kind == "new":
            shape.append(1)
        elif item in ranged:
            order.append(lead + ranged.index(item))
            shape.append(item.length)
        elif item in rest:
            order.append(lead + len(ranged) + rest.index(item))
            if item.kind == "slice":
                shape.append(item.length)
    sizes = [*point_shape, *[i.length for i in ranged], *[1 if i.kind == "int" else i.length for i in rest]]
    return Plan(points, ranged, rest, point_shape, tuple(order), tuple(shape), tuple(sizes[k] for k in order))


def _indices(made: Plan) -> tuple[list[Value], tuple[int, ...]]:
    """Return the index arrays of a gather or scatter, all of one shape, and their axes."""
    lead = len(made.point_shape)
    whole = (*made.point_shape, *[i.length for i in made.ranged])
    result = []
    for item in made.points:
        index = _constant_index(item)
        if index.shape != whole:
            if made.ranged and index.shape:
                index = stage(ops.reshape, index, shape=(*index.shape, *[1] * len(made.ranged)))
            index = stage(ops.broadcast_to, index, shape=whole) if index.shape != whole else index
        result.append(index)
    for k, item in enumerate(made.ranged):
        index = _own_index(item)
        column = (item.length, *[1] * (len(made.ranged) - k - 1))
        if index.shape != column:
            index = stage(ops.reshape, index, shape=column)
        result.append(stage(ops.broadcast_to, index, shape=whole) if index.shape != whole else index)
    assert lead <= len(whole), "ranged dimensions follow those of points"
    return result, tuple(i.axis for i in (*made.points, *made.ranged))


def read_items(base: Value, items: Sequence[Item]) -> Value:
    """Stage the reading of `base[key]`."""
    made = plan(items, writing=False)
    value = base
    if made.points or made.ranged:
        indices, axes = _indices(made)
        value = stage(ops.gather, value, *indices, axes=axes)
    value = _slice_rest(value, made)
    if made.order != tuple(range(len(made.order))):
        value = stage(ops.transpose, value, axes=made.order)
    return stage(ops.reshape, value, shape=made.shape) if value.shape != made.shape else value


def _rest_bounds(shape: tuple[Any, ...], made: Plan) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[int, ...]]:
    lead = len(shape) - len(made.rest)
    start: list[Any] = [0] * lead
    stop: list[Any] = list(shape[:lead])
    step = [1] * lead
    for item in made.rest:
        start.append(item.start)
        stop.append(item.start + 1 if item.kind == "int" else item.stop)
        step.append(item.step)
    return tuple(start), tuple(stop), tuple(step)


def _slice_rest(value: Value, made: Plan) -> Value:
    if any(not item.full for item in made.rest):
        start, stop, step = _rest_bounds(value.shape, made)
        if start != (0,) * len(start) or stop != value.shape or set(step) != {1}:
            value = stage(ops.slice_, value, start=start, stop=stop, step=step)
    backwards = _backwards(made, len(value.shape))
    return stage(ops.flip, value, axes=backwards) if backwards else value


def _backwards(made: Plan, ndim: int) -> tuple[int, ...]:
    return tuple(ndim - len(made.rest) + k for k, item in enumerate(made.rest) if item.reverse)


def write_items(base: Value, items: Sequence[Item], new: Value, op: Any = None) -> Value:
    """Stage `base[key] = new` for a value of the shape of `base[key]`; returns the new base.

    `op` is ops.scatter_add to accumulate.
    """
    made = plan(items, writing=True)
    value = stage(ops.reshape, new, shape=made.plain) if new.shape != made.plain else new
    if made.order != tuple(range(len(made.order))):
        back = tuple(made.order.index(k) for k in range(len(made.order)))
        value = stage(ops.transpose, value, axes=back)
    if not made.points and not made.ranged:
        if all(item.full for item in made.rest) and op is None:
            return value
        backwards = _backwards(made, len(base.shape))
        value = stage(ops.flip, value, axes=backwards) if backwards else value
        start, stop, step = _rest_bounds(base.shape, made)
        write = ops.set_slice if op is None else ops.add_slice
        return stage(write, base, value, start=start, stop=stop, step=step)  # type: ignore[no-any-return]
    indices, axes = _indices(made)
    return stage(op or ops.scatter_set, base, *indices, value, axes=axes)  # type: ignore[no-any-return]


# ---- getitem


def _leads_by_ints(tracer: Tracer) -> tuple[Tracer, tuple[Item, ...]] | None:
    """Return base and leading ints of a view such as `a[i]`, so that `a[i][j]` is done as `a[i, j]`."""
    view = tracer._view
    if view is None or view.key is None:
        return None
    leading: list[Item] = []
    for item in view.key:
        if item.kind in ("int", "point") and item.axis == len(leading):
            leading.append(item)
        elif not item.full:
            return None
    return (view.base, tuple(leading)) if leading else None


def _shifted(items: Sequence[Item], count: int) -> list[Item]:
    return [item if item.kind == "new" else replace(item, axis=item.axis + count) for item in items]


def _is_basic(items: Sequence[Item]) -> bool:
    return not any(item.kind in ("array", "mask") for item in items)


def _keeps_contiguous(items: Sequence[Item]) -> bool:
    """Return whether the elements that a basic key selects stand together in memory."""
    cut = False
    for item in items:
        if item.kind == "new":
            continue
        if cut and not item.full:
            return False
        if item.kind in ("int", "point") or item.length == 1:
            continue
        if item.step != 1 or item.reverse:
            return False
        cut = True
    return True


@covers(operator.getitem, native=False, masked=True)
def getitem(x: Any, key: Any) -> Any:
    """Do `x[key]`."""
    if isinstance(x, Selection) or not isinstance(x, Tracer | np.ndarray):
        return x[as_known(key)] if is_known(key) and not isinstance(x, Selection) else x[key]
    if isinstance(key, Ragged):
        return key.call(operator.getitem, (x, key), {})
    base = asarray(x)
    key = _as_masks(base.type.shape, key)
    if any(isinstance(part, Masked) for part in (key if isinstance(key, tuple) else (key,))):
        return _at_selected(base, key if isinstance(key, tuple) else (key,))
    content = base.concrete if is_known(key) else None
    items = parse(base.type.shape, key)
    if any(item.kind == "ragged" for item in items):
        return _ragged_part(base, items)
    if any(item.kind == "mask" for item in items):
        return _select_mask(base, items)
    if not _is_basic(items):
        if content is not None:
            return wrap_known(content[as_known(key)])
        return _in_order_of_places(from_value(read_items(base.value, items)), base, items)
    # with an ellipsis NumPy gives a view of one element, not its value
    dots = any(part is Ellipsis for part in (key if isinstance(key, tuple) else (key,)))
    scalar = all(item.kind in ("int", "point") for item in items) and not dots
    if scalar and content is not None:
        return content[as_known(key)]
    while (lead := _leads_by_ints(base)) is not None:
        base, items = lead[0], [*lead[1], *_shifted(items, len(lead[1]))]
    if scalar or (base._view is not None and base._view.is_flat):
        return from_value(read_items(base.value, items))
    return view_of(
        base,
        lambda value: read_items(value, items),
        lambda value, new: write_items(value, items, new),
        contiguous=base.is_contiguous and _keeps_contiguous(items),
        native=_native_reader(items),
        key=tuple(items),
    )


def _in_order_of_places(made: Tracer, base: Tracer, items: Sequence[Item]) -> Tracer:
    """Note the memory order of what arrays of places select: the axes of the places come first in it."""
    places = [k for k, item in enumerate(items) if item.kind in ("array", "int", "point")]
    before, count = places[0], made.ndim - len(items) + len(places)
    if not base.is_contiguous or not before or not count or places != list(range(before, before + len(places))):
        return made
    axes = [*range(before, before + count), *range(before), *range(before + count, made.ndim)]
    return set_layout(made, dense_layout(made.type.shape, axes))


def _native_reader(items: Sequence[Item]) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None:
    """Return the reading of a known base by NumPy, when all bounds are ints."""
    key: list[Any] = []
    for item in items:
        if item.kind == "new":
            key.append(None)
        elif item.kind == "int" and isinstance(item.start, int):
            key.append(item.start)
        elif item.kind == "slice" and isinstance(item.start, int) and isinstance(item.stop, int):
            if item.reverse:
                last = item.start + (item.length - 1) * item.step
                key.append(slice(last, item.start - 1 if item.start else None, -item.step))
            else:
                key.append(slice(item.start, item.stop, item.step))
        else:
            return None
    return lambda content: content[tuple(key)]


# ---- setitem


def fit(value: Any, shape: tuple[Any, ...], dtype: np.dtype[Any]) -> Tracer:
    """Return a value cast and broadcast to what it is written into.

    Raises:
        TracedValueError: it does not broadcast.
    """
    tracer = cast_to(asarray(value), dtype)
    own = tracer.type.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if len(own) > len(shape) or any(d not in (1, e) for d, e in zip(own, shape[len(shape) - len(own) :], strict=True)):
        raise TracedValueError(
            "the value written does not broadcast to the place",
            code="TG119",
            span=user_span(),
            found=f"could not broadcast input array from shape {tracer.type.shape} into shape {shape}",
            help="give a value of the shape of the place",
        )
    if own != tracer.type.shape:
        tracer = from_value(stage(ops.reshape, tracer.value, shape=own))
    return spread(tracer, shape)


@covers(operator.setitem, native=False, masked=True)
def setitem(x: Any, key: Any, value: Any) -> None:
    """Do `x[key] = value`."""
    if not isinstance(x, Tracer):
        if isinstance(x, np.ndarray):
            raise unsupported(
                "a traced value written into an array made outside the function",
                "make the array in the function, or pass it as an argument",
            )
        x[key] = value
        return
    if _write_known(x, key, value):
        return
    items = parse(x.type.shape, _as_masks(x.type.shape, key))
    if any(item.kind == "ragged" for item in items):
        _ragged_part(x, items).write(value)
        return
    if any(item.kind == "mask" for item in items):
        _assign_mask(x, items, value)
        return
    if isinstance(value, Masked):
        raise unknown_count()
    base = x
    while _is_basic(items) and (lead := _leads_by_ints(base)) is not None:
        base, items = lead[0], [*lead[1], *_shifted(items, len(lead[1]))]
    if _is_same_view(base, items, value):
        return  # `a[1:3] += v` has written through the view already
    made = plan(items, writing=True)
    new = fit(value.fixed(made.shape) if isinstance(value, Ragged) else value, made.shape, base.dtype)
    base.assign(write_items(base.value, items, new.value))


def _is_same_view(base: Tracer, items: Sequence[Item], value: Any) -> bool:
    view = value._view if isinstance(value, Tracer) else None
    if view is None or view.base is not base or view.key is None or len(view.key) != len(items):
        return False
    return all(a.same(b) for a, b in zip(view.key, items, strict=True))


def _write_known(x: Tracer, key: Any, value: Any) -> bool:
    """Write a known value into a known array, which then stays known; return whether it was done."""
    storage = x._storage
    if x._view is not None or storage.concrete is None or storage.depth != current().depth:
        return False
    if storage.concrete.size > _KNOWN_WRITE_LIMIT or isinstance(value, Selection) or not is_known((key, value)):
        return False
    content = np.array(storage.concrete)
    content[as_known(key)] = as_known(value)
    storage.value, storage.concrete = None, content
    return True


# ---- slices whose length is known only at run time


def _cover(item: Item, axis: Axis, size: Any) -> tuple[Item, Axis]:
    """Return a slice or window that stays inside the axis and covers a ragged slice, and the elements of it."""
    if item.length is None or not decide(size - item.length, ">"):
        return _static(item.axis, 0, size, 1, False, size, size), axis
    start = call_handler(np.minimum, axis.start, as_size(size - item.length))
    window = Item("window", item.axis, length=item.length, index=cast_to(asarray(start), I64).value)
    return window, Axis(axis.stop - start, axis.start - start)


def _ragged_part(x: Tracer, items: Sequence[Item]) -> Ragged:
    """Return `x[key]` for a key with such slices: a view of the whole axes, and which of their elements are in it."""
    if not _is_basic(items):
        raise unknown_length("a slice of unknown length together with an index array or a mask")
    base = x
    axes: dict[int, Axis] = {}
    steps: dict[int, Stride] = {}
    others: list[Item] = []
    place = 0
    for item in items:
        if item.kind == "ragged":
            size = x.type.shape[item.axis]
            taken = slice(item.start, item.stop, item.step)
            axes[place], stride = narrow(Axis(as_size(size)), taken), stride_of(Axis(as_size(size)), taken)
            item, axes[place] = _cover(item, axes[place], size)
            if stride is not None:
                steps[place] = stride
        others.append(item)
        place += item.kind not in ("int", "point")
    while (lead := _leads_by_ints(base)) is not None:
        base, others = lead[0], [*lead[1], *_shifted(others, len(lead[1]))]
    view = view_of(
        base,
        lambda value: read_items(value, others),
        lambda value, new: write_items(value, others, new),
        contiguous=base.is_contiguous and _keeps_contiguous(others),
        key=tuple(others),
    )
    part = Ragged(view, axes)
    for place, stride in steps.items():
        part = part.thinned(place, stride)
    return part


# ---- masks known only at run time


def _split_mask(x: Tracer, items: Sequence[Item]) -> tuple[Tracer, Tracer, int | None]:
    """Return the array without the other indices, the mask broadcast to it, and the rank of a mask of leading axes."""
    masks = [item for item in items if item.kind == "mask"]
    if len(masks) != 1 or any(item.kind in ("array", "new") for item in items):
        raise unsupported(
            "a traced mask together with index arrays, None or another mask", "apply one index after the other"
        )
    mask = masks[0]
    assert mask.index is not None
    count = len(mask.index.shape)
    others: list[Item] = []
    for item in items:
        if item is mask:
            others += [_static(mask.axis + k, 0, size, 1, False, size, size) for k, size in enumerate(mask.index.shape)]
        else:
            others.append(item)
    place = sum(1 for item in items[: items.index(mask)] if item.kind not in ("int", "point"))
    target = x
    if not all(item.full for item in others):
        target = view_of(
            x,
            lambda value: read_items(value, others),
            lambda value, new: write_items(value, others, new),
            contiguous=False,
            key=tuple(others),
        )
    shape = target.type.shape
    column = (1,) * place + mask.index.shape + (1,) * (len(shape) - place - count)
    whole: Value = mask.index
    if whole.shape != column:
        whole = stage(ops.reshape, whole, shape=column)
    return target, spread(from_value(whole), shape), count if place == 0 else None


def _as_masks(shape: tuple[Any, ...], key: Any) -> Any:
    """Return a key with a mask instead of the places that it selects along its axes, `np.nonzero(mask)`."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if not any(isinstance(part, Masked) for part in parts) or any(part is Ellipsis for part in parts):
        return key
    result: list[Any] = []
    axis = number = 0
    while number < len(parts):
        part = parts[number]
        if isinstance(part, Masked):
            count = part.content.ndim
            group = parts[number : number + count]
            covered = shape[axis : axis + count]
            if (
                len(group) == count
                and part.mask.type.shape == covered
                and all(isinstance(p, Masked) and part._is_alike(p) and p.are_positions(k) for k, p in enumerate(group))
            ):
                result.append(part.mask)
                axis, number = axis + count, number + count
                continue
        result.append(part)
        axis, number = axis + (1 if isinstance(part, Masked) else _axes_of(_part(part))), number + 1
    return tuple(result) if isinstance(key, tuple) else result[0]


def _at_selected(x: Tracer, key: tuple[Any, ...]) -> Masked:
    """Return the elements at some selected places, all selected by one mask."""
    masked = [part for part in key if isinstance(part, Masked)]
    first = masked[0]
    before = itertools.takewhile(lambda part: part is not first, key)
    if not all(map(first._is_alike, masked)) or any(
        part is None or part is Ellipsis or isinstance(part, slice) for part in before
    ):
        raise unknown_count()
    whole = getitem(x, tuple(part._filled(0) if isinstance(part, Masked) else part for part in key))
    mask = first.mask
    if whole.ndim > mask.ndim:
        mask = call_handler(np.reshape, mask, (*mask.shape, *[1] * (whole.ndim - mask.ndim)))
    return Masked(whole, spread(mask, whole.type.shape), first.content.ndim, first.rows)


def _select_mask(x: Tracer, items: Sequence[Item]) -> Masked:
    target, mask, leading = _split_mask(x, items)
    rows = next(item.index for item in items if item.kind == "mask")
    assert rows is not None
    return Masked(target.copy(), mask, leading, from_value(rows) if leading == 1 else None)


def _assign_mask(x: Tracer, items: Sequence[Item], value: Any) -> None:
    target, mask, leading = _split_mask(x, items)
    shape = target.type.shape
    if isinstance(value, Masked):
        if not same_value(value.mask.value, mask.value):
            raise unknown_count("a selection by another mask")
        new = cast_to(value.content, target.dtype)
    else:
        tracer = asarray(value)
        room = 0 if leading is None else len(shape) - leading
        if tracer.ndim > room and any(d != 1 for d in tracer.type.shape[: tracer.ndim - room]):
            raise unknown_count()
        new = fit(tracer, shape, target.dtype)
    target.assign(stage(ops.select, mask.value, new.value, target.value))


# ---- take and put


@covers(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Tracer:
    tracer, index = asarray(a), asarray(indices)
    if axis is None:
        tracer, place = call_handler(np.ravel, tracer), 0
    else:
        place = as_axis(axis, tracer.ndim)
    size = dim_value(tracer.type.shape[place])
    if mode == "wrap":
        index = call_handler(np.remainder, index, size)
    elif mode == "clip":
        index = call_handler(np.clip, index, 0, call_handler(np.subtract, size, 1))
    elif mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    taken = asarray(getitem(tracer, (slice(None),) * place + (index,)))
    return taken if taken.base is None else taken.copy()


def _along(tracer: Tracer, indices: Any, axis: Any) -> tuple[Tracer, tuple[Any, ...]]:
    """Return the array and the key that takes `indices` along an axis, element by element."""
    index = asarray(indices)
    if axis is None:
        tracer, place = call_handler(np.ravel, tracer), 0
        index = call_handler(np.ravel, index)
    else:
        place = as_axis(axis, tracer.ndim)
    if index.ndim != tracer.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    key: list[Any] = []
    for k, size in enumerate(tracer.type.shape):
        if k == place:
            key.append(index)
        else:
            shape = tuple(size if j == k else 1 for j in range(tracer.ndim))
            key.append(iota(shape, k))
    return tracer, tuple(key)


@covers(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Tracer:
    tracer, key = _along(asarray(arr), indices, axis)
    return asarray(getitem(tracer, key))


@covers(np.put_along_axis, native=False)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    tracer, key = _along(asarray(arr), indices, axis)
    setitem(tracer, key, values)


@covers(np.put, native=False)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    if not isinstance(a, Tracer) or not a.is_contiguous or mode != "raise":
        raise unsupported("np.put of this array or mode", "assign with a[index] = value")
    setitem(call_handler(np.ndarray.flat, a), as_known(ind) if is_known(ind) else ind, v)


@covers(np.putmask, native=False)
def putmask(a: Any, mask: Any, values: Any) -> None:
    tracer = asarray(a)
    new = asarray(values)
    if new.ndim and new.type.shape != tracer.type.shape:
        raise unsupported("np.putmask with values of another shape", "use np.where")
    tracer.assign(cast_to(select(mask, fit(new, tracer.type.shape, tracer.dtype), tracer), tracer.dtype).value)


@covers(np.place, native=False)
def place(arr: Any, mask: Any, vals: Any) -> None:
    if asarray(vals).type.size != 1:
        raise unsupported("np.place with several values", "use np.where")
    setitem(arr, as_bool(mask), call_handler(np.reshape, vals, ()))


@covers(np.ix_, native=False)
def ix_(*args: Any) -> tuple[Tracer, ...]:
    result = []
    for k, vector in enumerate(args):
        tracer = asarray(vector)
        if tracer.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if tracer.dtype == BOOL:
            if tracer.concrete is None:
                raise unknown_count()
            tracer = from_concrete(tracer.concrete.nonzero()[0])
        size = tracer.type.shape[0]
        result.append(call_handler(np.reshape, tracer, tuple(size if j == k else 1 for j in range(len(args)))))
    return tuple(result)


@covers(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tracer, ...]:
    if order != "C":
        raise unsupported("np.unravel_index with order='F'", "reverse the shape and the result")
    rest = asarray(indices)
    places: list[Tracer] = []
    for size in reversed([as_dim(d) for d in shape[1:]]):
        places.append(call_handler(np.remainder, rest, dim_value(size)))
        rest = call_handler(np.floor_divide, rest, dim_value(size))
    # an index past the end keeps a first coordinate past the end, which indexing refuses
    return (rest, *reversed(places))


@covers(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Tracer:
    if order != "C" or mode != "raise":
        raise unsupported("np.ravel_multi_index with mode or order", "compute row * width + column")
    total: Any = 0
    for index, size in zip(multi_index, dims, strict=True):
        total = call_handler(np.add, call_handler(np.multiply, total, dim_value(as_dim(size))), index)
    return asarray(total)


# ---- ufunc.at


def _accumulate_at(a: Any, indices: Any, values: Any, *, sign: int) -> None:
    if not isinstance(a, Tracer):
        raise unsupported("ufunc.at on an array made outside the function", "make the array in the function")
    items = parse(a.type.shape, indices)
    if any(item.kind == "mask" for item in items):
        update = call_handler(np.add if sign > 0 else np.subtract, getitem(a, indices), values)
        setitem(a, indices, update)
        return
    new = fit(values, plan(items, writing=True).shape, a.dtype)
    value = stage(ops.negative, new.value) if sign < 0 else new.value
    a.assign(write_items(a.value, items, value, ops.scatter_add))


@covers((np.add, "at"), native=False)
def add_at(a: Any, indices: Any, b: Any) -> None:
    _accumulate_at(a, indices, b, sign=1)


@covers((np.subtract, "at"), native=False)
def subtract_at(a: Any, indices: Any, b: Any) -> None:
    _accumulate_at(a, indices, b, sign=-1)


#: updates one after the other are refused beyond this: each is an operation by itself
_AT_LIMIT = 200


def _register_at(ufunc: np.ufunc) -> None:
    def at(a: Any, indices: Any, b: Any) -> None:
        """Update elements at once when the indices are known and distinct, else one after the other."""
        parts = [p for p in (indices if isinstance(indices, tuple) else (indices,)) if not isinstance(p, slice | int)]
        if is_known(tuple(parts)):
            arrays = np.broadcast_arrays(*[np.asarray(p) for p in parts])
            points = np.stack([p.ravel() for p in arrays], axis=-1) if arrays else np.zeros((1, 0))
            one_sided = points.size and points.dtype != bool and (points.min() >= 0 or points.max() < 0)
            distinct = one_sided and len(np.unique(points, axis=0)) == len(points)  # 3 and -1 may be one element
            if not arrays or arrays[0].dtype == bool or not points.size or distinct:
                setitem(a, indices, call_handler(ufunc, getitem(a, indices), b))
                return
        every = indices if isinstance(indices, tuple) else (indices,)
        given = [asarray(p) for p in every if not isinstance(p, slice)]
        count = given[0].type.size
        if len(given) != len(parts) or not isinstance(count, int) or count > _AT_LIMIT or given[0].ndim != 1:
            raise unsupported(
                f"np.{ufunc.__name__}.at with traced or repeated indices (more than {_AT_LIMIT}, or no vector)",
                "write a loop: for k in range(n): a[i[k]] = ...",
            )
        values = asarray(b)
        rest = asarray(getitem(a, tuple(getitem(p, 0) for p in given))).type.shape if count else ()
        values = call_handler(np.broadcast_to, values, (count, *rest))
        for k in range(count):
            place = tuple(getitem(p, k) for p in given)
            setitem(a, place, call_handler(ufunc, getitem(a, place), getitem(values, k)))

    covers((ufunc, "at"), native=False)(at)


for _ufunc in (np.multiply, np.divide, np.maximum, np.minimum, np.power):
    _register_at(_ufunc)
