"""`:=` in tests of loops and in parts of expressions that run under a traced condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_ragged import slopes


def loop_with_a_break(x):
    k, s = 0, 0.0
    while (v := x[k]) < 2.0:
        s = s + v * v
        if s > 3.0:
            break
        k += 1
    return s + v


def loop_with_an_else(x):
    k, s = 0, 0.0
    while (v := x[k]) < 2.0:
        s = s + v * v
        if s > 3.0:
            break
        k += 1
    else:
        s = s * 10
    return s + v


def loop_with_a_return(x):
    s, y = 0.0, 1.0
    while (distance := abs(y * y - abs(x[2]))) > 1e-9:
        y = y - (y * y - abs(x[2])) / (2 * y)
        s += 1
        if s > 3:
            return y * 2
    return y + distance


def after_and(x):
    k, s = 0, 0.0
    while k < len(x) - 1 and (v := x[k]) < 2.0:
        s = s + v * v
        k += 1
    return s


def two_after_and(x):
    k, s = 0, 0.0
    while (v := x[k]) < 2.0 and (w := v * x[k + 1]) < 5.0:
        s = s + v * w
        k += 1
    return s + v


def in_or_in_and(x):
    k, s = 0, 0.0
    while k < 3 and ((v := x[k]) < 2.0 or (w := x[k + 1]) < 0.5):  # noqa: F841, a name that is not read
        s = s + v
        k += 1
        if s > 5:
            break
    return s


def in_an_if(x):
    if np.sum(x) > 0 and (m := np.max(x)) > 1:
        return m * 2
    return np.sum(x)


def in_a_conditional_expression(x):
    t = 2.0
    y = (t := 3.0) * x[1] if x[0] > 0 else t * x[1]
    return y + t * x[2]


def in_several_tests(x):
    s = 0.0
    for k in range(4):
        if x[k] > 0 and (t := x[k + 1]) > 0:
            s += t
        elif x[k] <= 0 or (u := x[k] * 2) > 1:
            s -= x[k]
        else:
            s += u
    return s


def number_kept_on_one_path(x):
    n = 0
    ok = x[0] > 0 and (n := 3) and x[1] > 0
    return np.sum(x) * n if ok else x[0] * n


def in_a_chain_of_comparisons(x):
    s, y = 0.0, x[1]
    while 0 < (d := y * y) < (limit := 9.0 + x[0]):
        s += d * limit
        y = y * 1.7
    return s + d


def in_a_test_with_not(x):
    s = 0.0
    for v in x:
        if not (v > 0 and (r := v * v) > 1):
            continue
        s += r
    return s


PROGRAMS = [
    loop_with_a_break,
    loop_with_an_else,
    loop_with_a_return,
    after_and,
    two_after_and,
    in_or_in_and,
    in_an_if,
    in_a_conditional_expression,
    in_several_tests,
    number_kept_on_one_path,
    in_a_chain_of_comparisons,
    in_a_test_with_not,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradient(f: Callable[[Any], Any], backend: str) -> None:
    traced = tg.value_and_grad(f, backend=backend)
    for x in ([0.6, -1.1, 1.3, 2.5, 0.1], [2.6, 1.1, 1.3, 2.5, 0.1], [-1.6, 1.1, 1.3, -2.5, 4.1]):
        value, gradient = traced(np.array(x))
        np.testing.assert_allclose(value, f(np.array(x)), rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes(f, np.array(x)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_name_that_is_not_bound_on_the_path_taken(backend: str) -> None:
    def f(x):
        both = x[0] > 0 and (m := x * 2)[1] > -100
        return np.sum(m) + both

    traced = tg.function(f, backend=backend)
    assert traced(np.ones(3)) == 7.0
    with pytest.raises(UnboundLocalError, match="'m'"):
        traced(-np.ones(3))
