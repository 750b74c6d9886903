"""Functions that change the size of axes: padding by modes, interpolation, adaptive pooling.

Reads and writes tensors. First file of nn/; next: losses.py. All work axis by axis, by positions or a matrix.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.nn.windows import adaptive_sizes, empty_error
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.operate import in_single
from tracegrad.runtime.reducing import matmul
from tracegrad.runtime.shaping import gather, reshape, transpose, unsqueeze
from tracegrad.runtime.tape import apply_composition
from tracegrad.runtime.tensor import METHODS, Array, Tensor, refuse_in, wrap

#: torch's name of a way to continue an axis -> NumPy's, and the node's
_MODES = {"reflect": ("reflect", "ReflectionPad"), "replicate": ("edge", "ReplicationPad"), "circular": ("wrap", "")}


def padded_by(input: Tensor, pads: Sequence[int], mode: str) -> Any:
    """Return the tensor with its last axes continued: by reflection, by the last element, or in a circle.

    Raises:
        NotImplementedError: there is no such mode.
        RuntimeError: more is to be added than the axis has.
    """
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    steps = []
    for k in range(0, len(pads), 2):
        axis = input._a.ndim - 1 - k // 2
        size, (low, high) = input._a.shape[axis], pads[k : k + 2]
        if mode == "reflect" and max(low, high) >= size:
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({low}, {high}) at dimension {axis} of input {list(input._a.shape)}"
            )
        if mode == "circular" and max(low, high) > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if low or high:
            steps.append((axis, _padded_places, low, high, _MODES[mode][0]))
    name = _MODES[mode][1]
    return _resample(f"{name}{len(pads) // 2}DBackward0" if name else "CopySlices", input, steps)


def _padded_places(size: int, low: int, high: int, mode: Any) -> Array:
    places: Array = np.pad(np.arange(size), (max(low, 0), max(high, 0)), mode)
    return places[max(-low, 0) : places.size - max(-high, 0)]


def _nearest_places(size: int, wanted: int, scale: float) -> Array:
    places: Array = np.floor(np.arange(wanted) * np.float32(scale)).astype(np.int64)
    return places.clip(max=size - 1)


def _linear_weights(size: int, wanted: int, scale: float, align: bool) -> Array:
    places = np.arange(wanted)
    if align:
        source = places * ((size - 1) / (wanted - 1) if wanted > 1 else 0.0)
    else:
        source = np.maximum((places + 0.5) * scale - 0.5, 0.0)
    low = np.minimum(np.floor(source).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    weights = np.zeros((size, wanted))
    share = source - low
    np.add.at(weights, (low, places), 1 - share)
    np.add.at(weights, (high, places), share)
    return weights


def _mean_weights(size: int, wanted: int) -> Array:
    weights = np.zeros((size, wanted))
    for j in range(wanted):
        start, end = j * size // wanted, -(-(j + 1) * size // wanted)
        weights[start:end, j] = 1 / (end - start)
    return weights


def _resampled(steps: Sequence[Any], x: Any) -> Any:
    """Return an array with some axes replaced: by elements at positions along them, or by weighted sums.

    Args:
        steps: (axis, function that gives the positions or a matrix with a column of weights each, its arguments).
    """
    if not steps:
        return x.copy()
    for axis, find, *options in steps:
        found = find(x.shape[axis], *options)
        if found.ndim == 1:
            x = np.take(x, found, axis=axis)
        else:
            x = np.swapaxes(np.swapaxes(x, axis, -1) @ found.astype(x.dtype), axis, -1)
    return x


@functools.cache
def _resampling(title: str) -> Composition:
    return Composition("Resampled", in_single(_resampled), title=title)


def _resample(title: str, input: Tensor, steps: Sequence[Any]) -> Any:
    return apply_composition(_resampling(title), (tuple(steps),), [input])


#: modes that are for one number of axes
_RANKS = {"linear": 3, "bilinear": 4, "trilinear": 5}


def _check_resampled(input: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None) -> None:
    if align_corners is not None and mode in ("nearest", "area"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    count, places = input._a.ndim, list(input._a.shape[2:])
    for found, of, name, form in (
        (size, "output", "output size of", "output size in (o1, o2, ...,oK)"),
        (scale_factor, "scale_factor", "scale_factor of shape", "scale_factor in (s1, s2, ...,sK)"),
    ):
        if isinstance(found, list | tuple) and len(found) != len(places):
            raise ValueError(
                f"Input and {of} must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {places} and {name} {found}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                f"format and {form} format."
            )
    if not 3 <= count <= 5:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {count}D) for the modes: nearest | linear | "
            f"bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
        )
    if count != _RANKS.get(mode, count):
        raise NotImplementedError(f"Got {count}D input, but {mode} mode needs {_RANKS[mode]}D input")


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Any:  # fmt: skip
    """Return the tensor with its axes after the second brought to other sizes.

    Args:
        size: the sizes, or one for all.
        scale_factor: instead, the factors.
        mode: "nearest", "linear", "bilinear", "trilinear" or "area".
        align_corners: of the linear modes: the first and last elements stay.

    Raises:
        ValueError: neither or both of size and factor are given.
        NotImplementedError: there is no such mode.
    """
    rank = input._a.ndim - 2
    _check_resampled(input, size, scale_factor, mode, align_corners)
    if (size is None) == (scale_factor is None):
        raise ValueError("either size or scale_factor should be defined" if size is None else
                         "only one of size or scale_factor should be defined")  # fmt: skip
    old = input._a.shape[2:]
    if size is not None:
        wanted = (int(size),) * rank if isinstance(size, int) else tuple(int(n) for n in size)
        factors: list[float | None] = [None] * rank
    else:
        factors = [float(f) for f in ([scale_factor] * rank if isinstance(scale_factor, int | float) else scale_factor)]
        wanted = tuple(math.floor(n * float(f or 0)) for n, f in zip(old, factors, strict=True))
    if mode == "area":
        return adaptive_average(input, wanted)
    if antialias or mode not in ("nearest", "linear", "bilinear", "trilinear"):
        raise NotImplementedError(f"interpolate: mode {mode!r} is not there; use 'nearest', 'bilinear' or 'area'")
    steps: list[Any] = []
    for axis, (n, m, factor) in enumerate(zip(old, wanted, factors, strict=True), 2):
        scale = n / m if factor is None or recompute_scale_factor else 1.0 / factor
        if mode == "nearest":
            steps.append((axis, _nearest_places, m, scale))
        elif n != m or not align_corners:
            steps.append((axis, _linear_weights, m, scale, bool(align_corners)))
    return _resample(f"Upsample{mode.title()}{rank}DBackward0", input, steps)


def adaptive_average(input: Tensor, wanted: Sequence[int | None]) -> Any:
    """Return means over windows that cover the last axes, so many per axis; None keeps an axis."""
    rank = len(wanted)
    first = input._a.ndim - rank
    if 0 in input._a.shape[first:]:
        if set(wanted) == {1}:
            return METHODS["mean"](input, tuple(range(first, first + rank)), True)
        raise empty_error(f"adaptive_avg_pool{rank}d", input, first)
    steps = [
        (axis, _mean_weights, count)
        for axis, count in enumerate(wanted, first)
        if count is not None and count != input._a.shape[axis]
    ]
    title = f"AdaptiveAvgPool{rank}DBackward0" if rank > 1 else "SqueezeBackward1"
    return _resample("MeanBackward1" if rank > 1 and set(wanted) == {1} else title, input, steps)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Any:
    """Return the means of so many windows along the last axis."""
    return adaptive_average(input, adaptive_sizes("adaptive_avg_pool1d", input, output_size, 1))


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Any:
    """Return the means of so many windows along each of the last two axes."""
    return adaptive_average(input, adaptive_sizes("adaptive_avg_pool2d", input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Any:
    """Return the means of so many windows along each of the last three axes."""
    return adaptive_average(input, adaptive_sizes("adaptive_avg_pool3d", input, output_size, 3))


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Any:
    """Return images of fewer channels and more pixels: [n, c r², h, w] becomes [n, c, h r, w r]."""
    r, channels = upscale_factor, input._a.shape[-3]
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    return apply_composition(_SHUFFLE, (r,), [input])


def _shuffled(r: int, x: Any) -> Any:
    *lead, channels, height, width = x.shape
    n = len(lead)
    split = x.reshape((*lead, channels // (r * r), r, r, height, width))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return split.transpose(order).reshape((*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Any:
    """Return images of more channels and fewer pixels: [n, c, h r, w r] becomes [n, c r², h, w]."""
    r = downscale_factor
    for name, place in (("height", -2), ("width", -1)):
        size = input._a.shape[place]
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({place})={size} "
                f"is not divisible by {r}"
            )
    return apply_composition(_UNSHUFFLE, (r,), [input])


def _unshuffled(r: int, x: Any) -> Any:
    *lead, channels, height, width = x.shape
    n = len(lead)
    split = x.reshape((*lead, channels, height // r, r, width // r, r))
    order = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return split.transpose(order).reshape((*lead, channels * r * r, height // r, width // r))


_SHUFFLE, _UNSHUFFLE = Composition("PixelShuffle", _shuffled), Composition("PixelUnshuffle", _unshuffled)


def channel_shuffle(input: Tensor, groups: int) -> Any:
    """Return the channels in another order: the first of each group, then the second of each."""
    batch, channels, *places = input._a.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    return reshape(transpose(reshape(input, (batch, groups, channels // groups, *places)), 1, 2), input._a.shape)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """Return where in an image each place of another comes from: theta f[batch, 2, 3] of coordinates from -1 to 1."""
    batch, _, *counts = size
    axes = []
    for n in counts[::-1]:
        along = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(n)
        axes.append(along if align_corners else along * (n - 1) / n)
    points = np.stack([*np.meshgrid(*axes, indexing="ij"), np.ones(counts[::-1])], -1)
    points = points.transpose(*reversed(range(len(counts))), len(counts))
    flat = wrap(points.reshape(1, -1, len(counts) + 1).astype(theta._a.dtype))
    return reshape(matmul(flat, transpose(theta, -2, -1)), (batch, *counts, len(counts)))


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Return images at the places of a grid f[batch, height, width, 2] of coordinates (x, y) from -1 to 1.

    Between pixels the four around are mixed, or with mode "nearest" the nearest one is taken; outside are zeros, or
    with padding_mode "border" the pixels of the border.
    """
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border"):
        raise NotImplementedError("grid_sample: mode is bilinear or nearest, padding_mode zeros or border")
    if input._a.ndim != 4 or grid._a.ndim != 4:
        raise NotImplementedError("grid_sample: the input has four axes")
    batch, channels, height, width = input._a.shape
    rows = []
    for number, size in enumerate((width, height)):
        place: Any = grid[..., number]
        place = (place + 1) * ((size - 1) / 2) if align_corners else ((place + 1) * size - 1) / 2
        rows.append(place.clamp(0, size - 1) if padding_mode == "border" else place)
    x, y = rows
    flat = reshape(input, (batch, channels, height * width))
    if mode == "nearest":
        corners = [(np.rint(x._a), np.rint(y._a), None)]
    else:
        left, top = np.floor(x._a), np.floor(y._a)
        right, low = x - wrap(left), y - wrap(top)
        corners = [
            (left, top, (1 - right) * (1 - low)), (left + 1, top, right * (1 - low)),
            (left, top + 1, (1 - right) * low), (left + 1, top + 1, right * low),
        ]  # fmt: skip
    total: Any = 0
    for column, row, share in corners:
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        places = np.where(inside, row * width + column, 0).astype(np.int64)
        index = wrap(np.broadcast_to(places.reshape(batch, 1, -1), (batch, channels, places[0].size)).copy())
        values = reshape(gather(flat, 2, index), (batch, channels, *places.shape[1:]))
        kept = values.masked_fill(wrap(~inside[:, None]), 0.0)
        total = total + (kept if share is None else kept * unsqueeze(share, 1))
    return total


refuse_in(globals())
