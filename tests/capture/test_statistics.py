"""The statistics module, and heapq, bisect and math.fsum of traced numbers: against Python, on both backends."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

POINTS = (np.array([1.0, 2.5, 3.1, 0.5, 4.2]), np.array([0.3, 0.8, 0.2]))
Y = [1.0, 2.0, 3.0, 5.0, 4.0]


def _regression(x: Any) -> Any:
    fit = statistics.linear_regression(list(x), Y[: len(x)])
    through_zero = statistics.linear_regression(Y[: len(x)], list(x), proportional=True)
    return fit.slope + 2 * fit.intercept + through_zero.slope


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: statistics.mean(x.tolist()) ** 2,
    "mean_of_a_generator": lambda x: statistics.mean(v * v for v in x),
    "mean_of_an_array": lambda x: statistics.mean(x),
    "mean_of_a_filled_list": lambda x: statistics.mean(_filled(x)),
    "fmean": lambda x: statistics.fmean(list(x)),
    "fmean_with_weights": lambda x: statistics.fmean(list(x), [v * v for v in x]),
    "medians": lambda x: (
        statistics.median(list(x)) + 2 * statistics.median_low(list(x)) + 3 * statistics.median_high(list(x)[1:])
    ),
    "variances": lambda x: statistics.variance(list(x)) + 2 * statistics.pvariance(list(x)),
    "variances_about": lambda x: statistics.variance(list(x), x[0]) + statistics.pvariance(list(x), mu=0.5),
    "deviations": lambda x: statistics.stdev(list(x)) + 2 * statistics.pstdev(list(x)),
    "deviations_about": lambda x: statistics.stdev(list(x), x[0]) + statistics.pstdev(list(x), 0.5),
    "geometric_mean": lambda x: statistics.geometric_mean(list(x)),
    "harmonic_mean": lambda x: statistics.harmonic_mean(list(x)) + statistics.harmonic_mean(list(x), Y[: len(x)]),
    "quantiles": lambda x: sum(k * q for k, q in enumerate(statistics.quantiles(list(x), n=5))),
    "quantiles_inclusive": lambda x: sum(statistics.quantiles(list(x), n=3, method="inclusive")),
    "covariance": lambda x: statistics.covariance(list(x), [v**2 for v in x]),
    "correlation": lambda x: statistics.correlation(list(x), Y[: len(x)]),
    "linear_regression": _regression,
    "known": lambda x: x[0] * statistics.mean([1, 2, 3]) + statistics.median([3.0, 1.0, 2.0]),
    "fsum": lambda x: math.fsum(v * v for v in x) + math.fsum([0.1] * 10),
    "largest": lambda x: sum(heapq.nlargest(2, x)) + heapq.nsmallest(2, list(x), key=lambda v: (v - 1) ** 2)[0],
}


def _filled(x: Any) -> Any:
    values = []
    for i in range(200):
        values.append(x[0] * i)
    return values


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, backend: str) -> None:
    compiled = tg.value_and_grad(PROGRAMS[name], backend=backend)
    for x in POINTS:
        value, gradient = compiled(x)
        np.testing.assert_allclose(value, float(PROGRAMS[name](x)), rtol=1e-12)
        np.testing.assert_allclose(gradient, central_differences(PROGRAMS[name], x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: statistics.stdev([x[0]]),
        lambda x: statistics.covariance([x[0], x[1]], [1.0, 2.0, 3.0]),
        lambda x: statistics.fmean([x[0], x[1]], [1.0]),
    ],
)
def test_too_few(program: Callable[[Any], Any]) -> None:
    with pytest.raises(statistics.StatisticsError):
        tg.grad(program)(POINTS[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_harmonic_mean_of_negatives(backend: str) -> None:
    with pytest.raises(ValueError, match="positive"):
        tg.grad(lambda x: statistics.harmonic_mean(list(x)), backend=backend)(-POINTS[0])


def test_one_number() -> None:
    assert tg.grad(lambda x: statistics.mean([x]) + statistics.median([x]))(1.5) == 2.0


def test_mode_is_refused() -> None:
    with pytest.raises(CaptureError, match="counts equal values"):
        tg.grad(lambda x: statistics.mode(list(x)))(POINTS[0])
