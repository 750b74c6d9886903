"""The content of integer inputs and Python floats, where Python must know it: a shape, a list index, a bool.

Reads the leaves of the call that is captured for, or the array outside the function, and follows the operations staged
on them. Used by tracer.py when Python asks for a value. Previous: guards.py; next: hooks.py.

A capture that has used the content of an input holds for this content only: it is compared at every call. One that has
used a symbolic size in this way holds for this size only, as where Python asks for a size itself (sizes.py). Python
floats are followed only to ints that Python must know, and not where the derivative is taken by them: elsewhere each
new value would compile again what serves all values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from tracegrad.capture.context import Capture, HiddenInput, current
from tracegrad.capture.guards import guard_value
from tracegrad.capture.sizes import decide
from tracegrad.capture.tracer import RESOLVERS, Tracer
from tracegrad.ir.core import Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType, SymbolicDim, dim_evaluate
from tracegrad.ops.evaluate import Evaluator
from tracegrad.ops.parts import NoPart, Part

#: arrays with more elements are not compared by content
ELEMENT_LIMIT = 10_000

_leaves: ContextVar[Sequence[Any] | None] = ContextVar("tracegrad_leaves", default=None)


@contextmanager
def leaves_of_call(leaves: Sequence[Any]) -> Iterator[None]:
    """Make the array leaves of a call known, to what captures for it and to `contents_hold`."""
    token = _leaves.set(leaves)
    try:
        yield
    finally:
        _leaves.reset(token)


def contents_hold(contents: dict[int, bytes]) -> bool:
    """Return whether the arguments of this call have the content that a capture relied on."""
    if not contents:
        return True
    leaves = _leaves.get()
    return leaves is not None and all(np.asarray(leaves[n]).tobytes() == c for n, c in contents.items())


def find_content(tracer: Tracer, floats: bool = False) -> np.ndarray[Any, Any] | None:
    """Return what a traced value is, when it is computed from integer inputs and sizes alone (and, with `floats`, from
    arguments that are Python floats), else None."""
    capture = current()
    found: dict[Value, Any] = {}
    used: list[HiddenInput | int | SymbolicDim] = []
    content = _evaluate(tracer.value, capture, floats, found, used)
    if content is None:
        return None
    for source in used:
        if isinstance(source, HiddenInput):
            guard_value(source.place, source.original)
        elif isinstance(source, SymbolicDim):
            decide(source - dim_evaluate(source, capture.sizes), "==")
        else:
            capture.contents[source] = np.asarray((_leaves.get() or ())[source]).tobytes()
    return np.asarray(content)


def _evaluate(
    value: Value,
    capture: Capture,
    floats: bool,
    found: dict[Value, Any],
    used: list[HiddenInput | int | SymbolicDim],
) -> Any:
    if value in found:
        return found[value]
    operation = value.producer
    if operation is None:
        content = _input(value, capture, floats, used)
        found[value] = content
        return content
    found[value] = None
    if operation.blocks:
        found[value] = _run(value, capture, floats, used)
        return found[value]
    if not TABLE[operation.op].numpy or not _is_fixed(value):
        return None
    operands = []
    for operand in operation.operands:
        operands.append(_evaluate(operand, capture, floats, found, used))
        if operands[-1] is None:
            return None
    used += _sizes_in(tuple(operation.attrs.values()))
    result = Evaluator(capture.sizes).apply(TABLE[operation.op], operands, operation.attrs)
    results = result if isinstance(result, tuple) else (result,)
    found.update(zip(operation.results, results, strict=True))
    return found[value]


def _run(
    value: Value,
    capture: Capture,
    floats: bool,
    used: list[HiddenInput | int | SymbolicDim],
) -> Any:
    """Return what a loop or branch gives, when all that this depends on is known."""
    if (value, floats) not in capture.runs_of_loops:
        own: list[HiddenInput | int | SymbolicDim] = []
        content = None
        try:
            part = Part(value, ELEMENT_LIMIT)
        except NoPart:
            part = None
        if part is not None:
            found: dict[Value, Any] = {}
            contents = [_evaluate(outer, capture, floats, found, own) for outer in part.outer]
            content = None if any(each is None for each in contents) else part.run(contents)
        capture.runs_of_loops[value, floats] = content, own
    content, own = capture.runs_of_loops[value, floats]
    used += own
    return content


def _sizes_in(attribute: Any) -> Iterator[SymbolicDim]:
    """Return the symbolic sizes in an attribute of an operation."""
    if isinstance(attribute, SymbolicDim):
        yield attribute
    elif isinstance(attribute, ArrayType):
        yield from _sizes_in(attribute.shape)
    elif isinstance(attribute, tuple):
        for part in attribute:
            yield from _sizes_in(part)


def _input(value: Value, capture: Capture, floats: bool, used: list[HiddenInput | int | SymbolicDim]) -> Any:
    if not _is_fixed(value):
        return None
    kind = value.array_type
    if kind.dtype.kind not in "iub" and kind.ndim:
        return None
    leaves = _leaves.get()
    if value in capture.parameters:
        number = capture.parameters[value]
        if leaves is None or not (kind.dtype.kind in "iub" or (floats and number in capture.floats)):
            return None
        used.append(number)
        return np.asarray(leaves[number], kind.dtype)
    for hidden in capture.hidden.values():
        if hidden.value is value:
            used.append(hidden)
            return np.asarray(hidden.original, kind.dtype)  # the place may hold what captured code has stored
    return None


def _is_fixed(value: Value) -> bool:
    """Return whether a value has known sizes and is small."""
    if not isinstance(value.type, ArrayType):
        return False
    size = value.type.size
    return isinstance(size, int) and size <= ELEMENT_LIMIT


RESOLVERS.append(find_content)
