"""What a loop runs over: start, stop, step and an item for each number (`range`, `enumerate`, `zip`, `reversed`).

Previous: slots.py; next: loops.py.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tracegrad.capture.context import current, user_span
from tracegrad.capture.guards import guard_native
from tracegrad.capture.lengths import span_of
from tracegrad.capture.lists import StackedList, count_of
from tracegrad.capture.masked import Masked
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sizes import as_dim, decide
from tracegrad.capture.slots import new_list
from tracegrad.capture.state import flatten, unflatten
from tracegrad.capture.tracer import Tracer, asarray, call_handler, make_weak
from tracegrad.errors import CaptureError, NeedsPythonValue
from tracegrad.ir.types import Dim

#: shorter loops over ints that itertools combines are unrolled, as those over lists are
_FEW_ROWS = 8
#: so many combinations are made at once
_TABLE_LIMIT = 1 << 16


class Sequence_:
    """Something a staged loop can run over: `length` items, item(i) for a traced or plain i. They are taken from
    `lists`, with the number of items that each had at the start. `is_plain`: for a plain i they are Python values."""

    is_plain = False

    def __init__(
        self,
        start: Any,
        stop: Any,
        step: int,
        item: Callable[[Any], Any],
        lists: tuple[tuple[StackedList, Dim], ...] = (),
    ) -> None:
        self.start, self.stop, self.step, self.item, self.lists = start, stop, step, item, lists

    def run_checked(self, body: Callable[[Any], None], item: Any) -> None:
        """Run the body of a loop; check that it has not changed the length of a list that the loop runs over, which
        would run on, or end earlier.

        Raises:
            CaptureError: it has.
        """
        before = [values.length for values, _ in self.lists]
        body(item)
        for (values, count), length in zip(self.lists, before, strict=True):
            if count_of(values) != count or (values.room is not None and values.length is not length):
                raise CaptureError(
                    "a list changes its length while a loop runs over it",
                    code="TG134",
                    span=user_span(),
                    found=f"{getattr(values, 'name', '') or 'a list'}, whose items are rows of an array",
                    help="loop over a copy, `for v in list(values)`, for the items from before only; else count: "
                    "`while k < n`, with an array that has room for all",
                )

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
        start, stop = operator.index(self.start), operator.index(self.stop)
        return (self.item(i) for i in range(start, stop, self.step))

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
        if (self.step == 1 and is_zero(self.start)) or abs(self.step) != 1:
            return self
        count = self.stop - self.start if self.step == 1 else self.start - self.stop
        return Sequence_(0, count, 1, lambda k: self.item(self.start + k * self.step), self.lists)

    def rest(self) -> Sequence_:
        """Return all items but the first."""
        rest = Sequence_(self.start + self.step, self.stop, self.step, self.item, self.lists)
        rest.is_plain = self.is_plain
        return rest

    def backwards(self) -> Sequence_:
        """Return the same items in reverse order."""
        if self.step == 1:
            return Sequence_(self.stop - 1, self.start - 1, -1, self.item, self.lists)
        if self.static_length is None and self.step == -1:
            return Sequence_(self.stop + 1, self.start + 1, 1, self.item, self.lists)
        last = range(self.start, self.stop, self.step)
        if not last:
            return Sequence_(0, 0, 1, self.item)
        return Sequence_(last[-1], last[0] - (1 if self.step > 0 else -1), -self.step, self.item, self.lists)


class Items(Sequence_):
    """What is an iterator in Python: it gives each item once."""

    def take(self) -> Sequence_:
        """Return all items that are left, which are then gone."""
        taken = Sequence_(self.start, self.stop, self.step, self.item, self.lists)
        taken.is_plain, self.start = self.is_plain, self.stop
        return taken

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not range(operator.index(self.start), operator.index(self.stop), self.step):
            raise StopIteration
        item = self.item(self.start)
        self.start = self.start + self.step
        return item


class Range(Sequence_):
    """The numbers of a `range`."""

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
        return Sequence_(0, stacked.length, 1, stacked.item, ((stacked, count_of(stacked)),))
    if isinstance(iterable, np.ndarray) and iterable.dtype.kind in "biufc":
        iterable = asarray(iterable)
    if isinstance(iterable, Masked):
        iterable = iterable.compressed()
    if isinstance(iterable, Tracer | Ragged):
        if not iterable.ndim:
            raise TypeError("iteration over a 0-d array")
        return Sequence_(0, iterable.shape[0], 1, lambda i: iterable[i])
    return None


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
    inner = as_sequence(iterable)
    if inner is None:
        return enumerate(iterable, start)
    first, step = inner.start, inner.step
    if step == 1 and isinstance(first, int) and first == 0:
        return Items(0, inner.stop, 1, lambda i: (i + start if not is_zero(start) else i, inner.item(i)), inner.lists)
    return Items(first, inner.stop, step, lambda i: ((i - first) // step + start, inner.item(i)), inner.lists)


def is_zero(value: Any) -> bool:
    """Return whether a value is the Python int 0."""
    return isinstance(value, int) and value == 0


def make_zip(*iterables: Any, strict: bool = False) -> Any:
    """`zip(...)` in captured code."""
    if len({id(i) for i in iterables}) < len(iterables) and any(isinstance(i, Iterator) for i in iterables):
        return zip(*iterables, strict=strict)  # takes its items by turns
    sequences = [as_sequence(i) for i in iterables]
    if any(s is not None and s.length is None for s in sequences):
        sequences = [s.counted() if s is not None else of_numbers(i) for s, i in zip(sequences, iterables, strict=True)]
    if not iterables or not all(s is not None and s.step == 1 and is_zero(s.start) for s in sequences):
        rest = [s if s is not None else i for s, i in zip(sequences, iterables, strict=True)]
        return zip(*rest, strict=strict)
    known = [s for s in sequences if s is not None]
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
        stop = call_handler(min, *stops)
    return Items(0, stop, 1, lambda i: tuple(s.item(i) for s in known), tuple(v for s in known for v in s.lists))


def table_of(make: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Return the form in captured code of a function of itertools that combines items: what it makes of ints, unless
    that is little, are the rows of a table."""

    def combine(*args: Any, **kwargs: Any) -> Iterator[Any]:
        guard_native(make, args, kwargs)
        rows = list(itertools.islice(iterator := make(*args, **kwargs), _TABLE_LIMIT + 1))
        if not _FEW_ROWS < len(rows) <= _TABLE_LIMIT or any(type(part) is not int for row in rows for part in row):
            return itertools.chain(rows, iterator)
        table = np.array(rows)

        def item(k: Any) -> Any:
            if isinstance(k, int):
                return rows[k]
            row = asarray(table)[k]
            parts = tuple(make_weak(row[place]) for place in range(table.shape[1]))
            for part, least, most in zip(parts, table.min(axis=0), table.max(axis=0), strict=True):
                current().ranges[part.value] = (int(least), int(most))
            return parts

        items = Items(0, len(rows), 1, item)
        items.is_plain = True
        return items

    return combine


def make_reversed(iterable: Any) -> Any:
    """`reversed(...)` in captured code."""
    inner = as_sequence(iterable)
    if inner is None:
        return reversed(iterable)
    back = inner.backwards()
    return Items(back.start, back.stop, back.step, back.item, back.lists)
