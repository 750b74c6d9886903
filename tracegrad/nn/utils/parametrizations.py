"""torch.nn.utils.parametrizations' names: weights of a norm of their own, or whose greatest singular value is 1.

Previous: parametrize.py; next: reparametrized.py.
"""

from __future__ import annotations

from typing import Any

from tracegrad.nn import functional as F
from tracegrad.nn.module import Module
from tracegrad.nn.modules import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tracegrad.nn.utils.parametrize import register_parametrization
from tracegrad.runtime.creating import randn
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.reducing import matmul, vector_norm
from tracegrad.runtime.reducing import sum as sum_over
from tracegrad.runtime.shaping import movedim, reshape
from tracegrad.runtime.tensor import Tensor

__all__ = ["spectral_norm", "weight_norm"]


def norm_except(v: Tensor, dim: int | None) -> Any:
    """Return the norms of the slices of an axis; of all if it is None or -1."""
    if dim in (None, -1):
        return vector_norm(v)
    return vector_norm(v, 2, tuple(k for k in range(v.dim()) if k != (dim or 0) % v.dim()), True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Any:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Any, Tensor]:
        """Return norms and directions."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a weight of norms and directions: w = g * v / |v|. Source: Salimans & Kingma, 2016."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def as_matrix(weight: Any, dim: int) -> Any:
    """Return a weight with an axis as rows, and all others as columns."""
    moved = movedim(weight, dim, 0) if dim else weight
    return reshape(moved, (moved.shape[0], -1))


def iterated(matrix: Any, u: Any, v: Any, steps: int, eps: float) -> None:
    """Bring two vectors nearer to the first singular vectors of a matrix, in place."""
    with no_grad():
        for _ in range(steps):
            u.copy_(F.normalize(matmul(matrix, v), dim=0, eps=eps))
            v.copy_(F.normalize(matmul(matrix.t(), u), dim=0, eps=eps))


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim % max(weight.dim(), 1), eps
        if weight.dim() > 1:
            with no_grad():
                matrix = as_matrix(weight, self.dim)
                for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    drawn = F.normalize(randn(size, dtype=weight.dtype), dim=0, eps=eps)
                    self.register_buffer(name, drawn)
                iterated(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Any:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            iterated(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
        u, v = self._u.clone(), self._v.clone()
        return weight / sum_over(u * matmul(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the weight: it is divided by what belongs to it when it is read."""
        return value


def default_axis(module: Module) -> int:
    """Return the axis of the results in the weight of a layer."""
    return 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its greatest singular value, which is found by iteration. Source: Miyato et al., 2018."""
    if n_power_iterations <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    axis = default_axis(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, axis, eps))
