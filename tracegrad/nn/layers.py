"""Layers composed of others: norms of instances, padding, resizing, attention.

Reads and writes tensors. Previous: modules.py; next: recurrent.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.nn import functional as F
from tracegrad.nn import init
from tracegrad.nn.module import Module
from tracegrad.nn.modules import Linear, PairwiseDistance, WithStatistics, make_module
from tracegrad.nn.parameter import Parameter
from tracegrad.nn.windows import pair
from tracegrad.runtime import creating
from tracegrad.runtime.reducing import matmul, softmax
from tracegrad.runtime.shaping import reshape, transpose, unsqueeze
from tracegrad.runtime.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "ChannelShuffle",
    "CircularPad1d", "CircularPad2d", "ConstantPad1d", "ConstantPad2d", "CosineEmbeddingLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LPPool1d", "LPPool2d",
    "MarginRankingLoss", "MaxUnpool1d", "MaxUnpool2d", "MultiheadAttention", "PixelShuffle", "PixelUnshuffle",
    "PoissonNLLLoss", "RMSNorm", "ReflectionPad1d", "ReflectionPad2d", "ReplicationPad1d", "ReplicationPad2d",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
    "ZeroPad1d", "ZeroPad2d",
]  # fmt: skip


class RMSNorm(Module):
    """The input divided by its root mean square over the last axes, times a learnt weight."""

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = Parameter(creating.ones(*self.normalized_shape, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def forward(self, input: Tensor) -> Any:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class _InstanceNorm(WithStatistics):
    ranks: tuple[int, int]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        shifted = affine and bias
        self.register_parameter("weight", Parameter(creating.ones(num_features, dtype=dtype)) if affine else None)
        self.register_parameter("bias", Parameter(creating.zeros(num_features, dtype=dtype)) if shifted else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", creating.zeros(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", creating.ones(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", creating.tensor(0) if tracked else None)

    def forward(self, input: Tensor) -> Any:
        rank = input._a.ndim
        if rank not in self.ranks:
            raise ValueError(f"expected {self.ranks[0]}D or {self.ranks[1]}D input (got {rank}D input)")
        single = rank == self.ranks[0]
        given = unsqueeze(input, 0) if single else input
        made = F.instance_norm(
            given, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum, self.eps,
        )  # fmt: skip
        return made.squeeze(0) if single else made

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class InstanceNorm1d(_InstanceNorm):
    """Mean 0 and variance 1 per channel of each sequence."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Mean 0 and variance 1 per channel of each image."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Mean 0 and variance 1 per channel of each volume."""

    ranks = (4, 5)


class _MaxUnpool(Module):
    axes: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = pair(kernel_size, self.axes)
        self.stride = self.kernel_size if stride is None else pair(stride, self.axes)
        self.padding = pair(padding, self.axes)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        unpool = F.max_unpool1d if self.axes == 1 else F.max_unpool2d
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Zeros with the elements at the places that MaxPool1d took them from."""

    axes = 1


class MaxUnpool2d(_MaxUnpool):
    """Zeros with the elements at the places that MaxPool2d took them from."""

    axes = 2


class _Pad(Module):
    """Elements added at the ends of the last axes."""

    axes: int
    mode: str

    def __init__(self, padding: Any, value: float = 0.0) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        self.value = value

    def forward(self, input: Tensor) -> Any:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding, value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


def _pad_layer(name: str, axes: int, mode: str, base: Any = _Pad) -> Any:
    return type(name, (base,), {"axes": axes, "mode": mode, "__doc__": f"Padding of {axes} axes: {mode}."})


ZeroPad1d, ZeroPad2d = _pad_layer("ZeroPad1d", 1, "constant"), _pad_layer("ZeroPad2d", 2, "constant")
ConstantPad1d, ConstantPad2d = (_pad_layer(f"ConstantPad{n}d", n, "constant", _ConstantPad) for n in (1, 2))
ReflectionPad1d, ReflectionPad2d = (
    _pad_layer("ReflectionPad1d", 1, "reflect"),
    _pad_layer("ReflectionPad2d", 2, "reflect"),
)
ReplicationPad1d = _pad_layer("ReplicationPad1d", 1, "replicate")
ReplicationPad2d = _pad_layer("ReplicationPad2d", 2, "replicate")
CircularPad1d, CircularPad2d = _pad_layer("CircularPad1d", 1, "circular"), _pad_layer("CircularPad2d", 2, "circular")


class Upsample(Module):
    """The input with its last axes brought to other sizes."""

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def forward(self, input: Tensor) -> Any:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        given = f"size={self.size}" if self.scale_factor is None else f"scale_factor={float(self.scale_factor)}"
        return f"{given}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images with each pixel repeated."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Images with values between the pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


