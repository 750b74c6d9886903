"""What each pass does to small programs, and what it must leave alone; the text before and after."""

from __future__ import annotations

import pytest

from tracegrad.ir.parser import parse_function
from tracegrad.ir.printer import print_function
from tracegrad.passes.canonicalize import canonicalize
from tracegrad.passes.cse import eliminate_common_subexpressions, eliminate_repeated_loops
from tracegrad.passes.dce import eliminate_dead_code
from tracegrad.passes.elements import forward_elements
from tracegrad.passes.factors import join_factors
from tracegrad.passes.fold import fold_constants
from tracegrad.passes.hoist import hoist_from_branches, hoist_invariants
from tracegrad.passes.manager import Pass, run_passes
from tracegrad.passes.place import fill_in_place, set_what_is_added_once


def after(
    body: str, *passes: Pass, params: str = "%x: f64[3], %y: f64[3], %s: f64[], %n: i64[]", result: str = "f64[3]"
) -> str:
    """Return the lines of the body of a function after some passes and the removal of dead code."""
    lines = "\n".join(f"  {line}" for line in body.strip().splitlines())
    function = parse_function(f"func @f({params}) -> ({result}) {{\n{lines}\n}}\n")
    run_passes(function, [*passes, eliminate_dead_code], verify=True)
    return "\n".join(line.removeprefix("  ") for line in print_function(function).splitlines()[1:-1])


ONE = "%one: f64[3] = full {shape=(3,), dtype=f64, value=1.0}\n"
ZERO = "%zero: f64[3] = full {shape=(3,), dtype=f64, value=0.0}\n"


@pytest.mark.parametrize(
    "body",
    [
        ONE + "%r: f64[3] = multiply %one, %x\nreturn %r",
        ONE + "%r: f64[3] = divide %x, %one\nreturn %r",
        ZERO + "%r: f64[3] = subtract %x, %zero\nreturn %r",
        "%a: f64[3] = negative %x\n%r: f64[3] = negative %a\nreturn %r",
        "%a: f64[1,3] = reshape %x {shape=(1, 3)}\n%r: f64[3] = reshape %a {shape=(3,)}\nreturn %r",
        "%a: f64[3] = cast %x {dtype=f64}\nreturn %a",
        "%a: f64[3] = slice %x {start=(0,), stop=(3,), step=(1,)}\nreturn %a",
        "%c: bool[3] = full {shape=(3,), dtype=bool, value=True}\n%r: f64[3] = select %c, %x, %y\nreturn %r",
        "%c: bool[3] = less %x, %y\n%r: f64[3] = select %c, %x, %x\nreturn %r",
        "%a: f64[3] = flip %x {axes=(0,)}\n%r: f64[3] = flip %a {axes=(0,)}\nreturn %r",
        "%p: i64[] = argmax %y {axis=0}\n%b: f64[3,3] = broadcast_to %x {shape=(3, 3)}\n"
        "%r: f64[3] = gather %b, %p {axes=(0,)}\nreturn %r",
    ],
)
def test_folds_to_the_operand(body: str) -> None:
    assert after(body, fold_constants) == "return %x"


@pytest.mark.parametrize(
    ("op", "known", "result"),
    [
        ("logical_and", "True", "%c"), ("logical_or", "False", "%c"),
        ("logical_and", "False", "%known"), ("logical_or", "True", "%known"),
    ],
)  # fmt: skip
def test_junctions_with_a_known_truth(op: str, known: str, result: str) -> None:
    for operands in ("%c, %known", "%known, %c"):
        body = f"%known: bool[] = constant {{value={known}}}\n%r: bool[] = {op} {operands}\nreturn %r"
        kept = body.splitlines()[0] + "\n" if result == "%known" else ""
        assert after(body, fold_constants, params="%c: bool[]", result="bool[]") == f"{kept}return {result}"


@pytest.mark.parametrize(
    "body",
    [
        ZERO + "%r: f64[3] = multiply %zero, %x\nreturn %r",  # NaN where x is infinite
        ZERO + "%r: f64[3] = add %zero, %x\nreturn %r",  # 0.0 where x is -0.0
        "%z: f64[3] = full {shape=(3,), dtype=f64, value=-0.0}\n%r: f64[3] = subtract %x, %z\nreturn %r",
        "%r: f64[3] = subtract %x, %x\nreturn %r",
    ],
)
def test_does_not_fold(body: str) -> None:
    assert after(body, fold_constants) == body


