"""Distributions: what they are given by, which values there are, expanded batches, and divergences."""

from __future__ import annotations

import math

import pytest

from tests.eager.torch_like import torch

D = torch.distributions
C = D.constraints
double = torch.float64

#: pairs with values between -40 and 60, in whole numbers for the second kind
PAIRS = (
    ("Normal(0.5, 1.5)", "Laplace(0.0, 2.0)"), ("Normal(0.5, 1.5)", "Gumbel(0.0, 2.0)"),
    ("Laplace(0.5, 1.5)", "Normal(0.0, 2.0)"), ("Laplace(0.5, 1.5)", "Laplace(-0.5, 1.0)"),
    ("Gumbel(0.5, 1.5)", "Normal(0.0, 2.0)"), ("Gumbel(0.5, 1.5)", "Gumbel(0.0, 2.0)"),
    ("Gamma(2.5, 1.5)", "Gamma(1.5, 1.0)"), ("Gamma(2.5, 1.5)", "Exponential(0.5)"),
    ("Gamma(2.5, 1.5)", "Gumbel(0.5, 2.0)"), ("Exponential(1.5)", "Gamma(1.0, 0.5)"),
    ("Exponential(1.5)", "Normal(0.5, 1.0)"), ("Exponential(1.5)", "Gumbel(0.5, 1.0)"),
    ("Beta(2.5, 3.0)", "Uniform(0.0, 1.0)"), ("Beta(2.5, 3.0)", "Gamma(1.5, 2.0)"),
    ("Beta(2.5, 3.0)", "Normal(0.5, 1.0)"), ("Uniform(0.25, 0.75)", "Beta(2.5, 3.0)"),
    ("Uniform(0.25, 0.75)", "Gumbel(0.5, 2.0)"), ("Uniform(0.25, 0.75)", "Gamma(2.5, 1.0)"),
    ("Chi2(3.0)", "Gamma(1.0, 0.5)"), ("HalfNormal(1.5)", "HalfNormal(2.0)"),
    ("LogNormal(0.5, 0.5)", "LogNormal(0.0, 1.0)"),
)  # fmt: skip


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_divergence_is_the_mean_of_the_ratio(first: str, second: str) -> None:
    p, q = (eval(f"D.{text}", {"D": D}) for text in (first, second))
    points = torch.linspace(-40.0, 60.0, 2_000_001, dtype=double)
    points = points[p.support.check(points) & q.support.check(points) & (points != 0) & (points != 1)]
    weights = p.log_prob(points)
    mean = (weights.exp() * (weights - q.log_prob(points))).sum() * 5e-5
    assert math.isclose(float(D.kl_divergence(p, q)), float(mean), rel_tol=2e-4)
    assert float(D.kl_divergence(p, p)) == 0.0


def test_divergence_of_counts() -> None:
    p, q = D.Binomial(4, torch.tensor(0.25, dtype=double)), D.Binomial(4, torch.tensor(0.5, dtype=double))
    counts = p.enumerate_support()
    mean = (p.log_prob(counts).exp() * (p.log_prob(counts) - q.log_prob(counts))).sum()
    assert math.isclose(float(D.kl_divergence(p, q)), float(mean), rel_tol=1e-9)
    assert float(D.kl_divergence(D.Binomial(5, 0.5), D.Binomial(4, 0.5))) == math.inf
    certain, even = torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5])
    assert float(D.kl_divergence(D.Categorical(even), D.Categorical(certain))) == math.inf
    assert D.kl_divergence(D.Bernoulli(even), D.Bernoulli(certain)).tolist() == [math.inf] * 2
    assert D.kl_divergence(D.Bernoulli(certain), D.Bernoulli(certain)).tolist() == [0.0, 0.0]
    assert float(D.kl_divergence(D.Normal(0.0, 1.0), D.Exponential(1.0))) == math.inf
    with pytest.raises(NotImplementedError, match="p type Binomial and q type Bernoulli"):
        D.kl_divergence(p, D.Bernoulli(0.5))


