"""Which values carry a derivative from the inputs to the results, and which cotangents can be exactly zero.

Reads IR, writes nothing. Next: residuals.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracegrad.ir.bounds import surely_runs
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.opdef import NONDIFF, TABLE
from tracegrad.ir.types import ArrayType, StackType, is_inexact

#: ops whose transpose leaves zeros in a cotangent, whatever comes in; by position of the operand, None for all
_ZERO_BORN: dict[str, tuple[int, ...] | None] = {
    "select": None,
    "gather": None,
    "slice": None,
    "scatter_set": (0,),
    "set_slice": (0,),
    "maximum": None,
    "minimum": None,
    "fmax": None,
    "fmin": None,
    "absolute": None,
    "reduce_max": None,
    "reduce_min": None,
    "cummax": None,
    "cummin": None,
    "cholesky": None,
    "triangular_solve": (0,),
}
#: ops whose partials can be infinite but whose result is finite for finite operands
_FINITE = frozenset({"arctan2", "hypot", "cbrt", "absolute"})
#: ops that only move elements, so that a mask stays a mask
_MOVES = frozenset({"broadcast_to", "reshape", "transpose", "slice", "flip", "gather", "negative", "conjugate"})


@dataclass(slots=True)
class Activity:
    """Result of the analysis.

    Attributes:
        active: values that depend smoothly on an input and on which a result depends smoothly.
        may_be_zero: active values whose cotangent can have elements that are exactly zero whatever the inputs are.
        may_be_infinite: values that can be infinite or NaN for finite parameters; masks may hide them.
    """

    active: set[Value]
    may_be_zero: set[Value]
    may_be_infinite: set[Value]


def carries_derivative(value: Value) -> bool:
    """Return whether values of this type can carry a derivative: inexact arrays, and stacks of these."""
    if isinstance(value.type, StackType):
        return is_inexact(value.type.element.dtype)
    return is_inexact(value.type.dtype)


def analyze_activity(
    function: Function, wrt: Iterable[Value], seeds: Sequence[Value], seeds_may_be_zero: bool
) -> Activity:
    """Find the active values between the parameters `wrt` and the results `seeds`, which receive cotangents."""
    forward: dict[Value, list[Value]] = {}
    backward: dict[Value, list[Value]] = {}
    singular: list[Value] = []
    for operation in walk(function.body):
        if any(TABLE[operation.op].singular) and operation.op not in _FINITE:
            singular.extend(operation.results)
        for source, target in _dependencies(operation):
            if carries_derivative(source) and carries_derivative(target):
                forward.setdefault(source, []).append(target)
                backward.setdefault(target, []).append(source)
    active = _reach(wrt, forward) & _reach(seeds, backward)
    may_be_zero = _ZeroAnalysis(active).run(function, seeds, seeds_may_be_zero)
    return Activity(active, may_be_zero, _reach(singular, forward))


def _reach(start: Iterable[Value], edges: dict[Value, list[Value]]) -> set[Value]:
    found: set[Value] = set()
    waiting = [v for v in start if carries_derivative(v)]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting.extend(edges.get(value, ()))
    return found


def _dependencies(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield (source, target) wherever a cotangent of target makes one of source."""
    match operation.op:
        case "if":
            for block in operation.blocks:
                yield from zip(block.yields, operation.results, strict=True)
        case "for" | "while":
            body = operation.blocks[-1]
            first, shift = (2, 1) if operation.op == "for" else (0, 0)
            for init, param, out, result in zip(
                operation.operands[first:], body.params[shift:], body.yields, operation.results, strict=True
            ):
                yield init, param
                yield out, param
                yield init, result
                yield out, result
        case "push":
            yield operation.operands[1], operation.operands[0]
        case "pop":
            yield operation.operands[0], operation.result
        case _:
            op = TABLE[operation.op]
            if op.marker is NONDIFF or op.effect:
                return
            for position, operand in enumerate(operation.operands):
                if op.partials is None or op.partials[position] is not None:
                    for result in operation.results:
                        yield operand, result


