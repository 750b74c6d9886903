"""Decides how the operations of a block become steps: small statements, nests of loops, other statements.

Reads IR and the C fields of op records, writes per block a list of steps. Previous: c_views.py; next: c_storage.py.

- Larger elementwise values and reductions of one iteration space form a *nest*: loops for all of them. A value that is
  used only there is a local variable of the loop body.
- Neighbouring nests share their outermost loop where one reads, in the same row, what another makes.
- All else is a *statement*: the `c_statement` of the record, or control flow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tracegrad.codegen.c_elements import (
    is_few,
    kept_axes,
    points,
    squeeze,
    static_size,
)
from tracegrad.codegen.c_order import LOOPS, overwritten
from tracegrad.codegen.c_views import Views
from tracegrad.ir.core import (
    Block,
    Function,
    Operation,
    Value,
    clone_operation,
    walk,
)
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import (
    ArrayType,
    Dim,
    Shape,
    symbol,
)

#: rows of at most so many elements are written out
UNROLLED_ROW = 8

#: elementwise ops that are computed again rather than stored
CHEAP = frozenset(
    """add subtract multiply negative square select cast equal not_equal less less_equal greater greater_equal
    logical_and logical_or logical_not absolute""".split()
)


@dataclass(eq=False)
class Step:
    """What is written at one place of a block.

    Attributes:
        kind: "assign" (one small value), "nest", "rows" (nests that share their outermost loop), "index" (check of the
            indices of a gather), "statement", or "leave" (of a while).
        operations: one, or the members of a nest in order.
        space: the iteration space of a nest, without dimensions of size 1.
        reads: stored values that are read, and whether only at the index that is written.
        members: the nests of "rows".
        pushes: what a nest pushes, element by element.
    """

    kind: str
    operations: list[Operation]
    space: Shape = ()
    reads: dict[Value, bool] = field(default_factory=dict)
    members: list[Step] = field(default_factory=list)
    pushes: list[Operation] = field(default_factory=list)

    @property
    def results(self) -> list[Value]:
        return [r for o in self.operations for r in o.results]


class Steps(Views):
    """The steps of all blocks of a function, in `steps`."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.steps: dict[Block, list[Step]] = {}
        self._copies: dict[Step, dict[Operation, Operation]] = {}
        self._pair_stacks()
        self._plan_block(self.function.body)
        self._choose_movers()

    # Steps.

    def _plan_block(self, block: Block) -> None:
        steps: list[Step] = []
        self.steps[block] = steps
        maker: dict[Value, Step] = {}
        for operation in block.operations:
            role = self.role(operation)
            if operation.op == "gather":
                steps.append(self._read_step(Step("index", [operation])))
            if role == "view":
                continue
            if role in ("point", "reduce"):
                step = self._join_nest(operation, steps, maker)
            elif operation.op == "push" and self._is_pushed_by_nest(operation):
                self._join_nest(operation, steps, maker)
                continue
            else:
                kind = "leave" if operation.op == "leave" else role
                for nested in operation.blocks:
                    self._plan_block(nested)
                step = Step(kind, [operation])
                steps.append(self._read_step(step))
            for result in operation.results:
                maker[result] = step
        self._sink(block, steps, maker)
        self._repeat_cheap(block, steps, maker)
        self._group_rows(steps)

    def _nest_reads(self, operation: Operation) -> list[tuple[Value, bool]]:
        """Return the stored values that a member of a nest reads, and whether at the index of the nest."""
        return [(v, same) for v, same, _ in self.nest_accesses(operation)]

    def nest_accesses(self, operation: Operation) -> list[tuple[Value, bool, int]]:
        """Return the values that a member of a nest reads, whether at the index of the nest, and how often."""
        space = self.nest_space(operation)
        return [(v, self.is_identity(v, i, space), count) for v, i, count in self._nest_reads_at(operation)[0]]

    def _nest_reads_at(self, operation: Operation) -> tuple[list[tuple[Value, tuple[Any, ...] | None, int]], str]:
        """Return what a member of a nest reads, at which index and how often, and the text of the dry run."""
        with self.recording() as accesses:
            if operation.op == "push":
                text = self.element(operation.operands[1], self.identity(operation.operands[1].shape))
            elif self.role(operation) == "reduce":
                if operation.op == "dot_general":
                    for operand, axes in zip(operation.operands, operation.attrs["contract"], strict=True):
                        order = self.identity(operation.operands[0].shape)
                        index: list[Dim] = [0] * len(operand.shape)
                        for axis, position in zip(axes, order, strict=True):
                            index[axis] = position
                        text = self.element(operand, index)
                else:
                    text = self.element(operation.operands[0], self.identity(operation.operands[0].shape))
            else:
                text = self.compute(operation.result, self.identity(operation.result.shape))
        return accesses, text

    def is_flat(self, nest: Step) -> bool:
        """Return whether a nest goes through whole arrays in order, so that one loop over all elements does."""
        if len(nest.space) < 2:
            return False
        for operation in [*nest.operations, *nest.pushes]:
            if operation.results and self.role(operation) == "reduce" and len(squeeze(operation.result.shape)) > 0:
                return False
            accesses, text = self._nest_reads_at(operation)
            if "axis" in text or not all(self.is_identity(v, i, nest.space) for v, i, _ in accesses if v.shape):
                return False
        return True

    def _repeat_cheap(self, block: Block, steps: list[Step], maker: dict[Value, Step]) -> None:
        """Compute cheap values again in each nest that reads them, where that saves storing them."""
        nests = [s for s in steps if s.kind == "nest"]
        for nest in nests:
            for operation in list(nest.operations):
                value = operation.result
                others = [n for n in nests if n is not nest and value in n.reads]
                users = {
                    maker.get(u.results[0]) if u is not None and u.results else None
                    for u, _ in self._effective_uses(value)
                }
                if not others or operation.op not in CHEAP or not users <= {nest, *others}:
                    continue
                if not all(n.reads[value] and n.space == nest.space and self._reads_directly(n, value) for n in others):
                    continue
                chain = self._cheap_chain(operation, nest, maker)
                if chain is None:
                    continue
                read = [v for o in chain for v, _ in self._nest_reads(o)]
                last = max(steps.index(other) for other in others)
                if self._overwrites(steps[steps.index(nest) : last], read):
                    continue
                for other in others:
                    self._repeat_in(other, chain, block, maker)
                    del other.reads[value]

    def _cheap_chain(self, operation: Operation, nest: Step, maker: dict[Value, Step]) -> list[Operation] | None:
        """Return the few cheap operations that compute a value from stored ones, in order, or None."""
        chain: list[Operation] = []
        large: set[Value] = set()  # those that are as large as the nest; others stay in the cache

        def collect(op: Operation) -> bool:
            for value, _ in self._nest_reads(op):
                if maker.get(value) is not nest or self._stored_anyway(value, nest, maker):
                    if len(squeeze(value.shape)) == len(nest.space):
                        large.add(value)
                    continue
                producer = value.producer
                if producer is None or producer.op not in CHEAP or not collect(producer):
                    return False
            if op not in chain:
                chain.append(op)
            return len(chain) <= 3 and len(large) <= 2

        return chain if collect(operation) else None

    def _reads_directly(self, nest: Step, value: Value) -> bool:
        """Return whether the members of a nest read a value as an operand only, never through a view."""
        return not any(
            v in self.lazy and value in self.read_values(v) for reader in nest.operations for v in reader.operands
        )

    def _repeat_in(self, nest: Step, chain: list[Operation], block: Block, maker: dict[Value, Step]) -> None:
        """Put copies of operations into a nest, for the uses in it."""
        known = self._copies.setdefault(nest, {})
        mapping = {operation.result: copy.result for operation, copy in known.items()}
        copies = []
        for operation in chain:
            if operation not in known:
                known[operation] = clone_operation(operation, mapping)
                copies.append(known[operation])
        for reader in nest.operations:
            reader.operands = [mapping[v] if v is chain[-1].result else v for v in reader.operands]
        self._note_copies(nest, chain[-1].result, known[chain[-1]].result, copies, block)
        front = len(known) - len(copies)
        nest.operations[front:front] = copies
        at = block.operations.index(chain[-1]) + 1
        block.operations[at:at] = copies
        for copy in copies:
            self.home[copy] = block
            maker[copy.result] = nest
        for copy in copies:
            for value, same in self._nest_reads(copy):
                if maker.get(value) is not nest:
                    nest.reads[value] = nest.reads.get(value, True) and same

    def _note_copies(self, nest: Step, original: Value, copy: Value, copies: list[Operation], block: Block) -> None:
        """Keep `uses` in step with copies put into a nest for what used the original there."""
        moved = [(user, b) for user, b in self.uses[original] if user in nest.operations]
        self.uses[original] = [use for use in self.uses[original] if use not in moved]
        self.uses.setdefault(copy, []).extend(moved)
        for operation in copies:
            for value in operation.operands:
                self.uses.setdefault(value, []).append((operation, block))

    def _group_rows(self, steps: list[Step]) -> None:
        """Let neighbouring nests share their outermost loop where one reads, in the same row, what another makes."""
        position = 0
        while position < len(steps):
            group, before = self._rows_from(steps, position)
            if group:
                made = {v for nest in group for v in nest.results}
                rows = Step("rows", [o for nest in group for o in nest.operations], group[0].space[:1], members=group)
                for nest in group:
                    for value, same in nest.reads.items():
                        if value not in made:
                            rows.reads[value] = rows.reads.get(value, True) and same and len(group) == 1
                steps[position : position + len(group) + len(before)] = [*before, rows]
                position += len(before)
            position += 1

    def _rows_from(self, steps: list[Step], position: int) -> tuple[list[Step], list[Step]]:
        """Return the nests from a position on that profit from one outermost loop, and what moves before them."""
        first = steps[position]
        if first.kind != "nest" or len(first.space) < 2 or first.pushes:
            return [], []
        group: list[Step] = []
        before: list[Step] = []
        made: set[Value] = set()
        connected, passed = 1, 0
        for step in steps[position:]:
            is_row = step.kind == "nest" and step.space[:1] == first.space[:1] and not step.pushes
            reads_made = self._reads_in_row(step, made) if is_row else None
            if reads_made is not None:
                group.append(step)
                made.update(step.results)
                if reads_made and len(step.space) > 1:
                    connected, passed = len(group), len(before)
            elif (
                step.kind in ("assign", "nest") and not step.pushes and made.isdisjoint(step.reads) and len(before) < 8
            ):
                before.append(step)
            else:
                break
        group, before = group[:connected], before[:passed]
        is_single = len(group) == 1 and self.is_unrolled(first) and not self.is_flat(first)
        return (group, before) if len(group) > 1 or is_single else ([], [])

    def is_unrolled(self, nest: Step) -> bool:
        """Return whether what a nest does in one row is written out."""
        size = static_size(nest.space[1:])
        return size is not None and size <= UNROLLED_ROW

    def _reads_in_row(self, nest: Step, made: set[Value]) -> bool | None:
        """Return whether a nest reads what was made before in the row; None when it reads that in other rows."""
        found = False
        for operation in nest.operations:
            for value, index, _ in self._nest_reads_at(operation)[0]:
                if value not in made:
                    continue
                kept = [k for k, d in enumerate(value.shape) if not (isinstance(d, int) and d == 1)]
                if not kept or index is None or self.shape(value)[kept[0]] != nest.space[0]:
                    return None
                producer = value.producer
                assert producer is not None
                if self.role(producer) == "reduce" and 0 not in kept_axes(producer):
                    return None
                if index[kept[0]] != symbol("axis0"):
                    return None
                found = True
        return found

    def nest_space(self, operation: Operation) -> Shape:
        """Return the iteration space of a member of a nest."""
        if operation.op == "push":
            return squeeze(self.shape(operation.operands[1]))
        is_reduction = self.role(operation) == "reduce"
        return squeeze(self.shape(operation.operands[0] if is_reduction else operation.result))

    def _is_pushed_by_nest(self, push: Operation) -> bool:
        """Return whether a push is done in a loop nest: of a large array, the only one to its stack in the block."""
        stack, value = push.operands
        return stack in self._steady_stacks and not is_few(value)

    def _join_nest(self, operation: Operation, steps: list[Step], maker: dict[Value, Step]) -> Step:
        """Put an operation into the nest where it fits best, or into a new one."""
        space = self.nest_space(operation)
        reads = self._nest_reads(operation)
        best: tuple[bool, int] | None = None
        after_leave = max((k for k, s in enumerate(steps) if s.kind == "leave"), default=-1)
        for position, nest in enumerate(steps):
            if nest.kind != "nest" or nest.space != space or position < after_leave:
                continue  # what follows the exit of a `while` stays behind it
            if self._movable(reads, nest, position, steps, maker) is None:
                continue
            score = (any(maker.get(v) is nest for v, _ in reads), position)
            if best is None or score > best:
                best = score
        if best is None:
            nest = Step("nest", [], space)
            steps.append(nest)
        else:
            nest = steps[best[1]]
            moved = self._movable(reads, nest, best[1], steps, maker)
            assert moved is not None
            for step in moved:
                steps.remove(step)
            at = steps.index(nest)
            steps[at:at] = moved
        (nest.pushes if operation.op == "push" else nest.operations).append(operation)
        for value, same in reads:
            if maker.get(value) is not nest:
                nest.reads[value] = nest.reads.get(value, True) and same
        return nest

    def _movable(
        self, reads: list[tuple[Value, bool]], nest: Step, position: int, steps: list[Step], maker: dict[Value, Step]
    ) -> list[Step] | None:
        """Return the small steps that must move before a nest so that it can read these values, or None."""
        moved: list[Step] = []

        def available(value: Value) -> bool:
            step = maker.get(value)
            if step is None or step in moved or step in steps[:position]:
                return True
            if step is nest or step.kind != "assign":
                return False
            if not all(available(v) for v in step.reads):
                return False
            moved.append(step)
            return True

        for value, same in reads:
            if maker.get(value) is nest:
                producer = value.producer
                assert producer is not None
                if not same or self.role(producer) == "reduce":
                    return None
            elif not available(value):
                return None
        return moved

    def _sink(self, block: Block, steps: list[Step], maker: dict[Value, Step]) -> None:
        """Move nest members to the one later nest that uses them, so that they need not be stored."""
        params = {*self.function.params}
        for nest in reversed([s for s in steps if s.kind == "nest"]):
            for operation in reversed(list(nest.operations)):
                if self.role(operation) == "reduce":
                    continue
                value = operation.result
                users = {
                    maker.get(u.results[0]) if u is not None and u.results else None
                    for u, b in self._effective_uses(value)
                }
                if len(users) != 1:
                    continue
                (target,) = users
                if target is None or target is nest or target.kind != "nest" or target.space != nest.space:
                    continue
                if steps.index(target) < steps.index(nest):
                    continue
                target_reads = [r for o in [*target.operations, *target.pushes] for r in self._nest_reads(o)]
                if not all(same for v, same in target_reads if v is value):
                    continue
                reads = self._nest_reads(operation)
                if not all(
                    v in params
                    or maker.get(v) is None
                    or v in target.reads
                    or (maker.get(v) is nest and self._stored_anyway(v, nest, maker))
                    for v, _ in reads
                ):
                    continue
                if self._overwrites(steps[steps.index(nest) : steps.index(target)], [v for v, _ in reads]):
                    continue
                nest.operations.remove(operation)
                target.operations.insert(0, operation)
                maker[value] = target
                target.reads.pop(value, None)
                for v, same in reads:
                    target.reads[v] = target.reads.get(v, True) and same
            if not nest.operations and not nest.pushes:
                steps.remove(nest)

    def _overwrites(self, steps: list[Step], values: list[Value]) -> bool:
        """Return whether one of some steps takes over the memory of one of some values."""
        found = {v for s in steps if s.kind == "statement" for o in s.operations for v in overwritten(o)}
        return not found.isdisjoint(values)

    def _stored_anyway(self, value: Value, nest: Step, maker: dict[Value, Step]) -> bool:
        return any(
            u is None or not u.results or maker.get(u.results[0]) is not nest for u, _ in self._effective_uses(value)
        )

    def _read_step(self, step: Step) -> Step:
        """Fill in what a step other than a nest reads."""
        operation = step.operations[0]
        with self.recording() as accesses:
            if step.kind == "index":
                for value in operation.operands[1:]:
                    self.index_of(value, self.identity(value.shape))
            elif step.kind == "assign":
                for index in points(operation.result.shape):
                    with self.recording() as inner:
                        self.compute(operation.result, index)
                    shape = operation.result.shape
                    for value, at, _ in inner:
                        same = at is not None and value.shape == shape and tuple(at) == index
                        step.reads[value] = step.reads.get(value, True) and same
            else:
                record = TABLE.get(operation.op)
                if record is not None and record.c_statement is not None:
                    record.c_statement(self, operation)
                for value in operation.operands:
                    if isinstance(value.type, ArrayType) and self.affine_or_none(value) is None:
                        self.read_all(value)
        changed = None
        if step.kind == "statement":
            record = TABLE.get(operation.op)
            if record is not None and record.inplace is not None:
                changed = operation.operands[record.inplace]
                values = operation.operands[-1]
                if values.shape and (values is changed or changed in self.read_values(values)):
                    changed = None  # what is written later may be read from what has been written
        for value, _, _ in accesses:
            same = value is changed
            if step.kind == "statement" and operation.op in LOOPS | {"if"}:
                same = True
            step.reads[value] = step.reads.get(value, True) and same
        return step

    # Stacks that move in step.

    def _pair_stacks(self) -> None:
        """Find stacks that are pushed in the same blocks and popped in the same others, once in each: they share one
        counter."""
        blocks: dict[Value, dict[str, list[Operation]]] = {}
        for operation in walk(self.function.body):
            if operation.op in ("push", "pop"):
                blocks.setdefault(operation.operands[0], {"push": [], "pop": []})[operation.op].append(operation)
        groups: dict[Any, list[Value]] = {}
        for stack, found in blocks.items():
            key = tuple((op, tuple(id(self.home[o]) for o in some)) for op, some in found.items())
            ids = [number for _, some in key for number in some]
            unique = len(set(ids)) == len(ids)
            capacity = stack.producer.attrs["capacity"] if stack.producer is not None else None
            groups.setdefault((key, capacity is None, stack if not unique else None), []).append(stack)
        self._partners = {stack: group for group in groups.values() for stack in group}
        self._steady_stacks = {stack for (_, _, alone), group in groups.items() for stack in group if alone is None}

    def _choose_movers(self) -> None:
        """Choose which push and pop of stacks in step moves their counter: the last push written, the first pop."""
        self._movers: set[Operation] = set()
        for steps in self.steps.values():
            written = [o for s in steps for o in [*s.operations, *s.pushes] if o.op in ("push", "pop")]
            for op, some in (("push", reversed(written)), ("pop", iter(written))):
                done: set[Value] = set()
                for operation in some:
                    stack = operation.operands[0]
                    if operation.op == op and stack not in done:
                        self._movers.add(operation)
                        if stack in self._steady_stacks:
                            done.update(self.step_partners(stack))

    def step_partners(self, stack: Value) -> list[Value]:
        """Return the stacks, itself included, whose counter a stack shares."""
        return self._partners.get(stack, [stack])

    def moves_top(self, operation: Operation) -> bool:
        """Return whether a push or pop moves the counter of its stack."""
        return operation in self._movers
