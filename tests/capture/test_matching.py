"""`match` on traced numbers and with traced guards: against the plain function, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import NeedsPythonValue

POINTS = (np.array([1.0, -2.0, 3.0, 0.5]), np.array([-1.1, 0.8, 0.3, 0.7]), np.array([2.4, 2.6, 0.3, 0.7]))


def values(x: Any) -> Any:
    match int(np.argmax(x)):
        case 0:
            return x[0]
        case 1 | 2:
            return x[1] * 2
        case _:
            return x[3]


def guards(x: Any) -> Any:
    match x[0]:
        case w if w > 2:
            return w**2
        case w if w > 0:
            return w**3
        case _:
            return -x[0]


def pair(x: Any) -> Any:
    match (x[0], x[1]):
        case (a, b) if a > b:
            return a * b
        case (a, b, _):
            return a
        case (a, b):
            return a + b


def states(x: Any) -> Any:
    state, t = "a", 0.0
    for v in x:
        match state, v > 0:
            case "a", True:
                state = "b"
                t += v
            case "a", False:
                t += v**2
            case "b", up:
                t += 3 * v
                state = "c" if up else "a"
            case _:
                t += v**3
    return t


def in_a_long_loop(x: Any) -> Any:
    t = 0.0
    for i in range(200):
        match i % 3:
            case 0:
                t += x[0] * 0.01
            case 1 if t > 0.1:
                t -= x[1] * 0.01
            case k if k == 2 or t > 3:
                t *= 0.99
    return t


def breaks_out(x: Any) -> Any:
    t = 0.0
    for v in x:
        match v > 0.6, t:
            case True, s if s > 2:
                break
            case _:
                t += v**2
    return t


def known_classes(x: Any) -> Any:
    match {"scale": 3.0}:
        case {"scale": float() as s}:
            return s * x[0]
    return x[1]


PROGRAMS = [values, guards, pair, states, in_a_long_loop, breaks_out, known_classes]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def class_with_guard(x: Any) -> Any:
    match x[0]:
        case float() as v if v > 0:
            return v**2
        case _:
            return x[1]


def test_guard_of_a_class_pattern() -> None:
    with pytest.raises(NeedsPythonValue, match="the guard of a `case`"):
        tg.grad(class_with_guard)(POINTS[0])