def test_folds_constants() -> None:
    body = """
%a: f64[] = constant {value=2.0}
%b: f64[] = constant {value=0.5}
%p: f64[] = multiply %a, %b
%q: f64[] = multiply %p, %s
%l: f64[] = log %a
%r: f64[] = add %q, %l
return %r
"""
    assert after(body, fold_constants, result="f64[]") == (
        "%l: f64[] = constant {value=0.6931471805599453}\n%r: f64[] = add %s, %l\nreturn %r"
    )


def test_leaves_faults_and_warnings_to_the_run() -> None:
    body = "%z: f64[] = constant {value=0.0}\n%l: f64[] = log %z\nreturn %l"
    assert after(body, fold_constants, result="f64[]") == body


def test_writes_instead_of_adding_sparse_arrays() -> None:
    body = (
        ZERO
        + """%w: f64[3] = scatter_add %zero, %n, %s {axes=(0,)}
%p: f64[3] = pad %one {low=(1,), high=(1,), interior=(0,)}
%a: f64[3] = add %x, %w
%b: f64[3] = add %p, %a
return %b"""
    )
    params = "%x: f64[3], %s: f64[], %n: i64[], %one: f64[1]"
    assert after(body, canonicalize, params=params) == (
        "%a: f64[3] = scatter_add %x, %n, %s {axes=(0,)}\n"
        "%b: f64[3] = add_slice %a, %one {start=(1,), stop=(2,), step=(1,)}\n"
        "return %b"
    )


def test_sum_of_broadcast_is_a_product() -> None:
    body = "%b: f64[4,3] = broadcast_to %x {shape=(4, 3)}\n%r: f64[3] = reduce_sum %b {axes=(0,)}\nreturn %r"
    assert after(body, canonicalize, fold_constants) == (
        "%0: f64[3] = full {shape=(3,), dtype=f64, value=4.0}\n%r: f64[3] = multiply %x, %0\nreturn %r"
    )


def test_known_branches_and_loops_are_opened() -> None:
    body = """
%c: bool[] = constant {value=True}
%r: f64[3] = if %c () {
  %a: f64[3] = sin %x
  yield %a
} () {
  yield %x
}
%zero: i64[] = constant {value=0}
%one: i64[] = constant {value=1}
%q: f64[3], %t: f64[3] = for %zero, %one, %r, %y {step=1, reverse=False} (%k: i64[], %u: f64[3], %v: f64[3]) {
  %w: f64[3] = multiply %u, %v
  yield %w, %v
}
%p: f64[3] = for %zero, %zero, %q {step=1, reverse=False} (%k.1: i64[], %u.1: f64[3]) {
  %w.1: f64[3] = cos %u.1
  yield %w.1
}
%e: f64[3] = add %p, %t
return %e
"""
    assert after(body, canonicalize) == (
        "%a: f64[3] = sin %x\n%w: f64[3] = multiply %a, %y\n%e: f64[3] = add %w, %y\nreturn %e"
    )


def test_invariant_carries_go() -> None:
    body = """
%zero: i64[] = constant {value=0}
%r: f64[3], %q: f64[3] = for %zero, %n, %x, %y {step=1, reverse=False} (%k: i64[], %u: f64[3], %v: f64[3]) {
  %w: f64[3] = multiply %u, %v
  yield %w, %v
}
return %r, %q
"""
    assert after(body, canonicalize, result="f64[3], f64[3]") == (
        """%zero: i64[] = constant {value=0}
%r: f64[3] = for %zero, %n, %x {step=1, reverse=False} (%k: i64[], %u: f64[3]) {
  %w: f64[3] = multiply %u, %y
  yield %w
}
return %r, %y"""
    )


def test_elements_are_forwarded() -> None:
    body = """
%i: i64[] = constant {value=0}
%j: i64[] = constant {value=1}
%a: f64[3] = scatter_set %x, %i, %s {axes=(0,)}
%b: f64[3] = scatter_set %a, %j, %s {axes=(0,)}
%p: f64[] = gather %b, %i {axes=(0,)}
%q: f64[] = sin %p
%c: f64[3] = scatter_set %b, %i, %q {axes=(0,)}
return %c
"""
    assert after(body, forward_elements) == (
        """%i: i64[] = constant {value=0}
%j: i64[] = constant {value=1}
%q: f64[] = sin %s
%0: f64[3] = scatter_set %x, %j, %s {axes=(0,)}
%c: f64[3] = scatter_set %0, %i, %q {axes=(0,)}
return %c"""
    )


