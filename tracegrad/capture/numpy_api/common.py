"""How NumPy functions are registered, and what all their handlers share: known operands, `out=`, axes and shapes.

Reads arguments as user code gives them; writes nothing. Previous: ragged.py; next: elementwise.py.

A handler is an ordinary function with NumPy's signature. `covers` registers it with three things done in one place:
operands that are all known at capture are given to NumPy itself, `out=` is written, and arrays whose size is
known only at run time are handed to masked.py and ragged.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from tracegrad import ops
from tracegrad.capture.context import current, user_span
from tracegrad.capture.masked import Selection
from tracegrad.capture.memory import keep_order
from tracegrad.capture.tracer import (
    ALWAYS,
    HANDLERS,
    Tracer,
    apply,
    asarray,
    broadcast_shapes,
    call_handler,
    cast_to,
    from_concrete,
    from_value,
    full_name,
    stage,
    unsupported,
)
from tracegrad.errors import ArgumentTypeError, TracedValueError
from tracegrad.ir.bounds import static_value
from tracegrad.ir.types import I64, SymbolicDim, is_integer

F = TypeVar("F", bound=Callable[..., Any])

#: the default of keywords that NumPy marks with its own no-value object
NO_VALUE = np._NoValue


def covers(*functions: Any, native: bool = True, always: bool = False, masked: bool = False) -> Callable[[F], F]:
    """Register the decorated function as what `functions` do with traced values.

    Args:
        functions: callables of NumPy, SciPy, math or builtins; or (ufunc, method name).
        native: NumPy computes the result when all operands are known at capture. False for functions that return views,
            that write into their arguments, or that have a rule of their own for known operands.
        always: the handler is used in captured code even when no argument is traced.
        masked: the handler deals with arrays whose size is known only at run time itself.
    """

    def decorate(handler: F) -> F:
        # inspect.signature says the same, at 30 times the cost, when tracegrad is imported
        code = getattr(handler, "__code__", None)
        positional = code.co_varnames[: code.co_argcount] if code is not None else ()
        position = positional.index("out") if "out" in positional else None
        for function in functions:
            place = function.nin if isinstance(function, np.ufunc) else position
            HANDLERS[function] = _entry(function, handler, place, native, masked)
            if always:
                ALWAYS.add(function)
        return handler

    return decorate


def _entry(
    function: Any, handler: Callable[..., Any], position: int | None, native: bool, masked: bool
) -> Callable[..., Any]:
    """Return the registered form of a handler; `position` is where its parameter `out` stands."""
    plain = getattr(function[0], function[1]) if isinstance(function, tuple) else function

    def entry(*args: Any, **kwargs: Any) -> Any:
        if not masked and (selection := _selection(args)) is not None:
            return selection.call(plain, args, kwargs)
        out = kwargs.pop("out", None)
        if out is None and position is not None and len(args) > position:
            rest = args[position + 1 :]
            out, args = args[position], (*args[:position], None, *rest) if rest else args[:position]
        if isinstance(out, tuple) and len(out) == 1:
            out = out[0]
        if out is not None:
            return _write_out(
                full_name(plain), out, functools.partial(entry, *args, **kwargs), kwargs.get("where", True)
            )
        if native and is_known((args, kwargs)):
            known = plain(*as_known(args), **as_known(kwargs))
            return wrap_elementwise(known, args, **kwargs) if isinstance(plain, np.ufunc) else wrap_known(known)
        result = handler(*args, **kwargs)
        if type(result) is list:
            current().register_created(result)
        return result

    return functools.update_wrapper(entry, handler)


def _selection(args: Sequence[Any]) -> Selection | None:
    """Return the first argument, or item of a list, whose size is known only at run time."""
    for argument in args:
        if isinstance(argument, Selection):
            return argument
        if isinstance(argument, list | tuple) and (inner := _selection(argument)) is not None:
            return inner
    return None


def _write_out(name: str, out: Any, compute: Callable[[], Any], where: Any) -> Any:
    if not isinstance(out, Tracer):
        raise unsupported(
            f"out= of {name} with an array made outside the function",
            "make the array in the function, or pass it as an argument",
        )
    result = asarray(compute())
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise ArgumentTypeError(
            f"cannot cast the result of {name} to the dtype of out",
            code="TG131",
            span=user_span(),
            found=f"a result of {result.dtype} and out of {out.dtype}",
            help="give an out array of the dtype of the result",
        )
    if result.type.shape != out.type.shape:
        raise TracedValueError(
            f"out of {name} has another shape than the result",
            code="TG132",
            span=user_span(),
            found=f"a result of shape {result.type.shape} and out of shape {out.type.shape}",
            help="give an out array of the shape of the result",
        )
    if where is not True:
        result = select(where, result, out)
    out.assign(cast_to(result, out.dtype).value)
    return out


# ---- operands known at capture


def is_known(value: Any) -> bool:
    """Return whether a value is known at capture, in lists, tuples, dicts and slices too."""
    if isinstance(value, Tracer):
        return value.concrete is not None
    if isinstance(value, list | tuple):
        return all(is_known(v) for v in value)
    if isinstance(value, dict):
        return all(is_known(v) for v in value.values())
    if isinstance(value, slice):
        return is_known((value.start, value.stop, value.step))
    return not hasattr(type(value), "as_tracer")


def as_known(value: Any) -> Any:
    """Return a value that is known at capture with arrays in place of tracers."""
    if isinstance(value, Tracer):
        content = value.concrete
        assert content is not None, "only for known values"
        return content.item() if value.weak else content[()]
    if isinstance(value, list):
        return [as_known(v) for v in value]
    if isinstance(value, tuple):
        return type(value)(*map(as_known, value)) if hasattr(value, "_fields") else tuple(map(as_known, value))
    if isinstance(value, dict):
        return {k: as_known(v) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(as_known(value.start), as_known(value.stop), as_known(value.step))
    return value


def wrap_known(value: Any) -> Any:
    """Return a result of NumPy with tracers in place of arrays; scalars stay as they are."""
    if isinstance(value, np.ndarray):
        return from_concrete(value)
    if isinstance(value, list):
        return [wrap_known(v) for v in value]
    if isinstance(value, tuple):
        return type(value)(*map(wrap_known, value)) if hasattr(value, "_fields") else tuple(map(wrap_known, value))
    return value


def wrap_elementwise(value: Any, operands: Sequence[Any], *, order: str = "K", **kwargs: Any) -> Any:
    """Return the result of a ufunc of NumPy with tracers in place of arrays, which follow the order of operands."""
    result = wrap_known(value)
    if type(result) is not Tracer or result.ndim < 2:
        return result
    return keep_order(result, [asarray(operand) for operand in operands], order)


def known_scalar(value: Any) -> Any:
    """Return the number, when a value is a rank-0 number known at capture, else None."""
    if isinstance(value, bool | int | float | complex | np.generic):
        return value
    if isinstance(value, Tracer) and not value.ndim:
        content = value.concrete
        return None if content is None else content[()]
    if isinstance(value, np.ndarray) and not value.ndim:
        return value[()]
    return None


# ---- dimensions and axes


def as_dim(value: Any) -> Any:
    """Return an IR dimension for a size as user code gives it: an int, a size of an array, an integer known at capture.

    Raises:
        NeedsPythonValue: a traced integer that is not a size.
        TypeError: not an integer.
    """
    if isinstance(value, int | SymbolicDim):
        return value
    if hasattr(value, "dim"):
        return value.dim
    if isinstance(value, Tracer) and value.concrete is None and not value.ndim and is_integer(value.dtype):
        dim = static_value(value.value)
        if dim is not None:
            return dim
    return operator.index(value)


def as_shape(shape: Any) -> tuple[Any, ...]:
    """Return IR dimensions for a shape argument: a size, or a sequence of sizes."""
    if isinstance(shape, Tracer) and shape.ndim == 1:
        return tuple(int(d) for d in np.asarray(shape))
    if isinstance(shape, np.ndarray) and shape.ndim == 1:
        return tuple(int(d) for d in shape)
    if isinstance(shape, Iterable) and not isinstance(shape, Tracer) and not hasattr(shape, "dim"):
        return tuple(as_dim(d) for d in shape)
    return (as_dim(shape),)


def as_axis(axis: Any, ndim: int) -> int:
    """Return a non-negative axis.

    Raises:
        AxisError: out of range, as NumPy raises it.
    """
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return number % ndim


def as_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return non-negative distinct axes for an axis argument: None for all, an int or a tuple."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, tuple | list):
        return (as_axis(axis, ndim),)
    axes = tuple(as_axis(a, ndim) for a in axis)
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes


def dim_value(dim: Any) -> Tracer:
    """Return a dimension as an i64 scalar."""
    return from_value(stage(ops.dim, dim=dim)) if isinstance(dim, SymbolicDim) else from_concrete(np.int64(dim))


# ---- small composites that every family uses


def full(shape: tuple[Any, ...], value: Any, dtype: Any) -> Tracer:
    """Return an array filled with a Python number; known at capture when its shape is."""
    if all(isinstance(d, int) for d in shape):
        made = from_concrete(np.broadcast_to(np.asarray(value, dtype=dtype), shape))
        made.set_c_order()
        return made
    return from_value(stage(ops.full, shape=shape, dtype=np.dtype(dtype), value=value))


def spread(tracer: Tracer, shape: tuple[Any, ...]) -> Tracer:
    """Return an operand broadcast to a shape of IR dimensions."""
    if tracer.type.shape == shape:
        return tracer
    if not tracer.ndim and tracer.concrete is not None and tracer.dtype.kind in "biufc":
        return from_value(stage(ops.full, shape=shape, dtype=tracer.dtype, value=tracer.concrete.item()))
    return apply(ops.broadcast_to, tracer, shape=shape)  # type: ignore[no-any-return]


def as_bool(value: Any) -> Tracer:
    """Return truth values, as NumPy casts to bool."""
    return cast_to(asarray(value), np.dtype(bool))


def select(condition: Any, x: Any, y: Any) -> Tracer:
    """Return x where the condition holds, else y; operands are promoted and broadcast."""
    condition, x, y = as_bool(condition), asarray(x), asarray(y)
    dtype = (
        np.result_type(*[_sample(t) for t in (x, y)]) if not (x.weak and y.weak) else np.result_type(x.dtype, y.dtype)
    )
    shape = broadcast_shapes(condition.type.shape, x.type.shape, y.type.shape)
    x, y = (spread(cast_to(t, dtype), shape) for t in (x, y))
    return apply(ops.select, spread(condition, shape), x, y)  # type: ignore[no-any-return]


def _sample(tracer: Tracer) -> Any:
    return {"f": 0.0, "i": 0, "u": 0, "b": np.dtype(bool), "c": 0j}[tracer.dtype.kind] if tracer.weak else tracer.dtype


def reshape(tracer: Tracer, shape: tuple[Any, ...]) -> Tracer:
    """Return the elements in another shape of IR dimensions, as an array of its own."""
    if tracer.type.shape == shape:
        return tracer
    return apply(ops.reshape, tracer, shape=shape)  # type: ignore[no-any-return]


def transpose(tracer: Tracer, axes: Sequence[int]) -> Tracer:
    """Return the array with axes in another order, as an array of its own."""
    if tuple(axes) == tuple(range(tracer.ndim)):
        return tracer
    return apply(ops.transpose, tracer, axes=tuple(axes))  # type: ignore[no-any-return]


def move_axis(tracer: Tracer, source: int, target: int) -> Tracer:
    axes = [a for a in range(tracer.ndim) if a != source]
    axes.insert(target, source)
    return transpose(tracer, axes)


def insert_dims(shape: tuple[Any, ...], axes: Sequence[int]) -> tuple[Any, ...]:
    """Return a shape with 1 inserted so that the given axes of the result have it."""
    result = list(shape)
    for axis in sorted(axes):
        result.insert(axis, 1)
    return tuple(result)


def gather(x: Tracer, indices: Sequence[Tracer], axes: Sequence[int]) -> Tracer:
    """Return elements at index arrays of one shape."""
    return from_value(stage(ops.gather, x.value, *[cast_to(i, I64).value for i in indices], axes=tuple(axes)))


def call(function: Any, *args: Any, **kwargs: Any) -> Tracer:
    """Do what a NumPy function does; the result is a tracer."""
    return asarray(call_handler(function, *args, **kwargs))
