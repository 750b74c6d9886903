"""Attributes and items in converted code: reads, stores and deletions.

hooks.py gives these to converted code. Previous: operators.py; next: user_calls.py.
"""

from __future__ import annotations

import collections
import operator
import types
from typing import Any

import numpy as np

from tracegrad.capture import branches, lookups, slots
from tracegrad.capture.aliases import require_single
from tracegrad.capture.choices import do_each, for_each, item_at, store_item
from tracegrad.capture.chosen import Chosen
from tracegrad.capture.context import current, user_span
from tracegrad.capture.deques import read_method
from tracegrad.capture.guards import guard_presence, new_container, read_attribute, special_method
from tracegrad.capture.lists import CapturedList, ListUse, StackedList, use_of_index
from tracegrad.capture.masked import Selection
from tracegrad.capture.natives import replace_all, require_own, require_own_iterator
from tracegrad.capture.operators import aug_name
from tracegrad.capture.presence import find_attribute, read_item
from tracegrad.capture.presence import read_attribute as read_unsure
from tracegrad.capture.protocols import delete, read_by_class, read_missing, store
from tracegrad.capture.state import OrNone, Unsure, none_error
from tracegrad.capture.tracer import (
    Tracer,
    call_handler,
    call_user,
    describe,
    from_concrete,
    is_numeric,
    is_traced,
    python_class,
    refusal,
    resolve_content,
)
from tracegrad.capture.trees import given_args
from tracegrad.capture.trials import noted, noting_writes
from tracegrad.errors import CaptureError, NeedsPythonValue, TracegradError
from tracegrad.suggestion import suggest

#: what to write for `x.at[0].set(1.0)` of other libraries
_AT = "arrays can be written: x[0] = 1.0, x[0] += 1.0; where x must stay as it is, into a copy: x = x.copy()"


def getattr_(obj: Any, name: str, *default: Any) -> Any:
    """`obj.name`."""
    if isinstance(obj, Tracer | Selection):
        if name == "__class__":
            return python_class(obj.content if isinstance(obj, Selection) else obj)
        try:
            return getattr(obj, name, *default)
        except AttributeError as error:
            if isinstance(error, TracegradError):
                raise
            help = _AT if name == "at" else suggest(name, dir(np.ndarray))
            raise refusal(error, f"attribute {name!r} of ", (obj,), help) from None
    if obj is None:
        return getattr(obj, name, *default)
    if (method := read_method(obj, name)) is not None:
        return method
    if type(obj) is OrNone:
        obj = _with_attribute(obj, name)
    if type(obj) is Chosen:
        return for_each(obj, lambda option: getattr_(option, name, *default))
    if name == "args" and isinstance(obj, BaseException):
        return given_args(obj)
    if name == "__dict__":
        items = obj.__dict__
        current().owners[id(items)] = items, obj
    try:
        found = NotImplemented if isinstance(obj, types.ModuleType) else read_by_class(obj, name)
        if found is NotImplemented:
            found = read_missing(obj, name)
    except AttributeError as error:
        if not default or isinstance(error, TracegradError):
            raise
        return default[0]
    if found is not NotImplemented:
        return found
    unsure = find_attribute(obj, name)
    if unsure is not None:
        return read_unsure(obj, unsure, *default)
    if default and not hasattr(obj, name):
        guard_presence(obj, name)
        return default[0]
    return read_attribute(obj, name, getattr(obj, name))


def _with_attribute(obj: OrNone, name: str) -> Any:
    if hasattr(None, name):
        raise none_error(f"is asked for {name}")
    return obj.read(f"'NoneType' object has no attribute {name!r}", "AttributeError")


