"""What a loop carries: names, slots of Python objects and lists, and the stand-ins for them in its body.

Previous: loop_lengths.py; next: loop_links.py.
"""

from __future__ import annotations

from typing import Any

from tracegrad import ops
from tracegrad.capture.aliases import link as link_objects
from tracegrad.capture.axes import Axis
from tracegrad.capture.chosen import Chosen, Conflict, Options, merge_options, renumbered
from tracegrad.capture.context import Frame, RestageError, Signal, Storage, call_path, current, user_span
from tracegrad.capture.joins import (
    NO_NUMBER,
    branch_error,
    has_none_beside,
    is_choice,
    is_number,
    meet,
    options_of,
    or_none,
    user_name,
)
from tracegrad.capture.lengths import known_distance, plus
from tracegrad.capture.lists import (
    CapturedList,
    Kind,
    ListUse,
    RecordKind,
    StackedList,
    content_of,
    count_of,
    greater,
    growing_error,
    indexed_error,
    item_type,
    join_kinds,
    make_room,
    note_peak,
    require_room,
    restore,
    snapshot,
)
from tracegrad.capture.loop_lengths import FEW_TRIPS, UNROLL_LIMIT, Lengths, ListLengths, Variable
from tracegrad.capture.masked import Masked
from tracegrad.capture.memory import layout_of, set_layout
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.slots import GetState, SetState, new_list, note_list, put_slot, read_slot
from tracegrad.capture.state import OrNone, Undefined, Unsure, flatten, unflatten
from tracegrad.capture.tracer import MaybeNone, Tracer, asarray, from_value, make_weak, stage
from tracegrad.capture.trees import Tree, build, close_older, divide, nodes, open_container
from tracegrad.ir.core import Block, Value
from tracegrad.ir.types import I64, ArrayType, Dim, dim_evaluate

#: the bound of a list's growth may depend on those of so many others; where it rises more often it depends on itself
_MOST_RISES = 3
#: for more elements there is no room from the start where they may be fewer
_MOST_RESERVED = 2**24


