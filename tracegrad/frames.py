"""Which frames of a stack are the user's; tracebacks that show no others, and warnings at their lines.

Reads frames and tracebacks; used by capture/ for the place of an error, and by api.py, driver/ and runtime/ around what
the user calls. Previous: config.py; next: ir/types.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import ParamSpec, TypeVar

import numpy as np

from tracegrad.config import load_options
from tracegrad.errors import InternalError, TracegradError

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_SCIPY = os.path.join(os.path.dirname(os.path.dirname(_NUMPY)), "scipy") + os.sep
_CONTEXTS = os.path.abspath(contextlib.__file__)  # runs what stands around a `with`
_RECORDS = os.path.abspath(dataclasses.__file__)  # makes comparisons of objects


def is_library(file: str) -> bool:
    """Return whether a file of Python code is not the user's."""
    return file.startswith((_PACKAGE, _NUMPY, _SCIPY, _CONTEXTS, _RECORDS, "<frozen", "<__array_function__"))


def is_of_dataclass(code: CodeType) -> bool:
    """Return whether `dataclass` has made a function."""
    return code.co_qualname.startswith("__create_fn__.")


def is_own(file: str) -> bool:
    """Return whether a file of Python code is tracegrad's."""
    return file.startswith(_PACKAGE)


def user_level() -> int:
    """Return the `stacklevel` with which the caller warns at the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and is_library(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


class UserFrames:
    """Lets an exception pass, without the frames of tracegrad and NumPy in its traceback; a context manager.

    Faults of tracegrad itself keep them, and so do all exceptions with TRACEGRAD_TRACEBACK=full.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and _hides():
            _hide_library(error, set())


user_frames = UserFrames()


def with_user_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that the user calls, whose exceptions show the user's frames alone."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with user_frames:
            return function(*args, **kwargs)

    return run


def _hides() -> bool:
    try:
        return load_options().traceback == "user"
    except TracegradError:  # which passes here, and is about another option
        return True


def _hide_library(error: BaseException, done: set[int]) -> None:
    if id(error) in done or isinstance(error, InternalError):
        return
    done.add(id(error))
    # Python raises an exception that passes a `with` again with the traceback that it has then
    error.__traceback__ = _users_part(error.__traceback__)
    for other in (error.__cause__, error.__context__):
        if other is not None:
            _hide_library(other, done)


def _is_part(code: CodeType, outer: CodeType) -> bool:
    """Return whether `code` is a part of a statement in `outer`, of which conversion has made a function."""
    return code.co_qualname == outer.co_qualname and any(constant is code for constant in outer.co_consts)


def warn(
    message: Warning | str, category: type[Warning] | None = None, stacklevel: int = 1, source: object = None
) -> None:
    """Do what warnings.warn does, counting the user's frames alone in `stacklevel`."""
    frame: FrameType | None = sys._getframe(1)
    frames: list[FrameType] = []
    inner: CodeType | None = None
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            if inner is None or not _is_part(inner, frame.f_code):
                frames.append(frame)
            inner = frame.f_code
        frame = frame.f_back
    place = frames[min(max(stacklevel, 1), len(frames)) - 1]
    kind = type(message) if isinstance(message, Warning) else category or UserWarning
    known = place.f_globals
    registry = known.setdefault("__warningregistry__", {})
    file, module = place.f_code.co_filename, known.get("__name__")
    warnings.warn_explicit(message, kind, file, place.f_lineno, module, registry, known, source)


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_library(code.co_filename) and not is_of_dataclass(code):
            if kept and _is_part(code, kept[-1].tb_frame.f_code):
                kept.pop()
            kept.append(trace)
        trace = trace.tb_next
    part: TracebackType | None = None
    for entry in reversed(kept):
        part = TracebackType(part, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return part
