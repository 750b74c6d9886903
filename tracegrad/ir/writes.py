"""Recognizes zeros, ones, and arrays that are zeros with something written into them.

Reads IR. Used by transform/ and passes/ to write into an array that is there instead of adding whole arrays.
Previous: bounds.py; next: accesses.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.bounds import size_guess
from tracegrad.ir.core import Operation, Value

_WRITES = ("scatter_add", "add_slice")
_MAX_WRITES = 16


def filled_number(value: Value) -> float | None:
    """Return the number that all elements of a real array are known to be, or None."""
    operation = value.producer
    if operation is None:
        return None
    match operation.op:
        case "full":
            number = operation.attrs["value"]
            return float(number) if isinstance(number, float) else None
        case "constant":
            content = operation.attrs["value"]
            uniform = content.size and content.dtype.kind == "f" and _equals(content, content.flat[0])
            return float(content.flat[0]) if uniform else None
        case "broadcast_to" | "reshape" | "transpose":
            return filled_number(operation.operands[0])
    return None


def is_filled_with(value: Value, number: float) -> bool:
    """Return whether all elements of a value are known to equal a number; -0.0 is another one than 0.0."""
    operation = value.producer
    if operation is None:
        return False
    match operation.op:
        case "full":
            return _equals(operation.attrs["value"], number)
        case "constant":
            return _equals(operation.attrs["value"], number)
        case "broadcast_to" | "reshape" | "transpose":
            return is_filled_with(operation.operands[0], number)
    return False


def _equals(content: Any, number: Any) -> bool:
    if not np.all(content == number):
        return False
    is_zero = number == 0 and np.asarray(content).dtype.kind == "f"
    return not is_zero or bool(np.all(np.signbit(content) == np.signbit(number)))


def is_sparse(value: Value) -> bool:
    """Return whether a value is zeros with something written into them, once or in few places."""
    operation = value.producer
    if operation is None or operation.op not in ("pad", *_WRITES):
        return False
    size, written = size_guess(value.shape), 0
    for count in range(_MAX_WRITES):
        if operation is None:
            return False
        if operation.op == "pad":
            written += size_guess(operation.operands[0].shape)
            exact = all(interior == 0 or isinstance(dim, int) for interior, dim in _interiors(operation))
            return exact and (count == 0 or written < size)
        if operation.op not in _WRITES:
            return False
        written += size_guess(operation.operands[-1].shape)
        below = operation.operands[0]
        if is_filled_with(below, 0):
            return count == 0 or written < size
        operation = below.producer
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


def slices_of(value: Value) -> list[tuple[dict[str, Any], Value]]:
    """Return the slices, with their places, that were written into zeros and nothing else was; else nothing."""
    slices: list[tuple[dict[str, Any], Value]] = []
    for _ in range(_MAX_WRITES):
        operation = value.producer
        if operation is None:
            return []
        if operation.op == "pad":
            return [*slices, (_slice_of_pad(operation), operation.operands[0])]
        if operation.op not in ("add_slice", "set_slice"):
            return []
        slices.append((operation.attrs, operation.operands[1]))
        value = operation.operands[0]
        if is_filled_with(value, 0):
            return slices
    return []


def _interiors(pad: Operation) -> list[tuple[Any, Any]]:
    return list(zip(pad.attrs["interior"], pad.operands[0].shape, strict=True))


def _slice_of_pad(pad: Operation) -> dict[str, Any]:
    """Return the slice of the padded array that holds the operand of a `pad`."""
    start = tuple(pad.attrs["low"])
    step = tuple(interior + 1 for interior in pad.attrs["interior"])
    extent = [dim if i == 0 else max(0, (dim - 1) * (i + 1) + 1) for i, dim in _interiors(pad)]
    return {"start": start, "stop": tuple(a + b for a, b in zip(start, extent, strict=True)), "step": step}
