"""Writes blocks: steps in order, branches and loops with what they carry, stacks of residuals.

Reads a plan, writes lines. Previous: c_nests.py; next: c_source.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracegrad.codegen.c_elements import (
    points,
    unsupported,
)
from tracegrad.codegen.c_expression import (
    SUM,
    fill,
    index_text,
    negation,
    wrap,
)
from tracegrad.codegen.c_nests import NestWriter
from tracegrad.codegen.c_storage import Storage
from tracegrad.codegen.c_writer import Line, byte_count
from tracegrad.codegen.loops import Step
from tracegrad.ir.core import (
    Block,
    Operation,
    Value,
)
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import (
    ArrayType,
    Dim,
    symbol,
)


class BlockWriter(NestWriter):
    """Writes blocks and all that is in them."""

    def emit_block(self, block: Block) -> None:
        for step in self.plan.steps[block]:
            self.emit_step(step)

    def emit_step(self, step: Step) -> None:
        operation = (step.operations or step.pushes)[0]
        match step.kind:
            case "assign":
                self.emit_assign(operation)
            case "index":
                self.comment(operation.span)
                self.emit_index(operation)
            case "nest":
                self.emit_nest(step)
            case "rows":
                self.emit_rows(step)
            case "leave":
                with self.braces(f"if ({negation(self.element(operation.operands[0], ()))})"):
                    self.line("break;")
            case _:
                self.emit_statement(operation)

    def emit_statement(self, operation: Operation) -> None:
        if operation.op == "for":
            self.emit_for(operation)
        elif operation.op == "while":
            self.emit_while(operation)
        elif operation.op == "if":
            self.emit_if(operation)
        else:
            record = TABLE[operation.op]
            if record.c_statement is None:
                raise unsupported(operation.op, operation.span)
            if operation.op != "stack":
                self.comment(operation.span)
            self.current = operation
            if operation.op != "pop":
                for result in operation.results:
                    if isinstance(result.type, ArrayType):
                        self.declare(result)
            record.c_statement(self, operation)

    def call(self, operation: Operation, arguments: Sequence[str]) -> None:
        """Write a call of another function of the source; only a whole source has one."""
        raise NotImplementedError

    def emit_assign(self, operation: Operation) -> None:
        """Write a small value, one statement per element."""
        value = operation.result
        self.comment(operation.span)
        self.write_small(value, [self.compute(value, index) for index in points(value.shape)])

    # Control flow.

    def emit_for(self, operation: Operation) -> None:
        start, stop, *inits = operation.operands
        block = operation.blocks[0]
        self.comment(operation.span)
        self.enter(operation, inits)
        index = block.params[0]
        low, high = self.index_of(start), self.index_of(stop)
        name = self.fresh(index.name or "k")
        self.loop_names[index] = name
        step: int = operation.attrs["step"]
        self.ranges[name] = (low, high - 1) if step > 0 else (high + 1, low)
        self.open_indices.append(name)
        with self.braces(_for_header(name, low, high, step, operation.attrs["reverse"])):
            self.emit_block(block)
            self.carry_on(operation)
        self.open_indices.pop()
        self.give_back(name, index.name or "k")

    def enter(self, operation: Operation, inits: Sequence[Value]) -> None:
        """Write the first values of what a loop carries."""
        carries = self.plan.carries(operation)
        moves = []
        for param, init in zip(carries, inits, strict=True):
            if self.may_be_undefined(init):
                self.declare(param, cleared=True)
            if init.producer is None or init.producer.op != "undefined":
                moves.append((param, init))
        self.move(moves)

    def may_be_undefined(self, value: Value) -> bool:
        """Return whether a value is, or is chosen by branches from what includes, an `undefined` one."""
        known = self.undefined.get(value)
        if known is None:
            is_undefined = value.producer is not None and value.producer.op == "undefined"
            known = self.undefined[value] = is_undefined or any(map(self.may_be_undefined, _chosen_from(value)))
        return known

    def emit_while(self, operation: Operation) -> None:
        block = operation.blocks[0]
        self.comment(operation.span)
        self.enter(operation, operation.operands)
        steps = self.plan.steps[block]
        header, rest = "for (;;)", steps
        if steps and steps[0].kind == "leave":
            header, rest = f"while ({self.element(steps[0].operations[0].operands[0], ())})", steps[1:]
        with self.braces(header):
            for step in rest:
                self.emit_step(step)
            self.carry_on(operation)

    def emit_if(self, operation: Operation) -> None:
        then, otherwise = operation.blocks
        self.comment(operation.span)
        condition = self.element(operation.operands[0], ())
        if self._is_choice(operation):
            result = operation.result
            texts = {"c": condition, "x": self.element(then.yields[0], ()), "y": self.element(otherwise.yields[0], ())}
            self.write_small(result, [fill("{c} ? {x} : {y}", texts)])
            return
        for result in operation.results:
            self.declare(result, cleared=self.may_be_undefined(result))
        written: list[list[Line]] = []
        for block in (then, otherwise):
            before, self.lines = self.lines, []
            comment = self.last_comment
            self.depth += 1
            self.emit_block(block)
            self.move(
                [
                    (r, y)
                    for r, y in zip(operation.results, block.yields, strict=True)
                    if y.producer is None or y.producer.op != "undefined"
                ]
            )
            self.depth -= 1
            self.last_comment = comment
            written.append(self.lines)
            self.lines = before
        if not any(not x.is_comment for x in written[0]):
            if any(not x.is_comment for x in written[1]):
                self.line(f"if ({negation(condition)}) {{")
                self.lines += written[1]
                self.line("}")
            return
        self.line(f"if ({condition}) {{")
        self.lines += written[0]
        if any(not x.is_comment for x in written[1]):
            self.line("} else {")
            self.lines += written[1]
        self.line("}")

    def _is_choice(self, operation: Operation) -> bool:
        """Return whether an `if` only chooses between two scalars."""
        if len(operation.results) != 1 or operation.result.shape:
            return False
        if any(self.plan.steps[b] for b in operation.blocks):
            return False
        storage = self.plan.storage[operation.result]
        return all(self.plan.storage.get(b.yields[0]) is not storage for b in operation.blocks)

    def move(self, pairs: Sequence[tuple[Value, Value]]) -> None:
        """Write assignments that happen at once: no target is written before all that read its old value."""
        plan = self.plan
        pending: list[tuple[Value, Value, set[Storage], bool]] = []
        for target, source in pairs:
            storage = plan.storage[target]
            if source not in self.lazy and plan.storage.get(source) is storage:
                continue
            reads = self._storages_read(source)
            pending.append((target, source, reads, storage in reads))
        while pending:
            for entry in pending:
                storage = plan.storage[entry[0]]
                if not any(storage in reads for other, _, reads, _ in pending if other is not entry[0]):
                    break
            else:
                entry = pending[0]
            pending.remove(entry)
            target, source, reads, is_circular = entry
            storage = plan.storage[target]
            blocked = any(storage in reads for _, _, reads, _ in pending)
            if not blocked and not (is_circular and target.shape):
                self.copy(target, source)
                continue
            if blocked:
                self.save_old(target, [source for _, source, _, _ in pending])
                pending = [(t, s, r - {storage}, c) for t, s, r, c in pending]
            if is_circular and target.shape:
                self.save_old(target, [source])
            self.copy(target, source)
        for value in self.saved_old:
            self.bound.pop(value, None)
            self.pointers.pop(value, None)
        self.saved_old = []

    def carry_on(self, operation: Operation) -> None:
        """Write what a loop carries into the next iteration."""
        block = operation.blocks[0]
        swaps = self.plan.swaps[block]
        pairs = zip(self.plan.carries(operation), block.yields, strict=True)
        self.move([(param, following) for param, following in pairs if param not in swaps])
        self.rotate({self.plan.storage[param]: source for param, source in swaps.items()})

    def rotate(self, sources: dict[Storage, Storage]) -> None:
        """Give arrays the pointers of others, all at once; what is left over goes to those that gave theirs away."""
        while sources:
            start = next((s for s in sources if s not in sources.values()), next(iter(sources)))
            places = [self.place_of(start)]
            current = start
            while current in sources:
                current = sources.pop(current)
                places.append(self.place_of(current))
            if current is start:
                places.pop()
            name = self.fresh("swapped")
            self.line(f"{self.ctype(start.members[0].dtype)} *const {name} = {places[0]};")
            for target, source in zip(places, [*places[1:], name], strict=True):
                self.line(f"{target} = {source};")

    def _storages_read(self, source: Value) -> set[Storage]:
        plan = self.plan
        return {plan.storage[v] for v in plan.read_values(source) if v in plan.storage}

    def save_old(self, target: Value, sources: Sequence[Value]) -> None:
        """Keep the old value of a storage for sources that are copied after it is overwritten."""
        plan = self.plan
        storage = plan.storage[target]
        readers = {v for s in sources for v in plan.read_values(s) if plan.storage.get(v) is storage}
        name = self.fresh(f"old_{self.place_of(storage)}")
        place = self.place_of(storage)
        if self.is_variable(storage):
            self.line(f"const {self.local_ctype(target.dtype)} {name} = {place};", name)
        elif self.is_on_stack(target):
            size = math.prod(target.shape)
            self.line(f"{self.ctype(target.dtype)} {name}[{size}];")
            self.line(f"memcpy({name}, {place}, sizeof({name}));")
        else:
            count = math.prod(self.shape(target))
            self.take(name, target.dtype, count)
            self.line(f"memcpy({name}, {place}, {byte_count(index_text(count))}sizeof(*{name}));")
        for value in readers:
            if not self.is_variable(storage):
                self.pointers[value] = name
            else:
                self.bound[value] = name
            self.saved_old.append(value)


def _for_header(name: str, low: Dim, high: Dim, step: int, reverse: bool) -> str:
    """Return the header of a loop over range(low, high, step), or over the same indices backwards."""
    size = abs(step)
    advance = {1: f"{name}++", -1: f"{name}--"}
    if not reverse:
        compare = "<" if step > 0 else ">"
        move = advance.get(step, f"{name} {'+' if step > 0 else '-'}= {size}")
        return f"for (int64_t {name} = {index_text(low)}; {name} {compare} {wrap(index_text(high), SUM)}; {move})"
    if size == 1:
        first = high - 1 if step > 0 else high + 1
    else:
        distance = high - low - 1 if step > 0 else low - high - 1
        if isinstance(distance, int):
            first = low + distance // size * step
        else:
            first = low + symbol(f"tg_floor_divide_i64({index_text(distance)}, {size})") * step
    compare = ">=" if step > 0 else "<="
    move = advance.get(-step, f"{name} {'-' if step > 0 else '+'}= {size}")
    return f"for (int64_t {name} = {index_text(first)}; {name} {compare} {wrap(index_text(low), SUM)}; {move})"


def _chosen_from(value: Value) -> list[Value]:
    """Return the values of which a value may be one where its operation has not given it another."""
    operation = value.producer
    if operation is None or not operation.blocks:
        return []
    position = operation.results.index(value)
    if operation.op == "if":
        return [block.yields[position] for block in operation.blocks]
    return [operation.operands[position + (2 if operation.op == "for" else 0)]]
