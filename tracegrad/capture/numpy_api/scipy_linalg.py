"""Functions of scipy.special, scipy.linalg and scipy.fft, registered when a function without handler is met.

Previous: functional.py. The one optional import of capture. SciPy is slow to import: code without it never does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.numpy_api.common import NO_VALUE, as_axes, covers, full, known_scalar, select, spread
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
from tracegrad.capture.numpy_api.fourier import TRANSFORMS
from tracegrad.capture.numpy_api.linalg import cholesky, det, inv, solve_with
from tracegrad.capture.numpy_api.reduce import log_sum_exp, max, sum
from tracegrad.capture.numpy_api.shape import tril, triu
from tracegrad.capture.tracer import LATE, Tracer, apply, asarray, broadcast_shapes, call_handler, cast_to, unsupported
from tracegrad.ir.types import F32, F64, I64, is_float, is_inexact


def _floats(*operands: Any) -> list[Tracer]:
    """Return operands of one float dtype and one shape."""
    tracers = [asarray(v) for v in operands]
    strong = [t.dtype for t in tracers if not t.weak]
    dtype = np.result_type(*strong) if strong else F64
    if any(is_inexact(t.dtype) for t in tracers) and not is_inexact(dtype):
        dtype = F64
    dtype = dtype if is_float(dtype) else F64
    shape = broadcast_shapes(*[t.type.shape for t in tracers])
    return [spread(cast_to(t, dtype), shape) for t in tracers]


def _one(x: Tracer) -> Tracer:
    return full((), 1, x.dtype)


def expit(x: Any) -> Tracer:
    (x,) = _floats(x)
    # one formula per sign, chosen on both sides of the operation: no kink of abs at 0
    positive = greater_equal(x, full((), 0, x.dtype))
    zero = full((), 0, x.dtype)
    right = divide(_one(x), add(_one(x), exp(negative(select(positive, x, zero)))))
    growth = exp(select(positive, zero, x))
    return select(positive, right, divide(growth, add(_one(x), growth)))


def logit(x: Any) -> Tracer:
    (x,) = _floats(x)
    return subtract(log(x), log1p(negative(x)))


def log_expit(x: Any) -> Tracer:
    (x,) = _floats(x)
    return negative(call_handler(np.logaddexp, full((), 0, x.dtype), negative(x)))


def erf(x: Any) -> Tracer:
    return apply(ops.erf, *_floats(x))  # type: ignore[no-any-return]


def erfc(x: Any) -> Tracer:
    return apply(ops.erfc, *_floats(x))  # type: ignore[no-any-return]


def erfinv(x: Any) -> Tracer:
    return apply(ops.erfinv, *_floats(x))  # type: ignore[no-any-return]


def gammaln(x: Any) -> Tracer:
    return apply(ops.lgamma, *_floats(x))  # type: ignore[no-any-return]


def gamma(x: Any) -> Tracer:
    return apply(ops.gamma, *_floats(x))  # type: ignore[no-any-return]


def digamma(x: Any) -> Tracer:
    return apply(ops.digamma, *_floats(x))  # type: ignore[no-any-return]


def polygamma(n: Any, x: Any) -> Tracer:
    order = known_scalar(n)
    if order is None:
        raise unsupported("scipy.special.polygamma of a traced order", "give the order as a number")
    (x,) = _floats(x)
    return apply(ops.polygamma, x, order=int(order)) if order else apply(ops.digamma, x)  # type: ignore[no-any-return]


def bessel_i(order: int) -> Callable[[Any], Tracer]:
    return lambda x: apply(ops.bessel_i, *_floats(x), order=order)


def ndtr(x: Any) -> Tracer:
    (x,) = _floats(x)
    return multiply(apply(ops.erfc, multiply(x, full((), -math.sqrt(0.5), x.dtype))), full((), 0.5, x.dtype))


#: coefficients of log_ndtr's expansion in 1/x², highest first: ±1·3·5·7...
_TAIL = (2027025.0, -135135.0, 10395.0, -945.0, 105.0, -15.0, 3.0, -1.0)


def log_ndtr(x: Any) -> Tracer:
    """Logarithm of the normal distribution function.

    Source: Abramowitz and Stegun, 26.2.12, for the far tail, where ndtr itself underflows.
    """
    (x,) = _floats(x)
    if x.dtype == np.float16:
        return cast_to(log_ndtr(cast_to(x, F32)), x.dtype)

    def number(value: float) -> Tracer:
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


def xlogy(x: Any, y: Any) -> Tracer:
    x, y = _floats(x, y)
    zero = equal(x, full((), 0, x.dtype))
    return select(zero, full((), 0, x.dtype), multiply(x, log(select(zero, _one(y), y))))


def xlog1py(x: Any, y: Any) -> Tracer:
    x, y = _floats(x, y)
    zero = equal(x, full((), 0, x.dtype))
    return select(zero, full((), 0, x.dtype), multiply(x, log1p(select(zero, full((), 0, y.dtype), y))))


def entr(x: Any) -> Tracer:
    (x,) = _floats(x)
    none = full((), 0, x.dtype)
    positive = greater(x, none)
    inside = negative(multiply(x, log(select(positive, x, _one(x)))))
    return select(positive, inside, select(less(x, none), full((), -np.inf, x.dtype), none))


def rel_entr(x: Any, y: Any) -> Tracer:
    x, y = _floats(x, y)
    none = full((), 0, x.dtype)
    both = call_handler(np.logical_and, greater(x, none), greater(y, none))
    inside = multiply(x, log(divide(select(both, x, _one(x)), select(both, y, _one(y)))))
    empty = call_handler(np.logical_and, equal(x, none), greater_equal(y, none))
    return select(both, inside, select(empty, none, full((), np.inf, x.dtype)))


def kl_div(x: Any, y: Any) -> Tracer:
    x, y = _floats(x, y)
    return add(rel_entr(x, y), subtract(y, x))


def huber(delta: Any, r: Any) -> Tracer:
    delta, r = _floats(delta, r)
    size = absolute(r)
    near = call_handler(np.less_equal, size, delta)
    half = full((), 0.5, r.dtype)
    return select(near, multiply(half, multiply(r, r)), multiply(delta, subtract(size, multiply(half, delta))))


def beta_ln(a: Any, b: Any) -> Tracer:
    a, b = _floats(a, b)
    return subtract(add(gammaln(a), gammaln(b)), gammaln(add(a, b)))


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Tracer:
    if return_sign:
        raise unsupported("scipy.special.logsumexp with return_sign=True", "use np.log(np.sum(b * np.exp(a)))")
    tracer = asarray(a)
    tracer = tracer if is_inexact(tracer.dtype) else cast_to(tracer, F64)
    weights = None
    if b is not None:
        weights = cast_to(asarray(b), tracer.dtype)
        shape = broadcast_shapes(tracer.type.shape, weights.type.shape)
        tracer, weights = spread(tracer, shape), spread(weights, shape)
    return log_sum_exp(tracer, as_axes(axis, tracer.ndim), keepdims, weights)


def _peak(x: Tracer, axis: Any) -> Tracer:
    """Return what keeps exponentials from overflow; the derivative of the whole does not depend on it."""
    return apply(ops.stop_gradient, max(x, axis, keepdims=True))  # type: ignore[no-any-return]


def softmax(x: Any, axis: Any = None) -> Tracer:
    (tracer,) = _floats(x)
    weights = exp(subtract(tracer, _peak(tracer, axis)))
    return divide(weights, sum(weights, axis, keepdims=True))


def log_softmax(x: Any, axis: Any = None) -> Tracer:
    (tracer,) = _floats(x)
    shifted = subtract(tracer, _peak(tracer, axis))
    return subtract(shifted, log(sum(exp(shifted), axis, keepdims=True)))


# ---- scipy.linalg


def _pair(a: Any, b: Any) -> tuple[Tracer, Tracer]:
    x, y = asarray(a), asarray(b)
    dtype = np.result_type(x.dtype, y.dtype)
    dtype = dtype if is_inexact(dtype) else F64
    return cast_to(x, dtype), cast_to(y, dtype)


def linalg_solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: Any = None,
    transposed: bool = False,
) -> Tracer:
    matrix, right = _pair(a, b)
    if assume_a in ("pos", "sym", "her", "positive definite", "symmetric", "hermitian") and not lower:
        matrix = _mirrored(matrix, upper=True)
    elif assume_a in ("pos", "sym", "her", "positive definite", "symmetric", "hermitian"):
        matrix = _mirrored(matrix, upper=False)
    if transposed:
        matrix = call_handler(np.swapaxes, matrix, -1, -2)
    return solve_with(ops.solve, matrix, right, right.ndim == 1)


def _mirrored(matrix: Tracer, *, upper: bool) -> Tracer:
    """Return the symmetric matrix of which only one triangle is read."""
    half, rest = (triu(matrix), triu(matrix, 1)) if upper else (tril(matrix), tril(matrix, -1))
    return add(half, call_handler(np.conjugate, call_handler(np.swapaxes, rest, -1, -2)))


def linalg_cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Tracer:
    matrix = asarray(a)
    return cholesky(matrix, upper=not lower)


def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tracer:
    matrix, right = _pair(a, b)
    if trans not in (0, "N", 1, "T", 2, "C"):
        raise ValueError("trans must be 0, 1, 2, 'N', 'T' or 'C'")
    if trans in (2, "C"):
        matrix = call_handler(np.conjugate, matrix)
    return solve_with(
        ops.triangular_solve,
        matrix,
        right,
        right.ndim == 1,
        lower=bool(lower),
        transpose_a=trans not in (0, "N"),
        unit_diagonal=bool(unit_diagonal),
    )


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tracer, bool]:
    """Factor; the other triangle of the result is zero here and arbitrary in SciPy."""
    return linalg_cholesky(a, lower), bool(lower)


def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Tracer:
    factor, lower = c_and_lower
    first = solve_triangular(factor, b, trans=0 if lower else 1, lower=lower)
    return solve_triangular(factor, first, trans=1 if lower else 0, lower=lower)


def linalg_inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tracer:
    return inv(a)


def linalg_det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tracer:
    return det(a)


def linalg_norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Tracer:
    return call_handler(np.linalg.norm, a, ord, axis, keepdims)  # type: ignore[no-any-return]


def linalg_eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, check_finite: bool = True, **options: Any
) -> Any:
    if b is not None or any(v is not None for k, v in options.items() if k.startswith("subset")):
        raise unsupported("scipy.linalg.eigh with b or a subset", "reduce it to np.linalg.eigh with np.linalg.cholesky")
    values, vectors = call_handler(np.linalg.eigh, a, "L" if lower else "U")
    return values if eigvals_only else (values, vectors)


def linalg_eigvalsh(a: Any, b: Any = None, *, lower: bool = True, **options: Any) -> Any:
    return linalg_eigh(a, b, lower=lower, eigvals_only=True, **options)


def linalg_svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, **options: Any) -> Any:
    found = call_handler(np.linalg.svd, a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def linalg_svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return call_handler(np.linalg.svdvals, a)


def linalg_pinv(
    a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True
) -> Any:
    if atol is not None or return_rank:
        raise unsupported("scipy.linalg.pinv with atol or return_rank", "use rtol, and np.linalg.matrix_rank")
    return call_handler(np.linalg.pinv, a, rtol=rtol)


def linalg_lstsq(a: Any, b: Any, cond: Any = None, **options: Any) -> Any:
    solution, residuals, rank, s = call_handler(np.linalg.lstsq, a, b, -1 if cond is None else cond)
    single = asarray(b).ndim == 1 and residuals.type.shape == (1,)
    return solution, residuals[0] if single else residuals, cast_to(rank, I64), s


def linalg_qr(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", **options: Any) -> Any:
    if options.get("pivoting"):
        raise unsupported("scipy.linalg.qr with pivoting", "factor without pivoting")
    factors = call_handler(np.linalg.qr, a, "reduced" if mode == "economic" else "complete")
    return (factors.R,) if mode == "r" else tuple(factors)


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
    "i0": bessel_i(0),
    "i1": bessel_i(1),
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
}
_LINALG: dict[str, Callable[..., Any]] = {
    "solve": linalg_solve,
    "cholesky": linalg_cholesky,
    "solve_triangular": solve_triangular,
    "cho_factor": cho_factor,
    "cho_solve": cho_solve,
    "inv": linalg_inv,
    "det": linalg_det,
    "norm": linalg_norm,
    "eigh": linalg_eigh,
    "eigvalsh": linalg_eigvalsh,
    "svd": linalg_svd,
    "svdvals": linalg_svdvals,
    "pinv": linalg_pinv,
    "lstsq": linalg_lstsq,
    "qr": linalg_qr,
}


def _transform(handler: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a transform of scipy.fft: the same as NumPy's, with keywords that say how it is computed."""
    default: Any = (
        -1 if name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") else (-2, -1) if "2" in name else None
    )

    def transform(
        x: Any,
        n: Any = None,
        axis: Any = default,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        plan: Any = None,
        s: Any = None,
        axes: Any = NO_VALUE,
    ) -> Any:
        return handler(x, n if s is None else s, axis if axes is NO_VALUE else axes, norm)

    return transform


def _register() -> None:
    """Register the functions; without SciPy they cannot occur in captured code."""
    try:
        import scipy.fft  # noqa: PLC0415 optional, and slow to import
        import scipy.linalg  # noqa: PLC0415
        import scipy.special  # noqa: PLC0415
    except ImportError:
        return
    for name, handler in _SPECIAL.items():
        covers(getattr(scipy.special, name))(handler)
    for name, handler in _LINALG.items():
        covers(getattr(scipy.linalg, name))(handler)
    for name, handler in TRANSFORMS.items():
        covers(getattr(scipy.fft, name))(_transform(handler, name))
    covers(scipy.special.exp10)(lambda x: call_handler(np.power, 10.0, x))
    for name in ("exp2", "cbrt", "sinc", "log1p", "expm1"):
        function = getattr(scipy.special, name)
        if function is not getattr(np, name):
            covers(function)(functools.partial(call_handler, getattr(np, name)))


LATE.append(_register)
