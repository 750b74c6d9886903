"""torch.nn.utils.rnn's names: sequences of different lengths in one tensor.

Previous: recurrent.py; next: parametrize.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.nn import functional as F
from tracegrad.runtime.shaping import stack, transpose
from tracegrad.runtime.tape import retitled
from tracegrad.runtime.tensor import Tensor


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Return sequences f[length, ...], made equally long, as f[longest, batch, ...]; the batch in front if wanted."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(s._a.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        missing = longest - s._a.shape[0]
        ends = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(F.pad(s, (*(0, 0) * (s._a.ndim - 1), *ends), value=padding_value) if missing else s)
    return retitled(stack(padded, 0 if batch_first else 1), "CopySlices")


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Any]:
    """Return the sequences of given lengths in a padded tensor."""
    rows = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    return [row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)]