class _ZeroAnalysis:
    """Walks blocks backwards; a cotangent may be zero when all contributions to it may be, or when none arrives."""

    def __init__(self, active: set[Value]) -> None:
        self.active = active
        self.flagged: set[Value] = set()
        self.stacks: set[Value] = set()

    def run(self, function: Function, seeds: Sequence[Value], seeds_may_be_zero: bool) -> set[Value]:
        while True:
            before = len(self.stacks)
            state: dict[Value, bool] = {}
            for seed in seeds:
                self.contribute(state, seed, seeds_may_be_zero)
            self.block(function.body, state)
            if len(self.stacks) == before:
                return self.flagged

    def contribute(self, state: dict[Value, bool], value: Value, flag: bool) -> None:
        if value in self.active:
            state[value] = state.get(value, True) and flag

    def block(self, block: Block, state: dict[Value, bool]) -> None:
        """Carry flags from the yields (already in `state`) to the parameters and free values of a block."""
        for operation in reversed(block.operations):
            results = [r for r in operation.results if r in self.active]
            for result in results:
                if state.get(result, True):
                    self.flagged.add(result)
            match operation.op:
                case "if":
                    self.branches(operation, state)
                case "for" | "while":
                    self.loop(operation, state)
                case "push":
                    stack, value = operation.operands
                    self.contribute(state, value, stack in self.stacks)
                case "pop":
                    if operation.result in self.flagged:
                        self.stacks.add(operation.operands[0])
                case _ if results:
                    self.plain(operation, any(r in self.flagged for r in results), state)

    def plain(self, operation: Operation, flag: bool, state: dict[Value, bool]) -> None:
        born = _ZERO_BORN.get(operation.op, ())
        for position, operand in enumerate(operation.operands):
            zero = flag or born is None or position in born
            if operation.op == "multiply" and not zero:
                zero = _is_mask(operation.operands[1 - position])
            self.contribute(state, operand, zero)

    def branches(self, operation: Operation, state: dict[Value, bool]) -> None:
        parts: list[dict[Value, bool]] = []
        for block in operation.blocks:
            part: dict[Value, bool] = {}
            for out, result in zip(block.yields, operation.results, strict=True):
                if result in self.active:
                    self.contribute(part, out, result in self.flagged)
            self.block(block, part)
            inner = _inner(block)
            parts.append({v: f for v, f in part.items() if v not in inner})
        for value in {**parts[0], **parts[1]}:
            self.contribute(state, value, any(part.get(value, True) for part in parts))

    def loop(self, operation: Operation, state: dict[Value, bool]) -> None:
        body = operation.blocks[-1]
        first, shift = (2, 1) if operation.op == "for" else (0, 0)
        may_skip = not surely_runs(operation)
        params, inits = body.params[shift:], operation.operands[first:]
        entering = [result in self.flagged for result in operation.results]
        carried = entering
        active = [p in self.active or r in self.active for p, r in zip(params, operation.results, strict=True)]
        while True:
            part: dict[Value, bool] = {}
            for out, is_active, flag in zip(body.yields, active, carried, strict=True):
                if is_active:
                    self.contribute(part, out, flag)
            self.block(body, part)
            leaving = [part.get(param, True) for param in params]
            again = [a or b for a, b in zip(carried, leaving, strict=True)]
            if again == carried:
                break
            carried = again
        inner = _inner(body)
        for value, flag in part.items():
            if value not in inner:
                self.contribute(state, value, flag or may_skip)
        for is_active, init, at_start, at_end in zip(active, inits, leaving, entering, strict=True):
            if is_active:
                self.contribute(state, init, at_start or (may_skip and at_end))


def _inner(block: Block) -> set[Value]:
    values = set(block.params)
    for operation in walk(block):
        values.update(operation.results)
        for nested in operation.blocks:
            values.update(nested.params)
    return values


def _is_mask(value: Value) -> bool:
    """Return whether a float is made of zeros and ones, or steps: a cast bool, a rounding, a selection with a zero."""
    operation = value.producer
    if operation is None:
        return False
    if operation.op == "cast":
        source = operation.operands[0].type
        return isinstance(source, ArrayType) and not is_inexact(source.dtype)
    if operation.op == "constant":
        return bool(np.any(operation.attrs["value"] == 0))
    if operation.op == "full":
        return bool(operation.attrs["value"] == 0)
    if operation.op == "select":
        return any(_is_mask(v) for v in operation.operands[1:])
    if operation.op in ("multiply", "add", "subtract"):
        return any(_is_mask(v) for v in operation.operands)
    if operation.op in _MOVES:
        return _is_mask(operation.operands[0])
    return TABLE[operation.op].marker is NONDIFF and bool(operation.operands)
