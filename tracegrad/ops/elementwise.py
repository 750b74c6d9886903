"""Elementwise ops: arithmetic, elementary and special functions, comparisons, logic, select and cast.

Previous: creation.py; next: special.py.

A partial is written from the result and the operands; common.py multiplies it with tangents and cotangents. `singular`
marks operands whose partial can be infinite or NaN while the operands are finite, overflow included: there a cotangent
that is exactly zero must contribute zero. Masks go through `select`, so that an infinite or NaN value on the other side
never leaks.

C texts are expressions whose operands stand as if in parentheses; functions called `tg_...` are in codegen/c_prelude.h.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import CEmitter, OpDef, Sample, type_of
from tracegrad.ir.types import BOOL, DTYPES, F32, is_complex, is_float, is_inexact, is_integer
from tracegrad.ops.c_rules import c_suffix
from tracegrad.ops.creation import full_like, ones_like, zeros_like
from tracegrad.ops.infer import (
    any_dtype,
    bits,
    boolean,
    infer_blend,
    infer_cast,
    infer_power,
    infer_select,
    infer_shift,
    numeric,
    ordered,
    predicate,
    real_number,
    real_part,
    same,
)
from tracegrad.ops.record import elementwise, linear, nondifferentiable
from tracegrad.ops.text import dtype_text

X = ("x",)
XY = ("x", "y")


@dataclass(frozen=True, repr=False)
class CByKind:
    """The C text of an op, with one template per kind of the first operand: float, complex, integer, bool.

    A function `tg_...` is the one of the prelude for the dtype of that operand. An empty template: there is no C for
    the kind.
    """

    f: str = ""
    c: str = ""
    i: str = ""
    b: str = ""

    def __call__(self, emitter: CEmitter, operation: Operation, index: Sequence[Any]) -> str:
        dtype = operation.operands[0].dtype
        template = self.c if is_complex(dtype) else self.i if is_integer(dtype) else self.b if dtype == BOOL else self.f
        template = _PRELUDE.sub(lambda name: emitter.helper(name[0], dtype), template.replace("{f}", c_suffix(dtype)))
        names = X if len(operation.operands) == 1 else XY
        texts = {n: emitter.element(v, index) for n, v in zip(names, operation.operands, strict=True)}
        return emitter.fill(template, texts)

    def __repr__(self) -> str:
        kinds = {"float": self.f, "complex": self.c, "int": self.i, "bool": self.b}
        texts = {kind: text for kind, text in kinds.items() if text}
        return self.f if list(texts) == ["float"] else ", ".join(f"{kind}: {text}" for kind, text in texts.items())


class CCall:
    """The C text of an op as a call of a function of the prelude, its attributes first."""

    def __init__(self, function: str, *attributes: str) -> None:
        self.function, self.attributes = function, attributes

    def __call__(self, emitter: CEmitter, operation: Operation, index: Sequence[Any]) -> str:
        orders = [str(operation.attrs[name]) for name in self.attributes]
        operands = [emitter.element(value, index) for value in operation.operands]
        return f"{emitter.helper(self.function, operation.result.dtype)}({', '.join([*orders, *operands])})"

    def __repr__(self) -> str:
        return f"{self.function}({', '.join([*self.attributes, '...'])})"


_PRELUDE = re.compile(r"tg_\w+")


def by_scalar(scalar: float) -> Callable[[Any], Any]:
    """Make the function that multiplies by a number."""
    return lambda x: multiply(x, full_like(x, scalar))


# fmt: off

# Arithmetic: linear ones first

add = linear(
    "add", XY, "Sum, x + y.", in_operands=(0, 1), elementwise=True,
    infer=same(numeric), numpy="{x} + {y}", c="{x} + {y}", cheap=True,
    transpose=lambda ct, x, y: (ct, ct),
    python=(np.add, operator.add),
    samples=(Sample("f[2,3] f[2,3]"), Sample("f[] f[]"), Sample("i[3] i[3]"), Sample("c128[2] c128[2]")),
    special=((1.5, 2.0, 3.5),),
)
subtract = linear(
    "subtract", XY, "Difference, x - y.", in_operands=(0, 1), elementwise=True,
    infer=same(numeric), numpy="{x} - {y}", c="{x} - {y}", cheap=True,
    transpose=lambda ct, x, y: (ct, negative(ct)),
    python=(np.subtract, operator.sub),
    samples=(Sample("f[2,3] f[2,3]"), Sample("f[] f[]"), Sample("i[3] i[3]"), Sample("c128[2] c128[2]")),
    special=((1.5, 2.0, -0.5),),
)
negative: OpDef = linear(
    "negative", X, "Negation, -x.", elementwise=True,
    infer=same(numeric), numpy="-{x}", c="-{x}", cheap=True,
    transpose=lambda ct, x: (negative(ct),),
    python=(np.negative, operator.neg),
    samples=(Sample("f[2,3]"), Sample("f[]"), Sample("i[3]"), Sample("c128[2]")),
    special=((1.5, -1.5),),
)
multiply = elementwise(
    "multiply", XY, "Product, x * y.",
    infer=same(numeric), numpy="{x} * {y}", cheap=True,
    c=CByKind(f="{x} * {y}", c="tg_multiply({x}, {y})", i="{x} * {y}"),
    partials=(lambda out, x, y: y, lambda out, x, y: x),
    python=(np.multiply, operator.mul),
    samples=(Sample("f[2,3] f[2,3]"), Sample("f[] f[]"), Sample("i[3] i[3]"), Sample("c128[2] c128[2]")),
    special=((1.5, -2.0, -3.0),),
)

divide: OpDef = elementwise(
    "divide", XY, "True quotient, x / y.",
    infer=same(is_inexact), numpy="{x} / {y}", cheap=True, singular=(True, True),
    c=CByKind(f="{x} / {y}", c="tg_divide({x}, {y})"),
    partials=(lambda out, x, y: reciprocal(y), lambda out, x, y: negative(divide(out, y))),
    python=(np.divide, np.true_divide, operator.truediv),
    samples=(
        Sample("f[2,3] f[2,3]", domain=(0.5, 2.0)), Sample("f[] f[]", domain=(-2.0, -0.5)),
        Sample("c128[2] c128[2]", domain=(0.5, 2.0)),
    ),
    special=((1.0, 0.0, math.inf), (-1.0, 4.0, -0.25)),
)
reciprocal: OpDef = elementwise(
    "reciprocal", X, "Inverse of a number, 1 / x.",
    infer=same(is_inexact), c=CByKind(f="1 / {x}", c="tg_divide(1, {x})"),
    numpy=lambda operation, x: f"np.reciprocal({x})" if operation.result.dtype == DTYPES["bf16"] else f"1.0 / {x}",
    cheap=True, singular=(True,),
    partials=(lambda out, x: negative(square(out)),),
    python=(np.reciprocal,), domain=(0.5, 2.0), special=((4.0, 0.25), (0.0, math.inf)),
)
square: OpDef = elementwise(
    "square", X, "Square, x * x.",
    infer=same(numeric), numpy="{x} ** 2", cheap=True,
    c=CByKind(f="{x} * {x}", c="tg_square({x})", i="{x} * {x}"),
    partials=(lambda out, x: multiply(full_like(x, 2.0), x),),
    python=(np.square,), samples=(Sample("f[2,3]"), Sample("f[]"), Sample("i[3]"), Sample("c128[2]")),
    special=((-3.0, 9.0),),
)

_REMAINDER_SAMPLES = (
    Sample("f[2,3] f[2,3]", domain=(0.5, 5.0)), Sample("f[5] f[5]", domain=(-5.0, -0.5)),
    Sample("f[6] f[6]", domain=(-5.0, 5.0)),
    Sample("i[2,3] i[2,3]", integers=(1, 9)), Sample("i[5] i[5]", integers=(-9, 0)),
)
floor_divide = nondifferentiable(
    "floor_divide", XY, "Quotient rounded down, x // y: towards minus infinity, as Python does.",
    infer=same(real_number), numpy="{x} // {y}",
    c=CByKind(f="tg_floor_divide({x}, {y})", i="tg_floor_divide({x}, {y})"),
    python=(np.floor_divide, operator.floordiv),
    samples=_REMAINDER_SAMPLES, special=((-7.0, 2.0, -4.0), (7.0, -2.0, -4.0)),
)
remainder = elementwise(
    "remainder", XY, "Remainder with the sign of y, x % y = x - floor(x / y) * y, as Python does.",
    infer=same(real_number), numpy="{x} % {y}", singular=(False, True),
    c=CByKind(f="tg_remainder({x}, {y})", i="tg_remainder({x}, {y})"),
    partials=(lambda out, x, y: 1, lambda out, x, y: negative(floor_divide(x, y))),
    python=(np.remainder, np.mod, operator.mod),
    samples=_REMAINDER_SAMPLES, special=((-7.0, 4.0, 1.0), (7.0, -4.0, -1.0)),
)
fmod = elementwise(
    "fmod", XY, "Remainder with the sign of x, x - trunc(x / y) * y, as C does.",
    infer=same(real_number), numpy="np.fmod({x}, {y})", singular=(False, True),
    c=CByKind(f="fmod{f}({x}, {y})", i="{x} % {y}"),
    partials=(lambda out, x, y: 1, lambda out, x, y: negative(trunc(divide(x, y)))),
    python=(np.fmod, math.fmod),
    samples=_REMAINDER_SAMPLES, special=((-7.0, 4.0, -3.0), (7.0, -4.0, 3.0)),
)


def _power_in_base(out: Any, x: Any, y: Any) -> Any:
    # y x**(y-1); at y = 0 the power is constant, also at x = 0 where x**-1 is infinite
    exponent = y if is_inexact(type_of(y).dtype) else cast(y, dtype=type_of(x).dtype)
    slope = multiply(exponent, power(x, subtract(y, ones_like(y))))
    return select(equal(y, zeros_like(y)), zeros_like(x), slope)


def _power_in_exponent(out: Any, x: Any, y: Any) -> Any:
    # log(x) x**y; 0**y is 0 for all y > 0, so its slope is 0, and a negative base has powers at isolated exponents only
    if is_integer(type_of(y).dtype):
        return zeros_like(x)
    zero = zeros_like(x)
    outside = equal(x, zero) if is_complex(type_of(x).dtype) else less_equal(x, zero)
    return select(outside, zero, multiply(log(select(outside, ones_like(x), x)), out))


def _power_c(emitter: CEmitter, operation: Operation, index: Sequence[Any]) -> str:
    base, exponent = operation.operands
    x, y = emitter.element(base, index), emitter.element(exponent, index)
    name = f"pow{c_suffix(base.dtype)}" if is_float(base.dtype) else emitter.helper("tg_power", base.dtype)
    return f"{name}({x}, {y})"


def _power_text(operation: Operation, x: str, y: str) -> str:
    base, exponent = (v.dtype for v in operation.operands)
    if base == exponent or base.itemsize == (16 if is_complex(base) else 8):
        return f"{x} ** {y}"
    # NumPy would widen to the precision of i64
    exact = f"{y}.astype({dtype_text(base)})" if operation.result.shape else f"{dtype_text(base)}({y})"
    return f"{x} ** {exact}"


power = elementwise(
    "power", XY, "Power, x ** y. The exponent has the dtype of the base, or is i64 for a float base.",
    infer=infer_power, numpy=_power_text, singular=(True, True), c=_power_c,
    partials=(_power_in_base, _power_in_exponent),
    python=(np.power, operator.pow),
    samples=(
        Sample("f[2,3] f[2,3]", domain=(0.2, 3.0)), Sample("f[] f[]", domain=(0.2, 3.0)),
        Sample("f[6] i[6]", domain=(-2.0, -0.5), integers=(-3, 4)), Sample("i[4] i[4]", integers=(0, 4)),
        Sample("c128[2] c128[2]", domain=(0.5, 1.5)),
    ),
    special=((0.0, 0.0, 1.0), (-2.0, 3.0, -8.0), (4.0, 0.5, 2.0)),
)


# Exponentials and logarithms

exp = elementwise(
    "exp", X, "Exponential function.",
    infer=same(is_inexact), numpy="np.exp({x})", c=CByKind(f="exp{f}({x})", c="cexp{f}({x})"),
    singular=(True,), partials=(lambda out, x: out,), python=(np.exp, math.exp), special=((0.0, 1.0),),
)
exp2 = elementwise(
    "exp2", X, "Power of two, 2 ** x.",
    infer=same(is_float), numpy="np.exp2({x})", c="exp2{f}({x})",
    singular=(True,), partials=(lambda out, x: by_scalar(math.log(2.0))(out),), python=(np.exp2, math.exp2),
    special=((3.0, 8.0),),
)
expm1 = elementwise(
    "expm1", X, "exp(x) - 1, accurate near 0.",
    infer=same(is_inexact), numpy="np.expm1({x})", c=CByKind(f="expm1{f}({x})", c="tg_expm1({x})"),
    singular=(True,), partials=(lambda out, x: add(out, ones_like(out)),), python=(np.expm1, math.expm1),
    special=((0.0, 0.0), (1e-20, 1e-20)),
)
log = elementwise(
    "log", X, "Natural logarithm.",
    infer=same(is_inexact), numpy="np.log({x})", c=CByKind(f="log{f}({x})", c="clog{f}({x})"),
    singular=(True,), partials=(lambda out, x: reciprocal(x),), python=(np.log, math.log),
    domain=(0.2, 3.0), special=((1.0, 0.0),),
)
log2 = elementwise(
    "log2", X, "Logarithm to base 2.",
    infer=same(is_float), numpy="np.log2({x})", c="log2{f}({x})",
    singular=(True,), partials=(lambda out, x: reciprocal(by_scalar(math.log(2.0))(x)),), python=(np.log2, math.log2),
    domain=(0.2, 3.0), special=((8.0, 3.0),),
)
log10 = elementwise(
    "log10", X, "Logarithm to base 10.",
    infer=same(is_float), numpy="np.log10({x})", c="log10{f}({x})",
    singular=(True,), partials=(lambda out, x: reciprocal(by_scalar(math.log(10.0))(x)),),
    python=(np.log10, math.log10), domain=(0.2, 3.0), special=((1000.0, 3.0),),
)
log1p = elementwise(
    "log1p", X, "log(1 + x), accurate near 0.",
    infer=same(is_inexact), numpy="np.log1p({x})", c=CByKind(f="log1p{f}({x})", c="tg_log1p({x})"),
    singular=(True,), partials=(lambda out, x: reciprocal(add(ones_like(x), x)),), python=(np.log1p, math.log1p),
    domain=(-0.7, 3.0), special=((0.0, 0.0), (1e-20, 1e-20)),
)


def _logaddexp_partial(out: Any, x: Any, y: Any) -> Any:
    # exp(x - out), at most 1; where both are infinite the difference is NaN: the greater counts 1, equal ones half each
    unbounded = logical_and(equal(x, out), isinf(out))
    share = select(equal(x, y), full_like(x, -math.log(2.0)), zeros_like(x))
    return exp(select(unbounded, share, subtract(select(unbounded, zeros_like(x), x), out)))


logaddexp = elementwise(
    "logaddexp", XY, "log(exp(x) + exp(y)) without overflow.",
    infer=same(is_float), numpy="np.logaddexp({x}, {y})", c=CByKind(f="tg_logaddexp({x}, {y})"),
    partials=(_logaddexp_partial, lambda out, x, y: _logaddexp_partial(out, y, x)),
    python=(np.logaddexp,), special=((-math.inf, 2.0, 2.0), (-math.inf, -math.inf, -math.inf)),
)

# Roots

sqrt = elementwise(
    "sqrt", X, "Square root. Its partial at 0 is infinite.",
    infer=same(is_inexact), numpy="np.sqrt({x})", c=CByKind(f="sqrt{f}({x})", c="csqrt{f}({x})"),
    singular=(True,), partials=(lambda out, x: divide(full_like(out, 0.5), out),), python=(np.sqrt, math.sqrt),
    domain=(0.2, 3.0), special=((4.0, 2.0), (0.0, 0.0)),
)
cbrt = elementwise(
    "cbrt", X, "Cube root, of negative numbers too. Its partial at 0 is infinite.",
    infer=same(is_float), numpy="np.cbrt({x})", c="cbrt{f}({x})",
    singular=(True,), partials=(lambda out, x: reciprocal(by_scalar(3.0)(square(out))),), python=(np.cbrt, math.cbrt),
    domain=(-3.0, -0.2), special=((-8.0, -2.0),),
)


def _hypot_partial(out: Any, x: Any) -> Any:
    # x / out; 0 at the origin, as for all norms
    origin = equal(out, zeros_like(out))
    return select(origin, zeros_like(out), divide(x, select(origin, ones_like(out), out)))


hypot = elementwise(
    "hypot", XY, "sqrt(x² + y²) without overflow. Its partials at the origin are 0.",
    infer=same(is_float), numpy="np.hypot({x}, {y})", c="hypot{f}({x}, {y})",
    partials=(lambda out, x, y: _hypot_partial(out, x), lambda out, x, y: _hypot_partial(out, y)),
    python=(np.hypot,), special=((3.0, -4.0, 5.0), (0.0, 0.0, 0.0)),
)

# Trigonometric and hyperbolic functions


def _one_minus_square(x: Any) -> Any:
    # (1 - x)(1 + x): no cancellation near ±1
    return multiply(subtract(ones_like(x), x), add(ones_like(x), x))


sin = elementwise(
    "sin", X, "Sine.",
    infer=same(is_inexact), numpy="np.sin({x})", c=CByKind(f="sin{f}({x})", c="csin{f}({x})"),
    partials=(lambda out, x: cos(x),), python=(np.sin, math.sin), special=((0.0, 0.0),),
)
cos: OpDef = elementwise(
    "cos", X, "Cosine.",
    infer=same(is_inexact), numpy="np.cos({x})", c=CByKind(f="cos{f}({x})", c="ccos{f}({x})"),
    partials=(lambda out, x: negative(sin(x)),), python=(np.cos, math.cos), special=((0.0, 1.0),),
)
tan = elementwise(
    "tan", X, "Tangent.",
    infer=same(is_inexact), numpy="np.tan({x})", c=CByKind(f="tan{f}({x})", c="ctan{f}({x})"),
    partials=(lambda out, x: add(ones_like(out), square(out)),), python=(np.tan, math.tan),
    domain=(-1.2, 1.2), special=((0.0, 0.0),),
)
arcsin = elementwise(
    "arcsin", X, "Inverse sine, in [-pi/2, pi/2].",
    infer=same(is_inexact), numpy="np.arcsin({x})", c=CByKind(f="asin{f}({x})", c="casin{f}({x})"),
    singular=(True,), partials=(lambda out, x: reciprocal(sqrt(_one_minus_square(x))),), python=(np.arcsin, math.asin),
    domain=(-0.9, 0.9), special=((0.0, 0.0),),
)
arccos = elementwise(
    "arccos", X, "Inverse cosine, in [0, pi].",
    infer=same(is_inexact), numpy="np.arccos({x})", c=CByKind(f="acos{f}({x})", c="cacos{f}({x})"),
    singular=(True,), partials=(lambda out, x: negative(reciprocal(sqrt(_one_minus_square(x)))),),
    python=(np.arccos, math.acos), domain=(-0.9, 0.9), special=((1.0, 0.0),),
)
arctan = elementwise(
    "arctan", X, "Inverse tangent, in (-pi/2, pi/2).",
    infer=same(is_inexact), numpy="np.arctan({x})", c=CByKind(f="atan{f}({x})", c="catan{f}({x})"),
    partials=(lambda out, x: reciprocal(add(ones_like(x), square(x))),), python=(np.arctan, math.atan),
    special=((0.0, 0.0),),
)


def _arctan2_partial(x: Any, y: Any, numerator: Any) -> Any:
    # numerator / (x² + y²) without overflow
    radius = hypot(x, y)
    return divide(divide(numerator, radius), radius)


arctan2 = elementwise(
    "arctan2", XY, "Angle of the point (y, x): the inverse tangent of x / y in the right quadrant.",
    infer=same(is_float), numpy="np.arctan2({x}, {y})", c="atan2{f}({x}, {y})", singular=(True, True),
    partials=(lambda out, x, y: _arctan2_partial(x, y, y), lambda out, x, y: _arctan2_partial(x, y, negative(x))),
    python=(np.arctan2, math.atan2),
    samples=(Sample("f[2,3] f[2,3]", domain=(0.3, 2.0)), Sample("f[] f[]", domain=(-2.0, -0.3))),
    special=((0.0, 1.0, 0.0), (1.0, 0.0, math.pi / 2)),
)
sinh = elementwise(
    "sinh", X, "Hyperbolic sine.",
    infer=same(is_inexact), numpy="np.sinh({x})", c=CByKind(f="sinh{f}({x})", c="csinh{f}({x})"),
    singular=(True,), partials=(lambda out, x: cosh(x),), python=(np.sinh, math.sinh), special=((0.0, 0.0),),
)
cosh: OpDef = elementwise(
    "cosh", X, "Hyperbolic cosine.",
    infer=same(is_inexact), numpy="np.cosh({x})", c=CByKind(f="cosh{f}({x})", c="ccosh{f}({x})"),
    singular=(True,), partials=(lambda out, x: sinh(x),), python=(np.cosh, math.cosh), special=((0.0, 1.0),),
)
tanh = elementwise(
    "tanh", X, "Hyperbolic tangent.",
    infer=same(is_inexact), numpy="np.tanh({x})", c=CByKind(f="tanh{f}({x})", c="ctanh{f}({x})"),
    partials=(lambda out, x: subtract(ones_like(out), square(out)),),   # 1 - tanh²(x), from the result
    python=(np.tanh, math.tanh), special=((0.0, 0.0),),
)
arcsinh = elementwise(
    "arcsinh", X, "Inverse hyperbolic sine.",
    infer=same(is_inexact), numpy="np.arcsinh({x})", c=CByKind(f="asinh{f}({x})", c="casinh{f}({x})"),
    partials=(lambda out, x: reciprocal(sqrt(add(ones_like(x), square(x)))),), python=(np.arcsinh, math.asinh),
    special=((0.0, 0.0),),
)
arccosh = elementwise(
    "arccosh", X, "Inverse hyperbolic cosine, of x >= 1.",
    infer=same(is_inexact), numpy="np.arccosh({x})", c=CByKind(f="acosh{f}({x})", c="cacosh{f}({x})"),
    singular=(True,),
    partials=(   # two roots: the branch cut of complex numbers, and no cancellation near 1
        lambda out, x: reciprocal(multiply(sqrt(subtract(x, ones_like(x))), sqrt(add(x, ones_like(x))))),
    ),
    python=(np.arccosh, math.acosh), domain=(1.2, 3.0), special=((1.0, 0.0),),
)
arctanh = elementwise(
    "arctanh", X, "Inverse hyperbolic tangent, of |x| <= 1.",
    infer=same(is_inexact), numpy="np.arctanh({x})", c=CByKind(f="atanh{f}({x})", c="catanh{f}({x})"),
    singular=(True,), partials=(lambda out, x: reciprocal(_one_minus_square(x)),), python=(np.arctanh, math.atanh),
    domain=(-0.9, 0.9), special=((0.0, 0.0),),
)

# Special functions

lgamma = elementwise(
    "lgamma", X, "log |gamma(x)|.",
    infer=same(is_float), numpy="lgamma({x})", numpy_helper="lgamma", c="lgamma{f}({x})",
    singular=(True,), partials=(lambda out, x: digamma(x),), python=(math.lgamma,),
    domain=(0.3, 5.0), special=((1.0, 0.0), (0.0, math.inf)),
)
gamma = elementwise(
    "gamma", X, "Gamma function.",
    infer=same(is_float), numpy="gamma({x})", numpy_helper="gamma", c="tgamma{f}({x})",
    singular=(True,), partials=(lambda out, x: multiply(out, digamma(x)),), python=(math.gamma,),
    domain=(0.3, 4.0), special=((5.0, 24.0),),
)
digamma: OpDef = elementwise(
    "digamma", X, "Derivative of lgamma.",
    infer=same(is_float), numpy="digamma({x})", numpy_helper="digamma", c=CByKind(f="tg_digamma({x})"),
    singular=(True,), partials=(lambda out, x: polygamma(x, order=1),),
    samples=(Sample("f[2,3]", domain=(0.3, 5.0)), Sample("f[4]", domain=(-0.8, -0.2))),
)
polygamma: OpDef = elementwise(
    "polygamma", X, "Derivative of digamma of the given order >= 1.", attributes=("order",),
    infer=lambda x, *, order: same(is_float)(x), numpy="polygamma({order}, {x})", numpy_helper="polygamma",
    c=CCall("tg_polygamma", "order"),
    singular=(True,), partials=(lambda out, x, *, order: polygamma(x, order=order + 1),),
    samples=(
        Sample("f[2,3]", {"order": 1}, domain=(0.3, 5.0)), Sample("f[4]", {"order": 2}, domain=(-0.8, -0.2)),
    ),
)
bessel_i: OpDef = elementwise(
    "bessel_i", X, "Modified Bessel function of the first kind, of the given order >= 0.", attributes=("order",),
    infer=lambda x, *, order: same(is_float)(x), numpy="bessel_i({order}, {x})", numpy_helper="bessel_i",
    c=CCall("tg_bessel_i", "order"),
    partials=(
        lambda out, x, *, order: by_scalar(0.5)(add(bessel_i(x, order=order - 1), bessel_i(x, order=order + 1)))
        if order else bessel_i(x, order=1),
    ),
    samples=(Sample("f[2,3]", {"order": 0}), Sample("f[4]", {"order": 2}, domain=(20.0, 40.0))),
)
erf = elementwise(
    "erf", X, "Error function.",
    infer=same(is_float), numpy="erf({x})", numpy_helper="erf", c="erf{f}({x})",
    partials=(lambda out, x: by_scalar(2.0 / math.sqrt(math.pi))(exp(negative(square(x)))),),
    python=(math.erf,), special=((0.0, 0.0),),
)
erfc = elementwise(
    "erfc", X, "1 - erf(x), accurate for large x.",
    infer=same(is_float), numpy="erfc({x})", numpy_helper="erfc", c="erfc{f}({x})",
    partials=(lambda out, x: by_scalar(-2.0 / math.sqrt(math.pi))(exp(negative(square(x)))),),
    python=(math.erfc,), special=((0.0, 1.0),),
)
erfinv = elementwise(
    "erfinv", X, "Inverse of erf, of |x| <= 1.",
    infer=same(is_float), numpy="erfinv({x})", numpy_helper="erfinv", c=CByKind(f="tg_erfinv({x})"), singular=(True,),
    partials=(lambda out, x: by_scalar(0.5 * math.sqrt(math.pi))(exp(square(out))),),
    domain=(-0.9, 0.9), special=((0.0, 0.0), (1.0, math.inf), (-1.0, -math.inf)),
)
logistic = elementwise(
    "logistic", X, "1 / (1 + exp(-x)), without overflow.",
    infer=same(is_float), numpy="logistic({x})", numpy_helper="logistic", c="1/(1 + exp{f}(-{x}))",
    partials=(lambda out, x: multiply(out, subtract(ones_like(out), out)),), special=((0.0, 0.5), (-math.inf, 0.0)),
)
softplus = elementwise(
    "softplus", X, "log(1 + exp(x)), without overflow.",
    infer=same(is_float), numpy="softplus({x})", numpy_helper="softplus",
    c="({x} > 0 ? {x} : 0) + log1p{f}(exp{f}(-fabs{f}({x})))",
    partials=(lambda out, x: logistic(x),), special=((0.0, math.log(2.0)), (-math.inf, 0.0), (math.inf, math.inf)),
)


def _rectified(out: Any, value: Any) -> Any:
    # from the result, so that x need not be kept; a NaN passes, as in the result
    return select(less_equal(out, zeros_like(out)), zeros_like(value), value)


def _relu_text(operation: Operation, x: str) -> str:
    dtype = operation.result.dtype
    return f"np.maximum({x}, {'0.0' if dtype.kind == 'f' else f'{dtype_text(dtype)}(0)'})"


relu = elementwise(
    "relu", X, "max(x, 0); NaN for NaN. Its derivative at 0 is 0.",
    infer=same(is_float), numpy=_relu_text, c="({x} <= 0 ? 0 : {x})", cheap=True,
    jvp=lambda tangents, out, x: _rectified(out, tangents[0]), vjp=lambda ct, out, x: (_rectified(out, ct),),
    samples=(Sample("f[2,3]"), Sample("f[]", domain=(0.1, 2.0)), Sample("f[3]", domain=(-2.0, -0.1))),
    special=((1.5, 1.5), (-1.5, 0.0), (0.0, 0.0)),
)

# Modulus, sign, rounding


def _absolute_jvp(tangents: Sequence[Any], out: Any, x: Any) -> Any:
    if not is_complex(type_of(x).dtype):
        return multiply(tangents[0], sign(x))
    return real(multiply(conjugate(_direction(out, x)), tangents[0]))


def _absolute_vjp(ct: Any, out: Any, x: Any) -> tuple[Any, ...]:
    if not is_complex(type_of(x).dtype):
        return (multiply(ct, sign(x)),)
    return (multiply(cast(ct, dtype=type_of(x).dtype), _direction(out, x)),)


def _direction(modulus: Any, z: Any) -> Any:
    # z / |z|; 0 at 0
    origin = equal(modulus, zeros_like(modulus))
    safe = cast(select(origin, ones_like(modulus), modulus), dtype=type_of(z).dtype)
    return select(origin, zeros_like(z), divide(z, safe))


absolute = elementwise(
    "absolute", X, "Absolute value; the modulus of a complex number. Its derivative at 0 is 0.",
    infer=real_part(numeric), numpy="np.abs({x})", cheap=True,
    c=CByKind(f="fabs{f}({x})", c="tg_absolute({x})", i="tg_absolute({x})"),
    jvp=_absolute_jvp, vjp=_absolute_vjp, python=(np.absolute, np.abs, np.fabs, math.fabs, abs, operator.abs),
    samples=(
        Sample("f[2,3]", domain=(-2.0, -0.1)), Sample("f[]", domain=(0.1, 2.0)), Sample("i[3]", integers=(-4, 4)),
        Sample("c128[3]", domain=(0.3, 2.0)),
    ),
    special=((-1.5, 1.5), (0.0, 0.0)),
)
stop_gradient = nondifferentiable(
    "stop_gradient", X, "x itself, through which no derivative passes.",
    infer=same(any_dtype), numpy="{x}", c="{x}", cheap=True,
    samples=(Sample("f[2,3]"), Sample("i[4]")), special=((1.5, 1.5),),
)
barrier = elementwise(
    "barrier", X, "x itself; what is computed from it is not shared with what is computed from x.",
    infer=same(any_dtype), numpy="{x}", c="{x}", cheap=True,
    partials=(lambda out, x: 1,), samples=(Sample("f[2,3]"), Sample("i[4]")), special=((1.5, 1.5),),
)
sign = nondifferentiable(
    "sign", X, "-1, 0 or 1 by the sign of x; NaN stays.",
    infer=same(real_number), numpy="np.sign({x})", cheap=True,
    c=CByKind(f="tg_sign({x})", i="tg_sign({x})"),
    python=(np.sign,), samples=(Sample("f[2,3]"), Sample("i[4]", integers=(-3, 3))), special=((-2.5, -1.0), (0.0, 0.0)),
)
floor = nondifferentiable(
    "floor", X, "Largest whole number <= x.",
    infer=same(is_float), numpy="np.floor({x})", c="floor{f}({x})", cheap=True, python=(np.floor,),
    special=((-1.5, -2.0),),
)
ceil = nondifferentiable(
    "ceil", X, "Smallest whole number >= x.",
    infer=same(is_float), numpy="np.ceil({x})", c="ceil{f}({x})", cheap=True, python=(np.ceil,),
    special=((-1.5, -1.0),),
)
trunc: OpDef = nondifferentiable(
    "trunc", X, "x rounded towards 0.",
    infer=same(is_float), numpy="np.trunc({x})", c="trunc{f}({x})", cheap=True, python=(np.trunc,),
    special=((-1.5, -1.0),),
)
rint = nondifferentiable(
    "rint", X, "x rounded to the nearest whole number, halves to even.",
    infer=same(is_float), numpy="np.rint({x})", c="rint{f}({x})", cheap=True, python=(np.rint,),
    special=((2.5, 2.0), (-1.5, -2.0)),
)


def _copysign_x(value: Any, out: Any, x: Any) -> Any:
    # the sign that was given to x, 0 at 0 like the derivative of the absolute value
    kept = select(equal(out, x), value, negative(value))
    return select(equal(x, zeros_like(x)), zeros_like(value), kept)


copysign = elementwise(
    "copysign", XY, "|x| with the sign of y.",
    infer=same(is_float), numpy="np.copysign({x}, {y})", c="copysign{f}({x}, {y})", cheap=True,
    jvp=lambda tangents, out, x, y: None if tangents[0] is None else _copysign_x(tangents[0], out, x),
    vjp=lambda ct, out, x, y: (_copysign_x(ct, out, x), None),
    python=(np.copysign, math.copysign),
    samples=(
        Sample("f[2,3] f[2,3]", domain=(0.1, 2.0)), Sample("f[5] f[5]", domain=(-2.0, -0.1)), Sample("f[9] f[9]"),
    ),
    special=((2.0, -1.0, -2.0), (-2.0, 0.0, 2.0)),
)
nextafter = elementwise(
    "nextafter", XY, "Next number after x towards y; its derivative in x is 1.",
    infer=same(is_float), numpy="np.nextafter({x}, {y})", c="nextafter{f}({x}, {y})",
    partials=(lambda out, x, y: 1, None),
    python=(np.nextafter, math.nextafter), special=((1.0, 1.0, 1.0),),
)

# The greater and the smaller: a tie gives half to each


def _share(value: Any, loses: Any, ties: Any) -> Any:
    # the zero stands outside, where it is known to be one
    half = multiply(value, full_like(value, 0.5))
    return select(loses, zeros_like(value), select(ties, half, value))


def _choice(x_loses: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Return the derivative of an op that returns one of its operands: the other gets nothing."""

    def jvp(tangents: Sequence[Any], out: Any, x: Any, y: Any) -> Any:
        ties, parts = equal(x, y), []
        if tangents[0] is not None:
            parts.append(_share(tangents[0], x_loses(x, y), ties))
        if tangents[1] is not None:
            parts.append(_share(tangents[1], x_loses(y, x), ties))
        return add(*parts) if len(parts) == 2 else parts[0]

    def vjp(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, ...]:
        ties = equal(x, y)
        return _share(ct, x_loses(x, y), ties), _share(ct, x_loses(y, x), ties)

    return {"jvp": jvp, "vjp": vjp}


