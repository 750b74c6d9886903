"""Series whose length is known only at run time: what signal processing and statistics do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import NeedsPythonValue

POINTS = [np.random.default_rng(seed).normal(size=12) for seed in (1, 2)]


def grown(x: Any) -> Any:
    """Return an array of a list that a loop has filled."""
    items, v, i = [x[0]], 1.0, 0
    while v < 5:
        v = v + 0.3 + abs(x[i % 3]) * 0.1
        items.append(v * x[1] + x[i % 4])
        i += 1
    return np.array(items)


def rows(x: Any) -> Any:
    items, v = [], 1.0
    while v < 5:
        v += 0.5 + abs(x[0])
        items.append(x[:3] * v)
    return np.array(items)


def written(x: Any, change: Callable[[Any], None]) -> Any:
    z = grown(x).copy()
    change(z)
    return np.sum(z * grown(x) * np.arange(len(z)))


def assign(z: Any, key: Any, value: Any) -> None:
    z[key] = value


def scale_large(z: Any) -> None:
    z[z > 1] *= 0.5
    z[z < 0] += 2.0


def scale_every_second(z: Any) -> None:
    z[::2] = 0.5
    z[1::3] *= 2


def a_view_sees_a_later_write(x: Any) -> Any:
    y = grown(x)
    part = y[::2]
    y[0] = 7.0 * x[0]
    return np.sum(part**2)


def steps_in_a_loop(x: Any) -> Any:
    total = 0.0
    for i in range(1, len(x)):
        total += np.sum(x[:i:2] ** 2) * i + np.sum(x[i::3]) + np.sum(x[i::-2] * x[i]) + np.sum(x[i - 1 : i + 4 : 2])
    return total


def writes_with_steps_in_a_loop(x: Any) -> Any:
    y = x.copy()
    for i in range(1, len(x)):
        y[:i:2] *= 0.9
        y[2:i:3] += x[i]
    return np.sum(y**2)


def peaks(x: Any) -> Any:
    y = grown(x)
    places = np.where((y[1:-1] > y[:-2]) & (y[1:-1] > y[2:]))[0] + 1
    return np.sum(y[places]) + len(places) * y[0]


def histogram_of(y: Any, *args: Any, **kwargs: Any) -> Any:
    counts, edges = np.histogram(y, *args, **kwargs)
    return np.sum(counts * edges[1:])


def autocorrelation(y: Any) -> Any:
    away = y - y.mean()
    return np.sum(np.correlate(away, away, "full")[len(y) - 1 :] ** 2)


def line_through(x: Any) -> Any:
    m = x > 0
    t = np.sin(np.arange(len(x)) + x)
    A = np.c_[np.ones(m.sum()), t[m]]
    return np.linalg.lstsq(A, x[m], rcond=None)[0][1]


def counted(x: Any) -> Any:
    n = np.count_nonzero(x > 0)
    A = np.column_stack([np.ones(int(n)), x[x > 0]])
    slope = np.linalg.solve(A.T @ A, A.T @ np.arange(n))[1]
    return slope + np.sum(np.linspace(0, 1, n) * x[x > 0]) + np.sum((np.full(n, 2.0) + np.zeros(n)) * x[x > 0])


def weighted(x: Any) -> Any:
    return x**2 + np.arange(len(x))


def matrix(x: Any) -> Any:
    return np.sin(np.arange(36).reshape(12, 3) + x[:, None])[x > 0]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "np.where": lambda x: grown(x)[np.where(grown(x) > -1)[0][0]],
    "np.flatnonzero": lambda x: (i := np.flatnonzero(grown(x) > -1)) is not None and grown(x)[i[-1]] * (i[0] + 1.0),
    "np.nonzero": lambda x: np.sum(grown(x)[np.nonzero(grown(x) > 0)[0]] ** 2),
    "np.argwhere": lambda x: len(np.argwhere(grown(x) > 0)) * x[0],
    "neighbours of places": lambda x: np.sum(grown(x)[np.where(grown(x) > 0)[0] - 1] * grown(x)[grown(x) > 0]),
    "peaks": peaks,
    "places in order": lambda x: np.sum(grown(x)[np.argsort(grown(x))] * np.arange(len(grown(x)))),
    "fixed places": lambda x: np.sum(grown(x)[[0, -1]] * x[:2]),
    "rows at places": lambda x: np.sum(rows(x)[::2] ** 2) + np.sum(rows(x)[np.where(rows(x)[:, 0] > -9)[0]][:, 1]),
    "every second": lambda x: np.sum(grown(x)[::2] ** 2) + np.sum(grown(x)[1::3] ** 3),
    "every second, backwards": lambda x: np.sum(grown(x)[::-2] * np.arange(len(grown(x)[::2]))),
    "a view sees a later write": a_view_sees_a_later_write,
    "steps in a loop": steps_in_a_loop,
    "writes with steps in a loop": writes_with_steps_in_a_loop,
    "write at a mask": lambda x: written(x, lambda z: assign(z, z > 1, 1.0)),
    "write at places": lambda x: written(x, lambda z: assign(z, np.where(z > 0)[0], 0.5)),
    "changes at masks": lambda x: written(x, scale_large),
    "changes of every second": lambda x: written(x, scale_every_second),
    "convolve": lambda x: np.sum(np.convolve(grown(x), [0.5, 0.3, 0.2]) ** 2),
    "convolve, valid": lambda x: np.sum(np.convolve(np.ones(3) / 3, grown(x), "valid") ** 2),
    "convolve, valid, with a longer one": lambda x: np.sum(np.convolve(grown(x), np.arange(40.0), "valid") ** 2),
    "convolve, same": lambda x: np.sum(np.convolve(grown(x), x[:4], "same") * np.arange(len(grown(x)))),
    "convolve, same, with a longer one": lambda x: np.convolve(grown(x), np.arange(40.0), "same") @ np.arange(40),
    "convolve with itself": lambda x: np.sum(np.convolve(grown(x), grown(x)) ** 2),
    "correlate": lambda x: np.correlate(grown(x), x[:4], "same") @ np.arange(len(grown(x))),
    "correlate, valid": lambda x: np.sum(np.correlate(grown(x), x[:3]) ** 2),
    "autocorrelation": lambda x: autocorrelation(grown(x)),
    "roll": lambda x: np.sum(np.roll(grown(x), 1) * grown(x)) + np.sum(np.roll(grown(x)[1:], -2) * grown(x)[1:]),
    "corrcoef": lambda x: np.corrcoef(grown(x)[:-1], grown(x)[1:])[0, 1],
    "cov": lambda x: np.cov(grown(x)) + np.cov(grown(x), grown(x) ** 2, ddof=0)[0, 1],
    "cov of rows": lambda x: np.cov(rows(x) ** 2, rowvar=False)[0, 1] + np.cov(rows(x).T, bias=True)[2, 1],
    "average": lambda x: np.average(grown(x), weights=np.exp(grown(x))) + np.average(grown(x)),
    "histogram": lambda x: histogram_of(grown(x), bins=4),
    "histogram within a range": lambda x: histogram_of(grown(x), 4, (0, 3)) + x[0],
    "average of selected": lambda x: np.average(x[x > 0], weights=x[x > 0] ** 2),
    "average of selected rows": lambda x: np.average(matrix(x), axis=0, weights=x[x > 0]) @ np.arange(3),
    "cov of selected": lambda x: np.cov(x[x > 0], weighted(x)[x > 0])[0, 1],
    "corrcoef of selected": lambda x: np.corrcoef(x[x > 0], weighted(x)[x > 0])[0, 1],
    "corrcoef of selected rows": lambda x: np.corrcoef(matrix(x), rowvar=False)[0, 2],
    "histogram of selected": lambda x: histogram_of(x[x > 0], bins=3),
    "histogram of selected, weighted": lambda x: histogram_of(x[x > 0], [0.0, 0.5, 1.0], weights=x[x > 0] ** 2),
    "density of selected": lambda x: histogram_of(x[x > 0], 3, density=True),
    "a line through selected": line_through,
    "as many as selected": counted,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_numpy_has_it(name: str, backend: str) -> None:
    check_agreement(PROGRAMS[name], backend, *POINTS)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", [30, -30])
def test_a_place_outside(place: int, backend: str) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        tg.function(lambda x: np.sum(grown(x)[[0, place]]), backend=backend)(POINTS[0])
    with pytest.raises(IndexError, match="out of bounds"):
        tg.function(lambda x: np.sum(grown(x)[np.where(grown(x) > 0)[0] + place]), backend=backend)(POINTS[0])


def test_a_view_that_begins_at_an_unknown_place_and_a_write_are_refused() -> None:
    def f(x: Any) -> Any:
        y = grown(x)
        part = y[::-2]
        y[0] = 7.0 * x[0]
        return np.sum(part**2)

    with pytest.raises(NeedsPythonValue, match="TG136"):
        tg.function(f)(POINTS[0])
