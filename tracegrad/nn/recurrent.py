"""Recurrent layers: one node of the tape per step and layer.

Reads and writes tensors. Previous: layers.py; next: utils/rnn.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracegrad.frames import user_level
from tracegrad.nn import functional as F
from tracegrad.nn import init
from tracegrad.nn.module import Module
from tracegrad.nn.parameter import Parameter
from tracegrad.runtime import creating
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.operate import relu_of, sigmoid_of
from tracegrad.runtime.shaping import cat, reshape, stack, transpose, unbind, unsqueeze
from tracegrad.runtime.tape import apply_composition, retitled
from tracegrad.runtime.tensor import Tensor, wrap

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]


def _parts(gates: Any, count: int) -> list[Any]:
    size = gates.shape[-1] // count
    return [gates[..., k * size : (k + 1) * size] for k in range(count)]


def _from_state(h: Any, weight_hh: Any, bias: Any) -> Any:
    """Return what the state gives to all gates; `bias` has one entry or none."""
    return h @ weight_hh.T + bias[0] if bias else h @ weight_hh.T


def _plain(activate: Callable[[Any], Any]) -> Callable[..., Any]:
    def step(from_input: Any, h: Any, weight_hh: Any, *bias: Any) -> Any:
        return activate(from_input + _from_state(h, weight_hh, bias))

    return step


def _lstm(from_input: Any, h: Any, c: Any, weight_hh: Any, *bias: Any) -> Any:
    gates = from_input + _from_state(h, weight_hh, bias)
    size = c.shape[-1]
    enter, forget = _parts(sigmoid_of(gates[..., : 2 * size]), 2)
    new, out = np.tanh(gates[..., 2 * size : 3 * size]), sigmoid_of(gates[..., 3 * size :])
    c = forget * c + enter * new
    return out * np.tanh(c), c


def _lstm_projected(from_input: Any, h: Any, c: Any, weight_hh: Any, weight_hr: Any) -> Any:
    h, c = _lstm(from_input, h, c, weight_hh)
    return h @ weight_hr.T, c


def _gru(from_input: Any, h: Any, weight_hh: Any, *bias: Any) -> Any:
    from_state = _from_state(h, weight_hh, bias)
    size = 2 * h.shape[-1]
    reset, update = _parts(sigmoid_of(from_input[..., :size] + from_state[..., :size]), 2)
    new = np.tanh(from_input[..., size:] + reset * from_state[..., size:])
    return new + update * (h - new)


class _Kind(NamedTuple):
    """One kind of recurrence.

    Attributes:
        step: (what the input gives to all gates, states, weight_hh, bias_hh or nothing) -> states.
        gates, states: how many there are.
        sums: the gates see the sum of what input and state give alone.
    """

    step: Composition
    gates: int
    states: int
    sums: bool


_KINDS = {
    "tanh": _Kind(Composition("RnnTanhCell", _plain(np.tanh), title="TanhBackward0"), 1, 1, True),
    "relu": _Kind(Composition("RnnReluCell", _plain(relu_of), title="ReluBackward0"), 1, 1, True),
    "LSTM": _Kind(Composition("LstmCell", _lstm), 4, 2, True),
    "LSTM with projections": _Kind(Composition("LstmCell", _lstm_projected), 4, 2, True),
    "GRU": _Kind(Composition("GruCell", _gru, title="AddBackward0"), 3, 1, False),
}


def _from_input(kind: _Kind, x: Tensor, weights: list[Any]) -> tuple[Any, list[Any]]:
    """Return what the input gives to all gates, and the weights that a step needs after that."""
    weight_ih, weight_hh, *biases = weights
    if len(biases) < 2:
        return F.linear(x, weight_ih), [weight_hh, *biases]
    bias_ih, bias_hh, *projection = biases
    if kind.sums:
        return F.linear(x, weight_ih, bias_ih + bias_hh), [weight_hh, *projection]
    return F.linear(x, weight_ih, bias_ih), [weight_hh, bias_hh]


def _step(kind: _Kind, from_input: Tensor, states: tuple[Any, ...], weights: list[Any]) -> tuple[Any, ...]:
    """Return the states after one step; the first is the output."""
    made = apply_composition(kind.step, (), [from_input, *states, *weights])
    return made if isinstance(made, tuple) else (made,)


class _Recurrent(Module):
    """Weights of one step, under the names that torch gives them."""

    def __init__(self, kind: str, input_size: int, hidden_size: int, bias: bool, dtype: Any) -> None:
        super().__init__()
        if kind not in _KINDS:
            raise ValueError(f"Unknown nonlinearity '{kind}'. Select from 'tanh' or 'relu'.")
        self.kind, self.input_size, self.hidden_size, self.bias, self.dtype = kind, input_size, hidden_size, bias, dtype

    #: size of the states where they are projected, else 0
    proj_size = 0

    def _add_weights(self, suffix: str, input_size: int) -> None:
        rows, bound = _KINDS[self.kind].gates * self.hidden_size, self.hidden_size**-0.5 if self.hidden_size else 0.0
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, input_size), "weight_hh": (rows, self.proj_size or self.hidden_size),
        }  # fmt: skip
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if self.bias else {}
        shapes |= {"weight_hr": (self.proj_size, self.hidden_size)} if self.proj_size else {}
        for name, shape in shapes.items():
            made = Parameter(creating.empty(*shape, dtype=self.dtype))
            init.uniform_(made, -bound, bound)
            self.register_parameter(name + suffix, made)

    def _weights(self, suffix: str) -> list[Any]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if self.bias else 2]
        names += ("weight_hr",) if self.proj_size else ()
        return [self._parameters[name + suffix] for name in names]

    def _states(self, given: Any, shape: tuple[int, ...], like: Tensor) -> tuple[Any, ...]:
        """Return the states to begin with: those given, else zeros."""
        count = _KINDS[self.kind].states
        if given is None:
            shapes = (shape, (*shape[:-1], self.hidden_size))
            return tuple(wrap(np.zeros(s, like._a.dtype)) for s in shapes[:count])
        return (given,) if isinstance(given, Tensor) else tuple(given)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")


class RNNCellBase(_Recurrent):
    """One step of a recurrent layer."""

    def __init__(self, kind: str, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None) -> None:
        super().__init__(kind, input_size, hidden_size, bias, dtype)
        self._add_weights("", input_size)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        if input.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        *batch, size = input._a.shape
        if size != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {size} expected {self.input_size}")
        states = self._states(hx, (*batch, self.hidden_size), input)
        for number, state in enumerate(states):
            self._check_state(number, tuple(batch), state._a.shape)
        kind = _KINDS[self.kind]
        from_input, weights = _from_input(kind, input, self._weights(""))
        made = _step(kind, from_input, states, weights)
        return made if len(made) == 2 else made[0]

    def _check_state(self, number: int, batch: tuple[int, ...], shape: tuple[int, ...]) -> None:
        if batch and shape[0] != batch[0]:
            raise RuntimeError(f"Input batch size {batch[0]} doesn't match hidden{number} batch size {shape[0]}")
        if shape != (*batch, self.hidden_size):
            size = shape[min(len(batch), len(shape) - 1)]
            raise RuntimeError(f"hidden{number} has inconsistent hidden_size: got {size}, expected {self.hidden_size}")


class RNNCell(RNNCellBase):
    """h' = tanh(W x + b + V h + c)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", dtype: Any = None
    ) -> None:
        super().__init__(nonlinearity, input_size, hidden_size, bias, dtype)


