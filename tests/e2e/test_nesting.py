"""Derivatives within derivatives: combinations of modes, and the descents of GradBench's saddle and particle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])
MODES = ["rr", "ff", "fr", "rf"]
SQUARE = np.array([[1.0, 2.0], [3.0, 5.0]])


def slope(f: Callable[[float], Any], x: float, mode: str) -> Any:
    """Return the derivative of a function of a number."""
    return tg.grad(f)(x) if mode == "r" else tg.jvp(f, (x,), (1.0,))[1]


@each_backend
@pytest.mark.parametrize("modes", list(itertools.product("rf", repeat=2)))
def test_perturbations_stay_apart(modes: tuple[str, str], backend: str) -> None:
    def outer(x: float) -> Any:
        return x * slope(lambda y: x + y, 1.0, modes[1])

    def nested_thrice(x: float) -> Any:
        return x * slope(lambda y: y * slope(lambda z: x * y * z, 2.0, modes[0]), x, modes[1])

    made = tg.function(lambda x: slope(outer, x, modes[0]), backend=backend)
    assert made(3.0) == 1.0
    # x * d/dy (x y^2) at y = x is 2 x^3
    thrice = tg.function(lambda x: slope(nested_thrice, x, modes[1]), backend=backend)
    assert thrice(3.0) == pytest.approx(54.0, rel=1e-14)


def gradient_of(f: Callable[..., Any], mode: str) -> Callable[..., Any]:
    return tg.grad(f) if mode == "r" else tg.jacfwd(f)


def argmin(f: Callable[..., Any], start: Any, mode: str) -> Any:
    """Return where gradient descent with a growing step ends."""
    gradient = gradient_of(f, mode)
    x = start
    fx = f(x)
    g = gradient(x)
    taken = 0
    eta = 1e-5
    while np.sqrt(np.sum(g * g)) > 1e-5:
        if taken == 10:
            eta = 2 * eta
            taken = 0
            continue
        new = x - eta * g
        if np.sqrt(np.sum((x - new) ** 2)) <= 1e-5:
            break
        f_new = f(new)
        if f_new < fx:
            x, fx, g = new, f_new, gradient(new)
            taken += 1
        else:
            eta = eta / 2
            taken = 0
    return x


def saddle(start: Any, modes: str) -> Any:
    def difference(a: Any, b: Any) -> Any:
        return a[0] ** 2 + a[1] ** 2 - (b[0] ** 2 + b[1] ** 2)

    def highest(a: Any) -> Any:
        b = argmin(lambda b: -difference(a, b), start, modes[1])
        return difference(a, b)

    r1 = argmin(highest, start, modes[0])
    r2 = argmin(lambda b: -difference(r1, b), start, modes[0])
    return np.concatenate([r1, r2])


def particle(w: Any, modes: str) -> Any:
    def energy(w: Any) -> Any:
        def potential(z: Any) -> Any:
            first = np.sqrt((z[0] - 10) ** 2 + (z[1] - (10 - w[0])) ** 2)
            second = np.sqrt((z[0] - 10) ** 2 + z[1] ** 2)
            return 1 / first + 1 / second

        force = gradient_of(potential, modes[1])
        z = np.array([0.0, 8.0])
        v = np.array([0.75, 0.0])
        while True:
            a = -force(z)
            z = z + 0.1 * v
            if z[1] <= 0:
                break
            v = v + 0.1 * a
        return (z[0] - z[1] / v[1] * v[0]) ** 2

    return argmin(energy, w, modes[0])


@each_backend
@pytest.mark.parametrize("modes", MODES)
def test_saddle(modes: str, backend: str) -> None:
    made = tg.function(lambda start: saddle(start, modes), backend=backend)
    np.testing.assert_allclose(made(np.ones(2)), np.full(4, 8.246324826140356e-06), rtol=1e-12)


@each_backend
@pytest.mark.parametrize("modes", MODES)
def test_particle(modes: str, backend: str) -> None:
    made = tg.function(lambda w: particle(w, modes), backend=backend)
    np.testing.assert_allclose(made(np.zeros(1)), [0.2071918746486116], rtol=1e-12)


@each_backend
def test_inner_derivatives_at_constants_and_by_swapped_arguments(backend: str) -> None:
    def f(x: Any) -> Any:
        by_y, by_z = tg.grad(lambda z, y: x * np.sum(y * y * z["a"]), argnums=(1, 0))({"a": 4.0}, np.array([2.0, 3.0]))
        curvature = tg.hessian(lambda y: x * y * y * y)(2.0)
        return np.sum(by_y) + by_z["a"] * curvature

    # 40 x + 13 x * 12 x
    assert tg.function(f, backend=backend)(3.0) == pytest.approx(40 * 3 + 156 * 9)
    assert tg.grad(f, backend=backend)(3.0) == pytest.approx(40 + 312 * 3)


LIBRARY_GRADIENTS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "grad of np.sin": (lambda x: tg.grad(np.sin)(x), 0.5, np.cos(0.5)),
    "grad of math.atan2": (lambda x: tg.grad(math.atan2, argnums=(0, 1))(x, 2.0), 1.0, (0.4, -0.2)),
    "grad of np.sum": (lambda x: tg.grad(np.sum)(x), SQUARE, np.ones((2, 2))),
    "grad of np.linalg.det": (lambda x: tg.grad(np.linalg.det)(x), SQUARE, [[5.0, -3.0], [-2.0, 1.0]]),
    "grad of np.linalg.norm": (lambda x: tg.grad(np.linalg.norm)(x), np.array([3.0, 4.0]), [0.6, 0.8]),
    "jacobian of np.sum along an axis": (
        lambda x: tg.jacobian(np.sum)(x, axis=0),
        SQUARE,
        np.broadcast_to(np.eye(2)[:, None], (2, 2, 2)),
    ),
    "hessian of np.exp": (lambda x: tg.hessian(np.exp)(x), 0.5, np.exp(0.5)),
    "grad of grad of np.sin": (lambda x: tg.grad(tg.grad(np.sin))(x), 0.5, -np.sin(0.5)),
    "checkpoint of np.sin": (lambda x: tg.checkpoint(np.sin)(x), 0.5, np.sin(0.5)),
    "vmap of grad of np.sin": (
        lambda x: tg.vmap(tg.grad(np.sin))(x),
        np.array([0.5, 1.0]),
        np.cos([0.5, 1.0]),
    ),
}


@each_backend
@pytest.mark.parametrize("name", LIBRARY_GRADIENTS)
def test_derivatives_of_library_functions_inside(name: str, backend: str) -> None:
    f, x, wanted = LIBRARY_GRADIENTS[name]
    found = tg.function(f, backend=backend)(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
