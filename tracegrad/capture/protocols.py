"""What Python enters by itself: operators, iteration, attribute access and the making of objects of the user's classes.

Called by operators.py, members.py and calls.py, so that these methods are captured like other functions. Previous:
presence.py; next: natives.py.
Where code runs that is not captured, a traced value answers what it is by its `__class__` (tracer.py).
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from tracegrad.capture import branches
from tracegrad.capture.context import current, user_span
from tracegrad.capture.guards import (
    guard_class_function,
    guard_object,
    guard_property,
    is_user_function,
    new_container,
    open_attribute,
    special_method,
)
from tracegrad.capture.lists import StackedList
from tracegrad.capture.lookups import listed
from tracegrad.capture.presence import require_sure
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sizes import decide
from tracegrad.capture.tables import has_table
from tracegrad.capture.text import keep_given
from tracegrad.capture.tracer import PYTHON_VALUES, Tracer, call_user, check
from tracegrad.capture.trials import walk
from tracegrad.errors import NeedsPythonValue

#: functions of Python -> the special methods that they call
_SPECIAL: dict[Any, tuple[str, ...]] = {
    len: ("__len__",),
    iter: ("__iter__",),
    next: ("__next__",),
    reversed: ("__reversed__",),
    bool: ("__bool__", "__len__"),
    abs: ("__abs__",),
    float: ("__float__",),
    int: ("__int__",),
    complex: ("__complex__",),
    round: ("__round__",),
    math.floor: ("__floor__",),
    math.ceil: ("__ceil__",),
    math.trunc: ("__trunc__",),
    operator.neg: ("__neg__",),
    operator.pos: ("__pos__",),
    operator.invert: ("__invert__",),
    operator.index: ("__index__",),
}
_UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert}
#: comparison -> the one with sides exchanged
_REFLECTED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
#: functions of Python that iterate over their arguments
_ITERATE: frozenset[Any] = frozenset(
    {list, tuple, set, frozenset, dict, sum, min, max, sorted, any, all, zip, enumerate, map, filter, reversed}
    | {functools.reduce, math.prod, math.fsum, collections.deque}
    | {f for f in vars(itertools).values() if callable(f)}
)
_ITERATING_METHODS = frozenset({"extend", "update", "join", "extendleft", "union", "intersection", "difference"})


def find_in_class(cls: type, name: str) -> Any:
    """Return what a class or one of its bases has under a name, as Python looks up special methods; None: nothing."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def _is_plain(value: Any) -> bool:
    return type(value) in PYTHON_VALUES


_BINARY: dict[Any, str] = {divmod: "divmod", pow: "pow"}


def binary_of(f: Any, args: tuple[Any, ...]) -> Any:
    """Return what the user's methods give for divmod and pow of two operands; NotImplemented when there are none."""
    if len(args) != 2 or not isinstance(f, types.BuiltinFunctionType) or f not in _BINARY:
        return NotImplemented
    return by_methods(_BINARY[f], *args)


def special_of(f: Any, obj: Any) -> types.FunctionType | None:
    """Return the user's method that a function of Python calls, such as `__len__` for len."""
    if _is_plain(obj) or not isinstance(f, type | types.BuiltinFunctionType):
        return None
    return next((m for n in _SPECIAL.get(f, ()) if (m := special_method(obj, n)) is not None), None)


# ---- operators


def unary(name: str, x: Any) -> Any:
    """`-x` (name "neg"), `+x` ("pos") and `~x` ("invert")."""
    method = None if _is_plain(x) else special_method(x, f"__{name}__")
    return _UNARY[name](x) if method is None else call_user(method, x)


def by_methods(name: str, x: Any, y: Any) -> Any:
    """Return what the user's methods give for an operator of two operands; NotImplemented when there are none."""
    sides = [(x, y, f"__{name}__"), (y, x, f"__{_REFLECTED.get(name, f'r{name}')}__")]
    if type(y) is not type(x) and issubclass(type(y), type(x)):
        own, inherited = find_in_class(type(y), sides[1][2]), find_in_class(type(x), sides[1][2])
        if name in _REFLECTED or own is not inherited:
            sides.reverse()
    for owner, other, special in sides:
        if _is_plain(owner):
            continue
        inverted = special == "__ne__" and find_in_class(type(owner), special) is object.__ne__
        method = special_method(owner, "__eq__" if inverted else special)
        if method is not None:
            result = call_user(method, owner, other)
            if result is not NotImplemented:
                return branches.not_(result) if inverted else result
    return NotImplemented


def augmented(value: Any, name: str, other: Any, operate: Callable[[str, Any, Any], Any]) -> Any:
    """`value op= other`."""
    if _is_plain(value) and type(value) is not list:
        return branches.augmented(value, name, other) if type(value) is Tracer else operate(name, value, other)
    method = special_method(value, f"__i{name}__")
    if method is not None:
        result = call_user(method, value, other)
        if result is not NotImplemented:
            return result
    elif isinstance(value, list):
        return branches.augmented(value, name, iterable(other))
    elif hasattr(type(value), f"__i{name}__"):
        return branches.augmented(value, name, other)
    return operate(name, value, other)


