"""Elements that loops come back to, and elements that they leave alone: what gradients read and write of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.testing import check_grads

X = np.array([0.3, 0.7, 0.5, 0.9, 0.2, 0.4])


def recurrence(x: Any) -> Any:
    s = np.zeros(6)
    s[0] = x[0]
    for t in range(5):
        s[t + 1] = s[t] ** 2 * x[t]
    return np.sum(s**2)


def descending(x: Any) -> Any:
    s = np.zeros(6)
    s[5] = x[0]
    for t in range(4, -1, -1):
        s[t] = s[t + 1] ** 2 * x[t]
    return np.sum(s**2)


def trajectory(x: Any) -> Any:
    state = x[:2]
    states = np.zeros((6, 2))
    for t in range(6):
        states[t] = state
        state = np.array([state[1] ** 2, state[0] * x[t]])
    return np.sum(states**3)


def table(x: Any) -> Any:
    d = np.zeros((4, 6))
    for i in range(4):
        for j in range(6):
            if i == 0 and j == 0:
                d[i, j] = x[j]
            elif i == 0:
                d[i, j] = d[i, j - 1] * x[j]
            elif j == 0:
                d[i, j] = d[i - 1, j] * x[i]
            else:
                d[i, j] = min(d[i - 1, j], d[i, j - 1] * 1.1) + x[j] * d[i - 1, j - 1]
    return d[-1, -1]


@pytest.mark.parametrize("function", [recurrence, descending, trajectory, table])
def test_elements_written_once_are_read_from_the_array(function: Callable[[Any], Any]) -> None:
    check_grads(function, X)
    text = tg.grad(function, backend="numpy").source(X)
    assert "append" not in text
    assert "] = 0.0" not in text


def overwritten(x: Any) -> Any:
    s = x.copy()
    for t in range(5):
        s[t] = np.sin(s[t + 1]) * s[t]
    return np.sum(s**2)


def wraps_around(x: Any) -> Any:
    s = x.copy()
    for t in range(6):
        s[t] = np.sin(s[t - 1]) * s[t]
    return s[2]


def written_twice(x: Any) -> Any:
    s = np.zeros(6)
    for t in range(5):
        s[t + 1] = x[t]
        s[t] = np.sin(s[t] * s[t + 1])
    return np.sum(s**2)


def read_by_a_copy(x: Any) -> Any:
    s, before = x.copy(), x * 2
    for t in range(5):
        kept = s.copy()
        s[t] = np.sin(before[t]) * s[t + 1]
        before = kept
    return s[3] + before[1]


def swapped(x: Any) -> Any:
    a, b = x.copy(), np.cos(x)
    for t in range(4):
        b[t + 1] = np.sin(a[t]) * b[t]
        a, b = b, a
    return np.sum(a * b)


def swept_again(x: Any) -> Any:
    s = x.copy()
    for _ in range(3):
        for j in range(1, 5):
            s[j] = np.sin(s[j - 1]) + s[j] * s[j + 1]
    return np.sum(s)


def one_place(x: Any) -> Any:
    s = x.copy()
    for t in range(5):
        s[2] = np.sin(s[2]) * x[t]
    return s[2]


def every_second(x: Any) -> Any:
    s = x.copy()
    for t in range(0, 4, 2):
        s[t + 2] = np.sin(s[t]) * s[t + 1]
    return np.sum(s)


def in_branches(x: Any) -> Any:
    s = x.copy()
    for t in range(5):
        if x[t] > 0.4:
            s[t + 1] = np.sin(s[t])
        else:
            s[t] = s[t + 1] * s[t]
    return np.sum(s)


def row_and_element(x: Any) -> Any:
    s = np.outer(x, x)
    for i in range(5):
        for j in range(5):
            s[i, j + 1] = np.sin(s[i, j])
        s[i + 1] = s[i] * s[i + 1]
    return np.sum(s)


def by_data(x: Any, order: Any) -> Any:
    s = x.copy()
    for t in range(5):
        s[order[t]] = np.sin(s[t]) * s[order[t + 1]]
    return np.sum(s)


@pytest.mark.parametrize(
    "function",
    [
        overwritten,
        wraps_around,
        written_twice,
        read_by_a_copy,
        swapped,
        swept_again,
        one_place,
        every_second,
        in_branches,
        row_and_element,
    ],
)
def test_elements_that_a_loop_comes_back_to(function: Callable[[Any], Any]) -> None:
    check_grads(function, X)


def test_places_chosen_by_data() -> None:
    check_grads(by_data, X, np.array([2, 2, 0, 5, 1, 3]))


@pytest.mark.parametrize("function", [recurrence, trajectory, table, swept_again, written_twice])
def test_second_derivatives(function: Callable[[Any], Any]) -> None:
    check_grads(tg.grad(function, backend="numpy"), X)


def test_conditions_that_are_constants() -> None:
    def f(x: Any, k: Any) -> Any:
        for _ in range(3):
            for i in range(len(x)):
                if i > 0:
                    x[i] -= k * (x[i] - x[i - 1])
        return x @ x

    for size in (1, 2, 3):
        check_grads(lambda x: f(x.copy(), 0.2), X[:size])
        assert tg.grad(f)(X[:size].copy(), 0.2).shape == (size,)
