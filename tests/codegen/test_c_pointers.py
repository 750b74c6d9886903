"""Statements of C that need an array in memory, of operands that are gathered by arrays of indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

A = np.array([[3.0, 1.0, 2.0], [0.0, 1.0, 5.0], [7.0, 8.0, 2.0]])


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.sum(np.sort(np.diag(a)) * np.arange(3)),
        lambda a: np.sum(np.sort(np.diagonal(a))[::-1] * np.arange(3)),
        lambda a: np.sum(np.diag(a)[np.argsort(np.diag(a))] ** 2),
        lambda a: np.trace(a) * np.median(np.diag(a)),
        lambda a: np.sum(np.sort(a[[0, 2], [1, 1]]) * np.arange(2)),
    ],
)
def test_sorted_gathers(function: Callable[[Any], Any]) -> None:
    np.testing.assert_array_equal(tg.grad(function, backend="c")(A), tg.grad(function, backend="numpy")(A))
