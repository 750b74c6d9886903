"""Functions of neural networks: losses, and layers without state; activations are in activations.py.

Reads and writes tensors; each is a composition of table ops. Previous: losses.py; next: init.py.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.capture.tracer import Tracer
from tracegrad.lazy import lazy_names
from tracegrad.nn import activations, losses, resampling, windows
from tracegrad.nn.activations import *  # noqa: F403
from tracegrad.nn.losses import reduce_array
from tracegrad.nn.parameters import bound, reduction_of, require_reduction, signature_of
from tracegrad.nn.windows import *  # noqa: F403
from tracegrad.runtime import creating, dtypes, reducing
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.operate import (
    _cast,
    broadcast_shape,
    in_single,
    named,
    pointwise,
    require_floats,
    require_one_dtype,
    softplus_of,
    to_tensor,
)
from tracegrad.runtime.reducing import _log_softmax, _stopped, product_of, require_same_dtype
from tracegrad.runtime.shaping import cat, reshape, transpose
from tracegrad.runtime.tape import Plan, apply_composition, apply_plan, as_torch_calls, planned, retitled, shielding
from tracegrad.runtime.tensor import METHODS, Tensor, refuse_in, wrap
from tracegrad.runtime.traced import call_with_traced_values
from tracegrad.runtime.views import write

# ---- losses


def _found(wrong: Tensor, input: Tensor) -> RuntimeError:
    """Return torch's error for a loss of other numbers than those of the input."""
    return RuntimeError(f"Found dtype {wrong.dtype.title} but expected {input.dtype.title}")


def _difference_loss(name: str, title: str, function: Callable[..., Any], **defaults: Any) -> Any:
    """Make a loss of differences, with parameters of its own and what torch says of how it is reduced."""
    inside = in_single(functools.partial(_of_differences, function, name == "huber_loss"))
    apply = functools.partial(_brought_to_dtype, inside)
    compositions = {
        (reduction, weighted): pointwise(title, apply, title=_title_of_loss(title, reduction, weighted))
        for reduction in ("mean", "sum", "none")
        for weighted in (False, True)
    }
    defaults = {"input": ..., "target": ..., **defaults}

    def plan(*args: Any, **keywords: Any) -> Any:
        given = bound(name, defaults, args, keywords)
        input, target, weight = given.pop("input"), given.pop("target"), given.pop("weight", None)
        reduction = reduction_of(given.pop("size_average", None), given.pop("reduce", None), given.pop("reduction"))
        if target._a.shape != input._a.shape:
            warnings.warn(
                f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
                "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
                stacklevel=2,
            )
            broadcast_shape(input, target)
        if weight is not None and weight._a.shape != input._a.shape:
            raise ValueError("Weights and input must have the same size.")
        dtype = dtypes.result_type([input._a, target._a], [])
        if dtypes.category(dtype) < 2 and (reduction != "none" or name != "l1_loss"):
            require_floats(name, input)
        if name == "huber_loss" and target._a.dtype != input._a.dtype:
            raise _found(target, input)
        require_reduction(reduction)
        static = (dtype, reduction, weight is not None, *map(float, given.values()))
        return Plan(compositions[reduction, weight is not None], static, [input, target, *_present(weight)])

    plan.__signature__ = signature_of(defaults)  # type: ignore[attr-defined]
    return named(plan, name, f"Return {name}; `reduction` is mean, sum or none.")


def _title_of_loss(name: str, reduction: str, weighted: bool) -> str:
    """Return the name of the node, which is that of torch's last step where it has several."""
    if not weighted and name != "L1Loss":
        return f"{name}Backward0"
    last = "Mean" if not weighted or name == "HuberLoss" else "Div"
    steps = {"mean": last, "sum": "Sum", "none": "Mul" if weighted else "Abs"}
    return f"{steps[reduction]}Backward0"


def _brought_to_dtype(function: Callable[..., Any], dtype: Any, *given: Any) -> Any:
    return function(*[_cast(x, dtype) if isinstance(x, Tracer) else x for x in given])


