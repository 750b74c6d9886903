"""Makes a `try` of the body of `with suppress(...)`, so that what fails in it at run time is followed to its end.

Reads and writes gast trees. Previous: matching.py; next: swaps.py.

    with suppress(ValueError):      with tg__.suppressing(suppress(ValueError)) as tg_kinds:
        ...                             try: ...
                                        except tg_kinds: pass

The name only says where it is done: whether the object is contextlib.suppress is seen at capture, and for another one
the handler catches nothing.
"""

from __future__ import annotations

import gast

from tracegrad.capture.nodes import Fresh, Make, Node


def lower_suppressed(function: Node, fresh: Fresh) -> None:
    """Rewrite the `with suppress(...)` of a function, and of those in it, in place."""
    _Suppressed(fresh).visit(function)


def is_suppressing(item: Node) -> bool:
    """Return whether a part of a `with` gives the exceptions that are caught in it."""
    return bool(getattr(item, "tg_suppressing", False))


class _Suppressed(gast.NodeTransformer):  # type: ignore[misc]  # gast has no type annotations
    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh

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
