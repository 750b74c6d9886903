"""Linear algebra: solve, inv, det, slogdet, cholesky, matrix_power.

Previous: products.py; next: scalar.py. Norms are in reduce.py, products in products.py.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from tracegrad import ops
from tracegrad.capture.numpy_api.common import covers, reshape, spread
from tracegrad.capture.numpy_api.products import matmul
from tracegrad.capture.tracer import Tracer, apply, asarray, broadcast_shapes, call_handler, cast_to, unsupported
from tracegrad.ir.types import F64, is_inexact


def _inexact(*operands: Any) -> list[Tracer]:
    tracers = [asarray(v) for v in operands]
    dtype = np.result_type(*[t.dtype for t in tracers])
    dtype = dtype if is_inexact(dtype) else F64
    return [cast_to(t, dtype) for t in tracers]


def square(tracer: Tracer) -> Tracer:
    """Check that an array is a stack of square matrices."""
    if tracer.ndim < 2:
        raise LinAlgError(f"{tracer.ndim}-dimensional array given. Array must be at least two-dimensional")
    if tracer.type.shape[-1] != tracer.type.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return tracer


def solve_with(op: Any, a: Tracer, b: Tracer, vector: bool, **attrs: Any) -> Tracer:
    """Apply a solving op to stacks of matrices and of right sides (`vector`: the last axis of b is the system)."""
    square(a)
    column = reshape(b, (*b.type.shape, 1)) if vector else b
    if column.type.shape[-2] != a.type.shape[-1]:
        raise ValueError(
            f"solve: the right side has {column.type.shape[-2]} rows, the matrix has {a.type.shape[-1]} columns"
        )
    lead = broadcast_shapes(a.type.shape[:-2], column.type.shape[:-2])
    a = spread(a, (*lead, *a.type.shape[-2:]))
    column = spread(column, (*lead, *column.type.shape[-2:]))
    result: Tracer = apply(op, a, column, **attrs)
    return reshape(result, result.type.shape[:-1]) if vector else result


@covers(np.linalg.solve)
def solve(a: Any, b: Any) -> Tracer:
    matrix, right = _inexact(a, b)
    return solve_with(ops.solve, matrix, right, right.ndim == 1)


@covers(np.linalg.inv)
def inv(a: Any) -> Tracer:
    (matrix,) = _inexact(a)
    return apply(ops.inv, square(matrix))  # type: ignore[no-any-return]


@covers(np.linalg.det)
def det(a: Any) -> Tracer:
    (matrix,) = _inexact(a)
    return apply(ops.det, square(matrix))  # type: ignore[no-any-return]


@covers(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    (matrix,) = _inexact(a)
    sign, logabsdet = apply(ops.slogdet, square(matrix))
    return type(np.linalg.slogdet(np.eye(1)))(sign, logabsdet)


@covers(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Tracer:
    (matrix,) = _inexact(a)
    if upper:
        matrix = call_handler(np.conjugate, call_handler(np.swapaxes, square(matrix), -1, -2))
    factor: Tracer = apply(ops.cholesky, square(matrix))
    return call_handler(np.conjugate, call_handler(np.swapaxes, factor, -1, -2)) if upper else factor


@covers(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Tracer:
    """Multiply by repeated squaring."""
    matrix = square(asarray(a))
    power = operator.index(n)
    if power < 0:
        matrix, power = inv(matrix), -power
    result: Tracer | None = None
    if power == 0:
        return spread(asarray(np.eye(operator.index(matrix.shape[-1]), dtype=matrix.dtype)), matrix.type.shape).copy()
    factor = matrix
    while power:
        if power & 1:
            result = factor if result is None else matmul(result, factor)
        power >>= 1
        if power:
            factor = matmul(factor, factor)
    assert result is not None, "the power is positive"
    return result.copy()


@covers(np.linalg.tensorinv, np.linalg.tensorsolve)
def refuse_tensors(*args: Any, **kwargs: Any) -> Any:
    raise unsupported("np.linalg.tensorsolve or tensorinv", "reshape to matrices and use np.linalg.solve")


@covers(np.linalg.lstsq, np.linalg.pinv)
def refuse_least_squares(*args: Any, **kwargs: Any) -> Any:
    raise unsupported(
        "np.linalg.lstsq or pinv of traced values", "solve the normal equations: np.linalg.solve(A.T @ A, A.T @ b)"
    )


@covers(
    np.linalg.eig, np.linalg.eigvals, np.linalg.eigh, np.linalg.eigvalsh, np.linalg.svd, np.linalg.svdvals, np.linalg.qr
)
def refuse_factorizations(*args: Any, **kwargs: Any) -> Any:
    raise unsupported(
        "an eigenvalue, singular value or QR factorization of traced values",
        "use np.linalg.cholesky, solve, slogdet or np.linalg.norm(x, 'fro') where they serve",
    )


@covers(np.linalg.matrix_rank, np.linalg.cond)
def refuse_rank(*args: Any, **kwargs: Any) -> Any:
    raise unsupported("np.linalg.matrix_rank or cond of traced values", "compute it outside the function")
