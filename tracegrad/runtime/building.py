"""Tensors made of tensors: diagonals, blocks, grids, rotations, quantiles, distances.

Reads tensors. Previous: reducing.py; next: special.py. All is composed of operations of the files before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.runtime import dtypes
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.kinds import refuse_kinds
from tracegrad.runtime.layout import is_dense
from tracegrad.runtime.operate import (
    _cast,
    cast,
    elementwise,
    in_single,
    pointwise,
    power,
    promoting,
    require_one_dtype,
    require_operands,
    require_parts,
    scaled,
    tensor_of,
    to_tensor,
    where,
)
from tracegrad.runtime.reducing import matmul, norm_of, sort
from tracegrad.runtime.shaping import (
    axis_of,
    cat,
    flip,
    index_select,
    movedim,
    narrow,
    require_grid_axes,
    reshape,
    stack,
    tensor_split,
    transpose,
    unsqueeze,
)
from tracegrad.runtime.tape import Plan, apply_composition, ending_in, mode, planned, retitled, underivable
from tracegrad.runtime.tensor import Tensor, integer, method, public, require_sequence, require_tensors, wrap


def _replaced(nan: float, high: float | None, low: float | None, x: Any) -> Any:
    if x.dtype.kind in "biu":
        return x
    if x.dtype.kind == "c":
        parts = [_replaced(nan, high, low, part) for part in (x.real, x.imag)]
        return parts[0].astype(x.dtype) + parts[1].astype(x.dtype) * x.dtype.type(1j)
    limits: Any = ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]
    high, low = float(limits.max) if high is None else high, float(limits.min) if low is None else low
    bounded = np.where(x == math.inf, x.dtype.type(high), np.where(x == -math.inf, x.dtype.type(low), x))
    return np.where(np.isnan(x), x.dtype.type(nan), bounded)


_NAN_TO_NUM = pointwise("NanToNum", _replaced)


@public()
@method("nan_to_num")
@planned()
def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Return the tensor with NaN and infinities replaced; no gradient goes through these."""
    return Plan(_NAN_TO_NUM, (nan, posinf, neginf), [input])


def _embedded(offset: int, first: int, second: int, x: Any) -> Any:
    count, size = x.shape[-1], x.shape[-1] + abs(offset)
    made: Any = as_tracer(np.zeros((*x.shape[:-1], size, size), x.dtype)).copy()
    places = np.arange(count)
    made[..., places + max(-offset, 0), places + max(offset, 0)] = x
    return np.moveaxis(made, (-2, -1), (first, second))


_DIAG_EMBED = Composition("DiagEmbed", _embedded)


@public()
@method("diag_embed")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Return matrices in axes dim1 and dim2 whose diagonals are the last axis."""
    rank = input._a.ndim + 1
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply_composition(_DIAG_EMBED, (offset, first, second), [input])


@public()
@ending_in("BlockDiagBackward0")
def block_diag(*tensors: Tensor) -> Any:
    """Return a matrix with the given ones along its diagonal."""
    blocks = [reshape(t, (1, -1)) if t._a.ndim < 2 else t for t in tensors]
    width, rows, start = sum(b._a.shape[1] for b in blocks), [], 0
    for block in blocks:
        height, own = block._a.shape
        sides = (start, width - start - own)
        before, after = (wrap(np.zeros((height, n), block._a.dtype)) for n in sides)
        rows.append(cat([before, block, after], 1))
        start += own
    return cat(rows, 0)


@public()
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Any:
    """Return the powers of the elements of a vector, as columns."""
    if x._a.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x._a.shape[0] if N is None else integer(N)
    if not count:
        return x.new_empty((x._a.shape[0], 0))
    powers = range(count) if increasing else reversed(range(count))
    return stack([x**k for k in powers], -1)


@public()
@method("rot90")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Return the tensor turned k times by 90 degrees, from the first axis towards the second."""
    a, b = (axis_of(d, input._a.ndim) for d in dims)
    turned: Tensor = apply_composition(_ROT90, (a, b, k % 4), [input])
    if k % 2 and mode.tracing is None:
        turned._a = np.swapaxes(np.ascontiguousarray(np.swapaxes(turned._a, a, b)), a, b)
    return turned


def _turned(a: int, b: int, turns: int, x: Any) -> Any:
    if turns == 0:
        return x.copy()
    if turns == 2:
        return np.flip(x, (a, b))
    return np.swapaxes(np.flip(x, b if turns == 1 else a), a, b)


