"""Forward mode: dual tensors, their levels, and what has tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.eager.torch_like import torch

fa = torch.autograd.forward_ad


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, dual: fa.make_dual(dual, x), "already has a forward gradient at the same level 0"),
        (lambda x, dual: fa.make_dual(dual[1:], x[1:]), "already has a forward gradient at the same level 0"),
        (lambda x, dual: fa.make_dual(x, dual), "Setting a forward grad that itself has a forward gradient"),
        (lambda x, dual: fa.make_dual(x, x, level=1), "Invalid level given to _make_dual"),
        (lambda x, dual: fa.make_dual(x, x, level=-1), "no level exists"),
        (lambda x, dual: fa.unpack_dual(dual, level=5), "Invalid level given to _fw_primal"),
        (lambda x, dual: fa.exit_dual_level(level=3), "was not the last one that was created"),
    ],
)
def test_levels_and_duals_that_do_not_fit(call: Callable[[Any, Any], Any], text: str) -> None:
    x = torch.ones(3)
    with fa.dual_level():
        dual = fa.make_dual(x, x * 2, level=0)
        with pytest.raises(RuntimeError, match=text):
            call(x, dual)
        assert fa.unpack_dual(dual, level=0).tangent.tolist() == [2.0] * 3
        assert fa.unpack_dual(dual, level=-1).tangent is None


def test_gradients_that_are_accumulated_in_forward_mode() -> None:
    p = torch.tensor([1.0, 2.0], requires_grad=True)
    with fa.dual_level():
        dual = fa.make_dual(p, torch.ones(2))
        (dual**3).sum().backward()
        kept = p.grad
        assert fa.unpack_dual(kept).tangent is None and kept.tolist() == [3.0, 12.0]
        (dual**2).sum().backward()
        assert p.grad is kept and kept.tolist() == [5.0, 16.0]
        assert fa.unpack_dual(kept).tangent.tolist() == [2.0, 2.0]
        (given,) = torch.autograd.grad((dual**3).sum(), p)
        assert fa.unpack_dual(given).tangent.tolist() == [6.0, 12.0]


_IN_PLACE = "abs cos erf exp expm1 log neg reciprocal rsqrt sigmoid sin sqrt square tan tanh".split()


@pytest.mark.parametrize("name", _IN_PLACE)
@pytest.mark.parametrize("inner", [lambda v: v * 1, lambda v: v * v], ids=["x", "square"])
def test_operations_in_place_have_the_derivatives_of_those_that_are_not(name: str, inner: Any) -> None:
    written, made = (lambda v, name=name: getattr(inner(v), name)() for name in (f"{name}_", name))
    x, t = torch.tensor([0.4, 0.7, 0.3], dtype=torch.float64), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    def derivatives(function: Any) -> list[Any]:
        found = [*torch.func.jvp(function, (x,), (t,)), torch.func.jacfwd(function)(x)]
        primal, moved = x.clone().requires_grad_(), t.clone().requires_grad_()
        with fa.dual_level():
            tangent = fa.unpack_dual(function(fa.make_dual(primal * 1, moved))).tangent
            found += [tangent, *torch.autograd.grad((tangent * t).sum(), (primal, moved), materialize_grads=True)]
        with fa.dual_level():
            (ct,) = torch.autograd.grad(function(fa.make_dual(primal * 1, t)).sum(), primal)
            moved_ct = fa.unpack_dual(ct).tangent
            return [*found, ct, torch.zeros(3, dtype=torch.float64) if moved_ct is None else moved_ct]

    for one, other in zip(derivatives(written), derivatives(made), strict=True):
        assert torch.allclose(one, other), (one, other)


@pytest.mark.parametrize("overwritten", ["operand", "result"])
def test_what_a_function_saved_can_be_overwritten_where_no_backward_pass_follows(overwritten: str) -> None:
    class Scaled(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0], output)
            ctx.save_for_forward(inputs[0], output)

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            x, y = ctx.saved_tensors
            return 2 * ct * y / x

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            x, y = ctx.saved_tensors
            return 2 * t * y / x

    def call(v: Any) -> Any:
        v = v * 1
        y = Scaled.apply(v)
        (v if overwritten == "operand" else y).mul_(3.0)
        return y

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0])
    expected = torch.tensor([2.0, 40.0]) * (3.0 if overwritten == "result" else 1.0)
    assert torch.func.jvp(call, (x,), (t,))[1].allclose(expected)
    assert torch.func.jacfwd(call)(x).allclose(torch.diag(expected / t))
    with fa.dual_level():
        assert fa.unpack_dual(call(fa.make_dual(x, t))).tangent.allclose(expected)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.func.vjp(call, x)[1](t)
