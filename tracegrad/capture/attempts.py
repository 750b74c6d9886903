"""`try` and `contextlib.suppress` around what fails only when the compiled function runs.

Called by hooks.py and calls.py. Previous: comparisons.py; next: copies.py.

Handlers run at capture: they catch what goes wrong there. Where a fault would come later, by a staged operation, both
outcomes are captured (trials.py). `with suppress(...)` has become a `try` (suppressed.py). A `try` with a `yield`,
a `suppress` that has another name, and a `with` whose `__exit__` may return true stay what they are: after the body the
operations that it staged are looked through, and one whose fault a handler would have caught is an error. What capture
itself raises, to unroll a loop or to stage it again, passes all handlers.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from types import TracebackType
from typing import Any

from tracegrad.capture import slots
from tracegrad.capture.branches import do_nothing, if_stmt
from tracegrad.capture.choices import is_at
from tracegrad.capture.chosen import GIVEN, Chosen, Conflict, Options
from tracegrad.capture.context import LEARNING, Signal, current
from tracegrad.capture.guards import special_method
from tracegrad.capture.joins import is_stack_overflow, leave_branch
from tracegrad.capture.state import OrNone
from tracegrad.capture.tracer import call_user, from_value
from tracegrad.capture.trees import MAKE_ERROR, given_args
from tracegrad.capture.trials import (
    FAULTS,
    Decision,
    Fork,
    Inside,
    Passed,
    Raises,
    Trial,
    Window,
    class_of,
    is_rare,
    refusal,
    walk,
)
from tracegrad.errors import CaptureError, InternalError
from tracegrad.ir.core import Operation

#: so often the bodies of `try` statements are captured; each takes milliseconds
_MOST_RUNS = 3000


def try_stmt(
    fn: Callable[[], None], get_state: slots.GetState, set_state: slots.SetState, names: tuple[str, ...]
) -> None:
    """Run a `try` statement, `fn`; where an operation in its body may fail at run time, stage both what comes of it.

    The state is that of `if_stmt`: it begins with the values of `names`, and holds all variables that are rebound.
    """
    _run(fn, get_state, set_state, names, 0, (), 0, None, ())


def _run(
    fn: Callable[[], None],
    get_state: slots.GetState,
    set_state: slots.SetState,
    names: tuple[str, ...],
    skipped: int,
    script: tuple[Decision, ...],
    depth: int,
    left: tuple[int, Any] | None,
    passed: tuple[Passed, ...],
) -> None:
    capture = current()
    capture.runs += 1
    if capture.runs > _MOST_RUNS:
        found = f"the bodies of the `try` statements are captured more than {_MOST_RUNS} times, for all that may fail"
        raise refusal("an error", found)
    trial = Trial(fn, get_state, slots.cells_of(get_state), skipped, script, depth, left, passed)
    capture.trials.append(trial)
    try:
        fn()
        return
    except Fork as found:
        if found.trial is not trial:
            raise
        fork = found
    except Inside as found:
        if found.window.trial is not trial:
            raise
        raise refusal("an error", "a part of an expression that does not always run") from None
    finally:
        capture.trials.pop()
        capture.journals.remove(trial.journal)
    if trial.journal.lasting:
        raise refusal(fork.place.name, f"{trial.journal.lasting}, in the same statement of the body")
    leave_branch(trial.journal)
    capture.undo(trial.changes)
    set_state(trial.entry)
    trial.clear_effects(fork.end, fork.place.name)

    met = [(outer, outer.met) for outer in capture.trials]

    def side(outcome: bool) -> Callable[[], None]:
        decisions, places = (*trial.script, Decision(fork.place, outcome)), tuple(trial.passed)
        again = (fn, get_state, set_state, names, trial.skipped, decisions, depth + 1, trial.left, places)
        return _Side(again, met).run

    test = from_value(fork.succeeds, weak=True)
    if_stmt(test, side(True), side(False), get_state, set_state, names, event="try")


class _Side:
    """A statement that is run again, on one side of a condition: with these arguments of `_run`.

    Args:
        met: how many places for handlers further outside the statements around it have come to again until there.
    """

    def __init__(self, again: tuple[Any, ...], met: list[tuple[Trial, int]]) -> None:
        self.again, self.met = again, met

    def run(self) -> None:
        for trial, met in self.met:
            trial.met = met
        _run(*self.again)


LEARNING.add(_Side.run.__code__)


class Attempt:
    """The body of a `try`, as a context manager.

    Args:
        handled: gives the exceptions, and tuples of them, that handlers catch and go on from; None for all.
        trial: the run of the statement; None where it cannot be run again.
    """

    def __init__(self, handled: Callable[[], Iterable[Any]], trial: Trial | None = None) -> None:
        self.handled, self.trial = handled, trial

    def __enter__(self) -> None:
        capture = current()
        self.block = capture.builder.block
        self.start = len(self.block.operations)
        self.window = Window(self.handled, self.trial)
        capture.windows.append(self.window)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> None:
        left = current().windows.pop()
        assert left is self.window, "bodies are left in the order they were entered"
        if self.trial is not None or (error is not None and (passes(error) or isinstance(error, GeneratorExit))):
            return
        staged = self.block.operations[self.start :]
        faults = [(o, names) for o in walk(staged) if (names := _error_names(o))]
        for operation, names in faults:
            kind = class_of(names[0])
            answer = self.window.answer(names, kind, is_rare=is_rare(operation.op, operation.attrs))
            is_raising = isinstance(answer, Raises) and answer.error is None and bool(current().windows)
            if answer is True or is_raising:
                found = "by then the handlers of the `try` around it are gone"
                raise refusal(names[0], found, span=operation.span, is_raising=is_raising)


def trial(handled: Callable[[], Iterable[Any]]) -> Attempt:
    """The body of a `try` that `try_stmt` runs."""
    return Attempt(handled, current().trials[-1])


def step(number: int, is_left: bool) -> bool:
    """Return whether a statement of the body of a `try` is to be run; is_left: whether it is a loop or branch."""
    return bool(current().trials[-1].step(number, is_left))


def error_name(operation: Operation) -> str:
    """Return the name of the exception that an operation raises by itself, or ""."""
    if operation.op == "check":
        return str(operation.attrs["error"])
    return FAULTS[operation.op][0].__name__ if operation.op in FAULTS else ""


def _error_names(operation: Operation) -> tuple[str, ...]:
    """Return the names of the exception that an operation may raise: its class, and the user's own behind it."""
    name = error_name(operation)
    if operation.op == "check":
        return (name, operation.attrs["message"].partition(":")[0])
    return (name,) if name else ()


