"""Calls in converted code: of functions of Python and NumPy, of the user's, of methods, classes and all else.

hooks.py gives `call` to converted code. Previous: user_calls.py; next: hooks.py.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import inspect
import itertools
import operator
import types
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from tracegrad.capture import branches, comprehensions, copies, lookups, searches, sequences
from tracegrad.capture.aliases import ways
from tracegrad.capture.attempts import context
from tracegrad.capture.choices import for_each, merge
from tracegrad.capture.chosen import Chosen, Conflict
from tracegrad.capture.comparisons import is_captured, search
from tracegrad.capture.context import current
from tracegrad.capture.deques import as_list, makes_list, require_no_question
from tracegrad.capture.draws import call_random, is_random
from tracegrad.capture.guards import (
    guard_class,
    guard_native,
    guard_presence,
    is_user_function,
    lift_partial,
    new_container,
    refuse_changing,
    special_method,
)
from tracegrad.capture.iterables import SEQUENCES, call_on_stacked, is_of_arrays, is_on_stacked, key_of
from tracegrad.capture.iterators import note_made
from tracegrad.capture.joins import chosen_error
from tracegrad.capture.lists import CapturedList, RecordList, StackedList
from tracegrad.capture.members import getattr_, getitem, setitem
from tracegrad.capture.natives import call_changing, changes_object, require_own_iterator
from tracegrad.capture.operators import OPERATOR_NAMES, operate
from tracegrad.capture.presence import call_on_dict, find_attribute
from tracegrad.capture.protocols import binary_of, find_in_class, iterated, makes_plainly, special_of
from tracegrad.capture.state import OrNone, Unsure, none_error
from tracegrad.capture.streams import call_lazily
from tracegrad.capture.text import call_with_text
from tracegrad.capture.tracer import ALWAYS, CALLERS, CALLERS_OF_OTHERS, HANDLERS, Tracer, call_handler, is_traced
from tracegrad.capture.user_calls import (
    call_cached,
    call_function,
    instantiate,
    instantiate_plainly,
    run_native,
    wrap_result,
)


def _is_captured(f: Any) -> bool:
    """Return whether a function or class is the user's, or a method: it takes values as they are."""
    if isinstance(f, types.MethodType):
        return _is_captured(f.__func__)
    if isinstance(f, types.FunctionType):
        return is_user_function(f)
    return isinstance(f, type) and isinstance(find_in_class(f, "__init__"), types.FunctionType)


def _leaves_iterators(f: Any) -> bool:
    """Return whether a function takes no items of an iterator by itself."""
    return _is_captured(f) or (isinstance(f, Hashable) and f in _LOOKS)


def _combines_items(f: Any) -> bool:
    """Return whether a function is a method of a ufunc that takes the items of lists."""
    if not (isinstance(f, types.BuiltinMethodType) and isinstance(f.__self__, np.ufunc)):
        return False
    return f.__name__ in ("reduce", "accumulate", "outer")


