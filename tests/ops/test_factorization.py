"""Factorizations where the rule test cannot look: repeated values, low rank, complex vectors, whose phase is free."""

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.ir.opdef import TABLE, interpreter
from tracegrad.ops.common import jvp_of, vjp_of
from tracegrad.ops.evaluate import Evaluator
from tracegrad.testing.check_grads import check_grads

BACKENDS = ("numpy", "c")
REPEATED = np.diag([3.0, 1.0, 1.0])


def cotangent(name, a, cts, **attrs):
    with interpreter(Evaluator()), np.errstate(all="ignore"):
        return vjp_of(TABLE[name], cts, TABLE[name](a, **attrs), (a,), attrs)[0]


def tangents(name, a, t, **attrs):
    with interpreter(Evaluator()), np.errstate(all="ignore"):
        return jvp_of(TABLE[name], (t,), TABLE[name](a, **attrs), (a,), attrs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_of_repeated_values(backend):
    def of_eigenvalues(a):
        return np.sum(np.linalg.eigvalsh(a) ** 2)

    np.testing.assert_allclose(tg.grad(of_eigenvalues, backend=backend)(REPEATED), 2 * REPEATED, atol=1e-14)
    nuclear = tg.grad(lambda a: np.linalg.norm(a, "nuc"), backend=backend)
    np.testing.assert_allclose(nuclear(2 * np.eye(3)), np.eye(3), atol=1e-14)
    spectral = tg.grad(lambda a: np.linalg.norm(a, 2), backend=backend)(np.eye(3))
    np.testing.assert_allclose(spectral, np.eye(3) / 3, atol=1e-14)  # ties share, an element of the subdifferential


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_single_vector_beside_repeated_values(backend):
    def first(a):
        v = np.linalg.eigh(a)[1][:, -1]
        return v[0] * v[1]

    def second(a):
        u, s, vh = np.linalg.svd(a)
        return u[0, 0] * s[0] * vh[0, 1]

    np.testing.assert_allclose(tg.grad(first, backend=backend)(REPEATED)[1], [0.5, 0, 0], atol=1e-14)
    check_grads(second, REPEATED, backends=(backend,))


@pytest.mark.parametrize("backend", BACKENDS)
def test_vectors_of_repeated_values_have_no_derivative(backend):
    rebuilt = tg.grad(lambda a: np.sum((lambda w, v: (v * np.exp(w)) @ v.T)(*np.linalg.eigh(a))), backend=backend)
    vectors = tg.grad(lambda a: np.linalg.eigh(a)[1][2, 0], backend=backend)
    factors = tg.grad(lambda a: np.sum((lambda u, s, vh: u @ vh)(*np.linalg.svd(a)) ** 3), backend=backend)
    with np.errstate(all="ignore"):
        assert not np.isfinite(rebuilt(REPEATED)).all()
        assert not np.isfinite(vectors(REPEATED)).all()
        assert not np.isfinite(factors(np.zeros((2, 2)))).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_of_repeated_values(backend):
    hessian = tg.hessian(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2), backend=backend)
    with np.errstate(all="ignore"):
        found = hessian(REPEATED)
    expected = np.zeros((3, 3, 3, 3))
    for i in range(3):
        for j in range(i + 1):
            expected[i, j, i, j] = 2.0 if i == j else 4.0
    expected[:, :, 2, 1] = found[:, :, 2, 1]  # the direction that parts the equal values
    np.testing.assert_allclose(found, expected, atol=1e-13)
    assert not np.isfinite(found[2, 1, 2, 1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_beside_repeated_values(backend):
    def oscillator(a):  # on a grid; the greatest values are pairs, some of them equal to the last bit
        q = np.linspace(-4.0, 4.0, 40)
        off = np.full(39, 0.5 / (q[1] - q[0]) ** 2)
        return np.diag(2.0 * off[0] + 0.5 * q**2 + a * q**4) - np.diag(off, 1) - np.diag(off, -1)

    def lowest(a):
        return np.linalg.eigvalsh(oscillator(a))[0]

    def spread(a):
        return np.sum(np.linalg.eigh(oscillator(a))[1][:, 0] ** 4)

    for f in (lowest, spread):
        gradient = tg.grad(f, backend=backend)
        slope = (gradient(2.0 + 1e-5) - gradient(2.0 - 1e-5)) / 2e-5
        np.testing.assert_allclose(tg.hessian(f, backend=backend)(2.0), slope, rtol=1e-6)


def test_zero_cotangents_of_repeated_values_give_zero():
    w, v = np.zeros(3), np.zeros((3, 3))
    np.testing.assert_array_equal(cotangent("eigh", REPEATED, (w, v), lower=True), 0.0)
    attrs = {"full_matrices": False, "excess": 0}
    np.testing.assert_array_equal(cotangent("svd", REPEATED * 0, (v, w, v), **attrs), 0.0)
    for t in tangents("eigh", REPEATED, 0 * REPEATED, lower=True):
        np.testing.assert_array_equal(t, 0.0)
    for t in tangents("svd", REPEATED * 0, 0 * REPEATED, **attrs):
        np.testing.assert_array_equal(t, 0.0)


def test_a_zero_weight_is_no_unused_vector():
    # v diag(w) vᵀ is the matrix itself; at w = 0 the cotangents of the vectors are zero, but not those of the values
    gradient = tg.grad(lambda a: np.sum((lambda w, v: (v * w) @ v.T)(*np.linalg.eigh(a)) * np.arange(4).reshape(2, 2)))
    with np.errstate(all="ignore"):
        assert np.isnan(gradient(np.zeros((2, 2)))).any()


@pytest.mark.parametrize("lower", [True, False])
def test_eigenvalues_read_one_triangle(lower, rng):
    a = rng.normal(size=(3, 3))
    ct_w, ct_v = rng.normal(size=3), rng.normal(size=(3, 3))
    found = cotangent("eigh", a, (ct_w, ct_v), lower=lower)
    assert np.array_equal(found, np.tril(found) if lower else np.triu(found))
    mirrored = np.tril(a) + np.tril(a, -1).T if lower else np.triu(a) + np.triu(a, 1).T
    whole = cotangent("eigh", mirrored, (ct_w, ct_v), lower=lower)
    np.testing.assert_allclose(found, whole, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pseudoinverse_along_matrices_of_one_rank(backend, rng):
    def f(x, y):
        return np.sum(np.sin(np.linalg.pinv(np.outer(x, y), 1e-8)))

    check_grads(f, rng.normal(size=3), rng.normal(size=4), backends=(backend,))


def test_qr_of_low_rank_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        tg.grad(lambda a: np.linalg.qr(a)[0][0, 0])(np.zeros((2, 2)))


def tanh_of(a):
    w, v = np.linalg.eigh(a)
    return (v * np.tanh(w)) @ v.conj().T


def root_of(a, **options):
    u, s, vh = np.linalg.svd(a, **options)
    return (u[:, : len(s)] * np.sqrt(s)) @ vh[: len(s)]


COMPLEX = {
    "eigh": lambda a: tanh_of(a + a.conj().T),
    "eigh_lower": tanh_of,
    "eigh_upper": lambda a: np.linalg.eigh(a, "U")[1],
    "eigenvectors": lambda a: np.linalg.eigh(a)[1],
    "svd": lambda a: root_of(a[:, :2], full_matrices=False),
    "svd_wide": lambda a: root_of(a[:2], full_matrices=False),
    "svd_square": root_of,
    "left_vectors": lambda a: np.linalg.svd(a)[0],
    "right_vectors": lambda a: np.linalg.svd(a)[2],
    "null_vector": lambda a: np.linalg.svd(a[:2])[2][2],
    "svdvals": np.linalg.svdvals,
    "qr": lambda a: np.linalg.qr(a)[0] @ np.linalg.qr(a)[1] ** 2,
    "qr_wide": lambda a: np.linalg.qr(a[:2])[1] ** 2,
    "pinv": lambda a: np.linalg.pinv(a[:, :2]),
    "lstsq": lambda a: np.linalg.lstsq(a[:, :2], a[:, 2])[0],
    "nuclear": lambda a: np.linalg.norm(a, "nuc"),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name, rng):
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    weights = rng.uniform(0.5, 1.5, size=np.shape(COMPLEX[name](a)))

    def f(a):
        return np.sum(weights * np.abs(COMPLEX[name](a)) ** 2)

    check_grads(f, a, backends=("numpy",))
    t, h = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)), 1e-4
    gradient = tg.grad(f)
    expected = (8 * (gradient(a + h * t) - gradient(a - h * t)) - gradient(a + 2 * h * t) + gradient(a - 2 * h * t)) / (
        12 * h
    )
    found = tg.jvp(gradient, (a,), (t,))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("backend", BACKENDS)
def test_single_precision(backend, rng):
    a = rng.normal(size=(4, 4)).astype(np.float32)

    def f(a):
        w, v = np.linalg.eigh(a @ a.T)
        u, s, vh = np.linalg.svd(a[:, :3], full_matrices=False)
        q, r = np.linalg.qr(a[:, :3])
        return np.sum(np.sin((v * np.sqrt(w)) @ v.T)) + np.sum(np.sin(u @ vh)) + np.sum(q * r.sum()) + s.max()

    found = tg.grad(f, backend=backend)(a)
    assert found.dtype == np.float32
    expected = tg.grad(f)(a.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5 * np.abs(expected).max())


NEARLY_SINGULAR = [
    np.arange(9.0).reshape(3, 3),
    np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [5.0, 7.0, 9.0]]),
    np.array([[0.1, 0.2, 0.3], [0.2, 0.4, 0.6], [0.3, 0.6, 0.9]]),
    np.zeros((3, 3)),
    np.array([[1.0, 2.0], [2.0, 4.0]]),
    np.array([[0.0]]),
    np.array([[2.0, 1.0, 0.0, 3.0], [4.0, 2.0, 0.0, 6.0], [1.0, 0.5, 0.0, 2.0], [0.0, 1.0, 5.0, 1.0]]),
    np.eye(3),
    np.diag([1.0, 1.0, 1.0001e-3]),
]