def raised(value: Any) -> Any:
    """Return what `raise value` raises; of several it is the last one, where those before are raised here."""
    if type(value) is OrNone:
        value = value.read("exceptions must derive from BaseException")
    if type(value) is Conflict:
        raise value.error
    options = _errors_of(value) if isinstance(value, BaseException) else value
    if type(options) is not Chosen:
        return value
    *before, last = options.options
    for number, option in enumerate(before):
        test = is_at(options, number)
        if_stmt(test, functools.partial(_raise, option), do_nothing, tuple, do_nothing, (), joins=False)
    return raised(last)


def cause(value: Any) -> Any:
    """Return what `raise error from value` notes, which compiled code does not show: nothing, where it is not known."""
    return None if isinstance(value, OrNone | Conflict) else value


def _raise(value: Any) -> None:
    raise raised(value)


def _errors_of(error: BaseException) -> Chosen | None:
    """Return the exceptions that one is of which an argument is one of several texts; None for others."""
    args = given_args(error)
    place = next((number for number, argument in enumerate(args) if type(argument) is Chosen), None)
    if place is None:
        return None
    chosen, made = args[place], []
    for option in chosen.options:
        one = MAKE_ERROR[0](type(error), (*args[:place], option, *args[place + 1 :]))
        vars(one).update({name: value for name, value in vars(error).items() if name != GIVEN})
        current().register_created(one)
        made.append(one)
    return Chosen(Options(made, chosen.cause), chosen.index)


def passes(error: BaseException) -> bool:
    """Return whether an exception is capture's own, which no handler sees; a stack without room may be its own, too."""
    return isinstance(error, CaptureError | Signal | InternalError) or is_stack_overflow(error)


def passing() -> Any:
    """Return the class of the exception being handled, if it is capture's own and no handler may see it, else ()."""
    error = sys.exc_info()[1]
    return type(error) if error is not None and passes(error) else ()


class _Managed:
    """What a context manager of a user's class becomes in captured code: its methods are captured."""

    def __init__(self, manager: Any, enter: Any, leave: Any) -> None:
        self.manager, self.enter, self.leave = manager, enter, leave
        self.attempt = Attempt(lambda: [Exception]) if leave is not None and _may_swallow(leave) else nullcontext()

    def __enter__(self) -> Any:
        self.attempt.__enter__()
        return self.manager.__enter__() if self.enter is None else call_user(self.enter, self.manager)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> bool:
        self.attempt.__exit__(kind, error, traceback)
        if error is not None and passes(error):
            return False  # what the body has stored is undone
        if self.leave is None:
            return bool(self.manager.__exit__(kind, error, traceback))
        return bool(call_user(self.leave, self.manager, kind, error, traceback))


def _may_swallow(leave: Any) -> bool:
    """Return whether `__exit__` may return something true, so that an exception goes no further."""
    code = getattr(leave, "__code__", None)
    if code is None:
        return False
    before = None
    for instruction in dis.get_instructions(code):
        returned = before if instruction.opname == "RETURN_VALUE" else instruction
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            is_constant = returned is not None and returned.opname in ("LOAD_CONST", "RETURN_CONST")
            if not is_constant or returned is None or returned.argval:
                return True
        before = instruction
    return False


class _Other:
    """What a context manager becomes that is called `suppress` and is another one: no exception is caught in it."""

    def __init__(self, manager: Any) -> None:
        self.manager = context(manager)

    def __enter__(self) -> tuple[()]:
        self.manager.__enter__()
        return ()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> Any:
        return self.manager.__exit__(kind, error, traceback)


def suppressing(manager: Any) -> Any:
    """The context manager of `with suppress(...)`; it gives the exceptions that its body catches."""
    return nullcontext(_kinds(manager)) if isinstance(manager, contextlib.suppress) else _Other(manager)


def _kinds(native: Any) -> tuple[Any, ...]:
    """Return the exceptions that a `contextlib.suppress` catches."""
    kinds: tuple[Any, ...] = native._exceptions
    return kinds


class _Suppress:
    """What `contextlib.suppress` becomes in captured code where it has another name."""

    def __init__(self, native: Any) -> None:
        self.native, self.attempt = native, Attempt(lambda: _kinds(native))

    def __enter__(self) -> Any:
        self.attempt.__enter__()
        return self.native.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> Any:
        self.attempt.__exit__(kind, error, traceback)
        return not (error is not None and passes(error)) and self.native.__exit__(kind, error, traceback)


def context(manager: Any) -> Any:
    """The context manager of a `with` statement."""
    if isinstance(manager, contextlib.suppress):
        return _Suppress(manager)
    enter, leave = special_method(manager, "__enter__"), special_method(manager, "__exit__")
    return manager if enter is None and leave is None else _Managed(manager, enter, leave)
