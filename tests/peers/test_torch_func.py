"""Transforms of functions of tensors, and distributions, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")


def transforms(T: Any) -> list[Any]:
    x = T.tensor([0.3, 1.2, -0.5], dtype=T.float64)
    w = T.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=T.float64)
    ones = T.ones(3, dtype=T.float64)

    def f(x: Any) -> Any:
        return (x.sin() * x).sum()

    def g(x: Any) -> Any:
        return w @ x.exp()

    F = T.func
    out, pull = F.vjp(g, x)
    return [
        F.grad(f)(x), F.grad(F.grad(lambda t: t**3))(x[1]), F.jacrev(g)(x), F.jacfwd(g)(x), F.hessian(f)(x), out,
        *pull(ones[:2]), *F.jvp(g, (x,), (ones,)), F.vmap(T.dot, in_dims=(0, None))(w, x), F.vmap(F.grad(f))(w),
        F.vmap(lambda a: a * 2, in_dims=1, out_dims=1)(w),
        F.grad_and_value(lambda x: (f(x), x * 2), has_aux=True)(x)[1][1],
        *F.jacrev(lambda a, b: (a * b, a.sum()), argnums=(0, 1))(x, x + 1)[0],
        F.jacrev(g, chunk_size=1)(x), F.jacrev(lambda x: (g(x), x), has_aux=True, chunk_size=5)(x)[0],
        F.jacfwd(g, randomness="same")(x), F.vmap(f, chunk_size=1)(w),
        F.grad(lambda x: F.grad(lambda y: (x * y * y).sum())(ones).sum())(x), F.vmap(F.jacrev(g))(w),
    ]  # fmt: skip


def distributions(T: Any) -> list[Any]:
    D = T.distributions
    x = T.tensor([0.3, 1.2, -0.5], dtype=T.float64, requires_grad=True)
    w = T.tensor([[1.0, 2, 3], [4, 5, 7]], dtype=T.float64, requires_grad=True)
    bits = T.tensor([0.0, 1, 1], dtype=T.float64)
    found = []
    for made, value in (
        (D.Normal(x, x.abs() + 1), x.detach() + 0.1), (D.Bernoulli(T.sigmoid(x)), bits), (D.Bernoulli(logits=x), bits),
        (D.Categorical(T.softmax(w, 1)), T.tensor([0, 2])), (D.Categorical(logits=w), T.tensor([[0, 2], [1, 1]])),
        (D.Categorical(w), T.tensor(1)), (D.Uniform(x, x + 2), x.detach() + 0.5), (D.Exponential(x.exp()), bits),
    ):  # fmt: skip
        found += [made.log_prob(value), made.entropy(), T.tensor(list(made.sample((5,)).shape))]
        found += T.autograd.grad(made.log_prob(value).sum() + made.entropy().sum(), (x, w), allow_unused=True)
    found += [
        D.kl_divergence(D.Normal(x, 1.0 + x.abs()), D.Normal(0.0, 1.0)), D.Normal(x, 2.0).cdf(bits),
        D.kl_divergence(D.Categorical(logits=w), D.Categorical(logits=w.flip(0))), D.Normal(x, 2.0).variance,
        D.kl_divergence(D.Bernoulli(logits=x), D.Bernoulli(logits=-x)), D.Uniform(x, x + 2).stddev,
    ]  # fmt: skip
    return [t for t in found if t is not None]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
@pytest.mark.parametrize("compute", [transforms, distributions])
def test_same_as_torch(compute: Any) -> None:
    found, expected = compute(tg), compute(torch)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9)
        assert a.detach().numpy().shape == b.detach().numpy().shape
