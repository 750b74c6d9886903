"""weight_norm and spectral_norm as hooks before forward: what torch had before parametrizations.

Previous: parametrizations.py; next: utils/__init__.py.
"""

from __future__ import annotations

import warnings
from typing import Any

from tracegrad.nn import functional as F
from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter
from tracegrad.nn.utils.parametrizations import as_matrix, default_axis, iterated, norm_except
from tracegrad.runtime.creating import randn
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.reducing import matmul
from tracegrad.runtime.reducing import sum as sum_over

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _WeightNorm:
    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, dim

    def compute(self, module: Module) -> Any:
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return v * (g / norm_except(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        object.__setattr__(module, self.name, self.compute(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a weight of norms `weight_g` and directions `weight_v`, computed before each call."""
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    weight = module._parameters.pop(name)
    with no_grad():
        module.register_parameter(f"{name}_g", Parameter(norm_except(weight, dim)))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook = _WeightNorm(name, dim)
    hook(module, None)
    module.register_forward_pre_hook(hook)
    return module


def _taken(module: Module, kind: Any, name: str, title: str) -> Any:
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            del module._forward_pre_hooks[number]
            return hook
    raise ValueError(f"{title} of '{name}' not found in {module}")


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again."""
    hook = _taken(module, _WeightNorm, name, "weight_norm")
    with no_grad():
        weight = hook.compute(module)
    for part in "gv":
        delattr(module, f"{name}_{part}")
    module.__dict__.pop(name, None)
    module.register_parameter(name, Parameter(weight))
    return module


class _SpectralNorm:
    def __init__(self, name: str, steps: int, dim: int, eps: float) -> None:
        self.name, self.steps, self.dim, self.eps = name, steps, dim, eps

    def compute(self, module: Module, steps: int) -> Any:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        with no_grad():
            for _ in range(steps):
                v.copy_(F.normalize(matmul(matrix.t(), u), dim=0, eps=self.eps))
                u.copy_(F.normalize(matmul(matrix, v), dim=0, eps=self.eps))
        return weight / sum_over(u.clone() * matmul(matrix, v.clone()))

    def __call__(self, module: Module, inputs: Any) -> None:
        object.__setattr__(module, self.name, self.compute(module, self.steps if module.training else 0))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight, kept as `weight_orig`, by its greatest singular value before each call."""
    axis = default_axis(module) if dim is None else dim
    weight = module._parameters.pop(name)
    matrix = as_matrix(weight.detach(), axis)
    module.register_parameter(f"{name}_orig", weight)
    for part, size in zip("uv", matrix.shape, strict=True):
        module.register_buffer(f"{name}_{part}", F.normalize(randn(size, dtype=weight.dtype), dim=0, eps=eps))
    iterated(matrix, getattr(module, f"{name}_u"), getattr(module, f"{name}_v"), 15, eps)
    object.__setattr__(module, name, weight.detach())
    module.register_forward_pre_hook(_SpectralNorm(name, n_power_iterations, axis, eps))
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again."""
    hook = _taken(module, _SpectralNorm, name, "spectral_norm")
    with no_grad():
        weight = hook.compute(module, 0)
    for part in ("orig", "u", "v"):
        delattr(module, f"{name}_{part}")
    module.__dict__.pop(name, None)
    module.register_parameter(name, Parameter(weight.detach()))
    return module
