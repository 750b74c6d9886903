"""Operations in the body of a `try` of which only the run knows whether they fail: handlers are captured for both.

Asked by the builder of a capture before each operation that may fail, and by branches.py. Previous: tracer.py; next:
constants.py; attempts.py runs the statements.

The body is left where the first such operation stands, and what it has changed is undone. Then the statement is run
twice more, as the two sides of a condition: on one the operation succeeds, on the other it raises its error, which
Python brings to the handlers. What comes later in the body may fail too, which is another condition inside the first.
Statements of the body that have ended before are not run again. Where a branch of the user's holds the operation, its
test is decided before in this way, so that the operation stands in the body itself; a loop is unrolled.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tracegrad import ops
from tracegrad.capture.context import SETTLES, Frame, Signal, current, learn, learns, lesson, user_span
from tracegrad.capture.linear import ends
from tracegrad.capture.text import describe_error, keep_text
from tracegrad.capture.tracer import INTENDED, Tracer, call_user
from tracegrad.errors import CaptureError, Span
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.liveness import find_dead, has_effect
from tracegrad.ir.opdef import TABLE, OpDef, interpreter
from tracegrad.ir.types import I64, Dim

_LINEAR = np.linalg.LinAlgError
#: operations that fail by themselves -> their error, and what NumPy says
FAULTS: dict[str, tuple[type[Exception], str]] = {
    "gather": (IndexError, "index is out of bounds"),
    "scatter_add": (IndexError, "index is out of bounds"),
    "scatter_set": (IndexError, "index is out of bounds"),
    "cholesky": (_LINEAR, "Matrix is not positive definite"),
    "solve": (_LINEAR, "Singular matrix"),
    "inv": (_LINEAR, "Singular matrix"),
    "eigh": (_LINEAR, "Eigenvalues did not converge"),
    "svd": (_LINEAR, "SVD did not converge"),
    "pinv": (_LINEAR, "SVD did not converge"),
}


def said(function: Callable[..., Any], *args: Any) -> str:
    """Return the message of the error that a function of Python raises."""
    try:
        function(*args)
    except (ArithmeticError, ValueError) as error:
        return str(error)
    raise AssertionError("the call fails")


#: messages that are those of Python and NumPy; what another error says is not known to its handler
_AS_PYTHON = frozenset(
    {said(f, x, y) for f in (operator.truediv, operator.floordiv, operator.mod) for x, y in ((1, 0), (1.0, 0.0))}
    | {
        said(math.sqrt, -1.0),
        said(math.exp, 1e3),
        said(int, math.nan),
        said(int, math.inf),
        said(operator.lshift, 1, -1),
    }
    | {FAULTS[name][1] for name in ("cholesky", "solve", "inv")}
)
#: messages where compiled code ends and Python goes on: no handler catches them
BEYOND_INT64 = "cannot convert float infinity, or one beyond 64 bits, to integer"
OUTGROWN = "an int in a loop outgrows 64 bits"
NEGATIVE_POWER = "a negative power of an int is a float; write float(base) ** exponent"
_LIMITS = frozenset({BEYOND_INT64, OUTGROWN, NEGATIVE_POWER})
#: what a power of Python floats that is too large says
TOO_LARGE_POWER = said(operator.pow, 1e200, 2)
#: so many operations of one body may fail, one after the other
_MOST = 24
#: the sides of so many branches that may fail are followed to the end of the body, those of others meet behind them
_FORKED = 2

#: name of an exception -> what to do for it not to come
_INSTEAD = {
    "ValueError": "test the condition before with `if` (`if x > 0: y = math.log(x)`)",
    "ZeroDivisionError": "test the condition before with `if` (`if x != 0: y = 1 / x`)",
    "IndexError": "test the condition before with `if` (`if i < len(x): y = x[i]`)",
    "LinAlgError": "make the matrix regular before (`a + 1e-9 * np.eye(n)`)",
}


class Fork(Signal):
    """The body of a `try` has come to an operation that may fail."""

    def __init__(self, trial: Trial, succeeds: Value, place: Place) -> None:
        self.trial, self.succeeds, self.place = trial, succeeds, place
        self.end = len(current().builder.block.operations)


class Inside(Signal):
    """A branch in the body of a `try` holds an operation that may fail: its test is decided first.

    Args:
        raises: the test of the branch, where one side of it does nothing but fail.
    """

    def __init__(self, window: Window, raises: Any = None) -> None:
        self.window, self.raises = window, raises

    def is_joined(self, test: Any) -> bool:
        """Return whether the sides of a branch are to meet behind it, so that the rest is not captured for each."""
        trial = self.window.trial
        return trial is not None and trial.decided >= _FORKED and self.raises is not test


def note_inside(fn: Callable[[], None], inside: Inside, test: Any) -> None:
    """Note that a branch holds an operation that may fail, for when it is captured here again."""
    key = inside.window.key
    if key is not None:
        learn(fn, "inside", {**(lesson(fn, "inside") or {}), key: inside.raises is test})


def known_inside(fn: Callable[[], None], test: Any) -> Inside | None:
    """Return what the capture of a branch has come to when it was here before."""
    capture = current()
    frame = capture.frame
    if not learns(fn):
        return None
    for trial in capture.trials:
        if trial.frame is frame:
            trial.branches += 1
    found = lesson(fn, "inside")
    if found:
        for window in reversed(capture.windows):
            if window.trial is not None and window.frame is frame and window.key in found:
                return Inside(window, test if found[window.key] else None)
    return None


class Leaves(Signal):
    """A loop in the body of a `try` holds an operation that may fail: it is staged with an end there (exits.py).

    Attributes:
        name: of the error that the operation raises.
    """

    def __init__(self, name: str) -> None:
        self.name = name


class Place(NamedTuple):
    """A place of the body where it goes both ways: an operation that raises an error of this name, or a test.

    Attributes:
        branches: how many branches have begun in the statement until there.
    """

    name: str
    span: Span | None
    branches: int


class Decision(NamedTuple):
    """What was decided at a place of the body, and how it goes."""

    place: Place
    outcome: bool


class Passed(NamedTuple):
    """A place in the body of a `try` at which an operation does not fail, though it may, for a handler further outside.

    Attributes:
        trial: the statement of the handler.
    """

    trial: Trial
    name: str
    span: Span | None


class Trial:
    """One run of a `try` statement.

    Args:
        skipped: so many statements of its body were run before.
        script: what was decided in the others, in their order.
        depth: of conditions that were made before.
        left: the number of a statement, and what has left the one before it, for which it is run again (exits.Exit).
        passed: places for handlers outside that it has come to before, in their order, where nothing failed.
    """

    def __init__(
        self,
        fn: Callable[[], None],
        get_state: Callable[[], Any],
        carried: frozenset[int],
        skipped: int,
        script: Sequence[Decision],
        depth: int,
        left: tuple[int, Any] | None,
        passed: Sequence[Passed],
    ) -> None:
        self._expected, self.met = tuple(passed), 0
        self.left, self.code, self._running = left, getattr(fn, "__code__", None), -1
        #: where the statement stands; and how many branches have begun there since the last settled step
        self.frame, self.branches = current().frame, 0
        self.get_state, self.carried = get_state, carried
        self.skipped, self.script, self.depth = skipped, tuple(script), depth
        self.journal = Frame("attempt", current().builder.block, carried=carried)
        self.settle(skipped, self.script)

    @property
    def decided(self) -> int:
        """How many places were decided until now."""
        return self.depth - len(self.script) + self.position

    def settle(self, skipped: int, script: tuple[Decision, ...]) -> None:
        """Keep what was done until now: if the statement is run again, it starts from here."""
        capture = current()
        self.skipped, self.script, self.position, self.branches = skipped, script, 0, 0
        self.passed: list[Passed] = []
        self.entry = self.get_state()
        self.start = len(capture.builder.block.operations)
        self.changes = len(capture.changes)
        if self.journal in capture.journals:
            capture.journals.remove(self.journal)
        self.journal = Frame("attempt", capture.builder.block, carried=self.carried, level=capture.depth)
        capture.journals.append(self.journal)

    def step(self, number: int, is_left: bool) -> bool:
        """Return whether a statement of the body is to be run; is_left: whether it is a loop or branch."""
        if number < self.skipped:
            return False
        if self.position == len(self.script):
            self.settle(number, ())
        self._running = number if is_left else -1
        if self.left is not None and self.left[0] == number:
            self.left[1].leave()
        return True

    def keep_exit(self, way: Any, get_state: Callable[[], Any]) -> bool:
        """Keep how a statement with this state is left until the next step, before which it need not be run again;
        return whether it is a statement of the body itself."""
        code = getattr(get_state, "__code__", None)
        is_own = self._running >= 0 and self.code is not None and code in self.code.co_consts
        if not is_own or current().frame is not self.frame:
            return False
        self.left = self._running + 1, way
        return True

    def decide(self, succeeds: Callable[[], Value], name: str, span: Span | None) -> bool:
        """Return how a place of the body goes.

        Raises:
            Fork: it goes both ways.
        """
        place = Place(name, span, self.branches)
        if self.position < len(self.script):
            decision = self.script[self.position]
            self.position += 1
            if decision.place != place:
                raise refusal(name, "a statement in a `try` that does not run in the same way twice")
            return decision.outcome
        if self.depth >= _MOST:
            raise refusal(name, f"more than {_MOST} operations in one `try` that may fail, one after the other")
        raise Fork(self, succeeds(), place)

    def passes_again(self, place: Passed) -> bool:
        """Return whether nothing failed at a place for a handler outside when the statement was run before: it has not
        come yet to what was decided in it since."""
        if self.position == len(self.script) or self._expected[self.met : self.met + 1] != (place,):
            return False
        self.met += 1
        self.passed.append(place)
        return True

    def clear_effects(self, end: int, name: str) -> None:
        """Remove what the abandoned run has printed, and what it has checked while it was left."""
        capture = current()
        operations = capture.builder.block.operations
        kept = operations[: self.start]
        capture.abandoned.update(walk(operations[self.start :]))
        for number, operation in enumerate(operations[self.start :], self.start):
            if not has_effect(operation) or (number < end and _only_checks(operation)):
                kept.append(operation)
            elif operation.op not in ("print", "check"):
                raise refusal(name, "a loop or a call in the same statement that prints")
        operations[:] = kept


class Raises:
    """A handler that raises in any case.

    Args:
        kinds: the exception, or a tuple of them, that it catches; None for all.
        error: makes the exception that it raises in the place of another one, or again, and does nothing else; None: it
            may do other things, and where no handler outside may see it, the first exception is raised at run time.
    """

    def __init__(self, kinds: Any, error: Callable[[BaseException], Any] | None) -> None:
        self.kinds, self.error = kinds, error

    def instead_of(self, error: BaseException) -> BaseException:
        """Return what is raised in the place of an exception."""
        made = self.error(error) if self.error is not None else error
        made = call_user(made) if isinstance(made, type) else made
        return made if isinstance(made, BaseException) else error


class Alike(NamedTuple):
    """A handler that goes on, in the same way from all exceptions that it catches; kinds: as of `Raises`."""

    kinds: Any


class Window:
    """The body of a `try`, while it runs.

    Attributes:
        trial: the run of the statement; None where it can only be refused.
        handled: gives the handlers: the exceptions, and tuples of them, that one catches and goes on from, None for
            all; those that are alike, and those that raise.
        is_raising: a handler that raises is captured, as one that goes on.
    """

    def __init__(self, handled: Callable[[], Iterable[Any]], trial: Trial | None) -> None:
        self.handled, self.trial, self.frame = handled, trial, current().frame
        self.is_raising = False

    def answer(self, names: Sequence[str], kind: type[BaseException], *, is_rare: bool = False) -> Raises | bool:
        """Return whether a handler catches an exception, by its class or by the names of it, and goes on; or the one
        that raises."""
        for handler in self.handled():
            if isinstance(handler, Raises):
                rare = is_rare and handler.error is None
                if _is_caught(handler, names, kind, rare):
                    return handler
            elif _is_caught(handler, names, kind, is_rare):
                return True
        return False

    def goes_on_alike(self, kind: type[BaseException]) -> bool:
        """Return whether the handler that catches an exception goes on without it."""
        found = (h for h in self.handled() if _is_caught(h, (kind.__name__,), kind, False))
        return isinstance(next(found, None), Alike)

    def is_near(self) -> bool:
        """Return whether what stands here runs only in the body."""
        frames = current().frames
        return self.frame in frames and all(
            frame.kind in ("loop", "branch") for frame in frames[frames.index(self.frame) + 1 :]
        )

    @property
    def key(self) -> Any:
        """What it is known by when the code is captured again; None where it can only be refused."""
        return None if self.trial is None else (type(self), self.trial.code, self.trial.branches)

    def decide(self, succeeds: Callable[[], Value], name: str, span: Span | None) -> bool:
        """Return how a place in the body goes.

        Raises:
            Fork: both ways.
            Inside, Leaves, CaptureError: it is in a region inside the body.
        """
        assert self.trial is not None, "only a `try` that can be run again decides"
        trials = current().trials
        inner, place = trials[trials.index(self.trial) + 1 :], Passed(self.trial, name, span)
        if any(trial.passes_again(place) for trial in reversed(inner)):
            return True
        if current().frame is not self.frame:
            raise self.leave(name)
        holds = self.trial.decide(succeeds, name, span)
        for trial in inner:
            trial.passed.append(place._replace(name=name if holds else ""))
        return holds

    def leave(self, name: str, raises: Any = None) -> Exception:
        """Return what leaves a region in the body, of which something may fail; raises: as of `Inside`."""
        frames = current().frames
        inside = frames[frames.index(self.frame) + 1 :]
        if all(frame.kind == "branch" and not frame.repeats for frame in inside):
            return Inside(self, raises)
        if all(frame.kind in ("loop", "branch") for frame in inside):
            return Leaves(name)
        found = "a function that stays a call, in the body of the `try`"
        return refusal(name, found, is_raising=self.is_raising)


class Guard(Window):
    """The body of a loop that ends where an exception leaves it, for a handler outside."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(tuple, trial)


