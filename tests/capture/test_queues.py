"""Lists that grow under a condition: what is taken out of them inside, and items of which the type changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement

POINTS = (
    np.array([1.0, -2.0, 3.0, 0.5]),
    np.array([-1.1, 2.0, -3.0, -0.5]),
    np.random.default_rng(0).normal(size=40),
)


def sums_of_runs(x: Any) -> Any:
    current = 0.0
    sums = []
    for v in x:
        if v > 0:
            current = current + v
        else:
            sums.append(current)
            current = 0.0
    sums.append(current)
    s = 0.0
    for v in sums:
        s += v * v
    return s


def lengths_and_sums_of_runs(x: Any) -> Any:
    current = 0.0
    length = 0
    runs = []
    for v in x:
        if v > 0:
            current = current + v
            length += 1
        else:
            runs.append((length, current))
            current = 0.0
            length = 0
    return sum(n * v * v for n, v in runs) + current


def runs_until_the_end(x: Any) -> Any:
    current = 0.0
    sums = []
    i = 0
    while i < len(x) and x[i] > -4:
        if x[i] > 0:
            current = current + x[i]
        else:
            sums.append(current)
            current = 0.0
        i += 1
    return sum(v * v for v in sums) + current * len(sums)


class Window:
    def __init__(self) -> None:
        self.items: list[Any] = []

    def push(self, v: Any) -> None:
        self.items.append(v)
        if len(self.items) > 3:
            self.items.pop(0)


def window_of_some(x: Any) -> Any:
    window = Window()
    s = 0.0
    for v in x:
        if v < 0:
            continue
        window.push(v)
        s += sum(window.items) * v
    return s


def queue(x: Any) -> Any:
    waiting: list[Any] = []
    s = 0.0
    for v in x:
        if v > 0:
            waiting.append(v)
        elif len(waiting) > 0:
            s += waiting.pop(0) ** 2 * v
    return s + sum(waiting)


def queue_of_tuples(x: Any) -> Any:
    waiting = [(0.5, 1)]
    s = 0.0
    for v in x:
        if v > 0:
            waiting.append((v, 2))
        elif len(waiting) > 0:
            a, b = waiting.pop(0)
            s += a * b * v
    return s + len(waiting)


def queue_of_arrays(x: Any) -> Any:
    waiting = [x * 1.0]
    s = 0.0
    for v in x[:4]:
        if v > 0:
            waiting.append(x * v)
        elif len(waiting) > 0:
            s += waiting.pop(0)[0] * v
    return s + len(waiting)


def from_the_end(x: Any) -> Any:
    waiting = [0.5, 1.0, 2.0]
    s = 0.0
    for v in x:
        if v > 0 and len(waiting) > 1:
            s += waiting.pop(-2) * v
        else:
            waiting.append(v * 2)
    return s + sum(waiting)


def from_a_traced_place(x: Any) -> Any:
    waiting = [0.5, 1.0, 2.0]
    s = 0.0
    for i, v in enumerate(x):
        if v > 0 and len(waiting) > 1:
            s += waiting.pop(i % len(waiting)) * v
        else:
            waiting.append(v * 2)
    return s + sum(waiting)


def deleted(x: Any) -> Any:
    waiting = [0.5, 1.0, 2.0]
    s = 0.0
    for v in x:
        if len(waiting) > 2:
            first = waiting[0]
            last = waiting[-1]
            del waiting[0]
            s += first * v + last * v**2
        if v > 0:
            waiting.append(v * 2)
    return s + sum(waiting)


RUNS = (sums_of_runs, lengths_and_sums_of_runs, runs_until_the_end)
QUEUES = (window_of_some, queue, queue_of_tuples, from_the_end, from_a_traced_place, deleted)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", [*RUNS, *QUEUES])
def test_lists_that_grow_and_shrink(program: Any, backend: str) -> None:
    check_agreement(program, backend, *POINTS)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_arrays_are_taken_out_of_a_queue(backend: str) -> None:
    check_agreement(queue_of_arrays, backend, *POINTS[:2])


@pytest.mark.parametrize("program", [*RUNS, *QUEUES])
def test_the_loop_is_staged(program: Any) -> None:
    x = np.random.default_rng(1).normal(size=300)
    np.testing.assert_allclose(tg.function(program)(x), program(x), rtol=1e-11)
    assert tg.grad(program).source(x).count("\n") < 120


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_an_item_that_is_not_there_is_not_taken_out(backend: str) -> None:
    def program(x: Any) -> Any:
        waiting = [2.0]
        s = 0.0
        for v in x:
            if v > 0:
                waiting.append(v)
            else:
                s += waiting.pop(0)
        return s

    compiled = tg.function(program, backend=backend)
    assert compiled(np.array([1.0, -1.0, -2.0, 1.0])) == 3.0
    with pytest.raises(IndexError):
        compiled(np.array([1.0, -1.0, -2.0, -1.0]))
