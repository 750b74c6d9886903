"""Methods of ufuncs, histograms, quantiles, weights and other options of NumPy's functions: against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.numpy_rows import check, h, positive, random, rows
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

X, P, M = random(6), positive(6), random(3, 4)
MISSING = np.where(np.arange(12).reshape(3, 4) % 5 == 1, np.nan, M)
EDGES = np.array([-1.0, -0.3, 0.2, 1.0])
POINTS = np.array([0.0, 1.0, 3.0, 4.0, 6.0, 7.0])
METHODS = (
    *("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf"),
    *("closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"),
)
STEPPED = (np.subtract, np.divide, np.hypot, np.fmax, np.fmin)


@pytest.mark.parametrize("ufunc", STEPPED, ids=lambda f: f.__name__)
def test_methods_by_steps(ufunc: Any) -> None:
    check(lambda x: [ufunc.reduce(x), ufunc.reduce(x, axis=1, keepdims=True), ufunc.accumulate(x, axis=1)], (M,))


@pytest.mark.parametrize("ufunc", [*STEPPED, np.add, np.multiply, np.maximum, np.logaddexp], ids=lambda f: f.__name__)
def test_reduceat(ufunc: Any) -> None:
    check(lambda x: [ufunc.reduceat(x, [0, 2, 3]), ufunc.reduceat(x, [4, 1])], (P,))
    check(lambda x: ufunc.reduceat(x, [0, 2], axis=1), (M,))


@pytest.mark.parametrize("method", METHODS)
def test_quantile_methods(method: str) -> None:
    shares = [0.0, 0.1, 0.45, 0.5, 1.0]
    check(lambda x: np.quantile(x, shares, axis=1, method=method, keepdims=True), (M,))
    check(lambda x: np.percentile(x, 30, method=method), (X,))


@rows(
    nanmedian=(lambda x: [np.nanmedian(x), np.nanmedian(x, axis=0), np.nanmedian(x, axis=1, keepdims=True)], MISSING),
    nanquantile=(lambda x: [np.nanquantile(x, [0.2, 0.6], axis=1), np.nanquantile(x, 0.3)], MISSING),
    nanquantile_axes=(lambda x: np.nanquantile(x, 0.3, axis=(0, 1), keepdims=True), MISSING),
    nanpercentile=(lambda x: np.nanpercentile(x, [10, 55], axis=0, method="hazen"), MISSING),
    histogram_weights=(lambda x: np.histogram(np.linspace(-2, 2, 6), EDGES, weights=x)[0], X),
    histogram_of_number=(lambda x: list(np.histogram(x, bins=3, weights=x**2)), X),
    histogram_in_range=(lambda x: x * np.histogram(x, bins=6, range=(-0.5, 0.5))[0], X),
    histogram_density=(lambda x: np.histogram(x, EDGES, density=True, weights=x**2)[0], X),
    histogram_of_equal=(lambda x: list(np.histogram(x - x + 1.0, bins=2, weights=x)), X),
    histogram_edges=(lambda x: np.histogram_bin_edges(x, 4), X),
    histogram_2d=(lambda x: list(np.histogram2d(x, np.sin(9 * x), [EDGES, 3], weights=x)), X),
    histogram_2d_density=(lambda x: np.histogram2d(x, x**2, 2, range=[(-1, 1), (0, 1)], density=True)[0] * x[0], X),
    digitize_falling=(lambda x: x * np.digitize(x, EDGES[::-1]), X),
    interp_period=(lambda x: np.interp(5 * x, [0.0, 1.0, 2.5], [1.0, 3.0, 2.0], period=3.0), X),
    interp_period_knots=(lambda x, y: np.interp([0.1, 4.0, -2.0], 4 * x, y, period=3.0), P[:3], X[:3]),
    cov_frequencies=(lambda x: np.cov(x, fweights=[1, 2, 1, 3]), M),
    cov_weights=(lambda x: [np.cov(x, aweights=[1.0, 2, 0.5, 3]), np.cov(x, aweights=[1.0, 2, 0.5, 3], ddof=0)], M),
    cov_both=(lambda x: np.cov(x, x**2, fweights=[1, 2, 1, 3, 1, 1], aweights=[1.0, 2, 0.5, 3, 1, 1]), X),
    gradient_uneven=(lambda x: np.gradient(x**2, POINTS, edge_order=2), X),
    gradient_of_places=(lambda x: np.gradient(POINTS**2, np.cumsum(x), edge_order=2), P),
    gradient_along=(lambda x: np.gradient(x, POINTS[:4], axis=1, edge_order=2), M),
    resize=(lambda x: [np.resize(x, (2, 4)), np.resize(x, 3), np.resize(x[:0], 2)], X),
    compress=(lambda x: [np.compress([True, False, True], x, axis=0), np.compress([False, True], x, axis=1)], M),
    argpartition=(lambda x: x[x.argpartition(3)[3]], X),
    polyint=(lambda x: [np.polyint(x), np.polyint(x, m=2, k=[1.0, 2.0]), np.polyint(x, 2, 3.0)], X),
    reduce_dtype=(lambda x: np.maximum.reduce(x, dtype=np.float64), X.astype(np.float32)),
)  # fmt: skip
def test_rows(function: Callable[..., Any], arrays: tuple[Any, ...]) -> None:
    if any(np.isnan(a).any() for a in arrays):
        _check_with_missing(function, arrays[0])
    else:
        check(function, arrays)


def _check_with_missing(function: Callable[..., Any], x: Any) -> None:
    present = ~np.isnan(x)

    def filled(values: Any) -> Any:
        return function(np.where(present, values, np.nan))

    check(filled, (np.where(present, x, 0.5),))


def test_nothing_but_nan() -> None:
    x = np.array([[np.nan, 1.0], [np.nan, 2.0]])
    np.testing.assert_array_equal(tg.function(lambda x: np.nanquantile(x, 0.5, axis=0))(x), [np.nan, 1.5])


def test_digitize_by_edges_from_outside() -> None:
    """Whether edges fall is found when the code runs."""
    falling = EDGES[::-1].copy()
    found = tg.function(lambda x, edges: np.digitize(x, edges, right=True))
    for edges in (EDGES, falling):
        np.testing.assert_array_equal(found(X, edges), np.digitize(X, edges, right=True))
    np.testing.assert_array_equal(tg.function(lambda x: np.digitize(x, falling))(X), np.digitize(X, falling))


def vectorized(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made = np.vectorize(function, **options)
    return lambda *args, **kwargs: h(np.vectorize.__call__)(made, *args, **kwargs)


def of_core(a: Any, b: Any) -> Any:
    return a @ b, a * b[0]


def power(a: Any, k: Any = 2.0) -> Any:
    return a**k


@rows(
    cores=(lambda x: vectorized(lambda a: np.sum(a**2), signature="(n)->()")(x), M),
    cores_of_two=(lambda x: list(vectorized(of_core, signature="(n),(n)->(),(n)")(x, x[0])), M),
    cores_of_matrices=(lambda x: vectorized(np.outer, signature="(i),(j)->(i,j)")(x, x[0]), M),
    excluded=(lambda x: vectorized(power, excluded=["k"])(x, k=2), X),
    excluded_place=(lambda x: vectorized(power, excluded=[1])(x, 3), X),
    keyword=(lambda x: vectorized(power)(x, k=3.0), X),
)
def test_vectorize(function: Callable[..., Any], arrays: tuple[Any, ...]) -> None:
    check(function, arrays)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: np.power.reduce(x), "numpy.power.reduce is not supported"),
        (lambda x: np.subtract.reduce(x, axis=(0,)), "np.subtract.reduce with dtype or over several axes"),
        (lambda x: np.add.reduceat(x, [0, int(x[0])]), "np.add.reduceat with traced indices"),
        (lambda x: np.histogram(x, "auto")[0], "a histogram with bins='auto'"),
        (lambda x: np.quantile(x, 0.5, weights=x, method="inverted_cdf"), "np.quantile with weights"),
        (lambda x: np.hypot.reduce(np.concatenate([x] * 50)), "np.hypot.reduce of 300 traced elements"),
    ],
)
def test_refused(function: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        tg.function(function)(X)


def _of_lists(x: Any) -> Any:
    a, b = x[0] * 2, x[1]
    grown, squares = [], []
    for v in x:
        squares.append(v * v)
        if v > 0.4:
            grown.append(v)
    best = np.maximum.reduce((a, b, x[2])) + np.logaddexp.reduce([a, b])
    return best + np.add.reduce(grown) + np.sum(np.add.outer(squares, [a, 2.0]) ** 2) + np.multiply.accumulate(squares)


@pytest.mark.parametrize("backend", BACKENDS)
def test_methods_of_ufuncs_take_lists(backend: str) -> None:
    x = np.array([0.3, 0.5, 0.9])
    np.testing.assert_allclose(tg.function(_of_lists, backend=backend)(x), _of_lists(x), rtol=1e-14)
    gradient = tg.grad(lambda x: _of_lists(x).sum(), backend=backend)(x)
    np.testing.assert_allclose(gradient, central_differences(lambda x: _of_lists(x).sum(), x), rtol=1e-7)
