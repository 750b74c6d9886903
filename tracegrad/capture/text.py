"""Texts that hold traced values: `f"{x}"`, `str(x)`, `"%d" % x`, `"{}".format(x)`, and what messages show of them.

Called by hooks.py and calls.py; print (numpy_api/scalar.py) writes the parts of a text into its operation. Previous:
sizes.py; next: comparisons.py.

What a text says of a traced value is known only when the compiled function runs. So such a text is a `TracedText`: it
may be joined with others and printed. Whatever needs its characters (a dict key, a comparison, its length) asks for a
Python value, so that the loop around it is unrolled. In the message of an exception the name of the value stands; a
handler that reads `e.args` or `str(e)` gets the value itself, or such a text.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import logging
import re
import string
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.capture.chosen import GIVEN
from tracegrad.capture.context import current, user_span
from tracegrad.capture.guards import is_user_function
from tracegrad.capture.sizes import Size
from tracegrad.capture.state import unbound_message
from tracegrad.capture.tracer import Tracer, asarray, call_user, in_message, is_traced, placeholder
from tracegrad.capture.trees import MAKE_ERROR, given_args
from tracegrad.errors import NeedsPythonValue, TracedNameError, TracegradError
from tracegrad.frames import warn
from tracegrad.ir.core import Value
from tracegrad.ir.types import I64

#: modules whose functions write messages for people
_MESSENGERS = ("logging", "warnings", "_warnings")
#: what is printed by its own text
_PRINTED = frozenset({str, int, float, complex, bool, type(None), tuple, list, dict})
#: functions of logging that write a message
_LEVELS = frozenset("debug info warning error critical exception log".split())
#: attribute of a warning whose message has names in the place of traced values
_NAMED = "__tracegrad_named__"


@dataclass(frozen=True, slots=True)
class Part:
    """A traced value in a text: how it was when the text was made, and how str.format is to write it."""

    tracer: Tracer
    value: Value
    style: str

    @property
    def field(self) -> str:
        return "{" + self.style + "}"


class TracedText:
    """A text with traced values in it."""

    __slots__ = ("parts",)

    def __init__(self, parts: Iterable[str | Part]) -> None:
        self.parts = tuple(parts)

    def as_message(self) -> str:
        """Return the text with names in the place of traced values."""
        return "".join(part if isinstance(part, str) else placeholder(part.tracer) for part in self.parts)

    @property
    def is_traced(self) -> bool:
        """Whether there are traced values in it: where not, it is one whose text Python has otherwise."""
        return any(isinstance(part, Part) for part in self.parts)

    @property
    def is_plain(self) -> bool:
        """Whether Python writes the text in quotes as it is."""
        return all(not isinstance(part, str) or repr(part) == f"'{part}'" for part in self.parts)

    def _refuse(self, *_: Any) -> Any:
        current()
        raise needs_text(self.as_message())

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = __mod__ = _refuse
    __len__ = __iter__ = __bool__ = __int__ = __float__ = __index__ = __mul__ = __rmul__ = _refuse

    def __hash__(self) -> int:
        return self._refuse()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    def __add__(self, other: Any) -> Any:
        return join_text(self, other) if isinstance(other, str | TracedText) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return join_text(other, self) if isinstance(other, str) else NotImplemented

    def __str__(self) -> str:
        return self.as_message() if in_message.get() else self._refuse()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __repr__(self) -> str:
        return f"<text {self.as_message()!r}>"


_PRINT_HELP = "print(x) prints the value at run time; a dict key must be made of Python values"


def needs_text(found: str, help: str = _PRINT_HELP) -> NeedsPythonValue:
    """Return the error for a text whose characters are asked for at capture."""
    return NeedsPythonValue(
        "the text of a traced value is known only at run time",
        code="TG101",
        span=user_span(),
        found=f"the text {found!r}, with names in the place of the values",
        help=help,
    )


def join_text(*parts: str | TracedText) -> str | TracedText:
    """Return the parts as one text: what an f-string does with its pieces."""
    if all(isinstance(part, str) for part in parts):
        return "".join(parts)  # type: ignore[arg-type]
    joined: list[str | Part] = []
    for part in parts:
        joined += part.parts if isinstance(part, TracedText) else [part]
    return TracedText(joined)


def format_text(value: Any, conversion: str = "", spec: Any = "") -> str | TracedText:
    """Return the text of one value, as `{value!conversion:spec}` in an f-string writes it."""
    if not isinstance(spec, str):
        spec = str(spec)  # asks for a Python value
    if isinstance(value, TracedText) and conversion in ("", "s") and not spec:
        return value
    if not _has_traced(value):
        if conversion:
            value = repr(value) if conversion == "r" else ascii(value) if conversion == "a" else str(value)
        return format(value, spec)
    if isinstance(value, Tracer) and value.ndim and spec and not conversion:
        raise TypeError("unsupported format string passed to numpy.ndarray.__format__")
    parts = parts_of(value, conversion, spec)
    return TracedText(parts) if any(isinstance(part, Part) for part in parts) else "".join(map(str, parts))


def parts_of(value: Any, conversion: str = "", spec: str = "") -> list[str | Part]:
    """Return a text in parts.

    Raises:
        NeedsPythonValue: a text or a container with traced values in it is to be filled up or cut.
    """
    if isinstance(value, Size):
        value = value.__index__()
    elif hasattr(type(value), "as_tracer"):
        value = value.as_tracer()
    if isinstance(value, Tracer) and value.concrete is not None:
        content = value.concrete[()]
        value = content.item() if value.weak else content
    if isinstance(value, Tracer):
        style = f"!{conversion}" if conversion and not (conversion == "r" and value.weak) else ""
        return [Part(value, asarray(value).value, f"{style}:{spec}" if spec else style)]
    if not _has_traced(value):
        text = format_text(value, conversion, spec)
        assert isinstance(text, str)
        return [text]
    if isinstance(value, TracedText) and conversion in ("r", "a") and not spec and value.is_plain:
        return ["'", *value.parts, "'"]
    if spec or (isinstance(value, TracedText) and conversion not in ("", "s")):
        raise needs_text(value.as_message() if isinstance(value, TracedText) else type(value).__name__)
    if isinstance(value, TracedText):
        return list(value.parts)
    if isinstance(value, dict):
        items: list[list[str | Part]] = [
            [*parts_of(key, "r"), ": ", *parts_of(item, "r")] for key, item in value.items()
        ]
        return ["{", *_separated(items), "}"]
    if _is_record(value):
        fields = [f.name for f in dataclasses.fields(value) if f.repr]
        items = [[f"{name}=", *parts_of(getattr(value, name), "r")] for name in fields]
        return [f"{type(value).__qualname__}(", *_separated(items), ")"]
    items = [parts_of(item, "r") for item in value]
    if isinstance(value, list):
        return ["[", *_separated(items), "]"]
    return ["(", *_separated(items), ",)" if len(items) == 1 else ")"]


def _separated(items: list[list[str | Part]]) -> Iterator[str | Part]:
    for position, item in enumerate(items):
        if position:
            yield ", "
        yield from item


def _has_traced(value: Any) -> bool:
    """Return whether the text of a value is a text of traced values."""
    if isinstance(value, list | tuple):
        return any(map(_has_traced, value))
    if isinstance(value, dict):
        return any(map(_has_traced, value.values()))
    if _is_record(value):
        return any(map(_has_traced, vars(value).values()))
    return isinstance(value, TracedText) or is_traced(value)


def _is_record(value: Any) -> bool:
    """Return whether the text of a value is the one that a dataclass makes of its fields."""
    wrapped = getattr(type(value).__repr__, "__wrapped__", None)
    return dataclasses.is_dataclass(value) and "__create_fn__" in getattr(wrapped, "__qualname__", "")


def holds_text(values: Iterable[Any]) -> bool:
    """Return whether a traced text is among values, or in lists, tuples or dicts among them."""
    for value in values:
        if type(value) is TracedText:
            return True
        if isinstance(value, list | tuple) and holds_text(value):
            return True
        if isinstance(value, dict) and holds_text(value.values()):
            return True
    return False


# ---- calls that make texts or take them


def call_with_text(
    f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[..., Any], prints: Callable[..., Any]
) -> Any:
    """Do a call that makes a text of traced values, or takes one; NotImplemented for all other calls.

    Args:
        f: what is called, with `args` and `kwargs`.
        call: calls a function or method of the user.
        prints: what `print` does with traced values.
    """
    if isinstance(f, types.BuiltinMethodType) and type(f.__self__) is str:
        if f.__name__ == "join" and not kwargs and len(args) == 1:
            return _join(f.__self__, args[0])
        if f.__name__ == "format" and (_has_traced(args) or _has_traced(kwargs)):
            return _format(f.__self__, args, kwargs)
    elif f in _TEXT_FUNCTIONS if isinstance(f, type | types.BuiltinFunctionType) else False:
        if f is print:
            texts = tuple(_own_text(a, "s", "", call) for a in args)
            return prints(*texts, **kwargs) if holds_text(texts) or is_traced(texts) else _print_later(args, kwargs)
        if len(args) == 1 or (f is format and len(args) == 2):
            return _text_of(f, *args, call=call)
    elif isinstance(f, type) and issubclass(f, BaseException):
        return NotImplemented if is_user_function(f.__init__) else make_error(f, args, kwargs)
    elif isinstance(f, types.MethodWrapperType) and f.__name__ == "__init__":
        if isinstance(f.__self__, BaseException):
            return _init_error(f, f.__self__, args, kwargs)
    elif isinstance(f, types.WrapperDescriptorType) and f.__name__ == "__init__":
        if args and isinstance(args[0], BaseException):
            return _init_error(f.__get__(args[0]), args[0], args[1:], kwargs)
    if (getattr(f, "__module__", None) or "").partition(".")[0] in _MESSENGERS:
        if _is_sent(f, args):
            _refuse_message(f, (_own_text(a, "s", "", call) for a in (*args, *kwargs.values())))
        if f is warnings.warn:
            return warn(*map(_message, args), **kwargs)
        if _is_message(f):
            current().write_out(functools.partial(f, *map(_message, args), **kwargs))
            return None
        return call(f, *map(_message, args), **kwargs) if holds_text(args) else NotImplemented
    if not any(type(a) is TracedText for a in (*args, *kwargs.values())):
        return NotImplemented
    if f in (isinstance, type):
        return f(*("" if type(a) is TracedText else a for a in args))
    own = getattr(f, "__self__", None)
    if isinstance(own, BaseException):
        return f(*map(_message, args), **kwargs)
    takes_anything = isinstance(own, list | dict | set) or f in (list, tuple, dict, id, callable)
    if isinstance(f, types.BuiltinFunctionType | types.MethodDescriptorType) and not takes_anything:
        raise needs_text(next(a for a in (*args, *kwargs.values()) if type(a) is TracedText).as_message())
    return NotImplemented


def _print_later(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Print Python values, with the text that they have now."""
    known = all(type(a) in _PRINTED or isinstance(a, np.generic) for a in (*args, *kwargs.values()))
    if current().depth == 0 or not known or not kwargs.keys() <= {"sep", "end", "flush"}:
        return NotImplemented
    text = io.StringIO()
    print(*args, **{**kwargs, "file": text})
    current().write_out(functools.partial(print, text.getvalue(), end="", flush=kwargs.get("flush", False)))
    return None


