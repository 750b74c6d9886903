"""torch.autograd's names, thin over runtime/.

Previous: runtime/eager.py; next folder: nn.
"""

from __future__ import annotations

from typing import Any

from tracegrad.autograd import forward_ad, function, functional, grad_mode, graph
from tracegrad.autograd.anomaly_mode import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from tracegrad.autograd.function import Function, FunctionNode, once_differentiable
from tracegrad.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors
from tracegrad.runtime.gradients import backward, enable_grad, grad, inference_mode, no_grad, set_grad_enabled
from tracegrad.runtime.operate import to_tensor
from tracegrad.runtime.tensor import Tensor


class _VariableType(type):
    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Tensor:
        tensor: Tensor = to_tensor(data).detach()
        tensor.requires_grad_(requires_grad)
        return tensor

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """Old name: `Variable(tensor, requires_grad)` returns a tensor."""


__all__ = [
    "Function",
    "FunctionNode",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]
