"""The statistics module on traced numbers.

Previous: sorting.py; next: ragged_reduce.py.

Results are Python floats. Python adds exactly and rounds once; here sums are rounded as NumPy's are.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.capture.numpy_api.common import covers
from tracegrad.capture.numpy_api.elementwise import divide, log, multiply, square, subtract
from tracegrad.capture.tracer import Tracer, asarray, call_handler, cast_to, check, is_traced, make_weak, unsupported
from tracegrad.ir.types import F64

Handler = Callable[..., Any]


def _of_data(function: Any, series: int = 1) -> Callable[[Handler], Handler]:
    """Register what a function does with one or two series of numbers; Python computes what is known at capture, and
    raises its error where there are too few."""

    def decorate(handler: Handler) -> Handler:
        @covers(function, native=False, always=True)
        @functools.wraps(handler)
        def entry(*args: Any, **kwargs: Any) -> Any:
            data = [arg if isinstance(arg, Tracer) else list(arg) for arg in args[:series]]
            rest = args[series:]
            lengths = [len(values) for values in data]
            if len(data) < series or min(lengths) < 2 or len(set(lengths)) > 1 or not is_traced((data, rest, kwargs)):
                if is_traced((data, rest, kwargs)):
                    _raise_for(function, lengths)
                else:
                    return function(*data, *rest, **kwargs)
            return handler(*(cast_to(asarray(values), F64) for values in data), *rest, **kwargs)

        return entry

    return decorate


def _raise_for(function: Any, lengths: list[int]) -> None:
    """Raise Python's error for these numbers of items, if there is one."""
    function(*([1.0 + k for k in range(length)] for length in lengths))


def _sum(values: Tracer) -> Tracer:
    return call_handler(np.sum, values)  # type: ignore[no-any-return]


def _mean(values: Tracer) -> Tracer:
    return call_handler(np.mean, values)  # type: ignore[no-any-return]


@_of_data(statistics.mean)
def mean(data: Tracer) -> Any:
    return make_weak(_mean(data))


@_of_data(statistics.fmean)
def fmean(data: Tracer, weights: Any = None) -> Any:
    if weights is None:
        return make_weak(_mean(data))
    factors = asarray(weights if isinstance(weights, Tracer) else list(weights))
    if factors.type.shape != data.type.shape:
        raise statistics.StatisticsError("data and weights must be the same length")
    return make_weak(divide(_sum(multiply(data, factors)), _sum(factors)))


def _positive(data: Tracer, message: str) -> None:
    check(call_handler(np.all, call_handler(np.greater, data, 0.0)), "ValueError", message)


@_of_data(statistics.geometric_mean)
def geometric_mean(data: Tracer) -> Any:
    _positive(data, "geometric mean requires a non-empty dataset containing positive numbers")
    return make_weak(call_handler(np.exp, _mean(log(data))))


@_of_data(statistics.harmonic_mean)
def harmonic_mean(data: Tracer, weights: Any = None) -> Any:
    _positive(data, "harmonic mean of traced values takes positive ones")
    factors = asarray(np.ones(len(data))) if weights is None else asarray(weights)
    return make_weak(divide(_sum(factors), _sum(divide(factors, data))))


@_of_data(statistics.median)
def median(data: Tracer) -> Any:
    return make_weak(call_handler(np.median, data))


@_of_data(statistics.median_low)
def median_low(data: Tracer) -> Any:
    return make_weak(call_handler(np.sort, data)[(len(data) - 1) // 2])


@_of_data(statistics.median_high)
def median_high(data: Tracer) -> Any:
    return make_weak(call_handler(np.sort, data)[len(data) // 2])


def _spread(data: Tracer, center: Any, degrees: Any) -> Tracer:
    if center is None:
        return call_handler(np.var, data, ddof=len(data) - degrees)  # type: ignore[no-any-return]
    return divide(_sum(square(subtract(data, center))), float(degrees))


@_of_data(statistics.variance)
def variance(data: Tracer, xbar: Any = None) -> Any:
    return make_weak(_spread(data, xbar, len(data) - 1))


@_of_data(statistics.pvariance)
def pvariance(data: Tracer, mu: Any = None) -> Any:
    return make_weak(_spread(data, mu, len(data)))


@_of_data(statistics.stdev)
def stdev(data: Tracer, xbar: Any = None) -> Any:
    if xbar is None:
        return make_weak(call_handler(np.std, data, ddof=1))
    return make_weak(call_handler(np.sqrt, _spread(data, xbar, len(data) - 1)))


@_of_data(statistics.pstdev)
def pstdev(data: Tracer, mu: Any = None) -> Any:
    if mu is None:
        return make_weak(call_handler(np.std, data))
    return make_weak(call_handler(np.sqrt, _spread(data, mu, len(data))))


@_of_data(statistics.quantiles)
def quantiles(data: Tracer, *, n: Any = 4, method: Any = "exclusive") -> list[Any]:
    if n < 1 or method not in ("exclusive", "inclusive"):
        statistics.quantiles([0.0, 1.0], n=n, method=method)  # raises Python's error
    ordered, count = call_handler(np.sort, data), len(data)
    result = []
    for cut in range(1, n):
        if method == "inclusive":
            low, part = divmod(cut * (count - 1), n)
        else:
            low = min(max(cut * (count + 1) // n, 1), count - 1) - 1
            part = cut * (count + 1) - (low + 1) * n
        result.append(make_weak((ordered[low] * (n - part) + ordered[low + 1] * part) / n))
    return result


def _away(values: Tracer) -> Tracer:
    return subtract(values, _mean(values))


@_of_data(statistics.covariance, series=2)
def covariance(x: Tracer, y: Tracer) -> Any:
    return make_weak(divide(_sum(multiply(_away(x), _away(y))), float(len(x) - 1)))


@_of_data(statistics.correlation, series=2)
def correlation(x: Tracer, y: Tracer, /, **method: Any) -> Any:
    if method.get("method", "linear") != "linear":
        raise unsupported("statistics.correlation of ranks of traced values", "rank by np.argsort of np.argsort")
    one, other = _away(x), _away(y)
    scale = call_handler(np.sqrt, multiply(_sum(square(one)), _sum(square(other))))
    return make_weak(divide(_sum(multiply(one, other)), scale))


@_of_data(statistics.linear_regression, series=2)
def linear_regression(x: Tracer, y: Tracer, /, *, proportional: bool = False) -> Any:
    if proportional:
        return statistics.LinearRegression(make_weak(divide(_sum(multiply(x, y)), _sum(square(x)))), 0.0)
    away = _away(x)
    slope = divide(_sum(multiply(away, _away(y))), _sum(square(away)))
    return statistics.LinearRegression(make_weak(slope), make_weak(subtract(_mean(y), multiply(slope, _mean(x)))))


@covers(statistics.mode, statistics.multimode, statistics.median_grouped, native=False)
def refuse(*args: Any, **kwargs: Any) -> Any:
    raise unsupported(
        "a function of statistics that counts equal values, of traced ones",
        "its result has no derivative: compute it outside the function and pass it",
    )
