"""Data of a program: values, operations, blocks and functions. Data only; building is in builder.py.

Previous: types.py; next: opdef.py.

A region of an operation is exactly one Block, so there is no separate Region class. A nested block may use any value
that is visible where its operation stands (loop invariants are simply values of an outer block).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracegrad.errors import Span
from tracegrad.ir.types import ArrayType, Type


class Value:
    """One SSA value: a block parameter (`producer is None`) or a result of an operation.

    `name` is a hint taken from the user's code; the printer makes names unique. `noun` says what a value without a name
    is, where its operation does not. `origin` is the number of the primal value that this one is, is again in the
    sweep of cotangents, or is the cotangent of; 0 where it is not known. Both change no code but names of variables.
    """

    __slots__ = ("name", "noun", "origin", "producer", "type")

    def __init__(self, type: Type, name: str = "", producer: Operation | None = None) -> None:
        self.type, self.name, self.producer = type, name, producer
        self.noun, self.origin = "", 0

    def take_name(self, other: Value) -> None:
        """Take the name, the noun and the origin of a value that this one replaces, where it has none."""
        self.name, self.noun = self.name or other.name, self.noun or other.noun
        self.origin = self.origin or other.origin

    @property
    def array_type(self) -> ArrayType:
        """The type, for a value that is known to be an array."""
        assert isinstance(self.type, ArrayType), f"{self!r} is not an array"
        return self.type

    @property
    def shape(self) -> tuple[Any, ...]:
        type = self.type  # not by array_type: these are read very often
        assert isinstance(type, ArrayType), f"{self!r} is not an array"
        return type.shape

    @property
    def dtype(self) -> Any:
        type = self.type
        assert isinstance(type, ArrayType), f"{self!r} is not an array"
        return type.dtype

    def twin(self, producer: Operation | None = None) -> Value:
        """Return a new value of the same type, with the same name, noun and origin."""
        made = Value(self.type, "", producer)
        made.take_name(self)
        return made

    def __repr__(self) -> str:
        return f"%{self.name or '_'}: {self.type}"


class Operation:
    """An application of the op called `op` (a key of the op table) to operands, with static attributes and blocks."""

    __slots__ = ("attrs", "blocks", "op", "operands", "results", "span")

    def __init__(
        self,
        op: str,
        operands: list[Value],
        attrs: dict[str, Any],
        blocks: list[Block],
        result_types: list[Type],
        span: Span | None = None,
    ) -> None:
        self.op, self.operands, self.attrs, self.blocks, self.span = op, operands, attrs, blocks, span
        self.results = [Value(t, "", self) for t in result_types]

    @property
    def result(self) -> Value:
        """The only result."""
        assert len(self.results) == 1, f"{self.op} has {len(self.results)} results"
        return self.results[0]

    def __repr__(self) -> str:
        return f"<{self.op} {self.operands} -> {self.results}>"


class Block:
    """Parameters, operations in order, and the values it yields (to its operation, or to the caller)."""

    __slots__ = ("operations", "params", "yields")

    def __init__(self, params: list[Value] | None = None) -> None:
        self.params: list[Value] = params or []
        self.operations: list[Operation] = []
        self.yields: list[Value] = []


@dataclass(slots=True)
class Interface:
    """How the flat parameters and results of a Function look to a Python caller.

    Attributes:
        arguments: the names of the Python parameters, in order; array inputs captured from globals and closures follow
            the user's own parameters, under their own names.
        paths: for each flat parameter the Python expression that reads it from the arguments: `params["w"]`.
        result: template of the returned structure; `{0}` stands for flat result 0: `({0}, {{"w": {1}}})`.
    """

    arguments: tuple[str, ...]
    paths: tuple[str, ...]
    result: str


@dataclass(slots=True, eq=False)
class Function:
    """A captured or transformed function; `body.params` are its parameters, `body.yields` its results.

    `derived` keeps what transform/ has made of a function that calls itself: it may be needed in its own making.
    """

    name: str
    body: Block = field(default_factory=Block)
    interface: Interface | None = None
    derived: dict[Any, Function] = field(default_factory=dict, repr=False)

    @property
    def params(self) -> list[Value]:
        return self.body.params

    @property
    def results(self) -> list[Value]:
        return self.body.yields


def walk(block: Block) -> Iterator[Operation]:
    """Yield all operations of a block, outer before inner, in program order."""
    for operation in block.operations:
        yield operation
        for nested in operation.blocks:
            yield from walk(nested)


def callees(operation: Operation) -> list[Function]:
    """Return the functions that an operation calls, those of its rules included."""
    return [value for value in operation.attrs.values() if isinstance(value, Function)]


def free_values(block: Block) -> list[Value]:
    """Return the values used in a block (nested blocks included) that it does not define, in order of first use."""
    defined: set[Value] = set()
    free: dict[Value, None] = {}

    def visit(b: Block) -> None:
        defined.update(b.params)
        for operation in b.operations:
            for value in operation.operands:
                if value not in defined:
                    free[value] = None
            for nested in operation.blocks:
                visit(nested)
            defined.update(operation.results)
        for value in b.yields:
            if value not in defined:
                free[value] = None

    visit(block)
    return list(free)


def escaped_values(block: Block) -> list[Value]:
    """Return the values used where they are not visible: outside the block that defines them, or before."""
    escaped: dict[Value, None] = {}
    visible: set[Value] = set()

    def visit(b: Block) -> None:
        defined = list(b.params)
        visible.update(defined)
        for operation in b.operations:
            escaped.update(dict.fromkeys(v for v in operation.operands if v not in visible))
            for nested in operation.blocks:
                visit(nested)
            visible.update(operation.results)
            defined.extend(operation.results)
        escaped.update(dict.fromkeys(v for v in b.yields if v not in visible))
        visible.difference_update(defined)

    visit(block)
    return list(escaped)


def substitute(block: Block, mapping: dict[Value, Value]) -> None:
    """Replace uses of values in a block, nested blocks included, in place."""
    for operation in walk(block):
        operation.operands = [mapping.get(v, v) for v in operation.operands]
        for nested in operation.blocks:
            nested.yields = [mapping.get(v, v) for v in nested.yields]
    block.yields = [mapping.get(v, v) for v in block.yields]


def clone_operation(operation: Operation, mapping: dict[Value, Value]) -> Operation:
    """Copy an operation with its blocks; operands go through `mapping`, to which the new results are added."""
    copy = Operation(
        operation.op,
        [mapping.get(v, v) for v in operation.operands],
        dict(operation.attrs),
        [clone_block(b, mapping) for b in operation.blocks],
        [r.type for r in operation.results],
        operation.span,
    )
    for old, new in zip(operation.results, copy.results, strict=True):
        new.take_name(old)
        mapping[old] = new
    return copy


def clone_block(block: Block, mapping: dict[Value, Value]) -> Block:
    """Copy a block; free values go through `mapping` (kept when absent), to which all new values are added."""
    copy = Block([p.twin() for p in block.params])
    mapping.update(zip(block.params, copy.params, strict=True))
    copy.operations = [clone_operation(o, mapping) for o in block.operations]
    copy.yields = [mapping.get(v, v) for v in block.yields]
    return copy


def clone_function(function: Function) -> Function:
    """Copy a function deeply."""
    return Function(function.name, clone_block(function.body, {}), function.interface)
