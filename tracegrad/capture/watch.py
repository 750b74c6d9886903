"""What a function that runs unconverted changes in the objects that it can reach, where it must change nothing.

In a staged region a call stands for many, or for none: what it changes would be changed once. So the containers in its
globals, closure and arguments are compared before and after. Called by guards.py. Previous: heaps.py; next: guards.py.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable
from typing import Any

from tracegrad.capture.context import Frame, current, user_span
from tracegrad.capture.lists import StackedList
from tracegrad.capture.tracer import Tracer
from tracegrad.errors import NeedsPythonValue

_SEQUENCES = (list, collections.deque, bytearray)
_OPENED = (*_SEQUENCES, dict, set)


def is_staged(frame: Frame) -> bool:
    """Return whether the code of a frame stands for several runs of it, or for none."""
    return frame.kind in ("loop", "branch") or frame.repeats


class Watch:
    """The content of containers and objects, as it was.

    Args:
        space: the globals of a function.
        names: those of them that it can read.
        others: what else it can reach: its cells, arguments and defaults.
    """

    def __init__(self, space: dict[str, Any], names: Iterable[str], others: Iterable[Any]) -> None:
        self.space, self.bound = space, {name: space[name] for name in names if name in space}
        self.known: dict[int, tuple[Any, Any]] = {}
        for value in (*self.bound.values(), *others):
            self._visit(value)

    def _visit(self, value: Any) -> None:
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, types.CellType):
                self.known[id(item)] = item, _content(item)
                waiting.extend(_content(item))
                continue
            if isinstance(item, tuple):
                waiting.extend(item)
                continue
            if isinstance(item, Tracer | StackedList | type | types.ModuleType | types.FunctionType):
                continue
            held = item if isinstance(item, _OPENED) else getattr(item, "__dict__", None)
            if held is None or id(held) in self.known or not isinstance(held, _OPENED):
                continue
            self.known[id(held)] = held, _content(held)
            waiting.extend(held.values() if isinstance(held, dict) else held)

    def require_unchanged(self, name: str, stored: Iterable[str]) -> None:
        """Check that nothing has changed but the globals that the text of a function stores into; else undo it.

        Raises:
            NeedsPythonValue: something has.
        """
        rebound = [n for n, value in self.bound.items() if n not in stored and self.space.get(n) is not value]
        changed = [(held, before) for held, before in self.known.values() if not _is_same(_content(held), before)]
        if not rebound and not changed:
            return
        for n in rebound:
            self.space[n] = self.bound[n]
        for held, before in changed:
            _restore(held, before)
        what = f"the global {rebound[0]!r}" if rebound else "an object from outside"
        raise NeedsPythonValue(
            f"{name} runs as it is, and changes {what} where it may run several times or not at all",
            code="TG134",
            span=user_span(),
            found="a function that is not captured, because it reads the variables of its caller or has no source",
            help="write `global x` in place of globals() and exec(), or return the new value and keep it in a variable",
        )


def watch(function: types.FunctionType, names: Iterable[str], given: Iterable[Any]) -> Watch | None:
    """Return what watches a function where it runs in a staged region; None elsewhere."""
    current().note_lasting(f"what {function.__name__} changes, which runs as it is")
    if not any(map(is_staged, current().frames)):
        return None
    return Watch(function.__globals__, names, [*(function.__closure__ or ()), *given])


def _content(held: Any) -> Any:
    if isinstance(held, types.CellType):
        try:
            return [held.cell_contents]
        except ValueError:  # an empty cell
            return []
    return dict(held) if isinstance(held, dict) else set(held) if isinstance(held, set) else list(held)


def _is_same(content: Any, before: Any) -> bool:
    if isinstance(content, set):
        return bool(content == before)
    if isinstance(content, dict):
        return list(content) == list(before) and _is_same(list(content.values()), list(before.values()))
    return len(content) == len(before) and all(a is b for a, b in zip(content, before, strict=True))


def _restore(held: Any, before: Any) -> None:
    if isinstance(held, types.CellType):
        if before:
            held.cell_contents = before[0]
        else:
            del held.cell_contents
        return
    held.clear()
    (held.extend if isinstance(held, _SEQUENCES) else held.update)(before)
