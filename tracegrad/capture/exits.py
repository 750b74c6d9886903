"""Loops and branches in the body of a `try` that an exception leaves: none leaves a region, so it is raised behind it.

Called by loops.py and branches.py. Previous: loop_body.py; next: loops.py.

The body of such a loop is run as that of a `try` that catches what the handlers outside would catch. A number, which
the loop carries, says which exception that was, and ends the loop:

    for x in xs:                    number = 0
        ...; raise E                for x in xs:
                                        try: ...; raise E
                                        except E: number = 1; break
                                    if number == 1: raise E

Branches are left in the same way.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tracegrad.capture.attempts import passes, try_stmt
from tracegrad.capture.branches import JOIN, and_, do_nothing, if_stmt, not_
from tracegrad.capture.context import Signal, current, learn, lesson, raised_span
from tracegrad.capture.slots import GetState, SetState
from tracegrad.capture.state import Undefined, Unsure, flatten
from tracegrad.capture.text import Part, TracedText
from tracegrad.capture.tracer import Tracer
from tracegrad.capture.trials import Guard, Leaves, catching, is_seen, refusal
from tracegrad.errors import NeedsPythonValue

#: the name of the variable that says which exception has ended a loop
NAME = "tg_caught"


class MoreHeld(Signal):
    """An exception that may end a loop holds numbers that the loop does not carry yet."""

    def __init__(self, position: int, count: int) -> None:
        self.position, self.count = position, count


class Ends:
    """What is learnt of a loop that exceptions end: how many numbers each holds, in the order in which they come."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def note(self, position: int, count: int) -> None:
        """Note how many numbers one holds."""
        self.counts.extend([0] * (position + 1 - len(self.counts)))
        self.counts[position] = count


