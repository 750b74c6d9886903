"""What captured code reads from outside: arrays and floats become hidden inputs, everything else is guarded.

Called by hooks.py at each read of a global, a closure variable or an attribute. Previous: staging.py; next: hooks.py.

A hidden input is a parameter of the function in IR that is read again at every call, so that it is never stale. Ints, bools,
strings, functions and the structure of containers are assumed to stay as they are, and checked at every call.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.capture.context import Guard, HiddenInput, Storage, current
from tracegrad.capture.state import new_list
from tracegrad.capture.tracer import Tracer
from tracegrad.ir.core import Value
from tracegrad.ir.types import DTYPES, ArrayType

_NUMERIC = frozenset(DTYPES.values())
_CONSTANTS = (bool, int, str, bytes, type(None), np.integer, np.bool_)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type, np.ufunc, types.MethodType)


def lift(value: Any, read: Callable[[], Any], name: str, key: Any) -> Any:
    """Return what captured code gets for a value read from outside; `read()` reads it again, `key` identifies the place."""
    if isinstance(value, Tracer | types.ModuleType):
        return value
    capture = current()
    if id(value) in capture.created:
        return value
    if _is_float_or_array(value):
        return _hidden_input(value, read, name, key)
    if key in capture.lifted:
        return capture.lifted[key]
    if isinstance(value, _CONSTANTS):
        capture.guards.setdefault(key, Guard(name, read, value, identity=value is None))
        return value
    if isinstance(value, types.FunctionType):
        capture.guards.setdefault(key, Guard(name, read, value, identity=True))
        code_key = (id(value), "code")
        capture.guards.setdefault(code_key, Guard(name, lambda: value.__code__, value.__code__, identity=True))
        return value
    if isinstance(value, types.MethodType | types.BuiltinMethodType):
        return value  # made anew at each read; what it is bound to has been guarded
    if type(value) in (list, dict, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        lifted = _lift_container(value, read, name, key)
        capture.lifted[key] = lifted
        return lifted
    capture.guards.setdefault(key, Guard(name, read, value, identity=True))
    return value


def _is_float_or_array(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.inexact):
        return value.dtype in _NUMERIC
    return isinstance(value, float | complex)


def _hidden_input(value: Any, read: Callable[[], Any], name: str, key: Any) -> Tracer:
    capture = current()
    known = capture.hidden.get(key)
    if known is None:
        # two names of one array are one input, so that a write through one is seen through the other
        for other in capture.hidden.values():
            if isinstance(value, np.ndarray) and other.tracer[0] is value:
                capture.guards.setdefault(key, Guard(name, lambda: read() is other.read(), True, identity=True))
                capture.hidden[key] = other
                return other.tracer[1]  # type: ignore[no-any-return]
        array = np.asarray(value)
        param = Value(ArrayType(array.dtype.newbyteorder("="), array.shape), name.rpartition(".")[2])
        weak = isinstance(value, float | complex) and not isinstance(value, np.generic)
        tracer = Tracer(Storage(param.array_type, 0, param), weak=weak, contiguous=array.flags.c_contiguous)
        known = HiddenInput(name, read, param, (value, tracer))
        capture.hidden[key] = known
    return known.tracer[1]  # type: ignore[no-any-return]


def _lift_container(value: Any, read: Callable[[], Any], name: str, key: Any) -> Any:
    capture = current()
    items = value.items() if isinstance(value, dict) else enumerate(value)
    children = {}
    for item_key, item in items:

        def read_item(item_key: Any = item_key) -> Any:
            return read()[item_key]

        children[item_key] = lift(item, read_item, f"{name}[{item_key!r}]", (key, "item", item_key))
    if isinstance(value, dict):
        keys = tuple(value)
        capture.guards[key, "keys"] = Guard(name, lambda: tuple(read()), keys, identity=False)
        result: Any = dict(children)
        capture.outside[id(result)] = (result, read)
    elif isinstance(value, list):
        capture.guards[key, "length"] = Guard(name, lambda: len(read()), len(value), identity=False)
        result = list(children.values())
        capture.outside[id(result)] = (result, read)
    elif hasattr(value, "_fields"):
        result = type(value)(*children.values())
    else:
        capture.guards[key, "length"] = Guard(name, lambda: len(read()), len(value), identity=False)
        result = tuple(children.values())
    return result


def new_container(value: Any) -> Any:
    """Register a list or dict display made by captured code."""
    if type(value) is list:
        return new_list(value)
    current().register_created(value)
    return value
