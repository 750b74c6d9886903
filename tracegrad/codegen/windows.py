"""Finds index arrays that are windows, `i, i + 1, ..., i + n - 1` inside the axis, which NumPy source writes as slices.

Reads a function in IR, writes a mapping from operations to windows. Previous: trees.py; next: folding.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.types import Dim


@dataclass(frozen=True, slots=True)
class Window:
    """Positions along one axis: `length` of them from `start` on."""

    start: Value
    length: int


def find_windows(function: Function) -> dict[Operation, Window]:
    """Return the gathers and scatters along one axis whose positions are a window that never leaves it."""
    found: dict[Operation, Window] = {}
    _block(function.body, {}, found)
    return found


def _block(block: Block, ranges: dict[Value, tuple[Dim, Dim]], found: dict[Operation, Window]) -> None:
    for operation in block.operations:
        for nested in operation.blocks:
            inner = ranges
            if operation.op == "for" and operation.attrs["step"] == 1:
                start, stop = (static_value(v) for v in operation.operands[:2])
                if start is not None and stop is not None:
                    inner = {**ranges, nested.params[0]: (start, stop - 1)}
            _block(nested, inner, found)
        if operation.op in ("gather", "scatter_add", "scatter_set") and len(operation.attrs["axes"]) == 1:
            array, axis = operation.operands[0], operation.attrs["axes"][0]
            # the axis of the positions comes first in what is read
            window = _window(operation.operands[1]) if axis == 0 or len(array.shape) == 2 else None
            size = array.shape[axis]
            bounds = None if window is None else _range(window.start, ranges)
            if window is not None and bounds is not None:
                first, last = bounds
                if _is_natural(first) and _is_natural(size - window.length - last):
                    found[operation] = window


def _window(index: Value) -> Window | None:
    made = index.producer
    if made is None or made.op != "add" or len(index.shape) != 1 or not isinstance(index.shape[0], int):
        return None
    for positions, start in (made.operands, reversed(made.operands)):
        is_row = positions.producer is not None and positions.producer.op == "iota"
        spread = start.producer
        if is_row and spread is not None and spread.op == "broadcast_to" and not spread.operands[0].shape:
            return Window(spread.operands[0], index.shape[0])
    return None


def _range(value: Value, ranges: dict[Value, tuple[Dim, Dim]]) -> tuple[Dim, Dim] | None:
    """Return the least and the greatest number that an index can be."""
    if value in ranges:
        return ranges[value]
    known = static_value(value)
    if known is not None:
        return known, known
    made = value.producer
    if made is None or made.op not in ("add", "subtract"):
        return None
    x, y = (_range(v, ranges) for v in made.operands)
    if x is None or y is None:
        return None
    return (x[0] + y[0], x[1] + y[1]) if made.op == "add" else (x[0] - y[1], x[1] - y[0])


def _is_natural(number: Dim) -> bool:
    return isinstance(number, int) and number >= 0
