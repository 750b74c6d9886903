"""Queues from whose front a condition takes items: loops around them are staged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

POINTS = (np.array([0.5, 0.7]), np.array([-1.2, 1.3]), np.array([2.0, -0.9]))


def queue_of_numbers(x: Any) -> Any:
    queue, total = [], 0.0
    for i in range(40):
        v = np.sin(x[0] * i) * x[1]
        queue.append(v)
        if v > 0.2 and len(queue) > 2:
            total += queue.pop(0) * i
    return total + sum(v * (k + 1) for k, v in enumerate(queue))


def queue_of_arrays(x: Any) -> Any:
    queue, total = [], 0.0
    for i in range(40):
        v = np.sin(x * i)
        queue.append(v)
        if v[0] > 0.2 and len(queue) > 2:
            w = queue.pop(0)
            total += w[0] * w[1]
    return total + sum(np.sum(w) for w in queue)


def last_taken_in_a_loop(x: Any) -> Any:
    stack, total = [x[0], x[1]], 0.0
    for i in range(30):
        stack.append(np.sin(x[0] * i) * x[1])
        while len(stack) > 2 and stack[-1] > stack[-2]:
            total = total * 0.9 + stack.pop()
    return total + sum(stack)


def deque_of_numbers(x: Any) -> Any:
    queue: deque[Any] = deque()
    total = 0.0
    for i in range(40):
        v = np.sin(x[0] * i) * x[1]
        queue.append(v)
        if v > 0.2 and len(queue) > 2:
            total += queue.popleft() * i
    return total + sum(v * (k + 1) for k, v in enumerate(queue))


def deque_of_arrays(x: Any) -> Any:
    queue: deque[Any] = deque([x])
    total = 0.0
    for i in range(40):
        v = np.sin(x * i)
        if v[0] > 0.0:
            queue.append(v)
        if v[1] > 0.2 and queue:
            w = queue.popleft()
            total += w[0] * w[1]
    return total + sum(np.sum(w) for w in queue)


def deque_that_grows(x: Any) -> Any:
    queue, total = deque([x[0] ** 2 + 0.1]), 0.0
    while queue:
        v = queue.popleft()
        total = total * 0.9 + v
        if v < 3.0:
            queue.append(v * 1.7)
            queue.append(v * 2.5)
    return total * x[1]


def both_ends(x: Any) -> Any:
    queue: deque[Any] = deque([x[0], x[1]])
    for i in range(20):
        v = np.sin(x[0] * i) * x[1]
        if v > 0:
            queue.appendleft(v)
        else:
            queue.append(v)
        if len(queue) > 5:
            if v > 0.3:
                queue.pop()
            else:
                queue.popleft()
    return sum(v * (k + 1) for k, v in enumerate(queue)) + queue[0] * queue[-1]


def maximum_of_windows(x: Any) -> Any:
    v = np.sin(x[0] * np.arange(20)) * x[1]
    queue: deque[Any] = deque()
    total = 0.0
    for i in range(20):
        while queue and v[queue[-1]] <= v[i]:
            queue.pop()
        queue.append(i)
        if queue[0] <= i - 3:
            queue.popleft()
        total += v[queue[0]] * (i + 1)
    return total


PROGRAMS: list[Callable[[Any], Any]] = [
    queue_of_numbers,
    queue_of_arrays,
    last_taken_in_a_loop,
    deque_of_numbers,
    deque_of_arrays,
    deque_that_grows,
    both_ends,
    maximum_of_windows,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python_has_it(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)
    assert "unrolled" not in str(tg.explain(program)(POINTS[0]))


def filled(x: Any) -> deque[Any]:
    queue: deque[Any] = deque()
    for i in range(10):
        if x[0] * i > 0.5:
            queue.append(x[0] * i)
    return queue


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "class": lambda x: x[0] if isinstance(filled(x), deque) else x[1],
    "text": lambda x: print(filled(x)) or x[0],
    "equality": lambda x: x[0] if filled(x) == [x[0]] else x[1],
    "result": filled,
    "rotated": lambda x: (queue := filled(x)).rotate(1) or queue[0],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_shows_that_a_deque_is_a_list_is_refused(question: str) -> None:
    with pytest.raises(CaptureError, match="a deque from outside the loop or branch"):
        tg.function(QUESTIONS[question])(POINTS[0])
