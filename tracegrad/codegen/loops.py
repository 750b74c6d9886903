"""Decides how a function becomes C loops: what is inlined, what is fused into one loop nest, what is stored, and where.

Reads IR and the C fields of op records, writes a `Plan`: per block a list of steps, and per stored value a storage class.
Previous: c_expression.py; next: c_source.py.

- A *view* (slice, transpose, broadcast, gather, constant, ...) is never stored: its elements are read through it.
- A value of rank 0 or with few elements is computed by one statement per element, or inlined where it is used.
- Larger elementwise values and reductions of one iteration space form a *nest*: one loop nest for all of them. A value that
  is used only there is a local variable of the loop body.
- All else is a *statement*: the `c_statement` of the record, or control flow.

Stored values that may share storage (a carried value and what replaces it, an array and the array with one element set) are
put into one storage class. Two values exclude each other when one is live where the other is defined.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracegrad.codegen.c_expression import CTYPES, fill, index_text, literal, normalize_template, slot_counts, sum_of
from tracegrad.errors import CompileError, Span
from tracegrad.ir.core import (
    Block,
    Function,
    Operation,
    Value,
    clone_block,
    clone_function,
    clone_operation,
    substitute,
    walk,
)
from tracegrad.ir.liveness import remove_dead, uses
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import F32, ArrayType, Dim, Shape, StackType, SymbolicDim, is_integer, is_static, symbol

#: arrays of at most so many elements are computed element by element, with constant indices
SMALL = 16
#: elementwise operations and copies of at most so many elements are written out
FEW = 6
#: arrays of at most so many elements live on the stack
LOCAL = 64
#: longest contraction that is written out
UNROLLED_CONTRACTION = 8
#: rows of at most so many elements are written out
UNROLLED_ROW = 8
#: most operations that are written as one expression
EXPRESSION_WEIGHT = 8

#: elementwise ops that are computed again rather than stored
CHEAP = frozenset(
    """add subtract multiply negative square select cast equal not_equal less less_equal greater greater_equal logical_and
    logical_or logical_not absolute""".split()
)
VIEWS = frozenset(
    "reshape transpose broadcast_to slice flip pad iota full constant dim undefined gather".split()
)
LOOPS = frozenset({"for", "while"})
ONCE = frozenset({"push", "scatter_set", "scatter_add", "set_slice", "add_slice", "check"})


def is_small(value: Value) -> bool:
    """Return whether an array is computed element by element: static, with few elements."""
    shape = value.shape
    return not shape or (is_static(shape) and math.prod(shape) <= SMALL)


def is_few(value: Value) -> bool:
    """Return whether elementwise operations on an array are written out rather than written as a loop."""
    return not value.shape or (is_static(value.shape) and math.prod(value.shape) <= min(FEW, SMALL))


def squeeze(shape: Sequence[Dim]) -> Shape:
    """Return a shape without dimensions of size 1: two arrays with equal ones are walked by the same loops."""
    return tuple(d for d in shape if not (isinstance(d, int) and d == 1))


def spread(index: Sequence[Dim], shape: Shape) -> list[Dim]:
    """Return the index into an array of a shape, given one index per dimension that is not 1."""
    rest = iter(index)
    return [0 if isinstance(d, int) and d == 1 else next(rest) for d in shape]


def points(shape: Shape) -> Iterator[tuple[int, ...]]:
    """Yield all indices of a small static shape in row-major order."""
    return itertools.product(*(range(int(d)) for d in shape))  # type: ignore[arg-type]


def flatten(index: Sequence[Dim], shape: Shape) -> Dim:
    """Return the row-major position of an index."""
    position: Dim = 0
    for i, d in zip(index, shape, strict=True):
        position = position*d + i
    return position


@dataclass(eq=False)
class Step:
    """What is written at one place of a block.

    Attributes:
        kind: "assign" (one small value), "nest", "rows" (nests that share their outermost loop), "index" (check of the indices of
            a gather), "statement", or "leave" (of a while).
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


@dataclass(eq=False)
class Storage:
    """Values that share a variable or an array.

    Attributes:
        members: the values.
        result: the position of the function result that is written here, or None.
        is_carried: some member is carried by a loop.
    """

    members: list[Value]
    result: int | None = None
    is_carried: bool = False
    is_fixed: bool = False


