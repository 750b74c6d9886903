"""What converted code calls: statements, loads and texts, and the namespace with the rest.

convert.py writes the calls; branches.py, loops.py and guards.py do the work. Previous: calls.py; next: entry.py.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from tracegrad import ops
from tracegrad.capture import branches, comprehensions, loops, slots
from tracegrad.capture.attempts import (
    Attempt,
    cause,
    context,
    passing,
    raised,
    step,
    suppressing,
    trial,
    try_stmt,
)
from tracegrad.capture.calls import call
from tracegrad.capture.choices import do_each, merge
from tracegrad.capture.chosen import Chosen, Conflict, Options
from tracegrad.capture.comparisons import compare_chain
from tracegrad.capture.context import Place, current, user_span
from tracegrad.capture.deques import require_no_question
from tracegrad.capture.guards import is_native, is_stored, lift, new_container, open_variable
from tracegrad.capture.lists import give_name
from tracegrad.capture.members import (
    aug_setattr,
    aug_setitem,
    delattr_,
    delitem,
    exchange,
    getattr_,
    getitem,
    setattr_,
    setitem,
)
from tracegrad.capture.natives import renew, require_own_iterator
from tracegrad.capture.operators import aug_name, operate
from tracegrad.capture.presence import require_sure
from tracegrad.capture.protocols import iterable, unary
from tracegrad.capture.protocols import unpack as unpack_items
from tracegrad.capture.state import OrNone, Undefined, Unsure
from tracegrad.capture.text import join_text, keep_given, make_error, message_text, piece_of_text
from tracegrad.capture.tracer import Tracer, stage
from tracegrad.capture.trials import Alike, Raises
from tracegrad.capture.user_calls import HOOKS
from tracegrad.errors import TracedNameError


def guard(value: Any) -> bool:
    """The condition of a case with a pattern that Python matches, which must be known at capture."""
    return branches.known_truth(
        value,
        "the guard of a `case` with a class, mapping or sequence pattern depends on a traced value",
        "it decides which case applies",
        "match a tuple display (`match (a, b):`) or a number, of which values are compared, or write `if` and `elif`",
    )


def load(value: Any, name: str) -> Any:
    """A read of a local name that may not be bound."""
    if isinstance(value, Undefined):
        error: TracedNameError = value.error()
        raise error
    if type(value) is Conflict:
        raise value.error
    return value.read() if isinstance(value, Unsure) else value


def binding(
    fn: Callable[[], Any], get_state: slots.GetState, set_state: slots.SetState, names: tuple[str, ...]
) -> Callable[[], Any]:
    """A part of an expression that binds names with `:=`."""
    branches.BINDING[fn] = branches.Binding(names, get_state, set_state)
    return fn


def ret(value: Any) -> Any:
    """The value of a return statement."""
    capture = current()
    if len(capture.calls) == 1 and capture.calls[0].function is getattr(capture.function, "__func__", capture.function):
        capture.returned_at = user_span()
    if type(value) is Conflict:
        raise value.error
    return value.read() if isinstance(value, Unsure) else value


def decorator(apply: Any) -> Any:
    """A decorator of a function inside: one of the user's own is called as elsewhere in the code."""
    named = apply if isinstance(apply, types.FunctionType | types.MethodType | type) else type(apply)
    return apply if is_native(named.__module__) else functools.partial(call, apply)


def unpack(value: Any, count: int, star: int | None) -> tuple[Any, ...]:
    """The right side of `a, b = value` or `a, *b = value`."""
    if type(value) is OrNone:
        value = value.read("cannot unpack non-iterable NoneType object")
    require_own_iterator(value)
    value = comprehensions.settled(value)
    return unpack_items(merge(value) if type(value) is Chosen else value, count, star)


def decide(test: Any) -> bool:
    """The test of an `if` or `while` around a `yield`, which must be known at capture."""
    return branches.known_truth(
        test,
        "a `yield` stands under a condition that depends on a traced value",
        "it decides what is yielded",
        "return no value from the generator, and use none of a `yield`; or yield in any case, and choose the value "
        "before (`y = a if x > 0 else b`); or append to a list and return that",
    )


def items(values: Any) -> Any:
    """What a `for` with a `yield` in it runs over, at capture."""
    return _iterable(values)


def mapping(values: Any) -> Any:
    """The dict of `**values` in a display."""
    require_sure(values)
    return values


def for_stmt(values: Any, *parts: Any) -> None:
    """A `for` statement; see loops.for_stmt."""
    if type(values) is Chosen:
        do_each(values, lambda option: loops.for_stmt(_iterable(option), *parts), *parts[1:4])
    elif type(values) is comprehensions.Stream:
        comprehensions.run_over(values, *parts)
    else:
        loops.for_stmt(_iterable(values), *parts)


