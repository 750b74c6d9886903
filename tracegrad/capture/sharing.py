"""Which names of a staged loop may be for the same memory: a loop carries values, Python carries references.

Reads stand-ins and what names are bound to after one iteration; notes on storages what they share after the loop.
Previous: state.py; next: joins.py.

A name is followed through the iterations by its *source*: what it is bound to at the end of the body, in terms of what
the names stood for at its start. Two names that may be for one array, one of which is written, cannot be carried as two
values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tracegrad.capture.context import RestageError, Storage, current
from tracegrad.capture.tracer import Tracer, View
from tracegrad.ir.core import Block, Value, free_values
from tracegrad.ir.types import F64, ArrayType, Dim

#: place of a leaf in the state of a loop: the variable, and the leaf in its value
Key = tuple[int, int]
#: conditions of branches with their outcome
Conditions = frozenset[tuple[Value, bool]]
#: an array from outside the loop, or a leaf of its state
Node = Storage | Key

_ALWAYS: Conditions = frozenset()
_FROZEN = "an array that is an item of a list is written in place"


def _literal(condition: Value) -> tuple[Value, bool]:
    outcome = True
    while condition.producer is not None and condition.producer.op == "logical_not":
        condition, outcome = condition.producer.operands[0], not outcome
    return condition, outcome


def _agree(one: Conditions, other: Conditions) -> bool:
    return not any((condition, not outcome) in other for condition, outcome in one)


def sources(storage: Storage) -> list[tuple[Storage, Conditions]]:
    """Return the arrays that an array may be, itself included, with the conditions under which it is."""
    found: list[tuple[Storage, Conditions]] = []

    def visit(storage: Storage, conditions: Conditions) -> None:
        if (storage, conditions) in found:
            return
        found.append((storage, conditions))
        found.extend((other, conditions) for other in (*storage.shares, *storage.same_items()))
        for condition, other in storage.links:
            literal = _literal(condition)
            if _agree(conditions, frozenset([literal])):
                visit(other.root._storage, conditions | {literal})

    visit(storage, _ALWAYS)
    return found


def share(one: Storage, other: Storage) -> None:
    """Note that two arrays may be one: after a write into the one, the content of the other is not known."""
    if one is not other and other not in one.shares:
        for storage, added in ((one, other), (other, one)):
            current().touch(storage)
            storage.shares = (*storage.shares, added)


@contextmanager
def passing(passed: Sequence[tuple[Tracer, Tracer]]) -> Iterator[None]:
    """Capture a function whose arguments stand for arrays: what is written into one is not seen in what may be the same
    array, which must not be read after it.

    Args:
        passed: pairs of a stand-in and the array it is for.
    """
    capture = current()
    mark = len(capture.changes)
    held: dict[Storage, list[tuple[Tracer, Tracer]]] = {}
    found = [(*pair, sources(pair[1].root._storage)) for pair in passed if pair[1].is_array]
    for stand_in, array, storages in found:
        for storage, _ in storages:
            share(stand_in._storage, storage)
            for other, at in held.setdefault(storage, []):
                if not _is_apart(at, array):
                    share(stand_in._storage, other._storage)
            held[storage].append((stand_in, array))
    try:
        yield
    finally:
        capture.undo(mark)


def may_overlap(one: Tracer, other: Tracer) -> bool:
    """Return whether a write into one array may be seen in another."""
    mine, yours = ({storage for storage, _ in sources(tracer.root._storage)} for tracer in (one, other))
    return not mine.isdisjoint(yours) and not _is_apart(one, other)


def _is_apart(one: Tracer, other: Tracer) -> bool:
    """Return whether two arrays are surely parts of one array without a common element."""
    mine, yours = one._view, other._view
    if mine is None or yours is None or mine.key is None or yours.key is None:
        return False
    ranges = [{item.axis: _range(item) for item in view.key or () if item.axis >= 0} for view in (mine, yours)]
    pairs = [(ranges[0][axis], ranges[1][axis]) for axis in ranges[0].keys() & ranges[1].keys()]
    return is_same_view(mine.base, yours.base) and any(a and b and (a[1] <= b[0] or b[1] <= a[0]) for a, b in pairs)


def _range(item: Any) -> tuple[int, int] | None:
    """Return the first position that an item of an index selects, and the one after the last, if they are known."""
    if item.kind == "int" and isinstance(item.start, int):
        return item.start, item.start + 1
    if item.kind == "slice" and isinstance(item.start, int) and isinstance(item.stop, int):
        return item.start, item.stop
    return None


def is_same_view(one: Any, other: Any) -> bool:
    """Return whether two arrays are surely the same part of one array, in whatever iteration each was taken."""
    if one is other or not isinstance(one, Tracer) or not isinstance(other, Tracer):
        return one is other
    if one._view is None or other._view is None:
        return one._view is other._view and one._storage is other._storage
    mine, yours = one._view.key, other._view.key
    if mine is None or yours is None or len(mine) != len(yours) or not (_is_fixed(mine) and _is_fixed(yours)):
        return False
    return all(a.same(b) for a, b in zip(mine, yours, strict=True)) and is_same_view(one._view.base, other._view.base)


def _is_fixed(key: tuple[Any, ...] | None) -> bool:
    """Return whether a view takes the same part of its base in every iteration."""
    return key is None or all(item.index is None for item in key)


def _is_fixed_part(leaf: Tracer) -> bool:
    return leaf._view is None or (_is_fixed(leaf._view.key) and _is_fixed_part(leaf._view.base))


def _rebase(leaf: Tracer, base: Tracer) -> Tracer:
    """Return the part of `base` that a leaf is of its own root."""
    view = leaf._view
    if view is None:
        return base
    moved = View(_rebase(view.base, base), view.read, view.write, view.native, view.key)
    return Tracer(Storage(leaf.type, current().depth), view=moved, contiguous=leaf.is_contiguous)


class Part(NamedTuple):
    """One captured block of a loop: stand-ins of the state with their parameters, and the arrays from outside it uses.

    Attributes:
        entered: (storage, value before, parameter, value after).
    """

    block: Block
    stand_ins: Mapping[Key, Tracer]
    params: Mapping[Key, Value]
    entered: list[tuple[Storage, Value, Value, Value]]


def _shared_error(name: str) -> RestageError:
    return RestageError(
        f"{name!r} shares memory with an array that the loop writes",
        f"make the copy that is meant, before the write or where the name is bound: `{name} = {name}.copy()`",
    )


class Sharing:
    """What the array leaves of a loop's state may be for.

    Attributes:
        moved: leaf -> the leaf whose array it is for in the next iteration, where that is all that happens to it.
        written: leaves into whose arrays the body writes.
        lost: those of them whose content is not known after the body.
        outside: leaf -> arrays from outside that it may be for at the start of an iteration.
    """

    def __init__(
        self,
        entries: Mapping[Key, Any],
        exits: Mapping[Key, Any],
        parts: list[Part],
        frozen: set[Storage],
        rewritten: bool,
    ) -> None:
        self.depth = current().depth
        self.frozen, self.rewritten = frozen, rewritten
        self.exits = {key: leaf for key, leaf in exits.items() if isinstance(leaf, Tracer) and leaf.is_array}
        self.entries = {
            key: leaf
            for key, leaf in entries.items()
            if isinstance(leaf, Tracer) and leaf.is_array and key in parts[-1].stand_ins
        }
        self.stand_ins = parts[-1].stand_ins
        self.names = names = {part.stand_ins[key]._storage: key for part in parts for key in self.entries}
        self.sources = {
            key: [(names.get(storage, storage), conditions) for storage, conditions in sources(leaf.root._storage)]
            for key, leaf in self.exits.items()
        }
        self.moved = {
            key: names[leaf._storage]
            for key, leaf in self.exits.items()
            if leaf._view is None and leaf._storage in names and key in self.entries
        }
        self.lost = {key for part in parts for key in self.entries if part.stand_ins[key]._storage.stale}
        self.written = self.lost | {
            key for part in parts for key in self.entries if part.stand_ins[key]._storage.value is not part.params[key]
        }
        self.lists = {storage for part in parts for storage, *_ in part.entered if storage.holds_items}
        self.entered = {storage for part in parts for storage, *_ in part.entered}
        self.overwritten = {s for part in parts for s, _, param, after in part.entered if after is not param}
        read = {value for part in parts for value in free_values(part.block)}
        self.used = self.written | {key for part in parts for key in self.entries if part.params[key] in read}
        for key, found in self.sources.items():
            self.used |= {node for node, _ in found if isinstance(node, tuple) and node != key}
        self.outside = {key: {s for s, _ in sources(leaf.root._storage)} for key, leaf in self.entries.items()}
        self.aliases = self._first_aliases()
        self._spread()

    def _first_aliases(self) -> dict[Key, set[Node]]:
        """Return which leaves, and which arrays from outside that the body uses, may be one before the loop."""
        holders: dict[Storage, list[Key]] = {}
        for key, found in self.outside.items():
            for storage in found:
                holders.setdefault(storage, []).append(key)
        return {
            key: {*(found & self.entered), *(other for storage in found for other in holders[storage] if other != key)}
            for key, found in self.outside.items()
        }

    def _spread(self) -> None:
        """Follow the leaves through the iterations."""
        changed = True
        while changed:
            changed = False
            for key, found in self.outside.items():
                more = self._outside_after(key)
                changed |= not more <= found
                found |= more
            for key, nodes in self._aliases_after(self.entries).items():
                changed |= not nodes <= self.aliases[key]
                self.aliases[key] |= nodes

    def _outside_after(self, key: Key) -> set[Storage]:
        """Return the arrays from outside that a leaf may be for after an iteration."""
        found: set[Storage] = set()
        for node, _ in self.sources.get(key, ()):
            if isinstance(node, tuple):
                found |= self.outside[node]
            elif node.depth <= self.depth:
                found.add(node)
        return found

    def _aliases_after(self, keys: Iterable[Key]) -> dict[Key, set[Node]]:
        """Return what these leaves may be one with after an iteration."""
        found: dict[Key, set[Node]] = {key: set() for key in keys}
        holders: dict[Node, list[tuple[Key, Conditions]]] = {}
        for key in found:
            for node, conditions in self.sources.get(key, ()):
                holders.setdefault(node, []).append((key, conditions))
                if isinstance(node, tuple):
                    found[key] |= {other for other in self.aliases[node] if not isinstance(other, tuple)}
                else:
                    found[key] |= {LISTS} if node in self.frozen else set()
                    found[key] |= {node} if node.depth <= self.depth else set()
        for node, held in holders.items():
            others = [*held]
            if isinstance(node, tuple):
                others += [pair for alias in self.aliases[node] for pair in holders.get(alias, ())]
            for key, conditions in held:
                for other, where in others:
                    if other != key and _agree(conditions, where):
                        found[key].add(other)
                        found[other].add(key)
        return found

    def find_kept(self, label: Callable[[int], str]) -> set[int]:
        """Return the variables that need no stand-in: they stay the same part of one array, which the body writes.

        Raises:
            RestageError: a name that shares its array with others is also bound anew; run one by one, the iterations
                share it as Python has it.
        """
        for key in self.entries:
            if key in self.used and key in self.exits and self.exits[key].root._storage.stale:
                raise _shared_error(label(key[0]))
        if any(storage.stale for storage in self.entered):
            raise RestageError("an array is written under a name that an inner loop binds anew")
        outside = {s for s in self.frozen if s.depth <= self.depth}
        if self.rewritten and not outside.isdisjoint(self.entered):
            raise RestageError(_FROZEN)
        if any(s in self.overwritten or self.names.get(s) in self.written for s in self.frozen):
            raise RestageError(_FROZEN)
        kept = set()
        for key, nodes in self.aliases.items():
            for node in nodes:
                if isinstance(node, tuple):
                    written, used = node in self.written, node in self.used
                else:
                    written = self.rewritten if node is LISTS else node in self.overwritten
                    used = node is LISTS or node in self.entered
                if not used or key not in self.used or not (written or key in self.written):
                    continue
                if node is LISTS:
                    raise RestageError(_FROZEN)
                if self.moved.get(key) != key and not is_same_view(self.exits.get(key), self.entries[key]):
                    raise _shared_error(label(key[0]))
                kept.add(key[0])
        return kept

    def changed_outside(self) -> set[Storage]:
        """Return the arrays from outside that the body writes, also under names that it binds anew."""
        return self.overwritten.union(*(self.outside.get(key, set()) for key in self.written))

    def cycle(self, key: Key) -> list[Key]:
        """Return the leaves through which a leaf goes from iteration to iteration, itself first, when names only change
        places; [] when more happens."""
        path = [key]
        while (following := self.moved.get(path[-1])) is not None and following not in path:
            path.append(following)
        if following != key or not self.lost.isdisjoint(path):
            return []
        return path if all(self.entries[k].type == self.stand_ins[k].type for k in path) else []

    def settled(self, key: Key, trips: Dim | None, runs: bool) -> Tracer | None:
        """Return what a name is for after the loop when that is an array from before it, or a fixed part of one."""
        leaf = self.exits.get(key)
        if leaf is None or not _is_fixed_part(leaf):
            return None
        root = leaf.root._storage
        if root.depth <= self.depth:
            return leaf if runs else None
        path = self.cycle(self.names[root]) if root in self.names else []
        if not path or not (runs or (key in path and leaf._view is None)):
            return None
        if len(path) == 1:
            return _rebase(leaf, self.entries[path[0]])
        return _rebase(leaf, self.entries[path[(trips - 1) % len(path)]]) if isinstance(trips, int) else None

    def note(self, results: Mapping[Key, Tracer], may_not_run: bool) -> None:
        """Note what the results of the loop share with each other and with arrays from outside."""
        aliases = self._aliases_after(results)
        for key, result in results.items():
            outside = self._outside_after(key)
            if may_not_run and key in self.entries:
                outside |= self.outside[key]
                aliases[key] |= self.aliases[key]
            for storage in outside:
                share(result._storage, storage)
            for node in aliases[key]:
                if isinstance(node, tuple) and node in results:
                    share(result._storage, results[node]._storage)
                elif node is LISTS:
                    current().pin(result._storage, "an item of a list that a loop has written is bound to a name")
                    for items in self.lists:
                        current().note_copy(result._storage, items)


#: stands for the lists into which a body puts arrays
LISTS = Storage(ArrayType(F64), 0)
