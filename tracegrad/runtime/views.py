"""Views and in-place writes: tensors that share memory, and what a write into one means for the graphs of the others.

Reads and changes tensors and nodes. Previous: tape.py; next: kinds.py.

A view remembers the tensor that owns the memory and the steps that lead from there to it. A write into a view makes a
new node for the owner (CopySlices: the owner with the steps' place replaced); all views whose version is older find
their node anew from the owner's when it is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.runtime import dtypes
from tracegrad.runtime.engine import engine
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.layout import LIKE_OPERANDS, expanded, is_dense, reshaped, strided
from tracegrad.runtime.mirrors import carry_over, mirrored
from tracegrad.runtime.tape import (
    VIEWS,
    Cotangent,
    Edge,
    FlatNode,
    KernelNode,
    Node,
    _refreshers,
    _sequence,
    apply_composition,
    asks_for_grad,
    attach,
    clone_in_layout,
    gradient_edge,
    mode,
    needs_grad,
    node_class,
    number_tensor,
    part_saved,
    record,
    record_known,
    retain,
    retitled,
    user_place,
)
from tracegrad.runtime.tensor import Array, Tensor, is_differentiable, wrap

#: one step from a tensor to a view: what is done, with what, and positions that differ from call to call
Step = tuple[str, tuple[Any, ...], tuple[int, ...]]
_CONJ: Step = "conj", (), ()


def take_step(kind: str, static: tuple[Any, ...], positions: Sequence[Any], x: Any) -> Any:
    """Take a step on an array or, while a kernel is traced, on a tracer."""
    if kind == "index":
        key = _key(static, positions)
        found = x[key]
        if isinstance(found, np.generic):
            return x[(*key, ...)]  # a view of rank 0, not a number
        return _with_new_axes(static, x, found) if None in static and isinstance(x, np.ndarray) else found
    if kind == "permute":
        return np.transpose(x, static)
    if kind == "reshape":
        return reshaped(x, static) if isinstance(x, np.ndarray) else np.reshape(x, static)
    if kind == "expand":
        return expanded(x, static) if isinstance(x, np.ndarray) else np.broadcast_to(x, static)
    if kind == "diagonal":
        return np.diagonal(x, *static)
    if kind == "unfold":
        dim, size, step = static
        return _windows(dim, size, step, x)
    if kind == "strided":
        return _at_strides(static, x)
    if kind == "pairs":
        return _as_pairs(x)
    if kind == "complex":
        return _as_complex(x)
    if kind == "conj":
        return mirrored(x) if isinstance(x, np.ndarray) else np.conj(x)
    assert kind in ("real", "imag"), f"unknown step {kind}"
    return x.real if kind == "real" else x.imag


def _as_pairs(x: Any) -> Any:
    """Return complex numbers as pairs of real ones along a new last axis."""
    if not isinstance(x, np.ndarray):
        return np.stack([x.real, x.imag], -1)
    return strided(x.real, (*x.shape, 2), (*x.strides, x.itemsize // 2))


def _as_complex(x: Any) -> Any:
    """Return the pairs along the last axis as complex numbers."""
    if isinstance(x, np.ndarray):
        return x.view(dtypes.complex_of(x.dtype))[..., 0]
    kind = dtypes.complex_of(x.dtype)
    return x[..., 0].astype(kind) + x[..., 1].astype(kind) * kind.type(1j)


def _with_new_axes(static: tuple[Any, ...], x: Any, found: Any) -> Any:
    """Return what a key with None gives, with torch's strides: a new axis steps over the whole axis after it."""
    strides = list(found.strides)
    at = axis = 0
    for k, entry in enumerate(static):
        if entry is None:
            strides[at] = x.shape[axis] * x.strides[axis] if axis < x.ndim else x.itemsize
            at += 1
        elif entry is Ellipsis:
            skipped = x.ndim - axis - sum(later is not None for later in static[k + 1 :])
            at, axis = at + skipped, axis + skipped
        else:
            at, axis = at + (entry[0] == "slice"), axis + 1
    return strided(found, found.shape, strides)


