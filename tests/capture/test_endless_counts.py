"""Loops over itertools.count that a traced condition ends: staged as while loops."""

# ruff: noqa: B007, RET503

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.errors import NeedsPythonValue


def until_it_is_small(a: Any) -> Any:
    x = 1.0
    for k in itertools.count():
        if x < 1e-3:
            break
        x = x * a
    return x * k


def until_it_returns(a: Any) -> Any:
    total = 0.0
    for k in itertools.count(3, -1):
        if k == 2:
            continue
        term = a ** (3 - k) * (k + 4)
        total += term
        if abs(term) < 1e-8:
            return total * k


def settled_in_the_first_iteration(a: Any) -> Any:
    previous, x = None, a
    for k in itertools.count(1):
        new = 0.5 * (x + 2 / x)
        if previous is not None and abs(new - previous) < 1e-12:
            break
        previous = x = new
    else:
        x = 0.0
    return x * k * a


def endless_in_a_loop(a: Any) -> Any:
    total = 0.0
    for i in range(3):
        x = 1.0 + i
        for k in itertools.count(i):
            if x < 1e-2:
                break
            x = x * a
        total += x * k
    return total


def known_end(a: Any) -> Any:
    numbers = itertools.count(2)
    for k in numbers:
        if k > 5:
            break
    return a * k * next(numbers)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f",
    [until_it_is_small, until_it_returns, settled_in_the_first_iteration, endless_in_a_loop, known_end],
    ids=lambda f: f.__name__,
)
def test_endless_count(f: Callable[[Any], Any], backend: str) -> None:
    value, slope = tg.value_and_grad(f, backend=backend)(0.55)
    assert value == pytest.approx(f(0.55), rel=1e-12)
    assert slope == pytest.approx((f(0.55 + 1e-6) - f(0.55 - 1e-6)) / 2e-6, rel=1e-5)


def test_a_count_that_a_traced_end_has_left_is_used_up() -> None:
    def count_on(a: Any, use: Callable[[Any], Any]) -> Any:
        numbers = itertools.count()
        for _ in numbers:
            a = a * 0.5
            if a < 1e-3:
                break
        return a * use(numbers)

    for use in (next, lambda numbers: next(zip(numbers, [1], strict=False))[0]):
        with pytest.raises(NeedsPythonValue, match="of which a loop has taken some"):
            tg.grad(count_on)(0.5, use)
