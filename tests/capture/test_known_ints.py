"""Loops over ints that Python knows: parts of ranges, lists and tuples of ints, places of arrays, and zips of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = tuple(np.random.default_rng(seed).normal(size=40) for seed in range(2))
ORDER = [3 * k % 40 for k in range(25)]


def decayed(x: Any, places: Any) -> Any:
    total = 0.0
    for i in places:
        total = max(total * 0.9, x[i]) + x[i] ** 2 * (i + 1)
    return total


def backwards(x: Any) -> Any:
    return decayed(x, range(len(x))[::-1])


def without_the_first(x: Any) -> Any:
    return decayed(x, range(len(x))[1:])


def each_second_backwards(x: Any) -> Any:
    return decayed(x, list(range(len(x)))[::-2])


def of_a_list(x: Any) -> Any:
    return decayed(x, list(range(len(x))))


def of_a_display(x: Any) -> Any:
    return decayed(x, (*range(len(x) - 1), len(x) - 1))


def in_an_order(x: Any) -> Any:
    return decayed(x, ORDER) + decayed(x, tuple(ORDER)) + decayed(x, reversed(ORDER))


def of_those_that_remain(x: Any) -> Any:
    return decayed(x, [k for k in range(len(x)) if k % 3])


def of_some(x: Any) -> Any:
    return decayed(x, itertools.islice(range(len(x)), 3, len(x)))


def of_joined_parts(x: Any) -> Any:
    return decayed(x, itertools.chain(range(3), [7, 5], range(20, len(x))))


def of_pairs(x: Any) -> Any:
    total = x[0]
    for pairs in (
        zip(range(len(x)), range(len(x))[::-1], strict=True),
        zip(ORDER, ORDER[2:], strict=False),
        itertools.pairwise(ORDER),
        list(enumerate(ORDER)),
        enumerate(ORDER, 2),
    ):
        for i, j in pairs:
            total = 0.9 * total + x[i] * x[j] * (j + 1)
    return total


def of_places(x: Any) -> Any:
    total, table = 0.0, x.reshape(8, 5)
    for i, j in np.ndindex(8, 5):
        total = max(total * 0.9, table[i, j] * table[i - 1, j]) + i * np.sin(table[i, j])
    for place in np.ndindex(table.shape):
        total = 0.9 * total + table[place] ** 2
    return total


def of_numbered_places(x: Any) -> Any:
    total, table = 0.0, x.reshape(8, 5)
    for (i, j), v in np.ndenumerate(table):
        total = 0.9 * total + np.sin(v) * (i + 2 * j)
    return total


def beside_values(x: Any) -> Any:
    total = 0.0
    for i, v in zip(ORDER, x, strict=False):
        total = 0.9 * total + v * x[i]
    return total


def swept(x: Any) -> Any:
    u = x.reshape(8, 5).copy()
    for ys, xs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        for i in range(8)[::ys]:
            for j in range(5)[::xs]:
                if 0 < i < 7 and 0 < j < 4:
                    u[i, j] = min(u[i, j], 0.5 * min(u[i - 1, j], u[i + 1, j]) + 0.3 * u[i, j - 1])
    return np.sum(u**2)


def summed(x: Any) -> Any:
    return sum(x[i] ** 2 * x[i - 1] for i in ORDER) + sum(
        [x[i] * x[j] for i, j in zip(ORDER, ORDER[::-1], strict=True)]
    )


def left_early(x: Any) -> Any:
    total = 0.0
    for i in ORDER:
        if x[i] > 0.9:
            break
        total = total + x[i] ** 2
    else:
        total = total * 2
    return total + x[i]


def last_is_known(x: Any) -> Any:
    total = x[0]
    for i, j in zip(ORDER, ORDER[::-1], strict=True):
        total = 0.9 * total + x[i] * x[j]
    for k in range(len(x)):
        total = 0.9 * total + x[k]
    return total * np.sum(np.zeros(i + 2 * j + k) + x[0])


def known_after_the_first(x: Any) -> Any:
    previous, total = None, 0.0
    for i in list(range(20)):
        if previous is not None:
            total = total + previous * x[i]
        previous = x[i]
    return total


STAGED = (
    backwards,
    without_the_first,
    each_second_backwards,
    of_a_list,
    of_a_display,
    in_an_order,
    of_those_that_remain,
    of_some,
    of_joined_parts,
    of_pairs,
    of_places,
    of_numbered_places,
    beside_values,
    swept,
    summed,
    left_early,
    last_is_known,
    known_after_the_first,
)


def grown(x: Any) -> Any:
    queue, total = list(range(12)), 0.0
    for i in queue:
        total = 0.9 * total + x[i] ** 2
        if i < 20:
            queue.append(i + 5)
    return total


def grown_while_counted(x: Any) -> Any:
    queue, total = list(range(12)), 0.0
    for k, i in enumerate(queue):
        total = 0.9 * total + x[i] ** 2 * k
        if i < 20:
            queue.append(i + 5)
    return total


def grown_beside_values(x: Any) -> Any:
    queue, total = list(range(12)), 0.0
    for i, v in zip(queue, x, strict=False):
        total = 0.9 * total + x[i] * v
        if i < 20:
            queue.append(i + 5)
    return total


def grown_behind_others(x: Any) -> Any:
    queue, total = list(range(12)), 0.0
    for i in itertools.chain([3, 4], queue):
        total = 0.9 * total + x[i] ** 2
        if i < 20:
            queue.append(i + 5)
    return total


def shortened(x: Any) -> Any:
    queue, total = list(range(24)), 0.0
    for i in queue:
        total = 0.9 * total + x[i] ** 2
        queue.pop()
    return total


def written(x: Any) -> Any:
    places, total = list(range(12)), 0.0
    for k, i in enumerate(places):
        total = 0.9 * total + x[i] ** 2
        places[-1 - k] = k
    return total


def by_keys(x: Any) -> Any:
    factors, total = {k: str(k) for k in range(40)}, 0.0
    for i in ORDER:
        total = total + float(factors[i]) * x[i]
    return total


def of_very_many(x: Any) -> Any:
    factors, total = {k: str(k) for k in range(150)}, 0.0
    for k in range(150)[::-1]:
        total = 0.9 * total + float(factors[k]) * x[k % 40]
    return total


def by_a_graph(x: Any) -> Any:
    graph = {k: [j for j in range(k) if k % (j + 1) == 0] for k in range(20)}
    dist = {k: x[k] ** 2 for k in range(20)}
    for k in list(graph):
        for j in graph[k]:
            dist[k] = dist[k] + 0.5 * dist[j]
    return sum(dist.values())


UNROLLED = (
    grown,
    grown_while_counted,
    grown_beside_values,
    grown_behind_others,
    shortened,
    written,
    by_keys,
    of_very_many,
    by_a_graph,
)


def part_as_an_index(x: Any) -> Any:
    part = range(len(x))[::2]
    return np.sum(x[part] ** 2) * len(part) * part[3] + np.sum(np.array(range(9)[1:][::-1]) * x[:8]) * (4 in part)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [*STAGED, *UNROLLED, part_as_an_index])
def test_programs(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", STAGED)
def test_they_are_loops(program: Callable[[Any], Any], backend: str) -> None:
    assert "for: staged" in str(tg.explain(tg.grad(program, backend=backend))(POINTS[0]))
    assert len(tg.grad(program, backend="numpy").source(POINTS[0]).splitlines()) < 200


@pytest.mark.parametrize("program", UNROLLED)
def test_they_are_unrolled(program: Callable[[Any], Any]) -> None:
    assert "for: unrolled" in str(tg.explain(tg.grad(program))(POINTS[0]))


def test_a_few_are_unrolled() -> None:
    def few(x: Any) -> Any:
        total = 0.0
        for i in [3, 1, 2]:
            total = total + x[i] ** 2
        return total

    assert "for: run at capture, over Python values" in str(tg.explain(tg.grad(few))(POINTS[0]))