def memory_places(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Array:
    """Return where the elements of an array lie in memory, in elements from its beginning."""
    places = np.full(shape, offset, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        places += (np.arange(size) * stride).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return places


def _at_strides(static: tuple[Any, ...], x: Any) -> Any:
    """Return elements by their places in the memory of x, which has the strides `own` where it has its own memory.

    Places where x has no element give zero.
    """
    shape, strides, offset, own = static
    last = _reach(x.shape, own)
    places = memory_places(shape, strides, offset)
    is_inside = not places.size or (places.min() >= 0 and places.max() <= last)
    if is_inside and isinstance(x, np.ndarray) and x.strides == tuple(s * x.itemsize for s in own):
        begin = x if not x.size else strided(x, (1 + last,), (x.itemsize,))[offset:]
        return strided(begin, shape, [s * x.itemsize for s in strides])
    numbers = np.full(2 + last, -1)  # the last one stands for all places outside
    numbers[memory_places(x.shape, own)] = np.arange(x.size).reshape(x.shape)
    found = numbers[np.where((places < 0) | (places > last), 1 + last, places)]
    taken = np.take(np.reshape(x, (-1,)), np.maximum(found, 0))
    return taken if found.min(initial=0) >= 0 else np.where(found < 0, x.dtype.type(0), taken)


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return how far the last element in memory lies behind the first, in elements."""
    return sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n > 1)


def _take(x: Array, step: Step) -> Any:
    return take_step(*step, x)


def as_strided(tensor: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None) -> Tensor:
    """Return a view of the memory of a tensor.

    Args:
        strides, offset: in elements; the offset counts from the beginning of the memory, None means the tensor's own.

    Raises:
        RuntimeError: there are other than so many strides, a negative one, or a place outside the memory that the
            tensor, or the one that it is a view of, fills.
    """
    if len(shape) != len(strides):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in strides):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}"
        )
    base = base_of(tensor)
    owner = tensor if base is None or is_fixed(tensor) or base._a.dtype != tensor._a.dtype else base
    begin = tensor.storage_offset() if offset is None else offset
    start = begin - owner.storage_offset()
    places = memory_places(shape, strides, start)
    if places.size and not (is_dense(owner._a) and places.min() >= 0 and places.max() < owner._a.size):
        size, begin, present = owner._a.itemsize, owner.storage_offset(), owner._a.nbytes
        needed = (int(places.max()) + begin + 1) * size
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {start + begin}, and "
            f"itemsize {size} requiring a storage size of {needed} are out of bounds for storage of size {present}"
        )
    step: Step = "strided", (shape, strides, start, owner.stride()), ()
    if owner is tensor:
        return make_view("AsStrided", tensor, step)
    own: Step = "strided", (shape, strides, begin - tensor.storage_offset(), tensor.stride()), ()
    steps = (step,) if tensor.is_conj() == owner.is_conj() else (_CONJ, step)
    view = make_view("AsStrided", tensor, own, functools.reduce(_take, steps, owner._a))
    if view._base is owner:
        view._steps = steps  # some places may be outside the tensor
    return view


def _windows(dim: int, size: int, step: int, x: Any) -> Any:
    """Return windows of an axis, as a new last axis."""
    if isinstance(x, np.ndarray):
        windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=dim, writeable=x.flags.writeable)
        return windows[(slice(None),) * dim + (slice(None, None, step),)]
    starts = np.arange(0, x.shape[dim] - size + 1, step)
    return np.moveaxis(np.take(x, starts[:, None] + np.arange(size), axis=dim), dim + 1, -1)


def _key(static: tuple[Any, ...], positions: Sequence[Any]) -> tuple[Any, ...]:
    key: list[Any] = []
    for entry in static:
        if isinstance(entry, tuple):
            key.append(positions[entry[1]] if entry[0] == "at" else slice(*entry[1:]))
        else:
            key.append(entry)
    return tuple(key)


Outline = tuple[tuple[str, tuple[Any, ...], int], ...]


def _take_all(steps: Outline, x: Any, positions: Sequence[Any]) -> Any:
    start = 0
    for kind, static, count in steps:
        x = take_step(kind, static, positions[start : start + count], x)
        start += count
    return x


def _write(steps: Outline, base: Any, values: Any, *positions: Any) -> Any:
    """Return a copy of the base with the place that the steps lead to replaced."""
    part = next((k for k, step in enumerate(steps) if step[0] in ("real", "imag", *_OTHER_FORM)), None)
    if part is not None and steps[part][0] in _OTHER_FORM:
        return _write_form(steps[:part], steps[part][0], steps[part + 1 :], base, values, positions)
    if part is not None:
        return _write_part(steps[:part], steps[part][0], steps[part + 1 :], base, values, positions)
    if not steps:
        return values
    if not base.shape and values.size == 1:
        return values.reshape(())
    kind, static, count = steps[-1]
    if _is_awkward(steps, base.shape):
        numbers = as_tracer(np.arange(base.size).reshape(base.shape))
        flat = base.reshape((-1,)).copy()
        flat[_take_all(steps, numbers, positions).reshape((-1,))] = values.reshape((-1,))
        return flat.reshape(base.shape)
    made = base.copy()
    if kind == "index":
        place = _take_all(steps[:-1], made, positions)
        place[_key(static, positions[len(positions) - count :])] = values
    else:
        place = _take_all(steps, made, positions)
        place[...] = values
    return made


#: steps between complex numbers and their pairs or conjugates -> the step back
_OTHER_FORM = {"pairs": "complex", "complex": "pairs", "conj": "conj"}


def _write_form(before: Outline, kind: str, after: Outline, base: Any, values: Any, positions: tuple[Any, ...]) -> Any:
    """Return a copy of the base with a place in it, seen as pairs, as complex numbers or as conjugates, replaced."""
    count = sum(step[2] for step in before)
    place = take_step(kind, (), (), _take_all(before, base, positions[:count]))
    written = np.broadcast_to(_write(after, place, values, *positions[count:]), place.shape)
    return _write(before, base, take_step(_OTHER_FORM[kind], (), (), written), *positions[:count])


def _write_part(before: Outline, kind: str, after: Outline, base: Any, values: Any, positions: tuple[Any, ...]) -> Any:
    """Return a copy of the base with a place in the real or in the imaginary part replaced."""
    count = sum(step[2] for step in before)
    place = _take_all(before, base, positions[:count])
    parts = {"real": place.real, "imag": place.imag}
    parts[kind] = np.broadcast_to(_write(after, parts[kind], values, *positions[count:]), place.shape)
    i = place.dtype.type(1j)
    return _write(
        before, base, parts["real"].astype(place.dtype) + parts["imag"].astype(place.dtype) * i, *positions[:count]
    )


def _is_awkward(steps: Outline, shape: tuple[int, ...]) -> bool:
    """Return whether tracers cannot be written through the steps: diagonals, windows, repetitions, numbers."""
    x: Any = np.empty(shape)
    for kind, static, count in steps:
        if not x.ndim:
            return True
        x = take_step(kind, static, (0,) * count, x)
    return any(kind in ("diagonal", "unfold", "expand", "strided") for kind, _, _ in steps)


_STRIDED = Composition("AsStrided", lambda steps, x, *positions: _take_all(steps, x, positions), numbers=True)
_COPY_SLICES = Composition("CopySlices", _write, title="CopySlices", numbers=True)
_compositions: dict[str, Composition] = {}
VIEWS.add(_STRIDED.name)


def _outline(steps: Sequence[Step]) -> tuple[Any, list[Any]]:
    """Return steps without their positions, and the operands: a place for the tensor viewed, and the positions."""
    positions = [number_tensor(p, np.dtype(np.int64)) for step in steps for p in step[2]]
    return tuple((kind, static, len(at)) for kind, static, at in steps), [None, *positions]


if engine:
    _outline = engine.outline


def base_of(view: Tensor) -> Tensor | None:
    """Return what a view is a view of; where that was given another shape in place since, steps first lead back."""
    base = view._base
    changes = None if base is None else base.__dict__.get("_reshaped")
    if changes is None:
        return base
    done = view.__dict__.get("_follows")
    if done is None:
        done = sum(version <= abs(view._seen) for version, _ in changes)
    ways = [back for _, back in changes[done:]]
    if None in ways:
        raise RuntimeError(
            "the base of a view was given another shape by as_strided_ after the view was made\n"
            "  help: make the view again"
        )
    view._steps = (*ways[::-1], *view._steps)
    view.__dict__["_follows"] = len(changes)
    return base


def way_back(step: Step, shape: tuple[int, ...]) -> Step | None:
    """Return the step back from a step that gave something of this shape another one; None for a part of memory."""
    kind, static, _ = step
    if kind == "permute":
        return kind, tuple(int(k) for k in np.argsort(static)), ()
    return None if kind == "strided" else ("reshape", shape, ())


def make_view(name: str, tensor: Tensor, step: Step, array: Array | None = None, *, reason: str = "") -> Tensor:
    """Return a view of a tensor.

    Args:
        name: of the node, without "Backward0".
        array: what the step leads to, where that is known.
        reason: why it must not be written, other than the mode; see Tensor._origin.
    """
    if mode.unusual and mode.tracing is not None:
        traced: Tensor = mode.tracing.view(tensor, step)
        return traced
    if array is None:
        array = take_step(*step, tensor._a)
    if step[0] == "diagonal":
        array.flags.writeable = tensor._a.flags.writeable
    composition = _compositions.get(name) or _new_composition(name)
    base, origin = base_of(tensor), tensor._origin
    if base is None or origin in _FIXED:
        base, origin = tensor, ""
    if reason or not mode.grad:
        origin = reason or _mode_as_reason()
    if engine and not mode.unusual and not tensor._inference:
        made: Tensor = engine.view(tensor, array, step, base, origin, composition)
        return made
    view = wrap(array)
    view._storage = storage = tensor._storage
    if tensor._inference:
        view._inference = True
        return view
    view._base, view._origin, view._steps, view._seen = base, origin, (*tensor._steps, step), storage.version
    if mode.grad and needs_grad(tensor) and is_differentiable(array.dtype):
        outline, operands = _outline((step,))
        operands[0] = tensor
        record_known(composition, (outline,), operands, view)
    return view


def _mode_as_reason() -> str:
    return "inference" if mode.inference else "no_grad"


def _new_composition(name: str) -> Composition:
    """Return the composition of views of a name, which ends with the number of the overload if that is not 0."""
    overload = int(name[-1]) if name[-1].isdigit() else 0
    made = _compositions[name] = Composition(name.rstrip("01"), _STRIDED.function, overload=overload, numbers=True)
    VIEWS.add(made.name)
    return made


#: origins of views whose node a Function made
_FIXED = ("Function", "Functions")


def is_fixed(tensor: Tensor) -> bool:
    """Return whether a tensor is a view whose node a Function made: no write may change it."""
    return tensor._origin in _FIXED


def tangent_of(tensor: Tensor) -> Tensor | None:
    """Return the tangent of a tensor in forward mode; that of a view is a view of its base's."""
    base = base_of(tensor)
    if base is None or is_fixed(tensor):
        return tensor._tangent[1] if tensor._tangent is not None and tensor._tangent[0] == mode.level else None
    tangent = tangent_of(base)
    if tangent is None:
        return None
    for step in tensor._steps:
        tangent = make_view("AsStrided", tangent, step)
    return tangent


def check_tangent(tensor: Tensor, tangent: Tensor) -> None:
    """Check a tangent that a user gives.

    Raises:
        RuntimeError, ValueError: it has another shape than the tensor, or holds integers.
    """
    if tangent.shape != tensor.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if not is_differentiable(tangent._a.dtype):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype!r}")


def give_tangent(tensor: Tensor, tangent: Tensor) -> None:
    """Make `tangent` that of a tensor which is no view, in the tensor's layout: views of both see the same places."""
    like = tensor._a
    if any(n > 1 and a != b for n, a, b in zip(like.shape, like.strides, tangent._a.strides, strict=True)):
        tangent = clone_in_layout(tangent, like)
    tensor._tangent = mode.level, tangent


def write_tangent(tensor: Tensor, out: Tensor) -> None:
    """Write the tangent of `out`, which replaced the content of a tensor, into that of the tensor or of its base."""
    base = base_of(tensor)
    arriving = tangent_of(out)
    owner = tensor if base is None else base
    before = tangent_of(owner)
    if before is None and (arriving is None or base is None):
        tensor._tangent = None
        if arriving is not None:
            give_tangent(tensor, arriving)
        return
    level, mode.level = mode.level, -1
    try:
        place = tangent = wrap(np.zeros_like(owner._a)) if before is None else before
        for step in tensor._steps:
            place = make_view("AsStrided", place, step)
        zeros = wrap(np.zeros_like(tensor._a))
        write("copy_", place, lambda _: zeros if arriving is None else arriving)
    finally:
        mode.level = level
    owner._tangent = (level, tangent)


def refresh(view: Tensor) -> None:
    """Bring the node of a view up to date with writes into its memory."""
    if view._seen == view._storage.version:
        return
    base = base_of(view)
    assert base is not None
    for fixed in (view, base):
        if is_fixed(fixed):
            raise _fixed_error(
                view, fixed._origin, "is a view and its base or another view of its base has been modified inplace"
            )
    is_graph = base._requires_grad or base._node is not None
    note = base.__dict__.get("_detached_from")
    if note is not None and view._seen == -view._storage.version:
        holder = wrap(base._a)
        holder._node, holder._nr = note
        _renew(view, holder)
        return
    if not (is_graph or view._node is not None) or not is_differentiable(view._a.dtype):
        return
    if view._origin:
        raise _view_error(view._node, view._nr, view._origin, _BASE_WRITTEN)
    _renew(view, base)


#: last step of a view -> what its node is when that is made anew; all others are _STRIDED
_RENEWED = {
    kind: _new_composition(name)
    for kind, name in (("conj", "Conj"), ("pairs", "ViewAsReal"), ("complex", "ViewAsComplex"))
}


def _renew(view: Tensor, base: Tensor) -> None:
    """Make the node of a view anew from what its base is now."""
    is_graph = base._requires_grad or base._node is not None
    composition = _RENEWED.get(view._steps[-1][0], _STRIDED)
    view._seen = view._storage.version
    outline, operands = _outline(view._steps)
    operands[0] = base
    before, nr = view._node, view._nr
    view._requires_grad = False
    if is_graph:
        record_known(composition, (outline,), operands, view)
    else:  # the base was cut from its graph: so is the view
        kernel = composition.kernel((outline,), [t._a for t in operands])
        record(composition.node_name, kernel, 1, operands, (view,))
    if view._retained:
        retain(view, before, nr)


_BASE_WRITTEN = "its base or another view of its base has been"
_refreshers.append(refresh)


def _fixed_error(tensor: Tensor, origin: str, found: str) -> RuntimeError:
    node = tensor._node
    title = "a function" if node is None else node.title.removesuffix("0").removesuffix("Backward")
    output = f"Output {tensor._nr} of {title}"
    if origin == "Functions":
        return RuntimeError(
            f"{output} {found}. This view is the output of a function that returns multiple views. Such functions do "
            "not allow the output views to be modified inplace. You should replace the inplace operation by an "
            "out-of-place one."
        )
    return RuntimeError(
        f"{output} {found}. This view was created inside a custom Function (or because an input was returned as-is) "
        "and the autograd logic to handle view+inplace would override the custom backward associated with the custom "
        "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output "
        "of the custom Function."
    )


class PiecesNode(Node):
    """Pieces of an axis, a result each: the cotangent of the whole is theirs joined.

    Attributes:
        join: "Cat" or "Stack", the operation that makes the whole of the pieces.
    """

    __slots__ = ("dim", "join")

    def __init__(self, edge: Edge, join: str, dim: int) -> None:
        super().__init__((edge,))
        self.join, self.dim = join, dim

    def name_renewed(self, number: int) -> str:
        raise _view_error(self, number, "multiple", _BASE_WRITTEN)

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> list[Cotangent]:
        if all(ct is None for ct in cts):
            return [None]
        kinds = cast("list[tuple[tuple[int, ...], Any]]", self.results)
        arrays = [np.zeros(*kind) if ct is None else ct for ct, kind in zip(cts, kinds, strict=True)]
        if create_graph:
            tensors = [a if isinstance(a, Tensor) else wrap(a) for a in arrays]
            return [apply_composition(_JOINS[self.join], (self.dim,), tensors)]
        return [(np.concatenate if self.join == "Cat" else np.stack)(arrays, axis=self.dim)]


_JOINS = {
    "Cat": Composition("Cat", lambda axis, *xs: np.concatenate(xs, axis=axis)),
    "Stack": Composition("Stack", lambda axis, *xs: np.stack(xs, axis=axis)),
}


def make_pieces(name: str, tensor: Tensor, steps: Sequence[Step], join: str, dim: int) -> tuple[Tensor, ...]:
    """Return views that are the whole of a tensor together, of one node.

    Args:
        name: of the node, without "Backward0".
        steps: what leads to each piece.
        join, dim: see PiecesNode.
    """
    reason = "multiple" if mode.grad else _mode_as_reason()
    before, mode.grad = mode.grad, False
    try:
        views = tuple(make_view(name, tensor, step, reason=reason) for step in steps)
    finally:
        mode.grad = before
    if views and mode.grad and not views[0]._inference and needs_grad(tensor) and is_differentiable(tensor._a.dtype):
        node = node_class(f"{name}Backward0", PiecesNode)(gradient_edge(tensor), join, dim)
        node.code, node.instruction = user_place()
        attach(node, views)
    return views


def check_writable(
    tensor: Tensor, others: Sequence[Tensor] = (), *, repeats: bool = False, sharing: str = "whole"
) -> None:
    """Check that a tensor may be written in place with values computed from `others`.

    Args:
        repeats: it does not matter if elements are written several times.
        sharing: how much of its memory may be that of another tensor: the "whole", "none", or "any" part.

    Raises:
        RuntimeError: it is a leaf that requires grad, a view of one, or another tensor that must stay; or its memory
            overlaps with itself, or with another tensor where it must not.
    """
    if tensor._inference and not mode.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
            "normal tensor before doing inplace update."
        )
    if mode.grad and (asks_for_grad(tensor) or any(map(needs_grad, others))):
        _check_place_in_graph(tensor)
    if repeats:
        return
    array = tensor._a
    if not array.flags.c_contiguous and _repeats(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if sharing == "any":
        return
    if any(
        t._storage is tensor._storage
        and (_overlaps_in_part(t._a, array) or (sharing == "none" and _is_same_place(t._a, array)))
        for t in others
    ):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )


