"""For how many items there is room in a list that a loop without a known end fills.

Reads and writes what the capture notes as read from outside. Previous: aliases.py; next: lists.py.

An array in the IR has a size that is known before the program runs. For a list that an unbounded loop fills that is a
guess, and each `append` checks it. Where a run needs more, nothing of it is kept: the guess grows, and the function is
captured again, as for any Python int that it reads and that has changed.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tracegrad.capture.context import Capture, Place, current, user_span
from tracegrad.capture.tracer import call_handler, check

#: what a list has room for at first: so many items, of so many elements together
_FIRST_ITEMS, _FIRST_ELEMENTS = 1024, 2**20
_LEAST_ITEMS = 16
_FACTOR = 4
#: more elements are not made room for
_MOST_ELEMENTS = 2**30

_rooms: dict[str, Room] = {}


class Room:
    """The room for items of the lists that are filled at one place of the user's code.

    Attributes:
        items: how many a list has room for.
        size: the number of elements of an item.
    """

    __slots__ = ("items", "label", "size")

    def __init__(self, label: str, size: int) -> None:
        self.label, self.size = label, size
        self.items = max(_LEAST_ITEMS, min(_FIRST_ITEMS, _FIRST_ELEMENTS // max(size, 1)))

    def require(self, length: Any, items: Any) -> None:
        """Stage the check that a list of some length, with room for `items`, takes one more."""
        check(call_handler(np.less, length, items), "MemoryError", self._message)

    @property
    def _message(self) -> str:
        return f"a list outgrows the room that there is for its items ({self.label})"

    def grow(self, items: int, error: Exception) -> bool:
        """Make room for more than `items` where an error of a run is that these are too few; return whether it was."""
        if not str(error).startswith(self._message) or items * self.size > _MOST_ELEMENTS:
            return False
        self.items = max(self.items, items * _FACTOR)
        return True


def find_room(size: int) -> tuple[Room, int]:
    """Return the room of a list that is filled where the user's code is, and for how many items it is in this capture.

    Args:
        size: the number of elements of an item.
    """
    span = user_span()
    label = f"{os.path.basename(span.file)}:{span.line}" if span is not None else "?"
    room = _rooms.setdefault(label, Room(label, size))
    room.size = max(room.size, size)
    place = Place(room, (("attribute", "items"),), f"the room for items of the list filled at {label}")
    _, items = current().guards.setdefault(place.key, (place, room.items))
    return room, items


def rooms_of(capture: Capture) -> list[tuple[Room, int]]:
    """Return the rooms that a capture relies on, and for how many items each is in it."""
    return [(place.base, items) for place, items in capture.guards.values() if isinstance(place.base, Room)]
