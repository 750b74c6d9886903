"""Operators in converted code, `x + y`, `x < y`, `x in y`, `x += y`: each run natively or staged.

hooks.py gives these to converted code. Previous: iterables.py; next: members.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from numbers import Number
from typing import Any

import numpy as np

from tracegrad.capture import branches, comprehensions, lookups, sequences
from tracegrad.capture.choices import for_each, test_each
from tracegrad.capture.chosen import Chosen, Conflict
from tracegrad.capture.comparisons import (
    compare_dicts,
    compare_of_unknown_length,
    compare_sequences,
    contains,
    identical,
    is_compared_by_parts,
)
from tracegrad.capture.context import current, user_span
from tracegrad.capture.deques import require_no_question, require_plain
from tracegrad.capture.guards import is_user_function, new_container, special_method
from tracegrad.capture.iterables import has_unknown_length
from tracegrad.capture.lists import StackedList
from tracegrad.capture.masked import Selection
from tracegrad.capture.natives import note_augmented, require_own_iterator
from tracegrad.capture.presence import contains_key, require_sure
from tracegrad.capture.protocols import augmented, by_methods, iterable
from tracegrad.capture.state import OrNone, none_error
from tracegrad.capture.text import percent
from tracegrad.capture.tracer import (
    OPERATORS,
    PYTHON_VALUES,
    MaybeNone,
    Tracer,
    call_user,
    describe,
    is_numeric,
    is_traced,
    python_class,
    resolve_content,
)
from tracegrad.errors import NeedsPythonValue
from tracegrad.ir.types import is_integer


def aug_name(value: Any, op: str, other: Any) -> Any:
    """`name op= other`: returns what the name is bound to afterwards."""
    if type(value) is OrNone:
        value = _operand(op, value)
    require_plain(op, value)
    if isinstance(value, list) and special_method(value, f"__i{op}__") is None:
        if _is_of_numpy(other):
            if op == "mul" and _repeats(other):
                raise NeedsPythonValue(
                    "a list is repeated in place by a number that is known only when the compiled function runs",
                    code="TG101",
                    span=user_span(),
                    found=f"values *= {describe(other)}",
                    help="make a new list: `values = values * n`",
                )
            return operate(op, value, other)  # Python asks NumPy first, which makes an array
        if op == "add":
            call_user(value.extend, other)
            return value
    if not isinstance(value, Tracer):
        require_own_iterator(other)
        note_augmented(value, op)
        if type(value) is dict and op == "or":
            call_user(value.update, other)
            return value
    return augmented(value, op, other, operate)


# ---- operators


def operate(name: str, x: Any, y: Any) -> Any:
    """`x + y` (name "add"), `x < y` ("lt") and so on; methods of the user's classes are captured too."""
    if type(x) is Conflict or type(y) is Conflict:
        raise (x if type(x) is Conflict else y).error
    choose = test_each if name in _TESTS else for_each
    if type(x) is Chosen:
        return choose(x, lambda option: operate(name, option, y))
    if type(y) is Chosen:
        return choose(y, lambda option: operate(name, x, option))
    if name == "mod" and type(x) is str:
        return percent(x, y)
    if name in ("add", "mul"):
        require_plain(name, x, y)
    if name in ("eq", "ne"):
        require_no_question(name, x, y)
    if name in ("is", "is_not"):
        return identical(x, y) if name == "is" else branches.not_(identical(x, y))
    may_be_none = isinstance(x, MaybeNone | OrNone) or isinstance(y, MaybeNone | OrNone)
    if name in ("eq", "ne") and may_be_none and (x is None or y is None):
        return operate("is" if name == "eq" else "is_not", x, y)
    has_axes = any(isinstance(z, Tracer | np.ndarray) and z.ndim for z in (x, y))
    if name in ("eq", "ne") and not has_axes and (_is_number_or_none(x) or _is_number_or_none(y)):
        same = _equal_or_none(x, y)
        return same if name == "eq" else branches.not_(same)
    x, y = _operand(name, x), _operand(name, y)
    if name in ("in", "not_in"):
        if type(y) is comprehensions.Stream:
            found = comprehensions.contains(y, lambda item: operate("eq", item, x))
        else:
            found = _contains(x, y)
        return found if name == "in" else branches.not_(found)
    if name == "mul" and (repeated := _repeated(x, y)) is not NotImplemented:
        return repeated
    if isinstance(x, StackedList) or isinstance(y, StackedList):
        if isinstance(x, list) and isinstance(y, list) and has_unknown_length((x, y)):
            if name in _COMPARISONS:
                return compare_of_unknown_length(name, x, y, operate)
            if name == "add":
                result = x.copy() if isinstance(x, StackedList) else new_container([*x])
                call_user(result.extend, y)
                return result
        x, y = _plain_list(x), _plain_list(y)
    if isinstance(x, dict) or isinstance(y, dict):
        require_sure(x, y)
    if name in _COMPARISONS and is_compared_by_parts(name, x, y):
        return (compare_dicts if isinstance(x, dict) else compare_sequences)(name, x, y, operate)
    if isinstance(x, list) or isinstance(y, list):
        return new_container(_OPERATORS[name](x, y))
    if type(x) in PYTHON_VALUES and type(y) in PYTHON_VALUES:
        return _OPERATORS[name](x, y)
    result = by_methods(name, x, y)
    if result is NotImplemented and name in ("eq", "ne") and _is_by_identity(x, y):
        return operate("is" if name == "eq" else "is_not", x, y)
    if result is NotImplemented:
        result = _OPERATORS[name](*_for_python(name, x, y))
    return result


