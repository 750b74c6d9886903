"""Expressions give the same values, dtypes and gradients as in torch, or an error of the same class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.peers.expressions import ALL

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")


def tensors_in(value: Any, T: Any) -> list[Any]:
    if isinstance(value, T.Tensor):
        return [value]
    return [t for item in value for t in tensors_in(item, T)] if isinstance(value, tuple | list) else []


def plain(tensor: Any) -> np.ndarray:
    detached = tensor.detach()
    return np.array((detached.float() if str(detached.dtype) == "torch.bfloat16" else detached).numpy())


def observe(T: Any, text: str) -> list[Any]:
    """Return what is compared: of each tensor in the result all that shows, and the gradients of their weighted sum."""
    leaves: list[Any] = []

    def leaf(values: Any, dtype: Any = None) -> Any:
        leaves.append(T.tensor(values, dtype=dtype or T.float32, requires_grad=True))
        return leaves[-1]

    def waves(*shape: int) -> Any:
        values = np.sin(np.arange(math.prod(shape)) * 1.7 + 0.3) * 1.1
        return leaf(values.tolist()).reshape(shape)

    names = {"T": T, "F": T.nn.functional, "G": leaf, "A": waves, "inf": math.inf, "nan": math.nan}
    try:
        value = eval(text, names)
        found = tensors_in(value, T)
        seen: list[Any] = [repr(value)] if not found else []
        for t in found:
            seen += [str(t.dtype), tuple(t.shape), t.requires_grad, plain(t)]
        total = 0
        for t in (t for t in found if t.requires_grad):
            weights = np.linspace(0.5, 1.7, max(t.numel(), 1))[: t.numel()].tolist()
            total = total + (t * T.tensor(weights, dtype=t.dtype).reshape(t.shape)).sum()
        if isinstance(total, T.Tensor):
            total.backward()
            seen += [None if t.grad is None else plain(t.grad) for t in leaves]
    except Exception as error:
        return [type(error).__name__]
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", ALL)
def test_expression(text: str) -> None:
    expected, found = observe(torch, text), observe(tg, text)
    assert len(expected) == len(found), (expected, found)
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6)
        else:
            assert type(a) is type(b) and a == b, (expected, found)
