"""The special functions that are copied into generated text, against mpmath."""

import math

import mpmath
import numpy as np
import pytest

from tracegrad.ops import helpers

POINTS = [0.01, 0.5, 1.0, 2.0, 3.3, 9.99, 10.0, 25.0, 1e3, 1e8, -0.3, -1.5, -2.25, -10.7]


def test_digamma():
    found = helpers.digamma(np.array(POINTS))
    np.testing.assert_allclose(found, [float(mpmath.digamma(x)) for x in POINTS], rtol=1e-14)


def test_erfinv():
    points = [1e-300, -1e-8, 0.1, -0.5, 0.84, 0.86, -0.99, 1 - 1e-9, 1 - 1e-12, 2**-53 - 1]
    with mpmath.workdps(40):
        expected = [float(mpmath.erfinv(mpmath.mpf(x))) for x in points]
    np.testing.assert_allclose(helpers.erfinv(np.array(points)), expected, rtol=2e-15)
    np.testing.assert_array_equal(
        helpers.erfinv(np.array([1.0, -1.0, 1.5, np.nan, 0.0])), [np.inf, -np.inf, np.nan, np.nan, 0.0]
    )


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_polygamma(order):
    found = helpers.polygamma(order, np.array(POINTS))
    expected = [float(mpmath.polygamma(order, x)) for x in POINTS]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_bessel_i(order):
    points = np.array([0.0, 1e-9, 0.3, 2.0, 7.9, 29.9, 30.1, 60.0, 400.0, 700.0])
    points = np.concatenate([points, -points])
    expected = [float(mpmath.besseli(order, x)) for x in points]
    np.testing.assert_allclose(helpers.bessel_i(order, points), expected, rtol=1e-13)


def test_at_the_ends():
    np.testing.assert_array_equal(helpers.lgamma(np.array([0.0, -2.0, -np.inf, np.inf, 1e306])), np.inf)
    np.testing.assert_array_equal(helpers.gamma(np.array([200.0, -1.0, 5.0])), [np.inf, np.nan, 24.0])
    np.testing.assert_array_equal(helpers.digamma(np.array([0.0, -0.0, -3.0])), [-np.inf, np.inf, np.nan])
    assert helpers.polygamma(1, np.array([-1.0]))[0] == np.inf
    assert math.isnan(helpers.erf(np.array([np.nan]))[0])
    for function in (helpers.erf, helpers.erfc, helpers.erfinv, helpers.lgamma, helpers.digamma):
        assert function(np.zeros((2, 0), np.float32)).dtype == np.float32
