"""Functions that run unconverted, because they use globals() or eval, and change something: done right, or refused."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import CaptureError

X = np.array([0.5, 0.7])

count = 0
log: list[int] = []
settings = {"n": [0]}
space: Any = types.ModuleType("space")
space.count = 0


@pytest.fixture(autouse=True)
def _start() -> None:
    global count
    count = 0
    log.clear()
    settings["n"] = [0]


def counted(y: Any) -> Any:
    globals()["count"] += 1
    return y * count


def logged(y: Any) -> Any:
    eval("log.append(1)")
    return y * len(log)


def nested(y: Any) -> Any:
    globals()["settings"]["n"][0] += 1
    return y * settings["n"][0]


def in_a_loop(x: Any, step: Callable[[Any], Any]) -> Any:
    for _ in range(4):
        x = step(x)
    return np.sum(x)


def in_a_while_loop(x: Any, step: Callable[[Any], Any]) -> Any:
    while x[0] < 9.0:
        x = step(x) + 0.5
    return np.sum(x)


def in_a_branch(x: Any, step: Callable[[Any], Any]) -> Any:
    if x[0] > 3.0:
        x = step(x)
    return np.sum(x)


def once(x: Any, step: Callable[[Any], Any]) -> Any:
    return np.sum(step(x))


STEPS = pytest.mark.parametrize("step", [counted, logged, nested], ids=lambda f: f.__name__)


def state() -> Any:
    return count, len(log), settings["n"][0]


@STEPS
@pytest.mark.parametrize("program", [once, in_a_loop], ids=lambda f: f.__name__)
def test_what_runs_once_at_capture_is_done(program: Callable[..., Any], step: Callable[[Any], Any]) -> None:
    global count
    expected = [float(program(X, step)) for _ in range(3)], state()
    count, settings["n"] = 0, [0]
    log.clear()
    compiled = tg.function(lambda x: program(x, step))
    assert ([float(compiled(X)) for _ in range(3)], state()) == expected


@STEPS
@pytest.mark.parametrize("program", [in_a_while_loop, in_a_branch], ids=lambda f: f.__name__)
def test_what_a_region_stands_for_is_refused(program: Callable[..., Any], step: Callable[[Any], Any]) -> None:
    with pytest.raises(CaptureError, match=r"(?s)runs as it is, and changes|it needs a Python value"):
        tg.function(lambda x: program(x, step))(X)
    assert state() == (0, 0, 0)


def test_a_rule_changes_nothing() -> None:
    @tg.custom_vjp
    def square(x: Any) -> Any:
        return x**2

    def backward(x: Any, ct: Any) -> Any:
        globals()["count"] += 1
        return (2 * x * ct,)

    square.defvjp(lambda x: (x**2, x), backward)
    with pytest.raises(CaptureError, match="backward runs as it is, and changes the global 'count'"):
        tg.grad(lambda x: np.sum(square(x)))(X)
    assert count == 0


def by_computed_name(x: Any) -> Any:
    globals()["count"] = x[0] * 2
    return x[1] * count


def by_the_dict_of_a_module(x: Any) -> Any:
    vars(space)["count"] += 1
    return x[1] * space.count


@pytest.mark.parametrize("program", [by_computed_name, by_the_dict_of_a_module], ids=lambda f: f.__name__)
def test_globals_are_stored_under_their_names(program: Callable[[Any], Any]) -> None:
    with pytest.raises(CaptureError, match=r"(?s)the global 'count' is stored .*global count"):
        tg.function(program)(X)
    assert count == space.count == 0
