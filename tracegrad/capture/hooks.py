"""What converted code calls: control flow, calls, stores and loads, each run natively or staged.

convert.py writes the calls; branches.py, loops.py and guards.py do the work. Previous: guards.py; next: entry.py.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import inspect
import operator
import types
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture import branches, comprehensions, copies, lookups, loops, sequences, slots
from tracegrad.capture.aliases import require_single, ways
from tracegrad.capture.attempts import Attempt, context, passing
from tracegrad.capture.choices import do_each, for_each, item_at, merge, store_item, test_each
from tracegrad.capture.comparisons import (
    compare_chain,
    compare_of_unknown_length,
    compare_sequences,
    contains,
    identical,
    search,
)
from tracegrad.capture.context import Call, Place, current, user_span
from tracegrad.capture.convert import convert
from tracegrad.capture.draws import call_random, is_random
from tracegrad.capture.guards import (
    guard_class,
    guard_code,
    guard_native,
    guard_presence,
    guard_unfollowed,
    is_stored,
    is_user_function,
    lift,
    lift_partial,
    new_container,
    open_variable,
    read_attribute,
    refuse_changing,
    special_method,
    with_defaults,
)
from tracegrad.capture.joins import chosen_error, is_stack_overflow
from tracegrad.capture.lists import CapturedList, ListUse, RecordList, StackedList, give_name, use_of_index
from tracegrad.capture.masked import Selection
from tracegrad.capture.natives import call_changing, changes_object, note_augmented, require_own, require_own_iterator
from tracegrad.capture.presence import (
    call_on_dict,
    contains_key,
    find_attribute,
    read_item,
    require_sure,
)
from tracegrad.capture.presence import read_attribute as read_unsure
from tracegrad.capture.protocols import (
    augmented,
    binary_of,
    by_methods,
    delete,
    find_in_class,
    iterable,
    iterated,
    make_object,
    make_plainly,
    makes_plainly,
    read_by_class,
    read_missing,
    special_of,
    store,
    unary,
)
from tracegrad.capture.protocols import (
    unpack as unpack_items,
)
from tracegrad.capture.source import SourceUnavailable
from tracegrad.capture.state import Chosen, Conflict, Options, OrNone, Undefined, Unsure, none_error
from tracegrad.capture.text import call_with_text, join_text, make_error, message_text, percent, piece_of_text
from tracegrad.capture.tracer import (
    ALWAYS,
    CALLERS,
    CALLERS_OF_OTHERS,
    HANDLERS,
    OPERATORS,
    PYTHON_VALUES,
    MaybeNone,
    Tracer,
    asarray,
    call_handler,
    describe,
    from_concrete,
    full_name,
    is_traced,
    python_class,
    refusal,
    resolve_content,
    stage,
)
from tracegrad.errors import CaptureError, NeedsPythonValue, TracedNameError, TracegradError
from tracegrad.ir.types import is_integer
from tracegrad.suggestion import suggest

#: calls of one function nested deeper than this, under a traced condition, never end
RECURSION_LIMIT = 60
#: more calls of one function than this, in one that is captured under a traced condition, are too many
CALLS_LIMIT = 5000
#: the greatest of so many items is found by comparing them one by one
_FEW_ITEMS = 8

#: what stages a call of a function that is running; recursion.py puts its function here
RECURSION: list[Callable[..., tuple[bool, Any]]] = []


def guard(value: Any) -> bool:
    """The condition of a case with a pattern that Python matches, which must be known at capture."""
    return branches.known_truth(
        value,
        "the guard of a `case` with a class, mapping or sequence pattern depends on a traced value",
        "it decides which case applies",
        "match a tuple display (`match (a, b):`) or a number, of which values are compared, or write `if` and `elif`",
    )


def load(value: Any, name: str) -> Any:
    """A read of a local name that may not be bound."""
    if isinstance(value, Undefined):
        error: TracedNameError = value.error()
        raise error
    if type(value) is Conflict:
        raise value.error
    return value.read() if isinstance(value, Unsure) else value


def binding(
    fn: Callable[[], Any], get_state: slots.GetState, set_state: slots.SetState, names: tuple[str, ...]
) -> Callable[[], Any]:
    """A part of an expression that binds names with `:=`."""
    branches.BINDING[fn] = branches.Binding(names, get_state, set_state)
    return fn


def ret(value: Any) -> Any:
    """The value of a return statement."""
    capture = current()
    if len(capture.calls) == 1 and capture.calls[0].function is getattr(capture.function, "__func__", capture.function):
        capture.returned_at = user_span()
    if type(value) is Conflict:
        raise value.error
    return value.read() if isinstance(value, Unsure) else value


def unpack(value: Any, count: int, star: int | None) -> tuple[Any, ...]:
    """The right side of `a, b = value` or `a, *b = value`."""
    if type(value) is OrNone:
        value = value.read("cannot unpack non-iterable NoneType object")
    require_own_iterator(value)
    return unpack_items(merge(value) if type(value) is Chosen else value, count, star)


def decide(test: Any) -> bool:
    """The test of an `if` or `while` around a `yield`, which must be known at capture."""
    return branches.known_truth(
        test,
        "a `yield` stands under a condition that depends on a traced value",
        "it decides what is yielded",
        "yield in any case, and choose the value before (`y = a if x > 0 else b`), or append to a list with a "
        "fixed number of items and return that",
    )


def items(values: Any) -> Any:
    """What a `for` with a `yield` in it runs over, at capture."""
    return _iterable(values)


def mapping(values: Any) -> Any:
    """The dict of `**values` in a display."""
    require_sure(values)
    return values


def for_stmt(values: Any, *parts: Any) -> None:
    """A `for` statement; see loops.for_stmt."""
    if type(values) is Chosen:
        do_each(values, lambda option: loops.for_stmt(_iterable(option), *parts), *parts[1:4])
    else:
        loops.for_stmt(_iterable(values), *parts)


def _iterable(values: Any) -> Any:
    if type(values) is OrNone:
        values = values.read("'NoneType' object is not iterable")
    require_own_iterator(values)
    return iterable(values)


def assert_(test: Any, message: Callable[[], Any]) -> None:
    """`assert test, message`."""
    test = branches.truth(test)
    if isinstance(test, Tracer):
        given = message()
        text = "" if given is None else message_text(given)
        stage(ops.check, test.value, error="AssertionError", message=text)
    elif not test:
        given = message()
        raise make_error(AssertionError, () if given is None else (given,), {})


# ---- loads and stores


def outer(value: Any, name: str, read: types.FunctionType) -> Any:
    """A read of a global or a closure variable."""
    if isinstance(value, types.ModuleType | Tracer):
        return value
    if type(value) is Unsure:
        return value.read("NameError", f"name {name!r} is not defined")
    if read.__closure__:
        place = Place(read.__closure__[0], (("cell", None),), name)
    elif name in read.__globals__:
        place = Place(read.__globals__, (("item", name),), name)
    else:
        return value  # a builtin
    return value if is_stored(place, value) else lift(value, place)


def rebinds(name: str, read: types.FunctionType, carried: bool) -> None:
    """The start of a function that stores into a global or closure variable, `carried` by one of its statements."""
    open_variable(name, read, carried)


#: what to write for `x.at[0].set(1.0)` of other libraries
_AT = "arrays can be written: x[0] = 1.0, x[0] += 1.0; where x must stay as it is, into a copy: x = x.copy()"


def cells(read: types.FunctionType) -> None:
    """The start of a function of which functions inside rebind variables."""
    for cell in read.__closure__ or ():
        current().register_created(cell)


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
    if type(obj) is OrNone:
        obj = _with_attribute(obj, name)
    if type(obj) is Chosen:
        return for_each(obj, lambda option: getattr_(option, name, *default))
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
        return x[key]
    if isinstance(x, np.ndarray):
        return call_handler(operator.getitem, from_concrete(x), key) if is_traced(key) else x[key]
    if type(x) is Chosen:
        return for_each(x, lambda option: getitem(option, key))
    if type(key) is Chosen:
        return for_each(key, lambda option: getitem(x, option))
    method = special_method(x, "__getitem__")
    if method is not None:
        return call(method, x, key)
    if isinstance(x, list | tuple | collections.deque) and _is_unknown_index(x, key) and not _stacks(x):
        return item_at(x, key)
    if lookups.is_lookup(x, key):
        return lookups.read_item(x, key)
    found = dict.get(x, key) if isinstance(x, dict) else None
    if type(found) is Unsure:
        return read_item(x, key, found)
    if (x is np.r_ or x is np.c_) and is_traced(key):
        return call_handler(x, key)
    if isinstance(x, collections.defaultdict) and x.default_factory is not None and key not in x:
        made = call(x.default_factory)
        branches.write_slot(x, "item", key, made)
        return made
    if isinstance(x, dict) and type(x) is not dict and key not in x:
        method = special_method(x, "__missing__")
        if method is not None:
            return call(method, x, key)
    try:
        found = x[key]
    except LookupError as error:
        if isinstance(x, dict | list | tuple):
            _note_contents(error, x)
        raise
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
    if type(x) is OrNone:
        x = x.read("'NoneType' object does not support item assignment")
    if isinstance(x, StackedList):
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
        call(method, x, key, value)
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
        call(method, x, key)
    else:
        call(operator.delitem, x, key)


def delattr_(obj: Any, name: str) -> None:
    """`del obj.name`."""
    if type(obj) is OrNone:
        obj = _with_attribute(obj, name)
    if not delete(obj, name):
        call(delattr, obj, name)


def aug_name(value: Any, op: str, other: Any) -> Any:
    """`name op= other`: returns what the name is bound to afterwards."""
    if type(value) is OrNone:
        value = _operand(op, value)
    if isinstance(value, list) and special_method(value, f"__i{op}__") is None:
        if _is_of_numpy(other):
            if op == "mul" and _repeats(other):
                raise NeedsPythonValue(
                    "a list is repeated in place by a number that is known only when the compiled function runs",
                    code="TG101",
                    span=user_span(),
                    found=f"values *= {describe(other)}",
                    help="make a new list: `values = values * n`",
                )
            return operate(op, value, other)  # Python asks NumPy first, which makes an array
        if op == "add":
            call(value.extend, other)
            return value
    if not isinstance(value, Tracer):
        note_augmented(value, op)
        if type(value) is dict and op == "or":
            call(value.update, other)
            return value
    return augmented(value, op, other, operate)


def text(*parts: Any) -> Any:
    """An f-string: one of several texts, where a piece is one of several."""
    place = next((number for number, part in enumerate(parts) if type(part) is Chosen), None)
    if place is None:
        return join_text(*parts)
    before, chosen, after = parts[:place], parts[place], parts[place + 1 :]
    return _texts_of(chosen, lambda option: text(*before, option, *after))


def _texts_of(chosen: Chosen, make: Callable[[Any], Any]) -> Any:
    texts = [make(option) for option in chosen.options]
    if not all(isinstance(made, str) for made in texts):
        raise chosen.error
    return Chosen(Options(texts, chosen.error), chosen.index)


def format_(value: Any, conversion: str, spec: Any) -> Any:
    """`{value!conversion:spec}` in an f-string."""
    if type(value) is Chosen:
        return _texts_of(value, lambda option: format_(option, conversion, spec))
    return piece_of_text(value, conversion, spec, call)


# ---- operators


def operate(name: str, x: Any, y: Any) -> Any:
    """`x + y` (name "add"), `x < y` ("lt") and so on; methods of the user's classes are captured too."""
    if type(x) is Conflict or type(y) is Conflict:
        raise (x if type(x) is Conflict else y).error
    choose = test_each if name in _TESTS else for_each
    if type(x) is Chosen:
        return choose(x, lambda option: operate(name, option, y))
    if type(y) is Chosen:
        return choose(y, lambda option: operate(name, x, option))
    if name == "mod" and type(x) is str:
        return percent(x, y)
    if name in ("is", "is_not"):
        return identical(x, y) if name == "is" else branches.not_(identical(x, y))
    may_be_none = isinstance(x, MaybeNone | OrNone) or isinstance(y, MaybeNone | OrNone)
    if name in ("eq", "ne") and may_be_none and (x is None or y is None):
        return operate("is" if name == "eq" else "is_not", x, y)
    has_axes = any(isinstance(z, Tracer | np.ndarray) and z.ndim for z in (x, y))
    if name in ("eq", "ne") and not has_axes and (_is_number_or_none(x) or _is_number_or_none(y)):
        same = _equal_or_none(x, y)
        return same if name == "eq" else branches.not_(same)
    x, y = _operand(name, x), _operand(name, y)
    if name in ("in", "not_in"):
        found = _contains(x, y)
        return found if name == "in" else branches.not_(found)
    if name == "mul" and (repeated := _repeated(x, y)) is not NotImplemented:
        return repeated
    if isinstance(x, StackedList) or isinstance(y, StackedList):
        if isinstance(x, list) and isinstance(y, list) and _has_unknown_length((x, y)):
            if name in _COMPARISONS:
                return compare_of_unknown_length(name, x, y, operate)
            if name == "add":
                result = x.copy() if isinstance(x, StackedList) else new_container([*x])
                call(result.extend, y)
                return result
        x, y = _plain_list(x), _plain_list(y)
    if name in _COMPARISONS and isinstance(x, list | tuple) and isinstance(y, type(x)) and is_traced((x, y)):
        return compare_sequences(name, x, y, operate)
    if isinstance(x, dict) or isinstance(y, dict):
        require_sure(x, y)
    if isinstance(x, list) or isinstance(y, list):
        return new_container(_OPERATORS[name](x, y))
    if type(x) in PYTHON_VALUES and type(y) in PYTHON_VALUES:
        return _OPERATORS[name](x, y)
    result = by_methods(name, x, y)
    if result is NotImplemented and name in ("eq", "ne") and getattr(type(x), "__eq__", None) is object.__eq__:
        return operate("is" if name == "eq" else "is_not", x, y)
    return _OPERATORS[name](x, y) if result is NotImplemented else result


