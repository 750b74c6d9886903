"""Prepares a function for C, and decides which values are views or inlined and which are computed into storage.

Reads IR, writes a private copy of it and two sets of values. Previous: c_order.py; next: loops.py.

- A *view* (slice, transpose, broadcast, gather, constant, ...) is never stored: its elements are read through it.
- A value of rank 0 or with few elements is computed by one statement per element, or inlined where it is used.
- A large elementwise value that only a statement writes somewhere is computed there.

What an operation reads is found by a dry run of its C text in which reads are recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracegrad.codegen.c_elements import (
    SMALL,
    Elements,
    ctype,
    flatten,
    is_few,
    is_small,
    points,
    spread,
    squeeze,
    unsupported,
)
from tracegrad.codegen.c_expression import (
    CTYPES,
    index_text,
)
from tracegrad.codegen.c_order import LOOPS, VIEWS, move_reads, overwritten
from tracegrad.errors import Span
from tracegrad.ir.core import (
    Block,
    Function,
    Operation,
    Value,
    clone_function,
    substitute,
    walk,
)
from tracegrad.ir.inline import inline_calls
from tracegrad.ir.liveness import remove_dead, uses
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import (
    ArrayType,
    Dim,
    Shape,
    StackType,
    is_static,
    symbol,
)

#: longest contraction that is written out
UNROLLED_CONTRACTION = 8

#: most operations that are written as one expression
EXPRESSION_WEIGHT = 8
ONCE = frozenset({"push", "scatter_set", "scatter_add", "set_slice", "add_slice", "check"})


def prepare(function: Function) -> Function:
    """Return a private copy: calls inlined unless recursive, dead operations removed, each `while` with one block.

    The exit of a `while` is an operation "leave" in the middle of its block.
    What reads an array goes before what overwrites it, see c_order.py.
    """
    copy = clone_function(function)
    inline_calls(copy)
    _transpose_products(copy.body)
    remove_dead(copy)
    for operation in list(walk(copy.body)):
        if operation.op == "while":
            condition, body = operation.blocks
            substitute(condition, dict(zip(condition.params, body.params, strict=True)))
            leave = Operation("leave", [condition.yields[0]], {}, [], [], operation.span)
            body.operations = [*condition.operations, leave, *body.operations]
            operation.blocks = [body]
    move_reads(copy)
    return copy


def _transpose_products(block: Block) -> None:
    """Compute a product that is only used transposed with its operands exchanged."""
    used = uses(block)
    for operation in walk(block):
        product = operation.operands[0].producer if operation.op == "transpose" else None
        if product is None or product.op != "dot_general" or used[product.result] != 1:
            continue
        (cx, cy), (bx, by) = product.attrs["contract"], product.attrs["batch"]
        first = len(bx)
        second = len(product.operands[0].shape) - len(cx)
        end = second + len(product.operands[1].shape) - len(cy) - len(by)
        if operation.attrs["axes"] != (*range(first), *range(second, end), *range(first, second)):
            continue
        operation.op, operation.operands = "dot_general", product.operands[::-1]
        operation.attrs = {"contract": (cy, cx), "batch": (by, bx)}


Access = tuple[Value, tuple[Any, ...] | None, int]


class Views(Elements):
    """The prepared function, and which of its values are views or inlined."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = prepare(function)
        self.owner: dict[Block, Operation] = {}
        self.home: dict[Operation, Block] = {}
        self.order: dict[Operation, int] = {}
        self.birth: dict[Value, Block] = {}
        self.uses: dict[Value, list[tuple[Operation | None, Block]]] = {}
        self.forced: set[Value] = set()
        self.weights: dict[Value, int] = {}
        self._overwritten: dict[Block, list[tuple[int, Value]]] = {}
        self._accesses: list[Access] | None = None
        self._multiplier = 1
        self._pointers: set[Value] = set()
        self._loop_indices = {o.blocks[0].params[0] for o in walk(self.function.body) if o.op == "for"}
        self._index_block(self.function.body)
        self._check_types()
        self._choose_views()
        self._inline_small()

    # Structure of the function.

    def _index_block(self, block: Block) -> None:
        self.birth.update(dict.fromkeys(block.params, block))
        for position, operation in enumerate(block.operations):
            self.home[operation] = block
            self.order[operation] = position
            self.birth.update(dict.fromkeys(operation.results, block))
            for value in operation.operands:
                self.uses.setdefault(value, []).append((operation, block))
            for nested in operation.blocks:
                self.owner[nested] = operation
                self._index_block(nested)
        for value in block.yields:
            self.uses.setdefault(value, []).append((None, block))

    def _check_types(self) -> None:
        for value in self.function.params:
            ctype(value.dtype)
        for operation in walk(self.function.body):
            for result in operation.results:
                type = result.type.element if isinstance(result.type, StackType) else result.type
                if type.dtype not in CTYPES:
                    raise unsupported(f"dtype {type.dtype}", operation.span)

    # Dry runs: element texts whose reads are recorded.

    def read(self, value: Value, index: Sequence[Dim]) -> str:
        if self._accesses is not None:
            self._accesses.append((value, tuple(index), self._multiplier))
        return "0"

    def read_flat(self, value: Value, position: Dim) -> str:
        if self._accesses is not None:
            self._accesses.append((value, None, self._multiplier))
        return "0"

    def table(self, value: Value, index: Sequence[Dim]) -> str:
        return index_text(flatten(index, value.shape))  # it depends on the place, so that a nest stays a nest

    def repeated(self, value: Value, index: Sequence[Any], count: int) -> str:
        self._multiplier *= count
        text = self.element(value, index)
        self._multiplier //= count
        return text

    def loop_index(self, value: Value) -> Dim | None:
        return symbol(f"loop{id(value)}") if self._is_loop_index(value) else None

    def index_of(self, value: Value, index: Sequence[Dim] = ()) -> Dim:
        number = self.affine(value, index)
        if number is not None:
            return number
        text = self.element(value, index)
        return symbol(f"data{id(value)}_{len(index)}") if text == "0" else super().index_of(value, index)

    def _is_loop_index(self, value: Value) -> bool:
        return value in self._loop_indices

    # What a rule may write is ignored in a dry run.

    def pointer(self, value: Value) -> str:
        source = self.contiguous(value)
        if source is None:
            self._pointers.add(value)
        elif self._accesses is not None:
            self._accesses.append((source, None, 1))
        if value in self.lazy and value.producer is not None and value.producer.op == "gather":
            for operand in value.producer.operands[1:]:
                self.index_of(operand, self.identity(operand.shape))
        return "0"

    def store(self, value: Value, index: Sequence[Dim]) -> str:
        return "0"

    def scratch(self, dtype: np.dtype[Any], size: Dim) -> str:
        return "0"

    def fresh(self, hint: str, default: str = "t") -> str:
        return hint or default

    def line(self, text: str) -> None:
        pass

    def assign(self, target: str, text: str, *, add: bool = False) -> None:
        pass

    def begin_from(self, result: Value, operand: Value) -> None:
        self.read_all(operand)

    def checked_index(self, value: Value, index: Sequence[Dim], size: Dim, axis: int, span: Span | None) -> Dim:
        return self.index_of(value, index)

    def call(self, operation: Operation, arguments: Sequence[str]) -> None:
        pass

    def new_stack(self, stack: Value) -> None:
        pass

    def push(self, stack: Value, value: Value) -> None:
        self.read_all(value)

    def pop(self, stack: Value, result: Value) -> None:
        pass

    @contextmanager
    def braces(self, header: str) -> Iterator[None]:
        yield

    @contextmanager
    def loops(self, shape: Sequence[Dim], *, simd: str | None = None) -> Iterator[list[Dim]]:
        yield [symbol(f"r{id(shape)}_{k}") for k in range(len(shape))]

    def fault(self, condition: str, kind: str, message: str, span: Span | None) -> None:
        pass

    def helper(self, name: str, dtype: np.dtype[Any]) -> str:
        return name

    @contextmanager
    def recording(self) -> Iterator[list[tuple[Value, tuple[Any, ...] | None, int]]]:
        """Record (stored value, index or None, how often) of each read inside a with statement."""
        outer, multiplier = self._accesses, self._multiplier
        self._accesses, self._multiplier = [], 1
        try:
            yield self._accesses
        finally:
            self._accesses, self._multiplier = outer, multiplier

    def identity(self, shape: Shape) -> list[Dim]:
        """Return the index of an element in a nest over a shape: one symbol per dimension that is not 1."""
        return spread([symbol(f"axis{k}") for k in range(len(squeeze(shape)))], shape)

    def is_identity(self, value: Value, index: tuple[Any, ...] | None, space: Shape) -> bool:
        """Return whether an index into a value is the index of the nest."""
        if index is None or squeeze(value.shape) != space:
            return False
        return [i for i, d in zip(index, value.shape, strict=True) if not (isinstance(d, int) and d == 1)] == [
            symbol(f"axis{k}") for k in range(len(space))
        ]

    # What is a view, what is stored.

    def _choose_views(self) -> None:
        for operation in walk(self.function.body):
            if operation.op in VIEWS:
                self.lazy.add(operation.result)
        for operation in walk(self.function.body):
            record = TABLE.get(operation.op)
            if record is not None and self.role(operation) == "statement" and record.c_statement is not None:
                self._pointers = set()
                with self.recording():
                    record.c_statement(self, operation)
                self.force(*map(self._unreshaped, self._pointers))
        self._force_before_writes()

    def _unreshaped(self, value: Value) -> Value:
        """Return the view that has the same elements in the same order: in its shape, places need no division."""
        while value.producer is not None and value.producer.op == "reshape" and value.producer.operands[0] in self.lazy:
            value = value.producer.operands[0]
        return value

    def force(self, *values: Value) -> None:
        """Store values that would be views."""
        for value in values:
            self.lazy.discard(value)
            self.forced.add(value)

    def _force_before_writes(self) -> None:
        """Store what is read through a view of an array after the array has been changed in place."""
        for operation in walk(self.function.body):
            for changed in self._changed_by(operation):
                late = [o for o, b in self.uses.get(changed, ()) if self._is_after(o, b, operation)]
                if any(o is None or (o.op not in VIEWS and o is not operation) for o in late):
                    continue
                for view in self._views_of(changed):
                    if any(self._reads_late(o, b, view, operation) for o, b in self.uses.get(view, ())):
                        self.force(view)

    def _changed_by(self, operation: Operation) -> list[Value]:
        """Return the stored arrays that an operation other than `if` changes in place where that is possible."""
        if operation.op in LOOPS:
            found = overwritten(operation)
        else:
            record = TABLE.get(operation.op)
            inplace = record.inplace if record is not None and self.role(operation) == "statement" else None
            found = [] if inplace is None else [operation.operands[inplace]]
        return [
            v
            for v in found
            if v not in self.lazy and v not in self.function.params and not self._is_read_again(v, operation)
        ]

    def is_read_where_written(self, operation: Operation) -> bool:
        """Return whether of a scatter only what it writes itself is read: the rest of its result may be anything."""
        indices = operation.operands[1:-1]
        return all(
            user is not None
            and user.op == "gather"
            and user.operands == [operation.result, *indices]
            and user.attrs["axes"] == operation.attrs["axes"]
            for user, _ in self.uses.get(operation.result, ())
        )

    def _is_read_again(self, value: Value, operation: Operation) -> bool:
        """Return whether an operation is in a loop and a value outside of it."""
        block = self.home[operation]
        while block is not self.birth[value]:
            if self.owner[block].op in LOOPS:
                return True
            block = self.home[self.owner[block]]
        return False

    def _reads_late(self, user: Operation | None, block: Block, view: Value, write: Operation) -> bool:
        """Return whether a user of a view reads its elements after a write to the array that it shows."""
        if user is write:
            return bool(view.shape) and write.op not in LOOPS
        if user is not None and user.op in VIEWS and user.result in self.lazy and user.operands[0] is view:
            return False  # this is a view of the same array
        return self._is_after(user, block, write)

    def _is_after(self, user: Operation | None, block: Block, operation: Operation) -> bool:
        """Return whether what stands in a block, or its end, comes after another operation or is in it."""
        places: dict[Block, float] = {block: math.inf if user is None else self.order[user]}
        while block in self.owner:
            owner = self.owner[block]
            block = self.home[owner]
            places[block] = self.order[owner]
        current = operation
        while self.home[current] not in places:
            current = self.owner[self.home[current]]
        place = places[self.home[current]]
        return place > self.order[current] or (place == self.order[current] and current is operation)

    def _views_of(self, value: Value) -> list[Value]:
        found: list[Value] = []
        for user, _ in self.uses.get(value, ()):
            if user is not None and user.op in VIEWS and user.operands[0] is value and user.result in self.lazy:
                found += [user.result, *self._views_of(user.result)]
        return found

    def role(self, operation: Operation) -> str:
        """Return how an operation is written: view, assign, point, reduce, or statement."""
        if len(operation.results) == 1 and operation.results[0] in self.lazy:
            return "view"
        record = TABLE.get(operation.op)
        if record is None or not operation.results or isinstance(operation.results[0].type, StackType):
            return "statement"
        if operation.op in VIEWS:
            return "assign" if is_small(operation.result) else "point"
        if record.elementwise:
            return "assign" if is_few(operation.result) else "point"
        if operation.op == "dot_general":
            return self._dot_role(operation)
        if record.c_reduce is not None and "axes" in operation.attrs:
            return "assign" if is_few(operation.operands[0]) else "reduce"
        if record.c and is_small(operation.result) and len(operation.results) == 1:
            if operation.op in ("scatter_set", "scatter_add"):
                indices = operation.operands[1:-1]
                fixed = is_small(operation.operands[0]) and all(
                    isinstance(self.affine(v), int) for v in indices if not v.shape
                )
                return "assign" if fixed and not any(v.shape for v in indices) else "statement"
            if all(is_small(v) for v in operation.operands):
                return "assign"
        return "statement"

    def _dot_role(self, operation: Operation) -> str:
        x, y = operation.operands
        (cx, cy), (bx, _) = operation.attrs["contract"], operation.attrs["batch"]
        inner = math.prod(x.shape[a] for a in cx)
        if isinstance(inner, int) and inner <= UNROLLED_CONTRACTION:
            if is_small(operation.result) and is_small(x) and is_small(y):
                return "assign"
            if inner == 1 or not is_small(operation.result):
                return "point"
        rest_x, rest_y = len(x.shape) - len(cx), len(y.shape) - len(cy)
        if rest_x == rest_y == 0 and not bx and list(cx) == sorted(cx) and list(cy) == sorted(cy):
            return "reduce"
        return "statement"

    def _effective_uses(self, value: Value) -> list[tuple[Operation | None, Block]]:
        found: list[tuple[Operation | None, Block]] = []
        for user, block in self.uses.get(value, ()):
            if user is not None and len(user.results) == 1 and user.result in self.lazy:
                found += self._effective_uses(user.result)
            else:
                found.append((user, block))
        return found

    def _is_index_array(self, value: Value) -> bool:
        """Return whether an array holds indices of a gather, which a loop checks before they are used."""
        if not value.shape:
            return False
        users = [user for user, _ in self.uses.get(value, ()) if user is not None and len(user.results) == 1]
        return any(
            (user.op == "gather" and value in user.operands[1:])
            or (user.result in self.lazy and self._is_index_array(user.result))
            for user in users
        )

    def _inline_small(self) -> None:
        """Inline small values without a name that are used once, and constants of any kind."""
        for operation in reversed(list(walk(self.function.body))):
            if self.role(operation) == "point":
                self._inline_into_statement(operation)
        for operation in list(walk(self.function.body)):
            if self.role(operation) != "assign":
                continue
            value = operation.result
            weight = 1 + sum(self.weights.get(v, 0) for v in operation.operands)
            if value.name or value in self.forced or weight > EXPRESSION_WEIGHT or self._is_index_array(value):
                continue
            uses = self._effective_uses(value)
            is_sign = operation.op == "negative" and not value.shape and weight == 1
            if len(uses) != 1 and not is_sign:
                continue
            if all(
                user is not None
                and block is self.home[operation]
                and self._accepts(user, value, often=is_sign)
                and not self._passes_write(operation, user)
                for user, block in uses
            ):
                self.lazy.add(value)
                self.weights[value] = weight

    def _inline_into_statement(self, operation: Operation) -> None:
        """Compute a large elementwise value where a statement writes it to its place, when that is its only use."""
        value = operation.result
        uses = self._effective_uses(value)
        weight = 1 + sum(self.weights.get(v, 0) for v in operation.operands)
        if len(uses) != 1 or not TABLE[operation.op].elementwise or value in self.forced or weight > EXPRESSION_WEIGHT:
            return
        user, block = uses[0]
        if user is None or block is not self.home[operation] or user.op not in ONCE | {"concatenate"}:
            return
        if self.role(user) != "statement":
            return
        inplace = TABLE[user.op].inplace
        changed = user.operands[inplace] if inplace is not None else None
        with self.recording() as accesses:
            for operand in user.operands:
                if isinstance(operand.type, ArrayType) and operand is not changed:
                    self.read_all(operand)
        found = [(index, count) for read, index, count in accesses if read is value]
        if len(found) != 1 or found[0][1] != 1 or not self.is_identity(value, found[0][0], squeeze(value.shape)):
            return
        if changed is value or changed in self._operands_read(operation) or self._passes_write(operation, user):
            return  # what is written later would be computed from what has been written
        self.lazy.add(value)
        self.weights[value] = weight

    def _operands_read(self, operation: Operation) -> set[Value]:
        return {v for operand in operation.operands for v in self.read_values(operand)}

    def _passes_write(self, operation: Operation, user: Operation) -> bool:
        """Return whether an array that an operation reads is overwritten before a later user of its block."""
        first, last = self.order[operation], self.order[user]
        changed = {v for at, v in self._overwritten_in(self.home[operation]) if first < at < last}
        if not changed:
            return False
        value = operation.result
        indices = points(value.shape) if self.role(operation) == "assign" else [self.identity(value.shape)]
        with self.recording() as accesses:
            for index in indices:
                self.compute(value, index)
        return any(v in changed for v, _, _ in accesses)

    def _overwritten_in(self, block: Block) -> list[tuple[int, Value]]:
        """Return the arrays that the operations of a block overwrite, with the places of these."""
        found = self._overwritten.get(block)
        if found is None:
            found = [(at, v) for at, operation in enumerate(block.operations) for v in overwritten(operation)]
            self._overwritten[block] = found
        return found

    def _accepts(self, user: Operation, value: Value, *, often: bool) -> bool:
        """Return whether a value may be inlined in an operation: each element is read at most once, unless `often`."""
        if user.op in ("if", "leave"):
            return value in user.operands[:1]
        if user.op == "push" and not is_few(user.operands[1]):
            return False  # it is written by a loop
        role = self.role(user)
        with self.recording() as accesses:
            if role == "assign" or role == "view":
                for index in points(user.result.shape):
                    self.compute(user.result, index)
            elif user.op in ONCE and (not value.shape or user.op == "push"):
                for operand in user.operands:
                    if isinstance(operand.type, ArrayType):
                        if not is_static(operand.shape):
                            if operand is value:
                                return False
                            continue
                        if operand is not value and operand not in self.lazy:
                            continue
                        if math.prod(operand.shape) > SMALL:
                            return False
                        for index in points(operand.shape):
                            self.element(operand, index)
            else:
                return False
        seen: set[Any] = set()
        for read, at, count in accesses:
            if read is value and not often:
                if count > 1 or at is None or at in seen or not all(isinstance(i, int) for i in at):
                    return False
                seen.add(at)
        return True

    def read_all(self, value: Value) -> None:
        """Read all elements of a value: of few inlined ones one by one, since their places must be constant."""
        is_inlined = value in self.lazy and value.producer is not None and value.producer.op not in VIEWS
        for index in points(value.shape) if is_inlined and is_small(value) else [self.identity(value.shape)]:
            self.element(value, index)

    def affine_or_none(self, value: Value) -> Dim | None:
        """Return what `affine` says for a scalar, None for an array."""
        return None if value.shape else self.affine(value)

    def read_values(self, value: Value) -> list[Value]:
        if not isinstance(value.type, ArrayType) or self.affine_or_none(value) is not None:
            return []
        with self.recording() as accesses:
            self.read_all(value)
        return [v for v, _, _ in accesses]
