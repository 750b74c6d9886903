"""Small negative powers: right at the ends of the numbers, and no power in the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("exponent", [-2, -3, -4, -5])
def test_slopes_at_the_ends(backend: str, exponent: int) -> None:
    x = np.array([np.inf, -np.inf, 0.0, -0.0, 1e6, -3.0, 0.5], np.float32)
    with np.errstate(all="ignore"):
        found = tg.grad(lambda x: np.sum(x**exponent), backend=backend)(x)
        expected = exponent * x.astype(np.float64) ** (exponent - 1)
    assert np.allclose(found, expected, rtol=1e-6, atol=0)
    assert (np.signbit(found) == np.signbit(expected)).all()


@pytest.mark.parametrize("exponent", [-2, -3, -4])
def test_second_derivatives_and_values(exponent: int) -> None:
    def f(x: Any) -> Any:
        return np.sum(x**exponent)

    x = np.array([0.5, -2.0, 10.0])
    assert np.allclose(tg.hvp(f, (x,), (np.ones(3),)), exponent * (exponent - 1) * x ** (exponent - 2))
    z = x + 1j * x[::-1]
    assert np.allclose(tg.function(lambda z: z**exponent)(z), z**exponent)
    text = tg.function(f).source(x)
    assert "1.0 / " in text and f"** {exponent}" not in text
