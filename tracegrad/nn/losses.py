"""Losses of pairs and triples, and of parameters of distributions.

Reads tensors. Previous: resampling.py; next: functional.py. Composed of operations of runtime/.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.nn.parameters import reduction_of, require_reduction
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.operate import broadcast_shape, cast, in_single, softplus_of
from tracegrad.runtime.reducing import vector_norm
from tracegrad.runtime.tape import apply_composition, retitled
from tracegrad.runtime.tensor import Tensor, refuse_in, wrap


def reduced(loss: Any, reduction: str) -> Any:
    """Return the mean or sum of a loss, or the loss itself.

    Raises:
        ValueError: there is no such reduction.
    """
    require_reduction(reduction)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def reduce_array(reduction: str, x: Any) -> Any:
    """Return the mean or sum of an array that is traced, or the array itself."""
    require_reduction(reduction)
    return x if reduction == "none" else np.mean(x) if reduction == "mean" else np.sum(x)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return max(0, margin - target * (input1 - input2))."""
    reduction = reduction_of(size_average, reduce, reduction)
    broadcast_shape(input1, input2, target)
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return 1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    tiny = 2.220446049250313e-16 if input1.dtype.itemsize == 8 else 1.1920928955078125e-07
    products = (input1 * input2).sum(-1)
    sizes: Any = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = products / sizes.sqrt()
    near, far = (1 - cosine).masked_fill(target != 1, 0.0), (cosine - margin).clamp(min=0)
    return reduced(near + far.masked_fill(target != -1, 0.0), reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return max(0, |anchor - positive| - |anchor - negative| + margin)."""
    reduction = reduction_of(size_average, reduce, reduction)
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=_distance(p, eps), margin=margin, swap=swap, reduction=reduction
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Any, Any], Any] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    distance = distance_function or _distance(2.0, 1e-6)
    far = distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((distance(anchor, positive) - far + margin).clamp_min(0), reduction)


def _distance(p: float, eps: float) -> Callable[[Any, Any], Any]:
    return lambda a, b: retitled(vector_norm(a - b + eps, p, -1), "NormBackward1")


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return minus the log probability of counts under Poisson rates, or under their logarithms."""
    reduction = reduction_of(size_average, reduce, reduction)
    loss: Any = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling: Any = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Return minus the log probability under normal distributions; no gradient through the bound of the variance.

    Raises:
        ValueError: a variance is negative, or its shape does not fit.
    """
    variance: Any = var if isinstance(var, Tensor) else wrap(np.full(input.shape, var, input._a.dtype))
    if variance.shape != input.shape:
        if input.shape[:-1] == variance.shape:
            variance = variance.unsqueeze(-1)
        elif not (input.shape[:-1] == variance.shape[:-1] and variance.shape[-1] == 1) and variance.numel() != 1:
            raise ValueError("var is of incorrect size")
    if (variance < 0).any():
        raise ValueError("var has negative entry/entries")
    variance = variance.clone()
    with no_grad():
        variance.clamp_(min=eps)
    loss: Any = 0.5 * (variance.log() + (input - target) ** 2 / variance)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def _log_sigmoid(x: Any) -> Any:
    return -x.new_zeros(()).logaddexp(-x)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return log(1 + exp(-target * input)), of targets 1 and -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    broadcast_shape(input, target)
    require_reduction(reduction)
    return apply_composition(_SOFT_MARGIN, (reduction,), [input, cast(target, input._a.dtype)])


_SOFT_MARGIN = Composition(
    "SoftMarginLoss", in_single(lambda reduction, x, y: reduce_array(reduction, softplus_of(-y * x)))
)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return the mean over other classes of max(0, margin - x[target] + x) ** p."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    reduction = reduction_of(size_average, reduce, reduction)
    rows, classes = (input[None], target.reshape(1)) if input._a.ndim == 1 else (input, target)
    own: Any = rows.gather(1, classes.unsqueeze(1))
    each: Any = (margin - own + rows).relu() ** p
    if weight is not None:
        each = each * weight[classes].unsqueeze(1)
    mine = wrap(classes._a[:, None] == np.arange(rows._a.shape[1]))
    loss = each.masked_fill(mine, 0.0).sum(1) / rows._a.shape[1]
    return reduced(loss if input._a.ndim > 1 else loss[0], reduction)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return the mean of max(0, 1 - x[label] + x[other]) over labels, which stand before the first -1, and others."""
    reduction = reduction_of(size_average, reduce, reduction)
    rows, labels = (input[None], target._a[None]) if input._a.ndim == 1 else (input, target._a)
    count = rows._a.shape[1]
    valid = np.cumprod(labels >= 0, axis=1).astype(np.bool_)
    safe = np.where(valid, labels, 0)
    is_label = np.zeros(rows._a.shape, np.bool_)
    for row, (names, there) in enumerate(zip(labels, valid, strict=True)):
        is_label[row, names[there]] = True
    own: Any = rows.gather(1, wrap(safe.astype(np.int64))).unsqueeze(2)
    each: Any = (1 - own + rows.unsqueeze(1)).relu()
    loss = each.masked_fill(wrap(~(valid[:, :, None] & ~is_label[:, None, :])), 0.0).sum((1, 2)) / count
    return reduced(loss if input._a.ndim > 1 else loss[0], reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return the cross entropy of sigmoid(input) and targets in [0, 1], averaged over classes."""
    reduction = reduction_of(size_average, reduce, reduction)
    each: Any = -(target * _log_sigmoid(input) + (1 - target) * _log_sigmoid(-input))
    each = each if weight is None else each * weight
    return reduced(each.mean(-1), reduction)


refuse_in(globals())
