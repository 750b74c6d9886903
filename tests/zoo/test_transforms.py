"""Forward and reverse mode agree on every program of the zoo: <ct, jvp(t)> is <vjp(ct), t>, to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree
import pytest

import tracegrad as tg
from tests.zoo.numerics import float_leaves, replace_leaves
from tests.zoo.registry import Program, parameters
from tests.zoo.selfcheck import load_all

PROGRAMS = load_all()


def like(value: Any, rng: np.random.Generator) -> Any:
    """Return random numbers of the structure, shapes and dtypes of a value."""
    leaves = [np.asarray(rng.uniform(0.5, 1.5, leaf.shape), leaf.dtype) for leaf in float_leaves(value)]
    return replace_leaves(value, leaves)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", parameters(PROGRAMS))
def test_forward_is_the_transpose_of_reverse(program: Program, backend: str) -> None:
    inputs = program.inputs()

    def by_wrt(*chosen: Any) -> Any:
        full = list(inputs)
        for position, arg in zip(program.wrt, chosen, strict=True):
            full[position] = arg
        return program.function(*full)

    rng = np.random.default_rng(5)
    primals = tuple(inputs[i] for i in program.wrt)
    tangents = tuple(optree.tree_map(lambda t: 0 if type(t) is int else t, like(p, rng)) for p in primals)
    out, t_out = tg.jvp(by_wrt, primals, tangents, backend=backend)
    ct = like(out, rng)
    _, pullback = tg.vjp(by_wrt, *primals, backend=backend)
    pulled = float_leaves(pullback(ct))
    forward = sum(np.vdot(a, b) for a, b in zip(float_leaves(ct), float_leaves(t_out), strict=True))
    reverse = sum(np.vdot(a, b) for a, b in zip(pulled, float_leaves(tangents), strict=True))
    tolerance = 1e-12 if all(leaf.dtype == np.float64 for leaf in float_leaves(primals)) else 1e-6
    assert abs(forward - reverse) <= tolerance * abs(forward)
