"""Linear algebra: solve, inv, det, slogdet, cholesky, matrix_power, eigenvalues, singular values, QR, least squares.

Previous: products.py; next: fourier.py. Norms are in reduce.py, products in products.py.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from tracegrad import ops
from tracegrad.capture.numpy_api.common import NO_VALUE, covers, known_scalar, reshape, spread
from tracegrad.capture.numpy_api.products import matmul
from tracegrad.capture.sizes import decide
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


@covers(np.linalg.tensorinv)
def tensorinv(a: Any, ind: Any = 2) -> Tracer:
    """Return the inverse of the map from the last axes to the first `ind` ones."""
    tensor, count = asarray(a), operator.index(ind)
    if count <= 0:
        raise ValueError("Invalid ind argument.")
    shape = tensor.type.shape
    size = math.prod(shape[count:])
    return reshape(inv(reshape(tensor, (size, size))), (*shape[count:], *shape[:count]))


@covers(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tracer:
    """Return x with tensordot(a, x, x.ndim) = b; `axes` of a are moved to its end first."""
    tensor, right = asarray(a), asarray(b)
    if axes is not None:
        places = range(tensor.ndim - len(axes), tensor.ndim)
        tensor = asarray(call_handler(np.moveaxis, tensor, tuple(axes), tuple(places)))
    shape = tensor.type.shape[right.ndim :]
    size = math.prod(shape)
    flat = solve(reshape(tensor, (size, size)), reshape(right, (right.type.size,)))
    return reshape(flat, shape)


@covers(np.linalg.eig, np.linalg.eigvals)
def refuse_general_eigenvalues(*args: Any, **kwargs: Any) -> Any:
    raise unsupported(
        "np.linalg.eig or eigvals of traced values",
        "use np.linalg.eigh for symmetric matrices, np.linalg.svd for others where it serves",
    )


# ---- eigenvalues

_EIGH_RESULT: Any = type(np.linalg.eigh(np.eye(1)))
_SVD_RESULT: Any = type(np.linalg.svd(np.eye(1)))
_QR_RESULT: Any = type(np.linalg.qr(np.eye(1)))


@covers(np.linalg.eigh)
def eigh(a: Any, UPLO: Any = "L") -> Any:
    """Return eigenvalues and eigenvectors of Hermitian matrices."""
    (matrix,) = _inexact(a)
    triangle = UPLO.upper()
    if triangle not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return _EIGH_RESULT(*apply(ops.eigh, square(matrix), lower=triangle == "L"))


@covers(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: Any = "L") -> Tracer:
    return eigh(a, UPLO).eigenvalues  # type: ignore[no-any-return]


# ---- singular values


def _matrix(a: Any) -> Tracer:
    (matrix,) = _inexact(a)
    if matrix.ndim < 2:
        raise LinAlgError(f"{matrix.ndim}-dimensional array given. Array must be at least two-dimensional")
    return matrix


def _excess(matrix: Tracer) -> int:
    """Return the sign of rows minus columns; decided by the sizes of this call where they are symbolic."""
    difference = matrix.type.shape[-2] - matrix.type.shape[-1]
    return 0 if decide(difference, "==") else 1 if decide(difference, ">") else -1


def _adjoint(matrix: Tracer) -> Any:
    return call_handler(np.conjugate, call_handler(np.swapaxes, matrix, -1, -2))


@covers(np.linalg.svd)
def svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, hermitian: Any = False) -> Any:
    """Return singular values, and vectors on demand."""
    if hermitian:
        return _hermitian_svd(a, compute_uv)
    matrix = _matrix(a)
    u, s, vh = apply(ops.svd, matrix, full_matrices=bool(full_matrices and compute_uv), excess=_excess(matrix))
    return _SVD_RESULT(u, s, vh) if compute_uv else s


def _hermitian_svd(a: Any, compute_uv: Any) -> Any:
    """Return singular values and vectors from eigenvalues, sorted by their moduli."""
    values, vectors = eigh(a)
    sizes = call_handler(np.absolute, values)
    order = call_handler(np.flip, call_handler(np.argsort, sizes), -1)
    s = call_handler(np.take_along_axis, sizes, order, -1)
    if not compute_uv:
        return s
    u = call_handler(np.take_along_axis, vectors, call_handler(np.expand_dims, order, -2), -1)
    signs = call_handler(np.sign, call_handler(np.take_along_axis, values, order, -1))
    return _SVD_RESULT(u, s, _adjoint(call_handler(np.multiply, u, call_handler(np.expand_dims, signs, -2))))


@covers(np.linalg.svdvals)
def svdvals(x: Any, /) -> Tracer:
    return svd(x, compute_uv=False)  # type: ignore[no-any-return]


@covers(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """Return norm(x, p) * norm(inv(x), p)."""
    matrix = _matrix(x)
    if p is None or p in (2, -2):
        s = svdvals(matrix)
        first, last = s[..., 0], s[..., -1]
        return call_handler(np.divide, last, first) if p == -2 else call_handler(np.divide, first, last)
    norms = [call_handler(np.linalg.norm, m, p, (-2, -1)) for m in (matrix, inv(matrix))]
    return call_handler(np.multiply, *norms)


def _tolerance(matrix: Tracer) -> Any:
    """Return the greater size times the spacing of numbers."""
    rows, columns = matrix.shape[-2:]
    greater = rows if decide(matrix.type.shape[-2] - matrix.type.shape[-1], ">") else columns
    return call_handler(np.multiply, greater, float(np.finfo(matrix.dtype).eps))


@covers(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: Any = False, *, rtol: Any = None) -> Any:
    """Return the number of singular values above a tolerance."""
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if asarray(A).ndim < 2:
        return call_handler(int, call_handler(np.any, call_handler(np.not_equal, A, 0)))
    matrix = _matrix(A)
    s = svd(matrix, compute_uv=False, hermitian=hermitian)
    if tol is None:
        factor = _tolerance(matrix) if rtol is None else _per_matrix(rtol)
        tol = call_handler(np.multiply, call_handler(np.max, s, -1, keepdims=True), factor)
    else:
        tol = _per_matrix(tol)
    return call_handler(np.count_nonzero, call_handler(np.greater, s, tol), -1)


def _per_matrix(value: Any) -> Any:
    return call_handler(np.expand_dims, value, -1) if np.ndim(value) or isinstance(value, Tracer) else value


# ---- QR factors


@covers(np.linalg.qr)
def qr(a: Any, mode: Any = "reduced") -> Any:
    """Return factors of matrices; of wide ones, the first columns are factored, and Q turns the others."""
    matrix = _matrix(a)
    excess = _excess(matrix)
    if mode not in ("reduced", "r") and not (mode == "complete" and excess <= 0):
        raise unsupported(f"np.linalg.qr with mode={mode!r} of traced values", "use mode='reduced' or mode='r'")
    if excess >= 0:
        q, r = apply(ops.qr, matrix)
    else:
        rows = matrix.shape[-2]
        q, left = apply(ops.qr, matrix[..., :rows])
        r = call_handler(np.concatenate, [left, matmul(_adjoint(q), matrix[..., rows:])], -1)
    return r if mode == "r" else _QR_RESULT(q, r)


# ---- least squares


@covers(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: Any = False, *, rtol: Any = NO_VALUE) -> Tracer:
    """Return pseudoinverses."""
    matrix = _matrix(a)
    if rcond is not None and rtol is not NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None:
        rcond = 1e-15 if rtol is NO_VALUE else _tolerance(matrix) if rtol is None else rtol
    if hermitian:
        lower = call_handler(np.tril, matrix)
        matrix = call_handler(np.add, lower, _adjoint(call_handler(np.tril, matrix, -1)))
    return _pinv(matrix, rcond)


def _pinv(matrix: Tracer, rcond: Any) -> Tracer:
    cutoff = spread(cast_to(asarray(rcond), F64), matrix.type.shape[:-2])
    return apply(ops.pinv, matrix, cutoff)  # type: ignore[no-any-return]


@covers(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, ...]:
    """Return solution, squared residuals, rank and singular values; residuals are NaN when the rank is deficient."""
    matrix, right = _inexact(a, b)
    if matrix.ndim != 2:
        raise LinAlgError(f"{matrix.ndim}-dimensional array given. Array must be two-dimensional")
    if right.ndim not in (1, 2) or right.type.shape[0] != matrix.type.shape[0]:
        raise LinAlgError("Incompatible dimensions")
    if rcond is None:
        rcond = _tolerance(matrix)
    elif known_scalar(rcond) is not None and known_scalar(rcond) < 0:
        rcond = float(np.finfo(matrix.dtype).eps)
    solution = matmul(_pinv(matrix, rcond), right)
    s = svdvals(matrix)
    limit = call_handler(np.multiply, call_handler(np.max, s), rcond)
    rank = cast_to(asarray(call_handler(np.count_nonzero, call_handler(np.greater, s, limit))), np.dtype(np.intc))
    return solution, _residuals(matrix, right, solution, rank), rank, s


def _residuals(matrix: Tracer, right: Tracer, solution: Tracer, rank: Any) -> Any:
    """Return the sums of squared residuals of the right sides, as NumPy does for a matrix of full rank."""
    dtype = np.finfo(matrix.dtype).dtype
    if _excess(matrix) <= 0:
        return asarray(np.zeros(0, dtype))
    rest = call_handler(np.absolute, call_handler(np.subtract, right, matmul(matrix, solution)))
    sums = call_handler(np.sum, call_handler(np.square, rest), 0, keepdims=right.ndim == 1)
    full_rank = call_handler(np.equal, rank, matrix.shape[1])
    return call_handler(np.where, full_rank, sums, dtype.type(np.nan))


@covers(np.polyfit)
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None, cov: Any = False) -> Any:
    """Return the coefficients of the polynomial of least squares, as NumPy: from columns of length 1."""
    if cov:
        raise unsupported("np.polyfit with cov of traced values", "compute the covariance in the function")
    points, values = _inexact(x, y)
    if rcond is None:
        rcond = call_handler(np.multiply, points.shape[0], float(np.finfo(points.dtype).eps))
    columns = call_handler(np.vander, points, operator.index(deg) + 1)
    if w is not None:
        weights = asarray(w)
        columns = call_handler(np.multiply, columns, call_handler(np.expand_dims, weights, 1))
        values = call_handler(
            np.multiply, values, call_handler(np.expand_dims, weights, 1) if values.ndim == 2 else weights
        )
    lengths = call_handler(np.sqrt, call_handler(np.sum, call_handler(np.square, columns), 0))
    solution, *rest = lstsq(call_handler(np.divide, columns, lengths), values, rcond)
    scale = call_handler(np.expand_dims, lengths, 1) if values.ndim == 2 else lengths
    coefficients = call_handler(np.divide, solution, scale)
    return (coefficients, *rest, rcond) if full else coefficients
