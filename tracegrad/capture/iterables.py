"""Functions of Python and NumPy that take iterables or a list that a staged loop has filled: on the array of its items.

Called by calls.py. Previous: comprehensions.py; next: operators.py.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracegrad.capture import branches, comprehensions, sequences
from tracegrad.capture.iterators import Ahead, changing_nothing, leave_to_streams
from tracegrad.capture.lists import RecordList, StackedList
from tracegrad.capture.ragged import Ragged, require_some
from tracegrad.capture.sequences import Items
from tracegrad.capture.tracer import ALWAYS, HANDLERS, Tracer, call_handler, call_user, full_name

#: the greatest of so many items is found by comparing them one by one
_FEW_ITEMS = 8


def is_of_arrays(f: Any) -> bool:
    return isinstance(f, np.ufunc) or full_name(f).startswith("numpy.")


def _stack(rows: Any, axis: int = 0) -> Any:
    return (call_handler(np.moveaxis, rows, 0, axis) if axis else rows).copy()


def _concatenate(rows: Any, axis: int | None = 0) -> Any:
    if axis is None:
        return rows.reshape(-1)
    if rows.ndim < 2:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    place = np.lib.array_utils.normalize_axis_index(axis, rows.ndim - 1)
    moved = call_handler(np.moveaxis, rows, 0, place) if place else rows
    return moved.reshape(*moved.shape[:place], -1, *moved.shape[place + 2 :])


def _vstack(rows: Any) -> Any:
    return rows[:, None] if rows.ndim == 1 else rows.copy() if rows.ndim == 2 else _concatenate(rows)


def _hstack(rows: Any) -> Any:
    return rows.copy() if rows.ndim == 1 else _concatenate(rows, 0 if rows.ndim == 2 else 1)


def _dstack(rows: Any) -> Any:
    return _concatenate(rows, 2) if rows.ndim > 3 else _stack(rows, -1)[(None,) * (3 - rows.ndim)]


def _column_stack(rows: Any) -> Any:
    return rows[None] if rows.ndim == 1 else _stack(rows, 1) if rows.ndim == 2 else _concatenate(rows, 1)


def _block(rows: Any) -> Any:
    return rows.copy() if rows.ndim == 1 else _concatenate(rows, -1)


#: functions that join a list of arrays: what they make of arrays stacked along axis 0
_JOINS: dict[Any, Callable[..., Any]] = {
    np.stack: _stack,
    np.vstack: _vstack,
    np.hstack: _hstack,
    np.dstack: _dstack,
    np.column_stack: _column_stack,
    np.concatenate: _concatenate,
    np.block: _block,
}


def has_unknown_length(args: tuple[Any, ...]) -> bool:
    return any(isinstance(a, StackedList) and a.has_unknown_length for a in args)


def _is_long(args: tuple[Any, ...]) -> bool:
    """Return whether a list of numbers that a staged loop has filled is too long to compare them one by one."""
    values = args[0]
    return len(args) == 1 and not values.kind.is_mutable and values.there is None and not _has_few(values.length)


def _has_few(length: Any) -> bool:
    return isinstance(length, int) and length <= _FEW_ITEMS


def is_on_stacked(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a function takes lists that a staged loop has filled as the array of their items."""
    if not any(isinstance(a, StackedList) for a in args):
        return False
    return (
        f is sum
        or is_of_arrays(f)
        or (has_unknown_length(args) and f not in SEQUENCES)
        or (f in (max, min) and not kwargs and _is_long(args))
    )


