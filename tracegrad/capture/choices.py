"""Python values that a traced number chooses: items of lists and tuples, and strings, functions and objects.

Called by operators.py, members.py and calls.py. Previous: presence.py; next: operators.py.

What is done with a `state.Chosen` is done with each of its options, under the condition that it is the one. An item of
a list is a row of the items as an array where they have one shape, and else chosen in the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.capture import branches, joins
from tracegrad.capture.chosen import MERGE, Chosen
from tracegrad.capture.context import current
from tracegrad.capture.lists import (
    ITEM_LIMIT,
    ListUse,
    StackedList,
    can_stack,
    indexed_error,
    presence_of,
    some_of,
    use_of_index,
)
from tracegrad.capture.slots import GetState, SetState, new_list
from tracegrad.capture.tracer import (
    Tracer,
    asarray,
    call_handler,
    check,
    describe,
    make_weak,
    python_operator,
    result_dtype,
)
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.core import Value
from tracegrad.ir.types import BOOL

Do = Callable[[Any], Any]


def for_each(chosen: Chosen, do: Do) -> Any:
    """Return what `do` gives for the option that is chosen."""
    return _halve(chosen.options, chosen.index, do)


def _halve(options: Sequence[Any], index: Tracer, do: Do, start: int = 0) -> Any:
    if len(options) == 1:
        return do(options[0])
    middle = len(options) // 2
    test = index if index.dtype == BOOL else python_operator(np.greater_equal, index, start + middle)
    return branches.if_exp(
        test,
        functools.partial(_halve, options[middle:], index, do, start + middle),
        functools.partial(_halve, options[:middle], index, do, start),
    )


def do_each(
    chosen: Chosen,
    do: Do,
    get_state: GetState = tuple,
    set_state: SetState = branches.do_nothing,
    names: tuple[str, ...] = (),
) -> None:
    """Do something that returns nothing, and may bind names, for the option that is chosen."""
    for number, option in enumerate(chosen.options):
        here = is_at(chosen, number)
        branches.if_stmt(here, functools.partial(do, option), branches.do_nothing, get_state, set_state, names)


def is_at(chosen: Chosen, number: int) -> Any:
    """Return whether the option with a number is the one that is chosen."""
    if chosen.index.dtype == BOOL:
        return chosen.index if number else branches.not_(chosen.index)
    return python_operator(np.equal, chosen.index, number)


def test_each(chosen: Chosen, test: Do) -> Any:
    """Return whether a test holds for the option that is chosen."""
    results = [test(option) for option in chosen.options]
    if any(isinstance(result, Tracer) for result in results):
        return for_each(chosen, test)
    if all(results) or not any(results):
        return results[0]
    found: Any = False
    for number, result in enumerate(results):
        if result:
            here = is_at(chosen, number)
            found = here if found is False else python_operator(np.bitwise_or, found, here)
    return found


def merge(chosen: Chosen) -> Any:
    """Return a new list, with the items of the one that is chosen."""
    return for_each(chosen, lambda o: o.copy() if isinstance(o, StackedList) else new_list(list(o)))


branches.TEST.append(test_each)
MERGE.append(merge)


# ---- items of lists and tuples


def item_at(items: Sequence[Any], key: Tracer) -> Any:
    """Return `items[key]`.

    Raises:
        NeedsPythonValue: the items cannot be chosen from, or a loop that runs at capture would know the number.
    """
    position = _position(items, key)
    if all(item is None or joins.is_number(item) for item in items):
        rows = [asarray(some_of(item)) for item in items if item is not None]
        if len({row.type.shape for row in rows}) == 1:
            given = [presence_of(item) for item in items]
            row = _row([_blank(rows[0]) if item is None else asarray(some_of(item)) for item in items], position)
            if all(there is True for there in given):
                return row
            return joins.or_none(row, _row([asarray(there) for there in given], position))
    _require_few(items, key)
    try:
        return _halve(tuple(items), position, _same)
    except NeedsPythonValue as error:
        raise _refusal(items, key) from error


def _blank(row: Tracer) -> Tracer:
    """Return what stands for None in rows like this one."""
    if row.weak:
        return asarray(row.dtype.type(0).item())
    return asarray(call_handler(np.zeros_like, row))


def _refusal(items: Any, key: Tracer, stored: Any = None) -> NeedsPythonValue:
    kind = "tuple" if isinstance(items, tuple) else "list"
    use = use_of_index(items, stored) or ListUse(items)
    return indexed_error(use, f"{describe(key)}, which indexes a {kind} of {len(items)}")


def _require_few(items: Sequence[Any], key: Tracer) -> None:
    if len(items) > ITEM_LIMIT:
        raise _refusal(items, key)


def _same(item: Any) -> Any:
    return item


def _position(items: Sequence[Any], key: Tracer, stored: Any = None) -> Tracer:
    """Return the place from the start, checked when the program runs."""
    if key.dtype.kind not in "iu" and not (key.weak and key.dtype == BOOL):
        items[key]  # type: ignore[call-overload]  # raises Python's error
    if not items:
        raise IndexError("list index out of range")
    if (_is_older(items) and can_stack(items, stored)) or _unrolling_knows(key.value):
        raise _refusal(items, key, stored)
    if key.dtype == BOOL:
        key = call_handler(int, key)
    count = len(items)
    wrapped = call_handler(np.where, call_handler(np.less, key, 0), python_operator(np.add, key, count), key)
    inside = python_operator(np.bitwise_and, wrapped >= 0, wrapped < count)
    kind = "tuple" if isinstance(items, tuple) else "list"
    check(inside, "IndexError", f"{kind} index out of range")
    return make_weak(wrapped)  # type: ignore[no-any-return]


def _is_older(items: Any) -> bool:
    """Return whether items are from before the loop or branch: the statement makes a list one of rows."""
    return current().created_depth(items) != current().depth


def _unrolling_knows(value: Value) -> bool:
    """Return whether a number is computed from constants and variables of loops that are unrolled where they cannot be
    staged."""
    operation = value.producer
    if operation is not None:
        return not operation.blocks and all(map(_unrolling_knows, operation.operands))
    return not value.shape and any(frame.unrolls and value in frame.block.params for frame in current().frames)


def _row(rows: list[Tracer], position: Tracer) -> Any:
    """Return a row, linked to the arrays that it may be: a write into it is then one into them."""
    table = call_handler(np.stack, rows) if any(row.concrete is None for row in rows) else _table(rows)
    row = table[position]
    if not rows[0].ndim:
        return make_weak(row) if all(item.weak for item in rows) else row
    made = row.copy()
    for number, item in enumerate(rows):
        joins.link(made, item, python_operator(np.equal, position, number).value)
    return made


def _table(rows: list[Tracer]) -> Tracer:
    return asarray(np.array([row.concrete for row in rows], result_dtype(rows)))


def store_item(items: Any, key: Tracer, value: Any) -> None:
    """Do `items[key] = value`."""
    position = _position(items, key, value)
    _require_few(items, key)
    for number, item in enumerate(items):
        here = python_operator(np.equal, position, number)
        chosen = branches.if_exp(here, functools.partial(_same, value), functools.partial(_same, item))
        branches.write_slot(items, "item", number, chosen)
