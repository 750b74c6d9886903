"""Queues from whose front a condition takes items: loops around them are staged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

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


PROGRAMS: list[Callable[[Any], Any]] = [queue_of_numbers, queue_of_arrays, last_taken_in_a_loop]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python_has_it(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)
    assert "unrolled" not in str(tg.explain(program)(POINTS[0]))