class LoopState:
    """The variables of a loop: the local names that it rebinds, and slots of Python containers that it writes."""

    def __init__(
        self, names: tuple[str, ...], get_state: GetState, set_state: SetState, most: Dim | None = None
    ) -> None:
        self.names, self.get_names, self.set_names = names, get_state, set_state
        #: the greatest number of iterations, where only that is known
        self.most = most
        #: whether a loop of which nothing more is known surely runs once
        self.runs = False
        #: whether nothing that the body is known to write decides how long the loop runs: Python knows its condition
        self.is_open = False
        self.begin()

    def begin(self) -> None:
        """Know nothing of the body."""
        self.slots: list[tuple[Any, str, Any]] = []
        #: those that the body wrote when it was captured here before
        self.foreseen: set[tuple[int, str, Any]] = set()
        #: variables that may not be there where an iteration starts -> the leaves and the structure that they can have
        self.unsure: dict[int, tuple[list[Any], Tree]] = {}
        #: variables that may be None where an iteration starts -> the leaves and the structure that they can have
        self.maybe_none: dict[int, tuple[list[Any], Tree]] = {}
        #: variables in which there may be None, or one of several Python values, where an iteration starts -> leaves
        #: and structure, with numbers for None
        self.inside: dict[int, tuple[list[Any], Tree]] = {}
        #: what `get` gave with such values inside, and what it was before
        self.opened: list[tuple[Any, Any]] = []
        #: items and attributes that hold such a value since, and what they held before
        self.replaced: list[tuple[Any, str, Any, Any]] = []
        #: variables that are one of several Python values -> these
        self.chosen: dict[int, Options] = {}
        #: variables that change places -> the one whose object each is for in the next iteration
        self.places: dict[int, int] = {}
        self.growing: list[Growth] = []
        #: position of a variable -> how the lengths of an array change from one iteration to the next
        self.lengths: dict[int, Lengths] = {}
        #: ids of lists that grow -> how much longer they are after each iteration, where that is the same for all
        self.steps: dict[int, Dim | None] = {}
        #: position of a list -> what it holds where an iteration starts
        self.begun: dict[int, list[Any]] = {}
        #: the number of the iteration, from 0, while a body of known length is captured
        self.number: Any = None

    def foresee(self) -> bool:
        """Begin with the slots that the body wrote when it was captured here before; return whether it did."""
        places = current().lessons.get((self.names, "slots"))
        self.slots.extend((places and places.get(call_path())) or ())
        self.foreseen.update((id(container), kind, key) for container, kind, key in self.slots)
        return bool(self.slots)

    def mistrust(self) -> None:
        """Begin anew, and never foresee here again."""
        current().lessons[self.names, "slots"][call_path()] = None
        self.begin()

    def remember(self) -> None:
        """Note the slots that the body has written, for when what is open is captured again."""
        capture = current()
        slots = [slot for slot in self.slots if not _may_be_renewed(*slot) and capture.is_lasting(slot[0])]
        if slots:
            places, path = capture.lessons.setdefault((self.names, "slots"), {}), call_path()
            if places.get(path, slots) is not None:
                places[path] = slots

    def get(self) -> list[Any]:
        values = [*self.get_names(), *(read_slot(*slot) for slot in self.slots)]
        values = [value.compressed().copy() if isinstance(value, Masked) else value for value in values]
        for position in self.unsure:
            values[position] = self._as_unsure(position, values[position])
        for position in self.maybe_none:
            values[position] = self._as_maybe_none(position, values[position])
        for position in self.inside:
            values[position] = self._with_inside(position, values[position])
        for position, options in self.chosen.items():
            values[position] = self._as_chosen(values[position], options)
        return values

    def read_slots(self, start: int) -> list[Any]:
        """Return what the slots hold that are variables from a position on."""
        return [read_slot(*slot) for slot in self.slots[start - len(self.names) :]]

    def _as_unsure(self, position: int, value: Any) -> Any:
        if isinstance(value, Unsure):
            return value
        there = not isinstance(value, Undefined)
        condition = from_value(current().builder.constant(there), weak=True)
        if not there:
            value = _stand_in_of(*self.unsure[position])
        return Unsure(self.label(position), value, condition, absent=not there)

    def _as_maybe_none(self, position: int, value: Any) -> Any:
        if isinstance(value, MaybeNone | OrNone) or not (value is None or has_none_beside(*flatten(value))):
            return value
        there = from_value(current().builder.constant(value is not None), weak=True)
        some = _stand_in_of(*self.maybe_none[position]) if value is None else value
        return or_none(some, there, absent=value is None)

    def _with_inside(self, position: int, value: Any) -> Any:
        leaves, tree = flatten(value)
        samples, structure = self.inside[position]
        (own, made), (_, other) = meet([(leaves, tree), (samples, structure)], [current().builder.block, Block()])[0]
        if made == tree or other != structure or made != structure:
            return value
        filled = [_sample_of(s) if leaf is NO_NUMBER else leaf for leaf, s in zip(own, samples, strict=True)]
        result = self._opened(value, tree, made, filled)
        if result is not value:
            self.opened.append((result, value))
        return result

    def _opened(self, value: Any, tree: Tree, made: Tree, leaves: list[Any]) -> Any:
        """Return a value with numbers that may be None and choices inside; lists, dicts and objects are
        changed."""
        if made == tree:
            return value
        if made.kind in (MaybeNone, Chosen):
            return unflatten(made, leaves, new_list)
        found = open_container(value)
        children = list(value) if found is None else found[1]
        parts = zip(children, tree.children, divide(leaves, made.children), strict=True)
        opened = [self._opened(child, old, new, own) for child, old, (new, own) in parts]
        if made.origin is None:
            result = build(made, opened)
            current().register_created(result)
            return result
        kind = "item" if isinstance(value, list | dict) else "attr"
        for key, before, after in zip(
            range(len(children)) if made.kind is list else made.data, children, opened, strict=True
        ):
            if after is not before:
                self.replaced.append((value, kind, key, before))
                put_slot(value, kind, key, after)
        return value

    def note_inside(self, position: int, sides: list[tuple[list[Any], Tree]]) -> bool:
        """Note of a variable that it may have None, or one of several Python values, inside where an iteration starts;
        return whether it may."""
        error = branch_error(self.label(position), "values", "one value", "another one", user_span())
        (before, tree), (after, after_tree) = meet(sides, [Block(), Block()], error=error)[0]
        if tree != after_tree or (tree == sides[0][1] and after_tree == sides[1][1]):
            return False
        samples = [b if a is NO_NUMBER else a for a, b in zip(after, before, strict=True)]
        self.inside[position] = samples, tree
        return True

    def close_opened(self) -> None:
        """Put back into lists, dicts and objects what they held, where the loop is not staged after all."""
        for container, kind, key, value in reversed(self.replaced):
            put_slot(container, kind, key, value)
        self.replaced.clear()

    def _as_chosen(self, value: Any, options: Options) -> Any:
        leaves, tree = flatten(value)
        if not is_choice((leaves, tree)) or merge_options(options, options_of(leaves, tree)) != options:
            return value
        if type(value) is Chosen and value.options == options and value.index.dtype == I64:
            return value
        known = tree.kind is not Chosen
        index = make_weak(asarray(0)) if known else value.index
        return Chosen(
            options, renumbered(index, options_of(leaves, tree), options), certain=(value,) if known else None
        )

    def note_maybe_none(self, position: int, leaves: list[Any], tree: Tree) -> None:
        """Note that a variable may be None where an iteration starts, and what it is where it is not."""
        if tree.kind in (MaybeNone, OrNone):
            leaves, tree = leaves[:-1], tree.children[0]
        self.maybe_none[position] = leaves, tree

    def note_unsure(self, position: int, leaves: list[Any], tree: Tree) -> None:
        """Note that a variable may not be there where an iteration starts, and what an iteration makes of it."""
        if tree.kind is Unsure:
            leaves, tree = leaves[:-1], tree.children[0]
        self.unsure[position] = leaves, tree

    def set(self, values: list[Any]) -> None:
        values = [
            Undefined(v.name)
            if isinstance(v, Unsure) and v.absent
            else None
            if isinstance(v, MaybeNone | OrNone) and v.absent
            else v.certain[0]
            if type(v) is Chosen and v.certain is not None
            else next((before for after, before in self.opened if after is v), v)
            for v in values
        ]
        self.set_names(tuple(values[: len(self.names)]))
        for slot, value in zip(self.slots, values[len(self.names) :], strict=True):
            put_slot(*slot, value)

    def label(self, position: int) -> str:
        return self.names[position] if position < len(self.names) else str(self.slots[position - len(self.names)][2])

    def variable(self, position: int) -> Variable:
        """Return what is known of the length of a variable."""
        lengths, begun = self.lengths.get(position), self.begun.get(position)
        return Variable(position, self.label(position), self.is_slot(position), lengths, self.number, begun)

    def is_slot(self, position: int) -> bool:
        """Return whether a variable is an item or an attribute, and not a name."""
        return position >= len(self.names)

    def stays(self, position: int, value: Any) -> bool:
        """Return whether a variable that has a value can have no other one after the loop: a list that grows, or the
        length of which is not known, unless the loop binds it anew."""
        if position in self.lengths:
            return False
        unknown = isinstance(value, StackedList) and isinstance(value.length, Tracer)
        return unknown or any(growth.values is value for growth in self.growing)

    def add_slots(self, frame: Frame) -> bool:
        """Add the slots that a captured body wrote; return whether there were new ones."""
        known = {(id(c), kind, key) for c, kind, key in self.slots}
        growing = {id(growth.values) for growth in self.growing}  # their items are in an array
        new = [
            (c, kind, key)
            for (where, kind, key), (c, _, _) in frame.slots.items()
            if (where, kind, key) not in known and not (kind == "item" and where in growing)
        ]
        self.slots.extend(new)
        return bool(new)

    def add_lists(self, grown: list[Growth], trips: Dim | None) -> bool:
        """Note how lists from outside grow in one iteration; return whether that was not known before."""
        found = False
        most = trips if trips is not None else self.most
        for growth in grown:
            growth.varies |= trips is None
            known = next((g for g in self.growing if g.values is growth.values), None)
            if known is not None:
                growth.peak, growth.before = greater(growth.peak, known.peak), known.before
                growth.rises = known.rises + decide(growth.count - known.count, ">")
                if (known.count, known.peak, known.varies) == (growth.count, growth.peak, growth.varies):
                    continue
            shrinks = decide(growth.count, "<=")
            is_variable = growth.varies and isinstance(growth.values, StackedList)
            if shrinks and is_variable and known is None and growth.has_room:
                note_peak(growth.values, count_of(growth.values) + growth.peak)
                continue
            if shrinks and growth.varies and growth.values and not is_variable:
                raise indexed_error(
                    ListUse(growth.values, capacity=len(growth.values)), "a loop takes items out of a list"
                )
            if (shrinks and not is_variable) or not isinstance(growth.values, CapturedList):
                if not shrinks:
                    raise RestageError(
                        "a list from outside grows in a loop", "make the list in the function, and return it"
                    )
                raise RestageError(
                    "a list shrinks or is changed in a loop",
                    "make an array before the loop, as long as it can get, write into it and count; or keep only what "
                    "is needed of the items, such as their sum",
                )
            growth.kind = item_type(growth.items) if isinstance(growth.items, list) else growth.items
            if not shrinks and (most is None or growth.rises > _MOST_RISES or growth.is_unlikely(most)):
                raise growing_error(growth.values, growth.kind, "items that are appended in each iteration")
            if isinstance(growth.kind, RecordKind) and not isinstance(growth.values, StackedList):
                limit = FEW_TRIPS if growth.kind.structure.is_fixed else UNROLL_LIMIT
                if trips is not None and dim_evaluate(trips, current().sizes) <= limit:
                    raise RestageError("a list of records is filled in a short loop")
            self.growing = [g for g in self.growing if g is not known] + [growth]
            found = True
        return found

    def prepare_lists(self, trips: Dim | None) -> None:
        """Make the lists that grow stacked, with room for all iterations."""
        trips = trips if trips is not None else self.most
        for growth in self.growing:
            assert isinstance(growth.values, CapturedList) and growth.kind is not None
            note_list(growth.values)
            growth.base = count_of(growth.values)
            growth.before = snapshot(growth.values) if growth.before is None else growth.before
            capacity = growth.base + growth.added(trips) + growth.peak - growth.added(1)
            note_peak(growth.values, capacity)
            require_room(growth.values, growth.kind, capacity)
            make_room(growth.values, growth.kind, capacity)
            assert isinstance(growth.values, StackedList)
            growth.start, growth.values.varies = growth.values.length, growth.varies
            if isinstance(growth.before, list):
                current().widen[id(growth.values)] = growth.widen

    def release_lists(self) -> None:
        """Note that the loop is not being staged any more."""
        for growth in self.growing:
            if isinstance(growth.before, list):
                current().widen.pop(id(growth.values), None)

    def note_begin(self) -> None:
        """Note what the lists hold whose length the loop carries, where the captured body starts."""
        values = self.get_names()
        self.begun = {k: content_of(values[k]) for k in self.lengths if isinstance(values[k], StackedList)}

    def start_iteration(self, number: Any) -> None:
        """Set the lengths of lists and arrays that change by a fixed number, at the start of the captured body."""
        self.number = number
        values = list(self.get_names())
        for position, lengths in self.lengths.items():
            for k, step in lengths.steps.items():
                length = as_size(lengths.starts[k]) + number * step
                if isinstance(lengths, ListLengths):
                    values[position].length = length
                    self.begun[position] = content_of(values[position])
                else:
                    axes = {**values[position].axes, k: Axis(length)}
                    values[position] = Ragged(values[position].content, axes)
        self.set_names(tuple(values))
        for growth in self.growing:
            note_list(growth.values)
            assert isinstance(growth.values, StackedList)
            if not growth.varies:
                growth.values.length = number * growth.count + growth.start

    def note_step(self, position: int, before: Any, after: Any) -> None:
        """Note by how much the body changes the length of a list, when that is the variable at a position."""
        container, kind, key = self.slots[position - len(self.names)]
        if kind == "attr" and key == "length" and isinstance(container, StackedList):
            self.steps[id(container)] = known_distance(after, before)

    def finish_steps(self, trips: Any) -> None:
        """Set the length of the lists that grow by as many items in each iteration, after a loop whose number of
        iterations is traced."""
        for growth in self.growing:
            step = self.steps.get(id(growth.values))
            if isinstance(growth.values, StackedList) and isinstance(step, int):
                note_list(growth.values)
                growth.values.length = make_weak(asarray(plus(growth.start, trips * step)))

    def restore_lists(self) -> None:
        """Give the lists their content from before the loop, which was not staged after all."""
        for growth in self.growing:
            if growth.before is not None:
                restore(growth.values, growth.before)

    def finish_lists(self, trips: Dim | None) -> None:
        """Set the length of the lists that grow, after the loop."""
        trips = trips if trips is not None else self.most
        for growth in self.growing:
            assert isinstance(growth.values, StackedList)
            growth.values.added = growth.base + growth.added(trips)
            if not growth.varies:
                assert trips is not None
                growth.values.length = growth.start + as_size(trips * growth.count)