def _missing_or(loses: OpDef) -> Callable[[Any, Any], Any]:
    # fmax and fmin: a NaN loses against a number
    return lambda x, y: logical_or(loses(x, y), logical_and(isnan(x), logical_not(isnan(y))))


maximum = elementwise(
    "maximum", XY, "The greater of x and y; NaN if either is NaN.",
    infer=same(ordered), numpy="np.maximum({x}, {y})", cheap=True,
    c=CByKind(f="tg_maximum({x}, {y})", i="tg_maximum({x}, {y})", b="{x} | {y}"),
    **_choice(lambda x, y: less(x, y)), python=(np.maximum,), special=((1.0, 2.0, 2.0),),
)
minimum = elementwise(
    "minimum", XY, "The smaller of x and y; NaN if either is NaN.",
    infer=same(ordered), numpy="np.minimum({x}, {y})", cheap=True,
    c=CByKind(f="tg_minimum({x}, {y})", i="tg_minimum({x}, {y})", b="{x} & {y}"),
    **_choice(lambda x, y: greater(x, y)), python=(np.minimum,), special=((1.0, 2.0, 1.0),),
)
fmax = elementwise(
    "fmax", XY, "The greater of x and y; a NaN counts as missing.",
    infer=same(is_float), numpy="np.fmax({x}, {y})", c="fmax{f}({x}, {y})", cheap=True,
    **_choice(lambda x, y: _missing_or(less)(x, y)), python=(np.fmax,), special=((1.0, math.nan, 1.0),),
)
fmin = elementwise(
    "fmin", XY, "The smaller of x and y; a NaN counts as missing.",
    infer=same(is_float), numpy="np.fmin({x}, {y})", c="fmin{f}({x}, {y})", cheap=True,
    **_choice(lambda x, y: _missing_or(greater)(x, y)), python=(np.fmin,), special=((1.0, math.nan, 1.0),),
)