def _is_same_place(a: Array, b: Array) -> bool:
    """Return whether two arrays have the same elements of memory in one order, and there are some."""
    return bool(a.size) and a.ctypes.data == b.ctypes.data and a.nbytes == b.nbytes and a.strides == b.strides


def _repeats(array: Array) -> bool:
    """Return whether some elements of an array have one place in memory."""
    if array.ndim == 1:
        return array.size > 1 and not array.strides[0]
    reach = 0
    for stride, size in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if stride <= reach or not stride:
            places = memory_places(array.shape, array.strides)
            return bool(np.unique(places).size < places.size)
        reach += (size - 1) * stride
    return False


def _check_place_in_graph(tensor: Tensor) -> None:
    base = base_of(tensor)
    for fixed in (tensor, base):
        if fixed is not None and is_fixed(fixed):
            raise _fixed_error(tensor, fixed._origin, "is a view and is being modified inplace")
    if base is not None:
        if tensor._origin:
            raise _view_error(tensor._node, tensor._nr, tensor._origin, "is being")
        if base._node is None and needs_grad(tensor):
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if tensor._requires_grad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def _view_error(node: Node | None, nr: int, origin: str, modified: str) -> RuntimeError:
    """Return the error for a write into a view, or into the base of one, whose node cannot follow.

    Args:
        node, nr, origin: those of the view.
    """
    place = f"A view was created in no_grad mode and {modified} modified inplace with grad mode enabled."
    block = "no_grad"
    if origin == "inference":
        place = f"A view was created in inference mode and {modified} modified inplace in normal mode."
        block = "inference_mode"
    if node is not None:
        title = node.title.removesuffix("Backward0")
        place = f"Output {nr} of {title} is a view and {modified} modified inplace."
    if origin == "multiple":
        return RuntimeError(
            f"{place} This view is the output of a function that returns multiple views. Such functions do not allow "
            "the output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    return RuntimeError(
        f"{place} Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
        f"moving both the view and the inplace either both inside the {block} block (if you don't want the inplace to "
        "be tracked) or both outside (if you want the inplace to be tracked)."
    )


