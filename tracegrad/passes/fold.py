"""Folds: operations on known values are done now, and those that change nothing are dropped.

Reads and writes IR in place. Previous: rewrite.py; next: unread.py.

Folds are exact, bit for bit, with two exceptions: a quotient for a product with a reciprocal, which is one rounding
instead of two. Not folded: x + 0.0, which makes 0.0 of -0.0, and x * 0, which is NaN for an infinite x. (Zeros among
cotangents never get here: transform/ does not add them.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tracegrad.ir.bounds import size_guess
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.opdef import BY_TRANSFORM, TABLE
from tracegrad.ir.types import ArrayType, Shape, is_complex, is_float, is_inexact, is_integer, is_static
from tracegrad.ir.writes import filled_number, is_filled_with
from tracegrad.ops import full_like
from tracegrad.ops.evaluate import Evaluator
from tracegrad.passes.rewrite import Rule, rewrite

#: constants of at most so many elements are computed at compile time
_SMALL = 16
#: ops that check their indices, even where they move nothing
_CHECKED = frozenset({"gather", "scatter_add", "scatter_set"})
#: what reductions of no elements give
_OF_NOTHING = {"reduce_sum": 0, "dot_general": 0, "reduce_prod": 1, "reduce_any": False, "reduce_all": True}
#: ops that only move elements: of an array filled with one number they make another
_MOVES = frozenset({"broadcast_to", "reshape", "transpose", "slice", "flip", "cast"})


def fold_constants(function: Function) -> bool:
    """Apply all folds until nothing changes; return whether anything did."""
    changed = False
    while rewrite(function, _rules()):
        changed = True
    return changed


def drop_stop_gradients(function: Function) -> bool:
    """Replace `stop_gradient x` by x; for a function whose derivatives have all been taken."""
    return rewrite(function, {"stop_gradient": (_identity(lambda o: True),)})


def drop_barriers(function: Function) -> bool:
    """Replace `barrier x` by x; after the last pass that shares what is computed twice."""
    return rewrite(function, {"barrier": (_identity(lambda o: True),)})


@cache
def _rules() -> dict[str, tuple[Rule, ...]]:
    rules: dict[str, tuple[Rule, ...]] = {}
    for name, op in TABLE.items():
        general: tuple[Rule, ...] = () if op.effect or op.marker is BY_TRANSFORM else (_make_nothing, _evaluate)
        moves = (_move_filled, _move_undefined) if name in _MOVES else ()
        small = (_with_scalars, _fill_elementwise, _before_broadcast) if op.elementwise else ()
        rules[name] = (*_SPECIFIC.get(name, ()), *moves, *small, *general)
    return rules


def _op(name: str, *operands: Value, **attrs: Any) -> Value:
    result = TABLE[name](*operands, **attrs)
    assert isinstance(result, Value)
    return result


def _is_small(kind: ArrayType) -> bool:
    return is_static(kind.shape) and size_guess(kind.shape) <= _SMALL


def _known(value: Value) -> np.ndarray[Any, Any] | None:
    """Return the elements of a value that is a small constant."""
    operation = value.producer
    if operation is None or not isinstance(value.type, ArrayType):
        return None
    if operation.op == "constant":
        array: np.ndarray[Any, Any] = operation.attrs["value"]
        return array if array.size <= _SMALL else None
    if operation.op == "full" and _is_small(value.type):
        return np.full(value.shape, operation.attrs["value"], value.dtype)
    return None


def _move_undefined(operation: Operation, builder: Builder) -> Value | None:
    """Move nothing of what is never read."""
    inner = _operand_made_by(operation, 0, "undefined")
    return None if inner is None else _op("undefined", type=operation.result.array_type)


def _filler(value: Value) -> Any:
    """Return the number that fills a value made by `full` or by a constant of rank 0, else None."""
    operation = value.producer
    if operation is not None and operation.op == "full":
        return operation.attrs["value"]
    if operation is not None and operation.op == "constant" and not value.shape:
        return operation.attrs["value"][()]
    return None


def _evaluate(operation: Operation, builder: Builder) -> Value | None:
    """Compute an operation on small constants, unless it warns or fails, which is left to the run."""
    kind = operation.results[0].type
    if len(operation.results) != 1 or not isinstance(kind, ArrayType) or not _is_small(kind) or not operation.operands:
        return None
    operands = [_known(v) for v in operation.operands]
    if any(v is None for v in operands):
        return None
    result = _computed(operation, operands, kind.dtype)
    if result is None:
        return None
    if all(v.producer is not None and v.producer.op == "full" for v in operation.operands) and result.size:
        first = result.flat[0].item()
        if _is_python_number(first) and all(_same_bits(first, x.item()) for x in result.flat):
            return _op("full", shape=kind.shape, dtype=kind.dtype, value=first)
    return builder.constant(result)


def _fill_elementwise(operation: Operation, builder: Builder) -> Value | None:
    """Compute one element where all are the same, of operands that are filled with one number each."""
    if not operation.operands or any(v.producer is None or v.producer.op != "full" for v in operation.operands):
        return None
    kind = operation.result.array_type
    numbers = [np.full((), v.producer.attrs["value"], v.dtype) for v in operation.operands if v.producer is not None]
    element = _computed(operation, numbers, kind.dtype)
    number = None if element is None else element.item()
    return _op("full", shape=kind.shape, dtype=kind.dtype, value=number) if _is_python_number(number) else None


def _computed(operation: Operation, operands: Sequence[Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """Return the result for known operands, or None where NumPy warns or fails."""
    try:
        with np.errstate(all="raise", under="ignore"):
            return np.asarray(Evaluator().apply(TABLE[operation.op], operands, operation.attrs), dtype)
    except (ArithmeticError, ValueError, IndexError):
        return None


def _make_nothing(operation: Operation, builder: Builder) -> Value | None:
    """Make an array without elements directly, and what a reduction makes of no elements."""
    kind = operation.results[0].type
    if len(operation.results) != 1 or not isinstance(kind, ArrayType) or kind.dtype.kind == "V":
        return None
    if operation.op in _OF_NOTHING and 0 in _reduced_shape(operation):
        value: Any = _OF_NOTHING[operation.op]
    elif 0 in kind.shape and operation.operands and operation.op not in _CHECKED:
        value = 0
    else:
        return None
    return _op("full", shape=kind.shape, dtype=kind.dtype, value=kind.dtype.type(value).item())


def _reduced_shape(operation: Operation) -> Shape:
    axes = operation.attrs["contract"][0] if operation.op == "dot_general" else operation.attrs["axes"]
    return tuple(operation.operands[0].shape[a] for a in axes)


def _is_python_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex)


def _same_bits(x: Any, y: Any) -> bool:
    return repr(x) == repr(y)


def _move_filled(operation: Operation, builder: Builder) -> Value | None:
    """Move nothing: of an array filled with one number make the result directly."""
    number, kind = _filler(operation.operands[0]), operation.result.array_type
    if number is None or kind.dtype.kind == "V":
        return None
    source = operation.operands[0].dtype
    if source != kind.dtype and (is_complex(source) or (is_inexact(source) and not is_float(kind.dtype))):
        return None  # a cast that may lose what cannot be converted
    value = np.asarray(number).astype(kind.dtype).item()
    return _op("full", shape=kind.shape, dtype=kind.dtype, value=value) if _is_python_number(value) else None


def _read_filled(operation: Operation, builder: Builder) -> Value | None:
    """Read nothing of an array filled with one number, where the primal has checked the index."""
    if operation.span is None or not operation.span.reverse:
        return None
    return _move_filled(operation, builder)


def _read_broadcast(operation: Operation, builder: Builder) -> Value | None:
    """Read what was there before a broadcast along the axes of the index, which is the place of an extreme."""
    inner, axes = _operand_made_by(operation, 0, "broadcast_to"), operation.attrs["axes"]
    if inner is None or len(axes) != 1:
        return None
    place = operation.operands[1].producer
    source, shift = inner.operands[0], len(inner.result.shape) - len(inner.operands[0].shape)
    if place is None or place.op not in ("argmax", "argmin") or axes[0] >= shift:
        return None
    if place.operands[0].shape[place.attrs["axis"]] != inner.result.shape[axes[0]]:
        return None
    return _op("broadcast_to", source, shape=operation.result.shape) if not operation.operands[1].shape else None


def _identity(is_identity: Callable[[Operation], bool]) -> Rule:
    """Make the rule that drops an operation which returns its first operand."""

    def rule(operation: Operation, builder: Builder) -> Value | None:
        return operation.operands[0] if is_identity(operation) else None

    return rule


def _same_type(operation: Operation) -> bool:
    return operation.operands[0].type == operation.result.type


def _is_full_slice(operation: Operation) -> bool:
    start, stop, step = (operation.attrs[k] for k in ("start", "stop", "step"))
    return (
        all(a == 0 and c == 1 for a, c in zip(start, step, strict=True)) and tuple(stop) == operation.operands[0].shape
    )


def _multiply_by_one(operation: Operation, builder: Builder) -> Value | None:
    x, y = operation.operands
    if is_filled_with(x, 1):
        return y
    return x if is_filled_with(y, 1) else None


def _add_integer_zero(operation: Operation, builder: Builder) -> Value | None:
    x, y = operation.operands
    if not is_integer(x.dtype):
        return None
    if is_filled_with(x, 0):
        return y
    return x if is_filled_with(y, 0) else None


def _operand_made_by(operation: Operation, position: int, op: str) -> Operation | None:
    producer = operation.operands[position].producer
    return producer if producer is not None and producer.op == op else None


def _double(op: str) -> Rule:
    """Make the rule for an op that is its own inverse."""

    def rule(operation: Operation, builder: Builder) -> Value | None:
        inner = _operand_made_by(operation, 0, op)
        return inner.operands[0] if inner is not None and inner.attrs == operation.attrs else None

    return rule


def _add_same(operation: Operation, builder: Builder) -> Value | None:
    x, y = operation.operands
    return _op("multiply", full_like(x, 2.0), x) if x is y and is_float(x.dtype) else None


def _add_negative(operation: Operation, builder: Builder) -> Value | None:
    x, y = operation.operands
    if (inner := _operand_made_by(operation, 1, "negative")) is not None:
        return _op("subtract", x, inner.operands[0])
    if (inner := _operand_made_by(operation, 0, "negative")) is not None:
        return _op("subtract", y, inner.operands[0])
    return None


def _subtract_negative(operation: Operation, builder: Builder) -> Value | None:
    inner = _operand_made_by(operation, 1, "negative")
    return None if inner is None else _op("add", operation.operands[0], inner.operands[0])


def _negative_factor(operation: Operation, builder: Builder) -> Value | None:
    """Move a sign outwards, where it may meet a sum."""
    x, y = operation.operands
    if (inner := _operand_made_by(operation, 1, "negative")) is not None:
        return _op("negative", _op(operation.op, x, inner.operands[0]))
    if (inner := _operand_made_by(operation, 0, "negative")) is not None:
        return _op("negative", _op(operation.op, inner.operands[0], y))
    return None


def _sum_of_negative(operation: Operation, builder: Builder) -> Value | None:
    """Take the sign out of a sum of everything, where it may meet another; along an axis C has it for free."""
    inner = _operand_made_by(operation, 0, "negative")
    return (
        None
        if inner is None or operation.result.shape
        else _op("negative", _op("reduce_sum", inner.operands[0], **operation.attrs))
    )


def _product_with_scalar(operation: Operation, builder: Builder) -> Value | None:
    """A product of arrays is elementwise where one of them is a scalar."""
    x, y = operation.operands
    if x.shape and y.shape:
        return None
    shape = operation.result.shape
    return _op("multiply", _op("broadcast_to", x, shape=shape), _op("broadcast_to", y, shape=shape))


def _reshape_of_broadcast(operation: Operation, builder: Builder) -> Value | None:
    """Reshape what was there before a broadcast that only inserted axes of size 1."""
    inner = _operand_made_by(operation, 0, "broadcast_to")
    if inner is None or _without_ones(inner.operands[0]) != _without_ones(inner.result):
        return None
    return _op("reshape", inner.operands[0], **operation.attrs)


def _broadcast_of_reshape(operation: Operation, builder: Builder) -> Value | None:
    """Broadcast what was there before a reshape that only put axes of size 1 in front."""
    inner = _operand_made_by(operation, 0, "reshape")
    if inner is None:
        return None
    before = inner.operands[0].shape
    more = len(inner.result.shape) - len(before)
    if more < 0 or inner.result.shape != (*(1,) * more, *before):
        return None
    return _op("broadcast_to", inner.operands[0], **operation.attrs)


def _cast_of_broadcast(operation: Operation, builder: Builder) -> Value | None:
    """Convert what was there before a broadcast."""
    inner = _operand_made_by(operation, 0, "broadcast_to")
    if inner is None:
        return None
    return _op("broadcast_to", _op("cast", inner.operands[0], **operation.attrs), **inner.attrs)


def _sign_of_moved(operation: Operation, builder: Builder) -> Value | None:
    """Move a sign outwards, where it may meet a sum."""
    inner = _operand_made_by(operation, 0, "negative")
    return None if inner is None else _op("negative", _op(operation.op, inner.operands[0], **operation.attrs))


def _without_ones(value: Value) -> list[Any]:
    return [dim for dim in value.shape if dim != 1]


def _reshape_inside(operation: Operation, builder: Builder) -> Value | None:
    """Compute in the shape that a reshape leads back to, where all operands come from it."""
    inner, shape = operation.operands[0].producer, operation.result.shape
    if inner is None or not TABLE[inner.op].elementwise or not inner.operands or not inner.result.shape:
        return None
    sources: list[Value] = []
    for operand in inner.operands:
        made = operand.producer
        if made is not None and made.op in ("reshape", "broadcast_to") and made.operands[0].shape == shape:
            if _without_ones(made.operands[0]) != _without_ones(operand):
                return None
            sources.append(made.operands[0])
        elif made is not None and made.op == "full":
            sources.append(_op("full", shape=shape, dtype=operand.dtype, value=made.attrs["value"]))
        else:
            return None
    if all(v.producer is not None and v.producer.op == "full" for v in sources):
        return None
    return _op(inner.op, *sources, **inner.attrs)


def _negative_is_zero(operation: Operation, builder: Builder) -> Value | None:
    """Compare with zero whatever the sign is."""
    inner = _operand_made_by(operation, 0, "negative")
    if inner is None or not is_filled_with(operation.operands[1], 0):
        return None
    return _op(operation.op, inner.operands[0], operation.operands[1])


def _with_scalars(operation: Operation, builder: Builder) -> Value | None:
    """Compute with scalars instead of arrays of one element, where one of these comes from a scalar."""
    shape = operation.result.shape
    if not shape or any(dim != 1 for dim in shape):
        return None
    made = [v.producer for v in operation.operands]
    if not any(o is not None and o.op == "reshape" and not o.operands[0].shape for o in made):
        return None
    scalars = [_op("reshape", v, shape=()) for v in operation.operands]
    return _op("reshape", _op(operation.op, *scalars, **operation.attrs), shape=shape)


def _before_broadcast(operation: Operation, builder: Builder) -> Value | None:
    """Compute once what a broadcast of all operands repeats."""
    shape = operation.result.shape
    sources: list[Value] = []
    for operand in operation.operands:
        made = operand.producer
        if made is None or made.op not in ("broadcast_to", "full"):
            return None
        sources.append(made.operands[0] if made.op == "broadcast_to" else operand)
    arrays = [v for v, operand in zip(sources, operation.operands, strict=True) if v is not operand]
    least = max((len(v.shape) for v in arrays), default=0)
    common: list[Any] = [1] * least
    for value in arrays:
        for axis, dim in enumerate(value.shape, least - len(value.shape)):
            common[axis] = dim if dim != 1 else common[axis]
    before = tuple(common)
    if not arrays or before == shape:
        return None
    operands = [
        _op("full", shape=before, dtype=v.dtype, value=v.producer.attrs["value"])
        if v is operand and v.producer is not None
        else _op("broadcast_to", v, shape=before)
        for v, operand in zip(sources, operation.operands, strict=True)
    ]
    return _op("broadcast_to", _op(operation.op, *operands, **operation.attrs), shape=shape)


def _multiply_by_reciprocal(operation: Operation, builder: Builder) -> Value | None:
    x, y = operation.operands
    if (divisor := _divisor(y)) is not None:
        return _op("divide", x, divisor)
    return None if (divisor := _divisor(x)) is None else _op("divide", y, divisor)


def _divisor(value: Value) -> Value | None:
    """Return x for 1 / x, also where that is repeated by a broadcast."""
    made = value.producer
    if made is not None and made.op == "broadcast_to":
        inner = _divisor(made.operands[0])
        return None if inner is None else _op("broadcast_to", inner, shape=value.shape)
    return made.operands[0] if made is not None and made.op == "reciprocal" else None


def _join_factors(operation: Operation, builder: Builder) -> Value | None:
    """`a * (b * x)` with known factors is `(a * b) * x` when one of them is a power of two: no rounding changes."""
    if not is_float(operation.result.dtype):
        return None
    outer = _known_factor(operation)
    if outer is None or outer[1].producer is None or outer[1].producer.op != "multiply":
        return None
    inner = _known_factor(outer[1].producer)
    if inner is None or not (_is_power_of_two(outer[0]) or _is_power_of_two(inner[0])):
        return None
    product = outer[0] * inner[0]
    if not 1e-30 < abs(product) < 1e30:  # far from where single precision is not exact
        return None
    return _op("multiply", full_like(inner[1], product), inner[1])


def _known_factor(operation: Operation) -> tuple[float, Value] | None:
    """Return the factor that is one known number, and the other operand of a product."""
    for factor, other in (operation.operands, reversed(operation.operands)):
        number = filled_number(factor)
        if number is not None:
            return number, other
    return None


def _is_power_of_two(number: float) -> bool:
    return abs(math.frexp(number)[0]) == 0.5


def _keep_zero_of_number(operation: Operation, builder: Builder) -> Value | None:
    return operation.operands[1] if filled_number(operation.operands[0]) not in (None, 0) else None


def _keep_zero_of_negative(operation: Operation, builder: Builder) -> Value | None:
    """Move a sign outwards, which changes at most that of a zero."""
    inner = _operand_made_by(operation, 1, "negative")
    return None if inner is None else _op("negative", _op("keep_zero", operation.operands[0], inner.operands[0]))


def _keep_negative_zero(operation: Operation, builder: Builder) -> Value | None:
    """Keep a zero whatever its sign is."""
    inner = _operand_made_by(operation, 0, "negative")
    return None if inner is None else _op("keep_zero", inner.operands[0], operation.operands[1])


def _multiply_by_minus_one(operation: Operation, builder: Builder) -> Value | None:
    x, y = operation.operands
    if is_filled_with(x, -1):
        return _op("negative", y)
    return _op("negative", x) if is_filled_with(y, -1) else None


def _compose_transposes(operation: Operation, builder: Builder) -> Value | None:
    inner = _operand_made_by(operation, 0, "transpose")
    if inner is None:
        return None
    return _op("transpose", inner.operands[0], axes=tuple(inner.attrs["axes"][a] for a in operation.attrs["axes"]))


def _compose(op: str) -> Rule:
    """Make the rule for an op of which only the last in a row matters: reshape, broadcast_to."""

    def rule(operation: Operation, builder: Builder) -> Value | None:
        inner = _operand_made_by(operation, 0, op)
        return None if inner is None else _op(op, inner.operands[0], **operation.attrs)

    return rule


def _select_again(operation: Operation, builder: Builder) -> Value | None:
    """Leave out a choice that has been made: `np.where(c, x, np.where(c, y, z))` is `np.where(c, x, z)`."""
    condition, x, y = operation.operands
    inner_x, inner_y = (_operand_made_by(operation, k, "select") for k in (1, 2))
    if inner_x is not None and inner_x.operands[0] is condition:
        return _op("select", condition, inner_x.operands[1], y)
    if inner_y is not None and inner_y.operands[0] is condition:
        return _op("select", condition, x, inner_y.operands[2])
    return None


def _select_either(operation: Operation, builder: Builder) -> Value | None:
    """Choose once between a number and something, instead of the number twice."""
    condition, x, y = operation.operands
    for inner, other, position, joint in (
        (_operand_made_by(operation, 2, "select"), x, 2, "logical_or"),
        (_operand_made_by(operation, 1, "select"), y, 1, "logical_and"),
    ):
        number = filled_number(other)
        if inner is None or number is None or filled_number(inner.operands[3 - position]) != number:
            continue
        operands = [_op(joint, condition, inner.operands[0]), x, y]
        operands[position] = inner.operands[position]
        return _op("select", *operands)
    return None


def _select_known(operation: Operation, builder: Builder) -> Value | None:
    condition, x, y = operation.operands
    if x is y or is_filled_with(condition, True):
        return x
    if is_filled_with(condition, False):
        return y
    inner = _operand_made_by(operation, 0, "logical_not")
    return None if inner is None else _op("select", inner.operands[0], y, x)


def _logic_with_known(neutral: bool) -> Rule:
    """Make the rule for a junction of truths of which one is known."""

    def rule(operation: Operation, builder: Builder) -> Value | None:
        for known, other in (operation.operands, reversed(operation.operands)):
            if is_filled_with(known, neutral) and other.type == operation.result.type:
                return other
            if is_filled_with(known, not neutral) and known.type == operation.result.type:
                return known
        return None

    return rule


def _dim_of_int(operation: Operation, builder: Builder) -> Value | None:
    dim = operation.attrs["dim"]
    return builder.constant(np.int64(dim)) if isinstance(dim, int) else None


def _has_negative_zero(operation: Operation) -> bool:
    number = _filler(operation.operands[1])
    return number is None or (not is_integer(operation.result.dtype) and math.copysign(1.0, np.real(number)) < 0)


_SPECIFIC: dict[str, tuple[Rule, ...]] = {
    "multiply": (
        _multiply_by_one,
        _multiply_by_minus_one,
        _multiply_by_reciprocal,
        _negative_factor,
        _join_factors,
    ),
    "keep_zero": (_keep_zero_of_number, _keep_zero_of_negative, _keep_negative_zero),
    "divide": (_identity(lambda o: is_filled_with(o.operands[1], 1)), _negative_factor),
    "add": (_add_integer_zero, _add_negative, _add_same),
    "subtract": (
        _identity(lambda o: is_filled_with(o.operands[1], 0) and not _has_negative_zero(o)),
        _subtract_negative,
    ),
    "power": (_identity(lambda o: is_filled_with(o.operands[1], 1)),),
    "floor_divide": (_identity(lambda o: is_integer(o.result.dtype) and is_filled_with(o.operands[1], 1)),),
    "negative": (_double("negative"),),
    "conjugate": (_double("conjugate"), _identity(lambda o: o.result.dtype.kind != "c")),
    "real": (_identity(_same_type),),
    "logical_not": (_double("logical_not"),),
    "logical_and": (_logic_with_known(True),),
    "logical_or": (_logic_with_known(False),),
    "invert": (_double("invert"),),
    "flip": (_double("flip"), _identity(lambda o: not o.attrs["axes"])),
    "cast": (_identity(_same_type), _cast_of_broadcast),
    "reshape": (_identity(_same_type), _compose("reshape"), _reshape_of_broadcast, _reshape_inside),
    "dot_general": (_product_with_scalar,),
    "broadcast_to": (_identity(_same_type), _compose("broadcast_to"), _broadcast_of_reshape),
    "transpose": (
        _identity(lambda o: o.attrs["axes"] == tuple(range(len(o.attrs["axes"])))),
        _compose_transposes,
        _sign_of_moved,
    ),
    "equal": (_negative_is_zero,),
    "not_equal": (_negative_is_zero,),
    "slice": (_identity(_is_full_slice),),
    "gather": (_read_filled, _read_broadcast),
    "pad": (_identity(lambda o: not any((*o.attrs["low"], *o.attrs["high"], *o.attrs["interior"]))),),
    "concatenate": (_identity(lambda o: len(o.operands) == 1),),
    "reduce_sum": (_identity(_same_type), _sum_of_negative),
    "reduce_max": (_identity(_same_type),),
    "reduce_min": (_identity(_same_type),),
    "reduce_prod": (_identity(_same_type),),
    "select": (_select_known, _select_again, _select_either),
    "dim": (_dim_of_int,),
}
