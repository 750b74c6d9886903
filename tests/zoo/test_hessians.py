"""Hessians of the twice differentiable scalar functions of the zoo, against differences of the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.zoo.numerics import float_leaves, replace_leaves
from tests.zoo.registry import Program, parameters
from tests.zoo.selfcheck import load_all

STEP = 1e-5


def is_twice_differentiable(program: Program) -> bool:
    out = program.function(*program.inputs())
    every = float_leaves([program.inputs()[i] for i in program.wrt])
    # a bisection ends at a number that has no derivative, but moves: the gradient as run is not its slope
    smooth = program.name != "solvers.bisect_then_polish"
    return smooth and isinstance(out, float) and all(leaf.dtype == np.float64 for leaf in every)


PROGRAMS = [program for program in load_all() if is_twice_differentiable(program)]


def flat(value: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([np.ravel(leaf) for leaf in float_leaves(value)])


def test_there_are_many() -> None:
    assert len(PROGRAMS) > 100


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", parameters(PROGRAMS))
def test_hessian(program: Program, backend: str) -> None:
    inputs = program.inputs()
    gradient = tg.grad(program.function, argnums=program.wrt, backend=backend)
    point = flat([inputs[i] for i in program.wrt])

    def gradient_at(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        args = list(program.inputs())
        chosen = [args[i] for i in program.wrt]
        leaves = float_leaves(chosen)
        parts = np.split(x, np.cumsum([leaf.size for leaf in leaves])[:-1])
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        for i, value in zip(program.wrt, replace_leaves(chosen, shaped), strict=True):
            args[i] = value
        return flat(gradient(*args))

    vector = np.random.default_rng(3).uniform(0.5, 1.5, point.size)
    expected = (gradient_at(point + STEP * vector) - gradient_at(point - STEP * vector)) / (2 * STEP)
    blocks = tg.hessian(program.function, argnums=program.wrt, backend=backend)(*program.inputs())
    leaves = float_leaves([inputs[i] for i in program.wrt])
    parts = iter(float_leaves(blocks))
    found = np.concatenate(
        [
            sum(
                next(parts).reshape(row.size, column.size) @ part
                for column, part in zip(leaves, np.split(vector, np.cumsum([c.size for c in leaves])[:-1]), strict=True)
            )
            for row in leaves
        ]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * max(1.0, np.max(np.abs(expected))))
