"""Shapes and indices of eager tensors: views, joins, gathers and scatters.

Reads and writes tensors. Previous: operate.py; next: reducing.py.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tracegrad.runtime import dtypes
from tracegrad.runtime.engine import engine
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.layout import LIKE_OPERANDS, arrange, check_written, reshaped_strides, strided
from tracegrad.runtime.operate import Number, _cast, broadcast_shape, cast, in_place, number_of, to_tensor
from tracegrad.runtime.tape import Plan, apply_composition, as_torch_calls, mode, planned
from tracegrad.runtime.tensor import (
    METHODS,
    Array,
    Tensor,
    integer,
    method,
    public,
    require_sequence,
    require_tensors,
    wrap,
)
from tracegrad.runtime.views import Step, as_strided, make_pieces, make_view, take_step, write

Index = tuple[Any, ...]


def axis_of(dim: int, ndim: int) -> int:
    """Return a non-negative axis.

    Raises:
        IndexError: there is no such axis.
        TypeError: it is no number.
    """
    if type(dim) is not int:
        dim = integer(dim)
    n = max(ndim, 1)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n


def sizes_of(shape: Sequence[Any]) -> tuple[int, ...]:
    """Return a shape given as one sequence or as several numbers."""
    if len(shape) == 1 and isinstance(shape[0], Sequence | Tensor) and not isinstance(shape[0], str):
        shape = tuple(shape[0])
    return tuple(n if type(n) is int else integer(n) for n in shape)


# ---- views and reshapes

_RESHAPE = Composition("Reshape", lambda shape, x: np.reshape(x, shape), title="UnsafeViewBackward0")


def _full_shape(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if -1 in shape:
        known = 1
        for n in shape:
            known *= n if n != -1 else 1
        if known == 0 or size % known:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")
        return tuple(size // known if n == -1 else n for n in shape)
    known = 1
    for n in shape:
        known *= n
    if known != size:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")
    return shape


def _is_view_of(array: Array, shape: tuple[int, ...]) -> bool:
    return array.flags.c_contiguous or reshaped_strides(array, shape) is not None


@public()
@method("reshape")
def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Any:
    """Return the elements under another shape: a view where the memory allows, else a copy."""
    sizes = _full_shape(sizes_of(sizes if shape is None else shape), input._a.size)
    if input._a.flags.c_contiguous:
        return make_view("View", input, ("reshape", sizes, ()))
    if _is_view_of(input._a, sizes):
        return make_view("ReshapeAlias", input, ("reshape", sizes, ()))
    return apply_composition(_RESHAPE, (sizes,), [input])


method("reshape_as")(lambda self, other: reshape(self, other._a.shape))


@method("view")
def view(self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None) -> Any:
    """Return a view under another shape, or the elements in another dtype."""
    if dtype is not None or (len(sizes) == 1 and isinstance(sizes[0], dtypes.DType)):
        return _read_anew(self, sizes[0] if dtype is None else dtype)
    sizes = _full_shape(sizes_of(sizes if size is None else size), self._a.size)
    if not _is_view_of(self._a, sizes):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return make_view("View", self, ("reshape", sizes, ()))


def _read_anew(self: Tensor, kind: dtypes.DType) -> Tensor:
    """Return the memory read as numbers of another dtype, apart from the graph."""
    array, own, wanted = self._a, self._a.itemsize, kind.itemsize
    if (self.is_conj() or self.is_neg()) and array.dtype != kind.dtype:
        raise RuntimeError(
            "a conjugate view is not read in another dtype\n  help: use resolve_conj() or resolve_neg() first"
        )
    if own != wanted:
        title = f"to view {self.dtype.title} as {kind.title} (different element sizes)"
        if not array.ndim:
            raise RuntimeError(f"self.dim() cannot be 0 {title}")
        if array.strides[-1] != own and array.shape[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {title}, but got {array.strides[-1] // own}")
        if array.shape[-1] * own % wanted:
            raise RuntimeError(f"self.size(-1) must be divisible by {wanted // own} {title}, but got {array.shape[-1]}")
    made = wrap(array.view(kind.dtype))
    made._storage = self._storage
    return made


method("view_as")(lambda self, other: view(self, other._a.shape))


@public()
@method("flatten")
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Join the axes from start_dim to end_dim."""
    shape = input._a.shape
    if not shape:
        return reshape(input, (1,))
    start, end = axis_of(start_dim, len(shape)), axis_of(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end:
        return input
    size = int(np.prod(shape[start : end + 1], dtype=np.int64))
    return reshape(input, (*shape[:start], size, *shape[end + 1 :]))


@public()
def ravel(input: Tensor) -> Any:
    """Return all elements along one axis: a view of a contiguous tensor, else a copy."""
    return reshape(METHODS["contiguous"](input), (-1,))


method("ravel")(ravel)


@method("unflatten")
def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Any:
    """Split an axis."""
    shape = self._a.shape
    dim = axis_of(dim, len(shape))
    return view(self, *shape[:dim], *_full_shape(tuple(sizes), shape[dim]), *shape[dim + 1 :])


@public()
@method("permute")
def permute(input: Tensor, *axes: Any, dims: Any = None) -> Any:
    """Return a view with the axes in another order."""
    given, rank = sizes_of(axes if dims is None else dims), input._a.ndim
    if len(given) != rank:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(given)}"
        )
    axes = tuple(axis_of(d, rank) for d in given)
    if len(set(axes)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return make_view("Permute", input, ("permute", axes, ()))


@public("transpose", "swapdims")
@method("transpose", "swapdims")
def transpose(input: Tensor, dim0: int, dim1: int) -> Any:
    """Return a view with two axes exchanged."""
    axes = list(range(input._a.ndim))
    a, b = axis_of(dim0, len(axes)), axis_of(dim1, len(axes))
    if not axes:
        return make_view("Transpose", input, ("permute", (), ()))
    axes[a], axes[b] = b, a
    return make_view("Transpose", input, ("permute", tuple(axes), ()))


@public()
@method("swapaxes")
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Any:
    """Return a view with two axes exchanged."""
    return transpose(input, axis0, axis1)


@public()
@method("t")
def t(input: Tensor) -> Any:
    """Return the transposed matrix: a view."""
    if input._a.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input._a.ndim}D")
    return make_view("T", input, ("permute", tuple(reversed(range(input._a.ndim))), ()))


@public()
@method("movedim", "moveaxis")
def movedim(input: Tensor, source: Any, destination: Any) -> Any:
    """Return a view with axes moved."""
    if not input._a.ndim:
        return make_view("Permute", input, ("permute", (), ()))
    places = list(range(input._a.ndim))
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    sources = [axis_of(k, input._a.ndim) for k in sources]
    targets = [axis_of(k, input._a.ndim) for k in targets]
    rest = [k for k in places if k not in sources]
    for target, source_axis in sorted(zip(targets, sources, strict=True)):
        rest.insert(target, source_axis)
    return make_view("Permute", input, ("permute", tuple(rest), ()))


