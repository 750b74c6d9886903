"""check_grads accepts right gradients and finds wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError
from tracegrad.testing import check_grads

X = np.array([0.3, -0.7, 1.1])


def network(params: dict[str, Any], x: Any, mask: Any) -> Any:
    h = np.tanh(x @ params["w"] + params["b"])
    return {"h": np.where(mask, h, 0.0), "norm": np.sqrt(np.sum(h**2)), "count": mask.sum()}


def added_to(c: Any, y: Any) -> Any:
    total = 0.0
    for k in range(len(y)):
        prediction = c
        prediction += 0.5 * y[k]
        total = total + prediction**2
    return total


def test_right_gradients() -> None:
    check_grads(lambda x: np.sum(np.sin(x) ** 2), X)
    params = {"w": np.ones((3, 2)) / 3, "b": np.array([0.1, 0.2])}
    check_grads(network, params, X, np.array([True, False]))
    check_grads(lambda x, *, k: np.sum(x**k), abs(X), k=2.5)
    check_grads(lambda x, n: np.prod(x) * n, X, 3)


def test_single_precision() -> None:
    check_grads(lambda x: np.sum(np.exp(x)), X.astype(np.float32))


def test_complex_argument() -> None:
    check_grads(lambda z: np.sum(np.abs(z) ** 2), X + 1j * X[::-1], backends=("numpy",))


def test_arguments_stay_as_they_are() -> None:
    def doubles(x: Any) -> Any:
        x *= 2.0
        return np.sum(x**2)

    x = X.copy()
    check_grads(doubles, x)
    np.testing.assert_array_equal(x, X)


def test_array_without_dimensions_that_is_added_to() -> None:
    check_grads(added_to, np.array(0.3), X)


def test_zero_gradients() -> None:
    check_grads(lambda x: np.sum(0.0 * x) + 1.0, X)


def test_kink_far_enough_away() -> None:
    check_grads(lambda x: np.sum(np.maximum(x, 0.0)), np.array([1e-3, -1e-3, 2.0]))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_wrong_gradient(backend: str) -> None:
    def slightly_wrong(x: Any) -> Any:
        return np.sum(np.sin(x)) + 1e-4 * np.sum(x * tg.stop_gradient(x))

    with pytest.raises(AssertionError, match=f"backend {backend}: the slope along a random direction of x is"):
        check_grads(slightly_wrong, X, backends=(backend,))


def test_jump() -> None:
    with pytest.raises(AssertionError, match="do not settle"):
        check_grads(lambda x: np.sum(np.floor(x)) + np.sum(x), np.array([1.0, 2.0]), backends=("numpy",))


def test_chosen_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x * y * tg.stop_gradient(y))

    check_grads(f, X, X + 1, argnums=("x",))
    with pytest.raises(AssertionError, match="direction of y"):
        check_grads(f, X, X + 1, argnums=(1,))


def test_not_finite() -> None:
    with pytest.raises(ArgumentError, match="not finite"):
        check_grads(lambda x: np.sum(np.log(x)), X, backends=("numpy",))


BATCHED = {
    "function": lambda f: tg.vmap(f),
    "gradient": lambda f: tg.vmap(tg.grad(f)),
    "compiled": lambda f: tg.vmap(tg.function(f)),
    "decorated": lambda f: tg.function(tg.vmap(f)),
}


@pytest.mark.parametrize("kind", BATCHED)
def test_batched_functions(kind: str) -> None:
    check_grads(BATCHED[kind](lambda x: np.sum(np.sin(x) * x)), np.linspace(0.1, 1.0, 6).reshape(2, 3))


@pytest.mark.parametrize("container", [tuple, list])
def test_arguments_in_one_tuple(container: Any) -> None:
    with pytest.raises(TypeError, match=r"missing a required argument: 'y' \[TG213\]\n.*\n.*check_grads\(f, \*args\)"):
        check_grads(lambda x, y: np.sum(x * y), container((np.ones(2), np.ones(2))))
    with pytest.raises(TypeError, match=r"missing a required argument: 'y'$"):
        check_grads(lambda x, y: np.sum(x * y), np.ones(2))
