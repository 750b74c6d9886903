"""Functions that join the arrays of a list whose length is known when the code runs, and of lists that loops fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS

POINT = np.array([1.3])
ITEMS = {
    "numbers": np.array([0.3, -1.2, 0.7, 1.4]),
    "vectors": np.arange(12.0).reshape(4, 3) / 5 - 1,
    "matrices": np.arange(24.0).reshape(4, 2, 3) / 7 - 1,
    "boxes": np.arange(48.0).reshape(4, 2, 3, 2) / 17 - 1,
}
JOINS: dict[str, Callable[[Any], Any]] = {
    "stack": np.stack,
    "stack last": lambda items: np.stack(items, axis=-1),
    "stack first but one": lambda items: np.stack(items, 1),
    "vstack": np.vstack,
    "hstack": np.hstack,
    "dstack": np.dstack,
    "column_stack": np.column_stack,
    "concatenate": np.concatenate,
    "concatenate last": lambda items: np.concatenate(items, axis=-1),
    "concatenate flat": lambda items: np.concatenate(items, None),
    "block": np.block,
    "ravel": lambda items: np.array(items).ravel(),
    "reshape": lambda items: np.reshape(items, -1),
    "moveaxis": lambda items: np.moveaxis(np.array(items), 0, -1),
    "atleast_2d": lambda items: np.atleast_2d(np.array(items)),
    "append": lambda items: np.append(items, [1.0, 2.0]),
    "append rows": lambda items: np.append(np.array(items), np.array(items)[:1], 0),
}


def weighted(joined: Any) -> Any:
    """Return a number in which every element counts by where it stands."""
    total = 0.0
    for axis in range(joined.ndim):
        others = tuple(k for k in range(joined.ndim) if k != axis)
        sums = np.sum(joined**2 + joined, axis=others)
        total = total + np.sum(sums * np.cos(np.arange(joined.shape[axis]) + 1.0))
    return total


def collected(join: Callable[[Any], Any], items: Any, *, conditional: bool) -> Callable[[Any], Any]:
    def function(s: Any) -> Any:
        kept = []
        for k in range(4):
            value = items[k] * s[0] * (k + 1)
            if not conditional or np.sum(value) > 0.1:
                kept.append(value)
        return weighted(join(kept))

    return function


@pytest.mark.parametrize("conditional", [True, False], ids=["under a condition", "by a loop"])
@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("name", JOINS)
def test_joins(name: str, kind: str, conditional: bool) -> None:
    function = collected(JOINS[name], ITEMS[kind], conditional=conditional)
    try:
        expected = function(POINT)
    except (ValueError, np.exceptions.AxisError) as error:
        for backend in BACKENDS:
            with pytest.raises(type(error)):
                tg.function(function, backend=backend)(POINT)
        return
    for backend in BACKENDS:
        value, gradient = tg.value_and_grad(function, backend=backend)(POINT)
        assert np.isclose(value, expected, rtol=1e-12)
        assert np.allclose(gradient, central_differences(function, POINT), rtol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_orthogonal_columns_without_those_that_depend_on_others(backend: str) -> None:
    def basis(matrix: Any) -> Any:
        columns: list[Any] = []
        for a in matrix.T:
            v = a - sum((q @ a) * q for q in columns) if columns else a.copy()
            n = np.linalg.norm(v)
            if n > 1e-10:
                columns.append(v / n)
        q = np.column_stack(columns)
        return np.sum((matrix.T @ q) ** 2 * np.arange(1.0, q.shape[1] + 1))

    matrix = np.random.default_rng(0).normal(size=(4, 3))
    for point in (matrix, matrix[:, [0, 1, 0]]):
        assert np.isclose(tg.function(basis, backend=backend)(point), basis(point), rtol=1e-12)
    gradient = tg.grad(basis, backend=backend)(matrix)
    differences = central_differences(lambda v: basis(v.reshape(4, 3)), matrix.ravel())
    assert np.allclose(gradient.ravel(), differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("join", [np.stack, np.hstack, np.concatenate, np.column_stack])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_list_is_refused_as_by_numpy(join: Callable[[Any], Any], backend: str) -> None:
    def function(x: Any) -> Any:
        kept = []
        for v in x:
            if v > 0:
                kept.append(v * x)
        return np.sum(join(kept))

    made = tg.function(function, backend=backend)
    assert np.isclose(made(np.array([1.0, -2.0])), function(np.array([1.0, -2.0])))
    with pytest.raises(ValueError, match="need at least one array to"):
        made(-np.ones(2))