class LSTMCell(RNNCellBase):
    """A step with a memory beside the state; gives both."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None) -> None:
        super().__init__("LSTM", input_size, hidden_size, bias, dtype)


class GRUCell(RNNCellBase):
    """A step whose gates say how much of the state is kept."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None) -> None:
        super().__init__("GRU", input_size, hidden_size, bias, dtype)


def _cell(kind: str, input: Tensor, hx: Any, weights: Sequence[Tensor | None]) -> Any:
    from_input, needed = _from_input(_KINDS[kind], input, [w for w in weights if w is not None])
    made = _step(_KINDS[kind], from_input, (hx,) if isinstance(hx, Tensor) else tuple(hx), needed)
    return made if len(made) == 2 else made[0]


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """Return state and memory after a step of LSTM."""
    return _cell("LSTM", input, hx, (w_ih, w_hh, b_ih, b_hh))


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """Return the state after a step of GRU."""
    return _cell("GRU", input, hx, (w_ih, w_hh, b_ih, b_hh))


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """Return tanh(W x + b + V h + c)."""
    return _cell("tanh", input, hx, (w_ih, w_hh, b_ih, b_hh))


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """Return relu(W x + b + V h + c)."""
    return _cell("relu", input, hx, (w_ih, w_hh, b_ih, b_hh))


#: options of layers that their text shows where they are not as usual
_OPTIONS = (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0), ("bidirectional", False))