def _is_of_numpy(value: Any) -> bool:
    """Return whether a value is an array or a number of NumPy's, or a traced int or bool of Python's."""
    return isinstance(value, Tracer | Selection | np.ndarray | np.generic)


def _repeats(count: Any) -> bool:
    """Return whether a traced value is a number that says how often a sequence is repeated.

    Raises:
        TypeError: it is another number.
    """
    if not isinstance(count, Tracer) or count.ndim or count.zero_dim:
        return False
    if not is_integer(count.dtype) and not (count.weak and count.dtype.kind == "b"):
        raise TypeError(f"can't multiply sequence by non-int of type '{python_class(count).__name__}'")
    return resolve_content(count) is None


def _repeated(x: Any, y: Any) -> Any:
    """`values * count` of a list and a traced number of times; NotImplemented for all else."""
    values, count = (x, y) if isinstance(x, list | tuple | str) else (y, x)
    if not isinstance(values, list | tuple | str):
        return NotImplemented
    if not _repeats(count):
        if isinstance(count, Tracer) and not count.ndim and not count.zero_dim:
            return operate("mul", values, int(resolve_content(count)))  # type: ignore[arg-type]
        if not (isinstance(values, StackedList) and values.has_unknown_length and isinstance(count, int)):
            return NotImplemented
    elif not isinstance(values, list):
        raise NeedsPythonValue(
            f"a {type(values).__name__} is repeated by a number that is known only when the compiled function runs",
            code="TG101",
            span=user_span(),
            found=f"{describe(values)} * {describe(count)}",
            help="repeat a list of numbers, `[v] * n`, or use np.full",
        )
    times = sequences.make_range(count)
    return comprehensions.collect(
        comprehensions.Each(times, "", lambda _: comprehensions.Each(values, "", comprehensions.Item))
    )


