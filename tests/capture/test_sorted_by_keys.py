"""sorted() of many numbers by traced keys: one argsort, and a loop over what it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = [np.random.default_rng(seed).normal(size=24) for seed in (2, 3)]


def survival(x: Any) -> Any:
    times = np.abs(x)
    survived, before, area = 1.0, 0.0, 0.0
    for i in sorted(range(len(times)), key=lambda i: times[i]):
        area += survived * (times[i] - before)
        before = times[i]
        survived *= 1 - x[i] / 10
    return area


def items_of_an_array(x: Any) -> Any:
    total = before = 0.0
    for v in sorted(x, key=lambda v: -v * v):
        total += before * v
        before = v
    return total


def items_of_a_list(x: Any) -> Any:
    total = before = 0.0
    for v in sorted([2 * v for v in x], key=abs, reverse=True):
        total += before * v
        before = v
    return total


def by_tuples(x: Any) -> Any:
    order = sorted(range(len(x)), key=lambda i: (round(x[i]), -x[i]), reverse=True)
    return sum(k * x[i] * x[i] for k, i in enumerate(order)) + x[order[0]] * x[order[-1]]


def ties_keep_their_order(x: Any) -> Any:
    total = 0.0
    for k, i in enumerate(sorted(range(1, len(x)), key=lambda i: np.floor(x[i] * 2), reverse=True)):
        total += k * x[i] * x[i]
    return total


def the_list_is_changed(x: Any) -> Any:
    order = sorted(range(len(x)), key=x.__getitem__)
    order.reverse()
    order.append(3)
    return sum(x[order[k]] * x[order[k + 1]] for k in range(len(order) - 1)) + len(order)


def without_a_key(x: Any) -> Any:
    upwards, downwards = sorted(x), sorted(x, reverse=True)
    return sum(k * v for k, v in enumerate(upwards)) + downwards[0] * upwards[0]


def ranks(x: Any) -> Any:
    rank = [0] * len(x)
    for r, i in enumerate(sorted(range(len(x)), key=lambda i: x[i])):
        rank[i] = r
    return sum(r * v for r, v in zip(rank, x, strict=True))


def by_known_keys(x: Any) -> Any:
    weights = [3, 1, 2] * 8
    return sum(k * x[i] for k, i in enumerate(sorted(range(24), key=lambda i: weights[i])))


PROGRAMS: list[Callable[[Any], Any]] = [
    survival,
    items_of_an_array,
    items_of_a_list,
    by_tuples,
    ties_keep_their_order,
    the_list_is_changed,
    without_a_key,
    ranks,
    by_known_keys,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_sorted(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


@pytest.mark.parametrize("program", [survival, items_of_an_array, items_of_a_list, by_tuples, ties_keep_their_order])
def test_the_text_does_not_grow(program: Callable[[Any], Any]) -> None:
    lines = [len(tg.grad(program).source(np.random.default_rng(0).normal(size=n)).splitlines()) for n in (24, 96)]
    assert lines[0] == lines[1]


def one_record(x: Any) -> Any:
    records = [{"v": x[0], "more": [x[1]]}]
    records.sort(key=lambda record: record["v"])
    records[0]["more"].append(x[2])
    ordered = sorted(records, key=lambda record: (record["v"], 1), reverse=True)
    return ordered[0]["v"] * sum(ordered[0]["more"])


class Record:
    def __init__(self, place: int, v: Any) -> None:
        self.place, self.v = place, v


def by_what_is_known(x: Any) -> Any:
    records = [Record(1, x[0]), Record(0, 2 * x[1])]
    records.sort(key=lambda record: ((record.place, record.v), record.v))
    return records[0].v ** 2 + records[1].v * x[2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [one_record, by_what_is_known])
def test_an_order_that_is_known_keeps_the_items(f: Callable[[Any], Any], backend: str) -> None:
    check_agreement(f, backend, *POINTS)
