"""The slow path of a call: brings arguments into the form that a kernel takes, and writes back what it changed.

Reads the leaves of a call (signature.py) and an Executable in flat form (driver/launch.py); gives its result. Also
turns the errors of kernels into Python's. Previous: signature.py; next: engine.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, Final, NoReturn, cast

import numpy as np

from tracegrad.errors import ArgumentError, InternalError, Span, TracegradError
from tracegrad.frames import user_frames
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
    16: AttributeError,
    17: NameError,
    18: Exception,
    19: LookupError,
}


def normalize(value: Any, leaf: Leaf) -> Any:
    """Return a leaf as a kernel takes it: an ndarray, C-contiguous, aligned, native byte order; or a number.

    Copies only when needed.
    """
    if leaf.is_weak:
        return value
    if leaf.kind == "scalar":
        return leaf.type.dtype.type(value)
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
    *,
    unread: Collection[int] = (),
    keep: bool = False,
) -> Any:
    """Call an Executable in flat form with leaves as they come from the user; return its result.

    Args:
        leaves: what each value is; dtypes are the kernel's.
        paths: names of the values, for messages.
        write_back: inputs that the function writes in place; the user's arrays get the writes, whatever their layout.
        unread: inputs of which the function does not use the content.
        keep: the user's arrays stay as they are where the run ends with an error.

    Raises:
        ValueError: an array to be written is read-only.
        ArgumentError: an array to be written shares memory with another argument.
    """
    normal = [normalize(value, leaf) for value, leaf in zip(values, leaves, strict=True)]
    written = sorted(write_back or ())
    for i in written:
        check_writable(values, i, paths, unread)
        if keep or (normal[i] is not values[i] and np.may_share_memory(normal[i], values[i])):
            normal[i] = normal[i].copy()
    for i in unread if written else ():  # the kernel refuses arrays that share memory with what it writes
        if isinstance(normal[i], np.ndarray):
            normal[i] = np.empty_like(normal[i])
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


def check_writable(values: Sequence[Any], index: int, paths: Sequence[str], unread: Collection[int]) -> None:
    """Check that a function may write to `values[index]` in place.

    Args:
        unread: see call_flat.

    Raises:
        ValueError, ArgumentError: see call_flat.
    """
    target = values[index]
    if not isinstance(target, np.ndarray):
        raise TypeError(f"'{type(target).__name__}' object does not support item assignment: {paths[index]}")
    if not target.flags.writeable:
        raise ValueError(f"assignment destination is read-only: {paths[index]}")
    for k, other in enumerate(values):
        if k != index and k not in unread and isinstance(other, np.ndarray) and _shares_memory(target, other):
            raise ArgumentError(
                f"the function writes to {paths[index]}, which shares memory with {paths[k]}",
                code="TG704",
                span=None,
                found=f"{paths[index]} and {paths[k]} are views of one array",
                help=f"pass {paths[k]}.copy(); or keep the whole array, and take its parts inside the function; or "
                "write to a copy there",
            )


def check_order(value: Any, path: str) -> None:
    """Check that an array is in C order, of which a function writes into a reshape.

    Raises:
        ArgumentError: it is not.
    """
    if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        raise ArgumentError(
            f"the layout of {path} decides whether a reshape in the function is a view or a copy",
            code="TG705",
            span=None,
            found=f"{path} is not C-contiguous, and the function writes into it, an array in its order, or the reshape",
            help=f"pass np.ascontiguousarray({path}), or write .copy() after the reshape",
        )


def check_byte_order(value: Any, path: str) -> None:
    """Check that an array is in the machine's byte order, which is written to and converted without a copy.

    Raises:
        ArgumentError: it is not.
    """
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        raise ArgumentError(
            f"the byte order of {path} decides whether a conversion in the function is a view or a copy",
            code="TG705",
            span=None,
            found=f"{path} is of dtype {value.dtype.str}, and the function writes into it or into what it converts",
            help=f'pass {path}.astype("{value.dtype.newbyteorder("=").name}"), or write into a copy',
        )


def _shares_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    bounded: Any = 10_000  # the exact answer may take exponential time
    try:
        return bool(np.shares_memory(a, b, max_work=bounded))
    except np.exceptions.TooHardError:
        return True


class Places:
    """The places in the user's code of a program's operations, made when an error needs them.

    Args:
        operations: gives the place of each operation, and the name of the exception that it may raise, or "".
    """

    def __init__(self, operations: Callable[[], Iterable[tuple[Span, str]]]) -> None:
        self._operations = operations

    def find(self, file: str, line: int, column: int = 0, error: Exception | None = None) -> Span | None:
        """Return where an operation stands.

        Args:
            file: name of the file, without folders.
            column: where it starts, or 0: then what may raise `error`, in this line or alone in the program, else the
                line's operations.
        """
        found = [(s, name) for s, name in self._operations() if (os.path.basename(s.file), s.line) == (file, line)]
        if column:
            return next((span for span, _ in found if span.column == column), None)
        names = [kind.__name__ for kind in type(error).__mro__]
        spans = [span for span, name in found if name in names]
        if not spans:  # one statement may hold operations of several lines
            others = {span for span, name in self._operations() if name in names}
            spans = [*others] if len(others) == 1 else [span for span, _ in found]
        if not spans:
            return None
        ends = [span.end_column for span in spans]
        return replace(
            spans[0],
            column=min(span.column for span in spans),
            end_column=None if None in ends else max(end for end in ends if end is not None),
        )


def raise_kernel_error(
    kind: int,
    file: str,
    line: int,
    column: int,
    message: str,
    value: int,
    bound: int,
    places: Places | None = None,
) -> NoReturn:
    """Raise the exception of an error that a kernel reported, with the user's line.

    Args:
        file: name of the user's file, without folders.
        message: may hold two `%lld`, for `value` and `bound`.
    """
    text = message.replace("%lld", "%d")
    count = text.count("%d")
    if count:
        text = text % (value, bound)[:count]
    error = ERROR_CLASSES.get(kind, RuntimeError)(text)
    if line:
        span = places.find(file, line, column) if places is not None else None
        _show(error, span or Span(file, line, column))
    with user_frames:
        raise error


def _show(error: Exception, span: Span) -> None:
    """Add a place to the text of an error that does not show one, as a note where it holds a key and no text."""
    if any("\n  --> " in f"\n{text}" for text in (str(error), *getattr(error, "__notes__", ()))):
        return
    if len(error.args) == 1 and isinstance(error.args[0], str) and not isinstance(error, KeyError):
        error.args = (f"{error.args[0]}\n{span.show()}",)
    else:
        error.add_note(span.show())


_COMMENT = re.compile(r"\s*# (\S.*?):(\d+)  ")


def with_user_lines(load: Callable[[], tuple[Callable[..., Any], str]], places: Places) -> Callable[..., Any]:
    """Return a generated Python function whose exceptions show the user's line.

    Args:
        load: makes the function, at its first call, and its source; comments in it say from which line of the user the
            next statements come.
    """
    text = ""

    def function(*args: Any) -> Any:
        nonlocal function, text
        function, text = load()
        return function(*args)

    def run(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            if isinstance(error, TracegradError) and error.span is not None:
                raise
            lines, generated = text.splitlines(), cast(FunctionType, function).__code__.co_filename
            line, trace = 0, error.__traceback__
            while trace is not None:
                if trace.tb_frame.f_code.co_filename == generated:
                    line = trace.tb_lineno
                trace = trace.tb_next
            comments = map(_COMMENT.match, reversed(lines[:line]))
            found = next((m for m in comments if m is not None), None)
            span = places.find(found[1], int(found[2]), error=error) if found is not None else None
            if span is not None and isinstance(error, TracegradError):
                error.place(span)
            elif span is not None:
                _show(error, span)
            with user_frames:
                raise

    return run
