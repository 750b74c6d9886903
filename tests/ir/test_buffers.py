"""Writes in place are never seen: programs run with the memory of the plan against programs that copy everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codegen.evaluate import Evaluator, evaluate
from tests.codegen.programs import arguments, programs
from tracegrad.ir.buffers import BufferPlan, plan_buffers, written_operand
from tracegrad.ir.core import Function, Operation, walk
from tracegrad.ir.parser import parse_function
from tracegrad.ir.verifier import verify_function


class SharingEvaluator(Evaluator):
    """Makes views as NumPy does, and writes where the plan says."""

    def __init__(self, plan: BufferPlan, sizes: dict[str, int]) -> None:
        super().__init__(sizes)
        self.plan = plan

    def keep(self, result: Any) -> Any:
        return np.asarray(result)

    def start(self, loop: Operation, values: list[Any]) -> list[Any]:
        return [v.copy() if (loop, i) in self.plan.copied_inits else v for i, v in enumerate(values)]

    def compute(self, operation: Operation, operands: list[Any]) -> list[Any]:
        if operation in self.plan.copied_views:
            return [r.copy() for r in super().compute(operation, operands)]
        if operation in self.plan.updates and operation.result.shape:
            operands[0][...] = super().compute(operation, operands)[0]
            return operands[:1]
        if written_operand(operation) is None:
            return super().compute(operation, operands)
        array, *rest = operands
        if operation not in self.plan.in_place:
            array = array.copy()
        elif operation in self.plan.overlapping:
            rest = [r.copy() for r in rest]
        if operation.op in ("set_slice", "add_slice"):
            start, stop, step = (operation.attrs[k] for k in ("start", "stop", "step"))
            place: Any = tuple(slice(*s) for s in zip(start, stop, step, strict=True))
            values, target = rest[0], array
        else:
            *indices, values = rest
            place, target = tuple(indices), np.moveaxis(array, operation.attrs["axes"], range(len(indices)))
        if operation.op in ("set_slice", "scatter_set"):
            target[place] = values
        else:
            np.add.at(target, place, values)
        return [array]


def run_sharing(function: Function, values: Sequence[Any], plan: BufferPlan) -> list[Any]:
    """Return the results of a function with the memory of its plan."""
    results = SharingEvaluator(plan, {}).function(function, values)
    return [r.copy() if i in plan.copied_results else r for i, r in enumerate(results)]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(programs(), st.booleans())
def test_writes_are_not_seen(function: Function, for_numpy: bool) -> None:
    verify_function(function)
    values = arguments()
    kept = [v.copy() for v in values]
    results = run_sharing(function, values, plan_buffers(function, for_numpy=for_numpy))
    for result, expected in zip(results, evaluate(function, kept), strict=True):
        np.testing.assert_array_equal(result, expected)
    for value, before in zip(values, kept, strict=True):
        np.testing.assert_array_equal(value, before)
    for position, result in enumerate(results):
        for other in [*values, *results[:position]]:
            assert not result.ndim or not np.shares_memory(result, other)


def planned(text: str) -> tuple[Function, BufferPlan, list[bool]]:
    """Return a function, its plan, and for each write in program order whether it happens in place."""
    function = parse_function("\n".join(line for line in text.splitlines() if line.strip()))
    verify_function(function)
    plan = plan_buffers(function)
    writes = [o for o in walk(function.body) if written_operand(o) is not None]
    return function, plan, [w in plan.in_place for w in writes]


LOOP = """
func @f(%x: f64[4], %n: i64[]) -> (f64[4], f64[]) {{
  %start: i64[] = constant {{value=0}}
  %i: i64[] = constant {{value=1}}
  %one: f64[] = constant {{value=1.0}}
  %a: f64[4] = exp %x
  %b: f64[4] = for %start, %n, {init} {{step=1, reverse=False}} (%k: i64[], %c: f64[4]) {{
    %v: f64[] = gather {read}, %k {{axes=(0,)}}
    %d: f64[4] = scatter_set %c, %k, %v {{axes=(0,)}}
    yield {yields}
  }}
  %s: f64[] = gather {after}, %i {{axes=(0,)}}
  return %b, %s
}}
"""


@pytest.mark.parametrize(
    ("init", "read", "yields", "after", "in_place", "copied"),
    [
        ("%a", "%x", "%d", "%b", True, False),
        ("%a", "%c", "%d", "%b", True, False),
        ("%a", "%x", "%d", "%a", True, True),  # the initial value is used after the loop
        ("%a", "%a", "%d", "%b", True, True),  # and here in every iteration
        ("%x", "%x", "%d", "%b", True, True),  # a parameter is never written to
        ("%a", "%x", "%c", "%b", False, False),  # the old value goes on: nothing but a copy helps
    ],
)
def test_carry_of_a_loop(init: str, read: str, yields: str, after: str, in_place: bool, copied: bool) -> None:
    _, plan, writes = planned(LOOP.format(init=init, read=read, yields=yields, after=after))
    assert writes == [in_place]
    assert bool(plan.copied_inits) == copied


def test_a_view_that_is_read_later_keeps_its_buffer() -> None:
    text = """
    func @f(%x: f64[4,4]) -> (f64[]) {{
      %i: i64[] = constant {{value=1}}
      %v: f64[4] = full {{shape=(4,), dtype=f64, value=2.0}}
      %a: f64[4,4] = exp %x
      %row: f64[4] = gather %a, %i {{axes=(0,)}}
      {early}
      %b: f64[4,4] = scatter_set %a, %i, %v {{axes=(0,)}}
      {late}
      %t: f64[] = reduce_sum %b {{axes=(0, 1)}}
      %u: f64[] = add %s, %t
      return %u
    }}
    """
    read = "%s: f64[] = reduce_sum %row {axes=(0,)}"
    assert planned(text.format(early=read, late=""))[2] == [True]
    assert planned(text.format(early="", late=read))[2] == [False]


def test_what_is_on_a_stack_is_not_written_to() -> None:
    text = """
    func @f(%x: f64[4], %n: i64[]) -> (f64[4]) {{
      %stack: stack<f64[4]> = stack {{element=f64[4], capacity=None}}
      %start: i64[] = constant {{value=0}}
      %one: f64[] = constant {{value=1.0}}
      %a: f64[4] = exp %x
      %b: f64[4] = for %start, %n, %a {{step=1, reverse=False}} (%k: i64[], %c: f64[4]) {{
        {push}
        %d: f64[4] = scatter_add %c, %k, %one {{axes=(0,)}}
        yield %d
      }}
      {pop}
      return %b
    }}
    """
    assert planned(text.format(push="", pop=""))[2] == [True]
    used = text.format(push="push %stack, %c", pop="%p: f64[4] = pop %stack").replace("return %b", "return %p")
    assert planned(used)[2] == [False]


def test_results_are_apart() -> None:
    _, plan, _ = planned(
        """
        func @f(%x: f64[4], %s: f64[]) -> (f64[4], f64[4], f64[4], f64[2,2], f64[2,2]) {
          %a: f64[4] = exp %x
          %b: f64[2,2] = reshape %a {shape=(2, 2)}
          %c: f64[2,2] = broadcast_to %s {shape=(2, 2)}
          return %x, %a, %a, %b, %c
        }
        """
    )
    assert plan.copied_results == {0, 2, 3, 4}


def test_the_values_written_may_lie_in_the_array() -> None:
    _, plan, writes = planned(
        """
        func @f(%x: f64[4]) -> (f64[4]) {
          %a: f64[4] = exp %x
          %part: f64[3] = slice %a {start=(0,), stop=(3,), step=(1,)}
          %b: f64[4] = set_slice %a, %part {start=(1,), stop=(4,), step=(1,)}
          return %b
        }
        """
    )
    assert writes == [True]
    assert len(plan.overlapping) == 1


def test_a_small_view_is_copied_rather_than_its_array() -> None:
    function, _, writes = planned(
        """
        func @f(%x: f64[4,4]) -> (f64[4], f64[4,4]) {
          %i: i64[] = constant {value=1}
          %zeros: f64[4] = full {shape=(4,), dtype=f64, value=0.0}
          %a: f64[4,4] = exp %x
          %row: f64[4] = gather %a, %i {axes=(0,)}
          %b: f64[4,4] = scatter_set %a, %i, %zeros {axes=(0,)}
          return %row, %b
        }
        """
    )
    assert writes == [False]
    plan = plan_buffers(function, for_numpy=True)
    assert [o.op for o in plan.copied_views] == ["gather"]
    assert [o.op for o in plan.in_place] == ["scatter_set"]
    assert plan.copied_results == set()
    row, b = run_sharing(function, [np.zeros((4, 4))], plan)
    np.testing.assert_array_equal(row, np.ones(4))
    np.testing.assert_array_equal(b[1], np.zeros(4))


@pytest.mark.parametrize("pushed", ["%d", "%c"])
def test_what_an_earlier_iteration_pushed_is_not_written_to(pushed: str) -> None:
    function, plan, writes = planned(
        f"""
        func @f(%x: f64[4], %n: i64[]) -> (f64[4], f64[4]) {{
          %stack: stack<f64[4]> = stack {{element=f64[4], capacity=None}}
          %start: i64[] = constant {{value=0}}
          %one: f64[] = constant {{value=1.0}}
          %a: f64[4] = exp %x
          %b: f64[4] = for %start, %n, %a {{step=1, reverse=False}} (%k: i64[], %c: f64[4]) {{
            %e: f64[4] = scatter_add %c, %k, %one {{axes=(0,)}}
            %d: f64[4] = negative %e
            push %stack, {pushed}
            yield %d
          }}
          %p: f64[4] = pop %stack
          %q: f64[4] = pop %stack
          return %p, %q
        }}
        """
    )
    # %c of an iteration is %d of the one before, which is on the stack
    assert writes == [False]
    values = [np.zeros(4), np.int64(3)]
    for result, expected in zip(run_sharing(function, values, plan), evaluate(function, values), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_buffer_made_by_an_iteration_is_not_that_of_the_one_before() -> None:
    _, _, writes = planned(
        """
        func @f(%x: f64[9], %n: i64[]) -> (f64[9]) {
          %start: i64[] = constant {value=0}
          %zeros: f64[3] = full {shape=(3,), dtype=f64, value=0.0}
          %b: f64[9] = for %start, %n, %x {step=1, reverse=False} (%k: i64[], %c: f64[9]) {
            %d: f64[9] = set_slice %c, %zeros {start=(1,), stop=(4,), step=(1,)}
            %part: f64[3] = slice %c {start=(1,), stop=(4,), step=(1,)}
            %e: f64[9] = add_slice %d, %part {start=(2,), stop=(5,), step=(1,)}
            %twice: f64[3] = add %part, %part
            %g: f64[9] = add_slice %e, %twice {start=(2,), stop=(5,), step=(1,)}
            yield %g
          }
          return %b
        }
        """
    )
    # the first write copies, since %c is read after it; the others write to that copy
    assert writes == [False, True, True]


@pytest.mark.parametrize(
    ("start", "returned", "in_place"),
    [
        ("exp %x", "%b", True),
        ("exp %x", "%a", False),
        ("exp %x", "%half", False),
        ("reshape %x {shape=(4,)}", "%b", False),
        ("broadcast_to %one {shape=(4,)}", "%b", False),
    ],
)
def test_operators_write_in_place_where_nothing_sees_it(start: str, returned: str, in_place: bool) -> None:
    function, plan, _ = planned(
        f"""
        func @f(%x: f64[4]) -> (f64[4], f64[{2 if returned == "%half" else 4}]) {{
          %one: f64[] = constant {{value=1.0}}
          %a: f64[4] = {start}
          %half: f64[2] = slice %a {{start=(0,), stop=(2,), step=(1,)}}
          %a.1: f64[4] = multiply %a, %x
          %b: f64[4] = exp %x
          return %a.1, {returned}
        }}
        """
    )
    assert plan.updates == set()
    plan = plan_buffers(function, for_numpy=True)
    assert [o.result.name for o in plan.updates] == ["a"] * in_place
    x = np.arange(4.0)
    expected = evaluate(function, [x.copy()])
    for result, value in zip(run_sharing(function, [x], plan), expected, strict=True):
        np.testing.assert_array_equal(result, value)


def test_a_chosen_number_may_be_the_one_that_it_was_chosen_from() -> None:
    function, _, _ = planned(
        """
        func @f(%x: f64[], %y: f64[], %c: bool[]) -> (f64[], f64[]) {
          %a: f64[] = select %c, %x, %y
          %a.1: f64[] = add %a, %y
          return %a.1, %a
        }
        """
    )
    plan = plan_buffers(function, for_numpy=True)
    assert not plan.updates
    assert plan.copied_results == {1}
