"""Samples made of gamma variates have the gradients of samples of a fixed quantile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from tests.eager.torch_like import torch

D = torch.distributions


def leaf(value: float, count: int = 200) -> Any:
    return torch.full((count,), value, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("value", [0.02, 0.5, 1.0, 2.5, 30.0])
def test_gamma(value: float) -> None:
    torch.manual_seed(0)
    a, rate = leaf(value), leaf(2.0)
    drawn = D.Gamma(a, rate).rsample()
    slope, of_rate = torch.autograd.grad(drawn.sum(), (a, rate), create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), a)
    g = drawn.detach().numpy() * 2
    np.testing.assert_allclose(of_rate.detach().numpy(), -g / 4, rtol=1e-12)
    share, upper, step = special.gammainc(value, g), special.gammaincc(value, g), 1e-4 * value

    def moved(by: float) -> np.ndarray:
        below, above = special.gammaincinv(value + by, share), special.gammainccinv(value + by, upper)
        return np.where(share < 0.5, below, above) / 2

    kept = g > 1e-280
    central = (moved(step) - moved(-step)) / (2 * step)
    np.testing.assert_allclose(slope.detach().numpy()[kept], central[kept], rtol=2e-3)
    second = (moved(step * 30) - 2 * moved(0.0) + moved(-step * 30)) / (step * 30) ** 2
    scale = np.abs(second).max()
    np.testing.assert_allclose(bend.numpy()[kept] / scale, second[kept] / scale, atol=2e-2)


def test_gradients_where_variates_underflow() -> None:
    torch.manual_seed(0)
    a = leaf(1e-4)
    drawn = D.Gamma(a, leaf(1.0)).rsample()
    (slope,) = torch.autograd.grad(drawn.sum(), a)
    assert drawn.detach().numpy().min() < 1e-300
    assert np.isfinite(slope.numpy()).all()


def test_shares() -> None:
    torch.manual_seed(0)
    a = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    drawn = D.Dirichlet(a).rsample((5000,))
    np.testing.assert_allclose(drawn.sum(-1).detach().numpy(), 1.0)
    (slope,) = torch.autograd.grad(drawn[:, 0].mean(), a)
    np.testing.assert_allclose(slope.numpy(), [5 / 5.5**2, -0.5 / 5.5**2, -0.5 / 5.5**2], rtol=0.1)
    (slope,) = torch.autograd.grad(D.Beta(a[0], a[1]).rsample((5000,)).mean(), a)
    np.testing.assert_allclose(slope.numpy(), [2 / 2.5**2, -0.5 / 2.5**2, 0.0], rtol=0.1)


def test_student() -> None:
    torch.manual_seed(0)
    df = torch.tensor(6.0, dtype=torch.float64, requires_grad=True)
    drawn = D.StudentT(df).rsample((40000,))
    (slope,) = torch.autograd.grad(drawn.square().mean(), df)
    np.testing.assert_allclose(slope.numpy(), -2 / (6 - 2) ** 2, rtol=0.15)  # of the variance df / (df - 2)


def test_single_precision() -> None:
    a = torch.tensor([0.5, 3.0], requires_grad=True)
    for made in (D.Gamma(a, a), D.Chi2(a), D.StudentT(a), D.Dirichlet(a)):
        drawn = made.rsample((3,))
        drawn.sum().backward()
        assert drawn.dtype == a.grad.dtype == torch.float32
        assert not made.sample().requires_grad