def _is_number_or_none(value: Any) -> bool:
    """Return whether a value is a number that may be None, and no open branch says that it is not."""
    return isinstance(value, MaybeNone) and value.present.value not in current().holding


def _equal_or_none(x: Any, y: Any) -> Any:
    """`x == y` of numbers of which one at least may be None."""
    (x_there, x), (y_there, y) = ((z.present, z.some) if _is_number_or_none(z) else (True, z) for z in (x, y))
    same = branches.and_(x_there, lambda: branches.and_(y_there, lambda: operate("eq", x, y)))
    neither = branches.not_(branches.or_(x_there, lambda: y_there))
    return branches.or_(same, lambda: neither)


def _operand(name: str, value: Any) -> Any:
    """Return an operand, which must not be None."""
    if type(value) is not OrNone:
        return value
    if name in ("eq", "ne"):
        raise none_error("is compared")
    return value.read(f"unsupported operand type(s) for {name}: 'NoneType'")


def _contains(item: Any, container: Any) -> Any:
    require_own_iterator(container)
    method = special_method(container, "__contains__")
    if method is not None:
        return branches.truth(call(method, container, item))
    mapping_ = container.mapping if isinstance(container, type({}.keys())) else container
    if lookups.is_lookup(mapping_, item):
        return lookups.has_key(mapping_, item)
    found = NotImplemented if is_traced(item) else contains_key(container, item)
    if found is not NotImplemented:
        return found
    if not hasattr(type(container), "__contains__"):
        container = list(iterable(container))
    return contains(item, container, operate)