public("moveaxis")(movedim)


def _property_T(self: Tensor) -> Any:
    if self._a.ndim == 0:
        warnings.warn(
            "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.",
            UserWarning,
            stacklevel=2,
        )
    elif self._a.ndim != 2:
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Use `x.mT` to transpose batches of matrices or "
            "`x.permute(*range(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
            UserWarning,
            stacklevel=2,
        )
    return make_view("Permute", self, ("permute", tuple(reversed(range(self._a.ndim))), ()))


setattr(Tensor, "T", property(_property_T))  # noqa: B010 properties beside the annotations of Tensor


def _define_matrix_property(name: str) -> None:
    def transposed(self: Tensor) -> Any:
        rank = self._a.ndim
        if not rank:
            return self if name == "mT" else self.conj()
        if rank < 2 or (name == "H" and rank > 2):
            kind = "matrices (2-D tensors)" if name == "H" else "matrices or batches of matrices"
            more = " For batches of matrices, consider using tensor.mH" if rank > 2 else ""
            raise RuntimeError(f"tensor.{name} is only supported on {kind}. Got {rank}-D tensor.{more}")
        made = transpose(self, -2, -1)
        return made if name == "mT" else made.conj()

    setattr(Tensor, name, property(transposed))


for _name in ("mT", "H", "mH"):
    _define_matrix_property(_name)


@public()
@method("squeeze")
def squeeze(input: Tensor, dim: Any = None) -> Any:
    """Return a view without axes of size 1."""
    shape = input._a.shape
    if dim is None:
        kept = tuple(n for n in shape if n != 1)
    else:
        dims = {axis_of(d, len(shape)) for d in (dim if isinstance(dim, tuple | list) else (dim,))}
        kept = tuple(n for k, n in enumerate(shape) if k not in dims or n != 1)
    return _regroup("Squeeze" if dim is None else "Squeeze1", input, kept)


def _regroup(name: str, input: Tensor, shape: tuple[int, ...]) -> Tensor:
    """View under a shape that differs in axes of size 1 alone."""
    return make_view(name, input, ("reshape", shape, ()))


@public()
@method("unsqueeze")
def unsqueeze(input: Tensor, dim: int) -> Any:
    """Return a view with a new axis of size 1."""
    at = axis_of(dim, input._a.ndim + 1)
    return make_view("Unsqueeze", input, ("index", (*[("slice", None, None, None)] * at, None), ()))


@method("expand")
def expand(self: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Any:
    """Return a view repeated along axes of size 1, and along new ones in front."""
    wanted, shape = sizes_of(sizes if size is None else size), self._a.shape
    new = len(wanted) - len(shape)
    if new < 0:
        raise RuntimeError(
            f"expand({self.type_name()}{{{list(shape)}}}, size={list(wanted)}): the number of sizes provided "
            f"({len(wanted)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    full = tuple(shape[k - new] if n == -1 and k >= new else n for k, n in enumerate(wanted))
    for k, n in enumerate(shape):
        if full[k + new] != n and n != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({full[k + new]}) must match the existing size ({n}) at "
                f"non-singleton dimension {k + new}.  Target sizes: {list(full)}.  Tensor sizes: {list(shape)}"
            )
    return make_view("Expand", self, ("expand", full, ()))


method("expand_as")(lambda self, other: expand(self, other._a.shape))


@public()
def broadcast_to(input: Tensor, size: Any) -> Any:
    """Return a view repeated to a shape."""
    return expand(input, tuple(size))


method("broadcast_to")(broadcast_to)


@public()
def broadcast_tensors(*tensors: Tensor) -> Any:
    """Return tensors of one shape: those that have it as they are, views of the others."""
    shape = broadcast_shape(*tensors) if tensors else ()
    return tuple(x if x._a.shape == shape else expand(x, shape) for x in tensors)


_TILE = Composition("Repeat", lambda sizes, x: np.tile(x, sizes))
_REPEAT = Composition("RepeatInterleave", lambda count, dim, x: np.repeat(x, count, axis=dim), title="ViewBackward0")


@method("repeat")
@planned()
def repeat(self: Tensor, *counts: Any, repeats: Any = None) -> Any:
    """Return a copy repeated along each axis."""
    counts = sizes_of(counts if repeats is None else repeats)
    if len(counts) < self._a.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return Plan(_TILE, (counts,), [self])


@public()
@planned()
def tile(input: Tensor, dims: Any) -> Any:
    """Return a copy repeated along each axis."""
    return Plan(_TILE, (tuple(dims),), [input])


@method("tile")
def tile_self(self: Tensor, *counts: Any, dims: Any = None) -> Any:
    """Return a copy repeated along each axis."""
    return tile(self, sizes_of(counts if dims is None else dims))


@public()
@method("repeat_interleave")
def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None) -> Any:
    """Return each element repeated so many times: a number, or one for each."""
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    if isinstance(repeats, Tensor):
        size = input._a.shape[axis_of(dim, input._a.ndim)]
        if repeats._a.ndim and repeats._a.size not in (1, size):
            raise RuntimeError("repeats must have the same size as input along dim")
        places = np.repeat(np.arange(size), np.broadcast_to(repeats._a.reshape(-1), (size,)))
        return index_select(input, dim, wrap(places))
    return apply_composition(_REPEAT, (int(repeats), axis_of(dim, input._a.ndim)), [input])


def _slice_step(ndim: int, dim: int, start: int, stop: int, step: int = 1) -> Step:
    static = tuple(("slice", start, stop, step) if k == dim else ("slice", None, None, None) for k in range(dim + 1))
    return ("index", static, ())


@public()
@method("narrow")
def narrow(input: Tensor, dim: int, start: int, length: int) -> Any:
    """Return a view of part of an axis."""
    if not input._a.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    dim = axis_of(dim, input._a.ndim)
    size, start, length = input._a.shape[dim], integer(start), integer(length)
    if start < 0:
        start += size
    if not 0 <= start <= size or start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return make_view("Slice", input, _slice_step(input._a.ndim, dim, start, start + length))


@public()
@method("select")
def select(input: Tensor, dim: int, index: int) -> Any:
    """Return a view of one position of an axis."""
    if not input._a.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = axis_of(dim, input._a.ndim)
    size, index = input._a.shape[dim], integer(index)
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input._a.shape)} at dimension {dim}"
        )
    static = (*[("slice", None, None, None)] * dim, ("at", 0))
    return make_view("Select", input, ("index", static, (index % size,)))