def _is_by_identity(x: Any, y: Any) -> bool:
    """Return whether `x == y` is `x is y`, where no method of the user's has given anything."""
    if getattr(type(x), "__eq__", None) is object.__eq__:
        return True
    number, other = (x, y) if isinstance(x, Tracer) else (y, x)
    if not isinstance(number, Tracer) or number.ndim:
        return False
    return is_user_function(getattr(type(other), "__eq__", None)) and not isinstance(other, Number | np.ndarray)


def _for_python(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Return operands, of which a traced number is Python's own where the other is an object that computes by itself:
    a date, a Fraction."""
    number, other = (x, y) if isinstance(x, Tracer) else (y, x)
    if not isinstance(number, Tracer) or not number.is_scalar or not _computes_by_itself(name, other):
        return x, y
    if isinstance(other, Fraction) and number.dtype.kind in "fc":
        other = float(other)
    else:
        number = number.plain_number()
    return (number, other) if isinstance(x, Tracer) else (other, number)


def _computes_by_itself(name: str, value: Any) -> bool:
    """Return whether an object that is no numeric array has a method for an operator."""
    if (
        type(value) in PYTHON_VALUES
        or isinstance(value, str | bytes | Selection | Tracer | MaybeNone)
        or hasattr(value, "as_tracer")
    ):
        return False
    methods = [getattr(type(value), method, None) for method in (f"__{name}__", f"__r{name}__")]
    own = any(method not in (None, getattr(object, f"__{name}__", None)) for method in methods)
    return own and not is_numeric(np.asarray(value))


def _is_of_numpy(value: Any) -> bool:
    """Return whether a value is an array or a number of NumPy's, or a traced int or bool of Python's."""
    return isinstance(value, Tracer | Selection | np.ndarray | np.generic)


def _repeats(count: Any) -> bool:
    """Return whether a traced value is a number that says how often a sequence is repeated.

    Raises:
        TypeError: it is another number.
    """
    if not isinstance(count, Tracer) or count.ndim or count.zero_dim:
        return False
    if not is_integer(count.dtype) and not (count.weak and count.dtype.kind == "b"):
        raise TypeError(f"can't multiply sequence by non-int of type '{python_class(count).__name__}'")
    return resolve_content(count) is None


def _repeated(x: Any, y: Any) -> Any:
    """`values * count` of a list and a traced number of times; NotImplemented for all else."""
    values, count = (x, y) if isinstance(x, list | tuple | str) else (y, x)
    if not isinstance(values, list | tuple | str):
        return NotImplemented
    if not _repeats(count):
        if isinstance(count, Tracer) and not count.ndim and not count.zero_dim:
            return operate("mul", values, int(resolve_content(count)))  # type: ignore[arg-type]
        if not (isinstance(values, StackedList) and values.has_unknown_length and isinstance(count, int)):
            return NotImplemented
    elif not isinstance(values, list):
        raise NeedsPythonValue(
            f"a {type(values).__name__} is repeated by a number that is known only when the compiled function runs",
            code="TG101",
            span=user_span(),
            found=f"{describe(values)} * {describe(count)}",
            help="repeat a list of numbers, `[v] * n`, or use np.full",
        )
    times = sequences.make_range(count)
    return comprehensions.collect(
        comprehensions.Each(times, "", lambda _: comprehensions.Each(values, "", comprehensions.Item))
    )


def _is_number_or_none(value: Any) -> bool:
    """Return whether a value is a number that may be None, and no open branch says that it is not."""
    return isinstance(value, MaybeNone) and value.present.value not in current().holding


def _equal_or_none(x: Any, y: Any) -> Any:
    """`x == y` of numbers of which one at least may be None."""
    (x_there, x), (y_there, y) = ((z.present, z.some) if _is_number_or_none(z) else (True, z) for z in (x, y))
    same = branches.and_(x_there, lambda: branches.and_(y_there, lambda: operate("eq", x, y)))
    neither = branches.not_(branches.or_(x_there, lambda: y_there))
    return branches.or_(same, lambda: neither)


def _operand(name: str, value: Any) -> Any:
    """Return an operand, which must not be None."""
    if type(value) is not OrNone:
        return value
    if name in ("eq", "ne"):
        raise none_error("is compared")
    return value.read(f"unsupported operand type(s) for {name}: 'NoneType'")


def _contains(item: Any, container: Any) -> Any:
    require_own_iterator(container)
    method = special_method(container, "__contains__")
    if method is not None:
        return branches.truth(call_user(method, container, item))
    mapping_ = container.mapping if isinstance(container, type({}.keys())) else container
    if lookups.is_lookup(mapping_, item):
        return lookups.has_key(mapping_, item)
    found = NotImplemented if is_traced(item) else contains_key(container, item)
    if found is not NotImplemented:
        return found
    if not hasattr(type(container), "__contains__"):
        container = iterable(container)
    return contains(item, container, operate)


def _plain_list(value: Any) -> Any:
    return new_container(list(value)) if isinstance(value, StackedList) else value


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "or": operator.or_,
    "and": operator.and_,
    **{name: getattr(operator, name) for name in OPERATORS if name not in ("or", "and")},
    "matmul": operator.matmul,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
}


OPERATOR_NAMES: dict[Any, str] = {function: name for name, function in _OPERATORS.items()}


_TESTS = frozenset({"is", "is_not", "in", "not_in", "eq", "ne"})


_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
