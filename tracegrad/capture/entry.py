"""Capture of one function for one signature: runs it on tracers and collects inputs, results and effects.

Reads the user's function; writes an IR Function and what the runtime must know to call it.
Previous: hooks.py; next folder: transform.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracegrad.capture import hooks as _hooks  # noqa: F401 fills the namespace of converted code
from tracegrad.capture import known as _known  # noqa: F401 finds contents
from tracegrad.capture import numpy_api as _numpy_api  # noqa: F401 fills HANDLERS
from tracegrad.capture.calls import call
from tracegrad.capture.choices import merge
from tracegrad.capture.chosen import Chosen
from tracegrad.capture.context import (
    ENTRIES,
    Capture,
    HiddenInput,
    Place,
    RestageError,
    Storage,
    capturing,
    raised_span,
)
from tracegrad.capture.deques import require_no_lists
from tracegrad.capture.guards import require_unchanged
from tracegrad.capture.joins import is_stack_overflow
from tracegrad.capture.lengths import unknown_length
from tracegrad.capture.lists import (
    CapturedList,
    RecordKind,
    RecordList,
    StackedList,
    count_before,
    count_of,
    records_of,
    rows_of,
    rows_text,
)
from tracegrad.capture.memory import find_laid_out
from tracegrad.capture.ragged import Cut, Ragged
from tracegrad.capture.rooms import Room, rooms_of
from tracegrad.capture.sharing import is_same_view
from tracegrad.capture.sizes import Fact, as_size
from tracegrad.capture.slots import read_slot, undo
from tracegrad.capture.state import OrNone, Undefined, Unsure, flatten, is_same_object, none_error, unsure_error
from tracegrad.capture.tables import Table, has_table, open_table, unknown_keys
from tracegrad.capture.tracer import MaybeNone, Tracer, asarray, is_traced, unsupported
from tracegrad.capture.trees import Choice, Constant, Tree, build, divide
from tracegrad.capture.trials import check_unused
from tracegrad.capture.user_calls import stack_overflow
from tracegrad.errors import CaptureError, Span
from tracegrad.ir.core import Function, Interface, Value, escaped_values, walk
from tracegrad.ir.types import ArrayType


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array input: its type, whether it is a Python scalar, the expression that reads it, such as `params["w"]`,
    whether a derivative is taken by it, and whether it is an array where it has no axes."""

    type: ArrayType
    weak: bool
    path: str
    differentiated: bool = False
    zero_dim: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """A store into an object or container from outside, done again after every call: the slot gets the structure, or is
    deleted when that is None."""

    container: Any
    kind: str
    key: Any
    result: Result | None


@dataclass(frozen=True, slots=True)
class Result:
    """Structure of a returned or stored value. `leaves` are positions among the flat results, `Static` values, or a
    `Part` of another array."""

    tree: Tree
    leaves: tuple[Any, ...]
    weak: tuple[bool, ...]

    def build(self, results: Sequence[Any], inputs: Sequence[Any]) -> Any:
        """Put flat results, and parts of these and of the inputs, into the structure."""
        values = []
        for leaf, weak in zip(self.leaves, self.weak, strict=True):
            if isinstance(leaf, Static):
                values.append(leaf.value)
            elif isinstance(leaf, Part):
                values.append(leaf.of(results, inputs))
            else:
                value = results[leaf]
                values.append(value.item() if weak and isinstance(value, np.ndarray | np.generic) else value)
        return _unflatten(self.tree, values)


@dataclass(frozen=True, slots=True)
class Static:
    """A returned value that does not depend on traced values."""

    value: Any


@dataclass(frozen=True, slots=True)
class Part:
    """What is stored in a place outside and is an input itself, or a view of one or of what is stored elsewhere.

    Attributes:
        position: of the whole array, among the inputs or the flat results.
        views: what makes the part of it, each of the one before.
    """

    position: int
    is_input: bool
    views: tuple[Callable[[Any], Any], ...]

    def of(self, results: Sequence[Any], inputs: Sequence[Any]) -> Any:
        """Return the part, which shares its memory with the whole."""
        array = (inputs if self.is_input else results)[self.position]
        for view in self.views:
            array = view(array)
        return array


