"""Modules: parameters kept together with what is computed from them.

Reads and writes tensors. Previous: init.py; next: layers.py.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tracegrad.nn import functional as F
from tracegrad.nn import init
from tracegrad.runtime import creating, dtypes, reducing
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.operate import cast
from tracegrad.runtime.printing import tensor_text
from tracegrad.runtime.shaping import flatten, stack
from tracegrad.runtime.tape import RemovableHandle, add_hook
from tracegrad.runtime.tensor import Tensor, is_differentiable


class Parameter(Tensor):
    """A tensor that a module finds among its attributes; it requires grad."""

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        made = Tensor.__new__(cls)
        if data is not None:
            made._a, made._storage = data._a, data._storage
        if requires_grad and not is_differentiable(made._a.dtype):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        made._requires_grad = bool(requires_grad)
        return made

    def __init__(self, *data: Any, **options: Any) -> None:
        """Do nothing: all is set in __new__."""

    def __repr__(self) -> str:
        return "Parameter containing:\n" + tensor_text(self)

    __str__ = __repr__


def _type_name(value: Any) -> str:
    return value.type_name() if type(value) is Tensor else type(value).__name__


class IncompatibleKeys(NamedTuple):
    """What a state and a module do not have in common."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Module:
    """Base of all modules: assign parameters and modules as attributes, and define `forward`."""

    training = True

    def __init__(self) -> None:
        self._parameters: dict[str, Any] = {}
        self._buffers: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}
        self._transient: set[str] = set()
        self._forward_hooks: dict[int, Any] = {}
        self._forward_pre_hooks: dict[int, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter | Module):
            if "_modules" not in self.__dict__:
                kind = "parameter" if isinstance(value, Parameter) else "module"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            self.__dict__.pop(name, None)
            places = (self._parameters, self._modules)
            own, other = places if isinstance(value, Parameter) else places[::-1]
            other.pop(name, None)
            own[name] = value
        elif "_parameters" in self.__dict__ and name in self._parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self._parameters[name] = None
        elif "_modules" in self.__dict__ and name in self._modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            self._modules[name] = None
        elif "_buffers" in self.__dict__ and name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None "
                    "expected)"
                )
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        inside = self.__dict__
        for place in ("_parameters", "_buffers", "_modules"):
            if place in inside and name in inside[place]:
                return inside[place][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for place in (self._parameters, self._buffers, self._modules):
            if name in place:
                del place[name]
                return
        object.__delattr__(self, name)

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """Compute the module's result."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if not self._forward_pre_hooks and not self._forward_hooks:
            return self.forward(*args, **keywords)
        for hook in list(self._forward_pre_hooks.values()):
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        result = self.forward(*args, **keywords)
        for hook in list(self._forward_hooks.values()):
            replaced = hook(self, args, result)
            if replaced is not None:
                result = replaced
        return result

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, args, result)` after forward."""
        return add_hook(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, args)` before forward."""
        return add_hook(self._forward_pre_hooks, hook)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_type_name(param)}' object to parameter '{name}' (torch.nn.Parameter or None "
                "required)"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is no parameter but belongs to the state."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        if not persistent:
            self._transient.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    def _check_name(self, kind: str, name: str, own: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_type_name(name)}")
        if hasattr(self, name) and name not in own:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')

    register_module = add_module

    # ---- what is inside

    def named_modules(self, memo: set[int] | None = None, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield this module and all inside, with their paths."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """Yield this module and all inside."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules directly inside, with names."""
        yield from ((name, m) for name, m in self._modules.items() if m is not None)

    def children(self) -> Iterator[Module]:
        """Yield the modules directly inside."""
        yield from (m for m in self._modules.values() if m is not None)

    def _named(self, place: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules() if recurse else [("", self)]:
            for name, tensor in getattr(module, place).items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yield parameters with their paths, each once."""
        yield from ((f"{prefix}.{n}" if prefix else n, p) for n, p in self._named("_parameters", recurse))

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield parameters, each once."""
        for _, parameter in self._named("_parameters", recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield buffers with their paths."""
        yield from self._named("_buffers", recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield buffers."""
        for _, buffer in self._named("_buffers", recurse):
            yield buffer

    def state_dict(self, *, prefix: str = "") -> OrderedDict[str, Tensor]:
        """Return parameters and buffers by path, detached."""
        state: OrderedDict[str, Tensor] = OrderedDict()
        for name, tensor in [*self._parameters.items(), *self._buffers.items()]:
            if tensor is not None and name not in self._transient:
                state[prefix + name] = tensor.detach()
        for name, module in self._modules.items():
            if module is not None:
                state.update(module.state_dict(prefix=f"{prefix}{name}."))
        return state

    def load_state_dict(self, state_dict: Mapping[str, Tensor], strict: bool = True) -> Any:
        """Copy parameters and buffers from a dict.

        Raises:
            RuntimeError: names are missing or too many (with `strict`), or shapes differ.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        own = self.state_dict()
        missing = [k for k in own if k not in state_dict]
        unexpected = [k for k in state_dict if k not in own]
        faults = []
        for kind, names in (("Unexpected", unexpected), ("Missing", missing)):
            if strict and names:
                listed = ", ".join(f'"{name}"' for name in names)
                faults.append(f"{kind} key(s) in state_dict: {listed}. ")
        with no_grad():
            for name, tensor in own.items():
                if name not in state_dict:
                    continue
                given = state_dict[name]
                if tensor.shape == given.shape:
                    tensor.copy_(given)
                    continue
                faults.append(
                    f"size mismatch for {name}: copying a param with shape {given.shape!r} from checkpoint, the shape "
                    f"in current model is {tensor.shape!r}."
                )
        if faults:
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *faults]))
        return IncompatibleKeys(missing, unexpected)

    # ---- changes of all

    def train(self, mode: bool = True) -> Module:
        """Switch to training."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Switch to evaluation."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Set requires_grad of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters."""
        for parameter in self.parameters():
            if parameter._grad is not None:
                if set_to_none:
                    parameter._grad = None
                else:
                    parameter._grad = parameter._grad.detach()
                    parameter._grad.zero_()

    def apply(self, fn: Callable[[Module], None]) -> Module:
        """Call a function with this module and all inside, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, dtype: Any = None, **options: Any) -> Module:
        """Convert parameters and buffers of floating point to a dtype."""
        wanted = next((a for a in args if not isinstance(a, str)), dtype)
        if wanted is not None and hasattr(wanted, "dtype"):
            kind = dtypes.numpy_dtype(wanted)
            for module in self.modules():
                for place in (module._parameters, module._buffers):
                    for tensor in place.values():
                        if tensor is not None and is_differentiable(tensor._a.dtype):
                            tensor._a = cast(tensor.detach(), kind)._a
        return self

    def double(self) -> Module:
        """Convert to float64."""
        return self.to(dtypes.float64)

    def float(self) -> Module:
        """Convert to float32."""
        return self.to(dtypes.float32)

    def extra_repr(self) -> str:
        """Return what stands in parentheses after the module's name."""
        return ""

    def __repr__(self) -> str:
        children = []
        for name, module in self._modules.items():
            text = repr(module).replace("\n", "\n  ")
            children.append(f"  ({name}): {text}")
        extra = self.extra_repr()
        if not children:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(\n" + "\n".join([*([f"  {extra}"] if extra else []), *children]) + "\n)"


class Sequential(Module):
    """Modules applied one after the other."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else enumerate(modules)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        found = list(self._modules.values())[index]
        return Sequential(*found) if isinstance(index, slice) else found

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self


class ModuleList(Module):
    """A list of modules."""

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self._modules)), module)
        return self

    def __getitem__(self, index: int) -> Module:
        found: Module = list(self._modules.values())[index]
        return found

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __getitem__(self, name: str) -> Module:
        found: Module = self._modules[name]
        return found

    def __len__(self) -> int:
        return len(self._modules)


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, values: Any = ()) -> None:
        super().__init__()
        for value in values:
            self.append(value)

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end."""
        self._parameters[str(len(self._parameters))] = value if isinstance(value, Parameter) else Parameter(value)
        return self

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[index]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())


def _new(*shape: int, dtype: Any = None) -> Parameter:
    made: Parameter = Parameter(creating.zeros(*shape, dtype=dtype))
    return made


class Linear(Module):
    """x @ weight.T + bias."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _new(out_features, in_features, dtype=dtype)
        self.register_parameter("bias", _new(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial values."""
        init.default_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class _Conv(Module):
    def __init__(
        self, ndim: int, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, groups: int, bias: bool, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = F._pair(kernel_size, ndim)
        self.stride, self.dilation = F._pair(stride, ndim), F._pair(dilation, ndim)
        self.padding = padding if isinstance(padding, str) else F._pair(padding, ndim)
        self.weight = _new(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", _new(out_channels, dtype=dtype) if bias else None)
        init.default_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Any:
        return F._convolve(
            len(self.kernel_size), input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if isinstance(self.padding, str) or any(self.padding):
            text += f", padding={self.padding}"
        return text


class Conv1d(_Conv):
    """Convolution over one axis."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(1, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype)


class Conv2d(_Conv):
    """Convolution over two axes."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(2, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype)


class _ConvTranspose(Module):
    def __init__(
        self, ndim: int, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        output_padding: Any, groups: int, bias: bool, dilation: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = F._pair(kernel_size, ndim), F._pair(stride, ndim)
        self.padding, self.output_padding = F._pair(padding, ndim), F._pair(output_padding, ndim)
        self.dilation = F._pair(dilation, ndim)
        self.weight = _new(in_channels, out_channels // groups, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", _new(out_channels, dtype=dtype) if bias else None)
        init.default_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Any:
        return F._convolve_transposed(
            len(self.kernel_size), input, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        return text + (f", padding={self.padding}" if any(self.padding) else "")


class ConvTranspose1d(_ConvTranspose):
    """The transpose of a convolution over one axis."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            1, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, dtype
        )


class ConvTranspose2d(_ConvTranspose):
    """The transpose of a convolution over two axes."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            2, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, dtype
        )


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        ones = Parameter(creating.ones(*self.normalized_shape, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", ones)
        self.register_parameter(
            "bias", _new(*self.normalized_shape, dtype=dtype) if ones is not None and bias else None
        )

    def forward(self, input: Tensor) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine, shifted = self.weight is not None, self.bias is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}, bias={shifted}"


class GroupNorm(Module):
    """Mean 0 and variance 1 per group of channels."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__()
        self.num_groups, self.eps = num_groups, eps
        self.register_parameter("weight", Parameter(creating.ones(num_channels)) if affine else None)
        self.register_parameter("bias", _new(num_channels) if affine else None)

    def forward(self, input: Tensor) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class _BatchNorm(Module):
    ranks: tuple[int, ...]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.register_parameter("weight", Parameter(creating.ones(num_features)) if affine else None)
        self.register_parameter("bias", _new(num_features) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", creating.zeros(num_features) if tracked else None)
        self.register_buffer("running_var", creating.ones(num_features) if tracked else None)
        self.register_buffer("num_batches_tracked", creating.tensor(0) if tracked else None)

    def forward(self, input: Tensor) -> Any:
        if input._a.ndim not in self.ranks:
            ranks = " or ".join(f"{n}D" for n in self.ranks)
            raise ValueError(f"expected {ranks} input (got {input._a.ndim}D input)")
        momentum = self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # the mean of all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        training = self.training or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training, momentum or 0.0, self.eps
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.weight is not None}, "
            f"bias={self.bias is not None}, "
            f"track_running_stats={self.running_mean is not None}"
        )


class BatchNorm1d(_BatchNorm):
    """Mean 0 and variance 1 per channel: of the batch in training, of the past in evaluation."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 per channel of images."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Mean 0 and variance 1 per channel of volumes."""

    ranks = (5,)


class Embedding(Module):
    """Rows of a table."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight = _new(num_embeddings, embedding_dim)
        init.normal_(self.weight)
        if padding_idx is not None:
            self.weight._a[padding_idx] = 0.0

    def forward(self, input: Tensor) -> Any:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class Flatten(Module):
    """Join axes."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Any:
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Identity(Module):
    """The input itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Dropout(Module):
    """Elements set to 0 at random in training."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = p

    def forward(self, input: Tensor) -> Any:
        return F.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace=False"


class _Configured(Module):
    """A function with fixed options: base of activations, losses and poolings."""

    function: Callable[..., Any]
    names: tuple[str, ...] = ()

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__()
        options.update(zip(self.names, values, strict=False))
        for name in ("size_average", "reduce"):
            options.pop(name, None)
        for name in ("weight", "pos_weight"):
            if options.get(name) is not None:
                self.register_buffer(name, options.pop(name))
        object.__setattr__(self, "options", options)

    def forward(self, *inputs: Any) -> Any:
        tensors = {k: v for k, v in self._buffers.items() if v is not None}
        return type(self).function(*inputs, **self.options, **tensors)

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self.options.items() if k not in ("reduction", "inplace") or v is True)


def make_module(name: str, function: Callable[..., Any], *names: str) -> Any:
    """Return the class of a module that calls a function with the options of its constructor."""
    attributes = {"function": staticmethod(function), "names": names, "__doc__": f"The function {function.__name__}."}
    return type(name, (_Configured,), attributes)


ReLU = make_module("ReLU", F.relu, "inplace")
Sigmoid = make_module("Sigmoid", F.sigmoid)
Tanh = make_module("Tanh", F.tanh)
GELU = make_module("GELU", F.gelu, "approximate")
SiLU = make_module("SiLU", F.silu, "inplace")
Mish = make_module("Mish", F.mish)
ELU = make_module("ELU", F.elu, "alpha", "inplace")
SELU = make_module("SELU", F.selu, "inplace")
LeakyReLU = make_module("LeakyReLU", F.leaky_relu, "negative_slope", "inplace")
Hardtanh = make_module("Hardtanh", F.hardtanh, "min_val", "max_val")
ReLU6 = make_module("ReLU6", F.relu6, "inplace")
LogSigmoid = make_module("LogSigmoid", F.logsigmoid)
Softsign = make_module("Softsign", F.softsign)
Softplus = make_module(
    "Softplus", lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta, threshold), "beta", "threshold"
)
Softmax = make_module("Softmax", reducing.softmax, "dim")
LogSoftmax = make_module("LogSoftmax", reducing.log_softmax, "dim")
MSELoss = make_module("MSELoss", F.mse_loss, "size_average", "reduce", "reduction")
L1Loss = make_module("L1Loss", F.l1_loss, "size_average", "reduce", "reduction")
SmoothL1Loss = make_module("SmoothL1Loss", F.smooth_l1_loss, "size_average", "reduce", "reduction", "beta")
HuberLoss = make_module("HuberLoss", F.huber_loss, "reduction", "delta")
BCELoss = make_module("BCELoss", F.binary_cross_entropy, "weight", "size_average", "reduce", "reduction")
BCEWithLogitsLoss = make_module(
    "BCEWithLogitsLoss",
    F.binary_cross_entropy_with_logits,
    "weight",
    "size_average",
    "reduce",
    "reduction",
    "pos_weight",
)
NLLLoss = make_module("NLLLoss", F.nll_loss, "weight", "size_average", "ignore_index", "reduce", "reduction")
CrossEntropyLoss = make_module(
    "CrossEntropyLoss", F.cross_entropy, "weight", "size_average", "ignore_index", "reduce", "reduction",
    "label_smoothing",
)  # fmt: skip
KLDivLoss = make_module("KLDivLoss", F.kl_div, "size_average", "reduce", "reduction", "log_target")
MaxPool1d = make_module("MaxPool1d", F.max_pool1d, "kernel_size", "stride", "padding", "dilation")
MaxPool2d = make_module("MaxPool2d", F.max_pool2d, "kernel_size", "stride", "padding", "dilation")
AvgPool1d = make_module("AvgPool1d", F.avg_pool1d, "kernel_size", "stride", "padding")
AvgPool2d = make_module("AvgPool2d", F.avg_pool2d, "kernel_size", "stride", "padding")


class PReLU(Module):
    """x where positive, else a learnt multiple of it."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = Parameter(creating.full((num_parameters,), init))

    def forward(self, input: Tensor) -> Any:
        return F.prelu(input, self.weight)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients so that their norm, taken together, is at most max_norm; return the norm before.

    Raises:
        RuntimeError: with `error_if_nonfinite`, the norm is infinite or NaN.
    """
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p._grad for p in given if p._grad is not None]
    order = float(norm_type)
    if not grads:
        return creating.tensor(0.0)
    with no_grad():
        norms = [reducing.vector_norm(g, order) for g in grads]
        dtype = functools.reduce(dtypes.join, [n._a.dtype for n in norms])
        total: Tensor = reducing.vector_norm(stack([cast(n, dtype) for n in norms]), order)
        if error_if_nonfinite and not np.isfinite(total._a):
            raise RuntimeError(
                f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be "
                "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            )
        factor = ((total + 1e-6).reciprocal() * max_norm).clamp(max=1.0)
        for g in grads:
            g.mul_(factor)
    return total


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit each element of the gradients to [-clip_value, clip_value]."""
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    with no_grad():
        for p in given:
            if p._grad is not None:
                p._grad.clamp_(-clip_value, clip_value)
