"""Where a cotangent is exactly zero its contribution is zero, even if the local partial is infinite or NaN."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.transform.differences import central_difference, relative_error, weighted_sum
from tracegrad.ir.core import Function
from tracegrad.ir.parser import parse_function
from tracegrad.ir.printer import print_function
from tracegrad.passes.manager import run_passes
from tracegrad.testing.interpret import interpret
from tracegrad.transform.vjp import gradient, vjp

#: lines that compute %u: f64[4] from %x: f64[4], with an infinite or NaN partial at x = 0
SINGULAR = {
    "log": "%u: f64[4] = log %x",
    "reciprocal": "%u: f64[4] = reciprocal %x",
    "divide": """%one: f64[4] = full {shape=(4,), dtype=f64, value=1.0}
  %u: f64[4] = divide %one, %x""",
    "sqrt": "%u: f64[4] = sqrt %x",
    "power": """%half: f64[4] = full {shape=(4,), dtype=f64, value=0.5}
  %u: f64[4] = power %x, %half""",
    "arctan2": "%u: f64[4] = arctan2 %x, %x",
    "log_of_sqrt": """%r: f64[4] = sqrt %x
  %u: f64[4] = log %r""",
    "square_of_log": """%r: f64[4] = log %x
  %u: f64[4] = square %r""",
    "product_with_root": """%r: f64[4] = sqrt %x
  %u: f64[4] = multiply %r, %x""",
    "overflow": """%scale: f64[4] = full {shape=(4,), dtype=f64, value=-1000.0}
  %l: f64[4] = multiply %scale, %x
  %e: f64[4] = exp %l
  %u: f64[4] = multiply %e, %x""",
    "sine_of_quotient": """%one: f64[4] = full {shape=(4,), dtype=f64, value=1.0}
  %q: f64[4] = divide %one, %x
  %r: f64[4] = sin %q
  %u: f64[4] = multiply %r, %q""",
}
X = np.array([0.0, 0.5, 2.0, -1.0])
#: what a guard is made of
ZERO_TESTS = re.compile("select|keep_zero|isfinite")


def masked_sum(line: str) -> Function:
    return parse_function(f"""
func @f(%x: f64[4]) -> (f64[]) {{
  {line}
  %zero: f64[4] = full {{shape=(4,), dtype=f64, value=0.0}}
  %c: bool[4] = greater %x, %zero
  %w: f64[4] = select %c, %u, %zero
  %s: f64[] = reduce_sum %w {{axes=(0,)}}
  return %s
}}
""")


def in_loop(line: str) -> Function:
    scalar = line.replace("f64[4]", "f64[]").replace("%x", "%xk").replace("shape=(4,)", "shape=()")
    return parse_function(f"""
func @f(%x: f64[4]) -> (f64[]) {{
  %start: i64[] = constant {{value=0}}
  %stop: i64[] = constant {{value=4}}
  %zero: f64[] = constant {{value=0.0}}
  %s: f64[] = for %start, %stop, %zero {{step=1, reverse=False}} (%k: i64[], %s: f64[]) {{
    %xk: f64[] = gather %x, %k {{axes=(0,)}}
    {scalar}
    %c: bool[] = greater %xk, %zero
    %w: f64[] = select %c, %u, %zero
    %s.1: f64[] = add %s, %w
    yield %s.1
  }}
  return %s
}}
""")


@pytest.mark.filterwarnings(
    "ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning", "ignore:overflow:RuntimeWarning"
)
@pytest.mark.parametrize("make", [masked_sum, in_loop])
@pytest.mark.parametrize("line", SINGULAR.values(), ids=SINGULAR)
def test_masked_singularities_give_zero(make: object, line: str, rng: np.random.Generator) -> None:
    function = make(line)  # type: ignore[operator]
    first = gradient(function, (0,), keep_primal=False)
    (found,) = interpret(first, X)
    assert found[0] == found[3] == 0.0
    inside = X[1:3]
    expected = np.zeros(4)
    for k, x in enumerate(inside, 1):
        moved = X.copy()
        moved[k] = x
        expected[k] = central_difference(function, (moved,), 0)[k]
    assert relative_error(found, expected) < 1e-8
    run_passes(first, verify=True)
    np.testing.assert_allclose(interpret(first, X)[0], found, rtol=1e-15)  # a quotient for a reciprocal
    # the weights are those of the test's generator, the same for the function and its gradient
    scalar = weighted_sum(first, rng)
    second = run_passes(gradient(scalar, (0,), keep_primal=False), verify=True)
    (found,) = interpret(second, X)
    assert found[0] == found[3] == 0.0
    differences = central_difference(scalar, (X + np.array([1.0, 0, 0, 2.0]),), 0)
    assert relative_error(found[1:3], differences[1:3]) < 1e-7


def test_guard_leaves_mixed_second_derivatives_right_at_zero() -> None:
    # d²/dx dy of x log(y) is 1/y, also at x = 0 where the cotangent of the logarithm is zero
    function = parse_function("""
func @f(%v: f64[2]) -> (f64[]) {
  %i: i64[] = constant {value=0}
  %j: i64[] = constant {value=1}
  %x: f64[] = gather %v, %i {axes=(0,)}
  %y: f64[] = gather %v, %j {axes=(0,)}
  %l: f64[] = log %y
  %p: f64[] = multiply %x, %l
  return %p
}
""")
    first = vjp(function, (0,), keep_primal=False)
    for k in range(2):
        row = vjp(first, (0, 1), keep_primal=False)
        unit = np.eye(2)[k]
        hessian_row, _ = interpret(row, np.array([0.0, 4.0]), 1.0, unit)
        np.testing.assert_allclose(hessian_row, [[0.0, 0.25], [0.25, 0.0]][k])


def test_tangents_by_transposing_twice() -> None:
    # the VJP is linear in the cotangent; its own VJP by the cotangent, at cotangent zero, is the JVP
    function = parse_function("""
