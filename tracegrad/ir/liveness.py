"""Removes what nothing needs: operations, carries of loops, results of branches, stacks that are never read.

Reads and writes IR in place. Used by transform/ (to find what a reverse block reads) and by passes/dce.py.
Previous: builder.py; next: bounds.py.
"""

from __future__ import annotations

from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.opdef import TABLE


def remove_dead(function: Function) -> bool:
    """Remove what neither a result nor an effect of the function needs; return whether anything was removed.

    A stack whose popped values are all unused goes together with its pushes and pops.
    """
    return remove_dead_from(function.body, keep_stacks=False)


def remove_dead_from(block: Block, *, keep_stacks: bool) -> bool:
    """Remove what neither the yields nor an effect of a block needs; return whether anything was removed.

    Args:
        block: seen on its own: values of outer blocks are left alone.
        keep_stacks: whether pushes and pops are effects, as they are when other uses of the stack are not in view.
    """
    liveness = _Liveness(block, keep_stacks)
    liveness.run()
    return liveness.prune(block)


def find_dead(function: Function) -> list[tuple[Block, Operation]]:
    """Return the operations that `remove_dead` would remove, each with its block."""
    liveness = _Liveness(function.body, keep_stacks=False)
    liveness.run()
    waiting, found = [function.body], []
    while waiting:
        block = waiting.pop()
        found += [(block, operation) for operation in block.operations if operation not in liveness.needed]
        waiting.extend(nested for operation in block.operations for nested in operation.blocks)
    return found


def has_effect(operation: Operation) -> bool:
    """Return whether an operation, or one inside its blocks or its callee, has an effect."""
    return _has_effect(operation, set())


def _has_effect(operation: Operation, seen: set[Function]) -> bool:
    if TABLE[operation.op].effect:
        return True
    callee = operation.attrs.get("function")
    if isinstance(callee, Function) and callee not in seen:
        seen.add(callee)
        if any(_has_effect(o, seen) for o in callee.body.operations):
            return True
    for block in operation.blocks:
        for inner in block.operations:
            if _has_effect(inner, seen):
                return True
    return False


class _Liveness:
    """Marks live values from the roots, then prunes. Marking visits each value once, so loops need no iteration."""

    def __init__(self, block: Block, keep_stacks: bool) -> None:
        self.root = block
        self.keep_stacks = keep_stacks
        self.parents: dict[Operation, Operation | None] = {}
        self.owners: dict[Value, tuple[Operation, int]] = {}
        self.stack_uses: dict[Value, list[Operation]] = {}
        self.live: set[Value] = set()
        self.needed: set[Operation] = set()
        self.carries: set[tuple[Operation, int]] = set()
        self.waiting: list[Value] = []
        self.index(block, None)

    def index(self, block: Block, parent: Operation | None) -> None:
        for operation in block.operations:
            self.parents[operation] = parent
            if operation.op in ("push", "pop"):
                self.stack_uses.setdefault(operation.operands[0], []).append(operation)
            for nested in operation.blocks:
                # the first parameter of a `for` is its index, which belongs to no carry
                shift = 1 if operation.op == "for" else 0
                for position, param in enumerate(nested.params):
                    self.owners[param] = (operation, position - shift)
                self.index(nested, operation)

    def run(self) -> None:
        for value in self.root.yields:
            self.mark(value)
        for operation in self.parents:
            if self.is_root(operation):
                self.need(operation)
        while self.waiting:
            self.visit(self.waiting.pop())

    def is_root(self, operation: Operation) -> bool:
        if operation.op in ("push", "pop"):
            # of a stack made outside not all uses are in view
            return self.keep_stacks or operation.operands[0].producer not in self.parents
        if operation.op == "stack":
            return self.keep_stacks
        return not operation.blocks and has_effect(operation)

    def mark(self, value: Value) -> None:
        if value not in self.live:
            self.live.add(value)
            self.waiting.append(value)

    def need(self, operation: Operation) -> None:
        """Keep an operation, those around it, and what these need besides carried values."""
        if operation in self.needed:
            return
        self.needed.add(operation)
        parent = self.parents[operation]
        if parent is not None:
            self.need(parent)
        match operation.op:
            case "if":
                self.mark(operation.operands[0])
            case "for":
                self.mark(operation.operands[0])
                self.mark(operation.operands[1])
            case "while":
                self.mark(operation.blocks[0].yields[0])
            case _:
                for operand in operation.operands:
                    self.mark(operand)

    def visit(self, value: Value) -> None:
        if value in self.owners:
            operation, position = self.owners[value]
            self.need(operation)
            if position >= 0:
                self.mark_carry(operation, position)
            return
        producer = value.producer
        if producer is None or producer not in self.parents:
            return
        self.need(producer)
        match producer.op:
            case "if":
                position = producer.results.index(value)
                for block in producer.blocks:
                    self.mark(block.yields[position])
            case "for" | "while":
                self.mark_carry(producer, producer.results.index(value))
            case "stack":
                for use in self.stack_uses.get(value, []):
                    self.need(use)

    def mark_carry(self, operation: Operation, position: int) -> None:
        if (operation, position) in self.carries:
            return
        self.carries.add((operation, position))
        first = 2 if operation.op == "for" else 0
        self.mark(operation.operands[first + position])
        self.mark(operation.blocks[-1].yields[position])

    def prune(self, block: Block) -> bool:
        kept = [o for o in block.operations if o in self.needed]
        changed = len(kept) != len(block.operations)
        block.operations = kept
        for operation in kept:
            changed |= self.prune_results(operation)
            for nested in operation.blocks:
                changed |= self.prune(nested)
        return changed

    def prune_results(self, operation: Operation) -> bool:
        if operation.op == "if":
            keep = [i for i, result in enumerate(operation.results) if result in self.live]
        elif operation.op in ("for", "while"):
            keep = [i for i in range(len(operation.results)) if (operation, i) in self.carries]
        else:
            return False
        if len(keep) == len(operation.results):
            return False
        keep_results(operation, keep)
        return True


def keep_results(operation: Operation, keep: list[int]) -> None:
    """Reduce an `if`, `for` or `while` to the results at the given positions, with what carries them."""
    operation.results = [operation.results[i] for i in keep]
    first = {"if": 1, "for": 2, "while": 0}[operation.op]
    shift = 1 if operation.op == "for" else 0
    if operation.op != "if":
        operation.operands = operation.operands[:first] + [operation.operands[first + i] for i in keep]
        for block in operation.blocks:
            block.params = block.params[:shift] + [block.params[shift + i] for i in keep]
    for block in operation.blocks[1:] if operation.op == "while" else operation.blocks:
        block.yields = [block.yields[i] for i in keep]


def defined_in(block: Block) -> set[Value]:
    """Return the parameters and results of a block, without those of blocks nested in it."""
    return {*block.params, *(r for operation in block.operations for r in operation.results)}


def uses(block: Block) -> dict[Value, int]:
    """Return how often each value is used in a block, nested blocks and yields included."""
    counts: dict[Value, int] = {}
    for value in block.yields:
        counts[value] = counts.get(value, 0) + 1
    for operation in walk(block):
        for value in [*operation.operands, *(v for b in operation.blocks for v in b.yields)]:
            counts[value] = counts.get(value, 0) + 1
    return counts