@public()
@method("diagonal")
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a view of the diagonal, as the last axis."""
    dim1, dim2 = axis_of(dim1, input._a.ndim), axis_of(dim2, input._a.ndim)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return make_view("Diagonal", input, ("diagonal", (integer(offset), dim1, dim2), ()))


_DIAG = Composition("DiagEmbed", lambda k, x: np.diag(x, k))


@public()
@method("diag")
def diag(input: Tensor, diagonal: int = 0) -> Any:
    """Return the diagonal of a matrix, or the matrix with a diagonal."""
    if not 1 <= input._a.ndim <= 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input._a.ndim}D")
    diagonal = integer(diagonal)
    if input._a.ndim == 1:
        return apply_composition(_DIAG, (diagonal,), [input])
    return METHODS["diagonal"](input, diagonal).clone()


@public("split")
def split_of(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Return views of pieces of one size, or of given sizes."""
    return split(tensor, split_size_or_sections, dim)


@method("split")
def split(input: Tensor, split_size: Any, dim: int = 0) -> Any:
    """Return views of pieces of one size, or of given sizes."""
    if not input._a.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = axis_of(dim, input._a.ndim)
    size = input._a.shape[dim]
    if isinstance(split_size, int):
        if split_size < 0:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
        if size and not split_size:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
        bounds = [*range(0, size, split_size), size] if size else [0, 0]
    else:
        bounds = [0]
        for n in split_size if isinstance(split_size, Iterable) else (integer(split_size),):
            bounds.append(bounds[-1] + n)
        if bounds[-1] != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension "
                f"{dim}), but got split_sizes={list(split_size)}"
            )
    name = "Split" if isinstance(split_size, int) else "SplitWithSizes"
    steps = [_slice_step(input._a.ndim, dim, a, b) for a, b in itertools.pairwise(bounds)]
    return make_pieces(name, input, steps, "Cat", dim)


@public()
@method("chunk")
def chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    """Return views of at most so many pieces."""
    if not input._a.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    chunks = integer(chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input._a.shape[axis_of(dim, input._a.ndim)]
    return split(input, -(-size // chunks) if size else [0] * chunks, dim)


@public()
@method("tensor_split")
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> Any:
    """Return so many views of nearly one size, or those between given places."""
    indices_or_sections = next((x for x in (indices_or_sections, indices, sections) if x is not None), None)
    if not input._a.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = axis_of(dim, input._a.ndim)
    size = input._a.shape[dim]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {indices_or_sections}")
        each, more = divmod(size, indices_or_sections)
        bounds = [k * each + min(k, more) for k in range(indices_or_sections + 1)]
    else:
        places = [min(max(k + size if k < 0 else k, 0), size) for k in map(int, indices_or_sections)]
        bounds = [0, *places, size]
    steps = [_slice_step(input._a.ndim, dim, a, max(a, b)) for a, b in itertools.pairwise(bounds)]
    return tuple(make_view("Slice", input, step) for step in steps)


@public()
@method("unbind")
def unbind(input: Tensor, dim: int = 0) -> Any:
    """Return views of the positions of an axis."""
    if not input._a.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = axis_of(dim, input._a.ndim)
    lead = (("slice", None, None, None),) * dim
    steps: list[Step] = [("index", (*lead, ("at", 0)), (k,)) for k in range(input._a.shape[dim])]
    return make_pieces("Unbind", input, steps, "Stack", dim)


@method("__reversed__")
def _reversed(self: Tensor) -> Any:
    return flip(self, 0) if self._a.ndim else self


@method("__iter__")
def iterate(self: Tensor) -> Iterator[Tensor]:
    """Iterate over the first axis."""
    if not self._a.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self, 0))


@method("__len__")
def length(self: Tensor) -> int:
    """Return the size of the first axis."""
    if not self._a.ndim:
        raise TypeError("len() of a 0-d tensor")
    return int(self._a.shape[0])


@method("unfold")
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Any:
    """Return windows of an axis, as a new last axis: a view."""
    dim = axis_of(dimension, self._a.ndim)
    length, size, step = self._a.shape[dim] if self._a.ndim else 1, integer(size), integer(step)
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self._a.ndim:
        return make_view("Unfold", reshape(self, (1,)), _slice_step(1, 0, 0, size))
    return make_view("Unfold", self, ("unfold", (dim, size, step), ()))


@public("as_strided")
@method("as_strided")
def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Return a view of the memory of a tensor, with sizes and strides in elements."""
    return as_strided(input, sizes_of((size,)), sizes_of((stride,)), storage_offset)


# ---- copies, joins

_FLIP = Composition("Flip", lambda axes, x: np.flip(x, axes), layout=LIKE_OPERANDS)
_ROLL = Composition("Roll", lambda shifts, axes, x: np.roll(x, shifts, axes))
#: shape of a tensor without elements that may be joined to any other
_NOTHING = (0,)


def _joined(axis: int, dtype: Any, *xs: Any) -> Any:
    shape = next((x.shape for x in xs if x.shape != _NOTHING), _NOTHING)
    none = (*shape[:axis], 0, *shape[axis + 1 :])
    return np.concatenate([_cast(x.reshape(none) if x.shape == _NOTHING else x, dtype) for x in xs], axis=axis)


_CAT = Composition("Cat", _joined)
_STACK = Composition("Stack", lambda axis, dtype, *xs: np.stack([_cast(x, dtype) for x in xs], axis=axis))
_TRIL = Composition("Tril", lambda k, x: np.tril(x, k))
_TRIU = Composition("Triu", lambda k, x: np.triu(x, k))


@public()
@method("flip")
@planned()
def flip(input: Tensor, *axes: Any, dims: Any = None) -> Any:
    """Return a copy with axes reversed."""
    if not axes and dims is None:
        raise TypeError('flip() missing 1 required positional arguments: "dims"')
    axes = tuple(axis_of(d, input._a.ndim) for d in sizes_of(axes if dims is None else dims))
    return Plan(_FLIP, (axes if input._a.ndim else (),), [input])


def _check_matrix(name: str, input: Tensor) -> None:
    if input._a.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


@public()
@method("roll")
@planned()
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Any:
    """Return a copy with elements moved around along axes."""
    steps, axes = (tuple(value) if isinstance(value, list | tuple) else (value,) for value in (shifts, dims))
    steps = tuple(map(integer, steps))
    if dims is None or not axes:
        if len(steps) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:0")
        return Plan(_ROLL, (steps[0], None), [input])
    if not input._a.size:
        return Plan(_ROLL, (0, None), [input])
    if len(steps) != len(axes):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(axes)}")
    if not input._a.ndim:
        raise IndexError(f"Dimension specified as {axes[0]} but tensor has no dimensions")
    return Plan(_ROLL, (steps, tuple(axis_of(d, input._a.ndim) for d in axes)), [input])


@public("cat", "concat", "concatenate")
@as_torch_calls
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    """Return tensors joined along an axis."""
    require_sequence("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for k, x in enumerate(tensors):
        if not x._a.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    shape = next((x._a.shape for x in tensors if x._a.shape != _NOTHING), _NOTHING)
    axis = axis_of(dim, len(shape))
    for number, x in enumerate(tensors):
        other = x._a.shape
        if other == _NOTHING:
            continue
        if len(other) != len(shape):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(shape)} and {len(other)}")
        for k, (n, m) in enumerate(zip(shape, other, strict=True)):
            if k != axis and n != m:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {n} but got size {m} for "
                    f"tensor number {number} in the list."
                )
    dtype = dtypes.result_type([x._a for x in tensors], [])
    return apply_composition(_CAT, (axis, dtype), list(tensors))


@public()
@as_torch_calls
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    """Return tensors joined along a new axis."""
    require_sequence("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = tensors[0]._a.shape
    for k, x in enumerate(tensors):
        if x._a.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(x._a.shape)} at entry {k}"
            )
    dtype = dtypes.result_type([x._a for x in tensors], [])
    return apply_composition(_STACK, (axis_of(dim, len(shape) + 1), dtype), list(tensors))


@public()
@as_torch_calls
def hstack(tensors: Sequence[Tensor]) -> Any:
    """Join along the second axis (the first for vectors)."""
    require_sequence("hstack", tensors)
    rows = [x if x._a.ndim else reshape(x, (1,)) for x in tensors]
    return cat(rows, 0 if rows[0]._a.ndim == 1 else 1)


@public("vstack", "row_stack")
@as_torch_calls
def vstack(tensors: Sequence[Tensor]) -> Any:
    """Join along the first axis, vectors as rows."""
    require_sequence("vstack", tensors)
    return cat([x if x._a.ndim > 1 else reshape(x, (1, -1)) for x in tensors], 0)


@public()
@method("tril")
@planned()
def tril(input: Tensor, diagonal: int = 0) -> Any:
    """Return the lower triangle, zeros elsewhere."""
    _check_matrix("tril", input)
    return Plan(_TRIL, (integer(diagonal),), [input])


@public()
@method("triu")
@planned()
def triu(input: Tensor, diagonal: int = 0) -> Any:
    """Return the upper triangle, zeros elsewhere."""
    _check_matrix("triu", input)
    return Plan(_TRIU, (integer(diagonal),), [input])


in_place("tril_", tril)
in_place("triu_", triu)


def require_grid_axes(tensors: Sequence[Tensor]) -> None:
    """Check the coordinates along the axes of a grid.

    Raises:
        RuntimeError: there are none, or they have several dtypes, or one is no number and no vector.
    """
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(x._a.dtype != tensors[0]._a.dtype for x in tensors):
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    for x in tensors:
        if x._a.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")


@public()
def meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    """Return coordinates of a grid."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    require_grid_axes(given)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if indexing == "xy" and len(given) >= 2:
        second, first, *others = meshgrid(given[1], given[0], *given[2:])
        return (first, second, *others)
    shape = tuple(x._a.size for x in given)
    return tuple(
        expand(reshape(x, tuple(-1 if k == i else 1 for i in range(len(shape)))), shape) for k, x in enumerate(given)
    )


# ---- indexing


def _plain(entry: Any) -> Any:
    """Return an index entry without integers of rank 0; lists, arrays and bools turned into tensors."""
    if isinstance(entry, list | tuple | np.ndarray | range | bool):
        entry = wrap(np.asarray(entry))
    if isinstance(entry, Tensor):
        entry = _mask_of(entry)
        return int(entry._a) if entry._a.ndim == 0 and entry._a.dtype.kind in "iu" else entry
    if isinstance(entry, np.integer):
        return int(entry)
    if isinstance(entry, slice):
        return slice(*[None if v is None else operator.index(v) for v in (entry.start, entry.stop, entry.step)])
    return entry


def _mask_of(index: Tensor) -> Tensor:
    """Return an index as it is, one of uint8 as the mask that it means."""
    if index._a.dtype != np.uint8:
        return index
    warnings.warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
        UserWarning,
        stacklevel=4,
    )
    return wrap(np.asarray(index._a != 0))


