"""Builtins, the math module, operator and functools on traced values.

Previous: fourier.py; next: functional.py.

Functions of math take anything of one element and give a Python scalar. Results keep their derivative, except
those that are int or bool.
"""

from __future__ import annotations

import bisect
import cmath
import functools
import heapq
import itertools
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.aliases import link
from tracegrad.capture.branches import if_exp, truth
from tracegrad.capture.chosen import Chosen, Options
from tracegrad.capture.comparisons import is_captured
from tracegrad.capture.context import current, user_span
from tracegrad.capture.iterators import Ahead
from tracegrad.capture.joins import is_number
from tracegrad.capture.lists import pin
from tracegrad.capture.masked import Selection
from tracegrad.capture.numpy_api.common import (
    covers,
    full,
    known_scalar,
    reshape,
    select,
)
from tracegrad.capture.numpy_api.elementwise import (
    absolute,
    add,
    ceil,
    divide,
    equal,
    exp2,
    floor,
    isfinite,
    isnan,
    less_equal,
    log,
    logical_and,
    logical_or,
    multiply,
    rint,
    safe_sqrt,
    square,
    subtract,
    trunc,
)
from tracegrad.capture.numpy_api.indexing import getitem
from tracegrad.capture.numpy_api.math_faults import check_arguments, check_result
from tracegrad.capture.slots import new_list
from tracegrad.capture.state import flatten, is_option, unflatten
from tracegrad.capture.text import Part, parts_of
from tracegrad.capture.tracer import (
    COMPARISONS,
    PYTHON_VALUES,
    Tracer,
    apply,
    asarray,
    call_handler,
    call_user,
    cast_to,
    check,
    describe,
    from_value,
    inplace,
    is_traced,
    make_weak,
    python_class,
    python_operator,
    resolve_content,
    stage,
    unsupported,
)
from tracegrad.capture.trees import Tree, nodes
from tracegrad.capture.trials import BEYOND_INT64, said
from tracegrad.errors import ArgumentTypeError, CaptureError, NeedsPythonValue, TracedValueError
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import BOOL, F64, I64, is_complex, is_float

# ---- conversions


def _converts_arrays() -> bool:
    """Return whether NumPy converts arrays of one element that have axes to Python numbers, as it did before 2.4."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(np.zeros(1)) == 0.0
        except TypeError:
            return False


_CONVERTS_ARRAYS = _converts_arrays()


def scalar(value: Any, what: str, *, converted: bool = True) -> Tracer:
    """Return a traced operand of a function that takes one number, `converted` to a Python number.

    Raises:
        ArgumentTypeError: it has not exactly one element.
    """
    tracer = asarray(value)
    if tracer.type.size != 1 or (converted and tracer.ndim and not _CONVERTS_ARRAYS):
        raise ArgumentTypeError(
            f"{what} takes one number",
            code="TG109",
            span=user_span(),
            found=describe(tracer),
            help="only arrays of one element, since NumPy 2.4 without axes, can be converted to Python scalars; take "
            "the element (`x.item()`), or use the NumPy function for arrays",
        )
    return reshape(tracer, ())


def _float(value: Any, what: str) -> Tracer:
    """Return a number as a rank-0 f64."""
    tracer = scalar(value, what)
    if is_complex(tracer.dtype):
        raise ArgumentTypeError(
            f"{what} takes a real number",
            code="TG127",
            span=user_span(),
            found=describe(tracer),
            help="take np.real or np.abs first",
        )
    return cast_to(tracer, F64)


def weak(tracer: Tracer) -> Tracer:
    return from_value(tracer.value, weak=True)


@covers(float)
def float_(x: Any = 0.0, /) -> Tracer:
    return weak(_float(x, "float()"))


@covers(int)
def int_(x: Any = 0, /) -> Tracer:
    """Truncate; the derivative ends here."""
    tracer = scalar(x, "int()")
    if tracer.dtype == I64:
        return weak(tracer)
    return _whole(tracer, trunc)


def _whole(tracer: Tracer, rounded: Callable[[Tracer], Tracer]) -> Tracer:
    """Return a number rounded to a Python int; raises Python's error (at run time) where there is none."""
    if not is_float(tracer.dtype):
        return weak(cast_to(tracer, I64))
    check(equal(tracer, tracer), "ValueError", "cannot convert float NaN to integer")
    size = absolute(tracer)
    if current().windows:  # handlers catch the infinity only
        check(call_handler(np.not_equal, size, math.inf), "OverflowError", "cannot convert float infinity to integer")
    check(call_handler(np.less, size, 2.0**63), "OverflowError", BEYOND_INT64)
    return weak(cast_to(rounded(tracer), I64))


