"""Functions of scipy.special, registered when code that imports it meets a function without handler.

Previous: functional.py; next: scipy_linalg.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.numpy_api.common import as_axes, covers, full, known_scalar, select, spread
from tracegrad.capture.numpy_api.elementwise import (
    absolute,
    add,
    divide,
    equal,
    exp,
    greater,
    greater_equal,
    less,
    log,
    log1p,
    multiply,
    negative,
    subtract,
)
from tracegrad.capture.numpy_api.reduce import log_sum_exp, max, sum
from tracegrad.capture.tracer import LATE, Tracer, apply, asarray, broadcast_shapes, call_handler, cast_to, unsupported
from tracegrad.ir.types import F32, F64, is_float, is_inexact


def floats(*operands: Any) -> list[Any]:
    """Return operands of one float dtype and one shape."""
    tracers = [asarray(v) for v in operands]
    strong = [t.dtype for t in tracers if not t.weak]
    dtype = np.result_type(*strong) if strong else F64
    if any(is_inexact(t.dtype) for t in tracers) and not is_inexact(dtype):
        dtype = F64
    dtype = dtype if is_float(dtype) else F64
    shape = broadcast_shapes(*[t.type.shape for t in tracers])
    return [spread(cast_to(t, dtype), shape) for t in tracers]


def _one(x: Tracer) -> Any:
    return full((), 1, x.dtype)


def expit(x: Any) -> Any:
    (x,) = floats(x)
    # one formula per sign, chosen on both sides of the operation: no kink of abs at 0
    positive = greater_equal(x, full((), 0, x.dtype))
    zero = full((), 0, x.dtype)
    right = divide(_one(x), add(_one(x), exp(negative(select(positive, x, zero)))))
    growth = exp(select(positive, zero, x))
    return select(positive, right, divide(growth, add(_one(x), growth)))


def logit(x: Any) -> Any:
    (x,) = floats(x)
    return subtract(log(x), log1p(negative(x)))


def log_expit(x: Any) -> Any:
    (x,) = floats(x)
    return negative(call_handler(np.logaddexp, full((), 0, x.dtype), negative(x)))


def erf(x: Any) -> Any:
    return apply(ops.erf, *floats(x))


def erfc(x: Any) -> Any:
    return apply(ops.erfc, *floats(x))


def erfinv(x: Any) -> Any:
    return apply(ops.erfinv, *floats(x))


def gammaln(x: Any) -> Any:
    return apply(ops.lgamma, *floats(x))


def gamma(x: Any) -> Any:
    return apply(ops.gamma, *floats(x))


def digamma(x: Any) -> Any:
    return apply(ops.digamma, *floats(x))


def polygamma(n: Any, x: Any) -> Any:
    order = known_scalar(n)
    if order is None:
        raise unsupported("scipy.special.polygamma of a traced order", "give the order as a number")
    (x,) = floats(x)
    return apply(ops.polygamma, x, order=int(order)) if order else apply(ops.digamma, x)


def elementwise_op(op: Any, **attrs: Any) -> Callable[..., Any]:
    return lambda *operands: apply(op, *floats(*operands), **attrs)


def _of_order(op: Any, name: str, opposite: int) -> Callable[..., Any]:
    """Return a Bessel function with its order first; that of order -n is (-1)**(n * opposite) that of order n."""

    def function(v: Any, z: Any) -> Any:
        order = known_scalar(v)
        if order is None or order != int(order):
            raise unsupported(f"scipy.special.{name} of an order that is traced, or not whole", "give a whole number")
        result = apply(op, *floats(z), order=abs(int(order)))
        return negative(result) if order < 0 and order % 2 and opposite else result

    return function


def ndtr(x: Any) -> Any:
    (x,) = floats(x)
    return multiply(apply(ops.erfc, multiply(x, full((), -math.sqrt(0.5), x.dtype))), full((), 0.5, x.dtype))


#: coefficients of log_ndtr's expansion in 1/x², highest first: ±1·3·5·7...
_TAIL = (2027025.0, -135135.0, 10395.0, -945.0, 105.0, -15.0, 3.0, -1.0)


def log_ndtr(x: Any) -> Any:
    """Logarithm of the normal distribution function.

    Source: Abramowitz and Stegun, 26.2.12, for the far tail, where ndtr itself underflows.
    """
    (x,) = floats(x)
    if x.dtype == np.float16:
        return cast_to(log_ndtr(cast_to(x, F32)), x.dtype)

    def number(value: float) -> Any:
        return full((), value, x.dtype)

    limit = number(-20.0 if x.dtype == F64 else -10.0)
    far = less(x, limit)
    near, y = select(far, number(0.0), x), select(far, x, limit)
    positive = greater(near, number(0.0))
    tail = ndtr(select(positive, negative(near), near))
    z = divide(_one(y), multiply(y, y))
    series = number(0.0)
    for coefficient in _TAIL:
        series = multiply(add(series, number(coefficient)), z)
    slope = subtract(multiply(multiply(y, y), number(-0.5)), log(negative(y)))
    beyond = add(subtract(slope, number(0.5 * math.log(2.0 * math.pi))), log1p(series))
    return select(far, beyond, select(positive, log1p(negative(tail)), log(select(positive, _one(x), tail))))


def xlogy(x: Any, y: Any) -> Any:
    x, y = floats(x, y)
    zero = equal(x, full((), 0, x.dtype))
    return select(zero, full((), 0, x.dtype), multiply(x, log(select(zero, _one(y), y))))


def xlog1py(x: Any, y: Any) -> Any:
    x, y = floats(x, y)
    zero = equal(x, full((), 0, x.dtype))
    return select(zero, full((), 0, x.dtype), multiply(x, log1p(select(zero, full((), 0, y.dtype), y))))


def entr(x: Any) -> Any:
    (x,) = floats(x)
    none = full((), 0, x.dtype)
    positive = greater(x, none)
    inside = negative(multiply(x, log(select(positive, x, _one(x)))))
    return select(positive, inside, select(less(x, none), full((), -np.inf, x.dtype), none))


def rel_entr(x: Any, y: Any) -> Any:
    x, y = floats(x, y)
    none = full((), 0, x.dtype)
    both = call_handler(np.logical_and, greater(x, none), greater(y, none))
    inside = multiply(x, log(divide(select(both, x, _one(x)), select(both, y, _one(y)))))
    empty = call_handler(np.logical_and, equal(x, none), greater_equal(y, none))
    return select(both, inside, select(empty, none, full((), np.inf, x.dtype)))


def kl_div(x: Any, y: Any) -> Any:
    x, y = floats(x, y)
    return add(rel_entr(x, y), subtract(y, x))


def huber(delta: Any, r: Any) -> Any:
    delta, r = floats(delta, r)
    size = absolute(r)
    near = call_handler(np.less_equal, size, delta)
    half = full((), 0.5, r.dtype)
    return select(near, multiply(half, multiply(r, r)), multiply(delta, subtract(size, multiply(half, delta))))


def beta_ln(a: Any, b: Any) -> Any:
    a, b = floats(a, b)
    return subtract(add(gammaln(a), gammaln(b)), gammaln(add(a, b)))


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    tracer = asarray(a)
    tracer = tracer if is_inexact(tracer.dtype) else cast_to(tracer, F64)
    weights = None
    if b is not None:
        weights = cast_to(asarray(b), tracer.dtype)
        shape = broadcast_shapes(tracer.type.shape, weights.type.shape)
        tracer, weights = spread(tracer, shape), spread(weights, shape)
    if return_sign:
        peak = _peak(tracer, axis)
        peak = select(call_handler(np.isfinite, peak), peak, full((), 0, peak.dtype))
        terms = exp(subtract(tracer, peak))
        total = sum(terms if weights is None else multiply(weights, terms), axis, keepdims=True)
        found = add(log(absolute(total)), peak), call_handler(np.sign, total)
        axes = as_axes(axis, tracer.ndim)
        return found if keepdims else tuple(call_handler(np.squeeze, part, axes) for part in found)
    return log_sum_exp(tracer, as_axes(axis, tracer.ndim), keepdims, weights)


def _peak(x: Tracer, axis: Any) -> Any:
    """Return what keeps exponentials from overflow; the derivative of the whole does not depend on it."""
    return apply(ops.stop_gradient, max(x, axis, keepdims=True))


def softmax(x: Any, axis: Any = None) -> Any:
    (tracer,) = floats(x)
    weights = exp(subtract(tracer, _peak(tracer, axis)))
    return divide(weights, sum(weights, axis, keepdims=True))


def log_softmax(x: Any, axis: Any = None) -> Any:
    (tracer,) = floats(x)
    shifted = subtract(tracer, _peak(tracer, axis))
    return subtract(shifted, log(sum(exp(shifted), axis, keepdims=True)))


# ---- exponentials, logarithms, powers


def _near_zero(x: Any, limit: float, series: Callable[[Any], Any], elsewhere: Callable[[Any], Any]) -> Any:
    """Return a function that has no cancellation at 0: a series inside the limit, a formula elsewhere."""
    small = less(absolute(x), full((), limit, x.dtype))
    zero, one = full((), 0, x.dtype), _one(x)
    return select(small, series(select(small, x, zero)), elsewhere(select(small, one, x)))


def _polynomial(x: Any, coefficients: list[float]) -> Any:
    """Return the polynomial with these coefficients, the constant first."""
    result: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def exprel(x: Any) -> Any:
    """Return (exp(x) - 1) / x."""
    (x,) = floats(x)
    series = [1.0 / math.factorial(k + 1) for k in range(16)]
    return _near_zero(x, 0.5, lambda x: _polynomial(x, series), lambda x: call_handler(np.expm1, x) / x)


def _log1prel(x: Any) -> Any:
    """Return log(1 + x) / x."""
    series = [(-1.0) ** k / (k + 1) for k in range(24)]
    return _near_zero(x, 0.2, lambda x: _polynomial(x, series), lambda x: log1p(x) / x)


def boxcox(x: Any, lmbda: Any) -> Any:
    x, power = floats(x, lmbda)
    return multiply(log(x), exprel(multiply(power, log(x))))


def boxcox1p(x: Any, lmbda: Any) -> Any:
    x, power = floats(x, lmbda)
    return multiply(log1p(x), exprel(multiply(power, log1p(x))))


def inv_boxcox(y: Any, lmbda: Any) -> Any:
    y, power = floats(y, lmbda)
    return exp(multiply(y, _log1prel(multiply(power, y))))


def inv_boxcox1p(y: Any, lmbda: Any) -> Any:
    y, power = floats(y, lmbda)
    return call_handler(np.expm1, multiply(y, _log1prel(multiply(power, y))))


def powm1(x: Any, y: Any) -> Any:
    x, y = floats(x, y)
    return call_handler(np.expm1, multiply(y, log(x)))


def cosm1(x: Any) -> Any:
    (x,) = floats(x)
    return -2.0 * call_handler(np.square, call_handler(np.sin, 0.5 * x))


def of_degrees(function: Any) -> Callable[[Any], Any]:
    return lambda x: call_handler(function, call_handler(np.deg2rad, x))


def pseudo_huber(delta: Any, r: Any) -> Any:
    delta, r = floats(delta, r)
    # sqrt(1 + u²) - 1 = u² / (sqrt(1 + u²) + 1), without cancellation
    part = divide(r, delta)
    return divide(multiply(r, r), add(call_handler(np.sqrt, add(multiply(part, part), 1.0)), 1.0))


# ---- normal distribution, error functions


ndtri = elementwise_op(ops.ndtri)
i0e = elementwise_op(ops.bessel_ie, order=0)


def erfcinv(x: Any) -> Any:
    (x,) = floats(x)
    return -math.sqrt(0.5) * apply(ops.ndtri, 0.5 * x)


def erfi(x: Any) -> Any:
    (x,) = floats(x)
    return multiply(multiply(2.0 / math.sqrt(math.pi), exp(x * x)), apply(ops.dawsn, x))


# ---- gamma and beta functions, and distributions that they give


def gammasgn(x: Any) -> Any:
    (x,) = floats(x)
    below = call_handler(np.floor, x)
    odd = call_handler(np.not_equal, call_handler(np.remainder, below, 2.0), 0.0)
    sign = select(call_handler(np.logical_and, less(x, full((), 0, x.dtype)), odd), negative(_one(x)), _one(x))
    pole = call_handler(np.logical_and, equal(below, x), less(x, full((), 0, x.dtype)))
    return select(pole, full((), np.nan, x.dtype), sign)


def rgamma(x: Any) -> Any:
    """Return 1 / gamma(x), which is 0 at the poles. There its derivative is taken between the poles beside it."""
    (x,) = floats(x)
    # 1 / gamma(x) = x (x + 1) ... (x + n) / gamma(x + n + 1) near 0
    return divide(x, gamma(add(x, _one(x))))


def _ratio(upper: list[Any], lower: list[Any]) -> Any:
    """Return a quotient of products of gamma functions, which may be too large by themselves."""
    logarithm: Any = 0.0
    sign: Any = 1.0
    for part in upper:
        logarithm, sign = logarithm + gammaln(part), sign * gammasgn(part)
    for part in lower:
        logarithm, sign = logarithm - gammaln(part), sign * gammasgn(part)
    return exp(logarithm) * sign


def beta(a: Any, b: Any) -> Any:
    a, b = floats(a, b)
    return _ratio([a, b], [add(a, b)])


def binom(n: Any, k: Any) -> Any:
    n, k = floats(n, k)
    return _ratio([n + 1.0], [k + 1.0, n - k + 1.0])


def poch(z: Any, m: Any) -> Any:
    z, m = floats(z, m)
    return _ratio([add(z, m)], [z])


def multigammaln(a: Any, d: Any) -> Any:
    (a,) = floats(a)
    size = int(known_scalar(d))
    total: Any = size * (size - 1) / 4 * math.log(math.pi)
    for k in range(size):
        total = total + gammaln(a - k / 2)
    return total


def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    if exact:
        raise unsupported("scipy.special.factorial with exact=True of traced values", "leave it out")
    (n,) = floats(n)
    below = less(n, full((), 0, n.dtype))
    return select(below, full((), 0, n.dtype), gamma(add(select(below, full((), 0, n.dtype), n), 1.0)))


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    if exact:
        raise unsupported("scipy.special.comb with exact=True of traced values", "leave it out")
    n, k = floats(N, k)
    n = n + k - 1.0 if repetition else n
    inside = call_handler(np.logical_and, call_handler(np.less_equal, k, n), greater_equal(k, full((), 0, k.dtype)))
    zero = full((), 0, k.dtype)
    return select(inside, binom(select(inside, n, zero), select(inside, k, zero)), zero)


def gammainc(a: Any, x: Any) -> Any:
    return apply(ops.gammainc, *floats(a, x), order=0)


def gammaincc(a: Any, x: Any) -> Any:
    return apply(ops.gammaincc, *floats(a, x))


def betainc(a: Any, b: Any, x: Any) -> Any:
    return apply(ops.betainc, *floats(a, b, x), order_a=0, order_b=0)


def betaincc(a: Any, b: Any, x: Any) -> Any:
    a, b, x = floats(a, b, x)
    return betainc(b, a, 1.0 - x)


def chdtr(v: Any, x: Any) -> Any:
    v, x = floats(v, x)
    return gammainc(0.5 * v, 0.5 * x)


def chdtrc(v: Any, x: Any) -> Any:
    v, x = floats(v, x)
    return gammaincc(0.5 * v, 0.5 * x)


def stdtr(df: Any, t: Any) -> Any:
    """Return the distribution function of Student's t."""
    df, t = floats(df, t)
    square = t * t
    # the share of both tails, by the form that is small where it is: without cancellation, and smooth at 0
    near = less(square, df)
    none, one = full((), 0, t.dtype), _one(t)
    inner = select(near, square, one)
    outer = select(near, one, square)
    half = 0.5 * df
    inside = betainc(full((), 0.5, t.dtype), half, inner / (df + inner))
    outside = betainc(half, full((), 0.5, t.dtype), df / (df + outer))
    # inside is even in t, with a kink of |t| at 0, which the sign takes back: its derivative there is that of a root
    shift = select(equal(t, none), t * _stdtr_slope(df), select(t > 0.0, 0.5 * inside, -0.5 * inside))
    tail = select(t > 0.0, 1.0 - 0.5 * outside, 0.5 * outside)
    return select(near, add(shift, 0.5), tail)


