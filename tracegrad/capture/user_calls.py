"""Calls of the user's functions and classes, which are converted and captured too; what is not converted runs natively.

Called by calls.py. Previous: members.py; next: calls.py.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracegrad.capture.context import Call, current, user_span
from tracegrad.capture.convert import convert
from tracegrad.capture.guards import (
    call_unfollowed,
    guard_code,
    guard_native,
    is_user_function,
    new_container,
    with_defaults,
)
from tracegrad.capture.joins import is_stack_overflow
from tracegrad.capture.lists import StackedList
from tracegrad.capture.protocols import make_object, make_plainly
from tracegrad.capture.source import SourceUnavailable
from tracegrad.capture.tracer import Tracer, asarray, call_handler, call_user, full_name, is_traced
from tracegrad.errors import CaptureError, NeedsPythonValue, Span, TracegradError
from tracegrad.frames import is_of_dataclass

#: calls of one function nested deeper than this, under a traced condition, never end
RECURSION_LIMIT = 60
#: more calls of one function than this, in one that is captured under a traced condition, are too many
CALLS_LIMIT = 5000

#: the namespace that converted code knows as `tg__`; hooks.py fills it
HOOKS = types.SimpleNamespace()
#: what stages a call of a function that is running; recursion.py puts its function here
RECURSION: list[Callable[..., tuple[bool, Any]]] = []


def call_cached(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with `functools.cache`: once for Python arguments, as long as what it gave can be seen."""
    if is_traced((args, kwargs)):
        return call_user(f.__wrapped__, *args, **kwargs)
    capture = current()
    key = (f, args, tuple(kwargs.items()))
    try:
        found = capture.cached.get(key)
    except NeedsPythonValue:  # the hash of an object, or whether it equals another one, depends on traced values
        return call_user(f.__wrapped__, *args, **kwargs)
    if found is None or not capture.is_open(found[0]):
        found = capture.cached[key] = (capture.frame.block, call_user(f.__wrapped__, *args, **kwargs))
    return found[1]


def wrap_result(result: Any) -> Any:
    """Wrap the fresh array that a native NumPy call returned, so that writes into it are seen."""
    if isinstance(result, StackedList):
        return result
    if isinstance(result, np.ndarray) and result.dtype.kind in "biufc":
        return asarray(result)
    if isinstance(result, tuple | list) and any(isinstance(r, np.ndarray) for r in result):
        if hasattr(result, "_fields"):
            return type(result)(*(wrap_result(r) for r in result))
        return type(result)(wrap_result(r) for r in result)
    if isinstance(result, list | dict | Iterator):
        return new_container(result)
    return result


def run_native(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function or class that is not captured; one of SciPy's that meets traced values is not supported."""
    try:
        return f(*args, **kwargs)
    except NeedsPythonValue:
        if not full_name(f).startswith("scipy."):
            raise
    except (TypeError, ValueError) as error:
        numbers = [v for v in (*args, *kwargs.values()) if isinstance(v, Tracer) and v.is_scalar]
        if isinstance(error, TracegradError) or isinstance(f, types.FunctionType) or not numbers:
            raise
        return f(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})
    return call_handler(f, *args, **kwargs)  # says so


def _plain(argument: Any) -> Any:
    return argument.plain_number() if isinstance(argument, Tracer) and argument.is_scalar else argument


