"""The two sides of a traced condition, captured one after the other and joined into one value per name and slot.

Writes the operands and results of `if` operations. Previous: slots.py; next: branches.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tracegrad import ops
from tracegrad.capture.aliases import UNDECIDED, Conditions, holds, ways
from tracegrad.capture.aliases import link as link_objects
from tracegrad.capture.chosen import MERGE, Chosen, Conflict, Options, is_equal, merge_options, place_of, renumbered
from tracegrad.capture.context import Frame, RestageError, Signal, Storage, current, raised_span, user_span
from tracegrad.capture.lists import (
    CHANGED,
    CapturedList,
    Kind,
    ListUse,
    StackedList,
    count_before,
    count_of,
    give_rows,
    indexed_error,
    item_type,
    join_kinds,
    kind_of,
    name_of,
    pin,
    use_of_index,
)
from tracegrad.capture.memory import as_one_of
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sharing import share, sources
from tracegrad.capture.slots import GetState, SetState, new_list, note_list, put_slot, read_slot, set_slot, undo
from tracegrad.capture.state import OrNone, Undefined, Unsure, flatten, is_option, kind_name, unflatten
from tracegrad.capture.text import TracedText, keep_text
from tracegrad.capture.tracer import (
    MaybeNone,
    Tracer,
    asarray,
    call_handler,
    common_zero_dim,
    describe,
    from_value,
    is_traced,
    make_weak,
    result_dtype,
    stage,
)
from tracegrad.capture.trees import LEAF, Tree, close_older, divide, identities
from tracegrad.capture.trials import FACTORS, check_here, follow
from tracegrad.errors import ArgumentError, CaptureError, NeedsPythonValue, ShapeError, TracedNameError, TracegradError
from tracegrad.ir.core import Block, Operation, Value
from tracegrad.ir.types import BOOL, I64, ArrayType, Dim


def is_fault(error: Exception) -> bool:
    """Return whether Python raises an error here too: the user's own, a name that is not bound, and what NumPy refuses
    by shape or size."""
    if isinstance(error, TracegradError):
        refused = isinstance(error, ValueError | IndexError | TracedNameError)
        return refused and not isinstance(error, CaptureError | ArgumentError | ShapeError)
    return not isinstance(error, Signal) and not is_stack_overflow(error)


def is_stack_overflow(error: BaseException) -> bool:
    """Return whether the capture itself, not a statement of the user, has run out of Python's stack."""
    return isinstance(error, RecursionError) and str(error).startswith("maximum recursion depth exceeded")


#: where an exception has the number that chooses it, and those that it chooses from
_CHOICE = "tg_choice"


def chosen_error(kind: type[BaseException], chosen: Chosen, errors: Sequence[BaseException]) -> BaseException:
    """Return the exception that is one of several, by their messages."""
    error = kind(" or ".join(str(error) for error in errors))
    keep_text(error)
    setattr(error, _CHOICE, (chosen.index, errors))
    return error


def raise_unless(condition: Value, error: Exception) -> None:
    """Raise at run time, unless a condition holds, what was raised at capture."""
    index, errors = getattr(error, _CHOICE, (None, [error]))
    builder = current().builder
    for number, one in enumerate(errors):
        holds, raised = condition, follow(one)[0]
        if index is not None:
            same = index.value if index.dtype == BOOL else stage(ops.equal, index.value, builder.constant(number))
            other = same if index.dtype == BOOL and number == 0 else stage(ops.logical_not, same)
            holds = stage(ops.logical_or, condition, other)
        builder.span = raised_span(error) or user_span()
        check_here(holds, raised)


def merged(value: Any, depth: int) -> Any:
    """Return a list in the place of one that was chosen from lists that are made deeper than `depth`."""
    if type(value) is Chosen and value.is_list and any(current().created_depth(o) > depth for o in value.options):
        return linked_list(value)
    return value


def linked_list(chosen: Chosen) -> Any:
    """Return a list in the place of one that was chosen, linked to those that it may be."""
    made, block = MERGE[0](chosen), current().frame.block
    for number, option in enumerate(chosen.options):
        index, outcome = chosen.index.value, bool(number)
        if chosen.index.dtype != BOOL:
            index, outcome = stage(ops.equal, index, current().builder.constant(number)), True
        link_objects(made, option, frozenset([(index, outcome)]), block)
    return made


def _settled(value: Any) -> Any:
    """Return what a value is that may be None, or not there, where the open branches say that it is there."""
    value = merged(value, current().depth - 1)
    if isinstance(value, MaybeNone) and value.present.value in current().holding:
        return value.some
    if isinstance(value, OrNone) and value.present.value in current().holding:
        return value.value
    return value.value if isinstance(value, Unsure) and value.condition.value in current().holding else value


class Branch:
    """One captured side of an `if`: its block, the state after it, and the writes it made (all undone again)."""

    def __init__(
        self,
        fn: Callable[[], None],
        entry: tuple[Any, ...],
        get_state: GetState,
        set_state: SetState,
        holding: list[Value],
        carried: frozenset[int],
    ) -> None:
        capture = current()
        self.block = Block()
        self.raised: Exception | None = None
        set_state(entry)
        with capture.assuming(holding):
            with capture.open("branch", self.block, carried) as frame:
                try:
                    fn()
                except Exception as error:
                    if not is_fault(error):
                        leave_branch(frame)
                        raise
                    self.raised = error  # on this path only
                # leaves are read before writes into containers are undone
                self.state = [flatten(_settled(value)) for value in get_state()]
                self.values = {i: content_of(leaf) for i, leaf in _tracers(self.state)}
                self.grown = {id(v): _Appended(v, before) for v, before in frame.lists.values()}
            self.slots = {
                slot: (container, _settled(read_slot(container, slot[1], slot[2])), before)
                for slot, (container, _, before) in frame.slots.items()
            }
        self.writes, self.rewritten = leave_branch(frame), frame.rewritten

    @contextmanager
    def reopened(self) -> Iterator[None]:
        """Stage at the end of the branch inside a with statement, where arrays have the content that it gave them."""
        before = {storage: (storage.value, storage.concrete) for storage in self.writes}
        with current().open("branch", self.block):
            for storage, value in self.writes.items():
                storage.value, storage.concrete = value, None
            for (_, kind, key), (container, value, _) in self.slots.items():
                set_slot(container, kind, key, value)
            try:
                yield
            finally:
                for (_, kind, key), (container, _, value) in reversed(self.slots.items()):
                    set_slot(container, kind, key, value)
                for storage, (kept, concrete) in before.items():
                    storage.value, storage.concrete = kept, concrete


