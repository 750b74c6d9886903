"""The tape: nodes that remember operations, and the backward walk over them.

Reads kernels (kernel.py) and tensors; accumulates into `.grad`, or returns cotangents. Previous: tensor.py; next:
views.py.

The walk keeps a heap of the nodes that are ready, latest first, and recurses nowhere. Without `create_graph` cotangents
are arrays and each node runs a compiled pullback; with it they are tensors, and the same pullbacks are applied as
operations that are themselves recorded.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import os
import re
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from tracegrad.config import load_options
from tracegrad.frames import is_library
from tracegrad.runtime import dtypes
from tracegrad.runtime.engine import engine
from tracegrad.runtime.kernel import Composition, Kernel, Pullback, quiet_context, quietly
from tracegrad.runtime.layout import LIKE_OPERANDS, arrange, check_written, common_shape, empty, is_dense, settle
from tracegrad.runtime.mirrors import carry_over
from tracegrad.runtime.tensor import (
    METHODS,
    Array,
    Storage,
    Tensor,
    as_operation,
    is_differentiable,
    refusal,
    refusing,
    wrap,
)

Edge = tuple["Node | None", int]
F = TypeVar("F", bound=Callable[..., Any])
#: a cotangent: an array, with create_graph a tensor, or None for zero
Cotangent = Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_sequence = itertools.count()
_hook_ids = itertools.count()


def _flag(name: str, default: Any) -> Any:
    """Make a property of Mode."""

    def read(self: Mode) -> Any:
        return self.__dict__.get(name, default)

    def write(self: Mode, value: Any) -> None:
        self.__dict__[name] = value
        self.unusual = (
            self.inference or self.anomaly or self.sparing or self.level >= 0 or bool(self.saving or self.tracing)
        )
        if engine:
            engine.set_unusual(self.unusual)

    return property(read, write)


class Mode(threading.local):
    """What is in force in one thread.

    Attributes:
        grad_in_inference: what is_grad_enabled says in inference mode, where `grad` is off.
        level: number of the use of forward mode, -1 outside.
        saving_refused: why hooks on saved values are not allowed, None if they are.
        drawing_refused: why random numbers are not, None if they are.
        sparing: whatever is saved may be written later: it is copied then.
        tracing: a call with traced values (traced.Application).
        walk: the backward walk that is under way.
        unusual: inference mode, forward mode, anomaly mode, tracing, hooks on saved values or copies of them are on;
            looked at once per operation.
    """

    grad: Any = property(engine.get_grad, engine.set_grad) if engine else True
    inference = _flag("inference", False)
    grad_in_inference = False
    anomaly = _flag("anomaly", False)
    check_nan = True
    level = _flag("level", -1)
    saving = _flag("saving", ())
    sparing = _flag("sparing", False)
    tracing = _flag("tracing", None)
    saving_refused: str | None = None
    drawing_refused: str | None = None
    unusual = False
    walk: Walk | None = None


mode = Mode()


# ---- places in the user's code


def user_place() -> tuple[Any, int]:
    """Return code and instruction of the innermost frame outside this package; the line is found when it is needed."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((_PACKAGE, "<tracegrad")):
            return code, frame.f_lasti
        frame = frame.f_back
    return None, 0


if engine:
    user_place = engine.user_place


def describe_place(code: Any, instruction: int) -> str:
    """Return `file.py:12: source line`."""
    if code is None:
        return "an unknown place"
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}" + (f": {text}" if text else "")


# ---- hooks


class RemovableHandle:
    """Takes a hook away again; a context manager too."""

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.id = next(_hook_ids)
        self._hooks = hooks

    def remove(self) -> None:
        """Remove the hook; nothing happens the second time."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def add_hook(hooks: dict[int, Any], hook: Callable[..., Any]) -> RemovableHandle:
    """Append a hook."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def as_tensor(value: Cotangent) -> Tensor | None:
    """Return a cotangent as hooks see it."""
    return value if value is None or isinstance(value, Tensor) else wrap(value)


def from_tensor(value: Any, create_graph: bool) -> Cotangent:
    """Return what a hook or a custom function gave back as the walk carries it.

    The array is given as a view: it is not ours, so it must not be taken over.
    """
    if value is None or create_graph:
        return value
    return value._a[...]


# ---- nodes


class Saved:
    """A value kept for the backward pass, with the version that it had.

    Attributes:
        storage: None for values that no user can write to.
        tangent: (level, tangent) in forward mode.
        like: shape and dtype of what was handed to a hook.
    """

    __slots__ = ("array", "kind", "like", "packed", "storage", "tangent", "unpack", "version", "__weakref__")

    like: tuple[tuple[int, ...], np.dtype[Any]]

    def __init__(self, array: Array | None, storage: Storage | None, kind: tuple[str, int]) -> None:
        self.array, self.storage, self.kind = array, storage, kind
        self.version = 0 if storage is None else storage.version
        self.tangent: Any = None
        self.packed: Any = None
        self.unpack: Any = None

    def follow(self) -> None:
        """Be the value of the tensor that it was, where that was given other data since.

        Raises:
            RuntimeError: the data has another shape, or complex numbers stand for real ones.
        """
        while self.storage is not None:
            tensor = next((tensor for array, tensor in self.storage.left or () if array is self.array), None)
            if tensor is None or self.array is None:
                return
            if tensor._a.shape != self.array.shape:
                raise RuntimeError(
                    f"a tensor of shape {list(self.array.shape)} that is needed for the gradient was given data of "
                    f"shape {list(tensor._a.shape)}\n  help: assign to .data after the backward pass"
                )
            dtype = self.array.dtype
            if dtypes.category(tensor._a.dtype) > dtypes.category(dtype):
                raise RuntimeError(
                    f"a tensor of {dtype} that is needed for the gradient was given data of {tensor._a.dtype}\n"
                    "  help: assign to .data after the backward pass"
                )
            self.array, self.storage = tensor._a, tensor._storage
            if tensor._a.dtype != dtype:
                self.array, self.storage = tensor._a.astype(dtype), None

    def part(self) -> None:
        """Keep a copy of the value as it is now: writes into the memory do not matter any more."""
        if self.array is not None and self.storage is not None and self.version == self.storage.version:
            self.keep_copy()

    def keep_copy(self) -> None:
        """Keep a copy of the array, and of the tangent, whose memory is written with it."""
        assert self.array is not None
        self.array, self.storage = self.array.copy(), None
        if self.tangent is not None:
            level, tangent = self.tangent
            with grad_mode(True):
                self.tangent = level, apply_composition(_CLONE, (), [tangent])


#: names of compositions that give views
VIEWS: set[str] = set()
_RENEWED = "AsStridedBackward0"

#: nodes that torch names after their namespace
_OWN_NAMES = ("AccumulateGrad", "CopySlices", "CopyBackwards", "NotImplemented")


