"""Methods and attributes of slices whose length is known only at run time, and of selections by a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_ragged import slopes
from tracegrad.errors import CaptureError, NeedsPythonValue

BACKENDS = ("numpy", "c")
X = np.array([0.6, -1.1, 2.3, 0.2, 1.7])

#: what is done with a slice of length i, in one loop in IR
STAGED: dict[str, Callable[[Any, Any], Any]] = {
    "reshape_column": lambda c, i: c.reshape(-1, 1).T @ c.reshape(-1, 1),
    "reshape_by_length": lambda c, i: c.reshape(i, 1) @ c.reshape((1, i)) * np.cos(np.arange(i)),
    "reshape_function": lambda c, i: np.reshape(c, (1, i, 1)) * c.reshape(1, -1),
    "reshape_backwards": lambda c, i: c[::-1].reshape(-1, 1) * c,
    "ravel": lambda c, i: c.ravel() * c[:, None].ravel(),
    "flatten": lambda c, i: c.flatten() ** 2,
    "log_sum": lambda c, i: np.logaddexp.reduce(c) * np.logaddexp.reduce(c[:, None] * c, axis=None),
    "log_sums_of_rows": lambda c, i: np.logaddexp.reduce(c[:, None] * X, axis=1) * np.logaddexp.accumulate(c),
    "log_sum_kept": lambda c, i: np.logaddexp.reduce(c[:, None] * X, keepdims=True),
    "take_one": lambda c, i: c.take(0) * np.take(c, i - 1),
    "item": lambda c, i: c.item(0) * c.item(-1),
    "item_of_one": lambda c, i: c[:1].item(),
    "repeat": lambda c, i: c.repeat(2) * np.arange(2 * i),
    "sort": lambda c, i: np.sort(c) * np.arange(i),
    "sort_in_place": lambda c, i: (c.sort(), c * np.arange(i))[1],
    "argsort": lambda c, i: c.argsort() * c,
    "sort_backwards": lambda c, i: np.sort(c[::-1])[::-1] * np.arange(i),
    "searchsorted": lambda c, i: np.cumsum(c * c).searchsorted(1.0) * c,
    "swapaxes": lambda c, i: np.outer(c, np.arange(3.0)).swapaxes(0, 1) * c,
    "transpose": lambda c, i: np.outer(c, np.arange(3.0)).transpose(1, 0) * c + np.outer(c, np.arange(3.0)).transpose(),
    "squeeze": lambda c, i: c[None].squeeze() * np.squeeze(c[:, None], 1),
    "expand_dims": lambda c, i: np.expand_dims(c, 0) * np.expand_dims(c, (1, 2)),
    "trace": lambda c, i: np.outer(c, c * c).trace() + np.trace(np.outer(c, np.ones(3))),
    "diagonal": lambda c, i: np.outer(c, c).diagonal() * 0.1,
    "diag": lambda c, i: np.diag(c) @ c * c,
    "flat": lambda c, i: c.flat[0] * c.flat[i - 1],
    "real_and_imag": lambda c, i: c.real * c + c.imag,
    "sizes": lambda c, i: c.nbytes + c.itemsize * c.size + c.shape[0] * c,
    "view": lambda c, i: c.view() * c.conj() * c.conjugate(),
    "stack": lambda c, i: np.stack([c, c * c], 1)[:, 0] * np.vstack([c, c * c]) + np.column_stack((c, c)).T,
}
#: what needs the length: the loop is unrolled
UNROLLED: dict[str, Callable[[Any, Any], Any]] = {
    "tolist": lambda c, i: sum(v * v for v in c.tolist()),
    "reshape_to_two_axes": lambda c, i: np.outer(c, c).reshape(-1) * np.arange(i * i),
    "take_many": lambda c, i: c.take([0, 0]),
    "put": lambda c, i: (c.put(0, 1.5), c * c)[1],
    "ravel_of_a_matrix": lambda c, i: np.outer(c, c).ravel() ** 2,
}


def program(part: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def f(x):
        s = 0.0
        for i in range(1, len(x) + 1):
            s = s + np.sum(part(x[:i] * 2.0, i) ** 2)
        return s

    return f


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", [*STAGED.values(), *UNROLLED.values()], ids=[*STAGED, *UNROLLED])
def test_gradient(part: Callable[[Any, Any], Any], backend: str) -> None:
    f = program(part)
    value, gradient = tg.value_and_grad(f, backend=backend)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes(f, X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("part", STAGED.values(), ids=STAGED)
def test_no_loop_is_unrolled(part: Callable[[Any, Any], Any]) -> None:
    assert "unrolled" not in str(tg.explain(program(part))(X))


def writes_through_other_shapes(x):
    w = x * 1.0
    s = 0.0
    for i in range(1, len(x)):
        column, flat, run = w[:i].reshape(-1, 1), w[:i].ravel(), w[:i].flat
        column *= 1.5
        flat += 0.5
        run[0] = w[i] * w[0]
        own = w[:i].flatten()
        own *= 7.0
        s += np.sum(column) * np.sum(flat) + own[0]
    return s + np.sum(w**2)


def writes_into_copies_of_columns(x):
    a = np.outer(x, x)
    s = 0.0
    for i in range(2, len(x)):
        flat, back = a[:i, 1].ravel(), a[2, :i][::-1].ravel()
        flat *= 3.0
        back *= 2.0
        a[:i, 2].reshape(1, -1)[0] *= 1.5
        s += flat[0] + back[0]
    return s + np.sum(a**2)


def writes_into_what_may_be_a_copy(x):
    # NumPy copies the elements of a column, but not a single one: the loop is unrolled
    a = np.outer(x, x)
    for i in range(1, len(x)):
        flat = a[:i, 1].ravel()
        flat *= 3.0
    return np.sum(a)


def update_of_a_state_that_grows(x):
    state = np.zeros(1)
    gain = np.ones((6, 1)) * 0.3
    for k in range(5):
        state = np.append(state, x[k])
        state = state + (gain[: k + 2] @ (x[k : k + 1] - state[0])).ravel()
    return np.sum(state**2)


def column_in_a_while_loop(x):
    n = 1
    while n < len(x) and np.sum(x[:n] ** 2) < 6.0:
        n += 1
    c = x[:n].reshape(-1, 1)
    return (c.T @ c)[0, 0] + np.sort(x[:n])[0]


def selected(x):
    chosen = x[x > 0.5]
    return np.sum(chosen.conj() * chosen.real.ravel()) + chosen.T.sum() + chosen.imag.sum()


PROGRAMS = [
    writes_through_other_shapes,
    writes_into_copies_of_columns,
    writes_into_what_may_be_a_copy,
    update_of_a_state_that_grows,
    column_in_a_while_loop,
    selected,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.value_and_grad(f, backend=backend)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes(f, X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sort_keeps_nan_and_infinity(backend: str) -> None:
    def f(x, n):
        i = int(n)
        return np.sort(x[:i])[i - 2], np.argsort(x[:i])[i - 1]

    x, n = np.array([np.inf, np.nan, 1.0, -np.inf, 0.0]), np.array(4.0)
    for got, want in zip(tg.function(f, backend=backend)(x, n), f(x, n), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reshape_is_compared_with_the_length(backend: str) -> None:
    def f(x, n):
        return np.sum(x[: int(n[0])].reshape(int(n[1]), 1))

    traced = tg.function(f, backend=backend)
    assert traced(X, np.array([3.0, 3.0])) == pytest.approx(np.sum(X[:3]))
    with pytest.raises(ValueError, match="a reshape keeps the number of elements"):
        traced(X, np.array([3.0, 2.0]))


NEEDED: list[Callable[[Any], Any]] = [
    lambda c: c.tolist(),
    lambda c: c.take([0, 1]),
    lambda c: c.compress([True]),
    lambda c: c.searchsorted(c),
    lambda c: np.outer(c, c).ravel(),
    lambda c: np.take(c, 0, mode="clip"),
    lambda c: np.trace(np.outer(c, c), 1),
    lambda c: c.tobytes(),
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_log_of_a_sum_of_zeros_is_shared_equally(backend: str) -> None:
    def f(x: Any) -> Any:
        below = []
        for v in x:
            if v < 0.0:
                below.append(v)
        return np.logaddexp.reduce(below)

    g = tg.value_and_grad(f, backend=backend)
    for x, share in (([-np.inf, 1.0, -np.inf], [0.5, 0.0, 0.5]), ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])):
        value, gradient = g(np.array(x))
        assert value == -np.inf
        np.testing.assert_array_equal(gradient, share)


@pytest.mark.parametrize("part", NEEDED)
def test_what_needs_the_length_is_refused_with_the_line(part: Callable[[Any], Any]) -> None:
    def f(x):
        n = 0
        while x[n] > 0:
            n += 1
        return part(x[:n])

    with pytest.raises(NeedsPythonValue, match=r"TG118(.|\n)*test_ragged_methods.py:\d+"):
        tg.function(f)(X)


@pytest.mark.parametrize("part", [lambda c: c.reshape(2, -1), lambda c: c.tolist(), lambda c: c.strides])
def test_what_needs_the_number_of_selected_elements(part: Callable[[Any], Any]) -> None:
    with pytest.raises(CaptureError, match=r"TG105(.|\n)*test_ragged_methods.py:\d+"):
        tg.function(lambda x: part(x[x > 0]))(X)


def test_an_attribute_that_arrays_do_not_have() -> None:
    def f(x):
        s = 0.0
        for i in range(3):
            s += x[:i].total()
        return s

    with pytest.raises(AttributeError, match=r"no attribute 'total'(.|\n)*TG138(.|\n)*test_ragged_methods.py:\d+"):
        tg.function(f)(X)
