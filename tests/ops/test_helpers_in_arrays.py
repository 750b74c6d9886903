"""Helpers that work on whole arrays, against what computes one element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tracegrad.ops.helpers import add_rows, blend, erf, erfc, logistic, softplus

SPECIAL = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-300, 40.0, -40.0] * 8)


def units(found: np.ndarray, expected: list[float]) -> float:
    """Return the greatest error in units of the last place."""
    rounded = np.array(expected).astype(found.dtype)
    return float(np.max(np.abs(found.astype(float) - np.array(expected)) / np.spacing(np.abs(rounded))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_functions(dtype: type, rng: np.random.Generator) -> None:
    for low, high in ((-7, 7), (-1.3, 1.3), (0, 1e-3), (1, 9)):
        x = rng.uniform(low, high, (3, 7000)).astype(dtype)
        assert units(erf(x).ravel(), [math.erf(v) for v in x.ravel().tolist()]) < 2.0
        assert units(erfc(x).ravel(), [math.erfc(v) for v in x.ravel().tolist()]) < 5.0  # math.erfc errs by 2.6
    for function, expected in ((erf, math.erf), (erfc, math.erfc)):
        values = [expected(v) for v in SPECIAL.tolist()]
        np.testing.assert_allclose(function(SPECIAL.astype(dtype)), np.array(values).astype(dtype), rtol=1e-6)
    assert np.signbit(erf(SPECIAL.astype(dtype))[1])
    assert erfc(np.full(64, 26.5))[0] == pytest.approx(math.erfc(26.5), rel=1e-15)


def test_error_functions_of_few_elements_and_of_halves() -> None:
    assert float(erf(0.5)) == math.erf(0.5)
    x = np.linspace(-3, 3, 100).astype(np.float16)
    assert erf(x).dtype == erfc(x).dtype == np.float16
    np.testing.assert_allclose(erf(x), [math.erf(v) for v in x], rtol=2e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_logistic_and_softplus(dtype: type) -> None:
    x = np.array([-90.0, -3.0, 0.0, 2.0, 90.0, math.inf, -math.inf, math.nan]).astype(dtype)
    expected = [1 / (1 + math.exp(-v)) for v in x[:5]]
    np.testing.assert_allclose(logistic(x)[:5], np.array(expected).astype(dtype), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(
        softplus(x)[:5], np.array([max(v, 0) + math.log1p(math.exp(-abs(v))) for v in x[:5].tolist()]).astype(dtype),
        rtol=4 * np.finfo(dtype).eps,
    )  # fmt: skip
    np.testing.assert_array_equal(logistic(x)[5:], [1.0, 0.0, math.nan])
    np.testing.assert_array_equal(softplus(x)[5:], [math.inf, 0.0, math.nan])
    assert logistic(x).dtype == softplus(x).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blend_is_a_choice(dtype: type, rng: np.random.Generator) -> None:
    x, y = (rng.normal(size=(5, 4)).astype(dtype) for _ in range(2))
    x[0, 0], y[0, 1], y[1, 1] = math.nan, math.inf, -0.0
    condition = rng.random((5, 4)) > 0.5
    for a, b in ((x, y), (x, 0.0), (0.0, y), (x[:1], y), (x.T[:, ::-1].T, y), (dtype(2), 0.0), (x, -0.0)):
        found, expected = blend(condition, a, b), np.where(condition, a, b)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_rows_are_added(rng: np.random.Generator) -> None:
    indices, values = rng.integers(-6, 6, (4, 5)), rng.normal(size=(4, 5, 3, 2))
    found, expected = np.zeros((6, 3, 2)), np.zeros((6, 3, 2))
    add_rows(found, indices, values)
    np.add.at(expected, indices, values)
    np.testing.assert_allclose(found, expected)