def _of_differences(function: Any, over_places: bool, reduction: str, weighted: bool, *rest: Any) -> Any:
    """Return a loss reduced; with weights, the mean is over their sum, or `over_places`."""
    if not weighted:
        return reduce_array(reduction, function(*rest))
    loss = function(*rest[:-1]) * rest[-1]
    return np.sum(loss) / np.sum(rest[-1]) if reduction == "mean" and not over_places else reduce_array(reduction, loss)


def _smooth_l1(beta: float, x: Any, y: Any) -> Any:
    size = np.abs(x - y)
    if beta == 0:
        return size
    return np.where(size < beta, 0.5 * np.square(x - y) / beta, size - 0.5 * beta)


def _huber(delta: float, x: Any, y: Any) -> Any:
    size = np.abs(x - y)
    return np.where(size <= delta, 0.5 * np.square(x - y), delta * (size - 0.5 * delta))


_ONCE = dict(size_average=None, reduce=None, reduction="mean")
mse_loss = _difference_loss("mse_loss", "MseLoss", lambda x, y: np.square(x - y), **_ONCE, weight=None)
l1_loss = _difference_loss("l1_loss", "L1Loss", lambda x, y: np.abs(x - y), **_ONCE, weight=None)
smooth_l1_loss = _difference_loss("smooth_l1_loss", "SmoothL1Loss", _smooth_l1, **_ONCE, beta=1.0)
huber_loss = _difference_loss("huber_loss", "HuberLoss", _huber, reduction="mean", delta=1.0, weight=None)


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
    return reduce_array(reduction, loss * weight[0] if weighted else loss)


def _bce_with_logits(reduction: str, weighted: bool, balanced: bool, x: Any, y: Any, *weights: Any) -> Any:
    if balanced:
        factor = (weights[-1] - 1) * y + 1
        loss = (1 - y) * x + factor * softplus_of(-x)
    else:
        loss = softplus_of(-x) + (1 - y) * x
    return reduce_array(reduction, loss * weights[0] if weighted else loss)


_BCE = pointwise("BinaryCrossEntropy", in_single(_bce))
_BCE_LOGITS = pointwise("BinaryCrossEntropyWithLogits", in_single(_bce_with_logits))


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return the cross entropy of probabilities and targets in [0, 1]."""
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if input._a.size and not (0 <= input._a.min() and input._a.max() <= 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    if target._a.dtype != input._a.dtype:
        raise _found(target, input)
    reduction = reduction_of(size_average, reduce, reduction)
    return apply_plan(_BCE, (reduction, weight is not None), [input, target, *_present(weight)])


def _present(*tensors: Tensor | None) -> list[Tensor]:
    return [t for t in tensors if t is not None]


@planned()
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Any:
    """Return the cross entropy of sigmoid(input) and targets in [0, 1], without overflow."""
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if dtypes.category(target._a.dtype) < 2:
        raise dtypes.narrowing_error(input._a.dtype, target._a.dtype)
    reduction = reduction_of(size_average, reduce, reduction)
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
    return reduce_array(reduction, loss)


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
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return minus the log probability of the target classes."""
    reduction = reduction_of(size_average, reduce, reduction)
    _check_target_shape(input._a.shape, target._a.shape)
    if target._a.dtype not in (np.int64, np.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype.title}")
    if weight is not None and weight._a.shape != input._a.shape[1 if input._a.ndim > 1 else 0 :][:1]:
        raise RuntimeError(
            "weight tensor should be defined either for all "
            f"{input._a.shape[1 if input._a.ndim > 1 else 0]} classes or no classes but got weight tensor of shape: "
            f"{list(weight._a.shape)}"
        )
    if weight is not None:
        require_one_dtype(input, weight)
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
    return reduce_array(reduction, loss)


