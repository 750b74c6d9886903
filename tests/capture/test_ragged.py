"""Slices and arrays whose length changes in a loop: one loop in IR, with the numbers of plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import NeedsPythonValue

BACKENDS = ("numpy", "c")
_RANDOM = np.random.default_rng(0).normal(size=(5, 5))
MATRIX = _RANDOM @ _RANDOM.T + 5 * np.eye(5)
OPTION = np.array([100.0, 105.0, 0.03, 0.25])


def cholesky_by_elements(A):
    n = len(A)
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j] - np.dot(L[i, :j], L[j, :j])
            if i == j:
                L[i, j] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return np.sum(np.log(np.diag(L)))


def cholesky_by_columns(A):
    n = len(A)
    L = np.zeros_like(A)
    for j in range(n):
        L[j, j] = np.sqrt(A[j, j] - np.sum(L[j, :j] ** 2))
        L[j + 1 :, j] = (A[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    return np.sum(L**3)


def elimination_by_rows(A):
    U = A.copy()
    n = len(A)
    for k in range(n - 1):
        for i in range(k + 1, n):
            m = U[i, k] / U[k, k]
            U[i, k:] -= m * U[k, k:]
    return np.prod(np.diag(U))


def elimination_by_outer_products(A):
    A = A.copy()
    n = len(A)
    for k in range(n - 1):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return np.sum(A**2)


def back_substitution(A):
    n = len(A)
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (A[i, 0] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x @ x


def householder(A):
    R = A.copy()
    n = len(A)
    for k in range(n - 1):
        x = R[k:, k].copy()
        x[0] += np.sign(x[0]) * np.linalg.norm(x)
        x = x / np.linalg.norm(x)
        R[k:, k:] -= 2 * np.outer(x, x @ R[k:, k:])
    return np.sum(np.abs(np.diag(R)))


def growing_window(A):
    x = A[0]
    s = 0.0
    for t in range(2, len(x)):
        seen = x[:t]
        s += np.mean(seen) * np.std(seen) + np.max(seen) * x[t] + seen[-1] * seen[np.argmin(seen)] + len(seen)
    return s


def convolution(A):
    x, h = A[0], A[1]
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = np.sum(x[: i + 1] * h[i::-1])
    return np.sum(y**2)


def loop_over_a_part(A):
    s = 0.0
    for i in range(len(A)):
        for v in A[i, :i]:
            s += v * v * i
    return s


def views_see_writes(A):
    w = A[0] * 1.0
    s = 0.0
    for i in range(len(w)):
        part, back = w[: i + 1], w[i::-1]
        part += 0.5
        w[i] *= A[1, i]
        back[0] += A[2, i]
        s += np.sum(part * back)
        back[1:] = part[:-1] * 0.1
    return s + np.sum(w**2)


def windows_cut_at_the_ends(A):
    x = A[0]
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = np.mean(x[i : i + 3]) * np.sum(x[max(i - 1, 0) : i + 2])
    return np.sum(y**2)


def scratch_arrays(A):
    s = 0.0
    for i in range(len(A)):
        c = np.zeros(i + 1)
        c[0], c[-1] = A[i, 0], 2.0
        c[:i] += A[i, :i]
        s += np.sum(np.cumsum(c) * np.arange(i + 1)) + np.sum(np.diff(c) ** 2)
    return s


def length_counted_by_while(A):
    x = A[0]
    n = 0
    while n < len(x) and x[n] > -1.0:
        n += 1
    return np.sum(x[:n] ** 2) + np.sum(x[n:]) + n


MATRIX_PROGRAMS = [
    cholesky_by_elements,
    cholesky_by_columns,
    elimination_by_rows,
    elimination_by_outer_products,
    back_substitution,
    householder,
    growing_window,
    convolution,
    loop_over_a_part,
    views_see_writes,
    windows_cut_at_the_ends,
    scratch_arrays,
    length_counted_by_while,
]


def _tree(p, n=6):
    S, K, r, s = p
    dt = 1.0 / n
    u = np.exp(s * np.sqrt(dt))
    d = 1 / u
    q = (np.exp(r * dt) - d) / (u - d)
    return S, K, u, d, q, np.exp(-r * dt), n


def binomial_tree(p):
    S, K, u, d, q, disc, n = _tree(p)
    v = np.maximum(S * u ** np.arange(n, -1, -1) * d ** np.arange(0, n + 1) - K, 0)
    for _ in range(n):
        v = disc * (q * v[:-1] + (1 - q) * v[1:])
    return v[0]


def american_with_prices_that_shrink(p):
    S, K, u, _, q, disc, n = _tree(p)
    st = S * u ** (2.0 * np.arange(n + 1) - n)
    v = np.maximum(K - st, 0)
    for i in range(n - 1, -1, -1):
        v = disc * (q * v[1 : i + 2] + (1 - q) * v[: i + 1])
        st = st[: i + 1] * u
        v = np.maximum(v, K - st)
    return v[0]


def american_with_prices_made_anew(p):
    S, K, u, _, q, disc, n = _tree(p)
    v = np.maximum(K - S * u ** np.arange(-n, n + 1, 2.0), 0)
    for i in range(n - 1, -1, -1):
        v = np.maximum(disc * (q * v[1:] + (1 - q) * v[:-1]), K - S * u ** np.arange(-i, i + 1, 2.0))
    return v[0]


def american_in_a_table(p):
    S, K, u, _, q, disc, n = _tree(p)
    v = np.zeros((n + 1, n + 1))
    v[:, n] = np.maximum(K - S * u ** (n - 2.0 * np.arange(n + 1)), 0)
    for i in range(n - 1, -1, -1):
        j = np.arange(i + 1)
        v[: i + 1, i] = np.maximum(
            disc * (q * v[: i + 1, i + 1] + (1 - q) * v[1 : i + 2, i + 1]), K - S * u ** (i - 2.0 * j)
        )
    return v[0, 0]


def appended(p):
    ys, y = np.array([p[0]]), p[0]
    for _ in range(5):
        y = y * p[1] * 0.01 + p[2]
        ys = np.append(ys, y)
    return np.sum(ys**2 * np.arange(6)) * 1e-4


def joined_from_nothing(p):
    ys = np.array([])
    for t in range(5):
        ys = np.concatenate((ys, [p[t % 4] * t], p[:2]))
    return np.sum(np.diff(ys) ** 2) * 1e-4


def grids(p):
    s = 0.0
    for i in range(6):
        s += np.sum(np.linspace(0, p[0], i + 1) ** 2) + np.sum(np.linspace(p[1], 1.0, i, endpoint=False))
        s += np.sum(np.arange(i + 1.0) * p[2]) + np.sum(np.arange(2 * i + 0.0, i - 1.0, -1.0) * p[3])
        s += np.sum(np.arange(0, i, 2) * p[0]) + np.sum(np.arange(5, i, -2) * p[1])
    return s


OPTION_PROGRAMS = [
    binomial_tree,
    american_with_prices_that_shrink,
    american_with_prices_made_anew,
    american_in_a_table,
    appended,
    joined_from_nothing,
    grids,
]
CASES = [(f, MATRIX) for f in MATRIX_PROGRAMS] + [(f, OPTION) for f in OPTION_PROGRAMS]


def slopes(f: Callable[..., Any], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    result = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6 * max(1.0, abs(x[place]))
        result[place] = (f(x + step) - f(x - step)) / (2 * step[place])
    return result


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("f", "x"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_gradient(f: Callable[..., Any], x: np.ndarray[Any, Any], backend: str) -> None:
    value, slope = tg.value_and_grad(f, backend=backend)(x.copy())
    np.testing.assert_allclose(value, f(x.copy()), rtol=1e-12)
    want = slopes(f, x)
    np.testing.assert_allclose(slope, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize(("f", "x"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_no_loop_is_unrolled(f: Callable[..., Any], x: np.ndarray[Any, Any]) -> None:
    text = str(tg.explain(f)(x))
    assert "staged" in text
    assert "unrolled" not in text


@pytest.mark.parametrize("f", [elimination_by_outer_products, growing_window, back_substitution])
def test_text_does_not_grow_with_the_size(f: Callable[..., Any]) -> None:
    large = np.eye(200) * 3.0 + 0.001
    gradient = tg.grad(f)
    assert len(gradient.source(large).splitlines()) < 1.2 * len(tg.grad(f).source(MATRIX).splitlines())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [cholesky_by_columns, back_substitution, growing_window])
def test_hessian_and_batch(f: Callable[..., Any], backend: str) -> None:
    direction = np.cos(np.arange(25.0)).reshape(5, 5)
    (product,) = tg.hvp(f, (MATRIX,), (direction,), backend=backend)
    gradient = tg.grad(f)
    want = (gradient(MATRIX + 1e-5 * direction) - gradient(MATRIX - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(product, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())
    both = np.stack([MATRIX, MATRIX + 0.1])
    np.testing.assert_allclose(
        tg.vmap(tg.grad(f), backend=backend)(both), np.stack([gradient(a) for a in both]), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_are_compared_when_the_program_runs(backend: str) -> None:
    def f(x, k):
        s = 0.0
        i = int(k)
        while i > 0:
            s += np.sum(x[:i] * x[: int(k) - i])
            i -= 1
        return s

    with pytest.raises(ValueError, match="could not be broadcast together"):
        tg.function(f, backend=backend)(np.ones(4), 3.0 * np.ones(()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_index_is_compared_with_the_length(backend: str) -> None:
    def f(x):
        s = 0.0
        for i in range(len(x)):
            s += x[:i][2]
        return s

    with pytest.raises(IndexError, match="out of bounds"):
        tg.function(f, backend=backend)(np.ones(4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_maximum_of_nothing(backend: str) -> None:
    def f(x):
        s = 0.0
        for i in range(len(x)):
            s += np.max(x[:i])
        return s

    with pytest.raises(ValueError, match="zero-size array to reduction operation"):
        tg.function(f, backend=backend)(np.ones(4))


def test_length_where_it_must_be_known() -> None:
    def f(x):
        return np.fft.rfft(x[: int(x[0])])[0].real

    with pytest.raises(NeedsPythonValue, match="TG118"):
        tg.grad(f)(np.ones(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_array_after_a_loop_that_lengthens_it_evenly(backend: str) -> None:
    def path(x, n):
        ys = np.array([x])
        for _ in range(n):
            ys = np.append(ys, ys[-1] * 0.5 + 1.0)
        return ys

    traced = tg.function(path, backend=backend)
    np.testing.assert_allclose(traced(2.0, 200), path(2.0, 200))
    assert tg.grad(lambda x: path(x, 200)[3], backend=backend)(2.0) == pytest.approx(0.125)
