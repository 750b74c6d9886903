"""Items of lists that change places by traced numbers: `a[k], a[p] = a[p], a[k]`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.errors import NeedsPythonValue

POINTS = (np.array([0.7, 0.9, 0.4]), np.array([-0.3, 1.2, 0.45]), np.array([1.7, -0.6, 0.8]))


def matrix(x: Any, n: int) -> Any:
    return [
        [np.sin(3.0 * i + 5.0 * j * j + x[(i + j) % 3]) + 4.0 * ((i + 3) % n == j) for j in range(n)] for i in range(n)
    ]


def solve(m: Any, b: Any) -> Any:
    n = len(m)
    a = [row[:] for row in m]
    b = b[:]
    for k in range(n):
        p = max(range(k, n), key=lambda i: abs(a[i][k]))
        if p != k:
            a[k], a[p] = a[p], a[k]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            factor = a[i][k] / a[k][k]
            for j in range(k, n):
                a[i][j] -= factor * a[k][j]
            b[i] -= factor * b[k]
    y = [0.0] * n
    for i in range(n - 1, -1, -1):
        y[i] = (b[i] - sum(a[i][j] * y[j] for j in range(i + 1, n))) / a[i][i]
    return y


def elimination(x: Any) -> Any:
    y = solve([[x[0], 1.0, 2.0], [3.0, x[1], x[2]], [x[2], 0.5, 4.0]], [1.0, 2.0, 3.0])
    return y[0] + 2 * y[1] + 3 * y[2]


def long_elimination(x: Any) -> Any:
    return sum(solve(matrix(x, 11), [1.0] * 11))


def elimination_with_a_right_side(x: Any) -> Any:
    n = 10
    a = [row + [1.0 + i] for i, row in enumerate(matrix(x, n))]
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i][k]) > abs(a[p][k]):
                p = i
        a[k], a[p] = a[p], a[k]
        for i in range(k + 1, n):
            factor = a[i][k] / a[k][k]
            for j in range(k, n + 1):
                a[i][j] -= factor * a[k][j]
    y = [0.0] * n
    for i in range(n - 1, -1, -1):
        s = a[i][n]
        for j in range(i + 1, n):
            s -= a[i][j] * y[j]
        y[i] = s / a[i][i]
    return sum(y)


def determinant_of_arrays(x: Any) -> Any:
    a = [np.array([x[0], 1.0, 2.0]), np.array([3.0, x[1], x[2]]), np.array([x[2], 0.5, 4.0])]
    determinant = 1.0
    for k in range(3):
        p = k
        for i in range(k + 1, 3):
            if abs(a[i][k]) > abs(a[p][k]):
                p = i
        if p != k:
            a[k], a[p] = a[p], a[k]
            determinant = -determinant
        determinant *= a[k][k]
        for i in range(k + 1, 3):
            a[i] -= a[i][k] / a[k][k] * a[k]
    return determinant


def by_a_third_name(x: Any) -> Any:
    a = [[x[0], 1.0, 2.0], [3.0, x[1], x[2]], [x[2], 0.5, 4.0]]
    for k in range(3):
        p = k
        for i in range(k + 1, 3):
            if abs(a[i][k]) > abs(a[p][k]):
                p = i
        kept = a[k]
        a[k] = a[p]
        a[p] = kept
        for i in range(k + 1, 3):
            factor = a[i][k] / a[k][k]
            for j in range(k, 3):
                a[i][j] -= factor * a[k][j]
    return a[0][0] * a[1][1] * a[2][2]


def sorted_rows(x: Any) -> Any:
    a = [[x[0], 1.0], [x[1], 2.0], [x[2], 3.0]]
    for _ in range(3):
        for j in range(2):
            if a[j][0] > a[j + 1][0]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a[0][1] * a[0][0] + a[1][0] * 2 * a[1][1] + a[2][0] * 3


def three_in_a_circle(x: Any) -> Any:
    a = [[x[0], 1.0], [x[1], 2.0], [x[2], 3.0], [4.0, 5.0]]
    p = 1 if x[0] > 0 else 3
    a[0], a[p], a[2] = a[p], a[2], a[0]
    a[0][0] *= x[1]
    return a[0][0] + 2 * a[1][0] + 3 * a[2][0] * a[3][0] + 4 * a[0][1]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize(
    "program",
    [
        elimination,
        long_elimination,
        elimination_with_a_right_side,
        determinant_of_arrays,
        by_a_third_name,
        sorted_rows,
        three_in_a_circle,
    ],
)
def test_items_change_places(program: Any, backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def held_before(x: Any) -> Any:
    a = [[x[0], 1.0], [2.0, x[1]]]
    first = a[0]
    p = 1 if x[0] > 0 else 0
    a[0], a[p] = a[p], a[0]
    a[0][0] = 5.0 * x[2]
    return first[0] + a[1][0] * 2 + a[0][1]


def named_before(x: Any) -> Any:
    first = [x[0], 1.0]
    a = [first, [2.0, x[1]]]
    p = 1 if x[0] > 0 else 0
    a[0], a[p] = a[p], a[0]
    a[0][0] = 5.0 * x[2]
    return first[0] + a[1][0] * 2 + a[0][1]


def held_in_a_loop(x: Any) -> Any:
    a = [[x[0], 1.0], [2.0, x[1]]]
    total = 0.0
    for row in a:
        p = 1 if x[0] > 0 else 0
        a[0], a[p] = a[p], a[0]
        a[0][0] *= 0.5
        total += row[0]
    return total


@pytest.mark.parametrize("program", [held_before, named_before, held_in_a_loop])
def test_an_item_with_another_name_is_not_taken_for_its_place(program: Any) -> None:
    with pytest.raises(NeedsPythonValue) as raised:
        tg.grad(program)(POINTS[0])
    assert raised.value.code == "TG136"
