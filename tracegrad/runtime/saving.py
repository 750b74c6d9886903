"""Copies of tensors, and tensors and states in files: `save` and `load`, in Python's pickle format.

Reads and writes files. Previous: printing.py; next: numpy_bridge.py. What is loaded holds data alone, unless the user
says that the file may run code. Tensors that share memory do so in a copy too: it holds the memory once.
"""

from __future__ import annotations

import copy
import io
import os
import pickle
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.runtime.mirrors import address_of, bytes_of, owner_of
from tracegrad.runtime.tape import mode, needs_grad
from tracegrad.runtime.tensor import Array, Storage, Tensor, fill, method, public

#: classes and functions that make data, by module; names of NumPy's are those of NumPy 2
_SAFE = {
    "builtins": ("bytearray", "complex", "frozenset", "set", "slice", "range"),
    "collections": ("OrderedDict", "defaultdict", "Counter"),
    "_codecs": ("encode",),
    "numpy": ("ndarray", "dtype"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
    "ml_dtypes": ("bfloat16",),
    "tracegrad.nn.parameter": ("Parameter",),
    "tracegrad.runtime.saving": ("_Memory", "_restored"),
    "tracegrad.runtime.tensor": ("Size", "Storage", "Tensor"),
}

#: attributes that say how a tensor stands to others, which its copy does not
_RELATIONS = ("_detached_from", "_follows", "_reshaped", "_retained", "_tangent")


class _Memory:
    """The memory that tensors share, as one object: so that a copy of them, or a file, holds it once.

    Attributes:
        owner: an array over all of it.
    """

    __slots__ = ("__weakref__", "owner")

    def __init__(self, owner: Array) -> None:
        self.owner = owner

    def __reduce__(self) -> Any:
        return _Memory, (bytes_of(self.owner),)


#: by the id of an array that owns memory
_memories: weakref.WeakValueDictionary[int, _Memory] = weakref.WeakValueDictionary()


def _parts(tensor: Tensor) -> tuple[Any, ...]:
    """Return what a tensor is made of: memory, count of writes, dtype, shape, place and strides in bytes."""
    owner, a = owner_of(tensor._a), tensor._a
    memory = _memories.get(id(owner))
    if memory is None:
        memory = _memories[id(owner)] = _Memory(owner)
    offset = address_of(a) - address_of(bytes_of(owner)) if a.size else 0
    return memory, tensor._storage, a.dtype, a.shape, offset, a.strides


def _restored(
    cls: Any, requires_grad: bool, memory: _Memory, storage: Storage, dtype: Any, shape: Sequence[int], offset: int,
    strides: Sequence[int],
) -> Tensor:  # fmt: skip
    """Return a leaf over a part of memory.

    Raises:
        ValueError: the part is not inside, or holds addresses of objects, which bytes from a file cannot be.
    """
    if dtype.hasobject:
        raise ValueError(f"tensors hold numbers, not {dtype}")
    made = fill(object.__new__(cls), np.ndarray(shape, dtype, bytes_of(memory.owner), offset, strides))
    made._storage, made._requires_grad, made._inference = storage, requires_grad, bool(mode.inference)
    return made


def attributes_of(tensor: Tensor) -> dict[str, Any]:
    """Return the attributes that a copy has too."""
    return {name: value for name, value in tensor.__dict__.items() if name not in _RELATIONS}


def require_leaf(tensor: Tensor) -> None:
    """Check that a tensor may be copied deeply.

    Raises:
        RuntimeError: operations made it.
    """
    if tensor._node is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )


@method("__deepcopy__")
def deep_copy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Copy a leaf, its memory, its gradient and its flags."""
    require_leaf(self)
    memory, storage, *place = _parts(self)
    copies = (copy.deepcopy(part, memo) for part in (memory, storage))
    made = memo[id(self)] = _restored(type(self), self._requires_grad, *copies, *place)
    made.__dict__.update(attributes_of(self))
    if self._grad is not None:
        made._grad = copy.deepcopy(self._grad if self._grad._node is None else self._grad.detach(), memo)
    return made


@method("__reduce_ex__")
def reduce_ex(self: Tensor, protocol: int) -> Any:
    """Pickle a tensor; what was a result becomes a leaf."""
    return _restored, (type(self), needs_grad(self), *_parts(self)), attributes_of(self) or None


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _SAFE.get(module, ()):
            raise pickle.UnpicklingError(
                f"Weights only load failed. Unsupported global: GLOBAL {module}.{name} was not an allowed global by "
                "default.\n  help: load(..., weights_only=False) if you trust the file: it may run any code"
            )
        return super().find_class(module, name)


@public()
def save(obj: Any, f: Any) -> None:
    """Write an object, such as a state_dict, to a path or an open binary file."""
    if isinstance(f, str | os.PathLike):
        with open(f, "wb") as file:
            pickle.dump(obj, file, protocol=4)
    else:
        pickle.dump(obj, f, protocol=4)


@public()
def load(f: Any, map_location: Any = None, *, weights_only: bool = True) -> Any:
    """Read what `save` wrote, from a path or an open binary file.

    Args:
        weights_only: refuse all but tensors, numbers, texts and containers of these.

    Raises:
        pickle.UnpicklingError: the file holds something else.
    """
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            data = file.read()
    else:
        data = f.read()
    reader: Any = _DataUnpickler if weights_only else pickle.Unpickler
    return reader(io.BytesIO(data)).load()
