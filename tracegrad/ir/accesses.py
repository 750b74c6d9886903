"""Which elements of an array a loop reads and writes, and whether it comes back to one of them later.

Reads IR. Used by transform/ (to read residuals from the array that keeps them) and by passes/ (to drop writes that
nobody reads). Previous: writes.py; next: triangles.py.

An index is known when it is a constant, or a loop index plus a constant. `x[t + 1] = f(x[t])` in a loop over t never
comes back to element t after the write of element t + 1, so the element keeps what was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Block, Operation, Value, free_values

_WRITES = ("scatter_set", "scatter_add")
#: operations that may give a version of an array which they get
_KEEPING = frozenset({*_WRITES, "for", "if"})
#: more accesses than these are not compared with each other
_MAX_ACCESSES = 64


@dataclass(frozen=True, slots=True)
class Place:
    """An index along one axis: a loop index, if any, plus a constant; and the least and the greatest it can be."""

    index: Value | None
    offset: int
    least: int
    greatest: int | None


@dataclass(eq=False, slots=True)
class Access:
    """One use of the array.

    Attributes:
        operation: what uses it.
        reads: whether what was there before matters.
        writes: whether elements change.
        places: the known indices by axis; an axis that is absent can have any index.
        exact: whether all indices are known, so that the element is the same wherever the places are equal.
        block: where the operation stands.
        path: the position in each block from the loop to the operation, and the number of the branch.
        loops: the loops around the operation, from the outermost.
    """

    operation: Operation
    reads: bool
    writes: bool
    places: dict[int, Place]
    exact: bool
    block: Block
    path: tuple[tuple[int, int], ...]
    loops: tuple[Operation, ...]


def find_accesses(loop: Operation, position: int) -> list[Access] | None:
    """Return how a `for` uses the array that it carries at a position, or None when that is not a chain of writes."""
    walker = _Walker()
    if loop.op != "for" or not walker.loop(loop, position, (), (), _Known({})):
        return None
    return walker.accesses if len(walker.accesses) <= _MAX_ACCESSES else None


def may_follow(first: Access, second: Access) -> bool:
    """Return whether `second` can touch an element that `first` touched before."""
    common = [a for a, b in zip(first.loops, second.loops, strict=False) if a is b]
    if any(not _is_apart(first, second, common[:level], loop) for level, loop in enumerate(common)):
        return True
    return _comes_after(first.path, second.path) and not _is_apart(first, second, common, None)


def touches(access: Access, reader: Operation) -> bool:
    """Return whether an operation after the loop, on the whole array, reads an element that an access touches."""
    if reader.op != "slice":
        return True
    for axis, place in access.places.items():
        start, stop, step = (reader.attrs[key][axis] for key in ("start", "stop", "step"))
        if not (isinstance(start, int) and isinstance(stop, int)) or step < 0:
            continue
        if place.least >= stop or (place.greatest is not None and place.greatest < start):
            return False
    return True


def _is_apart(first: Access, second: Access, equal: Sequence[Operation], later: Operation | None) -> bool:
    """Return whether two accesses touch different elements, `second` in the same iterations of some loops and in a
    later one of another."""
    same = {loop.blocks[0].params[0] for loop in equal}
    for axis in first.places.keys() & second.places.keys():
        x, y = first.places[axis], second.places[axis]
        if x.index is not y.index:
            continue
        if x.index is None or x.index in same:
            if x.offset != y.offset:
                return True
        elif later is not None and x.index is later.blocks[0].params[0]:
            ahead = x.offset - y.offset
            if (-ahead if _is_descending(later) else ahead) <= 0:
                return True
    return False


def _is_descending(loop: Operation) -> bool:
    reverse: bool = loop.attrs["reverse"]
    step: int = loop.attrs["step"]
    return reverse != (step < 0)


def _comes_after(first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]) -> bool:
    for (at, branch), (other, other_branch) in zip(first, second, strict=False):
        if at != other:
            return other > at
        if branch != other_branch:
            return False
    return False


@dataclass(frozen=True, slots=True)
class _Known:
    """What holds at some place of a program: the least loop indices, conditions, and pairs that exclude each other."""

    lowest: Mapping[Value, int]
    holds: Mapping[Value, bool] = field(default_factory=dict)
    excluded: tuple[tuple[Value, Value], ...] = ()

    def inside(self, loop: Operation) -> _Known:
        """Return what holds in the body of a loop."""
        low = _lowest_index(loop)
        return self if low is None else replace(self, lowest={**self.lowest, loop.blocks[0].params[0]: low})

    def where(self, condition: Value, taken: bool) -> _Known:
        """Return what holds where a condition does, or does not."""
        if condition in self.holds:
            return self
        known = replace(self, holds={**self.holds, condition: taken})
        operation = condition.producer
        if operation is None or not operation.operands:  # a parameter or a constant
            return known
        x, *rest = operation.operands
        if operation.op == "logical_not":
            return known.where(x, not taken)
        if operation.op == "logical_and" and not taken:
            known = replace(known, excluded=(*known.excluded, (x, rest[0])))
        elif operation.op in ("logical_and", "logical_or") and taken == (operation.op == "logical_and"):
            known = known.where(x, taken).where(rest[0], taken)
        number = static_value(rest[0]) if rest else None
        if x in known.lowest and isinstance(number, int):
            least = _least(operation.op, taken, known.lowest[x], number)
            known = replace(known, lowest={**known.lowest, x: least})
        for pair in known.excluded:
            for one, other in (pair, pair[::-1]):
                if known.holds.get(one):
                    known = known.where(other, False)
        return known


def _least(comparison: str, holds: bool, least: int, number: int) -> int:
    """Return the least number that an index can be where its comparison with a number holds, or does not."""
    match comparison, holds:
        case ("equal", False) | ("not_equal", True) if number == least:
            return least + 1
        case ("equal", True) | ("not_equal", False) | ("greater_equal", True) | ("less", False):
            return max(least, number)
        case ("greater", True) | ("less_equal", False):
            return max(least, number + 1)
    return least


class _Walker:
    """Follows the versions of one array through blocks."""

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        self.versions: set[Value] = set()

    def loop(
        self,
        loop: Operation,
        position: int,
        path: tuple[tuple[int, int], ...],
        loops: tuple[Operation, ...],
        known: _Known,
    ) -> bool:
        body = loop.blocks[0]
        first, end = body.params[1 + position], body.yields[position]
        if end is not first and (end.producer is None or end.producer.op not in _KEEPING):
            return False  # another array
        last = self.block(body, first, path, (*loops, loop), known.inside(loop))
        return last is not None and self.yielded(body) == [position] and last is end

    def yielded(self, block: Block) -> list[int]:
        """Return where a block yields versions of the array."""
        return [k for k, v in enumerate(block.yields) if v in self.versions]

    def block(
        self,
        block: Block,
        current: Value,
        path: tuple[tuple[int, int], ...],
        loops: tuple[Operation, ...],
        known: _Known,
    ) -> Value | None:
        """Go through a block with the version at its start; return the one at its end, None when it gets lost."""
        older: set[Value] = set()
        self.versions.add(current)
        for at, operation in enumerate(block.operations):
            here = (*path, (at, 0))
            inner = {v for nested in operation.blocks for v in free_values(nested)}
            if not older.isdisjoint(operation.operands) or not older.isdisjoint(inner):
                return None
            if current not in operation.operands and current not in inner:
                continue
            following: Value | None = current
            match operation.op:
                case "for" if current in operation.operands[2:] and current not in inner:
                    position = operation.operands.index(current) - 2
                    if operation.operands.count(current) != 1 or not self.loop(operation, position, here, loops, known):
                        return None
                    following = operation.results[position]
                case "for" if current not in operation.operands:
                    body = operation.blocks[0]
                    end = self.block(body, current, here, (*loops, operation), known.inside(operation))
                    if end is not current or self.yielded(body):
                        return None
                case "if":
                    following = self.branches(operation, current, path, at, loops, known)
                    if following is None:
                        return None
                case "while" | "for":
                    return None
                case _:
                    following = self.plain(operation, current, block, here, loops, known)
            if following is not current:
                older.add(current)
                assert following is not None, "a lost array ends the walk"
                current = following
                self.versions.add(current)
        return current

    def branches(
        self,
        operation: Operation,
        current: Value,
        path: tuple[tuple[int, int], ...],
        at: int,
        loops: tuple[Operation, ...],
        known: _Known,
    ) -> Value | None:
        ends: list[Value] = []
        for number, nested in enumerate(operation.blocks):
            here = known.where(operation.operands[0], number == 0)
            end = self.block(nested, current, (*path, (at, number)), loops, here)
            if end is None:
                return None
            ends.append(end)
        yielded = [self.yielded(nested) for nested in operation.blocks]
        if yielded == [[], []]:
            return current if ends == [current, current] else None
        if yielded[0] != yielded[1] or len(yielded[0]) != 1:
            return None
        position = yielded[0][0]
        if [nested.yields[position] for nested in operation.blocks] != ends:
            return None
        return operation.results[position]

    def plain(
        self,
        operation: Operation,
        current: Value,
        block: Block,
        path: tuple[tuple[int, int], ...],
        loops: tuple[Operation, ...],
        known: _Known,
    ) -> Value:
        indexed = operation.op in ("gather", *_WRITES) and operation.operands[0] is current
        indexed = indexed and operation.operands.count(current) == 1 and not operation.operands[1].shape
        if not indexed:
            self.accesses.append(Access(operation, True, False, {}, False, block, path, loops))
            return current
        axes = operation.attrs["axes"]
        places: dict[int, Place] = {}
        own = {loop.blocks[0].params[0] for loop in loops}
        for axis, index in zip(axes, operation.operands[1:], strict=False):
            found = _split(index, own)
            if found is None or (found[0] is not None and found[0] not in known.lowest):
                continue
            base, offset = found
            least = offset + (0 if base is None else known.lowest[base])
            greatest = offset if base is None else None
            for loop in loops:
                if base is loop.blocks[0].params[0] and (last := _greatest_index(loop)) is not None:
                    greatest = last + offset
            if least >= 0:  # -1 counts from the end
                places[axis] = Place(base, offset, least, greatest)
        writes = operation.op in _WRITES
        reads = operation.op != "scatter_set"
        exact = len(places) == len(axes)
        self.accesses.append(Access(operation, reads, writes, places, exact, block, path, loops))
        return operation.result if writes else current


def _split(index: Value, loop_indices: set[Value]) -> tuple[Value | None, int] | None:
    """Return an index as a loop index, if any, plus a constant; None when it is neither."""
    if index in loop_indices:
        return index, 0
    number = static_value(index)
    if isinstance(number, int):
        return None, number
    operation = index.producer
    if operation is None or operation.op not in ("add", "subtract"):
        return None
    x, y = operation.operands
    if operation.op == "add" and y in loop_indices:
        x, y = y, x
    number = static_value(y)
    if x not in loop_indices or not isinstance(number, int):
        return None
    return x, number if operation.op == "add" else -number


def _lowest_index(loop: Operation) -> int | None:
    """Return the least index of a loop, when it is known."""
    number = static_value(loop.operands[0 if loop.attrs["step"] > 0 else 1])
    if not isinstance(number, int):
        return None
    return number if loop.attrs["step"] > 0 else number + 1


def _greatest_index(loop: Operation) -> int | None:
    number = static_value(loop.operands[1 if loop.attrs["step"] > 0 else 0])
    if not isinstance(number, int):
        return None
    return number - 1 if loop.attrs["step"] > 0 else number
