"""What the code of a function that stays a call, or is differentiated inside, leaves in Python objects outside of it.

Such a function is captured by itself. Where it runs once, what it stores is stored again after the call; all else is
refused, with the place of the store. Previous: entry.py; next: functions.py.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tracegrad.capture.context import Frame, Storage, current
from tracegrad.capture.lists import restore, snapshot
from tracegrad.capture.sharing import sources
from tracegrad.capture.slots import new_list, note_list, put_slot, read_slot
from tracegrad.capture.state import flatten, is_same_object, kind_name, unflatten
from tracegrad.capture.tracer import Tracer, from_value
from tracegrad.capture.trees import nodes
from tracegrad.errors import Span
from tracegrad.ir.core import Value

#: what gives a stored value, from the results of a call
_Kept = Callable[[Sequence[Value]], Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A slot that holds another object than before, or a list that changed its length or order.

    Attributes:
        kind: "item", "attr", "cell", or "list" for the whole of a list or deque, whose items are `before` and `after`.
        span: the store.
    """

    container: Any
    kind: str
    key: Any
    before: Any
    after: Any
    span: Span | None

    @property
    def label(self) -> str:
        """What is changed, in words."""
        if self.kind == "cell":
            return f"the variable {self.key} of a function around it"
        if self.kind == "list":
            return f"the length or order of a {kind_name(type(self.container))} from outside"
        kind = "attribute" if self.kind == "attr" else "item"
        if self.key == "cell_contents" or (isinstance(self.container, dict) and "__builtins__" in self.container):
            return "a global or a variable of a function around it"
        return f"the {kind} {self.key} of a {kind_name(type(self.container))} from outside"


def changes_of(frame: Frame) -> list[Change]:
    """Return what the code in a frame has changed outside of it, while that is not undone."""
    found = []
    for values, before in frame.lists.values():
        after = snapshot(values)
        if type(after) is not type(before) or len(after) != len(before) or any(map(operator.is_not, after, before)):
            found.append(Change(values, "list", None, before, after, frame.places.get((id(values), "list", None))))
    for slot, (container, _, before) in frame.slots.items():
        after = read_slot(container, slot[1], slot[2])
        is_moved = slot[1] == "item" and slot[0] in frame.lists
        if not is_moved and not is_same_object(before, after):
            found.append(Change(container, slot[1], slot[2], before, after, frame.places.get(slot)))
    return found


def written_in(frame: Frame) -> list[Storage]:
    """Return the arrays from outside that the code in a frame has written, while that is not undone."""
    return [storage for storage, (value, _) in frame.saved.items() if storage.value is not value]


def stored_at(frame: Frame, values: Sequence[Any]) -> Span | None:
    """Return where the code in a frame stores into containers that it got as arguments."""
    made = {id(node.origin) for value in values for (node,) in nodes(flatten(value)[1])}
    return next((at for what, at in frame.places.items() if type(what) is tuple and what[0] in made), None)


def follow(
    frame: Frame, results: list[Value] | None, refuse: Callable[[Change], NoReturn], held: Sequence[Any] | None = None
) -> Callable[[Sequence[Value]], None]:
    """Return what stores again, after a call that happens once, what the code in a frame has stored outside.

    Args:
        results: of the function; the numbers that it stores are added. None where there can be no more.
        refuse: raises the error for a change that cannot be followed.
        held: leaves of the arguments and of what is returned. Where they are given, an array that the code has made and
            stores may be followed too, if it stands in no other place.
    """
    plans: list[tuple[Change, list[_Kept]]] = []
    changes = changes_of(frame)
    places = Counter(
        leaf.root._storage
        for leaf in (*(held or ()), *(leaf for change in changes for leaf in flatten(change.after)[0]))
        if isinstance(leaf, Tracer)
    )

    def is_followed(leaf: Tracer) -> bool:
        root = leaf.root._storage
        alone = places[root] == 1 and all(storage is root for storage, _ in sources(root))
        return not leaf.ndim or (held is not None and alone)

    for change in changes:
        if change.kind != "list":
            plans.append((change, [_keep(change.after, change, results, refuse, is_followed)]))
        elif isinstance(change.before, tuple) or isinstance(change.after, tuple):
            refuse(change)  # its items are rows of an array
        else:
            known = {id(item) for item in change.before}
            kept = [
                (lambda _, v=v: v) if id(v) in known else _keep(v, change, results, refuse, is_followed)
                for v in change.after
            ]
            plans.append((change, kept))

    def store(values: Sequence[Value]) -> None:
        for change, kept in plans:
            found = [make(values) for make in kept]
            if change.kind == "list":
                note_list(change.container)
                restore(change.container, found)
            else:
                put_slot(change.container, change.kind, change.key, found[0])

    return store


def _keep(
    value: Any,
    change: Change,
    results: list[Value] | None,
    refuse: Callable[[Change], NoReturn],
    is_followed: Callable[[Tracer], bool],
) -> _Kept:
    """Return what gives a stored value outside of the function, from the results of the call."""
    leaves, tree = flatten(value)
    if not any(map(_is_inside, leaves)):
        return lambda _: value
    if results is None or tree.kind not in (None, tuple) or any(_is_inside(x) and not is_followed(x) for x in leaves):
        refuse(change)
    places = {}
    for number, leaf in enumerate(leaves):
        if _is_inside(leaf):
            places[number] = len(results)
            results.append(leaf.value)

    def make(values: Sequence[Value]) -> Any:
        own = [from_value(values[places[n]], weak=x.weak) if n in places else x for n, x in enumerate(leaves)]
        return unflatten(tree, own, new_list)

    return make


def _is_inside(leaf: Any) -> bool:
    """Return whether a value belongs to the code in the innermost frame."""
    if not isinstance(leaf, Tracer):
        return False
    storage = leaf.root._storage
    return storage.depth >= current().depth and (storage.concrete is None or storage.value is not None)
