"""Puts array contents that are known at capture into IR, without embedding what an op can make.

Reads an ndarray; writes operations in the current block. First file of capture/; next: context.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.ir.core import Value
from tracegrad.ir.types import BOOL, DTYPES, I64

#: contents of fewer elements are written out, except uniform ones
_SMALL = 16


def constant_value(content: np.ndarray[Any, Any]) -> Value:
    """Stage a content: filled arrays as `full`, progressions and identities through `iota`, anything else as it is."""
    if not content.ndim or content.dtype == DTYPES["bf16"]:
        return _constant(content)
    if content.size and _is_uniform(content):
        value: Value = ops.full(shape=content.shape, dtype=content.dtype, value=content.flat[0].item())
        return value
    if content.size >= _SMALL and content.dtype.kind in ("iuf" if content.ndim == 1 else "iu"):
        progression = _progression(content)
        if progression is not None:
            return progression
    if (
        content.ndim == 2
        and content.size >= _SMALL
        and content.dtype != BOOL
        and np.array_equal(content, np.eye(*content.shape))
    ):
        rows, columns = (ops.iota(shape=content.shape, dtype=I64, axis=axis) for axis in (0, 1))
        identity: Value = ops.cast(ops.equal(rows, columns), dtype=content.dtype)
        return identity
    return _constant(content)


def _constant(content: np.ndarray[Any, Any]) -> Value:
    value: Value = ops.constant(value=np.ascontiguousarray(content).reshape(content.shape))
    return value


def _is_uniform(content: np.ndarray[Any, Any]) -> bool:
    first = content.flat[0]
    if not any(content.strides):
        return True
    same = content == first
    if content.dtype.kind in "fc" and first == 0:
        # 0.0 and -0.0 are equal but not the same
        parts = (content.real, content.imag) if content.dtype.kind == "c" else (content,)
        return bool(same.all() and not any(np.signbit(p).any() for p in parts))
    return bool(same.all())


def _progression(content: np.ndarray[Any, Any]) -> Value | None:
    """Return `start + step * iota + ...`, a term for each axis, when it gives exactly this content."""
    if not np.isfinite(content).all():
        return None
    start = content.flat[0]
    terms = []
    made: Any = start
    for axis, size in enumerate(content.shape):
        if size > 1:
            step = content[(0,) * axis + (1,)].flat[0] - start
            terms.append((axis, step))
            positions = np.arange(size).astype(content.dtype).reshape((-1,) + (1,) * (content.ndim - axis - 1))
            scaled = positions if step == 1 else positions * step
            made = scaled if made is start and start == 0 else scaled + made
    if not np.array_equal(made, content):
        return None

    def filled(number: Any) -> Value:
        value: Value = ops.full(shape=content.shape, dtype=content.dtype, value=number.item())
        return value

    result: Value | None = None if start == 0 else filled(start)
    for axis, step in terms:
        term = ops.iota(shape=content.shape, dtype=content.dtype, axis=axis)
        if step != 1:
            term = ops.multiply(term, filled(step))
        result = term if result is None else ops.add(term, result)
    return result