class _Appended:
    """What one side of an `if` appended to a list from outside. `count` is None for any other change."""

    def __init__(self, values: list[Any], before: Any) -> None:
        self.values, self.before = values, before
        self.varies = isinstance(values, StackedList) and values.varies
        self.count: Dim | None = count_of(values) - count_before(before)
        self.items: tuple[list[Any], Tree] = ([], LEAF)
        if isinstance(values, StackedList):
            return
        kept = len(before) if isinstance(before, list) else -1
        if kept < 0 or len(values) < kept or any(a is not b for a, b in zip(values, before, strict=False)):
            self.count = None
            return
        self.items = flatten(tuple(values[kept:]))
        self.known = {i: leaf.value for i, leaf in enumerate(self.items[0]) if isinstance(leaf, Tracer)}


def _tracers(state: list[tuple[list[Any], Tree]]) -> Iterator[tuple[tuple[int, int], Tracer]]:
    for position, (leaves, _) in enumerate(state):
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, Tracer):
                yield (position, index), leaf


def content_of(leaf: Tracer) -> Value:
    """Return the value of an array that a name is bound to where a block ends; undefined when it is not known."""
    return stage(ops.undefined, type=leaf.type) if leaf.root._storage.stale else leaf.value


def leave_branch(frame: Frame) -> dict[Storage, Value]:
    """Undo a branch's writes; return the storages it wrote with their value after."""
    undo(frame)
    writes = {}
    for storage, (value, concrete) in frame.saved.items():
        assert storage.value is not None
        if storage.value is not value:
            writes[storage] = storage.value
        storage.value, storage.concrete = value, concrete
    return writes


class _Twin(NamedTuple):
    """An object that was made on a side of an `if`, which another one of that side may be.

    Attributes:
        key: side and id, as in `_Join.made`.
        condition: position of the result that says whether it is; None where that is not known.
    """

    key: tuple[int, int]
    condition: int | None


class _Join:
    """Collects the pairs of values that the two sides of an `if` yield."""

    def __init__(self, branches: list[Branch], condition: Value) -> None:
        self.branches, self.condition = branches, condition
        self.types: list[ArrayType] = []
        #: side and id of an object that a side made -> what was made of it
        self.made: dict[tuple[int, int], list[Any]] = {}
        #: the same -> what was made of others that it may be, with the conditions
        self.chosen: dict[tuple[int, int], list[tuple[Any, Conditions | None]]] = {}

    def side(self, side: int) -> Conditions:
        return frozenset([(self.condition, side == 0)])

    def follow(self, trees: Sequence[Tree | None]) -> Callable[[Any, list[Value]], Any]:
        """Return what links a value, made of one structure on each side, to the objects that it may be."""
        given = [(side, tree) for side, tree in enumerate(trees) if tree is not None]
        plans = [
            [plan for (side, _), one in zip(given, found, strict=True) for plan in self._origins(side, one)]
            for found in identities(*(tree for _, tree in given))
        ]
        shape = given[0][1]

        def finish(value: Any, results: list[Value]) -> Any:
            block = current().frame.block
            for (made, _), plan in zip(identities(flatten(value)[1], shape), plans, strict=True):
                for other, where in plan:
                    if isinstance(where, _Twin):
                        held = None if where.condition is None else frozenset([(results[where.condition], True)])
                        self.chosen.setdefault(where.key, []).append((made, held))
                        for twin in self.made.get(where.key, []):
                            link_objects(made, twin, held, block)
                        continue
                    if isinstance(where, tuple):
                        for twin in self.made.setdefault(where, []):
                            link_objects(made, twin, self.side(where[0]), block)
                        for twin, held in self.chosen.get(where, []):
                            link_objects(made, twin, held, block)
                        self.made[where].append(made)
                        continue
                    conditions = frozenset([(results[where], True)]) if isinstance(where, int) else where
                    link_objects(made, other, conditions, block)
            return value

        return finish

    def _origins(self, side: int, origin: Any) -> Iterator[tuple[Any, Any]]:
        """Yield objects that what one side has is, and where: conditions, None, the position of a result that says it,
        the key of an object that this side made, or the twin that it may be."""
        capture, block = current(), self.branches[side].block
        if capture.created_depth(origin) <= capture.depth:
            yield origin, self.side(side)
            return
        yield origin, (side, id(origin))
        for way in ways(origin, block):
            if way.positions:
                continue
            position = None
            if way.conditions is not None and not way.conditions >= UNDECIDED:
                values: list[Value | None] = [None, None]
                for number, branch in enumerate(self.branches):
                    with capture.builder.into(branch.block):
                        values[number] = holds(way.conditions) if number == side else capture.builder.constant(False)
                position = self.add(ArrayType(BOOL), values)
            is_own = capture.created_depth(way.other) > capture.depth
            yield way.other, _Twin((side, id(way.other)), position) if is_own else position

    def link(self, joined: Tracer, sides: Sequence[Any]) -> Tracer:
        """Note of an array which arrays from before the branch it is, under the condition or its opposite."""
        capture = current()
        as_one_of(joined, [leaf for leaf in sides if isinstance(leaf, Tracer)])
        for side, leaf in enumerate(sides):
            if not isinstance(leaf, Tracer) or not leaf.is_array:
                continue
            root = leaf.root._storage
            if root.stale:
                capture.make_stale(joined._storage, root.stale)
            if root.depth > capture.depth:
                for storage, _ in sources(root):
                    if storage.depth <= capture.depth:
                        share(joined._storage, storage)
                continue
            link(joined, leaf, self.condition if side == 0 else stage(ops.logical_not, self.condition))
        return joined

    def add(self, kind: ArrayType, values: Sequence[Value | None]) -> int:
        """Add a result; a value of None is never read. Returns the position of the result."""
        for branch, value in zip(self.branches, values, strict=True):
            with current().builder.into(branch.block):
                if value is None:
                    value = stage(ops.undefined, type=kind)
                elif value.dtype != kind.dtype:
                    value = stage(ops.cast, value, dtype=kind.dtype)
            branch.block.yields.append(value)
        self.types.append(kind)
        return len(self.types) - 1


