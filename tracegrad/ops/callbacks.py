"""Python functions that compiled code calls by name, and the op that does so.

Previous: control.py; next: common.py. Generated NumPy code calls `run`; C code cannot, so that the NumPy backend serves
functions with callbacks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentTypeError
from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import BY_TRANSFORM, OpDef, register
from tracegrad.ir.types import ArrayType, Type, array_type, dtype_name, is_static

_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_NAMES: dict[Callable[..., Any], str] = {}
_numbers = itertools.count(1)


def callback_name(function: Callable[..., Any], label: str = "") -> str:
    """Return the name under which compiled code finds a function, which is kept from then on."""
    if function not in _NAMES:
        label = label or getattr(function, "__name__", type(function).__name__).strip("<>")
        _NAMES[function] = f"{label}_{next(_numbers)}"
        _FUNCTIONS[_NAMES[function]] = function
    return _NAMES[function]


def run(name: str, results: tuple[str, ...], *arguments: Any) -> Any:
    """Call a function with arrays that it cannot write into; return new arrays of the declared types.

    Args:
        name: from `callback_name`.
        results: the types; `f64[*]` where the sizes are not known.

    Raises:
        ArgumentTypeError: it returns something else than was declared.
    """
    given = []
    for argument in arguments:
        view = np.asarray(argument).view()
        view.flags.writeable = False
        given.append(view if view.ndim else view[()])
    made = [
        array.astype(kind.dtype) if array.ndim else array.astype(kind.dtype)[()]
        for array, kind in as_declared(name.rpartition("_")[0], _FUNCTIONS[name](*given), results)
    ]
    return made[0] if len(made) == 1 else tuple(made)


def as_declared(
    name: str, returned: Any, results: Sequence[str], *, is_complex: bool = False
) -> list[tuple[Any, ArrayType]]:
    """Return the arrays that a callback has returned, as copies, with their declared types.

    Args:
        name: of the callback, for errors.
        is_complex: it got complex numbers for real ones, so that floats of it are complex too.

    Raises:
        ArgumentTypeError: it returns something else than was declared.
    """
    parts = (returned,) if len(results) == 1 else tuple(returned)
    if len(parts) != len(results):
        raise misfit(name, f"{len(parts)} arrays, not {len(results)}")
    found = []
    for part, text in zip(parts, results, strict=True):
        array = np.array(part)
        kind = array_type(text[:-3] + "[]").with_shape(array.shape) if text.endswith("[*]") else array_type(text)
        fits = is_complex or np.can_cast(array.dtype, kind.dtype, "same_kind")
        if array.shape != kind.shape or not fits:
            raise misfit(name, f"{array.dtype} array of shape {array.shape}, not {kind}")
        found.append((array, kind))
    return found


def declared_texts(kinds: Iterable[ArrayType]) -> tuple[str, ...]:
    """Return the texts by which a call knows what its results are."""
    return tuple(str(k) if is_static(k.shape) else f"{dtype_name(k.dtype)}[*]" for k in kinds)


def misfit(name: str, found: str) -> ArgumentTypeError:
    """Return the error for a callback whose result is not what was declared."""
    return ArgumentTypeError(
        "a callback returns something else than was declared",
        code="TG238",
        span=None,
        found=f"{name} returns {found}",
        help="declare the type that it returns: tg.pure_callback(fn, 'f64[3]', x)",
    )


def _text(operation: Operation, *operands: str) -> str:
    texts = declared_texts(v.array_type for v in operation.results)
    return f"tracegrad.ops.callbacks.run({', '.join([repr(operation.attrs['name']), repr(texts), *operands])})"


def _infer(*operands: Type, name: str, results: tuple[ArrayType, ...]) -> tuple[Type, ...]:
    return results


callback = register(
    OpDef(
        "callback",
        ("*operands",),
        "Call of a Python function without effects, by its name; `results` are the types of what it returns.",
        attributes=("name", "results"),
        infer=_infer,
        marker=BY_TRANSFORM,
        numpy=_text,
    )
)
