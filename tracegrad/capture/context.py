"""State of one capture: the open blocks, the storages of arrays, what was read from outside, and spans of the user's
code.

Reads the running Python frames; writes operations through ir/builder.py. Previous: convert.py; next: tracer.py.

Arrays are mutable in NumPy and immutable in IR. A `Storage` is the identity of one array; its `value` is the current
version. A loop body is captured once, so every array that it reads becomes a tentative block parameter on first use
(`LoopFrame.enter`); when the body has not written it, the parameter is replaced by the outer value, else it is a carry.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, TypeAlias

from tracegrad.capture.constants import constant_value
from tracegrad.capture.source import coroutine_reason
from tracegrad.errors import CaptureError, NeedsPythonValue, Span
from tracegrad.frames import is_library, is_of_dataclass
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Operation, Value
from tracegrad.ir.opdef import OpDef, interpreter
from tracegrad.ir.types import ArrayType


def _named_constant(storage: Storage) -> Value:
    """Stage the content of an array; what is written out has the name of the array."""
    value = constant_value(storage.concrete)
    if value.producer is not None and value.producer.op == "constant":
        value.name = storage.name
    return value


class Signal(Exception):
    """Sent from one part of capture to another; no user sees it, and no handler of the user's may."""


class RestageError(Signal):
    """A region cannot be staged as tried; `reason` says why, `help` what to do. Caught by loops.py."""

    def __init__(
        self,
        reason: str,
        help: str = "keep the shape, dtype and structure of what the loop carries; preallocate arrays that it fills",
        found: str = "a statement that must be staged as a whole",
    ) -> None:
        super().__init__(reason)
        self.reason, self.help, self.found, self.span = reason, help, found, user_span()

    def refusal(self) -> CaptureError:
        """Return the error for the user, where no statement around can be run in another way."""
        return CaptureError(self.reason, code="TG120", span=self.span, found=self.found, help=self.help)


#: numbers of arrays, containers and iterators, in the order in which they are made
NUMBERS = itertools.count()


#: arrays whose layout decides something; None in it stands for every input
Inputs: TypeAlias = "frozenset[Storage | None]"
NO_INPUT: Inputs = frozenset()
EVERY_INPUT: Inputs = frozenset((None,))


class Storage:
    """The identity of one array.

    Attributes:
        value: the current version in IR; None while the content is only known as `concrete`.
        concrete: the content, when it is known at capture; never written in place.
        depth: number of frames open when the array was made.
        type: dtype and shape; they never change.
        links: (condition, tracer): under the condition that array is this one; a write into one is one into the other.
        shares: arrays that may be this one; a write into one leaves the content of the other unknown.
        copies: arrays whose copies are the items of a list in this one; a write into an item leaves theirs unknown.
        held: arrays of items of lists into which this one is copied.
        holds_items: the items of a list are in this array.
        pinned: why the array must not be written any more, "" when it may.
        stale: why the content is not known any more, "" when it is; and where the user's code makes it so.
        name: what the user calls the array, "" when that is not known.
        number: arrays and containers of captured code are numbered in the order in which they are made.
        zero_dim: whether it is an array where it has no axes, and no number; None: it may be either.
        in_place: it is written, so that loops carry it also where it has no axes.
        follows: arrays that came from outside, or stand for others, whose layout decides how this one lies in memory:
            an input follows itself; None stands for every input, where that is not known.
        stands: of one that stands for others: what their layout follows.
        layouts: arrays whose layout decides whether a write into this array is one into another (memory.py).
        written: something was written into it.
    """

    __slots__ = (
        "concrete",
        "copies",
        "depth",
        "follows",
        "held",
        "holds_items",
        "in_place",
        "layouts",
        "links",
        "name",
        "number",
        "pinned",
        "shares",
        "stale",
        "stale_at",
        "stands",
        "type",
        "value",
        "written",
        "zero_dim",
    )

    def __init__(self, type: ArrayType, depth: int, value: Value | None = None, concrete: Any = None) -> None:
        self.type, self.depth, self.value, self.concrete = type, depth, value, concrete
        self.number = next(NUMBERS)
        self.links: tuple[tuple[Value, Any], ...] = ()
        self.shares: tuple[Storage, ...] = ()
        self.copies: tuple[Storage, ...] = ()
        self.held: tuple[Storage, ...] = ()
        self.holds_items = False
        self.zero_dim: bool | None = False
        self.in_place = type.ndim > 0
        self.pinned = self.stale = self.name = ""
        self.stale_at: Span | None = None
        self.follows = EVERY_INPUT
        self.stands = self.layouts = NO_INPUT
        self.written = False

    def stand_for(self, other: Storage) -> None:
        """Note that this array may be another one, in a region that gets it as a parameter."""
        self.follows = frozenset((self,))
        self.stands |= other.follows
        self.layouts |= other.layouts

    def same_items(self) -> Iterator[Storage]:
        """Yield the arrays that hold copies of items of a list in this one."""
        for copied in self.copies:
            yield copied
            yield from (other for other in copied.held if other is not self)

    def require_fresh(self) -> None:
        """Raise the error for reading an array whose content is not known any more."""
        if self.stale:
            raise alias_error(self.stale, user_span(self.stale_at))

    def require_writable(self) -> None:
        """Raise the error for writing an array that others may share."""
        if self.pinned:
            raise alias_error(self.pinned, user_span())


