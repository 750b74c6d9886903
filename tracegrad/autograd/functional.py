"""Products with Jacobians and Hessians, and these themselves, of functions of tensors.

Reads functions of tensors; gives tensors. Previous: graph.py; next: forward_ad.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.runtime.gradients import enable_grad, grad
from tracegrad.runtime.shaping import reshape, stack
from tracegrad.runtime.tape import needs_grad
from tracegrad.runtime.tensor import Tensor, wrap

Function = Callable[..., Any]


#: what strict mode refuses, of input or entry k
_INDEPENDENT = (
    "The output of the user-provided function is independent of input {k}. This is not allowed in strict mode."
)
_CONSTANT_JACOBIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {k} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example)."
)
_CONSTANT = (
    "The {what} of the user-provided function is independent of input {k}. This is not allowed in strict mode when "
    "create_graph=True."
)


def _tensors(value: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Return whether a value is a tuple, and the tensors in it.

    Raises:
        TypeError: there is something else.
    """
    many = isinstance(value, tuple)
    given = value if many else (value,)
    for k, x in enumerate(given):
        if not isinstance(x, Tensor):
            where = f"the value at index {k}" if many else f"the given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but {where} has type "
                f"{type(x)}."
            )
    return many, given


def _prepared(inputs: Any, create_graph: bool, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Return inputs that require grad: views of the given ones with create_graph, else separate leaves."""
    many, given = _tensors(inputs, "inputs", name)
    return many, tuple(x.view_as(x) if create_graph and needs_grad(x) else x.detach().requires_grad_() for x in given)


def _outputs(func: Function, inputs: Sequence[Tensor], strict: bool, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    many, outputs = _tensors(func(*inputs), "outputs of the user-provided function", name)
    for k, y in enumerate(outputs):
        if strict and not needs_grad(y):
            raise RuntimeError(
                f"Output {k} of the user-provided function does not require gradients. The outputs must be computed in "
                "a differentiable manner from the input when running in strict mode."
            )
    return many, outputs


def _gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cts: Sequence[Any],
    create_graph: bool,
    missing: str | None = None,
    constant: str | None = None,
) -> list[Tensor]:
    """Return gradients, zeros where there are none.

    Args:
        missing: strict mode's error where there is none for input {k}.
        constant: its error where the gradient hangs on nothing.

    Raises:
        RuntimeError: one of them.
    """
    pairs = [(y, ct) for y, ct in zip(outputs, cts, strict=True) if needs_grad(y)]
    found: Sequence[Any] = [None] * len(inputs)
    if pairs:
        found = grad([y for y, _ in pairs], inputs, [ct for _, ct in pairs], True, create_graph, allow_unused=True)
    for k, ct in enumerate(found):
        for error, is_so in ((missing, ct is None), (constant, ct is not None and not needs_grad(ct))):
            if error is not None and is_so:
                raise RuntimeError(error.format(k=k))
    return [wrap(np.zeros_like(x._a)) if ct is None else ct for x, ct in zip(inputs, found, strict=True)]


def _finish(value: Any, create_graph: bool) -> Any:
    if create_graph:
        return value
    if isinstance(value, tuple | list):
        return tuple(_finish(v, False) for v in value)
    return value.detach()


_INPUT = "input to the user-provided function is"


def _vectors(v: Any, like: Sequence[Tensor], many: bool, whose: str, name: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {whose} a single Tensor with a single element.")
        return (wrap(np.ones_like(like[0]._a)),)
    _, given = _tensors(v, "v", name)
    if len(given) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}."
            if many
            else "The given v should contain a single Tensor."
        )
    for k, (a, b) in enumerate(zip(given, like, strict=True)):
        if a.shape != b.shape:
            entry = f"Entry {k} in v" if many else "v"
            raise RuntimeError(f"{entry} has invalid size: should be {b.shape!r} but got {a.shape!r}.")
    return given


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the outputs, and the product of v with the Jacobian."""
    with enable_grad():
        many, ins = _prepared(inputs, create_graph, "vjp")
        many_out, outs = _outputs(func, ins, strict, "vjp")
        vectors = _vectors(v, outs, many_out, "user-provided function returns", "vjp")
        constant = _CONSTANT.format(what="jacobian", k="{k}") if strict and create_graph else None
        cts = _gradients(outs, ins, vectors, create_graph, _INDEPENDENT if strict else None, constant)
    return _finish(_single(outs, many_out), create_graph), _finish(_single(cts, many), create_graph)


def _single(values: Sequence[Any], many: bool) -> Any:
    return tuple(values) if many else values[0]


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the outputs, and the product of the Jacobian with v."""
    missing = constant = unused = flat = None
    if strict:
        missing = _INDEPENDENT
        constant = (
            "The gradient with respect to input {k} is independent of the inputs of the user-provided function. This "
            "is not allowed in strict mode."
        )
        unused = (
            "The gradient with respect to the input is independent of entry {k} in the grad_outputs when using the "
            "double backward trick to compute forward mode gradients. This is not allowed in strict mode."
        )
        flat = _CONSTANT.format(what="jacobian", k="{k}") if create_graph else None
    with enable_grad():
        many, ins = _prepared(inputs, create_graph, "jvp")
        many_out, outs = _outputs(func, ins, strict, "jvp")
        vectors = _vectors(v, ins, many, _INPUT, "jvp")
        # the VJP is linear in its cotangent, so its own VJP is the JVP
        cts = tuple(wrap(np.zeros_like(y._a)).requires_grad_() for y in outs)
        pulled = _gradients(outs, ins, cts, True, missing, constant)
        tangents = _gradients(pulled, cts, vectors, create_graph, unused, flat)
    return _finish(_single(outs, many_out), create_graph), _finish(_single(tangents, many_out), create_graph)


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian: per output (if several) and input (if several) a tensor of both shapes joined.

    `strategy` changes nothing but what is allowed, as in torch.
    """
    _check_strategy(strategy, create_graph, strict, vectorize)
    with enable_grad():
        many, ins = _prepared(inputs, create_graph, "jacobian")
        many_out, outs = _outputs(func, ins, strict, "jacobian")
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`."
            )
        rows = []
        for number, y in enumerate(outs):
            missing = constant = None
            if strict:
                missing = (
                    f"Output {number} of the user-provided function is independent of input {{k}}. This is not allowed "
                    "in strict mode."
                )
                constant = _CONSTANT.format(what="jacobian", k=number) if create_graph else None
            columns: list[list[Tensor]] = [[] for _ in ins]
            flat = reshape(y, (-1,))
            for k in range(flat.numel()):
                found = _gradients([flat[k]], ins, [None], create_graph, missing, constant)
                for column, ct in zip(columns, found, strict=True):
                    column.append(ct)
            rows.append(
                _single(
                    [
                        reshape(stack(column), (*y.shape, *x.shape))
                        if column
                        else wrap(np.zeros((*y.shape, *x.shape), x._a.dtype))
                        for column, x in zip(columns, ins, strict=True)
                    ],
                    many,
                )
            )
    return _finish(_single(rows, many_out), create_graph)


def _check_strategy(strategy: str, create_graph: bool, strict: bool, vectorize: bool) -> None:
    """Check the options of a Jacobian.

    Raises:
        AssertionError: there is no such strategy.
        NotImplementedError, RuntimeError: torch's forward mode does not have it.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "reverse-mode":
        return
    name = "torch.autograd.functional.jacobian"
    if create_graph:
        raise NotImplementedError(
            f'{name}: `create_graph=True` and `strategy="forward-mode"` are not supported together (yet). Please '
            'either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(
            f'{name}: `strict=True` and `strategy="forward-mode"` are not supported together (yet). Please either set '
            '`strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )


def _scalar(func: Function, ins: Sequence[Tensor], strict: bool, name: str) -> Tensor:
    many, outs = _outputs(func, ins, strict, name)
    if many:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outs[0]


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a scalar function."""
    many, _ = _tensors(inputs, "inputs", "hessian")
    refused = _CONSTANT_JACOBIAN if strict else None

    def gradient(*ins: Tensor) -> Any:
        return _single(_gradients([_scalar(func, ins, strict, "hessian")], ins, [None], True, refused, refused), many)

    _check_strategy(outer_jacobian_strategy, create_graph, strict, vectorize)
    # as in torch, the result of forward mode hangs on the graph of the gradient
    return jacobian(gradient, inputs, create_graph or outer_jacobian_strategy == "forward-mode", strict, vectorize)


def _hessian_product(
    name: str, unused: str, func: Function, inputs: Any, v: Any, create_graph: bool, strict: bool
) -> Any:
    missing = changeless = flat = None
    if strict:
        missing, changeless = _INDEPENDENT, _CONSTANT_JACOBIAN
        flat = _CONSTANT.format(what="hessian", k="{k}") if create_graph else None
    with enable_grad():
        many, ins = _prepared(inputs, create_graph, name)
        vectors = _vectors(v, ins, many, _INPUT, name)
        y = _scalar(func, ins, strict, name)
        first = _gradients([y], ins, [None], True, missing, changeless)
        products = _gradients(first, ins, vectors, create_graph, unused if strict else None, flat)
    return _finish(y, create_graph), _finish(_single(products, many), create_graph)


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the value of a scalar function, and the product of v with its Hessian."""
    unused = (
        "The jacobian of the user-provided function is independent of input {k}. This is not allowed in strict mode."
    )
    return _hessian_product("vhp", unused, func, inputs, v, create_graph, strict)


def hvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the value of a scalar function, and the product of its Hessian with v: the same, as it is symmetric."""
    unused = (
        "The hessian of the user-provided function is independent of entry {k} in the grad_jacobian. This is not "
        "allowed in strict mode as it prevents from using the double backward trick to replace forward mode AD."
    )
    return _hessian_product("hvp", unused, func, inputs, v, create_graph, strict)
