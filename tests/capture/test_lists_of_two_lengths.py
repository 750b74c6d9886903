"""Lists that differ in length between branches, and their items at places known at run time only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracegrad as tg
from tests.capture.agreement import POINTS, Programs, check_agreement
from tracegrad.config import BACKENDS

program = Programs()


@program
def or_a_default(x: Any) -> Any:
    a = [v for v in x if v > 0]
    b = a or [x[0] * 3]
    return sum(b)


@program
def one_or_another(x: Any) -> Any:
    return sum([v for v in x if v > 0] or [v * v for v in x if v < -1])


@program
def and_another(x: Any) -> Any:
    a = [v for v in x if v > 5] and [x[1]]
    return sum(a) + x[0]


@program
def or_none(x: Any) -> Any:
    a = [v for v in x if v > 0] or None
    return x[0] if a is None else sum(a)


@program
def first_of_three(x: Any) -> Any:
    a = [v for v in x if v > 2.1] or [v for v in x if v > 1] or [0.0, x[0]]
    return sum(a)


@program
def least_beside_insert(x: Any) -> Any:
    L = [0.2, x[0], x[3]]
    if x[1] > 0:
        L.insert(1, 1.0)
    else:
        return min(L, key=lambda t: -t)
    return x[0] + L[1]


@program
def stored_beside_append(x: Any) -> Any:
    L = [0.2, x[0], x[3]]
    if x[1] > 0:
        L.append(1.0)
    else:
        L[0] = min(L, key=lambda t: -t)
    return x[0] + L[0]


@program
def sorted_beside_append(x: Any) -> Any:
    L = [0.2, x[0], x[3]]
    if x[1] > 0:
        L.append(1.0)
    else:
        L = sorted(L, key=lambda t: -t)
    return x[0] + L[0]


@program
def sort_beside_append(x: Any) -> Any:
    L = [0.2, x[0], x[3]]
    if x[1] > 0:
        L.append(1.0)
    else:
        L.sort(key=lambda t: -t)
    return x[0] + L[0]


@program
def tuples_beside_append(x: Any) -> Any:
    L = [(0.2, 1.0), (x[0], 2.0), (x[3], 3.0)]
    if x[1] > 0:
        L.append((1.0, 4.0))
    else:
        return max(L, key=lambda t: t[0])[1] * x[0]
    return x[0] + L[1][0]


@program
def path_in_a_dict(x: Any) -> Any:
    best = {"path": [x[0]], "cost": 10.0}
    for i in range(1, 5):
        c = x[i] ** 2
        if c < best["cost"]:
            best = {"path": best["path"] + [x[i]], "cost": c}
    return sum(best["path"])


@program
def path_stored(x: Any) -> Any:
    best = {"path": [], "cost": 10.0}
    for i in range(5):
        if x[i] < best["cost"]:
            best["path"] = best["path"] + [x[i]]
            best["cost"] = x[i]
    return sum(best["path"]) + best["cost"]


@program
def best_run(x: Any) -> Any:
    best = {"path": [0.0]}
    cur = []
    for v in x:
        if v > 0:
            cur.append(v)
        else:
            cur = []
        if sum(cur) > sum(best["path"]):
            best["path"] = cur[:]
    return sum(best["path"])


@program
def longest_run(x: Any) -> Any:
    best = []
    cur = []
    for v in x:
        cur = cur + [v] if v > 0 else []
        if len(cur) > len(best):
            best = list(cur)
    return sum(best)


@program
def other_lengths(x: Any) -> Any:
    best = {"path": [], "cost": 10.0}
    if x[0] > 0:
        best["path"] = best["path"] + [x[1]]
    else:
        best["path"] = [x[2], x[3]]
    return sum(best["path"])


@program
def remove_greatest(x: Any) -> Any:
    L = list(x)
    L.remove(max(L))
    return sum(L)


@program
def remove_least_of_some(x: Any) -> Any:
    L = [v for v in x if v > 0]
    if L:
        L.remove(min(L))
    return sum(L)


@program
def index_of_some(x: Any) -> Any:
    L = [v for v in x if v > 0]
    return (L.index(max(L)) if L else 0) * x[1]


@program
def count_of_some(x: Any) -> Any:
    L = [float(int(v)) for v in x if v > 0]
    return L.count(0.0) * x[0] + x[1]


@program
def remove_chosen(x: Any) -> Any:
    active = list(range(5))
    s = 0.0
    for k in range(3):
        j = min(active, key=lambda i: x[i])
        s += x[j] * (k + 1)
        active.remove(j)
    return s


@program
def remove_in_while(x: Any) -> Any:
    active = [0, 1, 2, 3, 4]
    s = 0.0
    while active and s < 3:
        j = max(active, key=lambda i: x[i])
        s += abs(x[j])
        active.remove(j)
    return s


@program
def reversed_in_place(x: Any) -> Any:
    L = [v for v in x if v > 0]
    s = 0.0
    k = 0
    while len(L) > 1:
        L[:] = L[::-1]
        s += L[0] * (k + 1)
        del L[0]
        k += 1
    return s + sum(L)


@program
def popped_at_index(x: Any) -> Any:
    L = [v for v in x if v > 0]
    s = 0.0
    while L:
        i = L.index(min(L))
        s = s * 0.5 + L.pop(i)
    return s


@program
def renewed_while_it_is_run_through(x: Any) -> Any:
    L = [x[0], x[1]]
    L.append(x[2])
    s = 0.0
    for v in L:
        s += v
        if v > 1:
            L = [v, v]
    return s + sum(L)


@program
def runs(x: Any) -> Any:
    cur = []
    s = 0.0
    for v in x:
        if v > 0:
            cur.append(v)
        else:
            s += sum(cur)
            cur = []
    return s * 2 + sum(cur)


@program
def restarted_runs(x: Any) -> Any:
    cur = []
    best = 0.0
    for v in x:
        if v < 1:
            cur.append(v)
            if len(cur) > 1 and cur[-1] * cur[-2] < 0:
                cur = [v]
        best = max(best, sum(cur))
    return best + sum(cur)


@program
def popped(x: Any) -> Any:
    L = [1.0, 2.0, x[0]]
    i = int(abs(x[1])) % 3
    a = L.pop(i)
    return a * x[0] + sum(L) * x[2]


@program
def deleted(x: Any) -> Any:
    L = [1.0, 2.0, x[0]]
    i = int(abs(x[1])) % 3
    del L[i]
    return L[0] * x[0] + L[-1] * x[2] + len(L)


@program
def inserted(x: Any) -> Any:
    L = [1.0, 2.0, x[0]]
    i = int(abs(x[1])) % 3
    L.insert(i, x[4])
    return L[0] * x[0] + L[-1] * x[2] + len(L) * L[1]


@program
def under_two_names(x: Any) -> Any:
    L = [v for v in x if v > 0]
    other = L
    L = [x[0]] if x[1] > 0 else [x[1], x[2]]
    return sum(L) + 3 * sum(other)


@program
def events(x: Any) -> Any:
    queue = [(0.0, 0), (x[1], 1)]
    s = 0.0
    while queue:
        j = min(range(len(queue)), key=lambda k: queue[k][0])
        t, i = queue.pop(j)
        s += t * (i + 1)
        if t < 1 and i < 3:
            queue.append((t + abs(x[2]) + 0.1, i + 1))
    return s


@program
def index_of_tuples(x: Any) -> Any:
    L = [(v, v * v) for v in x if v > 0]
    return L.index(max(L)) * x[0] if L else x[0]


@program
def removed_if_there(x: Any) -> Any:
    L = [v for v in x if v > 0]
    if x[0] in L:
        L.remove(x[0])
    return sum(L) + len(L) * x[1]


@program
def nearest_neighbours(x: Any) -> Any:
    unvisited = [0, 1, 2, 3, 4]
    cur = 0
    unvisited.remove(cur)
    s = 0.0
    while unvisited:
        nxt = min(unvisited, key=lambda j: abs(x[j] - x[cur]))
        s += (x[nxt] - x[cur]) ** 2 * 1.1
        unvisited.remove(nxt)
        cur = nxt
    return s


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("run", program, ids=lambda run: run.__name__)
def test_programs(run: Callable[[Any], Any], backend: str) -> None:
    check_agreement(run, backend, *POINTS)


def removed_one(x: Any) -> Any:
    values = [v for v in x if v > 0]
    values.remove(x[1])
    return sum(values)


def removed_from_all(x: Any) -> Any:
    values = [x[0], x[2], x[3]]
    values.remove(x[1])
    return sum(values)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("run", [removed_one, removed_from_all])
def test_an_item_that_is_not_there(run: Callable[[Any], Any], backend: str) -> None:
    with pytest.raises(ValueError, match=r"list\.remove\(x\): x not in list"):
        tg.function(run, backend=backend)(POINTS[1])
