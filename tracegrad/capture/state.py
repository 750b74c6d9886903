"""Python values that control flow carries: flatten to leaves, rebuild, and what a name is bound to on no path.

Reads and writes nothing. Previous: lists.py; next: slots.py.

Own code and not a pytree library: a leaf here is also what cannot change (a string, a function), and lists made by
    captured
code keep their identity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from typing import Any

import numpy as np

from tracegrad.capture.axes import Axis
from tracegrad.capture.chosen import OPERATIONS, Chosen, Conflict
from tracegrad.capture.context import current, user_span
from tracegrad.capture.lists import (
    CapturedList,
    RecordList,
    StackedList,
    list_of_records,
    list_of_rows,
    make_record,
    record_list,
    stacked_list,
)
from tracegrad.capture.masked import Masked
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.tracer import MaybeNone, Tracer, asarray, require
from tracegrad.capture.trees import LEAF, Tree, build, divide, open_container
from tracegrad.errors import NeedsPythonValue, TracedNameError


class Undefined:
    """What a local name is bound to before it is assigned."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name} is not bound>"

    def error(self) -> TracedNameError:
        """Return the error of a read, which the loops around may have a value for: that of an earlier iteration."""
        for frame in current().frames:
            frame.unbound.add(self.name)
        error = TracedNameError(
            f"local variable {self.name!r} may be read before it is assigned",
            code="TG111",
            span=user_span(),
            found=f"a path on which {self.name!r} is not assigned",
            help=f"assign {self.name!r} before the branch or loop",
        )
        error.name = self.name
        return error


def unbound_message(name: str) -> str:
    """Return what Python says where a local name is read that is not bound."""
    return f"cannot access local variable {name!r} where it is not associated with a value"


def is_same_object(before: Any, after: Any) -> bool:
    """Return whether a name or slot holds what it held before, or nothing as before."""
    return before is after or (isinstance(before, Undefined) and isinstance(after, Undefined))


def is_option(value: Any) -> bool:
    """Return whether a value can be one of those that a traced number chooses from."""
    return not isinstance(value, Tracer | Undefined | Conflict | Number | np.generic | np.ndarray | Iterator | list)


class Unsure:
    """What a name, an item or an attribute is that is there on some paths only; reading it checks at run time that it
    is.

    Attributes:
        absent: it stands for nothing, where a loop starts that may make it.
    """

    __slots__ = ("absent", "condition", "name", "value")

    def __init__(self, name: str, value: Any, condition: Any, *, absent: bool = False) -> None:
        self.name, self.value, self.condition, self.absent = name, value, condition, absent

    def read(self, error: str = "UnboundLocalError", message: str = "") -> Any:
        """Stage the check, and return the value."""
        message = message or unbound_message(self.name)
        require(self.condition.value, error, message)
        return self.value

    def refusal(self, what: str = "is used as a whole") -> NeedsPythonValue:
        """Return the error for a use that depends on whether it is there."""
        return unsure_error(self.name, what)

    def _use(self, *args: Any, **kwargs: Any) -> Any:
        raise self.refusal()


class OrNone:
    """A tuple, list, dict or object on some paths and None on the others; a use of it checks at run time that it is
    there.

    Attributes:
        present: whether it is there.
        absent: it stands for None, where a loop starts that may bind it.
    """

    __slots__ = ("absent", "present", "value")

    def __init__(self, value: Any, present: Any, *, absent: bool = False) -> None:
        self.value, self.present, self.absent = value, present, absent

    def read(self, message: str, error: str = "TypeError") -> Any:
        """Stage the check, and return the value; the message is what Python says of None."""
        require(self.present.value, error, message)
        return self.value

    def __iter__(self) -> Any:
        return iter(self.read("'NoneType' object is not iterable"))

    def _use(self, *args: Any, **kwargs: Any) -> Any:
        raise none_error("is used as a whole")


def unsure_error(name: str, what: str) -> NeedsPythonValue:
    """Return the error for something that has a name, a key or an attribute on some paths only."""
    return NeedsPythonValue(
        f"a dict or object that has {name!r} under a traced condition only {what}",
        code="TG139",
        span=user_span(),
        found=f"whether there is {name!r} is known only when the compiled function runs",
        help=f"give {name!r} a value before the branch or loop (0.0, an array of zeros); reads of it alone, `in`, get, "
        "len and hasattr may depend on the condition",
    )


def none_error(what: str = "is returned, or kept in an object from outside") -> NeedsPythonValue:
    """Return the error for something that must not be None on some paths only."""
    return NeedsPythonValue(
        f"a value that is None on some paths only {what}",
        code="TG112",
        span=user_span(),
        found="a value, or None, by a traced condition",
        help="use a number that stands for None (np.nan, np.inf, 0.0), or return a flag beside the value that says "
        "whether there is one (`found = 1.0`)",
    )


for _name in OPERATIONS:
    setattr(Unsure, f"__{_name}__", Unsure._use)
    if _name != "iter":
        setattr(OrNone, f"__{_name}__", OrNone._use)


class _Opened(threading.local):
    """Ids of the containers that are being opened."""

    def __init__(self) -> None:
        self.ids: set[int] = set()


