"""Functions of Python that call methods of the user's objects: these are captured, with branches in them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS


class Task:
    def __init__(self, due: Any, cost: Any) -> None:
        self.due, self.cost = due, cost

    def __lt__(self, other: Task) -> Any:
        if self.due < other.due:
            return True
        return False

    def __add__(self, other: Task) -> Task:
        if self.due > other.due:
            return Task(self.due, self.cost + other.cost)
        return Task(other.due, self.cost * other.cost)


def tasks(x: Any) -> list[Task]:
    return [Task(x[0], x[1]), Task(x[1], x[2]), Task(x[2], x[0])]


PROGRAMS: list[Callable[[Any], Any]] = [
    lambda x: max(tasks(x)).cost * 3.0 + min(*tasks(x)).cost,
    lambda x: max(tasks(x), key=lambda task: task.cost).due,
    lambda x: operator.add(*tasks(x)[:2]).cost,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS, ids=["methods", "key", "operator"])
def test_objects_in_traced_order(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    for x in (np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0]), np.array([2.0, 3.0, 1.0])):
        assert value(x) == f(x)
        np.testing.assert_allclose(gradient(x), central_differences(f, x), atol=1e-8)


SEARCHES: list[Callable[[Any], Any]] = [
    lambda x: [x[0], x[1], x[2]].index(x[2]) * x[0],
    lambda x: (x[0], 2.0, x[2]).index(2.0) * x[1],
    lambda x: [x[0], 2.0, x[2]].count(x[1]) * x[0],
    lambda x: ["a", x[1], "b"].index("b") * x[0],
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", SEARCHES)
def test_index_and_count_of_traced_items(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    for x in (np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 1.0]), np.array([3.0, 3.0, 3.0])):
        assert value(x) == f(x)
        np.testing.assert_allclose(gradient(x) @ x, f(x))  # linear in x, but for jumps


@pytest.mark.parametrize("backend", BACKENDS)
def test_index_of_what_is_not_there(backend: str) -> None:
    def f(x: Any) -> Any:
        return [x[0], x[1]].index(5.0) * x[0]

    with pytest.raises(ValueError, match="the value is not in the list"):
        tg.function(f, backend=backend)(np.ones(3))
    with pytest.raises(ValueError, match="the value is not in the list"):
        tg.function(lambda x: ["a"].index(x) if False else [x, "a"].index("b") * x)(1.0)
