"""Reverse mode: from a function to one that also computes the cotangents of its parameters.

IR in, IR out. Previous: cotangents.py.

The cotangent sweep is appended to a copy of the primal; it visits the operations backwards and applies their rules,
which are plain calls of ops. The result is ordinary IR, so the transform applies to it again.

- The reverse of an `if` is an `if` on the same condition; of a `for`, a `for` in the other direction; of a `while`, a
  `for` over the number of iterations, which the primal counts.
- A reverse block is first built with free references to values of its primal block. Those it turns out to need are then
  recomputed from what is kept (residuals.py). A branch keeps a value as another result of the primal `if`, a loop on a
  stack, pushed in each iteration and popped in the reverse one. Stacks are made at the top of the function, so that
  nested loops share one.
- A stack of active values has a shadow, a stack of cotangents: the reverse of a pop pushes a cotangent onto the shadow,
  and the reverse of the push pops it. Both sweeps run through all iterations, so the shadow is empty at the end.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracegrad.errors import ArgumentError, ArgumentTypeError, NotDifferentiableError, Span
from tracegrad.ir.bounds import size_guess, static_value, trip_count
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import (
    Block,
    Function,
    Operation,
    Value,
    clone_function,
    clone_operation,
    free_values,
    substitute,
    walk,
)
from tracegrad.ir.inline import inline_body, inline_calls, is_inlinable
from tracegrad.ir.liveness import defined_in, remove_dead, remove_dead_from
from tracegrad.ir.nouns import noun_of
from tracegrad.ir.opdef import BY_TRANSFORM, TABLE, interpreter
from tracegrad.ir.types import I64, ArrayType, Dim, StackType, dtype_name, is_float, is_inexact
from tracegrad.ops.common import conjugate_if_complex, vjp_of
from tracegrad.ops.elementwise import add, barrier, logical_or, multiply, not_equal
from tracegrad.ops.reduce import reduce_any
from tracegrad.transform.activity import Activity, analyze_activity, carries_derivative
from tracegrad.transform.cotangents import Cotangents, name_cotangent, zeros
from tracegrad.transform.masks import ZeroGuard, find_masked
from tracegrad.transform.residuals import Plan, find_kept, plan_residuals
from tracegrad.transform.slopes import slope_of_power, slope_of_quotient


def vjp(
    function: Function, wrt: Sequence[int], *, outputs: Sequence[int] | None = None, keep_primal: bool = True
) -> Function:
    """Return the function that maps parameters and cotangents of the results to cotangents of some parameters.

    Args:
        function: is left as it is.
        wrt: positions of the parameters to differentiate by.
        outputs: positions of the results that have cotangents; None for all of inexact dtype.
        keep_primal: whether the results of the function come first among the results.

    Returns:
        Function `vjp_<name>`. Its parameters are those of `function`, then `ct_<result>` for each result with a
        cotangent.

    Raises:
        ArgumentTypeError: a parameter in `wrt` is of integer or bool dtype.
        NotDifferentiableError: an operation on the way from a parameter to a result has no derivative.
    """
    result = prepare_function(function, wrt)
    seeds: dict[int, Value] = {}
    for position, value in enumerate(result.results):
        if is_inexact(value.dtype) if outputs is None else position in outputs:
            seeds[position] = Value(value.type, f"ct_{value.name or 'result'}")
            seeds[position].origin = value.origin
    primal_params = list(result.params)
    result.body.params.extend(seeds.values())
    _sweep(result, [primal_params[i] for i in wrt], seeds, keep_primal, seeds_may_be_zero=True)
    result.name = f"vjp_{function.name}"
    return result


def gradient(function: Function, wrt: Sequence[int], result: int = 0, *, keep_primal: bool = True) -> Function:
    """Return the function that computes the gradient of one scalar result.

    Args:
        function: is left as it is.
        wrt: positions of the parameters to differentiate by.
        result: position of the scalar result.
        keep_primal: whether all results of the function come first among the results.

    Raises:
        ArgumentError: the result is not a scalar of float dtype.
        ArgumentTypeError: a parameter in `wrt` is of integer or bool dtype.
        NotDifferentiableError: an operation on the way from a parameter to the result has no derivative.
    """
    kind = function.results[result].array_type
    if kind.ndim != 0 or not is_float(kind.dtype):
        raise ArgumentError(
            "a gradient is taken of a real scalar",
            code="TG210",
            span=_span_of(function.results[result]),
            found=f"result {result} of {function.name}: {kind}",
            help="reduce it to a scalar, with np.sum for instance, or use a VJP or a Jacobian",
        )
    copy = prepare_function(function, wrt)
    builder = Builder(copy.body)
    seed = builder.apply(TABLE["full"], (), {"shape": (), "dtype": kind.dtype, "value": 1.0})
    _sweep(copy, [copy.params[i] for i in wrt], {result: seed}, keep_primal, seeds_may_be_zero=False)
    copy.name = f"grad_{function.name}"
    return copy


def no_rule(operation: Operation) -> NotDifferentiableError:
    """Return the error for a callback without a rule that the derivative would pass through."""
    name = operation.attrs["name"].rpartition("_")[0]
    rule, is_numeric, function = name.partition("_of_")
    if is_numeric and rule in ("complex_step", "finite_difference"):
        return NotDifferentiableError(
            "a callback with a numeric rule has no second derivative",
            code="TG237",
            span=operation.span,
            found=f"the {rule.replace('_', ' ')} of {function} on the way from an input to the result",
            help="give tg.pure_callback a function as its rule, which is differentiated like other code; or cut the "
            "way with tg.stop_gradient",
        )
    return NotDifferentiableError(
        "a callback has no rule for its derivative",
        code="TG237",
        span=operation.span,
        found=f"{name} on the way from an input to the result",
        help='give tg.pure_callback a rule: "finite-difference", "complex-step" or a function; or cut the way '
        "with tg.stop_gradient",
    )


def prepare_function(function: Function, wrt: Sequence[int]) -> Function:
    """Return a copy of a function to differentiate, with calls inlined; check that the parameters `wrt` are floating
    point."""
    for position in wrt:
        param = function.params[position]
        if not is_inexact(param.dtype):
            raise ArgumentTypeError(
                "a derivative is taken with respect to floating-point values",
                code="TG211",
                span=None,
                found=f"parameter {param.name or position} of {function.name} has dtype {dtype_name(param.dtype)}",
                help="pass it as an array of floats, or leave it out",
            )
    copy = clone_function(function)
    copy.interface = None
    inline_calls(copy, lambda operation: operation.op == "call" and is_inlinable(operation))
    for value in _values_of(copy):
        value.origin = next(_origins)
    return copy


#: no number is given twice, so that values of functions that are put into one another stay apart
_origins = itertools.count(1)


def _values_of(function: Function) -> Iterator[Value]:
    yield from function.params
    for operation in walk(function.body):
        yield from operation.results
        for block in operation.blocks:
            yield from block.params


def _sweep(
    function: Function, wrt: list[Value], seeds: dict[int, Value], keep_primal: bool, seeds_may_be_zero: bool
) -> None:
    """Append the cotangent sweep to a function, in place, and set its results."""
    results = list(function.results)
    _move_into_loops(function.body)
    activity = analyze_activity(function, wrt, [results[i] for i in seeds], seeds_may_be_zero)
    outputs = run_forward_rules(function, activity.active)
    builder = Builder(function.body)
    cts = Cotangents(builder)
    masks = find_masked(function, activity.active, [results[i] for i in seeds])
    guard = ZeroGuard(builder, function, activity, masks)
    with interpreter(builder):
        for position, seed in seeds.items():
            if results[position] in activity.active:
                cts.add(results[position], seed)
        _Sweep(function, builder, activity, outputs, guard, masks.avoided).block(function.body, cts)
        builder.span = None
        gradients = [cts.get(param) or _zeros_for(builder, param) for param in wrt]
    function.body.yields = [*(results if keep_primal else []), *gradients]
    inline_calls(function, lambda operation: operation in outputs)
    remove_dead(function)


#: arrays of at most so many elements are added up as they are, and reduced after the loop: in NumPy a sum takes longer
#: than such an addition, in C additions of elements do not wait for one another
_SMALL = 1024


def _move_into_loops(block: Block) -> None:
    """Repeat in the bodies of loops the moves of elements of outer values that they read.

    The reverse then adds up the cotangents of what was moved, a scalar rather than a large array filled with it.
    """
    for operation in block.operations:
        for nested in operation.blocks:
            if operation.op in ("for", "while"):
                _move_into(nested)
            _move_into_loops(nested)


def _move_into(body: Block) -> None:
    moved: set[Value] = set()
    while True:
        made = [v.producer for v in free_values(body) if carries_derivative(v) and v.producer is not None]
        moves = [o for o in made if _is_better_inside(o) or (o.op == "reshape" and o.result in moved)]
        if not moves:
            break
        mapping: dict[Value, Value] = {}
        repeated = [clone_operation(o, mapping) for o in moves]
        substitute(body, mapping)
        body.operations[:0] = repeated
        moved.update(v for o in repeated for v in o.operands)


def _is_better_inside(operation: Operation) -> bool:
    """Return whether a cotangent that goes through an operation inside a loop is smaller, or a sum already."""
    large = operation.op == "broadcast_to" and size_guess(operation.result.shape) > _SMALL
    return large or operation.op == "transpose"


def _zeros_for(builder: Builder, primal: Value) -> Value:
    ct = zeros(builder, primal.array_type)
    name_cotangent(ct, primal)
    return ct


def _in_sweep(span: Span | None) -> Span | None:
    return None if span is None else replace(span, reverse=True)


def _span_of(value: Value) -> Span | None:
    return value.producer.span if value.producer is not None else None


class _Sweep:
    """Stages the reverse of blocks; adds to the primal what the reverse needs of it."""

    def __init__(
        self,
        function: Function,
        builder: Builder,
        activity: Activity,
        outputs: dict[Operation, int],
        guard: ZeroGuard,
        avoided: set[Operation],
    ) -> None:
        self.function, self.builder, self.activity, self.outputs = function, builder, activity, outputs
        self.guard, self.avoided = guard, avoided
        self.kept = find_kept(function)
        self.shadows: dict[Value, Value] = {}
        self.loops: list[Operation] = []
        self.stack_users: dict[Value, list[Operation]] = {}
        for operation in walk(function.body):
            if operation.op in ("push", "pop"):
                self.stack_users.setdefault(operation.operands[0], []).append(operation)
        #: stack of the primal -> the reverse of the loop that pops it, and what it has there again
        self.read_again: dict[Value, tuple[Block, Value]] = {}
        self.zero_value: Value | None = None
        self.hoisted = 0

    def block(self, block: Block, cts: Cotangents) -> None:
        """Carry cotangents from the results of a block's operations to what they were computed from."""
        for operation in reversed(tuple(block.operations)):
            self.builder.span = _in_sweep(operation.span)
            match operation.op:
                case "if":
                    self.branches(operation, cts)
                case "for" | "while":
                    self.loop(operation, cts)
                case "push":
                    self.push(operation, cts)
                case "pop":
                    self.pop(operation, cts)
                case "custom_vjp" | "custom_jvp":
                    self.custom(operation, cts)
                case "call":
                    self.call(operation, cts)
                case "checkpoint":
                    self.checkpoint(operation, cts)
                case _:
                    self.plain(operation, cts)

    def is_active(self, value: Value) -> bool:
        return value in self.activity.active

    def plain(self, operation: Operation, cts: Cotangents) -> None:
        result_cts = [cts.take(r) if self.is_active(r) else None for r in operation.results]
        if all(ct is None for ct in result_cts):
            return
        op = TABLE[operation.op]
        if op.marker is BY_TRANSFORM:
            raise no_rule(operation)
        for result, ct in zip(operation.results, result_cts, strict=True):
            if ct is not None:
                self.guard.note(result, ct)
        power = slope_of_power(operation)
        if power is not None and result_cts[0] is not None:
            self.add_slope(operation, *power, result_cts[0], cts)
            return
        quotient = slope_of_quotient(operation)
        if quotient is not None and result_cts[0] is not None:
            self.add_slope(operation, *quotient, result_cts[0], cts)
        operands = self.guard.operands(operation, result_cts[0])
        scale = self.guard.product(operation) if op.partials is not None else False
        choice = self.guard.outside(operation, result_cts[0])
        if choice is not None:
            result_cts = [choice.kept]
        contributions = vjp_of(op, result_cts, operation.results, operands, operation.attrs, guard=scale)
        done = operation.operands[-1] if quotient is not None else None
        for operand, contribution in zip(operation.operands, contributions, strict=True):
            if contribution is not None and self.is_active(operand) and operand is not done:
                cts.add(operand, contribution if choice is None else choice.around(contribution))

    def add_slope(self, operation: Operation, base: Value, slope: Value, ct: Value, cts: Cotangents) -> None:
        """Add the contribution of a result to the base of the power that it is, or is divided by."""
        if self.is_active(base):
            scale = self.guard.product(operation)
            cts.add(base, scale(len(operation.operands) - 1, ct, conjugate_if_complex(slope)))

    def custom(self, operation: Operation, cts: Cotangents) -> None:
        """Apply the reverse rule of a call, or the transpose of its forward rule."""
        outs = operation.results[: self.outputs.get(operation, len(operation.results))]
        given = [cts.take(out) if self.is_active(out) else None for out in outs]
        if all(ct is None for ct in given):
            return
        refuse_outer_values(operation, self.activity.active, len(outs))
        seeds = [
            ct or zeros(self.builder, out.array_type)
            for out, ct in zip(outs, given, strict=True)
            if carries_derivative(out)
        ]
        arguments, others = split_operands(operation)
        if operation.op == "custom_vjp":
            inputs = [*operation.results[len(outs) :], *seeds, *others]
            found = inline_body(self.builder.block, self.function, operation.attrs["backward"], inputs)
        else:
            tangents = [zeros(self.builder, v.array_type) for v in arguments if carries_derivative(v)]
            inputs = [*arguments, *tangents, *others, *seeds]
            found = inline_body(self.builder.block, self.function, transpose_rule(operation), inputs)
        for argument, ct in zip(filter(carries_derivative, arguments), found, strict=True):
            if self.is_active(argument):
                cts.add(argument, ct)

    def _seeds(self, operation: Operation, cts: Cotangents) -> list[Value] | None:
        """Take the cotangents of the results, zeros where there is none; None when there are none at all."""
        given = [cts.take(r) if self.is_active(r) else None for r in operation.results]
        if all(ct is None for ct in given):
            return None
        pairs = zip(operation.results, given, strict=True)
        return [ct or zeros(self.builder, r.array_type) for r, ct in pairs if carries_derivative(r)]

    def checkpoint(self, operation: Operation, cts: Cotangents) -> None:
        """Run the function of a checkpoint again, from its operands, and reverse it."""
        seeds = self._seeds(operation, cts)
        if seeds is None:
            return
        operands = operation.operands
        wrt = [i for i, v in enumerate(operands) if self.is_active(v) and isinstance(v.type, ArrayType)]
        reverse = vjp(without_prints(operation.attrs["function"]), wrt, keep_primal=False)
        # else the second run would share its values with the first, and these would be kept
        again = [barrier(v) if isinstance(v.type, ArrayType) else v for v in operands]
        found = inline_body(self.builder.block, self.function, reverse, [*again, *seeds])
        for position, ct in zip(wrt, found, strict=True):
            cts.add(operands[position], ct)

    def call(self, operation: Operation, cts: Cotangents) -> None:
        """Call the reverse of a recursive function, which runs the function again up to the calls in it."""
        seeds = self._seeds(operation, cts)
        if seeds is None:
            return
        operands = operation.operands
        wrt = tuple(i for i, v in enumerate(operands) if self.is_active(v) and isinstance(v.type, ArrayType))
        attrs = {"function": reverse_of(operation.attrs["function"], wrt)}
        reverse = self.builder.append("call", [*operands, *seeds], attrs, [], [operands[i].type for i in wrt])
        for position, ct in zip(wrt, reverse.results, strict=True):
            cts.add(operands[position], ct)

    def push(self, operation: Operation, cts: Cotangents) -> None:
        stack, value = operation.operands
        if self.is_active(stack):
            ct = self.builder.apply(TABLE["pop"], (self.shadow(stack),), {})
            ct.name, ct.origin = f"ct_{_name_of(value)}", value.origin
            if self.is_active(value):
                cts.add(value, ct)

    def pop(self, operation: Operation, cts: Cotangents) -> None:
        stack = operation.operands[0]
        if self.is_active(stack):
            ct = cts.take(operation.result)
            if ct is None:
                ct = zeros(self.builder, operation.result.array_type)
            self.builder.apply(TABLE["push"], (self.shadow(stack), ct), {})

    def shadow(self, stack: Value) -> Value:
        """Return the stack of cotangents that belongs to a stack."""
        if stack not in self.shadows:
            assert isinstance(stack.type, StackType), "only stacks have shadows"
            assert stack.producer is not None, "stacks are made by operations"
            capacity = stack.producer.attrs["capacity"]
            self.shadows[stack] = self.stack(stack.type.element, capacity, f"ct_{stack.name}" if stack.name else "")
        return self.shadows[stack]

    def stack(self, element: ArrayType, capacity: Dim | None, name: str) -> Value:
        """Make a stack at the top of the function."""
        attrs = {"element": element, "capacity": capacity}
        operation = Operation("stack", [], attrs, [], [StackType(element)], self.builder.span)
        operation.result.name = name
        self.hoist(operation)
        return operation.result

    def moves_cotangents(self, operation: Operation) -> bool:
        """Return whether a block of the operation pushes or pops active values: its reverse must then do so too."""
        return any(
            o.op in ("push", "pop") and self.is_active(o.operands[0]) for block in operation.blocks for o in walk(block)
        )

    def active_free_values(self, blocks: Sequence[Block]) -> list[Value]:
        free = dict.fromkeys(v for block in blocks for v in free_values(block))
        return [v for v in free if self.is_active(v) and isinstance(v.type, ArrayType)]

    def branches(self, operation: Operation, cts: Cotangents) -> None:
        result_cts = [cts.take(r) if self.is_active(r) else None for r in operation.results]
        if all(ct is None for ct in result_cts) and not self.moves_cotangents(operation):
            return
        span = operation.span
        outer = self.active_free_values(operation.blocks)
        start = {v: ct for v in outer if (ct := cts.get(v)) is not None}
        reverses: list[Block] = []
        ends: list[dict[Value, Value | None]] = []
        for block in operation.blocks:
            reverse = Block()
            branch_cts = Cotangents(self.builder, start)
            with self.builder.into(reverse):
                for out, ct in zip(block.yields, result_cts, strict=True):
                    if ct is not None and self.is_active(out):
                        branch_cts.add(out, ct)
                self.block(block, branch_cts)
                ends.append({v: branch_cts.get(v) for v in outer})
            reverses.append(reverse)
        touched = [v for v in outer if any(end[v] is not start.get(v) for end in ends)]
        self.builder.span = _in_sweep(span)
        for reverse, end in zip(reverses, ends, strict=True):
            with self.builder.into(reverse):
                for value in touched:
                    ct = end[value]
                    reverse.yields.append(zeros(self.builder, value.array_type) if ct is None else ct)
            remove_dead_from(reverse, keep_stacks=True)
        if not any(reverse.operations or reverse.yields for reverse in reverses):
            return
        self.keep_in_branches(operation, reverses)
        reversed_if = self.builder.append("if", operation.operands[:1], {}, reverses, [v.type for v in touched])
        for value, ct in zip(touched, reversed_if.results, strict=True):
            cts.set(value, ct)

    def keep_in_branches(self, operation: Operation, reverses: list[Block]) -> None:
        """Give the reverse branches what they need of the primal ones: recomputed, or as further results of the `if`.

        Values of one type from both branches share a result; where one branch has none it yields `undefined`.
        """
        around = defined_in(self.loops[-1].blocks[-1]) if self.loops else set()
        outer = {v for v in around if isinstance(v.type, ArrayType) and v.type.ndim}
        pairs = zip(operation.blocks, reverses, strict=True)
        plans = [_plan(block, reverse, self.kept, outer=outer) for block, reverse in pairs]
        # what a branch yields already is at hand
        mappings = [dict(zip(block.yields, operation.results, strict=True)) for block in operation.blocks]
        missing = [[v for v in plan.stored if v not in m] for plan, m in zip(plans, mappings, strict=True)]
        mappings = [{v: m[v] for v in plan.stored if v in m} for plan, m in zip(plans, mappings, strict=True)]
        for values in _pair_by_type(*missing):
            kept = next(v for v in values if v is not None)
            result = kept.twin(operation)
            operation.results.append(result)
            for block, value, mapping in zip(operation.blocks, values, mappings, strict=True):
                if value is None:
                    value = Builder(block).append("undefined", [], {"type": kept.type}, [], [kept.type]).result
                else:
                    mapping[value] = result
                block.yields.append(value)
        for plan, reverse, mapping in zip(plans, reverses, mappings, strict=True):
            _recompute(plan, reverse, mapping)

    def loop(self, operation: Operation, cts: Cotangents) -> None:
        result_cts = [cts.take(r) if self.is_active(r) else None for r in operation.results]
        if all(ct is None for ct in result_cts) and not self.moves_cotangents(operation):
            return
        first, shift = (2, 1) if operation.op == "for" else (0, 0)
        body, span = operation.blocks[-1], operation.span
        inits, params = operation.operands[first:], body.params[shift:]
        # what only the last iteration sets is active as a result, but not as a parameter of the body
        pairs = enumerate(zip(params, operation.results, strict=True))
        carried = [i for i, (param, result) in pairs if self.is_active(param) or self.is_active(result)]
        outer = self.active_free_values([body])
        # the reverse carries the cotangents of active carries, then those of active values from outside
        primals = [*(params[i] for i in carried), *outer]
        incoming = [*(result_cts[i] for i in carried), *(cts.get(v) for v in outer)]
        reverse = Block([Value(v.type, f"ct_{_name_of(v)}" if _name_of(v) else "") for v in primals])
        for param, primal in zip(reverse.params, primals, strict=True):
            param.origin = primal.origin
        body_cts = Cotangents(self.builder, dict(zip(outer, reverse.params[len(carried) :], strict=True)))
        self.loops.append(operation)
        with self.builder.into(reverse):
            for i, ct in zip(carried, reverse.params, strict=False):
                if self.is_active(body.yields[i]):
                    body_cts.add(body.yields[i], ct)
            self.block(body, body_cts)
            self.builder.span = _in_sweep(span)
            reverse.yields = [body_cts.get(v) or zeros(self.builder, v.array_type) for v in primals]
        is_avoided = operation in self.avoided
        reached = self.any_nonzero([ct for ct in result_cts if ct is not None]) if is_avoided else None
        finals = self.reverse_loop(operation, reverse, incoming)
        if reached is not None:
            finals = self.where(reached, finals, incoming)
        self.loops.pop()
        for value, final in zip(outer, finals[len(carried) :], strict=True):
            if final is not None:
                cts.set(value, final)
        for i, final in zip(carried, finals, strict=False):
            if final is not None and self.is_active(inits[i]):
                cts.add(inits[i], final)

    def any_nonzero(self, cts: Sequence[Value]) -> Value:
        """Stage whether an element of some cotangents is not zero."""
        tests = [not_equal(ct, zeros(self.builder, ct.array_type)) for ct in cts]
        tests = [reduce_any(t, axes=tuple(range(t.array_type.ndim))) if t.array_type.ndim else t for t in tests]
        found: Value = functools.reduce(logical_or, tests)
        found.name = "reached"
        return found

    def where(
        self, condition: Value, values: Sequence[Value | None], others: Sequence[Value | None]
    ) -> list[Value | None]:
        """Stage values where a condition holds, and else others; None is zero."""
        found = list(values)
        chosen = [
            (i, x, y) for i, (x, y) in enumerate(zip(values, others, strict=True)) if x is not None and x is not y
        ]
        blocks = [Block(), Block()]
        blocks[0].yields = [x for _, x, _ in chosen]
        with self.builder.into(blocks[1]):
            blocks[1].yields = [zeros(self.builder, x.array_type) if y is None else y for _, x, y in chosen]
        operation = self.builder.append("if", [condition], {}, blocks, [x.type for _, x, _ in chosen])
        for (i, x, _), result in zip(chosen, operation.results, strict=True):
            result.name = x.name
            found[i] = result
        return found

    def reverse_loop(
        self, operation: Operation, reverse: Block, incoming: Sequence[Value | None]
    ) -> Sequence[Value | None]:
        """Stage the reverse of a loop; return the final value of each parameter of the reverse block.

        Args:
            reverse: its block, without index and residuals yet.
            incoming: initial values of its parameters; None is zero.
        """
        finals = list(incoming)
        keep: list[int] = []
        for i, (param, end) in enumerate(zip(reverse.params, reverse.yields, strict=True)):
            if end is param:
                # passed on as it came, so it need not be carried
                substitute(reverse, {param: incoming[i] or zeros(self.builder, param.array_type)})
            else:
                keep.append(i)
        params = [reverse.params[i] for i in keep]
        reverse.yields = [reverse.yields[i] for i in keep]
        remove_dead_from(reverse, keep_stacks=True)
        if not reverse.operations and not keep:
            return finals
        index = operation.blocks[0].params[0].twin() if operation.op == "for" else Value(ArrayType(I64), "k")
        reverse.params = [index, *params]
        self.keep_in_loop(operation, reverse)
        if operation.op == "for":
            bounds, step, backwards = operation.operands[:2], operation.attrs["step"], not operation.attrs["reverse"]
        else:
            bounds, step, backwards = [self.zero(), self.count_trips(operation)], 1, True
        inits = [incoming[i] or zeros(self.builder, reverse.params[1 + n].array_type) for n, i in enumerate(keep)]
        loop = self.builder.append(
            "for", [*bounds, *inits], {"step": step, "reverse": backwards}, [reverse], [v.type for v in inits]
        )
        for i, result in zip(keep, loop.results, strict=True):
            finals[i] = result
        return finals

    def keep_in_loop(self, operation: Operation, reverse: Block) -> None:
        """Give a reverse body what it needs of the primal one: recomputed, or pushed there and popped here."""
        body = operation.blocks[-1]
        start = Block()
        with self.builder.into(start):
            mapping = self.known_from_index(operation, reverse.params[0])
        plan = _plan(body, reverse, self.kept, tuple(mapping))
        pops = start.operations
        pushes: dict[Value, list[Operation]] = {}
        for pushed in body.operations:
            if pushed.op == "push":
                pushes.setdefault(pushed.operands[1], []).append(pushed)
        for value in reversed(plan.stored):
            stack = self.stack(value.array_type, self.capacity(), f"{_name_in(body, value)}_stack")
            span = value.producer.span if value.producer is not None else operation.span
            place, known = self.last_read(pushes.get(value, ())) or (body, value)
            position = place.operations.index(known.producer) + 1 if known.producer is not None else 0
            place.operations.insert(position, Operation("push", [stack, known], {}, [], [], span))
            pop = Operation("pop", [stack], {}, [], [value.type], span)
            pop.result.name = value.name or _carry_name(body, value)
            pop.result.origin = stack.origin = value.origin
            mapping[value] = pop.result
            pops.append(pop)
            if value.producer is not None and value.producer.op == "pop" and self.is_pushed_once(value.producer):
                self.read_again[value.producer.operands[0]] = reverse, pop.result
        _recompute(plan, reverse, mapping)
        reverse.operations[:0] = pops

    def is_pushed_once(self, pop: Operation) -> bool:
        """Return whether one operation pushes what another pops."""
        return sorted(o.op for o in self.stack_users[pop.operands[0]]) == ["pop", "push"]

    def last_read(self, pushes: Sequence[Operation]) -> tuple[Block, Value] | None:
        """Return where a value of the body of a loop is known last before the reverse body needs it, and as what; None
        where it is known in the body only.

        When the loop pushes it for another, whose reverse has read it again, that is where: the reverse of a loop that
        pops goes through the iterations in the order of the one that pushes.
        """
        return next((self.read_again[o.operands[0]] for o in pushes if o.operands[0] in self.read_again), None)

    def count_trips(self, operation: Operation) -> Value:
        """Return the number of iterations of a `while`, as a result of it; a counter that is there is used."""
        found = _find_counter(operation)
        if found is not None:
            return found
        condition, body = operation.blocks
        kind = ArrayType(I64)
        operation.operands.append(self.zero())
        condition.params.append(Value(kind, "trips"))
        body.params.append(Value(kind, "trips"))
        builder = Builder(body)
        builder.span = operation.span
        count = builder.apply(TABLE["add"], (body.params[-1], np.int64(1)), {})
        count.name = "trips"
        body.yields.append(count)
        operation.results.append(Value(kind, "trips", operation))
        operation.results[-1].origin = next(_origins)
        return operation.results[-1]

    def zero(self) -> Value:
        """Return the integer 0, visible everywhere."""
        if self.zero_value is None:
            constant = Operation("constant", [], {"value": np.array(0, np.int64)}, [], [ArrayType(I64)])
            self.hoist(constant)
            self.zero_value = constant.result
        return self.zero_value

    def hoist(self, operation: Operation) -> None:
        """Put an operation at the top of the function, after those put there before."""
        self.function.body.operations.insert(self.hoisted, operation)
        self.hoisted += 1

    def known_from_index(self, operation: Operation, index: Value) -> dict[Value, Value]:
        """Return the parameters of the body of a loop that follow from the index: itself, and counters."""
        body = operation.blocks[-1]
        inits, params = operation.operands, body.params
        known: dict[Value, Value] = {}
        if operation.op == "for":
            known[params[0]] = index
            if operation.attrs["reverse"] or operation.attrs["step"] != 1 or static_value(inits[0]) != 0:
                return known
            inits, params = inits[2:], params[1:]
        for init, param, out in zip(inits, params, body.yields, strict=True):
            step = _increment(param, out)
            if step == 1 and _is_integer(init, 0):
                known[param] = index
            elif step is not None:
                known[param] = add(init, multiply(index, np.int64(step)))
                known[param].take_name(param)
        return known

    def capacity(self) -> Dim | None:
        """Return how often the innermost open loop runs in all, when known."""
        counts = [trip_count(loop) for loop in self.loops]
        known = [count for count in counts if count is not None]
        return math.prod(known) if len(known) == len(counts) else None