def test_divergences_of_own_classes() -> None:
    class Shifted(D.Normal):  # type: ignore[misc, name-defined]
        pass

    assert float(D.kl_divergence(Shifted(0.0, 1.0), D.Normal(0.0, 1.0))) == 0.0

    @D.register_kl(Shifted, D.Normal)
    def divergence(p, q):
        return "own"

    assert D.kl_divergence(Shifted(0.0, 1.0), D.Normal(0.0, 1.0)) == "own"
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        D.register_kl(int, Shifted)


def test_expanded_distributions_share_parameters() -> None:
    loc = torch.zeros(2, requires_grad=True)
    wide = D.Normal(loc, torch.ones(2)).expand((3, 2))
    assert wide.batch_shape == (3, 2) and wide.sample((4,)).shape == (4, 3, 2)
    (-wide.log_prob(torch.ones(3, 2))).sum().backward()
    assert loc.grad.tolist() == [-3.0, -3.0]
    rows = D.Independent(D.Gamma(torch.ones(4, 2), torch.ones(4, 2)), 1).expand((3, 4))
    assert (rows.batch_shape, rows.event_shape, rows.entropy().shape) == ((3, 4), (2,), (3, 4))
    factor = torch.tensor([[1.0, 0.0], [0.5, 2.0]])
    many = D.MultivariateNormal(torch.zeros(2), scale_tril=factor).expand([5])
    assert many.rsample().shape == (5, 2) and many.covariance_matrix.shape == (5, 2, 2)
    logits = D.Categorical(logits=torch.zeros(2, 3)).expand((4, 2))
    assert logits.probs.shape == (4, 2, 3) and logits.log_prob(torch.zeros(4, 2)).shape == (4, 2)
    with pytest.raises(RuntimeError, match=r"The expanded size of the tensor \(5\) must match"):
        wide.expand((5, 2))


def test_supports_and_what_is_required() -> None:
    assert D.Normal.support is C.real and repr(D.Normal.arg_constraints["scale"]) == "GreaterThan(lower_bound=0.0)"
    assert C.positive.check(torch.tensor([1.0, 0.0, -1.0])).tolist() == [True, False, False]
    assert D.Uniform(0.0, 2.0).support.check(torch.tensor([1.0, 3.0])).tolist() == [True, False]
    assert bool(C.lower_cholesky.check(torch.eye(3))) and not bool(C.positive_definite.check(-torch.eye(3)))
    assert C.square.check(torch.ones(4, 2, 3)).tolist() == [False] * 4
    assert repr(D.Independent(D.Normal(torch.zeros(2), 1.0), 1).support) == "IndependentConstraint(Real(), 1)"
    assert C.real_vector.check(torch.tensor([[0.0, math.nan], [1.0, 2.0]])).tolist() == [False, True]
    assert C.is_dependent(C.dependent) and not C.is_dependent(C.simplex)
    with pytest.raises(ValueError, match=r"Expected value.dim\(\) >= 1 but got 0"):
        C.real_vector.check(torch.tensor(1.0))
    with pytest.raises(ValueError, match="to be within the support"):
        D.Exponential(1.0).cdf(torch.tensor(-1.0))
    with pytest.raises(NotImplementedError):
        D.Dirichlet(torch.ones(2)).cdf(torch.ones(2))
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0


def test_checks_can_be_turned_off() -> None:
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale.item() == -1.0
    finally:
        D.Distribution.set_default_validate_args(True)


def test_distribution_functions_and_their_inverses() -> None:
    shares = torch.tensor([0.1, 0.5, 0.9], dtype=double)
    for made in (D.Uniform(1.0, 3.0), D.Exponential(2.0), D.Normal(1.0, 2.0), D.HalfNormal(2.0), D.Gumbel(0.0, 1.0)):
        assert made.cdf(made.icdf(shares)).allclose(shares)
    a = torch.tensor(2.0, dtype=double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: D.Gamma(a, a + 1).cdf(shares), a)
    assert D.Bernoulli(torch.tensor([0.2, 0.5, 0.8])).mode.nan_to_num(9.0).tolist() == [0.0, 9.0, 1.0]
    assert D.Categorical(torch.ones(2, 3)).mean.isnan().tolist() == [True, True]
    assert D.Binomial(2, torch.tensor([0.5, 0.5])).enumerate_support(expand=False).tolist() == [[0.0], [1.0], [2.0]]
