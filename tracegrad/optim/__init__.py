"""torch.optim's names.

Previous folder: nn. Last of the eager layer.
"""

from __future__ import annotations

from tracegrad.optim import lr_scheduler
from tracegrad.optim.optimizers import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
