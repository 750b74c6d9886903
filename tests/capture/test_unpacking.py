"""`a, b = values` where the compiled function finds out how many items there are, on both backends."""

from __future__ import annotations

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


def above(x: Any) -> Any:
    values = []
    for v in x:
        if v > 1:
            values.append(v)
    return values


def hull(x: Any) -> Any:
    points: list[Any] = []
    for i, v in enumerate(x):
        while len(points) >= 2:
            (x1, y1), (x2, y2) = points[-2:]
            if (x2 - x1) * (v - y1) - (y2 - y1) * (i - x1) > 0:
                break
            points.pop()
        points.append((float(i), v))
    pairs = range(len(points) - 1)
    return sum((points[k][1] + points[k + 1][1]) * (points[k + 1][0] - points[k][0]) / 2 for k in pairs)


def parts(x: Any) -> Any:
    values = above(x)
    a, b = values[:2]
    (c,) = values[-1:]
    return a * b + c


def starred(x: Any) -> Any:
    values = above(x)
    a, *rest = values
    *first, z = values
    return a * 2 + sum(rest) * 3 + len(first) * z + sum(v * k for k, v in enumerate(first))


def lists_around_a_star(x: Any) -> Any:
    rows = []
    for i in range(6):
        if x[i] > 1:
            rows.append([x[i], x[0] * i])
    (a, b), *rest, (c, d) = rows
    return a * b + c * d + len(rest) + sum(u * w for u, w in rest)


def of_an_array(x: Any) -> Any:
    a, b = x[: len(above(x))][-2:]
    return a * b


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [hull, parts, starred, lists_around_a_star, of_an_array], ids=lambda p: p.__name__)
def test_unpacking(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def three(x: Any) -> Any:
    a, b, c = above(x)
    return a * b + c


def one_and_more(x: Any) -> Any:
    a, b, *_ = above(x)
    return a * b


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("program", "point", "message"),
    [
        (three, POINTS[0], "too many values to unpack"),
        (three, POINTS[0] * [1, 1, 0, 0, 1, 0] - 0.5, "not enough values to unpack"),
        (one_and_more, np.array([2.0, 0, 0, 0, 0, 0]), "not enough values to unpack .expected at least 2"),
    ],
)
def test_other_numbers_of_items(program: Callable[..., Any], point: np.ndarray, message: str, backend: str) -> None:
    compiled = tg.function(program, backend=backend)
    assert compiled(POINTS[1]) == program(POINTS[1])
    for f in (program, compiled):
        with pytest.raises(ValueError, match=message):
            f(point)
