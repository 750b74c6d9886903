"""What captured code reads from outside: arrays and floats become hidden inputs, everything else is guarded.

Called at each read of a global, a closure variable, an attribute, a default or a method. Previous: loops.py; next:
hooks.py.

A hidden input is a parameter of the function in IR that is read again at every call, so that it is never stale. Ints,
bools, strings, functions, classes and the structure of containers are assumed to stay as they are, and checked at every
call. What runs without being captured (a C function, a generator) may read any part of the objects that it gets: these
are compared by their whole content.
"""

from __future__ import annotations

import array
import collections
import dis
import functools
import inspect
import keyword
import os
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.capture.context import HiddenInput, Place, Signal, Storage, current, first_caught
from tracegrad.capture.convert import is_converted
from tracegrad.capture.deques import DEQUE_METHODS
from tracegrad.capture.heaps import FUNCTIONS as HEAP_FUNCTIONS
from tracegrad.capture.searches import FUNCTIONS as SEARCH_FUNCTIONS
from tracegrad.capture.slots import computed_name, new_list, note_cell, note_slot, read_slot, set_slot
from tracegrad.capture.state import Undefined
from tracegrad.capture.tracer import Tracer, full_name, is_traced, unsupported
from tracegrad.capture.watch import watch
from tracegrad.errors import CaptureError
from tracegrad.ir.core import Value
from tracegrad.ir.types import DTYPES, ArrayType

#: the comparisons that functools.total_ordering makes of one of the user's
_ORDERING = frozenset(f for pairs in functools._convert.values() for _, f in pairs)  # type: ignore[attr-defined]
#: functions of Python and of tracegrad that are captured like the user's
_CAPTURED = _ORDERING | HEAP_FUNCTIONS | SEARCH_FUNCTIONS | DEQUE_METHODS
_NUMERIC = frozenset(DTYPES.values())
#: modules whose functions are not captured, and whose attributes do not change
NATIVE_MODULES = frozenset(sys.stdlib_module_names) - {"__main__"} | {
    "numpy",
    "scipy",
    "tracegrad",
    "optree",
    "ml_dtypes",
}
_BUILTIN_METHODS = (types.BuiltinFunctionType, types.MethodWrapperType)
#: containers that are compared as they are
_COMPARED = (set, frozenset, bytearray, array.array)
#: containers whose parts are lifted one by one, other than those of `is_open_container`
_OPENED = (collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque)


def is_native(module: str | None) -> bool:
    """Return whether a module, given by name, is Python's own or one of the libraries that are not captured."""
    return (module or "").partition(".")[0] in NATIVE_MODULES


def is_user_function(function: Any) -> bool:
    """Return whether a value is a Python function that is captured when it is called."""
    if not isinstance(function, types.FunctionType):
        return False
    return not is_native(function.__module__) or function in _CAPTURED


# ---- values


