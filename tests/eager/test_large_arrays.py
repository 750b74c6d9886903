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


#: by torch and by NumPy, from an array and a mask
CHOICES = {
    "where": (lambda x, there: torch.where(there, x, x * 2), lambda x, there: np.where(there, x, x * 2)),
    "where_number": (lambda x, there: torch.where(there, x, 0), lambda x, there: np.where(there, x, 0)),
    "masked_fill": (lambda x, there: x.masked_fill(there, 1), lambda x, there: np.where(there, 1, x)),
    "clamp": (lambda x, there: x.clamp(0, 3), lambda x, there: np.clip(x, 0, 3)),
    "relu": (lambda x, there: F.relu(x), lambda x, there: np.maximum(x, 0)),
    "triu": (lambda x, there: torch.triu(x.reshape(100, 100)), lambda x, there: np.triu(x.reshape(100, 100))),
    "maximum": (lambda x, there: torch.maximum(x, -x), lambda x, there: np.maximum(x, -x)),
}


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_choices_of_every_dtype(dtype: str, name: str, rng: np.random.Generator) -> None:
    array = rng.integers(0 if dtype == "uint8" else -5, 6, size=10000).astype(dtype)
    there = array % 3 == 1
    by_torch, by_numpy = CHOICES[name]
    found = by_torch(torch.tensor(array), torch.tensor(there)).numpy()
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, by_numpy(array, there))


def test_pooling_and_losses_of_a_large_batch() -> None:
    x = torch.arange(64 * 28 * 28, dtype=torch.float32).reshape(64, 1, 28, 28)
    pooled, places = F.max_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(pooled.numpy(), x.numpy()[:, :, 1::2, 1::2])
    np.testing.assert_array_equal(places.numpy()[0], np.arange(28 * 28).reshape(1, 28, 28)[:, 1::2, 1::2])
    scores = torch.zeros(5000, 10, requires_grad=True)
    labels = torch.arange(5000) % 10
    F.cross_entropy(scores, labels, ignore_index=3).backward()
    expected = (np.full((5000, 10), 0.1) - np.eye(10)[labels.numpy()]) * (labels.numpy() != 3)[:, None] / 4500
    np.testing.assert_allclose(scores.grad.numpy(), expected, rtol=1e-5)
    assert F.nll_loss(scores, labels).item() == 0.0
