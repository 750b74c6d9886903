"""Functions with a gradient of their own: `Function`, and the node that is its context.

Reads tensors; writes nodes of the tape. First file of autograd/; next: gradcheck.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any
from typing import cast as cast_type

import numpy as np

from tracegrad.runtime.operate import cast
from tracegrad.runtime.reducing import sum as sum_over
from tracegrad.runtime.tape import (
    Cotangent,
    Edge,
    Node,
    Saved,
    SavedTensor,
    attach,
    connect,
    from_tensor,
    grad_mode,
    gradient_edge,
    mode,
    needs_grad,
    pack,
    retain,
    shield,
    user_place,
)
from tracegrad.runtime.tensor import Storage, Tensor, is_differentiable, type_name, wrap
from tracegrad.runtime.views import (
    check_tangent,
    check_writable,
    give_tangent,
    mark_written,
    rebase,
    tangent_of,
    write_tangent,
)


class FunctionNode(Node):
    """The node of a call of a Function, and the `ctx` that its methods get.

    Attributes:
        needs_input_grad: per argument, whether its gradient is wanted.
        arguments: those of the call, while `jvp` runs.
    """

    function: type[Function]
    needs_input_grad: tuple[bool, ...] = ()
    materialize = True
    released = False
    arguments: tuple[Any, ...] = ()

    def __init__(self, function: type[Function]) -> None:
        super().__init__()
        self.function = function
        self.title = f"{function.__name__}Backward"
        self.kept: tuple[Any, ...] = ()
        self.for_forward: tuple[Any, ...] | None = None
        self.dirty: tuple[Tensor, ...] = ()
        self.fixed: tuple[Tensor, ...] = ()
        self.tensor_positions: list[int] = []
        self.inputs: list[Tensor | None] = []
        self.entries: list[Saved | None] = []

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{self.title} object at {hex(id(self))}>"

    # ---- what forward and setup_context call

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward; a write into them in between is then found."""
        _check_saved("save_for_backward", tensors)
        self.kept = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for jvp."""
        _check_saved("save_for_forward", tensors)
        self.for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which arguments forward wrote in place."""
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which results carry no gradient."""
        self.fixed = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether missing gradients arrive as zeros (the default) or as None."""
        self.materialize = value

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing: shared memory is found by itself."""

    # ---- saved tensors

    def finish(self, outputs: Sequence[Any], tensors: Sequence[Tensor], executable: bool) -> None:
        """Turn what was given to save_for_backward into entries with versions; `tensors` are among the arguments."""
        if not executable:
            self.entries = [None if t is None else Saved(t._a, t._storage, ("any", 0)) for t in self.kept]
            self.inputs = list(self.kept)
            self.kept = ()
            return
        results = {id(t): k for k, t in enumerate(outputs) if isinstance(t, Tensor)}
        given = {id(t): k for k, t in enumerate(tensors)}
        for tensor in self.kept:
            if tensor is None:
                self.entries.append(None)
                self.inputs.append(None)
                continue
            number = results.get(id(tensor), -1)
            is_result = number >= 0
            entry = Saved(
                tensor._a, tensor._storage, ("out", number) if is_result else ("in", given.get(id(tensor), len(given)))
            )
            if mode.saving:
                pack(entry, tensor, *mode.saving[-1])
            elif mode.sparing:
                shield(entry)
            self.entries.append(entry)
            self.inputs.append(None if is_result or mode.saving else tensor)
        self.kept = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to save_for_backward; in jvp those given to save_for_forward, if there are any.

        Raises:
            RuntimeError: they were freed by an earlier backward, or overwritten.
        """
        if self.for_forward is not None:
            return self.for_forward
        if self.kept:
            return self.kept
        if self.released:
            raise self.freed_error()
        return tuple(self._restore(k, entry) for k, entry in enumerate(self.entries))

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """What takes hooks, for each of the saved tensors."""
        if self.released:
            raise self.freed_error()
        return tuple(SavedTensor(self, entry) for entry in self.entries)

    def holds(self, item: Saved) -> bool:
        """Return whether a value is still saved."""
        return item in self.entries

    def _restore(self, position: int, entry: Saved | None) -> Tensor | None:
        if entry is None:
            return None
        original = self.inputs[position] if entry.unpack is None and entry.storage is not None else None
        made = self.unpack(entry, True)
        return made if original is None else original

    def unpack(self, entry: Saved, create_graph: bool) -> Tensor:
        """Return a saved tensor.

        Raises:
            RuntimeError: it was overwritten.
        """
        kind, number = entry.kind
        edge: Edge = (None, 0)
        if kind == "out":
            edge = self, number
        elif kind == "in" and number < len(self.edges):
            edge = self.edges[number]
        if entry.unpack is not None:
            restored: Tensor = entry.unpack(entry.packed)
            array, storage = restored._a, restored._storage
        else:
            assert entry.array is not None
            array, storage = entry.array, entry.storage or Storage()
            if storage.version != entry.version and entry.storage is not None:
                raise self.overwritten_error(entry, edge)
        made = wrap(array)
        made._storage = storage
        connect(made, edge)
        return made

    def release(self) -> None:
        """Forget the saved tensors."""
        if self.entries:
            self.entries, self.inputs, self.released = [], [], True

    # ---- backward

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        given: list[Any] = []
        for ct, kind in zip(cts, self.results, strict=True):
            if ct is None:
                given.append(wrap(np.zeros(*kind)) if self.materialize and kind is not None else None)
            else:
                given.append(ct if isinstance(ct, Tensor) else wrap(ct))
        found = self.function.backward(self, *given)
        found = tuple(found) if isinstance(found, tuple | list) else (found,)
        expected = len(self.needs_input_grad)
        if len(found) > expected and all(x is None for x in found[expected:]):
            found = found[:expected]
        if len(found) != expected:
            raise RuntimeError(
                f"function {self.title} returned an incorrect number of gradients (expected {expected}, got "
                f"{len(found)})"
            )
        out: list[Cotangent] = []
        for position, ct in enumerate(found):
            if position not in self.tensor_positions:
                if ct is not None:
                    raise RuntimeError(
                        f"function {self.title} returned a gradient different from None at position {position + 1}, "
                        "but the corresponding forward input was not a Variable"
                    )
                continue
            out.append(self._checked(ct, len(out), create_graph))
        if not keep:
            self.release()
        return out

    def _checked(self, ct: Any, number: int, create_graph: bool) -> Cotangent:
        if ct is None or self.edges[number][0] is None:
            return None
        if not isinstance(ct, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(ct).__name__})")
        shape, dtype = self.input_types[number]
        if ct._a.shape != shape:
            ct = _reduced(ct, shape, self.title, number)
        if ct._a.dtype != dtype:
            ct = cast(ct, dtype)
        return from_tensor(ct, create_graph)

    input_types: tuple[tuple[tuple[int, ...], Any], ...] = ()


