"""Lists made by captured code, and what `ys.append(y)` or `ys[i] = y` in a staged loop makes of them: an array that
behaves as a list.

Writes operations through tracer.py. Previous: trees.py; next: state.py.

A list display of captured code makes a CapturedList. When a staged loop appends to it, or indexes it by its variable,
`make_room` turns it into a StackedList in place, so that every name of the list sees the change.

Items that are arrays or lists are copied into the buffer, so each stands in two places in Python and in one here. The
copied one is *frozen*: not written any more, and not read after a write into its row. What the list gives are rows,
parts of the buffer into which the user may write; or, after `keep_items`, copies that are frozen too: then an item can
be replaced, and who holds the old one keeps it.

Items that are records, tuples, dicts or objects of one structure, have a buffer for each of their leaves. A dict or
object among them is a new one whenever the list gives it; neither it nor the one that was put in can be written.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import math
import operator
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tracegrad import ops
from tracegrad.capture.aliases import hold
from tracegrad.capture.axes import Axis, narrow, position_of
from tracegrad.capture.chosen import Chosen, place_of, renumbered
from tracegrad.capture.contents import cut, smallest
from tracegrad.capture.context import RestageError, Storage, alias_error, current, user_span
from tracegrad.capture.lengths import most_between
from tracegrad.capture.ragged import Ragged, leading
from tracegrad.capture.rooms import Room, find_room
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import (
    MaybeNone,
    Tracer,
    asarray,
    call_handler,
    cast_to,
    check,
    describe,
    from_value,
    make_weak,
    result_dtype,
    stage,
)
from tracegrad.capture.trees import LEAF, Choice, Constant, Tree, nodes, open_container, rebuild
from tracegrad.errors import CaptureError, NeedsPythonValue
from tracegrad.ir.types import BOOL, I64, ArrayType, Dim, dim_evaluate


class ItemKind(NamedTuple):
    """What the items of a list have in common.

    Attributes:
        type: of an item as an array.
        weak: they are Python scalars, or lists of them.
        nested: how many levels of lists an item has, 0 for numbers and arrays.
        maybe: some may be None.
    """

    type: ArrayType
    weak: bool
    nested: int = 0
    maybe: bool = False

    @property
    def is_mutable(self) -> bool:
        """Whether an item can be changed under several names."""
        return bool(self.type.shape)

    @property
    def size(self) -> int:
        """The number of elements of an item, in this call."""
        return math.prod(dim_evaluate(dim, current().sizes) for dim in self.type.shape)

    def of_item(self) -> ItemKind:
        """Return the kind of the items of an item that is a list."""
        return ItemKind(ArrayType(self.type.dtype, self.type.shape[1:]), self.weak, self.nested - 1)


class RecordKind(NamedTuple):
    """What the items of a list have in common that are records: tuples, dicts or objects.

    Attributes:
        structure: of an item.
        fields: what its leaves are.
    """

    structure: Tree
    fields: tuple[ItemKind, ...]

    @property
    def is_mutable(self) -> bool:
        """Whether an item, or what is in it, can be changed under several names."""
        return not self.structure.is_fixed or any(field.is_mutable for field in self.fields)

    @property
    def size(self) -> int:
        """The number of elements of an item, in this call."""
        return sum(field.size for field in self.fields)

    @property
    def maybe(self) -> bool:
        """Whether there may be None in the place of a number."""
        return any(field.maybe for field in self.fields)

    def opened_as(self, structure: Tree) -> list[ItemKind | None]:
        """Return what the leaves of records of another structure are, where that holds these too; of one that is None
        here, None."""
        return _spread(structure, self.structure, iter(self.fields), lambda own, field, texts: field or _NUMBER)


Kind = ItemKind | RecordKind


class CapturedList(list[Any]):
    """A list made by captured code; behaves as a list. The attributes are those of a StackedList.

    Attributes:
        name: what the user calls the list; empty when that is not known.
        buffer: the array whose rows are the items.
        prefix: where the rows are in it: the positions of a list in lists.
        table: the list in which this one stands, when the buffer is that one's.
        length: number of items at this point of the run: an int, or traced inside a staged loop.
        added: number of appended items, counting each iteration of a staged body once while it is captured.
        kind: what the items are.
        keeps: the items that it gives are copies, and not parts of the buffer; see `keep_items`.
        there: which items are not None, where some may be.
        varies: items are appended under conditions: there are at most `added`, and loops carry `length` as a variable.
        room: where a loop without a known end appends; then `added` does not count.
        columns: the leaves of the items, where these are records.
    """

    __slots__ = (
        "added",
        "buffer",
        "columns",
        "keeps",
        "kind",
        "length",
        "name",
        "prefix",
        "room",
        "table",
        "there",
        "varies",
    )

    name: str
    buffer: Tracer
    prefix: tuple[Any, ...]
    table: StackedList | None
    length: Any
    added: Dim
    kind: ItemKind
    keeps: bool
    there: Tracer | None
    varies: bool
    room: Room | None
    columns: tuple[StackedList, ...]

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.name = ""

    def __iter__(self) -> Iterator[Any]:
        return ListIterator(self, 0, 1)

    def __reversed__(self) -> Iterator[Any]:
        return ListIterator(self, len(self) - 1, -1)


class ListIterator:
    """Gives the items of a list made by captured code, as Python's iterator does: it sees the list change, also into an
    array."""

    __slots__ = ("begun", "position", "step", "values")

    def __init__(self, values: CapturedList, position: int, step: int) -> None:
        self.values: CapturedList | None = values
        self.position, self.step, self.begun = position, step, False

    def __iter__(self) -> ListIterator:
        return self

    def __next__(self) -> Any:
        values, position = self.values, self.position
        if values is None:
            raise StopIteration
        stacked = isinstance(values, StackedList)
        if not 0 <= position < (self._length_of(values) if stacked else len(values)):
            self.values = None
            raise StopIteration
        self.position, self.begun = position + self.step, True
        return values.item(position) if isinstance(values, StackedList) else list.__getitem__(values, position)

    def _length_of(self, values: CapturedList) -> int:
        """Return how many items there are now in a list that is an array."""
        assert isinstance(values, StackedList)
        try:
            return values.known_length()
        except NeedsPythonValue:
            if self.begun:
                raise length_error(values, NeedsPythonValue) from None
            raise


#: lists with what they held: see `content_of`
Sources = tuple[tuple[list[Any], list[Any]], ...]


def sources_of(iterables: Iterable[Any]) -> Sources:
    """Return the lists among iterables, with what they hold."""
    return tuple((values, content_of(values)) for values in iterables if isinstance(values, list))


def state_of(functions: Iterable[Any]) -> Sources:
    """Return the variables and objects of captured code that functions can read or change, with what they hold."""
    waiting, found = list(functions), {}
    while waiting:
        part = waiting.pop()
        if isinstance(part, types.FunctionType):
            waiting.extend((*(part.__closure__ or ()), *(part.__defaults__ or ())))
        elif isinstance(part, types.MethodType | functools.partial):
            waiting.extend(gc.get_referents(part))
        elif isinstance(part, types.CellType) or current().created_depth(part) >= 0 or _is_array(part):
            if id(part) not in found:
                found[id(part)] = part, content_of(part)
                waiting.extend(() if isinstance(part, Tracer | StackedList) else found[id(part)][1])
        elif isinstance(part, tuple):
            waiting.extend(part)
    return tuple(found.values())


def _is_array(value: Any) -> bool:
    return isinstance(value, Tracer) and value.is_array


class TakenItems:
    """Gives what was made, before it is asked for, of the items of iterables, while the lists among these stay as they
    were, and so does the state that it was made by: Python would make it of what is there by then."""

    def __init__(self, items: Iterable[Any], sources: Sources, state: Sources) -> None:
        self.items, self.taken, self.sources, self.state = iter(items), 0, sources, state

    def __iter__(self) -> TakenItems:
        return self

    def __next__(self) -> Any:
        for values, before in self.sources:
            if not has_content(values, before, 0 if isinstance(values, StackedList) else self.taken):
                raise content_error(values)
        for part, before in self.state:
            if not has_content(part, before):
                raise content_error(part)
        self.taken += 1
        return next(self.items)


def content_of(part: Any) -> list[Any]:
    """Return what differs, by identity, where a variable, list or object holds something else."""
    if isinstance(part, StackedList):
        arrays = [array for column in part.parts() for array in (column.buffer, column.there) if array is not None]
        return [part.length, *(_version(array.root._storage) for array in arrays)]
    if isinstance(part, list):
        return part[:]
    if isinstance(part, types.CellType):
        return gc.get_referents(part)
    if isinstance(part, Tracer):
        return [_version(part.root._storage)]
    return [*part, *part.values()] if isinstance(part, dict) else list(getattr(part, "__dict__", {}).values())


def _version(storage: Storage) -> Any:
    """Return what an array holds: in the body of a loop that has not written it, what it held before."""
    value, concrete = storage.value, storage.concrete
    entered = current().frame.entered.get(storage)
    if entered is not None and value is entered[1]:
        value, _, concrete = entered
    return value if concrete is None else concrete


def has_content(values: Any, before: list[Any], start: int = 0) -> bool:
    """Return whether the content of a list is as it was, from one part of it on."""
    after = content_of(values)
    return len(before) == len(after) and all(map(operator.is_, before[start:], after[start:]))


def content_error(part: Any) -> NeedsPythonValue:
    """Return the error for what changes between the items that map or filter makes of it."""
    if isinstance(part, list):
        return NeedsPythonValue(
            "a list changes while a loop runs over it",
            code="TG134",
            span=user_span(),
            found=f"{name_of(part) or 'a list'}, of which map or filter takes the items, or which their function uses",
            help="loop over the list itself, or give a copy of it: `map(f, list(values))`",
        )
    return NeedsPythonValue(
        "what the function of map or filter uses changes between its items",
        code="TG134",
        span=user_span(),
        found="an iterator that takes the items of map or filter one by one",
        help="loop over map or filter itself, `for v in map(f, values)`, or make a list of it first",
    )


def length_error(values: CapturedList, error: type[CaptureError] = CaptureError) -> CaptureError:
    """Return the error for a loop over a list whose length its body changes."""
    return error(
        "a list changes its length while a loop runs over it",
        code="TG134",
        span=user_span(),
        found=f"{values.name or 'a list'}, whose items are rows of an array",
        help="loop over a copy, `for v in list(values)`, for the items from before only; else count: "
        "`while k < n`, with an array that has room for all",
    )


def name_of(values: list[Any]) -> str:
    """Return what the user calls a list; empty when that is not known."""
    return values.name if isinstance(values, CapturedList) else ""


class ListUse(NamedTuple):
    """The use in a loop or branch of a list from before it that only a StackedList allows: the `remedy` of an error.

    Attributes:
        kind: of what is stored into it or appended, None when an item is read.
        replaced: an item is replaced as a whole.
        capacity: so many items it must have room for, since some are appended under a condition; else 0.
        room: where a loop without a known end appends.
    """

    values: list[Any]
    kind: Kind | None = None
    replaced: bool = False
    capacity: Dim = 0
    room: Room | None = None


#: more items are not chosen from one by one
ITEM_LIMIT = 64

#: title and code of the error for what differs between two branches
CHANGED = "a list changes in one branch only, or differently in the two", "TG113"


def indexed_error(use: ListUse, found: str) -> NeedsPythonValue:
    """Return the error for `values[i]`, `values[i] = v`, and for appending under a condition."""
    if use.capacity != 0:
        title, code = CHANGED
        help = "append numbers, arrays of one shape, lists of one length; or use an array with a fixed size and a mask"
    else:
        title, code = "a list is indexed by a number that is known only when the compiled function runs", "TG101"
        help = "make the list an array: `np.array(items)[i]`, or `np.zeros((n, ...))` before a loop that writes rows"
    error = NeedsPythonValue(title, code=code, span=user_span(), found=found, help=help)
    error.remedy = use
    return error


def growing_error(values: CapturedList, kind: Kind, found: str) -> NeedsPythonValue:
    """Return the error for a list that grows in a loop without a known end, and the items of which are of a kind."""
    room, items = find_room(kind.size)
    error = NeedsPythonValue(
        "a list grows in a loop whose length is not known",
        code="TG122",
        span=user_span(),
        found=found,
        help="make the list in the function; or make an array before the loop, as long as it can get, and count",
    )
    error.remedy = ListUse(values, kind, capacity=items, room=room)
    return error


def use_of_index(values: list[Any], stored: Any = None) -> ListUse | None:
    """Return the use `values[i]`, or `values[i] = stored`; None when no row can hold that."""
    if stored is None:
        return ListUse(values)
    try:
        return ListUse(values, item_type([stored]), replaced=True)
    except RestageError:
        return None


def can_stack(values: Any, stored: Any = None) -> bool:
    """Return whether `stack_items` makes a list one whose items are rows, in the frame that made it."""
    use = use_of_index(values, stored)
    if use is None or not isinstance(values, CapturedList) or not values:
        return False
    try:
        return isinstance(values, StackedList) or _kind_for(use) is not None
    except RestageError:
        return False


def _kind_for(use: ListUse) -> Kind:
    """Return what the items of an ordinary list, and what is stored into it, have in common.

    Raises:
        RestageError: they have nothing.
    """
    has_items = any(item is not None for item in use.values)
    known = [use.kind] if use.kind is not None else []
    kind = join_kinds([item_type(use.values), *known] if has_items else known)
    if use.values and not has_items:
        kind = _or_none(kind)
    few = len(use.values) <= ITEM_LIMIT
    if isinstance(kind, RecordKind) and use.capacity == 0 and (few or not kind.structure.is_fixed):
        raise RestageError("a list holds records from which one can be chosen")
    return kind


def stack_items(use: ListUse) -> bool:
    """Turn a list made by captured code into a StackedList that can be used so; return whether it is one then."""
    values = use.values
    if not isinstance(values, CapturedList):
        return False
    try:
        if isinstance(values, StackedList):
            _adapt(values, use)
        else:
            kind = _kind_for(use)
            keeps = kind.is_mutable and use.replaced
            make_room(values, kind, len(values) if use.capacity == 0 else use.capacity, keeps=keeps)
    except RestageError:
        return False
    assert isinstance(values, StackedList)
    values.varies |= use.capacity != 0
    values.room = use.room or values.room
    return True


def kind_of(values: list[Any]) -> Kind:
    """Return what the items of a list have in common.

    Raises:
        RestageError: they have nothing.
    """
    return values.kind if isinstance(values, StackedList) else item_type(values)


def give_rows(values: CapturedList, kind: Kind) -> None:
    """Turn a new list into a StackedList whose length is a variable; its items are of a kind."""
    capacity = values.capacity if isinstance(values, StackedList) else len(values)
    use = ListUse(values, kind, capacity=greater(capacity, 1))
    if isinstance(values, StackedList):
        _adapt(values, use)
    else:
        make_room(values, kind, use.capacity)
    assert isinstance(values, StackedList)
    values.varies = True
    for part in values.parts():
        part.varies, part.length = True, asarray(part.length)


def _adapt(values: StackedList, use: ListUse) -> None:
    if isinstance(values, RecordList):
        values.adapt(use)
        return
    mine = values.kind
    if use.kind is not None:
        if values.prefix:
            raise RestageError("an item of a list in a list is replaced")
        if use.replaced and mine.is_mutable and not values.keeps:
            keep_items(values)
        values.kind = _join([mine, use.kind])
        if values.kind.type != mine.type:
            before = values.buffer
            values.buffer = from_value(cast_to(before, values.kind.type.dtype).value)
            values.buffer._storage.holds_items = True
            if values.kind.is_mutable:
                _supersede(before, values.buffer)
        _note_kind(values, values.kind)
    if use.capacity != 0 and not decide(values.buffer.type.shape[0] - use.capacity, ">="):
        make_room(values, values.kind, use.capacity * 2)  # a list that grows often is copied a few times only


def _copied(rows: Any) -> Ragged:
    """Return a copy of rows, as an array of a length that is not known: of as many as there can be."""
    return (
        rows.narrowed().copy() if isinstance(rows, Ragged) else Ragged(from_value(rows.value), {0: Axis(rows.shape[0])})
    )


def _supersede(before: Tracer, after: Tracer) -> None:
    """Note that arrays or lists in a list are in another buffer from now on: parts of the old one are not theirs."""
    pin(before.root, _ITEM)
    current().note_copy(before.root._storage, after.root._storage)


def join_kinds(kinds: list[Kind]) -> Kind:
    """Return the kind of items of several kinds.

    Raises:
        RestageError: they differ in shape or structure, or there are none.
    """
    records = [kind for kind in kinds if isinstance(kind, RecordKind)]
    if not records:
        return _join(kinds)
    if len(records) < len(kinds):
        raise RestageError("the items of a list differ in structure")
    structure = functools.reduce(_meet, [kind.structure for kind in records])
    fields = zip(*(kind.opened_as(structure) for kind in records), strict=True)
    return RecordKind(structure, tuple(_join(field) for field in fields))


def _or_none(kind: Kind) -> ItemKind:
    """Return the kind of items that may be None too."""
    if isinstance(kind, RecordKind) or kind.nested:
        raise RestageError("a list holds lists or records, and None")
    return kind._replace(maybe=True)


def _join(given: Iterable[Kind | None]) -> ItemKind:
    found = list(given)
    kinds = [kind for kind in found if isinstance(kind, ItemKind)]
    maybe = len(kinds) < len(found) or any(kind.maybe for kind in kinds)
    if len({(kind.type.shape, kind.nested) for kind in kinds}) != 1:
        raise RestageError("the items of a list differ in shape")
    dtype = result_dtype([sample(kind.type, kind.weak) for kind in kinds])
    kind = ItemKind(ArrayType(dtype, kinds[0].type.shape), all(k.weak for k in kinds), kinds[0].nested)
    return _or_none(kind) if maybe else kind


class StackedList(CapturedList):
    """A list whose items are the rows of an array."""

    __slots__ = ()

    def rows(self) -> Any:
        """Return the items as one array, a part of the buffer."""
        if self.there is not None:
            given = call_handler(np.all, self.there[: self.length])
            check(given, "TypeError", "a number is expected, and there is None")
        return self._rows_of(self.buffer)

    def _rows_of(self, buffer: Tracer) -> Any:
        if self.prefix:
            return asarray(buffer[self.prefix])
        if self._is_full():
            return buffer
        self.note_range()
        return buffer[: self.length]

    def leaves(self) -> list[Any]:
        """Return the items as one array, and where some may be None another one that says which are there."""
        return [self._rows_of(buffer) for buffer in (self.buffer, self.there) if buffer is not None]

    def note_range(self) -> None:
        """Note which values the length takes."""
        if isinstance(self.length, Tracer):
            ranges = current().ranges
            least, most = ranges.get(self.length.value, (0, self.most))
            ranges[self.length.value] = least, most if decide(self.most - most, ">=") else self.most

    def _is_full(self) -> bool:
        """Return whether all rows of the buffer are items at this point."""
        return not self.varies and self.added == self.capacity

    @property
    def capacity(self) -> Dim:
        """For how many items there is room."""
        return self.buffer.type.shape[len(self.prefix)]

    @property
    def most(self) -> Dim:
        """A number that the length never exceeds at this point of the run."""
        return self.added if self.is_counted else self.capacity

    @property
    def is_counted(self) -> bool:
        """Whether `added` says what the list can hold at this point of the run, of which there is one only."""
        capture = current()
        frames = capture.frames[capture.created_depth(self) + 1 :]
        return self.room is None and all(frame.kind == "branch" and not frame.repeats for frame in frames)

    def as_array(self) -> Any:
        """Return the items as one new array, whose length may be known only at run time."""
        rows = self.rows()
        return from_value(rows.value) if isinstance(rows, Tracer) else rows.copy()

    def as_tracer(self) -> Tracer:
        """Return the items as one new array."""
        return asarray(self.as_array())

    def __len__(self) -> int:
        return operator.index(self.length)

    def __bool__(self) -> bool:
        return bool(self.length != 0)

    def __iter__(self) -> Iterator[Any]:
        self.known_length()
        return super().__iter__()

    def __reversed__(self) -> Iterator[Any]:
        return ListIterator(self, self.known_length() - 1, -1)

    def known_length(self) -> int:
        """Return the number of items where Python must know it."""
        try:
            return len(self)
        except NeedsPythonValue as error:
            raise NeedsPythonValue(
                "Python takes the items of a list whose length is known only when the compiled function runs",
                code="TG101",
                span=user_span(),
                found=f"{self.name!r}, a list" if self.name else "a list",
                help="make the list first, `values = list(...)`, and loop over it: `for v in values`, or in a list "
                "comprehension without lambdas that use its names; sum, max, sorted and len take the list itself",
            ) from error

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            if self.has_unknown_length:
                return self.taken(lambda rows: rows[key])
            return self._rows(range(len(self))[key])
        return self.item(self._position(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, slice) and not self._fits(value):
            use = self._use(value)
            if use is None:
                raise RestageError("an item of another type is written into a list")
            if use.values is not self or current().created_depth(self) != current().depth:
                raise indexed_error(use, f"an item of another type: {describe(value)}")
            stack_items(use)
        if isinstance(key, slice) or not self._fits(value):
            unstack(self)[key] = value
            return
        self._store(self._position(key), value)

    def _use(self, stored: Any) -> ListUse | None:
        """Return what is needed for storing an item; of a list in lists, that the items of the outermost be wider."""
        use = use_of_index(self, stored)
        outer = self.table
        if outer is None or use is None or use.kind is None:
            return use
        while outer.table is not None:
            outer = outer.table
        dtype = _join([self.kind, use.kind]).type.dtype
        weak = isinstance(use.kind, ItemKind) and use.kind.weak
        return ListUse(outer, ItemKind(ArrayType(dtype, outer.kind.type.shape), weak, outer.kind.nested))

    def _store(self, position: Any, item: Any) -> None:
        if self.there is not None:
            self.there[position] = presence_of(item)
        if item is not None:
            self._put(position, item if self.there is None else some_of(item))

    def refresh(self) -> None:
        """Follow the list in which this one stands into another buffer."""
        if self.table is not None:
            self.table.refresh()
            self.buffer, self.kind = self.table.buffer, self.table.kind.of_item()

    def _fits(self, value: Any) -> bool:
        """Return whether an item can be stored."""
        return self._takes(value) and (value is None or self.keeps or not self.kind.is_mutable)

    def _position(self, key: Any) -> Any:
        if isinstance(key, Tracer):
            if self._is_full():
                return key  # an array has the same positions
            self.note_range()
            return position_of(key, Axis(self.length), _OUT_OF_RANGE)
        index = operator.index(key)
        position = self.length + index if index < 0 else index
        if isinstance(self.length, int):
            if not 0 <= position < self.length:
                raise IndexError(_OUT_OF_RANGE)
            return position
        needed = -index if index < 0 else index + 1
        if self.varies or not decide(self.added - needed, ">="):  # else so many are there in any iteration
            check(position >= 0 if index < 0 else position < self.length, "IndexError", _OUT_OF_RANGE)
        if self.room is not None and isinstance(position, int) and decide(self.capacity - position, "<="):
            return self.capacity - 1  # of no run: the list has outgrown its room, or the check has raised
        return position

    def item(self, position: Any) -> Any:
        """Return the item at a position from 0 on, which is known to be there."""
        if self.kind.nested:
            return self._list(position)
        item = self.buffer[(*self.prefix, position)]
        if self.kind.weak:
            item = make_weak(item)
        elif self.keeps:
            item = from_value(item.value)
            pin(item, _ITEM)
        return item if self.there is None else MaybeNone(asarray(item), asarray(self.there[position]))

    def _list(self, position: Any) -> StackedList:
        kind, count = self.kind.of_item(), self.kind.type.shape[0]
        prefix = (*self.prefix, position)
        if not self.keeps:
            return stacked_list(self.buffer, kind, count, prefix, table=self)
        buffer = from_value(self.buffer[prefix].value)
        pin(buffer, _ITEM)
        return stacked_list(buffer, kind, count, keeps=True)

    def _put(self, position: Any, item: Any) -> None:
        """Copy an item into the buffer."""
        root = self.buffer.root._storage
        if self.kind.is_mutable:
            _freeze(item, root)
        with current().copying(self.kind.is_mutable or not self.prefix):
            self.buffer[(*self.prefix, position)] = asarray(item)

    @property
    def can_exchange(self) -> bool:
        """Whether items are arrays or lists of numbers, and change places where their rows do."""
        root = self.buffer.root._storage if not isinstance(self, RecordList) else None
        known = root is not None and not self.prefix and not self.keeps and not root.links and not root.shares
        return known and len(self.kind.type.shape) == 1

    def exchange(self, positions: Iterable[Any], others: Iterable[Any]) -> None:
        """Put items into the places of others, when no name has one of them."""
        rows = [self.buffer[self._position(other)].copy() for other in others]
        with current().copying():
            for position, row in zip(positions, rows, strict=True):
                self.buffer[self._position(position)] = row

    def _rows(self, positions: range) -> CapturedList:
        result = CapturedList(self.item(i) for i in positions)
        current().register_created(result)
        return result

    def append(self, item: Any) -> None:
        """Append one item.

        Where there is no room, or the item is of another type, the list becomes an ordinary one.
        """
        self._widen_for(item)
        if self.prefix or not self._takes(item) or not self._has_room(item):
            if id(self) in current().widen:
                current().widen[id(self)](item)
            unstack(self)
            list.append(self, item)
            return
        with current().builder.certain():
            self._store(self.length, item)
        self._count(1)

    def _widen_for(self, item: Any) -> None:
        """Let a list of unknown length take an item of another type, where it can."""
        if self.varies and not self.prefix and not self._takes(item) and (use := self._use(item)) is not None:
            capacity = self.added + 1 if self.room is None else self.capacity
            use = use._replace(replaced=False, capacity=capacity, room=self.room)
            if current().created_depth(self) != current().depth:
                raise indexed_error(use, f"an item of another type: {describe(item)}")
            stack_items(use)

    def _count(self, number: int) -> None:
        """Note how many items were appended."""
        self.length = self.length + number
        if self.room is None:
            self.added += number
            note_peak(self, self.added)

    def _has_room(self, item: Any) -> bool:
        """Return whether one more item can be appended; in a loop around it there is always room, which is made before
        the loop when it is known how many its body appends."""
        if self.room is not None:
            self.room.require(self.length, self.capacity)
            return True
        if decide(self.capacity - self.added, ">"):
            return True
        capture = current()
        frames = capture.frames[capture.created_depth(self) + 1 :]
        if frames and not any(frame.kind == "loop" for frame in frames):
            use = ListUse(self, self.kind, capacity=self.added + 1)
            raise indexed_error(use, "an item that is appended under a condition")
        if not frames and not self.varies:
            return False
        make_room(self, self.kind, self.added + 1)
        return True

    def _takes(self, item: Any) -> bool:
        if item is None:
            return self.there is not None
        try:
            kind = item_type([item])
        except RestageError:
            return False
        mine = self.kind
        return (
            isinstance(kind, ItemKind)
            and kind.type.shape == mine.type.shape
            and kind.nested == mine.nested
            and kind.weak >= mine.weak
            and kind.maybe <= (self.there is not None)
            and result_dtype([self.buffer, asarray(some_of(item))]) == mine.type.dtype
        )

    def extend(self, items: Iterable[Any]) -> None:
        """Append items."""
        for item in self.copy() if items is self else items:
            self.append(item)

    def pop(self, index: Any = -1) -> Any:
        """Remove and return an item."""
        last = not isinstance(index, Tracer) and index == -1
        if not last and not self.has_unknown_length:
            raise RestageError("an item inside a list is removed")
        self._give_copies("an array or list that is taken out of a list")
        position = self._position(index)
        item = self.item(position)
        if not last:
            self._close_gap(position)
        self._count(-1)
        return item

    def _close_gap(self, position: Any) -> None:
        """Move the items behind a position to the place before theirs."""
        if isinstance(position, int):
            for column in self.parts():
                with current().copying(True):
                    column.buffer[position:-1] = column.buffer[position + 1 :]
        else:
            self._move(lambda places: places + (places >= position))

    def _move(self, source: Callable[[Tracer], Any]) -> None:
        """Put into each place, where there is one, the item of the place that `source` gives for it."""
        behind = as_size(self.capacity) - 1
        order = call_handler(np.minimum, source(asarray(call_handler(np.arange, behind + 1))), behind)
        for column in self.parts():
            with current().copying(True):
                column.buffer[:] = column.buffer[order]

    def delete(self, part: slice) -> None:
        """Do `del values[part]`, of items that follow each other in a list of unknown length."""
        self._give_copies("arrays or lists that are deleted")
        self.note_range()
        taken = narrow(Axis(self.length), part)
        length, gap = self.length, taken.stop - taken.start
        if taken.stop is not length:
            self._move(lambda places: places + call_handler(np.where, places >= taken.start, gap, 0))
        self.length = length - gap
        if self.is_counted and (most := most_between(0, self.length)) is not None:
            self.added = most if decide(self.added - most, ">") else self.added

    def _give_copies(self, found: str) -> None:
        """Let the list give copies from now on, where its items can be changed."""
        if self.kind.is_mutable and not self.keeps:
            if current().created_depth(self) != current().depth:
                raise indexed_error(ListUse(self, self.kind, replaced=True), found)
            keep_items(self)

    def insert(self, index: Any, item: Any) -> None:
        """Insert an item before a position."""
        self._widen_for(item)
        if not self.has_unknown_length or not self._takes(item):
            unstack(self).insert(index, item)
            return
        self._give_copies("arrays or lists that make place for another one")
        last = self.length
        self.append(item)
        index = call_handler(np.clip, call_handler(np.where, index < 0, index + last, index), 0, last)
        self._move(
            lambda places: call_handler(
                np.where,
                places <= last,
                call_handler(np.where, places == index, last, places - (places > index)),
                places,
            )
        )

    def reverse(self) -> None:
        """Reverse the order of the items."""
        if not self.stays_stacked:
            unstack(self).reverse()
            return
        self._write(self.rows()[::-1])

    def sort(self, *, reverse: bool = False) -> None:  # type: ignore[override]
        """Sort the items, which are numbers."""
        if not self.stays_stacked:
            unstack(self).sort(reverse=reverse)
            return
        rows = call_handler(np.sort, self.rows())
        self._write(rows[::-1] if reverse else rows)

    def _write(self, rows: Any) -> None:
        self.rows()[:] = rows

    def reorder(self, order: Ragged) -> None:
        """Bring the items, of a number that is not known, into an order: that of the positions in an array."""
        self._give_copies("arrays or lists that are sorted")
        places, _ = leading(order)
        for column in self.parts():
            room = column.capacity
            inside = cut(places, 0, smallest((room, places.type.shape[0])))
            if inside is not places:  # those of the items come first; the others may be beyond the buffer
                inside = call_handler(np.minimum, inside, as_size(room) - 1)
            with current().copying(True), current().builder.certain():
                column.buffer[: as_size(inside.type.shape[0])] = column.buffer[inside]

    def parts(self) -> tuple[StackedList, ...]:
        """Return the lists of numbers, arrays or lists that hold the items: this one, or the columns of records."""
        return (self,)

    def columns_of_items(self) -> Iterator[StackedList]:
        """Yield lists of the first parts of all items, of the second ones and so on: `zip(*values)`."""
        rows, shape = self.rows(), self.kind.type.shape
        if not shape or not isinstance(shape[0], int):
            raise RestageError("the items of a list are taken apart")
        kind = ItemKind(ArrayType(self.kind.type.dtype, shape[1:]), self.kind.weak, max(self.kind.nested - 1, 0))
        for k in range(shape[0]):
            yield list_of_rows(_copied(rows[:, k]), kind, keeps=True)

    def taken(self, take: Callable[[Any], Any]) -> StackedList:
        """Return a list, of a length that is not known, of the rows that `take` gives of the arrays of the items."""
        self._give_copies("a slice or copy of a list of arrays or lists, whose length is not known")
        return self._made_of([_copied(take(column.rows())) for column in self.parts()])

    def _made_of(self, parts: list[Ragged]) -> StackedList:
        return list_of_rows(parts[0], self.kind, keeps=self.keeps)

    def parts_in_use(self) -> list[Ragged]:
        """Return the buffers themselves, each with how many of its rows are items."""
        self.note_range()
        return [Ragged(column.buffer, {0: Axis(self.length)}) for column in self.parts()]

    @property
    def has_unknown_length(self) -> bool:
        """Whether the length is known only at run time, and each item is surely there."""
        return (self.varies or isinstance(self.length, Tracer)) and self.there is None

    @property
    def has_order(self) -> bool:
        """Whether the items are numbers, or tuples of them."""
        return not self.kind.is_mutable

    @property
    def stays_stacked(self) -> bool:
        """Whether an operation that makes or moves items works on the buffer: the length is not known, and the
        items are numbers, which no other name can see change."""
        return self.has_unknown_length and not self.kind.is_mutable

    def copy(self) -> CapturedList:
        """Return the items as a list."""
        return self.taken(lambda rows: rows) if self.has_unknown_length else self._rows(range(len(self)))

    def __add__(self, other: Any) -> CapturedList:
        result = CapturedList([*self, *other])
        current().register_created(result)
        return result


class RecordList(StackedList):
    """A list whose items are records: of each of their leaves, the rows of an array.

    The columns, lists of these leaves, are used for their buffers only; the length is that of the list.
    """

    __slots__ = ()

    kind: RecordKind  # type: ignore[assignment]

    def parts(self) -> tuple[StackedList, ...]:
        return self.in_step()

    def columns_of_items(self) -> Iterator[StackedList]:
        if not issubclass(self.kind.structure.kind, tuple) or any(c != LEAF for c in self.kind.structure.children):
            raise RestageError("the items of a list are taken apart")
        self._give_copies("arrays or lists in tuples")
        for column in self.in_step():
            yield list_of_rows(_copied(column.rows()), column.kind, keeps=column.keeps)

    def _made_of(self, parts: list[Ragged]) -> StackedList:
        return list_of_records(parts, self.kind, [column.keeps for column in self.columns])

    @property
    def has_unknown_length(self) -> bool:
        return super().has_unknown_length and not self.kind.maybe

    def in_step(self) -> tuple[StackedList, ...]:
        """Return the columns, of the length that the list has at this point."""
        for column in self.columns:
            column.length, column.added, column.varies = self.length, self.added, self.varies
        return self.columns

    def adapt(self, use: ListUse) -> None:
        """Make the list one that can be used so."""
        if use.kind is not None:
            kind = join_kinds([self.kind, use.kind])
            assert isinstance(kind, RecordKind)
            self.restructure(kind.structure)
            for column, field in zip(self.in_step(), kind.fields, strict=True):
                _adapt(column, ListUse(column, field, use.replaced))
            self.kind, self.keeps = kind, _keep(self.columns)
        if use.capacity != 0 and not decide(self.capacity - use.capacity, ">="):
            make_room(self, self.kind, use.capacity * 2)

    def restructure(self, structure: Tree) -> None:
        """Make the records ones of a structure that has more texts.

        Raises:
            RestageError: it has numbers where these have None.
        """
        if structure == self.kind.structure:
            return
        columns = _spread(structure, self.kind.structure, iter(self.in_step()), self._numbers_of)
        if any(column is None for column in columns):
            raise RestageError("a list of records gets numbers where it has None")
        self.columns = tuple(columns)
        self.kind = RecordKind(structure, tuple(column.kind for column in columns))

    def _numbers_of(self, own: Tree, column: StackedList | None, texts: tuple[Any, ...]) -> StackedList:
        """Return the numbers that the texts of the items have among more texts, which begin with those."""
        assert texts[: len(_texts(own))] == _texts(own), "more texts keep the numbers of those before"
        if column is not None:
            return column
        made = stacked_list(_filled(_NUMBER, self.capacity, []), _NUMBER, self.length)
        current().created[id(made)] = made, current().created_depth(self)
        return made

    @property
    def capacity(self) -> Dim:
        """For how many items there is room."""
        return self.columns[0].capacity

    @property
    def has_order(self) -> bool:
        """Whether the items are tuples of numbers."""
        return _is_tuple(self.kind.structure) and not self.kind.is_mutable

    @property
    def stays_stacked(self) -> bool:
        """Operations that make or move items are not done on the buffers."""
        return False

    def rows(self) -> Any:
        """Return the items as one array, as np.array makes it of them."""
        structure = self.kind.structure
        if issubclass(structure.kind, tuple) and all(child == LEAF for child in structure.children):
            return call_handler(np.stack, [column.as_array() for column in self.in_step()], axis=1)
        return call_handler(np.array, list(self))

    def item(self, position: Any) -> Any:
        """Return the item at a position from 0 on, which is known to be there."""
        return make_record(self.kind, [column.item(position) for column in self.columns], self.columns[0])

    def _put(self, position: Any, item: Any) -> None:
        capture = current()
        for held in _changeable(item):
            if any(frame.kind == "loop" for frame in capture.frames[capture.created_depth(held) + 1 :]):
                raise RestageError("a dict or object from before a loop is put into a list in it")
            hold(held, self.columns[0])
        for column, leaf in zip(self.columns, _open_as(self.kind.structure, item), strict=True):
            column._store(position, leaf)

    def _takes(self, item: Any) -> bool:
        try:
            leaves = _open_as(self.kind.structure, item, _any_number)
        except RestageError:
            return False
        return all(column._takes(leaf) for column, leaf in zip(self.columns, leaves, strict=True))


def _is_tuple(tree: Tree) -> bool:
    """Return whether a structure is a number, or a tuple of such structures that Python compares part by part."""
    if tree == LEAF:
        return True
    is_compared = isinstance(tree.kind, type) and getattr(tree.kind, "__lt__", None) is tuple.__lt__
    return is_compared and all(map(_is_tuple, tree.children))


def _keep(columns: Iterable[StackedList]) -> bool:
    """Return whether the items of lists are copies, where they can be changed at all."""
    return all(column.keeps or not column.kind.is_mutable for column in columns)


def _open(value: Any) -> tuple[Tree, list[Any]]:
    """Return the structure of a record and its leaves, which may be lists."""
    leaves: list[Any] = []
    around: set[int] = set()

    def visit(part: Any) -> Tree:
        if part is None or isinstance(part, str):
            return Tree(Constant, part, ())
        if type(part) is Chosen and all(option is None or isinstance(option, str) for option in part.options):
            leaves.append(part.index)
            return Tree(Choice, tuple(part.options), (LEAF,))
        found = None if isinstance(part, list) else open_container(part)
        if found is None:
            leaves.append(part)
            return LEAF
        if id(part) in around:
            raise RestageError("an object that stands in itself is put into a list")
        around.add(id(part))
        data, children, origin = found
        tree = Tree(type(part), data, tuple(map(visit, children)), origin)
        around.discard(id(part))
        return tree

    return visit(value), leaves


#: gives what stands in the place of a text, by the structure there, its leaf or None, and all texts
_Number = Callable[[Tree, Any, tuple[Any, ...]], Any]


def _number_of(own: Tree, index: Tracer | None, texts: tuple[Any, ...]) -> Any:
    """Return the number that a text, or one of several, has among others."""
    return place_of(own.data, texts) if index is None else renumbered(index, own.data, texts)


def _any_number(own: Tree, index: Any, texts: tuple[Any, ...]) -> Any:
    """Return a number in the place of a text, where only its type counts."""
    return 0


def _open_as(structure: Tree, value: Any, number: _Number = _number_of) -> list[Any]:
    """Return the leaves of a record in those places where records of a structure have them.

    Raises:
        RestageError: it is a record of another structure.
    """
    own, leaves = _open(value)
    return _spread(structure, own, iter(leaves), number)


def _spread(structure: Tree, own: Tree, leaves: Iterator[Any], number: _Number) -> list[Any]:
    """Return the leaves of a record where records of another structure have them."""
    if structure == LEAF and own in (LEAF, _NONE):
        return [next(leaves) if own == LEAF else None]
    if structure.kind is Choice and all(place_of(text, structure.data) is not None for text in _texts(own)):
        return [number(own, next(leaves) if own.kind is Choice else None, structure.data)]
    if not _has_form_of(structure, own) or structure == LEAF:
        raise RestageError("the items of a list differ in structure")
    pairs = zip(structure.children, own.children, strict=True)
    return [leaf for one, other in pairs for leaf in _spread(one, other, leaves, number)]


def _meet(one: Tree, other: Tree) -> Tree:
    """Return the structure of the records of two structures, where one has None in the place of a number, or other
    texts.

    Raises:
        RestageError: they differ otherwise.
    """
    if one == other:
        return one
    if one in (LEAF, _NONE) and other in (LEAF, _NONE):
        return LEAF
    texts, others = _texts(one), _texts(other)
    if texts and others:
        return Tree(Choice, (*texts, *(text for text in others if place_of(text, texts) is None)), (LEAF,))
    if not _has_form_of(one, other):
        raise RestageError("the items of a list differ in structure")
    children = tuple(_meet(a, b) for a, b in zip(one.children, other.children, strict=True))
    return dataclasses.replace(one, children=children)


def _texts(tree: Tree) -> tuple[Any, ...]:
    """Return which texts a value of a structure can be; none for all but texts."""
    return (tree.data,) if tree.kind is Constant else tree.data if tree.kind is Choice else ()


def _has_form_of(one: Tree, other: Tree) -> bool:
    return (one.kind, one.data, len(one.children)) == (other.kind, other.data, len(other.children))


def _changeable(record: Any) -> list[Any]:
    """Return the dicts and objects in a record that can be written."""
    return [tree.origin for (tree,) in nodes(_open(record)[0]) if not tree.is_fixed]


_NONE = Tree(Constant, None, ())
_FLAG = ItemKind(ArrayType(BOOL, ()), weak=True)
_NUMBER = ItemKind(ArrayType(I64, ()), weak=True)
_OUT_OF_RANGE = "list index out of range"
_ITEM = "an item of a list whose items are replaced or removed"
_ROW = "a list in a list, whose length changes"
_COPIED = "an array or list that stands in another list"


def stacked_list(
    buffer: Tracer,
    kind: ItemKind,
    count: Any,
    prefix: tuple[Any, ...] = (),
    *,
    keeps: bool = False,
    table: StackedList | None = None,
    there: Tracer | None = None,
) -> StackedList:
    """Return a new list over rows of a buffer."""
    result = StackedList()
    result.buffer, result.kind, result.length, result.added = buffer, kind, count, count
    result.prefix, result.keeps, result.there, result.varies = prefix, keeps, there, False
    result.table, result.room = table, None
    current().register_created(result)
    return result


def list_of_rows(rows: Ragged, kind: ItemKind, *, keeps: bool) -> StackedList:
    """Return a new list, of a length that is not known, of the rows of an array that nothing else has."""
    content, (length,) = rows.carried()
    result = stacked_list(content, kind, length, keeps=keeps)
    result.varies, result.added = True, content.type.shape[0]
    content._storage.holds_items = True
    return result


def rows_in(values: CapturedList, kind: Kind) -> list[Ragged]:
    """Return the items of a list of numbers, or tuples of them, made ones of a kind, as arrays with room for more."""
    if not isinstance(values, StackedList):
        items, values = list(values), CapturedList(values)
        current().register_created(values)
        make_room(values, kind, len(items))
    assert isinstance(values, StackedList)
    if values.prefix:
        rows = values.rows()
        parts = [rows if isinstance(rows, Ragged) else Ragged(asarray(rows), {})]
    else:
        parts = values.parts_in_use()
    fields = kind.fields if isinstance(kind, RecordKind) else (kind,)
    return [part.astype(field.type.dtype) for part, field in zip(parts, fields, strict=True)]


def give_name(name: str, value: Any) -> Any:
    """Give a value that is assigned the name, and return it."""
    if isinstance(value, Tracer):
        value.set_name(name)
    elif isinstance(value, CapturedList):
        value.name = name
        if isinstance(value, StackedList):
            for column in value.columns if isinstance(value, RecordList) else [value]:
                column.buffer.set_name(name)
    return value


def record_list(buffers: list[Any], kind: RecordKind, count: Any, keeps: Iterable[bool]) -> RecordList:
    """Return a new list of records over rows of buffers, in the order of `leaves` of its columns."""
    given = iter(buffers)
    columns = [
        stacked_list(next(given), field, count, keeps=kept, there=next(given) if field.maybe else None)
        for field, kept in zip(kind.fields, keeps, strict=True)
    ]
    result = RecordList()
    _lay_out(result, columns, kind, count)
    current().register_created(result)
    return result


def list_of_records(parts: list[Ragged], kind: RecordKind, keeps: Iterable[bool]) -> RecordList:
    """Return a new list of records, of a length that is not known, over rows of arrays that nothing else has."""
    contents, lengths = zip(*(part.carried() for part in parts), strict=True)
    result = record_list(list(contents), kind, lengths[0][0], keeps)
    result.varies, result.added = True, contents[0].type.shape[0]
    for content in contents:
        content._storage.holds_items = True
    return result


def make_record(kind: RecordKind, leaves: list[Any], holder: Any = None) -> Any:
    """Return a new record; where there is a `holder`, it stands for the list that gives it."""

    def note(made: Any) -> None:
        current().register_created(made)
        if holder is not None and not kind.structure.is_fixed:
            hold(made, holder)

    return rebuild(kind.structure, leaves, note)


def _lay_out(values: RecordList, columns: list[StackedList], kind: RecordKind, count: Any) -> None:
    values.columns, values.kind, values.length, values.added = tuple(columns), kind, count, count
    values.prefix, values.keeps, values.there, values.varies = (), _keep(columns), None, False
    values.table = values.room = None


def sample(kind: ArrayType, weak: bool) -> Tracer:
    """Return an array of a type, for the rules of dtypes only."""
    return Tracer(Storage(kind, 0), weak=weak)


def require_growing(values: StackedList) -> None:
    """Check that a list may change its length: that it stands in no other list.

    Raises:
        NeedsPythonValue: it does.
    """
    if values.prefix:
        raise alias_error(_ROW, user_span())
    for column in values.columns if isinstance(values, RecordList) else [values]:
        column.buffer.root._storage.require_writable()


def keep_items(values: StackedList) -> None:
    """Let a list give copies from now on, which stay what they are when an item is replaced.

    The parts of the buffer that it gave before stay what they are too: it gets a new buffer.
    """
    for column in values.columns if isinstance(values, RecordList) else [values]:
        if column.kind.is_mutable and not column.keeps:
            old = column.buffer
            column.buffer, column.keeps = from_value(old.value), True
            pin(old.root, _ITEM)
    values.keeps = True


def _freeze(item: Any, root: Storage) -> None:
    """Note that an array or list is copied into a buffer."""
    if isinstance(item, CapturedList):
        if not isinstance(item, StackedList):
            if current().created_depth(item) != current().depth or not stack_items(ListUse(item)):
                raise RestageError("a list from before a loop or branch is put into another list")
        item = item.buffer
    if isinstance(item, Tracer) and item.is_array:
        pin(item, _COPIED)
        current().note_copy(item.root._storage, root)
        current().has_unordered_items |= item.ndim > 1 and not item.is_contiguous


def rows_of(array: Any, nested: int = 0) -> list[Any]:
    """Return the rows of an array as a list, or as lists of lists."""
    return [rows_of(row, nested - 1) for row in array] if nested else list(array)


def records_of(kind: RecordKind, arrays: Iterable[Any]) -> list[Any]:
    """Return the records whose leaves are the rows of arrays."""
    columns = [rows_of(array, field.nested) for array, field in zip(arrays, kind.fields, strict=True)]
    return [rebuild(kind.structure, list(row), lambda made: None) for row in zip(*columns, strict=True)]


def rows_text(array: str, nested: int, level: int = 0) -> str:
    """Return the text of `rows_of` an array."""
    if not nested:
        return f"list({array})"
    row = "row" if not level else f"row_{level}"
    return f"[{rows_text(row, nested - 1, level + 1)} for {row} in {array}]"


def pin(item: Tracer, why: str) -> None:
    """Note that an array must not be written any more."""
    current().pin(item.root._storage, why)


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


def note_peak(values: list[Any], count: Dim) -> None:
    """Note, in the body of a loop, that a list is to have room for so many items, of which it may lose some later."""
    for frame in reversed(current().frames):
        if frame.kind == "loop":
            frame.peaks[id(values)] = greater(frame.peaks.get(id(values), count), count)
            return


def greater(one: Dim, other: Dim) -> Dim:
    """Return the greater one of two dimensions."""
    return one if decide(one - other, ">=") else other


def count_before(before: Any) -> Dim:
    """Return `count_of` the list at a snapshot."""
    return before[2] if isinstance(before, tuple) else len(before)


def items_of(values: list[Any]) -> Any:
    """Return the items of a list, or for a StackedList their kind."""
    return values.kind if isinstance(values, StackedList) else list(values)


def snapshot(values: list[Any]) -> Any:
    """Return what `restore` needs to undo later changes of a list."""
    if not isinstance(values, StackedList):
        return list(values)
    if isinstance(values, RecordList):
        content: Any = tuple((column, snapshot(column)) for column in values.columns)
    else:
        content = values.buffer
    return (
        content,
        values.length,
        values.added,
        values.kind,
        values.prefix,
        values.table,
        values.keeps,
        values.there,
        values.varies,
        values.room,
    )


def restore(values: Any, before: Any) -> None:
    """Give a list the content that it had at `snapshot`."""
    if isinstance(before, tuple):
        list.clear(values)
        content, values.length, values.added, values.kind, values.prefix, values.table = before[:6]
        values.keeps, values.there, values.varies, values.room = before[6:]
        if isinstance(content, tuple):
            values.__class__, values.columns = RecordList, tuple(column for column, _ in content)
            for saved in content:
                restore(*saved)
        else:
            values.__class__, values.buffer = StackedList, content
        return
    if isinstance(values, StackedList):
        values.__class__ = CapturedList  # type: ignore[assignment]
    if isinstance(values, list):
        values[:] = before
    else:  # a deque
        values.clear()
        values.extend(before)


def item_type(items: list[Any]) -> Kind:
    """Return what items have in common.

    Raises:
        RestageError: they differ in shape or structure, or are other things than numbers, arrays, and lists and records
            of them.
    """
    some = [some_of(item) for item in items if item is not None]
    if len(some) < len(items) or any(presence_of(item) is not True for item in items):
        return _or_none(item_type(some))
    opened = [_open(item)[0] for item in items]
    if opened and all(structure != LEAF for structure in opened):
        if not any(structure.size for structure in opened):
            raise RestageError("a list in the loop holds other things than numbers and arrays")
        structure = functools.reduce(_meet, opened)
        columns = zip(*(_open_as(structure, item, _any_number) for item in items), strict=True)
        fields = [item_type(list(leaves)) for leaves in columns]
        if not all(isinstance(field, ItemKind) for field in fields):
            raise RestageError("a record in a list holds a list of records")
        return RecordKind(structure, tuple(field for field in fields if isinstance(field, ItemKind)))
    if items and all(isinstance(i, list) for i in items):
        if len({id(i) for i in items}) < len(items):
            raise RestageError("a list holds one list twice")
        lengths = [i.length if isinstance(i, StackedList) else len(i) for i in items]
        count = lengths[0]
        if not all(isinstance(length, int) and length == count for length in lengths) or not count:
            raise RestageError("the lists in a list differ in length")
        kind = join_kinds([i.kind if isinstance(i, StackedList) else item_type(i) for i in items])
        if isinstance(kind, RecordKind):
            raise RestageError("a list holds lists of records")
        return ItemKind(ArrayType(kind.type.dtype, (count, *kind.type.shape)), kind.weak, kind.nested + 1)
    if not all(isinstance(i, Tracer | int | float | complex | np.ndarray | np.generic) for i in items):
        raise RestageError("a list in the loop holds other things than numbers and arrays")
    tracers = [asarray(item) for item in items]
    shapes = {t.type.shape for t in tracers}
    if len(shapes) != 1:
        raise RestageError("the items of a list differ in shape")
    return ItemKind(ArrayType(result_dtype(tracers), shapes.pop()), all(t.weak for t in tracers))


def require_room(values: CapturedList, kind: Kind, capacity: Dim) -> None:
    """Check that a loop in a branch finds room for what it appends to a list from before the branch, which has its
    old buffer again after it.

    Raises:
        NeedsPythonValue: the list must have the room where it was made.
    """
    capture = current()
    kinds = {frame.kind for frame in capture.frames[capture.created_depth(values) + 1 :]}
    if "branch" not in kinds:
        return
    if isinstance(values, StackedList):
        # a loop around it makes room for all that its body appends
        if "loop" in kinds or decide(values.capacity - capacity, ">="):
            return
    raise indexed_error(ListUse(values, kind, capacity=capacity), "items that a loop appends under a condition")


def make_room(values: CapturedList, kind: Kind, capacity: Dim, *, keeps: bool = False) -> None:
    """Turn a list into a StackedList with room for `capacity` items of a kind."""
    if isinstance(kind, RecordKind):
        _make_room_for_records(values, kind, capacity, keeps)
        return
    if not isinstance(values, StackedList):
        given = [presence_of(item) for item in values]
        items = [some_of(item) for item in values]
        keeps = keeps or (kind.is_mutable and (kind.maybe or not _are_apart(items)))
        has_items = any(there is not False for there in given)
        if has_items and any(item is None for item in items):
            blank = _filled(kind, 1, [])[0]
            items = [blank if item is None else item for item in items]
        buffer = _filled(kind, capacity, items if has_items else [])
        if kind.is_mutable:
            for item in items:
                _freeze(item, buffer._storage)
        list.clear(values)
        values.__class__ = StackedList
        assert isinstance(values, StackedList)
        values.prefix, values.keeps, values.varies, values.table, values.room = (), keeps, False, None, None
        values.length = values.added = len(items)
        values.there = _filled(_FLAG, capacity, given) if kind.maybe else None
    elif values.prefix:
        raise RestageError("a list in a list of lists grows")
    elif values.buffer.dtype == kind.type.dtype and decide(values.buffer.type.shape[0] - capacity, ">="):
        _note_kind(values, kind)
        return
    else:
        rows = values.buffer.type.shape[0]
        capacity = greater(capacity, rows)
        buffer = _filled(kind, capacity, [])
        buffer[: as_size(rows)] = values.buffer
        buffer = _made_full(buffer)
        if kind.is_mutable:
            _supersede(values.buffer, buffer)
        if values.there is not None:
            there = _filled(_FLAG, capacity, [])
            there[: as_size(rows)] = values.there
            values.there = _made_full(there)
    buffer._storage.holds_items = True
    buffer.set_name(values.name)
    values.buffer, values.kind = buffer, kind
    _note_kind(values, kind)


def _note_kind(values: StackedList, kind: ItemKind) -> None:
    """Let a list hold None where items of a kind may be that."""
    if kind.maybe and values.there is None:
        if kind.is_mutable:
            keep_items(values)
        rows = values.buffer.type.shape[0]
        values.there = from_value(stage(ops.full, shape=(rows,), dtype=BOOL, value=True))
        values.kind = values.kind._replace(maybe=True)


def _make_room_for_records(values: CapturedList, kind: RecordKind, capacity: Dim, keeps: bool) -> None:
    columns: list[Any]
    if isinstance(values, RecordList):
        values.restructure(kind.structure)
        columns = list(values.in_step())
    elif isinstance(values, StackedList):
        raise RestageError("a list holds numbers or arrays, and records")
    else:
        capture, count = current(), len(values)
        columns = [CapturedList() for _ in kind.fields]
        for item in values:
            for column, leaf in zip(columns, _open_as(kind.structure, item), strict=True):
                list.append(column, leaf)
        for column in columns:
            column.name = values.name
            capture.created[id(column)] = column, capture.created_depth(values)
    for column, field in zip(columns, kind.fields, strict=True):
        make_room(column, field, capacity, keeps=keeps)
    if not isinstance(values, RecordList):
        for item in values:
            for held in _changeable(item):
                hold(held, columns[0])
        list.clear(values)
        values.__class__ = RecordList
        assert isinstance(values, RecordList)
        _lay_out(values, columns, kind, count)
    values.kind = kind


def presence_of(item: Any) -> Any:
    """Return whether an item of a list is not None."""
    return item.present if isinstance(item, MaybeNone) else item is not None


def some_of(item: Any) -> Any:
    """Return what an item of a list is where it is not None."""
    return item.some if isinstance(item, MaybeNone) else item


def _are_apart(items: list[Any]) -> bool:
    """Return whether arrays and lists are the function's own, so that a write into one can be noted, and of each there
    is one only."""
    roots = []
    for item in items:
        if isinstance(item, StackedList):
            item = item.buffer
        if isinstance(item, Tracer):
            roots.append(item.root._storage)
        elif not isinstance(item, CapturedList):
            return False
    return len(set(roots)) == len(roots)


#: so many items that differ from the others are written one by one
_FEW = 4


def _filled(kind: ItemKind, capacity: Dim, items: list[Any]) -> Tracer:
    """Return a new array with room for items, and the items."""
    dtype = kind.type.dtype
    numbers = list(_numbers(items)) if kind.weak else []
    counts = Counter(repr(number) for _, number in numbers if isinstance(number, bool | int | float | complex))
    fill = counts.most_common(1)[0][0] if counts else ""
    others = [(position, number) for position, number in numbers if repr(number) != fill]
    if items and len(items) == capacity and (not fill or len(others) > _FEW):
        return from_value(cast_to(asarray(items), dtype).value)
    value = next((number for _, number in numbers if repr(number) == fill), 0)
    shape = (capacity, *kind.type.shape)
    buffer = from_value(stage(ops.full, shape=shape, dtype=dtype, value=dtype.type(value).item()))
    if fill and len(others) <= _FEW:
        for position, number in others:
            buffer[position] = number
    elif items:
        buffer[: len(items)] = asarray(items)
    return _made_full(buffer)


def _made_full(buffer: Tracer) -> Tracer:
    """Return a new array with what was written into one: a region or `try` that is open does not undo the writes."""
    return from_value(buffer.value)


def _numbers(items: list[Any], position: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield what is in nested lists, with positions."""
    for k, item in enumerate(items):
        if isinstance(item, list):
            yield from _numbers(item, (*position, k))
        else:
            yield (*position, k), item
