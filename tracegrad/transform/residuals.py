"""Which values of a block to keep for its reverse: a minimum cut between what must be kept and what is needed.

Reads a primal block and the values its reverse needs; writes nothing. Previous: ranges.py; next: slopes.py.

Each value can be stored, at the cost of its bytes, or recomputed from its operands when its op is cheap. A set of
stored values suffices when every path from a value that cannot be recomputed to a needed one passes through it, so the
cheapest set is a minimum vertex cut.
Source: the recomputation by minimum cut in functorch (Horace He, 2022); the max-flow is Dinic's (1970).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from tracegrad.ir.accesses import Access, find_accesses, may_follow
from tracegrad.ir.bounds import size_guess
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.liveness import defined_in
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType

_UNBOUNDED = 1 << 60
#: a sum or copy of so few elements is repeated rather than stored
_FEW = 16


@dataclass(slots=True)
class Plan:
    """How a reverse block gets the values it needs.

    Attributes:
        stored: values to keep, in the order of their definition.
        recomputed: operations to repeat, in program order; they read stored, outer and free values only.
    """

    stored: list[Value]
    recomputed: list[Operation]


def is_recomputable(operation: Operation) -> bool:
    """Return whether repeating an operation is cheaper than storing its results."""
    op = TABLE[operation.op]
    if op.effect or operation.blocks:
        return False
    if op.elementwise and all(not v.shape and v.dtype.kind in "iub" for v in (*operation.operands, operation.result)):
        return True  # an index, or a test of one
    return op.cheap or (bool(op.linear) and all(size_guess(v.shape) <= _FEW for v in operation.operands))


def plan_residuals(
    block: Block,
    needed: Collection[Value],
    free: Collection[Value] = (),
    outer: Collection[Value] = (),
    kept: Mapping[Value, Operation] = MappingProxyType({}),
    repeated: Collection[Operation] = (),
) -> Plan:
    """Choose what to store and what to recompute so that the values `needed`, defined in `block`, are at hand.

    Args:
        free: values of the block that the reverse block has anyway, such as the index of a loop.
        repeated: operations that are done in the reverse block, whatever they cost; their results are not stored.
        outer: arrays from outside that have to be kept if they are read; an element of them may be the cheaper one.
        kept: values that an array keeps anyway, with the operation that reads them there.
    """
    defined = defined_in(block) - set(free)
    network = _Network()
    waiting = [v for v in needed if v in defined]
    seen = set(waiting)
    for value in waiting:
        network.connect((value, 1), _SINK, _UNBOUNDED)
    while waiting:
        value = waiting.pop()
        producer = kept.get(value, value.producer)
        cost = _UNBOUNDED if producer in repeated else _size_bytes(value) + 1  # of equal sizes, fewer values
        network.connect((value, 0), (value, 1), cost)
        if producer is None or not (value in kept or producer in repeated or is_recomputable(producer)):
            network.connect(_SOURCE, (value, 0), _UNBOUNDED)
            continue
        for operand in dict.fromkeys(producer.operands):
            if operand in outer:
                network.connect((operand, 1), (value, 0), _UNBOUNDED)
                network.connect((operand, 0), (operand, 1), _size_bytes(operand))
                network.connect(_SOURCE, (operand, 0), _UNBOUNDED)
            elif operand in defined:
                network.connect((operand, 1), (value, 0), _UNBOUNDED)
                if operand not in seen:
                    seen.add(operand)
                    waiting.append(operand)
    cut = {_before_reshape(v, defined) for v in network.cut_near_sink()}
    stored = [v for v in _in_order(block) if v in cut]
    return Plan(stored, _operations_between(block, [v for v in needed if v in defined], cut, kept))


def find_kept(function: Function) -> dict[Value, Operation]:
    """Return the values in loops that an array of the function keeps, with the operation that reads them in its end.

    An element that was read and is not written later, or written and not written again, is in the final array.
    """
    kept: dict[Value, Operation] = {}
    for loop in function.body.operations:
        if loop.op != "for":
            continue
        for position, final in enumerate(loop.results):
            if not isinstance(final.type, ArrayType) or not final.shape:
                continue
            accesses = find_accesses(loop, position) or []
            writes = [a for a in accesses if a.writes]
            for access in accesses:
                value = _value_at(access)
                if value is not None and not any(may_follow(access, write) for write in writes):
                    indices = access.operation.operands[1 : 1 + len(access.places)]
                    read = Operation("gather", [final, *indices], {"axes": access.operation.attrs["axes"]}, [], [])
                    read.results, read.span = [value], access.operation.span
                    kept.setdefault(value, read)
    return kept


def _value_at(access: Access) -> Value | None:
    """Return the value that an access reads or writes, when it is at hand wherever the access is done."""
    operation = access.operation
    if not access.exact:
        return None
    if operation.op == "gather":
        return operation.result
    value = operation.operands[-1]
    own = value in access.block.params or (value.producer is not None and value.producer in access.block.operations)
    return value if operation.op == "scatter_set" and own else None


def _before_reshape(value: Value, defined: Collection[Value]) -> Value:
    """Return what a value is a reshape of, which is as good to keep and has a name more often."""
    while value.producer is not None and value.producer.op == "reshape" and value.producer.operands[0] in defined:
        value = value.producer.operands[0]
    return value


def _size_bytes(value: Value) -> int:
    return size_guess(value.shape) * int(value.dtype.itemsize)


def _in_order(block: Block) -> Sequence[Value]:
    return [*block.params, *(r for operation in block.operations for r in operation.results)]


def _operations_between(
    block: Block, needed: Sequence[Value], stored: Collection[Value], kept: Mapping[Value, Operation]
) -> list[Operation]:
    """Return the operations that compute `needed` from `stored`: reads of what is kept first, then in program order."""
    found: set[Operation] = set()
    reads: dict[Operation, None] = {}
    own = set(block.operations)
    waiting = [v for v in needed if v not in stored]
    while waiting:
        value = waiting.pop()
        operation = kept.get(value, value.producer)
        if operation is None or operation in found or not (value in kept or operation in own):
            continue
        found.add(operation)
        if value in kept:
            reads[operation] = None
        waiting.extend(v for v in operation.operands if v not in stored)
    indices = _operations_between(block, [v for o in reads for v in o.operands], stored, {}) if reads else []
    first = [*indices, *reads]
    return [*first, *(o for o in block.operations if o in found and o not in set(first))]


#: a value is two nodes, 0 where operands arrive and 1 where users read it; the edge between costs its bytes
_Node = tuple[Value | None, int]
_SOURCE: _Node = (None, 0)
_SINK: _Node = (None, 1)


class _Network:
    def __init__(self) -> None:
        self.capacity: dict[_Node, dict[_Node, int]] = {_SOURCE: {}, _SINK: {}}

    def connect(self, source: _Node, target: _Node, capacity: int) -> None:
        self.capacity.setdefault(source, {})[target] = capacity
        self.capacity.setdefault(target, {}).setdefault(source, 0)

    def cut_near_sink(self) -> set[Value]:
        """Return the values cut by the minimum cut that lies nearest to the sink."""
        self.maximize_flow()
        reaching = {_SINK}
        waiting = [_SINK]
        while waiting:
            node = waiting.pop()
            for neighbour in self.capacity[node]:
                if neighbour not in reaching and self.capacity[neighbour][node] > 0:
                    reaching.add(neighbour)
                    waiting.append(neighbour)
        return {v for v, side in reaching if v is not None and side == 1 and (v, 0) not in reaching}

    def maximize_flow(self) -> None:
        while True:
            levels = self.levels()
            if _SINK not in levels:
                return
            edges = {node: list(neighbours) for node, neighbours in self.capacity.items()}
            while self.augment(levels, edges):
                pass

    def levels(self) -> dict[_Node, int]:
        levels = {_SOURCE: 0}
        waiting = deque([_SOURCE])
        while waiting:
            node = waiting.popleft()
            for neighbour, capacity in self.capacity[node].items():
                if capacity > 0 and neighbour not in levels:
                    levels[neighbour] = levels[node] + 1
                    waiting.append(neighbour)
        return levels

    def augment(self, levels: dict[_Node, int], edges: dict[_Node, list[_Node]]) -> bool:
        """Send flow along one path of increasing levels; edges that lead nowhere are dropped from `edges`."""
        path = [_SOURCE]
        while path[-1] != _SINK:
            node = path[-1]
            while edges[node]:
                neighbour = edges[node][-1]
                if self.capacity[node][neighbour] > 0 and levels.get(neighbour, -1) == levels[node] + 1:
                    path.append(neighbour)
                    break
                edges[node].pop()
            else:
                path.pop()
                if not path:
                    return False
                edges[path[-1]].pop()
        steps = list(pairwise(path))
        flow = min(self.capacity[a][b] for a, b in steps)
        for a, b in steps:
            self.capacity[a][b] -= flow
            self.capacity[b][a] += flow
        return True