_SOFT_CROSS_ENTROPY = {
    reduction: Composition("CrossEntropy", _soft_cross_entropy, title=title)
    for reduction, title in (("mean", "DivBackward1"), ("sum", "NegBackward0"), ("none", "NegBackward0"))
}


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Return the cross entropy of softmax(input) and class numbers or probabilities; axis 1 has the classes."""
    reduction = reduction_of(size_average, reduce, reduction)
    if target._a.shape == input._a.shape and dtypes.category(target._a.dtype) == 2:
        static = (reduction, label_smoothing, weight is not None)
        require_reduction(reduction)
        return apply_composition(_SOFT_CROSS_ENTROPY[reduction], static, [input, target, *_present(weight)])
    axis = 1 if input._a.ndim > 1 else 0
    logs = reducing.log_softmax(input, axis)
    loss = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
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


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Any:  # fmt: skip
    """Return the Kullback-Leibler divergence; the input has log probabilities."""
    reduction = reduction_of(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release.",
            UserWarning,
            stacklevel=2,
        )
    if dtypes.category(target._a.dtype) < 2 or dtypes.category(input._a.dtype) < 2:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = METHODS["xlogy"](target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0]
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Return x where the target is 1, and max(0, margin - x) where it is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    loss = METHODS["where"](input, target == 1, (margin - input).clamp(min=0))
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# ---- layers


def _linear(*operands: Any) -> Any:
    *bias, x, weight = operands  # the order in which torch hands the gradients on
    return product_of(x, weight.T) + bias[0] if bias else product_of(x, weight.T)


#: names of nodes by the number of axes (3: or more), and whether there is a bias
_LINEAR_TITLES = {
    (1, True): "ViewBackward0", (1, False): "SqueezeBackward4", (2, True): "AddmmBackward0", (2, False): "MmBackward0",
    (3, True): "ViewBackward0", (3, False): "UnsafeViewBackward0",
}  # fmt: skip
_LINEAR = {
    form: Composition("Linear", in_single(_linear) if form[1] else _linear, title=title)
    for form, title in _LINEAR_TITLES.items()
}


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
        if bias is None:
            require_same_dtype(input, weight)
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {input.dtype.title} and {weight.dtype.title}"
        )
    rank = min(input._a.ndim, 3)
    if bias is None:
        return Plan(_LINEAR[rank, False], (), [input, weight])
    if bias._a.dtype != weight._a.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {bias.dtype.title} and {weight.dtype.title}"
        )
    return Plan(_LINEAR[rank, True], (), [bias, input, weight])


_DROPOUT = pointwise(
    "Dropout", in_single(lambda scale, x, mask: np.where(mask, x * scale, 0 * x)), title="MulBackward0"
)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Return the tensor with elements set to 0 with probability p, the others scaled by 1 / (1 - p)."""
    return _dropped(input, p, training, inplace, input._a.shape)


