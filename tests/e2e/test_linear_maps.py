"""Pullbacks and pushes that are taken outside of a transform, and mapped, differentiated or compiled afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])

SCALE = np.array([1.0, 2.0])


def model(x: Any, p: dict[str, Any]) -> Any:
    return {"a": np.tanh(x) * p["w"] * SCALE, "b": np.sum(x**2)}


X, P = np.array([0.3, -0.7]), {"w": np.array([2.0, 0.5])}


def cotangent(c: Any) -> dict[str, Any]:
    return {"a": c, "b": c[0]}


USES: dict[str, Callable[[Any, str], Any]] = {
    "vmap": lambda pull, backend: tg.vmap(lambda c: pull(cotangent(c))[0], backend=backend)(np.eye(2)),
    "jacobian": lambda pull, backend: tg.jacobian(lambda c: pull(cotangent(c))[0], backend=backend)(np.ones(2)).T,
    "jvp": lambda pull, backend: np.array(
        [tg.jvp(lambda c: pull(cotangent(c))[0], (np.ones(2),), (e,), backend=backend)[1] for e in np.eye(2)]
    ),
    "function": lambda pull, backend: np.array(
        [tg.function(lambda c: pull(cotangent(c))[0], backend=backend)(e) for e in np.eye(2)]
    ),
}


@each_backend
@pytest.mark.parametrize("name", USES)
def test_a_pullback_from_outside_is_used_inside(name: str, backend: str) -> None:
    x = X.copy()
    _, pull = tg.vjp(model, x, P, backend=backend)
    x[:] = 99.0
    expected = np.array([pull(cotangent(e))[0] for e in np.eye(2)])
    np.testing.assert_allclose(USES[name](pull, backend), expected, rtol=1e-12)


@each_backend
def test_a_pullback_is_mapped_and_compiled_by_itself(backend: str) -> None:
    _, pull = tg.vjp(np.sin, X, backend=backend)
    np.testing.assert_allclose(tg.vmap(pull, backend=backend)(np.eye(2))[0], np.diag(np.cos(X)))
    np.testing.assert_allclose(tg.jacobian(pull, backend=backend)(np.ones(2))[0], np.diag(np.cos(X)))
    np.testing.assert_allclose(tg.function(pull, backend=backend)(np.ones(2))[0], np.cos(X))


@each_backend
def test_a_push_from_outside_is_used_inside(backend: str) -> None:
    x = X.copy()
    _, push = tg.linearize(lambda x: np.tanh(x) * SCALE, x, backend=backend)
    x[:] = 99.0
    found = tg.vmap(push, backend=backend)(np.eye(2))
    np.testing.assert_allclose(found, np.diag(SCALE / np.cosh(X) ** 2))


def test_a_pullback_with_aux_and_prints_used_inside_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    calls = [0]

    def f(x: Any) -> Any:
        print("sum", np.sum(x))
        calls[0] += 1
        return np.sum(x**3), x * 2

    _, pull, aux = tg.vjp(f, X, has_aux=True, backend="numpy")
    np.testing.assert_allclose(aux, X * 2)
    np.testing.assert_allclose(tg.vmap(pull, backend="numpy")(np.array([1.0, 2.0]))[0], [3 * X**2, 6 * X**2])
    assert capfd.readouterr().out.count("sum") == 1
    assert calls == [1]
