"""Replaces operations by rules: what fold.py and canonicalize.py are written in.

Reads and writes IR in place. Next: fold.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.opdef import interpreter

#: returns the values that replace the results of an operation, or None when the rule does not apply; ops called inside
#: are staged where the operation stood
Rule = Callable[[Operation, Builder], "Sequence[Value] | Value | None"]


def rewrite(function: Function, rules: Mapping[str, Sequence[Rule]]) -> bool:
    """Apply the rules of each op, once per operation, in program order; return whether anything was replaced.

    Replaced operations are removed; their operands may become dead and are left to dce.py.
    """
    builder = Builder(function.body)
    with interpreter(builder):
        return _rewrite_block(function.body, rules, builder, {})


def _rewrite_block(
    block: Block, rules: Mapping[str, Sequence[Rule]], builder: Builder, mapping: dict[Value, Value]
) -> bool:
    changed = False
    operations, block.operations = block.operations, []
    with builder.into(block):
        for operation in operations:
            if mapping:
                operation.operands = [mapping.get(v, v) for v in operation.operands]
            for nested in operation.blocks:
                changed |= _rewrite_block(nested, rules, builder, mapping)
            chosen = rules.get(operation.op)
            results = list(operation.results)
            replacement = _replace(operation, chosen, builder) if chosen else None
            if replacement is None:
                block.operations.append(operation)
                continue
            changed = True
            for old, new in zip(results, replacement, strict=True):
                if old is new:
                    continue
                assert old.type == new.type, f"{operation!r} of type {old.type} is replaced by {new.type}"
                if new.producer is not None:
                    new.take_name(old)
                mapping[old] = new
    block.yields = [mapping.get(v, v) for v in block.yields]
    return changed


def _replace(operation: Operation, rules: Sequence[Rule], builder: Builder) -> Sequence[Value] | None:
    builder.span = operation.span
    for rule in rules:
        replacement = rule(operation, builder)
        if replacement is not None:
            return [replacement] if isinstance(replacement, Value) else replacement
    return None
