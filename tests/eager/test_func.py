"""torch.func over tensors: checked by hand; tests/peers compares it, and distributions, with torch."""

from __future__ import annotations

import pytest

from tests.eager.torch_like import torch

func = torch.func


def test_gradients_of_gradients_and_of_closures() -> None:
    x = torch.tensor(2.0)
    assert func.grad(func.grad(lambda t: t**3))(x).item() == 12.0
    assert not func.grad(lambda t: t**2)(x).requires_grad
    inner = func.grad(lambda t: func.grad(lambda s: s * s * t)(torch.tensor(3.0)))
    assert inner(x).item() == 6.0
    weight = torch.tensor(5.0, requires_grad=True)
    func.grad(lambda t: t * t * weight)(x).backward()
    assert weight.grad.item() == 4.0
    x.requires_grad_()
    func.grad(lambda t: t**3)(x).backward()
    assert x.grad.item() == 12.0


def test_structures_and_more_results() -> None:
    given = {"a": torch.tensor(2.0), "b": [torch.tensor(3.0)]}
    found, (value, more) = func.grad_and_value(lambda p: (p["a"] * p["b"][0], p["a"] + 1), has_aux=True)(given)
    assert (found["a"].item(), found["b"][0].item(), value.item(), more.item()) == (3.0, 2.0, 6.0, 3.0)
    first, second = func.grad(lambda a, b: a * b, argnums=(0, 1))(torch.tensor(2.0), torch.tensor(3.0))
    assert (first.item(), second.item()) == (3.0, 2.0)
    with pytest.raises(RuntimeError, match="to return a scalar Tensor, got tensor with 1 dims"):
        func.grad(lambda t: t)(torch.ones(2))


def test_products_and_jacobians() -> None:
    x = torch.tensor([1.0, 2.0])
    out, pull = func.vjp(lambda t: t * t, x)
    assert (out.tolist(), pull(torch.ones(2))[0].tolist()) == ([1.0, 4.0], [2.0, 4.0])
    assert func.jvp(lambda t: t * t, (x,), (torch.ones(2),))[1].tolist() == [2.0, 4.0]
    for jacobian in (func.jacrev, func.jacfwd):
        assert jacobian(lambda t: t * t)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert func.hessian(lambda t: (t**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_vmap() -> None:
    rows = torch.arange(6.0).reshape(2, 3)
    assert func.vmap(torch.dot, in_dims=(0, None))(rows, torch.ones(3)).tolist() == [3.0, 12.0]
    assert func.vmap(lambda x: x * 2, in_dims=1, out_dims=1)(rows).tolist() == (rows * 2).tolist()
    assert func.vmap(func.grad(lambda x: (x * x).sum()))(rows).tolist() == (rows * 2).tolist()
    first, second = func.vmap(lambda x: (x.sum(), {"twice": x * 2}))(rows)
    assert (first.tolist(), second["twice"].tolist()) == ([3.0, 12.0], (rows * 2).tolist())
    with pytest.raises(ValueError, match="vmap: Expected all tensors to have the same size in the mapped dimension"):
        func.vmap(torch.add)(rows, torch.ones(3))


def test_modules_with_other_parameters() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(2, 1))
    weights = {"0.weight": torch.ones(1, 2), "0.bias": torch.zeros(1)}
    x = torch.tensor([[1.0, 2.0]])
    assert func.functional_call(layer, weights, (x,)).item() == 3.0
    found = func.grad(lambda w: func.functional_call(layer, w, x).sum())(weights)
    assert found["0.weight"].tolist() == [[1.0, 2.0]]
    assert layer[0].weight.requires_grad
    with pytest.raises(KeyError, match="is no parameter or buffer"):
        func.functional_call(layer, {"weight": x}, x)


def test_samples_of_distributions() -> None:
    D = torch.distributions
    loc, scale = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
    normal = D.Normal(loc, scale)
    assert not normal.sample().requires_grad
    drawn = normal.rsample((1000,))
    drawn.sum().backward()
    assert loc.grad.tolist() == [1000.0] * 3
    assert scale.grad.allclose(drawn.detach().sum(0), atol=1e-2)
    assert abs(float(drawn.detach().std()) - 1) < 0.1
    assert set(D.Bernoulli(torch.tensor([0.5])).sample((50,)).flatten().tolist()) == {0.0, 1.0}
    shares = D.Categorical(torch.tensor([[0.2, 0.8], [1.0, 0.0]])).sample((2000,)).double().mean(0)
    assert abs(float(shares[0]) - 0.8) < 0.05 and float(shares[1]) == 0.0
    inside = D.Uniform(torch.tensor(2.0), 3.0).sample((100,))
    assert inside.min() >= 2 and inside.max() < 3
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    with pytest.raises(ValueError, match=r"Expected parameter scale \(Tensor of shape"):
        D.Normal(0.0, -1.0)
    with pytest.raises(NotImplementedError, match="has no samples with gradients"):
        D.Bernoulli(0.5).rsample()


def test_samples_of_shares_and_vectors() -> None:
    D = torch.distributions
    concentration = torch.tensor([2.0, 1.0, 1.0])
    shares = D.Dirichlet(concentration).sample((4000,))
    assert shares.sum(-1).allclose(torch.ones(4000)) and shares.mean(0).allclose(concentration / 4, atol=0.02)
    assert shares.var(0).allclose(D.Dirichlet(concentration).variance, atol=0.005)
    tiny = D.Beta(torch.tensor(1e-3), torch.tensor(1e-3)).sample((500,))
    assert not tiny.isnan().any() and abs(float((tiny > 0.5).float().mean()) - 0.5) < 0.1
    root = torch.tensor([[1.0, 0.0], [0.5, 2.0]], requires_grad=True)
    drawn = D.MultivariateNormal(torch.tensor([1.0, -1.0]), scale_tril=root).rsample((5000,))
    assert drawn.mean(0).allclose(torch.tensor([1.0, -1.0]), atol=0.1)
    assert drawn.T.cov().allclose(root @ root.T, atol=0.3)
    drawn.sum().backward()
    assert root.grad is not None and not root.grad.isnan().any()
