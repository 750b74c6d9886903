"""Products, einsum, linear algebra and SciPy functions: values and gradients against NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.capture.numpy_rows import capture, check, h, positive, random, rows

scipy_linalg = pytest.importorskip("scipy.linalg", reason="checks functions of SciPy against SciPy")
scipy_fft = pytest.importorskip("scipy.fft", reason="checks functions of SciPy against SciPy")
scipy_special = pytest.importorskip("scipy.special", reason="checks functions of SciPy against SciPy")

V, W = random(4), random(4, seed=1)
A, B = random(3, 4), random(4, 5, seed=1)
T, U = random(2, 3, 4), random(2, 4, 5, seed=1)
SQUARE = random(4, 4) + 3 * np.eye(4)
STACK = random(2, 3, 3) + 3 * np.eye(3)
I, J = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
F = random(3, 4, dtype=np.float32)
X = random(3, 4, low=-3.0, high=3.0)
P, Q = positive(3, 4), positive(3, 4, seed=1)
UNIT = random(3, 4, low=0.1, high=0.9)


def spd(x: Any) -> Any:
    return x @ x.mT + np.eye(x.shape[-1])


@rows(
    dot_vectors=(lambda x, y: np.dot(x, y), V, W),
    dot_method=(lambda x, y: x.dot(y), A, B),
    dot_matrix_vector=(lambda x, y: np.dot(x, y), A, V),
    dot_scalar=(lambda x: np.dot(x, 3.0), V),
    dot_tensors=(lambda x, y: np.dot(x, y), T, random(2, 4, 3)),
    matmul=(lambda x, y: x @ y, A, B),
    matmul_vector=(lambda x, y: x @ y, A, V),
    matmul_vector_matrix=(lambda x, y: x @ y, V, B),
    matmul_vectors=(lambda x, y: x @ y, V, W),
    matmul_batch=(lambda x, y: np.matmul(x, y), T, U),
    matmul_batch_matrix=(lambda x, y: x @ y, T, B),
    matmul_matrix_batch=(lambda x, y: x @ y, A, U),
    matmul_batch_vector=(lambda x, y: x @ y, T, V),
    matmul_vector_batch=(lambda x, y: x @ y, V, U),
    matmul_broadcast=(lambda x, y: x @ y, random(5, 1, 3, 4), U),
    matmul_ints=(lambda x, y: x @ y, I, J),
    matmul_constant=(lambda x: np.ones((2, 3)) @ x, A),
    matmul_float32=(lambda x: x @ x.T, F),
    matmul_bools=(lambda x, y: x @ y, A > 0, B > 0),
    rmatmul_list=(lambda x: [1.0, 2.0, 3.0] @ x, A),
    inner=(lambda x, y: np.inner(x, y), A, random(2, 4)),
    outer=(lambda x, y: np.outer(x, y), V, A),
    vdot=(lambda x, y: np.vdot(x, y), A, random(4, 3)),
    vecdot=(lambda x, y: np.vecdot(x, y), A, V),
    tensordot=(lambda x, y: np.tensordot(x, y, axes=1), T, B),
    tensordot_two=(lambda x, y: np.tensordot(x, y), T, random(3, 4, 2)),
    tensordot_axes=(lambda x, y: np.tensordot(x, y, axes=([0, 1], [1, 0])), T, random(3, 2, 5)),
    tensordot_axis=(lambda x, y: np.tensordot(x, y, axes=(2, 0)), T, B),
    kron=(lambda x, y: np.kron(x, y), A, random(2, 2)),
    kron_vectors=(lambda x, y: np.kron(x, y), V, random(2, 2)),
    cross=(lambda x, y: np.cross(x, y), random(3), random(3, seed=1)),
    cross_rows=(lambda x, y: np.cross(x, y), random(4, 3), random(3, seed=1)),
    cross_axis=(lambda x, y: np.cross(x, y, axis=0), random(3, 4), random(3, 4, seed=1)),
    multi_dot=(lambda x, y, z: np.linalg.multi_dot([x, y, z]), A, B, random(5, 2)),
    multi_dot_vectors=(lambda x, y, z: np.linalg.multi_dot([x, y, z]), random(3), A, V),
    convolve=(lambda x, y: np.convolve(x, y), random(6), random(3)),
    convolve_swapped=(lambda x, y: np.convolve(x, y), random(2), random(5)),
    convolve_same=(lambda x, y: np.convolve(x, y, mode="same"), random(6), random(3)),
    convolve_same_even=(lambda x, y: np.convolve(x, y, mode="same"), random(7), random(4)),
    convolve_valid=(lambda x, y: np.convolve(x, y, "valid"), random(6), random(3)),
    convolve_ints=(lambda x: np.convolve(x, [1, 2]), np.arange(4)),
    correlate=(lambda x, y: np.correlate(x, y), random(6), random(3)),
    correlate_full=(lambda x, y: np.correlate(x, y, mode="full"), random(6), random(3)),
    correlate_same=(lambda x, y: np.correlate(x, y, mode="same"), random(6), random(4)),
    correlate_swapped=(lambda x, y: np.correlate(x, y, mode="full"), random(2), random(5)),
    correlate_swapped_same=(lambda x, y: np.correlate(x, y, mode="same"), random(2), random(5)),
    correlate_swapped_same_odd=(lambda x, y: np.correlate(x, y, mode="same"), random(3), random(6)),
    polyval=(lambda p, x: np.polyval(p, x), V, A),
    polyval_constant=(lambda x: np.polyval([1.0, 0.0, -2.0], x), A),
    polyder=(lambda p: np.polyder(p), V),
    polyint=(lambda p: np.polyint(p), V),
    polymul=(lambda p, q: np.polymul(p, q), V, random(2)),
    polyadd=(lambda p, q: np.polyadd(p, q), V, random(2)),
)
def test_products(function: Any, arrays: Any) -> None:
    check(function, arrays)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("i,i->", [(4,), (4,)]),
        ("i,i->i", [(4,), (4,)]),
        ("i,j->ij", [(4,), (3,)]),
        ("i,j->ji", [(4,), (3,)]),
        ("ij,j", [(3, 4), (4,)]),
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij,jk", [(3, 4), (4, 5)]),
        ("ij,jk->ki", [(3, 4), (4, 5)]),
        ("ij->ji", [(3, 4)]),
        ("ij->", [(3, 4)]),
        ("ij->j", [(3, 4)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iji->j", [(3, 4, 3)]),
        ("iii->i", [(3, 3, 3)]),
        ("ii,ij->j", [(3, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bij,bij->b", [(2, 3, 4), (2, 3, 4)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,jk", [(2, 3, 4), (4, 5)]),
        ("i...,i...->...", [(3, 4), (3, 4)]),
        ("...i,...i", [(2, 1, 4), (3, 4)]),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 2)]),
        ("i,ij,j->", [(3,), (3, 4), (4,)]),
        ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("ij,kl->", [(2, 3), (3, 2)]),
        ("ij,ik,il->jkl", [(3, 2), (3, 4), (3, 2)]),
        ("a,b,c,d->abcd", [(2,), (3,), (2,), (2,)]),
        ("ij,ij,ij->ij", [(3, 4), (3, 4), (3, 4)]),
        ("ij, jk -> ik", [(3, 4), (4, 5)]),
        ("ij,j->i", [(3, 4), (1,)]),
    ],
)
def test_einsum(subscripts: str, shapes: Any) -> None:
    arrays = [random(*shape, seed=k) for k, shape in enumerate(shapes)]
    check(lambda *operands: np.einsum(subscripts, *operands), arrays)


@rows(
    lists=(lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]), A, B),
    lists_implicit=(lambda x, y: np.einsum(x, [0, 1], y, [1, 2]), A, B),
    optimize=(lambda x, y: np.einsum("ij,jk->ik", x, y, optimize=True), A, B),
    ints=(lambda x, y: np.einsum("ij,jk->ik", x, y), I, J),
    constant=(lambda x: np.einsum("ij,jk->ik", np.ones((2, 3)), x), A),
)
def test_einsum_forms(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    solve=(lambda a, b: np.linalg.solve(a, b), SQUARE, V),
    solve_matrix=(lambda a, b: np.linalg.solve(a, b), SQUARE, B),
    solve_stack=(lambda a, b: np.linalg.solve(a, b), STACK, random(2, 3, 2)),
    solve_stack_vector=(lambda a, b: np.linalg.solve(a, b), STACK, random(3)),
    solve_broadcast=(lambda a, b: np.linalg.solve(a, b), random(3, 3) + 3 * np.eye(3), random(2, 3, 2)),
    inv=(lambda a: np.linalg.inv(a), SQUARE),
    inv_stack=(lambda a: np.linalg.inv(a), STACK),
    inv_float32=(lambda a: np.linalg.inv(a), SQUARE.astype(np.float32)),
    det=(lambda a: np.linalg.det(a), SQUARE),
    det_stack=(lambda a: np.linalg.det(a), STACK),
    det_ints=(lambda a: np.linalg.det(a), np.array([[2, 1], [1, 3]])),
    slogdet=(lambda a: np.linalg.slogdet(a), SQUARE),
    slogdet_attribute=(lambda a: np.linalg.slogdet(a).logabsdet, -STACK),
    cholesky=(lambda a: np.linalg.cholesky(spd(a)), SQUARE),
    cholesky_stack=(lambda a: np.linalg.cholesky(spd(a)), STACK),
    cholesky_upper=(lambda a: np.linalg.cholesky(spd(a), upper=True), SQUARE),
    matrix_power=(lambda a: np.linalg.matrix_power(a, 5), SQUARE),
    matrix_power_inverse=(lambda a: np.linalg.matrix_power(a, -2), SQUARE),
    matrix_power_zero=(lambda a: np.linalg.matrix_power(a, 0) + a, SQUARE),
    tensorinv=(lambda a: np.linalg.tensorinv(a), (random(6, 6) + 3 * np.eye(6)).reshape(2, 3, 3, 2)),
    tensorinv_first=(lambda a: np.linalg.tensorinv(a, 1), SQUARE.reshape(4, 2, 2)),
    tensorsolve=(
        lambda a, b: np.linalg.tensorsolve(a, b),
        (random(6, 6) + 3 * np.eye(6)).reshape(2, 3, 6),
        random(2, 3),
    ),
    tensorsolve_axes=(
        lambda a, b: np.linalg.tensorsolve(a, b, axes=(1,)),
        SQUARE.reshape(4, 4),
        random(4),
    ),
    trace_of_inverse=(lambda a: np.trace(np.linalg.inv(a) @ a.T), SQUARE),
)
def test_linalg(function: Any, arrays: Any) -> None:
    check(function, arrays)


S = scipy_special


@rows(
    expit=(lambda x: h(S.expit)(x), X),
    expit_large=(lambda x: h(S.expit)(x * 300), X),
    logit=(lambda x: h(S.logit)(x), UNIT),
    log_expit=(lambda x: h(S.log_expit)(x), X),
    erf=(lambda x: h(S.erf)(x), X),
    erfc=(lambda x: h(S.erfc)(x), X),
    erfinv=(lambda x: h(S.erfinv)(0.2 * x), X),
    gammaln=(lambda x: h(S.gammaln)(x), P),
    gamma=(lambda x: h(S.gamma)(x), P),
    digamma=(lambda x: h(S.digamma)(x), P),
    psi=(lambda x: h(S.psi)(x), P),
    polygamma=(lambda x: h(S.polygamma)(2, x), P),
    ndtr=(lambda x: h(S.ndtr)(x), X),
    ndtri=(lambda x: h(S.ndtri)(0.5 + 0.3 * np.tanh(x)), X),
    scaled_bessel=(lambda x: h(S.i0e)(x) + h(S.i1e)(x) + h(S.i0e)(x * 50) + h(S.i1e)(x * 50), X),
    log_ndtr=(lambda x: h(S.log_ndtr)(x), X),
    log_ndtr_large=(lambda x: h(S.log_ndtr)(x * 15), X),
    xlogy=(lambda x, y: h(S.xlogy)(x, y), X, P),
    xlog1py=(lambda x, y: h(S.xlog1py)(x, y), X, P),
    entr=(lambda x: h(S.entr)(x), P),
    rel_entr=(lambda x, y: h(S.rel_entr)(x, y), P, Q),
    kl_div=(lambda x, y: h(S.kl_div)(x, y), P, Q),
    huber=(lambda x: h(S.huber)(1.0, x), X),
    betaln=(lambda x, y: h(S.betaln)(x, y), P, Q),
    logsumexp=(lambda x: h(S.logsumexp)(x), X),
    logsumexp_axis=(lambda x: h(S.logsumexp)(x, axis=1, keepdims=True), X),
    logsumexp_weights=(lambda x, b: h(S.logsumexp)(x, axis=0, b=b), X, P),
    logsumexp_large=(lambda x: h(S.logsumexp)(x * 1000), X),
    softmax=(lambda x: h(S.softmax)(x, axis=1), X),
    log_softmax=(lambda x: h(S.log_softmax)(x, axis=0), X),
    exp2=(lambda x: h(S.exp2)(x), X),
    float32=(lambda x: h(S.expit)(x), F),
    solve=(lambda a, b: h(scipy_linalg.solve)(a, b), SQUARE, V),
    solve_positive=(lambda a, b: h(scipy_linalg.solve)(spd(a), b, assume_a="pos"), SQUARE, V),
    cholesky=(lambda a: h(scipy_linalg.cholesky)(spd(a), lower=True), SQUARE),
    cholesky_upper=(lambda a: h(scipy_linalg.cholesky)(spd(a)), SQUARE),
    solve_triangular=(lambda a, b: h(scipy_linalg.solve_triangular)(a, b), SQUARE, V),
    solve_triangular_lower=(lambda a, b: h(scipy_linalg.solve_triangular)(a, b, lower=True), SQUARE, B),
    solve_triangular_transposed=(
        lambda a, b: h(scipy_linalg.solve_triangular)(a, b, lower=True, trans="T"), SQUARE, V,
    ),
    solve_triangular_unit=(
        lambda a, b: h(scipy_linalg.solve_triangular)(a, b, lower=True, unit_diagonal=True), SQUARE, V,
    ),
    cho_solve=(lambda a, b: h(scipy_linalg.cho_solve)(h(scipy_linalg.cho_factor)(spd(a)), b), SQUARE, V),
    cho_solve_lower=(
        lambda a, b: h(scipy_linalg.cho_solve)(h(scipy_linalg.cho_factor)(spd(a), lower=True), b), SQUARE, V,
    ),
    eigh=(lambda a: h(scipy_linalg.eigh)(a)[1] ** 2, SQUARE),
    eigh_upper=(lambda a: h(scipy_linalg.eigh)(a, lower=False)[1] ** 2, SQUARE),
    eigh_values=(lambda a: h(scipy_linalg.eigh)(a, eigvals_only=True), SQUARE),
    eigvalsh=(lambda a: h(scipy_linalg.eigvalsh)(a), SQUARE),
    svd=(lambda a: h(scipy_linalg.svd)(a, full_matrices=False)[1], A),
    svd_values=(lambda a: h(scipy_linalg.svd)(a, compute_uv=False), A),
    svdvals=(lambda a: h(scipy_linalg.svdvals)(a), A),
    qr=(lambda a: h(scipy_linalg.qr)(a), SQUARE),
    qr_economic=(lambda a: h(scipy_linalg.qr)(a.T, mode="economic"), A),
    qr_triangle=(lambda a: h(scipy_linalg.qr)(a, mode="r"), SQUARE),
    pinv=(lambda a: h(scipy_linalg.pinv)(a), A),
    lstsq=(lambda a, b: h(scipy_linalg.lstsq)(a, b), B, V),
    lstsq_matrix=(lambda a, b: h(scipy_linalg.lstsq)(a.T, b)[:2], A, random(4, 2)),
    lstsq_residual=(lambda a, b: h(scipy_linalg.lstsq)(a.T, b)[1], A, V),
    fft=(lambda x: np.abs(h(scipy_fft.fft)(x, axis=0, workers=1)) ** 2, A),
    rfft2=(lambda x: h(scipy_fft.irfft2)(h(scipy_fft.rfft2)(x) * 2, s=(3, 4)), A),
    fftn=(lambda x: np.abs(h(scipy_fft.fftn)(x, axes=(0, 2), norm="ortho")) ** 2, T),
    inv=(lambda a: h(scipy_linalg.inv)(a), SQUARE),
    det=(lambda a: h(scipy_linalg.det)(a), SQUARE),
)  # fmt: skip
def test_scipy(function: Any, arrays: Any) -> None:
    check(function, arrays)


@pytest.mark.parametrize(
    "function",
    [
        np.linalg.eig,
        np.linalg.eigvals,
        lambda a: np.linalg.qr(a[:, :2], mode="complete"),
        lambda a: np.linalg.qr(a, mode="raw"),
        lambda a: np.polyfit(a[0], a[1], 2, cov=True),
        lambda a: np.roots(a[0]),
        lambda a: h(scipy_linalg.eigh)(a, a),
        lambda a: h(scipy_linalg.qr)(a, pivoting=True),
        lambda a: h(scipy_linalg.pinv)(a, atol=1e-3),
    ],
)
def test_refused(function: Any) -> None:
    with pytest.raises(NotImplementedError, match="not supported"):
        capture(function, [SQUARE])


@pytest.mark.parametrize("at", [-0.0, 0.0])
def test_expit_has_no_kink(at: float) -> None:
    check(lambda x: h(S.expit)(x), [np.array([at, 1.0])])
