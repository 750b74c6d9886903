"""Distributions of scipy.stats with traced arguments and parameters, and its statistics of samples.

Previous: scipy_linalg.py.

A distribution is a record of formulas for its standard form, written with NumPy; place and scale, the ends of the
support and parameters that are not allowed are done in one place.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.capture.numpy_api import scipy_special as special
from tracegrad.capture.numpy_api.common import covers
from tracegrad.capture.tracer import LATE, asarray, call_handler, cast_to, not_covered, unsupported
from tracegrad.ir.types import F64

_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)


def _everywhere(*shapes: Any) -> tuple[float, float]:
    return -math.inf, math.inf


def _positive(*shapes: Any) -> tuple[float, float]:
    return 0.0, math.inf


def _unit(*shapes: Any) -> tuple[float, float]:
    return 0.0, 1.0


@dataclass(frozen=True)
class Distribution:
    """Formulas of a distribution in standard form: functions of a number and the shape parameters.

    Attributes:
        log: logarithm of the density, or of the probability.
        cdf, sf, logcdf, logsf: distribution function, 1 less it, and their logarithms; one of the first two is enough.
        ppf: inverse of the distribution function.
        support: the least and the greatest number.
        allowed: whether the shape parameters are allowed; by default, whether they are positive.
        moments: mean and variance.
        is_open: the least number has the density 0, and `log` does not say so.
    """

    log: Callable[..., Any]
    cdf: Callable[..., Any] | None = None
    sf: Callable[..., Any] | None = None
    logcdf: Callable[..., Any] | None = None
    logsf: Callable[..., Any] | None = None
    ppf: Callable[..., Any] | None = None
    support: Callable[..., tuple[Any, Any]] = _everywhere
    allowed: Callable[..., Any] | None = None
    moments: Callable[..., tuple[Any, Any]] | None = None
    is_open: bool = False


def _log_normal_density(z: Any) -> Any:
    return -0.5 * z * z - _LOG_ROOT


def _upper_normal(z: Any) -> Any:
    return special.ndtr(-z)


def _inverse_gauss(z: Any, mu: Any, sign: float) -> Any:
    root = 1.0 / np.sqrt(z)
    other = np.exp(2.0 / mu + special.log_ndtr(-root * (z / mu + 1.0)))
    return special.ndtr(sign * root * (z / mu - 1.0)) + sign * other


def _normal_between(a: Any, b: Any) -> Any:
    right = a > 0.0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    return special.ndtr(high) - special.ndtr(low)


def _truncated_cdf(z: Any, a: Any, b: Any) -> Any:
    return _normal_between(a, z) / _normal_between(a, b)


def _triangle(z: Any, c: Any) -> Any:
    rises = z < c
    return np.where(rises, z / np.where(rises, c, 1.0), (1.0 - z) / np.where(rises, 1.0, 1.0 - c))


def _triangle_cdf(z: Any, c: Any) -> Any:
    rises = z < c
    return np.where(rises, z * _triangle(z, c), 1.0 - (1.0 - z) * _triangle(z, c))


def _log_f(z: Any, n: Any, m: Any) -> Any:
    ends = 0.5 * n * np.log(n) + 0.5 * m * np.log(m) - special.beta_ln(0.5 * n, 0.5 * m)
    return ends + special.xlogy(0.5 * n - 1.0, z) - 0.5 * (n + m) * np.log(m + n * z)


def _log_t(z: Any, df: Any) -> Any:
    scale = special.gammaln(0.5 * df + 0.5) - special.gammaln(0.5 * df) - 0.5 * np.log(math.pi * df)
    return scale - 0.5 * (df + 1.0) * np.log1p(z * z / df)


def _log_chi2(z: Any, df: Any) -> Any:
    return special.xlogy(0.5 * df - 1.0, z) - 0.5 * z - special.gammaln(0.5 * df) - 0.5 * math.log(2.0) * df


def _log_lognorm(z: Any, s: Any) -> Any:
    return -0.5 * np.square(np.log(z) / s) - np.log(s * z) - _LOG_ROOT


def _beta_moments(a: Any, b: Any) -> tuple[Any, Any]:
    return a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1.0))


def _weibull_moments(c: Any) -> tuple[Any, Any]:
    first = special.gamma(1.0 + 1.0 / c)
    return first, special.gamma(1.0 + 2.0 / c) - first * first


def _lognorm_moments(s: Any) -> tuple[Any, Any]:
    return np.exp(0.5 * s * s), np.expm1(s * s) * np.exp(s * s)


CONTINUOUS: dict[str, Distribution] = {
    "norm": Distribution(
        _log_normal_density,
        special.ndtr,
        _upper_normal,
        special.log_ndtr,
        lambda z: special.log_ndtr(-z),
        special.ndtri,
        moments=lambda: (0.0, 1.0),
    ),
    "expon": Distribution(
        lambda z: -z,
        lambda z: -np.expm1(-z),
        lambda z: np.exp(-z),
        logsf=lambda z: -z,
        ppf=lambda q: -np.log1p(-q),
        support=_positive,
        moments=lambda: (1.0, 1.0),
    ),
    "gamma": Distribution(
        lambda z, a: special.xlogy(a - 1.0, z) - z - special.gammaln(a),
        lambda z, a: special.gammainc(a, z),
        lambda z, a: special.gammaincc(a, z),
        support=_positive,
        moments=lambda a: (a, a),
    ),
    "beta": Distribution(
        lambda z, a, b: special.xlog1py(b - 1.0, -z) + special.xlogy(a - 1.0, z) - special.beta_ln(a, b),
        lambda z, a, b: special.betainc(a, b, z),
        lambda z, a, b: special.betaincc(a, b, z),
        support=_unit,
        moments=_beta_moments,
    ),
    "t": Distribution(_log_t, lambda z, df: special.stdtr(df, z), lambda z, df: special.stdtr(df, -z)),
    "uniform": Distribution(
        lambda z: 0.0 * z,
        lambda z: z,
        lambda z: 1.0 - z,
        ppf=lambda q: q,
        support=_unit,
        moments=lambda: (0.5, 1.0 / 12.0),
    ),
    "laplace": Distribution(
        lambda z: -np.abs(z) - math.log(2.0),
        lambda z: np.where(z > 0.0, 1.0 - 0.5 * np.exp(-np.abs(z)), 0.5 * np.exp(-np.abs(z))),
        lambda z: np.where(z > 0.0, 0.5 * np.exp(-np.abs(z)), 1.0 - 0.5 * np.exp(-np.abs(z))),
        ppf=lambda q: np.where(
            q > 0.5, -np.log(2.0 * np.where(q > 0.5, 1.0 - q, 0.5)), np.log(2.0 * np.where(q > 0.5, 0.5, q))
        ),
        moments=lambda: (0.0, 2.0),
    ),
    "logistic": Distribution(
        lambda z: special.log_expit(z) + special.log_expit(-z),
        special.expit,
        lambda z: special.expit(-z),
        special.log_expit,
        lambda z: special.log_expit(-z),
        special.logit,
        moments=lambda: (0.0, math.pi**2 / 3.0),
    ),
    "cauchy": Distribution(
        lambda z: -math.log(math.pi) - np.log1p(z * z),
        lambda z: np.arctan2(1.0, -z) / math.pi,
        lambda z: np.arctan2(1.0, z) / math.pi,
        ppf=lambda q: np.tan(math.pi * (q - 0.5)),
    ),
    "halfcauchy": Distribution(
        lambda z: math.log(2.0 / math.pi) - np.log1p(z * z),
        lambda z: 2.0 / math.pi * np.arctan(z),
        lambda z: 2.0 / math.pi * np.arctan2(1.0, z),
        ppf=lambda q: np.tan(0.5 * math.pi * q),
        support=_positive,
    ),
    "chi2": Distribution(
        _log_chi2,
        lambda z, df: special.chdtr(df, z),
        lambda z, df: special.chdtrc(df, z),
        support=_positive,
        moments=lambda df: (df, 2.0 * df),
    ),
    "lognorm": Distribution(
        _log_lognorm,
        lambda z, s: special.ndtr(np.log(z) / s),
        lambda z, s: special.ndtr(-np.log(z) / s),
        lambda z, s: special.log_ndtr(np.log(z) / s),
        lambda z, s: special.log_ndtr(-np.log(z) / s),
        lambda q, s: np.exp(s * special.ndtri(q)),
        support=_positive,
        moments=_lognorm_moments,
        is_open=True,
    ),
    "weibull_min": Distribution(
        lambda z, c: np.log(c) + special.xlogy(c - 1.0, z) - z**c,
        lambda z, c: -np.expm1(-(z**c)),
        lambda z, c: np.exp(-(z**c)),
        logsf=lambda z, c: -(z**c),
        ppf=lambda q, c: (-np.log1p(-q)) ** (1.0 / c),
        support=_positive,
        moments=_weibull_moments,
    ),
    "weibull_max": Distribution(
        lambda z, c: np.log(c) + special.xlogy(c - 1.0, -z) - (-z) ** c,
        lambda z, c: np.exp(-((-z) ** c)),
        lambda z, c: -np.expm1(-((-z) ** c)),
        lambda z, c: -((-z) ** c),
        ppf=lambda q, c: -((-np.log(q)) ** (1.0 / c)),
        support=lambda c: (-math.inf, 0.0),
    ),
    "pareto": Distribution(
        lambda z, b: np.log(b) - (b + 1.0) * np.log(z),
        lambda z, b: -np.expm1(-b * np.log(z)),
        lambda z, b: z**-b,
        logsf=lambda z, b: -b * np.log(z),
        ppf=lambda q, b: (1.0 - q) ** (-1.0 / b),
        support=lambda b: (1.0, math.inf),
    ),
    "lomax": Distribution(
        lambda z, c: np.log(c) - (c + 1.0) * np.log1p(z),
        lambda z, c: -np.expm1(-c * np.log1p(z)),
        lambda z, c: np.exp(-c * np.log1p(z)),
        logsf=lambda z, c: -c * np.log1p(z),
        ppf=lambda q, c: np.expm1(-np.log1p(-q) / c),
        support=_positive,
    ),
    "powerlaw": Distribution(
        lambda z, a: np.log(a) + special.xlogy(a - 1.0, z),
        lambda z, a: z**a,
        logcdf=lambda z, a: a * np.log(z),
        ppf=lambda q, a: q ** (1.0 / a),
        support=_unit,
    ),
    "halfnorm": Distribution(
        lambda z: _log_normal_density(z) + math.log(2.0),
        lambda z: special.erf(z * math.sqrt(0.5)),
        lambda z: 2.0 * special.ndtr(-z),
        ppf=lambda q: special.ndtri(0.5 + 0.5 * q),
        support=_positive,
    ),
    "invgamma": Distribution(
        lambda z, a: -(a + 1.0) * np.log(z) - special.gammaln(a) - 1.0 / z,
        lambda z, a: special.gammaincc(a, 1.0 / z),
        lambda z, a: special.gammainc(a, 1.0 / z),
        support=_positive,
        is_open=True,
    ),
    "invgauss": Distribution(
        lambda z, mu: -_LOG_ROOT - 1.5 * np.log(z) - 0.5 * np.square(z / mu - 1.0) / z,
        lambda z, mu: _inverse_gauss(z, mu, 1.0),
        lambda z, mu: _inverse_gauss(z, mu, -1.0),
        support=_positive,
        is_open=True,
    ),
    "gumbel_r": Distribution(
        lambda z: -z - np.exp(-z),
        lambda z: np.exp(-np.exp(-z)),
        lambda z: -np.expm1(-np.exp(-z)),
        lambda z: -np.exp(-z),
        ppf=lambda q: -np.log(-np.log(q)),
    ),
    "gumbel_l": Distribution(
        lambda z: z - np.exp(z),
        lambda z: -np.expm1(-np.exp(z)),
        lambda z: np.exp(-np.exp(z)),
        logsf=lambda z: -np.exp(z),
        ppf=lambda q: np.log(-np.log1p(-q)),
    ),
    "rayleigh": Distribution(
        lambda z: np.log(z) - 0.5 * z * z,
        lambda z: -np.expm1(-0.5 * z * z),
        lambda z: np.exp(-0.5 * z * z),
        logsf=lambda z: -0.5 * z * z,
        ppf=lambda q: np.sqrt(-2.0 * np.log1p(-q)),
        support=_positive,
        moments=lambda: (math.sqrt(0.5 * math.pi), 2.0 - 0.5 * math.pi),
    ),
    "maxwell": Distribution(
        lambda z: 0.5 * math.log(2.0 / math.pi) + 2.0 * np.log(z) - 0.5 * z * z,
        lambda z: special.gammainc(1.5, 0.5 * z * z),
        lambda z: special.gammaincc(1.5, 0.5 * z * z),
        support=_positive,
    ),
    "f": Distribution(
        _log_f,
        lambda z, n, m: special.fdtr(n, m, z),
        lambda z, n, m: special.fdtrc(n, m, z),
        support=_positive,
    ),
    "loggamma": Distribution(
        lambda z, c: c * z - np.exp(z) - special.gammaln(c),
        lambda z, c: special.gammainc(c, np.exp(z)),
        lambda z, c: special.gammaincc(c, np.exp(z)),
    ),
    "gennorm": Distribution(
        lambda z, beta: np.log(0.5 * beta) - special.gammaln(1.0 / beta) - np.abs(z) ** beta,
    ),
    "skewnorm": Distribution(
        lambda z, a: math.log(2.0) + _log_normal_density(z) + special.log_ndtr(a * z), allowed=lambda a: a == a
    ),
    "truncnorm": Distribution(
        lambda z, a, b: _log_normal_density(z) - np.log(_normal_between(a, b)),
        _truncated_cdf,
        lambda z, a, b: _normal_between(z, b) / _normal_between(a, b),
        support=lambda a, b: (a, b),
        allowed=lambda a, b: a < b,
    ),
    "vonmises": Distribution(
        lambda z, kappa: kappa * (np.cos(z) - 1.0) - np.log(2.0 * math.pi * special.i0e(kappa)),
    ),
    "triang": Distribution(
        lambda z, c: np.log(2.0 * _triangle(z, c)),
        _triangle_cdf,
        support=_unit,
        allowed=lambda c: np.logical_and(c >= 0.0, c <= 1.0),
    ),
    "loguniform": Distribution(
        lambda z, a, b: -np.log(z) - np.log(np.log(b / a)),
        lambda z, a, b: np.log(z / a) / np.log(b / a),
        ppf=lambda q, a, b: a * np.exp(q * np.log(b / a)),
        support=lambda a, b: (a, b),
        allowed=lambda a, b: np.logical_and(a > 0.0, b > a),
    ),
}


def _is_share(p: Any) -> Any:
    return np.logical_and(p >= 0.0, p <= 1.0)


def _log_binom(k: Any, n: Any, p: Any) -> Any:
    ways = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return ways + special.xlogy(k, p) + special.xlog1py(n - k, -p)


def _binom_cdf(k: Any, n: Any, p: Any) -> Any:
    inside = k < n
    k = np.where(inside, k, n - 1.0)
    return np.where(inside, special.betaincc(k + 1.0, n - k, p), 1.0)


def _binom_sf(k: Any, n: Any, p: Any) -> Any:
    inside = k < n
    k = np.where(inside, k, n - 1.0)
    return np.where(inside, special.betainc(k + 1.0, n - k, p), 0.0)


def _log_nbinom(k: Any, n: Any, p: Any) -> Any:
    ways = special.gammaln(n + k) - special.gammaln(k + 1.0) - special.gammaln(n)
    return ways + n * np.log(p) + special.xlog1py(k, -p)


DISCRETE: dict[str, Distribution] = {
    "poisson": Distribution(
        lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1.0) - mu,
        lambda k, mu: special.pdtr(k, mu),
        lambda k, mu: special.pdtrc(k, mu),
        support=_positive,
        allowed=lambda mu: mu >= 0.0,
        moments=lambda mu: (mu, mu),
    ),
    "binom": Distribution(
        _log_binom,
        _binom_cdf,
        _binom_sf,
        support=lambda n, p: (0.0, n),
        allowed=lambda n, p: np.logical_and(n >= 0.0, _is_share(p)),
        moments=lambda n, p: (n * p, n * p * (1.0 - p)),
    ),
    "bernoulli": Distribution(
        lambda k, p: special.xlogy(k, p) + special.xlog1py(1.0 - k, -p),
        lambda k, p: np.where(k < 1.0, 1.0 - p, 1.0),
        lambda k, p: np.where(k < 1.0, p, 0.0),
        support=_unit,
        allowed=_is_share,
        moments=lambda p: (p, p * (1.0 - p)),
    ),
    "nbinom": Distribution(
        _log_nbinom,
        lambda k, n, p: special.betainc(n, k + 1.0, p),
        lambda k, n, p: special.betaincc(n, k + 1.0, p),
        support=_positive,
        allowed=lambda n, p: np.logical_and(n > 0.0, np.logical_and(p > 0.0, p <= 1.0)),
        moments=lambda n, p: (n * (1.0 - p) / p, n * (1.0 - p) / (p * p)),
    ),
    "geom": Distribution(
        lambda k, p: np.log(p) + special.xlog1py(k - 1.0, -p),
        lambda k, p: -np.expm1(k * np.log1p(-p)),
        lambda k, p: np.exp(k * np.log1p(-p)),
        support=lambda p: (1.0, math.inf),
        allowed=lambda p: np.logical_and(p > 0.0, p <= 1.0),
        moments=lambda p: (1.0 / p, (1.0 - p) / (p * p)),
    ),
}


# ---- methods


def _float(value: Any) -> Any:
    return cast_to(asarray(value), F64)


class _Form:
    """A distribution with its parameters."""

    def __init__(self, own: Any, numbers: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any], method: str):
        self.is_discrete = own.name in DISCRETE
        found = DISCRETE.get(own.name) or CONTINUOUS.get(own.name)
        if found is None:
            raise not_covered(f"scipy.stats.{own.name}.{method}", (*numbers, *args))
        self.name, self.method, self.formulas, self.given = own.name, method, found, (*numbers, *args)
        shapes, loc, scale = own._parse_args(*args, **kwargs)
        self.shapes = [_float(shape) for shape in shapes]
        self.loc, self.scale = _float(loc), _float(scale)
        self.allowed = self.scale > 0.0
        if self.formulas.allowed is not None:
            self.allowed = np.logical_and(self.allowed, self.formulas.allowed(*self.shapes))
        else:
            for shape in self.shapes:
                self.allowed = np.logical_and(self.allowed, shape > 0.0)
            self.shapes = [np.where(shape > 0.0, shape, 1.0) for shape in self.shapes]
        self.scale = np.where(self.scale > 0.0, self.scale, 1.0)
        self.low, self.high = self.formulas.support(*self.shapes)

    def formula(self, *names: str) -> Callable[..., Any]:
        for name in names:
            found = getattr(self.formulas, name)
            if found is not None:
                return functools.partial(_with_shapes, found, self.shapes)
        raise not_covered(f"scipy.stats.{self.name}.{self.method}", self.given)

    def at(self, x: Any) -> tuple[Any, Any, Any]:
        """Return x in standard form, the same with a number of the support where it is outside, and where it is not."""
        z = (_float(x) - self.loc) / self.scale
        inside = np.logical_and(z > self.low if self.formulas.is_open else z >= self.low, z <= self.high)
        return z, np.where(inside, z, self._middle()), inside

    def _middle(self) -> Any:
        ends = [end for end in (self.low, self.high) if not (isinstance(end, float) and math.isinf(end))]
        if len(ends) == 2:
            return 0.5 * (ends[0] + ends[1]) if not self.is_discrete else self.low
        return 0.0 if not ends else ends[0] + 1.0 if ends[0] is self.low else ends[0] - 1.0

    def or_nan(self, value: Any) -> Any:
        return np.where(self.allowed, value, np.nan)


def _with_shapes(formula: Callable[..., Any], shapes: list[Any], z: Any) -> Any:
    return formula(z, *shapes)


def _log_density(form: _Form, x: Any) -> Any:
    z, safe, inside = form.at(x)
    if form.is_discrete:
        inside = np.logical_and(inside, np.floor(z) == z)
        safe = np.floor(safe)
    value = form.formula("log")(safe)
    value = value if form.is_discrete else value - np.log(form.scale)
    return form.or_nan(np.where(np.isnan(z), np.nan, np.where(inside, value, -np.inf)))


def _density(form: _Form, x: Any) -> Any:
    return np.exp(_log_density(form, x))


def _probability(form: _Form, x: Any, wanted: str) -> Any:
    """Return the distribution function (`cdf`), 1 less it (`sf`), or the logarithm of either."""
    is_log, side = wanted.startswith("log"), wanted.removeprefix("log")
    z, safe, inside = form.at(x)
    if form.is_discrete:
        safe = np.floor(safe)
    other = "sf" if side == "cdf" else "cdf"
    has_own, has_other = (getattr(form.formulas, name) is not None for name in (side, other))
    if is_log and getattr(form.formulas, wanted) is not None:
        value = form.formula(wanted)(safe)
    elif is_log and has_own and has_other:  # by the smaller of the two
        share = form.formula(side)(safe)
        less = share < 0.5
        rest = np.where(less, 0.0, form.formula(other)(safe))
        value = np.where(less, np.log(np.where(less, share, 1.0)), np.log1p(-rest))
    else:
        value = form.formula(side, other)(safe)
        value = value if has_own else 1.0 - value
        value = np.log(value) if is_log else value
    below, above = (0.0, 1.0) if side == "cdf" else (1.0, 0.0)
    if is_log:
        below, above = (-np.inf, 0.0) if side == "cdf" else (0.0, -np.inf)
    outside = np.where(z > form.low, above, below)
    return form.or_nan(np.where(np.isnan(z), np.nan, np.where(inside, value, outside)))


def _quantile(form: _Form, q: Any, upper: bool) -> Any:
    share = _float(q)
    inside = np.logical_and(share > 0.0, share < 1.0)
    safe = np.where(inside, share, 0.5)
    value = form.formula("ppf")(1.0 - safe if upper else safe)
    low, high = (form.high, form.low) if upper else (form.low, form.high)
    ends = np.where(share == 0.0, low, np.where(share == 1.0, high, np.nan))
    return form.or_nan(np.where(inside, value, ends) * form.scale + form.loc)


def _moment(form: _Form, wanted: str) -> Any:
    moments = form.formulas.moments
    if moments is None:
        raise not_covered(f"scipy.stats.{form.name}.{wanted}", form.given)
    mean, variance = moments(*form.shapes)
    if wanted == "mean":
        return form.or_nan(mean * form.scale + form.loc)
    variance = variance * form.scale * form.scale
    return form.or_nan(variance if wanted == "var" else np.sqrt(variance))


_METHODS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("logpdf", "logpmf"), _log_density),
    **dict.fromkeys(("pdf", "pmf"), _density),
    **{name: functools.partial(_probability, wanted=name) for name in ("cdf", "sf", "logcdf", "logsf")},
    "ppf": functools.partial(_quantile, upper=False),
    "isf": functools.partial(_quantile, upper=True),
    "median": lambda form: _quantile(form, 0.5, upper=False),
    **{name: functools.partial(_moment, wanted=name) for name in ("mean", "var", "std")},
}
#: methods of a distribution, not of its parameters alone
_OF_NUMBER = frozenset("logpdf logpmf pdf pmf cdf sf logcdf logsf ppf isf".split())


def _call_method(name: str, own: Any, *args: Any, **kwargs: Any) -> Any:
    if name not in _METHODS:
        raise not_covered(f"scipy.stats.{own.name}.{name}", args)
    if name not in _OF_NUMBER:
        return _METHODS[name](_Form(own, (), args, kwargs, name))
    if not args:
        args = (kwargs.pop("q" if name in ("ppf", "isf") else "k" if own.name in DISCRETE else "x"),)
    return _METHODS[name](_Form(own, args[:1], args[1:], kwargs, name), args[0])


class Frozen:
    """A distribution of SciPy with traced parameters."""

    def __init__(self, dist: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.dist, self.args, self.kwds = dist, args, kwargs


def _freeze(own: Any, *args: Any, **kwargs: Any) -> Frozen:
    return Frozen(own, args, kwargs)


def _of_frozen(name: str, frozen: Any, *args: Any, **kwargs: Any) -> Any:
    if name not in _OF_NUMBER:
        return _call_method(name, frozen.dist, *frozen.args, **frozen.kwds)
    return _call_method(name, frozen.dist, *args, *frozen.args, **kwargs, **frozen.kwds)


def _add_method(name: str) -> None:
    def method(self: Frozen, *args: Any, **kwargs: Any) -> Any:
        return _of_frozen(name, self, *args, **kwargs)

    setattr(Frozen, name, method)


for _name in (*_METHODS, "entropy", "expect", "interval", "moment", "rvs", "stats", "support"):
    _add_method(_name)


def _negative_log_likelihood(own: Any, theta: Any, x: Any) -> Any:
    return -np.sum(_call_method("logpdf", own, x, *theta))


# ---- the normal distribution of several variables


def _log_normal(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    if allow_singular:
        raise unsupported("scipy.stats.multivariate_normal with allow_singular=True", "give a covariance of full rank")
    x, matrix = asarray(x), asarray(cov)
    place = asarray(np.zeros(1)) if mean is None else asarray(mean)
    size = max(part.shape[-1] for part in (matrix, place) if part.ndim) if matrix.ndim or place.ndim else 1
    if matrix.ndim < 2:
        matrix = call_handler(np.diag, call_handler(np.broadcast_to, matrix, (size,)))
    x = x if x.ndim and (size > 1 or x.shape[-1] == 1) else x[..., None]
    factor = call_handler(np.linalg.cholesky, matrix)
    away = x - place
    rows = call_handler(np.reshape, away, (-1, size))
    white = call_handler(np.linalg.solve, factor, call_handler(np.transpose, rows))
    square = call_handler(np.reshape, np.sum(np.square(white), axis=0), away.shape[:-1])
    return -0.5 * square - np.sum(np.log(np.diagonal(factor))) - size * _LOG_ROOT


def _normal(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    return np.exp(_log_normal(x, mean, cov, allow_singular))


class FrozenNormal:
    """A normal distribution of several variables with traced parameters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwds = args, kwargs

    def logpdf(self, x: Any) -> Any:
        return _log_normal(x, *self.args, **self.kwds)

    def pdf(self, x: Any) -> Any:
        return _normal(x, *self.args, **self.kwds)


