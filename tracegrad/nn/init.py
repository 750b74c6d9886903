"""Initial values of parameters.

Writes tensors in place. Previous: functional.py; next: parameter.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.runtime.creating import randn, random_uniform, randperm
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.tensor import METHODS, Array, Tensor, wrap


def _set(tensor: Tensor, values: Array) -> Tensor:
    with no_grad():
        tensor.copy_(wrap(np.broadcast_to(np.asarray(values, tensor._a.dtype), tensor._a.shape)))
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill with uniform numbers in [a, b)."""
    return _set(tensor, random_uniform(a, b, tensor._a.shape, tensor._a.dtype))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill with normal numbers."""
    with no_grad():
        made: Tensor = METHODS["normal_"](tensor, mean, std)
    return made


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number."""
    return _set(tensor, np.asarray(val))


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill with the identity matrix."""
    return _set(tensor, np.eye(*tensor._a.shape))


def fans(tensor: Tensor) -> tuple[int, int]:
    """Return the number of inputs and outputs of a weight."""
    shape = tensor._a.shape
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = int(np.prod(shape[2:], dtype=np.int64))
    return shape[1] * field, shape[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor by which a nonlinearity shrinks a signal, inverted."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    return {"relu": math.sqrt(2.0), "tanh": 5.0 / 3, "selu": 0.75}.get(nonlinearity, 1.0)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill with uniform numbers of variance 2 / (inputs + outputs).

    Source: Glorot and Bengio, 2010, equation 16.
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill with normal numbers of variance 2 / (inputs + outputs)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fill with uniform numbers that keep the variance of a rectified signal.

    Source: He et al., 2015, equation 10.
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / fans(tensor)[mode != "fan_in"])
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Fill with normal numbers that keep the variance of a rectified signal."""
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode != "fan_in"]))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill with a random matrix whose rows, or columns if there are fewer, are orthogonal and of length gain.

    Source: Saxe et al., 2013.
    """
    if tensor._a.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor._a.size:
        return tensor
    rows = tensor._a.shape[0]
    shape = (rows, tensor._a.size // rows)
    drawn = randn(max(shape), min(shape), dtype=np.float64)._a
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))  # makes the choice uniform
    return _set(tensor, gain * (q if shape[0] >= shape[1] else q.T).reshape(tensor._a.shape))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Fill with normal numbers, drawn anew where they are outside [a, b]."""
    if not tensor.is_floating_point():
        raise NotImplementedError(f"trunc_normal_ draws no random numbers of dtype {tensor.dtype!r}")
    values = mean + std * randn(tensor._a.shape, dtype=np.float64)._a
    outside = (values < a) | (values > b)
    while outside.any():
        values[outside] = mean + std * randn(int(outside.sum()), dtype=np.float64)._a
        outside = (values < a) | (values > b)
    return _set(tensor, values)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it keeps its channels, those of each group on their own."""
    shape = tensor._a.shape
    if len(shape) not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    values = np.zeros(shape)
    each = shape[0] // groups
    middle = tuple(n // 2 for n in shape[2:])
    for group in range(groups):
        for channel in range(min(each, shape[1])):
            values[(group * each + channel, channel, *middle)] = 1
    return _set(tensor, values)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers, of which a share in each column is 0.

    Source: Martens, 2010.
    """
    if tensor._a.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor._a.shape
    values = std * randn(rows, columns, dtype=np.float64, generator=generator)._a
    for column in range(columns):
        values[randperm(rows, generator=generator)._a[: math.ceil(sparsity * rows)], column] = 0
    return _set(tensor, values)


def default_(weight: Tensor, bias: Any = None) -> None:
    """Fill weight and bias as torch's layers begin: uniform within 1 / sqrt(inputs)."""
    bound = 1.0 / math.sqrt(max(fans(weight)[0], 1))
    uniform_(weight, -bound, bound)
    if bias is not None:
        uniform_(bias, -bound, bound)