def _entries(key: Any) -> list[Any]:
    given = list(key) if isinstance(key, tuple) else [key]
    if isinstance(key, list) and any(isinstance(k, slice | Tensor | list) or k is None or k is Ellipsis for k in key):
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in a later "
            "release: use x[tuple(seq)] instead of x[seq]",
            UserWarning,
            stacklevel=3,
        )
        given = key
    entries = [_plain(k) for k in given]
    for entry in entries:
        if not (entry is None or entry is Ellipsis or isinstance(entry, int | slice | Tensor)):
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
                f"{type(entry).__name__})"
            )
    return entries


def _check_steps(entries: Sequence[Any]) -> None:
    for entry in entries:
        if isinstance(entry, slice) and entry.step is not None and entry.step <= 0:
            raise ValueError("step must be greater than zero")


def _basic_step(entries: Sequence[Any], array: Array) -> Step:
    """Return the step of a basic index; plain positions are kept apart, so that a loop over them makes one kernel."""
    static: list[Any] = []
    positions: list[int] = []
    used = sum(1 for e in entries if e is not None and e is not Ellipsis)
    if used > array.ndim:
        if not array.ndim and any(isinstance(e, slice) for e in entries):
            alone = len(entries) == 1
            raise IndexError(
                "slice() cannot be applied to a 0-dim tensor."
                if alone
                else "too many indices for tensor of dimension 0"
            )
        if not array.ndim:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                "convert a 0-dim tensor to a number"
            )
        raise IndexError(f"too many indices for tensor of dimension {array.ndim}")
    axis = inserted = 0
    repeated = False
    for entry in entries:
        if repeated and entry is not Ellipsis:
            raise IndexError("an index can only have a single ellipsis ('...')")
        if entry is Ellipsis:
            repeated = Ellipsis in static
            if not repeated:
                axis += array.ndim - used
                static.append(Ellipsis)
        elif entry is None:
            static.append(None)
            inserted += 1
        elif isinstance(entry, slice):
            start, stop, step = entry.indices(array.shape[axis])
            full = (start, stop, step) == (0, array.shape[axis], 1)
            static.append(("slice", None, None, None) if full else ("slice", start, max(stop, start), step))
            axis += 1
        else:
            size = array.shape[axis]
            if not -size <= entry < size:
                raise IndexError(f"index {entry} is out of bounds for dimension {axis + inserted} with size {size}")
            static.append(("at", len(positions)))
            positions.append(int(entry) % size)
            axis += 1
    return ("index", tuple(static), tuple(positions))


