"""Ops without operands, and the constants that rules are written with: zeros_like, ones_like, full_like.

Previous: record.py; next: elementwise.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import NONDIFF, OpDef, Sample, register, type_of
from tracegrad.ir.types import BOOL, DTYPES, F64, I64, ArrayType
from tracegrad.ops import c_rules
from tracegrad.ops.infer import infer_constant, infer_dim, infer_full, infer_iota, infer_undefined
from tracegrad.ops.text import array_text, dtype_text, scalar_text, shape_text


def _constant_text(operation: Operation) -> str:
    value = operation.attrs["value"]
    if value.ndim == 0:
        return scalar_text(value, value.dtype)
    kept = value.dtype in (F64, I64, BOOL) and value.size
    text = f"np.array({array_text(value)}{'' if kept else f', dtype={dtype_text(value.dtype)}'})"
    return text if value.size else f"{text}.reshape({value.shape})"


constant = register(
    OpDef(
        "constant", (),
        "A constant array. `value` is the ndarray; the result has its type.",
        infer=infer_constant, attributes=("value",), marker=NONDIFF, cheap=True,
        numpy=_constant_text, c=c_rules.constant_c,
        samples=(
            Sample("", {"value": np.array(2.5)}),
            Sample("", {"value": np.array([1, 2, 3])}),
            Sample("", {"value": np.array([[0.1, -np.inf], [np.nan, 1e-300]])}),
            Sample("", {"value": np.zeros((0, 2), np.float32)}),
        ),
    )
)  # fmt: skip


def _iota_text(operation: Operation) -> str:
    shape, dtype, axis = (operation.attrs[k] for k in ("shape", "dtype", "axis"))
    count = f"np.arange({shape[axis]})" if dtype == I64 else f"np.arange({shape[axis]}, dtype={dtype_text(dtype)})"
    if len(shape) == 1:
        return count
    column = f"{count}[:{', None' * (len(shape) - axis - 1)}]" if axis < len(shape) - 1 else count
    return f"np.broadcast_to({column}, {shape_text(shape)})"


iota = register(
    OpDef(
        "iota", (),
        "Position along an axis: result[i0, i1, ...] = i_axis.",
        infer=infer_iota, attributes=("shape", "dtype", "axis"), marker=NONDIFF, cheap=True,
        numpy=_iota_text, c=c_rules.iota_c,
        samples=(
            Sample("", {"shape": (4,), "dtype": I64, "axis": 0}),
            Sample("", {"shape": (2, 3), "dtype": F64, "axis": 0}),
            Sample("", {"shape": (2, 3, 4), "dtype": I64, "axis": 1}),
        ),
    )
)  # fmt: skip


def _full_text(operation: Operation) -> str:
    shape, dtype, value = (operation.attrs[k] for k in ("shape", "dtype", "value"))
    number = scalar_text(value, dtype)
    if not shape:
        return number
    keyword = "" if dtype == F64 else f", dtype={dtype_text(dtype)}"
    if value == 0 and not np.signbit(np.real(value)):
        return f"np.zeros({shape_text(shape)}{keyword})"
    if value == 1:
        return f"np.ones({shape_text(shape)}{keyword})"
    return f"np.full({shape_text(shape)}, {number})"


full = register(
    OpDef(
        "full", (),
        "An array filled with one number. `value` is a Python scalar.",
        infer=infer_full, attributes=("shape", "dtype", "value"), marker=NONDIFF, cheap=True,
        numpy=_full_text, c=c_rules.full_c,
        samples=(
            Sample("", {"shape": (2, 3), "dtype": F64, "value": 2.5}),
            Sample("", {"shape": (), "dtype": F64, "value": float("inf")}),
            Sample("", {"shape": (2,), "dtype": DTYPES["f32"], "value": 0.1}),
            Sample("", {"shape": (0, 2), "dtype": I64, "value": 0}),
            Sample("", {"shape": (2,), "dtype": DTYPES["bool"], "value": True}),
            Sample("", {"shape": (2,), "dtype": DTYPES["c64"], "value": 1.5j}),
            Sample("", {"shape": (), "dtype": DTYPES["bf16"], "value": 1.5}),
        ),
    )
)  # fmt: skip


def _dim_text(operation: Operation) -> str:
    return str(operation.attrs["dim"])


dim = register(
    OpDef(
        "dim", (),
        "The value of a dimension expression, as i64[].",
        infer=infer_dim, attributes=("dim",), marker=NONDIFF, cheap=True,
        numpy=_dim_text, c=c_rules.dim_c,
        samples=(Sample("", {"dim": 7}),),
    )
)  # fmt: skip


def _undefined_text(operation: Operation) -> str:
    type = operation.attrs["type"]
    if not type.shape:
        return scalar_text(0, type.dtype)
    return f"np.zeros({shape_text(type.shape)}{'' if type.dtype == F64 else f', {dtype_text(type.dtype)}'})"


undefined = register(
    OpDef(
        "undefined", (),
        "A value that is never read: stands where a branch not taken binds no value. Evaluates to zeros.",
        infer=infer_undefined, attributes=("type",), marker=NONDIFF, cheap=True,
        numpy=_undefined_text, c=c_rules.undefined_c,
        samples=(Sample("", {"type": ArrayType(F64, (2,))}), Sample("", {"type": ArrayType(I64)})),
    )
)  # fmt: skip


def full_of(type: ArrayType, value: float | complex | bool) -> Any:
    """Return an array of a type filled with one number."""
    return full(shape=type.shape, dtype=type.dtype, value=value)


def full_like(x: Any, value: float | complex | bool) -> Any:
    """Return an array of the type of `x` filled with one number: how rules write a scalar."""
    return full_of(type_of(x), value)


def zeros_like(x: Any) -> Any:
    """Return zeros of the type of `x`."""
    return full_like(x, False if type_of(x).dtype == np.bool_ else 0.0 if type_of(x).dtype.kind not in "iu" else 0)


def ones_like(x: Any) -> Any:
    """Return ones of the type of `x`."""
    return full_like(x, 1 if type_of(x).dtype.kind in "iu" else 1.0)
