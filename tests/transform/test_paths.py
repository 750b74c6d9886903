"""A loop whose numbers overflow before the function takes another path has no part in the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def position(k: float) -> float:
    x, v = 1.0, 0.0
    for _ in range(400):
        v += 0.1 * (k * x * x * x)
        x += 0.1 * v
    return x


def compared(k: float) -> float:
    x = position(k)
    if abs(x) > 1e6:
        return 1e6
    return x * x


def conditional_expression(k: float) -> float:
    x = position(k)
    return x * x if x < 1e10 else 1e6


def checked_for_infinity(k: float) -> float:
    x = position(k)
    return 1 / (1 + np.exp(-x)) if np.isfinite(x) else 0.0


def returned_from_the_loop(k: float) -> float:
    state = np.array([1.0, 0.0])
    for _ in range(400):
        state = state + 0.1 * np.array([state[1], k * state[0] ** 3])
        if not np.all(np.isfinite(state)):
            return 1e6
    return state @ state


def mean_of_a_list(k: float) -> float:
    state = np.array([1.0, 0.0])
    run = np.zeros(400)
    for i in range(400):
        state = state + 0.1 * np.array([state[1], k * state[0] ** 3])
        run[i] = state[0]
        if np.max(np.abs(state)) > 1e300:
            return 1e6
    return np.mean(run**2)


def limited(k: float) -> float:
    return np.minimum(position(k), 1e6)


def least_of_several(k: float) -> float:
    best = 1e6
    for factor in (0.5, 1.0, 2.0):
        x = position(k * factor)
        if x < best:
            best = x
    return best


def parameters_from_an_array(theta: np.ndarray) -> float:
    x = 1.0
    for _ in range(100):
        x = x + theta[0] * x * x
        x = x - theta[1]
    if x > 1e6:
        return theta[1] * 3.0
    return x


def nothing_returned(k: float) -> Any:
    def run() -> float | None:
        x = 1.0
        while x < 1e3 or k > 2.0:
            x = x * x * k
            if np.isinf(x):
                return None
        return x

    x = run()
    return 1e6 if x is None else x


PROGRAMS = [
    compared, conditional_expression, checked_for_infinity, returned_from_the_loop, mean_of_a_list, limited,
    least_of_several, nothing_returned,
]  # fmt: skip


@each_backend
@pytest.mark.parametrize("function", PROGRAMS)
def test_the_gradient_of_a_constant_after_overflow_is_zero(function: Callable[..., Any], backend: str) -> None:
    value, slope_in_reverse = tg.value_and_grad(function, backend=backend)(50.0)
    assert value == function(50.0)
    assert slope_in_reverse == 0.0
    assert tg.jvp(function, (50.0,), (1.0,), backend=backend)[1] == 0.0


@each_backend
@pytest.mark.parametrize("function", PROGRAMS[:-1])
def test_without_overflow_it_is_that_of_the_loop(function: Callable[..., Any], backend: str) -> None:
    k = -0.01
    forward = tg.jvp(function, (k,), (1.0,), backend=backend)[1]
    assert tg.grad(function, backend=backend)(k) == pytest.approx(forward, rel=1e-12)
    assert forward == pytest.approx(central_differences(lambda x: function(x[0]), np.array([k]))[0], rel=1e-6)
    assert tg.grad(tg.grad(function, backend=backend), backend=backend)(k) == pytest.approx(
        tg.jvp(tg.grad(function, backend=backend), (k,), (1.0,))[1], rel=1e-9
    )


@each_backend
def test_cotangents_from_elsewhere_are_kept(backend: str) -> None:
    gradient = tg.grad(parameters_from_an_array, backend=backend)(np.array([50.0, 0.5]))
    np.testing.assert_array_equal(gradient, [0.0, 3.0])


def test_one_test_guards_a_loop() -> None:
    text = tg.grad(checked_for_infinity).source(50.0)
    assert text.count("reached") == 2
    assert "zero stays zero" not in text