def _dropped(input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]) -> Any:
    """Return the tensor with what belongs to one element of `shape` dropped together."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    if not input.is_floating_point():
        error = NotImplementedError if input.is_complex() else RuntimeError
        raise error(f"dropout scales floats, not a tensor of dtype {input.dtype!r}")
    kept = creating.random_uniform(0.0, 1.0, shape, np.dtype(np.float64)) >= p
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    mask = wrap(np.broadcast_to(kept, input._a.shape))

    def apply(x: Tensor) -> Any:
        return apply_composition(_DROPOUT, (scale,), [x, mask])

    return write("dropout_", input, apply) if inplace else apply(input)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Return the tensor with elements set to what SELU saturates at, then scaled and shifted to keep mean and variance.

    Source: Klambauer et al., 2017.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    low = -1.7580993408473766
    scale = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * low**2)) if p < 1.0 else 0.0
    kept = wrap(np.asarray(creating.random_uniform(0.0, 1.0, input._a.shape, np.dtype(np.float64)) >= p))

    def apply(x: Any) -> Any:
        return METHODS["where"](x * scale, kept, low * scale) + -p * low * scale

    return write("alpha_dropout_", input, apply) if inplace else apply(input)


def _channel_dropout(name: str, ndim: int) -> Callable[..., Any]:
    def apply(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        rank = input._a.ndim
        count = rank - ndim
        if count not in (1, 2):
            text = f"{name}: Expected {ndim + 1}D or {ndim + 2}D input, but received a {rank}D input."
            if ndim == 1 or rank < 2:
                raise RuntimeError(text)
            warnings.warn(
                f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an error in a "
                "future release.",
                stacklevel=3,
            )
            count = 2
        return _dropped(input, p, training, inplace, input._a.shape[:count] + (1,) * (rank - count))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = "Return the tensor with whole channels set to 0 with probability p, the others scaled."
    return apply


dropout1d, dropout2d, dropout3d = (_channel_dropout(f"dropout{n}d", n) for n in (1, 2, 3))


def _share_dtype(input: Tensor, *parameters: Tensor | None) -> None:
    """Check the dtypes of a normalisation: parameters have that of the input, or float32 for narrower inputs.

    Raises:
        RuntimeError: they have not.
    """
    found = {p._a.dtype for p in parameters if p is not None} - {input._a.dtype}
    narrow = input._a.dtype in (dtypes.bfloat16.dtype, dtypes.float16.dtype)
    if found and not (narrow and found == {dtypes.float32.dtype}):
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


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
    _share_dtype(input, weight, bias)
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
    _share_dtype(input, weight, bias)
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
    places = x if x.ndim < 4 else x.reshape((*x.shape[:2], math.prod(x.shape[2:])))
    axes, shape = ((0,), (1, -1)) if x.ndim == 2 else ((0, 2), (1, -1, 1))
    if known:
        made = (places - rest[0].reshape(shape)) / np.sqrt(rest[1].reshape(shape) + eps)
        rest = rest[2:]
    else:
        made = _normalized(axes, eps, places)
    if scaled:
        made = made * rest[0].reshape(shape)
    return (made + rest[-1].reshape(shape) if shifted else made).reshape(x.shape)


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
    """Return the tensor with mean 0 and variance 1 per channel.

    Running statistics are updated in training, except by an empty batch.
    """
    _share_dtype(input, running_mean, running_var, weight, bias)
    channels = input._a.shape[1]
    for name, given in (
        ("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias),
    ):  # fmt: skip
        if given is not None and given._a.size != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {given._a.size}")
    known = not training
    for name, given in (("running_mean", running_mean), ("running_var", running_var)):
        if known and given is None:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    axes = tuple(k for k in range(input._a.ndim) if k != 1)
    count = math.prod(input._a.shape[k] for k in axes)
    if training:
        _check_batch_size(count, input.shape)
    if training and count and running_mean is not None and running_var is not None:
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


_EMBEDDING = Composition("Embedding", lambda weight, index: weight[index])


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    """Return rows of the weight; the row padding_idx gets no gradient.

    With `max_norm`, the rows that are looked up are first made shorter in place where their norm is greater.
    """
    if scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding: gradients are dense and not scaled by frequency")
    a = input._a
    if weight._a.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if a.dtype not in (np.int64, np.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.type_name()} instead (while checking arguments for embedding)"
        )
    if a.size and not (a.min() >= 0 and a.max() < weight._a.shape[0]):
        raise IndexError("index out of range in self")
    if max_norm is not None:
        _shorten(weight, np.unique(a), max_norm, norm_type)
    rows = apply_composition(_EMBEDDING, (), [weight, wrap(a.astype(np.int64))])
    if padding_idx is None:
        return rows
    padded = wrap(np.broadcast_to((a == padding_idx % weight._a.shape[0])[..., None], rows._a.shape))
    return METHODS["where"](rows.detach(), padded, rows)


def embedding_of(weight: Tensor, indices: Tensor, padding_idx: int = -1) -> Any:
    """Return rows of the weight, which is given first."""
    return embedding(indices, weight, None if padding_idx < 0 else padding_idx)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """Return the sums, means or maxima of rows of the weight per bag of numbers; zeros for an empty bag.

    Args:
        input: bags of one length as rows, or all of them in a line.
        offsets: where each bag begins in a line; with `include_last_offset`, and where the last one ends.
        per_sample_weights: factors of the rows, for sums.
        padding_idx: a row that is left out.

    Raises:
        ValueError: there is no such mode, or the bags are not as described.
        RuntimeError: the offsets do not fit the input, or there is no row of a number.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if scale_grad_by_freq and mode == "max":
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding_bag: gradients are dense and not scaled by frequency")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}')."
        )
    owners, count = _owners(input, offsets, include_last_offset)
    numbers, most = input._a.ravel(), weight._a.shape[0]
    outside = np.flatnonzero((numbers < 0) | (numbers >= most))
    if outside.size:
        raise RuntimeError(
            f"Index {outside[0]} of input takes value {numbers[outside[0]]} which is not in the valid range [0, {most})"
        )
    if padding_idx is not None and not -most <= padding_idx < most:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-most} through {most - 1}, but got {padding_idx}"
        )
    if max_norm is not None:
        _shorten(weight, np.unique(numbers), max_norm, norm_type)
    kept = np.flatnonzero((owners < count) & (True if padding_idx is None else numbers != padding_idx % most))
    owners, rows = owners[kept], embedding(wrap(numbers[kept]), weight)
    if per_sample_weights is not None:
        require_one_dtype(weight, per_sample_weights)
        rows = rows * METHODS["unsqueeze"](METHODS["reshape"](per_sample_weights, -1)[wrap(kept)], 1)
    ends = np.searchsorted(owners, np.arange(count + 1))
    width = weight._a.shape[1]
    if mode == "max":
        chosen = np.full((count, width), len(kept))  # the row of zeros
        for bag, (start, end) in enumerate(itertools.pairwise(ends)):
            if end > start:
                chosen[bag] = start + rows._a[start:end].argmax(0)
        return METHODS["gather"](cat([rows, wrap(np.zeros((1, width), weight._a.dtype))]), 0, wrap(chosen))
    sums = METHODS["index_add"](wrap(np.zeros((count, width), weight._a.dtype)), 0, wrap(owners), rows)
    sizes = np.maximum(np.diff(ends), 1)[:, None].astype(weight._a.dtype)
    return sums / wrap(sizes) if mode == "mean" else sums


