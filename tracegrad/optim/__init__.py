"""torch.optim's names.

Previous folder: nn. Last of the eager layer.
"""

from __future__ import annotations

from tracegrad.optim import lr_scheduler
from tracegrad.optim.lbfgs import LBFGS
from tracegrad.optim.optimizer import Optimizer
from tracegrad.optim.optimizers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    RAdam,
    RMSprop,
)
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors

__all__ = [
    "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam", "RMSprop",
    "lr_scheduler",
]  # fmt: skip
