"""Functions of neural networks: activations, losses, layers without state.

Reads and writes tensors; each is a composition of table ops. Previous: losses.py; next: init.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.capture.tracer import from_value
from tracegrad.lazy import lazy_names
from tracegrad.nn import losses, resampling
from tracegrad.runtime import creating, dtypes, reducing
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.operate import (
    broadcast_shape,
    in_single,
    named,
    pointwise,
    require_floats,
    sigmoid_of,
    softplus_of,
    to_tensor,
)
from tracegrad.runtime.reducing import _log_softmax, _stopped, log_softmax, softmax
from tracegrad.runtime.shaping import axis_of, reshape, transpose
from tracegrad.runtime.tape import Plan, apply_composition, apply_plan, planned, shielding
from tracegrad.runtime.tensor import METHODS, Tensor, wrap
from tracegrad.runtime.traced import call_with_traced_values

# ---- activations


def _erf(x: Any) -> Any:
    return from_value(ops.erf(as_tracer(x).value))


def _gelu(approximate: str, x: Any) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1.0 + _erf(x * math.sqrt(0.5)))


def _softplus(beta: float, threshold: float, x: Any) -> Any:
    scaled = x * beta
    return np.where(scaled > threshold, x, softplus_of(np.where(scaled > threshold, 0 * scaled, scaled)) / beta)


def _elu(alpha: float, scale: float, x: Any) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0 * x, x)))


def _define(name: str, title: str, function: Callable[..., Any], *defaults: Any) -> Any:
    """Make a function of one tensor and static parameters."""
    composition = pointwise(title, in_single(function))

    def plan(input: Tensor, *parameters: Any, inplace: bool = False, **options: Any) -> Any:
        if inplace:
            return METHODS["copy_"](input, apply(input, *parameters, **options))
        if title != "Hardtanh":
            require_floats(f"{name}_cpu", input)
        given = (*parameters, *options.values())
        return Plan(composition, (*given, *defaults[len(given) :]), [input])

    apply = named(plan, name, f"Return {name} of each element.")
    return apply


gelu = _define("gelu", "Gelu", _gelu, "none")
softplus = _define("softplus", "Softplus", _softplus, 1.0, 20.0)
leaky_relu = _define("leaky_relu", "LeakyRelu", lambda slope, x: np.where(x > 0, x, slope * x), 0.01)
elu = _define("elu", "Elu", lambda alpha, x: _elu(alpha, 1.0, x), 1.0)
celu = _define("celu", "Celu", lambda a, x: np.where(x > 0, x, a * np.expm1(np.where(x > 0, 0 * x, x) / a)), 1.0)
selu = _define("selu", "Elu", lambda x: _elu(1.6732632423543772, 1.0507009873554805, x))
silu = _define("silu", "Silu", lambda x: x * sigmoid_of(x))
mish = _define("mish", "Mish", lambda x: x * np.tanh(softplus_of(x)))
hardtanh = _define(
    "hardtanh", "Hardtanh", lambda a, b, x: np.where(x <= a, a + 0 * x, np.where(x >= b, b + 0 * x, x)), -1.0, 1.0
)
relu6 = _define("relu6", "Hardtanh", lambda x: np.where(x <= 0, 0 * x, np.where(x >= 6, 6 + 0 * x, x)))
hardsigmoid = _define(
    "hardsigmoid", "Hardsigmoid", lambda x: np.where(x <= -3, 0 * x, np.where(x >= 3, 1 + 0 * x, x / 6 + 0.5))
)
logsigmoid = _define("logsigmoid", "LogSigmoid", lambda x: -softplus_of(-x))
softsign = _define("softsign", "Div", lambda x: x / (1 + np.abs(x)))
hardswish = _define(
    "hardswish",
    "Hardswish",
    lambda x: np.where(x <= -3, 0 * x, np.where(x >= 3, x, x * (x + 3) / 6)),
)
hardshrink = _define("hardshrink", "Hardshrink", lambda limit, x: np.where(np.abs(x) <= limit, 0 * x, x), 0.5)
_softshrink = _define(
    "softshrink",
    "Softshrink",
    lambda limit, x: np.where(x > limit, x - limit, np.where(x < -limit, x + limit, 0 * x)),
    0.5,
)
tanhshrink = _define("tanhshrink", "Sub", lambda x: x - np.tanh(x))
threshold = _define("threshold", "Threshold", lambda limit, value, x: np.where(x > limit, x, value + 0 * x), 0.0, 0.0)
relu_of: Callable[[Tensor], Tensor] = METHODS["relu"]


def softshrink(input: Tensor, lambd: float = 0.5) -> Any:
    """Return elements brought nearer to 0 by lambd, those within it 0."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd:g}.")
    return _softshrink(input, float(lambd))


def relu(input: Tensor, inplace: bool = False) -> Any:
    """Return max(x, 0); its gradient at 0 is 0."""
    return METHODS["relu_"](input) if inplace else relu_of(input)