# ---- statistics of samples


def _flattened(a: Any, axis: Any) -> tuple[Any, int]:
    array = _float(a)
    return (call_handler(np.ravel, array), 0) if axis is None else (array, axis)


def _refuse_options(name: str, options: dict[str, Any]) -> None:
    if any(value not in (False, None, "propagate", "two-sided") for value in options.values()):
        raise unsupported(f"scipy.stats.{name} with {', '.join(options)}", "leave it out")


def zscore(a: Any, axis: Any = 0, ddof: Any = 0, **options: Any) -> Any:
    _refuse_options("zscore", options)
    array, place = _flattened(a, axis)
    scaled = (array - np.mean(array, axis=place, keepdims=True)) / np.std(array, axis=place, ddof=ddof, keepdims=True)
    return scaled if axis is not None else call_handler(np.reshape, scaled, asarray(a).shape)


def moment(a: Any, order: Any = 1, axis: Any = 0, *, center: Any = None, **options: Any) -> Any:
    _refuse_options("moment", options)
    array, place = _flattened(a, axis)
    away = array - (np.mean(array, axis=place, keepdims=True) if center is None else center)
    return np.mean(away**order, axis=place)


def skew(a: Any, axis: Any = 0, bias: bool = True, **options: Any) -> Any:
    _refuse_options("skew", options)
    array, place = _flattened(a, axis)
    count = array.shape[place]
    value = moment(array, 3, place) / moment(array, 2, place) ** 1.5
    return value if bias else value * math.sqrt(count * (count - 1)) / (count - 2)


