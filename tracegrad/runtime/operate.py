"""How an operation of torch is applied: operands of one dtype, broadcast checks, in-place forms; and the elementwise
ones.

Reads tensors and Python numbers; gives tensors. Previous: kinds.py; next: shaping.py. Each operation is a composition
in NumPy's terms, so its gradient comes from the op table.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.tracer import Tracer, from_value
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.runtime import dtypes
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.kinds import REFUSED, refuse_kinds
from tracegrad.runtime.layout import LIKE_OPERANDS, common_shape
from tracegrad.runtime.tape import (
    Plan,
    Scalar,
    apply_composition,
    as_torch_calls,
    planned,
    require_current,
    shielding,
    underivable,
)
from tracegrad.runtime.tensor import METHODS, Tensor, method, public, require_tensors, type_name, wrap
from tracegrad.runtime.views import make_view, write

Number = (bool, int, float, complex)


def to_tensor(value: Any, dtype: Any = None) -> Tensor:
    """Return a tensor for a tensor, number or array; `dtype` is a NumPy dtype."""
    if isinstance(value, Tensor):
        return value if dtype is None or value._a.dtype == dtype else cast(value, dtype)
    if isinstance(value, Number):
        return wrap(dtypes.number_array(value, dtype or dtypes.default_of(dtypes.number_category(value))))
    return wrap(np.asarray(value, dtype))


def tensor_of(value: Any) -> Any:
    """Return a tensor as it is; what is none has no such array, and the error is that of the call (tensor.refusal)."""
    return value if isinstance(value, Tensor) else value._a


_CAST = Composition("ToCopy", lambda dtype, x: _cast(x, dtype), layout=LIKE_OPERANDS)


def _cast(x: Any, dtype: Any) -> Any:
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x != 0 if dtype.kind == "b" else x.real
    return x.astype(dtype)


def cast(tensor: Tensor, dtype: Any) -> Tensor:
    """Return the tensor in another NumPy dtype."""
    if tensor._a.dtype == dtype:
        return tensor
    made: Tensor = apply_composition(_CAST, (dtype,), [tensor])
    return made


def pointwise(
    name: str, function: Callable[..., Any], overload: int = 0, *, title: str = "", numbers: bool = False
) -> Composition:
    """Make the composition of an elementwise operation."""
    return Composition(name, function, overload=overload, title=title, layout=LIKE_OPERANDS, numbers=numbers)


_NARROW = (dtypes.bfloat16.dtype, dtypes.float16.dtype)
#: compositions that compute in float32 for half and bfloat16, also with Python numbers, and round once
_WIDE: set[Composition] = set()


def promoting(
    name: str,
    function: Callable[..., Any],
    overload: int = 0,
    *,
    wide: bool = False,
    title: str = "",
    numbers: bool = False,
) -> Composition:
    """Make a composition whose first static argument is the dtype that operands are brought to.

    Args:
        wide: half and bfloat16 are computed in float32; numbers and tensors of rank 0 are not rounded before.
        title, numbers: see Composition.
    """

    def apply(dtype: Any, *xs: Any) -> Any:
        if wide and dtype in _NARROW:
            single = dtypes.float32.dtype
            return function(*[_cast(_cast(x, dtype) if x.ndim else x, single) for x in xs]).astype(dtype)
        return function(*[x if x.dtype == dtype else _cast(x, dtype) for x in xs])

    made = pointwise(name, apply, overload, title=title, numbers=numbers)
    if wide:
        _WIDE.add(made)
    return made


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have a function compute in float32 where all its floats are half or bfloat16, and round the result once."""
    wide = dtypes.float32.dtype

    @functools.wraps(function)
    def inside(*given: Any) -> Any:
        floats = [x for x in given if isinstance(x, Tracer) and dtypes.category(x.dtype) >= 2]
        narrow = floats[0].dtype if floats else wide
        if narrow not in _NARROW or any(x.dtype != narrow for x in floats):
            return function(*given)
        return function(*[x.astype(wide) if isinstance(x, Tracer) and x.dtype == narrow else x for x in given]).astype(
            narrow
        )

    return inside


def require_floats(name: str, *tensors: Tensor) -> None:
    """Check that operands of what torch has for floats alone are such.

    Raises:
        NotImplementedError: one is not.
    """
    for tensor in tensors:
        if dtypes.category(tensor._a.dtype) < 2:
            raise NotImplementedError(f"\"{name}\" not implemented for '{dtypes.of(tensor._a.dtype).title}'")


def require_one_dtype(first: Tensor, *others: Tensor) -> None:
    """Check that operands have one dtype.

    Raises:
        RuntimeError: they have not.
    """
    for other in others:
        if other._a.dtype != first._a.dtype:
            raise RuntimeError(
                f"expected scalar type {first.dtype.title} but found {other.dtype.title}\n  help: convert one of them: "
                f".to({first.dtype!r})"
            )


def elementwise(composition: Composition, operands: Sequence[Any], *, least: int = 0) -> Plan:
    """Plan to apply a `promoting` composition to tensors and numbers.

    Args:
        least: category that operands are raised to: 2 for functions of floats.
    """
    operands = [number_of(t) for t in operands]
    arrays = [t._a for t in operands if type(t) not in Number]
    dtype = dtypes.result_type(arrays, [t for t in operands if type(t) in Number])
    if dtypes.category(dtype) < least:
        dtype = dtypes.default_of(least)
    of_numbers = dtype
    if dtype in _NARROW and composition in _WIDE:
        of_numbers = dtypes.float32.dtype
    elif dtype.kind in "iu" and dtype.itemsize < 8:
        of_numbers = dtypes.int64.dtype  # it wraps around when it is brought to the dtype
    made = [operand_of(t, of_numbers if type(t) in Number else dtype) for t in operands]
    broadcast_shape(*[t for t in made if isinstance(t, Tensor)])
    return Plan(composition, (dtype,), made)