def _stdtr_slope(df: Any) -> Any:
    return exp(gammaln(0.5 * df + 0.5) - gammaln(0.5 * df)) / call_handler(np.sqrt, math.pi * df)


def fdtr(dfn: Any, dfd: Any, x: Any) -> Any:
    dfn, dfd, x = floats(dfn, dfd, x)
    return betainc(0.5 * dfn, 0.5 * dfd, dfn * x / (dfn * x + dfd))


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    dfn, dfd, x = floats(dfn, dfd, x)
    return betainc(0.5 * dfd, 0.5 * dfn, dfd / (dfn * x + dfd))


def pdtr(k: Any, m: Any) -> Any:
    k, m = floats(k, m)
    return gammaincc(call_handler(np.floor, k) + 1.0, m)


def pdtrc(k: Any, m: Any) -> Any:
    k, m = floats(k, m)
    return gammainc(call_handler(np.floor, k) + 1.0, m)


def gdtr(a: Any, b: Any, x: Any) -> Any:
    a, b, x = floats(a, b, x)
    return gammainc(b, a * x)


# ---- integrals


def _means(m: Any) -> tuple[Any, Any]:
    """Return the arithmetic-geometric mean of 1 and sqrt(1 - m), and the sum that the second integral needs.

    Source: Abramowitz and Stegun, 17.6.
    """
    a, g = _one(m), call_handler(np.sqrt, 1.0 - m)
    total, weight = 0.5 * m, 0.5
    for _ in range(9):
        half = 0.5 * (a - g)
        a, g = 0.5 * (a + g), call_handler(np.sqrt, a * g)
        weight *= 2.0
        total = total + weight * half * half
    return a, total


