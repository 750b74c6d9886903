"""The functions that map and filter call when an item is taken: they see, and change, what there is by then."""

# ruff: noqa: C417 - map with a lambda is what is tested

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

POINTS = (np.array([0.2, 0.55, -0.4, 0.9]), np.array([-0.3, 1.2, 0.7, 0.1]))


def weighted(*lists: Any) -> Any:
    return sum(v * (k + 1) for values in lists for k, v in enumerate(values))


def item_that_the_body_changes(x: Any) -> Any:
    scale = [0.1, 2.0]

    def scaled(v: Any) -> Any:
        return v * scale[-1] + scale[0]

    seen = []
    for u in map(scaled, x):
        scale[0] = u * 0.5
        seen.append(u)
    return weighted(seen, scale)


def list_that_the_body_makes_longer(x: Any) -> Any:
    values = [x[0]]
    for v in map(lambda u: u * values[-1] + len(values), x):
        if v > 1.2:
            values.append(v * 0.5)
    return weighted(values)


def variable_that_the_body_binds(x: Any) -> Any:
    last = x[1]

    def apart(v: Any) -> Any:
        return v > last

    taken = []
    for v in filter(apart, x):
        last = v * v
        taken.append(v)
    return weighted(taken) + last


def variable_that_changes_before(x: Any) -> Any:
    scale = 2.0
    scaled = map(lambda v: v * scale, x)
    scale = x[0]
    return sum(scaled)


def array_that_the_body_writes(x: Any) -> Any:
    table = np.zeros(4)
    total = 0.0
    for k, v in enumerate([1.0, 2.0, 0.5, 3.0]):
        table[k] = v * x[k]
    for v in itertools.filterfalse(lambda u: u * table[0] > 0.3, x):
        table[0] += v
        total = total + v * table[1]
    return total + np.sum(table)


def longer_by_its_own_items(x: Any) -> Any:
    values = [v for v in x if v > 0.15]
    values.extend(map(lambda v: v * values[-1], values[:2]))
    values += filter(lambda v: v < values[-1], x)
    return weighted(values)


def function_that_changes_what_the_body_reads(x: Any) -> Any:
    seen = [0.0]

    def noted(v: Any) -> Any:
        seen.append(v)
        return v * v

    total = 0.0
    for v in map(noted, x):
        total = total * 0.5 + v * seen[-1] + len(seen)
        if v > 0.7:
            break
    return total + weighted(seen)


def one_in_the_other(x: Any) -> Any:
    scale = [x[0]]
    total = 0.0
    for v in map(lambda u: u * scale[0], filter(lambda u: u > scale[0] - 0.3, x)):
        scale[0] = v + 0.1
        total = total + v
    return total + sum(v * scale[0] for v in map(lambda u: u + scale[0], x))


def two_at_a_time(x: Any) -> Any:
    values = [0.3]
    for v in map(lambda a, b: a * b + values[-1], x, x[1:]):
        values.append(v)
    return weighted(values)


def ended_at_the_first(x: Any) -> Any:
    seen = []

    def noted(v: Any) -> Any:
        seen.append(v)
        return v > 0.5

    return weighted(seen) + len(seen) if any(map(noted, x)) else x[0]


PROGRAMS = [
    item_that_the_body_changes,
    list_that_the_body_makes_longer,
    variable_that_the_body_binds,
    variable_that_changes_before,
    array_that_the_body_writes,
    longer_by_its_own_items,
    function_that_changes_what_the_body_reads,
    one_in_the_other,
    two_at_a_time,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_functions_are_called_when_an_item_is_taken(f: Callable[[Any], Any], backend: str) -> None:
    check_agreement(f, backend, *POINTS)


def many(x: Any) -> Any:
    values = list(np.linspace(x[0], x[1], 40))
    scale = [1.0]
    for v in map(lambda u: u * scale[0], values):
        scale[0] = scale[0] * 0.9 + v * 0.1
    return scale[0]


def test_many_items_are_one_loop() -> None:
    check_agreement(many, "numpy", *POINTS)
    assert tg.function(many).source(POINTS[0]).count("* 0.9") < 4


def changed_under_zip(x: Any) -> Any:
    scale = [2.0]
    for v, w in zip(map(lambda u: u * scale[0], x), x, strict=True):
        scale[0] = v + w
    return scale[0]


def changing_under_enumerate(x: Any) -> Any:
    seen = [0.0]

    def noted(v: Any) -> Any:
        seen.append(v)
        return v

    total = 0.0
    for k, v in enumerate(map(noted, x)):
        total = total + seen[-1] * v * k
    return total


def changed_between_two(x: Any) -> Any:
    scale = [2.0]
    scaled = map(lambda u: u * scale[0], x)
    first = next(scaled)
    scale[0] = first
    return first + sum(scaled)


@pytest.mark.parametrize("f", [changed_under_zip, changing_under_enumerate, changed_between_two, ended_at_the_first])
def test_what_would_be_called_too_early_is_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(CaptureError, match=r"\[(TG134|TG120)\]"):
        tg.function(f)(POINTS[0])
