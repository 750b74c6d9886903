"""Tensors and states in files: `save` and `load`, in Python's pickle format.

Reads and writes files. Previous: printing.py; next: numpy_bridge.py. What is loaded holds data alone, unless the user
says that the file may run code.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

from tracegrad.runtime.tensor import public

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
    "tracegrad.runtime.creating": ("_rebuilt",),
    "tracegrad.runtime.tensor": ("Tensor", "Size"),
}


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
