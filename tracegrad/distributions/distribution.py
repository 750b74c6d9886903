"""What all distributions have.

Reads tensors. Previous: constraints.py; next: families.py.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from tracegrad.distributions import constraints
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.tensor import Size, Tensor

Constraints = dict[str, constraints.Constraint]


class Distribution:
    """A random variable, or one per element of its parameters.

    Attributes:
        batch_shape: shape of the parameters.
        event_shape: shape of one value.
        has_rsample: whether samples have gradients with respect to the parameters.
        has_enumerate_support: whether the values can be listed.
        arg_constraints: what is required of the parameters.
        support: which values there are.
        parameters: names of what the distribution is given by, in the order in which they are shown.
    """

    batch_shape: Size
    event_shape = Size(())
    has_rsample = False
    parameters: tuple[str, ...] = ()
    has_enumerate_support = False
    arg_constraints: ClassVar[Constraints] = {}
    _validates = True

    support: Any
    mean: Any
    mode: Any
    variance: Any

    def __init__(self, batch_shape: Any, event_shape: Any = (), validate_args: bool | None = None) -> None:
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validates = validate_args
        for name, constraint in self.arg_constraints.items() if self._validates else ():
            is_made = name not in vars(self) and isinstance(getattr(type(self), name, None), functools.cached_property)
            value = None if is_made else getattr(self, name)
            if value is not None and not bool(constraint.check(value.detach()).all()):
                raise ValueError(
                    f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of distribution {self!r} to "
                    f"satisfy the constraint {constraint}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any) -> Any:
        """Return the same distribution with its parameters repeated to a batch of another shape."""
        shape, rank = tuple(batch_shape), len(self.batch_shape)
        made = object.__new__(type(self))
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and name != "factor":
                value = value.expand(*shape, *value.shape[rank:])
            elif isinstance(value, Distribution):
                value = value.expand((*shape, *value.batch_shape[rank:]))
            made.__dict__[name] = value
        made.batch_shape = Size(shape)
        return made

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether parameters and values are checked where `validate_args` does not say it."""
        Distribution._validates = value

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
        if not bool(self.support.check(value).all()):
            raise ValueError(
                f"Expected value argument (Tensor of shape {tuple(value.shape)}) to be within the support "
                f"({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def cdf(self, value: Any) -> Any:
        """Return the probability of at most a value.

        Raises:
            ValueError: as for `log_prob`.
            NotImplementedError: there is no formula.
        """
        if self._cdf is None:
            raise NotImplementedError
        if self._validates:
            self._check_value(value)
        return self._cdf(value)

    _cdf: Any = None

    def icdf(self, value: Any) -> Any:
        """Return the quantile of a probability."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return the values that there are along a new first axis, for each element of the batch if `expand`."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """Return the mean of minus the log probability."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    def _shape(self, sample_shape: Any) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def __repr__(self) -> str:
        given = {name: vars(self)[name] for name in self.parameters if name in vars(self)}
        shown = ", ".join(f"{name}: {value if value.numel() == 1 else value.shape}" for name, value in given.items())
        return f"{type(self).__name__}({shown})"
