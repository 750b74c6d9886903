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


def _tuple(value: Any) -> tuple[bool, tuple[Any, ...]]:
    return (True, tuple(value)) if isinstance(value, tuple | list) else (False, (value,))


def _prepared(inputs: Any, create_graph: bool) -> tuple[bool, tuple[Tensor, ...]]:
    """Return inputs that require grad: views of the given ones with create_graph, else separate leaves."""
    many, given = _tuple(inputs)
    made = []
    for x in given:
        if not isinstance(x, Tensor):
            raise TypeError(f"The inputs must be either a Tensor or a tuple of Tensors, not {type(x).__name__}")
        made.append(x.view_as(x) if create_graph and needs_grad(x) else x.detach().requires_grad_())
    return many, tuple(made)


def _outputs(func: Function, inputs: Sequence[Tensor], strict: bool) -> tuple[bool, tuple[Tensor, ...]]:
    many, outputs = _tuple(func(*inputs))
    for k, y in enumerate(outputs):
        if not isinstance(y, Tensor):
            raise TypeError(f"The outputs of the function must be Tensors, not {type(y).__name__}")
        if strict and not needs_grad(y):
            raise RuntimeError(
                f"Output {k} of the user-provided function does not require gradients. The outputs must be computed in "
                "a differentiable manner from the input when running in strict mode."
            )
    return many, outputs


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cts: Sequence[Any], create_graph: bool, strict: bool = False
) -> list[Tensor]:
    pairs = [(y, ct) for y, ct in zip(outputs, cts, strict=True) if needs_grad(y)]
    if not pairs:
        return [wrap(np.zeros_like(x._a)) for x in inputs]
    found = grad([y for y, _ in pairs], inputs, [ct for _, ct in pairs], True, create_graph, allow_unused=True)
    for k, ct in enumerate(found):
        if strict and ct is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {k}. This is not allowed in strict "
                "mode."
            )
    return [wrap(np.zeros_like(x._a)) if ct is None else ct for x, ct in zip(inputs, found, strict=True)]


def _finish(value: Any, create_graph: bool) -> Any:
    if create_graph:
        return value
    if isinstance(value, tuple | list):
        return tuple(_finish(v, False) for v in value)
    return value.detach()


_INPUT = "input to the user-provided function is"


def _vectors(v: Any, like: Sequence[Tensor], whose: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {whose} a single Tensor with a single element.")
        return (wrap(np.ones_like(like[0]._a)),)
    many, given = _tuple(v)
    if len(given) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.")
    for k, (a, b) in enumerate(zip(given, like, strict=True)):
        if a.shape != b.shape:
            entry = f"Entry {k} in v" if many else "v"
            raise RuntimeError(f"{entry} has invalid size: should be {b.shape!r} but got {a.shape!r}.")
    return given


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the outputs, and the product of v with the Jacobian."""
    with enable_grad():
        many, ins = _prepared(inputs, create_graph)
        many_out, outs = _outputs(func, ins, strict)
        cts = _gradients(outs, ins, _vectors(v, outs, "user-provided function returns"), create_graph, strict)
    return _finish(_single(outs, many_out), create_graph), _finish(_single(cts, many), create_graph)


def _single(values: Sequence[Any], many: bool) -> Any:
    return tuple(values) if many else values[0]


def _jvp(func: Function, ins: tuple[Tensor, ...], v: Any, create_graph: bool, strict: bool) -> Any:
    many_out, outs = _outputs(func, ins, strict)
    vectors = _vectors(v, ins, _INPUT)
    # the VJP is linear in its cotangent, so its own VJP is the JVP
    cts = tuple(wrap(np.zeros_like(y._a)).requires_grad_() for y in outs)
    pulled = _gradients(outs, ins, cts, True, strict)
    return many_out, outs, _gradients(pulled, cts, vectors, create_graph)


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the outputs, and the product of the Jacobian with v."""
    with enable_grad():
        _, ins = _prepared(inputs, create_graph)
        many_out, outs, tangents = _jvp(func, ins, v, create_graph, strict)
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
        many, ins = _prepared(inputs, create_graph)
        many_out, outs = _outputs(func, ins, strict)
        rows = []
        for y in outs:
            columns: list[list[Tensor]] = [[] for _ in ins]
            flat = reshape(y, (-1,))
            for k in range(flat.numel()):
                for column, ct in zip(columns, _gradients([flat[k]], ins, [None], create_graph, strict), strict=True):
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


def _scalar(func: Function, ins: Sequence[Tensor], strict: bool) -> Tensor:
    many, outs = _outputs(func, ins, strict)
    if many or len(outs) != 1:
        raise RuntimeError("The function given to hessian should return a single Tensor")
    if outs[0].numel() != 1:
        raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
    value: Tensor = reshape(outs[0], ())
    return value


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a scalar function."""
    many, _ = _tuple(inputs)

    def gradient(*ins: Tensor) -> Any:
        return _single(_gradients([_scalar(func, ins, strict)], ins, [None], True, strict), many)

    _check_strategy(outer_jacobian_strategy, create_graph, strict, vectorize)
    # as in torch, the result of forward mode hangs on the graph of the gradient
    return jacobian(gradient, inputs, create_graph or outer_jacobian_strategy == "forward-mode", strict, vectorize)


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the value of a scalar function, and the product of v with its Hessian."""
    with enable_grad():
        many, ins = _prepared(inputs, create_graph)
        y = _scalar(func, ins, strict)
        first = _gradients([y], ins, [None], True, strict)
        products = _gradients(first, ins, _vectors(v, ins, _INPUT), create_graph, False)
    return _finish(y, create_graph), _finish(_single(products, many), create_graph)


def hvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Return the value of a scalar function, and the product of its Hessian with v: the same, as it is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)
