"""Functions that rearrange elements: reshape, transpose, joining, splitting, repeating, flipping, padding.

Previous: indexing.py; next: reduce.py.

What NumPy returns as a view is a view here too (`view_of`): a write into it reaches the base.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.contents import iota
from tracegrad.capture.context import NO_INPUT, Inputs, current, user_span
from tracegrad.capture.linear import ends
from tracegrad.capture.memory import (
    Layout,
    deciding_inputs,
    is_view_of_shape,
    layout_of,
    note_copy,
    note_unknown,
    note_view,
)
from tracegrad.capture.numpy_api.common import (
    as_axes,
    as_axis,
    as_dim,
    as_known,
    as_shape,
    call,
    covers,
    full,
    gather,
    insert_dims,
    is_known,
    known_scalar,
    move_axis,
    reshape,
    spread,
    transpose,
    wrap_known,
)
from tracegrad.capture.numpy_api.elementwise import add, remainder, subtract
from tracegrad.capture.numpy_api.indexing import getitem
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import (
    Tracer,
    apply,
    asarray,
    broadcast_shapes,
    call_handler,
    cast_to,
    check,
    from_concrete,
    from_value,
    resolve_content,
    stage,
    unsupported,
    view_of,
)
from tracegrad.errors import TracedValueError
from tracegrad.ir.core import Value
from tracegrad.ir.types import BOOL, I64, is_integer

# ---- reshape and its kind


def resolve_shape(tracer: Tracer, shape: Any) -> tuple[Any, ...]:
    """Return the dimensions of a reshape, with -1 worked out.

    Raises:
        TracedValueError: the number of elements differs.
    """
    dims = list(as_shape(shape))
    size = tracer.type.size
    unknown = [k for k, d in enumerate(dims) if isinstance(d, int) and d == -1]
    if len(unknown) > 1:
        raise ValueError("can only specify one unknown dimension")
    if unknown:
        rest = math.prod(d for k, d in enumerate(dims) if k != unknown[0])
        dims[unknown[0]] = 0 if rest == 0 else size // rest
    if math.prod(dims) != size:
        raise TracedValueError(
            "a reshape keeps the number of elements",
            code="TG114",
            span=user_span(),
            found=f"cannot reshape array of size {size} into shape {tuple(as_shape(shape))}",
            help="correct the new shape",
        )
    return tuple(dims)


def reshape_view(tracer: Tracer, shape: tuple[Any, ...], *, inputs: Inputs | None = None) -> Tracer:
    """Return the elements in another shape: a view of a contiguous array, else a copy.

    Args:
        inputs: those whose layout decides whether it is a view, where they are not those of a reshape.
    """
    if shape == tracer.type.shape and not tracer.is_contiguous:
        return _same_view(tracer)
    inputs = deciding_inputs(tracer, shape) if inputs is None else inputs
    layout = None if tracer.is_contiguous else layout_of(tracer)
    if not tracer.is_contiguous and tracer.ndim > 1 and (layout is None or not is_view_of_shape(layout, shape)):
        made = reshape(tracer, shape)
        note_copy(made, tracer, inputs)
        if layout is None:
            note_unknown(made, tracer)
        return made
    contiguous = tracer.is_contiguous
    if layout is not None:
        seen = layout.view()
        seen.shape = shape
        contiguous = seen.flags.c_contiguous
    before = tracer.type.shape
    note_read, note_write = note_view(tracer, inputs)

    def read(base: Value) -> Value:
        note_read(base)
        return stage(ops.reshape, base, shape=shape) if base.shape != shape else base

    def write(base: Value, new: Value) -> Value:
        note_write()
        return stage(ops.reshape, new, shape=before) if new.shape != before else new

    return view_of(
        tracer,
        read,
        write,
        contiguous=contiguous,
        native=(lambda content: content.reshape(shape)) if all(isinstance(d, int) for d in shape) else None,
    )


@covers(np.reshape, native=False)
def reshape_(a: Any, /, shape: Any = None, order: str = "C", *, copy: Any = None, newshape: Any = None) -> Tracer:
    tracer = asarray(a)
    if order == "A":
        order = _order_in_memory(tracer)
    if order not in ("C", "F"):
        raise ValueError(f"order must be one of 'C', 'F' or 'A' (got {order!r})")
    dims = resolve_shape(tracer, newshape if shape is None else shape)
    if order == "F":
        # Fortran order is C order of the reversed axes
        return permuted_view(
            reshape_view(permuted_view(tracer, range(tracer.ndim)[::-1]), dims[::-1]), range(len(dims))[::-1]
        )
    return reshape(tracer, dims).copy() if copy else reshape_view(tracer, dims)


@covers(np.ravel, native=False)
def ravel(a: Any, order: str = "C") -> Tracer:
    tracer = asarray(a)
    if order in ("K", "A") and tracer.is_contiguous:
        order = _order_in_memory(tracer)
    if order == "K" and tracer.ndim > 1:
        strides = _known_layout(tracer).strides
        if min(strides) < 0:
            raise _unknown_order()
        return reshape_view(
            permuted_view(tracer, sorted(range(tracer.ndim), key=lambda k: -strides[k])), (tracer.type.size,)
        )
    if order not in ("C", "K"):
        return reshape_(tracer, (-1,), order)
    inputs = deciding_inputs(tracer)
    if tracer.is_contiguous:
        return reshape_view(tracer, (tracer.type.size,), inputs=inputs)
    layout = layout_of(tracer)
    if layout is not None and layout.flags.c_contiguous:
        return reshape_view(tracer, (tracer.type.size,), inputs=inputs)
    made = reshape(tracer, (tracer.type.size,)) if tracer.ndim != 1 else tracer.copy()
    note_copy(made, tracer, inputs)
    if layout is None:
        note_unknown(made, tracer)
    return made


def _known_layout(tracer: Tracer) -> Layout:
    """Return the layout of an array, on which what the function computes depends.

    Raises:
        CaptureError: the array is made in a way that leaves its memory order open.
    """
    layout = layout_of(tracer)
    if layout is None:
        raise _unknown_order()
    current().laid_out |= deciding_inputs(tracer)
    return layout


def _unknown_order() -> Exception:
    return unsupported("order='K' or 'A' of an array whose memory order is not known", "say order='C' or order='F'")


def _order_in_memory(tracer: Tracer) -> str:
    if tracer.ndim < 2:
        return "C"
    if tracer.is_contiguous:
        current().laid_out |= deciding_inputs(tracer)
        return "C"
    flags = _known_layout(tracer).flags
    return "F" if flags.f_contiguous and not flags.c_contiguous else "C"


def permuted_view(tracer: Tracer, axes: Sequence[int]) -> Tracer:
    """Return a view with the axes in another order."""
    order = tuple(axes)
    if order == tuple(range(tracer.ndim)):
        return reshape_view(tracer, tracer.type.shape)
    back = tuple(order.index(k) for k in range(len(order)))
    moved = [a for a in order if tracer.type.shape[a] != 1]
    return view_of(
        tracer,
        lambda base: stage(ops.transpose, base, axes=order),
        lambda base, new: stage(ops.transpose, new, axes=back),
        contiguous=tracer.is_contiguous and moved == sorted(moved),
        native=lambda content: content.transpose(order),
    )


def _same_view(tracer: Tracer) -> Tracer:
    return view_of(tracer, lambda base: base, lambda base, new: new, contiguous=False, native=lambda content: content)


@covers(np.ndarray.flat, native=False)
def flat(a: Any) -> Tracer:
    """Return the elements in C order: a view whatever the memory layout, as `a.flat` writes through."""
    tracer = asarray(a)
    shape = (tracer.type.size,)
    made = reshape_view(tracer, shape, inputs=NO_INPUT) if tracer.is_contiguous else _dims_view(tracer, shape)
    if made._view is not None:
        made._view.is_flat = True
    return made


@covers(np.transpose, np.permute_dims, native=False)
def transpose_(a: Any, axes: Any = None) -> Tracer:
    tracer = asarray(a)
    if axes is None:
        return permuted_view(tracer, range(tracer.ndim)[::-1])
    if len(axes) != tracer.ndim:
        raise ValueError("axes don't match array")
    order = [as_axis(k, tracer.ndim) for k in axes]
    if len(set(order)) != len(order):
        raise ValueError("repeated axis in transpose")
    return permuted_view(tracer, order)


@covers(np.matrix_transpose, np.linalg.matrix_transpose, native=False)
def matrix_transpose(x: Any, /) -> Tracer:
    return swapaxes(x, -1, -2)


@covers(np.swapaxes, native=False)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Tracer:
    tracer = asarray(a)
    first, second = as_axis(axis1, tracer.ndim), as_axis(axis2, tracer.ndim)
    order = list(range(tracer.ndim))
    order[first], order[second] = order[second], order[first]
    return permuted_view(tracer, order)


@covers(np.moveaxis, native=False)
def moveaxis(a: Any, source: Any, destination: Any) -> Tracer:
    tracer = asarray(a)
    sources, targets = as_axes(source, tracer.ndim), as_axes(destination, tracer.ndim)
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [k for k in range(tracer.ndim) if k not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return permuted_view(tracer, order)


@covers(np.rollaxis, native=False)
def rollaxis(a: Any, axis: Any, start: int = 0) -> Tracer:
    tracer = asarray(a)
    origin = as_axis(axis, tracer.ndim)
    target = start + tracer.ndim if start < 0 else start
    if not 0 <= target <= tracer.ndim:
        raise np.exceptions.AxisError(f"'start' arg requires {-tracer.ndim} <= start < {tracer.ndim + 1}")
    order = [k for k in range(tracer.ndim) if k != origin]
    order.insert(target - (origin < target), origin)
    return permuted_view(tracer, order)


def _dims_view(tracer: Tracer, shape: tuple[Any, ...]) -> Tracer:
    """Return a view of another shape for any memory layout: one that gains or loses axes of size 1, or `flat`."""
    before = tracer.type.shape
    return view_of(
        tracer,
        lambda base: stage(ops.reshape, base, shape=shape) if base.shape != shape else base,
        lambda base, new: stage(ops.reshape, new, shape=before) if new.shape != before else new,
        contiguous=tracer.is_contiguous,
        native=(lambda content: content.reshape(shape)) if all(isinstance(d, int) for d in shape) else None,
    )


@covers(np.squeeze, native=False)
def squeeze(a: Any, axis: Any = None) -> Tracer:
    tracer = asarray(a)
    shape = tracer.type.shape
    if axis is None:
        return _dims_view(tracer, tuple(d for d in shape if d != 1))
    axes = as_axes(axis, tracer.ndim)
    if any(shape[k] != 1 for k in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return _dims_view(tracer, tuple(d for k, d in enumerate(shape) if k not in axes))


@covers(np.expand_dims, native=False)
def expand_dims(a: Any, axis: Any) -> Tracer:
    tracer = asarray(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    return _dims_view(tracer, insert_dims(tracer.type.shape, as_axes(axis, tracer.ndim + count)))


def _at_least(ndim: int, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    if ndim == 3 and len(shape) == 2:
        return (*shape, 1)
    if ndim == 3 and len(shape) == 1:
        return (1, *shape, 1)
    return (1,) * (ndim - len(shape)) + shape


def _atleast(ndim: int) -> Callable[..., Any]:
    def at_least(*arys: Any) -> Any:
        arrays = [asarray(a) for a in arys]
        arrays = [a if a.ndim >= ndim else _dims_view(a, _at_least(ndim, a.type.shape)) for a in arrays]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    return at_least


for _function, _ndim in ((np.atleast_1d, 1), (np.atleast_2d, 2), (np.atleast_3d, 3)):
    covers(_function, native=False)(_atleast(_ndim))


@covers(np.broadcast_to, native=False)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tracer:
    tracer, dims = asarray(array), as_shape(shape)
    if broadcast_shapes(tracer.type.shape, dims) != dims:
        raise TracedValueError(
            "the array does not broadcast to the shape",
            code="TG110",
            span=user_span(),
            found=f"shape {tracer.type.shape} to {dims}",
            help="the sizes of the array, counted from the last, must be 1 or those of the shape",
        )
    return view_of(
        tracer,
        lambda base: stage(ops.broadcast_to, base, shape=dims) if base.shape != dims else base,
        None,
        contiguous=False,
        native=(lambda content: np.broadcast_to(content, dims)) if all(isinstance(d, int) for d in dims) else None,
    )


@covers(np.broadcast_arrays, native=False)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tracer, ...]:
    arrays = [asarray(a) for a in args]
    shape = broadcast_shapes(*[a.type.shape for a in arrays])
    return tuple(broadcast_to(a, shape) for a in arrays)


@covers(np.broadcast_shapes, native=False)
def broadcast_shapes_(*args: Any) -> tuple[Any, ...]:
    return broadcast_shapes(*[as_shape(s) for s in args])


@covers(np.shape, native=False)
def shape_(a: Any) -> tuple[Any, ...]:
    return asarray(a).shape


@covers(np.ndim, native=False)
def ndim_(a: Any) -> int:
    return asarray(a).ndim


@covers(np.size, native=False)
def size_(a: Any, axis: Any = None) -> Any:
    tracer = asarray(a)
    return tracer.size if axis is None else math.prod(tracer.shape[k] for k in as_axes(axis, tracer.ndim))


# ---- joining


def join(arrays: Sequence[Tracer], axis: int, dtype: Any = None) -> Tracer:
    """Concatenate arrays that agree beside the axis; the dtype is promoted."""
    kind = np.dtype(dtype) if dtype is not None else np.result_type(*[a.dtype for a in arrays])
    rests = {tuple(d for k, d in enumerate(a.type.shape) if k != axis) for a in arrays}
    if len(rests) > 1 or len({a.ndim for a in arrays}) > 1:
        raise TracedValueError(
            "all the input array dimensions except for the concatenation axis must match exactly",
            code="TG115",
            span=user_span(),
            found="shapes " + " and ".join(str(a.type.shape) for a in arrays) + f" along axis {axis}",
            help="make the arrays agree in all other axes",
        )
    parts = [cast_to(a, kind) for a in arrays]
    if is_known(parts):
        return from_concrete(np.concatenate([p.concrete for p in parts], axis=axis))
    return parts[0].copy() if len(parts) == 1 else apply(ops.concatenate, *parts, axis=axis)


def _sequence(arrays: Any, function: str) -> list[Tracer]:
    if isinstance(arrays, Tracer):
        return [arrays[k] if arrays.ndim > 1 else asarray(arrays[k]) for k in range(operator.index(arrays.shape[0]))]
    result = [asarray(a) for a in arrays]
    if not result:
        raise ValueError(f"need at least one array to {function}")
    return result


@covers(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tracer:
    parts = _sequence(arrays, "concatenate")
    if axis is None:
        return join([reshape(p, (p.type.size,)) for p in parts], 0, dtype)
    if not parts[0].ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return join(parts, as_axis(axis, parts[0].ndim), dtype)


@covers(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    if isinstance(arrays, Tracer) and axis == 0:
        return arrays.copy() if dtype is None else cast_to(arrays, np.dtype(dtype)).copy()
    parts = _sequence(arrays, "stack")
    if len({p.type.shape for p in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    place = as_axis(axis, parts[0].ndim + 1)
    return join([reshape(p, insert_dims(p.type.shape, (place,))) for p in parts], place, dtype)


def _raised(parts: list[Tracer], ndim: int) -> list[Tracer]:
    return [p if p.ndim >= ndim else reshape(p, _at_least(ndim, p.type.shape)) for p in parts]


@covers(np.vstack, *filter(None, [getattr(np, "row_stack", None)]))
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    return join(_raised(_sequence(tup, "concatenate"), 2), 0, dtype)


@covers(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    parts = _raised(_sequence(tup, "concatenate"), 1)
    return join(parts, 0 if parts[0].ndim == 1 else 1, dtype)


@covers(np.dstack)
def dstack(tup: Any) -> Tracer:
    return join(_raised(_sequence(tup, "concatenate"), 3), 2)


@covers(np.column_stack)
def column_stack(tup: Any) -> Tracer:
    parts = _sequence(tup, "concatenate")
    return join([reshape(p, (p.type.size, 1)) if p.ndim < 2 else p for p in parts], 1)


@covers(np.block)
def block(arrays: Any) -> Tracer:
    def depth(item: Any) -> int:
        return 1 + max(map(depth, item)) if isinstance(item, list) else 0

    levels = depth(arrays)

    def build(item: Any, level: int) -> Tracer:
        if not isinstance(item, list):
            leaf = asarray(item)
            return reshape(leaf, (1,) * (levels - leaf.ndim) + leaf.type.shape) if leaf.ndim < levels else leaf
        parts = [build(i, level + 1) for i in item]
        return join(parts, parts[0].ndim - (levels - level))

    return build(arrays, 0)


@covers(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Tracer:
    first, second = asarray(arr), asarray(values)
    if axis is None:
        return join([reshape(t, (t.type.size,)) for t in (first, second)], 0)
    return join([first, second], as_axis(axis, first.ndim))


# ---- splitting


def slice_axis(tracer: Tracer, axis: int, part: slice) -> Tracer:
    """Return `tracer[..., part, ...]` along one axis: a view, as NumPy's."""
    return getitem(tracer, (slice(None),) * axis + (part,))  # type: ignore[no-any-return]


