"""Passes keep values: each pass, and all in a row, on programs, their gradients, and random programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.transform.generate import Generator
from tests.transform.programs import PROGRAMS, Program
from tracegrad.ir.core import Function, clone_function
from tracegrad.ir.parser import parse_function
from tracegrad.ir.printer import print_function
from tracegrad.ir.verifier import verify_function
from tracegrad.passes.factors import join_factors
from tracegrad.passes.manager import Pass, default_pipeline, run_passes
from tracegrad.testing.interpret import interpret
from tracegrad.transform.vjp import gradient

PASSES = {p.__name__: p for p in (*default_pipeline(), join_factors)}


def assert_same_values(before: Function, after: Function, arguments: tuple[object, ...]) -> None:
    for x, y in zip(interpret(before, *arguments), interpret(after, *arguments), strict=True):
        # the only inexact rules join roundings: a quotient for a product with a reciprocal, n * x for x + ... + x
        np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("change", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_each_pass_on_gradients(program: Program, change: Pass) -> None:
    before = gradient(program.function(), program.wrt)
    after = clone_function(before)
    change(after)
    verify_function(after)
    assert_same_values(before, after, program.arguments)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_passes_reach_an_end(program: Program) -> None:
    function = run_passes(run_passes(gradient(program.function(), program.wrt)))
    text = print_function(function)
    assert print_function(run_passes(function)) == text


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_pipeline_on_programs_and_text(program: Program) -> None:
    before = program.function()
    after = run_passes(clone_function(before), verify=True)
    assert_same_values(before, after, program.arguments)
    text = print_function(after)
    assert print_function(parse_function(text)) == text


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1), trips=st.integers(0, 3))
def test_pipeline_on_random_programs(seed: int, trips: int) -> None:
    rng = np.random.default_rng(seed)
    function = Generator(rng).make()
    arguments = (rng.normal(), rng.normal(size=3), trips)
    for before in (function, gradient(function, (0, 1))):
        after = clone_function(before)
        for change in default_pipeline():
            change(after)
            verify_function(after, stage=change.__name__)
            assert_same_values(before, after, arguments)
