"""torch.utils.dlpack's names: memory that other libraries take, and theirs.

Reads tensors and arrays of other libraries.
"""

from __future__ import annotations

from typing import Any

from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors
from tracegrad.runtime.creating import from_dlpack
from tracegrad.runtime.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Return the memory of a tensor as a capsule."""
    return tensor.__dlpack__()
