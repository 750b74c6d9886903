"""Python values that control flow carries: flatten to leaves, rebuild, and what a name is bound to on no path.

Reads and writes nothing. Previous: tracer.py; next: staging.py.

Own code and not a pytree library: a leaf here is also what cannot change (a string, a function), and lists made by
    captured
code keep their identity.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tracegrad import ops
from tracegrad.capture.context import current, user_span
from tracegrad.capture.lists import StackedList
from tracegrad.capture.ragged import Axis, Ragged
from tracegrad.capture.tracer import stage
from tracegrad.errors import TracedNameError, TracegradError


class Undefined:
    """What a local name is bound to before it is assigned."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name} is not bound>"

    def error(self) -> TracedNameError:
        return TracedNameError(
            f"local variable {self.name!r} may be read before it is assigned",
            code="TG111",
            span=user_span(),
            found=f"a path on which {self.name!r} is not assigned",
            help=f"assign {self.name!r} before the branch or loop",
        )


class Conflict:
    """What a name is bound to after a branch whose sides give it values that cannot be joined; reading it is the
    error."""

    __slots__ = ("error", "name")

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self.error = name, error

    def _use(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error

    def __repr__(self) -> str:
        return f"({self.error.found})" if isinstance(self.error, TracegradError) else f"<{self.name} not known>"


for _special in (
    "eq ne lt le gt ge bool hash str format len iter contains getitem setitem call add radd sub rsub mul rmul truediv "
    "rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul neg pos abs and rand or ror xor rxor invert index "
    "int float complex array enter next getattr"
).split():
    setattr(Conflict, f"__{_special}__", Conflict._use)


class Unsure:
    """What a name is bound to that is assigned on some paths only; reading it checks at run time that it was."""

    __slots__ = ("condition", "name", "value")

    def __init__(self, name: str, value: Any, condition: Any) -> None:
        self.name, self.value, self.condition = name, value, condition

    def read(self) -> Any:
        """Stage the check, and return the value."""
        message = f"cannot access local variable '{self.name}' where it is not associated with a value"
        stage(ops.check, self.condition.value, error="UnboundLocalError", message=message)
        return self.value


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """Structure of a value: the kind of container, its static data, and its children."""

    kind: Any
    data: Any
    children: tuple[Tree, ...]

    @property
    def size(self) -> int:
        return 1 if self.kind is None else sum(child.size for child in self.children)


LEAF = Tree(None, None, ())


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """Return leaves and structure; dicts, lists, tuples, namedtuples, dataclasses and objects made by captured code
    open."""
    kind = type(value)
    if kind is Unsure:
        return _flatten_children(kind, value.name, [value.value, value.condition])
    if kind is dict:
        return _flatten_children(kind, tuple(value), list(value.values()))
    if isinstance(value, StackedList):
        return [value.as_tracer()], Tree(StackedList, None, (LEAF,))
    if isinstance(value, Ragged):
        content, lengths = value.carried()
        return [content, *lengths], Tree(Ragged, tuple(value.axes), (LEAF,) * (1 + len(lengths)))
    if isinstance(value, list):
        return _flatten_children(list, len(value), list(value))
    if isinstance(value, tuple):
        return _flatten_children(kind, len(value), list(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(f.name for f in dataclasses.fields(value))
        return _flatten_children(kind, names, [getattr(value, n) for n in names])
    if id(value) in current().created and hasattr(value, "__dict__"):
        return _flatten_children(kind, tuple(vars(value)), list(vars(value).values()))
    return [value], LEAF


def has_changed(value: Any, leaves: Sequence[Any], tree: Tree) -> bool:
    """Return whether a value made of leaves and a structure holds others by now: something was stored into it."""
    found, structure = flatten(value)
    return structure != tree or any(a is not b for a, b in zip(found, leaves, strict=True))


def _flatten_children(kind: Any, data: Any, children: list[Any]) -> tuple[list[Any], Tree]:
    leaves: list[Any] = []
    trees = []
    for child in children:
        child_leaves, tree = flatten(child)
        leaves.extend(child_leaves)
        trees.append(tree)
    return leaves, Tree(kind, data, tuple(trees))


def unflatten(tree: Tree, leaves: list[Any], make_list: Callable[[list[Any]], list[Any]] = list) -> Any:
    """Rebuild a value from leaves; `make_list` makes its lists."""
    if tree.kind is None:
        return leaves[0]
    children = []
    position = 0
    for child in tree.children:
        children.append(unflatten(child, leaves[position : position + child.size], make_list))
        position += child.size
    if tree.kind is Unsure:
        return Unsure(tree.data, *children)
    if tree.kind is dict:
        return dict(zip(tree.data, children, strict=True))
    if tree.kind is Ragged:
        return Ragged(children[0], {k: Axis(length) for k, length in zip(tree.data, children[1:], strict=True)})
    if tree.kind is StackedList:
        return make_list(list(children[0]))
    if tree.kind is list:
        return make_list(children)
    if tree.kind is tuple:
        return tuple(children)
    if hasattr(tree.kind, "_fields"):
        return tree.kind(*children)
    value = object.__new__(tree.kind)
    for name, child in zip(tree.data, children, strict=True):
        object.__setattr__(value, name, child)
    current().register_created(value)
    return value
