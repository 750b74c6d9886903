"""First lines of messages of autograd, and what is accepted there, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def overwritten_result(T: Any) -> None:
    y = T.ones(3, requires_grad=True).exp()
    y.add_(1)
    y.sum().backward()


def overwritten_leaf(T: Any) -> None:
    w = T.ones(3)
    y = T.ones(3, requires_grad=True) * w
    w.add_(1)
    y.sum().backward()


def once(T: Any) -> None:
    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx: Any, ct: Any) -> Any:
            return ct * 2

    x = T.ones(2, requires_grad=True)
    (slope,) = T.autograd.grad((Double.apply(x * x) ** 2).sum(), x, create_graph=True)
    slope.sum().backward()


def unpacked(T: Any) -> None:
    x = T.ones(2, requires_grad=True)
    with T.autograd.graph.saved_tensors_hooks(lambda t: 3, lambda t: t):
        y = x * x
    y.sum().backward()


def size_of_vector(T: Any) -> None:
    T.autograd.functional.vjp(lambda x: x * 2, T.ones(2, 2), T.ones(3))


def size_of_one_of_the_vectors(T: Any) -> None:
    T.autograd.functional.vjp(lambda x: (x * 2, x), T.ones(2, 2), (T.ones(2, 2), T.ones(3)))


def no_vector(T: Any) -> None:
    T.autograd.functional.jvp(lambda x: x * 2, T.ones(2))


def nothing_to_check(T: Any) -> None:
    T.autograd.gradcheck(lambda x: x, T.ones(2))


def size_of_tangent(T: Any) -> None:
    with T.autograd.forward_ad.dual_level():
        T.autograd.forward_ad.make_dual(T.ones(2, 2), T.ones(3))


def integer_tangent(T: Any) -> None:
    with T.autograd.forward_ad.dual_level():
        T.autograd.forward_ad.make_dual(T.ones(2), T.ones(2).long())


def too_few_cotangents(T: Any) -> None:
    y = T.ones(2, requires_grad=True) * 2
    T.autograd.grad([y, y], y, [T.ones(2)])


def error_of(call: Callable[[Any], None], T: Any) -> Exception | None:
    try:
        call(T)
    except Exception as error:
        return error
    return None


CALLS = (
    overwritten_result, overwritten_leaf, once, unpacked, size_of_vector, size_of_one_of_the_vectors, no_vector,
    nothing_to_check, size_of_tangent, integer_tangent, too_few_cotangents,
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=[call.__name__ for call in CALLS])
def test_first_line(call: Callable[[Any], None]) -> None:
    expected, found = error_of(call, torch), error_of(call, tg)
    assert expected is not None and found is not None
    assert isinstance(found, type(expected))
    assert str(found).splitlines()[0].partition(" Hint:")[0] == str(expected).splitlines()[0].partition(" Hint:")[0]


def more_cotangents_than_outputs(T: Any) -> Any:
    x = T.ones(2, requires_grad=True)
    return T.autograd.grad(x * 2, x, [T.ones(2), T.zeros(2)])[0].tolist()


def tangent_in_double(T: Any) -> Any:
    with T.autograd.forward_ad.dual_level():
        dual = T.autograd.forward_ad.make_dual(T.ones(2), T.full((2,), 3.0, dtype=T.float64))
        return T.autograd.forward_ad.unpack_dual(dual * dual).tangent.tolist()


def hessian_in_forward_mode(T: Any) -> Any:
    found = T.autograd.functional.hessian(
        lambda x: (x**3).sum(), T.ones(2), vectorize=True, outer_jacobian_strategy="forward-mode"
    )
    return found.requires_grad, found.tolist()


def text_of_a_module(T: Any) -> Any:
    return repr(T.nn.LocalResponseNorm(2, k=3.0))


ACCEPTED = (more_cotangents_than_outputs, tangent_in_double, hessian_in_forward_mode, text_of_a_module)


@pytest.mark.parametrize("call", ACCEPTED, ids=[call.__name__ for call in ACCEPTED])
def test_accepted(call: Callable[[Any], Any]) -> None:
    assert call(tg) == call(torch)
