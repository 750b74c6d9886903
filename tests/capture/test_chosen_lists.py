"""Lists from which a traced condition chooses the one that is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = (
    np.array([1.1, -2.2, 3.2, 0.5, -0.7]),
    np.array([-1.1, -2.2, -3.2, 0.5, -0.7]),
    np.array([1.3, 2.1, 3.1, 0.5, 0.7]),
)


def conditional_expression(x: Any) -> Any:
    a, b = [0.1], [0.2]
    for v in x:
        (a if v > 0 else b).append(v)
    return sum(a) - 2 * sum(v * v for v in b)


def without_a_loop(x: Any) -> Any:
    gains, losses = [], []
    for v in (x[0], x[1], x[2]):
        (gains if v > 0 else losses).append(v)
    return sum(gains) - 2 * sum(losses)


def key_of_a_dict(x: Any) -> Any:
    groups: dict[str, list[Any]] = {"gain": [], "loss": [x[0]]}
    for i, v in enumerate(x):
        if abs(v) > 0.6:
            groups["gain" if v > 0 else "loss"].append(v * i)
    mean = np.mean(groups["gain"]) if groups["gain"] else x[1]
    return mean - 2 * sum(v * v for v in groups["loss"]) + len(groups["gain"])


def name(x: Any) -> Any:
    a, b = [], []
    for v in x:
        target = a if v > 0 else b
        target.append(v * v)
        target.extend([v, 1.0])
    return np.sum(np.array(a)) + 3 * np.sum(np.array(b)) + len(a)


def name_in_branches(x: Any) -> Any:
    a: list[Any] = []
    b: list[Any] = []
    for v in x:
        if v > 0:
            target = a
        else:
            target = b
        target.append(v)
        if len(target) > 1:
            target.append(target[0] * target[-1])
    return sum(a) - 2 * sum(b)


def one_of_three(x: Any) -> Any:
    low, middle, high = [], [], []
    for v in x:
        (low if v < -1 else middle if v < 1 else high).append((v, v * v))
    return sum(v for v, _ in low) + 2 * sum(w for _, w in middle) + 3 * sum(v * w for v, w in high)


def number_of_a_bin(x: Any) -> Any:
    bins: list[list[Any]] = [[] for _ in range(3)]
    for v in x:
        bins[min(int(abs(v)), 2)].append(v * v)
    return sum(sum(found) * (k + 1) for k, found in enumerate(bins))


def reads_of_the_choice(x: Any) -> Any:
    a, b = [x[0], x[1], x[2]], [x[3], x[4], 2.0]
    t = a if x[0] > 0 else b
    t[0] += 1.0
    p, q, r = t
    total = sum(v * v for v in t) + p * q + r + (t[1:] + [1.0])[-2] + len(t)
    for k, v in enumerate(t):
        total += k * v
    for v in t:
        total += v**3
    return total + max(*t) * a[0] + b[0] + (1.0 if t else 0.0) + (2.0 if t is a else 0.0)


def made_in_a_branch(x: Any) -> Any:
    if x[0] > 0:
        a, b = [x[0], x[1]], [x[2], x[3]]
        t = a if x[2] > 0 else b
    else:
        t = [x[4], 1.0]
    return t[0] * t[1]


def rows_of_choices(x: Any) -> Any:
    a, b = [x[0], 0.8], [0.5, x[1]]
    chosen = a if x[0] > 0 else b
    rows = []
    for v in x:
        rows.append(a if v > 0 else b)
    return np.sum(np.array([chosen, chosen]) * x[2]) + np.sum(np.array(rows)[:, 0] * x)


def chosen_or_new(x: Any) -> Any:
    a, b = [x[0], 0.8], [0.5, x[1]]
    t = a if x[0] > 0 else b
    u = t if x[2] > 0 else [x[2], x[3]]
    u[0] += x[4]
    return u[0] * u[1] + 2 * a[0] + 3 * b[0]


def made_in_a_branch_and_written_later(x: Any) -> Any:
    a, b, t = [1.0], [2.0], [3.0]
    if x[0] > 0:
        a, b = [x[0], x[1]], [x[2], x[3]]
        t = a if x[2] > 0 else b
    else:
        a, b, t = [x[1], x[0]], [x[3], x[2]], [x[4], 1.0]
    t[0] += x[3]
    return t[0] * t[1] + 2 * a[0] + 3 * b[0]


class Pair:
    def __init__(self, u: Any, v: Any) -> None:
        self.u, self.v = u, v


def objects_made_in_a_branch_and_written_later(x: Any) -> Any:
    if x[0] > 0:
        a, b = Pair(x[0], x[1]), Pair(x[2], x[3])
        t = a if x[2] > 0 else b
    else:
        a, b, t = Pair(x[1], x[0]), Pair(x[3], x[2]), Pair(x[4], 1.0)
    t.u += x[3]
    return t.u * t.v + 2 * a.u + 3 * b.u


def originals_are_changed(x: Any) -> Any:
    a, b = [x[0]], [x[1]]
    t = a if x[0] > 0 else b
    a.append(x[2])
    t.append(x[3])
    b.append(t[1])
    return t[-1] * t[1] + len(t) + sum(b)


def method_read_before(x: Any) -> Any:
    found = []
    push = found.append
    for v in x:
        if v > 0:
            push(v)
    last = []
    push = last.append
    if x[0] > 0:
        push(x[0])
    if x[2] > 0:
        push(x[2])
    return sum(found) + 2 * sum(last)


PROGRAMS: list[Callable[[Any], Any]] = [
    conditional_expression,
    without_a_loop,
    key_of_a_dict,
    name,
    name_in_branches,
    one_of_three,
    number_of_a_bin,
    reads_of_the_choice,
    made_in_a_branch,
    rows_of_choices,
    chosen_or_new,
    made_in_a_branch_and_written_later,
    objects_made_in_a_branch_and_written_later,
    originals_are_changed,
    method_read_before,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_chosen_list_is_changed(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)