class Node:
    """An operation that was recorded.

    Attributes:
        edges: per operand the node that made it and the number of its result; (None, 0) where no gradient goes.
        width: number of results.
        saved: what the backward pass needs, None if that is nothing or was freed.
        code, instruction: where the user's code made the node.
        hooked: hooks are to be run at it.
        pullback: what a kernel's node runs.
        results: shape and dtype of the results; None for one that is no tensor.
    """

    __slots__ = (
        "order", "edges", "saved", "code", "instruction", "hooked", "pullback", "width", "__dict__", "__weakref__",
    )  # fmt: skip

    results: tuple[tuple[tuple[int, ...], Any] | None, ...] = ()
    title = "Node"
    trace: str | None = None
    _tensor_hooks: dict[int, dict[int, Any]] | None = None
    _retain: dict[int, Any] | None = None
    _prehooks: dict[int, Any] | None = None
    _posthooks: dict[int, Any] | None = None
    _metadata: dict[Any, Any] | None = None

    def __init__(self, edges: tuple[Edge, ...] = (), pullback: Pullback | None = None) -> None:
        self.order = next(_sequence)
        self.edges, self.pullback = edges, pullback
        self.saved: list[Saved] | None = None
        self.code: Any = None
        self.instruction = 0
        self.hooked = False
        self.width = 1

    def name(self) -> str:
        """Return the name, such as `MulBackward0`."""
        return f"torch::autograd::{self.title}" if self.title in _OWN_NAMES else self.title

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """The nodes that made the operands."""
        return self.edges

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after the node ran; what it returns replaces grad_inputs."""
        self.hooked = True
        if self._posthooks is None:
            self._posthooks = {}
        return add_hook(self._posthooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the node runs; what it returns replaces grad_outputs."""
        self.hooked = True
        if self._prehooks is None:
            self._prehooks = {}
        return add_hook(self._prehooks, hook)

    def tensor_hooks(self, number: int) -> dict[int, Any]:
        """Return the hooks on the gradient of one result."""
        self.hooked = True
        if self._tensor_hooks is None:
            self._tensor_hooks = {}
        return self._tensor_hooks.setdefault(number, {})

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        """Return the cotangent per edge."""
        raise NotImplementedError

    def hook_inputs(self, found: Sequence[Cotangent]) -> list[Cotangent]:
        """Return of the cotangents per edge those that hooks see."""
        return list(found)

    def from_hook(self, given: Sequence[Cotangent]) -> list[Cotangent]:
        """Return the cotangents per edge for what hooks made of `hook_inputs`."""
        return list(given)

    def overwritten_error(self, item: Saved, source: Edge) -> RuntimeError:
        """Return the error for a saved value that was overwritten; `source` is what it comes from."""
        assert item.storage is not None and item.array is not None
        name = self.name() if source[0] is self else self.name_now(item, source)
        nr = source[1] if source[0] is self else 0
        shown = re.sub(r"Backward0?(\d*)$", r"\1", name)
        origin = f", which is output {nr} of {shown}," if name else ""
        title = dtypes.of(item.array.dtype).title
        text = (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[torch.{title}Tensor {list(self.shape_of(item))}]{origin} is at version {item.storage.version}; expected "
            f"version {item.version} instead. Hint: "
        )
        text += (
            "the backtrace further above shows the operation that failed to compute its gradient. The variable in "
            "question was changed in there or anywhere later. Good luck!"
            if mode.anomaly
            else "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )
        text += f"\n  saved by {self.title}, made at {self.place()}"
        if item.storage.writer is not None:
            name, code, instruction = item.storage.writer
            text += f"\n  overwritten by {name} at {describe_place(code, instruction)}"
        text += "\n  help: use the operation that makes a new tensor, or overwrite a clone()"
        return RuntimeError(text)

    def name_now(self, item: Saved, source: Edge) -> str:
        """Return the name of the node that an overwritten operand comes from now, "" for none.

        Args:
            source: what it came from when it was saved.
        """
        assert item.storage is not None
        node, nr = source
        array, name = item.storage.renamed or (0, "")
        if node is not None and (renewed := node.name_renewed(nr)):
            return renewed
        if array == id(item.array):
            return name
        return "" if node is None or isinstance(node, AccumulateGrad) else node.name()

    def name_renewed(self, number: int) -> str:
        """Return the name of the node that a view has after a write; "" if the result of this number is none.

        Raises:
            RuntimeError: it is a view that must not be written.
        """
        return ""

    def shape_of(self, item: Saved) -> tuple[int, ...]:
        """Return the shape of a saved value as torch saves it."""
        assert item.array is not None
        return tuple(item.array.shape)

    def freed_error(self) -> RuntimeError:
        """Return the error for a second walk through a node."""
        return RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have "
            "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
            "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if "
            "you need to access saved tensors after calling backward.\n"
            f"  freed: the values saved by {self.title}, made at {self.place()}"
        )

    def holds(self, item: Saved) -> bool:
        """Return whether a value is still saved."""
        return item in (self.saved or ())

    def fitting(self, item: Saved, array: Array) -> Array:
        """Return what an unpack hook gave as the node takes it."""
        return array

    def reads_itself(self, kind: tuple[str, int]) -> bool:
        """Return whether a saved value is that of a tensor, and not of a result or a view of one as in torch."""
        return kind[0] == "in"

    def unpack(self, item: Saved, create_graph: bool) -> Any:
        """Return a saved value as array or, with create_graph, as the tensor that it was."""
        if item.storage is not None and item.storage.left and self.reads_itself(item.kind):
            item.follow()
        array = item.array
        if item.unpack is not None:
            unpacked = item.unpack(item.packed)
            if not isinstance(unpacked, Tensor):
                raise TypeError(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                    f"{type(unpacked).__name__}"
                )
            array = self.fitting(item, unpacked._a)
        elif item.storage is not None and item.storage.version != item.version:
            kind, number = item.kind
            raise self.overwritten_error(item, (self, number) if kind == "out" else self.edges[number])
        assert array is not None
        if not create_graph:
            return array
        kind, number = item.kind
        tensor = wrap(array)
        if item.storage is not None:
            tensor._storage = item.storage
        in_force = item.tangent is not None and item.tangent[0] == mode.level
        if in_force:
            tensor._tangent = item.tangent
        if kind == "out":
            if is_differentiable(array.dtype):
                tensor._node, tensor._nr = self, number
            return tensor
        node, nr = self.edges[number] if number < len(self.edges) else (None, 0)
        if isinstance(node, AccumulateGrad) and not in_force and node.variable._a is array:
            return node.variable
        connect(tensor, (node, nr))
        return tensor

    def place(self) -> str:
        """Return where the user's code made the node."""
        return describe_place(self.code, self.instruction)

    def __repr__(self) -> str:
        return f"<{self.title} object at {hex(id(self))}>"

    def __call__(self, *cts: Any) -> Any:
        """Run the node on tensors."""
        given = [None if ct is None else from_tensor(ct, mode.grad) for ct in cts]
        found = [as_tensor(x) for x in self.apply(given, mode.grad, True)]
        return found[0] if len(found) == 1 else tuple(found)