def kurtosis(a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True, **options: Any) -> Any:
    _refuse_options("kurtosis", options)
    array, place = _flattened(a, axis)
    count = array.shape[place]
    value = moment(array, 4, place) / moment(array, 2, place) ** 2
    if not bias:
        value = ((count**2 - 1) * value - 3 * (count - 1) ** 2) / ((count - 2) * (count - 3)) + 3.0
    return value - 3.0 if fisher else value


def gmean(a: Any, axis: Any = 0, dtype: Any = None, weights: Any = None, **options: Any) -> Any:
    _refuse_options("gmean", options)
    array, place = _flattened(a, axis)
    return np.exp(np.average(np.log(array), axis=place, weights=weights))


def hmean(a: Any, axis: Any = 0, dtype: Any = None, *, weights: Any = None, **options: Any) -> Any:
    _refuse_options("hmean", options)
    array, place = _flattened(a, axis)
    return 1.0 / np.average(1.0 / array, axis=place, weights=weights)


def sem(a: Any, axis: Any = 0, ddof: Any = 1, **options: Any) -> Any:
    _refuse_options("sem", options)
    array, place = _flattened(a, axis)
    return np.std(array, axis=place, ddof=ddof) / math.sqrt(array.shape[place])


def variation(a: Any, axis: Any = 0, nan_policy: Any = None, ddof: Any = 0, **options: Any) -> Any:
    _refuse_options("variation", {"nan_policy": nan_policy, **options})
    array, place = _flattened(a, axis)
    return np.std(array, axis=place, ddof=ddof) / np.mean(array, axis=place)


