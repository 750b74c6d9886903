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

from tracegrad.capture.context import NO_INPUT, Capture, Inputs, Storage, alias_error, current, user_span
from tracegrad.capture.sharing import share, sources
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
        if layout is None or (layout.size and min(layout.strides) <= 0):
            tracer.forget_order()
        elif layout.flags.c_contiguous or not layout.size:
            tracer.set_c_order()
        else:
            tracer.set_strides(tuple(s // layout.itemsize for s in layout.strides))
    return tracer


def dense_layout(shape: tuple[Any, ...], axes: Sequence[int]) -> Layout | None:
    """Return the layout of an array without gaps whose axes lie in memory in this order, outermost first."""
    if not is_static(shape):
        return None
    return np.empty([shape[k] for k in axes], np.int8).transpose([axes.index(k) for k in range(len(axes))])


def ordered(made: Tracer, order: str, prototype: Tracer | None = None) -> Tracer:
    """Note the memory order of a new array: C, F, or that of a prototype of its shape (K, A)."""
    if made.ndim < 2:
        return made
    alike = prototype if prototype is not None and prototype.type.shape == made.type.shape else None
    is_kept = order in ("K", "A") and alike is not None
    made._storage.follows = follows(alike) if is_kept and alike is not None else NO_INPUT
    if order == "F":
        return set_layout(made, np.empty(made.type.shape, np.int8, "F") if is_static(made.type.shape) else None)
    if not is_kept or alike is None or alike.is_contiguous:
        return made
    layout = layout_of(alike)
    return set_layout(made, None if layout is None else np.empty_like(layout, order=order))  # type: ignore[call-overload]


def as_one_of(made: Tracer, arrays: Sequence[Tracer]) -> Tracer:
    """Note that a new array lies in memory as one of some arrays of its shape."""
    if made.ndim > 1 and made.base is None and arrays:
        made._storage.follows = NO_INPUT.union(*map(follows, arrays))
        if not all(a.is_contiguous for a in arrays):
            is_common = all(a.type.shape == made.type.shape and has_order_of(a, arrays[0]) for a in arrays)
            set_layout(made, layout_of(arrays[0]) if is_common else None)
    return made


def has_order_of(tracer: Tracer, other: Tracer) -> bool:
    """Return whether two arrays of one shape lie in memory in the same way."""
    if tracer.ndim < 2 or (tracer.is_contiguous and other.is_contiguous):
        return True
    one, two = layout_of(tracer), layout_of(other)
    return one is not None and two is not None and one.strides == two.strides


def keep_order(result: Any, operands: Sequence[Tracer], order: str = "K") -> Any:
    """Note the memory order of the result of a ufunc, which follows that of the operands."""
    if not isinstance(result, Tracer) or result.ndim < 2 or any(result is t for t in operands):
        return result
    if order in ("C", "F"):
        return ordered(result, order)
    arrays = [t for t in operands if t.ndim > 1]
    result._storage.follows = NO_INPUT.union(*map(follows, arrays))
    if all(t.is_contiguous for t in arrays):
        result.set_c_order()
        return result
    layouts = [layout_of(t) if t.type.shape == result.type.shape else None for t in arrays]
    dense = [None if m is None or 0 in m.strides else np.empty_like(m) for m in layouts]
    first = dense[0]
    is_common = first is not None and all(m is not None and m.strides == first.strides for m in dense)
    return set_layout(result, first if is_common else None)


def is_view_of_shape(layout: Layout, shape: tuple[Any, ...]) -> bool:
    """Return whether a reshape makes a view."""
    probe = layout.view()
    try:
        probe.shape = shape
    except AttributeError:
        return False
    return True


def follows(tracer: Tracer) -> Inputs:
    """Return the inputs whose layout decides how an array lies in memory."""
    return NO_INPUT.union(*(s.follows for s, _ in sources(tracer.root._storage)))


def deciding_inputs(tracer: Tracer, shape: tuple[Any, ...] | None = None) -> Inputs:
    """Return the inputs whose layout decides whether a reshape makes a view.

    Args:
        shape: the new one; None where the result is to be in C order.
    """
    found = follows(tracer)
    known = tracer.type.shape
    if len(known) < 2 and tracer.base is None and tracer._storage not in found:
        return NO_INPUT  # a new array of one axis has no order
    if not found or shape is None or not is_static(known) or not is_static(shape):
        return found
    sizes = [d for d in known if isinstance(d, int)]
    apart = [2 ** (len(sizes) - k) * math.prod(sizes[k + 1 :]) for k in range(len(sizes))]  # no two axes make one
    layout = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), sizes, apart)
    return NO_INPUT if is_view_of_shape(layout, shape) else found


def note_copy(made: Tracer, tracer: Tracer, inputs: Inputs) -> None:
    """Note that a copy would be a view with another layout of inputs: a write into one would be one into the other."""
    for storage in (made.root._storage, *(s for s, _ in sources(tracer.root._storage))):
        storage.layouts |= inputs


def note_view(base: Tracer, inputs: Inputs) -> tuple[Callable[[Value], None], Callable[[], None]]:
    """Return what is to be called before a view is read, and before it is written, that would be a copy with another
    layout of inputs."""
    seen = base.value if inputs else None
    root = base.root._storage

    def note_read(value: Value) -> None:
        if inputs and value is not seen:
            current().read_again.add((root, inputs))
            note_item()

    def note_write() -> None:
        if inputs:
            current().laid_out |= inputs
            note_item()

    def note_item() -> None:
        if root.holds_items:
            current().items_laid_out = current().items_laid_out or user_span()

    return note_read, note_write


def note_unknown(made: Tracer, tracer: Tracer) -> None:
    """Note that a copy may be a view: it is not written, and not read after a write into the array."""
    share(made.root._storage, tracer.root._storage)
    made._storage.pinned = UNKNOWN


def find_laid_out(capture: Capture, inputs: Sequence[Tracer]) -> list[int]:
    """Return the positions of the inputs that must be in C order."""
    found: set[Storage | None] = set()
    pending = [*capture.laid_out]
    for root, deciding in capture.read_again:
        if any(s.written for s, _ in sources(root)):
            pending.extend(deciding)
    while pending:
        storage = pending.pop()
        if storage not in found:
            found.add(storage)
            pending.extend(storage.stands if storage is not None else ())
    if capture.has_unordered_items and capture.items_laid_out is not None:
        raise alias_error(UNKNOWN, capture.items_laid_out)
    is_every = None in found
    return [k for k, tracer in enumerate(inputs) if tracer._storage in found or (is_every and tracer.ndim)]
