"""Batching against a stacked loop over the elements, in both forms: every op of the table, then programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.transform.generate import Generator
from tests.transform.programs import PROGRAMS, Program
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Value, clone_function, walk
from tracegrad.ir.opdef import BY_TRANSFORM, TABLE, interpreter
from tracegrad.ir.parser import parse_function
from tracegrad.ir.types import ArrayType, symbol
from tracegrad.ir.verifier import verify_function
from tracegrad.passes.manager import run_passes
from tracegrad.testing.interpret import interpret
from tracegrad.testing.rules import Case, cases
from tracegrad.transform.batch import batch
from tracegrad.transform.jacobian import jacobian
from tracegrad.transform.vjp import gradient

SIZE = 3
both_forms = pytest.mark.parametrize("loop", [False, True], ids=["arrays", "loop"])


def stacked_loop(function: Function, axes: Sequence[int | None], arrays: Sequence[Any], size: int = SIZE) -> list[Any]:
    """Return the results of the function for each element, stacked."""
    rows = []
    for b in range(size):
        element = [x if axis is None else np.take(x, b, axis) for x, axis in zip(arrays, axes, strict=True)]
        rows.append(interpret(function, *element))
    return [np.stack(column) for column in zip(*rows, strict=True)]


def check_batch(
    function: Function, axes: Sequence[int | None], arrays: Sequence[Any], *, loop: bool, rtol: float = 0
) -> Function:
    """Compare the batched function with the loop, and return it."""
    made = batch(function, axes, SIZE, loop=loop)
    verify_function(made.function)
    found = interpret(made.function, *arrays)
    expected = stacked_loop(function, axes, arrays)
    for ours, theirs, has in zip(found, expected, made.results, strict=True):
        np.testing.assert_allclose(ours, theirs if has else theirs[0], rtol=rtol, atol=rtol)
    return made.function


def function_of(case: Case) -> Function:
    """Return the function that applies an op to parameters."""
    params = [Value(ArrayType(x.dtype, x.shape), f"x{k}") for k, x in enumerate(case.operands)]
    block = Block(params)
    builder = Builder(block)
    with interpreter(builder):
        result = case.op(*params, **case.attrs)
    block.yields = list(result) if isinstance(result, tuple) else [result]
    return Function("f", block)


@pytest.mark.parametrize(
    "name", [name for name, op in TABLE.items() if op.marker is not BY_TRANSFORM and not op.effect and op.operands]
)
def test_op(name: str) -> None:
    # every choice of operands that have the axis, at every place of it
    rng = np.random.default_rng(7)
    for case in cases(TABLE[name]):
        function = function_of(case)
        count = len(case.operands)
        for chosen in range(1, 2**count):
            axes = [None if not chosen >> k & 1 else (k + chosen) % (x.ndim + 1) for k, x in enumerate(case.operands)]
            arrays = [_varied(rng, x, axis) for x, axis in zip(case.operands, axes, strict=True)]
            with np.errstate(all="ignore"):
                for loop in (False, True):
                    made = check_batch(function, axes, arrays, loop=loop, rtol=1e-13)
                    assert loop or not any(o.op == "for" for o in walk(made.body)), f"{name} has no batching rule"


def _varied(rng: np.random.Generator, x: Any, axis: int | None) -> Any:
    """Return elements like `x`, different from each other where that keeps them in the domain of the op."""
    if axis is None:
        return x
    elements = [x]
    for _ in range(SIZE - 1):
        if x.dtype.kind in "iub":
            elements.append(rng.permutation(x.reshape(-1)).reshape(x.shape))
        else:
            elements.append((x * (1 + 1e-3 * rng.uniform(-1, 1, x.shape))).astype(x.dtype))
    return np.stack(elements, axis)


@both_forms
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("derivative", ["value", "gradient", "hessian"])
def test_program(program: Program, derivative: str, loop: bool) -> None:
    function = program.function()
    if derivative != "value":
        function = gradient(function, program.wrt)
    if derivative == "hessian":
        function = jacobian(function, program.wrt, "forward")
    rng = np.random.default_rng(3)
    axes = [0 if position in program.wrt else None for position in range(len(program.arguments))]
    arrays = [_elements(rng, x, axis) for x, axis in zip(program.arguments, axes, strict=True)]
    made = check_batch(function, axes, arrays, loop=loop, rtol=1e-12)
    run_passes(made, verify=True)
    for ours, theirs in zip(interpret(made, *arrays), stacked_loop(function, axes, arrays), strict=True):
        np.testing.assert_allclose(np.broadcast_to(ours, theirs.shape), theirs, rtol=1e-12, atol=1e-12)


def _elements(rng: np.random.Generator, x: Any, axis: int | None) -> Any:
    if axis is None:
        return x
    return np.stack([np.asarray(x) * scale for scale in rng.uniform(0.9, 1.1, SIZE)], axis)


@both_forms
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_gradient_of_a_batched_program(program: Program, loop: bool) -> None:
    function = program.function()
    rng = np.random.default_rng(5)
    axes = [0 if position in program.wrt else None for position in range(len(program.arguments))]
    arrays = [_elements(rng, x, axis) for x, axis in zip(program.arguments, axes, strict=True)]
    total = batch(function, axes, SIZE, loop=loop).function
    builder = Builder(total.body)
    with interpreter(builder):
        total.body.yields = [TABLE["reduce_sum"](total.results[0], axes=tuple(range(total.results[0].array_type.ndim)))]
    found = interpret(gradient(total, program.wrt, keep_primal=False), *arrays)
    single = gradient(function, program.wrt, keep_primal=False)
    for ours, theirs in zip(found, stacked_loop(single, axes, arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@both_forms
def test_symbolic_size(loop: bool) -> None:
    function = parse_function(
        """func @f(%x: f64[m], %i: i64[]) -> (f64[]) {
          %e: f64[] = gather %x, %i {axes=(0,)}
          %s: f64[] = reduce_sum %x {axes=(0,)}
          %y: f64[] = multiply %e, %s
          return %y
        }"""
    )
    made = batch(function, (0, 0), symbol("n"), loop=loop).function
    verify_function(made)
    x, i = np.arange(8.0).reshape(4, 2), np.array([0, 1, -1, 0])
    np.testing.assert_allclose(interpret(made, x, i)[0], [x[b, i[b]] * x[b].sum() for b in range(4)])


def test_what_is_the_same_for_all_elements_is_computed_once() -> None:
    function = parse_function(
        """func @f(%a: f64[2,2], %x: f64[]) -> (f64[2,2], f64[2,2]) {
          %inverse: f64[2,2] = inv %a
          %many: f64[2,2] = broadcast_to %x {shape=(2, 2)}
          %y: f64[2,2] = multiply %inverse, %many
          return %y, %inverse
        }"""
    )
    for loop in (False, True):
        made = batch(function, (None, 0), SIZE, loop=loop)
        assert made.results == (True, False)
        assert [str(o.result.type) for o in made.function.body.operations if o.op == "inv"] == ["f64[2,2]"]


def test_a_side_runs_only_on_values_that_choose_it() -> None:
    function = parse_function(
        """func @f(%x: f64[]) -> (f64[]) {
          %zero: f64[] = constant {value=0.0}
          %positive: bool[] = greater %x, %zero
          %y: f64[] = if %positive () {
            %r: f64[] = sqrt %x
            yield %r
          } () {
            yield %zero
          }
          return %y
        }"""
    )
    made = batch(function, (0,), SIZE, loop=False).function
    assert not any(o.op in ("for", "while") for o in walk(made.body))
    for x in ([4.0, -1.0, 0.0], [-1.0, 4.0, 9.0], [-1.0, -2.0, -3.0]):  # a warning would be an error
        np.testing.assert_array_equal(interpret(made, np.array(x))[0], np.sqrt(np.maximum(x, 0.0)))


@both_forms
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1), order=st.integers(0, 1))
def test_random_programs(seed: int, order: int, loop: bool) -> None:
    rng = np.random.default_rng(seed)
    function = Generator(rng).make()
    arrays = (rng.normal(size=SIZE), rng.normal(size=(3, SIZE)), rng.integers(0, 4, SIZE))
    if order:
        function = gradient(function, (0, 1))
    check_batch(function, (0, 1, 0), arrays, loop=loop, rtol=1e-9)
    # the derivative of the batch, against the batch of the derivative
    total = batch(function, (0, 1, 0), SIZE, loop=loop).function
    builder = Builder(total.body)
    with interpreter(builder):
        total.body.yields = [TABLE["reduce_sum"](total.results[0], axes=tuple(range(total.results[0].array_type.ndim)))]
    found = interpret(gradient(total, (0, 1), keep_primal=False), *arrays)
    single = clone_function(function)
    single.body.yields = single.results[:1]
    expected = stacked_loop(gradient(single, (0, 1), keep_primal=False), (0, 1, 0), arrays)
    for ours, theirs in zip(found, (expected[0], np.moveaxis(expected[1], 0, 1)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
