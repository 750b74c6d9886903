"""Objects of the user's classes that are compared, and tuples, lists and dicts of them: `==`, `<`, `in`, sorts.

What a comparison gives depends on `k`, numbers that are read at every call and by which no derivative is taken.
"""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

X = np.array([0.7, 1.9, -0.4])
KEYS = [np.array(k) for k in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [2.0, 2.5, 2.5], [2.0, 3.0, 1.0], [2.0, 2.0, 2.0])]


@dataclass
class Point:
    a: Any
    b: Any


@dataclass(order=True)
class Task:
    due: Any
    rank: Any
    cost: Any = field(compare=False, default=0.0)


@dataclass(order=True, frozen=True, slots=True)
class Fixed:
    due: Any
    cost: Any


class Own:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Own) and self.a == other.a and self.b == other.b


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Slotted):
            return NotImplemented
        return self.a == other.a

    def __lt__(self, other: Slotted) -> Any:
        return self.a < other.a


@functools.total_ordering
class Ordered:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Ordered) and self.a == other.a

    def __lt__(self, other: Ordered) -> Any:
        return self.a < other.a


class Pair(NamedTuple):
    a: Any
    b: Any


class Reversed(NamedTuple):
    a: Any
    b: Any

    def __lt__(self, other: Any) -> Any:
        return self.a > other.a


class Full:
    def __init__(self, level: Any) -> None:
        self.level = level

    def __bool__(self) -> bool:
        return bool(self.level > 2.0)


def is_in(x: Any, k: Any) -> Any:
    points = [Point(k[0], 1.0), Point(k[1], k[2])]
    owns = (Own(k[0], k[1]), Own(k[1], k[2]))
    total = x[0] if Point(2.5, 2.5) in points else x[1] * 3.0
    total += x[0] ** 2 if Own(2.0, 2.5) not in owns else x[2] * 3.0
    total += x[0] if Own(3.0, 1.0) in {"a": owns[0], "b": owns[1]}.values() else x[2]
    return total * (x[0] if (2.0, Own(1.0, 2.0)) in [(k[1], owns[0]), (k[2], owns[1])] else 2.0)


def is_equal(x: Any, k: Any) -> Any:
    total = x[0] if Point(k[0], k[1]) == Point(2.0, k[2]) else x[1] ** 2
    total += x[0] ** 2 if Own(k[0], k[1]) != Own(2.0, 2.5) else x[1]
    total += x[1] ** 3 if [Point(k[0], 1.0)] == [Point(2.0, 1.0)] else x[2]
    total += x[2] ** 3 if {"p": Own(k[0], k[1]), "q": 1} == {"q": 1, "p": Own(3.0, 1.0)} else x[2]
    total += x[0] ** 3 if {"p": k[0]} != {"p": 2.0} else x[1]
    total += x[0] ** 5 if Pair(k[0], k[1]) == (2.0, 2.5) else x[1]
    total += x[0] ** 6 if ("q", 2.0) in {"p": k[1], "q": k[0]}.items() else x[1]
    return total * (x[1] if Point(k[0], k[1]) == k[0] else x[2])


def is_less(x: Any, k: Any) -> Any:
    one, other = Task(k[0], k[1], x[0]), Task(k[1], k[2], x[1])
    total = one.cost**2 if one < other else other.cost
    total += x[0] if one <= other else x[2]
    total += x[1] ** 2 if one >= other else x[2]
    total += x[1] ** 3 if one > other else x[0]
    total += x[0] if Ordered(k[0], x) <= Ordered(k[1], x) else x[2]
    total += x[1] if Ordered(k[0], x) > Ordered(k[1], x) else x[2]
    total += x[1] if (k[0], k[1]) < Pair(k[1], k[2]) else x[2] ** 2
    return total * (x[0] if (k[0], one) < (k[1], other) else x[2] ** 2)


