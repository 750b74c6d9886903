"""Recursion that a traced condition ends: the function becomes a function of the IR that calls itself.

Called by user_calls.py when a function is called that is running already. Previous: functions.py; next folder:
transform.

A call is staged when, since the function was entered, a branch or loop on traced values was opened, and its arguments
have the shapes of those before; numbers that differ between the two calls become traced. All other recursion runs at
capture, as it would in Python. The types of the results are found by capturing the body until they settle: at first a
path that calls the function again counts as one that does not return.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tracegrad.capture import user_calls
from tracegrad.capture.changes import changes_of, stored_at, written_in
from tracegrad.capture.context import Call, Capture, Frame, Signal, Storage, current, user_span
from tracegrad.capture.entry import Result, Static, collect_leaves
from tracegrad.capture.functions import (
    Body,
    Opened,
    close_functions,
    filling,
    join_shared,
    new_function,
    refuse_change,
    refuse_write,
)
from tracegrad.capture.lists import sample
from tracegrad.capture.sharing import may_overlap, passing, sources
from tracegrad.capture.slots import put_slot, read_slot
from tracegrad.capture.state import flatten, kind_name
from tracegrad.capture.tracer import Tracer, asarray, call_handler, cast_to, from_value, result_dtype
from tracegrad.capture.trees import LEAF, Tree, is_part
from tracegrad.errors import CaptureError, Span, TracegradError
from tracegrad.ir.core import Operation, Value
from tracegrad.ir.types import ArrayType

#: (argument, leaf)
Position = tuple[int, int]
#: captures of a body until the types of its arguments and results have to be settled
ATTEMPTS = 12
#: so many calls are captured in the bodies of `try` statements; each takes milliseconds
_MOST_UNROLLED = 1000


class _Unknown(Exception):
    """The function is called before it is known what it returns."""


class _Restart(TracegradError):
    """An argument turns out to be of another type, or traced."""

    def __init__(self, owner: _Recursion, position: Position, kind: ArrayType, weak: bool) -> None:
        super().__init__("", code="TG130", span=None, found="", help="")
        self.owner, self.position, self.kind, self.weak = owner, position, kind, weak


class _Carry(Signal):
    """The body writes a slot or an array of which calls get the content, and give the new one: capture it again so."""

    def __init__(self, owner: _Recursion) -> None:
        super().__init__()
        self.owner = owner


class _Recursion(Opened):
    """A function that is being captured as a function of the IR.

    What it changes outside becomes further parameters and results: its *state*, of which each call gets the content.

    Attributes:
        values: the arguments at the call that began it; those passed by keyword come last.
        trees: their leaves and structure.
        names: of the arguments passed by keyword.
        closed: numbers of the arguments that the body stores into, with the place of the store, or returns: every call
            passes the very same object, which is as if from outside.
        returned: of these, the ones that the body returns.
        apart: numbers of arguments that the body returns, and for which calls pass other objects.
        given: `kinds` as they were found at first.
        kinds: types of the traced leaves, and whether they are Python numbers.
        types: those of the results, once they are known.
        slots: variables, items and attributes from outside that the body changes, with what they hold.
        arrays: those from outside that the body writes.
        written: arguments that the body writes.
        frame: where the body is being captured.
    """

    frame: Frame
    body: Body

    def __init__(
        self,
        function: types.FunctionType,
        converted: Callable[..., Any],
        values: list[Any],
        trees: list[tuple[list[Any], Tree]],
        names: tuple[str, ...],
        kinds: dict[Position, tuple[ArrayType, bool]],
    ) -> None:
        super().__init__(function, None, [new_function(function.__name__)])
        self.converted, self.values, self.trees, self.names, self.kinds = converted, values, trees, names, kinds
        self.closed: dict[int, Span | None] = {}
        self.returned: set[int] = set()
        self.apart: set[int] = set()
        self.given = dict(kinds)
        self.types: list[ArrayType] = []
        self.slots: dict[tuple[int, str, Any], _Slot] = {}
        self.arrays: list[Storage] = []
        self.written: list[Position] = []

    def split(self, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        count = len(values) - len(self.names)
        return tuple(values[:count]), dict(zip(self.names, values[count:], strict=True))

    def flatten(self, values: Sequence[Any]) -> list[tuple[list[Any], Tree]]:
        """Return leaves and structure of the arguments of a call; those that are closed over are leaves."""
        return [([value], LEAF) if a in self.closed else flatten(value) for a, value in enumerate(values)]

    def close(self, stores: dict[int, Span | None]) -> None:
        """Close over the arguments with these numbers.

        Raises:
            _Carry: there are any.
        """
        if stores:
            self.closed.update(stores)
            for a in stores:
                self.trees[a] = [self.values[a]], LEAF
            self.kinds = {place: kind for place, kind in self.kinds.items() if place[0] not in self.closed}
            self.written = [place for place in self.written if place[0] not in self.closed]
            self.result, self.types = None, []
            raise _Carry(self)

    def close_stored(self) -> None:
        """Close over the arguments that the body has stored into, until now."""
        self.close({a: stored_at(self.frame, [value]) for a, value in self.body.stored().items()})

    def close_returned(self, returned: Any, values: Sequence[Any]) -> None:
        """Close over the arguments that the body returns, `values` in it: the caller gets the object itself."""
        parts = returned if type(returned) is tuple else (returned,)
        kept = {a for a, value in enumerate(values) if type(value) is not tuple and any(p is value for p in parts)}
        kept = {a for a in kept - self.apart - set(self.closed) if self.trees[a][1].kind is not None}
        self.returned |= kept
        self.close(dict.fromkeys(kept))

    def part(self, number: int) -> NoReturn:
        """Take back that an argument is closed over: a call passes another object, and gets a copy.

        Raises:
            _Carry: it is captured so from now on.
            CaptureError: the body stores into the object.
        """
        if any(slot.place[0] is self.values[number] for slot in self.slots.values()):
            self.refuse_other(number)
        del self.closed[number]
        self.apart.add(number)
        self.trees[number] = flatten(self.values[number])
        self.kinds |= {place: kind for place, kind in self.given.items() if place[0] == number}
        self.result, self.types = None, []
        raise _Carry(self)

    def operands(self, trees: Sequence[tuple[list[Any], Tree]]) -> list[Value]:
        """Return what is passed for the traced leaves of a call, and for the state."""
        values = []
        for (a, i), (kind, _) in self.kinds.items():
            values.append(cast_to(asarray(trees[a][0][i]), kind.dtype).value)
        return [*values, *self.state()]

    def state(self) -> list[Value]:
        """Return what the slots and arrays hold that the body changes."""
        slots = [cast_to(asarray(read_slot(*slot.place)), slot.type.dtype).value for slot in self.slots.values()]
        return [*slots, *map(current().read, self.arrays)]

    def emit(self, trees: Sequence[tuple[list[Any], Tree]], free: Sequence[Value], span: Any) -> Any:
        """Stage a call; return what it gives."""
        assert self.result is not None, "the capture has settled"
        capture = current()
        operands = [*self.operands(trees), *free]
        written = [trees[a][0][i] for a, i in self.written]
        kinds = [
            *self.types,
            *(slot.type for slot in self.slots.values()),
            *(storage.type for storage in self.arrays),
            *(array.type for array in written),
        ]
        operation = Operation("call", operands, {"function": self.functions[0]}, [], kinds, span)
        capture.builder.block.operations.append(operation)
        state = iter(operation.results[len(self.types) :])
        for slot in self.slots.values():
            put_slot(*slot.place, from_value(next(state), weak=slot.weak))
        for storage in self.arrays:
            capture.write(storage, next(state))
        for array in written:
            call_handler(operator.setitem, array, ..., from_value(next(state)))
        return join_shared(self.result, operation.results, trees, self.shared)

    def accepts(self, trees: Sequence[tuple[list[Any], Tree]]) -> bool:
        """Return whether a call can go to this function.

        Raises:
            _Restart: it could if a leaf were traced, or of another type.
            CaptureError: it passes another object where the body changes the one that it got.
        """
        for a in self.closed:
            given = trees[a][0][0]
            if given is not self.values[a]:
                if a in self.returned:
                    self.part(a)
                for other in _open_recursions():
                    other.close(dict.fromkeys(other.body.holders(given), self.closed[a]))
                self.refuse_other(a)
        if [tree for _, tree in trees] != [tree for _, tree in self.trees]:
            return False
        for a, ((mine, _), (given, _)) in enumerate(zip(self.trees, trees, strict=True)):
            for i, (own, leaf) in enumerate(zip(mine, given, strict=True)):
                if (a, i) in self.kinds:
                    if not _is_number(leaf):
                        return False
                    (kind, weak), tracer = self.kinds[a, i], asarray(leaf)
                    if tracer.type.shape != kind.shape:
                        return False
                    wider = result_dtype([tracer, Tracer(Storage(kind, 0), weak=weak)])
                    if wider != kind.dtype or (weak and not tracer.weak):
                        raise _Restart(self, (a, i), kind.with_dtype(wider), weak and tracer.weak)
                elif not _is_same(own, leaf):
                    kinds = _common(own, leaf)
                    if kinds is None:
                        return False
                    raise _Restart(self, (a, i), *kinds)
        return True

    def refuse_other(self, number: int) -> NoReturn:
        """Raise the error for a call that passes another object than the one that is changed."""
        name = self.owner.__name__
        raise CaptureError(
            f"{name} changes an argument, and calls itself with another object in its place",
            code="TG234",
            span=self.closed[number] or user_span(),
            found=f"a store into a {kind_name(type(self.values[number]))}; the calls do not all get the same one",
            help="pass the very same object to every call, store into a nonlocal variable or an object of the function "
            f"around {name}, or write into an array",
        )

    def call(self, trees: Sequence[tuple[list[Any], Tree]], span: Any) -> Any:
        """Stage a call in the body."""
        if self.result is None:
            raise _Unknown
        self.require_carried()
        self.require_apart(trees)
        return self.emit(trees, (), span)

    def require_carried(self) -> None:
        """Check that all that the body has changed until now is part of the state.

        Raises:
            _Carry: it is from now on.
            CaptureError: it cannot be.
        """
        for change in changes_of(self.frame):
            parts = [a for a, (_, tree) in enumerate(self.trees) if is_part(change.container, tree)]
            self.close(dict.fromkeys(parts, change.span))
            place = (id(change.container), change.kind, change.key)
            slot = self.slots.get(place)
            kinds = _common(slot.sample() if slot else change.before, change.after)
            if change.kind == "list" or kinds is None or kinds[0].ndim:
                refuse_change(self.owner, change)
            if slot is None or kinds != (slot.type, slot.weak):
                self.slots[place] = _Slot((change.container, change.kind, change.key), *kinds)
                raise _Carry(self)
        for storage in written_in(self.frame):
            if storage not in self.arrays:
                self.arrays.append(storage)
                raise _Carry(self)

    def require_apart(self, trees: Sequence[tuple[list[Any], Tree]]) -> None:
        """Check that a call in the body passes arrays of which a write into one is not seen in another, as in the call
        around it."""
        arrays = {(a, i): trees[a][0][i] for (a, i), (kind, _) in self.kinds.items() if kind.ndim}
        arrays = {place: array for place, array in arrays.items() if isinstance(array, Tracer)}
        for (a, i), array in arrays.items():
            mine, first = _sources(array), _sources(self.trees[a][0][i])
            is_other = any(storage.depth < self.frame_depth and storage not in first for storage in mine)
            is_shared = any(may_overlap(array, other) for place, other in arrays.items() if place != (a, i))
            if ((a, i) in self.written and (is_other or is_shared)) or not mine.isdisjoint(self.arrays):
                refuse_write(self.owner, user_span())

    def capture(self) -> None:
        """Capture the body until the types settle."""
        capture = current()
        events = len(capture.events)
        tried = 0
        while tried < ATTEMPTS:
            del capture.events[events:]
            found: list[Result] = []
            try:
                with filling(self.functions[0], repeats=True) as (self.body, self.frame):
                    self.frame_depth = capture.depth
                    self.body.block.yields = self.run(found, self.body)
            except _Carry as carry:
                if carry.owner is not self:
                    raise
                continue  # there are so many places at most as the body has stores
            except _Restart as restart:
                if restart.owner is not self:
                    raise
                tried += 1
                self.kinds[restart.position] = (restart.kind, restart.weak)
                self.kinds = dict(sorted(self.kinds.items()))
                continue
            except _Unknown:
                raise CaptureError(
                    f"{self.owner.__name__} calls itself on every path",
                    code="TG130",
                    span=user_span(),
                    found="no branch that returns without another call",
                    help="return a value that needs no further call under some condition",
                ) from None
            tried += 1
            kinds = [v.array_type for v in self.functions[0].results[: len(self.functions[0].results) - self.size]]
            if self.result is not None and kinds == self.types and _is_same_result(found[0], self.result):
                return
            self.result, self.types = found[0], kinds
        raise CaptureError(
            f"the type of what {self.owner.__name__} returns does not settle",
            code="TG130",
            span=user_span(),
            found=", ".join(map(str, self.types)),
            help="return arrays of one shape and dtype on all paths",
        )

    @property
    def size(self) -> int:
        """The number of results that are the state."""
        return len(self.slots) + len(self.arrays) + len(self.written)

    def name_of(self, position: Position) -> str:
        """Return a name for the parameter of a leaf: that of the Python parameter, if it is a whole argument."""
        a, i = position
        leaves, tree = self.trees[a]
        code = self.owner.__code__
        plain = len(self.trees) - len(self.names)
        if tree.kind is None:
            if a >= plain:
                return self.names[a - plain]
            if a < code.co_argcount:
                return str(code.co_varnames[a])
        leaf = leaves[i]
        return leaf.value.name if _is_traced(leaf) else ""

    def divide(self, returned: Any) -> tuple[list[Any], Tree]:
        """Return leaves and structure of what the body returns; an object that is closed over, or from outside and
        changed, is a leaf."""
        changed = [*(self.values[a] for a in self.closed), *(slot.place[0] for slot in self.slots.values())]
        if any(returned is container for container in changed):
            return [Static(returned)], LEAF
        if type(returned) is not tuple:
            return flatten(returned)
        parts = [self.divide(part) for part in returned]
        return [leaf for leaves, _ in parts for leaf in leaves], Tree(tuple, len(parts), tuple(t for _, t in parts))

    def run(self, found: list[Result], body: Body) -> list[Value]:
        """Run the body; return its results and the state after it."""
        names = {p: self.name_of(p) for p in self.kinds}
        given = {
            (a, i): body.param(kind, names[a, i], weak, asarray(self.trees[a][0][i]).zero_dim)
            for (a, i), (kind, weak) in self.kinds.items()
        }
        values = body.rebuilt(self.trees, given)
        args, kwargs = self.split(values)
        capture = current()
        for slot in self.slots.values():
            put_slot(*slot.place, body.param(slot.type, slot.name, slot.weak))
        for storage in self.arrays:
            capture.write(storage, body.param(storage.type, storage.name).value)
        passed = [(given[a, i], self.trees[a][0][i]) for a, i in given]
        capture.calls.append(Call(self.owner, args, kwargs, capture.depth))
        try:
            with passing([(param, array) for param, array in passed if isinstance(array, Tracer)]):
                returned = self.converted(*args, **kwargs)
                self.close_stored()
                self.close_returned(returned, values)
                results: list[Value] = []
                leaves, tree = self.divide(returned)
                found.append(collect_leaves(leaves, tree, results, can_be_none=True))
                self.shared = body.find_shared(leaves, found[-1])
        finally:
            capture.calls.pop()
        for place, tracer in body.written().items():
            if not tracer.ndim:
                refuse_write(self.owner, body.place_of(tracer))
            if place not in self.written:
                self.written.append(place)
                raise _Carry(self)
        self.require_carried()
        return [*results, *self.state(), *(given[place].value for place in self.written)]


@dataclass(frozen=True, slots=True)
class _Slot:
    """A slot that is part of the state: it holds a number of a type. `weak`: as Python has it."""

    place: tuple[Any, str, Any]
    type: ArrayType
    weak: bool

    @property
    def name(self) -> str:
        key = self.place[2]
        return key if isinstance(key, str) and key.isidentifier() and key != "cell_contents" else ""

    def sample(self) -> Tracer:
        return sample(self.type, self.weak)


def stage_recursive_call(
    function: types.FunctionType, converted: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bool, Any]:
    """Stage a call of a function that is running, if a traced condition decides on it; return whether, and what it
    gives."""
    capture = current()
    before = next((c for c in reversed(capture.calls) if c.function is function), None)
    if before is None:
        return False, None
    if function in capture.unrolled:
        _count_unrolled(capture, capture.unrolled[function])
        return False, None
    opened = [o for o in _open_recursions() if o.owner is function]
    if not opened and all(f.kind not in ("branch", "loop") for f in capture.frames[before.depth + 1 :]):
        return False, None
    names = tuple(kwargs)
    values = [*args, *kwargs.values()]
    span = user_span()
    for candidate in opened:
        candidate.close_stored()
        if candidate.names == names and len(candidate.values) == len(values):
            trees = candidate.flatten(values)
            if candidate.accepts(trees):
                return True, candidate.call(trees, span)
    trees = [flatten(value) for value in values]
    kinds = _traced_leaves(before, names, trees)
    if kinds is None:
        return False, None
    return _open(_Recursion(function, converted, values, trees, names, kinds), capture, span)


def _count_unrolled(capture: Capture, reason: CaptureError) -> None:
    """Count a call at capture of a function that would be one of the IR, if nothing in it were to be caught outside.

    Raises:
        CaptureError: there are too many, since what may fail doubles the calls that follow.
    """
    if capture.trials and reason.code == "TG137":
        capture.unrolled_calls += 1
        if capture.unrolled_calls > _MOST_UNROLLED:
            raise reason


def _open(made: _Recursion, capture: Capture, span: Any) -> tuple[bool, Any]:
    trees = made.trees
    promoted = any(not isinstance(trees[a][0][i], Tracer) for a, i in made.kinds)
    capture.opened.append(made)
    try:
        made.capture()
    except CaptureError as error:
        if not promoted:
            raise
        capture.unrolled[made.owner] = error  # a number is needed at capture: as in Python
        return False, None
    finally:
        capture.opened.remove(made)
    free = close_functions(made)
    result = made.emit(made.trees, free, span)
    capture.events.append((span, f"{made.owner.__name__}: a function that calls itself"))
    return True, result


def _traced_leaves(
    before: Call, names: tuple[str, ...], trees: list[tuple[list[Any], Tree]]
) -> dict[Position, tuple[ArrayType, bool]] | None:
    """Return the leaves to trace, by comparison with the call before; None when the calls differ otherwise."""
    if tuple(before.kwargs) != names:
        return None
    earlier = [flatten(value) for value in (*before.args, *before.kwargs.values())]
    if [tree for _, tree in earlier] != [tree for _, tree in trees]:
        return None
    kinds: dict[Position, tuple[ArrayType, bool]] = {}
    for a, ((old, _), (new, _)) in enumerate(zip(earlier, trees, strict=True)):
        for i, (x, y) in enumerate(zip(old, new, strict=True)):
            if not _is_traced(x) and not _is_traced(y) and _is_same(x, y):
                continue
            common = _common(x, y)
            if common is None:
                return None
            kinds[a, i] = common
    return kinds or None


def _open_recursions() -> list[_Recursion]:
    return [opened for opened in reversed(current().opened) if isinstance(opened, _Recursion)]


def _sources(array: Any) -> set[Storage]:
    return {storage for storage, _ in sources(array.root._storage)} if isinstance(array, Tracer) else set()


def _is_traced(leaf: Any) -> bool:
    return isinstance(leaf, Tracer) and leaf.concrete is None


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, Tracer | int | float | complex | np.number | np.bool_)


def _is_same(x: Any, y: Any) -> bool:
    """Return whether two leaves that are known at capture are one for the capture."""
    if x is y:
        return True
    if isinstance(x, Tracer) or isinstance(y, Tracer) or type(x) is not type(y):
        return False
    try:
        return bool(x == y)
    except (ValueError, TypeError):
        return False


def _common(x: Any, y: Any) -> tuple[ArrayType, bool] | None:
    """Return a type for both of two leaves, if they are numbers or arrays of one shape."""
    if not _is_number(x) or not _is_number(y):
        return None
    a, b = asarray(x), asarray(y)
    if a.type.shape != b.type.shape:
        return None
    return ArrayType(result_dtype([a, b]), a.type.shape), a.weak and b.weak


def _is_same_result(a: Result, b: Result) -> bool:
    def plain(result: Result) -> list[Any]:
        return [x.value if isinstance(x, Static) else ("result", x) for x in result.leaves]

    return a.tree == b.tree and a.weak == b.weak and plain(a) == plain(b)


user_calls.RECURSION.append(stage_recursive_call)
