"""Searches over graphs that are lists of lists, and loops in branches that append to a list from before them."""

from __future__ import annotations

import collections
import heapq
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

WEIGHTS = (np.array([4.0, 1.0, 1.5, 2.0, 5.0]), np.array([1.0, 3.0, 2.5, 0.7, 0.9]))


def shortest_path(w: Any) -> Any:
    graph = [
        [(1, 0), (2, 1)],
        [(3, 2)],
        [(1, 3), (3, 4)],
        [],
    ]  # for each node the nodes that edges lead to, and the numbers of the edges
    distances = [math.inf] * 4
    distances[0] = 0.0
    waiting = [(0.0, 0)]
    while waiting:
        d, u = heapq.heappop(waiting)
        if d > distances[u]:
            continue
        for v, edge in graph[u]:
            new = d + w[edge]
            if new < distances[v]:
                distances[v] = new
                heapq.heappush(waiting, (new, v))
    return distances[3] ** 2 + distances[1]


def shortest_path_back(w: Any) -> Any:
    graph = [[(1, 0), (2, 1)], [(3, 2), (0, 0)], [(1, 3), (3, 4)], [(0, 1), (1, 1)]]
    distances = [9.0] * 4
    distances[0] = 0.0
    waiting = [(0.0, 0)]
    while waiting:
        _, u = heapq.heappop(waiting)
        for v, edge in graph[u]:
            new = distances[u] + w[edge]
            if new < distances[v]:
                distances[v] = new
                heapq.heappush(waiting, (new, v))
    return distances[3] ** 2 + distances[1]


def depth_first(w: Any) -> Any:
    graph = [[1, 2], [3], [1, 3], []]
    distances = [9.0] * 4
    distances[0] = 0.0
    waiting = [(0.0, 0)]
    while waiting:
        d, u = waiting.pop()
        for v in graph[u]:
            if d + w[v] < distances[v]:
                distances[v] = d + w[v]
                waiting.append((distances[v], v))
    return distances[3] ** 2 + distances[1]


def ints_wait(w: Any) -> Any:
    waiting = [0]
    total = 0.0
    while waiting:
        u = waiting.pop()
        total = 0.9 * total + w[u]
        if u < 2:
            for _ in range(2):
                if w[0] > 0.5:
                    waiting.append(u + 1)
        elif u > 1:
            for _ in range(1):
                if w[1] > 8.0:
                    waiting.append(u + 1)
    return total


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [shortest_path, shortest_path_back, depth_first, ints_wait])
def test_searches(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *WEIGHTS)


def masses_of_components(cells: Any) -> Any:
    x = cells.reshape(3, 3)
    rows, columns = x.shape
    labels = np.zeros((rows, columns), int)
    n = 0
    best = 0.0
    for i in range(rows):
        for j in range(columns):
            if x[i, j] > 0.25 and labels[i, j] == 0:
                n += 1
                waiting = [(i, j)]
                labels[i, j] = n
                mass = 0.0
                while waiting:
                    a, b = waiting.pop()
                    mass += x[a, b]
                    for da, db in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                        p, q = a + da, b + db
                        if 0 <= p < rows and 0 <= q < columns and x[p, q] > 0.25 and labels[p, q] == 0:
                            labels[p, q] = n
                            waiting.append((p, q))
                best = max(best, mass)
    return best**2 + n


@pytest.mark.parametrize("backend", BACKENDS)
def test_connected_components(backend: str) -> None:
    grid = np.array([0.5, 0.1, 0.9, 0.6, 0.2, 0.8, 0.1, 0.7, 0.1])
    check_agreement(masses_of_components, backend, grid, 1.1 - grid)


POINTS = (
    np.array([0.8, 0.2, 0.35, 0.4, 1.0]),
    np.array([-0.4, 1.0, -0.5, 0.2, 0.5]),
    np.array([-0.8, -0.6, -1.5, 0.2, 0.5]),
)


def _digest(values: Any) -> Any:
    total = 0.0
    for k, v in enumerate(values):
        total = total * 0.9 + v * (k + 1)
    return total + len(values)


def on_both_sides(x: Any) -> Any:
    values = []
    if x[0] > 0:
        for v in x:
            values.append(v * 2)
    else:
        for v in x:
            values.append(-v)
    return _digest(values)


