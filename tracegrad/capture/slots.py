"""What Python objects hold: reading, writing and undoing items, attributes and the content of lists.

Every write that a staged region may have to take back or to join is noted in the open frames.
Previous: state.py; next: joins.py.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any

from tracegrad.capture.aliases import require_single
from tracegrad.capture.context import Frame, current, user_span
from tracegrad.capture.lists import CapturedList, StackedList, require_growing, restore, snapshot
from tracegrad.capture.state import Undefined
from tracegrad.errors import CaptureError
from tracegrad.frames import is_library

GetState = Callable[[], tuple[Any, ...]]
SetState = Callable[[tuple[Any, ...]], None]


def cells_of(get_state: Callable[[], tuple[Any, ...]]) -> frozenset[int]:
    """Return the ids of the cells of the names that a statement carries, which `get_state` reads."""
    if not isinstance(get_state, FunctionType):
        return frozenset()
    cells = get_state.__closure__ or ()
    if not is_library(get_state.__code__.co_filename):
        return frozenset(map(id, cells))
    found = [cell.cell_contents for cell in cells]
    return frozenset().union(*(cells_of(f) for f in found if isinstance(f, FunctionType)))


def put_slot(container: Any, kind: str, key: Any, value: Any) -> None:
    """Store into a slot, noting it in open frames."""
    if kind == "cell":
        note_cell(container, key)
    else:
        note_slot(container, kind, key)
    set_slot(container, kind, key, value)


def computed_name(name: str) -> CaptureError:
    """Return the error for a store into a global through a dict of globals."""
    return CaptureError(
        f"the global {name!r} is stored under a name that the program computes",
        code="TG133",
        span=user_span(),
        found="a dict of globals, as `globals()` or `vars(module)` give it, in the place of a variable",
        help=f"write `global {name}` and `{name} = ...`, or `module.{name} = ...`",
    )


def require_no_globals(container: Any, key: Any) -> None:
    """Check that what code stores into is not the dict of a module."""
    original = current().originals.get(id(container))
    if isinstance(original, dict) and "__spec__" in original:
        raise computed_name(str(key))


def note_slot(container: Any, kind: str, key: Any) -> None:
    """Note in open frames that a slot is about to change; Undefined stands for none."""
    capture = current()
    if kind == "item" and (owned := capture.owners.get(id(container))) is not None:
        container, kind = owned[1], "attr"
    slot, made = (id(container), kind, key), capture.created_depth(container)
    if 0 <= made < len(capture.frames):
        capture.frames[made].note_place(slot)
    for frame in capture.noting(made):
        if slot not in frame.slots and not (kind == "item" and _is_noted(frame, container, key)):
            moved = frame.lists.get(id(container))
            own = kind != "item" or moved is None or isinstance(moved[1], tuple)
            before = read_slot(container if own or moved is None else moved[1], kind, key)
            frame.slots[slot] = (container, before, before)
            frame.note_place(slot)


def note_cell(cell: CellType, name: str) -> None:
    """Note in open frames that a variable of captured code is about to be rebound by a function inside; those of a
    statement of the function itself carry it by its name."""
    capture = current()
    slot = (id(cell), "cell", name)
    for frame in capture.noting(capture.created_depth(cell)):
        if slot not in frame.slots and id(cell) not in frame.carried:
            before = read_slot(cell, "cell", name)
            frame.slots[slot] = (cell, before, before)
            frame.note_place(slot)


def _is_noted(frame: Frame, container: Any, key: Any) -> bool:
    """Return whether a list is noted as a whole, or at least its item."""
    _, before = frame.lists.get(id(container), (None, None))
    return before is not None and (frame.kind == "function" or type(before) is tuple or key >= len(before))


def read_slot(container: Any, kind: str, key: Any) -> Any:
    """Return what a slot holds, or Undefined."""
    if isinstance(container, dict) and kind == "item" and key not in container:  # a defaultdict would make it
        return Undefined(str(key))
    try:
        if kind == "cell":
            return container.cell_contents
        return container[key] if kind == "item" else getattr(container, key)
    except (LookupError, AttributeError, ValueError):  # ValueError: an empty cell
        return Undefined(str(key))


def set_slot(container: Any, kind: str, key: Any, value: Any) -> None:
    """Store into a slot without noting it; Undefined deletes, and is what a variable of captured code is bound to."""
    if kind == "cell":
        container.cell_contents = value
    elif isinstance(value, Undefined):
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
    made = capture.created_depth(values)
    if 0 <= made < len(capture.frames):
        capture.frames[made].note_place((id(values), "list", None))
    for frame in capture.noting(made):
        if id(values) not in frame.lists:
            frame.lists[id(values)] = (values, snapshot(values))
            frame.note_place((id(values), "list", None))


def drop_kept_lists(frame: Frame) -> None:
    """Forget the slots that have the list again that they had before: as after `x.values += [v]`."""
    for slot, (container, _, before) in list(frame.slots.items()):
        if isinstance(before, list) and read_slot(container, slot[1], slot[2]) is before:
            del frame.slots[slot]


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
