"""Eigenvalues, singular values, QR, least squares and Fourier transforms: values and gradients against NumPy.

Functions of vectors are such that their sign, or phase, does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.capture.numpy_rows import check, check_values, random, rows

A, SQUARE, STACK, V = random(4, 3), random(4, 4), random(2, 4, 3), random(8)
SPD = SQUARE @ SQUARE.T + np.eye(4)
F = random(4, 3, dtype=np.float32)
WIDE, I = random(3, 6), np.array([[2, 1], [1, 3]])


def product(factors: Any) -> Any:
    u, s, vh = factors
    return (u[..., : s.shape[-1]] * np.sqrt(s)[..., None, :]) @ vh[..., : s.shape[-1], :]


def rebuilt(factors: Any) -> Any:
    w, v = factors
    return (v * np.tanh(w)[..., None, :]) @ v.mT


def outer(v: Any) -> Any:
    return v @ v.mT


@rows(
    eigh=(lambda a: rebuilt(np.linalg.eigh(a)), SPD),
    eigh_unsymmetric=(lambda a: rebuilt(np.linalg.eigh(a)), SQUARE),
    eigh_upper=(lambda a: rebuilt(np.linalg.eigh(a, UPLO="u")), SQUARE),
    eigh_attributes=(lambda a: np.linalg.eigh(a).eigenvalues * np.linalg.eigh(a).eigenvectors**2, SPD),
    eigh_stack=(lambda a: rebuilt(np.linalg.eigh(a @ a.mT + np.diag([0.0, 1.0, 2.0, 3.0]))), STACK),
    eigh_ints=(lambda a: np.linalg.eigh(a)[0], I),
    eigvalsh=(lambda a: np.linalg.eigvalsh(a), SQUARE),
    eigvalsh_upper=(lambda a: np.linalg.eigvalsh(a, "U"), SQUARE),
    svd=(lambda a: product(np.linalg.svd(a, full_matrices=False)), A),
    svd_wide=(lambda a: product(np.linalg.svd(a, full_matrices=False)), A.T),
    svd_square=(lambda a: product(np.linalg.svd(a)), SQUARE),
    svd_full=(lambda a: product(np.linalg.svd(a)), A),
    svd_stack=(lambda a: product(np.linalg.svd(a, full_matrices=False)), STACK),
    svd_attributes=(lambda a: np.linalg.svd(a).U[:, 3] ** 2 * np.linalg.svd(a).S[0], A),
    svd_null_vector=(lambda a: np.linalg.svd(a).Vh[-1] ** 2, A.T),
    svd_null_space=(lambda a: outer(np.linalg.svd(a).Vh[3:].T), WIDE),
    svd_column_space=(lambda a: outer(np.linalg.svd(a).U[:, :3]) @ outer(np.linalg.svd(a).U[:, 3:]) + a[0, 0], WIDE.T),
    svd_left_space=(lambda a: outer(np.linalg.svd(a).U[:, 3:]), WIDE.T),
    svd_values=(lambda a: np.linalg.svd(a, compute_uv=False), A),
    svd_hermitian=(lambda a: product(np.linalg.svd(a + a.T, hermitian=True)), SQUARE),
    svd_hermitian_values=(lambda a: np.linalg.svd(a, compute_uv=False, hermitian=True), SQUARE),
    svdvals=(lambda a: np.linalg.svdvals(a), STACK),
    cond=(lambda a: np.linalg.cond(a), A),
    cond_stack=(lambda a: np.linalg.cond(a, 2), STACK),
    cond_minus_two=(lambda a: np.linalg.cond(a, -2), A),
    cond_one=(lambda a: np.linalg.cond(a, 1), SQUARE),
    cond_frobenius=(lambda a: np.linalg.cond(a, "fro"), SQUARE),
    matrix_rank=(lambda a: np.linalg.matrix_rank(a) * a, A),
    matrix_rank_stack=(lambda a: np.linalg.matrix_rank(a, tol=0.5)[:, None, None] * a, STACK),
    matrix_rank_relative=(lambda a: np.linalg.matrix_rank(a, rtol=0.3) * a, A),
    matrix_rank_vector=(lambda a: np.linalg.matrix_rank(a) * a, V),
    qr=(lambda a: np.linalg.qr(a), A),
    qr_attributes=(lambda a: np.linalg.qr(a).Q @ np.sin(np.linalg.qr(a).R), A),
    qr_wide=(lambda a: np.linalg.qr(a), A.T),
    qr_square=(lambda a: np.linalg.qr(a, mode="complete"), SQUARE),
    qr_stack=(lambda a: np.linalg.qr(a), STACK),
    qr_triangle=(lambda a: np.linalg.qr(a, mode="r"), A),
    pinv=(lambda a: np.linalg.pinv(a), A),
    pinv_wide=(lambda a: np.linalg.pinv(a), A.T),
    pinv_stack=(lambda a: np.linalg.pinv(a), STACK),
    pinv_cutoff=(lambda a: np.linalg.pinv(a, 1e-3) + np.linalg.pinv(a, rtol=None), A),
    pinv_cutoffs=(lambda a: np.linalg.pinv(a, np.array([1e-3, 1e-4])), STACK),
    pinv_hermitian=(lambda a: np.linalg.pinv(a + a.T, hermitian=True), SQUARE),
    lstsq=(lambda a, b: np.linalg.lstsq(a, b), A, V[:4]),
    lstsq_matrix=(lambda a, b: np.linalg.lstsq(a, b, rcond=None), A, STACK[0]),
    lstsq_wide=(lambda a, b: np.linalg.lstsq(a, b, rcond=-1), A.T, V[:3]),
    lstsq_cutoff=(lambda a, b: np.linalg.lstsq(a, b, rcond=1e-3)[0], SQUARE, V[:4]),
    polyfit=(lambda x, y: np.polyfit(x, y, 2), V, random(8, seed=1)),
    polyfit_matrix=(lambda x, y: np.polyfit(x, y, 1, w=x**2), V, random(8, 2)),
    polyfit_full=(lambda x, y, w: np.polyfit(x, y, 1, w=w, full=True)[:4], V, random(8, seed=1), V**2),
)  # fmt: skip
def test_factorizations(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    eigh=(lambda a: rebuilt(np.linalg.eigh(a.T @ a)), F),
    svd=(lambda a: product(np.linalg.svd(a, full_matrices=False)), F),
    svdvals=(lambda a: np.linalg.svdvals(a), F),
    qr=(lambda a: np.linalg.qr(a), F),
    pinv=(lambda a: np.linalg.pinv(a), F),
    rfft=(lambda a: np.fft.irfft(np.fft.rfft(a), 3), F),
    fft=(lambda a: np.fft.fft(a), F),
    fft_half=(lambda a: np.fft.fft(a), random(4, dtype=np.float16)),
    fft_ints=(lambda a: np.fft.fft(a), I),
)
def test_dtypes(function: Any, arrays: Any) -> None:
    check_values(function, arrays)


def power(x: Any) -> Any:
    return np.abs(x) ** 2


@rows(
    fft=(lambda x: power(np.fft.fft(x)), V),
    fft_parts=(lambda x: [np.fft.fft(x).real, np.fft.fft(x).imag], V),
    fft_axis=(lambda x: power(np.fft.fft(x, axis=0)), A),
    fft_cut=(lambda x: power(np.fft.fft(x, n=5, norm="ortho")), V),
    fft_filled=(lambda x: power(np.fft.fft(x, 11, norm="forward")), V),
    fft_twice=(lambda x: np.fft.ifft(np.fft.fft(x) ** 2).real, V),
    ifft=(lambda x: power(np.fft.ifft(x, norm="ortho")), V),
    rfft=(lambda x: power(np.fft.rfft(x)), V),
    rfft_odd=(lambda x: np.fft.rfft(x, 7).imag, V),
    rfft_axis=(lambda x: power(np.fft.rfft(x, axis=0, norm="ortho")), A),
    irfft=(lambda x: np.fft.irfft(np.fft.rfft(x) * (1 + 2j)), V),
    irfft_odd=(lambda x: np.fft.irfft(np.fft.rfft(x, 7) * np.arange(4), 7, norm="forward"), V),
    irfft_cut=(lambda x: np.fft.irfft(np.fft.fft(x), 6), V),
    irfft_filled=(lambda x: np.fft.irfft(x, 20), V),
    fft2=(lambda x: power(np.fft.fft2(x)), A),
    fft2_sizes=(lambda x: power(np.fft.fft2(x, s=(3, 5))), A),
    ifft2=(lambda x: np.fft.ifft2(np.fft.fft2(x) * np.fft.fftfreq(3)).imag, A),
    fftn=(lambda x: power(np.fft.fftn(x)), STACK),
    fftn_axes=(lambda x: power(np.fft.fftn(x, axes=(2, 0), norm="ortho")), STACK),
    ifftn=(lambda x: power(np.fft.ifftn(x, s=(4, -1), axes=(1, 2))), STACK),
    rfft2=(lambda x: np.fft.irfft2(np.fft.rfft2(x) * 2, s=(4, 3)), A),
    rfftn=(lambda x: np.fft.irfftn(np.fft.rfftn(x) ** 2), STACK),
    hfft=(lambda x: np.fft.hfft(x * (1 + 1j)), V),
    ihfft=(lambda x: power(np.fft.ihfft(x, norm="ortho")), V),
    fftshift=(lambda x: np.fft.fftshift(x) * np.arange(3), A),
    fftshift_axes=(lambda x: np.fft.fftshift(x, axes=0) + np.fft.ifftshift(x, axes=(1,)), A),
    ifftshift=(lambda x: np.fft.ifftshift(x), STACK),
    fftfreq=(lambda x: np.fft.fftfreq(7, x[0]) + np.fft.rfftfreq(12, x[1]), V),
)
def test_fourier(function: Any, arrays: Any) -> None:
    check(function, arrays)
