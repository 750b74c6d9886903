"""Distributions and statistics of scipy.stats on traced values: against SciPy, gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

stats = pytest.importorskip("scipy.stats")

X = np.array([0.3, 1.2, 0.7, 2.1, 0.9, 1.4])
KNOWN = np.array([1.0, 2.0, 0.5, 4.0, 3.5, 2.2])
FUNCTIONS = ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf")
#: name -> shape parameters, and what brings X into the support
CONTINUOUS: dict[str, tuple[tuple[float, ...], Callable[[Any], Any]]] = {
    **dict.fromkeys(("norm", "laplace", "logistic", "cauchy", "gumbel_r", "gumbel_l"), ((), lambda x: x - 1.05)),
    **dict.fromkeys(("expon", "halfnorm", "rayleigh", "maxwell", "halfcauchy"), ((), lambda x: x)),
    "uniform": ((), lambda x: x / 5),
    "gamma": ((2.3,), lambda x: x),
    "beta": ((2.3, 1.7), lambda x: x / 3),
    "t": ((3.5,), lambda x: 2 * x - 2.5),
    "chi2": ((3.0,), lambda x: x),
    "f": ((3.0, 5.0), lambda x: x),
    "lognorm": ((0.7,), lambda x: x),
    "weibull_min": ((1.7,), lambda x: x),
    "weibull_max": ((1.7,), lambda x: -x - 0.2),
    "pareto": ((2.5,), lambda x: x + 1.2),
    "lomax": ((2.0,), lambda x: x),
    "powerlaw": ((1.5,), lambda x: x / 3),
    "invgamma": ((2.5,), lambda x: x),
    "invgauss": ((1.2,), lambda x: x),
    "loggamma": ((1.3,), lambda x: x - 1),
    "truncnorm": ((-1.0, 2.0), lambda x: x / 2),
    "triang": ((0.4,), lambda x: x / 3),
    "loguniform": ((0.2, 4.0), lambda x: x + 0.2),
    "gennorm": ((1.3,), lambda x: x),
    "skewnorm": ((1.5,), lambda x: x),
    "vonmises": ((1.3,), lambda x: x),
}
DENSITY_ONLY = {"gennorm", "skewnorm", "vonmises"}
QUANTILES = (
    *(
        "norm",
        "expon",
        "uniform",
        "laplace",
        "logistic",
        "cauchy",
        "halfcauchy",
        "lognorm",
        "weibull_min",
        "weibull_max",
    ),
    *("pareto", "lomax", "powerlaw", "halfnorm", "gumbel_r", "gumbel_l", "rayleigh", "loguniform"),
)
DISCRETE: dict[str, tuple[Any, ...]] = {
    "poisson": (2.3,),
    "binom": (5, 0.4),
    "bernoulli": (0.3,),
    "nbinom": (3.0, 0.4),
    "geom": (0.4,),
}


def _methods(name: str) -> tuple[str, ...]:
    return FUNCTIONS[:2] if name in DENSITY_ONLY else FUNCTIONS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_functions_of_numbers(name: str, backend: str) -> None:
    shapes, inside = CONTINUOUS[name]
    own = getattr(stats, name)

    def f(x: Any) -> Any:
        moved = [shape + 0.01 * x[k] for k, shape in enumerate(shapes)]
        place, scale = 0.02 * x[1], 1 + 0.1 * x[2]
        values = [getattr(own, method)(inside(x), *moved, loc=place, scale=scale) for method in _methods(name)]
        return sum(np.sum(np.cos(value + k)) for k, value in enumerate(values))

    check_agreement(f, backend, X)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_outside_the_support_and_of_wrong_parameters(name: str) -> None:
    shapes, _ = CONTINUOUS[name]
    own, points = getattr(stats, name), np.array([-50.0, -0.5, 0.0, 1.0, 2.0, 50.0, np.nan])
    with np.errstate(all="ignore"):
        values = tg.function(lambda x: [getattr(own, method)(x, *shapes) for method in _methods(name)])(points)
        for method, found in zip(_methods(name), values, strict=True):
            np.testing.assert_allclose(found, getattr(own, method)(points, *shapes), rtol=1e-9, atol=1e-30)
        found = tg.function(lambda x: own.logpdf(x, *shapes, scale=x))(np.array([-1.0, 0.0]))
        assert np.all(np.isnan(found))
        if shapes and name not in ("skewnorm", "triang", "truncnorm"):
            assert np.isnan(tg.function(lambda a: own.logpdf(0.5, a, *shapes[1:]))(-1.0))


def test_a_number_outside_has_no_part_in_the_gradient() -> None:
    points = np.array([-1.0, 0.0, 2.0])
    gradient = tg.grad(lambda s: np.sum(stats.lognorm.pdf(points, s)))(0.7)
    np.testing.assert_allclose(gradient, tg.grad(lambda s: stats.lognorm.pdf(2.0, s))(0.7), rtol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles(name: str, backend: str) -> None:
    shapes, _ = CONTINUOUS[name]
    own = getattr(stats, name)

    def f(x: Any) -> Any:
        moved = [shape + 0.01 * x[k] for k, shape in enumerate(shapes)]
        quantiles = own.ppf(x / 3, *moved, scale=x[0]) + 2 * own.isf(x / 3, *moved, loc=x[1])
        return np.sum(np.cos(quantiles)) + own(*moved, loc=x[2]).median()

    check_agreement(f, backend, X)
    ends = np.array([0.0, 1.0, -0.1, 1.1])
    np.testing.assert_array_equal(tg.function(lambda q: own.ppf(q, *shapes))(ends), own.ppf(ends, *shapes))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str, backend: str) -> None:
    own, shapes = getattr(stats, name), DISCRETE[name]
    counts = np.array([0, 1, 2, 5, 6, 1])

    def f(x: Any) -> Any:
        moved = (*shapes[:-1], shapes[-1] + 0.01 * x)
        values = [own.pmf(counts, *moved), own.cdf(counts, *moved), own.sf(counts - 0.5, *moved)]
        own_moments = own(*shapes[:-1], shapes[-1] + 0.01 * x[3])
        moments = own_moments.mean() + 2 * own_moments.var() + 3 * own_moments.std()
        first = own.logpmf(1, *shapes[:-1], shapes[-1] + 0.01 * x[0])
        return sum(np.sum(np.cos(value + k)) for k, value in enumerate(values)) + moments + first

    check_agreement(f, backend, X)
    points = np.array([-1.0, 0.5, 1.0, 3.0, 9.0])
    for method in ("pmf", "logpmf", "cdf", "sf"):
        with np.errstate(all="ignore"):
            found = tg.function(lambda k, method=method: getattr(own, method)(k, *shapes))(points)
            np.testing.assert_allclose(found, getattr(own, method)(points, *shapes), rtol=1e-11, atol=1e-15)


COVARIANCE = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])
FROZEN = stats.norm(0.5, 2.0)


def frozen(x: Any) -> Any:
    own = stats.norm(x[0], scale=x[1])
    other = stats.gamma(a=x[2], scale=2.0)
    return np.sum(own.logpdf(x) + own.cdf(x) * other.sf(x)) + own.mean() + other.var() + np.sum(FROZEN.logpdf(x))


def moments(x: Any) -> Any:
    total = stats.beta(x[0], x[1]).mean() + stats.weibull_min(x[2]).var() + stats.lognorm.std(x[3] / 3)
    return total + stats.uniform.mean(x[0], x[1]) + stats.rayleigh.var(scale=x[4]) + stats.chi2.std(x[5])


def several_variables(x: Any) -> Any:
    rows = np.stack([x[:3], x[3:]])
    factor = COVARIANCE + 0.1 * np.outer(x[:3], x[:3])
    total = np.sum(stats.multivariate_normal.logpdf(rows, x[1:4], factor))
    total += stats.multivariate_normal(x[:3], factor).pdf(rows[1])
    total += np.sum(stats.multivariate_normal.logpdf(x[:3], cov=x[3]))
    return total + np.sum(stats.multivariate_normal.pdf(x, x[0], x[1])) + stats.multivariate_normal.logpdf(x[0])


def samples(x: Any) -> Any:
    rows = x.reshape(2, 3)
    total = np.sum(stats.zscore(x, ddof=1) * KNOWN) + stats.skew(x) + stats.kurtosis(x) + stats.gmean(x)
    total += stats.hmean(x, weights=KNOWN) + stats.sem(x) + stats.variation(x) + stats.iqr(x) + stats.moment(x, 3)
    total += stats.entropy(x) + stats.entropy(x, KNOWN, base=2) + stats.skew(x, bias=False)
    total += stats.kurtosis(x, bias=False, fisher=False) + np.sum(stats.zscore(rows, axis=None)[0])
    return total + np.sum(stats.gmean(rows, axis=1)) + stats.norm.nnlf((x[0], x[1]), KNOWN)


def hypotheses(x: Any) -> Any:
    r, p = stats.pearsonr(x, KNOWN)
    line = stats.linregress(KNOWN, x)
    t = stats.ttest_1samp(x, 0.5)
    return r + 2 * p + line.slope + 2 * line.intercept + line.stderr + line.pvalue + t.statistic + t.pvalue


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [frozen, moments, several_variables, samples, hypotheses], ids=lambda f: f.__name__)
def test_programs(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, X, X[::-1] * 1.3)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: stats.gamma.ppf(0.3, x), "scipy.stats.gamma.ppf is not supported"),
        (lambda x: stats.nakagami.logpdf(x, 2.0), "scipy.stats.nakagami.logpdf is not supported"),
        (lambda x: stats.norm(x).entropy(), "scipy.stats.norm.entropy is not supported"),
        (lambda x: stats.nakagami(x), "scipy.stats.nakagami is not supported"),
        (lambda x: stats.norm(x).rvs(3), "the same draw at every call|norm.rvs is not supported"),
    ],
)
def test_refused(function: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        tg.grad(function)(1.5)