def _overlaps_in_part(a: Array, b: Array) -> bool:
    """Return whether two arrays without gaps share some elements, and not all in the same order."""
    if a is b or not a.size or not b.size or not is_dense(a) or not is_dense(b):
        return False
    first, second = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
    if first == second and a.nbytes == b.nbytes and a.strides == b.strides:
        return False
    return bool(first < second + b.nbytes and second < first + a.nbytes)


if engine:
    _overlaps_in_part = engine.overlaps_in_part


def mark_written(tensor: Tensor, name: str) -> None:
    """Count a write, and remember who wrote."""
    storage = tensor._storage
    storage.version += 1
    storage.writer = (name, *user_place())
    carry_over(tensor._a)


def _has_hooks(view: Tensor) -> bool:
    """Return whether a gradient on its way from a view to the base meets hooks."""
    node = view._node
    for _ in view._steps:
        if node is None or node.hooked or not node.edges:
            break
        node = node.edges[0][0]
    else:
        return False
    return node is not None and node.hooked


def _reaches_out(view: Tensor) -> bool:
    """Return whether the place of a view can lie outside the views through which it was made, as by as_strided."""
    return any(kind == "strided" for kind, _, _ in view._steps)


def _taken_from(base: Tensor, view: Tensor) -> Tensor:
    """Return a view as an operand of a write into it: its node leads straight to the base, around those of other views
    and the hooks on what it was, which are not called for what it becomes.
    """
    made = wrap(view._a)
    for slot in ("_storage", "_base", "_steps", "_origin", "_tangent"):
        setattr(made, slot, getattr(view, slot))
    _renew(made, base)
    return made