def _axes_taken(entry: Any) -> int:
    return entry._a.ndim if isinstance(entry, Tensor) and entry._a.dtype == np.bool_ else 1


def _check_mask(shape: tuple[int, ...], axis: int, full: tuple[int, ...]) -> None:
    for k, n in enumerate(shape):
        if axis + k < len(full) and full[axis + k] != n:
            raise IndexError(
                f"The shape of the mask {list(shape)} at index {k} does not match the shape of the indexed tensor "
                f"{list(full)} at index {axis + k}"
            )


def _index_error(error: IndexError, template: tuple[Any, ...]) -> IndexError:
    """Return NumPy's error for index arrays in torch's words, which count the index arrays."""
    found = re.search(r"(.*) for axis (\d+) (.*)", str(error))
    if found is None:
        return error
    number = sum(entry[0] == "at" for entry in template[: int(found[2])])
    return IndexError(f"{found[1]} for dimension {number} {found[3]}")


def _split_index(entries: Sequence[Any], array: Array) -> tuple[list[Any], list[Tensor | None]]:
    """Return the basic part of an index, and what indexes the axes that it leaves, in order: None for all positions.

    As in torch the basic part is applied first, so that a plain position has no part in where new axes go.
    """
    used = sum(0 if e is None or e is Ellipsis else _axes_taken(e) for e in entries)
    if used > array.ndim:
        raise IndexError(f"too many indices for tensor of dimension {array.ndim}")
    basic: list[Any] = []
    chosen: list[Tensor | None] = []
    for entry in entries:
        if entry is Ellipsis:
            basic += [_ALL] * (array.ndim - used)
            chosen += [None] * (array.ndim - used)
            used = array.ndim
        elif isinstance(entry, Tensor):
            basic += [_ALL] * _axes_taken(entry) or [None]
            chosen.append(entry)
        else:
            basic.append(entry)
            if not isinstance(entry, int):
                chosen.append(None)
    return basic, chosen


_ALL = slice(None)


def _template(chosen: Sequence[Tensor | None], array: Array) -> tuple[tuple[Any, ...], list[Tensor]]:
    """Return an index with arrays: a template, and the index arrays as operands."""
    template: list[Any] = []
    operands: list[Tensor] = []
    for entry in chosen:
        if entry is None:
            template.append(("slice", None, None, None))
            continue
        index = entry._a
        if index.dtype == np.bool_:
            _check_mask(index.shape, len(template), array.shape)
            places = np.nonzero(index) if index.ndim else (np.arange(int(index)),)
        elif index.dtype not in (np.int64, np.int32, np.uint8) and index.size:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        else:
            places = (index,)
        for place in places:
            template.append(("at", len(operands)))
            operands.append(wrap(place.astype(np.int64)))
    try:
        np.broadcast_shapes(*[o._a.shape for o in operands])
    except ValueError:
        shapes = ", ".join(str(list(o._a.shape)) for o in operands)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    if 0 in [n for n, entry in zip(array.shape, template, strict=False) if entry[0] == "slice"]:
        operands = [wrap(np.zeros_like(o._a)) for o in operands]  # of nothing any position is one
    return tuple(template), operands


def _advanced(self: Tensor, entries: Sequence[Any]) -> tuple[Tensor, tuple[Any, ...], list[Tensor]]:
    """Return the view that the basic part of an index leads to, and template and operands of the rest."""
    basic, chosen = _split_index(entries, self._a)
    step = _basic_step(basic, self._a)
    place = self if all(e == ("slice", None, None, None) for e in step[1]) else make_view(_view_name(basic), self, step)
    return place, *_template(chosen, place._a)


def _key(template: tuple[Any, ...], places: Sequence[Any]) -> tuple[Any, ...]:
    key = []
    for entry in template:
        key.append(places[entry[1]] if entry[0] == "at" else slice(*entry[1:]))
    return tuple(key)


_INDEX = Composition("Index", lambda template, x, *places: x[_key(template, places)])


def put_values(template: Any, accumulate: bool, x: Any, values: Any, *places: Any) -> Any:
    if not x.ndim and template:
        values = values.reshape((-1,)) if values.ndim else values
        return put_values(template, accumulate, x.reshape((1,)), values, *places).reshape(())
    made = x.copy()
    if accumulate:
        np.add.at(made, _key(template, places), values)
    else:
        made[_key(template, places)] = values
    return made


_INDEX_PUT, _INDEX_ADD, _INDEX_COPY, _INDEX_FILL = (
    Composition(name, put_values) for name in ("IndexPut", "IndexAdd", "IndexCopy", "IndexFill")
)


@method("__getitem__")
def get_item(self: Tensor, key: Any) -> Any:
    """Return a view for positions and slices, a copy for index arrays and masks."""
    found = engine.index(self._a, key) if engine and not mode.unusual else None
    if found is not None:
        return make_view(found[0], self, found[1], found[2])
    entries = _entries(key)
    _check_steps(entries)
    if not any(isinstance(e, Tensor) for e in entries):
        return make_view(_view_name(entries), self, _basic_step(entries, self._a))
    place, template, operands = _advanced(self, entries)
    return _select(_INDEX, place, template, operands)


def _select(composition: Composition, place: Tensor, template: tuple[Any, ...], operands: list[Tensor]) -> Tensor:
    array = place._a
    try:
        array[_key(template, [o._a for o in operands])]
    except IndexError as error:
        raise _index_error(error, template) from None
    made: Tensor = apply_composition(composition, (template,), [place, *operands])
    if not array.flags.c_contiguous or 1 in array.shape:
        made._a = _in_order_of(array, template, [o._a for o in operands], made._a)
    return made


def _view_name(entries: Sequence[Any]) -> str:
    """Return torch's name of the view that a basic index leads to: that of its last step."""
    for entry in reversed(entries):
        if entry is None:
            return "Unsqueeze"
        if isinstance(entry, int):
            return "Select"
        if isinstance(entry, slice) and entry != _ALL:
            return "Slice"
    return "Slice" if entries == [_ALL] else "Alias"


def _in_order_of(array: Array, template: tuple[Any, ...], places: Sequence[Array], out: Array) -> Array:
    """Return what an index with arrays gave with torch's strides: those of the axes that are not indexed decide."""
    indexed = [k for k, entry in enumerate(template) if entry[0] == "at"]
    shape = np.broadcast_shapes(*[p.shape for p in places])
    axes = [k for k in range(array.ndim) if k not in indexed]
    together = indexed[-1] - indexed[0] == len(indexed) - 1
    at = indexed[0] if together else 0
    strides = [array.strides[k] for k in axes]
    source = strided(array, out.shape, [*strides[:at], *[0] * len(shape), *strides[at:]])
    seen = (*(1,) * at, *shape, *(1,) * (len(axes) - at))
    return arrange(LIKE_OPERANDS, (source, *[np.broadcast_to(p, shape).reshape(seen) for p in places]), out)


