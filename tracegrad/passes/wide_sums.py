"""Sums and products of half and bfloat16 in float32, rounded once: a sum of 2048 ones in half does not grow any more.

Reads and writes IR in place. Next: inline.py. Kernels of eager tensors run it, as torch computes so; compiled functions
give what NumPy gives for the program.
"""

from __future__ import annotations

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import DTYPES
from tracegrad.passes.rewrite import rewrite

_NARROW = (DTYPES["f16"], DTYPES["bf16"])
_ACCUMULATING = ("reduce_sum", "reduce_prod", "cumsum", "cumprod", "linear_recurrence", "scatter_add")


def widen_sums(function: Function) -> bool:
    """Replace each sum and product of narrow floats; return whether there was one."""
    return rewrite(function, dict.fromkeys(_ACCUMULATING, (_widen,)))


def _widen(operation: Operation, builder: Builder) -> Value | None:
    dtype = operation.result.dtype
    if dtype not in _NARROW:
        return None
    wide = [TABLE["cast"](v, dtype=DTYPES["f32"]) if v.dtype == dtype else v for v in operation.operands]
    made = TABLE["cast"](TABLE[operation.op](*wide, **operation.attrs), dtype=dtype)
    assert isinstance(made, Value), "an operation of one result"
    return made