# ---- iteration


def iterable(value: Any) -> Any:
    """Return what to iterate over instead of a value: the methods of a user's class are captured."""
    if has_table(value):
        return listed(value)
    require_sure(value)
    if _is_plain(value):
        return value
    method = special_method(value, "__iter__")
    made = value if method is None else call_user(method, value)
    if made is not value:
        return iterable(made)
    step = special_method(value, "__next__")
    if step is not None:
        return new_container(_steps(value, step))
    if not hasattr(type(value), "__iter__"):
        method = special_method(value, "__getitem__")
        if method is not None:
            return new_container(_items(value, method))
    guard_object(value)
    return value


def _steps(value: Any, step: types.FunctionType) -> Iterator[Any]:
    while True:
        block = current().builder.block
        before = len(block.operations)
        try:
            item = call_user(step, value)
        except StopIteration:
            return
        if any(operation.attrs.get("error") == "StopIteration" for operation in walk(block.operations[before:])):
            raise NeedsPythonValue(
                "an iterator ends under a traced condition",
                code="TG101",
                span=user_span(),
                found=f"{step.__qualname__} raises StopIteration under a condition on traced values",
                help="write a loop with the condition in place of the iterator: `while k < n: ...`",
            )
        yield item


def _items(value: Any, method: types.FunctionType) -> Iterator[Any]:
    for index in itertools.count():
        try:
            item = call_user(method, value, index)
        except IndexError:
            return
        yield item


def _listed(value: Any) -> Any:
    """Return the items of an object of the user's class with `__len__` and `__getitem__`, for `reversed`."""
    size, method = special_method(value, "__len__"), special_method(value, "__getitem__")
    if size is None or method is None:
        return value
    return new_container([call_user(method, value, i) for i in range(call_user(size, value))])


