"""Moves reads of an array before the operation that overwrites it, so that the write can happen in place.

Reads and reorders IR. Previous: c_elements.py; next: c_views.py.

A transform may leave `y = scatter_set x, i, 0` before `g = gather x, i`: written in that order, the array would have to
be copied in each iteration of a loop, for one element. What reads the old contents and does not depend on the write
goes before it, with all that it needs itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracegrad.codegen.c_elements import is_small
from tracegrad.ir.core import Block, Function, Operation, Value, free_values, walk
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType

#: values of these are views: their elements are read where they are used
VIEWS = frozenset("reshape transpose broadcast_to slice flip pad iota full constant dim undefined gather".split())
LOOPS = frozenset({"for", "while"})

#: operations whose order among themselves must stay, apart from pushes and pops of one stack
_ORDERED = frozenset({"check", "print"})
#: operations that may end in an error, which must not come before an earlier one
_FAULTY = frozenset(
    "gather scatter_set scatter_add solve triangular_solve cholesky inv slogdet det eigh svd pinv call".split()
)


def move_reads(function: Function) -> None:
    """Move reads of large arrays before what overwrites them, in all blocks."""
    for operation in list(walk(function.body)):
        for block in operation.blocks:
            _Order(block).arrange()
    _Order(function.body).arrange()


def overwritten(operation: Operation) -> list[Value]:
    """Return the large arrays whose memory the results of an operation take over where that is possible."""
    if operation.op == "if":
        found = [v for b in operation.blocks for o in b.operations for v in overwritten(o)]
        inner = {v for b in operation.blocks for o in b.operations for v in o.results}
        return [v for v in dict.fromkeys(found) if v not in inner]
    if operation.op in LOOPS:
        candidates = operation.operands[2:] if operation.op == "for" else operation.operands
    else:
        record = TABLE.get(operation.op)
        candidates = [] if record is None or record.inplace is None else [operation.operands[record.inplace]]
    return [v for v in dict.fromkeys(candidates) if isinstance(v.type, ArrayType) and not is_small(v)]


class _Order:
    """The order of the operations of one block."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.position = {o: k for k, o in enumerate(block.operations)}
        self.reads: dict[Operation, list[Value]] = {}
        self.users: dict[Value, list[Operation]] = {}
        self.earlier: dict[Operation, list[Operation]] = {}
        self.overwritten: dict[Operation, list[Value]] = {}
        self._read_block()

    def _read_block(self) -> None:
        last: dict[object, Operation] = {}
        for operation in self.block.operations:
            nested = list(walk_all(operation))
            reads = [*operation.operands, *(v for b in operation.blocks for v in free_values(b))]
            self.reads[operation] = reads = list(dict.fromkeys(reads))
            for value in reads:
                self.users.setdefault(value, []).append(operation)
            self.overwritten[operation] = overwritten(operation)
            kinds: set[object] = {o.operands[0] for o in nested if o.op in ("push", "pop")}
            names = {o.op for o in nested}
            is_ordered = self._is_ordered(operation)
            before = [last[k] for k in kinds if k in last]
            if "check" in last and (is_ordered or not names.isdisjoint(_FAULTY)):
                before.append(last["check"])
            if "leave" in last:
                before.append(last["leave"])
            self.earlier[operation] = before
            last.update(dict.fromkeys(kinds, operation))
            if is_ordered:
                last["check"] = operation
            if operation.op == "leave":
                last["leave"] = operation

    def arrange(self) -> None:
        for write in list(self.block.operations):
            for value in self.overwritten[write]:
                producer = value.producer
                if producer is None or producer.op not in VIEWS:
                    self._clear_way(value, write)

    def _clear_way(self, value: Value, write: Operation, *, all_users: bool = True) -> None:
        """Move what reads an array before an operation that overwrites it.

        Of a view with few elements only the views move: it is stored before the write, see Views._force_before_writes.
        """
        for user in list(self.users.get(value, ())):
            if user is write:
                continue
            is_view = user.op in VIEWS and user.operands[0] is value
            if is_view:
                self._clear_way(user.result, write, all_users=all_users and not is_small(user.result))
            if (is_view or all_users) and self.position[user] > self.position[write]:
                self._move(user, write)

    def _move(self, operation: Operation, write: Operation) -> None:
        """Move an operation and all that it needs before another, unless that is needed too."""
        at = self.position[write]
        is_faulty = any(o.op in _FAULTY for o in walk_all(write))
        moved: set[Operation] = set()
        waiting = [operation]
        while waiting:
            current = waiting.pop()
            if current in moved:
                continue
            if current.op == "leave" or (is_faulty and self._is_ordered(current)):
                return
            moved.add(current)
            for needed in self._needed_by(current):
                if self.position[needed] == at:
                    return
                if self.position[needed] > at:
                    waiting.append(needed)
        operations = self.block.operations
        last = max(self.position[o] for o in moved)
        between = operations[at : last + 1]
        operations[at : last + 1] = [o for o in between if o in moved] + [o for o in between if o not in moved]
        for k in range(at, last + 1):
            self.position[operations[k]] = k

    def _is_ordered(self, operation: Operation) -> bool:
        return any(o.op in _ORDERED for o in walk_all(operation))

    def _needed_by(self, operation: Operation) -> Iterator[Operation]:
        """Yield the operations of the block that must stay before one."""
        for value in self.reads[operation]:
            if value.producer in self.position:
                assert value.producer is not None
                yield value.producer
        yield from self.earlier[operation]
        for value in self.overwritten[operation]:
            for reader in self._readers(value):
                if self.position[reader] < self.position[operation]:
                    yield reader

    def _readers(self, value: Value, *, all_users: bool = True) -> Iterator[Operation]:
        """Yield what `_clear_way` may have moved before an operation that overwrites a value."""
        for user in self.users.get(value, ()):
            is_view = user.op in VIEWS and user.operands[0] is value
            if is_view:
                yield from self._readers(user.result, all_users=all_users and not is_small(user.result))
            if is_view or all_users:
                yield user


def walk_all(operation: Operation) -> Iterator[Operation]:
    """Yield an operation and those in its blocks."""
    yield operation
    for block in operation.blocks:
        yield from walk(block)
