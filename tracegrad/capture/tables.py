"""Dicts to whose items traced ints lead: an array with room for the values of all keys, and which of them are there.

`hist[it] = loss` and `cache[i, j] = v` in a staged loop, and `counts[k % 3] += 1`, make a Table of the items of a dict
whose keys are ints, or tuples of so many ints. It stands in the dict itself, under the key `TABLE`. Keys are never
taken away from it. Previous: slots.py; next: joins.py.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tracegrad import ops
from tracegrad.capture.aliases import require_single
from tracegrad.capture.context import RestageError, current, user_span
from tracegrad.capture.lengths import span_of
from tracegrad.capture.linear import difference
from tracegrad.capture.lists import ItemKind, StackedList, item_type, join_kinds, stacked_list
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import (
    Tracer,
    asarray,
    call_handler,
    cast_to,
    check,
    from_value,
    resolve_content,
    stage,
)
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.core import Value
from tracegrad.ir.types import BOOL, I64, Dim

_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
#: there is no room for the keys of a dict beyond this many
_ROOM_LIMIT = 1 << 20
#: a dict of more items stays an array
_OPEN_LIMIT = 4096

#: the least key and how many there is room for, of each of the ints in a key
Bounds = tuple[tuple[Dim, Dim], ...]


class _Key:
    """The key under which a Table stands in its dict."""

    def __repr__(self) -> str:
        return "(the items by traced keys)"


TABLE = _Key()


class TableUse(NamedTuple):
    """A use of a dict by a traced key that only a Table allows: the `remedy` of an error.

    Attributes:
        kind: of what is stored, or of what a missing item would be.
        bounds: of the keys.
        composite: the keys are tuples.
    """

    values: dict[Any, Any]
    kind: ItemKind
    bounds: Bounds
    composite: bool


class Table:
    """The items of a dict by int keys.

    Attributes:
        rows: the items, by the position of their key.
        there: of each position, whether there is an item.
        bounds, composite: which keys there is room for.
        surely: so many keys, from the least on, are there at least.
        exactly: value of `there` -> so many keys, from the least on and in this order, are there then, and no others.
    """

    __slots__ = ("bounds", "composite", "exactly", "rows", "surely", "there")

    def __init__(self, rows: StackedList, there: Tracer, bounds: Bounds, composite: bool) -> None:
        self.rows, self.there, self.bounds, self.composite = rows, there, bounds, composite
        self.surely: Dim = 0
        self.exactly: dict[Value, Dim] = {}

    def __reduce__(self) -> Any:
        raise unknown_keys("is copied by code that is not captured")

    def copied(self) -> Table:
        """Return a table of copies of the items."""
        buffer, there = from_value(self.rows.buffer.value), from_value(self.there.value)
        rows = stacked_list(buffer, self.rows.kind, self.rows.length, keeps=self.rows.keeps)
        buffer._storage.holds_items = True
        made = Table(rows, there, self.bounds, self.composite)
        made.surely, made.exactly = self.surely, dict(self.exactly)
        current().register_created(made)
        return made

    @property
    def room(self) -> Dim:
        return math.prod(count for _, count in self.bounds)

    @property
    def first(self) -> Dim:
        return self.bounds[0][0]

    @property
    def is_full(self) -> bool:
        """Whether all keys for which there is room are there."""
        return decide(self.surely - self.room, ">=")

    @property
    def count(self) -> Dim | None:
        """How many items there are: from the least key on, in this order. None when it is not known."""
        return self.room if self.is_full else self.exactly.get(self.there.value)

    def takes(self, key: Any) -> bool:
        """Return whether a key is of the form of those of the table."""
        parts = ints_of(key)
        return parts is not None and len(parts) == len(self.bounds) and isinstance(key, tuple) == self.composite

    def find(self, key: Any) -> tuple[Any, Any]:
        """Return the position of a key, and whether there is an item; the position is one of the table in any case."""
        position, inside = self._position(key)
        if inside is False:
            return 0, False
        if inside is True and self._is_surely_there(position):
            return position, True
        if inside is not True:
            position = call_handler(np.where, inside, position, 0)
        there = self.there[position]
        return position, there if inside is True else call_handler(np.logical_and, inside, there)

    def item(self, key: Any) -> Any:
        """Return `d[key]`."""
        position, there = self.find(key)
        if there is False:
            raise KeyError(key)
        if there is not True:
            check(there, "KeyError", "the key is not in the dict")
        return self.give(position)

    def give(self, position: Any) -> Any:
        """Return the item at a position, as it is now."""
        item = self.rows.item(position)
        if self.rows.kind.is_mutable:
            current().note_copy(item.root._storage, self.rows.buffer.root._storage)
        return item

    def store(self, key: Any, value: Any) -> None:
        """Do `d[key] = value` of a key for which there is room, and a value that fits."""
        position, _ = self._position(key)
        before = self.there.value
        self.rows[position] = value
        if not self.is_full:
            self.there[position] = True
            self._note_store(position, before)

    def fits(self, key: Any, value: Any) -> bool:
        """Return whether there is room for a key, and an array for the value."""
        return self._position(key)[1] is True and self.rows._fits(value)

    def _position(self, key: Any) -> tuple[Any, Any]:
        parts = ints_of(key)
        assert parts is not None
        position: Any = 0
        inside: Any = True
        for part, (least, count) in zip(parts, self.bounds, strict=True):
            place = part if _is_zero(least) else part - as_size(least)
            span = span_of(part)
            if span is None or not (decide(span[0] - least, ">=") and decide(span[1] - least - count, "<")):
                if isinstance(part, int) and isinstance(least, int) and isinstance(count, int):
                    return 0, False
                within = call_handler(np.logical_and, place >= 0, place < as_size(count))
                inside = within if inside is True else call_handler(np.logical_and, inside, within)
            position = place if _is_zero(position) else position * as_size(count) + place
        return position, inside

    def _is_surely_there(self, position: Any) -> bool:
        span = span_of(position)
        return self.is_full or (span is not None and decide(span[1] - self.surely, "<"))

    def _note_store(self, position: Any, before: Value) -> None:
        capture = current()
        made = capture.created_depth(self)
        frames = capture.frames[made + 1 :]
        if frames:
            simple = len(frames) == 1 and frames[0].kind == "loop" and frames[0].entered
            for frame in frames:
                outside = frame.entered.get(self.there._storage)
                start = outside[0] if simple and outside is not None else None
                frame.fills.append((self, position, start))
            return
        known = self.exactly.get(before)
        if known is None or not isinstance(position, int):
            return
        if decide(known - position, "=="):
            known = known + 1
        if decide(known - position, ">"):
            self.exactly[self.there.value] = known
            self.surely = known


def note_filled(fills: Sequence[tuple[Any, Any, Value | None]], index: Value, start: Any, length: Dim) -> None:
    """Note which keys a loop over `length` numbers from `start` on has made for sure, by the stores in its body."""
    capture = current()
    for table in {id(table): table for table, _, _ in fills}.values():
        if capture.created_depth(table) != capture.depth:
            continue
        own = [(position, before) for other, position, before in fills if other is table]
        known = table.exactly.get(own[0][1])
        offsets = {difference(cast_to(asarray(position), I64).value, index) for position, _ in own}
        offset = offsets.pop()
        if known is None or offsets or offset is None or any(before is not own[0][1] for _, before in own):
            continue
        first = start + offset
        if decide(first, ">=") and decide(first - known, "<="):
            last = first + length
            known = last if decide(last - known, ">=") else known
            table.exactly[table.there.value] = known
            table.surely = known


def table_of(value: Any) -> Table | None:
    """Return the table of a dict; None where it has none, and for all other values."""
    return value.get(TABLE) if isinstance(value, dict) else None


def mapping_of(value: Any) -> Any:
    """Return the dict of a view of its keys, values or items, and other values as they are."""
    return value.mapping if isinstance(value, _VIEWS) else value


def has_table(value: Any) -> bool:
    """Return whether a value is a dict of which an array has items, or a view of its keys, values or items."""
    mapping = mapping_of(value)
    return isinstance(mapping, dict | types.MappingProxyType) and TABLE in mapping


def ints_of(key: Any) -> tuple[Any, ...] | None:
    """Return the ints of which a key is made, traced or not; None for other keys."""
    parts = key if type(key) is tuple else (key,)
    made = tuple(map(_int_of, parts))
    return made if made and all(part is not None for part in made) else None


def _int_of(part: Any) -> Any:
    if isinstance(part, bool | int | np.integer):
        return int(part)
    if not isinstance(part, Tracer) or part.ndim or part.dtype.kind not in "iub":
        return None
    known = resolve_content(part)
    if known is not None:
        return int(known)
    return call_handler(int, part) if part.dtype == BOOL else part


def is_traced_key(key: Any) -> bool:
    """Return whether it is known only when the compiled function runs which key an int, or a tuple of ints, is."""
    parts = key if type(key) is tuple else (key,)
    if not any(isinstance(part, Tracer) for part in parts):
        return False
    made = ints_of(key)
    return made is not None and any(isinstance(part, Tracer) for part in made)


def open_table(value: Any) -> bool:
    """Give a dict its items back, where all keys and their order are known; return whether it has them."""
    values = mapping_of(value)
    table, capture = table_of(values), current()
    if table is None:
        return True
    count = table.count
    if not isinstance(count, int) or not isinstance(table.first, int) or len(values) > 1 or len(table.bounds) > 1:
        return False
    if count > _OPEN_LIMIT or capture.created_depth(values) != capture.depth:
        return False
    del values[TABLE]
    values.update((table.first + k, table.give(k)) for k in range(count))
    return True


def use_of_key(values: dict[Any, Any], key: Any, stored: Any) -> TableUse | None:
    """Return what lets a dict store something under a traced key; None when nothing does."""
    parts, table = ints_of(key), table_of(values)
    spans = [span_of(part) for part in parts or ()]
    composite = isinstance(key, tuple)
    items = [stored]
    bounds: list[tuple[Dim, Dim]] = []
    kinds = []
    if table is not None:
        if not table.takes(key):
            return None
        kinds.append(table.rows.kind)
        spans_before = [(least, least + count - 1) for least, count in table.bounds]
    else:
        known = [ints_of(k) for k in values if isinstance(k, tuple) == composite]
        mine = [k for k in known if k is not None and len(k) == len(spans)]
        if len(mine) < len(known):
            return None
        items += _own_items(values, composite)
        spans_before = [(min(column), max(column)) for column in zip(*mine, strict=True)]
    for place, span in enumerate(spans):
        if span is None:
            return None
        ends = [span, *spans_before[place : place + 1]]
        least = functools.reduce(lambda a, b: a if decide(a - b, "<=") else b, [low for low, _ in ends])
        greatest = functools.reduce(lambda a, b: a if decide(a - b, ">=") else b, [high for _, high in ends])
        bounds.append((least, greatest - least + 1))
    room = math.prod(count for _, count in bounds)
    if isinstance(room, int) and not 0 < room <= _ROOM_LIMIT:
        return None
    try:
        kind = join_kinds([item_type(items), *kinds])
    except RestageError:
        return None
    if not isinstance(kind, ItemKind) or kind.nested:
        return None
    return TableUse(values, kind, tuple(bounds), composite)


def _own_items(values: dict[Any, Any], composite: bool) -> list[Any]:
    return [v for k, v in values.items() if isinstance(k, tuple) == composite and ints_of(k) is not None]


def make_table(use: TableUse) -> bool:
    """Keep the items of a dict in a table with room for some more keys; return True."""
    values, before = use.values, table_of(use.values)
    require_single(values, "it is kept as an array")
    room = math.prod(count for _, count in use.bounds)
    buffer = from_value(stage(ops.full, shape=(room, *use.kind.type.shape), dtype=use.kind.type.dtype, value=0))
    there = from_value(stage(ops.full, shape=(room,), dtype=BOOL, value=False))
    rows = stacked_list(buffer, use.kind, as_size(room), keeps=use.kind.is_mutable)
    buffer._storage.holds_items = True
    table = Table(rows, there, use.bounds, use.composite)
    table.exactly[there.value] = 0
    current().register_created(table)
    if before is not None:
        _move_rows(before, table)
    for key in [k for k in values if ints_of(k) is not None and isinstance(k, tuple) == use.composite]:
        table.store(key, values.pop(key))
    values[TABLE] = table
    return True


def _move_rows(before: Table, table: Table) -> None:
    shape = tuple(as_size(count) for _, count in before.bounds)
    room = tuple(as_size(count) for _, count in table.bounds)
    starts = [as_size(a - b) for (a, _), (b, _) in zip(before.bounds, table.bounds, strict=True)]
    part = tuple(slice(start, start + count) for start, count in zip(starts, shape, strict=True))
    rest = table.rows.buffer.shape[1:]
    with current().copying():
        for new, old, tail in ((table.rows.buffer, before.rows.buffer, rest), (table.there, before.there, ())):
            whole = call_handler(np.reshape, new, (*room, *tail)).copy()
            whole[part] = call_handler(np.reshape, old, (*shape, *tail))
            new[:] = call_handler(np.reshape, whole, new.shape)
    count = before.count
    if count is not None and all(_is_zero(start) for start in starts) and len(room) == 1:
        table.exactly[table.there.value] = count
        table.surely = count


def _is_zero(number: Any) -> bool:
    return isinstance(number, int) and number == 0


def key_error(key: Any, found: str, use: TableUse | None = None) -> NeedsPythonValue:
    """Return the error for a key that is known only when the compiled function runs."""
    error = NeedsPythonValue(
        "a dict key is known only when the compiled function runs",
        code="TG101",
        span=user_span(),
        found=found,
        help="the keys must be ints whose range is known (`for k in range(n)`, `k % 3`), and the values numbers or "
        "arrays of one shape; else use an array, `np.zeros(n)`, or pass the key as a Python argument",
    )
    error.remedy = use
    return error


def unknown_keys(what: str) -> NeedsPythonValue:
    """Return the error for a use of a dict that depends on which keys it has, and in which order."""
    return NeedsPythonValue(
        f"a dict with keys that are known only when the compiled function runs {what}",
        code="TG139",
        span=user_span(),
        found="a dict that a staged loop or branch fills, or that is indexed by a traced int",
        help="read its items by their keys; `in`, get, len, and sum, max, min and sorted of its values do not depend "
        "on the order; or keep an array, `np.zeros(n)`, and write into its rows",
    )