def test_elements_at_unknown_distance_are_not_forwarded() -> None:
    body = """%i: i64[] = constant {value=-1}
%j: i64[] = constant {value=2}
%a: f64[3] = scatter_set %x, %i, %s {axes=(0,)}
%p: f64[] = gather %a, %j {axes=(0,)}
%q: f64[] = gather %a, %n {axes=(0,)}
%r: f64[] = add %p, %q
return %r"""
    assert after(body, forward_elements, result="f64[]") == body


def test_common_subexpressions_respect_blocks() -> None:
    body = """
%c: bool[] = less %s, %s
%p: f64[3] = multiply %x, %y
%r: f64[3] = if %c () {
  %a: f64[3] = multiply %y, %x
  %b: f64[3] = sin %a
  yield %b
} () {
  %b.1: f64[3] = sin %p
  yield %b.1
}
%d: f64[3] = sin %p
%e: f64[3] = add %r, %d
return %e
"""
    assert after(body, eliminate_common_subexpressions) == (
        """%c: bool[] = less %s, %s
%p: f64[3] = multiply %x, %y
%r: f64[3] = if %c () {
  %b: f64[3] = sin %p
  yield %b
} () {
  %b.1: f64[3] = sin %p
  yield %b.1
}
%d: f64[3] = sin %p
%e: f64[3] = add %r, %d
return %e"""
    )


def test_a_branch_inside_another_one_or_behind_a_check_takes_the_side_that_is_known() -> None:
    body = """
%zero: i64[] = constant {value=0}
%c: bool[] = less %n, %zero
%not: bool[] = logical_not %c
%r: f64[3] = if %c () {
  %a: f64[3] = if %not () {
    yield %x
  } () {
    %b: f64[3] = sin %x
    yield %b
  }
  %d: f64[3] = multiply %a, %y
  yield %d
} () {
  check %not {error='ValueError', message='negative'}
  %e: f64[3] = if %c () {
    yield %x
  } () {
    %f: f64[3] = if %not () {
      yield %y
    } () {
      yield %x
    }
    yield %f
  }
  yield %e
}
return %r
"""
    assert after(body, eliminate_common_subexpressions) == (
        """%zero: i64[] = constant {value=0}
%c: bool[] = less %n, %zero
%r: f64[3] = if %c () {
  %b: f64[3] = sin %x
  %d: f64[3] = multiply %b, %y
  yield %d
} () {
  yield %y
}
return %r"""
    )


def test_dead_carries_and_stacks_go() -> None:
    body = """
%k_stack: stack<f64[3]> = stack {element=f64[3], capacity=None}
%zero: i64[] = constant {value=0}
%r: f64[3], %q: f64[3] = for %zero, %n, %x, %y {step=1, reverse=False} (%k: i64[], %u: f64[3], %v: f64[3]) {
  push %k_stack, %v
  %w: f64[3] = sin %u
  %z: f64[3] = multiply %v, %u
  yield %w, %z
}
%t: f64[3] = for %zero, %n, %x {step=1, reverse=True} (%k.1: i64[], %u.1: f64[3]) {
  %p: f64[3] = pop %k_stack
  %o: f64[3] = cos %p
  yield %u.1
}
return %r
"""
    assert after(body) == (
        """%zero: i64[] = constant {value=0}
%r: f64[3] = for %zero, %n, %x {step=1, reverse=False} (%k: i64[], %u: f64[3]) {
  %w: f64[3] = sin %u
  yield %w
}
return %r"""
    )


def test_effects_stay_and_so_does_their_order() -> None:
    body = """%zero: f64[] = constant {value=0.0}
%c: bool[] = greater %s, %zero
check %c {error='ValueError', message='not positive'}
print %s {format='s = {}'}
print %s {format='s = {}'}
return %x"""
    assert after(body, eliminate_common_subexpressions, hoist_invariants) == body


