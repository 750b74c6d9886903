"""Recognizes zeros, ones, and arrays that are zeros with something written into them.

Reads IR. Used by transform/ and passes/ to write into an array that is there instead of adding whole arrays.
Previous: bounds.py; next folder: ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.core import Operation, Value

_WRITES = ("scatter_add", "add_slice")
_MAX_WRITES = 16


def is_filled_with(value: Value, number: float) -> bool:
    """Return whether all elements of a value are known to equal a number."""
    operation = value.producer
    if operation is None:
        return False
    match operation.op:
        case "full":
            return bool(operation.attrs["value"] == number)
        case "constant":
            return bool(np.all(operation.attrs["value"] == number))
        case "broadcast_to" | "reshape" | "transpose":
            return is_filled_with(operation.operands[0], number)
    return False


def is_sparse(value: Value) -> bool:
    """Return whether a value is zeros with something written into them, not more than a few times."""
    for _ in range(_MAX_WRITES):
        operation = value.producer
        if operation is None:
            return False
        if operation.op == "pad":
            return all(interior == 0 or isinstance(dim, int) for interior, dim in _interiors(operation))
        if operation.op not in _WRITES:
            return False
        value = operation.operands[0]
        if is_filled_with(value, 0):
            return True
    return False


def writes_of(sparse: Value) -> list[tuple[str, list[Value], dict[str, Any]]]:
    """Return what is written into the zeros below a sparse value, first write first.

    Each write is an op that accumulates, its operands after the array written to, and its attributes.
    """
    writes: list[tuple[str, list[Value], dict[str, Any]]] = []
    value = sparse
    while True:
        operation = value.producer
        assert operation is not None, "a sparse value is made by a write"
        if operation.op == "pad":
            writes.append(("add_slice", operation.operands, _slice_of_pad(operation)))
            break
        writes.append((operation.op, operation.operands[1:], operation.attrs))
        value = operation.operands[0]
        if is_filled_with(value, 0):
            break
    return writes[::-1]


def _interiors(pad: Operation) -> list[tuple[Any, Any]]:
    return list(zip(pad.attrs["interior"], pad.operands[0].shape, strict=True))


def _slice_of_pad(pad: Operation) -> dict[str, Any]:
    """Return the slice of the padded array that holds the operand of a `pad`."""
    start = tuple(pad.attrs["low"])
    step = tuple(interior + 1 for interior in pad.attrs["interior"])
    extent = [dim if i == 0 else max(0, (dim - 1) * (i + 1) + 1) for i, dim in _interiors(pad)]
    return {"start": start, "stop": tuple(a + b for a, b in zip(start, extent, strict=True)), "step": step}