def sigmoid(input: Tensor) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return METHODS["sigmoid"](input)


def tanh(input: Tensor) -> Any:
    """Return the hyperbolic tangent."""
    return METHODS["tanh"](input)


def prelu(input: Tensor, weight: Tensor) -> Any:
    """Return x where positive, else weight * x, with a weight per channel."""
    shape = (1, -1) + (1,) * (input._a.ndim - 2) if input._a.ndim > 1 else (-1,)
    return METHODS["where"](input, input > 0, input * reshape(weight, shape if weight.numel() > 1 else (1,)))


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


def softmin(input: Tensor, dim: int | None = None) -> Any:
    """Return softmax(-x)."""
    return softmax(-input, dim)


# ---- losses


def _reduce(reduction: str, x: Any) -> Any:
    if reduction == "none":
        return x
    if reduction not in ("mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return np.mean(x) if reduction == "mean" else np.sum(x)


def _difference_loss(name: str, title: str, function: Callable[..., Any], *defaults: Any) -> Any:
    composition = pointwise(title, in_single(lambda reduction, *rest: _reduce(reduction, function(*rest))))

    def plan(input: Tensor, target: Tensor, *parameters: Any, reduction: str = "mean", **options: Any) -> Any:
        given = (*parameters, *options.values())
        if target._a.shape != input._a.shape:
            warnings.warn(
                f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
                "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
                stacklevel=2,
            )
            broadcast_shape(input, target)
        if reduction != "none" or name != "l1_loss":
            require_floats(name, input)
        return Plan(composition, (reduction, *given, *defaults[len(given) :]), [input, target])

    return named(plan, name, f"Return {name}; `reduction` is mean, sum or none.")


def _smooth_l1(beta: float, x: Any, y: Any) -> Any:
    size = np.abs(x - y)
    if beta == 0:
        return size
    return np.where(size < beta, 0.5 * np.square(x - y) / beta, size - 0.5 * beta)


def _huber(delta: float, x: Any, y: Any) -> Any:
    size = np.abs(x - y)
    return np.where(size <= delta, 0.5 * np.square(x - y), delta * (size - 0.5 * delta))


mse_loss = _difference_loss("mse_loss", "MseLoss", lambda x, y: np.square(x - y))
l1_loss = _difference_loss("l1_loss", "L1Loss", lambda x, y: np.abs(x - y))
_smooth = _difference_loss("smooth_l1_loss", "SmoothL1Loss", _smooth_l1, 1.0)
_huber_loss = _difference_loss("huber_loss", "HuberLoss", _huber, 1.0)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Return squared differences below beta and absolute ones above, joined smoothly."""
    return _smooth(input, target, float(beta), reduction=reduction)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Return squared differences below delta and absolute ones above."""
    return _huber_loss(input, target, float(delta), reduction=reduction)


def _bce(reduction: str, weighted: bool, x: Any, y: Any, *weight: Any) -> Any:
    # as in torch, logarithms are bounded from below by -100, and (1 - x) * x in the slope by 1e-12
    bound, low = 1e-12, x.dtype.type(-100.0)
    at_edge = (1 - x) * x < bound
    inside = np.where(at_edge, x.dtype.type(0.5), x)
    log_x = np.where(at_edge, np.maximum(_stopped(np.log(x)), low), np.log(inside))
    log_rest = np.where(at_edge, np.maximum(_stopped(np.log1p(-x)), low), np.log1p(-inside))
    loss = -(y * log_x + (1 - y) * log_rest)
    steep = (0.5 * np.square(x) - (x - _stopped(x)) * y) / bound  # its slope in x is (x - y) / bound
    loss = loss + np.where(at_edge, steep - _stopped(steep), x.dtype.type(0))
    return _reduce(reduction, loss * weight[0] if weighted else loss)


def _bce_with_logits(reduction: str, weighted: bool, balanced: bool, x: Any, y: Any, *weights: Any) -> Any:
    if balanced:
        factor = (weights[-1] - 1) * y + 1
        loss = (1 - y) * x + factor * softplus_of(-x)
    else:
        loss = softplus_of(-x) + (1 - y) * x
    return _reduce(reduction, loss * weights[0] if weighted else loss)


_BCE = pointwise("BinaryCrossEntropy", in_single(_bce))
_BCE_LOGITS = pointwise("BinaryCrossEntropyWithLogits", in_single(_bce_with_logits))


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Any:
    """Return the cross entropy of probabilities and targets in [0, 1]."""
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if input._a.size and not (0 <= input._a.min() and input._a.max() <= 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    return apply_plan(_BCE, (reduction, weight is not None), [input, target, *_present(weight)])


def _present(*tensors: Tensor | None) -> list[Tensor]:
    return [t for t in tensors if t is not None]


@planned()
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Any:
    """Return the cross entropy of sigmoid(input) and targets in [0, 1], without overflow."""
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    static = (reduction, weight is not None, pos_weight is not None)
    return Plan(_BCE_LOGITS, static, [input, target, *_present(weight, pos_weight)])


def _nll(reduction: str, ignored: int, weighted: bool, x: Any, target: Any, *weight: Any) -> Any:
    kept = target != ignored
    safe = np.where(kept, target, 0)
    if x.ndim == 1:
        loss = -x[safe]
    else:
        loss = -np.squeeze(np.take_along_axis(x, np.expand_dims(safe, 1), axis=1), 1)
    share = kept.astype(x.dtype)
    if weighted:
        share = np.where(kept, weight[0][safe], share)
        loss = loss * share
    loss = np.where(kept, loss, x.dtype.type(0))
    if reduction == "mean":
        return np.sum(loss) / np.sum(_stopped(share))
    return _reduce(reduction, loss)


_NLL = Composition("NllLoss", in_single(_nll))


def _check_classes(input: Tensor, target: Tensor, ignored: int) -> None:
    classes = input._a.shape[1] if input._a.ndim > 1 else input._a.shape[0]
    a = target._a
    if a.size and not (a.min() >= 0 and a.max() < classes):
        wrong = a[((a < 0) | (a >= classes)) & (a != ignored)]
        if wrong.size:
            raise IndexError(f"Target {wrong.ravel()[0]} is out of bounds.")


def _check_target_shape(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Check that there is one class number per place.

    Raises:
        ValueError: the batches have different sizes.
        RuntimeError: other sizes differ.
    """
    if len(shape) <= 1:
        if target not in ((), (1,)):
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        return
    if not target or target[0] != shape[0]:
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({target[0] if target else 0})."
        )
    if len(shape) == 2 and len(target) != 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target != (shape[0], *shape[2:]):
        raise RuntimeError(f"Expected target size {[shape[0], *shape[2:]]}, got {list(target)}")


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """Return minus the log probability of the target classes."""
    _check_target_shape(input._a.shape, target._a.shape)
    if target._a.dtype not in (np.int64, np.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype.title}")
    if weight is not None and weight._a.shape != input._a.shape[1 if input._a.ndim > 1 else 0 :][:1]:
        raise RuntimeError(
            "weight tensor should be defined either for all "
            f"{input._a.shape[1 if input._a.ndim > 1 else 0]} classes or no classes but got weight tensor of shape: "
            f"{list(weight._a.shape)}"
        )
    _check_classes(input, target, ignore_index)
    chosen = target if target._a.dtype == np.int64 else wrap(target._a.astype(np.int64))
    return apply_composition(_NLL, (reduction, ignore_index, weight is not None), [input, chosen, *_present(weight)])


def _soft_cross_entropy(reduction: str, smoothing: float, weighted: bool, x: Any, target: Any, *weight: Any) -> Any:
    axis = 1 if x.ndim > 1 else 0
    classes = x.shape[axis]
    logs = _log_softmax(axis, x)
    target = target * (1 - smoothing) + smoothing / classes
    if weighted:
        shape = tuple(-1 if k == axis else 1 for k in range(x.ndim))
        logs = logs * weight[0].reshape(shape)
    loss = -np.sum(target * logs, axis=axis)
    if reduction == "mean":
        count = 1
        for k, n in enumerate(x.shape):
            count *= 1 if k == axis else n
        return np.sum(loss) / count
    return _reduce(reduction, loss)


_SOFT_CROSS_ENTROPY = Composition("CrossEntropy", _soft_cross_entropy)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Return the cross entropy of softmax(input) and class numbers or probabilities; axis 1 has the classes."""
    if target._a.shape == input._a.shape and dtypes.category(target._a.dtype) == 2:
        static = (reduction, label_smoothing, weight is not None)
        return apply_composition(_SOFT_CROSS_ENTROPY, static, [input, target, *_present(weight)])
    axis = 1 if input._a.ndim > 1 else 0
    logs = log_softmax(input, axis)
    loss = nll_loss(logs, target, weight, ignore_index, reduction)
    if label_smoothing == 0.0:
        return loss
    kept = np.asarray(target._a != ignore_index)
    mask = wrap(kept.astype(input._a.dtype))
    weights = wrap(np.ones(input._a.shape[axis], input._a.dtype)) if weight is None else weight
    shape = tuple(-1 if k == axis else 1 for k in range(input._a.ndim))
    smooth = -(logs * reshape(weights, shape)).sum(axis) * mask
    if reduction == "mean":
        total = weights._a[np.where(kept, target._a, 0)] * kept
        smooth = smooth.sum() / to_tensor(float(total.sum()), input._a.dtype)
    elif reduction == "sum":
        smooth = smooth.sum()
    classes = input._a.shape[axis]
    return (1 - label_smoothing) * loss + smooth * (label_smoothing / classes)


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Any:
    """Return the Kullback-Leibler divergence; the input has log probabilities."""
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release.",
            UserWarning,
            stacklevel=2,
        )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = METHODS["xlogy"](target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0]
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Any:
    """Return x where the target is 1, and max(0, margin - x) where it is -1."""
    loss = METHODS["where"](input, target == 1, (margin - input).clamp(min=0))
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# ---- layers

_LINEAR = Composition("Addmm", lambda x, w, b: x @ w.T + b)
_LINEAR_PLAIN = Composition("Mm", lambda x, w: x @ w.T)


@planned()
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Return input @ weight.T + bias."""
    if input._a.shape[-1] != weight._a.shape[-1]:
        rows = int(np.prod(input._a.shape[:-1], dtype=np.int64))
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{input._a.shape[-1]} and "
            f"{weight._a.shape[-1]}x{weight._a.shape[0]})"
        )
    if input._a.dtype != weight._a.dtype:
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {input.dtype!r} and {weight.dtype!r}")
    if bias is None:
        return Plan(_LINEAR_PLAIN, (), [input, weight])
    return Plan(_LINEAR, (), [input, weight, bias])


_DROPOUT = pointwise("Dropout", in_single(lambda scale, x, mask: np.where(mask, x * scale, 0 * x)))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Return the tensor with elements set to 0 with probability p, the others scaled by 1 / (1 - p)."""
    return _dropped(input, p, training, inplace, input._a.shape)


def _dropped(input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]) -> Any:
    """Return the tensor with what belongs to one element of `shape` dropped together."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    kept = creating.random_uniform(0.0, 1.0, shape, np.dtype(np.float64)) >= p
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    made = apply_composition(_DROPOUT, (scale,), [input, wrap(np.broadcast_to(kept, input._a.shape))])
    return METHODS["copy_"](input, made) if inplace else made


def _channel_dropout(name: str, ndim: int) -> Callable[..., Any]:
    def apply(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        rank = input._a.ndim
        if rank not in (ndim + 1, ndim + 2):
            raise RuntimeError(f"{name}: Expected {ndim + 1}D or {ndim + 2}D input, but received a {rank}D input.")
        return _dropped(input, p, training, inplace, input._a.shape[: rank - ndim] + (1,) * ndim)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = "Return the tensor with whole channels set to 0 with probability p, the others scaled."
    return apply


dropout1d, dropout2d = _channel_dropout("dropout1d", 1), _channel_dropout("dropout2d", 2)


def _normalized(axes: Sequence[int], eps: float, x: Any) -> Any:
    centred = x - np.mean(x, axis=tuple(axes), keepdims=True)
    return centred / np.sqrt(np.mean(np.square(centred), axis=tuple(axes), keepdims=True) + eps)


def _layer_norm(count: int, eps: float, scaled: bool, shifted: bool, x: Any, *rest: Any) -> Any:
    made = _normalized(range(x.ndim - count, x.ndim), eps, x)
    if scaled:
        made = made * rest[0]
    return made + rest[-1] if shifted else made


_LAYER_NORM = Composition("NativeLayerNorm", in_single(_layer_norm))


@planned()
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """Return the tensor with mean 0 and variance 1 over the last axes, scaled and shifted."""
    require_floats("LayerNormKernelImpl", input)
    shape = tuple(normalized_shape)
    if tuple(input._a.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {str(list(shape))[1:-1]}], but got "
            f"input of size{list(input._a.shape)}"
        )
    static = (len(shape), eps, weight is not None, bias is not None)
    return Plan(_LAYER_NORM, static, [input, *_present(weight, bias)])


def _group_norm(groups: int, eps: float, scaled: bool, shifted: bool, x: Any, *rest: Any) -> Any:
    grouped = x.reshape((x.shape[0], groups, -1))
    made = _normalized((2,), eps, grouped).reshape(x.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if scaled:
        made = made * rest[0].reshape(shape)
    return made + rest[-1].reshape(shape) if shifted else made


_GROUP_NORM = Composition("NativeGroupNorm", in_single(_group_norm))


def _check_batch_size(count: int, shown: Sequence[int]) -> None:
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shown!r}")


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Any:
    """Return the tensor with mean 0 and variance 1 per group of channels."""
    if input._a.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input._a.ndim}")
    batch, channels, *places = input._a.shape
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input._a.shape)} and num_groups={num_groups}"
        )
    _check_batch_size(
        batch * channels // num_groups * math.prod(places), [batch * channels // num_groups, num_groups, *places]
    )
    static = (num_groups, eps, weight is not None, bias is not None)
    return apply_composition(_GROUP_NORM, static, [input, *_present(weight, bias)])


def _batch_norm(eps: float, scaled: bool, shifted: bool, known: bool, x: Any, *rest: Any) -> Any:
    axes = tuple(k for k in range(x.ndim) if k != 1)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if known:
        made = (x - rest[0].reshape(shape)) / np.sqrt(rest[1].reshape(shape) + eps)
        rest = rest[2:]
    else:
        made = _normalized(axes, eps, x)
    if scaled:
        made = made * rest[0].reshape(shape)
    return made + rest[-1].reshape(shape) if shifted else made


_BATCH_NORM = Composition("NativeBatchNorm", in_single(_batch_norm))


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Return the tensor with mean 0 and variance 1 per channel; running statistics are updated in training."""
    known = not training
    if training:
        _check_batch_size(input._a.size // input._a.shape[1], input.shape)
    if training and running_mean is not None and running_var is not None:
        axes = tuple(k for k in range(input._a.ndim) if k != 1)
        count = input._a.size // input._a.shape[1]
        values = _wide(input._a)
        with no_grad():
            _move(running_mean, values.mean(axes), momentum)
            _move(running_var, values.var(axes) * count / (count - 1), momentum)
    static = (eps, weight is not None, bias is not None, known)
    statistics = _present(running_mean, running_var) if known else []
    return apply_composition(_BATCH_NORM, static, [input, *statistics, *_present(weight, bias)])


def _wide(array: Any) -> Any:
    """Return half and bfloat16 as float32."""
    return array.astype(np.promote_types(array.dtype, np.float32), copy=False)


def _move(running: Tensor, found: Any, momentum: float) -> None:
    """Bring a running statistic closer to what was found."""
    running.copy_(wrap((1 - momentum) * _wide(running._a) + momentum * found))


# ---- windows


def _pair(value: Any, count: int) -> tuple[int, ...]:
    return (int(value),) * count if isinstance(value, int) else tuple(int(v) for v in value)


def _windows(
    x: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[list[Any], tuple[int, ...]]:
    """Return x at each place of the kernel, for all positions of it, over the last axes."""
    lead = x.ndim - len(kernel)
    sizes = tuple(
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[lead:], kernel, stride, dilation, strict=True)
    )
    places = []
    for place in np.ndindex(*kernel):
        key = (slice(None),) * lead + tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s) for p, n, s, d in zip(place, sizes, stride, dilation, strict=True)
        )
        places.append(x[key])
    return places, sizes