def _owners(input: Tensor, offsets: Tensor | None, has_end: bool) -> tuple[Any, int]:
    """Return the number of the bag of each element, and how many bags there are."""
    shape = input._a.shape
    if len(shape) not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {len(shape)}")
    if input._a.dtype not in (np.int64, np.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.type_name()} instead (while checking arguments for embedding_bag)"
        )
    if len(shape) == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        return np.repeat(np.arange(shape[0]), shape[1]), shape[0]
    if not isinstance(offsets, Tensor):
        raise ValueError(f"offsets has to be a 1D Tensor but got {offsets}")
    starts = offsets._a
    if starts.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if starts.size and starts[0]:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, "
            f"got {starts[0]}"
        )
    if starts.size and starts[-1] > shape[0]:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {shape[0]} but got offsets[-1] of {starts[-1]}"
        )
    if (np.diff(starts) < 0).any():
        raise RuntimeError("offsets must not decrease")
    return np.searchsorted(starts, np.arange(shape[0]), side="right") - 1, len(starts) - has_end


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


@as_torch_calls
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Return vectors divided by their norm."""
    return input / reducing.vector_norm(input, p, dim, True).clamp_min(eps)


_PAD = Composition("ConstantPadNd", lambda pads, value, x: np.pad(x, pads, constant_values=value) if pads else x.copy())


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Add elements at the ends of axes, given from the last axis on: (left, right, top, bottom, ...)."""
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * input._a.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input._a.ndim}"
        )
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
    return retitled(reducing.vector_norm(difference + eps, p, -1, keepdim), "NormBackward1")


