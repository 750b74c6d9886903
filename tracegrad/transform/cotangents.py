"""Cotangents of the values in one scope, and how contributions to them are added up.

Stages IR through a Builder. Previous: slopes.py; next: vjp.py.

A cotangent that is absent is zero and costs nothing. A contribution that touches only some elements, a scatter or a
slice written into zeros, is written into the cotangent that is there instead, so that reading x[i] in a loop costs what
it touches, not the size of x.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Value
from tracegrad.ir.nouns import noun_of
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType
from tracegrad.ir.writes import is_filled_with, is_sparse, writes_of
from tracegrad.transform.masks import add_choices


class Cotangents:
    """The cotangents of one scope: a block being reversed.

    Args:
        builder: where additions are staged.
        start: cotangents at the start of the scope, those of outer values.
    """

    def __init__(self, builder: Builder, start: Mapping[Value, Value] | None = None) -> None:
        self._builder = builder
        self._total: dict[Value, Value] = dict(start or {})
        self._sparse: dict[Value, list[Value]] = {}

    def add(self, value: Value, contribution: Value) -> None:
        """Add a contribution to the cotangent of a value."""
        if is_filled_with(contribution, 0):
            return
        total = self._total.get(value)
        if total is None and is_sparse(contribution):
            # wait for a total to write into
            self._sparse.setdefault(value, []).append(contribution)
            return
        total = contribution if total is None else self._sum(total, contribution)
        for waiting in self._sparse.pop(value, ()):
            total = self._sum(total, waiting)
        self.set(value, total)

    def set(self, value: Value, total: Value) -> None:
        """Replace the cotangent of a value."""
        name_cotangent(total, value)
        self._total[value] = total

    def get(self, value: Value) -> Value | None:
        """Return the cotangent of a value so far, or None when it is zero."""
        sparse = self._sparse.pop(value, None)
        if sparse:
            total = sparse[0]
            for contribution in sparse[1:]:
                total = self._sum(total, contribution)
            self.set(value, total)
        return self._total.get(value)

    def take(self, value: Value) -> Value | None:
        """Return the cotangent of a value, which gets no further contributions, or None when it is zero."""
        total = self.get(value)
        self._total.pop(value, None)
        return total

    def _sum(self, total: Value, contribution: Value) -> Value:
        if not is_sparse(contribution):
            if not is_sparse(total):
                joined = add_choices(total, contribution, self._sum)
                if joined is not None:
                    return joined
                return self._apply("add", total, contribution)
            total, contribution = contribution, total
        for op, operands, attrs in writes_of(contribution):
            total = self._apply(op, total, *operands, **attrs)
        return total

    def _apply(self, op: str, *operands: Value, **attrs: Any) -> Value:
        result = self._builder.apply(TABLE[op], operands, attrs)
        assert isinstance(result, Value)
        return result


def name_cotangent(ct: Value, primal: Value) -> None:
    """Name a value after the primal value whose cotangent it is, unless it has a name after one of the user's."""
    if ct.name:
        return
    is_primal = ct.origin and not ct.noun.startswith("ct_")
    if primal.name:
        ct.name = f"ct_{primal.name}"
    elif not ct.noun and not is_primal and primal.producer is not None:
        own = noun_of(ct)
        ct.noun = own if own.startswith("ct_") else f"ct_{noun_of(primal)}"
    else:
        return
    if not is_primal:
        ct.origin = primal.origin


def zeros(builder: Builder, kind: ArrayType) -> Value:
    """Stage an array of zeros."""
    result = builder.apply(TABLE["full"], (), {"shape": kind.shape, "dtype": kind.dtype, "value": 0.0})
    assert isinstance(result, Value)
    return result
