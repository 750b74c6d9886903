"""Iterators that a statement in the body of a `try` makes, and takes items from, before something in it may fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.errors import CaptureError

POINTS = [np.array(x) for x in ([1.0, 2.0, -3.25], [1.0, 2.0, 3.0], [-2.0, 0.5, 0.25], [-1.0, -2.0, 4.0])]


def positive(value: Any) -> Any:
    if value < 0:
        raise ArithmeticError("negative")
    return value


def counted(c: Any) -> Any:
    total = 0.0
    for k, a in enumerate(c):
        total += k * a
    return positive(total)


def comprehension(c: Any) -> Any:
    return positive([2.0 * a for k, a in enumerate(c) if k][-1])


def pairs(c: Any) -> Any:
    total = 0.0
    for a, b in zip(c, c[::-1], strict=True):
        total += a * b
    return positive(total)


def generated(c: Any) -> Any:
    return positive(sum(a * k for k, a in enumerate(c)))


def in_chunks(c: Any) -> Any:
    items, total = iter(c), 0.0
    first = next(items)
    for k, (a, b) in enumerate(zip(items, itertools.count(2), strict=False)):
        total += a * b + k * first
    return positive(total)


def chained(c: Any) -> Any:
    total = 0.0
    for k, a in enumerate(itertools.chain(c, reversed(c))):
        total = 0.5 * total + k * a
    return positive(total)


def of_a_generator(c: Any) -> Any:
    def scaled() -> Any:
        for k, a in enumerate(c):
            yield k * a

    total = 0.0
    for k, a in enumerate(scaled()):
        total += a / (k + 1)
    return positive(total)


def products(c: Any) -> Any:
    total = 0.0
    for a, b in itertools.product(c, repeat=2):
        total += a * b * b
    return positive(total)


@pytest.mark.parametrize(
    "helper",
    [counted, comprehension, pairs, generated, in_chunks, chained, of_a_generator, products],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_the_statement_makes_is_made_again(helper: Callable[[Any], Any], backend: str) -> None:
    def program(x: Any) -> Any:
        values = [x[0], x[1], x[2] * x[0]]
        try:
            result = helper(values)
        except ArithmeticError:
            return sum(values)
        return result * values[0]

    check_agreement(program, backend, *POINTS)


def test_one_from_before_is_not_taken_from_twice() -> None:
    def counts_what_is_left(x: Any) -> Any:
        items = iter([x[0], x[1], x[2]])
        try:
            result = counted(items)
        except ArithmeticError:
            return sum(items)
        return result

    def pairs_what_is_left(x: Any) -> Any:
        items, values = iter([x[0], x[1], x[2]]), [x[0], x[1]]

        def paired() -> Any:
            return positive(sum(a * b for a, b in zip(values, items, strict=False)))

        try:
            result = paired()
        except ArithmeticError:
            return sum(items)
        return result

    for program in (counts_what_is_left, pairs_what_is_left):
        with pytest.raises(CaptureError, match="TG137"):
            tg.function(program)(POINTS[0])
