"""Discrete Fourier transforms.

Previous: factorization.py; next: control.py. The transpose of a transform is the one in the other direction: both
without a factor (norm "backward" one way, "forward" the other), both with 1/n, or both with 1/sqrt(n).
"""

from __future__ import annotations

from typing import Any

from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import Sample, type_of
from tracegrad.ir.types import F64, I64, Dim, is_complex
from tracegrad.ops.c_rules import fourier_statement
from tracegrad.ops.creation import dim, full_like, iota, zeros_like
from tracegrad.ops.elementwise import cast, equal, logical_or, multiply, real, select
from tracegrad.ops.infer import infer_fft, infer_irfft, infer_rfft
from tracegrad.ops.record import linear
from tracegrad.ops.shape import batch_axes, broadcast_to, reshape
from tracegrad.ops.text import tuple_text

Axes = tuple[int, ...]

_ADJOINT_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _like(ct: Any, x: Any) -> Any:
    return ct if is_complex(type_of(x).dtype) else real(ct)


def _fft_transpose(ct: Any, x: Any, *, axes: Axes, norm: str) -> tuple[Any, ...]:
    return (_like(ifft(ct, axes=axes, norm=_ADJOINT_NORM[norm]), x),)


def _ifft_transpose(ct: Any, x: Any, *, axes: Axes, norm: str) -> tuple[Any, ...]:
    return (_like(fft(ct, axes=axes, norm=_ADJOINT_NORM[norm]), x),)


def _weighted(x: Any, count: Dim, axis: int, inner: float) -> Any:
    """Multiply half a transform of `count` numbers with `inner` where an element stands for its mirror image too."""
    shape = type_of(x).shape
    place = iota(shape=(shape[axis],), dtype=I64, axis=0)
    twice = multiply(place, full_like(place, 2))
    whole = broadcast_to(dim(dim=count), shape=(shape[axis],))
    ends = logical_or(equal(place, zeros_like(place)), equal(twice, whole))
    numbers = cast(place, dtype=F64)
    weights = select(ends, full_like(numbers, 1.0), full_like(numbers, inner))
    line = tuple(d if k == axis else 1 for k, d in enumerate(shape))
    return multiply(x, broadcast_to(reshape(cast(weights, dtype=type_of(x).dtype), shape=line), shape=shape))


def _rfft_transpose(ct: Any, x: Any, *, axis: int, norm: str) -> tuple[Any, ...]:
    count = type_of(x).shape[axis]
    return (irfft(_weighted(ct, count, axis, 0.5), count=count, axis=axis, norm=_ADJOINT_NORM[norm]),)


def _irfft_transpose(ct: Any, x: Any, *, count: Dim, axis: int, norm: str) -> tuple[Any, ...]:
    return (_weighted(rfft(ct, axis=axis, norm=_ADJOINT_NORM[norm]), count, axis, 2.0),)


def _norm_text(operation: Operation) -> str:
    norm = operation.attrs["norm"]
    return "" if norm == "backward" else f', norm="{norm}"'


def _axis_text(operation: Operation) -> str:
    axis, ndim = operation.attrs["axis"], operation.operands[0].array_type.ndim
    return ("" if axis == ndim - 1 else f", axis={axis}") + _norm_text(operation)


def _fft_text(operation: Operation, x: str) -> str:
    axes, ndim = operation.attrs["axes"], operation.operands[0].array_type.ndim
    name, norm = operation.op, _norm_text(operation)
    if len(axes) == 1:
        axis = "" if axes == (ndim - 1,) else f", axis={axes[0]}"
        return f"np.fft.{name}({x}{axis}{norm})"
    if axes == (ndim - 2, ndim - 1):
        return f"np.fft.{name}2({x}{norm})"
    which = "" if axes == tuple(range(ndim)) else f", axes={tuple_text(axes)}"
    return f"np.fft.{name}n({x}{which}{norm})"


# fmt: off

_SAMPLES = (
    Sample("f[5]", {"axes": (0,), "norm": "backward"}), Sample("c128[4]", {"axes": (0,), "norm": "ortho"}),
    Sample("c128[2,3]", {"axes": (0,), "norm": "forward"}), Sample("f[2,3]", {"axes": (0, 1), "norm": "backward"}),
    Sample("c128[2,3,2]", {"axes": (0, 1, 2), "norm": "backward"}),
    Sample("c128[2,3,2]", {"axes": (2, 0), "norm": "backward"}),
)

fft = linear(
    "fft", ("x",), "Discrete Fourier transform along axes, complex; `norm` says where the factor goes, as in np.fft.",
    attributes=("axes", "norm"), infer=infer_fft, numpy=_fft_text, transpose=_fft_transpose, batch=batch_axes,
    c_statement=fourier_statement, samples=_SAMPLES,
)
ifft = linear(
    "ifft", ("x",), "Inverse discrete Fourier transform along axes, complex.",
    attributes=("axes", "norm"), infer=infer_fft, numpy=_fft_text, transpose=_ifft_transpose, batch=batch_axes,
    c_statement=fourier_statement, samples=_SAMPLES,
)
rfft = linear(
    "rfft", ("x",), "The first n // 2 + 1 elements of the transform of n real numbers along an axis.",
    attributes=("axis", "norm"), infer=infer_rfft, transpose=_rfft_transpose, batch=batch_axes,
    c_statement=fourier_statement,
    numpy=lambda operation, x: f"np.fft.rfft({x}{_axis_text(operation)})",
    samples=(
        Sample("f[5]", {"axis": 0, "norm": "backward"}), Sample("f[4]", {"axis": 0, "norm": "ortho"}),
        Sample("f[4,3]", {"axis": 0, "norm": "forward"}), Sample("f[1]", {"axis": 0, "norm": "backward"}),
    ),
)
irfft = linear(
    "irfft", ("x",),
    "The `count` real numbers whose rfft along an axis is x; imaginary parts that no real numbers have are left out.",
    attributes=("count", "axis", "norm"), infer=infer_irfft, transpose=_irfft_transpose, batch=batch_axes,
    c_statement=fourier_statement,
    numpy=lambda operation, x: f"np.fft.irfft({x}, {operation.attrs['count']}{_axis_text(operation)})",
    samples=(
        Sample("c128[3]", {"count": 5, "axis": 0, "norm": "backward"}),
        Sample("c128[3]", {"count": 4, "axis": 0, "norm": "ortho"}),
        Sample("c128[3,2]", {"count": 4, "axis": 0, "norm": "forward"}),
        Sample("c128[1]", {"count": 1, "axis": 0, "norm": "backward"}),
    ),
)

# fmt: on
