"""The record that defines an op, the table of all records, and the current interpreter that applying an op goes to.

Previous: core.py; next: builder.py.

Rules must build IR or run eagerly, yet `ops` is below both: calling an op hands it to the current interpreter. The IR
builder stages the application, the eager runtime evaluates it, so that a rule is a plain call: `multiply(ct, cos(x))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from tracegrad.errors import Span
from tracegrad.ir.core import Block, Operation, Value
from tracegrad.ir.types import ArrayType, Dim, Shape, Type


class _Marker:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


#: derivative of an op whose result never depends smoothly on its operands: comparisons, argmax, rounding
NONDIFF: Final = _Marker("NONDIFF")
#: derivative of an op with blocks or effects, differentiated by transform/ itself
BY_TRANSFORM: Final = _Marker("BY_TRANSFORM")


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample operands of an op for the rule test.

    Attributes:
        operands: type texts separated by spaces: `f[2,3] f[3]`; `f` stands for each float dtype, `i` for i64, `b` for
            bool.
        attrs: attributes of the application.
        domain: closed interval from which float operands are drawn.
        integers: half-open interval from which integer operands are drawn.
        special_structure: name of a preparation in testing/rules.py such as "spd" (make the first operand symmetric
            positive definite), "invertible" or "separated" (singular values 1, 2, ...); "" for none.
    """

    operands: str
    attrs: Mapping[str, Any] | None = None
    domain: tuple[float, float] = (-2.0, 2.0)
    integers: tuple[int, int] = (0, 2)
    special_structure: str = ""


