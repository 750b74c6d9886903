"""Batching: a function of one element to the function of many, as a loop over the elements or on whole arrays.

Reads and writes IR; asks the op records for their batching rules. Previous: linearity.py; next folder: passes.

The loop form has the function as its body: branches run one side per element, loops have their own trip counts, and no
intermediate value has the new axis. That is how C wants it. The array form puts the new axis in front of every value
that depends on the element, which is how NumPy wants it. Where a condition or a trip count depends on the element, a
region runs while any element needs it, and its results are kept for those that do. The other elements, whose own values
it may not suit, borrow the values of the first element that needs it: so nothing is computed that would not be anyway,
nothing faults, and what one element pushes to a stack stands where the same element pops it.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tracegrad import ops
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import (
    Block,
    Function,
    Operation,
    Value,
    callees,
    clone_function,
    clone_operation,
    free_values,
    substitute,
    walk,
)
from tracegrad.ir.liveness import has_effect
from tracegrad.ir.opdef import TABLE, interpreter
from tracegrad.ir.types import I64, ArrayType, Dim, StackType, Type, is_inexact

#: ops that neither raise nor warn, and whose derivative at any operand, infinities too, keeps a zero cotangent zero
_TOTAL = frozenset(
    {"reshape", "transpose", "broadcast_to", "reduce_sum", "slice", "pad", "flip", "concatenate", "set_slice"}
    | {"add_slice", "constant", "iota", "full", "dim", "undefined", "add", "subtract", "negative", "absolute", "sign"}
    | {"maximum", "minimum", "select", "keep_zero", "stop_gradient", "floor", "ceil", "trunc", "rint", "tanh", "arctan"}
    | {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isfinite", "isinf"}
    | {"logical_and", "logical_or", "logical_xor", "logical_not"}
)


@dataclass(frozen=True, slots=True)
class Batched:
    """A batched function, and which of its results have the new axis (the leading one)."""

    function: Function
    results: tuple[bool, ...]


def batch(
    function: Function,
    axes: Sequence[int | None],
    size: Dim,
    *,
    loop: bool,
    unfinished: Collection[Function] = frozenset(),
) -> Batched:
    """Return the function that applies `function` to each element of its batched parameters.

    Args:
        axes: per parameter the axis along which its elements are stacked, or None when it is the same for all.
        size: the number of elements.
        loop: take the loop form; else the array form where that is possible.
        unfinished: functions whose capture goes on: a call that leads to one is made for each element.

    Returns:
        The function, whose parameters with an axis have it in addition. A result that is the same for all elements has
        no new axis, any other has it in front.
    """
    if loop or _must_loop(function, size):
        return _loop_form(function, axes, size)
    return _array_form(function, axes, _Batch(size, frozenset(unfinished)))


def _with_axis(kind: ArrayType, size: Dim, axis: int) -> ArrayType:
    return kind.with_shape((*kind.shape[:axis], size, *kind.shape[axis:]))


def _params(function: Function, axes: Sequence[int | None], size: Dim) -> list[Value]:
    return [
        Value(param.type if axis is None else _with_axis(param.array_type, size, axis), param.name)
        for param, axis in zip(function.params, axes, strict=True)
    ]


# ---- the loop form


def _loop_form(function: Function, axes: Sequence[int | None], size: Dim) -> Batched:
    work = clone_function(function)
    params = _params(work, axes, size)
    shared = {old: new for old, new, axis in zip(work.params, params, axes, strict=True) if axis is None}
    outside, inside = _split(work, {p for p, axis in zip(work.params, axes, strict=True) if axis is not None})
    made = Block(params)
    made.operations = outside
    work.body.operations = inside
    builder = Builder(made)
    changing = {v for o in inside for v in o.results} | (set(work.params) - shared.keys())
    moved = [v in changing for v in work.results]
    kinds = [v.array_type for v, m in zip(work.results, moved, strict=True) if m]
    with interpreter(builder):
        loop, index, carries = _open_loop(builder, size, kinds)
        with builder.into(loop):
            elements = {
                old: ops.gather(new, index, axes=(axis,))
                for old, new, axis in zip(work.params, params, axes, strict=True)
                if axis is not None
            }
            for old, element in elements.items():
                element.name = old.name
            loop.operations.extend(inside)
            values = [elements.get(v, v) for v, m in zip(work.results, moved, strict=True) if m]
        substitute(loop, elements)
        filled = iter(_close_loop(builder, size, loop, index, carries, values))
    substitute(made, shared)
    made.yields = [next(filled) if m else shared.get(v, v) for v, m in zip(work.results, moved, strict=True)]
    return Batched(Function(f"batch_{function.name}", made), tuple(moved))


def _split(function: Function, changing: set[Value]) -> tuple[list[Operation], list[Operation]]:
    """Return the operations that are the same for all elements and those that are not, each in order.

    Values without operands, such as zeros that are written into, stay inside unless something outside needs them.
    """
    changing = set(changing)
    needed = set(function.results)
    outside: set[Operation] = set()
    for operation in function.body.operations:
        used = [*operation.operands, *(v for block in operation.blocks for v in free_values(block))]
        if operation.op == "stack":
            outside.add(operation)
        elif has_effect(operation) or any(v in changing for v in used):
            changing.update(operation.results)
        elif used:
            outside.add(operation)
            needed.update(used)
    for operation in function.body.operations:
        if any(result in needed for result in operation.results) and not any(r in changing for r in operation.results):
            outside.add(operation)
    operations = function.body.operations
    return [o for o in operations if o in outside], [o for o in operations if o not in outside]


def _open_loop(builder: Builder, size: Dim, kinds: Sequence[ArrayType]) -> tuple[Block, Value, list[Value]]:
    """Return the body of a loop over elements, its index, and carried arrays of `size` elements of the given types."""
    index = Value(ArrayType(I64), "b")
    carries = [Value(_with_axis(kind, size, 0)) for kind in kinds]
    return Block([index, *carries]), index, carries


def _close_loop(
    builder: Builder, size: Dim, body: Block, index: Value, carries: Sequence[Value], values: Sequence[Value]
) -> list[Value]:
    """Write the values of one element into the carried arrays, and stage the loop."""
    with builder.into(body):
        body.yields = [ops.scatter_set(c, index, v, axes=(0,)) for c, v in zip(carries, values, strict=True)]
    start, stop = builder.constant(0), ops.dim(dim=size)
    inits = [ops.undefined(type=c.array_type) for c in carries]  # each element is written
    attrs = {"step": 1, "reverse": False}
    loop = builder.append("for", [start, stop, *inits], attrs, [body], [c.type for c in carries])
    for result, value in zip(loop.results, values, strict=True):
        result.name = value.name
    return list(loop.results)


# ---- the array form


@dataclass(frozen=True, slots=True)
class _Batch:
    """The number of elements, and the functions whose capture goes on."""

    size: Dim
    unfinished: frozenset[Function]


def _array_form(function: Function, axes: Sequence[int | None], task: _Batch) -> Batched:
    changing = _find_changing(function, [axis is not None for axis in axes])
    forms = [_Form.OWN for _ in function.results]
    body = _array_body(function, axes, task, changing, forms)
    return Batched(Function(f"batch_{function.name}", body), tuple(v in changing for v in function.results))


class _Form(Enum):
    """How a batched function gives a result: with the axis if it depends on the element, with the axis in any case, or
    its sum over the elements."""

    OWN = enum.auto()
    EACH = enum.auto()
    SUM = enum.auto()


def _array_body(
    function: Function, axes: Sequence[int | None], task: _Batch, changing: set[Value], forms: Sequence[_Form]
) -> Block:
    params = _params(function, axes, task.size)
    body = Block(params)
    builder = Builder(body)
    with interpreter(builder):
        made = _ArrayForm(builder, task, changing)
        for old, new, axis in zip(function.params, params, axes, strict=True):
            made.values[old] = _axis_first(new, axis) if axis else new
        made.block(function.body)
        body.yields = [made.result(v, form) for v, form in zip(function.results, forms, strict=True)]
    body.operations[:0] = made.stacks
    return body


def _for_all(function: Function, has: tuple[bool, ...], task: _Batch, forms: tuple[_Form, ...]) -> Function:
    """Return the batched form of a function that is called, whose parameters have the axis in front where `has` says
    so; it may call itself, or be called by its own rule, so it is known before it is made."""
    key = ("batch", has, task.size, forms)
    found = function.derived.get(key)
    if found is None:
        found = function.derived[key] = Function(f"batch_{function.name}")
        axes = [0 if h else None for h in has]
        found.body = _array_body(function, axes, task, _find_changing(function, has), forms)
    return found


def _axis_first(x: Value, axis: int) -> Value:
    moved: Value = ops.transpose(x, axes=(axis, *(k for k in range(x.array_type.ndim) if k != axis)))
    return moved


def _find_changing(function: Function, has: Sequence[bool]) -> set[Value]:
    """Return the values that depend on the element when these parameters do; what a changing condition or trip count
    decides is among them."""
    found = {param for param, changes in zip(function.params, has, strict=True) if changes}
    count = -1
    while len(found) != count:  # until a round of the loops adds nothing
        count = len(found)
        _spread(function.body, found)
    return found


def _spread(block: Block, changing: set[Value]) -> None:
    for operation in block.operations:
        operands, results, blocks = operation.operands, operation.results, operation.blocks
        match operation.op:
            case "if":
                for nested in blocks:
                    _spread(nested, changing)
                sides = zip(results, blocks[0].yields, blocks[1].yields, strict=True)
                decided = operands[0] in changing
                changing.update(r for r, x, y in sides if decided or x in changing or y in changing)
            case "for" | "while":
                _spread_loop(operation, changing)
            case "push":
                if operands[1] in changing:
                    changing.add(operands[0])
            case _:
                if any(v in changing for v in operands):
                    changing.update(results)


def _spread_loop(operation: Operation, changing: set[Value]) -> None:
    first, shift = (2, 1) if operation.op == "for" else (0, 0)
    body = operation.blocks[-1]
    for position, init in enumerate(operation.operands[first:]):
        same = [init, body.yields[position], operation.results[position]]
        same += [block.params[position + shift] for block in operation.blocks]
        if any(v in changing for v in same):
            changing.update(same[2:])
    for block in operation.blocks:
        _spread(block, changing)
    if _is_decided_per_element(operation, changing):
        changing.update(operation.results, *(block.params for block in operation.blocks))


def _is_decided_per_element(operation: Operation, changing: set[Value]) -> bool:
    """Return whether a branch or a loop may run differently for each element."""
    deciding = operation.operands[: {"if": 1, "for": 2}.get(operation.op, 0)]
    if operation.op == "while":
        deciding = operation.blocks[0].yields
    return any(v in changing for v in deciding)


class _ArrayForm:
    """Stages operations again, with the new axis where values depend on the element.

    Attributes:
        values: what stands for a value of the function.
        stacks: the stacks of residuals that have the axis.
    """

    def __init__(self, builder: Builder, task: _Batch, changing: set[Value]) -> None:
        self.builder, self.task, self.size, self.changing = builder, task, task.size, changing
        self.values: dict[Value, Value] = {}
        self.stacks: list[Operation] = []

    def value(self, value: Value) -> Value:
        if value in self.changing and isinstance(value.type, StackType) and value not in self.values:
            self.values[value] = self.stack(value)
        return self.values.get(value, value)

    def lifted(self, value: Value) -> Value:
        """Return what stands for a value, repeated along the new axis when it is the same for all elements."""
        found = self.value(value)
        return found if value in self.changing else ops.lift(self.size, (False,), (found,))[0]

    def result(self, value: Value, form: _Form) -> Value:
        """Return what the batched function gives for a result."""
        match form:
            case _Form.OWN:
                return self.value(value)
            case _Form.EACH:
                return self.lifted(value)
            case _Form.SUM:
                total: Value = ops.reduce_sum(self.lifted(value), axes=(0,))
                return total

    def stack(self, stack: Value) -> Value:
        """Return a new stack whose elements have the axis."""
        assert stack.producer is not None and isinstance(stack.type, StackType)
        element = _with_axis(stack.type.element, self.size, 0)
        attrs = {**stack.producer.attrs, "element": element}
        made = Operation("stack", [], attrs, [], [StackType(element)], stack.producer.span)
        made.result.name = stack.name
        self.stacks.append(made)
        return made.result

    def block(self, block: Block) -> None:
        for operation in block.operations:
            self.builder.span = operation.span
            self.operation(operation)

    def operation(self, operation: Operation) -> None:
        match operation.op:
            case "stack":
                if operation.result not in self.changing:
                    self.same(operation)
            case "push":
                stack, value = operation.operands
                pushed = self.lifted(value) if stack in self.changing else self.value(value)
                self.builder.append("push", [self.value(stack), pushed], {}, [], [])
            case "pop":
                (stack,) = operation.operands
                self.bind(operation, [ops.pop(self.value(stack))])
            case "if" | "for" | "while":
                kind = "each " if _is_decided_per_element(operation, self.changing) else ""
                {
                    "if": self.branches, "for": self.loop, "while": self.loop,
                    "each if": self.each_branch, "each for": self.each_for, "each while": self.each_while,
                }[kind + operation.op](operation)  # fmt: skip
            case "call" | "custom_vjp" | "custom_jvp" | "checkpoint":
                self.call(operation)
            case _:
                self.apply(operation)

    def bind(self, operation: Operation, values: Sequence[Value]) -> None:
        for old, new in zip(operation.results, values, strict=True):
            self.values[old] = new
            if not new.name:
                new.name = old.name

    def same(self, operation: Operation) -> None:
        """Stage an operation as it is."""
        self.builder.block.operations.append(clone_operation(operation, self.values))

    def apply(self, operation: Operation) -> None:
        op, operands = TABLE[operation.op], operation.operands
        has = tuple(v in self.changing for v in operands)
        if not any(has):
            self.same(operation)
        elif op.elementwise or op.batch is not None:
            if op.batch is None:
                result = op(*map(self.lifted, operands), **operation.attrs)
            else:
                result = op.batch(op, self.size, has, *map(self.value, operands), **operation.attrs)
            self.bind(operation, result if isinstance(result, tuple) else [result])
        else:
            self.per_element(operation)

    # ---- calls

    def call(self, operation: Operation) -> None:
        """Stage a call of the function for all elements; its rules are for all elements too."""
        has = tuple(v in self.changing for v in operation.operands)
        if not any(has):
            self.same(operation)
            return
        if not self.task.unfinished.isdisjoint(_reached(callees(operation))):
            self.per_element(operation)
            return
        attrs, outs = dict(operation.attrs), (_Form.EACH,) * len(operation.results)
        attrs["function"] = _for_all(attrs["function"], has, self.task, outs)
        if "arguments" in attrs:
            count = attrs["arguments"]
            moving = [h for h, v in zip(has[:count], operation.operands, strict=False) if is_inexact(v.dtype)]
            moved = [form for form, v in zip(outs, operation.results, strict=True) if is_inexact(v.dtype)]
        if operation.op == "custom_jvp":
            given = (*has[:count], *moving, *has[count:])
            attrs["rule"] = _for_all(attrs["rule"], given, self.task, (*outs, *moved))
        if operation.op == "custom_vjp":
            forward, backward = attrs["forward"], attrs["backward"]
            changing = _find_changing(forward, has)
            residuals = [v in changing for v in forward.results[len(outs) :]]
            attrs["forward"] = _for_all(forward, has, self.task, (*outs, *(_Form.OWN for _ in residuals)))
            given = (*residuals, *(True for _ in moved), *has[count:])
            contributions = tuple(_Form.EACH if h else _Form.SUM for h in moving)
            attrs["backward"] = _for_all(backward, given, self.task, contributions)
        kinds: list[Type] = [_with_axis(r.array_type, self.size, 0) for r in operation.results]
        operands = [self.value(v) for v in operation.operands]
        self.bind(operation, self.builder.append(operation.op, operands, attrs, [], kinds).results)

    # ---- regions

    def nested(self, block: Block, params: Sequence[Value], has: Sequence[bool]) -> Block:
        """Return a block staged again; the values it yields for which `has` is true get the axis."""
        made = Block(list(params))
        self.values.update(zip(block.params, params, strict=True))
        with self.builder.into(made):
            self.block(block)
            pairs = zip(block.yields, has, strict=True)
            made.yields = [self.lifted(v) if axis else self.value(v) for v, axis in pairs]
        return made

    def like(self, value: Value) -> Value:
        kind: Type = value.type
        if value in self.changing:
            kind = _with_axis(value.array_type, self.size, 0)
        return Value(kind, value.name)

    def branches(self, operation: Operation) -> None:
        has = [result in self.changing for result in operation.results]
        blocks = [self.nested(block, (), has) for block in operation.blocks]
        kinds = [v.type for v in blocks[0].yields]
        condition = self.value(operation.operands[0])
        self.bind(operation, self.builder.append("if", [condition], {}, blocks, kinds).results)

    def loop(self, operation: Operation) -> None:
        first = 2 if operation.op == "for" else 0
        has = [result in self.changing for result in operation.results]
        blocks = []
        for position, block in enumerate(operation.blocks):
            condition = operation.op == "while" and position == 0
            params = [self.like(p) for p in block.params]
            blocks.append(self.nested(block, params, (False,) if condition else has))
        bounds = [self.value(v) for v in operation.operands[:first]]
        pairs = zip(operation.operands[first:], has, strict=True)
        inits = [self.lifted(v) if axis else self.value(v) for v, axis in pairs]
        attrs, kinds = dict(operation.attrs), [v.type for v in inits]
        self.bind(operation, self.builder.append(operation.op, [*bounds, *inits], attrs, blocks, kinds).results)

    # ---- regions that not all elements run

    def each_branch(self, operation: Operation) -> None:
        condition = self.value(operation.operands[0])
        sides = []
        for block, active in zip(operation.blocks, (condition, ops.logical_not(condition)), strict=True):
            if _is_total(block):
                self.block(block)
                sides.append([self.lifted(v) for v in block.yields])
                continue
            run, skip = Block(), Block()
            with self.builder.into(run), self.borrowing(active, block, free_values(block)):
                self.block(block)
                run.yields = [self.lifted(v) for v in block.yields]
            with self.builder.into(skip):
                skip.yields = [ops.undefined(type=v.array_type) for v in run.yields]
            needed = ops.reduce_any(active, axes=(0,))
            kinds = [v.type for v in run.yields]
            sides.append(list(self.builder.append("if", [needed], {}, [run, skip], kinds).results))
        self.bind(operation, [self.choose(condition, x, y) for x, y in zip(*sides, strict=True)])

    def each_while(self, operation: Operation) -> None:
        test, body = operation.blocks
        inits = [self.lifted(v) for v in operation.operands]
        kinds = [v.type for v in inits]
        active = self.tested(test, inits)
        carries = [self.like(p) for p in test.params]
        condition = Block([*carries, Value(active.type, "active")])
        with self.builder.into(condition):
            condition.yields = [ops.reduce_any(condition.params[-1], axes=(0,))]
        step = Block([*map(self.like, body.params), Value(active.type, "active")])
        with self.builder.into(step):
            *before, active_now = step.params
            after = self.stepped(body, body.params, before, active_now)
            step.yields = [*after, ops.logical_and(active_now, self.tested(test, after))]
        loop = self.builder.append("while", [*inits, active], {}, [condition, step], [*kinds, active.type])
        self.bind(operation, loop.results[:-1])

    def tested(self, test: Block, carries: Sequence[Value]) -> Value:
        """Stage the condition of a `while` for all elements."""
        self.values.update(zip(test.params, carries, strict=True))
        self.block(test)
        return self.lifted(test.yields[0])

    def each_for(self, operation: Operation) -> None:
        (body,) = operation.blocks
        start, stop, *inits = map(self.lifted, operation.operands)
        step = operation.attrs["step"]
        # trips = (stop - start) / step, rounded up
        distance = ops.subtract(stop, start) if step > 0 else ops.subtract(start, stop)
        stride = ops.full_like(start, abs(step))
        trips = ops.floor_divide(ops.add(distance, ops.full_like(start, abs(step) - 1)), stride)
        number = Value(ArrayType(I64), body.params[0].name)
        made = Block([number, *map(self.like, body.params[1:])])
        with self.builder.into(made):
            numbers = ops.broadcast_to(number, shape=(self.size,))
            index = ops.add(start, ops.multiply(numbers, ops.full_like(start, step)))
            made.yields = self.stepped(body, body.params, [index, *made.params[1:]], ops.less(numbers, trips))
        most = ops.reduce_max(trips, axes=(0,))
        attrs = {"step": 1, "reverse": operation.attrs["reverse"]}
        kinds = [v.type for v in inits]
        loop = self.builder.append("for", [self.builder.constant(0), most, *inits], attrs, [made], kinds)
        self.bind(operation, loop.results)

    def stepped(self, body: Block, params: Sequence[Value], before: Sequence[Value], active: Value) -> list[Value]:
        """Stage an iteration for the active elements; return the carries, which the others keep."""
        self.values.update(zip(params, before, strict=True))
        with self.borrowing(active, body, [*params, *free_values(body)]):
            self.block(body)
            after = [self.lifted(v) for v in body.yields]
        carried = before[len(before) - len(after) :]
        return [self.choose(active, new, old) for new, old in zip(after, carried, strict=True)]

    @contextmanager
    def borrowing(self, active: Value, block: Block, values: Sequence[Value]) -> Iterator[None]:
        """Give the elements that are not active the values of the first active one, inside a with statement.

        Args:
            block: what is run inside; only what it may not be run on for all elements is given.
        """
        risky = _used_at_risk(block)
        kept = {v: self.value(v) for v in values if v in self.changing and v in risky and isinstance(v.type, ArrayType)}
        first = ops.argmax(active, axis=0)
        first.name = "first"
        for value, own in kept.items():
            lent = ops.stop_gradient(ops.gather(own, first, axes=(0,)))
            self.values[value] = self.choose(active, own, ops.lift(self.size, (False,), (lent,))[0])
        yield
        self.values.update(kept)

    def choose(self, condition: Value, x: Value, y: Value) -> Value:
        """Return x for the elements where the condition holds, else y."""
        shape = x.shape
        chosen: Value = ops.select(ops.spread(condition, tuple(range(1, len(shape))), shape), x, y)
        return chosen

    def per_element(self, operation: Operation) -> None:
        """Stage a loop over the elements around an operation that has no batching rule."""
        loop, index, carries = _open_loop(self.builder, self.size, [r.array_type for r in operation.results])
        with self.builder.into(loop):
            mapping = {}
            for value in operation.operands:
                mapping[value] = self.value(value)
                if value in self.changing:
                    mapping[value] = ops.gather(mapping[value], index, axes=(0,))
                    mapping[value].name = value.name
            copy = clone_operation(operation, mapping)
            loop.operations.append(copy)
        self.bind(operation, _close_loop(self.builder, self.size, loop, index, carries, copy.results))


def _must_loop(function: Function, size: Dim) -> bool:
    """Return whether the array form would not do: without elements there is none to borrow from, and only the loop
    prints once per element."""
    return size == 0 or _prints(function)


def _prints(function: Function) -> bool:
    return any(o.op == "print" for called in _reached([function]) for o in walk(called.body))


def _reached(functions: Sequence[Function]) -> list[Function]:
    """Return some functions and all that they lead to."""
    found = dict.fromkeys(functions)
    waiting = list(found)
    while waiting:
        called = [c for operation in walk(waiting.pop().body) for c in callees(operation) if c not in found]
        found.update(dict.fromkeys(called))
        waiting.extend(called)
    return list(found)


def _is_total(block: Block) -> bool:
    """Return whether a block may be run for elements that do not choose it."""
    return all(not operation.blocks and _is_harmless(operation) for operation in block.operations)


def _used_at_risk(block: Block) -> set[Value]:
    """Return the values that lead to an operation of a block that may not be run for elements that do not choose it."""
    found: set[Value] = set()
    for operation in reversed(block.operations):
        if operation.blocks or not _is_harmless(operation) or not found.isdisjoint(operation.results):
            found.update(operation.operands)
            for nested in operation.blocks:
                found.update(free_values(nested))
    return found


def _is_harmless(operation: Operation) -> bool:
    if operation.op == "multiply":  # with a number: its derivative is that number
        producers = [v.producer for v in operation.operands if v.producer is not None]
        return any(p.op in ("constant", "full") and np.all(np.isfinite(p.attrs["value"])) for p in producers)
    if operation.op == "cast":
        return not is_inexact(operation.operands[0].dtype)
    return operation.op in _TOTAL
