"""The body of a staged loop, captured until it settles.

A loop body is captured once, with a stand-in for each value that the body rebinds. When the values after the body have
another structure or type than before, the loop is captured again: with a promoted start value, after peeling its first
iteration, or unrolled. Everything a failed attempt has changed in Python objects is undone.
Previous: loop_links.py; next: exits.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from tracegrad import ops
from tracegrad.capture.branches import do_nothing, if_stmt
from tracegrad.capture.chosen import Chosen, Conflict, Options, is_equal, merge_options
from tracegrad.capture.context import RestageError, Signal, Storage, current, user_span
from tracegrad.capture.joins import (
    branch_error,
    content_of,
    has_effect,
    has_none_beside,
    is_choice,
    is_fault,
    merged,
    options_of,
    user_name,
)
from tracegrad.capture.lists import StackedList, count_before, count_of, items_of, sample
from tracegrad.capture.loop_lengths import UNROLL_LIMIT, Lengthen, Lengths, finish_lengths, settle_lengths
from tracegrad.capture.loop_links import (
    find_unchanged,
    hide_objects,
    is_true,
    link_after,
    link_rotating,
    show_objects,
)
from tracegrad.capture.loop_state import (
    Growth,
    LoopState,
    StandIns,
    Wider,
    is_carryable,
    open_variable,
)
from tracegrad.capture.memory import as_one_of, follows, has_order_of
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sharing import Part, Sharing, is_same_view
from tracegrad.capture.sizes import decide
from tracegrad.capture.slots import cells_of, drop_kept_lists, new_list, undo
from tracegrad.capture.state import OrNone, Undefined, Unsure, unflatten
from tracegrad.capture.tracer import (
    MaybeNone,
    Tracer,
    asarray,
    cast_to,
    common_zero_dim,
    describe,
    from_value,
    result_dtype,
    stage,
)
from tracegrad.capture.trees import Tree
from tracegrad.errors import CaptureError, TracegradError
from tracegrad.ir.core import Block, Operation, Value, free_values, substitute
from tracegrad.ir.types import BOOL, I64, ArrayType, Dim, dim_evaluate

#: a loop over Python values alone is run at capture up to this many iterations
_NATIVE_LIMIT = 4096

#: what to do about a list that is another one in each iteration
_APPEND = "let a list that grows stay one list: `values.append(v)` or `values += [v]`, not `values = values + [v]`"

_Found = TypeVar("_Found")


class _Retype(Signal):
    """The body gives a carried value another type than it started with: capture it again with this one."""

    def __init__(self, key: tuple[int, int], kind: ArrayType, weak: bool) -> None:
        self.key, self.kind, self.weak = key, kind, weak


class _Again(Signal):
    """Capture the loop again: more is known about what its body writes."""


class _Unforeseen(Signal):
    """The body does not write what it wrote when it was captured here before."""


class Fault(Signal):
    """The body of a loop that may not run at all raises an error whenever it runs."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextmanager
def faults() -> Iterator[None]:
    """Around the body of a loop that may not run at all."""
    try:
        yield
    except Exception as error:
        if is_fault(error):
            raise Fault(error) from error
        raise


def never_runs(goes_on: Any, error: Exception, body: Callable[[], None], *state: Any) -> None:
    """Stage a loop whose body raises an error: it raises when the test holds at first."""

    def run() -> None:
        body()  # what it does before is seen
        raise error

    if_stmt(goes_on, run, do_nothing, *state)


def attempt(fn: Callable[[], _Found]) -> _Found | None:
    """Return what `fn` finds in a loop body that is captured for it only; None where that cannot be staged."""
    capture = current()
    mark, noted = len(capture.changes), len(capture.events)
    with capture.open("loop", Block()) as frame:
        try:
            found = fn()
        except Exception:
            found = None
        finally:
            capture.leave_loop(frame)
            undo(frame)
    capture.undo(mark)
    del capture.events[noted:]
    return found


class Stop(Signal):
    """A staged loop turned out to run over Python values alone: run it natively."""


