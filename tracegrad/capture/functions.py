"""Python functions as functions of the IR, for calls that stay calls: those with rules, and recursive ones.

Reads user functions; writes functions of the IR whose free values have become further parameters.
Previous: changes.py; next folder: transform.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

import numpy as np

from tracegrad.capture.changes import Change, changes_of, follow, stored_at, written_in
from tracegrad.capture.context import Frame, Storage, current, user_span
from tracegrad.capture.entry import Result, Static
from tracegrad.capture.joins import leave_branch
from tracegrad.capture.sharing import share, sources
from tracegrad.capture.slots import new_list
from tracegrad.capture.state import flatten, has_changed, unflatten
from tracegrad.capture.tracer import Tracer, from_value
from tracegrad.capture.trees import Tree, is_part
from tracegrad.errors import CaptureError, Span
from tracegrad.ir.core import Block, Function, Operation, Value, callees, free_values, substitute, walk
from tracegrad.ir.types import ArrayType

#: free values that a function computes again by itself
_LOCAL = frozenset({"constant", "full", "dim"})


@dataclass(slots=True)
class Arguments:
    """The arguments of a call: those leaves that are traced become operands, all others are known at capture.

    Attributes:
        trees: leaves and structure of each argument.
        traced: (argument, leaf) of each operand.
        operands: the values passed.
    """

    trees: list[tuple[list[Any], Tree]]
    traced: list[tuple[int, int]]
    operands: list[Value]

    @property
    def tracers(self) -> list[Tracer]:
        return [self.trees[a][0][i] for a, i in self.traced]

    def key(self) -> Any:
        """Return what tells calls apart that need different functions; None when that cannot be said."""
        statics = [
            (a, i, type(leaf), _known_key(leaf))
            for a, (leaves, _) in enumerate(self.trees)
            for i, leaf in enumerate(leaves)
            if (a, i) not in self.traced
        ]
        structures = tuple(tree for _, tree in self.trees)
        key = (structures, tuple(statics), tuple((t.type, t.weak) for t in self.tracers), tuple(self.traced))
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def rebuild(
        self,
        values: Sequence[Any],
        known: Callable[[Any], Any] = lambda leaf: leaf,
        make_list: Callable[[list[Any]], list[Any]] = new_list,
    ) -> list[Any]:
        """Return the arguments with `values` for the operands, and `known(leaf)` for all other leaves."""
        given = dict(zip(self.traced, values, strict=True))
        return [
            unflatten(
                tree, [given[a, i] if (a, i) in given else known(leaf) for i, leaf in enumerate(leaves)], make_list
            )
            for a, (leaves, tree) in enumerate(self.trees)
        ]


def _known_key(leaf: Any) -> Any:
    """Return what tells a leaf that is known at capture from others: the content of an array."""
    content = leaf.concrete if isinstance(leaf, Tracer) else leaf
    if not isinstance(content, np.ndarray):
        return leaf
    return content.dtype, content.shape, content.tobytes(), getattr(leaf, "weak", False)


def split_arguments(values: Sequence[Any]) -> Arguments:
    """Flatten the arguments of a call, and choose what is passed as operands."""
    trees = [flatten(value) for value in values]
    traced = [
        (a, i)
        for a, (leaves, _) in enumerate(trees)
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, Tracer) and leaf.concrete is None
    ]
    return Arguments(trees, traced, [trees[a][0][i].value for a, i in traced])


@dataclass(eq=False, slots=True)
class Opened:
    """A call whose functions are being captured: a call in them of the same kind refers to these functions.

    Attributes:
        owner: what is called.
        key: of its arguments.
        result: structure of what the call returns, once it is known; `outs` is the number of flat results.
        shared: those of the results that are arrays which the caller has.
    """

    owner: Any
    key: Any
    functions: list[Function] = field(default_factory=list)
    result: Result | None = None
    outs: int = 0
    shared: Shared = field(default_factory=dict)


def find_opened(owner: Any, key: Any) -> Opened | None:
    """Return the call of the same kind whose functions are being captured."""
    return next((o for o in reversed(current().opened) if o.owner is owner and key is not None and o.key == key), None)


def new_function(name: str) -> Function:
    """Return an empty function with a name of its own in this capture."""
    names = current().function_names
    captured = current().function
    names.add(_identifier(getattr(captured, "__name__", type(captured).__name__)))
    name = _identifier(name)
    chosen, count = name, 1
    while chosen in names:
        count += 1
        chosen = f"{name}_{count}"
    names.add(chosen)
    return Function(chosen)


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "function"


#: number of a result -> the arrays that it may be: (argument, leaf), or one from outside
Shared = Mapping[int, Sequence[tuple[int, int] | Storage]]


class Runs(Enum):
    """How often the code of a function runs that is captured once: ONCE where it is called, and so `checkpoint`; ALONE
    when it does, but has no other results than its own; OFTEN for any number of times, none included."""

    ONCE = enum.auto()
    ALONE = enum.auto()
    OFTEN = enum.auto()


class Body:
    """A function's block while it is captured; makes its parameters."""

    def __init__(self) -> None:
        self.block = Block()
        self.tracers: list[Tracer] = []
        self._given: list[tuple[Any, list[Any], Tree]] = []
        self._params: Mapping[tuple[int, int], Tracer] = {}

    def param(self, kind: ArrayType, name: str, weak: bool = False, zero_dim: bool | None = False) -> Tracer:
        """Add a parameter, and return what stands for it."""
        value = Value(kind, name)
        self.block.params.append(value)
        self.tracers.append(Tracer(Storage(kind, current().depth, value), weak=weak))
        self.tracers[-1].zero_dim = zero_dim
        return self.tracers[-1]

    def arguments(self, arguments: Arguments) -> list[Any]:
        """Return the arguments of a call, with a new parameter for each operand."""
        pairs = zip(arguments.tracers, arguments.operands, strict=True)
        params = [self.param(tracer.type, value.name, tracer.weak, tracer.zero_dim) for tracer, value in pairs]
        for param, tracer in zip(params, arguments.tracers, strict=True):
            param._storage.stand_for(tracer.root._storage)
        return self.rebuilt(arguments.trees, dict(zip(arguments.traced, params, strict=True)))

    def rebuilt(self, trees: Sequence[tuple[list[Any], Tree]], params: Mapping[tuple[int, int], Tracer]) -> list[Any]:
        """Return the arguments with parameters for some leaves."""
        self._params = params
        for a, (leaves, tree) in enumerate(trees):
            own = [params.get((a, i), leaf) for i, leaf in enumerate(leaves)]
            self._given.append((unflatten(tree, own, new_list), own, tree))
        return [value for value, _, _ in self._given]

    def passed(self, arguments: Arguments) -> list[tuple[Tracer, Tracer]]:
        """Return the parameters for operands of a call, each with what it is for."""
        return [(self._params[place], t) for place, t in zip(arguments.traced, arguments.tracers, strict=True)]

    def find_shared(self, leaves: Sequence[Any], result: Result) -> Shared:
        """Return the arrays that the function returns which are those of arguments, or from outside."""
        own = {tracer._storage: place for place, tracer in self._params.items()}
        passed = {other for storage in own for other in storage.shares}
        shared: dict[int, list[tuple[int, int] | Storage]] = {}
        for leaf, position in zip(leaves, result.leaves, strict=True):
            if isinstance(leaf, Tracer) and leaf.ndim and not isinstance(position, Static):
                found = [storage for storage, _ in sources(leaf.root._storage)]
                outer = [s for s in found if s not in own and s not in passed and s.depth < current().depth]
                shared[position] = [*(own[s] for s in found if s in own), *outer]
        return shared

    def require_unwritten(self, called: Any) -> None:
        """Check that there were no writes into arrays or containers of the arguments."""
        for tracer in self.written().values():
            refuse_write(called, self.place_of(tracer))
        self.require_no_stores(called)

    def place_of(self, tracer: Tracer) -> Span | None:
        """Return where the array of an argument is written."""
        return current().frame.places.get(tracer._storage)

    def written(self) -> dict[tuple[int, int], Tracer]:
        """Return the arrays of the arguments that were written."""
        return {place: t for place, t in self._params.items() if t._storage.value not in self.block.params}

    def require_no_stores(self, called: Any) -> None:
        """Check that there were no stores into containers of the arguments."""
        stored = self.stored()
        if stored:
            refuse_write(called, stored_at(current().frame, list(stored.values())))

    def holders(self, container: Any) -> list[int]:
        """Return the numbers of the arguments in which a list, dict or object stands that was made for them."""
        return [
            n for n, (value, _, tree) in enumerate(self._given) if tree.kind and is_part(container, flatten(value)[1])
        ]

    def stored(self) -> dict[int, Any]:
        """Return the arguments that are containers into which there were stores, by their number."""
        return {
            number: value
            for number, (value, leaves, tree) in enumerate(self._given)
            if tree.kind is not None and has_changed(value, leaves, tree)
        }


