"""torch.nn.utils' names.

Previous: reparametrized.py; next: nn/__init__.py.
"""

from __future__ import annotations

from typing import Any

from tracegrad.nn.modules import clip_grad_norm_, clip_grad_value_, get_total_norm
from tracegrad.nn.utils import parametrizations, parametrize, rnn
from tracegrad.nn.utils.reparametrized import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.shaping import cat, reshape
from tracegrad.runtime.tensor import Tensor

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector", "parametrizations", "parametrize",
    "remove_spectral_norm", "remove_weight_norm", "rnn", "spectral_norm", "vector_to_parameters", "weight_norm",
]  # fmt: skip


def parameters_to_vector(parameters: Any) -> Any:
    """Return all elements of parameters in one vector."""
    return cat([reshape(p, (-1,)) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Any) -> None:
    """Write a vector into parameters."""
    position = 0
    with no_grad():
        for p in parameters:
            p.copy_(reshape(vec[position : position + p.numel()], p.shape))
            position += p.numel()
