"""min, max and sorted of tuples and arrays in a traced order; lists indexed by the counter of a long loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (np.array([1.3, -0.7, 0.9]), np.array([-0.4, 2.1, 0.3]), np.array([0.2, 0.7, -1.1]))


def _least(x: Any) -> Any:
    best = (np.inf, -1)
    for i in range(3):
        best = min(best, (x[i] ** 2, i))
    return best[0] * (best[1] + 1)


def _nearest(x: Any) -> Any:
    return min((np.sum((x - c) ** 2), c) for c in (0.0, 1.2, 2.0))[1] * x[0] + max((x[1], 2), (x[2], 3))[1] * x[1]


def _tie(x: Any) -> Any:
    return min([(1.0, x[0]), (1.0, x[1]), (2.0, x[2])])[1] * x[2]


def _tuples(x: Any) -> Any:
    s = sorted([(x[0], 1.0), (x[1], 2.0), (x[2], 3.0)])
    return s[0][0] * s[0][1] + s[1][1] * x[0] + s[2][0] * s[2][1] + sorted(zip(x, [3.0, 4.0, 5.0], strict=True))[0][1]


def _by_key(x: Any) -> Any:
    s = sorted([(1.0, (x[0],)), (2.0, (x[1],)), (3.0, (x[2],))], key=lambda p: p[1][0], reverse=True)
    t = sorted(((v, i) for i, v in enumerate(x)), reverse=True)
    return s[0][0] * s[0][1][0] + s[1][1][0] * x[0] + s[2][0] * s[2][1][0] + t[0][0] * t[1][1]


def _stable(x: Any) -> Any:
    items = [(x[0] * 0, x[0]), (x[1] * 0, x[1]), (x[2] * 0, x[2])]
    down = sorted(items, key=lambda p: (p[0], 1.0), reverse=True)
    return sorted(items, key=lambda p: (p[0], 1.0))[0][1] * 2 + down[1][1] * down[0][1]


def _arrays(x: Any) -> Any:
    s = [x * 1.0, x * x, x + 2.0]
    s.sort(key=lambda v: np.sum(v * v))
    return s[0][0] * s[1][1] + s[2][2]


def _simplex(x: Any) -> Any:
    def cost(p: Any) -> Any:
        return np.sum((p - x[:2]) ** 2) + p[0] * p[1] * x[2] * 0.3

    corners = [np.array([0.1, 0.2]), np.array([1.0, 0.4]), np.array([0.3, 1.5])]
    for _ in range(7):
        corners.sort(key=cost)
        middle = (corners[0] + corners[1]) / 2
        point = middle + (middle - corners[2])
        if cost(point) < cost(corners[1]):
            corners[2] = point
        else:
            corners[2] = middle + 0.5 * (corners[2] - middle)
    return cost(corners[0]) + corners[0][0] * x[2]


# ---- lists in loops that are too long to be unrolled


def _table(x: Any) -> Any:
    n = 200
    v = [0.0] * n
    v[0] = x[0]
    for i in range(1, n):
        v[i] = v[i - 1] * 0.9 + x[1]
    return v[n - 1] * v[3]


def _read_only(x: Any) -> Any:
    weights, total, i = [1.0, 2.0, 3.0], 0.0, 0
    for k in range(200):
        total = total * 0.9 + weights[k % 3] * x[k % 3]
    while total > 1e-3 and i < 150:
        total, i = total * 0.9 + weights[i % 3] * 1e-5 * x[0], i + 1
    return total


def _two_lists(x: Any) -> Any:
    n = 150
    a, b = [x[0]] * n, [x[1]] * n
    for _ in range(2):
        for i in range(1, n):
            a[i] = 0.5 * a[i - 1] + 0.3 * b[i]
            b[i] = np.sin(a[i]) * x[2]
    return a[-1] + b[7] + sum(a[2:5])


def _text_in_order(x: Any) -> Any:
    return x[0] if max([(x[0], "a"), (x[1], "b")])[1] == "a" else x[1]


FUNCTIONS = [
    _least,
    _nearest,
    _tie,
    _tuples,
    _by_key,
    _stable,
    _arrays,
    _simplex,
    _table,
    _read_only,
    _two_lists,
    _text_in_order,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_as_in_python(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    for x in POINTS:
        np.testing.assert_allclose(value(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient(x), central_differences(f, x), atol=1e-5)


def _written_after(x: Any) -> Any:
    a, b = x * 1.0, x * 2.0
    s = sorted([a, b], key=np.sum)
    a[0] = 5.0
    return s[0][0] * s[1][0]


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (_written_after, "sorted by traced keys"),
    ],
)
def test_refused(f: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TracegradError, match=message):
        tg.function(f)(POINTS[0])