def _place_of_choice(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | str | None:
    """Return the position or keyword of the first argument that a traced number chooses."""
    places: list[int | str] = [*range(len(args)), *kwargs]
    values = (*args, *kwargs.values())
    return next((place for place, value in zip(places, values, strict=True) if type(value) is Chosen), None)


def call(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`f(*args, **kwargs)`."""
    if type(f) not in _FUNCTIONS and (method := special_method(f, "__call__")) is not None:
        return call(method, f, *args, **kwargs)  # nothing below may hash or compare the user's object
    if any(type(argument) is comprehensions.Generated for argument in args):
        of_steps = _OF_STEPS.get(f) if isinstance(f, types.BuiltinFunctionType) else None
        if of_steps is not None and type(args[0]) is comprehensions.Generated and not kwargs:
            result = of_steps(args[0].step, *args[1:])
            if result is not NotImplemented:
                return result
        args = tuple(a.given_to(f) if type(a) is comprehensions.Generated else a for a in args)
    if any(type(argument) is comprehensions.Stream for argument in args):
        if (f is any or f is all) and len(args) == 1:
            require_own_iterator(args[0])
            return comprehensions.holds_for(f, args[0].taken(all_items=False))
        made = call_lazily(f, args, kwargs)
        if made is not NotImplemented:
            return made
        args = _given_streams(f, args)
    if isinstance(f, type) and issubclass(f, BaseException) and (args and type(args[0]) is Chosen):
        chosen = args[0]
        if chosen.index.root._storage.depth == current().depth and current().frame.kind == "branch":
            raise chosen.error
        return chosen_error(f, chosen, [call(f, option, *args[1:], **kwargs) for option in chosen.options])
    spread = next((a for a in args if type(a) is comprehensions.Spread), None)
    if spread is not None:
        return spread.given_to(f if len(args) == 1 and set(kwargs) <= {"strict"} else None)
    if f is print or f is str or f is repr:
        require_no_question(f.__name__, *args)
    if (f is str or f is repr) and len(args) == 1 and type(args[0]) is Chosen:
        return for_each(args[0], functools.partial(call, f))
    result = call_with_text(f, args, kwargs, call, HANDLERS[print])
    if result is not NotImplemented:
        return result
    if not callable(f):
        return f(*args, **kwargs)  # raises Python's error
    if type(f) is OrNone:
        return call(f.read("'NoneType' object is not callable"), *args, **kwargs)
    if f is isinstance and len(args) == 2 and type(args[0]) is OrNone and not isinstance(None, args[1]):
        return branches.and_(args[0].present, lambda: call(isinstance, args[0].value, args[1]))
    if any(type(argument) is OrNone for argument in (*args, *kwargs.values())) and not _keeps_arguments(f):
        args, kwargs = _present(f, args), dict(zip(kwargs, _present(f, kwargs.values()), strict=True))
    if type(f) is Chosen:
        return for_each(f, lambda option: call(option, *args, **kwargs))
    if isinstance(f, types.BuiltinMethodType) and isinstance(f.__self__, StackedList):
        f = getattr(f.__self__, f.__name__)  # read before the list became one whose items are rows
    place = _place_of_choice(args, kwargs)
    if place is not None and isinstance(f, Hashable) and f in SEQUENCES:
        args, place = tuple(merge(a) if type(a) is Chosen else a for a in args), None
    if place is not None and not _is_captured(f):
        return for_each(
            kwargs[place] if isinstance(place, str) else args[place],
            lambda option: call(
                f,
                *(option if number == place else argument for number, argument in enumerate(args)),
                **{name: option if name == place else argument for name, argument in kwargs.items()},
            ),
        )
    if not _is_captured(f):
        result = lookups.call_by_key(f, args, kwargs, call)
        if result is not NotImplemented:
            return result
    for argument in (*args, *kwargs.values()):
        if type(argument) is Conflict:
            raise argument.error
        if type(argument) is Unsure:  # of a dict in `f(**d)`
            raise argument.refusal("gives the arguments of a call")
    streams = current().streams
    for argument in args:  # map and filter are comprehensions, which look themselves
        if id(argument) in streams and not _leaves_iterators(f) and f is not map and f is not filter:
            require_own_iterator(argument)
    result = _look_into(f, args, kwargs)
    if result is not NotImplemented:
        return result
    if f is hasattr:
        guard_presence(*args)
        unsure = find_attribute(*args)
        if unsure is not None:
            return unsure.condition
    elif f in (isinstance, type):
        require_no_question(f.__name__, args[0])
        guard_class(args[0])
    elif args:
        if isinstance(f, type | types.BuiltinFunctionType) and not kwargs:
            result = call_on_dict(f, args)
            if result is not NotImplemented:
                return result
        args = iterated(f, args)
        method = special_of(f, args[0]) if not kwargs else None
        if method is not None:
            return _call_special(method, args)
        result = binary_of(f, args) if not kwargs else NotImplemented
        if result is not NotImplemented:
            return result
        if f is sorted and kwargs.keys() <= {"key", "reverse"} and isinstance(kwargs.get("reverse", False), int):
            result = comprehensions.ordered(args[0], key_of(kwargs), reverse=bool(kwargs.get("reverse", False)))
            if result is not NotImplemented:
                return result
        if isinstance(args[0], sequences.Sequence_) and args[0].static_length is None and kwargs.keys() == {"key"}:
            if f is max or f is min:
                return comprehensions.greatest(args[0], key_of(kwargs), least=f is min)
    if is_random(f):
        return wrap_result(call_random(f, args, kwargs))
    refuse_changing(f)
    for argument in args:
        if type(argument) is not Tracer and isinstance(argument, Iterator) and not _leaves_iterators(f):
            require_own_iterator(argument)
    if _combines_items(f) and is_traced(args):
        args = tuple(call(np.array, a) if isinstance(a, list | tuple | StackedList) else a for a in args)
    if isinstance(f, types.BuiltinFunctionType) and f in OPERATOR_NAMES and len(args) == 2:
        return operate(OPERATOR_NAMES[f], *args)
    result = _call_method_of_list(f, args, kwargs)
    if result is not NotImplemented:
        return result
    if changes_object(f, args):
        return wrap_result(call_changing(f, args, kwargs))
    try:
        handler = HANDLERS.get(f)
    except TypeError:
        handler = None
    if handler is not None:
        if is_of_arrays(f):
            args = tuple(list(a) if isinstance(a, collections.deque) else a for a in args)
        if is_on_stacked(f, args, kwargs):
            return call_on_stacked(f, args, kwargs)
        if f in ALWAYS or is_traced(args) or is_traced(kwargs):
            result = call_handler(f, *args, **kwargs)
            return _as_made(f, result, args, kwargs)  # it may be a zip of Python values
        guard_native(f, args, kwargs)
        return _as_made(f, wrap_result(f(*args, **kwargs)), args, kwargs)
    if isinstance(f, Hashable) and f in CALLERS_OF_OTHERS and (is_traced(args) or is_traced(kwargs)):
        return CALLERS_OF_OTHERS[f](f, args, kwargs)
    if isinstance(f, types.FunctionType):
        result = call_function(f, args, kwargs)
        if inspect.isgeneratorfunction(f):
            current().register_created(result)
        return result
    if isinstance(f, types.MethodType):
        if isinstance(f.__self__, Tracer):
            result = f(*args, **kwargs)
            return _as_own(result) if isinstance(result, list) else result
        if isinstance(f.__self__, contextlib.ExitStack) and f.__name__ in ("enter_context", "push"):
            args = tuple(context(arg) for arg in args)
        return call(f.__func__, f.__self__, *args, **kwargs)
    if isinstance(f, functools.partial):
        bound, keywords = lift_partial(f)
        return call(f.func, *bound, *args, **{**keywords, **kwargs})
    if isinstance(f, type):
        return _as_made(f, instantiate(f, args, kwargs), args, kwargs)
    if isinstance(f, types.BuiltinMethodType) and f.__name__ == "__new__":
        return new_container(f(*args, **kwargs))
    if makes_plainly(f):
        return instantiate_plainly(f.__self__, args, kwargs)
    if isinstance(f, functools._lru_cache_wrapper):
        return call_cached(f, args, kwargs)
    module = getattr(f, "__module__", None) or ""
    if is_traced(args) or is_traced(kwargs):
        if isinstance(f, np.vectorize):
            return call_handler(np.vectorize.__call__, f, *args, **kwargs)
        is_array_function = module.startswith(("numpy", "scipy", "math", "cmath")) and not hasattr(f, "__tracegrad__")
        if isinstance(f, np.ufunc) or is_array_function:
            return call_handler(f, *args, **kwargs)
    if not hasattr(f, "__tracegrad__"):
        method = getattr(type(f), "__call__", None)  # noqa: B004 the method, not a test
        if isinstance(method, types.FunctionType):
            return call_function(method, (f, *args), kwargs)
        guard_native(f, args, kwargs)
    return _as_made(f, wrap_result(run_native(f, args, kwargs)), args, kwargs)


def _as_made(f: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a function of Python; where it is a new iterator, note that it was made here."""
    if (isinstance(f, type) or f is iter) and isinstance(result, Iterator) and not isinstance(result, Tracer):
        if all(argument is not result for argument in args):
            note_made(result, (*args, *kwargs.values()))
    return result


def _given_streams(f: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a function that gets iterators of map or filter: those themselves, or their items."""
    if f is map or f is filter or f is itertools.filterfalse or _extends(f):
        return args
    if _leaves_iterators(f) and f is not next:
        return args
    reads_all = isinstance(f, Hashable) and f in comprehensions.READ_ALL
    make = comprehensions.listed if reads_all and len(args) == 1 else comprehensions.settled
    for argument in args:
        if type(argument) is comprehensions.Stream:
            require_own_iterator(argument)
    return tuple(map(make, args))


def _extends(f: Any) -> bool:
    """Return whether a function is the method of a list of captured code that appends items."""
    return getattr(f, "__name__", "") == "extend" and isinstance(getattr(f, "__self__", None), CapturedList)


def _look_into(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do what functions of Python do that read a list, an attribute or an item; NotImplemented: f is none of them."""
    if f is len and isinstance(args[0], StackedList):
        args[0].note_range()
        return args[0].length
    if f is list and args and isinstance(args[0], StackedList):
        return args[0].copy()
    if f is list and args and isinstance(args[0], sequences.Sequence_) and args[0].length is None:
        return comprehensions.collect(comprehensions.Each(args[0], "", comprehensions.Item))
    if f is next and args and id(args[0]) in current().streams:
        require_own_iterator(args[0])
        return comprehensions.head(*args)
    if makes_list(f, args, kwargs):
        return as_list(functools.partial(call, list), *args, **kwargs)
    if f is getattr:
        return getattr_(*args)
    if isinstance(f, types.FunctionType) and f in _COPIES:
        return _COPIES[f](getattr_, *args, **kwargs)
    if f is vars and args:
        return getattr_(args[0], "__dict__")
    if isinstance(f, types.BuiltinFunctionType) and f in _ITEMS:
        return _ITEMS[f](*args)
    if isinstance(f, types.BuiltinFunctionType) and f in searches.INSERTS:
        return call(searches.INSERTS[f], *args, **kwargs)
    if isinstance(f, types.BuiltinFunctionType) and f in searches.BISECTS and isinstance(args[0], RecordList):
        return call(searches.BISECTS[f], *args, **kwargs)
    return NotImplemented


def _call_method_of_list(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of a list or tuple that meets traced values; NotImplemented: f is none, or Python's own does."""
    name, own = getattr(f, "__name__", ""), getattr(f, "__self__", None)
    if isinstance(f, types.BuiltinMethodType) and name in _SEARCHES and args:
        if isinstance(own, list | tuple) and (is_captured(own) or is_captured(args) or any(map(ways, args))):
            return search(name, own, args[0], operate, *args[1:])
    if name == "extend" and isinstance(own, CapturedList):
        if type(args[0]) is comprehensions.Stream:
            return comprehensions.extend(own, args[0])
        given = own.copy() if args[0] is own else args[0]
        sequence = given if isinstance(given, sequences.Sequence_) else sequences.as_sequence(given)
        if sequence is not None and sequence.length is None:
            return comprehensions.extend(own, sequence)
    if name == "sort" and isinstance(own, StackedList) and own.has_unknown_length:
        return comprehensions.sort(own, key_of(kwargs), reverse=kwargs.get("reverse", False))
    return NotImplemented


def _keeps_arguments(f: Any) -> bool:
    """Return whether a function takes values as they are: the user's, a method of a container, or getattr."""
    own = getattr(f, "__self__", None)
    return _is_captured(f) or f is getattr or isinstance(own, list | dict | collections.deque)


def _present(f: Any, values: Iterable[Any]) -> tuple[Any, ...]:
    """Return arguments of a call that takes values, not what may be None."""
    if f in _LOOKS:
        raise none_error(f"is given to {f.__name__}")
    message = f"{getattr(f, '__name__', 'a function')} expects a value, and there is None"
    return tuple(value.read(message) if type(value) is OrNone else value for value in values)


def _call_special(method: types.FunctionType, args: tuple[Any, ...]) -> Any:
    if method.__name__ != "__next__" or len(args) == 1:
        return call(method, *args)
    try:
        return call(method, args[0])
    except StopIteration:
        return args[1]


#: classes of what is called without code of the user's class
_FUNCTIONS = frozenset({types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, np.ufunc})
#: functions that take no items of an iterator
_LOOKS = frozenset(
    {iter, next, isinstance, callable, id, hash, print, repr, str, bool, hasattr, getattr, setattr, type}
)
#: methods of lists and tuples that compare their items
_SEARCHES = frozenset({"index", "count", "remove"})


def _as_own(values: Any) -> Any:
    """Register the lists of `tolist`, inner ones too."""
    return new_container([_as_own(v) for v in values]) if isinstance(values, list) else values


_ITEMS: dict[Any, Callable[..., Any]] = {
    operator.getitem: getitem,
    operator.setitem: setitem,
    operator.contains: lambda container, item: operate("in", item, container),
}
_COPIES: dict[Any, Callable[..., Any]] = {
    copy.copy: copies.copied,
    copy.deepcopy: copies.copied_deeply,
    dataclasses.replace: copies.replaced,
}
#: functions of a generator expression that need not make all its items; NotImplemented: they do
_OF_STEPS: dict[Any, Callable[..., Any]] = {
    next: comprehensions.first,
    sum: functools.partial(comprehensions.total, functools.partial(operate, "add")),
    any: functools.partial(comprehensions.holds_for, any),
    all: functools.partial(comprehensions.holds_for, all),
}

CALLERS.append(call)