@functools.lru_cache(256)
def _signature(forward: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(forward)


def _bound(forward: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call by position, defaults among them: what setup_context gets.

    Raises:
        TypeError: an argument can be given by keyword alone.
    """
    signature = _signature(forward)
    if not keywords and len(args) >= len(signature.parameters):
        return args
    bound = signature.bind(*args, **keywords)
    bound.apply_defaults()
    for name in bound.kwargs:
        raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
    return bound.args


def _check_saved(name: str, tensors: Sequence[Any]) -> None:
    for k, tensor in enumerate(tensors):
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"{name} can only save variables, but argument {k} is of type {type(tensor).__name__}")


def _reduced(ct: Tensor, shape: tuple[int, ...], title: str, number: int) -> Tensor:
    """Sum a gradient to the shape of its input, as for a broadcast operand."""
    new = ct._a.ndim - len(shape)
    fits = new >= 0 and all(n == m or n == 1 for n, m in zip(shape, ct._a.shape[new:], strict=True))
    if not fits:
        raise RuntimeError(
            f"Function {title} returned an invalid gradient at index {number} - got {list(ct._a.shape)} but expected "
            f"shape compatible with {list(shape)}"
        )
    if new:
        ct = sum_over(ct, tuple(range(new)))
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and ct._a.shape[k] != 1)
    return sum_over(ct, axes, True) if axes else ct


#: torch's name of what `ctx` is
FunctionCtx = FunctionNode


class Function:
    """Base of functions with a gradient of their own.

    Define static methods `forward(ctx, *args)` (or `forward(*args)` with `setup_context(ctx, inputs, output)`) and
    `backward(ctx, *grad_outputs)`; call the function through `apply`.
    """

    _node_class: type[FunctionNode] = FunctionNode

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._node_class = cast_type(type[FunctionNode], type(f"{cls.__name__}Backward", (FunctionNode,), {}))

    @staticmethod
    def forward(*args: Any, **keywords: Any) -> Any:
        """Compute the results."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return one gradient per argument of forward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return the tangents of the results."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **keywords: Any) -> Any:
        """Call the function."""
        separate = cls.setup_context is not Function.setup_context
        if separate:
            args, keywords = _bound(cls.forward, args, keywords), {}
        node = cls._node_class(cls)
        tensors = [a for a in args if isinstance(a, Tensor)]
        needs = [isinstance(a, Tensor) and needs_grad(a) for a in args]
        executable = mode.grad and any(needs)
        node.needs_input_grad = tuple(needs)
        node.code, node.instruction = user_place()
        level, mode.level = mode.level, -1
        try:
            with grad_mode(False):
                if separate:
                    output = cls.forward(*args, **keywords)
                    cls.setup_context(node, args, output)
                else:
                    output = cls.forward(node, *args, **keywords)
        finally:
            mode.level = level
        outputs = list(output) if isinstance(output, tuple | list) else [output]
        given = {id(t) for t in tensors}
        dirty = {id(t) for t in node.dirty}
        _check_dirty(node, outputs)
        viewed: dict[int, Tensor] = {}
        for k, out in enumerate(outputs):
            if isinstance(out, Tensor) and id(out) in given and id(out) not in dirty:
                alias = wrap(out._a)
                alias._storage = out._storage
                node.kept = tuple(alias if t is out else t for t in node.kept)
                outputs[k] = alias
                viewed[id(alias)] = out
            elif isinstance(out, Tensor) and out._base is not None and id(out) not in dirty:
                viewed[id(out)] = out._base
        node.tensor_positions = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        node.input_types = tuple((t._a.shape, t._a.dtype) for t in tensors)
        if executable:
            node.edges = tuple(gradient_edge(t) for t in tensors)
            for tensor in node.dirty:
                if tensor._requires_grad:
                    raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
                check_writable(tensor)
        for tensor in node.dirty:
            mark_written(tensor, cls.__name__)
        node.finish(outputs, tensors, executable)
        if executable:
            level, mode.level = mode.level, -1
            try:
                cls._attach(node, outputs, viewed)
            finally:
                mode.level = level
        if mode.level >= 0:
            tangents = [tangent_of(a) if isinstance(a, Tensor) else None for a in args]
            if any(t is not None for t in tangents):
                _push_tangents(cls, node, args, tangents, outputs)
        node.for_forward = None
        if isinstance(output, tuple | list):
            return tuple(outputs)
        return outputs[0]

    @classmethod
    def _attach(cls, node: FunctionNode, outputs: Sequence[Any], viewed: dict[int, Tensor]) -> None:
        """Make the node that of the results.

        Args:
            viewed: by id of a result that is a view, what it is a view of.
        """
        fixed = {id(t) for t in node.fixed}
        attach(node, [wrap(t._a) if isinstance(t, Tensor) else None for t in outputs])
        carries = [isinstance(t, Tensor) and is_differentiable(t._a.dtype) and id(t) not in fixed for t in outputs]
        count = sum(carries)
        for number, tensor in enumerate(outputs):
            if not isinstance(tensor, Tensor):
                continue
            if carries[number] and tensor._base is not None and any(tensor is t for t in node.dirty):
                written = wrap(tensor._a)
                written._node, written._nr = node, number
                rebase(cls.__name__, tensor, written)
                continue
            before, nr = tensor._node, tensor._nr
            tensor._base, tensor._steps, tensor._origin = None, (), ""
            if not carries[number]:
                tensor._node, tensor._requires_grad = None, False
            else:
                tensor._node, tensor._nr, tensor._requires_grad = node, number, False
                if tensor._retained:
                    retain(tensor, before, nr)
                base = viewed.get(id(tensor))
                if base is not None:
                    tensor._base = base if base._base is None else base._base
                    tensor._seen, tensor._origin = tensor._storage.version, "Function" if count == 1 else "Functions"


def _check_dirty(node: FunctionNode, outputs: Sequence[Any]) -> None:
    """Check the tensors given to mark_dirty.

    Raises:
        RuntimeError: one is no result, or it is a view and not the only result.
    """
    for tensor in node.dirty:
        if not any(tensor is out for out in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function."
            )
        if tensor._base is not None and len(outputs) > 1 and any(node.needs_input_grad):
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                "return more than one Tensor. This is not supported by the current autograd engine. You should either "
                "make sure the input is not a view (using .clone() for example) or make your Function only return one "
                "Tensor (potentially splitting it into two Functions: one doing the inplace that returns a single "
                "Tensor and a second one that does the other operations)."
            )


