"""States of modules: tensors by path, taken out and put back, and the hooks that see this.

Reads and writes the parameters and buffers of a module. Previous: backward_hooks.py; next: module.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tracegrad.nn.parameter import Parameter
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.tape import RemovableHandle, add_hook
from tracegrad.runtime.tensor import Tensor

#: last part of the key of what a module keeps beside tensors
_EXTRA_STATE = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """What a state and a module do not have in common."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Stateful:
    """What a module does with states.

    Attributes:
        _version: of the names of a state; states say it in their `_metadata`.
        _state_hooks: hooks by the moment at which they are called.
    """

    _version = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _transient: set[str]
    _state_hooks: Mapping[str, dict[int, Any]] = {}

    def _add_state_hook(self, moment: str, hook: Any) -> RemovableHandle:
        hooks = self.__dict__.setdefault("_state_hooks", {}).setdefault(moment, OrderedDict())
        return add_hook(hooks, hook)

    def _hooks_at(self, moment: str) -> list[Any]:
        return list(self._state_hooks.get(moment, {}).values())

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before a state is taken."""
        return self._add_state_hook("before taking", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after a state was taken, to change it in place."""

        def call(*given: Any) -> None:
            if hook(*given) is not None:
                raise RuntimeError("state_dict post-hook must return None")

        return self._add_state_hook("after taking", call)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call that too; what it returns replaces the state."""
        return self._add_state_hook("after taking", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before a state is put back.

        It gets (module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs).
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Call that without the module, or with it."""
        return self._add_state_hook("before loading", (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after a state was put back; it may change the lists of keys."""
        return self._add_state_hook("after loading", hook)

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return parameters and buffers by path; detached unless `keep_vars`."""
        state: Any = destination
        if state is None:
            state = OrderedDict()
            state._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = metadata
        for hook in self._hooks_at("before taking"):
            hook(self, prefix, keep_vars)
        for name, tensor in self._own_tensors().items():
            if tensor is not None:
                state[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._has_extra_state():
            state[prefix + _EXTRA_STATE] = self.get_extra_state()
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._hooks_at("after taking"):
            replaced = hook(self, state, prefix, metadata)
            state = state if replaced is None else replaced
        return state

    def _own_tensors(self) -> dict[str, Any]:
        own = {**self._parameters, **self._buffers}
        return {name: tensor for name, tensor in own.items() if name not in self._transient}

    def get_extra_state(self) -> Any:
        """Return what belongs to the state beside tensors; a module that has such defines this, and set_extra_state."""
        raise RuntimeError("the module does not define get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take what get_extra_state gave."""
        raise RuntimeError("the state has more than tensors, and the module does not define set_extra_state")

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not Stateful.get_extra_state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy parameters and buffers from a dict, or with `assign` put its tensors in their place.

        Raises:
            RuntimeError: names are missing or too many (with `strict`), or shapes differ.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        found, faults = IncompatibleKeys([], []), list[str]()
        metadata = getattr(state_dict, "_metadata", {})
        self._load_all(OrderedDict(state_dict), "", metadata, assign, found, faults)
        if strict:
            listed = [", ".join(f'"{name}"' for name in names) for names in found]
            kinds = zip(("Missing", "Unexpected"), listed, strict=True)
            faults[:0] = [f"{kind} key(s) in state_dict: {names}. " for kind, names in kinds if names]
        if faults:
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *faults]))
        return found

    def _load_all(
        self, state: Any, prefix: str, metadata: Any, assign: bool, found: IncompatibleKeys, faults: list[str]
    ) -> None:
        own = {**metadata.get(prefix[:-1], {}), **({"assign_to_params_buffers": True} if assign else {})}
        self._load_from_state_dict(state, prefix, own, True, *found, faults)
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}{name}."
                part = {key: value for key, value in state.items() if key.startswith(inner)}
                module._load_all(part, inner, metadata, assign, found, faults)
        for hook in self._hooks_at("after loading"):
            if hook(self, found) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Take the tensors of this module alone; a module that reads older states overrides this."""
        given = state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        for hook, with_module in self._hooks_at("before loading"):
            hook(*((self,) if with_module else ()), *given)
        own = {name: tensor for name, tensor in self._own_tensors().items() if tensor is not None}
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                fault = self._take(name, tensor, key, state_dict[key], "assign_to_params_buffers" in local_metadata)
                error_msgs += [] if fault is None else [fault]
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE
        if self._has_extra_state():
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        for key in state_dict if strict else ():
            first, dot, _ = key[len(prefix) :].partition(".")
            if key.startswith(prefix) and key != extra and first not in (self._modules if dot else own):
                unexpected_keys.append(key)

    def _take(self, name: str, tensor: Tensor, key: str, given: Any, assign: bool) -> str | None:
        """Take one tensor; return what is wrong with it."""
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(given)}"
            )
        if not tensor.dim() and given.shape == (1,):
            given = given[0]
        if given.shape != tensor.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape!r} from checkpoint, the shape in "
                f"current model is {tensor.shape!r}."
            )
        if assign:
            if isinstance(tensor, Parameter) and not isinstance(given, Parameter):
                given = Parameter(given, requires_grad=tensor.requires_grad)
            setattr(self, name, given)
        else:
            with no_grad():
                tensor.copy_(given)
        return None
