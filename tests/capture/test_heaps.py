"""heapq on numbers and tuples whose order is known only when the compiled function runs."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError, NeedsPythonValue

POINTS = (np.array([0.5, 0.7, 0.3]), np.array([1.7, -1.3, 2.0]), np.array([-0.4, 2.0, 0.9]))
EDGES = np.array([[0, 1, 2, 0, 0], [0, 0, 3, 1, 0], [0, 1, 0, 2, 3], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])


def shortest_path(x: Any) -> Any:
    costs = [0.0, x[0] ** 2 + 0.1, x[1] ** 2 + 0.2, x[2] ** 2 + 0.3]
    n = len(EDGES)
    distance = np.full(n, np.inf)
    distance[0] = 0.0
    heap = [(0.0, 0)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > distance[u]:
            continue
        for v in range(n):
            if EDGES[u, v] > 0:
                new = d + np.array(costs)[EDGES[u, v]]
                if new < distance[v]:
                    distance[v] = new
                    heapq.heappush(heap, (new, v))
    return distance[4] + 0.5 * distance[3]


def pushed_in_a_loop(x: Any) -> Any:
    heap: list[Any] = []
    for i in range(20):
        heapq.heappush(heap, np.sin(x[0] * i) * x[1])
    return heapq.heappop(heap) + 2 * heapq.heappop(heap)


def pushed_in_a_short_loop(x: Any) -> Any:
    heap: list[Any] = []
    for i in range(4):
        heapq.heappush(heap, (np.sin(x[0] * i) * x[1], x[2] * i))
    v, w = heapq.heappop(heap)
    return v * w + heap[0][1]


def pushed_under_a_condition(x: Any) -> Any:
    heap: list[Any] = []
    for i in range(20):
        v = np.sin(x[0] * i) * x[1]
        if v > 0:
            heapq.heappush(heap, v)
    total = 0.0
    while heap:
        total = total * 0.5 + heapq.heappop(heap)
    return total


def greatest_three(x: Any) -> Any:
    heap: list[Any] = []
    for i in range(20):
        heapq.heappush(heap, np.sin(x[0] * i) * x[1])
        if len(heap) > 3:
            heapq.heappop(heap)
    return sum(heap)


def pushed_and_popped_at_once(x: Any) -> Any:
    heap = [x[0], x[1], x[2]]
    heapq.heapify(heap)
    total = 0.0
    for i in range(12):
        total = total * 0.9 + heapq.heappushpop(heap, np.sin(x[0] * i) * x[1])
        total = total * 0.9 + heapq.heapreplace(heap, np.cos(x[2] * i))
    return total + sum(v * (k + 1) for k, v in enumerate(heap))


def places_in_the_heap(x: Any) -> Any:
    heap: list[Any] = []
    for i in range(15):
        heapq.heappush(heap, (np.sin(x[0] * i + x[1]), i))
    heapq.heappop(heap)
    return sum(v * (k + 1) + i * k for k, (v, i) in enumerate(heap)) * x[2]


def events(x: Any) -> Any:
    heap, total = [(x[0] ** 2 + 0.1, 1.0)], 0.0
    while heap:
        t, size = heapq.heappop(heap)
        total = total + t * size
        if t < 4.0:
            heapq.heappush(heap, (t + 0.9 + x[1] ** 2, size * 0.5))
            heapq.heappush(heap, (t + 1.7 + x[2] ** 2, size * 0.3))
    return total


def sorted_by_a_heap(x: Any) -> Any:
    heap = [np.sin(k * x[0]) * x[1] for k in range(17)]
    heapq.heapify(heap)
    ordered = []
    for _ in range(17):
        ordered.append(heapq.heappop(heap))
    return sum(v * (k + 1) for k, v in enumerate(ordered))


PROGRAMS: list[Callable[[Any], Any]] = [
    shortest_path,
    pushed_in_a_loop,
    pushed_in_a_short_loop,
    pushed_under_a_condition,
    greatest_three,
    pushed_and_popped_at_once,
    places_in_the_heap,
    events,
    sorted_by_a_heap,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python_has_it(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_an_order_that_is_known_stays_known() -> None:
    def chosen(x: Any) -> Any:
        heap: list[Any] = []
        for i in range(20):
            heapq.heappush(heap, ((i * 7) % 11, "ab"[i % 2], x[i % 3]))
        weights = {"a": 2.0, "b": 3.0}
        total = 0.0
        while heap:
            key, name, v = heapq.heappop(heap)
            total += weights[name] * v * key
        return total

    check_agreement(chosen, "numpy", POINTS[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_texts_in_items(backend: str) -> None:
    def named(x: Any) -> Any:
        heap: list[Any] = []
        weights = {"a": 1.0, "b": 2.0, "c": 3.0}
        for i in range(30):
            v = x[i % 3]
            if v > 1.0:
                heapq.heappush(heap, (float(i % 3), "c", v))
            elif v < 0.6:
                heapq.heappush(heap, (float(i % 2), "a" if i % 4 else "b", v))
        total, k = 0.0, 1
        while heap:
            priority, name, v = heapq.heappop(heap)
            total += weights[name] * v * k + priority
            k += 1
        return total

    check_agreement(named, backend, *POINTS)


def test_other_items_are_refused() -> None:
    def called(x: Any) -> Any:
        heap = [(0.0, np.sin)]
        while x[0] < 3.0:
            x = x + 1.0
            heapq.heappush(heap, (x[0], np.cos))
        return heapq.heappop(heap)[0]

    def popped_from_nothing(x: Any) -> Any:
        heap: list[Any] = []
        return heapq.heappop(heap) + x[0]

    with pytest.raises(CaptureError):
        tg.grad(called)(POINTS[0])
    with pytest.raises(IndexError):
        tg.grad(popped_from_nothing)(POINTS[0])

    def different(x: Any) -> Any:
        heap = [(x[0], x), (x[1], x[1:])]
        heapq.heapify(heap)
        return x[1]

    with pytest.raises(NeedsPythonValue, match=r"(?s)heapq.heapify of traced values.*no common form"):
        tg.grad(different)(POINTS[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_that_have_no_order_are_compared_where_python_compares_them(backend: str) -> None:
    def arrays(x: Any) -> Any:
        heap: list[Any] = []
        for i in range(3):
            heapq.heappush(heap, (x[i], x * i))
        first = heapq.heappop(heap)[1]
        return np.sum(first) + heap[0][1][0] ** 2

    check_agreement(arrays, backend, *POINTS)
    with pytest.raises(ValueError, match="ambiguous"):
        tg.function(arrays, backend=backend)(np.ones(3))


@dataclass(order=True)
class Event:
    time: Any
    kind: str = field(compare=False)
    state: Any = field(compare=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_in_order_of_their_methods(backend: str) -> None:
    def simulated(x: Any) -> Any:
        queue = [Event(x[0] ** 2, "arrives", x), Event(x[1] ** 2 + 0.1, "leaves", x * 2.0)]
        heapq.heapify(queue)
        count, area, last = 0.0, 0.0, 0.0
        for _ in range(6):
            event = heapq.heappop(queue)
            area += count * (event.time - last) + event.state[2]
            last = event.time
            if event.kind == "arrives":
                count += 1.0
                heapq.heappush(queue, Event(last + x[2] ** 2 + 0.05, "arrives", event.state * 0.5))
            else:
                count -= 1.0
                heapq.heappush(queue, Event(last + 1.3, "leaves", event.state + 1.0))
        return area

    check_agreement(simulated, backend, *POINTS)


def test_objects_of_a_heap_that_are_changed_are_refused() -> None:
    def changed_before(x: Any) -> Any:
        event = Event(x[0], "", x[1])
        heap = [event]
        heapq.heappush(heap, Event(x[1], "", x[2]))
        event.state = x[0] * 9.0
        return heapq.heappop(heap).state

    def changed_behind(x: Any) -> Any:
        events = [Event(x[0], "", x[1]), Event(x[1], "", x[2])]
        heap = list(events)
        heapq.heapify(heap)
        heapq.heappop(heap).state = x[0] * 9.0
        return events[0].state

    for program in (changed_before, changed_behind):
        with pytest.raises(NeedsPythonValue, match="TG136"):
            tg.grad(program)(POINTS[0])
