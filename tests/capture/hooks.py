"""Hooks that do plain Python, and the comparison of a function with its conversions.

`NativeHooks` is plain Python. `ForgetfulHooks` forgets, after each branch and each turn of a loop, every variable that
is not in the state of the statement: so it shows when the state misses one.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import operator
import re
import types
from typing import Any

from tracegrad.capture.convert import convert, dump_converted


class Undefined:
    """Stands for a variable that is not bound."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fail(self, *_: object) -> Any:
        raise AssertionError(f"{self.name} is used while it is not bound")

    __bool__ = __add__ = __radd__ = __iter__ = __eq__ = __lt__ = __getitem__ = __call__ = fail
    __hash__ = None  # type: ignore[assignment]


COMPARISONS = {
    "is": operator.is_,
    "is_not": operator.is_not,
    "in": lambda x, y: x in y,
    "not_in": lambda x, y: x not in y,
}


class NativeHooks:
    """Plain Python."""

    def if_stmt(self, test, then_fn, else_fn, get_state, set_state, names):
        if test:
            then_fn()
        else:
            else_fn()
        assert len(get_state()) >= len(names)

    def guarded(self, *parts):
        self.if_stmt(*parts)

    def while_stmt(self, test_fn, body_fn, get_state, set_state, names):
        while test_fn():
            body_fn()
        assert len(get_state()) == len(names)

    def for_stmt(self, iterable, body_fn, get_state, set_state, names, extra_test):
        items = iter(iterable)
        while extra_test is None or extra_test():
            try:
                item = next(items)
            except StopIteration:
                break
            body_fn(item)
        assert len(get_state()) == len(names)

    def if_exp(self, test, then_fn, else_fn):
        return then_fn() if test else else_fn()

    def and_(self, value, *fns):
        for fn in fns:
            if not value:
                break
            value = fn()
        return value

    def or_(self, value, *fns):
        for fn in fns:
            if value:
                break
            value = fn()
        return value

    def not_(self, value):
        return not value

    def compare_chain(self, value, operators, fns):
        result = True
        for name, fn in zip(operators, fns, strict=True):
            if not result:
                break
            other = fn()
            result = COMPARISONS.get(name, getattr(operator, name, None))(value, other)
            value = other
        return result

    def call(self, f, /, *args, **kwargs):
        if isinstance(f, types.MethodType) and isinstance(f.__func__, types.FunctionType):
            return self.call(f.__func__, f.__self__, *args, **kwargs)
        if isinstance(f, types.FunctionType) and f.__module__ in ("tests.capture.programs", "builtins"):
            f = convert(f, self)
        return f(*args, **kwargs)

    def getitem(self, x, key):
        return x[key]

    def setitem(self, x, key, value):
        x[key] = value

    def aug_setitem(self, x, key, op, value):
        x[key] = self.aug_name(x[key], op, value)

    def exchange(self, x, keys, others):
        for key, value in zip(keys, [x[other] for other in others], strict=True):
            x[key] = value

    def operate(self, name, x, y):
        if name in COMPARISONS:
            return COMPARISONS[name](x, y)
        return getattr(operator, {"or": "or_", "and": "and_"}.get(name, name))(x, y)

    def unary(self, name, x):
        return getattr(operator, name)(x)

    def decide(self, test):
        return bool(test)

    def items(self, values):
        return values

    def mapping(self, values):
        return values

    def suspending(self, generator, emits, is_endless, *args):
        return generator(*args)

    def try_stmt(self, fn, get_state, set_state, names):
        fn()
        assert len(get_state()) >= len(names)

    def step(self, number, is_left):
        return True

    def attempt(self, handled):
        return contextlib.nullcontext()

    trial = attempt

    def raised(self, value):
        return value

    cause = raised

    def passing(self):
        return ()

    def context(self, manager):
        return manager

    def suppressing(self, manager):
        return contextlib.nullcontext(manager._exceptions)

    def text(self, *parts):
        return "".join(parts)

    def format(self, value, conversion, spec):
        return format({"r": repr, "s": str, "a": ascii, "": lambda v: v}[conversion](value), spec)

    def getattr(self, x, name):
        return getattr(x, name)

    def outer(self, value, name, read):
        assert read() is value
        return value

    def rebinds(self, name, read, carried):
        assert name in read.__globals__ or read.__closure__
        assert isinstance(carried, bool)

    def cells(self, read):
        assert read.__closure__

    def display(self, value):
        assert type(value) in (list, dict, types.GeneratorType)
        return value

    def delitem(self, x, key):
        del x[key]

    def delattr(self, x, name):
        delattr(x, name)

    def setattr(self, x, name, value):
        setattr(x, name, value)

    def aug_setattr(self, x, name, op, value):
        setattr(x, name, self.aug_name(getattr(x, name), op, value))

    def aug_name(self, x, op, value):
        return getattr(operator, "i" + op)(x, value)

    def binding(self, fn, *names):
        assert names
        return fn

    def name(self, name, value):
        assert not isinstance(value, Undefined), name
        return value

    def load(self, value, name):
        if isinstance(value, Undefined):
            raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
        return value

    def undefined(self, name):
        return Undefined(name)

    def decorator(self, apply):
        return apply

    def unpack(self, value, count, star):
        if star is None:
            values = list(value)
            if len(values) < count:
                raise ValueError(f"not enough values to unpack (expected {count}, got {len(values)})")
            if len(values) > count:
                raise ValueError(f"too many values to unpack (expected {count})")
            return tuple(values)
        values = list(value)
        rest = len(values) - (count - 1)
        if rest < 0:
            raise ValueError(f"not enough values to unpack (expected at least {count - 1}, got {len(values)})")
        return (*values[:star], values[star : star + rest], *values[star + rest :])

    def spread(self, value):
        return value

    def iter(self, value):
        return value

    def each(self, values, pattern, body, get_state=tuple, set_state=None, names=()):
        assert len(get_state()) == len(names)
        return "each", iter(values), pattern, body

    def when(self, test, then):
        return "when", test, then

    def item(self, value):
        return "item", value

    def generator(self, step):
        return self.generated(step)

    def collect(self, step):
        return list(self.generated(step))

    def collect_items(self, step):
        return dict(self.generated(step))

    def generated(self, step):
        kind, value, *rest = step
        if kind == "item":
            yield value
        elif kind == "when":
            if value:
                yield from self.generated(rest[0]())
        else:
            for item in value:
                yield from self.generated(rest[1](*self.bound(rest[0], item)))

    def bound(self, pattern, item):
        if isinstance(pattern, str):
            return [item]
        parts = self.unpack(item, len(pattern), None)
        return [value for part, inner in zip(pattern, parts, strict=True) for value in self.bound(part, inner)]

    def truth(self, value):
        return bool(value)

    guard = test = holds = truth

    def assert_(self, test, message):
        if not test:
            text = message()
            raise AssertionError(text) if text is not None else AssertionError

    def ret(self, value):
        assert not isinstance(value, Undefined)
        return value


