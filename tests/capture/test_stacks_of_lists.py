"""Lists of lists that are stacks, stacks that are empty at first, and containers that methods of others give."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (
    np.array([3.021, 1.033, 2.074, 0.572, 2.513, 0.231]),
    np.array([0.415, 2.622, 1.717, 3.318, 0.123, 1.219]),
    np.array([1.128, 0.214, 2.916, 0.957, 3.411, 2.226]),
)


def pooled(x: Any) -> Any:
    blocks = []
    for v in x:
        blocks.append([v, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            b = blocks.pop()
            a = blocks.pop()
            blocks.append([(a[0] * a[1] + b[0] * b[1]) / (a[1] + b[1]), a[1] + b[1]])
    return sum(v * v * k for v, k in blocks)


def pooled_into_the_last(x: Any) -> Any:
    blocks = []
    for i in range(50):
        v = x[i % 6] + math.sin(i)
        blocks.append([v, 1.0, i])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            v, w, j = blocks.pop()
            p = blocks[-1]
            blocks[-1] = [(p[0] * p[1] + v * w) / (p[1] + w), p[1] + w, j]
    return sum(v * v * k + j for v, k, j in blocks) + len(blocks)


def last_kept(x: Any) -> Any:
    blocks = []
    top = None
    for v in x:
        blocks.append([v, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            b = blocks.pop()
            top = b
            blocks[-1] = [blocks[-1][0] * 0.5 + b[0], b[1] + 1.0]
    return sum(v * k for v, k in blocks) + (top[0] * 3 if top is not None else 0.0)


def merged(x: Any) -> Any:
    parts = []
    for low, high in [[x[i], x[i] + 0.3 * i] for i in range(6)]:
        while parts and parts[-1][1] > low:
            a, b = parts.pop()
            low, high = min(low, a), max(high, b)
        parts.append([low, high])
    return sum((b - a) * (k + 1) + a for k, (a, b) in enumerate(parts))


def jobs(x: Any) -> Any:
    stack = [[x[0], x[1]]]
    t, n = 0.0, 0
    while stack and n < 30:
        a, b = stack.pop()
        n += 1
        if a > b:
            stack.append([a * 0.5, b])
            stack.append([b * 0.4, a * 0.3])
        t += a * n + b
    return t


def empty_at_first(x: Any) -> Any:
    stack: list[Any] = []
    for i in range(40):
        v = x[i % 6] + math.sin(i)
        if v > 2:
            stack.append(v)
        elif v < 0.6 and stack:
            w = stack.pop()
            stack.append(w * v)
            if v < 0.1:
                stack.append(v)
    return sum(w * k for k, w in enumerate(stack))


def pairs_empty_at_first(x: Any) -> Any:
    stack: list[Any] = []
    for i in range(12):
        v = x[i % 6] + math.sin(i)
        if v > 2:
            stack.append([v, x[0]])
        elif v < 0.6 and len(stack) > 0:
            w = stack.pop()
            stack.append([w[1] * v, w[0]])
    return sum(a * k + b for k, (a, b) in enumerate(stack))


def marks_empty_at_first(x: Any) -> Any:
    stack: list[Any] = []
    for i in range(40):
        v = x[i % 6] + math.sin(i)
        if v > 2:
            stack.append((1, v))
        elif v < 0.6 and stack:
            s, w = stack.pop()
            stack.append((2, w * v) if s == 1 else (3, w + v))
    return sum(w * s for s, w in stack)


def item_of_values(x: Any) -> Any:
    d = {"a": [x[0], x[1]]}
    if x[0] > 1:
        next(iter(d.values()))[0] = 7.0
    return sum(d["a"]) * d["a"][0]


def longer_item_of_values(x: Any) -> Any:
    d = {"a": [x[0], x[1]]}
    if x[0] > 1:
        next(iter(d.values())).append(x[2])
    return sum(d["a"]) + len(d["a"])


def dict_of_values(x: Any) -> Any:
    d = {"a": {"u": 2.0}}
    if x[0] > 1:
        next(iter(d.values()))["u"] = 7.0
    return d["a"]["u"] * x[0]


def item_of_a_pop(x: Any) -> Any:
    s = [[x[0], x[1]], [x[2]]]
    kept = s[1]
    for _ in range(3):
        t = s.pop()
        t[0] = t[0] * x[1] + 1
        s.append(t)
    return kept[0]


PROGRAMS = [
    pooled,
    pooled_into_the_last,
    last_kept,
    merged,
    jobs,
    empty_at_first,
    pairs_empty_at_first,
    marks_empty_at_first,
    item_of_values,
    longer_item_of_values,
    dict_of_values,
    item_of_a_pop,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_stacks_of_lists(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def pops_nothing(x: Any) -> Any:
    values: list[Any] = []
    if x[0] > 1:
        values.pop()
    return x[1] * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_pop_of_an_empty_list_under_a_condition(backend: str) -> None:
    compiled = tg.function(pops_nothing, backend=backend)
    assert compiled(POINTS[1]) == pops_nothing(POINTS[1])
    with pytest.raises(IndexError, match="pop from empty list"):
        compiled(POINTS[0])
