"""`:=` in comprehensions whose tests are traced: the names are those of the function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.capture.agreement import POINTS, Programs, check_agreement
from tracegrad.config import BACKENDS

program = Programs()


@program
def in_a_test(x: Any) -> Any:
    return sum([y for v in x if (y := math.sin(v)) > 0])


@program
def first_hit(x: Any) -> Any:
    if any((hit := v) > 1 for v in x):
        return hit * 2
    return x[0]


@program
def last_one(x: Any) -> Any:
    L = [(last := (v * 2)) for v in x if v > 0]
    return last + sum(L) if L else x[0]


@program
def running_sum(x: Any) -> Any:
    t = 0.0
    cum = [(t := (t + v)) for v in x]
    return cum[-1] * 2 + t


@program
def running_sum_of_some(x: Any) -> Any:
    t = 1.0
    cum = [(t := (t * 0.5 + v)) for v in x if v > 0]
    return sum(cum) + t


@program
def greatest_running_sum(x: Any) -> Any:
    t = 0.0
    return max((t := (t + v)) for v in x)


@program
def in_a_sum(x: Any) -> Any:
    return sum(y * y for v in x if (y := (v - 1)) > 0)


@program
def first_miss(x: Any) -> Any:
    if all((bad := v) > 0 for v in x):
        return x[0]
    return bad


@program
def in_a_dict(x: Any) -> Any:
    d = {i: y for i, v in enumerate(x) if (y := (v * 2)) > 0}
    return sum(d.values())


@program
def next_one(x: Any) -> Any:
    return next((y for v in x if (y := (v * v)) > 2), 0.0)


@program
def for_its_name(x: Any) -> Any:
    best = 0.0
    [(best := max(best, v)) for v in x if v > 0.4]
    return best


@program
def in_a_loop(x: Any) -> Any:
    s = 0.0
    for k in range(3):
        s += sum([y for v in x if (y := (v * k - 1)) > 0])
    return s


@program
def two_names(x: Any) -> Any:
    if any((c := v) > 2 and (d := (v * 2)) > 1 for v in x):
        return c + d
    return x[1]


@program
def counted(x: Any) -> Any:
    n = 0
    L = [v for v in x if v > 0 and (n := (n + 1)) <= 2]
    return sum(L) + n * x[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("run", program, ids=lambda run: run.__name__)
def test_programs(run: Callable[[Any], Any], backend: str) -> None:
    check_agreement(run, backend, *POINTS)