class KernelNode(Node):
    """An application of a kernel."""

    __slots__ = ()

    pullback: Pullback

    @functools.cached_property
    def shown(self) -> list[int]:
        """The operands that hooks and next_functions see: positions and masks are none."""
        params = self.pullback.primal.function.params
        return [k for k in range(len(self.edges)) if is_differentiable(params[k].dtype)]

    @functools.cached_property
    def is_layer(self) -> bool:
        """Whether torch would have made this of a product and a transposed weight, which is the last operand."""
        primal = self.pullback.primal
        return primal.name == "Linear" and len(cast(Any, primal.function.params[-2].type).shape) == 2

    @functools.cached_property
    def next_functions(self) -> tuple[Edge, ...]:
        """The nodes that made the operands."""
        edges = [self.edges[k] for k in self.shown]
        if self.is_layer and edges[-1][0] is not None:
            edges[-1] = node_class("TBackward0", TransposedNode)((edges[-1],)), 0
        return tuple(edges)

    def name_now(self, item: Saved, source: Edge) -> str:
        return super().name_now(item, source) if not self._is_turned(item) else _RENEWED if source[0] else ""

    def name_renewed(self, number: int) -> str:
        return _RENEWED if self.pullback.primal.name in VIEWS else ""

    def fitting(self, item: Saved, array: Array) -> Array:
        shape, dtype = item.like
        lead = max(array.ndim - len(shape), 0)
        if set(array.shape[:lead]) <= {1}:
            array = array.reshape(array.shape[lead:])
        check_written(shape, array.shape)
        return np.broadcast_to(array.astype(dtype, copy=False), shape)

    def shape_of(self, item: Saved) -> tuple[int, ...]:
        shape = super().shape_of(item)
        return shape[::-1] if self._is_turned(item) else shape

    def _is_turned(self, item: Saved) -> bool:
        """Return whether a saved value is the weight of a layer, which torch saves transposed."""
        return self.is_layer and item.kind == ("in", len(self.edges) - 1)

    def hook_inputs(self, found: Sequence[Cotangent]) -> list[Cotangent]:
        return self._turned([found[k] for k in self.shown])

    def from_hook(self, given: Sequence[Cotangent]) -> list[Cotangent]:
        full: list[Cotangent] = [None] * len(self.edges)
        for k, ct in zip(self.shown, self._turned(list(given)), strict=True):
            full[k] = ct
        return full

    def _turned(self, cts: list[Cotangent]) -> list[Cotangent]:
        if self.is_layer and cts[-1] is not None:
            cts[-1] = cts[-1].T
        return cts

    def reads_itself(self, kind: tuple[str, int]) -> bool:
        is_weight = self.pullback.primal.name == "Linear" and kind[1] == len(self.edges) - 1
        return kind[0] == "in" and not is_weight

    def source(self) -> str:
        """Return the NumPy text of the backward pass."""
        return self.pullback.kernel.source()

    def __getattr__(self, name: str) -> Any:
        """Return a saved value by torch's name (`_saved_self`), or what takes its hooks (`_raw_saved_self`)."""
        asked = name.removeprefix("_raw")
        kinds = {f"_saved_{told}": kind for kind, told in self._saved_names().items()} if asked[:7] == "_saved_" else {}
        if asked not in kinds:
            kept = f"; it saved {', '.join(kinds) or 'nothing'}" if asked[:7] == "_saved_" else ""
            raise AttributeError(f"'{self.title}' object has no attribute '{name}'{kept}")
        if self.saved is None:
            raise self.freed_error()
        item = next(item for item in self.saved if item.kind == kinds[asked])
        return SavedTensor(self, item) if asked != name else as_tensor(self.unpack(item, True))

    def _saved_names(self) -> dict[tuple[str, int], str]:
        """Return torch's names of what the pullback reads."""
        primal = self.pullback.primal
        operands = _OPERANDS.get(primal.name, ("self", "other"))
        if primal.name == "Linear":
            operands = operands[-len(self.edges) :]  # there can be no bias
        names = {}
        for kind, number in self.pullback.reads:
            if kind == "in":
                names[kind, number] = operands[number] if number < len(operands) else f"operand{number}"
            else:
                names[kind, number] = "result" if primal.single else f"result{number}"
        return names

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        pullback, saved = self.pullback, self.saved
        operands: list[Any] = []
        if saved is None:
            if pullback.reads:
                raise self.freed_error()
        else:
            masks = create_graph and pullback.primal.name in _MASKING
            for item in saved[: len(pullback.reads)]:
                storage = item.storage
                if masks:
                    operands.append(wrap(self.unpack(item, False)))
                elif create_graph or storage is None or storage.version != item.version or storage.left:
                    operands.append(self.unpack(item, create_graph))
                else:
                    operands.append(item.array)
        if len(cts) > 1 and any(ct is None for ct in cts):
            pullback, operands = self._of_some(pullback, operands, tuple(ct is not None for ct in cts))
            cts = [ct for ct, is_present in zip(cts, pullback.present, strict=True) if is_present]
        for k, ct in enumerate(cts):
            if ct is None:
                kind = pullback.primal.function.results[k]
                zeros = np.zeros(kind.shape, kind.dtype)
                ct = wrap(zeros) if create_graph else zeros
            operands.append(ct)
        if create_graph:
            found: Sequence[Any] = apply_kernel(title_of(pullback.kernel), pullback.kernel, operands)
            if mode.grad and pullback.primal.name.startswith(_KEPT_FLAT):
                self._keep_flat(pullback, found)
            if mode.grad and pullback.skipped:
                self._keep_empty(pullback, cts, found)
        else:
            found = pullback.kernel(*operands)
        if not keep and saved and not pullback.numbers:
            self.saved = None
        if pullback.in_order and len(found) == len(self.edges):
            return found
        out: list[Cotangent] = [None] * len(self.edges)
        for k, ct in zip(pullback.gives, found, strict=True):
            out[k] = ct
        return out

    def _of_some(
        self, pullback: Pullback, operands: list[Any], present: tuple[bool, ...]
    ) -> tuple[Pullback, list[Any]]:
        """Return the pullback for cotangents of some results, and its operands among those of the whole one."""
        partial = pullback.primal.pullback_of_some(pullback.mask, present)
        read = dict(zip(pullback.reads, operands, strict=True))
        if any(kind not in read for kind in partial.reads):
            return pullback, operands
        return partial, [read[kind] for kind in partial.reads]

    def _keep_flat(self, pullback: Pullback, found: Sequence[Tensor]) -> None:
        """Connect derivatives that are constant with the operands, so that loops over orders reach zero."""
        for k, ct in zip(pullback.gives, found, strict=True):
            if ct._node is None and self.edges[k][0] is not None:
                kind = pullback.primal.function.params[k]
                node = node_class(self.title, FlatNode)(self.edges[k], kind.shape, kind.dtype)
                node.code, node.instruction = self.code, self.instruction
                attach(node, [ct])

    def _keep_empty(self, pullback: Pullback, cts: list[Cotangent], found: Sequence[Tensor]) -> None:
        """Connect derivatives that no element has a part in with what the rules read, so that they require grad too."""
        params = pullback.primal.function.params
        sources: list[tuple[Edge, Any]] = []
        for kind, number in pullback.skipped:
            ct = cts[number] if kind == "ct" else None
            if isinstance(ct, Tensor) and needs_grad(ct):
                sources.append((gradient_edge(ct), ct._a))
            elif kind != "ct":  # a result depends on all operands
                sources += [(self.edges[k], params[k]) for k in ((number,) if kind == "in" else range(len(params)))]
        source = next((source for source in sources if source[0][0] is not None), None)
        if source is None:
            return
        edge, like = source
        for made in found:
            if made._node is None:
                node = node_class(title_of(pullback.kernel), FlatNode)(edge, like.shape, like.dtype)
                node.code, node.instruction = self.code, self.instruction
                attach(node, [made])


#: beginnings of the names of operations whose derivative requires grad though it is constant
_KEPT_FLAT = ("Pow", "AvgPool", "NllLoss")

#: torch's names of operands, where they are not "self" and "other"
_OPERANDS = {
    "Pow": ("self", "exponent"), "Mm": ("self", "mat2"), "Bmm": ("self", "mat2"), "Mv": ("self", "vec"),
    "Dot": ("self", "tensor"), "Where": ("condition", "self", "other"), "Atan2": ("self", "other"),
    "Addmm": ("self", "mat1", "mat2"),
    "Linear": ("self", "mat1", "mat2"), "Lerp": ("self", "end", "weight"), "Gather": ("self", "index"),
    "MseLoss": ("self", "target"), "L1Loss": ("self", "target"), "NllLoss": ("self", "target"),
}  # fmt: skip


