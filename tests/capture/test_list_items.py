"""Lists whose items are read and replaced by the variable of a loop: numbers, arrays, lists, None; and what else names
an item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINT = np.array([0.7, -0.4, 1.3])
MATRIX = np.array([[0.5, 0.1, 0.0], [0.0, 0.4, 0.2], [0.1, 0.0, 0.3]])


def backward_recursion(x: Any) -> Any:
    n = 150
    costs: list[Any] = [None] * (n + 1)
    gains: list[Any] = [None] * n
    costs[n] = np.eye(3)
    for k in range(n - 1, -1, -1):
        after = costs[k + 1]
        gains[k] = MATRIX.T @ after * x[1]
        costs[k] = np.eye(3) * x[0] + gains[k] @ MATRIX
    total = 0.0
    for k in range(n):
        total += np.sum(gains[k] @ x)
    return total + np.sum(costs[0])


def filled_with_arrays_that_are_equal(x: Any) -> Any:
    p: list[Any] = [np.zeros(3)] * 20
    p[19] = x * x
    for k in range(18, -1, -1):
        p[k] = 0.5 * p[k + 1] + x
    return np.sum(p[0] * p[3])


def table_of_lists(x: Any) -> Any:
    n = 12
    table = [[0.0] * (n + 1) for _ in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            table[i][j] = max(table[i - 1][j], table[i][j - 1]) * 0.9 + x[i % 3] * x[j % 3]
    return table[n][n]


def row_under_a_name(x: Any) -> Any:
    table = [[0.0, 0.0, 0.0] for _ in range(12)]
    for i in range(1, 12):
        row, above = table[i], table[i - 1]
        for j in range(3):
            row[j] = above[j] + x[j] * i
        row[-1] *= x[0]
    return sum(sum(row) for row in table)


def rows_replaced(x: Any) -> Any:
    table = [[x[0] * i, x[1], 0.5] for i in range(12)]
    total = 0.0
    for i in range(1, 12):
        old = table[i]
        table[i] = [v * 0.5 + table[i - 1][2] for v in old]
        total += old[0] * table[i][1]
    return total + np.sum(np.array(table))


def three_levels(x: Any) -> Any:
    cube = [[[0.0] * 4 for _ in range(3)] for _ in range(10)]
    for i in range(1, 10):
        for j in range(3):
            for k in range(4):
                cube[i][j][k] = 0.5 * cube[i - 1][j][k] + x[j] * k
    return cube[9][2][3] + cube[4][1][2]


def integers_become_floats(x: Any) -> Any:
    values: list[Any] = [0] * 20
    for i in range(20):
        values[i] += x[0] * i
        values[i - 1] = values[i] * x[1]
    return sum(values) + values[3]


def positions_from_the_end(x: Any) -> Any:
    c = [x[0], x[1], x[2]]
    for _ in range(30):
        c[-1] = c[-1] * 0.99 + x[1]
        c[2] = c[2] * 0.98
        c[-3] += c[2]
    return c[0] + c[2] * c[1]


def item_kept_when_replaced(x: Any) -> Any:
    rows = [x * 1.0]
    for _ in range(20):
        rows.append(rows[-1] * 0.9)
    total = 0.0
    for i in range(20):
        old = rows[i]
        rows[i] = rows[i + 1] * 2.0
        total += old[0]
    last = rows[-1]
    rows[-1] = last * 3.0
    return total + np.sum(rows[0]) + np.sum(last) * rows[-1][1]


def item_replaced_after_append(x: Any) -> Any:
    rows = [x * 1.0]
    total = 0.0
    for _ in range(20):
        rows.append(rows[-1] * 0.9)
        old = rows[-1]
        rows[-1] = old * 0.5
        total += old[0]
    return total + np.sum(rows[-1])


def item_written_in_place(x: Any) -> Any:
    rows = [np.zeros(3) for _ in range(12)]
    for i in range(11):
        rows[i] += x * i
        rows[i + 1][0] = rows[i][1]
        rows[i][2] *= x[0]
    return sum(np.sum(row) for row in rows)


def taken_from_the_end(x: Any) -> Any:
    stack = [x * 1.0, x * 2.0]
    for _ in range(20):
        top = stack.pop()
        below = stack.pop()
        stack.append(top * 0.5)
        stack.append(below + top * 0.1)
    return np.sum(stack[0] * stack[1])


def array_of_a_list_is_a_copy(x: Any) -> Any:
    rows = [x * 1.0]
    for _ in range(20):
        rows.append(rows[-1] * 0.9)
    made, stacked, view = np.array(rows), np.stack(rows), np.asarray(rows)
    made[0, 0] = 5.0 * x[1]
    stacked[1] = 0.0
    view[2] = 0.0
    return rows[0].sum() + rows[1].sum() + rows[2].sum() + made.sum() + view.sum()


def previous_row_carried(x: Any) -> Any:
    table = []
    above = [0.0] * 10
    for i in range(12):
        row = [0.0] * 10
        for j in range(10):
            row[j] = above[j] * 0.5 + x[j % 3] * i
        table.append(row)
        above = row
    return sum(sum(row) for row in table) + above[4]


def in_a_branch(x: Any) -> Any:
    values = [0.0] * 20
    if x[0] > 0:
        for i in range(20):
            values[i] = x[1] * i
    return sum(values)


def read_by_position_of_the_maximum(x: Any) -> Any:
    matrices = [np.eye(3) * x[0], np.ones((3, 3)) * x[1], MATRIX * x[2]]
    best = int(np.argmax([np.sum(m) for m in matrices]))
    return np.sum(matrices[best] @ x)


def rows_copied_by_slices(x: Any) -> Any:
    table = [[x[(i + j) % 3] for j in range(10)] for i in range(10)]
    copied = [row[:] for row in table]
    for i in range(1, 10):
        for j in range(10):
            copied[i][j] += 0.1 * copied[i - 1][j]
    return sum(sum(row) for row in copied) + table[3][4]


PROGRAMS: list[Callable[[Any], Any]] = [
    backward_recursion,
    filled_with_arrays_that_are_equal,
    table_of_lists,
    row_under_a_name,
    rows_replaced,
    three_levels,
    integers_become_floats,
    positions_from_the_end,
    item_kept_when_replaced,
    item_replaced_after_append,
    item_written_in_place,
    taken_from_the_end,
    array_of_a_list_is_a_copy,
    previous_row_carried,
    in_a_branch,
    read_by_position_of_the_maximum,
    rows_copied_by_slices,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_python_has_it(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.value_and_grad(f, backend=backend)(POINT)
    np.testing.assert_allclose(value, f(POINT), rtol=1e-12)
    np.testing.assert_allclose(gradient, central_differences(f, POINT), rtol=1e-6, atol=1e-7)


def other_name_read_after_a_write_into_the_row(x: Any) -> Any:
    rows = []
    for i in range(20):
        y = x * i
        rows.append(y)
    rows[-1][0] = x[1] * 7.0
    return y.sum()


def name_from_before_read_after_a_write(x: Any) -> Any:
    rows = [np.zeros(2) for _ in range(20)]
    first = rows[0]
    for i in range(20):
        rows[i][1] = x[0]
    return first[1] * x[1]


def name_in_the_loop_read_after_a_write(x: Any) -> Any:
    rows: list[Any] = []
    total = 0.0
    for i in range(200):
        y = x * i
        rows.append(y)
        rows[-1][0] = x[1]
        total += y[0]
    return total


def name_carried_and_written_through_the_list(x: Any) -> Any:
    rows = [x * 1.0]
    last = rows[0]
    total = 0.0
    for i in range(200):
        rows[-1][0] = x[1] * i
        total += last[0]
        y = x * i
        rows.append(y)
        last = y
    return total


def copied_item_written_by_its_name(x: Any) -> Any:
    rows: list[Any] = [x * 1.0]
    for _ in range(200):
        rows.append(rows[-1] * 0.9)
        new = rows[-1] * 2.0
        rows[-1] = new
        new[0] = 7.0 * x[2]
    return rows[-1].sum()


def argument_as_item_written_through_the_list(x: Any) -> Any:
    rows = []
    for _ in range(200):
        rows.append(x)
    rows[3][0] = 5.0
    return x[0] * x[1]


def row_that_grows(x: Any) -> Any:
    table = [[0.0] * 2 for _ in range(12)]
    for i in range(12):
        table[i][0] = x[0] * i
    table[3].append(x[1])
    return sum(sum(row) for row in table)


def list_that_grows_after_it_was_appended(x: Any) -> Any:
    table = []
    for i in range(12):
        row = [x[0] * i]
        table.append(row)
    row.append(x[1] * 9.0)
    return sum(sum(row) for row in table)


def two_lists_of_the_same_rows(x: Any) -> Any:
    rows = [[0.0] for _ in range(9)]
    others = list(rows)
    total = 0.0
    for i in range(9):
        others[i][0] = x[0] * i
        total += rows[i][0]
    return total


def two_lists_of_the_same_arrays(x: Any) -> Any:
    rows = [np.ones(2) for _ in range(9)]
    others = rows + [np.zeros(2)]
    total = 0.0
    for i in range(9):
        total += rows[i][0]
        others[i][0] = x[0] * i
    return total + rows[3][0]


def runs_of_different_lengths(x: Any) -> Any:
    runs: list[Any] = [[]]
    for v in x:
        if v > 0:
            runs[-1].append(v)
        elif runs[-1]:
            runs.append([])
    return sum(sum(run) ** 2 for run in runs)


def copied_before_the_loop_is_captured_again(x: Any) -> Any:
    rows = [x[:2] * x[2] for _ in range(20)]
    first = rows[0]
    s = 0.0
    for i in range(20):
        rows.append(np.ones(2) * x[i % 3])
        if s > 0.2:
            rows.append(x[:2])
        if x[0] > 0.2:
            s = s + 0.3
    first[0] = x[1]
    return s + rows[0][0]


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (other_name_read_after_a_write_into_the_row, "TG136"),
    (name_from_before_read_after_a_write, "TG136"),
    (name_in_the_loop_read_after_a_write, "TG120"),
    (name_carried_and_written_through_the_list, "TG120"),
    (copied_item_written_by_its_name, "TG120"),
    (argument_as_item_written_through_the_list, "TG136"),
    (row_that_grows, "TG136"),
    (two_lists_of_the_same_rows, "TG136"),
    (two_lists_of_the_same_arrays, "TG136"),
    (runs_of_different_lengths, "TG113"),
    (copied_before_the_loop_is_captured_again, "TG136"),
    (list_that_grows_after_it_was_appended, "TG136"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("f", "code"), REFUSED)
def test_refused(f: Callable[[Any], Any], code: str, backend: str) -> None:
    with pytest.raises(TracegradError) as caught:
        tg.grad(f, backend=backend)(POINT.copy())
    assert caught.value.code == code


def lists_as_result(x: Any) -> Any:
    table = [[0.0] * 3 for _ in range(12)]
    for i in range(12):
        table[i][i % 3] = x[0] * i
    return table


@pytest.mark.parametrize("backend", BACKENDS)
def test_nested_lists_come_back_as_such(backend: str) -> None:
    assert tg.function(lists_as_result, backend=backend)(POINT) == lists_as_result(POINT)


def out_of_range(x: Any) -> Any:
    rows = [x * 1.0]
    total = 0.0
    for i in range(20):
        total += np.sum(rows[i + 1])
        rows.append(rows[-1] * 0.5)
    return total


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_position_beyond_the_end_is_an_error(backend: str) -> None:
    with pytest.raises(IndexError):
        out_of_range(POINT)
    with pytest.raises(IndexError):
        tg.function(out_of_range, backend=backend)(POINT)


def division_by_a_stored_zero(x: Any) -> Any:
    values = [0.0] * 20
    for i in range(20):
        values[i] = x[0] * i
    return 1.0 / values[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_items_that_come_from_arrays_divide_as_those(backend: str) -> None:
    with np.errstate(divide="ignore"):
        assert tg.function(division_by_a_stored_zero, backend=backend)(POINT) == division_by_a_stored_zero(POINT)


def items_not_stored_yet(x: Any) -> Any:
    values: list[Any] = [None] * 20
    values[0] = x[0]
    total = 0.0
    for i in range(20):
        total += values[i] * x[1]
    return total


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_item_that_is_none_is_an_error(backend: str) -> None:
    with pytest.raises(TypeError):
        tg.function(items_not_stored_yet, backend=backend)(POINT)
