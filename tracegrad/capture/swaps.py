"""Finds `a[i], a[j] = a[j], a[i]` for lists of which no other name holds an item.

Items of a list that is an array are rows of it. Two that change places are written over each other there, which only
who has taken one of them by itself could tell from what Python does: so the uses of the list in its function are looked
through. Annotates gast for convert.py. Previous: matching.py; next: regrown.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import gast

from tracegrad.capture.nodes import FUNCTIONS, Make, Node

#: functions that keep nothing of a row that they are given, and give back none
_READS = frozenset({"len", "abs", "sum", "zip", "enumerate", "list", "sorted", "any", "all"})
_OPERATORS = gast.BinOp | gast.UnaryOp | gast.Compare
_BLOCKS = ("body", "orelse", "finalbody")


class Swap(NamedTuple):
    """`base[targets[0]], base[targets[1]] = base[sources[0]], base[sources[1]]`, and as it may be with more items."""

    base: Node
    targets: list[Node]
    sources: list[Node]


def mark_swaps(body: list[Node]) -> None:
    """Annotate the statements of a function that swap items, as `tg_swap`: where no name holds an item of the list."""
    for block in list(_blocks(body)):
        _join_swaps(block, body)
    found: dict[str, list[int]] = {}
    for position, statement in enumerate(body):
        for node in gast.walk(statement):
            swap = _swap_of(node)
            if swap is not None:
                found.setdefault(swap.base.id, []).append(position)
    for name, positions in found.items():
        if _has_items_alone(name, body, max(positions)):
            for statement in body:
                for node in gast.walk(statement):
                    swap = _swap_of(node)
                    if swap is not None and swap.base.id == name:
                        node.tg_swap = swap


def _blocks(body: list[Node]) -> Iterator[list[Node]]:
    yield body
    for statement in body:
        for node in gast.walk(statement):
            if not isinstance(node, (*FUNCTIONS, gast.ClassDef)):
                for name in _BLOCKS:
                    if isinstance(block := getattr(node, name, None), list):
                        yield block


def _join_swaps(block: list[Node], body: list[Node]) -> None:
    """Write `t = a[i]; a[i] = a[j]; a[j] = t` as one assignment where `t` is not read elsewhere."""
    for position in range(len(block) - 2):
        three = block[position : position + 3]
        if len(three) < 3 or not all(isinstance(s, gast.Assign) and len(s.targets) == 1 for s in three):
            continue
        (kept, one), (other, moved), (last, name) = ((s.targets[0], s.value) for s in three)
        if not (isinstance(kept, gast.Name) and isinstance(name, gast.Name) and kept.id == name.id):
            continue
        if _text(one) != _text(other) or _text(moved) != _text(last) or _is_read_elsewhere(kept.id, name, body):
            continue
        if all(isinstance(part, gast.Subscript) and kept.id not in _text(part) for part in (one, moved)):
            make = Make(three[0])
            joined = make.at(gast.Assign([make.tuple([other, last], gast.Store())], make.tuple([moved, one]), None))
            block[position : position + 3] = [joined]


def _is_read_elsewhere(name: str, here: Node, body: list[Node]) -> bool:
    nodes = (node for statement in body for node in gast.walk(statement))
    reads = [n for n in nodes if isinstance(n, gast.Name) and n.id == name and isinstance(n.ctx, gast.Load)]
    return any(read is not here for read in reads)


def _swap_of(node: Node) -> Swap | None:
    if not isinstance(node, gast.Assign) or len(node.targets) > 1:
        return None
    target, value = node.targets[0], node.value
    if not isinstance(target, gast.Tuple) or not isinstance(value, gast.Tuple):
        return None
    parts = [*target.elts, *value.elts]
    if not all(isinstance(p, gast.Subscript) and isinstance(p.value, gast.Name) for p in parts):
        return None
    names = {part.value.id for part in parts}
    targets, sources = [p.slice for p in target.elts], [p.slice for p in value.elts]
    texts = sorted(map(_text, targets))
    if len(names) > 1 or texts != sorted(map(_text, sources)) or len(set(texts)) < len(texts):
        return None
    if any(isinstance(key, gast.Slice | gast.Tuple) for key in targets):
        return None
    return Swap(target.elts[0].value, targets, sources)


def _text(node: Node) -> str:
    return str(gast.dump(node)).replace("Store()", "Load()")


def _has_items_alone(name: str, body: list[Node], last: int) -> bool:
    """Return whether a list is made in a function, and no name holds an item of it until its last swap is over."""
    stores = [
        position
        for position, statement in enumerate(body)
        for node in gast.walk(statement)
        if isinstance(node, gast.Name) and node.id == name and not isinstance(node.ctx, gast.Load)
    ]
    if len(stores) != 1:
        return False
    made = body[stores[0]]
    if not isinstance(made, gast.Assign) or len(made.targets) > 1 or not isinstance(made.targets[0], gast.Name):
        return False
    if not isinstance(made.value, gast.List | gast.ListComp):
        return False
    for position, statement in enumerate(body):
        if any(isinstance(n, (*FUNCTIONS, gast.ClassDef)) and _mentions(n, name) for n in gast.walk(statement)):
            return False
        if stores[0] < position <= last and not _is_used_by_place(statement, name):
            return False
    return True


def _mentions(node: Node, name: str) -> bool:
    return any(isinstance(part, gast.Name) and part.id == name for part in gast.walk(node))


def _is_used_by_place(statement: Node, name: str) -> bool:
    """Return whether a statement takes no item of a list for itself: only numbers in it, or what is computed of it."""
    parents = {id(child): node for node in gast.walk(statement) for child in gast.iter_child_nodes(node)}
    for node in gast.walk(statement):
        if not isinstance(node, gast.Name) or node.id != name:
            continue
        around = parents[id(node)]
        if isinstance(around, gast.Call) and around.func is not node and _is_call_of(around, {"len"}):
            continue
        if not isinstance(around, gast.Subscript) or around.value is not node or isinstance(around.slice, gast.Slice):
            return False
        if not _leaves_item(around, parents):
            return False
    return True


def _leaves_item(item: Node, parents: dict[int, Node]) -> bool:
    around = parents[id(item)]
    if isinstance(around, gast.Subscript) and around.value is item:
        if not any(isinstance(part, gast.Slice) for part in gast.walk(around.slice)):
            return True  # a number
        item, around = around, parents[id(around)]
    elif isinstance(item.ctx, gast.Store) and isinstance(around, gast.Assign | gast.AugAssign):
        return True
    if isinstance(around, gast.Tuple):
        return _swap_of(parents[id(around)]) is not None
    if isinstance(around, gast.Call):
        return _is_call_of(around, _READS) or (_is_call_of(around, {"max", "min"}) and len(around.args) == 1)
    if isinstance(around, gast.comprehension | gast.For):
        return around.iter is item
    return isinstance(around, _OPERATORS) or (isinstance(around, gast.AugAssign) and around.value is item)


def _is_call_of(call: Node, names: frozenset[str] | set[str]) -> bool:
    return isinstance(call.func, gast.Name) and call.func.id in names
