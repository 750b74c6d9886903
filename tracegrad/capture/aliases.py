"""Which lists, dicts and objects are one under a condition: a choice between two is a third one here.

Reads and writes what the capture notes of them. Previous: chosen.py; next: lists.py.

`t = a if c else b` makes an object that holds the chosen items. It is *linked* to `a` under `c` and to `b` under its
opposite; who writes into one of them follows the links (branches.py). A link holds where its condition is visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tracegrad import ops
from tracegrad.capture.context import current, user_span
from tracegrad.capture.tracer import stage
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.core import Block, Value
from tracegrad.ir.types import BOOL, ArrayType

#: conditions with the outcome that they must have
Conditions = frozenset[tuple[Value, bool]]
ALWAYS: Conditions = frozenset()
#: the conditions are not kept, since a staged loop has chosen
UNDECIDED: Conditions = frozenset([(Value(ArrayType(BOOL), "undecided"), True)])
#: variables of staged loops, with the block of the body
Positions = tuple[tuple[Block, int], ...]
#: more ways from one object to others are not followed
WAYS_LIMIT = 256


class Link(NamedTuple):
    """`other` is the same object where the conditions hold.

    Attributes:
        conditions: None when they are not known.
        block: where they are visible.
        position: the variable of a staged loop that one of the two stands for, None for all others.
    """

    other: Any
    conditions: Conditions | None
    block: Block
    position: int | None = None


class Way(NamedTuple):
    """An object that another one may be, over one link or several."""

    other: Any
    conditions: Conditions | None
    positions: Positions


def link(one: Any, other: Any, conditions: Conditions | None, block: Block, position: int | None = None) -> None:
    """Note that two objects are one where conditions hold."""
    capture = current()
    for here, there in ((one, other), (other, one)):
        _, links = capture.links.get(id(here), (here, []))
        kept = [known for known in links if capture.is_open(known.block)]
        capture.links[id(here)] = here, [*kept, Link(there, conditions, block, position)]


def supersede(old: Any, new: Any) -> None:
    """Note that an object must not be written any more: another one has its content, or that of a third."""
    _, links = current().links.get(id(old), (old, []))
    current().links[id(old)] = old, [*links, Link(new, None, current().frame.block)]


def hold(made: Any, holder: Any) -> None:
    """Note that an object, and all that it may be, must not be written any more: a list has a copy of its content.

    Args:
        holder: what stands for the list.
    """
    capture = current()
    block = capture.frames[capture.created_depth(holder)].block
    for held in (made, *(way.other for way in ways(made) if way.other is not holder)):
        _, links = capture.links.get(id(held), (held, []))
        if all(known.other is not holder for known in links):
            capture.links[id(held)] = held, [*links, Link(holder, None, block)]


def is_held(made: Any) -> bool:
    """Return whether a list has a copy of the content of an object."""
    return not isinstance(made, list) and any(isinstance(way.other, list) for way in ways(made))


def ways(start: Any, closed: Block | None = None) -> list[Way]:
    """Return the other objects that an object may be.

    Args:
        closed: a block that is not open any more, in which the object was made; of what is older than the block, the
            nearest on each way.
    """
    capture = current()
    found: list[Way] = []

    def visit(node: Any, conditions: Conditions | None, positions: Positions, path: set[int]) -> None:
        for known in capture.links.get(id(node), (node, ()))[1]:
            if id(known.other) in path or not (known.block is closed or capture.is_open(known.block)):
                continue
            joined = _both(conditions, known.conditions)
            if joined is not None and any((value, not outcome) in joined for value, outcome in joined):
                continue
            through = positions if known.position is None else (*positions, (known.block, known.position))
            found.append(Way(known.other, joined, through))
            if len(found) > WAYS_LIMIT:
                raise _chosen_error(start, f"one of more than {WAYS_LIMIT}, by many choices")
            if closed is None or capture.created_depth(known.other) > capture.depth:
                visit(known.other, joined, through, path | {id(known.other)})

    if capture.links:
        visit(start, ALWAYS, (), {id(start)})
    return found


def _both(one: Conditions | None, other: Conditions | None) -> Conditions | None:
    return None if one is None or other is None else one | other


def targets(start: Any) -> Iterator[tuple[Any, list[Conditions] | None]]:
    """Yield the other objects that an object may be, with the conditions of each way to it; None where those of one are
    not kept.

    Raises:
        NeedsPythonValue: they are not known.
    """
    grouped: dict[int, tuple[Any, list[Conditions]]] = {}
    for other, conditions, positions in ways(start):
        if positions:
            current().mutated.update(positions)
        elif conditions is None:
            raise alias_error(start, "chosen in a staged loop or branch that has ended")
        else:
            grouped.setdefault(id(other), (other, []))[1].append(conditions)
    for other, found in grouped.values():
        is_undecided = ALWAYS not in found and any(known >= UNDECIDED for known in found)
        yield other, None if is_undecided else found


def holds(conditions: Conditions) -> Value:
    """Stage whether all of some conditions have their outcome."""
    builder = current().builder
    result: Value | None = None
    for value, outcome in conditions:
        literal = value if outcome else stage(ops.logical_not, value)
        result = literal if result is None else stage(ops.logical_and, result, literal)
    return builder.constant(True) if result is None else result


def any_holds(ways: list[Conditions]) -> Value:
    """Stage whether all conditions of one of several ways have their outcome."""
    result = holds(ways[0])
    for conditions in ways[1:]:
        result = stage(ops.logical_or, result, holds(conditions))
    return result


def require_single(container: Any, what: str) -> None:
    """Check that an object is surely no other one, before a change that is not followed.

    Raises:
        NeedsPythonValue: it may be another one.
    """
    _, owner = current().owners.get(id(container), (None, container))
    found = ways(owner)
    current().mutated.update(place for way in found for place in way.positions)
    if any(not way.positions for way in found):
        raise alias_error(container, what)


def alias_error(container: Any, what: str) -> NeedsPythonValue:
    """Return the error for a change of an object that may be another one."""
    if is_held(container):
        kind = type(container).__name__
        return NeedsPythonValue(
            f"a {kind} that stands in a list is changed or compared",
            code="TG136",
            span=user_span(),
            found=f"a {kind}: the list has a copy of its content, since a staged loop or branch fills it",
            help="replace the item of the list, `values[k] = {**values[k], 'x': x}` or `dataclasses.replace(values[k], "
            "x=x)`; or keep a list of numbers or arrays for each of its fields",
        )
    return _chosen_error(container, what)


def _chosen_error(container: Any, what: str) -> NeedsPythonValue:
    kind = "list" if isinstance(container, list) else type(container).__name__
    if isinstance(container, tuple):
        help = "keep a number beside that says which one it is (`best, k = row, i`), and compare that"
    else:
        help = (
            "write into each object under its own name and the condition, `if c: a.m += v` and `else: b.m += v`; keep "
            "the length of lists; or bind a copy"
        )
    return NeedsPythonValue(
        f"a {kind} that a traced condition has chosen from others, or chooses from, is changed or compared",
        code="TG136",
        span=user_span(),
        found=f"a {kind}: {what}",
        help=help,
    )
