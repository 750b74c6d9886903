"""A size of a dimension that is symbolic, as user code sees it: an int whose value the compiled function does not fix.

Previous: tracer.py; next: lists.py.

Arithmetic between sizes stays symbolic. Where Python must decide (a comparison, a loop that is unrolled, a dict key),
the size of the call that is being captured decides, and what was decided is recorded: the compiled function serves only
sizes for which the same holds.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tracegrad import ops
from tracegrad.capture.context import current, user_span
from tracegrad.capture.tracer import OPERATORS, Tracer, asarray, from_value, is_traced, python_operator, stage
from tracegrad.errors import Span
from tracegrad.ir.types import Dim, SymbolicDim, dim_evaluate

#: the smallest size that a symbol stands for; sizes 0 and 1 are compiled by themselves
SMALLEST = 2

_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Fact:
    """Something decided at capture about sizes: `difference relation 0` is `outcome`.

    Attributes:
        span: the line of the user's code that needed it first.
    """

    difference: Dim
    relation: str
    outcome: bool
    span: Span | None = field(default=None, compare=False)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the same is true for other sizes."""
        return _RELATIONS[self.relation](dim_evaluate(self.difference, sizes), 0) is self.outcome

    def __str__(self) -> str:
        return f"{'' if self.outcome else 'not '}{self.difference} {self.relation} 0"


class Size:
    """A symbolic size; behaves as a Python int."""

    __slots__ = ("dim",)

    def __init__(self, dim: SymbolicDim) -> None:
        self.dim = dim

    def as_tracer(self) -> Tracer:
        """Return the size as a traced Python int."""
        return from_value(stage(ops.dim, dim=self.dim), weak=True)

    @property
    def hint(self) -> int:
        """The size in the call that is being captured."""
        return dim_evaluate(self.dim, current().sizes)

    def __index__(self) -> int:
        decide(self.dim - self.hint, "==")
        return self.hint

    __int__ = __index__

    def __invert__(self) -> Any:
        return -self - 1

    def bit_length(self) -> int:
        return self.__index__().bit_length()

    def bit_count(self) -> int:
        return self.__index__().bit_count()

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __bool__(self) -> bool:
        return decide(self.dim, "!=")

    def __repr__(self) -> str:
        return str(self.dim)

    def __str__(self) -> str:
        return str(self.__index__())

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)

    def __neg__(self) -> Any:
        return as_size(-self.dim)

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return self if decide(self.dim, ">=") else -self

    def __float__(self) -> float:
        return float(self.__index__())

    def __round__(self, digits: int | None = None) -> Size:
        return self

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other


def as_size(dim: Dim) -> Any:
    """Return a dimension as user code sees it."""
    return Size(dim) if isinstance(dim, SymbolicDim) else dim


def as_dim(value: Any) -> Dim | None:
    """Return the dimension that an int or a size stands for, or None for other values."""
    if isinstance(value, Size):
        return value.dim
    return value if type(value) is int else None


def decide(difference: Dim, relation: str) -> bool:
    """Return whether `difference relation 0`; recorded as a fact unless it is so for all sizes."""
    capture = current()
    outcome = _RELATIONS[relation](dim_evaluate(difference, capture.sizes), 0)
    fact = Fact(difference, relation, outcome)
    if isinstance(difference, SymbolicDim) and not _is_certain(fact) and fact not in capture.facts:
        capture.facts.append(replace(fact, span=user_span()))
    return outcome


def _is_certain(fact: Fact) -> bool:
    """Return whether a fact holds for all sizes from SMALLEST on, as far as the signs of the coefficients tell."""
    difference = fact.difference
    assert isinstance(difference, SymbolicDim)
    if any(not isinstance(atom, str) for monomial, _ in difference.terms for atom in monomial):
        return False
    signs = {coefficient > 0 for monomial, coefficient in difference.terms if monomial}
    if len(signs) != 1:
        return False
    bound = difference.evaluate(dict.fromkeys(difference.symbols(), SMALLEST))
    rising = signs == {True}
    if rising:
        known = {">": bound > 0, ">=": bound >= 0, "!=": bound > 0, "<": bound >= 0, "<=": bound > 0, "==": bound > 0}
        true = fact.relation in (">", ">=", "!=")
    else:
        known = {"<": bound < 0, "<=": bound <= 0, "!=": bound < 0, ">": bound <= 0, ">=": bound < 0, "==": bound < 0}
        true = fact.relation in ("<", "<=", "!=")
    return known[fact.relation] and fact.outcome is true


def _arithmetic(name: str) -> tuple[Callable[[Size, Any], Any], Callable[[Size, Any], Any]]:
    compute = getattr(operator, name)

    def combine(left: Any, right: Any) -> Any:
        if isinstance(left, _SEQUENCES) or isinstance(right, _SEQUENCES):
            plain = (operator.index(v) if isinstance(v, Size) else v for v in (left, right))
            return compute(*plain)  # a sequence is repeated; for other operators Python's error
        a, b = as_dim(left), as_dim(right)
        if a is None or b is None or name not in ("add", "sub", "mul", "floordiv", "mod"):
            if name == "pow" and type(right) is int and right >= 0:
                result: Any = 1
                for _ in range(right):
                    result = result * left
                return result
            return python_operator(OPERATORS[name], asarray(left), asarray(right))
        if name == "mod":
            return left - (left // right) * right
        if name == "floordiv" and decide(b, "=="):
            raise ZeroDivisionError("integer division or modulo by zero")
        return as_size(compute(a, b))

    return combine, lambda self, other: combine(other, self)


def _on_bits(name: str) -> tuple[Callable[[Size, Any], Any], Callable[[Size, Any], Any]]:
    """Return an operator between bits and its reflected form: the size of this call decides."""

    def combine(left: Any, right: Any) -> Any:
        plain = [operator.index(v) if isinstance(v, Size) else v for v in (left, right)]
        return python_operator(OPERATORS[name], *plain) if is_traced(plain) else _BITS[name](*plain)

    return combine, lambda self, other: combine(other, self)


_SEQUENCES = (list, tuple, str, bytes, deque)
_BITS: dict[str, Callable[[Any, Any], Any]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}
for _name in _BITS:
    _forward, _reflected = _on_bits(_name)
    setattr(Size, f"__{_name}__", _forward)
    setattr(Size, f"__r{_name}__", _reflected)
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _forward, _reflected = _arithmetic(_name)
    setattr(Size, f"__{_name}__", _forward)
    setattr(Size, f"__r{_name}__", _reflected)


def _comparison(name: str, relation: str) -> Callable[[Size, Any], Any]:
    compare = getattr(operator, name)

    def method(self: Size, other: Any) -> Any:
        dim = as_dim(other)
        if dim is not None:
            return decide(self.dim - dim, relation)
        if isinstance(other, float):
            outcome = compare(self.hint, other)
            decide(self.dim - self.hint, "==")
            return outcome
        if isinstance(other, Tracer):
            return compare(self.as_tracer(), other)
        return NotImplemented

    return method


for _name, _relation in (("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="), ("gt", ">"), ("ge", ">=")):
    setattr(Size, f"__{_name}__", _comparison(_name, _relation))
