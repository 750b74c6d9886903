"""Reductions other than the sum, running (cumulative) operations, and sorting by index.

Previous: index.py; next: linalg.py.

Products are differentiated through products of the *other* factors, never by division: zeros among them are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import NONDIFF, OpDef, Sample, register, type_of
from tracegrad.ir.types import I64, is_complex, is_inexact
from tracegrad.ops import c_rules
from tracegrad.ops.creation import iota, ones_like, zeros_like
from tracegrad.ops.elementwise import add, cast, conjugate, divide, equal, multiply, select
from tracegrad.ops.index import add_along, take_along
from tracegrad.ops.infer import (
    boolean,
    infer_argsort,
    infer_argument,
    infer_reduce,
    infer_scan,
    numeric,
    ordered,
)
from tracegrad.ops.record import linear
from tracegrad.ops.shape import (
    batch_axes,
    concatenate,
    dtype_keyword,
    inverse_permutation,
    reduce_sum,
    reshape,
    slice_,
    spread,
    transpose,
)
from tracegrad.ops.text import axis_text, subscript_text

X = ("x",)
Axes = tuple[int, ...]


def conjugate_if_complex(x: Any) -> Any:
    """Return the conjugate of complex values and leave real ones."""
    return conjugate(x) if is_complex(type_of(x).dtype) else x


def shift(x: Any, *, axis: int, reverse: bool, first: Any) -> Any:
    """Move elements one place later along an axis (earlier when reverse); `first` has what fills the free place."""
    shape = type_of(x).shape
    if shape[axis] == 0:
        return x
    n, ones = shape[axis], (1,) * len(shape)

    def cut(y: Any, a: Any, b: Any) -> Any:
        start = tuple(a if k == axis else 0 for k in range(len(shape)))
        stop = tuple(b if k == axis else d for k, d in enumerate(shape))
        return slice_(y, start=start, stop=stop, step=ones)

    filler = cut(first, 0, 1)
    if n == 1:
        return filler
    parts = (cut(x, 1, n), filler) if reverse else (filler, cut(x, 0, n - 1))
    return concatenate(*parts, axis=axis)


def _reduce_text(function: str) -> Any:
    """Make the text of a reduction by a NumPy function; nothing to do when there are no axes."""

    def text(operation: Operation, x: str) -> str:
        axes, ndim = operation.attrs["axes"], len(operation.operands[0].shape)
        keyword = dtype_keyword(operation) if function == "prod" else ""
        return f"np.{function}({x}{axis_text(axes, ndim)}{keyword})" if axes else x

    return text


# The greatest and the smallest: ties share the cotangent equally


def _tie_weights(value: Any, out: Any, x: Any, axes: Axes) -> tuple[Any, Any]:
    """Return where `x` attains the extreme, and `value` (of out's shape) divided by the number of such places."""
    ties = equal(x, spread(out, axes, type_of(x).shape))
    return ties, divide(value, reduce_sum(cast(ties, dtype=type_of(out).dtype), axes=axes))


def _extreme_jvp(tangents: Sequence[Any], out: Any, x: Any, *, axes: Axes) -> Any:
    (tangent,) = tangents
    ties = equal(x, spread(out, axes, type_of(x).shape))
    total = reduce_sum(select(ties, tangent, zeros_like(x)), axes=axes)
    return _tie_weights(total, out, x, axes)[1]


def _extreme_vjp(ct: Any, out: Any, x: Any, *, axes: Axes) -> tuple[Any, ...]:
    ties, share = _tie_weights(ct, out, x, axes)
    return (select(ties, spread(share, axes, type_of(x).shape), zeros_like(x)),)


# fmt: off

_AXES_SAMPLES = (
    Sample("f[5]", {"axes": (0,)}), Sample("f[2,3]", {"axes": (1,)}), Sample("f[2,3,4]", {"axes": (0, 2)}),
    Sample("f[2,3]", {"axes": (0, 1)}), Sample("f[]", {"axes": ()}), Sample("i[2,3]", {"axes": (0,)}, integers=(-9, 9)),
)

reduce_max = register(OpDef(
    "reduce_max", X, "Greatest element over axes; NaN if any is NaN. Ties share the derivative equally.",
    batch=batch_axes, attributes=("axes",), c=c_rules.reduce_c, c_reduce=("lowest", "maximum"),
    infer=infer_reduce(ordered), numpy=_reduce_text("max"),
    jvp=_extreme_jvp, vjp=_extreme_vjp, samples=_AXES_SAMPLES,
))
reduce_min = register(OpDef(
    "reduce_min", X, "Smallest element over axes; NaN if any is NaN. Ties share the derivative equally.",
    batch=batch_axes, attributes=("axes",), c=c_rules.reduce_c, c_reduce=("highest", "minimum"),
    infer=infer_reduce(ordered), numpy=_reduce_text("min"),
    jvp=_extreme_jvp, vjp=_extreme_vjp, samples=_AXES_SAMPLES,
))


def _other_factors(x: Any, axes: Axes) -> Any:
    """Return for each element the product of all others over the axes: the product before it times that after it."""
    shape = type_of(x).shape
    kept = [k for k in range(len(shape)) if k not in axes]
    order = (*kept, *axes)
    moved = x if order == tuple(range(len(shape))) else transpose(x, axes=order)
    last = len(kept)
    flat_shape = (*(shape[k] for k in kept), _size(shape, axes))
    flat = moved if type_of(moved).shape == flat_shape else reshape(moved, shape=flat_shape)
    one = ones_like(flat)
    before = shift(cumprod(flat, axis=last, reverse=False), axis=last, reverse=False, first=one)
    after = shift(cumprod(flat, axis=last, reverse=True), axis=last, reverse=True, first=one)
    others = multiply(before, after)
    others = reshape(others, shape=type_of(moved).shape) if moved is not flat else others
    return others if moved is x else transpose(others, axes=inverse_permutation(order))


def _size(shape: tuple[Any, ...], axes: Axes) -> Any:
    size: Any = 1
    for axis in axes:
        size = size * shape[axis]
    return size


reduce_prod = register(OpDef(
    "reduce_prod", X, "Product over axes.",
    batch=batch_axes, attributes=("axes",), c=c_rules.reduce_c, c_reduce=("1", "multiply"),
    infer=infer_reduce(numeric), numpy=_reduce_text("prod"),
    jvp=lambda tangents, out, x, *, axes: reduce_sum(multiply(tangents[0], _other_factors(x, axes)), axes=axes),
    vjp=lambda ct, out, x, *, axes: (
        multiply(spread(ct, axes, type_of(x).shape), conjugate_if_complex(_other_factors(x, axes))),
    ),
    samples=(*_AXES_SAMPLES, Sample("f[0]", {"axes": (0,)}), Sample("c128[3]", {"axes": (0,)})),
))
reduce_any = register(OpDef(
    "reduce_any", X, "Whether any element over axes is true.",
    batch=batch_axes, attributes=("axes",), c=c_rules.reduce_c, c_reduce=("0", "logical_or"),
    infer=infer_reduce(boolean), numpy=_reduce_text("any"), marker=NONDIFF,
    samples=(Sample("b[5]", {"axes": (0,)}), Sample("b[2,3]", {"axes": (1,)}), Sample("b[0]", {"axes": (0,)})),
))
reduce_all = register(OpDef(
    "reduce_all", X, "Whether all elements over axes are true.",
    batch=batch_axes, attributes=("axes",), c=c_rules.reduce_c, c_reduce=("1", "logical_and"),
    infer=infer_reduce(boolean), numpy=_reduce_text("all"), marker=NONDIFF,
    samples=(Sample("b[5]", {"axes": (0,)}), Sample("b[2,3]", {"axes": (1,)}), Sample("b[0]", {"axes": (0,)})),
))


def _along(operation: Operation) -> str:
    return axis_text((operation.attrs["axis"],), len(operation.operands[0].shape))


_AXIS_SAMPLES = (
    Sample("f[5]", {"axis": 0}), Sample("f[2,3]", {"axis": 1}), Sample("f[4,2]", {"axis": 0}),
    Sample("i[2,5]", {"axis": 1}, integers=(0, 4)),
)

argmax = register(OpDef(
    "argmax", X, "Position of the first greatest element (or NaN) along an axis, as i64.",
    batch=batch_axes, attributes=("axis",), c_statement=c_rules.search_statement,
    infer=infer_argument, marker=NONDIFF, samples=_AXIS_SAMPLES,
    numpy=lambda operation, x: f"np.argmax({x}{_along(operation)})",
))
argmin = register(OpDef(
    "argmin", X, "Position of the first smallest element (or NaN) along an axis, as i64.",
    batch=batch_axes, attributes=("axis",), c_statement=c_rules.search_statement,
    infer=infer_argument, marker=NONDIFF, samples=_AXIS_SAMPLES,
    numpy=lambda operation, x: f"np.argmin({x}{_along(operation)})",
))
argsort = register(OpDef(
    "argsort", X, "Positions that sort x along an axis, as i64; equal elements keep their order, NaN comes last.",
    batch=batch_axes, attributes=("axis",), c_statement=c_rules.argsort_statement,
    infer=infer_argsort, marker=NONDIFF, samples=_AXIS_SAMPLES,
    numpy=lambda operation, x: f'np.argsort({x}, axis={operation.attrs["axis"]}, kind="stable")',
))

# Running operations


def _running_text(function: str) -> Any:
    """Make the text of a running operation; in reverse it runs on the flipped array."""

    def text(operation: Operation, x: str) -> str:
        axis, ndim = operation.attrs["axis"], len(operation.operands[0].shape)
        keyword = (f", axis={axis}" if ndim > 1 else "") + dtype_keyword(operation)
        if not operation.attrs["reverse"]:
            return f"np.{function}({x}{keyword})"
        flipped = subscript_text([":"] * axis + ["::-1"])
        return f"np.{function}({x}{flipped}{keyword}){flipped}"

    return text


_RUNNING_SAMPLES = (
    Sample("f[5]", {"axis": 0, "reverse": False}), Sample("f[2,3]", {"axis": 1, "reverse": True}),
    Sample("f[4,2]", {"axis": 0, "reverse": True}), Sample("f[1]", {"axis": 0, "reverse": False}),
    Sample("f[0,2]", {"axis": 0, "reverse": False}), Sample("i32[4]", {"axis": 0, "reverse": False}),
    Sample("c128[3]", {"axis": 0, "reverse": False}),
)

cumsum: OpDef = linear(
    "cumsum", X, "Running sum along an axis, from the end when reverse.",
    batch=batch_axes, attributes=("axis", "reverse"), c_statement=c_rules.scan_statement, c_reduce=("0", "add"),
    infer=infer_scan(numeric), numpy=_running_text("cumsum"),
    transpose=lambda ct, x, *, axis, reverse: (cumsum(ct, axis=axis, reverse=not reverse),),
    samples=_RUNNING_SAMPLES,
)


def _recurrence_jvp(tangents: Sequence[Any], out: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    t_a, t_b = tangents
    source = t_b
    if t_a is not None:
        part = multiply(t_a, shift(out, axis=axis, reverse=reverse, first=zeros_like(out)))
        source = part if t_b is None else add(t_b, part)
    return linear_recurrence(a, source, axis=axis, reverse=reverse)


def _recurrence_vjp(ct: Any, out: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    # the cotangent runs against the recurrence: ct_b[k] = ct[k] + a[k+1] ct_b[k+1]
    factors = shift(conjugate_if_complex(a), axis=axis, reverse=not reverse, first=zeros_like(a))
    ct_b = linear_recurrence(factors, ct, axis=axis, reverse=not reverse)
    previous = shift(out, axis=axis, reverse=reverse, first=zeros_like(out))
    return multiply(ct_b, conjugate_if_complex(previous)), ct_b


linear_recurrence = register(OpDef(
    "linear_recurrence", ("a", "b"),
    "r[k] = a[k] * r[k-1] + b[k] along an axis, r[0] = b[0]; from the end, with r[k+1], when reverse.",
    batch=batch_axes, attributes=("axis", "reverse"), c_statement=c_rules.scan_statement, c_reduce=("0", "add"),
    infer=infer_scan(is_inexact), numpy_helper="linear_recurrence",
    numpy="linear_recurrence({a}, {b}, {axis}, {reverse})", jvp=_recurrence_jvp, vjp=_recurrence_vjp,
    samples=(
        Sample("f[5] f[5]", {"axis": 0, "reverse": False}), Sample("f[2,3] f[2,3]", {"axis": 1, "reverse": True}),
        Sample("f[1] f[1]", {"axis": 0, "reverse": False}), Sample("f[0] f[0]", {"axis": 0, "reverse": True}),
        Sample("c128[3] c128[3]", {"axis": 0, "reverse": False}),
    ),
))


def _cumprod_previous(out: Any, axis: int, reverse: bool) -> Any:
    return shift(out, axis=axis, reverse=reverse, first=ones_like(out))


def _cumprod_jvp(tangents: Sequence[Any], out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    source = multiply(tangents[0], _cumprod_previous(out, axis, reverse))
    return linear_recurrence(x, source, axis=axis, reverse=reverse)


def _cumprod_vjp(ct: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> tuple[Any, ...]:
    factors = shift(conjugate_if_complex(x), axis=axis, reverse=not reverse, first=zeros_like(x))
    later = linear_recurrence(factors, ct, axis=axis, reverse=not reverse)
    return (multiply(later, conjugate_if_complex(_cumprod_previous(out, axis, reverse))),)


cumprod = register(OpDef(
    "cumprod", X, "Running product along an axis, from the end when reverse.",
    batch=batch_axes, attributes=("axis", "reverse"), c_statement=c_rules.scan_statement, c_reduce=("1", "multiply"),
    infer=infer_scan(numeric), numpy=_running_text("cumprod"),
    jvp=_cumprod_jvp, vjp=_cumprod_vjp, samples=_RUNNING_SAMPLES,
))


def _leader(out: Any, x: Any, axis: int) -> Any:
    """Return for each place the position of the running extreme; among ties the last one met."""
    position = iota(shape=type_of(x).shape, dtype=I64, axis=axis)
    return cummax(select(equal(x, out), position, zeros_like(position)), axis=axis)


def _leader_jvp(tangents: Sequence[Any], out: Any, x: Any, *, axis: int) -> Any:
    return take_along(tangents[0], _leader(out, x, axis), axis=axis)


def _leader_vjp(ct: Any, out: Any, x: Any, *, axis: int) -> tuple[Any, ...]:
    return (add_along(zeros_like(x), _leader(out, x, axis), ct, axis=axis),)


cummax = register(OpDef(
    "cummax", X, "Running maximum along an axis; of ties the last one met carries the derivative.",
    batch=batch_axes, attributes=("axis",), c_statement=c_rules.scan_statement, c_reduce=("lowest", "maximum"),
    infer=infer_scan(ordered), jvp=_leader_jvp, vjp=_leader_vjp, samples=_AXIS_SAMPLES,
    numpy=lambda operation, x: f"np.maximum.accumulate({x}, axis={operation.attrs['axis']})", python=(),
))
cummin = register(OpDef(
    "cummin", X, "Running minimum along an axis; of ties the last one met carries the derivative.",
    batch=batch_axes, attributes=("axis",), c_statement=c_rules.scan_statement, c_reduce=("highest", "minimum"),
    infer=infer_scan(ordered), jvp=_leader_jvp, vjp=_leader_vjp, samples=_AXIS_SAMPLES,
    numpy=lambda operation, x: f"np.minimum.accumulate({x}, axis={operation.attrs['axis']})", python=(),
))

# fmt: on