# Complex numbers: the gradient of a real loss is dL/dRe + i dL/dIm

conjugate: OpDef = linear(
    "conjugate", X, "Complex conjugate.", elementwise=True,
    infer=same(is_inexact), numpy="np.conj({x})", c=CByKind(f="{x}", c="conj{f}({x})"), cheap=True,
    transpose=lambda ct, x: (conjugate(ct),), python=(np.conjugate,),
    samples=(Sample("c128[3]"), Sample("c64[]"), Sample("f[2]")),
)
real = linear(
    "real", X, "Real part.", elementwise=True,
    infer=real_part(is_inexact), numpy="np.real({x})", c=CByKind(f="{x}", c="creal{f}({x})"), cheap=True,
    transpose=lambda ct, x: (cast(ct, dtype=type_of(x).dtype),), python=(np.real,),
    samples=(Sample("c128[3]"), Sample("c64[]"), Sample("f[2]")),
)
imag = linear(
    "imag", X, "Imaginary part; 0 for real operands.", elementwise=True,
    infer=real_part(is_inexact), numpy="np.imag({x})", c=CByKind(f="0", c="cimag{f}({x})"), cheap=True,
    transpose=lambda ct, x: (
        multiply(cast(ct, dtype=type_of(x).dtype), full_like(x, 1j)) if is_complex(type_of(x).dtype) else None,
    ),
    python=(np.imag,), samples=(Sample("c128[3]"), Sample("c64[]"), Sample("f[2]")),
)

