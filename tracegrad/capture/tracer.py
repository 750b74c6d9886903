"""The value that stands for an array while a function is captured: operators, NumPy protocols, ndarray methods.

Writes operations through context.py. Previous: context.py; next: numpy_api/.

A Tracer is an array (with NumPy's semantics, in-place writes and views included) or, when `weak`, a Python float, int
or bool: weak tracers promote as Python scalars do. What NumPy functions do with tracers is registered by numpy_api/ in
`HANDLERS`; operators and methods go through the same handlers.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from enum import Enum
from types import FrameType, ModuleType
from typing import Any, TypeVar

import numpy as np

from tracegrad import ops
from tracegrad.capture.context import (
    EVERY_INPUT,
    NO_INPUT,
    NUMBERS,
    RestageError,
    Signal,
    Storage,
    current,
    note_escaped,
    unconverted_reason,
    user_span,
)
from tracegrad.errors import (
    ArgumentTypeError,
    CaptureError,
    NeedsPythonValue,
    TracedValueError,
    TracegradError,
    refused_class,
)
from tracegrad.frames import is_library, is_own
from tracegrad.ir.core import Block, Value
from tracegrad.ir.opdef import OpDef
from tracegrad.ir.types import BOOL, F64, I64, ArrayType, SymbolicDim

F = TypeVar("F", bound=Callable[..., Any])

#: callable of NumPy, math, SciPy or builtins -> what it does when it meets a traced value
HANDLERS: dict[Any, Callable[..., Any]] = {}
#: module that is slow to import -> what registers its functions, once the user's code has imported it
LATE: dict[str, Callable[[], None]] = {}
#: function of another kind of array -> what calls it with traced values: `caller(function, args, keywords)`
CALLERS_OF_OTHERS: dict[Any, Callable[..., Any]] = {}
#: how a handler calls a function that the user passed: calls.py puts its `call` here, which converts the function
CALLERS: list[Callable[..., Any]] = []
#: finds the content of a traced value that Python asks for, or None: known.py puts its function here
RESOLVERS: list[Callable[[Any, bool], Any]] = []
#: whether texts are made for a message, where a traced value is shown by its name
in_message: ContextVar[bool] = ContextVar("tracegrad_in_message", default=False)
#: callables whose handler is used in captured code even when no argument is traced (`range`, `zip`, ...)
ALWAYS: set[Any] = set()


def implements(*functions: Any, always: bool = False) -> Callable[[F], F]:
    """Register the decorated function as what `functions` do with traced values."""

    def decorate(handler: F) -> F:
        for function in functions:
            HANDLERS[function] = handler
            if always:
                ALWAYS.add(function)
        return handler

    return decorate


class View:
    """How a view reads its base and writes it back: `read(base) -> view`, `write(base, new view) -> new base`.

    Attributes:
        native: the same reading of a base that is known at capture, by NumPy; None when there is none.
        key: for a view made by indexing, the index; None for other views.
        name: the user's name for it, '' for none.
        is_flat: it stands for `a.flat`, parts of which are copies.
    """

    __slots__ = ("base", "cache", "is_flat", "key", "name", "native", "read", "write")

    def __init__(
        self,
        base: Tracer,
        read: Callable[[Value], Value],
        write: Callable[[Value, Value], Value] | None,
        native: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None,
        key: tuple[Any, ...] | None = None,
    ) -> None:
        self.base, self.read, self.write, self.native, self.key = base, read, write, native, key
        self.cache: tuple[Value, Value, Block] | None = None
        self.name = ""
        self.is_flat = False

    def name_value(self) -> None:
        """Give the value that was read last the user's name, unless it has one."""
        if self.cache is not None and self.cache[1] is not self.cache[0] and not self.cache[1].name:
            self.cache[1].name = self.name


