"""Finds the line that first makes a NaN or an infinity which reaches a result: `debug_nans`.

Reads IR, runs it on NumPy arrays. Previous: explanation.py; next: target.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import numpy as np

from tracegrad.api import Transformed, misused
from tracegrad.driver import specialization
from tracegrad.driver.specialization import Program
from tracegrad.errors import TracegradError
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import StackType
from tracegrad.testing.interpret import Interpreter, bind_parameters


class NonFiniteError(TracegradError, FloatingPointError):
    """A result holds a NaN or an infinity."""


class debug_nans(AbstractContextManager[None]):
    """Check every call of compiled functions inside a `with` statement, in all threads.

    Each call runs the IR one operation at a time, which is slow. A NaN or an infinity that reaches a result is traced
    back to the operation that made it out of finite numbers.

    Raises:
        NonFiniteError: (a call) a result is not finite; it names the line of the user's function, and whether the value
            or its cotangent was not finite.

    >>> from tracegrad import grad
    >>> with debug_nans():
    ...     grad(lambda x: np.sqrt(np.sum(x)))(np.ones(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    _depth = 0
    _call: Any = None

    def __init__(self, *given: Any) -> None:
        if given:
            raise misused("debug_nans", given, "tg.debug_nans cannot be called like this")

    def __enter__(self) -> None:
        kind = type(self)
        if kind._depth == 0:
            specialization.BEFORE_RUN.append(check_finite)
            kind._call = Transformed.__call__
            Transformed.__call__ = _call_slowly  # type: ignore[method-assign]
        kind._depth += 1

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        kind = type(self)
        kind._depth -= 1
        if kind._depth == 0:
            specialization.BEFORE_RUN.remove(check_finite)
            Transformed.__call__ = kind._call  # type: ignore[method-assign]


def _call_slowly(self: Transformed, *args: Any, **kwargs: Any) -> Any:
    return self._slow(*args, **kwargs)


def check_finite(program: Program, inputs: Sequence[Any]) -> None:
    """Run a program, and raise when a result is not finite.

    Raises:
        NonFiniteError: it is not.
    """
    function = program.function
    values, sizes = bind_parameters(function, [np.copy(x) for x in inputs])
    tracker = _Tracker(sizes)
    for param, value in values.items():
        tracker.note(None, param, value)
    with np.errstate(all="ignore"):
        results = tracker.block(function.body, dict(values))
    for number, result in enumerate(results):
        origin = tracker.origin(result)
        if origin is not None:
            raise _error(program, number, result, *origin)


def _error(program: Program, number: int, result: Any, operation: Operation | None, text: str) -> NonFiniteError:
    kind = "NaN" if np.any(np.isnan(result)) else "infinite"
    return NonFiniteError(
        f"a result of {program.function.name} is {kind}",
        code="TG240",
        span=operation.span if operation is not None else None,
        found=text,
        help="keep the operands in the domain, for instance with np.where on the operand and not on the result"
        if operation is not None
        else "check the arguments",
    )


def _was_blank(operation: Operation, array: Any, operands: Sequence[Any]) -> bool:
    """Return whether what is not finite after a write was so before: memory that is not written yet."""
    place = TABLE[operation.op].inplace
    return place is not None and bool(np.all(np.isfinite(array) | ~np.isfinite(operands[place])))


class _Tracker(Interpreter):
    """Keeps for each array that is not finite the operation it comes from."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__(sizes)
        self.origins: dict[int, tuple[Any, Operation | None, str]] = {}

    def origin(self, array: Any) -> tuple[Operation | None, str] | None:
        found = self.origins.get(id(array))
        return None if found is None else found[1:]

    def operation(self, operation: Operation, operands: list[Any], values: dict[Value, Any]) -> Sequence[Any]:
        results = list(super().operation(operation, operands, values))
        is_inside = bool(operation.blocks) or isinstance(operation.attrs.get("function"), Function)
        if operation.op in ("stack", "undefined") or is_inside:
            return results  # what blocks yield and functions return has been seen inside
        if operation.op == "push":
            self.copy_origin(operands[1], operands[0][-1])
            return results
        if operation.op == "pop":
            return results
        for position, (value, result) in enumerate(zip(operation.results, results, strict=True)):
            if isinstance(value.type, StackType):
                continue
            results[position] = array = np.asarray(result)
            if array.dtype.kind not in "fc" or np.all(np.isfinite(array)):
                continue
            before = [o for o in operands if isinstance(o, np.ndarray) and id(o) in self.origins]
            if before:
                self.copy_origin(before[0], array)
            elif operation.operands and not _was_blank(
                operation, array, operands
            ):  # an infinity that the user wrote is meant
                self.note(operation, value, array, operands)
        return results

    def call(self, operation: Operation, operands: list[Any]) -> Sequence[Any]:
        function: Function = operation.attrs["function"]
        values, _ = bind_parameters(function, operands, self.sizes)
        for param, operand in zip(function.params, operands, strict=True):
            self.copy_origin(operand, values[param])
        return self.block(function.body, values)

    def copy_origin(self, source: Any, target: Any) -> None:
        found = self.origins.get(id(source))
        if found is not None:
            self.origins[id(target)] = (target, *found[1:])

    def note(self, operation: Operation | None, value: Value, array: Any, operands: Sequence[Any] = ()) -> None:
        """Note where an array stops being finite."""
        if array.dtype.kind not in "fc" or np.all(np.isfinite(array)):
            return
        where = np.argwhere(~np.isfinite(array))[0]
        index = tuple(int(i) for i in where)
        element = array[index]
        at = f" at {list(index)}" if index else ""
        if operation is None:
            self.origins[id(array)] = (array, None, f"the argument {value.name} is {element}{at}")
            return
        name = value.name
        in_sweep = operation.span is not None and operation.span.reverse
        named = name or ("a factor in the derivative of this line" if in_sweep else "a value")
        if name.startswith("ct_"):
            named = f"the cotangent of {name[3:]}"
        elif name.startswith("t_"):
            named = f"the tangent of {name[2:]}"
        parts = []
        for operand, given in zip(operation.operands, operands, strict=True):
            if isinstance(given, np.ndarray) and given.dtype.kind in "fc" and given.shape in ((), array.shape):
                number = given[index] if given.shape else given
                parts.append(f"{operand.name} = {number}" if operand.name else str(number))
        made = f"{operation.op}" + (f" of {', '.join(parts)}" if parts else "")
        self.origins[id(array)] = (array, operation, f"{named} becomes {element}{at}: {made}")
