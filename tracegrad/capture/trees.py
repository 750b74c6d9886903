"""Structures of Python values: which containers stand in which, apart from what is in them.

Reads and writes nothing. Previous: aliases.py; next: lists.py.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tracegrad.capture.chosen import GIVEN, Chosen, Options
from tracegrad.capture.context import current, user_span
from tracegrad.capture.tracer import Tracer
from tracegrad.errors import NeedsPythonValue

_Leaf = TypeVar("_Leaf")


class Source:
    """An iterator whose items come from no iterator of Python.

    Attributes:
        source: one whose items it gives; that one may be used again when this one has no more.
    """

    source: Source | None = None


#: makes an exception of a class that holds these arguments; text.py puts its function here
MAKE_ERROR: list[Callable[[type[BaseException], tuple[Any, ...]], BaseException]] = []


def given_args(error: BaseException) -> tuple[Any, ...]:
    """Return the arguments of an exception as captured code sees them."""
    args, given = getattr(error, GIVEN, (None, ()))
    return given if args is error.args else error.args


class Constant:
    """The kind of a leaf that is the same in all values of a structure: a text, or None."""


class Choice:
    """The kind of a place where each value of a structure has one of several texts: the data. A leaf has its number."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """Structure of a value: the kind of container, its static data, and its children.

    Attributes:
        origin: the list, dict or object itself, which can change; None for all others.
        fixed: the tuple itself; None for all others.
    """

    kind: Any
    data: Any
    children: tuple[Tree, ...]
    origin: Any = dataclasses.field(default=None, compare=False, repr=False)
    fixed: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def size(self) -> int:
        return 1 if self.kind is None else sum(child.size for child in self.children)

    @property
    def is_fixed(self) -> bool:
        """Whether nothing can be stored into the containers of this structure."""
        own = self.kind in (None, Constant, Choice) or issubclass(self.kind, tuple) or _is_frozen(self.kind)
        return own and all(child.is_fixed for child in self.children)


LEAF = Tree(None, None, ())


def _is_frozen(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind) and bool(getattr(kind, "__dataclass_params__").frozen)  # noqa: B009 not in its type


def open_container(value: Any) -> tuple[Any, list[Any], Any] | None:
    """Return the static data of a dict, tuple or object, what is in it, and the object itself where it can change.

    Dicts, tuples, namedtuples, dataclasses, and objects made by captured code open; None for all others.
    """
    kind = type(value)
    if kind is dict or kind is OrderedDict:
        return tuple(value), list(value.values()), value
    if isinstance(value, tuple):
        return len(value), list(value), None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(f.name for f in dataclasses.fields(value))
        return names, [getattr(value, n) for n in names], value
    if isinstance(value, BaseException) and id(value) in current().created:
        names = tuple(name for name in vars(value) if name != GIVEN)
        return ("args", *names), [given_args(value), *(vars(value)[name] for name in names)], value
    if id(value) in current().created and not isinstance(value, Source):
        slots = _slots_of(kind)  # type: ignore[arg-type]  # a class is hashable
        if (slots or hasattr(value, "__dict__")) and _holds_attributes_only(kind):  # type: ignore[arg-type]
            held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
            held.update(getattr(value, "__dict__", {}))
            return tuple(held), list(held.values()), value
    return None


@functools.cache
def _slots_of(kind: type) -> tuple[str, ...]:
    """Return the attributes that objects of a class have outside of their `__dict__`."""
    members = {name: part for base in reversed(kind.__mro__) for name, part in vars(base).items()}
    return tuple(name for name, part in members.items() if isinstance(part, types.MemberDescriptorType))


@functools.cache
def _holds_attributes_only(kind: type) -> bool:
    """Return whether an object is made by its attributes; a functools.partial or a kind of float is more than these."""
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True


def is_mapping(tree: Tree) -> bool:
    """Return whether a structure is that of a dict, by its keys."""
    return tree.kind is dict or tree.kind is OrderedDict


def build(tree: Tree, children: list[Any]) -> Any:
    """Return a new container of a kind that `open_container` opens."""
    if tree.kind is Constant:
        return tree.data
    if tree.kind is Choice:
        return _as_text(tree.data, children[0])
    if is_mapping(tree):
        return tree.kind(zip(tree.data, children, strict=True))
    if tree.kind is tuple:
        return tuple(children)
    if hasattr(tree.kind, "_fields"):
        return tree.kind(*children)
    names = tree.data
    if issubclass(tree.kind, BaseException):
        value = MAKE_ERROR[0](tree.kind, children[0])
        names, children = names[1:], children[1:]
    else:
        value = object.__new__(tree.kind)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(value, name, child)
    return value


def _as_text(texts: tuple[Any, ...], number: Any) -> Any:
    """Return the one of several texts that has a number, which may be traced."""
    if not isinstance(number, Tracer):
        return texts[number]
    error = NeedsPythonValue(
        "a text depends on a traced condition",
        code="TG112",
        span=user_span(),
        found=" or ".join(map(repr, texts)),
        help="compare it (`==`, `in`) or use it as a key; else use numbers that stand for the texts",
    )
    return Chosen(Options(texts, error), number)


def rebuild(tree: Tree, leaves: list[Any], note: Callable[[Any], None]) -> Any:
    """Return a value made of new containers that `open_container` opens; call `note` with each dict and object."""
    if tree.kind is None:
        return leaves[0]
    value = build(tree, [rebuild(child, own, note) for child, own in divide(leaves, tree.children)])
    if tree.origin is not None:
        note(value)
    return value


def divide(leaves: list[_Leaf], trees: tuple[Tree, ...]) -> Iterator[tuple[Tree, list[_Leaf]]]:
    """Yield structures, each with those of the leaves that are in it."""
    position = 0
    for tree in trees:
        yield tree, leaves[position : position + tree.size]
        position += tree.size


def close_older(tree: Tree, leaves: list[_Leaf], depth: int, make: Callable[[Any], _Leaf]) -> tuple[list[_Leaf], Tree]:
    """Make one leaf of each list, dict or object in a structure that is older than what is deeper than `depth`."""
    if tree.origin is not None and current().created_depth(tree.origin) <= depth:
        return [make(tree.origin)], LEAF
    found = [close_older(child, own, depth, make) for child, own in divide(leaves, tree.children)]
    if not found:
        return leaves, tree
    closed = dataclasses.replace(tree, children=tuple(child for _, child in found))
    return [leaf for own, _ in found for leaf in own], closed


def nodes(*trees: Tree) -> Iterator[tuple[Tree, ...]]:
    """Yield the lists, dicts and objects that structures have at the same places, outer ones first."""
    if all(tree.origin is not None for tree in trees):
        yield trees
    for children in zip(*(tree.children for tree in trees), strict=False):
        yield from nodes(*children)


def identities(*trees: Tree) -> Iterator[tuple[Any, ...]]:
    """Yield what structures have at the same places that is one object or another: as `nodes`, and tuples."""
    found = [tree.fixed if tree.origin is None else tree.origin for tree in trees]
    if all(one is not None for one in found):
        yield tuple(found)
    for children in zip(*(tree.children for tree in trees), strict=False):
        yield from identities(*children)


def is_part(container: Any, tree: Tree) -> bool:
    """Return whether a list, dict or object stands in a structure."""
    return any(node.origin is container for (node,) in nodes(tree))


def roots(tree: Tree) -> list[Any]:
    """Return the lists, dicts and objects that stand in no other one."""
    if tree.origin is not None:
        return [tree.origin]
    return [found for child in tree.children for found in roots(child)]
