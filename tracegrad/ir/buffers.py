"""Decides which writes happen in place: results that may take over the buffer of an operand.

Reads a function in IR, writes a BufferPlan beside it (the IR is not changed). Previous: writes.py; next folder: ops.
The code generators follow the plan.

Values of the IR never change, so `b = scatter_set a, i, v` makes a new array. It may be written into the buffer of
`a` when nobody can see the difference: the buffer was made by this function, and no value that is used afterwards may
lie in it. Which buffers a value may lie in is a set of roots, the values for which the buffers were made. Views
(slices, transposes, reshapes) have the roots of their operand, loop carries those of the initial value and of what
the body yields, a stack those of everything pushed. For code that copies where NumPy makes a view this is merely
cautious.

All writes start out in place. Those that would be seen are repaired one after the other: by copying the initial value
of a loop carry before the loop, or else by copying the operand at the write. A repair only makes sets of roots
smaller, so a write that was fine stays fine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracegrad.ir.core import Block, Function, Operation, Value, free_values, walk
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import BOOL, ArrayType

Roots = frozenset[Value]

#: root of memory that must not be written although it is no parameter: elements that a broadcast repeats
READ_ONLY = Value(ArrayType(BOOL), "read_only")

#: elementwise ops whose NumPy text may return its operand or a view of it
_SHARING_ELEMENTWISE = frozenset({"real", "imag", "conjugate", "cast", "stop_gradient", "barrier"})

#: elementwise ops whose NumPy text of scalars is a conditional expression
_CHOOSING = frozenset({"select", "keep_zero"})

#: other ops whose result is a new array
_FRESH = frozenset(
    """constant iota full dim undefined call pad concatenate argmax argmin cumsum cumprod cummax cummin argsort
    linear_recurrence dot_general solve triangular_solve cholesky det slogdet cofactor inv
    is_positive_definite is_regular
    eigh svd qr pinv fft ifft rfft irfft""".split()
)
#: ops that Python writes as `x += y`
_OPERATORS = frozenset({"add", "subtract", "multiply", "divide"})
_STACKS = frozenset({"stack", "push", "pop"})
#: so many writes are repaired one by one, to copy as little as possible; after that all writes that are seen copy
_MOST_REPAIRS = 40

#: result is a new array when axes are reduced, else the operand
_REDUCTIONS = frozenset({"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_any", "reduce_all"})


@dataclass(slots=True)
class BufferPlan:
    """What may share memory, and which writes happen in place.

    Attributes:
        in_place: operations with OpDef.inplace whose result takes over the operand's buffer; others copy the operand.
        overlapping: those of `in_place` with another operand that may lie in the buffer being written.
        copied_inits: (loop, position of the carry) where the carry starts as a copy of its initial value.
        updates: sums and products that may be made in the buffer of their first operand, `x += y`, since nothing else
            reads it afterwards.
        copied_views: slices and gathers whose result is copied at once, so that their array can be written to.
        copied_results: positions of the function's results that must be copied before they are returned, since they
            may share memory with a parameter, a constant or an earlier result.
        roots: for each value the buffers it may lie in.
    """

    in_place: set[Operation] = field(default_factory=set)
    overlapping: set[Operation] = field(default_factory=set)
    copied_inits: set[tuple[Operation, int]] = field(default_factory=set)
    updates: set[Operation] = field(default_factory=set)
    copied_views: set[Operation] = field(default_factory=set)
    copied_results: set[int] = field(default_factory=set)
    roots: dict[Value, Roots] = field(default_factory=dict)

    def written(self, operation: Operation) -> Value | None:
        """Return the operand whose buffer an operation writes to, if it writes in place."""
        if operation in self.updates:
            return operation.operands[0]
        return written_operand(operation) if operation in self.in_place else None

    def may_share(self, a: Value, b: Value) -> bool:
        """Return whether two values may lie in one buffer."""
        return not self.roots[a].isdisjoint(self.roots[b])


def plan_buffers(function: Function, *, for_numpy: bool = False) -> BufferPlan:
    """Return which writes of a function may happen in place.

    Args:
        for_numpy: whether a small view may be copied to save the copy of a large array (BufferPlan.copied_views), and
            operators may write in place (BufferPlan.updates).
    """
    return _Planner(function, for_numpy).plan


def carries(loop: Operation) -> list[Value]:
    """Return the initial values of a loop's carries."""
    return loop.operands[2:] if loop.op == "for" else loop.operands


