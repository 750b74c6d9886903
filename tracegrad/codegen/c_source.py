"""Writes a function of the IR as C99: one translation unit that needs neither Python nor any other file.

Reads IR and the plan that loops.py makes of it, writes C text. Previous: loops.py; next folder: driver.

The interface of the text, for a function `f` with parameters x, results y, and size symbols n (in sorted order):

    int f(const double *restrict x, double *restrict y, int64_t n, void *workspace);   0, or the kind of an error
    int64_t f_workspace(int64_t n);                                                    bytes of workspace
    int f_entry(void *const *pointers, const int64_t *sizes, void *workspace, tg_error *error);
    void f_release(void *workspace);                     only when the workspace holds memory that grows
    void f_set_blas(const tg_blas *routines);            only when the text has matrix products

Arrays are row-major; results are distinct from parameters and from each other. The workspace is zeroed before its first use,
aligned to 64 bytes, and may be kept between calls.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tracegrad.codegen.c_expression import (
    CTYPES,
    PRIMARY,
    PRODUCT,
    RESERVED,
    SUM,
    UNARY,
    fill,
    identifier,
    index_text,
    literal,
    normalize_template,
    strength,
    sum_of,
    wrap,
    zero,
)
from tracegrad.codegen.loops import (
    LOCAL,
    SMALL,
    Elements,
    Plan,
    Step,
    Storage,
    flatten,
    helper_name,
    is_few,
    kept_axes,
    points,
    spread,
    squeeze,
    unsupported,
    wrapped,
)
from tracegrad.errors import Span
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType, Dim, Shape, StackType, SymbolicDim, dim_symbols, is_static, symbol

#: kinds of errors by number, as in c_prelude.h
ERROR_KINDS = (
    "", "IndexError", "ZeroDivisionError", "ValueError", "LinAlgError", "AssertionError", "OverflowError", "TypeError", "KeyError",
    "RuntimeError", "MemoryError", "FloatingPointError", "StopIteration", "NotImplementedError", "ArithmeticError",
)  # fmt: skip
_ERROR_NAMES = {kind: "TG_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).upper() for kind in ERROR_KINDS if kind}
_ERROR_NAMES["LinAlgError"] = "TG_LINALG_ERROR"

#: functions of libm with vector versions in glibc's libmvec, and the version of glibc that brought these
_VECTOR_MATHS = dict.fromkeys(("sin", "cos", "exp", "log", "pow"), 22) | dict.fromkeys(
    ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cosh", "erf", "erfc", "exp2", "expm1", "log10", "log1p", "log2",
     "sinh", "tan", "tanh", "atan2", "hypot"), 35,
)  # fmt: skip
_TWO_ARGUMENTS = ("pow", "atan2", "hypot")
_CLAUSES = {"add": "+", "multiply": "*"}
_EXTREMES = {"maximum": "tg_max", "minimum": "tg_min"}
_WORD = re.compile(r"[A-Za-z_]\w*")
#: matrices of fewer elements than this are copied by a loop, others by memcpy
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class CSource:
    """The C text of a function.

    Attributes:
        text: the translation unit.
        name: the name of the kernel function in it.
        sizes: size symbols in the order of the arguments.
        entry: name of the function with the uniform interface.
    """

    text: str
    name: str
    sizes: tuple[str, ...]

    @property
    def entry(self) -> str:
        return f"{self.name}_entry"


def emit_c(function: Function, *, comments: bool = True) -> CSource:
    """Return the C text of a function; CompileError when it uses what C cannot express."""
    return _Emitter(function, comments).emit()


@dataclass(slots=True)
class _Line:
    depth: int
    text: str
    defines: str = ""
    assigns: str = ""
    is_comment: bool = False


@dataclass(slots=True)
class _Memory:
    name: str
    ctype: str
    size: Dim


@dataclass(slots=True)
class _Stack:
    name: str
    top: str
    element: ArrayType
    size: Dim
    number: int | None = None  # of a stack that grows
    fields: tuple[str, str] = field(default=("", ""))


class _Emitter(Elements):
    def __init__(self, function: Function, comments: bool) -> None:
        super().__init__()
        self.plan = Plan(function)
        self.function = self.plan.function
        self.lazy = self.plan.lazy
        self.comments = comments
        self.lines: list[_Line] = []
        self.depth = 1
        self.names: set[str] = set()
        self.places: dict[Storage, str] = {}
        self.declared: set[Storage] = set()
        self.bound: dict[Value, str] = {}
        self.loop_names: dict[Value, str] = {}
        self.ranges: dict[str, tuple[Dim, Dim]] = {}
        self.memory: list[_Memory] = []
        self.stacks: dict[Value, _Stack] = {}
        self.growing: list[_Stack] = []
        self.tables: dict[Value, str] = {}
        self.table_texts: list[str] = []
        self.pointers: dict[Value, str] = {}
        self.row_values: dict[Value, str] = {}
        self.has_faults = False
        self.last_comment = ""
        self._name_interface()

    # Names.

    def _name_interface(self) -> None:
        function = self.function
        hints = {identifier(v.name) for v in self._all_values() if v.name}
        self.kernel = identifier(function.name)
        self.names |= {"memory", "stacks"}
        symbols: set[str] = set()
        for value in self._all_values():
            type = value.type.element if isinstance(value.type, StackType) else value.type
            for d in type.shape:
                symbols |= dim_symbols(d)
        for operation in walk(function.body):
            for attribute in operation.attrs.values():
                symbols |= _symbols_in(attribute)
        self.size_symbols = tuple(sorted(symbols))
        for name in self.size_symbols:
            self.size_names[name] = self.fresh(name)
        self.plan.size_names = self.size_names
        self.letters = [c for c in "ijklmpqrs" if c not in hints and c not in self.names and c not in symbols]
        self.letters += [f"i{k}" for k in range(9)]
        self.names |= set(self.letters)
        self.parameters: dict[Value, str] = {}
        self.arguments: list[tuple[str, str]] = []
        for number, param in enumerate(function.params):
            name = self.fresh(param.name or f"x{number}")
            self.parameters[param] = name
            pointer = name if param.shape else self.fresh(f"{name}_in")
            self.arguments.append((f"const {self.ctype(param.dtype)} *restrict {pointer}", pointer))
            if not param.shape:
                self.line(f"const {self.local_ctype(param.dtype)} {name} = *{pointer};", defines=name)
        self.result_names: list[str] = []
        for number, value in enumerate(function.results):
            hint = identifier(value.name) if value.name else ("out" if len(function.results) == 1 else f"out{number}")
            storage = self.plan.storage.get(value)
            is_own = storage is not None and storage.result == number
            name = self.fresh(hint if is_own and hint not in self.names else f"{hint}_out" if value.name else hint)
            self.result_names.append(name)
            if storage is not None and is_own:
                self.places[storage] = name
                self.declared.add(storage)
            self.arguments.append((f"{self.ctype(value.dtype)} *restrict {name}", name))

    def _all_values(self) -> Iterator[Value]:
        yield from self.function.params
        for operation in walk(self.function.body):
            yield from operation.results
            for block in operation.blocks:
                yield from block.params

    def fresh(self, hint: str) -> str:
        name = base = identifier(hint)
        number = 1
        while name in self.names or name in RESERVED:
            name = f"{base}_{number}" if base[-1].isdigit() else f"{base}{number}"
            number += 1
        self.names.add(name)
        return name

    def place_of(self, storage: Storage) -> str:
        """Return the C name of a storage class, allocating workspace for large ones."""
        if storage not in self.places:
            members = storage.members
            hint = next((m.name for m in members if m.name), "") or "t"
            self.places[storage] = self.fresh(hint)
            value = members[0]
            if value.shape and not self.is_on_stack(value):
                self.take(self.places[storage], value.dtype, math.prod(self.shape(value)))
                self.declared.add(storage)
        return self.places[storage]

    def is_on_stack(self, value: Value) -> bool:
        """Return whether an array is small enough for a local variable."""
        return is_static(value.shape) and math.prod(value.shape) <= LOCAL

    def take(self, name: str, dtype: np.dtype[Any], size: Dim) -> None:
        self.memory.append(_Memory(name, self.ctype(dtype), size))

    # Lines.

    def line(self, text: str, defines: str = "") -> None:
        self.lines.append(_Line(self.depth, text, defines))

    def comment(self, span: Span | None) -> None:
        """Write the user's line where it changes."""
        if span is None or not self.comments:
            return
        source = span.text().strip().replace("*/", "* /")
        if len(source) > 90:
            source = source[:87].rstrip() + "..."
        text = f"{os.path.basename(span.file)}:{span.line}" + (f"  {source}" if source else "")
        if text != self.last_comment:
            self.last_comment = text
            self.lines.append(_Line(self.depth, f"/* {text} */", is_comment=True))

    def comment_all(self, operations: Sequence[Operation]) -> None:
        """Write the user's lines of several operations, each once."""
        seen: set[tuple[str, int]] = set()
        for operation in operations:
            span = operation.span
            if span is not None and (span.file, span.line) not in seen:
                seen.add((span.file, span.line))
                self.comment(span)

    @contextmanager
    def braces(self, header: str) -> Iterator[None]:
        self.line(f"{header} {{" if header else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def loops(self, shape: Sequence[Dim], *, simd: str | None = None) -> Iterator[list[Dim]]:
        names: list[Dim] = []
        opened = 0
        level = len(self.open_letters)
        for number, size in enumerate(shape):
            if isinstance(size, int) and size == 1:
                names.append(0)
                continue
            is_last = all(isinstance(d, int) and d == 1 for d in shape[number + 1 :])
            if is_last and simd is not None:
                self.line(f"#pragma omp simd {simd}".rstrip())
            names.append(self.open_loop(size))
            opened += 1
        yield names
        for _ in range(opened):
            self.close_loop()
        assert len(self.open_letters) == level

    open_letters: list[str]

    def open_loop(self, size: Dim) -> Dim:
        letter = self.letters[len(self.open_letters)]
        self.open_letters.append(letter)
        self.ranges[letter] = (0, size - 1)
        self.line(f"for (int64_t {letter} = 0; {letter} < {wrap(index_text(size), SUM)}; {letter}++) {{")
        self.depth += 1
        return symbol(letter)

    def close_loop(self) -> None:
        self.depth -= 1
        self.line("}")
        self.open_letters.pop()

    def assign(self, target: str, text: str, *, add: bool = False) -> None:
        base = _WORD.match(target)
        self.lines.append(_Line(self.depth, assignment(target, text, add), assigns=base[0] if base else ""))

    # Elements.

    def read(self, value: Value, index: Sequence[Dim]) -> str:
        if value in self.bound:
            return self.bound[value]
        if value in self.row_values:
            return self.in_row(value, index)
        if value in self.loop_names:
            return self.loop_names[value]
        if value in self.parameters:
            name = self.parameters[value]
            return name if not value.shape else f"{name}[{index_text(flatten(index, self.shape(value)))}]"
        if value in self.pointers:
            return f"{self.pointers[value]}[{index_text(flatten(index, self.shape(value)))}]"
        return self.place(value, index)

    def read_flat(self, value: Value, position: Dim) -> str:
        return f"{self.pointer(value)}[{index_text(position)}]" if value.shape else self.read(value, ())

    def table(self, value: Value, index: Sequence[Dim]) -> str:
        operation = value.producer
        assert operation is not None
        if value not in self.tables:
            array = operation.attrs["value"]
            name = self.fresh(value.name or "table")
            self.tables[value] = name
            numbers = [literal(x, array.dtype) for x in array.ravel()]
            head = f"static const {self.ctype(array.dtype)} {name}[{array.size}] = {{"
            self.table_texts.append("\n".join([head, *_filled(numbers, 112), "};"]))
        return f"{self.tables[value]}[{index_text(flatten(index, value.shape))}]"

    def pointer(self, value: Value) -> str:
        source = self.contiguous(value)
        assert source is not None, f"{value!r} has no storage"
        if source in self.parameters:
            base = self.parameters[source] if source.shape else f"{self.parameters[source]}_in"
        elif source in self.pointers:
            base = self.pointers[source]
        else:
            base = self.place_of(self.plan.storage[source])
            if self.is_variable(self.plan.storage[source]):
                base = f"&{base}"
        position = self.position_in(value)
        return self.offset(base, position)

    def position_in(self, value: Value) -> Dim:
        """Return where the elements of a value begin in the array that holds them."""
        if value not in self.lazy or value.producer is None:
            return 0
        operation = value.producer
        x = operation.operands[0]
        start = self.position_in(x)
        if operation.op == "gather":
            shape = self.shape(x)
            places = self.gather_index(operation, ())
            start = start + flatten(places, shape[: len(places)])*math.prod(shape[len(places) :])
        return start

    def loop_index(self, value: Value) -> Dim | None:
        return symbol(self.loop_names[value]) if value in self.loop_names else None

    def helper(self, name: str, dtype: np.dtype[Any]) -> str:
        return helper_name(name, dtype)

    def store(self, value: Value, index: Sequence[Dim]) -> str:
        return self.in_row(value, index) if value in self.row_values else self.place(value, index)

    def place(self, value: Value, index: Sequence[Dim]) -> str:
        """Return an element of the storage of a value as it is assigned to."""
        storage = self.plan.storage.get(value)
        assert storage is not None, f"{value!r} is not stored"
        name = self.place_of(storage)
        return name if self.is_variable(storage) else f"{name}[{index_text(flatten(index, self.shape(value)))}]"

    def is_variable(self, storage: Storage) -> bool:
        """Return whether a storage class is one number in a variable rather than an array."""
        value = storage.members[0]
        if not value.shape:
            return True
        return storage.result is None and self.is_on_stack(value) and math.prod(value.shape) == 1

    def in_row(self, value: Value, index: Sequence[Dim]) -> str:
        """Return an element of the buffer for one row of a value."""
        shape = self.shape(value)
        outermost = next(k for k, d in enumerate(shape) if not (isinstance(d, int) and d == 1))
        inner = [0 if k == outermost else i for k, i in enumerate(index)]
        return f"{self.row_values[value]}[{index_text(flatten(inner, shape))}]"

    def scratch(self, dtype: np.dtype[Any], size: Dim) -> str:
        name = self.fresh("scratch")
        self.take(name, dtype, size)
        return name

    def begin_from(self, result: Value, operand: Value) -> None:
        if self.plan.storage[result] is not self.plan.storage.get(operand):
            self.copy(result, operand)

    # Indices and faults.

    def bounds(self, dim: Dim, *, upper: bool) -> Dim | None:
        """Return a bound of an index in terms of sizes, or None when it has parts that are not loop indices."""
        for _ in range(8):
            if isinstance(dim, int):
                return dim
            inner = [name for name in dim.symbols() if name in self.ranges and name in self.live_indices]
            if not inner:
                break
            total: Dim = 0
            for monomial, coefficient in dim.terms:
                chosen = [a for a in monomial if a in inner]
                if len(chosen) > 1 or any(not isinstance(a, str) for a in monomial):
                    return None
                product: Dim = coefficient
                for atom in monomial:
                    assert isinstance(atom, str)
                    if atom in inner:
                        low, high = self.ranges[atom]
                        product = product*(high if (coefficient > 0) == upper else low)
                    else:
                        product = product*symbol(atom)
                total = total + product
            dim = total
        known = set(self.size_names.values())
        return dim if isinstance(dim, int) or all(s in known for s in dim.symbols()) else None

    def is_nonnegative(self, dim: Dim) -> bool:
        """Return whether an index is known not to be negative."""
        bound = self.bounds(dim, upper=False)
        if bound is None:
            return False
        return bound >= 0 if isinstance(bound, int) else all(c >= 0 for _, c in bound.terms)

    @property
    def live_indices(self) -> set[str]:
        return {*self.open_letters, *self.open_indices}

    def checked_place(self, position: Dim, size: Dim, axis: int, span: Span | None, hint: str) -> Dim:
        """Write the check of one index; return the place, not negative."""
        if isinstance(position, int) and position < 0:
            position = size + position
        low, high = self.is_nonnegative(position), self.is_nonnegative(size - 1 - position)
        if low and high:
            return position
        text = index_text(position)
        name = text
        if not low or strength(text) < PRIMARY or not text.isidentifier():
            name = self.fresh(hint)
            place = text if low else fill("{x} < 0 ? {x} + {n} : {x}", {"x": text, "n": index_text(size)})
            self.line(f"const int64_t {name} = {place};")
        bound = wrap(index_text(size), SUM)
        condition = f"{name} >= {bound}" if low else f"{name} < 0 || {name} >= {bound}"
        message = f"index %lld is out of bounds for axis {axis} with size %lld"
        self.fail(condition, "IndexError", message, span, text, index_text(size))
        return symbol(name)

    def checked_index(self, value: Value, index: Sequence[Dim], size: Dim, axis: int, span: Span | None) -> Dim:
        return self.checked_place(self.index_of(value, index), size, axis, span, value.name or "place")

    def fault(self, condition: str, kind: str, message: str, span: Span | None) -> None:
        self.fail(condition, kind, message, span, "0", "0")

    def fail(self, condition: str, kind: str, message: str, span: Span | None, value: str, bound: str) -> None:
        if kind not in _ERROR_NAMES:
            raise unsupported(f"raising {kind}", span)
        self.has_faults = True
        file, line = (span.file, span.line) if span is not None else ("", 0)
        with self.braces(f"if ({condition})"):
            self.line(
                f"return tg_fail(workspace, {_ERROR_NAMES[kind]}, {c_string(file)}, {line}, {c_string(message)}, {value}, {bound});"
            )

    def emit_index(self, operation: Operation) -> None:
        """Write the checks of a gather's indices."""
        x, *indices = operation.operands
        shape, axes = self.shape(x), operation.attrs["axes"]
        if not indices[0].shape:
            self.gather_indices[operation] = [
                self.checked_place(self.index_of(v), shape[axis], axis, operation.span, v.name or "place")
                for v, axis in zip(indices, axes, strict=True)
            ]
            return
        for value, axis in zip(indices, axes, strict=True):
            if self._is_constant_in_range(value, shape[axis]):
                continue
            before = len(self.lines)
            with self.loops(self.shape(value)) as index:
                inside = len(self.lines)
                position = self.index_of(value, index)
                if self.is_nonnegative(position) and self.is_nonnegative(shape[axis] - 1 - position):
                    unneeded = True
                else:
                    unneeded = False
                    text, size = index_text(position), index_text(shape[axis])
                    condition = fill("{x} < -{n} || {x} >= {n}", {"x": text, "n": size})
                    message = f"index %lld is out of bounds for axis {axis} with size %lld"
                    self.fail(condition, "IndexError", message, operation.span, text, size)
                assert len(self.lines) > inside or unneeded
            if unneeded:
                del self.lines[before:]

    def _is_constant_in_range(self, value: Value, size: Dim) -> bool:
        """Return whether an index array is a constant whose elements are places as they are."""
        array = _constant_array(value)
        return array is not None and isinstance(size, int) and bool(((array >= 0) & (array < size)).all())

    def gather_index(self, operation: Operation, index: Sequence[Dim]) -> list[Dim]:
        if operation in self.gather_indices:
            return self.gather_indices[operation]
        x, *indices = operation.operands
        places: list[Dim] = []
        for value, axis in zip(indices, operation.attrs["axes"], strict=True):
            size = self.sizes(x.shape[axis])
            position = self.index_of(value, index)
            if isinstance(position, int) or self.is_nonnegative(position) or self._is_constant_in_range(value, size):
                places.append(size + position if isinstance(position, int) and position < 0 else position)
            else:
                places.append(wrapped(position, size))
        return places

    # Blocks.

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
                with self.braces(f"if ({fill('!{x}', {'x': self.element(operation.operands[0], ())})})"):
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
            self.comment(operation.span)
            self.current = operation
            if operation.op != "pop":
                for result in operation.results:
                    if isinstance(result.type, ArrayType):
                        self.declare(result)
            record.c_statement(self, operation)

    def declare(self, value: Value, *, cleared: bool = False) -> None:
        """Write the declaration of a value's storage unless it stands already."""
        storage = self.plan.storage[value]
        name = self.place_of(storage)
        if storage in self.declared:
            return
        self.declared.add(storage)
        if not self.is_variable(storage):
            self.line(f"{self.ctype(value.dtype)} {name}[{max(1, math.prod(value.shape))}]{' = {0}' if cleared else ''};", name)
        else:
            start = f" = {zero(value.dtype)}" if cleared else ""
            self.line(f"{self.local_ctype(value.dtype)} {name}{start};", name)

    def emit_assign(self, operation: Operation) -> None:
        """Write a small value, one statement per element."""
        value = operation.result
        self.comment(operation.span)
        self.write_small(value, [self.compute(value, index) for index in points(value.shape)])

    def write_small(self, value: Value, texts: list[str]) -> None:
        storage = self.plan.storage[value]
        name = self.place_of(storage)
        if storage in self.declared:
            for index, text in zip(points(value.shape), texts, strict=True):
                target = self.store(value, index)
                if text != target:
                    self.assign(target, text)
            return
        self.declared.add(storage)
        constant = "const " if len(storage.members) == 1 else ""
        if self.is_variable(storage):
            self.line(f"{constant}{self.local_ctype(value.dtype)} {name} = {texts[0]};", name)
            return
        self.write_array(
            f"{constant}{self.ctype(value.dtype)} {name}[{max(1, len(texts))}] = {{", texts or [zero(value.dtype)], name
        )

    def write_array(self, head: str, texts: Sequence[str], name: str) -> None:
        """Write the declaration of an array with its elements."""
        body = ", ".join(texts)
        if len(head) + len(body) < 100:
            self.line(f"{head}{body}}};", name)
        else:
            self.line(head, name)
            for text in texts:
                self.lines.append(_Line(self.depth + 1, f"{text},", name))
            self.lines.append(_Line(self.depth, "};", name))

    def copy(self, target: Value, source: Value) -> None:
        """Write all elements of a value into the storage of another."""
        if not target.shape:
            text = self.element(source, ())
            storage = self.plan.storage[target]
            if storage not in self.declared:
                self.write_small(target, [text])
            elif text != self.store(target, ()):
                self.assign(self.store(target, ()), text)
        elif is_few(target):
            self.write_small(target, [self.element(source, index) for index in points(target.shape)])
        elif self.plan.storage[target] not in self.declared and is_zero(source) and self.is_on_stack(target):
            self.declare(target, cleared=True)
        else:
            self.declare(target)
            self.copy_array(self.place_of(self.plan.storage[target]), source)

    def copy_array(self, name: str, source: Value) -> None:
        """Write the elements of a large array to a pointer."""
        if self.contiguous(source) is not None:
            count = index_text(math.prod(self.shape(source)))
            self.line(f"memcpy({name}, {self.pointer(source)}, {_count(count)}sizeof(*{name}));")
            return
        with self.loops(self.shape(source), simd="") as index:
            self.assign(f"{name}[{index_text(flatten(index, self.shape(source)))}]", self.element(source, index))

    # Nests.

    def emit_nest(self, step: Step) -> None:
        """Write one loop nest."""
        nest = _Nest(self.plan, step)
        self.comment_all(step.operations or step.pushes)
        for operation in step.operations:
            if operation.result in self.plan.storage and self.plan.role(operation) != "reduce":
                self.declare(operation.result)
        for reduction in nest.reductions.values():
            self.begin_reduction(reduction)
        for push in step.pushes:
            self.make_room(self.stacks[push.operands[0]])
        if self.plan.is_flat(step):
            nest.flatten()
        self.emit_levels(nest, [])
        for push in step.pushes:
            if self.plan.moves_top(push):
                self.line(f"{self.stacks[push.operands[0]].top}++;")
        for reduction in nest.reductions.values():
            if reduction.level == 0:
                self.end_sum(reduction, [])

    def emit_rows(self, step: Step) -> None:
        """Write nests that share their outermost loop."""
        plan = self.plan
        nests = [_Nest(plan, member) for member in step.members]
        unrolled = [plan.is_unrolled(m) for m in step.members]
        self.comment_all(step.operations)
        for operation in step.operations:
            if operation.result in plan.storage and (plan.role(operation) != "reduce" or 0 in kept_axes(operation)):
                self.declare(operation.result)
        outer = [r for n in nests for r in n.reductions.values() if 0 not in r.kept]
        for reduction in outer:
            if reduction.kept and all(unrolled):
                self.begin_columns(reduction)
            else:
                self.begin_reduction(reduction)
        clauses = self._clauses([r for r in outer if r.level == 0 or r.columns], None)
        if all(unrolled) and clauses is not None:
            self.line(f"#pragma omp simd {clauses}".rstrip())
        saved, saved_rows = dict(self.bound), dict(self.row_values)
        row = self.open_loop(step.space[0])
        for nest, is_unrolled in zip(nests, unrolled, strict=True):
            if is_unrolled:
                self.emit_row(nest, row)
            else:
                self.emit_levels(nest, [row])
        self.close_loop()
        self.bound = saved
        self.row_values = saved_rows
        for reduction in outer:
            if reduction.level == 0:
                self.end_sum(reduction, [])
            for key, name in reduction.columns.items():
                value = reduction.operation.result
                self.assign(self.place(value, spread(key, value.shape)), name)

    def begin_columns(self, reduction: _Reduction) -> None:
        """Write a running value per element of a small result of a reduction over rows."""
        value = reduction.operation.result
        self.declare(value)
        for key in points(squeeze(value.shape)):
            name = self.fresh("sum" if reduction.is_sum else "best")
            reduction.columns[key] = name
            self.line(f"{self.local_ctype(value.dtype)} {name} = {self.initial_of(reduction.operation)};")

    def emit_levels(self, nest: _Nest, index: list[Dim]) -> None:
        """Write the loops of a nest below those that are open, and their body."""
        plan, space, reductions = self.plan, nest.space, list(nest.reductions.values())
        outer = len(index)
        for operation in nest.operations:
            if outer and operation.result not in plan.storage and self.crosses(operation.result, nest):
                self.begin_row_value(operation, nest)
        for reduction in reductions:
            if outer and 0 in reduction.kept and not reduction.is_plain:
                self.clear_row(reduction, index)
            if 0 < reduction.level < len(space) and not reduction.name:
                reduction.name = self.fresh("sum" if reduction.is_sum else "best")
        clauses = self._clauses(reductions, len(space))
        for level in range(outer, len(space) + 1):
            for reduction in reductions:
                if reduction.level == level and 0 < level < len(space):
                    self.begin_sum(reduction)
            if level < len(space):
                if level == len(space) - 1 and clauses is not None:
                    self.line(f"#pragma omp simd {clauses}".rstrip())
                index.append(self.open_loop(space[level]))
        saved = dict(self.bound)
        self._bind_overwritten(nest, index)
        for operation in nest.operations:
            self.emit_member(nest, operation, index)
        for push in nest.pushes:
            stack, value = push.operands
            place = spread(nest.index(index), value.shape)
            self.assign(self._slot(self.stacks[stack], place), self.element(value, place))
        if outer < len(space):
            self.bound = saved
        for level in range(len(space), outer - 1, -1):
            for reduction in reductions:
                if reduction.level == level and 0 < level < len(space):
                    self.end_sum(reduction, index[:level])
            if level > outer:
                self.close_loop()

    def clear_row(self, reduction: _Reduction, index: Sequence[Dim]) -> None:
        """Write the initial values of what a reduction adds up in memory within a row."""
        value = reduction.operation.result
        initial = self.initial_of(reduction.operation)
        with self.loops(squeeze(self.shape(value))[1:], simd="") as inner:
            self.assign(self.store(value, spread([*index, *inner], value.shape)), initial)

    def emit_member(self, nest: _Nest, operation: Operation, index: Sequence[Dim]) -> None:
        """Write what one operation does at one index of its nest."""
        if operation in nest.reductions:
            self.accumulate(nest.reductions[operation], nest.index(index))
            return
        value = operation.result
        is_stored = value in self.plan.storage or value in self.row_values
        if not is_stored and not self.crosses(value, nest) and self._can_inline(nest, operation):
            self.lazy.add(value)
            return
        text = self.compute(value, spread(nest.index(index), value.shape))
        if nest.uses[value] or not is_stored:
            name = self.fresh(value.name or "t")
            self.line(f"const {self.local_ctype(value.dtype)} {name} = {text};", name)
            self.bound[value] = text = name
        if is_stored:
            self.assign(self.store(value, spread(nest.index(index), value.shape)), text)

    def crosses(self, value: Value, nest: _Nest) -> bool:
        """Return whether a value made in a row is read by another nest of the row."""
        return value in self.plan.row_values and nest.is_member

    def begin_row_value(self, operation: Operation, nest: _Nest) -> None:
        """Declare the buffer for one row of a value that other nests of the row read."""
        value = operation.result
        shape = squeeze(self.shape(value))[1:]
        if not shape:
            return
        if value not in self.row_values:
            self.row_values[value] = self.fresh(value.name or "t")
            if is_static(shape) and math.prod(shape) <= LOCAL:
                self.line(f"{self.ctype(value.dtype)} {self.row_values[value]}[{math.prod(shape)}];")
            else:
                self.take(self.row_values[value], value.dtype, math.prod(shape))

    def emit_row(self, nest: _Nest, row: Dim) -> None:
        """Write what a nest does in one row without loops."""
        inner = nest.space[1:]
        indices = [[row, *point] for point in points(inner)]
        self._bind_overwritten(nest, [row])
        for operation in nest.operations:
            value = operation.result
            if operation in nest.reductions:
                self.reduce_row(nest.reductions[operation], indices)
                continue
            is_stored = value in self.plan.storage
            if not is_stored and not self.crosses(value, nest) and self._can_inline(nest, operation):
                self.lazy.add(value)
                continue
            texts = [self.compute(value, spread(i, value.shape)) for i in indices]
            if nest.uses[value] or not is_stored:
                name = self.fresh(value.name or "t")
                if inner:
                    self.write_array(f"const {self.ctype(value.dtype)} {name}[{len(texts)}] = {{", texts, name)
                    texts = [f"{name}[{k}]" for k in range(len(texts))]
                    self.row_values[value] = name
                else:
                    self.line(f"const {self.local_ctype(value.dtype)} {name} = {texts[0]};", name)
                    self.bound[value] = texts[0] = name
            if is_stored:
                for i, text in zip(indices, texts, strict=True):
                    self.assign(self.place(value, spread(i, value.shape)), text)

    def reduce_row(self, reduction: _Reduction, indices: Sequence[Sequence[Dim]]) -> None:
        """Write a reduction over the elements of one row without loops."""
        operation = reduction.operation
        value, x = operation.result, operation.operands[0]
        totals: dict[tuple[Dim, ...], str] = {}
        for index in indices:
            key = tuple(index[k] for k in reduction.kept)
            text = self.reduced_element(operation, index)
            if 0 not in reduction.kept:
                target = reduction.columns.get(key) or (
                    self.store(value, spread(key, value.shape)) if reduction.kept else reduction.name
                )
                self.fold(operation, target, text)
            elif key not in totals:
                totals[key] = text
            elif operation.op == "reduce_sum":
                totals[key] = sum_of(totals[key], text)
            else:
                totals[key] = self.combine(operation, totals[key], text)
        if 0 not in reduction.kept:
            return
        texts = list(totals.values())
        if value in self.plan.storage:
            for key, text in totals.items():
                self.assign(self.place(value, spread(key, value.shape)), text)
            return
        name = self.fresh(value.name or "t")
        if len(texts) > 1 or len(squeeze(value.shape)) > 1:
            self.write_array(f"const {self.ctype(x.dtype)} {name}[{len(texts)}] = {{", texts, name)
            self.row_values[value] = name
        else:
            self.line(f"const {self.local_ctype(x.dtype)} {name} = {texts[0]};", name)
            self.bound[value] = name

    def _can_inline(self, nest: _Nest, operation: Operation) -> bool:
        value = operation.result
        weight = 1 + sum(self.plan.weights.get(v, 0) for v in operation.operands)
        reader = nest.readers.get(value)
        if nest.uses[value] != 1 or value.name or weight > 6 or reader is None or reader.op == "select":
            return False
        self.plan.weights[value] = weight
        return True

    def _bind_overwritten(self, nest: _Nest, index: Sequence[Dim]) -> None:
        """Read what the nest itself overwrites before anything is written."""
        storage = self.plan.storage
        for operation in nest.operations:
            if operation.result not in storage:
                continue
            for value in nest.reads:
                if storage.get(value) is not storage[operation.result] or not value.shape:
                    continue
                if nest.uses[value] == 1 and nest.readers[value] is operation:
                    continue
                name = self.fresh(value.name or "old")
                if len(index) < len(nest.space):
                    texts = [self.read(value, spread([*index, *point], value.shape)) for point in points(nest.space[1:])]
                    self.write_array(f"const {self.ctype(value.dtype)} {name}[{len(texts)}] = {{", texts, name)
                    self.row_values[value] = name
                else:
                    text = self.read(value, spread(nest.index(index), value.shape))
                    self.line(f"const {self.local_ctype(value.dtype)} {name} = {text};", name)
                    self.bound[value] = name

    def _clauses(self, reductions: Sequence[_Reduction], rank: int | None) -> str | None:
        """Return the clauses of the simd pragma of a loop; None when it cannot be vectorised.

        Reductions whose level is `rank` add to memory and need none.
        """
        found: dict[str, list[str]] = {}
        for reduction in reductions:
            if reduction.level == rank:
                continue
            combiner, dtype = TABLE[reduction.operation.op].c_reduce, reduction.operation.result.dtype
            op = combiner[1] if combiner is not None else "add"
            names = list(reduction.columns.values()) or [reduction.name]
            if op in _CLAUSES:
                found.setdefault(_CLAUSES[op], []).extend(names)
            elif op in _EXTREMES and dtype.kind == "f":
                found.setdefault(f"{_EXTREMES[op]}_f{8*dtype.itemsize}", []).extend(names)
            else:
                return None
        return " ".join(f"reduction({sign} : {', '.join(names)})" for sign, names in found.items())

    def begin_reduction(self, reduction: _Reduction) -> None:
        """Write what precedes the nest: the running value, or cleared elements."""
        value = reduction.operation.result
        if reduction.level == 0:
            storage = self.plan.storage[value]
            if not value.shape:
                reduction.name = self.place_of(storage)
                if storage in self.declared:
                    self.assign(reduction.name, self.initial_of(reduction.operation))
                    return
                self.declared.add(storage)
            else:
                self.declare(value)
                reduction.name = self.fresh("sum" if reduction.is_sum else "best")
            self.begin_sum(reduction)
            return
        self.declare(value)
        if reduction.is_plain:
            return
        shape = self.shape(value)
        initial = self.initial_of(reduction.operation)
        with self.loops(shape, simd="") as index:
            self.assign(self.store(value, index), initial)

    def initial_of(self, operation: Operation) -> str:
        return zero(operation.result.dtype) if operation.op == "dot_general" else self.initial(operation)

    def begin_sum(self, reduction: _Reduction) -> None:
        ctype = self.local_ctype(reduction.operation.result.dtype)
        self.line(f"{ctype} {reduction.name} = {self.initial_of(reduction.operation)};")

    def accumulate(self, reduction: _Reduction, index: Sequence[Dim]) -> None:
        """Write one step of a reduction at one index of its nest."""
        operation = reduction.operation
        target = reduction.name
        if reduction.level == len(reduction.space):
            target = self.store(operation.result, self._kept(reduction, index))
        self.fold(operation, target, self.reduced_element(operation, index))

    def reduced_element(self, operation: Operation, index: Sequence[Dim]) -> str:
        """Return what a reduction takes in at one index of its nest."""
        x = operation.operands[0]
        if operation.op == "dot_general":
            texts = []
            for operand, axes in zip(operation.operands, operation.attrs["contract"], strict=True):
                place: list[Dim] = [0]*len(operand.shape)
                for axis, position in zip(axes, spread(index, x.shape), strict=True):
                    place[axis] = position
                texts.append(self.element(operand, place))
            return fill("{x}*{y}", {"x": texts[0], "y": texts[1]})
        return self.element(x, spread(index, x.shape))

    def fold(self, operation: Operation, target: str, text: str) -> None:
        """Write one step of a reduction into its target."""
        if operation.op in ("reduce_sum", "dot_general"):
            self.assign(target, text, add=True)
        else:
            self.assign(target, self.combine(operation, target, text))

    def _kept(self, reduction: _Reduction, index: Sequence[Dim]) -> list[Dim]:
        """Return the index into a reduction's result."""
        return spread([index[k] for k in reduction.kept], reduction.operation.result.shape)

    def end_sum(self, reduction: _Reduction, index: Sequence[Dim]) -> None:
        """Write the running value of a reduction to its result."""
        operation = reduction.operation
        value = operation.result
        if value not in self.plan.storage and len(squeeze(value.shape)) == 1:
            self.bound[value] = reduction.name  # a number of the row
            return
        target = self.store(value, self._kept(reduction, index))
        if target == reduction.name:
            return
        if reduction.is_plain:
            self.assign(target, reduction.name)
        else:
            self.fold(operation, target, reduction.name)

    # Control flow.

    open_indices: list[str]

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
            self.move(list(zip(self.plan.carries(operation), block.yields, strict=True)))
        self.open_indices.pop()

    def enter(self, operation: Operation, inits: Sequence[Value]) -> None:
        """Write the first values of what a loop carries."""
        carries = self.plan.carries(operation)
        moves = []
        for param, init in zip(carries, inits, strict=True):
            if may_be_undefined(init):
                self.declare(param, cleared=True)
            if init.producer is None or init.producer.op != "undefined":
                moves.append((param, init))
        self.move(moves)

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
            self.move(list(zip(block.params, block.yields, strict=True)))

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
            self.declare(result, cleared=may_be_undefined(result))
        written: list[list[_Line]] = []
        for block in (then, otherwise):
            before, self.lines = self.lines, []
            comment = self.last_comment
            self.depth += 1
            self.emit_block(block)
            self.move([
                (r, y) for r, y in zip(operation.results, block.yields, strict=True)
                if y.producer is None or y.producer.op != "undefined"
            ])
            self.depth -= 1
            self.last_comment = comment
            written.append(self.lines)
            self.lines = before
        if not any(not x.is_comment for x in written[0]):
            if any(not x.is_comment for x in written[1]):
                self.line(f"if ({fill('!{x}', {'x': condition})}) {{")
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

    saved_old: list[Value]
    current: Operation

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
            self.line(f"memcpy({name}, {place}, {_count(index_text(count))}sizeof(*{name}));")
        for value in readers:
            if not self.is_variable(storage):
                self.pointers[value] = name
            else:
                self.bound[value] = name
            self.saved_old.append(value)

    # Stacks.

    def new_stack(self, stack: Value) -> None:
        operation = stack.producer
        assert operation is not None and isinstance(stack.type, StackType)
        element: ArrayType = stack.type.element
        name = self.fresh(stack.name or "stack")
        size = math.prod(self.sizes(d) for d in element.shape)
        partner = next((self.stacks[s] for s in self.plan.step_partners(stack) if s in self.stacks), None)
        made = _Stack(name, partner.top if partner else self.fresh(f"{name}_top"), element, size)
        self.stacks[stack] = made
        capacity = operation.attrs["capacity"]
        if capacity is not None:
            self.memory.append(_Memory(name, self.ctype(element.dtype), self.sizes(capacity)*size))
        else:
            made.number = len(self.growing)
            self.growing.append(made)
            made.fields = (f"stacks[{made.number}]", self.fresh(f"{name}_capacity"))
            bytes_each = self._bytes(made)
            self.line(f"{self.ctype(element.dtype)} *{name} = {made.fields[0]}.data;")
            self.line(f"int64_t {made.fields[1]} = tg_capacity(&{made.fields[0]}, {bytes_each});")
        if partner is None:
            self.line(f"int64_t {made.top} = 0;", made.top)

    def _bytes(self, stack: _Stack) -> str:
        size = f"(int64_t)sizeof({self.ctype(stack.element.dtype)})"
        return size if stack.size == 1 else f"{wrap(index_text(stack.size), PRODUCT)}*{size}"

    def _slot(self, stack: _Stack, index: Sequence[Dim]) -> str:
        shape = tuple(self.sizes(d) for d in stack.element.shape)
        return f"{stack.name}[{index_text(symbol(stack.top)*stack.size + flatten(index, shape))}]"

    def make_room(self, made: _Stack) -> None:
        """Write the growth of a stack that is full."""
        if made.number is not None:
            with self.braces(f"if ({made.top} == {made.fields[1]})"):
                self.line(f"{made.name} = tg_grow(&{made.fields[0]}, {self._bytes(made)}, &{made.fields[1]});")
                self.fault(f"!{made.name}", "MemoryError", "no memory for the residuals of a loop", None)

    def push(self, stack: Value, value: Value) -> None:
        made = self.stacks[stack]
        self.make_room(made)
        moves = self.plan.moves_top(self.current)
        if not value.shape:
            self.assign(f"{made.name}[{made.top}{'++' if moves else ''}]", self.element(value, ()))
            return
        if is_few(value):
            for index in points(value.shape):
                self.assign(self._slot(made, index), self.element(value, index))
        else:
            with self.loops(self.shape(value), simd="") as place:
                self.assign(self._slot(made, place), self.element(value, place))
        if moves:
            self.line(f"{made.top}++;")

    def pop(self, stack: Value, result: Value) -> None:
        made = self.stacks[stack]
        storage = self.plan.storage.get(result)
        moves = self.plan.moves_top(self.current)
        if storage is None:
            if moves:
                self.line(f"{made.top}--;")
            return
        if not result.shape:
            self.write_small(result, [f"{made.name}[{'--' if moves else ''}{made.top}]"])
            return
        if moves:
            self.line(f"{made.top}--;")
        if len(storage.members) == 1 and storage.result is None and not self._is_pushed_again(stack, result):
            name = self.fresh(result.name or "t")
            self.line(f"const {self.ctype(result.dtype)} *const {name} = &{self._slot(made, [0]*len(result.shape))};", name)
            self.pointers[result] = name
        else:
            if is_few(result):
                self.write_small(result, [self._slot(made, index) for index in points(result.shape)])
            else:
                self.declare(result)
                with self.loops(self.shape(result), simd="") as place:
                    self.assign(self.store(result, place), self._slot(made, place))

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

    # The whole text.

    def emit(self) -> CSource:
        self.open_letters, self.open_indices, self.saved_old = [], [], []
        self.emit_block(self.function.body)
        for number, value in enumerate(self.function.results):
            storage = self.plan.storage.get(value)
            if storage is None or storage.result != number:
                self.write_result(number, value)
        body = _without_unused(self.lines)
        return CSource(self.assemble(body), self.kernel, self.size_symbols)

    def write_result(self, number: int, value: Value) -> None:
        name = self.result_names[number]
        self.last_comment = ""
        if not value.shape:
            self.assign(f"*{name}", self.element(value, ()))
        elif is_few(value):
            for position, index in enumerate(points(value.shape)):
                self.assign(f"{name}[{position}]", self.element(value, index))
        else:
            self.copy_array(name, value)

    def assemble(self, body: list[_Line]) -> str:
        body_text = "\n".join(f"{_INDENT*x.depth if not x.text.startswith('#') else ''}{x.text}" for x in body)
        words = set(_WORD.findall(body_text))
        kept = [m for m in self.memory if m.name in words]
        header = 64*((bool(self.has_faults) or bool(self.growing)) + -(-16*len(self.growing)//64))
        sizes = [self.size_names[s] for s in self.size_symbols]
        size_arguments = ", ".join(f"int64_t {s}" for s in sizes) or "void"
        opening: list[str] = []
        if self.growing:
            opening.append("tg_stack *const stacks = (tg_stack *)((char *)workspace + 64);")
        if kept:
            start = f"(char *)workspace + {header}" if header else "workspace"
            opening.append(f"char *memory = {start};")
            opening += [f"{m.ctype} *restrict {m.name} = tg_take(&memory, {_bytes_text(m)});" for m in kept]
        used = words | set(_WORD.findall("\n".join(opening)))
        arguments = [a for a, _ in self.arguments] + [f"int64_t {s}" for s in sizes] + ["void *workspace"]
        unused = [p for p in [*(p for _, p in self.arguments), *sizes, "workspace"] if p not in used]
        opening = [f"(void){p};" for p in unused] + opening
        kernel = _signature(f"int {self.kernel}", arguments)
        opening_text = "".join(f"{_INDENT}{x}\n" for x in opening)
        fixed = header + sum(-(-_fixed_bytes(m)//64)*64 for m in kept)
        varying = [f"tg_aligned({_bytes_text(m)})" for m in kept if not isinstance(m.size, int)]
        used_sizes = set(_WORD.findall(" ".join(varying)))
        size_body = [f"(void){s};" for s in sizes if s not in used_sizes]
        if len(varying) < 2:
            size_body.append(f"return {' + '.join([str(fixed)] * (fixed > 0 or not varying) + varying)};")
        else:
            size_body += [f"int64_t size_bytes = {fixed};", *(f"size_bytes += {v};" for v in varying), "return size_bytes;"]
        parts = [
            f"{kernel}\n{{\n{opening_text}{body_text}\n{_INDENT}return 0;\n}}",
            f"int64_t {self.kernel}_workspace({size_arguments})\n{{\n" + "".join(f"{_INDENT}{x}\n" for x in size_body) + "}",
        ]
        passed = [f"pointers[{k}]" for k in range(len(self.arguments))] + [f"sizes[{k}]" for k in range(len(sizes))]
        entry = [*([] if sizes else ["(void)sizes;"]), *([] if self.arguments else ["(void)pointers;"])]
        entry.append(f"const int kind = {self.kernel}({', '.join([*passed, 'workspace'])});")
        entry.append("if (kind && error) *error = *(const tg_error *)workspace;" if self.has_faults else "(void)error;")
        entry.append("return kind;")
        entry_head = _signature(
            f"int {self.kernel}_entry", ["void *const *pointers", "const int64_t *sizes", "void *workspace", "tg_error *error"]
        )
        parts.append(f"{entry_head}\n{{\n" + "".join(f"{_INDENT}{x}\n" for x in entry) + "}")
        declarations = [f"{kernel};", f"int64_t {self.kernel}_workspace({size_arguments});", f"{entry_head};"]
        if self.growing:
            release = f"void {self.kernel}_release(void *workspace)"
            declarations.append(f"{release};")
            parts.append(
                f"{release}\n{{\n{_INDENT}tg_stack *const stacks = (tg_stack *)((char *)workspace + 64);\n"
                f"{_INDENT}for (int64_t k = 0; k < {len(self.growing)}; k++) {{\n{2*_INDENT}free(stacks[k].data);\n"
                f"{2*_INDENT}stacks[k].data = NULL;\n{2*_INDENT}stacks[k].capacity = 0;\n{_INDENT}}}\n}}"
            )
        everything = "\n".join(parts)
        if "tg_matmul" in everything:
            setter = f"void {self.kernel}_set_blas(const tg_blas *routines)"
            declarations.append(f"{setter};")
            parts.append(f"{setter}\n{{\n{_INDENT}tg_blas_routines = routines;\n}}")
            everything = "\n".join(parts)
        prelude = prelude_for(everything)
        return (
            f"{_head(self.kernel)}\n{_INCLUDES}\n{_vector_maths(prelude + everything)}{prelude}"
            + "\n".join(declarations)
            + "\n\n"
            + "".join(f"{t}\n\n" for t in self.table_texts)
            + "\n\n".join(parts)
            + "\n"
        )


class _Nest:
    """A nest while it is written: who reads what in it, and its reductions."""

    def __init__(self, plan: Plan, step: Step) -> None:
        self.operations, self.space, self.reads = step.operations, step.space, step.reads
        self.shape = step.space
        self.is_member = any(step in s.members for steps in plan.steps.values() for s in steps)
        self.uses: Counter[Value] = Counter()
        self.readers: dict[Value, Operation] = {}
        self.pushes = step.pushes
        for operation in [*step.operations, *step.pushes]:
            for value, _, count in plan.nest_accesses(operation):
                self.uses[value] += count
                self.readers[value] = operation
        self.reductions = {o: _Reduction(o, step.space) for o in step.operations if plan.role(o) == "reduce"}

    def flatten(self) -> None:
        """Walk through all elements by one loop."""
        self.space = (math.prod(self.space),)

    def index(self, index: Sequence[Dim]) -> Sequence[Dim]:
        """Return the index of an element for the positions of the loops."""
        return [*[0]*(len(self.shape) - len(self.space)), *index]


@dataclass(slots=True)
class _Reduction:
    """A reduction in a nest.

    `level`: the loop depth at which its running value stands; at the depth of the nest it adds to its result in memory.
    """

    operation: Operation
    space: Shape
    name: str = ""
    kept: list[int] = field(default_factory=list)
    level: int = 0
    columns: dict[tuple[Dim, ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept = kept_axes(self.operation)
        self.level = self.kept[-1] + 1 if self.kept else 0

    @property
    def is_plain(self) -> bool:
        """Whether each result is complete when its running value ends: the kept axes come first."""
        return self.kept == list(range(len(self.kept))) and self.level < len(self.space)

    @property
    def is_sum(self) -> bool:
        return self.operation.op in ("reduce_sum", "dot_general")


def assignment(target: str, text: str, add: bool) -> str:
    """Return an assignment statement, short where C has a short form.

    >>> assignment("s", "s + a*b", False), assignment("s", "-a", True)
    ('s += a*b;', 's -= a;')
    """
    if add:
        if text.startswith("-") and strength(text) >= PRODUCT:
            return f"{target} -= {normalize_template(text[1:], '')};"
        return f"{target} += {text};"
    for sign, least in ((" + ", PRODUCT), (" - ", PRODUCT), ("*", UNARY), ("/", UNARY)):
        if text.startswith(target + sign):
            rest = text[len(target + sign) :]
            if _is_whole(rest) and strength(rest) >= least:
                return f"{target} {sign.strip()}= {rest};"
    return f"{target} = {text};"


def _is_whole(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            return False
    return depth == 0


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
            first = low + distance//size*step
        else:
            first = low + symbol(f"tg_floor_divide_i64({index_text(distance)}, {size})")*step
    compare = ">=" if step > 0 else "<="
    move = advance.get(-step, f"{name} {'-' if step > 0 else '+'}= {size}")
    return f"for (int64_t {name} = {index_text(first)}; {name} {compare} {wrap(index_text(low), SUM)}; {move})"


def _count(text: str) -> str:
    return "" if text == "1" else f"{fill('(size_t){n}', {'n': text})}*"


def c_string(text: str) -> str:
    """Return a C string literal."""
    escaped = "".join(
        c if " " <= c <= "~" and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode("utf-8")) for c in text
    )
    return f'"{escaped}"'


def _symbols_in(attribute: Any) -> frozenset[str]:
    if isinstance(attribute, SymbolicDim):
        return attribute.symbols()
    if isinstance(attribute, tuple):
        return frozenset().union(*(_symbols_in(a) for a in attribute)) if attribute else frozenset()
    if isinstance(attribute, ArrayType):
        return _symbols_in(attribute.shape)
    return frozenset()


def may_be_undefined(value: Value) -> bool:
    """Return whether a value is, or is chosen by branches from what includes, an `undefined` one."""
    operation = value.producer
    if operation is None:
        return False
    if operation.op == "if":
        position = operation.results.index(value)
        return any(may_be_undefined(b.yields[position]) for b in operation.blocks)
    if operation.op in ("for", "while"):
        return may_be_undefined(operation.operands[operation.results.index(value) + (2 if operation.op == "for" else 0)])
    return operation.op == "undefined"


def is_zero(value: Value) -> bool:
    """Return whether a value is an array of zeros."""
    operation = value.producer
    return operation is not None and operation.op == "full" and not operation.attrs["value"]


def _constant_array(value: Value) -> np.ndarray[Any, Any] | None:
    operation = value.producer
    while operation is not None and operation.op in ("reshape", "broadcast_to", "transpose"):
        operation = operation.operands[0].producer
    return operation.attrs["value"] if operation is not None and operation.op == "constant" else None


def _fixed_bytes(memory: _Memory) -> int:
    return max(0, memory.size)*_ITEM_SIZES[memory.ctype] if isinstance(memory.size, int) else 0


_ITEM_SIZES = {ctype: dtype.itemsize for dtype, ctype in CTYPES.items()}


def _bytes_text(memory: _Memory) -> str:
    size = index_text(memory.size)
    if size == "1":
        return f"(int64_t)sizeof({memory.ctype})"
    return f"{wrap(size, PRODUCT)}*(int64_t)sizeof({memory.ctype})"


def _signature(head: str, arguments: Sequence[str]) -> str:
    """Return a function head, broken at 120 columns."""
    lines, current = [], f"{head}("
    for number, argument in enumerate(arguments):
        piece = argument + (", " if number + 1 < len(arguments) else ")")
        if len(current) + len(piece) > 120:
            lines.append(current.rstrip())
            current = " "*(len(head) + 1)
        current += piece
    return "\n".join([*lines, current])


def _filled(texts: Sequence[str], width: int) -> list[str]:
    lines, current = [], _INDENT
    for text in texts:
        if len(current) + len(text) > width:
            lines.append(current.rstrip())
            current = _INDENT
        current += f"{text}, "
    return [*lines, current.rstrip()]


def _without_unused(lines: list[_Line]) -> list[_Line]:
    """Return the lines without variables that nothing reads, and without comments on nothing."""
    words = [Counter(_WORD.findall(x.text)) if not x.is_comment else Counter() for x in lines]
    total: Counter[str] = Counter()
    own: Counter[str] = Counter()
    variables = {x.defines for x in lines if x.defines}
    groups: dict[str, list[int]] = {}
    for number, (entry, found) in enumerate(zip(lines, words, strict=True)):
        total.update(found)
        name = entry.defines or entry.assigns
        if name in variables:
            own[name] += found[name]
            groups.setdefault(name, []).append(number)
    removed: set[int] = set()
    waiting = [name for name in variables if total[name] == own[name]]
    while waiting:
        for number in groups.pop(waiting.pop(), ()):
            removed.add(number)
            total.subtract(words[number])
            name = lines[number].defines or lines[number].assigns
            for word in words[number]:
                if word in groups and word != name and total[word] == own[word]:
                    waiting.append(word)
    kept: list[_Line] = []
    for number, entry in enumerate(lines):
        if number not in removed:
            kept.append(entry)
        elif taken := re.search(r"\[--(\w+)\]", entry.text):
            kept.append(_Line(entry.depth, f"{taken[1]}--;"))
    return [
        entry
        for entry, following in zip(kept, [*kept[1:], _Line(0, "}")], strict=True)
        if not (entry.is_comment and (following.is_comment or following.text.startswith("}")))
    ]


def _head(name: str) -> str:
    return (
        f"/*\n * {name}: generated by tracegrad.\n *\n"
        " * cc -std=c99 -O3 -march=native -fno-math-errno -fopenmp-simd -c; link with -lm.\n"
        " * Arrays are row-major. The workspace is zeroed before its first use and aligned to 64 bytes.\n */\n"
    )


_INCLUDES = """#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
"""


def _vector_maths(text: str) -> str:
    """Return declarations that let gcc call the vector versions of the functions of libm that a text uses."""
    words = set(_WORD.findall(text))
    lines = []
    for minor in (22, 35):
        found = []
        for name, since in _VECTOR_MATHS.items():
            for suffix, type in (("", "double"), ("f", "float")):
                if since == minor and name + suffix in words:
                    arguments = f"{type}, {type}" if name in _TWO_ARGUMENTS else type
                    found.append(f'__attribute__((simd("notinbranch"))) {type} {name}{suffix}({arguments});')
        if found:
            guard = f"__GNUC__ >= 9 && !defined(__clang__) && defined(__x86_64__) && __GLIBC__ == 2 && __GLIBC_MINOR__ >= {minor}"
            lines += [f"#if defined(__GLIBC__) && {guard}", *found, "#endif"]
    return "\n".join(["/* Vector versions of these functions are in glibc's libmvec. */", *lines, "", ""]) if lines else ""


# The prelude.

_FLOAT_FUNCTIONS = (
    "fabs sqrt exp log log1p expm1 pow floor ceil fmod copysign tgamma lgamma sin cos tan tanh rint trunc fmax fmin exp2"
).split()
_PART_NAMES = re.compile(r"\b(tg_\w+)\s*\(|^}\s*(tg_\w+);|\b(TG_\w+)\b(?=\s*=)|(tg_\w+);$|omp declare reduction\((tg_\w+)", re.M)


@cache
def _prelude_parts() -> tuple[dict[str, str], dict[str, int]]:
    """Return the parts of c_prelude.h by the names they define, and the order of the parts."""
    text = (Path(__file__).parent / "c_prelude.h").read_text(encoding="utf-8")
    parts: dict[str, str] = {}
    order: dict[str, int] = {}
    for number, part in enumerate(text.split("\n\n")[1:]):
        head = re.sub(r"/\*.*?\*/", "", part, flags=re.S)
        if head.lstrip().startswith(("enum", "typedef")):
            names = re.findall(r"^}\s*(tg_\w+);", head, re.M) or re.findall(r"\b(TG_\w+) =", head)
        elif head.lstrip().startswith("#pragma omp declare"):
            names = re.findall(r"reduction\((tg_\w+)", head)
        else:
            first = head.strip().split("{", 1)[0]
            names = re.findall(r"\b(tg_\w+)\s*\(", first)[:1] or re.findall(r"\b(tg_\w+);", first)
        for name in names:
            parts[name] = part.strip("\n")
            order[name] = number
    return parts, order


def _prelude_part(name: str) -> str | None:
    """Return the part of the prelude that defines a name, derived from the version for double where needed."""
    parts, _ = _prelude_parts()
    if name in parts:
        return parts[name]
    base, _, short = name.rpartition("_")
    if f"{base}_f64" in parts and short in _SHORT_TYPES:
        return _derived(parts[f"{base}_f64"], short)
    if name.endswith("f") and name[:-1] in parts:
        return _derived(parts[name[:-1]], "f32")
    return None


_SHORT_TYPES = {
    "f32": "float", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t", "u16": "uint16_t",
    "u32": "uint32_t", "u64": "uint64_t",
}  # fmt: skip


def _derived(part: str, short: str) -> str:
    """Return the text of a prelude part for another dtype than double."""
    parts, _ = _prelude_parts()
    text = re.sub(r"\bdouble\b", _SHORT_TYPES[short], part)
    if short == "f32":
        text = re.sub(rf"\b({'|'.join(_FLOAT_FUNCTIONS)})\(", r"\1f(", text)
        text = re.sub(r"(?<![\w.])(\d+\.\d*(?:[eE][-+]?\d+)?)(?![\w.])", r"\1f", text)
        text = re.sub(r"->d(\w+)", r"->s\1", text)
        text = re.sub(r"\b(tg_\w+)_f64\b", r"\1_f32", text)
        for name in set(re.findall(r"\btg_\w+", text)):
            if name in parts and re.search(r"\bdouble\b", parts[name].split("{")[0]) and not name.endswith("_f64"):
                text = re.sub(rf"\b{name}\b", f"{name}f", text)
        return text
    text = re.sub(r"\b(tg_\w+)_f64\b", rf"\1_{short}", text)
    return re.sub(r"isnan\([^()]*\)", "0", text)


def prelude_for(text: str) -> str:
    """Return the parts of the prelude that a text needs, in order."""
    _, order = _prelude_parts()
    chosen: dict[str, tuple[int, str]] = {}
    waiting = [text, "tg_error"]
    while waiting:
        for name in _WORD.findall(waiting.pop()):
            if not name.startswith(("tg_", "TG_")) or name in chosen:
                continue
            part = _prelude_part(name)
            if part is None:
                continue
            base = name if name in order else f"{name.rpartition('_')[0]}_f64" if f"{name.rpartition('_')[0]}_f64" in order else name[:-1]
            chosen[name] = (order[base], part)
            waiting.append(part)
    texts = dict.fromkeys(part for _, part in sorted(chosen.values()))
    return "".join(f"{part}\n\n" for part in texts)