class Exit:
    """How exceptions leave one loop or branch.

    Args:
        counts: so many numbers the exceptions are expected to hold.

    Attributes:
        names, get_state, set_state: the state of the loop, with the number, and what the exceptions hold.
    """

    def __init__(self, get_state: GetState, set_state: SetState, names: tuple[str, ...], counts: Sequence[int]) -> None:
        self.number: Any = 0
        #: the exceptions that may end the loop, and what tells them apart
        self.errors: list[Exception] = []
        self.places: list[Any] = []
        #: for each exception the numbers that it holds
        self.held: list[list[Any]] = [_unknown(count) for count in counts]
        self.depth = current().depth
        self._names, self._get_state, self._set_state = names, get_state, set_state
        #: the names that are bound wherever a side of the branch comes to its end; None for a loop, which may not run
        self._bound: set[str] | None = None

        def set_all(values: tuple[Any, ...]) -> None:
            count = len(names)
            self.number, rest = values[count], iter(values[count + 1 :])
            self.held = [[next(rest) for _ in held] for held in self.held]
            set_state((*values[:count], *rest))

        def get_all() -> tuple[Any, ...]:
            values, count = get_state(), len(names)
            return (*values[:count], self.number, *itertools.chain(*self.held), *values[count:])

        self.get_state: GetState = get_all
        self.set_state: SetState = set_all

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the state."""
        return (*self._names, NAME, *("tg_held" for held in self.held for _ in held))

    def test(self, goes_on: Callable[[], Any] | None) -> Callable[[], Any]:
        """Return the test of the loop: no exception has ended it."""
        more = () if goes_on is None else (goes_on,)
        return lambda: and_(_is(self.number, 0), *more)

    def sides(self, then_fn: Callable[[], None], else_fn: Callable[[], None]) -> tuple[Callable[..., None], ...]:
        """Return the sides of the branch."""
        self._bound = set(self._names)
        return self.body(then_fn), self.body(else_fn)

    def body(self, fn: Callable[..., None]) -> Callable[..., None]:
        """Return the body of the loop."""

        def run(*item: Any) -> None:
            self.number = 0
            try_stmt(lambda: self._attempt(fn, item), self.get_state, self.set_state, self.names)

        return run

    def _attempt(self, fn: Callable[..., None], item: tuple[Any, ...]) -> None:
        try:
            with _guarded():
                fn(*item)
        except Exception as error:
            if passes(error) or catching(error) is None:
                raise
            self._note(error)
        else:
            if self._bound is not None:
                self._bound -= {name for name, value in self._values() if isinstance(value, Undefined | Unsure)}

    def _values(self) -> Iterator[tuple[str, Any]]:
        return zip(self._names, self._get_state(), strict=False)

    def _note(self, error: Exception) -> None:
        seen = is_seen(error)
        place = (type(error), _place(error) if seen else None)
        found = _numbers_of(tuple(vars(error).values()), self.depth) if seen else []
        position = self.places.index(place) if place in self.places else len(self.places)
        if position == len(self.places):
            self.places.append(place)
            self.errors.append(error)
            if position == len(self.held):
                self.held.append([])
        if len(self.held[position]) != len(found):
            raise MoreHeld(position, len(found))
        self.errors[position], self.held[position] = error, found
        self.number = position + 1

    def leave(self) -> None:
        """Raise, behind the loop, the exception that has ended it."""
        if isinstance(self.number, Tracer):
            if_stmt(not_(_is(self.number, 0)), self._raise, do_nothing, lambda: (), do_nothing, (), joins=False)
        elif self.number:
            self._raise_one(self.number)
        bound = self._bound or ()
        values = [value.value if type(value) is Unsure and name in bound else value for name, value in self._values()]
        self._set_state((*values, *self._get_state()[len(values) :]))

    def _raise(self) -> None:
        count = len(self.errors)
        for number in range(1, count):
            one = functools.partial(self._raise_one, number)
            if_stmt(_is(self.number, number), one, do_nothing, lambda: (), do_nothing, (), joins=False)
        self._raise_one(count)

    def _raise_one(self, number: int) -> None:
        error, numbers = self.errors[number - 1], iter(self.held[number - 1])
        for name, value in vars(error).items() if self.held[number - 1] else ():
            vars(error)[name] = _with_numbers(value, numbers)
        current().register_created(error)
        raise error


def _unknown(count: int) -> list[Any]:
    return [Undefined("tg_held")] * count


def _is(number: Any, value: int) -> Any:
    return number == value


def _place(error: Exception) -> Any:
    """Return what tells an exception apart for a handler that looks at it."""
    return error.args, raised_span(error)


def _numbers_of(value: Any, depth: int) -> list[Tracer]:
    """Return the traced numbers in what an exception holds.

    Raises:
        NeedsPythonValue: it holds a list, dict or object that was made deeper than `depth`, which would be another one.
    """
    if isinstance(value, Tracer):
        return [value]
    if isinstance(value, TracedText):
        return [part.tracer for part in value.parts if isinstance(part, Part)]
    if type(value) is tuple:
        return [found for item in value for found in _numbers_of(item, depth)]
    made = current().created_depth(value)
    if (made < 0 or made > depth) and any(isinstance(leaf, Tracer | TracedText) for leaf in flatten(value)[0]):
        raise refusal(
            "an exception", "it holds a list, dict or object of the iteration that raises it", NeedsPythonValue
        )
    return []


def _with_numbers(value: Any, numbers: Iterator[Tracer]) -> Any:
    """Return what an exception holds, with other traced numbers in the same places."""
    if isinstance(value, Tracer):
        return next(numbers)
    if isinstance(value, TracedText):
        return TracedText(
            Part(given := next(numbers), given.value, part.style) if isinstance(part, Part) else part
            for part in value.parts
        )
    if type(value) is tuple:
        items = [_with_numbers(item, numbers) for item in value]
        return value if all(a is b for a, b in zip(value, items, strict=True)) else tuple(items)
    return value


@contextmanager
def _guarded() -> Iterator[None]:
    windows = current().windows
    windows.append(Guard(current().trials[-1]))
    try:
        yield
    finally:
        windows.pop()


def staged(
    stage: Callable[[Exit], None], get_state: GetState, set_state: SetState, names: tuple[str, ...], ends: Ends
) -> None:
    """Stage a statement that exceptions leave, by `stage`, which is called until what they hold is known; and raise the
    one that has left it."""
    way, entry = Exit(get_state, set_state, names, ends.counts), get_state()
    while True:
        try:
            stage(way)
            break
        except MoreHeld as more:
            set_state(entry)
            way.number = 0
            ends.note(more.position, more.count)
            way.held[more.position] = _unknown(more.count)
        except Leaves as leaves:
            raise refusal(leaves.name, "in the condition of a loop") from None
    if not any(trial.keep_exit(way, get_state) for trial in current().trials[-1:]):
        way.leave()


def _join(
    test: Any,
    then_fn: Callable[[], None],
    else_fn: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
) -> None:
    def stage(way: Exit) -> None:
        then_side, else_side = way.sides(then_fn, else_fn)
        if_stmt(test, then_side, else_side, way.get_state, way.set_state, way.names)

    known = lesson(then_fn, "ends") or Ends()
    learn(then_fn, "ends", known)
    staged(stage, get_state, set_state, names, known)


JOIN.append(_join)
