"""How the elements of a traced array would lie in memory: what decides in NumPy between a view and a copy.

Reads tracers; notes the memory order of new ones. Previous: tracer.py; next: numpy_api/common.py.

The layout is that of an uninitialized NumPy array with the same strides, which goes through the same views; what it
holds is never read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracegrad.capture.context import Storage, current
from tracegrad.capture.sharing import sources
from tracegrad.capture.tracer import Tracer
from tracegrad.ir.core import Value
from tracegrad.ir.types import is_static

Layout: TypeAlias = np.ndarray[Any, Any]
#: more elements than this are not laid out
_LARGEST = 1 << 26
#: why a copy of unknown origin is not written to
UNKNOWN = "an array whose memory order is not known was reshaped: whether NumPy makes a view or a copy is not known"


def layout_of(tracer: Tracer) -> Layout | None:
    """Return an array that lies in memory like a traced one, or None when that is not known."""
    shape = tracer.type.shape
    if not is_static(shape) or math.prod(d for d in shape if isinstance(d, int)) > _LARGEST:
        return None
    if tracer._strides is not None:
        extent = 1 + sum(s * (d - 1) for s, d in zip(tracer._strides, shape, strict=True) if isinstance(d, int))
        buffer = np.empty(max(extent, 1), np.int8)
        return np.lib.stride_tricks.as_strided(buffer, shape, tracer._strides)  # type: ignore[arg-type]
    view = tracer._view
    if view is None:
        return np.empty(shape, np.int8) if tracer.is_contiguous else None
    base = layout_of(view.base)
    if base is None or view.native is None:
        return None
    seen = view.native(base)
    return seen if isinstance(seen, np.ndarray) and (not seen.size or np.may_share_memory(seen, base)) else None


def set_layout(tracer: Tracer, layout: Layout | None) -> Tracer:
    """Note how a new array lies in memory; None: that is not known."""
    if tracer.ndim > 1 and tracer.base is None:
        if layout is None:
            tracer.forget_order()
        elif not layout.flags.c_contiguous and layout.size and min(layout.strides) > 0:
            tracer.set_strides(tuple(s // layout.itemsize for s in layout.strides))
    return tracer


def has_order_of(tracer: Tracer, other: Tracer) -> bool:
    """Return whether two arrays of one shape lie in memory in the same way."""
    if tracer.ndim < 2 or (tracer.is_contiguous and other.is_contiguous):
        return True
    one, two = layout_of(tracer), layout_of(other)
    return one is not None and two is not None and one.strides == two.strides


def keep_order(result: Any, operands: Sequence[Tracer]) -> Any:
    """Note the memory order of the result of a ufunc, which follows the operands that have its shape."""
    if not isinstance(result, Tracer) or result.ndim < 2 or result.concrete is not None:
        return result
    shaped = [t for t in operands if t.type.shape == result.type.shape]
    layouts = [layout_of(t) for t in shaped]
    if all(t.is_contiguous for t in shaped) or any(result is t for t in operands):
        return result
    first = layouts[0]
    others = [t for t in operands if t.ndim > 1 and t.type.shape != result.type.shape]
    if first is None or others or any(m is None or m.strides != first.strides for m in layouts):
        return set_layout(result, None)
    if min(first.strides, default=1) <= 0:
        return set_layout(result, None)
    return set_layout(result, np.empty_like(first))


def is_view_of_shape(layout: Layout, shape: tuple[Any, ...]) -> bool:
    """Return whether a reshape makes a view."""
    probe = layout.view()
    try:
        probe.shape = shape
    except AttributeError:
        return False
    return True


def deciding_inputs(tracer: Tracer, shape: tuple[Any, ...] | None = None) -> frozenset[Storage]:
    """Return the inputs whose layout decides whether a reshape makes a view: those in whose memory the array lies.

    Args:
        shape: the new one; None where the result is to be in C order.
    """
    found = frozenset(s.input for s, _ in sources(tracer.root._storage) if s.input is not None)
    known = tracer.type.shape
    if not found or shape is None or not is_static(known) or not is_static(shape):
        return found
    sizes = [d for d in known if isinstance(d, int)]
    apart = [2 ** (len(sizes) - k) * math.prod(sizes[k:]) for k in range(len(sizes))]  # no two axes make one
    layout = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), sizes, apart)
    return frozenset() if is_view_of_shape(layout, shape) else found


def note_copy(made: Tracer, tracer: Tracer, inputs: frozenset[Storage]) -> None:
    """Note that a copy would be a view with another layout of inputs: a write into one would be one into the other."""
    for storage in (made.root._storage, *(s for s, _ in sources(tracer.root._storage))):
        storage.layouts |= inputs


def note_view(base: Tracer, inputs: frozenset[Storage]) -> tuple[Callable[[Value], None], Callable[[], None]]:
    """Return what is to be called before a view is read, and before it is written, that would be a copy with another
    layout of inputs."""
    seen = base.value if inputs else None

    def note_read(value: Value) -> None:
        if value is not seen:
            current().read_again |= inputs

    def note_write() -> None:
        current().laid_out |= inputs

    return note_read, note_write
