"""The distributions themselves.

Reads and writes tensors. Previous: distribution.py; next: kl.py.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np

from tracegrad import linalg, ops
from tracegrad.autograd.function import Function
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.capture.tracer import from_value
from tracegrad.distributions import constraints
from tracegrad.distributions.distribution import Constraints, Distribution
from tracegrad.nn import functional as F
from tracegrad.runtime import creating, dtypes, reducing
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.operate import pointwise, to_tensor
from tracegrad.runtime.shaping import broadcast_tensors, stack
from tracegrad.runtime.tape import apply_composition
from tracegrad.runtime.tensor import Tensor


def _parameters(*values: Any) -> tuple[Any, ...]:
    """Return numbers and tensors as tensors of one shape."""
    given = [v for v in values if isinstance(v, Tensor)]
    dtype = given[0]._a.dtype if given else None
    made = [to_tensor(v if isinstance(v, Tensor) else float(v), dtype) for v in values]
    return tuple(broadcast_tensors(*made))


class _AboutPlace(Distribution):
    """Distributions about `loc`, of a width given by `scale`."""

    has_rsample = True
    parameters = ("loc", "scale")
    arg_constraints: ClassVar[Constraints] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = _parameters(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)


class Normal(_AboutPlace):
    """Normal distributions of a mean and a standard deviation."""

    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).normal_()
        return self.loc + noise * self.scale

    def _log_prob(self, value: Any) -> Any:
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def _cdf(self, value: Any) -> Any:
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2.0))).erf())

    def icdf(self, value: Any) -> Any:
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

    @property
    def arg_constraints(self) -> Constraints:  # type: ignore[override]
        """What is required of either bound, given the other."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    support = property(lambda self: constraints.interval(self.low, self.high))
    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: math.nan * self.high)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def rsample(self, sample_shape: Any = ()) -> Any:
        share = creating.empty(*self._shape(sample_shape), dtype=self.low.dtype).uniform_()
        return self.low + share * (self.high - self.low)

    def _log_prob(self, value: Any) -> Any:
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def _cdf(self, value: Any) -> Any:
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Exponential distributions of a rate."""

    has_rsample = True
    parameters = ("rate",)
    arg_constraints: ClassVar[Constraints] = {"rate": constraints.positive}
    support: Any = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = _parameters(rate)
        super().__init__(self.rate.shape, (), validate_args)

    mean = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: self.rate.detach() * 0)
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return creating.empty(*self._shape(sample_shape), dtype=self.rate.dtype).exponential_() / self.rate

    def _log_prob(self, value: Any) -> Any:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Any) -> Any:
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()


class LogNormal(Distribution):
    """Exponentials of normal numbers of a mean and a standard deviation."""

    has_rsample = True
    arg_constraints: ClassVar[Constraints] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive

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

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape).exp()

    def _log_prob(self, value: Any) -> Any:
        logarithm = value.log()
        return self.base_dist._log_prob(logarithm) - logarithm

    def _cdf(self, value: Any) -> Any:
        return self.base_dist._cdf(value.log())

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf(value).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class StudentT(Distribution):
    """Student's distributions of degrees of freedom, about a place, of a width."""

    has_rsample = True
    parameters = ("df", "loc", "scale")
    arg_constraints: ClassVar[Constraints] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Any = constraints.real

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = _parameters(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

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


_GAMMAINC = pointwise("Gammainc", lambda a, x: _op(ops.gammainc, a, x, order=0))
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
    arg_constraints: ClassVar[Constraints] = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = _parameters(concentration, rate)
        super().__init__(self.rate.shape, (), validate_args)

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

    def _cdf(self, value: Any) -> Any:
        return apply_composition(_GAMMAINC, (), list(broadcast_tensors(self.concentration, self.rate * value)))

    def entropy(self) -> Any:
        given = self.concentration
        return given - self.rate.log() + given.lgamma() + (1.0 - given) * given.digamma()


class Chi2(Gamma):
    """Sums of the squares of so many normal numbers."""

    parameters: tuple[str, ...] = ()
    arg_constraints: ClassVar[Constraints] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args)

    df = property(lambda self: self.concentration * 2)


