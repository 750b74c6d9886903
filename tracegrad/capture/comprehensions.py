"""List comprehensions and generator expressions: run at capture, or staged as a loop that appends to a list.

convert.py makes steps of `f(a) for a in values if test(a)`: an Each with a When in it, and an Item in that. Called by
hooks.py. Previous: loops.py; next: iterables.py.
"""

from __future__ import annotations

import math
import operator
import statistics
import sys
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tracegrad.capture import searches, sequences
from tracegrad.capture.branches import (
    BINDING,
    Binding,
    and_,
    do_nothing,
    if_exp,
    if_stmt,
    known_truth,
    merged,
    not_,
    truth,
)
from tracegrad.capture.choices import merge
from tracegrad.capture.chosen import Chosen
from tracegrad.capture.context import RestageError, current, user_span
from tracegrad.capture.iterators import TAKEN, Ahead, changing_nothing, is_iterator, left_error, note_left, taking
from tracegrad.capture.lists import (
    CapturedList,
    ItemKind,
    RecordList,
    StackedList,
    TakenItems,
    content_error,
    count_of,
    give_name,
    give_rows,
    has_content,
    item_type,
    kind_of,
    sources_of,
    stacked_list,
    state_of,
)
from tracegrad.capture.loop_body import attempt
from tracegrad.capture.loops import for_stmt, note_ended
from tracegrad.capture.natives import require_own_iterator
from tracegrad.capture.protocols import iterable, unpack
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.sequences import Items, Range, Sequence_, as_known_sequence, as_sequence
from tracegrad.capture.sizes import as_size
from tracegrad.capture.slots import GetState, SetState, new_list, note_list
from tracegrad.capture.tracer import Tracer, call_handler, call_user, check, resolve_content, unsupported
from tracegrad.errors import CaptureError, NeedsPythonValue
from tracegrad.ir.types import ArrayType

#: functions that read all items of an iterator before they return
READ_ALL = frozenset(
    {
        sum,
        min,
        max,
        sorted,
        list,
        map,
        filter,
        tuple,
        set,
        math.fsum,
        math.prod,
        *(getattr(statistics, name) for name in statistics.__all__),
        np.fromiter,
    }
)
#: so many items that are computed one by one, and no more, make code that is read as fast as a loop
_FEW_ITEMS = 16


NO_BINDING = Binding((), tuple, do_nothing)


class Item(NamedTuple):
    """One item of the result."""

    value: Any


class When(NamedTuple):
    """`if test` and what follows it."""

    test: Any
    then: Callable[[], Step]


class Each(NamedTuple):
    """`for names in values` and what follows it, as a function of the names that are bound.

    Attributes:
        pattern: a name, or a tuple of patterns of what is unpacked.
        binding: the names that `:=` binds in it and that are read in other turns or afterwards.
    """

    values: Any
    pattern: str | tuple[Any, ...]
    body: Callable[..., Step]
    binding: Binding = NO_BINDING

    def run(self, item: Any) -> Step:
        """Bind the names to an item."""
        return self.body(*_bind(self.pattern, item))


class Emitted(NamedTuple):
    """Items that come one by one, as those that a generator function yields: `run` does something with each."""

    run: Callable[[Use], None]
    is_endless: bool = False


Step = Each | When | Item | Emitted


