"""Type rules: from operand types and attributes to result types, for concrete and symbolic dimensions alike.

Reads types only and raises ShapeError or ArgumentTypeError on misuse. First file of ops/; next: text.py.
Dimensions are compared structurally: `n + 1` equals `1 + n`, and nothing is assumed about `n`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tracegrad.errors import ArgumentTypeError, ShapeError
from tracegrad.ir.core import Block, Function
from tracegrad.ir.types import (
    BOOL,
    DTYPES,
    F64,
    I64,
    ArrayType,
    Dim,
    Shape,
    StackType,
    SymbolicDim,
    Type,
    complex_dtype,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    real_dtype,
)

Infer = Callable[..., tuple[Type, ...]]
DType = np.dtype[Any]
Accepts = Callable[[DType], bool]


# What a rule may demand of a dtype


def any_dtype(dtype: DType) -> bool:
    return True


def numeric(dtype: DType) -> bool:
    """Accept integers, floats and complex numbers."""
    return dtype != BOOL


def ordered(dtype: DType) -> bool:
    """Accept what can be compared: everything but complex numbers."""
    return not is_complex(dtype)


def real_number(dtype: DType) -> bool:
    """Accept integers and real floats."""
    return is_integer(dtype) or is_float(dtype)


def boolean(dtype: DType) -> bool:
    return dtype == BOOL


def bits(dtype: DType) -> bool:
    """Accept bool and integers."""
    return dtype == BOOL or is_integer(dtype)


def factorable(dtype: DType) -> bool:
    """Accept what LAPACK works on: f32, f64 and their complex counterparts."""
    return dtype in _FACTORABLE


_FACTORABLE = tuple(DTYPES[name] for name in ("f32", "f64", "c64", "c128"))
_WORDS: dict[Accepts, str] = {
    any_dtype: "any dtype",
    numeric: "integer, float or complex",
    ordered: "bool, integer or float",
    real_number: "integer or float",
    boolean: "bool",
    bits: "bool or integer",
    is_inexact: "float or complex",
    is_float: "float",
    is_integer: "integer",
    is_complex: "complex",
    factorable: "float32, float64 or complex",
}


# Errors


def fail_shape(title: str, found: str, help: str = "make the shapes agree; write out any broadcast") -> NoReturn:
    """Raise ShapeError without a place in the user's code; capture adds it."""
    raise ShapeError(title, code="TG301", span=None, found=found, help=help)


def fail_type(title: str, found: str, help: str = "cast the operand first") -> NoReturn:
    """Raise ArgumentTypeError without a place in the user's code; capture adds it."""
    raise ArgumentTypeError(title, code="TG302", span=None, found=found, help=help)


def require_dtype(accepts: Accepts, *types: ArrayType) -> None:
    """Check that each operand has an accepted dtype."""
    for type in types:
        if not isinstance(type, ArrayType):
            fail_type("an array is needed", f"{type}", "pass an array")
        if not accepts(type.dtype):
            fail_type(f"operand must be {_WORDS[accepts]}", f"{type}")


def require_same(what: str, *types: ArrayType) -> None:
    """Check that operands have one type."""
    for type in types[1:]:
        if type.shape != types[0].shape:
            fail_shape(f"{what} differ in shape", " and ".join(map(str, types)))
        if type.dtype != types[0].dtype:
            fail_type(f"{what} differ in dtype", " and ".join(map(str, types)))


def require_axes(axes: Sequence[int], ndim: int, type: ArrayType) -> None:
    """Check that axes are distinct and within 0 <= axis < ndim."""
    if len(set(axes)) != len(axes) or not all(0 <= a < ndim for a in axes):
        fail_shape("axes must be distinct and within the operand", f"axes {tuple(axes)} of {type}", "correct the axes")