def _without_leading_ones(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    while len(shape) > rank and shape[0] == 1:
        shape = shape[1:]
    return shape


@method("__setitem__")
def set_item(self: Tensor, key: Any, value: Any) -> None:
    """Write values into a place."""
    if not isinstance(value, Tensor | int | float | complex | np.generic):
        module = "numpy." if isinstance(value, np.ndarray) else ""
        raise TypeError(f"can't assign a {module}{type(value).__name__} to a {self.type_name()}")
    given = value if isinstance(value, Tensor) else wrap(dtypes.fitting_array(value, self._a.dtype))
    found = engine.index(self._a, key) if engine and not mode.unusual else None
    if found is not None:
        whole = _is_whole(key, found[2], self._a)
        _fill(self if whole else make_view("Slice", self, found[1], found[2]), given)
        return
    entries = _entries(key)
    _check_steps(entries)
    if not any(isinstance(e, Tensor) for e in entries):
        step = _basic_step(entries, self._a)
        whole = mode.tracing is None and _is_whole(key, take_step(*step, self._a), self._a)
        _fill(self if whole else make_view("Slice", self, step), given)
        return
    place, template, operands = _advanced(self, entries)
    indices = [e for e in entries if isinstance(e, Tensor)]
    if isinstance(value, Tensor):
        _check_put(self, given, indices)
    given = reshape(given, _without_leading_ones(given._a.shape, 0))
    try:
        if given._a.ndim:
            _check_values(place._a[_key(template, [o._a for o in operands])].shape, given._a.shape)
        write(
            "index_put_", place,
            lambda x: apply_composition(_INDEX_PUT, (template, False), [x, cast(given, x._a.dtype), *operands]),
            [given], sharing="any" if _is_filling(given, indices) else "none",
        )  # fmt: skip
    except IndexError as error:
        raise _index_error(error, template) from None


def _is_whole(key: Any, found: Array, array: Array) -> bool:
    """Return whether a key without positions, which leads to `found`, is one of slices that leave nothing out."""
    if found.shape != array.shape or found.strides != array.strides:
        return False
    return all(entry is Ellipsis or isinstance(entry, slice) for entry in (key if isinstance(key, tuple) else (key,)))


def _fill(place: Tensor, given: Tensor) -> None:
    """Write values into a tensor or a view."""
    shape = place._a.shape
    warn_of_discarded(given, place._a.dtype)
    if given._a.ndim > len(shape):
        given = reshape(given, _without_leading_ones(given._a.shape, len(shape)))
    if given._a.ndim:
        place.copy_(given if given._a.shape == shape else expand(given, shape))
    else:
        composition = _FILL_TENSOR if shape else _FULL_COPY
        write(
            "fill_", place, lambda x: apply_composition(composition, (), [x, given]), [given],
            repeats=0 not in place._a.strides,
        )  # fmt: skip


def _check_put(self: Tensor, values: Tensor, indices: Sequence[Tensor]) -> None:
    """Check the dtype of values that are written; one number under a mask has to fit, as in masked_fill."""
    if _is_filling(values, indices):
        dtypes.check_fits(values._a, self._a.dtype)
    elif values._a.dtype != self._a.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {self.dtype.title} for the destination "
            f"and {values.dtype.title} for the source."
        )


def _is_filling(values: Tensor, indices: Sequence[Tensor]) -> bool:
    """Return whether one number is written under one mask."""
    if values._a.size != 1 or len(indices) != 1:
        return False
    return bool(indices[0]._a.ndim) and indices[0]._a.dtype == np.bool_