def require_operands(*values: Any) -> None:
    """Check that operands are tensors or numbers, and one is a tensor.

    Raises:
        TypeError: they are not.
    """
    for value in values:
        if type(number_of(value)) not in Number or not any(isinstance(v, Tensor) for v in values):
            require_tensors(value)


def number_of(value: Any) -> Any:
    """Return a NumPy scalar as the Python number that torch takes it for, a bool as a float; others as they are."""
    if not isinstance(value, np.generic):
        return value
    return float(value) if isinstance(value, np.bool_) else value.item()


def operand_of(value: Any, dtype: np.dtype[Any]) -> Tensor | Scalar:
    """Return a tensor as it is, a number in a dtype."""
    if isinstance(value, Tensor):
        return value
    value = number_of(value)
    return Scalar(value, dtype) if type(value) in Number else tensor_of(value)


def broadcast_shape(*tensors: Tensor) -> tuple[int, ...]:
    """Return the shape of elementwise operations on tensors.

    Raises:
        RuntimeError: the shapes do not go together.
    """
    return common_shape([t._a.shape for t in tensors])


def in_place(name: str, function: Callable[..., Any], sharing: str = "whole") -> None:
    """Attach the in-place form of a method.

    Args:
        sharing: see views.check_writable.
    """

    has_row = name in REFUSED

    def method_in_place(self: Tensor, *args: Any, **keywords: Any) -> Tensor:
        if has_row:
            refuse_kinds(name, self)
        given = [t for t in (*args, *keywords.values()) if isinstance(t, Tensor)]
        return write(name, self, lambda x: function(x, *args, **keywords), given, sharing=sharing)

    method_in_place.__name__ = name
    method_in_place.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    method(name)(method_in_place)


def named(plan: Callable[..., Any], name: str, text: str, numbers: int = 0) -> Callable[..., Any]:
    """Make an operation of a function that plans it, under a name of torch."""
    plan.__name__ = plan.__qualname__ = name
    plan.__doc__ = text
    return planned(numbers)(plan)


# ---- functions of one tensor


def _op(op: Any, x: Any, **attrs: Any) -> Any:
    return from_value(op(as_tracer(x).value, **attrs))


def sigmoid_of(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)): of real numbers accurate at both ends, and it never overflows."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    return _op(ops.logistic, x)


def _log_in_base(base: float, of_real: Callable[..., Any]) -> Callable[..., Any]:
    """Return the logarithm in a base, of complex numbers too."""
    return lambda x: np.log(x) * x.real.dtype.type(1 / math.log(base)) if x.dtype.kind == "c" else of_real(x)


def relu_of(x: Any) -> Any:
    """Return max(x, 0), with derivative 0 at 0."""
    if x.dtype == np.bool_:
        raise RuntimeError("Boolean inputs not supported for relu")
    return _op(ops.relu, x) if x.dtype.kind in "fV" else np.maximum(x, x.dtype.type(0))


def exp2_of(x: Any) -> Any:
    """Return 2 ** x, of complex numbers too."""
    return np.exp(x * x.real.dtype.type(math.log(2.0))) if x.dtype.kind == "c" else np.exp2(x)


def logaddexp_of(x: Any, y: Any) -> Any:
    """Return log(exp(x) + exp(y)); of complex numbers the one of greater real part comes out of the logarithm."""
    if x.dtype.kind != "c":
        return np.logaddexp(x, y)
    first = x.real >= y.real
    most, least = np.where(first, x, y), np.where(first, y, x)
    infinite = np.isinf(most.real)
    distance = np.where(infinite, most * 0, least - np.where(infinite, most * 0, most))
    return np.where(infinite, most, most + np.log1p(np.exp(distance)))


def _softplus(x: Any) -> Any:
    return _op(ops.softplus, x)


def _negative(x: Any) -> Any:
    if x.dtype == np.bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    return np.negative(x)


def _sign(x: Any) -> Any:
    """Return the sign, 0 of NaN."""
    if dtypes.category(x.dtype) < 2:
        return x if x.dtype == np.bool_ else np.sign(x)
    return np.where(x == x, np.sign(x), x.dtype.type(0))


_UNARY: dict[str, tuple[str, Callable[..., Any]]] = {
    "exp": ("Exp", np.exp), "exp2": ("Exp2", exp2_of), "expm1": ("Expm1", np.expm1), "log": ("Log", np.log),
    "log2": ("Log2", _log_in_base(2.0, np.log2)), "log10": ("Log10", _log_in_base(10.0, np.log10)),
    "log1p": ("Log1P", np.log1p), "sqrt": ("Sqrt", np.sqrt),
    "rsqrt": ("Rsqrt", lambda x: 1.0 / np.sqrt(x)), "reciprocal": ("Reciprocal", np.reciprocal),
    "sin": ("Sin", np.sin), "cos": ("Cos", np.cos), "tan": ("Tan", np.tan), "asin": ("Asin", np.arcsin),
    "acos": ("Acos", np.arccos), "atan": ("Atan", np.arctan), "sinh": ("Sinh", np.sinh), "cosh": ("Cosh", np.cosh),
    "tanh": ("Tanh", np.tanh), "asinh": ("Asinh", np.arcsinh), "acosh": ("Acosh", np.arccosh),
    "atanh": ("Atanh", np.arctanh), "sigmoid": ("Sigmoid", sigmoid_of),
    "erf": ("Erf", lambda x: _op(ops.erf, x)), "erfc": ("Erfc", lambda x: _op(ops.erfc, x)),
    "erfinv": ("Erfinv", lambda x: _op(ops.erfinv, x)),
    "lgamma": ("Lgamma", lambda x: _op(ops.lgamma, x)), "digamma": ("Digamma", lambda x: _op(ops.digamma, x)),
}  # fmt: skip
_KEEPING: dict[str, tuple[str, Callable[..., Any]]] = {
    "neg": ("Neg", _negative), "abs": ("Abs", np.abs), "square": ("Pow", np.square),
    "sign": ("Sign", lambda x: _sign(x)),
    "floor": ("Floor", np.floor), "ceil": ("Ceil", np.ceil), "trunc": ("Trunc", np.trunc),
    "relu": ("Relu", relu_of), "frac": ("Frac", lambda x: x - np.trunc(x)),
    "deg2rad": ("Deg2Rad", lambda x: x * (math.pi / 180)), "rad2deg": ("Rad2Deg", lambda x: x * (180 / math.pi)),
}  # fmt: skip
_ALIASES = {
    "neg": "negative", "abs": "absolute", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "trunc": "fix",
}  # fmt: skip