class _Stored:
    """Finds what the arrays are that are stored outside: inputs, results, and parts of these.

    Args:
        inputs: the parameters of the function.
        stored: what is stored.
    """

    def __init__(self, inputs: Sequence[Tracer], stored: Iterable[Any], results: list[Value]) -> None:
        self.inputs = {tracer._storage: position for position, tracer in enumerate(inputs)}
        self.results = results
        #: arrays that are stored as a whole -> their position among the results
        self.whole: dict[Storage, int | None] = {}
        for value in stored:
            for leaf in flatten(value)[0]:
                if isinstance(leaf, Tracer) and leaf.is_array and leaf._view is None:
                    self.whole[leaf._storage] = None

    def place_of(self, array: Tracer) -> int | Part | None:
        """Return where an array is among the results, or what it is a part of; None for one of its own."""
        if not array.is_array:
            return None
        views, root = [], array
        while root._view is not None:
            if root._view.native is None:
                return None
            views.append(root._view.native)
            root = root._view.base
        position = self.inputs.get(root._storage)
        if position is not None:
            return Part(position, True, tuple(reversed(views)))
        if root._storage not in self.whole:
            return None
        position = self.whole[root._storage]
        if position is None:
            position = self.whole[root._storage] = len(self.results)
            self.results.append(root.value)
        return Part(position, False, tuple(reversed(views))) if views else position


@dataclass(slots=True)
class Captured:
    """A function captured for one signature.

    Attributes:
        function: parameters are the leaves, then the hidden inputs; results are those of `result`, of the effects, and
            the final content of arrays written in place.
        result: structure of the returned value.
        write_back: position among the parameters -> position among the results.
        hidden: inputs read from globals, closures and objects at every call.
        guards: assumptions checked at every call.
        contents: number of a leaf -> its content, which the capture relies on.
        laid_out: positions of the parameters that must be in C order.
        native: positions of those that must be in the machine's byte order.
        unread: positions of those whose content is not used, where others are written in place.
        faults: places of the user's code that may fail by an index or a matrix.
        effects: stores into outside objects.
        facts: what was decided from the sizes of the call.
        events: what was staged, unrolled or run natively, with the place.
        rooms: of lists that loops without a known end fill, and for how many items each is.
    """

    function: Function
    result: Result
    write_back: dict[int, int]
    hidden: list[HiddenInput]
    guards: list[tuple[Place, Any]]
    effects: list[Effect]
    facts: list[Fact]
    events: list[tuple[Span | None, str]]
    contents: dict[int, bytes]
    laid_out: list[int]
    native: list[int]
    unread: frozenset[int]
    faults: frozenset[Span]
    rooms: list[tuple[Room, int]]


def capture(
    function: Callable[..., Any],
    leaves: Sequence[Leaf],
    rebuild: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    arguments: tuple[str, ...],
    sizes: Mapping[str, int] | None = None,
) -> Captured:
    """Capture `function`.

    Args:
        function: any callable.
        leaves: the array inputs.
        rebuild: puts one value per leaf into the call: `rebuild(values) -> (args, kwargs)`.
        arguments: the names of the Python parameters.
        sizes: of this call, for the size symbols in the types of the leaves.
    """
    state = Capture(function, sizes, as_size)
    try:
        return _capture(state, function, leaves, rebuild, arguments)
    except CaptureError as error:
        refused = error
        while (other := _other_way(state)) is not None:
            state = Capture(function, sizes, as_size)
            state.streamed, state.deques_are_lists, state.runs_generators = other
            try:
                return _capture(state, function, leaves, rebuild, arguments)
            except Exception as error:
                if not (state.deques_are_lists or state.runs_generators):  # else the error before says more
                    if not isinstance(error, CaptureError):
                        raise
                    refused = error
        raise refused from refused.__cause__


def _other_way(state: Capture) -> tuple[frozenset[types.CodeType], bool, bool] | None:
    """Return which generators a capture that has failed is done again with as streams, whether with lists for deques,
    and whether with generators that Python runs wherever it can; None: there is no other way."""
    if not state.runs_generators and not state.undecided <= state.streamed:
        return state.streamed | state.undecided, state.deques_are_lists, False
    if state.streamed:
        return frozenset(), state.deques_are_lists, True
    return (state.streamed, True, state.runs_generators) if state.makes_deques and not state.deques_are_lists else None