# Comparisons and logic

_COMPARED = (Sample("f[2,3] f[2,3]"), Sample("i[6] i[6]"), Sample("b[6] b[6]"))


def comparison(name: str, doc: str, sign: str, *, accepts: Any = ordered, python: Any, special: Any) -> OpDef:
    """Register a comparison written as an operator."""
    return nondifferentiable(
        name, XY, doc, infer=predicate(accepts), numpy=f"{{x}} {sign} {{y}}", c=f"{{x}} {sign} {{y}}", cheap=True,
        python=python, samples=_COMPARED, special=special,
    )


equal = comparison(
    "equal", "x == y.", "==", accepts=any_dtype, python=(np.equal, operator.eq), special=((1.0, 1.0, 1.0),)
)
not_equal = comparison(
    "not_equal", "x != y.", "!=", accepts=any_dtype, python=(np.not_equal, operator.ne), special=((1.0, 1.0, 0.0),)
)
less: OpDef = comparison("less", "x < y.", "<", python=(np.less, operator.lt), special=((1.0, 1.0, 0.0),))
less_equal = comparison("less_equal", "x <= y.", "<=", python=(np.less_equal, operator.le), special=((1.0, 1.0, 1.0),))
greater: OpDef = comparison("greater", "x > y.", ">", python=(np.greater, operator.gt), special=((1.0, 1.0, 0.0),))
greater_equal = comparison(
    "greater_equal", "x >= y.", ">=", python=(np.greater_equal, operator.ge), special=((1.0, 1.0, 1.0),)
)

