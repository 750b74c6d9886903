"""The base of optimizers: groups of parameters, state, hooks, and saving.

Reads `.grad`, writes parameters. First file of optim/; next: optimizers.py.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.runtime.gradients import enable_grad, reset_gradient
from tracegrad.runtime.tape import RemovableHandle, add_hook, part_saved
from tracegrad.runtime.tensor import Array, Tensor, is_differentiable, wrap
from tracegrad.runtime.views import mark_written

Hook = Callable[..., Any]


def real_parts(a: Array) -> Array:
    """Return an array, or of complex numbers a view with a last axis for the real and the imaginary part."""
    return a[..., None].view(a.real.dtype) if np.iscomplexobj(a) else a


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """Have a step call the optimizer's hooks, unless it is the step of a base class called by another."""

    @functools.wraps(step)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        if type(self).step is not call:
            return step(self, *args, **keywords)
        given = (self, *args)
        for hook in list(self._before.values()):
            replaced = hook(self, given, keywords)
            if replaced is not None:
                given, keywords = replaced
        made = step(*given, **keywords)
        if self._has_stepped is not None:
            self._has_stepped = True
        for hook in list(self._after.values()):
            hook(self, given, keywords)
        return made

    return call


class Optimizer:
    """Base of all optimizers.

    Attributes:
        param_groups: dicts with `params` and the options for them.
        state: per parameter what is kept between steps.
        _has_stepped: since there is a schedule; None before.
    """

    #: options that choose between torch's implementations; there is one here
    implementation: tuple[str, ...] = ()

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + params.type_name()
            )
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self._before: dict[int, Hook] = {}
        self._after: dict[int, Hook] = {}
        self._has_stepped: bool | None = None
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in cls.__dict__:
            cls.step = _hooked(cls.__dict__["step"])  # type: ignore[method-assign]

    def _implementation(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options that choose between torch's implementations.

        Raises:
            TypeError: one is unknown.
            NotImplementedError: steps shall be differentiable.
        """
        for name in options:
            if name not in self.implementation:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
        if options.get("differentiable"):
            raise NotImplementedError("steps of optimizers are not recorded: write the step as operations on tensors")
        return {name: None if name in ("foreach", "fused") else False for name in self.implementation} | options

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, or pairs of names and parameters, with options of their own."""
        params = param_group["params"]
        made = [params] if isinstance(params, Tensor) else list(params)
        named = [isinstance(p, tuple) for p in made]
        group = {**self.defaults, **param_group}
        if any(named):
            if not all(named):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            group = {"param_names": [name for name, _ in made], **group}
            made = [p for _, p in made]
        if self.param_groups and ("param_names" in self.param_groups[0]) != any(named):
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {'with' if any(named) else 'without'} names to the optimizer"
            )
        for p in made:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if p._node is not None:
                raise ValueError("can't optimize a non-leaf Tensor")
        known = {p for group in self.param_groups for p in group["params"]}
        if any(p in known for p in made):
            raise ValueError("some parameters appear in more than one parameter group")
        if len(set(made)) != len(made):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error",
                stacklevel=3,
            )
        self.param_groups.append({**group, "params": made})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                reset_gradient(p, set_to_none)

    @_hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters once; `closure` computes the loss anew."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            options = group if not isinstance(group.get("lr"), Tensor) else {**group, "lr": float(group["lr"])}
            for p in group["params"]:
                if p._grad is not None:
                    gradient = p._grad._a
                    if group.get("maximize"):
                        gradient = -gradient
                    part_saved(p)
                    state = self.state.get(p, {})
                    self.update(p._a, gradient, state, options)
                    if state:
                        self.state[p] = state
                    mark_written(p, f"{type(self).__name__}.step")
        return loss

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change one parameter in place."""
        raise NotImplementedError

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; what it returns replaces both."""
        return add_hook(self._before, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._after, hook)

    def state_dict(self) -> dict[str, Any]:
        """Return options and state, parameters replaced by numbers."""
        numbers = {p: k for k, p in enumerate(p for g in self.param_groups for p in g["params"])}
        return {
            "state": {numbers.get(p, p): s for p, s in self.state.items()},
            "param_groups": [{**g, "params": [numbers[p] for p in g["params"]]} for g in self.param_groups],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and state.

        Raises:
            ValueError: the groups have other numbers of parameters.
        """
        given = state_dict["param_groups"]
        if len(given) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(self.param_groups, given, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        params = {
            number: p
            for own, loaded in zip(self.param_groups, given, strict=True)
            for number, p in zip(loaded["params"], own["params"], strict=True)
        }
        self.state = defaultdict(dict)
        for key, kept in state_dict["state"].items():
            p = params.get(key, key)
            self.state[p] = _like_parameter(p, kept)
        for group, loaded in zip(self.param_groups, given, strict=True):
            group.update(copy.deepcopy({k: v for k, v in loaded.items() if k != "params"}))

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            text += "".join(f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params")
        return text + ")"


def _like_parameter(p: Any, kept: Any) -> Any:
    """Return loaded state with its floats in the dtype of the parameter; the number of steps stays as it is."""
    if not isinstance(p, Tensor) or not isinstance(kept, dict) or not is_differentiable(p._a.dtype):
        return kept
    return {
        name: wrap(np.asarray(value._a, p._a.dtype))
        if isinstance(value, Tensor) and name != "step" and is_differentiable(value._a.dtype)
        else value
        for name, value in kept.items()
    }