def _capture(
    state: Capture,
    function: Callable[..., Any],
    leaves: Sequence[Leaf],
    rebuild: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    arguments: tuple[str, ...],
) -> Captured:
    name = function_name(function)
    ir = Function(name if name.isidentifier() else "function", state.builder.block)
    with capturing(state):
        tracers = []
        for number, leaf in enumerate(leaves):
            param = Value(leaf.type, leaf_name(leaf.path))
            state.parameters[param] = number
            if leaf.weak and leaf.type.dtype.kind == "f" and not leaf.differentiated:
                state.floats.add(number)
            ir.body.params.append(param)
            tracers.append(Tracer(Storage(leaf.type, 0, param), weak=leaf.weak))
            tracers[-1].zero_dim = leaf.zero_dim
            tracers[-1]._storage.follows = frozenset((tracers[-1]._storage,))
        args, kwargs = rebuild(tracers)
        results: list[Value] = []
        try:
            returned = call(function, *args, **kwargs)
            state.owners.clear()  # a __dict__ that is returned is a dict as any other
            result = collect(returned, results, any_length=True)
            effects = _effects(state, tracers, results)
            require_no_lists([result.tree, *(effect.result.tree for effect in effects if effect.result is not None)])
        except RestageError as error:
            raise error.refusal() from error
        except RecursionError as error:
            if not is_stack_overflow(error):
                raise
            place = raised_span(error, outermost=True)
            raise stack_overflow("branches, operands or calls that nest too deep", place) from None
        finally:
            undo(state.frames[0])
        hidden = _hidden_inputs(state)
        ir.body.params.extend(h.value for h in hidden)
        write_back = {}
        inputs = [*tracers, *(h.tracer for h in hidden)]
        for position, (tracer, param) in enumerate(zip(inputs, ir.body.params, strict=True)):
            tracer._storage.require_fresh()
            if tracer._storage.value is not param:
                write_back[position] = len(results)
                results.append(tracer.value)
        ir.body.yields = results
        unread = _find_unread(ir) if write_back else frozenset()
        faults = check_unused(ir)
    _check_scopes(ir)
    hidden_names = _unique([h.value.name for h in hidden], arguments)
    ir.interface = Interface(
        (*arguments, *hidden_names),
        (*(leaf.path for leaf in leaves), *hidden_names),
        result_text(result.tree, list(result.leaves)),
    )
    return Captured(
        ir,
        result,
        write_back,
        hidden,
        list(state.guards.values()),
        effects,
        state.facts,
        state.events,
        state.contents,
        find_laid_out(state, inputs),
        [position for position in write_back if inputs[position]._storage in state.native],
        unread,
        faults,
        rooms_of(state),
    )


ENTRIES.add(_capture.__code__)


def _find_unread(function: Function) -> frozenset[int]:
    """Return the positions of the parameters whose content is not used."""
    read = {value for operation in walk(function.body) for value in operation.operands}.union(function.results)
    return frozenset(position for position, param in enumerate(function.params) if param not in read)


def _check_scopes(function: Function) -> None:
    """Check that no traced value is used outside the loop or branch that made it."""
    for value in escaped_values(function.body):
        producer = value.producer
        raise CaptureError(
            "a traced value leaves the loop or branch that made it through an object that is not followed",
            code="TG133",
            span=producer.span if producer is not None else None,
            found=f"{value.name or 'a value'}: {value.type}, kept in a Python object and read later",
            help="return it from the function that makes it, or keep it in a list, a dict, an attribute or an array",
        )


def function_name(function: Callable[..., Any]) -> str:
    """Return the name that a function has in generated code and messages; of a partial, that of the function in it."""
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def leaf_name(path: str) -> str:
    """Return the name of a value for a path: `params["w"]` -> w, `layers[0]["b"]` -> b_0... the last name in it."""
    words = [w for w in "".join(c if c.isalnum() or c == "_" else " " for c in path).split() if w]
    named = [w for w in words if w.isidentifier()]
    if not named:
        return ""
    position = max(i for i, w in enumerate(words) if w.isidentifier())
    return "_".join([words[position], *words[position + 1 :]])


def _unique(names: list[str], taken: tuple[str, ...]) -> tuple[str, ...]:
    used = set(taken)
    result = []
    for name in names:
        candidate, count = name or "constant", 1
        while candidate in used:
            count += 1
            candidate = f"{name}_{count}"
        used.add(candidate)
        result.append(candidate)
    return tuple(result)


def _hidden_inputs(state: Capture) -> list[HiddenInput]:
    return list({id(hidden): hidden for hidden in state.hidden.values()}.values())


def collect(value: Any, results: list[Value], *, any_length: bool = False, stored: _Stored | None = None) -> Result:
    """Append the array leaves of a returned value to the flat results.

    Args:
        any_length: arrays and lists may be of a length that is known when the program has run.
        stored: what the arrays are that are stored, where the value is.
    """
    value = _opened(value)
    leaves, tree = flatten(_with_copies(value) if any_length else value)
    return collect_leaves(*_settled(leaves, tree, any_length=any_length), results, any_length=any_length, stored=stored)