def iterated(f: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a function of Python that iterates over them."""
    if all(map(_is_plain, args)):
        return args
    if isinstance(f, types.BuiltinMethodType) and f.__name__ in _ITERATING_METHODS:
        own = f.__self__
        return tuple(map(iterable, args)) if isinstance(own, list | set | dict | str | collections.deque) else args
    if not isinstance(f, type | types.BuiltinFunctionType) or f not in _ITERATE:
        return args
    if f is reversed:
        return tuple(map(_listed, args))
    if f is dict and hasattr(type(args[0]), "keys"):
        return args
    return tuple(a if callable(a) and not hasattr(type(a), "__iter__") else iterable(a) for a in args)


def unpack(value: Any, count: int, star: int | None) -> tuple[Any, ...]:
    """The right side of `a, b = value` or `a, *b = value`."""
    if isinstance(value, Tracer) and isinstance(value.shape[0] if value.ndim else 0, int):
        value = [value[i] for i in range(len(value))]
    if (isinstance(value, Ragged) and star is None) or (isinstance(value, StackedList) and value.has_unknown_length):
        return _unpack_checked(value, count, star)
    items = tuple(iterable(value))
    if star is None:
        if len(items) != count:
            few = "not enough" if len(items) < count else "too many"
            raise ValueError(f"{few} values to unpack (expected {count}, got {len(items)})")
        return items
    after = count - 1 - star
    if len(items) < count - 1:
        raise ValueError(f"not enough values to unpack (expected at least {count - 1}, got {len(items)})")
    end = len(items) - after
    return (*items[:star], new_container(list(items[star:end])), *items[end:])


def _unpack_checked(value: StackedList | Ragged, count: int, star: int | None) -> tuple[Any, ...]:
    """Unpack a list or array, of which it is checked when the program runs how many items it has."""
    least = count if star is None else count - 1
    length = value.length if isinstance(value, StackedList) else value.shape[0]
    most = value.capacity if isinstance(value, StackedList) else value.content.type.shape[0]
    few = f"not enough values to unpack (expected {'' if star is None else 'at least '}{least})"
    if decide(most - least, "<"):
        raise ValueError(few)
    check(length >= least, "ValueError", few)
    if star is None:
        check(length <= least, "ValueError", f"too many values to unpack (expected {count})")
        return tuple(value[k] for k in range(count))
    after = count - 1 - star
    rest = value[star : -after if after else None]
    return (*(value[k] for k in range(star)), rest, *(value[k] for k in range(-after, 0)))


# ---- attributes


def read_by_class(obj: Any, name: str) -> Any:
    """Return what the user's class of an object gives for an attribute by code of its own; NotImplemented: nothing."""
    cls = type(obj)
    static = find_in_class(cls, name)
    if isinstance(static, property):
        if static.fget is None:
            return NotImplemented
        guard_property(obj, name)
        return call_user(static.fget, obj)
    if isinstance(static, functools.cached_property):
        if name in vars(obj):
            return NotImplemented
        value = call_user(static.func, obj)
        store(obj, name, value)
        return value
    if static is not None and not _is_plain(static):
        method = special_method(static, "__get__")
        if method is not None:
            own = getattr(obj, "__dict__", {})
            is_data = hasattr(type(static), "__set__") or hasattr(type(static), "__delete__")
            if is_data or name not in own:
                return call_user(method, static, obj, cls)
    method = special_method(obj, "__getattribute__")
    if method is not None:
        return call_user(method, obj, name)
    return NotImplemented


def read_missing(obj: Any, name: str) -> Any:
    """Return what the user's class of an object gives for an attribute that there is not; NotImplemented: nothing."""
    own = find_in_class(type(obj), "__getattr__")
    if own is None or isinstance(obj, type | types.ModuleType):
        return NotImplemented
    try:
        type(obj).__getattribute__(obj, name)  # type: ignore[call-arg]
        return NotImplemented
    except AttributeError:
        pass
    method = special_method(obj, "__getattr__")
    if method is not None:
        return call_user(method, obj, name)
    if own is dict.__getitem__:
        return call_user(operator.getitem, obj, name)
    return NotImplemented


def store(obj: Any, name: str, value: Any) -> None:
    """`obj.name = value`."""
    cls = type(obj)
    custom = find_in_class(cls, "__setattr__")
    if custom is not object.__setattr__ and not isinstance(obj, type | types.ModuleType):
        method = special_method(obj, "__setattr__")
        if method is not None:
            call_user(method, obj, name, value)
            return
        if custom is dict.__setitem__:
            call_user(operator.setitem, obj, name, value)
            return
    store_plainly(obj, name, value)


def store_plainly(obj: Any, name: str, value: Any) -> None:
    """`object.__setattr__(obj, name, value)`."""
    static = find_in_class(type(obj), name)
    if isinstance(static, property):
        if static.fset is None:
            setattr(obj, name, value)  # raises Python's error
        guard_property(obj, name)
        call_user(static.fset, obj, value)
        return
    method = None if static is None or _is_plain(static) else special_method(static, "__set__")
    if method is not None:
        call_user(method, static, obj, value)
        return
    open_attribute(obj, name)
    branches.write_slot(obj, "attr", name, value)


def delete(obj: Any, name: str) -> bool:
    """Do `del obj.name` by code of the user's class; return whether there is some."""
    static = find_in_class(type(obj), name)
    deleter = static.fdel if isinstance(static, property) else None
    if deleter is not None:
        guard_property(obj, name)
        call_user(deleter, obj)
        return True
    method = special_method(obj, "__delattr__")
    if method is not None:
        call_user(method, obj, name)
        return True
    method = None if static is None or _is_plain(static) else special_method(static, "__delete__")
    if method is not None:
        call_user(method, static, obj)
        return True
    if find_in_class(type(obj), "__delattr__") is dict.__delitem__:
        call_user(operator.delitem, obj, name)
        return True
    return False


# ---- making objects


def make_object(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any], fill: Callable[..., None]) -> Any:
    """`cls(*args, **kwargs)` where the user's metaclass, `__new__` or `__init__` are captured; else NotImplemented.

    Args:
        fill: `fill(instance, init, args, kwargs)` calls the user's `__init__`.
    """
    made_by = find_in_class(type(cls), "__call__")
    if is_user_function(made_by):
        special_method(cls, "__call__")
        return call_user(made_by, cls, *args, **kwargs)
    return make_plainly(cls, args, kwargs, fill)


def make_plainly(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any], fill: Callable[..., None]) -> Any:
    """`type.__call__(cls, *args, **kwargs)`, or NotImplemented when no code of the user's makes the object."""
    if cls is contextlib._GeneratorContextManager:
        function, *rest = args
        return cls(functools.partial(call_user, function), *rest, **kwargs)
    new: Any = cls.__new__
    init: Any = cls.__init__  # type: ignore[misc]
    follows_new = is_user_function(new) and not new.__module__.startswith("namedtuple_")
    if not (follows_new or is_user_function(init)):
        return NotImplemented
    for name in ("__new__", "__init__"):
        if is_user_function(getattr(cls, name)):
            guard_class_function(cls, name)
    if follows_new:
        instance = call_user(new, cls, *args, **kwargs)
    else:
        instance = new(cls) if new is object.__new__ else new(cls, *args, **kwargs)
        current().register_created(instance)
        if isinstance(instance, BaseException):
            keep_given(instance, args)
    if isinstance(instance, cls):
        if is_user_function(init):
            fill(instance, init, args, kwargs)
        else:
            init(instance, *args, **kwargs)
    return instance


def makes_plainly(f: Any) -> bool:
    """Return whether a function is `type.__call__`, bound to a class as by `super().__call__`."""
    return isinstance(f, types.MethodWrapperType) and f.__name__ == "__call__" and isinstance(f.__self__, type)