def _check_values(place: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if len(shape) > len(place) or any(n not in (1, m) for n, m in zip(shape[::-1], place[::-1], strict=False)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape "
            f"{list(place)}"
        )


@method("index_put_")
def index_put_(self: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values at index arrays, or add them."""
    given = [None if i is None else _mask_of(to_tensor(i)) for i in indices]
    indices = [] if accumulate else [i for i in given if i is not None]
    _check_put(self, values, indices)
    template, operands = _template(given, self._a)
    return write(
        "index_put_",
        self,
        lambda x: apply_composition(_INDEX_PUT, (template, accumulate), [x, cast(values, x._a.dtype), *operands]),
        [values],
        sharing="any" if _is_filling(values, indices) else "none",
    )


def warn_of_discarded(source: Tensor, dtype: np.dtype[Any]) -> None:
    """Warn, once, if imaginary parts are lost in a dtype."""
    if source._a.dtype.kind == "c" and dtype.kind not in "bc":
        _warn_of_casting()


@functools.cache
def _warn_of_casting() -> None:
    warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=5)


_FULL_COPY = Composition(
    "Copy", lambda x, y: np.broadcast_to(_cast(y, x.dtype), x.shape), title="CopyBackwards", layout=None
)


@method("copy_")
def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Replace the content by that of another tensor, broadcast and converted."""
    if type(number_of(other)) not in Number:
        require_tensors(other)
    source = to_tensor(other)
    warn_of_discarded(source, self._a.dtype)

    def compute(x: Tensor) -> Tensor:
        check_written(x._a.shape, source._a.shape)
        made: Tensor = apply_composition(_FULL_COPY, (), [x, source])
        return made

    return write("copy_", self, compute, [source])


_ZERO = Composition("Zero", lambda x, y: np.broadcast_to(y, x.shape), layout=None)
_FILL = Composition("Fill", lambda x, y: np.broadcast_to(y, x.shape), overload=2, layout=None)
_FILL_TENSOR = Composition("Fill", _FULL_COPY.function, overload=3, layout=None)


@method("fill_")
def fill_(self: Tensor, value: Any) -> Tensor:
    """Set all elements to a number."""
    if type(number_of(value)) not in Number:
        require_tensors(value)
    given = value if isinstance(value, Tensor) else wrap(dtypes.fitting_array(number_of(value), self._a.dtype))
    warn_of_discarded(given, self._a.dtype)
    filler = cast(given, self._a.dtype)
    if filler._a.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {filler._a.ndim} dimensions."
        )
    composition = _FILL_TENSOR if isinstance(value, Tensor) else _FILL
    return write("fill_", self, lambda x: apply_composition(composition, (), [x, filler]), [filler], repeats=True)


@method("zero_")
def zero_(self: Tensor) -> Tensor:
    """Set all elements to 0."""
    zero = wrap(np.zeros((), self._a.dtype))
    return write("zero_", self, lambda x: apply_composition(_ZERO, (), [x, zero]), repeats=True)


_GATHER = Composition("Gather", lambda dim, x, index: _along(x, index, dim))
_SCATTER, _SCATTER_ADD = (
    Composition(name, lambda dim, add, x, index, values: _put_along(dim, add, x, index, values))
    for name in ("Scatter", "ScatterAdd")
)
_SCATTER_NUMBER = Composition("Scatter", _SCATTER.function, overload=1)


def _grid(index: Any, dim: int) -> tuple[Any, ...]:
    """Return index arrays for all axes: `index` along dim, and its own positions along the others."""
    shape = index.shape
    return tuple(
        index if k == dim else np.arange(n).reshape(tuple(n if i == k else 1 for i in range(len(shape))))
        for k, n in enumerate(shape)
    )


def _along(x: Any, index: Any, dim: int) -> Any:
    x = x if x.ndim else x.reshape((1,))
    return x[_grid(index, dim)] if index.ndim else x[index]


def _put_along(dim: int, add: bool, x: Any, index: Any, values: Any) -> Any:
    if not x.ndim or not index.ndim:
        values = values.reshape((-1,)) if values.ndim else values
        return _put_along(dim, add, x.reshape((-1,)), index.reshape((-1,)), values).reshape(x.shape)
    made = x.copy()
    grid = _grid(index, dim)
    values = values[tuple(slice(0, n) for n in index.shape)] if values.ndim else values
    if add:
        np.add.at(made, grid, values)
    else:
        made[grid] = values
    return made


@public()
@method("gather")
@as_torch_calls
def gather(input: Tensor, dim: int, index: Tensor) -> Any:
    """Return elements at positions along an axis: out[i][j] = input[index[i][j]][j] for dim 0."""
    axis = axis_of(dim, input._a.ndim)
    places = _places("gather", input, axis, index)
    return apply_composition(_GATHER, (axis,), [input, places])


def _places(name: str, input: Tensor, axis: int, index: Tensor) -> Tensor:
    """Return the index of a gather or scatter as int64.

    Raises:
        RuntimeError: it has another dtype, rank or size than it should, or points outside.
    """
    array, shape = index._a, input._a.shape
    if array.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if not array.size:
        return _int64(index)
    if max(array.ndim, 1) != max(len(shape), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    if any(k != axis and n > m for k, (n, m) in enumerate(zip(array.shape, shape, strict=False))):
        raise RuntimeError(
            f"Size does not match at dimension {axis}: Expected index {list(array.shape)} to be no larger than self "
            f"{list(shape)} apart from dimension {axis}"
        )
    size = shape[axis] if shape else 1
    low, high = array.min(), array.max()
    if low < 0 or high >= size:
        raise RuntimeError(f"index {low if low < 0 else high} is out of bounds for dimension {axis} with size {size}")
    return _int64(index)


def _int64(index: Tensor) -> Tensor:
    return index if index._a.dtype == np.int64 else wrap(index._a.astype(np.int64))


@public()
@method("take_along_dim")
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Any:
    """Return elements at positions along an axis, or of all: the other axes are broadcast, negative positions count
    from the end."""
    if indices._a.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.title}")
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(_from_the_end(indices, input._a.size), (-1,)))
    if input._a.ndim != indices._a.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input._a.ndim} dimensions for input, and {indices._a.ndim} dimensions for indices"
        )
    axis = axis_of(dim, input._a.ndim)
    shapes = [list(t._a.shape) for t in (input, indices)]
    others = broadcast_shape(*[wrap(np.empty((*s[:axis], *s[axis + 1 :]), np.bool_)) for s in shapes])
    x, places = (
        expand(t, (*others[:axis], *s[axis : axis + 1], *others[axis:]))
        for t, s in zip((input, indices), shapes, strict=True)
    )
    return gather(x, axis, _from_the_end(places, shapes[0][axis] if shapes[0] else 1))


def _from_the_end(indices: Tensor, size: int) -> Tensor:
    places = indices._a
    if places.size and not (-size <= places.min() and places.max() < size):
        raise IndexError(f"index out of range: positions of an axis of size {size} are from {-size} to {size - 1}")
    return wrap(np.where(places < 0, places + size, places).astype(np.int64))


@public()
@method("scatter")
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Any:
    """Return a copy with elements at positions along an axis replaced, or joined by reduce: "add" or "multiply"."""
    given = src if value is None else value
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        values = given if isinstance(given, Tensor) else expand(to_tensor(given, input._a.dtype), index._a.shape)
        return METHODS["scatter_reduce"](input, dim, index, values, "sum" if reduce == "add" else "prod")
    if isinstance(given, Tensor):
        return _scatter("scatter", _SCATTER, input, dim, index, given)
    return _scatter("scatter", _SCATTER_NUMBER, input, dim, index, to_tensor(given, input._a.dtype))


def _scatter(name: str, composition: Composition, input: Tensor, dim: int, index: Tensor, values: Tensor) -> Any:
    axis = axis_of(dim, input._a.ndim)
    if values._a.dtype != input._a.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    places = _places(name, input, axis, index)
    if values._a.ndim and index._a.ndim and any(n > m for n, m in zip(index._a.shape, values._a.shape, strict=True)):
        raise RuntimeError(
            f"Expected index {list(index._a.shape)} to be no larger than self {list(input._a.shape)} apart from "
            f"dimension {axis} and to be no larger size than src {list(values._a.shape)}"
        )
    return apply_composition(composition, (axis, name == "scatter_add"), [input, places, values])


@public()
@method("scatter_add")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """Return a copy with values added at positions along an axis."""
    return _scatter("scatter_add", _SCATTER_ADD, input, dim, index, src)


in_place("scatter_", scatter, "none")
in_place("scatter_add_", scatter_add, "none")
_INDEX_SELECT = Composition("IndexSelect", lambda dim, x, index: np.take(x, index, axis=dim) if x.ndim else x.copy())


def _lead(dim: int) -> tuple[Any, ...]:
    return (("slice", None, None, None),) * dim


@public()
@method("index_select")
@as_torch_calls
def index_select(input: Tensor, dim: int, index: Tensor) -> Any:
    """Return positions of an axis."""
    dim = axis_of(dim, input._a.ndim)
    if index._a.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index._a.dtype not in (np.int64, np.int32):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    size = input._a.shape[dim] if input._a.ndim else 1
    if not input._a.ndim and index._a.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index._a.size} value(s)")
    if index._a.size and not (0 <= index._a.min() and index._a.max() < size):
        raise IndexError("index out of range in self")
    return apply_composition(_INDEX_SELECT, (dim,), [input, _int64(reshape(index, (-1,)))])


