"""Functions of tensors called with traced values, in a function that is being compiled.

Reads and writes tracers. Previous: numpy_bridge.py; next: eager.py.

Such a function plans as ever, from dtypes and shapes, on tensors whose array is an Outline; what it would apply to
arrays is applied to the traced values: the same compositions and steps of views. An Outline has no values to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from tracegrad.capture.tracer import CALLERS_OF_OTHERS, Tracer, unsupported
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.runtime import dtypes
from tracegrad.runtime.creating import default_generator
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.layout import row_major
from tracegrad.runtime.tape import mode
from tracegrad.runtime.tensor import Tensor, fill, wrap
from tracegrad.runtime.views import Step, take_step


class Outline:
    """Dtype and shape of a traced value."""

    __slots__ = ("dtype", "name", "shape", "tracer")

    base = None
    flags = SimpleNamespace(c_contiguous=True, writeable=False)

    def __init__(self, tracer: Tracer, name: str) -> None:
        self.tracer, self.name = tracer, name
        self.dtype, self.shape = tracer.dtype, tuple(tracer.shape)
        if not all(isinstance(n, int) for n in self.shape):
            raise unsupported(f"{name} of an array whose sizes are symbolic", "compile without dynamic=True")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def strides(self) -> tuple[int, ...]:
        return row_major(self.shape, self.itemsize)

    def _refuse(self, *given: Any, **keywords: Any) -> NoReturn:
        raise unsupported(
            f"{self.name} with a traced value, whose elements it looks at",
            "use the NumPy function of that meaning, or compute it outside and pass it in",
        )

    __array__ = __getitem__ = __int__ = __float__ = __bool__ = __iter__ = __len__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __array_ufunc__ = None

    def __getattr__(self, attribute: str) -> Any:
        self._refuse()


class Application:
    """One call of a function of tensors with traced values; what `mode.tracing` is set to."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stand_in(self, value: Any) -> Any:
        """Return tensors for the tracers in an argument."""
        if isinstance(value, Tracer):
            if value.concrete is not None:
                return wrap(np.array(value.concrete))
            return fill(object.__new__(Tensor), Outline(value, self.name))  # type: ignore[arg-type]
        if isinstance(value, Tensor):
            raise unsupported(
                f"{self.name} of a traced value and a tensor from outside",
                "pass the tensor to the compiled function as an argument, or use eager tensors throughout",
            )
        if isinstance(value, np.ndarray):  # made in the function that is compiled: those from outside are traced
            return wrap(value.copy())
        if isinstance(value, list | tuple):
            return type(value)([self.stand_in(v) for v in value])
        return value

    def tracer(self, tensor: Any) -> Any:
        """Return what a tensor stands for."""
        array = tensor._a
        return array.tracer if isinstance(array, Outline) else as_tracer(array)

    def result(self, value: Any) -> Any:
        """Return tracers for the tensors in a result."""
        if isinstance(value, Tensor):
            return self.tracer(value)
        if isinstance(value, tuple):
            made = [self.result(v) for v in value]
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        return [self.result(v) for v in value] if isinstance(value, list) else value

    def apply(self, composition: Composition, static: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
        """Apply a composition to what tensors stand for."""
        made = composition.function(*static, *map(self.tracer, tensors))
        if isinstance(made, tuple | list):
            return tuple(self.stand_in(as_tracer(x)) for x in made)
        return self.stand_in(as_tracer(made))

    def view(self, tensor: Tensor, step: Step) -> Any:
        """Take the step of a view; what it gives is not written in place."""
        return self.stand_in(take_step(*step, self.tracer(tensor)))

    def refuse_write(self) -> NoReturn:
        raise unsupported(
            f"{self.name} with a traced value, which it writes in place", "use the form without underscore"
        )


def call_traced(function: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Call a function of tensors with traced values; returns traced values."""
    application = Application(getattr(function, "__name__", str(function)))
    state = default_generator.get_state().tolist()
    before, mode.tracing = mode.tracing, application
    try:
        made = function(
            *[application.stand_in(a) for a in args], **{k: application.stand_in(v) for k, v in keywords.items()}
        )
        found = application.result(made)
    finally:
        mode.tracing = before
    if default_generator.get_state().tolist() != state:
        raise unsupported(
            f"{application.name}, which draws random numbers, in a compiled function", "draw outside and pass them in"
        )
    return found


def call_with_traced_values(functions: Iterable[Any]) -> None:
    """Let functions of tensors be called with traced values."""
    for function in functions:
        if callable(function) and not isinstance(function, type | dtypes.DType):
            CALLERS_OF_OTHERS[function] = call_traced
