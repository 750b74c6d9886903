"""Functions of complex arguments on both backends, in both modes, and what the C backend hands to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.testing.check_grads import check_grads

each_backend = pytest.mark.parametrize("backend", BACKENDS)


def mandelbrot(c: Any) -> Any:
    z = np.zeros_like(c)
    steps = np.zeros(c.shape)
    for _ in range(12):
        inside = np.abs(z) < 2.0
        z = np.where(inside, z * z + c, z)
        steps = steps + inside
    return np.sum(np.log(1.0 + np.abs(z))), np.sum(steps)


def newton_fractal(z: Any) -> Any:
    for _ in range(6):
        z = z - (z**3 - 1) / (3 * z**2)
    return np.sum(np.abs(z - 1.0) ** 2) + np.sum(z.imag)


def until_small(z: Any) -> Any:
    total = 0j
    while np.abs(z) > 1e-3:
        total = total + z
        z = z * (0.4 + 0.3j) if z.real > 0 else np.conj(z) * 0.5j
    return total.real * total.imag


def products(a: Any, v: Any) -> Any:
    b = np.einsum("ij,kj->ik", a, np.conj(a)) + a @ a
    w = np.dot(b, v) + np.vdot(v, v)
    return np.abs(np.sum(w * v)) + np.sum(np.abs(np.outer(v, w)[0])) + np.real(np.trace(b))


def systems(a: Any, v: Any) -> Any:
    x = np.linalg.solve(a + 3.0 * np.eye(3), v)
    return np.sum(np.abs(x) ** 2) + np.real(np.sum(np.linalg.inv(a + 3.0 * np.eye(3)) @ v))


def matrices(a: Any, v: Any) -> Any:
    hermitian = a @ np.conj(a.T) + np.eye(3)
    large = np.kron(np.eye(2), a) + np.diag(np.concatenate([v, 2.0 * v])) + 0.3j
    sign, logarithm = np.linalg.slogdet(large)
    factor = np.linalg.cholesky(hermitian)
    return (
        np.abs(np.linalg.det(large) + np.linalg.det(a)) + sign.imag + logarithm + np.real(factor[2, 0] * factor[1, 1])
    )


def places(v: Any) -> Any:
    out = np.zeros((2, 4), dtype=v.dtype)
    out[0, :3] = v
    out[1, 1:] += 1j * v[::-1]
    out[:, 2] *= v[0]
    rows = np.concatenate([out, np.stack([v, np.conj(v)])[:, [0, 1, 2, 0]]])
    return np.sum(np.abs(rows.reshape(2, 8).T[[1, 3, 5]]) ** 2) + np.sum(np.real(np.roll(rows, 1, axis=1)[:, 1]))


def running(v: Any) -> Any:
    return np.sum(np.abs(np.cumsum(v) * np.cumprod(v))) + np.abs(np.prod(v)) + np.real(np.mean(v**2)) + np.abs(v.sum())


def analytic(v: Any) -> Any:
    w = np.exp(v) * np.sin(v) + np.cos(v) / np.cosh(v) + np.sinh(v) * np.tanh(v) + np.tan(0.3 * v)
    w = w + np.log(v) * np.sqrt(v) + v ** (0.5 - 1j) + 1 / v + np.arcsin(0.2 * v) + np.arctanh(0.3 * v)
    w = w + np.expm1(0.1 * v) + np.log1p(v)
    return np.sum(w.real) + np.sum(np.abs(w)) + np.sum(np.angle(w))


A = np.array([[0.5 + 0.2j, -0.3j, 0.1], [0.4, 0.2 - 0.6j, 0.3j], [0.1 + 0.1j, 0.7, -0.2 + 0.5j]])
V = np.array([0.6 + 0.4j, 0.3 - 0.7j, -0.8 + 0.2j])
FUNCTIONS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (mandelbrot, (np.array([0.1 + 0.6j, -0.4 + 0.3j, 0.5 + 0.5j, -1.2 + 0.4j]),)),
    (newton_fractal, (np.array([1.2 + 0.4j, -0.8 + 0.9j, -0.5 - 1.1j]),)),
    (until_small, (0.9 + 0.5j,)),
    (products, (A, V)),
    (systems, (A, V)),
    (matrices, (A, V)),
    (places, (V,)),
    (running, (V,)),
    (analytic, (V,)),
]
each_function = pytest.mark.parametrize(("f", "args"), FUNCTIONS, ids=[f.__name__ for f, _ in FUNCTIONS])


@each_function
def test_gradients(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    check_grads(f, *args)


@each_function
def test_single_precision(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    single = tuple(np.asarray(a, np.complex64)[()] for a in args)

    def first(*args: Any) -> Any:
        found = f(*args)
        return found[0] if isinstance(found, tuple) else found

    for backend in BACKENDS:
        value, gradient = tg.value_and_grad(first, backend=backend)(*single)
        expected, slope = tg.value_and_grad(first, backend="numpy")(*args)
        assert np.asarray(gradient).dtype == np.complex64
        np.testing.assert_allclose(value, expected, rtol=1e-5)
        np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-4)


@each_backend
@each_function
def test_tangents(f: Callable[..., Any], args: tuple[Any, ...], backend: str) -> None:
    tangents = tuple(np.asarray((0.3 - 0.8j) * a + 0.1j)[()] for a in args)
    value, tangent = tg.jvp(f, args, tangents, backend=backend)
    step = 1e-6
    above, below = (np.asarray(f(*(a + s * t for a, t in zip(args, tangents, strict=True)))) for s in (step, -step))
    np.testing.assert_allclose(value, f(*args), rtol=1e-12)
    np.testing.assert_allclose(tangent, (above - below) / (2 * step), rtol=1e-6, atol=1e-7)


@each_backend
def test_complex_results_and_cotangents(backend: str) -> None:
    def f(z: Any, a: Any) -> Any:
        return {"power": z**2 * a, "sum": np.sum(z), "same": z}

    result, pullback = tg.vjp(f, V, 2.0, backend=backend)
    np.testing.assert_allclose(result["power"], V**2 * 2.0, rtol=1e-15)
    assert type(result["sum"]) is np.complex128
    by_z, by_a = pullback({"power": np.full(3, 1j), "sum": 2.0 + 0j, "same": np.zeros(3, complex)})
    np.testing.assert_allclose(by_z, np.conj(4.0 * V) * 1j + 2.0, rtol=1e-14)
    np.testing.assert_allclose(by_a, np.sum(np.real(np.conj(V**2) * 1j)), rtol=1e-14)


@each_backend
def test_python_numbers(backend: str) -> None:
    f = tg.function(lambda z, x: (z * x + 1j, z == x, abs(z), z.conjugate()), backend=backend)
    found = f(1.5 - 2j, 2.0)
    assert found == (3.0 - 3j, False, 2.5, 1.5 + 2j)
    assert type(found[0]) is complex


@each_backend
def test_batches(backend: str) -> None:
    z = np.array([[1.0 + 2j, 0.5], [0.3j, -1.0 + 0.2j], [2.0, 1.0 - 1j]])
    gradient = tg.vmap(tg.grad(running), backend=backend)(z)
    for row, expected in zip(gradient, map(tg.grad(running, backend="numpy"), z), strict=True):
        np.testing.assert_allclose(row, expected, rtol=1e-12)


@each_backend
def test_constants_and_what_is_outside(backend: str) -> None:
    table = np.exp(1j * np.arange(40.0))
    table[3] = complex(-0.0, np.inf)
    weights = {"w": 0.5 - 0.5j}

    def f(k: Any, z: Any) -> Any:
        constants = np.array([1.0 - 0.0j, 2.5j, -3.0 + 1e-300j, 7.0])
        total = z * weights["w"]
        for i in range(4):
            total = total + constants[i] * table[k + i]
        return total, table[3]

    call = tg.function(f, backend=backend)
    for w in (0.5 - 0.5j, 2j):
        weights["w"] = w
        found, expected = call(np.int64(5), 0.25 + 1j), f(5, 0.25 + 1j)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert np.signbit(np.real(found[1]))


def test_names_of_the_c_library() -> None:
    def f(I: Any, complex: Any, conj: Any, creal: Any, cpowf: Any) -> Any:
        return np.abs(I * np.conj(complex) + conj * np.real(creal) ** 2 - cpowf**2.5)

    args = (1.0 + 1j, 2.0 - 1j, 0.5j, 3.0 + 0j, 1.5 + 0.5j)
    np.testing.assert_allclose(tg.function(f, backend="c")(*args), f(*args), rtol=1e-14)


def test_what_has_no_complex_c_text_runs_on_numpy() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.abs(np.linalg.qr(x)[1]))

    with pytest.warns(RuntimeWarning, match="the C backend does not support qr of complex128; the NumPy backend is"):
        found = tg.function(f, backend="c")(A)
    np.testing.assert_allclose(found, f(A), rtol=1e-12)