@covers(np.array_split, native=False)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tracer]:
    tracer = asarray(ary)
    place = as_axis(axis, tracer.ndim)
    size = tracer.type.shape[place]
    if isinstance(indices_or_sections, list | tuple | np.ndarray) or (
        isinstance(indices_or_sections, Tracer) and indices_or_sections.ndim
    ):
        bounds = [0, *[as_dim(i) for i in indices_or_sections], size]
    else:
        count = as_dim(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        each = size // count
        extra = operator.index(as_size(size - each * count))
        bounds = [each * k + min(k, extra) for k in range(count + 1)]
    result = []
    for k in range(len(bounds) - 1):
        stop = bounds[k + 1] if k + 2 < len(bounds) or bounds[k + 1] is not size else None
        result.append(slice_axis(tracer, place, slice(bounds[k], stop)))
    return result


@covers(np.split, native=False)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tracer]:
    tracer = asarray(ary)
    if isinstance(indices_or_sections, int | np.integer):
        size = tracer.type.shape[as_axis(axis, tracer.ndim)]
        if size // int(indices_or_sections) * int(indices_or_sections) != size:
            raise ValueError("array split does not result in an equal division")
    return array_split(tracer, indices_or_sections, axis)


@covers(np.vsplit, native=False)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    return split(ary, indices_or_sections, 0)


