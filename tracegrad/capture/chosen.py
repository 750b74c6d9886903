"""What stands for values without a form in compiled code after a branch: one of several, by a traced number, or none.

Reads and writes nothing. Previous: tracer.py; next: aliases.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.capture.context import current, user_span
from tracegrad.capture.tracer import Tracer, asarray, cast_to, make_weak
from tracegrad.errors import TracegradError
from tracegrad.ir.types import I64

#: the special methods of all operations of Python
OPERATIONS = (
    "eq ne lt le gt ge bool hash str format len iter contains getitem setitem call add radd sub rsub mul rmul truediv "
    "rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul neg pos abs and rand or ror xor rxor invert index "
    "int float complex array enter next"
).split()


#: attribute of an exception: its `args`, and what was given where these show names in the place of traced values
GIVEN = "__tracegrad_given__"


class Conflict:
    """What a name is bound to after a branch whose sides give it values that cannot be joined; reading it is the
    error."""

    __slots__ = ("cause", "name")

    def __init__(self, name: str, cause: Exception) -> None:
        self.name, self.cause = name, cause

    @property
    def error(self) -> Exception:
        """The error of a use in the line that is running, which it names where that is not the line of the branch."""
        error, use = self.cause, user_span()
        if isinstance(error, TracegradError) and error.span is not None and use is not None:
            if (use.file, use.line) != (error.span.file, error.span.line) and error.code == "TG112":
                error.note_use(use)
        return error

    def _use(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error

    def __repr__(self) -> str:
        return f"({self.cause.found})" if isinstance(self.cause, TracegradError) else f"<{self.name} not known>"


class Options(tuple[Any, ...]):
    """The values that a Chosen can be. `error` is raised where the choice cannot depend on a traced value."""

    error: Exception

    def __new__(cls, values: Sequence[Any], error: Exception) -> Options:
        made = super().__new__(cls, values)
        made.error = error
        return made


class Chosen(Conflict):
    """One of several values that have no form in compiled code, strings, functions or objects, by a traced number.

    What can be done for each of the options is done so (choices.py); any other use is the error.

    Attributes:
        index: the position in the options, an int or, for two of them, a bool.
        certain: where a loop starts that may choose another option, the one that it is, alone in a tuple; else None.
    """

    __slots__ = ("certain", "index", "options")

    def __init__(self, options: Options, index: Tracer, *, certain: tuple[Any] | None = None) -> None:
        super().__init__("", options.error)
        self.options, self.index, self.certain = options, index, certain

    @property
    def is_list(self) -> bool:
        """Whether the options are lists."""
        return all(isinstance(option, list) for option in self.options)

    @property
    def is_error(self) -> bool:
        """Whether the options are exceptions."""
        return all(isinstance(option, BaseException) for option in self.options)

    def as_tracer(self) -> Tracer:
        """Return the list that is chosen as an array."""
        if not self.is_list:
            raise self.error
        return asarray(MERGE[0](self))


#: makes a list of one that was chosen; choices.py puts its function here
MERGE: list[Callable[[Chosen], Any]] = []

for _name in OPERATIONS:
    setattr(Conflict, f"__{_name}__", Conflict._use)
Conflict.__getattr__ = Conflict._use  # type: ignore[attr-defined]


# ---- options


def merge_options(one: Sequence[Any], other: Sequence[Any]) -> tuple[Any, ...]:
    """Return the options of two choices, in the order of the one that has more."""
    first, second = (one, other) if len(one) >= len(other) else (other, one)
    return (*first, *(option for option in second if place_of(option, first) is None))


def place_of(option: Any, options: Sequence[Any]) -> int | None:
    """Return the position of a value in options; None where it is not one of them."""
    for k, other in enumerate(options):
        if other is option or _is_equal_option(other, option):
            return k
    return None


def _is_equal_option(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or isinstance(one, list):
        return False
    if isinstance(one, BaseException) and all(current().created_depth(error) >= 0 for error in (one, other)):
        own, others = map(_content, (one, other))
        return is_equal(own, others) and repr(own) == repr(others)
    return is_equal(one, other)


def _content(error: BaseException) -> Any:
    """Return what an exception holds, with its text in the place of what was given."""
    return error.args, *((name, None if name == GIVEN else value) for name, value in sorted(vars(error).items()))


def renumbered(index: Tracer, options: Sequence[Any], merged: Sequence[Any]) -> Tracer:
    """Stage the position in other options, which hold the first ones."""
    places = [place_of(option, merged) for option in options]
    numbers = cast_to(index, I64)
    if places != list(range(len(places))):
        numbers = asarray(np.array(places))[numbers]
    return make_weak(numbers)  # type: ignore[no-any-return]


def is_equal(a: Any, b: Any) -> bool:
    """Return whether it makes no difference which of two Python values there is: False where they can change, where
    they cannot be compared, and for different objects of the user, whatever their `__eq__` compares."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, dict | list | set):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_equal, a, b))
    if type(a).__module__.partition(".")[0] not in _PLAIN:
        return False
    try:
        equal = bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)
        return equal and (not isinstance(a, _INEXACT) or _signs(a) == _signs(b))
    except (TypeError, ValueError):
        return False


#: modules of whose values `==` says all
_PLAIN = frozenset({*sys.stdlib_module_names, "builtins", "numpy", "tracegrad"})
_INEXACT = (float, complex, np.inexact, np.ndarray)


def _signs(value: Any) -> bytes:
    """Return the signs of numbers, also those of zeros."""
    if not isinstance(value, np.ndarray | np.inexact):
        value = np.asarray(value)
    if value.dtype.kind not in "fc":
        return b""
    return bytes(np.signbit(value.real)) + bytes(np.signbit(value.imag))
