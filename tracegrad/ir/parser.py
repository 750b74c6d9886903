"""Text to IR: the inverse of printer.py.

Previous: printer.py; next: verifier.py. The grammar is in docs/ir.md.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from typing import Any

import numpy as np

from tracegrad.errors import IRError, Span
from tracegrad.ir.core import Block, Function, Interface, Operation, Value
from tracegrad.ir.types import DTYPES, ArrayType, StackType, Type, array_type, symbol

_FUNCTION = re.compile(r"func @(?P<name>[\w.]+)\((?P<params>.*)\) -> \((?P<results>.*)\) \{$")
_SPAN = re.compile(r"\s+// (?P<file>[^'\"]*?):(?P<line>\d+):(?P<column>\d+)$")
_RESULTS = re.compile(r"(?P<results>%[^=]*?) = (?P<rest>[a-z_]\w*.*)$")
_TYPED = re.compile(r"%(?P<name>[\w.]+): (?P<type>stack<[^>]*>|\w+\[[^\]]*\])")
_OPERATION = re.compile(r"(?P<op>[a-z_]\w*)(?P<operands>( %[\w.]+,?)*)(?P<attrs> \{.*\})?$")
_SCALAR_TYPE = re.compile(rf"\b({'|'.join(DTYPES)})\[\]")
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


def parse_function(text: str) -> Function:
    """Parse the text of a function, followed by the functions it calls.

    Raises:
        IRError: the text is malformed; the message shows the line.
    """
    return _Parser(text).functions()


def parse_type(text: str) -> Type:
    """Parse `f64[n,3]` or `stack<f64[3]>`."""
    if text.startswith("stack<"):
        return StackType(array_type(text[len("stack<") : -1]))
    return array_type(text)


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [line.rstrip() for line in text.splitlines()]
        self.position = 0
        self.values: dict[str, Value] = {}
        self.calls: list[tuple[Operation, str, str]] = []

    def error(self, what: str) -> IRError:
        line = self.lines[self.position] if self.position < len(self.lines) else "end of text"
        return IRError(
            f"the IR text is malformed at line {self.position + 1}: {what}",
            code="TG901",
            span=None,
            found=line.strip(),
            help="see the grammar in docs/ir.md",
        )

    def next_line(self) -> str:
        if self.position >= len(self.lines):
            raise self.error("more lines expected")
        line = self.lines[self.position].strip()
        self.position += 1
        return line

    def functions(self) -> Function:
        functions: dict[str, Function] = {}
        while self.position < len(self.lines):
            line = self.lines[self.position].strip()
            if line and not line.startswith("//"):
                function = self.function()
                functions[function.name] = function
            else:
                self.position += 1
        if not functions:
            raise self.error("no function")
        for operation, key, name in self.calls:
            operation.attrs[key] = functions[name]
        return next(iter(functions.values()))

    def function(self) -> Function:
        match = _FUNCTION.match(self.lines[self.position].strip())
        if match is None:
            raise self.error("expected `func @name(%x: type, ...) -> (types) {`")
        self.position += 1
        self.values = {}
        function = Function(match["name"], Block(self.typed(match["params"])))
        self.block(function.body, "return")
        if self.next_line() != "}":
            self.position -= 1
            raise self.error("expected `}`")
        if self.position < len(self.lines) and self.lines[self.position].startswith("interface {"):
            attrs = self.attributes(self.next_line()[len("interface ") :])
            function.interface = Interface(attrs["arguments"], attrs["paths"], attrs["result"])
        return function

    def typed(self, text: str) -> list[Value]:
        values = []
        for match in _TYPED.finditer(text):
            value = Value(parse_type(match["type"]), _hint(match["name"]))
            self.values[match["name"]] = value
            values.append(value)
        return values

    def operands(self, text: str) -> list[Value]:
        names = re.findall(r"%([\w.]+)", text)
        for name in names:
            if name not in self.values:
                self.position -= 1
                raise self.error(f"%{name} is not defined")
        return [self.values[name] for name in names]

    def block(self, block: Block, terminator: str) -> None:
        while True:
            line = self.next_line()
            if line == terminator or line.startswith(terminator + " "):
                block.yields = self.operands(line[len(terminator) :])
                return
            block.operations.append(self.operation(line))

    def operation(self, line: str) -> Operation:
        span = None
        match = _SPAN.search(line)
        if match is not None:
            span = Span(match["file"], int(match["line"]), int(match["column"]))
            line = line[: match.start()]
        block_params = None
        if line.endswith(") {"):
            start = _opening(line, len(line) - 3)
            block_params, line = line[start + 1 : -3], line[:start].rstrip()
        results_text = ""
        match = _RESULTS.match(line)
        if match is not None:
            results_text, line = match["results"], match["rest"]
        match = _OPERATION.match(line)
        if match is None:
            self.position -= 1
            raise self.error("expected an operation")
        operands = self.operands(match["operands"])
        attrs = self.attributes(match["attrs"].strip()) if match["attrs"] else {}
        operation = Operation(match["op"], operands, attrs, [], [], span)
        while block_params is not None:
            block = Block(self.typed(block_params))
            self.block(block, "yield")
            operation.blocks.append(block)
            line = self.next_line()
            block_params = line[3:-3] if line.startswith("} (") else None
        operation.results = self.typed(results_text)
        for result in operation.results:
            result.producer = operation
        if operation.op == "constant":
            kind = operation.result.array_type
            shape = tuple(d for d in kind.shape if isinstance(d, int))
            operation.attrs["value"] = np.array(attrs["value"], kind.dtype).reshape(shape)
        for key, value in attrs.items():
            if isinstance(value, str) and value.startswith("@"):
                self.calls.append((operation, key, value[1:]))
        return operation

    def attributes(self, text: str) -> dict[str, Any]:
        try:
            python = _SCALAR_TYPE.sub(r"\1[()]", text[1:-1])  # `f64[]` is not Python
            call = ast.parse(f"f({python})", mode="eval").body
            assert isinstance(call, ast.Call)
            return {str(k.arg): _attribute(k.value) for k in call.keywords}
        except (SyntaxError, ValueError, KeyError) as error:
            self.position -= 1
            raise self.error(f"bad attributes ({error})") from None


def _hint(name: str) -> str:
    base = name.partition(".")[0]
    return "" if base.isdigit() else base


def _opening(line: str, close: int) -> int:
    depth = 0
    for position in range(close, -1, -1):
        depth += {")": 1, "(": -1}.get(line[position], 0)
        if depth == 0:
            return position
    return 0


def _attribute(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Tuple(elements):
            return tuple(_attribute(e) for e in elements)
        case ast.List(elements):
            return [_attribute(e) for e in elements]
        case ast.Name(name):
            if name in DTYPES:
                return DTYPES[name]
            if name in ("inf", "nan"):
                return getattr(math, name)
            return symbol(name)
        case ast.Subscript(ast.Name(name), index):
            dims = _attribute(index)
            return ArrayType(DTYPES[name], dims if isinstance(dims, tuple) else (dims,))
        case ast.UnaryOp(ast.USub(), operand):
            return -_attribute(operand)
        case ast.BinOp(left, op, right):
            return _OPERATORS[type(op)](_attribute(left), _attribute(right))
    raise ValueError(f"cannot read {ast.unparse(node)}")
