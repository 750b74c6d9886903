"""Text of functions that call others."""

from __future__ import annotations

from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.parser import parse_function
from tracegrad.ir.printer import print_function
from tracegrad.ir.types import array_type


def unary(name: str, op: str, **attrs: Function) -> Function:
    x = Value(array_type("f64[3]"), "x")
    block = Block([x])
    block.operations.append(Operation(op, [x], dict(attrs), [], [x.type]))
    block.yields = list(block.operations[0].results)
    return Function(name, block)


def test_functions_of_one_name_are_told_apart() -> None:
    texts = set()
    for op in ("sin", "cos"):
        text = print_function(unary("f", "checkpoint", function=unary("f", "checkpoint", function=unary("f", op))))
        assert [text.count(f"func @{name}(") for name in ("f", "f_1", "f_2")] == [1, 1, 1]
        assert print_function(parse_function(text)) == text
        texts.add(text)
    assert len(texts) == 2