#: what torch calls the functions that it does not have for bool
_NOT_OF_BOOL = {
    "abs": "abs_cpu", "floor": "floor_vml_cpu", "ceil": "ceil_vml_cpu", "round": "round_vml_cpu",
    "trunc": "trunc_vml_cpu", "frac": "frac_cpu", "floor_divide": "div_floor_cpu", "remainder": "remainder_cpu",
    "fmod": "fmod_cpu", "bitwise_left_shift": "lshift_cpu", "bitwise_right_shift": "rshift_cpu", "pow": "pow",
    "addcmul": "addcmul_cpu_out",
}  # fmt: skip


def _refuse_bools(name: str, *operands: Any) -> None:
    """Check the operands of an operation that torch does not have for bool.

    Raises:
        NotImplementedError: all are bools.
    """
    if name in _NOT_OF_BOOL and all(
        t._a.dtype == np.bool_ if isinstance(t, Tensor) else isinstance(t, bool) for t in operands
    ):
        raise NotImplementedError(f"\"{_NOT_OF_BOOL[name]}\" not implemented for 'Bool'")


def _round_at(digits: int, x: Any) -> Any:
    """Return numbers rounded to so many decimals, those before the point for a negative number."""
    scale = x.dtype.type(10.0 ** abs(digits))
    return np.rint(x * scale) / scale if digits > 0 else np.rint(x / scale) * scale


_ROUND_AT = pointwise("Round", in_single(_round_at), 1)


def _round_plan(input: Tensor, *, decimals: int = 0) -> Any:
    if not decimals:
        _refuse_bools("round", input)
        return elementwise(_ROUND, (input,))
    require_floats("round_cpu", input)
    return Plan(_ROUND_AT, (decimals,), [input])


def _define_unary(name: str, title: str, function: Callable[..., Any], least: int) -> None:
    composition = promoting(title, in_single(function))

    def plan(input: Tensor) -> Any:
        _refuse_bools(name, input)
        refuse_kinds(name, input)
        if name == "frac":
            require_floats("frac_cpu", input)
        return elementwise(composition, (tensor_of(input),), least=least)

    apply = named(plan, name, f"Return {name} of each element.")
    if name in ("rsqrt", "reciprocal"):
        apply = shielding(0)(apply)
    _attach_unary(name, apply)


def _attach_unary(name: str, apply: Callable[..., Any]) -> None:
    for each in (name, _ALIASES.get(name, name)):
        public(each)(apply)
        method(each)(apply)
        in_place(f"{each}_", apply)


for _name, (_title, _function) in _UNARY.items():
    _define_unary(_name, _title, _function, 2)
for _name, (_title, _function) in _KEEPING.items():
    _define_unary(_name, _title, _function, {"square": 1, "deg2rad": 2, "rad2deg": 2}.get(_name, 0))
_ROUND = promoting("Round", in_single(lambda x: np.rint(x) if dtypes.category(x.dtype) > 1 else np.floor(x)))
_attach_unary("round", named(_round_plan, "round", "Return each element rounded to a number of decimals."))
_CONJ_PHYSICAL = [pointwise("ConjPhysical", np.conj, overload) for overload in (0, 1)]


@public()
@method("conj_physical")
def conj_physical(input: Tensor) -> Any:
    """Return the complex conjugate in memory of its own; a real tensor as it is."""
    return apply_composition(_CONJ_PHYSICAL[0], (), [input]) if input.is_complex() else input


@public()
@method("conj_physical_")
def conj_physical_(input: Tensor) -> Tensor:
    """Replace numbers by their conjugates."""
    return write("conj_physical_", input, lambda x: apply_composition(_CONJ_PHYSICAL[1], (), [x]))


method("__neg__")(METHODS["neg"])
method("__abs__")(METHODS["abs"])


@method("__pos__")
def _positive(self: Tensor) -> Tensor:
    if self._a.dtype == np.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


softplus_of = _softplus

# ---- arithmetic

_ADD = promoting("Add", lambda x, y: np.logical_or(x, y) if x.dtype == np.bool_ else x + y, wide=True)
_ADD_SCALED = promoting(
    "Add", lambda x, y, alpha: x | (y & alpha) if x.dtype == np.bool_ else x + y * alpha, wide=True, numbers=True
)
_SUB = promoting("Sub", lambda x, y: x - y, wide=True)
_RSUB = promoting("Rsub", lambda x, y: x - y, 1, wide=True)
_RSUB_SCALED = promoting("Rsub", lambda x, y, alpha: x - y * alpha, 1, wide=True, numbers=True)
_RDIV = promoting("Mul", lambda x, y: x / y, wide=True)
_SUB_SCALED = promoting("Sub", lambda x, y, alpha: x - y * alpha, wide=True, numbers=True)
_MUL = promoting("Mul", lambda x, y: np.logical_and(x, y) if x.dtype == np.bool_ else x * y, wide=True)
_DIV = promoting("Div", lambda x, y: x / y, wide=True)
_SCALED = promoting("Mul", lambda x, y: x * y, 1, wide=True, numbers=True)