def _may_be_renewed(container: Any, kind: str, key: Any) -> bool:
    """Return whether a slot may be another one when the loop is captured again: lists become arrays."""
    return kind == "cell" or isinstance(container, list) or not isinstance(key, str)


def _stand_in_of(leaves: list[Any], tree: Tree) -> Any:
    """Return something of a structure, and of the types of its leaves, that stands for nothing."""
    return unflatten(tree, [_sample_of(leaf) for leaf in leaves], new_list)


def _sample_of(leaf: Any) -> Any:
    """Return something of the type of a leaf that stands for nothing."""
    if not is_carryable(leaf):
        return leaf
    tracer = asarray(leaf)
    return from_value(stage(ops.undefined, type=tracer.type), weak=tracer.weak)


class Wider(Signal):
    """The body appends an item of another type to a list: capture the loop again with a list that takes it."""

    def __init__(self, growth: Growth) -> None:
        self.growth = growth


class Growth:
    """How a list grows: `count` items in each iteration, from `base` items before the loop.

    `start` is its length before the loop: traced in the body of a loop around it, where `base` counts one iteration.
    An iteration makes it longer by `peak` items at most, of which it may take some out again. `rises` counts how often
    the loop has been captured again since `count` was more than before.
    """

    def __init__(self, values: list[Any], count: Dim, items: Any, peak: Dim) -> None:
        self.values, self.count, self.items = values, count, items
        self.peak: Dim = greater(peak, self.added(1))
        self.varies = id(values) in current().varying or (isinstance(values, StackedList) and values.varies)
        self.base: Dim = 0
        self.start: Any = 0
        self.before: Any = None
        self.kind: Kind | None = None
        self.rises = 0

    def is_unlikely(self, trips: Dim) -> bool:
        """Return whether there may be far more items after some iterations than there are likely to be."""
        assert self.kind is not None
        return self.varies and dim_evaluate(self.added(trips), current().sizes) * self.kind.size > _MOST_RESERVED

    def added(self, trips: Dim | None) -> Dim:
        """Return how many items more than before there may be after some iterations."""
        if decide(self.count, "<="):
            return 0
        assert trips is not None
        return trips * self.count

    @property
    def has_room(self) -> bool:
        """Whether a list that no iteration makes longer has room for what one of them adds and takes out again."""
        assert isinstance(self.values, StackedList)
        free = self.values.capacity - self.values.added
        return decide(self.peak, "<=") or decide(free - self.peak, ">=")

    def widen(self, item: Any) -> None:
        """Let the list take an item, where it can.

        Raises:
            Wider: it will, when the loop is captured again.
        """
        assert self.kind is not None
        try:
            kind = join_kinds([self.kind, item_type([item])])
        except RestageError:
            return
        if kind != self.kind:
            self.kind = kind
            raise Wider(self)


