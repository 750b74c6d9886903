"""What can be said about nodes and saved values: the node class, gradient edges, hooks on saved tensors.

Reads and writes the tape's modes. Previous: gradcheck.py; next: functional.py.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tracegrad.runtime.tape import Node, RemovableHandle, gradient_edge, mode, needs_grad
from tracegrad.runtime.tape import mode as tape_mode
from tracegrad.runtime.tensor import Tensor, wrap
from tracegrad.runtime.views import mark_written

__all__ = [
    "GradientEdge",
    "Node",
    "RemovableHandle",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def increment_version(tensor: Any) -> None:
    """Count a write into a tensor, or into each of several, that was done elsewhere."""
    tensors = (tensor,) if isinstance(tensor, Tensor) else tensor
    if not isinstance(tensors, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for each in tensors:
        if not each.is_inference():
            mark_written(each, "increment_version")


class GradientEdge(NamedTuple):
    """A node and the number of one of its results: where a gradient arrives."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return where the gradient of a tensor goes.

    Raises:
        RuntimeError: the tensor does not require grad.
    """
    if not needs_grad(tensor):
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node, number = gradient_edge(tensor)
    assert node is not None
    return GradientEdge(node, number)


class _Handles:
    """Takes several hooks away again; a context manager too."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hooks; nothing happens the second time."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all") -> _Handles:
    """Call a function with the gradients of several tensors, once per backward walk.

    Args:
        mode: "all": `fn(list of gradients)` is called when the last of them is there; None stands for those of tensors
            that the walk does not come to. "any": `fn(gradient)` is called with the first.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    wanted = [t for t in tensors if mode == "all" or t.requires_grad]
    nodes = [get_gradient_edge(t).node if t.requires_grad else None for t in wanted]
    key, lock = object(), threading.Lock()

    def arrive(number: int, gradient: Any) -> None:
        walk = tape_mode.walk
        assert walk is not None, "hooks on gradients are called in a backward walk"
        with lock:
            first = key not in walk.notes
            missing, found = walk.notes.setdefault(key, (set(), [None] * len(nodes)))
            if first:
                missing.update(k for k, node in enumerate(nodes) if walk.comes_to(node))
            missing.discard(number)
            found[number] = gradient
        if mode == "any" and first:
            fn(gradient)
        elif mode == "all" and not missing:
            fn(found)

    return _Handles([t.register_hook(functools.partial(arrive, k)) for k, t in enumerate(wanted)])


class saved_tensors_hooks:
    """Inside the with statement, `pack(tensor)` is kept instead of each saved tensor, and `unpack` gives it back."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pair = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if mode.saving_refused is not None:
            raise RuntimeError(mode.saving_refused)
        if not all(map(callable, self.pair)):
            raise TypeError("saved_tensors_hooks(): incompatible function arguments: two functions are needed")
        mode.saving = (*mode.saving, self.pair)

    def __exit__(self, *error: object) -> None:
        mode.saving = mode.saving[:-1]


class save_on_cpu(saved_tensors_hooks):
    """Keep copies of saved tensors: all memory is the CPU's."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda tensor: tensor.clone(), lambda tensor: tensor)


class _Spared:
    """A saved tensor of which a copy is made when its memory is written."""

    __slots__ = ("tensor", "__weakref__")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, storage = tensor, tensor._storage
        if storage.shielded is None:
            storage.shielded = weakref.WeakSet()
        storage.shielded.add(self)

    def part(self) -> None:
        """Keep the value as it is now."""
        self.tensor = wrap(self.tensor._a.copy())


_sparing: list[object] = []


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Inside the with statement saved tensors may be written: what was saved is copied before.

    The backward pass must be inside, too.
    """
    if _sparing:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    here = object()

    def unpack(spared: _Spared) -> Tensor:
        if here not in _sparing:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was "
                "originally recorded."
            )
        return spared.tensor

    _sparing.append(here)
    try:
        with saved_tensors_hooks(_Spared, unpack):
            yield
    finally:
        _sparing.clear()


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse hooks on saved tensors inside the with statement, with this message."""
    if mode.saving:
        raise RuntimeError(error_message)
    before, mode.saving_refused = mode.saving_refused, error_message
    try:
        yield
    finally:
        mode.saving_refused = before