_ROT90 = Composition("Rot90", _turned)


def _indices(row: int, col: int, offset: int, find: Any) -> Tensor:
    return wrap(np.stack(find(row, offset, col)).astype(np.int64))


@public()
def tril_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
    """Return rows and columns of the lower triangle of a matrix."""
    return _indices(row, col, offset, np.tril_indices)


@public()
def triu_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
    """Return rows and columns of the upper triangle of a matrix."""
    return _indices(row, col, offset, np.triu_indices)


@public()
def cartesian_prod(*tensors: Tensor) -> Any:
    """Return all choices of one element from each vector, one per row."""
    _require_vectors(*tensors)
    if len(tensors) == 1:
        return tensors[0]
    require_grid_axes(tensors)
    sizes = [t._a.shape[0] for t in tensors]
    grids = [t.view(*(-1 if k == axis else 1 for k in range(len(sizes)))) for axis, t in enumerate(tensors)]
    return stack([grid.expand(*sizes).reshape(-1) for grid in grids], 1)


def _require_vectors(*tensors: Tensor) -> None:
    for x in tensors:
        if x._a.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x._a.shape)}")


@public()
@ending_in("StackBackward0")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """Return all choices of r elements of a vector, one per row."""
    _require_vectors(input)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(input._a.shape[0]), r)), np.int64).reshape(-1, r)
    return input[wrap(places)]


@public("trapezoid", "trapz")
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """Return the integral along an axis by the trapezoidal rule."""
    axis = axis_of(dim, y._a.ndim)
    count = y._a.shape[axis] - 1
    if count < 0:
        return y.new_zeros(y._a.shape[:axis] + y._a.shape[axis + 1 :])
    refuse_kinds("trapezoid", y, *(() if x is None else (x,)))
    sums: Any = narrow(y, axis, 0, count) + narrow(y, axis, 1, count)
    if x is None:
        return scaled(sums.sum(axis), dx / 2)
    return retitled(scaled((sums * _widths(x, y, axis)).sum(axis), 0.5), "DivBackward1")


