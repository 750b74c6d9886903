"""Whether a function is linear in some of its parameters, as far as its operations show: for rules in forward mode.

Reads IR, writes nothing. Previous: jacobian.py; next: batch.py.

Reverse mode transposes the tangents that such a rule makes, which is only right where they are linear in those given.
What is not visible counts as linear: a rule may cut a linear part out of a larger array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from tracegrad.errors import Span
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import is_inexact
from tracegrad.ir.writes import filled_number, is_filled_with


class Degree(Enum):
    """How a value depends on the tangents."""

    ZERO = "zero"
    FREE = "not at all"
    LINEAR = "linear"
    NONLINEAR = "not linear"
    MIXED = "a sum or an array of parts that depend in different ways"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a result is not linear.

    Attributes:
        result: its position.
        reason: what was found, in the user's terms.
        span: the line that made it so, if one did.
    """

    result: int
    reason: str
    span: Span | None


def find_nonlinear(function: Function, wrt: Sequence[int], results: Iterable[int]) -> Fault | None:
    """Return the first of some results that is not linear in the parameters `wrt`; None where none is seen to be so."""
    analysis = _Linearity()
    degrees = [Degree.LINEAR if k in wrt else Degree.FREE for k in range(len(function.params))]
    found = analysis.function(function, degrees)
    for position in results:
        value = function.results[position]
        match found[position]:
            case Degree.FREE:
                return Fault(position, "it does not depend on the tangents, and is not zero", _span(value))
            case Degree.NONLINEAR | Degree.MIXED:
                reason, span = analysis.origins[value]
                return Fault(position, reason, span)
    return None


def _span(value: Value) -> Span | None:
    return value.producer.span if value.producer is not None else None


#: linear ops through which a part that is not linear always shows
_UNIFORM = frozenset({"negative", "reshape", "transpose", "broadcast_to", "barrier", "flip", "conjugate", "reduce_sum"})
_SUMS = frozenset({"add", "subtract", "add_slice", "scatter_add"})
_BILINEAR = frozenset({"multiply", "dot_general"})
#: ops that are linear in operand 1 alone
_LINEAR_IN_SECOND = frozenset({"solve", "triangular_solve", "linear_recurrence"})
_TESTS = frozenset({"isnan", "isinf", "isfinite"})
_CONJUNCTIONS = frozenset({"logical_and", "bitwise_and"})
_CALLS = frozenset({"call", "custom_jvp", "custom_vjp", "checkpoint"})
_EXTREMES = frozenset({"reduce_max", "reduce_min", "reduce_prod"})


