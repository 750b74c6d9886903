"""Decides which operations get no line of their own in NumPy source and are written where they are used.

Reads a function in IR and its BufferPlan, writes a Folding. Previous: windows.py; next: origins.py.

Written where they are used, however often: numbers, sizes, filled arrays and broadcasts that NumPy does by itself.
Written inside their only user: pure operations without a name in the user's code, when the line stays short and no
write in between changes what they read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracegrad.codegen.windows import Window, find_windows
from tracegrad.ir.buffers import BufferPlan
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.liveness import has_effect, uses
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.triangles import triangle_of
from tracegrad.ir.types import F64, ArrayType, Shape, is_float, is_inexact, is_integer
from tracegrad.ops.text import dtype_text, numpy_text, subscript_text

#: longest expression, in characters, that is written inside another one, longest one on a line, and longest condition
#: of parts that are evaluated in order
LONGEST_OPERAND, LONGEST_LINE, LONGEST_TEST = 64, 76, 100
#: deepest nesting of operations in one expression
DEEPEST = 6

#: most statements between an operation and the expression that it moves into, and between the terms of a sum that is
#: made term by term
FARTHEST, FARTHEST_TERM = 3, 8

#: longest constant array, in characters, that is written out; longer ones have a name of the module
_LONGEST_CONSTANT = 32

#: operators of the logical ops: for arrays, and the words for scalars, which may be Python's True and False
LOGIC = {"logical_and": ("&", "and"), "logical_or": ("|", "or"), "logical_not": ("~", "not ")}

#: operations that are statements whatever uses them
_STATEMENTS = frozenset({"if", "for", "while", "call", "stack", "push", "pop", "check", "print", "undefined"})
#: what masks of triangles are made of
_OF_MASKS = frozenset("iota subtract broadcast_to less less_equal greater greater_equal".split())
_ATOMS = frozenset({"constant", "full", "dim"})


@dataclass(slots=True)
class Folding:
    """Which operations are written inside expressions.

    Attributes:
        inline: values without a variable; their operation is written where they are used.
        texts: text of each operation that is an expression, over the placeholders of its operands.
        windows: gathers and scatters whose index array is written as a slice.
        renewed: updates (BufferPlan.updates) that make a new array where they have a line of their own: what reads the
            old one is written after them.
    """

    inline: set[Value] = field(default_factory=set)
    texts: dict[Operation, str] = field(default_factory=dict)
    windows: dict[Operation, Window] = field(default_factory=dict)
    renewed: set[Operation] = field(default_factory=set)

    def reads(self, values: Iterable[Value]) -> set[Value]:
        """Return the variables that the expressions of some values read."""
        found: set[Value] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value not in self.inline:
                found.add(value)
            elif value.producer is not None:
                waiting.extend(value.producer.operands)
        return found


def placeholder(position: int) -> str:
    """Return the identifier that stands for an operand in the text of an operation."""
    return f"operand_{position}_"


def plan_folding(function: Function, buffers: BufferPlan) -> Folding:
    """Return which operations of a function are written inside expressions."""
    return _Planner(function, buffers).folding


def is_statement(operation: Operation) -> bool:
    """Return whether an operation is a statement, never an expression."""
    return operation.op in _STATEMENTS or TABLE[operation.op].inplace is not None or len(operation.results) != 1


def expression_text(operation: Operation) -> str:
    """Return the text of an operation over the placeholders of its operands."""
    operands = [placeholder(i) for i in range(len(operation.operands))]
    if is_row_of_scalars(operation):
        dtype = "" if operation.result.dtype == F64 else f", {dtype_text(operation.result.dtype)}"
        return f"np.array([{', '.join(operands)}]{dtype})"
    if is_stack(operation):
        return f"np.stack([{', '.join(operands)}], axis={operation.attrs['axis']})"
    triangle = triangle_of(operation)
    if triangle is not None:
        band, kept = triangle
        diagonal = f", {band.diagonal}" if band.diagonal else ""
        return f"np.{'triu' if band.is_upper else 'tril'}({operands[kept]}{diagonal})"
    axes = inserted_axes(operation)
    if axes:
        subscript = ", ".join("None" if k in axes else ":" for k in range(len(operation.result.shape)))
        return f"{operands[0]}[{subscript}]"
    dropped = dropped_axes(operation)
    if dropped:
        parts = ["0" if k in dropped else ":" for k in range(len(operation.operands[0].shape))]
        return f"{operands[0]}{subscript_text(parts)}"
    sign = LOGIC.get(operation.op)
    if sign is not None:
        word = sign[0] if operation.result.shape else sign[1]
        return f"{word}{operands[0]}" if len(operands) == 1 else f"{operands[0]} {word} {operands[1]}"
    return numpy_text(operation, operands)


def inserted_axes(operation: Operation) -> set[int]:
    """Return the axes of size 1 that a reshape inserts, if that is all it does to an array that is no scalar."""
    if operation.op != "reshape" or not operation.operands[0].shape:
        return set()
    return _extra_axes(operation.operands[0].shape, operation.result.shape)


def is_row_of_scalars(operation: Operation) -> bool:
    """Return whether an operation puts scalars into an array of rank 1."""
    if operation.op != "concatenate" or len(operation.result.shape) != 1:
        return False
    made = [v.producer for v in operation.operands if v.shape == (1,)]
    scalars = [o for o in made if o is not None and o.op == "reshape" and not o.operands[0].shape and not o.result.name]
    return bool(scalars) and len(made) == len(operation.operands)


def is_stack(operation: Operation) -> bool:
    """Return whether an operation joins arrays along an axis that they get for it."""
    if operation.op != "concatenate" or len(operation.result.shape) < 2:
        return False
    made = [v.producer for v in operation.operands]
    axes = {operation.attrs["axis"]}
    return all(o is not None and len(o.results) == 1 and not o.result.name and inserted_axes(o) == axes for o in made)


def is_identity_matrix(operation: Operation) -> bool:
    """Return whether an operation makes floats of `i == j`, for the indices of a square matrix."""
    same = operation.operands[0].producer if operation.op == "cast" else None
    shape = (
        operation.results[0].type.shape if same is not None and isinstance(operation.results[0].type, ArrayType) else ()
    )
    if same is None or same.op != "equal" or len(shape) != 2 or shape[0] != shape[1]:
        return False
    made = [v.producer for v in same.operands]
    axes = [o.attrs["axis"] for o in made if o is not None and o.op == "iota"]
    return sorted(axes) == [0, 1] and is_inexact(operation.result.dtype)


def dropped_axes(operation: Operation) -> set[int]:
    """Return the axes of size 1 that a reshape removes, if that is all it does."""
    if operation.op != "reshape":
        return set()
    return _extra_axes(operation.result.shape, operation.operands[0].shape)


def _extra_axes(small: Shape, large: Shape) -> set[int]:
    """Return the axes of size 1 that `large` has besides those of `small`; the empty set when it is not so."""
    rest, axes = list(small), set()
    for axis, dim in enumerate(large):
        if rest and rest[0] == dim:
            rest.pop(0)
        elif dim == 1:
            axes.add(axis)
        else:
            return set()
    return set() if rest else axes


def is_atom(operation: Operation) -> bool:
    """Return whether the text of an operation is a number or a name."""
    return operation.op in _ATOMS or is_size(operation)


def is_size(operation: Operation) -> bool:
    """Return whether an operation makes a float of a size, which NumPy does by itself with a Python int."""
    producer = operation.operands[0].producer if operation.op == "cast" else None
    return producer is not None and producer.op == "dim" and is_float(operation.result.dtype)


class _Planner:
    def __init__(self, function: Function, buffers: BufferPlan) -> None:
        self.buffers = buffers
        self.folding = Folding()
        self.uses = uses(function.body)
        self.users: dict[Value, list[Operation]] = {}
        for operation in walk(function.body):
            for operand in operation.operands:
                self.users.setdefault(operand, []).append(operation)
            if not is_statement(operation):
                self.folding.texts[operation] = expression_text(operation)
        self.folding.windows = find_windows(function)
        self.elements = {o for o in self.folding.texts if self.is_element(o)}
        self.folding.texts.update(dict.fromkeys(self.elements, placeholder(0)))
        self.size: dict[Value, int] = {}
        self.depth: dict[Value, int] = {}
        # results of a function share a line
        self.block(function.body, LONGEST_LINE)

    def block(self, block: Block, longest: int | None = None) -> None:
        """Plan a block; longest: how long its results may be as expressions, None where they are not written so."""
        for operation in block.operations:
            for number, nested in enumerate(operation.blocks):
                self.block(nested, LONGEST_TEST if operation.op == "while" and number == 0 else None)
        self.mark_candidates(block, folds_yields=longest is not None)
        for operation in block.operations:
            is_part = longest == LONGEST_TEST and operation.op in LOGIC
            self.limit(operation, LONGEST_TEST if is_part else LONGEST_OPERAND)
        if longest is not None:
            self.shorten(block.yields, longest)

    # What could be folded

    def mark_candidates(self, block: Block, *, folds_yields: bool) -> None:
        """Add to `inline` whatever may be written where it is used, lengths aside."""
        position = {operation: i for i, operation in enumerate(block.operations)}
        writes = [(i, o, roots) for i, o in enumerate(block.operations) if (roots := self.written_roots(o))]
        effects = [i for i, o in enumerate(block.operations) if has_effect(o)]
        end = len(block.operations)
        # where the text of an operation ends up: the position of a statement, or None for several places
        anchor: dict[Operation, int | None] = dict(position)
        lines: list[int] = []
        terms: set[Operation] = set()
        for operation in reversed(block.operations):
            here = position[operation]
            lines.append(here)
            if is_statement(operation):
                continue
            value = operation.result
            users = self.users.get(value, [])
            there: int | None = None
            if self.uses.get(value) == 1:
                if not users:
                    is_last = len(lines) == 1 and folds_yields and value in block.yields
                    there = end if is_last else None
                elif users[0] in anchor and not self.repeats(users[0], value):
                    there = anchor[users[0]]
            if self.is_everywhere(operation):
                self.folding.inline.add(value)
                anchor[operation] = there
                lines.pop()
                continue
            is_term = self.is_term(operation, users)
            is_in_term = is_term or (len(users) == 1 and users[0] in terms)
            farthest = FARTHEST_TERM if is_in_term else FARTHEST
            if (value.name and not is_term) or there is None:
                continue
            if sum(i < there for i in lines[-farthest - 2 : -1]) > farthest:
                continue
            reads = frozenset[Value]().union(*(self.buffers.roots[v] for v in operation.operands))
            passed = {o for i, o, roots in writes if here < i < there and not roots.isdisjoint(reads)}
            if not all(o in self.buffers.updates and o.result in self.folding.inline for o in passed):
                continue
            if not TABLE[operation.op].elementwise and any(here < i < there for i in effects):
                continue
            anchor[operation] = there
            lines.pop()
            self.folding.inline.add(value)
            self.folding.renewed |= passed
            if is_in_term:
                terms.add(operation)

    def is_term(self, operation: Operation, users: list[Operation]) -> bool:
        """Return whether an operation makes the first terms of a sum of the same name, to which its line adds more."""
        if len(users) != 1 or users[0].op not in ("add", "subtract") or users[0].operands[0] is not operation.result:
            return False
        here, there = operation.span, users[0].span
        if operation.result.name != users[0].result.name or here is None or there is None:
            return False
        return (here.file, here.line) == (there.file, there.line)

    def is_everywhere(self, operation: Operation) -> bool:
        """Return whether an operation is short enough to be written again at each use."""
        value = operation.result
        users = self.users.get(value, [])
        in_expressions = len(users) == self.uses.get(value, 0)
        if self.is_mask_of_triangles(operation):
            return True
        match operation.op:
            case "dim":
                return True
            case "constant" | "full" if not value.shape:
                return True
            case "constant":
                return True
            case "full":
                return not value.name
            case "cast":
                return is_size(operation)
            case "add" | "subtract":
                return self.is_place(operation) or self.is_window(operation)
            case "iota" if len(value.shape) == 1:
                return not value.name and in_expressions and all(map(self.is_window, users))
            case "equal" if value.shape:
                return not value.name and in_expressions and all(map(is_identity_matrix, users))
            case "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal":
                return not value.name and _is_index(operation.operands[0]) and _is_number(operation.operands[1])
            case "transpose":
                return not value.name and len(value.shape) == 2
            case "reshape":
                return not value.name and (bool(inserted_axes(operation)) or operation in self.elements)
            case "broadcast_to":
                return not is_users_name(value.name) and in_expressions and all(map(spreads_operands, users))
            case "iota" if len(value.shape) > 1:
                return not value.name and in_expressions and all(map(spreads_operands, users))
        return False

    def is_mask_of_triangles(self, operation: Operation) -> bool:
        """Return whether an operation only helps to choose triangles of matrices, whose text does not show it."""
        if operation.op not in _OF_MASKS:
            return False
        value = operation.result
        if len(value.shape) < 2 or value.dtype.kind not in "bi" or value.name:
            return False
        users = self.users.get(value, [])
        return bool(users) and len(users) == self.uses.get(value) and all(map(self.hides_mask, users))

    def hides_mask(self, user: Operation) -> bool:
        return triangle_of(user) is not None or self.is_mask_of_triangles(user)

    def is_place(self, operation: Operation) -> bool:
        """Return whether an operation makes an index out of a loop index and a number, which only indexing reads."""
        value, (x, y) = operation.result, operation.operands
        if value.name or value.shape or not _is_index(x) or not _is_number(y):
            return False
        users = self.users.get(value, [])
        return len(users) == self.uses.get(value) and all(
            self.starts_windows(user)
            or (
                user.op in ("gather", "scatter_set", "scatter_add")
                and value in user.operands[1 : 1 + len(user.attrs["axes"])]
                and user.operands.count(value) == 1
            )
            for user in users
        )

    def starts_windows(self, broadcast: Operation) -> bool:
        """Return whether a broadcast of a number is part of index arrays only that are written as slices."""
        users = self.users.get(broadcast.results[0], []) if broadcast.op == "broadcast_to" else []
        return bool(users) and len(users) == self.uses.get(broadcast.result) and all(map(self.is_window, users))

    def is_window(self, operation: Operation) -> bool:
        """Return whether an operation makes an index array that is written as slices only."""
        if not operation.results:
            return False
        users = self.users.get(operation.results[0], [])
        return (
            bool(users)
            and len(users) == self.uses.get(operation.results[0])
            and all(user in self.folding.windows and user.operands.index(operation.results[0]) == 1 for user in users)
        )

    def is_element(self, reshape: Operation) -> bool:
        """Return whether a reshape makes an array of a scalar only for ops that can be written with the scalar."""
        value = reshape.result
        users = self.users.get(value, [])
        if reshape.op != "reshape" or reshape.operands[0].shape or not value.shape or value.name:
            return False
        if not users or len(users) != self.uses.get(value):
            return False
        return all(
            is_row_of_scalars(user)
            or (user.op in ("set_slice", "add_slice") and user.operands[1] is value is not user.operands[0])
            for user in users
        )

    def written_roots(self, operation: Operation) -> frozenset[Value]:
        """Return the buffers that an operation, or one inside its blocks, writes to in place."""
        roots: frozenset[Value] = frozenset()
        for inner in walk_operation(operation):
            written = self.buffers.written(inner)
            if written is not None:
                roots |= self.buffers.roots[written]
        return roots

    def repeats(self, user: Operation, value: Value) -> bool:
        """Return whether the text of an operation contains the operand more than once."""
        text = self.folding.texts.get(user)
        return text is not None and text.count(placeholder(user.operands.index(value))) != 1

    # What stays short

    def limit(self, operation: Operation, longest: int) -> None:
        """Give operands of an operation lines of their own until its own expression is short enough.

        Args:
            longest: how long it may be inside another one.
        """
        if is_statement(operation) or operation.result not in self.folding.inline:
            longest = LONGEST_LINE
        operands = self.shown(operation)
        self.shorten(operands, longest - self.own_size(operation))
        if not is_statement(operation):
            value = operation.result
            self.size[value] = self.own_size(operation) + sum(map(self.size_of, operands))
            self.depth[value] = 1 + max((self.depth_of(v) for v in operands), default=0)
            if operation.op == "broadcast_to" and value in self.folding.inline:
                self.set_broadcast_size(operation)
            elif self.is_everywhere(operation):
                # as light as what it is a view of
                self.depth[value] = max((self.depth_of(v) for v in operands), default=0)

    def shown(self, operation: Operation) -> list[Value]:
        """Return the operands that the text of an operation contains."""
        text = self.folding.texts.get(operation)
        if text is None:
            return operation.operands
        return [v for i, v in enumerate(operation.operands) if placeholder(i) in text]

    def shorten(self, operands: list[Value], longest: int) -> None:
        while True:
            foldable = [v for v in operands if v in self.folding.inline and self.depth_of(v)]
            if not foldable:
                return
            too_deep = max(map(self.depth_of, foldable)) >= DEEPEST
            if sum(map(self.size_of, operands)) <= longest and not too_deep:
                return
            victim = max(foldable, key=self.depth_of if too_deep else self.size_of)
            self.unfold(victim)

    def unfold(self, value: Value) -> None:
        producer = value.producer
        assert producer is not None
        if producer.op == "broadcast_to":
            # the broadcast itself is free; what it broadcasts gets the line
            self.unfold(producer.operands[0])
            self.set_broadcast_size(producer)
        elif self.is_everywhere(producer) and self.depth[value]:
            self.unfold(producer.operands[0])
            self.size[value] = self.own_size(producer) + self.size_of(producer.operands[0])
            self.depth[value] = self.depth_of(producer.operands[0])
        else:
            self.folding.inline.discard(value)

    def set_broadcast_size(self, operation: Operation) -> None:
        operand = operation.operands[0]
        self.size[operation.result], self.depth[operation.result] = self.size_of(operand), self.depth_of(operand)

    def own_size(self, operation: Operation) -> int:
        text = self.folding.texts.get(operation, "")
        return len(text) - sum(text.count(p) * len(p) for p in map(placeholder, range(len(operation.operands))))

    def size_of(self, value: Value) -> int:
        if value in self.folding.inline:
            producer = value.producer
            assert producer is not None
            if producer.op == "constant" and value.shape:
                return min(len(self.folding.texts[producer]), _LONGEST_CONSTANT)
            return 4 if is_atom(producer) else self.size[value] + self.parentheses(producer)
        return len(value.name) or 8

    def parentheses(self, operation: Operation) -> int:
        """Return how many characters an expression may need around it inside another one."""
        if operation in self.elements or operation.op in ("multiply", "divide"):
            return 0
        return 0 if self.folding.texts[operation].endswith((")", "]")) else 2

    def depth_of(self, value: Value) -> int:
        if value not in self.folding.inline:
            return 0
        assert value.producer is not None
        return 0 if is_atom(value.producer) else self.depth[value]


def _is_index(value: Value) -> bool:
    """Return whether a value is an integer that a loop counts or carries, with a name."""
    is_integer_scalar = isinstance(value.type, ArrayType) and not value.shape and is_integer(value.dtype)
    return is_integer_scalar and value.producer is None and bool(value.name)


def _is_number(value: Value) -> bool:
    return value.producer is not None and value.producer.op == "constant"


def is_users_name(name: str) -> bool:
    """Return whether a name stands for a value of the user's code, not for a derivative."""
    return bool(name) and not name.startswith(("ct_", "t_"))


def spreads_operands(operation: Operation) -> bool:
    """Return whether NumPy broadcasts the operands of an operation by itself."""
    return TABLE[operation.op].elementwise


def walk_operation(operation: Operation) -> Iterable[Operation]:
    """Yield an operation and all operations inside its blocks."""
    yield operation
    for nested in operation.blocks:
        yield from walk(nested)
