"""Copies of objects of the user's classes and of containers: `copy.copy`, `copy.deepcopy`, `dataclasses.replace`.

The originals run as Python code that is not captured, and what they make could not be followed. Called by calls.py.
Previous: attempts.py; next: calls.py.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.capture.context import current
from tracegrad.capture.guards import is_native, is_user_function, new_container
from tracegrad.capture.joins import or_none
from tracegrad.capture.protocols import find_in_class
from tracegrad.capture.state import OrNone, Unsure
from tracegrad.capture.tables import Table
from tracegrad.capture.tracer import MaybeNone, Tracer, asarray, call_user

Read = Callable[[Any, str], Any]


def replaced(read: Read, obj: Any, /, **changes: Any) -> Any:
    """`dataclasses.replace(obj, **changes)`."""
    for field in dataclasses.fields(obj):
        if not field.init and field.name in changes:
            return dataclasses.replace(obj, **changes)  # raises Python's error
        if field.init and field.name not in changes:
            changes[field.name] = read(obj, field.name)
    return call_user(type(obj), **changes)


def copied(read: Read, value: Any) -> Any:
    """`copy.copy(value)`."""
    method = find_in_class(type(value), "__copy__")
    if is_user_function(method):
        return call_user(method, value)
    if not _is_plain_object(value):
        return _own(copy.copy(value))
    made = object.__new__(type(value))
    _fill(made, {name: _attribute(read, value, name) for name in vars(value)})
    return made


def copied_deeply(read: Read, value: Any, memo: dict[int, Any] | None = None) -> Any:
    """`copy.deepcopy(value)`."""
    memo = {} if memo is None else memo
    if id(value) not in memo:
        memo[id(value)] = _copied_deeply(read, value, memo)
    return memo[id(value)]


def _copied_deeply(read: Read, value: Any, memo: dict[int, Any]) -> Any:
    def inner(item: Any) -> Any:
        return copied_deeply(read, item, memo)

    if type(value) is Unsure:
        return Unsure(value.name, inner(value.value), value.condition)
    if isinstance(value, MaybeNone | OrNone):
        return or_none(inner(value.some if isinstance(value, MaybeNone) else value.value), value.present)
    method = find_in_class(type(value), "__deepcopy__")
    if is_user_function(method):
        return call_user(method, value, memo)
    if type(value) is Table:
        return value.copied()
    if type(value) is dict:
        return new_container({key: inner(item) for key, item in value.items()})
    if type(value) is list:
        return new_container([inner(item) for item in value])
    if isinstance(value, tuple):
        items = [inner(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not _is_plain_object(value):
        return _own(copy.deepcopy(value))
    made = memo[id(value)] = object.__new__(type(value))
    _fill(made, {name: inner(_attribute(read, value, name)) for name in vars(value)})
    return made


def _own(made: Any) -> Any:
    if isinstance(made, Tracer):
        return made
    return asarray(made) if isinstance(made, np.ndarray) else new_container(made)


def _is_plain_object(value: Any) -> bool:
    """Return whether an object is one of a user's class, made of its attributes alone."""
    cls = type(value)
    if is_native(cls.__module__) or not hasattr(value, "__dict__"):
        return False
    return not any(
        name in vars(base)
        for base in cls.__mro__[:-1]
        for name in ("__slots__", "__reduce_ex__", "__reduce__", "__getstate__")
    )


def _attribute(read: Read, value: Any, name: str) -> Any:
    kept = vars(value)[name]
    return kept if type(kept) is Unsure else read(value, name)


def _fill(made: Any, attributes: dict[str, Any]) -> None:
    for name, kept in attributes.items():
        object.__setattr__(made, name, kept)
    current().register_created(made)