def _opened(value: Any) -> Any:
    """Return a value with the items of the dicts in it that arrays have."""
    if type(value) in (list, tuple):
        return type(value)(map(_opened, value)) if any(map(has_table, value)) else value
    open_table(value)
    return value


def _with_copies(value: Any, around: frozenset[int] = frozenset()) -> Any:
    """Return a value with copies in the place of views whose length is not known."""
    if isinstance(value, Ragged):
        return value.copy()
    if type(value) not in (tuple, list, CapturedList, dict) or id(value) in around:
        return value
    inside = around | {id(value)}
    if type(value) is dict:
        return {key: _with_copies(item, inside) for key, item in value.items()}
    return (tuple if type(value) is tuple else list)(_with_copies(item, inside) for item in value)


def _settled(leaves: Sequence[Any], tree: Tree, *, any_length: bool) -> tuple[list[Any], Tree]:
    """Return leaves and structure with lists in the place of those that were chosen from several, and the lengths of
    lists."""
    if tree.kind is Chosen and all(isinstance(option, list) for option in tree.data):
        return _settled(*flatten(merge(Chosen(tree.data, leaves[0]))), any_length=any_length)
    if tree.kind is None and isinstance(leaves[0], Ragged) and any_length:
        return flatten(leaves[0].copy())
    parts = [_settled(own, child, any_length=any_length) for child, own in divide(list(leaves), tree.children)]
    if not parts:
        return list(leaves), tree
    return [leaf for own, _ in parts for leaf in own], replace(tree, children=tuple(child for _, child in parts))


def collect_leaves(
    leaves: Sequence[Any],
    tree: Tree,
    results: list[Value],
    *,
    can_be_none: bool = False,
    any_length: bool = False,
    stored: _Stored | None = None,
) -> Result:
    """Append those of some leaves that are arrays or numbers to the flat results.

    Args:
        can_be_none: numbers that may be None can be returned: with whether they are there.
        any_length: arrays of a length that is known when the program has run can be returned: with their lengths.
        stored: what the arrays are that are stored, where the leaves are.
    """
    _require_sure(tree, can_be_none, any_length, is_stored=stored is not None)
    positions: list[Any] = []
    weak = []
    for leaf in leaves:
        if isinstance(leaf, Static):
            positions.append(leaf)
            weak.append(False)
            continue
        if isinstance(leaf, Undefined):
            raise leaf.error()
        if isinstance(leaf, Table):
            raise unknown_keys("is returned, or kept in an object from outside")
        if isinstance(leaf, Iterator) and not isinstance(leaf, Tracer):
            raise unsupported("a generator or iterator as result", "return a list or an array: `list(...)`")
        if isinstance(leaf, Tracer | np.ndarray | np.inexact | float | complex) or is_traced(leaf):
            tracer = asarray(leaf)
            weak.append(tracer.weak)
            place = stored.place_of(tracer) if stored is not None else None
            positions.append(len(results) if place is None else place)
            if place is None:
                results.append(tracer.value)
        else:
            positions.append(Static(leaf))
            weak.append(False)
    return Result(tree, tuple(positions), tuple(weak))


def _require_sure(tree: Tree, can_be_none: bool, any_length: bool, *, is_stored: bool = False) -> None:
    if tree.kind is Unsure:
        raise unsure_error(tree.data, "is returned, or kept in an object from outside")
    if (tree.kind is OrNone and not is_stored) or (tree.kind is MaybeNone and not (can_be_none or is_stored)):
        raise none_error()
    if tree.kind in (StackedList, RecordList) and tree.data[0].maybe:
        raise none_error()
    if tree.kind is Ragged and not any_length:
        raise unknown_length(
            "an array of a length known only at run time, which is returned or kept outside",
            "return the whole array and a mask, or what is computed of it: its length, a sum, a maximum, an element",
        )
    if tree.kind is Chosen:
        raise tree.data.error
    for child in tree.children:
        _require_sure(child, can_be_none, any_length, is_stored=is_stored)