def _materialized(value: Any, tangent: Tensor | None) -> Tensor | None:
    """Return the tangent of an argument: zeros if a tensor that can have one has none."""
    if tangent is None and isinstance(value, Tensor) and is_differentiable(value._a.dtype):
        return wrap(np.zeros(value._a.shape, value._a.dtype))
    return tangent


def _push_tangents(
    cls: type[Function],
    node: FunctionNode,
    args: tuple[Any, ...],
    tangents: Sequence[Tensor | None],
    outputs: Sequence[Any],
) -> None:
    """Give the results the tangents that jvp finds."""
    level = mode.level
    mode.level = -1
    node.arguments = tuple(args)
    try:
        found = cls.jvp(node, *(map(_materialized, args, tangents) if node.materialize else tangents))
    finally:
        mode.level, node.arguments = level, ()
    moved_outs = found if isinstance(found, tuple) else (found,)
    if len(moved_outs) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got "
            f"{len(moved_outs)})"
        )
    for number, (out, tangent) in enumerate(zip(outputs, moved_outs, strict=True)):
        if tangent is None:
            continue
        if not isinstance(tangent, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type_name(tangent)}) for grad output {number}.")
        check_tangent(out, tangent)
        if any(out is t for t in node.dirty) and out._base is not None:
            moved = wrap(out._a)
            give_tangent(moved, tangent)
            write_tangent(out, moved)
        else:
            give_tangent(out, tangent)


class _OnceNode(Node):
    """Stands behind results of a backward that must not be differentiated."""

    title = "NotImplemented"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.function_name = name

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable\n"
            f"  function: {self.function_name}"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward whose own gradient is not available: differentiating it is an error instead of a wrong result."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *cts: Any) -> Any:
        with grad_mode(False):
            found = backward(ctx, *cts)
        if not mode.grad or not any(isinstance(ct, Tensor) and needs_grad(ct) for ct in cts):
            return found
        node = _OnceNode(getattr(ctx, "title", backward.__qualname__))
        results = []
        for ct in found if isinstance(found, tuple | list) else (found,):
            if isinstance(ct, Tensor):
                alias = wrap(ct._a)
                alias._node = node
                results.append(alias)
            else:
                results.append(ct)
        node.results = (((), None),)
        return tuple(results) if isinstance(found, tuple | list) else results[0]

    return wrapped
