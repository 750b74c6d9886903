"""torch.distributions' names: random variables whose samples and log probabilities can be differentiated.

Files, in order: constraints.py, distribution.py, families.py, kl.py.
"""

from __future__ import annotations

from tracegrad.distributions import constraints, kl
from tracegrad.distributions.distribution import Distribution
from tracegrad.distributions.families import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Cauchy,
    Chi2,
    Dirichlet,
    Exponential,
    Gamma,
    Gumbel,
    HalfNormal,
    Independent,
    Laplace,
    LogNormal,
    MultivariateNormal,
    Normal,
    Poisson,
    StudentT,
    Uniform,
)
from tracegrad.distributions.kl import kl_divergence, register_kl

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "Dirichlet", "Distribution", "Exponential",
    "Gamma", "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal", "MultivariateNormal", "Normal", "Poisson",
    "StudentT", "Uniform", "constraints", "kl", "kl_divergence", "register_kl",
]  # fmt: skip