class FlatNode(Node):
    """The slope is zero everywhere: the result is constant, or drawn at random."""

    __slots__ = ("dtype", "shape")

    def __init__(self, edge: Edge, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__((edge,))
        self.shape, self.dtype = shape, dtype

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        zeros = np.zeros(self.shape, self.dtype)
        return [None if cts[0] is None else wrap(zeros) if create_graph else zeros]


class UnknownNode(Node):
    """An operation whose derivative nobody wrote: to walk through it is an error."""

    __slots__ = ("error",)

    title = "NotImplemented"
    error: Exception

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        raise self.error


class TransposedNode(Node):
    """The transposed weight of a layer, which torch has as a node: here the node of the layer does its work."""

    __slots__ = ()

    def _refuse(self, hook: Callable[..., Any]) -> Any:
        raise RuntimeError(
            f"{self.title} is part of the node of the layer and is not run by itself\n  help: register the hook on "
            "that node, or on the weight"
        )

    register_hook = register_prehook = _refuse

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        return [None if ct is None else ct.T for ct in cts]


@functools.cache
def node_class(title: str, kind: Any = KernelNode) -> Any:
    """Return the class of nodes of a kind and a name: `type(x.grad_fn).__name__` is the name."""
    return type(title, (kind,), {"title": title, "__slots__": ()})


def ending_in(title: str) -> Callable[[F], F]:
    """Name the node that a function of several operations ends in after the one with which torch ends."""

    def make(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            return retitled(function(*args, **keywords), title)

        return cast(F, call)

    return make


def retitled(made: Any, title: str) -> Any:
    """Return a tensor that was just made, with its node named."""
    if isinstance(made._node, KernelNode):
        made._node.__class__ = node_class(title)
    return made


_TITLES = {
    "multiply": "Mul", "negative": "Neg", "add": "Add", "subtract": "Sub", "divide": "Div", "broadcast_to": "Expand",
    "reduce_sum": "Sum", "dot_general": "Mm", "transpose": "Permute", "reshape": "View", "cos": "Cos", "sin": "Sin",
    "select": "Where", "slice": "Slice", "scatter_add": "IndexPut", "square": "Pow", "power": "Pow",
}  # fmt: skip


def title_of(kernel: Kernel) -> str:
    """Return the name of a node that runs a pullback: after the operation that a result comes from."""
    producers = (result.producer for result in kernel.function.results)
    title = next((_TITLES[op.op] for op in producers if op is not None and op.op in _TITLES), kernel.name)
    return f"{title}Backward0"


_accumulating = threading.RLock()  # a finalizer may come in between


class AccumulateGrad(Node):
    """Adds to the `.grad` of a leaf.

    Attributes:
        shape: that of gradients, where the leaf got another shape since the node was made.
    """

    __slots__ = ("variable",)

    title = "AccumulateGrad"
    shape: tuple[int, ...] | None = None

    def __init__(self, variable: Tensor) -> None:
        super().__init__()
        self.variable = variable
        self.order = 1 << 62

    def tensor_hooks(self, number: int) -> dict[int, Any]:
        if self.variable._hooks is None:
            self.variable._hooks = {}
        return self.variable._hooks

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        ct, variable = cts[0], self.variable
        if ct is None or not variable._requires_grad:
            return ()
        with _accumulating:
            accumulate(variable, ct, mode.grad)
        if variable._after:
            for hook in list(variable._after.values()):
                hook(variable)
        return ()


def expect_leaf_shape(leaf: Tensor) -> None:
    """Have gradients that nodes made so far give a leaf keep its shape: it is about to get another one, unrecorded."""
    node = None if leaf._accumulator is None else leaf._accumulator()
    if node is not None and node.shape is None:
        node.shape, node.hooked = leaf._a.shape, True


def brought_to(shape: tuple[int, ...], ct: Cotangent, title: str, create_graph: bool) -> Cotangent:
    """Return a cotangent summed over the axes along which `shape` was broadcast.

    Raises:
        RuntimeError: it has another shape than one to which `shape` is broadcast.
    """
    given, count = tuple(ct.shape), len(shape)
    if given == shape:
        return ct
    last = given[len(given) - count :]
    if count > len(given) or any(n not in (1, m) for n, m in zip(shape, last, strict=True)):
        raise RuntimeError(
            f"an invalid gradient arrived at {title} - got {list(given)} but expected shape compatible with "
            f"{list(shape)}\n  help: it was given another shape, in place or by its data, unrecorded"
        )
    return from_tensor(METHODS["sum_to_size"](as_tensor(ct), shape), create_graph)


def accumulate(variable: Tensor, ct: Cotangent, create_graph: bool) -> None:
    """Add a cotangent to `.grad`, in place unless a graph is made; a first one gets the layout of the variable.

    Without a graph a first one has no tangent, and one that is added brings its tangent along.

    Raises:
        RuntimeError: the variable got another shape since, to which that of the cotangent is not broadcast.
    """
    grad = variable._grad
    place, arriving = (variable if grad is None else grad)._a.shape, tuple(ct.shape)
    if grad is not None and isinstance(ct, Tensor):
        common_shape((place, arriving))
        if create_graph:
            variable._grad = apply_composition(_ADD, (), [grad, ct])
        else:
            METHODS["add_"](grad, ct)
        return
    if isinstance(ct, Tensor) and not create_graph:
        ct = from_tensor(ct, False)
    if arriving != place and not (grad is None and not create_graph and _is_taken_over(ct, variable._a)):
        check_written(place, arriving)
        ct = METHODS["expand"](ct, place) if create_graph else np.broadcast_to(ct, place)
    if grad is not None:
        np.add(grad._a, ct, out=grad._a)
        grad._storage.version += 1
        carry_over(grad._a)
    elif create_graph:
        variable._grad = clone_in_layout(ct, variable._a)
    else:
        like = variable._a if variable._a.shape == ct.shape else ct
        variable._grad = wrap(in_layout(ct, like, ct.base is None))


def _is_taken_over(ct: Array, like: Array) -> bool:
    """Return whether a first gradient of another shape than its leaf stays as it is: by its strides, as in torch."""
    steps = zip(ct.shape, ct.strides, like.strides)  # noqa: B905 of the axes that both have
    return ct.base is None and all(n == 1 or a == b for n, a, b in steps)


def clone_in_layout(tensor: Tensor, like: Array) -> Tensor:
    """Return a copy in the graph, with the strides of `like` if that has no gaps, else row-major."""
    made: Tensor = apply_composition(_CLONE, (), [tensor])
    made._a = in_layout(made._a, like, True)
    return made


def in_layout(ct: Array, like: Array, owned: bool) -> Array:
    """Return `ct` with the strides of `like` if that has no gaps, else row-major; a copy unless it is `owned`."""
    if like.flags.c_contiguous or not is_dense(like):
        return ct if owned and ct.flags.c_contiguous else ct.copy()
    if owned and ct.strides == like.strides:
        return ct
    made = empty(like.shape, ct.dtype, like.strides)
    np.copyto(made, ct)
    return made


# ---- recording


def gradient_edge(tensor: Tensor) -> Edge:
    """Return where the gradient of a tensor goes; its view must be up to date."""
    if tensor._node is not None:
        return tensor._node, tensor._nr
    if not tensor._requires_grad:
        return None, 0
    return accumulator(tensor), 0


def connect(tensor: Tensor, edge: Edge) -> None:
    """Make the gradient of a new tensor go where an edge leads."""
    node, nr = edge
    if isinstance(node, AccumulateGrad):
        tensor._requires_grad, tensor._accumulator = True, weakref.ref(node)
    elif node is not None:
        tensor._node, tensor._nr = node, nr


def accumulator(tensor: Tensor) -> AccumulateGrad:
    """Return the node of a leaf, the same one as long as anything refers to it."""
    with _accumulating:  # two threads must not make one each
        node = None if tensor._accumulator is None else tensor._accumulator()
        if node is None:
            node = AccumulateGrad(tensor)
            tensor._accumulator = weakref.ref(node)
        return node


_refreshers: list[Callable[[Tensor], None]] = []
_tangent_rules: list[Callable[..., Any]] = []
_NOWHERE: Edge = (None, 0)
#: kind of a saved value that no user knows of: the pullback would compute it again
_KEPT = ("kept", 0)
_ADD = Composition("Add", lambda x, y: x + y, layout=LIKE_OPERANDS)
_CLONE = Composition("Clone", lambda x: x.copy(), layout=LIKE_OPERANDS)
_IN_ROWS = Composition("Clone", lambda x: x.copy())


class Scalar(NamedTuple):
    """A Python number as operand of a plan, and the dtype that it gets."""

    value: Any
    dtype: np.dtype[Any]


def number_tensor(value: Any, dtype: np.dtype[Any]) -> Tensor:
    """Return a number as an operand; nobody else has the tensor, so that it has no storage."""
    tensor = wrap(dtypes.number_array(value, dtype))
    cast(Any, tensor)._storage = None
    return tensor


class Plan(NamedTuple):
    """What an operation does: a composition applied to operands."""

    composition: Composition
    static: tuple[Any, ...]
    operands: list[Tensor | Scalar]


def apply_plan(composition: Composition, static: tuple[Any, ...], operands: Sequence[Tensor | Scalar]) -> Any:
    """Apply a composition; record it if need be. Returns a tensor, or a tuple for several results."""
    tensors = [number_tensor(t.value, t.dtype) if isinstance(t, Scalar) else t for t in operands]
    if engine and not mode.unusual and len(tensors) <= engine.MAX_OPERANDS:
        return engine.apply(composition, static, tensors)
    if mode.tracing is not None:
        return mode.tracing.apply(composition, static, tensors)
    kernel = composition.kernel(static, [t._a for t in tensors])
    results = apply_kernel(composition.node_name, kernel, tensors)
    return results[0] if len(results) == 1 else tuple(results)


def apply_composition(composition: Composition, static: tuple[Any, ...], tensors: list[Tensor]) -> Any:
    """Apply a composition to tensors; record it if need be. Returns a tensor, or a tuple for several results."""
    return apply_plan(composition, static, tensors)


if engine:
    apply_composition = engine.apply


#: NumPy's names of parameters that torch takes too
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def as_torch_calls(function: F) -> F:
    """Have a function take `out`, a tensor that is filled with the result and returned, and NumPy's keywords."""
    own = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, out: Tensor | None = None, **keywords: Any) -> Any:
        if keywords:
            for alias in _NUMPY_NAMES.keys() & keywords.keys() - own.keys():
                if _NUMPY_NAMES[alias] in keywords:
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{alias}'")
                keywords[_NUMPY_NAMES[alias]] = keywords.pop(alias)
        if out is None:
            return function(*args, **keywords)
        given = [t for t in (*args, *keywords.values(), out) if isinstance(t, Tensor)]
        if mode.grad and any(needs_grad(t) for t in given):
            raise RuntimeError(
                f"{function.__name__}(): functions with out=... arguments don't support automatic differentiation, but "
                "one of the arguments requires grad."
            )
        made = function(*args, **keywords)
        return _filled(out, apply_plan(*made) if type(made) is Plan else made)

    return cast(F, call)


def _filled(out: Any, made: Any) -> Any:
    levels = dtypes.category(made._a.dtype), dtypes.category(out._a.dtype)
    if levels[0] > levels[1]:
        raise dtypes.narrowing_error(made._a.dtype, out._a.dtype)
    if out._a.shape != made._a.shape:
        if out._a.size:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(out._a.shape)}, which does "
                f"not match the required output shape {list(made._a.shape)}.",
                stacklevel=3,
            )
        out.resize_(*made._a.shape)
    out.copy_(made)
    return out


