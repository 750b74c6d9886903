"""The base of modules: parameters kept together with what is computed from them.

Reads and writes tensors. Previous: states.py; next: containers.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from tracegrad.nn.backward_hooks import BackwardHooks
from tracegrad.nn.parameter import Buffer, Parameter
from tracegrad.nn.states import Stateful
from tracegrad.runtime import dtypes
from tracegrad.runtime.creating import require_cpu
from tracegrad.runtime.gradients import reset_gradient
from tracegrad.runtime.operate import cast
from tracegrad.runtime.tape import RemovableHandle, add_hook
from tracegrad.runtime.tensor import Device, Tensor, is_differentiable


def _type_name(value: Any) -> str:
    return value.type_name() if type(value) is Tensor else type(value).__name__


class Module(Stateful):
    """Base of all modules: assign parameters and modules as attributes, and define `forward`."""

    training = True
    #: of the forward hooks those that take keyword arguments
    _with_keywords: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self._parameters: dict[str, Any] = {}
        self._buffers: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}
        self._transient: set[str] = set()
        self._forward_hooks: OrderedDict[int, Any] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._backward_hooks: OrderedDict[int, Any] = OrderedDict()
        self._backward_pre_hooks: OrderedDict[int, Any] = OrderedDict()

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
        elif isinstance(value, Buffer) and "_buffers" in self.__dict__:
            self.__dict__.pop(name, None)
            self._buffers[name] = value
            (self._transient.discard if vars(value)["persistent"] else self._transient.add)(name)
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
        if self._backward_hooks or self._backward_pre_hooks or self._forward_pre_hooks or self._forward_hooks:
            return self._call_with_hooks(args, keywords)
        return self.forward(*args, **keywords)

    def _call_with_hooks(self, args: Any, keywords: dict[str, Any]) -> Any:
        for number, hook in list(self._forward_pre_hooks.items()):
            if number in self._with_keywords:
                replaced = hook(self, args, keywords)
                if replaced is not None:
                    if not (isinstance(replaced, tuple) and len(replaced) == 2):
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                            f"but got {replaced}."
                        )
                    args, keywords = replaced
                continue
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        backward = None
        if self._backward_hooks or self._backward_pre_hooks:
            hooks, before = self._backward_hooks.values(), self._backward_pre_hooks.values()
            backward = BackwardHooks(self, list(hooks), list(before))
            args = backward.around_arguments(args)
        result = self.forward(*args, **keywords)
        for number, hook in list(self._forward_hooks.items()):
            given = (args, keywords) if number in self._with_keywords else (args,)
            replaced = hook(self, *given, result)
            if replaced is not None:
                result = replaced
        return result if backward is None else backward.around_results(result)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, result)`, or `hook(module, args, kwargs, result)`, after forward."""
        return self._add_hook(self._forward_hooks, hook, prepend, with_kwargs)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)`, or `hook(module, args, kwargs)`, before forward."""
        return self._add_hook(self._forward_pre_hooks, hook, prepend, with_kwargs)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the arguments are there.

        What it returns replaces grad_input. Arguments that are no tensors, or given by name, have None.
        """
        return self._add_hook(self._backward_hooks, hook, prepend, False)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the results are there.

        What it returns replaces them.
        """
        return self._add_hook(self._backward_pre_hooks, hook, prepend, False)

    def _add_hook(
        self, hooks: OrderedDict[int, Any], hook: Callable[..., Any], prepend: bool, with_kwargs: bool
    ) -> RemovableHandle:
        handle = add_hook(hooks, hook)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        if with_kwargs:
            self._with_keywords |= {handle.id}
        return handle

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

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all inside, with their paths."""
        memo = set() if memo is None else memo
        if remove_duplicate:
            if id(self) in memo:
                return
            memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

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

    def _named(
        self, place: str, recurse: bool, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        inside = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in inside:
            for name, tensor in getattr(module, place).items():
                if tensor is not None and id(tensor) not in seen:
                    if remove_duplicate:
                        seen.add(id(tensor))
                    yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield parameters with their paths, each once if `remove_duplicate`."""
        yield from self._named("_parameters", recurse, prefix, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield parameters, each once."""
        for _, parameter in self._named("_parameters", recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield buffers with their paths, each once if `remove_duplicate`."""
        yield from self._named("_buffers", recurse, prefix, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield buffers."""
        for _, buffer in self._named("_buffers", recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path.

        Raises:
            AttributeError: there is none.
        """
        module: Module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path, where one is, or without `strict` where its owner is.

        Raises:
            ValueError: the path is empty, or what is to be put there is no module.
            AttributeError: the path leads nowhere.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict or hasattr(owner, name):
            owner.get_submodule(name)
        setattr(owner, name, module)

    def _found(self, place: str, title: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        if name not in getattr(owner, place):
            raise AttributeError(f"`{name}` is not {title}")
        return getattr(owner, name)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path."""
        found: Parameter = self._found("_parameters", "an nn.Parameter", target)
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path."""
        found: Tensor = self._found("_buffers", "a buffer", target)
        return found

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
            reset_gradient(parameter, set_to_none)

    def apply(self, fn: Callable[[Module], None]) -> Module:
        """Call a function with this module and all inside, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, dtype: Any = None, **options: Any) -> Module:
        """Convert floats of parameters, their gradients and buffers to a dtype; refuse devices that there are not."""
        for device in (*[a for a in args if isinstance(a, str | Device)], options.get("device")):
            if device is not None:
                require_cpu(device)
        wanted = next((a for a in args if not isinstance(a, str | Device)), dtype)
        wanted = wanted.dtype if isinstance(wanted, Tensor) else wanted
        if wanted is not None and hasattr(wanted, "dtype"):
            kind = dtypes.numpy_dtype(wanted)
            if not is_differentiable(kind):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={wanted}"
                )
            for module in self.modules():
                for place in (module._parameters, module._buffers):
                    for tensor in place.values():
                        for each in (tensor, None if tensor is None else tensor._grad):
                            if each is not None and is_differentiable(each._a.dtype):
                                each._a = cast(each.detach(), kind)._a
        return self

    def to_empty(self, *, device: Any, recurse: bool = True) -> Module:
        """Return the module: its tensors are on the CPU already; other devices are refused."""
        return self.to(device)

    def double(self) -> Module:
        """Convert to float64."""
        return self.to(dtypes.float64)

    def float(self) -> Module:
        """Convert to float32."""
        return self.to(dtypes.float32)

    def half(self) -> Module:
        """Convert to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Module:
        """Convert to bfloat16."""
        return self.to(dtypes.bfloat16)

    def type(self, dst_type: Any) -> Module:
        """Convert to a dtype."""
        return self.to(dst_type)

    def cpu(self) -> Module:
        """Return the module: it is on the CPU."""
        return self

    def cuda(self, device: Any = None) -> Module:
        """Refuse: there is no such device."""
        return self.to("cuda")

    def __dir__(self) -> list[str]:
        inside = [*self._parameters, *self._buffers, *self._modules]
        return sorted({*super().__dir__(), *(name for name in inside if not name[:1].isdigit())})

    def extra_repr(self) -> str:
        """Return what stands in parentheses after the module's name."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{type(self).__name__}({extra})"
        return (
            f"{type(self).__name__}("
            + "".join(f"\n  {line}" for line in lines + children)
            + ("\n)" if lines or children else ")")
        )


def indented(text: str) -> str:
    """Return a text whose lines but the first are moved to the right."""
    return text.replace("\n", "\n  ")
