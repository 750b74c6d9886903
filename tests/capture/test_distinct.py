"""np.unique of traced arrays: how many values there are is found when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

TIMES = np.array([2.0, 1.0, 3.0, 2.0, 5.0])
EVENTS = np.array([1, 1, 0, 1, 1])
NO_NUMBERS = np.array([1.0, np.nan, 1.0, np.nan, 2.0])
POINTS = (np.array([1.2, 2.3, 0.4, 1.9, 0.7]), np.array([3.1, 0.2, 0.9, 2.4, 1.6]))


def risk_sets(w: Any) -> Any:
    total = 0.0
    for t in np.unique(TIMES):
        total = total + np.log(np.sum(w[TIMES >= t]))
    return total


def risk_sets_of_events(w: Any) -> Any:
    total = 0.0
    for k, t in enumerate(np.unique(TIMES[EVENTS == 1])):
        total = total + (k + 1) * np.log(np.sum(w[TIMES >= t]))
    return total


def of_a_traced_selection(w: Any) -> Any:
    values, index, inverse, counts = np.unique(TIMES[w > 0.8], True, True, True)
    total = np.sum(w[index] ** 2) + np.sum(values[inverse] ** 2) * w[0] + len(inverse) * w[1]
    return total + np.sum(counts * w[index]) + np.sum(values * counts) * w[2]


def broken_ties(w: Any) -> Any:
    """Breslow's sum."""
    total = 0.0
    times, counts = np.unique(TIMES[EVENTS == 1], return_counts=True)
    for t, count in zip(times, counts, strict=True):
        total = total + count * np.log(np.sum(w[TIMES >= t]))
    return total


def means_of_groups(w: Any) -> Any:
    values = np.unique(TIMES.reshape(5, 1))
    means = np.zeros(len(values))
    for k, value in enumerate(values):
        means[k] = np.mean(w[TIMES == value])
    return np.sum(means**2) * values.size


def of_the_values_themselves(w: Any) -> Any:
    values = np.unique(np.concatenate([w, w[:2], w[3:]]))
    return np.sum(values**2 * np.arange(len(values))) + values[-1] * values[0]


def first_and_inverse(w: Any) -> Any:
    values, index, inverse = np.unique(TIMES, return_index=True, return_inverse=True)
    return np.sum(values[inverse] * w) + np.sum(w[index] * values)


def nans(w: Any) -> Any:
    one, counts = np.unique(NO_NUMBERS, return_counts=True)
    return np.sum(counts**2 * w[: len(one)]) + len(np.unique(NO_NUMBERS, equal_nan=False)) * w[0]


def of_nothing(w: Any) -> Any:
    values = np.unique(TIMES[w > 9.0])
    return np.sum(values) + len(values) + w[0]


def of_masks_and_ints(w: Any) -> Any:
    return len(np.unique(w > 1.0)) * w[0] + np.sum(np.unique(np.floor(w).astype(int) % 2)) * w[1]


def listed(w: Any) -> Any:
    return sum([np.log(np.sum(w[TIMES >= t])) for t in np.unique(TIMES)])


PROGRAMS = (
    risk_sets,
    risk_sets_of_events,
    of_a_traced_selection,
    broken_ties,
    means_of_groups,
    of_the_values_themselves,
    first_and_inverse,
    nans,
    of_nothing,
    of_masks_and_ints,
    listed,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_other_values_from_outside_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tg.function(risk_sets)
    before = compiled(POINTS[0])
    monkeypatch.setitem(globals(), "TIMES", np.array([4.0, 4.0, 4.0, 4.0, 1.0]))
    assert compiled(POINTS[0]) == pytest.approx(risk_sets(POINTS[0])) != pytest.approx(before)


def test_a_set_is_refused_as_a_set() -> None:
    def flow(w: Any) -> Any:
        return sum(np.sum(w[TIMES >= t]) for t in sorted(set(TIMES)))

    with pytest.raises(TracegradError, match=r"an item of a set.*\n(.*\n)*.*np\.unique"):
        tg.function(flow)(POINTS[0])
