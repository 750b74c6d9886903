"""The slow path of a call: brings arguments into the form that a kernel takes, and writes back what it changed.

Reads the leaves of a call (signature.py) and an Executable in flat form (driver/launch.py); gives its result. Also
turns the errors of kernels into Python's. Previous: signature.py; next: tensor.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, NoReturn, cast

import numpy as np

from tracegrad.errors import ArgumentError, InternalError, Span, TracegradError
from tracegrad.runtime.signature import Leaf

#: kind of an error of a kernel (enum in codegen/c_prelude.h) -> exception
ERROR_CLASSES: Final[dict[int, type[Exception]]] = {
    1: IndexError,
    2: ZeroDivisionError,
    3: ValueError,
    4: np.linalg.LinAlgError,
    5: AssertionError,
    6: OverflowError,
    7: TypeError,
    8: KeyError,
    9: RuntimeError,
    10: MemoryError,
    11: FloatingPointError,
    12: StopIteration,
    13: NotImplementedError,
    14: ArithmeticError,
    15: UnboundLocalError,
}


def normalize(value: Any, leaf: Leaf) -> Any:
    """Return a leaf as a kernel takes it: an ndarray, C-contiguous, aligned, native byte order; or a Python number.

    Copies only when needed.
    """
    if leaf.kind != "array":
        return value
    if type(value) is np.ndarray and value.dtype == leaf.type.dtype and value.dtype.isnative:
        flags = value.flags
        if flags.c_contiguous and flags.aligned:
            return value
    return np.require(np.asarray(value), leaf.type.dtype, ["C", "A", "E"])


def call_flat(
    executable: Callable[..., Any],
    values: Sequence[Any],
    leaves: Sequence[Leaf],
    paths: Sequence[str],
    write_back: Mapping[int, int] | None = None,
) -> Any:
    """Call an Executable in flat form with leaves as they come from the user; return its result.

    Args:
        leaves: what each value is; dtypes are the kernel's.
        paths: names of the values, for messages.
        write_back: inputs that the function writes in place; the user's arrays get the writes, whatever their layout.

    Raises:
        ValueError: an array to be written is read-only.
        ArgumentError: an array to be written shares memory with another argument.
    """
    normal = [normalize(value, leaf) for value, leaf in zip(values, leaves, strict=True)]
    written = sorted(write_back or ())
    for i in written:
        check_writable(values, i, paths)
        if normal[i] is not values[i] and np.may_share_memory(normal[i], values[i]):
            normal[i] = normal[i].copy()
    result = executable(*normal)
    if result is NotImplemented:
        raise InternalError(
            "a compiled function refuses the arguments it was compiled for",
            code="TG904",
            span=None,
            found=", ".join(f"{path}: {leaf}" for path, leaf in zip(paths, leaves, strict=True)),
            help="report it with the function and the shapes of the arguments",
        )
    for i in written:
        if normal[i] is not values[i]:
            values[i][...] = normal[i]
    return result


def check_writable(values: Sequence[Any], index: int, paths: Sequence[str]) -> None:
    """Check that a function may write to `values[index]` in place.

    Raises:
        ValueError, ArgumentError: see call_flat.
    """
    target = values[index]
    if not isinstance(target, np.ndarray):
        raise TypeError(f"'{type(target).__name__}' object does not support item assignment: {paths[index]}")
    if not target.flags.writeable:
        raise ValueError(f"assignment destination is read-only: {paths[index]}")
    for k, other in enumerate(values):
        if k != index and isinstance(other, np.ndarray) and _shares_memory(target, other):
            raise ArgumentError(
                f"the function writes to {paths[index]}, which shares memory with {paths[k]}",
                code="TG704",
                span=None,
                found=f"{paths[index]} and {paths[k]} are views of one array",
                help=f"pass {paths[k]}.copy(), or write to a copy inside the function",
            )


def _shares_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    bounded: Any = 10_000  # the exact answer may take exponential time
    try:
        return bool(np.shares_memory(a, b, max_work=bounded))
    except np.exceptions.TooHardError:
        return True


def raise_kernel_error(kind: int, file: str, line: int, message: str, value: int, bound: int) -> NoReturn:
    """Raise the exception of an error that a kernel reported, with the user's line.

    Args:
        message: may hold two `%lld`, for `value` and `bound`.
    """
    text = message.replace("%lld", "%d")
    count = text.count("%d")
    if count:
        text = text % (value, bound)[:count]
    if file and line:
        text = f"{text}\n{_place_text(Span(file, line))}"
    raise ERROR_CLASSES.get(kind, RuntimeError)(text)


def _place_text(span: Span) -> str:
    source = span.text().strip()
    return f"  --> {span.file}:{span.line}" + (f"\n{span.line} | {source}" if source else "")


_COMMENT = re.compile(r"\s*# (\S.*?):(\d+)  ")


def with_user_lines(
    function: Callable[..., Any], text: str, spans: Mapping[tuple[str, int], Span]
) -> Callable[..., Any]:
    """Return a generated Python function whose exceptions show the user's line.

    Args:
        text: the source of the function; comments in it say from which line of the user the next statements come.
        spans: name of a file without folders, and line -> place.
    """
    lines = text.splitlines()
    code = cast(FunctionType, function).__code__

    def run(*args: Any) -> Any:
        try:
            return function(*args)
        except TracegradError:  # has its own
            raise
        except Exception as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_frame.f_code is not code:
                trace = trace.tb_next
            comments = map(_COMMENT.match, reversed(lines[: trace.tb_lineno])) if trace is not None else ()
            found = next((m for m in comments if m is not None), None)
            span = spans.get((found[1], int(found[2]))) if found is not None else None
            if span is not None and len(error.args) == 1 and "\n  --> " not in str(error):
                error.args = (f"{error.args[0]}\n{_place_text(span)}",)
            raise

    return run