def fill_function(
    function: Function, run: Callable[[Body], list[Value]], called: Any, runs: Runs
) -> Callable[[Sequence[Value]], None]:
    """Capture the body of a function: `run` adds parameters and returns what the function returns.

    Returns:
        What stores again outside, after the call, what the code has stored into Python objects; it gets the results.

    Raises:
        CaptureError: the code changes something outside that cannot be followed.
    """
    with filling(function, repeats=runs is Runs.OFTEN) as (body, frame):
        yields = run(body)
        refuse = functools.partial(refuse_change, called)
        if runs is Runs.OFTEN:
            for change in changes_of(frame):
                refuse(change)
        store = follow(frame, yields if runs is Runs.ONCE else None, refuse)
        for storage in written_in(frame):
            refuse_write(called, frame.places.get(storage))
        body.block.yields = yields
    return store


@contextmanager
def filling(function: Function, *, repeats: bool) -> Iterator[tuple[Body, Frame]]:
    """Capture the body of a function inside a with statement; what it changes outside is undone at the end."""
    body = Body()
    with current().open("callee", body.block, repeats=repeats) as frame:
        try:
            yield body, frame
        except BaseException:
            leave_branch(frame)
            raise
    leave_branch(frame)
    function.body = body.block


def refuse_change(called: Any, change: Change) -> NoReturn:
    """Raise the error for a change of a Python object whose effect leaves a function that stays a call."""
    name = getattr(called, "__name__", called)
    raise CaptureError(
        f"{name} changes {change.label}",
        code="TG234",
        span=change.span or user_span(),
        found=f"a store by the code of {name}, which is captured by itself and runs as a function of its own",
        help="return the new value beside the result, and store it where the function is called",
    )


