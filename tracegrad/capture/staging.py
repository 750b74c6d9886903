"""Control flow: run natively on Python values, or staged into IR regions on traced ones.

Called by hooks.py with functions for the parts of a statement; writes `if`, `for` and `while` operations.
Previous: state.py; next: hooks.py.

A loop body is captured once, with a stand-in for each value that the body rebinds. When the values after the body have
another structure or type than before, the loop is captured again: with a promoted start value, after peeling its first
iteration, or unrolled. Everything a failed attempt has changed in Python objects is undone.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tracegrad import ops
from tracegrad.capture.aliases import (
    ALWAYS,
    Conditions,
    alias_error,
    any_holds,
    holds,
    require_single,
    supersede,
    targets,
    ways,
)
from tracegrad.capture.aliases import link as link_objects
from tracegrad.capture.context import Frame, RestageError, Storage, current, raised_span, user_span
from tracegrad.capture.linear import ends
from tracegrad.capture.lists import (
    CHANGED,
    CapturedList,
    ItemKind,
    ListUse,
    StackedList,
    count_before,
    count_of,
    indexed_error,
    item_type,
    items_of,
    make_room,
    pin,
    require_growing,
    restore,
    sample,
    snapshot,
    stack_items,
    use_of_index,
)
from tracegrad.capture.memory import has_order_of, layout_of, set_layout
from tracegrad.capture.ragged import Axis, Ragged
from tracegrad.capture.sharing import Key, Part, Sharing, is_same_view, share, sources
from tracegrad.capture.sizes import as_dim, as_size, decide
from tracegrad.capture.state import (
    LEAF,
    Chosen,
    Conflict,
    Options,
    Tree,
    Undefined,
    Unsure,
    flatten,
    is_option,
    kind_name,
    nodes,
    roots,
    unflatten,
)
from tracegrad.capture.text import describe_error
from tracegrad.capture.tracer import (
    OPERATORS,
    MaybeNone,
    Tracer,
    asarray,
    call_handler,
    call_user,
    cast_to,
    describe,
    from_value,
    inplace,
    make_weak,
    python_operator,
    resolve_content,
    result_dtype,
    stage,
)
from tracegrad.errors import ArgumentError, CaptureError, NeedsPythonValue, ShapeError, Span, TracegradError
from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Block, Operation, Value, free_values, substitute
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import BOOL, I64, ArrayType, Dim, SymbolicDim, dim_evaluate

#: a loop whose body cannot be staged is unrolled up to this many iterations
UNROLL_LIMIT = 128
#: shorter ones are unrolled rather than to make an array of a list that they index
_FEW_ITERATIONS = 8
#: so often a list gets another buffer, before the statement that asks for it is given up
_STACKED_LIMIT = 64
#: a loop over Python values alone is run at capture up to this many iterations
NATIVE_LIMIT = 4096
#: a loop at capture that nothing but an exception can end gives up after this many iterations
ENDLESS_LIMIT = 1024

GetState = Callable[[], tuple[Any, ...]]
SetState = Callable[[tuple[Any, ...]], None]


# ---- writes into Python containers


def write_slot(container: Any, kind: str, key: Any, value: Any) -> None:
    """Do `container[key] = value` (kind "item") or `setattr(container, key, value)` (kind "attr"), noting it in open
    frames, and in the objects that the container may be."""
    if current().links and read_slot(container, kind, key) is not value:
        if kind == "item" and (owned := current().owners.get(id(container))) is not None:
            container, kind = owned[1], "attr"
        for other, found in targets(container):
            put = functools.partial(_put_followed, other, kind, key, value)
            if ALWAYS in found:
                put()
            else:
                test = from_value(any_holds(found), weak=True)
                if_stmt(test, put, _do_nothing, lambda: (), _do_nothing, ())
    _put_slot(container, kind, key, value)


def _put_followed(container: Any, kind: str, key: Any, value: Any) -> None:
    if kind == "attr" and current().created_depth(container) < 0:
        raise alias_error(container, "an object from outside the function")
    _put_slot(container, kind, key, value)


def _do_nothing(*args: Any) -> None:
    pass


def _put_slot(container: Any, kind: str, key: Any, value: Any) -> None:
    note_slot(container, kind, key)
    set_slot(container, kind, key, value)


def note_slot(container: Any, kind: str, key: Any) -> None:
    """Note in open frames that a slot is about to change; Undefined stands for none."""
    capture = current()
    slot = (id(container), kind, key)
    for frame in capture.frames[capture.created_depth(container) + 1 :]:
        if slot not in frame.slots and not (kind == "item" and _is_noted(frame, container, key)):
            moved = frame.lists.get(id(container))
            own = kind != "item" or moved is None or isinstance(moved[1], tuple)
            before = read_slot(container if own or moved is None else moved[1], kind, key)
            frame.slots[slot] = (container, before, before)


def _is_noted(frame: Frame, container: Any, key: Any) -> bool:
    """Return whether a list is noted as a whole, or at least its item."""
    _, before = frame.lists.get(id(container), (None, None))
    return before is not None and (frame.kind == "function" or type(before) is tuple or key >= len(before))


def read_slot(container: Any, kind: str, key: Any) -> Any:
    """Return what a slot holds, or Undefined."""
    if isinstance(container, dict) and kind == "item" and key not in container:  # a defaultdict would make it
        return Undefined(str(key))
    try:
        return container[key] if kind == "item" else getattr(container, key)
    except (LookupError, AttributeError, ValueError):  # ValueError: an empty cell
        return Undefined(str(key))


def set_slot(container: Any, kind: str, key: Any, value: Any) -> None:
    """Store into a slot without noting it; Undefined deletes."""
    if isinstance(value, Undefined):
        if kind == "item":
            container.pop(key, None)
        elif not isinstance(read_slot(container, kind, key), Undefined):
            delattr(container, key)
    elif kind == "item":
        container[key] = value
    elif (
        isinstance(container, type | ModuleType) or getattr(type(container), "__setattr__", None) is object.__setattr__
    ):
        setattr(container, key, value)
    else:
        object.__setattr__(container, key, value)


def note_list(values: Any) -> None:
    """Note that a list or deque is about to change its length or the order of its items."""
    require_single(values, "its length or order changes, or a slice of it")
    if isinstance(values, StackedList):
        require_growing(values)
        if values.varies:
            note_slot(values, "attr", "length")
    capture = current()
    for frame in capture.frames[capture.created_depth(values) + 1 :]:
        if id(values) not in frame.lists:
            frame.lists[id(values)] = (values, snapshot(values))


def undo(frame: Frame) -> None:
    """Give lists, items and attributes the content that they had before a frame changed them."""
    for values, before in frame.lists.values():
        restore(values, before)
    for (_, kind, key), (container, _, before) in reversed(frame.slots.items()):
        if kind == "item" or id(container) not in frame.lists:  # else it is the length of a list
            set_slot(container, kind, key, before)


def augmented(value: Any, op: str, other: Any) -> Any:
    """Return what `value op= other` gives."""
    if isinstance(value, list) and op == "add":
        note_list(value)
        value.extend(other)
        return value
    if isinstance(value, Tracer) and op in OPERATORS:
        return inplace(OPERATORS[op], value, other)
    return getattr(operator, f"i{op}")(value, other)


# ---- truth


def truth(value: Any) -> Any:
    """Return a Python bool when it can be known, else a traced bool of rank 0."""
    if isinstance(value, MaybeNone):
        return truth(and_(value.present, lambda: truth(value.some)))
    if isinstance(value, Tracer) and value.concrete is None:
        if value.type.size != 1:
            bool(value)  # raises NumPy's error
        if value.dtype != BOOL:
            value = call_handler(np.not_equal, value, 0)
        return value if not value.ndim else call_handler(np.reshape, value, ())
    if type(value) is bool:
        return value
    if isinstance(value, Tracer):
        return bool(value)
    if isinstance(value, StackedList):
        return truth(value.length != 0)
    made = call_user(bool, value)
    return truth(made) if isinstance(made, Tracer) else bool(made)


# ---- if


def if_stmt(
    test: Any,
    then_fn: Callable[[], None],
    else_fn: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
) -> None:
    """Run one branch on a Python test; stage both on a traced one.

    The state begins with the values of `names`; what follows is set back between the branches, and not read afterwards.
    """
    test = truth(test)
    if not isinstance(test, Tracer):
        current().note_native("if: decided at capture")
        (then_fn if test else else_fn)()
        return
    entry = get_state()
    while True:
        try:
            _stage_if(test, then_fn, else_fn, entry, get_state, set_state, names)
            return
        except NeedsPythonValue as error:
            set_state(entry)
            if not _has_remedy(error):
                raise


def _stage_if(
    test: Tracer,
    then_fn: Callable[[], None],
    else_fn: Callable[[], None],
    entry: tuple[Any, ...],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
) -> None:
    capture = current()
    span = user_span()
    condition = test.value
    branches = [
        _Branch(fn, entry, lambda: get_state()[: len(names)], set_state, list(_implied(condition, holds)))
        for fn, holds in ((then_fn, True), (else_fn, False))
    ]
    set_state(entry)
    for branch, other, negate in ((branches[0], branches[1], True), (branches[1], branches[0], False)):
        if branch.raised is not None:
            if other.raised is not None:
                raise other.raised
            holds = stage(ops.logical_not, condition) if negate else condition
            _raise_unless(holds, branch.raised)
            # the check has decided: the other branch runs without condition
            (else_fn if negate else then_fn)()
            return
    rest = entry[len(names) :]
    _join_branches(condition, branches, lambda values: set_state((*values, *rest)), names, span)
    capture.events.append((span, "if: staged"))


def _is_fault(error: Exception) -> bool:
    """Return whether Python raises an error here too: the user's own, and what NumPy refuses by shape or size."""
    if isinstance(error, TracegradError):
        refused = isinstance(error, ValueError | IndexError)
        return refused and not isinstance(error, CaptureError | ArgumentError | ShapeError)
    return not isinstance(error, RestageError) and type(error).__module__ != __name__


def _raise_unless(condition: Value, error: Exception) -> None:
    """Raise at run time, unless a condition holds, what was raised at capture."""
    kind, message = describe_error(error)
    current().builder.span = raised_span(error) or user_span()
    ops.check(condition, error=kind, message=message)


def _implied(condition: Value, holds: bool) -> Iterator[Value]:
    """Yield the conditions that hold where one does, or does not."""
    if holds:
        yield condition
    operation = condition.producer
    if operation is not None and operation.op == "logical_not":
        yield from _implied(operation.operands[0], not holds)
    elif operation is not None and holds and operation.op in ("logical_and", "bitwise_and"):
        for operand in operation.operands:
            yield from _implied(operand, True)