def link(joined: Tracer, leaf: Tracer, condition: Value) -> None:
    """Note that one array is another under a condition: a write into the one is then one into the other."""
    capture, root = current(), leaf.root._storage
    capture.touch(joined._storage)
    joined._storage.links += ((condition, leaf),)
    if leaf.root is leaf:
        capture.touch(root)
        root.links += ((condition, joined),)
    else:
        pin(leaf, "an array of which a view is bound to a name under a traced condition")


def join_branches(
    condition: Value,
    branches: list[Branch],
    set_state: SetState,
    names: tuple[str, ...],
    span: Any,
) -> None:
    """Give each name and slot that a branch changed one value, chosen by the condition."""
    capture = current()
    join = _Join(branches, condition)
    grow = _join_lists(join, branches, span)
    finish: list[Callable[[list[Value]], Any]] = []
    for position, name in enumerate(names):
        finish.append(_join_value(join, name, position, branches, span))
    slots = {**branches[0].slots, **branches[1].slots}
    slot_finish = []
    for slot, (container, _, before) in slots.items():
        sides = [branch.slots[slot][1] if slot in branch.slots else before for branch in branches]
        slot_finish.append((slot, container, _join_slot(join, str(slot[2]), sides, branches, span)))
    storages = list(dict.fromkeys([*branches[0].writes, *branches[1].writes]))
    written = []
    for storage in storages:
        sides_values = []
        for branch in branches:
            value = branch.writes.get(storage)
            sides_values.append(value if value is not None else capture.read(storage))
        written.append((storage, join.add(storage.type, sides_values)))
    operation = Operation("if", [condition], {}, [b.block for b in branches], list(join.types), span)
    if operation.results or any(has_effect(b.block) for b in branches):
        capture.builder.block.operations.append(operation)
    with capture.copying(not any(b.rewritten for b in branches)):
        for storage, position in written:
            result = operation.results[position]
            result.name = storage.value.name if storage.value is not None else ""
            capture.write(storage, result)
    set_state(tuple(f(operation.results) for f in finish))
    for make in grow:
        make(operation.results)
    for (_, kind, key), container, make in slot_finish:
        put_slot(container, kind, key, make(operation.results))


def keep_effects(condition: Value, branches: list[Branch], span: Any) -> None:
    """Stage what the sides that raise an error check and print before."""
    blocks = [branch.block if branch.raised is not None else Block() for branch in branches]
    if any(map(has_effect, blocks)):
        current().builder.block.operations.append(Operation("if", [condition], {}, blocks, [], span))


def _join_lists(join: _Join, branches: list[Branch], span: Any) -> list[Callable[[list[Value]], None]]:
    """Join lists to which the sides append; return what extends them after the `if`."""
    finish = []
    for key in dict.fromkeys([*branches[0].grown, *branches[1].grown]):
        found = [branch.grown.get(key) for branch in branches]
        given = [0 if g is None else g.count for g in found]
        counts = [count for count in given if count is not None]
        numbers = [count for count in counts if isinstance(count, int)]
        if len(counts) < 2 or (counts[0] != counts[1] and len(numbers) < 2):
            raise NeedsPythonValue(
                CHANGED[0],
                code=CHANGED[1],
                span=span,
                found="a change of a list other than append, under a traced condition",
                help="append items, or use an array with a fixed size and a mask, or np.where",
            )
        if counts == [0, 0]:
            continue
        values = next(g.values for g in found if g is not None)
        if isinstance(values, StackedList):
            finish.append(_lengthen(join, values, counts, any(g is not None and g.varies for g in found)))
        elif counts[0] == counts[1]:
            one, other = found
            assert one is not None and other is not None
            finish.append(_extend(join, one, other, branches, span))
        else:
            longer = found[numbers.index(max(numbers))]
            assert longer is not None
            finish.append(_vary(longer))
    return finish


def _lengthen(join: _Join, values: StackedList, counts: list[Dim], varies: bool) -> Callable[[list[Value]], None]:
    """Return what lengthens a list by the items that the sides have written into its buffer.

    Where the length `varies` already, it is joined as any other slot.
    """

    def lengthen(results: list[Value]) -> None:
        if varies:
            values.varies = True
        elif counts[0] == counts[1]:
            note_list(values)
            values.length = values.length + counts[0]
        else:
            values.varies = True
            note_list(values)
            more = call_handler(np.where, from_value(join.condition, weak=True), *counts)
            values.length = make_weak(values.length + more)
        values.added = values.added + (counts[0] if counts[0] == counts[1] else max(counts))  # type: ignore[type-var]

    return lengthen


def _vary(longer: _Appended) -> Callable[[list[Value]], None]:
    """Return what notes that a list grows by different numbers of items on the two sides.

    It then gets a buffer with room for those of the longer one, and what was captured is captured again.
    """
    values, items = longer.values, unflatten(longer.items[1], longer.items[0], new_list)
    capture = current()
    if not any(frame.kind == "loop" for frame in capture.frames[capture.created_depth(values) + 1 :]):
        use = use_of_index(values, items[0])
        if use is not None:
            use = use._replace(replaced=False, capacity=len(values) + len(items))
        name = name_of(values)
        found = f"items that are appended to {name!r}" if name else "items that are appended"
        try:
            item_type([*values, *items])
            reason = ""
        except RestageError as error:
            reason = f"; {error.reason}"
        found += f" under a condition, as `break` makes one{reason}"
        raise indexed_error(use or ListUse(values, capacity=1), found)

    def note(results: list[Value]) -> None:
        note_list(values)
        list.extend(values, items)
        capture.varying.add(id(values))

    return note


