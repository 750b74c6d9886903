"""Programs of which the C backend once computed something else than the NumPy backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg


def convolved(c):
    return np.sum(np.convolve(c, c) * np.array([1.0, 2.0, 3.0, 4.0, 5.0]))


def gather_from_padded(c, start=0):
    return np.sum(np.pad(c, (2, 2))[np.array(start) + np.arange(3)] * np.array([1.0, 2.0, 3.0]))


def row_of_constants(c):
    A = np.outer(c, np.ones(6))
    return np.sum(np.sin(A + np.broadcast_to(np.arange(6.0), (3, 6))))


def product_with_constants(c):
    A = np.outer(c, np.arange(1.0, 7.0))
    return np.sum(A @ np.arange(6.0)) + np.sum(A * np.sin(np.arange(18.0)).reshape(3, 6))


def block_of_rows_scaled(c):
    A = np.outer(c, c)
    A[[0, 1], :2] *= c[0]
    return np.sum(A**2)


def sorted_diagonal(c):
    return np.sum(np.sort(np.diag(np.outer(c, c))) * np.arange(3))


def rows_swapped_in_a_loop(c):
    A = np.outer(c, c) + np.diag([3.0, 1.0, 2.0])
    for k in range(2):
        p = k + np.argmax(np.abs(A[k:, k]))
        A[[k, p]] = A[[p, k]]
        for i in range(k + 1, 3):
            A[i] = A[i] - A[k] * (A[i, k] / A[k, k])
    return np.prod(np.diag(A))


def places_in_a_list(c):
    k = int(np.argmax(c))
    return np.sum(c[[0, k, 2]] * np.array([1.0, 2.0, 3.0])) * c[k]


def places_in_a_list_of_a_loop(c):
    total = 0.0
    for k in range(3):
        kept = c[np.array([0, k, 4]) % 3]
        c[[0, k]] = kept[1:] * 0.5
        total = total + np.sum(c * kept[[k, 0, k]]) * c[k]
    return total


def places_of_elements(c):
    k = np.argmax(c)
    M = np.outer(c, c)
    return np.sum(tg.vmap(lambda row, i: row[[0, i, k]] ** 2)(M, np.array([2, 1, 0])) * M)


@pytest.mark.parametrize(
    "program",
    [
        convolved,
        gather_from_padded,
        row_of_constants,
        product_with_constants,
        block_of_rows_scaled,
        sorted_diagonal,
        rows_swapped_in_a_loop,
        places_in_a_list,
        places_in_a_list_of_a_loop,
        places_of_elements,
    ],
    ids=lambda f: f.__name__,
)
def test_c_equals_numpy(program: Callable[..., Any]) -> None:
    c = np.array([0.3, -0.7, 1.1])
    expected, ct = tg.value_and_grad(program)(c.copy())
    found, found_ct = tg.value_and_grad(program, backend="c")(c.copy())
    assert float(expected) == pytest.approx(float(program(c.copy())), rel=1e-12)
    assert float(found) == pytest.approx(float(expected), rel=1e-12)
    np.testing.assert_allclose(found_ct, ct, rtol=1e-11, atol=1e-12)
    seed = np.array([1.0, -0.5, 2.0])
    _, t_out = tg.jvp(program, (c.copy(),), (seed,), backend="c")
    assert float(t_out) == pytest.approx(float(ct @ seed), rel=1e-10)
