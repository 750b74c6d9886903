"""Gradients of any order against central differences, through straight lines, branches and loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transform.differences import central_difference, relative_error, weighted_sum
from tests.transform.programs import PROGRAMS, Program
from tracegrad.ir.verifier import verify_function
from tracegrad.passes.manager import run_passes
from tracegrad.testing.interpret import interpret
from tracegrad.transform.vjp import gradient


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_gradient_agrees_with_differences(program: Program) -> None:
    function = program.function()
    verify_function(function)
    result = gradient(function, program.wrt)
    verify_function(result)
    value, *found = interpret(result, *program.arguments)
    np.testing.assert_array_equal(value, interpret(function, *program.arguments)[0])
    for position, ct in zip(program.wrt, found, strict=True):
        assert relative_error(ct, central_difference(function, program.arguments, position)) < 1e-8


@pytest.mark.parametrize("with_passes", [False, True], ids=["raw", "passes"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_second_derivatives_agree_with_differences_of_first(
    program: Program, with_passes: bool, rng: np.random.Generator
) -> None:
    first = gradient(program.function(), program.wrt, keep_primal=False)
    if with_passes:
        run_passes(first, verify=True)
    first = weighted_sum(first, rng)
    second = gradient(first, program.wrt, keep_primal=False)
    verify_function(second)
    if with_passes:
        run_passes(second, verify=True)
    for position, ct in zip(program.wrt, interpret(second, *program.arguments), strict=True):
        assert relative_error(ct, central_difference(first, program.arguments, position)) < 1e-7


@pytest.mark.parametrize(
    "name", ["branch", "rnn", "nested", "newton", "nested_while", "swap", "triangle", "recurrence"]
)
def test_third_derivatives_agree_with_differences_of_second(name: str, rng: np.random.Generator) -> None:
    program = PROGRAMS[name]
    function = program.function()
    for _ in range(2):
        function = weighted_sum(gradient(function, program.wrt, keep_primal=False), rng)
        run_passes(function, verify=True)
    third = gradient(function, program.wrt, keep_primal=False)
    verify_function(third)
    for position, ct in zip(program.wrt, interpret(third, *program.arguments), strict=True):
        assert relative_error(ct, central_difference(function, program.arguments, position)) < 1e-6


@pytest.mark.parametrize("name", ["rnn", "nested", "newton", "recurrence"])
def test_functions_whose_stacks_are_made_outside(name: str, rng: np.random.Generator) -> None:
    # as when a gradient is part of a loop body of a larger function, which holds the stacks
    program = PROGRAMS[name]
    first = weighted_sum(gradient(program.function(), program.wrt, keep_primal=False), rng)
    expected = interpret(gradient(first, program.wrt), *program.arguments)
    stacks = [o for o in first.body.operations if o.op == "stack"]
    first.body.operations = [o for o in first.body.operations if o.op != "stack"]
    second = gradient(first, program.wrt)
    second.body.operations[:0] = stacks
    verify_function(second)
    for found, value in zip(interpret(run_passes(second), *program.arguments), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-12)
