"""Branches, loops, calls, stacks of residuals, checks and printing.

Previous: fourier.py; next: common.py. Ops with blocks are differentiated by transform/ and emitted by codegen/
themselves. The Python names of ops that are keywords or builtins end in an underscore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import BY_TRANSFORM, NONDIFF, OpDef, Sample, register
from tracegrad.ir.types import Dim
from tracegrad.ops import c_rules
from tracegrad.ops.infer import (
    infer_call,
    infer_check,
    infer_custom_jvp,
    infer_custom_vjp,
    infer_for,
    infer_if,
    infer_pop,
    infer_print,
    infer_push,
    infer_stack,
    infer_while,
)
from tracegrad.ops.reduce import reduce_all

# fmt: off

if_ = register(OpDef(
    "if", ("condition",), "Blocks then() and else() without parameters; the results are those of the block that runs.",
    infer=infer_if, marker=BY_TRANSFORM,
))
for_ = register(OpDef(
    "for", ("start", "stop", "*inits"),
    "Block (k: i64[], *carries) -> carries, run for k in range(start, stop, step), backwards when reverse. "
    "The results are the final carries.",
    attributes=("step", "reverse"), infer=infer_for, marker=BY_TRANSFORM,
))
while_ = register(OpDef(
    "while", ("*inits",), "Blocks (*carries) -> bool[] and (*carries) -> carries; the results are the final carries.",
    infer=infer_while, marker=BY_TRANSFORM,
))
call = register(OpDef(
    "call", ("*operands",), "Call of another function of the IR.",
    attributes=("function",), c_statement=c_rules.call_statement, infer=infer_call, marker=BY_TRANSFORM,
))

parallel = register(OpDef(
    "parallel", ("start", "stop", "*operands"),
    "Parts of range(start, stop), of at least `least` elements each, at the same time: a function (first, last, "
    "*operands) that writes its own elements of the results.",
    attributes=("function", "least"), c_statement=c_rules.parallel_statement, infer=infer_call, marker=BY_TRANSFORM,
))

# Calls that say their derivative; they are inlined before code is generated

custom_vjp = register(OpDef(
    "custom_vjp", ("*operands",),
    "Call of a function (*operands) -> outs with a reverse rule for its first `arguments` operands, of which those of "
    "float dtype count. forward: (*operands) -> outs and residuals; backward: (residuals, one ct per float out, the "
    "operands after the arguments) -> one ct per float argument.",
    attributes=("function", "forward", "backward", "arguments"), infer=infer_custom_vjp, marker=BY_TRANSFORM,
))
custom_jvp = register(OpDef(
    "custom_jvp", ("*operands",),
    "Call of a function (*operands) -> outs with a forward rule for its first `arguments` operands, of which those of "
    "float dtype count. rule: (the arguments, one tangent per float argument, the other operands) -> outs and one "
    "tangent per float out, linear in the tangents.",
    attributes=("function", "rule", "arguments"), infer=infer_custom_jvp, marker=BY_TRANSFORM,
))

checkpoint = register(OpDef(
    "checkpoint", ("*operands",),
    "Call of a function of which reverse mode keeps the operands alone; it is run again for the cotangents.",
    attributes=("function",), infer=infer_call, marker=BY_TRANSFORM,
))

# Effects

stack = register(OpDef(
    "stack", (), "A new, empty stack of arrays of one type; `capacity` bounds their number if that is known.",
    attributes=("element", "capacity"), c_statement=c_rules.stack_statement,
    infer=infer_stack, marker=BY_TRANSFORM, effect=True,
))
push = register(OpDef(
    "push", ("stack", "value"), "Put a value on a stack.", c_statement=c_rules.push_statement,
    infer=infer_push, marker=BY_TRANSFORM, effect=True,
))
pop = register(OpDef(
    "pop", ("stack",), "Take the value that was pushed last off a stack.",
    c_statement=c_rules.pop_statement,
    infer=infer_pop, marker=BY_TRANSFORM, effect=True,
))


def _check_text(operation: Operation, condition: str) -> str:
    error = operation.attrs["error"]
    place = "np.linalg." if error == "LinAlgError" else ""
    return f"check({condition}, {place}{error}, {operation.attrs['message']!r})"


def _print_text(operation: Operation, *values: Any) -> str:
    format = operation.attrs["format"]
    end = "" if format.endswith("\n") else ", end=''"
    return f"print({format.removesuffix(chr(10))!r}.format({', '.join(values)}){end})"


def _batch_check(op: OpDef, size: Dim, batched: Sequence[bool], condition: Any, **attrs: Any) -> Any:
    return op(reduce_all(condition, axes=(0,)), **attrs)


check = register(OpDef(
    "check", ("condition",), "Raise an error, named by its Python class, unless the condition holds.",
    attributes=("error", "message"), c_statement=c_rules.check_statement,
    infer=infer_check, marker=NONDIFF, effect=True, batch=_batch_check,
    numpy=_check_text, numpy_helper="check",
    samples=(Sample("b[]", {"error": "ValueError", "message": "no root"}, integers=(1, 2)),),
))
print_ = register(OpDef(
    "print", ("*values",), "Print values through a format string for str.format, to which the end of the line belongs.",
    attributes=("format",), infer=infer_print, marker=NONDIFF, effect=True, numpy=_print_text,
    samples=(Sample("f[2] i[]", {"format": "{} at {}\n"}),),
))

# fmt: on
