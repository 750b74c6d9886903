"""Loops over a list, by whichever iterator, whose body changes the list."""

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

POINTS = (np.array([0.2, 0.5, -0.4, 0.9]), np.array([-0.3, 1.2, 0.7, 0.1]))


def _given(values: Any) -> Any:
    for v in values:
        yield 3 * v


ITERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "the list": lambda values, x: values,
    "iter": lambda values, x: iter(values),
    "zip, first": lambda values, x: (v for v, _ in zip(values, x, strict=False)),
    "zip, last": lambda values, x: (v for _, v in zip(x, values, strict=False)),
    "reversed": lambda values, x: reversed(values),
    "enumerate": lambda values, x: (v + k for k, v in enumerate(values)),
    "islice": lambda values, x: itertools.islice(values, 7),
    "chain": lambda values, x: itertools.chain(values, x),
    "pairwise": lambda values, x: (v * w for v, w in itertools.pairwise(values)),
    "starmap": lambda values, x: itertools.starmap(np.multiply, zip(values, x, strict=False)),
    "zip with a count": lambda values, x: (v + k for v, k in zip(values, itertools.count())),
    "accumulate": lambda values, x: itertools.accumulate(values),
    "generator expression": lambda values, x: (2 * v for v in values),
    "generator": lambda values, x: _given(values),
}


def _append(values: list[Any], v: Any) -> None:
    if v < 0.65 and len(values) < 9:
        values.append(v + 0.2)


def _insert(values: list[Any], v: Any) -> None:
    if v < 0.65 and len(values) < 9:
        values.insert(1, v)


def _pop(values: list[Any], v: Any) -> None:
    if v < 0.65 and len(values) > 1:
        values.pop()


def _delete(values: list[Any], v: Any) -> None:
    if v < 0.65 and len(values) > 1:
        del values[0]


def _extend(values: list[Any], v: Any) -> None:
    if v < 0.65 and len(values) < 9:
        values.extend([v, 2 * v])


def _clear(values: list[Any], v: Any) -> None:
    if v < 0.65:
        values.clear()


def _appended_always(values: list[Any], v: Any) -> None:
    if len(values) < 6:
        values.append(v + 0.2)


def _popped_always(values: list[Any], v: Any) -> None:
    if len(values) > 2:
        values.pop()


def _shorten(values: list[Any], v: Any) -> None:
    if v < 0.65:
        del values[0]


def _sort(values: list[Any], v: Any) -> None:
    if v < 0.65:
        values.sort()


def _set(values: list[Any], v: Any) -> None:
    if v < 0.65:
        values[-1] = values[0] * v


def _nothing(values: list[Any], v: Any) -> None:
    pass


def _looping(iterator: Callable[[Any, Any], Any], change: Callable[[list[Any], Any], None]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        values, total = list(x), 0.0
        for v in iterator(values, x):
            change(values, v)
            total = total * 0.9 + v
        return total + sum(v * (k + 1) for k, v in enumerate(values))

    return run


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", [_append, _insert, _pop, _delete, _extend, _clear])
@pytest.mark.parametrize("iterator", ITERATORS)
def test_lengths_that_a_condition_changes_are_refused(
    iterator: str, change: Callable[[list[Any], Any], None], backend: str
) -> None:
    with pytest.raises(CaptureError, match=r"changes its length while a loop runs over it \[TG134\]"):
        tg.function(_looping(ITERATORS[iterator], change), backend=backend)(POINTS[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", [_appended_always, _popped_always, _sort, _set, _nothing])
@pytest.mark.parametrize("iterator", ITERATORS)
def test_other_changes_are_seen(iterator: str, change: Callable[[list[Any], Any], None], backend: str) -> None:
    check_agreement(_looping(ITERATORS[iterator], change), backend, *POINTS)


#: what calls functions when a loop takes its items
LAZY: dict[str, Callable[[Any], Any]] = {
    "map": lambda values: map(np.negative, values),
    "map of two": lambda values: map(lambda v, w: v * w, values, values),
    "filter": lambda values: filter(lambda v: True, values),
    "filter by values": lambda values: filter(lambda v: v > -9, values),
    "filterfalse": lambda values: itertools.filterfalse(lambda v: False, values),
}


def _mapping(iterator: Callable[[Any], Any], change: Callable[[list[Any], Any], None], count: int) -> Any:
    def run(x: Any) -> Any:
        values, total = [], 0.0
        for k in range(count):
            values.append(x[k % 4] * (k + 1))
        for v in iterator(values):
            change(values, v)
            total = total * 0.9 + v
        return total + sum(v * (k + 1) for k, v in enumerate(values))

    return run


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [4, 12])
@pytest.mark.parametrize("change", [_shorten, _pop, _clear])
@pytest.mark.parametrize("iterator", LAZY)
def test_lists_that_are_mapped_must_keep_their_lengths(
    iterator: str, change: Callable[[list[Any], Any], None], count: int, backend: str
) -> None:
    with pytest.raises(CaptureError, match=r"\[(TG134|TG120)\]"):
        tg.function(_mapping(LAZY[iterator], change, count), backend=backend)(-POINTS[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [4, 12])
@pytest.mark.parametrize("change", [_set, _nothing])
@pytest.mark.parametrize("iterator", LAZY)
def test_items_of_mapped_lists_may_change(
    iterator: str, change: Callable[[list[Any], Any], None], count: int, backend: str
) -> None:
    check_agreement(_mapping(LAZY[iterator], change, count), backend, *POINTS)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", [_pop, _shorten, _clear])
@pytest.mark.parametrize("iterator", [iter, reversed, lambda values: (v for v, _ in zip(values, itertools.count()))])
def test_lists_that_a_loop_has_filled_must_keep_their_lengths(
    iterator: Callable[[Any], Any], change: Callable[[list[Any], Any], None], backend: str
) -> None:
    with pytest.raises(CaptureError, match=r"\[TG134\]"):
        tg.function(_mapping(iterator, change, 12), backend=backend)(POINTS[0])