# ---- calls that say their derivative


def split_operands(operation: Operation) -> tuple[list[Value], list[Value]]:
    """Return the arguments of a call that has a rule, and the values that it reads besides."""
    count = operation.attrs["arguments"]
    return operation.operands[:count], operation.operands[count:]


def refuse_outer_values(operation: Operation, active: Collection[Value], outs: int) -> None:
    """Raise when a derivative is taken by what a function with a rule reads besides its arguments.

    Args:
        outs: how many results of the operation are those of the function.

    Raises:
        NotDifferentiableError: it is.
    """
    function: Function = operation.attrs["function"]
    for position, value in enumerate(operation.operands):
        if position < operation.attrs["arguments"] or value not in active:
            continue
        param = function.params[position]
        if param in analyze_activity(function, [param], function.results[:outs], True).active:
            raise NotDifferentiableError(
                "the rule of a function does not say its derivative by a value from outside",
                code="TG236",
                span=operation.span,
                found=f"{value.name or 'a value'}: {value.type}, read by {function.name} and not passed to it",
                help="make it an argument, or pass it through tg.stop_gradient",
            )


def run_forward_rules(function: Function, active: set[Value]) -> dict[Operation, int]:
    """Let the calls with a reverse rule on active paths run `forward`: their residuals become results, after the
    others.

    Returns:
        These calls, with the number of results that each had before.
    """
    found = {o: len(o.results) for o in walk(function.body) if o.op == "custom_vjp" and active.intersection(o.results)}
    for operation, count in found.items():
        forward = operation.attrs["function"] = operation.attrs["forward"]
        operation.results.extend(Value(v.type, v.name, operation) for v in forward.results[count:])
    return found


