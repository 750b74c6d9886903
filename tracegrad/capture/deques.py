"""Deques that are lists: their methods, for a capture in which deques could not be followed as they are.

The length of a list may depend on traced conditions, that of a deque is Python's. So a capture that fails, of code
that makes a deque without a bound, is done once more with lists in the place of deques (entry.py). What would show the
difference is refused then. Called by hooks.py. Previous: heaps.py; next: guards.py.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable
from typing import Any

from tracegrad.capture.context import current
from tracegrad.capture.lists import CapturedList
from tracegrad.capture.tracer import unsupported
from tracegrad.capture.trees import Tree


def _popleft(queue: Any) -> Any:
    return queue.pop(0)


def _appendleft(queue: Any, item: Any) -> None:
    queue.insert(0, item)


def _extendleft(queue: Any, items: Any) -> None:
    for item in items:
        queue.insert(0, item)


_METHODS: dict[str, Any] = {
    "popleft": _popleft,
    "appendleft": _appendleft,
    "extendleft": _extendleft,
}
#: all methods of this file, which are captured
DEQUE_METHODS = frozenset(_METHODS.values())
_ONLY_DEQUES = frozenset({"rotate", "maxlen"})


def makes_list(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call makes a deque that is a list in this capture; note where it could be one in another."""
    if f is not collections.deque or kwargs or len(args) > 1:
        return False
    current().makes_deques = True
    return current().deques_are_lists


def read_method(values: Any, name: str) -> Any:
    """Return the method that a list in the place of a deque has and other lists have not; None for all else."""
    if not isinstance(values, CapturedList) or not current().deques_are_lists:
        return None
    if name in _ONLY_DEQUES:
        raise _differs(f"deque.{name}")
    return types.MethodType(_METHODS[name], values) if name in _METHODS else None


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