def planned(numbers: int = 0) -> Callable[[F], F]:
    """Make an operation of a function that returns a Plan, or what is not to be planned: a tensor or NotImplemented.

    The plan must follow from the dtypes and shapes of tensors and from the values of other arguments alone: it is kept.
    A tensor that is no operand stands for its number.

    Args:
        numbers: so many of the first arguments may be Python numbers that become a Scalar; of these the type alone
            matters.
    """

    def make(given: F) -> F:
        @functools.wraps(given)
        def plan_of(*args: Any, **keywords: Any) -> Any:
            plan = given(*args, **keywords)
            if type(plan) is not Plan:
                return plan
            used = {id(t) for t in plan.operands}
            if all(id(t) in used for t in (*args, *keywords.values()) if isinstance(t, Tensor)):
                return plan
            if not _holds_tensor(plan.static):
                return apply_plan(*plan)  # it follows from the value of a tensor

            def plain(t: Any) -> Any:
                return t.item() if isinstance(t, Tensor) and id(t) not in used and not t._a.ndim else t

            return operation(*map(plain, args), **{name: plain(t) for name, t in keywords.items()})

        function = as_torch_calls(plan_of)

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            plan = function(*args, **keywords)
            return apply_plan(*plan) if type(plan) is Plan else plan

        operation: Any
        if engine:
            operation = as_operation(function, numbers)
        else:
            operation = refusing(call)
            operation.__wrapped__ = function
        return cast(F, operation)

    return make


def _holds_tensor(static: tuple[Any, ...]) -> bool:
    return any(isinstance(s, Tensor) or (isinstance(s, tuple) and _holds_tensor(s)) for s in static)