@covers(bool)
def bool_(x: Any = False, /) -> Any:
    if isinstance(x, Tracer):
        if x.type.size != 1:
            return bool(x)  # raises as NumPy does
        return weak(cast_to(reshape(x, ()), BOOL))
    return bool(x)


@covers(complex)
def complex_(real: Any = 0.0, imag: Any = None, /) -> Tracer:
    result = cast_to(scalar(real, "complex()"), np.dtype(np.complex128))
    if imag is not None:
        result = add(result, multiply(cast_to(scalar(imag, "complex()"), np.dtype(np.complex128)), 1j))
    return weak(result)


def _scalar_type(dtype: Any) -> Callable[..., Tracer]:
    kind = np.dtype(dtype)
    return lambda x=0, /: cast_to(asarray(x), kind)


for _kind in (
    np.float64,
    np.float32,
    np.float16,
    np.int64,
    np.int32,
    np.int16,
    np.int8,
    np.uint64,
    np.uint32,
    np.uint16,
    np.uint8,
    np.bool_,
    np.complex64,
    np.complex128,
):
    covers(_kind)(_scalar_type(_kind))


# ---- builtins


@covers(len, native=False)
def len_(x: Any, /) -> Any:
    if isinstance(x, Tracer):
        if not x.ndim:
            raise TypeError("len() of unsized object")
        return x.shape[0]
    return len(x.as_tracer()) if not isinstance(x, list | tuple | dict) and hasattr(x, "as_tracer") else len(x)


@covers(abs)
def abs_(x: Any, /) -> Any:
    return python_operator(np.absolute, x)


@covers(pow)
def pow_(base: Any, exp: Any, mod: Any = None) -> Any:
    result = python_operator(np.power, base, exp)
    return result if mod is None else python_operator(np.remainder, result, mod)


@covers(divmod)
def divmod_(x: Any, y: Any, /) -> tuple[Any, Any]:
    return python_operator(np.floor_divide, x, y), python_operator(np.remainder, x, y)


@covers(round)
def round_(number: Any, ndigits: Any = None) -> Any:
    tracer = asarray(number)
    if ndigits is None and not tracer.ndim:
        return _whole(tracer, rint)
    result = call_handler(np.round, tracer, 0 if ndigits is None else ndigits)
    return weak(result) if tracer.weak else result


def _items(iterable: Any) -> list[Any] | Tracer:
    """Return what a builtin iterates over: the rows of an array stay together."""
    return iterable if isinstance(iterable, Tracer) else list(iterable)


@covers(sum, native=False, always=True)
def sum_(iterable: Any, /, start: Any = 0) -> Any:
    """Add up in Python's order; the rows of an array in one reduction."""
    if isinstance(iterable, Tracer):
        if not iterable.ndim:
            raise TypeError("iteration over a 0-d array")
        total = call_handler(np.sum, iterable, axis=0, dtype=None if iterable.dtype == BOOL else iterable.dtype)
        return (
            total
            if known_scalar(start) is not None and known_scalar(start) == 0
            else python_operator(np.add, start, total)
        )
    items = _items(iterable)
    if all(type(v) in PYTHON_VALUES for v in (*items, start)) and not is_traced((*items, start)):
        return sum(items, start)
    total = start
    for item in items:
        total = call_user(operator.add, total, item)
    return total


