"""torch.distributions' names: random variables whose samples and log probabilities can be differentiated.

Reads and writes tensors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad import linalg, ops
from tracegrad.autograd.function import Function
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.capture.tracer import from_value
from tracegrad.nn import functional as F
from tracegrad.runtime import creating, reducing
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.operate import pointwise, to_tensor
from tracegrad.runtime.shaping import broadcast_tensors, stack
from tracegrad.runtime.tape import apply_composition
from tracegrad.runtime.tensor import Size, Tensor

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "Dirichlet", "Distribution", "Exponential",
    "Gamma", "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal", "MultivariateNormal", "Normal", "Poisson",
    "StudentT", "Uniform", "kl_divergence",
]  # fmt: skip


class Distribution:
    """A random variable, or one per element of its parameters.

    Attributes:
        batch_shape: shape of the parameters.
        event_shape: shape of one value.
        has_rsample: whether samples have gradients with respect to the parameters.
        parameters: names of what the distribution is given by, in the order in which they are shown.
    """

    batch_shape: Size
    event_shape = Size(())
    has_rsample = False
    parameters: tuple[str, ...] = ()
    _validates = True

    def __init__(self, batch_shape: Any, event_shape: Any = (), validate_args: bool | None = None) -> None:
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validates = validate_args
        for name, constraint, condition in self._constraints() if self._validates else ():
            if not bool(condition.all()):
                value = getattr(self, name)
                raise ValueError(
                    f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of distribution {self!r} to "
                    f"satisfy the constraint {constraint}, but found invalid values:\n{value}"
                )

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        """Return names of parameters, torch's names of what is required of them, and whether they have it."""
        return ()

    def _support(self, value: Any) -> tuple[str, Any]:
        """Return torch's name of the values that there are, and whether those given are among them."""
        return "Real()", value == value

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw values, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw values that are a function of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no samples with gradients: use sample()")

    def log_prob(self, value: Any) -> Any:
        """Return the logarithm of the density, or of the probability, at a value.

        Raises:
            ValueError: the value is no tensor, does not have the shape, or is none that there is.
        """
        if self._validates:
            self._check_value(value)
        return self._log_prob(value)

    def _log_prob(self, value: Any) -> Any:
        raise NotImplementedError

    def _check_value(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        count, shape = len(self.event_shape), self.batch_shape + self.event_shape
        if value.shape[len(value.shape) - count :] != self.event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self.event_shape}."
            )
        if any(n != m and 1 not in (n, m) for n, m in zip(value.shape[::-1], shape[::-1], strict=False)):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {shape}.")
        name, inside = self._support(value)
        if not bool(inside.all()):
            raise ValueError(
                f"Expected value argument (Tensor of shape {tuple(value.shape)}) to be within the support ({name}) of "
                f"the distribution {self!r}, but found invalid values:\n{value}"
            )

    def entropy(self) -> Any:
        """Return the mean of minus the log probability."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    variance: Any

    def _shape(self, sample_shape: Any) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def __repr__(self) -> str:
        given = {name: vars(self)[name] for name in self.parameters if name in vars(self)}
        shown = ", ".join(f"{name}: {value if value.numel() == 1 else value.shape}" for name, value in given.items())
        return f"{type(self).__name__}({shown})"


def _parameters(*values: Any) -> tuple[Any, ...]:
    """Return numbers and tensors as tensors of one shape."""
    given = [v for v in values if isinstance(v, Tensor)]
    dtype = given[0]._a.dtype if given else None
    made = [to_tensor(v if isinstance(v, Tensor) else float(v), dtype) for v in values]
    return tuple(broadcast_tensors(*made))


#: torch's name of what scales and rates must be
_POSITIVE = "GreaterThan(lower_bound=0.0)"


def _interval(low: Any, high: Any, value: Any) -> tuple[str, Any]:
    """Return torch's name of an interval, and whether a value is in it."""
    return f"Interval(lower_bound={low}, upper_bound={high})", (value >= low) & (value <= high)


