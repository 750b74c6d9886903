"""Gradients of random programs with nested control flow against central differences, in first and second order."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.transform.differences import central_difference, relative_error, weighted_sum
from tests.transform.generate import Generator
from tracegrad.ir.core import Function
from tracegrad.ir.verifier import verify_function
from tracegrad.passes.manager import run_passes
from tracegrad.testing.interpret import interpret
from tracegrad.transform.vjp import gradient

_SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def check_gradient(function: Function, derivative: Function, arguments: tuple[object, ...]) -> None:
    """Compare where the function is smooth: where differences with two steps agree."""
    for position, found in zip((0, 1), interpret(derivative, *arguments), strict=True):
        fine, coarse = (central_difference(function, arguments, position, step) for step in (1e-6, 3e-6))
        if relative_error(fine, coarse) < 1e-7:
            assert relative_error(found, fine) < 1e-6


@_SETTINGS
@given(seed=st.integers(0, 2**32 - 1), trips=st.integers(0, 3))
def test_gradients_of_random_programs(seed: int, trips: int) -> None:
    rng = np.random.default_rng(seed)
    function = Generator(rng).make()
    verify_function(function)
    arguments = (rng.normal(), rng.normal(size=3), trips)
    first = gradient(function, (0, 1), keep_primal=False)
    verify_function(first)
    check_gradient(function, first, arguments)


@_SETTINGS
@given(seed=st.integers(0, 2**32 - 1), trips=st.integers(0, 3))
def test_second_derivatives_of_random_programs(seed: int, trips: int) -> None:
    rng = np.random.default_rng(seed)
    function = Generator(rng, length=6, depth=2).make()
    arguments = (rng.normal(), rng.normal(size=3), trips)
    first = weighted_sum(gradient(function, (0, 1), keep_primal=False), rng)
    if seed % 2:
        run_passes(first, verify=True)
    second = gradient(first, (0, 1), keep_primal=False)
    verify_function(second)
    check_gradient(first, second, arguments)