class Stream:
    """The iterator that map or filter gives, or a generator: it calls the functions when its items are taken.

    Attributes:
        items: what it gives, where this is not found item by item in a loop over it.
        is_left: there may be items that a loop over it has left.
        position: so many items `next` has taken.
    """

    def __init__(self, step: Each | Emitted, functions: tuple[Any, ...], iterables: tuple[Any, ...]) -> None:
        self.step, self.functions, self.iterables = step, functions, iterables
        self.items: Any = None
        self.is_left = False
        self.position = 0
        self.state: tuple[tuple[Any, Any], ...] | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.settled())

    def __next__(self) -> Any:
        self.items = iter(self.settled())
        return next(self.items)

    def settled(self) -> Any:
        """Return the items, which all are made now: none of the functions may change anything else, and nothing that
        they read may change before an item is taken."""
        self._require_known()
        if self.items is None:
            state = state_of(self.functions)
            self.items = collect(self._rest())
            for part, before in state:
                if not has_content(part, before):
                    raise content_error(part)
            self._note_left()
            sources = sources_of(self.iterables)
            if not isinstance(self.items, StackedList):
                self.items = TakenItems(self.items, sources, state)
            else:
                current().streams[id(self.items)] = self.items, (*sources, *state)
        return self.items

    def following(self, *default: Any) -> Any:
        """`next`, of items that come one by one: those before are made again, which must change nothing."""
        self._require_known()
        if self.state is None:
            self.state = state_of((*self.functions, *self.iterables))
        with changing_nothing():
            values = new_list([])
            current().plain.add(id(values))
            run(self._rest(), _appending_to(values).until(lambda: not_(truth(values))))
        self.position += 1
        return head(values, *default)

    def _rest(self) -> Each | Emitted:
        """Return the step that gives the items that `next` has not taken."""
        for part, before in self.state or ():
            if not has_content(part, before):
                raise content_error(part)
        return sliced(self.step, self.position, None) if self.position else self.step

    def taken(self, *, all_items: bool = True) -> Each | Emitted:
        """Return the step that gives the items, of a stream that has no more afterwards."""
        self._require_known()
        step = self._rest() if self.items is None else Each(self.items, "", Item)
        self.items, self.is_left = iter(()), not all_items
        self._note_left()
        if not all_items:
            note_left(self.functions)
        return step

    def _require_known(self) -> None:
        if self.is_left:
            raise left_error(TAKEN)

    def _note_left(self) -> None:
        for values in filter(is_iterator, self.iterables):
            if type(values) is not Stream:  # one of another has had no items of its own since
                note_left(values)


def each(
    values: Any,
    pattern: str | tuple[Any, ...],
    body: Callable[..., Step],
    get_state: GetState = tuple,
    set_state: SetState = do_nothing,
    names: tuple[str, ...] = (),
) -> Each | Emitted:
    """`for names in values` in a comprehension, which may leave items of a stream."""
    step = Each(values, pattern, body, Binding(names, get_state, set_state) if names else NO_BINDING)
    if type(values) is not Stream:
        return step
    require_own_iterator(values)
    return _chained(values.taken(all_items=False), step.run, step.binding)  # type: ignore[no-any-return]


def _chained(step: Step, then: Callable[[Any], Step], binding: Binding = NO_BINDING) -> Any:
    """Return what does something with the items of a step, and binds names."""
    if isinstance(step, Item):
        return then(step.value)
    if isinstance(step, When):
        return When(step.test, lambda: _chained(step.then(), then))
    if isinstance(step, Emitted):
        emitted = step.run
        return Emitted(
            lambda use: emitted(use.binding(binding).putting(lambda item: run(then(item), use))), step.is_endless
        )
    if step.binding.names:
        binding = merged(binding, step.binding)
    return Each(step.values, step.pattern, lambda *names: _chained(step.body(*names), then), binding)


def listed(values: Any) -> Any:
    """Return a list of all items of a stream, which are made now, instead of it."""
    return collect(values.taken()) if type(values) is Stream else values


def settled(values: Any) -> Any:
    """Return the items of a stream instead of it."""
    return values.settled() if type(values) is Stream else values


class Generated(NamedTuple):
    """A generator expression that is an argument of a call."""

    step: Each | Emitted

    def given_to(self, f: Any) -> Any:
        """Return what a function gets: a list if it is one of Python's that read all items."""
        reads_all = f in READ_ALL if isinstance(f, Hashable) else False
        if reads_all or (isinstance(f, types.BuiltinMethodType) and isinstance(f.__self__, list)):
            return collect(self.step)
        step, capture = self.step, current()
        if _is_streamed(step):
            return _stream_of(step)
        assert isinstance(step, Each), "others are streams"
        items = _run_by_python(generate(step), step.body.__code__)
        capture.register_created(items)
        capture.givers[id(items)] = items, step.body.__code__
        return items


def _is_streamed(step: Each | Emitted) -> bool:
    """Return whether a traced condition decides what a generator expression gives."""
    return isinstance(step, Emitted) or step.body.__code__ in current().streamed


def _stream_of(step: Each | Emitted) -> Stream:
    """Return the stream for a generator expression."""
    functions, iterables = ((), ()) if isinstance(step, Emitted) else ((step.body,), (step.values,))
    is_endless = isinstance(step, Emitted) and step.is_endless
    made = Stream(Emitted(lambda use: run(step, use), is_endless), functions, iterables)
    current().register_created(made)
    return made