def call_function(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not is_user_function(function):
        if is_traced((args, kwargs)) and (function.__module__ or "").startswith(("numpy", "scipy")):
            return call_handler(function, *args, **kwargs)
        guard_native(function, args, kwargs)
        return wrap_result(run_native(function, args, kwargs))
    capture = current()
    converted = _converted(function)
    if converted is None:
        return call_unfollowed(function, args, kwargs)
    if converted is not function:  # from outside
        guard_code(function)
        args, kwargs = with_defaults(function, args, kwargs)
    code = function.__code__
    if capture.active.get(code, 0):
        for stage_call in RECURSION:
            staged, result = stage_call(function, converted, args, kwargs)
            if staged:
                return result
    level = capture.active[code] = capture.active.get(code, 0) + 1
    count = capture.counts[code] = 1 if level == 1 else capture.counts[code] + 1
    capture.calls.append(Call(function, args, kwargs, capture.depth))
    try:
        if level > RECURSION_LIMIT or count > CALLS_LIMIT:
            first = next(c for c in capture.calls if c.function.__code__ is code)
            if any(frame.kind not in ("function", "inner") for frame in capture.frames[first.depth + 1 :]):
                raise _endless_recursion(function, RECURSION_LIMIT if level > RECURSION_LIMIT else None)
        return converted(*args, **kwargs)
    except RecursionError as error:
        if level == 1 or not is_stack_overflow(error):
            raise
        raise stack_overflow(f"nested calls of {function.__name__}", user_span()) from None
    finally:
        capture.active[code] -= 1
        capture.calls.pop()


def stack_overflow(found: str, span: Span | None) -> CaptureError:
    """Return the error for a capture that runs out of Python's stack; found: what it is that nests too deep."""
    return CaptureError(
        "Python's stack has no room for the capture of this function",
        code="TG130",
        span=span,
        found=f"{found}, beyond the limit of sys.getrecursionlimit()",
        help="end the recursion, write it as a loop or nest less; or set a higher limit with sys.setrecursionlimit "
        "before the first call",
    )


def _endless_recursion(function: types.FunctionType, depth: int | None) -> CaptureError:
    """Return the error for calls at capture that nest too deep, or are too many."""
    name, reason = function.__name__, current().unrolled.get(function)
    found = f"{CALLS_LIMIT} calls of {name} in one" if depth is None else f"{depth} nested calls of {name}"
    help = "end the recursion on a plain Python value (a depth, a length), or write it as a while loop"
    if reason is not None:
        found = f"{reason.title}; so its calls run at capture, and {found} do not end"
        help = f"{reason.help}; or {help}"
    error = CaptureError(
        f"{name} calls itself under a condition that depends on traced values",
        code="TG130",
        span=user_span() if reason is None else reason.span,
        found=found,
        help=help,
    )
    error.__cause__ = reason
    return error


def _converted(function: types.FunctionType) -> types.FunctionType | None:
    """Return a function converted, or None when it runs as it is."""
    try:
        return convert(function, HOOKS)
    except SourceUnavailable as error:
        current().unconverted[function.__code__] = (error.reason, error.remedy)
        return None


def instantiate(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _made(cls, make_object(cls, args, kwargs, _fill), args, kwargs)


def instantiate_plainly(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`type.__call__(cls, *args, **kwargs)`, which the metaclass of the class calls."""
    return _made(cls, make_plainly(cls, args, kwargs, _fill), args, kwargs)


def _made(cls: type, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if instance is not NotImplemented:
        return instance
    result = run_native(cls, args, kwargs)
    if cls not in (int, float, str, bool, complex, tuple, frozenset, type, slice) and not isinstance(
        result, np.ndarray
    ):
        return new_container(result)
    return wrap_result(result)


def _fill(instance: Any, init: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if is_of_dataclass(init.__code__) and _stores_plainly(type(instance)):
        _fill_dataclass(instance, init, args, kwargs)
    else:
        call_user(init, instance, *args, **kwargs)


def _stores_plainly(cls: Any) -> bool:
    return cls.__dataclass_params__.frozen or cls.__setattr__ in (object.__setattr__, BaseException.__setattr__)


def _fill_dataclass(instance: Any, init: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Do what the `__init__` that `dataclass` has made does, so that factories and `__post_init__` are captured."""
    try:
        given = inspect.signature(init).bind(instance, *args, **kwargs).arguments
    except TypeError:
        init(instance, *args, **kwargs)  # raises Python's error
        raise
    passed_on = []
    store: Any = BaseException.__setattr__ if isinstance(instance, BaseException) else object.__setattr__
    for field in instance.__dataclass_fields__.values():
        if field._field_type is dataclasses._FIELD_CLASSVAR:  # type: ignore[attr-defined]
            continue
        if field.init and field.name in given:
            value = given[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            value = call_user(field.default_factory)
        elif field.init:
            value = field.default
        else:
            continue
        if field._field_type is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            passed_on.append(value)
        else:
            store(instance, field.name, value)
    if hasattr(instance, "__post_init__"):
        call_user(instance.__post_init__, *passed_on)