def entropy(pk: Any, qk: Any = None, base: Any = None, axis: Any = 0, **options: Any) -> Any:
    _refuse_options("entropy", options)
    array, place = _flattened(pk, axis)
    shares = array / np.sum(array, axis=place, keepdims=True)
    if qk is None:
        terms = special.entr(shares)
    else:
        others = _flattened(qk, axis)[0]
        terms = special.rel_entr(shares, others / np.sum(others, axis=place, keepdims=True))
    total = np.sum(terms, axis=place)
    return total if base is None else total / math.log(base)


def iqr(x: Any, axis: Any = None, rng: Any = (25, 75), scale: Any = 1.0, **options: Any) -> Any:
    _refuse_options("iqr", options)
    if scale not in (1.0, "normal"):
        raise unsupported(f"scipy.stats.iqr with scale={scale!r}", "divide the result")
    ends = np.percentile(asarray(x), list(rng), axis=axis)
    value = ends[1] - ends[0]
    return value if scale == 1.0 else value / 1.3489795003921634


PearsonRResult = collections.namedtuple("PearsonRResult", ("statistic", "pvalue"))
LinregressResult = collections.namedtuple("LinregressResult", ("slope", "intercept", "rvalue", "pvalue", "stderr"))
TtestResult = collections.namedtuple("TtestResult", ("statistic", "pvalue"))


