"""Lists to which a traced condition decides whether something is appended: their length is known when the code runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (
    np.array([0.1, 0.7, 0.6, 0.2, 0.9]),
    np.array([0.8, 0.3, 0.6, 0.9, 0.75, 0.2]),
    np.array([0.51, 0.1, 0.2]),
)


def filtered(x: Any) -> Any:
    kept = []
    for v in x:
        if v > 0.5:
            kept.append(v**2)
    return sum(kept) + len(kept) * x[0]


def history_until_it_converges(x: Any) -> Any:
    errors = []
    root = x[0]
    for _ in range(20):
        new = 0.5 * (root + 2.0 / root)
        errors.append(abs(new - root))
        root = new
        if errors[-1] < 1e-6:
            break
    return root + sum(errors) + errors[0] * len(errors)


def straight_line(x: Any) -> Any:
    values: list[Any] = []
    if x[0] > 0.5:
        values.append(x[0])
    if x[1] > 0.5:
        values.append(x[1] ** 2)
    else:
        values.append(x[1])
        values.append(x[2])
    return np.mean(values) * len(values) + values[-1] * values[0]


def nested_conditions(x: Any) -> Any:
    values = [x[0]]
    if x[0] > 0.2:
        values.append(x[1])
        if x[1] > 0.5:
            values.append(x[2] * 2.0)
            values.append(x[0] * x[1])
    return np.sum(np.array(values) ** 2) + values[-1]


def emptiness(x: Any) -> Any:
    values = []
    for i in range(1, len(x)):
        if x[i - 1] < 0.5 <= x[i]:
            values.append((x[i] - 0.5) / (x[i] - x[i - 1]) + i)
    if not values:
        return x[0] * x[1]
    return values[0] + values[-1]


def two_lists(x: Any) -> Any:
    above, below = [], []
    for v in x:
        if v > 0.5:
            above.append(v)
        else:
            below.append(v * 2.0)
    return np.prod(above) - np.sum(np.array(below) ** 2)


def rows_in_two_loops(x: Any) -> Any:
    rows = []
    for i in range(len(x)):
        for j in range(3):
            if x[i] * j > 0.5:
                rows.append(x * j)
                if j == 2:
                    break
    total = 0.0
    for row in rows:
        total += row @ row
    return total


def skipped(x: Any) -> Any:
    roots = []
    for v in x:
        if v < 0.4:
            continue
        roots.append(np.sqrt(v))
    total = 0.0
    for k, root in enumerate(roots):
        total += root * k
    return total + max(roots)


def stopped_before_the_append(x: Any) -> Any:
    path = []
    position = x[0]
    for _ in range(10):
        if position > 3.0:
            break
        path.append(position)
        position = position * 1.4 + x[1]
    return np.sum(np.array(path) * 2.0) + path[-1]


def previous_item(x: Any) -> Any:
    tops = [x[0]]
    for v in x[1:]:
        if v > tops[-1]:
            tops.append(v)
    return tops[-1] * 2.0 + sum(tops)


def list_in_a_condition(x: Any) -> Any:
    values = []
    for v in x:
        if v > 0.65:
            values.append(v)
    if values and values[0] < 0.85:
        return values[0] * 2.0
    return x[0] if not values or x[1] > 0.0 else x[1]


def item_of_a_list_that_was_empty(x: Any) -> Any:
    values = []
    for i in range(20):
        if i > 3:
            values.append(values[-1] * 0.5 + x[1])
        values.append(x[i % 3])
    return sum(values)


def numbers_and_arrays(x: Any) -> Any:
    weights, rows = [1.0], [x[:2]]
    if x[1] > 0.5:
        weights.append(x[0])
        rows.append(x[1:3])
    return sum(weights) * rows[-1][0] + x[0]


def last_item_replaced(x: Any) -> Any:
    values = [x[1]]
    for i in range(12):
        values[-1] = values[-1] * 0.5 + x[0]
        if x[i % 3] > 0.55:
            values.append(values[-1] * 0.5)
    return sum(values) * values[-1]


def stack_of_intervals(x: Any) -> Any:
    stack = [(0.0, 1.0)]
    area = 0.0
    for _ in range(30):
        if not stack:
            break
        low, high = stack.pop()
        if high - low > 0.3 * x[0]:
            middle = (low + high) / 2
            stack.append((low, middle))
            stack.append((middle, high))
        else:
            area += (high - low) * x[1] * low
    return area + len(stack)


def rising_values(x: Any) -> Any:
    stack = [0.05]
    for v in x:
        while len(stack) > 1 and stack[-1] > v:
            stack.pop()
        stack.append(v)
    return np.sum(np.array(stack) ** 2) * stack[-1]


def taken_under_a_condition(x: Any) -> Any:
    values = [x[0], x[1], x[2]]
    total = 0.0
    if x[1] > 0.5:
        total += 3.0 * values.pop()
    if x[0] > 0.5:
        values.append(values.pop() * values[-1])
    return total + sum(values) * len(values)


def stack_of_rising_values(x: Any) -> Any:
    stack, area = [], 0.0
    for v in x:
        while stack and stack[-1] > v:
            area += stack.pop() * 0.5
        stack.append(v)
    return area + sum(stack)


def a_list_in_a_test(x: Any) -> Any:
    rising, rest = [], []
    for v in x:
        if rising and v < rising[-1]:
            continue
        rising.append(v)
    for v in x:
        if not (rest and v > rest[-1]):
            rest.append(v)
    return sum(v * v for v in rising) + 2.0 * sum(rest)


def a_list_at_the_end_of_a_test(x: Any) -> Any:
    todo, i = [x[0]], 0
    while i < 10 and todo:
        v = todo.pop()
        i += 1
        if v < 3.0:
            todo.append(v * 1.5)
    return v


PROGRAMS: list[Callable[[Any], Any]] = [
    stack_of_rising_values,
    a_list_in_a_test,
    a_list_at_the_end_of_a_test,
    filtered,
    history_until_it_converges,
    straight_line,
    nested_conditions,
    emptiness,
    two_lists,
    rows_in_two_loops,
    skipped,
    stopped_before_the_append,
    previous_item,
    list_in_a_condition,
    item_of_a_list_that_was_empty,
    numbers_and_arrays,
    last_item_replaced,
    stack_of_intervals,
    rising_values,
    taken_under_a_condition,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_python_has_it(f: Callable[[Any], Any], backend: str) -> None:
    check_agreement(f, backend, *POINTS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives(backend: str) -> None:
    x = POINTS[0]
    slopes = tg.grad(filtered)
    expected = np.stack([central_differences(lambda y, k=k: slopes(y)[k], x) for k in range(len(x))])
    np.testing.assert_allclose(tg.hessian(filtered, backend=backend)(x), expected, atol=1e-6)


def taken_from_none(x: Any) -> Any:
    values = [x[0]]
    for v in x:
        if v < 5.0:
            values.pop()
    return x[0]


def first_of_none(x: Any) -> Any:
    values = []
    for v in x:
        if v > 5.0:
            values.append(v)
    return values[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [first_of_none, taken_from_none])
def test_an_item_that_is_not_there_is_an_error(f: Callable[[Any], Any], backend: str) -> None:
    with pytest.raises(IndexError):
        tg.grad(f, backend=backend)(POINTS[0])


def test_items_of_two_structures() -> None:
    def flow(x: Any) -> Any:
        found = []
        for v in x:
            if v < 0.5:
                found.append((0.0, 0.0))
                continue
            found.append(np.array([v, v]))
        return sum(f[0] for f in found)

    with pytest.raises(TracegradError, match="give an item appended to 'found' different structure"):
        tg.function(flow)(list(POINTS[0]))


class Tracker:
    def __init__(self) -> None:
        self.history = []
        self.state = 0.0

    def step(self, v: Any) -> None:
        if v > 0.5:
            self.state = 0.5 * self.state + v**2
            self.history.append(self.state)
        else:
            self.history.append(self.state)


def history_of_an_object(x: Any) -> Any:
    tracker = Tracker()
    for v in x:
        tracker.step(v)
    return sum(tracker.history) + len(tracker.history) * x[0]


def list_in_a_dict(x: Any) -> Any:
    kept = {"values": []}
    if x[0] > 0.5:
        kept["values"].append(x[0] ** 2)
    else:
        kept["values"].append(2 * x[1])
    return kept["values"][0] * x[2]


def lists_in_a_list(x: Any) -> Any:
    bins = [[], []]
    if x[0] > x[1]:
        bins[0].append(x[0] * x[1])
        bins[1].append(x[0])
    else:
        bins[0].append(x[0] + x[1])
        bins[1].append(x[2] ** 2)
    return sum(bins[0]) * sum(bins[1])


def longer_in_a_dict(x: Any) -> Any:
    kept = {"values": []}
    if x[0] > 0.5:
        kept["values"].append(x[0] ** 2)
        kept["values"].append(x[1])
    else:
        kept["values"].append(2 * x[1])
    return sum(kept["values"]) * len(kept["values"])


def chosen_without_a_name(x: Any) -> Any:
    lists = {"low": [x[0]], "high": [x[1], x[2]]}
    taken = lists["low"] if x[0] > 0.5 else lists["high"]
    taken.append(x[0] * x[1])
    return sum(lists["low"]) * sum(lists["high"])


NAMELESS = (history_of_an_object, list_in_a_dict, lists_in_a_list, longer_in_a_dict, chosen_without_a_name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", NAMELESS)
def test_lists_that_have_no_name(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_items_of_two_structures_in_a_list_without_a_name() -> None:
    def flow(x: Any) -> Any:
        found = {"values": []}
        if x > 0:
            found["values"].append((x, x))
        else:
            found["values"].append(np.array([x, x]))
        return found["values"][0][0]

    with pytest.raises(TracegradError, match="give an item appended to a list different structure"):
        tg.function(flow)(0.5)
