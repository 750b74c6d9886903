"""Copies of tensors, and tensors in files, share memory as torch's do."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")


def _saved(T: Any, value: Any) -> Any:
    file = io.BytesIO()
    T.save(value, file)
    file.seek(0)
    return T.load(file)


WAYS: list[Callable[[Any, Any], Any]] = [lambda T, value: copy.deepcopy(value), _saved]

CASES: list[Callable[[Any], list[Any]]] = [
    lambda T: [T.arange(6.0), T.arange(6.0)],
    lambda T: _with(T.arange(6.0), lambda a: [a[1:], a[::2], a.view(2, 3).t()]),
    lambda T: _with(T.arange(12.0).view(3, 4), lambda a: [a.t(), a[1], a[:, 2], a[..., None]]),
    lambda T: _with(T.arange(3.0), lambda a: [a.expand(2, 3), a[1]]), lambda T: [T.arange(9.0)[4:7]],
    lambda T: _with(T.nn.Parameter(T.ones(3)), lambda p: [p.detach()]),
    lambda T: _with(T.ones(3, requires_grad=True), lambda p: [p.detach()[1:], p.data]),
    lambda T: _with(T.ones(2, dtype=T.bfloat16), lambda a: [a[1:]]), lambda T: [T.tensor(3), T.ones(2)],
    lambda T: _with(T.arange(24.0).view(2, 3, 4).permute(1, 2, 0) * 1, lambda a: [a[1], a.permute(2, 0, 1)]),
]  # fmt: skip


def _with(a: Any, views: Callable[[Any], list[Any]]) -> list[Any]:
    return [a, *views(a)]


@pytest.mark.parametrize("way", WAYS, ids=["deepcopy", "save"])
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_copies(way: Callable[[Any, Any], Any], case: Callable[[Any], list[Any]]) -> None:
    found = []
    for T in (tg, torch):
        copies = way(T, case(T))
        lines: list[Any] = [
            (tuple(x.shape), x.stride(), x.storage_offset(), str(x.dtype), x.requires_grad) for x in copies
        ]
        for number, x in enumerate(copies):
            if x.numel():
                x.detach()[(0,) * x.dim()] = 10 + number
            lines.append([y.tolist() for y in copies])
        found.append(lines)
    assert found[0] == found[1]
