"""Checkpoints: what a function saves for its backward pass is computed again there, instead of being kept.

Reads and writes the tape's modes. Next: __init__.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tracegrad.autograd.function import Function
from tracegrad.autograd.graph import saved_tensors_hooks
from tracegrad.runtime.creating import get_rng_state, set_rng_state
from tracegrad.runtime.gradients import backward, enable_grad
from tracegrad.runtime.tape import mode
from tracegrad.runtime.tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]


class CheckpointError(RuntimeError):
    """The function did something else when it was run again."""


@contextmanager
def _rng_state(state: Tensor | None) -> Iterator[None]:
    """Put the generator into a state inside the with statement, unless that is None."""
    before = get_rng_state()
    if state is not None:
        set_rng_state(state)
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(before)


class _Complete(BaseException):
    """All values that were saved are there again: the rest of the function need not run."""


class _Run:
    """One run of a function whose saved values are computed again by running it once more per backward walk."""

    def __init__(self, run: Callable[[], Any], state: Tensor | None) -> None:
        self.run, self.state = run, state
        self.count = 0

    def pack(self, tensor: Tensor) -> int:
        self.count += 1
        return self.count - 1

    def unpack(self, number: int) -> Tensor:
        walk = mode.walk
        found: list[Tensor] | None = None if walk is None else walk.notes.get(self)
        if found is None:
            found = self.again()
            if walk is not None:
                walk.notes[self] = found
        return found[number]

    def again(self) -> list[Tensor]:
        found: list[Tensor] = []

        def keep(tensor: Tensor) -> Tensor:
            found.append(tensor.detach())
            if len(found) == self.count:
                raise _Complete
            return tensor

        walk, mode.walk = mode.walk, None
        try:
            with saved_tensors_hooks(keep, lambda tensor: tensor), enable_grad(), _rng_state(self.state):
                self.run()
        except _Complete:
            pass
        finally:
            mode.walk = walk
        if len(found) != self.count:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {self.count}\nNumber of tensors saved during "
                f"recomputation: {len(found)}."
            )
        return found


class CheckpointFunction(Function):
    """A function that is recorded as one node, and run again with a graph in the backward pass."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], state: Tensor | None, *args: Any) -> Any:
        ctx.run, ctx.rng_state = function, state
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.others = [None if k in ctx.places else a for k, a in enumerate(args)]
        ctx.save_for_backward(*[args[k] for k in ctx.places])
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        walk = mode.walk
        if walk is not None and walk.needed is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        args = list(ctx.others)
        for k, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[k] = tensor.detach().requires_grad_(tensor.requires_grad)
        with enable_grad(), _rng_state(ctx.rng_state):
            made = ctx.run(*args)
        outs = made if isinstance(made, tuple) else (made,)
        pairs = [
            (out, g)
            for out, g in zip(outs, gradients, strict=True)
            if isinstance(out, Tensor) and out.requires_grad and g is not None
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([out for out, _ in pairs], [g for _, g in pairs])
        return (None, None, *[a.grad if isinstance(a, Tensor) else None for a in args])


def _asked(use_reentrant: bool | None, name: str) -> bool:
    if use_reentrant is None:
        warnings.warn(
            f"torch.utils.{name}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True.",
            stacklevel=3,
        )
    return use_reentrant is None or use_reentrant


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True,
    **keywords: Any,
) -> Any:  # fmt: skip
    """Return function(*args, **keywords), without keeping what its backward pass needs: that is computed again there.

    Args:
        use_reentrant: the function is one node, that runs a backward pass of its own; else (better) its nodes are
            recorded as usual, and only the saved values are computed again.
        preserve_rng_state: random numbers are the same when the function is run again.
    """
    reentrant = _asked(use_reentrant, "checkpoint")
    state = get_rng_state() if preserve_rng_state else None
    if reentrant:
        if keywords:
            raise ValueError("Unexpected keyword arguments: " + ",".join(keywords))
        if mode.grad and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
        return CheckpointFunction.apply(function, state, *args)
    run = _Run(lambda: function(*args, **keywords), state)
    with saved_tensors_hooks(run.pack, run.unpack):
        return function(*args, **keywords)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True
) -> Any:
    """Return what functions, or the modules of a Sequential, make of an input one after the other.

    Args:
        segments: so many parts of nearly one length are checkpoints, but the last is not.
    """
    reentrant = _asked(use_reentrant, "checkpoint.checkpoint_sequential")
    steps = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(steps) // segments

    def chain(part: Sequence[Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in part:
                x = step(x)
            return x

        return run

    for k in range(segments - 1):
        part = chain(steps[k * size : (k + 1) * size])
        input = checkpoint(part, input, use_reentrant=reentrant, preserve_rng_state=preserve_rng_state)
    return chain(steps[(segments - 1) * size :])(input)
