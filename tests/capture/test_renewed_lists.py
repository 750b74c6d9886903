"""Lists that are sorted or reversed in staged code, and lists whose name gets a new one there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement
from tracegrad.capture.convert import dump_converted
from tracegrad.config import BACKENDS

POINTS = (
    np.array([3.021, 1.033, 2.074, 0.572, 2.513, 0.231]),
    np.array([0.415, 2.622, 1.717, 3.318, 0.123, 1.219]),
    np.array([1.128, 0.214, 2.916, 0.957, 3.411, 2.226]),
    np.array([0.913, 0.219, 0.327, 0.158, 0.434, 0.056]),
)


def height(v: Any, x: Any) -> Any:
    return (v[0] - x[0]) ** 2 + 2 * (v[1] + x[1]) ** 2 + v[0] * v[1] * 0.3


def sorted_after_a_choice(x: Any) -> Any:
    s = sorted(x)
    if s[0] > 0.1:
        s = [v * 2 for v in s]
    s.sort(reverse=True)
    return s[0] + 2 * s[1]


def simplex(x: Any) -> Any:
    s = [np.array([0.0, 0.0]), np.array([1.0, 0.1]), np.array([0.2, 1.3])]
    for _ in range(12):
        s.sort(key=lambda p: height(p, x))
        c = (s[0] + s[1]) / 2
        r = 2 * c - s[2]
        if height(r, x) < height(s[1], x):
            s[2] = r
        else:
            k = 0.5 * (c + s[2])
            if height(k, x) < height(s[2], x):
                s[2] = k
            else:
                s = [s[0]] + [s[0] + 0.5 * (p - s[0]) for p in s[1:]]
    return s[0] @ np.array([1.0, 2.0]) + height(s[1], x)


def simplex_until_it_is_small(x: Any) -> Any:
    s = [(height(p, x), p) for p in (np.array([0.0, 0.0]), np.array([1.0, 0.1]), np.array([0.2, 1.3]))]
    steps = 0
    while steps < 15 and (steps < 2 or abs(s[2][0] - s[0][0]) > 1e-2):
        steps += 1
        s.sort(key=lambda t: t[0])
        c = (s[0][1] + s[1][1]) / 2
        r = 2 * c - s[2][1]
        if height(r, x) < s[1][0]:
            s[2] = (height(r, x), r)
        else:
            b = s[0][1]
            s = [s[0]] + [(height(b + 0.5 * (p - b), x), b + 0.5 * (p - b)) for _, p in s[1:]]
    return s[0][0] + s[0][1][0] + steps


def numbers(x: Any) -> Any:
    s = [x[0], x[1], x[2]]
    t = 0.0
    for i in range(40):
        s.sort()
        t += s[1] * i
        if s[0] > 0.3:
            s = [v * 0.7 - x[i % 6] * 0.01 for v in s]
        elif s[2] < 1.0:
            s[0] = s[0] + 1.1
        else:
            s.reverse()
            s[1] *= 1.1
    return t + s[0]


def another_name(x: Any) -> Any:
    s = [x[0], x[1], x[2]]
    u = s
    for i in range(10):
        s.sort()
        if s[0] > 0.3:
            s = [v * 0.7 - x[i % 6] * 0.01 for v in s]
        else:
            s[0] = s[0] + 1.1
    return s[0] + 2 * u[0] + 3 * u[1]


def another_name_in_a_branch(x: Any) -> Any:
    s = [x[0], x[1], x[2]]
    u = []
    if x[3] > 0.4:
        s = [v * 2 for v in s]
    else:
        u = s
    s.sort()
    s[0] = s[0] * 3
    return s[0] + (u[0] * 7 if u else 0.0) + s[2]


def one_of_two(x: Any) -> Any:
    a, b = [x[0], x[1], x[2]], [x[3], x[4], x[5]]
    t = a if x[0] > x[4] else b
    t.sort(reverse=True)
    if x[2] > 2:
        t.reverse()
    return a[0] + 2 * a[1] + 3 * a[2] + 5 * b[0] + 7 * b[1] + 11 * b[2]


def in_a_while_loop(x: Any) -> Any:
    a = [x[0], x[1], x[2]]
    t, k = 0.0, 0
    while k < 30 and t < 40:
        if x[k % 6] > 1:
            a.sort()
        elif x[k % 6] > 0.4:
            a.sort(key=lambda v: -v)
        else:
            a.reverse()
        t += a[0] + 0.5 * a[1]
        a[1] = a[1] * 0.9 + x[k % 6] * 0.2
        k += 1
    return t


def other_lengths(x: Any) -> Any:
    s = [x[0], x[1], x[2]]
    for _ in range(5):
        if s[0] > 1:
            s = [v * 0.5 for v in s]
        if s[1] > 1.0:
            s = [s[2], s[0], s[1]]
        s[0] = s[0] + s[2] * 0.3
        s.append(x[3])
        s = [v * 0.5 for v in s]
        s = [s[0] * s[3], *s[1:3]]
        s[1] *= 2
    return s[0] + 2 * s[1] + 3 * s[2]


def made_in_the_loop(x: Any) -> Any:
    t = 0.0
    for i in range(6):
        if x[i] > 1:
            s = [x[i], x[0], x[1]]
            s.sort()
            s = [v + 1 for v in s]
            s[0] = s[0] * 2
            t += s[0] * s[1]
    return t


def renewed_in_each_iteration(x: Any) -> Any:
    s = [x[0], x[1], x[2]]
    k = 0
    while k < 9 and s[0] < 50.0:
        k += 1
        if x[k % 6] > 0.7:
            s[1] = x[0] * 0.3
        s = [v * 0.9 + x[3] for v in s]
    return s[0] + 2 * s[1]


PROGRAMS = [
    sorted_after_a_choice,
    simplex,
    simplex_until_it_is_small,
    numbers,
    another_name,
    another_name_in_a_branch,
    one_of_two,
    in_a_while_loop,
    other_lengths,
    made_in_the_loop,
    renewed_in_each_iteration,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_renewed_lists(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_only_lists_without_another_name_are_renewed() -> None:
    assert "renew" in dump_converted(simplex)
    assert "renew" not in dump_converted(another_name)
    assert "renew" not in dump_converted(another_name_in_a_branch)


def window_bound_anew(x: Any) -> Any:
    w = [x[0]]
    for _ in range(200):
        w.append(np.cos(w[-1]))
        if len(w) == 3:
            w = [w[0] - (w[1] - w[0]) ** 2 / (w[2] - 2 * w[1] + w[0] - 1.0)]
            if abs(np.cos(w[0]) - w[0]) < 1e-3:
                return w[0] * x[1]
    return w[-1]


def window_begun_again(x: Any) -> Any:
    w = [x[0]]
    for _ in range(200):
        w.append(np.cos(w[-1]))
        if len(w) == 3:
            v = w[0] - (w[1] - w[0]) ** 2 / (w[2] - 2 * w[1] + w[0] - 1.0)
            w.clear()
            w.append(v)
            if abs(np.cos(v) - v) < 1e-3:
                return v * x[1]
    return w[-1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [window_bound_anew, window_begun_again])
def test_windows(program: Any, backend: str) -> None:
    check_agreement(program, backend, *POINTS)