def _both_tails(t: Any, df: Any) -> Any:
    return 2.0 * special.stdtr(df, -np.abs(t))


def pearsonr(x: Any, y: Any, **options: Any) -> Any:
    _refuse_options("pearsonr", {key: value for key, value in options.items() if key != "axis" or value != 0})
    x, y = _float(x), _float(y)
    if x.ndim != 1:
        raise unsupported("scipy.stats.pearsonr of arrays of several axes", "call it for each pair of vectors")
    one, other = x - np.mean(x), y - np.mean(y)
    r = np.sum(one * other) / np.sqrt(np.sum(one * one) * np.sum(other * other))
    df = x.shape[0] - 2
    return PearsonRResult(r, _both_tails(r * np.sqrt(df / ((1.0 - r) * (1.0 + r))), float(df)))


def linregress(x: Any, y: Any, alternative: Any = "two-sided", **options: Any) -> Any:
    _refuse_options("linregress", {"alternative": alternative, **options})
    x, y = _float(x), _float(y)
    one, other = x - np.mean(x), y - np.mean(y)
    spread, both = np.sum(one * one), np.sum(one * other)
    r = both / np.sqrt(spread * np.sum(other * other))
    slope, df = both / spread, x.shape[0] - 2
    error = np.sqrt((1.0 - r) * (1.0 + r) * np.sum(other * other) / spread / df)
    return LinregressResult(slope, np.mean(y) - slope * np.mean(x), r, _both_tails(slope / error, float(df)), error)


