"""Modules and functions take batches of no elements as torch's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")


def outcome(T: Any, make: Callable[[Any], Any], *shapes: tuple[int, ...]) -> list[Any]:
    """Return the shapes of the results of a module and of gradients, and its gradients and buffers, or the error."""
    T.manual_seed(0)
    module = make(T.nn)
    inputs = [T.ones(shape, requires_grad=True) for shape in shapes]
    try:
        results = module(*inputs)
    except (RuntimeError, ValueError) as error:
        return [type(error), str(error).split("\n")[0]]
    found: list[Any] = []
    waiting = [results]
    while waiting:
        value = waiting.pop()
        if isinstance(value, tuple):
            waiting.extend(value)
        else:
            found.append(value)
    sum(value.sum() for value in found).backward()
    gradients = [x.grad for x in inputs]
    return [
        [tuple(value.shape) for value in found],
        [None if ct is None else tuple(ct.shape) for ct in gradients],
        {name: None if p.grad is None else p.grad.tolist() for name, p in module.named_parameters()},
        {name: b.tolist() for name, b in module.named_buffers()},
    ]


CASES: list[tuple[Any, ...]] = [
    (lambda nn: nn.BatchNorm1d(2), (0, 2)), (lambda nn: nn.BatchNorm1d(2), (0, 2, 3)),
    (lambda nn: nn.BatchNorm1d(2), (4, 2, 0)),
    (lambda nn: nn.BatchNorm2d(2), (0, 2, 3, 3)), (lambda nn: nn.BatchNorm2d(2, momentum=None), (0, 2, 3, 3)),
    (lambda nn: nn.BatchNorm2d(2, affine=False), (0, 2, 3, 3)), (lambda nn: nn.BatchNorm3d(2), (0, 2, 3, 3, 3)),
    (lambda nn: nn.BatchNorm2d(2).eval(), (0, 2, 3, 3)), (lambda nn: nn.InstanceNorm1d(2), (0, 2, 3)),
    (lambda nn: nn.InstanceNorm2d(2), (0, 2, 3, 3)), (lambda nn: nn.InstanceNorm3d(2), (0, 2, 3, 3, 3)),
    *((lambda nn, kind=kind: getattr(nn, kind)(3, 4), (5, 0, 3)) for kind in ("LSTM", "GRU", "RNN")),
    *((lambda nn, kind=kind: getattr(nn, kind)(3, 4), (0, 2, 3)) for kind in ("LSTM", "GRU", "RNN")),
    (lambda nn: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, dropout=0.5), (0, 5, 3)),
    (lambda nn: nn.GRU(3, 4, batch_first=True), (2, 0, 3)), (lambda nn: nn.RNN(3, 4), (0, 3)),
    (lambda nn: nn.MultiheadAttention(4, 2), *[(0, 3, 4)] * 3),
    (lambda nn: nn.MultiheadAttention(4, 2), *[(3, 0, 4)] * 3),
    (lambda nn: nn.MultiheadAttention(4, 2, batch_first=True), *[(0, 3, 4)] * 3),
    (lambda nn: nn.MultiheadAttention(4, 2, batch_first=True), (3, 2, 4), (3, 0, 4), (3, 0, 4)),
    (lambda nn: nn.ConvTranspose1d(2, 2, 3, 1, 1, groups=2), (0, 2, 5)),
    (lambda nn: nn.ConvTranspose2d(2, 2, 3), (0, 2, 5, 5)), (lambda nn: nn.Conv1d(2, 2, 3, groups=2), (0, 2, 5)),
    (lambda nn: nn.Conv2d(2, 4, 3, padding=1), (0, 2, 5, 5)), (lambda nn: nn.AdaptiveMaxPool1d(2), (0, 2, 5)),
    (lambda nn: nn.AdaptiveMaxPool2d((2, 1)), (0, 2, 5, 5)), (lambda nn: nn.MaxPool2d(2), (0, 2, 5, 5)),
    (lambda nn: nn.Fold((4, 4), (2, 2)), (0, 4, 9)), (lambda nn: nn.Unfold((2, 2)), (0, 1, 4, 4)),
    (lambda nn: nn.Softmax(-1), (2, 3, 0)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_module(case: tuple[Any, ...]) -> None:
    assert outcome(tg, *case) == outcome(torch, *case)


CALLS: list[Callable[[Any], Any]] = [
    lambda T: T.matmul(T.ones(2, 3, 0), T.ones(2, 0, 4)), lambda T: T.matmul(T.ones(2, 3, 0), T.ones(1, 0, 4)),
    lambda T: T.nn.functional.scaled_dot_product_attention(T.ones(2, 3, 4), T.ones(2, 0, 4), T.ones(2, 0, 4)),
    lambda T: T.nn.MaxUnpool1d(2)(T.ones(0, 2, 3), T.ones(0, 2, 3, dtype=T.int64)),
    lambda T: T.func.vmap(lambda a: a)(T.ones(0, 3)), lambda T: T.func.vmap(lambda a: (a.sum(), a * 2))(T.ones(0, 3)),
    lambda T: T.func.vmap(lambda a, b: a @ b, in_dims=(1, None))(T.ones(3, 0), T.ones(3)),
    lambda T: T.func.vmap(lambda a: a * 2, out_dims=1)(T.ones(0, 3, dtype=T.int64)),
    lambda T: T.func.vmap(T.func.grad(lambda a: a.sin().sum()))(T.ones(0, 3)),
    lambda T: T.func.vmap(lambda a: ~a)(T.ones(0, 3, dtype=T.bool)),
    lambda T: T.func.vmap(lambda a: a * a)(T.ones(0, 3, requires_grad=True)).requires_grad,
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_call(call: Callable[[Any], Any]) -> None:
    shown = []
    for T in (tg, torch):
        made = call(T)
        made = made if isinstance(made, tuple) else (made,)
        shown.append([(tuple(x.shape), str(x.dtype), x.tolist()) if isinstance(x, T.Tensor) else x for x in made])
    assert shown[0] == shown[1]


#: results, and their operands, that require grad if the flag is set
RECORDED: list[tuple[Any, ...]] = [
    (lambda T, a: (a * a).sum(), (0, 2)), (lambda T, a: a.sin().sum(), (0,)),
    (lambda T, a: a.sum(0).sin().sum(), (0, 2)), (lambda T, a: a.sum(), (0, 2)),
    (lambda T, a: (a * 3).sum(), (0, 2)), (lambda T, a, b: (a @ b).sum(), (0, 2), (2, 3)),
    (lambda T, a, b: (a @ b).pow(2).sum(), (0, 2), (2, 3)), (lambda T, a, b: (a * b).pow(2).sum(), (0, 2), (2,)),
    (lambda T, a, b: (a @ b.detach()).sum(), (0, 2), (2, 3)), (lambda T, a: a.exp().sum(), (0, 2)),
    (lambda T, a, b: T.nn.functional.conv1d(a, b).pow(2).sum(), (0, 1, 5), (1, 1, 3)),
    (lambda T, w, b: T.nn.functional.linear(T.ones(0, 2), w, b).pow(2).sum(), (3, 2), (3,)),
    (lambda T, w, b: T.nn.functional.linear(T.ones(0, 2), w, b).sum(), (3, 2), (3,)),
]  # fmt: skip


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_recorded_gradients(case: tuple[Any, ...]) -> None:
    function, *shapes = case
    found = []
    for T in (tg, torch):
        operands = [T.ones(shape, requires_grad=True) for shape in shapes]
        result = function(T, *operands)
        cts = T.autograd.grad(result, operands, create_graph=True, allow_unused=True)
        lines: list[Any] = [None if ct is None else (ct.requires_grad, ct.tolist()) for ct in cts]
        active = [ct.sum() for ct in cts if ct is not None and ct.requires_grad]
        if active:
            again = T.autograd.grad(sum(active), operands, allow_unused=True, materialize_grads=True)
            lines += [ct.tolist() for ct in again]
        found.append(lines)
    assert found[0] == found[1]
