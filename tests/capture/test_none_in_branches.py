"""`None` on some paths and a number on the others: which it is is known when the compiled function runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS

X = np.array([1.0, -2.0, 3.0])


def _is(x: Any) -> Any:
    y = 1.0
    if x[0] > 0:
        y = None
    return x[1] if y is None else x[2]


def _is_not(x: Any) -> Any:
    if x[0] > 0:
        y = None
    else:
        y = 1.0
    if y is not None:
        return x[1]
    return x[2]


def _in_a_list(x: Any) -> Any:
    y = 1.0
    if x[0] > 0:
        y = None
    return x[1] if all(v is None for v in [y]) else x[2]


def _replaced(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0] * 2
    if y is None:
        y = x[1]
    return y * y


def _truth(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0]
    z = y or x[1]
    if y:
        return x[1] * y * z
    return x[2] if y == None else z  # noqa: E711


def _as_number(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0] * 2
    return y * x[1]  # type: ignore[operator]


def _root(low: Any, high: Any, x: Any) -> Any:
    for _ in range(20):
        middle = 0.5 * (low + high)
        if abs(middle * middle - x) < 1e-3:
            return middle * x
        if middle * middle > x:
            high = middle
        else:
            low = middle
    return None


def _solver(x: Any) -> Any:
    near, far = _root(0.0, 3.0, abs(x[0])), _root(0.0, 0.1, abs(x[1]))
    y = near if near is not None else x[1]
    return y * 3 + (far * 2 if far is not None else x[2])


def _positions(x: Any) -> Any:
    position, gain = None, 0.0
    for i in range(60):
        price, signal = x[0] + np.sin(i * x[1]), x[2] * np.cos(i * 0.3)
        if position is None:
            if signal > price:
                position = price
        elif price > position:
            gain = gain + (price - position)
            position = None
    if position is not None:
        gain = gain + position * 0.1
    return gain


def _previous(x: Any) -> Any:
    previous, t, total = None, 0.0, 0.0
    while t < abs(x[0]) + 1.13:
        v = np.sin(t * x[1])
        if previous is not None:
            total = total + (v - previous) ** 2
        previous = v
        t = t + 0.25
    return total


class _Peak:
    def __init__(self) -> None:
        self.value: Any = None

    def step(self, v: Any) -> Any:
        if self.value is None or v > self.value:
            self.value = v
        elif v < -1:
            self.value = None
        return 0.0 if self.value is None else self.value


def _attribute(x: Any) -> Any:
    peak, total = _Peak(), 0.0
    for i in range(150):
        total = total * 0.9 + peak.step(x[i % 3] * np.sin(1.0 * i) * 2)
    return total


def _array(x: Any) -> Any:
    best = None
    for i in range(200):
        y = x * np.sin(1.0 * i)
        if y[0] > 0 and (best is None or np.sum(y) > np.sum(best)):
            best = y
    return 0.0 * x[0] if best is None else np.sum(best * x)


def _item(x: Any) -> Any:
    d: dict[str, Any] = {"a": None}
    for v in x:
        if v > 0:
            d["a"] = v
        found = d.get("b")
        if found is None:
            if v < 0:
                d["b"] = v
        else:
            d["b"] = found * v
    return (d["a"] if d["a"] is not None else x[1]) * d.get("b", 2.0)


def _equal_to_a_number(x: Any) -> Any:
    best = None
    for i in range(len(x)):
        if x[i] > 0.6:
            best = i
    s = x[0]
    if best == 1:
        s += x[1] ** 2
    if best != 2:
        s += x[2] ** 2
    return s * 3 if 2 == best else s


def _equal_to_another(x: Any) -> Any:
    a = None if x[0] > 0 else x[1]
    b = x[1] if x[2] > 0 else None
    return x[0] * (2.0 if a == b else 3.0) * (5.0 if a != x[1] else 7.0)


def _in_a_list_of_some(x: Any) -> Any:
    found = [None, None, None]
    for i in range(3):
        if x[i] > 0:
            found[i] = 2 - i
    s = x[0]
    for i in range(3):
        if i in found:
            s += x[i] ** 2
    return s * 2 if None in found else s


def _continue(x: Any) -> Any:
    def square(v: Any) -> Any:
        if v > 0:
            return v * v
        return None

    total = 0.0
    for v in x:
        y = square(v)
        if y is None:
            continue
        total = total + y
    return total


FUNCTIONS = [_is, _is_not, _in_a_list, _replaced, _truth, _as_number, _solver, _positions, _previous, _attribute]
FUNCTIONS += [_array, _item, _continue, _equal_to_a_number, _equal_to_another, _in_a_list_of_some]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_none_on_some_paths(function: Any, backend: str) -> None:
    value, gradient = tg.function(function, backend=backend), tg.grad(function, backend=backend)
    for x in (X, np.array([-0.4, 2.1, 0.3]), np.array([0.2, 0.7, -1.1])):
        try:
            expected = function(x)
        except TypeError:
            with pytest.raises(TypeError, match="a number is expected, and there is None"):
                value(x)
            continue
        np.testing.assert_allclose(value(x), expected, rtol=1e-12)
        np.testing.assert_allclose(gradient(x), central_differences(function, x), atol=1e-5)


def test_a_check_for_none_is_not_done_again() -> None:
    text = tg.grad(_positions).source(X)
    assert "there is None" not in text


def test_none_before_the_first_iteration() -> None:
    def largest(x: Any) -> Any:
        best = None
        for value in x:
            if best is None or value > best:
                best = value
        return best

    np.testing.assert_array_equal(tg.grad(largest)(X), [0.0, 0.0, 1.0])
