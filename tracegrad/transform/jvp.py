"""Forward mode: a function in IR to the one that also pushes tangents forward, through loops and branches.

Reads and writes IR; asks the op records for tangents of results (ops.jvp_of). Previous: vjp.py; next: jacobian.py.

Each operation is followed by those of its tangents. A loop carries the tangents of its active carries beside them, a
branch yields them, and a residual stack has a second one for tangents, so that forward mode applies to reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value, substitute
from tracegrad.ir.inline import inline_body, inline_calls
from tracegrad.ir.nouns import noun_of
from tracegrad.ir.opdef import BY_TRANSFORM, TABLE, interpreter
from tracegrad.ir.types import ArrayType, StackType
from tracegrad.ops import jvp_of, multiply, scaled
from tracegrad.transform.activity import Activity, analyze_activity, carries_derivative
from tracegrad.transform.cotangents import zeros
from tracegrad.transform.ranges import Ranges, make_guard
from tracegrad.transform.slopes import slope_of_power
from tracegrad.transform.vjp import no_rule, prepare_function, refuse_outer_values, split_operands, transpose_rule


def jvp(
    function: Function, wrt: Sequence[int], *, outputs: Sequence[int] | None = None, keep_primal: bool = True
) -> Function:
    """Return the function that maps parameters and tangents of some of them to results and their tangents.

    Args:
        function: `(x_0, ...) -> (y_0, ...)`.
        wrt: positions of the parameters that have tangents.
        outputs: positions of the results whose tangents are wanted; None for those of all floating-point results.
        keep_primal: whether the primal results come first.

    Returns:
        `(x_0, ..., t_x for each position in wrt) -> (y_0, ..., t_y for each result wanted)`.

    Raises:
        ArgumentTypeError: a parameter in `wrt` is not floating point.
        NotDifferentiableError: an operation on the way has no derivative.
    """
    copy = prepare_function(function, wrt)
    inline_calls(copy, lambda operation: operation.op == "checkpoint")
    primal = [copy.params[i] for i in wrt]
    moving = [v for i, v in enumerate(copy.results) if (carries_derivative(v) if outputs is None else i in outputs)]
    activity = analyze_activity(copy, primal, moving, True)
    tangents: dict[Value, Value] = {}
    for param in primal:
        tangent = Value(param.type, f"t_{param.name}" if param.name else "t")
        copy.params.append(tangent)
        tangents[param] = tangent
    builder = Builder(copy.body)
    with interpreter(builder):
        forward = _Forward(copy, builder, activity)
        forward.block(copy.body, tangents)
        builder.span = None
        moved = [tangents[v] if v in tangents else zeros(builder, v.array_type) for v in moving]
    substitute(copy.body, forward.replaced)
    copy.body.yields = [*(copy.results if keep_primal else []), *moved]
    copy.name = f"jvp_{function.name}"
    return copy


def forward_of(function: Function, wrt: tuple[int, ...]) -> Function:
    """Return the forward derivative of a recursive function by some of its parameters."""
    key = ("jvp", wrt)
    found = function.derived.get(key)
    if found is None:
        found = function.derived[key] = Function(f"{function.name}_jvp_{'_'.join(map(str, wrt))}")
        found.body = jvp(function, wrt).body
    return found


class _Forward:
    """Adds tangents to blocks; `tangents` maps a value to its tangent, an absent one is zero."""

    def __init__(self, function: Function, builder: Builder, activity: Activity) -> None:
        self.function, self.builder, self.active = function, builder, activity.active
        self.ranges = Ranges(function)
        self.shadows: dict[Value, Value] = {}
        #: results of calls with a rule -> what the rule gives for them
        self.replaced: dict[Value, Value] = {}

    def block(self, block: Block, tangents: dict[Value, Value]) -> None:
        operations, block.operations = block.operations, []
        for operation in operations:
            self.builder.span = operation.span
            rule = {
                "if": self.branches, "for": self.loop, "while": self.loop,
                "stack": self.stack, "push": self.push, "pop": self.pop,
                "custom_vjp": self.custom, "custom_jvp": self.custom, "call": self.call,
            }.get(operation.op, self.plain)  # fmt: skip
            with self.builder.into(block):
                rule(operation, tangents)

    def emit(self, operation: Operation) -> None:
        self.builder.block.operations.append(operation)

    def plain(self, operation: Operation, tangents: dict[Value, Value]) -> None:
        self.emit(operation)
        if not any(result in self.active for result in operation.results):
            return
        op = TABLE[operation.op]
        given = [tangents.get(v) for v in operation.operands]
        if all(t is None for t in given):
            return
        if op.marker is BY_TRANSFORM:
            raise no_rule(operation)
        scale = self.scale(operation) if op.partials is not None else True
        power = slope_of_power(operation, least=3)
        if power is not None:
            base, slope = power
            if (tangent := tangents.get(base)) is not None:
                self.set(tangents, operation.result, multiply(tangent, slope))
            return
        moved = jvp_of(op, given, operation.results, operation.operands, operation.attrs, guard=scale)
        for result, tangent in zip(operation.results, moved, strict=True):
            if tangent is not None:
                self.set(tangents, result, tangent)

    def scale(self, operation: Operation) -> Callable[[int, Value, Value], Any]:
        """Return the function that multiplies a tangent, which may be zero, with a partial by the n-th operand."""
        is_singular = make_guard(self.ranges, operation)
        singular = TABLE[operation.op].singular
        return lambda n, tangent, partial: scaled(tangent, partial, singular[n] and is_singular(n, partial))

    def custom(self, operation: Operation, tangents: dict[Value, Value]) -> None:
        """Apply the forward rule of a call, or the transpose of its reverse rule."""
        arguments, others = split_operands(operation)
        moving = [v for v in arguments if carries_derivative(v)]
        if not self.active.intersection(operation.results) or all(tangents.get(v) is None for v in moving):
            self.emit(operation)
            return
        refuse_outer_values(operation, self.active, len(operation.results))
        given = [self.tangent(v, tangents) for v in moving]
        arguments, others = ([self.replaced.get(v, v) for v in values] for values in (arguments, others))
        count = len(operation.results)
        if operation.op == "custom_jvp":
            made = self.inline(operation.attrs["rule"], [*arguments, *given, *others])
            outs, moved = made[:count], made[count:]
        else:
            made = self.inline(operation.attrs["forward"], [*arguments, *others])
            outs, residuals = made[:count], made[count:]
            seeds = [zeros(self.builder, v.array_type) for v in operation.results if carries_derivative(v)]
            moved = self.inline(transpose_rule(operation), [*residuals, *seeds, *others, *given])
        self.replaced.update(zip(operation.results, outs, strict=True))
        for old, new in zip(operation.results, outs, strict=True):
            new.name = new.name or old.name
        for result, tangent in zip(filter(carries_derivative, operation.results), moved, strict=True):
            self.set(tangents, result, tangent)

    def call(self, operation: Operation, tangents: dict[Value, Value]) -> None:
        """Call the forward derivative of a recursive function."""
        operands = operation.operands
        wrt = tuple(i for i, v in enumerate(operands) if v in self.active and isinstance(v.type, ArrayType))
        if not self.active.intersection(operation.results) or all(tangents.get(operands[i]) is None for i in wrt):
            self.emit(operation)
            return
        moving = [r for r in operation.results if carries_derivative(r)]
        given = [self.tangent(operands[i], tangents) for i in wrt]
        kinds = [v.type for v in (*operation.results, *moving)]
        attrs = {"function": forward_of(operation.attrs["function"], wrt)}
        made = self.builder.append("call", [*operands, *given], attrs, [], kinds)
        for old, new in zip(operation.results, made.results, strict=False):
            new.name = old.name
            self.replaced[old] = new
        for result, tangent in zip(moving, made.results[len(operation.results) :], strict=True):
            self.set(tangents, result, tangent)

    def inline(self, function: Function, arguments: list[Value]) -> list[Value]:
        return inline_body(self.builder.block, self.function, function, arguments)

    def set(self, tangents: dict[Value, Value], value: Value, tangent: Value) -> None:
        if not tangent.name and value.name:
            tangent.name = f"t_{value.name}"
        elif not tangent.name:
            tangent.noun = f"t_{noun_of(value)}"
        tangents[value] = tangent

    def tangent(self, value: Value, tangents: dict[Value, Value]) -> Value:
        """Return the tangent of a value, zeros where it is absent."""
        found = tangents.get(value)
        return zeros(self.builder, value.array_type) if found is None else found

    # ---- regions

    def branches(self, operation: Operation, tangents: dict[Value, Value]) -> None:
        moved = [k for k, result in enumerate(operation.results) if result in self.active]
        for block in operation.blocks:
            inner = dict(tangents)
            self.block(block, inner)
            with self.builder.into(block):
                block.yields = [*block.yields, *(self.tangent(block.yields[k], inner) for k in moved)]
        self.extend(operation, moved, tangents)

    def loop(self, operation: Operation, tangents: dict[Value, Value]) -> None:
        first, shift = (2, 1) if operation.op == "for" else (0, 0)
        params = operation.blocks[-1].params[shift:]
        moved = [k for k, result in enumerate(operation.results) if result in self.active or params[k] in self.active]
        inits = operation.operands[first:]
        operation.operands = [*operation.operands, *(self.tangent(inits[k], tangents) for k in moved)]
        for position, block in enumerate(operation.blocks):
            carries = block.params[shift:]
            inner = dict(tangents)
            for k in moved:
                param = Value(carries[k].type, f"t_{carries[k].name}" if carries[k].name else "")
                block.params.append(param)
                inner[carries[k]] = param
            if operation.op == "while" and position == 0:
                continue  # the condition needs no tangents
            self.block(block, inner)
            with self.builder.into(block):
                block.yields = [*block.yields, *(self.tangent(block.yields[k], inner) for k in moved)]
        self.extend(operation, moved, tangents)

    def extend(self, operation: Operation, moved: list[int], tangents: dict[Value, Value]) -> None:
        """Add results for the tangents of some results, and emit the operation."""
        for k in moved:
            tangent = Value(operation.results[k].type, "", operation)
            operation.results.append(tangent)
            self.set(tangents, operation.results[k], tangent)
        self.emit(operation)

    # ---- residual stacks

    def stack(self, operation: Operation, tangents: dict[Value, Value]) -> None:
        self.emit(operation)
        stack = operation.result
        if stack in self.active:
            assert isinstance(stack.type, StackType)
            shadow = self.builder.apply(TABLE["stack"], (), operation.attrs)
            shadow.name = f"t_{stack.name}" if stack.name else ""
            self.shadows[stack] = shadow

    def push(self, operation: Operation, tangents: dict[Value, Value]) -> None:
        self.emit(operation)
        stack, value = operation.operands
        if stack in self.active:
            self.builder.apply(TABLE["push"], (self.shadows[stack], self.tangent(value, tangents)), {})

    def pop(self, operation: Operation, tangents: dict[Value, Value]) -> None:
        self.emit(operation)
        stack = operation.operands[0]
        if stack in self.active:
            self.set(tangents, operation.result, self.builder.apply(TABLE["pop"], (self.shadows[stack],), {}))