def transpose_rule(operation: Operation) -> Function:
    """Return the transpose of a linear map that a call with a rule has.

    For `custom_jvp` that of its rule, tangents to cotangents: (the parameters of the rule, cotangents of the outs). For
    `custom_vjp` that of its backward, cotangents to tangents: (the parameters of backward, tangents of the arguments).
    """
    if operation.op == "custom_jvp":
        rule = clone_function(operation.attrs["rule"])
        rule.body.yields = rule.results[len(operation.attrs["function"].results) :]
        first = operation.attrs["arguments"]
        count = sum(map(carries_derivative, operation.operands[:first]))
    else:
        rule = operation.attrs["backward"]
        outs = operation.attrs["function"].results
        first = len(operation.attrs["forward"].results) - len(outs)
        count = sum(map(carries_derivative, outs))
    return vjp(rule, range(first, first + count), keep_primal=False)


# ---- functions that call themselves


def reverse_of(function: Function, wrt: tuple[int, ...]) -> Function:
    """Return the reverse of a recursive function: its parameters and cotangents of its results to those of some."""
    key = ("vjp", wrt)
    found = function.derived.get(key)
    if found is None:
        found = function.derived[key] = Function(f"{function.name}_vjp_{'_'.join(map(str, wrt))}")
        found.body = vjp(without_prints(function), wrt, keep_primal=False).body
    return found


