"""Appends operations to a block: the interpreter that stages.

Previous: opdef.py; next: printer.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracegrad.errors import Span
from tracegrad.ir.core import Block, Operation, Value, clone_block, substitute
from tracegrad.ir.opdef import REGION_OPS, TABLE, OpDef
from tracegrad.ir.types import ArrayType, Type


class Builder:
    """Stages op applications into the current block.

    `span` and `name` are given to what is built next; the capture sets them as it walks the user's lines.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.span: Span | None = None

    def apply(self, op: OpDef, operands: Sequence[Any], attrs: Mapping[str, Any], blocks: Sequence[Block] = ()) -> Any:
        """Stage an application. Python and NumPy constants among the operands become `constant` operations."""
        values = [v if isinstance(v, Value) else self.constant(v) for v in operands]
        if op.name in REGION_OPS:
            types = op.infer(*[v.type for v in values], blocks=blocks, **attrs)
        else:
            types = op.infer(*[v.type for v in values], **attrs)
        operation = self.append(op.name, values, dict(attrs), list(blocks), list(types))
        return operation.results[0] if len(types) == 1 else tuple(operation.results)

    def append(
        self, op: str, operands: list[Value], attrs: dict[str, Any], blocks: list[Block], result_types: list[Type]
    ) -> Operation:
        operation = Operation(op, operands, attrs, blocks, result_types, self.span)
        self.block.operations.append(operation)
        return operation

    def constant(self, value: Any) -> Value:
        """Stage a constant array or scalar; its dtype is that of `np.asarray(value)`."""
        array = np.asarray(value)
        return self.append("constant", [], {"value": array}, [], [ArrayType(array.dtype, array.shape)]).result

    @contextmanager
    def into(self, block: Block) -> Iterator[Block]:
        """Stage into another block inside a with statement."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    def inline(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """Append a copy of a block's operations with its parameters replaced; return what it yields."""
        copy = clone_block(block, {})
        substitute(copy, dict(zip(copy.params, arguments, strict=True)))
        self.block.operations.extend(copy.operations)
        return copy.yields


def lookup(operation: Operation) -> OpDef:
    """Return the record of an operation's op."""
    return TABLE[operation.op]
