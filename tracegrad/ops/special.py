"""Elementwise ops: Bessel functions, exponential integrals, incomplete gamma and beta functions, normal quantiles.

Previous: elementwise.py; next: shape.py.
"""

from __future__ import annotations

import math
from typing import Any

from tracegrad.ir.opdef import OpDef, Sample
from tracegrad.ir.types import is_float
from tracegrad.ops.creation import full_like, ones_like, zeros_like
from tracegrad.ops.elementwise import (
    CByKind,
    CCall,
    X,
    add,
    by_scalar,
    digamma,
    divide,
    equal,
    exp,
    lgamma,
    log,
    log1p,
    multiply,
    negative,
    polygamma,
    select,
    sign,
    square,
    subtract,
)
from tracegrad.ops.infer import same
from tracegrad.ops.record import elementwise

AX = ("a", "x")
ABX = ("a", "b", "x")


# fmt: off

ndtri = elementwise(
    "ndtri", ("p",), "Inverse of the normal distribution function.",
    infer=same(is_float), numpy="ndtri({p})", numpy_helper="ndtri", c=CCall("tg_ndtri"), singular=(True,),
    partials=(lambda out, p: by_scalar(math.sqrt(2.0 * math.pi))(exp(by_scalar(0.5)(square(out)))),),
    domain=(0.05, 0.95), special=((0.5, 0.0), (0.0, -math.inf), (1.0, math.inf)),
)
erfcx: OpDef = elementwise(
    "erfcx", X, "exp(x²) (1 - erf(x)), without overflow where x is large.",
    infer=same(is_float), numpy="erfcx({x})", numpy_helper="erfcx", c=CByKind(f="tg_erfcx({x})"), singular=(True,),
    partials=(
        lambda out, x: subtract(multiply(by_scalar(2.0)(x), out), full_like(x, 2.0 / math.sqrt(math.pi))),
    ),
    samples=(Sample("f[2,3]"), Sample("f[4]", domain=(2.0, 5.0))), special=((0.0, 1.0),),
)
dawsn: OpDef = elementwise(
    "dawsn", X, "Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x.",
    infer=same(is_float), numpy="dawsn({x})", numpy_helper="dawsn", c=CByKind(f="tg_dawsn({x})"),
    partials=(lambda out, x: subtract(ones_like(x), multiply(by_scalar(2.0)(x), out)),),
    samples=(Sample("f[2,3]"), Sample("f[4]", domain=(11.0, 13.0)), Sample("f[3]", domain=(-0.15, 0.15))),
    special=((0.0, 0.0),),
)
exp1 = elementwise(
    "exp1", X, "Exponential integral: of exp(-t) / t from x to infinity, for x > 0.",
    infer=same(is_float), numpy="exp1({x})", numpy_helper="exp1", c=CByKind(f="tg_exp1({x})"), singular=(True,),
    partials=(lambda out, x: negative(divide(exp(negative(x)), x)),),
    domain=(0.3, 3.0), special=((0.0, math.inf),),
)


def _neighbours(op: OpDef, x: Any, order: int) -> Any:
    # C'(n) = (C(n - 1) + s C(n + 1)) / 2, which the caller completes
    return op(x, order=order - 1), op(x, order=order + 1)


def _bessel(name: str, doc: str, *, numpy: str, helper: str, **fields: Any) -> OpDef:
    return elementwise(
        name, X, doc, attributes=("order",), infer=lambda x, *, order: same(is_float)(x), numpy=numpy,
        numpy_helper=helper, c=CCall(f"tg_{name}", "order"), **fields,
    )


bessel_ie: OpDef = _bessel(
    "bessel_ie", "exp(-|x|) times the modified Bessel function of the first kind, of the given order >= 0.",
    numpy="bessel_i({order}, {x}, True)", helper="bessel_i",
    partials=(
        lambda out, x, *, order: subtract(
            by_scalar(0.5)(add(*_neighbours(bessel_ie, x, order))) if order else bessel_ie(x, order=1),
            multiply(sign(x), out),
        ),
    ),
    samples=(Sample("f[2,3]", {"order": 0}, domain=(0.1, 2.0)), Sample("f[4]", {"order": 2}, domain=(28.0, 32.0))),
)
bessel_j: OpDef = _bessel(
    "bessel_j", "Bessel function of the first kind, of the given order >= 0.",
    numpy="bessel_j({order}, {x})", helper="bessel_j",
    partials=(
        lambda out, x, *, order: by_scalar(0.5)(subtract(*_neighbours(bessel_j, x, order)))
        if order else negative(bessel_j(x, order=1)),
    ),
    samples=(
        Sample("f[2,3]", {"order": 0}), Sample("f[4]", {"order": 1}, domain=(-20.0, 20.0)),
        Sample("f[4]", {"order": 2}, domain=(24.0, 40.0)),
    ),
)
bessel_k: OpDef = _bessel(
    "bessel_k", "Modified Bessel function of the second kind, of the given order >= 0, for x > 0.",
    numpy="bessel_k({order}, {x})", helper="bessel_k", singular=(True,),
    partials=(
        lambda out, x, *, order: by_scalar(-0.5)(add(*_neighbours(bessel_k, x, order)))
        if order else negative(bessel_k(x, order=1)),
    ),
    samples=(Sample("f[2,3]", {"order": 0}, domain=(0.3, 3.0)), Sample("f[4]", {"order": 3}, domain=(1.0, 9.0))),
)
bessel_ke: OpDef = _bessel(
    "bessel_ke", "exp(x) times the modified Bessel function of the second kind, of the given order >= 0, for x > 0.",
    numpy="bessel_k({order}, {x}, True)", helper="bessel_k", singular=(True,),
    partials=(
        lambda out, x, *, order: subtract(
            out, by_scalar(0.5)(add(*_neighbours(bessel_ke, x, order))) if order else bessel_ke(x, order=1)
        ),
    ),
    samples=(Sample("f[2,3]", {"order": 0}, domain=(0.3, 3.0)), Sample("f[4]", {"order": 3}, domain=(1.0, 9.0))),
)

