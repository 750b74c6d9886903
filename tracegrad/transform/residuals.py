"""Which values of a block to keep for its reverse: a minimum cut between what must be kept and what is needed.

Reads a primal block and the values its reverse needs; writes nothing. Previous: ranges.py; next: cotangents.py.

Each value can be stored, at the cost of its bytes, or recomputed from its operands when its op is cheap. A set of
stored values suffices when every path from a value that cannot be recomputed to a needed one passes through it, so the
cheapest set is a minimum vertex cut.
Source: the recomputation by minimum cut in functorch (Horace He, 2022); the max-flow is Dinic's (1970).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tracegrad.ir.bounds import size_guess
from tracegrad.ir.core import Block, Operation, Value
from tracegrad.ir.liveness import defined_in
from tracegrad.ir.opdef import TABLE

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
    return op.cheap or (bool(op.linear) and all(size_guess(v.shape) <= _FEW for v in operation.operands))


def plan_residuals(
    block: Block, needed: Collection[Value], free: Collection[Value] = (), outer: Collection[Value] = ()
) -> Plan:
    """Choose what to store and what to recompute so that the values `needed`, defined in `block`, are at hand.

    Args:
        free: values of the block that the reverse block has anyway, such as the index of a loop.
        outer: arrays from outside that have to be kept if they are read; an element of them may be the cheaper one.
    """
    defined = defined_in(block) - set(free)
    network = _Network()
    waiting = [v for v in needed if v in defined]
    seen = set(waiting)
    for value in waiting:
        network.connect((value, 1), _SINK, _UNBOUNDED)
    while waiting:
        value = waiting.pop()
        network.connect((value, 0), (value, 1), _size_bytes(value) + 1)  # of equal sizes, fewer values
        if value.producer is None or not is_recomputable(value.producer):
            network.connect(_SOURCE, (value, 0), _UNBOUNDED)
            continue
        for operand in dict.fromkeys(value.producer.operands):
            if operand in outer:
                network.connect((operand, 1), (value, 0), _UNBOUNDED)
                network.connect((operand, 0), (operand, 1), _size_bytes(operand))
                network.connect(_SOURCE, (operand, 0), _UNBOUNDED)
            elif operand in defined:
                network.connect((operand, 1), (value, 0), _UNBOUNDED)
                if operand not in seen:
                    seen.add(operand)
                    waiting.append(operand)
    cut = network.cut_near_sink()
    stored = [v for v in _in_order(block) if v in cut]
    return Plan(stored, _operations_between(block, [v for v in needed if v in defined], cut))


def _size_bytes(value: Value) -> int:
    return size_guess(value.shape) * int(value.dtype.itemsize)


def _in_order(block: Block) -> Sequence[Value]:
    return [*block.params, *(r for operation in block.operations for r in operation.results)]


def _operations_between(block: Block, needed: Sequence[Value], stored: Collection[Value]) -> list[Operation]:
    """Return the operations that compute `needed` from `stored`, in program order."""
    own = set(block.operations)
    found: set[Operation] = set()
    waiting = [v for v in needed if v not in stored]
    while waiting:
        operation = waiting.pop().producer
        if operation is not None and operation in own and operation not in found:
            found.add(operation)
            waiting.extend(v for v in operation.operands if v not in stored)
    return [o for o in block.operations if o in found]


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
