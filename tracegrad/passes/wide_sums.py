"""Sums in a wider type, rounded once: a sum of 2048 ones in half does not grow any more.

Reads and writes IR in place. Next: inline.py. Kernels of eager tensors run it, as torch computes so; compiled functions
give what NumPy gives for the program.
"""

from __future__ import annotations

import math
from typing import Any

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import DTYPES
from tracegrad.passes.rewrite import rewrite

_NARROW = (DTYPES["f16"], DTYPES["bf16"])
_ACCUMULATING = ("reduce_sum", "reduce_prod", "cumsum", "cumprod", "linear_recurrence", "scatter_add")
#: NumPy adds so many numbers one by one, and more of them in pairs
_ONE_BY_ONE = 128


def widen_sums(function: Function) -> bool:
    """Replace each sum and product of narrow floats; return whether there was one."""
    return rewrite(function, dict.fromkeys(_ACCUMULATING, (_widen,)))


def _widen(operation: Operation, builder: Builder) -> Value | None:
    return _in(DTYPES["f32"], operation) if operation.result.dtype in _NARROW else None


def sum_in_double(function: Function) -> bool:
    """Add many numbers of float32 in float64, for code that adds them one by one; return whether there were any."""
    return rewrite(function, {"reduce_sum": (_doubled,)})


def _doubled(operation: Operation, builder: Builder) -> Value | None:
    count = math.prod(operation.operands[0].shape[k] for k in operation.attrs["axes"])
    return _in(DTYPES["f64"], operation) if operation.result.dtype == DTYPES["f32"] and count > _ONE_BY_ONE else None


def _in(wider: Any, operation: Operation) -> Value:
    """Stage an operation on floats of a wider type, and round its result."""
    dtype = operation.result.dtype
    wide = [TABLE["cast"](v, dtype=wider) if v.dtype == dtype else v for v in operation.operands]
    made = TABLE["cast"](TABLE[operation.op](*wide, **operation.attrs), dtype=dtype)
    assert isinstance(made, Value), "an operation of one result"
    return made
