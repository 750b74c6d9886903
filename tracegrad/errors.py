"""Errors that show the user's own line: spans, error classes, and the rendering of both.

Every error says what was found, where, and what to do; see docs/errors.md for the list of codes.
"""

from __future__ import annotations

import functools
import linecache
import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the user's source: 1-based line and column, end exclusive; `reverse` for its sweep of cotangents."""

    file: str
    line: int
    column: int = 1
    end_column: int | None = None
    function: str = ""
    reverse: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def text(self) -> str:
        """Return the source line, without its line end, or '' when it cannot be read."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def show(self) -> str:
        """Return the place, the source line, and carets under the piece of it, as lines of a message."""
        lines = [f"  --> {self}" + (f" in {self.function}" if self.function else "")]
        text = self.text()
        if text:
            number = str(self.line)
            end = min(self.end_column or len(text) + 1, len(text) + 1)
            shown, start, end = _window(text, self.column - 1, max(self.column, end - 1))
            lines.append(f"{number} | {shown}")
            lines.append(f"{' ' * len(number)} | {' ' * start}{'^' * (end - start)}")
        return "\n".join(lines)


#: the most columns of a source line that a message shows, and how many of them before the piece that it is about
_WIDTH, _BEFORE = 110, 40


def _window(text: str, start: int, end: int) -> tuple[str, int, int]:
    """Return the part of a long line around the piece from `start` to `end`, and where in it the piece is.

    >>> _window("x" * 200, 150, 155)[1:]
    (60, 65)
    """
    if len(text) <= _WIDTH:
        return text, start, end
    first = max(0, min(start - _BEFORE, len(text) - _WIDTH))
    last = first + _WIDTH
    shown = text[first:last]
    if first:
        shown = f"…{shown[1:]}"
    if last < len(text):
        shown = f"{shown[:-1]}…"
    return shown, start - first, max(start + 1, min(end, last)) - first


class TracegradError(Exception):
    """Base of all errors of tracegrad.

    Args:
        title: one sentence, lower case, that says what is wrong.
        code: the entry in docs/errors.md, such as "TG112".
        span: where in the user's code, or None when there is no such place.
        found: what was found.
        help: what to do about it.
    """

    def __init__(self, title: str, *, code: str, span: Span | None, found: str, help: str) -> None:
        self.title, self.code, self.span, self.found, self.help = title, code, span, found, help
        super().__init__(self.render())

    def place(self, span: Span) -> None:
        """Say where in the user's code the error came up, when that is known only later."""
        self.span = span
        self.args = (self.render(),)

    def explain(self, found: str, help: str) -> None:
        """Add to what was found, and say what to do about it, when that is known only later."""
        self.found, self.help = f"{self.found}; {found}", help
        self.args = (self.render(),)

    def note_use(self, span: Span) -> None:
        """Say where the value is used that came from the place of the error, unless that is said."""
        if "; used in" not in self.found:
            file = "" if self.span is None or span.file == self.span.file else f"{os.path.basename(span.file)}, "
            self.explain(f"used in {file}line {span.line}", self.help)

    def render(self) -> str:
        lines = [f"{self.title} [{self.code}]"]
        if self.span is not None:
            lines.append(self.span.show())
        for label, text in (("found", self.found), ("help", self.help)):
            lines.append(f"   = {label}: " + text.replace("\n", "\n     "))
        return "\n".join(lines)


class CaptureError(TracegradError, NotImplementedError):
    """The function uses something that cannot be captured."""


class NeedsPythonValue(CaptureError):
    """A traced value is used where Python needs its value.

    Attributes:
        remedy: for the capture itself: what a statement around can do about it, None when nothing.
    """

    remedy: Any = None


class ArgumentError(TracegradError, ValueError):
    """A public function of tracegrad was given an unusable value."""


class ArgumentTypeError(TracegradError, TypeError):
    """A public function of tracegrad, or an operation, was given an unusable type."""


class ShapeError(TracegradError, ValueError):
    """Shapes do not fit together."""


class TracedValueError(TracegradError, ValueError):
    """Captured code does what NumPy refuses with a ValueError."""


class TracedIndexError(TracegradError, IndexError):
    """An index is out of range."""


class TracedNameError(TracegradError, UnboundLocalError):
    """A name is read that is not bound on every path."""


class NotDifferentiableError(TracegradError, NotImplementedError):
    """An operation on the path from input to output has no derivative."""


class CompileError(TracegradError, RuntimeError):
    """The C compiler failed or is missing, or Python cannot compile generated code."""


class InternalError(TracegradError, AssertionError):
    """A fault of tracegrad itself."""


@functools.cache
def refused_class(cls: type[Exception]) -> type[TracegradError]:
    """Return the class of errors for what NumPy refuses with `cls`: a subclass of both, of the same name."""
    body = {"__init__": TracegradError.__init__, "__str__": TracegradError.render, "__module__": cls.__module__}
    body["__doc__"] = f"NumPy's {cls.__name__}, with the user's line."
    return type(cls.__name__, (TracegradError, cls), body)


class IRError(InternalError):
    """A function in IR is malformed; found by the verifier or the parser."""