class Same:
    """An expected value that is compared by identity, whatever it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def lift(value: Any, place: Place, *, covered: bool = False) -> Any:
    """Return what captured code gets for a value read from outside.

    Args:
        covered: the guard of a container around it compares the value already.
    """
    if isinstance(value, Tracer):
        return value
    capture = current()
    if id(value) in capture.created:
        return value
    if isinstance(value, type(os.environ)):
        refuse_environment()
    if isinstance(value, types.ModuleType):
        if not is_native(value.__name__):
            guard(place, Same(value))
        return value
    if is_hidden_input(value):
        return _hidden_input(value, place)
    if place.key in capture.lifted:
        return capture.lifted[place.key]
    if isinstance(value, types.MethodType):
        guard_method(value, place)
        return value
    if isinstance(value, _BUILTIN_METHODS):
        if not covered and _is_stable(value, place):
            guard(place, Same(value))
        return value
    # the structure, and all parts that are no hidden inputs, are compared at every call
    if isinstance(value, np.ndarray) or (isinstance(value, list | dict) and _is_subclass(value)):
        guard_content(place)
        return value
    if type(value) in _OPENED:
        guard_result(functools.partial(_outline, place), ("outline", place.key), place.name)
        return _keep_lifted(value, _lift_opened(value, place), place)
    if not covered:
        guard(place, _snapshot(value))
    if isinstance(value, types.FunctionType):
        guard_code(value)
        return value
    if is_open_container(value):
        return _keep_lifted(value, _lift_container(value, place), place)
    return value


def _is_subclass(value: Any) -> bool:
    return type(value) not in (list, dict) and type(value) not in _OPENED


def _keep_lifted(value: Any, lifted: Any, place: Place) -> Any:
    capture = current()
    capture.lifted[place.key] = lifted
    capture.originals[id(lifted)] = value
    return lifted


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
        name = name if name.isidentifier() and not keyword.iskeyword(name) else ""
        param = Value(ArrayType(array.dtype.newbyteorder("="), array.shape), name)
        weak = isinstance(value, float | complex) and not isinstance(value, np.generic)
        tracer = Tracer(Storage(param.array_type, 0, param), weak=weak, contiguous=array.flags.c_contiguous)
        tracer.zero_dim = isinstance(value, np.ndarray)
        tracer._storage.follows = frozenset((tracer._storage,))
        known = HiddenInput(place, value, param, tracer)
        capture.hidden[place.key] = known
    return known.tracer  # type: ignore[no-any-return]


def _lift_container(value: Any, place: Place) -> Any:
    if isinstance(value, dict):
        return {key: lift(item, place.step("item", key), covered=True) for key, item in value.items()}
    items = [lift(item, place.step("item", index), covered=True) for index, item in enumerate(value)]
    if isinstance(value, list):
        return items
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _lift_opened(value: Any, place: Place) -> Any:
    if isinstance(value, collections.deque):
        items = [lift(item, place.step("item", index)) for index, item in enumerate(value)]
        queue = collections.deque(items, value.maxlen)
        current().queues.append((queue, items))
        return queue
    pairs = {key: lift(item, place.step("item", key)) for key, item in value.items()}
    if isinstance(value, collections.defaultdict):
        return collections.defaultdict(value.default_factory, pairs)
    return type(value)(pairs)


def _outline(place: Place) -> Any:
    """Return what a container holds now, without its values."""
    value = place.read()
    return (type(value), len(value) if isinstance(value, collections.deque) else tuple(value))


def _snapshot(value: Any) -> Any:
    """Return what a container holds now: its owner may change it before the next call."""
    if isinstance(value, _COMPARED) and not isinstance(value, frozenset):
        return Compared(value, value[:] if isinstance(value, bytearray | array.array) else value.copy())
    if not is_open_container(value):
        return value
    if isinstance(value, dict):
        return {key: _snapshot(item) for key, item in value.items()}
    items = [_snapshot(item) for item in value]
    if isinstance(value, list):
        return items
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


class Compared:
    """An expected value without a hash that is compared by type and value; `owner` had this value at capture."""

    __slots__ = ("owner", "value")

    def __init__(self, owner: Any, value: Any) -> None:
        self.owner, self.value = owner, value


# ---- guards


def guard(place: Place, expected: Any) -> None:
    """Check at every call that a place holds what it holds now."""
    current().guards.setdefault(place.key, (place, expected))


def guard_result(test: Callable[[], Any], key: Any, name: str) -> None:
    """Check at every call that `test()` gives what it gives now."""
    guards = current().guards
    if key not in guards:
        guards[key] = (Place(test, (("call", None),), name), test())


def guard_code(function: types.FunctionType) -> None:
    """Check at every call that a function has the code that it has now (reloading a module replaces it)."""
    guard(Place(function, (("attribute", "__code__"),), f"{function.__qualname__}.__code__"), Same(function.__code__))


def guard_method(method: types.MethodType, place: Place, *, own: bool = False) -> None:
    """Check at every call that a place holds a method of the same function, and unless `own` of the same object."""
    guard(place.step("attribute", "__func__"), Same(method.__func__))
    if not own:
        guard(place.step("attribute", "__self__"), Same(method.__self__))
    if isinstance(method.__func__, types.FunctionType):
        guard_code(method.__func__)


def guard_class(obj: Any) -> None:
    """Check at every call that an object has the class that it has now."""
    cls = type(obj)
    if not isinstance(obj, Tracer) and not is_native(cls.__module__) and id(obj) not in current().created:
        name = f"{cls.__name__.lower()}.__class__"
        guard(Place(obj, (("attribute", "__class__"),), name), Same(obj.__class__))


def guard_presence(obj: Any, name: str) -> None:
    """Check at every call that an object has an attribute, or has none, as now."""
    if not isinstance(obj, Tracer) and id(obj) not in current().created:
        label = f"hasattr({type(obj).__name__.lower()}, {name!r})"
        guard_result(functools.partial(hasattr, obj, name), ("hasattr", id(obj), name), label)


def special_method(obj: Any, name: str) -> types.FunctionType | None:
    """Return the user's function for a special method of an object, such as `__len__`, or None; it is guarded."""
    cls = type(obj)
    method = getattr(cls, name, None)
    if not is_user_function(method):
        return None
    guard_class(obj)
    guard_class_function(cls, name)
    return method


