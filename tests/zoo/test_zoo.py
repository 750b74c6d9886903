"""Every program of the zoo, on both backends: its gradient in both modes, and the value that comes with it.

Reverse mode is compared with differences of the plain function, run by NumPy in double precision, see numerics.py;
forward mode with reverse mode, to rounding: <weights, jvp(t)> is <gradient, t>.
"""

from __future__ import annotations

import copy
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


def value_and_gradient(program: Program, backend: str) -> tuple[Any, list[np.ndarray]]:
    """Return the results by tracegrad, and the gradients of the weighted results, flat."""
    outputs = program.function(*program.inputs())
    leaves = float_leaves(outputs)
    if len(leaves) == 1 and leaves[0].ndim == 0 and not isinstance(outputs, dict | list | tuple):
        both = tg.value_and_grad(program.function, argnums=program.wrt, backend=backend)
        value, gradient = both(*program.inputs())
        return value, float_leaves(gradient)
    function, primals = by_wrt(program)
    out, pullback = tg.vjp(function, *primals, backend=backend)
    return out, float_leaves(pullback(replace_leaves(copy.deepcopy(out), weights_like(leaves))))


def in_direction(program: Program, tangents: list[np.ndarray], backend: str) -> tuple[Any, np.floating]:
    """Return the results, and the derivative of the weighted results in a direction, by forward mode."""
    function, primals = by_wrt(program)
    direction = optree.tree_map(lambda t: 0 if type(t) is int else t, replace_leaves(primals, list(tangents)))
    out, moved = tg.jvp(function, primals, direction, backend=backend)
    leaves = float_leaves(moved)
    return out, sum(np.vdot(w, leaf) for w, leaf in zip(weights_like(leaves), leaves, strict=True))


def assert_value(found: Any, program: Program) -> None:
    """Compare results with those of the plain function: type, dtypes, numbers."""
    expected = program.function(*program.inputs())
    assert type(found) is type(expected) or np.ndim(found) == 0
    rtol = 1e-10 if program.rtol < 1e-5 else 1e-5
    for ours, numpys in zip(float_leaves(found), float_leaves(expected), strict=True):
        assert ours.dtype == numpys.dtype
        np.testing.assert_allclose(ours, numpys, rtol=rtol, atol=rtol * scale([numpys]))


def test_the_zoo_is_large() -> None:
    assert len(PROGRAMS) >= 200
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


@each_program
def test_program_is_smooth_at_its_inputs(program: Program) -> None:
    assert disagreement(program, slopes(program)) < program.rtol


@each_backend
@each_program
def test_value_and_gradient(program: Program, backend: str, rng: np.random.Generator) -> None:
    args = program.inputs()
    expected = slopes(program)
    value, found = value_and_gradient(program, backend)
    assert_value(value, program)
    leaves = float_leaves([args[i] for i in program.wrt])
    assert [leaf.shape for leaf in found] == [leaf.shape for leaf in expected]
    assert [leaf.dtype for leaf in found] == [leaf.dtype for leaf in leaves]
    atol = program.rtol * scale(expected)
    for ours, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=program.rtol, atol=atol)
    tangents = [rng.uniform(0.5, 1.5, leaf.shape).astype(leaf.dtype) for leaf in leaves]
    value, forward = in_direction(program, tangents, backend)
    assert_value(value, program)
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