def test_hoists_what_cannot_fault() -> None:
    body = """
%zero: i64[] = constant {value=0}
%r: f64[3] = for %zero, %n, %x {step=1, reverse=False} (%k: i64[], %u: f64[3]) {
  %two: f64[] = constant {value=2.0}
  %t: f64[] = multiply %two, %s
  %e: f64[] = gather %y, %n {axes=(0,)}
  %f: f64[] = add %t, %e
  %b: f64[3] = broadcast_to %f {shape=(3,)}
  %v: f64[3] = add %u, %b
  yield %v
}
return %r
"""
    # the gather may be out of range, and the loop may not run
    assert after(body, hoist_invariants) == (
        """%zero: i64[] = constant {value=0}
%two: f64[] = constant {value=2.0}
%t: f64[] = multiply %two, %s
%r: f64[3] = for %zero, %n, %x {step=1, reverse=False} (%k: i64[], %u: f64[3]) {
  %e: f64[] = gather %y, %n {axes=(0,)}
  %f: f64[] = add %t, %e
  %b: f64[3] = broadcast_to %f {shape=(3,)}
  %v: f64[3] = add %u, %b
  yield %v
}
return %r"""
    )


@pytest.mark.parametrize("runs", [True, False])
def test_hoists_branches_out_of_loops_that_run(runs: bool) -> None:
    branch = """%t: f64[3] = if %positive () {
  %root: f64[3] = sqrt %y
  yield %root
} () {
  yield %y
}"""
    inner = branch.replace("\n", "\n  ")
    body = f"""
%zero: i64[] = constant {{value=0}}
%five: i64[] = constant {{value=5}}
%low: f64[] = constant {{value=0.0}}
%positive: bool[] = greater %s, %low
%r: f64[3] = for %zero, {"%five" if runs else "%n"}, %x {{step=1, reverse=False}} (%k: i64[], %u: f64[3]) {{
  {inner}
  %v: f64[3] = add %u, %t
  yield %v
}}
return %r
"""
    lines = after(body, hoist_invariants).splitlines()
    assert (branch.splitlines()[0] in lines) == runs


def test_hoists_faulting_operations_out_of_loops_that_run() -> None:
    body = """
%zero: i64[] = constant {value=0}
%five: i64[] = constant {value=5}
%r: f64[] = for %zero, %five, %s {step=1, reverse=False} (%k: i64[], %u: f64[]) {
  %e: f64[] = gather %y, %n {axes=(0,)}
  %v: f64[] = multiply %u, %e
  yield %v
}
return %r
"""
    lines = after(body, hoist_invariants, result="f64[]").splitlines()
    assert lines[2] == "%e: f64[] = gather %y, %n {axes=(0,)}"


def test_parts_that_fill_an_array_are_concatenated() -> None:
    body = """
%a: f64[1] = reshape %s {shape=(1,)}
%b: f64[2] = slice %x {start=(0,), stop=(2,), step=(1,)}
%p: f64[3] = pad %b {low=(1,), high=(0,), interior=(0,)}
%q: f64[3] = add_slice %p, %a {start=(0,), stop=(1,), step=(1,)}
return %q
"""
    assert after(body, canonicalize).splitlines()[2] == "%q: f64[3] = concatenate %a, %b {axis=0}"
    overlapping = body.replace("start=(0,), stop=(1,), step=(1,)}\nreturn", "start=(1,), stop=(2,), step=(1,)}\nreturn")
    assert "concatenate" not in after(overlapping, canonicalize)


def test_parts_of_a_concatenation_are_read_where_they_came_from() -> None:
    body = """
%c: f64[6] = concatenate %x, %y {axis=0}
%a: f64[2] = slice %c {start=(4,), stop=(6,), step=(1,)}
%b: f64[2] = slice %c {start=(2,), stop=(4,), step=(1,)}
%d: f64[2] = add %a, %b
return %d
"""
    lines = after(body, forward_elements, result="f64[2]").splitlines()
    assert lines[:2] == [
        "%c: f64[6] = concatenate %x, %y {axis=0}",
        "%a: f64[2] = slice %y {start=(1,), stop=(3,), step=(1,)}",
    ]


def test_many_writes_into_a_small_array_stay_a_sum() -> None:
    body = """%zero: f64[3] = full {shape=(3,), dtype=f64, value=0.0}
%a: f64[3] = scatter_add %zero, %n, %s {axes=(0,)}
%b: f64[3] = scatter_add %a, %n, %s {axes=(0,)}
%c: f64[3] = scatter_add %b, %n, %s {axes=(0,)}
%d: f64[3] = add %x, %c
return %d"""
    assert after(body, canonicalize) == body


