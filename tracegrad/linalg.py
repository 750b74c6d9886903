"""torch.linalg's names.

Reads and writes tensors. What the op table has (inv, det, slogdet, solve, cholesky) is composed of it; eigh, svd and qr
are Functions whose backward is written in operations of tensors, so that it can be differentiated again.

Sources: Giles, "An extended collection of matrix derivative results", 2008; Walter and Lehmann, "Algorithmic
differentiation of linear algebra functions", 2010 (qr); Townsend, "Differentiating the singular value decomposition",
2016.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tracegrad.autograd.function import Function
from tracegrad.runtime import reducing
from tracegrad.runtime.gradients import enable_grad, grad
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.shaping import cat, transpose, tril
from tracegrad.runtime.tape import apply_composition
from tracegrad.runtime.tensor import Tensor, wrap

matmul = reducing.matmul
vector_norm = reducing.vector_norm
cross = reducing.cross
vecdot = reducing.vecdot
LinAlgError = np.linalg.LinAlgError


def _check_square(a: Tensor, name: str) -> None:
    if a.dim() < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices"
        )
    if not (a.is_floating_point() or a.is_complex()):
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {a.dtype!r}")


_INV = Composition("LinalgInvEx", np.linalg.inv)
_DET = Composition("LinalgDet", np.linalg.det)
_SLOGDET = Composition("LinalgSlogdet", lambda x: tuple(np.linalg.slogdet(x)))
_SOLVE = Composition("LinalgSolveEx", np.linalg.solve)
_CHOLESKY = Composition("LinalgCholeskyEx", np.linalg.cholesky)


def inv(A: Tensor) -> Any:
    """Return the inverse of each matrix; LinAlgError when singular."""
    _check_square(A, "inv")
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
    if not left:
        return transpose(solve(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1)
    if B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1]):
        return apply_composition(_SOLVE, (), [A, B.unsqueeze(-1)]).squeeze(-1)
    stack = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    wide_a = A if A.shape[:-2] == stack else A.expand(*stack, *A.shape[-2:])
    wide_b = B if B.shape[:-2] == stack else B.expand(*stack, *B.shape[-2:])
    return apply_composition(_SOLVE, (), [wide_a, wide_b])


def cholesky(A: Tensor, *, upper: bool = False) -> Any:
    """Return the lower (or upper) triangular factor of each positive definite matrix.

    As in torch, a symmetric matrix is expected: the gradient is symmetric.
    """
    _check_square(A, "cholesky")
    symmetric = (A + _adjoint(A)) * 0.5
    factor = apply_composition(_CHOLESKY, (), [symmetric])
    return _adjoint(factor) if upper else factor


def _adjoint(x: Tensor) -> Any:
    return transpose(x, -2, -1).conj()


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Any:
    """Return a vector norm, or a matrix norm when ord is given for a matrix or dim has two axes."""
    if ord is None or (dim is None and A.dim() == 1) or isinstance(dim, int):
        return vector_norm(A, 2 if ord is None else ord, dim, keepdim)
    return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim)


def matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    """Return a norm of each matrix: "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""
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
    sums = A.abs().sum(over, keepdim=True)
    found = sums.amax(along, keepdim=True) if ord > 0 else sums.amin(along, keepdim=True)
    return found if keepdim else found.squeeze((rows, columns))


# ---- factorizations


def _diagonal(x: Tensor) -> Any:
    """Return vectors as diagonal matrices."""
    return x.unsqueeze(-1) * wrap(np.eye(x.shape[-1], dtype=x._a.dtype))


def _inverse_differences(x: Tensor) -> Any:
    """Return 1 / (x_j - x_i), 0 on the diagonal and between equal values."""
    differences = x.unsqueeze(-2) - x.unsqueeze(-1)
    same = differences == 0
    return (1.0 / differences.masked_fill(same, 1.0)).masked_fill(same, 0.0)


