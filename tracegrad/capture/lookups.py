"""Items of dicts by traced ints: one of the values that a dict has, or of those that an array keeps for it (tables.py).

Called by operators.py, members.py and calls.py. Previous: choices.py; next: operators.py.
"""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tracegrad.capture import branches, sequences
from tracegrad.capture.aliases import require_single
from tracegrad.capture.choices import item_at
from tracegrad.capture.context import current
from tracegrad.capture.guards import special_method
from tracegrad.capture.lists import ITEM_LIMIT, stacked_list
from tracegrad.capture.masked import Masked
from tracegrad.capture.presence import unsure_items
from tracegrad.capture.sizes import as_size
from tracegrad.capture.tables import (
    TABLE,
    Table,
    has_table,
    ints_of,
    is_traced_key,
    key_error,
    mapping_of,
    open_table,
    table_of,
    unknown_keys,
    use_of_key,
)
from tracegrad.capture.text import keep_given
from tracegrad.capture.tracer import Tracer, asarray, call_handler, call_user, check, describe, python_operator

_VALUES: Any = type({}.values())
_ITEMS: Any = type({}.items())
#: what of the items of a dict does not depend on their order
_ANY_ORDER: frozenset[Any] = frozenset({len, bool, sum, min, max, sorted, any, all})
#: functions that read all items of a dict
_READS_ALL: frozenset[Any] = _ANY_ORDER | {list, tuple, set, frozenset, enumerate, zip, reversed, map, filter, iter}
#: functions that look at a dict and not at what is in it
_LOOKS: frozenset[Any] = frozenset({isinstance, issubclass, type, id, callable, hasattr, getattr})


def is_lookup(items: Any, key: Any) -> bool:
    """Return whether an item of a dict is one by a traced int, or stands in an array."""
    if not isinstance(items, dict) or special_method(items, "__getitem__") is not None:
        return False
    table = table_of(items)
    return is_traced_key(key) or (table is not None and table.takes(key))


def _same(value: Any) -> Any:
    return value


def _find(items: dict[Any, Any], key: Any) -> tuple[Callable[[], Any], Any]:
    """Return what gives the item under a key, and whether there is one."""
    table = table_of(items)
    if table is not None and table.takes(key):
        place, found = table.find(key)
        return functools.partial(table.give, place), found
    for item in unsure_items(items):
        raise item.refusal("is read by a traced key")
    keys = [k for k in items if ints_of(k) is not None and isinstance(k, tuple) == isinstance(key, tuple)]
    numbers = [(ints_of(k), items[k]) for k in keys]
    parts = ints_of(key)
    assert parts is not None
    numbers = [(known, value) for known, value in numbers if known is not None and len(known) == len(parts)]
    there: Any = False
    position = 0
    for number, (known, _) in enumerate(numbers):
        assert known is not None
        here = functools.reduce(_both, [python_operator(np.equal, p, k) for p, k in zip(parts, known, strict=True)])
        there = here if there is False else python_operator(np.bitwise_or, there, here)
        position = call_handler(np.where, here, number, position)
    return functools.partial(_choose, [value for _, value in numbers], position), there


def _both(one: Any, other: Any) -> Any:
    return python_operator(np.bitwise_and, one, other)


def _choose(values: list[Any], position: Any) -> Any:
    return item_at(tuple(values), position) if isinstance(position, Tracer) else values[position]


def read_item(items: dict[Any, Any], key: Any) -> Any:
    """`items[key]`."""
    default = _default_of(items, key)
    if default is not None:
        return get_item(items, key, default, store=not isinstance(items, collections.Counter))
    value, there = _find(items, key)
    _require_there(there, key)
    return value()


def _require_there(there: Any, key: Any) -> None:
    if there is False:
        if isinstance(ints_of(key), tuple) and not is_traced_key(key):
            raise KeyError(key)
    if there is not True:
        try:
            check(there, "KeyError", "the key is not in the dict")
        except KeyError as error:  # a handler gets the key
            keep_given(error, (key,))
            raise


def _default_of(items: dict[Any, Any], key: Any) -> Callable[[], Any] | None:
    """Return what gives the item of a missing key; None where that is an error."""
    if isinstance(items, collections.Counter):
        return functools.partial(_same, 0)
    if isinstance(items, collections.defaultdict) and items.default_factory is not None:
        return functools.partial(call_user, items.default_factory)
    method = special_method(items, "__missing__")
    return None if method is None else functools.partial(call_user, method, items, key)


def get_item(items: dict[Any, Any], key: Any, default: Callable[[], Any], *, store: bool = False) -> Any:
    """`items.get(key, default)`, or where it is stored `items.setdefault(key, default)`."""
    if store and table_of(items) is None:
        made = default()
        use = use_of_key(items, key, made)
        if use is not None:
            if not branches.keep_as_array(use):
                raise key_error(key, describe(key), use)
            return get_item(items, key, functools.partial(_same, made), store=True)
    value, there = _find(items, key)
    if there is True:
        return value()
    made = default() if there is False else branches.if_exp(there, value, default)
    if store:
        store_item(items, key, made)
    return made


def row_of(items: dict[Any, Any], key: Any) -> Tracer | None:
    """Return the array under a key as one that can be written in place; None where no array has it."""
    read_item(items, key)
    table = table_of(items)
    if table is None or not table.takes(key) or not table.rows.kind.is_mutable:
        return None
    row: Tracer = table.rows.buffer[table.find(key)[0]]
    return row


