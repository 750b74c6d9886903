"""torch.nn.utils.parametrize's names: parameters that are computed from others each time they are read.

Previous: rnn.py; next: parametrizations.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tracegrad.nn.containers import ModuleDict, ModuleList
from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.tensor import Tensor

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "type_before_parametrizations",
]  # fmt: skip

#: values read inside `cached`, None outside
_kept: list[dict[tuple[int, str], Any] | None] = [None]


class ParametrizationList(ModuleList):
    """Modules that one after the other make a value of what they are given: `original`, or `original0`, ..."""

    def __init__(self, modules: list[Module], original: Tensor) -> None:
        super().__init__(modules)
        with no_grad():
            value: Any = original
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        given = {"original": value} if self.is_tensor else {f"original{k}": t for k, t in enumerate(value)}
        self.ntensors = len(given)
        for name, tensor in given.items():
            if isinstance(original, Parameter):
                self.register_parameter(name, original if tensor is original else Parameter(tensor.detach()))
            else:
                self.register_buffer(name, tensor)

    def originals(self) -> list[Any]:
        """Return what the value is made of."""
        names = ["original"] if self.is_tensor else [f"original{k}" for k in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def forward(self) -> Any:
        value, *more = self.originals()
        for module in self:
            value, more = module(value, *more), []
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Set what the value is made of so that it becomes `value`."""
        with no_grad():
            found: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                found = module.right_inverse(found)
            for original, tensor in zip(self.originals(), [found] if self.is_tensor else found, strict=True):
                original.copy_(tensor)


def _property(name: str) -> property:
    def read(self: Module) -> Any:
        kept, key = _kept[0], (id(self), name)
        if kept is None:
            return self.parametrizations[name]()
        if key not in kept:
            kept[key] = self.parametrizations[name]()
        return kept[key]

    return property(read, lambda self, value: self.parametrizations[name].right_inverse(value))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter the value of a module, called with what is stored instead; return the module that has it.

    Raises:
        ValueError: there is no such parameter, or the value has another shape or dtype.
    """
    if is_parametrized(module, tensor_name):
        module.parametrizations[tensor_name].append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original)
    made.train(module.training)
    if not unsafe:
        value = made()
        if value.dtype != original.dtype or value.shape != original.shape:
            raise ValueError(
                "Registering a parametrization may not change the dtype or the shape of the tensor, unless `unsafe` "
                f"flag is enabled.\nfound: {value.dtype!r} {value.shape!r}, not {original.dtype!r} {original.shape!r}"
            )
    delattr(module, tensor_name)
    if not is_parametrized(module):
        own = type(module)
        module.__class__ = type(f"Parametrized{own.__name__}", (own,), {"_before_parametrizations": own})
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module has parametrizations, of one parameter or of any."""
    found = module._modules.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a value a parameter again: what it is now, or else what it was made of.

    Raises:
        ValueError: it is none of a parametrization, or was made of several.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    if not leave_parametrized and not made.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    original = made.originals()[0]
    if leave_parametrized:
        with no_grad():
            value = made()
        if isinstance(original, Parameter) and made.is_tensor:
            original._a = value._a
        else:
            original = Parameter(value.detach(), original.requires_grad)
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    if not len(module.parametrizations):
        delattr(module, "parametrizations")
        module.__class__ = type_before_parametrizations(module)
    return module


def type_before_parametrizations(module: Module) -> Any:
    """Return the class that a module had."""
    return getattr(type(module), "_before_parametrizations", type(module))


@contextmanager
def cached() -> Iterator[None]:
    """Compute each value once inside a with statement."""
    before = _kept[0]
    _kept[0] = {} if before is None else before
    try:
        yield
    finally:
        _kept[0] = before
