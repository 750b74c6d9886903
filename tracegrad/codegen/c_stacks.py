"""Writes stacks of residuals: an array with a counter, of fixed size where that is known, else one that grows.

Reads a plan, writes lines. Previous: c_writer.py; next: c_nests.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracegrad.codegen.c_elements import flatten, is_few, points
from tracegrad.codegen.c_expression import PRODUCT, index_text, wrap
from tracegrad.codegen.c_writer import Memory, Stack, Writer
from tracegrad.ir.core import Block, Value, walk
from tracegrad.ir.types import ArrayType, Dim, StackType, symbol


class StackWriter(Writer):
    """Writes stacks."""

    def new_stack(self, stack: Value) -> None:
        operation = stack.producer
        assert operation is not None and isinstance(stack.type, StackType)
        element: ArrayType = stack.type.element
        name = self.fresh(f"tg_stack_{len(self.stacks)}")  # until what is taken from it has a name
        size = math.prod(self.sizes(d) for d in element.shape)
        partner = next((self.stacks[s] for s in self.plan.step_partners(stack) if s in self.stacks), None)
        made = Stack(name, partner.top if partner else self.fresh(f"{name}_top"), element, size)
        self.stacks[stack] = made
        capacity = operation.attrs["capacity"]
        if capacity is not None:
            self.memory.append(Memory(name, self.ctype(element.dtype), self.sizes(capacity) * size))
        else:
            made.number = len(self.growing)
            self.growing.append(made)
            made.fields = (f"stacks[{made.number}]", self.fresh(f"{name}_capacity"))
            bytes_each = self._bytes(made)
            self.line(f"{self.ctype(element.dtype)} *{name} = {made.fields[0]}.data;")
            self.line(f"int64_t {made.fields[1]} = tg_capacity(&{made.fields[0]}, {bytes_each});")
        if partner is None:
            self.line(f"int64_t {made.top} = 0;", made.top)

    def _bytes(self, stack: Stack) -> str:
        size = f"(int64_t)sizeof({self.ctype(stack.element.dtype)})"
        return size if stack.size == 1 else f"{wrap(index_text(stack.size), PRODUCT)}*{size}"

    def slot(self, stack: Stack, index: Sequence[Dim]) -> str:
        shape = tuple(self.sizes(d) for d in stack.element.shape)
        return f"{stack.name}[{index_text(symbol(stack.top) * stack.size + flatten(index, shape))}]"

    def make_room(self, made: Stack) -> None:
        """Write the growth of a stack that is full."""
        if made.number is not None:
            with self.braces(f"if ({made.top} == {made.fields[1]})"):
                self.line(f"{made.name} = tg_grow(&{made.fields[0]}, {self._bytes(made)}, &{made.fields[1]});")
                self.fault(f"!{made.name}", "MemoryError", "no memory for the residuals of a loop", None)

    def push(self, stack: Value, value: Value) -> None:
        made = self.stacks[stack]
        self.make_room(made)
        moves = self.current is not None and self.plan.moves_top(self.current)
        if not value.shape:
            self.assign(f"{made.name}[{made.top}{'++' if moves else ''}]", self.element(value, ()))
            return
        if is_few(value):
            for index in points(value.shape):
                self.assign(self.slot(made, index), self.element(value, index))
        else:
            with self.loops(self.shape(value), simd="") as place:
                self.assign(self.slot(made, place), self.element(value, place))
        if moves:
            self.line(f"{made.top}++;")

    def pop(self, stack: Value, result: Value) -> None:
        made = self.stacks[stack]
        storage = self.plan.storage.get(result)
        moves = self.current is not None and self.plan.moves_top(self.current)
        if storage is None:
            if moves:
                self.line(f"{made.top}--;")
            return
        is_alone = len(storage.members) == 1 and storage.result is None and not storage.is_swapped
        is_pointer = bool(result.shape) and is_alone and not self._is_pushed_again(stack, result)
        if not is_pointer:
            self.name_stack(made, self.place_of(storage, self.is_before(stack)))
        if not result.shape:
            self.write_small(result, [f"{made.name}[{'--' if moves else ''}{made.top}]"])
            return
        if moves:
            self.line(f"{made.top}--;")
        if is_pointer:
            name = self.fresh_for([result], self.is_before(stack))
            self.name_stack(made, name)
            self.line(
                f"const {self.ctype(result.dtype)} *const {name} = &{self.slot(made, [0] * len(result.shape))};", name
            )
            self.pointers[result] = name
        else:
            if is_few(result):
                self.write_small(result, [self.slot(made, index) for index in points(result.shape)])
            else:
                self.declare(result)
                with self.loops(self.shape(result), simd="") as place:
                    self.assign(self.store(result, place), self.slot(made, place))

    def is_before(self, stack: Value) -> bool:
        """Return whether what is on a stack was carried by a loop before an iteration."""
        pushed = [o.operands[1] for o in walk(self.function.body) if o.op == "push" and o.operands[0] is stack]
        return any(v.producer is None for v in pushed)

    def name_stack(self, stack: Stack, popped: str) -> None:
        """Let a stack be called after the variable of what is taken from it."""
        if stack.name not in self.stack_names:
            self.stack_names[stack.name] = self.fresh_everywhere(f"{popped.removesuffix('_again')}_stack")

    def _is_pushed_again(self, stack: Value, result: Value) -> bool:
        """Return whether anything may be pushed on a stack after a pop from it."""
        seen = False
        for operation in walk(self.function.body):
            if operation.op == "push" and operation.operands[0] is stack and seen:
                return True
            seen = seen or operation is result.producer
        block: Block | None = self.plan.home[result.producer] if result.producer is not None else None
        while block in self.plan.owner:
            owner = self.plan.owner[block]
            if owner.op in ("for", "while") and any(
                o.op == "push" and o.operands[0] is stack for b in owner.blocks for o in walk(b)
            ):
                return True
            block = self.plan.home[owner]
        return False
