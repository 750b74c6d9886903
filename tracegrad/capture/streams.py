"""Functions of iterators on streams: what they give is found item by item, in the loop that takes it.

Called by calls.py. Previous: comprehensions.py; next: iterables.py.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tracegrad.capture.branches import and_, do_nothing, if_stmt, not_, or_, truth
from tracegrad.capture.comprehensions import Each, Emitted, Item, Step, Stream, Use, begin, run, sliced
from tracegrad.capture.context import current
from tracegrad.capture.iterators import note_left
from tracegrad.capture.joins import is_number
from tracegrad.capture.natives import require_own_iterator
from tracegrad.capture.sequences import Items, as_known_sequence, is_zero
from tracegrad.capture.state import Undefined
from tracegrad.capture.tracer import asarray, call_user, make_weak


def call_lazily(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function gives of streams whose items come one by one; NotImplemented for other calls."""
    make = _MAKERS.get(f) if isinstance(f, Hashable) else None
    streams = [argument for argument in args if _comes_by_items(argument)]
    if make is None or not streams:
        return NotImplemented
    for stream in streams:
        require_own_iterator(stream)
    return make(*args, **kwargs)


def _comes_by_items(value: Any) -> bool:
    return type(value) is Stream and value.items is None and isinstance(value.step, Emitted)


def _made(step: Emitted, functions: tuple[Any, ...], *iterables: Any) -> Stream:
    stream = Stream(step, functions, iterables)
    current().register_created(stream)
    return stream


def _of(
    stream: Stream, use_of: Callable[[Use], Use], functions: tuple[Any, ...] = (), *, may_end: bool = False
) -> Stream:
    """Return the stream of what is made of the items of another one, which may end before that does."""
    own = (*stream.functions, *functions)
    step = stream.taken(all_items=False)
    is_endless = isinstance(step, Emitted) and step.is_endless and not may_end
    return _made(Emitted(lambda use: begin(step, use_of(use)), is_endless), own, *stream.iterables)


def _next(stream: Any, *default: Any) -> Any:
    return stream.following(*default)


def _enumerate(iterable: Any, start: Any = 0) -> Stream:
    def numbered(use: Use) -> Use:
        number = [start]

        def put(item: Any) -> None:
            k = number[0]
            number[0] = k + 1
            use.put((k, item))

        return use.keeping(number, "tg_number").putting(put)

    return _of(iterable, numbered)


def _zip(*iterables: Any, strict: bool = False) -> Any:
    """`zip` of one stream and others whose items are known by their places."""
    places = [k for k, values in enumerate(iterables) if _comes_by_items(values)]
    others = [None if k in places else _by_place(values) for k, values in enumerate(iterables)]
    if len(places) > 1 or strict or sum(other is None for other in others) > 1:
        return NotImplemented
    (place,) = places
    for values in iterables:
        if isinstance(values, Items | itertools.count):
            note_left(values)

    def numbered(use: Use) -> Use:
        number: list[Any] = [0, True]  # of the item, and whether there are more

        def has(k: Any, among: list[Any]) -> Any:
            tests = [lambda stop=stop: k < stop for _, stop in filter(None, among) if stop is not None]
            return and_(truth(tests[0]()), *tests[1:]) if tests else True

        def put(item: Any) -> None:
            k = number[0]
            if_stmt(truth(has(k, others[place + 1 :])), lambda: put_all(k, item), stop, *state)

        def put_all(k: Any, item: Any) -> None:
            number[0] = k + 1
            use.put(tuple(item if other is None else other[0](k) for other in others))

        def stop() -> None:
            number[1] = False

        inner = use.keeping(number, "tg_number")
        state = inner.state
        return inner.putting(put).until(lambda: and_(truth(number[1]), lambda: has(number[0], others[:place])))

    return _of(iterables[place], numbered, may_end=any(other is not None and other[1] is not None for other in others))


def _by_place(values: Any) -> tuple[Callable[[Any], Any], Any] | None:
    """Return a function that gives the item at a place, and their number, None of an endless iterator; None for what
    has no places."""
    if type(values) is itertools.count:
        first, step = values.__reduce__()[1][0], (*values.__reduce__()[1], 1)[1]
        return lambda k: first + k * step, None
    if type(values) is tuple and values and all(is_number(item) and not np.ndim(item) for item in values):
        array, is_weak = asarray(list(values)), all(asarray(item).weak for item in values)
        return lambda k: make_weak(array[k]) if is_weak else array[k], len(values)
    sequence = as_known_sequence(values)
    if sequence is None or sequence.native is not None or sequence.step != 1 or not is_zero(sequence.start):
        return None
    return sequence.item, sequence.stop


