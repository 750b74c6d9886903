"""`del values[a:b]` and `values.insert(k, record)` where the length of a list is known when the code runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

POINTS = (np.array([0.45, 0.25, 0.5, -0.4, 0.9, 0.11]), np.array([0.2, 0.7, -0.1, -0.4, 0.25, 0.61]))


def weighted(values: Any) -> Any:
    return sum(v * (k + 1) for k, v in enumerate(values))


def all_but_the_first_ones(x: Any) -> Any:
    events = []
    for v in x:
        if v > 0.3:
            events.append(v * v)
        if v < 0:
            events.append(v)
    del events[2:]
    return weighted(events)


def parts_in_a_loop(x: Any) -> Any:
    values = list(x)
    for v in x:
        if v > 0.3:
            values.append(v * v)
        if len(values) > 5:
            del values[4:]
        if v < 0:
            del values[:1]
    return weighted(values)


def in_a_branch(x: Any) -> Any:
    values = list(x)
    if x[0] > 0.3:
        del values[1:3]
    del values[-1:]
    return weighted(values)


def of_tuples(x: Any) -> Any:
    pairs = [(v, 1) for v in x]
    for v in x:
        if v > 0.3:
            pairs.append((v * v, 2))
    del pairs[-2:]
    del pairs[1:2]
    del pairs[100:]
    return weighted([u * k for u, k in pairs])


def of_rows(x: Any) -> Any:
    rows = [x[:2] * 1.0]
    for k in range(5):
        if x[k] > 0.22:
            rows.append(x[k] * x[k : k + 2])
    first = rows[0]
    del rows[:1]
    return weighted([np.sum(row) for row in rows]) + first[1]


def sorted_afterwards(x: Any) -> Any:
    values = list(x)
    for v in x:
        if v > 0.3:
            values.append(v * v)
    if x[0] > 0:
        del values[3:]
    values.sort(key=abs)
    few = values[:2]
    if x[1] < 1:
        few.append(-x[0])
    few.sort(reverse=True)
    return weighted(values) + weighted(few)


def tuple_in_front(x: Any) -> Any:
    values = [(x[0], "a"), (x[2], "b")]
    if x[1] > 0.3:
        values.insert(0, (x[1], "c"))
    for v in x:
        if v > 0.3:
            values.insert(1, (v * v, "d"))
    return weighted([v * {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}[name] for v, name in values])


def dict_in_front(x: Any) -> Any:
    values = [{"v": x[0]}]
    for v in x:
        if v > 0.3:
            values.insert(0, {"v": v * v})
    return weighted([record["v"] for record in values])


def row_in_the_middle(x: Any) -> Any:
    rows = [x[:2] * 1.0, x[2:4] * 2.0]
    for k in range(5):
        if x[k] > 0.22:
            rows.insert(len(rows) // 2, x[k] * x[k : k + 2])
    return weighted([np.sum(row) for row in rows])


PROGRAMS = [
    all_but_the_first_ones,
    parts_in_a_loop,
    in_a_branch,
    of_tuples,
    of_rows,
    sorted_afterwards,
    tuple_in_front,
    dict_in_front,
    row_in_the_middle,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_lists_of_unknown_length(f: Callable[[Any], Any], backend: str) -> None:
    check_agreement(f, backend, *POINTS)


def test_every_second_item_is_refused() -> None:
    def program(x: Any) -> Any:
        values = list(x)
        if x[0] > 0:
            values.append(x[1])
        del values[::2]
        return sum(values)

    with pytest.raises(CaptureError, match=r"\[TG101\]"):
        tg.function(program)(POINTS[0])
