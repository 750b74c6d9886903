"""torch.nn's names, thin over runtime/.

Previous folder: autograd; next: optim.
"""

from __future__ import annotations

from tracegrad.lazy import lazy_names
from tracegrad.nn import functional, init, layers, losses, module, modules, parameter, recurrent, resampling, utils
from tracegrad.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from tracegrad.nn.layers import *  # noqa: F403
from tracegrad.nn.module import Module
from tracegrad.nn.modules import *  # noqa: F403
from tracegrad.nn.parameter import Buffer, Parameter
from tracegrad.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors

__all__ = [
    "GRU", "LSTM", "RNN", "Buffer", "GRUCell", "LSTMCell", "Module", "ModuleDict", "ModuleList", "Parameter",
    "ParameterDict", "ParameterList", "RNNBase", "RNNCell", "RNNCellBase", "Sequential", "functional", "init",
    "layers", "losses", "module", "modules", "parameter", "recurrent", "resampling", "utils",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {},
    globals(),
    "docs/eager.md says what there is of torch's names",
    {
        **{
            f"Transformer{part}": "write it as a Module, with MultiheadAttention, Linear, LayerNorm and Dropout"
            for part in ("", "Encoder", "Decoder", "EncoderLayer", "DecoderLayer")
        },
        "DataParallel": "there is one device; threads of one process share the parameters of a module",
    },
)