def write(
    name: str,
    tensor: Tensor,
    compute: Callable[[Tensor], Tensor],
    others: Sequence[Tensor] = (),
    *,
    repeats: bool = False,
    sharing: str = "whole",
) -> Tensor:
    """Replace the content of a tensor by `compute(tensor)`, in place; return the tensor.

    Args:
        others: tensors that `compute` reads, too.
        repeats, sharing: see check_writable.
    """
    if mode.unusual and mode.tracing is not None:
        mode.tracing.refuse_write()
    check_writable(tensor, others, repeats=repeats, sharing=sharing)
    base = base_of(tensor)
    read = tensor
    if base is not None and mode.grad and (_has_hooks(tensor) or (_reaches_out(tensor) and needs_grad(base))):
        read = _taken_from(base, tensor)
    begin = next(_sequence) if mode.level >= 0 else 0
    out = compute(read)
    target, source = tensor._a, out._a
    if source.shape != target.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(source.shape)}"
        )
    if source.dtype != target.dtype:
        if dtypes.category(source.dtype) > dtypes.category(target.dtype):
            raise dtypes.narrowing_error(source.dtype, target.dtype)
        title = "" if out._node is None else out._node.title
        out = retitled(apply_composition(_CAST, (target.dtype,), [out]), title)
    node = out._node
    for item in getattr(node, "saved", None) or ():
        if item.array is target and item.kind[0] == "in":  # the operand itself: keep what it was
            item.keep_copy()
    part_saved(tensor)
    if mode.level >= 0:
        _part_from_tangent(tensor, out, begin)
    if target.size:
        np.copyto(target, out._a)
    mark_written(tensor, name)
    rebase(name, tensor, out)
    return tensor