def _extend(
    join: _Join, one: _Appended, other: _Appended, branches: list[Branch], span: Any
) -> Callable[[list[Value]], None]:
    values = one.values
    name = f"tg_items {name_of(values)}".rstrip()
    make = _join_trees(join, name, [one.items, other.items], [one.known, other.known], branches, span)

    def extend(results: list[Value]) -> None:
        note_list(values)
        list.extend(values, make(results))

    return extend


def has_effect(block: Block, effects: Container[str] = ("check", "print", *FACTORS)) -> bool:
    """Return whether a block, or a block within, has one of the effects; a factorization may fail."""
    return any(o.op in effects or any(has_effect(b, effects) for b in o.blocks) for o in block.operations)


def _join_slot(
    join: _Join, name: str, sides: list[Any], branches: list[Branch], span: Any
) -> Callable[[list[Value]], Any]:
    trees: list[tuple[list[Any], Tree]] = []
    values: list[dict[int, Value]] = []
    for branch, side in zip(branches, sides, strict=True):
        with branch.reopened():
            leaves, tree = flatten(side)
            trees.append((leaves, tree))
            values.append({i: content_of(leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, Tracer)})
    return _join_trees(join, name, trees, values, branches, span)


def _join_value(
    join: _Join, name: str, position: int, branches: list[Branch], span: Any
) -> Callable[[list[Value]], Any]:
    trees = [branch.state[position] for branch in branches]
    values = [{i: v for (p, i), v in branch.values.items() if p == position} for branch in branches]
    return _join_trees(join, name, trees, values, branches, span)


def _join_trees(
    join: _Join,
    name: str,
    trees: list[tuple[list[Any], Tree]],
    values: list[dict[int, Value]],
    branches: list[Branch],
    span: Any,
) -> Callable[[list[Value]], Any]:
    trees, values = _collapse(trees, values)
    (left, left_tree), (right, right_tree) = trees
    if not name.startswith("tg_") and _is_unsure(*trees[0]) + _is_unsure(*trees[1]) > 0:
        return _join_unsure(join, name, trees, values, branches, span)
    for side, (own, own_tree) in enumerate(trees):
        if own_tree.kind is None and isinstance(own[0], Undefined):
            other, other_tree = trees[1 - side]
            if other_tree.kind is None and isinstance(other[0], Undefined):
                return lambda results: Undefined(name)
            # never read where it is not bound, so what is older is that object itself
            pairs = [(leaf, values[1 - side].get(index)) for index, leaf in enumerate(other)]
            pairs, closed = close_older(other_tree, pairs, current().depth, lambda origin: (origin, None))
            leaves = []
            follow_one = join.follow([closed if k != side else None for k in range(2)])
            for leaf, value in pairs:
                given = [own[0] if k == side else leaf for k in range(2)]
                leaves.append(_given(join, name, given, [None if k == side else value for k in range(2)]))
            return lambda results: follow_one(unflatten(closed, [make(results) for make in leaves], new_list), results)
    if _is_none(left, left_tree) + _is_none(right, right_tree) > 0:
        make = _join_none(join, name, trees, values, branches, span)
        if make is not None:
            return make
    if (left_tree.kind is Chosen or right_tree.kind is Chosen) and all(map(is_choice, trees)):
        return _join_chosen(join, name, trees, values, branches, span)
    if _are_errors_apart(trees):
        return _join_chosen(join, name, trees, values, branches, span)
    eligible = [_is_list(side) for side in trees]
    if all(eligible):
        return _join_chosen(join, name, trees, values, branches, span)
    for side, (_, tree) in enumerate(trees):
        if eligible[side] and tree.kind is Chosen:
            with branches[side].reopened():
                trees[side] = flatten(linked_list(Chosen(tree.data, from_value(values[side][0], weak=True))))
                values[side] = {
                    i: content_of(leaf) for i, leaf in enumerate(trees[side][0]) if isinstance(leaf, Tracer)
                }
    trees, values = meet(trees, [branch.block for branch in branches], values)
    if trees[0][1] != trees[1][1]:
        trees, values = _with_rows(trees, values, branches)
    (left, left_tree), (right, right_tree) = trees
    if left_tree != right_tree:
        path, *sides = _find_difference(trees)
        for leaves, tree in sides:
            if tree.kind is None and type(leaves[0]) is Conflict:
                return _fixed(leaves[0])
        conflict = branch_error(name, "structure", _shape_text(*sides[0]), _shape_text(*sides[1]), span, path)
        return lambda results: Conflict(name, conflict)
    leaves = []
    buffers = set(_buffers(left_tree))
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        if a is b or (
            not isinstance(a, Tracer) and not isinstance(b, Tracer) and type(a) is type(b) and is_equal(a, b)
        ):
            if isinstance(a, Tracer) and values[0][index] is not values[1][index]:
                pass  # written in place: the storage is joined, the tracer stays the same object
            leaves.append(_fixed(a))
            continue
        if isinstance(a, Conflict) or isinstance(b, Conflict):
            leaves.append(_fixed(a if isinstance(a, Conflict) else b))
            continue
        if a is NO_NUMBER or b is NO_NUMBER:
            leaves.append(_given(join, name, [a, b], [side.get(index) for side in values]))
            continue
        if is_option(a) and is_option(b):
            own = [([leaf], LEAF) for leaf in (a, b)]
            leaves.append(_join_chosen(join, name, own, [{}, {}], branches, span))
            continue
        if not (is_number(a) and is_number(b)):
            conflict = branch_error(name, "values", describe(a), describe(b), span, _path_to(index, left_tree))
            leaves.append(_fixed(Conflict(name, conflict)))
            continue
        sides = []
        for side, leaf in enumerate((a, b)):
            with current().builder.into(branches[side].block):
                tracer = asarray(leaf)
                sides.append((tracer, values[side].get(index) or tracer.value))
        sides = _lengthened(sides, branches) if index in buffers else _broadcast_zero(sides, branches)
        if sides[0][0].type.shape != sides[1][0].type.shape:
            shapes = [str(side.type) for side, _ in sides]
            conflict = branch_error(name, "shapes", shapes[0], shapes[1], span, _path_to(index, left_tree))
            leaves.append(_fixed(Conflict(name, conflict)))
            continue
        dtype = result_dtype([t for t, _ in sides])
        kind = ArrayType(dtype, sides[0][0].type.shape)
        weak = sides[0][0].weak and sides[1][0].weak
        leaves.append(_result(join, join.add(kind, [v for _, v in sides]), weak, name, (a, b)))
    follow = join.follow([left_tree, right_tree])
    return lambda results: follow(unflatten(left_tree, [make(results) for make in leaves], new_list), results)


