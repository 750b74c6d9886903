"""torch.fft's names: discrete Fourier transforms.

Reads and writes tensors. Everything is composed of operations of the op table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.runtime import dtypes
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.operate import cast
from tracegrad.runtime.shaping import axis_of, roll
from tracegrad.runtime.tape import apply_composition, retitled
from tracegrad.runtime.tensor import Tensor, refuse_in, wrap


def _compositions(name: str, function: Any, of_real: str = "") -> tuple[Composition, Composition]:
    """Return the compositions for real and for complex tensors."""

    def transform(size: Any, place: Any, norm: str | None, x: Any) -> Any:
        return function(x, size, place, norm)

    return Composition(of_real or name, transform), Composition(name, transform)


_FFT, _IFFT = _compositions("FftC2C", np.fft.fft, "FftR2C"), _compositions("FftC2C", np.fft.ifft, "Conj")
_RFFT, _IRFFT = _compositions("FftR2C", np.fft.rfft), _compositions("FftC2R", np.fft.irfft)
_FFTN, _IFFTN = _compositions("FftC2C", np.fft.fftn), _compositions("FftC2C", np.fft.ifftn)


def _applied(compositions: tuple[Composition, Composition], x: Tensor, size: Any, place: Any, norm: str | None) -> Any:
    if norm not in (None, "forward", "backward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if not (x.is_floating_point() or x.is_complex()):
        x = cast(x, dtypes.default_of(2))
    _check_sizes(compositions, x, size, place)
    return apply_composition(compositions[x.is_complex()], (size, place, norm), [x])


def _check_sizes(compositions: tuple[Composition, Composition], x: Tensor, size: Any, place: Any) -> None:
    """Check the numbers of points along the axes of a transform.

    Raises:
        IndexError: there is no such axis.
        RuntimeError: a number of points is less than 1.
    """
    places = (place,) if isinstance(place, int) else place
    sizes = (None,) * len(places) if size is None else (size,) if isinstance(size, int) else size
    for k, n in zip(places, sizes, strict=False):
        if not x.dim():
            raise IndexError(f"Dimension specified as {k} but tensor has no dimensions")
        own = x.shape[axis_of(k, x.dim())]
        count = n if n is not None else 2 * (own - 1) if compositions is _IRFFT else own
        if count < 1 and n != -1:
            raise RuntimeError(f"Invalid number of data points ({count}) specified")


def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the discrete Fourier transform along an axis."""
    return _applied(_FFT, input, n, dim, norm)


def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the inverse discrete Fourier transform along an axis."""
    return _applied(_IFFT, input, n, dim, norm)


def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the half of the transform of a real tensor that is not redundant."""
    if input.is_complex():
        raise RuntimeError("rfft expects a real input tensor, but got " + repr(input.dtype))
    return _applied(_RFFT, input, n, dim, norm)


def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the real tensor of a half transform; its length is n, by default 2 (m - 1)."""
    return _applied(_IRFFT, input, n, dim, norm)


def _along(compositions: tuple[Composition, Composition], x: Tensor, s: Any, dim: Any, norm: str | None) -> Any:
    sizes = None if s is None else tuple(s)
    if dim is None:
        dim = range(x.dim()) if sizes is None else range(x.dim() - len(sizes), x.dim())
    return _applied(compositions, x, sizes, tuple(dim), norm)


def fft2(input: Tensor, s: Any = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return the transform along two axes."""
    return _along(_FFTN, input, s, dim, norm)


def ifft2(input: Tensor, s: Any = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return the inverse transform along two axes."""
    return _along(_IFFTN, input, s, dim, norm)


def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Return the transform along axes."""
    return _along(_FFTN, input, s, dim, norm)


def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Return the inverse transform along axes."""
    return _along(_IFFTN, input, s, dim, norm)


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


def _half_axes(x: Tensor, s: Any, dim: Any) -> tuple[list[Any], list[int]]:
    """Return sizes and axes of a transform along several axes; a size is None where it is that of the tensor."""
    axes = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if s is not None and dim is None:
        axes = axes[x.dim() - len(s) :]
    return [None] * len(axes) if s is None else list(s), axes


def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Return the half of the transform of a real tensor along axes that is not redundant along the last one."""
    sizes, axes = _half_axes(input, s, dim)
    made = rfft(input, sizes[-1], axes[-1], norm)
    for size, axis in zip(sizes[:-1], axes[:-1], strict=True):
        made = retitled(fft(made, size, axis, norm), "FftR2CBackward0")
    return made


def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Return the real tensor of a half transform along axes."""
    sizes, axes = _half_axes(input, s, dim)
    made: Any = input
    for size, axis in zip(sizes[:-1], axes[:-1], strict=True):
        made = ifft(made, size, axis, norm)
    return irfft(made, sizes[-1], axes[-1], norm)


def rfft2(input: Tensor, s: Any = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return half of the transform of a real tensor along two axes."""
    return rfftn(input, s, dim, norm)


def irfft2(input: Tensor, s: Any = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return the real tensor of a half transform along two axes."""
    return irfftn(input, s, dim, norm)


#: scaling of a transform -> that of its inverse which gives the same numbers
_OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the real transform of half of a tensor that is symmetric up to conjugation."""
    made = cast(input, dtypes.complex_of(input._a.dtype)) if not input.is_complex() else input
    return irfft(made.conj(), n, dim, _OPPOSITE[norm])


def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return half of the inverse transform of a real tensor."""
    return rfft(input, n, dim, _OPPOSITE[norm]).conj()


refuse_in(globals())
