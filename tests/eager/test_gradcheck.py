"""gradcheck finds wrong gradients, and passes right ones with each of its options."""

from __future__ import annotations

from typing import Any

import pytest

from tests.eager.torch_like import torch
from tests.peers.operations import ALL

gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck


def leaf(*shape: int, dtype: Any = None) -> Any:
    return torch.rand(*shape, dtype=dtype or torch.float64).add_(0.2).requires_grad_()


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2.1


def test_wrong_gradient() -> None:
    with pytest.raises(torch.autograd.GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, (leaf(3),))
    assert gradcheck(Wrong.apply, (leaf(3),), raise_exception=False) is False
    with pytest.raises(torch.autograd.GradcheckError):
        gradcheck(Wrong.apply, (leaf(3),), fast_mode=True)


def test_options() -> None:
    def f(a: Any, b: Any) -> Any:
        return (a @ b).tanh(), a.sum(0).log()

    a, b = leaf(2, 3), leaf(3, 2)
    assert gradcheck(f, (a, b), check_forward_ad=True, check_batched_grad=True, check_grad_dtypes=True)
    assert gradcheck(f, (a, b), fast_mode=True)
    assert gradgradcheck(f, (a, b), gen_non_contig_grad_outputs=True)
    assert gradgradcheck(f, (a, b), check_fwd_over_rev=True)
    z = leaf(3, dtype=torch.cdouble)
    assert gradcheck(lambda z: (z * z.exp()).abs() + z.real, (z,), check_forward_ad=True)
    assert gradgradcheck(lambda z: z * z.conj() * z, (z,))


def test_misuse() -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, (torch.ones(2),))
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda x: x * 2, (torch.ones(2, requires_grad=True),), atol=1e-1, rtol=1e-1)


@pytest.mark.parametrize(
    "case", [c for c in ALL if "detach" not in c.name][::3], ids=lambda c: c.name.replace(" ", "") + str(list(c.shapes))
)
def test_operations(case: Any) -> None:
    tensors = [torch.tensor(a, requires_grad=True) for a in case.arrays()]

    def f(*inputs: Any) -> Any:
        return case.call(torch, torch.nn.functional, *inputs)

    assert gradcheck(f, tensors, check_forward_ad=True, nondet_tol=1e-12)
