"""Evaluates a function in IR operation by operation, copying every result: what it means, for tests to compare with."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import tracegrad.ops  # noqa: F401  (fills the table of ops)
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.types import ArrayType, dim_evaluate, dim_symbols
from tracegrad.ops import helpers
from tracegrad.ops.text import numpy_text


def evaluate(function: Function, arguments: Sequence[Any], sizes: dict[str, int] | None = None) -> list[Any]:
    """Return the results of a function as arrays of exactly the IR's types."""
    return _Evaluator(dict(sizes or {})).function(function, arguments)


class _Evaluator:
    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.values: dict[Value, Any] = {}

    def function(self, function: Function, arguments: Sequence[Any]) -> list[Any]:
        for param, argument in zip(function.params, arguments, strict=True):
            self.set(param, argument)
            for axis, dim in enumerate(param.shape):
                if dim_symbols(dim) == {str(dim)}:
                    self.sizes.setdefault(str(dim), np.shape(argument)[axis])
        return self.block(function.body)

    def set(self, value: Value, result: Any) -> None:
        if not isinstance(value.type, ArrayType):
            self.values[value] = result
            return
        array = np.array(result)
        shape = tuple(dim_evaluate(d, self.sizes) for d in value.shape)
        assert array.shape == shape, f"{value!r} has shape {array.shape}"
        if value.producer is not None and value.producer.op not in ("for", "while", "if", "dim", "constant", "full"):
            assert array.dtype == value.dtype or value.producer.op in ("add",), (
                f"{value!r} of {value.producer.op} is {array.dtype}"
            )
        self.values[value] = array.astype(value.dtype)

    def get(self, value: Value) -> Any:
        return self.values[value]

    def block(self, block: Block) -> list[Any]:
        for operation in block.operations:
            self.operation(operation)
        return [self.get(v) for v in block.yields]

    def operation(self, operation: Operation) -> None:
        operands = [self.get(v) for v in operation.operands]
        results: list[Any]
        match operation.op:
            case "if":
                results = self.block(operation.blocks[0 if operands[0] else 1])
            case "for":
                start, stop, *carried = operands
                indices = range(int(start), int(stop), operation.attrs["step"])
                for k in reversed(indices) if operation.attrs["reverse"] else indices:
                    self.bind(operation.blocks[0].params, [k, *carried])
                    carried = self.block(operation.blocks[0])
                results = carried
            case "while":
                condition, body = operation.blocks
                carried = operands
                while True:
                    self.bind(condition.params, carried)
                    if not self.block(condition)[0]:
                        break
                    self.bind(body.params, carried)
                    carried = self.block(body)
                results = carried
            case "call":
                results = _Evaluator({}).function(operation.attrs["function"], operands)
            case "stack":
                results = [[]]
            case "push":
                operands[0].append(copy.deepcopy(operands[1]))
                results = []
            case "pop":
                results = [operands[0].pop()]
            case "constant":
                results = [operation.attrs["value"]]
            case "cast":
                results = [np.asarray(operands[0]).astype(operation.attrs["dtype"])]
            case _:
                names = [f"x{i}" for i in range(len(operands))]
                scope = {
                    **vars(helpers),
                    "ml_dtypes": ml_dtypes,
                    **self.sizes,
                    **dict(zip(names, operands, strict=True)),
                }
                outcome = eval(numpy_text(operation, names), scope)
                results = list(outcome) if len(operation.results) > 1 else [outcome][: len(operation.results)]
        for value, result in zip(operation.results, results, strict=True):
            self.set(value, result)

    def bind(self, params: Sequence[Value], values: Sequence[Any]) -> None:
        for param, value in zip(params, values, strict=True):
            self.set(param, value)