class Elements:
    """Element texts: reads through views and inlined values down to stored values, which `read` handles."""

    def __init__(self) -> None:
        self.lazy: set[Value] = set()
        self.size_names: dict[str, str] = {}
        self.gather_indices: dict[Operation, list[Dim]] = {}

    # What subclasses say.

    def read(self, value: Value, index: Sequence[Dim]) -> str:
        """Return the text of an element of a stored value."""
        raise NotImplementedError

    def read_flat(self, value: Value, position: Dim) -> str:
        """Return the text of an element of a stored value at a row-major position."""
        raise NotImplementedError

    def table(self, value: Value, index: Sequence[Dim]) -> str:
        """Return the text of an element of a constant array at an index that is not constant."""
        raise NotImplementedError

    def pointer(self, value: Value) -> str:
        raise NotImplementedError

    # Elements.

    def element(self, value: Value, index: Sequence[Any]) -> str:
        """Return a C expression for an element."""
        if value in self.lazy:
            return self.compute(value, index)
        return self.read(value, index)

    def element_flat(self, value: Value, position: Dim) -> str:
        """Return a C expression for an element by its row-major position."""
        if value in self.lazy:
            producer = value.producer
            assert producer is not None
            if producer.op == "reshape":
                return self.element_flat(producer.operands[0], position)
            return self.element(value, unflatten(position, value.shape))
        return self.read_flat(value, position)

    def compute(self, value: Value, index: Sequence[Any]) -> str:
        """Return a C expression for an element from the operands of its producer."""
        operation = value.producer
        assert operation is not None, f"{value!r} is a parameter"
        record = TABLE[operation.op]
        if record.elementwise:
            template = element_template(operation)
            names = {f"a{k}": v for k, v in enumerate(operation.operands)}
            used = slot_counts(template)
            texts = {name: self.repeated(names[name], index, count) for name, count in used.items()}
            if operation.op in ("add", "subtract") and len(texts) == 2 and value.dtype.kind == "f":
                text = sum_of(texts["a0"], texts["a1"], minus=operation.op == "subtract")
            else:
                text = fill(template, texts)
            narrow = value.dtype.itemsize < 4 or (value.dtype.itemsize == 4 and "tg_" in template)
            if value.dtype.kind in "iu" and narrow and operation.op not in ("select", "cast"):
                return fill(f"({CTYPES[value.dtype]}){{x}}", {"x": text})
            return text
        if callable(record.c):
            return record.c(self, operation, index)  # type: ignore[arg-type]
        raise unsupported(operation.op, operation.span)

    def repeated(self, value: Value, index: Sequence[Any], count: int) -> str:
        """Return an element that stands `count` times in a template."""
        return self.element(value, index)

    def contiguous(self, value: Value) -> Value | None:
        """Return the stored array in which the elements of a value lie in order, or None."""
        if value not in self.lazy:
            return value
        operation = value.producer
        assert operation is not None
        if operation.op == "reshape":
            return self.contiguous(operation.operands[0])
        if operation.op == "gather":
            x, *indices = operation.operands
            is_row = all(not v.shape for v in indices) and list(operation.attrs["axes"]) == list(range(len(indices)))
            return self.contiguous(x) if is_row else None
        return None

    # What rules of records may ask.

    def dim(self, dim: Dim) -> str:
        return index_text(self.sizes(dim))

    def sizes(self, dim: Dim) -> Dim:
        """Return a dimension with the C names of its size symbols."""
        if isinstance(dim, int) or all(self.size_names.get(s, s) == s for s in dim.symbols()):
            return dim
        total: Dim = 0
        for monomial, coefficient in dim.terms:
            product: Dim = coefficient
            for atom in monomial:
                if isinstance(atom, str):
                    product = product*symbol(self.size_names.get(atom, atom))
                else:
                    product = product*(self.sizes(atom[1])//self.sizes(atom[2]))
            total = total + product
        return total

    def shape(self, value: Value) -> Shape:
        """Return the shape of a value in terms of C names."""
        return tuple(self.sizes(d) for d in value.shape)

    def ctype(self, dtype: np.dtype[Any]) -> str:
        return ctype(dtype)

    def local_ctype(self, dtype: np.dtype[Any]) -> str:
        """Return the C type of a variable."""
        return "bool" if dtype.kind == "b" else ctype(dtype)

    def fill(self, template: str, operands: Mapping[str, str]) -> str:
        return fill(template, operands)

    def literal(self, value: Any, dtype: np.dtype[Any]) -> str:
        return literal(value, dtype)

    def plus(self, x: str, y: str) -> str:
        """Return a sum; a literal zero is left out."""
        if x in ("0.0", "0.0f", "0"):
            return y
        return x if y in ("0.0", "0.0f", "0") else sum_of(x, y)

    def offset(self, pointer: str, elements: Dim) -> str:
        """Return a pointer so many elements further."""
        text = index_text(elements)
        return pointer if text == "0" else f"{pointer} + {text}"

    def combine(self, operation: Operation, x: str, y: str) -> str:
        """Return one step of the reduction that the record's `c_reduce` describes."""
        reduction = TABLE[operation.op].c_reduce
        assert reduction is not None
        type = ArrayType(operation.operands[-1].dtype)
        if reduction[1] == "add" and type.dtype.kind == "f":
            return sum_of(x, y)
        step = Operation(reduction[1], [Value(type), Value(type)], {}, [], [type], operation.span)
        return fill(element_template(step), {"a0": x, "a1": y})

    def initial(self, operation: Operation) -> str:
        """Return where that reduction begins."""
        reduction = TABLE[operation.op].c_reduce
        assert reduction is not None
        dtype = operation.operands[-1].dtype
        if reduction[0] not in ("lowest", "highest"):
            return literal(int(reduction[0]), dtype)
        is_lowest = reduction[0] == "lowest"
        if dtype.kind == "f":
            return literal(-np.inf if is_lowest else np.inf, dtype)
        if dtype.kind == "b":
            return literal(not is_lowest, dtype)
        return literal(np.iinfo(dtype).min if is_lowest else np.iinfo(dtype).max, dtype)

    def affine(self, value: Value) -> Dim | None:
        """Return a rank-0 integer as arithmetic of sizes and loop indices, or None."""
        operation = value.producer
        if not is_integer(value.dtype):
            return None
        if operation is None:
            return self.loop_index(value)
        match operation.op:
            case "constant" | "full":
                return int(operation.attrs["value"])
            case "dim":
                return self.sizes(operation.attrs["dim"])
            case "cast" | "reshape" | "broadcast_to":
                if operation.operands[0].shape or not is_integer(operation.operands[0].dtype):
                    return None
                return self.affine(operation.operands[0])
            case "negative":
                x = self.affine(operation.operands[0])
                return None if x is None else -x
            case "add" | "subtract" | "multiply":
                x, y = (self.affine(v) for v in operation.operands)
                if x is None or y is None:
                    return None
                if operation.op == "multiply":
                    return x*y if isinstance(x, int) or isinstance(y, int) else None
                return x + y if operation.op == "add" else x - y
        return None

    def loop_index(self, value: Value) -> Dim | None:
        """Return the symbol of a loop index, or None for any other block parameter."""
        return None

    def index_of(self, value: Value, index: Sequence[Dim] = ()) -> Dim:
        """Return an element of an integer array for use in an index."""
        number = self.affine(value) if not value.shape else None
        if number is not None:
            return number
        text = self.element(value, index)
        return int(text) if text.lstrip("-").isdigit() else symbol(text)

    def gather_index(self, operation: Operation, index: Sequence[Dim]) -> list[Dim]:
        """Return the checked, non-negative positions along the gathered axes."""
        if operation in self.gather_indices:
            return self.gather_indices[operation]
        x, *indices = operation.operands
        return [
            wrapped(self.index_of(v, index), self.sizes(x.shape[axis]))
            for v, axis in zip(indices, operation.attrs["axes"], strict=False)
        ]


def wrapped(position: Dim, size: Dim) -> Dim:
    """Return a position with Python's meaning of negative ones, without a check."""
    if isinstance(position, int):
        return position if position >= 0 else size + position
    text = index_text(position)
    negative = fill("{x} < 0 ? {x} + {n} : {x}", {"x": text, "n": index_text(size)})
    return symbol(negative)


def ctype(dtype: np.dtype[Any]) -> str:
    """Return the C type of a dtype."""
    if dtype not in CTYPES:
        raise unsupported(f"dtype {dtype}", None)
    return CTYPES[dtype]


def unsupported(what: str, span: Span | None) -> CompileError:
    """Return the error for what has no C text."""
    return CompileError(
        f"the C backend does not support {what}",
        code="TG620", span=span, found=what, help='use backend="numpy" for this function',
    )  # fmt: skip


class _Slots:
    """Stands for the emitter in rules of elementwise records: elements come out as slots of a template."""

    def __init__(self, operation: Operation) -> None:
        self.names = {v: f"{{a{k}}}" for k, v in reversed(list(enumerate(operation.operands)))}

    def element(self, value: Value, index: Sequence[Any]) -> str:
        return self.names[value]

    def ctype(self, dtype: np.dtype[Any]) -> str:
        return ctype(dtype)

    def helper(self, name: str, dtype: np.dtype[Any]) -> str:
        return helper_name(name, dtype)

    def fill(self, template: str, operands: Mapping[str, str]) -> str:
        return fill(template, operands) if template else ""


def helper_name(name: str, dtype: np.dtype[Any]) -> str:
    """Return the name of the version for a dtype of a function of the prelude; most for integers work on 64 bits."""
    if dtype.kind in "iu" and name in _WIDE_HELPERS:
        return f"{name}_{dtype.kind}64"
    return f"{name}_{'u8' if dtype.kind == 'b' else f'{dtype.kind}{8 * dtype.itemsize}'}"


_WIDE_HELPERS = frozenset(
    f"tg_{name}"
    for name in "floor_divide remainder fmod absolute maximum minimum sign power left_shift right_shift".split()
)


def element_template(operation: Operation) -> str:
    """Return the C text of an elementwise operation with a slot `{a0}`, `{a1}`, ... per operand."""
    record = TABLE[operation.op]
    dtype = operation.operands[0].dtype if operation.op != "select" else operation.result.dtype
    suffix = "f" if dtype == F32 else ""
    if callable(record.c):
        text = record.c(_Slots(operation), operation, ())  # type: ignore[arg-type]
    else:
        text = record.c.replace("{f}", suffix)
        for k, name in enumerate(record.operands):
            text = text.replace(f"{{{name}}}", f"{{a{k}}}")
    if not text:
        raise unsupported(f"{operation.op} of {dtype}", operation.span)
    return tidy(normalize_template(text, suffix))


def tidy(template: str) -> str:
    """Return a template as people write it: no parentheses around a slot, none of the blanks around `*` and `/`."""
    position = template.find("({")
    while position >= 0:
        close = template.find(")", position)
        inner = template[position + 2 : close - 1]
        before = template[position - 1] if position else " "
        if template[close - 1] == "}" and inner.isalnum() and not (before.isalnum() or before == "_"):
            template = template[:position] + template[position + 1 : close] + template[close + 1 :]
        position = template.find("({", position + 1)
    return template.replace(" * ", "*").replace(" / ", "/")


def unflatten(position: Dim, shape: Shape) -> list[Dim]:
    """Return the index of a row-major position."""
    index: list[Dim] = []
    for axis in range(len(shape)):
        below = math.prod(shape[axis + 1 :])
        if isinstance(shape[axis], int) and shape[axis] == 1:
            index.append(0)
        elif isinstance(below, int) and below == 0:
            index.append(0)  # an empty array: never read
        elif isinstance(position, int) and isinstance(below, int):
            quotient, position = divmod(position, below)
            index.append(quotient)
        else:
            last = axis == len(shape) - 1 or all(isinstance(d, int) and d == 1 for d in shape[axis + 1 :])
            index.append(position if last else position//below)
            position = 0 if last else modulo(position, below)
    return index


def modulo(position: Dim, size: Dim) -> Dim:
    """Return the remainder of a non-negative position; terms that are multiples of the size drop out."""
    if isinstance(position, SymbolicDim):
        kept: Dim = 0
        for monomial, coefficient in position.terms:
            term = SymbolicDim(((monomial, coefficient),)) if monomial else coefficient
            quotient = term//size
            exact = quotient*size == term
            kept = kept if exact else kept + term
        position = kept
    if isinstance(position, int) and isinstance(size, int):
        return position % size if size else 0
    return symbol(fill("{x} % {n}", {"x": index_text(position), "n": index_text(size)}))


def prepare(function: Function) -> Function:
    """Return a private copy: calls inlined, dead operations removed, each `while` with one block that leaves in its middle."""
    copy = clone_function(function)
    _inline_calls(copy.body, ())
    _transpose_products(copy.body)
    remove_dead(copy)
    for operation in list(walk(copy.body)):
        if operation.op == "while":
            condition, body = operation.blocks
            substitute(condition, dict(zip(condition.params, body.params, strict=True)))
            leave = Operation("leave", [condition.yields[0]], {}, [], [], operation.span)
            body.operations = [*condition.operations, leave, *body.operations]
            operation.blocks = [body]
    return copy


def _transpose_products(block: Block) -> None:
    """Compute a product that is only used transposed with its operands exchanged."""
    used = uses(block)
    for operation in walk(block):
        product = operation.operands[0].producer if operation.op == "transpose" else None
        if product is None or product.op != "dot_general" or used[product.result] != 1:
            continue
        (cx, cy), (bx, by) = product.attrs["contract"], product.attrs["batch"]
        rows = len(product.operands[0].shape) - len(cx)
        columns = len(product.operands[1].shape) - len(cy)
        if bx or operation.attrs["axes"] != (*range(rows, rows + columns), *range(rows)):
            continue
        operation.op, operation.operands = "dot_general", product.operands[::-1]
        operation.attrs = {"contract": (cy, cx), "batch": (by, bx)}


def _inline_calls(block: Block, outer: tuple[Function, ...]) -> None:
    operations: list[Operation] = []
    for operation in block.operations:
        for nested in operation.blocks:
            _inline_calls(nested, outer)
        if operation.op != "call":
            operations.append(operation)
            continue
        callee: Function = operation.attrs["function"]
        if callee in outer:
            raise unsupported("recursive calls", operation.span)
        copy = clone_block(callee.body, {})
        substitute(copy, dict(zip(copy.params, operation.operands, strict=True)))
        _inline_calls(copy, (*outer, callee))
        operations.extend(copy.operations)
        mapping = dict(zip(operation.results, copy.yields, strict=True))
        substitute(block, mapping)
        for earlier in operations:
            earlier.operands = [mapping.get(v, v) for v in earlier.operands]
    block.operations = operations


class Plan(Elements):
    """The steps of all blocks of a function and the storage of its values; see the module docstring.

    Attributes:
        function: the prepared copy that the plan speaks of.
        steps: per block, what is written in order.
        storage: per stored value its storage class; function parameters and values local to a nest have none.
    """

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = prepare(function)
        self.steps: dict[Block, list[Step]] = {}
        self.storage: dict[Value, Storage] = {}
        self.owner: dict[Block, Operation] = {}
        self.home: dict[Operation, Block] = {}
        self.definition: dict[Value, tuple[Block, int]] = {}
        self.uses: dict[Value, list[tuple[Operation | None, Block]]] = {}
        self.forced: set[Value] = set()
        self.row_values: set[Value] = set()
        self.weights: dict[Value, int] = {}
        self._accesses: list[tuple[Value, tuple[Any, ...] | None, int]] | None = None
        self._multiplier = 1
        self._pointers: set[Value] = set()
        self._index_block(self.function.body)
        self._check_types()
        self._pair_stacks()
        self._choose_views()
        self._inline_small()
        self._plan_block(self.function.body)
        self._locate(self.function.body)
        self._share_storage()
        self._choose_movers()

    # Structure of the function.

    def _index_block(self, block: Block) -> None:
        for operation in block.operations:
            self.home[operation] = block
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
        return "0"

    def repeated(self, value: Value, index: Sequence[Any], count: int) -> str:
        self._multiplier *= count
        text = self.element(value, index)
        self._multiplier //= count
        return text

    def loop_index(self, value: Value) -> Dim | None:
        return symbol(f"loop{id(value)}") if self._is_loop_index(value) else None

    def index_of(self, value: Value, index: Sequence[Dim] = ()) -> Dim:
        number = self.affine(value) if not value.shape else None
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
                self.index_of(operand)
        return "0"

    def store(self, value: Value, index: Sequence[Dim]) -> str:
        return "0"

    def scratch(self, dtype: np.dtype[Any], size: Dim) -> str:
        return "0"

    def fresh(self, hint: str) -> str:
        return hint

    def line(self, text: str) -> None:
        pass

    def assign(self, target: str, text: str, *, add: bool = False) -> None:
        pass

    def begin_from(self, result: Value, operand: Value) -> None:
        self.element(operand, self.identity(operand.shape))

    def checked_index(self, value: Value, index: Sequence[Dim], size: Dim, axis: int, span: Span | None) -> Dim:
        return self.index_of(value, index)

    def new_stack(self, stack: Value) -> None:
        pass

    def push(self, stack: Value, value: Value) -> None:
        self.element(value, self.identity(value.shape))

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
        self._loop_indices = {o.blocks[0].params[0] for o in walk(self.function.body) if o.op == "for"}
        for operation in walk(self.function.body):
            if operation.op in VIEWS:
                self.lazy.add(operation.result)
        for operation in walk(self.function.body):
            record = TABLE.get(operation.op)
            if record is not None and self.role(operation) == "statement" and record.c_statement is not None:
                self._pointers = set()
                with self.recording():
                    record.c_statement(self, operation)
                self.force(*self._pointers)
        self._force_before_writes()

    def force(self, *values: Value) -> None:
        """Store values that would be views."""
        for value in values:
            self.lazy.discard(value)
            self.forced.add(value)

    def _force_before_writes(self) -> None:
        """Store what is read through a view of an array after the array has been changed in place."""
        for operation in walk(self.function.body):
            record = TABLE.get(operation.op)
            if record is None or record.inplace is None or self.role(operation) != "statement":
                continue
            changed = operation.operands[record.inplace]
            if changed in self.lazy or changed in self.function.params:
                continue
            block = self.home[operation]
            order = {o: k for k, o in enumerate(block.operations)}
            late = [o for o, b in self.uses.get(changed, ()) if b is block and o is not None and order[o] > order[operation]]
            if any(o.op not in VIEWS for o in late):
                continue
            for view in self._views_of(changed):
                if view.producer is None or self.home[view.producer] is not block:
                    continue
                for user, user_block in self.uses.get(view, ()):
                    if user is operation:
                        if view.shape:
                            self.force(view)
                    elif user is None or user_block is not block or order[user] > order[operation]:
                        if user is None or user.op not in VIEWS or user_block is not block:
                            self.force(view)

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
                fixed = is_small(operation.operands[0]) and all(isinstance(self.affine(v), int) for v in indices if not v.shape)
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
            if value.name or value in self.forced or weight > EXPRESSION_WEIGHT:
                continue
            uses = self._effective_uses(value)
            is_sign = operation.op == "negative" and not value.shape and weight == 1
            if len(uses) != 1 and not is_sign:
                continue
            if all(
                user is not None and block is self.home[operation] and self._accepts(user, value, often=is_sign)
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
                    self.element(operand, self.identity(operand.shape))
        found = [(index, count) for read, index, count in accesses if read is value]
        if len(found) != 1 or found[0][1] != 1 or not self.is_identity(value, found[0][0], squeeze(value.shape)):
            return
        if changed is value or changed in self._operands_read(operation):
            return  # what is written later would be computed from what has been written
        self.lazy.add(value)
        self.weights[value] = weight

    def _operands_read(self, operation: Operation) -> set[Value]:
        return {v for operand in operation.operands for v in self.read_values(operand)}

    def _accepts(self, user: Operation, value: Value, *, often: bool) -> bool:
        """Return whether a value may be inlined in an operation: each element is read at most once, unless `often`."""
        if user.op in ("if", "leave"):
            return value in user.operands[:1]
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
        for read, index, count in accesses:
            if read is value:
                if often:
                    continue
                if count > 1 or index is None or index in seen or not all(isinstance(i, int) for i in index):
                    return False
                seen.add(index)
        return True

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
        """Return the values that a member of a nest reads, at which index and how often, and the text of the dry run."""
        with self.recording() as accesses:
            if operation.op == "push":
                text = self.element(operation.operands[1], self.identity(operation.operands[1].shape))
            elif self.role(operation) == "reduce":
                if operation.op == "dot_general":
                    for operand, axes in zip(operation.operands, operation.attrs["contract"], strict=True):
                        order = self.identity(operation.operands[0].shape)
                        index: list[Dim] = [0]*len(operand.shape)
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
                users = {maker.get(u.results[0]) if u is not None and u.results else None for u, _ in self._effective_uses(value)}
                if not others or operation.op not in CHEAP or not users <= {nest, *others}:
                    continue
                if not all(n.reads[value] and n.space == nest.space and self._reads_directly(n, value) for n in others):
                    continue
                chain = self._cheap_chain(operation, nest, maker)
                if chain is None:
                    continue
                for other in others:
                    self._repeat_in(other, chain, block, maker)
                    del other.reads[value]

    def _cheap_chain(self, operation: Operation, nest: Step, maker: dict[Value, Step]) -> list[Operation] | None:
        """Return the few cheap operations that compute a value from stored ones, in order; None when there are none such."""
        chain: list[Operation] = []
        leaves: set[Value] = set()

        def collect(op: Operation) -> bool:
            for value, _ in self._nest_reads(op):
                if maker.get(value) is not nest or self._stored_anyway(value, nest, maker):
                    if value.shape:
                        leaves.add(value)
                    continue
                producer = value.producer
                if producer is None or producer.op not in CHEAP or not collect(producer):
                    return False
            if op not in chain:
                chain.append(op)
            return len(chain) <= 3 and len(leaves) <= 2

        return chain if collect(operation) else None

    def _reads_directly(self, nest: Step, value: Value) -> bool:
        """Return whether the members of a nest read a value as an operand only, never through a view."""
        return not any(
            v in self.lazy and value in self.read_values(v) for reader in nest.operations for v in reader.operands
        )

    def _repeat_in(self, nest: Step, chain: list[Operation], block: Block, maker: dict[Value, Step]) -> None:
        """Put copies of operations into a nest, for the uses in it."""
        mapping: dict[Value, Value] = {}
        copies = [clone_operation(operation, mapping) for operation in chain]
        for reader in nest.operations:
            reader.operands = [mapping[v] if v is chain[-1].result else v for v in reader.operands]
        nest.operations[0:0] = copies
        at = block.operations.index(chain[-1]) + 1
        block.operations[at:at] = copies
        for copy in copies:
            self.home[copy] = block
            maker[copy.result] = nest
        for copy in copies:
            for value, same in self._nest_reads(copy):
                if maker.get(value) is not nest:
                    nest.reads[value] = nest.reads.get(value, True) and same

    def _group_rows(self, steps: list[Step]) -> None:
        """Let neighbouring nests share their outermost loop where one reads, in the same row, what another makes."""
        position = 0
        while position < len(steps):
            group = self._rows_from(steps, position)
            if group:
                made = {v for nest in group for v in nest.results}
                rows = Step("rows", [o for nest in group for o in nest.operations], group[0].space[:1], members=group)
                for nest in group:
                    for value, same in nest.reads.items():
                        if value not in made:
                            rows.reads[value] = rows.reads.get(value, True) and same and len(group) == 1
                steps[position : position + len(group)] = [rows]
            position += 1

    def _rows_from(self, steps: list[Step], position: int) -> list[Step]:
        """Return the nests from a position on that can share their outermost loop with profit."""
        first = steps[position]
        if first.kind != "nest" or len(first.space) < 2 or first.pushes:
            return []
        group: list[Step] = []
        made: set[Value] = set()
        connected = 1
        for nest in steps[position:]:
            if nest.kind != "nest" or not nest.space or nest.space[0] != first.space[0] or nest.pushes:
                break
            reads_made = self._reads_in_row(nest, made)
            if reads_made is None:
                break
            group.append(nest)
            if reads_made and len(nest.space) > 1:
                connected = len(group)
            for operation in nest.operations:
                made.add(operation.result)
        group = group[:connected]
        is_single = len(group) == 1 and self.is_unrolled(first) and not self.is_flat(first)
        return group if len(group) > 1 or is_single else []

    def is_unrolled(self, nest: Step) -> bool:
        """Return whether what a nest does in one row is written out."""
        inner = nest.space[1:]
        return is_static(inner) and math.prod(inner) <= UNROLLED_ROW

    def _reads_in_row(self, nest: Step, made: set[Value]) -> bool | None:
        """Return whether a nest reads any of the values made before in the row; None when it reads them in other rows."""
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
        for position, nest in enumerate(steps):
            if nest.kind != "nest" or nest.space != space:
                continue
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
        """Return the small steps that must move before a nest so that these reads can stand in it; None when impossible."""
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
                users = {maker.get(u.results[0]) if u is not None and u.results else None for u, b in self._effective_uses(value)}
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
                if not all(v in params or maker.get(v) is None or v in target.reads or
                           (maker.get(v) is nest and self._stored_anyway(v, nest, maker)) for v, _ in reads):
                    continue
                nest.operations.remove(operation)
                target.operations.insert(0, operation)
                maker[value] = target
                target.reads.pop(value, None)
                for v, same in reads:
                    target.reads[v] = target.reads.get(v, True) and same
            if not nest.operations and not nest.pushes:
                steps.remove(nest)

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
                        self.element(value, self.identity(value.shape))
        changed = None
        if step.kind == "statement":
            record = TABLE.get(operation.op)
            if record is not None and record.inplace is not None:
                changed = operation.operands[record.inplace]
                values = operation.operands[-1]
                if values.shape and (values is changed or changed in self.read_values(values)):
                    changed = None  # what is written later may be read from what has been written
        for value, at, _ in accesses:
            same = value is changed
            if step.kind == "statement" and operation.op in LOOPS | {"if"}:
                same = True
            step.reads[value] = step.reads.get(value, True) and same
        return step

    def affine_or_none(self, value: Value) -> Dim | None:
        """Return what `affine` says for a scalar, None for an array."""
        return None if value.shape else self.affine(value)

    # Stacks that move in step.

    def _pair_stacks(self) -> None:
        """Find stacks that are pushed and popped in the same blocks, once in each: they share one counter."""
        blocks: dict[Value, dict[str, list[Operation]]] = {}
        for operation in walk(self.function.body):
            if operation.op in ("push", "pop"):
                blocks.setdefault(operation.operands[0], {"push": [], "pop": []})[operation.op].append(operation)
        groups: dict[Any, list[Value]] = {}
        for stack, found in blocks.items():
            key = tuple((op, tuple(id(self.home[o]) for o in some)) for op, some in found.items())
            unique = all(len(set(ids)) == len(ids) for _, ids in key)
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

    # Lifetimes.

    def _locate(self, block: Block) -> None:
        """Record where values are defined and, per block, at which steps they are read (nested reads at the outer step)."""
        self.used_at: dict[Block, dict[Value, list[int]]] = {}
        self.place: dict[Block, tuple[Block, int]] = {}
        self._locate_in(block)

    def _locate_in(self, block: Block) -> dict[Value, None]:
        here: dict[Value, list[int]] = {}
        self.used_at[block] = here
        for param in block.params:
            self.definition[param] = (block, -1)
        for position, step in enumerate(self.steps[block]):
            for value in step.reads:
                here.setdefault(value, []).append(position)
            for operation in step.operations:
                for nested in operation.blocks:
                    self.place[nested] = (block, position)
                    for value in self._locate_in(nested):
                        here.setdefault(value, []).append(position)
                if operation.op == "for":
                    for bound in operation.operands[:2]:
                        for value in self.read_values(bound):
                            self.used_at[operation.blocks[0]].setdefault(value, []).append(10**9)
                for result in operation.results:
                    self.definition[result] = (block, position)
        end = len(self.steps[block])
        for value in block.yields:
            for leaf in self.read_values(value):
                here.setdefault(leaf, []).append(end)
        leaves = {v for s in self.steps[block] if s.kind == "leave" for v in block.params}
        for position, step in enumerate(self.steps[block]):
            if step.kind == "leave":
                for value in leaves:
                    here.setdefault(value, []).append(position)
        return dict.fromkeys(here)

    def read_values(self, value: Value) -> list[Value]:
        if not isinstance(value.type, ArrayType) or self.affine_or_none(value) is not None:
            return []
        with self.recording() as accesses:
            self.element(value, self.identity(value.shape))
        return [v for v, _, _ in accesses]

    def live_after(self, value: Value, block: Block, position: int) -> bool:
        """Return whether a value may be read after a step of a block."""
        at_home, _ = self.definition[value]
        while True:
            if any(p > position for p in self.used_at[block].get(value, ())):
                return True
            if block is at_home or block not in self.owner:
                return False
            if self.owner[block].op in LOOPS and self.used_at[block].get(value):
                return True
            block, position = self.place[block]

    def _is_visible(self, value: Value, block: Block, position: int) -> bool:
        """Return whether a value is defined before a step of a block, or by it."""
        at_home, defined = self.definition[value]
        while block is not at_home:
            if block not in self.owner:
                return False
            block, position = self.place[block]
            position -= 1
        return defined <= position

    def _overlaps(self, a: Value, b: Value) -> bool:
        """Return whether `a` still holds a needed value where `b` is defined."""
        block, position = self.definition[b]
        if not self._is_visible(a, block, position):
            return False
        if self.live_after(a, block, position):
            return True
        if position >= 0:
            step = self.steps[block][position]
            if a in step.reads and not step.reads[a]:
                return True
        return self.definition[a] == (block, position) and a is not b

    def exclude(self, a: Storage, b: Storage) -> bool:
        """Return whether two storage classes are needed at the same time."""
        return any(self._overlaps(x, y) or self._overlaps(y, x) for x in a.members for y in b.members)

    # Storage.

    def needs_storage(self, value: Value) -> bool:
        """Return whether a value lives in a variable or an array of its own (not a view, not local to a nest)."""
        return value in self.storage

    def _share_storage(self) -> None:
        for block, steps in self.steps.items():
            if block in self.owner:
                for param in block.params:
                    if param not in self._loop_indices:
                        self.storage[param] = Storage([param], is_carried=True)
            for step in steps:
                for result in step.results:
                    if step.kind == "index" or not isinstance(result.type, ArrayType):
                        continue
                    if step.kind in ("nest", "rows") and not self._is_needed(result, block, step):
                        if step.kind == "rows" and self._crosses(result, step):
                            self.row_values.add(result)
                        continue
                    self.storage[result] = Storage([result])
        for operation in walk(self.function.body):
            if operation.op in LOOPS:
                for param, result in zip(self.carries(operation), operation.results, strict=True):
                    self._merge(param, result, must=True)
        for operation in walk(self.function.body):
            if operation.op in LOOPS:
                block = operation.blocks[0]
                inits = operation.operands[2:] if operation.op == "for" else operation.operands
                for param, following in zip(self.carries(operation), block.yields, strict=True):
                    self._merge(param, following)
                for param, init in zip(self.carries(operation), inits, strict=True):
                    self._merge(init, param)
            elif operation.op == "if":
                for block in operation.blocks:
                    for result, value in zip(operation.results, block.yields, strict=True):
                        self._merge(value, result)
            else:
                record = TABLE.get(operation.op)
                if record is not None and record.inplace is not None:
                    self._merge(operation.operands[record.inplace], operation.result)
        for position, value in enumerate(self.function.results):
            shared = self.storage.get(value)
            if shared is None or shared.result is not None or not value.shape:
                continue
            if is_small(value) and (shared.is_carried or len(shared.members) > 1):
                continue
            shared.result = position

    def _is_needed(self, value: Value, block: Block, step: Step) -> bool:
        """Return whether a value of a nest must be stored: it is read elsewhere, or it is a reduction over all rows."""
        if self.used_at[block].get(value):
            return True
        producer = value.producer
        assert producer is not None
        if self.role(producer) != "reduce":
            return False
        return step.kind == "nest" or 0 not in kept_axes(producer)

    def _crosses(self, value: Value, rows: Step) -> bool:
        """Return whether a nest of a row reads what another makes."""
        return any(
            value not in nest.results and any(v is value for o in nest.operations for v, _, _ in self.nest_accesses(o))
            for nest in rows.members
        )

    def carries(self, operation: Operation) -> list[Value]:
        """Return the block parameters that a loop carries."""
        params = operation.blocks[0].params
        return params[1:] if operation.op == "for" else params

    def _merge(self, a: Value, b: Value, *, must: bool = False) -> None:
        """Let two values share storage when they can."""
        first, second = self.storage.get(a), self.storage.get(b)
        if first is None or second is None or first is second or a.type != b.type:
            return
        if not must and self.exclude(first, second):
            return
        first.members += second.members
        first.is_carried |= second.is_carried
        for member in second.members:
            self.storage[member] = first


def kept_axes(operation: Operation) -> list[int]:
    """Return which loops of its nest a reduction keeps, outermost first."""
    x = operation.operands[0]
    wide = [k for k, d in enumerate(x.shape) if not (isinstance(d, int) and d == 1)]
    removed = operation.attrs["axes"] if operation.op != "dot_general" else range(len(x.shape))
    return [position for position, k in enumerate(wide) if k not in removed]
