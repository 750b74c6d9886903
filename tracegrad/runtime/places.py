"""Where elements belong: searches in sorted sequences, counts in bins, reductions into places; and forms of tensors.

Reads tensors. Previous: special.py; next: writing.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.runtime import dtypes
from tracegrad.runtime.building import quantile
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.kinds import refuse_kind, refuse_kinds
from tracegrad.runtime.operate import check_factor, in_place, to_tensor
from tracegrad.runtime.reducing import nansum, require_inexact, sort
from tracegrad.runtime.reducing import sum as sum_over
from tracegrad.runtime.shaping import (
    axis_of,
    index_put_,
    put_values,
    reshape,
    sizes_of,
    split,
    stack,
    tensor_split,
    transpose,
    unsqueeze,
)
from tracegrad.runtime.tape import apply_composition, as_torch_calls
from tracegrad.runtime.tensor import METHODS, Array, Size, Tensor, integer, method, public, wrap

# ---- searches and counts


@public()
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return where values would be put in into sorted rows: before equal ones, or behind them if `right`."""
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    rows, values = sorted_sequence._a, to_tensor(input)._a
    refuse_kind("searchsorted", dtypes.result_type([rows, values], []))
    rows, values = dtypes.comparable(rows), dtypes.comparable(values)
    if sorter is not None:
        rows = np.take_along_axis(rows, sorter._a, -1)
    if rows.ndim > 1 and rows.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(rows.shape)} and input "
            f"value tensor {list(values.shape)}"
        )
    where: Any = "right" if right or side == "right" else "left"
    if rows.ndim == 1:
        found = np.searchsorted(rows, values, where)
    else:
        flat, wanted = rows.reshape(-1, rows.shape[-1]), values.reshape(-1, values.shape[-1])
        found = np.stack([np.searchsorted(r, v, where) for r, v in zip(flat, wanted, strict=True)])
        found = found.reshape(values.shape)
    return wrap(np.asarray(found, np.int32 if out_int32 else np.int64))


@public()
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Return the number of the bucket between sorted boundaries that each value is in."""
    if boundaries._a.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries._a.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@public()
@method("histc")
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return how many elements are in each of the bins from min to max, or from the least to the greatest element."""
    bins = integer(bins)
    refuse_kinds("histc", input)
    values = input._a.ravel()
    low, high = float(min), float(max)
    if low == high and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    return wrap(np.histogram(values, bins, (low, high))[0].astype(input._a.dtype))


@public()
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Return the position along each axis for positions in the tensor seen as a vector."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return tuple(wrap(np.asarray(k, np.int64)) for k in np.unravel_index(indices._a, sizes))


@public()
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape that tensors of these shapes are broadcast to."""
    try:
        return Size(np.broadcast_shapes(*shapes))
    except ValueError:
        raise RuntimeError(
            "Shape mismatch: objects cannot be broadcast to a single shape: " + ", ".join(map(str, shapes))
        ) from None


# ---- reductions into places


def _ranks(places: Any) -> Any:
    """Return for each place how many equal ones come before it."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.bool_)
    numbers = np.arange(len(ordered))
    ranks = np.empty_like(numbers)
    ranks[order] = numbers - np.maximum.accumulate(np.where(begins, numbers, 0))
    return ranks


def _weighed(x: Any, values: Any, places: Any, own: Any, others: Any) -> Any:
    """Return `own * x` with `others * values` added at places; all but x are vectors."""
    return put_values((("at", 0),), True, (x * own).reshape((-1,)), values * others, places).reshape(x.shape)


_REDUCED = {name: Composition(name, _weighed) for name in ("ScatterReduce", "IndexReduce")}


def _reduced(flat: Any, values: Any, places: Any, reduce: str, include_self: bool) -> tuple[Any, Any, Any]:
    """Return results of joining values at places of a vector, and what each element of both is worth there: the equal
    ones among extremes share the gradient.
    """
    narrow = flat.dtype
    wide = np.dtype(np.float32) if narrow.itemsize == 2 and dtypes.category(narrow) > 1 else narrow
    touched = np.zeros(flat.shape, np.bool_)
    touched[places] = True
    own = np.full(flat.shape, True) if include_self else ~touched
    out, values, flat = flat.astype(wide), values.astype(wide), flat.astype(wide)
    if reduce in ("sum", "mean"):
        out[~own] = 0
        np.add.at(out, places, values)
        counts = np.bincount(places, minlength=out.size) + own if reduce == "mean" else np.ones(out.shape, np.int64)
        hits = np.full(values.shape, True)
        out = out / np.maximum(counts, 1) if dtypes.category(wide) > 1 else out // np.maximum(counts, 1)
    else:
        if not include_self:
            out[places] = values
        (np.maximum if reduce == "amax" else np.minimum).at(out, places, values)
        own &= (flat == out) | ~touched
        hits = values == out[places]
        counts = np.bincount(places[hits], minlength=out.size) + own
    shares = 1.0 / np.maximum(counts, 1)
    weights = (own * shares).astype(narrow), (hits * shares[places]).astype(narrow)
    return (out.astype(narrow), *weights)