def carry_params(loop: Operation) -> list[list[Value]]:
    """Return, per block of a loop, its parameters that stand for carries."""
    return [block.params[1:] if loop.op == "for" else block.params for block in loop.blocks]


class _Planner:
    def __init__(self, function: Function, for_numpy: bool) -> None:
        self.function, self.for_numpy = function, for_numpy
        self.writes = [o for o in walk(function.body) if written_operand(o) is not None]
        self.loops_around = dict(_with_loops(function.body, ()))
        self.created_in: dict[Value, tuple[Operation, ...]] = {}
        for operation, loops in self.loops_around.items():
            for value in [*operation.results, *(p for b in operation.blocks for p in b.params)]:
                self.created_in[value] = loops
        self.aged: dict[tuple[Value, Operation], Value] = {}
        self.origins: dict[Value, tuple[Value, Operation]] = {}
        self.protected = {READ_ONLY, *function.params}
        self.protected |= {o.result for o in walk(function.body) if o.op == "constant" and o.result.shape}
        self.plan = BufferPlan(in_place=set(self.writes))
        self.candidates = set[Operation]()
        if for_numpy:
            self.candidates = {o for o in walk(function.body) if _is_update(o)} | _updates_of_carries(function)
        #: what lies in the same buffers whatever the plan is, and the operations whose results do not
        self.fixed: dict[Value, Roots] = {param: frozenset({param}) for param in function.params}
        self.moving: dict[Block, list[Operation]] = {}
        self.split(function.body)
        rounds = 0
        while found := self.violations():
            rounds += 1
            if rounds > _MOST_REPAIRS:
                self.plan.in_place -= set(found)
            else:
                write = next(w for w in self.writes if w in found)
                self.repair(write, *found[write])
        self.drop_needless_copies()
        if for_numpy:
            self.add_updates()
        self.plan.roots = self.find_roots()
        self.finish()

    # Where values may lie

    def split(self, block: Block) -> None:
        moving = self.moving[block] = []
        for operation in block.operations:
            for nested in operation.blocks:
                self.split(nested)
            if self.is_fixed(operation):
                self.fixed.update((result, self.result_roots(operation, result, {})) for result in operation.results)
            else:
                moving.append(operation)

    def is_fixed(self, operation: Operation) -> bool:
        if operation.blocks or operation.op in _STACKS or written_operand(operation) is not None:
            return False
        return operation not in self.candidates and (makes_fresh(operation) or _is_number(operation))

    def find_roots(self) -> dict[Value, Roots]:
        roots = dict(self.fixed)
        while True:
            before = dict(roots)
            self.block_roots(self.function.body, roots)
            if before == roots:
                return roots

    def age(self, roots: Roots, loop: Operation) -> Roots:
        """Return roots as the next iteration of a loop sees them: apart from the buffers that it makes itself."""
        result = set()
        for root in roots:
            base, aged_by = self.origins.get(root, (root, None))
            is_inside = loop in self.created_in.get(base, ()) and base not in self.protected
            if is_inside and (aged_by is None or loop in self.loops_around[aged_by]):
                if (base, loop) not in self.aged:
                    self.aged[base, loop] = Value(base.type, base.name)
                    self.origins[self.aged[base, loop]] = (base, loop)
                root = self.aged[base, loop]
            result.add(root)
        return frozenset(result)

    def block_roots(self, block: Block, roots: dict[Value, Roots]) -> None:
        for operation in self.moving[block]:
            if operation.op == "if":
                for nested in operation.blocks:
                    self.block_roots(nested, roots)
                for position, result in enumerate(operation.results):
                    roots[result] = _union(roots, [b.yields[position] for b in operation.blocks])
            elif operation.op in ("for", "while"):
                self.loop_roots(operation, roots)
            elif operation.op == "push":
                stack, value = operation.operands
                kept = roots[value]
                for loop in reversed(self.loops_around[operation]):
                    kept |= self.age(kept, loop)
                roots[stack] |= kept
            elif operation.op == "stack":
                roots.setdefault(operation.result, frozenset())
            elif operation.op == "pop":
                roots[operation.result] = roots[operation.operands[0]]
            else:
                for result in operation.results:
                    roots[result] = self.result_roots(operation, result, roots)

    def loop_roots(self, loop: Operation, roots: dict[Value, Roots]) -> None:
        for block in loop.blocks:
            for param in block.params:
                roots.setdefault(param, frozenset())
        for position, init in enumerate(carries(loop)):
            params = [block_params[position] for block_params in carry_params(loop)]
            copied = (loop, position) in self.plan.copied_inits
            merged = _union(roots, params) | (frozenset({params[0]}) if copied else roots[init])
            for value in [*params, loop.results[position]]:
                roots[value] = merged
        for block in loop.blocks:
            self.block_roots(block, roots)
        for position, result in enumerate(loop.results):
            roots[result] |= self.age(roots[loop.blocks[-1].yields[position]], loop)
            for params in carry_params(loop):
                roots[params[position]] = roots[result]

    def result_roots(self, operation: Operation, result: Value, roots: dict[Value, Roots]) -> Roots:
        if operation in self.plan.updates:
            return roots[operation.operands[0]]
        written = written_operand(operation)
        if written is not None:
            return roots[written] if operation in self.plan.in_place else frozenset({result})
        if _is_number(operation):
            return frozenset()
        is_fresh = makes_fresh(operation) or operation in self.plan.copied_views
        own = frozenset({result}) if is_fresh else _union(roots, operation.operands)
        if result.shape and not own:
            # a number in a new array
            own = frozenset({result})
        repeats = operation.op == "broadcast_to" or (operation.op == "iota" and len(result.shape) > 1)
        return own | {READ_ONLY} if repeats else own

    # Which writes are seen

    def violations(self) -> dict[Operation, tuple[Roots, set[Value]]]:
        """Return the writes in place that would be seen, each with the buffers and the values that it would change."""
        roots = self.roots = self.find_roots()
        found: dict[Operation, tuple[Roots, set[Value]]] = {}

        def check(operation: Operation, live: set[Value]) -> None:
            written = self.plan.written(operation)
            if written is None:
                return
            buffers = roots[written]
            seen = buffers & self.protected
            changed = {v for v in live if v is not operation.result and not buffers.isdisjoint(roots[v])}
            for value in changed:
                seen |= buffers & roots[value]
            if seen:
                found[operation] = (seen, changed)

        def visit(block: Block, live_out: Iterable[Value]) -> set[Value]:
            live = {*live_out, *block.yields}
            for operation in reversed(block.operations):
                check(operation, live)
                live.difference_update(operation.results)
                if operation.op == "if":
                    live = visit(operation.blocks[0], live) | visit(operation.blocks[1], live)
                elif operation.blocks:
                    # whatever the loop reads from outside is read again by the next iteration
                    live.update(*(free_values(nested) for nested in operation.blocks))
                    for nested in operation.blocks:
                        again = nested.params if operation.op == "while" and nested is operation.blocks[0] else []
                        visit(nested, [*live, *again])
                live.update(operation.operands)
            return live

        visit(self.function.body, ())
        return found

    def repair(self, write: Operation, seen: Roots, changed: set[Value]) -> None:
        roots = self.roots
        written = written_operand(write)
        assert written is not None
        views = {v.producer for v in changed if v.producer is not None and self.is_copyable_view(v.producer)}
        if len(views) == len(changed) and seen.isdisjoint(self.protected):
            self.plan.copied_views |= views
            return
        for loop in self.loops_around[write]:
            params = carry_params(loop)[-1]
            for position, init in enumerate(carries(loop)):
                if (loop, position) in self.plan.copied_inits or not roots[params[position]] <= roots[written]:
                    continue
                if not seen.isdisjoint(roots[init]):
                    self.plan.copied_inits.add((loop, position))
                    return
        self.plan.in_place.discard(write)

    def is_copyable_view(self, operation: Operation) -> bool:
        is_view = operation.op in ("slice", "gather") and not makes_fresh(operation)
        return self.for_numpy and is_view and operation not in self.plan.copied_views

    def drop_needless_copies(self) -> None:
        for copy in sorted(self.plan.copied_inits, key=lambda c: c[1]):
            self.plan.copied_inits.discard(copy)
            if self.violations():
                self.plan.copied_inits.add(copy)

    def add_updates(self) -> None:
        """Let operators write in place where nothing sees it."""
        self.plan.updates = set(self.candidates)
        while self.plan.updates and (found := self.violations()):
            seen = self.plan.updates & found.keys()
            self.plan.updates -= seen or set(self.plan.updates)

    def finish(self) -> None:
        roots = self.plan.roots
        for write in self.plan.in_place:
            written = written_operand(write)
            assert written is not None
            others = [v for v in write.operands if v is not written]
            if len(others) + 1 < len(write.operands) or not roots[written].isdisjoint(_union(roots, others)):
                self.plan.overlapping.add(write)
        arrays = scalars = frozenset[Value](self.protected)
        for position, result in enumerate(self.function.results):
            # scalars do not change, so two of them may be one
            if not roots[result].isdisjoint(arrays if result.shape else scalars):
                self.plan.copied_results.add(position)
                continue
            arrays |= roots[result]
            if result.shape:
                scalars |= roots[result]


