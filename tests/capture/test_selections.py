"""What a traced mask selects, used as an array: by NumPy's functions, by index, in loops and under conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import NeedsPythonValue
from tracegrad.runtime.signature import flatten

X = np.array([0.5, 2.0, 0.1, 0.7, 3.0, 0.2])
W = np.array([1.0, 2.0, 3.0, 4.0])


def items_in_a_loop(x: Any) -> Any:
    total = 0.0
    for i, v in enumerate(x[x < 1]):
        total += (i + 1) * v**2
    return total


def shorter_in_a_loop(x: Any) -> Any:
    r = x * 1.0
    for _ in range(3):
        r = r[r > 0.5 * r.mean()]
    return r.sum() + len(r)


def bound_under_a_condition(x: Any) -> Any:
    y = x[x < 1]
    if x[0] > 0:
        y = x[x > 1]
    return np.sum(y**2) * y[-1]


def changed_under_two_names(x: Any) -> Any:
    y = x[x < 1]
    z = y
    y += 1
    z *= x[0]
    return np.sum(y * z) + np.sum(x)


def changed_where_it_stands(x: Any) -> Any:
    y = x.copy()
    y[x < 1] *= 3.0
    y[x > 1] -= x[0]
    return np.sum(y**2)


def rows(x: Any) -> Any:
    rows = np.outer(x, x[:3])[x < 1]
    return np.sum(rows[0] * rows[-1]) + np.sum(rows @ x[:3]) + np.sum(rows.T @ rows) * rows.shape[0]


def shape(x: Any) -> Any:
    y = x[x < 1]
    return np.ones(y.shape).sum() * x[0] + y.shape[0] * len(y) * y.size


SMALL: dict[str, Callable[[Any], Any]] = {
    "clip from below": lambda x: np.sum(np.sqrt(np.clip(1.2 - x[x < 1], 0, None))),
    "clip from above": lambda x: np.clip(x[x < 1], None, 0.3).sum(),
    "clip by names": lambda x: np.clip(x[x < 1], a_min=0.3, a_max=None).sum(),
    "where": lambda x: np.sum(np.where(x[x < 1] > 0.3, x[x < 1] ** 2, 0.0)),
    "norm": lambda x: np.linalg.norm(x[x < 1]),
    "ptp": lambda x: np.ptp(x[x < 1]),
    "outer": lambda x: np.sum(np.outer(x[x < 1], x[x < 1]) ** 2),
    "sort": lambda x: np.sum(np.sort(x[x < 1]) * W),
    "median of an even number": lambda x: np.median(x[x < 1]),
    "median of an odd number": lambda x: np.median(x[x < 2.5]),
    "items": lambda x: x[x < 1][0] * x[x < 1][-1],
    "slice": lambda x: np.sum(x[x < 1][1:3] ** 2),
    "backwards": lambda x: np.sum(x[x < 1][::-1] * W),
    "diff": lambda x: np.sum(np.diff(x[x < 1]) ** 2),
    "dot": lambda x: x[x < 1] @ x[x < 1],
    "dot with a vector": lambda x: np.dot(x[x < 1], W),
    "cumsum": lambda x: np.sum(np.cumsum(x[x < 1]) ** 2),
    "concatenate": lambda x: np.sum(np.concatenate([x[x < 1], x[x > 1]]) * np.arange(6)),
    "two masks": lambda x: np.sum(x[x < 1] * x[x > 0.15][:4]),
    "selected again": lambda x: np.sum(x[x < 1][x[x < 1] > 0.3] ** 2),
    "selected of a slice": lambda x: np.sum(x[1:][x[1:] < 1] ** 2),
    "argmax": lambda x: np.argmax(x[x < 1]) * x[0],
    "of a matrix": lambda x: np.sort(np.outer(x, x)[np.outer(x, x) < 0.5])[2],
    "mean of rows": lambda x: np.sum(np.outer(x, x)[x < 1].mean(axis=0)),
    "column": lambda x: np.sum(x[x < 1].reshape(-1, 1) @ x[x < 1][None, :]),
}
PROGRAMS = {
    **SMALL,
    **{
        f.__name__: f
        for f in (
            items_in_a_loop,
            shorter_in_a_loop,
            bound_under_a_condition,
            changed_under_two_names,
            changed_where_it_stands,
            rows,
            shape,
        )
    },
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_numpy_has_it(name: str, backend: str) -> None:
    f = PROGRAMS[name]
    value, slope = tg.value_and_grad(f, backend=backend)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(slope, central_differences(f, X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_nothing(backend: str) -> None:
    with pytest.raises(ValueError, match="zero-size array"):
        tg.function(lambda x: np.max(x[x > 100]), backend=backend)(X)
    with pytest.raises(IndexError):
        tg.function(lambda x: x[x > 100][0], backend=backend)(X)
    assert np.isnan(tg.function(lambda x: np.median(x[x > 100]), backend=backend)(X))
    assert tg.function(lambda x: np.sum(np.sort(x[x > 100])), backend=backend)(X) == 0.0


def test_a_write_into_a_part_is_refused() -> None:
    def f(x: Any) -> Any:
        y = x[x < 1]
        z = y[:2]
        z[0] = 5.0
        return np.sum(y)

    with pytest.raises(NeedsPythonValue, match="TG136"):
        tg.function(f)(X)


@pytest.mark.parametrize("result", [lambda y: y, lambda y: [y, 1.0], lambda y: {"y": y**2}])
def test_a_result_is_what_is_selected(result: Callable[[Any], Any]) -> None:
    actual, expected = tg.function(lambda x: result(x[x < 1]))(X), result(X[X < 1])
    for one, other in zip(flatten(actual)[2], flatten(expected)[2], strict=True):
        np.testing.assert_allclose(one, other)