def _multiplied(input: Tensor, values: Tensor, places: Any, include_self: bool) -> Any:
    """Return the products of elements with the values at their places: as many steps as one place has values."""
    flat, ranks = reshape(input, (-1,)), _ranks(places)
    if not include_self:
        first = ranks == 0
        flat = flat.index_put((wrap(places[first]),), values[wrap(first)])
        places, values, ranks = places[~first], values[wrap(~first)], ranks[~first] - 1
    for rank in range(int(ranks.max(initial=-1)) + 1):
        now = ranks == rank
        at = wrap(places[now])
        flat = index_put_(flat.clone(), (at,), flat[at] * values[wrap(now)])
    return reshape(flat, input._a.shape)


def _reduce_into(title: str, input: Tensor, places: Any, src: Tensor, reduce: str, include_self: bool) -> Any:
    values = reshape(src, (-1,))
    if reduce == "prod":
        return _multiplied(input, values, places, include_self)
    result, *weights = _reduced(input._a.ravel(), values._a, places, reduce, include_self)
    own, others = (wrap(w) for w in weights)
    made = apply_composition(_REDUCED[title], (), [input, values, wrap(places), reshape(own, input._a.shape), others])
    np.copyto(made._a, result.reshape(input._a.shape))  # what is not rounded twice; the slopes do not depend on it
    return made


@public()
@method("scatter_reduce")
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Return a copy into whose places along an axis values are joined: by "sum", "mean", "prod", "amax" or "amin"."""
    if reduce not in ("sum", "mean", "prod", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    axis = axis_of(dim, input._a.ndim)
    grid: list[Any] = list(np.indices(index._a.shape))
    grid[axis] = index._a
    places = np.arange(input._a.size).reshape(input._a.shape)[tuple(grid)].ravel()
    if src._a.shape != index._a.shape:
        src = src[tuple(slice(0, n) for n in index._a.shape)]
    return _reduce_into("ScatterReduce", input, places, src, reduce, include_self)


in_place("scatter_reduce_", scatter_reduce, "none")


@public()
@method("index_reduce")
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Return a copy into whose slices along an axis others are joined: by "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    axis, shape, given = axis_of(dim, input._a.ndim), input._a.shape, source._a.shape
    if source._a.dtype != input._a.dtype:
        raise RuntimeError(
            f"index_reduce_(): self ({input.dtype.title}) and source ({source.dtype.title}) must have the same scalar "
            "type"
        )
    if index._a.ndim > 1:
        raise IndexError(
            f"index_reduce_(): Index is supposed to be a vector, but got dim: {index._a.ndim} with type: "
            f"{index.dtype.title} and size: {list(index._a.shape)}"
        )
    if given[axis] != index._a.size:
        raise RuntimeError(
            f"index_reduce_(): Number of indices ({index._a.size}) should be equal to source.size(dim): "
            f"({given[axis]}), for dim: {axis}"
        )
    if len(given) != len(shape) or any(n != m and k != axis for k, (n, m) in enumerate(zip(shape, given, strict=True))):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(shape)} source.shape = {list(given)}"
        )
    rows = index._a.ravel()
    if rows.size and not (rows.min() >= 0 and rows.max() < shape[axis]):
        raise IndexError("index out of range in self")
    places = np.arange(input._a.size).reshape(shape).take(rows, axis).ravel()
    return _reduce_into("IndexReduce", input, places, source, reduce, include_self)


in_place("index_reduce_", index_reduce, "none")

# ---- means of what is no NaN, norms that are bounded


@public()
@method("nanmean")
@as_torch_calls
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the mean of the elements that are not NaN."""
    if dtypes.category(input._a.dtype) < 2:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got " + input.dtype.title
        )
    require_inexact("nanmean", input._a.dtype, dtype)
    present = input.isnan().logical_not()
    return nansum(input, dim, keepdim, dtype=dtype) / sum_over(present, dim, keepdim)


@public()
@method("nanquantile")
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Return quantiles of the elements that are not NaN, along an axis or of all."""
    whole = dim is None
    rows = reshape(input, (1, -1)) if whole else METHODS["movedim"](input, axis_of(dim or 0, input._a.ndim), -1)
    lead = rows._a.shape[:-1]
    found = []
    for row in reshape(rows, (-1, rows._a.shape[-1])).unbind(0):
        present = row[wrap(~np.isnan(row._a))]
        found.append(quantile(present if present._a.size else row, q, 0, interpolation=interpolation))
    made = METHODS["movedim"](stack(found), 0, -1)
    several = isinstance(q, Tensor) and q._a.ndim
    made = reshape(made, (*((q._a.size,) if several else ()), *(() if whole else lead)))
    if not keepdim:
        return made
    if whole:
        return reshape(made, (*((q._a.size,) if several else ()), *(1,) * input._a.ndim))
    return unsqueeze(made, axis_of(dim or 0, input._a.ndim) + bool(several))


@public()
@method("renorm")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Any:
    """Return the tensor with the norm of each slice of an axis at most `maxnorm`."""
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if input._a.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input._a.ndim} dimensions")
    axis = axis_of(dim, input._a.ndim)
    others = tuple(k for k in range(input._a.ndim) if k != axis)
    norms = METHODS["norm"](input, p, others, True)
    factors = maxnorm / (norms + 1e-7)
    return input * METHODS["where"](factors, norms > maxnorm, norms.new_ones(()))


# ---- forms


@public()
@method("diagflat")
def diagflat(input: Tensor, offset: int = 0) -> Any:
    """Return a matrix with all elements on its diagonal."""
    return METHODS["diag"](reshape(input, (-1,)), offset)


@public()
@method("diagonal_scatter")
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a copy with a diagonal replaced."""
    made = input.clone()
    place = made.diagonal(offset, dim1, dim2)
    if place.shape != src.shape:
        raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}")
    place.copy_(src)
    return made


