"""Every program of the zoo, on both backends: its value, and its gradient against differences of the plain function.

The reference is the untouched function run by NumPy in double precision; see numerics.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.zoo.numerics import differences, float_leaves, in_float64, replace_leaves, scale, weighted, weights_like
from tests.zoo.registry import Program, parameters
from tests.zoo.selfcheck import disagreement, load_all

PROGRAMS = load_all()
each_program = pytest.mark.parametrize("program", parameters(PROGRAMS))
each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def gradient(program: Program, backend: str) -> list[np.ndarray]:
    """Return the gradients of the weighted outputs by tracegrad, flat."""
    args = program.inputs()
    outputs = program.function(*program.inputs())
    leaves = float_leaves(outputs)
    if len(leaves) == 1 and leaves[0].ndim == 0 and not isinstance(outputs, dict | list | tuple):
        return float_leaves(tg.grad(program.function, argnums=program.wrt, backend=backend)(*args))

    def by_wrt(*chosen: Any) -> Any:
        full = list(args)
        for position, arg in zip(program.wrt, chosen, strict=True):
            full[position] = arg
        return program.function(*full)

    out, pullback = tg.vjp(by_wrt, *(args[i] for i in program.wrt), backend=backend)
    return float_leaves(pullback(replace_leaves(out, weights_like(leaves))))


def test_the_zoo_is_large() -> None:
    assert len(PROGRAMS) >= 200
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


@each_program
def test_program_is_smooth_at_its_inputs(program: Program) -> None:
    assert disagreement(program) < program.rtol


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
def test_gradient(program: Program, backend: str) -> None:
    args = program.inputs()
    expected = differences(program.function, in_float64(args), program.wrt)
    found = gradient(program, backend)
    assert [leaf.shape for leaf in found] == [leaf.shape for leaf in expected]
    assert [leaf.dtype for leaf in found] == [leaf.dtype for leaf in float_leaves([args[i] for i in program.wrt])]
    atol = program.rtol * scale(expected)
    for ours, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=program.rtol, atol=atol)


def test_weighted_leaves_arguments_untouched() -> None:
    x = np.ones(3)

    def writes(x):
        x[0] = 5.0
        return x.sum()

    assert weighted(writes, (x,)) == 7.0
    assert x[0] == 1.0
