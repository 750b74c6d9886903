"""`x is y`, `x in y` and comparisons of tuples and lists, where traced values take part.

Called by operators.py. Previous: text.py; next: operators.py.

Python answers these with a bool at once; here the answer may be traced. `None`, classes and other objects are compared
natively.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture import branches, sequences
from tracegrad.capture.aliases import ALWAYS, alias_error, any_holds, is_held, ways
from tracegrad.capture.context import current, user_span
from tracegrad.capture.iterators import Ahead, is_iterator
from tracegrad.capture.lengths import unknown_length
from tracegrad.capture.lists import RecordList, StackedList
from tracegrad.capture.ragged import leading
from tracegrad.capture.state import OrNone
from tracegrad.capture.tracer import (
    MaybeNone,
    Tracer,
    asarray,
    call_handler,
    from_value,
    is_traced,
    python_operator,
    stage,
)
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.types import BOOL

Operate = Callable[[str, Any, Any], Any]
_HASHED: tuple[type[Any], ...] = (set, frozenset, dict, type({}.keys()))
_CONTAINERS: tuple[type[Any], ...] = (list, tuple, sequences.Sequence_, type({}.values()), *_HASHED)


def identical(x: Any, y: Any) -> Any:
    """`x is y`: Python has one True and one False, and one object for each small int."""
    if x is y:
        return True
    found = [way.conditions for way in ways(x) if way.other is y]
    if found:
        conditions = [known for known in found if known is not None]
        if len(conditions) < len(found):
            raise alias_error(x, "compared with one that it may be")
        return True if ALWAYS in conditions else from_value(any_holds(conditions), weak=True)
    for a, b in ((x, y), (y, x)):
        if type(a) is type(b) and (is_held(a) or (isinstance(a, tuple) and _is_some_tuple(a))):
            raise alias_error(a, "compared with one that it may be")
        if isinstance(a, MaybeNone | OrNone) and b is None:
            return branches.not_(a.present)
        if isinstance(a, OrNone):
            return branches.and_(a.present, functools.partial(identical, a.value, b))
        if isinstance(a, Tracer) and a.weak and a.dtype.kind in "bi" and _is_like(a, b):
            return python_operator(np.equal, a, b)
    return False


def _is_some_tuple(value: tuple[Any, ...]) -> bool:
    """Return whether a tuple may be one that it is not known to be: a loop has bound its name to others."""
    capture = current()
    found = [value, *(way.other for way in ways(value))]
    return any(capture.created_depth(one) >= 0 and not capture.links.get(id(one)) for one in found)


def _is_like(a: Tracer, b: Any) -> bool:
    if isinstance(b, Tracer):
        return b.weak and b.dtype == a.dtype
    return type(b) is (bool if a.dtype == BOOL else int)


def contains(item: Any, container: Any, operate: Operate) -> Any:
    """`item in container`."""
    if isinstance(container, Tracer):
        if not container.ndim:
            raise TypeError("argument of type 'float' is not iterable")
        return _truth(call_handler(np.any, operate("eq", container, item)))
    if isinstance(container, RecordList):
        return _any_equal(item, list(container), operate)
    if isinstance(container, StackedList):
        same = operate("eq", container.as_array(), item)
        return _truth(call_handler(np.any, same))
    if isinstance(container, sequences.Sequence_) and is_traced(item) and not is_iterator(container):
        if container.item(container.start) is container.start:  # a range
            return _in_range(item, container)
    elif isinstance(container, _HASHED) and not is_traced(item):
        return item in container
    if isinstance(container, _CONTAINERS) or is_iterator(container):
        return _any_equal(item, container, operate)
    return item in container


def _any_equal(item: Any, container: Iterable[Any], operate: Operate) -> Any:
    result: Any = False
    items = Ahead(iter(container))
    for element in items:
        if element is item:
            return True
        same = _truth(operate("eq", element, item))
        if same is True:
            return True
        if same is not False:
            result = same if result is False else python_operator(np.bitwise_or, result, same)
            items.is_sure = False
    return result


def _truth(value: Any) -> Any:
    """Return a bool, or a traced Python bool."""
    value = branches.truth(value)
    return call_handler(bool, value) if isinstance(value, Tracer) else value


def _in_range(item: Any, container: sequences.Sequence_) -> Any:
    start, stop, step = container.start, container.stop, container.step
    first, last = (item >= start, item < stop) if step > 0 else (item <= start, item > stop)
    inside = branches.and_(first, lambda: last)
    if abs(step) == 1 and isinstance(item, Tracer) and item.dtype.kind in "iu":
        return inside
    return branches.and_(inside, lambda: (item - start) % step == 0)


def compare_sequences(name: str, x: Any, y: Any, operate: Operate) -> Any:
    """`x < y` and the like for two tuples or two lists with traced values in them."""
    if name in ("eq", "ne"):
        same: Any = len(x) == len(y)
        if same:
            for a, b in zip(x, y, strict=True):
                same = branches.and_(same, functools.partial(_same, a, b, operate))
        return branches.not_(same) if name == "ne" else same
    # the first place where they differ decides
    shorter = min(len(x), len(y))
    result: Any = {"lt": len(x) < len(y), "le": len(x) <= len(y), "gt": len(x) > len(y), "ge": len(x) >= len(y)}[name]
    strict = {"le": "lt", "ge": "gt"}.get(name, name)
    for a, b in reversed(list(zip(x[:shorter], y[:shorter], strict=True))):
        rest = functools.partial(branches.and_, _same(a, b, operate), functools.partial(_identity, result))
        result = branches.or_(_truth(operate(strict, a, b)), rest)
    return result


def compare_of_unknown_length(name: str, x: Any, y: Any, operate: Operate) -> Any:
    """Compare lists of numbers, of which it is known only at run time how many they are."""
    parts = []
    for values in (x, y):
        if isinstance(values, StackedList) and (isinstance(values, RecordList) or not values.has_order):
            raise unknown_length("a list of other things than numbers that is compared")
        parts.append(leading(values.as_array() if isinstance(values, StackedList) else asarray(values)))
    (a, n), (b, m) = parts
    by_length = operate(name, n, m)
    size = call_handler(min, a.shape[0], b.shape[0])
    if isinstance(size, int) and size == 0:
        return by_length
    a, b = a[:size], b[:size]
    both = call_handler(np.less, call_handler(np.arange, size), call_handler(np.minimum, n, m))
    differ = call_handler(np.logical_and, call_handler(np.not_equal, a, b), both)
    place = call_handler(np.argmax, differ)
    by_item = operate(name, a[place], b[place])
    return _truth(call_handler(np.where, call_handler(np.any, differ), by_item, by_length))


def _same(a: Any, b: Any, operate: Operate) -> Any:
    return True if a is b else _truth(operate("eq", a, b))


def _identity(value: Any) -> Any:
    return value


def search(name: str, values: Sequence[Any], item: Any, operate: Operate) -> Any:
    """`values.index(item)`, `values.count(item)` or `values.remove(item)` of a list or tuple with traced values.

    Raises:
        ValueError: (here or at run time) there is no such item.
    """
    if name == "remove":
        raise NeedsPythonValue(
            "list.remove of a traced value",
            code="TG134",
            span=user_span(),
            found="a list of which it is known only when the compiled function runs which item goes",
            help="keep all items, and choose by np.where",
        )
    same = [_same(value, item, operate) for value in values]
    if name == "count":
        return functools.reduce(functools.partial(operate, "add"), same, 0)
    place: Any = 0
    found: Any = False
    for position in reversed(range(len(same))):
        place = branches.if_exp(
            same[position], functools.partial(_identity, position), functools.partial(_identity, place)
        )
        found = branches.or_(same[position], functools.partial(_identity, found))
    message = f"the value is not in the {type(values).__name__.lower().removeprefix('captured')}"
    if isinstance(found, Tracer):
        stage(ops.check, found.value, error="ValueError", message=message)
    elif not found:
        raise ValueError(message)
    return place


def compare_chain(operate: Operate, first: Any, names: Sequence[str], rest: Sequence[Callable[[], Any]]) -> Any:
    """`a < b < c`, each operand evaluated once."""
    right = rest[0]()
    result = operate(names[0], first, right)
    if len(rest) == 1:
        return result
    after = branches.with_bindings(lambda: compare_chain(operate, right, names[1:], rest[1:]), rest[1:])
    return branches.and_(result, after)
