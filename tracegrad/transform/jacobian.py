"""Jacobians in IR: a loop over basis vectors around one forward or one reverse sweep.

Reads and writes IR. Previous: jvp.py; next: linearity.py.

The loop is part of the function, so a Jacobian is one kernel. What does not depend on the basis vector is moved out of
the loop by passes/hoist.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tracegrad import ops
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value, clone_function
from tracegrad.ir.opdef import TABLE, interpreter
from tracegrad.ir.types import I64, ArrayType, Dim, is_complex
from tracegrad.transform.activity import carries_derivative
from tracegrad.transform.cotangents import zeros
from tracegrad.transform.jvp import jvp
from tracegrad.transform.vjp import vjp


def jacobian(function: Function, wrt: Sequence[int], mode: str, *, keep_primal: bool = False) -> Function:
    """Return the function that computes the derivative of each floating-point result by each parameter in `wrt`.

    Args:
        mode: "forward", "reverse", or "" for the one with fewer sweeps.

    Returns:
        `(x_0, ...) -> (primal results if kept, dy_0/dx_a, dy_0/dx_b, ..., dy_1/dx_a, ...)`, of the types `block_type`.
    """
    outputs = [i for i, v in enumerate(function.results) if carries_derivative(v)]
    if not mode:
        rows = sum(_count(function.results[i].array_type) for i in outputs)
        columns = sum(_count(function.params[i].array_type) for i in wrt)
        mode = "forward" if columns <= rows else "reverse"
    result = clone_function(function)
    result.interface = None
    builder = Builder(result.body)
    blocks: dict[tuple[int, int], Value] = {}

    def by_mode(wanted: str, i: int, position: int) -> bool:
        """Return whether a block comes from this mode: one of real by complex values, or the opposite, has only one."""
        out, by = (is_complex(v.dtype) for v in (function.results[i], function.params[position]))
        return (mode if out == by else "forward" if out else "reverse") == wanted

    with interpreter(builder):
        for position in wrt:
            chosen = [i for i in outputs if by_mode("forward", i, position)]
            if chosen:
                parts = _columns(builder, result, function, position, chosen)
                blocks.update(zip([(i, position) for i in chosen], parts, strict=True))
        for i in outputs:
            chosen = [position for position in wrt if by_mode("reverse", i, position)]
            if chosen:
                parts = _rows(builder, result, function, i, chosen)
                blocks.update(zip([(i, position) for position in chosen], parts, strict=True))
    made = [blocks[i, position] for i in outputs for position in wrt]
    result.body.yields = [*(result.results if keep_primal else []), *made]
    result.name = f"jacobian_{function.name}"
    return result


def block_type(out: ArrayType, by: ArrayType) -> ArrayType:
    """Return the type of the derivative of a result by a parameter: the shape of the result followed by that of the
    parameter, the precision of the parameter, and complex where one of the two is."""
    dtype = by.dtype
    if is_complex(out.dtype) and not is_complex(dtype):
        dtype = np.result_type(dtype, np.complex64)
    return ArrayType(dtype, (*out.shape, *by.shape))


def diagonal(function: Function, wrt: Sequence[int]) -> Function:
    """Return the function that computes the diagonal of a square Jacobian, of each result by the parameter that it is
    of.

    Args:
        function: its results have the types of the parameters in `wrt`, in order: a gradient.
    """
    result = clone_function(function)
    result.interface = None
    builder = Builder(result.body)
    with interpreter(builder):
        parts = []
        for row, position in enumerate(wrt):
            single = clone_function(function)
            single.body.yields = [single.results[row]]
            pushed = jvp(single, [position], keep_primal=False)
            wanted = function.params[position].array_type
            scalar = ArrayType(wanted.dtype)
            (filled,) = _sweeps(builder, pushed, list(result.params), wanted, [scalar], own_element=True)
            parts.append(ops.reshape(filled, shape=wanted.shape))
    result.body.yields = parts
    result.name = f"diagonal_{function.name}"
    return result


def _count(kind: ArrayType) -> int:
    return math.prod(d if isinstance(d, int) else 1 << 20 for d in kind.shape)


def _columns(
    builder: Builder, result: Function, function: Function, position: int, outputs: Sequence[int]
) -> list[Value]:
    """Stage the derivative of some results by one parameter, one forward sweep per element of it."""
    part = clone_function(function)
    part.body.yields = [part.results[i] for i in outputs]
    pushed = jvp(part, [position], keep_primal=False)
    kinds = [v.array_type for v in pushed.results]
    wrt = function.params[position].array_type
    filled = _sweeps(builder, pushed, list(result.params), wrt, kinds)
    return [_columns_last(value, wrt, kind) for value, kind in zip(filled, kinds, strict=True)]


def _rows(builder: Builder, result: Function, function: Function, output: int, wrt: Sequence[int]) -> list[Value]:
    """Stage the derivative of one result by several parameters, one reverse sweep per element of the result."""
    single = clone_function(function)
    single.body.yields = [single.results[output]]
    pulled = vjp(single, wrt, keep_primal=False)
    kinds = [function.params[i].array_type for i in wrt]
    out = function.results[output].array_type
    filled = _sweeps(builder, pulled, list(result.params), out, kinds)
    if is_complex(out.dtype):  # a cotangent goes along with the conjugate of the derivative
        filled = [ops.conjugate(value) for value in filled]
    return [ops.reshape(value, shape=(*out.shape, *kind.shape)) for value, kind in zip(filled, kinds, strict=True)]


def _columns_last(value: Value, wrt: ArrayType, kind: ArrayType) -> Value:
    moved = ops.transpose(value, axes=(*range(1, kind.ndim + 1), 0)) if kind.ndim else value
    made = block_type(kind, wrt)
    shaped: Value = ops.reshape(moved, shape=made.shape)
    return ops.cast(shaped, dtype=made.dtype) if shaped.dtype != made.dtype else shaped


def _sweeps(
    builder: Builder,
    sweep: Function,
    params: list[Value],
    seed: ArrayType,
    kinds: list[ArrayType],
    own_element: bool = False,
) -> list[Value]:
    """Stage a loop over the basis of a space of type `seed`: its results stacked along axis 0, per result of the
    sweep."""
    _hoist_stacks(builder, sweep)
    count: Dim = math.prod(seed.shape)
    index = Value(ArrayType(I64), "direction")
    carries = [Value(ArrayType(kind.dtype, (count, *kind.shape)), "rows") for kind in kinds]
    body = Block([index, *carries])
    with builder.into(body):
        basis = zeros(builder, ArrayType(seed.dtype, (count,)))
        one = builder.apply(TABLE["full"], (), {"shape": (), "dtype": seed.dtype, "value": 1.0})
        vector: Value = ops.reshape(ops.scatter_set(basis, index, one, axes=(0,)), shape=seed.shape)
        vector.name = "unit"
        moved = builder.inline(sweep.body, [*params, vector])
        if own_element:
            moved = [ops.gather(ops.reshape(m, shape=(count,)), index, axes=(0,)) for m in moved]
        body.yields = [ops.scatter_set(c, index, m, axes=(0,)) for c, m in zip(carries, moved, strict=True)]
    start, stop = builder.constant(0), ops.dim(dim=count)
    inits = [ops.undefined(type=c.array_type) for c in carries]  # each row is written
    loop = Operation(
        "for", [start, stop, *inits], {"step": 1, "reverse": False}, [body], [c.type for c in carries], builder.span
    )
    for result, carry in zip(loop.results, carries, strict=True):
        result.name = carry.name
    builder.block.operations.append(loop)
    return list(loop.results)


def _hoist_stacks(builder: Builder, function: Function) -> None:
    """Move the residual stacks of a sweep out of the loop that runs it; each is empty after every sweep."""
    stacks = [o for o in function.body.operations if o.op == "stack"]
    function.body.operations = [o for o in function.body.operations if o.op != "stack"]
    builder.block.operations.extend(stacks)
