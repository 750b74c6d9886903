"""torch.utils' names.

Previous folder: optim.
"""

from __future__ import annotations

from tracegrad.lazy import lazy_names
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors
from tracegrad.utils import checkpoint, data, dlpack

__all__ = ["checkpoint", "data", "dlpack"]

__getattr__ = lazy_names(
    __name__,
    {},
    globals(),
    "docs/eager.md says what there is of torch's names",
    {"tensorboard": "write what you want to see with a library of your choice; loss.item() is a float"},
)