def refuse_write(called: Any, span: Span | None = None) -> NoReturn:
    """Raise the error for a write into an array or an argument whose effect leaves a function that stays a call."""
    raise CaptureError(
        f"{getattr(called, '__name__', called)} writes into an array or container from outside",
        code="TG234",
        span=span or user_span(),
        found="an in-place write into an argument, or into something that the function has not made",
        help="return the new value, or write into a copy",
    )


def close_functions(opened: Opened) -> list[Value]:
    """Make parameters of the free values of some functions, the same ones for all; return the free values."""
    copied: dict[Value, Operation] = {}
    free: dict[Value, None] = {}
    for function in opened.functions:
        for value in free_values(function.body):
            producer = value.producer
            if producer is not None and producer.op in _LOCAL and not producer.operands:
                copied[value] = producer
            else:
                free[value] = None
    own = set(opened.functions)
    for function in opened.functions:
        mapping: dict[Value, Value] = {}
        local = []
        for value, producer in copied.items():
            copy = Operation(producer.op, [], dict(producer.attrs), [], [value.type], producer.span)
            copy.result.name = value.name
            local.append(copy)
            mapping[value] = copy.result
        inside = [o for o in walk(function.body) if not own.isdisjoint(callees(o))]
        params = [Value(v.type, v.name) for v in free]
        mapping.update(zip(free, params, strict=True))
        substitute(function.body, mapping)
        used = set(free_values(function.body))
        function.body.operations[:0] = [o for o in local if o.result in used]
        function.body.params.extend(params)
        for operation in inside:
            operation.operands.extend(params)
    _pass_on(opened, list(free))
    return list(free)


def _pass_on(opened: Opened, free: Sequence[Value]) -> None:
    """Pass the free values of some functions through those that they call to calls of themselves."""
    own = set(opened.functions)
    bodies: dict[Function, list[Operation]] = {}
    waiting = list(opened.functions)
    while waiting:
        function = waiting.pop()
        if function not in bodies:
            bodies[function] = list(walk(function.body))
            waiting.extend(callee for o in bodies[function] for callee in callees(o))
    passing: set[Function] = set()
    settled = False
    while not settled:
        settled = True
        for function, operations in bodies.items():
            for operation in operations:
                called = callees(operation)
                if function not in own and not (own | passing).isdisjoint(called):
                    settled &= function in passing
                    passing.add(function)
                if not passing.isdisjoint(called) and not passing.issuperset(called):
                    passing.update(called)
                    settled = False
    added = {f: f.params[len(f.params) - len(free) :] for f in opened.functions}
    for function in passing:
        added[function] = [Value(v.type, v.name) for v in free]
        function.params.extend(added[function])
    for function, operations in bodies.items():
        leading = passing if function in own else own | passing
        for operation in operations:
            if not leading.isdisjoint(callees(operation)):
                operation.operands.extend(added[function])


def join_results(result: Result, values: Sequence[Value], make: Callable[[int, bool], Any] | None = None) -> Any:
    """Put values into the structure of a returned value; static leaves stay.

    Args:
        make: gives what stands for the value of a number.
    """
    made = make or (lambda number, weak: from_value(values[number], weak=weak))
    leaves = [
        found.value if isinstance(found, Static) else made(found, weak)
        for found, weak in zip(result.leaves, result.weak, strict=True)
    ]
    return unflatten(result.tree, leaves, new_list)


def join_shared(
    result: Result, values: Sequence[Value], trees: Sequence[tuple[list[Any], Tree]], shared: Shared
) -> Any:
    """Put the results of a call with some arguments into the structure of a returned value; note which of them may be
    arrays that the caller has."""

    def make(number: int, weak: bool) -> Tracer:
        tracer = from_value(values[number], weak=weak)
        for place in shared.get(number, ()):
            array = trees[place[0]][0][place[1]] if isinstance(place, tuple) else None
            storage = array.root._storage if isinstance(array, Tracer) else place
            if isinstance(storage, Storage):
                share(tracer._storage, storage)
        return tracer

    return join_results(result, values, make)
