"""How arrays and lists that a loop binds anew change their lengths from one iteration to the next.

The loop carries the content, as large as it ever is, and the lengths. Where these change by the same number in every
iteration, they are sums of the number of the iteration. Previous: lists.py; next: loop_state.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tracegrad.capture.axes import Axis
from tracegrad.capture.context import RestageError, Signal, current
from tracegrad.capture.lengths import known_distance
from tracegrad.capture.lists import (
    CapturedList,
    Kind,
    RecordKind,
    RecordList,
    StackedList,
    has_content,
    join_kinds,
    kind_of,
    list_of_records,
    list_of_rows,
    record_list,
    rows_in,
    stacked_list,
)
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sharing import share
from tracegrad.capture.sizes import as_dim, as_size, decide
from tracegrad.capture.state import flatten
from tracegrad.capture.tracer import Tracer, asarray, make_weak
from tracegrad.ir.types import Dim, dim_evaluate

#: a loop whose body cannot be staged is unrolled up to this many iterations
UNROLL_LIMIT = 128
#: shorter loops are unrolled rather than to make arrays of numbers that Python's lists and tuples hold
FEW_TRIPS = 8


class Lengths:
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


class ListLengths(Lengths):
    """How a list that a loop binds anew changes its length, of numbers or tuples of them: the loop carries the arrays
    of its items.

    Attributes:
        kind: of the items.
        before: the list before the loop.
    """

    before: Any

    def __init__(self, kind: Kind, capacity: Dim, starts: dict[int, Dim], steps: dict[int, int]) -> None:
        super().__init__((capacity,), (0,), starts, steps)
        self.kind = kind

    def start(self, value: Any) -> Any:
        """Return what the list is before the loop."""
        self.before = value
        return self.lay_out(value)

    def lay_out(self, values: Any) -> Any:
        """Return a list in the form in which the loop carries it."""
        parts = [Lengths.lay_out(self, part) for part in rows_in(values, self.kind)]
        if isinstance(values, StackedList):
            for part, column in zip(parts, values.parts(), strict=True):
                share(part.content._storage, column.buffer.root._storage)
        made: StackedList
        if isinstance(self.kind, RecordKind):
            made = list_of_records(parts, self.kind, [False] * len(parts))
        else:
            made = list_of_rows(parts[0], self.kind, keeps=False)
        if not isinstance(made.length, Tracer):
            made.length = make_weak(asarray(made.length))
        return made


class Variable(NamedTuple):
    """What is known of the length of a variable of a loop, where its body ends.

    Attributes:
        position: among the variables.
        is_slot: it is an item or attribute, and not a name.
        lengths: how its length changes; None when it does not, as far as is known.
        number: of the iteration, from 0.
        begun: what a list held where the iteration started.
    """

    position: int
    label: str
    is_slot: bool
    lengths: Lengths | None
    number: Any
    begun: list[Any] | None


class Lengthen(Signal):
    """The body gives an array or list another length than it began with: capture the loop again, as one that varies."""

    def __init__(self, position: int, lengths: Lengths) -> None:
        self.position, self.lengths = position, lengths


def settle_lengths(variable: Variable, before: Any, after: Any, trips: Dim | None) -> Any:
    """Return an array or list that the body binds as one of the lengths that the loop carries.

    Raises:
        Lengthen: it needs another description.
    """
    if isinstance(before, CapturedList) and isinstance(after, CapturedList):
        return _settle_list(variable, before, after, trips)
    lengths, label = variable.lengths, variable.label
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
        if variable.is_slot:
            raise RestageError(f"{label!r} changes its length")
        starts = {k: old[k] for k in axes}
        steps = {
            k: step for k in axes if k not in ragged and trips is not None and isinstance(step := new[k] - old[k], int)
        }
        shape = tuple(d + (trips or 0) * steps[k] if steps.get(k, 0) > 0 else d for k, d in enumerate(old))
        if any(k not in steps and decide(new[k] - old[k], ">") for k in axes):
            raise RestageError(f"{label!r} grows in a loop whose length is not known")
        raise Lengthen(variable.position, Lengths(shape, axes, starts, steps))
    assert isinstance(before, Ragged)
    array = after if isinstance(after, Ragged) else Ragged(after, {})
    more = tuple(k for k in range(array.ndim) if k not in lengths.axes and (k in array.axes or new[k] != old[k]))
    wrong = tuple(
        k
        for k, step in lengths.steps.items()
        if not array.has_length(k, as_size(lengths.starts[k]) + (variable.number + 1) * step)
    )
    if any(lengths.steps[k] > 0 for k in wrong):
        raise RestageError(f"{label!r} grows by different numbers of elements")
    if more or wrong:
        starts = {**lengths.starts, **{k: old[k] for k in more}}
        steps = {k: step for k, step in lengths.steps.items() if k not in wrong}
        raise Lengthen(variable.position, Lengths(lengths.shape, (*lengths.axes, *more), starts, steps))
    return lengths.lay_out(array)


def _settle_list(variable: Variable, before: Any, after: Any, trips: Dim | None) -> Any:
    """Do the same for a list; it stays what it is where the loop carries it otherwise."""
    lengths, label = variable.lengths, variable.label
    if not isinstance(lengths, ListLengths):
        found = None if after is before or variable.is_slot else _list_lengths(before, after, trips, label)
        if found is not None:
            raise Lengthen(variable.position, found)
        return after
    assert variable.begun is not None
    if not has_content(before, variable.begun) or _has_changed(lengths.before):
        raise RestageError(f"{label!r} is changed in place, and bound to another list")
    kind = _common_kind(lengths.kind, after)
    if kind is None:
        raise RestageError(f"the items of {label!r} change their type")
    step = lengths.steps.get(0)
    if step is not None and not _has_length(after, as_size(lengths.starts[0]) + (variable.number + 1) * step):
        if step > 0 or not _is_long(trips, after, False):
            raise RestageError(f"{label!r} changes by different numbers of items")
        raise Lengthen(variable.position, ListLengths(kind, lengths.shape[0], {}, {}))
    if kind != lengths.kind:
        raise Lengthen(variable.position, ListLengths(kind, lengths.shape[0], lengths.starts, lengths.steps))
    return lengths.lay_out(after)


def _list_lengths(before: Any, after: Any, trips: Dim | None, label: str) -> ListLengths | None:
    """Return how a loop carries a list that an iteration binds anew; None where it carries the items one by one."""
    if not isinstance(_length_of(before), Tracer) and not _differ(before, after):
        return None
    kind = _common_kind(None, before, after)
    old, new = _room_of(before), _room_of(after)
    start, end = _length_of(before), _length_of(after)
    step = known_distance(end, start)
    is_even = trips is not None and isinstance(step, int) and not isinstance(start, Tracer)
    if kind is None or not _is_long(trips, after, is_even):
        return None
    first = as_dim(start)
    if is_even and isinstance(step, int) and trips is not None and first is not None:
        return ListLengths(kind, first + trips * step if step > 0 else old, {0: first}, {0: step})
    if decide(new - old, ">"):
        raise RestageError(f"{label!r} grows in a loop by different numbers of items")
    return ListLengths(kind, old, {}, {})


def _is_long(trips: Dim | None, after: Any, is_even: bool) -> bool:
    """Return whether a loop that binds a list anew is not better unrolled: the lengths are known then, unless the data
    decide about them."""
    if trips is None:
        return True
    limit = FEW_TRIPS if is_even or _depends_on_data(after) else UNROLL_LIMIT
    return dim_evaluate(trips, current().sizes) > limit


def _depends_on_data(values: CapturedList) -> bool:
    """Return whether more than the index of the loop decides about the length of a list."""
    length = _length_of(values)
    waiting = [length.value] if isinstance(length, Tracer) else []
    while waiting:
        made = waiting.pop().producer
        if made is not None:
            if made.blocks or any(v.dtype.kind == "f" for v in made.operands):
                return True
            waiting.extend(made.operands)
    return False


def _length_of(values: CapturedList) -> Any:
    return values.length if isinstance(values, StackedList) else len(values)


def _room_of(values: CapturedList) -> Dim:
    """Return for how many items a list has room."""
    return values.capacity if isinstance(values, StackedList) else len(values)


def _differ(before: Any, after: Any) -> bool:
    (leaves, tree), (others, other) = flatten(before), flatten(after)
    if tree != other:
        return True
    return any(asarray(a).type.shape != asarray(b).type.shape for a, b in zip(leaves, others, strict=True))


def _has_length(values: CapturedList, length: Any) -> bool:
    """Return whether a list is surely of a length."""
    return known_distance(_length_of(values), length) == 0


def _common_kind(kind: Kind | None, *lists: CapturedList) -> Kind | None:
    """Return the kind of items of lists, and of another kind; None when they are no numbers or tuples of numbers."""
    try:
        found = join_kinds([*([] if kind is None else [kind]), *map(kind_of, lists)])
    except RestageError:
        return None
    return found if not found.is_mutable and not found.maybe else None


def _has_changed(values: CapturedList) -> bool:
    """Return whether the body has changed a list from before the loop."""
    frame = current().frame
    return id(values) in frame.lists or any(container == id(values) for container, _, _ in frame.slots)


def finish_lengths(array: Ragged | StackedList, lengths: Lengths, trips: Dim) -> Any:
    """Return what an array or list is after a loop of known length: of a fixed shape if its lengths change evenly."""
    if isinstance(array, StackedList):
        if not lengths.steps:
            return array
        count = lengths.starts[0] + trips * lengths.steps[0]
        axis = {0: Axis(as_size(count))}
        shapes = [(count, *column.buffer.type.shape[1:]) for column in array.parts()]
        rows = [Ragged(c.buffer, axis).fixed(shape) for c, shape in zip(array.parts(), shapes, strict=True)]
        if isinstance(array, RecordList):
            return record_list(rows, array.kind, as_size(count), [False] * len(rows))
        return stacked_list(rows[0], array.kind, as_size(count))
    axes = {
        k: Axis(as_size(lengths.starts[k] + trips * lengths.steps[k])) if k in lengths.steps else axis
        for k, axis in array.axes.items()
    }
    if set(axes) != set(lengths.steps):
        return Ragged(array.content, axes)
    shape = [lengths.starts[k] + trips * lengths.steps[k] if k in axes else d for k, d in enumerate(lengths.shape)]
    return Ragged(array.content, axes).fixed(tuple(shape))