def stage_loop(
    state: LoopState,
    parts: Callable[[], list[tuple[list[Value], Callable[[], Value | None]]]],
    emit: Callable[[list[Value], list[Block], list[ArrayType]], Operation],
    trips: Dim | None,
) -> None:
    """Capture the blocks of a loop until the types of its carries are stable, then emit its operation.

    `parts()` gives, per block of the operation, its leading parameters and a function that runs it and returns what the
    block yields first (the condition), or None for the body.
    """
    if state.foresee():
        try:
            _settle_loop(state, parts, emit, trips)
            return
        except (_Unforeseen, RestageError, CaptureError):
            state.mistrust()
    _settle_loop(state, parts, emit, trips)
    state.remember()


def _settle_loop(
    state: LoopState,
    parts: Callable[[], list[tuple[list[Value], Callable[[], Value | None]]]],
    emit: Callable[[list[Value], list[Block], list[ArrayType]], Operation],
    trips: Dim | None,
) -> None:
    """Capture the blocks until the types are stable, and emit the operation."""
    overrides: dict[tuple[int, int], tuple[ArrayType, bool]] = {}
    kept: set[int] = set()
    unordered: set[tuple[int, int]] = set()
    mixed: set[tuple[int, int]] = set()
    capture = current()
    mark, noted = len(capture.changes), len(capture.events)
    prepared = mark
    for _ in range(12):
        entry = state.get()
        try:
            state.prepare_lists(trips)
            prepared = len(capture.changes)
            entry = state.get()
            _try_loop(state, entry, parts, emit, overrides, kept, unordered, mixed, trips)
            return
        except _Retype as retype:
            overrides[retype.key] = (retype.kind, retype.weak)
            state.set(entry)
        except Lengthen as lengthen:
            state.lengths[lengthen.position] = lengthen.lengths
            kept.discard(lengthen.position)
            state.set(entry)
        except _Again:
            state.set([*entry, *state.read_slots(len(entry))])
        except BaseException as error:
            state.set(entry)
            state.close_opened()
            state.restore_lists()
            prepared = mark
            if not isinstance(error, Wider) or all(error.growth is not growth for growth in state.growing):
                capture.undo(mark)
                del capture.events[noted:]
                raise
        finally:
            state.release_lists()
        capture.undo(prepared)  # the lists stay arrays, with copies of their items
        del capture.events[noted:]
    raise RestageError("the types of the values that the loop carries do not settle")


