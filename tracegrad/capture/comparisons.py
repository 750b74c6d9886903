"""`x is y`, `x in y` and comparisons of tuples and lists, where traced values take part.

Called by operators.py. Previous: text.py; next: operators.py.

Python answers these with a bool at once; here the answer may be traced. `None`, classes and other objects are compared
natively.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture import branches, searches, sequences
from tracegrad.capture.aliases import ALWAYS, UNDECIDED, alias_error, any_holds, is_held, ways
from tracegrad.capture.chosen import Chosen
from tracegrad.capture.context import current
from tracegrad.capture.guards import is_user_function
from tracegrad.capture.iterators import Ahead, is_iterator
from tracegrad.capture.lengths import unknown_length
from tracegrad.capture.lists import RecordList, StackedList
from tracegrad.capture.ragged import leading
from tracegrad.capture.state import OrNone
from tracegrad.capture.tracer import (
    PYTHON_VALUES,
    MaybeNone,
    Tracer,
    asarray,
    call_handler,
    call_user,
    from_value,
    is_traced,
    python_operator,
    stage,
)
from tracegrad.ir.types import BOOL

#: methods that compare two objects
_METHODS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
Operate = Callable[[str, Any, Any], Any]
_HASHED: tuple[type[Any], ...] = (set, frozenset, dict, type({}.keys()))
_VIEWS: tuple[type[Any], ...] = (type({}.values()), type({}.items()))
_CONTAINERS: tuple[type[Any], ...] = (list, tuple, collections.deque, sequences.Sequence_, *_VIEWS, *_HASHED)
#: containers that Python compares part by part
_COMPARED: tuple[type[Any], ...] = (list, tuple, dict)


def identical(x: Any, y: Any) -> Any:
    """`x is y`: Python has one True and one False, and one object for each small int."""
    if x is y:
        return True
    found = [way.conditions for way in ways(x) if way.other is y]
    if found:
        conditions = [known for known in found if known is not None and not known >= UNDECIDED]
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
    if isinstance(container, RecordList) and container.has_unknown_length:
        return _truth(call_user(searches.contains, container, item))
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


def is_captured(value: Any) -> bool:
    """Return whether the comparison of a value with another one may be staged, or is code of the user's."""
    if isinstance(value, StackedList):
        return True
    if isinstance(value, list | tuple | collections.deque):
        return any(map(is_captured, value))
    if isinstance(value, dict):
        return any(map(is_captured, value.values()))
    if type(value) in PYTHON_VALUES:
        return is_traced(value)
    return isinstance(value, Chosen | OrNone) or is_traced(value) or is_compared_by_user(value)


def is_compared_by_user(value: Any) -> bool:
    """Return whether the class of a value is the user's and says how its objects are compared."""
    return any(is_user_function(getattr(type(value), name, None)) for name in _METHODS)


def is_compared_by_parts(name: str, x: Any, y: Any) -> bool:
    """Return whether two tuples, lists or dicts are compared part by part, and a part has a comparison that is
    captured."""
    kind = next((kind for kind in _COMPARED if isinstance(x, kind) and isinstance(y, kind)), None)
    if kind is None or (kind is dict and name not in ("eq", "ne")):
        return False
    special = f"__{name}__"
    plain = getattr(kind, special)
    if any(getattr(type(z), special) is not plain for z in (x, y)):
        return False
    return is_captured(x) or is_captured(y)


def compare_dicts(name: str, x: dict[Any, Any], y: dict[Any, Any], operate: Operate) -> Any:
    """`x == y` or `x != y` for two dicts with values whose comparison is captured."""
    same: Any = x.keys() == y.keys()
    for key in x if same else ():
        same = branches.and_(same, functools.partial(_same, x[key], y[key], operate))
    return branches.not_(same) if name == "ne" else same