class Poisson(Distribution):
    """Counts of a rate."""

    parameters = ("rate",)
    arg_constraints: ClassVar[Constraints] = {"rate": constraints.nonnegative}
    support: Any = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = _parameters(rate)
        super().__init__(self.rate.shape, (), validate_args)

    mean = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    variance = property(lambda self: self.rate)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return creating.poisson(self.rate.expand(*self._shape(sample_shape)))

    def _log_prob(self, value: Any) -> Any:
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()


class Laplace(_AboutPlace):
    """Laplace distributions of a mean and a scale."""

    stddev = property(lambda self: 2**0.5 * self.scale)
    variance = property(lambda self: 2 * self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        share = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).uniform_(-1, 1)
        return self.loc - self.scale * share.sign() * (-share.abs()).log1p()

    def _log_prob(self, value: Any) -> Any:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def _cdf(self, value: Any) -> Any:
        centred = value - self.loc
        return 0.5 - 0.5 * centred.sign() * (-centred.abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(_AboutPlace):
    """Cauchy distributions of a median and a half width at half maximum; they have no mean."""

    mean = property(lambda self: self.loc.detach() * math.nan)
    variance = property(lambda self: self.scale.detach() * math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        share = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).uniform_()
        return self.icdf(share)

    def _log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def _cdf(self, value: Any) -> Any:
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_AboutPlace):
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

    def _cdf(self, value: Any) -> Any:
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + np.euler_gamma)


class HalfNormal(Distribution):
    """Magnitudes of normal numbers of mean 0 and a standard deviation."""

    has_rsample = True
    arg_constraints: ClassVar[Constraints] = {"scale": constraints.positive}
    support: Any = constraints.nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self.base_dist = Normal(0, scale, False)
        super().__init__(self.base_dist.batch_shape, (), validate_args)

    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    mode = property(lambda self: self.scale.detach() * 0)
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape).abs()

    def _log_prob(self, value: Any) -> Any:
        return (self.base_dist._log_prob(value) + math.log(2)).where(value >= 0, -math.inf)

    def _cdf(self, value: Any) -> Any:
        return 2 * self.base_dist._cdf(value) - 1

    def icdf(self, value: Any) -> Any:
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

    @property
    def support(self) -> constraints.Constraint:
        """The values of the base together."""
        base, count = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, count) if count else base

    has_enumerate_support = property(lambda self: self.base_dist.has_enumerate_support)
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

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def _joined(self, values: Any) -> Any:
        count = self.reinterpreted_batch_ndims
        return values.sum(tuple(range(-count, 0))) if count else values

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class _OfProbabilities(Distribution):
    """What is given by probabilities, or by logits: one of them; the other is made when it is asked for."""

    parameters: tuple[str, ...] = ("probs", "logits")
    has_enumerate_support = True

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

    @property
    def _given(self) -> Any:
        """The probabilities or logits that the distribution is given by."""
        return vars(self)["probs"] if "probs" in vars(self) else vars(self)["logits"]

    def _numbers(self, count: int, dtype: Any, expand: bool) -> Any:
        """Return the numbers below `count` along a new first axis, for each element of the batch if `expand`."""
        found = creating.arange(count, dtype=dtype).reshape(-1, *(1,) * len(self.batch_shape))
        return found.expand(-1, *self.batch_shape) if expand else found


def _inside(probs: Any) -> Any:
    """Return probabilities that are at least a little away from 0 and 1."""
    tiny = float(np.finfo(probs._a.dtype).eps)
    return probs.clamp(tiny, 1 - tiny)


class _OfOdds(_OfProbabilities):
    """What is given by the probability of one of two outcomes, or by its logit."""

    arg_constraints: ClassVar[Constraints] = {"probs": constraints.unit_interval, "logits": constraints.real}

    @functools.cached_property
    def logits(self) -> Any:
        """Logarithms of the odds of 1."""
        inside = _inside(self.probs)
        return inside.log() - (-inside).log1p()

    @functools.cached_property
    def probs(self) -> Any:
        """Probabilities of 1."""
        return self.logits.sigmoid()


class Bernoulli(_OfOdds):
    """0 or 1, by the probability of 1 or its logit."""

    support: Any = constraints.boolean

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, 0, validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self) -> Any:
        """The likelier of 0 and 1; NaN where they are as likely."""
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return creating.bernoulli(self.probs.expand(*self._shape(sample_shape)))

    def _log_prob(self, value: Any) -> Any:
        logits, value = broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._numbers(2, self._given.dtype, expand)


