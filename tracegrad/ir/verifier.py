"""Checks that a function in IR is well formed; run after every stage in tests.

Previous: parser.py; next folder: ops.
"""

from __future__ import annotations

from typing import NoReturn

from tracegrad.errors import IRError, TracegradError
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.opdef import REGION_OPS, TABLE
from tracegrad.ir.printer import Names, print_operations


def verify_function(function: Function, stage: str = "") -> None:
    """Raise IRError, with the operations around the fault, when the function is malformed.

    Checked: every operand is defined before, in this block or an outer one; no value is defined twice; the op is in the
    table; attributes are those of the op; result types are what the op's type rule infers; blocks yield what their
    operation needs.
    """
    _Verifier(function, stage).block(function.body, frozenset())


class _Verifier:
    def __init__(self, function: Function, stage: str) -> None:
        self.function, self.stage = function, stage
        self.defined: set[Value] = set()

    def fail(self, what: str, block: Block, operation: Operation | None) -> NoReturn:
        names = Names()
        for param in self.function.params:
            names[param]
        position = block.operations.index(operation) if operation is not None else len(block.operations)
        context: list[str] = []
        for index in range(max(0, position - 3), min(len(block.operations), position + 3)):
            lines = print_operations([block.operations[index]], names)
            mark = ">" if index == position else " "
            context.extend(f"{mark} {line}" for line in lines[:6])
        if operation is None:
            context.append(f"> return or yield {', '.join(names[v] for v in block.yields)}")
        after = f" after {self.stage}" if self.stage else ""
        raise IRError(
            f"internal error: @{self.function.name} is malformed{after}: {what}",
            code="TG900",
            span=operation.span if operation is not None else None,
            found="\n".join(["these operations", *context]),
            help="this is a fault of tracegrad; please report it with the output of `tracegrad dump --emit ir`",
        )

    def define(self, value: Value, block: Block, operation: Operation | None) -> None:
        if value in self.defined:
            self.fail(f"{value!r} is defined twice", block, operation)
        self.defined.add(value)

    def block(self, block: Block, outer: frozenset[Value]) -> None:
        visible = set(outer)
        for param in block.params:
            self.define(param, block, None)
            visible.add(param)
        for operation in block.operations:
            self.operation(operation, block, visible)
            for result in operation.results:
                self.define(result, block, operation)
                if result.producer is not operation:
                    self.fail(f"{result!r} does not know its producer", block, operation)
                visible.add(result)
        for value in block.yields:
            if value not in visible:
                self.fail(f"{value!r} is used but not defined here", block, None)

    def operation(self, operation: Operation, block: Block, visible: set[Value]) -> None:
        op = TABLE.get(operation.op)
        if op is None:
            self.fail(f"op {operation.op!r} is not in the table", block, operation)
        for operand in operation.operands:
            if operand not in visible:
                self.fail(f"operand {operand!r} is used but not defined here", block, operation)
        if set(operation.attrs) != set(op.attributes):
            self.fail(f"attributes are {sorted(operation.attrs)}, not {sorted(op.attributes)}", block, operation)
        for nested in operation.blocks:
            self.block(nested, frozenset(visible))
        types = [v.type for v in operation.operands]
        try:
            if operation.op in REGION_OPS:
                inferred = op.infer(*types, blocks=operation.blocks, **operation.attrs)
            else:
                inferred = op.infer(*types, **operation.attrs)
        except (TracegradError, TypeError, AssertionError) as error:
            self.fail(f"the type rule refuses the operands: {error}", block, operation)
        if tuple(inferred) != tuple(r.type for r in operation.results):
            found = ", ".join(str(r.type) for r in operation.results)
            self.fail(f"results are ({found}), not ({', '.join(str(t) for t in inferred)})", block, operation)
