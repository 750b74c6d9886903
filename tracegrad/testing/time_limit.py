"""A function whose calls must end within some time, for functions that loop without end at random inputs.

Used by `tracegrad check`. Previous: identities.py; next: cli.py.
"""

from __future__ import annotations

import faulthandler
import functools
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tracegrad.errors import ArgumentError

#: what Python code that ends by an exception may take for it
_SPARE_S: Final = 2.0


class _TimeIsUp(BaseException):
    """The time is up. Not an Exception, so that code which catches all of these goes on to its end."""


def limited(function: Callable[..., Any], limit_s: float, names: Sequence[str], help: str) -> Callable[..., Any]:
    """Return the function with a limit for the time of each call, where the system has timers for a process.

    A loop in compiled code does not notice the end of the time. Some seconds later the process is ended then, with the
    line of Python that runs.

    Args:
        names: of its arguments, for the error; those passed by keyword start with `=`.
        help: what to do about a call that does not end.

    Raises:
        ArgumentError: a call has not ended in time.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        before = signal.signal(signal.SIGALRM, _end)
        try:
            signal.setitimer(signal.ITIMER_REAL, limit_s, limit_s)
            faulthandler.dump_traceback_later(2 * limit_s + _SPARE_S, exit=True, file=2)
            try:
                return function(*args, **kwargs)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                faulthandler.cancel_dump_traceback_later()
        except _TimeIsUp:
            with np.printoptions(threshold=60, precision=17):
                pairs = zip((n.lstrip("=") for n in names), (*args, *kwargs.values()), strict=False)
                point = ", ".join(f"{name} = {value!r}" for name, value in pairs)
            raise ArgumentError(
                "the function does not end at this input",
                code="TG813",
                span=None,
                found=f"no end after {limit_s:g} s at {point}",
                help=help,
            ) from None
        finally:
            signal.signal(signal.SIGALRM, before)

    return call


def _end(number: int, frame: Any) -> None:
    raise _TimeIsUp
