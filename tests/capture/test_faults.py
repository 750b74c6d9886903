"""Code that NumPy or Python refuses, on paths that need not run: an error of the run, and only where they do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_ragged import slopes
from tracegrad.errors import TracegradError

BACKENDS = ("numpy", "c")


def maximum_of_nothing(x):
    s = np.sum(x)
    for _ in range(int(np.sum(x[:0] > 0) + (s > 0))):
        s += x[:0].max()
    return s


def index_in_a_while_loop(x):
    s, k = 0.0, 0
    while x[0] > 0 and k < 3:
        s += x[7]
        k += 1
    return s + np.sum(x)


def shapes_in_a_branch(x):
    s = np.sum(x)
    if s > 0:
        s = s + np.sum(x + np.ones(7))
    return s


def index_in_a_conditional_expression(x):
    s = np.sum(x)
    return s if not s > 0 else x[7]


def index_after_and(x):
    s = np.sum(x)
    if s > 0 and x[7] > 0:
        return s * 2
    return s


def index_in_a_test_of_a_loop(x):
    s = np.sum(x)
    while s > 0 and x[7] > 0:
        s -= 1
    return s


def matrix_that_is_not_square(x):
    s = np.sum(x)
    for k in range(int(np.sum(x > 0))):
        if k > 50:
            continue
        s += np.linalg.inv(np.ones((2, 3)) * x[0])[0, 0]
    return s


def before_a_break(x):
    s = np.sum(x)
    for _ in range(int(np.sum(x > 0))):
        if s > 50:
            break
        s += x[7]
    return s


def reshape_in_a_loop_in_a_loop(x):
    s = np.sum(x)
    for _ in range(3):
        while s > 0:
            s += x.reshape(5, 5)[0, 0]
    return s


def list_index(x):
    s = np.sum(x)
    for _ in range(int(s > 0)):
        s += [1.0, 2.0][5]
    return s


def in_a_function(x):
    s = np.sum(x)
    while s > 0:
        s = _of_five(x)
    return s


def _of_five(x):
    if len(x) < 5:
        raise ValueError("few")
    return x[4]


def raised_in_a_while_loop(x):
    while x[0] > 0:
        raise ValueError("positive")
    return np.sum(x)


def raised_after_a_walrus(x):
    while (first := x[0]) > 0:
        raise KeyError("positive")
    return first * 2


PROGRAMS = [
    maximum_of_nothing,
    index_in_a_while_loop,
    shapes_in_a_branch,
    index_in_a_conditional_expression,
    index_after_and,
    index_in_a_test_of_a_loop,
    matrix_that_is_not_square,
    before_a_break,
    reshape_in_a_loop_in_a_loop,
    list_index,
    in_a_function,
    raised_in_a_while_loop,
    raised_after_a_walrus,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_error_where_the_code_runs(f: Callable[[Any], Any], backend: str) -> None:
    traced = tg.value_and_grad(f, backend=backend)
    x = np.array([-1.0, -2.0, -0.5])
    value, gradient = traced(x)
    np.testing.assert_allclose(value, f(x))
    np.testing.assert_allclose(gradient, slopes(f, x), atol=1e-6)
    with pytest.raises((ValueError, LookupError)) as expected:
        f(-x)
    with pytest.raises(type(expected.value), match=r"test_faults.py:\d+") as raised:
        traced(-x)
    assert not isinstance(raised.value, TracegradError)


def test_code_that_runs_at_any_rate_is_refused_at_capture() -> None:
    def in_a_loop(x):
        for _ in range(3):
            x = x + np.ones(7)
        return np.sum(x)

    def on_both_paths(x):
        return x[7] if x[0] > 0 else x[8]

    for f in (in_a_loop, on_both_paths):
        with pytest.raises(TracegradError, match=r"TG11[07]"):
            tg.grad(f).ir(np.ones(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_handler_around_a_path(backend: str) -> None:
    def f(x):
        s = np.sum(x)
        try:
            if s > 0:
                s = x[7]
        except IndexError:
            s = 3.0 * x[1]
        return s

    for x in (np.ones(3), -np.ones(3)):
        value, gradient = tg.value_and_grad(f, backend=backend)(x)
        np.testing.assert_allclose(value, f(x))
        np.testing.assert_allclose(gradient, slopes(f, x), atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_loop_of_unknown_length_that_binds_constants(backend: str) -> None:
    def f(x):
        scale = 1.0
        for k in range(int(np.sum(x > 0))):
            scale = 3.0 if k > 0 else 2.0
        return np.sum(x) * scale

    for x in (-np.ones(3), np.array([1.0, -1.0, -3.0]), np.ones(3)):
        np.testing.assert_allclose(tg.grad(f, backend=backend)(x), slopes(f, x), atol=1e-6)


def matrix(x: Any) -> Any:
    return np.array([[x[0], 1.0], [1.0, 1.0]])


def only_checked(x: Any) -> Any:
    np.linalg.cholesky(matrix(x))
    return 2.0 * x[1]


def overwritten(x: Any) -> Any:
    found = 0.0
    for k in range(3):
        if x[k] < 5.0:
            found = np.linalg.cholesky(matrix(x))[1, 1]
        else:
            found = x[1]
    found = 2.0 * x[1]
    return found + 0.0 * x[2]


def unread_inverse(x: Any) -> Any:
    inverse = np.linalg.inv(matrix(x))
    solution = np.linalg.solve(matrix(x), x[:2])
    return 2.0 * x[1] if len(inverse) == len(solution) else x[0]


def unread_before_a_handler(x: Any) -> Any:
    np.linalg.inv(matrix(x))
    try:
        return 2.0 * x[1] + 0.0 * math.log(x[2])
    except ValueError:
        return x[0]


def unread_where_another_fault_is_handled(x: Any) -> Any:
    found, table = 2.0 * x[1], [x[0], x[1]]
    for k in range(2):
        try:
            if x[k] > -9.0:
                np.linalg.inv(matrix(x))
            found += 0.0 * table[int(9.0 * x[2])]
        except IndexError:
            found = x[0]
    return found


def unread_in_a_handler(x: Any) -> Any:
    try:
        found = math.log(x[2] - 9.0)
    except ValueError:
        found = np.sum(np.linalg.inv(matrix(x)))
    found = 2.0 * x[1]
    return found + 0.0 * x[0]


def unread_items_of_a_list(x: Any) -> Any:
    place, values = int(x[0]), [2.0 * x[1], 0.5]
    if x[1] < 5.0:
        found = values[place]
    for k in range(2):
        found = values[place] + k
    found = values[0]
    return found + 0.0 * x[0]


def unread_items(x: Any) -> Any:
    place = int(x[0])
    np.array([1.0, 2.0])[place]
    doubled = 2.0 * x
    doubled[place]
    known = np.ones(4)
    known[known > 0.5]
    known[::2][known[::2] > 0.5]
    for k in range(2):
        x[k + place]
    return 2.0 * x[1]


def unread_write(x: Any) -> Any:
    w = np.zeros(2)
    w[int(x[0])] = x[1]
    return 2.0 * x[1]


def unread_write_into_a_view(x: Any) -> Any:
    w = np.zeros((2, 3))
    if x[1] < 5.0:
        w[:, 1:][int(x[0])] = x[1]
    return 2.0 * x[1]


def unread_write_into_a_list(x: Any) -> Any:
    w = [0.0, 0.0]
    w[int(x[0])] = x[1]
    return 2.0 * x[1]


def unread_write_in_a_loop(x: Any) -> Any:
    w, n = np.zeros(2), 0
    while n <= x[0]:
        w[n] = x[1]
        n += 1
    return 2.0 * x[1]


def unread_write_of_what_a_loop_counts(x: Any) -> Any:
    w = np.zeros(2)
    for k in range(int(x[0]) + 1):
        w[k] = x[1]
    return 2.0 * x[1]


def unread_item_in_a_recursion(x: Any) -> Any:
    def times(n: int) -> Any:
        if n == 0:
            return 2.0
        np.array([1.0, 2.0])[int(x[0])]
        return times(n - 1)

    return times(3) * x[1]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize(
    "function",
    [
        *(unread_items, unread_items_of_a_list, unread_item_in_a_recursion),
        *(unread_write, unread_write_into_a_view, unread_write_into_a_list),
        *(unread_write_in_a_loop, unread_write_of_what_a_loop_counts),
    ],
)
def test_an_index_of_an_item_that_nothing_reads_is_checked_all_the_same(function: Any, backend: str) -> None:
    inside, outside = np.array([1.0, 0.5, 0.2]), np.array([2.0, 0.5, 0.2])
    np.testing.assert_array_equal(tg.grad(function, backend=backend)(inside), [0.0, 2.0, 0.0])
    for made in (function, tg.function(function, backend=backend), tg.grad(function, backend=backend)):
        with pytest.raises(IndexError):
            made(outside)


def handled(x: Any) -> Any:
    try:
        np.linalg.cholesky(matrix(x))
        return 2.0 * x[1]
    except np.linalg.LinAlgError:
        return x[2]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize(
    "function",
    [
        *(only_checked, overwritten, unread_inverse),
        *(unread_before_a_handler, unread_where_another_fault_is_handled, unread_in_a_handler),
    ],
)
def test_a_factorization_that_nothing_reads_fails_all_the_same(function: Any, backend: str) -> None:
    regular, singular = np.array([3.0, 0.5, 0.2]), np.array([1.0, 0.5, 0.2])
    np.testing.assert_array_equal(tg.grad(function, backend=backend)(regular), [0.0, 2.0, 0.0])
    for made in (function, tg.function(function, backend=backend), tg.grad(function, backend=backend)):
        with pytest.raises(np.linalg.LinAlgError):
            made(singular)


def corner(a: Any) -> Any:
    try:
        return np.linalg.cholesky(a)[0, 0]
    except np.linalg.LinAlgError:
        return -1.0 + 0.0 * a[0, 0]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_a_matrix_with_nan_has_a_cholesky_factor(dtype: Any, backend: str) -> None:
    compiled = tg.function(corner, backend=backend)
    for diagonal in (
        [1.0, np.nan, 1.0],
        [np.nan, 1.0, -1.0],
        [1.0, -1.0, np.nan],
        [1.0, 0.0, 1.0],
        [1.0, -np.inf, 1.0],
    ):
        a = np.diag(diagonal).astype(dtype)
        np.testing.assert_array_equal(compiled(a), corner(a))


def test_a_factorization_whose_failure_is_handled_is_checked_once() -> None:
    gradient = tg.grad(handled)
    np.testing.assert_array_equal(gradient(np.array([3.0, 0.5, 0.2])), [0.0, 2.0, 0.0])
    np.testing.assert_array_equal(gradient(np.array([1.0, 0.5, 0.2])), [0.0, 0.0, 1.0])
    text = gradient.source(np.array([3.0, 0.5, 0.2]))
    assert text.count("is_positive_definite(reshaped)") == 1
    assert "raise" not in text