def _is_operand(value: Any) -> bool:
    return isinstance(value, (Tensor, *Number, np.ndarray, np.generic))


def _operator(name: str, plan: Callable[[Any, Any], Any], numbers: int = 2) -> Callable[..., Any]:
    """Attach an operator, which takes arrays too, and leaves what it does not know to the other operand.

    Args:
        numbers: see `planned`.
    """

    @planned(numbers)
    def apply(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return plan(self, wrap(other) if isinstance(other, np.ndarray) else other)

    return method(f"__{name}__")(apply)


@public()
@method("add")
@planned(2)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return input + alpha * other."""
    factor = _factor(input, other, _number_named("add", "alpha", alpha))
    return elementwise(_ADD, (input, other)) if factor is None else elementwise(_ADD_SCALED, (input, other, factor))


def _number_named(name: str, option: str, value: Any) -> Any:
    """Return the number that an option of an operation has.

    Raises:
        TypeError: it is none.
    """
    number = value.item() if isinstance(value, Tensor) and not value._a.ndim else number_of(value)
    if type(number) not in Number:
        raise TypeError(f"{name}(): argument '{option}' must be Number, not {type_name(value)}")
    return number


def _factor(input: Any, other: Any, alpha: Any) -> Any:
    """Return what an operand is multiplied by before an addition or a subtraction, None for 1.

    Raises:
        RuntimeError: it is of another kind than the result.
    """
    if type(alpha) is int and alpha == 1:
        return None
    pair = [number_of(t) for t in (input, other)]
    dtype = dtypes.result_type([t._a for t in pair if type(t) not in Number], [t for t in pair if type(t) in Number])
    check_factor("alpha", alpha, dtype)
    if dtypes.number_category(alpha) == 3 != dtypes.category(dtype):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    return None if alpha == 1 else dtypes.factor(alpha, dtype)


def check_factor(name: str, value: Any, dtype: np.dtype[Any]) -> None:
    """Check the factor of an operand of an addition.

    Raises:
        RuntimeError: it is a bool, or no integer, and the result has integers.
    """
    level, of_result = dtypes.number_category(value), dtypes.category(dtype)
    if level == 0 != of_result:
        raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    if level > 1 >= of_result:
        raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")


def _plan_sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return input - alpha * other."""
    number = _number_named("sub", "alpha", alpha)
    _refuse_bool(input, number_of(other))
    factor = _factor(input, other, number)
    return elementwise(_SUB, (input, other)) if factor is None else elementwise(_SUB_SCALED, (input, other, factor))


sub = public("sub", "subtract")(method("sub", "subtract")(named(_plan_sub, "sub", _plan_sub.__doc__ or "", 2)))


def _refuse_bool(input: Any, other: Any) -> None:
    """Check the operands of a subtraction.

    Raises:
        RuntimeError: one is a bool.
    """
    count = sum(t._a.dtype == np.bool_ if isinstance(t, Tensor) else isinstance(t, bool) for t in (input, other))
    if count == 2:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )
    if count:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )


@public("mul", "multiply")
@method("mul", "multiply")
@planned(2)
def mul(input: Any, other: Any) -> Any:
    """Return input * other."""
    return elementwise(_MUL, (input, other))


@planned(2)
def scaled(input: Any, factor: Any) -> Any:
    """Return input * factor, a number or a tensor of numbers that nobody else has."""
    return elementwise(_SCALED, (input, factor))


def refuse_zero(dividend: Any, divisor: Any) -> None:
    """Check the divisor of a division that gives integers.

    Raises:
        RuntimeError: it has a zero.
    """
    arrays = [np.asarray(t) if isinstance(t, Number) else t._a for t in map(number_of, (dividend, divisor))]
    if all(a.size and a.dtype.kind in "biu" for a in arrays) and not arrays[1].all():
        if all(array.dtype == np.bool_ for array in arrays):
            return
        raise RuntimeError("ZeroDivisionError")


@public("div", "divide", "true_divide")
@method("div", "divide", "true_divide")
@as_torch_calls
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Return input / other; `rounding_mode` is None, "trunc" or "floor"."""
    if rounding_mode not in (None, "trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    if rounding_mode is not None:
        refuse_zero(input, other)
    return _divide(input, other, rounding_mode)


@planned(2)
def _divide(input: Any, other: Any, rounding_mode: str | None) -> Any:
    if rounding_mode == "floor":
        return elementwise(_FLOOR_DIVIDE, (input, other))
    if rounding_mode == "trunc":
        return elementwise(_TRUNC_DIVIDE, (input, other))
    return elementwise(_DIV, (input, other), least=2)


_operator("add", lambda x, y: elementwise(_ADD, (x, y)))
_operator("sub", _plan_sub)
_operator("mul", lambda x, y: elementwise(_MUL, (x, y)))
_operator("truediv", lambda x, y: elementwise(_DIV, (x, y), least=2))
_operator("radd", lambda x, y: elementwise(_ADD, (y, x)))
_operator("rmul", lambda x, y: elementwise(_MUL, (x, y)))
method("__rtruediv__")(shielding(1)(_operator("rtruediv", lambda x, y: elementwise(_RDIV, (y, x), least=2))))


def _plan_rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return other - alpha * input."""
    number = _number_named("rsub", "alpha", alpha)
    _refuse_bool(other, input)
    factor = _factor(input, other, number)
    return elementwise(_RSUB, (other, input)) if factor is None else elementwise(_RSUB_SCALED, (other, input, factor))