# The incomplete functions, and their derivatives in the parameters, of any order


def _sum(terms: list[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    return total


def _psi(x: Any, order: int) -> Any:
    return polygamma(x, order=order) if order else digamma(x)


def _log_power(base_log: Any, exponent: Any) -> Any:
    # the exponent times the logarithm, which is 0 where the exponent is, though the base be 0
    none = equal(exponent, zeros_like(exponent))
    return multiply(exponent, select(none, zeros_like(base_log), base_log))


def _gamma_density(a: Any, x: Any, order: int) -> Any:
    # x**(a - 1) exp(-x) / gamma(a), and its derivatives in a: those of exp(g)
    value = exp(subtract(subtract(_log_power(log(x), subtract(a, ones_like(a))), x), lgamma(a)))
    found = [value]
    for n in range(1, order + 1):
        slopes = [subtract(log(x), digamma(a)), *(negative(polygamma(a, order=k)) for k in range(1, n))]
        found.append(_sum([
            by_scalar(float(math.comb(n - 1, k)))(multiply(slopes[k], found[n - 1 - k])) for k in range(n)
        ]))
    return found[order]


gammainc: OpDef = elementwise(
    "gammainc", AX, "Regularized lower incomplete gamma function, or its derivative of the given order >= 0 in a.",
    attributes=("order",), infer=lambda a, x, *, order: same(is_float)(a, x),
    numpy="gammainc({order}, {a}, {x})", numpy_helper="gammainc", c=CCall("tg_gammainc", "order"),
    singular=(True, True),
    partials=(
        lambda out, a, x, *, order: gammainc(a, x, order=order + 1),
        lambda out, a, x, *, order: _gamma_density(a, x, order),
    ),
    samples=(
        Sample("f[2,3] f[2,3]", {"order": 0}, domain=(0.5, 4.0)), Sample("f[3] f[3]", {"order": 1}, domain=(0.5, 4.0)),
    ),
)
gammaincc = elementwise(
    "gammaincc", AX, "Regularized upper incomplete gamma function.",
    infer=same(is_float), numpy="gammaincc({a}, {x})", numpy_helper="gammaincc", c=CCall("tg_gammaincc"),
    singular=(True, True),
    partials=(
        lambda out, a, x: negative(gammainc(a, x, order=1)), lambda out, a, x: negative(_gamma_density(a, x, 0)),
    ),
    domain=(0.5, 4.0), special=((1.0, 0.0, 1.0),),
)


def _beta_density(a: Any, b: Any, x: Any, order_a: int, order_b: int) -> Any:
    # x**(a - 1) (1 - x)**(b - 1) / beta(a, b), and its derivatives in a and b: those of exp(g)
    both = add(a, b)
    log_x, log_y = log(x), log1p(negative(x))
    powers = add(_log_power(log_x, subtract(a, ones_like(a))), _log_power(log_y, subtract(b, ones_like(b))))
    value = exp(add(powers, subtract(lgamma(both), add(lgamma(a), lgamma(b)))))

    def slope(i: int, j: int) -> Any:
        part = _psi(both, i + j - 1)
        if not j:
            part = subtract(part, _psi(a, i - 1))
        if not i:
            part = subtract(part, _psi(b, j - 1))
        return add(part, log_x if i else log_y) if i + j == 1 else part

    def derivative(i: int, j: int) -> Any:
        if not i and not j:
            return value
        m, n = (i - 1, j) if i else (i, j - 1)
        step = (1, 0) if i else (0, 1)
        return _sum([
            by_scalar(float(math.comb(m, k) * math.comb(n, l)))(
                multiply(slope(k + step[0], l + step[1]), derivative(m - k, n - l))
            )
            for k in range(m + 1) for l in range(n + 1)
        ])

    return derivative(order_a, order_b)


betainc: OpDef = elementwise(
    "betainc", ABX, "Regularized incomplete beta function, or its derivative of the given orders >= 0 in a and b.",
    attributes=("order_a", "order_b"), infer=lambda a, b, x, *, order_a, order_b: same(is_float)(a, b, x),
    numpy="betainc({order_a}, {order_b}, {a}, {b}, {x})", numpy_helper="betainc",
    c=CCall("tg_betainc", "order_a", "order_b"), singular=(True, True, True),
    partials=(
        lambda out, a, b, x, *, order_a, order_b: betainc(a, b, x, order_a=order_a + 1, order_b=order_b),
        lambda out, a, b, x, *, order_a, order_b: betainc(a, b, x, order_a=order_a, order_b=order_b + 1),
        lambda out, a, b, x, *, order_a, order_b: _beta_density(a, b, x, order_a, order_b),
    ),
    samples=(
        Sample("f[2,3] f[2,3] f[2,3]", {"order_a": 0, "order_b": 0}, domain=(0.2, 0.8)),
        Sample("f[2] f[2] f[2]", {"order_a": 1, "order_b": 1}, domain=(0.2, 0.8)),
    ),
)

# fmt: on
