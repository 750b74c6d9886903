"""Ufuncs and other elementwise functions, as NumPy calls and as Python operators.

Reads the op table for the ufuncs that are one op; writes ops through common.py. Previous: common.py; next: creation.py.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.context import current, user_span
from tracegrad.capture.masked import Masked, Selection
from tracegrad.capture.memory import keep_order
from tracegrad.capture.numpy_api.common import (
    as_bool,
    as_known,
    covers,
    full,
    gather,
    is_known,
    known_scalar,
    select,
    spread,
    wrap_elementwise,
)
from tracegrad.capture.ragged import Ragged, leading
from tracegrad.capture.tracer import (
    HANDLERS,
    Tracer,
    apply,
    asarray,
    broadcast_shapes,
    call_handler,
    cast_to,
    check,
    fits_int64,
    from_value,
    full_name,
    make_weak,
    result_dtype,
    stage,
    unsupported,
    view_of,
)
from tracegrad.capture.trials import NEGATIVE_POWER, OUTGROWN, TOO_LARGE_POWER, said
from tracegrad.errors import ArgumentTypeError
from tracegrad.ir.core import Value
from tracegrad.ir.opdef import TABLE, OpDef
from tracegrad.ir.types import BOOL, F64, I64, is_complex, is_float, is_inexact, is_integer

#: ufunc -> the op that it is, for dtypes that the op takes
UFUNCS: dict[Any, OpDef] = {f: op for op in TABLE.values() for f in op.python if isinstance(f, np.ufunc)}

_ROUNDING = (np.floor, np.ceil, np.trunc, np.rint)
_OF_BOOL: dict[Any, OpDef] = {
    np.add: ops.logical_or,
    np.multiply: ops.logical_and,
    np.maximum: ops.logical_or,
    np.fmax: ops.logical_or,
    np.minimum: ops.logical_and,
    np.fmin: ops.logical_and,
    np.bitwise_or: ops.logical_or,
    np.bitwise_and: ops.logical_and,
    np.bitwise_xor: ops.logical_xor,
    np.invert: ops.logical_not,
}
_OF_INTEGERS: dict[Any, Any] = {np.fmax: np.maximum, np.fmin: np.minimum}
_LOGICAL = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
_WEAK: dict[str, Any] = {"f": float, "i": int, "u": int, "b": np.dtype(bool), "c": complex}


# ---- promotion


@functools.cache
def _resolve(ufunc: np.ufunc, samples: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    dtypes = (*samples, *[None] * ufunc.nout)
    if dtype is None:
        return ufunc.resolve_dtypes(dtypes)
    return ufunc.resolve_dtypes(dtypes, signature=(*[None] * len(samples), *[dtype] * ufunc.nout))


def resolve(ufunc: np.ufunc, operands: Sequence[Tracer], dtype: Any = None) -> tuple[Any, ...]:
    """Return the dtypes that NumPy computes in: one per operand, then one per result.

    Raises:
        ArgumentTypeError: the ufunc has no loop for these operands.
    """
    if all(t.weak for t in operands):
        samples = tuple(t.dtype for t in operands)
    else:
        samples = tuple(_WEAK[t.dtype.kind] if t.weak else t.dtype for t in operands)
    try:
        return _resolve(ufunc, samples, None if dtype is None else np.dtype(dtype))
    except TypeError as error:
        raise ArgumentTypeError(
            f"{full_name(ufunc)} does not take these dtypes",
            code="TG106",
            span=user_span(),
            found=", ".join(str(t.dtype) for t in operands) + f" ({str(error).splitlines()[0]})",
            help="cast the operands first",
        ) from None


# ---- the one handler of ufuncs


def call_ufunc(
    ufunc: np.ufunc,
    *operands: Any,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
    _python: bool = False,
) -> Any:
    """Do what a ufunc of one result does."""
    if len(operands) != ufunc.nin:
        raise TypeError(f"{ufunc.__name__}() takes {ufunc.nin} positional arguments but {len(operands)} were given")
    if any(type(v) is int and not fits_int64(v) for v in operands):
        # between floats a large Python int is a float, as NumPy has it
        inexact = any(isinstance(v, Tracer) and is_inexact(v.dtype) for v in operands)
        operands = tuple(float(v) if inexact and type(v) is int else v for v in operands)
    tracers = [asarray(v) for v in operands]
    if _python and all(t.weak for t in tracers):
        return _python_scalars(ufunc, tracers)
    result = _numpy_arrays(ufunc, tracers, dtype)
    if where is not True:
        result = select(where, result, full(result.type.shape, 0, result.dtype))
    return keep_order(result, tracers, order)


def _numpy_arrays(ufunc: np.ufunc, tracers: list[Tracer], dtype: Any = None) -> Tracer:
    special = SPECIAL.get(ufunc)
    if special is not None:
        result: Tracer | None = special(*tracers) if dtype is None else special(*[t.astype(dtype) for t in tracers])
        if result is not None:
            return result
    if ufunc in _LOGICAL:
        return _apply(UFUNCS[ufunc], [as_bool(t) for t in tracers])
    *inputs, _ = resolve(ufunc, tracers, dtype)
    return _compute(ufunc, [cast_to(t, d) for t, d in zip(tracers, inputs, strict=True)])


def _compute(ufunc: np.ufunc, tracers: list[Tracer]) -> Tracer:
    """Apply a ufunc to operands of the dtypes it computes in."""
    kinds = [t.dtype for t in tracers]
    if kinds[0] == BOOL and ufunc in _OF_BOOL:
        return _apply(_OF_BOOL[ufunc], tracers)
    if not is_inexact(kinds[0]):
        if ufunc in _ROUNDING or ufunc is np.conjugate or (ufunc is np.absolute and kinds[0].kind in "bu"):
            return tracers[0].copy()
        if ufunc in (np.isnan, np.isinf, np.isfinite):
            return full(tracers[0].type.shape, ufunc is np.isfinite, BOOL)
        ufunc = _OF_INTEGERS.get(ufunc, ufunc)
    return _apply(UFUNCS[ufunc], tracers)


def _apply(op: OpDef, tracers: list[Tracer]) -> Tracer:
    """Apply an elementwise op, broadcasting written out."""
    shape = broadcast_shapes(*[t.type.shape for t in tracers])
    return apply(op, *[spread(t, shape) for t in tracers])  # type: ignore[no-any-return]


# ---- Python operators between Python scalars

_ARITHMETIC = (np.add, np.subtract, np.multiply, np.floor_divide, np.remainder, np.negative, np.absolute, np.positive)
_DIVISIONS = (np.divide, np.floor_divide, np.remainder)


def _python_scalars(ufunc: np.ufunc, tracers: list[Tracer]) -> Any:
    """Apply a Python operator to Python scalars; the result is one."""
    if is_known(tracers):
        try:
            return PYTHON_OPERATORS[ufunc](*as_known(tracers))
        except ZeroDivisionError:
            if not current().depth:  # in a branch it may never run: staged below
                raise
    if ufunc is np.power:
        return _python_power(*tracers)
    if ufunc is np.positive:
        return from_value(_number(tracers[0]).value, weak=True)
    divisor = known_scalar(tracers[1]) if ufunc in _DIVISIONS else None
    if ufunc in (*_ARITHMETIC, np.invert, np.left_shift, np.right_shift) and not (
        ufunc is np.invert and tracers[0].dtype != BOOL
    ):
        tracers = [_number(t) for t in tracers]
    one = result_dtype(tracers).type(1).item()
    if ufunc is np.divide:
        tracers = [cast_to(t, F64) if not is_complex(t.dtype) else t for t in tracers]
    if ufunc in _DIVISIONS and not divisor:
        message = said(PYTHON_OPERATORS[ufunc], one, 0 * one)
        check(_numpy_arrays(np.not_equal, [tracers[1], asarray(0)]), "ZeroDivisionError", message)
    count = known_scalar(tracers[1]) if ufunc in (np.left_shift, np.right_shift) else 0
    if count is None or count < 0:
        check(greater_equal(tracers[1], 0), "ValueError", said(operator.lshift, 1, -1))
    if ufunc is np.multiply and _may_grow(tracers):
        size = absolute(multiply(cast_to(tracers[0], F64), cast_to(tracers[1], F64)))
        check(_numpy_arrays(np.less, [size, asarray(2.0**63)]), "OverflowError", OUTGROWN)
    *inputs, _ = resolve(ufunc, tracers)
    result = _compute(ufunc, [cast_to(t, d) for t, d in zip(tracers, inputs, strict=True)])
    return from_value(result.value, weak=True)


def _may_grow(tracers: list[Tracer]) -> bool:
    """Return whether a product is one of an int that a loop carries with another one, or with a large number."""
    if any(t.dtype != I64 for t in tracers) or not any(map(_is_carried, tracers)):
        return False
    factors = [abs(known) for t in tracers if (known := known_scalar(t)) is not None]
    return not factors or factors[0] > 2**20


def _is_carried(tracer: Tracer) -> bool:
    """Return whether a Python scalar is what a loop that is being captured carries."""
    value = tracer._storage.value
    if not tracer._storage.depth or value is None or value.producer is not None:
        return False
    return not any(value in frame.block.params for frame in current().frames)


def _number(tracer: Tracer) -> Tracer:
    """Return a Python scalar with bool made int, as Python arithmetic does."""
    return from_value(cast_to(tracer, I64).value, weak=True) if tracer.dtype == BOOL else tracer


def _python_power(base: Tracer, exponent: Tracer) -> Tracer:
    base, exponent = _number(base), _number(exponent)
    if is_integer(base.dtype) and is_integer(exponent.dtype):
        known = known_scalar(exponent)
        if known is None:
            check(
                _numpy_arrays(np.greater_equal, [exponent, asarray(0)]),
                "ValueError",
                NEGATIVE_POWER,
            )
        elif known < 0:
            base = cast_to(base, F64)
    result = _power(base, exponent)
    if current().windows and is_float(result.dtype):
        _check_power(base, exponent, result)
    return from_value(result.value, weak=True)


def _check_power(base: Tracer, exponent: Tracer, result: Tracer) -> None:
    """Stage the errors of a power of Python floats, for the handlers around it."""
    known = known_scalar(exponent)
    if known is None or (known < 0 and math.isfinite(known)):
        negative = less(exponent, 0) if known is None else asarray(True)
        by_zero = logical_and(equal(base, 0), logical_and(negative, isfinite(cast_to(exponent, F64))))
        check(logical_not(by_zero), "ZeroDivisionError", said(operator.pow, 0.0, -1.0))
    if known is None or not 0 <= known <= 1:
        finite = logical_and(isfinite(cast_to(base, F64)), isfinite(cast_to(exponent, F64)))
        too_large = logical_and(apply(ops.isinf, result), finite)
        check(logical_not(too_large), "OverflowError", TOO_LARGE_POWER)


PYTHON_OPERATORS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.absolute: abs,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.invert: operator.invert,
}


# ---- ufuncs as functions of tracers, for the composites here and in the other families


def _function(ufunc: np.ufunc) -> Callable[..., Tracer]:
    def compute(*operands: Any) -> Tracer:
        return _numpy_arrays(ufunc, [asarray(v) for v in operands])

    return compute


add = _function(np.add)
subtract = _function(np.subtract)
multiply = _function(np.multiply)
divide = _function(np.divide)
floor_divide = _function(np.floor_divide)
remainder = _function(np.remainder)
negative = _function(np.negative)
absolute = _function(np.absolute)
square = _function(np.square)
sqrt = _function(np.sqrt)
reciprocal = _function(np.reciprocal)
exp = _function(np.exp)
exp2 = _function(np.exp2)
log = _function(np.log)
log1p = _function(np.log1p)
sin = _function(np.sin)
floor = _function(np.floor)
ceil = _function(np.ceil)
trunc = _function(np.trunc)
rint = _function(np.rint)
maximum = _function(np.maximum)
minimum = _function(np.minimum)
equal = _function(np.equal)
not_equal = _function(np.not_equal)
less = _function(np.less)
less_equal = _function(np.less_equal)
greater = _function(np.greater)
greater_equal = _function(np.greater_equal)
logical_and = _function(np.logical_and)
logical_or = _function(np.logical_or)
logical_not = _function(np.logical_not)
isnan = _function(np.isnan)
isfinite = _function(np.isfinite)
conjugate = _function(np.conjugate)


def safe_sqrt(x: Tracer) -> Tracer:
    """Return the square root with derivative 0 at 0: both selects keep the infinite slope out of every order."""
    zero = equal(x, full((), 0, x.dtype))
    return select(zero, full((), 0, x.dtype), sqrt(select(zero, full((), 1, x.dtype), x)))


# ---- ufuncs that are several ops, or an op under a condition


def _power(base: Tracer, exponent: Tracer) -> Tracer:
    """Return base ** exponent; a constant exponent becomes what a person would write."""
    dtype = resolve(np.power, [base, exponent])[-1]
    known = known_scalar(exponent)
    if known is None or is_complex(np.asarray(known).dtype):
        if is_inexact(dtype) and is_integer(exponent.dtype):
            # an integer exponent stays one, so that negative bases have a derivative
            return _apply(ops.power, [cast_to(base, dtype), cast_to(exponent, I64)])
        return _apply(ops.power, [cast_to(base, dtype), cast_to(exponent, dtype)])
    base = cast_to(base, dtype)
    if known == int(known) if math.isfinite(known) else False:
        number = int(known)
        if number < 0 and not is_inexact(dtype):
            raise ValueError("Integers to negative integer powers are not allowed.")
        if -1 <= number <= 4:
            return _small_power(base, number)
        if is_inexact(dtype):
            return _apply(ops.power, [base, asarray(np.int64(number))])
        return _apply(ops.power, [base, cast_to(exponent, dtype)])
    if known == 0.5:
        return sqrt(base)
    if known == -0.5:
        return reciprocal(sqrt(base))
    return _apply(ops.power, [base, cast_to(exponent, dtype)])


def _small_power(base: Tracer, number: int) -> Tracer:
    if number < 0:
        return apply(ops.reciprocal, _small_power(base, -number))  # type: ignore[no-any-return]
    if number == 0:
        return full(base.type.shape, 1, base.dtype)
    if number == 1:
        return base.copy()
    squared: Tracer = apply(ops.square, base)
    if number == 2:
        return squared
    return apply(ops.multiply, squared, base) if number == 3 else apply(ops.square, squared)  # type: ignore[no-any-return]


def _broadcast_power(base: Tracer, exponent: Tracer) -> Tracer:
    result = _power(base, exponent)
    return spread(result, broadcast_shapes(base.type.shape, exponent.type.shape))


def _reciprocal(x: Tracer) -> Tracer | None:
    return None if is_inexact(x.dtype) else floor_divide(full((), 1, x.dtype), x)


def _heaviside(x: Tracer, at_zero: Tracer) -> Tracer:
    dtype = resolve(np.heaviside, [x, at_zero])[-1]
    zero, one = full((), 0, dtype), full((), 1, dtype)
    value = select(less(x, 0), zero, select(equal(x, 0), cast_to(at_zero, dtype), one))
    return value if not is_inexact(x.dtype) else select(isnan(x), full((), np.nan, dtype), value)


def _logaddexp2(x: Tracer, y: Tracer) -> Tracer:
    dtype = resolve(np.logaddexp2, [x, y])[-1]
    ln2 = full((), math.log(2.0), dtype)
    return divide(_function(np.logaddexp)(multiply(cast_to(x, dtype), ln2), multiply(cast_to(y, dtype), ln2)), ln2)


def _scaled(ufunc: np.ufunc, factor: float) -> Callable[[Tracer], Tracer]:
    def scale(x: Tracer) -> Tracer:
        dtype = resolve(ufunc, [x])[-1]
        return multiply(cast_to(x, dtype), full((), factor, dtype))

    return scale


def _ldexp(x: Tracer, exponent: Tracer) -> Tracer:
    dtype = resolve(np.ldexp, [x, exponent])[-1]
    return multiply(cast_to(x, dtype), exp2(cast_to(exponent, dtype)))


def _signbit(x: Tracer) -> Tracer:
    dtype = x.dtype if is_float(x.dtype) else F64
    return less(_function(np.copysign)(full((), 1, dtype), cast_to(x, dtype)), full((), 0, dtype))


def _float_power(base: Tracer, exponent: Tracer) -> Tracer:
    return _broadcast_power(cast_to(base, np.result_type(base.dtype, F64)), exponent)


def _positive(x: Tracer) -> Tracer:
    resolve(np.positive, [x])
    return x.copy()


def _fabs(x: Tracer) -> Tracer:
    return absolute(cast_to(x, resolve(np.fabs, [x])[0]))


def _equality(op: OpDef) -> Callable[[Tracer, Tracer], Tracer | None]:
    # float against a Python int out of the dtype and the like: the generic rule; bool against bool: comparable as is
    def compare(x: Tracer, y: Tracer) -> Tracer | None:
        if x.dtype == y.dtype and x.weak == y.weak:
            return _apply(op, [x, y])
        return None

    return compare


#: ufunc -> its own rule, which may return None to leave the operands to the generic one
SPECIAL: dict[Any, Callable[..., Tracer | None]] = {
    np.power: _broadcast_power,
    np.float_power: _float_power,
    np.reciprocal: _reciprocal,
    np.heaviside: _heaviside,
    np.logaddexp2: _logaddexp2,
    np.deg2rad: _scaled(np.deg2rad, math.pi / 180),
    np.radians: _scaled(np.radians, math.pi / 180),
    np.rad2deg: _scaled(np.rad2deg, 180 / math.pi),
    np.degrees: _scaled(np.degrees, 180 / math.pi),
    np.ldexp: _ldexp,
    np.signbit: _signbit,
    np.positive: _positive,
    np.fabs: _fabs,
    np.equal: _equality(ops.equal),
    np.not_equal: _equality(ops.not_equal),
}


# ---- registration of the ufuncs


def _register(ufunc: np.ufunc) -> None:
    covered = covers(ufunc)(functools.partial(_entry_of, ufunc))
    generic = HANDLERS[ufunc]

    def entry(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("_python") and is_known(args):
            if all(not isinstance(a, Tracer) or a.weak for a in args):
                return call_ufunc(ufunc, *args, _python=True)
            kwargs.pop("_python")
            return wrap_elementwise(PYTHON_OPERATORS[ufunc](*as_known(args)), args)
        return generic(*args, **kwargs)

    HANDLERS[ufunc] = entry
    assert covered is not None


def _entry_of(ufunc: np.ufunc, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    return call_ufunc(ufunc, *args, **kwargs)


for _ufunc in {*UFUNCS, *SPECIAL}:
    _register(_ufunc)


@covers(np.divmod)
def divmod_(x: Any, y: Any) -> tuple[Tracer, Tracer]:
    return floor_divide(x, y), remainder(x, y)


@covers(np.modf)
def modf(x: Any) -> tuple[Tracer, Tracer]:
    x = asarray(x)
    x = cast_to(x, resolve(np.modf, [x])[0])
    whole = trunc(x)
    return subtract(x, whole), whole


@covers(np.frexp, np.spacing, np.gcd, np.lcm, np.isnat, np.bitwise_count)
def refuse_integers(*args: Any, **kwargs: Any) -> Any:
    raise unsupported(
        "frexp, spacing, gcd, lcm, isnat or bitwise_count of a traced value", "compute it outside the function"
    )


# ---- elementwise functions that are no ufuncs


@covers(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return call_handler(np.nonzero, condition)
    return select(condition, x, y)


@covers(np.clip)
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Tracer:
    """Limit values; at a border the derivative is that of the inside."""
    if kwargs:
        raise unsupported(f"np.clip with {', '.join(kwargs)}", "use a, min and max alone")
    low = min if a_min is None or a_min is np._NoValue else a_min
    high = max if a_max is None or a_max is np._NoValue else a_max
    result = asarray(a)
    bounds = [asarray(b) for b in (low, high) if b is not None and b is not np._NoValue]
    if not bounds:
        return result.copy()
    for bound in bounds:  # the dtype of all three
        result = cast_to(result, resolve(np.maximum, [result, bound])[0])
    if low is not None:
        result = select(less(result, low), low, result)
    if high is not None:
        result = select(greater(result, high), high, result)
    return cast_to(result, np.dtype(dtype)) if dtype is not None else result


@covers(np.round, np.around)
def round_(a: Any, decimals: int = 0, out: Any = None) -> Tracer:
    """Round to decimals, halves to even; the derivative is 0."""
    x = asarray(a)
    decimals = operator.index(decimals)
    if not is_inexact(x.dtype):
        if decimals >= 0:
            return x.copy() if x.dtype != BOOL else cast_to(x, np.dtype(np.float16))
        scale = 10**-decimals
        return cast_to(multiply(rint(divide(x, scale)), float(scale)), x.dtype)
    if decimals == 0:
        return rint(x)
    scale = full((), 10.0 ** abs(decimals), x.dtype)
    return divide(rint(multiply(x, scale)), scale) if decimals > 0 else multiply(rint(divide(x, scale)), scale)


@covers(np.fix)
def fix(x: Any, out: Any = None) -> Tracer:
    return trunc(x)


@covers(np.sinc)
def sinc(x: Any) -> Tracer:
    """sin(pi x) / (pi x). Near 0 the series keeps derivatives of every order right."""
    x = asarray(x)
    dtype = x.dtype if is_inexact(x.dtype) else F64
    angle = multiply(cast_to(x, dtype), full((), math.pi, dtype))
    one = full((), 1, dtype)
    near = less(absolute(angle), full((), 1e-2, dtype))
    far = select(near, one, angle)
    s = square(select(near, angle, full((), 0, dtype)))
    series = full((), 1 / 362880, dtype)
    for coefficient in (-1 / 5040, 1 / 120, -1 / 6, 1.0):
        series = add(multiply(series, s), full((), coefficient, dtype))
    return select(near, series, divide(sin(far), far))


@covers(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tracer:
    if not copy:
        raise unsupported("np.nan_to_num with copy=False", "assign the result instead")
    tracer = asarray(x)
    if not is_inexact(tracer.dtype):
        return tracer.copy()
    info = np.finfo(tracer.dtype)
    high = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    infinite = _function(np.isinf)(tracer)
    result = select(isnan(tracer), nan, select(infinite, select(greater(tracer, 0), high, low), tracer))
    return cast_to(result, tracer.dtype)


@covers(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Tracer:
    a, b = asarray(a), asarray(b)
    near = less_equal(absolute(subtract(_as_float(a), b)), add(atol, multiply(rtol, absolute(b))))
    result = logical_or(logical_and(near, isfinite(b)), equal(a, b))
    return logical_or(result, logical_and(isnan(a), isnan(b))) if equal_nan else result


def _as_float(tracer: Tracer) -> Tracer:
    return tracer if is_inexact(tracer.dtype) else cast_to(tracer, F64)


@covers(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    return make_weak(call_handler(np.all, isclose(a, b, rtol, atol, equal_nan)))


def _part_of(x: Tracer, own: OpDef, unit: complex, other: OpDef, other_unit: complex) -> Tracer:
    """Return a view of one of the two parts of complex numbers."""

    def write(base: Value, new: Value) -> Value:
        parts = (new, unit), (stage(other, base), other_unit)
        one, two = (
            stage(ops.multiply, stage(ops.cast, part, dtype=base.dtype), ops.full_like(base, factor))
            for part, factor in parts
        )
        return stage(ops.add, one, two)  # type: ignore[no-any-return]

    def native(content: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if is_complex(content.dtype):
            return content.real if own is ops.real else content.imag
        # a layout: what is left lies twice as far apart
        strides = tuple(2 * s for s in content.strides)
        return np.lib.stride_tricks.as_strided(content, content.shape, strides)

    return view_of(x, lambda base: stage(own, base), write, contiguous=False, native=native)


@covers(np.real, native=False)
def real(val: Any) -> Tracer:
    x = asarray(val)
    return _part_of(x, ops.real, 1, ops.imag, 1j) if is_complex(x.dtype) else x


@covers(np.imag, native=False)
def imag(val: Any) -> Tracer:
    x = asarray(val)
    return _part_of(x, ops.imag, 1j, ops.real, 1) if is_complex(x.dtype) else full(x.type.shape, 0, x.dtype)


@covers(np.angle)
def angle(z: Any, deg: bool = False) -> Tracer:
    z = asarray(z)
    result = _function(np.arctan2)(_as_float(imag(z)), _as_float(real(z)))
    return call_handler(np.degrees, result) if deg else result


@covers(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return is_complex(asarray(x).dtype)


@covers(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return not is_complex(asarray(x).dtype)


@covers(np.iscomplex)
def iscomplex(x: Any) -> Tracer:
    x = asarray(x)
    return not_equal(imag(x), 0)


@covers(np.isreal)
def isreal(x: Any) -> Tracer:
    x = asarray(x)
    return equal(imag(x), 0)


@covers(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Tracer:
    return equal(x, np.inf)


@covers(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Tracer:
    return equal(x, -np.inf)


@covers(np.select)
def select_(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tracer:
    """Take from the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    result = asarray(default)
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = select(condition, choice, result)
    return result