def after_others(x: Any) -> Any:
    values = []
    for v in x:
        values.append(v)
    if x[0] > 0:
        for v in x:
            values.append(v * 2)
    return _digest(values)


def by_a_function_inside(x: Any) -> Any:
    values = [1, 2]

    def add(count: int) -> None:
        for k in range(count):
            values.append(x[k % 5])

    if x[0] > 0:
        add(20)
    elif x[1] > 0:
        add(30)
    else:
        add(1)
    return _digest(values)


def in_a_loop(x: Any) -> Any:
    values = [1.0]
    for i in range(9):
        if x[i % 3] > 0:
            for v in range(i):
                values.append(v * 2 + x[1])
        else:
            values.append(x[0])
    return _digest(values)


def in_loops_of_branches(x: Any) -> Any:
    values = []
    for i in range(12):
        if x[i % 5] > 0:
            for _ in range(20):
                if x[1] > 0:
                    for k in range(3):
                        values.append(x[k % 5] * k)
                else:
                    values.append(1.0)
        else:
            values.append(x[1])
    return _digest(values)


def two_lists(x: Any) -> Any:
    values, weights = [], []
    while len(values) < 40:
        if x[0] > 0:
            for k in range(20):
                values.append(x[k % 5])
                weights.append(k)
        else:
            values.append(x[0])
            weights.append(1)
    return sum(v * w for v, w in zip(values, weights, strict=True))


def rows(x: Any) -> Any:
    values = []
    for i in range(10):
        if x[i % 5] > 0:
            for k in range(10):
                values.append(np.array([k * x[0], x[1]]))
        else:
            values.append(np.ones(2) * x[1])
    return _digest([row.sum() for row in values])


def pairs(x: Any) -> Any:
    values = []
    for i in range(10):
        if x[i % 5] > 0:
            for k in range(10):
                values.append((k * x[0], i))
        else:
            values.append((x[1], i))
    return sum(a * b for a, b in values)


def in_a_dict(x: Any) -> Any:
    kept = {"values": [1.0]}
    if x[0] > 0:
        for k in range(20):
            kept["values"].append(x[k % 5])
    return _digest(kept["values"])


def in_a_tried_statement(x: Any) -> Any:
    values = []
    try:
        for k in range(20):
            values.append(x[k % 5] * k)
        if x[0] > 0:
            for k in range(20):
                values.append(x[k % 5])
        last = math.log(x[1])
    except ValueError:
        last = 3.0
    return _digest(values) + last


LOOPS_IN_BRANCHES = (
    on_both_sides,
    after_others,
    by_a_function_inside,
    in_a_loop,
    in_loops_of_branches,
    two_lists,
    rows,
    pairs,
    in_a_dict,
    in_a_tried_statement,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", LOOPS_IN_BRANCHES)
def test_loops_in_branches_append(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def to_the_goal(w: Any) -> Any:
    graph = [[(1, 0), (2, 1)], [(3, 2)], [(1, 3), (3, 4)], []]
    distances, queue = [0.0, math.inf, math.inf, math.inf], [(0.0, 0)]
    while queue:
        distance, node = heapq.heappop(queue)
        if node == 3:
            return distance**2
        if distance > distances[node]:
            continue
        for other, edge in graph[node]:
            longer = distance + w[edge]
            if longer < distances[other]:
                distances[other] = longer
                heapq.heappush(queue, (longer, other))
    return -1.0


def until_large(w: Any) -> Any:
    stack, total = [0], 0.0
    while stack:
        node = stack.pop()
        if w[node] > 0.8:
            break
        total += w[node] ** 2
        if node + 1 < len(w):
            stack.append(node + 1)
    return total


def first_come(w: Any) -> Any:
    queue, total = collections.deque([0]), 0.0
    while queue:
        node = queue.popleft()
        if w[node] > 0.8:
            break
        total += w[node] ** 2
        if node + 1 < len(w):
            queue.append(node + 1)
    return total


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [to_the_goal, until_large, first_come])
def test_searches_that_end_early(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, np.array([0.3, 0.7, 0.5, 0.1, 0.2]), np.array([0.6, 0.2, 0.9, 0.4, 0.35]))