def _islice(iterable: Any, *bounds: Any) -> Any:
    part = slice(*bounds)
    step = iterable.taken(all_items=False)
    made = sliced(step, part.start or 0, part.stop, part.step or 1)
    return _made(made, iterable.functions, *iterable.iterables)


def _takewhile(predicate: Any, iterable: Any) -> Stream:
    def taking(use: Use) -> Use:
        held: list[Any] = [True]

        def put(item: Any) -> None:
            held[0] = truth(call_user(predicate, item))
            if_stmt(held[0], lambda: use.put(item), do_nothing, *use.state)

        return use.keeping(held, "tg_held").putting(put).until(lambda: held[0])

    return _of(iterable, taking, (predicate,), may_end=True)


def _dropwhile(predicate: Any, iterable: Any) -> Stream:
    def dropping(use: Use) -> Use:
        begun: list[Any] = [False]

        def put(item: Any) -> None:
            begun[0] = or_(begun[0], lambda: not_(truth(call_user(predicate, item))))
            if_stmt(truth(begun[0]), lambda: use.put(item), do_nothing, *use.state)

        return use.keeping(begun, "tg_begun").putting(put)

    return _of(iterable, dropping, (predicate,))


def _chain(*iterables: Any) -> Stream:
    steps: list[Step] = []
    for values in iterables:
        steps.append(values.taken(all_items=False) if type(values) is Stream else Each(values, "", Item))

    def join(use: Use) -> None:
        for step in steps:
            begin(step, use)

    functions = tuple(f for values in iterables if type(values) is Stream for f in values.functions)
    return _made(Emitted(join), functions, *(values for values in iterables if type(values) is not Stream))


def _accumulate(iterable: Any, func: Any = None, *, initial: Any = None) -> Stream:
    combine = operator.add if func is None else func

    def adding(use: Use) -> Use:
        kept: list[Any] = [False, Undefined("tg_total")] if initial is None else [True, initial]

        def set_state(values: tuple[Any, ...]) -> None:
            kept[1:] = values

        def put(item: Any) -> None:
            def go_on() -> None:
                kept[1] = call_user(combine, _bound(kept[1]), item)

            def start() -> None:
                kept[1] = item

            if_stmt(truth(kept[0]), go_on, start, lambda: (kept[1],), set_state, ("tg_total",))
            kept[0] = True
            use.put(kept[1])

        return use.keeping(kept, "tg_total").putting(put)

    made = _of(iterable, adding, (combine,))
    return made if initial is None else _chain([initial], made)


def _reduce(function: Any, iterable: Any, *initial: Any) -> Any:
    given = _accumulate(iterable, function, initial=initial[0] if initial else None)
    last: list[Any] = [initial[0] if initial else Undefined("tg_total")]

    def put(item: Any) -> None:
        last[0] = item

    use = Use(put, lambda: None).keeping(last, "tg_total")
    run(given.taken(), use)
    return last[0]


def _bound(value: Any) -> Any:
    """Return what is kept from the item before, in code for items that are not the first."""
    if isinstance(value, Undefined):
        raise value.error()
    return value


def _pairwise(iterable: Any) -> Stream:
    def pairing(use: Use) -> Use:
        kept: list[Any] = [False, Undefined("tg_last")]

        def put(item: Any) -> None:
            last = kept[1]
            if_stmt(truth(kept[0]), lambda: use.put((_bound(last), item)), do_nothing, *use.state)
            kept[:] = True, item

        return use.keeping(kept, "tg_last").putting(put)

    return _of(iterable, pairing)


_MAKERS: dict[Any, Callable[..., Any]] = {
    next: _next,
    enumerate: _enumerate,
    zip: _zip,
    itertools.islice: _islice,
    itertools.takewhile: _takewhile,
    itertools.dropwhile: _dropwhile,
    itertools.chain: _chain,
    itertools.accumulate: _accumulate,
    itertools.pairwise: _pairwise,
    functools.reduce: _reduce,
}
