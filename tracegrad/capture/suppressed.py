"""Makes handlers of what drops exceptions in other ways, `with suppress(...)` and a jump at the end of `finally`.

Reads and writes gast trees. Previous: jumps.py; next: scopes.py.

    with suppress(ValueError):      with tg__.suppressing(suppress(ValueError)) as tg_kinds:
        ...                             try: ...
                                        except tg_kinds: pass

The name only says where it is done: whether the object is contextlib.suppress is seen at capture, and for another one
the handler catches nothing.

    try: ...                        try:
    finally:                            try: ...
        return y                        except: pass
                                    return y
"""

from __future__ import annotations

import gast

from tracegrad.capture.jumps import completes, jumps
from tracegrad.capture.nodes import Fresh, Make, Node


def lower_suppressed(function: Node, fresh: Fresh) -> None:
    """Rewrite what drops exceptions in a function, and in those in it, in place."""
    _Suppressed(fresh).visit(function)


def is_suppressing(item: Node) -> bool:
    """Return whether a part of a `with` gives the exceptions that are caught in it."""
    return bool(getattr(item, "tg_suppressing", False))


class _Suppressed(gast.NodeTransformer):  # type: ignore[misc]  # gast has no type annotations
    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh

    def visit_Try(self, node: Node) -> Node | list[Node]:
        self.generic_visit(node)
        if not node.finalbody or completes(node.finalbody) or not jumps(node.finalbody):
            return node
        for part in (node.body, node.orelse, *(handler.body for handler in node.handlers)):
            if part and isinstance(part[-1], gast.Return):  # `finally` returns something else
                place = Make(part[-1])
                part[-1] = place.expression(part[-1].value or place.constant(None))
        last, node.finalbody = node.finalbody, []
        if jumps([node]):
            node.finalbody = last
            return node
        place = Make(node.body[0])
        inner = [node] if node.handlers else node.body
        handler = place.at(gast.ExceptHandler(None, None, [place.at(gast.Pass())]))
        return [place.at(gast.Try(inner, [handler], [], [])), *last]

    def visit_With(self, node: Node) -> Node:
        self.generic_visit(node)
        for number, item in reversed([*enumerate(node.items)]):
            if item.optional_vars is None and _may_be_suppress(item.context_expr):
                place, kinds = Make(item.context_expr), self.fresh.unique("tg_kinds")
                handler = place.at(gast.ExceptHandler(place.load(kinds), None, [place.at(gast.Pass())]))
                inner, later = Make(node.body[0]), node.items[number + 1 :]
                body = [inner.at(gast.With(later, node.body, None))] if later else node.body
                node.body = [inner.at(gast.Try(body, [handler], [], []))]
                item.optional_vars, item.tg_suppressing = place.store(kinds), True
                node.items = node.items[: number + 1]
        return node


def _may_be_suppress(expression: Node) -> bool:
    function = expression.func if isinstance(expression, gast.Call) else None
    name = function.attr if isinstance(function, gast.Attribute) else getattr(function, "id", "")
    return bool(name == "suppress")
