"""Finds `a = a + [v]` for lists that are known under one name only, and makes `a += [v]` of it.

A new list with the items of the old one cannot be told from the old one, made longer, where nothing else has that: so
the uses of the name in its function are looked through. So are those of a list that is changed in place, and whose name
gets a new list in a branch or loop: that can be the old one with other items. Changes and annotates gast. Previous:
swaps.py; next: convert.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import gast

from tracegrad.capture.nodes import FUNCTIONS, Make, Node

#: functions that read the items of a list, and keep nothing of the list itself
_READERS = frozenset("len sum list tuple set sorted min max any all print float".split())
#: functions that give the items of a list one by one, later
_STREAMS = frozenset({"enumerate", "zip", "reversed"})
_MODULES = frozenset({"np", "numpy"})
_METHODS = frozenset("append extend insert pop remove clear reverse sort index count copy".split())
#: those that change the list
_CHANGES = frozenset("append extend insert pop remove clear reverse sort".split())
_HIDDEN = (*FUNCTIONS, gast.ClassDef, gast.Lambda, gast.Global, gast.Nonlocal)


def mark_regrown(body: list[Node], parameters: frozenset[str]) -> None:
    """Replace `a = a + [v]` and `a = [*a, v]` by `a += [v]` in the statements of a function, where that is the same."""
    root = gast.Module(body, [])
    parents = {id(child): node for node in gast.walk(root) for child in gast.iter_child_nodes(node)}
    nodes = list(gast.walk(root))
    found = {node.targets[0].id for node in nodes if _added(node) is not None} - parameters
    for name in sorted(found):
        if not _has_one_name(name, nodes, parents):
            continue
        for node in nodes:
            added = _added(node)
            if added is not None and node.targets[0].id == name:
                _replace(parents[id(node)], node, Make(node).at(gast.AugAssign(node.targets[0], gast.Add(), added)))


def mark_renewed(body: list[Node], parameters: frozenset[str]) -> None:
    """Annotate, as `tg_renews`, the assignments in branches and loops that give a name a new list, which the function
    changes in place elsewhere, where the list has no other name."""
    root = gast.Module(body, [])
    nodes = list(gast.walk(root))
    made = [node for node in nodes if isinstance(node, gast.Assign) and _makes_list(node.value)]
    if not made:
        return
    parents = {id(child): node for node in nodes for child in gast.iter_child_nodes(node)}
    found: dict[str, list[Node]] = {}
    for node in made:
        if len(node.targets) == 1 and isinstance(node.targets[0], gast.Name) and _is_conditional(node, parents):
            found.setdefault(node.targets[0].id, []).append(node)
    for name in sorted(found.keys() - parameters):
        changes = any(isinstance(n, gast.Name) and n.id == name and _is_changed(n, parents) for n in nodes)
        if changes and _has_one_name(name, nodes, parents):
            for node in found[name]:
                node.tg_renews = True


def _is_conditional(node: Node, parents: dict[int, Node]) -> bool:
    while (node := parents.get(id(node))) is not None and not isinstance(node, (*FUNCTIONS, gast.ClassDef)):
        if isinstance(node, gast.If | gast.For | gast.While):
            return True
    return False


def _is_changed(use: Node, parents: dict[int, Node]) -> bool:
    """Return whether an item of a list is stored, or its order or length changes."""
    around = parents[id(use)]
    if isinstance(around, gast.Attribute):
        return around.attr in _CHANGES
    if isinstance(around, gast.AugAssign):
        return around.target is use
    stores = isinstance(around, gast.Subscript) and isinstance(around.ctx, gast.Store | gast.Del)
    return stores and around.value is use


def _makes_list(value: Node) -> bool:
    """Return whether an expression gives a new list, if it gives one at all."""
    if isinstance(value, gast.BinOp) and isinstance(value.op, gast.Add):
        return _makes_list(value.left) or _makes_list(value.right)
    return isinstance(value, gast.List | gast.ListComp)


def _has_one_name(name: str, nodes: list[Node], parents: dict[int, Node]) -> bool:
    """Return whether the lists that a name gets are in no other place."""
    uses = [node for node in nodes if isinstance(node, gast.Name) and node.id == name]
    return not _is_hidden(name, nodes) and all(_is_alone(use, parents) for use in uses)


def _added(node: Node) -> Node | None:
    """Return the list that `a = a + [v]` or `a = [*a, v]` adds; None for all other statements."""
    if not isinstance(node, gast.Assign) or len(node.targets) > 1 or not isinstance(node.targets[0], gast.Name):
        return None
    name, value = node.targets[0].id, node.value
    if isinstance(value, gast.BinOp) and isinstance(value.op, gast.Add) and _is_name(value.left, name):
        return value.right if isinstance(value.right, gast.List) else None
    if isinstance(value, gast.List) and value.elts and isinstance(value.elts[0], gast.Starred):
        if _is_name(value.elts[0].value, name):
            return Make(value).at(gast.List(value.elts[1:], gast.Load()))
    return None


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, gast.Name) and node.id == name


def _is_hidden(name: str, nodes: list[Node]) -> bool:
    """Return whether a function or class inside uses a name too, or it is not a local one."""
    for node in nodes:
        if isinstance(node, gast.Global | gast.Nonlocal) and name in node.names:
            return True
        if isinstance(node, _HIDDEN) and any(_is_name(part, name) for part in gast.walk(node)):
            return True
    return False


def _is_alone(use: Node, parents: dict[int, Node]) -> bool:
    """Return whether a list that a name gets or has here is in no other place after it."""
    around = parents[id(use)]
    if isinstance(use.ctx, gast.Store):
        if isinstance(around, gast.AugAssign):
            return isinstance(around.op, gast.Add) and isinstance(around.value, gast.List)
        return _is_new(use, around, parents)
    if not isinstance(use.ctx, gast.Load):
        return False
    if isinstance(around, gast.Starred):
        return True  # a copy of the items
    if isinstance(around, gast.BinOp):
        return isinstance(around.op, gast.Add) and around.left is use and isinstance(around.right, gast.List)
    if isinstance(around, gast.Subscript):
        return around.value is use
    if isinstance(around, gast.Attribute):
        call = parents[id(around)]
        return isinstance(call, gast.Call) and call.func is around and around.attr in _METHODS
    if isinstance(around, gast.Call):
        return _reads(around, use) or (_streams(around, use) and _is_run_through(around, use.id, parents))
    if isinstance(around, gast.If | gast.While):
        return around.test is use
    return _is_returned(around, parents) or _is_run_through(use, use.id, parents)


def _is_returned(node: Node, parents: dict[int, Node]) -> bool:
    while isinstance(node, gast.Tuple | gast.List | gast.Dict):
        node = parents[id(node)]
    return isinstance(node, gast.Return)


def _is_new(target: Node, around: Node, parents: dict[int, Node]) -> bool:
    """Return whether a name gets a list that is made there: `a = []`, `a, b = [], [x]`."""
    if isinstance(around, gast.AnnAssign):
        return _makes_list(around.value)
    if isinstance(around, gast.Tuple):
        statement = parents[id(around)]
        if not isinstance(statement, gast.Assign) or len(statement.targets) > 1:
            return False
        values = statement.value
        if not isinstance(values, gast.Tuple) or len(values.elts) != len(around.elts):
            return False
        if any(isinstance(value, gast.Starred) for value in (*values.elts, *around.elts)):
            return False
        value = values.elts[next(k for k, part in enumerate(around.elts) if part is target)]
        return _makes_list(value)
    if not isinstance(around, gast.Assign) or len(around.targets) > 1 or around.targets[0] is not target:
        return False
    return _makes_list(around.value) or _added(around) is not None


def _reads(call: Node, use: Node) -> bool:
    function = call.func
    if use is function:
        return False
    if isinstance(function, gast.Name):
        return function.id in _READERS
    while isinstance(function, gast.Attribute):
        function = function.value
    return isinstance(function, gast.Name) and function.id in _MODULES


def _streams(call: Node, use: Node) -> bool:
    return isinstance(call.func, gast.Name) and call.func.id in _STREAMS and call.func is not use


def _is_run_through(items: Node, name: str, parents: dict[int, Node]) -> bool:
    """Return whether a loop, or a part of a comprehension, runs over the items of a list that does not grow in it."""
    around = parents[id(items)]
    if isinstance(around, gast.Call) and _streams(around, items):
        return _is_run_through(around, name, parents)
    if isinstance(around, gast.comprehension):
        whole = parents[id(around)]
        is_read = isinstance(parents[id(whole)], gast.Call) and _reads(parents[id(whole)], whole)
        return around.iter is items and (is_read or not isinstance(whole, gast.GeneratorExp))
    if not isinstance(around, gast.For) or around.iter is not items:
        return False
    return not any(_stores(part, name) for statement in around.body for part in gast.walk(statement))


def _stores(node: Node, name: str) -> bool:
    return _is_name(node, name) and isinstance(node.ctx, gast.Store)


def _replace(parent: Node, old: Node, new: Node) -> None:
    for block in _blocks(parent):
        for position, statement in enumerate(block):
            if statement is old:
                block[position] = new


def _blocks(node: Node) -> Iterator[list[Node]]:
    return (field for _, field in gast.iter_fields(node) if isinstance(field, list))
