"""backward and grad, and what a tensor shows of the tape: grad, grad_fn, requires_grad, detach, hooks; grad modes.

Reads tensors and walks the tape. Previous: settings.py; next: creating.py.
"""

from __future__ import annotations

import functools
import inspect
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.frames import user_level
from tracegrad.runtime import dtypes
from tracegrad.runtime.operate import cast
from tracegrad.runtime.shaping import stack
from tracegrad.runtime.tape import _CLONE as CLONE
from tracegrad.runtime.tape import _IN_ROWS as IN_ROWS
from tracegrad.runtime.tape import (
    Edge,
    Node,
    RemovableHandle,
    accumulate,
    add_hook,
    apply_composition,
    as_tensor,
    asks_for_grad,
    brought_to,
    edge_of,
    expect_leaf_shape,
    mode,
    needs_grad,
    node_class,
    retain,
    run_backward,
    shield_result,
)
from tracegrad.runtime.tensor import Tensor, is_differentiable, method, public, require_bool, type_name, wrap


def _is_edge(value: Any) -> bool:
    """Return whether a value stands for a result of a node: a tensor or a GradientEdge."""
    return isinstance(value, Tensor) or hasattr(value, "node")


def reset_gradient(tensor: Tensor, set_to_none: bool) -> None:
    """Forget the gradient of a tensor, or fill it with zeros apart from the graph that made it."""
    if tensor._grad is None:
        return
    if set_to_none:
        tensor._grad = None
    else:
        tensor._grad = tensor._grad.detach()
        tensor._grad.zero_()


def _list(value: Any) -> list[Any]:
    return [value] if _is_edge(value) else list(value)


def _inputs(value: Any) -> list[Any]:
    """Return the tensors whose gradients are wanted.

    Raises:
        RuntimeError: one is none.
    """
    chosen = _list(value)
    for each in chosen:
        if not _is_edge(each):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(each).__name__}")
    return chosen


def _outputs(value: Any) -> list[Any]:
    """Return the tensors that are differentiated.

    Raises:
        AssertionError: one is none.
    """
    found = _list(value)
    for each in found:
        if not _is_edge(each):
            raise AssertionError("Expected output to be a torch.Tensor")
    return found


def _check_flags(*flags: Any) -> None:
    """Check options that are true or false, or None.

    Raises:
        TypeError: one is something else.
    """
    for flag in flags:
        if flag is not None and not isinstance(flag, bool):
            operator.index(flag)


def _edge(tensor: Any) -> Edge:
    if not isinstance(tensor, Tensor):
        return tensor.node, tensor.output_nr
    return edge_of(tensor)


def _root_cotangents(
    outputs: Sequence[Any], cts: Sequence[Any], create_graph: bool, batched: bool = False
) -> list[Any]:
    """Check the cotangents that a walk begins with; None stands for 1 at a scalar."""
    if len(cts) < len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(cts)} gradients")
    found: list[Any] = []
    for output, ct in zip(outputs, cts, strict=False):  # as in torch, there can be more than are asked for
        if not isinstance(output, Tensor):
            found.append(ct if create_graph else None if ct is None else ct._a[...])
            continue
        array = output._a
        if ct is None:
            if not needs_grad(output):
                found.append(None)
                continue
            if array.size != 1:
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs\n  found: a tensor of shape "
                    f"{list(array.shape)}\n  help: pass a gradient of that shape, or reduce it first: .sum()"
                )
            if not is_differentiable(array.dtype) or array.dtype.kind == "c":
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs but got " + repr(output.dtype)
                )
            ones = np.ones(array.shape, array.dtype)
            found.append(wrap(ones) if create_graph else ones)
            continue
        if not isinstance(ct, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(ct).__name__}")
        if ct._a.shape != array.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{len(found)}] has a shape of {ct.shape!r} and output[{len(found)}] "
                f"has a shape of {output.shape!r}."
            )
        if (ct._a.dtype.kind == "c") != (array.dtype.kind == "c"):
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                f"dtype: grad_output[{len(found)}] has a dtype of {ct.dtype!r} and output[{len(found)}] has a dtype of "
                f"{output.dtype!r}."
            )
        if ct._a.dtype != array.dtype:
            ct = cast(ct, array.dtype)
        found.append(ct if create_graph else ct._a[...])
    return found


