"""Searches and sorts of lists as Python code, for lists of objects of a length that is known when the program runs.

Captured like functions of the user: the loops in them are staged. Reads and writes nothing. Called by comparisons.py,
comprehensions.py and calls.py. Previous: heaps.py; next: guards.py.
"""

from __future__ import annotations

import bisect
from typing import Any


def contains(values: Any, item: Any) -> Any:
    found = False
    position = 0
    while position < len(values) and not found:
        if values[position] == item:
            found = True
        position = position + 1
    return found


def place_of(values: Any, item: Any) -> Any:
    """Return where the first such item is; the length where there is none."""
    position = 0
    while position < len(values) and not values[position] == item:
        position = position + 1
    return position


def index(values: Any, item: Any) -> Any:
    position = place_of(values, item)
    if position == len(values):
        raise ValueError("the value is not in the list")
    return position


def count(values: Any, item: Any) -> Any:
    total = 0
    for position in range(len(values)):
        if values[position] == item:
            total = total + 1
    return total


def remove(values: Any, item: Any) -> None:
    position = place_of(values, item)
    if position == len(values):
        raise ValueError("list.remove(x): x not in list")
    values.pop(position)


def least(values: Any) -> Any:
    if len(values) == 0:
        raise ValueError("min() iterable argument is empty")
    best = values[0]
    for position in range(1, len(values)):
        if values[position] < best:
            best = values[position]
    return best


def greatest(values: Any) -> Any:
    if len(values) == 0:
        raise ValueError("max() iterable argument is empty")
    best = values[0]
    for position in range(1, len(values)):
        if values[position] > best:
            best = values[position]
    return best


def sort(values: Any, reverse: Any) -> None:
    """Insert each item behind those before it that may stay before it."""
    for start in range(1, len(values)):
        item = values[start]
        low, high = 0, start
        while low < high:
            middle = (low + high) // 2
            if values[middle] < item if reverse else item < values[middle]:
                high = middle
            else:
                low = middle + 1
        position = start
        while position > low:
            values[position] = values[position - 1]
            position = position - 1
        values[low] = item


def bisect_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
    high = len(a) if hi is None else hi
    while lo < high:
        middle = (lo + high) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            high = middle
    return lo


def bisect_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
    high = len(a) if hi is None else hi
    while lo < high:
        middle = (lo + high) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            high = middle
        else:
            lo = middle + 1
    return lo


def insort_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect.bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect.bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


#: function of bisect -> the same in Python: of any list, and of one with an unknown number of objects
INSERTS: dict[Any, Any] = {bisect.insort_left: insort_left, bisect.insort_right: insort_right}
BISECTS: dict[Any, Any] = {bisect.bisect_left: bisect_left, bisect.bisect_right: bisect_right}
#: method of a list -> the same in Python
SEARCHES: dict[str, Any] = {"index": index, "count": count, "remove": remove}
#: all functions of this file, which are captured
FUNCTIONS = frozenset(
    {*SEARCHES.values(), *INSERTS.values(), *BISECTS.values(), place_of, contains, least, greatest, sort}
)