def _try_loop(
    state: LoopState,
    entry: list[Any],
    parts: Callable[[], list[tuple[list[Value], Callable[[], Value | None]]]],
    emit: Callable[[list[Value], list[Block], list[ArrayType]], Operation],
    overrides: dict[tuple[int, int], tuple[ArrayType, bool]],
    kept: set[int],
    unordered: set[tuple[int, int]],
    mixed: set[tuple[int, int]],
    trips: Dim | None,
) -> None:
    capture = current()
    captured = []
    assumed: set[Storage] = set()
    unentered: set[Storage] = set()
    frozen: set[Storage] = set()
    unbound: set[str] = set()
    unwritten = set(state.foreseen)
    writes: list[Callable[[], Any]] = []
    rewritten = False
    for position, value in enumerate(entry):
        if isinstance(value, Ragged) and position not in state.lengths:
            state.lengths[position] = Lengths(value.content.type.shape, tuple(value.axes), {}, {})
    kept |= {position for position, value in enumerate(entry) if state.stays(position, value)}
    entry = [
        state.lengths[position].start(value) if position in state.lengths else value
        for position, value in enumerate(entry)
    ]
    for leading, run in parts():
        block = Block(list(leading))
        hidden: list[tuple[Any, str, Any, Any]] = []
        with capture.open("loop", block, cells_of(state.get_names)) as frame:
            frame.unrolls = trips is not None and dim_evaluate(trips, capture.sizes) <= UNROLL_LIMIT
            try:
                stand_ins = StandIns(entry, overrides, kept, unordered, mixed, state)
                state.set(stand_ins.values)
                state.note_begin()
                frame.slots.clear()
                hidden = hide_objects(state, stand_ins)
                condition = run()
                exit_trees = []
                for position, value in enumerate(state.get()):
                    value = merged(value, capture.depth - 1)
                    if position < len(entry):
                        value = settle_lengths(state.variable(position), stand_ins.values[position], value, trips)
                        if state.is_slot(position):
                            state.note_step(position, stand_ins.values[position], value)
                    if stand_ins.has_grown(position, value):
                        kept.add(position)
                        raise _Again
                    start = entry[position] if position < len(entry) else value
                    exit_trees.append(open_variable(value, position in kept, start))
                exit_values: dict[tuple[int, int], Value] = {}
                for position, (leaves, _) in enumerate(exit_trees):
                    for index, leaf in enumerate(leaves):
                        if is_carryable(leaf):
                            exit_values[position, index] = content_of(asarray(leaf))
            except BaseException:
                capture.leave_loop(frame)
                undo(frame)
                show_objects(hidden)
                raise
        entered = capture.leave_loop(frame)
        grown = [
            Growth(v, count_of(v) - (base := count_before(b)), items_of(v), frame.peaks.get(id(v), base) - base)
            for v, b in frame.lists.values()
            if not _rolls(v, b)
        ]
        for values, before in frame.lists.values():
            if _rolls(values, before):  # its items are variables of the loop
                for number, item in enumerate(before):
                    frame.slots.setdefault((id(values), "item", number), (values, item, item))
        drop_kept_lists(frame)
        undo(frame)
        show_objects(hidden)
        unwritten.difference_update(frame.slots)
        new_lists, new_slots = state.add_lists(grown, trips), state.add_slots(frame)
        if new_lists or new_slots:
            raise _Again
        if state.is_open and condition is None:
            raise Stop
        known = dict(state.places)
        unchanged = find_unchanged(state, block, frame, stand_ins, exit_trees)
        if not unchanged <= kept or known != state.places:
            kept |= unchanged
            raise _Again
        captured.append((block, stand_ins, condition, exit_trees, exit_values, entered))
        assumed |= frame.assumed
        unentered |= frame.unentered
        frozen |= set(frame.frozen)
        rewritten |= frame.rewritten
        writes += frame.writes
        unbound |= frame.unbound
    if unwritten:
        raise _Unforeseen
    _, stand_ins, _, exit_trees, exit_values, _ = captured[-1]
    sharing = Sharing(
        _leaves(stand_ins.trees),
        _leaves(exit_trees),
        [Part(block, ins.params, ins.initial, entered) for block, ins, _, _, _, entered in captured],
        frozen,
        rewritten,
    )
    overwritten = sharing.changed_outside()
    if not unentered.isdisjoint(overwritten):
        for storage in overwritten:
            storage.in_place = True
        raise _Again
    changed = assumed & overwritten
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
    noted = False
    for position, sides in enumerate(zip(stand_ins.trees, exit_trees, strict=True)):
        (before, tree), (after, after_tree) = sides
        if _is_undefined(before, tree):
            bound = not _is_undefined(after, after_tree)
            if bound and (state.is_slot(position) or after_tree.kind is Unsure or state.label(position) in unbound):
                state.note_unsure(position, after, after_tree)
                noted = True
            continue
        if tree.kind is Unsure and after_tree.kind is not Unsure and position not in state.unsure:
            state.note_unsure(position, after, after_tree)
            noted = True
            continue
        if position not in state.maybe_none and _settles_as_maybe_none(before, tree, after, after_tree, trips):
            state.note_maybe_none(position, *((after, after_tree) if tree.kind is None else (before, tree)))
            noted = True
            continue
        if _settles_as_chosen(before, tree, after, after_tree, trips):
            options = merge_options(options_of(before, tree), options_of(after, after_tree))
            if len(options) > 1 and tuple(state.chosen.get(position, ())) != options:
                found = describe(options[0]), describe(options[1])
                state.chosen[position] = Options(
                    options, branch_error(state.label(position), "values", *found, user_span())
                )
                noted = True
                continue
        if _may_settle_inside(tree, after_tree, trips) and state.note_inside(position, list(sides)):
            noted = True
            continue
        if noted:  # all else is judged once this is known
            continue
        if tree != after_tree:
            lists = all(isinstance(side.kind, type) and issubclass(side.kind, list) for side in (tree, after_tree))
            help = [_APPEND] if lists else []
            if after_tree.kind is None and type(after[0]) is Conflict and isinstance(after[0].cause, TracegradError):
                help = [after[0].cause.help]
            raise RestageError(f"{state.label(position)!r} changes its structure", *help)
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            key = (position, index)
            stand_in = stand_ins.params.get(key)
            if stand_in is None:
                if position in kept and tree.origin is not None and tree.origin is after_tree.origin:
                    continue
                if new is old or is_same_view(new, old):
                    continue
                if isinstance(new, Tracer) or type(new) is not type(old) or not is_equal(new, old):
                    raise RestageError(f"{state.label(position)!r} changes from {describe(old)} to {describe(new)}")
                continue
            if not is_carryable(new):
                raise RestageError(f"{state.label(position)!r} changes from {describe(old)} to {describe(new)}")
            param = stand_in._storage
            if new is stand_in and exit_values[key] is stand_ins.initial[key]:
                continue
            _check_type(key, param.type, stand_in.weak, asarray(new), old)
            if key not in unordered and not has_order_of(asarray(new), stand_in):
                unordered.add(key)
                raise _Again
            if key in sharing.written and key not in mixed and stand_in.zero_dim != asarray(new).zero_dim:
                mixed.add(key)
                raise _Again
            param.stands |= follows(asarray(new))
            carries.append((key, param.type))
    if noted:
        raise _Again
    _emit_loop(state, entry, captured, carries, emit, trips, sharing)
    for write in writes:
        capture.write_out(write)


