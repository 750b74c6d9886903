"""Functions of scipy.linalg and scipy.fft, registered when code that imports them meets a function without handler.

Previous: scipy_special.py; next: scipy_stats.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.numpy_api.common import NO_VALUE, covers
from tracegrad.capture.numpy_api.elementwise import (
    add,
)
from tracegrad.capture.numpy_api.fourier import TRANSFORMS
from tracegrad.capture.numpy_api.linalg import cholesky, det, inv, solve_with
from tracegrad.capture.numpy_api.shape import tril, triu
from tracegrad.capture.tracer import LATE, Tracer, asarray, call_handler, cast_to, unsupported
from tracegrad.ir.types import F64, I64, is_inexact


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


def _register_linalg() -> None:
    import scipy.linalg  # noqa: PLC0415 the user's code has imported it

    for name, handler in _LINALG.items():
        covers(getattr(scipy.linalg, name))(handler)


def _register_fft() -> None:
    import scipy.fft  # noqa: PLC0415

    for name, handler in TRANSFORMS.items():
        covers(getattr(scipy.fft, name))(_transform(handler, name))


LATE["scipy.linalg"] = _register_linalg
LATE["scipy.fft"] = _register_fft
