"""Functions of tensors in compiled functions: the same compositions, applied to traced values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import CaptureError

F = tg.nn.functional
X = np.random.default_rng(0).normal(size=(3, 4))

FUNCTIONS = {
    "tanh": tg.tanh,
    "softmax": lambda x: tg.softmax(x, dim=1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "sums": lambda x: tg.sum(x, dim=0, keepdim=True) * tg.mean(x),
    "std": lambda x: tg.std(x, dim=1),
    "where": lambda x: tg.where(x > 0, x, 0.5),
    "clamp": lambda x: tg.clamp(x, -0.5, 0.5),
    "reshape": lambda x: tg.transpose(tg.reshape(x, (2, 6)), 0, 1),
    "cat": lambda x: tg.cat([x, 2 * x, tg.zeros_like(x)], 1),
    "stack": lambda x: tg.stack((x, tg.flip(x, (0,)))),
    "pieces": lambda x: tg.split(x, 2, 1)[1] * tg.chunk(x, 2, 1)[0],
    "unbind": lambda x: tg.unbind(x, 1)[2],
    "matmul": lambda x: tg.matmul(x, tg.t(x)),
    "einsum": lambda x: tg.einsum("ij,kj->ik", x, x),
    "numbers": lambda x: tg.add(x, 2, alpha=3) - tg.sub(1.0, x),
    "gelu": F.gelu,
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "cross_entropy": lambda x: F.cross_entropy(x, tg.softmax(-x, dim=1)),
    "linear": lambda x: F.linear(x, x),
    "det": lambda x: tg.linalg.det(tg.matmul(x, x.T)),
    "norm": lambda x: tg.linalg.vector_norm(x, dim=0),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_tensors(name: str, backend: str) -> None:
    function = FUNCTIONS[name]

    def weighted(x: Any, w: Any) -> Any:
        return (function(x) * w).sum()

    x = tg.tensor(X, requires_grad=True)
    out = function(x)
    w = np.cos(np.arange(out.numel())).reshape(tuple(out.shape))
    (expected,) = tg.autograd.grad((out * tg.tensor(w)).sum(), x)
    np.testing.assert_allclose(tg.function(function, backend=backend)(X), out.detach().numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tg.grad(weighted, backend=backend)(X, w), expected.numpy(), rtol=1e-10, atol=1e-12)


def test_arrays_made_inside_are_constants() -> None:
    def loss(x: Any) -> Any:
        return F.cross_entropy(x, np.array([0, 3, 1]))

    x = tg.tensor(X, requires_grad=True)
    expected = F.cross_entropy(x, tg.tensor([0, 3, 1]))
    expected.backward()
    value, gradient = tg.value_and_grad(loss)(X)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-12)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-12)


def test_arrays_from_outside_are_read_at_every_call() -> None:
    weight = np.ones(4)
    scaled = tg.function(lambda x: tg.mul(x, weight))
    np.testing.assert_array_equal(scaled(X), X)
    weight *= 2.0
    np.testing.assert_array_equal(scaled(X), 2.0 * X)


def test_in_loops_and_branches() -> None:
    def f(x: Any, n: int) -> Any:
        total = 0.0
        for k in range(n):
            if x[k] > 0:
                total = total + tg.tanh(x[k]) * x[k]
            else:
                total = total - tg.exp(x[k])
        return total

    x = np.array([0.5, -1.0, 2.0])
    slope = np.tanh(x) + x * (1 - np.tanh(x) ** 2)
    np.testing.assert_allclose(tg.grad(f)(x, 3), np.where(x > 0, slope, -np.exp(x)), rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: tg.nonzero(x), "nonzero with a traced value, whose elements it looks at"),
        (lambda x: tg.sort(x)[0], "sort with a traced value, whose elements it looks at"),
        (lambda x: F.cross_entropy(x, CLASSES), "cross_entropy with a traced value, whose elements"),
        (lambda x: tg.bernoulli(x), "bernoulli with a traced value"),
        (lambda x: F.dropout(x, 0.5), "dropout, which draws random numbers"),
        (lambda x: F.relu(x, inplace=True), "relu with a traced value, which it writes in place"),
        (lambda x: tg.mul(x, WEIGHT), "mul of a traced value and a tensor from outside"),
        (lambda x: LAYER(x), "a module, or another part of the eager layer"),
    ],
)
def test_what_cannot_be_traced_is_refused(function: Any, said: str) -> None:
    with pytest.raises(CaptureError, match=said):
        tg.function(function)(X)


CLASSES = np.array([0, 3, 1])
WEIGHT = tg.ones(4)
LAYER = tg.nn.Linear(4, 2)
