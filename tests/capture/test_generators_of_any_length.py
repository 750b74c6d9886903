"""Generator expressions and generators of which a traced condition decides what they give."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import POINTS, Programs, check_agreement
from tracegrad.config import BACKENDS

program = Programs()


def helper(items: Any) -> Any:
    total = 1.0
    for v in items:
        total = total * 0.5 + v
    return total


def pos(x: Any) -> Any:
    for v in x:
        if v > 0:
            yield (v * v)


@program
def looped_over(x: Any) -> Any:
    s = 0.0
    for v in (u * u for u in x if u > 0):
        s += v
    return s


@program
def given_to_a_helper(x: Any) -> Any:
    return helper(math.sin(u) for u in x if u > 0)


@program
def any_of_some(x: Any) -> Any:
    return x[0] if any(u > 2 for u in x if u > 0) else x[1] * 2


@program
def all_of_some(x: Any) -> Any:
    return x[0] if all(u < 2 for u in x if u > 0) else x[1] * 2


@program
def zipped(x: Any) -> Any:
    return sum((a * b for a, b in zip((u for u in x if u > 0), x, strict=False)))


@program
def numbered(x: Any) -> Any:
    s = 0.0
    for i, v in enumerate(u for u in x if u > 0):
        s += i * v
    return s


@program
def unpacked(x: Any) -> Any:
    a, *rest = (u for u in x if u > -100)
    return a + sum(rest)


@program
def extending(x: Any) -> Any:
    L = []
    L.extend(u for u in x if u > 0)
    L += (2 * u for u in x if u < 0)
    return sum(L)


@program
def mapped(x: Any) -> Any:
    return helper(map(np.negative, (v for v in x if v > 0)))


@program
def of_another(x: Any) -> Any:
    return sum(u for u in (v * 2 for v in x if v > 0) if u > 1)


@program
def used_up(x: Any) -> Any:
    g = (u for u in x if u > 0)
    return x[0] * len(list(g)) + len(list(g))


@program
def of_a_variable_that_changes(x: Any) -> Any:
    k = 1.0
    g = (u * k for u in x if u > 0)
    k = 3.0
    s = 0.0
    for v in g:
        s += v
        k += 1.0
    return s


@program
def counted(x: Any) -> Any:
    n = sum(1 for _ in (u for u in x if u > 0))
    return n * x[0]


@program
def numbered_in_another(x: Any) -> Any:
    return sum((v for i, v in enumerate(u for u in x if u > 0) if i % 2 == 0))


@program
def summed(x: Any) -> Any:
    return sum(pos(x))


@program
def in_a_loop(x: Any) -> Any:
    s = 0.0
    for v in pos(x):
        s += v
    return s


@program
def listed(x: Any) -> Any:
    return sum(list(pos(x)))


@program
def left_early(x: Any) -> Any:
    s = 0.0
    for i, v in enumerate(pos(x)):
        if i > 1:
            break
        s += v
    return s


@program
def of_a_running_sum(x: Any) -> Any:

    def gen():
        prev = 0.0
        for v in x:
            if v > 0:
                prev = prev + v
                yield prev

    return sum(v * v for v in gen())


@program
def recursive(x: Any) -> Any:

    def walk(i):
        yield x[i]
        if i + 1 < len(x):
            yield from walk(i + 1)

    return sum(walk(0))


@program
def that_returns(x: Any) -> Any:

    def g():
        for v in x:
            if v > 2:
                return
            yield v

    return sum(g())


@program
def in_a_while_loop(x: Any) -> Any:

    def g():
        i = 0
        while i < len(x) and x[i] < 2:
            yield x[i]
            i += 1

    return sum(v * v for v in g())


@program
def with_effects_in_order(x: Any) -> Any:
    log = []

    def noted(v: Any) -> Any:
        log.append(v)
        return v * 2

    for v in (noted(u) for u in x if u > 0):
        log.append(-v)
    return sum((v * (k + 1) for k, v in enumerate(log)))


@program
def of_generators(x: Any) -> Any:

    def inner(k: int) -> Any:
        for v in x[k:]:
            if v > 0.4:
                yield (v * (k + 1))

    def outer() -> Any:
        for k in range(3):
            yield from inner(k)
            if x[k] > 0:
                yield x[k]

    return sum(outer())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("run", program, ids=lambda run: run.__name__)
def test_programs(run: Callable[[Any], Any], backend: str) -> None:
    check_agreement(run, backend, *POINTS)
