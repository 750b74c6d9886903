"""Names that get, in each iteration of a loop, a new list of another length: trees, triangular schemes, filters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (np.array([0.5, 0.7]), np.array([0.2, -1.3]), np.array([1.9, 0.4]))


def binomial_tree(x: Any) -> Any:
    values = [max(1.0 - x[0] * math.exp(0.02 * (2 * j - 40) * x[1]), 0.0) for j in range(41)]
    for _ in range(40):
        values = [0.49 * values[i] + 0.5 * values[i + 1] for i in range(len(values) - 1)]
    return values[0]


def trinomial_tree(x: Any) -> Any:
    values = [math.sin(x[0] * j) for j in range(61)]
    for step in range(30):
        values = [
            0.2 * x[1] * values[i + 2] + 0.5 * values[i + 1] + 0.25 * values[i] + 0.01 * step
            for i in range(len(values) - 2)
        ]
    return values[0]


def american_tree(x: Any) -> Any:
    n = 30
    values = [max(1.0 - x[0] * 1.02 ** (2 * j - n), 0.0) for j in range(n + 1)]
    for step in range(n - 1, -1, -1):
        held = [0.49 * down + 0.5 * up for down, up in itertools.pairwise(values)]
        values = [max(h, 1.0 - x[0] * 1.02 ** (2 * j - step)) for j, h in enumerate(held)]
    return values[0] * x[1]


def pascal_rows(x: Any) -> Any:
    row = [x[0]]
    for _ in range(20):
        row = [1.0, *(row[i] + row[i + 1] * x[1] for i in range(len(row) - 1)), 1.0]
    return row[10] + len(row)


def polynomial_of_roots(x: Any) -> Any:
    coefficients = [1.0]
    for k in range(12):
        root = x[0] * 0.1 * k + x[1]
        shifted, scaled = [*coefficients, 0.0], [0.0] + [c * root for c in coefficients]
        coefficients = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return sum(c * 0.5**k for k, c in enumerate(coefficients))


def neville(x: Any) -> Any:
    nodes = [0.5 * k - 3.5 for k in range(15)]
    values = [math.sin(x[0] * t) for t in nodes]
    for m in range(1, 15):
        values = [
            ((x[1] - nodes[i + m]) * values[i] + (nodes[i] - x[1]) * values[i + 1]) / (nodes[i] - nodes[i + m])
            for i in range(15 - m)
        ]
    return values[0]


def aitken(x: Any) -> Any:
    values = [x[0] + x[1] * 0.5**k + 0.1 * 0.3**k for k in range(25)]
    for _ in range(10):
        values = [0.5 * (a + b) for a, b in zip(values[:-2], values[2:], strict=True)]
    last = values[-1]
    return last + sum(values) / len(values)


def in_a_helper(x: Any) -> Any:
    def step(values: list[Any], k: Any) -> list[Any]:
        return [values[i] * x[1] + 0.1 * values[i + 1] + k for i in range(len(values) - 1)]

    values = [x[0] * k for k in range(30)]
    for k in range(29):
        values = step(values, k)
    (result,) = values
    return result


def until_it_is_short(x: Any) -> Any:
    values, k = [math.sin(x[0] * j) for j in range(21)], 0
    while len(values) > 2 and abs(values[0]) > 1e-12:
        values = [0.5 * (values[i] + values[i + 1] * x[1]) for i in range(len(values) - 1)]
        k += 1
    return values[1] + k * x[0]


def outliers_go(x: Any) -> Any:
    values = [x[0] * math.cos(k * x[1]) for k in range(20)]
    for _ in range(10):
        mean = sum(values) / len(values)
        values = [v for v in values if abs(v - mean) < 1.2 * abs(x[0]) + 0.05]
    return sum(v * v for v in values) / len(values)


def by_two_ways(x: Any) -> Any:
    values = [math.sin(x[0] * j) for j in range(31)]
    for _ in range(12):
        if values[0] > values[1]:
            values = values[1:]
        else:
            values = [v * x[1] for v in values[:-1]]
    return values[0] + len(values)


def one_more_each_time(x: Any) -> Any:
    values = [x[0], x[1]]
    for k in range(25):
        values = [*(0.9 * v for v in values), math.sin(values[0] + k)]
    return sum(values)


def means_are_kept(x: Any) -> Any:
    values, means = [math.sin(x[0] * j) for j in range(31)], []
    for _ in range(15):
        values = [0.5 * (values[i] + values[i + 1] * x[1]) for i in range(len(values) - 1)]
        means.append(sum(values) / len(values))
    return means[-1] + max(means)


def counts_become_floats(x: Any) -> Any:
    values = list(range(20))
    for _ in range(10):
        values = [values[i] * x[0] + values[i + 1] for i in range(len(values) - 1)]
    return sum(values)


def nothing_is_left(x: Any) -> Any:
    values = [x[0] * k for k in range(20)]
    for _ in range(20):
        values = [v * x[1] for v in values[1:]]
    return sum(values) + x[0] * len(values)


def nested(x: Any) -> Any:
    total = 0.0
    for k in range(12):
        values = [x[0] * j + k for j in range(12)]
        for _ in range(11):
            values = [0.5 * values[i] + x[1] * values[i + 1] for i in range(len(values) - 1)]
        total = total + values[0]
    return total


def begins_with_any_length(x: Any) -> Any:
    values = [math.sin(x[0] * j) for j in range(31)]
    if x[1] > 0.5:
        values.pop()
    for _ in range(25):
        values = [0.5 * (values[i] + values[i + 1] * x[1]) for i in range(len(values) - 1)]
    return values[0]


def the_first_one_is_used_again(x: Any) -> Any:
    first = values = [math.sin(x[0] * j) for j in range(31)]
    for _ in range(15):
        values = [0.5 * values[i] + x[1] * values[i + 1] for i in range(len(values) - 1)]
    return values[0] + sum(first)


def the_first_one_is_changed(x: Any) -> Any:
    values = [math.sin(x[0] * j) for j in range(21)]
    first = values
    for _ in range(10):
        first[0] = first[0] * 0.9 + x[0]
        values = [0.5 * (values[i] + values[i + 1] * x[1]) for i in range(len(values) - 1)]
    return values[0] + first[0]


def the_first_display_is_changed(x: Any) -> Any:
    values = [x[0], x[1], x[0] * x[1], 1.0, x[1], 2.0, x[0], x[1], 3.0, x[1], x[0], 4.0]
    first = values
    for _ in range(10):
        first[0] = first[0] * 0.9 + x[0]
        values = [0.5 * (values[i] + values[i + 1] * x[1]) for i in range(len(values) - 1)]
    return values[0] + first[0]


def changed_and_bound(x: Any) -> Any:
    values = [x[0] * k for k in range(25)]
    for _ in range(10):
        values.append(values[0])
        values = [values[i] * x[1] + 0.1 * values[i + 1] for i in range(len(values) - 2)]
    return sum(values)


def the_one_before(x: Any) -> Any:
    before = values = [x[0] * k for k in range(25)]
    for _ in range(10):
        before = values
        values = [before[i] * x[1] + 0.1 * before[i + 1] for i in range(len(before) - 1)]
    return sum(before) - sum(values)


class Kept:
    values: Any = None


def kept_in_an_attribute(x: Any) -> Any:
    kept, values = Kept(), [x[0] * k for k in range(25)]
    for _ in range(10):
        values = [values[i] * x[1] + 0.1 * values[i + 1] for i in range(len(values) - 1)]
        kept.values = values
        kept.values[0] = kept.values[0] * 0.5
    return sum(values) + kept.values[1]


def changed_through_an_attribute(x: Any) -> Any:
    values = [x[0] * k for k in range(25)]
    kept = Kept()
    kept.values = values
    for _ in range(10):
        kept.values[0] = kept.values[0] * 0.5 + x[1]
        values = [values[i] * x[1] + 0.1 * values[i + 1] for i in range(len(values) - 1)]
        kept.values = values
    return sum(values) + kept.values[1]


def an_item_is_stored(x: Any) -> Any:
    values = [x[0] * k for k in range(25)]
    for _ in range(10):
        values = values[1:-1]
        values[0] = values[0] * x[1]
    return sum(values)


PROGRAMS = [
    binomial_tree,
    trinomial_tree,
    american_tree,
    pascal_rows,
    polynomial_of_roots,
    neville,
    aitken,
    in_a_helper,
    until_it_is_short,
    outliers_go,
    by_two_ways,
    one_more_each_time,
    means_are_kept,
    counts_become_floats,
    nothing_is_left,
    nested,
    begins_with_any_length,
    the_first_one_is_used_again,
    the_first_one_is_changed,
    the_first_display_is_changed,
    changed_and_bound,
    the_one_before,
    kept_in_an_attribute,
    changed_through_an_attribute,
    an_item_is_stored,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def rows(x: Any, n: int) -> Any:
    values = [math.sin(x[0] * j) for j in range(n + 1)]
    for _ in range(n):
        values = [0.5 * (values[i] + values[i + 1] * x[1]) for i in range(len(values) - 1)]
    return values[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_code_is_as_long_for_many_steps(backend: Any) -> None:
    few, many = (tg.grad(rows).source(POINTS[0], n, backend=backend) for n in (20, 2000))
    assert abs(few.count("\n") - many.count("\n")) < 20
    assert "IndexError" not in few


def test_second_derivatives() -> None:
    def slope(x: Any) -> Any:
        return tg.grad(lambda y: rows(y, 20))(x)[0]

    found = tg.grad(lambda x: tg.grad(lambda y: rows(y, 20))(x)[0])(POINTS[0])
    steps = 1e-6 * np.eye(2)
    expected = [(slope(POINTS[0] + h) - slope(POINTS[0] - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def active(x: Any, least: Any) -> list[Any]:
    found = []
    for i in range(len(x)):
        if x[i] > least:
            found.append(i)
    return found


def sometimes_anew(x: Any) -> Any:
    found, total = active(x, -1.0), 0.0
    for _ in range(200):
        if total > 1.0:
            found = active(x, total - 1.0)
        for i in found:
            total = total + 0.01 * x[i] ** 2
    return total


def close_pairs(positions: Any, reach: float) -> list[Any]:
    pairs = []
    for i in range(len(positions)):
        for j in range(i + 1, len(positions)):
            if abs(positions[i] - positions[j]) < reach:
                pairs.append((i, j))
    return pairs


def neighbour_lists(x: Any) -> Any:
    positions = np.array([0.0, 0.4, 0.9, 1.5]) + 0.01 * x[0]
    positions[1] += 0.1 * x[1]
    reference, pairs = positions.copy(), close_pairs(positions, 0.8)
    for _ in range(150):
        if np.max(np.abs(positions - reference)) > 0.05:
            reference, pairs = positions.copy(), close_pairs(positions, 0.8)
        force = np.zeros(4)
        for i, j in pairs:
            push = 0.01 * (0.5 - (positions[j] - positions[i]))
            force[i] -= push
            force[j] += push
        positions = positions + force
    return np.sum(positions**2)


def pairs_in_a_while_loop(x: Any) -> Any:
    pairs, k = close_pairs(x, 5.0), 0
    total = x[0]
    while total < 3.0 and k < 30:
        pairs = [(a, b) for a, b in pairs if a < b]
        for i, j in pairs:
            total = total + 0.2 * (x[i] - x[j]) ** 2
        k += 1
    return total


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [sometimes_anew, neighbour_lists, pairs_in_a_while_loop], ids=lambda f: f.__name__)
def test_lists_that_are_sometimes_made_again(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)
    assert tg.grad(program).source(POINTS[0]).count("\n") < 200
