"""None in a tuple, list, dict or object that is a number in another branch or iteration."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.capture.agreement import check_agreement

POINTS = (
    np.array([1.0, -2.0, 3.0, 0.5]),
    np.array([-1.1, 2.0, -3.0, -0.5]),
    np.array([1.0, 0.2, 3.0, 0.5]),
    np.random.default_rng(0).normal(size=40),
)


class Best:
    def __init__(self, value: Any, place: Any) -> None:
        self.value = value
        self.place = place


class Found(NamedTuple):
    value: Any
    place: Any


def number_first(x: Any) -> Any:
    best = (-np.inf, None)
    for i in range(len(x)):
        v = x[i] * 2
        if v > best[0]:
            best = (v, i)
    return best[0] * 3 + x[best[1]]


def none_first(x: Any) -> Any:
    best = (None, -np.inf)
    for i, v in enumerate(x):
        if v > best[1]:
            best = (i, v)
    return best[1] if best[0] is None else best[1] * best[0]


def in_a_branch(x: Any) -> Any:
    pair = (None, 0.5)
    if x[0] > 0:
        pair = (x[1], x[2])
    if x[1] > 0:
        pair = (x[2] * x[0], pair[1])
    return pair[1] * x[0] if pair[0] is None else pair[1] * pair[0]


def in_a_dict(x: Any) -> Any:
    best = {"value": 0.0, "place": None}
    for i in range(len(x)):
        if x[i] > best["value"]:
            best = {"value": x[i], "place": i}
    return best["value"] if best["place"] is None else best["value"] * best["place"]


def in_an_object(x: Any) -> Any:
    best = Best(0.0, None)
    for i in range(len(x)):
        if x[i] > best.value:
            best = Best(x[i], i)
    return best.value if best.place is None else best.value * best.place


def nested(x: Any) -> Any:
    best = (0.0, (None, None))
    for i in range(len(x)):
        for j in range(i):
            if x[i] * x[j] > best[0]:
                best = (x[i] * x[j], (i, j))
    return best[0] if best[1][0] is None else best[0] * x[best[1][0]] * x[best[1][1]]


def both_ways(x: Any) -> Any:
    last = (None, 1.0)
    s = 0.0
    for v in x:
        if last[0] is not None and v > 0:
            s += last[0] * v
        last = (v, 2.0) if v > -0.7 else (None, v)
    return s + last[1]


def until_the_end(x: Any) -> Any:
    best = (0.0, None)
    i = 0
    while i < len(x) and x[i] > -1.5:
        if x[i] > best[0]:
            best = (x[i], i)
        i += 1
    return best[0] * 3 + (x[0] if best[1] is None else x[best[1]])


def a_record_until_the_end(x: Any) -> Any:
    best = Found(0.0, None)
    i = 0
    while i < len(x) and x[i] > -1.5:
        if x[i] > best.value:
            best = Found(value=x[i], place=i)
        i += 1
    return best.value * 3 + (x[0] if best.place is None else x[best.place])


def a_list_until_the_end(x: Any) -> Any:
    best = [0.0, None]
    i = 0
    while i < len(x) and x[i] > -1.5:
        if x[i] > best[0]:
            best = [x[i], i]
        i += 1
    return best[0] * 3 + (x[0] if best[1] is None else x[best[1]])


def an_object_until_the_end(x: Any) -> Any:
    best = first = Best(0.0, None)
    i = 0
    while i < len(x) and x[i] > -1.5:
        if x[i] > best.value:
            best = Best(x[i], i)
        i += 1
    s = best.value * 3 + (x[0] if best.place is None else x[best.place])
    return s if first.place is None else -s


def a_number_in_each_iteration(x: Any) -> Any:
    last = (None, 1.0)
    s = 0.0
    for v in x:
        if v < -1.5:
            break
        if last[0] is not None:
            s += last[0] * v
        last = (v, 2.0)
    return s + last[1]


PROGRAMS = (
    number_first,
    none_first,
    in_a_branch,
    in_a_dict,
    in_an_object,
    nested,
    both_ways,
    until_the_end,
    a_record_until_the_end,
    a_list_until_the_end,
    an_object_until_the_end,
    a_number_in_each_iteration,
)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_none_inside(program: Any, backend: str) -> None:
    check_agreement(program, backend, *POINTS)