def extremes(x: Any, k: Any) -> Any:
    tasks = [Task(k[i], k[(i + 1) % 3], x[i]) for i in range(3)]
    total = min(tasks).cost * 2.0 + max(*tasks).cost ** 2
    total += min([Fixed(k[i], x[i] ** 2) for i in range(3)], key=lambda one: one.due).cost
    total += functools.reduce(min, [Ordered(k[i], x[i]) for i in range(3)]).b * 3.0
    total += max(Pair(k[i], (i, x[i] * 5.0)) for i in range(3)).b[1]
    return total + min(Reversed(k[i], x[i]) for i in range(3)).b * 7.0


def in_order(x: Any, k: Any) -> Any:
    tasks = sorted(Task(k[i], 1.0, x[i]) for i in range(3))
    total = tasks[0].cost + tasks[1].cost * 2.0 + tasks[2].cost ** 2
    tasks = sorted(tasks, reverse=True)
    total += tasks[0].cost * tasks[1].cost ** 2
    slotted = [Slotted(k[i], x[i]) for i in range(3)]
    slotted.sort()
    total += slotted[0].b + slotted[1].b ** 2
    ordered = [Ordered(k[i], x[i]) for i in range(3)]
    ordered.sort(reverse=True)
    total += ordered[0].b * ordered[1].b
    total += sorted(x, key=lambda v: Slotted(v * k[0], v))[0] * 3.0
    total += sorted((Fixed(k[i], k[2 - i]), x[i]) for i in range(3))[1][1]
    small = heapq.nsmallest(2, [Task(k[i], i, x[i]) for i in range(3)])
    return total + small[0].cost + small[1].cost ** 3


def lists_in_order(x: Any, k: Any) -> Any:
    rows = sorted([k[i], k[2 - i], x[i]] for i in range(3))
    rows[0][2] = rows[0][2] * x[1]
    return rows[0][2] + rows[1][2] ** 2 + max(rows)[2] ** 3


def found(x: Any, k: Any) -> Any:
    points = [Point(k[0], k[1]), Point(k[1], k[2]), Point(2.0, 2.5)]
    total = points.index(Point(2.0, 2.5)) * x[0] + points.count(Point(2.0, 2.5)) * x[1] ** 2
    queue = collections.deque([Own(k[0], 1.0), Own(k[1], 1.0), Own(2.0, 1.0)])
    total += queue.index(Own(2.0, 1.0)) * x[2] + queue.count(Own(2.0, 1.0)) * x[0] ** 2
    tasks = [Task(1.0, 0.0, x[0]), Task(2.0, 0.0, x[1])]
    total += bisect.bisect_left(tasks, Task(k[0], 0.0)) * x[0] + bisect.bisect(tasks, Task(k[0], 0.0)) * x[1]
    bisect.insort(tasks, Task(k[0], 0.0, x[2]))
    return total + tasks[0].cost + tasks[1].cost ** 2


def inserted(x: Any, k: Any) -> Any:
    tasks: list[Task] = []
    by_cost: list[Task] = []
    numbers: list[Any] = []
    for v in (k[0], k[1], k[2], k[0] * 0.4):
        bisect.insort(tasks, Task(v, 0.0, v * x[0]))
        bisect.insort_left(by_cost, Task(v, 0.0, -v), key=lambda task: task.cost)
        bisect.insort(numbers, v)
    total = tasks[0].cost + tasks[1].cost * x[1] + by_cost[0].due * x[1] + by_cost[2].due * x[2]
    total += bisect.bisect_left(tasks, Task(2.0, 0.0)) * x[0] + bisect.bisect(tasks, Task(2.0, 0.0)) * x[1]
    points = [Point(k[0], 0.0), Point(2.0, 0.0), Point(k[2], 0.0), Point(2.0, 0.0)]
    total += points.index(Point(2.0, 0.0), 2) * x[0] + points.index(Point(2.0, 0.0), -3, 4) * x[2]
    total += x[1] if operator.contains(points, Point(2.5, 0.0)) else x[2]
    return total + numbers[0] * x[0] + numbers[1] * x[2] + numbers[3] * x[1]


