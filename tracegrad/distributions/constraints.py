"""torch.distributions.constraints' names: which values a parameter, or what is drawn, can have.

Reads tensors; gives for each value whether it is allowed. Next: distribution.py.
"""

from __future__ import annotations

from typing import Any

from tracegrad import linalg
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors
from tracegrad.runtime.creating import full

__all__ = [
    "Constraint", "boolean", "dependent", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """What is required of values.

    Attributes:
        is_discrete: the values are whole numbers.
        event_dim: number of the last axes that are one value together.
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Any) -> Any:
        """Return whether each value is allowed."""
        raise NotImplementedError

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Dependent(Constraint):
    """What depends on other parameters: there is nothing to ask of the value alone."""

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _From(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _To(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_From):
    def check(self, value: Any) -> Any:
        return value > self.lower_bound


class _GreaterThanEq(_From):
    def check(self, value: Any) -> Any:
        return value >= self.lower_bound


class _IntegerGreaterThan(_From):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _LessThan(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_To):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_To):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_To):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return full(tuple(value.shape[:-2]), value.shape[-2] == value.shape[-1])


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        is_square = super().check(value)
        return value.isclose(value.mT, atol=1e-6).flatten(-2).all(-1) if bool(is_square.all()) else is_square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        is_symmetric = super().check(value)
        return (linalg.eigvalsh(value) >= 0).all(-1) if bool(is_symmetric.all()) else is_symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        is_symmetric = super().check(value)
        return linalg.cholesky_ex(value)[1] == 0 if bool(is_symmetric.all()) else is_symmetric


class _IndependentConstraint(Constraint):
    """A constraint whose last axes belong to one value: it is allowed if all its elements are."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        found, count = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        return found.flatten(-count).all(-1) if count else found

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
independent = _IndependentConstraint

dependent = _Dependent()
real = _Real()
real_vector = independent(real, 1)
boolean, one_hot = _Boolean(), _OneHot()
positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
unit_interval = interval(0.0, 1.0)
simplex = _Simplex()
lower_triangular, lower_cholesky = _LowerTriangular(), _LowerCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()


def is_dependent(constraint: Constraint) -> bool:
    """Return whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)