def _simplex(value: Any) -> tuple[str, Any]:
    """Return torch's name of shares that add up to 1, and whether those along the last axis do."""
    return "Simplex()", (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Symmetric(Distribution):
    """Distributions that are symmetric about `loc`, of a width given by `scale`."""

    has_rsample = True
    parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = _parameters(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        return ("loc", "Real()", self.loc == self.loc), ("scale", _POSITIVE, self.scale > 0)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)


class Normal(_Symmetric):
    """Normal distributions of a mean and a standard deviation."""

    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).normal_()
        return self.loc + noise * self.scale

    def _log_prob(self, value: Any) -> Any:
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        """Return the probability of at most a value."""
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2.0))).erf())

    def icdf(self, value: Any) -> Any:
        """Return the quantile of a probability."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """Uniform distributions between two bounds."""

    has_rsample = True
    parameters = ("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = _parameters(low, high)
        super().__init__(self.low.shape, (), validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        return (("low", f"LessThan(upper_bound={self.high})", self.low < self.high),)

    def _support(self, value: Any) -> tuple[str, Any]:
        return _interval(self.low, self.high, value)

    mean = property(lambda self: (self.high + self.low) / 2)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def rsample(self, sample_shape: Any = ()) -> Any:
        share = creating.empty(*self._shape(sample_shape), dtype=self.low.dtype).uniform_()
        return self.low + share * (self.high - self.low)

    def _log_prob(self, value: Any) -> Any:
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Exponential distributions of a rate."""

    has_rsample = True
    parameters = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = _parameters(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        return (("rate", _POSITIVE, self.rate > 0),)

    def _support(self, value: Any) -> tuple[str, Any]:
        return "GreaterThanEq(lower_bound=0.0)", value >= 0

    mean = property(lambda self: self.rate.reciprocal())
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return creating.empty(*self._shape(sample_shape), dtype=self.rate.dtype).exponential_() / self.rate

    def _log_prob(self, value: Any) -> Any:
        return self.rate.log() - self.rate * value

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()


class LogNormal(Distribution):
    """Exponentials of normal numbers of a mean and a standard deviation."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.base_dist = Normal(loc, scale, validate_args)
        super().__init__(self.base_dist.batch_shape, (), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())

    @property
    def variance(self) -> Any:
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def _support(self, value: Any) -> tuple[str, Any]:
        return _POSITIVE, value > 0

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape).exp()

    def _log_prob(self, value: Any) -> Any:
        logarithm = value.log()
        return self.base_dist._log_prob(logarithm) - logarithm

    def cdf(self, value: Any) -> Any:
        """Return the probability of at most a value."""
        return self.base_dist.cdf(value.log())

    def icdf(self, value: Any) -> Any:
        """Return the quantile of a probability."""
        return self.base_dist.icdf(value).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class StudentT(Distribution):
    """Student's distributions of degrees of freedom, about a place, of a width."""

    has_rsample = True
    parameters = ("df", "loc", "scale")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = _parameters(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        return (
            ("df", _POSITIVE, self.df > 0), ("loc", "Real()", self.loc == self.loc),
            ("scale", _POSITIVE, self.scale > 0),
        )  # fmt: skip

    mode = property(lambda self: self.loc)

    @property
    def mean(self) -> Any:
        """The place; NaN of at most one degree of freedom."""
        return self.loc.where(self.df > 1, math.nan)

    @property
    def variance(self) -> Any:
        above = (self.df > 2).logical_and(self.df < math.inf)
        df = self.df.where(above, 3.0)
        bounded = self.scale.pow(2) * df / (df - 2)
        found = bounded.where(above, self.scale.pow(2).where(self.df > 2, math.inf))
        return found.where(self.df > 1, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        df = self.df.expand(*self._shape(sample_shape))
        logarithms: Any = _StandardGamma.apply(df / 2)
        noise = creating.empty(*df.shape, dtype=df.dtype).normal_()
        return self.loc + self.scale * noise * ((2 * logarithms.exp()).to(df.dtype) / df).rsqrt()

    def _log_prob(self, value: Any) -> Any:
        df, place = self.df, (value - self.loc) / self.scale
        total = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + (0.5 * df).lgamma()
        return -0.5 * (df + 1.0) * (place**2 / df).log1p() - (total - (0.5 * (df + 1.0)).lgamma())

    def entropy(self) -> Any:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        beta = half.lgamma() + 0.5 * math.log(math.pi) - more.lgamma()
        return self.scale.log() + more * (more.digamma() - half.digamma()) + 0.5 * self.df.log() + beta


def _gamma_slope(a: Any, logarithm: Any) -> Any:
    # g moves so that P(a, g) stays; where g underflows, P is its first term g**a / gamma(a + 1)
    tiny = logarithm < -600.0
    log_g = np.where(tiny, logarithm * 0, logarithm)
    g = np.exp(log_g)
    moved = -_op(ops.gammainc, a, g, order=1) / np.exp(a * log_g - g - _op(ops.lgamma, a))
    return np.where(tiny, (_op(ops.digamma, a + 1) - logarithm) / a, moved)


def _op(op: Any, *xs: Any, **attrs: Any) -> Any:
    return from_value(op(*[as_tracer(x).value for x in xs], **attrs))


_GAMMA_SLOPE = pointwise("StandardGammaGrad", _gamma_slope)


class _StandardGamma(Function):
    """Logarithms of numbers drawn from gamma distributions of given concentrations, in float64.

    Source: Figurnov et al., Implicit reparameterization gradients, 2018.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Any:
        drawn = creating.log_gamma_variates(concentration)
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> Any:
        concentration, drawn = ctx.saved_tensors
        slope: Any = apply_composition(_GAMMA_SLOPE, (), [concentration.double(), drawn])
        return (cts[0] * slope).to(concentration.dtype)


class Gamma(Distribution):
    """Gamma distributions of a concentration and a rate."""

    has_rsample = True
    parameters: tuple[str, ...] = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = _parameters(concentration, rate)
        super().__init__(self.rate.shape, (), validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        return ("concentration", _POSITIVE, self.concentration > 0), ("rate", _POSITIVE, self.rate > 0)

    def _support(self, value: Any) -> tuple[str, Any]:
        return "GreaterThanEq(lower_bound=0.0)", value >= 0

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        given = self.concentration.expand(*self._shape(sample_shape))
        logarithms: Any = _StandardGamma.apply(given)
        drawn = logarithms.exp().to(given.dtype) / self.rate
        return drawn.clamp(min=float(np.finfo(given._a.dtype).tiny))

    def _log_prob(self, value: Any) -> Any:
        given, rate = self.concentration, self.rate
        return given.xlogy(rate) + (given - 1).xlogy(value) - rate * value - given.lgamma()

    def entropy(self) -> Any:
        given = self.concentration
        return given - self.rate.log() + given.lgamma() + (1.0 - given) * given.digamma()


class Chi2(Gamma):
    """Sums of the squares of so many normal numbers."""

    parameters: tuple[str, ...] = ()

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args)

    df = property(lambda self: self.concentration * 2)


class Poisson(Distribution):
    """Counts of a rate."""

    parameters = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = _parameters(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        return (("rate", "GreaterThanEq(lower_bound=0.0)", self.rate >= 0),)

    def _support(self, value: Any) -> tuple[str, Any]:
        return "IntegerGreaterThan(lower_bound=0)", (value % 1 == 0) & (value >= 0)

    mean = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    variance = property(lambda self: self.rate)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return creating.poisson(self.rate.expand(*self._shape(sample_shape)))

    def _log_prob(self, value: Any) -> Any:
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()


class Laplace(_Symmetric):
    """Laplace distributions of a mean and a scale."""

    stddev = property(lambda self: 2**0.5 * self.scale)
    variance = property(lambda self: 2 * self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        share = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).uniform_(-1, 1)
        return self.loc - self.scale * share.sign() * (-share.abs()).log1p()

    def _log_prob(self, value: Any) -> Any:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        """Return the probability of at most a value."""
        centred = value - self.loc
        return 0.5 - 0.5 * centred.sign() * (-centred.abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        """Return the quantile of a probability."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(_Symmetric):
    """Cauchy distributions of a median and a half width at half maximum; they have no mean."""

    mean = property(lambda self: self.loc.detach() * math.nan)
    variance = property(lambda self: self.scale.detach() * math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        share = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).uniform_()
        return self.icdf(share)

    def _log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Any) -> Any:
        """Return the probability of at most a value."""
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        """Return the quantile of a probability."""
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_Symmetric):
    """Gumbel distributions, of the greatest of many numbers: of a mode and a scale."""

    mean = property(lambda self: self.loc + self.scale * np.euler_gamma)
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        waits = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).exponential_()
        return self.loc - self.scale * waits.log()

    def _log_prob(self, value: Any) -> Any:
        place = (self.loc - value) / self.scale
        return (place - place.exp()) - self.scale.log()

    def cdf(self, value: Any) -> Any:
        """Return the probability of at most a value."""
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Any) -> Any:
        """Return the quantile of a probability."""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + np.euler_gamma)


