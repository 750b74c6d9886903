"""The elements that a traced mask selects, `a[mask]`: their number is known only at run time.

Previous: tracer.py; next: ragged.py.

A Masked keeps the whole array and the mask. Elementwise operations work on the whole array; reductions leave the other
elements out by a select; assigning it back at the same mask is a select. What needs the number of elements is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.capture.context import user_span
from tracegrad.capture.tracer import COMPARISONS, METHODS, OPERATORS, Tracer, asarray, call_handler
from tracegrad.errors import CaptureError
from tracegrad.ir.core import Value

_REDUCTIONS: dict[Any, Any] = {
    np.sum: 0,
    np.prod: 1,
    np.any: False,
    np.all: True,
    np.mean: None,
    np.var: None,
    np.std: None,
    np.max: "lowest",
    np.min: "highest",
    np.nansum: 0,
    np.count_nonzero: 0,
}


class Selection:
    """A part of an array whose size is known only at run time; operators and NumPy functions come to `call`."""

    __slots__ = ("content",)
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, content: Tracer) -> None:
        self.content = content

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what a NumPy function does with selections among its arguments."""
        raise NotImplementedError

    def as_tracer(self) -> Tracer:
        """Refuse to be an array.

        Raises:
            CaptureError: always; a subclass says which.
        """
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        return self.as_tracer()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.as_tracer()[key] = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.call(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.call(function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"traced arrays have no attribute {name!r}")
        return getattr(self.as_tracer(), name)

    # ---- what ndarray has; METHODS besides

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.content.dtype

    @property
    def itemsize(self) -> int:
        return self.content.itemsize

    @property
    def nbytes(self) -> Any:
        return self.call(np.size, (self,), {}) * self.itemsize

    @property
    def real(self) -> Any:
        return self.call(np.real, (self,), {})

    @property
    def imag(self) -> Any:
        return self.call(np.imag, (self,), {})

    @property
    def T(self) -> Any:
        return self.transpose()

    @property
    def flat(self) -> Any:
        return self.call(np.ndarray.flat, (self,), {})

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        return self.call(np.reshape, (self, shape[0] if len(shape) == 1 else shape), {"order": order})

    def transpose(self, *axes: Any) -> Any:
        return self.call(np.transpose, (self, axes[0] if len(axes) == 1 else axes or None), {})

    def flatten(self, order: str = "C") -> Any:
        return self.call(np.ravel, (self,), {"order": order}).copy()

    def dot(self, other: Any) -> Any:
        return self.call(np.dot, (self, other), {})


class Masked(Selection):
    """`content[mask]`, with `mask` a bool array of the shape of `content`; `leading` is the rank of the user's mask."""

    __slots__ = ("leading", "mask")

    def __init__(self, content: Tracer, mask: Tracer, leading: int | None) -> None:
        super().__init__(content)
        self.mask, self.leading = mask, leading

    def as_tracer(self) -> Tracer:
        raise unknown_count()

    def __repr__(self) -> str:
        return "<the elements that a traced mask selects>"

    @property
    def ndim(self) -> int:
        return self.content.ndim - (self.leading or 1) + 1

    @property
    def size(self) -> Any:
        return call_handler(np.sum, self.mask)

    def __len__(self) -> int:
        raise unknown_count()

    def __iter__(self) -> Any:
        raise unknown_count()

    def copy(self, order: str = "C") -> Masked:
        return Masked(self.content.copy(), self.mask, self.leading)

    def astype(self, dtype: Any, **kwargs: Any) -> Masked:
        return Masked(self.content.astype(dtype, **kwargs), self.mask, self.leading)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, np.ufunc) and function.nout == 1:
            return Masked(call_handler(function, *[self._operand(a) for a in args], **kwargs), self.mask, self.leading)
        if function in (np.round, np.clip, np.nan_to_num, np.real, np.imag, abs):
            return Masked(call_handler(function, *[self._operand(a) for a in args], **kwargs), self.mask, self.leading)
        if function in (len, np.size):
            return self.size
        if function in (np.ravel, np.transpose) and self.ndim == 1:
            return self
        if function in (sum, max, min) and len(args) == 1:
            function = {sum: np.sum, max: np.max, min: np.min}[function]
        if function in _REDUCTIONS and args and args[0] is self:
            return self._reduce(function, args[1:], kwargs)
        raise unknown_count()

    def _operand(self, value: Any) -> Any:
        """Return an operand of an elementwise operation, to be broadcast against the whole array."""
        if isinstance(value, Masked):
            if not same_value(value.mask.value, self.mask.value):
                raise unknown_count("two selections by different masks")
            return value.content
        tracer = asarray(value)
        room = 0 if self.leading is None else self.content.ndim - self.leading
        if tracer.ndim > room:
            raise unknown_count()
        return value

    def _reduce(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        axis = args[0] if args else kwargs.pop("axis", None)
        if len(args) > 1 or (axis not in (None, 0)) or (axis == 0 and self.leading is None):
            raise unknown_count()
        axes = None if axis is None else tuple(range(self.leading or 0))
        if function is np.count_nonzero:
            return call_handler(
                np.sum, call_handler(np.logical_and, call_handler(np.not_equal, self.content, 0), self.mask)
            )
        fill = _REDUCTIONS[function]
        if fill is None:
            return call_handler(function, self.content, axis=axes, where=self.mask, **kwargs)
        if isinstance(fill, str):
            fill = extreme(self.content.dtype, fill)
        return call_handler(function, call_handler(np.where, self.mask, self.content, fill), axis=axes, **kwargs)


def extreme(dtype: np.dtype[Any], which: str) -> Any:
    """Return the "highest" or the "lowest" value of a dtype."""
    if dtype.kind == "b":
        return which == "highest"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.max if which == "highest" else info.min
    return np.inf if which == "highest" else -np.inf


def unknown_count(found: str = "elements selected by a traced mask, where their number is needed") -> CaptureError:
    """Return the error for what needs the number of selected elements."""
    return CaptureError(
        "the number of selected elements is known only at run time",
        code="TG105",
        span=user_span(),
        found=found,
        help="use np.where(mask, a, 0) or np.sum(a, where=mask)",
    )


def same_value(x: Value, y: Value, limit: int = 12) -> bool:
    """Return whether two values are surely equal: one value, or one operation applied to equal operands."""
    if x is y:
        return True
    a, b = x.producer, y.producer
    if a is None or b is None or limit == 0 or a.op != b.op or a.blocks or b.blocks or len(a.results) != 1:
        return False
    if a.op in ("pop", "call") or len(a.operands) != len(b.operands) or not _same_attributes(a.attrs, b.attrs):
        return False
    return all(same_value(v, w, limit - 1) for v, w in zip(a.operands, b.operands, strict=True))


def _same_attributes(a: dict[str, Any], b: dict[str, Any]) -> bool:
    for name, value in a.items():
        other: Any = b.get(name)
        if isinstance(value, np.ndarray):
            if value.dtype != other.dtype or not np.array_equal(value, other):
                return False
        elif value != other:
            return False
    return True


def _binary(ufunc: Any, reflected: bool) -> Callable[[Selection, Any], Any]:
    def method(self: Selection, other: Any) -> Any:
        return self.call(ufunc, (other, self) if reflected else (self, other), {})

    return method


def _unary(ufunc: Any) -> Callable[[Selection], Any]:
    return lambda self: self.call(ufunc, (self,), {})


def _method(function: Any) -> Callable[..., Any]:
    def method(self: Selection, *args: Any, **kwargs: Any) -> Any:
        return self.call(function, (self, *args), kwargs)

    return method


for _name, _ufunc in {**OPERATORS, "matmul": np.matmul}.items():
    setattr(Selection, f"__{_name}__", _binary(_ufunc, False))
    setattr(Selection, f"__r{_name}__", _binary(_ufunc, True))
for _name, _ufunc in COMPARISONS.items():
    setattr(Selection, f"__{_name}__", _binary(_ufunc, False))
for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    setattr(Selection, f"__{_name}__", _unary(_ufunc))
for _name, _function in METHODS.items():
    setattr(Selection, _name, _method(_function))