def guard_class_function(cls: type, name: str) -> None:
    """Check at every call that a class has the function that it has now."""
    function = getattr(cls, name)
    guard(Place(cls, (("attribute", name),), f"{cls.__name__}.{name}"), Same(function))
    if isinstance(function, types.FunctionType):
        guard_code(function)


def _is_stable(value: Any, place: Place) -> bool:
    """Return whether reading a place again gives the same object."""
    return place.read() is value


# ---- stores


def open_slot(container: Any, kind: str, key: Any, place: Place, *, carried: bool) -> None:
    """Note that captured code stores into a global, a closure variable or an attribute.

    What it gets where it does not store is the value from outside, read again at every call.

    Args:
        carried: whether a loop or branch may get the value from before; one that is open may.
    """
    capture = current()
    slot = (id(container), kind, key)
    if isinstance(container, types.FunctionType) and is_converted(container):
        capture.created.setdefault(id(container), (container, 0))  # made by captured code
    if capture.created_depth(container) < 0 and slot not in capture.frames[0].slots:
        before = read_slot(container, kind, key)
        seen = before
        if not isinstance(before, Undefined) and (carried or capture.depth):
            seen = lift(before, place)
            set_slot(container, kind, key, seen)
        capture.frames[0].slots[slot] = (container, seen, before)
    note_slot(container, kind, key)


def open_variable(name: str, read: types.FunctionType, carried: bool) -> None:
    """Note that a function stores into the global or closure variable that `read` returns."""
    if read.__closure__:
        cell = read.__closure__[0]
        if current().created_depth(cell) >= 0:
            note_cell(cell, name)
            return
        open_slot(cell, "attr", "cell_contents", Place(cell, (("cell", None),), name), carried=carried)
    else:
        space = read.__globals__
        open_slot(space, "item", name, Place(space, (("item", name),), name), carried=carried)


def open_attribute(obj: Any, name: str) -> None:
    """Note that captured code stores into an attribute."""
    label = f"{getattr(obj, '__name__', type(obj).__name__.lower())}.{name}"
    if isinstance(obj, types.ModuleType):
        open_slot(vars(obj), "item", name, Place(vars(obj), (("item", name),), label), carried=False)
    else:
        open_slot(obj, "attr", name, Place(obj, (("attribute", name),), label), carried=False)


def is_stored(place: Place, value: Any) -> bool:
    """Return whether captured code has given a variable the value that it has."""
    kind, key = ("attr", "cell_contents") if place.steps[0][0] == "cell" else place.steps[0]
    noted = current().frames[0].slots.get((id(place.base), kind, key))
    return noted is not None and noted[2] is not value


# ---- attributes and defaults


def read_attribute(obj: Any, name: str, value: Any) -> Any:
    """Return what captured code gets for `obj.name`, which has this value."""
    capture = current()
    cls = type(obj)
    if id(obj) in capture.created:
        return _read_of_class(obj, name, value)
    if any((id(obj), "attr", name) in frame.slots for frame in capture.frames):
        return value  # captured code has stored it
    label = f"{getattr(obj, '__name__', cls.__name__.lower())}.{name}"
    place = Place(obj, (("attribute", name),), label)
    if isinstance(obj, types.ModuleType):
        if is_native(obj.__name__):
            if isinstance(value, type(os.environ)):
                refuse_environment()
            return value
        return lift(value, Place(vars(obj), (("item", name),), label) if name in vars(obj) else place)
    if isinstance(obj, type) and is_native(obj.__module__):
        return value
    if is_native(cls.__module__) and not isinstance(obj, type | super) and not hasattr(obj, "__dict__"):
        return value
    if isinstance(value, types.MethodType):
        guard_method(value, place, own=value.__self__ is obj or isinstance(obj, super) or _is_stable(obj, place))
        return value
    if isinstance(value, _BUILTIN_METHODS) and (value.__self__ is obj or isinstance(obj, super)):
        return value
    if callable(value) and not _is_stable(value, place):  # made anew at each read, as by partialmethod
        guard_class(obj)
        read = functools.partial(inspect.getattr_static, obj, name)
        key = ("static", id(obj), name)
        capture.guards.setdefault(key, (Place(read, (("call", None),), label), Same(read())))
        return value
    return lift(value, place)


