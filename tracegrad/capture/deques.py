"""Deques that are lists: their methods, for a capture in which deques could not be followed as they are.

The length of a list may depend on traced conditions, that of a deque is Python's. So a capture that fails, of code
that makes a deque, is done once more with lists in the place of deques (entry.py). What would show the difference is
refused then. Called by hooks.py. Previous: heaps.py; next: guards.py.

A list for a deque with `maxlen` is known by its identity. Where a region makes a new list of it, that is not known any
more to have a bound: so in code with such deques only lists of displays and comprehensions grow as lists do.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable
from typing import Any

from tracegrad.capture.context import current
from tracegrad.capture.lists import CapturedList, StackedList
from tracegrad.capture.tracer import unsupported
from tracegrad.capture.trees import Tree


def _popleft(queue: Any) -> Any:
    return queue.pop(0)


def _appendleft(queue: Any, item: Any) -> None:
    queue.insert(0, item)


def _extendleft(queue: Any, items: Any) -> None:
    for item in items:
        queue.insert(0, item)


def _push(queue: Any, item: Any) -> None:
    if len(queue) == queue.maxlen:
        for k in range(queue.maxlen - 1):
            queue[k] = queue[k + 1]
        queue[-1] = item
    else:
        list.append(queue, item)


def _push_left(queue: Any, item: Any) -> None:
    if len(queue) == queue.maxlen:
        queue.pop()
    list.insert(queue, 0, item)


def _extend(queue: Any, items: Any) -> None:
    for item in items:
        queue.append(item)


def _extend_left(queue: Any, items: Any) -> None:
    for item in items:
        queue.appendleft(item)


#: those of a deque with a bound that add items
_BOUNDED: dict[str, Any] = {
    "append": _push,
    "appendleft": _push_left,
    "extend": _extend,
    "extendleft": _extend_left,
}
_METHODS: dict[str, Any] = {
    "popleft": _popleft,
    "appendleft": _appendleft,
    "extendleft": _extendleft,
}
#: all methods of this file, which are captured
DEQUE_METHODS = frozenset((*_METHODS.values(), *_BOUNDED.values()))
_ONLY_DEQUES = frozenset({"rotate", "maxlen"})


def makes_list(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call makes a deque that is a list in this capture; note where it could be one in another."""
    if f is not collections.deque or not kwargs.keys() <= {"iterable", "maxlen"}:
        return False
    current().makes_deques = True
    return current().deques_are_lists


def as_list(make: Callable[..., Any], iterable: Any = (), maxlen: Any = None) -> Any:
    """Return the list in the place of `deque(iterable, maxlen)`; `make` makes one of items."""
    capture, values = current(), make(iterable)
    if maxlen is None:
        capture.plain.add(id(values))
        return values
    if type(maxlen) is not int or maxlen < 1 or isinstance(values, StackedList):
        raise _differs("a deque whose length or bound is not known")
    del values[: max(len(values) - maxlen, 0)]
    capture.bounds[id(values)] = values, maxlen
    capture.plain.discard(id(values))
    return values


def read_method(values: Any, name: str) -> Any:
    """Return what a list in the place of a deque has and other lists have not, a method or the bound; None for all
    else."""
    if not isinstance(values, CapturedList) or not current().deques_are_lists:
        return None
    _, bound = current().bounds.get(id(values), (None, None))
    if bound is not None and name == "maxlen":
        return bound
    if name in _ONLY_DEQUES or (bound is not None and name in ("copy", "insert")):
        raise _differs(f"deque.{name}")
    if bound is None and (name in _BOUNDED or name == "insert"):
        require_plain(f"deque.{name}", values)
    found = (_BOUNDED if bound is not None and name in _BOUNDED else _METHODS).get(name)
    return None if found is None else types.MethodType(found, values)


def require_plain(what: str, *values: Any) -> None:
    """Check that lists which grow, or are joined or repeated, do not stand for deques with a bound."""
    capture = current()
    if capture.bounds and any(isinstance(v, CapturedList) and id(v) not in capture.plain for v in values):
        raise _differs(f"{what} of a deque with maxlen, or a list that may be one,")


def require_no_question(what: str, *values: Any) -> None:
    """Check that code does not ask for what lists and deques have differently: the class, the text, equality."""
    if current().deques_are_lists and any(isinstance(value, CapturedList) for value in values):
        raise _differs(what)


def require_no_lists(trees: Iterable[Tree]) -> None:
    """Check that no list leaves the function, where that may stand for a deque."""
    if not current().deques_are_lists:
        return
    waiting = list(trees)
    while waiting:
        tree = waiting.pop()
        if isinstance(tree.kind, type) and issubclass(tree.kind, list):
            raise _differs("a list that is returned or stored outside")
        waiting.extend(tree.children)


def _differs(what: str) -> Exception:
    return unsupported(f"{what} where deques are lists", "use a list in the place of the deque")