class HalfNormal(Distribution):
    """Magnitudes of normal numbers of mean 0 and a standard deviation."""

    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self.base_dist = Normal(0, scale, False)
        super().__init__(self.base_dist.batch_shape, (), validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        return (("scale", _POSITIVE, self.scale > 0),)

    def _support(self, value: Any) -> tuple[str, Any]:
        return "GreaterThanEq(lower_bound=0.0)", value >= 0

    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    mode = property(lambda self: self.scale.detach() * 0)
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape).abs()

    def _log_prob(self, value: Any) -> Any:
        return (self.base_dist._log_prob(value) + math.log(2)).where(value >= 0, -math.inf)

    def cdf(self, value: Any) -> Any:
        """Return the probability of at most a value."""
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        """Return the quantile of a probability."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class Independent(Distribution):
    """A distribution whose last axes of independent values are one value together."""

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        count, shape = reinterpreted_batch_ndims, base_distribution.batch_shape
        if count > len(shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{count} vs {len(shape)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        self.has_rsample = base_distribution.has_rsample
        event_shape = (*shape[len(shape) - count :], *base_distribution.event_shape)
        super().__init__(shape[: len(shape) - count], event_shape, validate_args)

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return self._joined(self.base_dist.log_prob(value))

    def entropy(self) -> Any:
        return self._joined(self.base_dist.entropy())

    def _joined(self, values: Any) -> Any:
        count = self.reinterpreted_batch_ndims
        return values.sum(tuple(range(-count, 0))) if count else values

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class _OfProbabilities(Distribution):
    """What is given by probabilities, or by logits: one of them; the other is made when it is asked for."""

    parameters: tuple[str, ...] = ("probs", "logits")

    def __init__(self, probs: Any, logits: Any, axes: int, validate_args: bool | None) -> None:
        """Keep what was given, the last `axes` axes of which belong to one variable."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        (given,) = _parameters(logits if probs is None else probs)
        if given.dim() < axes:
            raise ValueError(f"`{'logits' if probs is None else 'probs'}` parameter must be at least one-dimensional.")
        setattr(self, "logits" if probs is None else "probs", self._normalized(given, probs is None))
        super().__init__(given.shape[: given.dim() - axes], (), validate_args)

    def _normalized(self, given: Any, is_logits: bool) -> Any:
        return given


def _inside(probs: Any) -> Any:
    """Return probabilities that are at least a little away from 0 and 1."""
    tiny = float(np.finfo(probs._a.dtype).eps)
    return probs.clamp(tiny, 1 - tiny)


class Bernoulli(_OfProbabilities):
    """0 or 1, by the probability of 1 or its logit."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, 0, validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        if "probs" in vars(self):
            return (("probs", *_interval(0.0, 1.0, self.probs)),)
        return (("logits", "Real()", self.logits == self.logits),)

    def _support(self, value: Any) -> tuple[str, Any]:
        return "Boolean()", (value == 0) | (value == 1)

    @functools.cached_property
    def logits(self) -> Any:
        """Logarithms of the odds of 1."""
        inside = _inside(self.probs)
        return inside.log() - (-inside).log1p()

    @functools.cached_property
    def probs(self) -> Any:
        """Probabilities of 1."""
        return self.logits.sigmoid()

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return creating.bernoulli(self.probs.expand(*self._shape(sample_shape)))

    def _log_prob(self, value: Any) -> Any:
        logits, value = broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Binomial(Bernoulli):
    """How many of some tries succeed, by the probability of one or its logit."""

    parameters = ("total_count", "probs", "logits")

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = logits if probs is None else probs
        if given is not None:
            self.total_count, given = _parameters(total_count, given)
        super().__init__(None if probs is None else given, None if logits is None else given, validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        count = self.total_count
        return (
            ("total_count", "IntegerGreaterThan(lower_bound=0)", (count % 1 == 0) & (count >= 0)),
            *super()._constraints(),
        )

    def _support(self, value: Any) -> tuple[str, Any]:
        inside = (value % 1 == 0) & (value >= 0) & (value <= self.total_count)
        return f"IntegerInterval(lower_bound=0, upper_bound={self.total_count})", inside

    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @property
    def mode(self) -> Any:
        """The most likely count."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return creating.binomial(*(t.expand(*self._shape(sample_shape)) for t in (self.total_count, self.probs)))

    def _log_prob(self, value: Any) -> Any:
        count, ways = self.total_count, (self.total_count + 1).lgamma() - (value + 1).lgamma()
        ways = ways - (count - value + 1).lgamma()
        return ways + value * self.logits - count * F.softplus(self.logits)

    def entropy(self) -> Any:
        most = int(self.total_count.max())
        if not bool((self.total_count == most).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        counts = creating.arange(1 + most, dtype=self.logits.dtype).reshape(-1, *(1,) * len(self.batch_shape))
        chances = self._log_prob(counts)
        return -(chances.exp() * chances).sum(0)


class Categorical(_OfProbabilities):
    """The number of a class, by the probabilities along the last axis or their logits."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, 1, validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        if "probs" in vars(self):
            return (("probs", *_simplex(self.probs)),)
        return (("logits", "IndependentConstraint(Real(), 1)", self.logits == self.logits),)

    def _support(self, value: Any) -> tuple[str, Any]:
        last = len(self) - 1
        inside = (value % 1 == 0) & (value >= 0) & (value <= last)
        return f"IntegerInterval(lower_bound=0, upper_bound={last})", inside

    def __len__(self) -> int:
        given = self.probs if "probs" in vars(self) else self.logits
        made: int = given.shape[-1]
        return made

    def _normalized(self, given: Any, is_logits: bool) -> Any:
        return given - given.logsumexp(-1, keepdim=True) if is_logits else given / given.sum(-1, keepdim=True)

    @functools.cached_property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return _inside(self.probs).log()

    @functools.cached_property
    def probs(self) -> Any:
        """Probabilities of the classes."""
        return reducing.softmax(self.logits, -1)

    mode = property(lambda self: self.probs.argmax(-1))

    def sample(self, sample_shape: Any = ()) -> Any:
        count = math.prod(sample_shape)
        rows = self.probs.detach().reshape(-1, len(self))
        drawn = creating.multinomial(rows, count, True)
        return drawn.t().reshape(*self._shape(sample_shape))

    def _log_prob(self, value: Any) -> Any:
        logits = self.logits.expand(*np.broadcast_shapes(value.shape, tuple(self.batch_shape)), len(self))
        return logits.gather(-1, value.long().expand(*logits.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Any:
        least = float(np.finfo(self.logits._a.dtype).min)
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)


class Dirichlet(Distribution):
    """Shares that add up to 1, by a concentration for each along the last axis."""

    has_rsample = True
    parameters = ("concentration",)

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        return (("concentration", f"IndependentConstraint({_POSITIVE}, 1)", self.concentration > 0),)

    def _support(self, value: Any) -> tuple[str, Any]:
        return _simplex(value)

    @property
    def mean(self) -> Any:
        """The means of the shares."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Any:
        """The most likely shares; where all concentrations are below 1, all of it to the greatest."""
        above = (self.concentration - 1).clamp(min=0.0)
        shares = above / above.sum(-1, keepdim=True)
        corner = F.one_hot(shares.argmax(-1), self.event_shape[0]).to(shares.dtype)
        return corner.where((self.concentration < 1).all(-1, keepdim=True), shares)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        rates = self.concentration.expand(*self._shape(sample_shape))
        logarithms: Any = _StandardGamma.apply(rates)
        return reducing.softmax(logarithms, -1).to(rates.dtype)

    def _log_prob(self, value: Any) -> Any:
        given = self.concentration
        return (given - 1.0).xlogy(value).sum(-1) + given.sum(-1).lgamma() - given.lgamma().sum(-1)

    def entropy(self) -> Any:
        given, total = self.concentration, self.concentration.sum(-1)
        return (
            given.lgamma().sum(-1) - total.lgamma() - (self.event_shape[0] - total) * total.digamma()
            - ((given - 1.0) * given.digamma()).sum(-1)
        )  # fmt: skip


class Beta(Distribution):
    """A share between 0 and 1: the first of a Dirichlet distribution of two."""

    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        pair = stack(_parameters(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args)
        super().__init__(self._dirichlet.batch_shape, (), validate_args)

    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])
    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b).pow(2) * (a + b + 1))

    def _support(self, value: Any) -> tuple[str, Any]:
        return _interval(0.0, 1.0, value)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def _log_prob(self, value: Any) -> Any:
        return self._dirichlet._log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()