def alias_error(why: str, span: Span | None) -> NeedsPythonValue:
    """Return the error for a use of an array that another name may share."""
    return NeedsPythonValue(
        "an array that another name may share is used after a write into one of them",
        code="TG136",
        span=span,
        found=why,
        help="make the copy that is meant: `b = a.copy()`, or `values.append(a.copy())`",
    )


#: says that an operation need not be staged; trials.py puts its function here
SETTLES: list[Callable[[OpDef, Sequence[Any], Mapping[str, Any]], bool]] = []


class Stager(Builder):
    """The builder of a capture: what may fail in the body of a `try` is asked about before.

    Attributes:
        windows: the bodies that are open, innermost last.
    """

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.windows: list[Any] = []

    def apply(self, op: OpDef, operands: Sequence[Any], attrs: Mapping[str, Any], blocks: Sequence[Block] = ()) -> Any:
        if self.windows and SETTLES[0](op, operands, attrs):
            return ()
        return super().apply(op, operands, attrs, blocks)

    @contextmanager
    def certain(self) -> Iterator[None]:
        """Stage what no handler is to be asked about: it cannot fail, or its error leaves the function."""
        windows, self.windows = self.windows, []
        try:
            yield
        finally:
            self.windows = windows


@dataclass(eq=False)
class Frame:
    """One open block. `kind` is "function", "loop", "branch", "inner" (of a gradient inside), or "callee" (of a
    function that stays a call). One of kind "attempt" is no block: it keeps what is written in the body of a `try`;
    "ahead": so does one for the code that gives an item of an iterator.

    Attributes:
        entered: loop: storages read or written in the body -> (value before, block parameter, concrete content before).
        assumed: loop: storages of outer blocks whose content was used as known at capture.
        unentered: loop: arrays of outer blocks without axes that were read as ones that are not written.
        saved: branch, inner, callee, attempt: storages written in it -> (value, concrete) before.
        slots: items and attributes of Python containers written in it: (container, kind, key) -> (what captured code
            gets for the value before, value before).
        lists: lists that changed their length in it -> content before (lists.snapshot).
        peaks: loop: lists that took items in it -> the most that `added` of a list was (lists.note_peak).
        repeats: callee, branch: its code runs any number of times, in a function of its own.
        places: inner, callee: what was written -> where that was, for messages.
        carried: ids of the cells of names that the statement carries.
        frozen: loop: arrays that must not be written any more, since their copies are items of a list.
        rewritten: a part of an item of a list was written in it.
        unbound: names that were read in it while they were not bound.
        unrolls: loop: whether it is run at capture where it cannot be staged, so that its variables are known.
        fills: stores under traced keys into dicts from outside: (table, position, which keys were there before).
        level: attempt: how many frames were open before the innermost one where it began.
        lasting: attempt, ahead: what was changed that cannot be undone.
        taken: ahead: other iterators from which items were taken.
        writes: loop: what its body has printed and logged of Python values alone.
        begun: attempt, ahead: what has this number or a greater one is made by the code that is noted.
    """

    kind: str
    block: Block
    entered: dict[Storage, tuple[Value, Value, Any]] = field(default_factory=dict)
    assumed: set[Storage] = field(default_factory=set)
    unentered: set[Storage] = field(default_factory=set)
    saved: dict[Storage, tuple[Value | None, Any]] = field(default_factory=dict)
    slots: dict[tuple[int, str, Any], tuple[Any, Any, Any]] = field(default_factory=dict)
    lists: dict[int, tuple[list[Any], Any]] = field(default_factory=dict)
    peaks: dict[int, Any] = field(default_factory=dict)
    carried: frozenset[int] = frozenset()
    repeats: bool = False
    places: dict[Any, Span | None] = field(default_factory=dict)
    frozen: list[Storage] = field(default_factory=list)
    rewritten: bool = False
    unbound: set[str] = field(default_factory=set)
    unrolls: bool = False
    fills: list[tuple[Any, Any, Value | None]] = field(default_factory=list)
    level: int = 0
    lasting: str = ""
    taken: list[Any] = field(default_factory=list)
    writes: list[Callable[[], Any]] = field(default_factory=list)
    begun: int = field(default_factory=NUMBERS.__next__)

    def note_place(self, written: Any) -> None:
        """Note where code of a function writes into something, for the message that refuses it."""
        if (self.repeats or self.kind in ("inner", "callee")) and written not in self.places:
            self.places[written] = user_span()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value outside the function is: start at `base`, then follow `steps`.

    A step is ("item", key), ("attribute", name), ("cell", None) or ("call", None).
    """

    base: Any
    steps: tuple[tuple[str, Any], ...]
    name: str

    @property
    def key(self) -> Any:
        return (id(self.base), self.steps)

    def step(self, kind: str, key: Any) -> Place:
        """Return the place of a part of the value."""
        suffix = f".{key}" if kind == "attribute" else f"[{key!r}]"
        return Place(self.base, (*self.steps, (kind, key)), self.name + suffix)

    def read(self) -> Any:
        """Return what is there now."""
        value = self.base
        for kind, key in self.steps:
            if kind == "item":
                value = value[key]
            elif kind == "call":
                value = value()
            else:
                value = value.cell_contents if kind == "cell" else getattr(value, key)
        return value


@dataclass(eq=False)
class HiddenInput:
    """An array or float read from a global, a closure or an object: read again at every call."""

    place: Place
    original: Any
    value: Value
    tracer: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A user function that is running: its arguments, and the number of frames that were open when it was entered."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    depth: int


#: whether captures note what runs natively too, which takes time
detailed: ContextVar[bool] = ContextVar("tracegrad_detailed", default=False)


class Capture:
    """One capture in progress."""

    def __init__(
        self, function: Any, sizes: Mapping[str, int] | None = None, size: Callable[[Any], Any] | None = None
    ) -> None:
        self.function = function
        #: sizes of the call that is being captured, by symbol; and what was decided from them (sizes.Fact)
        self.sizes = dict(sizes or {})
        self.facts: list[Any] = []
        #: what user code gets for a symbolic dimension
        self.size = size or (lambda dim: dim)
        self.builder = Stager(Block())
        #: `try` statements that are running, innermost last, and what was written in each
        self.trials: list[Any] = []
        #: so many runs of such statements there have been
        self.runs = 0
        self.journals: list[Frame] = []
        self.frames: list[Frame] = [Frame("function", self.builder.block)]
        self.hidden: dict[Any, HiddenInput] = {}
        self.guards: dict[Any, tuple[Place, Any]] = {}
        #: leaf numbers of the parameters; and leaf number -> content that the capture relies on (known.py)
        self.parameters: dict[Value, int] = {}
        self.contents: dict[int, bytes] = {}
        #: result of a loop or branch, and whether floats count -> its content where it is known, and the inputs used
        self.runs_of_loops: dict[tuple[Value, bool], tuple[Any, list[Any]]] = {}
        #: arrays whose layout decides what the function does; and those of which it does where another is written
        self.laid_out: set[Storage | None] = set()
        self.read_again: set[tuple[Storage, Inputs]] = set()
        #: operations of runs of a `try` that were abandoned; they are still there, unused
        self.abandoned: set[Operation] = set()
        #: reads and writes of elements that the user's code asks for
        self.indexed: set[Operation] = set()
        #: arrays that a conversion gives as they are, where it would copy them in another byte order
        self.native: set[Storage] = set()
        #: an item of a list is an array that may not be in C order; and where that decides what a write reaches
        self.has_unordered_items = False
        self.items_laid_out: Span | None = None
        #: numbers of the leaves that are Python floats and may be known by their value
        self.floats: set[int] = set()
        self.lifted: dict[Any, Any] = {}
        #: calls of functions with `functools.cache` -> the block of the call, and the result
        self.cached: dict[Any, tuple[Block, Any]] = {}
        #: id of what user code gets for a container from outside -> that container
        self.originals: dict[int, Any] = {}
        #: indices of loops of known bounds -> the least and the greatest
        self.ranges: dict[Value, tuple[Any, Any]] = {}
        #: index of a staged loop -> its least and its greatest value, each a value and what is added to it
        self.indices: dict[Value, tuple[tuple[Value, int], tuple[Value, int]]] = {}
        #: iterators of which a loop has taken a number of items that is known only when the program runs (iterators.py)
        self.used_up: dict[int, Any] = {}
        #: lists that are iterators in Python, and the lists of whose items they are made, with what these held
        self.streams: dict[int, Any] = {}
        #: the code of generators whose items are found as those of a comprehension; and of those that Python cannot
        #: run, since a traced condition decides what they give
        self.streamed: frozenset[types.CodeType] = frozenset()
        self.undecided: set[types.CodeType] = set()
        #: generator expressions with `:=` that Python runs: each item that is taken binds names
        self.binders: dict[int, Any] = {}
        #: whether generators stay Python's where loops over them end under traced conditions
        self.runs_generators = False
        #: iterators of generators that Python runs and that could be streams -> these, and their code
        self.givers: dict[int, tuple[Any, types.CodeType]] = {}
        #: whether deques that the code makes are lists; and whether it makes any
        self.deques_are_lists = self.makes_deques = False
        #: ids of the lists that stand for deques with a bound -> list and bound; and of those that surely do not
        self.bounds: dict[int, tuple[Any, int]] = {}
        self.plain: set[int] = set()
        #: what user code gets for queues from outside, and their items
        self.queues: list[tuple[Any, list[Any]]] = []
        #: dicts from which an item was deleted -> their keys before
        self.key_orders: dict[int, tuple[Any, list[Any]]] = {}
        #: code of user functions that are running -> how deep they are nested; and how many calls there were in one
        self.active: dict[CodeType, int] = {}
        self.counts: dict[CodeType, int] = {}
        self.created: dict[int, tuple[Any, int]] = {}
        self.numbers: dict[int, int] = {}
        #: id of a list, dict or object -> it, and what else it may be (aliases.Link)
        self.links: dict[int, tuple[Any, list[Any]]] = {}
        #: each `__dict__` that was read, with its object
        self.owners: dict[int, tuple[dict[str, Any], Any]] = {}
        #: variables of staged loops, by their block, whose lists, dicts or objects the body changes
        self.mutated: set[tuple[Block, int]] = set()
        #: id of a list -> how often it was made an array
        self.stacked: Counter[int] = Counter()
        #: id of a list that a loop being staged has made an array -> what is called with items of another type
        self.widen: dict[int, Callable[[Any], None]] = {}
        #: ids of lists to which a body appends under a condition
        self.varying: set[int] = set()
        self.events: list[tuple[Span | None, str]] = []
        #: code of a statement, or the names of its state, what is asked of it, and where -> what was learnt when it was
        #: captured there before
        self.lessons: dict[tuple[CodeType | tuple[str, ...] | None, str], dict[Path, Any]] = {}
        #: user functions that are running, innermost last; and those whose recursion runs at capture -> the reason
        self.calls: list[Call] = []
        self.unrolled: dict[Any, CaptureError] = {}
        #: so many calls of them were captured for what a handler outside would catch
        self.unrolled_calls = 0
        #: code of user functions that run unconverted -> the reason, and what to do about it
        self.unconverted: dict[CodeType, tuple[str, str]] = {}
        #: what was raised while such a function runs and may reach it, which it must not catch
        self.escaped: list[Exception] = []
        #: the return statement by which the function has ended
        self.returned_at: Span | None = None
        #: conditions that hold in the branches that are open
        self.holding: list[Value] = []
        #: names of functions in IR that the captured one calls
        self.function_names: set[str] = set()
        #: functions being captured for a call, innermost last (functions.Opened)
        self.opened: list[Any] = []
        #: what is noted about sharing: (storage, links, shares, copies, pinned, stale) before each change, for undoing
        self.changes: list[tuple[Storage, tuple[Any, ...], tuple[Storage, ...], tuple[Storage, ...], str, str]] = []
        #: an item of a list is written as a whole
        self.is_copying = False

    def note_native(self, what: str) -> None:
        """Note that a statement is decided or run at capture, when that is wanted."""
        if detailed.get():
            event = (user_span(), what)
            if event not in self.events:
                self.events.append(event)

    @property
    def depth(self) -> int:
        return len(self.frames) - 1

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def top(self) -> Block:
        """The block of the innermost function, where residual stacks are made: who differentiates it must see them."""
        return next(frame.block for frame in reversed(self.frames) if frame.kind in ("function", "inner", "callee"))

    @property
    def windows(self) -> list[Any]:
        """The bodies of `try` statements that are running, innermost last."""
        return self.builder.windows

    def note_lasting(self, what: str, *changed: Any) -> None:
        """Note that something is changed that cannot be undone: those objects, where they are known. What is undone
        makes its own objects anew."""
        for journal in self.journals:
            older = [part for part in changed if self.numbers.get(id(part), -1) < journal.begun]
            if journal.kind == "ahead" and changed and isinstance(changed[0], Iterator):
                journal.taken.extend(older)
            elif older or not changed:
                journal.lasting = journal.lasting or what

    def noting(self, depth: int) -> list[Frame]:
        """Return what keeps the content that something had which was made with `depth` frames open."""
        return [*self.frames[depth + 1 :], *self.journals]

    def is_open(self, block: Block) -> bool:
        return any(frame.block is block for frame in self.frames)

    @contextmanager
    def open(
        self, kind: str, block: Block, carried: frozenset[int] = frozenset(), *, repeats: bool = False
    ) -> Iterator[Frame]:
        """Stage into a new block inside a with statement."""
        frame = Frame(kind, block, carried=carried, repeats=repeats)
        self.frames.append(frame)
        mark = len(self.changes)
        try:
            with self.builder.into(block):
                yield frame
        finally:
            popped = self.frames.pop()
            assert popped is frame, "frames are closed in the order they were opened"
            for storage, links, *_ in reversed(self.changes[mark:]):
                if storage.depth <= self.depth:
                    storage.links = links  # their conditions are not visible any more

    def write_out(self, write: Callable[[], Any]) -> None:
        """Print or log something; in the body of a loop only when that is staged, and not for each attempt."""
        loop = next((frame for frame in reversed(self.frames) if frame.kind == "loop"), None)
        if loop is None:
            write()
        else:
            loop.writes.append(write)

    @contextmanager
    def assuming(self, conditions: list[Value]) -> Iterator[None]:
        """Stage inside a with statement where conditions hold."""
        known = len(self.holding)
        self.holding.extend(conditions)
        try:
            yield
        finally:
            del self.holding[known:]

    def created_depth(self, container: object) -> int:
        """Return the index of the frame in which captured code made a Python container; -1 when it was made
        elsewhere."""
        entry = self.created.get(id(container))
        return entry[1] if entry is not None else -1

    def register_created(self, container: Any) -> None:
        """Note that captured code made this container here, unless it is known: a call may give an older one."""
        if id(container) in self.created:
            return
        self.created[id(container)] = (container, self.depth)
        self.numbers[id(container)] = next(NUMBERS)

    def is_lasting(self, container: object) -> bool:
        """Return whether captured code made a container before all that is open, and so will be captured again with the
        same one; False where nothing is open."""
        number, opened = self.numbers.get(id(container)), (*self.frames[1:], *self.journals)
        return number is not None and bool(opened) and all(number < frame.begun for frame in opened)

    # ---- storages

    def read(self, storage: Storage) -> Value:
        """Return the current version of an array, as a value visible in the current block."""
        storage.require_fresh()
        self._enter(storage)
        if storage.value is not None:
            return storage.value
        if storage.in_place:
            # one constant for the array, where it was made, so that every later block sees it
            with self.builder.into(self.frames[min(storage.depth, self.depth)].block):
                storage.value = _named_constant(storage)
            return storage.value
        return constant_value(storage.concrete)

    def touch(self, storage: Storage) -> None:
        """Note that what is known about the sharing of an array is about to change."""
        self.changes.append((storage, storage.links, storage.shares, storage.copies, storage.pinned, storage.stale))

    def undo(self, mark: int) -> None:
        """Forget what was noted about sharing since there were `mark` changes."""
        for storage, links, shares, copies, pinned, stale in reversed(self.changes[mark:]):
            storage.links, storage.shares, storage.copies = links, shares, copies
            storage.pinned, storage.stale = pinned, stale
        del self.changes[mark:]

    def pin(self, storage: Storage, why: str) -> None:
        """Note that an array must not be written any more."""
        for frame in self.frames:
            if frame.kind == "loop":
                frame.frozen.append(storage)
        if not storage.pinned:
            self.touch(storage)
            storage.pinned = why

    def note_copy(self, storage: Storage, items: Storage) -> None:
        """Note that an array is copied into one that holds the items of a list."""
        if storage not in items.copies:
            self.touch(items)
            items.copies = (*items.copies, storage)
            storage.held = (*storage.held, items)

    @contextmanager
    def copying(self, whole: bool = True) -> Iterator[None]:
        """Write items of lists as a whole inside a with statement, when `whole`."""
        before, self.is_copying = self.is_copying, whole
        try:
            yield
        finally:
            self.is_copying = before

    def make_stale(self, storage: Storage, why: str, written: Storage | None = None) -> None:
        """Note that the content of an array, and of those that may be it, is not known any more.

        Args:
            written: the array into which the write went that is the reason; its own content is known.
        """
        if storage is not written and not storage.stale:
            self.touch(storage)
            storage.stale, storage.stale_at = why, user_span()
            for _, other in storage.links:
                self.make_stale(other.root._storage, why, written)

    def write(self, storage: Storage, value: Value) -> None:
        """Make `value` the current version of an array."""
        assert value.type == storage.type, f"a write may not change the type {storage.type} to {value.type}"
        storage.in_place = storage.in_place or storage.zero_dim is not False
        self._enter(storage)
        before = (storage.value, storage.concrete)
        for level in range(self.depth, storage.depth - 1, -1):
            for journal in self.journals:
                if journal.level == level:
                    journal.saved.setdefault(storage, before)
            frame = self.frames[level]
            if level == storage.depth:
                break
            if frame.kind == "loop" and storage in frame.entered:
                outside, _, concrete = frame.entered[storage]
                before = (outside, concrete)  # what the branches around the loop have seen until now
            elif frame.kind in ("branch", "inner", "callee") and storage not in frame.saved:
                frame.saved[storage] = before
                frame.note_place(storage)
        if storage.depth < len(self.frames):
            self.frames[storage.depth].note_place(storage)
        storage.value, storage.concrete, storage.written = value, None, True
        self.laid_out |= storage.layouts
        for other in storage.shares:
            names = sorted(
                {s.name or (s.value.name if s.value is not None else "") or "another" for s in (storage, other)}
            )
            self.make_stale(other, f"{' and '.join(names)}: names of one array, or of two", storage)
        if storage.holds_items and not self.is_copying:
            for frame in self.frames:
                frame.rewritten = True
            for other in storage.same_items():
                why = f"{other.name or 'an array'}: an item of a list, which is written as such"
                self.make_stale(other, why, storage)
        if value.producer is not None and storage.type.ndim:
            value.name = value.name or storage.name

    def known(self, storage: Storage) -> Any:
        """Return the content when it is known at capture, else None; loops note that they rely on it."""
        if storage.stale:
            return None
        if storage.concrete is not None:
            for frame in self.frames[storage.depth + 1 :]:
                if frame.kind == "loop":
                    frame.assumed.add(storage)
        return storage.concrete

    def _enter(self, storage: Storage) -> None:
        if not storage.in_place:
            if storage.zero_dim:
                for frame in self.frames[storage.depth + 1 :]:
                    frame.unentered.add(storage)
            return
        for position in range(storage.depth + 1, len(self.frames)):
            frame = self.frames[position]
            if frame.kind != "loop" or storage in frame.entered:
                continue
            if storage.value is None:
                with self.builder.into(self.frames[storage.depth].block):
                    storage.value = _named_constant(storage)
            param = Value(storage.type, storage.name or storage.value.name)
            frame.entered[storage] = (storage.value, param, storage.concrete)
            # a branch opened after this loop has not written the storage: else it would have entered the loop before
            storage.value = param

    def leave_loop(self, frame: Frame) -> list[tuple[Storage, Value, Value, Value]]:
        """Return (storage, value before, parameter, value after) for the storages a loop body has entered.

        The storages have their value from before the loop again.
        """
        result = []
        for storage, (before, param, concrete) in frame.entered.items():
            assert storage.value is not None
            result.append((storage, before, param, storage.value))
            storage.value, storage.concrete = before, concrete
        return result


_current: ContextVar[Capture | None] = ContextVar("tracegrad_capture", default=None)


def current() -> Capture:
    """Return the capture in progress."""
    capture = _current.get()
    if capture is None:
        raise CaptureError(
            "a traced value is used outside the call that made it",
            code="TG129",
            span=None,
            found="a stand-in for an array, kept in a global, an attribute or a container",
            help="do not keep values of a compiled function outside it; return them",
        )
    return capture


def is_capturing() -> bool:
    return _current.get() is not None


@contextmanager
def capturing(capture: Capture) -> Iterator[Capture]:
    """Make `capture` the one in progress inside a with statement; ops applied inside are staged into it."""
    token = _current.set(capture)
    try:
        with interpreter(capture.builder):
            yield capture
    finally:
        _current.reset(token)


# ---- spans


#: code of the functions that capture one of the user's: the frames around them are not of that function
ENTRIES: set[CodeType] = set()
#: files with code around which no frames are the user's: of the command line
OUTSIDE: set[str] = set()


#: calls of functions that are running, innermost first: the code, and where in it
Path: TypeAlias = tuple[tuple[CodeType, int], ...]


def user_span(at_end: Span | None = None) -> Span | None:
    """Return the place in the user's code that is running: the innermost frame outside tracegrad, NumPy and SciPy.

    When the captured function has ended, that is `at_end`, by default its return statement.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code in ENTRIES and (at_end or current().returned_at) is not None:
            return at_end or current().returned_at
        file = frame.f_code.co_filename
        if file in OUTSIDE:
            return None
        if not is_library(file) and not is_of_dataclass(frame.f_code):
            return _span_of(frame.f_code, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return None


def call_path() -> Path:
    """Return the calls of the user's code that are running, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    path = []
    while frame is not None and frame.f_code not in ENTRIES:
        if not is_library(frame.f_code.co_filename):
            path.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(path)


#: code of functions for parts of statements that are not the user's, and of which something is learnt all the same
LEARNING: set[CodeType] = set()


def learns(fn: Callable[..., None]) -> bool:
    """Return whether something is learnt of a part of a statement: it is the user's."""
    code = getattr(fn, "__code__", None)
    return code is not None and (code in LEARNING or not is_library(code.co_filename))


def lesson(fn: Callable[..., None], topic: str) -> Any:
    """Return what was learnt of a part of a statement when it was captured here before; None for nothing."""
    places = current().lessons.get((getattr(fn, "__code__", None), topic))
    return None if places is None else places.get(call_path())


def learn(fn: Callable[..., None], topic: str, found: Any) -> None:
    """Note how a part of a statement is staged here, so that the next capture of it begins so."""
    if learns(fn):
        current().lessons.setdefault((getattr(fn, "__code__", None), topic), {})[call_path()] = found


def unconverted_reason() -> tuple[str, str] | None:
    """Return why the user's code that is running runs unconverted, and what to do about it; None when it does not."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in ENTRIES:
        code = frame.f_code
        if code in current().unconverted:
            return current().unconverted[code]
        if not is_library(code.co_filename) and not code.co_name.startswith("<"):
            return coroutine_reason(code)
        frame = frame.f_back
    return None


def note_escaped(error: Exception) -> None:
    """Note an exception of capture's own where a function that runs unconverted may catch it."""
    if (capture := current()).unconverted:
        capture.escaped.append(error)


def first_caught(mark: int) -> Exception | None:
    """Return the first exception of capture's own, of those noted since there were `mark`, that has reached a function
    which runs unconverted; and forget them."""
    capture = current()
    noted, capture.escaped[mark:] = capture.escaped[mark:], []
    return next((error for error in noted if any(code in capture.unconverted for code in _passed(error))), None)


def _passed(error: BaseException) -> Iterator[CodeType]:
    """Yield the code that an exception has passed on its way out."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code
        trace = trace.tb_next


def raised_span(error: BaseException, *, outermost: bool = False) -> Span | None:
    """Return the place in the user's code that raised an exception; or the outermost one that it has passed."""
    span, trace = None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_library(code.co_filename):
            span = _span_of(code, trace.tb_lasti, trace.tb_lineno)
            if outermost and code.co_filename not in OUTSIDE:
                break
        trace = trace.tb_next
    return span


@functools.lru_cache(maxsize=256)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


def _span_of(code: CodeType, instruction: int, line: int) -> Span:
    positions = _positions(code)
    index = instruction // 2
    column, end = 0, None
    if 0 <= index < len(positions):
        start_line, end_line, start_column, end_column = positions[index]
        if start_line is not None and start_column is not None:
            line, column = start_line, start_column
            if end_line == start_line and end_column is not None:
                end = end_column + 1
    names = [n for n in code.co_qualname.split(".") if not n.startswith(("tg_", "<"))]
    return Span(code.co_filename, line, column + 1, end, names[-1] if names else "")
