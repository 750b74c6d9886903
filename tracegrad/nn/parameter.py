"""Tensors that belong to a module.

Previous: init.py; next: backward_hooks.py.
"""

from __future__ import annotations

from typing import Any

from tracegrad.runtime.printing import tensor_text
from tracegrad.runtime.saving import attributes_of, require_leaf
from tracegrad.runtime.tape import mode
from tracegrad.runtime.tensor import Tensor, fill, is_differentiable, type_name


class _OfBuffers(type):
    """Tensors given to modules as buffers count as `Buffer`."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and "persistent" in value.__dict__


class Buffer(metaclass=_OfBuffers):
    """A tensor that a module finds among its attributes, and that is no parameter."""

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        given = Tensor() if data is None else data
        made = given.detach().requires_grad_(given.requires_grad)
        made.__dict__["persistent"] = persistent
        return made


class Parameter(Tensor):
    """A tensor that a module finds among its attributes; it requires grad."""

    def __new__(cls, data: Any = None, requires_grad: Any = True) -> Any:
        made = Tensor.__new__(cls)
        if data is not None:
            if not isinstance(data, Tensor):
                raise AttributeError(f"'{type_name(data)}' object has no attribute 'detach': give a tensor")
            made._a, made._storage, made._inference = data._a, data._storage, data._inference
        if not isinstance(requires_grad, bool):
            kind = type_name(requires_grad)
            raise TypeError(f"Parameter(): argument 'requires_grad' must be bool, not {kind}")
        if requires_grad and not is_differentiable(made._a.dtype):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        if requires_grad and made._inference and not mode.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        made._requires_grad = requires_grad
        return made

    def __init__(self, *data: Any, **options: Any) -> None:
        """Do nothing: all is set in __new__."""

    def __deepcopy__(self, memory: dict[int, Any]) -> Parameter:
        require_leaf(self)
        made = object.__new__(type(self))
        fill(made, self._a.copy(order="K"))
        made.__dict__.update(attributes_of(self))
        made._requires_grad = self._requires_grad
        memory[id(self)] = made
        return made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + tensor_text(self)

    __str__ = __repr__
