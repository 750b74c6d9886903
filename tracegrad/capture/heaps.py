"""The functions of heapq as Python code, for heaps whose order is known only when the compiled function runs.

Captured like functions of the user: the loops in them are staged. They make the comparisons and the moves of heapq, so
that a heap has its items in the same places. Reads and writes nothing. Called by natives.py. Previous: draws.py; next:
searches.py.
"""

from __future__ import annotations

import heapq
from typing import Any


def _move_up(heap: Any, position: Any, start: Any = 0) -> None:
    item = heap[position]
    while position > start and item < heap[(position - 1) // 2]:
        heap[position] = heap[(position - 1) // 2]
        position = (position - 1) // 2
    heap[position] = item


def _move_down(heap: Any, start: Any) -> None:
    """Move the smaller children up along a path to a leaf, and the item from there up to its place."""
    end = len(heap)
    position = start
    item = heap[position]
    child = 2 * position + 1
    while child < end:
        if child + 1 < end:
            if not heap[child] < heap[child + 1]:
                child = child + 1
        heap[position] = heap[child]
        position = child
        child = 2 * position + 1
    heap[position] = item
    _move_up(heap, position, start)


def _heappush(heap: Any, item: Any) -> None:
    heap.append(item)
    _move_up(heap, len(heap) - 1)


def _heappop(heap: Any) -> Any:
    last = heap.pop()
    result = last
    if len(heap) > 0:
        result = heap[0]
        heap[0] = last
        _move_down(heap, 0)
    return result


def _heapreplace(heap: Any, item: Any) -> Any:
    result = heap[0]
    heap[0] = item
    _move_down(heap, 0)
    return result


def _heappushpop(heap: Any, item: Any) -> Any:
    result = item
    if len(heap) > 0:
        if heap[0] < item:
            result = heap[0]
            heap[0] = item
            _move_down(heap, 0)
    return result


def _heapify(heap: Any) -> None:
    position = len(heap) // 2 - 1
    while position >= 0:
        _move_down(heap, position)
        position = position - 1


#: function of heapq -> the same in Python
HEAP: dict[Any, Any] = {
    heapq.heappush: _heappush,
    heapq.heappop: _heappop,
    heapq.heapreplace: _heapreplace,
    heapq.heappushpop: _heappushpop,
    heapq.heapify: _heapify,
}
#: all functions of this file, which are captured
FUNCTIONS = frozenset({*HEAP.values(), _move_up, _move_down})