def _choose(better: Any, function: Any, name: str) -> Callable[..., Any]:
    missing = object()

    def choose(*args: Any, key: Any = None, default: Any = missing) -> Any:
        if len(args) == 1 and isinstance(args[0], Tracer) and key is None:
            if args[0].ndim != 1:
                raise TracedValueError(
                    "the truth value of an array with more than one element is ambiguous",
                    code="TG102",
                    span=user_span(),
                    found=f"{name}() of {describe(args[0])}",
                    help=f"use np.{name}(x)",
                )
            return call_handler(function, args[0])
        items = list(args[0]) if len(args) == 1 else list(args)
        if not items:
            if default is not missing:
                return default
            raise ValueError(f"{name}() iterable argument is empty")
        best = items[0]
        rank = best if key is None else call_user(key, best)
        for item in items[1:]:
            other = item if key is None else call_user(key, item)
            wins = call_user(better, other, rank)
            best = _pick(wins, item, best)
            rank = best if key is None else _pick(wins, other, rank)
        return best

    return choose


def _pick(condition: Any, x: Any, y: Any) -> Any:
    """Return x when the condition holds, else y, as a conditional expression does."""
    if not isinstance(condition, Tracer):
        return x if condition else y
    if condition.concrete is not None or condition.type.size != 1:
        return x if condition else y
    if not (is_number(x) and is_number(y)):
        return if_exp(condition, lambda: x, lambda: y)
    first, second = asarray(x), asarray(y)
    result = select(condition, first, second)
    return weak(result) if first.weak and second.weak else result


max_ = covers(max, native=False, always=True)(_choose(operator.gt, np.max, "max"))
min_ = covers(min, native=False, always=True)(_choose(operator.lt, np.min, "min"))


class Compared:
    """What `functools.cmp_to_key` makes of a value: ordered as a function of the user compares two of them."""

    def __init__(self, compare: Callable[[Any, Any], Any], value: Any) -> None:
        self.compare, self.obj = compare, value

    def __lt__(self, other: Compared) -> Any:
        return call_user(operator.lt, call_user(self.compare, self.obj, other.obj), 0)

    def __gt__(self, other: Compared) -> Any:
        return call_user(operator.gt, call_user(self.compare, self.obj, other.obj), 0)


