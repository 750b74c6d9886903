"""Powers with known exponents, and quotients by them: one slope each, right in every order and at the ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS

each_backend = pytest.mark.parametrize("backend", BACKENDS)


def derivative(exponent: int, order: int, x: Any, factor: float = 1.0) -> Any:
    """Return a derivative of factor * x**exponent."""
    for n in range(order):
        factor *= exponent - n
    return factor * x ** (exponent - order) if factor else 0.0


def nth(function: Callable[[Any], Any], order: int, backend: str) -> Callable[[Any], Any]:
    for _ in range(order - 1):
        function = tg.grad(function)
    return tg.grad(function, backend=backend)


@each_backend
@pytest.mark.parametrize("exponent", [3, 4, 5, 6, 7, 8, 9])
def test_derivatives_of_powers(exponent: int, backend: str) -> None:
    for order in (1, 2, 3):
        found = nth(lambda x: x**exponent, order, backend)
        for x in (0.0, 2.0, -1.5, 1e-3):
            assert found(x) == pytest.approx(derivative(exponent, order, x), rel=1e-13, abs=0.0)


@each_backend
@pytest.mark.parametrize("exponent", [1, 2, 3, 4])
def test_derivatives_of_quotients(exponent: int, backend: str) -> None:
    for order in (1, 2, 3):
        found = nth(lambda x: 2.0 / x**exponent, order, backend)
        for x in (2.0, -1.5, 1e-3, 1e40):
            assert found(x) == pytest.approx(derivative(-exponent, order, x, 2.0), rel=1e-12, abs=0.0)


@each_backend
def test_the_numerator_of_a_quotient(backend: str) -> None:
    x, y = np.array([0.5, -2.0, 3.0]), np.array([1.5, 0.25, -4.0])
    both = tg.grad(lambda x, y: np.sum(y * x / x**3), argnums=(0, 1), backend=backend)(x, y)
    np.testing.assert_allclose(both[0], -2 * y / x**3, rtol=1e-13)
    np.testing.assert_allclose(both[1], 1 / x**2, rtol=1e-13)


@each_backend
def test_quotients_at_the_ends_of_single_precision(backend: str) -> None:
    x = np.array([np.inf, -np.inf, 1e13, 1e-13, -0.0, 3.0], np.float32)
    scale = np.float32(1e-6)
    with np.errstate(all="ignore"):
        found = tg.grad(lambda x: np.sum(scale / x**2), backend=backend)(x)
        expected = -2 * np.float64(scale) / x.astype(np.float64) ** 3
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.astype(np.float32), rtol=1e-5, atol=1e-44)


@each_backend
def test_complex_powers(backend: str) -> None:
    z = 1.0 + 0.5j
    found = tg.grad(lambda z: np.real((1 + 2j) * z**3 + 1 / z**2), backend=backend)(z)
    assert found == pytest.approx(np.conj(3 * (1 + 2j) * z**2 - 2 / z**3))


@each_backend
def test_named_squares_and_hidden_poles(backend: str) -> None:
    def named(x: Any) -> Any:
        s = x**2
        return s * x + s / x

    assert tg.grad(named, backend=backend)(1.5) == pytest.approx(3 * 1.5**2 + 1)
    hidden = tg.grad(lambda x: np.sum(np.where(x > 0, 1 / x**2, 0.0)), backend=backend)
    np.testing.assert_array_equal(hidden(np.array([0.0, 2.0])), [0.0, -0.25])


@each_backend
def test_second_derivatives_in_forward_mode(backend: str) -> None:
    x = np.array([0.0, 0.5, -2.0])
    found = tg.hessian(lambda x: np.sum(x**3 + x**4), backend=backend)(x)
    np.testing.assert_allclose(found, np.diag(6 * x + 12 * x**2), rtol=1e-14)


def test_text() -> None:
    def loop(x: Any) -> Any:
        s = 0.0
        for i in range(len(x)):
            s += x[i] ** 3
        return s

    assert "ct_x[i] = 3.0 * x[i] ** 2" in tg.grad(loop).source(np.ones(5))
    assert "ct_x = 3.0 * x ** 2" in tg.grad(lambda x: x**3).source(2.0)
    assert "ct_x = 4.0 * x ** 3" in tg.grad(lambda x: x**4).source(2.0)
    assert "ct_x = -2.0 * (2.0 / x ** 2) / x" in tg.grad(lambda x: np.sum(2 / x**2)).source(np.ones(2))
    text = tg.grad(lambda x: x**5).source(2.0, backend="c")
    assert re.search(r"double ct_x = 5\.0\*\((\w+)\*\1\);", text), text
