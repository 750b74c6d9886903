"""Missing data: what a choice hides has no derivative, whatever it is, on both backends and inside loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.capture.entry import Leaf, capture
from tracegrad.ir.core import walk
from tracegrad.ir.types import array_type
from tracegrad.transform.vjp import gradient

NAN = np.nan
Y = np.array([1.0, NAN, 2.0, NAN])
X = np.array([[1.0, 2.0], [NAN, 1.0], [3.0, 1.0]])
W = np.array([1.0, 2.0])
SEEN = np.array([True, False, True, False])


def chosen(mu: Any, y: Any) -> Any:
    return np.sum(np.where(np.isnan(y), 0.0, (y - mu) ** 2))


def nansum(mu: Any, y: Any) -> Any:
    return np.nansum((y - mu) ** 2)


def indexed_after(mu: Any, y: Any) -> Any:
    return np.sum(((y - mu) ** 2)[~np.isnan(y)])


def indexed_before(mu: Any, y: Any) -> Any:
    return np.sum((y[~np.isnan(y)] - mu) ** 2)


def with_where(mu: Any, y: Any) -> Any:
    return np.sum((y - mu) ** 2, where=~np.isnan(y))


def overwritten(mu: Any, y: Any) -> Any:
    r = (y - mu) ** 2
    r[np.isnan(r)] = 0.0
    return np.sum(r)


def to_numbers(mu: Any, y: Any) -> Any:
    return np.sum(np.nan_to_num((y - mu) ** 2))


def mean_of_seen(mu: Any, y: Any) -> Any:
    return 2 * np.mean(((y - mu) ** 2)[~np.isnan(y)])


def product_of_itself(mu: Any, y: Any) -> Any:
    e = y - mu
    return np.sum(np.where(np.isnan(y), 0.0, e * e))


def in_loop(mu: Any, y: Any) -> Any:
    s = 0.0
    for i in range(len(y)):
        e = (y[i] - mu) ** 2
        s += np.where(np.isnan(y[i]), 0.0, e)
    return s


def in_branch_of_loop(mu: Any, y: Any) -> Any:
    s = 0.0
    for i in range(len(y)):
        e = (y[i] - mu) ** 2
        if not np.isnan(e):
            s += e
    return s


def rows_in_loop(mu: Any, y: Any) -> Any:
    s = 0.0
    for _ in range(2):
        s = s + 0.5 * np.sum(np.where(np.isnan(y), 0.0, (y - mu) ** 2))
    return s


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize(
    "function",
    [
        chosen,
        nansum,
        indexed_after,
        indexed_before,
        with_where,
        overwritten,
        to_numbers,
        mean_of_seen,
        product_of_itself,
        in_loop,
        in_branch_of_loop,
        rows_in_loop,
    ],
)
def test_squares_of_missing_data(function: Callable[..., Any], backend: str) -> None:
    assert tg.grad(function, backend=backend)(0.5, Y) == pytest.approx(-4.0)


def quotient(mu: Any, y: Any) -> Any:
    return np.sum(np.where(np.isnan(y), 0.0, y / mu))


def power(mu: Any, y: Any) -> Any:
    return np.sum(np.where(np.isnan(y), 0.0, np.abs(y - mu) ** 3))


def fractional_power(mu: Any, y: Any) -> Any:
    return np.sum(np.where(np.isnan(y), 0.0, (y + mu) ** 1.5))


def given_mask(mu: Any, y: Any) -> Any:
    return np.sum(np.where(SEEN, np.exp(mu * y), 0.0))


def infinite(mu: Any, y: Any) -> Any:
    z = np.where(np.isnan(y), np.inf, y)
    return np.sum(np.where(np.isfinite(z), np.sin(mu * z) * z, 0.0))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("function", [quotient, power, fractional_power, given_mask, infinite])
def test_other_functions_of_missing_data(function: Callable[..., Any], backend: str) -> None:
    y = Y[SEEN]
    expected = {
        quotient: np.sum(-y / 0.25),
        power: np.sum(-3 * (y - 0.5) ** 2),
        fractional_power: np.sum(1.5 * (y + 0.5) ** 0.5),
        given_mask: np.sum(y * np.exp(0.5 * y)),
        infinite: np.sum(y**2 * np.cos(0.5 * y)),
    }[function]
    assert tg.grad(function, backend=backend)(0.5, Y) == pytest.approx(expected)


def residuals(w: Any, x: Any) -> Any:
    r = x @ w
    return np.sum(np.where(np.isnan(r), 0.0, r**2))


def residuals_by_loop(w: Any, x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        r = x[i] @ w
        s += np.where(np.isnan(r), 0.0, r**2)
    return s


def columns(w: Any, x: Any) -> Any:
    r = np.outer(w, np.ones(3)) * x.T
    return np.sum(np.where(np.isnan(r).any(axis=0), 0.0, np.sum(r, axis=0) ** 2))


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("function", [residuals, residuals_by_loop, columns])
def test_rows_with_missing_data(function: Callable[..., Any], backend: str) -> None:
    seen = X[[0, 2]]
    np.testing.assert_allclose(tg.grad(function, backend=backend)(W, X), 2 * seen.T @ (seen @ W))


def matrix(w: Any, x: Any) -> Any:
    r = x @ w
    return np.sum(np.where(np.isnan(r), 0.0, r**2))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_products_of_matrices_with_missing_data(backend: str) -> None:
    w, seen = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 1.0]]), X[[0, 2]]
    found = tg.grad(matrix, argnums=(0, 1), backend=backend)(w, X)
    np.testing.assert_allclose(found[0], 2 * seen.T @ (seen @ w))
    np.testing.assert_allclose(found[1][[0, 2]], 2 * (seen @ w) @ w.T)
    np.testing.assert_array_equal(found[1][1], 0.0)


def rows_by_sum(w: Any, x: Any) -> Any:
    return np.sum(np.where(np.isnan(x).any(axis=1), 0.0, np.sum((x * w) ** 2, axis=1)))


def rows_by_product(w: Any, x: Any) -> Any:
    return np.sum(np.where(np.isnan(x).any(axis=1), 0.0, np.prod(x * w, axis=1)))


def rows_by_largest(w: Any, x: Any) -> Any:
    return np.sum(np.where(np.isnan(x).any(axis=1), 0.0, np.max(x * w, axis=1)))


def rows_by_exponentials(w: Any, x: Any) -> Any:
    return np.sum(np.where(np.isnan(x).any(axis=1), 0.0, np.log(np.sum(np.exp(x * w), axis=1))))


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("function", [rows_by_sum, rows_by_product, rows_by_largest, rows_by_exponentials])
def test_reductions_of_rows_with_missing_data(function: Callable[..., Any], backend: str) -> None:
    gradient = tg.grad(function, backend=backend)
    np.testing.assert_allclose(gradient(W, X), gradient(W, X[[0, 2]]))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_gradient_by_the_data_themselves(backend: str) -> None:
    x = np.array([1.0, NAN, 2.0])
    both = tg.grad(lambda x: np.nanmean(x) + np.nansum(x**2), backend=backend)(x)
    np.testing.assert_allclose(both, [2.5, 0.0, 4.5])
    moments = tg.grad(lambda x: np.nanvar(x) + np.nanmax(x) + np.nanprod(x), backend=backend)(x)
    np.testing.assert_allclose(moments, [-0.5 + 2.0, 0.0, 0.5 + 1.0 + 1.0])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_second_derivatives(backend: str) -> None:
    found = tg.hessian(lambda x: np.sum(np.where(x > 0, np.sqrt(x) ** 3, 0.0)), backend=backend)(np.array([0.0, 1.0]))
    np.testing.assert_allclose(found, [[0.0, 0.0], [0.0, 0.75]])
    hidden = tg.hessian(lambda m, y: np.sum(np.where(np.isnan(y), 0, np.exp(y * m) * np.log(y))), backend=backend)
    assert hidden(0.5, Y) == pytest.approx(4 * np.exp(1.0) * np.log(2.0))
    np.testing.assert_allclose(tg.hessian(residuals, backend=backend)(W, X), 2 * X[[0, 2]].T @ X[[0, 2]])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_unhidden_missing_data_stay_visible(backend: str) -> None:
    assert np.isnan(tg.grad(lambda mu, y: np.sum((y - mu) ** 2), backend=backend)(0.5, Y))
    both = tg.grad(lambda mu, y: np.sum(np.where(y > 0, 0.0, (y - mu) ** 2)) + np.sum(y * mu), backend=backend)
    assert np.isnan(both(0.5, Y))


def test_text_of_a_masked_loss() -> None:
    text = tg.grad(chosen, backend="numpy").source(0.5, Y)
    assert "np.where(np.isnan(y), 0.0, 2.0 * (y - mu))" in text
    assert "isfinite" not in text and "zero stays zero" not in text


def relu_network(w: Any, x: Any) -> Any:
    z = x @ w
    return np.sum(np.where(z > 0, z, 0.1 * z) ** 2)


def test_kinks_need_no_guards() -> None:
    text = tg.grad(relu_network, backend="numpy").source(np.ones((2, 2)), np.ones((3, 2)))
    assert "isfinite" not in text and "zero stays zero" not in text
    assert text.count("x.T @") == 1


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_infinite_scalars_that_a_comparison_hides(backend: str) -> None:
    def penalty(x: Any, weight: Any) -> Any:
        return np.sum(np.where(x > 1.0, weight * (x - 1.0), 0.0) + x)

    found = tg.grad(penalty, backend=backend)(np.array([0.5, -2.0]), np.inf)
    np.testing.assert_array_equal(found, [1.0, 1.0])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_losers_of_a_maximum_beside_poles(backend: str) -> None:
    def largest(x: Any) -> Any:
        return np.sum(np.maximum(np.log(x), -5.0)) + np.sum(np.minimum(1 / x, 3.0))

    with np.errstate(divide="ignore"):
        found = tg.grad(largest, backend=backend)(np.array([0.0, 0.5]))
    np.testing.assert_allclose(found, [0.0, 2.0 - 4.0])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_exponentials_that_overflow_behind_a_choice(backend: str) -> None:
    def safe(x: Any) -> Any:
        e = np.exp(x)
        return np.sum(np.where(x < 100.0, np.log(1 + e) + e / (1 + e), x))

    with np.errstate(over="ignore", invalid="ignore"):
        found = tg.grad(safe, backend=backend)(np.array([0.0, 2000.0]))
        curvature = tg.hessian(safe, backend=backend)(np.array([0.0, 2000.0]))
    np.testing.assert_allclose(found, [0.75, 1.0])
    np.testing.assert_allclose(curvature, [[0.25, 0.0], [0.0, 0.0]], atol=1e-15)


def decaying_maximum(x: Any, count: int) -> Any:
    total = 0.0
    for place, _ in [(k, str(k)) for k in range(count)]:  # no ints alone, so it is unrolled
        total = max(total * 0.9, x[place]) + x[place] ** 2
    return total


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_many_choices_on_the_way(backend: str) -> None:
    x = np.random.default_rng(3).normal(size=30)
    found = tg.grad(decaying_maximum, backend=backend)(x, 30)
    np.testing.assert_allclose(found, central_differences(lambda v: decaying_maximum(v, 30), x), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_many_tests_for_missing_data(backend: str) -> None:
    def hidden(x: Any, y: Any) -> Any:
        total = x
        for row in (y[0], y[1], y[2], y[3], y[4], y[5]):
            total = np.where(np.isnan(row), 0.0, total * row**2)
        return np.sum(total)

    x, y = np.array([1.0, 2.0, 3.0]), np.full((6, 3), 2.0)
    y[0, 0] = y[3, 1] = y[5, 0] = NAN
    by_x, by_y = tg.grad(hidden, argnums=(0, 1), backend=backend)(x, y)
    np.testing.assert_array_equal(by_x, [0.0, 0.0, 4.0**6])
    np.testing.assert_array_equal(by_y, np.array([0.0, 0.0, 3 * 4.0**6]) * np.ones((6, 1)))


def test_a_chain_of_choices_is_staged_once() -> None:
    def operations(count: int) -> int:
        leaf = Leaf(array_type(f"f64[{count}]"), False, "x")
        captured = capture(decaying_maximum, [leaf], lambda v: ((v[0], count), {}), ("x", "count"))
        derived = gradient(captured.function, (0,), keep_primal=False)
        return sum(1 for _ in walk(derived.body))

    assert operations(80) < 2.1 * operations(40)
