"""What a loop runs over: start, stop, step and an item for each number (`range`, `enumerate`, `zip`, `reversed`).

Previous: slots.py; next: loops.py.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from tracegrad.capture.context import current
from tracegrad.capture.guards import guard_native
from tracegrad.capture.iterators import note_left, note_taken
from tracegrad.capture.lengths import at_least, span_of
from tracegrad.capture.lists import (
    CapturedList,
    Sources,
    StackedList,
    content_error,
    count_of,
    has_content,
    length_error,
)
from tracegrad.capture.masked import Masked
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sizes import as_dim, decide
from tracegrad.capture.slots import new_list
from tracegrad.capture.state import flatten, unflatten
from tracegrad.capture.tracer import Tracer, asarray, call_handler, make_weak
from tracegrad.capture.trees import Source
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.types import Dim

#: shorter loops over ints that Python knows are unrolled, as those over lists are
_FEW_ROWS = 8
#: so many of them are looked at, at once
_TABLE_LIMIT = 1 << 16
_LISTS = (list, tuple, CapturedList)


class Sequence_:
    """Something a staged loop can run over: `length` items, item(i) for a traced or plain i. They are taken from
    `lists`, with the number of items that each had at the start.

    Attributes:
        unrolls: Python can run over them, so a loop that cannot be staged is unrolled however many they are.
        kept: lists of Python values, with the items that each must have while a staged loop runs over it.
        native: the iterator of Python that gives the same items, where it sees what happens to those lists.
        sources: the lists of whose items map or filter has made these, with what they held.
    """

    unrolls = False
    kept: tuple[tuple[list[Any], list[Any]], ...] = ()
    native: Iterator[Any] | None = None
    sources: Sources = ()

    def __init__(
        self,
        start: Any,
        stop: Any,
        step: int,
        item: Callable[[Any], Any],
        lists: tuple[tuple[StackedList, Dim], ...] = (),
    ) -> None:
        self.start, self.stop, self.step, self.item, self.lists = start, stop, step, item, lists
        self.lengths = [values.length for values, _ in lists]

    def run_checked(self, body: Callable[[Any], None], item: Any) -> None:
        """Run the body of a loop; check that it has not changed the length of a list that the loop runs over, which
        would run on, or end earlier.

        Raises:
            CaptureError: it has.
        """
        before = [values.length for values, _ in self.lists]
        body(item)
        self._require(before)

    def _require(self, lengths: list[Any]) -> None:
        """Check that the lists have the lengths that they had.

        Raises:
            CaptureError: one has not.
        """
        for (values, count), length in zip(self.lists, lengths, strict=True):
            depends = isinstance(values, StackedList) and (values.varies or values.room is not None)
            if count_of(values) != count or (depends and values.length is not length):
                raise length_error(values)
        for source, content in self.sources:
            if not has_content(source, content):
                raise content_error(source)

    @property
    def is_kept(self) -> bool:
        """Whether the lists of Python values that the items come from are as they were."""
        return all(
            not isinstance(values, StackedList) and len(values) == len(items) and all(map(operator.is_, values, items))
            for values, items in self.kept
        )

    def is_of(self, use: Any) -> bool:
        """Return whether the use of a list, which would make an array of it, is of one that the items come from."""
        return use is not None and any(values is use.values for values, _ in self.kept)

    def like(self, *others: Sequence_ | None) -> Self:
        """Take over how others, of whose items these are made, can be run over in Python."""
        parts = [other for other in others if other is not None]
        self.unrolls = any(other.unrolls for other in parts)
        self.kept = tuple(pair for other in parts for pair in other.kept)
        self.sources = tuple(pair for other in parts for pair in other.sources)
        return self

    @property
    def length(self) -> Dim | None:
        """The number of items: an int, a symbolic dimension, or None when it is traced."""
        start, stop = as_dim(self.start), as_dim(self.stop)
        if start is None or stop is None:
            return None
        if isinstance(start, int) and isinstance(stop, int):
            return len(range(start, stop, self.step))
        distance = stop - start if self.step > 0 else start - stop
        if decide(distance, "<="):
            return 0
        return (distance + (abs(self.step) - 1)) // abs(self.step)

    @property
    def static_length(self) -> int | None:
        """The number of items when it is a plain int, else None."""
        length = self.length
        return length if isinstance(length, int) else None

    @property
    def most(self) -> Dim | None:
        """A number that `length` never exceeds, None when none is known."""
        starts, stops = span_of(self.start), span_of(self.stop)
        if starts is None or stops is None:
            return None
        return stops[1] - starts[0] if self.step > 0 else starts[1] - stops[0]

    def __iter__(self) -> Iterator[Any]:
        for values, _ in self.lists:
            values.known_length()
        start, stop = operator.index(self.start), operator.index(self.stop)
        return (self.item(i) for i in self._positions(range(start, stop, self.step)))

    def _positions(self, positions: range) -> Iterator[int]:
        """Yield positions of items, while the lists that these are taken from keep their lengths."""
        for position in positions:
            self._require(self.lengths)
            yield position
        self._require(self.lengths)

    def __len__(self) -> int:
        return len(range(operator.index(self.start), operator.index(self.stop), self.step))

    def __reversed__(self) -> Iterator[Any]:
        return iter(self.backwards())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self.item(i) for i in range(self.start, self.stop, self.step)[index]]
        return self.item(range(self.start, self.stop, self.step)[index])

    def __contains__(self, item: Any) -> bool:
        return any(item == i for i in self)

    def counted(self) -> Sequence_:
        """Return the same items numbered from 0 on, where one follows the other."""
        if self.step == 1 and is_zero(self.start):
            return self
        count = self.static_length
        if count is None:
            if abs(self.step) != 1:
                return self
            count = self.stop - self.start if self.step == 1 else self.start - self.stop
        return Sequence_(0, count, 1, lambda k: self.item(self.start + k * self.step), self.lists).like(self)

    def rest(self) -> Sequence_:
        """Return all items but the first."""
        return Sequence_(self.start + self.step, self.stop, self.step, self.item, self.lists).like(self)

    def backwards(self) -> Sequence_:
        """Return the same items in reverse order."""
        if self.step == 1:
            return type(self)(self.stop - 1, self.start - 1, -1, self.item, self.lists).like(self)
        if self.static_length is None and self.step == -1:
            return type(self)(self.stop + 1, self.start + 1, 1, self.item, self.lists).like(self)
        last = range(self.start, self.stop, self.step)
        if not last:
            return type(self)(0, 0, 1, self.item)
        back = last[0] - (1 if self.step > 0 else -1)
        return type(self)(last[-1], back, -self.step, self.item, self.lists).like(self)


class Items(Sequence_, Source):
    """What is an iterator in Python: it gives each item once."""

    def take(self) -> Sequence_:
        """Return all items that are left, which are then gone."""
        if id(self) not in current().used_up:
            note_taken(self.source)
        taken = Sequence_(self.start, self.stop, self.step, self.item, self.lists).like(self)
        taken.native, self.start = self.native, self.stop
        return taken

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._require(self.lengths)
        if not range(operator.index(self.start), operator.index(self.stop), self.step):
            raise StopIteration
        item = self.item(self.start) if self.native is None else next(self.native)
        self.start = self.start + self.step
        return item


class Range(Sequence_):
    """The numbers of a `range`."""

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return super().__getitem__(index)
        if index.start is None and index.stop is None and isinstance(index.step, int) and index.step == -1:
            part = self.backwards()
        else:
            numbers = range(self.start, self.stop, self.step)[index]
            part = Range(numbers.start, numbers.stop, numbers.step, self.item)
        part.unrolls = part.static_length is not None
        return part

    @property
    def is_count(self) -> bool:
        """Whether they are 0, 1, 2 and so on."""
        return is_zero(self.start) and self.step == 1

    def as_array(self) -> Tracer:
        """Return the numbers as an array."""
        return asarray(call_handler(np.arange, self.start, self.stop, self.step))


def make_range(*args: Any) -> Sequence_:
    """`range(...)` in captured code: bounds may be traced, the step is a Python int."""
    values = [
        a if isinstance(a, Tracer) and a.concrete is None else a if hasattr(a, "as_tracer") else operator.index(a)
        for a in args
    ]
    start, stop, step = (
        (0, values[0], 1) if len(values) == 1 else (values[0], values[1], values[2] if len(values) > 2 else 1)
    )
    for bound in (start, stop):
        if isinstance(bound, Tracer) and (bound.dtype.kind not in "iu" or bound.ndim):
            raise TypeError(f"'{bound.dtype}' object cannot be interpreted as an integer")
    return Range(start, stop, operator.index(step), lambda i: i)


def as_sequence(iterable: Any) -> Sequence_ | None:
    """Return what a staged loop runs over, or None when the iterable must be run in Python. Of an iterator, that is
    what is left, and it has no more."""
    if isinstance(iterable, Items):
        return iterable.take()
    if isinstance(iterable, Sequence_):
        return iterable
    if isinstance(iterable, StackedList):
        stacked = iterable
        stacked.note_range()
        made = Sequence_(0, stacked.length, 1, stacked.item, ((stacked, count_of(stacked)),))
        _, made.sources = current().streams.get(id(stacked), (stacked, ()))
        return made
    if isinstance(iterable, np.ndarray) and iterable.dtype.kind in "biufc":
        iterable = asarray(iterable)
    if isinstance(iterable, Masked):
        iterable = iterable.compressed()
    if isinstance(iterable, Tracer | Ragged):
        if not iterable.ndim:
            raise TypeError("iteration over a 0-d array")
        return Sequence_(0, iterable.shape[0], 1, lambda i: iterable[i])
    return None


def as_known_sequence(iterable: Any) -> Sequence_ | None:
    """Return what a staged loop runs over, also for a list or tuple of many ints, or of tuples of ints, that Python
    knows."""
    sequence = as_sequence(iterable)
    if sequence is not None or type(iterable) not in _LISTS:
        return sequence
    items = list(iterable)
    sequence = _of_ints(items)
    if sequence is not None and isinstance(iterable, list):
        sequence.kept, sequence.native = ((iterable, items),), iter(iterable)
    return sequence


def _of_ints(items: list[Any]) -> Sequence_ | None:
    """Return many ints, or tuples of as many ints, as a range or as the rows of a table."""
    if not _FEW_ROWS < len(items) <= _TABLE_LIMIT:
        return None
    single = type(items[0]) is int
    if single:
        if any(type(item) is not int for item in items):
            return None
        step = items[1] - items[0]
        numbers = range(items[0], items[-1] + (1 if step > 0 else -1), step or 1)
        if len(numbers) == len(items) and all(map(operator.eq, numbers, items)):
            made: Sequence_ = Range(numbers.start, numbers.stop, numbers.step, lambda i: i)
            made.unrolls = True
            return made
    elif any(type(row) is not tuple or len(row) != len(items[0]) for row in items):
        return None
    elif not items[0] or any(type(part) is not int for row in items for part in row):
        return None
    table = np.array([[item] for item in items] if single else items)
    if table.dtype != np.int64:
        return None
    least, most = table.min(axis=0), table.max(axis=0)

    def item(k: Any) -> Any:
        if isinstance(k, int):
            return items[k]
        row = asarray(table)[k]
        parts = tuple(make_weak(row[place]) for place in range(table.shape[1]))
        for part, *bounds in zip(parts, least, most, strict=True):
            current().ranges[part.value] = (int(bounds[0]), int(bounds[1]))
        return parts[0] if single else parts

    made = Sequence_(0, len(items), 1, item)
    made.unrolls = True
    return made


def of_numbers(items: Any) -> Sequence_ | None:
    """Return what gives the items of a list by their number, when they are numbers, or all the same of numbers."""
    if not isinstance(items, list | tuple):
        return None
    if not items:
        return Sequence_(0, 0, 1, items.__getitem__)
    try:
        leaves, tree = flatten(items[0])
        rows = [leaves]
        for given in items[1:]:
            leaves, found = flatten(given)
            if found != tree:
                return None
            rows.append(leaves)
    except NeedsPythonValue:  # an object that refers to itself
        return None
    columns = list(zip(*rows, strict=True))
    if not all(map(_are_alike, columns)):
        return None
    arrays = [asarray(column) for column in columns]

    def item(k: Any) -> Any:
        row = [array[k] for array in arrays]
        leaves = [make_weak(v) if asarray(c[0]).weak else v for v, c in zip(row, columns, strict=True)]
        return unflatten(tree, leaves, new_list)

    return Sequence_(0, len(items), 1, item)


def _are_alike(numbers: Sequence[Any]) -> bool:
    """Return whether all are numbers of one type."""
    if not all(isinstance(n, Tracer | int | float | complex | np.generic) and not np.ndim(n) for n in numbers):
        return False
    return len({(n.dtype, n.weak) for n in map(asarray, numbers)}) == 1


def make_enumerate(iterable: Any, start: Any = 0) -> Any:
    """`enumerate(...)` in captured code."""
    inner = as_known_sequence(iterable)
    if inner is None:
        return enumerate(iterable, start)
    first, step = inner.start, inner.step
    if step == 1 and isinstance(first, int) and first == 0:

        def item(i: Any) -> Any:
            return (i + start if not is_zero(start) else i, inner.item(i))

    else:

        def item(i: Any) -> Any:
            return ((i - first) // step + start, inner.item(i))

    items = Items(first, inner.stop, step, item, inner.lists).like(inner)
    if inner.native is not None:
        items.native = enumerate(inner.native, start)
    if isinstance(iterable, Items):
        note_left(iterable)
        items.source = iterable
    return items


def is_zero(value: Any) -> bool:
    """Return whether a value is the Python int 0."""
    return isinstance(value, int) and value == 0


def make_zip(*iterables: Any, strict: bool = False) -> Any:
    """`zip(...)` in captured code."""
    if len({id(i) for i in iterables}) < len(iterables) and any(isinstance(i, Iterator) for i in iterables):
        return zip(*iterables, strict=strict)  # takes its items by turns
    sequences = [as_known_sequence(i) for i in iterables]
    natives = [s.native if s is not None else None for s in sequences]
    for given in iterables:
        if isinstance(given, Items):
            note_left(given)
    rest = [
        n if n is not None else s if s is not None else i for n, s, i in zip(natives, sequences, iterables, strict=True)
    ]
    if any(s is not None and s.length is None for s in sequences):
        sequences = [s.counted() if s is not None else of_numbers(i) for s, i in zip(sequences, iterables, strict=True)]
    if not iterables or any(s is None for s in sequences):
        return zip(*rest, strict=strict)
    known = [s.counted() for s in sequences if s is not None]
    if not all(s.step == 1 and is_zero(s.start) for s in known):
        return zip(*rest, strict=strict)
    stops = [s.stop for s in known]
    if all(isinstance(s, int) for s in stops):
        if strict and len(set(stops)) > 1:
            raise ValueError("zip() arguments have different lengths")
        stop = min(stops)
    elif not strict and any(map(is_zero, stops)):
        stop = 0
    elif all(s is stops[0] or (hasattr(s, "dim") and s == stops[0]) for s in stops):
        stop = stops[0]
    else:
        stop = _least(stops)
    lists = tuple(v for s in known for v in s.lists)
    items = Items(0, stop, 1, lambda i: tuple(s.item(i) for s in known), lists).like(*known)
    if items.kept:
        items.native = _zipped(rest, strict)
    return items


def _least(numbers: list[Any]) -> Any:
    """Return the least of some lengths; those that are surely as great as another one are left out."""
    left: list[Any] = []
    for number in numbers:
        if not any(at_least(number - other, 0) for other in left):
            left = [other for other in left if not at_least(other - number, 0)] + [number]
    return left[0] if len(left) == 1 else call_handler(min, *left)


def make_pairwise(iterable: Any) -> Any:
    """`itertools.pairwise(...)` in captured code."""
    sequence = as_sequence(iterable)
    if sequence is None or sequence.length is not None or isinstance(iterable, Items):
        return joined_of(itertools.pairwise)(iterable)
    known = sequence.counted()
    if known.step != 1 or not is_zero(known.start):
        return itertools.pairwise(iterable)
    stop = known.stop - 1
    stop = stop if at_least(stop, 0) else make_weak(call_handler(np.maximum, stop, 0))
    return Items(0, stop, 1, lambda i: (known.item(i), known.item(i + 1)), known.lists).like(known)


def _zipped(iterables: Sequence[Any], strict: bool) -> Iterator[Any]:
    yield from zip(*iterables, strict=strict)


def table_of(make: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Return the form in captured code of a function that combines items into tuples: what it makes of ints, unless
    that is little, are the rows of a table."""

    def combine(*args: Any, **kwargs: Any) -> Iterator[Any]:
        guard_native(make, args, kwargs)
        rows = list(itertools.islice(iterator := make(*args, **kwargs), _TABLE_LIMIT + 1))
        sequence = _of_ints(rows)
        if sequence is None:
            return itertools.chain(rows, iterator)
        return Items(sequence.start, sequence.stop, sequence.step, sequence.item).like(sequence)

    return combine