@covers(np.hsplit, native=False)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    return split(ary, indices_or_sections, 0 if asarray(ary).ndim == 1 else 1)


@covers(np.dsplit, native=False)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    return split(ary, indices_or_sections, 2)


@covers(np.unstack, native=False)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tracer, ...]:
    tracer = asarray(x)
    place = as_axis(axis, tracer.ndim)
    size = operator.index(tracer.shape[place])
    return tuple(getitem(tracer, (slice(None),) * place + (k,)) for k in range(size))


# ---- repeating


@covers(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Tracer:
    tracer = asarray(a)
    if axis is None:
        tracer, place = reshape(tracer, (tracer.type.size,)), 0
    else:
        place = as_axis(axis, tracer.ndim)
    shape = tracer.type.shape
    if known_scalar(repeats) is None and not hasattr(repeats, "dim"):
        if not is_known(repeats):
            raise unsupported("np.repeat with traced counts", "the size of the result would be known only at run time")
        size = operator.index(tracer.shape[place])
        counts = np.broadcast_to(np.asarray(repeats), (size,))
        return take_axis(tracer, from_concrete(np.repeat(np.arange(size), counts)), place)
    count = as_dim(repeats)
    widened = spread(
        reshape(tracer, (*shape[: place + 1], 1, *shape[place + 1 :])),
        (*shape[: place + 1], count, *shape[place + 1 :]),
    )
    return reshape(widened, (*shape[:place], shape[place] * count, *shape[place + 1 :]))


@covers(np.tile)
def tile(A: Any, reps: Any) -> Tracer:
    tracer, counts = asarray(A), as_shape(reps)
    ndim = max(tracer.ndim, len(counts))
    shape = (1,) * (ndim - tracer.ndim) + tracer.type.shape
    counts = (1,) * (ndim - len(counts)) + counts
    pairs = [v for c, d in zip(counts, shape, strict=True) for v in (c, d)]
    column = [v for d in shape for v in (1, d)]
    result = spread(reshape(tracer, tuple(column)), tuple(pairs))
    return reshape(result, tuple(c * d for c, d in zip(counts, shape, strict=True))).copy()


def take_axis(tracer: Tracer, index: Tracer, axis: int) -> Tracer:
    """Return elements along one axis; the dimensions of the index stand in the place of the axis."""
    result = gather(tracer, [index], (axis,))
    count = index.ndim
    order = [*range(count, count + axis), *range(count), *range(count + axis, result.ndim)]
    return transpose(result, order)


# ---- reversing and rolling


def flipped(tracer: Tracer, axes: tuple[int, ...]) -> Tracer:
    """Return a view with some axes reversed."""
    if not axes:
        return _same_view(tracer)
    return view_of(
        tracer,
        lambda base: stage(ops.flip, base, axes=axes),
        lambda base, new: stage(ops.flip, new, axes=axes),
        contiguous=False,
        native=lambda content: np.flip(content, axes),
    )


@covers(np.flip, native=False)
def flip(m: Any, axis: Any = None) -> Tracer:
    tracer = asarray(m)
    if not tracer.ndim and axis is None:
        return call_handler(operator.getitem, tracer, ())  # type: ignore[no-any-return]
    return flipped(tracer, tuple(sorted(as_axes(axis, tracer.ndim))))


@covers(np.fliplr, native=False)
def fliplr(m: Any) -> Tracer:
    tracer = asarray(m)
    if tracer.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flipped(tracer, (1,))


@covers(np.flipud, native=False)
def flipud(m: Any) -> Tracer:
    tracer = asarray(m)
    if tracer.ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return flipped(tracer, (0,))


@covers(np.rot90, native=False)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tracer:
    tracer = asarray(m)
    first, second = as_axes(tuple(axes), tracer.ndim)
    turns = operator.index(k) % 4
    order = list(range(tracer.ndim))
    order[first], order[second] = order[second], order[first]
    if turns == 0:
        return _same_view(tracer)
    if turns == 2:
        return flipped(tracer, tuple(sorted((first, second))))
    if turns == 1:
        return permuted_view(flipped(tracer, (second,)), order)
    return flipped(permuted_view(tracer, order), (second,))


@covers(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Tracer:
    tracer = asarray(a)
    if axis is None:
        flat = reshape(tracer, (tracer.type.size,))
        return reshape(_roll_axis(flat, shift, 0), tracer.type.shape).copy()
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(axes) == 1:
        axes = tuple(axes) * len(shifts)
    result = tracer
    for amount, place in zip(shifts, axes, strict=True):
        result = _roll_axis(result, amount, as_axis(place, tracer.ndim))
    return result.copy()


def _roll_axis(tracer: Tracer, shift: Any, axis: int) -> Tracer:
    size = tracer.type.shape[axis]
    known = known_scalar(shift)
    if known is None or not isinstance(size, int):
        length = from_value(stage(ops.dim, dim=size))
        return take_axis(tracer, remainder(subtract(iota((size,)), cast_to(asarray(shift), I64)), length), axis)
    amount = int(known) % size if size else 0
    if not amount:
        return tracer
    return join([_cut(tracer, axis, size - amount, size), _cut(tracer, axis, 0, size - amount)], axis)


def _cut(tracer: Tracer, axis: int, start: Any, stop: Any) -> Tracer:
    """Return a static slice along one axis, as an array of its own."""
    shape = tracer.type.shape
    starts, stops = [0] * len(shape), list(shape)
    starts[axis], stops[axis] = start, stop
    return apply(ops.slice_, tracer, start=tuple(starts), stop=tuple(stops), step=(1,) * len(shape))  # type: ignore[no-any-return]


# ---- padding, inserting, deleting


def _per_axis(values: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Return (before, after) per axis for NumPy's forms of pad_width and constant_values."""
    if isinstance(values, dict):
        pairs: list[tuple[Any, Any]] = [(0, 0)] * ndim
        for axis, pair in values.items():
            pairs[as_axis(axis, ndim)] = tuple(pair) if isinstance(pair, tuple | list) else (pair, pair)
        return pairs
    if not isinstance(values, tuple | list | np.ndarray):
        return [(values, values)] * ndim
    items = list(values)
    if items and isinstance(items[0], tuple | list | np.ndarray):
        pairs = [tuple(i) if len(i) == 2 else (i[0], i[0]) for i in items]
        if len(pairs) == 1:
            return pairs * ndim
        if len(pairs) != ndim:
            raise ValueError(
                f"operands could not be broadcast together with remapped shapes: {len(pairs)} pads of {ndim} axes"
            )
        return pairs
    if len(items) == 1:
        return [(items[0], items[0])] * ndim
    if len(items) == 2:
        return [(items[0], items[1])] * ndim
    raise ValueError("pad widths must be one number, one pair, or one pair per axis")


@covers(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tracer:
    tracer = asarray(array)
    widths = [(as_dim(low), as_dim(high)) for low, high in _per_axis(pad_width, tracer.ndim)]
    if any(isinstance(w, int) and w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if mode in ("constant", "empty"):
        values = _per_axis(kwargs.pop("constant_values", 0), tracer.ndim)
        _no_more(kwargs)
        if all(known_scalar(v) is not None and known_scalar(v) == 0 for pair in values for v in pair):
            low, high = zip(*widths, strict=True) if widths else ((), ())
            return apply(ops.pad, tracer, low=low, high=high, interior=(0,) * tracer.ndim)  # type: ignore[no-any-return]
        for axis, (pair, value) in enumerate(zip(widths, values, strict=True)):
            tracer = _pad_constant(tracer, axis, pair, value)
        return tracer.copy()
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise unsupported(f"np.pad with mode={mode!r}", "use constant, edge, reflect, symmetric or wrap")
    if kwargs.pop("reflect_type", "even") != "even":
        raise unsupported("np.pad with reflect_type='odd'", "subtract from twice the border yourself")
    _no_more(kwargs)
    for axis, (low, high) in enumerate(widths):
        if low == 0 and high == 0:
            continue
        size = tracer.type.shape[axis]
        if mode == "edge":
            parts = [_edge(tracer, axis, 0, low), tracer, _edge(tracer, axis, size - 1, high)]
            tracer = join([p for p in parts if p.type.shape[axis] != 0], axis)
            continue
        places = np.pad(np.arange(operator.index(tracer.shape[axis])), (low, high), mode=mode)
        tracer = take_axis(tracer, from_concrete(places), axis)
    return tracer.copy()


def _no_more(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise unsupported(f"np.pad with {', '.join(kwargs)}", "leave it out")


def _edge(tracer: Tracer, axis: int, place: Any, count: Any) -> Tracer:
    shape = list(tracer.type.shape)
    shape[axis] = count
    return spread(_cut(tracer, axis, place, place + 1), tuple(shape))


def _pad_constant(tracer: Tracer, axis: int, widths: tuple[Any, Any], values: tuple[Any, Any]) -> Tracer:
    def block(width: Any, value: Any) -> Tracer:
        shape = list(tracer.type.shape)
        shape[axis] = width
        return spread(cast_to(asarray(value), tracer.dtype), tuple(shape))

    parts = [block(widths[0], values[0]), tracer, block(widths[1], values[1])]
    return join([p for p in parts if p.type.shape[axis] != 0] or [tracer], axis)


@covers(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Tracer:
    """Insert at indices known at capture, or at one that is not."""
    tracer, new = asarray(arr), asarray(values)
    if axis is None:
        tracer, place = reshape(tracer, (tracer.type.size,)), 0
    else:
        place = as_axis(axis, tracer.ndim)
    size = operator.index(tracer.shape[place])
    where: Any
    k: Any
    if is_known(obj):
        where = np.arange(size)[obj] if isinstance(obj, slice) else np.asarray(obj)
        single = where.ndim == 0
        where = np.atleast_1d(where)
        if where.dtype == bool:
            where = np.flatnonzero(where)
        if np.any(where < -size) or np.any(where > size):
            raise IndexError(f"index {obj} is out of bounds for axis {place} with size {size}")
        where, count = np.where(where < 0, where + size, where), len(where)
    else:
        where, single, count = _place_in(obj, "np.insert", size, place, size + 1), True, 1
    if single and new.ndim:
        # NumPy inserts as many rows as values has along the axis
        if new.ndim == tracer.ndim:
            count = operator.index(new.shape[place])
        elif new.ndim == tracer.ndim - 1:
            new = reshape(new, insert_dims(new.type.shape, (place,)))
    shape = list(tracer.type.shape)
    shape[place] = count
    block = spread(cast_to(new, tracer.dtype), tuple(shape))
    # positions of old and new rows in the result
    if isinstance(where, Tracer):
        k = from_concrete(np.arange(size + count))
        inserted = call(np.where, call(np.less, k, call(np.add, where, count)), k - where + size, k - count)
        origin = call(np.where, call(np.less, k, where), k, inserted)
    else:  # np.insert itself says where they go
        where = np.repeat(where, count) if single else where
        origin = from_concrete(np.insert(np.arange(size), where, size + np.arange(count)))
    return take_axis(join([tracer, block], place), origin, place)


@covers(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Tracer:
    """Delete indices known at capture, or one that is not."""
    tracer = asarray(arr)
    if axis is None:
        tracer, place = reshape(tracer, (tracer.type.size,)), 0
    else:
        place = as_axis(axis, tracer.ndim)
    size = operator.index(tracer.shape[place])
    if is_known(obj):
        kept = from_concrete(np.delete(np.arange(size), np.asarray(obj) if isinstance(obj, Tracer) else obj))
    else:
        where = _place_in(obj, "np.delete", size, place, size)
        k = from_concrete(np.arange(size - 1))
        kept = call(np.add, k, call(np.greater_equal, k, where))
    return take_axis(tracer, kept, place)


def _place_in(obj: Any, name: str, size: int, axis: int, count: int) -> Tracer:
    """Return a place from the start for an index known at run time only, checked there: one of `count`."""
    if not isinstance(obj, Tracer) or obj.ndim or obj.dtype.kind not in "iu":
        raise unsupported(f"{name} at traced indices", "give one int, or choose by np.where on positions")
    known = ends(obj.value, current().ranges)
    if known is not None and decide(known[0], ">=") and decide(known[1] - count, "<"):
        return obj
    where = call(np.where, call(np.less, obj, 0), call(np.add, obj, size), obj)
    inside = call(np.logical_and, call(np.greater_equal, where, 0), call(np.less, where, count))
    check(inside, "IndexError", f"index is out of bounds for axis {axis} with size {size}")
    return where


@covers(np.trim_zeros)
def trim_zeros(filt: Any, trim: Any = "fb", **kwargs: Any) -> Any:
    content = resolve_content(asarray(filt))
    if content is not None:
        return wrap_known(np.trim_zeros(content, trim, **as_known(kwargs)))
    raise unsupported(
        "np.trim_zeros of traced values",
        "use `inside = np.flatnonzero(a)` and then `a[inside[0]:inside[-1] + 1]`",
    )


def _as_mask(condition: Any) -> tuple[Tracer, np.ndarray[Any, Any] | None]:
    """Return where a condition is not zero, and the same as an array where it is known at capture."""
    mask = asarray(condition)
    if mask.dtype != BOOL:
        mask = call(np.not_equal, mask, 0)
    return mask, resolve_content(mask)


@covers(np.nonzero)
def nonzero(a: Any) -> tuple[Any, ...]:
    """Return the places of what is not zero: how many is found when the program runs."""
    mask, content = _as_mask(a)
    if content is not None:
        return tuple(wrap_known(content.nonzero()))
    if not mask.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    return tuple(getitem(iota(mask.type.shape, axis), mask) for axis in range(mask.ndim))


@covers(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    return nonzero(call(np.ravel, a))[0]


@covers(np.argwhere)
def argwhere(a: Any) -> Any:
    return call_handler(np.stack, nonzero(a), axis=1)


@covers(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    mask, content = _as_mask(condition)
    tracer = call(np.ravel, a) if axis is None else asarray(a)
    place = as_axis(0 if axis is None else axis, tracer.ndim)
    if content is not None:
        return take_axis(tracer, from_concrete(np.flatnonzero(content)), place)
    return getitem(tracer, (*[slice(None)] * place, mask))


@covers(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    return compress(call(np.ravel, condition), call(np.ravel, arr))


@covers(np.resize)
def resize(a: Any, new_shape: Any) -> Tracer:
    """Return the elements in another shape, from the start again where they do not suffice."""
    tracer = asarray(a)
    shape = tuple(operator.index(d) for d in as_shape(new_shape))
    size, wanted = math.prod(operator.index(d) for d in tracer.shape), math.prod(shape)
    if not size:
        return full(shape, 0, tracer.dtype)
    places = from_concrete(np.arange(wanted).reshape(shape) % size)
    return take_axis(reshape(tracer, (tracer.type.size,)), places, 0)


# ---- triangles and diagonals


def band(shape: tuple[Any, ...], k: Any, upper: bool) -> Tracer:
    """Return the mask of the lower (or upper) triangle of matrices, the k-th diagonal included."""
    rows, columns = iota(shape, len(shape) - 2), iota(shape, len(shape) - 1)
    offset = subtract(columns, rows)
    return asarray(offset >= k) if upper else asarray(offset <= k)


def _triangle(m: Any, k: Any, upper: bool) -> Tracer:
    tracer = asarray(m)
    if tracer.ndim == 1:
        tracer = spread(tracer, (tracer.type.shape[0], tracer.type.shape[0]))
    zeros = spread(full((), 0, tracer.dtype), tracer.type.shape)
    return apply(ops.select, band(tracer.type.shape, k, upper), tracer, zeros)  # type: ignore[no-any-return]


@covers(np.tril)
def tril(m: Any, k: Any = 0) -> Tracer:
    return _triangle(m, k, False)


@covers(np.triu)
def triu(m: Any, k: Any = 0) -> Tracer:
    return _triangle(m, k, True)


def _diagonal_length(rows: Any, columns: Any, offset: int) -> Any:
    first, second = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
    shorter = first if decide(first - second, "<=") else second
    return 0 if decide(shorter, "<") else shorter


def diagonal_of(tracer: Tracer, offset: int, axis1: int, axis2: int) -> Tracer:
    """Return a diagonal of two axes, as the last axis of the result."""
    length = _diagonal_length(tracer.type.shape[axis1], tracer.type.shape[axis2], offset)
    step = iota((length,))
    rows = step if offset >= 0 else add(step, -offset)
    columns = add(step, offset) if offset > 0 else step
    return move_axis(gather(tracer, [rows, columns], (axis1, axis2)), 0, tracer.ndim - 2)


@covers(np.diagonal, native=False)
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Tracer:
    """Return a diagonal: read-only, as NumPy's."""
    tracer = asarray(a)
    if tracer.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second, k = as_axis(axis1, tracer.ndim), as_axis(axis2, tracer.ndim), operator.index(offset)
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    return view_of(
        tracer,
        lambda base: diagonal_of(from_value(base), k, first, second).value,
        None,
        contiguous=False,
        native=lambda content: content.diagonal(k, first, second),
    )


@covers(np.linalg.trace)
def linalg_trace(x: Any, /, *, offset: Any = 0, dtype: Any = None) -> Tracer:
    return trace(x, offset, -2, -1, dtype)


def _register_indices(function: Any, of_shape: Callable[..., Any]) -> None:
    def indices_from(arr: Any, k: int = 0) -> tuple[Tracer, ...]:
        shape = tuple(operator.index(d) for d in asarray(arr).shape)
        return tuple(from_concrete(index) for index in of_shape(shape, k))

    covers(function, native=False)(indices_from)


_register_indices(np.tril_indices_from, lambda shape, k: np.tril_indices(shape[0], k, shape[1]))
_register_indices(np.triu_indices_from, lambda shape, k: np.triu_indices(shape[0], k, shape[1]))
_register_indices(np.diag_indices_from, lambda shape, k: np.diag_indices(shape[0], len(shape)))


@covers(np.linalg.diagonal, native=False)
def linalg_diagonal(x: Any, /, *, offset: Any = 0) -> Tracer:
    return diagonal(x, offset, -2, -1)


def matrix_with_diagonal(vector: Tracer, offset: int) -> Tracer:
    size = vector.type.shape[0]
    order = size + abs(offset)
    step = iota((size,))
    rows, columns = (step, add(step, offset)) if offset >= 0 else (add(step, -offset), step)
    empty = spread(full((), 0, vector.dtype), (order, order))
    return apply(ops.scatter_set, empty, rows, columns, vector, axes=(0, 1))  # type: ignore[no-any-return]


@covers(np.diag, native=False)
def diag(v: Any, k: Any = 0) -> Tracer:
    tracer, offset = asarray(v), operator.index(k)
    if tracer.ndim == 1:
        if is_known(tracer):
            return from_concrete(np.diag(tracer.concrete, offset))  # type: ignore[arg-type]
        return matrix_with_diagonal(tracer, offset)
    if tracer.ndim == 2:
        return diagonal(tracer, offset)
    raise ValueError("Input must be 1- or 2-d.")


@covers(np.diagflat)
def diagflat(v: Any, k: Any = 0) -> Tracer:
    tracer = asarray(v)
    return matrix_with_diagonal(reshape(tracer, (tracer.type.size,)), operator.index(k))


@covers(np.fill_diagonal, native=False)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    if not isinstance(a, Tracer) or a.ndim != 2 or wrap:
        raise unsupported("np.fill_diagonal of this array", "use a[np.arange(n), np.arange(n)] = value on a matrix")
    value = asarray(val)
    length = _diagonal_length(a.type.shape[0], a.type.shape[1], 0)
    step = iota((length,))
    values = spread(cast_to(value, a.dtype), (length,))
    a.assign(stage(ops.scatter_set, a.value, step.value, step.value, values.value, axes=(0, 1)))


@covers(np.trace)
def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None) -> Tracer:
    tracer = asarray(a)
    values = diagonal_of(tracer, operator.index(offset), as_axis(axis1, tracer.ndim), as_axis(axis2, tracer.ndim))
    if dtype is not None:
        values = cast_to(values, np.dtype(dtype))
    elif is_integer(values.dtype) or values.dtype == bool:
        values = cast_to(values, np.result_type(values.dtype, I64))
    return apply(ops.reduce_sum, values, axes=(values.ndim - 1,))  # type: ignore[no-any-return]


# ---- in place


@covers(np.copyto, native=False)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if not isinstance(dst, Tracer):
        raise unsupported("np.copyto into an array made outside", "make the array in the function")
    if where is True:
        dst[...] = src
    else:
        dst[where] = src if not asarray(src).ndim else spread(asarray(src), dst.type.shape)[where]
