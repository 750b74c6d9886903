"""What names and slots are after a loop: which arrays they share, and which objects they may be.

Previous: loop_state.py; next: loop_body.py.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from tracegrad import ops
from tracegrad.capture.aliases import ALWAYS, UNDECIDED, alias_error, supersede, ways
from tracegrad.capture.aliases import link as link_objects
from tracegrad.capture.chosen import Conflict
from tracegrad.capture.context import Frame, RestageError, current
from tracegrad.capture.joins import link
from tracegrad.capture.lists import StackedList
from tracegrad.capture.loop_state import LoopState, StandIns
from tracegrad.capture.sharing import Key, Sharing
from tracegrad.capture.slots import put_slot, read_slot, set_slot
from tracegrad.capture.state import Undefined, Unsure, flatten
from tracegrad.capture.tracer import stage
from tracegrad.capture.trees import Tree, nodes, roots
from tracegrad.ir.core import Block, Value
from tracegrad.ir.types import BOOL, Dim


def find_unchanged(
    state: LoopState,
    block: Block,
    frame: Frame,
    stand_ins: StandIns,
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


def _find_places(stand_ins: StandIns, exits: list[tuple[list[Any], Tree]]) -> dict[int, int]:
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


def hide_objects(state: LoopState, stand_ins: StandIns) -> list[tuple[Any, str, Any, Any]]:
    """Make reads of the objects of variables that change places an error: other names for them are not followed."""
    hidden = []
    for old, kind, key, conflict in _conflicts(state, stand_ins):
        hidden.append((old, kind, key, read_slot(old, kind, key)))
        set_slot(old, kind, key, conflict)
    return hidden


def _conflicts(state: LoopState, stand_ins: StandIns) -> Iterator[tuple[Any, str, Any, Conflict]]:
    """Yield the slots of objects whose variables change places, with what makes reads of them an error."""
    for position in state.places:
        for _, old in stand_ins.objects[position]:
            conflict = Conflict(state.label(position), alias_error(old, "it is read under another name"))
            for kind, key in _slots_of(old):
                if not roots(flatten(read_slot(old, kind, key))[1]):
                    yield old, kind, key, conflict


def show_objects(hidden: list[tuple[Any, str, Any, Any]]) -> None:
    """Put back what `hide_objects` took away."""
    for slot in hidden:
        set_slot(*slot)


def _settle_places(state: LoopState, final: list[Any], stand_ins: StandIns, trips: Dim | None) -> None:
    """Give objects that have changed places their content after the loop, and the variables those objects.

    Where the number of iterations is not known, the variables get new ones, and the old ones cannot be used.
    """
    if not isinstance(trips, int):
        for old, kind, key, conflict in list(_conflicts(state, stand_ins)):
            put_slot(old, kind, key, conflict)
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
                    put_slot(old, kind, key, value)
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


def _find_shared(
    ends: dict[tuple[int, int], Any], stand_ins: StandIns, block: Block
) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    """Return which variables may have one object after a loop that the body has made, in whichever iteration.

    Two share one where both get it in one iteration, or where they get what others had that share one.

    Args:
        ends: the variable and the number of each object in it -> the object at the end of the body.
    """
    owners: dict[int, list[tuple[int, int]]] = {}
    for position, objects in stand_ins.objects.items():
        own = [key for key in ends if key[0] == position]
        for number, (made, _) in enumerate(objects):
            owners[id(made)] = [own[number]] if len(own) == len(objects) else own
    depth = current().depth
    fresh: dict[tuple[int, int], set[int]] = {}
    carried: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for key, end in ends.items():
        found = [one for one in (end, *(way.other for way in ways(end, block))) if current().created_depth(one) > depth]
        fresh[key] = {id(one) for one in found if id(one) not in owners}
        carried[key] = [owner for one in found for owner in owners.get(id(one), ())]
    pairs = list(itertools.combinations(ends, 2))
    shared = {pair for pair in pairs if fresh[pair[0]] & fresh[pair[1]]}
    while True:
        more = {
            (one, other)
            for one, other in pairs
            if (one, other) not in shared
            and any(a == b or (a, b) in shared or (b, a) in shared for a in carried[one] for b in carried[other])
        }
        if not more:
            return shared
        shared |= more


def link_after(state: LoopState, final: list[Any], captured: Any, runs: bool, trips: Dim | None) -> list[Any]:
    """Link lists, dicts and objects after a loop to those that they may be; return the values of the variables."""
    block, stand_ins, _, exits, _, _ = captured
    capture = current()
    made: dict[int, list[Any]] = {}
    ends: dict[tuple[int, int], Any] = {}
    results: dict[tuple[int, int], Any] = {}
    if state.places:
        _settle_places(state, final, stand_ins, trips)
    for position, (_, after) in enumerate(exits[: len(final)]):
        if position in state.places:
            continue
        value, (start, before) = final[position], stand_ins.trees[position]
        origin = after.origin
        if origin is not None and origin is value:
            continue
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
                    link_objects(node.origin, other, UNDECIDED, capture.frame.block)
            for other in made.setdefault(id(end.origin), []):
                link_objects(node.origin, other, ALWAYS if runs else UNDECIDED, capture.frame.block)
            made[id(end.origin)].append(node.origin)
            key = (position, sum(place == position for place, _ in ends))
            ends[key], results[key] = end.origin, node.origin
        if not runs:
            for node, old in nodes(flatten(value)[1], before):
                if node.origin is not old.origin:
                    link_objects(node.origin, old.origin, UNDECIDED, capture.frame.block)
    for one, other in _find_shared(ends, stand_ins, block) if len(ends) > 1 else ():
        if ends[one] is not ends[other] and type(results[one]) is type(results[other]):
            link_objects(results[one], results[other], UNDECIDED, capture.frame.block)
    return final


def is_true(value: Value | None) -> bool:
    """Return whether a value is the constant True."""
    return (
        value is not None
        and value.producer is not None
        and (value.producer.op == "constant" and value.dtype == BOOL and bool(value.producer.attrs["value"]))
    )


def link_rotating(
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