def pdist(input: Tensor, p: float = 2.0) -> Any:
    """Return the distances of all pairs of rows, in order; the gradient of distance 0 is 0."""
    first, second = (wrap(k.astype(np.int64)) for k in np.triu_indices(input._a.shape[0], 1))
    return reducing.vector_norm(input[first] - input[second], p, -1)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Return input1 @ weight[k] @ input2 for each k."""
    names = [dtypes.scalar_name(t._a.dtype) for t in (input1, input2, weight)]
    if len(set(names)) > 1:
        raise RuntimeError(
            f"All tensors must have the same dtype, got input1: {names[0]}, input2: {names[1]}, weight: {names[2]}"
        )
    made = reducing.einsum("...i,kij,...j->...k", input1, weight, input2)
    return made if bias is None else made + bias


cosine_similarity = reducing.cosine_similarity
adaptive_avg_pool1d = resampling.adaptive_avg_pool1d
adaptive_avg_pool2d = resampling.adaptive_avg_pool2d
adaptive_avg_pool3d = resampling.adaptive_avg_pool3d
interpolate = resampling.interpolate
affine_grid = resampling.affine_grid
channel_shuffle = resampling.channel_shuffle
grid_sample = resampling.grid_sample
pixel_shuffle = resampling.pixel_shuffle
pixel_unshuffle = resampling.pixel_unshuffle
cosine_embedding_loss = losses.cosine_embedding_loss
gaussian_nll_loss = losses.gaussian_nll_loss
margin_ranking_loss = losses.margin_ranking_loss
multi_margin_loss = losses.multi_margin_loss
multilabel_margin_loss = losses.multilabel_margin_loss
multilabel_soft_margin_loss = losses.multilabel_soft_margin_loss
poisson_nll_loss = losses.poisson_nll_loss
soft_margin_loss = losses.soft_margin_loss
triplet_margin_loss = losses.triplet_margin_loss
triplet_margin_with_distance_loss = losses.triplet_margin_with_distance_loss


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Return softmax(query @ key.T * scale) @ value; with `enable_gqa`, several heads of queries share keys."""
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (METHODS["repeat_interleave"](t, times, -3) for t in (key, value))
    factor = 1.0 / math.sqrt(query._a.shape[-1]) if scale is None else scale
    scores = shielding(1)(reducing.matmul)(query * factor, transpose(key, -2, -1))
    if is_causal:
        rows, columns = scores._a.shape[-2:]
        scores = scores.masked_fill(wrap(~np.tri(rows, columns, dtype=np.bool_)), -math.inf)
    if attn_mask is not None:
        hidden = attn_mask._a.dtype == np.bool_
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf) if hidden else scores + attn_mask
    made = reducing.matmul(dropout(reducing.softmax(scores, -1), dropout_p), value)
    is_one_step = made._a.ndim == 4 and not dropout_p and (attn_mask is None or not attn_mask.requires_grad)
    return retitled(made, "ScaledDotProductFlashAttentionForCpuBackward0") if is_one_step else made


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
    least = float(np.finfo(np.promote_types(input._a.dtype, np.float32)).eps) if eps is None else eps
    return apply_composition(_RMS_NORM, (len(shape), least), [input, *_present(weight)])


def _rms_norm(count: int, eps: float, x: Any, *weight: Any) -> Any:
    axes = tuple(range(x.ndim - count, x.ndim))
    made = x / np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True) + eps)
    return made * weight[0] if weight else made


_RMS_NORM = Composition("FusedRmsNorm", in_single(_rms_norm), title="MulBackward0")


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
    if input._a.size and running_mean is not None and running_var is not None:
        axes = tuple(range(2, input._a.ndim))
        values = _wide(input._a)
        with no_grad():
            _move(running_mean, values.mean(axes).mean(0), momentum)
            _move(running_var, values.var(axes, ddof=1).mean(0), momentum)
    scale, shift = (None if t is None else METHODS["repeat"](t, batch) for t in (weight, bias))
    joined = reshape(input, (1, batch * channels, *places))
    return reshape(batch_norm(joined, None, None, scale, shift, True, momentum, eps), input._a.shape)


_FILES = (__name__, activations.__name__, windows.__name__)
refuse_in(globals())
call_with_traced_values(f for f in tuple(vars().values()) if getattr(f, "__module__", "") in _FILES)
__getattr__ = lazy_names(__name__, {}, globals(), "docs/eager.md says what there is of torch's names")