@public()
@method("quantile")
@ending_in("SqueezeBackward4")
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Return quantiles along an axis or of all elements; several ones along a new first axis."""
    wanted = q if isinstance(q, Tensor) else to_tensor(q, input._a.dtype)
    if wanted._a.dtype != input._a.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if wanted._a.size and not (0 <= wanted._a.min() and wanted._a.max() <= 1):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    if input._a.dtype not in (np.float32, np.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if not input._a.size:
        raise RuntimeError("quantile() input tensor must be non-empty")
    whole = dim is None
    rank = input._a.ndim
    ordered = sort(reshape(input, (-1,)) if whole else input, 0 if dim is None else dim).values
    axis = 0 if dim is None else axis_of(dim, rank)
    count = ordered._a.shape[axis]
    place = wanted._a.ravel().astype(np.float64) * (count - 1)
    low, high = np.floor(place), np.ceil(place)
    if interpolation == "nearest":
        low = high = np.rint(place)
    elif interpolation == "lower":
        high = low
    elif interpolation == "higher":
        low = high
    share = np.full(len(place), 0.5) if interpolation == "midpoint" else place - low
    shape = (-1, *(1,) * (ordered._a.ndim - axis - 1))
    below, above = (index_select(ordered, axis, wrap(k.astype(np.int64))) for k in (low, high))
    made = below + (above - below) * wrap(share.astype(input._a.dtype).reshape(shape))
    spoilt = np.isnan(ordered._a).any(axis, keepdims=True)  # NaN anywhere is NaN
    if spoilt.any():
        made = made.masked_fill(wrap(np.broadcast_to(spoilt, made._a.shape).copy()), math.nan)
    made = movedim(made, axis, 0)
    if keepdim:
        made = reshape(made, (-1, *(1,) * rank)) if whole else unsqueeze(made, axis + 1)
    return made if wanted._a.ndim else made[0]


@public()
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Any:
    """Return the distances of all rows of one matrix from all rows of another; the gradient of distance 0 is 0."""
    require_one_dtype(x1, x2)
    for name, x in (("X1", x1), ("X2", x2)):
        if x._a.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x._a.ndim}D")
        refuse_kinds("cdist", x)
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    columns = [t._a.shape[-1] for t in (x1, x2)]
    if columns[0] != columns[1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {columns[0]} X2: {columns[1]}")
    return apply_composition(_CDIST, (float(p),), [x1, x2])


def _distances(order: float, x: Any, y: Any) -> Any:
    difference = np.expand_dims(x, -2) - np.expand_dims(y, -3)
    return norm_of(order if difference.shape[-1] else 1, (difference.ndim - 1,), False, difference)  # 0 of no columns


_CDIST = Composition("Cdist", _distances)


def _logit(eps: float | None, x: Any) -> Any:
    if eps is not None:
        low, high = x.dtype.type(eps), x.dtype.type(1 - eps)
        x = np.where(x < low, low, np.where(x > high, high, x))
    outside = (x < 0) | (x > 1)  # neither the value nor the slope is a number there
    return np.where(outside, np.sqrt(-np.abs(x)), np.log(x) - np.log1p(-x))


_LOGIT = pointwise("Logit", in_single(lambda dtype, eps, x: _logit(eps, _cast(x, dtype))))


@public()
@method("logit")
@planned()
def logit(input: Tensor, eps: float | None = None) -> Any:
    """Return log(x / (1 - x)), of x limited to [eps, 1 - eps]."""
    dtype = input._a.dtype if dtypes.category(input._a.dtype) > 1 else dtypes.default_of(2)
    return Plan(_LOGIT, (dtype, eps), [input])


def _sinc(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.sinc(x)
    zero, pi = x == 0, x.real.dtype.type(math.pi)
    angle = np.where(zero, x.dtype.type(1), x) * pi
    return np.where(zero, 1 - np.square(x * pi) / 6, np.sin(angle) / angle)


_SINC = promoting("Sinc", in_single(_sinc))


@public()
@method("sinc")
@planned()
def sinc(input: Tensor) -> Any:
    """Return sin(pi x) / (pi x), 1 at 0."""
    return elementwise(_SINC, (tensor_of(input),), least=2)


@public()
def atleast_1d(*tensors: Any) -> Any:
    """Return tensors with at least one axis."""
    return _at_least(lambda t: reshape(t, (1,)) if not t._a.ndim else t, tensors)


@public()
def atleast_2d(*tensors: Any) -> Any:
    """Return tensors with at least two axes, new ones in front."""
    return _at_least(lambda t: reshape(t, (1, -1)) if t._a.ndim < 2 else t, tensors)


def _at_least(widen: Any, tensors: Sequence[Any]) -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    made = tuple(widen(t) for t in given)
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else made


@public()
def dstack(tensors: Sequence[Tensor]) -> Any:
    """Return tensors joined along a third axis."""
    require_sequence("dstack", tensors)
    return cat([_deep(t) for t in tensors], 2)


def _deep(t: Tensor) -> Any:
    if t._a.ndim < 2:
        return reshape(t, (1, -1, 1))
    return unsqueeze(t, 2) if t._a.ndim == 2 else t


@public("column_stack")
def column_stack(tensors: Sequence[Tensor]) -> Any:
    """Return vectors as the columns of a matrix, beside the columns of matrices."""
    require_sequence("column_stack", tensors)
    return cat([reshape(t, (-1, 1)) if t._a.ndim < 2 else t for t in tensors], 1)


@public()
@planned()
def polar(abs: Tensor, angle: Tensor) -> Any:
    """Return the complex numbers of given moduli and angles."""
    require_parts(abs, angle)
    return Plan(_POLAR, (dtypes.complex_of(abs._a.dtype),), [abs, angle])


def _polar(dtype: Any, size: Any, angle: Any) -> Any:
    return (size * np.cos(angle)).astype(dtype) + (size * np.sin(angle)).astype(dtype) * dtype.type(1j)


def _direction(x: Any) -> Any:
    if x.dtype.kind != "c":
        return x if x.dtype == np.bool_ else np.sign(x)
    size = np.abs(x)
    zero = size == 0
    return np.where(zero, x * 0, x / np.where(zero, size * 0 + 1, size))


_POLAR, _SGN = pointwise("Polar", _polar), pointwise("Sgn", _direction)


@public()
@method("sgn")
@planned()
def sgn(input: Tensor) -> Any:
    """Return the sign, of complex numbers the number divided by its modulus."""
    return Plan(_SGN, (), [input])


@public()
@method("heaviside")
@underivable("heaviside")
def heaviside(input: Tensor, values: Tensor) -> Any:
    """Return 0 for negative elements, 1 for positive ones, and `values` at 0."""
    require_tensors(input, values)
    refuse_kinds("heaviside", input, values)
    if values._a.dtype != input._a.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    x = input.detach()
    made = where(x == 0, values.detach(), (x > 0).to(x.dtype))
    return made.masked_fill(x.isnan(), math.nan) if dtypes.category(x._a.dtype) == 2 else made


@public()
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Return which elements are among others."""
    require_operands(elements, test_elements)
    given = to_tensor(elements), to_tensor(test_elements)
    refuse_kinds("isin", *given)
    common = dtypes.result_type([t._a for t in given], [])
    searched, wanted = (t._a.astype(common) for t in given)
    return wrap(np.isin(searched, wanted, assume_unique, invert))


