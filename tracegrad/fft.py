"""torch.fft's names: discrete Fourier transforms, which are linear, so that each is the other's backward.

Reads and writes tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.autograd.function import Function
from tracegrad.runtime import dtypes
from tracegrad.runtime.operate import cast
from tracegrad.runtime.shaping import narrow, roll
from tracegrad.runtime.tensor import Tensor, wrap


class _Transform(Function):
    """The sum over k of x_k exp(sign 2 pi i j k / n), times a scale, along an axis; real input gives complex output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, sign: int, scale: float) -> Any:
        ctx.axis, ctx.sign, ctx.scale = axis, sign, scale
        a = x._a
        n = a.shape[axis]
        made = np.fft.fft(a, axis=axis) * scale if sign < 0 else np.fft.ifft(a, axis=axis) * (n * scale)
        return wrap(made.astype(dtypes.complex_of(a.dtype)))

    @staticmethod
    def backward(ctx: Any, ct: Tensor) -> Any:
        # the adjoint has the other sign
        return _Transform.apply(ct, ctx.axis, -ctx.sign, ctx.scale), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *rest: Any) -> Any:
        return _Transform.apply(tangent, ctx.axis, ctx.sign, ctx.scale)


def _scale(norm: str | None, n: int, forward: bool) -> float:
    mode = norm or "backward"
    if mode not in ("forward", "backward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{mode}"')
    if mode == "ortho":
        return float(n**-0.5)
    return 1.0 / n if (mode == "forward") == forward else 1.0


def _sized(x: Tensor, n: int | None, axis: int) -> Any:
    """Cut or fill an axis with zeros to a size."""
    if n is None or n == x.shape[axis]:
        return x
    if n < x.shape[axis]:
        return narrow(x, axis, 0, n)
    shape = list(x.shape)
    shape[axis] = n
    filled = wrap(np.zeros(shape, x._a.dtype))
    narrow(filled, axis, 0, x.shape[axis]).copy_(x)
    return filled


def _complex(x: Tensor) -> Any:
    if not (x.is_floating_point() or x.is_complex()):
        x = cast(x, dtypes.default_of(2))
    return cast(x, dtypes.complex_of(x._a.dtype))


def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the discrete Fourier transform along an axis."""
    axis = dim % input.dim()
    x = _sized(input, n, axis)
    return _Transform.apply(_complex(x), axis, -1, _scale(norm, x.shape[axis], True))


def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the inverse discrete Fourier transform along an axis."""
    axis = dim % input.dim()
    x = _sized(input, n, axis)
    return _Transform.apply(_complex(x), axis, 1, _scale(norm, x.shape[axis], False))


def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the half of the transform of a real tensor that is not redundant."""
    if input.is_complex():
        raise RuntimeError("rfft expects a real input tensor, but got " + repr(input.dtype))
    whole = fft(input, n, dim, norm)
    return narrow(whole, dim, 0, whole.shape[dim] // 2 + 1)


def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the real tensor of a half transform; its length is n, by default 2 (m - 1)."""
    axis = dim % input.dim()
    size = 2 * (input.shape[axis] - 1) if n is None else n
    half = _sized(_complex(input), size // 2 + 1, axis)
    weights = np.full(size // 2 + 1, 2.0)
    weights[0] = 1.0
    if size % 2 == 0:
        weights[-1] = 1.0
    shape = tuple(-1 if k == axis else 1 for k in range(input.dim()))
    weighted = half * wrap(weights.reshape(shape).astype(dtypes.real_of(half._a.dtype)))
    # x_j = scale * Re sum of the weighted half times exp(2 pi i j k / n)
    return _Transform.apply(_sized(weighted, size, axis), axis, 1, _scale(norm, size, False)).real


def _each(function: Any, input: Tensor, dim: Any, norm: str | None) -> Any:
    axes = range(input.dim()) if dim is None else dim
    for axis in axes:
        input = function(input, None, axis, norm)
    return input


def fft2(input: Tensor, s: Any = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return the transform along two axes."""
    return _each(fft, input, dim, norm)


def ifft2(input: Tensor, s: Any = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return the inverse transform along two axes."""
    return _each(ifft, input, dim, norm)


def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Return the transform along axes."""
    return _each(fft, input, dim, norm)


def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Return the inverse transform along axes."""
    return _each(ifft, input, dim, norm)


def fftshift(input: Tensor, dim: Any = None) -> Any:
    """Move frequency 0 to the middle."""
    axes = tuple(range(input.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    return roll(input, tuple(input.shape[d] // 2 for d in axes), axes)


def ifftshift(input: Tensor, dim: Any = None) -> Any:
    """Undo fftshift."""
    axes = tuple(range(input.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    return roll(input, tuple(-(input.shape[d] // 2) for d in axes), axes)


def fftfreq(n: int, d: float = 1.0) -> Tensor:
    """Return the frequencies of a transform."""
    return wrap(np.fft.fftfreq(n, d).astype(dtypes.default_of(2)))


def rfftfreq(n: int, d: float = 1.0) -> Tensor:
    """Return the frequencies of half a transform."""
    return wrap(np.fft.rfftfreq(n, d).astype(dtypes.default_of(2)))