class Binomial(_OfOdds):
    """How many of some tries succeed, by the probability of one or its logit."""

    parameters = ("total_count", "probs", "logits")
    arg_constraints: ClassVar[Constraints] = {"total_count": constraints.nonnegative_integer, **_OfOdds.arg_constraints}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = logits if probs is None else probs
        if given is not None:
            self.total_count, given = _parameters(total_count, given)
        super().__init__(None if probs is None else given, None if logits is None else given, 0, validate_args)

    support = property(lambda self: constraints.integer_interval(0, self.total_count))
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
        chances = self._log_prob(self._counts("entropy", False))
        return -(chances.exp() * chances).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._counts("enumerate_support", expand)

    def _counts(self, asked: str, expand: bool) -> Any:
        most = int(self.total_count.max())
        if not bool((self.total_count == most).all()):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return self._numbers(1 + most, self._given.dtype, expand)


class Categorical(_OfProbabilities):
    """The number of a class, by the probabilities along the last axis or their logits."""

    arg_constraints: ClassVar[Constraints] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, 1, validate_args)

    support = property(lambda self: constraints.integer_interval(0, len(self) - 1))
    mean = property(lambda self: creating.full(tuple(self.batch_shape), math.nan, dtype=self._given.dtype))
    variance = mean

    def __len__(self) -> int:
        made: int = self._given.shape[-1]
        return made

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._numbers(len(self), dtypes.int64, expand)

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
    arg_constraints: ClassVar[Constraints] = {"concentration": constraints.independent(constraints.positive, 1)}
    support: Any = constraints.simplex

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

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
    arg_constraints: ClassVar[Constraints] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support: Any = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        pair = stack(_parameters(concentration1, concentration0), -1)
        self.dirichlet = Dirichlet(pair, validate_args)
        super().__init__(self.dirichlet.batch_shape, (), validate_args)

    concentration1 = property(lambda self: self.dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self.dirichlet.concentration[..., 1])
    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self.dirichlet.mode[..., 0])

    @property
    def variance(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b).pow(2) * (a + b + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.dirichlet.rsample(sample_shape)[..., 0]

    def _log_prob(self, value: Any) -> Any:
        return self.dirichlet._log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self.dirichlet.entropy()


class MultivariateNormal(Distribution):
    """Normal vectors, by their mean and one of covariance, its inverse, and its lower triangular factor."""

    has_rsample = True
    parameters = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")
    arg_constraints: ClassVar[Constraints] = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support: Any = constraints.real_vector

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
            self.factor = matrix
        elif name == "covariance_matrix":
            self.factor = linalg.cholesky(matrix)
        else:  # the factor of the matrix with its axes in reverse order is an upper one of the inverse
            turned = linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
            ones = creating.eye(matrix.shape[-1], dtype=matrix.dtype)
            self.factor = linalg.solve_triangular(turned, ones, upper=False)

    @functools.cached_property
    def scale_tril(self) -> Any:
        """The lower triangular factor of the covariance."""
        return self.factor.expand(*self.batch_shape, -1, -1)

    @functools.cached_property
    def covariance_matrix(self) -> Any:
        """The covariance of the elements."""
        return (self.factor @ self.factor.mT).expand(*self.batch_shape, -1, -1)

    @functools.cached_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return linalg.cholesky_inverse(self.factor).expand(*self.batch_shape, -1, -1)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        return self.factor.pow(2).sum(-1).expand(*self.batch_shape, -1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).normal_()
        return self.loc + (self.factor @ noise.unsqueeze(-1)).squeeze(-1)

    def half_logdet(self) -> Any:
        """Return the logarithm of the root of the determinant of the covariance."""
        return self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def distance(self, difference: Any) -> Any:
        """Return the square of the length of differences of values, measured by the distribution."""
        factor = self.factor.expand(*difference.shape[:-1], -1, -1)
        return linalg.solve_triangular(factor, difference.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))

    def _log_prob(self, value: Any) -> Any:
        constant = self.event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self.distance(value - self.loc)) - self.half_logdet()

    def entropy(self) -> Any:
        constant = 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi))
        return (constant + self.half_logdet()).expand(*self.batch_shape)