def _plain_list(value: Any) -> Any:
    return new_container(list(value)) if isinstance(value, StackedList) else value


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "or": operator.or_,
    "and": operator.and_,
    **{name: getattr(operator, name) for name in OPERATORS if name not in ("or", "and")},
    "matmul": operator.matmul,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
}
_OPERATOR_NAMES: dict[Any, str] = {function: name for name, function in _OPERATORS.items()}
_TESTS = frozenset({"is", "is_not", "in", "not_in", "eq", "ne"})
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


# ---- calls


def _is_of_arrays(f: Any) -> bool:
    return isinstance(f, np.ufunc) or full_name(f).startswith("numpy.")


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


def _place_of_choice(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | str | None:
    """Return the position or keyword of the first argument that a traced number chooses."""
    places: list[int | str] = [*range(len(args)), *kwargs]
    values = (*args, *kwargs.values())
    return next((place for place, value in zip(places, values, strict=True) if type(value) is Chosen), None)


def call(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`f(*args, **kwargs)`."""
    if any(type(argument) is comprehensions.Generated for argument in args):
        of_steps = _OF_STEPS.get(f) if isinstance(f, types.BuiltinFunctionType) else None
        if of_steps is not None and type(args[0]) is comprehensions.Generated and not kwargs:
            result = of_steps(args[0].step, *args[1:])
            if result is not NotImplemented:
                return result
        args = tuple(a.given_to(f) if type(a) is comprehensions.Generated else a for a in args)
    if isinstance(f, type) and issubclass(f, BaseException) and (args and type(args[0]) is Chosen):
        chosen = args[0]
        if chosen.index.root._storage.depth == current().depth and current().frame.kind == "branch":
            raise chosen.error
        return chosen_error(f, chosen, [call(f, option, *args[1:], **kwargs) for option in chosen.options])
    spread = next((a for a in args if type(a) is comprehensions.Spread), None)
    if spread is not None:
        return spread.given_to(f if len(args) == 1 and set(kwargs) <= {"strict"} else None)
    result = call_with_text(f, args, kwargs, call, HANDLERS[print])
    if result is not NotImplemented:
        return result
    if not callable(f):
        return f(*args, **kwargs)  # raises Python's error
    if type(f) is OrNone:
        return call(f.read("'NoneType' object is not callable"), *args, **kwargs)
    if any(type(argument) is OrNone for argument in (*args, *kwargs.values())) and not _keeps_arguments(f):
        args, kwargs = _present(f, args), dict(zip(kwargs, _present(f, kwargs.values()), strict=True))
    if type(f) is Chosen:
        return for_each(f, lambda option: call(option, *args, **kwargs))
    if isinstance(f, types.BuiltinMethodType) and isinstance(f.__self__, StackedList):
        f = getattr(f.__self__, f.__name__)  # read before the list became one whose items are rows
    place = _place_of_choice(args, kwargs)
    if place is not None and isinstance(f, Hashable) and f in _SEQUENCES:
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
    if f is len and isinstance(args[0], StackedList):
        args[0].note_range()
        return args[0].length
    if f is list and args and isinstance(args[0], StackedList):
        return args[0].copy()
    if f is list and args and isinstance(args[0], sequences.Sequence_) and args[0].length is None:
        return comprehensions.collect(comprehensions.Each(args[0], "", comprehensions.Item))
    if f is getattr:
        return getattr_(*args)
    if isinstance(f, types.FunctionType) and f in _COPIES:
        return _COPIES[f](getattr_, *args, **kwargs)
    if f is vars and args:
        return getattr_(args[0], "__dict__")
    if isinstance(f, types.BuiltinFunctionType) and f in _ITEMS:
        return _ITEMS[f](*args)
    if f is hasattr:
        guard_presence(*args)
        unsure = find_attribute(*args)
        if unsure is not None:
            return unsure.condition
    elif f in (isinstance, type):
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
            result = comprehensions.ordered(args[0], _key_of(kwargs), reverse=bool(kwargs.get("reverse", False)))
            if result is not NotImplemented:
                return result
        if isinstance(args[0], sequences.Sequence_) and args[0].static_length is None and kwargs.keys() == {"key"}:
            if f is max or f is min:
                return comprehensions.greatest(args[0], _key_of(kwargs), least=f is min)
    if is_random(f):
        return _known(f, call_random(f, args, kwargs))
    refuse_changing(f)
    for argument in args:
        if type(argument) is not Tracer and isinstance(argument, Iterator) and not _leaves_iterators(f):
            require_own_iterator(argument)
    if isinstance(f, types.BuiltinFunctionType) and f in _OPERATOR_NAMES and len(args) == 2:
        return operate(_OPERATOR_NAMES[f], *args)
    if isinstance(f, types.BuiltinMethodType) and f.__name__ in _SEARCHES and len(args) == 1:
        own = f.__self__
        if isinstance(own, list | tuple) and (is_traced(own) or is_traced(args) or any(map(ways, args))):
            return search(f.__name__, own, args[0], operate)
    if getattr(f, "__name__", "") == "extend" and isinstance(own := getattr(f, "__self__", None), CapturedList):
        sequence = sequences.as_sequence(args[0])
        if sequence is not None and sequence.length is None:
            return comprehensions.extend(own, sequence)
    if getattr(f, "__name__", "") == "sort" and isinstance(own := getattr(f, "__self__", None), StackedList):
        if own.has_unknown_length:
            return comprehensions.sort(own, _key_of(kwargs), reverse=kwargs.get("reverse", False))
    if changes_object(f, args):
        return _known(f, call_changing(f, args, kwargs))
    try:
        handler = HANDLERS.get(f)
    except TypeError:
        handler = None
    if handler is not None:
        if _is_of_arrays(f):
            args = tuple(list(a) if isinstance(a, collections.deque) else a for a in args)
        if any(isinstance(a, StackedList) for a in args) and (
            f in _ROWS
            or _is_of_arrays(f)
            or (_has_unknown_length(args) and f not in _SEQUENCES)
            or (f in (max, min) and not kwargs and _is_long(args))
        ):
            return _call_on_stacked(f, args, kwargs)
        if f in ALWAYS or is_traced(args) or is_traced(kwargs):
            result = call_handler(f, *args, **kwargs)
            if isinstance(result, Iterator) and not isinstance(result, Tracer):  # a zip of Python values
                for arg in args:
                    require_own_iterator(arg)
                current().register_created(result)
            return result
        guard_native(f, args, kwargs)
        return _known(f, f(*args, **kwargs))
    if isinstance(f, Hashable) and f in CALLERS_OF_OTHERS and (is_traced(args) or is_traced(kwargs)):
        return CALLERS_OF_OTHERS[f](f, args, kwargs)
    if isinstance(f, types.FunctionType):
        result = _call_function(f, args, kwargs)
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
        return _instantiate(f, args, kwargs)
    if isinstance(f, types.BuiltinMethodType) and f.__name__ == "__new__":
        return new_container(f(*args, **kwargs))
    if makes_plainly(f):
        return _made(f.__self__, make_plainly(f.__self__, args, kwargs, _fill), args, kwargs)
    if isinstance(f, functools._lru_cache_wrapper):
        return _call_cached(f, args, kwargs)
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
            special_method(f, "__call__")
            return _call_function(method, (f, *args), kwargs)
        guard_native(f, args, kwargs)
    return _known(f, f(*args, **kwargs))


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


def _call_cached(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with `functools.cache`: once for Python arguments, as long as what it gave can be seen."""
    if is_traced((args, kwargs)):
        return call(f.__wrapped__, *args, **kwargs)
    capture = current()
    key = (f, args, tuple(kwargs.items()))
    found = capture.cached.get(key)
    if found is None or not capture.is_open(found[0]):
        found = capture.cached[key] = (capture.frame.block, call(f.__wrapped__, *args, **kwargs))
    return found[1]


def _call_special(method: types.FunctionType, args: tuple[Any, ...]) -> Any:
    if method.__name__ != "__next__" or len(args) == 1:
        return call(method, *args)
    try:
        return call(method, args[0])
    except StopIteration:
        return args[1]


#: functions that take no items of an iterator
_LOOKS = frozenset(
    {iter, next, isinstance, callable, id, hash, print, repr, str, bool, hasattr, getattr, setattr, type}
)
#: methods of lists and tuples that compare their items
_SEARCHES = frozenset({"index", "count", "remove"})
#: functions that join a list of arrays: what they make of arrays stacked along axis 0
_ROWS: dict[Any, Callable[[Tracer], Any]] = {
    np.stack: lambda rows: rows.copy(),
    np.vstack: lambda rows: (
        rows.copy() if rows.ndim == 2 else rows.reshape(-1, *rows.shape[2:]) if rows.ndim > 2 else rows[:, None]
    ),
    np.concatenate: lambda rows: rows.reshape(-1, *rows.shape[2:]),
    sum: lambda rows: call_handler(np.sum, rows, axis=0),
}


def _has_unknown_length(args: tuple[Any, ...]) -> bool:
    return any(isinstance(a, StackedList) and a.has_unknown_length for a in args)


def _is_long(args: tuple[Any, ...]) -> bool:
    """Return whether a list of numbers that a staged loop has filled is too long to compare them one by one."""
    values = args[0]
    return len(args) == 1 and not values.kind.is_mutable and values.there is None and not _has_few(values.length)


def _has_few(length: Any) -> bool:
    return isinstance(length, int) and length <= _FEW_ITEMS


def _call_on_stacked(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a NumPy function with lists that a staged loop has filled: on the array of their items."""
    if not _is_of_arrays(f) and any(isinstance(a, RecordList) and not a.has_unknown_length for a in args):
        args = tuple(list(a) if isinstance(a, RecordList) else a for a in args)
        return call_handler(f, *args, **kwargs)
    if f in _ROWS and len(args) == 1 and not kwargs:
        return _ROWS[f](args[0].as_array())
    if f in (max, min) and "default" in kwargs and len(args) == 1:
        rest = {name: value for name, value in kwargs.items() if name != "default"}
        return branches.if_exp(args[0], lambda: _call_on_stacked(f, args, rest), lambda: kwargs["default"])
    if f in (max, min) and len(args) == 1 and _takes_by_key(args[0], kwargs):
        return comprehensions.greatest(args[0], _key_of(kwargs), least=f is min)
    if f is sorted and args[0].has_unknown_length:
        result = args[0].copy()
        comprehensions.sort(result, _key_of(kwargs), reverse=kwargs.get("reverse", False))
        return result
    if f in (np.stack, np.vstack, np.hstack, np.concatenate, np.column_stack, np.dstack, sum):
        return call_handler(f, *(list(a) if isinstance(a, StackedList) else a for a in args), **kwargs)
    return call_handler(f, *(a.as_array() if isinstance(a, StackedList) else a for a in args), **kwargs)


def _takes_by_key(values: StackedList, kwargs: dict[str, Any]) -> bool:
    """Return whether the extreme of a list of unknown length is looked for by keys, or by parts of the items."""
    return values.has_unknown_length and (kwargs.get("key") is not None or isinstance(values, RecordList))


def _key_of(kwargs: dict[str, Any]) -> Callable[[Any], Any] | None:
    key = kwargs.get("key")
    return None if key is None else functools.partial(call, key)


def _known(f: Any, result: Any) -> Any:
    """Wrap the fresh array that a native NumPy call returned, so that writes into it are seen."""
    if isinstance(result, StackedList):
        return result
    if isinstance(result, np.ndarray) and result.dtype.kind in "biufc":
        return asarray(result)
    if isinstance(result, tuple | list) and any(isinstance(r, np.ndarray) for r in result):
        if hasattr(result, "_fields"):
            return type(result)(*(_known(f, r) for r in result))
        return type(result)(_known(f, r) for r in result)
    if isinstance(result, list | dict | Iterator):
        return new_container(result)
    return result


def _as_own(values: Any) -> Any:
    """Register the lists of `tolist`, inner ones too."""
    return new_container([_as_own(v) for v in values]) if isinstance(values, list) else values


def _run_native(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function or class that is not captured; one of SciPy's that meets traced values is not supported."""
    try:
        return f(*args, **kwargs)
    except NeedsPythonValue:
        if not full_name(f).startswith("scipy."):
            raise
    return call_handler(f, *args, **kwargs)  # says so


def _call_function(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not is_user_function(function):
        if is_traced((args, kwargs)) and (function.__module__ or "").startswith(("numpy", "scipy")):
            return call_handler(function, *args, **kwargs)
        guard_native(function, args, kwargs)
        return _known(function, _run_native(function, args, kwargs))
    capture = current()
    converted = _converted(function)
    if converted is None:
        guard_unfollowed(function, args, kwargs)
        return function(*args, **kwargs)
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
            if any(frame.kind != "function" for frame in capture.frames):
                raise _endless_recursion(function, RECURSION_LIMIT if level > RECURSION_LIMIT else None)
        return converted(*args, **kwargs)
    except RecursionError as error:
        if level == 1 or not is_stack_overflow(error):
            raise
        raise _endless_recursion(function, level) from None
    finally:
        capture.active[code] -= 1
        capture.calls.pop()


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


def _instantiate(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _made(cls, make_object(cls, args, kwargs, _fill), args, kwargs)


def _made(cls: type, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if instance is not NotImplemented:
        return instance
    result = _run_native(cls, args, kwargs)
    if cls not in (int, float, str, bool, complex, tuple, frozenset, type, slice) and not isinstance(
        result, np.ndarray
    ):
        return new_container(result)
    return _known(cls, result)


def _fill(instance: Any, init: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if _is_generated(init) and _stores_plainly(type(instance)):
        _fill_dataclass(instance, init, args, kwargs)
    else:
        call(init, instance, *args, **kwargs)


def _is_generated(init: types.FunctionType) -> bool:
    """Return whether `dataclass` has made this function."""
    return init.__code__.co_qualname.startswith("__create_fn__.")


def _stores_plainly(cls: Any) -> bool:
    return cls.__dataclass_params__.frozen or cls.__setattr__ is object.__setattr__


def _fill_dataclass(instance: Any, init: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Do what the `__init__` that `dataclass` has made does, so that factories and `__post_init__` are captured."""
    try:
        given = inspect.signature(init).bind(instance, *args, **kwargs).arguments
    except TypeError:
        init(instance, *args, **kwargs)  # raises Python's error
        raise
    passed_on = []
    for field in instance.__dataclass_fields__.values():
        if field._field_type is dataclasses._FIELD_CLASSVAR:  # type: ignore[attr-defined]
            continue
        if field.init and field.name in given:
            value = given[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            value = call(field.default_factory)
        elif field.init:
            value = field.default
        else:
            continue
        if field._field_type is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            passed_on.append(value)
        else:
            object.__setattr__(instance, field.name, value)
    if hasattr(instance, "__post_init__"):
        call(instance.__post_init__, *passed_on)


def _map(function: Any, *iterables: Any) -> list[Any]:
    together = len(iterables) > 1
    return comprehensions.collect(
        comprehensions.Each(
            sequences.make_zip(*iterables) if together else iterables[0],
            "",
            lambda item: comprehensions.Item(call(function, *item) if together else call(function, item)),
        )
    )


def _filter(function: Any, iterable: Any) -> Any:
    def step(item: Any) -> comprehensions.Step:
        return comprehensions.When(
            item if function is None else call(function, item), lambda: comprehensions.Item(item)
        )

    items = comprehensions.collect(comprehensions.Each(iterable, "", step))
    return items if isinstance(items, StackedList) else iter(items)


_ITEMS: dict[Any, Callable[..., Any]] = {operator.getitem: getitem, operator.setitem: setitem}

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
#: functions of iterables that give their items, or something of each
_SEQUENCES: dict[Any, Callable[..., Any]] = {
    range: sequences.make_range,
    zip: sequences.make_zip,
    enumerate: sequences.make_enumerate,
    reversed: sequences.make_reversed,
    map: _map,
    filter: _filter,
}
HANDLERS.update(_SEQUENCES)
ALWAYS.update(_SEQUENCES)

CALLERS.append(call)

#: the namespace that converted code knows as `tg__`
HOOKS = types.SimpleNamespace(
    if_stmt=branches.if_stmt,
    while_stmt=loops.while_stmt,
    for_stmt=for_stmt,
    if_exp=branches.if_exp,
    and_=branches.and_,
    or_=branches.or_,
    not_=branches.not_,
    holds=branches.truth,
    compare_chain=functools.partial(compare_chain, operate),
    guard=guard,
    undefined=Undefined,
    load=load,
    name=give_name,
    binding=binding,
    ret=ret,
    unpack=unpack,
    iter=comprehensions.iterate,
    spread=comprehensions.spread,
    test=comprehensions.test,
    each=comprehensions.Each,
    when=comprehensions.When,
    item=comprehensions.Item,
    collect_items=lambda step: comprehensions.collect_items(step, setitem),
    collect=comprehensions.collect,
    generated=comprehensions.Generated,
    assert_=assert_,
    display=new_container,
    outer=outer,
    rebinds=rebinds,
    cells=cells,
    getattr=getattr_,
    getitem=getitem,
    setitem=setitem,
    aug_setitem=aug_setitem,
    exchange=exchange,
    setattr=setattr_,
    aug_setattr=aug_setattr,
    delitem=delitem,
    delattr=delattr_,
    aug_name=aug_name,
    call=call,
    operate=operate,
    unary=unary,
    decide=decide,
    items=items,
    mapping=mapping,
    attempt=Attempt,
    passing=passing,
    context=context,
    text=text,
    format=format_,
)
