"""`for` and `while`: run natively on Python values, or staged into IR regions on traced ones.

Called by hooks.py with functions for the parts of a statement. Previous: exits.py; next: hooks.py.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracegrad.capture.branches import and_, has_remedy, if_stmt, truth
from tracegrad.capture.context import Frame, RestageError, Signal, current, learn, lesson, user_span
from tracegrad.capture.exits import Ends, Exit, staged
from tracegrad.capture.iterators import Ahead, long_error, note_left, taking
from tracegrad.capture.lengths import at_least
from tracegrad.capture.linear import ends
from tracegrad.capture.lists import StackedList, restore, snapshot
from tracegrad.capture.loop_body import Fault, Stop, attempt, faults, never_runs, stage_loop
from tracegrad.capture.loop_lengths import UNROLL_LIMIT
from tracegrad.capture.loop_state import LoopState
from tracegrad.capture.sequences import Sequence_, as_known_sequence, is_zero
from tracegrad.capture.sizes import as_dim, as_size
from tracegrad.capture.slots import GetState, SetState
from tracegrad.capture.state import flatten, is_same_object
from tracegrad.capture.tables import note_filled
from tracegrad.capture.tracer import Tracer, asarray, call_handler, cast_to, from_value, resolve_content
from tracegrad.capture.trials import Leaves
from tracegrad.errors import CaptureError, NeedsPythonValue, Span
from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Block, Operation, Value
from tracegrad.ir.types import I64, ArrayType, Dim, SymbolicDim

#: shorter ones are unrolled rather than to make an array of a list that they index
_FEW_ITERATIONS = 8
#: a loop at capture gives up after so many iterations that change nothing which Python knows of the names it binds
_ENDLESS_LIMIT = 1024


def for_stmt(
    iterable: Any,
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
) -> None:
    """Run a loop, of which all items are taken unless there is a further test."""
    sequence = as_known_sequence(iterable)
    with taking(iterable, all_items=extra_test is None):
        _run(iterable, sequence, body_fn, get_state, set_state, names, extra_test)


def _run(
    iterable: Any,
    sequence: Sequence_ | None,
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
) -> None:
    """Stage a loop over a range, an array or ints that Python knows; run any other one in Python."""
    capture, span = current(), user_span()
    if sequence is None and type(iterable) is itertools.count and extra_test is not None:
        _count_up(iterable, body_fn, get_state, set_state, names, extra_test)
        return
    if sequence is None:
        capture.note_native("for: run at capture, over Python values")
        _run_natively(iter(iterable), body_fn, get_state, set_state, names, extra_test)
        return
    length = sequence.length
    if isinstance(length, int) and length == 0:
        return
    if sequence.lists:
        body_fn = functools.partial(sequence.run_checked, body_fn)
    reason = help = ""
    native = sequence.native
    cause: CaptureError | None = None
    for peeled in range(3):
        try:
            _stage_any_for(sequence, body_fn, get_state, set_state, names, extra_test)
            capture.events.append((span, f"for: staged{f' after {peeled} peeled iterations' if peeled else ''}"))
            return
        except Fault as fault:
            inside = sequence.start < sequence.stop if sequence.step > 0 else sequence.start > sequence.stop
            goes_on = truth(inside if extra_test is None else and_(inside, extra_test))
            first = functools.partial(_run_first, sequence, body_fn)
            never_runs(goes_on, fault.error, first, get_state, set_state, names)
            return
        except Stop:
            capture.note_native("for: run at capture, nothing in it is traced")
            _run_natively(
                iter(sequence) if native is None else native, body_fn, get_state, set_state, names, extra_test
            )
            return
        except NeedsPythonValue as error:
            # what a `try` runs again finds the lists that it has made arrays
            few = isinstance(length, int) and length <= _FEW_ITERATIONS and not capture.trials
            if not few and not sequence.is_of(error.remedy) and has_remedy(error):
                for_stmt(sequence, body_fn, get_state, set_state, names, extra_test)
                return
            reason, help, cause = _need(error), error.help, error
            break
        except CaptureError as error:
            if not sequence.unrolls:
                raise
            reason, help, cause = error.title, error.help, error
            break
        except RestageError as error:
            reason, help, cause = error.reason, error.help, None
            if (
                length is None
                or (isinstance(length, int) and length <= 1)
                or peeled == 2
                or extra_test is not None
                or "list" in reason
            ):
                break
            # structure settles after the first iteration in `previous = None`-like code: run that one by itself
            body_fn(sequence.item(sequence.start) if native is None else next(native))
            sequence = sequence.rest()
            length -= 1
            if not sequence.is_kept:
                break
    if isinstance(length, SymbolicDim):
        length = operator.index(as_size(length))  # unrolled for this size only
    if length is None and all(resolve_content(asarray(bound)) is not None for bound in (sequence.start, sequence.stop)):
        length = len(sequence)
    if length is None or (length > UNROLL_LIMIT and not sequence.unrolls):
        many = f"{length} iterations" if length is not None else "a number of iterations known only at run time"
        # when the length is known in an enclosing loop, that one is unrolled
        raise (NeedsPythonValue if length is None else CaptureError)(
            "the loop can neither be staged nor unrolled",
            code="TG120",
            span=span,
            found=f"{reason}; {many} (at most {UNROLL_LIMIT} are unrolled)",
            help=help,
        ) from cause
    where = f", at line {cause.span.line}" if cause is not None and cause.span is not None else ""
    capture.events.append((span, f"for: unrolled {length} times: {reason}{where}"))
    _run_natively(iter(sequence) if native is None else native, body_fn, get_state, set_state, names, extra_test)


def _run_first(sequence: Sequence_, body_fn: Callable[[Any], None]) -> None:
    body_fn(sequence.item(sequence.start))


def _stage_any_for(
    sequence: Sequence_,
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
) -> None:
    """Stage a loop, as one that ends early where a condition or an exception ends it."""
    known = lesson(body_fn, "ends")
    try:
        try:
            if known is None:
                _stage_for(sequence, body_fn, get_state, set_state, names, extra_test)
                return
        except _TracedBreak:
            learn(body_fn, "ends", known := _BREAKS)
        if known is _BREAKS:
            _stage_breaking_for(sequence, body_fn, get_state, set_state, names, extra_test)
            return
    except Leaves:
        learn(body_fn, "ends", known := Ends())
    assert isinstance(known, Ends)

    def stage(way: Exit) -> None:
        state = way.get_state, way.set_state, way.names
        body = way.body(lambda k: body_fn(sequence.item(k)))
        _stage_breaking_for(sequence, body, *state, way.test(extra_test), takes_index=True)

    staged(stage, get_state, set_state, names, known)


#: what is learnt of a loop that a condition ends early
_BREAKS = "breaks"


class _TracedBreak(Signal):
    """The loop ends early on a traced condition: it is a while loop."""


def _run_natively(
    items: Iterator[Any],
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
) -> None:
    ahead = Ahead(items)
    for number in itertools.count():
        goes_on = extra_test is None or truth(extra_test())
        if goes_on is False:
            return
        ahead.is_sure = not isinstance(goes_on, Tracer)
        if not ahead.is_sure:
            if ahead.count > UNROLL_LIMIT and not _has_end(items):
                raise long_error(f"an iterator, {type(items).__name__!r}", CaptureError)
        try:
            item = next(ahead)
        except StopIteration:
            return
        if extra_test is None and number > _ENDLESS_LIMIT and isinstance(items, itertools.count | itertools.cycle):
            raise _endless_error(user_span())
        if isinstance(goes_on, Tracer):
            if isinstance(items, itertools.cycle):
                raise long_error("itertools.cycle", CaptureError)
            if_stmt(goes_on, functools.partial(body_fn, item), lambda: None, get_state, set_state, names)
        else:
            body_fn(item)


def _has_end(items: Iterator[Any]) -> bool:
    """Return whether an iterator says how many items are left."""
    return operator.length_hint(items, -1) >= 0


def _count_up(
    numbers: itertools.count[Any],
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any],
) -> None:
    """Run a loop over itertools.count that a condition ends, as a while loop."""
    ahead = copy.copy(numbers)
    first, second = next(ahead), next(ahead)
    step = second - first
    following: list[Any] = [first]

    def body() -> None:
        number = following[0]
        following[0] = number + step
        body_fn(number)

    def set_all(values: tuple[Any, ...]) -> None:
        set_state(values[:-1])
        following[0] = values[-1]

    while_stmt(extra_test, body, lambda: (*get_state(), following[0]), set_all, (*names, "tg_index"))
    note_ended(get_state, set_state, names)
    if isinstance(following[0], Tracer):
        note_left(numbers)
    else:
        while following[0] != next(copy.copy(numbers)):
            next(numbers)


def note_ended(get_state: GetState, set_state: SetState, names: tuple[str, ...]) -> None:
    """Note that a loop over an endless iterator has ended: the flag is set that ends it, if there is one only."""
    flags = [k for k, name in enumerate(names) if name.startswith(("tg_break", "tg_returned"))]
    if len(flags) == 1:
        values = [*get_state()]
        values[flags[0]] = True
        set_state(tuple(values))


def _check_kept(sequence: Sequence_) -> None:
    """Check that the body of a staged loop has left the list of Python values that it runs over as it was.

    Raises:
        NeedsPythonValue: it has not, so the loop goes on by what Python finds in it.
    """
    if not sequence.is_kept:
        raise NeedsPythonValue(
            "a list changes while a loop runs over it",
            code="TG134",
            span=user_span(),
            found="a list of ints",
            help="loop over a copy, `for v in list(values)`, for the items from before only",
        )


def _bound(value: Any) -> Value:
    return cast_to(asarray(value), I64).value


def _stage_for(
    sequence: Sequence_,
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
) -> None:
    length = sequence.length
    state = LoopState(names, get_state, set_state, most=sequence.most if length is None else None)
    span = user_span()
    start, stop = _bound(sequence.start), _bound(sequence.stop)
    begins = extra_test is None or truth(extra_test()) is True
    filled: list[tuple[Value, Frame]] = []
    given: list[Any] = []

    def parts() -> list[tuple[list[Value], Callable[[], Value | None]]]:
        index = Value(ArrayType(I64), "")

        def run() -> None:
            k = from_value(index, weak=True)
            _note_range(index, sequence, start, stop)
            filled[:] = [(index, current().frame)]
            if state.growing or state.lengths:
                state.start_iteration(_number_of(k, sequence))
            with faults():
                given[:] = [sequence.item(k)]
                body_fn(given[0])
            _check_kept(sequence)
            if extra_test is not None:
                goes_on = truth(extra_test())
                if isinstance(goes_on, Tracer) and begins and _is_as_before(goes_on.value):
                    return
                if isinstance(goes_on, Tracer) or not goes_on:
                    raise _TracedBreak

        return [([index], run)]

    def emit(inits: list[Value], blocks: list[Block], types: list[ArrayType]) -> Operation:
        attrs = {"step": sequence.step, "reverse": False}
        return Operation("for", [start, stop, *inits], attrs, blocks, list(types), span)

    stage_loop(state, parts, emit, length)
    if state.growing and length is None and extra_test is None and abs(sequence.step) == 1:
        distance = sequence.stop - sequence.start if sequence.step == 1 else sequence.start - sequence.stop
        state.finish_steps(distance if at_least(distance, 0) else call_handler(np.maximum, distance, 0))
    first = as_dim(sequence.start)
    if length is not None and first is not None and sequence.step == 1:
        for index, frame in filled:
            note_filled(frame.fills, index, first, length)
    if isinstance(length, int):
        set_state(_with_known(get_state(), given[0], sequence))


def _with_known(variables: tuple[Any, ...], item: Any, sequence: Sequence_) -> tuple[Any, ...]:
    """Return the variables after a loop over ints, where those that hold parts of its item are known."""
    parts = item if isinstance(item, tuple) else (item,)
    if not all(isinstance(part, Tracer) and part.weak and part.dtype.kind == "i" and not part.ndim for part in parts):
        return variables

    def settled(variable: Any) -> Any:
        operation = variable.value.producer if type(variable) is Tracer else None
        if operation is None or operation.op != "for":
            return variable
        yielded = operation.blocks[0].yields[operation.results.index(variable.value)]
        for place, part in enumerate(parts):
            if part.value is yielded:
                last = sequence.item(sequence.start + (len(sequence) - 1) * sequence.step)
                return last[place] if isinstance(item, tuple) else last
        return variable

    return tuple(map(settled, variables))


def _is_as_before(goes_on: Value) -> bool:
    """Return whether no flag that ends a loop is set in its body: the test is one of its own variables alone."""
    operation = goes_on.producer
    if operation is None:
        return True
    tests = ("logical_not", "logical_or", "logical_and", "bitwise_or")
    return operation.op in tests and all(map(_is_as_before, operation.operands))


def _number_of(index: Tracer, sequence: Sequence_) -> Any:
    """Return the number of an iteration, from 0."""
    distance: Any = index if is_zero(sequence.start) else index - sequence.start
    return distance if sequence.step == 1 else -distance if sequence.step == -1 else distance // sequence.step


def _note_range(index: Value, sequence: Sequence_, start: Value, stop: Value) -> None:
    """Note which values the index of the loop that is being staged takes, when that is known."""
    capture, length = current(), sequence.length
    if sequence.step > 0:
        capture.indices[index] = (start, 0), (stop, -1)
    else:
        capture.indices[index] = (stop, 1), (start, 0)
    first, end = static_value(start), static_value(stop)
    if length is not None and first is not None and end is not None:
        last = first + (length - 1) * sequence.step
        capture.ranges[index] = (first, last) if sequence.step > 0 else (last, first)
        return
    starts, stops = ends(start, capture.ranges), ends(stop, capture.ranges)
    if starts is not None and stops is not None:
        capture.ranges[index] = (starts[0], stops[1] - 1) if sequence.step > 0 else (stops[0] + 1, starts[1])


def _stage_breaking_for(
    sequence: Sequence_,
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
    *,
    takes_index: bool = False,
) -> None:
    """Stage a loop that ends early; takes_index: whether the body gets the place of an item, and reads it itself."""
    assert extra_test is not None
    test = extra_test
    start = from_value(_bound(sequence.start), weak=True)
    index: list[Any] = [start]
    stop = from_value(_bound(sequence.stop), weak=True)

    def get_all() -> tuple[Any, ...]:
        return (*get_state(), index[0])

    def set_all(values: tuple[Any, ...]) -> None:
        set_state(values[:-1])
        index[0] = values[-1]

    def test_fn() -> Any:
        inside = index[0] < stop if sequence.step > 0 else index[0] > stop
        return and_(inside, test)

    def body() -> None:
        k = index[0]
        _note_range(k.value, sequence, start.value, stop.value)
        body_fn(k if takes_index else sequence.item(k))
        _check_kept(sequence)
        index[0] = k + sequence.step

    runs = type(sequence.length) is int and sequence.length > 0 and test() is True
    _stage_while(test_fn, body, get_all, set_all, (*names, "tg_index"), sequence.length, runs=runs)


def while_stmt(
    test_fn: Callable[[], Any],
    body_fn: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
) -> None:
    """Stage a loop whose condition is traced, or is so by what the body stores; run any other one in Python."""
    capture, span = current(), user_span()
    test, remedies = _Test(test_fn), _Remedies()
    endless = _Endless(get_state, span)
    iterations = 0
    while True:
        reason, help, is_native = "", "", False
        cause: CaptureError | None = None
        fault: Fault | None = None
        try:
            _stage_any_while(test, body_fn, get_state, set_state, names)
            capture.events.append((span, "while: staged"))
            return
        except Fault as found:
            reason, fault = f"its body raises {type(found.error).__name__}", found
        except Stop:
            is_native = True  # only Python values decide
        except NeedsPythonValue as error:
            if test.is_known and error.remedy is not None:
                is_native = not capture.trials and _ends_soon(test_fn, body_fn, get_state, set_state)
            if not is_native and remedies.has(error, is_kept=test.is_known):
                continue
            reason, help, cause = _need(error), error.help, error
        except RestageError as error:
            reason, help = error.reason, error.help
        except CaptureError as error:
            if not test.is_known:
                raise
            reason, help, cause = error.title, error.help, error
        remedies.take_back()
        goes_on = truth(test_fn())
        if isinstance(goes_on, Tracer):
            if fault is not None:
                never_runs(goes_on, fault.error, body_fn, get_state, set_state, names)
                return
            raise CaptureError(
                "the loop cannot be staged",
                code="TG122",
                span=span,
                found=reason or "its condition is a Python value at first, and a traced one later",
                help=help or "start with the same kind of values that the loop goes on with",
            ) from cause
        while not isinstance(goes_on, Tracer):
            if not goes_on:
                return
            capture.note_native("while: run at capture")
            body_fn()
            iterations += 1
            most = _ENDLESS_LIMIT if test.is_known else UNROLL_LIMIT
            if endless.lasts(most) if test.is_known or not reason else iterations > most:
                if not reason:
                    raise _endless_error(span)
                raise CaptureError(
                    "the loop can neither be staged nor unrolled",
                    code="TG120",
                    span=span,
                    found=f"{reason}; more than {most} iterations",
                    help=help,
                ) from cause
            if not is_native and test.is_tried_after(iterations):
                break
            goes_on = truth(test_fn())


class _Test:
    """The test of a while loop.

    Attributes:
        is_known: whether Python knows what it gives at first, whatever the names are that the loop binds.
    """

    def __init__(self, fn: Callable[[], Any]) -> None:
        self.fn, self.is_known = fn, False

    def __call__(self) -> Any:
        return self.fn()

    def is_tried_after(self, iterations: int) -> bool:
        """Return whether the rest of the loop may be staged where that failed for the whole of it."""
        return not self.is_known or iterations <= _FEW_ITERATIONS or not iterations & (iterations - 1)


class _Remedies:
    """Makes lists and dicts arrays so that a loop can be staged; they are again what they were where it cannot be."""

    def __init__(self) -> None:
        self.mark = len(current().changes)
        self.before: dict[int, tuple[Any, Any]] = {}

    def has(self, error: NeedsPythonValue, *, is_kept: bool) -> bool:
        """Do what lets the loop be staged after all, if there is something; return whether there was.

        Args:
            is_kept: whether the loop may run in Python without it.
        """
        values = error.remedy.values if error.remedy is not None else None
        before = dict(values) if isinstance(values, dict) else None if values is None else snapshot(values)
        if not has_remedy(error):
            return False
        if is_kept:
            self.before.setdefault(id(values), (values, before))
        return True

    def take_back(self) -> None:
        """Undo what was done for a loop that cannot be staged."""
        for values, before in self.before.values():
            if isinstance(values, dict):
                values.clear()
                values.update(before)
            else:
                restore(values, before)
        if self.before:
            current().undo(self.mark)
            self.before.clear()


def _ends_soon(
    test_fn: Callable[[], Any], body_fn: Callable[[], None], get_state: GetState, set_state: SetState
) -> bool:
    """Return whether a loop that Python runs ends after a few iterations."""

    def run() -> bool:
        for _ in range(_FEW_ITERATIONS + 1):
            goes_on = truth(test_fn())
            if goes_on is not True:
                return goes_on is False
            body_fn()
        return False

    return _holds(run, get_state, set_state)


def _holds(fn: Callable[[], Any], get_state: GetState, set_state: SetState) -> bool:
    """Return whether Python knows that something holds here, without what it does."""
    entry = get_state()
    try:
        return attempt(fn) is True
    finally:
        set_state(entry)


def _stage_any_while(
    test_fn: _Test,
    body_fn: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
) -> None:
    """Stage a loop, with an end where an exception leaves its body."""
    known = lesson(body_fn, "ends")
    if known is None:
        try:
            _stage_while(test_fn, body_fn, get_state, set_state, names)
            return
        except Leaves:
            learn(body_fn, "ends", known := Ends())

    def stage(way: Exit) -> None:
        _stage_while(way.test(test_fn), way.body(body_fn), way.get_state, way.set_state, way.names)

    staged(stage, get_state, set_state, names, known)


def _need(error: NeedsPythonValue) -> str:
    """Return why a loop cannot be staged; of a loop inside that cannot be either, the reason of that one."""
    return f"it needs a Python value: {error.title if error.code != 'TG120' else f'a loop in it ({error.found})'}"


class _Endless:
    """Counts iterations at capture that stage something and change no Python value; they never end."""

    def __init__(self, get_state: GetState, span: Span | None) -> None:
        self.get_state, self.span, self.count = get_state, span, 0
        self.before = self._look()

    def _look(self) -> tuple[int, list[Any]]:
        leaves = (leaf for value in self.get_state() for leaf in flatten(value)[0])
        return len(current().builder.block.operations), [leaf for leaf in leaves if not isinstance(leaf, Tracer)]

    def lasts(self, most: int) -> bool:
        """Note the end of an iteration; return whether there have been more such ones in a row."""
        (staged, values), self.before = self.before, self._look()
        now_staged, now_values = self.before
        same = len(values) == len(now_values) and all(a is b for a, b in zip(values, now_values, strict=True))
        self.count = self.count + 1 if same and now_staged > staged else 0
        return self.count > most


def _endless_error(span: Span | None) -> CaptureError:
    return CaptureError(
        "the loop has no end that is known at capture",
        code="TG120",
        span=span,
        found=f"{_ENDLESS_LIMIT} iterations, of which each goes on; an exception under a traced condition does not end "
        "a loop at capture",
        help="end it by a traced condition, `while x > 0:` or `if ...: break`, and raise after the loop",
    )


def _stage_while(
    test_fn: Callable[[], Any],
    body_fn: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    most: Dim | None = None,
    *,
    runs: bool = False,
) -> None:
    state = LoopState(names, get_state, set_state, most)
    state.runs = runs or _holds(lambda: truth(test_fn()), get_state, set_state)
    span = user_span()

    def condition() -> Value:
        before = _parts(state)
        test = truth(test_fn())
        state.is_open = not isinstance(test, Tracer)
        if not isinstance(test, Tracer):
            if not test or not isinstance(test_fn, _Test):
                raise Stop
            test_fn.is_known = True
            return current().builder.constant(True)
        after = _parts(state)
        if len(before) != len(after) or not all(map(is_same_object, before, after)):
            raise _BindingTest
        return test.value

    def emit(inits: list[Value], blocks: list[Block], types: list[ArrayType]) -> Operation:
        return Operation("while", list(inits), {}, blocks, list(types), span)

    def body() -> None:
        with faults():
            body_fn()

    try:
        stage_loop(state, lambda: [([], condition), ([], body)], emit, None)
    except _BindingTest:
        if names[-1:] == (_GOES_ON,):
            raise RestageError("a list that the test of the loop changes is bound in its body") from None
        _stage_binding_while(test_fn, body_fn, get_state, set_state, names)


def _parts(state: LoopState) -> list[Any]:
    """Return what a test that binds names replaces."""
    parts: list[Any] = []
    for value in state.get():
        if isinstance(value, StackedList):
            parts.extend([value, *(column.buffer.value for column in value.parts()), value.length])
        else:
            parts.extend(flatten(value)[0])
    return parts


#: the name of the variable that holds the test of a loop which binds names
_GOES_ON = "tg_goes_on"


class _BindingTest(Signal):
    """The test of a while loop binds names (`while (y := f(x)) > 0`), which the body reads."""


def _stage_binding_while(
    test_fn: Callable[[], Any],
    body_fn: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
) -> None:
    """Stage a loop whose test binds names: the test is run before the loop and at the end of its body."""
    goes_on: list[Any] = [truth(test_fn())]

    def body() -> None:
        body_fn()
        goes_on[0] = truth(test_fn())

    def set_all(values: tuple[Any, ...]) -> None:
        set_state(values[:-1])
        goes_on[0] = values[-1]

    _stage_while(lambda: goes_on[0], body, lambda: (*get_state(), goes_on[0]), set_all, (*names, _GOES_ON))
