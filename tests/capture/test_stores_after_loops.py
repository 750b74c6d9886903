"""Stores into an object that a staged loop has chosen, and what other names of it show afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = [np.array(p) for p in ([1.5, 1.0, 2.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0])]
DATA = np.random.default_rng(5).normal(size=(20, 3))
LABELS = np.sign(DATA @ np.array([1.0, -2.0, 0.5]))
WEIGHTS = np.random.default_rng(6).random(20) + 0.5


class Stump:
    def __init__(self, feature: Any, threshold: Any) -> None:
        self.feature, self.threshold = feature, threshold

    def predict(self, data: Any) -> Any:
        return np.where(data[:, self.feature] < self.threshold, -1.0, 1.0)


def boost(weights: Any) -> Any:
    w, stumps = weights / weights.sum(), []
    for _ in range(3):
        best, least = None, np.inf
        for feature in range(3):
            for threshold in np.quantile(DATA[:, feature], [0.25, 0.5, 0.75]):
                stump = Stump(feature, threshold)
                error = w[stump.predict(DATA) != LABELS].sum()
                if error < least:
                    best, least = stump, error
        best.alpha = 0.5 * np.log((1 - least) / least)
        w = w * np.exp(-best.alpha * LABELS * best.predict(DATA))
        w = w / w.sum()
        stumps.append(best)
    return np.mean(np.exp(-LABELS * sum(s.alpha * s.predict(DATA) for s in stumps)))


def find(x: Any, *, first: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return the object of the least element, the last one, the first one, and the last of those above 1.4."""
    start = Stump(7, 2.0)
    best, other, least = (start if first else None), start, np.inf
    for i in range(3):
        last = Stump(i, x[i] * 2)
        if x[i] < least:
            best, least = last, x[i]
        if x[i] > 1.4:
            other = last
    return best, last, start, other


def changed(x: Any) -> Any:
    best, _, _, _ = find(x, first=True)
    best.threshold = best.threshold * 10
    best.threshold += x[0]
    return best.threshold * x[1] + best.feature


def added(x: Any) -> Any:
    best, _, _, _ = find(x, first=True)
    best.weight = best.threshold**2
    return best.weight + (3.0 if hasattr(best, "weight") else 0.0)


def beside(x: Any) -> Any:
    best, last, start, other = find(x, first=True)
    best.threshold = x[0]
    return (last.feature + start.feature + other.feature) * best.threshold


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [changed, added, beside])
def test_stores_into_what_a_loop_has_chosen(function: Callable[[Any], Any], backend: str) -> None:
    made = tg.value_and_grad(function, backend=backend)
    for point in POINTS:
        value, gradient = made(point)
        assert np.isclose(value, function(point), rtol=1e-12)
        assert np.allclose(gradient, central_differences(function, point), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_boosting(backend: str) -> None:
    value, gradient = tg.value_and_grad(boost, backend=backend)(WEIGHTS)
    assert np.isclose(value, boost(WEIGHTS), rtol=1e-12)
    assert np.allclose(gradient, central_differences(boost, WEIGHTS), rtol=1e-5, atol=1e-8)


OTHERS: dict[str, Callable[..., Any]] = {
    "the last": lambda best, last, start, other: last.threshold,
    "the first": lambda best, last, start, other: start.threshold,
    "another choice": lambda best, last, start, other: other.threshold,
}
NEW: dict[str, Callable[..., Any]] = {
    "a read": lambda last: last.weight,
    "hasattr": lambda last: float(hasattr(last, "weight")),
    "getattr": lambda last: getattr(last, "weight", 0.0),
    "all attributes": lambda last: float(len(vars(last))),
}


@pytest.mark.parametrize("read", OTHERS.values(), ids=OTHERS)
def test_a_read_under_another_name_that_may_be_for_it(read: Callable[..., Any]) -> None:
    def function(x: Any) -> Any:
        found = find(x, first=True)
        found[0].threshold = x[0] * 10
        return read(*found)

    with pytest.raises(TracegradError, match="TG136"):
        tg.function(function)(POINTS[0])


@pytest.mark.parametrize("read", NEW.values(), ids=NEW)
def test_whether_another_name_shows_a_new_attribute(read: Callable[..., Any]) -> None:
    def function(x: Any) -> Any:
        best, last, _, _ = find(x)
        best.weight = x[0]
        return read(last)

    with pytest.raises(TracegradError, match="TG136"):
        tg.function(function)(POINTS[0])


@pytest.mark.parametrize("is_written", [True, False], ids=["the last is written", "compared"])
def test_the_object_of_the_last_iteration_may_be_the_chosen_one(is_written: bool) -> None:
    def function(x: Any) -> Any:
        best, last, _, _ = find(x)
        if is_written:
            last.threshold = x[0] * 100
            return best.threshold
        return x[0] * (best is last)

    with pytest.raises(TracegradError, match="TG136"):
        tg.function(function)(POINTS[0])


def test_objects_of_the_iteration_before() -> None:
    def apart(x: Any) -> Any:
        now = before = Stump(0, x[0])
        for i in range(1, 3):
            before, now = now, Stump(i, x[i])
        now.threshold = x[0] * 3  # never that of the iteration before
        return before.threshold * now.threshold

    def together(x: Any) -> Any:
        best = before = now = Stump(0, x[0])
        for i in range(1, 3):
            if x[i] > 1.4:
                best = before
            before, now = now, Stump(i, x[i])
        best.threshold = x[0] * 3
        return before.threshold

    with pytest.raises(TracegradError, match="TG136"):
        tg.function(together)(POINTS[0])
    for point in POINTS:
        assert np.isclose(tg.function(apart)(point), apart(point))
