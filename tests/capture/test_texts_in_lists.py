"""Lists of tuples, dicts and objects of which a part is one of several texts, filled under traced conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (
    np.array([3.0, 1.03, 2.07, 0.57, 2.51, 0.23]),
    np.array([0.4, 2.6, 1.7, 3.3, 0.1, 1.2]),
    np.array([1.1, 0.2, 2.9, 0.95, 3.4, 2.2]),
)
WEIGHTS = {"up": 1.0, "down": 2.0, "flat": 3.0, "a": 4.0, "b": 5.0}


@dataclass
class Event:
    kind: Any
    v: Any


def wave(x: Any, i: int) -> Any:
    return x[i % 6] + math.sin(i)


def without_else(x: Any) -> Any:
    log = []
    for v in x:
        if v > 1:
            log.append(("up", v))
        elif v < 0.5:
            log.append(("down", v * 2))
    return sum(v * WEIGHTS[name] for name, v in log)


def in_a_long_loop(x: Any) -> Any:
    log = []
    for i in range(200):
        v = wave(x, i)
        if v > 2.5:
            log.append(("up", v))
        elif v < 0.5:
            log.append(("down", v * 2))
    return sum(v * WEIGHTS[name] for name, v in log)


def dicts_in_a_while_loop(x: Any) -> Any:
    log: list[Any] = []
    k, s = 0, 0.0
    while s < 60.0 and k < 100:
        v = wave(x, k)
        if v > 2.5:
            log.append({"k": "up", "v": v, "i": k})
        elif v < 0.5:
            log.append({"k": "down", "v": v * 2, "i": k})
        elif k % 5 == 0:
            log.append({"k": "flat" if v > 1.5 else "a", "v": 1.0, "i": k})
        s += abs(v)
        k += 1
    t = 0.0
    for event in log:
        if event["k"] == "up":
            t += event["v"]
        elif event["k"] in ("a", "down"):
            t = t * 0.9 + event["v"] * event["i"]
    return t + len(log)


def decided_by_the_last(x: Any) -> Any:
    log: list[Any] = [("start", 0.0)]
    for i in range(30):
        v = wave(x, i)
        if log[-1][0] == "start" and v > 2:
            log.append(("up", v))
        elif log[-1][0] == "up" and v < 1:
            log.append(("down", v + log[-1][1]))
        elif log[-1][0] == "down":
            log.append(("start" if v > 1 else "up", v))
    return sum(v * i for i, (name, v) in enumerate(log) if name != "start") + len([1 for e in log if e[0] == "down"])


def replaced(x: Any) -> Any:
    log: list[Any] = []
    for i in range(40):
        v = wave(x, i)
        if v > 2:
            log.append(("a", v))
        if v > 2.5:
            log[-1] = ("b", v)
        if len(log) > 3 and v < 0:
            log[1] = ("flat", log[1][1])
    return sum(v * WEIGHTS[name] for name, v in log)


def nested(x: Any) -> Any:
    low, high = [], []
    for i in range(40):
        v = wave(x, i)
        e = ("a" if v > 2 else "b", v)
        if v > 1:
            high.append(e)
        else:
            low.append((e, "up" if i % 3 else "down"))
    t = sum(v * WEIGHTS[name] * WEIGHTS[way] for (name, v), way in low)
    return t + sum(v for name, v in high if name == "a") - sum(v for name, v in high if name == "b") * 0.5


def objects(x: Any) -> Any:
    log = []
    for i in range(150):
        v = wave(x, i)
        if v > 2.2:
            log.append(Event("up", v))
        elif v < 0.2:
            log.append(Event("down", -v))
    return sum(event.v * WEIGHTS[event.kind] for event in log)


def greatest_and_order(x: Any) -> Any:
    log = []
    for i in range(12):
        v = wave(x, i)
        if v > 2.2:
            log.append(("up", v))
        elif v < 0.2:
            log.append(("down", -v))
    if not log:
        return x[0]
    name, v = max(log, key=lambda e: e[1])
    log.sort(key=lambda e: -e[1])
    return v * WEIGHTS[name] + sum(w * WEIGHTS[other] * (k + 1) for k, (other, w) in enumerate(log))


def beside_none(x: Any) -> Any:
    out: list[Any] = []
    for i in range(20):
        if x[i % 6] > i * 0.1:
            out.append(("up", i, None))
        if x[i % 6] < i * 0.15:
            out.append(("down", i, x[i % 6]))
    return sum(WEIGHTS[name] * i * (1.0 if v is None else v) for name, i, v in out)


def stack_of_jobs(x: Any) -> Any:
    jobs: list[Any] = [("a", x[0])]
    t, n = 0.0, 0
    while jobs and n < 50:
        name, v = jobs.pop()
        n += 1
        if name == "a" and v > 0.3:
            jobs.append(("b", v * 0.6))
            jobs.append(("a", v * 0.5))
        elif name == "b" and v > 1.0:
            jobs.append(("up", v - 0.5))
        t += v * WEIGHTS[name]
    return t


PROGRAMS = [
    without_else,
    in_a_long_loop,
    dicts_in_a_while_loop,
    decided_by_the_last,
    replaced,
    nested,
    objects,
    greatest_and_order,
    beside_none,
    stack_of_jobs,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_texts_in_lists(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def returned(x: Any) -> Any:
    log: list[Any] = []
    for i in range(20):
        v = wave(x, i)
        if v > 2.5:
            log.append(("up", v, {"k": "p"}))
        elif v < 0.5:
            log.append(("do{w}n", v * 2, {"k": None}))
    return log


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_list_with_texts_is_returned(backend: str) -> None:
    compiled = tg.function(returned, backend=backend)
    for x in (*POINTS, POINTS[0] + 5, np.full(6, 1.2)):
        assert compiled(x) == returned(x)
    text = compiled.source(POINTS[0], backend="numpy")
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert namespace["returned"](POINTS[1]) == returned(POINTS[1])