def getitem(x: Any, key: Any) -> Any:
    """`x[key]`."""
    if type(x) is OrNone:
        x = x.read("'NoneType' object is not subscriptable")
    if isinstance(x, Tracer):
        return noted(x[key]) if is_traced(key) else x[key]
    if isinstance(x, np.ndarray):
        is_staged = is_traced(key) and is_numeric(x)
        return noted(call_handler(operator.getitem, from_concrete(x), key)) if is_staged else x[key]
    if type(x) is Chosen:
        return for_each(x, lambda option: getitem(option, key))
    if type(key) is Chosen:
        return for_each(key, lambda option: getitem(x, option))
    method = special_method(x, "__getitem__")
    if method is not None:
        return call_user(method, x, key)
    if isinstance(x, list | tuple | collections.deque) and _is_unknown_index(x, key) and not _stacks(x):
        return noted(item_at(x, key))
    if lookups.is_lookup(x, key):
        return lookups.read_item(x, key)
    found = dict.get(x, key) if isinstance(x, dict) else None
    if type(found) is Unsure:
        return read_item(x, key, found)
    if (x is np.r_ or x is np.c_) and is_traced(key):
        return call_handler(x, key)
    if isinstance(x, collections.defaultdict) and x.default_factory is not None and key not in x:
        made = call_user(x.default_factory)
        branches.write_slot(x, "item", key, made)
        return made
    if isinstance(x, dict) and type(x) is not dict and key not in x:
        method = special_method(x, "__missing__")
        if method is not None:
            return call_user(method, x, key)
    try:
        found = x[key]
    except LookupError as error:
        if isinstance(x, dict | list | tuple) and not (isinstance(x, StackedList) and x.varies):
            _note_contents(error, x)
        raise
    if isinstance(x, StackedList) and is_traced(key):
        return noted(found)
    return new_container(found) if isinstance(key, slice) and type(found) is list else found


def _note_contents(error: LookupError, container: Any) -> None:
    """Add to the error of a subscript where it stands, and what there is."""
    what = f"a {'list' if isinstance(container, list) else 'tuple'} of {len(container)}"
    if isinstance(container, dict):
        what = f"the keys {', '.join(map(describe, container))}" if container else "an empty dict"
    span = user_span()
    place = f"{span.show()}\n" if span is not None else ""
    error.add_note(f"{place}   = found: {what if len(what) <= 300 else what[:297] + '...'}")


def _is_unknown_index(x: Any, key: Any) -> bool:
    """Return whether a list or tuple is indexed by a number that is not known at capture."""
    if isinstance(x, StackedList) or not isinstance(key, Tracer) or key.ndim:
        return False
    return resolve_content(key, floats=True) is None


def _stacks(x: Any, stored: Any = None) -> bool:
    """Make a list one whose items are rows of an array; return whether it is."""
    use = use_of_index(x, stored) if isinstance(x, list) else None
    return use is not None and branches.keep_as_array(use)


def setitem(x: Any, key: Any, value: Any) -> None:
    """`x[key] = value`."""
    if is_traced(key):
        with noting_writes():
            _set_item(x, key, value)
    else:
        _set_item(x, key, value)


def _set_item(x: Any, key: Any, value: Any) -> None:
    if type(x) is OrNone:
        x = x.read("'NoneType' object does not support item assignment")
    if isinstance(key, slice):
        require_own_iterator(value)
    if isinstance(x, CapturedList) and _is_of_all(key) and replace_all(x, value):
        return
    if isinstance(key, slice) and isinstance(x, CapturedList) and _set_slice(x, key, value):
        return
    if isinstance(x, StackedList):
        if isinstance(key, slice):
            require_own(x, "a write into a slice of a list")
        _set_row(x, key, value)
        return
    if isinstance(x, Tracer | Selection):
        x[key] = value
        return
    if type(x) is Chosen:
        do_each(x, lambda option: setitem(option, key, value))
        return
    if type(key) is Chosen:
        do_each(key, lambda option: setitem(x, option, value))
        return
    if isinstance(x, np.ndarray):
        raise CaptureError(
            "an array that the capture does not know is written in place",
            code="TG123",
            span=user_span(),
            found=f"a write into an array of shape {x.shape} made by code that is not captured",
            help="make the array in the captured function, or pass it as an argument",
        )
    method = special_method(x, "__setitem__")
    if method is not None:
        call_user(method, x, key, value)
    elif lookups.is_lookup(x, key):
        lookups.store_item(x, key, value)
    elif isinstance(x, list) and isinstance(key, slice):
        require_own(x, "a write into a slice of a list")
        slots.note_list(x)
        x[key] = value
    elif not isinstance(x, list | dict | collections.deque):
        require_own(x, f"a write into an item of a {type(x).__name__}")
        x[key] = value
    elif isinstance(x, list | collections.deque):
        if not _is_unknown_index(x, key):
            index = operator.index(key)
            if not -len(x) <= index < len(x):
                raise IndexError("list assignment index out of range")
            branches.write_slot(x, "item", index % len(x), value)
        elif _stacks(x, value):
            assert isinstance(x, StackedList)
            _set_row(x, key, value)
        else:
            store_item(x, key, value)
    else:
        branches.write_slot(x, "item", key, value)