def _rolls(values: Any, before: Any) -> bool:
    """Return whether items of a list or deque have changed their places, and not its length."""
    if isinstance(values, StackedList) or id(values) in current().varying:
        return False
    return isinstance(before, list) and len(values) == len(before)


def _settles_as_maybe_none(
    before: list[Any], tree: Tree, after: list[Any], after_tree: Tree, trips: Dim | None
) -> bool:
    """Return whether a variable is None where some iterations of a loop start, and a value where others do."""
    is_none = after_tree.kind is None and after[0] is None
    if tree.kind in (MaybeNone, OrNone):
        return after_tree.kind not in (MaybeNone, OrNone) and (is_none or has_none_beside(after, after_tree))
    if after_tree.kind in (MaybeNone, OrNone) and has_none_beside(before, tree):
        return True
    if tree.kind is not None or before[0] is not None:
        return False
    # a loop of known length that binds a number in each iteration runs the first one by itself
    return after_tree.kind in (MaybeNone, OrNone) or (trips is None and has_none_beside(after, after_tree))


def _may_settle_inside(tree: Tree, after_tree: Tree, trips: Dim | None) -> bool:
    """Return whether a variable may have None, or another Python value, inside where some iterations of a loop start,
    and a number, or one Python value, where others do."""
    if tree.kind in (None, MaybeNone, Chosen):
        return False
    # a loop of known length that puts such a value there in each iteration runs the first one by itself
    return trips is None or any(map(_is_unsettled, (tree, after_tree)))


def _is_unsettled(tree: Tree) -> bool:
    return tree.kind in (MaybeNone, Chosen) or any(map(_is_unsettled, tree.children))