class StandIns:
    """Block parameters that stand for the state at the start of a loop body, of the types that the body keeps."""

    def __init__(
        self,
        entry: list[Any],
        overrides: dict[tuple[int, int], tuple[ArrayType, bool]],
        kept: set[int],
        unordered: set[tuple[int, int]],
        mixed: set[tuple[int, int]],
        state: LoopState,
    ) -> None:
        self.trees = [open_variable(value, position in kept, value) for position, value in enumerate(entry)]
        self.params: dict[tuple[int, int], Tracer] = {}
        self.initial: dict[tuple[int, int], Value] = {}
        #: variable -> stand-ins for lists, dicts and objects, and what each is for before the loop
        self.objects: dict[int, list[tuple[Any, Any]]] = {}
        self.structures: dict[int, Tree] = {}
        values = []
        for position, (leaves, tree) in enumerate(self.trees):
            if position in kept:
                values.append(entry[position])
                continue
            stand_ins = []
            for index, leaf in enumerate(leaves):
                if is_carryable(leaf):
                    tracer = asarray(leaf)
                    kind, weak = overrides.get((position, index), (tracer.type, tracer.weak))
                    param = Value(kind, user_name(state.label(position)))
                    leaf = Tracer(Storage(kind, current().depth, param), weak=weak, contiguous=tracer.is_contiguous)
                    leaf._storage.stand_for(tracer.root._storage)
                    leaf.zero_dim = None if (position, index) in mixed else tracer.zero_dim
                    set_layout(leaf, None if (position, index) in unordered else layout_of(tracer))
                    self.params[position, index], self.initial[position, index] = leaf, param
                stand_ins.append(leaf)
            value = unflatten(tree, stand_ins, new_list)
            found = [(made.origin, old.origin) for made, old in nodes(flatten(value)[1], tree)]
            for made, old in found:
                link_objects(made, old, None, current().frame.block, position)
            self.objects[position], self.structures[position] = found, flatten(value)[1]
            values.append(value)
        self.values = values

    def has_grown(self, position: int, value: Any) -> bool:
        """Return whether a variable has the stand-in for its list, the length of which is not known any more."""
        if not isinstance(value, StackedList) or not isinstance(value.length, Tracer):
            return False
        return any(made is value for made, _ in self.objects.get(position, ()))


def open_variable(value: Any, is_kept: bool, start: Any) -> tuple[list[Any], Tree]:
    """Return leaves and structure of a variable in the body of a loop; of a list that it stays, only that it is this
    one.

    Args:
        start: what it is before the loop; where that is nothing, an older object in it is the same one in all
            iterations, and so a leaf.
    """
    if is_kept and isinstance(value, StackedList):
        return [], Tree(StackedList, id(value), (), value)
    leaves, tree = flatten(value)
    if isinstance(start, Undefined) or (isinstance(start, Unsure) and start.absent):
        return close_older(tree, leaves, current().depth - 1, lambda origin: origin)
    return leaves, tree


def is_carryable(leaf: Any) -> bool:
    """Return whether a loop can carry a leaf as a value of the IR."""
    return not isinstance(leaf, Undefined | Conflict) and is_number(leaf)
