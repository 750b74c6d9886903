"""torch.distributions' names: random variables whose samples and log probabilities can be differentiated.

Reads and writes tensors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.nn import functional as F
from tracegrad.runtime import creating, reducing
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.operate import to_tensor
from tracegrad.runtime.shaping import broadcast_tensors
from tracegrad.runtime.tensor import Size, Tensor

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace", "Normal", "Uniform",
    "kl_divergence",
]  # fmt: skip


class Distribution:
    """A random variable, or one per element of its parameters.

    Attributes:
        batch_shape: shape of the parameters.
        event_shape: shape of one value.
        has_rsample: whether samples have gradients with respect to the parameters.
    """

    batch_shape: Size
    event_shape = Size(())
    has_rsample = False

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw values, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw values that are a function of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no samples with gradients: use sample()")

    def log_prob(self, value: Any) -> Any:
        """Return the logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError

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
        shown = ", ".join(
            f"{name}: {value if value.numel() == 1 else value.shape}"
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and not name.startswith("_")
        )
        return f"{type(self).__name__}({shown})"


def _parameters(*values: Any) -> tuple[Any, ...]:
    """Return numbers and tensors as tensors of one shape."""
    given = [v for v in values if isinstance(v, Tensor)]
    dtype = given[0]._a.dtype if given else None
    made = [to_tensor(v if isinstance(v, Tensor) else float(v), dtype) for v in values]
    return tuple(made if len({t._a.shape for t in made}) == 1 else broadcast_tensors(*made))


def _require(condition: Any, name: str, what: str, value: Tensor) -> None:
    """Check a parameter.

    Raises:
        ValueError: it is out of its range.
    """
    if not bool(condition.all()):
        raise ValueError(f"Expected parameter {name} of shape {tuple(value.shape)} to be {what}, but found\n{value}")


class _Symmetric(Distribution):
    """Distributions that are symmetric about `loc`, of a width given by `scale`."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = _parameters(loc, scale)
        _require(self.scale > 0, "scale", "positive", self.scale)
        self.batch_shape = self.loc.shape

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)


class Normal(_Symmetric):
    """Normal distributions of a mean and a standard deviation."""

    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).normal_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
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

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = _parameters(low, high)
        if not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")
        self.batch_shape = self.low.shape

    mean = property(lambda self: (self.high + self.low) / 2)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def rsample(self, sample_shape: Any = ()) -> Any:
        share = creating.empty(*self._shape(sample_shape), dtype=self.low.dtype).uniform_()
        return self.low + share * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Exponential distributions of a rate."""

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = _parameters(rate)
        _require(self.rate > 0, "rate", "positive", self.rate)
        self.batch_shape = self.rate.shape

    mean = property(lambda self: self.rate.reciprocal())
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return creating.empty(*self._shape(sample_shape), dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        return self.rate.log() - self.rate * value

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()


class Laplace(_Symmetric):
    """Laplace distributions of a mean and a scale."""

    stddev = property(lambda self: 2**0.5 * self.scale)
    variance = property(lambda self: 2 * self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        share = creating.empty(*self._shape(sample_shape), dtype=self.loc.dtype).uniform_(-1, 1)
        return self.loc - self.scale * share.sign() * (-share.abs()).log1p()

    def log_prob(self, value: Any) -> Any:
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
        self.batch_shape = Size(shape[: len(shape) - count])
        self.event_shape = Size((*shape[len(shape) - count :], *base_distribution.event_shape))
        self.has_rsample = base_distribution.has_rsample

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
    """What is given by probabilities, or by logits: one of them, the other follows."""

    def __init__(self, probs: Any, logits: Any) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        (given,) = _parameters(logits if probs is None else probs)
        self._given = given
        if probs is None:
            self.logits = self._normalized(given)
            self.probs = self._probs(given)
        else:
            self.probs = given
            self._check(given)

    def _check(self, probs: Any) -> None:
        raise NotImplementedError

    def _normalized(self, logits: Any) -> Any:
        raise NotImplementedError

    def _probs(self, logits: Any) -> Any:
        raise NotImplementedError


class Bernoulli(_OfProbabilities):
    """0 or 1, by the probability of 1 or its logit."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits)
        if probs is not None:
            tiny = float(np.finfo(self.probs._a.dtype).eps)
            inside = self.probs.clamp(tiny, 1 - tiny)
            self.logits = inside.log() - (-inside).log1p()
        self.batch_shape = self.probs.shape

    def _check(self, probs: Any) -> None:
        _require((probs >= 0) & (probs <= 1), "probs", "in the interval [0, 1]", probs)

    def _normalized(self, logits: Any) -> Any:
        return logits

    def _probs(self, logits: Any) -> Any:
        return logits.sigmoid()

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return creating.bernoulli(self.probs.expand(*self._shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        logits, value = broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Categorical(_OfProbabilities):
    """The number of a class, by the probabilities along the last axis or their logits."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits)
        if self._given.dim() < 1:
            raise ValueError("`probs` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = self.probs / self.probs.sum(-1, keepdim=True)
            tiny = float(np.finfo(self.probs._a.dtype).eps)
            self.logits = self.probs.clamp(tiny, 1 - tiny).log()
        self.batch_shape = self.probs.shape[:-1]

    def _check(self, probs: Any) -> None:
        _require(probs >= 0, "probs", "nonnegative", probs)

    def _normalized(self, logits: Any) -> Any:
        return logits - logits.logsumexp(-1, keepdim=True)

    def _probs(self, logits: Any) -> Any:
        return reducing.softmax(logits, -1)

    mode = property(lambda self: self.probs.argmax(-1))

    def sample(self, sample_shape: Any = ()) -> Any:
        count = math.prod(sample_shape)
        rows = self.probs.detach().reshape(-1, self.probs.shape[-1])
        drawn = creating.multinomial(rows, count, True)
        return drawn.t().reshape(*self._shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        logits = self.logits.expand(*np.broadcast_shapes(value.shape, tuple(self.batch_shape)), self.logits.shape[-1])
        return logits.gather(-1, value.long().expand(*logits.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Any:
        least = float(np.finfo(self.logits._a.dtype).min)
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Return the Kullback-Leibler divergence of two distributions of one class.

    Raises:
        NotImplementedError: there is no formula for these classes.
    """
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio: Any = (p.scale / q.scale) ** 2
        return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        terms = p.probs * (p.logits - q.logits)
        return terms.masked_fill(p.probs == 0, 0.0).sum(-1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        first = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
        return first + (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )
