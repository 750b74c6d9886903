"""Cotangents that a choice makes zero: which ones they are, and how they stay zero whatever they are multiplied with.

Reads IR; stages ops through the current interpreter. Previous: ranges.py; next: residuals.py.

`np.where(np.isnan(y), 0.0, (y - mu) ** 2)` hides missing data, so the cotangent of the square is zero where y is NaN,
and there its product with the partial 2 * (y - mu) must be zero too. The choice moves to the end of the product:

    ct = where(isnan(y), 0, ct) * (2 * (y - mu))    becomes    ct = where(isnan(y), 0, ct * (2 * (y - mu)))

What a loop, a branch or a write leaves zero is found by activity.py; no infinite or NaN data are expected there, but
for the numbers of a loop, which may overflow before the function takes another path, `if abs(x) > 1e6: return 1e6`.
There the whole cotangent of what the loop computes is zero. So the results of its reverse are dropped, by one test.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value, free_values, walk
from tracegrad.ir.nouns import DROPPED
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType, is_inexact
from tracegrad.ir.writes import is_filled_with
from tracegrad.ops import (
    broadcast_to,
    equal,
    isfinite,
    keep_zero,
    logical_and,
    logical_not,
    multiply,
    reduce_all,
    reshape,
    scaled,
    select,
    zeros_like,
)
from tracegrad.transform.activity import Activity
from tracegrad.transform.ranges import Ranges, make_guard

#: how a cotangent can be zero by choice: not at all, where a comparison of differentiated numbers decides, or where
#: something decides that can tell missing data: a test for NaN, given data
FULL, KINK, MISSING = 0, 1, 2

#: a cotangent that is zero by more conditions gets one for all of them
_FEW_CONDITIONS = 4
#: linear ops that move elements and apply to a condition as to a cotangent
_MOVES = frozenset({"broadcast_to", "reshape", "transpose", "slice", "flip"})
#: ops that keep the zeros of the first operand
_PRODUCTS = frozenset({"multiply", "divide"})
#: ops of whose operand some elements reach the result whole, the others not at all, so that NaN is ignored there
_IGNORING = frozenset({"fmax", "fmin"})
#: ops whose partial by one operand is the other
_BILINEAR = frozenset({"multiply", "dot_general"})
#: ops of whose operands one reaches the result, the others not at all
_EXTREMES = frozenset({"maximum", "minimum", "relu"})
_NAN_TESTS = frozenset({"isnan", "isfinite", "isinf"})
_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})


@dataclass(frozen=True, slots=True)
class _Reach:
    """Where a cotangent arrives.

    Attributes:
        kind: FULL, KINK or MISSING.
        parts: conditions, with the value they have where the cotangent surely arrives.
        whole: whether it may be zero, but then all of it, since the choice is between paths; a kind of FULL does not
            count such zeros.
    """

    kind: int
    parts: frozenset[tuple[Value, bool]] = frozenset()
    whole: bool = False

    def __or__(self, other: _Reach) -> _Reach:
        """Return where one of two contributions arrives."""
        whole = self.whole and other.whole
        parts = self.parts | other.parts
        if FULL in (self.kind, other.kind) or any((c, not side) in parts for c, side in parts):
            return _Reach(FULL, whole=whole)
        return _Reach(max(self.kind, other.kind), parts, whole)

    def __and__(self, other: _Reach) -> _Reach:
        """Return where a contribution arrives of which it is open whether it is this one or the other."""
        if self.kind == other.kind == FULL:
            return replace(self, whole=self.whole or other.whole)
        parts = self.parts & other.parts if FULL not in (self.kind, other.kind) else self.parts | other.parts
        whole = all(reach.whole or reach.kind == FULL for reach in (self, other))
        return _Reach(max(self.kind, other.kind), parts, whole)


@dataclass(frozen=True, slots=True)
class Masks:
    """What choices make zero.

    Attributes:
        kinds: the active values whose cotangent is zero by choice in places, with KINK or MISSING.
        avoided: loops whose results may all have a cotangent of zero, since another path was taken.
    """

    kinds: dict[Value, int]
    avoided: set[Operation]


def find_masked(function: Function, active: set[Value], seeds: Iterable[Value]) -> Masks:
    """Find which cotangents of active values are zero by choice, given the results that cotangents come from."""
    return _MaskAnalysis(function, active).run(seeds)


class _MaskAnalysis:
    """Walks blocks backwards and finds the cotangents that only choices contribute to."""

    def __init__(self, function: Function, active: set[Value]) -> None:
        self.function, self.active = function, active
        self.params = set(function.params)
        self.masked: dict[Value, int] = {}
        self.avoided: set[Operation] = set()
        self.stacks: dict[Value, _Reach] = {}
        self.depth = 0

    def run(self, seeds: Iterable[Value]) -> Masks:
        while True:
            before = dict(self.stacks)
            self.masked.clear()
            self.avoided.clear()
            reached: dict[Value, _Reach] = {}
            for seed in seeds:
                self.contribute(reached, seed, _Reach(FULL))
            self.block(self.function.body, reached)
            if self.stacks == before:
                return Masks(self.masked, self.avoided)

    def contribute(self, reached: dict[Value, _Reach], value: Value, reach: _Reach | None) -> None:
        if value in self.active and reach is not None:
            reached[value] = reached[value] | reach if value in reached else reach

    def block(self, block: Block, reached: dict[Value, _Reach]) -> None:
        """Go from where the yields are reached (already in `reached`) to parameters and free values of a block."""
        for operation in reversed(block.operations):
            for result in operation.results:
                if result in reached and reached[result].kind != FULL:
                    self.masked[result] = max(self.masked.get(result, FULL), reached[result].kind)
            match operation.op:
                case "if":
                    self.branches(operation, reached)
                case "for" | "while":
                    self.loop(operation, reached)
                case "push":
                    stack, value = operation.operands
                    self.contribute(reached, value, self.stacks.get(stack))
                case "pop":
                    if operation.result in reached:
                        stack, found = operation.operands[0], reached[operation.result]
                        self.stacks[stack] = self.stacks[stack] & found if stack in self.stacks else found
                case _:
                    self.plain(operation, reached)

    def plain(self, operation: Operation, reached: dict[Value, _Reach]) -> None:
        found = [reached[r] for r in operation.results if r in reached]
        if not found:
            return
        reach = found[0]
        for other in found[1:]:
            reach = reach & other
        op = TABLE[operation.op]
        if operation.op == "select":
            condition, x, y = operation.operands
            self.contribute(reached, x, self.chosen(reach, condition, True))
            self.contribute(reached, y, self.chosen(reach, condition, False))
            return
        if operation.op in _IGNORING:
            reach = _Reach(MISSING, whole=operation.result.array_type.ndim == 0)
        elif operation.op in _EXTREMES and operation.result.array_type.ndim == 0:
            reach = replace(reach, whole=True)
        elif operation.op == "dot_general" and reach.kind == KINK:
            reach = _Reach(FULL, whole=reach.whole)  # rows of an intermediate result seldom all lie on one side
        elif not op.elementwise:
            reach = replace(reach, parts=frozenset())
        for operand in operation.operands:
            self.contribute(reached, operand, reach)

    def chosen(self, reach: _Reach, condition: Value, side: bool) -> _Reach:
        kind = max(reach.kind, self.kind_of(condition))
        condition, side = _without_negation(condition, side)
        whole = condition.array_type.ndim == 0
        if reach.kind == FULL or reach.parts == {(condition, side)}:
            return _Reach(kind, frozenset({(condition, side)}), whole)
        return _Reach(kind, whole=whole and reach.whole)

    def kind_of(self, condition: Value) -> int:
        """Return MISSING when a condition can tell missing data, KINK for comparisons of differentiated numbers."""
        seen: set[Value] = set()
        waiting = [condition]
        given = False
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            operation = value.producer
            if operation is None:
                given |= value in self.params
            elif operation.op in _NAN_TESTS:
                return MISSING
            elif operation.op in _COMPARISONS:
                x, y = operation.operands
                if x is y and is_inexact(x.dtype):
                    return MISSING
                if x not in self.active and y not in self.active:
                    waiting.extend(operation.operands)
            elif not operation.blocks:
                waiting.extend(v for v in operation.operands if isinstance(v.type, ArrayType))
        return MISSING if given else KINK

    def branches(self, operation: Operation, reached: dict[Value, _Reach]) -> None:
        parts: list[dict[Value, _Reach]] = []
        for block in operation.blocks:
            part: dict[Value, _Reach] = {}
            for out, result in zip(block.yields, operation.results, strict=True):
                self.contribute(part, out, reached.get(result))
            self.block(block, part)
            parts.append(part)
        tests_nan = self.kind_of_branch(operation.operands[0]) == MISSING
        for value in {**parts[0], **parts[1]}:
            pair = [part[value] for part in parts if value in part]
            if len(pair) == 2:
                reach = pair[0] & pair[1]
            else:
                whole = pair[0].whole or pair[0].kind == FULL
                reach = _Reach(MISSING, whole=whole) if tests_nan else replace(pair[0], whole=whole)
            self.contribute(reached, value, reach)

    def kind_of_branch(self, condition: Value) -> int:
        operation = condition.producer
        while operation is not None and operation.op == "logical_not":
            operation = operation.operands[0].producer
        if operation is None or operation.op in _COMPARISONS:
            same = operation is not None and operation.operands[0] is operation.operands[1]
            return MISSING if same else KINK
        if operation.op in _NAN_TESTS:
            return MISSING
        if operation.op in ("logical_and", "logical_or", "reduce_any", "reduce_all"):
            return max(self.kind_of_branch(v) for v in operation.operands)
        return KINK

    def loop(self, operation: Operation, reached: dict[Value, _Reach]) -> None:
        body = operation.blocks[-1]
        first, shift = (2, 1) if operation.op == "for" else (0, 0)
        params, inits = body.params[shift:], operation.operands[first:]
        carried = [reached.get(result) for result in operation.results]
        if self.is_avoided(operation, carried):
            self.avoided.add(operation)
            carried = [None if reach is None else _Reach(FULL) for reach in carried]
        self.depth += 1
        while True:
            part: dict[Value, _Reach] = {}
            for out, reach in zip(body.yields, carried, strict=True):
                self.contribute(part, out, reach)
            self.block(body, part)
            again = [_either(reach, part.get(param)) for reach, param in zip(carried, params, strict=True)]
            if again == carried:
                break
            carried = again
        self.depth -= 1
        for value, reach in part.items():
            self.contribute(reached, value, reach)
        for init, reach in zip(inits, carried, strict=True):
            self.contribute(reached, init, reach)

    def is_avoided(self, operation: Operation, carried: Sequence[_Reach | None]) -> bool:
        """Return whether the cotangents of a loop's results are all zero where they are zero by choice.

        Cotangents that reach it through stacks as well may be others. In another loop, arrays of cotangents that this
        one adds to would be copied in each iteration, to have them as they were before.
        """
        found = [reach for reach in carried if reach is not None]
        if not found or not all(reach.whole for reach in found):
            return False
        body = operation.blocks[-1]
        if any(o.op in ("push", "pop") and o.operands[0] in self.active for o in walk(body)):
            return False
        if not self.grows(body, {param for param in body.params if param in self.active}):
            return False
        outer = (v for v in free_values(body) if v in self.active and isinstance(v.type, ArrayType))
        return not (self.depth and any(v.array_type.ndim for v in outer))

    def grows(self, block: Block, carried: set[Value]) -> bool:
        """Return whether partials in the body of a loop are made of numbers that the iterations before have computed.

        Args:
            carried: such numbers; those that the block computes of them are added.
        """
        for operation in block.operations:
            if any(v in carried for v in operation.operands):
                carried.update(v for nested in operation.blocks for v in nested.params if v in self.active)
            if any(self.grows(nested, carried) for nested in operation.blocks):
                return True
            read = [*operation.operands, *(v for nested in operation.blocks for v in nested.yields)]
            if operation.op == "push" or carried.isdisjoint(read):
                continue
            op = TABLE[operation.op]
            if operation.op in _BILINEAR:
                if all(v in self.active for v in operation.operands):
                    return True
            elif op.partials is not None:
                return True
            carried.update(v for v in operation.results if v in self.active)
        return False


def _either(x: _Reach | None, y: _Reach | None) -> _Reach | None:
    return y if x is None else x if y is None else x & y


def _without_negation(condition: Value, side: bool) -> tuple[Value, bool]:
    while condition.producer is not None and condition.producer.op == "logical_not":
        condition, side = condition.producer.operands[0], not side
    return condition, side


# ---- choices at the end of products


@dataclass(frozen=True, slots=True)
class Masked:
    """A cotangent as choices: `kept` where all conditions have their side, zero elsewhere."""

    conditions: tuple[tuple[Value, bool], ...]
    kept: Value
    origin: Value

    def around(self, value: Value) -> Value:
        """Stage the choices between a value and zero."""
        for condition, side in reversed(self.conditions):
            zero = zeros_like(value)
            value = select(condition, value, zero) if side else select(condition, zero, value)
        return value


class Choices:
    """Finds the choices in what the builder stages, each value once for a block, so that a chain of n is not staged n
    times."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.found: dict[tuple[Block, Value], Masked | None] = {}

    def find(self, value: Value) -> Masked | None:
        """Return a value as choices between something and zero, moved to the end of what was done to them since."""
        key = (self.builder.block, value)
        if key not in self.found:
            self.found[key] = self._look(value)
        return self.found[key]

    def _look(self, value: Value) -> Masked | None:
        operation = value.producer
        if operation is None:
            return None
        if operation.op == "select":
            condition, x, y = operation.operands
            for side, kept, other in ((True, x, y), (False, y, x)):
                if is_filled_with(other, 0):
                    inner = self.find(kept) or Masked((), kept, kept)
                    pair = (condition, side)
                    conditions = (pair, *(c for c in inner.conditions if c != pair))
                    return replace(inner, conditions=_few(conditions))
            return None
        if operation.op == "keep_zero":
            found = self.find(operation.operands[1])
            return None if found is None else replace(found, kept=keep_zero(operation.operands[0], found.kept))
        if operation.op not in (*_MOVES, *_PRODUCTS, "negative", "conjugate"):
            return None
        found = self.find(operation.operands[0])
        if found is None:
            return None
        conditions = found.conditions
        if operation.op in _MOVES:
            conditions = tuple((_staged(operation, c), side) for c, side in conditions)
        return replace(found, conditions=conditions, kept=_staged(operation, found.kept))


def _few(conditions: tuple[tuple[Value, bool], ...]) -> tuple[tuple[Value, bool], ...]:
    """Return conditions, or one that says the same as many."""
    if len(conditions) <= _FEW_CONDITIONS:
        return conditions
    parts = [condition if side else logical_not(condition) for condition, side in conditions]
    return ((functools.reduce(logical_and, parts), True),)


def _staged(operation: Operation, value: Value) -> Value:
    """Stage an operation once more, with another first operand."""
    result = TABLE[operation.op](value, *operation.operands[1:], **operation.attrs)
    assert isinstance(result, Value)
    return result


def add_choices(x: Value, y: Value, add: Callable[[Value, Value], Value]) -> Value | None:
    """Return the sum of two values that one condition chooses as one choice, or None."""
    a, b = x.producer, y.producer
    if a is None or b is None or a.op != "select" or b.op != "select" or a.operands[0] is not b.operands[0]:
        return None
    pairs = list(zip(a.operands[1:], b.operands[1:], strict=True))
    if not any(is_filled_with(v, 0) or is_filled_with(w, 0) for v, w in pairs):
        return None
    parts = [w if is_filled_with(v, 0) else v if is_filled_with(w, 0) else add(v, w) for v, w in pairs]
    result = select(a.operands[0], *parts)
    assert isinstance(result, Value)
    return result


class ZeroGuard:
    """Multiplies cotangents with partials so that a zero cotangent gives zero.

    Args:
        builder: stages the products.
        activity: says which cotangents can be zero for another reason than a choice.
        masks: says which are zero by choice.
    """

    def __init__(self, builder: Builder, function: Function, activity: Activity, masks: Masks) -> None:
        masked = masks.kinds
        self.choices = Choices(builder)
        self.ranges = Ranges(function, exposed=activity.exposed)
        self.data = Ranges(function, missing=True) if masked else self.ranges
        self.may_be_zero, self.masked = activity.may_be_zero, masked
        self.singular_sure: set[Value] = set()
        self.missing_sure: set[Value] = set()

    def note(self, result: Value, ct: Value) -> None:
        """Keep in mind what is known of the cotangent of a result."""
        if result not in self.may_be_zero:
            self.singular_sure.add(ct)
        if result not in self.masked:
            self.missing_sure.add(ct)

    def product(self, operation: Operation) -> Callable[[int, Value, Value], Any]:
        """Return the function that multiplies the cotangent of the result with the partial by the n-th operand."""
        result = operation.result
        kind = self.masked.get(result, FULL)
        is_singular = make_guard(self.ranges, operation)

        def multiply_guarded(position: int, ct: Value, partial: Value) -> Any:
            singular = result in self.may_be_zero and is_singular(position, partial)
            missing = kind != FULL and self.data.may_be_infinite(partial)
            if not (singular or missing):
                return multiply(ct, partial)
            choice = self.choices.find(ct)
            if choice is None:
                return scaled(ct, partial, singular or kind == MISSING)
            unsure = (singular and not _is_sure(choice.origin, self.singular_sure)) or (
                missing and kind == MISSING and not _is_sure(choice.origin, self.missing_sure)
            )
            return scaled(ct, partial, True) if unsure else choice.around(multiply(choice.kept, partial))

        return multiply_guarded

    def operands(self, operation: Operation, ct: Value | None) -> Sequence[Value]:
        """Return the operands for the rule of an operation.

        Those of a product of arrays are zero where they meet only zeros of the cotangent that stand for missing data.
        """
        if ct is None or operation.op != "dot_general" or self.masked.get(operation.result, FULL) != MISSING:
            return operation.operands
        contract, batch = operation.attrs["contract"], operation.attrs["batch"]
        ndims = [v.array_type.ndim for v in operation.operands]
        free = [[a for a in range(n) if a not in (*c, *b)] for n, c, b in zip(ndims, contract, batch, strict=True)]
        stack = len(batch[0])
        places = (range(stack, stack + len(free[0])), range(stack + len(free[0]), ct.array_type.ndim))
        choice = self.choices.find(ct)
        guarded: list[Value] = []
        for k, operand in enumerate(operation.operands):
            lone = not (free[k] or batch[k]) and free[1 - k]  # zero only if the whole cotangent is
            if lone or not self.data.may_be_infinite(operand):
                guarded.append(operand)
                continue
            zero = _zeros_of(ct, choice)
            others = tuple(places[1 - k])
            if others:
                zero = reduce_all(zero, axes=others)
            zero = _spread(zero, (*batch[k], *free[k]), operand)
            if choice is None:
                zero = logical_and(zero, _not_finite(operand))
                zero.noun = DROPPED
            guarded.append(select(zero, zeros_like(operand), operand))
        return guarded

    def outside(self, operation: Operation, ct: Value | None) -> Masked | None:
        """Return the choice that a rule without partials is applied inside of, or None.

        The rule gets what the choice keeps; the choices of the result are about elements of the operands.
        """
        op = TABLE[operation.op]
        if ct is None or op.partials is not None or op.transpose is not None or len(operation.results) != 1:
            return None
        reduces = "axes" in operation.attrs and len(operation.operands) == 1
        if self.masked.get(operation.result, FULL) == FULL or not (op.elementwise or reduces):
            return None
        choice = self.choices.find(ct)
        if choice is None or not reduces:
            return choice
        operand = operation.operands[0]
        rest = [a for a in range(operand.array_type.ndim) if a not in operation.attrs["axes"]]
        return replace(choice, conditions=tuple((_spread(c, rest, operand), side) for c, side in choice.conditions))


def _zeros_of(ct: Value, choice: Masked | None) -> Any:
    if choice is None:
        found = equal(ct, zeros_like(ct))
        found.noun = "is_zero"
        return found
    zero: Any = None
    for condition, side in choice.conditions:
        part = logical_not(condition) if side else condition
        zero = part if zero is None else TABLE["logical_or"](zero, part)
    return zero


def _not_finite(value: Value) -> Any:
    found = logical_not(isfinite(value))
    found.noun = "not_finite"
    return found


def _spread(condition: Any, axes: Sequence[int], target: Value) -> Any:
    """Repeat a condition over the axes of `target` that are not in `axes`, which are its own axes in order."""
    order = sorted(range(len(axes)), key=lambda k: axes[k])
    if order != list(range(len(axes))):
        condition = TABLE["transpose"](condition, axes=tuple(order))
    shape = tuple(dim if a in axes else 1 for a, dim in enumerate(target.shape))
    return broadcast_to(reshape(condition, shape=shape), shape=target.shape)


def _is_sure(value: Value, known: set[Value], limit: int = 8) -> bool:
    """Return whether a value is a cotangent in `known`, a number, or made of one by products and sums."""
    operation = value.producer
    if value in known:
        return True
    if operation is None or limit == 0:
        return False
    if operation.op == "full":
        return bool(operation.attrs["value"] != 0)
    if operation.op not in (*_MOVES, *_PRODUCTS, "keep_zero", "add", "subtract", "negative", "conjugate"):
        return False
    count = 2 if operation.op in ("add", "subtract") else 1
    return any(_is_sure(v, known, limit - 1) for v in operation.operands[:count])
