"""Lists and selections of unknown length in the body of a `try`: to order and fill them has no fault for a handler."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = [np.array(row) for row in ([0.3, 0.8, 0.9, -0.4], [-1.0, -2.0, -3.0, 0.2], [-1.0, -1.5, -2.0, -2.5])]


def sorted_by_a_key(x: Any) -> Any:
    values = [v for v in x if v > 0]
    try:
        return sorted(values, key=lambda v: abs(v - 0.5))[1]
    except IndexError:
        return 7.0 * x[0]


def sorted_in_place(x: Any) -> Any:
    values = [v for v in x if v > 0]
    try:
        values.sort(key=lambda v: -v)
        return values[1] * values[0]
    except (ValueError, IndexError):
        return 7.0 * x[0]


def tuples(x: Any) -> Any:
    values = [(v, k) for k, v in enumerate(x) if v > 0]
    try:
        values.sort(key=lambda t: (-t[0], t[1]), reverse=True)
        return values[0][0] + 3 * values[1][0]
    except IndexError:
        return 7.0 * x[0]


def a_key_that_may_fail(x: Any) -> Any:
    values = [v for v in x if v > 0]
    try:
        values.sort(key=lambda v: -math.log(v - 0.25))
        return values[0] + 3 * values[1]
    except ValueError:
        return 5.0 * x[0]
    except IndexError:
        return 7.0 * x[0]


def several_in_one_body(x: Any) -> Any:
    values = [v for v in x if v > 0]
    try:
        first = sorted(values, key=lambda v: -v)
        second = sorted(values, key=lambda v: v)
        values.reverse()
        values.extend(first)
        nearest = sorted(values, key=lambda v: -abs(v - 0.6), reverse=True)[:2]
        return first[0] + 2 * second[0] + values[-1] + sum(nearest)
    except IndexError:
        return 7.0 * x[0]


def filled_in_a_comprehension(x: Any) -> Any:
    values = [v for v in x if v > 0]
    try:
        doubled = [2 * v for v in values]
        return doubled[1] + sum(doubled)
    except IndexError:
        return 7.0 * x[0]


def selected_and_sorted(x: Any) -> Any:
    selected = x[x > 0]
    try:
        return selected[np.argsort(-selected)][1]
    except IndexError:
        return 7.0 * x[0]


PROGRAMS: list[Callable[[Any], Any]] = [
    sorted_by_a_key,
    sorted_in_place,
    tuples,
    a_key_that_may_fail,
    several_in_one_body,
    filled_in_a_comprehension,
    selected_and_sorted,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_only_the_code_of_the_user_fails(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


@pytest.mark.parametrize("program", [sorted_by_a_key, sorted_in_place, filled_in_a_comprehension])
def test_the_loop_over_the_keys_has_no_exit(program: Callable[[Any], Any]) -> None:
    text = tg.function(program).source(POINTS[0])
    assert "while" not in text
    assert "np.all" not in text
    assert "MemoryError" not in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_that_become_an_array_in_a_try_keep_their_numbers(backend):
    def f(x):
        rows, n = [[x[0], 1.0], [0.5, 0.25], [0.1, 0.2]], 1
        for i in range(3):
            if x[i] > 0.5:
                n = i
                break
        try:
            found = math.sqrt(rows[n][0])
        except ValueError:
            found = x[2]
        return found + sum(row[0] + 3.0 * row[1] for row in rows)

    check_agreement(f, backend, np.array([0.3, 1.2, 0.9]), np.array([-0.3, 0.2, 0.1]), np.array([0.7, 0.2, 0.1]))
