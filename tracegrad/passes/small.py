"""Shorter forms for NumPy functions of small arrays whose caller sees no warnings, as kernels of eager tensors are.

Reads and writes IR in place. Next: blends.py.
"""

from __future__ import annotations

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.passes.rewrite import rewrite


def suit_small_arrays(function: Function) -> bool:
    """Replace what has a shorter form; return whether there was anything."""
    return rewrite(function, {"pad": (_write,), "logistic": (_overflow,)})


def _write(operation: Operation, builder: Builder) -> Value:
    """Write into zeros: np.pad costs ten times as much."""
    low, high, interior = (operation.attrs[k] for k in ("low", "high", "interior"))
    kind = operation.result.array_type
    zeros = TABLE["full"](shape=kind.shape, dtype=kind.dtype, value=0)
    stop = tuple(d - h for d, h in zip(kind.shape, high, strict=True))
    written = TABLE["set_slice"](
        zeros, operation.operands[0], start=low, stop=stop, step=tuple(i + 1 for i in interior)
    )
    assert isinstance(written, Value), "an operation of one result"
    return written


def _overflow(operation: Operation, builder: Builder) -> Value | None:
    """Write 1 / (1 + exp(-x)), whose exponential may overflow: what is lost is smaller than any normal number."""
    kind = operation.result.array_type
    if kind.dtype.itemsize < 4:
        return None  # exp(12) is infinite in float16
    one = TABLE["full"](shape=kind.shape, dtype=kind.dtype, value=1.0)
    grown = TABLE["exp"](TABLE["negative"](operation.operands[0]))
    made = TABLE["divide"](one, TABLE["add"](one, grown))
    assert isinstance(made, Value), "an operation of one result"
    return made
