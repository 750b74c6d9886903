"""Blends instead of choices: NumPy's choice branches for each element, and a wrong guess costs more than the rest.

Reads and writes IR in place. Previous: small.py; next: inline.py.
"""

from __future__ import annotations

import math

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.passes.rewrite import rewrite

#: below so many elements the choice itself is faster
LEAST = 4096


def blend_choices(function: Function) -> bool:
    """Replace choices between large arrays of floats or integers; return whether there was one."""
    return rewrite(function, {"select": (_blended,)})


def _blended(operation: Operation, builder: Builder) -> Value | None:
    kind = operation.result.array_type
    if kind.dtype.kind not in "fi" or kind.dtype.itemsize < 4:
        return None
    sizes = [n for n in kind.shape if isinstance(n, int)]
    condition = operation.operands[0]
    repeats = condition.producer is not None and condition.producer.op in ("broadcast_to", "constant", "full")
    if repeats or len(sizes) < len(kind.shape) or math.prod(sizes) < LEAST:
        return None
    blended = TABLE["blend"](*operation.operands)
    assert isinstance(blended, Value), "an operation of one result"
    return blended
