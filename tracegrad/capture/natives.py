"""Calls of Python's own functions and methods that change objects: done now, noted, or refused in a staged region.

Called by operators.py, members.py and calls.py. Previous: protocols.py; next: operators.py.

A staged region is run once at capture, so what it changes in an object from outside would happen once and not in each
iteration, or on both sides of a branch. Items, attributes and `append` are followed (slots.py); all other changes ask
for a Python value, so that the loop around them is unrolled.
"""

from __future__ import annotations

import array
import collections
import operator
import re
import types
from collections.abc import Iterator
from typing import Any

from tracegrad.capture import branches, slots
from tracegrad.capture.aliases import require_single, ways
from tracegrad.capture.context import current, user_span
from tracegrad.capture.deques import require_plain
from tracegrad.capture.guards import is_user_function, open_attribute
from tracegrad.capture.heaps import HEAP
from tracegrad.capture.iterators import feeding, is_iterator, note_left, require_known
from tracegrad.capture.joins import is_number
from tracegrad.capture.lists import CapturedList, ListUse, StackedList, count_of, indexed_error, unstack, use_of_index
from tracegrad.capture.presence import popped
from tracegrad.capture.protocols import store, store_plainly
from tracegrad.capture.sequences import Items
from tracegrad.capture.state import Unsure, kind_name
from tracegrad.capture.tracer import HANDLERS, Tracer, call_user, is_traced
from tracegrad.capture.watch import is_staged
from tracegrad.errors import NeedsPythonValue

#: methods of Python's containers that change nothing
_READS = frozenset(
    "copy count difference elements fromkeys get index intersection isdisjoint issubset issuperset items keys "
    "most_common symmetric_difference tobytes tolist total union values".split()
)
#: objects whose methods change nothing
_CONSTANT = (str, bytes, int, float, complex, tuple, frozenset, range, slice, type, types.ModuleType, re.Pattern)
_CONSTANT_MODULES = ("numpy", "datetime", "decimal", "fractions", "math")
_MUTABLE = (list, dict, set, bytearray, array.array, collections.deque, Iterator)
#: methods of lists and deques that change the places of items
_MOVES = frozenset("append appendleft extend extendleft insert pop popleft reverse rotate".split())
#: methods of dicts that delete items
_DELETES = frozenset({"pop", "popitem", "clear", "move_to_end"})
_OF_ITERATORS = "index what it goes over by a number of your own, `v = values[k]` and `k += 1`, which the loop carries"
_CHANGES_FIRST = frozenset(HEAP) | {next, delattr, operator.delitem}


def require_own(obj: object, what: str) -> None:
    """Check that a change of an object, of a kind that is not followed, happens in the region that made the object.

    Raises:
        NeedsPythonValue: the object is older than the loop or branch that is being staged.
    """
    capture = current()
    require_known(obj, what)
    made = capture.created_depth(obj)
    inside = capture.frames[made + 1 :]
    capture.note_lasting(what, *(feeding(obj) if capture.journals and is_iterator(obj) else (obj,)))
    if any(map(is_staged, inside)):
        kept = "use arrays, or lists with append, for what a loop over traced values keeps"
        place, where = "loop or branch", "staged loop or branch"
        if inside[-1].kind == "callee":
            place = where = "function that stays a call"
            kept = "return the new value beside the result; numbers, and arrays, may change in a recursive function"
        raise NeedsPythonValue(
            f"{what} in a {where}",
            code="TG134",
            span=user_span(),
            found=f"{_kind_of(obj)} from outside the {place}",
            help=_OF_ITERATORS if is_iterator(obj) else kept,
        )


def _kind_of(obj: object) -> str:
    return "an iterator" if is_iterator(obj) else f"a {kind_name(type(obj))}"


def require_no_branch(values: Any, what: str) -> None:
    """Check that a list or deque changes in no branch that is younger than it; a loop can carry its items.

    Raises:
        NeedsPythonValue: it does.
    """
    if _is_in_branch(values):
        require_own(values, what)


