"""Hessians of the programs of the zoo, against differences of the gradient; of what is no scalar, those of a sum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.zoo.numerics import float_leaves, in_float64, replace_leaves, weights_like
from tests.zoo.registry import Program, half_in_c
from tests.zoo.selfcheck import load_all

STEP = 1e-5

#: programs without a second derivative to compare with, and why
EXCLUDED = {
    "solvers.bisect_then_polish": "a bisection ends at a number that has no derivative, but moves: the gradient as run "
    "is not its slope",
    "networks.momentum_training": "the argument to differentiate by holds integers, which tg.hessian refuses (TG201)",
}
PROGRAMS = [program for program in load_all() if program.name not in EXCLUDED]


def flat(value: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([np.ravel(leaf) for leaf in float_leaves(value)])


def parts(value: Any) -> list[Any]:
    """Return the leaves of a result in the order of float_leaves, traced ones too."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in parts(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in parts(item)]
    if dataclasses.is_dataclass(value):
        return [leaf for field in dataclasses.fields(value) for leaf in parts(getattr(value, field.name))]
    return [value]


def as_scalar(program: Program) -> Callable[..., Any]:
    """Return the program if it returns a number, else the function that weighs its results and adds them up."""
    out = program.function(*program.inputs())
    if isinstance(out, float | np.floating):
        return program.function
    weights = weights_like(float_leaves(out))
    assert len(parts(out)) == len(weights), "all results are floats"

    def weighed(*args: Any) -> Any:
        return sum(np.sum(w * leaf) for w, leaf in zip(weights, parts(program.function(*args)), strict=True))

    return weighed


def direction(program: Program) -> np.ndarray[Any, Any]:
    """Return what the Hessian is multiplied by."""
    size = flat([program.inputs()[i] for i in program.wrt]).size
    return np.random.default_rng(3).uniform(0.5, 1.5, size)


@cache
def product_by_differences(program: Program) -> np.ndarray[Any, Any]:
    """Return the Hessian times a vector: the difference of two gradients, by NumPy in double precision."""
    gradient = tg.grad(as_scalar(program), argnums=program.wrt)

    def gradient_at(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        args = list(in_float64(program.inputs()))
        chosen = [args[i] for i in program.wrt]
        leaves = float_leaves(chosen)
        parts = np.split(x, np.cumsum([leaf.size for leaf in leaves])[:-1])
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        for i, value in zip(program.wrt, replace_leaves(chosen, shaped), strict=True):
            args[i] = value
        return flat(gradient(*args))

    point = flat([in_float64(program.inputs())[i] for i in program.wrt])
    vector = direction(program)
    return (gradient_at(point + STEP * vector) - gradient_at(point - STEP * vector)) / (2 * STEP)


@pytest.mark.parametrize(("program", "backend"), half_in_c(PROGRAMS))
def test_hessian(program: Program, backend: str) -> None:
    expected = product_by_differences(program)
    vector = direction(program)
    blocks = tg.hessian(as_scalar(program), argnums=program.wrt, backend=backend)(*program.inputs())
    leaves = float_leaves([program.inputs()[i] for i in program.wrt])
    entries = iter(float_leaves(blocks))
    found = np.concatenate(
        [
            sum(
                next(entries).reshape(row.size, column.size) @ part
                for column, part in zip(leaves, np.split(vector, np.cumsum([c.size for c in leaves])[:-1]), strict=True)
            )
            for row in leaves
        ]
    )
    is_double = all(leaf.dtype == np.float64 for leaf in float_leaves(program.inputs()))
    rtol, atol = (1e-5, 1e-6) if is_double else (1e-4, 1e-5)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol * max(1.0, np.max(np.abs(expected))))