def removed(x: Any, k: Any) -> Any:
    items = [Own(k[0], x[0]), Own(k[1], x[0]), Own(2.0, x[0])]
    items.remove(Own(2.0, x[0]))
    values = [k[0] * 2.0, k[1] * 2.0, 4.0]
    values.remove(4.0)
    kept = Own(k[2], x[1])
    others = [kept, Own(k[0], x[2])]
    others.remove(kept)
    return items[0].a * x[1] + items[1].a * x[0] + len(items) + values[1] * x[2] + others[0].b


def chosen(x: Any, k: Any) -> Any:
    one, other = Slotted(k[0], x[0]), Slotted(k[1], x[1])
    best = one if k[0] > k[1] else other
    if k[2] > k[0]:
        made = Slotted(k[2], x[2])
    else:
        made = Slotted(2.0, x[0])
    total = best.b * 2.0 if best == one else best.b**2
    return total + (made.b if made == Slotted(2.0, 0.0) else made.b**3)


def in_loops(x: Any, k: Any) -> Any:
    best, last = None, Task(9.0, 0.0)
    for i in range(3):
        task = Task(k[i] ** 2, 0.0, x[i])
        if best is None or task < best:
            best = task
        last = max(last, Task(k[i] * 4.0, 1.0, x[i] ** 2))
    assert best is not None
    front, end, turns = Task(k[0], 0.0, x[0]), Task(k[1] + 3.0, 0.0), 0
    while front < end:
        front = Task(front.due + 1.0, 0.0, front.cost * x[1])
        turns += 1
    return best.cost + last.cost + front.cost * turns


def truths(x: Any, k: Any) -> Any:
    total = x[0] if any([Full(k[0]), Full(k[1])]) else x[1]
    total += x[0] ** 2 if all(Full(k[i]) for i in range(3)) else x[2]
    total += (Full(k[0]) or Full(x[1])).level
    total += x[1] if Full(k[0]) and not Full(k[2]) else x[2]
    return total + sum(full.level * x[0] for full in filter(None, [Full(k[0]), Full(k[1])]))


def dominated(x: Any, k: Any) -> Any:
    points = [Point(k[0], k[1]), Point(k[1], k[2]), Point(k[2], k[0])]

    def is_below(one: Point, other: Point) -> Any:
        return one.a <= other.a and one.b <= other.b and one != other

    front = [p for p in points if not any(is_below(q, p) for q in points)]
    return sum(p.a * x[0] + p.b * x[1] ** 2 for p in front)


def of_unknown_length(x: Any, k: Any) -> Any:
    tasks = [Task(k[i], 0.0, x[i]) for i in range(3) if k[i] > 1.5]
    total = min(tasks).cost + max(tasks).cost ** 2
    total += x[0] if Task(3.0, 0.0) in tasks else x[1] ** 2
    total += tasks.count(Task(2.5, 0.0)) * x[2]
    ordered = sorted(tasks, reverse=True)
    total += ordered[0].cost * x[0] + ordered[-1].cost ** 2
    tasks.sort()
    total += tasks[0].cost + tasks[-1].cost ** 3
    last = [Reversed(v, v * 2.0) for v in k if v > 1.5]
    last.sort()
    total += tasks.index(Task(last[-1].a, 0.0)) * x[1] + last[0].b * x[1]
    if Task(2.0, 0.0) in tasks:
        tasks.remove(Task(2.0, 0.0))
    return total + sum(task.cost for task in tasks)


def known_before(x: Any, k: Any) -> Any:
    points = [(k[i], i, Point(x[i], x[0])) for i in range(3)]
    total = max(points)[2].a + sorted(points)[0][2].b ** 2
    return total + max((Slotted(k[i], 0.0), i, x[i]) for i in range(3))[2]


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    of_unknown_length,
    known_before,
    lists_in_order,
    is_in,
    is_equal,
    is_less,
    extremes,
    in_order,
    found,
    inserted,
    removed,
    chosen,
    in_loops,
    truths,
    dominated,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python_has_it(program: Callable[[Any, Any], Any], backend: str) -> None:
    held = KEYS[0].copy()

    def called(x: Any) -> Any:
        return program(x, held)

    for k in KEYS:
        held[:] = k
        check_agreement(called, backend, X)


