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