def _collapse(
    trees: list[tuple[list[Any], Tree]], values: list[dict[int, Value]]
) -> tuple[list[tuple[list[Any], Tree]], list[dict[int, Value]]]:
    """Make one leaf of each list, dict or object that is the same on both sides."""
    leaves: list[list[Any]] = [[], []]
    known: list[dict[int, Value]] = [{}, {}]
    at = [0, 0]

    def visit(pair: list[Tree]) -> list[Tree]:
        one, other = pair
        if one.origin is not None and one.origin is other.origin:
            for side in range(2):
                leaves[side].append(one.origin)
                at[side] += pair[side].size
            return [LEAF, LEAF]
        if one.kind is not None and (one.kind, one.data, len(one.children)) == (
            other.kind,
            other.data,
            len(other.children),
        ):
            found = [visit(list(children)) for children in zip(one.children, other.children, strict=True)]
            return [dataclasses.replace(pair[side], children=tuple(f[side] for f in found)) for side in range(2)]
        for side in range(2):
            for _ in range(pair[side].size):
                if at[side] in values[side]:
                    known[side][len(leaves[side])] = values[side][at[side]]
                leaves[side].append(trees[side][0][at[side]])
                at[side] += 1
        return pair

    made = visit([tree for _, tree in trees])
    return list(zip(leaves, made, strict=True)), known


def _given(join: _Join, name: str, sides: list[Any], values: list[Value | None]) -> Callable[[list[Value]], Any]:
    """Join a leaf with one that is not bound, which is never read."""
    side = int(isinstance(sides[0], Undefined))
    leaf = sides[side]
    if not isinstance(leaf, Tracer):
        return _fixed(leaf)
    given: list[Any] = [None, None]
    pair: list[Value | None] = [None, None]
    given[side], pair[side] = leaf, values[side]
    return _result(join, join.add(leaf.type, pair), leaf.weak, name, given)


#: what stands for the number where a number that may be None is None
NO_NUMBER = Undefined("a number")

#: the leaves of one side, each with its value at the end of the branch, and their structure
_Side = tuple[list[tuple[Any, Value | None]], Tree]


def meet(
    trees: list[tuple[list[Any], Tree]],
    blocks: Sequence[Block],
    values: Sequence[Mapping[int, Value]] = ({}, {}),
    *,
    error: Exception | None = None,
) -> tuple[list[tuple[list[Any], Tree]], list[dict[int, Value]]]:
    """Give two values one structure where one has a number inside, and the other None or a number that may be None; or
    the one a choice among Python values, and the other one of these or another choice.

    Args:
        blocks: where what is staged for each of the two belongs.
        values: of leaves, where they are other ones than now.
        error: of the choice between two Python values, where these are given one structure too.
    """
    return _opened(_meet(_sides_of(trees, values), blocks, error))


def _sides_of(trees: Sequence[tuple[list[Any], Tree]], values: Sequence[Mapping[int, Value]]) -> list[_Side]:
    return [
        ([(leaf, known.get(i)) for i, leaf in enumerate(leaves)], tree)
        for (leaves, tree), known in zip(trees, values, strict=True)
    ]


def _opened(sides: list[_Side]) -> tuple[list[tuple[list[Any], Tree]], list[dict[int, Value]]]:
    """Return leaves with the structure, and values of leaves, of two sides."""
    return (
        [([leaf for leaf, _ in pairs], tree) for pairs, tree in sides],
        [{i: value for i, (_, value) in enumerate(pairs) if value is not None} for pairs, _ in sides],
    )


def _meet(sides: list[_Side], blocks: Sequence[Block], error: Exception | None) -> list[_Side]:
    one, other = (tree for _, tree in sides)
    if error is not None and _are_errors_apart([([leaf for leaf, _ in pairs], tree) for pairs, tree in sides]):
        return _meet_choices(sides, blocks, error)
    if one.kind is not None and (one.kind, one.data, len(one.children)) == (
        other.kind,
        other.data,
        len(other.children),
    ):
        parts = zip(*(divide(pairs, tree.children) for pairs, tree in sides), strict=True)
        found = [_meet([(pairs, tree) for tree, pairs in part], blocks, error) for part in parts]
        return [
            (
                [pair for part in found for pair in part[side][0]],
                dataclasses.replace(sides[side][1], children=tuple(part[side][1] for part in found)),
            )
            for side in range(2)
        ]
    if Chosen in (one.kind, other.kind):
        return _meet_choices(sides, blocks, error)
    if error is not None and one.kind is None and other.kind is None:
        (left, _), (right, _) = (pairs[0] for pairs, _ in sides)
        if is_option(left) and is_option(right) and place_of(left, (right,)) is None:
            return _meet_choices(sides, blocks, error)
    kinds = [_number_or_none(pairs, tree) for pairs, tree in sides]
    if None in kinds or len(set(kinds)) == 1:
        return sides
    made: list[_Side] = []
    for (pairs, _), kind in zip(sides, kinds, strict=True):
        if kind != "either":
            pairs = [(NO_NUMBER, None) if kind == "none" else pairs[0], (kind == "number", None)]
        made.append((pairs, Tree(MaybeNone, None, (LEAF, LEAF))))
    return made


