"""IR to text. The text is deterministic and complete: parser.py rebuilds the same function from it.

Previous: builder.py; next: parser.py. The grammar is in docs/ir.md.
"""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import numpy as np

from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.types import ArrayType, StackType, SymbolicDim, dtype_name


class Names:
    """Unique names of values: the hint itself, then `hint.1`, ...; values without hint are numbered."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._used: dict[str, int] = {}

    def __getitem__(self, value: Value) -> str:
        name = self._names.get(value)
        if name is None:
            count = self._used.get(value.name, 0)
            self._used[value.name] = count + 1
            if not value.name:
                name = f"%{count}"
            else:
                name = f"%{value.name}" + (f".{count}" if count else "")
            self._names[value] = name
        return name


def print_function(function: Function, *, spans: bool = True) -> str:
    """Return the text of a function, and of the functions it calls after it.

    Functions of one name get different ones, so that texts are the same only where the functions are.
    """
    labels = {function: function.name}
    texts = []
    for current in (waiting := [function]):
        texts.append(_Printer(spans, labels=labels).function(current))
        waiting += [called for called in labels if called not in waiting]
    return "\n".join(texts)


def print_operations(operations: list[Operation], names: Names | None = None) -> list[str]:
    """Return the lines of some operations; for messages."""
    printer = _Printer(True, names)
    for operation in operations:
        printer.operation(operation, 0)
    return printer.lines


class _Printer:
    """Prints one function.

    Args:
        labels: names of the functions met so far; those that it calls are added.
    """

    def __init__(self, spans: bool, names: Names | None = None, labels: dict[Function, str] | None = None) -> None:
        self.spans = spans
        self.names = names or Names()
        self.lines: list[str] = []
        self.labels: dict[Function, str] = {} if labels is None else labels

    def function(self, function: Function) -> str:
        results = ", ".join(str(v.type) for v in function.results)
        self.lines.append(f"func @{self.label(function)}({self.params(function.body)}) -> ({results}) {{")
        for operation in function.body.operations:
            self.operation(operation, 1)
        self.lines.append(f"  return {self.operands(function.results)}".rstrip())
        self.lines.append("}")
        if function.interface is not None:
            i = function.interface
            self.lines.append(f"interface {{arguments={i.arguments!r}, paths={i.paths!r}, result={i.result!r}}}")
        return "\n".join(self.lines) + "\n"

    def params(self, block: Block) -> str:
        return ", ".join(f"{self.names[p]}: {p.type}" for p in block.params)

    def operands(self, values: list[Value]) -> str:
        return ", ".join(self.names[v] for v in values)

    def operation(self, operation: Operation, depth: int) -> None:
        indent = "  " * depth
        # operands are named before results, so that names follow the order of reading
        text = operation.op
        if operation.operands:
            text += f" {self.operands(operation.operands)}"
        if operation.attrs:
            attrs = ", ".join(f"{key}={self.attribute(value)}" for key, value in operation.attrs.items())
            text += f" {{{attrs}}}"
        span = ""
        if self.spans and operation.span is not None:
            span = f"  // {os.path.basename(operation.span.file)}:{operation.span.line}:{operation.span.column}"
        start = len(self.lines)
        self.lines.append("")
        block_results = ", ".join(f"{self.names[r]}: {r.type}" for r in operation.results)
        if block_results:
            text = f"{block_results} = {text}"
        for position, block in enumerate(operation.blocks):
            header = f" ({self.params(block)}) {{"
            if position == 0:
                self.lines[start] = f"{indent}{text}{header}{span}"
            else:
                self.lines.append(f"{indent}}}{header}")
            for nested in block.operations:
                self.operation(nested, depth + 1)
            self.lines.append(f"{indent}  yield {self.operands(block.yields)}".rstrip())
        if operation.blocks:
            self.lines.append(f"{indent}}}")
        else:
            self.lines[start] = f"{indent}{text}{span}"

    def attribute(self, value: Any) -> str:
        return f"'@{self.label(value)}'" if isinstance(value, Function) else print_attribute(value)

    def label(self, function: Function) -> str:
        if function not in self.labels:
            names = (f"{function.name}_{number}" if number else function.name for number in count())
            self.labels[function] = next(name for name in names if name not in self.labels.values())
        return self.labels[function]


def print_attribute(value: Any) -> str:
    """Return the text of an attribute value."""
    if isinstance(value, np.dtype):
        return dtype_name(value)
    if isinstance(value, np.ndarray | np.generic):
        return print_attribute(value.tolist())
    if isinstance(value, ArrayType | StackType | SymbolicDim):
        return str(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(print_attribute(v) for v in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(print_attribute(v) for v in value) + "]"
    assert value is None or isinstance(value, bool | int | float | complex | str), f"attribute {value!r} has no text"
    return repr(value)
