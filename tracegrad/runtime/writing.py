"""In-place forms of operations of other files, and tensors that get another shape in place.

Reads and changes tensors. Previous: places.py; next: settings.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.runtime import building, creating, operate, reducing, shaping  # noqa: F401 attach the methods used here
from tracegrad.runtime.gradients import expect_shape
from tracegrad.runtime.operate import in_place
from tracegrad.runtime.tape import mode, needs_grad, node_class, part_saved, retitled
from tracegrad.runtime.tensor import METHODS, Tensor, method, public, wrap
from tracegrad.runtime.views import check_writable, hand_over, make_view, mark_written, way_back

for _name in (
    "addmm", "addmv", "addr", "atan2", "baddbmm", "bitwise_not", "copysign", "cumprod", "cumsum", "divide", "eq",
    "gcd", "ge", "greater", "greater_equal", "gt", "heaviside", "hypot", "i0", "lcm", "ldexp", "le", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "lt", "multiply", "nan_to_num",
    "ne", "nextafter", "not_equal", "sgn", "sinc", "subtract", "true_divide", "xlogy",
):  # fmt: skip
    in_place(f"{_name}_", METHODS[_name])
in_place("masked_scatter_", METHODS["masked_scatter"], "any")


def _float_power_in_place(input: Tensor, exponent: Any) -> Any:
    """Return input ** exponent in a precision that the base must have."""
    made = METHODS["float_power"](input, exponent)
    if made._a.dtype != input._a.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input.dtype.title} but the operation's result requires dtype "
            f"{made.dtype.title}"
        )
    return made


in_place("float_power_", _float_power_in_place)
for _name in (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "clamp", "clamp_max", "clamp_min", "clip",
    "cos", "cosh", "deg2rad", "erf", "erfc", "exp", "exp2", "expm1", "fill", "floor", "frac", "gcd", "i0", "lcm",
    "ldexp", "log", "log10", "log1p", "log2", "logit", "nan_to_num", "neg", "negative", "rad2deg", "reciprocal",
    "relu", "round", "rsqrt", "sigmoid", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "xlogy",
    "zero",
):  # fmt: skip
    public(f"{_name}_")(METHODS[f"{_name}_"])


@public()
@method("fill_diagonal_")
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Fill the diagonal; with `wrap`, that of a tall matrix begins again below a row that is left out."""
    if isinstance(fill_value, Tensor):
        if fill_value._a.ndim or needs_grad(fill_value):
            raise TypeError("fill_diagonal_(): argument 'fill_value' (position 1) must be Number, not Tensor")
        fill_value = fill_value.item()
    shape = self._a.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if len(shape) == 2 and wrap and shape[0] > shape[1]:
        places = np.arange(0, shape[0] * shape[1], shape[1] + 1)
        rows, columns = np.divmod(places, shape[1])
    else:
        rows = columns = np.arange(min(shape))
    index = (rows, columns) if len(shape) == 2 else (rows,) * len(shape)
    self[tuple(creating.from_numpy(k.astype(np.int64)) for k in index)] = fill_value
    return self if self._node is None else retitled(self, "CopySlices")


def _shaped_in_place(name: str, function: Callable[..., Any], overloads: int = 1) -> None:
    """Attach the form of a function that gives a view: the tensor becomes that view of what it was.

    Args:
        overloads: those of the function, which come before these.
    """

    def apply(self: Tensor, *args: Any, **keywords: Any) -> Tensor:
        check_writable(self, repeats=True)
        if name == "t_" and self._a.ndim > 2:
            raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self._a.ndim}D")
        if self._base is None:
            _reshape(self, lambda x: function(x, *args, **keywords), overloads)
        else:
            _become_view(self, function(self, *args, **keywords), overloads)
        part_saved(self)
        mark_written(self, name)
        return self

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Give the tensor the shape that {name[:-1]} gives."
    method(name)(apply)


def _reshape(self: Tensor, function: Callable[[Tensor], Tensor], overloads: int) -> None:
    before = wrap(self._a)
    before._storage, before._node, before._nr = self._storage, self._node, self._nr
    made = function(before)
    if mode.grad and made._node is not self._node:
        hand_over(self, _of_overload(made._node, overloads), made._nr)
    elif not mode.grad:
        expect_shape(self)
    for step in made._steps:
        changes = self.__dict__.setdefault("_reshaped", [])
        changes.append((self._storage.version + 1, way_back(step, self._a.shape)))
    if self._tangent is not None:
        self._tangent = self._tangent[0], function(self._tangent[1])
    self._a = made._a


def _become_view(self: Tensor, made: Tensor, overloads: int) -> None:
    if made is self:
        made = make_view("Alias", self, ("index", (Ellipsis,), ()))
    if mode.grad and made._node is not None:
        self._node, self._nr = _of_overload(made._node, overloads), made._nr
        self._origin = made._origin
    for slot in ("_a", "_base", "_steps"):
        setattr(self, slot, getattr(made, slot))
    self._seen = self._storage.version + 1 if mode.grad else 0  # what was not recorded follows from the base


def _of_overload(node: Any, overloads: int) -> Any:
    title = node.title
    node.__class__ = node_class(f"{title[:-1]}{int(title[-1]) + overloads}")
    return node


for _name in ("swapaxes", "swapdims", "t", "transpose", "unsqueeze", "as_strided"):
    _shaped_in_place(f"{_name}_", METHODS[_name])
_shaped_in_place("squeeze_", METHODS["squeeze"], 3)


@method("set_")
def set_(self: Tensor, source: Tensor | None = None) -> Tensor:
    """Make the tensor one over the memory of another, or an empty one."""
    check_writable(self, repeats=True)
    part_saved(self)
    self._a = np.empty(0, self._a.dtype) if source is None else source._a
    mark_written(self, "set_")
    return self


@method("get_device")
def get_device(self: Tensor) -> int:
    """Return -1: the CPU has no number."""
    return -1