def _convolution(
    stride: Any, padding: Any, dilation: Any, groups: int, biased: bool, x: Any, weight: Any, *bias: Any
) -> Any:
    kernel = weight.shape[2:]
    if any(a or b for a, b in padding):
        x = np.pad(x, ((0, 0), (0, 0), *padding))
    places, sizes = _windows(x, kernel, stride, dilation)
    patches = np.stack(places, axis=2)  # batch, channels, places, positions
    batch, channels = x.shape[0], x.shape[1]
    count = 1
    for n in sizes:
        count *= n
    each = channels // groups
    results = []
    for g in range(groups):
        rows = weight.shape[0] // groups
        part = patches[:, g * each : (g + 1) * each].reshape((batch, each * len(places), count))
        matrix = weight[g * rows : (g + 1) * rows].reshape((rows, each * len(places)))
        results.append(np.matmul(matrix, part))
    made = (results[0] if groups == 1 else np.concatenate(results, axis=1)).reshape((batch, weight.shape[0], *sizes))
    return made + bias[0].reshape((1, -1) + (1,) * len(sizes)) if biased else made


_CONVOLUTION = Composition("Convolution", _convolution)


def _convolve(
    ndim: int, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    single = input._a.ndim == ndim + 1
    if single:
        input = reshape(input, (1, *input._a.shape))
    if input._a.ndim != ndim + 2:
        raise RuntimeError(
            f"Expected {ndim + 1}D (unbatched) or {ndim + 2}D (batched) input to conv{ndim}d, but got input of size: "
            f"{list(input._a.shape)}"
        )
    if input._a.shape[1] != weight._a.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight._a.shape)}, expected input{list(input._a.shape)} to "
            f"have {weight._a.shape[1] * groups} channels, but got {input._a.shape[1]} channels instead"
        )
    steps, spread = _pair(stride, ndim), _pair(dilation, ndim)
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(spread, weight._a.shape[2:], strict=True)]
        pads = tuple((t // 2, t - t // 2) for t in totals)
    elif padding == "valid":
        pads = ((0, 0),) * ndim
    else:
        pads = tuple((p, p) for p in _pair(padding, ndim))
    for what, given in (("stride", steps), ("dilation", spread)):
        if len(given) != ndim:
            raise RuntimeError(
                f"expected {what} to be a single integer value or a list of {ndim} values to match the convolution "
                f"dimensions, but got {what}={list(given)}"
            )
    if bias is not None and bias._a.shape != weight._a.shape[:1]:
        raise RuntimeError(
            f"Given weight of size {list(weight._a.shape)}, expected bias to be 1-dimensional with "
            f"{weight._a.shape[0]} elements, but got bias of size {list(bias._a.shape)} instead"
        )
    padded = [n + a + b for n, (a, b) in zip(input._a.shape[2:], pads, strict=True)]
    reach = [d * (k - 1) + 1 for d, k in zip(spread, weight._a.shape[2:], strict=True)]
    if any(n < m for n, m in zip(padded, reach, strict=True)):
        shown = (" x ".join(map(str, sizes)) for sizes in (padded, reach))
        raise RuntimeError(
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than "
            "actual input size".format(*shown)
        )
    static = (steps, pads, spread, groups, bias is not None)
    made = apply_composition(_CONVOLUTION, static, [input, weight, *_present(bias)])
    return reshape(made, made._a.shape[1:]) if single else made


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution (without flip) of [batch, channels, length] with [out, channels / groups, kernel]."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution (without flip) of [batch, channels, h, w] with [out, channels / groups, kh, kw]."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


def _convolution_transposed(
    stride: Any, padding: Any, more: Any, dilation: Any, groups: int, biased: bool, x: Any, weight: Any, *bias: Any
) -> Any:
    kernel, each = weight.shape[2:], weight.shape[1]
    batch, sizes = x.shape[0], x.shape[2:]
    full = tuple(
        (n - 1) * s + d * (k - 1) + 1 + m for n, k, s, d, m in zip(sizes, kernel, stride, dilation, more, strict=True)
    )
    made = as_tracer(np.zeros((batch, groups * each, *full), x.dtype)).copy()
    rows = x.shape[1] // groups
    count = 1
    for n in sizes:
        count *= n
    for g in range(groups):
        part = x[:, g * rows : (g + 1) * rows].reshape((batch, rows, count))
        for place in np.ndindex(*kernel):
            matrix = weight[(slice(g * rows, (g + 1) * rows), slice(None), *place)]
            key = tuple(
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, n, s, d in zip(place, sizes, stride, dilation, strict=True)
            )
            spread = np.matmul(matrix.T, part).reshape((batch, each, *sizes))
            made[(slice(None), slice(g * each, (g + 1) * each), *key)] += spread
    cut = tuple(slice(p, n - p) for p, n in zip(padding, full, strict=True))
    made = made[(slice(None), slice(None), *cut)]
    return made + bias[0].reshape((1, -1) + (1,) * len(sizes)) if biased else made


_CONVOLUTION_TRANSPOSED = Composition("Convolution", _convolution_transposed)


def _convolve_transposed(
    ndim: int, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any,
) -> Any:  # fmt: skip
    single = input._a.ndim == ndim + 1
    if single:
        input = reshape(input, (1, *input._a.shape))
    if input._a.ndim != ndim + 2:
        raise RuntimeError(
            f"Expected {ndim + 1}D (unbatched) or {ndim + 2}D (batched) input to conv_transpose{ndim}d, but got input "
            f"of size: {list(input._a.shape)}"
        )
    if input._a.shape[1] != weight._a.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight._a.shape)}, expected input{list(input._a.shape)} to have "
            f"{weight._a.shape[0]} channels, but got {input._a.shape[1]} channels instead"
        )
    steps, spread, more = _pair(stride, ndim), _pair(dilation, ndim), _pair(output_padding, ndim)
    if any(m >= max(s, d) for m, s, d in zip(more, steps, spread, strict=True)):
        raise RuntimeError("output padding must be smaller than either stride or dilation")
    static = (steps, _pair(padding, ndim), more, spread, groups, bias is not None)
    made = apply_composition(_CONVOLUTION_TRANSPOSED, static, [input, weight, *_present(bias)])
    return reshape(made, made._a.shape[1:]) if single else made


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return what the transpose of conv1d gives; weight [in, out / groups, kernel]."""
    return _convolve_transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return what the transpose of conv2d gives; weight [in, out / groups, kh, kw]."""
    return _convolve_transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _max_pool(kernel: Any, stride: Any, padding: Any, dilation: Any, x: Any) -> Any:
    lead = x.ndim - len(kernel)
    if any(padding):
        floor = np.full(x.shape, -np.inf, x.dtype)
        pads = ((0, 0),) * lead + tuple((p, p) for p in padding)
        inside = np.pad(np.ones(x.shape, x.dtype), pads) > 0
        x = np.where(inside, np.pad(x, pads), floor.dtype.type(-np.inf))
    (best, *places), _ = _windows(x, kernel, stride, dilation)
    for place in places:  # the first of equal ones gets the gradient; NaN wins
        best = np.where((place > best) | np.isnan(place), place, best)
    return best