def test_a_branch_knows_what_the_same_side_before_has_passed_on() -> None:
    body = """
%zero: f64[3] = full {shape=(3,), dtype=f64, value=0.0}
%p: bool[] = greater %s, %s
%a: f64[3], %c: f64[3] = if %p () {
  %v: f64[3] = exp %x
  %w: f64[3] = cos %v
  yield %v, %w
} () {
  %u: f64[3] = sin %x
  yield %u, %zero
}
%r: f64[3] = if %p () {
  %k: f64[3] = cos %a
  %e: f64[3] = exp %x
  %q: f64[3] = add %k, %e
  yield %q
} () {
  %k2: f64[3] = cos %a
  %e2: f64[3] = exp %x
  %q2: f64[3] = add %k2, %e2
  yield %q2
}
return %r
"""
    text = after(body, eliminate_common_subexpressions)
    first, _, second = text.partition("%r: ")
    then, _, otherwise = second.partition("} ()")
    assert "add %c, %a" in then and "cos" not in then and "exp" not in then
    assert "cos %a" in otherwise and "exp %x" in otherwise
    assert "cos" in first


def test_invariants_leave_the_branch_of_a_loop() -> None:
    body = """
%zero: i64[] = constant {value=0}
%p: bool[] = greater %s, %s
%total: f64[3] = for %zero, %n, %y {step=1, reverse=False} (%k: i64[], %t: f64[3]) {
  %next: f64[3], %same: f64[3] = if %p () {
    %v: f64[3] = exp %x
    %w: f64[3] = multiply %v, %t
    yield %w, %v
  } () {
    %u: f64[3] = sin %x
    %d: f64[3] = add %t, %u
    yield %d, %x
  }
  %sum: f64[3] = add %next, %same
  yield %sum
}
return %total
"""
    text = after(body, hoist_from_branches)
    before, _, loop = text.partition("for ")
    assert "exp %x" in before and "sin %x" in before and before.count("= if %p") == 1
    assert "exp" not in loop and "sin" not in loop and "multiply" in loop and "if %p" in loop
    assert "%next: f64[3] = if" in loop  # what does not change is no result of the branch in the loop


def test_what_can_fault_stays_in_the_branch_of_a_loop_that_may_not_run() -> None:
    body = """
%zero: i64[] = constant {value=0}
%p: bool[] = greater %s, %s
%total: f64[] = for %zero, %n, %s {step=1, reverse=False} (%k: i64[], %t: f64[]) {
  %next: f64[] = if %p () {
    %v: f64[] = gather %x, %n {axes=(0,)}
    %w: f64[] = add %v, %t
    yield %w
  } () {
    yield %t
  }
  yield %next
}
return %total
"""
    assert "gather" in after(body, hoist_from_branches, result="f64[]").partition("for ")[2]


FILLED = """
%zero: i64[] = constant {value=0}
%four: i64[] = constant {value=4}
%whole: f64[4,2,3] = undefined {type=f64[4,2,3]}
%r: f64[4,2,3] = for %zero, %four, %whole {step=1, reverse=False} (%b: i64[], %c: f64[4,2,3]) {
  %two: i64[] = constant {value=2}
  %start: f64[2,3] = START
  %part: f64[2,3] = for %zero, %two, %start {step=1, reverse=False} (%d: i64[], %p: f64[2,3]) {
    %row: f64[3] = sin %x
    %q: f64[2,3] = scatter_set %p, %d, %row {axes=(0,)}
    yield %q
  }
  %done: f64[4,2,3] = scatter_set %c, %b, %part {axes=(0,)}
  yield %done
}
return %r
"""


def test_a_part_is_filled_where_it_belongs() -> None:
    body = FILLED.replace("START", "undefined {type=f64[2,3]}")
    text = after(body, fill_in_place, result="f64[4,2,3]")
    assert text.count("scatter_set") == 1 and "%b, %d, %row {axes=(0, 1)}" in text and "f64[2,3]" not in text