def cofactors(a: Any) -> Any:
    n = len(a)
    return np.array(
        [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)] for i in range(n)]
    )


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("a", NEARLY_SINGULAR)
def test_second_derivatives_of_determinants(a: Any, backend: str) -> None:
    # cofactors are polynomials of low degree: differences of them with large steps have no error but rounding
    n = len(a)
    direction = np.cos(np.arange(n * n)).reshape(n, n)
    near, far = ((cofactors(a + h * direction) - cofactors(a - h * direction)) / (2 * h) for h in (1, 2))
    expected = (4 * near - far) / 3
    tolerance = 1e-11 * max(1.0, np.abs(expected).max())
    found = tg.hvp(np.linalg.det, (a,), (direction,), backend=backend)[0]
    np.testing.assert_allclose(found, expected, atol=tolerance)
    twice = tg.grad(lambda x: np.sum(tg.grad(np.linalg.det)(x) * direction), backend=backend)(a)
    np.testing.assert_allclose(twice, expected, atol=tolerance)
    stack = np.stack([a, np.eye(n) + 0.5 * a])
    batch = tg.vmap(lambda x: tg.jvp(tg.grad(np.linalg.det), (x,), (direction,))[1], backend=backend)(stack)
    np.testing.assert_allclose(batch[0], expected, atol=tolerance)


def test_third_derivatives_of_determinants() -> None:
    a, t = np.array([[2.0, 1.0, 0.0], [0.5, 1.0, 0.3], [0.1, -0.2, 1.5]]), np.cos(np.arange(9.0)).reshape(3, 3)
    for point in (a, np.eye(3), np.arange(9.0).reshape(3, 3)):

        def along(s: Any, point: Any = point) -> Any:
            return np.linalg.det(point + s * t)

        third = tg.grad(tg.grad(tg.grad(along)))(0.0)
        assert third == pytest.approx(6.0 * np.linalg.det(t), rel=1e-9, abs=1e-9)