def _avg_pool(kernel: Any, stride: Any, padding: Any, count_pad: bool, x: Any) -> Any:
    lead = x.ndim - len(kernel)
    ones = (1,) * len(kernel)
    pads = ((0, 0),) * lead + tuple((p, p) for p in padding)
    size = 1
    for k in kernel:
        size *= k
    if any(padding):
        weight = np.ones(x.shape, x.dtype)
        x = np.pad(x, pads)
        if not count_pad:
            shares, _ = _windows(np.pad(weight, pads), kernel, stride, ones)
            places, _ = _windows(x, kernel, stride, ones)
            return np.sum(np.stack(places, axis=0), axis=0) / np.sum(np.stack(shares, axis=0), axis=0)
    places, _ = _windows(x, kernel, stride, ones)
    return np.sum(np.stack(places, axis=0), axis=0) / size


_MAX_POOLS = {1: Composition("MaxPool1D", _max_pool), 2: Composition("MaxPool2DWithIndices", _max_pool)}
_AVG_POOLS = {1: Composition("AvgPool1D", in_single(_avg_pool)), 2: Composition("AvgPool2D", in_single(_avg_pool))}


def _pool_options(
    input: Tensor, ndim: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1
) -> tuple[Any, Any, Any]:
    """Return kernel, stride and padding per axis.

    Raises:
        RuntimeError: the input has another rank than it should, or no window fits.
    """
    kernel, spread = _pair(kernel_size, ndim), _pair(dilation, ndim)
    steps, pads = kernel if stride in (None, ()) else _pair(stride, ndim), _pair(padding, ndim)
    shape = input._a.shape
    if len(shape) not in (ndim + 1, ndim + 2):
        raise RuntimeError(f"non-empty {ndim + 1}D or {ndim + 2}D (batch mode) tensor expected for input")
    sizes = []
    for n, k, step, pad, gap in zip(shape[-ndim:], kernel, steps, pads, spread, strict=True):
        if pad > (gap * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={k} and "
                f"dilation={gap}"
            )
        sizes.append((n + 2 * pad - gap * (k - 1) - 1) // step + 1)
    if any(n < 1 for n in sizes):
        given, made = ("x".join(map(str, (shape[-ndim - 1], *s))) for s in (shape[-ndim:], sizes))
        raise RuntimeError(f"Given input size: ({given}). Calculated output size: ({made}). Output size is too small")
    return kernel, steps, pads


def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Any:
    """Return the greatest element of each window; of ties the first one gets the gradient."""
    kernel, steps, pads = _pool_options(input, 2, kernel_size, stride, padding, dilation)
    return apply_composition(_MAX_POOLS[2], (kernel, steps, pads, _pair(dilation, 2)), [input])


def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Any:
    """Return the greatest element of each window."""
    kernel, steps, pads = _pool_options(input, 1, kernel_size, stride, padding, dilation)
    return apply_composition(_MAX_POOLS[1], (kernel, steps, pads, _pair(dilation, 1)), [input])


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of each window."""
    if ceil_mode:
        raise NotImplementedError("avg_pool2d: ceil_mode is not there")
    return apply_composition(
        _AVG_POOLS[2], (*_pool_options(input, 2, kernel_size, stride, padding), count_include_pad), [input]
    )


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of each window."""
    if ceil_mode:
        raise NotImplementedError("avg_pool2d: ceil_mode is not there")
    return apply_composition(
        _AVG_POOLS[1], (*_pool_options(input, 1, kernel_size, stride, padding), count_include_pad), [input]
    )


_EMBEDDING = Composition("Embedding", lambda weight, index: weight[index])


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0,
) -> Any:  # fmt: skip
    """Return rows of the weight; the row padding_idx gets no gradient.

    With `max_norm`, the rows that are looked up are first made shorter in place where their norm is greater.
    """
    a = input._a
    if a.size and not (a.min() >= 0 and a.max() < weight._a.shape[0]):
        raise IndexError("index out of range in self")
    if max_norm is not None:
        _shorten(weight, np.unique(a), max_norm, norm_type)
    rows = apply_composition(_EMBEDDING, (), [weight, wrap(a.astype(np.int64))])
    if padding_idx is None:
        return rows
    padded = wrap(np.broadcast_to((a == padding_idx % weight._a.shape[0])[..., None], rows._a.shape))
    return METHODS["where"](rows.detach(), padded, rows)


