"""`try` and `contextlib.suppress` around what fails only when the compiled function runs.

Called by hooks.py and calls.py. Previous: comparisons.py; next: copies.py.

Handlers run at capture: they catch what goes wrong there. A fault of a staged operation comes later, and no handler
sees it. So after the body of a `try` the operations that it staged are looked through, and one whose fault a handler
would have caught is an error. What capture itself raises, to unroll a loop or to stage it again, passes all handlers.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

import numpy as np

from tracegrad.capture.context import Signal, current
from tracegrad.capture.guards import special_method
from tracegrad.capture.tracer import call_user
from tracegrad.errors import CaptureError, InternalError
from tracegrad.ir.core import Operation

#: operations that fail by themselves -> their error
_FAULTS: dict[str, type[Exception]] = {
    "gather": IndexError,
    "scatter_add": IndexError,
    "scatter_set": IndexError,
    "cholesky": np.linalg.LinAlgError,
    "solve": np.linalg.LinAlgError,
    "inv": np.linalg.LinAlgError,
    "eigh": np.linalg.LinAlgError,
    "svd": np.linalg.LinAlgError,
    "pinv": np.linalg.LinAlgError,
}


class Attempt:
    """The body of a `try`, as a context manager.

    Args:
        handled: gives the exceptions, and tuples of them, that handlers catch and go on from; None for all.
    """

    def __init__(self, handled: Callable[[], Iterable[Any]]) -> None:
        self.handled = handled

    def __enter__(self) -> None:
        self.block = current().builder.block
        self.start = len(self.block.operations)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is not None and (_passes(error) or isinstance(error, GeneratorExit)):
            return
        staged = self.block.operations[self.start :]
        faults = [(o, names) for o in _walk(staged) if (names := _error_names(o))]
        if not faults:
            return
        caught = list(_flat(self.handled()))
        for operation, names in faults:
            if any(_catches(handler, names, operation) for handler in caught):
                raise CaptureError(
                    "a fault that comes at run time cannot be caught",
                    code="TG137",
                    span=operation.span,
                    found=f"{names[0]}, which may be raised here when the compiled function runs; by then the handlers "
                    "of the `try` around it are gone",
                    help=f"{_INSTEAD.get(names[0], 'test the condition before with `if`')}, or put the `try` around "
                    "the call of the compiled function",
                )


#: name of an exception -> what to do for it not to come
_INSTEAD = {
    "ValueError": "test the condition before with `if` (`if x > 0: y = math.log(x)`)",
    "ZeroDivisionError": "test the condition before with `if` (`if x != 0: y = 1 / x`)",
    "IndexError": "test the condition before with `if` (`if i < len(x): y = x[i]`)",
    "LinAlgError": "make the matrix regular before (`a + 1e-9 * np.eye(n)`)",
}


def _walk(operations: Iterable[Operation]) -> Iterator[Operation]:
    for operation in operations:
        yield operation
        for block in operation.blocks:
            yield from _walk(block.operations)


def error_name(operation: Operation) -> str:
    """Return the name of the exception that an operation raises by itself, or ""."""
    if operation.op == "check":
        return str(operation.attrs["error"])
    return _FAULTS[operation.op].__name__ if operation.op in _FAULTS else ""


def _error_names(operation: Operation) -> tuple[str, ...]:
    """Return the names of the exception that an operation may raise: its class, and the user's own behind it."""
    name = error_name(operation)
    if operation.op == "check":
        return (name, operation.attrs["message"].partition(":")[0])
    return (name,) if name else ()


def _catches(handler: type[BaseException] | None, names: tuple[str, ...], operation: Operation) -> bool:
    broad = handler in (None, Exception, BaseException)
    if operation.op != "check" and _FAULTS[operation.op] is IndexError:
        # most indices are in bounds; a fault is not hidden, since it is raised
        return not broad and issubclass(IndexError, handler or Exception)
    if handler is None or handler is BaseException:
        return True
    error = np.linalg.LinAlgError if names[0] == "LinAlgError" else getattr(builtins, names[0], Exception)
    return issubclass(error, handler) or any(kind.__name__ in names for kind in _family(handler))


def _family(kind: Any) -> Iterator[Any]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)


def _flat(kinds: Iterable[Any]) -> Iterator[Any]:
    for kind in kinds:
        if isinstance(kind, tuple):
            yield from _flat(kind)
        else:
            yield kind


def _passes(error: BaseException) -> bool:
    return isinstance(error, CaptureError | Signal | InternalError)


def passing() -> Any:
    """Return the class of the exception being handled, if it is capture's own and no handler may see it, else ()."""
    error = sys.exc_info()[1]
    return type(error) if error is not None and _passes(error) else ()


class _Managed:
    """What a context manager of a user's class becomes in captured code: its methods are captured."""

    def __init__(self, manager: Any, enter: Any, leave: Any) -> None:
        self.manager, self.enter, self.leave = manager, enter, leave

    def __enter__(self) -> Any:
        return self.manager.__enter__() if self.enter is None else call_user(self.enter, self.manager)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if error is not None and _passes(error):
            return False  # what the body has stored is undone
        if self.leave is None:
            return bool(self.manager.__exit__(kind, error, traceback))
        return bool(call_user(self.leave, self.manager, kind, error, traceback))


class _Suppress:
    """What `contextlib.suppress` becomes in captured code."""

    def __init__(self, native: Any) -> None:
        self.native, self.attempt = native, Attempt(lambda: native._exceptions)

    def __enter__(self) -> Any:
        self.attempt.__enter__()
        return self.native.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> Any:
        self.attempt.__exit__(kind, error, traceback)
        return not (error is not None and _passes(error)) and self.native.__exit__(kind, error, traceback)


def context(manager: Any) -> Any:
    """The context manager of a `with` statement."""
    if isinstance(manager, contextlib.suppress):
        return _Suppress(manager)
    enter, leave = special_method(manager, "__enter__"), special_method(manager, "__exit__")
    return manager if enter is None and leave is None else _Managed(manager, enter, leave)