class ForgetfulHooks(NativeHooks):
    """Plain Python that forgets what is not in the state of a statement when the statement, or a turn of it, ends."""

    def if_stmt(self, test, then_fn, else_fn, get_state, set_state, names):
        # capture runs the other branch before, and then sets the state back
        forget(tuple(stored_names(set_state.__code__)), else_fn if test else then_fn)
        super().if_stmt(test, then_fn, else_fn, get_state, set_state, names)
        forget(names, then_fn, else_fn)
        set_state(get_state())

    def try_stmt(self, fn, get_state, set_state, names):
        super().try_stmt(fn, get_state, set_state, names)
        forget(names, fn)
        set_state(get_state())

    def while_stmt(self, test_fn, body_fn, get_state, set_state, names):
        def body():
            body_fn()
            forget(names, test_fn, body_fn)
            set_state(get_state())

        def test():
            result = test_fn()
            forget(names, test_fn)
            return result

        super().while_stmt(test, body, get_state, set_state, names)

    def for_stmt(self, iterable, body_fn, get_state, set_state, names, extra_test):
        def body(item):
            body_fn(item)
            forget(names, body_fn)
            set_state(get_state())

        super().for_stmt(iterable, body, get_state, set_state, names, extra_test)


def forget(names: tuple[str, ...], *functions: Any) -> None:
    for function in functions:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name in stored_names(function.__code__):
            if name not in names and name in cells:
                cells[name].cell_contents = Undefined(name)


def stored_names(code: types.CodeType) -> set[str]:
    """Return the variables of enclosing functions that a piece of a converted function rebinds."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_DEREF"}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant.co_name == code.co_name:
            found |= stored_names(constant)
    return found


def outcome(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return what a call gives, and what it leaves in its arguments."""
    arguments = copy.deepcopy(arguments)
    try:
        result = function(*arguments)
    except Exception as error:
        result = type(error), str(error)
        if isinstance(error, NameError):
            result = NameError
    return without_kind_of_name_error(repr(result)), without_kind_of_name_error(repr(arguments))


def without_kind_of_name_error(text: str) -> str:
    """Python says which scope an unbound variable belongs to; conversion moves code between scopes."""
    return re.sub(r"NameError\(.*?\)", "NameError()", text.replace("UnboundLocalError", "NameError"))


def check(function: Any, *calls: tuple[Any, ...], hooks: tuple[Any, ...] = (NativeHooks, ForgetfulHooks)) -> None:
    """Compare a function with its conversions, for each tuple of arguments."""
    for kind in hooks:
        converted = convert(function, kind())
        assert converted.__code__ is not function.__code__
        for arguments in calls:
            assert outcome(converted, arguments) == outcome(function, arguments), dump_converted(function)