def test_the_start_of_a_part_that_is_filled_in_place_goes_and_its_name_too() -> None:
    lines = FILLED.replace("START", "undefined {type=f64[2,3]}").strip().replace("\n", "\n  ")
    function = parse_function(
        f"func @f(%x: f64[3], %y: f64[3], %s: f64[], %n: i64[]) -> (f64[4,2,3]) {{\n  {lines}\n}}\n"
    )
    before = print_function(function)
    run_passes(function, [fill_in_place])
    text = print_function(function)
    assert text.count("undefined") == before.count("undefined") - 1
    assert "scatter_set %c.2, %b, %d, %row" in text


def test_a_part_with_a_content_of_its_own_is_filled_first() -> None:
    body = FILLED.replace("START", "full {shape=(2, 3), dtype=f64, value=1.0}")
    assert after(body, fill_in_place, result="f64[4,2,3]").count("scatter_set") == 2


def adding_loop(count: int = 3, place: str = "%k", value: str = "%s") -> str:
    return (
        "%zero: f64[3] = full {shape=(3,), dtype=f64, value=0.0}\n"
        "%i: i64[] = constant {value=0}\n"
        f"%c: i64[] = constant {{value={count}}}\n"
        "%r: f64[3] = for %i, %c, %zero {step=1, reverse=True} (%k: i64[], %w: f64[3]) {\n"
        "  %e: f64[] = gather %w, %k {axes=(0,)}\n"
        f"  %w.1: f64[3] = scatter_add %w, {place}, {value} {{axes=(0,)}}\n"
        "  yield %w.1\n"
        "}\n"
        "return %r"
    )


def test_what_a_loop_adds_once_to_zeros_is_set() -> None:
    text = after(adding_loop(), eliminate_dead_code, set_what_is_added_once)
    assert "scatter_set %w, %k, %s" in text
    assert "undefined" in text
    assert "full" not in text


@pytest.mark.parametrize(
    "body",
    [
        adding_loop(count=2),  # a row stays zero
        adding_loop(place="%n"),  # all iterations add to one row
        adding_loop(value="%e"),  # an iteration reads what others have added
    ],
)
def test_what_a_loop_adds_otherwise_is_added(body: str) -> None:
    text = after(body, eliminate_dead_code, set_what_is_added_once)
    assert "scatter_add" in text
    assert "undefined" not in text


def test_numbers_divided_by_one_stay_as_they_are() -> None:
    body = "%one: i64[] = constant {value=1}\n%r: i64[] = floor_divide %n, %one\nreturn %r"
    assert after(body, fold_constants, result="i64[]") == "return %n"
    body = "%one: f64[] = constant {value=1.0}\n%r: f64[] = floor_divide %s, %one\nreturn %r"
    assert "floor_divide" in after(body, fold_constants, result="f64[]")  # it rounds


def test_casts_and_moves_meet_broadcasts() -> None:
    body = "%b: i64[3] = broadcast_to %n {shape=(3,)}\n%r: f64[3] = cast %b {dtype=f64}\nreturn %r"
    text = after(body, fold_constants)
    assert text.index("cast %n {dtype=f64}") < text.index("broadcast_to")
    body = "%u: f64[] = undefined {type=f64[]}\n%r: f64[3] = broadcast_to %u {shape=(3,)}\nreturn %r"
    assert "undefined {type=f64[3]}" in after(body, fold_constants)


def test_what_a_broadcast_repeats_is_computed_once() -> None:
    body = """
%b: f64[4,3] = broadcast_to %x {shape=(4, 3)}
%two: f64[4,3] = full {shape=(4, 3), dtype=f64, value=2.0}
%t: f64[4,3] = broadcast_to %s {shape=(4, 3)}
%e: f64[4,3] = exp %b
%p: f64[4,3] = power %e, %two
%q: f64[4,3] = divide %p, %t
return %q
"""
    assert after(body, fold_constants, result="f64[4,3]") == (
        "%0: f64[3] = exp %x\n"
        "%1: f64[3] = full {shape=(3,), dtype=f64, value=2.0}\n"
        "%2: f64[3] = power %0, %1\n"
        "%3: f64[3] = broadcast_to %s {shape=(3,)}\n"
        "%4: f64[3] = divide %2, %3\n"
        "%q: f64[4,3] = broadcast_to %4 {shape=(4, 3)}\n"
        "return %q"
    )


