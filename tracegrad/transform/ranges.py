"""What is known of the numbers in a program: which are positive, and which can be infinite or NaN behind a mask.

Reads IR, writes nothing. Previous: activity.py; next: residuals.py.

Overflow of products and underflow of exponentials are left out of account; overflow of an exponential is not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType, is_complex, is_inexact

#: signs: nothing known, not negative, positive
UNKNOWN, NONNEGATIVE, POSITIVE = 0, 1, 2

#: ops whose partials can be infinite but whose result is finite for finite operands
_FINITE = frozenset({"arctan2", "hypot", "cbrt", "absolute"})
#: ops whose result has the sign of the first operand
_KEEP_SIGN = frozenset(
    {"broadcast_to", "reshape", "transpose", "slice", "flip", "gather", "stop_gradient", "tanh", "arctan", "arcsinh"}
    | {"expm1", "log1p", "cbrt", "reciprocal", "cast", "reduce_max", "reduce_min", "reduce_prod", "cumsum", "cumprod"}
)


class Ranges:
    """Signs and infinities of the values of a function; values staged later are looked up when asked for.

    Args:
        missing: whether the parameters can be infinite or NaN themselves, as missing data are.
    """

    def __init__(self, function: Function, *, missing: bool = False) -> None:
        self._signs: dict[Value, int] = {}
        self._missing = missing
        self._infinite: set[Value] = {p for p in function.params if missing and is_inexact(p.dtype)}
        self._known: set[Value] = set(function.params)
        self._stacks: set[Value] = set()
        while True:
            before = len(self._infinite) + len(self._stacks)
            self._block(function.body)
            if len(self._infinite) + len(self._stacks) == before:
                break

    def sign(self, value: Value) -> int:
        """Return UNKNOWN, NONNEGATIVE or POSITIVE for all elements of a value."""
        self._look_up(value)
        return self._signs.get(value, UNKNOWN)

    def may_be_infinite(self, value: Value) -> bool:
        """Return whether elements can be infinite or NaN, though all parameters are finite unless `missing`."""
        self._look_up(value)
        return value in self._infinite

    def has_finite_partials(self, operation: Operation) -> bool:
        """Return whether the signs of its operands keep an operation away from where its partials are infinite."""
        signs = [self.sign(v) for v in operation.operands]
        match operation.op:
            case "divide":
                return signs[1] == POSITIVE
            case "reciprocal" | "log" | "log2" | "log10" | "sqrt" | "cbrt" | "power" | "lgamma" | "digamma":
                return signs[0] == POSITIVE
            case "log1p":
                return signs[0] >= NONNEGATIVE
            case "arctan2" | "hypot":
                return POSITIVE in signs
        return not any(TABLE[operation.op].singular)

    def _look_up(self, value: Value) -> None:
        """Find out about an operation staged after the analysis; its operands are few steps from known ones."""
        if value not in self._known and value.producer is not None and not value.producer.blocks:
            for operand in value.producer.operands:
                self._look_up(operand)
            self._plain(value.producer)

    def _block(self, block: Block) -> None:
        self._known.update(block.params)
        for operation in block.operations:
            for nested in operation.blocks:
                self._block(nested)
            match operation.op:
                case "if":
                    for result, *values in zip(operation.results, *(b.yields for b in operation.blocks), strict=True):
                        self._join(result, values)
                        self._signs[result] = min(self._signs.get(v, UNKNOWN) for v in values)
                case "for" | "while":
                    body = operation.blocks[-1]
                    first, shift = (2, 1) if operation.op == "for" else (0, 0)
                    params, inits = body.params[shift:], operation.operands[first:]
                    for result, param, init, out in zip(operation.results, params, inits, body.yields, strict=True):
                        self._join(result, (init, out))
                        self._join(param, (init, out))
                case "push":
                    if operation.operands[1] in self._infinite:
                        self._stacks.add(operation.operands[0])
                case "pop":
                    self._known.add(operation.result)
                    if operation.operands[0] in self._stacks:
                        self._infinite.add(operation.result)
                case _:
                    self._plain(operation)

    def _join(self, result: Value, values: tuple[Value, ...] | list[Value]) -> None:
        self._known.add(result)
        if any(v in self._infinite for v in values):
            self._infinite.add(result)

    def _plain(self, operation: Operation) -> None:
        self._known.update(operation.results)
        for result in operation.results:
            if isinstance(result.type, ArrayType) and not is_complex(result.dtype):
                self._signs[result] = self._sign_of(operation)
        singular = operation.op not in _FINITE and not self.has_finite_partials(operation)
        if self._missing and operation.op in ("constant", "full") and is_inexact(operation.result.dtype):
            singular = not np.all(np.isfinite(operation.attrs["value"]))
        operands = _unfiltered(operation) if self._missing else operation.operands
        if singular or any(v in self._infinite for v in operands):
            self._infinite.update(r for r in operation.results if is_inexact(r.dtype))

    def _sign_of(self, operation: Operation) -> int:
        signs = [self._signs.get(v, UNKNOWN) for v in operation.operands]
        match operation.op:
            case "constant" | "full":
                return _sign_of_numbers(np.asarray(operation.attrs["value"]))
            case "iota" | "dim":
                return NONNEGATIVE
            case "cast" if operation.operands[0].dtype == np.bool_:
                return NONNEGATIVE
            case "exp" | "exp2" | "cosh":
                return POSITIVE
            case "square" | "absolute" | "sqrt" | "hypot":
                return max(NONNEGATIVE, *signs)
            case "multiply" if operation.operands[0] is operation.operands[1]:
                return max(NONNEGATIVE, signs[0])
            case "multiply" | "divide" | "minimum" | "concatenate":
                return min(signs)
            case "add":
                return max(signs) if min(signs) >= NONNEGATIVE else UNKNOWN
            case "maximum":
                return max(signs)
            case "select":
                return min(signs[1:])
            case "power":
                return signs[0]
            case "reduce_sum" | "pad" | "scatter_add" | "add_slice":
                return min(NONNEGATIVE, signs[0], signs[0 if len(signs) == 1 else -1])
            case op if op in _KEEP_SIGN:
                return signs[0]
        return UNKNOWN


def _unfiltered(operation: Operation) -> list[Value]:
    """Return the operands of which an infinity or NaN can reach the result: not x of np.where(np.isnan(x), 0, x)."""
    if operation.op != "select":
        return operation.operands
    condition, x, y = operation.operands
    test, kept, other = condition.producer, y, x
    if test is not None and test.op == "logical_not":
        test, kept, other = test.operands[0].producer, x, y
    if test is None or test.op not in ("isnan", "isfinite"):
        return operation.operands
    if test.op == "isfinite":
        kept, other = other, kept
    return [other] if test.operands[0] is kept else operation.operands


def _sign_of_numbers(numbers: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
    if np.iscomplexobj(numbers) or not numbers.size:
        return UNKNOWN
    return POSITIVE if np.all(numbers > 0) else NONNEGATIVE if np.all(numbers >= 0) else UNKNOWN


Guard = Callable[[int, Value], bool]


def make_guard(ranges: Ranges, operation: Operation) -> Guard:
    """Return the predicate that says which partials of an operation a cotangent that may be zero is guarded from."""
    singular = TABLE[operation.op].singular
    finite = ranges.has_finite_partials(operation)

    def guard(position: int, partial: Value) -> bool:
        return (singular[position] and not finite) or ranges.may_be_infinite(partial)

    return guard
