"""Lists that several loops append to: values and gradients against the plain function, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg


def nested(x: Any) -> Any:
    w = []
    for i in range(2):
        for j in range(3):
            w.append(x * (10 * i + j))
    return sum(w)


def one_after_the_other(x: Any) -> Any:
    w = []
    for j in range(3):
        w.append(x * j)
    for j in range(3):
        w.append(x * (10 + j))
    return np.sum(np.array(w) ** 2)


def triangular(x: Any) -> Any:
    w = []
    for i in range(3):
        for j in range(i, 3):
            w.append((x * i + x * x * j) / 2)
    return np.median(w)


def outer_and_inner(x: Any) -> Any:
    w = []
    for i in range(3):
        w.append(x)
        for j in range(2):
            w.append(x * (i + j))
    return sum(v**2 for v in w)


def integers_then_floats(x: Any) -> Any:
    w = []
    for j in range(3):
        w.append(j)
    for j in range(3):
        w.append(x * j + 0.5)
    return np.sum(np.array(w) ** 2)


def recursion_over_epochs(x: Any) -> Any:
    s = [x]
    for _ in range(2):
        for v in np.array([1.0, 2.0, 3.0]):
            s.append(0.9 * s[-1] + v * x)
    return s[-1] ** 2 + len(s) + np.mean(s)


def inside_while(x: Any) -> Any:
    w = []
    k = 0
    while k < 4:
        w.append(x * k)
        for j in range(k):
            w.append(x + j)
        k += 1
    return sum(w)


def fill(w: Any, n: Any, x: Any) -> None:
    for i in range(n):
        w.append(x * i)


def filled_by_a_helper(x: Any) -> Any:
    w = []
    for n in (2, 3, 4):
        fill(w, n, x)
    return np.sum(np.array(w) ** 2)


def lists_in_a_dict(x: Any) -> Any:
    d = {"a": [], "b": []}
    for i in range(3):
        d["a"].append(x * i)
        for j in range(2):
            d["b"].append(x * x * j + i)
    return sum(d["a"]) + np.sum(np.array(d["b"]) * np.arange(6))


def last_item_and_length(x: Any) -> Any:
    w = []
    for i in range(3):
        for j in range(2):
            w.append(x * (10 * i + j))
    return w[-1] + x * len(w)


def other_shapes_after_loops(x: Any) -> Any:
    w = []
    for i in range(3):
        w.append(x * i)
    w.append(x * x)
    for i in range(3):
        w.append(x * i)
    w.append(np.ones(2) * x)
    return sum(np.sum(v) for v in w)


def three_levels(x: Any) -> Any:
    w = []
    for i in range(4):
        for j in range(3):
            for k in range(2):
                w.append(x * (100 * i + 10 * j + k))
            w.append(x * x)
        w.append(1.0)
    return np.sum(np.array(w) * np.arange(len(w)))


def rows(x: Any) -> Any:
    rows = []
    for i in range(3):
        row = []
        for j in range(4):
            row.append(x * (i + j))
        rows.append(row)
    return np.sum(np.array(rows) ** 2)


def loop_over_its_copy(x: Any) -> Any:
    q = [x]
    for i in range(3):
        q.append(x * i)
    for v in list(q):
        q.append(v * x)
    return sum(q)


def conditional(x: Any) -> Any:
    w = []
    for i in range(5):
        if i % 2 == 0:
            w.append(x * i)
        for j in range(2):
            w.append(x + j)
    return np.sum(np.array(w) ** 2)


def two_passes(x: Any) -> Any:
    w = []
    for v in x:
        w.append(v * v)
    for v in x:
        for u in x:
            w.append(u * v)
    return np.sum(np.array(w) ** 2) + w[-1]


PROGRAMS = [
    nested,
    one_after_the_other,
    triangular,
    outer_and_inner,
    integers_then_floats,
    recursion_over_epochs,
    inside_while,
    filled_by_a_helper,
    lists_in_a_dict,
    last_item_and_length,
    other_shapes_after_loops,
    three_levels,
    rows,
    loop_over_its_copy,
    conditional,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_scalar_programs(f: Callable[[Any], Any], backend: str) -> None:
    value, slope = tg.value_and_grad(f, backend=backend)(1.3)
    assert value == pytest.approx(f(1.3), rel=1e-12)
    assert slope == pytest.approx((f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6, rel=1e-7)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_sizes(backend: str) -> None:
    made = tg.value_and_grad(two_passes, backend=backend)
    for n in (3, 5, 7):
        x = np.linspace(0.5, 1.5, n)
        value, gradient = made(x)
        assert value == pytest.approx(two_passes(x), rel=1e-12)
        steps = 1e-6 * np.eye(n)
        expected = [(two_passes(x + s) - two_passes(x - s)) / 2e-6 for s in steps]
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)
