"""What captured code reads from outside: arrays and floats become hidden inputs, everything else is guarded.

Called by hooks.py at each read of a global, a closure variable or an attribute. Previous: staging.py; next: hooks.py.

A hidden input is a parameter of the function in IR that is read again at every call, so that it is never stale. Ints,
bools, strings, functions and the structure of containers are assumed to stay as they are, and checked at every call.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from tracegrad.capture.context import HiddenInput, Place, Storage, current
from tracegrad.capture.staging import new_list
from tracegrad.capture.tracer import Tracer
from tracegrad.ir.core import Value
from tracegrad.ir.types import DTYPES, ArrayType

_NUMERIC = frozenset(DTYPES.values())
_FUNCTIONS = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)


def lift(value: Any, place: Place) -> Any:
    """Return what captured code gets for a value read from outside."""
    if isinstance(value, Tracer | types.ModuleType):
        return value
    capture = current()
    if id(value) in capture.created:
        return value
    if is_hidden_input(value):
        return _hidden_input(value, place)
    if place.key in capture.lifted:
        return capture.lifted[place.key]
    if isinstance(value, _FUNCTIONS):
        return value  # made anew at each read; what it is bound to has been guarded
    # the structure, and all parts that are no hidden inputs, are compared at every call
    capture.guards.setdefault(place.key, (place, _snapshot(value)))
    if isinstance(value, types.FunctionType):
        code = Place(value, (("attribute", "__code__"),), f"{place.name}.__code__")
        capture.guards.setdefault(code.key, (code, value.__code__))
        return value
    if is_open_container(value):
        lifted = _lift_container(value, place)
        capture.lifted[place.key] = lifted
        capture.originals[id(lifted)] = value
        return lifted
    return value


def is_hidden_input(value: Any) -> bool:
    """Return whether a value from outside is read again at every call."""
    if isinstance(value, np.ndarray | np.inexact):
        return value.dtype in _NUMERIC
    return isinstance(value, float | complex)


def is_open_container(value: Any) -> bool:
    """Return whether a value from outside is a container whose parts are lifted one by one."""
    return type(value) in (list, dict, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields"))


def _hidden_input(value: Any, place: Place) -> Tracer:
    capture = current()
    known = capture.hidden.get(place.key)
    if known is None:
        array = np.asarray(value)
        words = "".join(c if c.isalnum() or c == "_" else " " for c in place.name).split()
        name = "_".join(w for w in words[-2 if len(words) > 1 and words[-1].isdigit() else -1 :])
        param = Value(ArrayType(array.dtype.newbyteorder("="), array.shape), name if name.isidentifier() else "")
        weak = isinstance(value, float | complex) and not isinstance(value, np.generic)
        tracer = Tracer(Storage(param.array_type, 0, param), weak=weak, contiguous=array.flags.c_contiguous)
        known = HiddenInput(place, value, param, tracer)
        capture.hidden[place.key] = known
    return known.tracer  # type: ignore[no-any-return]


def _lift_container(value: Any, place: Place) -> Any:
    if isinstance(value, dict):
        return {key: lift(item, place.step("item", key)) for key, item in value.items()}
    items = [lift(item, place.step("item", index)) for index, item in enumerate(value)]
    if isinstance(value, list):
        return items
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _snapshot(value: Any) -> Any:
    """Return what a container holds now: its owner may change it before the next call."""
    if not is_open_container(value):
        return value
    if isinstance(value, dict):
        return {key: _snapshot(item) for key, item in value.items()}
    items = [_snapshot(item) for item in value]
    if isinstance(value, list):
        return items
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def new_container(value: Any) -> Any:
    """Register a list or dict display made by captured code."""
    if type(value) is list:
        return new_list(value)
    current().register_created(value)
    return value
