"""What is known of the numbers in a program: their signs, and which can be infinite or NaN behind a mask.

Reads IR, writes nothing. Previous: activity.py; next: residuals.py.

Overflow of products and underflow of exponentials are left out of account. Overflow of an exponential is not, unless
each of its elements reaches a result: what comes after it cannot be hidden then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import reduce
from itertools import product
from operator import or_
from typing import Any

import numpy as np

from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType, is_complex, is_inexact
from tracegrad.ir.writes import filled_number, is_filled_with

#: the signs that elements can have, as bits
NEGATIVE, ZERO, POSITIVE = 1, 2, 4
UNKNOWN = NEGATIVE | ZERO | POSITIVE
NONNEGATIVE, NONPOSITIVE = ZERO | POSITIVE, ZERO | NEGATIVE
#: what elements can be besides finite, as bits
INFINITE, NAN = 1, 2
ANYTHING = INFINITE | NAN

#: ops whose partials can be infinite but whose result is finite for finite operands
_FINITE = frozenset({"arctan2", "hypot", "cbrt", "absolute"})
#: ops that only move elements
_MOVES = frozenset({"broadcast_to", "reshape", "transpose", "slice", "flip", "gather", "stop_gradient", "barrier"})
#: ops whose result has the sign of the first operand
_KEEP_SIGN = _MOVES | {"tanh", "sinh", "arctan", "arcsinh", "arcsin", "expm1", "log1p", "cbrt"}
_KEEP_SIGN |= {"reduce_max", "reduce_min", "cummax", "cummin"}
#: ops whose result is infinite or NaN only where an operand is so
_KEEP_KIND = _MOVES | {"negative", "conjugate", "absolute", "square", "select", "maximum", "minimum", "concatenate"}
_KEEP_KIND |= {"exp", "exp2", "reduce_max", "reduce_min", "cummax", "cummin", "pad", "cast"}
#: ops that are finite at infinity
_BOUNDED = frozenset({"reciprocal", "tanh", "arctan", "erf", "erfc", "sign"})


class Ranges:
    """Signs and infinities of the values of a function; values staged later are looked up when asked for.

    Args:
        missing: whether the parameters can be infinite or NaN themselves, as missing data are.
        exposed: values whose elements all reach a result.
    """

    def __init__(self, function: Function, *, missing: bool = False, exposed: Collection[Value] = ()) -> None:
        self._signs: dict[Value, int] = {}
        self._missing, self._exposed = missing, exposed
        self._kinds: dict[Value, int] = {p: ANYTHING for p in function.params if missing and is_inexact(p.dtype)}
        self._known: set[Value] = set(function.params)
        #: operations that a check before them keeps away from their pole
        self._checked: set[Operation] = set()
        while True:
            before = dict(self._kinds)
            self._block(function.body, set())
            if self._kinds == before:
                break

    def sign(self, value: Value) -> int:
        """Return the signs that the elements of a value can have."""
        self._look_up(value)
        return self._signs.get(value, UNKNOWN)

    def may_be_infinite(self, value: Value) -> bool:
        """Return whether elements can be infinite or NaN, though all parameters are finite unless `missing`."""
        self._look_up(value)
        return bool(self._kinds.get(value, 0))

    def has_finite_partials(self, operation: Operation) -> bool:
        """Return whether an operation is known to be away from where its partials are infinite."""
        if operation in self._checked:
            return True
        signs = [self.sign(v) for v in operation.operands]
        match operation.op:
            case "divide":
                return not signs[1] & ZERO
            case "reciprocal" | "cbrt":
                return not signs[0] & ZERO
            case "power" if (exponent := filled_number(operation.operands[1])) is not None and exponent >= 1:
                return exponent == int(exponent) or not signs[0] & NEGATIVE
            case "log" | "log2" | "log10" | "sqrt" | "power" | "lgamma" | "digamma":
                return signs[0] == POSITIVE
            case "log1p":
                return not signs[0] & NEGATIVE
            case "exp" | "exp2" | "expm1":
                return not signs[0] & POSITIVE or operation.result in self._exposed
            case "arctan2" | "hypot":
                return any(not sign & ZERO for sign in signs)
        return not any(TABLE[operation.op].singular)

    def touches_infinity(self, operation: Operation) -> bool:
        """Return whether operands or results can be infinite or NaN."""
        return any(self.may_be_infinite(v) for v in (*operation.operands, *operation.results))

    def _look_up(self, value: Value) -> None:
        """Find out about an operation staged after the analysis; its operands are few steps from known ones."""
        if value not in self._known and value.producer is not None and not value.producer.blocks:
            for operand in value.producer.operands:
                self._look_up(operand)
            self._plain(value.producer)

    def _block(self, block: Block, nonzero: set[Value]) -> None:
        """Go through a block. nonzero: what a check has found to be other than zero before the block."""
        nonzero = set(nonzero)
        self._known.update(block.params)
        for operation in block.operations:
            match operation.op:
                case "if":
                    for nested in operation.blocks:
                        self._block(nested, nonzero)
                    for result, *values in zip(operation.results, *(b.yields for b in operation.blocks), strict=True):
                        self._join(result, values)
                        self._signs[result] = self._union(values)
                case "for" | "while":
                    self._loop(operation, nonzero)
                case "push":
                    self._join(operation.operands[0], operation.operands[1:])
                case "pop":
                    self._join(operation.result, operation.operands)
                case "check":
                    nonzero.update(_found_nonzero(operation.operands[0]))
                case _:
                    if operation.op in ("divide", "reciprocal") and operation.operands[-1] in nonzero:
                        self._checked.add(operation)
                    self._plain(operation)

    def _loop(self, operation: Operation, nonzero: set[Value]) -> None:
        body = operation.blocks[-1]
        first, shift = (2, 1) if operation.op == "for" else (0, 0)
        params, inits = body.params[shift:], operation.operands[first:]
        # signs are assumed to stay those of the start, until an iteration shows otherwise
        signs = [self._signs.get(v, UNKNOWN) | self._signs.get(p, 0) for v, p in zip(inits, params, strict=True)]
        while True:
            self._signs.update(zip(params, signs, strict=True))
            for nested in operation.blocks:
                self._block(nested, nonzero)
            for result, param, init, out in zip(operation.results, params, inits, body.yields, strict=True):
                self._join(result, (init, out))
                self._join(param, (init, out))
            again = [sign | self._signs.get(out, UNKNOWN) for sign, out in zip(signs, body.yields, strict=True)]
            if again == signs:
                break
            signs = again
        self._signs.update(zip(operation.results, signs, strict=True))

    def _join(self, result: Value, values: Iterable[Value]) -> None:
        self._known.add(result)
        for value in values:
            self._add_kind(result, self._kinds.get(value, 0))

    def _add_kind(self, value: Value, kind: int) -> None:
        if kind:
            self._kinds[value] = self._kinds.get(value, 0) | kind

    def _union(self, values: Iterable[Value]) -> int:
        sign = 0
        for value in values:
            sign |= self._signs.get(value, UNKNOWN)
        return sign

    def _plain(self, operation: Operation) -> None:
        self._known.update(operation.results)
        for result in operation.results:
            if isinstance(result.type, ArrayType) and not is_complex(result.dtype):
                self._signs[result] = self._sign_of(operation)
        arrays = [result for result in operation.results if isinstance(result.type, ArrayType)]
        if any(is_inexact(result.dtype) for result in arrays):
            kind = self._kind_of(operation)
            for result in arrays:
                self._add_kind(result, kind if is_inexact(result.dtype) else 0)

    def _kind_of(self, operation: Operation) -> int:
        """Return what the results of an operation can be besides finite."""
        born = 0
        if operation.op not in _FINITE and not self.has_finite_partials(operation):
            born = INFINITE if operation.op in ("exp", "exp2", "expm1") else ANYTHING
        if self._missing and operation.op in ("constant", "full") and is_inexact(operation.result.dtype):
            born = 0 if np.all(np.isfinite(operation.attrs["value"])) else ANYTHING
        operands = _unfiltered(operation) if self._missing else operation.operands
        kinds = [self._kinds.get(v, 0) for v in operands]
        if not any(kinds):
            return born
        match operation.op:
            case op if op in _BOUNDED and kinds[0] == INFINITE:
                return born
            case "divide" if kinds == [0, INFINITE]:
                return born
            case "add" | "subtract" if sorted(kinds) == [0, INFINITE]:
                return INFINITE
            case "add" if kinds == [INFINITE, INFINITE] and all(self.sign(v) == POSITIVE for v in operands):
                return INFINITE
            case "multiply" if sorted(kinds) == [0, INFINITE]:
                return INFINITE if not self.sign(operands[kinds.index(0)]) & ZERO else ANYTHING
            case op if op in _KEEP_KIND:
                return reduce(or_, kinds, born)
        return ANYTHING

    def _sign_of(self, operation: Operation) -> int:
        signs = [self._signs.get(v, UNKNOWN) for v in operation.operands]
        match operation.op:
            case "constant" | "full":
                return _sign_of_numbers(np.asarray(operation.attrs["value"]))
            case "iota" | "dim":
                return NONNEGATIVE
            case "cast":
                if operation.operands[0].dtype == np.bool_:
                    return NONNEGATIVE
                return signs[0] if is_inexact(operation.result.dtype) else UNKNOWN
            case "exp" | "exp2" | "cosh" | "erfc":
                return POSITIVE
            case "square" | "absolute":
                return _without_sign(signs[0])
            case "sqrt":
                return signs[0] & NONNEGATIVE or UNKNOWN
            case "hypot":
                return POSITIVE if self.has_finite_partials(operation) else NONNEGATIVE
            case "negative":
                return _mirrored(signs[0])
            case "multiply" if operation.operands[0] is operation.operands[1]:
                return _without_sign(signs[0])
            case "keep_zero":
                return signs[1] | ZERO
            case "multiply":
                return _sign_of_product(signs[0], signs[1])
            case "divide":
                return _sign_of_product(signs[0], signs[1] & ~ZERO) or UNKNOWN
            case "reciprocal":
                return signs[0] & ~ZERO or UNKNOWN
            case "dot_general":
                return _sign_of_sum(*[_sign_of_product(signs[0], signs[1])] * 2) | ZERO
            case "add" | "scatter_add" | "add_slice":
                return _sign_of_sum(signs[0], signs[-1])
            case "subtract" if _is_maximum_of(operation.operands[1], operation.operands[0]):
                return NONPOSITIVE
            case "subtract":
                return _sign_of_sum(signs[0], _mirrored(signs[1]))
            case "maximum" | "minimum":
                choose = max if operation.op == "maximum" else min
                return _bits(choose(x, y) for x, y in product(_signs(signs[0]), _signs(signs[1])))
            case "select":
                return signs[1] | signs[2]
            case "concatenate":
                return self._union(operation.operands)
            case "power":
                return signs[0] if signs[0] in (POSITIVE, NONNEGATIVE) else UNKNOWN
            case "reduce_sum":
                empty = any(operation.operands[0].shape[a] == 0 for a in operation.attrs["axes"])
                return ZERO if empty else _sign_of_sum(signs[0], signs[0])
            case "cumsum":
                return _sign_of_sum(signs[0], signs[0])
            case "reduce_prod" | "cumprod":
                return signs[0] if not signs[0] & NEGATIVE else UNKNOWN
            case "pad":
                return signs[0] | self._union(operation.operands[1:]) | ZERO
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


def _found_nonzero(condition: Value) -> Iterable[Value]:
    """Return the values that are not zero where a condition holds."""
    operation = condition.producer
    if operation is None:
        return
    if operation.op == "logical_and":
        for part in operation.operands:
            yield from _found_nonzero(part)
    elif operation.op == "not_equal" and not condition.shape and is_filled_with(operation.operands[1], 0):
        yield operation.operands[0]


def _is_maximum_of(value: Value, source: Value) -> bool:
    """Return whether a value is the greatest element of the source, spread; or 0 where that is not finite."""
    spread = False
    while (operation := value.producer) is not None:
        if operation.op in ("broadcast_to", "reshape", "stop_gradient"):
            value = operation.operands[0]
            spread = True
        elif operation.op == "select" and is_filled_with(operation.operands[2], 0):
            test = operation.operands[0].producer
            if test is None or test.op != "isfinite" or test.operands[0] is not operation.operands[1]:
                return False
            value = operation.operands[1]
        else:
            return operation.op == "reduce_max" and operation.operands[0] is source and spread
    return False


def _signs(bits: int) -> list[int]:
    return [number for bit, number in ((NEGATIVE, -1), (ZERO, 0), (POSITIVE, 1)) if bits & bit]


def _bits(signs: Iterable[int]) -> int:
    bits = 0
    for sign in signs:
        bits |= (ZERO, POSITIVE, NEGATIVE)[sign]
    return bits


def _mirrored(bits: int) -> int:
    return _bits(-sign for sign in _signs(bits))


def _without_sign(bits: int) -> int:
    return _bits(abs(sign) for sign in _signs(bits))


def _sign_of_product(x: int, y: int) -> int:
    return _bits(a * b for a, b in product(_signs(x), _signs(y)))


def _sign_of_sum(x: int, y: int) -> int:
    if (POSITIVE & x and NEGATIVE & y) or (NEGATIVE & x and POSITIVE & y):
        return UNKNOWN
    return _bits(a or b for a, b in product(_signs(x), _signs(y)))


def _sign_of_numbers(numbers: np.ndarray[Any, np.dtype[Any]]) -> int:
    if np.iscomplexobj(numbers) or not numbers.size or np.any(np.isnan(numbers)):
        return UNKNOWN
    return sum(
        bit for bit, any_of in ((NEGATIVE, numbers < 0), (ZERO, numbers == 0), (POSITIVE, numbers > 0)) if any_of.any()
    )


Guard = Callable[[int, Value], bool]


def make_guard(ranges: Ranges, operation: Operation) -> Guard:
    """Return the predicate that says which partials of an operation a cotangent that may be zero is guarded from."""
    singular = TABLE[operation.op].singular
    finite = ranges.has_finite_partials(operation)
    if finite and not ranges.touches_infinity(operation):
        return lambda position, partial: False

    def guard(position: int, partial: Value) -> bool:
        return (singular[position] and not finite) or ranges.may_be_infinite(partial)

    return guard
