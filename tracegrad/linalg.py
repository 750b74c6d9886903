"""torch.linalg's names.

Reads and writes tensors. Everything is composed of operations of the op table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tracegrad.autograd.function import Function
from tracegrad.runtime import dtypes, reducing
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.layout import common_shape
from tracegrad.runtime.operate import cast, where
from tracegrad.runtime.shaping import cat, gather, stack, transpose
from tracegrad.runtime.tape import apply_composition, as_torch_calls, ending_in, retitled, shielding
from tracegrad.runtime.tensor import Tensor, method, refuse_in, wrap
from tracegrad.runtime.traced import call_with_traced_values

matmul = reducing.matmul
vector_norm = reducing.vector_norm
vecdot = reducing.vecdot


class LinAlgError(np.linalg.LinAlgError, RuntimeError):
    """A matrix has no inverse or factors."""


@contextmanager
def _saying(text: str) -> Iterator[None]:
    """Turn NumPy's errors into torch's."""
    try:
        yield
    except np.linalg.LinAlgError:
        raise LinAlgError(text) from None


def _check_matrices(a: Tensor, name: str) -> None:
    if a.dim() < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")


def _check_floats(a: Tensor, name: str) -> None:
    _check_matrices(a, name)
    if dtypes.category(a._a.dtype) < 2:
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {a.dtype.title}")


def _check_square(a: Tensor, name: str) -> None:
    _check_matrices(a, name)
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices"
        )
    if not (a.is_floating_point() or a.is_complex()):
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {a.dtype!r}")


@as_torch_calls
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Any:
    """Return the cross product of the vectors along an axis, of broadcast shapes."""
    return reducing.cross(input, other, dim)


_INV = Composition("LinalgInvEx", np.linalg.inv)
_DET = Composition("LinalgDet", np.linalg.det)
_SLOGDET = Composition("LinalgSlogdet", lambda x: tuple(np.linalg.slogdet(x)))
_SOLVE = Composition("LinalgSolveEx", np.linalg.solve)
_SOLVE_VECTORS = Composition("LinalgSolveEx", lambda a, b: np.linalg.solve(a, b[..., None])[..., 0])
_CHOLESKY = Composition("LinalgCholeskyEx", np.linalg.cholesky)


def inv(A: Tensor) -> Any:
    """Return the inverse of each matrix; LinAlgError when singular."""
    _check_square(A, "inv")
    with _saying("linalg.inv: The inversion could not be completed because the input matrix is singular."):
        return apply_composition(_INV, (), [A])


def det(A: Tensor) -> Any:
    """Return the determinant of each matrix."""
    _check_square(A, "det")
    return apply_composition(_DET, (), [A])


class SlogdetResult(NamedTuple):
    """Sign and log of the modulus of a determinant."""

    sign: Any
    logabsdet: Any


def slogdet(A: Tensor) -> SlogdetResult:
    """Return sign and log of the modulus of the determinant of each matrix."""
    _check_square(A, "slogdet")
    return SlogdetResult(*apply_composition(_SLOGDET, (), [A]))


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Any:
    """Return x with A @ x = B (x @ A = B when not left); B has vectors or matrices."""
    _check_square(A, "solve")
    if A._a.dtype != B._a.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {A.dtype.title} and B of type "
            f"{B.dtype.title} instead"
        )
    if not left:
        return transpose(solve(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1)
    vectors = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    if B.shape[-1 if vectors else -2] != A.shape[-1]:
        sizes = f"{A.shape[-2]}x{A.shape[-1]} and {'x'.join(map(str, B.shape[-2:]))}"
        raise RuntimeError(f"linalg.solve: Incompatible shapes of A and B for the equation AX = B ({sizes})")
    with _saying("linalg.solve: The solver failed because the input matrix is singular."):
        return _solve(A, B)


def _solve(A: Tensor, B: Tensor) -> Any:
    if B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1]):
        return apply_composition(_SOLVE_VECTORS, (), [A, B])
    stack = common_shape([tuple(A.shape[:-2]), tuple(B.shape[:-2])])
    wide_a = A if A.shape[:-2] == stack else A.expand(*stack, *A.shape[-2:])
    wide_b = B if B.shape[:-2] == stack else B.expand(*stack, *B.shape[-2:])
    return apply_composition(_SOLVE, (), [wide_a, wide_b])


def cholesky(A: Tensor, *, upper: bool = False) -> Any:
    """Return the lower (or upper) triangular factor of each positive definite matrix.

    As in torch, a symmetric matrix is expected: the gradient is symmetric.
    """
    _check_square(A, "cholesky")
    symmetric = (A + _adjoint(A)) * 0.5
    with _saying(
        "linalg.cholesky: The factorization could not be completed because the input is not positive-definite."
    ):
        factor = apply_composition(_CHOLESKY, (), [symmetric])
    return _adjoint(factor) if upper else factor


def _adjoint(x: Tensor) -> Any:
    return transpose(x, -2, -1).conj()


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return a vector norm, or a matrix norm when ord is given for a matrix or dim has two axes."""
    A = A if dtype is None else cast(A, dtypes.numpy_dtype(dtype))
    if ord is not None and dim is None and A.dim() not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D."
        )
    if isinstance(ord, str):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim)
    if ord is None or (dim is None and A.dim() == 1) or isinstance(dim, int):
        return vector_norm(A, 2 if ord is None else ord, dim, keepdim)
    return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim)


def matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    """Return a norm of each matrix: "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""
    _check_matrices(A, "matrix_norm")
    if (ord not in ("fro", "nuc")) if isinstance(ord, str) else abs(ord) not in (1, 2, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    rows, columns = (d % A.dim() for d in dim)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        moved = A if (rows, columns) == (A.dim() - 2, A.dim() - 1) else A.movedim((rows, columns), (-2, -1))
        values = svdvals(moved)
        found = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord == 2 else values.amin(-1)
        if not keepdim:
            return found
        first, second = sorted((rows, columns))
        return found.unsqueeze(first).unsqueeze(second)
    along, over = (columns, rows) if abs(ord) == 1 else (rows, columns)
    sums = A.abs().sum(over, keepdim=keepdim)
    along -= not keepdim and over < along
    return sums.amax(along, keepdim=keepdim) if ord > 0 else sums.amin(along, keepdim=keepdim)


# ---- factorizations


def _hermitian(x: Any) -> Any:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


_EIGH = Composition("LinalgEigh", lambda x: tuple(np.linalg.eigh(_hermitian(x))))
_EIGVALSH = Composition("LinalgEigh", lambda x: np.linalg.eigvalsh(_hermitian(x)))
_SVD = Composition("LinalgSvd", lambda full, x: tuple(np.linalg.svd(x, full_matrices=full)))
_SVDVALS = Composition("LinalgSvd", np.linalg.svdvals)
_QR = Composition("LinalgQr", lambda x: tuple(np.linalg.qr(x)))
_PINV = Composition("LinalgPinv", lambda rcond, hermitian, x: np.linalg.pinv(x, rcond, hermitian))


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


def eigh(A: Tensor, UPLO: str = "L") -> EighResult:
    """Return eigenvalues and eigenvectors of each symmetric (Hermitian) matrix."""
    _check_square(A, "eigh")
    return EighResult(*apply_composition(_EIGH, (), [_mirrored(A, UPLO)]))


def _mirrored(a: Tensor, triangle: str) -> Any:
    """Return the values of a with one triangle mirrored; the gradient goes to the whole matrix, as in torch."""
    part = np.tril(a._a) if triangle == "L" else np.triu(a._a)
    strict = np.tril(a._a, -1) if triangle == "L" else np.triu(a._a, 1)
    whole = part + np.conj(np.swapaxes(strict, -1, -2))
    return a if np.array_equal(whole, a._a) else a + wrap(whole - a._a)


def eigvalsh(A: Tensor, UPLO: str = "L") -> Any:
    """Return the eigenvalues of each symmetric matrix."""
    _check_square(A, "eigvalsh")
    return apply_composition(_EIGVALSH, (), [_mirrored(A, UPLO)])


class SvdResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Any
    S: Any
    Vh: Any


def svd(A: Tensor, full_matrices: bool = True) -> SvdResult:
    """Return the singular value decomposition of each matrix.

    With full_matrices the vectors beyond the smaller size span a space; only functions of that have a derivative.
    """
    _check_floats(A, "svd")
    return SvdResult(*apply_composition(_SVD, (full_matrices,), [A]))


@shielding(0)
def svdvals(A: Tensor) -> Any:
    """Return the singular values of each matrix."""
    _check_floats(A, "svd")
    return apply_composition(_SVDVALS, (), [A])


class QrResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Any
    R: Any


def qr(A: Tensor, mode: str = "reduced") -> QrResult:
    """Return the QR decomposition of each matrix; mode is "reduced", or "complete" for square matrices."""
    _check_floats(A, "qr")
    if mode == "complete" and A.shape[-2] > A.shape[-1]:
        if A.requires_grad:
            raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
        return QrResult(*(wrap(np.ascontiguousarray(x)) for x in np.linalg.qr(A._a, mode="complete")))
    return QrResult(*apply_composition(_QR, (), [A]))


def pinv(A: Tensor, *, rcond: float | None = None, hermitian: bool = False) -> Any:
    """Return the pseudoinverse of each matrix; singular values up to rcond times the greatest count as zero."""
    if A.dim() < 2 or dtypes.category(A._a.dtype) < 2:
        raise RuntimeError(
            f"linalg.pinv({A.dtype.title}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of float, "
            "double, cfloat or cdouble types"
        )
    if rcond is None:
        rcond = max(A.shape[-2:]) * float(np.finfo(A._a.dtype).eps)
    return apply_composition(_PINV, (rcond, hermitian), [A])


def matrix_rank(A: Tensor) -> Tensor:
    """Return the number of singular values that are not negligible."""
    if A.dim() < 2:
        raise RuntimeError("torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
    return wrap(np.asarray(np.linalg.matrix_rank(A._a), np.int64))


def cond(A: Tensor) -> Any:
    """Return the greatest singular value divided by the smallest."""
    if A.dim() < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    values = svdvals(A)
    return retitled(values[..., 0] / values[..., -1], "SqueezeBackward1")


def matrix_power(A: Tensor, n: int) -> Any:
    """Return a power of each square matrix."""
    _check_square(A, "matrix_power")
    if n == 0:
        return wrap(np.broadcast_to(np.eye(A.shape[-1], dtype=A._a.dtype), A.shape).copy())
    base = inv(A) if n < 0 else A
    result = None
    for bit in bin(abs(n))[2:]:
        result = (
            base if result is None else matmul(result, result) if bit == "0" else matmul(matmul(result, result), base)
        )
    return result


#: coefficients of the numerator of exp's Padé approximant of degree 13, divided by the first
_PADE = tuple(
    math.factorial(26 - k) * math.factorial(13) / (math.factorial(26) * math.factorial(k) * math.factorial(13 - k))
    for k in range(14)
)
#: norm up to which that approximant is exact in double precision
_PADE_NORM = 5.371920351148152


def _exponential(squarings: int, a: Any) -> Any:
    """Return the exponential of matrices by scaling and squaring.

    Source: Higham, The scaling and squaring method for the matrix exponential revisited, 2005.
    """
    a = a * 0.5**squarings
    one = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    second = a @ a
    powers = [one, second, second @ second]
    powers.append(powers[2] @ second)

    def combined(first: int) -> Any:
        low, high = (
            sum(_PADE[first + 2 * (k + start)] * powers[k] for k in range(begin, stop))
            for start, begin, stop in ((0, 0, 4), (3, 1, 4))
        )
        return low + powers[3] @ high

    even, odd = combined(0), a @ combined(1)
    result = np.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        result = result @ result
    return result


_EXPONENTIAL = Composition("LinalgMatrixExp", _exponential)


def matrix_exp(A: Tensor) -> Any:
    """Return the exponential of each square matrix."""
    _check_square(A, "matrix_exp")
    norm = float(np.abs(A._a).sum(-2).max(initial=0.0))
    squarings = math.ceil(math.log2(norm / _PADE_NORM)) if _PADE_NORM < norm < math.inf else 0
    return apply_composition(_EXPONENTIAL, (squarings,), [A])


def multi_dot(tensors: Any) -> Any:
    """Return the product of several matrices."""
    *factors, last = tensors
    product = factors[0]
    for other in factors[1:]:
        product = matmul(product, other)
    return retitled(matmul(product, last), "ViewBackward0")


@ending_in("LinalgSolveTriangularBackward0")
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Return x with A @ x = B (x @ A = B when not left), of a triangular matrix; its other triangle is not read."""
    _check_square(A, "solve_triangular")
    part: Any = A.triu() if upper else A.tril()
    if unitriangular:
        strict = A.triu(1) if upper else A.tril(-1)
        part = strict + wrap(np.eye(A.shape[-1], dtype=A._a.dtype))
    return solve(part, B, left=left)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Return the diagonal of each matrix: a view."""
    return A.diagonal(offset, dim1, dim2)


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors in columns."""

    eigenvalues: Any
    eigenvectors: Any


