"""torch.optim's names.

Previous folder: nn. Last of the eager layer.
"""

from __future__ import annotations

from tracegrad.lazy import lazy_names
from tracegrad.optim import lr_scheduler, swa_utils
from tracegrad.optim.lbfgs import LBFGS
from tracegrad.optim.optimizer import Optimizer
from tracegrad.optim.optimizers import (
    SGD,
    Adadelta,
    Adafactor,
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
    "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam",
    "RMSprop", "lr_scheduler", "swa_utils",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {},
    globals(),
    "docs/eager.md says what there is of torch's names",
    dict.fromkeys(("ASGD", "Rprop", "SparseAdam"), "write its step under torch.no_grad(), or use SGD, Adam or RMSprop"),
)
