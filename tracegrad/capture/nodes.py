"""Builds gast nodes that stand at a place of the user's text, and walks them by Python's scopes.

Previous: source.py; next: jumps.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gast

Node = Any  # gast has no type annotations

HOOKS = "tg__"  # the free variable of converted code that holds the hooks
SLICE = "tg_slice"  # and the one that holds the builtin `slice`, whatever the user's module calls so

FUNCTIONS = (gast.FunctionDef, gast.AsyncFunctionDef)
COMPREHENSIONS = (gast.ListComp, gast.SetComp, gast.DictComp, gast.GeneratorExp)
LOOPS = (gast.For, gast.While)
COMPOUND = (*LOOPS, gast.If, gast.With, gast.Try, gast.ExceptHandler, gast.Match, gast.match_case)


class Make:
    """Makes nodes at one place: that of `node`, or from the start of `node` to the end of `last` (a header)."""

    def __init__(self, node: Node, last: Node | None = None) -> None:
        end = node if last is None else last
        self.location = (node.lineno, node.col_offset, end.end_lineno, end.end_col_offset)

    def at(self, node: Node) -> Node:
        node.lineno, node.col_offset, node.end_lineno, node.end_col_offset = self.location
        return node

    def load(self, name: str) -> Node:
        return self.at(gast.Name(name, gast.Load(), None, None))

    def store(self, name: str) -> Node:
        return self.at(gast.Name(name, gast.Store(), None, None))

    def constant(self, value: object) -> Node:
        return self.at(gast.Constant(value, None))

    def names(self, names: Iterable[str]) -> Node:
        """A tuple of the names as strings."""
        return self.at(gast.Tuple([self.constant(name) for name in names], gast.Load()))

    def tuple(self, elements: Sequence[Node], context: Node | None = None) -> Node:
        return self.at(gast.Tuple(list(elements), context or gast.Load()))

    def hook(self, name: str, *arguments: Node, keywords: Sequence[Node] = ()) -> Node:
        """A call of the hook called `name`."""
        function = self.at(gast.Attribute(self.load(HOOKS), name, gast.Load()))
        # One line only: Python moves the position of a method call to the line on which its attribute ends.
        for part in (function, function.value):
            part.end_lineno, part.end_col_offset = part.lineno, part.col_offset
        return self.at(gast.Call(function, list(arguments), list(keywords)))

    def call(self, name: str, *arguments: Node) -> Node:
        return self.at(gast.Call(self.load(name), list(arguments), []))

    def assign(self, target: str | Node, value: Node) -> Node:
        target = self.store(target) if isinstance(target, str) else target
        return self.at(gast.Assign([target], value, None))

    def expression(self, value: Node) -> Node:
        return self.at(gast.Expr(value))

    def returns(self, value: Node) -> Node:
        return self.at(gast.Return(value))

    def function(self, name: str, parameters: Sequence[str], body: Sequence[Node]) -> Node:
        return self.at(gast.FunctionDef(name, self.parameters(parameters), list(body), [], None, None, []))

    def thunk(self, body: Node, parameters: Sequence[str] = ()) -> Node:
        return self.at(gast.Lambda(self.parameters(parameters), body))

    def parameters(self, names: Sequence[str]) -> Node:
        return gast.arguments(
            [self.at(gast.Name(name, gast.Param(), None, None)) for name in names], [], None, [], [], None, []
        )

    def negation(self, test: Node) -> Node:
        return self.at(gast.UnaryOp(gast.Not(), test))

    def any_of(self, names: Sequence[str]) -> Node:
        """The expression `a or b or ...` of flags."""
        values = [self.load(name) for name in names]
        return values[0] if len(values) == 1 else self.at(gast.BoolOp(gast.Or(), values))


class Fresh:
    """Gives names that the user's function does not use."""

    def __init__(self, function: Node) -> None:
        self.used = {identifier for node in gast.walk(function) for identifier in identifiers(node)}

    def unique(self, base: str) -> str:
        """Return a name for one use in the function."""
        name, number = base, 1
        while name in self.used:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        return name

    def shared(self, base: str) -> str:
        """Return a name that does not stand for anything of the user's; the same name each time."""
        while base in self.used:
            base += "_"
        return base


def identifiers(node: Node) -> Iterator[str]:
    """Yield the names that `node` itself binds, reads or declares."""
    if isinstance(node, gast.Name):
        yield node.id
    elif isinstance(node, gast.FunctionDef | gast.AsyncFunctionDef | gast.ClassDef):
        yield node.name
    elif isinstance(node, gast.Global | gast.Nonlocal):
        yield from node.names
    else:
        yield from _bound_by(node)


def _bound_by(node: Node) -> Iterator[str]:
    """Yield the names bound by nodes that keep them as strings."""
    if isinstance(node, gast.alias):
        yield (node.asname or node.name).partition(".")[0]
    elif isinstance(node, gast.MatchAs | gast.MatchStar) and node.name is not None:
        yield node.name
    elif isinstance(node, gast.MatchMapping) and node.rest is not None:
        yield node.rest


def walk_scope(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes that run in the scope that `nodes` stand in, in the order of the text.

    Of nested functions and classes that is what runs where they are defined (decorators, defaults, bases); of
    comprehensions everything but their targets, so that an assignment expression counts as the function's own.
    """
    pending = [*nodes][::-1]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(scope_children(node))


def scope_children(node: Node) -> list[Node]:
    if isinstance(node, FUNCTIONS):
        return [*node.decorator_list, *defaults(node.args)]
    if isinstance(node, gast.Lambda):
        return defaults(node.args)
    if isinstance(node, gast.ClassDef):
        return [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]
    if isinstance(node, gast.comprehension):
        return [node.iter, *node.ifs]
    if isinstance(node, gast.AnnAssign):
        return [] if node.value is None else [node.value, node.target]
    return list(gast.iter_child_nodes(node))


def defaults(arguments: Node) -> list[Node]:
    return [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]


def parameter_names(arguments: Node) -> list[str]:
    """Return the parameters of a function, in the order of their values in its frame."""
    nodes = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [node.id for node in nodes if node is not None]


def is_store(node: Node, name: str) -> bool:
    """Return whether a node binds or deletes a name."""
    if isinstance(node, gast.Name):
        return node.id == name and isinstance(node.ctx, gast.Store | gast.Del)
    return getattr(node, "lineno", None) is not None and name in bindings([node]) and not scope_children(node)


def bindings(nodes: Iterable[Node]) -> dict[str, None]:
    """Return the names that `nodes` bind or delete in their own scope, in the order of the text."""
    bound: dict[str, None] = {}
    for node in walk_scope(nodes):
        if isinstance(node, gast.Name):
            if isinstance(node.ctx, gast.Store | gast.Del):
                bound[node.id] = None
        elif isinstance(node, gast.FunctionDef | gast.AsyncFunctionDef | gast.ClassDef):
            bound[node.name] = None
        else:
            bound.update(dict.fromkeys(_bound_by(node)))
    return bound


def settled_bindings(nodes: Iterable[Node]) -> dict[str, None]:
    """Return what `bindings` returns, for statements that no longer change: it is kept in them, as `tg_bound`."""
    bound: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, COMPOUND):
            if not hasattr(node, "tg_bound"):
                node.tg_bound = settled_bindings(scope_children(node))
            bound.update(node.tg_bound)
        else:
            bound.update(bindings([node]))
    return bound


def assignment_expressions(node: Node) -> dict[str, None]:
    """Return the names that `:=` binds in an expression."""
    return dict.fromkeys(n.target.id for n in walk_scope([node]) if isinstance(n, gast.NamedExpr))
