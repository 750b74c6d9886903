"""Loops of one iteration in second and third derivatives: what is pushed and popped in one block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg


def over_an_array(p: Any) -> Any:
    t = 0.0
    for v in p:
        t = np.exp(t * np.sin(v) + v)
    return t


def branch_in_a_loop(p: Any) -> Any:
    t = 0.0
    for i in range(len(p)):
        if p[i] > 0:
            t += np.exp(p[i]) * p[-1]
        else:
            t += p[-1] ** 3
    return t


def while_in_a_loop(p: Any) -> Any:
    total = 0.0
    for v in p:
        w = v
        while w > 1.0:
            w = np.sqrt(w) * 0.9
        total += w * v
    return total


def romberg(p: Any) -> Any:
    def f(t: Any) -> Any:
        return np.exp(p[0] * t) * np.sin((p[-1] + 1.0) * t)

    table = [[0.0] * 4 for _ in range(4)]
    h = 1.0
    table[0][0] = 0.5 * (f(0.0) + f(1.0))
    for i in range(1, 4):
        h = h / 2.0
        inner = 0.0
        for k in range(1, 2**i, 2):
            inner += f(k * h)
        table[i][0] = 0.5 * table[i - 1][0] + h * inner
        for j in range(1, i + 1):
            table[i][j] = table[i][j - 1] + (table[i][j - 1] - table[i - 1][j - 1]) / (4**j - 1)
    return table[3][3]


PROGRAMS: list[tuple[Callable[[Any], Any], Any]] = [
    (over_an_array, np.array([0.8])),
    (branch_in_a_loop, np.array([1.3])),
    (while_in_a_loop, np.array([1.7])),
    (romberg, np.array([0.5, 0.7])),
]


@pytest.mark.parametrize(("f", "x"), PROGRAMS, ids=lambda value: getattr(value, "__name__", ""))
def test_reverse_over_reverse_in_c(f: Callable[[Any], Any], x: Any) -> None:
    hessian = tg.hessian(f)(x)
    for nested in (tg.jacrev(tg.grad(f), backend="c"), tg.jacrev(tg.jacrev(f), backend="c")):
        np.testing.assert_allclose(nested(x), hessian, rtol=1e-11)
    np.testing.assert_allclose(tg.vmap(tg.jacrev(tg.grad(f)), backend="c")(x[None])[0], hessian, rtol=1e-11)
    third = tg.jacfwd(tg.hessian(f))(x)
    np.testing.assert_allclose(tg.jacrev(tg.hessian(f), backend="c")(x), third, rtol=1e-11)
    np.testing.assert_allclose(tg.jacfwd(tg.jacrev(tg.grad(f)), backend="c")(x), third, rtol=1e-11)


@pytest.mark.parametrize(("f", "x"), PROGRAMS, ids=lambda value: getattr(value, "__name__", ""))
def test_gradient_in_an_objective(f: Callable[[Any], Any], x: Any) -> None:
    def objective(p: Any) -> Any:
        return np.sum(tg.grad(f)(p) ** 2)

    value, slope = tg.value_and_grad(objective, backend="c")(x)
    gradient = tg.grad(f)(x)
    np.testing.assert_allclose(value, np.sum(gradient**2), rtol=1e-12)
    np.testing.assert_allclose(slope, 2.0 * tg.hessian(f)(x) @ gradient, rtol=1e-11)
