"""Writes lines of C: names, loops, elements of stored values, checks of indices.

Reads a plan, writes lines. Previous: c_library.py; next: c_stacks.py.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracegrad.codegen.c_elements import (
    LOCAL,
    Elements,
    flatten,
    helper_name,
    is_few,
    points,
    unsupported,
    wrapped,
)
from tracegrad.codegen.c_expression import (
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
    wrap,
    zero,
)
from tracegrad.codegen.c_library import has_prelude
from tracegrad.codegen.c_storage import Plan, Storage
from tracegrad.codegen.origins import Origins, find_late, is_cotangent
from tracegrad.errors import Span
from tracegrad.ir.core import (
    Function,
    Operation,
    Value,
    walk,
)
from tracegrad.ir.nouns import noun_of
from tracegrad.ir.types import (
    ArrayType,
    Dim,
    StackType,
    SymbolicDim,
    dim_symbols,
    is_complex,
    is_static,
    real_dtype,
    symbol,
)

#: kinds of errors by number, as in c_prelude.h
ERROR_KINDS = (
    "", "IndexError", "ZeroDivisionError", "ValueError", "LinAlgError", "AssertionError", "OverflowError", "TypeError",
    "KeyError", "RuntimeError", "MemoryError", "FloatingPointError", "StopIteration", "NotImplementedError",
    "ArithmeticError", "UnboundLocalError", "AttributeError", "NameError", "Exception", "LookupError",
)  # fmt: skip
_ERROR_NAMES = {kind: "TG_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).upper() for kind in ERROR_KINDS if kind}
_ERROR_NAMES["LinAlgError"] = "TG_LINALG_ERROR"
INDENT = "    "
#: ops that do not say what they make
_VAGUE = frozenset({"if", "for", "while", "undefined", "select", "full", "constant", "pop", "reshape", "cast"})
WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Line:
    depth: int
    text: str
    defines: str = ""
    assigns: str = ""
    is_comment: bool = False
    is_heading: bool = False
    group: int = 0  # of comments on the same statement


@dataclass(slots=True)
class Memory:
    name: str
    ctype: str
    size: Dim
    is_swapped: bool = False


@dataclass(slots=True)
class Stack:
    name: str
    top: str
    element: ArrayType
    size: Dim
    number: int | None = None  # of a stack that grows
    fields: tuple[str, str] = field(default=("", ""))


class Writer(Elements):
    def __init__(self, function: Function, comments: bool) -> None:
        super().__init__()
        self.plan = Plan(function)
        self.function = self.plan.function
        self.lazy = self.plan.lazy
        self.comments = comments
        self.lines: list[Line] = []
        self.depth = 1
        self.names: set[str] = set()
        #: a name, and whether nobody asked for it -> the last number given to it
        self.numbers: dict[tuple[str, bool], int] = {}
        self.origins, self.late = Origins(), find_late(self.function)
        #: name of a stack while the text is written -> what it is called then
        self.stack_names: dict[str, str] = {}
        self.given_back: set[str] = set()
        self.file_names: set[str] = set()
        self.places: dict[Storage, str] = {}
        self.declared: set[Storage] = set()
        self.bound: dict[Value, str] = {}
        self.loop_names: dict[Value, str] = {}
        self.ranges: dict[str, tuple[Dim, Dim]] = {}
        self.memory: list[Memory] = []
        self.stacks: dict[Value, Stack] = {}
        self.growing: list[Stack] = []
        self.tables: dict[Value, str] = {}
        self.tables_by_content: dict[tuple[str, bytes], str] = {}
        self.table_texts: list[str] = []
        self.pointers: dict[Value, str] = {}
        self.row_values: dict[Value, str] = {}
        self.open_letters: list[str] = []
        self.open_indices: list[str] = []
        self.saved_old: list[Value] = []
        self.undefined: dict[Value, bool] = {}
        self.current: Operation | None = None
        self.has_faults = False
        self.last_comment = ""
        self.in_sweep = False
        self._name_interface()

    # Names.

    def _name_interface(self) -> None:
        function = self.function
        self.hints = {identifier(v.name) for v in self._all_values() if v.name}
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
        self.letters = [c for c in "ijklmpqrs" if c not in self.hints and c not in self.names and c not in symbols]
        self.letters += [f"axis{k}" for k in range(16)]
        self.names |= set(self.letters)
        self.parameters: dict[Value, str] = {}
        self.arguments: list[tuple[str, str]] = []
        for number, param in enumerate(function.params):
            name = self.fresh(param.name or f"x{number}")
            self.parameters[param] = name
            self.origins.add(name, param.name, [param.origin] if param.origin else [], False)
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

    def fresh(self, hint: str, default: str = "t") -> str:
        """Return a name for what the user calls `hint`, or a name that no value of the user's has."""
        name = base = identifier(hint or default)
        other = f"{base}_" if base[-1].isdigit() else base
        number = self.numbers.get((base, not hint), 0)
        if number:  # those before are taken
            name = f"{other}{number}"
        while name in self.names or name in RESERVED or (not hint and name in self.hints):
            number += 1
            name = f"{other}{number}"
        self.numbers[base, not hint] = number
        self.names.add(name)
        return name

    def give_back(self, name: str, hint: str) -> None:
        """Let the name of the index of a loop that has ended be given again."""
        self.names.discard(name)
        self.given_back.add(name)
        self.numbers.pop((identifier(hint), False), None)

    def fresh_everywhere(self, hint: str) -> str:
        """Return a name that no index of a loop has had, for what is named after it was written."""
        while (name := self.fresh(hint)) in self.given_back:
            pass
        return name

    def fresh_for(self, members: Sequence[Value], before: bool = False) -> str:
        """Return a name for a variable of some values: what the user calls them, or the value that they are again.

        Args:
            before: whether it is what a loop carried before an iteration.
        """
        hint = next((m.name for m in members if m.name), "")
        base = hint or next((m.noun for m in members if m.noun and is_cotangent(m.noun)), "")
        numbers = [m.origin for m in members if m.origin]
        is_late = members[0] in self.late
        if is_cotangent(base):
            wanted = self.origins.name_of(numbers, base)
            if wanted == base == hint and self.origins.is_alone(base):
                return self.fresh(hint)
            asked = wanted if hint or wanted != base else ""
            while self.origins.is_of_another(name := self.fresh(asked, wanted), numbers, False):
                pass
            return name
        primal = self.origins.name_of(numbers, "") if is_late else ""
        again = [f"{primal}_again", f"{primal}_before"] if before else [f"{primal}_again"]
        if primal:
            name = self.fresh(next((n for n in again if n not in self.names), again[-1]))
        else:
            name = self.fresh(hint, self.noun_for(members))
        self.origins.add(name, hint, numbers, is_late)
        return name

    def noun_for(self, members: Sequence[Value]) -> str:
        """Return what to call values without a name."""
        made = next((m.producer for m in members if m.producer is not None and m.producer.op not in _VAGUE), None)
        noun = noun_of(made.results[0]) if made is not None and len(made.results) == 1 else "t"
        return noun if identifier(noun) == noun else f"{noun}_t"  # exp is a function of C

    def place_of(self, storage: Storage, before: bool = False) -> str:
        """Return the C name of a storage class, allocating workspace for large ones.

        Args:
            before: whether a new one is of what a loop carried before an iteration.
        """
        if storage not in self.places:
            members = storage.members
            self.places[storage] = self.fresh_for(members, before)
            value = members[0]
            if value.shape and not self.is_on_stack(value):
                self.take(self.places[storage], value.dtype, math.prod(self.shape(value)), storage.is_swapped)
                self.declared.add(storage)
        return self.places[storage]

    def is_on_stack(self, value: Value) -> bool:
        """Return whether an array is small enough for a local variable."""
        return is_static(value.shape) and math.prod(value.shape) <= LOCAL

    def take(self, name: str, dtype: np.dtype[Any], size: Dim, is_swapped: bool = False) -> None:
        self.memory.append(Memory(name, self.ctype(dtype), size, is_swapped))

    # Lines.

    def line(self, text: str, defines: str = "") -> None:
        self.lines.append(Line(self.depth, text, defines))

    def comment(self, span: Span | None) -> None:
        """Write the user's line where it changes; head the sweep of cotangents."""
        if span is None or not self.comments:
            return
        if span.reverse and not self.in_sweep and self.depth == 1:
            self.in_sweep = True
            self.last_comment = ""
            heading = "/* cotangents, from the result back to the arguments */"
            self.lines += [Line(0, "", is_heading=True), Line(1, heading, is_comment=True, is_heading=True)]
        source = span.text().strip().replace("*/", "* /")
        if len(source) > 90:
            source = source[:87].rstrip() + "..."
        text = f"{os.path.basename(span.file)}:{span.line}" + (f"  {source}" if source else "")
        if text != self.last_comment:
            self.last_comment = text
            self.lines.append(Line(self.depth, f"/* {text} */", is_comment=True))

    def comment_all(self, operations: Sequence[Operation]) -> None:
        """Write the user's lines of several operations, each once."""
        seen: set[tuple[str, int]] = set()
        first = len(self.lines)
        for operation in operations:
            span = operation.span
            if span is not None and (span.file, span.line) not in seen:
                seen.add((span.file, span.line))
                self.comment(span)
        for line in self.lines[first:]:
            line.group = first + 1

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
            if is_last and simd is not None and is_worth_simd(size):
                self.line(f"#pragma omp simd {simd}".rstrip())
            names.append(self.open_loop(size))
            opened += 1
        yield names
        for _ in range(opened):
            self.close_loop()
        assert len(self.open_letters) == level

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
        base = WORD.match(target)
        self.lines.append(Line(self.depth, assignment(target, text, add), assigns=base[0] if base else ""))

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
            self.tables[value] = self.table_of(operation.attrs["value"], value.name or "table")
        return f"{self.tables[value]}[{index_text(flatten(index, value.shape))}]"

    def table_of(self, array: np.ndarray[Any, Any], hint: str) -> str:
        """Return the name of a constant array with given elements; one of the same elements serves again."""
        key = array.dtype.str, array.tobytes()
        if key not in self.tables_by_content:
            name = self.fresh(hint)
            while name in self.file_names:
                name = self.fresh(name)
            self.file_names.add(name)
            if is_complex(array.dtype):  # there are no constant expressions for complex numbers
                self.tables_by_content[key] = f"{name}.numbers"
                ctype, parts = self.ctype(array.dtype), array.ravel().view(real_dtype(array.dtype))
                fields = f"{self.ctype(parts.dtype)} parts[{parts.size}]; {ctype} numbers[{array.size}];"
                head, end = f"static const union {{ {fields} }} {name} = {{{{", "}};"
            else:
                self.tables_by_content[key], parts = name, array.ravel()
                head, end = f"static const {self.ctype(array.dtype)} {name}[{array.size}] = {{", "};"
            numbers = [literal(x, parts.dtype) for x in parts]
            self.table_texts.append("\n".join([head, *_filled(numbers, 112), end]))
        return self.tables_by_content[key]

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
            start = start + flatten(places, shape[: len(places)]) * math.prod(shape[len(places) :])
        return start

    def loop_index(self, value: Value) -> Dim | None:
        return symbol(self.loop_names[value]) if value in self.loop_names else None

    def helper(self, name: str, dtype: np.dtype[Any]) -> str:
        made = helper_name(name, dtype)
        if not has_prelude(made):
            what = self.current.op if self.current is not None else name.removeprefix("tg_")
            raise unsupported(f"{what} of {dtype}", self.current.span if self.current is not None else None)
        return made

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
        operation = result.producer
        assert operation is not None
        if operation.op == "scatter_set" and self.plan.is_read_where_written(operation):
            self.declare(result)
        elif self.plan.storage[result] is not self.plan.storage.get(operand):
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
                        product = product * (high if (coefficient > 0) == upper else low)
                    else:
                        product = product * symbol(atom)
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
        place = '"", 0, 0'
        if span is not None:
            place = f"{c_string(os.path.basename(span.file))}, {span.line}, {span.column}"
        with self.braces(f"if ({condition})"):
            self.line(
                f"return tg_fail(workspace, {_ERROR_NAMES[kind]}, {place}, {c_string(message)}, {value}, {bound});"
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

    # Small values and copies.

    def declare(self, value: Value, *, cleared: bool = False) -> None:
        """Write the declaration of a value's storage unless it stands already."""
        storage = self.plan.storage[value]
        name = self.place_of(storage)
        if storage in self.declared:
            return
        self.declared.add(storage)
        if not self.is_variable(storage):
            self.line(
                f"{self.ctype(value.dtype)} {name}[{max(1, math.prod(value.shape))}]{' = {0}' if cleared else ''};",
                name,
            )
        else:
            start = f" = {zero(value.dtype)}" if cleared else ""
            self.line(f"{self.local_ctype(value.dtype)} {name}{start};", name)

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
                self.lines.append(Line(self.depth + 1, f"{text},", name))
            self.lines.append(Line(self.depth, "};", name))

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
            self.line(f"memcpy({name}, {self.pointer(source)}, {byte_count(count)}sizeof(*{name}));")
            return
        with self.loops(self.shape(source), simd="") as index:
            self.assign(f"{name}[{index_text(flatten(index, self.shape(source)))}]", self.element(source, index))


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


def byte_count(text: str) -> str:
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


def is_zero(value: Value) -> bool:
    """Return whether a value is an array of zeros."""
    operation = value.producer
    return operation is not None and operation.op == "full" and not operation.attrs["value"]


def _constant_array(value: Value) -> np.ndarray[Any, Any] | None:
    operation = value.producer
    while operation is not None and operation.op in ("reshape", "broadcast_to", "transpose"):
        operation = operation.operands[0].producer
    return operation.attrs["value"] if operation is not None and operation.op == "constant" else None


def is_worth_simd(size: Dim) -> bool:
    """Return whether a loop is asked to be vectorised.

    Very short ones are not: gcc 12 makes wrong code of some with masked reads at 512 bits.
    """
    return not isinstance(size, int) or size >= 8


def _filled(texts: Sequence[str], width: int) -> list[str]:
    lines, current = [], INDENT
    for text in texts:
        if len(current) + len(text) > width:
            lines.append(current.rstrip())
            current = INDENT
        current += f"{text}, "
    return [*lines, current.rstrip()]
