"""Shapes, counts and list indices that come from integer arrays: the content of the array is known at capture, and
compared at every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.errors import NeedsPythonValue

X = np.array([1.0, 2.0, 3.0, 4.0])
SCALES = [1.0, 10.0, 100.0]
labels = np.array([0, 1, 2, 1])


def groups(x: Any, g: Any) -> Any:
    count = g.max() + 1
    sums = np.zeros(count)
    for i in range(len(x)):
        sums[g[i]] += x[i]
    return np.sum(sums**2) * count


def groups_of_a_global(x: Any) -> Any:
    return groups(x, labels)


def list_index(x: Any, g: Any) -> Any:
    return x[0] * SCALES[g[0] % 3] + SCALES[g[1] % 3]


def in_a_dict(x: Any, d: Any) -> Any:
    total = 0.0
    for k in range(len(d["s"])):
        total = total + x[k] * SCALES[d["s"][k] % 3]
    return total


def count_of_iterations(x: Any, g: Any) -> Any:
    total = 0.0
    for k in range(g[0]):
        total = total + x[0] * SCALES[k]
    return total


def lengths(x: Any, g: Any) -> Any:
    total, place = 0.0, 0
    for n in g:
        total = total + np.sum(x[place : place + n]) ** 2
        place += n
    return total


def values_that_occur(x: Any, g: Any) -> Any:
    total = 0.0
    for value in np.unique(g):
        total = total + x[g == value].sum() ** 2
    return total


def chosen(x: Any, m: Any) -> Any:
    return np.zeros(m.sum()).size * np.prod(x[np.flatnonzero(m)]) + np.compress(m, x)[0]


def dict_key(x: Any, g: Any) -> Any:
    d = {0: x[0], 1: x[1], 2: x[2], 3: x[3]}
    return d[int(g[0])] * d[g[1].item()]


def new_shape(x: Any, g: Any) -> Any:
    return x.reshape(g[0], g[1]).sum(0)[0] ** 2


CASES: list[tuple[Callable[..., Any], list[list[int]]]] = [
    (groups, [[0, 1, 2, 1], [0, 1, 2, 3], [0, 1, 1, 1], [0, 1, 2, 1], [5, 5, 5, 5]]),
    (list_index, [[1, 2], [2, 0], [1, 2]]),
    (count_of_iterations, [[2], [3], [0], [2]]),
    (lengths, [[1, 3], [2, 2], [1, 3]]),
    (values_that_occur, [[1, 3, 3, 1], [2, 2, 1, 0]]),
    (chosen, [[1, 0, 1, 1], [1, 1, 0, 0]]),
    (dict_key, [[1, 2], [3, 0]]),
    (new_shape, [[1, 4], [2, 2], [4, 1]]),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("f", "contents"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_argument(f: Callable[..., Any], contents: list[list[int]], backend: str) -> None:
    compiled, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    for content in contents:
        array = np.array(content, bool if f is chosen else int)
        for _ in range(4):
            np.testing.assert_allclose(compiled(X, array), f(X, array))
        step = np.array([1e-6, 0.0, 0.0, 0.0])
        slope = (f(X + step, array) - f(X - step, array)) / 2e-6
        np.testing.assert_allclose(gradient(X, array)[0], slope, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_instance_per_content(backend: str) -> None:
    compiled = tg.function(groups, backend=backend)
    for _ in range(3):
        for content in ([0, 1, 2, 1], [0, 0, 1, 1]):
            compiled(X, np.array(content))
    assert sum(map(len, compiled._specializations._exact.values())) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_sizes(backend: str) -> None:
    compiled = tg.function(groups, backend=backend)
    for n in (4, 5, 6, 4, 7):
        np.testing.assert_allclose(compiled(np.arange(n) + 1.0, np.arange(n)), groups(np.arange(n) + 1.0, np.arange(n)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_array_from_outside(backend: str) -> None:
    compiled = tg.function(groups_of_a_global, backend=backend)
    labels[:] = [0, 1, 2, 1]
    for last in (1, 4, 0, 1):
        labels[3] = last
        for _ in range(4):
            assert compiled(X) == pytest.approx(groups_of_a_global(X))


@pytest.mark.parametrize("backend", BACKENDS)
def test_array_in_a_dict(backend: str) -> None:
    compiled = tg.function(in_a_dict, backend=backend)
    for content in ([2, 0], [1, 1], [2, 0]):
        for _ in range(4):
            given = {"s": np.array(content)}
            assert compiled(X, given) == pytest.approx(in_a_dict(X, given))


def test_vjp_and_jvp() -> None:
    for content in ([0, 1, 2, 1], [0, 0, 0, 1]):
        g = np.array(content)
        out, pullback = tg.vjp(groups, X, g)
        assert out == pytest.approx(groups(X, g))
        expected = tg.grad(groups)(X, g)
        np.testing.assert_allclose(pullback(1.0)[0], expected)
        t_out = tg.jvp(groups, (X, g), (np.ones(4), None))[1]
        assert t_out == pytest.approx(expected.sum())


def test_floats_and_long_arrays_are_not_known() -> None:
    with pytest.raises(NeedsPythonValue):
        tg.function(lambda x: np.zeros(int(x[0])))(X)
    with pytest.raises(NeedsPythonValue):
        tg.function(lambda x, g: np.zeros(g.max()).size * x)(1.0, np.arange(20_000))


def trimmed(x: Any, share: float = 0.25) -> Any:
    k = int(len(x) * share)
    return np.sort(x)[k : len(x) - k].mean() * share


def padded(x: Any, share: float = 0.25) -> Any:
    return np.sum(np.concatenate([x, np.full(int(share * 8), share)]) ** 2) + x.reshape(round(share * 8), -1)[0, 0]


def chosen_scale(x: Any, share: float = 0.25) -> Any:
    return SCALES[int(share * 8) - 2] * x[0] + share


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [trimmed, padded, chosen_scale])
def test_float_that_decides_a_size(f: Callable[..., Any], backend: str) -> None:
    gradient = tg.value_and_grad(f, backend=backend)
    for share in (0.25, 0.5, 0.25, 0.5, 0.25) if f is not trimmed else (0.25, 0.3, -0.0, 0.0, 0.25):
        for _ in range(3):
            value, slope = gradient(X, share)
            np.testing.assert_allclose(value, f(X, share))
        step = np.array([1e-6, 0.0, 0.0, 0.0])
        np.testing.assert_allclose(slope[0], (f(X + step, share) - f(X - step, share)) / 2e-6, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(gradient(X)[0], f(X))
    np.testing.assert_allclose(gradient(np.arange(8.0))[0], f(np.arange(8.0)))
    assert "share: sizes and indices computed from it are fixed in this code" in gradient.source(X, 0.25)
    assert "share has the same content" in tg.explain(f)(X, 0.25).guards


def test_float_that_decides_a_size_and_the_derivative() -> None:
    assert tg.grad(trimmed, "share")(X, 0.25) == pytest.approx(trimmed(X, 0.25) / 0.25)
    with pytest.raises(NeedsPythonValue, match="an int"):
        tg.grad(padded, "share")(X, 0.25)


@pytest.mark.parametrize("backend", BACKENDS)
def test_floats_that_decide_no_size_are_inputs(backend: str) -> None:
    def steps(x: Any, end: float) -> Any:
        total = x[0] * 0.0
        for k in range(int(end * 10)):
            total = total + x[0] * k if end > 0.4 else total - x[1]
        return total

    gradient = tg.grad(steps, backend=backend)
    for end in (0.2, 0.5, 0.7, 0.3):
        step = np.array([1e-6, 0.0, 0.0, 0.0])
        slope = (steps(X + step, end) - steps(X - step, end)) / 2e-6
        np.testing.assert_allclose(gradient(X, end)[0], slope, rtol=1e-6, atol=1e-9)
    assert sum(map(len, gradient._specializations._exact.values())) == 1