class Tracer:
    """A traced array, or (weak) a traced Python scalar."""

    __slots__ = ("_contiguous", "_storage", "_strides", "_view", "weak")
    __array_priority__ = 1000.0

    def __init__(
        self, storage: Storage, *, weak: bool = False, view: View | None = None, contiguous: bool = True
    ) -> None:
        self._storage, self._view, self.weak, self._contiguous = storage, view, weak, contiguous
        #: in elements, of an array of its own that is not in C order; None: in C order, or not known (memory.py)
        self._strides: tuple[int, ...] | None = None

    def set_c_order(self) -> None:
        """Note that the array is in C order."""
        self._strides, self._contiguous = None, True

    def set_strides(self, strides: tuple[int, ...]) -> None:
        """Note that the array is not in C order."""
        self._strides, self._contiguous = strides, False

    def forget_order(self) -> None:
        """Note that the memory order of the array is not known."""
        self._strides, self._contiguous = None, False

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What code that is not captured gets where it asks for the class, as isinstance and match do."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == "<frozen abc>":
            frame = frame.f_back
        if frame is None or is_own(frame.f_code.co_filename):
            return Tracer
        return python_class(self)

    # ---- content

    @property
    def zero_dim(self) -> bool | None:
        """Whether it is an array where it has no axes, and no scalar; None: it may be either."""
        return self._storage.zero_dim

    @zero_dim.setter
    def zero_dim(self, zero_dim: bool | None) -> None:
        self._storage.zero_dim = zero_dim

    @property
    def is_array(self) -> bool:
        """Whether it may be written in place: an array, and no number."""
        return self.type.ndim > 0 or self._storage.zero_dim is not False

    @property
    def type(self) -> ArrayType:
        return self._storage.type

    @property
    def value(self) -> Value:
        """The current version in IR."""
        capture = current()
        if self._view is None:
            return capture.read(self._storage)
        view = self._view
        base = view.base.value
        if view.cache is not None and view.cache[0] is base and capture.is_open(view.cache[2]):
            return view.cache[1]
        value = view.read(base)
        view.cache = (base, value, capture.frame.block)
        view.name_value()
        return value

    @property
    def concrete(self) -> np.ndarray[Any, Any] | None:
        """The content when it is known at capture, else None."""
        if self._view is not None:
            base = self._view.base.concrete if self._view.native is not None else None
            return None if base is None else self._view.native(base)  # type: ignore[misc]
        content: np.ndarray[Any, Any] | None = self._storage.concrete
        return content if content is None else current().known(self._storage)

    @property
    def root(self) -> Tracer:
        """The array that owns the memory."""
        return self if self._view is None else self._view.base.root

    def assign(self, value: Value) -> None:
        """Make `value` the content, as an in-place write does; the bases of a view see it."""
        self._assign(value, ())

    def _assign(self, value: Value, done: tuple[Storage, ...]) -> None:
        if self._view is None:
            storage, capture = self._storage, current()
            storage.require_writable()
            capture.write(storage, value)
            for condition, other in storage.links:
                target = other.root._storage
                if target not in done and target.depth <= capture.depth and not target.stale:
                    chosen = stage(ops.broadcast_to, condition, shape=other.type.shape)
                    other._assign(stage(ops.select, chosen, value, other.value), (*done, storage))
            return
        view = self._view
        if view.write is None:
            raise ArgumentTypeError(
                "the array is read-only",
                code="TG121",
                span=user_span(),
                found="a write into a read-only view (of broadcast_to or diagonal)",
                help="copy it first: `a = a.copy()`",
            )
        view.base._assign(view.write(view.base.value, value), done)
        view.cache = None

    def set_name(self, name: str) -> None:
        """Give the value the user's name, unless it has one."""
        if self._view is not None:
            self._view.name = self._view.name or name
            self._view.name_value()
            return
        storage = self._storage
        storage.name = storage.name or name
        if storage.concrete is None and storage.value is not None and not storage.value.name:
            storage.value.name = name

    # ---- what ndarray has

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(python_dim(d) for d in self.type.shape)

    @shape.setter
    def shape(self, shape: Any) -> None:
        raise unsupported("a store into .shape", "bind the view: `a = a.reshape(shape)`")

    @property
    def ndim(self) -> int:
        return self.type.ndim

    @property
    def size(self) -> Any:
        return python_dim(self.type.size)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    @property
    def T(self) -> Tracer:
        return array_handler(np.transpose, self)

    @property
    def mT(self) -> Tracer:
        return array_handler(np.swapaxes, self, -1, -2)

    @property
    def real(self) -> Tracer:
        return array_handler(np.real, self)

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Tracer:
        return array_handler(np.imag, self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        self.imag[...] = value

    @property
    def flat(self) -> Tracer:
        return array_handler(np.ndarray.flat, self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = call_handler(np.ravel, value)

    @property
    def base(self) -> Tracer | None:
        return None if self._view is None else self._view.base

    @property
    def is_contiguous(self) -> bool:
        """Whether a reshape of this array is a view in NumPy."""
        return self._contiguous

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(operator.index(self.shape[0])))

    def __getitem__(self, key: Any) -> Any:
        return call_handler(operator.getitem, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        call_handler(operator.setitem, self, key, value)

    def __contains__(self, item: Any) -> Any:
        return bool(call_handler(np.any, self == item))

    # ---- what Python asks of a value

    def _python(self, kind: str, convert: Callable[[Any], Any]) -> Any:
        content = self.concrete
        if content is not None:
            return convert(content)
        current()  # a tracer that outlived its capture is reported as that
        content = resolve_content(self, floats=kind == "an int")
        if content is not None:
            return convert(content)
        help = _NEEDS_HELP[kind]
        unconverted = unconverted_reason()
        if unconverted is not None and kind in _CONVERTED:
            reason, remedy = unconverted
            help = (
                f"{reason}, so it runs as it is, and what Python decides in it cannot depend on traced values: {remedy}"
            )
        error = NeedsPythonValue(
            f"a traced value is used where Python needs {kind}",
            code="TG101",
            span=user_span(),
            found=f"{describe(self)}, known only when the compiled function runs",
            help=help,
        )
        note_escaped(error)
        raise error

    @property
    def is_scalar(self) -> bool:
        """Whether it is a number of Python's or NumPy's in Python, and no array."""
        return self.weak or not (self.ndim or self.zero_dim)

    def plain_number(self) -> Any:
        """Return the number for what only Python can do with it.

        Raises:
            NeedsPythonValue: it is known only when the compiled function runs.
        """
        return self._python("a plain number", python_class(self))

    def __bool__(self) -> bool:
        if self.type.size != 1 and self.concrete is None:
            raise ambiguous_truth(self)
        return self._python("a truth value", bool)  # type: ignore[no-any-return]

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"only integer scalar arrays can be used as an index, not {describe(self)}")
        return self._python("an int", operator.index)  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return self._python("a dict key or an item of a set", lambda content: hash(content[()]))  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self._python("an int", int)  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return self._python("a float", float)  # type: ignore[no-any-return]

    def __complex__(self) -> complex:
        return self._python("a complex number", complex)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self._python("an array", lambda a: np.array(a, dtype=dtype))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<traced {describe(self)}>"

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, spec: str) -> str:
        if in_message.get() and self.concrete is None:
            return placeholder(self)
        return self._python("a text", lambda content: format(content[()], spec))  # type: ignore[no-any-return]

    # ---- NumPy protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__":
            return call_handler(ufunc, *inputs, **kwargs)
        return call_handler(getattr(ufunc, method), *inputs, **kwargs, _bound=(ufunc, method))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call_handler(function, *args, **kwargs)

    # ---- comparisons and operators: see _operators below

    def __abs__(self) -> Any:
        return python_operator(np.absolute, self)

    def __neg__(self) -> Any:
        return python_operator(np.negative, self)

    def __pos__(self) -> Any:
        return python_operator(np.positive, self)

    def __invert__(self) -> Any:
        return python_operator(np.invert, self)

    def __round__(self, digits: int | None = None) -> Any:
        rounded = call_handler(np.round, self, digits or 0)
        return rounded if digits is not None else call_handler(int, rounded)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __matmul__(self, other: Any) -> Any:
        return call_handler(np.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return call_handler(np.matmul, other, self)

    # ---- methods

    def item(self, *index: Any) -> Any:
        if len(index) == 1 and not isinstance(index[0], tuple):
            scalar = call_handler(np.ravel, self)[index[0]]
        else:
            scalar = self[index[0] if len(index) == 1 else index] if index else call_handler(np.reshape, self, ())
        return make_weak(scalar)

    def conj(self) -> Tracer:
        """Return the complex conjugate; of a real array NumPy gives the array itself."""
        return call_handler(np.conjugate, self) if self.dtype.kind == "c" else self

    conjugate = conj

    def copy(self, order: str = "C") -> Tracer:
        content = self.concrete
        if content is not None:
            made = from_concrete(content if content.flags.c_contiguous else content.copy())
        else:
            made = from_value(self.value)
        made.zero_dim = self.zero_dim
        if order != "C" and made.ndim > 1:
            return array_handler(np.copy, self, order)
        made._storage.follows = NO_INPUT
        return made

    def __copy__(self) -> Tracer:
        return self.copy("K")

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self.copy("K")

    def tolist(self) -> Any:
        if not self.ndim:
            return self.item()
        return [row.tolist() if isinstance(row, Tracer) else row for row in self]

    def fill(self, value: Any) -> None:
        self[...] = value

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Tracer:
        cast = cast_to(self, np.dtype(dtype))
        if cast is not self:
            cast.zero_dim = self.zero_dim
        if self.ndim > 1 and (cast is not self or copy):
            return array_handler(np.copy, cast, order, _like=self)
        if cast is self and not copy:
            current().native.add(self._storage)
        return cast if cast is not self or not copy else self.copy()

    def reshape(self, *shape: Any, order: str = "C") -> Tracer:
        return array_handler(np.reshape, self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> Tracer:
        if len(axes) == 1 and not isinstance(axes[0], int):
            return array_handler(np.transpose, self, axes[0])
        return array_handler(np.transpose, self, axes or None)

    def flatten(self, order: str = "C") -> Tracer:
        return array_handler(np.ravel, self, order).copy()

    def sort(self, axis: int = -1) -> None:
        self[...] = call_handler(np.sort, self, axis=axis)

    def argpartition(self, kth: Any, axis: Any = -1) -> Tracer:
        return array_handler(np.argpartition, self, kth, axis)

    def partition(self, kth: Any, axis: int = -1) -> None:
        self[...] = call_handler(np.sort, self, axis=axis)

    def view(self, *args: Any) -> Tracer:
        if args:
            raise unsupported("ndarray.view with a dtype", "use astype, which converts values")
        return array_handler(np.reshape, self, self.shape)

    def tobytes(self) -> bytes:
        return self.__array__().tobytes()

    def dot(self, other: Any, out: Any = None) -> Tracer:
        return array_handler(np.dot, self, other)

    @property
    def flags(self) -> Any:
        raise unsupported("ndarray.flags", "the memory layout is that of the compiled code: leave the test out")

    @property
    def strides(self) -> Any:
        raise unsupported("ndarray.strides", "the memory layout is that of the compiled code: use the shape")

    def __getattr__(self, name: str) -> Any:
        if name == "_a":  # what eager code asks tensors for
            raise unsupported(
                "a module, or another part of the eager layer, called with a traced value",
                "call functions (torch.tanh, nn.functional.linear) with weights that are arguments of the function",
            )
        if self.is_scalar and not name.startswith("__") and hasattr(python_class(self), name):
            return getattr(self.plain_number(), name)
        raise AttributeError(f"traced arrays have no attribute {name!r}")


class MaybeNone(Tracer):
    """A number or array on some paths and None on the others; a use as a number checks at run time that it is one.

    Attributes:
        some: the number or array.
        present: whether it is one.
        absent: it stands for None, where a loop starts that may bind it.
    """

    __slots__ = ("absent", "present", "some")

    def __init__(self, some: Tracer, present: Tracer, *, absent: bool = False) -> None:
        super().__init__(some._storage, weak=some.weak, view=some._view, contiguous=some._contiguous)
        self._strides = some._strides
        self.some, self.present, self.absent = some, present, absent

    @property
    def value(self) -> Value:
        require(self.present.value, "TypeError", "a number is expected, and there is None")
        return self.some.value

    @property
    def concrete(self) -> None:
        return None


def check(condition: Any, error: str, message: str) -> None:
    """Raise a Python error at run time unless the condition holds."""
    tracer = asarray(condition)
    if tracer.concrete is None or not tracer.concrete:
        stage(ops.check, tracer.value, error=error, message=message)


def require(condition: Value, error: str, message: str) -> None:
    """Stage a check, unless a branch that is open makes sure that the condition holds."""
    if condition not in current().holding:
        stage(ops.check, condition, error=error, message=message)


def python_class(tracer: Tracer) -> Any:
    """Return the class that the value has in Python: a number's, or np.ndarray."""
    if tracer.weak:
        return {"f": float, "i": int, "u": int, "b": bool, "c": complex}[tracer.dtype.kind]
    return np.ndarray if tracer.ndim or tracer.zero_dim else tracer.dtype.type


def resolve_content(tracer: Tracer, floats: bool = False) -> np.ndarray[Any, Any] | None:
    """Return the content of an array that is known at capture, or computed from the content of integer inputs alone
    (and of Python floats, where `floats` says so); else None. In the second case the capture holds for these inputs
    only."""
    content = tracer.concrete
    if content is None:
        content = next((c for c in (resolve(tracer, floats) for resolve in RESOLVERS) if c is not None), None)
    return content


#: what a converted function may do with traced values
_CONVERTED = ("a truth value", "an int", "a float", "a complex number")
_NEEDS_HELP = {
    "a truth value": "`if`, `while`, `and`, `or` and comparisons in a captured function may depend on traced values; "
    "what Python or a library decides by itself (`__eq__` of the keys of a dict, of itertools.groupby) must not: do it "
    "in the captured function, or use np.where",
    "an int": "an array index or a loop bound may be traced (`x[i]`, `range(n)`); a list index, a dict key or a shape "
    "must not: make the list an array (`np.array(items)[i]`), or pass the int as a Python int argument",
    "a dict key or an item of a set": "a dict key must not depend on traced values, nor on what a staged loop counts: "
    "index an array (`np.array(items)[i]`), or pass the key as a Python argument; look for objects in a list; the "
    "distinct values of an array are np.unique(x)",
    "a float": "write `float(x)` in the captured function itself, where it keeps the derivative",
    "a complex number": "write `complex(x)` in the captured function itself",
    "a plain number": "Python objects and methods of Python's numbers cannot take what is known only then: compute "
    "with NumPy functions, or outside the function, and pass the result as an argument",
    "a text": "print(x) prints the value at run time; a dict key must be made of Python values",
    "an array": "the function called has no tracegrad rule; use NumPy functions (np.tanh, not the tanh of tensors), or "
    "compute it outside and pass it in",
}


def ambiguous_truth(tracer: Tracer) -> TracegradError:
    """Return NumPy's error for the truth value of an array with several elements."""
    return TracedValueError(
        "the truth value of an array with more than one element is ambiguous",
        code="TG102",
        span=user_span(),
        found=describe(tracer),
        help="use np.any(...), np.all(...) or np.where(...)",
    )


def unsupported(what: str, help: str) -> CaptureError:
    """Return the error for something that capture does not cover."""
    return CaptureError(f"{what} is not supported", code="TG103", span=user_span(), found=what, help=help)


def placeholder(tracer: Tracer) -> str:
    """Return what a message shows for a traced value."""
    if tracer.concrete is not None:
        return str(tracer.concrete[()])
    value = tracer._storage.value if tracer._view is None else None
    return f"<{value.name or 'value'}>" if value is not None else "<value>"


def describe(value: Any) -> str:
    """Return a short description of an argument for messages."""
    if isinstance(value, Tracer):
        kind = {"f": "float", "i": "int", "b": "bool", "c": "complex"}.get(value.dtype.kind)
        text = f"a Python {kind}" if value.weak else str(value.type)
        name = value._storage.value.name if value._view is None and value._storage.value is not None else ""
        return f"{name}: {text}" if name else text
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    text = repr(value)
    if " at 0x" not in text:
        return text if len(text) <= 200 else f"{text[:197]}..."
    called = getattr(value, "__qualname__", None)
    return f"{type(value).__name__} {called}" if called else f"an object of the class {type(value).__name__}"


def common_zero_dim(values: Sequence[Any]) -> bool | None:
    """Return the `zero_dim` of what is one of some numbers and arrays."""
    found = {v.zero_dim if isinstance(v, Tracer) else isinstance(v, np.ndarray) for v in values}
    return found.pop() if len(found) == 1 else None


# ---- making tracers


def from_value(value: Value, *, weak: bool = False, contiguous: bool = True) -> Tracer:
    """Wrap an IR value as a new array of its own."""
    return Tracer(Storage(value.array_type, current().depth, value), weak=weak, contiguous=contiguous)


def from_concrete(content: Any) -> Tracer:
    """Wrap a content that is known at capture as a new array."""
    array = np.asarray(content)
    made = Tracer(Storage(ArrayType(array.dtype, array.shape), current().depth, None, array))
    made._storage.follows = NO_INPUT
    if array.ndim > 1 and not array.flags.c_contiguous:
        if array.size and min(array.strides) > 0 and not any(s % array.itemsize for s in array.strides):
            made.set_strides(tuple(s // array.itemsize for s in array.strides))
        else:
            made.forget_order()
    return made


def view_of(
    base: Tracer,
    read: Callable[[Value], Value],
    write: Callable[[Value, Value], Value] | None,
    *,
    contiguous: bool,
    native: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None,
    key: tuple[Any, ...] | None = None,
) -> Tracer:
    """Return a view of an array. `read` and `write` stage ops; `write` is None for a read-only view.

    `native` reads a content known at capture; nothing is staged for it before it is needed.
    """
    content = base.concrete
    if not base.is_array:  # a number has no memory that a view could share
        return from_value(read(base.value)) if content is None or native is None else from_concrete(native(content))
    view = View(base, read, write, native, key)
    if content is not None and native is not None:
        known = native(content)
        type = ArrayType(known.dtype, known.shape)
        made = Tracer(Storage(type, current().depth), view=view, contiguous=contiguous)
        made.zero_dim = True
        return made
    base_value = base.value
    value = read(base_value)
    view.cache = (base_value, value, current().frame.block)
    made = Tracer(Storage(value.array_type, current().depth), view=view, contiguous=contiguous)
    made.zero_dim = True
    return made


def asarray(value: Any) -> Tracer:
    """Return a Tracer for an operand: tracers as they are, Python scalars weak, arrays and (nested) lists as
    constants."""
    if isinstance(value, Tracer):
        return value
    if type(value) is int and not fits_int64(value):
        raise NeedsPythonValue(
            "a Python int does not fit 64 bits",
            code="TG101",
            span=user_span(),
            found=f"{value} with traced ints, which have 64 bits in compiled code",
            help="use a float, or pass the result as an argument",
        )
    if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
        tracer = from_concrete(np.asarray(value))
        tracer.weak = True
        return tracer
    if hasattr(value, "as_tracer"):  # sizes of symbolic dimensions, stacked lists
        return value.as_tracer()  # type: ignore[no-any-return]
    if isinstance(value, list | tuple):
        return array_handler(np.array, value)
    array = np.asarray(value)
    if not is_numeric(array):
        raise ArgumentTypeError(
            "an operand is not numeric",
            code="TG104",
            span=user_span(),
            found=describe(value),
            help="use numbers and numeric arrays",
        )
    tracer = from_concrete(array)
    tracer.zero_dim = isinstance(value, np.ndarray)
    return tracer


def is_numeric(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind in "biufc" or array.dtype.name == "bfloat16"


def fits_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


def make_weak(value: Any) -> Any:
    """Return a rank-0 value as a traced Python scalar: `float(x)`, `x.item()`."""
    tracer = asarray(value)
    dtype = {"f": F64, "i": I64, "u": I64, "b": BOOL, "c": np.dtype(np.complex128)}[tracer.dtype.kind]
    return from_value(stage(ops.cast, tracer.value, dtype=dtype) if tracer.dtype != dtype else tracer.value, weak=True)


def python_dim(dim: Any) -> Any:
    """Return a dimension as user code sees it: an int, or a traced size."""
    if isinstance(dim, SymbolicDim):
        return current().size(dim)
    return dim


# ---- applying ops


def stage(op: OpDef, *operands: Any, **attrs: Any) -> Any:
    """Apply an op to IR values, with the span of the user's running line."""
    capture = current()
    capture.builder.span = user_span()
    try:
        return op(*operands, **attrs)
    except TracegradError as error:
        if error.span is None:
            raise type(error)(
                error.title, code=error.code, span=capture.builder.span, found=error.found, help=error.help
            ) from None
        raise


def apply(op: OpDef, *operands: Tracer, **attrs: Any) -> Any:
    """Apply an op to tracers; returns a new Tracer, or a tuple of them."""
    result = stage(op, *[t.value for t in operands], **attrs)
    if isinstance(result, tuple):
        return tuple(from_value(v) for v in result)
    return from_value(result)


def apply_one(op: OpDef, *operands: Tracer, **attrs: Any) -> Tracer:
    """Apply an op that has one result."""
    return from_value(stage(op, *[t.value for t in operands], **attrs))


def cast_to(tracer: Tracer, dtype: np.dtype[Any]) -> Tracer:
    """Return the array in another dtype (itself when it has it); the result is not weak."""
    if tracer.dtype == dtype:
        return tracer if not tracer.weak else from_value(tracer.value)
    if tracer.concrete is not None:
        return from_concrete(tracer.concrete.astype(dtype))
    return apply_one(ops.cast, tracer, dtype=dtype)


def promote(*operands: Any) -> tuple[list[Tracer], np.dtype[Any], bool]:
    """Return operands as tracers of one dtype by NumPy 2 promotion, that dtype, and whether all were Python scalars."""
    tracers = [asarray(v) for v in operands]
    dtype = result_dtype(tracers)
    weak = all(t.weak for t in tracers)
    return [cast_to(t, dtype) for t in tracers], dtype, weak


def result_dtype(tracers: Sequence[Tracer]) -> np.dtype[Any]:
    """Return the NumPy 2 promotion of some operands."""
    samples = [_WEAK_SAMPLE[t.dtype.kind] if t.weak else t.dtype for t in tracers]
    if all(t.weak for t in tracers):
        return np.result_type(*[np.asarray(s).dtype for s in samples])
    return np.result_type(*samples)


_WEAK_SAMPLE: dict[str, Any] = {"f": 0.0, "i": 0, "u": 0, "b": False, "c": 0j}


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the common shape by NumPy's rule; dimensions may be symbolic (a symbol is never 1).

    Raises:
        TracedValueError: the shapes do not fit.
    """
    ndim = max(map(len, shapes))
    result = []
    for axis in range(ndim):
        dim: Any = 1
        for shape in shapes:
            own = shape[axis - ndim + len(shape)] if axis - ndim + len(shape) >= 0 else 1
            if own == 1 or own == dim:
                continue
            if dim != 1:
                raise TracedValueError(
                    "operands could not be broadcast together",
                    code="TG110",
                    span=user_span(),
                    found="shapes " + " and ".join(map(str, shapes)),
                    help="make the sizes of each axis, counted from the last, equal or 1",
                )
            dim = own
        result.append(dim)
    return tuple(result)


def broadcast(tracer: Tracer, shape: tuple[Any, ...]) -> Tracer:
    """Return the array broadcast to a shape of IR dimensions (itself when it has it)."""
    if tracer.type.shape == shape:
        return tracer
    return apply_one(ops.broadcast_to, tracer, shape=shape)


def register_late() -> bool:
    """Register the functions of modules that have been imported since; return whether there are any."""
    found = [name for name in LATE if name in sys.modules]
    for name in found:
        LATE.pop(name)()
    return bool(found)


def call_handler(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Do what `function` does, on traced values.

    Raises:
        CaptureError: the function is not covered; the message names it and the line.
    """
    bound = kwargs.pop("_bound", None)
    handler = HANDLERS.get(bound if bound is not None else function)
    if handler is None and register_late():
        handler = HANDLERS.get(bound if bound is not None else function)
    if handler is None:
        name = f"numpy.{bound[0].__name__}.{bound[1]}" if bound is not None else full_name(function, args)
        raise not_covered(name, args)
    begun = next(NUMBERS)
    try:
        result = handler(*args, **kwargs)
        if type(result) is Tracer:
            if result.type.ndim > 1 and result._storage.number > begun:
                _note_order(function, args, kwargs, result)
            elif not result.type.ndim and not result.weak and result.base is None:
                result = _as_number_or_array(result, function, args)
        elif type(result) is tuple or type(result) is list:
            for part in result:
                if type(part) is Tracer and part.type.ndim > 1 and part._storage.number > begun:
                    _note_order(function, args, kwargs, part)
        return result
    except (CaptureError, Signal) as error:
        note_escaped(error)
        raise
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        if isinstance(error, TracegradError) or not _is_own(error):
            raise
        name = f"numpy.{bound[0].__name__}.{bound[1]}" if bound is not None else full_name(function)
        raise refusal(error, name, args) from error


def not_covered(name: str, args: tuple[Any, ...]) -> CaptureError:
    """Return the error for a function without handler."""
    traced = ", ".join(describe(a) for a in args if isinstance(a, Tracer))
    return CaptureError(
        f"{name} is not supported on traced values",
        code="TG100",
        span=user_span(),
        found=f"a call of {name} with {traced or 'traced values'}",
        help=_distribution_help(name)
        or "write it with supported NumPy functions (`tracegrad ops --numpy` lists them), or compute it outside "
        "the function and pass the result as an argument",
    )


def _distribution_help(name: str) -> str:
    if not name.startswith("scipy.stats."):
        return ""
    return (
        "write the formula, with scipy.special where it is needed (gammaln, betaln, xlogy, ndtr, log_ndtr), or compute "
        "it outside the function and pass the result as an argument"
    )


#: an exception that has this is raised in the place of an operation that fails at run time
INTENDED = "tg_intended"


def _is_own(error: Exception) -> bool:
    """Return whether an exception was raised by tracegrad or NumPy, not by a function of the user."""
    if hasattr(error, INTENDED):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or is_library(trace.tb_frame.f_code.co_filename)


def refusal(error: Exception, name: str, args: tuple[Any, ...], help: str = "") -> TracegradError:
    """Return an exception that NumPy, or a handler like NumPy, raised, with the user's line."""
    given = ", ".join(describe(a) for a in args)
    kind: Any = type(error)
    return refused_class(kind)(
        str(error).partition("\n")[0],
        code="TG138",
        span=user_span(),
        found=f"{name}({given})"[:300],
        help=help or "correct the call: it is refused without tracegrad too",
    )


def call_user(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function that the user passed, as a call in captured code does."""
    return CALLERS[-1](function, *args, **kwargs) if CALLERS else function(*args, **kwargs)


def array_handler(function: Any, *args: Any, **kwargs: Any) -> Tracer:
    """Return what `call_handler` does, for a function that gives one array."""
    result: Tracer = call_handler(function, *args, **kwargs)
    return result


#: functions whose results are in C order
_IN_C_ORDER: frozenset[Any] = frozenset({np.matmul, np.dot, np.outer, np.take})
#: functions whose results may be in another order than C where all arguments are in C order
_IN_ANY_ORDER: frozenset[Any] = frozenset(
    {np.apply_along_axis, np.cross, np.linalg.cross, np.unique, np.linspace, np.delete, np.argwhere, np.histogram2d}
    | {np.linalg.eig, np.nanquantile, np.nanpercentile}
)
#: functions that note the order of their results themselves; ufuncs do too
_NOTED: frozenset[Any] = frozenset(
    (np.array, np.copy, np.reshape, np.ravel, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray)
    + (np.zeros, np.ones, np.full, np.empty, np.zeros_like, np.ones_like, np.empty_like, np.full_like)
)


#: functions that give an array also where it has no axes; the last ones give a NumPy scalar of a NumPy scalar
_ARRAYS: tuple[Any, ...] = (
    *(np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.copy, np.zeros, np.ones, np.empty, np.full),
    *(np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.broadcast_to, np.where, np.select, np.piecewise),
    *(np.tensordot, np.cross, np.roll, np.i0, np.vectorize.__call__, np.apply_along_axis),
)
_ARRAYS_OF_ARRAYS: tuple[Any, ...] = (np.reshape, np.squeeze, np.transpose, np.real)


def _as_number_or_array(result: Tracer, function: Any, args: tuple[Any, ...]) -> Tracer:
    """Note of a result without axes whether it is an array."""
    is_argument = any(result is argument for argument in args)
    if function in (max, min):
        result.zero_dim = common_zero_dim(args)
    elif not _gives_array(function, args):
        if result.zero_dim and (isinstance(function, np.ufunc) or (function.__module__ or "").startswith("numpy")):
            return from_value(result.value)
    elif not result.zero_dim:
        result = from_value(result.value) if is_argument else result
        result.zero_dim = True
    return result


def _gives_array(function: Any, args: tuple[Any, ...]) -> bool:
    if function is operator.getitem:
        key = args[1]
        return key is Ellipsis or (isinstance(key, tuple) and any(k is Ellipsis for k in key))
    if any(function is f for f in _ARRAYS_OF_ARRAYS):
        return not isinstance(args[0], Tracer) or args[0].weak or args[0].is_array
    return any(function is f for f in _ARRAYS)


def _note_order(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tracer) -> None:
    """Note what the memory order of a new array follows; where an argument is not in C order, it is not known."""
    if result._view is not None or function in _NOTED:
        return
    if isinstance(function, np.ufunc) and function.signature is None and function.nout == 1:
        return
    storage = result._storage
    if function in _IN_C_ORDER:
        storage.follows = NO_INPUT
        result.set_c_order()
        return
    parts = _arrays_in((*args, *kwargs.values()))
    if parts is None:
        storage.follows = EVERY_INPUT
    elif not any(part is result for part in parts):
        storage.follows = NO_INPUT.union(*(part.root._storage.follows for part in parts if part.type.ndim > 1))
        if result._contiguous and not all(part._contiguous or part.type.ndim < 2 for part in parts):
            result.forget_order()
    if function in _IN_ANY_ORDER or (getattr(function, "__module__", None) or "").startswith("scipy.linalg"):
        result.forget_order()


def _arrays_in(values: Sequence[Any]) -> list[Tracer] | None:
    """Return the traced arrays in arguments; None: there are values of which that is not known."""
    found: list[Tracer] = []
    for value in values:
        if isinstance(value, Tracer):
            found.append(value)
        elif isinstance(value, list | tuple):
            inner = _arrays_in(value)
            if inner is None:
                return None
            found += inner
        elif hasattr(type(value), "as_tracer"):
            return None
    return found


def full_name(function: Any, args: tuple[Any, ...] = ()) -> str:
    """Return the name of a function as users write it; `args` are those of the call, `self` first for a method."""
    module = getattr(function, "__module__", None) or ""
    name: str = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
    if isinstance(function, np.ufunc):
        places = ("numpy", "scipy.special")
        module = next((m for m in places if getattr(sys.modules.get(m), name, None) is function), "")
    elif module.startswith("scipy."):
        module = ".".join(part for part in module.split(".") if not part.startswith("_"))
        owner = getattr(function, "__self__", args[0] if args else None)
        distribution = getattr(getattr(owner, "dist", owner), "name", None)
        if isinstance(distribution, str) and type(owner).__module__.startswith("scipy."):
            name = f"{distribution}.{function.__name__}"
        elif isinstance(getattr(function, "name", None), str):  # a distribution itself
            name = function.name
    return f"{module.lstrip('_')}.{name}" if module and module != "builtins" else name


def python_operator(ufunc: Any, *operands: Any) -> Any:
    """Apply a ufunc as a Python operator: between Python scalars the result is a Python scalar."""
    return call_handler(ufunc, *operands, _python=True)


def _binary(ufunc: Any, reflected: bool) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        if other is None or isinstance(other, str | bytes | dict | type):
            return NotImplemented
        return python_operator(ufunc, other, self) if reflected else python_operator(ufunc, self, other)

    return method


def _inplace(ufunc: Any) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        return inplace(ufunc, self, other)

    return method


def inplace(ufunc: Any, target: Tracer, other: Any) -> Any:
    """`target op= other`: a write into the array, or a new value for scalars."""
    if not target.is_array:
        return python_operator(ufunc, target, other)
    if target.ndim == 0 and target.zero_dim is None:
        raise RestageError(
            "what is an array without axes in one case, and a number in another, is changed by an augmented assignment",
            "write `x = x + y`, which binds a new number in both cases",
            f"{describe(target)}, which only the array shares with its other names",
        )
    result = asarray(python_operator(ufunc, target, other))
    if not np.can_cast(result.dtype, target.dtype, "same_kind"):
        raise ArgumentTypeError(
            f"an array of {target.dtype} cannot take the result of {ufunc.__name__} in place",
            code="TG131",
            span=user_span(),
            found=f"a result of {result.dtype}",
            help="make the array of that dtype: `x = x.astype(float)`, np.zeros(n); or bind a new one: `x = x + y`",
        )
    if result.type.shape != target.type.shape:
        raise TracedValueError(
            "an array cannot take a result of another shape in place",
            code="TG132",
            span=user_span(),
            found=f"a result of shape {result.type.shape} and an array of shape {target.type.shape}",
            help="bind a new array: `x = x + y`",
        )
    target[...] = result
    return target


#: classes of values that have no methods of the user's
PYTHON_VALUES: frozenset[type] = frozenset(
    {Tracer, int, float, bool, complex, str, np.ndarray, np.float64, list, tuple, dict, type(None)}
)

Tracer.__name__ = "traced value"  # in Python's own messages, such as "'traced value' object is not callable"

#: Python operator name -> ufunc
OPERATORS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
COMPARISONS: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
for _name, _ufunc in OPERATORS.items():
    setattr(Tracer, f"__{_name}__", _binary(_ufunc, False))
    setattr(Tracer, f"__r{_name}__", _binary(_ufunc, True))
    setattr(Tracer, f"__i{_name}__", _inplace(_ufunc))
for _name, _ufunc in COMPARISONS.items():
    setattr(Tracer, f"__{_name}__", _binary(_ufunc, False))


def _method(function: Any) -> Callable[..., Any]:
    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return call_handler(function, self, *args, **kwargs)

    return method


#: ndarray methods that are the NumPy function of the same name with the array as first argument
METHODS = {
    name: getattr(np, name)
    for name in (
        "all any argmax argmin argsort choose clip compress cumprod cumsum diagonal max mean min "
        "nonzero prod ptp put ravel repeat round searchsorted squeeze std sum swapaxes take trace var"
    ).split()
}
for _name, _function in METHODS.items():
    setattr(Tracer, _name, _method(_function))


def is_traced(value: Any) -> bool:
    """Return whether a value is, or contains in lists, tuples and dicts, something traced and not known at capture."""
    if isinstance(value, Tracer):
        return True
    if hasattr(type(value), "as_tracer"):
        return True
    if isinstance(value, list | tuple):
        return any(is_traced(v) for v in value)
    if isinstance(value, dict):
        return any(is_traced(v) for v in value.values())
    if isinstance(value, slice):
        return is_traced((value.start, value.stop, value.step))
    return False