class RNNBase(_Recurrent):
    """Layers of steps along a sequence.

    Input f[length, batch, input_size], or with the batch in front when `batch_first`, or without a batch; the result
    is the output of the last layer and the last state (for LSTM a pair) f[layers * directions, batch, hidden_size].
    """

    def __init__(
        self, kind: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(kind, input_size, hidden_size, bias, dtype)
        if not 0 <= float(dropout) <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=user_level(),
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        for name, count in (("hidden_size", hidden_size), ("num_layers", num_layers)):
            if count <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size and not kind.startswith("LSTM"):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if not 0 <= proj_size < max(hidden_size, 1):
            raise ValueError(
                "proj_size has to be smaller than hidden_size"
                if proj_size > 0
                else "proj_size should be a positive integer or zero to disable projections"
            )
        self.proj_size = proj_size
        self.kind = "LSTM with projections" if proj_size else kind
        self.num_layers, self.batch_first, self.dropout = num_layers, batch_first, float(dropout)
        self.bidirectional = bidirectional
        self.suffixes = [
            f"_l{layer}{end}" for layer in range(num_layers) for end in (("", "_reverse") if bidirectional else ("",))
        ]
        directions = 2 if bidirectional else 1
        for k, suffix in enumerate(self.suffixes):
            self._add_weights(suffix, input_size if k < directions else (proj_size or hidden_size) * directions)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        self._check_input(input)
        single = input.dim() == 2
        if not input._a.shape[1 if self.batch_first and not single else 0]:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        if hx is not None:
            hx = tuple(hx) if _KINDS[self.kind].states == 2 else (hx,)
            self._check_axes(single, [state.dim() for state in hx])
        if single:
            input = unsqueeze(input, 1)
            hx = None if hx is None else tuple(unsqueeze(state, 1) for state in hx)
        elif self.batch_first:
            input = transpose(input, 0, 1)
        shape = (len(self.suffixes), input._a.shape[1], self.proj_size or self.hidden_size)
        initial = self._states(hx, shape, input)
        self._check_states(shape, [state._a.shape for state in initial])
        for state in initial:
            if state._a.dtype != input._a.dtype:
                raise RuntimeError(
                    f"mat1 and mat2 must have the same dtype, but got {state.dtype.title} and {input.dtype.title}"
                )
        begins = [unbind(state, 0) for state in initial]
        directions = 2 if self.bidirectional else 1
        ends: list[tuple[Any, ...]] = []
        output: Any = input
        for layer in range(self.num_layers):
            if layer and self.dropout:
                output = F.dropout(output, self.dropout, self.training)
            made = []
            for k in range(layer * directions, (layer + 1) * directions):
                found, states = self._run(k, output, tuple(b[k] for b in begins), backwards=k % directions == 1)
                made.append(found)
                ends.append(states)
            output = made[0] if directions == 1 else cat(made, -1)
        last = tuple(stack(column) for column in zip(*ends, strict=True))
        if single:
            output, last = output.squeeze(1), tuple(h.squeeze(1) for h in last)
        elif self.batch_first:
            output = transpose(output, 0, 1)
            output = output if self.kind.startswith("LSTM") else retitled(output, "TransposeBackward1")
        return output, last if len(last) == 2 else last[0]

    def _check_input(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            name, tensor = self.kind.split()[0], ""
            if name in ("tanh", "relu"):
                name, tensor = "RNN", " tensor"
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D{tensor} instead")
        if input._a.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input._a.shape[-1]}"
            )

        weight = self._weights(self.suffixes[0])[0]
        if input._a.dtype != weight._a.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )

    def _check_axes(self, single: bool, found: list[int]) -> None:
        """Check that states have as many axes as the input."""
        count = 2 if single else 3
        if any(n != count for n in found):
            kind = "unbatched 2-D" if single else "batched 3-D"
            both = f"hx and cx should also be {count}-D but got ({', '.join(f'{n}-D' for n in found)}) tensors"
            one = f"hx should also be {count}-D but got {found[0]}-D tensor"
            raise RuntimeError(f"For {kind} input, {both if len(found) == 2 else one}")

    def _check_states(self, shape: tuple[int, ...], found: list[tuple[int, ...]]) -> None:
        for number, (wanted, given) in enumerate(zip((shape, (*shape[:-1], self.hidden_size)), found, strict=False)):
            if wanted != given:
                name = "hidden" if len(found) == 1 else f"hidden[{number}]"
                raise RuntimeError(f"Expected {name} size {wanted}, got {list(given)}")

    def _run(
        self, number: int, input: Tensor, states: tuple[Any, ...], *, backwards: bool
    ) -> tuple[Any, tuple[Any, ...]]:
        """Return the outputs of one layer in one direction, and its states at the end."""
        kind, shape = _KINDS[self.kind], input._a.shape
        from_input, weights = _from_input(
            kind, reshape(input, (math.prod(shape[:-1]), shape[-1])), self._weights(self.suffixes[number])
        )
        steps, outputs = unbind(reshape(from_input, (*shape[:-1], from_input._a.shape[1]))), []
        for step in reversed(steps) if backwards else steps:
            states = _step(kind, step, states, weights)
            outputs.append(states[0])
        return stack(outputs[::-1] if backwards else outputs), states

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + (f", proj_size={self.proj_size}" if self.proj_size else "")
        for name, usual in _OPTIONS:
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """Layers of h' = tanh(W x + b + V h + c), or relu."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", *more: Any,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(nonlinearity, input_size, hidden_size, num_layers, *more, **options)


class LSTM(RNNBase):
    """Layers with a memory beside the state."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__("LSTM", *given, **options)


class GRU(RNNBase):
    """Layers whose gates say how much of the state is kept."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__("GRU", *given, **options)