def _is_in_branch(values: Any) -> bool:
    """Return whether a branch is open that is younger than an object."""
    capture = current()
    return any(frame.kind == "branch" for frame in capture.frames[capture.created_depth(values) + 1 :])


def _keeps_items(values: Any) -> bool:
    return isinstance(values, list | collections.deque) and not isinstance(values, StackedList)


def changes_object(f: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a call is one of those that `call_changing` does."""
    if isinstance(f, types.BuiltinMethodType | types.MethodWrapperType) and _is_changeable(f.__self__):
        return True
    if isinstance(f, types.MethodType) and isinstance(f.__self__, StackedList | collections.Counter):
        return not is_user_function(f.__func__)
    if isinstance(f, types.MethodDescriptorType | types.WrapperDescriptorType) and args:
        if isinstance(args[0], _MUTABLE):
            return True
    return _is_hashable(f) and (f in _CHANGES_FIRST or f in (setattr, object.__setattr__) or f in _INPLACE)


def call_changing(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function or method that may change its object."""
    if isinstance(f, types.MethodDescriptorType | types.WrapperDescriptorType) and f is not object.__setattr__:
        own, args = args[0], args[1:]
        f = getattr(own, f.__name__) if isinstance(own, StackedList) else f.__get__(own)
    own, name = getattr(f, "__self__", None), getattr(f, "__name__", "")
    if name == "insert" and isinstance(own, CapturedList) and not _is_at_hand(own, args[0]):
        use = use_of_index(own, args[1])
        if use is not None and use.kind is not None:
            use = use._replace(replaced=use.kind.is_mutable, capacity=count_of(own) + 1)
            if not branches.keep_as_array(use):
                raise indexed_error(use, "list.insert")
    if isinstance(own, StackedList) and name in ("insert", "reverse", "sort") and _stays_stacked(own, name):
        slots.note_list(own)
        return getattr(own, name)(*args, **kwargs)
    if isinstance(own, CapturedList) and name == "clear":
        return _clear(own)
    if _is_hashable(f) and f in HEAP and isinstance(args[0], CapturedList) and not _has_known_order(f, args):
        return _call_heap(f, *args)
    if isinstance(own, StackedList) and name not in ("append", "extend", "pop", "copy"):
        require_own(own, f"list.{name}")
        slots.note_list(own)
        f = getattr(unstack(own), name)
    if f is setattr:
        store(*args)
        return None
    if f is object.__setattr__:
        store_plainly(*args)
        return None
    if name == "__setattr__" and isinstance(f, types.MethodWrapperType):  # as by `super().__setattr__`
        store_plainly(own, *args)
        return None
    if _is_hashable(f) and f in _INPLACE:
        note_augmented(args[0], _INPLACE[f])
        return branches.augmented(args[0], _INPLACE[f], args[1])
    if isinstance(own, list) and name in ("append", "extend") and not kwargs:
        slots.note_list(own)
        return f(*args)
    if isinstance(own, dict) and name == "__setitem__":
        branches.write_slot(own, "item", *args)
        return None
    if isinstance(own, dict) and name == "update" and not isinstance(own, collections.Counter):
        for key, value in dict(*args, **kwargs).items():
            branches.write_slot(own, "item", key, value)
        return None
    target = args[0] if own is None or isinstance(own, types.ModuleType) else own
    if isinstance(own, CapturedList) and name == "pop" and len(args) < 2 and not kwargs:
        return _pop(own, *args)
    if f is operator.delitem and isinstance(args[0], CapturedList):
        if isinstance(args[1], slice):
            if _is_deleted_in_place(*args):
                _delete(*args)
                return None
        elif isinstance(args[1], Tracer) or (
            args[0].varies if isinstance(args[0], StackedList) else _is_in_branch(args[0])
        ):
            _pop(*args)
            return None
    if isinstance(own, list) and name in ("reverse", "sort") and _is_followed(own):
        _reorder(own, name, *args, **kwargs)
        return None
    if _keeps_items(target) and (name in _MOVES or f is operator.delitem):
        require_no_branch(target, f"{kind_name(type(target))}.{name}" if target is own else "a deletion from a list")
        slots.note_list(target)
    elif name not in _READS and not _takes_key_in_branch(f, target):
        require_own(target, f"{kind_name(type(target))}.{name}" if target is own else f"{name} of {_kind_of(target)}")
    if f is delattr:
        require_single(args[0], "an attribute is deleted")
        open_attribute(*args)
    if isinstance(target, dict) and (f is operator.delitem or name in _DELETES):
        _note_deletions(target, args[1:] if f is operator.delitem else args[:1] if name == "pop" else tuple(target))
    if f is operator.delitem and isinstance(target, list):
        slots.note_list(target)
        if isinstance(target, StackedList):
            unstack(target)
    if isinstance(own, list):
        slots.note_list(own)
        if name == "sort" and not isinstance(own, StackedList):
            own[:] = _sorted(own, **kwargs)
            return None
    result = f(*args, **kwargs)
    return popped(result, *args) if type(result) is Unsure else result


def _is_followed(values: list[Any]) -> bool:
    """Return whether a list of known length is from before a staged region, or may be another one: a new order of its
    items is stored item by item."""
    capture = current()
    frames = capture.frames[capture.created_depth(values) + 1 :]
    return not isinstance(values, StackedList) and (any(map(is_staged, frames)) or bool(ways(values)))


def _reorder(values: list[Any], name: str, *args: Any, **kwargs: Any) -> None:
    """Do `values.reverse()` or `values.sort(...)`, which keep the length of a list."""
    items = _sorted(values, *args, **kwargs) if name == "sort" else list(reversed(values, *args, **kwargs))
    for number, item in enumerate(items):
        branches.write_slot(values, "item", number, item)


def renew(old: Any, new: Any) -> Any:
    """Return what a name is bound to that gets a new list, where nothing else has the old one: that one, with the
    items of the new one, where a staged region would have to choose between the two."""
    capture = current()
    if not isinstance(old, CapturedList) or not isinstance(new, CapturedList):
        return new
    if isinstance(old, StackedList) or isinstance(new, StackedList) or len(old) != len(new):
        if _is_in_branch(old) and replace_all(old, new):
            return old
        return new
    frames = capture.frames[capture.created_depth(old) + 1 :]
    if any(id(old) in frame.lists for frame in frames):  # its length has changed
        return new
    if not any(map(is_staged, frames)) and not any(way.positions for way in ways(old)):
        return new
    for number, item in enumerate(new):
        branches.write_slot(old, "item", number, item)
    return old


def replace_all(values: CapturedList, new: Any) -> bool:
    """Do `values[:] = new` where Python cannot know the length of the list; return whether that is so."""
    if not (values.has_unknown_length if isinstance(values, StackedList) else _is_in_branch(values)):
        return False
    given = call_user(list, new)
    if not isinstance(given, StackedList) and not all(map(is_number, given)):
        return False
    if isinstance(given, StackedList) and given.kind.is_mutable:
        return False
    call_user(values.clear)
    call_user(values.extend, given)
    return True


def _sorted(values: list[Any], **kwargs: Any) -> list[Any]:
    return HANDLERS[sorted](list(values), **kwargs)  # type: ignore[no-any-return]


def _takes_key_in_branch(f: Any, target: Any) -> bool:
    """Return whether a call takes one item out of a dict, in branches only: it may not be there then."""
    capture = current()
    made = capture.created_depth(target)
    if not isinstance(target, dict) or made < 0 or id(target) in capture.owners:
        return False
    takes = f is operator.delitem or getattr(f, "__name__", "") == "pop"
    return takes and all(frame.kind == "branch" and not frame.repeats for frame in capture.frames[made + 1 :])


def _pop(values: CapturedList, index: Any = -1) -> Any:
    """Do `values.pop(index)`: under a traced condition, of a list whose length is known when the code runs."""
    if not isinstance(values, StackedList) and not values:
        return values.pop(index)  # raises Python's error, on this path only: other iterations may find something
    if isinstance(index, Tracer) and not (isinstance(values, StackedList) and values.has_unknown_length):
        use = _room_for(values)
        if use is None or not branches.keep_as_array(use):
            raise _unknown_place_error(values, use)
    _require_varying(values, "list.pop")
    slots.note_list(values)
    return values.pop(index)


def _unknown_place_error(values: CapturedList, use: ListUse | None) -> NeedsPythonValue:
    error = NeedsPythonValue(
        "an item is taken out of a list at a place that is known only when the compiled function runs",
        code="TG134",
        span=user_span(),
        found=f"{values.name or 'a list'}, which cannot be rows of an array",
        help="let the function make the list, of numbers, arrays of one shape, or tuples of these; or keep "
        "all items, and choose by np.where",
    )
    error.remedy = use
    return error


def _is_deleted_in_place(values: CapturedList, part: slice) -> bool:
    """Return whether items that follow each other are deleted from a list whose length is known when the code runs, or
    is so afterwards."""
    unknown = values.has_unknown_length if isinstance(values, StackedList) else _is_in_branch(values)
    return unknown and part.step in (None, 1)


def _delete(values: CapturedList, part: slice) -> None:
    """Do `del values[part]`: under a traced condition, of a list whose length is known when the code runs."""
    _require_varying(values, "a deletion from a list")
    slots.note_list(values)
    if isinstance(values, StackedList):
        values.delete(part)
    else:
        del values[part]


def _require_varying(values: CapturedList, what: str) -> None:
    """Check that a list may lose items here: that it is one of unknown length, or that none is needed.

    Raises:
        NeedsPythonValue: it must be made one.
    """
    if isinstance(values, StackedList) and values.varies:
        return
    try:
        (require_own if isinstance(values, StackedList) else require_no_branch)(values, what)
    except NeedsPythonValue as error:
        error.remedy = _room_for(values)
        raise


def _stays_stacked(values: StackedList, name: str) -> bool:
    return values.has_unknown_length if name == "insert" else values.stays_stacked


def _room_for(values: CapturedList) -> ListUse | None:
    """Return what a list must be for its length to depend on a condition; None where it cannot be that."""
    count = count_of(values)
    if isinstance(values, StackedList):  # earlier iterations have filled it
        return ListUse(values, values.kind, capacity=count if count != 0 else 1)
    use = use_of_index(values, values[0]) if values else None
    return use and use._replace(replaced=False, capacity=count)


def _clear(values: CapturedList) -> None:
    """Do `values.clear()`: under a traced condition, of a list whose length is known when the code runs."""
    stacked = isinstance(values, StackedList)
    if not (stacked and values.varies):
        try:
            require_own(values, "list.clear")
        except NeedsPythonValue as error:
            if stacked or values:
                error.remedy = _room_for(values)
                raise
            current().varying.add(id(values))  # it may hold something in another iteration
    slots.note_list(values)
    if stacked:
        values.length, values.added = 0, values.added if values.varies else 0
    else:
        values.clear()


def note_augmented(value: Any, op: str) -> None:
    """Note that `value op= other` is about to change a container of Python's."""
    if not isinstance(value, _MUTABLE) or not hasattr(type(value), f"__i{op}__"):
        return
    require_plain(op, value)
    what = f"an augmented assignment to a {kind_name(type(value))}"
    if isinstance(value, list) and op == "add":
        return  # as extend
    if isinstance(value, collections.deque) and op == "add":
        require_no_branch(value, what)
    else:
        require_own(value, what)
    if isinstance(value, list | collections.deque):
        slots.note_list(value)
    elif isinstance(value, dict):
        _note_deletions(value, tuple(value))


def _note_deletions(items: dict[Any, Any], keys: tuple[Any, ...]) -> None:
    """Note that items of a dict are about to be deleted, or to change their order."""
    require_single(items, "an item is deleted")
    capture = current()
    if capture.created_depth(items) < 0:
        capture.key_orders.setdefault(id(items), (items, list(items)))
    for key in keys:
        if key in items:
            slots.note_slot(items, "item", key)


def _has_known_order(f: Any, args: tuple[Any, ...]) -> bool:
    """Return whether the order of a heap is known at capture, or may be where the loops around are unrolled."""
    heap, capture = args[0], current()
    if isinstance(heap, StackedList):
        return False
    inside = [frame for frame in capture.frames[capture.created_depth(heap) + 1 :] if is_staged(frame)]
    if inside:
        return all(frame.kind == "loop" and frame.unrolls for frame in inside) and all(map(_is_counted, args[1:]))
    try:
        f(list(heap), *args[1:])
    except NeedsPythonValue:
        return False
    except Exception:
        return True
    return True


def _is_counted(item: Any) -> bool:
    """Return whether what an item of a heap is compared by is known when the loops around it are unrolled."""
    while isinstance(item, tuple) and item:
        item = item[0]
    if not isinstance(item, Tracer):
        return True
    waiting, ranges = [item.value], current().ranges
    while waiting:
        value = waiting.pop()
        if value.producer is None and value not in ranges:
            return False
        waiting.extend(value.producer.operands if value.producer is not None else ())
    return True


def _unordered(f: Any, remedy: ListUse | None = None) -> NeedsPythonValue:
    error = NeedsPythonValue(
        f"heapq.{f.__name__} of traced values",
        code="TG134",
        span=user_span(),
        found="a heap whose order is known only when the compiled function runs, of items that have no common form, or "
        "made outside of the function",
        help="put items of one form into a list that the function makes: numbers, or tuples or objects of numbers",
    )
    error.remedy = remedy
    return error


def _call_heap(f: Any, heap: CapturedList, *items: Any) -> Any:
    """Call a function of heapq on a heap whose order is known when the compiled function runs."""
    if not (isinstance(heap, StackedList) and heap.varies):
        if count_of(heap) == 0 and not items:
            raise _unordered(f)
        use = ListUse(heap, heap.kind) if isinstance(heap, StackedList) else use_of_index(heap, (*items, *heap)[0])
        if use is None or use.kind is None:
            raise _unordered(f)
        use = use._replace(replaced=False, capacity=count_of(heap) + 1)
        if not branches.keep_as_array(use):
            raise _unordered(f, use)
    return call_user(HEAP[f], heap, *items)


def require_own_iterator(iterable: Any) -> None:
    """Check that a loop in a staged region does not use up an iterator from outside. In a branch it may, where nothing
    uses it afterwards."""
    capture = current()
    if isinstance(iterable, Items) and id(iterable) not in capture.used_up:
        inside = capture.frames[capture.created_depth(iterable) + 1 :]
        if inside and all(frame.kind == "branch" and not frame.repeats for frame in inside):
            note_left(iterable)
            return
    if id(iterable) in capture.streams:
        require_own(iterable, "items taken from an iterator")
        note_left(iterable)
    if isinstance(iterable, Iterator) and not isinstance(iterable, Tracer):
        require_own(iterable, "items taken from an iterator")


def _is_at_hand(values: CapturedList, index: Any) -> bool:
    """Return whether Python can insert into a list: at a known position, or into the rows of an array."""
    if isinstance(values, StackedList) and values.has_unknown_length:
        return True
    capture = current()
    frames = capture.frames[capture.created_depth(values) + 1 :]
    return not is_traced(index) and all(frame.kind != "branch" for frame in frames)


def _is_changeable(own: object) -> bool:
    if own is None or isinstance(own, _CONSTANT):
        return False
    return not (type(own).__module__ or "").startswith(_CONSTANT_MODULES)


def _is_hashable(f: Any) -> bool:
    try:
        hash(f)
    except TypeError:
        return False
    return True


#: functions for `x op= y` -> the name of the operator
_INPLACE: dict[Any, str] = {
    getattr(operator, f"i{name}"): name
    for name in "add and concat floordiv lshift matmul mod mul or pow rshift sub truediv xor".split()
}
