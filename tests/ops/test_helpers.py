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


def _exactly(function, *points):
    with mpmath.workdps(40):
        return [float(function(*map(mpmath.mpf, point))) for point in zip(*points, strict=True)]


def test_ndtri():
    points = np.array([1e-300, 1e-20, 1e-5, 0.07, 0.08, 0.4, 0.9, 0.93, 1 - 1e-9])
    expected = _exactly(lambda p: -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * p), points[1:])
    np.testing.assert_allclose(helpers.ndtri(points[1:]), expected, rtol=2e-15)
    np.testing.assert_allclose(helpers.ndtri(points[:1]), -37.0471, rtol=1e-6)
    np.testing.assert_array_equal(
        helpers.ndtri(np.array([0.0, 1.0, 0.5, -0.1, np.nan])), [-np.inf, np.inf, 0.0, np.nan, np.nan]
    )


def test_erfcx_and_dawsn():
    points = np.array([-3.0, -0.2, 0.0, 0.05, 0.3, 1.2, 1.3, 2.8, 2.9, 7.0, 11.9, 12.1, 26.0])
    expected = _exactly(lambda x: mpmath.exp(x * x) * mpmath.erfc(x), points)
    np.testing.assert_allclose(helpers.erfcx(points), expected, rtol=3e-15)
    np.testing.assert_allclose(helpers.erfcx(np.array([1e9])), 1e-9 / math.sqrt(math.pi), rtol=1e-15)
    expected = _exactly(lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x), points)
    np.testing.assert_allclose(helpers.dawsn(points), expected, rtol=3e-15)
    np.testing.assert_array_equal(helpers.dawsn(-points), -helpers.dawsn(points))


def test_exp1():
    points = np.array([1e-8, 0.1, 1.49, 1.51, 5.0, 80.0])
    np.testing.assert_allclose(helpers.exp1(points), _exactly(mpmath.e1, points), rtol=2e-15)
    np.testing.assert_array_equal(helpers.exp1(np.array([0.0, -1.0, np.inf])), [np.inf, np.nan, 0.0])


@pytest.mark.parametrize("order", [0, 1, 2, 5, 9])
def test_bessel_j_and_k(order):
    points = np.array([1e-6, 0.3, 1.9, 2.1, 3.0, 9.0, 24.9, 25.1, 39.0, 41.0, 300.0])
    expected = _exactly(lambda x: mpmath.besselj(order, x), points)
    np.testing.assert_allclose(helpers.bessel_j(order, points), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(helpers.bessel_j(order, -points), (-1) ** order * helpers.bessel_j(order, points))
    np.testing.assert_array_equal(helpers.bessel_j(order, np.array([0.0, np.inf, np.nan])), [order == 0, 0.0, np.nan])
    expected = _exactly(lambda x: mpmath.besselk(order, x), points)
    np.testing.assert_allclose(helpers.bessel_k(order, points), expected, rtol=4e-15)
    expected = _exactly(lambda x: mpmath.exp(x) * mpmath.besselk(order, x), points)
    np.testing.assert_allclose(helpers.bessel_k(order, points, True), expected, rtol=4e-15)
    expected = _exactly(lambda x: mpmath.exp(-x) * mpmath.besseli(order, x), points)
    np.testing.assert_allclose(helpers.bessel_i(order, points, True), expected, rtol=4e-15)
    np.testing.assert_array_equal(helpers.bessel_k(order, np.array([0.0, np.inf, -1.0])), [np.inf, 0.0, np.nan])


def test_incomplete_gamma():
    a, x = (
        v.ravel() for v in np.meshgrid([0.01, 0.3, 1.0, 3.0, 40.0, 200.0], [1e-3, 0.5, 1.01, 2.0, 9.0, 41.0, 150.0])
    )
    for order in range(3):
        expected = _exactly(
            lambda a, x, n=order: mpmath.diff(lambda t: mpmath.gammainc(t, 0, x, regularized=True), a, n), a, x
        )
        np.testing.assert_allclose(helpers.gammainc(order, a, x), expected, rtol=1e-12, atol=1e-13)
    expected = _exactly(lambda a, x: mpmath.gammainc(a, x, regularized=True), a, x)
    np.testing.assert_allclose(helpers.gammaincc(a, x), expected, rtol=1e-12, atol=1e-16)
    ends = np.array([0.0, np.inf, -1.0])
    np.testing.assert_array_equal(helpers.gammainc(0, np.ones(3), ends), [0.0, 1.0, np.nan])
    np.testing.assert_array_equal(helpers.gammaincc(np.ones(3), ends), [1.0, 0.0, np.nan])


@pytest.mark.parametrize("orders", [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)])
def test_incomplete_beta(orders):
    a, b, x = (v.ravel() for v in np.meshgrid([0.1, 1.0, 2.5, 50.0], [0.2, 1.5, 40.0], [1e-3, 0.3, 0.8, 0.999]))

    def exact(a, b, x):
        return mpmath.diff(lambda s, t: mpmath.betainc(s, t, 0, x, regularized=True), (a, b), orders)

    np.testing.assert_allclose(helpers.betainc(*orders, a, b, x), _exactly(exact, a, b, x), rtol=1e-11, atol=1e-13)
    ends = np.array([0.0, 1.0, 1.1])
    found = helpers.betainc(*orders, np.ones(3), np.ones(3), ends)
    np.testing.assert_array_equal(found, [0.0, 1.0 if orders == (0, 0) else 0.0, np.nan])