@public()
@method("argwhere")
def argwhere(input: Tensor) -> Tensor:
    """Return the positions of elements that are not zero, one per row."""
    return wrap(np.argwhere(input._a).astype(np.int64))


@public()
@method("fliplr")
def fliplr(input: Tensor) -> Any:
    """Return the tensor with its columns in reverse order."""
    if input._a.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@public()
@method("flipud")
def flipud(input: Tensor) -> Any:
    """Return the tensor with its rows in reverse order."""
    if input._a.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


@public()
@method("float_power")
def float_power(input: Any, exponent: Any) -> Any:
    """Return input ** exponent in float64, or complex128."""
    require_operands(input, exponent)
    given = [t for t in (input, exponent) if isinstance(t, Tensor)]
    level = max(3 if type(t) is complex else 0 for t in (input, exponent))
    level = max(level, *(dtypes.category(t._a.dtype) for t in given))
    wide = np.dtype(np.complex128 if level == 3 else np.float64)
    base, exponent = (cast(t, wide) if isinstance(t, Tensor) else t for t in (input, exponent))
    return power(*[t if isinstance(t, Tensor) or type(t) is complex else wide.type(t).item() for t in (base, exponent)])


@public()
@method("index_put")
def index_put(input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Any:
    """Return a copy with values written at index arrays, or added."""
    return input.clone().index_put_(indices, values, accumulate)


def _written(input: Tensor, part: Any, src: Tensor) -> Any:
    made: Tensor = input.clone()
    view = part(made)
    if view.shape != src.shape:
        raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}")
    view.copy_(src)
    return made


@public()
@method("slice_scatter")
@ending_in("SliceScatterBackward0")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """Return a copy with a slice of an axis replaced."""
    lead = (slice(None),) * axis_of(dim, input._a.ndim)
    return _written(input, lambda x: x[(*lead, slice(start, end, step))], src)


@public()
@method("select_scatter")
@ending_in("SelectScatterBackward0")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Any:
    """Return a copy with one position of an axis replaced."""
    lead = (slice(None),) * axis_of(dim, input._a.ndim)
    return _written(input, lambda x: x[(*lead, index)], src)


