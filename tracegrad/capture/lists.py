"""Lists made by captured code, and what `ys.append(y)` in a staged loop makes of them: an array that behaves as a list.

Writes operations through tracer.py. Previous: tracer.py; next: state.py.

A list display of captured code makes a CapturedList. When a staged loop appends to it, `stack` gives it a buffer with
room for all iterations and turns it into a StackedList in place, so that every name of the list sees the change.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.context import RestageError, current, user_span
from tracegrad.capture.sizes import decide
from tracegrad.capture.tracer import (
    Tracer,
    asarray,
    call_handler,
    describe,
    from_value,
    make_weak,
    result_dtype,
    stage,
)
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.types import ArrayType, Dim


class CapturedList(list[Any]):
    """A list made by captured code; behaves as a list."""

    __slots__ = ("added", "buffer", "length", "weak")

    buffer: Tracer
    #: number of items in a StackedList at this point of the run: an int, or traced inside a staged loop
    length: Any
    #: number of appended items, counting each iteration of a staged body once while it is captured
    added: Dim
    weak: bool


class IndexedList(NeedsPythonValue):
    """A list is indexed by a traced number: the loop around it can make it a StackedList.

    Attributes:
        values: the list.
    """

    values: list[Any]


def indexed_error(values: list[Any], key: Tracer) -> IndexedList:
    """Return the error for `values[key]`."""
    error = IndexedList(
        "a list is indexed by a number that is known only when the compiled function runs",
        code="TG101",
        span=user_span(),
        found=f"{describe(key)}, which indexes a list of {len(values)}",
        help="make the list an array: `np.array(items)[i]`, or `np.zeros((n, ...))` before a loop that writes its rows",
    )
    error.values = values
    return error


def stack_numbers(values: list[Any]) -> bool:
    """Turn a list of numbers, made by captured code, into a StackedList; return whether it is one then.

    Arrays in a list stay the arrays that they are, which rows of another array are not.
    """
    if isinstance(values, StackedList) or not isinstance(values, CapturedList) or not values:
        return False
    try:
        kind, weak = item_type(values)
    except RestageError:
        return False
    if kind.shape:
        return False
    make_room(values, kind, weak, len(values))
    return True


class StackedList(CapturedList):
    """A list whose items are the rows of an array."""

    __slots__ = ()

    def as_tracer(self) -> Tracer:
        """Return the items as one array."""
        return self.buffer if self.added == self.buffer.type.shape[0] else self.buffer[: self.length]

    def __len__(self) -> int:
        return operator.index(self.length)

    def __bool__(self) -> bool:
        return bool(self.length != 0)

    def __iter__(self) -> Iterator[Any]:
        return (self._item(i) for i in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self._item(i) for i in reversed(range(len(self))))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._rows(range(len(self))[key])
        return self._item(self._position(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self._takes(value):
            raise RestageError(
                "an item of another type is written into a list",
                "let the list begin with numbers of the type that the loop writes (`[0.0] * n`), or use an array",
            )
        self.buffer[self._position(key)] = value

    def _position(self, key: Any) -> Any:
        if isinstance(key, Tracer):
            return call_handler(np.where, call_handler(np.less, key, 0), key + self.length, key)
        index = operator.index(key)
        if isinstance(self.length, int) and not -self.length <= index < self.length:
            raise IndexError("list index out of range")
        return self.length + index if index < 0 else index

    def _item(self, position: Any) -> Any:
        item = self.buffer[position]
        return make_weak(item) if self.weak else item

    def _rows(self, positions: range) -> CapturedList:
        result = CapturedList(self._item(i) for i in positions)
        current().register_created(result)
        return result

    def append(self, item: Any) -> None:
        """Append one item. Its content is copied, so an array may not be written afterwards.

        Where there is no room, or the item is of another type, the list becomes an ordinary one.
        """
        if decide(self.buffer.type.shape[0] - self.added, "<=") or not self._takes(item):
            unstack(self)
            list.append(self, item)
            return
        if isinstance(item, Tracer) and item.ndim:
            pin(item, "an array appended to a list in a staged loop, written before or after")
        self.buffer[self.length] = item
        self.length = self.length + 1
        self.added += 1

    def _takes(self, item: Any) -> bool:
        if not isinstance(item, Tracer | int | float | complex | np.ndarray | np.generic):
            return False
        tracer, kind = asarray(item), self.buffer.type
        return tracer.type.shape == kind.shape[1:] and result_dtype([self.buffer, tracer]) == kind.dtype

    def extend(self, items: Iterable[Any]) -> None:
        """Append items."""
        for item in items:
            self.append(item)

    def pop(self, index: Any = -1) -> Any:
        """Remove and return the last item."""
        if index != -1:
            raise RestageError("an item inside a list is removed")
        item = self[-1]
        self.length = self.length - 1
        self.added -= 1
        return item

    def copy(self) -> CapturedList:
        """Return the items as a list."""
        return self._rows(range(len(self)))

    def __add__(self, other: Any) -> CapturedList:
        result = CapturedList([*self, *other])
        current().register_created(result)
        return result


def pin(item: Tracer, why: str) -> None:
    """Note that an array must not be written any more, since it stands in two places in Python and in one here."""
    capture, storage = current(), item.root._storage
    for frame in capture.frames:
        if frame.kind == "loop":
            frame.appended.append(storage)
    capture.pin(storage, why)


def unstack(values: list[Any]) -> list[Any]:
    """Turn a StackedList back into a list of its items, for an operation that only lists have; return it."""
    if isinstance(values, StackedList):
        items = list(values)
        values.__class__ = CapturedList  # type: ignore[assignment]
        values[:] = items
    return values


def count_of(values: list[Any]) -> Dim:
    """Return how many items were appended so far."""
    return values.added if isinstance(values, StackedList) else len(values)


def count_before(before: Any) -> Dim:
    """Return `count_of` the list at a snapshot."""
    return before[2] if isinstance(before, tuple) else len(before)


def items_of(values: list[Any]) -> Any:
    """Return the items of a list, or for a StackedList their type and whether they are Python scalars."""
    if isinstance(values, StackedList):
        return ArrayType(values.buffer.dtype, values.buffer.type.shape[1:]), values.weak
    return list(values)


def snapshot(values: list[Any]) -> Any:
    """Return what `restore` needs to undo later changes of a list."""
    if isinstance(values, StackedList):
        return (values.buffer, values.length, values.added, values.weak)
    return list(values)


def restore(values: list[Any], before: Any) -> None:
    """Give a list the content that it had at `snapshot`."""
    if isinstance(before, tuple):
        list.clear(values)
        values.__class__ = StackedList
        assert isinstance(values, StackedList)
        values.buffer, values.length, values.added, values.weak = before
        return
    if isinstance(values, StackedList):
        values.__class__ = CapturedList  # type: ignore[assignment]
    values[:] = before


def item_type(items: list[Any]) -> tuple[ArrayType, bool]:
    """Return the common type of list items and whether they are Python scalars.

    Raises:
        RestageError: they have no common shape.
    """
    if not all(isinstance(i, Tracer | int | float | complex | np.ndarray | np.generic) for i in items):
        raise RestageError("a list in the loop holds other things than numbers and arrays")
    tracers = [asarray(item) for item in items]
    shapes = {t.type.shape for t in tracers}
    if len(shapes) != 1:
        raise RestageError("the items appended to a list differ in shape")
    return ArrayType(result_dtype(tracers), shapes.pop()), all(t.weak for t in tracers)


def make_room(values: CapturedList, kind: ArrayType, weak: bool, capacity: Dim) -> None:
    """Turn a list into a StackedList with room for `capacity` items of a type."""
    if isinstance(values, StackedList) and values.buffer.dtype == kind.dtype:
        if decide(values.buffer.type.shape[0] - capacity, ">="):
            return
    zero = np.zeros((), kind.dtype).item()
    buffer = from_value(stage(ops.full, shape=(capacity, *kind.shape), dtype=kind.dtype, value=zero))
    if isinstance(values, StackedList):
        buffer[: values.length] = values.as_tracer()
        values.buffer, values.weak = buffer, weak
        return
    for position, item in enumerate(values):
        buffer[position] = item
    count = len(values)
    list.clear(values)
    values.__class__ = StackedList
    values.buffer, values.length, values.added, values.weak = buffer, count, count, weak
