"""Runs IR on NumPy arrays, one operation at a time: what transforms, passes and code generators must agree with.

Reads IR, writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracegrad.errors import ArgumentError
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType, SymbolicDim, dim_evaluate, dtype_name, is_inexact
from tracegrad.ops.evaluate import Evaluator

Array = npt.NDArray[Any]
_ERRORS: dict[str, type[Exception]] = {
    e.__name__: e
    for e in (ZeroDivisionError, ValueError, IndexError, TypeError, AssertionError, OverflowError)
    + (UnboundLocalError, KeyError, AttributeError, NameError)
}


def interpret(function: Function, *arrays: Any, sizes: Mapping[str, int] | None = None) -> list[Array]:
    """Run a function and return its results.

    The values of `undefined` are NaN, so that reading one shows. Every result is checked against its type.

    Args:
        arrays: one per parameter; converted to its dtype.
        sizes: values of size symbols; those that occur alone in the shape of a parameter are found from its array.

    Raises:
        ArgumentError: number, shapes or sizes of the arrays do not fit the parameters.
    """
    values, known = bind_parameters(function, arrays, sizes)
    return Interpreter(known).block(function.body, values)


def bind_parameters(
    function: Function, arrays: Sequence[Any], sizes: Mapping[str, int] | None = None
) -> tuple[dict[Value, Any], dict[str, int]]:
    """Return the arrays by parameter, converted to its dtype, and the values of the size symbols.

    Raises:
        ArgumentError: number, shapes or sizes of the arrays do not fit the parameters.
    """
    if len(arrays) != len(function.params):
        raise _misfit(f"{len(arrays)} arrays for {len(function.params)} parameters")
    known = dict(sizes or {})
    values: dict[Value, Any] = {}
    for param, array in zip(function.params, arrays, strict=True):
        values[param] = np.array(array, param.dtype)
        _bind_sizes(param.array_type, values[param].shape, known)
    for param in function.params:
        expected = tuple(dim_evaluate(d, known) for d in param.shape)
        if values[param].shape != expected:
            raise _misfit(f"{param!r} with an array of shape {values[param].shape}, not {expected}")
    return values, known


def _misfit(found: str) -> ArgumentError:
    return ArgumentError(
        "the arrays do not fit the parameters",
        code="TG910",
        span=None,
        found=found,
        help="pass one array per parameter, in order, of the shape of its type",
    )


def _bind_sizes(kind: ArrayType, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    for dim, size in zip(kind.shape, shape, strict=False):
        if isinstance(dim, SymbolicDim) and str(dim) in dim.symbols():
            sizes.setdefault(str(dim), size)


class Interpreter:
    """Runs blocks; `sizes` gives the values of the size symbols."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.evaluator = Evaluator(sizes)

    def block(self, block: Block, values: dict[Value, Any], arguments: Sequence[Any] = ()) -> list[Any]:
        values.update(zip(block.params, arguments, strict=False))
        for operation in block.operations:
            operands = [values[v] for v in operation.operands]
            results = self.operation(operation, operands, values)
            for value, result in zip(operation.results, results, strict=True):
                values[value] = self.checked(operation, value, result)
        return [values[v] for v in block.yields]

    def checked(self, operation: Operation, value: Value, result: Any) -> Any:
        if not isinstance(value.type, ArrayType):
            return result
        array = np.asarray(result)
        expected = tuple(dim_evaluate(d, self.sizes) for d in value.shape)
        assert array.shape == expected, f"{operation!r} gives shape {array.shape}, not {expected}"
        assert array.dtype == value.dtype, f"{operation!r} gives {array.dtype}, not {dtype_name(value.dtype)}"
        return array

    def call(self, operation: Operation, operands: list[Any]) -> Sequence[Any]:
        """Run the function that an operation calls."""
        function: Function = operation.attrs["function"]
        return self.block(function.body, bind_parameters(function, operands, self.sizes)[0])

    def operation(self, operation: Operation, operands: list[Any], values: dict[Value, Any]) -> Sequence[Any]:
        attrs, blocks = operation.attrs, operation.blocks
        match operation.op:
            case "if":
                return self.block(blocks[0] if operands[0] else blocks[1], values)
            case "for":
                start, stop, *carries = operands
                indices = range(int(start), int(stop), attrs["step"])
                for k in reversed(indices) if attrs["reverse"] else indices:
                    carries = self.block(blocks[0], values, [np.array(k, np.int64), *carries])
                return carries
            case "while":
                while self.block(blocks[0], values, operands)[0]:
                    operands = self.block(blocks[1], values, operands)
                return operands
            case "call" | "custom_vjp" | "custom_jvp" | "checkpoint":
                return self.call(operation, operands)
            case "stack":
                return [[]]
            case "push":
                operands[0].append(operands[1].copy())
                return []
            case "pop":
                return [operands[0].pop()]
            case "check":
                if not operands[0]:
                    raise _ERRORS[attrs["error"]](attrs["message"])
                return []
            case "print":
                print(attrs["format"].format(*operands), end="")
                return []
            case "undefined":
                kind: ArrayType = attrs["type"]
                shape = tuple(dim_evaluate(d, self.sizes) for d in kind.shape)
                return [np.full(shape, np.nan if is_inexact(kind.dtype) else 0, kind.dtype)]
            case _:
                result = self.evaluator.apply(TABLE[operation.op], operands, attrs)
                return result if isinstance(result, tuple) else [result]
