"""Python text of attributes and of op applications: what the `numpy` field of a record means.

Reads records and operations, writes text. Previous: infer.py; next: record.py.
Symbolic dimensions appear in the text as expressions over their size symbols: `np.zeros((n, 3))`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import TABLE, OpDef
from tracegrad.ir.types import BOOL, DTYPES, F64, I64, Dim, Shape


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return the Python name of a dtype: `np.float64`, `bool`."""
    if dtype == BOOL:
        return "bool"
    return "ml_dtypes.bfloat16" if dtype == DTYPES["bf16"] else f"np.{dtype.name}"


def tuple_text(items: Sequence[Any]) -> str:
    """Return a tuple display of the texts of items: `(2, n)`, `(3,)`."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(map(str, items))})"


def shape_text(shape: Shape) -> str:
    """Return a shape as a person writes it: `3`, `(2, n)`, `()`."""
    return str(shape[0]) if len(shape) == 1 else tuple_text(shape)


def axis_text(axes: Sequence[int], ndim: int) -> str:
    """Return the keyword `, axis=...` of a reduction; nothing when all axes go."""
    if len(axes) == ndim:
        return ""
    return f", axis={axes[0] if len(axes) == 1 else tuple_text(axes)}"


def scalar_text(value: Any, dtype: np.dtype[Any]) -> str:
    """Return an expression for one number that has exactly the dtype in NumPy's promotion, and repr's precision."""
    text = element_text(np.asarray(value).astype(dtype))
    return text if dtype in (BOOL, I64, F64, DTYPES["c128"]) else f"{dtype_text(dtype)}({text})"


def element_text(value: Any) -> str:
    """Return the shortest expression for a Python number that an array of rank 0 rounds to."""
    if value.dtype.kind in "biu":
        return repr(value.item())
    if value.dtype.kind == "c":
        return number_text(complex(value))
    wide = float(value)
    return number_text(wide if value.dtype == F64 or not math.isfinite(wide) else float(str(value)))


def array_text(value: Any) -> str:
    """Return the nested list display of an array."""
    return element_text(value) if value.ndim == 0 else f"[{', '.join(array_text(np.asarray(row)) for row in value)}]"


def number_text(value: float | complex) -> str:
    """Return an expression for a Python number, infinities and NaN included."""
    if isinstance(value, complex):
        if math.isfinite(value.real) and math.isfinite(value.imag) and math.copysign(1.0, value.real) > 0:
            return f"({value.real!r} + {value.imag!r}j)" if value.real else f"{value.imag!r}j"
        return f"complex({number_text(value.real)}, {number_text(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value)


#: slices that stop at most so many elements before the end are written with a negative stop
_NEAR = 3


def slice_text(start: Dim, stop: Dim, step: int, size: Dim) -> str:
    """Return `start:stop:step` without what is the default; a stop near a distant end is counted from there."""
    end = str(stop) if stop != size else ""
    if isinstance(stop, int) and isinstance(size, int) and 0 < size - stop <= _NEAR < stop // 2:
        end = str(stop - size)
    text = f"{start if start != 0 else ''}:{end}"
    return text if step == 1 else f"{text}:{step}"


def subscript_text(parts: Sequence[str]) -> str:
    """Return a subscript of one text per axis, without full slices at the end; '' when all are full."""
    kept = list(parts)
    while kept and kept[-1] == ":":
        kept.pop()
    return f"[{', '.join(kept)}]" if kept else ""


def attribute_text(value: Any) -> str:
    """Return the Python text of an attribute value."""
    if isinstance(value, np.dtype):
        return dtype_text(value)
    if isinstance(value, tuple):
        return tuple_text([attribute_text(v) for v in value])
    return repr(value)


def bind_operands(op: OpDef, operands: Sequence[Any]) -> dict[str, Any]:
    """Return operands by their names in the record; a starred name, without its star, gets a tuple."""
    bound: dict[str, Any] = {}
    extra = len(operands) - len(op.operands)
    position = 0
    for name in op.operands:
        if name.startswith("*"):
            bound[name[1:]] = tuple(operands[position : position + extra + 1])
            position += extra + 1
        else:
            bound[name] = operands[position]
            position += 1
    return bound


def numpy_text(operation: Operation, operands: Sequence[str]) -> str:
    """Return the Python expression that computes an operation from texts of its operands."""
    op = TABLE[operation.op]
    if callable(op.numpy):
        return op.numpy(operation, *operands)
    names = {k: ", ".join(v) if isinstance(v, tuple) else v for k, v in bind_operands(op, operands).items()}
    return op.numpy.format(**names, **{k: attribute_text(v) for k, v in operation.attrs.items()})