def without_prints(function: Function) -> Function:
    """Return a function that does not print, for runs after the first; the function itself when it does not."""
    found = function.derived.get("silent")
    if found is None:
        found = function.derived["silent"] = function
        copy = clone_function(function)
        calls = [o for o in walk(copy.body) if "function" in o.attrs]
        if any(o.op == "print" for o in walk(copy.body)) or any(
            without_prints(o.attrs["function"]) is not o.attrs["function"] for o in calls
        ):
            found = function.derived["silent"] = Function(f"{function.name}_silent", copy.body)
            _drop_prints(copy.body)
            for operation in calls:
                operation.attrs["function"] = without_prints(operation.attrs["function"])
            found.derived["silent"] = found
    return found


def _drop_prints(block: Block) -> None:
    block.operations = [o for o in block.operations if o.op != "print"]
    for operation in block.operations:
        for nested in operation.blocks:
            _drop_prints(nested)


def _plan(
    block: Block,
    reverse: Block,
    kept: Mapping[Value, Operation],
    free: Collection[Value] = (),
    outer: Collection[Value] = (),
) -> Plan:
    own = defined_in(block)
    return plan_residuals(block, [v for v in free_values(reverse) if v in own], free, outer, kept)


def _recompute(plan: Plan, reverse: Block, mapping: dict[Value, Value]) -> None:
    """Repeat the planned operations at the start of a reverse block, and make the block use the replacements."""
    repeated = [clone_operation(operation, mapping) for operation in plan.recomputed]
    substitute(reverse, mapping)
    reverse.operations[:0] = repeated


