"""Element texts: how an element of a value is read or computed, through views and inlined values down to stored ones.

Reads IR and the `c` fields of op records, writes C expressions. Previous: c_expression.py; next: c_order.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.codegen.c_expression import (
    CTYPES,
    fill,
    index_text,
    literal,
    negation,
    normalize_template,
    slot_counts,
    sum_of,
)
from tracegrad.errors import CompileError, Span
from tracegrad.ir.core import (
    Operation,
    Value,
)
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import (
    DTYPES,
    ArrayType,
    Dim,
    Shape,
    SymbolicDim,
    is_inexact,
    is_integer,
    is_static,
    symbol,
)

#: arrays of at most so many elements are computed element by element, with constant indices
SMALL = 16
#: elementwise operations and copies of at most so many elements are written out
FEW = 6
#: arrays of at most so many elements live on the stack
LOCAL = 64
_ZEROS = frozenset(literal(0, dtype) for dtype in CTYPES)


def static_size(shape: Shape) -> int | None:
    """Return the number of elements of a shape, or None when a dimension depends on size symbols, even beside a 0."""
    return math.prod(shape) if is_static(shape) else None  # type: ignore[return-value]


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
        position = position * d + i
    return position


def kept_axes(operation: Operation) -> list[int]:
    """Return which loops of its nest a reduction keeps, outermost first."""
    x = operation.operands[0]
    wide = [k for k, d in enumerate(x.shape) if not (isinstance(d, int) and d == 1)]
    removed = operation.attrs["axes"] if operation.op != "dot_general" else range(len(x.shape))
    return [position for position, k in enumerate(wide) if k not in removed]


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
            if operation.op in ("add", "subtract") and len(texts) == 2 and is_inexact(value.dtype):
                text = sum_of(texts["a0"], texts["a1"], minus=operation.op == "subtract")
            elif operation.op == "logical_not":
                text = negation(texts["a0"])
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
                    product = product * symbol(self.size_names.get(atom, atom))
                else:
                    product = product * (self.sizes(atom[1]) // self.sizes(atom[2]))
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
        if x in _ZEROS:
            return y
        return x if y in _ZEROS else sum_of(x, y)

    def times(self, dtype: np.dtype[Any], x: str, y: str) -> str:
        """Return a product of two C expressions."""
        return fill(_template_of("multiply", ArrayType(dtype)), {"a0": x, "a1": y})

    def offset(self, pointer: str, elements: Dim) -> str:
        """Return a pointer so many elements further."""
        text = index_text(elements)
        return pointer if text == "0" else f"{pointer} + {text}"

    def combine(self, operation: Operation, x: str, y: str) -> str:
        """Return one step of the reduction that the record's `c_reduce` describes."""
        reduction = TABLE[operation.op].c_reduce
        assert reduction is not None
        type = ArrayType(operation.operands[-1].dtype)
        if reduction[1] == "add" and is_inexact(type.dtype):
            return sum_of(x, y)
        return fill(_template_of(reduction[1], type), {"a0": x, "a1": y})

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

    def affine(self, value: Value, index: Sequence[Dim] = ()) -> Dim | None:
        """Return an element of integers as arithmetic of sizes, loop indices and its place, or None."""
        operation = value.producer
        if not is_integer(value.dtype):
            return None
        if operation is None:
            return None if value.shape else self.loop_index(value)
        match operation.op:
            case "full":
                return int(operation.attrs["value"])
            case "constant":
                return None if value.shape else int(operation.attrs["value"])
            case "iota":
                axis: int = operation.attrs["axis"]
                return index[axis]
            case "dim":
                return self.sizes(operation.attrs["dim"])
            case "cast" | "reshape" | "broadcast_to":
                return None if operation.operands[0].shape else self.affine(operation.operands[0])
            case "negative":
                x = self.affine(operation.operands[0], index)
                return None if x is None else -x
            case "add" | "subtract" | "multiply":
                x, y = (self.affine(v, index) for v in operation.operands)
                if x is None or y is None:
                    return None
                if operation.op == "multiply":
                    return x * y if isinstance(x, int) or isinstance(y, int) else None
                return x + y if operation.op == "add" else x - y
        return None

    def loop_index(self, value: Value) -> Dim | None:
        """Return the symbol of a loop index, or None for any other block parameter."""
        return None

    def index_of(self, value: Value, index: Sequence[Dim] = ()) -> Dim:
        """Return an element of an integer array for use in an index."""
        number = self.affine(value, index)
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
    return symbol(f"({negative})")


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
    suffix = "f" if dtype in (DTYPES["f32"], DTYPES["c64"]) else ""
    if callable(record.c):
        text = record.c(_Slots(operation), operation, ())  # type: ignore[arg-type]
    else:
        text = record.c.replace("{f}", suffix)
        for k, name in enumerate(record.operands):
            text = text.replace(f"{{{name}}}", f"{{a{k}}}")
    if not text:
        raise unsupported(f"{operation.op} of {dtype}", operation.span)
    return tidy(normalize_template(text, suffix))


def _template_of(op: str, type: ArrayType) -> str:
    """Return the C text of an elementwise operation on two operands of a type."""
    return element_template(Operation(op, [Value(type), Value(type)], {}, [], [type]))


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
            index.append(position if last else position // below)
            position = 0 if last else modulo(position, below)
    return index


def modulo(position: Dim, size: Dim) -> Dim:
    """Return the remainder of a non-negative position; terms that are multiples of the size drop out."""
    if isinstance(position, SymbolicDim):
        kept: Dim = 0
        for monomial, coefficient in position.terms:
            term = SymbolicDim(((monomial, coefficient),)) if monomial else coefficient
            quotient = term // size
            exact = quotient * size == term
            kept = kept if exact else kept + term
        position = kept
    if isinstance(position, int) and isinstance(size, int):
        return position % size if size else 0
    return symbol(fill("{x} % {n}", {"x": index_text(position), "n": index_text(size)}))
