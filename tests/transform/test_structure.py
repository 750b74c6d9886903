"""What the reverse looks like: what is kept, what is recomputed, that loops touch only what they read, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transform.differences import central_difference, relative_error
from tests.transform.programs import PROGRAMS
from tracegrad.errors import ArgumentError, ArgumentTypeError
from tracegrad.ir.core import Function, walk
from tracegrad.ir.parser import parse_function
from tracegrad.passes.manager import run_passes
from tracegrad.testing.interpret import interpret
from tracegrad.transform.jvp import jvp
from tracegrad.transform.ranges import Ranges
from tracegrad.transform.vjp import gradient, vjp


def stacks(function: Function) -> list[tuple[str, str]]:
    """Return element type and capacity of each stack."""
    made = [o for o in function.body.operations if o.op == "stack"]
    return sorted((str(o.attrs["element"]), str(o.attrs["capacity"])) for o in made)


def ops_in_loops(function: Function) -> list[str]:
    """Return the ops inside the blocks of the loops of a function."""
    return [
        f"{inner.op} {inner.results[0].type if inner.results else ''}".strip()
        for operation in function.body.operations
        for block in operation.blocks
        for inner in walk(block)
    ]


def reversed_program(name: str) -> Function:
    program = PROGRAMS[name]
    return run_passes(gradient(program.function(), program.wrt), verify=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lorenz", [("f64[3]", "None")]),  # the state; everything else is recomputed from it
        ("rnn", [("f64[3]", "4"), ("f64[3]", "4")]),  # the state and its tanh
        ("recurrence", [("f64[]", "n-1")]),  # the sine; a[i-1] is in the array
        ("elements", [("f64[]", "((n+1)//(2))")]),  # the exponential; x and y do not change and are read again
        ("newton", [("f64[]", "None")]),  # the iterate
        ("counters", [("f64[]", "None"), ("f64[]", "None")]),  # the sum and a sine; indices follow from the iteration
    ],
)
def test_what_loops_keep(name: str, expected: list[tuple[str, str]]) -> None:
    assert stacks(reversed_program(name)) == expected


@pytest.mark.parametrize("name", ["elements", "recurrence", "nested"])
def test_reading_an_element_costs_an_element(name: str) -> None:
    # no operation in a loop makes an array of the size of x, except writes of one element, which are done in place
    whole = [text for text in ops_in_loops(reversed_program(name)) if text.endswith(("f64[n]", "f64[m,n]"))]
    assert {text.split()[0] for text in whole} <= {"scatter_add", "scatter_set", "for", "if"}


def test_branches_share_results_for_what_they_keep() -> None:
    function = reversed_program("branch")
    branch = next(o for o in function.body.operations if o.op == "if")
    # two results of the primal, then the tanh of one branch and the exponential of the other; sine and square again
    assert len(branch.results) <= 4


def test_parameters_that_are_not_reached_get_zeros() -> None:
    function = parse_function("func @f(%x: f64[], %y: f32[n], %z: f64[]) -> (f64[]) {\n  return %z\n}\n")
    x, y, z = interpret(gradient(function, (0, 1, 2), keep_primal=False), 1.0, np.ones(3), 2.0)
    assert x == 0.0 and z == 1.0
    np.testing.assert_array_equal(y, np.zeros(3, np.float32))
    assert y.dtype == np.float32


def test_vjp_takes_a_cotangent_per_inexact_result() -> None:
    function = parse_function("""
func @f(%x: f64[2]) -> (f64[2], i64[], f64[]) {
  %s: f64[2] = sin %x
  %k: i64[] = argmax %x {axis=0}
  %r: f64[] = reduce_sum %s {axes=(0,)}
  return %s, %k, %r
}
""")
    result = vjp(function, (0,))
    assert [str(p.type) for p in result.params] == ["f64[2]", "f64[2]", "f64[]"]
    x = np.array([0.3, -1.0])
    s, k, r, ct = interpret(result, x, np.array([1.0, 2.0]), 3.0)
    np.testing.assert_allclose(s, np.sin(x))
    assert (int(k), float(r)) == (0, float(np.sin(x).sum()))
    np.testing.assert_allclose(ct, np.cos(x) * np.array([4.0, 5.0]))


def test_the_function_itself_is_left_alone() -> None:
    program = PROGRAMS["nested_while"]
    function = program.function()
    before = interpret(function, *program.arguments)
    operations = sum(1 for _ in walk(function.body))
    gradient(function, program.wrt)
    assert sum(1 for _ in walk(function.body)) == operations
    assert interpret(function, *program.arguments) == before


CALLS = """
func @f(%x: f64[], %n: i64[]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %y: f64[] = call %x {function='@g'}
  %r: f64[] = for %zero, %n, %y {step=1, reverse=False} (%k: i64[], %s: f64[]) {
    %t: f64[] = call %s {function='@g'}  // model.py:7:3
    %u: f64[] = multiply %t, %y
    yield %u
  }
  return %r
}

func @g(%z: f64[]) -> (f64[]) {
  %a: f64[] = sin %z
  %b: f64[] = BODY
  return %b
}
"""


def test_calls_are_differentiated() -> None:
    function = parse_function(CALLS.replace("BODY", "multiply %a, %z"))
    (found,) = interpret(gradient(function, (0,), keep_primal=False), 0.7, 3)
    assert relative_error(found, central_difference(function, (0.7, 3), 0)) < 1e-8


RECURSIVE = """
func @f(%x: f64[], %n: i64[]) -> (f64[]) {
  %y: f64[] = call %x, %n {function='@g'}  // model.py:7:3
  return %y
}