class _Linearity:
    """Follows degrees through blocks; those of loops and stacks until they stay the same."""

    def __init__(self) -> None:
        self.degrees: dict[Value, Degree] = {}
        #: of values that are not linear: the reason, and where
        self.origins: dict[Value, tuple[str, Span | None]] = {}
        self.running: list[Function] = []

    def function(self, function: Function, degrees: Sequence[Degree]) -> list[Degree]:
        self.degrees.update(zip(function.params, degrees, strict=True))
        self.running.append(function)
        before: dict[Value, Degree] | None = None
        while before != self.degrees:  # a stack may be read before it is filled, in a loop
            before = dict(self.degrees)
            self.block(function.body)
        self.running.pop()
        return [self.degree(v) for v in function.results]

    def degree(self, value: Value) -> Degree:
        return self.degrees.get(value, Degree.FREE)

    def block(self, block: Block) -> None:
        for operation in block.operations:
            match operation.op:
                case "if":
                    self.branches(operation)
                case "for":
                    self.loop(operation, operation.operands[2:], operation.blocks[0].params[1:])
                case "while":
                    self.loop(operation, operation.operands, operation.blocks[1].params)
                case "stack":
                    self.degrees.setdefault(operation.result, Degree.ZERO)
                case "push":
                    stack, value = operation.operands
                    self.merge(stack, self.degree(value), operation, [value])
                case "pop":
                    self.set(operation.result, self.degree(operation.operands[0]), operation, operation.operands)
                case op if op in _CALLS:
                    self.call(operation)
                case _:
                    self.plain(operation)

    # ---- degrees of results

    def set(
        self, value: Value, degree: Degree, operation: Operation, sources: Sequence[Value], reason: str = ""
    ) -> None:
        """Note the degree of a value, and why it is not linear: for the reason of a source, or of this operation."""
        self.degrees[value] = degree
        if degree not in (Degree.NONLINEAR, Degree.MIXED):
            self.origins.pop(value, None)
            return
        inherited = [self.origins[v] for v in sources if v in self.origins]
        self.origins[value] = inherited[0] if inherited else (reason or _reason(operation, degree), operation.span)

    def merge(self, value: Value, degree: Degree, operation: Operation, sources: Sequence[Value]) -> None:
        """Add what a value is in another iteration."""
        kinds = {self.degrees.get(value, Degree.ZERO), degree}
        is_certain = Degree.NONLINEAR in kinds and kinds.isdisjoint((Degree.MIXED, Degree.UNKNOWN))
        joined = Degree.NONLINEAR if is_certain else _joined([*kinds])
        self.set(value, joined, operation, [value, *sources])

    def plain(self, operation: Operation) -> None:
        degree = self.result_degree(operation)
        for result in operation.results:
            self.set(result, degree, operation, operation.operands)

    def result_degree(self, operation: Operation) -> Degree:
        op, operands = operation.op, operation.operands
        degrees = [self.degree(v) for v in operands]
        if op in ("constant", "full", "undefined"):
            return Degree.ZERO if op == "undefined" or is_filled_with(operation.result, 0) else Degree.FREE
        if op == "select" and degrees[0] is Degree.ZERO:
            return degrees[2]
        if op in _SUMS or op in ("set_slice", "scatter_set", "concatenate", "select"):
            indices = [self.degree(v) for v in operands if not is_inexact(v.dtype)]
            moved = [self.degree(v) for v in operands if is_inexact(v.dtype)]
            chosen = _as_choice(indices, _joined(moved) if moved else Degree.FREE)
            difference = op == "subtract" and degrees == [Degree.MIXED, Degree.MIXED]
            return Degree.UNKNOWN if difference else chosen
        if op in _BILINEAR:
            return self.product(operation, degrees[0], degrees[1])
        if op == "divide":
            below = _nonlinear([degrees[1]])
            return below if below is not Degree.FREE else self.product(operation, degrees[0], Degree.FREE)
        if op in _LINEAR_IN_SECOND:
            return self.product(operation, _nonlinear([degrees[0]]), degrees[1])
        if op == "callback":
            return Degree.FREE if _nonlinear(degrees) is Degree.FREE else Degree.UNKNOWN
        if op == "keep_zero":
            return degrees[1]
        if op in _TESTS and degrees[0] is Degree.LINEAR:  # tangents are finite
            return Degree.ZERO if op != "isfinite" else Degree.FREE
        if op in _CONJUNCTIONS and Degree.ZERO in degrees:
            return Degree.ZERO
        if op == "power" and filled_number(operands[1]) == 1:
            return degrees[0]
        if op in _UNIFORM or op == "gather" or (TABLE[op].transpose is not None and _stays_inexact(operation)):
            moved_degree = degrees[0]
            if moved_degree is Degree.MIXED and op not in _UNIFORM:
                moved_degree = Degree.UNKNOWN
            return _as_choice(degrees[1:], moved_degree)
        if op in _EXTREMES and all(operands[0].shape[axis] == 1 for axis in operation.attrs["axes"]):
            return degrees[0]
        return _nonlinear(degrees)

    def product(self, operation: Operation, x: Degree, y: Degree) -> Degree:
        if Degree.ZERO in (x, y):
            return Degree.ZERO
        if Degree.FREE in (x, y):
            position = 0 if x is Degree.FREE else 1
            other = (x, y)[1 - position]
            is_scale = (
                operation.op in ("multiply", "divide") and filled_number(operation.operands[position]) is not None
            )
            return Degree.UNKNOWN if other is Degree.MIXED and not is_scale else other
        return Degree.UNKNOWN if {x, y} & {Degree.MIXED, Degree.UNKNOWN} else Degree.NONLINEAR

    # ---- regions

    def branches(self, operation: Operation) -> None:
        for block in operation.blocks:
            self.block(block)
        condition = [self.degree(operation.operands[0])]
        for result, *outs in zip(operation.results, *(b.yields for b in operation.blocks), strict=True):
            same = outs[0] is outs[1]
            degree = self.degree(outs[0]) if same else _as_choice(condition, _joined([self.degree(v) for v in outs]))
            self.set(result, degree, operation, [operation.operands[0], *outs])

    def loop(self, operation: Operation, inits: Sequence[Value], params: Sequence[Value]) -> None:
        body = operation.blocks[-1]
        deciding: list[Value] = []
        if operation.op == "for":
            deciding = operation.operands[:2]
            self.set(body.params[0], _nonlinear([self.degree(v) for v in deciding]), operation, deciding)
        for param, init in zip(params, inits, strict=True):
            self.set(param, self.degree(init), operation, [init])
        before: list[Degree] = []
        while before != [self.degree(p) for p in params]:
            before = [self.degree(p) for p in params]
            self.block(body)
            for param, out in zip(params, body.yields, strict=True):
                self.merge(param, self.degree(out), operation, [out])
        if operation.op == "while":
            condition = operation.blocks[0]
            for param, carried in zip(condition.params, params, strict=True):
                self.set(param, self.degree(carried), operation, [carried])
            self.block(condition)
            deciding = condition.yields
        ends = [self.degree(v) for v in deciding]
        for result, param in zip(operation.results, params, strict=True):
            self.set(result, _as_choice(ends, self.degree(param)), operation, [*deciding, param])

    def call(self, operation: Operation) -> None:
        function: Function = operation.attrs["function"]
        degrees = [self.degree(v) for v in operation.operands]
        count = len(operation.results)
        if function in self.running or len(function.params) != len(degrees):
            found = [Degree.FREE if _nonlinear(degrees) is Degree.FREE else Degree.UNKNOWN] * count
        else:
            for param, operand in zip(function.params, operation.operands, strict=True):
                self.set(param, self.degree(operand), operation, [operand])
            found = self.function(function, degrees)[:count]
        for result, out, degree in zip(operation.results, function.results, found, strict=False):
            self.set(result, degree, operation, [out])