def _settled(value: Any) -> Any:
    """Return what a value is that may be None, or not there, where the open branches say that it is there."""
    if isinstance(value, MaybeNone) and value.present.value in current().holding:
        return value.some
    return value.value if isinstance(value, Unsure) and value.condition.value in current().holding else value


class _Branch:
    """One captured side of an `if`: its block, the state after it, and the writes it made (all undone again)."""

    def __init__(
        self,
        fn: Callable[[], None],
        entry: tuple[Any, ...],
        get_state: GetState,
        set_state: SetState,
        holding: list[Value],
    ) -> None:
        capture = current()
        self.block = Block()
        self.raised: Exception | None = None
        set_state(entry)
        with capture.assuming(holding):
            with capture.open("branch", self.block) as frame:
                try:
                    fn()
                except Exception as error:
                    if not _is_fault(error):
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
    """What one side of an `if` appended to a list from outside. `count` is -1 for any other change."""

    def __init__(self, values: list[Any], before: Any) -> None:
        self.values, self.before = values, before
        self.varies = isinstance(values, StackedList) and values.varies
        self.count = count_of(values) - count_before(before)
        self.items: tuple[list[Any], Tree] = ([], LEAF)
        if isinstance(values, StackedList):
            return
        kept = len(before) if isinstance(before, list) else -1
        if kept < 0 or len(values) < kept or any(a is not b for a, b in zip(values, before, strict=False)):
            self.count = -1
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


class _Join:
    """Collects the pairs of values that the two sides of an `if` yield."""

    def __init__(self, branches: list[_Branch], condition: Value) -> None:
        self.branches, self.condition = branches, condition
        self.types: list[ArrayType] = []
        #: side and id of an object that a side made -> what was made of it
        self.made: dict[tuple[int, int], list[Any]] = {}

    def side(self, side: int) -> Conditions:
        return frozenset([(self.condition, side == 0)])

    def follow(self, trees: Sequence[Tree | None]) -> Callable[[Any, list[Value]], Any]:
        """Return what links a value, made of one structure on each side, to the objects that it may be."""
        given = [(side, tree) for side, tree in enumerate(trees) if tree is not None]
        plans = [
            [plan for (side, _), node in zip(given, found, strict=True) for plan in self._origins(side, node.origin)]
            for found in nodes(*(tree for _, tree in given))
        ]
        shape = given[0][1]

        def finish(value: Any, results: list[Value]) -> Any:
            block = current().frame.block
            for (made, _), plan in zip(nodes(flatten(value)[1], shape), plans, strict=True):
                for other, where in plan:
                    if isinstance(where, tuple):
                        for twin in self.made.setdefault(where, []):
                            link_objects(made.origin, twin, self.side(where[0]), block)
                        self.made[where].append(made.origin)
                        continue
                    conditions = frozenset([(results[where], True)]) if isinstance(where, int) else where
                    link_objects(made.origin, other, conditions, block)
            return value

        return finish

    def _origins(self, side: int, origin: Any) -> Iterator[tuple[Any, Any]]:
        """Yield objects that what one side has is, and where: conditions, None, the position of a result that says it,
        or the key of an object that this side made."""
        capture, block = current(), self.branches[side].block
        if capture.created_depth(origin) <= capture.depth:
            yield origin, self.side(side)
            return
        yield origin, (side, id(origin))
        for way in ways(origin, block):
            if capture.created_depth(way.other) > capture.depth or way.positions:
                continue
            if way.conditions is None:
                yield way.other, None
                continue
            values: list[Value | None] = [None, None]
            for number, branch in enumerate(self.branches):
                with capture.builder.into(branch.block):
                    values[number] = holds(way.conditions) if number == side else capture.builder.constant(False)
            yield way.other, self.add(ArrayType(BOOL), values)

    def link(self, joined: Tracer, sides: Sequence[Any]) -> Tracer:
        """Note of an array which arrays from before the branch it is, under the condition or its opposite."""
        capture = current()
        for side, leaf in enumerate(sides):
            if not isinstance(leaf, Tracer) or not leaf.ndim:
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


def _join_branches(
    condition: Value,
    branches: list[_Branch],
    set_state: SetState,
    names: tuple[str, ...],
    span: Any,
) -> None:
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
    if operation.results or any(_has_effect(b.block) for b in branches):
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
        _put_slot(container, kind, key, make(operation.results))


def _join_lists(join: _Join, branches: list[_Branch], span: Any) -> list[Callable[[list[Value]], None]]:
    """Join lists to which the sides append; return what extends them after the `if`."""
    finish = []
    for key in dict.fromkeys([*branches[0].grown, *branches[1].grown]):
        found = [branch.grown.get(key) for branch in branches]
        counts = [0 if g is None else g.count for g in found]
        numbers = [count for count in counts if isinstance(count, int)]
        if -1 in counts or (counts[0] != counts[1] and len(numbers) < 2):
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
        raise indexed_error(use or ListUse(values, capacity=1), "items that are appended under a condition")

    def note(results: list[Value]) -> None:
        note_list(values)
        list.extend(values, items)
        capture.varying.add(id(values))

    return note


def _extend(
    join: _Join, one: _Appended, other: _Appended, branches: list[_Branch], span: Any
) -> Callable[[list[Value]], None]:
    values = one.values
    make = _join_trees(join, "tg_items", [one.items, other.items], [one.known, other.known], branches, span)

    def extend(results: list[Value]) -> None:
        note_list(values)
        list.extend(values, make(results))

    return extend


def _has_effect(block: Block, effects: tuple[str, ...] = ("check", "print")) -> bool:
    return any(o.op in effects or any(_has_effect(b, effects) for b in o.blocks) for o in block.operations)


def _join_slot(
    join: _Join, name: str, sides: list[Any], branches: list[_Branch], span: Any
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
    join: _Join, name: str, position: int, branches: list[_Branch], span: Any
) -> Callable[[list[Value]], Any]:
    trees = [branch.state[position] for branch in branches]
    values = [{i: v for (p, i), v in branch.values.items() if p == position} for branch in branches]
    return _join_trees(join, name, trees, values, branches, span)