func @g(%x: f64[], %n: i64[]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %end: bool[] = equal %n, %zero
  %r: f64[] = if %end () {
    yield %x
  } () {
    %one: i64[] = constant {value=1}
    %m: i64[] = subtract %n, %one
    %s: f64[] = sin %x
    %a: f64[] = call %s, %m {function='@g'}
    %b: f64[] = multiply %a, %x
    yield %b
  }
  return %r
}
"""


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_recursion_is_differentiated(depth: int) -> None:
    function = parse_function(RECURSIVE)
    (found,) = interpret(gradient(function, (0,), keep_primal=False), 0.7, depth)
    assert relative_error(found, central_difference(function, (0.7, depth), 0)) < 1e-8
    (pushed,) = interpret(jvp(function, (0,), keep_primal=False), 0.7, depth, 2.0)
    assert relative_error(pushed, 2.0 * found) < 1e-14


def test_effects_happen_once(capsys: pytest.CaptureFixture[str]) -> None:
    function = parse_function("""
func @f(%x: f64[], %n: i64[]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %r: f64[] = for %zero, %n, %x {step=1, reverse=False} (%k: i64[], %s: f64[]) {
    %t: f64[] = sin %s
    print %t {format='t = {:.3f}\\n'}
    yield %t
  }
  return %r
}
""")
    interpret(run_passes(gradient(function, (0,))), 1.0, 2)
    assert capsys.readouterr().out == "t = 0.841\nt = 0.746\n"


def test_integers_and_arrays_are_refused() -> None:
    function = parse_function("func @f(%x: f64[2], %n: i64[]) -> (f64[2]) {\n  return %x\n}\n")
    with pytest.raises(ArgumentTypeError, match="parameter n of f has dtype i64"):
        vjp(function, (1,))
    with pytest.raises(ArgumentError, match=r"f64\[2\]"):
        gradient(function, (0,))


def test_operations_of_the_sweep_have_names_and_places() -> None:
    function = parse_function("""
func @f(%x: f64[], %y: f64[]) -> (f64[]) {
  %p: f64[] = multiply %x, %y  // model.py:3:5
  %q: f64[] = sin %p  // model.py:4:5
  return %q
}
""")
    result = run_passes(gradient(function, (0, 1)))
    assert [v.name for v in result.results] == ["q", "ct_x", "ct_y"]
    lines = {v.name: v.producer.span.line for v in result.results if v.producer is not None and v.producer.span}
    assert lines == {"q": 4, "ct_x": 3, "ct_y": 3}


def test_complex_values_through_a_loop() -> None:
    # the gradient of a real loss is dL/dRe + i dL/dIm
    function = parse_function("""
func @f(%z: c128[2]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %three: i64[] = constant {value=3}
  %w: c128[2] = for %zero, %three, %z {step=1, reverse=False} (%k: i64[], %w: c128[2]) {
    %s: c128[2] = sin %w
    %p: c128[2] = multiply %s, %z
    yield %p
  }
  %c: c128[2] = conjugate %w
  %q: c128[2] = multiply %w, %c
  %r: f64[2] = real %q
  %l: f64[] = reduce_sum %r {axes=(0,)}
  return %l
}
""")
    z = np.array([0.3 + 0.4j, -0.5 + 0.2j])
    (found,) = interpret(gradient(function, (0,), keep_primal=False), z)
    expected = np.zeros(2, np.complex128)
    for k in range(2):
        for part in (1.0, 1.0j):
            step = np.zeros(2, np.complex128)
            step[k] = 1e-6 * part
            difference = interpret(function, z + step)[0] - interpret(function, z - step)[0]
            expected[k] += part * difference / 2e-6
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_single_precision_stays_single() -> None:
    text = PROGRAMS["rnn"].text.replace("f64", "f32")
    function = gradient(parse_function(text), (0, 1, 2))
    assert not any(str(getattr(r.type, "dtype", "")) == "float64" for o in walk(function.body) for r in o.results)
    arguments = [np.asarray(a, np.float32) for a in PROGRAMS["rnn"].arguments]
    for single, double in zip(
        interpret(run_passes(function), *arguments),
        interpret(gradient(PROGRAMS["rnn"].function(), (0, 1, 2)), *PROGRAMS["rnn"].arguments),
        strict=True,
    ):
        np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-6)


def test_signs_of_integers_and_sums() -> None:
    function = parse_function("""
func @f(%x: f64[3], %k: i64[3]) -> (f64[]) {
  %n: i64[] = reduce_sum %k {axes=(0,)}
  %c: f64[] = cast %n {dtype=f64}
  %q: f64[3] = square %x
  %s: f64[] = reduce_sum %q {axes=(0,)}
  %one: f64[] = constant {value=1.0}
  %p: f64[] = add %s, %one
  %r: f64[] = divide %c, %p
  return %r
}
""")
    ranges = Ranges(function)
    values = {v.name: v for o in function.body.operations for v in o.results}
    assert [ranges.sign(values[name]) for name in "ncqsp"] == [7, 7, 6, 6, 4]
    assert not ranges.may_be_infinite(values["r"])