def _joined(degrees: Sequence[Degree]) -> Degree:
    """Return how an array depends on the tangents that has these parts, or is one of them."""
    kinds = set(degrees) - {Degree.ZERO}
    if Degree.UNKNOWN in kinds:
        return Degree.UNKNOWN
    if not kinds:
        return Degree.ZERO if degrees else Degree.FREE
    return kinds.pop() if len(kinds) == 1 else Degree.MIXED


def _nonlinear(degrees: Sequence[Degree]) -> Degree:
    """Return how a function that is not linear depends on the tangents, from how its operands do."""
    kinds = set(degrees)
    if not kinds.isdisjoint((Degree.MIXED, Degree.UNKNOWN)):
        return Degree.UNKNOWN
    return Degree.FREE if kinds <= {Degree.ZERO, Degree.FREE} else Degree.NONLINEAR


def _as_choice(deciding: Sequence[Degree], chosen: Degree) -> Degree:
    """Return how a value depends on the tangents that is chosen by conditions or indices."""
    by = _nonlinear(deciding)
    return chosen if by is Degree.FREE or chosen in (Degree.ZERO, Degree.UNKNOWN) else by


def _stays_inexact(operation: Operation) -> bool:
    return is_inexact(operation.result.dtype)


def _reason(operation: Operation, degree: Degree) -> str:
    if degree is Degree.MIXED:
        what = "is added to" if operation.op in _SUMS else "stands beside"
        return f"a term that is not linear in the tangents {what} others"
    return f"{operation.op} of tangents"
