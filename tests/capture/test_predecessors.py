"""Lists and dicts of numbers or None, indexed by traced ints: a walk back from an item to the one that it names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement

POINTS = (
    np.array([1.0, -2.0, 3.0, 0.5]),
    np.array([-1.0, 2.0, -3.0, -0.5]),
    np.array([3.0, 2.0, 1.0, 4.0]),
    np.array([1.0, 0.2, 3.0, 0.5]),
)


def chain_of_the_least(x: Any) -> Any:
    prev = [None] * 4
    for _ in range(2):
        u = None
        for i in range(4):
            if u is None or x[i] < x[u]:
                u = i
        for v in range(4):
            if x[v] > x[u]:
                prev[v] = u
    node = 3
    hops = 0
    while prev[node] is not None:
        node = prev[node]
        hops += 1
    return x[0] * hops + x[node] ** 2


def one_step(x: Any) -> Any:
    prev = [None, None]
    if x[1] < 0:
        prev[1] = 0
    node = 1
    hops = 0
    while prev[node] is not None:
        node = prev[node]
        hops += 1
    return x[0] * hops + node


def one_step_in_a_dict(x: Any) -> Any:
    prev = {0: None, 1: None}
    if x[1] < 0:
        prev[1] = 0
    node = 1
    hops = 0
    while prev[node] is not None:
        node = prev[node]
        hops += 1
    return x[0] * hops


def only_asks(x: Any) -> Any:
    prev = [None] * 4
    for v in range(1, 4):
        if x[v] > 0:
            prev[v] = v - 1
    node = int(abs(x[1]) + 0.4)
    return x[0] if prev[node] is None else 5.0 * x[2]


def walk_to_none(x: Any) -> Any:
    parent = [None] * 4
    for v in range(1, 4):
        if x[v] > 0:
            parent[v] = v - 1
    node = 3
    s = 0.0
    while node is not None:
        s += x[node] ** 2
        node = parent[node]
    return s


def arrays_or_none(x: Any) -> Any:
    rows = [None, None, None]
    for i in range(3):
        if x[i] > 0:
            rows[i] = x[i] * x
    row = rows[int(abs(x[1]) + 0.3)]
    return np.sum(x) if row is None else np.sum(row)


def copies_what_may_be_none(x: Any) -> Any:
    n = len(x)
    found = [None] * n
    reversed_ = [None] * n
    for i in range(n):
        if x[i] > 0:
            found[i] = x[i]
    for i in range(n):
        reversed_[i] = found[n - 1 - i]
    s = 0.0
    for i in range(n):
        if reversed_[i] is not None:
            s += reversed_[i] * (i + 1)
    return s


def shortest_path(x: Any) -> Any:
    n = 4
    distance = [np.inf] * n
    prev = [None] * n
    done = [False] * n
    distance[0] = 0.0
    for _ in range(n):
        u = None
        for i in range(n):
            if not done[i] and (u is None or distance[i] < distance[u]):
                u = i
        done[u] = True
        for v in range(n):
            w = x[u * n + v]
            if w > 0 and distance[u] + w < distance[v]:
                distance[v] = distance[u] + w
                prev[v] = u
    node = n - 1
    s = 0.0
    hops = 0
    while prev[node] is not None:
        s += x[prev[node] * n + node] ** 2
        node = prev[node]
        hops += 1
    return s + distance[n - 1] * hops


PROGRAMS = (
    chain_of_the_least,
    one_step,
    one_step_in_a_dict,
    only_asks,
    walk_to_none,
    arrays_or_none,
    copies_what_may_be_none,
)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_items_that_may_be_none(program: Any, backend: str) -> None:
    check_agreement(program, backend, *POINTS)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", [walk_to_none, copies_what_may_be_none])
def test_rows_that_may_be_none(program: Any, backend: str) -> None:
    rng = np.random.default_rng(0)
    check_agreement(program, backend, rng.normal(size=70), rng.normal(size=70))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_shortest_path_is_followed_back(backend: str) -> None:
    for seed in range(3):
        check_agreement(shortest_path, backend, np.abs(np.random.default_rng(seed).normal(size=16)) + 0.01)