def without(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return a shape with some axes removed."""
    return tuple(d for k, d in enumerate(shape) if k not in axes)


# Elementwise


def same(accepts: Accepts) -> Infer:
    """Make the rule: all operands and the result have one type."""

    def infer(*types: ArrayType) -> tuple[Type, ...]:
        require_dtype(accepts, *types)
        require_same("operands of an elementwise operation", *types)
        return (types[0],)

    return infer


def predicate(accepts: Accepts) -> Infer:
    """Make the rule: operands of one type give a bool array."""

    def infer(*types: ArrayType) -> tuple[Type, ...]:
        require_dtype(accepts, *types)
        require_same("operands of an elementwise operation", *types)
        return (types[0].with_dtype(BOOL),)

    return infer


def real_part(accepts: Accepts) -> Infer:
    """Make the rule: a complex operand gives a real array, any other its own type."""

    def infer(x: ArrayType) -> tuple[Type, ...]:
        require_dtype(accepts, x)
        return (x.with_dtype(real_dtype(x.dtype)),)

    return infer


def infer_power(x: ArrayType, y: ArrayType) -> tuple[Type, ...]:
    require_dtype(numeric, x, y)
    if x.shape != y.shape:
        fail_shape("base and exponent differ in shape", f"{x} and {y}")
    if y.dtype != x.dtype and not (is_inexact(x.dtype) and y.dtype == I64):
        fail_type("exponent must have the dtype of the base, or i64 for a float base", f"{x} and {y}")
    return (x,)


def infer_shift(x: ArrayType, y: ArrayType) -> tuple[Type, ...]:
    require_dtype(is_integer, x, y)
    require_same("operands of a shift", x, y)
    return (x,)


def infer_select(condition: ArrayType, x: ArrayType, y: ArrayType) -> tuple[Type, ...]:
    require_dtype(boolean, condition)
    require_same("branches of a select", x, y)
    if condition.shape != x.shape:
        fail_shape("condition and branches of a select differ in shape", f"{condition} and {x}")
    return (x,)


def infer_blend(condition: ArrayType, x: ArrayType, y: ArrayType) -> tuple[Type, ...]:
    require_dtype(real_number, x, y)
    return infer_select(condition, x, y)


def infer_cast(x: ArrayType, *, dtype: DType) -> tuple[Type, ...]:
    if is_complex(x.dtype) and not is_complex(dtype):
        fail_type("a complex array has no real counterpart", f"cast of {x}", "take the real part or the modulus")
    return (x.with_dtype(dtype),)


# Creation


def infer_constant(*, value: Any) -> tuple[Type, ...]:
    array = np.asarray(value)
    return (ArrayType(array.dtype, array.shape),)


def infer_iota(*, shape: Shape, dtype: DType, axis: int) -> tuple[Type, ...]:
    type = ArrayType(dtype, tuple(shape))
    require_axes((axis,), type.ndim, type)
    return (type,)


def infer_full(*, shape: Shape, dtype: DType, value: Any) -> tuple[Type, ...]:
    return (ArrayType(dtype, tuple(shape)),)


def infer_dim(*, dim: Dim) -> tuple[Type, ...]:
    return (ArrayType(I64),)


def infer_undefined(*, type: Type) -> tuple[Type, ...]:
    return (type,)


# Shape


def infer_reshape(x: ArrayType, *, shape: Shape) -> tuple[Type, ...]:
    result = x.with_shape(tuple(shape))
    if result.size != x.size:
        fail_shape("a reshape keeps the number of elements", f"{x} to {result}", "correct the new shape")
    return (result,)


def infer_transpose(x: ArrayType, *, axes: tuple[int, ...]) -> tuple[Type, ...]:
    require_axes(axes, x.ndim, x)
    if len(axes) != x.ndim:
        fail_shape("a transpose names every axis once", f"axes {axes} of {x}", "give a permutation of the axes")
    return (x.with_shape(tuple(x.shape[a] for a in axes)),)


def infer_broadcast_to(x: ArrayType, *, shape: Shape) -> tuple[Type, ...]:
    result = x.with_shape(tuple(shape))
    trailing = result.shape[result.ndim - x.ndim :] if x.ndim else ()
    if x.ndim > result.ndim or any(d not in (1, e) for d, e in zip(x.shape, trailing, strict=True)):
        fail_shape("the array does not broadcast to the shape", f"{x} to {result}")
    return (result,)


def infer_reduce(accepts: Accepts) -> Infer:
    """Make the rule: the axes are removed, the dtype stays."""

    def infer(x: ArrayType, *, axes: tuple[int, ...]) -> tuple[Type, ...]:
        require_dtype(accepts, x)
        require_axes(axes, x.ndim, x)
        return (x.with_shape(without(x.shape, axes)),)

    return infer


def slice_size(start: Dim, stop: Dim, step: int) -> Dim:
    """Return the number of elements of `start:stop:step`."""
    return stop - start if step == 1 else (stop - start + (step - 1)) // step


def _is_below(a: Dim, b: Dim) -> bool:
    """Return whether a <= b may hold: False only when it is known not to hold."""
    difference = b - a
    return isinstance(difference, SymbolicDim) or difference >= 0


def infer_slice(
    x: ArrayType, *, start: tuple[Dim, ...], stop: tuple[Dim, ...], step: tuple[int, ...]
) -> tuple[Type, ...]:
    if not len(start) == len(stop) == len(step) == x.ndim:
        fail_shape("a slice names every axis", f"{len(start)} slices of {x}", "give start, stop and step per axis")
    for a, b, s, d in zip(start, stop, step, x.shape, strict=True):
        if not (_is_below(0, a) and _is_below(a, b) and _is_below(b, d) and s >= 1):
            fail_shape("a slice lies within its axis", f"{a}:{b}:{s} of {d} elements", "use 0 <= start <= stop <= size")
    return (x.with_shape(tuple(slice_size(a, b, s) for a, b, s in zip(start, stop, step, strict=True))),)


def infer_pad(
    x: ArrayType, *, low: tuple[Dim, ...], high: tuple[Dim, ...], interior: tuple[int, ...]
) -> tuple[Type, ...]:
    if not len(low) == len(high) == len(interior) == x.ndim:
        fail_shape("a pad names every axis", f"{len(low)} pads of {x}", "give low, high and interior per axis")
    if not all(_is_below(0, p) for p in (*low, *high, *interior)):
        fail_shape("pads are not negative", f"low {low}, high {high}, interior {interior}", "slice instead")
    sizes = [spread_size(d, i) for d, i in zip(x.shape, interior, strict=True)]
    return (x.with_shape(tuple(a + b + d for a, b, d in zip(low, high, sizes, strict=True))),)


def spread_size(dim: Dim, interior: int) -> Dim:
    """Return the size of an axis after `interior` zeros are put between neighbours."""
    return dim if dim == 0 or interior == 0 else dim + (dim - 1) * interior


def infer_flip(x: ArrayType, *, axes: tuple[int, ...]) -> tuple[Type, ...]:
    require_axes(axes, x.ndim, x)
    return (x,)


def infer_concatenate(*types: ArrayType, axis: int) -> tuple[Type, ...]:
    if not types:
        fail_shape("nothing to concatenate", "no arrays", "give at least one array")
    first = types[0]
    require_axes((axis,), first.ndim, first)
    for type in types[1:]:
        if type.dtype != first.dtype:
            fail_type("concatenated arrays differ in dtype", f"{first} and {type}")
        if type.ndim != first.ndim or without(type.shape, (axis,)) != without(first.shape, (axis,)):
            fail_shape("concatenated arrays differ beside the axis", f"{first} and {type} along axis {axis}")
    total: Dim = sum((type.shape[axis] for type in types[1:]), first.shape[axis])
    return (first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :])),)


# Indices


def gathered_shape(x: ArrayType, indices: Sequence[ArrayType], axes: tuple[int, ...]) -> Shape:
    """Check indices and return the shape of `x` gathered at them."""
    require_axes(axes, x.ndim, x)
    if len(indices) != len(axes) or not indices:
        fail_shape("one index array per axis is needed", f"{len(indices)} index arrays for axes {axes}")
    for index in indices:
        if index.dtype != I64:
            fail_type("indices must be i64", f"{index}")
        if index.shape != indices[0].shape:
            fail_shape("index arrays differ in shape", f"{indices[0]} and {index}")
    return (*indices[0].shape, *without(x.shape, axes))


def infer_gather(x: ArrayType, *indices: ArrayType, axes: tuple[int, ...]) -> tuple[Type, ...]:
    return (x.with_shape(gathered_shape(x, indices, axes)),)


def infer_scatter(x: ArrayType, *rest: ArrayType, axes: tuple[int, ...]) -> tuple[Type, ...]:
    *indices, values = rest
    expected = x.with_shape(gathered_shape(x, indices, axes))
    _require_values(values, expected)
    return (x,)


def infer_write(
    x: ArrayType, values: ArrayType, *, start: tuple[Dim, ...], stop: tuple[Dim, ...], step: tuple[int, ...]
) -> tuple[Type, ...]:
    (expected,) = infer_slice(x, start=start, stop=stop, step=step)
    _require_values(values, expected)
    return (x,)


def _require_values(values: ArrayType, expected: Type) -> None:
    assert isinstance(expected, ArrayType)
    if values.shape != expected.shape:
        fail_shape("written values do not have the shape of the place", f"{values} written to {expected}")
    if values.dtype != expected.dtype:
        fail_type("written values do not have the dtype of the array", f"{values} written to {expected}")


# Reductions and scans


def infer_argument(x: ArrayType, *, axis: int) -> tuple[Type, ...]:
    require_dtype(ordered, x)
    require_axes((axis,), x.ndim, x)
    return (ArrayType(I64, without(x.shape, (axis,))),)


def infer_argsort(x: ArrayType, *, axis: int) -> tuple[Type, ...]:
    require_dtype(ordered, x)
    require_axes((axis,), x.ndim, x)
    return (x.with_dtype(I64),)


def infer_scan(accepts: Accepts) -> Infer:
    """Make the rule of cumulative operations: the type stays."""

    def infer(*types: ArrayType, axis: int, reverse: bool = False) -> tuple[Type, ...]:
        require_dtype(accepts, *types)
        require_same("operands of a scan", *types)
        require_axes((axis,), types[0].ndim, types[0])
        return (types[0],)

    return infer


# Linear algebra

AxisPair = tuple[tuple[int, ...], tuple[int, ...]]


def infer_dot_general(x: ArrayType, y: ArrayType, *, contract: AxisPair, batch: AxisPair) -> tuple[Type, ...]:
    require_dtype(numeric, x, y)
    if x.dtype != y.dtype:
        fail_type("operands of a product differ in dtype", f"{x} and {y}")
    require_axes((*contract[0], *batch[0]), x.ndim, x)
    require_axes((*contract[1], *batch[1]), y.ndim, y)
    for pair in (contract, batch):
        if len(pair[0]) != len(pair[1]) or any(x.shape[a] != y.shape[b] for a, b in zip(*pair, strict=True)):
            fail_shape("paired axes of a product differ in size", f"{x} and {y}, axes {pair}")
    batch_dims = tuple(x.shape[a] for a in batch[0])
    free_x = without(x.shape, (*contract[0], *batch[0]))
    free_y = without(y.shape, (*contract[1], *batch[1]))
    return (x.with_shape((*batch_dims, *free_x, *free_y)),)


def require_square(a: ArrayType) -> None:
    """Check that the operand is a float matrix, or a stack of them, with as many rows as columns."""
    require_dtype(factorable, a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        fail_shape("a square matrix is needed", f"{a}", "pass an array of shape [..., n, n]")


def infer_square(a: ArrayType) -> tuple[Type, ...]:
    require_square(a)
    return (a,)


def infer_solve(
    a: ArrayType, b: ArrayType, *, lower: bool = True, transpose_a: bool = False, unit_diagonal: bool = False
) -> tuple[Type, ...]:
    require_square(a)
    if b.dtype != a.dtype:
        fail_type("matrix and right-hand side differ in dtype", f"{a} and {b}")
    if b.ndim != a.ndim or b.shape[:-1] != a.shape[:-1]:
        fail_shape("matrix and right-hand side do not fit", f"{a} and {b}", "pass a: [..., n, n] and b: [..., n, k]")
    return (b,)


def infer_det(a: ArrayType) -> tuple[Type, ...]:
    require_square(a)
    return (a.with_shape(a.shape[:-2]),)


def infer_has_factor(a: ArrayType) -> tuple[Type, ...]:
    require_square(a)
    return (ArrayType(BOOL, a.shape[:-2]),)


def infer_slogdet(a: ArrayType) -> tuple[Type, ...]:
    require_square(a)
    result = a.with_shape(a.shape[:-2])
    return (result, result.with_dtype(real_dtype(a.dtype)))


def infer_eigh(a: ArrayType, *, lower: bool) -> tuple[Type, ...]:
    require_square(a)
    return (ArrayType(real_dtype(a.dtype), a.shape[:-1]), a)


def _require_matrix(a: ArrayType) -> tuple[Dim, Dim]:
    require_dtype(factorable, a)
    if a.ndim < 2:
        fail_shape("a matrix is needed", f"{a}", "pass an array of shape [..., m, n]")
    return a.shape[-2], a.shape[-1]


def infer_svd(a: ArrayType, *, full_matrices: bool, excess: int) -> tuple[Type, ...]:
    m, n = _require_matrix(a)
    difference = m - n
    if isinstance(difference, int) and np.sign(difference) != excess:
        fail_shape("`excess` is the sign of m - n", f"{excess} for {a}", "give the sign of the difference of the sizes")
    k = m if excess < 0 else n
    stack = a.shape[:-2]
    u = a.with_shape((*stack, m, m if full_matrices else k))
    s = ArrayType(real_dtype(a.dtype), (*stack, k))
    return (u, s, a.with_shape((*stack, n if full_matrices else k, n)))


def infer_qr(a: ArrayType) -> tuple[Type, ...]:
    m, n = _require_matrix(a)
    if not _is_below(n, m):
        fail_shape("there are more columns than rows", f"{a}", "factor the first columns")
    return (a, a.with_shape((*a.shape[:-2], n, n)))


def infer_pinv(a: ArrayType, rcond: ArrayType) -> tuple[Type, ...]:
    m, n = _require_matrix(a)
    if rcond != ArrayType(F64, a.shape[:-2]):
        fail_type("the cutoff has one f64 per matrix", f"{a} and {rcond}")
    return (a.with_shape((*a.shape[:-2], n, m)),)


# Fourier transforms


def _require_axis_of(x: ArrayType, accepts: Accepts, axes: tuple[int, ...]) -> None:
    require_dtype(accepts, x)
    require_axes(axes, x.ndim, x)


def infer_fft(x: ArrayType, *, axes: tuple[int, ...], norm: str) -> tuple[Type, ...]:
    _require_axis_of(x, factorable, axes)
    return (x.with_dtype(complex_dtype(x.dtype)),)


def infer_rfft(x: ArrayType, *, axis: int, norm: str) -> tuple[Type, ...]:
    _require_axis_of(x, factorable, (axis,))
    require_dtype(is_float, x)
    half = x.shape[axis] // 2 + 1
    return (ArrayType(complex_dtype(x.dtype), (*x.shape[:axis], half, *x.shape[axis + 1 :])),)


def infer_irfft(x: ArrayType, *, count: Dim, axis: int, norm: str) -> tuple[Type, ...]:
    _require_axis_of(x, is_complex, (axis,))
    if x.shape[axis] != count // 2 + 1:
        fail_shape("half a transform of n numbers has n // 2 + 1", f"{x} for {count} numbers", "cut it or fill it up")
    return (ArrayType(real_dtype(x.dtype), (*x.shape[:axis], count, *x.shape[axis + 1 :])),)


# Control


def _require_scalar(type: Type, dtype: DType, what: str) -> None:
    if type != ArrayType(dtype):
        fail_type(f"{what} must be {ArrayType(dtype)}", f"{type}")


def _require_carries(what: str, found: Sequence[Type], expected: Sequence[Type]) -> None:
    if list(found) != list(expected):
        fail_shape(
            f"{what} do not have the types of the carried values",
            f"({', '.join(map(str, found))}) for ({', '.join(map(str, expected))})",
            "make every iteration keep shape and dtype",
        )


def infer_if(condition: Type, *, blocks: Sequence[Block]) -> tuple[Type, ...]:
    _require_scalar(condition, BOOL, "the condition of a branch")
    then, other = blocks
    results = [v.type for v in then.yields]
    if results != [v.type for v in other.yields]:
        fail_shape(
            "the two branches give different types",
            f"({', '.join(map(str, results))}) when true, ({', '.join(str(v.type) for v in other.yields)}) when false",
            "make both branches give one shape and dtype",
        )
    return tuple(results)


def infer_for(
    start: Type, stop: Type, *inits: Type, blocks: Sequence[Block], step: int, reverse: bool
) -> tuple[Type, ...]:
    _require_scalar(start, I64, "the start of a loop")
    _require_scalar(stop, I64, "the stop of a loop")
    (body,) = blocks
    _require_carries("loop parameters", [p.type for p in body.params], [ArrayType(I64), *inits])
    _require_carries("values at the end of the loop body", [v.type for v in body.yields], inits)
    return tuple(inits)


def infer_while(*inits: Type, blocks: Sequence[Block]) -> tuple[Type, ...]:
    condition, body = blocks
    for block in blocks:
        _require_carries("loop parameters", [p.type for p in block.params], inits)
    _require_carries("results of the loop condition", [v.type for v in condition.yields], [ArrayType(BOOL)])
    _require_carries("values at the end of the loop body", [v.type for v in body.yields], inits)
    return tuple(inits)


def infer_call(*operands: Type, function: Function) -> tuple[Type, ...]:
    expected = [p.type for p in function.params]
    if list(operands) != expected:
        fail_shape(
            f"call of '{function.name}' does not fit its parameters",
            f"({', '.join(map(str, operands))}) for ({', '.join(map(str, expected))})",
        )
    return tuple(v.type for v in function.results)


def infer_custom_vjp(
    *operands: Type, function: Function, forward: Function, backward: Function, arguments: int
) -> tuple[Type, ...]:
    return infer_call(*operands, function=function)


def infer_custom_jvp(*operands: Type, function: Function, rule: Function, arguments: int) -> tuple[Type, ...]:
    return infer_call(*operands, function=function)


def infer_stack(*, element: ArrayType, capacity: Dim | None) -> tuple[Type, ...]:
    return (StackType(element),)


def infer_push(stack: Type, value: Type) -> tuple[Type, ...]:
    if not isinstance(stack, StackType) or stack.element != value:
        fail_type("a stack holds values of one type", f"push of {value} onto {stack}", "push the element type")
    return ()


def infer_pop(stack: Type) -> tuple[Type, ...]:
    if not isinstance(stack, StackType):
        fail_type("a stack is needed", f"{stack}", "pop from a stack")
    return (stack.element,)


def infer_check(condition: Type, *, error: str, message: str) -> tuple[Type, ...]:
    _require_scalar(condition, BOOL, "the condition of a check")
    return ()


def infer_print(*values: Type, format: str) -> tuple[Type, ...]:
    return ()