def _read_of_class(obj: Any, name: str, value: Any) -> Any:
    """Return `obj.name` of an object that captured code has made: its own attributes are known, its class is not."""
    cls = type(obj)
    if isinstance(obj, types.ModuleType) or is_native(cls.__module__) or name in getattr(obj, "__dict__", {}):
        return value
    place = Place(cls, (("attribute", name),), f"{cls.__name__}.{name}")
    if isinstance(value, types.MethodType):
        if value.__self__ is obj:
            guard_class_function(cls, name)
        else:
            guard_method(value, place, own=True)
        return value
    static = inspect.getattr_static(cls, name, None)
    if name.startswith("__") or hasattr(type(static), "__set__") or static is not getattr(cls, name, None):
        return value  # a slot, a field of a namedtuple, or another descriptor
    return lift(value, place)


def guard_property(obj: Any, name: str) -> None:
    """Check at every call that a property of an object is the one that it is now."""
    guard_class(obj)
    cls = type(obj)
    guard(Place(cls, (("attribute", name),), f"{cls.__name__}.{name}"), Same(getattr(cls, name)))


def with_defaults(
    function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with those defaults filled in that may change later: containers and objects.

    The defaults that are used are guarded.
    """
    code = function.__code__
    given, named = args, dict(kwargs)
    defaults = function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    for position in range(max(len(args), first), code.co_argcount):
        name = code.co_varnames[position]
        if position >= code.co_posonlyargcount and name in kwargs:
            continue
        place = Place(function, (("attribute", "__defaults__"),), f"{function.__qualname__}.__defaults__")
        guard(place, Same(defaults))
        value = _lift_fixed(defaults[position - first], place.step("item", position - first))
        if position == len(given) and position < code.co_posonlyargcount:
            given = (*given, value)
        elif position >= code.co_posonlyargcount and value is not defaults[position - first]:
            named[name] = value
    for name, default in (function.__kwdefaults__ or {}).items():
        if name not in kwargs:
            steps = (("attribute", "__kwdefaults__"), ("item", name))
            place = Place(function, steps, f"{function.__qualname__}.__kwdefaults__[{name!r}]")
            guard(place, Same(default))
            value = _lift_fixed(default, place)
            if value is not default:
                named[name] = value
    return given, named


def _lift_fixed(value: Any, place: Place) -> Any:
    """Lift a value whose place is guarded by identity: only what can change by itself."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic | np.dtype | type):
        return value
    if isinstance(value, types.FunctionType):
        guard_code(value)
        return value
    if isinstance(value, (types.MethodType, types.ModuleType, np.ufunc, *_BUILTIN_METHODS)):
        return value
    inner = Place(place.base, place.steps, place.name)
    capture = current()
    known = capture.guards.pop(inner.key, None)
    lifted = lift(value, inner)
    if known is not None and inner.key not in capture.guards:
        capture.guards[inner.key] = known
    return lifted


def lift_partial(f: functools.partial[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a `functools.partial` holds."""
    base = Place(f, (("attribute", "args"),), "partial.args")
    args = tuple(_lift_fixed(a, base.step("item", i)) for i, a in enumerate(f.args))
    base = Place(f, (("attribute", "keywords"),), "partial.keywords")
    return args, {key: _lift_fixed(value, base.step("item", key)) for key, value in f.keywords.items()}


# ---- what is not followed

#: functions that read nothing of an object but its class and identity
_IDENTITY_ONLY = frozenset({isinstance, issubclass, id, callable, type, print, hasattr, super})
#: functions that do not use the items of a container
_SHALLOW = frozenset({len, iter, next, enumerate, zip, reversed, map, filter, list, tuple})


def guard_native(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check at every call the content of objects from outside that go to a function which is not captured."""
    if isinstance(f, type | types.BuiltinFunctionType) and f in _IDENTITY_ONLY:
        for arg in args[:1]:
            guard_class(arg)
        return
    for arg in (*args, *kwargs.values()):
        guard_object(arg)
        if type(arg) in (list, tuple) and not (isinstance(f, type | types.BuiltinFunctionType) and f in _SHALLOW):
            for part in arg:
                guard_object(part)


def guard_object(obj: Any) -> None:
    """Check at every call the content of an object of the user's."""
    cls = type(obj)
    if isinstance(obj, type | Tracer) or (is_native(cls.__module__) and cls is not types.SimpleNamespace):
        return
    capture = current()
    if id(obj) in capture.created or isinstance(obj, tuple) or id(obj) in capture.originals:
        return
    guard_content(Place(obj, (), cls.__name__.lower()))


def _read_by(function: types.FunctionType) -> set[str]:
    """Return names that hold those of the globals that a function may read."""
    names = _names_of(function.__code__)
    if names & {"globals", "eval", "exec"}:  # may read any global under a computed name
        values = function.__globals__.items()
        names |= {n for n, v in values if not (n.startswith("__") or callable(v) or isinstance(v, types.ModuleType))}
    return names


def guard_unfollowed(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check at every call what a Python function that runs unconverted may read: its globals, cells and arguments."""
    guard_code(function)
    names = _read_by(function)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            for inner in [] if is_native(value.__name__) else sorted(names & vars(value).keys()):
                guard_content(Place(vars(value), (("item", inner),), f"{name}.{inner}"))
        else:
            guard_content(Place(function.__globals__, (("item", name),), name))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        guard_content(Place(cell, (("cell", None),), name))
    guard_native(function, (*args, *(function.__defaults__ or ())), kwargs)
    _refuse_type(function, (args, kwargs))
    _open_stored(function)


def call_unfollowed(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a Python function that runs unconverted.

    Raises:
        CaptureError: it has stored a traced value into a global under a name that is not in its text, or has caught
            what capture has raised in it.
        NeedsPythonValue: it has changed something in a staged region.
    """
    guard_unfollowed(function, args, kwargs)
    space, stored = function.__globals__, _stored_in(function.__code__)
    before = dict(space)
    given = (*args, *kwargs.values(), *(function.__defaults__ or ()))
    watched = watch(function, sorted(_read_by(function)), given)
    mark = len(current().escaped)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        caught = first_caught(mark)
        if caught is not None and not isinstance(error, CaptureError | Signal):
            raise caught from None
        raise
    if (caught := first_caught(mark)) is not None:
        raise caught
    if watched is not None:
        watched.require_unchanged(function.__name__, stored)
    for name in [n for n, value in space.items() if isinstance(value, Tracer) and n not in stored]:
        if before.get(name) is not space[name]:
            set_slot(space, "item", name, before.get(name, Undefined(name)))
            raise computed_name(name)
    return result


def _refuse_type(function: types.FunctionType, arguments: Any) -> None:
    """Raise the error for `type(x)` in a function that runs unconverted: it is not the class that `x` has in NumPy."""
    reads = any(i.opname == "LOAD_GLOBAL" and i.argval == "type" for i in dis.get_instructions(function.__code__))
    if reads and is_traced(arguments) and "type" not in function.__globals__:
        reason, remedy = current().unconverted[function.__code__]
        raise unsupported(f"type() of a traced value in a function that runs as it is ({reason})", remedy)


def _open_stored(function: types.FunctionType) -> None:
    """Note that a function that runs unconverted may store into its globals and cells."""
    space, cells = (
        function.__globals__,
        dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)),
    )
    for name in sorted(_stored_in(function.__code__)):
        if name in cells:
            open_slot(cells[name], "attr", "cell_contents", Place(cells[name], (("cell", None),), name), carried=True)
        else:
            open_slot(space, "item", name, Place(space, (("item", name),), name), carried=True)


def _stored_in(code: types.CodeType) -> set[str]:
    """Return the globals and the variables of functions around that code, or code in it, stores into or deletes."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
        or (instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in code.co_freevars)
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _stored_in(constant) - set(code.co_cellvars)
    return names


def _names_of(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def guard_content(place: Place) -> None:
    """Check at every call that what a place holds has the content that it has now."""
    try:
        value = place.read()
    except (LookupError, ValueError, AttributeError):  # not bound yet
        return
    if isinstance(value, Tracer) or id(value) in current().created:
        return
    guard_value(place, value)


def guard_value(place: Place, value: Any) -> None:
    """Check at every call that what a place holds has the content of a value."""
    test = Place(_Content(place, value), (("call", None),), place.name)
    current().guards.setdefault(("content", place.key), (test, True))


class _Content:
    """A test whether what a place holds has the content that a value had when this was made."""

    __slots__ = ("content", "place")

    def __init__(self, place: Place, value: Any) -> None:
        self.place, self.content = place, content_of(value)

    def __call__(self) -> bool:
        return bool(content_of(self.place.read()) == self.content)


def content_of(value: Any, seen: tuple[int, ...] = ()) -> Any:
    """Return something that is equal for values of equal content; objects are the same and have equal attributes."""
    if value is None or isinstance(value, bool | int | str | bytes):
        return (type(value), value)
    if isinstance(value, float | complex | np.generic):
        return (type(value), np.asarray(value).tobytes())
    if isinstance(value, Tracer | type | types.ModuleType) or id(value) in seen:
        return Same(value)
    seen = (*seen, id(value))
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype.hasobject else value.tobytes()
        return (value.dtype, value.shape, content_of(content, seen))
    if isinstance(value, types.FunctionType):
        return (Same(value), Same(value.__code__), content_of(value.__defaults__, seen))
    if isinstance(value, types.MethodType):
        return (Same(value.__func__), content_of(value.__self__, seen))
    parts: Any = ()
    if isinstance(value, dict):
        parts = tuple((content_of(k, seen), content_of(v, seen)) for k, v in dict.items(value))
    elif isinstance(value, set | frozenset):
        parts = frozenset(value)
    elif isinstance(value, list | tuple | collections.deque | bytearray | array.array):
        parts = tuple(content_of(v, seen) for v in value)
    state = {**_slots_of(value), **getattr(value, "__dict__", {})} if _has_state(value) else {}
    attributes = tuple((name, content_of(v, seen)) for name, v in state.items() if not name.startswith("__tracegrad"))
    if parts != () or isinstance(value, _SIZED):
        return (type(value), parts, attributes)
    return (Same(value), Same(type(value)), attributes)


def _has_state(value: Any) -> bool:
    return type(value) is types.SimpleNamespace or not is_native(type(value).__module__)


_SIZED = (dict, set, frozenset, list, tuple, collections.deque, bytearray, array.array)


def _slots_of(value: Any) -> dict[str, Any]:
    names = [n for cls in type(value).__mro__ for n in _as_names(vars(cls).get("__slots__", ()))]
    return {n: getattr(value, n) for n in names if not n.startswith("__") and hasattr(value, n)}


def _as_names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def require_unchanged() -> None:
    """Check that captured code has not changed sets, queues and bytes from outside: it would happen once, at capture.

    Raises:
        CaptureError: it has.
    """
    capture = current()
    for place, expected in capture.guards.values():
        if isinstance(expected, Compared):
            owner = expected.owner
            if owner != expected.value:
                if isinstance(owner, set):
                    owner.clear()
                    owner.update(expected.value)
                else:
                    owner[:] = expected.value
                raise _changed_outside(place.name, type(owner).__name__)
    for queue, items in capture.queues:
        if len(queue) != len(items) or any(a is not b for a, b in zip(queue, items, strict=True)):
            raise _changed_outside("a deque", "deque")


def _changed_outside(name: str, kind: str) -> CaptureError:
    return CaptureError(
        f"the function changes a {kind} from outside",
        code="TG124",
        span=None,
        found=f"{name}, which the function has not made",
        help=f"make the {kind} in the function and return it",
    )


def refuse_environment() -> None:
    """Raise the error for reading the environment: the value would be frozen in the compiled function."""
    raise unsupported(
        "os.environ: a read of the environment during capture",
        "it would be frozen in the compiled function: read it outside, into a global or an argument",
    )


#: functions whose result changes from call to call, with what to do
_CHANGING: dict[Any, str] = {
    os.getenv: "read the environment outside, into a global or an argument",
    open: "read the file outside and pass its content as an argument",
    input: "read it outside and pass it as an argument",
    **dict.fromkeys((time.time, time.perf_counter, time.monotonic, time.process_time), "measure outside the function"),
    **dict.fromkeys((np.load, np.loadtxt, np.genfromtxt, np.fromfile), "read the file outside and pass the array"),
}


def refuse_changing(f: Any) -> None:
    """Raise the error for a call of what gives another result each time: it would be frozen in the compiled function.

    Raises:
        CaptureError: it is a clock, the environment or a file.
    """
    if isinstance(f, types.FunctionType | types.BuiltinFunctionType) and f in _CHANGING:
        what = "file access" if f is open else "a read of what changes"
        raise unsupported(
            f"{full_name(f)}: {what} during capture", f"it would be frozen in the compiled function: {_CHANGING[f]}"
        )


def new_container(value: Any) -> Any:
    """Register a list or dict display made by captured code."""
    if type(value) is list:
        made = new_list(value)
        current().plain.add(id(made))
        return made
    current().register_created(value)
    return value