def test_what_no_broadcast_repeats_stays() -> None:
    body = """
%a: f64[3,1] = reshape %x {shape=(3, 1)}
%b: f64[3,3] = broadcast_to %a {shape=(3, 3)}
%c: f64[3,3] = broadcast_to %y {shape=(3, 3)}
%d: f64[3,3] = add %b, %c
return %d
"""
    assert after(body, fold_constants, result="f64[3,3]") == body.strip()


def test_a_product_with_a_repeated_reciprocal_is_a_quotient() -> None:
    body = """
%r: f64[] = reciprocal %s
%b: f64[3] = broadcast_to %r {shape=(3,)}
%p: f64[3] = multiply %b, %x
return %p
"""
    assert (
        after(body, fold_constants)
        == "%0: f64[3] = broadcast_to %s {shape=(3,)}\n%p: f64[3] = divide %x, %0\nreturn %p"
    )


def test_a_zero_is_kept_whatever_its_sign() -> None:
    body = "%m: f64[3] = negative %x\n%k: f64[3] = keep_zero %m, %y\nreturn %k"
    assert after(body, fold_constants) == "%k: f64[3] = keep_zero %x, %y\nreturn %k"


def test_known_factors_meet_where_no_rounding_changes() -> None:
    body = """
%half: f64[] = constant {value=0.5}
%a: f64[] = multiply %half, %s
%b: f64[3] = broadcast_to %a {shape=(3,)}
%two: f64[3] = full {shape=(3,), dtype=f64, value=2.0}
%c: f64[3] = multiply %x, %two
%d: f64[3] = divide %c, %y
%e: f64[3] = multiply %b, %d
return %e
"""
    assert after(
        body.replace("%a:", "%0:").replace("%a ", "%0 ").replace("%c", "%1").replace("%b", "%2").replace("%d", "%3"),
        join_factors,
    ) == (
        "%0: f64[3] = divide %x, %y\n%1: f64[3] = broadcast_to %s {shape=(3,)}\n%e: f64[3] = multiply %1, %0\nreturn %e"
    )
    # what has a name is what the name says
    assert after(body, join_factors) == body.strip()


THREE_TENTHS = "%0: f64[3] = full {shape=(3,), dtype=f64, value=0.3}\n"
FACTORS = """%1: f64[3] = full {{shape=(3,), dtype=f64, value={}}}
%2: f64[3] = multiply %0, %x
%3: f64[3] = multiply %2, %y
%4: f64[3] = multiply %3, %1
"""


@pytest.mark.parametrize(
    "body",
    [
        THREE_TENTHS + FACTORS.format(0.7) + "return %4",  # two roundings
        THREE_TENTHS + FACTORS.format(2.0**40) + "return %4",  # y may be tiny
        THREE_TENTHS + FACTORS.format(0.5) + "%5: f64[3] = add %4, %2\nreturn %5",  # needed once more
    ],
)
def test_factors_stay_where_it_would_not_be_the_same_or_less(body: str) -> None:
    assert after(body, join_factors) == body.strip()


def test_the_factor_is_joined_to_the_one_that_is_no_power_of_two() -> None:
    body = THREE_TENTHS + FACTORS.format(0.5) + "return %4"
    assert after(body, join_factors) == (
        "%0: f64[3] = full {shape=(3,), dtype=f64, value=0.15}\n"
        "%1: f64[3] = multiply %0, %x\n%2: f64[3] = multiply %1, %y\nreturn %2"
    )


def test_a_loop_that_stands_twice_is_done_once_and_what_is_dead_stands_for_nothing() -> None:
    loop = """= for %zero, %n, %a {step=1, reverse=False} (%k: i64[], %c: f64[2,2]) {
  %d: f64[2,2] = add %c, %a
  yield %d
}"""
    text = f"""%zero: i64[] = constant {{value=0}}
%dead: f64[2,2] = cholesky %a
%first: f64[2,2] {loop}
%second: f64[2,2] {loop}
%r: f64[2,2] = if %p () {{
  %u: f64[2,2] = cholesky %a
  yield %u
}} () {{
  yield %first
}}
%s: f64[2,2] = add %r, %second
return %s"""
    found = after(text, eliminate_repeated_loops, params="%a: f64[2,2], %n: i64[], %p: bool[]", result="f64[2,2]")
    assert found.count("= for ") == 1
    before, inside = found.split("= if ")
    assert "cholesky" in inside
    assert "cholesky" not in before