def _check_outputs(outputs: Sequence[Any]) -> None:
    for k, output in enumerate(outputs):
        if isinstance(output, Tensor) and edge_of(output)[0] is None:  # a view made in no_grad, too
            raise RuntimeError(f"element {k} of tensors does not require grad and does not have a grad_fn")


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of tensors into the `.grad` of leaves.

    Args:
        tensors: what is differentiated.
        grad_tensors: one cotangent per tensor; None for scalars. `grad_variables` is its old name.
        retain_graph: keep what the nodes saved, so that the graph can be walked again; default: create_graph.
        create_graph: record the walk, for gradients of gradients.
        inputs: accumulate into these alone.

    Raises:
        RuntimeError: nothing requires grad, or the graph was freed, or a saved value was overwritten.
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=user_level()
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    _check_flags(retain_graph, create_graph)
    outputs = _outputs(tensors)
    cts = [None] * len(outputs) if grad_tensors is None else _list(grad_tensors)
    found = _root_cotangents(outputs, cts, create_graph)
    _check_outputs(outputs)
    roots = [(_edge(o), ct) for o, ct in zip(outputs, found, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run_backward(roots, keep=keep, create_graph=create_graph)
        return
    chosen = _inputs(inputs)
    if not chosen:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    for k, tensor in enumerate(chosen):
        if not needs_grad(tensor):
            raise RuntimeError(
                f"can't retain_grad on Tensor that has requires_grad=False\n  found: inputs[{k}] does not require grad"
            )
        retain_grad(tensor)
    wanted = [_edge(t) for t in chosen]
    arrived = run_backward(roots, keep=keep, create_graph=create_graph, wanted=wanted, accumulate_wanted=True)
    for tensor, ct in zip(chosen, arrived, strict=True):
        if ct is not None and not tensor._retained:
            accumulate(tensor, ct, create_graph)


def _batch_size(outputs: Sequence[Tensor], cts: Sequence[Tensor | None]) -> int:
    """Return the number of cotangents that stand in one tensor.

    Raises:
        ValueError: there are none.
        IndexError: a tensor has no axis for them.
        RuntimeError: they do not have the shape of the output.
    """
    sizes = []
    for k, (out, ct) in enumerate(zip(outputs, cts, strict=False)):
        if ct is None:
            continue
        if not ct.dim():
            raise IndexError("invalid index of a 0-dim tensor: grad_outputs have a first axis, that of the batch")
        if ct.shape[1:] != out.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{k}] has a shape of {ct.shape[1:]} and output[{k}] "
                f"has a shape of {out.shape}."
            )
        sizes.append(len(ct))
    if not sizes:
        raise ValueError("is_grads_batched=True needs grad_outputs: Got in_dim=0 for some input, but there is none")
    if not sizes[0]:
        raise IndexError("index 0 is out of bounds for dimension 0 with size 0")
    return sizes[0]


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of outputs with respect to inputs, a dict for a dict; `.grad` stays as it is.

    Args:
        grad_outputs: one cotangent per output.
        allow_unused: an input that does not matter gets None instead of an error.
        is_grads_batched: the cotangents have one more axis in front; one walk is made per position.
        materialize_grads: inputs that do not matter get zeros.

    Raises:
        RuntimeError: an input does not require grad or is not used, or as in `backward`.
    """
    if isinstance(inputs, Mapping):
        found = grad(
            outputs, list(inputs.values()), grad_outputs, retain_graph, create_graph, only_inputs, allow_unused,
            is_grads_batched, materialize_grads,
        )  # fmt: skip
        return dict(zip(inputs, found, strict=True))
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=user_level(),
        )
    _check_flags(retain_graph, create_graph)
    if allow_unused is None:
        allow_unused = materialize_grads
    elif materialize_grads and not allow_unused:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outs, ins = _outputs(outputs), _inputs(inputs)
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    cts = [None] * len(outs) if grad_outputs is None else _list(grad_outputs)
    if is_grads_batched:
        count = _batch_size(outs, cts)
        rows = []
        for k in range(count):
            last = k == count - 1
            keep = create_graph if retain_graph is None else retain_graph
            rows.append(
                grad(outs, ins, [None if ct is None else ct[k] for ct in cts], keep or not last, create_graph,
                     True, allow_unused, False, materialize_grads)
            )  # fmt: skip
        return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))
    found = _root_cotangents(outs, cts, create_graph)
    _check_outputs(outs)
    roots = [(_edge(o), ct) for o, ct in zip(outs, found, strict=True)]
    wanted = []
    for tensor in ins:
        if isinstance(tensor, Tensor) and not needs_grad(tensor):
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        wanted.append(_edge(tensor))
    keep = create_graph if retain_graph is None else retain_graph
    arrived = run_backward(roots, keep=keep, create_graph=create_graph, wanted=wanted)
    results: list[Any] = []
    for k, (tensor, ct) in enumerate(zip(ins, arrived, strict=True)):
        if ct is None and materialize_grads:
            zeros = wrap(np.zeros_like(tensor._a))
            zeros._requires_grad = create_graph
            results.append(zeros)
        elif ct is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {k} appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior."
            )
        else:
            if isinstance(ct, np.ndarray) and not ct.flags.writeable:
                ct = ct.copy()
            results.append(as_tensor(ct))
    return tuple(results)


# ---- tensors and the tape


@method("backward")
def tensor_backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of this tensor into the leaves; see `autograd.backward`."""
    _check_flags(retain_graph, create_graph)
    node = self._node
    if gradient is None and inputs is None and node is not None and self._base is None and not create_graph:
        a = self._a
        if a.size == 1 and a.dtype.kind == "f" and not mode.unusual:  # a loss
            run_backward([((node, self._nr), np.ones(a.shape, a.dtype))], keep=bool(retain_graph), create_graph=False)
            return
    backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)