_operator("rsub", _plan_rsub)
rsub = public()(named(_plan_rsub, "rsub", _plan_rsub.__doc__ or "", 2))


_FLOOR_DIVIDE = promoting("Div", lambda x, y: x // y, 2)
_TRUNC_DIVIDE = promoting(
    "Div", lambda x, y: np.trunc(x / y) if x.dtype.kind == "f" else np.fix(x / y).astype(x.dtype), 2
)


def _define_binary(
    name: str, title: str, function: Callable[..., Any], *, least: int = 0, operators: tuple[str, ...] = (),
    check: Callable[[Any, Any], None] | None = None, of_tensors: int = 0, numbers: str = "any",
) -> Callable[..., Any]:  # fmt: skip
    """Attach an operation of two operands.

    Args:
        of_tensors: the overload whose operands are two tensors.
        numbers: which operands may be numbers: "any", "both", that of the "second" place, or "none". Those of operators
            always may.
    """
    compositions = [promoting(title, function, overload) for overload in (0, of_tensors)]

    def checked(operation: Callable[..., Any], order: int = 1) -> Callable[..., Any]:
        if check is None:
            return operation

        @as_torch_calls
        @functools.wraps(operation)
        def call(input: Any, other: Any) -> Any:
            pair = [wrap(t) if isinstance(t, np.ndarray) else number_of(t) for t in (input, other)[::order]]
            if all(isinstance(t, (Tensor, *Number)) for t in pair):  # others are refused as operands
                check(*pair)
            return operation(input, other)

        return underivable(name)(call) if name == "floor_divide" else call

    def plan(input: Any, other: Any) -> Any:
        _refuse_bools(name, input, other)
        if name in ("hypot", "logaddexp"):
            _refuse_integers(name, input, other)
        composition = compositions[isinstance(input, Tensor) and isinstance(other, Tensor)]
        return elementwise(composition, (input, other), least=least)

    def plan_by_name(input: Any, other: Any) -> Any:
        if numbers in ("second", "none") or (numbers == "any" and not isinstance(other, Tensor)):
            require_tensors(input)
        if numbers == "none":
            require_tensors(other)
        return plan(input, other)

    apply = checked(named(plan_by_name, name, f"Return {name} of each pair of elements.", 2))
    public(name)(apply)
    method(name)(apply)
    for each in operators:
        method(f"__{each}__")(checked(_operator(each, plan)))
        if each not in ("eq", "ne", "lt", "le", "gt", "ge"):
            method(f"__r{each}__")(checked(_operator(f"r{each}", lambda x, y: plan(y, x)), -1))
    return apply


def _refuse_integers(name: str, *operands: Any) -> None:
    """Check the operands of an operation that torch has for floats alone.

    Raises:
        NotImplementedError: none of them is a float.
    """
    tensors = [t for t in operands if isinstance(t, Tensor)]
    if all(dtypes.category(t._a.dtype) < 2 for t in tensors):
        require_floats(f"{name}_cpu", *tensors)


def _result_type(*operands: Any) -> np.dtype[Any]:
    """Return the dtype of tensors and numbers combined."""
    numbers = [t for t in operands if type(t) in Number]
    return dtypes.result_type([t._a for t in operands if isinstance(t, Tensor)], numbers)


def _refuse_floats(name: str, input: Any, other: Any) -> None:
    """Check the operands of an operation on bits.

    Raises:
        NotImplementedError: one is a float.
    """
    dtype = _result_type(input, other)
    if dtypes.category(dtype) > 1:
        refused = _NOT_OF_BOOL.get(name, f"{name}_cpu")
        raise NotImplementedError(f"\"{refused}\" not implemented for '{dtypes.of(dtype).title}'")


_define_binary(
    "floor_divide", "FloorDivide", lambda x, y: x // y, operators=("floordiv",), check=refuse_zero, numbers="both"
)
_define_binary("remainder", "Remainder", lambda x, y: x % y, operators=("mod",), check=refuse_zero, of_tensors=1)
_define_binary("fmod", "Fmod", np.fmod, check=refuse_zero, of_tensors=1, numbers="second")
_define_binary("maximum", "Maximum", np.maximum, numbers="none")
_define_binary("minimum", "Minimum", np.minimum, numbers="none")
_define_binary("fmax", "Fmax", lambda x, y: _chosen(np.fmax, x >= y, x, y), numbers="none")
_define_binary("fmin", "Fmin", lambda x, y: _chosen(np.fmin, x <= y, x, y), numbers="none")


def _chosen(function: Any, first: Any, x: Any, y: Any) -> Any:
    """Return x where `first` or y is NaN, else y: of equal ones x has the gradient."""
    return np.where(first | np.isnan(y), x, y) if dtypes.category(x.dtype) > 1 else function(x, y)


def _atan2(y: Any, x: Any) -> Any:
    """Return the angle, with derivative 0 at the origin."""
    at_origin = (x == 0) & (y == 0)
    constant = _op(ops.stop_gradient, np.arctan2(y, x))
    return np.where(at_origin, constant, np.arctan2(y, np.where(at_origin, x.dtype.type(1), x)))


def times_log(log: Callable[[Any], Any], edge: Any, x: Any, y: Any) -> Any:
    """Return x times a logarithm of y, 0 where x is.

    Where y is at an edge too, there is no slope, but that in y is NaN at the pole of the logarithm.
    """
    zero, one = x.dtype.type(0), x.dtype.type(1)
    nothing = (x == 0) & edge
    is_pole = nothing & (log(np.where(edge, y, one)) == -math.inf)
    return np.where(
        nothing, np.where(is_pole, _without_slope(np.where(is_pole, y, one)), zero), x * log(np.where(nothing, one, y))
    )


def _without_slope(x: Any) -> Any:
    """Return zeros whose slopes are NaN."""
    return np.sqrt(x.dtype.type(0) * x * x)


_define_binary("atan2", "Atan2", _atan2, least=2, numbers="none")
_define_binary("hypot", "Hypot", np.hypot, least=2, numbers="none")
_define_binary("copysign", "Copysign", np.copysign, least=2, numbers="second")
_define_binary("logaddexp", "Logaddexp", logaddexp_of, least=2, numbers="none")
_define_binary(
    "xlogy",
    "Xlogy",
    lambda x, y: times_log(np.log, (y <= 0) | (y == math.inf), x, y),
    least=2,
)
for _name, _function, _operators in (
    ("eq", operator.eq, ("eq",)), ("ne", operator.ne, ("ne",)), ("lt", operator.lt, ("lt",)),
    ("le", operator.le, ("le",)), ("gt", operator.gt, ("gt",)), ("ge", operator.ge, ("ge",)),
    ("bitwise_and", operator.and_, ("and",)), ("bitwise_or", operator.or_, ("or",)),
    ("bitwise_xor", operator.xor, ("xor",)), ("bitwise_left_shift", operator.lshift, ("lshift",)),
    ("bitwise_right_shift", operator.rshift, ("rshift",)),
):  # fmt: skip
    _bits = functools.partial(_refuse_floats, _name) if _name.startswith("bitwise") else None
    _of_second = "any" if _bits else "second"
    _define_binary(
        _name, _name.capitalize(), _function, operators=_operators, check=_bits, numbers=_of_second
    )  # fmt: skip
for _short, _long in (
    ("gt", "greater"),
    ("ge", "greater_equal"),
    ("lt", "less"),
    ("le", "less_equal"),
    ("ne", "not_equal"),
):
    public(_long)(METHODS[_short])
    method(_long)(METHODS[_short])
Tensor.__hash__ = lambda self: id(self)  # type: ignore[method-assign]


def _define_logical(name: str, function: Callable[..., Any]) -> None:
    composition = pointwise(name, lambda *xs: function(*[x if x.dtype == np.bool_ else x != 0 for x in xs]))

    def plan(input: Tensor, other: Tensor) -> Any:
        return Plan(composition, (), [tensor_of(input), tensor_of(other)])

    def plan_of_one(input: Tensor) -> Any:
        return Plan(composition, (), [tensor_of(input)])

    of_any: Callable[..., Any] = plan_of_one if name == "logical_not" else plan
    apply = named(of_any, name, f"Return {name} of the truth of each element.")
    public(name)(apply)
    method(name)(apply)


for _name, _function in (
    ("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor),
    ("logical_not", np.logical_not),
):  # fmt: skip
    _define_logical(_name, _function)
_INVERT = pointwise("BitwiseNot", np.invert)


@public("bitwise_not")
@method("bitwise_not", "__invert__")
@planned()
def bitwise_not(input: Tensor) -> Any:
    """Return all bits flipped; not x for bool."""
    if input._a.dtype.kind not in "biu":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return Plan(_INVERT, (), [input])


def _define_test(name: str, function: Callable[..., Any]) -> None:
    composition = pointwise(name, lambda x: function(x) if x.dtype.kind in "fcV" else x != x)

    apply = named(lambda input: Plan(composition, (), [input]), name, f"Return {name} of each element.")
    public(name)(apply)
    method(name)(apply)


_define_test("isnan", np.isnan)
_define_test("isinf", np.isinf)


@public()
@method("isfinite")
def isfinite(input: Tensor) -> Any:
    """Return whether each element is neither infinite nor NaN."""
    require_current(input)
    return wrap(np.asarray(np.isfinite(input._a)))


# ---- powers


def _power(x: Any, y: Any) -> Any:
    """Return x ** y; a negative power of an integer is 0, but of 1 and -1."""
    if x.dtype.kind != "i":
        return x**y
    one, zero = x.dtype.type(1), x.dtype.type(0)
    sign = np.where(x == 1, one, np.where(x == -1, one - 2 * (y & 1), zero))
    return np.where(y < 0, sign, x ** np.maximum(y, zero))


_POW_OF_NUMBER, _POW, _NUMBER_POW = (promoting("Pow", _power, overload) for overload in range(3))
_POW_INTEGER = pointwise("Pow", lambda exponent, dtype, x: _integer_power(_cast(x, dtype), exponent))


def _integer_power(x: Any, exponent: int) -> Any:
    if exponent == 0:
        return x * 0 + 1 if x.dtype.kind in "iu" else np.power(x, x.dtype.type(0))
    if exponent == 1:
        return x
    if exponent == 2:
        return np.square(x)
    if x.dtype.kind in "iu":
        return x**exponent
    return np.power(x, np.int8(exponent)) if x.dtype.kind == "f" else np.power(x, x.dtype.type(exponent))


def _plan_pow(input: Any, exponent: Any) -> Any:
    """Return input ** exponent."""
    input, exponent = number_of(input), number_of(exponent)
    if not isinstance(exponent, Tensor):
        require_tensors(input)
    if isinstance(exponent, bool) and isinstance(input, Tensor) and input._a.dtype == np.bool_:
        return Plan(_POW_INTEGER, (int(exponent), input._a.dtype), [input])
    _refuse_bools("pow", input, exponent)
    if isinstance(input, Tensor) and isinstance(exponent, int | float) and float(exponent).is_integer():
        dtype = dtypes.result_type([input._a], [exponent])
        if dtypes.category(dtype) == 1 and not np.iinfo(dtype).min <= exponent <= np.iinfo(dtype).max:
            raise dtypes.overflow_error(dtype)
        if abs(exponent) <= 64 and (exponent >= 0 or dtypes.category(dtype) >= 2):
            return Plan(_POW_INTEGER, (int(exponent), dtype), [input])
    if isinstance(exponent, int) and exponent < 0 and dtypes.category(input._a.dtype) < 2:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if not isinstance(input, Tensor):
        return elementwise(_NUMBER_POW, (input, exponent))
    return elementwise(_POW if isinstance(exponent, Tensor) else _POW_OF_NUMBER, (input, exponent))


power = public("pow")(method("pow")(named(_plan_pow, "pow", _plan_pow.__doc__ or "")))
_operator("pow", _plan_pow, 0)  # of each exponent there is a kernel
_operator("rpow", lambda x, y: _plan_pow(y, x))

# ---- bounds and choice


def _clamp(has_low: bool, has_high: bool, dtype: Any, x: Any, *bounds: Any) -> Any:
    x, *bounds = [_cast(t, dtype) for t in (x, *bounds)]  # type: ignore[assignment]
    if has_low:
        low = bounds[0]
        x = np.where(x < low, low, x)
    if has_high:
        high = bounds[-1]
        x = np.where(x > high, high, x)
    return x


_CLAMP, _CLAMP_TO_NUMBERS = pointwise("Clamp", _clamp), pointwise("Clamp", _clamp, 1)


@public("clamp", "clip")
@method("clamp", "clip")
@planned(3)
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Any:
    """Limit elements to [min, max]; at a border the gradient is that of the inside."""
    given = [b for b in (min, max) if b is not None]
    if not given:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    dtype = dtypes.result_type(
        [t._a for t in (input, *given) if isinstance(t, Tensor)], [b for b in given if not isinstance(b, Tensor)]
    )
    composition = _CLAMP if any(isinstance(b, Tensor) for b in given) else _CLAMP_TO_NUMBERS
    return Plan(composition, (min is not None, max is not None, dtype), [input, *[operand_of(b, dtype) for b in given]])


_CLAMP_MIN, _CLAMP_MAX = (
    tuple(pointwise(name, functools.partial(_clamp, *sides), overload) for overload in range(2))
    for name, sides in (("ClampMin", (True, False)), ("ClampMax", (False, True)))
)


def _one_bound(compositions: Sequence[Composition], input: Tensor, bound: Any) -> Plan:
    dtype = dtypes.result_type(
        [t._a for t in (input, bound) if isinstance(t, Tensor)], [] if isinstance(bound, Tensor) else [bound]
    )
    return Plan(compositions[isinstance(bound, Tensor)], (dtype,), [input, operand_of(bound, dtype)])


@public()
@method("clamp_min")
@planned(2)
def clamp_min(input: Tensor, min: Any) -> Any:
    """Limit elements from below."""
    return _one_bound(_CLAMP_MIN, input, min)


@public()
@method("clamp_max")
@planned(2)
def clamp_max(input: Tensor, max: Any) -> Any:
    """Limit elements from above."""
    return _one_bound(_CLAMP_MAX, input, max)


_WHERE = pointwise("Where", lambda dtype, c, x, y: np.where(c, _cast(x, dtype), _cast(y, dtype)))


@public()
@planned(3)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """Return input where the condition holds, else other; with the condition alone, the positions of true elements."""
    if input is None and other is None:
        return tuple(wrap(np.asarray(k)) for k in np.nonzero(condition._a))
    if input is None or other is None:
        raise TypeError("where(): what is chosen must be given for both cases, or for none: (condition, input, other)")
    if condition._a.dtype not in (np.bool_, np.uint8):
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.title}"
        )
    values = (input, other)
    dtype = dtypes.result_type(
        [t._a for t in values if isinstance(t, Tensor)], [v for v in values if not isinstance(v, Tensor)]
    )
    chosen = to_tensor(condition, np.dtype(np.bool_))
    made = [chosen, operand_of(input, dtype), operand_of(other, dtype)]
    broadcast_shape(*[t for t in (*made[1:], chosen) if isinstance(t, Tensor)])
    return Plan(_WHERE, (dtype,), made)


method("where")(lambda self, condition, other: where(condition, self, other))
_MASKED_FILL = Composition("MaskedFill", lambda x, mask, value: np.where(mask, _cast(value, x.dtype), x))


@public()
@method("masked_fill")
@planned(3)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Any:
    """Return the tensor with the elements under the mask replaced."""
    if mask._a.dtype != np.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    broadcast_shape(input, mask)
    if isinstance(value, Tensor):
        if value._a.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._a.ndim} dimension(s)."
            )
        dtypes.check_fits(value._a, input._a.dtype)
    return Plan(_MASKED_FILL, (), [input, mask, operand_of(value, input._a.dtype)])


_LERP = promoting("Lerp", lambda x, y, w: x + w * (y - x), wide=True)
_LERP_BY_NUMBER = promoting("Lerp", lambda x, y, w: x + w * (y - x), wide=True, numbers=True)
_ADDCMUL = promoting("Addcmul", lambda x, a, b, value: x + value * a * b, wide=True)
_ADDCDIV = promoting("Addcdiv", lambda x, a, b, value: x + value * a / b, wide=True)


@public()
@method("lerp")
@planned(3)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Any:
    """Return input + weight * (end - input)."""
    require_floats(f"lerp_kernel_{'tensor' if isinstance(weight, Tensor) else 'scalar'}", input)
    for name, other in (("end", end), ("weight", weight)):
        if isinstance(other, Tensor) and other._a.dtype != input._a.dtype:
            raise RuntimeError(
                f"expected dtype {dtypes.scalar_name(input._a.dtype)} for `{name}` but got dtype "
                f"{dtypes.scalar_name(other._a.dtype)}"
            )
    return elementwise(_LERP if isinstance(weight, Tensor) else _LERP_BY_NUMBER, (input, end, weight))


