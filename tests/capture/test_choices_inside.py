"""Tuples, dicts and objects that hold a text or function, and among which traced conditions choose."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (
    np.array([3.0, 1.03, 2.07, 0.57, 2.51, 0.23]),
    np.array([0.4, 2.6, 1.7, 3.3, 0.1, 1.2]),
    np.array([1.1, 0.2, 2.9, 0.95, 3.4, 2.2]),
)


class Motor:
    def __init__(self) -> None:
        self.mode: Any = "idle"
        self.speed: Any = 1.0
        self.last: Any = ("none", 0.0)


def greatest_of_items(x: Any) -> Any:
    d = {"a": x[0], "b": x[1], "c": x[2], "d": x[3], "e": x[4]}
    name, v = max(d.items(), key=lambda item: item[1])
    other, w = min(d.items(), key=lambda item: item[1])
    return v * 2 if name == "a" else v * 3 if other == "b" else w * 4 if other == "d" else v * w


def greatest_of_zip(x: Any) -> Any:
    v, name = max(zip(x, "abcdef", strict=True))
    return v * {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}[name]


def one_of_sorted(x: Any) -> Any:
    v, name = sorted(zip(x, "abcdef", strict=True))[2]
    return v * {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}[name]


def best_so_far(x: Any) -> Any:
    best: Any = None
    for name, v in zip("abcdef", x, strict=True):
        if best is None or v > best[1]:
            best = (name, v)
    return best[1] * (3 if best[0] in ("a", "c") else 5)


def best_in_a_dict(x: Any) -> Any:
    best: Any = {"name": None, "v": -9.0}
    for name, v in zip("abcdef", x, strict=True):
        if v > best["v"]:
            best = {"name": name, "v": v}
    return best["v"] * (2.0 if best["name"] in ("a", "c") else 3.0)


def best_function(x: Any) -> Any:
    best: Any = None
    for f in (math.sin, math.cos, math.exp, math.sqrt):
        v = f(abs(x[0]) + x[1] ** 2)
        if best is None or v < best[0]:
            best = (v, f)
    return best[1](x[2] ** 2) + best[0]


def choices_of_choices(x: Any) -> Any:
    pick, other = ("a", x[0]), ("c", x[2])
    if x[1] > 1:
        pick = ("b", x[1])
    if x[3] > 0.5:
        other = ("a", x[3])
    if x[4] > 2.5:
        pick = other
    if x[5] > 0.2:
        other = ("e", pick[1] * 2)
    weights = {"a": 1.0, "b": 2.0, "c": 3.0, "e": 7.0}
    return weights[pick[0]] * pick[1] + weights[other[0]] * other[1]


def in_a_long_loop(x: Any) -> Any:
    state: Any = {"mode": "idle", "n": 0.0}
    for i in range(300):
        v = x[i % 6] + i * 0.01
        if state["mode"] == "idle":
            if v > 2:
                state = {"mode": "run", "n": state["n"] + v}
        elif state["mode"] == "run":
            if v < 1.5:
                state = {"mode": "idle", "n": state["n"] * 0.9}
            elif v > 3:
                state = {"mode": "hot", "n": state["n"] - v}
        else:
            state = {"mode": "run", "n": state["n"] * 0.5}
    return state["n"] * (2 if state["mode"] == "hot" else 1)


def in_a_while_loop(x: Any) -> Any:
    state: Any = ("s", ("p", 1.0))
    k = 0
    while k < 200 and state[1][1] < 30.0:
        v = state[1][1]
        if state[0] == "s":
            state = ("t" if x[k % 6] > 1.0 else "u", ("q", v + x[0]))
        elif state[0] == "t":
            state = ("s", ("r" if x[k % 6] > 2 else "q", v * 1.2))
        elif state[1][0] == "q":
            state = ("s", ("p", v + 0.5))
        else:
            state = ("s", ("q", v + 0.1 * x[1]))
        k += 1
    return state[1][1] * (3 if state[1][0] == "p" else 5 if state[1][0] == "q" else 7) + k


def with_a_number_or_none(x: Any) -> Any:
    state: Any = ("s", 1.0, None)
    k = 0
    while k < 60 and state[1] < 30.0:
        if state[0] == "s" and x[k % 6] > 2:
            state = ("up", state[1] + x[0], None)
        elif state[0] == "up" and x[k % 6] < 0.6:
            state = ("down", state[1] * 1.2, x[1])
        elif state[0] == "down":
            state = ("s", state[1], state[2])
        k += 1
    return state[1] * (3 if state[0] == "up" else 5) + (0.0 if state[2] is None else state[2])


def in_attributes(x: Any) -> Any:
    motor = Motor()
    k = 0
    while k < 100 and motor.speed < 40.0:
        y = x[k % 6]
        if motor.mode == "idle" and y > 1.5:
            motor.mode, motor.last = "run", ("a", motor.speed)
        elif motor.mode == "run":
            motor.speed += abs(y)
            if y < 0.9:
                motor.mode, motor.last = "cool", ("b", y)
        elif motor.mode == "cool":
            motor.mode, motor.speed = "idle", motor.speed * 0.9
        else:
            motor.last = ("c", motor.last[1] + y)
        k += 1
    factor = 2.0 if motor.last[0] == "a" else 3.0 if motor.last[0] == "b" else 5.0
    return motor.speed * {"idle": 1.0, "run": 2.0, "cool": 3.0}[motor.mode] + motor.last[1] * factor


def bound_in_each_iteration(x: Any) -> Any:
    state: Any = ("start", 1.0)
    k = 0
    while k < 4 and state[1] < 30.0:
        state = ("run", state[1] + x[k % 6] ** 2)
        k += 1
    return state[1] * (3 if state[0] == "run" else 5)


PROGRAMS = [
    greatest_of_items,
    greatest_of_zip,
    one_of_sorted,
    best_so_far,
    best_in_a_dict,
    best_function,
    choices_of_choices,
    in_a_long_loop,
    in_a_while_loop,
    with_a_number_or_none,
    in_attributes,
    bound_in_each_iteration,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_choices_inside(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)
