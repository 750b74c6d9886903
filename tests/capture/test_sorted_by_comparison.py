"""`sorted(values, key=functools.cmp_to_key(compare))`, on both backends."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (
    np.array([3.021, 1.033, 2.074, 0.572, 2.513, 0.231]),
    np.array([0.415, 2.622, 1.717, 3.318, 0.123, 0.219]),
    np.array([1.128, 0.214, 2.916, 0.957, 3.411, 2.226]),
)


def turn(a: Any, b: Any) -> Any:
    c = a[0] * b[1] - a[1] * b[0]
    if c > 0:
        return -1
    return 1 if c < 0 else 0


def numbers(x: Any) -> Any:
    s = sorted(x, key=functools.cmp_to_key(lambda a, b: -1 if a > b else 1))
    return sum(v * i for i, v in enumerate(s))


def positions(x: Any) -> Any:
    s = sorted(range(6), key=functools.cmp_to_key(lambda i, j: x[i] - x[j]))
    return sum(x[k] * i * k for i, k in enumerate(s))


def points_by_angle(x: Any) -> Any:
    points = [(x[i], x[5 - i]) for i in range(6)]
    points.sort(key=functools.cmp_to_key(turn))
    return sum(a * i + b * i * i for i, (a, b) in enumerate(points))


def texts(x: Any) -> Any:
    names = sorted(["b", "a", "c"], key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b)))
    return x["abc".index(names[1])]


def extremes(x: Any) -> Any:
    p = [(x[0], "a"), (x[1], "b"), (x[2], "c")]
    b = max(p, key=functools.cmp_to_key(lambda a, b: a[0] * 2 - b[0] * 2))
    m = min(p, key=functools.cmp_to_key(lambda a, b: a[0] - b[0]))
    return b[0] * (2 if b[1] == "a" else 3) + m[0]


def ties(x: Any) -> Any:
    r = [x[0], x[0], x[1], x[2], x[1]]
    s = sorted(range(5), key=functools.cmp_to_key(lambda i, j: r[i] - r[j]))
    t = sorted(range(5), key=functools.cmp_to_key(lambda i, j: r[i] - r[j]), reverse=True)
    return sum(k * i * x[i] + j * i * i for i, (k, j) in enumerate(zip(s, t, strict=True)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program", [numbers, positions, points_by_angle, texts, extremes, ties], ids=lambda p: p.__name__
)
def test_sorted_by_comparison(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_comparisons_without_an_order(backend: str) -> None:
    circle = np.array([1.0, 0.1, -1.0, 0.1, -0.8, 0.2])
    with pytest.raises(ValueError, match="contradict each other"):
        tg.function(points_by_angle, backend=backend)(circle)


KEY = functools.cmp_to_key(lambda a, b: a - b)


def test_a_key_from_outside_is_refused() -> None:
    with pytest.raises(tg.errors.CaptureError, match="cmp_to_key that is made outside the function"):
        tg.function(lambda x: sorted([x[0], x[1]], key=KEY)[0])(POINTS[0])
