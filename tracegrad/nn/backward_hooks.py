"""Hooks of modules on the gradients that arrive at their results and leave at their arguments.

Reads and writes tensors. Previous: parameter.py; next: states.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tracegrad.autograd.function import Function
from tracegrad.runtime.tape import mode
from tracegrad.runtime.tensor import Tensor

Gradients = tuple[Any, ...]


class BackwardHookFunction(Function):
    """Tensors as they are: a node through which all their gradients go."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients


class BackwardHooks:
    """The hooks for one call of a module: a node before it and a node behind it.

    Args:
        hooks: `hook(module, grad_input, grad_output)`; what it returns replaces grad_input.
        before: `hook(module, grad_output)`; what it returns replaces grad_output.
    """

    def __init__(self, module: Any, hooks: Sequence[Callable[..., Any]], before: Sequence[Callable[..., Any]]) -> None:
        self.module, self.hooks, self.before = module, hooks, before
        self.arguments = self.results = 0
        self.argument_places: list[int] | None = None
        self.result_places: list[int] | None = None
        self.arrived: Gradients | None = None

    def around_arguments(self, arguments: Gradients) -> Gradients:
        """Return the arguments behind the node at which gradients leave."""
        self.arguments = len(arguments)
        found, self.argument_places = _through_node(arguments, self._leave)
        return found

    def around_results(self, results: Any) -> Any:
        """Return the results behind the node at which gradients arrive."""
        given = results if isinstance(results, tuple) else (results,)
        self.results = len(given)
        found, self.result_places = _through_node(given, self._arrive)
        return found if isinstance(results, tuple) else found[0]

    def _arrive(self, _: Any, gradients: Gradients) -> Gradients:
        assert self.result_places is not None
        arrived = _spread(self.result_places, gradients, self.results)
        for hook in self.before:
            replaced = hook(self.module, arrived)
            if replaced is not None:
                given = replaced if isinstance(replaced, tuple) else (replaced,)
                _check_count("pre hook", "grad_output", given, arrived)
                arrived = given
        if self.argument_places is not None:
            self.arrived = arrived
        else:
            self._leave_nowhere(arrived)
        return tuple(arrived[k] for k in self.result_places)

    def _leave_nowhere(self, arrived: Gradients) -> None:
        """Call the hooks of a module none of whose arguments requires grad."""
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients. See "
                "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module."
                "register_full_backward_hook for more details.",
                stacklevel=2,
            )
        for hook in self.hooks:
            replaced = hook(self.module, (None,) * self.arguments, arrived)
            if replaced is not None and not (isinstance(replaced, tuple) and all(g is None for g in replaced)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )

    def _leave(self, gradients: Gradients, _: Any) -> Gradients | None:
        if self.arrived is None:
            return None  # the gradient came by another way than the results, as in double backward
        assert self.argument_places is not None
        leaving = _spread(self.argument_places, gradients, self.arguments)
        for hook in self.hooks:
            replaced = hook(self.module, leaving, self.arrived)
            if replaced is not None:
                given = replaced if isinstance(replaced, tuple) else (replaced,)
                _check_count("hook", "grad_input", given, leaving)
                leaving = given
        self.arrived = None
        return tuple(leaving[k] for k in self.argument_places)


def _check_count(kind: str, name: str, given: Gradients, expected: Gradients) -> None:
    if len(given) != len(expected):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {name}, got {len(given)}, but expected {len(expected)}"
        )


def _spread(places: Sequence[int], values: Sequence[Any], size: int) -> Gradients:
    """Return a tuple of a size with values at places, None elsewhere."""
    known = dict(zip(places, values, strict=True))
    return tuple(known.get(k) for k in range(size))


def _through_node(values: Gradients, hook: Callable[..., Any]) -> tuple[Gradients, list[int] | None]:
    """Return values with the tensors among them behind a node with a hook, and their places; None if none needs it."""
    places = [k for k, value in enumerate(values) if isinstance(value, Tensor)]
    if not mode.grad or not any(values[k].requires_grad for k in places):
        return values, None
    passed = BackwardHookFunction.apply(*[values[k] for k in places])
    next(t.grad_fn for t in passed if t.grad_fn is not None).register_hook(hook)
    known = dict(zip(places, passed, strict=True))
    made = tuple(known.get(k, value) for k, value in enumerate(values))
    return made, places
