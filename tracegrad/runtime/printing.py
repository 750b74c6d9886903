"""The text of a tensor, as torch prints it.

Reads tensors. Previous: creating.py; next: saving.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracegrad.runtime import dtypes
from tracegrad.runtime.tape import mode, needs_grad
from tracegrad.runtime.tensor import Array, Tensor, method, public
from tracegrad.runtime.views import tangent_of

Show = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """Digits after the point, width of a line, elements from which the middle is left out, elements kept at an edge."""

    precision: int = 4
    linewidth: int = 80
    threshold: float = 1000
    edgeitems: int = 3
    sci_mode: bool | None = None


_options = [PrintOptions()]
_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=float("inf")),
}


@public()
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; a profile, "default", "short" or "full", comes before what else is given."""
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    _options[0] = replace(_options[0] if profile is None else _PROFILES[profile], sci_mode=sci_mode, **changes)


def _float_format(values: Array) -> tuple[Show, int]:
    """Return how the numbers of an array are written, and the width of the widest."""
    options = _options[0]
    numbers = np.abs(values[np.isfinite(values) & (values != 0)].astype(np.float64))
    shown = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    if numbers.size:
        low, high = numbers.min(), numbers.max()
        whole = bool(np.all(np.ceil(shown) == shown))
        scientific = high / low > 1000.0 or high > 1e8 or (not whole and low < 1e-4)
    else:
        whole, scientific = True, False
    if options.sci_mode is not None:
        scientific = options.sci_mode
    digits = options.precision

    def show(value: Any) -> str:
        if scientific:
            return f"{value:.{digits}e}"
        if whole:
            return f"{value:.0f}" + ("." if np.isfinite(value) else "")
        return f"{value:.{digits}f}"

    return show, max([1, *(len(show(v)) for v in shown.tolist())])


def _format_of(array: Array) -> tuple[Show, int]:
    level = dtypes.category(array.dtype)
    if level < 2:
        return str, max([1, *(len(str(v)) for v in array.ravel().tolist())])
    if level == 2:
        return _float_format(array.ravel())
    show_real, width_real = _float_format(array.real.ravel())
    show_imag, width_imag = _float_format(array.imag.ravel())

    def show(value: Any) -> str:
        real = show_real(value.real).rjust(width_real)
        imag = show_imag(value.imag).rjust(width_imag) + "j"
        imag = imag.lstrip()
        return real + imag if imag[0] in "+-" else f"{real}+{imag}"

    return show, width_real + width_imag + 1


def _shown(array: Array) -> Array:
    """Return the elements that are printed when the middle of long axes is left out."""
    edge = _options[0].edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            kept = np.r_[np.arange(edge), np.arange(size - edge, size)]
            array = np.take(array, kept, axis=axis)
    return array


def _text(array: Array, show: Show, width: int, indent: int, shortened: bool) -> str:
    options = _options[0]
    is_complex = array.dtype.kind == "c"
    if not array.ndim:
        return show(_plain(array)).rjust(0 if is_complex else width)
    edge = options.edgeitems
    cut = shortened and len(array) > 2 * edge
    if array.ndim == 1:
        chosen = np.concatenate([array[:edge], array[-edge:]]) if cut else array
        items = [show(v).rjust(0 if is_complex else width) for v in _plain(chosen)]
        if cut:
            items[edge:edge] = [" ..."]
        per_line = max(1, (options.linewidth - indent) // (width + 2))
        lines = [", ".join(items[k : k + per_line]) for k in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = list(array) if not cut else [*array[:edge], *array[-edge:]]
    parts = [_text(np.asarray(row), show, width, indent + 1, shortened) for row in rows]
    if cut:
        parts[edge:edge] = ["..."]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _plain(array: Array) -> Any:
    return array.astype(np.float64).tolist() if array.dtype.kind == "V" else array.tolist()


def tensor_text(tensor: Tensor, prefix: str = "tensor(") -> str:
    """Return the text of a tensor."""
    array, options = tensor._a, _options[0]
    notes = []
    default = dtypes.default_of(2)
    if not array.size:
        body = "[]"
        if array.ndim != 1:
            notes.append(f"size={tuple(array.shape)}")
        if array.dtype != default:
            notes.append(f"dtype={tensor.dtype!r}")
    else:
        shortened = array.size > options.threshold
        show, width = _format_of(_shown(array) if shortened else array)
        body = _text(array, show, width, len(prefix), shortened)
        if array.dtype not in (default, dtypes.complex_of(default), np.dtype(np.int64), np.dtype(np.bool_)):
            notes.append(f"dtype={tensor.dtype!r}")
    try:
        if needs_grad(tensor):
            notes.append(f"grad_fn=<{tensor._node.title}>" if tensor._node is not None else "requires_grad=True")
    except RuntimeError:  # a piece whose base was written
        notes.append("grad_fn=<Invalid>")
    tangent = tangent_of(tensor) if mode.level >= 0 else None
    if tangent is not None:
        notes.append(f"tangent={tensor_text(tangent)}")
    text = prefix + body
    last = len(text) - text.rfind("\n") + 1
    for note in notes:
        if last + len(note) + 2 > options.linewidth:
            text += ",\n" + " " * len(prefix) + note
            last = len(prefix) + len(note)
        else:
            text += ", " + note
            last += len(note) + 2
    return text + ")"


@method("__repr__", "__str__")
def _repr(self: Tensor) -> str:
    return tensor_text(self)


@method("__format__")
def _format(self: Tensor, spec: str) -> str:
    if not self._a.ndim and type(self) is Tensor:
        return format(self.item(), spec)
    if spec:
        raise TypeError(f"unsupported format string passed to {type(self).__name__}.__format__")
    return str(self)