def _iterable(values: Any) -> Any:
    if type(values) is OrNone:
        values = values.read("'NoneType' object is not iterable")
    require_own_iterator(values)
    return iterable(values)


def assert_(test: Any, message: Callable[[], Any]) -> None:
    """`assert test, message`."""
    test = branches.truth(test)
    if isinstance(test, Tracer):
        given = message()
        text = "" if given is None else message_text(given)
        try:
            stage(ops.check, test.value, error="AssertionError", message=text)
        except AssertionError as error:  # a handler gets what was given
            keep_given(error, () if given is None else (given,))
            raise
    elif not test:
        given = message()
        raise make_error(AssertionError, () if given is None else (given,), {})


# ---- loads and stores


def outer(value: Any, name: str, read: types.FunctionType) -> Any:
    """A read of a global or a closure variable."""
    if isinstance(value, types.ModuleType | Tracer):
        return value
    if type(value) is Unsure:
        return value.read("NameError", f"name {name!r} is not defined")
    if read.__closure__:
        place = Place(read.__closure__[0], (("cell", None),), name)
    elif name in read.__globals__:
        place = Place(read.__globals__, (("item", name),), name)
    else:
        return value  # a builtin
    return value if is_stored(place, value) else lift(value, place)


def rebinds(name: str, read: types.FunctionType, carried: bool) -> None:
    """The start of a function that stores into a global or closure variable, `carried` by one of its statements."""
    open_variable(name, read, carried)


def cells(read: types.FunctionType) -> None:
    """The start of a function of which functions inside rebind variables."""
    for cell in read.__closure__ or ():
        current().register_created(cell)


def text(*parts: Any) -> Any:
    """An f-string: one of several texts, where a piece is one of several."""
    place = next((number for number, part in enumerate(parts) if type(part) is Chosen), None)
    if place is None:
        return join_text(*parts)
    before, chosen, after = parts[:place], parts[place], parts[place + 1 :]
    return _texts_of(chosen, lambda option: text(*before, option, *after))


def _texts_of(chosen: Chosen, make: Callable[[Any], Any]) -> Any:
    texts = [make(option) for option in chosen.options]
    if not all(isinstance(made, str) for made in texts):
        raise chosen.error
    return Chosen(Options(texts, chosen.cause), chosen.index)


def format_(value: Any, conversion: str, spec: Any) -> Any:
    """`{value!conversion:spec}` in an f-string."""
    require_no_question("a text", value)
    if type(value) is Chosen:
        return _texts_of(value, lambda option: format_(option, conversion, spec))
    return piece_of_text(value, conversion, spec, call)


#: how converted code calls them, and what stands elsewhere
vars(HOOKS).update(
    if_stmt=functools.partial(branches.if_stmt, event="if"),
    guarded=branches.if_stmt,
    while_stmt=loops.while_stmt,
    for_stmt=for_stmt,
    if_exp=branches.if_exp,
    and_=branches.and_,
    or_=branches.or_,
    not_=branches.not_,
    holds=branches.truth,
    compare_chain=functools.partial(compare_chain, operate),
    guard=guard,
    undefined=Undefined,
    load=load,
    name=give_name,
    binding=binding,
    ret=ret,
    decorator=decorator,
    unpack=unpack,
    iter=comprehensions.stream,
    spread=comprehensions.spread,
    test=comprehensions.test,
    each=comprehensions.each,
    when=comprehensions.When,
    item=comprehensions.Item,
    collect_items=lambda step: comprehensions.collect_items(step, setitem),
    collect=comprehensions.collect,
    generated=comprehensions.generated,
    generator=comprehensions.generator,
    binding_generator=comprehensions.binding_generator,
    suspending=comprehensions.suspending,
    emit=comprehensions.emit,
    emit_all=comprehensions.emit_all,
    carrying=comprehensions.carrying,
    assert_=assert_,
    display=new_container,
    outer=outer,
    rebinds=rebinds,
    cells=cells,
    getattr=getattr_,
    getitem=getitem,
    setitem=setitem,
    aug_setitem=aug_setitem,
    exchange=exchange,
    renew=renew,
    setattr=setattr_,
    aug_setattr=aug_setattr,
    delitem=delitem,
    delattr=delattr_,
    aug_name=aug_name,
    call=call,
    operate=operate,
    unary=unary,
    decide=decide,
    items=items,
    mapping=mapping,
    try_stmt=try_stmt,
    trial=trial,
    step=step,
    attempt=Attempt,
    raises=Raises,
    alike=Alike,
    passing=passing,
    raised=raised,
    cause=cause,
    context=context,
    suppressing=suppressing,
    text=text,
    format=format_,
)