class _Factorization(Function):
    """A function whose forward mode comes from its backward: that is linear, so its own VJP is the JVP."""

    @classmethod
    def jvp(cls, ctx: Any, *tangents: Any) -> Any:
        with enable_grad():
            x = ctx.arguments[0].detach().requires_grad_()
            outs = cls.apply(x)
            cts = [wrap(np.zeros_like(y._a)).requires_grad_() for y in outs]
            (pulled,) = grad(outs, x, cts, create_graph=True)
            return grad(pulled, cts, tangents[0])


class _Eigh(_Factorization):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        values, vectors = np.linalg.eigh(a._a)
        w, v = wrap(values), wrap(vectors)
        ctx.save_for_backward(w, v)
        ctx.set_materialize_grads(False)
        return w, v

    @staticmethod
    def backward(ctx: Any, ct_w: Any, ct_v: Any) -> Any:
        w, v = ctx.saved_tensors
        inner: Any = None
        if ct_v is not None:
            inner = _inverse_differences(w) * matmul(_adjoint(v), ct_v)
        if ct_w is not None:
            diagonal = _diagonal(ct_w)
            inner = diagonal if inner is None else inner + diagonal
        if inner is None:
            return None
        full = matmul(matmul(v, inner.to(v.dtype)), _adjoint(v))
        return (full + _adjoint(full)) * 0.5


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


def eigh(A: Tensor, UPLO: str = "L") -> EighResult:
    """Return eigenvalues and eigenvectors of each symmetric (Hermitian) matrix."""
    _check_square(A, "eigh")
    return EighResult(*_Eigh.apply(_mirrored(A, UPLO)))


def _mirrored(a: Tensor, triangle: str) -> Any:
    """Return the values of a with one triangle mirrored; the gradient goes to the whole matrix, as in torch."""
    part = np.tril(a._a) if triangle == "L" else np.triu(a._a)
    strict = np.tril(a._a, -1) if triangle == "L" else np.triu(a._a, 1)
    whole = part + np.conj(np.swapaxes(strict, -1, -2))
    return a if np.array_equal(whole, a._a) else a + wrap(whole - a._a)


def eigvalsh(A: Tensor, UPLO: str = "L") -> Any:
    """Return the eigenvalues of each symmetric matrix."""
    return eigh(A, UPLO).eigenvalues


class _Svd(_Factorization):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        u, s, vh = (wrap(np.ascontiguousarray(x)) for x in np.linalg.svd(a._a, full_matrices=False))
        ctx.save_for_backward(u, s, vh)
        ctx.set_materialize_grads(False)
        return u, s, vh

    @staticmethod
    def backward(ctx: Any, ct_u: Any, ct_s: Any, ct_vh: Any) -> Any:
        u, s, vh = ctx.saved_tensors
        v = _adjoint(vh)
        total: Any = None
        if ct_s is not None:
            total = matmul(u * ct_s.to(u.dtype).unsqueeze(-2), vh)
        if ct_u is None and ct_vh is None:
            return total
        factor = _inverse_differences(s * s).to(u.dtype)
        wide = s.unsqueeze(-2).to(u.dtype)
        inner = wrap(np.zeros((*s.shape, s.shape[-1]), u._a.dtype))
        if ct_u is not None:
            j = factor * matmul(_adjoint(u), ct_u)
            inner = inner + (j + _adjoint(j)) * wide
        if ct_vh is not None:
            k = factor * matmul(vh, _adjoint(ct_vh))
            inner = inner + transpose(wide, -2, -1) * (k + _adjoint(k))
        if ct_u is not None and u.is_complex():
            phase = matmul(_adjoint(u), ct_u).diagonal(dim1=-2, dim2=-1).imag.to(u.dtype) * 1j
            inner = inner + _diagonal(phase / s.to(u.dtype))
        part = matmul(matmul(u, inner), vh)
        total = part if total is None else total + part
        if ct_u is not None and u.shape[-2] > u.shape[-1]:
            rest = ct_u - matmul(u, matmul(_adjoint(u), ct_u))
            total = total + matmul(rest / wide, vh)
        if ct_vh is not None and v.shape[-2] > v.shape[-1]:
            ct_v = _adjoint(ct_vh)
            rest = ct_v - matmul(v, matmul(vh, ct_v))
            total = total + matmul(u, _adjoint(rest / wide))
        return total


class SvdResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Any
    S: Any
    Vh: Any


def svd(A: Tensor, full_matrices: bool = True) -> SvdResult:
    """Return the singular value decomposition of each matrix.

    With full_matrices the vectors beyond the smaller size carry no gradient; a matrix that is not square is then
    refused when it requires grad.
    """
    if full_matrices and A.shape[-1] != A.shape[-2]:
        if A.requires_grad:
            raise RuntimeError("svd_backward: Setting full_matrices=True is not supported when A requires grad")
        return SvdResult(*(wrap(np.ascontiguousarray(x)) for x in np.linalg.svd(A._a)))
    return SvdResult(*_Svd.apply(A))


def svdvals(A: Tensor) -> Any:
    """Return the singular values of each matrix."""
    return svd(A, full_matrices=False).S


class _Qr(_Factorization):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        q, r = (wrap(np.ascontiguousarray(x)) for x in np.linalg.qr(a._a))
        ctx.save_for_backward(a, q, r)
        return q, r

    @staticmethod
    def backward(ctx: Any, ct_q: Any, ct_r: Any) -> Any:
        a, q, r = ctx.saved_tensors
        rows, columns = a.shape[-2:]
        if rows >= columns:
            return _qr_cotangent(q, r, ct_q, ct_r)
        # a = [x, y], x square: q and the left part of r come from x, the rest of r is q^H y
        y = a[..., rows:]
        ct_rest = ct_r[..., rows:]
        ct_x = _qr_cotangent(q, r[..., :rows], ct_q + matmul(y, _adjoint(ct_rest)), ct_r[..., :rows])
        return cat([ct_x, matmul(q, ct_rest)], -1)


def _qr_cotangent(q: Tensor, r: Tensor, ct_q: Tensor, ct_r: Tensor) -> Any:
    m = matmul(r, _adjoint(ct_r)) - matmul(_adjoint(ct_q), q)
    symmetric = tril(m) + _adjoint(tril(m, -1))
    right = ct_q + matmul(q, symmetric)
    return _adjoint(solve(r, _adjoint(right)))


class QrResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Any
    R: Any


def qr(A: Tensor, mode: str = "reduced") -> QrResult:
    """Return the QR decomposition of each matrix; mode is "reduced", or "complete" for square matrices."""
    if mode == "complete" and A.shape[-2] > A.shape[-1]:
        if A.requires_grad:
            raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
        return QrResult(*(wrap(np.ascontiguousarray(x)) for x in np.linalg.qr(A._a, mode="complete")))
    return QrResult(*_Qr.apply(A))


def pinv(A: Tensor, *, rcond: float | None = None, hermitian: bool = False) -> Any:
    """Return the pseudoinverse of each matrix of full rank."""
    if A.shape[-2] >= A.shape[-1]:
        return solve(matmul(_adjoint(A), A), _adjoint(A))
    return _adjoint(solve(matmul(A, _adjoint(A)), A))


def matrix_rank(A: Tensor) -> Tensor:
    """Return the number of singular values that are not negligible."""
    return wrap(np.asarray(np.linalg.matrix_rank(A._a), np.int64))


def cond(A: Tensor) -> Any:
    """Return the greatest singular value divided by the smallest."""
    values = svdvals(A)
    return values[..., 0] / values[..., -1]


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


def multi_dot(tensors: Any) -> Any:
    """Return the product of several matrices."""
    product = tensors[0]
    for other in tensors[1:]:
        product = matmul(product, other)
    return product
