"""Matrices of selected rows, in least squares and products: how many rows there are is known when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

RNG = np.random.default_rng(5)
S = RNG.uniform(0.5, 1.5, 12)
Y = RNG.normal(size=12)

DESIGNS: dict[str, Callable[[Any], Any]] = {
    "column_stack": lambda x: np.column_stack([np.ones_like(x), x, x**2]),
    "ones": lambda x: np.column_stack((np.ones(len(x)), x)),
    "stack": lambda x: np.stack([np.ones_like(x), x], axis=1),
    "array": lambda x: np.array([np.ones_like(x), x]).T,
    "vander": lambda x: np.vander(x, 3),
    "c_": lambda x: np.c_[np.ones(len(x)), x],
    "powers": lambda x: x[:, None] ** np.arange(3),
    "vstack": lambda x: np.vstack([np.ones_like(x), x]).T,
}
USES: dict[str, Callable[[Any, Any], Any]] = {
    "normal": lambda a, b: np.linalg.solve(a.T @ a, a.T @ b).sum(),
    "lstsq": lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0].sum(),
    "predicted": lambda a, b: ((a @ np.arange(1.0, a.shape[1] + 1) - b) ** 2).sum(),
    "reduced": lambda a, b: a.mean(axis=0).sum() + a.sum(axis=1).max() + b.sum(),
}


@pytest.mark.parametrize("use", list(USES))
@pytest.mark.parametrize("design", list(DESIGNS))
def test_design_matrix_of_selected_rows(design: str, use: str) -> None:
    def program(x: Any) -> Any:
        m = x < 1.1
        return USES[use](DESIGNS[design](x[m]), (Y * x)[m])

    check_agreement(program, "numpy", S, S[::-1].copy())


def _joined(x: Any) -> Any:
    m = x < 1.1
    a = np.c_[np.ones(len(x)), x, x**2][m]
    solution, squares, rank, _ = np.linalg.lstsq(a, Y[m], rcond=None)
    r = Y[m] - a @ solution
    z = np.r_[0.0, r, x[0]]
    ridge = np.linalg.lstsq(np.vstack([a, np.eye(3)]), np.hstack([Y[m], np.zeros(3)]), rcond=None)[0]
    both = np.hstack([a, a * 2])
    more = np.column_stack([a, x[m]])
    twice = np.concatenate([a, a], axis=0)
    return (
        r @ r
        + z.sum()
        + ridge.sum()
        + both.sum()
        + (more.T @ more).sum()
        + twice.mean()
        + rank
        + len(z)
        + squares.sum()
    )


def _fitted(x: Any) -> Any:
    m = x < 1.1
    line = np.polyfit(x[m], Y[m], 1, w=np.abs(Y[m]) + 1)
    curves, *_ = np.polyfit(x[m], np.c_[Y[m], x[m] ** 2], 2, full=True)
    return line[0] + 2 * line[1] + curves.sum() + np.polyval(line, x[m]).sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_joined, _fitted])
def test_least_squares_of_selected_rows(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, S)


def _paths(s: Any, z: np.ndarray) -> Any:
    return s[0] * np.exp(np.cumsum(-0.5 * s[1] ** 2 / 4 + s[1] * 0.5 * z, axis=1))


Z = RNG.normal(size=(30, 4))


def _by_polyfit(s: Any) -> Any:
    """An American put by regression over the paths in the money (Longstaff and Schwartz, 2001)."""
    paths = _paths(s, Z)
    cash = np.maximum(1.0 - paths[:, -1], 0)
    for t in range(2, -1, -1):
        cash = cash * 0.98
        itm = paths[:, t] < 1.0
        if itm.sum() > 3:
            x = paths[itm, t]
            later = np.polyval(np.polyfit(x, cash[itm], 2), x)
            cash[itm] = np.where(1.0 - x > later, 1.0 - x, cash[itm])
    return cash.mean() * 0.98


def _by_places(s: Any) -> Any:
    paths = _paths(s, Z)
    cash = np.maximum(1.0 - paths[:, -1], 0)
    for t in range(2, -1, -1):
        cash = cash * 0.98
        itm = np.where(paths[:, t] < 1.0)[0]
        x = paths[itm, t]
        a = np.column_stack([np.ones_like(x), x, x**2])
        beta, *_ = np.linalg.lstsq(a, cash[itm], rcond=None)
        now = 1.0 - x > a @ beta
        cash[itm[now]] = (1.0 - x)[now]
    return cash.mean() * 0.98


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_by_polyfit, _by_places])
def test_regression_over_the_paths_in_the_money(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, np.array([1.0, 0.3]))


def test_a_row_that_is_not_selected_may_be_infinite() -> None:
    def program(x: Any) -> Any:
        rows = np.log(np.abs(x))[:, None] * np.ones(2)
        return (rows[x > 0] @ np.array([1.0, 2.0])).sum()

    x = np.array([1.0, 0.0, 2.0])
    np.testing.assert_allclose(tg.grad(program)(x), [3.0, 0.0, 1.5])