def _slices_in(source: Tensor, axis: int) -> int:
    return source._a.shape[axis] if axis < source._a.ndim else 1


def _without(tensor: Tensor, axis: int) -> tuple[int, ...]:
    """Return the shape of the slices of an axis."""
    return (*tensor._a.shape[:axis], *tensor._a.shape[axis + 1 :])


@public()
@method("index_add")
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Any:
    """Return a copy with slices, times alpha, added at positions of an axis."""
    if source._a.dtype != input._a.dtype:
        raise RuntimeError(
            f"index_add_(): self ({input.dtype.title}) and source ({source.dtype.title}) must have the same scalar type"
        )
    axis = axis_of(dim, input._a.ndim)
    if index._a.ndim > 1:
        raise IndexError(
            f"index_add_(): Index is supposed to be a vector, but got dim: {index._a.ndim} with type: "
            f"{index.dtype.title} and size: {list(index._a.shape)}"
        )
    count = _slices_in(source, axis)
    if index._a.size != count:
        raise RuntimeError(
            f"index_add_(): Number of indices ({index._a.size}) should be equal to source.size(dim): ({count}), for "
            f"dim: {axis}"
        )
    if _without(input, axis) != _without(source, axis) or bool(input._a.ndim) != bool(source._a.ndim):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(input._a.shape)} source.shape = {list(source._a.shape)}"
        )
    source = source if alpha == 1 else source * dtypes.factor(alpha, source._a.dtype)
    return _put_slices(_INDEX_ADD, True, input, dim, index, source)


@public()
@method("index_copy")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """Return a copy with slices replaced at positions of an axis."""
    if source._a.dtype != input._a.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{input.dtype.title} and (source) {source.dtype.title}"
        )
    axis = axis_of(dim, input._a.ndim)
    if index._a.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index._a.ndim})")
    if input._a.ndim and source._a.ndim and input._a.ndim != source._a.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source._a.ndim}), destination dimensionality ({input._a.ndim})"
        )
    own, other = _without(input, axis), _without(source, axis)
    if own != other:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, own))} at dimension {axis} and source slice shape: {' '.join(map(str, other))} at "
            f"dimension {axis}."
        )
    count = _slices_in(source, axis)
    if index._a.size != count:
        raise IndexError(
            f"index_copy_(): Number of indices ({index._a.size}) should be equal to source.size(dim) ({count})"
        )
    return _put_slices(_INDEX_COPY, False, input, dim, index, source)


@public()
@method("index_fill")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    """Return a copy with positions of an axis filled."""
    is_tensor = isinstance(value, Tensor)
    level = dtypes.category(value._a.dtype) if is_tensor else dtypes.number_category(value)
    if level == 3 > dtypes.category(input._a.dtype):
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    filler = value if is_tensor else wrap(dtypes.fitting_array(value, input._a.dtype))
    return _put_slices(_INDEX_FILL, False, input, dim, index, to_tensor(filler, input._a.dtype))


def _put_slices(
    composition: Composition, accumulate: bool, input: Tensor, dim: int, index: Tensor, values: Tensor
) -> Any:
    template = (*_lead(axis_of(dim, input._a.ndim)), ("at", 0))
    return apply_composition(composition, (template, accumulate), [input, values, _int64(index)])


in_place("index_add_", index_add, "none")
in_place("index_copy_", index_copy, "none")
in_place("index_fill_", index_fill, "any")


@public()
@method("masked_select")
def masked_select(input: Tensor, mask: Tensor) -> Any:
    """Return the elements under a mask, in row-major order."""
    if mask._a.dtype != np.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shape(input, mask)
    place = expand(input, shape) if input._a.shape != shape else input
    if not shape:
        place, shape = reshape(place, (1,)), (1,)
    return _select(_MASKED_SELECT, place, *_template([wrap(np.broadcast_to(mask._a, shape))], place._a))


_MASKED_SELECT = Composition("MaskedSelect", _INDEX.function)


_MASKED_SCATTER = Composition(
    "MaskedScatter",
    lambda x, values, *places: put_values((*[("at", k) for k in range(len(places))],), False, x, values, *places),
)


@public()
@method("masked_scatter")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Any:
    """Return a copy with the elements under a mask replaced by the first elements of source."""
    if mask._a.dtype != np.bool_:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.title}")
    if source._a.dtype != input._a.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got{input.dtype.title} and "
            f"{source.dtype.title}"
        )
    if not input._a.ndim:
        return reshape(masked_scatter(reshape(input, (1,)), mask, source), ())
    places = [wrap(np.asarray(k)) for k in np.nonzero(np.broadcast_to(mask._a, input._a.shape))]
    count = places[0]._a.size
    return apply_composition(_MASKED_SCATTER, (), [input, narrow(reshape(source, (-1,)), 0, 0, count), *places])


@public()
@method("take")
def take(input: Tensor, index: Tensor) -> Any:
    """Return elements of the tensor seen as a vector; negative positions count from the end."""
    return apply_composition(_TAKE, (), [input, _places_of_all("take", input, index)])


_TAKE = Composition("Take", lambda x, index: np.reshape(x, (-1,))[index])


def _places_of_all(name: str, input: Tensor, index: Tensor) -> Tensor:
    """Return positions in the tensor seen as a vector, none negative.

    Raises:
        RuntimeError: they are not int64.
        IndexError: one is outside.
    """
    places, size = index._a, input._a.size
    if places.dtype != np.int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {index.dtype.title}")
    if places.size and not (-size <= places.min() and places.max() < size):
        wrong = places[(places < -size) | (places >= size)]
        raise IndexError(f"out of range: tried to access index {wrong.ravel()[0]} on a tensor of {size} elements.")
    return wrap(np.where(places < 0, places + size, places))


_PUT = Composition(
    "Put",
    lambda accumulate, x, index, source: put_values(
        (("at", 0),), accumulate, x.reshape((-1,)), source.reshape((-1,)), index.reshape((-1,))
    ).reshape(x.shape),
)


@public()
@method("put")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    """Return a copy with values written, or added, at positions of the tensor seen as a vector."""
    places = _places_of_all("put", input, index)
    if source._a.dtype != input._a.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {input.dtype.title} and "
            f"source.dtype = {source.dtype.title}"
        )
    if source._a.size != index._a.size:
        raise RuntimeError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source._a.size}, index.numel() = {index._a.size}"
        )
    return apply_composition(_PUT, (accumulate,), [input, places, source])


in_place("put_", put, "none")


@public("nonzero")
@method("nonzero")
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Return the positions of elements that are not zero."""
    if as_tuple:
        return tuple(wrap(np.asarray(k)) for k in np.nonzero(input._a))
    return wrap(np.argwhere(input._a))