_opened = _Opened()


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """Return leaves and structure; dicts, lists, tuples, namedtuples, dataclasses and objects made by captured code
    open."""
    kind = type(value)
    if kind is Unsure:
        return _flatten_children(kind, value.name, [value.value, value.condition])
    if kind is MaybeNone:
        return _flatten_children(kind, None, [value.some, value.present])
    if kind is OrNone:
        return _flatten_children(kind, None, [value.value, value.present])
    if kind is Chosen:
        return _flatten_children(kind, value.options, [value.index])
    if isinstance(value, StackedList) and isinstance(value.length, Tracer) and not value.kind.maybe:
        keeps = tuple(column.keeps for column in value.parts())
        return _flatten_children(type(value), (value.kind, None, keeps), value.parts_in_use(), value)
    if isinstance(value, RecordList):
        known = value.length if isinstance(value.length, int) else None
        columns = value.in_step()
        keeps = tuple(column.keeps for column in columns)
        leaves = [leaf for column in columns for leaf in column.leaves()]
        return leaves, Tree(RecordList, (value.kind, known, keeps), (LEAF,) * len(leaves), value)
    if isinstance(value, StackedList):
        data = (value.kind, value.length if isinstance(value.length, int) else None, value.keeps)
        leaves = value.leaves()
        return leaves, Tree(StackedList, data, (LEAF,) * len(leaves), value)
    if isinstance(value, Masked):
        value = value.compressed()
    if isinstance(value, Ragged):
        content, lengths = value.carried()
        return [content, *lengths], Tree(Ragged, tuple(value.axes), (LEAF,) * (1 + len(lengths)))
    if isinstance(value, list):
        return _flatten_children(list, len(value), list(value), value)
    found = None if id(value) in current().owners else open_container(value)  # a __dict__ is no value of its own
    if found is None:
        return [value], LEAF
    data, children, origin = found
    return _flatten_children(kind, data, children, origin, fixed=None if origin is not None else value)


def kind_name(kind: type) -> str:
    """Return the name of a class as the user has it."""
    own: dict[type, str] = {
        Unsure: "value that may be absent",
        MaybeNone: "number that may be None",
        OrNone: "value that may be None",
        Chosen: "value that a traced condition has chosen",
        Ragged: "array",
        Masked: "array",
    }
    return "list" if issubclass(kind, CapturedList) else own.get(kind, kind.__name__)


def has_changed(value: Any, leaves: Sequence[Any], tree: Tree) -> bool:
    """Return whether a value made of leaves and a structure holds others by now: something was stored into it."""
    found, structure = flatten(value)
    return structure != tree or any(a is not b for a, b in zip(found, leaves, strict=True))


def _flatten_children(
    kind: Any, data: Any, children: list[Any], origin: Any = None, fixed: Any = None
) -> tuple[list[Any], Tree]:
    leaves: list[Any] = []
    trees = []
    if id(origin) in _opened.ids:
        raise NeedsPythonValue(
            f"a {kind_name(kind)} that stands in itself is kept, joined or returned as a value",
            code="TG136",
            span=user_span(),
            found=f"a {kind_name(kind)} that refers to itself, perhaps through others",
            help="keep the numbers that change in arrays or lists, and the references in positions",
        )
    if origin is not None:
        _opened.ids.add(id(origin))
    try:
        for child in children:
            child_leaves, tree = flatten(child)
            leaves.extend(child_leaves)
            trees.append(tree)
    finally:
        _opened.ids.discard(id(origin))
    return leaves, Tree(kind, data, tuple(trees), origin, fixed)


def unflatten(tree: Tree, leaves: list[Any], make_list: Callable[[list[Any]], list[Any]] = list) -> Any:
    """Rebuild a value from leaves; `make_list` makes its lists."""
    if tree.kind is None:
        return leaves[0]
    children = [unflatten(child, own, make_list) for child, own in divide(leaves, tree.children)]
    if tree.kind is Unsure:
        return Unsure(tree.data, *children)
    if tree.kind is MaybeNone:
        return MaybeNone(*map(asarray, children))
    if tree.kind is OrNone:
        return OrNone(*children)
    if tree.kind is Chosen:
        return Chosen(tree.data, children[0])
    if tree.kind is Ragged:
        return Ragged(children[0], {k: Axis(length) for k, length in zip(tree.data, children[1:], strict=True)})
    if tree.kind is RecordList:
        kind, length, keeps = tree.data
        if _has_any_length(tree):
            return list_of_records(children, kind, keeps)
        if length is None:
            given = iter(children)
            columns = [_items(next(given), next(given) if field.maybe else None) for field in kind.fields]
            return make_list([make_record(kind, list(row)) for row in zip(*columns, strict=True)])
        return record_list(children, kind, length, keeps)
    if tree.kind is StackedList:
        kind, length, keeps = tree.data
        if _has_any_length(tree):
            return list_of_rows(children[0], kind, keeps=keeps[0])
        if length is None:
            return make_list(_items(*children))
        return stacked_list(children[0], kind, length, keeps=keeps, there=children[1] if kind.maybe else None)
    if tree.kind is list:
        return make_list(children)
    value = build(tree, children)
    current().register_created(value)
    return value


def _has_any_length(tree: Tree) -> bool:
    """Return whether the structure of a list has the arrays of its items with their length."""
    return any(child.kind is Ragged for child in tree.children)


def _items(rows: Any, there: Any = None) -> list[Any]:
    """Return the rows of an array, as numbers that may be None where another array says which are there."""
    if there is None:
        return list(rows)
    return [MaybeNone(asarray(row), asarray(flag)) for row, flag in zip(rows, there, strict=True)]
