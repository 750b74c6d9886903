"""Iterators of which a loop may leave items: how many it takes is known only when the program runs.

A loop that ends under a traced condition takes all items at capture, and what Python would not have taken counts for
nothing. So the position of the iterator, and of those that it takes its items from, is not known afterwards: no other
use may follow, and what takes an item must change nothing else. Previous: watch.py; next: protocols.py.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracegrad.capture.context import NUMBERS, Frame, current, user_span
from tracegrad.capture.lists import ListIterator, StackedList
from tracegrad.capture.tracer import Tracer
from tracegrad.capture.trees import Source
from tracegrad.errors import CaptureError, NeedsPythonValue

TAKEN = "items taken from an iterator"
#: iterators over them take their items from no other one
_CONTAINERS: tuple[Any, ...] = ([], (), "", b"", range(0), range(1 << 64), set(), {}, {}.values(), {}.items())
_OF_CONTAINERS: tuple[type, ...] = (ListIterator, *(type(iter(values)) for values in _CONTAINERS))
_NUMBERS = (int, float, complex, str, bytes, type(None), np.generic, np.ndarray)
#: so many items that Python may not take are taken from a generator that cannot be a stream
_FEW_ITEMS = 16
_HOLDERS = (tuple, list, dict, types.CellType, types.MethodType, functools.partial)


def is_iterator(value: Any) -> bool:
    """Return whether a value is an iterator, or a list that stands for one."""
    if isinstance(value, StackedList):
        return id(value) in current().streams
    return isinstance(value, Iterator) and not isinstance(value, Tracer)


def feeding(iterator: Any) -> Iterator[Any]:
    """Yield an iterator and those that it may take items from: all that its code can reach."""
    waiting, seen = [iterator], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _NUMBERS):
            continue
        seen.add(id(value))
        if is_iterator(value):
            yield value
            if not isinstance(value, (*_OF_CONTAINERS, StackedList, Source)):
                waiting.extend(gc.get_referents(value))
        elif isinstance(value, types.FunctionType):
            waiting.extend((*(value.__closure__ or ()), *(value.__defaults__ or ())))
        elif isinstance(value, _HOLDERS) or _is_object(value):
            waiting.extend(gc.get_referents(value))


def _is_object(value: Any) -> bool:
    """Return whether a value is an object of a class that may keep iterators."""
    if isinstance(value, Tracer | StackedList | type | types.ModuleType | types.FrameType | types.CodeType):
        return False
    return not (type(value).__module__ or "").startswith(("tracegrad", "numpy", "builtins", "types"))


def note_made(iterator: Any, given: Iterable[Any]) -> None:
    """Note that captured code made an iterator of Python, and with it those over what it was given, such as the lists
    of a `zip`."""
    current().register_created(iterator)
    if not current().journals or type(iterator).__module__ not in ("builtins", "itertools"):
        return
    older = {id(part) for value in given for part in feeding(value)}
    for part in feeding(iterator):
        if id(part) not in older:
            current().register_created(part)


def note_left(iterator: Any) -> None:
    """Note that a loop may have left items of an iterator."""
    used_up = current().used_up
    used_up.update((id(part), part) for part in feeding(iterator))
    source = iterator.source if isinstance(iterator, Source) else None
    while source is not None:
        used_up[id(source)] = source
        source = source.source


def note_taken(iterator: Any) -> None:
    """Note that a loop has taken all items of an iterator: it, and those whose items it gives, have no more."""
    while isinstance(iterator, Source):
        current().used_up.pop(id(iterator), None)
        iterator = iterator.source


@contextmanager
def taking(iterator: Any, *, all_items: bool) -> Iterator[None]:
    """Keep an iterator of captured code from other uses while a loop runs over it, and afterwards if it may have left
    items."""
    if not isinstance(iterator, Source) or id(iterator) in current().used_up:
        yield
        return
    note_left(iterator)
    yield
    if all_items:
        note_taken(iterator)


def require_known(iterator: Any, what: str) -> None:
    """Check that no loop may have left items of an iterator that is about to be used.

    Raises:
        NeedsPythonValue: one may have.
    """
    used_up = current().used_up
    if used_up and is_iterator(iterator) and any(id(part) in used_up for part in feeding(iterator)):
        raise left_error(what)


def left_error(what: str) -> NeedsPythonValue:
    """Return the error for the use of an iterator of which a loop may have left items."""
    return NeedsPythonValue(
        f"{what} of which a loop has taken some",
        code="TG134",
        span=user_span(),
        found="an iterator, of which a loop, a generator expression or another iterator took as many items as it "
        "needed",
        help="make another iterator for the second use, or count with a number of your own that goes on afterwards",
    )


def leave_to_streams(iterator: Any, number: int) -> None:
    """Have the capture done again with streams in the place of the generators that an iterator takes items from, since
    a loop over it ends under a traced condition: their code would run for items that Python does not take.

    Args:
        number: so many items have been taken that Python may not take.

    Raises:
        NeedsPythonValue: there are such generators.
    """
    capture = current()
    if capture.runs_generators and number < _FEW_ITEMS:
        return
    codes = {capture.givers[id(part)][1] for part in feeding(iterator) if id(part) in capture.givers}
    if codes:
        capture.undecided |= codes
        raise long_error("a generator that goes on", NeedsPythonValue)


def long_error(what: str, kind: type[CaptureError]) -> CaptureError:
    """Return the error for a long loop over an iterator of Python that ends under a traced condition."""
    return kind(
        "a loop over an endless or long iterator ends under a traced condition",
        code="TG120",
        span=user_span(),
        found=f"a loop over {what}, which is run at capture",
        help="write it as `while True:` with a counter of your own; that loop is staged",
    )


class Ahead:
    """Takes the items of an iterator for a loop that may end under a traced condition.

    Attributes:
        is_sure: whether Python takes the next item, or takes it only if the loop has not ended yet.
    """

    def __init__(self, iterator: Iterator[Any], *, is_sure: bool = True) -> None:
        self.iterator, self.is_sure, self.count = iterator, is_sure, 0
        self.left: dict[int, Any] = {}

    def __iter__(self) -> Ahead:
        return self

    def __next__(self) -> Any:
        return self._following() if self.is_sure else self._take()

    def _following(self) -> Any:
        """Return the next item, which Python takes; what a loop does with the last one may have used the iterator."""
        require_known(self.iterator, TAKEN)
        return next(self.iterator)

    def _take(self) -> Any:
        """Return the next item, which Python takes only if the loop has not ended yet.

        Raises:
            StopIteration: there is none.
            NeedsPythonValue: to take it changes other things than the iterators that it comes from.
        """
        capture = current()
        leave_to_streams(self.iterator, self.count)
        self.count += 1
        for part in self.left:
            capture.used_up.pop(part, None)
        require_known(self.iterator, TAKEN)
        with changing_nothing(capture.numbers.get(id(self.iterator))) as journal:
            try:
                self._note(feeding(self.iterator))
                return next(self.iterator)
            finally:
                self._note((*feeding(self.iterator), *journal.taken))
                capture.used_up.update(self.left)

    def _note(self, parts: Iterable[Any]) -> None:
        self.left.update((id(part), part) for part in parts)


@contextmanager
def changing_nothing(begun: int | None = None) -> Iterator[Frame]:
    """Check that code which runs more often than in Python changes nothing that it has not made.

    Args:
        begun: what was made since this number counts as made by it; None: what is made from now on.

    Raises:
        NeedsPythonValue: it changes something else.
    """
    capture = current()
    begun = next(NUMBERS) if begun is None else begun
    journal = Frame("ahead", capture.builder.block, level=capture.depth, begun=begun)
    capture.journals.append(journal)
    try:
        yield journal
    finally:
        capture.journals.remove(journal)
        written = [container for container, *_ in journal.slots.values()] + [v for v, _ in journal.lists.values()]
        outside = [part for part in written if capture.numbers.get(id(part), -1) < begun]
        arrays = [storage for storage in journal.saved if storage.number < begun]
        if outside or arrays or journal.lasting:
            raise NeedsPythonValue(
                "an iterator changes something where a loop over it may have ended",
                code="TG134",
                span=user_span(),
                found=journal.lasting or "code that gives the items of a loop, which ends under a traced condition",
                help="make a list of the items first, `for v in list(values)`, or change it in the body of the loop",
            )