def _is_of_all(key: Any) -> bool:
    return isinstance(key, slice) and key.start is None and key.stop is None and key.step is None


def _set_slice(values: CapturedList, part: slice, given: Any) -> bool:
    """Do `values[part] = given` item by item, where that keeps the length of the list; return whether it does."""
    if not isinstance(given, list | tuple) or any(_has_any_length(items) for items in (values, given)):
        return False
    places, items = range(len(values))[part], list(given)
    if len(places) != len(items):
        return False
    if isinstance(values, StackedList):
        if values.kind.is_mutable:
            return False
        if given is not values and isinstance(given, StackedList) and given.kind == values.kind:
            values.rows()[part] = given.as_array()
            return True
    for place, item in zip(places, items, strict=True):
        setitem(values, place, item)
    return True


def _has_any_length(items: Any) -> bool:
    return isinstance(items, StackedList) and items.has_unknown_length


def _set_row(x: StackedList, key: Any, value: Any) -> None:
    require_single(x, "an item is stored in it")
    try:
        x[key] = value
    except NeedsPythonValue as error:
        if not isinstance(error.remedy, ListUse) or not branches.keep_as_array(error.remedy):
            raise
        x.refresh()
        x[key] = value


def aug_setitem(x: Any, key: Any, op: str, value: Any) -> None:
    """`x[key] op= value`."""
    if lookups.is_lookup(x, key) and (row := lookups.row_of(x, key)) is not None:
        aug_name(row, op, value)
        return
    item = getitem(x, key)
    result = aug_name(item, op, value)
    if result is not item or not isinstance(x, StackedList):
        setitem(x, key, result)


def exchange(x: Any, keys: tuple[Any, ...], others: tuple[Any, ...]) -> None:
    """`x[i], x[j] = x[j], x[i]` where no name holds an item of x: rows of an array change places in it."""
    if isinstance(x, list) and any(_is_unknown_index(x, key) for key in keys):
        _stacks(x)
    if isinstance(x, StackedList) and x.can_exchange:
        require_single(x, "its items change places")
        x.exchange(keys, others)
        return
    values = [getitem(x, other) for other in others]
    for key, value in zip(keys, values, strict=True):
        setitem(x, key, value)


def setattr_(obj: Any, name: str, value: Any) -> None:
    """`obj.name = value`."""
    if type(obj) is OrNone:
        obj = _with_attribute(obj, name)
    if type(obj) is Chosen and obj.is_error:
        raise obj.error
    if type(obj) is Chosen:
        do_each(obj, lambda option: setattr_(option, name, value))
    else:
        store(obj, name, value)


def aug_setattr(obj: Any, name: str, op: str, value: Any) -> None:
    """`obj.name op= value`."""
    setattr_(obj, name, aug_name(getattr_(obj, name), op, value))


def delitem(x: Any, key: Any) -> None:
    """`del x[key]`."""
    if type(x) is OrNone:
        x = x.read("'NoneType' object does not support item deletion")
    method = special_method(x, "__delitem__")
    if method is not None:
        call_user(method, x, key)
    else:
        call_user(operator.delitem, x, key)


def delattr_(obj: Any, name: str) -> None:
    """`del obj.name`."""
    if type(obj) is OrNone:
        obj = _with_attribute(obj, name)
    if not delete(obj, name):
        call_user(delattr, obj, name)