def _meet_choices(sides: list[_Side], blocks: Sequence[Block], error: Exception | None) -> list[_Side]:
    """Give both sides the options of both, where they are choices among Python values, or one of these."""
    opened = [([leaf for leaf, _ in pairs], tree) for pairs, tree in sides]
    if not all(map(is_choice, opened)):
        return sides
    given = [options_of(*side) for side in opened]
    error = next((tree.data.error for _, tree in sides if tree.kind is Chosen), error)
    assert error is not None, "two Python values meet where an error is given"
    options = Options(merge_options(given[1], given[0]), error)
    made: list[_Side] = []
    for (pairs, tree), own, block in zip(sides, given, blocks, strict=True):
        with current().builder.into(block):
            index = asarray(0)
            if tree.kind is Chosen:
                leaf, value = pairs[0]
                index = leaf if value is None else from_value(value, weak=True)
            number = renumbered(index, own, options)
        made.append(([(number, number.value)], Tree(Chosen, options, (LEAF,))))
    return made


def _with_rows(
    trees: list[tuple[list[Any], Tree]], values: list[dict[int, Value]], branches: list[Branch]
) -> tuple[list[tuple[list[Any], Tree]], list[dict[int, Value]]]:
    """Give lists of numbers, or of tuples of these, one structure where they differ in length: that of rows of an array
    and a length."""

    def visit(sides: list[_Side]) -> list[_Side]:
        one, other = (tree for _, tree in sides)
        if one.kind is None or other.kind is None:
            return sides
        if (one.kind, one.data, len(one.children)) == (other.kind, other.data, len(other.children)):
            parts = zip(*(divide(pairs, tree.children) for pairs, tree in sides), strict=True)
            found = [visit([(pairs, tree) for tree, pairs in part]) for part in parts]
            return [
                (
                    [pair for part in found for pair in part[side][0]],
                    dataclasses.replace(sides[side][1], children=tuple(part[side][1] for part in found)),
                )
                for side in range(2)
            ]
        if issubclass(one.kind, list) and issubclass(other.kind, list):
            return _as_rows(sides, branches) or sides
        return sides

    return _opened(visit(_sides_of(trees, values)))


def _as_rows(sides: list[_Side], branches: list[Branch]) -> list[_Side] | None:
    """Return two lists of different lengths as arrays of their items with a length, where the items are numbers or
    tuples of these; else None."""
    lists: list[CapturedList] = []
    kinds: list[Kind] = []
    try:
        for (pairs, tree), branch in zip(sides, branches, strict=True):
            with branch.reopened():
                leaves = [leaf if value is None else _content(leaf, value) for leaf, value in pairs]
                lists.append(unflatten(tree, leaves, CapturedList))
            if isinstance(lists[-1], StackedList) or lists[-1]:
                kinds.append(kind_of(lists[-1]))
        kind = join_kinds(kinds)
    except RestageError:
        return None
    if kind.is_mutable or kind.maybe:
        return None
    made: list[_Side] = []
    for (_, tree), values, branch in zip(sides, lists, branches, strict=True):
        with branch.reopened():
            give_rows(values, kind)
            leaves, rows = flatten(values)
            made.append(
                (
                    [(leaf, content_of(leaf) if isinstance(leaf, Tracer) else None) for leaf in leaves],
                    dataclasses.replace(rows, origin=tree.origin),
                )
            )
    return made


def _content(leaf: Any, value: Value) -> Tracer:
    made = from_value(value, weak=leaf.weak)
    made.zero_dim = leaf.zero_dim
    return made


def _number_or_none(pairs: list[tuple[Any, Value | None]], tree: Tree) -> str | None:
    """Return whether a part of a side is a number, None, or "either"; None where it is something else."""
    if tree.kind is MaybeNone:
        return "either"
    leaf = pairs[0][0] if tree.kind is None else tree
    return "none" if leaf is None else "number" if is_number(leaf) else None


def _broadcast_zero(sides: list[tuple[Tracer, Value]], branches: list[Branch]) -> list[tuple[Tracer, Value]]:
    """Let `a = 0.0` stand for an array of zeros where the other side of an `if` has an array."""
    shapes = [tracer.type.shape for tracer, _ in sides]
    for side, (tracer, value) in enumerate(sides):
        shape = shapes[1 - side]
        if not shapes[side] and shape and tracer.concrete is not None and tracer.weak and tracer.concrete == 0:
            with current().builder.into(branches[side].block):
                sides[side] = (from_value(stage(ops.broadcast_to, value, shape=shape)), sides[side][1])
                sides[side] = (sides[side][0], sides[side][0].value)
    return sides


def _buffers(tree: Tree, position: int = 0) -> Iterator[int]:
    """Yield the positions of the leaves that hold the items of lists of a length that is not known."""
    for child in tree.children:
        if child.kind is Ragged and issubclass(tree.kind, CapturedList):
            yield position
        else:
            yield from _buffers(child, position)
        position += child.size


def _lengthened(sides: list[tuple[Tracer, Value]], branches: list[Branch]) -> list[tuple[Tracer, Value]]:
    """Give the items of a list as much room on both sides of an `if`."""
    rows = [tracer.type.shape[0] for tracer, _ in sides]
    for side, (tracer, value) in enumerate(sides):
        own, most = rows[side], rows[1 - side]
        if isinstance(own, int) and isinstance(most, int) and own < most:
            with current().builder.into(branches[side].block):
                room = stage(ops.full, shape=(most - own, *tracer.type.shape[1:]), dtype=tracer.dtype, value=0)
                longer = call_handler(np.concatenate, (from_value(value), from_value(room)))
            sides[side] = longer, longer.value
    return sides


def _is_unsure(leaves: list[Any], tree: Tree) -> bool:
    return tree.kind is Unsure or (tree.kind is None and isinstance(leaves[0], Undefined))


