"""torch.nn's names, thin over runtime/.

Previous folder: autograd; next: optim.
"""

from __future__ import annotations

from tracegrad.nn import functional, init, layers, losses, modules, recurrent, resampling, utils
from tracegrad.nn.layers import *  # noqa: F403
from tracegrad.nn.modules import *  # noqa: F403
from tracegrad.nn.modules import Module, Parameter
from tracegrad.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors

__all__ = [
    "GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "Module", "Parameter", "RNNBase", "RNNCell", "RNNCellBase",
    "functional", "init", "layers", "losses", "modules", "recurrent", "resampling", "utils",
]  # fmt: skip