def _is_message(f: Any) -> bool:
    """Return whether a function of logging writes a message, in a staged region."""
    owner = getattr(f, "__self__", None)
    return current().depth > 0 and f.__name__ in _LEVELS and (owner is None or isinstance(owner, logging.Logger))


def _is_sent(f: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a call of a function of logging or warnings writes anything, as the levels are now."""
    owner = getattr(f, "__self__", logging.root if f.__module__ == "logging" else None)
    if not isinstance(owner, logging.Logger | logging.LoggerAdapter):
        return True
    names = {**logging.getLevelNamesMapping(), "EXCEPTION": logging.ERROR}
    level = args[0] if f.__name__ == "log" and args else names.get(f.__name__.upper())
    return not isinstance(level, int) or owner.isEnabledFor(level)


def _refuse_message(f: Any, values: Iterable[Any]) -> None:
    """Refuse a message with traced values: it would be written once, at capture, without them."""
    unknown: list[str] = []
    for value in values:
        text = format_text(value) if _has_traced(value) else None
        if isinstance(text, TracedText) and any(isinstance(part, Part) for part in text.parts):
            unknown.append(text.as_message())
        elif getattr(value, _NAMED, False):
            unknown.append(str(value))
    if unknown:
        name = f"{f.__module__.lstrip('_')}.{f.__name__}"
        help = f"{name} would write once, at capture: use print, which writes at run time, or return the value and "
        raise needs_text(", ".join(unknown), f"{help}write the message outside")


_TEXT_FUNCTIONS = frozenset({str, repr, ascii, format, print})


def _text_of(f: Any, value: Any, spec: Any = "", *, call: Callable[..., Any]) -> Any:
    conversion = {str: "s", repr: "r", ascii: "a", format: ""}[f]
    text = _own_text(value, conversion, spec, call)
    if text is not value:
        return text
    return format_text(value, conversion, spec) if _has_traced(value) else NotImplemented


def piece_of_text(value: Any, conversion: str, spec: Any, call: Callable[..., Any]) -> Any:
    """`{value!conversion:spec}` in an f-string; `call` calls a method of the user."""
    text = _own_text(value, conversion, spec, call)
    if text is value:
        return format_text(value, conversion, spec)
    return format_text(text, "", spec) if conversion else text


def _own_text(value: Any, conversion: str, spec: Any, call: Callable[..., Any]) -> Any:
    """Return the text of an object with traced values, as its class makes it; other values as they are."""
    if isinstance(value, Tracer | TracedText | Size | type) or not hasattr(value, "__dict__"):
        return value
    names = {"": ["__format__", "__str__", "__repr__"], "s": ["__str__", "__repr__"]}.get(conversion, ["__repr__"])
    for name in names:
        method = getattr(type(value), name, None)
        if isinstance(method, types.FunctionType) and not (name == "__repr__" and _is_record(value)):
            if not _has_traced(vars(value)):
                return value
            if name == "__format__":
                return call(method, value, spec)
            return call(method, value) if conversion else format_text(call(method, value), "", spec)
    return _text_of_error(value, conversion, spec) if isinstance(value, BaseException) else value


def _text_of_error(error: BaseException, conversion: str, spec: Any) -> Any:
    """Return the text of an exception that was given traced values; another one as it is."""
    given = given_args(error)
    if not _has_traced(given):
        return error
    single = len(given) == 1
    if conversion in ("r", "a"):
        inside = join_text("(", format_text(given[0], "r"), ")") if single else format_text(given, "r")
        return join_text(type(error).__name__, inside)
    is_key = isinstance(error, KeyError)  # the text of one is the repr of its key
    text = format_text(given[0] if single else given, "" if single and not is_key else "r")
    return format_text(text, "", spec) if spec else text


def _join(separator: str, items: Any) -> Any:
    items = items if isinstance(items, list | tuple) else list(items)
    if not holds_text(items):
        return separator.join(items)
    parts: list[str | TracedText] = []
    for position, item in enumerate(items):
        parts += [separator, item] if position else [item]
    return join_text(*parts)


def _format(template: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | TracedText:
    """`template.format(*args, **kwargs)`."""
    formatter, number = string.Formatter(), 0
    pieces: list[str | TracedText] = []
    for literal, name, spec, conversion in formatter.parse(template):
        pieces.append(literal)
        if name is None:
            continue
        if name == "" or name[0] in ".[":
            name, number = f"{number}{name}", number + 1
        value, _ = formatter.get_field(name, args, kwargs)
        if spec and "{" in spec:
            spec = spec.replace("{}", f"{{{number}}}", 1).format(*args, **kwargs)
        pieces.append(format_text(value, conversion or "", spec or ""))
    return join_text(*pieces)


_PERCENT = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?(?P<flags>[#0\- +]*)(?P<width>\*|\d+)?(?:\.(?P<digits>\*|\d*))?[hlL]?(?P<kind>.)"
)


def percent(template: str, values: Any) -> Any:
    """`template % values`, where some of the values are traced."""
    if not _has_traced(values):
        return template % values
    if isinstance(values, Tracer) and values.ndim:
        values = (values,)
    items = iter(values if isinstance(values, tuple) else (values,))
    pieces: list[str | TracedText] = []
    position = 0
    for match in _PERCENT.finditer(template):
        pieces.append(template[position : match.start()])
        position = match.end()
        if match["kind"] == "%":
            pieces.append("%")
            continue
        width, digits = (next(items, 0) if part == "*" else part for part in (match["width"], match["digits"]))
        value = values[match["key"]] if match["key"] is not None else next(items, NotImplemented)
        if value is NotImplemented:
            raise TypeError("not enough arguments for format string")
        pieces.append(_percent_item(value, match["flags"], width, digits, match["kind"]))
    if not isinstance(values, dict) and next(items, NotImplemented) is not NotImplemented:
        raise TypeError("not all arguments converted during string formatting")
    return join_text(*pieces, template[position:])


def _percent_item(value: Any, flags: str, width: Any, digits: Any, kind: str) -> str | TracedText:
    if not _has_traced(value):
        lengths = f"{'' if width is None else width}{'' if digits is None else f'.{digits}'}"
        return f"%{flags}{lengths}{kind}" % ((value,) if kind != "%" else ())
    if kind in "diu" and isinstance(value, Tracer):
        value, kind = value if value.dtype.kind in "iu" else _whole(value), "d"
    sign = "+" if "+" in flags else " " if " " in flags else ""
    align = "<" if "-" in flags else ">" if kind in "sra" and width is not None else ""
    spec = align + ("" if kind in "sra" else sign) + ("#" if "#" in flags else "")
    spec += "0" if "0" in flags and not align else ""
    spec += "" if width is None else str(width)
    if digits is not None and kind != "d":
        spec += f".{digits or 0}"
    if kind in "sra":
        return format_text(value, "" if kind == "s" and not spec else kind, spec)
    return format_text(value, "", spec + kind)


def _whole(value: Tracer) -> Tracer:
    return asarray(np.trunc(value)).astype(I64)


# ---- messages


@contextmanager
def messages() -> Iterator[None]:
    """Inside a with statement, the text of a traced value is its name."""
    token = in_message.set(True)
    try:
        yield
    finally:
        in_message.reset(token)


def _message(value: Any) -> Any:
    """Return a value as the arguments of an exception keep it."""
    if isinstance(value, TracedText):
        return value.as_message()
    return placeholder(value) if isinstance(value, Tracer) and value.concrete is None else value


def message_text(value: Any) -> str:
    """Return the text of the message of an assertion."""
    with messages():
        return str(_message(value))


def describe_error(error: BaseException) -> tuple[str, str]:
    """Return the name and the message of an exception that compiled code is to raise.

    Compiled code knows Python's own exceptions only: for another one the nearest of these is raised.
    """
    kind = type(error)
    known = next(k for k in kind.__mro__ if k.__module__ == "builtins" or k is np.linalg.LinAlgError)
    if isinstance(error, TracedNameError):
        return known.__name__, unbound_message(str(error.name))
    if isinstance(error, TracegradError):
        return known.__name__, error.title if error.code == "TG138" else f"{error.title}: {error.found}"
    own = kind.__str__
    with messages():
        is_key = kind is KeyError and len(error.args) == 1 and isinstance(error.args[0], str)
        # the text of a KeyError is the repr of its key
        text = error.args[0] if is_key else str(call_user(own, error) if isinstance(own, types.FunctionType) else error)
    return known.__name__, text if known is kind else f"{kind.__name__}: {text}" if text else kind.__name__


def make_error(kind: type[BaseException], args: tuple[Any, ...], kwargs: dict[str, Any]) -> BaseException:
    """Make an exception in captured code; its message shows names in the place of traced values."""
    with messages():
        texts = [a.as_message() if isinstance(a, TracedText) else a for a in args]
        error = kind(*texts, **{k: v.as_message() if isinstance(v, TracedText) else v for k, v in kwargs.items()})
    if _has_traced((args, kwargs)):
        if isinstance(kind.__init__, types.FunctionType):  # of a library, which has made its texts
            args = tuple(TracedText([a]) if isinstance(a, str) else a for a in error.args)
        keep_given(error, args)
        if isinstance(error, Warning):
            setattr(error, _NAMED, True)
    current().register_created(error)
    return error


def keep_given(error: BaseException, args: tuple[Any, ...]) -> None:
    """Set the arguments of an exception, which show names in the place of traced values, and note what was given."""
    error.args = tuple(map(_message, args))
    if _has_traced(args):
        setattr(error, GIVEN, (error.args, args))


def keep_text(error: BaseException) -> None:
    """Note that the text of an exception with one argument is not the one that Python gives it."""
    keep_given(error, (_unknown_text(tuple(map(str, error.args))),))


@functools.lru_cache(maxsize=256)
def _unknown_text(pieces: tuple[str, ...]) -> TracedText:
    """Return the one text that Python has otherwise, for errors of one kind to be equal."""
    return TracedText(pieces)


def _make_holding(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Make an exception, without its `__init__`, that holds these arguments."""
    error = kind.__new__(kind)
    keep_given(error, args)
    return error


MAKE_ERROR.append(_make_holding)


def _init_error(init: Any, error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`super().__init__(*args)` in the `__init__` of a user's exception."""
    init(*map(_message, args), **kwargs)
    keep_given(error, args)
