"""Functions that look at windows of the last axes: convolutions, poolings.

Reads and writes tensors; each is a composition of table ops. Previous: activations.py; next: functional.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tracegrad.capture.contents import iota
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.runtime import dtypes
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.kinds import refuse_kinds
from tracegrad.runtime.operate import in_single, require_one_dtype
from tracegrad.runtime.shaping import reshape
from tracegrad.runtime.tape import apply_composition
from tracegrad.runtime.tensor import METHODS, Tensor, refuse_in, wrap

__all__ = [
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "fold", "local_response_norm", "lp_pool1d", "lp_pool2d",
    "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "unfold",
]  # fmt: skip


def pair(value: Any, count: int) -> tuple[int, ...]:
    return (int(value),) * count if isinstance(value, int) else tuple(int(v) for v in value)


def windows(
    x: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[list[Any], tuple[int, ...]]:
    """Return x at each place of the kernel, for all positions of it, over the last axes."""
    lead = x.ndim - len(kernel)
    sizes = tuple(
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[lead:], kernel, stride, dilation, strict=True)
    )
    places = []
    for place in np.ndindex(*kernel):
        key = (slice(None),) * lead + tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s) for p, n, s, d in zip(place, sizes, stride, dilation, strict=True)
        )
        places.append(x[key])
    return places, sizes


def _convolution(
    stride: Any, padding: Any, dilation: Any, groups: int, biased: bool, x: Any, weight: Any, *bias: Any
) -> Any:
    kernel = weight.shape[2:]
    x = np.moveaxis(x, 1, 0)  # channels, batch: so the places of a group are one matrix
    if any(a or b for a, b in padding):
        x = np.pad(x, ((0, 0), (0, 0), *padding))
    places, sizes = windows(x, kernel, stride, dilation)
    patches = np.stack(places, axis=1)  # channels, places, batch, positions
    rows, count = len(places) * x.shape[0] // groups, x.shape[1] * math.prod(sizes)
    if groups == 1:
        made = weight.reshape((-1, rows)) @ patches.reshape((rows, count))
    else:
        made = weight.reshape((groups, -1, rows)) @ patches.reshape((groups, rows, count))
    if biased:
        made = made + bias[0].reshape((*made.shape[:-1], 1))
    return np.moveaxis(made.reshape((weight.shape[0], x.shape[1], *sizes)), 0, 1)


_CONVOLUTION = Composition("Convolution", _convolution)


def _check_dtypes(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if bias is not None and bias._a.dtype != input._a.dtype:
        names = [dtypes.scalar_name(t._a.dtype) for t in (input, bias)]
        raise RuntimeError(f"Input type ({names[0]}) and bias type ({names[1]}) should be the same")
    require_one_dtype(input, weight)


def _convolve(
    ndim: int, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    _check_dtypes(input, weight, bias)
    single = input._a.ndim == ndim + 1
    if single:
        input = reshape(input, (1, *input._a.shape))
    if input._a.ndim != ndim + 2:
        raise RuntimeError(
            f"Expected {ndim + 1}D (unbatched) or {ndim + 2}D (batched) input to conv{ndim}d, but got input of size: "
            f"{list(input._a.shape)}"
        )
    if groups < 1:
        raise RuntimeError("non-positive groups is not supported")
    if input._a.shape[1] != weight._a.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight._a.shape)}, expected input{list(input._a.shape)} to "
            f"have {weight._a.shape[1] * groups} channels, but got {input._a.shape[1]} channels instead"
        )
    steps, spread = pair(stride, ndim), pair(dilation, ndim)
    if padding == "same":
        if any(step != 1 for step in steps):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        totals = [d * (k - 1) for d, k in zip(spread, weight._a.shape[2:], strict=True)]
        pads = tuple((t // 2, t - t // 2) for t in totals)
    elif padding == "valid":
        pads = ((0, 0),) * ndim
    elif isinstance(padding, str):
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    else:
        pads = tuple((p, p) for p in pair(padding, ndim))
    for what, given in (("stride", steps), ("dilation", spread)):
        if len(given) != ndim:
            raise RuntimeError(
                f"expected {what} to be a single integer value or a list of {ndim} values to match the convolution "
                f"dimensions, but got {what}={list(given)}"
            )
    _check_steps(steps, spread)
    if any(p < 0 for pair_of in pads for p in pair_of):
        raise RuntimeError("negative padding is not supported")
    if bias is not None and bias._a.shape != weight._a.shape[:1]:
        raise RuntimeError(
            f"Given weight of size {list(weight._a.shape)}, expected bias to be 1-dimensional with "
            f"{weight._a.shape[0]} elements, but got bias of size {list(bias._a.shape)} instead"
        )
    padded = [n + a + b for n, (a, b) in zip(input._a.shape[2:], pads, strict=True)]
    reach = [d * (k - 1) + 1 for d, k in zip(spread, weight._a.shape[2:], strict=True)]
    if any(n < m for n, m in zip(padded, reach, strict=True)):
        shown = (" x ".join(map(str, sizes)) for sizes in (padded, reach))
        raise RuntimeError(
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than "
            "actual input size".format(*shown)
        )
    static = (steps, pads, spread, groups, bias is not None)
    made = apply_composition(_CONVOLUTION, static, [input, weight, *([] if bias is None else [bias])])
    return reshape(made, made._a.shape[1:]) if single else made


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution (without flip) of [batch, channels, length] with [out, channels / groups, kernel]."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution (without flip) of [batch, channels, h, w] with [out, channels / groups, kh, kw]."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


def _convolution_transposed(
    stride: Any, padding: Any, more: Any, dilation: Any, groups: int, biased: bool, x: Any, weight: Any, *bias: Any
) -> Any:
    kernel, each = weight.shape[2:], weight.shape[1]
    batch, sizes = x.shape[0], x.shape[2:]
    full = tuple(
        (n - 1) * s + d * (k - 1) + 1 + m for n, k, s, d, m in zip(sizes, kernel, stride, dilation, more, strict=True)
    )
    made = as_tracer(np.zeros((groups * each, batch, *full), x.dtype)).copy()
    rows = x.shape[1] // groups
    for g in range(groups):
        part = np.moveaxis(x[:, g * rows : (g + 1) * rows], 1, 0).reshape((rows, batch * math.prod(sizes)))
        matrix = weight[g * rows : (g + 1) * rows].reshape((rows, each * math.prod(kernel)))
        spread = (matrix.T @ part).reshape((each, *kernel, batch, *sizes))
        for place in np.ndindex(*kernel):
            key = tuple(
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, n, s, d in zip(place, sizes, stride, dilation, strict=True)
            )
            made[(slice(g * each, (g + 1) * each), slice(None), *key)] += spread[(slice(None), *place)]
    cut = tuple(slice(p, n - p) for p, n in zip(padding, full, strict=True))
    made = made[(slice(None), slice(None), *cut)]
    if biased:
        made = made + bias[0].reshape((-1, 1) + (1,) * len(sizes))
    return np.moveaxis(made, 0, 1)


_CONVOLUTION_TRANSPOSED = Composition("Convolution", _convolution_transposed)


def _convolve_transposed(
    ndim: int, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any,
) -> Any:  # fmt: skip
    _check_dtypes(input, weight, bias)
    single = input._a.ndim == ndim + 1
    if single:
        input = reshape(input, (1, *input._a.shape))
    if input._a.ndim != ndim + 2:
        raise RuntimeError(
            f"Expected {ndim + 1}D (unbatched) or {ndim + 2}D (batched) input to conv_transpose{ndim}d, but got input "
            f"of size: {list(input._a.shape)}"
        )
    if input._a.shape[1] != weight._a.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight._a.shape)}, expected input{list(input._a.shape)} to have "
            f"{weight._a.shape[0]} channels, but got {input._a.shape[1]} channels instead"
        )
    steps, spread, more = pair(stride, ndim), pair(dilation, ndim), pair(output_padding, ndim)
    _check_steps(steps, spread)
    if any(m >= max(s, d) for m, s, d in zip(more, steps, spread, strict=True)):
        raise RuntimeError("output padding must be smaller than either stride or dilation")
    static = (steps, pair(padding, ndim), more, spread, groups, bias is not None)
    made = apply_composition(_CONVOLUTION_TRANSPOSED, static, [input, weight, *([] if bias is None else [bias])])
    return reshape(made, made._a.shape[1:]) if single else made


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return what the transpose of conv1d gives; weight [in, out / groups, kernel]."""
    return _convolve_transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return what the transpose of conv2d gives; weight [in, out / groups, kh, kw]."""
    return _convolve_transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _max_pool(kernel: Any, stride: Any, padding: Any, dilation: Any, x: Any) -> Any:
    if any(a or b for a, b in padding):
        pads = ((0, 0),) * (x.ndim - len(kernel)) + padding
        x = np.pad(x, pads, constant_values=x.dtype.type(-np.inf))
    (best, *places), sizes = windows(x, kernel, stride, dilation)
    spans = [math.prod(x.shape[k:]) for k in range(x.ndim - len(kernel) + 1, x.ndim + 1)]  # of a step along each axis
    chosen: Any = 0
    for tap, place in zip(itertools.islice(np.ndindex(*kernel), 1, None), places, strict=True):
        better = (place > best) | np.isnan(place)  # the first of equal ones gets the gradient; NaN wins
        best = np.where(better, place, best)
        chosen = np.where(better, sum(k * d * span for k, d, span in zip(tap, dilation, spans, strict=True)), chosen)
    chosen = (chosen + _first_places(x.shape, sizes, stride)).reshape((-1,))  # one axis: so np.add.at is fast
    return x.reshape((-1,))[chosen].reshape(best.shape)


def _first_places(shape: Sequence[int], sizes: Sequence[int], stride: Sequence[int]) -> Any:
    """Return the number, among all elements of an array, of the first one of each window over the last axes."""
    lead = len(shape) - len(sizes)
    total: Any = 0
    for k, (count, step) in enumerate(zip((*shape[:lead], *sizes), (*(1,) * lead, *stride), strict=True)):
        places: Any = iota((count,))
        places = places * (step * math.prod(shape[k + 1 :]))
        total = total + places.reshape((-1,) + (1,) * (len(shape) - k - 1))
    return total


def _avg_pool(kernel: Any, stride: Any, padding: Any, more: Any, divisor: int | None, count_pad: bool, x: Any) -> Any:
    """Return means of windows; `more` elements after the padding belong to no mean."""
    lead, ones = ((0, 0),) * (x.ndim - len(kernel)), (1,) * len(kernel)
    pads = tuple((p, p + m) for p, m in zip(padding, more, strict=True))
    if any(a or b for a, b in pads):
        counted = np.ones((1,) * (x.ndim - len(kernel)) + x.shape[x.ndim - len(kernel) :], x.dtype)
        if count_pad:
            counted = np.pad(counted, lead + tuple((p, p) for p in padding), constant_values=1)
            counted = np.pad(counted, lead + tuple((0, m) for m in more))
        else:
            counted = np.pad(counted, lead + pads)
        x = np.pad(x, lead + pads)
        shares: Any = sum(windows(counted, kernel, stride, ones)[0])
    else:
        shares = math.prod(kernel)
    return sum(windows(x, kernel, stride, ones)[0]) / (shares if divisor is None else divisor)


_MAX_POOLS = {
    1: Composition("MaxPool1D", _max_pool, title="SqueezeBackward1"),
    2: Composition("MaxPool2DWithIndices", _max_pool),
    3: Composition("MaxPool3DWithIndices", _max_pool),
}  # fmt: skip
_AVG_POOLS = {
    n: Composition(f"AvgPool{n}D", in_single(_avg_pool), title="SqueezeBackward1" if n == 1 else "") for n in (1, 2, 3)
}


class _Pooling(NamedTuple):
    """Windows of a pooling, with a number per axis.

    Attributes:
        more: elements beyond the padding that the last window reaches, with `ceil_mode`.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    more: tuple[int, ...]