@dataclass(frozen=True)
class Scale:
    factor: Any

    def __call__(self, x: Any) -> Any:
        return self.factor * x


class Shift:
    def __init__(self, by: Any) -> None:
        self.by = by

    def __eq__(self, other: Any) -> Any:
        return self.by == other.by

    def __hash__(self) -> int:
        return hash(self.by)

    def __call__(self, x: Any) -> Any:
        return x + self.by**2


@functools.cache
def cached(scale: Scale, times: Any) -> Any:
    return scale.factor**2 * times


def called_objects(x: Any) -> Any:
    total = Scale(x[0])(x[1]) + Shift(x[2])(x[0]) + sum(map(Shift(x[0]), [x[1], x[2]]))
    best = max([x[0], x[1]], key=Shift(x[2])) + functools.partial(Scale(x[2]), x[0])()
    chosen = Scale(x[0]) if x[0] > x[1] else Scale(x[1])
    return total * best * chosen(x[2]) + cached(Scale(x[0]), 2.0) * cached(Scale(x[1]), times=3.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_that_are_called_are_neither_hashed_nor_compared(backend: str) -> None:
    check_agreement(called_objects, backend, X, X[::-1].copy())


class Levels:
    """What `<=` gives does not follow from `<` and `==`."""

    def __init__(self, level: Any) -> None:
        self.level = level

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Levels) and self.level == other.level

    def __lt__(self, other: Levels) -> Any:
        return self.level < other.level

    def __le__(self, other: Levels) -> Any:
        return self.level <= other.level + 1.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_parts_that_differ_are_compared_by_the_operator_itself(backend: str) -> None:
    def f(x: Any) -> Any:
        is_below = (x[2], Levels(x[0])) < (x[2], Levels(x[1]))
        return (x[0] if is_below else x[1]) * (x[0] if (1, Levels(x[0])) <= (1, Levels(x[1])) else x[2])

    check_agreement(f, backend, np.array([1.5, 1.0, 3.0]), np.array([3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0]))


def test_what_is_not_there() -> None:
    def looked_for(x: Any) -> Any:
        return [Point(x[0], 1.0)].index(Point(x[1], 1.0)) * x[0]

    def taken_out(x: Any) -> Any:
        points = [Point(x[0], 1.0), Point(x[1], 1.0)]
        points.remove(Point(x[2], 1.0))
        return points[0].a

    with pytest.raises(ValueError, match="the value is not in the list"):
        tg.function(looked_for)(X)
    with pytest.raises(ValueError, match="x not in list"):
        tg.function(taken_out)(X)


class Below:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __lt__(self, other: Below) -> Any:
        return self.a < other.a and self.b < other.b


def test_comparisons_that_give_no_order_are_an_error_of_the_run() -> None:
    def f(x: Any) -> Any:
        return sorted([Below(x[0], x[0]), Below(-1.0, 5.0), Below(x[1], x[1])])[0].a

    assert tg.function(f)(np.array([0.0, 1.0])) == 0.0
    with pytest.raises(ValueError, match="contradict each other"):
        tg.function(f)(np.array([1.0, 0.0]))


def test_traced_keys_of_sets_name_the_line_of_the_user() -> None:
    def f(x: Any) -> Any:
        return x[0] if Fixed(x[0], 1.0) in {Fixed(1.0, 1.0)} else x[1]

    with pytest.raises(TracegradError, match=r"TG101[\s\S]*test_compared_objects\.py:\d+:\d+ in f"):
        tg.grad(f)(X)


def test_many_objects_whose_order_is_known() -> None:
    def f(x: Any) -> Any:
        slotted = sorted([Slotted((i * 7) % 211, x[i % 3]) for i in range(200)])
        return slotted[3].b * slotted[11].b ** 2

    check_agreement(f, "numpy", X)