AdaptiveAvgPool1d = make_module("AdaptiveAvgPool1d", F.adaptive_avg_pool1d, "output_size", output_size=...)
AdaptiveAvgPool2d = make_module("AdaptiveAvgPool2d", F.adaptive_avg_pool2d, "output_size", output_size=...)
AdaptiveAvgPool3d = make_module("AdaptiveAvgPool3d", F.adaptive_avg_pool3d, "output_size", output_size=...)
PixelShuffle = make_module("PixelShuffle", F.pixel_shuffle, "upscale_factor", upscale_factor=...)
PixelUnshuffle = make_module("PixelUnshuffle", F.pixel_unshuffle, "downscale_factor", downscale_factor=...)
ChannelShuffle = make_module("ChannelShuffle", F.channel_shuffle, "groups", groups=...)
_POWERS = dict(norm_type=..., kernel_size=..., stride=None, ceil_mode=False)
LPPool1d = make_module("LPPool1d", F.lp_pool1d, *_POWERS, **_POWERS)
LPPool2d = make_module("LPPool2d", F.lp_pool2d, *_POWERS, **_POWERS)
_GREATEST = dict(output_size=..., return_indices=False)
AdaptiveMaxPool1d = make_module("AdaptiveMaxPool1d", F.adaptive_max_pool1d, "output_size", **_GREATEST)
AdaptiveMaxPool2d = make_module("AdaptiveMaxPool2d", F.adaptive_max_pool2d, "output_size", **_GREATEST)
AdaptiveMaxPool3d = make_module("AdaptiveMaxPool3d", F.adaptive_max_pool3d, "output_size", **_GREATEST)
_LOSS = dict(size_average=None, reduce=None, reduction="mean")
MarginRankingLoss = make_module("MarginRankingLoss", F.margin_ranking_loss, margin=0.0, **_LOSS)
HingeEmbeddingLoss = make_module("HingeEmbeddingLoss", F.hinge_embedding_loss, margin=1.0, **_LOSS)
CosineEmbeddingLoss = make_module("CosineEmbeddingLoss", F.cosine_embedding_loss, margin=0.0, **_LOSS)
TripletMarginLoss = make_module(
    "TripletMarginLoss", F.triplet_margin_loss, margin=1.0, p=2.0, eps=1e-6, swap=False, **_LOSS
)


class TripletMarginWithDistanceLoss(Module):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""

    def __init__(
        self, *, distance_function: Callable[[Any, Any], Any] | None = None, margin: float = 1.0, swap: bool = False,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__()
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap, self.reduction = margin, swap, reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip


PoissonNLLLoss = make_module(
    "PoissonNLLLoss", F.poisson_nll_loss, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
    reduction="mean",
)  # fmt: skip
GaussianNLLLoss = make_module("GaussianNLLLoss", F.gaussian_nll_loss, full=False, eps=1e-6, reduction="mean")


class NonDynamicallyQuantizableLinear(Linear):
    """What torch calls the last layer of attention."""


class MultiheadAttention(Module):
    """Attention of queries to keys in several parts of the features.

    Inputs f[length, batch, embed_dim], or with the batch in front when `batch_first`, or without a batch. The result is
    the attended values and, with `need_weights`, the weights f[batch, queries, keys], of each head when they are not
    averaged. A mask is bool (True: not attended to) or is added to the scores.

    Source: Vaswani et al., 2017.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        if add_bias_kv or add_zero_attn or kdim not in (None, embed_dim) or vdim not in (None, embed_dim):
            raise NotImplementedError("MultiheadAttention: keys and values have the size of queries, without more rows")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.in_proj_weight = Parameter(creating.empty(3 * embed_dim, embed_dim, dtype=dtype))
        init.xavier_uniform_(self.in_proj_weight)
        projected = Parameter(creating.zeros(3 * embed_dim, dtype=dtype)) if bias else None
        self.register_parameter("in_proj_bias", projected)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        if bias:
            init.zeros_(self.out_proj.bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:  # fmt: skip
        single = query._a.ndim == 2
        given = [
            unsqueeze(t, 0) if single else t if self.batch_first else transpose(t, 0, 1) for t in (query, key, value)
        ]
        batch, length, _ = given[0]._a.shape
        keys, size = given[1]._a.shape[1], self.embed_dim // self.num_heads
        weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        heads = [
            transpose(reshape(F.linear(t, w, b), (batch, t._a.shape[1], self.num_heads, size)), 1, 2)
            for t, w, b in zip(given, weights, biases, strict=True)
        ]
        scores: Any = matmul(heads[0] * (1.0 / math.sqrt(size)), transpose(heads[1], -2, -1))
        for mask, shape in (
            (attn_mask, None), (key_padding_mask, (batch, 1, 1, keys)),
        ):  # fmt: skip
            if mask is None:
                continue
            if mask._a.ndim == 3:
                shape = (batch, self.num_heads, length, keys)
            shown = mask if shape is None else reshape(mask, shape)
            scores = scores.masked_fill(shown, -math.inf) if mask._a.dtype == np.bool_ else scores + shown
        shares: Any = softmax(scores, -1)
        shares = F.dropout(shares, self.dropout, self.training) if self.dropout else shares
        joined = reshape(matmul(shares, heads[2]).permute(2, 0, 1, 3), (length * batch, self.embed_dim))
        out = reshape(self.out_proj(joined), (length, batch, self.embed_dim))
        out = out.squeeze(1) if single else transpose(out, 0, 1) if self.batch_first else out
        if not need_weights:
            return out, None
        shown = shares.mean(1) if average_attn_weights else reshape(shares, shares.shape)
        return out, shown.squeeze(0) if single else shown