def _requires_grad(self: Tensor) -> bool:
    return asks_for_grad(self)


def _assign_requires_grad(self: Tensor, value: bool) -> None:
    if not isinstance(value, bool):
        raise RuntimeError("requires_grad must be a bool")
    needs_grad(self)
    if value and self._node is not None:
        raise RuntimeError("you can only change requires_grad flags of leaf variables.")
    _set_requires_grad(self, value)


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if not value and self._node is not None:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
            "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        )
    if value and not is_differentiable(self._a.dtype):
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if value and self._inference and not mode.inference:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    if self._node is None:
        self._requires_grad = value


@method("requires_grad_")
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set whether gradients of this leaf are wanted; returns the tensor."""
    require_bool(requires_grad)
    _set_requires_grad(self, requires_grad)
    return self


def _grad(self: Tensor) -> Tensor | None:
    if self._grad is None and self._node is not None and not self._retained:
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
            "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make "
            "sure you access the leaf Tensor instead.",
            UserWarning,
            stacklevel=2,
        )
    return self._grad


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._a.dtype != self._a.dtype:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{dtypes.scalar_name(value._a.dtype)}' to a tensor with "
                f"dtype '{dtypes.scalar_name(self._a.dtype)}'. Please ensure that the gradient and the tensor have the "
                "same dtype"
            )
        if value._a.shape != self._a.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value._a.shape)}' to a tensor of size "
                f"'{list(self._a.shape)}'. Please ensure that the gradient and the tensor are the same size"
            )
    self._grad = value


def _grad_fn(self: Tensor) -> Any:
    needs_grad(self)
    return self._node


def _is_leaf(self: Tensor) -> bool:
    needs_grad(self)
    return self._node is None


class ShapedNode(Node):
    """A result that got another shape where nothing was recorded: its cotangent must have the old one, as in torch, or
    one to which that is broadcast.
    """

    __slots__ = ("shape",)

    shape: tuple[int, ...]

    def apply(self, cts: list[Any], create_graph: bool, keep: bool) -> Sequence[Any]:
        return [None if cts[0] is None else brought_to(self.shape, cts[0], self.title, create_graph)]


def expect_shape(tensor: Tensor) -> None:
    """Have cotangents that arrive at a tensor brought to its shape: it is about to get another one, unrecorded."""
    before: Any = tensor._node
    if before is None:
        expect_leaf_shape(tensor)
        return
    node = node_class(before.title, ShapedNode)(((before, tensor._nr),))
    node.shape, node.code, node.instruction = tensor._a.shape, before.code, before.instruction
    tensor._node, tensor._nr = node, 0


def _data(self: Tensor) -> Tensor:
    made = wrap(self._a)
    made._storage = type(self._storage)()
    return made


def _set_data(self: Tensor, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type_name(value)}")
    if asks_for_grad(self) and not is_differentiable(value._a.dtype):
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    if value._a.shape != self._a.shape and needs_grad(self):
        expect_shape(self)
    before = self._storage
    before.left = [*(before.left or ()), (self._a, self)]
    self._a, self._storage = value._a, type(before)()
    self._storage.version, self._storage.writer = before.version, before.writer


setattr(Tensor, "requires_grad", property(_requires_grad, _assign_requires_grad))  # noqa: B010
setattr(Tensor, "grad", property(_grad, _set_grad, lambda self: _set_grad(self, None)))  # noqa: B010
setattr(Tensor, "grad_fn", property(_grad_fn))  # noqa: B010
setattr(Tensor, "is_leaf", property(_is_leaf))  # noqa: B010
setattr(Tensor, "retains_grad", property(lambda self: self._retained))  # noqa: B010
setattr(Tensor, "data", property(_data, _set_data))  # noqa: B010
setattr(Tensor, "output_nr", property(lambda self: self._nr))  # noqa: B010
setattr(Tensor, "_is_view", lambda self: self._base is not None)  # noqa: B010


@public()
@method("detach")
def detach(input: Tensor) -> Tensor:
    """Return a tensor over the same memory through which no gradient goes."""
    made = wrap(input._a)
    made._storage = input._storage
    made._inference = input._inference
    shield_result(input)
    return made


@method("detach_")
def detach_(self: Tensor) -> Tensor:
    """Cut the tensor from its graph."""
    if self._base is not None and self._origin == "multiple":
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    if self._base is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, "
            "and hence detach_() cannot be called on these gradients."
        )
    if self._node is not None:
        self.__dict__["_detached_from"] = self._node, self._nr  # for views that were written and not asked since
    self._node, self._nr, self._requires_grad, self._retained = None, 0, False, False
    return self


@method("retain_grad")
def retain_grad(self: Tensor) -> None:
    """Keep `.grad` of a non-leaf in backward."""
    if not needs_grad(self):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._node is None or self._retained:
        return
    self._retained = True
    retain(self)


@method("register_hook")
def register_hook(self: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(gradient)` when the gradient of this tensor is known; what it returns replaces the gradient."""
    if not needs_grad(self):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._node is not None:
        return add_hook(self._node.tensor_hooks(self._nr), hook)
    if self._hooks is None:
        self._hooks = {}
    return add_hook(self._hooks, hook)


