"""Activations: functions of each element of one tensor, and those that pair elements.

Reads and writes tensors; each is a composition of table ops. Previous: parameters.py; next: windows.py.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.capture.tracer import from_value
from tracegrad.nn.parameters import bound, signature_of
from tracegrad.runtime import creating, reducing
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.kinds import refuse_kind
from tracegrad.runtime.operate import in_single, named, pointwise, require_floats, sigmoid_of, softplus_of
from tracegrad.runtime.shaping import axis_of, reshape
from tracegrad.runtime.tape import Plan, apply_composition, planned, retitled
from tracegrad.runtime.tensor import METHODS, Tensor, method, refuse_in, wrap
from tracegrad.runtime.views import write

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu", "relu",
    "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid", "silu", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_",
]  # fmt: skip


def _erf(x: Any) -> Any:
    return from_value(ops.erf(as_tracer(x).value))


def _gelu(approximate: str, x: Any) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))
    if approximate != "none":
        raise RuntimeError("approximate argument must be either none or tanh.")
    return 0.5 * x * (1.0 + _erf(x * math.sqrt(0.5)))


def _softplus(beta: float, threshold: float, x: Any) -> Any:
    scaled = x * beta
    return np.where(scaled > threshold, x, softplus_of(scaled) / beta)


def _negative(x: Any) -> Any:
    """Return elements that are negative or NaN, 0 in place of the others."""
    return np.where(x > 0, x.dtype.type(0), x)


def _elu(alpha: float, scale: float, x: Any) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(_negative(x)))


def _hardtanh(low: float, high: float, x: Any) -> Any:
    return np.where(x <= low, x.dtype.type(low), np.where(x >= high, x.dtype.type(high), x))


def _softshrink(limit: float, x: Any) -> Any:
    if limit < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {limit:g}.")
    return np.where(x > limit, x - limit, np.where(x < -limit, x + limit, x.dtype.type(0)))


def _define(name: str, title: str, function: Callable[..., Any], overload: int = 0, **defaults: Any) -> Any:
    """Make a function of one tensor and of parameters, with `...` for one without a default.

    Where `inplace` is a parameter, there is a function `name_` too, without it.

    Args:
        overload: the number at the end of the node's name in place.
    """
    composition, written = (pointwise(title, in_single(function), number) for number in (0, overload))
    defaults = {"input": ..., **defaults}

    def require(input: Tensor) -> None:
        if title != "Hardtanh":
            require_floats(f"{name}_cpu", input)

    def plan(*args: Any, **keywords: Any) -> Any:
        given = bound(name, defaults, args, keywords)
        input = given.pop("input")
        if given.pop("inplace", False):
            require(input)
            return write(f"{name}_", input, lambda x: apply_composition(written, tuple(given.values()), [x]))
        require(input)
        return Plan(composition, tuple(given.values()), [input])

    plan.__signature__ = signature_of(defaults)  # type: ignore[attr-defined]
    return named(plan, name, f"Return {name} of each element.")


def _in_place(name: str) -> Any:
    """Return the form of an activation that replaces the content of its tensor."""
    function = globals()[name]
    parameters = {
        k: ... if p.default is p.empty else p.default for k, p in inspect.signature(function).parameters.items()
    }
    del parameters["inplace"]

    def apply(*args: Any, **keywords: Any) -> Any:
        return function(**bound(f"{name}_", parameters, args, keywords), inplace=True)

    apply.__name__ = apply.__qualname__ = f"{name}_"
    apply.__signature__ = signature_of(parameters)  # type: ignore[attr-defined]
    apply.__doc__ = f"Replace each element by its {name}."
    return apply


gelu = _define("gelu", "Gelu", _gelu, approximate="none")
softplus = _define("softplus", "Softplus", _softplus, beta=1.0, threshold=20.0)
leaky_relu = _define(
    "leaky_relu", "LeakyRelu", lambda slope, x: np.where(x > 0, x, slope * x), 1, negative_slope=0.01, inplace=False
)
elu = _define("elu", "Elu", lambda alpha, x: _elu(alpha, 1.0, x), 1, alpha=1.0, inplace=False)
celu = _define(
    "celu", "Celu", lambda a, x: np.where(x > 0, x, a * np.expm1(_negative(x) / a)), 1, alpha=1.0, inplace=False
)
selu = _define("selu", "Elu", lambda x: _elu(1.6732632423543772, 1.0507009873554805, x), 1, inplace=False)
silu = _define("silu", "Silu", lambda x: x * sigmoid_of(x), inplace=False)
mish = _define("mish", "Mish", lambda x: x * np.tanh(softplus_of(x)), inplace=False)
hardtanh = _define("hardtanh", "Hardtanh", _hardtanh, min_val=-1.0, max_val=1.0, inplace=False)
relu6 = _define("relu6", "Hardtanh", lambda x: _hardtanh(0, 6, x), inplace=False)
hardsigmoid = _define(
    "hardsigmoid", "Hardsigmoid",
    lambda x: np.where(x <= -3, x.dtype.type(0), np.where(x >= 3, x.dtype.type(1), x / 6 + 0.5)), inplace=False,
)  # fmt: skip
logsigmoid = _define("logsigmoid", "LogSigmoid", lambda x: -softplus_of(-x))
softsign = _define("softsign", "Div", lambda x: x / (1 + np.abs(x)))
hardswish = _define(
    "hardswish", "Hardswish",
    lambda x: np.where(x <= -3, x.dtype.type(0), np.where(x >= 3, x, x * (x + 3) / 6)), inplace=False,
)  # fmt: skip


def _hardshrink(limit: float, x: Any) -> Any:
    refuse_kind("hardshrink", x.dtype)
    return np.where(np.abs(x) <= limit, x.dtype.type(0), x)


hardshrink = _define("hardshrink", "Hardshrink", _hardshrink, lambd=0.5)
method("hardshrink")(hardshrink)
softshrink = _define("softshrink", "Softshrink", _softshrink, lambd=0.5)
tanhshrink = _define("tanhshrink", "Sub", lambda x: x - np.tanh(x))
threshold = _define(
    "threshold", "Threshold", lambda limit, value, x: np.where(x > limit, x, x.dtype.type(value)), 1,
    threshold=..., value=..., inplace=False,
)  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Any:
    """Return max(x, 0); its gradient at 0 is 0."""
    return METHODS["relu_" if inplace else "relu"](input)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Any:
    """Return x where positive, else x times a slope: in training one drawn from [lower, upper) per element."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return retitled(leaky_relu(input, (lower + upper) / 2, inplace), f"RreluWithNoiseBackward{int(inplace)}")
    require_floats("rrelu_with_noise_out_cpu", input)
    slopes = wrap(creating.random_uniform(lower, upper, input._a.shape, np.dtype(np.float64)).astype(input._a.dtype))

    def apply(x: Tensor) -> Any:
        return apply_composition(_RRELU[inplace], (), [x, slopes])

    return write("rrelu_", input, apply) if inplace else apply(input)


