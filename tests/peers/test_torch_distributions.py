"""Distributions against torch: supports, moments, distribution functions, expanded batches, and divergences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

#: expressions of distributions of batch shape [2]; D is torch.distributions, t makes parameters in float64
DISTRIBUTIONS: dict[str, str] = {
    "bernoulli": "D.Bernoulli(t([0.4, 0.7]))", "bernoulli_of_logits": "D.Bernoulli(logits=t([0.5, -1.0]))",
    "beta": "D.Beta(t([2.0, 3.0]), t([1.5, 0.5]))", "binomial": "D.Binomial(3, t([0.4, 0.7]))",
    "categorical": "D.Categorical(t([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]))",
    "categorical_of_logits": "D.Categorical(logits=t([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]))",
    "cauchy": "D.Cauchy(t([0.0, 1.0]), t([1.0, 2.0]))", "chi2": "D.Chi2(t([1.0, 3.0]))",
    "dirichlet": "D.Dirichlet(t([[1.5, 2.0], [3.0, 4.0]]))", "exponential": "D.Exponential(t([1.0, 2.5]))",
    "gamma": "D.Gamma(t([1.5, 2.0]), t([3.0, 0.5]))", "gumbel": "D.Gumbel(t([0.0, 1.0]), t([1.0, 2.0]))",
    "half_normal": "D.HalfNormal(t([1.0, 2.0]))",
    "independent": "D.Independent(D.Normal(t([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]), t([1.0, 2.0, 3.0])), 1)",
    "laplace": "D.Laplace(t([0.0, 1.0]), t([1.0, 2.0]))", "log_normal": "D.LogNormal(t([0.0, 1.0]), t([1.0, 0.5]))",
    "multivariate_normal": "D.MultivariateNormal(t([[0.0, 1.0], [2.0, 0.5]]), t([[2.0, 0.5], [0.5, 1.0]]))",
    "normal": "D.Normal(t([0.0, 1.0]), t([1.0, 2.0]))", "poisson": "D.Poisson(t([1.0, 2.5]))",
    "student": "D.StudentT(t([3.0, 5.0]))", "uniform": "D.Uniform(t([0.2, 0.25]), t([0.5, 0.75]))",
    "wide_uniform": "D.Uniform(t([-1.0, 0.0]), t([1.0, 3.0]))",
}  # fmt: skip
MORE = {
    "bernoulli": "D.Bernoulli(t([0.5, 0.1]))", "certain": "D.Bernoulli(t([0.0, 1.0]))",
    "beta": "D.Beta(t([1.0, 0.7]), t([2.5, 3.5]))",
    "binomial": "D.Binomial(2, t([0.5, 0.2]))", "categorical": "D.Categorical(t([[0.0, 0.5, 0.5], [0.1, 0.2, 0.7]]))",
    "normal": "D.Normal(t([0.5, -1.0]), t([2.0, 0.5]))", "gamma": "D.Gamma(t([0.5, 3.0]), t([1.0, 2.0]))",
    "gumbel": "D.Gumbel(t([0.5, -1.0]), t([2.0, 0.5]))", "laplace": "D.Laplace(t([0.5, -1.0]), t([2.0, 0.5]))",
    "independent": "D.Independent(D.Normal(t([0.0, 1.0, 2.0]), t([2.0, 2.0, 1.0])).expand((2, 3)), 1)",
}  # fmt: skip
ASKED = (
    "d.mean", "d.mode", "d.variance", "d.stddev", "d.entropy()", "d.perplexity()", "d.cdf(v)", "d.icdf(v)",
    "d.cdf(d.mean)", "d.enumerate_support()", "d.enumerate_support(expand=False)", "repr(d.support)",
    "repr(d.arg_constraints)", "d.support.check(v)", "d.support.is_discrete", "d.support.event_dim",
    "d.has_enumerate_support", "d.has_rsample", "T.tensor(d.sample((5,)).shape)", "d.expand((3, 2)).mean",
    "d.expand((3, 2)).variance", "d.expand(T.Size([4, 1, 2])).entropy()", "repr(d.expand((3, 2)))",
    "d.expand((3, 2)).log_prob(d.mode.nan_to_num())", "d.expand((3, 2)).expand((1, 3, 2)).cdf(v)", "d.expand((3,))",
    "d.expand((3, 2)).support.check(v)", "T.tensor(d.expand((3, 2)).sample((5,)).shape)",
)  # fmt: skip


def found_by(T: Any, text: str, **names: Any) -> Any:
    """Return what an expression gives, or the class of its error."""
    names = {"T": T, "D": T.distributions, "t": lambda x: T.tensor(x, dtype=T.float64, requires_grad=True), **names}
    try:
        made = eval(text, names)
    except Exception as error:
        return type(error).__name__
    return made.detach().numpy() if isinstance(made, T.Tensor) else made


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_same_as_torch(name: str) -> None:
    for asked in ASKED:
        found, expected = (
            found_by(T, asked, d=eval(DISTRIBUTIONS[name], names), v=T.tensor([0.3, 0.7], dtype=T.float64))
            for T in (tg, torch)
            for names in [{"D": T.distributions, "t": lambda x, T=T: T.tensor(x, dtype=T.float64)}]
        )
        if isinstance(expected, np.ndarray):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=asked)
            assert found.shape == expected.shape and found.dtype == expected.dtype, asked
        else:
            assert found == expected, asked


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_divergences(name: str) -> None:
    for other in (*DISTRIBUTIONS.values(), *MORE.values()):
        first = MORE.get(name, DISTRIBUTIONS[name]) if other == DISTRIBUTIONS[name] else DISTRIBUTIONS[name]
        text = f"D.kl_divergence({first}, {other})"
        found, expected = found_by(tg, text), found_by(torch, text)
        if isinstance(expected, str):
            assert found == expected, text
            continue
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12, err_msg=text)
        assert found.shape == expected.shape, text
        if np.isfinite(expected).all():
            for slope, expected_slope in zip(slopes_of(tg, text), slopes_of(torch, text), strict=True):
                np.testing.assert_allclose(slope, expected_slope, rtol=1e-6, atol=1e-9, err_msg=text)


def slopes_of(T: Any, text: str) -> list[Any]:
    """Return the gradients of the sum of what an expression gives, by each parameter made for it."""
    made: list[Any] = []

    def make(x: Any) -> Any:
        made.append(T.tensor(x, dtype=T.float64, requires_grad=True))
        return made[-1]

    found_by(T, f"({text}).sum().backward()", t=make)
    return [0.0 if x.grad is None else x.grad.numpy() for x in made]