def _part_from_tangent(tensor: Tensor, out: Tensor, begin: int) -> None:
    """Copy what the tangent of `out` depends on and a write of it into a tensor changes: both belong to one operation.

    Args:
        begin: nodes made later are of that operation.
    """
    arriving, place = tangent_of(out), tangent_of(tensor)
    storages = [t._storage for t in (tensor, place) if t is not None]
    waiting, seen = [None if arriving is None else arriving._node], set()
    while waiting:
        node = waiting.pop()
        if node is None or node.order < begin or node in seen:
            continue
        seen.add(node)
        for item in node.saved or ():
            if item.storage in storages:
                item.part()
        waiting.extend(before for before, _ in node.edges)


_CAST = Composition("ToCopy", lambda dtype, x: x.astype(dtype), layout=LIKE_OPERANDS)


def rebase(name: str, tensor: Tensor, out: Tensor) -> None:
    """Make the node of `out` that of a tensor whose content was replaced by it."""
    node = out._node
    if isinstance(node, KernelNode) and node.saved:
        for item in node.saved:
            if item.kind == ("out", out._nr) and item.storage is out._storage:
                item.array, item.storage, item.version = tensor._a, tensor._storage, tensor._storage.version
    if mode.level >= 0:
        write_tangent(tensor, out)
    if not mode.grad:
        return
    base = base_of(tensor)
    if base is not None:
        if node is None and not needs_grad(base):
            return
        outline, operands = _outline(tensor._steps)
        holder = wrap(base._a)
        record_known(_COPY_SLICES, (outline,), [base, out, *operands[1:]], holder)
        hand_over(base, holder._node, 0)
        tensor._seen = -tensor._storage.version  # the node follows when it is asked for
        if tensor._retained:
            refresh(tensor)
        return
    if node is None:
        edge = gradient_edge(tensor)
        if edge[0] is None:
            return
        title = f"{name.strip('_').capitalize()}Backward0"
        node = node_class(title, FlatNode)(edge, tensor._a.shape, tensor._a.dtype)
        node.results = ((tensor._a.shape, tensor._a.dtype),)
        node.code, node.instruction = user_place()
        out._nr = 0
    hand_over(tensor, node, out._nr)


def hand_over(tensor: Tensor, node: Node, nr: int) -> None:
    """Make `node` the producer of a tensor that was written; a gradient that is kept is that of the new content."""
    before, before_nr = tensor._node, tensor._nr
    tensor._node, tensor._nr = node, nr
    tensor._storage.renamed = id(tensor._a), node.name()
    if tensor._retained:
        retain(tensor, before, before_nr)
