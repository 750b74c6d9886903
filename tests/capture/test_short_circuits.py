"""The right operand of `and`, `or` and chained comparisons does what it does only where it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement

POINTS = [np.array(p) for p in ([0.3, 0.8, 0.9], [-0.3, 0.8, 0.9], [0.3, -0.8, 0.9], [0.05, 0.01, 0.2])]


class Sum:
    def __init__(self) -> None:
        self.total = 0.0

    def add(self, v: Any) -> Any:
        self.total = self.total + v
        return self.total


def attribute(x: Any) -> Any:
    c = Sum()
    both = x[0] > 0.1 and c.add(x[1]) > 0.2
    return c.total + 10.0 * both


def either(x: Any) -> Any:
    c, r = Sum(), 0.0
    if x[0] > 0.5 or c.add(x[1]) > 0.2:
        r = x[2]
    return c.total + 10.0 * r


def chain(x: Any) -> Any:
    c, r = Sum(), 0.0
    if x[0] < c.add(x[1]) < c.add(x[2]):
        r = x[2]
    return c.total + 10.0 * r


def nonlocal_number(x: Any) -> Any:
    n = 0.0

    def add(v: Any) -> Any:
        nonlocal n
        n += v
        return n

    both = x[0] > 0.1 and add(x[1]) > 0.2 and not add(x[2]) > 1.0
    return n + 10.0 * both


def items(x: Any) -> Any:
    cell, seen, table = [0.0], [0.0], {"last": 0.0}

    def note(v: Any) -> Any:
        cell[0] += v
        seen.append(2.0 * v)
        table["last"] = v * v
        return v > 0.0

    found = 1.0 if x[0] > 0.1 and note(x[1]) else 0.0
    return found + cell[0] + sum(seen) + table["last"]


def loop(x: Any) -> Any:
    c, k = Sum(), 0
    while k < 3 and x[k] > -1.5 and c.add(x[k]) < 1.0:
        k += 1
    return c.total + 10.0 * k


def comprehension(x: Any) -> Any:
    c = Sum()
    kept = [v for v in x if v > 0.1 and c.add(v) > 0.5]
    return c.total + 10.0 * sum(kept)


def checked(x: Any) -> Any:
    c = Sum()
    assert x[0] > -5.0 and c.add(x[1]) > -9.0
    return c.total


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("function", [attribute, either, chain, nonlocal_number, items, loop, comprehension, checked])
def test_effects_of_the_right_operand(function: Any, backend: str) -> None:
    check_agreement(function, backend, *POINTS)


def test_an_operand_without_effects_is_computed_without_condition() -> None:
    def f(x: Any) -> Any:
        return x[1] if x[0] > 0.1 and x[1] < 0.9 else x[2]

    assert "if not (x[0] > 0.1 and result < 0.9):" in tg.function(f).source(POINTS[0])
