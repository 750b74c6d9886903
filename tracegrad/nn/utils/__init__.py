"""torch.nn.utils' names.

Previous: rnn.py; next: nn/__init__.py.
"""

from __future__ import annotations

from typing import Any

from tracegrad.nn.modules import clip_grad_norm_, clip_grad_value_
from tracegrad.nn.utils import rnn
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.shaping import cat, reshape
from tracegrad.runtime.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "rnn", "vector_to_parameters"]


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
