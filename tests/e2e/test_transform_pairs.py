"""Each transform of each transform of a function with a loop whose residuals are kept, inside a captured function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

X, T = np.array([0.4, 0.9]), np.array([0.7, -0.3])


def walk(x):
    s = x[0]
    for _ in range(10):
        s = s + x[1] * np.sin(s)
        if s > 3:
            break
        if s < 0:
            continue
        s = s * 1.1
    return s


#: arrays to arrays, by a derivative of `walk`
INNER: dict[str, Callable[[Any], Any]] = {
    "grad": lambda x: tg.grad(walk)(x),
    "vjp": lambda x: tg.vjp(walk, x)[1](x[0])[0],
    "linearize": lambda x: x * tg.linearize(walk, x)[1](T),
    "hvp": lambda x: tg.hvp(walk, (x,), (T,))[0],
    "hessian": lambda x: tg.hessian(walk)(x) @ T,
    "vmap": lambda x: tg.vmap(tg.grad(walk))(np.outer(T, x)) @ T,
    "checkpoint": lambda x: tg.grad(tg.checkpoint(walk))(x),
    "grad of grad": lambda x: tg.grad(lambda z: np.sum(tg.grad(walk)(z) ** 2))(x),
}

#: the derivative of `f` along T, summed
OUTER: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: tg.grad(lambda z: np.sum(f(z)))(x) @ T,
    "jvp": lambda f, x: np.sum(tg.jvp(f, (x,), (T,))[1]),
    "linearize": lambda f, x: np.sum(tg.linearize(f, x)[1](T)),
    "vjp": lambda f, x: tg.vjp(f, x)[1](np.ones(2))[0] @ T,
    "jacfwd": lambda f, x: np.sum(tg.jacfwd(f)(x) @ T),
    "jacrev": lambda f, x: np.sum(tg.jacrev(f)(x) @ T),
    "vmap of jvp": lambda f, x: np.sum(tg.vmap(lambda z: tg.jvp(f, (z,), (T,))[1])(x[None])),
    "checkpoint": lambda f, x: np.sum(tg.checkpoint(lambda z: tg.jvp(f, (z,), (T,))[1])(x)),
}


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("inner", INNER)
def test_pairs(inner: str, backend: str) -> None:
    f, step = INNER[inner], 1e-5
    expected = np.sum(f(X + step * T) - f(X - step * T)) / (2 * step)
    for name, outer in OUTER.items():
        found = tg.function(lambda x, outer=outer: outer(f, x), backend=backend)(X)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7, err_msg=f"{name} of {inner}")
        np.testing.assert_allclose(outer(f, X), found, rtol=1e-10, err_msg=f"{name} of {inner}, not captured")