def _settles_as_chosen(before: list[Any], tree: Tree, after: list[Any], after_tree: Tree, trips: Dim | None) -> bool:
    """Return whether a loop carries which of several Python values a variable is."""
    if not is_choice((before, tree)) or not is_choice((after, after_tree)):
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
    state: LoopState,
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
    bound = [
        position
        for position, (leaves, tree) in enumerate(stand_ins.trees)
        if _is_undefined(leaves, tree) and not _is_undefined(*exit_trees[position])
    ]
    late = [
        ((position, index), exit_values[position, index].array_type)
        for position in bound
        for index in range(len(exit_trees[position][0]))
        if (position, index) in exit_values
    ]
    written = [(s, before) for s, before, param, after in body_entered if after is not param]
    unsure = trips is None and not state.runs and any(user_name(state.label(p)) for p in bound)
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
    if (trips is None or (isinstance(trips, int) and trips <= _NATIVE_LIMIT)) and not written and not state.growing:
        outer = [*operation.operands, *(v for b in blocks for v in free_values(b))]
        if all(v.producer is not None and v.producer.op in ("constant", "undefined") for v in outer):
            if not any(has_effect(b, ("print",)) for b in blocks):
                raise Stop
    results = operation.results
    capture.builder.block.operations.append(operation)

    state.finish_lists(trips)

    # the state after the loop
    runs = state.runs if trips is None else not decide(trips, "<=")
    after: dict[tuple[int, int], Any] = {}
    made: dict[int, Tracer] = {}
    fresh: dict[tuple[int, int], Tracer] = {}
    overwritten: list[tuple[Tracer, Value]] = []
    position = 0
    for key, _ in [*carries, *late]:
        result, leaf = results[position], exit_leaves[key]
        result.name = result.name or user_name(state.label(key[0]))
        position += 1
        settled = sharing.settled(key, trips, runs)
        if key in rotating:
            after[key] = as_one_of(from_value(result), [stand_ins.params[key]])
            after[key].zero_dim = stand_ins.params[key].zero_dim
        elif settled is not None:
            after[key] = settled
            path = sharing.cycle(key)
            if not sharing.written.isdisjoint(path):
                overwritten.append((settled, result))
        else:
            new = asarray(leaf)
            weak = new.weak and (key not in stand_ins.params or stand_ins.params[key].weak)
            if not runs or id(leaf) not in made:  # without an iteration two names are for what they were before
                made[id(leaf)] = as_one_of(from_value(result, weak=weak), [stand_ins.params.get(key, new)])
                if not new.ndim:
                    start = [entry_leaves[key]] if not runs and key in stand_ins.params else []
                    made[id(leaf)].zero_dim = common_zero_dim([new, *start])
                if new.is_array:
                    fresh[key] = made[id(leaf)]
            after[key] = made[id(leaf)]
    with capture.copying(not sharing.rewritten):
        for (storage, before), result in zip(written, results[position:], strict=False):
            result.name = before.name
            capture.write(storage, result)
        for old, result in overwritten:
            old.assign(result)
    if rotating:
        link_rotating(rotating, after, entry_leaves, sharing, results[len(carries) + len(late) + len(written)])
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
        is_late = _is_undefined(leaves, tree)
        if is_late:
            leaves, tree = exit_trees[index]
        elif tree.kind is not None and all((index, i) not in after for i in range(len(leaves))):
            final.append(entry[index])
            continue
        value = unflatten(tree, [after.get((index, i), leaf) for i, leaf in enumerate(leaves)], new_list)
        if isinstance(value, Ragged | StackedList) and index in state.lengths and trips is not None:
            value = finish_lengths(value, state.lengths[index], trips)
        if unsure and is_late and not isinstance(value, Undefined | Unsure) and user_name(state.label(index)):
            value = Unsure(state.label(index), value, from_value(results[-1], weak=True))
        if runs and isinstance(value, Unsure) and is_true(exit_values.get((index, len(leaves) - 1))):
            value = value.value  # every iteration leaves it there
        final.append(value)
    state.set(final)  # what follows opens objects that the loop has changed
    state.set(link_after(state, final, captured[-1], runs, trips))


def _is_undefined(leaves: list[Any], tree: Tree) -> bool:
    return tree.kind is None and isinstance(leaves[0], Undefined)


def _as_type(tracer: Tracer, kind: ArrayType) -> Value:
    """Return a start value in the type that the loop carries."""
    value = cast_to(tracer, kind.dtype).value
    if value.type != kind:
        value = stage(ops.broadcast_to, value, shape=kind.shape)
    return value


def _cast_value(value: Value, kind: ArrayType) -> Value:
    return value if value.dtype == kind.dtype else stage(ops.cast, value, dtype=kind.dtype)
