"""What `next`, takewhile and dropwhile ask of items, and what that changes: nothing of it comes after the end."""

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

POINTS = [
    np.array(row)
    for row in ([0.3, 0.8, 0.9, -0.4], [0.03, 0.02, 0.9, 0.1], [-1.0, -2.0, -3.0, 0.2], [0.9, 0.6, 0.1, 2.0])
]


class Sum:
    def __init__(self) -> None:
        self.total: Any = 0.0

    def add(self, value: Any) -> Any:
        self.total = self.total + value
        return self.total


def an_attribute_in_the_condition(x: Any) -> Any:
    seen = Sum()
    found = next((v for v in x if v > seen.add(0.13 * x[0])), 1.0)
    return found + 10 * seen.total


def an_attribute_in_the_item(x: Any) -> Any:
    seen = Sum()
    found = next((seen.add(v) for v in x if v > 0.7), 1.0)
    return found + 10 * seen.total


def pairs(x: Any) -> Any:
    seen = Sum()
    first, second = next(((v, seen.add(v)) for v in x if v > 0.5), (x[0], 1.0))
    return first + 3 * second + 10 * seen.total


def rows(x: Any) -> Any:
    seen = Sum()
    return next((row for row in np.outer(x, x) if seen.add(row[0]) > 0.2), x).sum() + 10 * seen.total


def a_number_of_the_function_around(x: Any) -> Any:
    total = 0.0

    def reaches(v: Any) -> Any:
        nonlocal total
        total += v
        return total > 0.2

    return next((v for v in x if reaches(v)), 1.0) + 10 * total


def an_item_of_a_list(x: Any) -> Any:
    best = [0.0]

    def is_better(v: Any) -> bool:
        if v > best[0]:
            best[0] = v
            return True
        return False

    first = next((v for v in x if is_better(v)), 0.0)
    second = next((v for v in x if is_better(v)), 0.0)
    return first + 10 * second


def appended(x: Any) -> Any:
    seen: list[Any] = []

    def note(v: Any) -> bool:
        seen.append(v)
        return True

    found = next((v for v in x if note(v) and v > 0.6), 1.0)
    return found + 10 * sum(seen) * len(seen)


def an_array(x: Any) -> Any:
    seen = np.zeros(4)

    def note(i: int) -> Any:
        seen[i] = x[i]
        return x[i] > 0.5

    return x[next((i for i in range(4) if note(i)), 0)] + 10 * seen.sum()


def a_list_of_unknown_length(x: Any) -> Any:
    seen = Sum()
    values = [v for v in x if v > -1.5]
    return next((v for v in values if seen.add(v) > 0.4), 1.0) + 10 * seen.total


def loops_in_one(x: Any) -> Any:
    seen = Sum()
    found = next((v * w for v in x if v > 0.1 for w in x if seen.add(v * w) > 0.7), x[0])
    return found + 10 * seen.total


def in_a_loop(x: Any) -> Any:
    seen, result = Sum(), 0.0
    for k in range(3):
        result += next((v for v in x if v > seen.add(0.11 * x[1])), 1.0) * (k + 1)
    return result + 10 * seen.total


PROGRAMS: list[Callable[[Any], Any]] = [
    an_attribute_in_the_condition,
    an_attribute_in_the_item,
    pairs,
    rows,
    a_number_of_the_function_around,
    an_item_of_a_list,
    appended,
    an_array,
    a_list_of_unknown_length,
    loops_in_one,
    in_a_loop,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_next_changes_what_python_does(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def judged_by_an_attribute(take: Any, x: Any) -> Any:
    seen = Sum()
    return sum(take(lambda v: v < seen.add(0.3), x)) + 10 * seen.total


def judged_by_a_number(take: Any, x: Any) -> Any:
    total = 0.0

    def is_below(v: Any) -> Any:
        nonlocal total
        total += v
        return total < 1.0

    return sum(take(is_below, x)) + 10 * total


def judged_by_a_list(take: Any, x: Any) -> Any:
    seen: list[Any] = []

    def is_below(v: Any) -> Any:
        seen.append(v)
        return v < 0.5

    return sum(take(is_below, x)) + len(seen)


def judged_by_an_array(take: Any, x: Any) -> Any:
    seen = np.zeros(1)

    def is_below(v: Any) -> Any:
        seen[0] += v
        return v < 0.5

    return sum(take(is_below, x)) + seen[0]


def the_loop_changes_the_test(take: Any, x: Any) -> Any:
    limit, total = [0.5], 0.0
    for v in take(lambda v: v < limit[0], x):
        limit[0] = 10.0
        total += v
    return total


def the_loop_changes_the_items(take: Any, x: Any) -> Any:
    values, total = list(x), 0.0
    for v in take(lambda v: v < 0.5, values):
        values[-1] = 3.0
        total += v
    return total


@pytest.mark.parametrize("take", [itertools.takewhile, itertools.dropwhile])
@pytest.mark.parametrize(
    "program",
    [
        judged_by_an_attribute,
        judged_by_a_number,
        judged_by_a_list,
        judged_by_an_array,
        the_loop_changes_the_test,
        the_loop_changes_the_items,
    ],
    ids=lambda f: f.__name__,
)
def test_a_test_that_changes_something_is_refused(program: Callable[..., Any], take: Any) -> None:
    with pytest.raises(CaptureError, match=r"\[TG1(34|20)\]"):
        tg.function(lambda x: program(take, x))(POINTS[0])


def test_the_refusal_of_effects_names_the_line_of_the_user() -> None:
    def f(x):
        seen = [0.0]

        def halves():
            for v in x:
                seen[0] += v
                yield seen[0]

        return next((w for w in halves() if w > 0.5), 0.0) + seen[0]

    with pytest.raises(CaptureError) as caught:
        tg.function(f)(np.array([0.3, 0.8, 0.9]))
    assert caught.value.span is not None and caught.value.span.file == __file__