func @f(%x: f64[3]) -> (f64[3]) {
  %l: f64[3] = log %x
  %r: f64[3] = divide %l, %x
  %s: f64[3] = sqrt %r
  return %s
}
""")
    transposed = vjp(function, (0,), keep_primal=False)
    tangents = vjp(transposed, (1,), keep_primal=False)
    x, t = np.array([1.5, 2.0, 5.0]), np.array([1.0, -2.0, 0.5])
    (found,) = interpret(tangents, x, np.zeros(3), t)
    h = 1e-6
    expected = (interpret(function, x + h * t)[0] - interpret(function, x - h * t)[0]) / (2 * h)
    assert relative_error(found, expected) < 1e-8


def test_ordinary_code_has_no_guards() -> None:
    function = parse_function("""
func @f(%x: f64[3], %y: f64[3]) -> (f64[]) {
  %start: i64[] = constant {value=0}
  %stop: i64[] = constant {value=5}
  %q: f64[3] = for %start, %stop, %x {step=1, reverse=False} (%k: i64[], %q: f64[3]) {
    %d: f64[3] = divide %q, %y
    %l: f64[3] = log %d
    yield %l
  }
  %r: f64[3] = sqrt %q
  %s: f64[] = reduce_sum %r {axes=(0,)}
  return %s
}
""")
    assert not ZERO_TESTS.search(print_function(gradient(function, (0, 1))))


def test_small_states_read_element_by_element_have_no_guards() -> None:
    text = """
func @f(%s0: f64[2]) -> (f64[]) {
  %i: i64[] = constant {value=0}
  %j: i64[] = constant {value=1}
  %stop: i64[] = constant {value=5}
  %s: f64[2] = for %i, %stop, %s0 {step=1, reverse=False} (%k: i64[], %s: f64[2]) {
    %x: f64[] = gather %s, %i {axes=(0,)}
    %y: f64[] = gather %s, %j {axes=(0,)}
    %q: f64[] = divide %x, %y
    %e: f64[] = exp %q
    %a: f64[2] = scatter_set %s, %i, %e {axes=(0,)}
    %b: f64[2] = scatter_set %a, %j, %q {axes=(0,)}
    yield %b
  }
  %sq: f64[2] = square %s
  %r: f64[] = reduce_sum %sq {axes=(0,)}
  return %r
}
"""
    assert not ZERO_TESTS.search(print_function(gradient(parse_function(text), (0,))))
    # nobody reads element 0, so the cotangent of %e is zero except in the last iteration
    one_element = text.replace("gather %s, %i", "gather %s, %j")
    assert "keep_zero" in print_function(gradient(parse_function(one_element), (0,)))


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_branch_not_taken_in_any_iteration() -> None:
    function = parse_function("""
func @f(%x: f64[], %n: i64[]) -> (f64[]) {
  %zero: f64[] = constant {value=0.0}
  %start: i64[] = constant {value=0}
  %root: f64[] = sqrt %x
  %c: bool[] = greater %x, %zero
  %s: f64[] = for %start, %n, %zero {step=1, reverse=False} (%k: i64[], %s: f64[]) {
    %t: f64[] = if %c () {
      %u: f64[] = add %s, %root
      yield %u
    } () {
      yield %s
    }
    yield %t
  }
  return %s
}
""")
    result = gradient(function, (0,), keep_primal=False)
    assert interpret(result, 0.0, 3) == [0.0]
    assert interpret(result, 0.0, 0) == [0.0]
    np.testing.assert_allclose(interpret(result, 4.0, 3), [0.75])


@pytest.mark.parametrize(
    ("lines", "guards"),
    [
        ("%q: f64[4] = square %x\n  %p: f64[4] = add %one, %q\n  %u: f64[4] = log %p", 0),  # at least log(1)
        ("%q: f64[4] = absolute %x\n  %u: f64[4] = log1p %q", 0),
        ("%q: f64[4] = exp %x\n  %p: f64[4] = add %one, %q\n  %u: f64[4] = divide %one, %p", 1),  # exp can overflow
        ("%q: f64[4] = negative %x\n  %p: f64[4] = absolute %q\n  %n: f64[4] = negative %p\n  %u: f64[4] = exp %n", 0),
        (
            """%m: f64[] = reduce_max %x {axes=(0,)}
  %n: f64[4] = broadcast_to %m {shape=(4,)}
  %d: f64[4] = subtract %x, %n
  %u: f64[4] = exp %d""",
            0,  # at most exp(0)
        ),
        ("%u: f64[4] = divide %x, %one", 0),
        ("%q: f64[4] = tanh %x\n  %u: f64[4] = multiply %q, %x", 0),
        ("%q: f64[4] = add %one, %x\n  %p: f64[4] = log %q\n  %u: f64[4] = multiply %p, %x", 2),  # log, product with it
    ],
)
def test_guards_only_where_partials_can_be_infinite(lines: str, guards: int) -> None:
    one = "%one: f64[4] = full {shape=(4,), dtype=f64, value=1.0}\n  "
    unread = parse_function(f"""
func @f(%x: f64[4]) -> (f64[]) {{
  {one + lines}
  %w: f64[2] = slice %u {{start=(0,), stop=(2,), step=(1,)}}
  %s: f64[] = reduce_sum %w {{axes=(0,)}}
  return %s
}}
""")
    text = print_function(run_passes(gradient(unread, (0,))))
    assert text.count(" keep_zero ") == guards
    # where a choice makes the zeros it moves behind the products instead
    assert "keep_zero" not in print_function(run_passes(gradient(masked_sum(one + lines), (0,))))