def _check_steps(steps: Sequence[int], spread: Sequence[int]) -> None:
    """Check stride and dilation of a convolution.

    Raises:
        RuntimeError: one is less than 1.
    """
    if min(steps) < 1:
        raise RuntimeError("non-positive stride is not supported")
    if min(spread) < 1:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(spread)}")


def _pool_options(
    input: Tensor, ndim: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> _Pooling:
    """Return the windows.

    Raises:
        RuntimeError: the input has another rank than it should, or no window fits.
    """
    kernel, spread = pair(kernel_size, ndim), pair(dilation, ndim)
    steps, pads = kernel if stride in (None, ()) else pair(stride, ndim), pair(padding, ndim)
    shape = input._a.shape
    if len(shape) not in (ndim + 1, ndim + 2):
        raise RuntimeError(f"non-empty {ndim + 1}D or {ndim + 2}D (batch mode) tensor expected for input")
    if min(kernel) < 1:
        raise RuntimeError(f"kernel size should be greater than zero, but got {list(kernel)}")
    if min(steps) < 1:
        raise RuntimeError(f"stride should not be zero or less, but got {list(steps)}")
    if min(spread) < 1:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(spread)}")
    sizes, more = [], []
    for n, k, step, pad, gap in zip(shape[-ndim:], kernel, steps, pads, spread, strict=True):
        if pad > (gap * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={k} and "
                f"dilation={gap}"
            )
        reach, whole = gap * (k - 1) + 1, n + 2 * pad
        count = (whole - reach + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (count - 1) * step >= n + pad:
            count -= 1  # the last window would begin in the padding
        sizes.append(count)
        more.append(max((count - 1) * step + reach - whole, 0))
    if any(n < 1 for n in sizes):
        given, made = ("x".join(map(str, (shape[-ndim - 1], *s))) for s in (shape[-ndim:], sizes))
        raise RuntimeError(f"Given input size: ({given}). Calculated output size: ({made}). Output size is too small")
    return _Pooling(kernel, steps, pads, spread, tuple(more))


def _greatest(
    ndim: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    return_indices: bool,
) -> Any:  # fmt: skip
    options = _pool_options(input, ndim, kernel_size, stride, padding, dilation, ceil_mode)
    pads = tuple((p, p + m) for p, m in zip(options.padding, options.more, strict=True))
    made = apply_composition(_MAX_POOLS[ndim], (options.kernel, options.stride, pads, options.dilation), [input])
    return (made, wrap(_places_of_greatest(input._a, options, pads))) if return_indices else made


def _places_of_greatest(a: Any, options: _Pooling, pads: Any) -> Any:
    """Return the number, among the elements of the last axes, of the greatest one of each window."""
    ndim = len(pads)
    lead = a.ndim - ndim
    numbers = np.arange(math.prod(a.shape[lead:])).reshape(a.shape[lead:])
    values = np.pad(a.astype(np.float64), ((0, 0),) * lead + pads, constant_values=-np.inf)
    candidates = np.stack(windows(values, options.kernel, options.stride, options.dilation)[0], -1)
    places = np.stack(windows(np.pad(numbers, pads), options.kernel, options.stride, options.dilation)[0], -1)
    chosen = candidates.argmax(-1)[..., None]
    return np.take_along_axis(np.broadcast_to(places, candidates.shape), chosen, -1)[..., 0]


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Return the greatest element of each window, and where it is; of ties the first one gets the gradient."""
    refuse_kinds("max_pool1d", input)
    return _greatest(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Return the greatest element of each window of images, and its number among the pixels."""
    return _greatest(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _mean(
    ndim: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_pad: bool,
    divisor: int | None,
) -> Any:  # fmt: skip
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")
    options = _pool_options(input, ndim, kernel_size, stride, padding, 1, ceil_mode)
    static = (options.kernel, options.stride, options.padding, options.more, divisor, count_pad)
    return apply_composition(_AVG_POOLS[ndim], static, [input])


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Return the mean of each window."""
    refuse_kinds("avg_pool1d", input)
    return _mean(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """Return the mean of each window of images."""
    return _mean(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_sizes(name: str, input: Tensor, output_size: Any, ndim: int) -> list[int | None]:
    """Return how many windows there are along each of the last axes; None keeps an axis.

    Raises:
        RuntimeError: the tensor has another number of axes, or the sizes are others or negative.
        NotImplementedError: the tensor holds whole numbers.
        TypeError: there is no size of a single axis.
    """
    shape = input._a.shape
    if len(shape) not in (ndim + 1, ndim + 2):
        raise RuntimeError(
            f"Expected {ndim + 1} to {ndim + 2} dimensions, but got {len(shape)}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
            if ndim == 1
            else f"{name}(): Expected {ndim + 1}D or {ndim + 2}D tensor, but got: {list(shape)}"
        )
    if dtypes.category(input._a.dtype) < 2:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype.title}'")
    asked = [output_size] * ndim if isinstance(output_size, int | None) else list(output_size)
    if asked == [None] and ndim == 1:
        raise TypeError(f"{name}(): argument 'output_size' (position 2) must be tuple of ints, not NoneType")
    if len(asked) != ndim:
        raise RuntimeError(f"{name}: output_size must be {ndim}")
    if any(count is not None and count < 0 for count in asked):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {output_size}"
        )
    return asked


def empty_error(name: str, input: Tensor, first: int) -> RuntimeError:
    """Return the error for a tensor with an empty axis, one that is not before the axis `first`."""
    shape = list(input._a.shape)
    return RuntimeError(
        f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {shape} with "
        f"dimension {shape.index(0, first)} being empty"
    )


def _adaptive_greatest(input: Tensor, output_size: Any, ndim: int, return_indices: bool) -> Any:
    """Return the greatest elements of windows that cover the last axes, so many per axis; None keeps an axis."""
    shape = input._a.shape
    lead, old = shape[: len(shape) - ndim], shape[len(shape) - ndim :]
    name = f"adaptive_max_pool{ndim}d"
    asked = adaptive_sizes(name, input, output_size, ndim)
    if 0 in shape[1:]:
        raise empty_error(name, input, 1)
    wanted = tuple(n if count is None else count for n, count in zip(old, asked, strict=True))
    numbers = np.arange(math.prod(old)).reshape(old)
    chosen = np.empty((*lead, *wanted), np.int64)
    for place in np.ndindex(*wanted) if math.prod(lead) else ():
        key: Any = tuple(slice(j * n // m, -(-(j + 1) * n // m)) for j, n, m in zip(place, old, wanted, strict=True))
        window = input._a[(..., *key)].reshape((*lead, -1))
        chosen[(..., *place)] = numbers[key].ravel()[window.argmax(-1)]
    made = apply_composition(_ADAPTIVE_MAX[ndim], (ndim,), [input, wrap(chosen)])
    return (made, wrap(chosen)) if return_indices else made


def _at_places(ndim: int, x: Any, chosen: Any) -> Any:
    """Return elements of the last axes, by their numbers among all of a channel."""
    lead = x.shape[: x.ndim - ndim]
    flat, places = (a.reshape((*lead, math.prod(a.shape[len(lead) :]))) for a in (x, chosen))
    found = np.take_along_axis(flat, places, axis=-1)
    return found.reshape(chosen.shape)


_ADAPTIVE_MAX = {
    1: Composition("AdaptiveMaxPool1D", _at_places, title="SqueezeBackward1"),
    2: Composition("AdaptiveMaxPool2D", _at_places),
    3: Composition("AdaptiveMaxPool3D", _at_places),
}


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return the greatest elements of so many windows along the last axis."""
    return _adaptive_greatest(input, output_size, 1, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return the greatest elements of so many windows along each of the last two axes."""
    return _adaptive_greatest(input, output_size, 2, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return the greatest elements of so many windows along each of the last three axes."""
    return _adaptive_greatest(input, output_size, 3, return_indices)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution (without flip) over three axes."""
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return what the transpose of conv3d gives; weight [in, out / groups, kd, kh, kw]."""
    return _convolve_transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def max_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Return the greatest element of each window over three axes, and its number among them."""
    return _greatest(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """Return the mean of each window over three axes."""
    return _mean(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _max_unpool(ndim: int, input: Tensor, indices: Tensor, kernel: Any, stride: Any, padding: Any, size: Any) -> Any:
    """Return zeros with the elements at the places that a pooling took them from."""
    shape = input._a.shape
    lead, old = shape[: len(shape) - ndim], shape[len(shape) - ndim :]
    kernel = pair(kernel, ndim)
    steps, pads = kernel if stride is None else pair(stride, ndim), pair(padding, ndim)
    new = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(old, steps, pads, kernel, strict=True)]
    new = new if size is None else list(size)[-ndim:]
    zeros = wrap(np.zeros((*lead, math.prod(new)), input._a.dtype))
    rows = (*lead, math.prod(old))
    made = METHODS["scatter"](zeros, -1, reshape(indices, rows), reshape(input, rows))
    return reshape(made, (*lead, *new))


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Return zeros with the elements at the places that max_pool1d took them from."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Return zeros with the elements at the places that max_pool2d took them from."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def _powers(ndim: int, input: Tensor, p: float, kernel: Any, stride: Any, ceil_mode: bool) -> Any:
    mean = _mean(ndim, input.pow(p), kernel, stride, 0, ceil_mode, True, None)
    return (mean.sign() * mean.abs().relu() * math.prod(pair(kernel, ndim))).pow(1.0 / p)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the p-th root of the sum of p-th powers in each window."""
    return _powers(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the p-th root of the sum of p-th powers in each window of images."""
    return _powers(2, input, norm_type, kernel_size, stride, ceil_mode)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Return elements divided by a power of the mean square in neighbouring channels."""
    if input._a.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input._a.ndim} dimensions)")
    padded = apply_composition(_PAD_CHANNELS, (size // 2, (size - 1) // 2), [input * input])
    channels = input._a.shape[1]
    total = sum(METHODS["narrow"](padded, 1, start, channels) for start in range(size))
    return input / (total * (alpha / size) + k).pow(beta)


_PAD_CHANNELS = Composition(
    "ConstantPadNd", lambda low, high, x: np.pad(x, ((0, 0), (low, high), *((0, 0),) * (x.ndim - 2)))
)


# ---- windows as columns


def _unfold(kernel: Any, stride: Any, padding: Any, dilation: Any, x: Any) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding))) if any(padding) else x
    places, sizes = windows(padded, kernel, stride, dilation)
    return np.stack(places, axis=2).reshape((x.shape[0], x.shape[1] * len(places), math.prod(sizes)))


def _fold(sizes: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, x: Any) -> Any:
    count = math.prod(kernel)
    full = tuple(n + 2 * p for n, p in zip(sizes, padding, strict=True))
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(full, kernel, stride, dilation, strict=True)]
    columns = x.reshape((x.shape[0], x.shape[1] // count, count, *counts))
    made = as_tracer(np.zeros((x.shape[0], columns.shape[1], *full), x.dtype)).copy()
    for number, place in enumerate(np.ndindex(*kernel)):
        key = (slice(None), slice(None)) + tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s) for p, n, s, d in zip(place, counts, stride, dilation, strict=True)
        )
        made[key] += columns[:, :, number]
    return made[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(padding, sizes, strict=True)))]


_UNFOLD, _FOLD = Composition("Im2Col", _unfold), Composition("Col2Im", _fold)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Return the windows of images as columns: f[batch, channels * kernel, windows]."""
    if input._a.ndim not in (3, 4):
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(input._a.shape)}"
        )
    single = input._a.ndim == 3
    static = (pair(kernel_size, 2), pair(stride, 2), pair(padding, 2), pair(dilation, 2))
    for what, given in (("kernel size", static[0]), ("stride", static[1]), ("dilation", static[3])):
        if min(given) < 1:
            raise RuntimeError(f"{what} should be greater than zero, but got {list(given)}")
    made = apply_composition(_UNFOLD, static, [input[None] if single else input])
    return made[0] if single else made


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Return images whose windows are the sums of columns: the transpose of unfold."""
    single = input._a.ndim == 2
    static = (pair(output_size, 2), pair(kernel_size, 2), pair(stride, 2), pair(padding, 2), pair(dilation, 2))
    made = apply_composition(_FOLD, static, [input[None] if single else input])
    return made[0] if single else made


refuse_in(globals())