@method("register_post_accumulate_grad_hook")
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to `.grad` of this leaf."""
    if not needs_grad(self):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._node is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._after is None:
        self._after = {}
    return add_hook(self._after, hook)


@public()
@method("clone")
def clone(input: Tensor, *, memory_format: Any = None) -> Any:
    """Return a copy; gradients go through."""
    return apply_composition(IN_ROWS if memory_format == "torch.contiguous_format" else CLONE, (), [input])


@method("contiguous")
def contiguous(self: Tensor, memory_format: Any = None) -> Any:
    """Return the tensor in row-major order; itself if it is so."""
    return self if self._a.flags.c_contiguous else apply_composition(IN_ROWS, (), [self])


# ---- switches


class _Switch:
    """A grad mode: context manager and decorator, of generators too."""

    def _enter(self) -> Any:
        raise NotImplementedError

    def _leave(self, before: Any) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self.__dict__.setdefault("_stack", []).append(self._enter())
        return None

    def __exit__(self, *error: object) -> None:
        self._leave(self.__dict__["_stack"].pop())

    def clone(self) -> Any:
        """Return a new one of the same kind, for one call."""
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function):
            return _generator(function, self.clone)

        @functools.wraps(function)
        def inside(*args: Any, **keywords: Any) -> Any:
            with self.clone():
                return function(*args, **keywords)

        return inside


def _generator(function: Callable[..., Any], make: Callable[[], Any]) -> Callable[..., Any]:
    """Run the body of a generator inside the mode, and its caller outside."""

    @functools.wraps(function)
    def inside(*args: Any, **keywords: Any) -> Any:
        generator = function(*args, **keywords)
        step: Callable[..., Any] = generator.__next__
        sent: tuple[Any, ...] = ()
        while True:
            try:
                with make():
                    value = step(*sent)
            except StopIteration as stop:
                return stop.value
            try:
                received = yield value
            except GeneratorExit:
                with make():
                    generator.close()
                raise
            except BaseException as error:
                step, sent = generator.throw, (error,)
            else:
                step, sent = generator.send, (received,)

    return inside


def _switch_grad(on: bool) -> bool:
    """Switch recording on or off, and return what was in force; in inference mode nothing is recorded either way."""
    before = is_grad_enabled()
    if mode.inference:
        mode.grad_in_inference = on
    else:
        mode.grad = on
    return before


class no_grad(_Switch):
    """Record nothing."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = super().__new__(cls)
        return made if function is None else made(function)

    def _enter(self) -> Any:
        return _switch_grad(False)

    def _leave(self, before: Any) -> None:
        _switch_grad(before)


