"""Where the layout of an argument decides whether a reshape is a view that is written, other layouts are refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError


def writes_a_reshape(x):
    v = x.reshape(-1)
    v[0] = 5.0
    return np.sum(x**2) + v[1]


def writes_a_ravel(x):
    v = x.ravel()
    v[0] = 5.0
    return np.sum(x**2) + v[1]


def writes_a_part(x):
    v = x[:, :2].T.ravel()
    v[0] = 3.0
    return np.sum(x) + v[1]


def writes_a_reshape_of_the_transposed(x):
    v = x.T.reshape(-1)
    v[0] = 5.0
    return np.sum(x**2) + v[1]


def reads_after_a_write(x):
    v = x.ravel()
    x[0, 0] = 5.0
    return np.sum(x**2) + v[0]


def reads_a_copy_after_a_write(x):
    v = x.T.ravel()
    x[0, 0] = 5.0
    return np.sum(x**2) + v[0]


def writes_what_ascontiguousarray_gives(x):
    v = np.ascontiguousarray(x)
    v[0, 0] = 5.0
    return np.sum(x**2) + v[0, 0]


def writes_in_a_loop(x):
    for k in range(200):
        v = x.ravel()
        v[k % 4] = 5.0 + k
    return np.sum(x**2)


def writes_what_a_loop_binds(x):
    for _ in range(200):
        x += 0.1
        v = x.reshape(4)
        v[0] *= 1.01
    return np.sum(x**2)


def writes_one_of_two(x):
    y = x if x[0, 0] > 0 else x * 2
    v = y.ravel()
    v[0] = 5.0
    return np.sum(x**2)


def writes_into_out(x):
    np.multiply(x.ravel(), 2.0, out=x.reshape(-1))
    return np.sum(x)


def writes_a_ravel_of(make):
    def f(x):
        y = make(x)
        v = y.ravel()
        v[0] = 5.0
        return np.sum(y**2) + v[1]

    return f


def reads_a_ravel_after_a_write(x):
    y = x * 2
    v = y.ravel()
    y[0, 0] = 5.0
    return np.sum(y) + v[0]


def writes_what_a_loop_makes(x):
    y = np.zeros((2, 2))
    for k in range(200):
        v = y.ravel()
        v[0] += k
        y = y * 0.5 + x
    return np.sum(y)


def writes_items_of_a_list(x):
    made = []
    for k in range(200):
        made.append(x * k)
    for k in range(200):
        v = made[k].ravel()
        v[0] = 5.0
    return np.sum(made[3]) + np.sum(made[5])


def reads_in_memory_order(x):
    return np.sum(x.ravel(order="K") * np.arange(4)) + np.sum((x * 2).flatten("A") * np.arange(4))


#: arrays that keep the order of an argument
KEPT: dict[str, Callable[[Any], Any]] = {
    "array": np.array,
    "copy": np.copy,
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "copy_k": lambda x: x.copy(order="K"),
    "astype": lambda x: x.astype(np.float32).astype(float),
    "operator": lambda x: x * 2,
    "ufunc": np.exp,
    "two": lambda x: x + np.sin(x),
    "where": lambda x: np.where(x > 1.5, x, 0.0),
    "clip": lambda x: np.clip(x, 0, 3),
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "full_like": lambda x: np.full_like(x, 2.0),
    "empty_like": lambda x: np.empty_like(x) * 0,
    "sort": lambda x: np.sort(x, axis=0),
    "transposed": lambda x: x.T.copy("K").T * 2,
    "in_branch": lambda x: x * 2 if x[0, 0] > 0 else x * 3,
}

DECIDED = [
    *(pytest.param(writes_a_ravel_of(make), id=f"ravel of {name}") for name, make in KEPT.items()),
    reads_a_ravel_after_a_write,
    writes_what_a_loop_makes,
    writes_items_of_a_list,
    reads_in_memory_order,
    writes_a_reshape,
    writes_a_ravel,
    writes_a_part,
    writes_a_reshape_of_the_transposed,
    reads_after_a_write,
    reads_a_copy_after_a_write,
    writes_what_ascontiguousarray_gives,
    writes_in_a_loop,
    writes_what_a_loop_binds,
    writes_one_of_two,
    writes_into_out,
]


def reads(x):
    return np.sum(x.ravel() ** 2)


def reads_in_a_loop(x):
    v, total = x.ravel(), 0.0
    for k in range(200):
        total += v[k % 4] * k
    return total


def adds_axes(x):
    v = x[:, None]
    v[0] = 5.0
    w = x.reshape(2, 1, 2)
    w[1] = 3.0
    return np.sum(x**2)


def writes_through_flat(x):
    x.flat[1] = 3.0
    np.put(x, [0, 3], 4.0)
    return np.sum(x**2)


def copies(x):
    v, w = x.ravel().copy(), x.reshape(-1) * 2
    v[0] = 5.0
    w[1] = 1.0
    x *= 2
    return np.sum(x) + v[0] + w[1]


def writes_before(x):
    total = 0.0
    for k in range(200):
        x[0] += 0.1
        total += x.ravel()[k % 4]
    return total


def writes_an_array_of_its_own(x):
    y = np.zeros((2, 2))
    v = y.ravel()
    v[0] = x[0, 1]
    return np.sum(y * 3) + np.sum(x)


#: arrays in C order
PLAIN: dict[str, Callable[[Any], Any]] = {
    "copy": lambda x: x.copy(),
    "copy_c": lambda x: np.copy(x, order="C"),
    "array_c": lambda x: np.array(x, order="C"),
    "zeros": lambda x: np.zeros(x.shape),
    "zeros_like_c": lambda x: np.zeros_like(x, order="C"),
    "product": lambda x: x @ x,
    "take": lambda x: np.take(x, [1, 0], axis=1),
}

OPEN = [
    *(pytest.param(writes_a_ravel_of(make), id=f"ravel of {name}") for name, make in PLAIN.items()),
    reads,
    reads_in_a_loop,
    adds_axes,
    writes_through_flat,
    copies,
    writes_before,
    writes_an_array_of_its_own,
]

X = np.array([[1.0, 2.0], [3.0, 4.0]])


def strided() -> Any:
    wide = np.zeros((4, 4))
    wide[::2, ::2] = X
    return wide[::2, ::2]


LAYOUTS: dict[str, Callable[[], Any]] = {
    "fortran": lambda: np.asfortranarray(X),
    "strided": strided,
    "reversed": lambda: X[::-1].copy()[::-1],
}


def makers() -> list[Any]:
    return [pytest.param(m, b, id=f"{m.__name__}-{b}") for m in (tg.function, tg.grad) for b in ("numpy", "c")]


@pytest.mark.parametrize(("maker", "backend"), makers())
@pytest.mark.parametrize("f", DECIDED, ids=lambda f: f.__name__)
def test_decided_by_the_layout(f: Callable[..., Any], maker: Any, backend: Any) -> None:
    traced, value = maker(f, backend=backend), tg.function(f, backend=backend)
    for _ in range(2):
        for make in LAYOUTS.values():
            x = make()
            with pytest.raises(ArgumentError, match=r"the layout of x decides .* a view or a copy \[TG705\]"):
                traced(x)
            np.testing.assert_array_equal(x, X)
        x, y = X.copy(), X.copy()
        traced(x)
        np.testing.assert_allclose(value(X.copy()), f(y))
        np.testing.assert_allclose(x, y)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", OPEN, ids=lambda f: f.__name__)
def test_not_decided_by_the_layout(f: Callable[..., Any], backend: Any) -> None:
    traced, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    expected = gradient(X.copy())
    for make in LAYOUTS.values():
        x, y = make(), make()
        np.testing.assert_allclose(traced(x), f(y))
        np.testing.assert_allclose(x, y)
        np.testing.assert_allclose(gradient(make()), expected)


TABLE = np.ones((2, 2))


def test_a_global(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(s):
        v = TABLE.ravel()
        v[0] = s
        return np.sum(TABLE)

    traced = tg.function(f)
    assert traced(2.0) == 5.0
    monkeypatch.setitem(globals(), "TABLE", np.asfortranarray(np.ones((2, 2))))
    with pytest.raises(ArgumentError, match="the layout of TABLE decides"):
        traced(2.0)


def test_a_reshape_of_doubling_sizes() -> None:
    def f(x):
        v = x[1:]
        w = v.reshape(-1)
        v[0] += 0.25
        return np.sum(w)

    wide = np.zeros((6, 8))
    with pytest.raises(ArgumentError, match="the layout of x decides"):
        tg.function(f)(wide[::2, ::2])


CONVERSIONS = [
    lambda a: np.asarray(a, dtype=float),
    lambda a: a.astype(float, copy=False),
    lambda a: np.ascontiguousarray(a, dtype=float),
    lambda a: np.array(a, dtype=float, copy=None),
    lambda a: np.require(a, dtype=float),
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("convert", CONVERSIONS)
def test_a_conversion_copies_an_array_in_another_byte_order(convert: Callable[[Any], Any], backend: Any) -> None:
    def write(a: Any) -> Any:
        found = convert(a)
        found[0] = 7.0
        return np.sum(a * a)

    def read(a: Any) -> Any:
        return np.sum(convert(a) ** 2)

    native, swapped = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0], ">f8")
    written = native.copy()
    assert tg.function(write, backend=backend)(written) == 62.0
    np.testing.assert_array_equal(written, [7.0, 2.0, 3.0])
    np.testing.assert_array_equal(tg.grad(write, backend=backend)(native.copy()), [0.0, 4.0, 6.0])
    with pytest.raises(ArgumentError, match=r"the byte order of a decides whether a conversion .* \[TG705\]"):
        tg.function(write, backend=backend)(swapped)
    np.testing.assert_array_equal(swapped, native)
    np.testing.assert_array_equal(tg.grad(read, backend=backend)(swapped), [2.0, 4.0, 6.0])