def _join_unsure(
    join: _Join,
    name: str,
    trees: list[tuple[list[Any], Tree]],
    values: list[dict[int, Value]],
    branches: list[Branch],
    span: Any,
) -> Callable[[list[Value]], Any]:
    """Join values of a name that is not bound on every path, with the condition that it is."""
    if all(tree.kind is None and isinstance(leaves[0], Undefined) for leaves, tree in trees):
        return lambda results: Undefined(name)
    inner, bound = [], []
    for (leaves, tree), known, branch in zip(trees, values, branches, strict=True):
        if tree.kind is Unsure:
            inner.append((leaves[:-1], tree.children[0]))
            bound.append(known[len(leaves) - 1])
        else:
            inner.append((leaves, tree))
            with current().builder.into(branch.block):
                bound.append(current().builder.constant(not _is_unsure(leaves, tree)))
    condition = join.add(ArrayType(BOOL), bound)
    make = _join_trees(join, f"tg_{name}", inner, values, branches, span)
    return lambda results: Unsure(name, make(results), from_value(results[condition], weak=True))


def _is_none(leaves: list[Any], tree: Tree) -> bool:
    return tree.kind in (MaybeNone, OrNone) or (tree.kind is None and leaves[0] is None)


def _join_none(
    join: _Join,
    name: str,
    trees: list[tuple[list[Any], Tree]],
    values: list[dict[int, Value]],
    branches: list[Branch],
    span: Any,
) -> Callable[[list[Value]], Any] | None:
    """Join a number, an array or what has a structure with None, with the condition that it is there; None for all
    other values."""
    if all(tree.kind is None and leaves[0] is None for leaves, tree in trees):
        return None
    if not all(_is_none(leaves, tree) or has_none_beside(leaves, tree) for leaves, tree in trees):
        return None
    inner: list[tuple[list[Any], Tree]] = []
    present = []
    for (leaves, tree), known, branch in zip(trees, values, branches, strict=True):
        if tree.kind in (MaybeNone, OrNone):
            inner.append((leaves[:-1], tree.children[0]))
            present.append(known[len(leaves) - 1])
            continue
        there = not _is_none(leaves, tree)
        inner.append((leaves, tree) if there else ([Undefined(name)], LEAF))
        with current().builder.into(branch.block):
            present.append(current().builder.constant(there))
    condition = join.add(ArrayType(BOOL), present)
    make = _join_trees(join, f"tg_{name}", inner, values, branches, span)

    def finish(results: list[Value]) -> Any:
        some = make(results)
        if type(some) is Conflict:
            return some
        return or_none(some, from_value(results[condition], weak=True))

    return finish


def has_none_beside(leaves: list[Any], tree: Tree) -> bool:
    """Return whether a value is one that can be None on other paths: a number, an array, or what has a structure."""
    if tree.kind is Chosen:
        return _is_error((leaves, tree))
    return is_number(leaves[0]) if tree.kind is None else tree.kind is not Unsure


def or_none(value: Any, present: Tracer, absent: bool = False) -> MaybeNone | OrNone:
    """Return what stands for a value that may be None."""
    if type(value) is not Chosen and is_number(value):
        return MaybeNone(asarray(value), present, absent=absent)
    return OrNone(value, present, absent=absent)


def is_choice(side: tuple[list[Any], Tree]) -> bool:
    """Return whether a side is a value that was chosen among Python values, or one of those."""
    leaves, tree = side
    return tree.kind is Chosen or (tree.kind is None and is_option(leaves[0])) or _is_error(side)


def _is_error(side: tuple[list[Any], Tree]) -> bool:
    """Return whether a side is an exception of captured code in which nothing is traced, or was chosen among
    exceptions."""
    leaves, tree = side
    if tree.kind is Chosen:
        return all(isinstance(option, BaseException) for option in tree.data)
    if not isinstance(tree.origin, BaseException) or not all(child.is_fixed for child in tree.children):
        return False
    return not any(is_traced(leaf) or (isinstance(leaf, TracedText) and leaf.is_traced) for leaf in leaves)


def _are_errors_apart(sides: Sequence[tuple[list[Any], Tree]]) -> bool:
    """Return whether sides are exceptions that differ in more than numbers."""
    if not all(map(_is_error, sides)):
        return False
    (left, one), (right, other) = sides
    if one != other or one.kind is Chosen:
        return True
    pairs = zip(left, right, strict=True)
    return any(is_option(a) and a is not b and (type(a) is not type(b) or not is_equal(a, b)) for a, b in pairs)


def _is_list(side: tuple[list[Any], Tree]) -> bool:
    """Return whether a side is a list from before the branch, or was chosen among such."""
    _, tree = side
    options = tuple(tree.data) if tree.kind is Chosen else (tree.origin,)
    capture = current()
    return all(
        isinstance(option, list)
        and 0 <= capture.created_depth(option) <= capture.depth
        and not any(way.positions for way in ways(option))
        for option in options
    )


def options_of(leaves: list[Any], tree: Tree) -> tuple[Any, ...]:
    """Return what a value can be that is one of several options, or one itself."""
    return tuple(tree.data) if tree.kind is Chosen else (leaves[0] if tree.kind is None else tree.origin,)


def _join_chosen(
    join: _Join,
    name: str,
    trees: list[tuple[list[Any], Tree]],
    values: list[dict[int, Value]],
    branches: list[Branch],
    span: Any,
) -> Callable[[list[Value]], Any]:
    """Join values of which at least one has no form in compiled code, as the number of an option."""
    sides = [options_of(leaves, tree) for leaves, tree in trees]
    texts = [" or ".join(map(_option_text, side)) for side in sides]
    error = branch_error(name, "values", texts[0], texts[1], span)
    if all(tree.kind is not Chosen for _, tree in trees):
        options = Options(tuple(reversed(sides[0] + sides[1])), error)
        return lambda results: Chosen(options, from_value(join.condition, weak=True))
    options = Options(merge_options(sides[1], sides[0]), error)
    if len(options) == 1:
        return _fixed(options[0])
    numbers: list[Value | None] = []
    for branch, side, known, (_, tree) in zip(branches, sides, values, trees, strict=True):
        with current().builder.into(branch.block):
            index = from_value(known[0], weak=True) if tree.kind is Chosen else asarray(0)
            numbers.append(renumbered(index, side, options).value)
    position = join.add(ArrayType(I64), numbers)
    return lambda results: Chosen(options, from_value(results[position], weak=True))