class enable_grad(no_grad):
    """Record again inside no_grad."""

    def _enter(self) -> Any:
        return _switch_grad(True)


class set_grad_enabled(_Switch):
    """Switch recording on or off: at once, and back when used as a context manager."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.on = mode
        self.before = _switch_grad(mode)

    def clone(self) -> Any:
        return type(self)(self.on)

    def _enter(self) -> Any:
        _switch_grad(self.on)
        return self.before

    def _leave(self, before: Any) -> None:
        _switch_grad(before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _switch_grad(self.before)
        return super().__call__(function)


class inference_mode(_Switch):
    """Record nothing, and make tensors that can never be recorded."""

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if callable(mode):
            made.on = True
            return made(mode)
        made.on = bool(mode)
        return made

    on = True

    def clone(self) -> Any:
        return type(self)(self.on)

    def _enter(self) -> Any:
        before = mode.grad, mode.inference, mode.grad_in_inference
        mode.grad, mode.inference, mode.grad_in_inference = not self.on, self.on, False
        return before

    def _leave(self, before: Any) -> None:
        mode.grad, mode.inference, mode.grad_in_inference = before


@public()
def is_grad_enabled() -> bool:
    """Return whether operations are recorded."""
    return bool(mode.grad_in_inference if mode.inference else mode.grad)


@public()
def is_inference_mode_enabled() -> bool:
    """Return whether inference mode is on."""
    return bool(mode.inference)


for _class in (no_grad, enable_grad, set_grad_enabled, inference_mode):
    public(_class.__name__)(_class)
