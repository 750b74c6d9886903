"""What is known of integers before a program runs: values that are dimensions, and trip counts of loops.

Reads IR. Used by transform/ (capacity of stacks, loops that surely run) and by passes/.
Previous: liveness.py; next: writes.py.
"""

from __future__ import annotations

import math
from typing import Any

from tracegrad.ir.core import Operation, Value
from tracegrad.ir.types import Dim, SymbolicDim, is_integer


def static_value(value: Value, depth: int = 20) -> Dim | None:
    """Return a rank-0 integer as a dimension expression, when it is made of few constants and `dim` operations."""
    operation = value.producer
    if operation is None or depth == 0:
        return None
    match operation.op:
        case "constant":
            array = operation.attrs["value"]
            return int(array) if array.ndim == 0 and is_integer(array.dtype) else None
        case "full":
            fill: Any = operation.attrs["value"]
            return fill if isinstance(fill, int) and not isinstance(fill, bool) and not value.shape else None
        case "dim":
            dim: Dim = operation.attrs["dim"]
            return dim
        case "cast":
            return static_value(operation.operands[0], depth - 1) if is_integer(value.dtype) else None
        case "add" | "subtract" | "multiply":
            x, y = (static_value(v, depth - 1) for v in operation.operands)
            if x is None or y is None:
                return None
            return x + y if operation.op == "add" else x - y if operation.op == "subtract" else x * y
        case "negative":
            x = static_value(operation.operands[0], depth - 1)
            return None if x is None else -x
    return None


def trip_count(operation: Operation) -> Dim | None:
    """Return how often the body of a `for` runs, when known before entry.

    A count that is symbolic may come out negative where the loop does not run; read it as 0 then.
    """
    if operation.op != "for":
        return None
    start, stop = (static_value(v) for v in operation.operands[:2])
    if start is None or stop is None:
        return None
    step: int = operation.attrs["step"]
    distance = stop - start if step > 0 else start - stop
    count = distance if abs(step) == 1 else (distance + (abs(step) - 1)) // abs(step)
    return max(0, count) if isinstance(count, int) else count


def surely_runs(operation: Operation) -> bool:
    """Return whether the body of a loop is known to run at least once, whatever the sizes."""
    count = trip_count(operation)
    return isinstance(count, int) and count > 0


def size_guess(shape: tuple[Dim, ...]) -> int:
    """Return a number of elements for comparing costs; a size symbol counts as 1000."""
    return math.prod(
        dim.evaluate(dict.fromkeys(dim.symbols(), 1000)) if isinstance(dim, SymbolicDim) else dim for dim in shape
    )