def _joins_rows(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a function joins the items of a list, and does it on the array of them."""
    if f not in _JOINS or not isinstance(args[0], StackedList):
        return False
    if f is np.block and (isinstance(args[0], RecordList) or args[0].kind.nested):
        return False
    by_axis = f in (np.stack, np.concatenate)
    return len(args) <= 1 + by_axis and (not kwargs or (by_axis and set(kwargs) == {"axis"}))


def call_on_stacked(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a NumPy function with lists that a staged loop has filled: on the array of their items."""
    if not is_of_arrays(f) and any(isinstance(a, RecordList) and not a.has_unknown_length for a in args):
        args = tuple(list(a) if isinstance(a, RecordList) else a for a in args)
        return call_handler(f, *args, **kwargs)
    if f is sum and len(args) == 1 and not kwargs:
        return call_handler(np.sum, args[0].as_array(), axis=0)
    if _joins_rows(f, args, kwargs):
        rows = args[0].as_array()
        if isinstance(rows, Ragged):
            require_some(rows, (0,), f"need at least one array to {'stack' if f is np.stack else 'concatenate'}")
        return _JOINS[f](rows, *args[1:], **kwargs)
    if f in (max, min) and "default" in kwargs and len(args) == 1:
        rest = {name: value for name, value in kwargs.items() if name != "default"}
        return branches.if_exp(args[0], lambda: call_on_stacked(f, args, rest), lambda: kwargs["default"])
    if f in (max, min) and len(args) == 1 and _takes_by_key(args[0], kwargs):
        return comprehensions.greatest(args[0], key_of(kwargs), least=f is min)
    if f is sorted and args[0].has_unknown_length:
        result = args[0].copy()
        comprehensions.sort(result, key_of(kwargs), reverse=kwargs.get("reverse", False))
        return result
    if f in _JOINS or f is sum:
        return call_handler(f, *(list(a) if isinstance(a, StackedList) else a for a in args), **kwargs)
    return call_handler(f, *(a.as_array() if isinstance(a, StackedList) else a for a in args), **kwargs)


def _takes_by_key(values: StackedList, kwargs: dict[str, Any]) -> bool:
    """Return whether the extreme of a list of unknown length is looked for by keys, or by parts of the items."""
    return values.has_unknown_length and (kwargs.get("key") is not None or isinstance(values, RecordList))


def key_of(kwargs: dict[str, Any]) -> Callable[[Any], Any] | None:
    key = kwargs.get("key")
    return None if key is None else functools.partial(call_user, key)


def _map(function: Any, *iterables: Any) -> Any:
    if any(_is_of_python(values) for values in iterables):
        return map(functools.partial(call_user, function), *iterables)
    together = len(iterables) > 1
    values = sequences.make_zip(*iterables) if together else iterables[0]

    def step(item: Any) -> comprehensions.Step:
        return comprehensions.Item(call_user(function, *item) if together else call_user(function, item))

    return comprehensions.Stream(comprehensions.each(values, "", step), (function,), iterables)


def _is_of_python(values: Any) -> bool:
    return isinstance(values, Iterator) and not isinstance(values, Items | Tracer | comprehensions.Stream)


def _filter(function: Any, iterable: Any) -> Any:
    return _kept(iterable, function, lambda item: item if function is None else call_user(function, item))


def _filterfalse(function: Any, iterable: Any) -> Any:
    return _kept(
        iterable, function, lambda item: branches.not_(item if function is None else call_user(function, item))
    )


def _kept(iterable: Any, function: Any, test: Callable[[Any], Any]) -> Any:
    """Return the items that pass a test, which a function makes."""
    if _is_of_python(iterable):
        iterable = list(Ahead(iterable, is_sure=False))

    def step(item: Any) -> comprehensions.Step:
        return comprehensions.When(test(item), lambda: comprehensions.Item(item))

    return comprehensions.Stream(comprehensions.each(iterable, "", step), (function,), (iterable,))


def _while_of(make: Callable[..., Iterator[Any]]) -> Callable[..., Any]:
    """Return the form in captured code of takewhile, or dropwhile: of an array or list, under tests that are traced."""
    unknown = (
        f"{make.__name__} stops under a traced condition",
        "so it is not known which items it takes from an iterator",
        f"give it the list or array itself, itertools.{make.__name__}(test, values); or write a loop with `break`",
    )

    def run(predicate: Any, iterable: Any) -> Any:
        test = functools.partial(call_user, predicate)
        sequence = None if isinstance(iterable, Iterator) else sequences.as_sequence(iterable)
        if sequence is None:
            sequence = sequences.of_numbers(iterable)
        if sequence is None or not sequence.length or not comprehensions.has_traced(test, sequence):

            def known(item: Any) -> bool:
                held = branches.truth(test(item))
                if isinstance(held, Tracer):
                    leave_to_streams(iterable, 0)
                return branches.known_truth(held, *unknown)

            return make(known, iterable)
        with changing_nothing():
            step = comprehensions.Each(sequence, "", lambda item: comprehensions.Item(test(item)))
            flags = comprehensions.collect(step)
        held = call_handler(np.cumprod, call_handler(np.asarray, flags, dtype=np.int64))
        kept = call_handler(np.equal, held, 1 if make is itertools.takewhile else 0)
        step = comprehensions.Each(
            sequences.make_zip(sequence, kept),
            "",
            lambda pair: comprehensions.When(pair[1], lambda: comprehensions.Item(pair[0])),
        )
        return comprehensions.Stream(step, (predicate,), (iterable,)).settled()

    return run


#: functions of iterables that give their items, or something of each
SEQUENCES: dict[Any, Callable[..., Any]] = {
    range: sequences.make_range,
    zip: sequences.make_zip,
    enumerate: sequences.make_enumerate,
    reversed: sequences.make_reversed,
    **{
        make: sequences.table_of(make)
        for make in (
            itertools.product,
            itertools.permutations,
            itertools.combinations,
            itertools.combinations_with_replacement,
        )
    },
    **{join: sequences.joined_of(join) for join in (itertools.chain, itertools.islice)},
    itertools.pairwise: sequences.make_pairwise,
    np.ndindex: sequences.make_places,
    np.ndenumerate: sequences.make_numbered_places,
    map: _map,
    filter: _filter,
    itertools.filterfalse: _filterfalse,
    itertools.takewhile: _while_of(itertools.takewhile),
    itertools.dropwhile: _while_of(itertools.dropwhile),
}
HANDLERS.update(SEQUENCES)
ALWAYS.update(SEQUENCES)
