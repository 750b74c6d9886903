"""torch.nn's names, thin over runtime/.

Previous folder: autograd; next: optim.
"""

from __future__ import annotations

from tracegrad.nn import functional, init, modules, utils
from tracegrad.nn.modules import *  # noqa: F403
from tracegrad.nn.modules import Module, Parameter
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors

__all__ = ["Module", "Parameter", "functional", "init", "modules", "utils"]