def ttest_1samp(a: Any, popmean: Any, axis: Any = 0, **options: Any) -> Any:
    _refuse_options("ttest_1samp", options)
    array, place = _flattened(a, axis)
    t = (np.mean(array, axis=place) - popmean) / sem(array, place)
    return TtestResult(t, _both_tails(t, float(array.shape[place] - 1)))


_STATISTICS: dict[str, Callable[..., Any]] = {
    "zscore": zscore,
    "moment": moment,
    "skew": skew,
    "kurtosis": kurtosis,
    "gmean": gmean,
    "hmean": hmean,
    "sem": sem,
    "variation": variation,
    "entropy": entropy,
    "iqr": iqr,
    "pearsonr": pearsonr,
    "linregress": linregress,
    "ttest_1samp": ttest_1samp,
}


def _register() -> None:
    import scipy.stats  # noqa: PLC0415 the user's code has imported it
    from scipy.stats import _distn_infrastructure as classes  # noqa: PLC0415

    owners = (classes.rv_generic, classes.rv_continuous, classes.rv_discrete)
    frozen = (classes.rv_frozen, classes.rv_continuous_frozen, classes.rv_discrete_frozen)
    for name in _METHODS:
        for owner in owners:
            if name in vars(owner):
                covers(vars(owner)[name], native=False)(functools.partial(_call_method, name))
        for owner in frozen:
            if name in vars(owner):
                covers(vars(owner)[name], native=False)(functools.partial(_of_frozen, name))
    covers(classes.rv_generic.freeze, native=False)(_freeze)
    for name in (*CONTINUOUS, *DISCRETE):
        own = getattr(scipy.stats, name)
        covers(own, native=False)(functools.partial(_freeze, own))
    covers(classes.rv_continuous.nnlf, native=False)(_negative_log_likelihood)
    normal = type(scipy.stats.multivariate_normal)
    covers(normal.logpdf, native=False)(lambda own, *args, **kwargs: _log_normal(*args, **kwargs))
    covers(normal.pdf, native=False)(lambda own, *args, **kwargs: _normal(*args, **kwargs))
    covers(scipy.stats.multivariate_normal, native=False)(FrozenNormal)
    for name, handler in _STATISTICS.items():
        covers(getattr(scipy.stats, name))(handler)


LATE["scipy.stats"] = _register
