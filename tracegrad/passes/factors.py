"""Joins the known factors of a product, `(0.5 * a) * (2.0 * b)`, where that changes no rounding.

Reads and writes IR in place. Previous: powers.py; next: hoist.py.

Of two factors one must be a power of two, and all between them serve this product alone and have no name of the user's:
so the product has fewer operations afterwards, and no line says something else than its name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.liveness import uses
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType, is_float
from tracegrad.ir.writes import filled_number
from tracegrad.passes.rewrite import rewrite

#: longest way to a factor, in operations, and the largest power of two that moves: far from overflow
_FARTHEST, _LARGEST = 6, 1024.0
#: ops through which a factor passes, with the positions of the operands that it comes from
_PASSING = {"multiply": (0, 1), "divide": (0,), "negative": (0,), "broadcast_to": (0,), "reshape": (0,)}


@dataclass(frozen=True, slots=True)
class _Factor:
    """A known factor of a value.

    Attributes:
        number: the factor.
        rest: what it is multiplied by.
        path: the operations from the value to the product with the factor, each with the operand that leads there.
    """

    number: float
    rest: Value
    path: tuple[tuple[Operation, int], ...]

    @property
    def is_movable(self) -> bool:
        return abs(math.frexp(self.number)[0]) == 0.5 and 1 / _LARGEST <= abs(self.number) <= _LARGEST


def join_factors(function: Function) -> bool:
    """Join known factors; return whether there were any."""
    joiner = _Joiner(function)
    return rewrite(function, {"multiply": (joiner.join,)})


class _Joiner:
    def __init__(self, function: Function) -> None:
        self.uses = uses(function.body)
        self.blocks: dict[Operation, Block] = {}
        for block in [function.body, *(b for o in walk(function.body) for b in o.blocks)]:
            self.blocks.update(dict.fromkeys(block.operations, block))

    def join(self, operation: Operation, builder: Builder) -> Value | None:
        """Return the product with one known factor where it had two."""
        kind = operation.result.array_type
        if not is_float(kind.dtype) or kind.dtype.itemsize < 4:
            return None
        own = _own_factor(operation)
        if own is not None:
            inner = self.find(own.rest, builder.block)
            return None if inner is None else self.multiplied(own, inner, builder)
        found = [self.find(v, builder.block) for v in operation.operands]
        first, second = found
        if first is None or second is None:
            return None
        # the factor stays where it is multiplied by less
        away = 0 if first.is_movable and (not second.is_movable or _rank(second) < _rank(first)) else 1
        moved, kept = (first, second) if away == 0 else (second, first)
        if not moved.is_movable:
            return None
        number = moved.number * kept.number
        if not _is_safe(number):
            return None
        operands = [self.rebuilt(moved, 1.0, builder), self.rebuilt(kept, number, builder)]
        return self.made("multiply", operands if away == 0 else operands[::-1], operation, builder)

    def multiplied(self, own: _Factor, inner: _Factor, builder: Builder) -> Value | None:
        number = own.number * inner.number
        if not _is_safe(number):
            return None
        if own.is_movable:
            return self.rebuilt(inner, number, builder)
        return self.scaled(self.rebuilt(inner, 1.0, builder), number, builder) if inner.is_movable else None

    def find(self, value: Value, block: Block) -> _Factor | None:
        """Return a known factor of a value that is computed in a block for one use."""
        path: tuple[tuple[Operation, int], ...] = ()
        waiting = [(value, path)]
        while waiting:
            value, path = waiting.pop(0)
            made = value.producer
            if made is None or made.op not in _PASSING or len(path) == _FARTHEST:
                continue
            if self.uses.get(value, 0) != 1 or value.name or self.blocks.get(made) is not block:
                continue
            own = _own_factor(made) if made.op == "multiply" else None
            if own is not None:
                return _Factor(own.number, own.rest, path)
            waiting += [(made.operands[k], (*path, (made, k))) for k in _PASSING[made.op]]
        return None

    def rebuilt(self, factor: _Factor, number: float, builder: Builder) -> Value:
        """Return the value with another number in the place of its factor."""
        value = self.scaled(factor.rest, number, builder)
        for operation, position in reversed(factor.path):
            operands = [*operation.operands[:position], value, *operation.operands[position + 1 :]]
            value = self.made(operation.op, operands, operation, builder)
        return value

    def scaled(self, value: Value, number: float, builder: Builder) -> Value:
        if number == 1.0:
            return value
        kind = value.array_type
        filled = TABLE["full"](shape=kind.shape, dtype=kind.dtype, value=number)
        assert isinstance(filled, Value), "an operation of one result"
        return self.made("multiply", [filled, value], None, builder)

    def made(self, op: str, operands: list[Value], like: Operation | None, builder: Builder) -> Value:
        attrs = like.attrs if like is not None else {}
        value = TABLE[op](*operands, **attrs)
        assert isinstance(value, Value) and value.producer is not None, "an operation of one result"
        self.blocks[value.producer] = builder.block
        self.uses[value] = 1
        return value


def _own_factor(product: Operation) -> _Factor | None:
    """Return the factor of a product that is one known number, never zero."""
    x, y = product.operands
    for factor, rest in ((x, y), (y, x)):
        number = filled_number(factor)
        if number and math.isfinite(number) and filled_number(rest) is None:
            return _Factor(number, rest, ())
    return None


def _is_safe(number: float) -> bool:
    """Return whether a factor is exact in single precision if the two that it is made of are."""
    return 1e-30 < abs(number) < 1e30


def _rank(factor: _Factor) -> int:
    assert isinstance(factor.rest.type, ArrayType), "factors are arrays"
    return len(factor.rest.shape)
