"""Conditions: `if`, conditional expressions and boolean operators, decided at capture or staged into regions of `if`.

Called by hooks.py with functions for the parts of a statement. Previous: joins.py; next: loop_state.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tracegrad import ops
from tracegrad.capture.aliases import ALWAYS, alias_error, any_holds, targets
from tracegrad.capture.chosen import Chosen, Conflict
from tracegrad.capture.context import RestageError, current, user_span
from tracegrad.capture.joins import Branch, is_fault, join_branches, keep_effects, leave_branch, raise_unless
from tracegrad.capture.lists import ListUse, StackedList, stack_items
from tracegrad.capture.slots import (
    GetState,
    SetState,
    cells_of,
    note_list,
    put_slot,
    read_slot,
    require_no_globals,
)
from tracegrad.capture.state import OrNone, Undefined, Unsure
from tracegrad.capture.tables import TableUse, make_table
from tracegrad.capture.tracer import (
    OPERATORS,
    MaybeNone,
    Tracer,
    asarray,
    call_handler,
    call_user,
    describe,
    from_value,
    inplace,
    python_operator,
    resolve_content,
    stage,
)
from tracegrad.capture.trials import Inside, catching, known_inside, note_inside
from tracegrad.errors import CaptureError, NeedsPythonValue
from tracegrad.ir.core import Block, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import BOOL

#: tests what a traced number has chosen; choices.py puts its function here
TEST: list[Callable[[Any, Callable[[Any], Any]], Any]] = []
#: stages branches that exceptions leave for a handler; exits.py puts its function here
JOIN: list[Callable[..., None]] = []
#: so often a list gets another buffer, before the statement that asks for it is given up
_STACKED_LIMIT = 64


# ---- writes into Python containers


def write_slot(container: Any, kind: str, key: Any, value: Any) -> None:
    """Do `container[key] = value` (kind "item") or `setattr(container, key, value)` (kind "attr"), noting it in open
    frames, and in the objects that the container may be."""
    if kind == "item":
        require_no_globals(container, key)
    if current().links and read_slot(container, kind, key) is not value:
        if kind == "item" and (owned := current().owners.get(id(container))) is not None:
            container, kind = owned[1], "attr"
        for other, found in targets(container):
            put = functools.partial(_put_followed, other, kind, key, value)
            if found is None:
                _hide(other, kind, key)
            elif ALWAYS in found:
                put()
            else:
                test = from_value(any_holds(found), weak=True)
                if_stmt(test, put, do_nothing, lambda: (), do_nothing, ())
    put_slot(container, kind, key, value)


def _put_followed(container: Any, kind: str, key: Any, value: Any) -> None:
    if kind == "attr" and current().created_depth(container) < 0:
        raise alias_error(container, "an object from outside the function")
    put_slot(container, kind, key, value)


def _hide(container: Any, kind: str, key: Any) -> None:
    """Make a read of a slot an error, and of whether it is there: something was stored into an object that may be this
    one."""
    error = alias_error(container, f"a store of {key!r} into one that a loop has chosen, which may be this one")
    if current().created_depth(container) < 0 or isinstance(container, list):
        raise error
    hidden = Conflict(str(key), error)
    is_absent = isinstance(read_slot(container, kind, key), Undefined)
    put_slot(container, kind, key, Unsure(str(key), hidden, hidden) if is_absent else hidden)


def do_nothing(*args: Any) -> None:
    """Be a branch, or a setter of state, that has nothing to do."""


def augmented(value: Any, op: str, other: Any) -> Any:
    """Return what `value op= other` gives."""
    if isinstance(value, list) and op == "add":
        note_list(value)
        value.extend(other)
        return value
    if isinstance(value, Tracer) and op in OPERATORS:
        return inplace(OPERATORS[op], value, other)
    return getattr(operator, f"i{op}")(value, other)


# ---- truth


def truth(value: Any) -> Any:
    """Return a Python bool when it can be known, else a traced bool of rank 0."""
    if isinstance(value, MaybeNone):
        return truth(and_(value.present, lambda: truth(value.some)))
    if isinstance(value, OrNone):
        return truth(and_(value.present, lambda: truth(value.value)))
    if isinstance(value, Tracer) and value.concrete is None:
        if value.type.size != 1:
            bool(value)  # raises NumPy's error
        if value.dtype != BOOL:
            value = call_handler(np.not_equal, value, 0)
        return value if not value.ndim else call_handler(np.reshape, value, ())
    if type(value) is bool:
        return value
    if isinstance(value, Tracer):
        return bool(value)
    if isinstance(value, StackedList):
        return truth(value.length != 0)
    if type(value) is Chosen:
        return TEST[0](value, truth)
    made = call_user(bool, value)
    return truth(made) if isinstance(made, Tracer) else bool(made)


def known_truth(value: Any, title: str, effect: str, help: str) -> bool:
    test = truth(value)
    if isinstance(test, Tracer) and resolve_content(test) is None:
        raise NeedsPythonValue(
            title,
            code="TG101",
            span=user_span(),
            found=f"{describe(test)}, known only when the compiled function runs; {effect}",
            help=help,
        )
    return bool(test)


# ---- if


def if_stmt(
    test: Any,
    then_fn: Callable[[], None],
    else_fn: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    *,
    joins: bool = True,
    event: str = "",
) -> None:
    """Run one branch on a Python test; stage both on a traced one.

    The state begins with the values of `names`; what follows is set back between the branches, and not read afterwards.

    Args:
        joins: whether the branches may meet behind the statement where one of them leaves the body of a `try`.
        event: what the user has written, which an explanation lists.
    """
    test = truth(test)
    if not isinstance(test, Tracer):
        if event:
            current().note_native(f"{event}: decided at capture")
        (then_fn if test else else_fn)()
        return
    entry, mark = get_state(), len(current().changes)
    found = known_inside(then_fn, test) if current().trials else None
    while found is None:
        try:
            _stage_if(test, then_fn, else_fn, entry, get_state, set_state, names, event)
            return
        except Inside as inside:
            set_state(entry)
            current().undo(mark)
            if inside.window.frame is not current().frame:
                raise
            note_inside(then_fn, inside, test)
            found = inside
        except NeedsPythonValue as error:
            set_state(entry)
            if not has_remedy(error):
                raise
    if joins and found.is_joined(test):
        try:
            JOIN[0](test, then_fn, else_fn, get_state, set_state, names)
            return
        except (CaptureError, RestageError):
            set_state(entry)
            current().undo(mark)
    holds = found.window.decide(lambda: test.value, "a condition", user_span())
    (then_fn if holds else else_fn)()


def _stage_if(
    test: Tracer,
    then_fn: Callable[[], None],
    else_fn: Callable[[], None],
    entry: tuple[Any, ...],
    get_state: GetState,
    set_state: SetState,
    names: tuple[str, ...],
    event: str,
) -> None:
    capture = current()
    span = user_span()
    condition = test.value
    carried = cells_of(get_state)
    branches: list[Branch] = []
    for fn, outcome in ((then_fn, True), (else_fn, False)):
        implied = list(_implied(condition, outcome))
        branch = Branch(fn, entry, lambda: get_state()[: len(names)], set_state, implied, carried)
        set_state(entry)
        if branch.raised is not None and (window := catching(branch.raised)) is not None:
            raise window.leave(type(branch.raised).__name__, test)
        branches.append(branch)
    for branch, other, negate in ((branches[0], branches[1], True), (branches[1], branches[0], False)):
        if branch.raised is not None:
            keep_effects(condition, branches, span)
            holds = stage(ops.logical_not, condition) if negate else condition
            raise_unless(holds, branch.raised)
            if other.raised is not None:
                raise other.raised
            if event:
                capture.events.append((span, f"{event}: staged as a check that raises"))
            # the check has decided: the other branch runs without condition
            (else_fn if negate else then_fn)()
            return
    rest = entry[len(names) :]
    join_branches(condition, branches, lambda values: set_state((*values, *rest)), names, span)
    if event:
        capture.events.append((span, f"{event}: staged"))


def _implied(condition: Value, holds: bool) -> Iterator[Value]:
    """Yield the conditions that hold where one does, or does not."""
    if holds:
        yield condition
    operation = condition.producer
    if operation is not None and operation.op == "logical_not":
        yield from _implied(operation.operands[0], not holds)
    elif operation is not None and holds and operation.op in ("logical_and", "bitwise_and"):
        for operand in operation.operands:
            yield from _implied(operand, True)


# ---- conditional expressions and boolean operators


def if_exp(test: Any, then_fn: Callable[[], Any], else_fn: Callable[[], Any]) -> Any:
    """`a if test else b`."""
    test = truth(test)
    if not isinstance(test, Tracer):
        return then_fn() if test else else_fn()
    state: list[Any] = [Undefined("the conditional expression")]
    bound = _merged(then_fn, else_fn)

    def run(fn: Callable[[], Any]) -> Callable[[], None]:
        def branch() -> None:
            state[0] = fn()

        return branch

    def set_state(values: tuple[Any, ...]) -> None:
        state[0] = values[0]
        bound.set_state(values[1:])

    def get_state() -> tuple[Any, ...]:
        return (state[0], *bound.get_state())

    state_names = "tg_value", *bound.names
    if_stmt(test, run(then_fn), run(else_fn), get_state, set_state, state_names, event="conditional expression")
    if type(state[0]) is Conflict:
        raise state[0].error
    return state[0]


class Binding:
    """The names that a part of an expression binds with `:=`, and how they are read and set."""

    def __init__(self, names: tuple[str, ...], get_state: GetState, set_state: SetState) -> None:
        self.names, self.get_state, self.set_state = names, get_state, set_state


#: functions for parts of expressions that bind names
BINDING: WeakKeyDictionary[Callable[[], Any], Binding] = WeakKeyDictionary()


def merged(*found: Binding) -> Binding:
    """Return what some parts of an expression bind together."""
    names = tuple(dict.fromkeys(name for each in found for name in each.names))

    def get_state() -> tuple[Any, ...]:
        values = {name: v for each in found for name, v in zip(each.names, each.get_state(), strict=True)}
        return tuple(values[name] for name in names)

    def set_state(values: tuple[Any, ...]) -> None:
        given = dict(zip(names, values, strict=True))
        for each in found:
            each.set_state(tuple(given[name] for name in each.names))

    return Binding(names, get_state, set_state)


def _merged(*parts: Callable[[], Any]) -> Binding:
    return merged(*(BINDING[part] for part in parts if part in BINDING))


def with_bindings(fn: Callable[[], Any], parts: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    """Return a function that runs some parts of an expression, noted as one that binds what they bind."""
    if any(part in BINDING for part in parts):
        BINDING[fn] = _merged(*parts)
    return fn


def and_(first: Any, *rest: Callable[[], Any]) -> Any:
    """`a and b and ...`: the first false operand, else the last."""
    if not rest:
        return first
    test = truth(first)
    if isinstance(test, Tracer):
        return _boolean(np.logical_and, test, first, with_bindings(lambda: and_(rest[0](), *rest[1:]), rest), False)
    return and_(rest[0](), *rest[1:]) if test else first


def or_(first: Any, *rest: Callable[[], Any]) -> Any:
    """`a or b or ...`: the first true operand, else the last."""
    if not rest:
        return first
    test = truth(first)
    if isinstance(test, Tracer):
        return _boolean(np.logical_or, test, first, with_bindings(lambda: or_(rest[0](), *rest[1:]), rest), True)
    return first if test else or_(rest[0](), *rest[1:])


def _boolean(ufunc: Any, test: Tracer, left: Any, right: Callable[[], Any], on: bool) -> Any:
    """Short-circuit on a traced left side; a plain logical op when the right side cannot fail and both are bool."""
    if right not in BINDING:
        value, both = _both(ufunc, test, left, right)
        if both is not None:
            return both
        if isinstance(left, StackedList) and _is_truth(value):
            left = test  # a list that is empty in some runs, or a bool: only its truth can be one of two values
    return if_exp(test, lambda: left, right) if on else if_exp(test, right, lambda: left)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (isinstance(value, Tracer) and value.dtype == BOOL)


def _both(ufunc: Any, test: Tracer, left: Any, right: Callable[[], Any]) -> tuple[Any, Any]:
    """Return the value on the right, and the logical op on both sides where that value can be computed without
    condition, else None."""
    capture = current()
    block = Block()
    value = bare = known = None
    with capture.open("branch", block) as frame:
        try:
            value = right()
            bare = truth(value)
            known = bare.value if isinstance(bare, Tracer) else None
        except Exception as error:
            if not is_fault(error) and not isinstance(error, Inside):
                raise
    has_effects = bool(leave_branch(frame) or frame.slots or frame.lists or frame.fills)
    simple = _is_truth(value) and (isinstance(left, StackedList) or asarray(left).dtype == BOOL)
    if simple and not has_effects and _is_total(block):
        capture.builder.block.operations.extend(block.operations)
        other = from_value(known, weak=True) if known is not None else bare
        return value, python_operator(np.bitwise_and if ufunc is np.logical_and else np.bitwise_or, test, other)
    return value, None


#: ops without arithmetic that cannot fail
_MOVES = frozenset({"constant", "full", "cast", "broadcast_to", "slice", "reshape", "transpose"})


def _is_total(block: Block) -> bool:
    """Whether running a block when it would have been skipped changes nothing: no faults, no effects, cheap."""
    return all(TABLE[o.op].elementwise or o.op in _MOVES for o in block.operations)


def not_(value: Any) -> Any:
    """`not a`."""
    test = truth(value)
    if isinstance(test, Tracer):
        return from_value(stage(ops.logical_not, test.value), weak=True)
    return not test


# ---- loops


def has_remedy(error: NeedsPythonValue) -> bool:
    """Do what lets a statement be staged after all, if there is something; return whether there was.

    Raises:
        NeedsPythonValue: a statement around can do it, which is where the list was made.
    """
    use, capture = error.remedy, current()
    if use is None or keep_as_array(use):
        return use is not None
    if 0 <= capture.created_depth(use.values) < capture.depth:
        raise error
    return False


def keep_as_array(use: ListUse | TableUse) -> bool:
    """Make a list or dict of this frame what the statement needs; return whether it is."""
    capture, values = current(), use.values
    if capture.created_depth(values) != capture.depth or capture.stacked[id(values)] > _STACKED_LIMIT:
        return False
    capture.stacked[id(values)] += 1
    if isinstance(use, TableUse):
        return make_table(use)
    note_list(use.values)
    return stack_items(use)
