"""What a pullback takes and gives: one cotangent per argument passed, None for zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentTypeError

X = np.array([1.0, 2.0])


def powers(x, a=2.0, k=3, *, shift=0.5):
    return np.sum(x**k) * a + shift


def parts(x, k=2):
    return {"a": x**k, "b": (x[:1] * 5.0, 3)}


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_defaults_left_out_get_no_cotangent(backend: str) -> None:
    passed: list[tuple[Any, ...]] = [(X,), (X, 3.0), (X, 3.0, 2), (X,)]
    for arguments in passed:
        _, pull = tg.vjp(powers, *arguments, backend=backend)
        cts = pull(2.0)
        expected = tg.grad(powers)(*arguments), np.sum(X ** (arguments[2] if len(arguments) == 3 else 3))
        assert len(cts) == len(arguments)
        np.testing.assert_allclose(cts[0], 2.0 * expected[0], rtol=1e-14)
        if len(arguments) > 1:
            np.testing.assert_allclose(cts[1], 2.0 * expected[1], rtol=1e-14)
        assert cts[2:] in ((), (None,))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_defaults_left_out_in_captured_code(backend: str) -> None:
    def products(x):
        total = 0.0 * x
        for k in (2, 3):
            _, pull = tg.vjp(lambda z, k=k: np.sum(z**k), x)
            (ct,) = pull(1.0)
            total = total + ct
        return total

    np.testing.assert_allclose(tg.function(products, backend=backend)(X), 2 * X + 3 * X**2, rtol=1e-14)
    np.testing.assert_allclose(products(X), 2 * X + 3 * X**2, rtol=1e-14)
    _, early = tg.vjp(powers, X, backend=backend)
    (ct,) = tg.function(lambda c: early(c), backend=backend)(2.0)
    np.testing.assert_allclose(ct, 12 * X**2, rtol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_none_is_a_zero_cotangent(backend: str) -> None:
    def pulled(x, c):
        _, pull = tg.vjp(parts, x)
        return pull({"a": c, "b": None})[0], pull({"a": None, "b": (c[:1], None)})[0], pull(None)[0]

    expected = 2 * X * X, np.array([5.0 * X[0], 0.0]), np.zeros(2)
    captured = tg.function(pulled, backend=backend, dynamic=True)
    for found in (captured(X, X), pulled(X, X)):
        for mine, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-14)
    with pytest.raises(ArgumentTypeError, match=r"TG209"):
        tg.vjp(parts, X)[1]({"a": X})


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_none_in_the_tangent_of_a_structure(backend: str) -> None:
    def f(p):
        return p["w"] * p["b"]

    p = {"w": X, "b": np.array([3.0, 4.0])}
    _, t_out = tg.jvp(f, (p,), ({"w": X, "b": None},), backend=backend)
    np.testing.assert_allclose(t_out, X * p["b"], rtol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_with_and_without_aux_are_two_pullbacks(backend: str) -> None:
    def f(x):
        return np.sum(x**2), np.sum(x**3)

    np.testing.assert_allclose(tg.vjp(f, X, backend=backend)[1]((1.0, 1.0))[0], 2 * X + 3 * X**2, rtol=1e-14)
    np.testing.assert_allclose(tg.vjp(f, X, has_aux=True, backend=backend)[1](1.0)[0], 2 * X, rtol=1e-14)