def compare_sequences(name: str, x: Any, y: Any, operate: Operate) -> Any:
    """`x < y` and the like for two tuples or two lists with parts whose comparison is captured."""
    if name in ("eq", "ne"):
        same: Any = len(x) == len(y)
        if same:
            for a, b in zip(x, y, strict=True):
                same = branches.and_(same, functools.partial(_same, a, b, operate))
        return branches.not_(same) if name == "ne" else same
    # the first place where they differ decides
    by_length = {"lt": len(x) < len(y), "le": len(x) <= len(y), "gt": len(x) > len(y), "ge": len(x) >= len(y)}[name]
    pairs = list(zip(x, y, strict=False))
    end = max((k + 1 for k, pair in enumerate(pairs) if not _are_plain(*pair)), default=0)
    return _order(name, pairs[:end], functools.partial(_order_of_plain, name, pairs[end:], by_length, operate), operate)


def _are_plain(a: Any, b: Any) -> bool:
    """Return whether two values are numbers, or texts: they can be compared where Python would not compare them."""
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    return all(isinstance(v, int | float | np.number) or (isinstance(v, Tracer) and not v.ndim) for v in (a, b))


def _order(name: str, pairs: Sequence[tuple[Any, Any]], rest: Callable[[], Any], operate: Operate) -> Any:
    """Compare two sequences by their first parts, one pair after the other, and then by `rest`; as Python does, each
    pair only where all before are equal."""
    if not pairs:
        return rest()
    a, b = pairs[0]
    following = functools.partial(_order, name, pairs[1:], rest, operate)
    return branches.if_exp(_same(a, b, operate), following, lambda: _truth(operate(name, a, b)))


def _order_of_plain(name: str, pairs: Sequence[tuple[Any, Any]], by_length: bool, operate: Operate) -> Any:
    """Compare two sequences of numbers, or texts, by all pairs at once."""
    strict = {"le": "lt", "ge": "gt"}.get(name, name)
    result: Any = by_length
    for a, b in reversed(pairs):
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


def search(name: str, values: Sequence[Any], item: Any, operate: Operate, *bounds: Any) -> Any:
    """`values.index(item, *bounds)`, `values.count(item)` or `values.remove(item)` of a list or tuple with values whose
    comparison is captured.

    Raises:
        ValueError: (here or at run time) there is no such item.
    """
    if bounds:
        start, stop, _ = slice(*(*bounds, None)[:2]).indices(len(values))
        return operate("add", start, search(name, values[start:stop], item, operate))
    if isinstance(values, StackedList) and (name == "remove" or values.has_unknown_length):
        return call_user(searches.SEARCHES[name], values, item)
    if name == "remove":
        return _remove(values, item, operate)
    same = [_same(value, item, operate) for value in values]
    if name == "count":
        return functools.reduce(functools.partial(operate, "add"), same, 0)
    kind = type(values).__name__.lower().removeprefix("captured")
    return _first_of(same, f"the value is not in the {kind}")


def _first_of(same: Sequence[Any], message: str) -> Any:
    """Return the position of the first true value; ValueError (here or at run time) where there is none."""
    place: Any = 0
    found: Any = False
    for position in reversed(range(len(same))):
        place = branches.if_exp(
            same[position], functools.partial(_identity, position), functools.partial(_identity, place)
        )
        found = branches.or_(same[position], functools.partial(_identity, found))
    if isinstance(found, Tracer):
        stage(ops.check, found.value, error="ValueError", message=message)
    elif not found:
        raise ValueError(message)
    return place


def _remove(values: Any, item: Any, operate: Operate) -> None:
    """`values.remove(item)`: the items behind it move up by one place."""
    place = _first_of([_same(value, item, operate) for value in values], "list.remove(x): x not in list")
    if not isinstance(place, Tracer):
        call_user(values.pop, place)
        return
    for number in range(len(values) - 1):
        kept, next_ = (functools.partial(_identity, values[k]) for k in (number, number + 1))
        branches.write_slot(values, "item", number, branches.if_exp(operate("lt", number, place), kept, next_))
    call_user(values.pop)


def compare_chain(operate: Operate, first: Any, names: Sequence[str], rest: Sequence[Callable[[], Any]]) -> Any:
    """`a < b < c`, each operand evaluated once."""
    right = rest[0]()
    result = operate(names[0], first, right)
    if len(rest) == 1:
        return result
    after = branches.with_bindings(lambda: compare_chain(operate, right, names[1:], rest[1:]), rest[1:])
    return branches.and_(result, after)