def _name_of(value: Value) -> str:
    if value.producer is not None and value.producer.op == "broadcast_to" and not value.name:
        return f"{_name_of(value.producer.operands[0])}_spread"
    return value.name or (noun_of(value) if value.producer is not None else "")


def _name_in(body: Block, value: Value) -> str:
    """Return a name for a value of the body of a loop, which may be that of the carry that takes it over."""
    return value.name or _carry_name(body, value) or noun_of(value)


def _carry_name(body: Block, value: Value) -> str:
    return body.params[body.yields.index(value) - len(body.yields)].name if value in body.yields else ""


def _pair_by_type(first: Sequence[Value], second: Sequence[Value]) -> list[tuple[Value | None, Value | None]]:
    rest: list[Value] = list(second)
    pairs: list[tuple[Value | None, Value | None]] = []
    for value in first:
        partner = next((v for v in rest if v.type == value.type), None)
        if partner is not None:
            rest.remove(partner)
        pairs.append((value, partner))
    return pairs + [(None, value) for value in rest]


def _find_counter(operation: Operation) -> Value | None:
    """Return the result of a `while` that counts its iterations, if there is one."""
    body = operation.blocks[1]
    for init, param, out, result in zip(operation.operands, body.params, body.yields, operation.results, strict=True):
        if _is_integer(init, 0) and _increment(param, out) == 1:
            return result
    return None


def _increment(param: Value, out: Value) -> int | None:
    """Return by how much a carried i64 grows in each iteration, when that is constant."""
    if param.type != ArrayType(I64) or out.producer is None or out.producer.op not in ("add", "subtract"):
        return None
    x, y = out.producer.operands
    if y is param and out.producer.op == "add":
        x, y = y, x
    step = static_value(y)
    if x is not param or not isinstance(step, int):
        return None
    return step if out.producer.op == "add" else -step


def _is_integer(value: Value, number: int) -> bool:
    return value.type == ArrayType(I64) and static_value(value) == number