def _effects(state: Capture, arguments: Sequence[Tracer], results: list[Value]) -> list[Effect]:
    """Collect stores into outside objects, which are undone after the capture and done again after each call."""
    require_unchanged()
    slots = list(_stores(state))
    inputs = [*arguments, *(hidden.tracer for hidden in _hidden_inputs(state))]
    stored = _Stored(inputs, [value for *_, value in slots], results)
    effects = []
    for container, kind, key, value in slots:
        is_there = not isinstance(value, Undefined)
        result = collect(value, results, any_length=True, stored=stored) if is_there else None
        effects.append(Effect(state.originals.get(id(container), container), kind, key, result))
    return effects


def _stores(state: Capture) -> Iterator[tuple[Any, str, Any, Any]]:
    """Yield the slots outside that the function has stored into, and what they hold; Undefined where it is deleted."""
    frame = state.frames[0]
    inputs = {id(h.original): h.tracer for h in state.hidden.values()}
    for (_, kind, key), (container, seen, before) in frame.slots.items():
        final = read_slot(container, kind, key)
        if not is_same_object(before, final) and not _is_same(final, inputs.get(id(before), seen)):
            yield container, kind, key, final
    for values, before_items in frame.lists.values():
        if count_of(values) != count_before(before_items):
            raise CaptureError(
                "the function changes the length of a list from outside",
                code="TG124",
                span=None,
                found=f"a list of {count_before(before_items)} items that is not made by the function",
                help="make the list in the function and return it",
            )
        for index, (item, item_before) in enumerate(zip(values, before_items, strict=True)):
            if item is not item_before:
                yield values, "item", index, item
    for container, keys in state.key_orders.values():
        for key in _moved_keys(keys, container):
            yield container, "item", key, Undefined(str(key))
            yield container, "item", key, container[key]


def _is_same(final: Any, seen: Any) -> bool:
    """Return whether two values are one object or one array in Python."""
    if isinstance(final, Tracer) and isinstance(seen, Tracer) and final.ndim:
        return is_same_view(final, seen)
    return final is seen


def _moved_keys(before: list[Any], final: dict[Any, Any]) -> list[Any]:
    """Return the keys of a dict, in order, that must be deleted and stored again for its order to be the final one."""
    kept = dict.fromkeys(before)
    expected = [*(k for k in before if k in final), *(k for k in final if k not in kept)]
    keys = list(final)
    first = next((i for i, (a, b) in enumerate(zip(expected, keys, strict=True)) if a != b), len(keys))
    return keys[first:]


def _unflatten(tree: Tree, leaves: list[Any]) -> Any:
    if tree.kind is None:
        return leaves[0]
    if all(child.kind is None for child in tree.children):
        children = leaves
    else:
        children = [_unflatten(child, own) for child, own in divide(leaves, tree.children)]
    if tree.kind is Ragged:
        return Cut(tree.data)(*children)
    if tree.kind in (OrNone, MaybeNone):
        value, is_there = children
        return value if is_there else None
    if tree.kind is StackedList:
        return rows_of(children[0], tree.data[0].nested)
    if tree.kind is RecordList:
        return records_of(tree.data[0], children)
    return list(children) if tree.kind is list else build(tree, children)


def result_text(tree: Tree, leaves: list[Any]) -> str:
    """Return the template of a returned structure for generated code; see Interface.result."""
    if tree.kind is None:
        leaf = leaves[0]
        if isinstance(leaf, Static):
            return _escaped(repr(leaf.value))
        return f"{{{leaf}}}"
    texts = [result_text(child, own) for child, own in divide(leaves, tree.children)]
    if tree.kind is Ragged:
        return Cut(tree.data).text(*texts)
    if tree.kind is StackedList:
        return rows_text(texts[0], tree.data[0].nested)
    if tree.kind is RecordList:
        return _records_text(tree.data[0], texts)
    if tree.kind is Constant:
        return _escaped(repr(tree.data))
    if tree.kind is Choice:
        return f"{_escaped(repr(tree.data))}[{texts[0]}]"
    if tree.kind is list:
        return f"[{', '.join(texts)}]"
    if tree.kind is tuple or hasattr(tree.kind, "_fields"):
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
    return "{{" + ", ".join(f"{key!r}: {text}" for key, text in zip(tree.data, texts, strict=True)) + "}}"


def _records_text(kind: RecordKind, texts: list[str]) -> str:
    """Return the text of `records_of` arrays."""
    names = [f"item_{k}" for k in range(len(texts))]
    item = _escaped(result_text(kind.structure, list(range(len(names)))).format(*names))
    rows = ", ".join(rows_text(text, field.nested) for text, field in zip(texts, kind.fields, strict=True))
    return f"[{item} for {', '.join(names)}{',' if len(names) == 1 else ''} in zip({rows})]"


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
