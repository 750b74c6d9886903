"""Every program of the zoo, on both backends: its value, and its gradient in both modes.

Reverse mode is compared with differences of the plain function, run by NumPy in double precision, see numerics.py;
forward mode with reverse mode, to rounding: <weights, jvp(t)> is <gradient, t>.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import optree
import pytest

import tracegrad as tg
from tests.zoo.numerics import float_leaves, replace_leaves, scale, weighted, weights_like
from tests.zoo.registry import Program, parameters
from tests.zoo.selfcheck import disagreement, load_all, slopes_of

PROGRAMS = load_all()
each_program = pytest.mark.parametrize("program", parameters(PROGRAMS))
each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


slopes = cache(slopes_of)


def by_wrt(program: Program) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the program as a function of the arguments to differentiate by, and these."""
    args = program.inputs()

    def of_chosen(*chosen: Any) -> Any:
        full = list(args)
        for position, arg in zip(program.wrt, chosen, strict=True):
            full[position] = arg
        return program.function(*full)

    return of_chosen, tuple(args[i] for i in program.wrt)


def gradient(program: Program, backend: str) -> list[np.ndarray]:
    """Return the gradients of the weighted outputs by tracegrad, flat."""
    outputs = program.function(*program.inputs())
    leaves = float_leaves(outputs)
    if len(leaves) == 1 and leaves[0].ndim == 0 and not isinstance(outputs, dict | list | tuple):
        return float_leaves(tg.grad(program.function, argnums=program.wrt, backend=backend)(*program.inputs()))
    function, primals = by_wrt(program)
    out, pullback = tg.vjp(function, *primals, backend=backend)
    return float_leaves(pullback(replace_leaves(out, weights_like(leaves))))


def in_direction(program: Program, tangents: list[np.ndarray], backend: str) -> np.floating:
    """Return the derivative of the weighted outputs in a direction, by forward mode."""
    function, primals = by_wrt(program)
    direction = optree.tree_map(lambda t: 0 if type(t) is int else t, replace_leaves(primals, list(tangents)))
    _, moved = tg.jvp(function, primals, direction, backend=backend)
    leaves = float_leaves(moved)
    return sum(np.vdot(w, leaf) for w, leaf in zip(weights_like(leaves), leaves, strict=True))


def test_the_zoo_is_large() -> None:
    assert len(PROGRAMS) >= 200
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


@each_program
def test_program_is_smooth_at_its_inputs(program: Program) -> None:
    assert disagreement(program, slopes(program)) < program.rtol


@each_backend
@each_program
def test_value(program: Program, backend: str) -> None:
    expected = program.function(*program.inputs())
    found = tg.function(program.function, backend=backend)(*program.inputs())
    assert type(found) is type(expected) or np.ndim(found) == 0
    rtol = 1e-10 if program.rtol < 1e-5 else 1e-5
    for ours, numpys in zip(float_leaves(found), float_leaves(expected), strict=True):
        assert ours.dtype == numpys.dtype
        np.testing.assert_allclose(ours, numpys, rtol=rtol, atol=rtol * scale([numpys]))


@each_backend
@each_program
def test_gradient(program: Program, backend: str, rng: np.random.Generator) -> None:
    args = program.inputs()
    expected = slopes(program)
    found = gradient(program, backend)
    leaves = float_leaves([args[i] for i in program.wrt])
    assert [leaf.shape for leaf in found] == [leaf.shape for leaf in expected]
    assert [leaf.dtype for leaf in found] == [leaf.dtype for leaf in leaves]
    atol = program.rtol * scale(expected)
    for ours, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=program.rtol, atol=atol)
    tangents = [rng.uniform(0.5, 1.5, leaf.shape).astype(leaf.dtype) for leaf in leaves]
    forward = in_direction(program, tangents, backend)
    reverse = sum(np.vdot(a, b) for a, b in zip(found, tangents, strict=True))
    tolerance = 1e-12 if all(leaf.dtype == np.float64 for leaf in leaves) else 1e-6
    assert abs(forward - reverse) <= tolerance * abs(forward)


def test_weighted_leaves_arguments_untouched() -> None:
    x = np.ones(3)

    def writes(x):
        x[0] = 5.0
        return x.sum()

    assert weighted(writes, (x,)) == 7.0
    assert x[0] == 1.0
