"""Structures of arguments and results: where their leaves stand, and what a result is outside of captures.

Reads signatures and results of a capture. Previous: derive.py; next: tangents.py.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tracegrad.capture import entry
from tracegrad.capture.context import Place
from tracegrad.capture.lists import RecordKind, RecordList, StackedList, records_of, rows_of
from tracegrad.capture.ragged import Cut, Ragged
from tracegrad.capture.trees import Tree as StateTree
from tracegrad.ir.types import dim_symbols
from tracegrad.runtime.signature import NONE, Identity, Signature, Tree, open_custom, settings_of


def owner_of_defaults(function: Callable[..., Any], names: Sequence[str]) -> FunctionType | None:
    """Return the function whose `__defaults__` fill in missing arguments, for a Python function with just these
    parameters."""
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return None
    code = function.__code__
    return function if code.co_varnames[: code.co_argcount] == tuple(names) else None


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """A container or object among the arguments of a call: the argument's position, then steps as in Place."""

    position: int
    steps: tuple[tuple[str, Any], ...]

    def find(self, arguments: Sequence[Any]) -> Any:
        """Return the object in the arguments of another call."""
        return Place(arguments[self.position], self.steps, "").read()


def locate(tree: Tree, value: Any, place: ArgumentPlace, places: dict[int, tuple[Any, ArgumentPlace]]) -> None:
    """Note where in the arguments each container and object stands."""
    if tree.kind in ("leaf", "none"):
        return
    places[id(value)] = (value, place)
    keys: Sequence[Any] = range(len(tree.children))
    kind = "item"
    if tree.kind == "dict":
        keys = tree.data
    elif tree.kind == "object":
        kind, keys = "attribute", tree.data[1]
    elif tree.kind == "custom":
        if not isinstance(value, dict):
            return  # how its parts are reached is not known
        keys = open_custom(value)[1]
    for key, child in zip(keys, tree.children, strict=True):
        step = (kind, key)
        inner = Place(value, (step,), "").read()
        locate(child, inner, ArgumentPlace(place.position, (*place.steps, step)), places)


def call_arguments(names: Sequence[str], values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Turn named argument values back into a call; names that start with `=` go by keyword."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if name.startswith("="):
            kwargs[name[1:]] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def child_steps(tree: Tree) -> tuple[list[str], frozenset[str]]:
    """Return the Python expressions of the children of a tree, after that of the whole; and which fields are
    settings."""
    if tree.kind == "dict":
        return [f"[{key!r}]" for key in tree.data], frozenset()
    if tree.kind in ("object", "named"):
        cls, names = tree.data if tree.kind == "object" else (tree.data, tree.data._fields)
        return [f".{name}" for name in names], settings_of(cls)
    return [f"[{position}]" for position in range(len(tree.children))], frozenset()


def runtime_tree(result: entry.Result) -> tuple[Tree, frozenset[int]]:
    """Return the structure of a result outside of captures, and which of its numbers are Python's own."""
    leaves = iter(zip(result.leaves, result.weak, strict=True))
    weak: set[int] = set()

    def convert(tree: StateTree) -> Tree:
        if tree.kind is None:
            leaf, is_weak = next(leaves)
            if isinstance(leaf, entry.Static):
                return static_tree(leaf.value)
            if is_weak:
                weak.add(leaf)
            return Tree("leaf", leaf, ())
        children = tuple(convert(child) for child in tree.children)
        if tree.kind is Ragged:
            return Tree("call", Cut(tree.data), children)
        if tree.kind is StackedList:
            nested = tree.data[0].nested
            return Tree("call", functools.partial(rows_of, nested=nested) if nested else list, children)
        if tree.kind is RecordList:
            return Tree("call", functools.partial(_records, tree.data[0]), children)
        if tree.kind in (tuple, list):
            return Tree(tree.kind.__name__, None, children)
        if tree.kind is dict:
            return Tree("dict", tree.data, children)
        if tree.kind is OrderedDict:
            return Tree("custom", open_custom(OrderedDict.fromkeys(tree.data))[0], children)
        if hasattr(tree.kind, "_fields"):
            return Tree("named", tree.kind, children)
        return Tree("object", (tree.kind, tree.data), children)

    return convert(result.tree), frozenset(weak)


def _records(kind: RecordKind, *arrays: Any) -> list[Any]:
    return records_of(kind, arrays)


def static_tree(value: Any) -> Tree:
    if value is None:
        return NONE
    try:
        hash(value)
    except TypeError:
        return Tree("identity", Identity(value), ())
    return Tree("static", (type(value), value), ())


def leaf_place(signature: Signature, number: int) -> tuple[int, tuple[tuple[str, Any], ...]]:
    """Return the position of the argument that holds a leaf, and the steps to it."""
    for position, tree in enumerate(signature.arguments):
        for steps, node in _walk_steps(tree, ()):
            if node.kind == "leaf" and node.data == number:
                return position, steps
    raise AssertionError("every leaf is in an argument")


def _walk_steps(tree: Tree, steps: tuple[tuple[str, Any], ...]) -> Iterator[tuple[tuple[tuple[str, Any], ...], Tree]]:
    yield steps, tree
    kind = "attribute" if tree.kind == "object" else "item"
    keys: Sequence[Any] = range(len(tree.children))
    if tree.kind in ("dict", "object"):
        keys = tree.data if tree.kind == "dict" else tree.data[1]
    for key, child in zip(keys, tree.children, strict=True):
        yield from _walk_steps(child, (*steps, (kind, key)))


def size_symbols(signature: Signature) -> list[str]:
    """Return the size symbols in the leaves of a signature, in order of occurrence."""
    dims = [dim for leaf in signature.leaves for dim in leaf.type.shape]
    return list(dict.fromkeys(name for dim in dims for name in sorted(dim_symbols(dim))))