class _Eig(Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = (wrap(np.asarray(x, A._a.dtype)) for x in np.linalg.eig(A._a))
        ctx.save_for_backward(values, vectors)
        ctx.save_for_forward(values, vectors)
        return values, vectors

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        values, v = ctx.saved_tensors
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
        on_diagonal = wrap(np.eye(v.shape[-1], dtype=np.bool_))
        inner = solve(v, matmul(tangent, v))
        moved = matmul(v, (inner / gaps.masked_fill(on_diagonal, 1.0)).masked_fill(on_diagonal, 0.0))
        moved = moved - v * _real_diagonal(matmul(_adjoint(v), moved)).unsqueeze(-2)
        return inner.diagonal(0, -2, -1), moved

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> Any:
        ct_values, ct_vectors = cts
        values, v = ctx.saved_tensors
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
        on_diagonal = wrap(np.eye(v.shape[-1], dtype=np.bool_))
        inner = matmul(_adjoint(v), ct_vectors)
        # vectors have norm 1, and their phase is free
        inner = inner - matmul(_adjoint(v), v * _real_diagonal(inner).unsqueeze(-2))
        inner = (inner / gaps.masked_fill(on_diagonal, 1.0).conj()).masked_fill(on_diagonal, 0.0)
        inner = inner + ct_values.diag_embed()
        return solve(_adjoint(v), matmul(inner, _adjoint(v)))


def _real_diagonal(x: Any) -> Any:
    return x.diagonal(0, -2, -1).real.to(x.dtype)


def eig(A: Tensor) -> EigResult:
    """Return complex eigenvalues and eigenvectors of norm 1 of each matrix.

    The gradient is that of functions that do not depend on the phase of the vectors. Source: Boeddeker et al., 2017.
    """
    _check_square(A, "eig")
    return EigResult(*_Eig.apply(cast(A, dtypes.complex_of(A._a.dtype)) if not A.is_complex() else A))


def eigvals(A: Tensor) -> Any:
    """Return the complex eigenvalues of each matrix."""
    return eig(A).eigenvalues


def logdet(A: Tensor) -> Any:
    """Return the logarithm of the determinant of each matrix: NaN where that is negative."""
    sign, size = slogdet(A)
    return where(sign < 0, wrap(np.array(np.nan, size._a.dtype)), size)


@ending_in("CholeskySolveBackward0")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Any:
    """Return x with A @ x = B, from the triangular factor of A."""
    lower = _adjoint(L) if upper else L
    return solve_triangular(_adjoint(lower), solve_triangular(lower, B, upper=False), upper=True)


@ending_in("CholeskyInverseBackward0")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Any:
    """Return the inverse of A from its triangular factor."""
    return cholesky_solve(wrap(np.eye(L.shape[-1], dtype=L._a.dtype)).expand(L.shape), L, upper)


class _Svd(NamedTuple):
    """Singular vectors and values, as torch.svd has them: V in columns."""

    U: Any
    S: Any
    V: Any


def svd_in_columns(input: Tensor, some: bool = True, compute_uv: bool = True) -> _Svd:
    """Return what svd gives, with V in place of its adjoint."""
    u, s, vh = svd(input, full_matrices=not some)
    if not compute_uv:
        u, vh = wrap(np.zeros_like(u._a)), wrap(np.zeros_like(vh._a))
    return _Svd(u, s, _adjoint(vh))


def qr_of(input: Tensor, some: bool = True) -> QrResult:
    """Return what qr gives; `some` stands for its reduced mode."""
    return qr(input, "reduced" if some else "complete")


@ending_in("CholeskyBackward0")
def cholesky_of(input: Tensor, upper: bool = False) -> Any:
    """Return what cholesky gives."""
    return cholesky(input, upper=upper)


for _name, _function in (
    ("cholesky", cholesky_of), ("cholesky_inverse", cholesky_inverse), ("cholesky_solve", cholesky_solve), ("det", det),
    ("inverse", inv), ("logdet", logdet), ("matrix_power", matrix_power), ("pinverse", pinv), ("qr", qr_of),
    ("slogdet", slogdet), ("svd", svd_in_columns),
):  # fmt: skip
    method(_name)(_function)


class LstsqResult(NamedTuple):
    """The solution, and what NumPy and torch say beside it."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """Return x for which the norm of A @ x - B is least; A has full rank.

    Raises:
        LinAlgError: the rank of a matrix is not full.
    """
    if A.dim() < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if B.dim() >= A.dim():
        common_shape([tuple(A.shape[:-2]), tuple(B.shape[:-2])])
    rows, columns = A.shape[-2:]
    rank = np.asarray(np.linalg.matrix_rank(A._a, rtol=rcond), np.int64)
    if (rank < min(rows, columns)).any():
        raise LinAlgError("linalg.lstsq: the matrix does not have full rank")
    solution = retitled(matmul(pinv(A), B), "LinalgLstsqBackward0")
    none = wrap(np.empty(0, A._a.dtype))
    residuals: Any = none
    if rows > columns:
        residuals = (matmul(A, solution) - B).abs().square().sum(-2)
    return LstsqResult(solution, residuals, wrap(rank), none)


# ---- LU


class _Elimination(Function):
    """Factors of square matrices that need no exchange of rows.

    Source: the pullback of an LU decomposition, M. Giles, 2008, as torch has it.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> tuple[Tensor, Tensor]:
        packed = _eliminated(A._a)
        size = packed.shape[-1]
        lower, upper = wrap(np.tril(packed, -1) + np.eye(size, dtype=packed.dtype)), wrap(np.triu(packed))
        ctx.save_for_backward(lower, upper)
        return lower, upper

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> Any:
        lower, upper = ctx.saved_tensors
        inner = matmul(_adjoint(lower), cts[0]).tril(-1) + matmul(cts[1], _adjoint(upper)).triu()
        right = solve_triangular(_adjoint(upper), inner, upper=False, left=False)
        return solve_triangular(_adjoint(lower), right, upper=True, unitriangular=True)


def _eliminated(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return L below the diagonal, whose own diagonal is 1, and U above, of matrices eliminated without exchanges."""
    made = a.copy()
    for k in range(min(a.shape[-2:]) - 1):
        pivot = made[..., k : k + 1, k]
        made[..., k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        made[..., k + 1 :, k + 1 :] -= made[..., k + 1 :, k, None] * made[..., k, None, k + 1 :]
    return made


def _exchanges(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return for each step of the elimination of a matrix the row that becomes the next one."""
    rows = a.copy()
    found = []
    for k in range(min(a.shape)):
        best = k + int(np.argmax(np.abs(rows[k:, k])))
        found.append(best)
        rows[[k, best]] = rows[[best, k]]
        if rows[k, k] != 0:
            factors = rows[k + 1 :, k] / rows[k, k]
            rows[k + 1 :] -= factors[:, None] * rows[k]
    return np.array(found, np.int64)


def _row_order(pivots: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    order = np.arange(rows)
    for k, best in enumerate(pivots):
        order[[k, best]] = order[[best, k]]
    return order


def _factors(A: Tensor, pivot: bool) -> tuple[Any, Any, Any, Any]:
    """Return exchanges, the order of the rows, and the factors of matrices in that order."""
    if A.dim() < 2:
        raise RuntimeError("linalg.lu: Expected tensor with 2 or more dimensions.")
    rows, columns = A.shape[-2:]
    count, lead = min(rows, columns), A.shape[:-2]
    flat = A._a.reshape(-1, rows, columns)
    exchanges = np.stack([_exchanges(a) if pivot else np.arange(count) for a in flat]).reshape(-1, count)
    order = np.stack([_row_order(p, rows) for p in exchanges])
    ordered = gather(A, -2, wrap(np.broadcast_to(order.reshape(*lead, rows, 1), A.shape).copy()))
    lower, upper = _Elimination.apply(ordered[..., :count, :count])
    if columns > count:
        more = solve_triangular(lower, ordered[..., :, count:], upper=False, unitriangular=True)
        upper = cat([upper, more], -1)
    if rows > count:
        lower = cat([lower, solve_triangular(upper, ordered[..., count:, :], upper=True, left=False)], -2)
    return exchanges.reshape(*lead, count), order.reshape(*lead, rows), lower, upper


def _permutation(order: np.ndarray[Any, Any], dtype: Any) -> Tensor:
    """Return matrices that bring rows from their order back to where they were."""
    return wrap(np.swapaxes(np.eye(order.shape[-1], dtype=dtype)[order], -2, -1).copy())


class LuResult(NamedTuple):
    """Permutation, and factors with A = P @ L @ U."""

    P: Any
    L: Any
    U: Any


class LuFactorResult(NamedTuple):
    """Both factors in one matrix, and for each step the row, counted from 1, that it was exchanged with."""

    LU: Any
    pivots: Any


def lu(A: Tensor, *, pivot: bool = True) -> LuResult:
    """Return P, L, U with A = P @ L @ U: a permutation, 1 on the diagonal of L; P is empty if not `pivot`."""
    _, order, lower, upper = _factors(A, pivot)
    made = _permutation(order, A._a.dtype) if pivot else wrap(np.empty(0, A._a.dtype))
    return LuResult(made, lower, upper)


def lu_factor(A: Tensor, *, pivot: bool = True) -> LuFactorResult:
    """Return the factors of each matrix in one matrix, and the exchanges of rows."""
    exchanges, _, lower, upper = _factors(A, pivot)
    rows, columns = A.shape[-2:]
    below: Any = lower.tril(-1)
    if columns > rows:
        below = cat([below, below.new_zeros(*A.shape[:-2], rows, columns - rows)], -1)
    if rows > columns:
        upper = cat([upper, upper.new_zeros(*A.shape[:-2], rows - columns, columns)], -2)
    return LuFactorResult(below + upper, wrap((exchanges + 1).astype(np.int32)))


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return P, L, U of factors that are in one matrix."""
    rows, columns = LU_data.shape[-2:]
    count = min(rows, columns)
    eye = wrap(np.eye(rows, count, dtype=LU_data._a.dtype))
    steps = (LU_pivots._a.astype(np.int64) - 1).reshape(-1, count)
    order = np.stack([_row_order(p, rows) for p in steps]).reshape(*LU_data.shape[:-2], rows)
    return LuResult(
        _permutation(order, LU_data._a.dtype), LU_data[..., :, :count].tril(-1) + eye, LU_data[..., :count, :].triu()
    )


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Any:
    """Return x with A @ x = B (x @ A = B when not left), of the factors of A, or of its adjoint."""
    p, lower, upper = lu_unpack(LU, pivots)
    if not left:
        return _adjoint(lu_solve(LU, pivots, _adjoint(B), adjoint=not adjoint))
    if adjoint:
        inner = solve_triangular(_adjoint(upper), B, upper=False)
        return matmul(p, solve_triangular(_adjoint(lower), inner, upper=True, unitriangular=True))
    inner = solve_triangular(lower, matmul(_adjoint(p), B), upper=False, unitriangular=True)
    return solve_triangular(upper, inner, upper=True)


def lu_solve_of(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Any:
    """Return x with A @ x = b, of the factors of A."""
    return lu_solve(LU_data, LU_pivots, b)


@method("lu")
def lu_of(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """Return the factors of each matrix in one matrix, the exchanges of rows and, if asked for, zeros."""
    made = lu_factor(A, pivot=pivot)
    return (*made, wrap(np.zeros(A.shape[:-2], np.int32))) if get_infos else tuple(made)


method("matrix_exp")(matrix_exp)

# ---- with information instead of errors


class InverseAndInfo(NamedTuple):
    """Inverses, and 0 for each matrix that has one."""

    inverse: Any
    info: Any


class CholeskyAndInfo(NamedTuple):
    """Triangular factors, and 0 for each matrix that has one."""

    L: Any
    info: Any


class SolutionAndInfo(NamedTuple):
    """Solutions, and 0 for each matrix that has an inverse."""

    result: Any
    info: Any


def _informed(kind: Any, compute: Any, A: Tensor, check_errors: bool) -> Any:
    try:
        return kind(compute(), wrap(np.zeros(A.shape[:-2], np.int32)))
    except LinAlgError:
        if check_errors:
            raise
        return kind(A * math.nan, wrap(np.ones(A.shape[:-2], np.int32)))


def inv_ex(A: Tensor, *, check_errors: bool = False) -> InverseAndInfo:
    """Return the inverse of each matrix, and 0; NaN and 1 if one is singular, unless `check_errors`."""
    made: InverseAndInfo = _informed(InverseAndInfo, lambda: inv(A), A, check_errors)
    return made


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyAndInfo:
    """Return the triangular factor of each matrix, and 0; NaN and 1 if one is not positive definite."""
    made: CholeskyAndInfo = _informed(CholeskyAndInfo, lambda: cholesky(A, upper=upper), A, check_errors)
    return made


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolutionAndInfo:
    """Return x with A @ x = B, and 0; NaN and 1 if a matrix is singular, unless `check_errors`."""
    made: SolutionAndInfo = _informed(SolutionAndInfo, lambda: solve(A, B, left=left), A, check_errors)
    return made


# ---- equations of tensors


def tensorinv(A: Tensor, ind: int = 2) -> Any:
    """Return the inverse of a tensor seen as a matrix whose rows are its first `ind` axes."""
    rows = math.prod(A.shape[:ind])
    if rows * rows != A.numel():
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{A.numel() // max(rows, 1)} != {rows}"
        )
    return inv(A.reshape(rows, rows)).reshape(*A.shape[ind:], *A.shape[:ind])


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Any:
    """Return x with tensordot(A, x, x.ndim) = B."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    return solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(A.shape[B.dim() :])


def vander(x: Tensor, *, N: int | None = None) -> Any:
    """Return the powers of the elements along the last axis, from 0 on, along a new one."""
    return stack([x**k for k in range(x.shape[-1] if N is None else N)], -1)


refuse_in(globals())
call_with_traced_values(
    f for f in tuple(vars().values()) if getattr(f, "__module__", "") in (__name__, reducing.__name__)
)


def _print_as(name: str, *classes: Any) -> None:
    """Have results print their fields as torch does."""

    def text(self: Any) -> str:
        fields = ",\n".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
        return f"torch.return_types.{name}(\n{fields})"

    for each in classes:
        each.__repr__ = text


for _name, _class in (
    ("slogdet", SlogdetResult), ("eigh", EighResult), ("svd", SvdResult), ("qr", QrResult), ("lstsq", LstsqResult),
    ("lu", LuResult), ("lu_factor", LuFactorResult), ("eig", EigResult), ("inv_ex", InverseAndInfo),
    ("cholesky_ex", CholeskyAndInfo), ("solve_ex", SolutionAndInfo),
):  # fmt: skip
    _print_as(f"linalg_{_name}", _class)
_print_as("svd", _Svd)