def has_key(items: dict[Any, Any], key: Any) -> Any:
    """`key in items`."""
    there = _find(items, key)[1]
    return there if isinstance(there, bool) else call_handler(bool, there)


def store_item(items: dict[Any, Any], key: Any, value: Any) -> None:
    """`items[key] = value`."""
    table = table_of(items)
    if table is None or not table.takes(key) or not table.fits(key, value):
        use = use_of_key(items, key, value)
        if use is None:
            _store_each(items, key, value)
            return
        if not branches.keep_as_array(use):
            if current().created_depth(items) < 0:
                _store_each(items, key, value)
                return
            raise key_error(key, describe(key), use)
        table = table_of(items)
        assert table is not None
    require_single(items, "an item is stored in it")
    table.store(key, value)


def _store_each(items: dict[Any, Any], key: Any, value: Any) -> None:
    """Store an item under a traced key that is one of a few."""
    use = use_of_key(items, key, 0.0)
    keys = [k for k in items if not isinstance(k, tuple) and ints_of(k) is not None]
    if table_of(items) is not None or use is None or use.composite or len(keys) > ITEM_LIMIT or not keys:
        raise key_error(key, describe(key))
    _, there = _find(items, key)
    _require_there(there, key)
    for one in keys:
        here = python_operator(np.equal, key, one)
        chosen = branches.if_exp(here, functools.partial(_same, value), functools.partial(_same, items[one]))
        branches.write_slot(items, "item", one, chosen)


# ---- all items


def _table_alone(value: Any, what: str) -> Table:
    mapping = mapping_of(value)
    table: Table = mapping[TABLE]
    if len(mapping) > 1 or len(table.bounds) > 1:
        raise unknown_keys(what)
    return table


def listed(value: Any) -> Any:
    """Return the items of a dict in order, instead of it or of a view of it.

    Raises:
        NeedsPythonValue: the order is not known.
    """
    table = _table_alone(value, "is used as a whole")
    count = table.count
    if count is None:
        raise unknown_keys("is used as a whole")
    size, rows = as_size(count), table.rows
    keys = sequences.make_range(as_size(table.first), as_size(table.first + count))
    values = stacked_list(rows.buffer, rows.kind, size, keeps=rows.keeps)
    if isinstance(value, _VALUES):
        return values
    return sequences.make_zip(keys, values) if isinstance(value, _ITEMS) else keys


def _in_any_order(value: Any) -> Any:
    table = _table_alone(value, "is used as a whole")
    if table.count is not None:
        return listed(value)
    content = table.rows.buffer
    if not isinstance(value, _VALUES):
        first = as_size(table.first)
        content = asarray(call_handler(np.arange, first, first + as_size(table.room)))
    return Masked(content.copy(), table.there.copy(), 1)


def count_items(value: Any) -> Any:
    """`len(value)`."""
    mapping = mapping_of(value)
    table: Table = mapping[TABLE]
    own = len(mapping) - 1
    if table.count is not None:
        return as_size(table.count) + own
    return call_handler(int, call_handler(np.sum, table.there)) + own


def call_by_key(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[..., Any]) -> Any:
    """Call a function with dicts of which arrays have items, or a method of one, or one by a traced key; NotImplemented
    where it takes them as they are."""
    own = f.__self__ if isinstance(f, types.BuiltinMethodType) else None
    if isinstance(own, dict) and (TABLE in own or (args and is_lookup(own, args[0]))):
        return _call_method(own, f, args, kwargs)
    if not any(map(has_table, (*args, *kwargs.values()))) or (isinstance(f, Hashable) and f in _LOOKS):
        return NotImplemented
    if f is len:
        return count_items(args[0])
    if f is bool:
        return call_user(operator.gt, count_items(args[0]), 0)
    if not isinstance(f, Hashable) or f not in _READS_ALL:
        if all(map(open_table, (*args, *kwargs.values()))):
            return NotImplemented
        raise unknown_keys("is used as a whole")
    made = _in_any_order if f in _ANY_ORDER and not kwargs.get("key") and not isinstance(args[0], _ITEMS) else listed
    return call(f, *(made(a) if has_table(a) else a for a in args), **kwargs)


def _call_method(own: dict[Any, Any], f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = f.__name__
    if name in ("keys", "values", "items"):
        return NotImplemented
    if name == "get" and args and not kwargs:
        default = args[1] if len(args) > 1 else None
        return get_item(own, args[0], functools.partial(_same, default)) if is_lookup(own, args[0]) else NotImplemented
    if name == "setdefault" and args and not kwargs:
        default = args[1] if len(args) > 1 else None
        if is_lookup(own, args[0]):
            return get_item(own, args[0], functools.partial(_same, default), store=True)
        return NotImplemented
    if name in ("__getitem__", "__setitem__", "__contains__") and is_lookup(own, args[0]):
        return _BY_KEY[name](own, *args)
    if open_table(own):
        return NotImplemented
    raise unknown_keys(f"has its method {name} called")


_BY_KEY: dict[str, Callable[..., Any]] = {
    "__getitem__": read_item,
    "__setitem__": store_item,
    "__contains__": has_key,
}