@public()
@method("addr")
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta * input + alpha * outer(vec1, vec2)."""
    dtype = dtypes.result_type([t._a for t in (input, vec1, vec2)], [])
    for name, number in (("beta", beta), ("alpha", alpha)):
        check_factor(name, number, dtype)
    beta, alpha = (dtypes.factor(number, dtype) for number in (beta, alpha))
    return _weighted(beta, input) + alpha * METHODS["outer"](vec1, vec2)


def _weighted(beta: Any, input: Tensor) -> Any:
    """Return beta * input; what is not counted does not matter, be it NaN."""
    return beta * (input if beta else METHODS["masked_fill"](input, ~METHODS["isfinite"](input), 0))


@public()
@method("addbmm")
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta * input + alpha * the sum of the products of matrices."""
    beta, alpha = (dtypes.factor(number, input._a.dtype) for number in (beta, alpha))
    return _weighted(beta, input) + alpha * METHODS["bmm"](batch1, batch2).sum(0)


@public()
def atleast_3d(*tensors: Any) -> Any:
    """Return tensors with at least three axes."""

    def deep(t: Tensor) -> Any:
        if t._a.ndim < 2:
            return reshape(t, (1, -1, 1))
        return unsqueeze(t, 2) if t._a.ndim == 2 else t

    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    made = tuple(map(deep, given))
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else made


@public()
@method("dsplit")
def dsplit(input: Tensor, sections: Any) -> Any:
    """Return pieces along the third axis."""
    return tensor_split(input, sections, 2)


@public()
@method("msort")
def msort(input: Tensor) -> Any:
    """Return the elements in order along the first axis."""
    return sort(input, 0).values


@public()
@method("adjoint")
def adjoint(input: Tensor) -> Any:
    """Return transposed matrices, conjugated."""
    if input._a.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return (transpose(input, -2, -1) if input._a.ndim else input).conj()


@public()
def chain_matmul(*matrices: Tensor) -> Any:
    """Return the product of matrices."""
    return functools.reduce(METHODS["matmul"], matrices)


@public()
@method("is_same_size")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have one shape."""
    return bool(input._a.shape == other._a.shape)


@method("sum_to_size")
def sum_to_size(self: Tensor, *sizes: Any, size: Any = None) -> Any:
    """Return the sum over the axes along which `size` was broadcast to the tensor's shape."""
    wanted, shape = sizes_of(sizes if size is None else size), self._a.shape
    new = len(shape) - len(wanted)
    if new < 0 or any(n not in (1, m) for n, m in zip(wanted, shape[new:], strict=True)):
        raise RuntimeError(f"size {list(wanted)} is not expandable to size {list(shape)}.")
    axes = [k for k in range(len(shape)) if k < new or (wanted[k - new] == 1 and shape[k] != 1)]
    made = sum_over(self, tuple(axes), True) if axes else self
    return reshape(made, wanted) if new else made


@public()
@method("split_with_sizes")
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Return views of pieces of given sizes."""
    return split(input, list(split_sizes), dim)


@public()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Any:
    """Split an axis."""
    return METHODS["unflatten"](input, dim, sizes)


def _window(name: str, weights: Callable[[Array], Array]) -> None:
    """Define a window.

    Args:
        weights: gives the weights at places in the period [0, 1].
    """

    def make(window_length: int, periodic: bool = True, *, dtype: Any = None, **options: Any) -> Tensor:
        count = max(window_length if periodic else window_length - 1, 1)
        values = weights(np.arange(window_length) / count)
        values = values if window_length > 1 else np.ones(window_length)
        return wrap(values.astype(dtypes.default_of(2) if dtype is None else dtypes.numpy_dtype(dtype)))

    make.__name__ = make.__qualname__ = name
    make.__doc__ = "Return the weights of a window for spectra."
    public(name)(make)


@public()
def fill(input: Tensor, value: Any) -> Any:
    """Return a copy with all elements a number."""
    return input.clone().fill_(value)


def _waves(*weights: float) -> Callable[[Array], Array]:
    return lambda x: np.sum([w * np.cos(k * 2 * math.pi * x) for k, w in enumerate(weights)], axis=0)


_window("hann_window", _waves(0.5, -0.5))
_window("hamming_window", _waves(0.54, -0.46))
_window("blackman_window", _waves(0.42, -0.5, 0.08))
_window("bartlett_window", lambda x: 1 - np.abs(2 * x - 1))
