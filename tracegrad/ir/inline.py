"""Replaces calls by the bodies of the functions they name.

Reads and writes IR in place. Used by transform/ and passes/. Previous: writes.py; next: verifier.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tracegrad.ir.core import Block, Function, Operation, Value, clone_function, substitute, walk

#: calls of a function whose derivative the operation says, or says how to take
CUSTOM_OPS: Final = frozenset({"custom_vjp", "custom_jvp", "checkpoint"})


def is_inlinable(operation: Operation) -> bool:
    """Return whether an operation is a call whose callee does not lead back to itself."""
    callee = operation.attrs.get("function")
    if not isinstance(callee, Function):
        return False
    return operation.op in CUSTOM_OPS or (operation.op == "call" and not is_recursive(callee))


def is_recursive(function: Function) -> bool:
    """Return whether a function calls itself, directly or through others."""
    seen: set[Function] = set()
    waiting = [function]
    while waiting:
        for operation in walk(waiting.pop().body):
            callee = operation.attrs.get("function")
            if callee is function:
                return True
            if isinstance(callee, Function) and callee not in seen:
                seen.add(callee)
                waiting.append(callee)
    return False


def inline_calls(function: Function, chosen: Callable[[Operation], bool] = is_inlinable) -> bool:
    """Replace the chosen operations by the bodies of their functions, until none is left; return whether any was."""
    # asked before anything changes: whether a callee is recursive is seen from its body
    now = {operation for operation in walk(function.body) if chosen(operation)}
    return bool(now) and _inline(function.body, function, now, chosen)


def _inline(block: Block, function: Function, now: set[Operation], chosen: Callable[[Operation], bool]) -> bool:
    changed = False
    before = list(block.operations)
    after = Block()
    mapping: dict[Value, Value] = {}
    for operation in before:  # the block stays whole meanwhile: its function may be asked whether it is recursive
        for nested in operation.blocks:
            changed |= _inline(nested, function, now, chosen)
        if operation not in now:
            after.operations.append(operation)
            continue
        changed = True
        callee: Function = operation.attrs["function"]
        yields = inline_body(after, function, callee, [mapping.get(v, v) for v in operation.operands], chosen)
        for old, new in zip(operation.results, yields, strict=True):
            new.take_name(old)
            mapping[old] = new
    stacks = block.operations[: len(block.operations) - len(before)]
    block.operations = [*stacks, *after.operations]
    if mapping:
        substitute(block, mapping)
    return changed


def own_callees(function: Function) -> list[Function]:
    """Give a function copies of its own of all functions that it calls, by any kind of call, and return them."""
    copies: dict[Function, Function] = {}
    waiting = [function]
    for current in waiting:
        for operation in walk(current.body):
            if operation.op != "call" and operation.op not in CUSTOM_OPS:
                continue
            callee: Function = operation.attrs["function"]
            if callee not in copies:
                copies[callee] = clone_function(callee)
                waiting.append(copies[callee])
            operation.attrs["function"] = copies[callee]
    return list(copies.values())


def inline_body(
    block: Block,
    function: Function,
    callee: Function,
    arguments: Sequence[Value],
    chosen: Callable[[Operation], bool] | None = None,
) -> list[Value]:
    """Append a copy of the body of `callee` to a block of `function`, and return what it yields.

    Its stacks are made at the top of `function`: each is empty between its uses.

    Args:
        chosen: the calls in the copy that are replaced too.
    """
    copy = clone_function(callee).body
    if chosen is not None:
        inline_calls(Function("", copy), chosen)
    stacks = [o for o in copy.operations if o.op == "stack"]
    copy.operations = [o for o in copy.operations if o.op != "stack"]
    substitute(copy, dict(zip(copy.params, arguments, strict=True)))
    block.operations.extend(copy.operations)
    function.body.operations[:0] = stacks
    return copy.yields