def _option_text(option: Any) -> str:
    return f"the list {name_of(option)}".rstrip() if isinstance(option, list) else describe(option)


def _result(
    join: _Join, position: int, weak: bool, name: str, sides: Sequence[Any] = ()
) -> Callable[[list[Value]], Any]:
    def make(results: list[Value]) -> Tracer:
        results[position].name = results[position].name or user_name(name)
        joined = from_value(results[position], weak=weak)
        if not joined.ndim:
            joined.zero_dim = common_zero_dim([side for side in sides if side is not None])
        return join.link(joined, sides)

    return make


def _fixed(leaf: Any) -> Callable[[list[Value]], Any]:
    return lambda results: leaf


#: variables of jumps.py that stay in the program, and what they say there
_FLAGS = {"tg_break": "stopped", "tg_continue": "skipped", "tg_returned": "returned", "tg_caught": "caught"}


def user_name(name: str) -> str:
    """Return what a name of the converted code is called in messages; empty for what users cannot know."""
    if not name.startswith("tg_"):
        return name
    return next((noun for flag, noun in _FLAGS.items() if name.startswith(flag)), "")


def _step_text(tree: Tree, number: int) -> str:
    if tree.kind is dict:
        return f"[{tree.data[number]!r}]"
    return f".{tree.data[number]}" if isinstance(tree.data, tuple) and tree.kind is not Options else f"[{number}]"


def _path_to(index: int, tree: Tree) -> str:
    """Return where in a value a leaf is, as Python writes it."""
    if tree.kind is not None and issubclass(tree.kind, CapturedList):
        return ""
    for number, child in enumerate(tree.children):
        if index < child.size:
            return _step_text(tree, number) + _path_to(index, child)
        index -= child.size
    return ""


def _find_difference(sides: Sequence[tuple[list[Any], Tree]]) -> tuple[str, tuple[list[Any], Tree], Any]:
    """Return where two values first differ in their structure, and what each has there."""
    (left, one), (right, other) = sides
    if one.kind is not None and (one.kind, one.data, len(one.children)) == (
        other.kind,
        other.data,
        len(other.children),
    ):
        starts = [0, 0]
        for number, children in enumerate(zip(one.children, other.children, strict=True)):
            parts = [
                (leaves[start : start + child.size], child)
                for leaves, start, child in zip((left, right), starts, children, strict=True)
            ]
            if children[0] != children[1]:
                path, *found = _find_difference(parts)
                return _step_text(one, number) + path, found[0], found[1]
            starts = [start + child.size for start, child in zip(starts, children, strict=True)]
    return "", sides[0], sides[1]


def branch_error(name: str, what: str, left: str, right: str, span: Any, path: str = "") -> NeedsPythonValue:
    """Return the error for sides that differ in what cannot be joined."""
    if name == "tg_value":
        title = f"the two sides of a conditional expression have different {what}"
        name = "it"
        if path:
            title += f" at {path}"
    else:
        known = "the returned value" if name.startswith("tg_") else name
        if name.startswith("tg_items"):
            known = f"an item appended to {name[9:]!r}" if name[9:] else "an item appended to a list"
            path = path[path.find("]") + 1 :]
        name = repr(f"{known}{path}") if known == name else f"{path} of {known}" if path else known
        title = f"the two branches give {name} different {what}"
    help = f"make both branches give {name} one shape and structure, or compute it after the if"
    if what == "structure" and left.startswith("a list of") and right.startswith("a list of"):
        help = (
            "change one list in place, `values.append(v)` and `values.clear()`, whose length may depend on it; "
            "or keep where a part of it begins, `start = len(values)`, and use `values[start:]`"
        )
    if what == "structure" and left.startswith("a dict of") and right.startswith("a dict of"):
        help = (
            "give the dict all its keys before the branch, or begin with None: `best = None`, then "
            "`if best is None or e < best['error']: best = {...}`"
        )
    if "an array of unknown length" in (left, right):
        help = (
            "make the array of one list on both paths, to which something is appended where it would be empty, "
            "`if not values: values.append(0.0)`"
        )
    if what != "shapes" and "None" in (left, right) and left != right:
        help = (
            "use a value of the same structure that stands for None, or a flag beside the value that says whether "
            "there is one (`found = 1.0`)"
        )
    if what == "values":
        help = (
            "only numbers and arrays can depend on a traced condition: use numbers that stand for the values (0, 1, "
            "... and `==`), or do in each branch what depends on them"
        )
        if "None" in (left, right):
            help = (
                "use a number that stands for None (np.nan, np.inf, 0.0), or a flag beside the value that says whether "
                "there is one (`found = 1.0`)"
            )
    otherwise = "another one" if what == "structure" and left == right else right
    return NeedsPythonValue(
        title, code="TG112", span=span, found=f"{left} when true, {otherwise} when false", help=help
    )


def _shape_text(leaves: list[Any], tree: Tree) -> str:
    if tree.kind is None:
        return describe(leaves[0])
    name = kind_name(tree.kind)
    if tree.kind is Ragged:
        return f"an {name} of unknown length"
    if tree.kind in (Unsure, MaybeNone, OrNone, Chosen):
        return f"a {name}"
    length = len(tree.children) if not issubclass(tree.kind, CapturedList) else tree.data[1]
    return f"a {name} of {length}" if length is not None else f"a {name} of unknown length"


def is_number(leaf: Any) -> bool:
    """Return whether a value is a number or an array, traced or not."""
    return isinstance(leaf, Tracer | bool | int | float | complex | np.generic | np.ndarray) or (
        hasattr(type(leaf), "as_tracer") and not isinstance(leaf, list)
    )