def refusal(
    name: str,
    found: str,
    kind: type[CaptureError] = CaptureError,
    span: Span | None = None,
    *,
    is_raising: bool = False,
) -> CaptureError:
    """Return the error for a fault that no handler can be captured for.

    Args:
        is_raising: the handler raises in any case, and does more.
    """
    instead = _INSTEAD.get(name, "test the condition before with `if`")
    if is_raising:
        instead = "let the handler only raise, do what else it does in the handler outside"
    return kind(
        "a fault that comes at run time cannot be caught",
        code="TG137",
        span=span or user_span(),
        found=f"{name}, which may be raised here when the compiled function runs; {found}",
        help=f"{instead}, or put the `try` around the call of the compiled function",
    )


def settles(op: OpDef, operands: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Return whether a check need not be staged, since the body of a `try` goes on where it holds.

    Raises:
        Exception: the error of the operation, where the body of a `try` is to fail there.
        Fork: the body of a `try` goes both ways.
    """
    if op.name == "check":
        kind, message = class_of(attrs["error"]), attrs["message"]
    elif op.name in FAULTS:
        kind, message = FAULTS[op.name]
        if kind is IndexError and _is_inside(operands, attrs["axes"]):
            return False
    else:
        return False
    if message in _LIMITS or kind is MemoryError:
        return False
    error, span = kind(message), current().builder.span
    current().register_created(error)
    if message not in _AS_PYTHON:
        keep_text(error)
    raised, window = follow(error, is_rare=is_rare(op.name, attrs))
    current().builder.span = span
    if window is None:
        if raised is error or op.name not in ("check", *_SUCCEEDS):
            return False
        check_here(_succeeds(op.name, operands, attrs), raised)
        return op.name == "check"
    if window.trial is None:
        return False
    if op.name not in ("check", *_SUCCEEDS):
        found = f"whether {op.name} converges is known only afterwards"
        raise refusal(kind.__name__, found, is_raising=window.is_raising)
    if window.decide(lambda: _succeeds(op.name, operands, attrs), kind.__name__, current().builder.span):
        return op.name == "check"
    setattr(error, INTENDED, True)
    raise error


def follow(error: BaseException, *, is_rare: bool = False) -> tuple[BaseException, Window | None]:
    """Return what an exception becomes on its way out, and the body of a `try` with a handler that goes on from it."""
    windows = current().windows
    guard: tuple[BaseException, Window] | None = None
    for number, window in reversed([*enumerate(windows)]):
        if isinstance(window, Guard):
            guard = guard or (error, window)
            continue
        answer = window.answer((type(error).__name__,), type(error), is_rare=is_rare)
        if answer is True:
            return _inner(guard, error, window)
        if not isinstance(answer, Raises):
            continue
        if answer.error is not None and window.is_near():
            error, is_rare = answer.instead_of(error), False
        elif number or error.__context__ is not None:  # what it raises may be caught, or comes out of a handler
            window.is_raising = True
            return _inner(guard, error, window)
    return error, None


def _inner(
    guard: tuple[BaseException, Window] | None, error: BaseException, window: Window
) -> tuple[BaseException, Window]:
    """Return what is left first on the way to a body: the loop in it that ends there, or itself."""
    return (error, window) if guard is None or window.trial is None else guard


def check_here(holds: Value, error: BaseException) -> None:
    """Stage the check that raises an exception which no handler changes any more."""
    kind, message = describe_error(error)
    with current().builder.certain():
        ops.check(holds, error=kind, message=message)


def is_rare(name: str, attrs: Mapping[str, Any]) -> bool:
    """Return whether an operation seldom fails, so that only handlers that name its error are captured for it.

    The others hide no fault, since it is raised.
    """
    if name == "check":
        return bool(attrs["message"] == TOO_LARGE_POWER)
    return FAULTS[name][0] is IndexError


def catching(error: BaseException) -> Window | None:
    """Return the body of a `try`, to be run both ways, whose handler catches what was raised at capture."""
    window = follow(error)[1]
    return window if window is not None and window.trial is not None else None


def is_seen(error: BaseException) -> bool:
    """Return whether the nearest handler of an exception that was raised at capture may ask which one it is."""
    windows = (w for w in reversed(current().windows) if not isinstance(w, Guard))
    found = next((w for w in windows if w.answer((type(error).__name__,), type(error))), None)
    return found is None or not found.goes_on_alike(type(error))


def class_of(name: str) -> type[Exception]:
    """Return the class of an exception by its name, as it stands in a check."""
    return _LINEAR if name == "LinAlgError" else getattr(builtins, name, Exception)


def _regular(op: OpDef) -> Callable[[Sequence[Any], Mapping[str, Any]], Value]:
    def succeeds(operands: Sequence[Any], attrs: Mapping[str, Any]) -> Value:
        found: Value = op(operands[0])
        return _all(found)

    return succeeds


def _all(found: Value) -> Value:
    axes = tuple(range(len(found.shape)))
    return ops.reduce_all(found, axes=axes) if axes else found


def _is_inside(operands: Sequence[Any], axes: Sequence[int]) -> bool:
    """Return whether all places are known to be there, such as those that a loop goes through."""
    for index, axis in zip(operands[1:], axes, strict=False):  # a value that is written follows
        size = operands[0].shape[axis]
        known = ends(index, current().ranges) if isinstance(index, Value) and not index.shape else None
        least, greatest = known or (None, None)
        if not (isinstance(size, int) and isinstance(least, int) and isinstance(greatest, int)):
            return False
        if least < -size or greatest >= size:
            return False
    return True


def _in_bounds(operands: Sequence[Any], attrs: Mapping[str, Any]) -> Value:
    axes, holds = attrs["axes"], None
    for index, axis in zip(operands[1 : 1 + len(axes)], axes, strict=True):
        index = index if index.dtype == I64 else ops.cast(index, dtype=I64)
        size = operands[0].shape[axis]
        count = np.int64(size) if isinstance(size, int) else ops.dim(dim=size)
        for compare, bound in ((ops.less, count), (ops.greater_equal, ops.negative(count))):
            wide = ops.broadcast_to(bound, shape=index.shape) if index.shape else bound
            inside = _all(compare(index, wide))
            holds = inside if holds is None else ops.logical_and(holds, inside)
    assert holds is not None, "reads and writes have axes"
    return holds


#: factorizations that fail by themselves -> the op that asks whether one succeeds
FACTORS = {"cholesky": "is_positive_definite", "solve": "is_regular", "inv": "is_regular"}
_INDEXED = ("gather", "scatter_add", "scatter_set")
#: operations that fail by themselves -> what says whether they succeed
_SUCCEEDS = {
    **{name: _regular(TABLE[op]) for name, op in FACTORS.items()},
    **dict.fromkeys(_INDEXED, _in_bounds),
}


def _succeeds(name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Value:
    condition: Value = operands[0] if name == "check" else _SUCCEEDS[name](operands, attrs)
    return condition


def noted(made: Any) -> Any:
    """Return what the user's code reads at an index, and keep in mind that it does."""
    operation = made.value.producer if type(made) is Tracer and made._view is None else None
    if operation is not None and operation.op == "gather":
        current().indexed.add(operation)
    return made


@contextmanager
def noting_writes() -> Iterator[None]:
    """Keep in mind which writes at an index the user's code asks for."""
    capture = current()
    operations = capture.builder.block.operations
    before = len(operations)
    yield
    capture.indexed.update(o for o in operations[before:] if o.op in ("scatter_set", "scatter_add"))


def check_unused(function: Function) -> frozenset[Span]:
    """Stage checks before what would fail, though nothing needs its result: factorizations, reads and writes; but for
    those of runs of a `try` that were abandoned, which were run again. Return the places of all that may fail."""
    may_fail = set(_failing(function))
    for block, operation in find_dead(function):
        if operation in may_fail:
            _check_before(block, operation)
    return frozenset(operation.span for operation in may_fail if operation.span is not None)


def find_missed(faults: frozenset[Span], derivative: Function) -> frozenset[Span]:
    """Return the places that may fail of which a derivative computes nothing that fails too."""
    operations = walk(derivative.body.operations)
    return faults - {replace(o.span, reverse=False) for o in operations if o.op in FAULTS and o.span is not None}


def find_covered(faults: frozenset[Span], derivative: Function) -> frozenset[Span]:
    """Return the places at which a derivative has a check of indices that it also reads or writes at."""
    operations = [*walk(derivative.body.operations)]
    used = [_places(o.operands[0], o.operands[1:], o.attrs["axes"]) for o in operations if o.op in _INDEXED]
    return frozenset(
        o.span
        for o in operations
        if o.op == "check" and o.span in faults and (own := set(_compared(o.operands[0])))
        if any(own <= places for places in used)
    )


def _places(array: Value, indices: Sequence[Value], axes: Sequence[int]) -> set[tuple[Value, Dim]]:
    return {(_uncast(index), array.shape[axis]) for index, axis in zip(indices, axes, strict=False)}


def _compared(condition: Value) -> Iterator[tuple[Value, Dim]]:
    """Yield the indices of which a condition says that they are less than sizes, and these."""
    made = condition.producer
    if made is None or made.op in ("gather", "for", "while", "if"):
        return
    if made.op == "less":
        index, bound = made.operands
        end = bound.producer
        if end is not None and end.op == "broadcast_to":
            end = end.operands[0].producer
        if end is not None and end.op in ("full", "constant", "dim"):
            yield _uncast(index), end.attrs["dim"] if end.op == "dim" else int(end.attrs["value"])
        return
    for operand in made.operands:
        yield from _compared(operand)


def _uncast(index: Value) -> Value:
    return index.producer.operands[0] if index.producer is not None and index.producer.op == "cast" else index


def check_faults(function: Function, faults: frozenset[Span]) -> None:
    """Stage checks before what may fail at some places, so that whatever is made of the function fails there too."""
    waiting = [function.body]
    while waiting:
        block = waiting.pop()
        for operation in [*block.operations]:
            waiting.extend(operation.blocks)
            if operation.op in _SUCCEEDS and operation.span in faults:
                _check_before(block, operation)


def _failing(function: Function) -> Iterator[Operation]:
    """Yield the operations of a function that may fail where the user's code asks for them."""
    capture = current()
    operations = [*walk(function.body.operations)]
    asked = {o.operands[0] for o in operations if o.op in FACTORS.values()}
    counters = {o.blocks[0].params[0] for o in operations if o.op == "for"}
    for operation in operations:
        is_indexed = operation in capture.indexed and not _is_certain(operation, counters)
        is_factor = operation.op in FACTORS and operation.operands[0] not in asked
        if (is_indexed or is_factor) and operation not in capture.abandoned:
            yield operation


def _check_before(block: Block, operation: Operation) -> None:
    builder = Builder(Block())
    builder.span = operation.span
    with interpreter(builder):
        kind, message = FAULTS[operation.op]
        holds = _succeeds(operation.op, operation.operands, operation.attrs)
        ops.check(holds, error=kind.__name__, message=message)
    place = block.operations.index(operation)
    block.operations[place:place] = builder.block.operations


def _is_certain(operation: Operation, counters: Container[Value]) -> bool:
    """Return whether an index is in bounds: by what is known of it, or as what counts a loop over a size."""
    axes = operation.attrs["axes"]
    if _is_inside(operation.operands, axes):
        return True
    sizes = [operation.operands[0].shape[axis] for axis in axes]
    are_counted = all(index in counters for index in operation.operands[1 : 1 + len(axes)])
    return are_counted and not all(isinstance(size, int) for size in sizes)


def _only_checks(operation: Operation) -> bool:
    effects = [inner.op for inner in walk([operation]) if TABLE[inner.op].effect]
    return bool(effects) and set(effects) == {"check"} and not any(o.op == "call" for o in walk([operation]))


def walk(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations and those in their blocks."""
    for operation in operations:
        yield operation
        for block in operation.blocks:
            yield from walk(block.operations)


def _catches(handler: Any, names: Sequence[str], kind: type[BaseException], is_rare: bool) -> bool:
    if is_rare:
        return handler not in (None, Exception, BaseException) and issubclass(kind, handler)
    if handler is None or handler is BaseException or issubclass(kind, handler):
        return True
    return any(child.__name__ in names for child in _family(handler))


def _is_caught(handler: Any, names: Sequence[str], kind: type[BaseException], is_rare: bool) -> bool:
    kinds = handler.kinds if isinstance(handler, Raises | Alike) else handler
    return any(_catches(inner, names, kind, is_rare) for inner in flat([kinds]))


def _family(kind: Any) -> Iterator[Any]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)


def flat(kinds: Iterable[Any]) -> Iterator[Any]:
    """Yield the classes in the type of a handler."""
    for kind in kinds:
        if isinstance(kind, tuple):
            yield from flat(kind)
        else:
            yield kind


SETTLES.append(settles)
