"""`is` between tuples that a traced condition has chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.errors import NeedsPythonValue

POINTS = (np.array([0.7, 0.9, 0.4]), np.array([-0.3, 1.2, 0.45]), np.array([1.7, -0.6, 0.8]))


def branch(x: Any) -> Any:
    one, other = (x[0], x[1]), (x[1], x[2])
    best = one
    if x[0] < x[1]:
        best = other
    return x[0] if best is one else 2.0 * x[1]


def nested_branches(x: Any) -> Any:
    rows = ((x[0], 1.0), (x[1], 2.0), (x[2], 3.0))
    best = rows[0]
    if x[1] > 0:
        if x[0] < x[1]:
            best = rows[1]
        else:
            best = rows[2]
    return sum((k + 1) * row[0] for k, row in enumerate(rows) if row is best) + best[1]


def best_of_rows(x: Any) -> Any:
    rows = [(x[0], 1.0), (x[1], 2.0), (x[2], 3.0)]
    best = rows[0]
    for row in rows:
        if row[0] > best[0]:
            best = row
    total = 0.0
    for row in rows:
        if row is not best:
            total += row[0] * row[1]
    return total


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", [branch, nested_branches, best_of_rows])
def test_a_chosen_tuple_is_the_one_that_was_chosen(program: Any, backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_which_tuple_a_loop_ends_with_is_not_known() -> None:
    def f(x: Any) -> Any:
        one, other = (x[0], 1.0), (x[1], 2.0)
        best = one
        for k in range(20):
            if np.sin(k * x[0]) > 0.5:
                best = other
        return best[0] if best is one else best[1]

    with pytest.raises(NeedsPythonValue, match="a tuple that a traced condition has chosen") as raised:
        tg.grad(f)(POINTS[0])
    assert raised.value.code == "TG136"
    assert "keep a number beside" in raised.value.help


def test_many_choices_of_a_tuple_are_refused() -> None:
    def f(x: Any) -> Any:
        one, other = (x[0], 1.0), (x[1], 2.0)
        best, total = one, 0.0
        for k in range(20):
            if best is other:
                total += x[2]
            if np.sin(k * x[0]) > 0.5:
                best = other
        return total

    with pytest.raises(NeedsPythonValue, match="a tuple that a traced condition has chosen"):
        tg.grad(f)(POINTS[0])