@covers(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tracer:
    a = asarray(a)
    options = [asarray(c) for c in choices]
    shape = broadcast_shapes(a.type.shape, *[c.type.shape for c in options])
    dtype = np.result_type(*[c.dtype for c in options])
    table = call_handler(np.stack, [spread(cast_to(c, dtype), shape) for c in options])
    index = spread(cast_to(a, I64), shape)
    if mode == "clip":
        index = clip(index, 0, len(options) - 1)
    elif mode == "wrap":
        index = remainder(index, len(options))
    elif mode != "raise":
        raise ValueError("clipmode must be one of 'clip', 'raise', or 'wrap'")
    positions = [from_value(ops.iota(shape=shape, dtype=I64, axis=k)) for k in range(len(shape))]
    return gather(table, [index, *positions], range(table.ndim))


@covers(np.interp, masked=True)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Interpolate linearly; constant outside. At a knot the derivative is that of the segment to the right."""
    if period is not None:
        length = absolute(period)
        x, xp = remainder(x, length), remainder(xp, length)
        order = call_handler(np.argsort, xp)
        xp, fp = (call_handler(np.take, values, order) for values in (xp, fp))
        xp = call_handler(np.concatenate, (xp[-1:] - length, xp, xp[:1] + length))
        fp = call_handler(np.concatenate, (fp[-1:], fp, fp[:1]))
        left = right = None
    if isinstance(x, Masked) and isinstance(xp, Selection):
        x = x.compressed()
    if isinstance(x, Selection) and not isinstance(xp, Selection):
        return x.call(np.interp, (x, xp, fp, left, right), {})
    if isinstance(x, Ragged):
        points = x.forwards()
        return Ragged(interp(points.content, xp, fp, left, right), points.axes)
    if isinstance(xp, Selection) or isinstance(fp, Selection):
        return _interpolate_leading(x, xp, fp, left, right)
    x, xp, fp = (_as_real(v) for v in (x, xp, fp))
    count = xp.type.shape[0]
    low = clip(subtract(call_handler(np.searchsorted, xp, x, side="right"), 1), 0, _last(count, 2))
    high = add(low, 1) if not isinstance(count, int) or count > 1 else low
    return _interpolate(x, xp, fp, low, high, -1, left, right)


def _interpolate_leading(x: Any, xp: Any, fp: Any, left: Any, right: Any) -> Tracer:
    """Interpolate between points whose number is known only at run time."""
    (knots, count), (values, known) = leading(xp), leading(fp)
    check(call_handler(np.equal, count, known), "ValueError", "fp and xp are not of the same length.")
    check(call_handler(np.greater, count, 0), "ValueError", "array of sample points is empty")
    x, knots, values = (_as_real(v) for v in (x, knots, values))
    below = subtract(call_handler(np.searchsorted, xp, x, side="right"), 1)
    low = call_handler(np.clip, below, 0, call_handler(np.maximum, count - 2, 0))
    high = call_handler(np.minimum, add(low, 1), count - 1)
    return _interpolate(x, knots, values, low, high, count - 1, left, right)


def _as_real(value: Any) -> Tracer:
    tracer = asarray(value)
    return cast_to(tracer, np.result_type(tracer.dtype, F64))


def _interpolate(x: Tracer, xp: Tracer, fp: Tracer, low: Any, high: Any, last: Any, left: Any, right: Any) -> Tracer:
    """Interpolate between the points at positions low and high, the last of all being at `last`."""
    x0, x1, y0, y1 = (gather(t, [i], (0,)) for t in (xp, fp) for i in (low, high))
    width = subtract(x1, x0)
    flat = equal(width, 0)
    slope = divide(subtract(y1, y0), select(flat, 1.0, width))
    result = add(y0, multiply(slope, subtract(x, x0)))
    ends = [cast_to(asarray(i), I64) for i in (0, last)]
    x_first, x_last, y_first, y_last = (gather(t, [i], (0,)) for t in (xp, fp) for i in ends)
    result = select(less(x, x_first), y_first if left is None else left, result)
    return select(greater(x, x_last), y_last if right is None else right, result)


def _last(count: Any, back: int) -> Any:
    if isinstance(count, int):
        return max(count - back, 0)
    return from_value(ops.dim(dim=count - back))


@covers(np.i0)
def i0(x: Any) -> Tracer:
    tracer = asarray(x)
    return apply(ops.bessel_i, tracer if is_float(tracer.dtype) else cast_to(tracer, F64), order=0)  # type: ignore[no-any-return]


@covers(np.result_type, native=False)
def result_type(*args: Any) -> Any:
    return np.result_type(*[_result_sample(a) for a in args])


def _result_sample(value: Any) -> Any:
    if isinstance(value, Tracer):
        return {"f": 0.0, "i": 0, "u": 0, "b": False, "c": 0j}[value.dtype.kind] if value.weak else value.dtype
    return value
