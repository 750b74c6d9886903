"""Large arrays take other paths than small ones: the results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.eager.torch_like import torch

F = torch.nn.functional
ACTIVATIONS = (
    "leaky_relu", "elu", "selu", "celu", "hardtanh", "relu6", "silu", "mish", "hardswish", "hardsigmoid", "relu",
    "gelu", "softplus", "hardshrink", "softshrink", "logsigmoid",
)  # fmt: skip


def gradient(apply: Any, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a result, and the gradient of its weighted sum."""
    x = torch.tensor(array, requires_grad=True)
    out = apply(x)
    out.backward(torch.tensor(np.cos(np.arange(out.numel())).reshape(out.shape).astype(array.dtype)))
    return out.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, dtype: type, rng: np.random.Generator) -> None:
    array = rng.normal(scale=2.0, size=8192).astype(dtype)
    array[:6] = 0.0, -0.0, np.inf, -np.inf, np.nan, -3.0
    values, slopes = gradient(getattr(F, name), array)
    weights = np.cos(np.arange(8192)).astype(dtype)
    for start in (0, 4000, 8100):
        x = torch.tensor(array[start : start + 60], requires_grad=True)
        out = getattr(F, name)(x)
        out.backward(torch.tensor(weights[start : start + 60]))
        close = dict(rtol=8 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps)
        np.testing.assert_allclose(values[start : start + 60], out.detach().numpy(), **close)
        np.testing.assert_allclose(slopes[start : start + 60], x.grad.numpy(), **close)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_topk(largest: bool, dim: int, rng: np.random.Generator) -> None:
    array = rng.permutation(40 * 50).reshape(40, 50).astype(np.float64)
    x = torch.tensor(array, requires_grad=True)
    values, places = x.topk(4, dim, largest)
    expected = np.take(np.sort(array, dim), np.arange(4), dim)
    if largest:
        expected = np.take(np.flip(np.sort(array, dim), dim), np.arange(4), dim)
    np.testing.assert_array_equal(values.detach().numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(array, places.numpy(), dim), expected)
    values.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.isin(array, expected).astype(float) * (x.grad.numpy() > 0))
    assert x.grad.sum() == values.numel()


def test_topk_takes_nan_for_the_greatest(rng: np.random.Generator) -> None:
    array = rng.normal(size=100)
    array[7] = np.nan
    assert torch.tensor(array).topk(3).indices.tolist()[0] == 7
    assert 7 not in torch.tensor(array).topk(3, largest=False).indices.tolist()


def test_rows_of_an_embedding(rng: np.random.Generator) -> None:
    places = rng.integers(0, 30, (20, 15))
    weight = torch.tensor(rng.normal(size=(30, 32)), requires_grad=True)
    out = F.embedding(torch.tensor(places), weight)
    cotangent = rng.normal(size=(20, 15, 32))
    out.backward(torch.tensor(cotangent))
    expected = np.zeros((30, 32))
    np.add.at(expected, places, cotangent)
    np.testing.assert_allclose(weight.grad.numpy(), expected)
    assert "add_rows(" in out.grad_fn.source()


def test_products_of_stacks_are_products_in_the_text() -> None:
    x = torch.ones(3, 4, 5, requires_grad=True)
    out = x @ torch.ones(3, 5, 2, requires_grad=True)
    assert "einsum" not in out.grad_fn.source()
