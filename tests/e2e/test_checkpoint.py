"""Checkpoints: derivatives as without them, in all modes, from a second run instead of kept values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.testing import check_grads

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])
X = np.array([0.3, -1.0, 2.0])


def step(x, w):
    for _ in range(3):
        x = np.tanh(w * np.sin(x) + x)
    return x


def chain(apply):
    def f(x, w):
        for k in range(5):
            x = apply(x, w * (k + 1.0))
        return np.sum(x**2)

    return f


@each_backend
def test_derivatives_are_those_without(backend: str) -> None:
    plain, checked = chain(step), chain(tg.checkpoint(step))
    np.testing.assert_allclose(tg.function(checked, backend=backend)(X, 0.5), plain(X, 0.5), rtol=1e-14)
    for expected, found in zip(
        tg.grad(plain, argnums=(0, 1))(X, 0.5), tg.grad(checked, argnums=(0, 1), backend=backend)(X, 0.5), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    t_out = tg.jvp(checked, (X, 0.5), (X, 1.0), backend=backend)[1]
    np.testing.assert_allclose(t_out, tg.jvp(plain, (X, 0.5), (X, 1.0))[1], rtol=1e-12)
    np.testing.assert_allclose(tg.hessian(checked, backend=backend)(X, 0.5), tg.hessian(plain)(X, 0.5), rtol=1e-11)


def test_a_loop_keeps_the_arguments_alone() -> None:
    def kept(f):
        """Arrays that fit on the stacks of the gradient."""
        return sum(map(int, re.findall(r"capacity=(\d+)", tg.grad(f).lower(X, 0.5))))

    checked = chain(tg.checkpoint(step))
    text = tg.grad(checked).lower(X, 0.5)
    forward = text[text.index("= for") : text.index("reverse=True")]
    assert forward.count("push") == 1
    assert kept(checked) < kept(chain(step))


def test_straight_line_code_is_run_again() -> None:
    def f(x):
        return np.sum(np.exp(np.sin(x)) ** 2)

    assert tg.grad(f).lower(X).count("= sin") == 1
    text = tg.value_and_grad(tg.checkpoint(f)).lower(X)
    assert text.count("= sin") == 2
    assert "barrier" not in text


@each_backend
def test_nested_and_closed_over_values(backend: str) -> None:
    def f(x, scale):
        @tg.checkpoint
        def inner(y):
            return np.sin(y * scale)

        @tg.checkpoint
        def outer(y):
            return {"value": inner(inner(y)) + x, "count": 2}

        out = outer(x)
        assert out["count"] == 2
        return np.sum(out["value"])

    def plain(x, scale):
        return np.sum(np.sin(np.sin(x * scale) * scale) + x)

    for expected, found in zip(
        tg.grad(plain, argnums=(0, 1))(X, 1.5), tg.grad(f, argnums=(0, 1), backend=backend)(X, 1.5), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_prints_once(capsys: pytest.CaptureFixture[str]) -> None:
    @tg.checkpoint
    def f(x):
        print("x is", x)
        return x * x * x

    assert tg.grad(f)(2.0) == 12.0
    assert capsys.readouterr().out.count("x is") == 1
    assert f(2.0) == 8.0


@each_backend
def test_under_vmap(backend: str) -> None:
    f = tg.checkpoint(lambda x: np.sin(x) * x[0])
    rows = np.stack([X, 2 * X])
    found = tg.grad(lambda rows: np.sum(tg.vmap(f)(rows)), backend=backend)(rows)
    expected = np.cos(rows) * rows[:, :1]
    expected[:, 0] += np.sum(np.sin(rows), axis=1)
    np.testing.assert_allclose(found, expected)


@each_backend
def test_functions_without_a_name_are_told_apart(backend: str) -> None:
    """The key of a kernel in the cache says what the checkpoint inside runs, though neither function has a name."""
    for inner in (np.sin, np.cos):
        f = tg.function(lambda x, inner=inner: np.sum(tg.checkpoint(lambda z: inner(z) * z)(x)), backend=backend)
        np.testing.assert_allclose(f(X), np.sum(inner(X) * X))


@each_backend
def test_recursive_function_without_a_name(backend: str) -> None:
    power = lambda x, n: x if n < 1.5 else x * power(x, n - 1.0)
    np.testing.assert_allclose(tg.function(lambda x, n: power(x, n) + 1.0, backend=backend)(1.5, 4.0), 1.5**4 + 1.0)
    np.testing.assert_allclose(tg.grad(lambda x, n: power(x, n), backend=backend)(1.5, 4.0), 4 * 1.5**3)


def local(x):
    y = x.copy()
    y[0] = 2 * x[1]
    y[1:] += y[0]
    for k in range(3):
        y[k] = y[k] * x[k]
    return np.sin(y)


def scale(state, k):
    y = state["y"]
    y[k] = np.sin(y[k]) * y[(k + 1) % 3]
    return y[k]


def grow(y):
    while np.sum(y) < 30:
        y *= 1.5
        y[0] += y[1]
    return y[2]


def writes_local(x, apply=tg.checkpoint):
    for _ in range(3):
        x = apply(local)(x)
    return np.sum(x)


def writes_an_entry(x, apply=tg.checkpoint):
    state, total = {"y": x * 1.0}, 0.0
    for k in range(3):
        total = total + apply(scale)(state, k)
    return total * state["y"][1]


def writes_a_row(x, apply=tg.checkpoint):
    rows = np.outer(x, x)
    a = apply(grow)(rows[1])
    b = apply(grow)(rows[:, 2])
    return a * rows[1, 0] + b * np.sum(rows**2)


def writes_in_a_branch(x, apply=tg.checkpoint):
    y = x * 1.0
    total = apply(grow)(y) if x[0] > 0 else 0.0
    return total * y[0] + np.sum(y**3)


@each_backend
@pytest.mark.parametrize("f", [writes_local, writes_an_entry, writes_a_row, writes_in_a_branch])
def test_writes_are_seen(f, backend: str) -> None:
    x = np.array([1.0, 2.0, 3.0])

    def plain(x):
        return f(x, lambda g: g)

    assert float(tg.function(f, backend=backend)(x)) == pytest.approx(float(plain(x)), rel=1e-13)
    np.testing.assert_allclose(tg.grad(f, backend=backend)(x), tg.grad(plain)(x), rtol=1e-11)
    np.testing.assert_allclose(tg.hessian(f, backend=backend)(x), tg.hessian(plain)(x), rtol=1e-10)
    t_out, t_expected = (tg.jvp(g, (x,), (X,), backend=backend)[1] for g in (f, plain))
    assert float(t_out) == pytest.approx(float(t_expected), rel=1e-11)


def relaxed(x):
    """A step against a gradient that a loop makes."""

    def inner(y):
        for _ in range(3):
            y = np.sin(y) * y
        return np.sum(y)

    return x - 0.1 * tg.grad(inner)(x)


@pytest.mark.parametrize("wrap", [lambda f: f, tg.checkpoint], ids=["plain", "checkpoint"])
def test_a_nested_gradient_keeps_an_array_on_one_stack_at_a_time(wrap: Any) -> None:
    step = wrap(relaxed)
    text = tg.grad(lambda x: np.sum(step(x) ** 2)).source(X, backend="numpy")
    for body in re.split(r"\n *for ", text):
        pushed = re.findall(r"\.append\((\w+)\)", body)
        assert len(pushed) == len(set(pushed)), body
    assert re.search(r"(ct_y_\w+) = \1_stack\.pop\(\)", text), text


@each_backend
@pytest.mark.parametrize("wrap", [lambda f: f, tg.checkpoint], ids=["plain", "checkpoint"])
def test_derivatives_of_nested_gradients(wrap: Any, backend: str) -> None:
    @wrap
    def step(x):
        def inner(y):
            for k in range(4):
                if y[0] > 0.2:
                    z = y
                    for _ in range(2):
                        z = np.sin(z) * y + 0.1 * k
                    y = z
                else:
                    y = np.exp(-y) * y
            return np.sum(y)

        return x - 0.1 * tg.grad(inner)(x)

    def f(x):
        n = 0
        while n < 2:
            x, n = step(x), n + 1
        return np.sum(x**2)

    x = np.array([0.3, 0.7])
    check_grads(f, x, backends=(backend,))
    check_grads(lambda x: np.sum(tg.grad(f)(x) ** 2), x, backends=(backend,))