def _shorten(weight: Tensor, places: Any, most: float, order: float) -> None:
    with no_grad():
        rows = weight._a[places]
        norms = np.linalg.norm(rows, order, axis=1, keepdims=True)
        METHODS["index_copy_"](
            weight, 0, wrap(places.astype(np.int64)),
            wrap(np.where(norms > most, rows * (most / (norms + 1e-7)), rows).astype(rows.dtype)),
        )  # fmt: skip


def one_hot(tensor: Tensor, num_classes: int = -1) -> Any:
    """Return 1 at the place of each class number, else 0."""
    a = tensor._a
    if a.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not a.size and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if a.size and a.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if a.size and num_classes != -1 and a.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    count = int(a.max()) + 1 if num_classes == -1 else num_classes
    return wrap((tensor._a[..., None] == np.arange(count)).astype(np.int64, order="C"))


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Return vectors divided by their norm."""
    return input / reducing.vector_norm(input, p, dim, True).clamp_min(eps)


_PAD = Composition("ConstantPadNd", lambda pads, value, x: np.pad(x, pads, constant_values=value))


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Add elements at the ends of axes, given from the last axis on: (left, right, top, bottom, ...)."""
    if mode != "constant":
        return resampling.padded_by(input, pad, mode)
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)][::-1]
    full = [(0, 0)] * (input._a.ndim - len(pairs)) + pairs
    for axis, (low, high) in enumerate(full):
        size = input._a.shape[axis]
        if low < 0 or high < 0:
            input = METHODS["narrow"](input, axis, max(-low, 0), size - max(-low, 0) - max(-high, 0))
    made = tuple((max(low, 0), max(high, 0)) for low, high in full)
    return apply_composition(_PAD, (made, 0.0 if value is None else value), [input])


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """Return norms of differences of vectors."""
    difference: Any = x1 - x2
    return reducing.vector_norm(difference + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Any:
    """Return the distances of all pairs of rows, in order; the gradient of distance 0 is 0."""
    first, second = (wrap(k.astype(np.int64)) for k in np.triu_indices(input._a.shape[0], 1))
    return reducing.vector_norm(input[first] - input[second], p, -1)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Return input1 @ weight[k] @ input2 for each k."""
    made = reducing.einsum("...i,kij,...j->...k", input1, weight, input2)
    return made if bias is None else made + bias


cosine_similarity = reducing.cosine_similarity
adaptive_avg_pool1d = resampling.adaptive_avg_pool1d
adaptive_avg_pool2d = resampling.adaptive_avg_pool2d
interpolate = resampling.interpolate
pixel_shuffle = resampling.pixel_shuffle
cosine_embedding_loss = losses.cosine_embedding_loss
gaussian_nll_loss = losses.gaussian_nll_loss
margin_ranking_loss = losses.margin_ranking_loss
multilabel_soft_margin_loss = losses.multilabel_soft_margin_loss
poisson_nll_loss = losses.poisson_nll_loss
soft_margin_loss = losses.soft_margin_loss
triplet_margin_loss = losses.triplet_margin_loss
triplet_margin_with_distance_loss = losses.triplet_margin_with_distance_loss


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None,
) -> Any:  # fmt: skip
    """Return softmax(query @ key.T * scale) @ value."""
    factor = 1.0 / math.sqrt(query._a.shape[-1]) if scale is None else scale
    scores = shielding(1)(reducing.matmul)(query * factor, transpose(key, -2, -1))
    if is_causal:
        rows, columns = scores._a.shape[-2:]
        scores = scores.masked_fill(wrap(~np.tri(rows, columns, dtype=np.bool_)), -math.inf)
    if attn_mask is not None:
        hidden = attn_mask._a.dtype == np.bool_
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf) if hidden else scores + attn_mask
    return reducing.matmul(dropout(softmax(scores, -1), dropout_p), value)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Any:
    """Return the tensor divided by its root mean square over the last axes."""
    shape = tuple(normalized_shape)
    if input._a.shape[input._a.ndim - len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but "
            f"got input of size{list(input._a.shape)}"
        )
    least = float(np.finfo(input._a.dtype).eps) if eps is None else eps
    return apply_composition(_RMS_NORM, (len(shape), least), [input, *_present(weight)])


def _rms_norm(count: int, eps: float, x: Any, *weight: Any) -> Any:
    axes = tuple(range(x.ndim - count, x.ndim))
    made = x / np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True) + eps)
    return made * weight[0] if weight else made


_RMS_NORM = Composition("FusedRmsNorm", in_single(_rms_norm))


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Return the tensor with mean 0 and variance 1 per channel of each element of the batch."""
    batch, channels, *places = input._a.shape
    if use_input_stats and math.prod(places) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape!r}")
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None and running_var is not None:
        axes = tuple(range(2, input._a.ndim))
        values = _wide(input._a)
        with no_grad():
            _move(running_mean, values.mean(axes).mean(0), momentum)
            _move(running_var, values.var(axes, ddof=1).mean(0), momentum)
    made = batch_norm(reshape(input, (1, batch * channels, *places)), None, None, None, None, True, momentum, eps)
    made = reshape(made, input._a.shape)
    shape = (-1,) + (1,) * len(places)
    if weight is not None:
        made = made * reshape(weight, shape)
    return made if bias is None else made + reshape(bias, shape)


call_with_traced_values(f for f in tuple(vars().values()) if getattr(f, "__module__", "") == __name__)
__getattr__ = lazy_names(__name__, {}, globals(), "docs/eager.md says what there is of torch's names")
