"""Jacobians in IR: a loop over basis vectors around one forward or one reverse sweep.

Reads and writes IR. Previous: jvp.py; next: linearity.py.

The loop is part of the function, so a Jacobian is one kernel. What does not depend on the basis vector is moved out of
the loop by passes/hoist.py. A sweep runs the function itself, so the function stands before the loop only where more is
wanted of it than every sweep does again: its results, and what it prints.
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
from tracegrad.transform.vjp import vjp, without_prints


def jacobian(
    function: Function,
    wrt: Sequence[int],
    mode: str,
    *,
    outputs: Sequence[int] | None = None,
    keep_primal: bool = False,
) -> Function:
    """Return the function that computes the derivative of some results by each parameter in `wrt`.

    Args:
        mode: "forward", "reverse", or "" for the one with fewer sweeps.
        outputs: positions of the results; None for all of floating point.
        keep_primal: whether all results of the function come first among the results.

    Returns:
        `(x_0, ...) -> (primal results if kept, dy_0/dx_a, dy_0/dx_b, ..., dy_1/dx_a, ...)`, of the types `block_type`.
    """
    if outputs is None:
        outputs = [i for i, v in enumerate(function.results) if carries_derivative(v)]
    if not mode:
        rows = sum(_count(function.results[i].array_type) for i in outputs)
        columns = sum(_count(function.params[i].array_type) for i in wrt)
        mode = "forward" if columns <= rows else "reverse"
    blocks: dict[tuple[int, int], Value] = {}

    def by_mode(wanted: str, i: int, position: int) -> bool:
        """Return whether a block comes from this mode: one of real by complex values, or the opposite, has only one."""
        out, by = (is_complex(v.dtype) for v in (function.results[i], function.params[position]))
        return (mode if out == by else "forward" if out else "reverse") == wanted

    columns_by = {p: chosen for p in wrt if (chosen := [i for i in outputs if by_mode("forward", i, p)])}
    rows_of = {i: chosen for i in outputs if (chosen := [p for p in wrt if by_mode("reverse", i, p)])}
    seeds = [*(function.params[p] for p in columns_by), *(function.results[i] for i in rows_of)]
    sweeps = _Sweeps(function, [v.array_type for v in seeds], keep_primal)
    with interpreter(sweeps.builder):
        for position, chosen in columns_by.items():
            parts = _columns(sweeps, position, chosen)
            blocks.update(zip([(i, position) for i in chosen], parts, strict=True))
        for i, chosen in rows_of.items():
            parts = _rows(sweeps, i, chosen)
            blocks.update(zip([(i, position) for position in chosen], parts, strict=True))
    return sweeps.finish(f"jacobian_{function.name}", [blocks[i, position] for i in outputs for position in wrt])


def block_type(out: ArrayType, by: ArrayType) -> ArrayType:
    """Return the type of the derivative of a result by a parameter: the shape of the result followed by that of the
    parameter, the precision of the parameter, and complex where one of the two is."""
    dtype = by.dtype
    if is_complex(out.dtype) and not is_complex(dtype):
        dtype = np.result_type(dtype, np.complex64)
    return ArrayType(dtype, (*out.shape, *by.shape))


def diagonal(
    function: Function, wrt: Sequence[int], *, outputs: Sequence[int] | None = None, keep_primal: bool = False
) -> Function:
    """Return the function that computes the diagonal of a square Jacobian, of each result by the parameter that it is
    of.

    Args:
        function: some of its results have the types of the parameters in `wrt`, in order: a gradient.
        outputs: positions of these results; None for all.
        keep_primal: whether all results of the function come first among the results.
    """
    rows = range(len(function.results)) if outputs is None else outputs
    sweeps = _Sweeps(function, [function.params[position].array_type for position in wrt], keep_primal)
    with interpreter(sweeps.builder):
        parts = []
        for row, position in zip(rows, wrt, strict=True):
            wanted = function.params[position].array_type
            pushed = jvp(sweeps.function, [position], outputs=[row], keep_primal=sweeps.give_primal)
            (filled,) = sweeps.run(pushed, wanted, [ArrayType(wanted.dtype)], own_element=True)
            parts.append(ops.reshape(filled, shape=wanted.shape))
    return sweeps.finish(f"diagonal_{function.name}", parts)


def _count(kind: ArrayType) -> int:
    return math.prod(d if isinstance(d, int) else 1 << 20 for d in kind.shape)


def _columns(sweeps: _Sweeps, position: int, outputs: Sequence[int]) -> list[Value]:
    """Stage the derivative of some results by one parameter, one forward sweep per element of it."""
    function = sweeps.function
    pushed = jvp(function, [position], outputs=outputs, keep_primal=sweeps.give_primal)
    kinds = [function.results[i].array_type for i in outputs]
    wrt = function.params[position].array_type
    filled = sweeps.run(pushed, wrt, kinds)
    return [_columns_last(value, wrt, kind) for value, kind in zip(filled, kinds, strict=True)]


def _rows(sweeps: _Sweeps, output: int, wrt: Sequence[int]) -> list[Value]:
    """Stage the derivative of one result by several parameters, one reverse sweep per element of the result."""
    function = sweeps.function
    pulled = vjp(function, wrt, outputs=[output], keep_primal=sweeps.give_primal)
    kinds = [function.params[i].array_type for i in wrt]
    out = function.results[output].array_type
    filled = sweeps.run(pulled, out, kinds)
    if is_complex(out.dtype):  # a cotangent goes along with the conjugate of the derivative
        filled = [ops.conjugate(value) for value in filled]
    return [ops.reshape(value, shape=(*out.shape, *kind.shape)) for value, kind in zip(filled, kinds, strict=True)]


def _columns_last(value: Value, wrt: ArrayType, kind: ArrayType) -> Value:
    moved = ops.transpose(value, axes=(*range(1, kind.ndim + 1), 0)) if kind.ndim else value
    made = block_type(kind, wrt)
    shaped: Value = ops.reshape(moved, shape=made.shape)
    return ops.cast(shaped, dtype=made.dtype) if shaped.dtype != made.dtype else shaped


class _Sweeps:
    """A function of sweeps of another one, while it is made.

    Attributes:
        function: what the sweeps are of: the other function, without its prints when it runs before them too.
        give_primal: whether the one sweep that there is gives the results of the function, before its own.
    """

    def __init__(self, function: Function, seeds: Sequence[ArrayType], keep_primal: bool) -> None:
        counts = [math.prod(kind.shape) for kind in seeds]
        quiet = without_prints(function)
        self.result = clone_function(function)
        self.result.interface = None
        self.primal = list(self.result.results) if keep_primal else []
        self.give_primal = keep_primal and counts == [1]
        if self.give_primal or (not keep_primal and quiet is function and any(count != 0 for count in counts)):
            self.function = function
            self.result.body.operations = []
        else:
            self.function = quiet
        self.builder = Builder(self.result.body)

    def run(
        self, sweep: Function, seed: ArrayType, kinds: Sequence[ArrayType], own_element: bool = False
    ) -> list[Value]:
        """Stage a sweep for each vector of the basis of a space of type `seed`.

        Args:
            own_element: whether only the element is wanted that the vector has its one at.

        Returns:
            Its results stacked along axis 0, per result of the sweep.
        """
        builder, params = self.builder, self.result.params
        _hoist_stacks(builder, sweep)
        count: Dim = math.prod(seed.shape)
        if count == 1:
            one = builder.apply(TABLE["full"], (), {"shape": seed.shape, "dtype": seed.dtype, "value": 1.0})
            moved = builder.inline(sweep.body, [*params, one])
            if self.give_primal:
                self.primal, moved = moved[: len(self.primal)], moved[len(self.primal) :]
            return [ops.reshape(m, shape=(1, *kind.shape)) for m, kind in zip(moved, kinds, strict=True)]
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

    def finish(self, name: str, made: Sequence[Value]) -> Function:
        """Return the function, whose results are those of the primal where they are kept, then what was made."""
        self.result.body.yields = [*self.primal, *made]
        self.result.name = name
        return self.result


def _hoist_stacks(builder: Builder, function: Function) -> None:
    """Move the residual stacks of a sweep out of the loop that runs it; each is empty after every sweep."""
    stacks = [o for o in function.body.operations if o.op == "stack"]
    function.body.operations = [o for o in function.body.operations if o.op != "stack"]
    builder.block.operations.extend(stacks)
