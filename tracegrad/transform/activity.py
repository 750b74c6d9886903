"""Which values carry a derivative from the inputs to the results, and which cotangents can be exactly zero.

The iterations of a loop are followed from the last one back, until what they cover repeats: the state that only the
last iteration leaves unread has a cotangent in all others.

Reads IR, writes nothing. Next: ranges.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, TypeAlias

import numpy as np

from tracegrad.ir.bounds import size_guess, static_value, surely_runs
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.opdef import NONDIFF, TABLE
from tracegrad.ir.types import ArrayType, StackType, is_inexact, is_static
from tracegrad.ir.writes import filled_number

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
    "power": None,
    "keep_zero": None,
    "custom_vjp": None,
    "custom_jvp": None,
    "call": None,
    "checkpoint": None,
    "callback": None,
}
#: ops that only move elements, so that a mask stays a mask
_MOVES = frozenset(
    {"broadcast_to", "reshape", "transpose", "slice", "flip", "gather", "negative", "conjugate", "stop_gradient"}
)
#: arrays of at most so many elements are followed element by element
_MAX_MASK = 1024
#: so many iterations of a loop are told from one another
_MOST_ITERATIONS = 4
_Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
_Cover: TypeAlias = bool | np.bool_ | _Mask


@dataclass(slots=True)
class Activity:
    """Result of the analysis.

    Attributes:
        active: values that depend smoothly on an input and on which a result depends smoothly.
        may_be_zero: active values whose cotangent can have elements that are exactly zero whatever the inputs are.
        exposed: values from outside of loops and branches whose elements all reach a result, be it in some iterations
            of a loop only: where one of them is infinite, the result is not finite either.
    """

    active: set[Value]
    may_be_zero: set[Value]
    exposed: set[Value]


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
    masks: set[Value] = set()
    for operation in walk(function.body):
        if _makes_mask(operation, masks):
            masks.update(operation.results)
        for source, target in dependencies(operation):
            if carries_derivative(source) and carries_derivative(target):
                forward.setdefault(source, []).append(target)
                backward.setdefault(target, []).append(source)
    active = _reach(wrt, forward) & _reach(seeds, backward)
    may_be_zero = _ZeroAnalysis(active, masks).run(function, seeds, seeds_may_be_zero)
    hidden = _ZeroAnalysis(active, masks, in_any_iteration=True).run(function, seeds, seeds_may_be_zero)
    outside = {result for operation in function.body.operations for result in operation.results}
    return Activity(active, may_be_zero, (active & outside) - hidden)


def _reach(start: Iterable[Value], edges: dict[Value, list[Value]]) -> set[Value]:
    found: set[Value] = set()
    waiting = [v for v in start if carries_derivative(v)]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting.extend(edges.get(value, ()))
    return found


def dependencies(operation: Operation) -> Iterator[tuple[Value, Value]]:
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
    """Walks blocks backwards and finds the cotangents with elements to which no contribution arrives that is not zero.

    Of each value it keeps which elements are covered by such contributions: True or False for all, or a mask. A small
    array that is read element by element, or slice by slice, is covered by all readers together.

    Args:
        in_any_iteration: whether a contribution in some iterations of a loop, under a condition perhaps, counts for
            what enters the loop.
    """

    def __init__(self, active: set[Value], masks: set[Value], *, in_any_iteration: bool = False) -> None:
        self.active, self.masks, self.in_any_iteration = active, masks, in_any_iteration
        self.loops = 0
        self.uncovered: set[Value] = set()
        self.stacks: set[Value] = set()

    def run(self, function: Function, seeds: Sequence[Value], seeds_may_be_zero: bool) -> set[Value]:
        while True:
            before = len(self.stacks)
            covered: dict[Value, _Cover] = {}
            for seed in seeds:
                self.contribute(covered, seed, not seeds_may_be_zero)
            self.block(function.body, covered)
            if len(self.stacks) == before:
                return self.uncovered

    def contribute(self, covered: dict[Value, _Cover], value: Value, cover: _Cover) -> None:
        if value in self.active:
            covered[value] = covered.get(value, False) | cover

    def block(self, block: Block, covered: dict[Value, _Cover]) -> None:
        """Go from what the yields cover (already in `covered`) to parameters and free values of a block."""
        for operation in reversed(block.operations):
            results = [r for r in operation.results if r in self.active]
            self.uncovered.update(r for r in results if not np.all(covered.get(r, False)))
            match operation.op:
                case "if":
                    self.branches(operation, covered)
                case "for" | "while":
                    self.loop(operation, covered)
                case "push":
                    stack, value = operation.operands
                    self.contribute(covered, value, stack not in self.stacks)
                case "pop":
                    if operation.result in self.uncovered:
                        self.stacks.add(operation.operands[0])
                case _ if len(results) == 1:
                    self.plain(operation, covered.get(results[0], False), covered)
                case _ if results:
                    self.plain(operation, not any(r in self.uncovered for r in results), covered)

    def plain(self, operation: Operation, cover: _Cover, covered: dict[Value, _Cover]) -> None:
        full = bool(np.all(cover))
        born = () if _is_known_power(operation) else _ZERO_BORN.get(operation.op, ())
        place = _place(operation)
        for position, operand in enumerate(operation.operands):
            if place is not None and position == 0:
                self.contribute(covered, operand, _cover_of_array(operation.op, place, cover))
            elif place is not None and position == len(operation.operands) - 1:
                self.contribute(covered, operand, bool(np.all(cover | ~place)))
            elif born is None or position in born:
                self.contribute(covered, operand, False)
            elif operation.op == "multiply" and operation.operands[1 - position] in self.masks:
                self.contribute(covered, operand, cover & _nonzero(operation.operands[1 - position]))
            elif operation.op == "broadcast_to":
                self.contribute(covered, operand, _cover_of_source(operand, operation.result, cover))
            else:
                self.contribute(covered, operand, cover if TABLE[operation.op].elementwise else full)

    def branches(self, operation: Operation, covered: dict[Value, _Cover]) -> None:
        parts: list[dict[Value, _Cover]] = []
        for block in operation.blocks:
            part: dict[Value, _Cover] = {}
            for out, result in zip(block.yields, operation.results, strict=True):
                if result in self.active:
                    self.contribute(part, out, covered.get(result, False))
            self.block(block, part)
            inner = _inner(block)
            parts.append({v: cover for v, cover in part.items() if v not in inner})
        meet = or_ if self.in_any_iteration and self.loops else and_
        for value in {**parts[0], **parts[1]}:
            self.contribute(covered, value, meet(parts[0].get(value, False), parts[1].get(value, False)))

    def loop(self, operation: Operation, covered: dict[Value, _Cover]) -> None:
        body = operation.blocks[-1]
        first, shift = (2, 1) if operation.op == "for" else (0, 0)
        params, inits = body.params[shift:], operation.operands[first:]
        active = [p in self.active or r in self.active for p, r in zip(params, operation.results, strict=True)]
        entering = [covered.get(result, False) for result in operation.results]
        iterations: list[dict[Value, _Cover]] = []
        seen: list[list[_Cover]] = []
        carried = entering
        self.loops += 1
        while not any(all(map(np.array_equal, carried, before)) for before in seen):
            seen.append(carried)
            part: dict[Value, _Cover] = {}
            for out, is_active, cover in zip(body.yields, active, carried, strict=True):
                if is_active:
                    self.contribute(part, out, cover)
            self.block(body, part)
            iterations.append(part)
            leaving = [part.get(param, False) for param in params]
            together = len(seen) >= _MOST_ITERATIONS
            carried = [a & b for a, b in zip(carried, leaving, strict=True)] if together else leaving
        self.loops -= 1
        runs = surely_runs(operation)
        inner = _inner(body)
        # the last iteration is done whenever there is one
        for part in iterations if self.in_any_iteration else iterations[:1]:
            for value, cover in part.items():
                if value not in inner:
                    self.contribute(covered, value, cover & runs)
        meet = or_ if self.in_any_iteration else and_
        for is_active, param, init, at_end in zip(active, params, inits, entering, strict=True):
            if is_active:
                at_start = reduce(meet, (part.get(param, False) for part in iterations))
                self.contribute(covered, init, at_start if runs else at_start & at_end)


def _is_known_power(operation: Operation) -> bool:
    """Return whether an operation is a power with a known exponent that is not zero."""
    return operation.op == "power" and filled_number(operation.operands[1]) not in (None, 0)


def _nonzero(value: Value) -> _Cover:
    """Return where a factor is not zero, as far as that is known: of constants and identity matrices."""
    operation = value.producer
    if operation is None:
        return False
    if operation.op == "constant" and operation.attrs["value"].size <= _MAX_MASK:
        return np.asarray(operation.attrs["value"] != 0)
    if operation.op == "cast":
        same = operation.operands[0].producer
        shape = value.shape
        if (
            same is None
            or same.op != "equal"
            or len(shape) != 2
            or not is_static(shape)
            or size_guess(shape) > _MAX_MASK
        ):
            return False
        made = [v.producer for v in same.operands]
        axes = [o.attrs["axis"] for o in made if o is not None and o.op == "iota"]
        return np.eye(*shape, dtype=np.bool_) if sorted(axes) == [0, 1] else False
    return False


def _cover_of_source(source: Value, result: Value, cover: _Cover) -> _Cover:
    """Return what is covered of an array that is broadcast: elements of which a copy is."""
    if not isinstance(cover, np.ndarray) or not cover.ndim:
        return cover
    added = cover.ndim - len(source.shape)
    spread = [k for k in range(cover.ndim) if k < added or source.shape[k - added] != result.shape[k]]
    return np.asarray(np.any(cover, axis=tuple(spread), keepdims=True).reshape(source.shape))


def _cover_of_array(op: str, place: _Mask, cover: _Cover) -> _Cover:
    """Return what is covered of an array through an op that reads or writes a place in it."""
    if op in ("gather", "slice"):
        return place & np.all(cover)
    return ~place & cover if op in ("scatter_set", "set_slice") else cover


def _place(operation: Operation) -> _Mask | None:
    """Return the mask of the elements of operand 0 that are read or written, when these are known and few."""
    if operation.op not in ("gather", "slice", "scatter_set", "set_slice", "scatter_add", "add_slice"):
        return None
    shape = operation.operands[0].shape
    if not is_static(shape) or size_guess(shape) > _MAX_MASK:
        return None
    key: list[Any] = [slice(None)] * len(shape)
    if "axes" in operation.attrs:
        axes = operation.attrs["axes"]
        for axis, index in zip(axes, operation.operands[1:], strict=False):
            number = static_value(index)
            if not isinstance(number, int) or not -shape[axis] <= number < shape[axis]:
                return None
            key[axis] = number
    else:
        bounds = [operation.attrs[k] for k in ("start", "stop", "step")]
        if not all(is_static(b) for b in bounds):
            return None
        key = [slice(*b) for b in zip(*bounds, strict=True)]
    mask = np.zeros(shape, np.bool_)
    mask[tuple(key)] = True
    return mask


def _inner(block: Block) -> set[Value]:
    values = set(block.params)
    for operation in walk(block):
        values.update(operation.results)
        for nested in operation.blocks:
            values.update(nested.params)
    return values


def _makes_mask(operation: Operation, masks: set[Value]) -> bool:
    """Return whether a result is made of zeros and ones, or steps: a cast bool, a rounding, a selection with a zero."""
    match operation.op:
        case "cast":
            source = operation.operands[0].type
            return isinstance(source, ArrayType) and not is_inexact(source.dtype)
        case "constant":
            return bool(np.any(operation.attrs["value"] == 0))
        case "full":
            return bool(operation.attrs["value"] == 0)
        case "select":
            return any(v in masks for v in operation.operands[1:])
        case "multiply" | "add" | "subtract":
            return any(v in masks for v in operation.operands)
        case op if op in _MOVES:
            return operation.operands[0] in masks
        case op:
            return TABLE[op].marker is NONDIFF and bool(operation.operands)
