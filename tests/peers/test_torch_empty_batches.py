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
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_module(case: tuple[Any, ...]) -> None:
    assert outcome(tg, *case) == outcome(torch, *case)
