"""Fourier transforms: np.fft.

Previous: linalg.py; next: scalar.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.contents import iota
from tracegrad.capture.numpy_api.common import as_axes, as_axis, as_dim, covers, full
from tracegrad.capture.numpy_api.shape import join, slice_axis
from tracegrad.capture.sizes import as_size, decide
from tracegrad.capture.tracer import Tracer, apply, asarray, call_handler, cast_to
from tracegrad.ir.types import F64, complex_dtype, is_complex, is_inexact
from tracegrad.ops.infer import factorable

_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _operand(x: Any) -> Tracer:
    """Return what a transform takes: a float or complex array of single or double precision."""
    tracer = asarray(x)
    if factorable(tracer.dtype):
        return tracer
    return cast_to(tracer, np.dtype(np.float32) if is_inexact(tracer.dtype) else F64)


def _mode(norm: Any) -> str:
    mode: str = "backward" if norm is None else norm
    if mode not in _SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return mode


def _sized(tracer: Tracer, size: Any, axis: int) -> Tracer:
    """Cut an axis, or fill it up with zeros."""
    shape = tracer.type.shape
    difference = size - shape[axis]
    if decide(difference, "=="):
        return tracer
    if decide(difference, "<"):
        return slice_axis(tracer, axis, slice(0, as_size(size)))
    zeros = full((*shape[:axis], difference, *shape[axis + 1 :]), 0, tracer.dtype)
    return join([tracer, zeros], axis)


def _length(n: Any) -> Any:
    size = as_dim(n)
    if isinstance(size, int) and size < 1:
        raise ValueError(f"Invalid number of FFT data points ({size}) specified.")
    return size


def _complete(op: Any) -> Callable[..., Tracer]:
    def transform(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Tracer:
        tracer = _operand(a)
        place = as_axis(axis, tracer.ndim)
        size = tracer.type.shape[place] if n is None else n
        return apply(op, _sized(tracer, _length(size), place), axes=(place,), norm=_mode(norm))  # type: ignore[no-any-return]

    return transform


fft = covers(np.fft.fft)(_complete(ops.fft))
ifft = covers(np.fft.ifft)(_complete(ops.ifft))


def _sizes_and_axes(tracer: Tracer, s: Any, axes: Any) -> tuple[Sequence[Any], tuple[int, ...]]:
    """Return sizes and axes of a transform along several; a size of -1 stands for that of the operand."""
    if axes is None:
        axes = range(tracer.ndim) if s is None else range(tracer.ndim - len(s), tracer.ndim)
    places = tuple(as_axis(a, tracer.ndim) for a in axes)
    if s is not None and len(s) != len(places):
        raise ValueError("Shape and axes have different lengths.")
    return [tracer.type.shape[p] if s is None or s[k] == -1 else _length(s[k]) for k, p in enumerate(places)], places


def _complete_along(op: Any, default: Any) -> Callable[..., Tracer]:
    def transform(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Tracer:
        tracer = _operand(a)
        sizes, places = _sizes_and_axes(tracer, s, axes)
        for size, place in zip(sizes, places, strict=True):
            tracer = _sized(tracer, size, place)
        mode = _mode(norm)
        if len(set(places)) == len(places) and places:
            return apply(op, tracer, axes=places, norm=mode)  # type: ignore[no-any-return]
        for place in places:
            tracer = apply(op, tracer, axes=(place,), norm=mode)
        return tracer

    return transform


fft2 = covers(np.fft.fft2)(_complete_along(ops.fft, (-2, -1)))
ifft2 = covers(np.fft.ifft2)(_complete_along(ops.ifft, (-2, -1)))
fftn = covers(np.fft.fftn)(_complete_along(ops.fft, None))
ifftn = covers(np.fft.ifftn)(_complete_along(ops.ifft, None))


@covers(np.fft.rfft)
def rfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Tracer:
    tracer = _operand(a)
    if is_complex(tracer.dtype):
        raise TypeError("ufunc 'rfft_n_even' did not contain a loop with complex operands: rfft takes real arrays")
    place = as_axis(axis, tracer.ndim)
    size = tracer.type.shape[place] if n is None else n
    return apply(ops.rfft, _sized(tracer, _length(size), place), axis=place, norm=_mode(norm))  # type: ignore[no-any-return]


@covers(np.fft.irfft)
def irfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Tracer:
    tracer = _operand(a)
    tracer = cast_to(tracer, complex_dtype(tracer.dtype))
    place = as_axis(axis, tracer.ndim)
    size = _length((tracer.type.shape[place] - 1) * 2 if n is None else n)
    half = _sized(tracer, size // 2 + 1, place)
    return apply(ops.irfft, half, count=size, axis=place, norm=_mode(norm))  # type: ignore[no-any-return]


def _half_along(default: Any) -> Callable[..., Tracer]:
    def transform(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Tracer:
        tracer = _operand(a)
        sizes, places = _sizes_and_axes(tracer, s, axes)
        half = rfft(tracer, sizes[-1], places[-1], norm)
        return fftn(half, sizes[:-1], places[:-1], norm)

    return transform


def _half_back_along(default: Any) -> Callable[..., Tracer]:
    def transform(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Tracer:
        tracer = _operand(a)
        sizes, places = _sizes_and_axes(tracer, s, axes)
        last = (tracer.type.shape[places[-1]] - 1) * 2 if s is None or s[-1] == -1 else sizes[-1]
        return irfft(ifftn(tracer, sizes[:-1], places[:-1], norm), last, places[-1], norm)

    return transform


rfft2 = covers(np.fft.rfft2)(_half_along((-2, -1)))
rfftn = covers(np.fft.rfftn)(_half_along(None))
irfft2 = covers(np.fft.irfft2)(_half_back_along((-2, -1)))
irfftn = covers(np.fft.irfftn)(_half_back_along(None))


@covers(np.fft.hfft)
def hfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Tracer:
    return irfft(call_handler(np.conjugate, a), n, axis, _SWAPPED[_mode(norm)])


@covers(np.fft.ihfft)
def ihfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    return call_handler(np.conjugate, rfft(a, n, axis, _SWAPPED[_mode(norm)]))


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    tracer = asarray(x)
    places = as_axes(axes, tracer.ndim)
    shifts = tuple(tracer.shape[p] // 2 if sign > 0 else -(tracer.shape[p] // 2) for p in places)
    return call_handler(np.roll, tracer, shifts, places)


@covers(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    return _shifted(x, axes, 1)


@covers(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    return _shifted(x, axes, -1)


def _frequencies(places: Tracer, n: Any, d: Any) -> Any:
    return call_handler(np.divide, places, call_handler(np.multiply, n, d))


@covers(np.fft.fftfreq)
def fftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    """Return 0, 1, ... and then the negative frequencies, for a traced spacing or a symbolic size."""
    size = as_dim(n)
    places = iota((size,))
    wrapped = call_handler(np.subtract, places, as_size(size))
    first = call_handler(np.less, places, as_size((size + 1) // 2))
    return _frequencies(call_handler(np.where, first, places, wrapped), n, d)


@covers(np.fft.rfftfreq)
def rfftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    return _frequencies(iota((as_dim(n) // 2 + 1,)), n, d)


#: transforms by name, which scipy.fft has too
TRANSFORMS: dict[str, Callable[..., Any]] = {
    "fft": fft, "ifft": ifft, "rfft": rfft, "irfft": irfft, "hfft": hfft, "ihfft": ihfft, "fft2": fft2, "ifft2": ifft2,
    "fftn": fftn, "ifftn": ifftn, "rfft2": rfft2, "irfft2": irfft2, "rfftn": rfftn, "irfftn": irfftn,
}  # fmt: skip
