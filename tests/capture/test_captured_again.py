"""Loops that are captured several times begin with what their bodies wrote before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.capture import loop_body
from tracegrad.testing import check_grads


class Sums:
    def __init__(self) -> None:
        self.total = self.other = 0.0

    def add(self, value: Any) -> None:
        self.total = self.total + value


def nested(x: Any) -> Any:
    """Three loops that write an object from outside."""
    sums = Sums()
    for i in range(20):
        for j in range(20):
            for k in range(20):
                sums.add(x[0] * (i + j * k))
    return sums.total


def sometimes(x: Any) -> Any:
    """A loop that writes an attribute in some of its captures only."""
    sums = Sums()
    for i in range(3):
        for is_written in (True, False, True):
            for k in range(30):
                sums.add(x[0] * i)
                if is_written:
                    sums.other = sums.other + k * x[1]
    return sums.total * sums.other


def written_elsewhere(x: Any) -> Any:
    """A loop over an array that another capture of it has written."""
    sums = Sums()
    values = [x.copy(), x * 2.0]
    sums.other = values[0]
    for i in range(3):
        for is_kept in (False, True):
            for k in range(30):
                values[1][k % 2] += x[1] * i
                if not is_kept:
                    sums.other = sums.other + x
            values[1] += sums.other
    return np.sum(values[1] * sums.other)


def new_objects(x: Any) -> Any:
    """A loop that writes another object in each of its captures."""
    both = [Sums(), Sums()]
    for i in range(3):
        for sums in both:
            for k in range(30):
                sums.add(i * x[0] * k)
        both[0].add(both[1].total * x[1])
    return both[0].total * both[1].total


def in_a_handler(x: Any) -> Any:
    """A loop in a helper of a statement that is run again for each exception."""

    def walk(sums: Sums) -> Any:
        for k in range(30):
            sums.add(x[0])
            if sums.total > 5.0:
                raise ValueError(sums.total, k)
        return sums.total * 2.0

    sums, result = Sums(), 0.0
    for _ in range(3):
        try:
            result = result + walk(sums)
        except ValueError as error:
            result = result + error.args[0] * x[1]
            sums.total = 0.0
    return result


@pytest.mark.parametrize("f", [nested, sometimes, written_elsewhere, new_objects, in_a_handler])
def test_values(f: Callable[..., Any]) -> None:
    for x in (np.array([0.3, 0.7]), np.array([0.01, -1.2])):
        check_grads(f, x)
        for backend in ("numpy", "c"):
            np.testing.assert_allclose(tg.function(f, backend=backend)(x), f(x), rtol=1e-12)


def test_inner_loops_are_captured_once_more_for_each_outer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts, run = [], loop_body._try_loop

    def count(*args: Any) -> None:
        attempts.append(args)
        run(*args)

    monkeypatch.setattr(loop_body, "_try_loop", count)
    tg.grad(nested).source(np.array([0.3, 0.7]))
    assert len(attempts) == 19  # three of the outer one, three and two twice, three, two and one of the inner one