isnan = nondifferentiable(
    "isnan", X, "Whether x is not a number.",
    infer=predicate(is_inexact), numpy="np.isnan({x})", c=CByKind(f="isnan({x}) != 0", c="tg_isnan({x})"),
    cheap=True, python=(np.isnan, math.isnan), special=((math.nan, 1.0), (math.inf, 0.0)),
)
isinf = nondifferentiable(
    "isinf", X, "Whether x is infinite.",
    infer=predicate(is_inexact), numpy="np.isinf({x})", c=CByKind(f="isinf({x}) != 0", c="tg_isinf({x})"),
    cheap=True, python=(np.isinf, math.isinf), special=((math.nan, 0.0), (-math.inf, 1.0)),
)
isfinite = nondifferentiable(
    "isfinite", X, "Whether x is neither infinite nor NaN.",
    infer=predicate(is_inexact), numpy="np.isfinite({x})", c=CByKind(f="isfinite({x}) != 0", c="tg_isfinite({x})"),
    cheap=True, python=(np.isfinite, math.isfinite), special=((math.nan, 0.0), (1.0, 1.0)),
)


def logic(name: str, doc: str, numpy: str, c: str, *, python: Any) -> OpDef:
    """Register an op on bool arrays."""
    operands = XY if "{y}" in numpy else X
    return nondifferentiable(
        name, operands, doc, infer=same(boolean), numpy=numpy, c=c, cheap=True, python=python,
        samples=(Sample(" ".join(["b[6]"] * len(operands))),),
    )


