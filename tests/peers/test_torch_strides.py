"""Strides of views and of results over operands in random layouts, against torch.

Strides of axes of size 1 are compared for views alone: no element depends on them, and torch's follow from how the
operation is written.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

# ruff: noqa: E501
VIEWS = (
    "x[0]", "x[:, 0]", "x[..., None]", "x[None]", "x[:1]", "x[None, 1:, None]", "x[0, None]", "x.squeeze()", "x.unsqueeze(0)", "x.unsqueeze(1)",
    "x.unsqueeze(-1)", "x.transpose(0, -1)", "x.mT", "x.permute(*range(x.dim())[::-1])", "x.diagonal()", "x.unfold(0, 1, 1)",
    "x.split(1, 0)[0]", "x.unbind(0)[0]", "x.select(-1, 0)", "x.narrow(0, 0, 1)", "x.expand(2, *x.shape)", "x.view(-1)",
    "x.view(*x.shape, 1)", "x.view(1, *x.shape)", "x.view(x.shape)", "x.reshape(-1)", "x.flatten(0, 1)", "x.unflatten(0, (1, -1))",
    "x.movedim(0, -1)", "x.data", "x.detach()", "T.broadcast_tensors(x, y)[0]", "x.expand_as(x)",
)  # fmt: skip
RESULTS = (
    "x + y", "x * y", "x / y", "2 / x", "x - s", "s * x", "-x", "x.exp()", "x.sigmoid()", "x.relu()", "T.where(x > 1, x, y)",
    "T.where(x > 1, x, s)", "x.clamp(0, 1)", "x ** 2", "x.clone()", "x.contiguous()", "T.maximum(x, y)", "x > y", "x.isnan()",
    "x.double()", "x.to(T.float64) + y", "T.zeros_like(x)", "T.empty_like(x)", "T.full_like(x, 3)", "T.rand_like(x)", "x.sum(0)",
    "x.sum(0, keepdim=True)", "x.mean(-1)", "x.amax(0)", "x.max(0).values", "x.max(-1).indices", "x.argmax(0)", "x.var(0)",
    "x.prod(0)", "x.logsumexp(0)", "x.cumsum(0)", "x.cumprod(-1)", "x.sort(0).values", "x.sort(-1).indices", "x.topk(1, 0).values",
    "x.softmax(0)", "x.log_softmax(-1)", "F.gelu(x)", "F.softplus(x)", "F.elu(x)", "F.mse_loss(x, y, reduction='none')",
    "F.dropout(x, 0.5)", "x @ y.mT", "T.cat([x, y], 0)", "T.stack([x, y], -1)", "x[[0, 0]]", "x[:, [0, 0]]", "x[..., [0, 0]]",
    "x[[0, 0], [0, 0]]", "x[None, :, [0]]", "x[x > 1]", "x.index_select(0, T.tensor([0, 0]))", "x.gather(0, T.zeros_like(x, dtype=T.int64))",
    "x.masked_fill(x > 1, 1)", "x.flip(0)", "x.roll(1, 0)", "x.tril()", "x.repeat(*[2] * x.dim())", "x.repeat_interleave(2, 0)",
    "x.lerp(y, 0.3)", "T.addcmul(x, x, y)", "x.norm(dim=0)", "x.clone().mul_(2)", "x.clone().add_(y)", "x.diff(dim=0)",
    "x.cummax(0).values", "x.argsort(0)", "T.atan2(x, y)", "x.logical_not()", "x.any(0)", "x.all(-1)",
    "x.clone(memory_format=T.contiguous_format)", "F.normalize(x, dim=-1)", "F.layer_norm(x, x.shape[-1:])", "F.pad(x, (1, 1))",
    "F.one_hot(x.long())", "F.embedding(x.long(), T.ones(9, 3))",
)  # fmt: skip


EMPTY = (
    "T.empty(0, 3)", "T.zeros(2, 0, 3)", "T.tensor([])", "T.tensor([[]])", "T.arange(0)", "T.rand(0, 4)", "T.ones(0, 3) + 1",
    "T.ones(0, 3).unsqueeze(1)", "T.ones(2, 0, 3).squeeze()", "T.ones(0, 3).detach()", "T.ones(0, 3).double()",
    "T.ones(4, 3)[:, :0]", "T.ones(4, 3)[:0]", "T.ones(0, 3).sum(1)", "T.ones(3, 0) @ T.ones(0, 4)", "T.ones(0, 3).clone()",
    "T.ones(5, 4)[2:2, 1:3]", "T.ones(0, 3).new_zeros(0, 5)", "T.cat([T.ones(0, 3), T.ones(0, 3)])", "T.ones(0, 3).flatten()",
)  # fmt: skip


@pytest.mark.parametrize("text", EMPTY)
def test_strides_of_empty_tensors(text: str) -> None:
    assert facts(tg, text, None, None, True) == facts(torch, text, None, None, True)


def draw_layout(rng: random.Random, shape: list[int]) -> tuple[list[int], list[tuple[str, Any]]]:
    """Return the shape of a row-major tensor, and steps that make a tensor of `shape` of it."""
    kind = rng.choice(["plain", "permute", "slice", "expand", "slice permute", "expand permute"])
    steps: list[tuple[str, Any]] = []
    base = list(shape)
    if "expand" in kind:
        base = [1 if rng.random() < 0.5 else n for n in base]
        steps.append(("expand", list(shape)))
    if "slice" in kind:
        cuts = [rng.choice([(None, None, None), (1, None, None), (0, n, None), (None, None, 2)]) for n in base]
        grown = {(None, None, None): (1, 0), (1, None, None): (1, 1), (None, None, 2): (2, 0)}
        steps.insert(0, ("slice", cuts))
        base = [grown.get(c, (1, 2))[0] * n + grown.get(c, (1, 2))[1] for n, c in zip(base, cuts, strict=True)]
    if "permute" in kind:
        order = list(range(len(base)))
        rng.shuffle(order)
        steps.insert(0, ("permute", order))
        base = [base[order.index(k)] for k in range(len(base))]
    return base, steps


def build(T: Any, values: np.ndarray, steps: list[tuple[str, Any]]) -> Any:
    made = T.tensor(values)
    for name, given in steps:
        made = made[tuple(slice(*cut) for cut in given)] if name == "slice" else getattr(made, name)(*given)
    return made


def facts(T: Any, text: str, x: Any, y: Any, exact: bool) -> Any:
    try:
        made = eval(text, {"T": T, "F": T.nn.functional, "x": x, "y": y, "s": T.tensor(2.0)})
    except Exception as error:
        return type(error).__name__
    strides = tuple(s if exact or n != 1 else 0 for s, n in zip(made.stride(), made.shape, strict=True))
    return tuple(made.shape), strides, made.is_contiguous(), str(made.dtype).removeprefix("torch.")


@pytest.mark.filterwarnings("ignore:.*degrees of freedom", "ignore:Using a target size")
@pytest.mark.parametrize("text", [*VIEWS, *RESULTS])
def test_strides(text: str) -> None:
    compared = 0
    for k in range(24):
        rng = random.Random(f"{text} {k}")
        rank = rng.choice([2, 2, 3, 3, 4])
        shape = [3] * rank if rng.random() < 0.3 else [rng.choice([1, 2, 3, 4]) for _ in range(rank)]
        other = [1 if rng.random() < 0.15 else n for n in shape][rng.choice([0, 0, 0, 1]) :]
        (x_base, x_steps), (y_base, y_steps) = draw_layout(rng, shape), draw_layout(rng, other)
        drawn = np.random.default_rng(k)
        x_values, y_values = (drawn.uniform(0.2, 2, s).astype(np.float32) for s in (x_base, y_base))
        told = []
        for T in (torch, tg):
            x, y = build(T, x_values, x_steps), build(T, y_values, y_steps)
            told.append((tuple(x.stride()), tuple(y.stride()), facts(T, text, x, y, text in VIEWS)))
        assert told[0] == told[1], (shape, x_steps, other, y_steps)
        compared += not isinstance(told[0][2], str)
    assert compared > 4