@public()
@method("addcmul")
@planned(3)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Any:
    """Return input + value * tensor1 * tensor2."""
    _refuse_bools("addcmul", input, tensor1, tensor2)
    return elementwise(_ADDCMUL, (input, tensor1, tensor2, _value_of("addcmul", value, input, tensor1, tensor2)))


@public()
@method("addcdiv")
@planned(3)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Any:
    """Return input + value * tensor1 / tensor2."""
    if dtypes.category(tensor1._a.dtype) < 2 and dtypes.category(tensor2._a.dtype) < 2:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported\n  help: convert an operand of the division: .float()"
        )
    return elementwise(_ADDCDIV, (input, tensor1, tensor2, _value_of("addcdiv", value, input, tensor1, tensor2)))


def _value_of(name: str, value: Any, *tensors: Tensor) -> Any:
    """Return the factor of a product or quotient that is added, in the category of the tensors."""
    number = _number_named(name, "value", value)
    return dtypes.factor(number, dtypes.result_type([t._a for t in tensors], []))


# ---- complex numbers


def _angle(x: Any) -> Any:
    """Return the angle; the slope is 0 where the number is."""
    if x.dtype.kind != "c":
        is_number, dtype = x == x, x.dtype.type
        return np.where(is_number, np.where(x < 0, dtype(math.pi), dtype(0)), np.where(is_number, x, dtype(math.nan)))
    is_zero = x == 0
    at_zero = np.copysign(np.arccos(np.copysign(np.ones_like(x.real), x.real)), x.imag)
    return np.where(is_zero, at_zero, np.angle(np.where(is_zero, x.dtype.type(1), x)))