class MultivariateNormal(Distribution):
    """Normal vectors, by their mean and one of covariance, its inverse, and its lower triangular factor."""

    has_rsample = True
    parameters = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = zip(self.parameters[1:], (covariance_matrix, precision_matrix, scale_tril), strict=True)
        given = {name: matrix for name, matrix in matrices if matrix is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            shape = "" if name != "scale_tril" else " matrix"
            raise ValueError(f"{name}{shape} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = np.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch_shape, -1)
        setattr(self, name, matrix.expand(*batch_shape, -1, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args)
        if name == "scale_tril":
            self._factor = matrix
        elif name == "covariance_matrix":
            self._factor = linalg.cholesky(matrix)
        else:  # the factor of the matrix with its axes in reverse order is an upper one of the inverse
            turned = linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
            ones = creating.eye(matrix.shape[-1], dtype=matrix.dtype)
            self._factor = linalg.solve_triangular(turned, ones, upper=False)

    def _constraints(self) -> Sequence[tuple[str, str, Any]]:
        found: list[tuple[str, str, Any]] = [("loc", "IndependentConstraint(Real(), 1)", self.loc == self.loc)]
        for name in self.parameters[1:]:
            if name not in vars(self):
                continue
            matrix = vars(self)[name].detach()
            if name == "scale_tril":
                is_right = (matrix.tril() == matrix).all(-1).all(-1) & (matrix.diagonal(dim1=-2, dim2=-1) > 0).all(-1)
                found.append((name, "LowerCholesky()", is_right))
            else:
                is_symmetric = matrix.isclose(matrix.mT, atol=1e-6).all(-1).all(-1)
                found.append((name, "PositiveDefinite()", is_symmetric & (linalg.cholesky_ex(matrix)[1] == 0)))
        return found

    def _support(self, value: Any) -> tuple[str, Any]:
        return "IndependentConstraint(Real(), 1)", value == value

    @functools.cached_property
    def scale_tril(self) -> Any:
        """The lower triangular factor of the covariance."""
        return self._factor.expand(*self.batch_shape, -1, -1)

    @functools.cached_property
    def covariance_matrix(self) -> Any:
        """The covariance of the elements."""
        return (self._factor @ self._factor.mT).expand(*self.batch_shape, -1, -1)

    @functools.cached_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return linalg.cholesky_inverse(self._factor).expand(*self.batch_shape, -1, -1)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        return self._factor.pow(2).sum(-1).expand(*self.batch_shape, -1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).normal_()
        return self.loc + (self._factor @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_logdet(self) -> Any:
        return self._factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _distance(self, difference: Any) -> Any:
        """Return the square of the length of differences of values, measured by the distribution."""
        factor = self._factor.expand(*difference.shape[:-1], -1, -1)
        return linalg.solve_triangular(factor, difference.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))

    def _log_prob(self, value: Any) -> Any:
        constant = self.event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._distance(value - self.loc)) - self._half_logdet()

    def entropy(self) -> Any:
        constant = 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi))
        return (constant + self._half_logdet()).expand(*self.batch_shape)


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Return the Kullback-Leibler divergence of two distributions of one class.

    Raises:
        NotImplementedError: there is no formula for these classes.
    """
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio: Any = (p.scale / q.scale) ** 2
        return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())
    if isinstance(p, Beta) and isinstance(q, Beta):
        return kl_divergence(p._dirichlet, q._dirichlet)
    if isinstance(p, Dirichlet) and isinstance(q, Dirichlet):
        a, b = p.concentration, q.concentration
        slopes = a.digamma() - a.sum(-1, keepdim=True).digamma()
        sizes = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
        return sizes + ((a - b) * slopes).sum(-1)
    if isinstance(p, MultivariateNormal) and isinstance(q, MultivariateNormal):
        if p.event_shape != q.event_shape:
            raise ValueError("two normal distributions of different event shapes have no divergence")
        batch_shape = np.broadcast_shapes(p._factor.shape[:-2], q._factor.shape[:-2])
        factors = [each._factor.expand(*batch_shape, -1, -1) for each in (q, p)]
        trace = linalg.solve_triangular(*factors, upper=False).pow(2).sum((-2, -1))
        distance = q._distance(q.loc - p.loc)
        return q._half_logdet() - p._half_logdet() + 0.5 * (trace + distance - p.event_shape[0])
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        terms = p.probs * (p.logits - q.logits)
        return terms.masked_fill(p.probs == 0, 0.0).sum(-1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        first = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
        return first + (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )
