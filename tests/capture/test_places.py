"""`np.where(mask)`, `np.nonzero` and their like: places whose number is known only when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

X = np.array([0.7, -0.4, 1.9, -1.3, 0.25, 1.1, -0.2, 0.6])
T = np.linspace(0.0, 1.0, 8)
RNG = np.random.default_rng(7)
A = RNG.normal(size=(8, 3))


def _read(x: Any) -> Any:
    i = np.where(x > 0)[0]
    return (x[i] ** 2).sum() + len(i) * x[0] + i.sum() * x[1]


def _written(x: Any) -> Any:
    i = np.flatnonzero(x < 0.3)
    y = x.copy()
    y[i] = 0.0
    y[i] += x[i] * 2
    return y @ x


def _first_and_last(x: Any) -> Any:
    (i,) = np.nonzero(x > 0)
    return x[i[0]] + x[i[-1]] * i[0]


def _crossings(x: Any) -> Any:
    c = np.where(np.diff(np.sign(x)) != 0)[0]
    roots = T[c] - x[c] * (T[c + 1] - T[c]) / (x[c + 1] - x[c])
    return roots.sum() + len(c) * x[0]


def _peaks(x: Any) -> Any:
    peaks = np.where((x[1:-1] > x[:-2]) & (x[1:-1] > x[2:]))[0] + 1
    return x[peaks].sum() + np.diff(peaks).sum() * x[0]


def _iterated(x: Any) -> Any:
    total = 0.0
    for i in np.where(x > 0)[0]:
        total += x[i] * i
    return total


def _none_found(x: Any) -> Any:
    i = np.where(x > 100)[0]
    if len(i) == 0:
        return x.sum()
    return x[i[0]]


def _narrowed(x: Any) -> Any:
    i = np.where(x > 0)[0]
    j = i[x[i] > 0.5]
    y = x.copy()
    y[j] = y[j] ** 2
    return y.sum()


def _bound(x: Any) -> Any:
    first = np.where(np.cumsum(np.abs(x)) > 2)[0][0]
    return x[:first].sum()


def _picked(x: Any) -> Any:
    return np.extract(x > 0, x).prod() + np.compress(x < 0, x).sum() + x.nonzero()[0].sum() * x[1]


def _argwhere(x: Any) -> Any:
    places = np.argwhere(x > 0)
    return x[places[:, 0]].sum() + places.shape[0] * x[0]


def _table(x: Any) -> Any:
    m = x > 0
    return (
        np.interp(x[m], T, T**2).sum()
        + np.polyval([1.0, 2.0, 3.0], x[m]).max()
        + (np.searchsorted(T, x[m]) * x[m]).sum()
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        _read,
        _written,
        _first_and_last,
        _crossings,
        _peaks,
        _iterated,
        _none_found,
        _narrowed,
        _bound,
        _picked,
        _argwhere,
        _table,
    ],
)
def test_places_of_a_vector(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, X, X[::-1].copy())


def _rows(a: Any) -> Any:
    i = np.where(a.sum(axis=1) > 0)[0]
    return np.linalg.norm(a[i], axis=1).sum() + a[i, :2].sum() + (a[i] @ np.array([1.0, 2.0, 3.0])).sum()


def _pairs(a: Any) -> Any:
    r, c = np.where(a > 0)
    b = a.copy()
    b[np.where(a > 0.5)] = 0.0
    low = np.nonzero(a < -0.5)
    b[low] *= 3
    return (a[r, c] ** 2).sum() + a[r].sum() + r.sum() * a[0, 0] + (b**2).sum()


def _columns(a: Any) -> Any:
    return np.compress(a[0] > 0, a, axis=1).sum() + np.compress(a[:, 0] > 0, a, axis=0)[:, 1].sum()


def _rows_written(a: Any) -> Any:
    m = np.where(a[:, 0] > 0)[0]
    z = a[:, 1].copy()
    z[m] = a[m] @ np.array([1.0, 2.0, 3.0])
    k = m[z[m] > 0]
    z[k] = z[k] ** 2
    return z.sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_rows, _pairs, _columns, _rows_written])
def test_places_of_a_matrix(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(lambda x: program(x.reshape(8, 3)), backend, A.ravel(), A[::-1].ravel())


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_element_at_a_place_is_an_index_error(backend: str) -> None:
    def program(x: Any) -> Any:
        return x[np.where(x > 100)[0][0]]

    with pytest.raises(IndexError):
        tg.grad(program, backend=backend)(X)