def written_operand(operation: Operation) -> Value | None:
    """Return the operand whose buffer the result may take over; None for other operations and for scalars."""
    index = TABLE[operation.op].inplace
    if index is None or not operation.operands[index].shape:
        return None
    return operation.operands[index]


def _is_number(operation: Operation) -> bool:
    """Return whether the result is a number, not memory."""
    return operation.op in ("constant", "full", "dim") and not operation.result.shape


def _is_update(operation: Operation) -> bool:
    """Return whether an operation is an operator that gives its first operand a new value, under its name."""
    if operation.op not in _OPERATORS:
        return False
    old, new = operation.operands[0], operation.result
    return old.type == new.type and old.name == new.name != ""


def _updates_of_carries(function: Function) -> set[Operation]:
    """Return the operators that give what a loop carries its value for the next iteration."""
    found = set()
    for loop in walk(function.body):
        if loop.op in ("for", "while"):
            for old, new in zip(carry_params(loop)[-1], loop.blocks[-1].yields, strict=True):
                made = new.producer
                if made is not None and made.op in _OPERATORS and made.operands[0] is old and old.type == new.type:
                    found.add(made)
    return found


def makes_fresh(operation: Operation) -> bool:
    """Return whether the results of an operation without blocks are new arrays, never views of its operands."""
    if operation.op == "gather":
        # basic indexing makes a view, unless every dimension is indexed: then the result is a NumPy scalar
        x, *indices = operation.operands
        return bool(indices[0].shape) or len(indices) == len(x.shape)
    if operation.op == "reshape" and not operation.result.shape:
        # x[0]: a NumPy scalar too
        return bool(operation.operands[0].shape) and all(dim == 1 for dim in operation.operands[0].shape)
    if operation.op in _REDUCTIONS:
        return bool(operation.attrs["axes"])
    if operation.op in _FRESH:
        return True
    if operation.op in _CHOOSING and not operation.result.shape:
        return False
    return TABLE[operation.op].elementwise and operation.op not in _SHARING_ELEMENTWISE


def _union(roots: dict[Value, Roots], values: Iterable[Value]) -> Roots:
    return frozenset[Value]().union(*(roots[v] for v in values))


def _with_loops(block: Block, loops: tuple[Operation, ...]) -> Iterable[tuple[Operation, tuple[Operation, ...]]]:
    """Yield each operation with the loops around it, outermost first."""
    for operation in block.operations:
        yield operation, loops
        inner = (*loops, operation) if operation.op in ("for", "while") else loops
        for nested in operation.blocks:
            yield from _with_loops(nested, inner)
