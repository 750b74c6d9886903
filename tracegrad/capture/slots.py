"""What Python objects hold: reading, writing and undoing items, attributes and the content of lists.

Every write that a staged region may have to take back or to join is noted in the open frames.
Previous: state.py; next: joins.py.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tracegrad.capture.aliases import require_single
from tracegrad.capture.context import Frame, current
from tracegrad.capture.lists import CapturedList, StackedList, require_growing, restore, snapshot
from tracegrad.capture.state import Undefined

GetState = Callable[[], tuple[Any, ...]]
SetState = Callable[[tuple[Any, ...]], None]


def put_slot(container: Any, kind: str, key: Any, value: Any) -> None:
    """Store into a slot, noting it in open frames."""
    note_slot(container, kind, key)
    set_slot(container, kind, key, value)


def note_slot(container: Any, kind: str, key: Any) -> None:
    """Note in open frames that a slot is about to change; Undefined stands for none."""
    capture = current()
    slot = (id(container), kind, key)
    for frame in capture.frames[capture.created_depth(container) + 1 :]:
        if slot not in frame.slots and not (kind == "item" and _is_noted(frame, container, key)):
            moved = frame.lists.get(id(container))
            own = kind != "item" or moved is None or isinstance(moved[1], tuple)
            before = read_slot(container if own or moved is None else moved[1], kind, key)
            frame.slots[slot] = (container, before, before)


def _is_noted(frame: Frame, container: Any, key: Any) -> bool:
    """Return whether a list is noted as a whole, or at least its item."""
    _, before = frame.lists.get(id(container), (None, None))
    return before is not None and (frame.kind == "function" or type(before) is tuple or key >= len(before))


def read_slot(container: Any, kind: str, key: Any) -> Any:
    """Return what a slot holds, or Undefined."""
    if isinstance(container, dict) and kind == "item" and key not in container:  # a defaultdict would make it
        return Undefined(str(key))
    try:
        return container[key] if kind == "item" else getattr(container, key)
    except (LookupError, AttributeError, ValueError):  # ValueError: an empty cell
        return Undefined(str(key))


def set_slot(container: Any, kind: str, key: Any, value: Any) -> None:
    """Store into a slot without noting it; Undefined deletes."""
    if isinstance(value, Undefined):
        if kind == "item":
            container.pop(key, None)
        elif not isinstance(read_slot(container, kind, key), Undefined):
            delattr(container, key)
    elif kind == "item":
        container[key] = value
    elif (
        isinstance(container, type | ModuleType) or getattr(type(container), "__setattr__", None) is object.__setattr__
    ):
        setattr(container, key, value)
    else:
        object.__setattr__(container, key, value)


def note_list(values: Any) -> None:
    """Note that a list or deque is about to change its length or the order of its items."""
    require_single(values, "its length or order changes, or a slice of it")
    if isinstance(values, StackedList):
        require_growing(values)
        if values.varies:
            note_slot(values, "attr", "length")
    capture = current()
    for frame in capture.frames[capture.created_depth(values) + 1 :]:
        if id(values) not in frame.lists:
            frame.lists[id(values)] = (values, snapshot(values))


def undo(frame: Frame) -> None:
    """Give lists, items and attributes the content that they had before a frame changed them."""
    for values, before in frame.lists.values():
        restore(values, before)
    for (_, kind, key), (container, _, before) in reversed(frame.slots.items()):
        if kind == "item" or id(container) not in frame.lists:  # else it is the length of a list
            set_slot(container, kind, key, before)


# ---- if


def new_list(items: list[Any]) -> list[Any]:
    """Return a list as captured code makes it."""
    result = CapturedList(items)
    current().register_created(result)
    return result
