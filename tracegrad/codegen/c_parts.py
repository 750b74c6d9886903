"""Takes loops over many independent elements out of a function, so that parts of them can run on several threads.

Reads and writes IR, before the plan is made. Previous: loops.py; next: c_storage.py.
"""

from __future__ import annotations

import math

from tracegrad.codegen.loops import CHEAP
from tracegrad.ir.bounds import size_guess, trip_count
from tracegrad.ir.core import (
    Block,
    Function,
    Operation,
    Value,
    clone_block,
    clone_function,
    clone_operation,
    free_values,
    substitute,
    walk,
)
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.parallel import is_independent
from tracegrad.ir.types import I64, ArrayType, StackType

#: sums and products that a thread must have to do: some 50 to 100 µs, a few times what starting it costs
LEAST_WORK = 300_000
#: what another operation on a number costs, in such ones
_DEAR = 10
#: iterations of a loop of which the number is not known
_SOME = 16
#: values that a part makes by itself
_LOCAL = frozenset({"constant", "full", "dim", "stack", "undefined"})


def take_out_loops(function: Function) -> Function:
    """Return a copy of the function with a `parallel` in place of each loop over many independent elements."""
    made = clone_function(function)
    for position, operation in enumerate(made.body.operations):
        least = math.ceil(LEAST_WORK / max(1, _work(operation.blocks[0]))) if is_independent(operation, made) else 0
        count = trip_count(operation)
        if least and count is not None and not (isinstance(count, int) and count < 2 * least):
            taken = _take_out(operation, f"{function.name}_elements", least)
            made.body.operations[position] = taken
            substitute(made.body, dict(zip(operation.results, taken.results, strict=True)))
    used = {v for operation in walk(made.body) for v in operation.operands}
    made.body.operations = [o for o in made.body.operations if o.op != "stack" or o.result in used]
    return made


def _work(block: Block) -> int:
    """Return about how much a block has to do, in sums and products."""
    work = 0
    for operation in block.operations:
        trips = trip_count(operation) if operation.op == "for" else _SOME if operation.op == "while" else 1
        work += sum(_work(nested) for nested in operation.blocks) * (trips if isinstance(trips, int) else _SOME)
        if not operation.blocks and operation.op not in _LOCAL:
            record = TABLE[operation.op]
            values = operation.operands if record.inplace is not None else operation.results
            size = min((size_guess(v.shape) for v in values if isinstance(v.type, ArrayType)), default=1)
            work += size * (_DEAR if record.elementwise and operation.op not in CHEAP else 1)
    return work


def _take_out(loop: Operation, name: str, least: int) -> Operation:
    """Return the `parallel` for a loop.

    Its function makes by itself what has no operands, stacks among it, and takes the other values from outside.
    """
    bounds = [Value(ArrayType(I64), "first"), Value(ArrayType(I64), "last")]
    mapping: dict[Value, Value] = {}
    local: list[Operation] = []
    passed: list[Value] = []
    for value in free_values(loop.blocks[0]):
        producer = value.producer
        if producer is not None and producer.op in _LOCAL and not producer.operands:
            copy = clone_operation(producer, {})
            local.append(copy)
            mapping[value] = copy.result
        else:
            assert not isinstance(value.type, StackType), "a stack is made by an operation"
            passed.append(value)
            mapping[value] = Value(value.type, value.name)
    inits = [clone_operation(v.producer, {}) for v in loop.operands[2:] if v.producer is not None]
    body = clone_block(loop.blocks[0], mapping)
    types = [v.type for v in loop.results]
    inner = Operation("for", [*bounds, *(o.result for o in inits)], dict(loop.attrs), [body], types, loop.span)
    for old, new in zip(loop.results, inner.results, strict=True):
        new.name = old.name
    block = Block([*bounds, *(mapping[v] for v in passed)])
    block.operations = [*local, *inits, inner]
    block.yields = list(inner.results)
    attrs = {"function": Function(name, block), "least": least}
    made = Operation("parallel", [*loop.operands[:2], *passed], attrs, [], types, loop.span)
    for old, new in zip(loop.results, made.results, strict=True):
        new.name = old.name
    return made