logical_and = logic("logical_and", "x and y.", "np.logical_and({x}, {y})", "{x} && {y}", python=(np.logical_and,))
logical_or = logic("logical_or", "x or y.", "np.logical_or({x}, {y})", "{x} || {y}", python=(np.logical_or,))
logical_xor = logic("logical_xor", "Either x or y.", "np.logical_xor({x}, {y})", "{x} != {y}", python=(np.logical_xor,))
logical_not = logic("logical_not", "not x.", "np.logical_not({x})", "!{x}", python=(np.logical_not,))


def bitwise(name: str, doc: str, sign: str, *, infer: Any, c: Any = "", python: Any) -> OpDef:
    """Register an op on the bits of integers, written as an operator."""
    logical = (Sample("b[4] b[4]"),) if infer is not infer_shift else ()
    text = f"{{x}} {sign} {{y}}"
    return nondifferentiable(
        name, XY, doc, infer=infer, numpy=text, c=c or text, cheap=True, python=python,
        samples=(Sample("i[2,3] i[2,3]", integers=(0, 9)), *logical),
    )


bitwise_and = bitwise("bitwise_and", "Bits set in both.", "&", infer=same(bits), python=(np.bitwise_and, operator.and_))
bitwise_or = bitwise("bitwise_or", "Bits set in either.", "|", infer=same(bits), python=(np.bitwise_or, operator.or_))
bitwise_xor = bitwise("bitwise_xor", "Bits that differ.", "^", infer=same(bits), python=(np.bitwise_xor, operator.xor))
left_shift = bitwise(
    "left_shift", "x * 2**y.", "<<", infer=infer_shift, c=CByKind(i="tg_left_shift({x}, {y})"),
    python=(np.left_shift, operator.lshift),
)
right_shift = bitwise(
    "right_shift", "x // 2**y.", ">>", infer=infer_shift, c=CByKind(i="tg_right_shift({x}, {y})"),
    python=(np.right_shift, operator.rshift),
)
invert = nondifferentiable(
    "invert", X, "All bits flipped; not x for bool.",
    infer=same(bits), numpy="np.invert({x})", c=CByKind(i="~{x}", b="!{x}"), cheap=True,
    python=(np.invert, operator.invert), samples=(Sample("i[3]"), Sample("b[4]")),
)

