"""Kullback-Leibler divergences, by the classes of both distributions.

Reads distributions; gives tensors. Previous: families.py.

A divergence of two families is minus the entropy of the first minus the mean that the log density of the second has
under the first, from the means below. Where values of the first are none of the second it is infinite. Divergences
within a family have a formula of their own, which is exactly 0 for equals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import linalg
from tracegrad.distributions.distribution import Distribution
from tracegrad.distributions.families import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Cauchy,
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
    Uniform,
)
from tracegrad.nn import functional as F

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Any]
_DIVERGENCES: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """Make the decorated function the divergence of distributions of these classes.

    Raises:
        TypeError: one is no class of distributions.
    """
    for place, given in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(given, type) or not issubclass(given, Distribution):
            raise TypeError(f"Expected {place} to be a Distribution subclass but got {given}")

    def register(function: Divergence) -> Divergence:
        _DIVERGENCES[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Return the Kullback-Leibler divergence of two distributions.

    Raises:
        NotImplementedError: there is no formula for these classes.
    """
    for cls in type(p).__mro__:
        for other in type(q).__mro__:
            if (cls, other) in _DIVERGENCES:
                return _DIVERGENCES[cls, other](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


# ---- within a family


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
@register_kl(HalfNormal, HalfNormal)
def _of_base(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    batch_shape = np.broadcast_shapes(p.factor.shape[:-2], q.factor.shape[:-2])
    factors = [each.factor.expand(*batch_shape, -1, -1) for each in (q, p)]
    trace = linalg.solve_triangular(*factors, upper=False).pow(2).sum((-2, -1))
    distance = q.distance(q.loc - p.loc)
    return q.half_logdet() - p.half_logdet() + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    slopes = a.digamma() - a.sum(-1, keepdim=True).digamma()
    sizes = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return sizes + ((a - b) * slopes).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p.dirichlet, q.dirichlet)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    ones = ones.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0.0)
    return ones + zeros.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0.0)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    found = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return found.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    return terms.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0.0).sum(-1)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b, ratio = p.concentration, q.concentration, q.rate / p.rate
    return (a - b) * a.digamma() + b.lgamma() - a.lgamma() - b * ratio.log() + a * (ratio - 1)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, place = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return ratio * np.euler_gamma - ratio.log() - place + (place + (1 + ratio).lgamma()).exp() - (1 + np.euler_gamma)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    spread = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return (spread / (4 * p.scale * q.scale)).log()


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    count = p.reinterpreted_batch_ndims
    if count != q.reinterpreted_batch_ndims:
        raise NotImplementedError("two Independent distributions of other numbers of axes have no divergence here")
    found = kl_divergence(p.base_dist, q.base_dist)
    return found.sum(tuple(range(-count, 0))) if count else found


# ---- means under the first


def _mean_log(p: Any) -> Any:
    """Return the mean of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Uniform):
        return (p.high.xlogy(p.high) - p.low.xlogy(p.low)) / (p.high - p.low) - 1
    if isinstance(p, Exponential):
        return -np.euler_gamma - p.rate.log()
    return p.concentration.digamma() - p.rate.log()


def _mean_exp(p: Any, t: Any) -> Any:
    """Return the mean of exp(-x / t)."""
    if isinstance(p, Normal):
        return (-p.loc / t + 0.5 * (p.scale / t) ** 2).exp()
    if isinstance(p, Uniform):
        return t * ((-p.low / t).exp() - (-p.high / t).exp()) / (p.high - p.low)
    if isinstance(p, Exponential):
        return p.rate / (p.rate + 1 / t)
    return (1 + 1 / (t * p.rate)) ** -p.concentration


# ---- mean log densities of the second


def _under_normal(p: Any, q: Any) -> Any:
    square = ((p.mean - q.loc) ** 2 + p.variance) / (2 * q.scale**2)
    return -square - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _under_exponential(p: Any, q: Any) -> Any:
    return q.rate.log() - q.rate * p.mean


def _under_gamma(p: Any, q: Any) -> Any:
    shape = (q.concentration - 1) * _mean_log(p) - q.concentration.lgamma()
    return q.concentration * q.rate.log() + shape - q.rate * p.mean


def _under_gumbel(p: Any, q: Any) -> Any:
    place = q.loc / q.scale
    return place - p.mean / q.scale - place.exp() * _mean_exp(p, q.scale) - q.scale.log()


def _under_uniform(p: Any, q: Any) -> Any:
    return -(q.high - q.low).log()


def _under_laplace(p: Any, q: Any) -> Any:
    away = (p.loc - q.loc) / p.scale
    width = math.sqrt(2 / math.pi) * (-0.5 * away**2).exp() + away * (away / math.sqrt(2)).erf()
    return -(2 * q.scale).log() - p.scale * width / q.scale


def _under_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    turned = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    shape = (a - 1) * _mean_log(p) + (b - 1) * _mean_log(turned)
    return shape + (a + b).lgamma() - a.lgamma() - b.lgamma()


def _under_poisson(p: Any, q: Any) -> Any:
    return p.mean.xlogy(q.rate) - q.rate


def _register(under: Divergence, q: type, *ps: type, outside: Callable[[Any, Any], Any] | None = None) -> None:
    """Register the divergences from distributions of some classes to those of one.

    Args:
        under: the mean log density of the second distribution.
        outside: whether there are values of the first that are none of the second.
    """

    def divergence(p: Any, q: Any) -> Any:
        found = -p.entropy() - under(p, q)
        return found if outside is None else found.masked_fill(outside(p, q), math.inf)

    for p in ps:
        register_kl(p, q)(divergence)


def _below_zero(p: Any, q: Any) -> Any:
    return p.low < 0


def _beyond(p: Any, q: Any) -> Any:
    low, high = (0.0, 1.0) if isinstance(p, Beta) else (p.low, p.high)
    return (q.low > low) | (q.high < high)


_register(_under_normal, Normal, Beta, Exponential, Gamma, Gumbel, Laplace, Uniform)
_register(_under_exponential, Exponential, Beta, Gamma)
_register(_under_exponential, Exponential, Uniform, outside=_below_zero)
_register(_under_gamma, Gamma, Beta, Exponential)
_register(_under_gamma, Gamma, Uniform, outside=_below_zero)
_register(_under_gumbel, Gumbel, Exponential, Gamma, Normal, Uniform)
_register(_under_uniform, Uniform, Beta, Uniform, outside=_beyond)
_register(_under_laplace, Laplace, Normal)
_register(_under_beta, Beta, Uniform, outside=lambda p, q: (p.low < 0) | (p.high > 1))
_register(_under_poisson, Poisson, Bernoulli)


def _infinite(p: Any, q: Any) -> Any:
    return p.entropy().detach().new_full(tuple(p.batch_shape), math.inf)


for _p, *_qs in (
    (Exponential, Beta, Uniform), (Gamma, Beta, Uniform), (Gumbel, Beta, Exponential, Gamma, Uniform),
    (Laplace, Beta, Exponential, Gamma, Uniform), (Normal, Beta, Exponential, Gamma, Uniform),
):  # fmt: skip
    for _q in _qs:
        register_kl(_p, _q)(_infinite)
for _q in (Bernoulli, Binomial):
    register_kl(Poisson, _q)(lambda p, q: p.rate.new_full(tuple(p.batch_shape), math.inf))
