"""Layers: linear, convolutions, norms, embeddings; activations, losses and poolings as modules.

Reads and writes tensors. Previous: containers.py; next: layers.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.nn import functional as F
from tracegrad.nn import init, windows
from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter
from tracegrad.nn.parameters import bound, reduction_of
from tracegrad.runtime import creating, dtypes, reducing
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.operate import cast
from tracegrad.runtime.shaping import flatten, stack
from tracegrad.runtime.tensor import Tensor


def _new(*shape: int, dtype: Any = None) -> Parameter:
    made: Parameter = Parameter(creating.zeros(*shape, dtype=dtype))
    return made


class Linear(Module):
    """x @ weight.T + bias."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _new(out_features, in_features, dtype=dtype)
        self.register_parameter("bias", _new(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial values."""
        init.default_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias, for each feature k."""

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = _new(out_features, in1_features, in2_features, dtype=dtype)
        self.register_parameter("bias", _new(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial values."""
        bound = self.in1_features**-0.5
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Any:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class _Conv(Module):
    axes: int

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string '{padding}', should be one of {{'same', 'valid'}}")
            if padding == "same" and any(step != 1 for step in windows.pair(stride, self.axes)):
                raise ValueError("padding='same' is not supported for strided convolutions")
        modes = {"zeros", "reflect", "replicate", "circular"}
        if padding_mode not in modes:
            raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.padding_mode = windows.pair(kernel_size, self.axes), padding_mode
        self.stride, self.dilation = windows.pair(stride, self.axes), windows.pair(dilation, self.axes)
        self.padding: Any = padding if isinstance(padding, str) else windows.pair(padding, self.axes)
        self.weight = _new(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", _new(out_channels, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial values."""
        init.default_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Any:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._ends(), self.padding_mode), 0
        convolve = getattr(windows, f"conv{self.axes}d")
        return convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _ends(self) -> list[int]:
        """Return how much is added at both ends of each axis, from the last axis on."""
        if self.padding == "valid":
            return [0] * (2 * self.axes)
        if self.padding == "same":
            totals = [gap * (size - 1) for gap, size in zip(self.dilation, self.kernel_size, strict=True)]
            return [n for total in reversed(totals) for n in (total // 2, total - total // 2)]
        return [n for width in reversed(self.padding) for n in (width, width)]

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if isinstance(self.padding, str) or any(self.padding):
            text += f", padding={self.padding}"
        text += _convolution_text(self)
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


def _convolution_text(layer: Any) -> str:
    parts = [f", dilation={layer.dilation}"] if any(d != 1 for d in layer.dilation) else []
    parts += [f", output_padding={layer.output_padding}"] if any(getattr(layer, "output_padding", ())) else []
    parts += [f", groups={layer.groups}"] if layer.groups != 1 else []
    return "".join([*parts, *([", bias=False"] if layer.bias is None else [])])


class Conv1d(_Conv):
    """Convolution over one axis."""

    axes = 1


class Conv2d(_Conv):
    """Convolution over two axes."""

    axes = 2


class Conv3d(_Conv):
    """Convolution over three axes."""

    axes = 3


class _ConvTranspose(Module):
    axes: int

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = windows.pair(kernel_size, self.axes), windows.pair(stride, self.axes)
        self.padding, self.output_padding = windows.pair(padding, self.axes), windows.pair(output_padding, self.axes)
        self.dilation = windows.pair(dilation, self.axes)
        self.weight = _new(in_channels, out_channels // groups, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", _new(out_channels, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial values."""
        init.default_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Any:
        convolve = getattr(windows, f"conv_transpose{self.axes}d")
        return convolve(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
            self.dilation,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        return text + (f", padding={self.padding}" if any(self.padding) else "") + _convolution_text(self)


class ConvTranspose1d(_ConvTranspose):
    """The transpose of a convolution over one axis."""

    axes = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of a convolution over two axes."""

    axes = 2


class ConvTranspose3d(_ConvTranspose):
    """The transpose of a convolution over three axes."""

    axes = 3


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        ones = Parameter(creating.ones(*self.normalized_shape, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", ones)
        self.register_parameter(
            "bias", _new(*self.normalized_shape, dtype=dtype) if ones is not None and bias else None
        )

    def forward(self, input: Tensor) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine, shifted = self.weight is not None, self.bias is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}, bias={shifted}"


class GroupNorm(Module):
    """Mean 0 and variance 1 per group of channels."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.register_parameter("weight", Parameter(creating.ones(num_channels, dtype=dtype)) if affine else None)
        self.register_parameter("bias", _new(num_channels, dtype=dtype) if affine and bias else None)

    def forward(self, input: Tensor) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        shifted = self.bias is not None
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={shifted}"


class WithStatistics(Module):
    """A normalisation with running statistics."""

    _version = 2

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        version, count = local_metadata.get("version"), f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.num_batches_tracked is not None:
            state_dict.setdefault(count, self.num_batches_tracked)  # older states do not have it
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(WithStatistics):
    ranks: tuple[int, ...]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.register_parameter("weight", Parameter(creating.ones(num_features, dtype=dtype)) if affine else None)
        self.register_parameter("bias", _new(num_features, dtype=dtype) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", creating.zeros(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", creating.ones(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", creating.tensor(0) if tracked else None)

    def reset_running_stats(self) -> None:
        """Begin the running statistics anew."""
        if self.running_mean is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def forward(self, input: Tensor) -> Any:
        if input._a.ndim not in self.ranks:
            ranks = " or ".join(f"{n}D" for n in self.ranks)
            raise ValueError(f"expected {ranks} input (got {input._a.ndim}D input)")
        momentum = self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # the mean of all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        training = self.training or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training, momentum or 0.0, self.eps
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.weight is not None}, "
            f"bias={self.bias is not None}, "
            f"track_running_stats={self.running_mean is not None}"
        )


class BatchNorm1d(_BatchNorm):
    """Mean 0 and variance 1 per channel: of the batch in training, of the past in evaluation."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 per channel of images."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Mean 0 and variance 1 per channel of volumes."""

    ranks = (5,)


class _Table(Module):
    """Rows by index: what embeddings of one row and of many have in common."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, max_norm: float | None,
        norm_type: float, scaled_or_sparse: bool, weight: Tensor | None, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        if scaled_or_sparse:
            raise NotImplementedError(f"{name}: gradients are dense and not scaled by frequency")
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                word = "Padding_idx" if isinstance(self, Embedding) else "padding_idx"
                raise AssertionError(f"{word} must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        if weight is None:
            self.weight = _new(num_embeddings, embedding_dim, dtype=dtype)
            self.reset_parameters()
        else:
            if list(weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(weight)

    def reset_parameters(self) -> None:
        """Draw initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight._a[self.padding_idx] = 0.0


def _sizes_of_table(embeddings: Tensor) -> tuple[int, int]:
    if embeddings._a.ndim != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    count, size = embeddings.shape
    return count, size


class Embedding(_Table):
    """Rows of a table."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq or sparse,
            _weight,
            dtype,
        )
        self.weight.requires_grad_(not _freeze)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0,
    ) -> Embedding:  # fmt: skip
        """Return a layer over a given table."""
        count, size = _sizes_of_table(embeddings)
        return cls(count, size, padding_idx, max_norm, norm_type, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Any:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        text += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        return text if self.norm_type == 2.0 else f"{text}, norm_type={self.norm_type}"


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a table."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq or sparse,
            _weight,
            dtype,
        )
        self.mode, self.include_last_offset = mode, include_last_offset

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """Return a layer over a given table."""
        count, size = _sizes_of_table(embeddings)
        made = cls(
            count, size, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
            padding_idx,
        )  # fmt: skip
        made.weight.requires_grad_(not freeze)
        return made

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Any:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, mode=self.mode,
            per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        text += "" if self.norm_type == 2.0 else f", norm_type={self.norm_type}"
        return f"{text}, mode={self.mode!r}" + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")


class Flatten(Module):
    """Join axes."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Any:
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split an axis into several."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Any:
        return input.unflatten(self.dim, tuple(self.unflattened_size))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Identity(Module):
    """The input itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Elements set to 0 at random in training."""

    def forward(self, input: Tensor) -> Any:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Channels of sequences set to 0 at random in training."""

    def forward(self, input: Tensor) -> Any:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Channels of images set to 0 at random in training."""

    def forward(self, input: Tensor) -> Any:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Channels of volumes set to 0 at random in training."""

    def forward(self, input: Tensor) -> Any:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Elements set to what SELU saturates at, at random in training; mean and variance stay."""

    def forward(self, input: Tensor) -> Any:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class RReLU(Module):
    """x where positive, else a multiple of it that is random in training."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class _Configured(Module):
    """A function with fixed options, which are attributes too: base of activations, losses and poolings.

    Attributes:
        function: what is called with those options that were given.
        defaults: names of the options in order, and their values where none is given; `...` where one must be.
        shown: names of the options in the text of the module.
    """

    function: Callable[..., Any]
    defaults: dict[str, Any]
    shown: tuple[str, ...] = ()

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__()
        given = bound(f"{type(self).__name__}.__init__", self.defaults, values, options, more=1)
        if "reduction" in given:
            flags = given.pop("size_average", None), given.pop("reduce", None)
            given["reduction"] = reduction_of(*flags, given["reduction"])
        self._options = []
        for name, value in given.items():
            if name in ("weight", "pos_weight"):
                self.register_buffer(name, value)
            else:
                object.__setattr__(self, name, value)
                self._options.append(name)

    def forward(self, *inputs: Any) -> Any:
        tensors = {k: v for k, v in self._buffers.items() if v is not None}
        options = {name: getattr(self, name) for name in self._options}
        return type(self).function(*inputs, **options, **tensors)

    def extra_repr(self) -> str:
        inplace = ("inplace=True",) if getattr(self, "inplace", False) else ()
        return ", ".join([*(f"{name}={getattr(self, name)!r}" for name in self.shown), *inplace])


def make_module(module: str, function: Callable[..., Any], *shown: str, **defaults: Any) -> Any:
    """Return the class of a module that calls a function with the options of its constructor."""
    attributes = {
        "function": staticmethod(function), "defaults": defaults, "shown": shown,
        "__doc__": f"The function {function.__name__}.",
    }  # fmt: skip
    return type(module, (_Configured,), attributes)


ReLU = make_module("ReLU", F.relu, inplace=False)
ReLU6 = make_module("ReLU6", F.relu6, inplace=False)
Sigmoid, Tanh = make_module("Sigmoid", F.sigmoid), make_module("Tanh", F.tanh)
GELU = make_module("GELU", F.gelu, "approximate", approximate="none")
SiLU, Mish = make_module("SiLU", F.silu, inplace=False), make_module("Mish", F.mish, inplace=False)
ELU = make_module("ELU", F.elu, "alpha", alpha=1.0, inplace=False)
CELU = make_module("CELU", F.celu, "alpha", alpha=1.0, inplace=False)
SELU = make_module("SELU", F.selu, inplace=False)
LeakyReLU = make_module("LeakyReLU", F.leaky_relu, "negative_slope", negative_slope=0.01, inplace=False)
Hardtanh = make_module("Hardtanh", F.hardtanh, "min_val", "max_val", min_val=-1.0, max_val=1.0, inplace=False)
Hardsigmoid = make_module("Hardsigmoid", F.hardsigmoid, inplace=False)
Hardswish = make_module("Hardswish", F.hardswish, inplace=False)
Threshold = make_module("Threshold", F.threshold, "threshold", "value", threshold=..., value=..., inplace=False)
LogSigmoid, Softsign = make_module("LogSigmoid", F.logsigmoid), make_module("Softsign", F.softsign)
Tanhshrink = make_module("Tanhshrink", F.tanhshrink)
Softplus = make_module("Softplus", F.softplus, "beta", "threshold", beta=1.0, threshold=20.0)
Softmax = make_module("Softmax", F.softmax, "dim", dim=None)
LogSoftmax = make_module("LogSoftmax", F.log_softmax, "dim", dim=None)
Softmin = make_module("Softmin", F.softmin, "dim", dim=None)
GLU = make_module("GLU", F.glu, "dim", dim=-1)


class _Shrink(_Configured):
    def extra_repr(self) -> str:
        return str(getattr(self, "lambd"))  # noqa: B009 an option, set by name


class Hardshrink(_Shrink):
    """Small elements set to 0."""

    function, defaults = staticmethod(F.hardshrink), dict(lambd=0.5)


class Softshrink(_Shrink):
    """Elements brought nearer to 0, small ones to 0."""

    function, defaults = staticmethod(F.softshrink), dict(lambd=0.5)


class Softmax2d(Module):
    """Softmax over the channels of images."""

    def forward(self, input: Tensor) -> Any:
        if input._a.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input._a.ndim}D instead")
        return reducing.softmax(input, -3)


_LOSS = dict(size_average=None, reduce=None, reduction="mean")
MSELoss, L1Loss = make_module("MSELoss", F.mse_loss, **_LOSS), make_module("L1Loss", F.l1_loss, **_LOSS)
SmoothL1Loss = make_module("SmoothL1Loss", F.smooth_l1_loss, **_LOSS, beta=1.0)
HuberLoss = make_module("HuberLoss", F.huber_loss, reduction="mean", delta=1.0)
BCELoss = make_module("BCELoss", F.binary_cross_entropy, weight=None, **_LOSS)
BCEWithLogitsLoss = make_module(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, weight=None, **_LOSS, pos_weight=None
)
NLLLoss = make_module(
    "NLLLoss", F.nll_loss, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
)
CrossEntropyLoss = make_module(
    "CrossEntropyLoss", F.cross_entropy, weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean", label_smoothing=0.0,
)  # fmt: skip
KLDivLoss = make_module("KLDivLoss", F.kl_div, **_LOSS, log_target=False)
SoftMarginLoss = make_module("SoftMarginLoss", F.soft_margin_loss, **_LOSS)
MultiMarginLoss = make_module(
    "MultiMarginLoss", F.multi_margin_loss, p=1, margin=1.0, weight=None, size_average=None, reduce=None,
    reduction="mean",
)  # fmt: skip
MultiLabelMarginLoss = make_module("MultiLabelMarginLoss", F.multilabel_margin_loss, **_LOSS)
MultiLabelSoftMarginLoss = make_module("MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, weight=None, **_LOSS)


class _Pool(_Configured):
    """A pooling; windows lie side by side where no stride is given."""

    several = False

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__(*values, **options)
        for name in self.shown:
            value = getattr(self, "kernel_size" if name == "stride" and self.stride is None else name)
            setattr(self, name, windows.pair(value, 1) if self.several else value)

    stride: Any


_WINDOWS = dict(kernel_size=..., stride=None, padding=0)


class _MaxPool(_Pool):
    defaults = _WINDOWS | dict(dilation=1, return_indices=False, ceil_mode=False)
    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPool):
    """The greatest element of each window."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The greatest element of each window of images."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The greatest element of each window over three axes."""

    function = staticmethod(F.max_pool3d)


class _AvgPool(_Pool):
    defaults = _WINDOWS | dict(ceil_mode=False, count_include_pad=True)
    shown = ("kernel_size", "stride", "padding")


class AvgPool1d(_AvgPool):
    """The mean of each window."""

    function, several = staticmethod(F.avg_pool1d), True


class AvgPool2d(_AvgPool):
    """The mean of each window of images."""

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of each window over three axes."""

    function = staticmethod(F.avg_pool3d)


class LocalResponseNorm(_Configured):
    """Elements divided by a power of the squares of neighbouring channels."""

    function, defaults = staticmethod(F.local_response_norm), dict(size=..., alpha=1e-4, beta=0.75, k=1.0)
    shown = ("alpha", "beta", "k")

    def extra_repr(self) -> str:
        return f"{getattr(self, 'size')}, {super().extra_repr()}"  # noqa: B009 an option, set by name


Unfold = make_module(
    "Unfold", F.unfold, "kernel_size", "dilation", "padding", "stride", kernel_size=..., dilation=1, padding=0, stride=1
)
Fold = make_module(
    "Fold", F.fold, "output_size", "kernel_size", "dilation", "padding", "stride", output_size=..., kernel_size=...,
    dilation=1, padding=0, stride=1,
)  # fmt: skip


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along an axis."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Norms of differences of vectors."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class PReLU(Module):
    """x where positive, else a learnt multiple of it."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(creating.full((num_parameters,), init, dtype=dtype))

    def forward(self, input: Tensor) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of tensors taken together.

    Raises:
        RuntimeError: with `error_if_nonfinite`, it is infinite or NaN.
    """
    given, order = [tensors] if isinstance(tensors, Tensor) else list(tensors), float(norm_type)
    if not given:
        return creating.tensor(0.0)
    norms = [reducing.vector_norm(t, order) for t in given]
    dtype = functools.reduce(dtypes.join, [n._a.dtype for n in norms])
    total: Tensor = reducing.vector_norm(stack([cast(n, dtype) for n in norms]), order)
    if error_if_nonfinite and not np.isfinite(total._a):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients so that their norm, taken together, is at most max_norm; return the norm before.

    Raises:
        RuntimeError: with `error_if_nonfinite`, the norm is infinite or NaN.
    """
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p._grad for p in given if p._grad is not None]
    with no_grad():
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        factor = ((total + 1e-6).reciprocal() * max_norm).clamp(max=1.0)
        for g in grads:
            g.mul_(factor)
    return total


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit each element of the gradients to [-clip_value, clip_value]."""
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    with no_grad():
        for p in given:
            if p._grad is not None:
                p._grad.clamp_(-clip_value, clip_value)