# Choice and conversion

select: OpDef = linear(
    "select", ("condition", "x", "y"), "x where the condition holds, else y.", in_operands=(1, 2), elementwise=True,
    infer=infer_select, numpy="np.where({condition}, {x}, {y})", c="{condition} ? {x} : {y}", cheap=True,
    transpose=lambda ct, condition, x, y: (
        None, select(condition, ct, zeros_like(ct)), select(condition, zeros_like(ct), ct),
    ),
    samples=(
        Sample("b[2,3] f[2,3] f[2,3]"), Sample("b[] f[] f[]"), Sample("b[6] i[6] i[6]"), Sample("b[3] c128[3] c128[3]"),
    ),
)
blend: OpDef = linear(
    "blend", ("condition", "x", "y"), "select of reals, in NumPy without a branch per element.", in_operands=(1, 2),
    elementwise=True, infer=infer_blend, numpy="blend({condition}, {x}, {y})", numpy_helper="blend",
    c="{condition} ? {x} : {y}", cheap=True,
    transpose=lambda ct, condition, x, y: (
        None, select(condition, ct, zeros_like(ct)), select(condition, zeros_like(ct), ct),
    ),
    samples=(Sample("b[2,3] f[2,3] f[2,3]"), Sample("b[] f[] f[]"), Sample("b[6] i[6] i[6]")),
)


