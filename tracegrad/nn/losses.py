"""Losses of pairs and triples, and of parameters of distributions.

Reads tensors. Previous: resampling.py; next: functional.py. Composed of operations of runtime/.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.operate import broadcast_shape
from tracegrad.runtime.reducing import vector_norm
from tracegrad.runtime.tensor import Tensor


def reduced(loss: Any, reduction: str) -> Any:
    """Return the mean or sum of a loss, or the loss itself.

    Raises:
        ValueError: there is no such reduction.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """Return max(0, margin - target * (input1 - input2))."""
    broadcast_shape(input1, input2, target)
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """Return 1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
    tiny = 2.220446049250313e-16 if input1.dtype.itemsize == 8 else 1.1920928955078125e-07
    products = (input1 * input2).sum(-1)
    sizes: Any = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = products / sizes.sqrt()
    near, far = (1 - cosine).masked_fill(target != 1, 0.0), (cosine - margin).clamp(min=0)
    return reduced(near + far.masked_fill(target != -1, 0.0), reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return max(0, |anchor - positive| - |anchor - negative| + margin)."""

    def distance(a: Any, b: Any) -> Any:
        return vector_norm(a - b + eps, p, -1)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=reduction
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[[Any, Any], Any],
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    far = distance_function(anchor, negative)
    if swap:
        far = far.minimum(distance_function(positive, negative))
    return reduced((distance_function(anchor, positive) - far + margin).clamp(min=0), reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """Return minus the log probability of counts under Poisson rates, or under their logarithms."""
    loss: Any = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling: Any = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Return minus the log probability under normal distributions; no gradient through the bound of the variance.

    Raises:
        ValueError: a variance is negative, or its shape does not fit.
    """
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.shape[:-1] == var.shape[:-1] and var.shape[-1] == 1) and var.numel() != 1:
            raise ValueError("var is of incorrect size")
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss: Any = 0.5 * (var.log() + (input - target) ** 2 / var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def _log_sigmoid(x: Any) -> Any:
    return -x.new_zeros(()).logaddexp(-x)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Any:
    """Return log(1 + exp(-target * input)), of targets 1 and -1."""
    broadcast_shape(input, target)
    return reduced(-_log_sigmoid(target * input), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Any:
    """Return the cross entropy of sigmoid(input) and targets in [0, 1], averaged over classes."""
    each: Any = -(target * _log_sigmoid(input) + (1 - target) * _log_sigmoid(-input))
    each = each if weight is None else each * weight
    return reduced(each.mean(-1), reduction)