def generated(step: Each | Emitted) -> Generated:
    """A generator expression among the arguments of a call, which may end before its iterator does."""
    if isinstance(step, Each) and isinstance(step.values, Items):
        values = step.values
        step = step._replace(values=iterate(values))
        note_left(values)
    return Generated(step)


def generator(step: Each | Emitted) -> Any:
    """A generator expression that is no argument of a call."""
    if _is_streamed(step):
        return generated(step).given_to(None)
    assert isinstance(step, Each), "others are streams"
    code, capture = step.body.__code__, current()
    items = _run_by_python(_taken_by_python(step, iter(stream(step.values))), code)
    capture.register_created(items)
    capture.givers[id(items)] = items, code
    return items


def _taken_by_python(step: Each, values: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of a generator expression, which takes those of its iterables one by one."""
    waiting: list[Step]
    for value in values:
        waiting = [step.run(value)]
        while waiting:
            following = waiting.pop()
            if isinstance(following, Item):
                yield following.value
            elif isinstance(following, Each):
                yield from _taken_by_python(following, iter(stream(following.values)))
            elif isinstance(following, Emitted):
                yield from collect(following)
            elif test(following.test):
                waiting.append(following.then())


def suspending(
    generator: Callable[..., Iterator[Any]], emits: Callable[..., None], is_endless: bool, *args: Any
) -> Any:
    """What a generator function gives of which a branch or loop yields: the generator, or where a traced condition
    decides about its items a stream of them."""
    capture, code = current(), emits.__code__
    if code in capture.streamed:
        step = Emitted(lambda use: call_user(emits, Emitter(use), *args), is_endless)
        made = Stream(step, (emits, *args), args)
        capture.register_created(made)
        return made
    items = generator(*args)
    capture.register_created(items)
    items = _run_by_python(items, code)
    capture.register_created(items)
    capture.givers[id(items)] = items, code
    return items


class Emitter:
    """Gets the items of a generator function, one by one."""

    def __init__(self, use: Use) -> None:
        self.use = use


def emit(emitter: Emitter, item: Any) -> Any:
    """`yield item`; return whether no other item is wanted."""
    emitter.use.put(item)
    return emitter.use.has_all()


def emit_all(emitter: Emitter, values: Any) -> Any:
    """`yield from values`; return whether no other item is wanted."""
    use = emitter.use
    if type(values) is Stream:
        require_own_iterator(values)
        run(values.taken(all_items=use.goes_on is None), use)
    else:
        run(Each(values, "", Item), use)
    return use.has_all()


def carrying(
    emitter: Emitter, get_state: GetState, set_state: SetState, names: tuple[str, ...]
) -> tuple[GetState, SetState, tuple[str, ...]]:
    """The state of a statement of a generator function that emits items, with that of what is done with them."""
    return _joined(Binding(emitter.use.names, *emitter.use[2:4]), (get_state, set_state, names))


def _run_by_python(items: Iterator[Any], code: types.CodeType) -> Iterator[Any]:
    """Yield the items of a generator; note where a traced condition decides which they are."""
    try:
        yield from items
    except NeedsPythonValue as error:
        if error.code == "TG101":
            current().undecided.add(code)
        raise


def generate(step: Step) -> Iterator[Any]:
    """Yield the items of a generator expression."""
    if isinstance(step, Each):
        for item in _following(step.values):
            yield from generate(step.run(item))
    elif isinstance(step, Item):
        yield step.value
    elif isinstance(step, Emitted):
        yield from collect(step)
    elif test(step.test):
        yield from generate(step.then())


def collect(step: Step) -> list[Any]:
    """Return the items as a list; with traced tests, or where they are many, a loop appends them."""
    if isinstance(step, Emitted) and step.is_endless:
        raise NeedsPythonValue(
            "all items of an endless generator are taken at once",
            code="TG120",
            span=user_span(),
            found="a generator whose loop has no end, of which a traced condition decides what it gives",
            help="loop over the generator itself, and leave the loop by `break`; or take so many of its items, "
            "`itertools.islice(values, n)`",
        )
    result = new_list([])
    current().plain.add(id(result))
    run(step, _appending_to(result))
    return result


def collect_items(step: Each | Emitted, store: Callable[[Any, Any, Any], None]) -> dict[Any, Any]:
    """Return a dict of the items, pairs of a key and a value, which `store` puts into it."""
    result: dict[Any, Any] = {}
    current().register_created(result)
    run(step, Use(lambda pair: store(result, *pair), lambda: len(result)))
    return result


def total(add: Callable[[Any, Any], Any], step: Each | Emitted, start: Any = 0) -> Any:
    """Return what `sum` gives of a generator expression that is better run as a loop; NotImplemented for others."""
    sequence = None if isinstance(step, Emitted) else _staged(step)
    if sequence is None:
        return NotImplemented
    assert isinstance(step, Each), "only that has a sequence"
    value = [start]

    def put(item: Any) -> None:
        value[0] = add(value[0], item)

    def set_state(values: tuple[Any, ...]) -> None:
        (value[0],) = values

    _loop(step, sequence, Use(put, lambda: id(value[0]), lambda: (value[0],), set_state, ("total",)))
    return value[0]


def first(step: Each | Emitted, *default: Any) -> Any:
    """`next` of a generator expression."""
    if isinstance(step, Emitted):
        return _stream_of(step).following(*default)
    step = step._replace(values=iterate(step.values))
    sequence = as_sequence(step.values)
    if sequence is not None and _size(sequence) is not None:
        found = _looked(step.binding, lambda: _look(step))
        if found is None or not found.tested:
            return next(generate(step), *default)
    values = new_list([])
    current().plain.add(id(values))
    _seek(step, values, step.binding)
    return head(values, *default)


def _seek(step: Step, values: list[Any], binding: Binding) -> None:
    """Append the first item of a generator expression; what comes after it is not computed."""
    state = binding.get_state, binding.set_state, binding.names
    if isinstance(step, Item):
        _appending_to(values).put(step.value)
    elif isinstance(step, When):
        holds, then = truth(step.test), step.then
        if_stmt(holds, lambda: _seek(then(), values, binding), do_nothing, *state)
    elif isinstance(step, Emitted):
        use = _appending_to(values).binding(binding)
        step.run(use.until(lambda: not_(truth(values))))
    else:
        bind = step.run
        for_stmt(
            iterate(step.values),
            lambda item: _seek(bind(item), values, binding),
            *state,
            lambda: not_(truth(values)),
        )


def head(values: list[Any], *default: Any) -> Any:
    """`next` of an iterator whose items are in a list."""
    given = truth(values)
    if default:
        return if_exp(given, lambda: values[0], lambda: default[0])
    if given is False:
        raise StopIteration
    if given is not True:
        check(given, "StopIteration", "no item passes the test of an iterator")
    return values[0]


def holds_for(function: Any, step: Each | Emitted) -> Any:
    """`any` and `all` of a generator expression: of many items, or of a number of them that is known only when the
    program runs, by a loop that ends at the item that decides."""
    if isinstance(step, Emitted):
        found = _find(step, function is any, NO_BINDING)
        return found if function is any else not_(found)
    step = step._replace(values=iterate(step.values))
    sequence = as_sequence(step.values)
    size, code = 0 if sequence is None else _size(sequence), step.body.__code__
    few = size is not None and size <= _FEW_ITEMS and code not in current().streamed and not step.binding.names
    if few and not _may_fail(step, sequence):
        return call_handler(function, _run_by_python(generate(step), code))
    try:
        found = _find(step, function is any, step.binding)
    except CaptureError:
        if size is None or step.binding.names:
            raise
        return call_handler(function, generate(step))
    return found if function is any else not_(found)


def _may_fail(step: Each, sequence: Sequence_ | None) -> bool:
    """Return whether the first item of a generator expression is one that raises an exception in some runs."""
    if sequence is None or not _size(sequence):
        return False

    def look() -> bool:
        block = current().builder.block
        before = len(block.operations)
        for _ in generate(step.run(sequence.item(sequence.start))):
            pass
        return any(operation.op == "check" for operation in block.operations[before:])

    return bool(attempt(look))


def contains(values: Stream, is_item: Callable[[Any], Any]) -> Any:
    """`x in values`, which takes the items up to the first that `is_item`."""
    require_own_iterator(values)
    return holds_for(any, _chained(values.taken(all_items=False), lambda item: Item(is_item(item))))


def binding_generator(items: Iterator[Any]) -> Iterator[Any]:
    """A generator expression with `:=` whose parts cannot become functions, so that it is Python's."""
    current().register_created(items)
    current().binders[id(items)] = items
    return items


def _find(step: Step, wanted: bool, binding: Binding) -> Any:
    """Return whether there is an item of the truth that is wanted; steps bind names."""
    if isinstance(step, Item):
        return truth(step.value) if wanted else not_(truth(step.value))
    if isinstance(step, When):
        then = step.then

        def rest() -> Any:
            return _find(then(), wanted, binding)

        if binding.names:
            BINDING[rest] = binding
        return and_(truth(step.test), rest)
    found = [False]

    def look(item: Any) -> None:
        found[0] = _find(Item(item) if isinstance(step, Emitted) else step.run(item), wanted, binding)

    def get_state() -> tuple[Any, ...]:
        return (found[0], *binding.get_state())

    def set_state(state: tuple[Any, ...]) -> None:
        found[0] = state[0]
        binding.set_state(state[1:])

    use = Use(look, lambda: None, get_state, set_state, ("tg_found", *binding.names), lambda: not_(found[0]))
    if isinstance(step, Emitted):
        step.run(use)
    else:
        for_stmt(iterate(step.values), look, *use.state, use.goes_on)
    return found[0]


def extend(values: list[Any], items: Sequence_ | Stream) -> None:
    """`values.extend(items)`."""
    run(items.taken() if isinstance(items, Stream) else Each(items, "", Item), _appending_to(values))


def sliced(step: Step, start: Any, stop: Any, by: Any = 1) -> Emitted:
    """Return the step that gives some of the items, as islice does."""

    def give(use: Use) -> None:
        number: list[Any] = [0]

        def put(item: Any) -> None:
            k = number[0]
            number[0] = k + 1
            inside = k >= start if by == 1 else and_(k >= start, lambda: (k - start) % by == 0)
            if_stmt(truth(inside), lambda: use.put(item), do_nothing, *use.state)

        inner = use.keeping(number, "tg_number").putting(put)
        begin(step, inner if stop is None else inner.until(lambda: number[0] < stop))

    return Emitted(give, stop is None and isinstance(step, Emitted) and step.is_endless)


def begin(step: Step, use: Use) -> None:
    """Use the items, unless none is wanted from the start."""
    if_stmt(not_(use.has_all()), lambda: run(step, use), do_nothing, *use.state)


def run_over(
    stream: Stream,
    body: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    extra_test: Callable[[], Any] | None,
) -> None:
    """`for` over what map or filter gives: the functions are called in the body of the loop."""
    require_own_iterator(stream)
    step = stream.taken(all_items=extra_test is None)
    use = Use(body, lambda: None, get_state, set_state, names, extra_test)
    if isinstance(step, Emitted):
        step.run(use)
        if step.is_endless and extra_test is not None:
            note_ended(get_state, set_state, names)
        return
    bind, inner = step.run, use.binding(step.binding)
    for_stmt(_numbered(iterate(step.values)), lambda item: run(bind(item), inner), *inner.state, extra_test)


def _numbered(values: Any) -> Any:
    """Return many numbers in a list by their places, as long as they stay what they are."""
    if not isinstance(values, CapturedList) or isinstance(values, StackedList) or len(values) <= _FEW_ITEMS:
        return values
    sequence = sequences.of_numbers(values)
    if sequence is None:
        return values
    sequence.unrolls, sequence.kept, sequence.native = True, ((values, values[:]),), iter(values)
    return sequence


def greatest(values: StackedList | Sequence_, key: Callable[[Any], Any] | None, *, least: bool) -> Any:
    """`max(values, key=key)`, or `min`, of a number of values that is known only when the program runs."""
    index_of = np.argmin if least else np.argmax
    if isinstance(values, Items):
        values = values.take()
    if isinstance(values, Sequence_):
        found = collect(Each(values, "", lambda item: Item(item if key is None else key(item))))
        place = call_handler(index_of, found.as_array() if isinstance(found, StackedList) else found)
        return values.item(values.start + place * values.step)
    if key is None and not values.has_order:
        return call_user(searches.least if least else searches.greatest, values)
    keys = _keys(values, key)
    if not isinstance(keys, RecordList):
        return values[call_handler(index_of, keys.as_array())]
    name = "min" if least else "max"
    check(call_handler(np.greater, values.length, 0), "ValueError", f"{name}() iterable argument is empty")
    return values[_order(keys, reverse=not least)[0]]


def sort(values: StackedList, key: Callable[[Any], Any] | None = None, *, reverse: Any = False) -> None:
    """`values.sort(key=key)` of a list whose length is not known."""
    note_list(values)
    if key is None and values.stays_stacked:
        values.sort(reverse=reverse)
    elif key is None and not values.has_order:
        call_user(searches.sort, values, reverse)
    else:
        values.reorder(_order(_keys(values, key), reverse=reverse))


def ordered(values: Any, key: Callable[[Any], Any] | None, *, reverse: bool) -> Any:
    """`sorted(values, key=key)` of many numbers in a range, array or list, by traced keys; else NotImplemented."""
    is_list = isinstance(values, StackedList) and values.has_order and values.there is None
    if not (isinstance(values, Range) or (is_list and not isinstance(values, RecordList))):
        if not isinstance(values, Tracer) or values.ndim != 1:
            return NotImplemented
    sequence = as_sequence(values)
    if sequence is None or (_size(sequence) or 0) <= _FEW_ITEMS:
        return NotImplemented
    items = values if isinstance(values, Tracer) else values.as_array()
    if key is None:
        chosen = call_handler(np.sort, items)
        chosen = chosen[::-1] if reverse else chosen
    else:
        by = key
        if not attempt(lambda: _is_of_traced(by(sequence.item(sequence.start)))):
            return NotImplemented
        keys: list[Any] = new_list([])
        _loop(Each(values, "", lambda item: Item(by(item))), sequence, _appending_to(keys))
        if not isinstance(keys, StackedList) or keys.has_unknown_length or not keys.has_order:
            return NotImplemented
        order = _order(keys, reverse=reverse)
        chosen = order if isinstance(values, Range) and values.is_count else _picked(items, order)
    weak = values.kind.weak if isinstance(values, StackedList) else isinstance(values, Range)
    return stacked_list(chosen.copy(), ItemKind(ArrayType(items.dtype, ()), weak), items.shape[0])


def has_traced(test: Callable[[Any], Any], sequence: Sequence_) -> bool:
    """Return whether a test gives a traced value of the first item."""
    return bool(attempt(lambda: _is_of_traced(test(sequence.item(sequence.start)))))


def _is_of_traced(key: Any) -> bool:
    """Return whether a key is a traced number, or a tuple with one."""
    return any(map(_is_of_traced, key)) if isinstance(key, tuple) else _count(key) > 0


def _keys(values: StackedList, key: Callable[[Any], Any] | None) -> StackedList:
    """Return what a list is sorted by.

    Raises:
        CaptureError: that is no numbers, nor tuples of them.
    """
    keys = values if key is None else _rows(collect(Each(values, "", lambda item: Item(key(item)))))
    if not isinstance(keys, StackedList) or not keys.has_unknown_length or not keys.has_order:
        raise unsupported(
            "a list of unknown length is sorted or searched by other things than numbers or tuples of them",
            "give a key that is a number or a tuple of numbers, or sort an array of numbers by np.argsort",
        )
    return keys


def _rows(values: list[Any]) -> list[Any]:
    """Make a new list one of rows of an array, where its items can be that."""
    if isinstance(values, CapturedList) and not (isinstance(values, StackedList) and values.has_unknown_length):
        try:
            give_rows(values, kind_of(values))
        except RestageError:
            pass
    return values


def _order(keys: StackedList, *, reverse: Any) -> Any:
    """Return the positions of the items in their order, in which equal ones stay in theirs."""
    columns = [column.as_array() for column in keys.parts()]
    if reverse:
        columns = [column[::-1] for column in columns]
    order: Any = None
    for column in reversed(columns):
        if order is None:
            order = call_handler(np.argsort, column, kind="stable")
        else:
            order = _picked(order, call_handler(np.argsort, _picked(column, order), kind="stable"))
    return call_handler(np.subtract, keys.length - 1, order)[::-1] if reverse else order


def _picked(values: Any, order: Any) -> Any:
    """Return the elements at the positions in an order, which all are there."""
    with current().builder.certain():
        return values.picked(order) if isinstance(values, Ragged) else call_handler(operator.getitem, values, order)


class Spread(NamedTuple):
    """`*values` among the arguments of a call, of a list whose length is not known."""

    values: StackedList

    def given_to(self, f: Any) -> Any:
        """Return what a function does with the items as its arguments.

        Raises:
            NeedsPythonValue: it needs to know how many they are.
        """
        values = self.values
        if f is max or f is min:
            return call_handler(f, values.as_array()) if values.has_order else greatest(values, None, least=f is min)
        if f is zip:
            check(call_handler(np.greater, values.length, 0), "ValueError", "zip(*values) of an empty list")
            return new_list(list(values.columns_of_items()))
        raise NeedsPythonValue(
            "a list whose length is not known gives the arguments of a call",
            code="TG101",
            span=user_span(),
            found=f"as many arguments as {getattr(values, 'name', 'the list')} has items when the function runs",
            help="pass the list itself; zip(*values), max(*values) and min(*values) work",
        )


def spread(values: Any) -> Any:
    """`*values` among the arguments of a call."""
    values = settled(values)
    if isinstance(values, StackedList) and values.has_unknown_length:
        return (Spread(values),)
    return iterate(values)


def iterate(values: Any) -> Any:
    """The iterable of a comprehension, of which all items are taken."""
    require_own_iterator(values)
    if isinstance(values, Items):
        return values.take()
    if isinstance(values, StackedList) and id(values) in current().streams:
        return as_sequence(values)
    return iterable(merge(values) if type(values) is Chosen else values)


def stream(values: Any) -> Any:
    """The iterable of a comprehension that stays one, of `*values` in a display and of `yield from`: these may leave
    items of it."""
    values = settled(values)
    if isinstance(values, Items) and values.static_length is not None:
        require_own_iterator(values)
        return values
    return iterate(values)


def test(value: Any) -> bool:
    """The condition of a comprehension that is no list, which must be known at capture."""
    return known_truth(
        value,
        "the condition of a comprehension depends on a traced value",
        "it decides how many items there are",
        "write a list comprehension or a loop with `if`, or keep all items and choose by "
        "np.where(condition, item, 0.0)",
    )


def _bind(pattern: str | tuple[Any, ...], item: Any) -> Iterator[Any]:
    if isinstance(pattern, str):
        yield give_name(pattern, item)
        return
    for part, value in zip(pattern, unpack(item, len(pattern), None), strict=True):
        yield from _bind(part, value)


def _no_state() -> tuple[Any, ...]:
    return ()


State = tuple[GetState, SetState, tuple[str, ...]]


def _joined(binding: Binding, state: State) -> State:
    """Return the state of a statement in which other names are bound too."""
    own, (get_state, set_state, names) = len(binding.names), state
    if not own:
        return state

    def set_both(values: tuple[Any, ...]) -> None:
        binding.set_state(values[:own])
        set_state(values[own:])

    return lambda: (*binding.get_state(), *get_state()), set_both, (*binding.names, *names)


class Use(NamedTuple):
    """What is done with each item, something that changes when it has been done, and the variables that it binds.

    Attributes:
        goes_on: returns whether another item is wanted, where it may be that none is.
    """

    put: Callable[[Any], None]
    mark: Callable[[], Any]
    get_state: GetState = _no_state
    set_state: SetState = do_nothing
    names: tuple[str, ...] = ()
    goes_on: Callable[[], Any] | None = None

    @property
    def state(self) -> State:
        """The state of a statement that uses items."""
        return self.get_state, self.set_state, self.names

    def binding(self, binding: Binding) -> Use:
        """Return the use in a comprehension that binds names too."""
        return Use(self.put, self.mark, *_joined(binding, self.state), self.goes_on)

    def putting(self, put: Callable[[Any], None]) -> Use:
        """Return the use that does something else with each item."""
        return self._replace(put=put)

    def until(self, goes_on: Callable[[], Any]) -> Use:
        """Return the use that ends as well where `goes_on` gives False."""
        also = self.goes_on
        return self._replace(goes_on=goes_on if also is None else lambda: and_(truth(goes_on()), also))

    def keeping(self, cell: list[Any], name: str) -> Use:
        """Return the use that keeps something in the items of a list from one item to the next."""

        def set_state(values: tuple[Any, ...]) -> None:
            cell[:] = values

        return self.binding(Binding((name,) * len(cell), lambda: tuple(cell), set_state))

    def has_all(self) -> Any:
        """Return whether no other item is wanted."""
        return False if self.goes_on is None else not_(truth(self.goes_on()))


def _appending_to(values: list[Any]) -> Use:
    def append(item: Any) -> None:
        note_list(values)
        values.append(item)

    return Use(append, lambda: count_of(values))


def run(step: Step, use: Use) -> None:
    if isinstance(step, Item):
        use.put(step.value)
    elif isinstance(step, When):
        holds, then = truth(step.test), step.then
        if_stmt(holds, lambda: run(then(), use), do_nothing, *use.state, event="if in a comprehension")
    elif isinstance(step, Emitted):
        step.run(use)
    elif use.goes_on is not None:
        bind, inner = step.run, use.binding(step.binding)
        for_stmt(iterable(step.values), lambda item: run(bind(item), inner), *inner.state, use.goes_on)
    else:
        if isinstance(step.values, zip | enumerate):
            step = step._replace(values=list(iterate(step.values)))
        elif isinstance(step.values, Items):
            values, step = step.values, step._replace(values=iterate(step.values))
            with taking(values, all_items=True):
                _loop(step, _staged(step), use)
            return
        _loop(step, _staged(step), use)


def _loop(step: Each, sequence: Sequence_ | None, use: Use) -> None:
    """Use the items, by a staged loop over a sequence if there is one."""
    before, use = use.mark(), use.binding(step.binding)
    if sequence is not None:
        try:
            for_stmt(sequence, lambda item: run(step.run(item), use), *use.state, None)
            return
        except CaptureError:
            if _size(sequence) is None or use.mark() != before:
                raise
    current().note_native("comprehension: run at capture, over Python values")
    for item in _following(step.values):
        run(step.run(item), use)


def _following(values: Any) -> Iterator[Any]:
    """Return the items of a loop at capture, which may use the iterator itself."""
    return Ahead(iter(iterate(values)))


def _staged(step: Each) -> Sequence_ | None:
    """Return what a staged loop runs over, where that is better than to compute all items at capture."""
    values, few = iterate(step.values), _FEW_ITEMS
    sequence = as_known_sequence(values)
    if sequence is None:
        sequence, few = sequences.of_numbers(values), sys.maxsize
        if sequence is None or sequence.length == 1:
            return None
    size = _size(sequence)
    if size is None:
        return sequence
    found = _looked(step.binding, lambda: _look(step.run(sequence.item(sequence.start)))) if size else None
    return None if found is None or (not found.tested and size * found.numbers <= few) else sequence


class _First(NamedTuple):
    """What the first iteration shows: whether a test is traced, and how many traced numbers it makes."""

    tested: bool
    numbers: int = 1


def _looked(binding: Binding, look: Callable[[], _First | None]) -> _First | None:
    """Look at an iteration that is not made; the names that it binds are as before."""
    state = binding.get_state()
    try:
        return attempt(look)
    finally:
        binding.set_state(state)


def _size(sequence: Sequence_) -> int | None:
    """Return how many items there are, in this call; None where that is known only when the program runs."""
    return None if sequence.length is None else int(as_size(sequence.length))


def _look(step: Step) -> _First | None:
    """Look at the first iteration of a loop; None where nothing asks for a staged one."""
    while isinstance(step, When):
        holds = truth(step.test)
        if isinstance(holds, Tracer) and resolve_content(holds) is None:
            return _First(tested=True)
        if not holds:
            return None
        step = step.then()
    if isinstance(step, Item):
        return _First(tested=False, numbers=_count(step.value))
    if isinstance(step, Emitted):
        return _First(tested=True)
    sequence = as_sequence(iterate(step.values))
    size = None if sequence is None else _size(sequence)
    if sequence is None or not size:
        return None
    found = _look(step.run(sequence.item(sequence.start)))
    return found and found._replace(numbers=size * found.numbers)


def _count(item: Any) -> int:
    """Return how many traced numbers an item is, 0 for anything else."""
    if isinstance(item, Tracer):
        return int(not item.ndim and resolve_content(item) is None)
    if not isinstance(item, list) or not all(map(_count, item)):
        return 0
    try:
        kind = item_type([item])
    except RestageError:
        return 0
    size = kind.type.size if isinstance(kind, ItemKind) else 0
    return size if isinstance(size, int) else 0
