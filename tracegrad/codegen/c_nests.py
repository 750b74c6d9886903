"""Writes loop nests: their loops and bodies, running values of reductions, nests that share their outermost loop.

Reads a plan, writes lines. Previous: c_stacks.py; next: c_blocks.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tracegrad.codegen.c_elements import (
    LOCAL,
    kept_axes,
    points,
    spread,
    squeeze,
    static_size,
)
from tracegrad.codegen.c_expression import (
    sum_of,
    zero,
)
from tracegrad.codegen.c_stacks import StackWriter
from tracegrad.codegen.c_storage import Plan
from tracegrad.codegen.c_writer import is_worth_simd
from tracegrad.codegen.loops import Step
from tracegrad.ir.core import (
    Operation,
    Value,
)
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import (
    Dim,
    Shape,
    is_complex,
)

_CLAUSES = {"add": "+", "multiply": "*"}
_EXTREMES = {"maximum": "tg_max", "minimum": "tg_min"}


class _Nest:
    """A nest while it is written: who reads what in it, and its reductions."""

    def __init__(self, plan: Plan, step: Step) -> None:
        self.operations, self.space, self.reads = step.operations, step.space, step.reads
        self.shape = step.space
        self.is_member = any(step in s.members for steps in plan.steps.values() for s in steps)
        self.uses: Counter[Value] = Counter()
        self.readers: dict[Value, Operation] = {}
        self.pushes = step.pushes
        for operation in [*step.operations, *step.pushes]:
            for value, _, count in plan.nest_accesses(operation):
                self.uses[value] += count
                self.readers[value] = operation
        self.reductions = {o: _Reduction(o, step.space) for o in step.operations if plan.role(o) == "reduce"}

    def flatten(self) -> None:
        """Walk through all elements by one loop."""
        self.space = (math.prod(self.space),)

    def index(self, index: Sequence[Dim]) -> Sequence[Dim]:
        """Return the index of an element for the positions of the loops."""
        return [*[0] * (len(self.shape) - len(self.space)), *index]


@dataclass(slots=True)
class _Reduction:
    """A reduction in a nest.

    `level`: the loop depth at which its running value stands; at the depth of the nest it adds to its result in memory.
    """

    operation: Operation
    space: Shape
    name: str = ""
    kept: list[int] = field(default_factory=list)
    level: int = 0
    columns: dict[tuple[Dim, ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept = kept_axes(self.operation)
        self.level = self.kept[-1] + 1 if self.kept else 0

    @property
    def is_plain(self) -> bool:
        """Whether each result is complete when its running value ends: the kept axes come first."""
        return self.kept == list(range(len(self.kept))) and self.level < len(self.space)

    @property
    def is_sum(self) -> bool:
        return self.operation.op in ("reduce_sum", "dot_general")


class NestWriter(StackWriter):
    """Writes nests."""

    def emit_nest(self, step: Step) -> None:
        """Write one loop nest."""
        nest = _Nest(self.plan, step)
        self.comment_all(step.operations or step.pushes)
        for operation in step.operations:
            if operation.result in self.plan.storage and self.plan.role(operation) != "reduce":
                self.declare(operation.result)
        for reduction in nest.reductions.values():
            self.begin_reduction(reduction)
        for push in step.pushes:
            self.make_room(self.stacks[push.operands[0]])
        if self.plan.is_flat(step):
            nest.flatten()
        self.emit_levels(nest, [])
        for push in step.pushes:
            if self.plan.moves_top(push):
                self.line(f"{self.stacks[push.operands[0]].top}++;")
        for reduction in nest.reductions.values():
            if reduction.level == 0:
                self.end_sum(reduction, [])

    def emit_rows(self, step: Step) -> None:
        """Write nests that share their outermost loop."""
        plan = self.plan
        nests = [_Nest(plan, member) for member in step.members]
        unrolled = [plan.is_unrolled(m) for m in step.members]
        self.comment_all(step.operations)
        for operation in step.operations:
            if operation.result in plan.storage and (plan.role(operation) != "reduce" or 0 in kept_axes(operation)):
                self.declare(operation.result)
        outer = [r for n in nests for r in n.reductions.values() if 0 not in r.kept]
        for reduction in outer:
            if reduction.kept and all(unrolled):
                self.begin_columns(reduction)
            else:
                self.begin_reduction(reduction)
        clauses = self._clauses([r for r in outer if r.level == 0 or r.columns], None)
        if all(unrolled) and clauses is not None and is_worth_simd(step.space[0]):
            self.line(f"#pragma omp simd {clauses}".rstrip())
        saved, saved_rows = dict(self.bound), dict(self.row_values)
        row = self.open_loop(step.space[0])
        for nest, is_unrolled in zip(nests, unrolled, strict=True):
            if is_unrolled:
                self.emit_row(nest, row)
            else:
                self.emit_levels(nest, [row])
        self.close_loop()
        self.bound = saved
        self.row_values = saved_rows
        for reduction in outer:
            if reduction.level == 0:
                self.end_sum(reduction, [])
            for key, name in reduction.columns.items():
                value = reduction.operation.result
                self.assign(self.place(value, spread(key, value.shape)), name)

    def begin_columns(self, reduction: _Reduction) -> None:
        """Write a running value per element of a small result of a reduction over rows."""
        value = reduction.operation.result
        self.declare(value)
        for key in points(squeeze(value.shape)):
            name = self.fresh("", "sum" if reduction.is_sum else "best")
            reduction.columns[key] = name
            self.line(f"{self.local_ctype(value.dtype)} {name} = {self.initial_of(reduction.operation)};")

    def emit_levels(self, nest: _Nest, index: list[Dim]) -> None:
        """Write the loops of a nest below those that are open, and their body."""
        plan, space, reductions = self.plan, nest.space, list(nest.reductions.values())
        outer = len(index)
        for operation in nest.operations:
            if outer and operation.result not in plan.storage and self.crosses(operation.result, nest):
                self.begin_row_value(operation, nest)
        for reduction in reductions:
            if outer and 0 in reduction.kept and not reduction.is_plain:
                self.clear_row(reduction, index)
            if 0 < reduction.level < len(space) and not reduction.name:
                reduction.name = self.fresh("", "sum" if reduction.is_sum else "best")
        clauses = self._clauses(reductions, len(space))
        for level in range(outer, len(space) + 1):
            for reduction in reductions:
                if reduction.level == level and 0 < level < len(space):
                    self.begin_sum(reduction)
            if level < len(space):
                if level == len(space) - 1 and clauses is not None and is_worth_simd(space[level]):
                    self.line(f"#pragma omp simd {clauses}".rstrip())
                index.append(self.open_loop(space[level]))
        saved = dict(self.bound)
        self._bind_overwritten(nest, index)
        for operation in nest.operations:
            self.emit_member(nest, operation, index)
        for push in nest.pushes:
            stack, value = push.operands
            place = spread(nest.index(index), value.shape)
            self.assign(self.slot(self.stacks[stack], place), self.element(value, place))
        if outer < len(space):
            self.bound = saved
        for level in range(len(space), outer - 1, -1):
            for reduction in reductions:
                if reduction.level == level and 0 < level < len(space):
                    self.end_sum(reduction, index[:level])
            if level > outer:
                self.close_loop()

    def clear_row(self, reduction: _Reduction, index: Sequence[Dim]) -> None:
        """Write the initial values of what a reduction adds up in memory within a row."""
        value = reduction.operation.result
        initial = self.initial_of(reduction.operation)
        with self.loops(squeeze(self.shape(value))[1:], simd="") as inner:
            self.assign(self.store(value, spread([*index, *inner], value.shape)), initial)

    def emit_member(self, nest: _Nest, operation: Operation, index: Sequence[Dim]) -> None:
        """Write what one operation does at one index of its nest."""
        if operation in nest.reductions:
            self.accumulate(nest.reductions[operation], nest.index(index))
            return
        value = operation.result
        is_stored = value in self.plan.storage or value in self.row_values
        if not is_stored and not self.crosses(value, nest) and self._can_inline(nest, operation):
            self.lazy.add(value)
            return
        text = self.compute(value, spread(nest.index(index), value.shape))
        if nest.uses[value] or not is_stored:
            name = self.fresh_for([value])
            self.line(f"const {self.local_ctype(value.dtype)} {name} = {text};", name)
            self.bound[value] = text = name
        if is_stored:
            self.assign(self.store(value, spread(nest.index(index), value.shape)), text)

    def crosses(self, value: Value, nest: _Nest) -> bool:
        """Return whether a value made in a row is read by another nest of the row."""
        return value in self.plan.row_values and nest.is_member

    def begin_row_value(self, operation: Operation, nest: _Nest) -> None:
        """Declare the buffer for one row of a value that other nests of the row read."""
        value = operation.result
        shape = squeeze(self.shape(value))[1:]
        if not shape:
            return
        if value not in self.row_values:
            self.row_values[value] = self.fresh_for([value])
            size = static_size(shape)
            if size is not None and size <= LOCAL:
                self.line(f"{self.ctype(value.dtype)} {self.row_values[value]}[{size}];")
            else:
                self.take(self.row_values[value], value.dtype, math.prod(shape))

    def emit_row(self, nest: _Nest, row: Dim) -> None:
        """Write what a nest does in one row without loops."""
        inner = nest.space[1:]
        indices = [[row, *point] for point in points(inner)]
        self._bind_overwritten(nest, [row])
        for operation in nest.operations:
            value = operation.result
            if operation in nest.reductions:
                self.reduce_row(nest.reductions[operation], indices)
                continue
            is_stored = value in self.plan.storage
            if not is_stored and not self.crosses(value, nest) and self._can_inline(nest, operation):
                self.lazy.add(value)
                continue
            texts = [self.compute(value, spread(i, value.shape)) for i in indices]
            if nest.uses[value] or not is_stored:
                name = self.fresh_for([value])
                if inner:
                    self.write_array(f"const {self.ctype(value.dtype)} {name}[{len(texts)}] = {{", texts, name)
                    texts = [f"{name}[{k}]" for k in range(len(texts))]
                    self.row_values[value] = name
                else:
                    self.line(f"const {self.local_ctype(value.dtype)} {name} = {texts[0]};", name)
                    self.bound[value] = texts[0] = name
            if is_stored:
                for i, text in zip(indices, texts, strict=True):
                    self.assign(self.place(value, spread(i, value.shape)), text)

    def reduce_row(self, reduction: _Reduction, indices: Sequence[Sequence[Dim]]) -> None:
        """Write a reduction over the elements of one row without loops."""
        operation = reduction.operation
        value, x = operation.result, operation.operands[0]
        totals: dict[tuple[Dim, ...], str] = {}
        for index in indices:
            key = tuple(index[k] for k in reduction.kept)
            text = self.reduced_element(operation, index)
            if 0 not in reduction.kept:
                target = reduction.columns.get(key) or (
                    self.store(value, spread(key, value.shape)) if reduction.kept else reduction.name
                )
                self.fold(operation, target, text)
            elif key not in totals:
                totals[key] = text
            elif operation.op == "reduce_sum":
                totals[key] = sum_of(totals[key], text)
            else:
                totals[key] = self.combine(operation, totals[key], text)
        if 0 not in reduction.kept:
            return
        texts = list(totals.values())
        if value in self.plan.storage:
            for key, text in totals.items():
                self.assign(self.place(value, spread(key, value.shape)), text)
            return
        name = self.fresh_for([value])
        if len(texts) > 1 or len(squeeze(value.shape)) > 1:
            self.write_array(f"const {self.ctype(x.dtype)} {name}[{len(texts)}] = {{", texts, name)
            self.row_values[value] = name
        else:
            self.line(f"const {self.local_ctype(x.dtype)} {name} = {texts[0]};", name)
            self.bound[value] = name

    def _can_inline(self, nest: _Nest, operation: Operation) -> bool:
        value = operation.result
        weight = 1 + sum(self.plan.weights.get(v, 0) for v in operation.operands)
        reader = nest.readers.get(value)
        if nest.uses[value] != 1 or value.name or weight > 6 or reader is None or reader.op == "select":
            return False
        self.plan.weights[value] = weight
        return True

    def _bind_overwritten(self, nest: _Nest, index: Sequence[Dim]) -> None:
        """Read what the nest itself overwrites before anything is written."""
        storage = self.plan.storage
        for operation in nest.operations:
            if operation.result not in storage:
                continue
            for value in nest.reads:
                if storage.get(value) is not storage[operation.result] or not value.shape:
                    continue
                if nest.uses[value] == 1 and nest.readers[value] is operation:
                    continue
                name = self.fresh(value.name, "old")
                if len(index) < len(nest.space):
                    texts = [
                        self.read(value, spread([*index, *point], value.shape)) for point in points(nest.space[1:])
                    ]
                    self.write_array(f"const {self.ctype(value.dtype)} {name}[{len(texts)}] = {{", texts, name)
                    self.row_values[value] = name
                else:
                    text = self.read(value, spread(nest.index(index), value.shape))
                    self.line(f"const {self.local_ctype(value.dtype)} {name} = {text};", name)
                    self.bound[value] = name

    def _clauses(self, reductions: Sequence[_Reduction], rank: int | None) -> str | None:
        """Return the clauses of the simd pragma of a loop; None when it cannot be vectorised.

        Reductions whose level is `rank` add to memory and need none.
        """
        found: dict[str, list[str]] = {}
        for reduction in reductions:
            if reduction.level == rank:
                continue
            combiner, dtype = TABLE[reduction.operation.op].c_reduce, reduction.operation.result.dtype
            op = combiner[1] if combiner is not None else "add"
            names = list(reduction.columns.values()) or [reduction.name]
            if op in _CLAUSES and not (op == "multiply" and is_complex(dtype)):
                found.setdefault(_CLAUSES[op], []).extend(names)
            elif op in _EXTREMES and dtype.kind == "f":
                found.setdefault(f"{_EXTREMES[op]}_f{8 * dtype.itemsize}", []).extend(names)
            else:
                return None
        return " ".join(f"reduction({sign} : {', '.join(names)})" for sign, names in found.items())

    def begin_reduction(self, reduction: _Reduction) -> None:
        """Write what precedes the nest: the running value, or cleared elements."""
        value = reduction.operation.result
        if reduction.level == 0:
            storage = self.plan.storage[value]
            if not value.shape:
                reduction.name = self.place_of(storage)
                if storage in self.declared:
                    self.assign(reduction.name, self.initial_of(reduction.operation))
                    return
                self.declared.add(storage)
            else:
                self.declare(value)
                reduction.name = self.fresh("", "sum" if reduction.is_sum else "best")
            self.begin_sum(reduction)
            return
        self.declare(value)
        if reduction.is_plain:
            return
        shape = self.shape(value)
        initial = self.initial_of(reduction.operation)
        with self.loops(shape, simd="") as index:
            self.assign(self.store(value, index), initial)

    def initial_of(self, operation: Operation) -> str:
        return zero(operation.result.dtype) if operation.op == "dot_general" else self.initial(operation)

    def begin_sum(self, reduction: _Reduction) -> None:
        ctype = self.local_ctype(reduction.operation.result.dtype)
        self.line(f"{ctype} {reduction.name} = {self.initial_of(reduction.operation)};")

    def accumulate(self, reduction: _Reduction, index: Sequence[Dim]) -> None:
        """Write one step of a reduction at one index of its nest."""
        operation = reduction.operation
        target = reduction.name
        if reduction.level == len(reduction.space):
            target = self.store(operation.result, self._kept(reduction, index))
        self.fold(operation, target, self.reduced_element(operation, index))

    def reduced_element(self, operation: Operation, index: Sequence[Dim]) -> str:
        """Return what a reduction takes in at one index of its nest."""
        x = operation.operands[0]
        if operation.op == "dot_general":
            texts = []
            for operand, axes in zip(operation.operands, operation.attrs["contract"], strict=True):
                place: list[Dim] = [0] * len(operand.shape)
                for axis, position in zip(axes, spread(index, x.shape), strict=True):
                    place[axis] = position
                texts.append(self.element(operand, place))
            return self.times(x.dtype, *texts)
        return self.element(x, spread(index, x.shape))

    def fold(self, operation: Operation, target: str, text: str) -> None:
        """Write one step of a reduction into its target."""
        if operation.op in ("reduce_sum", "dot_general"):
            self.assign(target, text, add=True)
        else:
            self.assign(target, self.combine(operation, target, text))

    def _kept(self, reduction: _Reduction, index: Sequence[Dim]) -> list[Dim]:
        """Return the index into a reduction's result."""
        return spread([index[k] for k in reduction.kept], reduction.operation.result.shape)

    def end_sum(self, reduction: _Reduction, index: Sequence[Dim]) -> None:
        """Write the running value of a reduction to its result."""
        operation = reduction.operation
        value = operation.result
        if value not in self.plan.storage and len(squeeze(value.shape)) == 1:
            self.bound[value] = reduction.name  # a number of the row
            return
        target = self.store(value, self._kept(reduction, index))
        if target == reduction.name:
            return
        if reduction.is_plain:
            self.assign(target, reduction.name)
        else:
            self.fold(operation, target, reduction.name)
