"""Evaluates a function in IR operation by operation, copying every result: what it means, for tests to compare with."""

from __future__ import annotations

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
    return Evaluator(dict(sizes or {})).function(function, arguments)


class Evaluator:
    """Keeps the values of one function; subclasses may share memory where this copies."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.values: dict[Value, Any] = {}

    def function(self, function: Function, arguments: Sequence[Any]) -> list[Any]:
        for param, argument in zip(function.params, arguments, strict=True):
            for axis, dim in enumerate(param.shape):
                if dim_symbols(dim) == {str(dim)}:
                    self.sizes.setdefault(str(dim), np.shape(argument)[axis])
            self.set(param, argument)
        return self.block(function.body)

    def set(self, value: Value, result: Any) -> None:
        if not isinstance(value.type, ArrayType):
            self.values[value] = result
            return
        array = self.keep(result)
        shape = tuple(dim_evaluate(d, self.sizes) for d in value.shape)
        assert array.shape == shape, f"{value!r} has shape {array.shape}"
        # only scalars may have another dtype: texts write them as plain Python numbers
        assert array.dtype == value.dtype or not shape, f"{value!r} is {array.dtype}"
        self.values[value] = array.astype(value.dtype, copy=False)

    def keep(self, result: Any) -> Any:
        """Return what to store for a result: a copy, scalars as NumPy scalars."""
        return np.array(result)[()]

    def start(self, loop: Operation, values: list[Any]) -> list[Any]:
        """Return the values that the carries of a loop start with."""
        return values

    def block(self, block: Block) -> list[Any]:
        for operation in block.operations:
            self.operation(operation)
        return [self.values[v] for v in block.yields]

    def operation(self, operation: Operation) -> None:
        operands = [self.values[v] for v in operation.operands]
        results: list[Any]
        match operation.op:
            case "if":
                results = self.block(operation.blocks[0 if operands[0] else 1])
            case "for":
                start, stop, *carried = operands
                carried = self.start(operation, carried)
                indices = range(int(start), int(stop), operation.attrs["step"])
                for k in reversed(indices) if operation.attrs["reverse"] else indices:
                    self.bind(operation.blocks[0], [k, *carried])
                    carried = self.block(operation.blocks[0])
                results = carried
            case "while":
                condition, body = operation.blocks
                carried = self.start(operation, operands)
                while True:
                    self.bind(condition, carried)
                    if not self.block(condition)[0]:
                        break
                    self.bind(body, carried)
                    carried = self.block(body)
                results = carried
            case "call":
                results = Evaluator({}).function(operation.attrs["function"], operands)
            case "stack":
                results = [[]]
            case "push":
                operands[0].append(self.keep(operands[1]))
                results = []
            case "pop":
                results = [operands[0].pop()]
            case "constant":
                results = [operation.attrs["value"]]
            case "cast":
                results = [np.asarray(operands[0]).astype(operation.attrs["dtype"])]
            case _:
                results = self.compute(operation, operands)
        for value, result in zip(operation.results, results, strict=True):
            self.set(value, result)

    def compute(self, operation: Operation, operands: list[Any]) -> list[Any]:
        """Return the results of an operation from the text of its op."""
        names = [f"x{i}" for i in range(len(operands))]
        scope = {**vars(helpers), "ml_dtypes": ml_dtypes, **self.sizes, **dict(zip(names, operands, strict=True))}
        outcome = eval(numpy_text(operation, names), scope)
        return list(outcome) if len(operation.results) > 1 else [outcome][: len(operation.results)]

    def bind(self, block: Block, values: Sequence[Any]) -> None:
        for param, value in zip(block.params, values, strict=True):
            self.set(param, value)