def _join_trees(
    join: _Join,
    name: str,
    trees: list[tuple[list[Any], Tree]],
    values: list[dict[int, Value]],
    branches: list[_Branch],
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
            if other_tree.origin is not None and current().created_depth(other_tree.origin) <= current().depth:
                return _fixed(other_tree.origin)
            leaves = []
            follow_one = join.follow([other_tree if k != side else None for k in range(2)])
            for index, leaf in enumerate(other):
                pair: list[Value | None] = [None, None]
                if isinstance(leaf, Tracer):
                    pair[1 - side] = values[1 - side][index]
                    given: list[Any] = [None, None]
                    given[1 - side] = leaf
                    leaves.append(_result(join, join.add(leaf.type, pair), leaf.weak, name, given))
                else:
                    leaves.append(_fixed(leaf))
            return lambda results: follow_one(
                unflatten(other_tree, [make(results) for make in leaves], new_list), results
            )
    if _is_none(left, left_tree) + _is_none(right, right_tree) > 0:
        make = _join_none(join, name, trees, values, branches, span)
        if make is not None:
            return make
    if (left_tree.kind is Chosen or right_tree.kind is Chosen) and all(map(_is_choice, trees)):
        return _join_chosen(join, name, trees, values, branches, span)
    if left_tree != right_tree:
        path, *sides = _find_difference(trees)
        conflict = _branch_error(name, "structure", _shape_text(*sides[0]), _shape_text(*sides[1]), span, path)
        return lambda results: Conflict(name, conflict)
    leaves = []
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        if a is b or (not isinstance(a, Tracer) and not isinstance(b, Tracer) and type(a) is type(b) and _equal(a, b)):
            if isinstance(a, Tracer) and values[0][index] is not values[1][index]:
                pass  # written in place: the storage is joined, the tracer stays the same object
            leaves.append(_fixed(a))
            continue
        if isinstance(a, Conflict) or isinstance(b, Conflict):
            leaves.append(_fixed(a if isinstance(a, Conflict) else b))
            continue
        if (a is None and is_number(b)) or (b is None and is_number(a)):
            own = [([leaf], LEAF) for leaf in (a, b)]
            known = [{0: side[index]} if index in side else {} for side in values]
            make = _join_none(join, name, own, known, branches, span)
            assert make is not None, "one side is a number"
            leaves.append(make)
            continue
        if is_option(a) and is_option(b):
            own = [([leaf], LEAF) for leaf in (a, b)]
            leaves.append(_join_chosen(join, name, own, [{}, {}], branches, span))
            continue
        if not (is_number(a) and is_number(b)):
            conflict = _branch_error(name, "values", describe(a), describe(b), span, _path_to(index, left_tree))
            leaves.append(_fixed(Conflict(name, conflict)))
            continue
        sides = []
        for side, leaf in enumerate((a, b)):
            with current().builder.into(branches[side].block):
                tracer = asarray(leaf)
                sides.append((tracer, values[side].get(index) or tracer.value))
        sides = _broadcast_zero(sides, branches)
        if sides[0][0].type.shape != sides[1][0].type.shape:
            shapes = [str(side.type) for side, _ in sides]
            conflict = _branch_error(name, "shapes", shapes[0], shapes[1], span, _path_to(index, left_tree))
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


def _broadcast_zero(sides: list[tuple[Tracer, Value]], branches: list[_Branch]) -> list[tuple[Tracer, Value]]:
    """Let `a = 0.0` stand for an array of zeros where the other side of an `if` has an array."""
    shapes = [tracer.type.shape for tracer, _ in sides]
    for side, (tracer, value) in enumerate(sides):
        shape = shapes[1 - side]
        if not shapes[side] and shape and tracer.concrete is not None and tracer.weak and tracer.concrete == 0:
            with current().builder.into(branches[side].block):
                sides[side] = (from_value(stage(ops.broadcast_to, value, shape=shape)), sides[side][1])
                sides[side] = (sides[side][0], sides[side][0].value)
    return sides


def _is_unsure(leaves: list[Any], tree: Tree) -> bool:
    return tree.kind is Unsure or (tree.kind is None and isinstance(leaves[0], Undefined))


def _join_unsure(
    join: _Join,
    name: str,
    trees: list[tuple[list[Any], Tree]],
    values: list[dict[int, Value]],
    branches: list[_Branch],
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
    return tree.kind is MaybeNone or (tree.kind is None and leaves[0] is None)


def _join_none(
    join: _Join,
    name: str,
    trees: list[tuple[list[Any], Tree]],
    values: list[dict[int, Value]],
    branches: list[_Branch],
    span: Any,
) -> Callable[[list[Value]], Any] | None:
    """Join a number or array with None, with the condition that it is one; None for all other values."""
    if all(tree.kind is None and leaves[0] is None for leaves, tree in trees):
        return None
    if not all(_is_none(leaves, tree) or (tree.kind is None and is_number(leaves[0])) for leaves, tree in trees):
        return None
    inner: list[tuple[list[Any], Tree]] = []
    present = []
    for (leaves, tree), known, branch in zip(trees, values, branches, strict=True):
        if tree.kind is MaybeNone:
            inner.append((leaves[:1], LEAF))
            present.append(known[1])
            continue
        there = leaves[0] is not None
        inner.append((leaves, LEAF) if there else ([Undefined(name)], LEAF))
        with current().builder.into(branch.block):
            present.append(current().builder.constant(there))
    condition = join.add(ArrayType(BOOL), present)
    make = _join_trees(join, f"tg_{name}", inner, values, branches, span)

    def finish(results: list[Value]) -> Any:
        some = make(results)
        if type(some) is Conflict:
            return some
        return MaybeNone(asarray(some), from_value(results[condition], weak=True))

    return finish


def _is_choice(side: tuple[list[Any], Tree]) -> bool:
    leaves, tree = side
    return tree.kind is Chosen or (tree.kind is None and is_option(leaves[0]))


def options_of(leaves: list[Any], tree: Tree) -> tuple[Any, ...]:
    """Return what a value can be that is one of several options, or one itself."""
    return tuple(tree.data) if tree.kind is Chosen else (leaves[0],)


def merge_options(one: Sequence[Any], other: Sequence[Any]) -> tuple[Any, ...]:
    """Return the options of two choices, in the order of the one that has more."""
    first, second = (one, other) if len(one) >= len(other) else (other, one)
    return (*first, *(option for option in second if _place_of(option, first) is None))


def _place_of(option: Any, options: Sequence[Any]) -> int | None:
    return next(
        (k for k, other in enumerate(options) if other is option or (type(other) is type(option) and other == option)),
        None,
    )


def renumbered(index: Tracer, options: Sequence[Any], merged: Sequence[Any]) -> Tracer:
    """Stage the position in other options, which hold the first ones."""
    places = [_place_of(option, merged) for option in options]
    numbers = cast_to(index, I64)
    if places != list(range(len(places))):
        numbers = asarray(np.array(places))[numbers]
    return make_weak(numbers)  # type: ignore[no-any-return]


def _join_chosen(
    join: _Join,
    name: str,
    trees: list[tuple[list[Any], Tree]],
    values: list[dict[int, Value]],
    branches: list[_Branch],
    span: Any,
) -> Callable[[list[Value]], Any]:
    """Join values of which at least one has no form in compiled code, as the number of an option."""
    texts = [
        describe(leaves[0]) if tree.kind is None else " or ".join(map(describe, tree.data)) for leaves, tree in trees
    ]
    error = _branch_error(name, "values", texts[0], texts[1], span)
    sides = [options_of(leaves, tree) for leaves, tree in trees]
    if all(tree.kind is None for _, tree in trees):
        options = Options(tuple(reversed(sides[0] + sides[1])), error)
        return lambda results: Chosen(options, from_value(join.condition, weak=True))
    options = Options(merge_options(sides[1], sides[0]), error)
    if len(options) == 1:
        return _fixed(options[0])
    numbers: list[Value | None] = []
    for branch, side, known in zip(branches, sides, values, strict=True):
        with current().builder.into(branch.block):
            index = from_value(known[0], weak=True) if known else asarray(0)
            numbers.append(renumbered(index, side, options).value)
    position = join.add(ArrayType(I64), numbers)
    return lambda results: Chosen(options, from_value(results[position], weak=True))


def _result(
    join: _Join, position: int, weak: bool, name: str, sides: Sequence[Any] = ()
) -> Callable[[list[Value]], Any]:
    def make(results: list[Value]) -> Tracer:
        results[position].name = results[position].name or _user_name(name)
        return join.link(from_value(results[position], weak=weak), sides)

    return make


def _fixed(leaf: Any) -> Callable[[list[Value]], Any]:
    return lambda results: leaf


#: variables of jumps.py that stay in the program, and what they say there
_FLAGS = {"tg_break": "stopped", "tg_continue": "skipped", "tg_returned": "returned"}


def _user_name(name: str) -> str:
    if not name.startswith("tg_"):
        return name
    return next((noun for flag, noun in _FLAGS.items() if name.startswith(flag)), "")


def _step_text(tree: Tree, number: int) -> str:
    if tree.kind is dict:
        return f"[{tree.data[number]!r}]"
    return f".{tree.data[number]}" if isinstance(tree.data, tuple) and tree.kind is not Options else f"[{number}]"


def _path_to(index: int, tree: Tree) -> str:
    """Return where in a value a leaf is, as Python writes it."""
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


def _branch_error(name: str, what: str, left: str, right: str, span: Any, path: str = "") -> NeedsPythonValue:
    if name == "tg_value":
        title = f"the two sides of a conditional expression have different {what}"
        name = "it"
        if path:
            title += f" at {path}"
    else:
        known = "the returned value" if name.startswith("tg_") else name
        name = repr(f"{known}{path}") if known == name else f"{path} of {known}" if path else known
        title = f"the two branches give {name} different {what}"
    help = f"make both branches give {name} one shape and structure, or compute it after the if"
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
    return NeedsPythonValue(title, code="TG112", span=span, found=f"{left} when true, {right} when false", help=help)


def _shape_text(leaves: list[Any], tree: Tree) -> str:
    return describe(leaves[0]) if tree.kind is None else f"a {kind_name(tree.kind)} of {len(tree.children)}"


def is_number(leaf: Any) -> bool:
    """Return whether a value is a number or an array, traced or not."""
    return isinstance(leaf, Tracer | bool | int | float | complex | np.generic | np.ndarray) or (
        hasattr(type(leaf), "as_tracer") and not isinstance(leaf, list)
    )


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)
    except (TypeError, ValueError):
        return False


def new_list(items: list[Any]) -> list[Any]:
    """Return a list as captured code makes it."""
    result = CapturedList(items)
    current().register_created(result)
    return result


# ---- conditional expressions and boolean operators


def if_exp(test: Any, then_fn: Callable[[], Any], else_fn: Callable[[], Any]) -> Any:
    """`a if test else b`."""
    test = truth(test)
    if not isinstance(test, Tracer):
        return then_fn() if test else else_fn()
    state: list[Any] = [Undefined("the conditional expression")]
    bound = _merged(then_fn, else_fn)

    def run(fn: Callable[[], Any]) -> Callable[[], None]:
        def branch() -> None:
            state[0] = fn()

        return branch

    def set_state(values: tuple[Any, ...]) -> None:
        state[0] = values[0]
        bound.set_state(values[1:])

    def get_state() -> tuple[Any, ...]:
        return (state[0], *bound.get_state())

    if_stmt(test, run(then_fn), run(else_fn), get_state, set_state, ("tg_value", *bound.names))
    if type(state[0]) is Conflict:
        raise state[0].error
    return state[0]


class Binding:
    """The names that a part of an expression binds with `:=`, and how they are read and set."""

    def __init__(self, names: tuple[str, ...], get_state: GetState, set_state: SetState) -> None:
        self.names, self.get_state, self.set_state = names, get_state, set_state


#: functions for parts of expressions that bind names
BINDING: WeakKeyDictionary[Callable[[], Any], Binding] = WeakKeyDictionary()


def _merged(*parts: Callable[[], Any]) -> Binding:
    """Return what some parts of an expression bind together."""
    found = [BINDING[part] for part in parts if part in BINDING]
    names = tuple(dict.fromkeys(name for each in found for name in each.names))

    def get_state() -> tuple[Any, ...]:
        values = {name: v for each in found for name, v in zip(each.names, each.get_state(), strict=True)}
        return tuple(values[name] for name in names)

    def set_state(values: tuple[Any, ...]) -> None:
        given = dict(zip(names, values, strict=True))
        for each in found:
            each.set_state(tuple(given[name] for name in each.names))

    return Binding(names, get_state, set_state)


def with_bindings(fn: Callable[[], Any], parts: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    """Return a function that runs some parts of an expression, noted as one that binds what they bind."""
    if any(part in BINDING for part in parts):
        BINDING[fn] = _merged(*parts)
    return fn


def and_(first: Any, *rest: Callable[[], Any]) -> Any:
    """`a and b and ...`: the first false operand, else the last."""
    if not rest:
        return first
    test = truth(first)
    if isinstance(test, Tracer):
        return _boolean(np.logical_and, test, first, with_bindings(lambda: and_(rest[0](), *rest[1:]), rest), False)
    return and_(rest[0](), *rest[1:]) if test else first


def or_(first: Any, *rest: Callable[[], Any]) -> Any:
    """`a or b or ...`: the first true operand, else the last."""
    if not rest:
        return first
    test = truth(first)
    if isinstance(test, Tracer):
        return _boolean(np.logical_or, test, first, with_bindings(lambda: or_(rest[0](), *rest[1:]), rest), True)
    return first if test else or_(rest[0](), *rest[1:])


def _boolean(ufunc: Any, test: Tracer, left: Any, right: Callable[[], Any], on: bool) -> Any:
    """Short-circuit on a traced left side; a plain logical op when the right side cannot fail and both are bool."""
    if isinstance(left, StackedList):
        left = test  # a list that is empty in some runs: only its truth can be one of two values
    if right not in BINDING and (both := _both(ufunc, test, left, right)) is not None:
        return both
    return if_exp(test, lambda: left, right) if on else if_exp(test, right, lambda: left)


def _both(ufunc: Any, test: Tracer, left: Any, right: Callable[[], Any]) -> Any:
    """Return the logical op on both sides where the right one can be computed without condition, else None."""
    capture = current()
    block = Block()
    value = bare = known = None
    with capture.open("branch", block) as frame:
        try:
            value = right()
            bare = truth(value)
            known = bare.value if isinstance(bare, Tracer) else None
        except Exception as error:
            if not _is_fault(error):
                raise
    writes = leave_branch(frame)
    simple = isinstance(value, bool) or (isinstance(value, Tracer) and value.dtype == BOOL)
    if simple and asarray(left).dtype == BOOL and not writes and _is_total(block):
        capture.builder.block.operations.extend(block.operations)
        other = from_value(known, weak=True) if known is not None else bare
        return python_operator(np.bitwise_and if ufunc is np.logical_and else np.bitwise_or, test, other)
    return None


#: ops without arithmetic that cannot fail
_MOVES = frozenset({"constant", "full", "cast", "broadcast_to", "slice", "reshape", "transpose"})


def _is_total(block: Block) -> bool:
    """Whether running a block when it would have been skipped changes nothing: no faults, no effects, cheap."""
    return all(TABLE[o.op].elementwise or o.op in _MOVES for o in block.operations)


def not_(value: Any) -> Any:
    """`not a`."""
    test = truth(value)
    if isinstance(test, Tracer):
        return from_value(stage(ops.logical_not, test.value), weak=True)
    return not test


# ---- what a for loop runs over


class Sequence_:
    """Something a staged loop can run over: `length` items, item(i) for a traced or plain i."""

    def __init__(self, start: Any, stop: Any, step: int, item: Callable[[Any], Any]) -> None:
        self.start, self.stop, self.step, self.item = start, stop, step, item

    @property
    def length(self) -> Dim | None:
        """The number of items: an int, a symbolic dimension, or None when it is traced."""
        start, stop = as_dim(self.start), as_dim(self.stop)
        if start is None or stop is None:
            return None
        if isinstance(start, int) and isinstance(stop, int):
            return len(range(start, stop, self.step))
        distance = stop - start if self.step > 0 else start - stop
        if decide(distance, "<="):
            return 0
        return (distance + (abs(self.step) - 1)) // abs(self.step)

    @property
    def static_length(self) -> int | None:
        """The number of items when it is a plain int, else None."""
        length = self.length
        return length if isinstance(length, int) else None

    def __iter__(self) -> Iterator[Any]:
        start, stop = operator.index(self.start), operator.index(self.stop)
        return (self.item(i) for i in range(start, stop, self.step))

    def __len__(self) -> int:
        return len(range(operator.index(self.start), operator.index(self.stop), self.step))

    def __reversed__(self) -> Iterator[Any]:
        return iter(self.backwards())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self.item(i) for i in range(self.start, self.stop, self.step)[index]]
        return self.item(range(self.start, self.stop, self.step)[index])

    def __contains__(self, item: Any) -> bool:
        return any(item == i for i in self)

    def backwards(self) -> Sequence_:
        """Return the same items in reverse order."""
        if self.step == 1:
            return Sequence_(self.stop - 1, self.start - 1, -1, self.item)
        if self.static_length is None and self.step == -1:
            return Sequence_(self.stop + 1, self.start + 1, 1, self.item)
        last = range(self.start, self.stop, self.step)
        if not last:
            return Sequence_(0, 0, 1, self.item)
        return Sequence_(last[-1], last[0] - (1 if self.step > 0 else -1), -self.step, self.item)


def make_range(*args: Any) -> Sequence_:
    """`range(...)` in captured code: bounds may be traced, the step is a Python int."""
    values = [
        a if isinstance(a, Tracer) and a.concrete is None else a if hasattr(a, "as_tracer") else operator.index(a)
        for a in args
    ]
    start, stop, step = (
        (0, values[0], 1) if len(values) == 1 else (values[0], values[1], values[2] if len(values) > 2 else 1)
    )
    for bound in (start, stop):
        if isinstance(bound, Tracer) and (bound.dtype.kind not in "iu" or bound.ndim):
            raise TypeError(f"'{bound.dtype}' object cannot be interpreted as an integer")
    return Sequence_(start, stop, operator.index(step), lambda i: i)


def as_sequence(iterable: Any) -> Sequence_ | None:
    """Return what a staged loop runs over, or None when the iterable must be run in Python."""
    if isinstance(iterable, Sequence_):
        return iterable
    if isinstance(iterable, StackedList):
        stacked = iterable
        return Sequence_(0, stacked.length, 1, lambda i: stacked[i])
    if isinstance(iterable, np.ndarray):
        iterable = asarray(iterable)
    if isinstance(iterable, Tracer | Ragged):
        if not iterable.ndim:
            raise TypeError("iteration over a 0-d array")
        return Sequence_(0, iterable.shape[0], 1, lambda i: iterable[i])
    return None


def make_enumerate(iterable: Any, start: Any = 0) -> Any:
    """`enumerate(...)` in captured code."""
    inner = as_sequence(iterable)
    if inner is None:
        return enumerate(iterable, start)
    first, step = inner.start, inner.step
    if step == 1 and isinstance(first, int) and first == 0:
        return Sequence_(0, inner.stop, 1, lambda i: (i + start if not _is_zero(start) else i, inner.item(i)))
    return Sequence_(first, inner.stop, step, lambda i: ((i - first) // step + start, inner.item(i)))


def _is_zero(value: Any) -> bool:
    return isinstance(value, int) and value == 0


def make_zip(*iterables: Any, strict: bool = False) -> Any:
    """`zip(...)` in captured code."""
    sequences = [as_sequence(i) for i in iterables]
    if not iterables or not all(s is not None and s.step == 1 and _is_zero(s.start) for s in sequences):
        rest = [s if s is not None else i for s, i in zip(sequences, iterables, strict=True)]
        return zip(*rest, strict=strict)
    known = [s for s in sequences if s is not None]
    stops = [s.stop for s in known]
    if all(isinstance(s, int) for s in stops):
        if strict and len(set(stops)) > 1:
            raise ValueError("zip() arguments have different lengths")
        stop = min(stops)
    elif all(s is stops[0] or (hasattr(s, "dim") and s == stops[0]) for s in stops):
        stop = stops[0]
    else:
        stop = call_handler(min, *stops)
    return Sequence_(0, stop, 1, lambda i: tuple(s.item(i) for s in known))


def make_reversed(iterable: Any) -> Any:
    """`reversed(...)` in captured code."""
    inner = as_sequence(iterable)
    return inner.backwards() if inner is not None else reversed(iterable)


# ---- loops


class _State:
    """The variables of a loop: the local names that it rebinds, and slots of Python containers that it writes."""

    def __init__(
        self, names: tuple[str, ...], get_state: GetState, set_state: SetState, most: Dim | None = None
    ) -> None:
        self.names, self.get_names, self.set_names = names, get_state, set_state
        #: the greatest number of iterations, where only that is known
        self.most = most
        self.slots: list[tuple[Any, str, Any]] = []
        #: variables that may not be there where an iteration starts -> the leaves and the structure that they can have
        self.unsure: dict[int, tuple[list[Any], Tree]] = {}
        #: variables that may be None where an iteration starts -> what else they can be
        self.maybe_none: dict[int, Any] = {}
        #: variables that are one of several Python values -> these
        self.chosen: dict[int, Options] = {}
        #: variables that change places -> the one whose object each is for in the next iteration
        self.places: dict[int, int] = {}
        self.growing: list[_Growth] = []
        #: position of a variable -> how the lengths of an array change from one iteration to the next
        self.lengths: dict[int, _Lengths] = {}
        #: the number of the iteration, from 0, while a body of known length is captured
        self.number: Any = None

    def get(self) -> list[Any]:
        values = [*self.get_names(), *(read_slot(*slot) for slot in self.slots)]
        for position in self.unsure:
            values[position] = self._as_unsure(position, values[position])
        for position in self.maybe_none:
            values[position] = self._as_maybe_none(position, values[position])
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
            leaves, tree = self.unsure[position]
            value = unflatten(tree, [_sample_of(leaf) for leaf in leaves], new_list)
        return Unsure(self.label(position), value, condition, absent=not there)

    def _as_maybe_none(self, position: int, value: Any) -> Any:
        if isinstance(value, MaybeNone) or not (value is None or is_number(value)):
            return value
        there = from_value(current().builder.constant(value is not None), weak=True)
        some = asarray(_sample_of(self.maybe_none[position]) if value is None else value)
        return MaybeNone(some, there, absent=value is None)

    def _as_chosen(self, value: Any, options: Options) -> Any:
        leaves, tree = flatten(value)
        if not _is_choice((leaves, tree)) or merge_options(options, options_of(leaves, tree)) != options:
            return value
        if type(value) is Chosen and value.options == options and value.index.dtype == I64:
            return value
        known = tree.kind is None
        index = make_weak(asarray(0)) if known else value.index
        return Chosen(
            options, renumbered(index, options_of(leaves, tree), options), certain=(value,) if known else None
        )

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
            if isinstance(v, MaybeNone) and v.absent
            else v.certain[0]
            if type(v) is Chosen and v.certain is not None
            else v
            for v in values
        ]
        self.set_names(tuple(values[: len(self.names)]))
        for slot, value in zip(self.slots, values[len(self.names) :], strict=True):
            _put_slot(*slot, value)

    def label(self, position: int) -> str:
        return self.names[position] if position < len(self.names) else str(self.slots[position - len(self.names)][2])

    def is_slot(self, position: int) -> bool:
        """Return whether a variable is an item or an attribute, and not a name."""
        return position >= len(self.names)

    def add_slots(self, frame: Frame) -> bool:
        """Add the slots that a captured body wrote; return whether there were new ones."""
        known = {(id(c), kind, key) for c, kind, key in self.slots}
        new = [(c, slot[1], slot[2]) for slot, (c, _, _) in frame.slots.items() if slot not in known]
        self.slots.extend(new)
        return bool(new)

    def add_lists(self, grown: list[_Growth], trips: Dim | None) -> bool:
        """Note how lists from outside grow in one iteration; return whether that was not known before."""
        found = False
        most = trips if trips is not None else self.most
        for growth in grown:
            growth.varies |= trips is None
            known = next((g for g in self.growing if g.values is growth.values), None)
            if known is not None and known.count == growth.count and known.varies == growth.varies:
                continue
            shrinks = decide(growth.count, "<=")
            if shrinks or not isinstance(growth.values, CapturedList) or most is None:
                how = "shrinks or is changed" if shrinks else "grows"
                raise RestageError(
                    f"a list {how} in a loop" + (" whose length is not known" if most is None else ""),
                    "make an array before the loop, as long as it can get, write into it and count; or keep only what "
                    "is needed of the items, such as their sum",
                )
            growth.kind = growth.items if isinstance(growth.items, ItemKind) else item_type(growth.items)
            self.growing = [g for g in self.growing if g is not known] + [growth]
            found = True
        return found

    def prepare_lists(self, trips: Dim | None) -> None:
        """Make the lists that grow stacked, with room for all iterations."""
        trips = trips if trips is not None else self.most
        for growth in self.growing:
            assert isinstance(growth.values, CapturedList) and growth.kind is not None and trips is not None
            note_list(growth.values)
            growth.base = count_of(growth.values)
            growth.before = snapshot(growth.values) if growth.before is None else growth.before
            make_room(growth.values, growth.kind, growth.base + trips * growth.count)
            assert isinstance(growth.values, StackedList)
            growth.start, growth.values.varies = growth.values.length, growth.varies

    def start_iteration(self, number: Any) -> None:
        """Set the lengths of lists and arrays that change by a fixed number, at the start of the captured body."""
        self.number = number
        values = list(self.get_names())
        for position, lengths in self.lengths.items():
            for k, step in lengths.steps.items():
                axes = {**values[position].axes, k: Axis(as_size(lengths.starts[k]) + number * step)}
                values[position] = Ragged(values[position].content, axes)
        self.set_names(tuple(values))
        for growth in self.growing:
            note_list(growth.values)
            assert isinstance(growth.values, StackedList)
            if not growth.varies:
                growth.values.length = number * growth.count + growth.start

    def restore_lists(self) -> None:
        """Give the lists their content from before the loop, which was not staged after all."""
        for growth in self.growing:
            if growth.before is not None:
                restore(growth.values, growth.before)

    def finish_lists(self, trips: Dim | None) -> None:
        """Set the length of the lists that grow, after the loop."""
        trips = trips if trips is not None else self.most
        for growth in self.growing:
            assert isinstance(growth.values, StackedList) and trips is not None
            growth.values.added = growth.base + trips * growth.count
            if not growth.varies:
                growth.values.length = growth.start + as_size(trips * growth.count)


class _Lengths:
    """How an array that a loop binds anew changes its lengths, along `axes`.

    Attributes:
        shape: of the content that the loop carries.
        starts: axis -> length before the loop, where it is known.
        steps: axis -> how much longer it is after each iteration, where that is the same for all.
    """

    def __init__(
        self, shape: tuple[Dim, ...], axes: tuple[int, ...], starts: dict[int, Dim], steps: dict[int, int]
    ) -> None:
        self.shape, self.axes, self.starts, self.steps = shape, axes, starts, steps

    def start(self, value: Any) -> Ragged:
        """Return what the array is before the loop."""
        return self.lay_out(value if isinstance(value, Ragged) else Ragged(asarray(value), {}))

    def lay_out(self, array: Ragged) -> Ragged:
        """Return an array in the form in which the loop carries it."""
        made = array.laid_out(self.shape, self.axes)
        share(made.content._storage, array.content.root._storage)
        return made


class _Lengthen(Exception):
    """The body gives an array another length than it started with: capture the loop again with a length that varies."""

    def __init__(self, position: int, lengths: _Lengths) -> None:
        self.position, self.lengths = position, lengths


def _settle_lengths(state: _State, position: int, before: Any, after: Any, trips: Dim | None) -> Any:
    """Return an array that the body binds as one of the lengths that the loop carries.

    Raises:
        _Lengthen: it needs another description.
    """
    lengths = state.lengths.get(position)
    if not isinstance(before, Tracer | Ragged) or not isinstance(after, Tracer | Ragged) or after.ndim != before.ndim:
        return after
    if not before.ndim or after is before:
        return after
    old = before.content.type.shape if isinstance(before, Ragged) else before.type.shape
    new = after.content.type.shape if isinstance(after, Ragged) else after.type.shape
    if lengths is None:
        ragged = set(after.axes) if isinstance(after, Ragged) else set()
        axes = tuple(k for k in range(before.ndim) if k in ragged or new[k] != old[k])
        if not axes:
            return after
        if position >= len(state.names):
            raise RestageError(f"{state.label(position)!r} changes its length")
        starts = {k: old[k] for k in axes}
        steps = {
            k: step for k in axes if k not in ragged and trips is not None and isinstance(step := new[k] - old[k], int)
        }
        shape = tuple(d + (trips or 0) * steps[k] if steps.get(k, 0) > 0 else d for k, d in enumerate(old))
        if any(k not in steps and decide(new[k] - old[k], ">") for k in axes):
            raise RestageError(f"{state.label(position)!r} grows in a loop whose length is not known")
        raise _Lengthen(position, _Lengths(shape, axes, starts, steps))
    assert isinstance(before, Ragged)
    array = after if isinstance(after, Ragged) else Ragged(after, {})
    more = tuple(k for k in range(array.ndim) if k not in lengths.axes and (k in array.axes or new[k] != old[k]))
    wrong = tuple(
        k
        for k, step in lengths.steps.items()
        if not array.has_length(k, as_size(lengths.starts[k]) + (state.number + 1) * step)
    )
    if any(lengths.steps[k] > 0 for k in wrong):
        raise RestageError(f"{state.label(position)!r} grows by different numbers of elements")
    if more or wrong:
        starts = {**lengths.starts, **{k: old[k] for k in more}}
        steps = {k: step for k, step in lengths.steps.items() if k not in wrong}
        raise _Lengthen(position, _Lengths(lengths.shape, (*lengths.axes, *more), starts, steps))
    return lengths.lay_out(array)


def _sample_of(leaf: Any) -> Any:
    """Return something of the type of a leaf that stands for nothing."""
    if not _is_carryable(leaf):
        return leaf
    tracer = asarray(leaf)
    return from_value(stage(ops.undefined, type=tracer.type), weak=tracer.weak)


class _Growth:
    """How a list grows: `count` items in each iteration, from `base` items before the loop.

    `start` is its length before the loop: traced in the body of a loop around it, where `base` counts one iteration.
    """

    def __init__(self, values: list[Any], count: Dim, items: Any) -> None:
        self.values, self.count, self.items = values, count, items
        self.varies = id(values) in current().varying or (isinstance(values, StackedList) and values.varies)
        self.base: Dim = 0
        self.start: Any = 0
        self.before: Any = None
        self.kind: ItemKind | None = None


class _StandIns:
    """Block parameters that stand for the state at the start of a loop body, of the types that the body keeps."""

    def __init__(
        self,
        entry: list[Any],
        overrides: dict[tuple[int, int], tuple[ArrayType, bool]],
        kept: set[int],
        unordered: set[tuple[int, int]],
        state: _State,
    ) -> None:
        self.trees = [flatten(value) for value in entry]
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
                if _is_carryable(leaf):
                    tracer = asarray(leaf)
                    kind, weak = overrides.get((position, index), (tracer.type, tracer.weak))
                    param = Value(kind, _user_name(state.label(position)))
                    leaf = Tracer(Storage(kind, current().depth, param), weak=weak, contiguous=tracer.is_contiguous)
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


def _is_carryable(leaf: Any) -> bool:
    if isinstance(leaf, Undefined | Conflict):
        return False
    return isinstance(leaf, Tracer | bool | int | float | complex | np.generic | np.ndarray) or hasattr(
        leaf, "as_tracer"
    )


class _Retype(Exception):
    """The body gives a carried value another type than it started with: capture it again with this one."""

    def __init__(self, key: tuple[int, int], kind: ArrayType, weak: bool) -> None:
        self.key, self.kind, self.weak = key, kind, weak


class _Again(Exception):
    """Capture the loop again: more is known about what its body writes."""


class _Fault(Exception):
    """The body of a loop that may not run at all raises an error whenever it runs."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextmanager
def _faults() -> Iterator[None]:
    """Around the body of a loop that may not run at all."""
    try:
        yield
    except Exception as error:
        if _is_fault(error):
            raise _Fault(error) from error
        raise


def _never_runs(goes_on: Any, error: Exception) -> None:
    """Stage a loop whose body raises an error: it raises when the test holds at first."""
    if isinstance(goes_on, Tracer):
        _raise_unless(stage(ops.logical_not, goes_on.value), error)
    elif goes_on:
        raise error


class _Stop(Exception):
    """A staged loop turned out to run over Python values alone: run it natively."""


def _stage_loop(
    state: _State,
    parts: Callable[[], list[tuple[list[Value], Callable[[], Value | None]]]],
    emit: Callable[[list[Value], list[Block], list[ArrayType]], Operation],
    trips: Dim | None,
) -> None:
    """Capture the blocks of a loop until the types of its carries are stable, then emit its operation.

    `parts()` gives, per block of the operation, its leading parameters and a function that runs it and returns what the
    block yields first (the condition), or None for the body.
    """
    overrides: dict[tuple[int, int], tuple[ArrayType, bool]] = {}
    kept: set[int] = set()
    unordered: set[tuple[int, int]] = set()
    capture = current()
    mark, noted = len(capture.changes), len(capture.events)
    entry = state.get()
    for _ in range(12):
        try:
            state.prepare_lists(trips)
            entry = state.get()
            _try_loop(state, entry, parts, emit, overrides, kept, unordered, trips)
            return
        except _Retype as retype:
            overrides[retype.key] = (retype.kind, retype.weak)
            state.set(entry)
        except _Lengthen as lengthen:
            state.lengths[lengthen.position] = lengthen.lengths
            state.set(entry)
        except _Again:
            state.set([*entry, *state.read_slots(len(entry))])
        except BaseException:
            state.set(entry)
            state.restore_lists()
            capture.undo(mark)
            del capture.events[noted:]
            raise
        capture.undo(mark)
        del capture.events[noted:]
    raise RestageError("the types of the values that the loop carries do not settle")


def _try_loop(
    state: _State,
    entry: list[Any],
    parts: Callable[[], list[tuple[list[Value], Callable[[], Value | None]]]],
    emit: Callable[[list[Value], list[Block], list[ArrayType]], Operation],
    overrides: dict[tuple[int, int], tuple[ArrayType, bool]],
    kept: set[int],
    unordered: set[tuple[int, int]],
    trips: Dim | None,
) -> None:
    capture = current()
    captured = []
    assumed: set[Storage] = set()
    frozen: set[Storage] = set()
    rewritten = False
    for position, value in enumerate(entry):
        if isinstance(value, Ragged) and position not in state.lengths:
            state.lengths[position] = _Lengths(value.content.type.shape, tuple(value.axes), {}, {})
    entry = [
        state.lengths[position].start(value) if position in state.lengths else value
        for position, value in enumerate(entry)
    ]
    for leading, run in parts():
        block = Block(list(leading))
        hidden: list[tuple[Any, str, Any, Any]] = []
        with capture.open("loop", block) as frame:
            frame.unrolls = trips is not None and dim_evaluate(trips, capture.sizes) <= UNROLL_LIMIT
            try:
                stand_ins = _StandIns(entry, overrides, kept, unordered, state)
                state.set(stand_ins.values)
                frame.slots.clear()
                hidden = _hide_objects(state, stand_ins)
                condition = run()
                exit_trees = []
                for position, value in enumerate(state.get()):
                    if position < len(entry):
                        value = _settle_lengths(state, position, stand_ins.values[position], value, trips)
                    exit_trees.append(flatten(value))
                exit_values: dict[tuple[int, int], Value] = {}
                for position, (leaves, _) in enumerate(exit_trees):
                    for index, leaf in enumerate(leaves):
                        if _is_carryable(leaf):
                            exit_values[position, index] = content_of(asarray(leaf))
            except BaseException:
                capture.leave_loop(frame)
                undo(frame)
                _show_objects(hidden)
                raise
        entered = capture.leave_loop(frame)
        grown = [
            _Growth(v, count_of(v) - count_before(b), items_of(v)) for v, b in frame.lists.values() if not _rolls(v, b)
        ]
        for values, before in frame.lists.values():
            if _rolls(values, before):  # its items are variables of the loop
                for number, item in enumerate(before):
                    frame.slots.setdefault((id(values), "item", number), (values, item, item))
        undo(frame)
        _show_objects(hidden)
        new_lists, new_slots = state.add_lists(grown, trips), state.add_slots(frame)
        if new_lists or new_slots:
            raise _Again
        known = dict(state.places)
        unchanged = _find_unchanged(state, block, frame, stand_ins, exit_trees)
        if not unchanged <= kept or known != state.places:
            kept |= unchanged
            raise _Again
        captured.append((block, stand_ins, condition, exit_trees, exit_values, entered))
        assumed |= frame.assumed
        frozen |= set(frame.frozen)
        rewritten |= frame.rewritten
    _, stand_ins, _, exit_trees, exit_values, _ = captured[-1]
    sharing = Sharing(
        _leaves(stand_ins.trees),
        _leaves(exit_trees),
        [Part(block, ins.params, ins.initial, entered) for block, ins, _, _, _, entered in captured],
        frozen,
        rewritten,
    )
    changed = assumed & sharing.changed_outside()
    if changed:
        # an iteration would use the content from before the loop, which another has changed
        for storage in changed:
            capture.read(storage)
            storage.concrete = None
        raise _Again
    shared = sharing.find_kept(state.label)
    if shared:
        kept |= shared
        raise _Again

    # which names are carries, and of which type
    carries: list[tuple[tuple[int, int], ArrayType]] = []
    for position, ((before, tree), (after, after_tree)) in enumerate(zip(stand_ins.trees, exit_trees, strict=True)):
        if tree.kind is None and isinstance(before[0], Undefined):
            if state.is_slot(position) and not (after_tree.kind is None and isinstance(after[0], Undefined)):
                state.note_unsure(position, after, after_tree)
                raise _Again
            continue
        if tree.kind is Unsure and after_tree.kind is not Unsure and position not in state.unsure:
            state.note_unsure(position, after, after_tree)
            raise _Again
        if position not in state.maybe_none and _settles_as_maybe_none(before, tree, after, after_tree, trips):
            state.maybe_none[position] = before[0] if tree.kind is MaybeNone else after[0]
            raise _Again
        if _settles_as_chosen(before, tree, after, after_tree, trips):
            options = merge_options(options_of(before, tree), options_of(after, after_tree))
            if len(options) > 1 and tuple(state.chosen.get(position, ())) != options:
                found = describe(options[0]), describe(options[1])
                state.chosen[position] = Options(
                    options, _branch_error(state.label(position), "values", *found, user_span())
                )
                raise _Again
        if tree != after_tree:
            raise RestageError(f"{state.label(position)!r} changes its structure")
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            key = (position, index)
            stand_in = stand_ins.params.get(key)
            if stand_in is None:
                if position in kept and tree.origin is not None and tree.origin is after_tree.origin:
                    continue
                if new is old or is_same_view(new, old):
                    continue
                if isinstance(new, Tracer) or type(new) is not type(old) or not _equal(new, old):
                    raise RestageError(f"{state.label(position)!r} changes from {describe(old)} to {describe(new)}")
                continue
            if not _is_carryable(new):
                raise RestageError(f"{state.label(position)!r} changes from {describe(old)} to {describe(new)}")
            param = stand_in._storage
            if new is stand_in and exit_values[key] is stand_ins.initial[key]:
                continue
            _check_type(key, param.type, stand_in.weak, asarray(new), old)
            if key not in unordered and not has_order_of(asarray(new), stand_in):
                unordered.add(key)
                raise _Again
            carries.append((key, param.type))
    _emit_loop(state, entry, captured, carries, emit, trips, sharing)


def _rolls(values: Any, before: Any) -> bool:
    """Return whether items of a list or deque have changed their places, and not its length."""
    return not isinstance(values, StackedList) and isinstance(before, list) and len(values) == len(before)


def _settles_as_maybe_none(
    before: list[Any], tree: Tree, after: list[Any], after_tree: Tree, trips: Dim | None
) -> bool:
    """Return whether a variable is None where some iterations of a loop start, and a number where others do."""
    if tree.kind is MaybeNone:
        return after_tree.kind is None and (after[0] is None or is_number(after[0]))
    if tree.kind is not None or before[0] is not None:
        return False
    # a loop of known length that binds a number in each iteration runs the first one by itself
    return after_tree.kind is MaybeNone or (trips is None and after_tree.kind is None and is_number(after[0]))


def _settles_as_chosen(before: list[Any], tree: Tree, after: list[Any], after_tree: Tree, trips: Dim | None) -> bool:
    """Return whether a loop carries which of several Python values a variable is."""
    if not _is_choice((before, tree)) or not _is_choice((after, after_tree)):
        return False
    # a loop of known length that binds another value in each iteration runs the first one by itself
    return trips is None or after_tree.kind is Chosen


def _leaves(trees: list[tuple[list[Any], Tree]]) -> dict[tuple[int, int], Any]:
    return {(position, index): leaf for position, (leaves, _) in enumerate(trees) for index, leaf in enumerate(leaves)}


def _check_type(key: tuple[int, int], kind: ArrayType, weak: bool, new: Tracer, old: Any) -> None:
    """Raise _Retype when the body turns a carried value of this type into another one that it can start with."""
    number = not isinstance(old, Tracer) or old.weak
    if new.type.shape != kind.shape:
        if kind.shape == () and number:
            raise _Retype(key, new.type, False)  # s = 0; s += array: starts as an array of zeros
        raise RestageError(f"a carried value changes its shape from {kind} to {new.type}")
    if new.dtype == kind.dtype and (new.weak or not weak):
        return
    if not weak and new.weak and np.can_cast(new.dtype, kind.dtype, "same_kind"):
        return
    dtype = new.dtype if weak and not new.weak else result_dtype([new, sample(kind, weak)])
    if weak and not new.weak and not np.can_cast(kind.dtype, new.dtype, "same_kind"):
        dtype = np.result_type(kind.dtype, new.dtype)
    if dtype == kind.dtype and not weak:
        return
    raise _Retype(key, ArrayType(dtype, kind.shape), weak and new.weak)


def _emit_loop(
    state: _State,
    entry: list[Any],
    captured: list[Any],
    carries: list[tuple[tuple[int, int], ArrayType]],
    emit: Callable[[list[Value], list[Block], list[ArrayType]], Operation],
    trips: Dim | None,
    sharing: Sharing,
) -> None:
    capture = current()
    _, stand_ins, _, exit_trees, exit_values, body_entered = captured[-1]
    entry_leaves, exit_leaves = _leaves(stand_ins.trees), _leaves(exit_trees)
    # values bound for the first time in the body
    late = [
        ((position, index), exit_values[position, index].array_type)
        for position, (before, tree) in enumerate(stand_ins.trees)
        if tree.kind is None and isinstance(before[0], Undefined)
        for index in range(len(exit_trees[position][0]))
        if (position, index) in exit_values
    ]
    written = [(s, before) for s, before, param, after in body_entered if after is not param]
    unsure = trips is None and any(_user_name(state.label(position)) for (position, _), _ in late)
    types = [t for _, t in carries] + [t for _, t in late] + [s.type for s, _ in written]
    inits = []
    for key, kind in carries:
        inits.append(_as_type(asarray(entry_leaves[key]), kind))
    inits.extend(stage(ops.undefined, type=kind) for _, kind in late)
    inits.extend(before for _, before in written)
    rotating = {} if isinstance(trips, int) else {k: path for k, _ in carries if len(path := sharing.cycle(k)) > 1}
    if rotating:  # the number of iterations
        types.append(ArrayType(I64))
        inits.append(capture.builder.constant(0))
    if unsure:  # whether the body has run
        types.append(ArrayType(BOOL))
        inits.append(capture.builder.constant(False))

    blocks = []
    for block, ins, condition, _, values, entered in captured:
        by_storage = {s: (before, param, after) for s, before, param, after in entered}
        mapping: dict[Value, Value] = {}
        params = []
        carried = {key for key, _ in carries}
        for key, _ in carries:
            params.append(ins.initial[key])
        for _, kind in late:
            params.append(Value(kind))
        for storage, _ in written:
            params.append(by_storage[storage][1] if storage in by_storage else Value(storage.type))
        for key, param in ins.initial.items():
            if key not in carried:
                leaf = entry_leaves[key]
                mapping[param] = _as_type(asarray(leaf), param.array_type)
        for storage, (before, param, _) in by_storage.items():
            if all(storage is not s for s, _ in written):
                mapping[param] = before
        count = Value(ArrayType(I64))
        params.extend([count] if rotating else [])
        params.extend([Value(ArrayType(BOOL), "has_run")] if unsure else [])
        block.params.extend(params)
        if condition is None:
            with capture.builder.into(block):
                block.yields = [
                    *(_cast_value(values[key], kind) for key, kind in carries),
                    *(values[key] for key, _ in late),
                    *(by_storage[s][2] for s, _ in written),
                    *([stage(ops.add, count, capture.builder.constant(1))] if rotating else []),
                    *([capture.builder.constant(True)] if unsure else []),
                ]
        else:
            block.yields = [condition]
        substitute(block, mapping)
        blocks.append(block)

    operation = emit(inits, blocks, types)
    if (trips is None or (isinstance(trips, int) and trips <= NATIVE_LIMIT)) and not written and not state.growing:
        outer = [*operation.operands, *(v for b in blocks for v in free_values(b))]
        if all(v.producer is not None and v.producer.op in ("constant", "undefined") for v in outer):
            if not any(_has_effect(b, ("print",)) for b in blocks):
                raise _Stop
    results = operation.results
    capture.builder.block.operations.append(operation)

    state.finish_lists(trips)

    # the state after the loop
    runs = trips is not None and not decide(trips, "<=")
    after: dict[tuple[int, int], Any] = {}
    made: dict[int, Tracer] = {}
    fresh: dict[tuple[int, int], Tracer] = {}
    overwritten: list[tuple[Tracer, Value]] = []
    position = 0
    for key, _ in [*carries, *late]:
        result, leaf = results[position], exit_leaves[key]
        result.name = result.name or _user_name(state.label(key[0]))
        position += 1
        settled = sharing.settled(key, trips, runs)
        if key in rotating:
            after[key] = from_value(result)
        elif settled is not None:
            after[key] = settled
            path = sharing.cycle(key)
            if not sharing.written.isdisjoint(path):
                overwritten.append((settled, result))
        else:
            new = asarray(leaf)
            weak = new.weak and (key not in stand_ins.params or stand_ins.params[key].weak)
            if not runs or id(leaf) not in made:  # without an iteration two names are for what they were before
                made[id(leaf)] = from_value(result, weak=weak)
                if new.ndim:
                    fresh[key] = made[id(leaf)]
            after[key] = made[id(leaf)]
    with capture.copying(not sharing.rewritten):
        for (storage, before), result in zip(written, results[position:], strict=False):
            result.name = before.name
            capture.write(storage, result)
        for old, result in overwritten:
            old.assign(result)
    if rotating:
        _link_rotating(rotating, after, entry_leaves, sharing, results[len(carries) + len(late) + len(written)])
    sharing.note(fresh, not runs)
    for key in (key for key in sharing.written if not sharing.cycle(key)):
        for storage in sharing.outside[key]:
            capture.make_stale(storage, f"{state.label(key[0])!r} is written in place in a loop that binds it anew")
    for key, made_here in fresh.items():
        stale = exit_leaves[key].root._storage.stale
        if stale:
            capture.make_stale(made_here._storage, stale)
    final = []
    for index, (leaves, tree) in enumerate(stand_ins.trees):
        is_late = tree.kind is None and isinstance(leaves[0], Undefined)
        if is_late:
            leaves, tree = exit_trees[index]
        if tree.kind is not None and all((index, i) not in after for i in range(len(leaves))):
            final.append(entry[index])
            continue
        value = unflatten(tree, [after.get((index, i), leaf) for i, leaf in enumerate(leaves)], new_list)
        if isinstance(value, Ragged) and index in state.lengths and trips is not None:
            value = _finish_lengths(value, state.lengths[index], trips)
        if unsure and is_late and not isinstance(value, Undefined | Unsure) and _user_name(state.label(index)):
            value = Unsure(state.label(index), value, from_value(results[-1], weak=True))
        if runs and isinstance(value, Unsure) and _is_true(exit_values.get((index, len(leaves) - 1))):
            value = value.value  # every iteration leaves it there
        final.append(value)
    state.set(_link_after(state, final, captured[-1], runs, trips))


def _find_unchanged(
    state: _State,
    block: Block,
    frame: Frame,
    stand_ins: _StandIns,
    exits: list[tuple[list[Any], Tree]],
) -> set[int]:
    """Return the variables that stay the list, dict or object that they are before the loop, which the body changes:
    they need no stand-in. Note those that change places.

    Raises:
        RestageError: the body changes one that a variable is for in some iterations only.
    """
    changed = {position for where, position in current().mutated if where is block}
    written = {slot[0] for slot in frame.slots} | set(frame.lists)
    unchanged = set()
    places = _find_places(stand_ins, exits)
    for position, objects in stand_ins.objects.items():
        before, after = stand_ins.structures[position], exits[position][1]
        same = all(a is b for a, b in itertools.zip_longest(roots(before), roots(after)))
        if position in changed and same:
            unchanged.add(position)
        elif objects and not same:
            found = {id(other) for (node,) in nodes(after) for other in _older(node.origin, block)}
            if position in changed and position in places and not found & written:
                state.places.update(places)
            elif position in changed or found & written:
                label = state.label(position)
                raise RestageError(
                    f"{label!r} is for another object in each iteration, and one of them is changed",
                    f"change no object under a name that the loop binds anew: bind {label!r} to a new object",
                )
    return unchanged


def _find_places(stand_ins: _StandIns, exits: list[tuple[list[Any], Tree]]) -> dict[int, int]:
    """Return which variables only change places, with the one whose object each has at the end of the body.

    Their objects are known under no other name that is followed.
    """
    objects = {
        position: found
        for position, found in stand_ins.objects.items()
        if found and roots(stand_ins.structures[position]) == [found[0][0]]
    }
    counts = collections.Counter(id(old) for found in stand_ins.objects.values() for _, old in found)
    owners = {
        tuple(id(made) for made, _ in found): position
        for position, found in objects.items()
        if all(counts[id(old)] == 1 and not isinstance(old, StackedList) and not ways(old) for _, old in found)
    }
    places = {}
    for position in objects:
        owner = owners.get(tuple(id(node.origin) for (node,) in nodes(exits[position][1])))
        if owner is not None and owner != position:
            places[position] = owner
    while not places.keys() == set(places.values()):
        moved = set(places.values())
        places = {position: owner for position, owner in places.items() if position in moved and owner in places}
    return places


def _slots_of(container: Any) -> list[tuple[str, Any]]:
    """Return the items or attributes of a list, dict or object."""
    if isinstance(container, list):
        return [("item", k) for k in range(len(container))]
    if isinstance(container, dict):
        return [("item", key) for key in container]
    fields = dataclasses.fields(container) if dataclasses.is_dataclass(container) else ()
    return [("attr", name) for name in dict.fromkeys([*(f.name for f in fields), *getattr(container, "__dict__", ())])]


def _hide_objects(state: _State, stand_ins: _StandIns) -> list[tuple[Any, str, Any, Any]]:
    """Make reads of the objects of variables that change places an error: other names for them are not followed."""
    hidden = []
    for old, kind, key, conflict in _conflicts(state, stand_ins):
        hidden.append((old, kind, key, read_slot(old, kind, key)))
        set_slot(old, kind, key, conflict)
    return hidden


def _conflicts(state: _State, stand_ins: _StandIns) -> Iterator[tuple[Any, str, Any, Conflict]]:
    """Yield the slots of objects whose variables change places, with what makes reads of them an error."""
    for position in state.places:
        for _, old in stand_ins.objects[position]:
            conflict = Conflict(state.label(position), alias_error(old, "it is read under another name"))
            for kind, key in _slots_of(old):
                if not roots(flatten(read_slot(old, kind, key))[1]):
                    yield old, kind, key, conflict


def _show_objects(hidden: list[tuple[Any, str, Any, Any]]) -> None:
    for slot in hidden:
        set_slot(*slot)


def _settle_places(state: _State, final: list[Any], stand_ins: _StandIns, trips: Dim | None) -> None:
    """Give objects that have changed places their content after the loop, and the variables those objects.

    Where the number of iterations is not known, the variables get new ones, and the old ones cannot be used.
    """
    if not isinstance(trips, int):
        for old, kind, key, conflict in list(_conflicts(state, stand_ins)):
            _put_slot(old, kind, key, conflict)
        for position in state.places:
            for _, old in stand_ins.objects[position]:
                supersede(old, final[position])
        return
    found = {}
    for position in state.places:
        owner = position
        for _ in range(trips % _cycle_length(state.places, position)):
            owner = state.places[owner]
        found[position] = owner
    made = {position: [node.origin for (node,) in nodes(flatten(final[position])[1])] for position in found}
    for position, owner in found.items():
        for (_, old), new in zip(stand_ins.objects[owner], made[position], strict=True):
            for kind, key in _slots_of(new):
                value = read_slot(new, kind, key)
                if not roots(flatten(value)[1]):
                    _put_slot(old, kind, key, value)
        final[position] = stand_ins.objects[owner][0][1]


def _cycle_length(places: dict[int, int], position: int) -> int:
    owner, length = places[position], 1
    while owner != position:
        owner, length = places[owner], length + 1
    return length


def _older(made: Any, block: Block) -> list[Any]:
    """Return what an object at the end of a loop body may be, of the objects from before the loop."""
    capture = current()
    found = [made, *(way.other for way in ways(made, block))]
    return [other for other in found if capture.created_depth(other) <= capture.depth]


def _link_after(state: _State, final: list[Any], captured: Any, runs: bool, trips: Dim | None) -> list[Any]:
    """Link lists, dicts and objects after a loop to those that they may be; return the values of the variables."""
    block, stand_ins, _, exits, _, _ = captured
    capture = current()
    made: dict[int, list[Any]] = {}
    if state.places:
        _settle_places(state, final, stand_ins, trips)
    for position, (_, after) in enumerate(exits[: len(final)]):
        if position in state.places:
            continue
        value, (start, before) = final[position], stand_ins.trees[position]
        origin = after.origin
        is_late = before.kind is None and isinstance(start[0], Undefined)
        if origin is not None and capture.created_depth(origin) <= capture.depth and (runs or is_late):
            if isinstance(value, Unsure):
                final[position] = Unsure(value.name, origin, value.condition)
            else:
                final[position] = origin
            continue
        value = value.value if isinstance(value, Unsure) else value
        for node, end in nodes(flatten(value)[1], after):
            if capture.created_depth(node.origin) < capture.depth:
                continue
            for other in _older(end.origin, block):
                if other is not node.origin:
                    link_objects(node.origin, other, None, capture.frame.block)
            for other in made.setdefault(id(end.origin), []):
                link_objects(node.origin, other, ALWAYS if runs else None, capture.frame.block)
            made[id(end.origin)].append(node.origin)
        if not runs:
            for node, old in nodes(flatten(value)[1], before):
                if node.origin is not old.origin:
                    link_objects(node.origin, old.origin, None, capture.frame.block)
    return final


def _finish_lengths(array: Ragged, lengths: _Lengths, trips: Dim) -> Tracer | Ragged:
    """Return what an array is after a loop of known length: of a fixed shape, where its lengths change evenly."""
    axes = {
        k: Axis(as_size(lengths.starts[k] + trips * lengths.steps[k])) if k in lengths.steps else axis
        for k, axis in array.axes.items()
    }
    if set(axes) != set(lengths.steps):
        return Ragged(array.content, axes)
    shape = [lengths.starts[k] + trips * lengths.steps[k] if k in axes else d for k, d in enumerate(lengths.shape)]
    return Ragged(array.content, axes).fixed(tuple(shape))


def _is_true(value: Value | None) -> bool:
    """Return whether a value is the constant True."""
    return (
        value is not None
        and value.producer is not None
        and (value.producer.op == "constant" and value.dtype == BOOL and bool(value.producer.attrs["value"]))
    )


def _link_rotating(
    rotating: dict[Key, list[Key]],
    after: dict[Key, Any],
    entries: dict[Key, Any],
    sharing: Sharing,
    count: Value,
) -> None:
    """Link names that have changed places to the arrays from before: which one each is for depends on the number of
    iterations."""
    builder = current().builder
    conditions = {}
    for length in {len(path) for path in rotating.values()}:
        turns = stage(ops.remainder, count, builder.constant(length))
        conditions[length] = [stage(ops.equal, turns, builder.constant(turn)) for turn in range(length)]
    for path in rotating.values():
        old, here = entries[path[0]], conditions[len(path)]
        if not sharing.written.isdisjoint(path):
            # after `turn` iterations the name that is `turn` places further along is for this array
            content = old.value
            for turn in range(len(path)):
                owner = after[path[-turn]].value
                chosen = stage(ops.broadcast_to, here[turn], shape=owner.shape)
                content = stage(ops.select, chosen, owner, content)
            old.assign(content)
    for path in rotating.values():
        for chosen, key in zip(conditions[len(path)], path, strict=True):
            link(after[path[0]], entries[key], chosen)


def _as_type(tracer: Tracer, kind: ArrayType) -> Value:
    """Return a start value in the type that the loop carries."""
    value = cast_to(tracer, kind.dtype).value
    if value.type != kind:
        value = stage(ops.broadcast_to, value, shape=kind.shape)
    return value


def _cast_value(value: Value, kind: ArrayType) -> Value:
    return value if value.dtype == kind.dtype else stage(ops.cast, value, dtype=kind.dtype)


def for_stmt(
    iterable: Any,
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
) -> None:
    """Stage a loop over a range or an array; run any other one in Python."""
    capture, span = current(), user_span()
    sequence = as_sequence(iterable)
    if sequence is None:
        capture.note_native("for: run at capture, over Python values")
        _run_natively(iter(iterable), body_fn, get_state, set_state, names, extra_test)
        return
    length = sequence.length
    if isinstance(length, int) and length == 0:
        return
    reason = help = ""
    for peeled in range(3):
        try:
            try:
                _stage_for(sequence, body_fn, get_state, set_state, names, extra_test)
            except _TracedBreak:
                _stage_breaking_for(sequence, body_fn, get_state, set_state, names, extra_test)
            capture.events.append((span, f"for: staged{f' after {peeled} peeled iterations' if peeled else ''}"))
            return
        except _Fault as fault:
            inside = sequence.start < sequence.stop if sequence.step > 0 else sequence.start > sequence.stop
            _never_runs(truth(inside if extra_test is None else and_(inside, extra_test)), fault.error)
            return
        except _Stop:
            capture.note_native("for: run at capture, nothing in it is traced")
            _run_natively(iter(sequence), body_fn, get_state, set_state, names, extra_test)
            return
        except NeedsPythonValue as error:
            few = isinstance(length, int) and length <= _FEW_ITERATIONS
            if not few and _has_remedy(error):
                for_stmt(sequence, body_fn, get_state, set_state, names, extra_test)
                return
            reason, help, cause = f"it needs a Python value: {error.title}", error.help, error
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
            body_fn(sequence.item(sequence.start))
            sequence = Sequence_(sequence.start + sequence.step, sequence.stop, sequence.step, sequence.item)
            length -= 1
    if isinstance(length, SymbolicDim):
        length = operator.index(as_size(length))  # unrolled for this size only
    if length is None and all(resolve_content(asarray(bound)) is not None for bound in (sequence.start, sequence.stop)):
        length = len(sequence)
    if length is None or length > UNROLL_LIMIT:
        many = f"{length} iterations" if length is not None else "a number of iterations known only at run time"
        # when the length is known in an enclosing loop, that one is unrolled
        raise (NeedsPythonValue if length is None else CaptureError)(
            "the loop can neither be staged nor unrolled",
            code="TG120",
            span=span,
            found=f"{reason}; {many} (at most {UNROLL_LIMIT} are unrolled)",
            help=help,
        ) from cause
    capture.events.append((span, f"for: unrolled {length} times: {reason}"))
    _run_natively(iter(sequence), body_fn, get_state, set_state, names, extra_test)


class _TracedBreak(Exception):
    """The loop ends early on a traced condition: it is a while loop."""


def _has_remedy(error: NeedsPythonValue) -> bool:
    """Do what lets a statement be staged after all, if there is something; return whether there was.

    Raises:
        NeedsPythonValue: a statement around can do it, which is where the list was made.
    """
    use, capture = error.remedy, current()
    if not isinstance(use, ListUse) or stack_list(use):
        return use is not None
    if 0 <= capture.created_depth(use.values) < capture.depth:
        raise error
    return False


def stack_list(use: ListUse) -> bool:
    """Make a list of this frame what the statement needs; return whether it is."""
    capture, values = current(), use.values
    if capture.created_depth(values) != capture.depth or capture.stacked[id(values)] > _STACKED_LIMIT:
        return False
    capture.stacked[id(values)] += 1
    note_list(values)
    return stack_items(use)


def _run_natively(
    items: Iterator[Any],
    body_fn: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
) -> None:
    for number, item in enumerate(items):
        if extra_test is None:
            if number > ENDLESS_LIMIT and isinstance(items, itertools.count | itertools.cycle):
                raise _endless_error(user_span())
            body_fn(item)
            continue
        goes_on = truth(extra_test())
        if isinstance(goes_on, Tracer):
            if isinstance(items, itertools.count | itertools.cycle):
                raise CaptureError(
                    "a loop over an endless iterator ends under a traced condition",
                    code="TG120",
                    span=user_span(),
                    found=f"a loop over itertools.{type(items).__name__}, which is run at capture",
                    help="write it as `while True:` with a counter of your own; that loop is staged",
                )
            if_stmt(goes_on, functools.partial(body_fn, item), lambda: None, get_state, set_state, names)
        elif goes_on:
            body_fn(item)
        else:
            return


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
    state = _State(names, get_state, set_state)
    span = user_span()
    start, stop = _bound(sequence.start), _bound(sequence.stop)

    def parts() -> list[tuple[list[Value], Callable[[], Value | None]]]:
        index = Value(ArrayType(I64), "")

        def run() -> None:
            k = from_value(index, weak=True)
            _note_range(index, sequence, start, stop)
            if state.growing or state.lengths:
                state.start_iteration(_number_of(k, sequence))
            with _faults() if sequence.length is None else nullcontext():
                body_fn(sequence.item(k))
            if extra_test is not None:
                goes_on = truth(extra_test())
                if isinstance(goes_on, Tracer) or not goes_on:
                    raise _TracedBreak

        return [([index], run)]

    def emit(inits: list[Value], blocks: list[Block], types: list[ArrayType]) -> Operation:
        attrs = {"step": sequence.step, "reverse": False}
        return Operation("for", [start, stop, *inits], attrs, blocks, list(types), span)

    _stage_loop(state, parts, emit, sequence.length)


def _number_of(index: Tracer, sequence: Sequence_) -> Any:
    """Return the number of an iteration, from 0."""
    distance: Any = index if _is_zero(sequence.start) else index - sequence.start
    return distance if sequence.step == 1 else -distance if sequence.step == -1 else distance // sequence.step


def _note_range(index: Value, sequence: Sequence_, start: Value, stop: Value) -> None:
    """Note which values the index of the loop that is being staged takes, when that is known."""
    capture, length = current(), sequence.length
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
) -> None:
    assert extra_test is not None
    test = extra_test
    index: list[Any] = [from_value(_bound(sequence.start), weak=True)]
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
        body_fn(sequence.item(k))
        index[0] = k + sequence.step

    _stage_while(test_fn, body, get_all, set_all, (*names, "tg_index"), sequence.length)


def while_stmt(
    test_fn: Callable[[], Any],
    body_fn: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
) -> None:
    """Stage a loop whose condition is traced; run any other one in Python."""
    capture, span = current(), user_span()
    iterations = 0
    while True:
        try:
            _stage_while(test_fn, body_fn, get_state, set_state, names)
            capture.events.append((span, "while: staged"))
            return
        except _Fault as fault:
            _never_runs(truth(test_fn()), fault.error)
            return
        except _Stop:
            reason, help, cause = "", "", None
        except NeedsPythonValue as error:
            if _has_remedy(error):
                continue
            reason, help, cause = f"it needs a Python value: {error.title}", error.help, error
        except RestageError as error:
            reason, help, cause = error.reason, error.help, None
        goes_on = truth(test_fn())
        if isinstance(goes_on, Tracer):
            raise CaptureError(
                "the loop cannot be staged",
                code="TG122",
                span=span,
                found=reason or "its condition is a Python value at first, and a traced one later",
                help=help or "start with the same kind of values that the loop goes on with",
            ) from cause
        if not goes_on:
            return
        capture.note_native("while: run at capture")
        body_fn()
        iterations += 1
        if reason == "" and iterations >= 1:
            # only Python values decide: run the rest without trying to stage
            endless = _Endless(get_state, span)
            while not isinstance(goes_on := truth(test_fn()), Tracer):
                if not goes_on:
                    return
                body_fn()
                endless.note_iteration()
        if iterations > UNROLL_LIMIT and reason:
            raise CaptureError(
                "the loop can neither be staged nor unrolled",
                code="TG120",
                span=span,
                found=f"{reason}; more than {UNROLL_LIMIT} iterations",
                help=help,
            ) from cause


class _Endless:
    """Counts iterations at capture that stage something and change no Python value; they never end."""

    def __init__(self, get_state: GetState, span: Span | None) -> None:
        self.get_state, self.span, self.count = get_state, span, 0
        self.before = self._look()

    def _look(self) -> tuple[int, list[Any]]:
        leaves = (leaf for value in self.get_state() for leaf in flatten(value)[0])
        return len(current().builder.block.operations), [leaf for leaf in leaves if not isinstance(leaf, Tracer)]

    def note_iteration(self) -> None:
        """Note the end of an iteration.

        Raises:
            CaptureError: there have been too many such ones.
        """
        (staged, values), self.before = self.before, self._look()
        now_staged, now_values = self.before
        same = len(values) == len(now_values) and all(a is b for a, b in zip(values, now_values, strict=True))
        self.count = self.count + 1 if same and now_staged > staged else 0
        if self.count > ENDLESS_LIMIT:
            raise _endless_error(self.span)


def _endless_error(span: Span | None) -> CaptureError:
    return CaptureError(
        "the loop has no end that is known at capture",
        code="TG120",
        span=span,
        found=f"{ENDLESS_LIMIT} iterations, of which each goes on; an exception under a traced condition does not end "
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
) -> None:
    state = _State(names, get_state, set_state, most)
    span = user_span()

    def condition() -> Value:
        before = [leaf for value in state.get() for leaf in flatten(value)[0]]
        test = truth(test_fn())
        if not isinstance(test, Tracer):
            raise _Stop
        after = [leaf for value in state.get() for leaf in flatten(value)[0]]
        if len(before) != len(after) or not all(map(_is_unchanged, before, after)):
            raise _BindingTest
        return test.value

    def emit(inits: list[Value], blocks: list[Block], types: list[ArrayType]) -> Operation:
        return Operation("while", list(inits), {}, blocks, list(types), span)

    def body() -> None:
        with _faults():
            body_fn()

    try:
        _stage_loop(state, lambda: [([], condition), ([], body)], emit, None)
    except _BindingTest:
        _stage_binding_while(test_fn, body_fn, get_state, set_state, names)


def _is_unchanged(before: Any, after: Any) -> bool:
    return before is after or (isinstance(before, Undefined) and isinstance(after, Undefined))


class _BindingTest(Exception):
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

    _stage_while(lambda: goes_on[0], body, lambda: (*get_state(), goes_on[0]), set_all, (*names, "tg_goes_on"))