class CEmitter(Protocol):
    """What the C text of an op may ask of the C code generator.

    An index is one dimension expression per axis: ints and symbols, where a symbol may be any C expression.
    """

    def element(self, value: Value, index: Sequence[Any]) -> str:
        """Return a C expression for the element of `value` at `index`."""

    def element_flat(self, value: Value, position: Dim) -> str:
        """Return a C expression for the element of `value` at a row-major position."""

    def fill(self, template: str, operands: Mapping[str, str]) -> str:
        """Return a template with its slots `{x}` filled, with parentheses where they are needed."""

    def plus(self, x: str, y: str) -> str:
        """Return a sum of two C expressions; a literal zero is left out."""

    def times(self, dtype: np.dtype[Any], x: str, y: str) -> str:
        """Return a product of two C expressions of a dtype."""

    def literal(self, value: Any, dtype: np.dtype[Any]) -> str:
        """Return a C literal."""

    def table(self, value: Value, index: Sequence[Dim]) -> str:
        """Return a C expression for an element of a constant array kept in a static table."""

    def combine(self, operation: Operation, x: str, y: str) -> str:
        """Return one step of the reduction that the record's `c_reduce` describes."""

    def initial(self, operation: Operation) -> str:
        """Return where that reduction begins."""

    def pointer(self, value: Value) -> str:
        """Return a C pointer to the row-major storage of `value`."""

    def offset(self, pointer: str, elements: Dim) -> str:
        """Return a pointer so many elements further."""

    def dim(self, dim: Dim) -> str:
        """Return a C expression of type int64_t for a dimension."""

    def sizes(self, dim: Dim) -> Dim:
        """Return a dimension of the IR in terms of C names."""

    def shape(self, value: Value) -> Shape:
        """Return the shape of a value in terms of C names."""

    def affine(self, value: Value) -> Dim | None:
        """Return a rank-0 integer as arithmetic of constants, sizes and loop indices, or None."""

    def gather_index(self, operation: Operation, index: Sequence[Dim]) -> list[Dim]:
        """Return the places along the gathered axes, checked and not negative, for an index into the index arrays."""

    def checked_index(self, value: Value, index: Sequence[Dim], size: Dim, axis: int, span: Span | None) -> Dim:
        """Write the check of an element of an index array; return the place, not negative."""

    def ctype(self, dtype: np.dtype[Any]) -> str:
        """Return the C type of an array element: `double`."""

    def local_ctype(self, dtype: np.dtype[Any]) -> str:
        """Return the C type of a variable: `double`, `bool`."""

    def fresh(self, hint: str) -> str:
        """Return a C identifier not used before."""

    def helper(self, name: str, dtype: np.dtype[Any]) -> str:
        """Return the name of the version for a dtype of a function of the prelude."""

    def line(self, text: str) -> None:
        """Write one line at the current indentation."""

    def assign(self, target: str, text: str, *, add: bool = False) -> None:
        """Write an assignment, or an addition to the target."""

    def braces(self, header: str) -> AbstractContextManager[None]:
        """Write `header {`, then what the body of the with statement writes, then `}`."""

    def loops(self, shape: Sequence[Dim], *, simd: str | None = None) -> AbstractContextManager[list[Dim]]:
        """Write nested for loops over a shape; yields the indices. With `simd` (clauses) the innermost one is
        vectorised."""

    def store(self, value: Value, index: Sequence[Dim]) -> str:
        """Return what is assigned to for an element of a result."""

    def begin_from(self, result: Value, operand: Value) -> None:
        """Write a copy of the operand into the result, unless they share storage."""

    def scratch(self, dtype: np.dtype[Any], size: Dim) -> str:
        """Return a pointer to so many elements of memory for this operation."""

    def fault(self, condition: str, kind: str, message: str, span: Span | None) -> None:
        """Write a check: when the C condition holds, leave the kernel with error `kind` ("IndexError", ...) and
        message."""

    def call(self, operation: Operation, arguments: Sequence[str]) -> None:
        """Write a call of another function, given pointers to its operands."""

    def new_stack(self, stack: Value) -> None:
        """Write the beginning of a stack."""

    def push(self, stack: Value, value: Value) -> None:
        """Write a push."""

    def pop(self, stack: Value, result: Value) -> None:
        """Write a pop into a result."""


Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class OpDef:
    """Everything about one op.

    Exactly one of `partials`, `transpose`, (`jvp` and `vjp`), `marker` says the derivative.

    Attributes:
        name: NumPy's ufunc name, else lax's.
        operands: operand names; the last may start with `*` (any number).
        doc: one line, or more, on what it computes: result shapes in IR notation.
        infer: `infer(*operand_types, **attrs) -> tuple of result types`; raises ShapeError or ArgumentTypeError on
            misuse.
        attributes: names of the attributes, in the order of IR text.
        elementwise: all operands and the result have one shape, and results at an index depend on operands at that
            index.
        partials: elementwise derivative. Per operand `rule(out, *operands, **attrs) -> partial`, or None where the
            result does not depend smoothly on that operand.
        singular: per operand: its partial may be non-finite at finite input (then a zero cotangent is guarded by a
            select).
        linear: operands in which the op is jointly linear (used with `transpose`; the JVP applies the op itself to
            tangents).
        transpose: `rule(ct, *operands, **attrs) -> tuple, one cotangent or None per operand`.
        jvp: `rule(tangents, out, *operands, **attrs) -> tangent of out`; a tangent may be None (zero).
        vjp: `rule(ct, out, *operands, **attrs) -> tuple, one cotangent or None per operand`.
            For ops with several results `ct`, `out` and tangents of out are tuples.
        marker: NONDIFF or BY_TRANSFORM.
        batch: `rule(op, size, batched, *operands, **attrs) -> result`, where the operands for which `batched` is true,
            and all results, have a leading axis of `size` elements. Without a rule an elementwise op is applied to
            operands that all have the axis, any other op once per element.
        numpy: Python expression, a template over operand and attribute names (`np.tanh({x})`), or
            `rule(operation, *operand_texts) -> text`. Empty for ops that code generators emit themselves (control
            flow).
        numpy_helper: name of the function in ops/helpers.py that the text calls, if any ("" when it needs NumPy alone).
        c: C expression of one element: a template over operand names with `{f}` for the libm suffix of the dtype ("" or
            "f"), or `rule(emitter, operation, index) -> text` which may read operands at other indices (views,
            gathers).
        c_reduce: for reductions and running operations: where to begin (a number, "lowest" or "highest") and the
            elementwise op that combines.
        c_statement: `rule(emitter, operation) -> None` writes statements that fill the results' storage.
        python: Python callables (ufuncs, functions of math) that capture maps to this op when applied to traced values.
        samples: sample operands for the rule test.
        special: exact cases: operands then result, for rank 0: ((0.0, 1.0),).
        effect: must not be removed, duplicated or reordered.
        cheap: recomputing it in the reverse sweep costs less than storing its result.
        inplace: index of the operand whose buffer the result may take over, or None.
    """

    name: str
    operands: tuple[str, ...]
    doc: str
    infer: Callable[..., tuple[Type, ...]]
    attributes: tuple[str, ...] = ()
    elementwise: bool = False
    partials: tuple[Rule | None, ...] | None = None
    singular: tuple[bool, ...] = ()
    linear: tuple[int, ...] = ()
    transpose: Rule | None = None
    jvp: Rule | None = None
    vjp: Rule | None = None
    marker: _Marker | None = None
    batch: Rule | None = None
    numpy: str | Callable[..., str] = ""
    numpy_helper: str = ""
    c: str | Callable[[CEmitter, Operation, Sequence[Any]], str] = ""
    c_reduce: tuple[str, str] | None = None
    c_statement: Callable[[CEmitter, Operation], None] | None = None
    python: tuple[Any, ...] = ()
    samples: tuple[Sample, ...] = ()
    special: tuple[tuple[float, ...], ...] = ()
    effect: bool = False
    cheap: bool = False
    inplace: int | None = None

    def __post_init__(self) -> None:
        said = [self.partials is not None, self.transpose is not None, self.vjp is not None, self.marker is not None]
        assert sum(said) == 1, f"op {self.name} must say its derivative exactly once"
        assert (self.jvp is None) == (self.vjp is None), f"op {self.name} needs both jvp and vjp"

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        """Apply the op in the current interpreter; returns its result, or a tuple for several."""
        return current_interpreter().apply(self, operands, attrs)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


#: ops whose type rule looks at their blocks: `infer(*types, blocks=..., **attrs)`
REGION_OPS: Final = frozenset({"if", "for", "while"})

#: all ops by name, filled when the package `tracegrad.ops` is imported
TABLE: dict[str, OpDef] = {}


def register(op: OpDef) -> OpDef:
    """Add an op to the table."""
    assert op.name not in TABLE, f"op {op.name} is defined twice"
    TABLE[op.name] = op
    return op


class Interpreter(Protocol):
    """What applying an op does: stage it, or evaluate it."""

    def apply(self, op: OpDef, operands: Sequence[Any], attrs: Mapping[str, Any], blocks: Sequence[Block] = ()) -> Any:
        """Apply an op; return its result, or a tuple of results when it has several (or none)."""


_current: ContextVar[Interpreter] = ContextVar("tracegrad_interpreter")


def current_interpreter() -> Interpreter:
    """Return the interpreter in force; LookupError outside `interpreter(...)`."""
    return _current.get()


@contextmanager
def interpreter(value: Interpreter) -> Iterator[None]:
    """Make `value` the current interpreter inside a with statement."""
    token = _current.set(value)
    try:
        yield
    finally:
        _current.reset(token)


def type_of(value: Any) -> ArrayType:
    """Return the type of an operand: of an IR value, or of a NumPy array in eager evaluation."""
    if isinstance(value, Value):
        return value.array_type
    array = np.asarray(value)
    return ArrayType(array.dtype, array.shape)
