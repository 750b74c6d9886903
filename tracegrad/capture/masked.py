"""The elements that a traced mask selects, `a[mask]`: their number is known only at run time.

Previous: tracer.py; next: lengths.py.

A Masked keeps the whole array and the mask. Elementwise operations work on the whole array; reductions leave the other
elements out by a select; assigning it back at the same mask is a select. For all else the selected elements are moved
to the front (`compressed`): an array of a length known at run time, with all that ragged.py can do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.capture.context import current, user_span
from tracegrad.capture.tracer import (
    COMPARISONS,
    METHODS,
    OPERATORS,
    Tracer,
    asarray,
    call_handler,
    check,
    inplace,
    make_weak,
)
from tracegrad.errors import CaptureError, NeedsPythonValue
from tracegrad.ir.core import Block, Value

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
#: functions of scalars that are applied to each element, besides NumPy's ufuncs
ELEMENTWISE = frozenset({np.where, np.clip, np.round, np.nan_to_num, np.real, np.imag, np.sinc, np.i0, np.isclose, abs})
#: functions of which one argument, at a position, is taken element by element
OF_ELEMENTS: dict[Any, int] = {np.polyval: 1, np.interp: 0, np.searchsorted: 1, np.digitize: 0}
_BUILTINS: dict[Any, Any] = {sum: np.sum, max: np.max, min: np.min, any: np.any, all: np.all}
#: makes the array of some length, given its content and length: ragged.py puts its class here
LEADING: list[Callable[[Tracer, Any], Selection]] = []
#: methods that write into the array
_WRITING = frozenset({"sort", "partition", "fill", "put", "itemset", "resize"})


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

    def conj(self) -> Any:
        return self.call(np.conjugate, (self,), {}) if self.dtype.kind == "c" else self

    conjugate = conj

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
    """`content[mask]`, with `mask` a bool array of the shape of `content`.

    Attributes:
        leading: the rank of the user's mask, where it is one of leading axes.
        rows: the user's mask, where it is one of the first axis.
    """

    __slots__ = ("_compressed", "leading", "mask", "rows")

    def __init__(self, content: Tracer, mask: Tracer, leading: int | None, rows: Tracer | None = None) -> None:
        super().__init__(content)
        self.mask, self.leading = mask, leading
        self.rows = mask if leading == content.ndim == 1 else rows
        self._compressed: tuple[Value, Block, Selection] | None = None

    def as_tracer(self) -> Tracer:
        raise unknown_count()

    def __repr__(self) -> str:
        return "<the elements that a traced mask selects>"

    @property
    def ndim(self) -> int:
        return self.content.ndim - (self.leading or 1) + 1

    @property
    def shape(self) -> tuple[Any, ...]:
        return (self._count(), *self.content.shape[self._leading() :])

    @property
    def size(self) -> Any:
        return make_weak(call_handler(np.sum, self.mask))

    def __len__(self) -> int:
        raise unknown_count()

    def __iter__(self) -> Any:
        raise unknown_count()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Masked) and self.ndim == 1 and key.dtype.kind == "b" and self._is_alike(key):
            mask = call_handler(np.logical_and, self.mask, key.content)
            return Masked(self.content.copy(), mask, self.leading)
        return _counting(lambda: self.compressed()[_all_compressed(key)])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"traced arrays have no attribute {name!r}")
        if name in _WRITING:
            raise unknown_count(f"elements selected by a traced mask, written by the method {name!r}")
        return _counting(lambda: getattr(self.compressed(), name))

    def _leading(self) -> int:
        """Return the rank of the mask.

        Raises:
            CaptureError: it is not a mask of leading axes.
        """
        if self.leading is None:
            raise unknown_count()
        return self.leading

    def _rows(self) -> Tracer:
        """Return which rows of the content are selected, in one axis."""
        if self.rows is not None:
            return self.rows
        mask = call_handler(np.reshape, self.mask, (-1, *self.content.shape[self._leading() :]))
        rows: Tracer = mask[(slice(None), *[0] * (mask.ndim - 1))]
        return rows

    def _count(self) -> Any:
        count = make_weak(call_handler(np.sum, self._rows()))
        current().ranges[count.value] = (0, self._rows().type.shape[0])
        return count

    def compressed(self) -> Selection:
        """Return the selected elements as an array of a length known at run time."""
        content = self.content.value
        known = self._compressed
        if known is not None and known[0] is content and current().is_open(known[1]):
            return known[2]
        rows = self._rows()
        order = call_handler(np.argsort, call_handler(np.where, rows, 0, 1), kind="stable")
        whole = call_handler(np.reshape, self.content, (-1, *self.content.shape[self._leading() :]))
        with current().builder.certain():
            front = whole[order]
        current().pin(front._storage, "elements selected by a mask: write `.copy()` of a part before it is written")
        made = LEADING[-1](front, self._count())
        self._compressed = content, current().frame.block, made
        return made

    def are_positions(self, axis: int) -> bool:
        """Return whether the elements are their own places along an axis, as in `np.nonzero(mask)[axis]`."""
        made = self.content.value.producer
        return made is not None and made.op == "iota" and made.attrs["axis"] == axis

    def like(self, content: Tracer) -> Masked:
        """Return the same selection of another content of this shape."""
        return Masked(content, self.mask, self.leading, self.rows)

    def copy(self, order: str = "C") -> Masked:
        return self.like(self.content.copy())

    def astype(self, dtype: Any, **kwargs: Any) -> Masked:
        return self.like(self.content.astype(dtype, **kwargs))

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._call_on_whole(function, args, kwargs)
        if result is not NotImplemented:
            return result
        return _counting(lambda: self.compressed().call(function, _all_compressed(args), _all_compressed(kwargs)))

    def _call_on_whole(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what a function does on the whole array and the mask; NotImplemented where that is not possible."""
        is_ufunc = isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None
        if is_ufunc or function in ELEMENTWISE:
            if not all(map(self._fits, (*args, *kwargs.values()))):
                return NotImplemented
            given = [_whole(a) for a in args], {name: _whole(a) for name, a in kwargs.items()}
            return self.like(call_handler(function, *given[0], **given[1]))
        place = OF_ELEMENTS.get(function, len(args))
        if place < len(args) and args[place] is self and sum(isinstance(a, Selection) for a in args) == 1:
            return self.like(call_handler(function, *map(_whole, args), **kwargs))
        if function in _ROWWISE and not kwargs:
            result = _ROWWISE[function](self, *args)
            if result is not NotImplemented:
                return result
        if function in (len, np.size) and len(args) == 1:
            return self._count() if function is len else self.size
        if function in (np.ravel, np.transpose) and self.ndim == 1:
            return self
        if self.ndim == 1:
            if function in (np.dot, np.matmul, np.inner, np.vdot) and not kwargs and all(map(self._is_alike, args)):
                first = call_handler(np.conj, args[0]) if function is np.vdot else args[0]
                return call_handler(np.sum, call_handler(np.multiply, first, args[1]))
            if function is np.ptp and len(args) == 1 and not kwargs:
                return call_handler(np.max, self) - call_handler(np.min, self)
            if function is np.linalg.norm and args[1:] in ((), (2,), (1,), (np.inf,)) and not kwargs:
                return call_handler(np.linalg.norm, call_handler(np.ravel, self._filled(0)), *args[1:])
        if function in _BUILTINS and len(args) == 1:
            function = _BUILTINS[function]
        if function in _REDUCTIONS and args and args[0] is self:
            return self._reduce(function, args[1:], dict(kwargs))
        return NotImplemented

    def _is_alike(self, value: Any) -> bool:
        """Return whether a value is a selection of the same elements."""
        return isinstance(value, Masked) and value.ndim == self.ndim and same_value(value.mask.value, self.mask.value)

    def _is_row(self, value: Any) -> bool:
        """Return whether a value is a selection of the same rows, in one axis."""
        return isinstance(value, Masked) and value.leading == 1 and same_value(value._rows().value, self._rows().value)

    def _fits(self, value: Any) -> bool:
        """Return whether a value can be an operand of an elementwise operation on the whole array."""
        if isinstance(value, Masked):
            return same_value(value.mask.value, self.mask.value)
        if value is None or isinstance(value, str | np.dtype | type):
            return True
        room = 0 if self.leading is None else self.content.ndim - self.leading
        return not isinstance(value, Selection) and asarray(value).ndim <= room

    def _filled(self, fill: Any) -> Any:
        return call_handler(np.where, self.mask, self.content, fill)

    def _reduce(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        axis = args[0] if args else kwargs.pop("axis", None)
        if len(args) > 1 or (axis not in (None, 0)) or (axis == 0 and self.leading is None):
            return NotImplemented
        if set(kwargs) - {"ddof", "dtype"}:
            return NotImplemented
        axes = None if axis is None else tuple(range(self.leading or 0))
        if function is np.count_nonzero:
            return call_handler(
                np.sum, call_handler(np.logical_and, call_handler(np.not_equal, self.content, 0), self.mask)
            )
        fill = _REDUCTIONS[function]
        if fill is None:
            return call_handler(function, self.content, axis=axes, where=self.mask, **kwargs)
        if isinstance(fill, str):
            name = "maximum" if fill == "lowest" else "minimum"
            message = f"zero-size array to reduction operation {name} which has no identity"
            check(call_handler(np.any, self.mask), "ValueError", message)
            fill = extreme(self.content.dtype, fill)
        return call_handler(function, self._filled(fill), axis=axes, **kwargs)


# ---- functions of each row


def _rows_like(like: Masked, content: Tracer) -> Masked:
    """Return the same selection of rows, with other ones."""
    rows = like._rows()
    mask = rows
    if content.ndim > 1:
        mask = call_handler(np.reshape, rows, (-1, *[1] * (content.ndim - 1)))
        mask = call_handler(np.broadcast_to, mask, content.shape)
    return Masked(content, mask, 1, rows)


def _like(function: Any) -> Callable[..., Any]:
    def make(self: Masked, a: Any, *args: Any) -> Any:
        return self.like(call_handler(function, self.content, *args)) if a is self else NotImplemented

    return make


def _column_stack(self: Masked, parts: Any) -> Any:
    """Return rows made of columns: numbers of the selected elements, or rows."""
    if not isinstance(parts, tuple | list) or not all(map(self._is_row, parts)):
        return NotImplemented
    return _rows_like(self, call_handler(np.column_stack, [part.content for part in parts]))


def _vander(self: Masked, x: Any, count: Any) -> Any:
    return _rows_like(self, call_handler(np.vander, self.content, count)) if self.ndim == 1 else NotImplemented


def _matmul(self: Masked, a: Any, b: Any) -> Any:
    if a is not self or isinstance(b, Selection) or self.leading != 1 or self.content.ndim != 2:
        return NotImplemented
    return _rows_like(self, call_handler(np.matmul, self._filled(0), b))


def cutoff(size: Any, dtype: np.dtype[Any]) -> Any:
    """Return what NumPy takes singular values for zero below, relative to the greatest, of a matrix of some size."""
    return size * float(np.finfo(np.result_type(dtype, np.float32)).eps)


def _least_squares(self: Masked, a: Any, b: Any, rcond: Any = None) -> Any:
    """Rows of zeros change no solution."""
    if not (self._is_row(a) and self._is_row(b)) or a.ndim != 2:
        return NotImplemented
    if rcond is None:
        size = call_handler(np.maximum, self._count(), a.content.shape[1])
        rcond = cutoff(size, a.dtype)
    return call_handler(np.linalg.lstsq, a._filled(0), b._filled(0), rcond)


_ROWWISE: dict[Any, Callable[..., Any]] = {
    **{function: _like(function) for function in (np.zeros_like, np.ones_like, np.full_like, np.empty_like)},
    np.column_stack: _column_stack,
    np.c_: _column_stack,
    np.vander: _vander,
    np.matmul: _matmul,
    np.dot: _matmul,
    np.linalg.lstsq: _least_squares,
}


def _counting(compute: Callable[[], Any]) -> Any:
    """Return what is computed; what needs a length is said to need the number of selected elements."""
    try:
        return compute()
    except NeedsPythonValue as error:
        if error.code != "TG118":
            raise
        raise unknown_count() from None


def _whole(value: Any) -> Any:
    return value.content if isinstance(value, Masked) else value


def _all_compressed(value: Any) -> Any:
    """Return arguments with compressed arrays in place of selections."""
    if isinstance(value, Masked):
        return value.compressed()
    if type(value) is dict:
        return {key: _all_compressed(item) for key, item in value.items()}
    if type(value) is tuple:
        return tuple(map(_all_compressed, value))
    return list(map(_all_compressed, value)) if isinstance(value, list) else value


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


def _inplace(ufunc: Any) -> Callable[[Masked, Any], Masked]:
    def method(self: Masked, other: Any) -> Masked:
        if not self._fits(other):
            raise unknown_count("elements selected by a traced mask, changed by others than a number or their like")
        inplace(ufunc, self.content, _whole(other))
        return self

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
for _name, _ufunc in OPERATORS.items():
    setattr(Masked, f"__i{_name}__", _inplace(_ufunc))
for _name, _ufunc in COMPARISONS.items():
    setattr(Selection, f"__{_name}__", _binary(_ufunc, False))
for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    setattr(Selection, f"__{_name}__", _unary(_ufunc))
for _name, _function in METHODS.items():
    setattr(Selection, _name, _method(_function))
