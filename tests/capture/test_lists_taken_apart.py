"""Slices, orders, extremes and columns of lists whose length is known only when the code runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (
    np.array([1.1, -2.0, 3.0, 0.5, -0.7]),
    np.array([-1.1, -2.0, -3.0, 0.5, -0.7]),
    np.array([1.3, 2.0, 3.0, 0.5, 0.7]),
)


def positive(x: Any) -> Any:
    found = [(0, x[0])]
    for i, v in enumerate(x):
        if v > 0:
            found.append((i, v * v))
    return found


def columns(x: Any) -> Any:
    places, values = zip(*positive(x), strict=True)
    return np.sum(np.array(places) * np.array(values)) + sum(values)


def columns_of_lists(x: Any) -> Any:
    rows = [[1.0, x[0]]]
    for v in x:
        if v > 0:
            rows.append([v, v * v])
    first, second = map(np.array, zip(*rows, strict=True))
    return first @ second


def slices_of_records(x: Any) -> Any:
    found = positive(x)
    return sum(i * v for i, v in found[1:]) + len(found[:2]) + found[::-1][0][1]


def slices_of_vectors(x: Any) -> Any:
    rows = [x]
    for v in x:
        if v > 0:
            rows.append(v * x)
    return sum(np.sum(row * rows[0]) for row in rows[1:]) + np.sum(rows[:-1][-1]) + len(rows.copy())


def extremes_by_key(x: Any) -> Any:
    i, v = max(positive(x), key=lambda pair: pair[1])
    j, w = min(positive(x), key=lambda pair: pair[1])
    return i * v + w * j


def extremes_of_tuples(x: Any) -> Any:
    i, v = max(positive(x))
    j, w = min((w, -j) for j, w in positive(x))
    return i * v + w * j + max(*[v for _, v in positive(x)])


def sorted_by_key(x: Any) -> Any:
    found = sorted(positive(x), key=lambda pair: pair[1])
    return found[0][1] + sum((k + 1) * pair[1] for k, pair in enumerate(found))


def sorted_backwards(x: Any) -> Any:
    found = sorted(positive(x), key=lambda pair: pair[0] // 2, reverse=True)
    return sum((k + 1) * pair[1] for k, pair in enumerate(found))


def sorted_tuples(x: Any) -> Any:
    found = [(v // 1, v) for _, v in positive(x)]
    found.sort()
    return sum(k * pair[1] for k, pair in enumerate(found))


def sorted_vectors(x: Any) -> Any:
    rows = [x]
    for v in x:
        if v > 0:
            rows.append(v * x)
    rows.sort(key=lambda row: row[1])
    return sum(k * row[0] * row[2] for k, row in enumerate(rows))


def numbers_by_key(x: Any) -> Any:
    values = [x[0]]
    for v in x:
        if v > 0:
            values.append(v)
    values.sort(key=lambda v: -v)
    return sum(k * v for k, v in enumerate(values)) + max(values, key=lambda v: -v) + values[-2]


def neighbours(x: Any) -> Any:
    values = [x[0]]
    for v in x:
        if v > 0:
            values.append(v)
    return sum((a - b) ** 2 for a, b in zip(values[:-1], values[1:], strict=True))  # noqa: RUF007


def medians_along_axes(x: Any) -> Any:
    rows = [x]
    for v in x:
        if v > 0:
            rows.append(v * x + v)
    table = np.array(rows)
    middle = np.median(table, axis=0)
    spread = np.quantile(table, [0.2, 0.9], axis=0)
    return middle @ x + np.sum(np.median(table, axis=1)) + np.sum(spread[1] - spread[0]) * spread[0, 1]


PROGRAMS: list[Callable[[Any], Any]] = [
    columns,
    columns_of_lists,
    slices_of_records,
    slices_of_vectors,
    extremes_by_key,
    extremes_of_tuples,
    sorted_by_key,
    sorted_backwards,
    sorted_tuples,
    sorted_vectors,
    numbers_by_key,
    neighbours,
    medians_along_axes,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_list_of_unknown_length_is_taken_apart(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_a_median_along_an_axis_that_is_not_there_is_refused() -> None:
    def program(x: Any) -> Any:
        return np.median(np.array([v for v in x if v > 0]), axis=1)

    with pytest.raises(np.exceptions.AxisError):
        tg.grad(program)(POINTS[0])


def test_a_list_as_the_arguments_of_a_call_is_refused() -> None:
    def program(x: Any) -> Any:
        return np.hypot(*[v for v in x if v > 0])

    with pytest.raises(TracegradError) as caught:
        tg.grad(program)(POINTS[0])
    assert caught.value.code == "TG101"
    assert "pass the list itself" in str(caught.value)
