"""Lists and deques of a fixed length whose items a loop moves: against the plain function, on both backends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (np.array([0.3, -0.2, 0.7, 0.5]), np.array([-0.4, 0.9, 0.1, 0.2]))
LONG = 200


def over_an_array(x: Any) -> Any:
    q, t = deque([0.0, 0.0, 0.0]), 0.0
    for v in x:
        q.append(v)
        q.popleft()
        t += q[0] * v + sum(q) + max(q)
    return t


def of_a_long_loop(x: Any) -> Any:
    q, t = deque([0.0, 0.0, 0.0]), 0.0
    for i in range(LONG):
        q.append(np.sin(x[0] * i) + 0.5 * q[0])
        q.popleft()
        t += q[0] * 0.1
    return t


def to_the_left(x: Any) -> Any:
    q, t = deque([x[0], x[1]]), 0.0
    for i in range(LONG):
        q.appendleft(np.cos(x[2] * i) + 0.3 * q[-1])
        q.pop()
        t += q[0] * 0.1
    return t


def maxlen(x: Any) -> Any:
    q, t = deque([0.0] * 3, maxlen=3), 0.0
    for i in range(LONG):
        q.append(x[i % 4] * np.sin(0.1 * i))
        t += np.mean(q) + np.dot(np.array(q), np.array([1.0, 2.0, 3.0])) + q[0] * q[2]
    return t


def of_a_while(x: Any) -> Any:
    q, n = deque([0.0, x[0], x[1]]), 0
    while abs(q[-1] - q[0]) > 1e-3 and n < 50:
        q.append(0.5 * q[-1] + 0.1 * q[0])
        q.popleft()
        n += 1
    return q[-1] + q[0]


def of_arrays(x: Any) -> Any:
    q, t = deque([np.zeros(4)] * 2), x
    for _ in range(LONG):
        t = 0.9 * t + 0.05 * q[0]
        q.append(t)
        q.popleft()
    return np.sum(t)


def rotate(x: Any) -> Any:
    q, t = deque([x[0], x[1], x[2]]), 0.0
    for i in range(LONG):
        q.rotate(1)
        q[0] *= 0.99
        t += q[1] * 0.1 + q[i % 3] * 0.2
    return t


def list_pop_first(x: Any) -> Any:
    q, t = [0.0, 0.0, 0.0], 0.0
    for i in range(LONG):
        q.append(np.sin(x[0] * i) + 0.5 * q[0])
        q.pop(0)
        t += q[0] * 0.1
    return t


def list_insert_first(x: Any) -> Any:
    q, t = [0.0, 0.0, 0.0], 0.0
    for i in range(LONG):
        q.insert(0, np.sin(x[0] * i) + 0.5 * q[-1])
        q.pop()
        t += q[0] * 0.1
    return t


def list_del(x: Any) -> Any:
    q, t = [0.0, 0.0, 0.0], 0.0
    for i in range(LONG):
        q.append(np.sin(x[0] * i) + 0.5 * q[0])
        del q[0]
        t += q[0] * 0.1
    return t


def list_to_the_end(x: Any) -> Any:
    q, t = [x[0], x[1], x[2]], 0.0
    for _ in range(LONG):
        q.append(q.pop(0) * 0.99)
        t += q[0] * 0.1
    q.reverse()
    return t + q[0]


def nested(x: Any) -> Any:
    q, t = [x[0], x[1], x[2]], 0.0
    for i in range(LONG):
        for _ in range(2):
            q.append(0.9 * q.pop(0) + 0.01 * i * x[3])
            t += q[1] * 0.01
        q.append(q.pop(0))
    return t + q[0] * q[2]


def in_an_object(x: Any) -> Any:
    delay = Delay()
    t = 0.0
    for i in range(LONG):
        t = t + 0.1 * delay.push(np.sin(x[0] * i) + 0.2 * x[1])
    return t


class Delay:
    def __init__(self) -> None:
        self.line = deque([0.0] * 4, maxlen=4)

    def push(self, v: Any) -> Any:
        oldest = self.line[0]
        self.line.append(v + 0.5 * oldest)
        return oldest


PROGRAMS = [
    over_an_array,
    of_a_long_loop,
    to_the_left,
    maxlen,
    of_a_while,
    of_arrays,
    rotate,
    list_pop_first,
    list_insert_first,
    list_del,
    list_to_the_end,
    nested,
    in_an_object,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def shrinks(x: Any) -> Any:
    q, t = [x[0]] * 300, 0.0
    for _ in range(LONG):
        t = t + q.pop(0)
    return t


def under_a_condition(x: Any) -> Any:
    q = deque([0.0, 0.0])
    for v in x:
        if v > 0:
            q.append(v)
            q.popleft()
    return sum(q)


def test_refused() -> None:
    with pytest.raises(TracegradError) as raised:
        tg.grad(shrinks)(POINTS[0])
    assert raised.value.code == "TG120"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_buffer_that_rolls_under_a_condition(backend: str) -> None:
    check_agreement(under_a_condition, backend, *POINTS)