@public()
@method("as_strided_scatter")
@ending_in("AsStridedScatterBackward0")
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Return a copy with elements replaced, by their places in memory, which must be those of the tensor.

    Raises:
        NotImplementedError: the tensor does not fill its memory.
    """
    if not is_dense(input._a):
        raise NotImplementedError("as_strided_scatter takes a tensor without gaps between its elements: a clone()")
    offset = None if storage_offset is None else storage_offset - input.storage_offset()
    return _written(input, lambda x: x.as_strided(size, stride, offset), src)


@public()
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """Return the running integral along an axis by the trapezoidal rule."""
    refuse_kinds("cumulative_trapezoid", y, *(() if x is None else (x,)))
    axis = axis_of(dim, y._a.ndim)
    count = max(y._a.shape[axis] - 1, 0)
    sums: Any = narrow(y, axis, 0, count) + narrow(y, axis, min(1, y._a.shape[axis]), count)
    if x is None:
        return scaled(sums, dx / 2).cumsum(axis)
    return retitled(scaled((sums * _widths(x, y, axis)).cumsum(axis), 0.5), "DivBackward1")


def _widths(x: Tensor, y: Tensor, axis: int) -> Any:
    """Return the distances of neighbouring places along an axis of y."""
    own = axis if x._a.ndim == y._a.ndim else x._a.ndim - 1
    count = x._a.shape[own] - 1
    widths = narrow(x, own, 1, count) - narrow(x, own, 0, count)
    return reshape(widths, (-1, *(1,) * (y._a.ndim - axis - 1))) if x._a.ndim == 1 else widths


@public()
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Any, ...]:
    """Return the slopes along axes: central differences, one-sided ones of `edge_order` at the ends.

    `spacing` is a number, a number for each axis, or a tensor of coordinates for each axis.
    """
    rank = input._a.ndim
    axes = range(rank) if dim is None else [axis_of(d, rank) for d in ([dim] if isinstance(dim, int) else dim)]
    given = spacing if isinstance(spacing, list | tuple) else [spacing] * len(axes)
    return tuple(_slopes(input, axis, places, edge_order) for axis, places in zip(axes, given, strict=True))


def _slopes(y: Tensor, axis: int, places: Any, order: int) -> Any:
    count = y._a.shape[axis]
    if count <= order:
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    x = places._a if isinstance(places, Tensor) else np.arange(count) * float(places)

    def combined(middle: Any) -> Any:
        """Return the derivative, at given positions, of parabolas through three neighbours (lines for order 1)."""
        total: Any = 0
        for shift, weight in middle:
            shaped = weight.astype(y._a.dtype).reshape((-1, *(1,) * (y._a.ndim - axis - 1)))
            total = total + scaled(narrow(y, axis, shift, len(weight)), wrap(shaped))
        return total

    def parabola(at: int, first: int) -> list[tuple[int, Any]]:
        a, b, c = x[first : first + 3]
        t = x[at]
        weights = (
            (2 * t - b - c) / ((a - b) * (a - c)), (2 * t - a - c) / ((b - a) * (b - c)),
            (2 * t - a - b) / ((c - a) * (c - b)),
        )  # fmt: skip
        return [(first + k, np.array([w])) for k, w in enumerate(weights)]

    def line(first: int) -> list[tuple[int, Any]]:
        width = x[first + 1] - x[first]
        return [(first, np.array([-1 / width])), (first + 1, np.array([1 / width]))]

    before, after = np.diff(x)[:-1], np.diff(x)[1:]
    inner = [
        (0, -after / (before * (before + after))), (1, (after - before) / (before * after)),
        (2, before / (after * (before + after))),
    ]  # fmt: skip
    ends = [line(0), line(count - 2)] if order == 1 else [parabola(0, 0), parabola(count - 1, count - 3)]
    return cat([combined(ends[0]), *([combined(inner)] if count > 2 else []), combined(ends[1])], axis)


@public()
@method("cov")
@ending_in("SqueezeBackward0")
def cov(input: Tensor, *, correction: float = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Any:
    """Return the covariances of variables, which are the rows of a matrix."""
    refuse_kinds("cov", input)
    if input._a.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got {input._a.ndim}")
    rows: Any = reshape(input, (1, -1)) if input._a.ndim < 2 else input
    rows = rows if dtypes.category(rows._a.dtype) >= 2 else rows.to(dtypes.get_default_dtype())
    weights: Any = None
    for given in (fweights, aweights):
        if given is not None:
            weights = given.to(rows.dtype) if weights is None else weights * given
    if weights is None:
        total: Any = rows._a.shape[1]
        centred = rows - rows.mean(1, keepdim=True)
        norm: Any = max(total - correction, 0)
        product = matmul(centred, transpose(centred, 0, 1).conj()) / (norm if norm else rows.new_zeros(()))
    else:
        total = weights.sum()
        centred = rows - (rows * weights).sum(1, keepdim=True) / total
        loss = correction if aweights is None else correction * (weights * aweights).sum() / total
        product = matmul(centred * weights, transpose(centred, 0, 1).conj()) / (total - loss).clamp(min=0)
    return product if rows._a.shape[0] != 1 else reshape(product, ())


@public()
@method("corrcoef")
def corrcoef(input: Tensor) -> Any:
    """Return the correlations of variables, which are the rows of a matrix."""
    product = cov(input)
    if not product._a.ndim:
        return product / product
    deviations: Any = product.diagonal().real.sqrt()
    scaled = product / unsqueeze(deviations, 1) / unsqueeze(deviations, 0)
    return scaled if scaled.is_complex() else scaled.clamp(-1, 1)


@public("hsplit")
@method("hsplit")
def hsplit(input: Tensor, sections: Any) -> Any:
    """Return pieces along the second axis; along the only one of a vector."""
    return tensor_split(input, sections, 0 if input._a.ndim == 1 else 1)


@public("vsplit")
@method("vsplit")
def vsplit(input: Tensor, sections: Any) -> Any:
    """Return pieces along the first axis."""
    if input._a.ndim < 2:
        raise RuntimeError(
            "torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with "
            f"{input._a.ndim} dimensions!"
        )
    return tensor_split(input, sections, 0)