def _unless_hidden(derivative: Any, x: Any, y: Any) -> Any:
    # what x hides has no derivative: of 0 * inf there is none
    hidden = logical_and(equal(x, zeros_like(x)), logical_not(isfinite(y)))
    return select(hidden, zeros_like(derivative), derivative)


keep_zero = elementwise(
    "keep_zero", XY, "y, which is a product with x, but x itself where it is zero, though y be infinite or NaN.",
    infer=same(is_inexact), c="{x} == 0 ? {x} : {y}", cheap=True,
    numpy=lambda operation, x, y: (
        f"np.where({x} == 0.0, {x}, {y})" if operation.result.shape else f"{x} if {x} == 0.0 else {y}"
    ),
    jvp=lambda tangents, out, x, y: None if tangents[1] is None else _unless_hidden(tangents[1], x, y),
    vjp=lambda ct, out, x, y: (None, _unless_hidden(ct, x, y)),
    samples=(
        Sample("f[2,3] f[2,3]", domain=(0.5, 2.0)), Sample("f[] f[]", domain=(0.5, 2.0)),
        Sample("c128[2] c128[2]", domain=(0.5, 2.0)),
    ),
    special=((0.0, math.inf, 0.0), (1.5, -2.0, -2.0)),
)


def _cast_transpose(ct: Any, x: Any, *, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    source = type_of(x).dtype
    if not (is_inexact(source) and is_inexact(dtype)):
        return (None,)
    part = real(ct) if is_complex(dtype) and not is_complex(source) else ct
    return (part if type_of(part).dtype == source else cast(part, dtype=source),)


def _cast_text(operation: Operation, x: str) -> str:
    dtype = dtype_text(operation.attrs["dtype"])
    if operation.operands[0].shape:
        return f"{x}.astype({dtype})"
    return f"{'np.bool_' if dtype == 'bool' else dtype}({x})"


def _cast_c(emitter: CEmitter, operation: Operation, index: Sequence[Any]) -> str:
    x, dtype = emitter.element(operation.operands[0], index), operation.attrs["dtype"]
    return emitter.fill("{x} != 0" if dtype == BOOL else f"({emitter.ctype(dtype)}){{x}}", {"x": x})


cast: OpDef = linear(
    "cast", X, "Conversion to another dtype. From float to integer or bool it cuts the derivative.",
    attributes=("dtype",), elementwise=True, infer=infer_cast, numpy=_cast_text, c=_cast_c, cheap=True,
    transpose=_cast_transpose,
    samples=(
        Sample("f[2,3]", {"dtype": F32}), Sample("f32[3]", {"dtype": np.dtype(np.float64)}),
        Sample("f[]", {"dtype": DTYPES["i64"]}), Sample("i[3]", {"dtype": np.dtype(np.float64)}),
        Sample("f[3]", {"dtype": BOOL}), Sample("f64[3]", {"dtype": DTYPES["c128"]}),
        Sample("b[]", {"dtype": np.dtype(np.float64)}), Sample("c128[2]", {"dtype": DTYPES["c64"]}),
        Sample("f64[2]", {"dtype": DTYPES["bf16"]}),
    ),
)

# fmt: on


def power_by_products(base: Any, exponent: int) -> Any:
    """Stage a power by a positive integer as squares and products."""
    if exponent == 1:
        return base
    if exponent % 2 == 0:
        return power_by_products(square(base), exponent // 2)
    return multiply(power_by_products(base, exponent - 1), base)
