"""Items of dicts and attributes that are there under a traced condition only: reads, tests and counts of them.

A slot that one side of a branch or a turn of a loop makes holds a `state.Unsure` afterwards, with the condition. What
asks for the slot gets a traced answer, and what asks for all of them is refused. Called by operators.py, members.py
and calls.py. Previous: guards.py; next: protocols.py.
"""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable
from typing import Any

from tracegrad.capture import branches, slots
from tracegrad.capture.guards import special_method
from tracegrad.capture.state import Unsure
from tracegrad.capture.tables import has_table, open_table, unknown_keys
from tracegrad.capture.tracer import call_user
from tracegrad.errors import NeedsPythonValue

_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
#: functions of Python that take a dict and do not use what is in it, or copy it as it is
_CAREFUL: frozenset[Any] = frozenset({dict, isinstance, issubclass, type, id, callable, hasattr, getattr})


def _mapping(value: Any) -> Any:
    """Return a dict, or that of a view of its keys, values or items; None for all other values."""
    return value if isinstance(value, dict) else value.mapping if isinstance(value, _VIEWS) else None


def unsure_items(value: Any) -> list[Unsure]:
    """Return the items of a dict, or of a view of one, that may not be there."""
    mapping = _mapping(value)
    return [] if mapping is None else [v for v in mapping.values() if type(v) is Unsure]


def require_sure(*values: Any) -> None:
    """Check that it is known of all items of dicts whether they are there.

    Raises:
        NeedsPythonValue: it is not.
    """
    for value in values:
        for item in unsure_items(value):
            raise item.refusal()
        if has_table(value) and not open_table(value):
            raise unknown_keys("is used as a whole")


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else repr(key)


def _or_else(found: Unsure, default: Callable[[], Any], key: Any) -> Any:
    try:
        return branches.if_exp(found.condition, _constant(found.value), default)
    except NeedsPythonValue as error:
        if error.code != "TG112":
            raise
        raise NeedsPythonValue(
            f"{_key_text(key)!r} is there under a traced condition only, and what stands for it elsewhere does not fit",
            code="TG112",
            span=error.span,
            found=error.found.replace("when true", "where it is there").replace("when false", "elsewhere"),
            help="store something of the same structure there before the condition; in the place of a list that grows "
            "under a condition, keep a sum and a count, or an array with a mask",
        ) from None


# ---- dicts


def read_item(items: Any, key: Any, found: Unsure) -> Any:
    """`items[key]` of a dict."""
    missing = special_method(items, "__missing__")
    if missing is not None:
        return _or_else(found, lambda: call_user(missing, items, key), key)
    if isinstance(items, collections.Counter):
        return _or_else(found, _constant(0), key)
    if isinstance(items, collections.defaultdict) and items.default_factory is not None:
        factory = items.default_factory
        value = _or_else(found, lambda: call_user(factory), key)
        branches.write_slot(items, "item", key, value)
        return value
    return found.read("KeyError", _key_text(key))


def contains_key(container: Any, key: Any) -> Any:
    """`key in container` of a dict or its keys: NotImplemented where Python knows it."""
    if not isinstance(container, dict | _VIEWS[0]):
        return NotImplemented
    found = _mapping(container).get(key)
    return found.condition if type(found) is Unsure else NotImplemented


def get_item(items: Any, key: Any, default: Any = None) -> Any:
    """`items.get(key, default)`."""
    found = items[key] if key in items else default
    return _or_else(found, _constant(default), key) if type(found) is Unsure else found


def set_default(items: Any, key: Any, default: Any = None) -> Any:
    """`items.setdefault(key, default)`."""
    if key not in items or type(items[key]) is Unsure:
        branches.write_slot(items, "item", key, get_item(items, key, default))
    return items[key]


def popped(value: Unsure, key: Any, *default: Any) -> Any:
    """`items.pop(key, default)`, of an item that is deleted now."""
    return _or_else(value, _constant(default[0]), key) if default else value.read("KeyError", _key_text(key))


def count_items(value: Any) -> Any:
    """`len(value)` of a dict or a view of one with items that may not be there."""
    unsure = unsure_items(value)
    total: Any = len(value) - len(unsure)
    for item in unsure:
        total = total + call_user(int, item.condition)
    return total


def is_nonempty(value: Any) -> Any:
    """`bool(value)` of a dict with items that may not be there."""
    return call_user(operator.gt, count_items(value), 0)


def sum_values(view: Any, start: Any = 0) -> Any:
    """`sum(view)` of the values of a dict with items that may not be there."""
    total = start
    for key, value in view.mapping.items():
        if type(value) is Unsure:
            added = Unsure("", call_user(operator.add, total, value.value), value.condition)
            total = _or_else(added, _constant(total), key)
        else:
            total = call_user(operator.add, total, value)
    return total


def call_on_dict(f: Any, args: tuple[Any, ...]) -> Any:
    """Call a function of Python, or a method of a dict, where items may not be there; NotImplemented where all are."""
    own = f.__self__ if isinstance(f, types.BuiltinMethodType) else None
    if isinstance(own, dict):
        if f.__name__ in _METHODS:
            return _METHODS[f.__name__](own, *args)
        if f.__name__ in _READS_ALL:
            require_sure(own, *args)
        return NotImplemented
    if not args or not any(unsure_items(a) for a in args):
        return NotImplemented
    if f is len:
        return count_items(args[0])
    if f is bool:
        return is_nonempty(args[0])
    if f is sum and isinstance(args[0], _VIEWS[1]):
        return sum_values(*args)
    if f not in _CAREFUL:
        require_sure(*args)
    return NotImplemented


def _get_item_plainly(items: Any, key: Any) -> Any:
    found = dict.get(items, key)
    return found.read("KeyError", _key_text(key)) if type(found) is Unsure else NotImplemented


_METHODS: dict[str, Callable[..., Any]] = {
    "get": get_item,
    "setdefault": set_default,
    "__contains__": contains_key,
    "__getitem__": _get_item_plainly,
}
_READS_ALL = frozenset({"popitem", "update", "__eq__", "__or__", "__iter__", "__len__"})


# ---- attributes


def find_attribute(obj: Any, name: str) -> Unsure | None:
    """Return an attribute of an object that may not be there; None for all others."""
    own = getattr(obj, "__dict__", None)
    found = own.get(name) if own is not None else None
    if own is None or name not in own:
        static = getattr(type(obj), name, None)
        found = slots.read_slot(obj, "attr", name) if isinstance(static, types.MemberDescriptorType) else None
    return found if type(found) is Unsure else None


def read_attribute(obj: Any, found: Unsure, *default: Any) -> Any:
    """`obj.name`, or `getattr(obj, name, default)`."""
    if default:
        return _or_else(found, _constant(default[0]), found.name)
    return found.read("AttributeError", f"{type(obj).__name__!r} object has no attribute {found.name!r}")