_ANGLE = promoting("Angle", _angle)


@public()
@method("conj")
def conj(input: Tensor) -> Any:
    """Return the complex conjugate: a view."""
    return make_view("Conj", input, ("conj", (), ())) if input.is_complex() else input


@public("real")
def real(input: Tensor) -> Any:
    """Return the real part: a view."""
    return make_view("Select", input, ("real", (), ())) if input.is_complex() else input


@public("imag")
def imag(input: Tensor) -> Any:
    """Return the imaginary part: a view."""
    if not input.is_complex():
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return make_view("Select", input, ("imag", (), ()))


def _part(function: Callable[..., Any]) -> property:
    """Return the property of a part of complex numbers; what is assigned is written into it."""
    return property(function, lambda self, value: function(self).copy_(value))


setattr(Tensor, "real", _part(real))  # noqa: B010 properties beside the annotations of Tensor
setattr(Tensor, "imag", _part(imag))  # noqa: B010


def require_parts(first: Tensor, second: Tensor) -> None:
    """Check what complex numbers are made of.

    Raises:
        RuntimeError: there are other numbers than real floats, or of two dtypes.
    """
    pair = first.dtype, second.dtype
    if not all(dtype.is_floating_point and dtype != dtypes.bfloat16 for dtype in pair):
        names = " and ".join(dtype.title for dtype in pair)
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {names}")
    if pair[0] != pair[1]:
        raise RuntimeError(
            f"Expected object of scalar type {pair[0].title} but got scalar type {pair[1].title} for second argument"
        )


@public("complex")
@planned()
def complex_(real: Tensor, imag: Tensor) -> Any:
    """Return real + 1j * imag."""
    require_parts(real, imag)
    return Plan(_COMPLEX, (dtypes.complex_of(real._a.dtype),), [real, imag])


_COMPLEX = pointwise("Complex", lambda dtype, x, y: x.astype(dtype) + y.astype(dtype) * dtype.type(1j))


@public()
@method("angle")
@planned()
def angle(input: Tensor) -> Any:
    """Return the angle of complex numbers."""
    return elementwise(_ANGLE, (input,), least=2)


# ---- in place


def _of_bits_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation on bits for its in-place form, which refuses a result that its operand cannot hold first."""

    @functools.wraps(function)
    def apply(input: Tensor, other: Any) -> Any:
        dtype = _result_type(input, other)
        if dtypes.category(dtype) > dtypes.category(input._a.dtype):
            raise dtypes.narrowing_error(dtype, input._a.dtype)
        return function(input, other)

    return apply


@method("masked_fill_")
def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Replace the elements under the mask."""
    others = [t for t in (mask, value) if isinstance(t, Tensor)]
    return write("masked_fill_", self, lambda x: masked_fill(x, mask, value), others, sharing="any")


for _name, _function in (
    ("add_", add), ("sub_", sub), ("mul_", mul), ("div_", div), ("pow_", power), ("clamp_", clamp),
    ("clip_", clamp), ("clamp_min_", clamp_min), ("clamp_max_", clamp_max),
    ("lerp_", lerp), ("addcmul_", addcmul), ("addcdiv_", addcdiv),
    *((f"{_name}_", METHODS[_name]) for _name in ("remainder", "floor_divide", "fmod")),
    *(
        (f"{_name}_", _of_bits_in_place(METHODS[_name]))
        for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
    ),
):  # fmt: skip
    in_place(_name, _function)


def _define_operator_in_place(short: str, name: str) -> None:
    form = METHODS[f"{name}_"]

    def apply(self: Tensor, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return form(self, wrap(other) if isinstance(other, np.ndarray) else other)

    method(f"__i{short}__")(apply)


for _short, _long in (
    ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("pow", "pow"), ("truediv", "div"), ("floordiv", "floor_divide"),
    ("mod", "remainder"), ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"),
    ("lshift", "bitwise_left_shift"), ("rshift", "bitwise_right_shift"),
):  # fmt: skip
    _define_operator_in_place(_short, _long)