class _Known:
    """A value with a method of the user's, of which it is known at capture whether it comes before another one."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Known) -> bool:
        return bool(call_user(operator.lt, self.value, other.value))


_KEY_FROM_OUTSIDE = type(functools.cmp_to_key(lambda one, other: 0))


@covers(functools.cmp_to_key, native=False, always=True)
def cmp_to_key(mycmp: Any) -> Any:
    """Return a key that orders values as a function compares them."""
    return functools.partial(Compared, mycmp)


@covers(sorted, native=False, always=True)
def sorted_(iterable: Any, /, *, key: Any = None, reverse: Any = False) -> list[Any]:
    """Sort numbers, arrays by keys that are numbers, tuples of them, and objects by their methods; a tie keeps its
    order."""
    given = list(iterable)
    if type(key) is _KEY_FROM_OUTSIDE and is_traced(given):
        raise unsupported(
            "a key of functools.cmp_to_key that is made outside the function, for traced values",
            "make it where it is used: `sorted(values, key=functools.cmp_to_key(compare))`",
        )
    ranks = given if key is None else [call_user(key, item) for item in given]
    if all(isinstance(rank, tuple) and rank and not is_captured(rank[0]) for rank in ranks):
        leads = [rank[0] for rank in ranks]
        if all(a != b for a, b in itertools.combinations(leads, 2)):  # what comes after the first is not compared
            ranks = leads
    if not is_traced(ranks):
        is_compared = is_captured(ranks)
        keys = [_Known(rank) for rank in ranks] if is_compared else ranks
        try:
            order = sorted(range(len(given)), key=keys.__getitem__, reverse=reverse)
        except NeedsPythonValue:
            if not (is_compared or any(isinstance(rank, Compared) for rank in ranks)):
                raise _unsorted() from None
            return _sorted_parts(given, ranks, reverse)
        return [given[k] for k in order]
    if not all(map(_is_scalar, (*given, *ranks))):
        return _sorted_parts(given, ranks, reverse)
    items = [asarray(v) for v in given]
    is_weak = all(v.weak for v in items)
    if key is not None:
        keys = call_handler(np.stack, [asarray(r) for r in ranks])
        order = call_handler(np.argsort, call_handler(np.negative, keys) if reverse else keys, kind="stable")
        chosen = call_handler(np.take, call_handler(np.stack, items), order)
        picked = [getitem(chosen, k) for k in range(len(items))]
        return [weak(v) for v in picked] if is_weak else picked
    ordered = call_handler(np.sort, call_handler(np.stack, items))
    result = [getitem(ordered, k) for k in range(len(items))]
    if reverse:
        result.reverse()
    return [weak(v) for v in result] if is_weak else result


def _is_scalar(value: Any) -> bool:
    return is_number(value) and not asarray(value).ndim


#: each pair of items is compared
_SORT_LIMIT = 128


def _sorted_parts(given: list[Any], ranks: list[Any], reverse: Any) -> list[Any]:
    """Sort anything that has parts: part by part, in the order that comparisons of all pairs of ranks give."""
    if len(given) > _SORT_LIMIT or not all(map(_is_ordered, ranks)):
        raise _unsorted()
    places: list[Any] = [0] * len(given)
    for j in range(len(given)):
        for i in range(j):
            pair = (ranks[i], ranks[j]) if reverse else (ranks[j], ranks[i])
            swapped = call_user(int, call_user(operator.lt, *pair))
            places[i], places[j] = places[i] + swapped, places[j] + (1 - swapped)
    stacked = call_handler(np.stack, [asarray(p) for p in places])
    if not is_traced(ranks):  # Python gives some order, by which pairs it compares
        is_order = call_handler(np.all, call_handler(np.equal, call_handler(np.sort, stacked), np.arange(len(given))))
        check(is_order, "ValueError", "the comparisons of the values that are sorted contradict each other")
    if not is_traced(places):  # of one item, or by what is known of the ranks
        return [given[k] for k in np.argsort(places)]
    order = call_handler(np.argsort, stacked)
    trees = [flatten(item) for item in given]
    if not all(tree == trees[0][1] and _is_fixed(tree) for _, tree in trees):
        raise _unsorted()
    columns = [_in_order(list(leaves), order) for leaves in zip(*(leaves for leaves, _ in trees), strict=True)]
    result = [unflatten(trees[0][1], [column[k] for column in columns], new_list) for k in range(len(given))]
    for k, item in enumerate(result):
        made = flatten(item)[1]
        for number, (_, tree) in enumerate(trees):
            for one, other in nodes(made, tree):
                here = call_handler(np.equal, order[k], number).value
                link(one.origin, other.origin, frozenset([(here, True)]), current().frame.block)
    return result


def _is_fixed(tree: Tree) -> bool:
    """Return whether a value is made of tuples, lists, dicts, objects, numbers and arrays."""
    if tree.kind is None:
        return True
    return (issubclass(tree.kind, tuple) or tree.origin is not None) and all(map(_is_fixed, tree.children))


def _is_ordered(rank: Any) -> bool:
    return _is_scalar(rank) or (isinstance(rank, tuple | list) and all(map(_is_ordered, rank))) or not is_traced(rank)


def _in_order(leaves: list[Any], order: Any) -> list[Any]:
    """Return one part of each item in an order that is traced."""
    if all(leaf is leaves[0] for leaf in leaves):
        return leaves
    if all(map(is_option, leaves)):
        options = Options(leaves, _unsorted())
        return [Chosen(options, make_weak(order[k])) for k in range(len(leaves))]
    if not all(map(is_number, leaves)):
        raise _unsorted()
    items = [asarray(leaf) for leaf in leaves]
    if len({item.type.shape for item in items}) > 1:
        raise _unsorted()
    chosen = call_handler(np.take, call_handler(np.stack, items), order, axis=0)
    picked = [getitem(chosen, k) for k in range(len(items))]
    if items[0].ndim:
        picked = [row.copy() for row in picked]
        for array in (*items, *picked):  # which array each of the sorted ones is, is not known
            pin(array, "an array in a list that is sorted by traced keys, written before or after")
    return [weak(v) for v in picked] if all(v.weak for v in items) else picked


def _unsorted() -> CaptureError:
    return unsupported(
        f"sorted() by traced keys of more than {_SORT_LIMIT} items that are no numbers, or of items of different forms",
        "take the order from the keys, `order = np.argsort(keys)`, and index arrays of what is sorted by it",
    )


@covers(heapq.nlargest, native=False, always=True)
def nlargest(n: Any, iterable: Any, key: Any = None) -> list[Any]:
    return sorted_(iterable, key=key, reverse=True)[:n]


@covers(heapq.nsmallest, native=False, always=True)
def nsmallest(n: Any, iterable: Any, key: Any = None) -> list[Any]:
    return sorted_(iterable, key=key)[:n]


def _place_of(function: Any, side: str) -> Callable[..., Any]:
    def find(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
        if not is_captured(a) and not is_captured(x) and not isinstance(a, Tracer):
            return function(a, x, lo, hi, key=None if key is None else functools.partial(call_user, key))
        if not isinstance(lo, int) or lo or hi is not None:
            raise unsupported("bisect with lo= or hi= on traced values", "use np.searchsorted of a slice")
        ranks = a if key is None else [call_user(key, item) for item in a]
        if isinstance(ranks, Tracer) or all(map(_is_scalar, (*ranks, x))):
            return make_weak(call_handler(np.searchsorted, asarray(ranks), asarray(x), side=side))
        before = [call_user(operator.lt, *((rank, x) if side == "left" else (x, rank))) for rank in ranks]
        count = functools.reduce(functools.partial(call_user, operator.add), before, 0)
        return count if side == "left" else call_user(operator.sub, len(before), count)

    return find


covers(bisect.bisect_left, native=False, always=True)(_place_of(bisect.bisect_left, "left"))
covers(bisect.bisect_right, native=False, always=True)(_place_of(bisect.bisect_right, "right"))


@covers(any, native=False, always=True)
def any_of(iterable: Any, /) -> Any:
    return _fold(iterable, np.logical_or, np.any, False)


@covers(all, native=False, always=True)
def all_of(iterable: Any, /) -> Any:
    return _fold(iterable, np.logical_and, np.all, True)


def _fold(iterable: Any, ufunc: Any, reduction: Any, empty: bool) -> Any:
    if isinstance(iterable, Tracer):
        return make_weak(call_handler(reduction, iterable))
    total: Any = empty
    items = Ahead(iter(iterable))
    for item in items:
        holds = scalar(item, "a truth value", converted=False) if isinstance(item, Tracer) else truth(item)
        if holds is (not empty):
            return holds
        if isinstance(holds, Tracer):
            if id(iterable) in current().binders:
                raise NeedsPythonValue(
                    "a traced condition decides how many names `:=` binds in a lambda or comprehension",
                    code="TG101",
                    span=user_span(),
                    found="`:=` in a lambda or in another comprehension, in items that may not all be taken",
                    help="write a function with `def` instead of the lambda, or a loop with `break`",
                )
            total = weak(call_handler(ufunc, total, holds))
            items.is_sure = False
    return total


def is_instance(x: Any, kinds: Any) -> bool:
    """Return whether a traced value counts as an instance: an array, a NumPy scalar or a Python number."""
    if isinstance(kinds, tuple):
        return any(is_instance(x, k) for k in kinds)
    if hasattr(kinds, "__args__") and not isinstance(kinds, type):
        return any(is_instance(x, k) for k in kinds.__args__)
    if not isinstance(x, Tracer):
        return isinstance(x, kinds) or (kinds is int and hasattr(x, "dim"))
    if kinds is Tracer or kinds is object:
        return True
    if x.weak:
        return issubclass(python_class(x), kinds)
    if not x.ndim and x.zero_dim is not True and issubclass(x.dtype.type, kinds):
        return True
    return (x.ndim > 0 or x.zero_dim is not False) and issubclass(np.ndarray, kinds)


@covers(isinstance, native=False)
def isinstance_(x: Any, kinds: Any, /) -> bool:
    return is_instance(x, kinds)


@covers(type, native=False)
def type_(x: Any, /, *rest: Any) -> Any:
    if rest or not isinstance(x, Tracer):
        return type(x, *rest)
    return python_class(x)


@covers(hasattr, native=False)
def hasattr_(x: Any, name: str, /) -> bool:
    return hasattr(python_class(x) if isinstance(x, Tracer) else x, name)


@covers(np.isscalar, native=False)
def isscalar(element: Any) -> bool:
    return not element.ndim if isinstance(element, Tracer) else np.isscalar(element)


@covers(callable, native=False)
def callable_(x: Any, /) -> bool:
    return not isinstance(x, Tracer) and callable(x)


@covers(id, native=False)
def id_(x: Any, /) -> int:
    return id(x)


@covers(print, native=False)
def print_(*values: Any, sep: Any = None, end: Any = None, file: Any = None, flush: bool = False) -> None:
    """Print when the compiled function runs."""
    if file is not None:
        raise unsupported("print of traced values with file=", "print to the standard output")
    parts: list[str] = []
    traced: list[Any] = []
    for position, value in enumerate(values):
        if position:
            parts.append(_escaped(" " if sep is None else sep))
        for part in parts_of(value.as_tracer() if isinstance(value, Selection) else value):
            if isinstance(part, Part):
                traced.append(part.value)
            parts.append(part.field if isinstance(part, Part) else _escaped(part))
    parts.append(_escaped("\n" if end is None else end))
    stage(ops.print_, *traced, format="".join(parts))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


# ---- the math module

#: functions of math that are one op
_FUNCTIONS = {f: op for op in TABLE.values() for f in op.python if getattr(f, "__module__", None) == "math"}
_SPECIAL_MATH = (math.floor, math.ceil, math.trunc, math.log, math.hypot, math.pow)


def _register_math(function: Any, op: Any) -> None:
    name = f"math.{function.__name__}"

    def apply_math(*args: Any) -> Tracer:
        if len(args) != len(op.operands):
            raise TypeError(f"{name} takes {len(op.operands)} arguments ({len(args)} given)")
        values = [_float(a, name) for a in args]
        check_arguments(function, *values)
        result = apply(op, *values)
        check_result(function, result, values[0])
        return weak(result)

    covers(function)(apply_math)


for _function, _op in _FUNCTIONS.items():
    if _function not in _SPECIAL_MATH:
        _register_math(_function, _op)


@covers(math.log)
def math_log(x: Any, base: Any = None, /) -> Tracer:
    value = _float(x, "math.log")
    check_arguments(math.log, value)
    if base is None:
        return weak(log(value))
    other = _float(base, "math.log")
    if known_scalar(base) is None:
        check_arguments(math.log, other)
    if known_scalar(base) in (None, 1):
        message = said(operator.truediv, 1.0, 0.0)
        check(call_handler(np.not_equal, other, 1.0), "ZeroDivisionError", message)
    return weak(divide(log(value), asarray(math.log(known_scalar(base))) if known_scalar(base) else log(other)))


@covers(math.pow)
def math_pow(x: Any, y: Any, /) -> Tracer:
    base, known = _float(x, "math.pow"), known_scalar(y)
    exponent = _float(y, "math.pow") if known is None else asarray(float(known))
    result = weak(call_handler(np.power, base, exponent))
    if known is None or (math.isfinite(known) and (known != int(known) or known < 0)):
        # NaN from numbers, or infinity from zero
        if known is None:
            wrong = logical_or(
                logical_and(isnan(result), call_handler(np.logical_not, logical_or(isnan(base), isnan(exponent)))),
                logical_and(equal(base, 0.0), logical_and(call_handler(np.less, exponent, 0.0), isfinite(exponent))),
            )
        elif known > 0:
            wrong = logical_and(call_handler(np.less, base, 0.0), isfinite(base))
        elif known == int(known):
            wrong = equal(base, 0.0)
        else:
            wrong = logical_and(less_equal(base, 0.0), isfinite(base))
        check(call_handler(np.logical_not, wrong), "ValueError", "math domain error")
    if known is None or (math.isfinite(known) and known not in (0.0, 1.0)):
        finite = isfinite(base) if known is not None else logical_and(isfinite(base), isfinite(exponent))
        too_large = logical_and(apply(ops.isinf, asarray(result)), finite)
        check(call_handler(np.logical_not, too_large), "OverflowError", "math range error")
    return result


@covers(math.hypot)
def math_hypot(*coordinates: Any) -> Tracer:
    values = [_float(c, "math.hypot") for c in coordinates]
    if len(values) == 2:
        return weak(apply(ops.hypot, *values))
    return weak(safe_sqrt(functools.reduce(add, [square(v) for v in values], full((), 0, F64))))


@covers(math.dist)
def math_dist(p: Any, q: Any, /) -> Tracer:
    away = subtract(asarray(p), asarray(q))
    return weak(cast_to(call_handler(np.linalg.norm, away), F64))


@covers(math.floor)
def math_floor(x: Any, /) -> Tracer:
    return _whole(scalar(x, "math.floor"), floor)


@covers(math.ceil)
def math_ceil(x: Any, /) -> Tracer:
    return _whole(scalar(x, "math.ceil"), ceil)


@covers(math.trunc)
def math_trunc(x: Any, /) -> Tracer:
    return int_(x)


@covers(math.isnan)
def math_isnan(x: Any, /) -> Tracer:
    return weak(isnan(_float(x, "math.isnan")))


@covers(math.isinf)
def math_isinf(x: Any, /) -> Tracer:
    return weak(apply(ops.isinf, _float(x, "math.isinf")))


@covers(math.isfinite)
def math_isfinite(x: Any, /) -> Tracer:
    return weak(isfinite(_float(x, "math.isfinite")))


@covers(math.isclose)
def math_isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Tracer:
    x, y = _float(a, "math.isclose"), _float(b, "math.isclose")
    away = absolute(subtract(x, y))
    larger = call_handler(np.maximum, absolute(x), absolute(y))
    near = less_equal(away, call_handler(np.maximum, multiply(rel_tol, larger), abs_tol))
    return weak(logical_or(equal(x, y), logical_and(near, isfinite(away))))


@covers(math.radians)
def math_radians(x: Any, /) -> Tracer:
    return weak(multiply(_float(x, "math.radians"), math.pi / 180))


@covers(math.degrees)
def math_degrees(x: Any, /) -> Tracer:
    return weak(multiply(_float(x, "math.degrees"), 180 / math.pi))


@covers(math.fsum, native=False, always=True)
def math_fsum(seq: Any, /) -> Any:
    seq = seq if isinstance(seq, Tracer) else list(seq)
    if not is_traced(seq):
        return math.fsum(seq)
    return weak(cast_to(call_handler(np.sum, asarray(seq)), F64))


@covers(math.prod)
def math_prod(iterable: Any, /, *, start: Any = 1) -> Any:
    if isinstance(iterable, Tracer):
        return python_operator(np.multiply, start, call_handler(np.prod, iterable, axis=0))
    result = start
    for item in iterable:
        result = result * item
    return result


@covers(math.modf)
def math_modf(x: Any, /) -> tuple[Tracer, Tracer]:
    value = _float(x, "math.modf")
    whole = trunc(value)
    fraction = select(apply(ops.isinf, value), full((), 0, F64), subtract(value, whole))
    return weak(fraction), weak(whole)


#: exponents of two beyond this give 0 or an infinity, whatever is multiplied
_MOST_DOUBLED = 2200


@covers(math.ldexp)
def math_ldexp(x: Any, i: Any, /) -> Tracer:
    value, exponent = _float(x, "math.ldexp"), scalar(i, "math.ldexp")
    if exponent.dtype.kind not in "iub":
        raise TypeError("Expected an int as second argument to ldexp.")
    left = call_handler(np.clip, cast_to(exponent, I64), -_MOST_DOUBLED, _MOST_DOUBLED)
    result, known = value, known_scalar(i)
    # in three parts, since 2.0**i itself may be infinite, or 0
    for parts in (3, 2, 1) if known is None or abs(known) > 1000 else (1,):
        part = call_handler(np.floor_divide, left, parts) if parts > 1 else left
        left = subtract(left, part)
        result = multiply(result, exp2(cast_to(part, F64)))
    check_result(math.ldexp, result, value)
    return weak(result)


@covers(math.remainder)
def math_remainder(x: Any, y: Any, /) -> Tracer:
    first, second = _float(x, "math.remainder"), _float(y, "math.remainder")
    check_arguments(math.remainder, first, second)
    first = apply(ops.fmod, first, multiply(2.0, second))  # the quotient stays a small number
    whole = rint(divide(first, second))
    return weak(select(equal(whole, 0.0), first, subtract(first, multiply(whole, second))))


if hasattr(math, "cbrt"):

    @covers(math.cbrt)
    def math_cbrt(x: Any, /) -> Tracer:
        return weak(apply(ops.cbrt, _float(x, "math.cbrt")))


#: functions of math without a form in compiled code -> what to write
_WITHOUT_FORM = {
    math.factorial: "math.gamma(n + 1)",
    math.comb: "math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)), rounded",
    math.perm: "math.exp(math.lgamma(n + 1) - math.lgamma(n - k + 1)), rounded",
    math.gcd: "the loop `while b: a, b = b, a % b`",
    math.lcm: "the loop `while b: a, b = b, a % b`, which finds the divisor",
    math.isqrt: "math.floor(math.sqrt(n))",
    math.frexp: "math.floor(math.log2(abs(x))) + 1 for the exponent",
    math.ulp: "np.nextafter(x, np.inf) - x",
}


def _refuse_math(function: Any, instead: str) -> None:
    def refuse(*args: Any) -> Any:
        if function not in (math.frexp, math.ulp):
            for argument in args:
                if isinstance(argument, Tracer) and argument.dtype.kind not in "iub":
                    raise TypeError(f"'{python_class(argument).__name__}' object cannot be interpreted as an integer")
            numbers: list[Any] = [resolve_content(a) if isinstance(a, Tracer) else a for a in args]
            if all(number is not None for number in numbers):
                return function(*map(int, numbers))
        raise NeedsPythonValue(  # a loop around it is unrolled
            f"math.{function.__name__} of a traced value is not supported",
            code="TG101",
            span=user_span(),
            found=", ".join(map(describe, args)),
            help=f"use {instead}; or pass the result as an argument",
        )

    covers(function)(refuse)


for _function, _instead in _WITHOUT_FORM.items():
    _refuse_math(_function, _instead)


def _register_cmath(function: Any, ufunc: Any) -> None:
    def apply_cmath(z: Any, /) -> Tracer:
        value = cast_to(scalar(z, f"cmath.{function.__name__}"), np.dtype(np.complex128))
        return weak(call_handler(ufunc, value))

    covers(function)(apply_cmath)


for _name, _ufunc in {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
}.items():
    _register_cmath(getattr(cmath, _name), _ufunc)


@covers(cmath.phase)
def cmath_phase(z: Any, /) -> Tracer:
    return weak(call_handler(np.angle, scalar(z, "cmath.phase")))


# ---- operator and functools


def _register_operator(function: Any, ufunc: Any) -> None:
    covers(function)(lambda *args: python_operator(ufunc, *args))


_OPERATORS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    **COMPARISONS,
    "neg": np.negative,
    "pos": np.positive,
    "abs": np.absolute,
    "invert": np.invert,
}
for _name, _operation in _OPERATORS.items():
    _register_operator(getattr(operator, _name), _operation)


@covers(operator.matmul)
def matmul(a: Any, b: Any, /) -> Any:
    return call_handler(np.matmul, a, b)


@covers(operator.not_)
def not_(a: Any, /) -> Any:
    return weak(call_handler(np.logical_not, scalar(a, "not", converted=False)))


@covers(operator.is_, native=False)
def is_(a: Any, b: Any, /) -> bool:
    return a is b


@covers(operator.is_not, native=False)
def is_not(a: Any, b: Any, /) -> bool:
    return a is not b


def _register_inplace(function: Any, ufunc: Any) -> None:
    def update(a: Any, b: Any, /) -> Any:
        return inplace(ufunc, a, b) if isinstance(a, Tracer) else function(a, b)

    covers(function, native=False)(update)


_INPLACE: dict[str, Any] = {
    "iadd": np.add,
    "isub": np.subtract,
    "imul": np.multiply,
    "itruediv": np.divide,
    "ifloordiv": np.floor_divide,
    "imod": np.remainder,
    "ipow": np.power,
}
for _name, _operation in _INPLACE.items():
    _register_inplace(getattr(operator, _name), _operation)