def underivable(name: str, title: str = "NotImplemented") -> Callable[[F], F]:
    """Make the results of a function carry a node that refuses to be walked through, as those of torch do.

    Args:
        name: torch's name of the operation.
        title: of the node.
    """
    error: Exception = RuntimeError(f"derivative for aten::{name} is not implemented")
    if title != "NotImplemented":
        error = NotImplementedError(f"the derivative for '{name}' is not implemented.")

    def make(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            made = function(*args, **keywords)
            given = [t for t in (*args, *keywords.values()) if isinstance(t, Tensor)]
            if mode.grad and mode.tracing is None and any(map(needs_grad, given)):
                outs = [t for t in (made if isinstance(made, tuple) else (made,)) if isinstance(t, Tensor)]
                node = node_class(title, UnknownNode)(tuple(edge_of(t) for t in given if needs_grad(t)))
                node.error, (node.code, node.instruction) = error, user_place()
                attach(node, [t if is_differentiable(t._a.dtype) else None for t in outs])
            return made

        return cast(F, call)

    return make


def record_flat(title: str, given: Any, out: Tensor) -> Tensor:
    """Make a result depend on a tensor with slope zero, if that requires grad; return the result."""
    if isinstance(given, Tensor) and mode.grad and needs_grad(given):
        node = node_class(title, FlatNode)(gradient_edge(given), given._a.shape, given._a.dtype)
        node.code, node.instruction = user_place()
        attach(node, [out])
    return out


def edge_of(tensor: Tensor) -> Edge:
    """Return where the gradient of a tensor goes; its view is then up to date."""
    needs_grad(tensor)
    return gradient_edge(tensor)


def needs_grad(tensor: Tensor) -> bool:
    """Return whether a tensor requires grad; its view is then up to date."""
    if tensor._base is not None:
        _refreshers[0](tensor)
    return asks_for_grad(tensor)


def require_current(*tensors: Tensor) -> None:
    """Check operands of what is not recorded and of which torch makes several operations that are.

    Raises:
        RuntimeError: one is a piece whose base was written.
    """
    if mode.grad:
        for tensor in tensors:
            needs_grad(tensor)


def asks_for_grad(tensor: Tensor) -> bool:
    """Return whether a tensor requires grad.

    A view made in no_grad, or before its base came to require grad, asks for one too, though none arrives.
    """
    base = tensor._base
    return (
        tensor._requires_grad
        or tensor._node is not None
        or (base is not None and (base._requires_grad or base._node is not None))
    )


def apply_kernel(title: str, kernel: Kernel, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Run a kernel on tensors; record a node if gradients are on and an operand needs one."""
    arrays = [t._a for t in tensors]
    outs = [wrap(settle(kernel.layout, arrays, a)) for a in kernel(*arrays)]
    if mode.grad:
        record_if_needed(title, kernel, tensors, outs)
    if mode.level >= 0 and _tangent_rules:
        _tangent_rules[0](kernel, tensors, outs)
    if mode.inference:
        for out in outs:
            out._inference = True
    return outs


def record_if_needed(title: str, kernel: Kernel, tensors: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """Record an application if a gradient goes through it to some operand."""
    if not any(is_differentiable(out._a.dtype) for out in outs):
        return
    mask = sum(1 << k for k, t in enumerate(tensors) if needs_grad(t))
    if mask:
        record(title, kernel, mask, tensors, outs)


def record_known(composition: Composition, static: tuple[Any, ...], tensors: list[Tensor], out: Tensor) -> None:
    """Record an application whose result is known already, if a gradient goes through it."""
    if engine and not mode.unusual and len(tensors) <= engine.MAX_OPERANDS:
        engine.record(composition, static, tensors, out)
    else:
        kernel = composition.kernel(static, [t._a for t in tensors])
        record_if_needed(composition.node_name, kernel, tensors, (out,))


def edges_of(mask: int, tensors: Sequence[Tensor]) -> list[Edge]:
    """Return where gradients of the operands go whose bit is set."""
    return [edge_of(t) if mask >> k & 1 else _NOWHERE for k, t in enumerate(tensors)]


def record(title: str, kernel: Kernel, mask: int, tensors: Sequence[Tensor], outs: Sequence[Tensor]) -> KernelNode:
    """Make the node of an application and attach it to the results."""
    pullback = kernel.pullback(mask)
    node: KernelNode = node_class(title)(tuple(edges_of(mask, tensors)), pullback)
    node.code, node.instruction = user_place()
    if pullback.reads:
        saved = []
        for kind in pullback.reads:
            tensor = tensors[kind[1]] if kind[0] == "in" else outs[kind[1]]
            if tensor._inference:
                raise inference_error()
            saved.append(Saved(tensor._a, tensor._storage, kind))
        keep_saved(node, saved, tensors, outs)
    single = len(outs) == 1
    attach(node, [out if single or kernel.depends[k] & mask else None for k, out in enumerate(outs)])
    return node


def keep_saved(node: Node, saved: list[Saved], tensors: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """Make values those that a node saved, as the modes ask: copied before a write, or handed to hooks."""
    node.saved = saved
    if mode.sparing:
        for item in saved:
            shield(item)
    if mode.saving:
        pack_saved(saved, tensors, outs)


def keep_tangents(outs: Sequence[Tensor], tensors: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> None:
    """Keep tangents beside saved values: the backward pass has a tangent too."""
    for node in {id(out._node): out._node for out in outs if isinstance(out._node, KernelNode)}.values():
        for item in node.saved or ():
            kind, number = item.kind
            if kind == "out":
                item.tangent = outs[number]._tangent
            elif tangents[number] is not None:
                item.tangent = (mode.level, tangents[number])


def attach(node: Node, outs: Sequence[Tensor | None]) -> None:
    """Make `node` the producer of its results; None is one that is no tensor."""
    if not isinstance(node, KernelNode):
        node.results = tuple([None if out is None else (out._a.shape, out._a.dtype) for out in outs])
    node.width = len(outs)
    for number, out in enumerate(outs):
        if out is None:
            continue
        if len(outs) == 1 or is_differentiable(out._a.dtype):
            out._node, out._nr = node, number
    if mode.anomaly:
        every = load_options().traceback == "full"
        frames = [f for f in traceback.extract_stack() if every or not is_library(f.filename)]
        node.trace = "".join(traceback.format_list(frames))


def retain(tensor: Tensor, before: Node | None = None, nr: int = 0) -> None:
    """Have the gradient of a tensor kept at the node that made it, no more at the one before."""
    if before is not None and before._retain is not None:
        before._retain.pop(nr, None)
    node = tensor._node
    node.hooked = True
    if node._retain is None:
        node._retain = {}
    node._retain[tensor._nr] = weakref.ref(tensor)


#: operations of which torch saves the result, so that a write into it is an error
_SAVING_RESULT = frozenset((
    "Amax", "Amin", "Cumprod", "Exp", "Exp2", "Expm1", "Hypot", "LinalgCholeskyEx", "LinalgDet", "LinalgEigh",
    "LinalgInvEx", "LinalgPinv", "LinalgQr", "LinalgSolveEx", "LinalgSvd", "LinalgVectorNorm", "LogSoftmax",
    "Logcumsumexp", "Logsumexp", "Max", "Min", "Pow", "Prod", "Reciprocal", "Relu", "Rsqrt", "Sigmoid", "Softmax",
    "Sqrt", "Std", "Tan", "Tanh",
))  # fmt: skip


#: operations whose gradient is the cotangent where a mask says so: as in torch, it depends on the cotangent alone
_MASKING = frozenset((
    "Amax", "Amin", "Clamp", "Fmax", "Fmin", "Max", "Maximum", "Median", "Min", "Minimum", "NanToNum", "Nanmedian",
))  # fmt: skip


def shielding(*operands: int) -> Callable[[F], F]:
    """Make a function let operands of the operation in it be written later: what was saved of them is copied then.

    For operations of which torch saves the result and ours the operand.
    """

    def make(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            made = function(*args, **keywords)
            if isinstance(made, Tensor):
                for item in getattr(made._node, "saved", None) or ():
                    if item.kind[0] == "in" and item.kind[1] in operands:
                        shield(item)
            return made

        return cast(F, call)

    return make


def shield(item: Saved) -> None:
    """Let the memory of a saved value be written: it is copied then."""
    if item.storage is not None:
        if item.storage.shielded is None:
            item.storage.shielded = weakref.WeakSet()
        item.storage.shielded.add(item)


def _spare_results(tensor: Tensor) -> Iterator[Saved]:
    """Yield what the node of a tensor, or of its base, saved of the result where torch saves none of it."""
    for holder in (tensor, tensor._base):
        node = None if holder is None else holder._node
        if isinstance(node, KernelNode) and node.pullback.primal.name not in _SAVING_RESULT:
            yield from (item for item in node.saved or () if item.kind[0] == "out")


def shield_result(tensor: Tensor) -> None:
    """Let the result of an operation be written through a tensor that knows nothing of it."""
    for item in _spare_results(tensor):
        shield(item)


def part_saved(tensor: Tensor) -> None:
    """Copy saved values that torch would not have saved, before a tensor is written."""
    storage = tensor._storage
    for item in storage.shielded or ():
        item.part()
    storage.shielded = None
    for item in _spare_results(tensor):
        if item.storage is storage:
            item.part()


def inference_error() -> RuntimeError:
    return RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
        "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it "
        "in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
    )


def pack_saved(saved: list[Saved], tensors: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """Hand saved values that are no numbers to the innermost saved_tensors_hooks."""
    for item in saved:
        kind, number = item.kind
        if item.storage is not None:
            pack(item, tensors[number] if kind == "in" else outs[number], *mode.saving[-1])


def pack(item: Saved, tensor: Tensor, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
    """Keep what a hook makes of a saved tensor instead of it.

    Raises:
        RuntimeError: the hook overwrites its argument.
    """
    view = wrap(tensor._a)
    view._storage, version = tensor._storage, tensor._storage.version
    before, mode.grad = mode.grad, False
    try:
        packed = pack_hook(view)
    finally:
        mode.grad = before
    if tensor._storage.version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot "
            "be modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if "
            "you need to perform in-place operations on the input to a pack hook."
        )
    item.like = tensor._a.shape, tensor._a.dtype
    item.packed, item.unpack, item.array, item.storage = packed, unpack_hook, None, None


class SavedTensor:
    """A value that a node saved, which takes hooks of its own."""

    def __init__(self, node: Any, item: Saved | None) -> None:
        self._node, self._item = node, item

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Keep `pack_hook(tensor)` instead of the tensor; `unpack_hook` gives it back.

        Raises:
            RuntimeError: there is no tensor any more, or hooks were set before.
            TypeError: the hooks are no functions.
        """
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks(): incompatible function arguments: two functions are needed")
        item = self._item
        if item is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden.")
        if not self._node.holds(item):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the "
                "graph are freed when you call .backward() or autograd.grad()."
            )
        if item.unpack is not None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        tensor = self._node.unpack(item, True)
        pack(item, tensor, pack_hook, unpack_hook)


# ---- the walk


class Capture:
    """Collects the cotangent that arrives at an edge."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: Cotangent = None


class Walk:
    """One backward walk.

    Attributes:
        notes: what hooks keep for as long as it lasts.
    """

    __slots__ = ("_reached", "captured", "needed", "notes", "roots")

    def __init__(self, roots: Sequence[Node], needed: set[Node] | None, captured: Collection[Node]) -> None:
        self.roots, self.needed, self.captured = roots, needed, captured
        self.notes: dict[Any, Any] = {}
        self._reached: set[Node] | None = None

    def comes_to(self, node: Node | None) -> bool:
        """Return whether the walk runs a node, or takes the cotangent there."""
        if self._reached is None:
            self._reached = {*self.roots, *_count(self.roots)}
        return node in self._reached and (self.needed is None or node in self.needed or node in self.captured)


def run_backward(
    roots: Sequence[tuple[Edge, Cotangent]],
    *,
    keep: bool,
    create_graph: bool,
    wanted: Sequence[Edge] | None = None,
    accumulate_wanted: bool = False,
) -> list[Cotangent]:
    """Walk backwards from the roots.

    Args:
        roots: edges with their cotangents.
        keep: saved values are not freed.
        create_graph: record the walk itself; cotangents are then tensors.
        wanted: edges whose cotangents are wanted; other leaves are left alone.
        accumulate_wanted: they go to `.grad` (and the nodes must be leaves' or retained), instead of being returned.

    Returns:
        The cotangent per wanted edge; None where nothing arrived.
    """
    before = mode.grad
    mode.grad = create_graph
    in_tensors = create_graph or mode.level >= 0  # arrays carry no tangents
    if in_tensors and not create_graph:
        roots = [(edge, as_tensor(ct)) for edge, ct in roots]
    try:
        return _walk(roots, keep, in_tensors, wanted, accumulate_wanted)
    finally:
        mode.grad = before


def _count(roots: Sequence[Node]) -> dict[Node, int]:
    """Return for each node that can be reached the number of edges to it."""
    counts: dict[Node, int] = {}
    stack = list(dict.fromkeys(roots))
    seen = set(stack)
    while stack:
        for node, _ in stack.pop().edges:
            if node is not None:
                counts[node] = counts.get(node, 0) + 1
                if node not in seen:
                    seen.add(node)
                    stack.append(node)
    return counts


def _needed(roots: Sequence[Node], wanted: set[Node]) -> set[Node]:
    """Return the nodes from which a wanted one can be reached, other than through its own edges alone."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(r, False) for r in roots]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((n, False) for n, _ in node.edges if n is not None and n not in seen)
    needed: set[Node] = set()
    for node in order:
        if any(n in needed or n in wanted for n, _ in node.edges if n is not None):
            needed.add(node)
    return needed


def _walk(
    roots: Sequence[tuple[Edge, Cotangent]],
    keep: bool,
    create_graph: bool,
    wanted: Sequence[Edge] | None,
    accumulate_wanted: bool,
) -> list[Cotangent]:
    nodes = [edge[0] for edge, _ in roots if edge[0] is not None]
    captures: dict[Node, dict[int, Capture]] = {}
    needed: set[Node] | None = None
    if wanted is not None:
        for node, nr in wanted:
            if node is not None:
                captures.setdefault(node, {})[nr] = Capture()
        needed = _needed(nodes, set(captures))
        if accumulate_wanted:
            needed.update(captures)
    always = nodes if len(roots) == 1 else []  # hooks of a single root run in any case, as in torch

    def visit(node: Node, cts: list[Cotangent]) -> Sequence[Cotangent]:
        runs = needed is None or node in needed
        if not runs and node not in captures and node not in always:
            return [None] * len(node.edges)
        if type(node) is AccumulateGrad and node.shape is not None and cts[0] is not None:
            cts = [brought_to(node.shape, cts[0], node.title, create_graph)]
        arrived = cts
        if node.hooked or (type(node) is AccumulateGrad and node.variable._hooks):
            cts = _run_prehooks(node, cts, create_graph, runs)
        if node in captures:
            for nr, capture in captures[node].items():
                if not accumulate_wanted or not isinstance(node, AccumulateGrad):
                    capture.found = (arrived if runs and not accumulate_wanted else cts)[nr]  # as in torch
        return _apply(node, cts, create_graph, keep) if runs else [None] * len(node.edges)

    outer, mode.walk = mode.walk, Walk(nodes, needed, captures)
    try:
        if engine and not create_graph and not mode.anomaly:
            engine.walk(list(roots), keep, needed, captures or None, visit)
        else:
            _visit_all(roots, visit, create_graph)
    finally:
        mode.walk = outer
    if wanted is None:
        return []
    return [None if node is None else captures[node][nr].found for node, nr in wanted]


class Ready:
    """Nodes that wait for their turn, the latest first; equal ones, as leaves are, come in the order of torch's heap.

    Source: push_heap and pop_heap of libstdc++.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def push(self, node: Node) -> None:
        """Add a node."""
        self.nodes.append(node)
        self._raise(len(self.nodes) - 1, node)

    def _raise(self, at: int, node: Node) -> None:
        """Put a node at a free place, or above it."""
        nodes = self.nodes
        while at and nodes[parent := (at - 1) // 2].order < node.order:
            nodes[at] = nodes[parent]
            at = parent
        nodes[at] = node

    def pop(self) -> Node:
        """Take the next node."""
        nodes = self.nodes
        last, at, count = nodes.pop(), 0, len(nodes)
        if not nodes:
            return last
        top = nodes[0]
        while (child := 2 * at + 1) < count:
            if child + 1 < count and nodes[child + 1].order >= nodes[child].order:
                child += 1
            nodes[at] = nodes[child]
            at = child
        self._raise(at, last)
        return top


def _visit_all(roots: Sequence[tuple[Edge, Cotangent]], visit: Callable[..., Any], create_graph: bool) -> None:
    """Visit nodes, the latest first, each with the cotangents that arrived."""
    counts = _count([edge[0] for edge, _ in roots if edge[0] is not None])
    buffers: dict[Node, list[Cotangent]] = {}
    ready = Ready()
    for (node, nr), ct in roots:
        if node is None:
            continue
        buffer = buffers.get(node)
        if buffer is None:
            buffer = buffers[node] = [None] * node.width
            if not counts.get(node):
                ready.push(node)
        buffer[nr] = ct if buffer[nr] is None else _sum(buffer[nr], ct, create_graph)
    while ready.nodes:
        node = ready.pop()
        found = visit(node, buffers.pop(node, None) or [None] * node.width)
        for (next_node, nr), ct in zip(node.edges, found):  # noqa: B905 strict costs time
            if next_node is None:
                continue
            counts[next_node] -= 1
            if ct is not None:
                buffer = buffers.setdefault(next_node, [None] * next_node.width)
                buffer[nr] = ct if buffer[nr] is None else _sum(buffer[nr], ct, create_graph)
            if not counts[next_node]:
                ready.push(next_node)


def _sum(a: Cotangent, b: Cotangent, create_graph: bool) -> Cotangent:
    if create_graph:
        return apply_composition(_ADD, (), [a, b])
    return np.asarray(quietly(np.add, a, b))


def _apply(node: Node, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
    if all(ct is None for ct in cts) and isinstance(node, KernelNode | AccumulateGrad):
        found: Sequence[Cotangent] = [None] * len(node.edges)
    else:
        try:
            found = node.apply(cts, create_graph, keep)
        except Exception:
            if mode.anomaly and node.trace:
                _warn_trace(node)
            raise
    if node._posthooks:
        found = _run_posthooks(node, found, cts, create_graph)
    if mode.anomaly and mode.check_nan:
        for k, ct in enumerate(found):
            if ct is not None and np.isnan(ct._a if isinstance(ct, Tensor) else ct).any():
                if node.trace:
                    _warn_trace(node)
                raise RuntimeError(
                    f"Function '{node.title}' returned nan values in its {k}th output.\n  made at {node.place()}"
                )
    return found


def _warn_trace(node: Node) -> None:
    warnings.warn(
        f"Error detected in {node.title}. Traceback of forward call that caused the error:\n{node.trace}",
        stacklevel=2,
    )


def _run_prehooks(node: Node, cts: list[Cotangent], create_graph: bool, runs: bool) -> list[Cotangent]:
    """Run the hooks on the cotangents of results and, if the node itself runs, those before it."""
    cts = list(cts)
    hooked = {0: node.variable._hooks} if isinstance(node, AccumulateGrad) else node._tensor_hooks or {}
    for nr, hooks in hooked.items():
        for hook in list((hooks or {}).values()):
            replaced = hook(as_tensor(cts[nr]))
            if replaced is not None:
                if cts[nr] is None:
                    raise RuntimeError("can't replace a None gradient with a non-None value")
                _check_replacement(hook, replaced, cts[nr])
                cts[nr] = from_tensor(replaced, create_graph)
            else:
                cts[nr] = cts[nr] if create_graph or cts[nr] is None else cts[nr][...]
    for nr, reference in (node._retain or {}).items():
        tensor = reference()
        if tensor is not None and cts[nr] is not None:
            if create_graph and tensor._grad is not None:
                accumulate(tensor, cts[nr], create_graph)
            elif tensor._grad is None:  # row-major, whatever the layout of the tensor
                ct = cts[nr]
                is_array = isinstance(ct, np.ndarray)
                tensor._grad = wrap(np.array(ct, order="C")) if is_array else apply_composition(_IN_ROWS, (), [ct])
            else:
                tensor._grad = wrap(np.asarray(tensor._grad._a + cts[nr]))
    for hook in list((node._prehooks or {}).values()) if runs else ():
        replaced = hook(tuple(as_tensor(ct) for ct in cts))
        if replaced is not None:
            given = replaced if isinstance(replaced, tuple) else (replaced,)
            _check_replacements(hook, given, cts)
            cts = [from_tensor(ct, create_graph) for ct in given]
        else:
            cts = [ct if ct is None or create_graph else ct[...] for ct in cts]
    return cts


def _check_replacement(hook: Any, new: Any, old: Cotangent) -> None:
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    shape = tuple(old.shape)
    if tuple(new._a.shape) != shape:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', hook)}' has changed the size of value\n  expected {list(shape)}, got "
            f"{list(new._a.shape)}"
        )
    before = as_tensor(old)
    assert before is not None
    if new._a.dtype != before._a.dtype:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', hook)}' has changed the type of value (was {before.type_name()} got "
            f"{new.type_name()})"
        )


def _check_replacements(hook: Any, new: Sequence[Any], old: Sequence[Cotangent]) -> None:
    if len(new) != len(old):
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of values (got {len(new)}, but "
            f"expected {len(old)})"
        )
    for replaced, ct in zip(new, old, strict=True):
        if replaced is not None and ct is not None:
            _check_replacement(hook, replaced, ct)


def _run_posthooks(
    node: Node, found: Sequence[Cotangent], cts: Sequence[Cotangent], create_graph: bool
) -> Sequence[Cotangent]:
    outputs = tuple(as_tensor(ct) for ct in cts)
    found = node.hook_inputs(found)
    for hook in list((node._posthooks or {}).values()):
        replaced = hook(tuple(as_tensor(ct) for ct in found), outputs)
        if replaced is not None:
            given = replaced if isinstance(replaced, tuple) else (replaced,)
            _check_replacements(hook, given, found)
            found = [from_tensor(ct, create_graph) for ct in given]
        else:
            found = [ct if ct is None or create_graph else ct[...] for ct in found]
    return node.from_hook(found)


# ---- modes


@contextmanager
def grad_mode(on: bool) -> Iterator[None]:
    """Switch the recording of operations inside a with statement."""
    before = mode.grad
    mode.grad = on
    try:
        yield
    finally:
        mode.grad = before


@contextmanager
def sparing_saved() -> Iterator[None]:
    """Let whatever is saved inside a with statement be written there, as where no backward pass follows."""
    before, mode.sparing = mode.sparing, True
    try:
        yield
    finally:
        mode.sparing = before


# ---- the fast path

if engine:
    engine.configure(
        dict(
            Tensor=Tensor, Storage=Storage, Saved=Saved, KernelNode=KernelNode, AccumulateGrad=AccumulateGrad,
            Plan=Plan, Scalar=Scalar, DType=dtypes.DType, Composition=Composition, Kernel=Kernel, Pullback=Pullback,
            sequence=_sequence, nowhere=_NOWHERE, package=_PACKAGE, quiet_context=quiet_context, quietly=quietly,
            refresh=lambda tensor: _refreshers[0](tensor), apply_slowly=apply_plan, node_class=node_class,
            inference_error=inference_error, add=np.add, is_finite=lambda x: bool(np.isfinite(x).all()),
            arrange=arrange, like_operands=LIKE_OPERANDS, kept=_KEPT, number_array=dtypes.number_array,
            refusal=refusal,
        )
    )  # fmt: skip