_RRELU = [pointwise("RreluWithNoise", lambda x, slopes: np.where(x > 0, x, slopes * x), k) for k in range(2)]
relu_ = _in_place("relu")
leaky_relu_, elu_, celu_, selu_ = (_in_place(name) for name in ("leaky_relu", "elu", "celu", "selu"))
hardtanh_, threshold_, rrelu_ = (_in_place(name) for name in ("hardtanh", "threshold", "rrelu"))


def sigmoid(input: Tensor) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return METHODS["sigmoid"](input)


def tanh(input: Tensor) -> Any:
    """Return the hyperbolic tangent."""
    return METHODS["tanh"](input)


@method("prelu")
def prelu(input: Tensor, weight: Tensor) -> Any:
    """Return x where positive, else weight * x, with a weight per channel."""
    if input._a.dtype != weight._a.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype.title} and {weight.dtype.title}")
    shape = (1, -1) + (1,) * (input._a.ndim - 2) if input._a.ndim > 1 else (-1,)
    return apply_composition(_PRELU, (), [input, reshape(weight, shape if weight.numel() > 1 else (1,))])


_PRELU = pointwise("PreluKernel", in_single(lambda x, weight: np.where(x > 0, x, x * weight)))
_GLU = Composition("Glu", in_single(lambda axis, x: _gated(*np.split(x, 2, axis))))


def _gated(x: Any, gate: Any) -> Any:
    return x * sigmoid_of(gate)


@planned()
def glu(input: Tensor, dim: int = -1) -> Any:
    """Return the first half times the sigmoid of the second."""
    axis = axis_of(dim, input._a.ndim)
    size = input._a.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    return Plan(_GLU, (axis,), [input])


def _axis(name: str, input: Tensor, dim: int | None, stacklevel: int) -> int:
    return reducing.implied_axis(name, input._a.ndim, stacklevel + 1) if dim is None else dim


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Return the logarithm of softmax."""
    return reducing.log_softmax(input, _axis("log_softmax", input, dim, _stacklevel), dtype)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Return exp(x) divided by its sum along an axis."""
    return reducing.softmax(input, _axis("softmax", input, dim, _stacklevel), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Return softmax(-x)."""
    return reducing.softmax(-input, _axis("softmin", input, dim, _stacklevel), dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """Return a sample of classes that is smooth in the logits; `hard` ones are one-hot, with the same gradient.

    Source: Jang et al., 2017.
    """
    noise: Any = METHODS["exponential_"](wrap(np.empty_like(logits._a)))
    smooth: Any = reducing.softmax((logits - noise.log()) / tau, dim)
    if not hard:
        return smooth
    chosen = np.zeros_like(smooth._a)
    np.put_along_axis(chosen, smooth._a.argmax(dim, keepdims=True), 1.0, dim)
    return wrap(chosen) - smooth.detach() + smooth


refuse_in(globals())