def ellipk(m: Any) -> Any:
    (m,) = floats(m)
    end = equal(m, _one(m))
    inside = select(end, full((), 0, m.dtype), m)
    return select(end, 1.0 / (1.0 - m), 0.5 * math.pi / _means(inside)[0])


def ellipe(m: Any) -> Any:
    (m,) = floats(m)
    end = equal(m, _one(m))
    mean, total = _means(select(end, full((), 0, m.dtype), m))
    # the root gives 0, and its infinite slope
    return select(end, 1.0 + call_handler(np.sqrt, 1.0 - m), 0.5 * math.pi / mean * (1.0 - total))


# ---- orthogonal polynomials, by their recurrences


def _recurrence(first: Callable[[Any], Any], step: Callable[[int, Any, Any, Any], Any], name: str) -> Any:
    def function(n: Any, x: Any) -> Any:
        degree = known_scalar(n)
        if degree is None or degree != int(degree) or degree < 0:
            raise unsupported(f"scipy.special.{name} of a degree that is traced, or not whole", "give a whole number")
        (x,) = floats(x)
        before, value = 0.0 * x + 1.0, first(x)
        for k in range(1, int(degree)):
            before, value = value, step(k, x, value, before)
        return before if degree == 0 else value

    return function


_POLYNOMIALS: dict[str, Any] = {
    name: _recurrence(first, step, name)
    for name, first, step in (
        ("eval_legendre", lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
        ("eval_chebyt", lambda x: x, lambda k, x, p, q: 2.0 * x * p - q),
        ("eval_chebyu", lambda x: 2.0 * x, lambda k, x, p, q: 2.0 * x * p - q),
        ("eval_hermite", lambda x: 2.0 * x, lambda k, x, p, q: 2.0 * (x * p - k * q)),
        ("eval_hermitenorm", lambda x: x, lambda k, x, p, q: x * p - k * q),
        ("eval_laguerre", lambda x: 1.0 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    )
}


_SPECIAL: dict[str, Callable[..., Any]] = {
    "expit": expit,
    "logit": logit,
    "log_expit": log_expit,
    "erf": erf,
    "erfc": erfc,
    "erfinv": erfinv,
    "gammaln": gammaln,
    "loggamma": gammaln,
    "gamma": gamma,
    "digamma": digamma,
    "psi": digamma,
    "polygamma": polygamma,
    "ndtr": ndtr,
    "log_ndtr": log_ndtr,
    "xlogy": xlogy,
    "xlog1py": xlog1py,
    "entr": entr,
    "rel_entr": rel_entr,
    "kl_div": kl_div,
    "huber": huber,
    "betaln": beta_ln,
    "logsumexp": logsumexp,
    "softmax": softmax,
    "log_softmax": log_softmax,
    **{f"i{n}": elementwise_op(ops.bessel_i, order=n) for n in (0, 1)},
    **{f"i{n}e": elementwise_op(ops.bessel_ie, order=n) for n in (0, 1)},
    **{f"j{n}": elementwise_op(ops.bessel_j, order=n) for n in (0, 1)},
    **{f"k{n}": elementwise_op(ops.bessel_k, order=n) for n in (0, 1)},
    **{f"k{n}e": elementwise_op(ops.bessel_ke, order=n) for n in (0, 1)},
    "iv": _of_order(ops.bessel_i, "iv", 0),
    "ive": _of_order(ops.bessel_ie, "ive", 0),
    "jv": _of_order(ops.bessel_j, "jv", 1),
    "kv": _of_order(ops.bessel_k, "kv", 0),
    "kve": _of_order(ops.bessel_ke, "kve", 0),
    "kn": _of_order(ops.bessel_k, "kn", 0),
    "ndtri": ndtri,
    "erfcx": elementwise_op(ops.erfcx),
    "dawsn": elementwise_op(ops.dawsn),
    "exp1": elementwise_op(ops.exp1),
    "softplus": elementwise_op(ops.softplus),
    "erfcinv": erfcinv,
    "erfi": erfi,
    "exprel": exprel,
    "boxcox": boxcox,
    "boxcox1p": boxcox1p,
    "inv_boxcox": inv_boxcox,
    "inv_boxcox1p": inv_boxcox1p,
    "powm1": powm1,
    "cosm1": cosm1,
    "sindg": of_degrees(np.sin),
    "cosdg": of_degrees(np.cos),
    "tandg": of_degrees(np.tan),
    "pseudo_huber": pseudo_huber,
    "gammasgn": gammasgn,
    "rgamma": rgamma,
    "beta": beta,
    "binom": binom,
    "poch": poch,
    "multigammaln": multigammaln,
    "factorial": factorial,
    "comb": comb,
    "gammainc": gammainc,
    "gammaincc": gammaincc,
    "betainc": betainc,
    "betaincc": betaincc,
    "btdtr": betainc,
    "chdtr": chdtr,
    "chdtrc": chdtrc,
    "stdtr": stdtr,
    "fdtr": fdtr,
    "fdtrc": fdtrc,
    "pdtr": pdtr,
    "pdtrc": pdtrc,
    "gdtr": gdtr,
    "ellipk": ellipk,
    "ellipe": ellipe,
    **_POLYNOMIALS,
}


def _register() -> None:
    import scipy.special  # noqa: PLC0415 the user's code has imported it

    for name, handler in _SPECIAL.items():
        if hasattr(scipy.special, name):  # newer and older versions differ
            covers(getattr(scipy.special, name))(handler)
    covers(scipy.special.exp10)(lambda x: call_handler(np.power, 10.0, x))
    for name in ("exp2", "cbrt", "sinc", "log1p", "expm1"):
        function = getattr(scipy.special, name)
        if function is not getattr(np, name):
            covers(function)(functools.partial(call_handler, getattr(np, name)))


LATE["scipy.special"] = _register