def joined_of(make: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Return the form in captured code of a function that picks or joins items of iterables: where these are ranges,
    lists and tuples of ints, what it makes of them is known as well."""

    def combine(*args: Any) -> Iterator[Any]:
        guard_native(make, args, {})
        numbers = [list(arg) if _is_of_ints(arg) else arg for arg in args]
        if not all(arg is None or type(arg) in (int, list) for arg in numbers):
            return make(*args)
        sequence = _of_ints(list(make(*numbers)))
        if sequence is None:
            return make(*args)
        items = Items(sequence.start, sequence.stop, sequence.step, sequence.item).like(sequence)
        items.kept = tuple(pair for pair in zip(args, numbers, strict=True) if isinstance(pair[0], list))
        items.native = make(*args)
        return items

    return combine


def _is_of_ints(value: Any) -> bool:
    if isinstance(value, Range):
        return (value.static_length or _TABLE_LIMIT) < _TABLE_LIMIT
    if type(value) not in _LISTS or len(value) > _TABLE_LIMIT:
        return False
    return all(type(part) is int for item in value for part in (item if type(item) is tuple else (item,)))


def make_places(*shape: Any) -> Any:
    """`np.ndindex(...)` in captured code."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    return table_of(itertools.product)(*(make_range(size) for size in sizes))


def make_numbered_places(array: Any) -> Any:
    """`np.ndenumerate(...)` in captured code."""
    values = asarray(array)
    places = make_places(tuple(values.shape))
    if not isinstance(places, Items):
        return ((place, values[place]) for place in places)
    items = Items(places.start, places.stop, places.step, lambda k: (place := places.item(k), values[place]))
    return items.like(places)


def make_reversed(iterable: Any) -> Any:
    """`reversed(...)` in captured code."""
    inner = as_known_sequence(iterable)
    if inner is None:
        return reversed(iterable)
    back = inner.backwards()
    items = Items(back.start, back.stop, back.step, back.item, back.lists).like(inner)
    if isinstance(iterable, list) and inner.kept:
        items.native = reversed(iterable)
    return items
