"""Arrays that a function stores outside are the same objects, and share the same memory, as in Python."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError

State = dict[str, Any]


def exchanged(state: State, c: Any) -> Any:
    state["a"], state["b"] = state["b"], state["a"]
    state["a"][0] += c
    return np.sum(state["a"]) * c


def exchanged_in_a_loop(state: State, c: Any) -> Any:
    for _ in range(21):
        state["a"], state["b"] = state["b"], state["a"]
        state["a"][0] += c * state["b"][1]
    return np.sum(state["a"]) * c


def rotated(state: State, c: Any) -> Any:
    state["levels"] = [state["levels"][1], state["levels"][2], state["levels"][0]]
    state["levels"][2][:] = state["levels"][1] * c
    return np.sum(state["levels"][2])


def leapfrog(state: State, c: Any) -> Any:
    after = 2.0 * state["a"] - state["b"] + c
    state["b"] = state["a"]
    state["a"] = after
    return np.sum(after)


def new_array_twice(state: State, c: Any) -> Any:
    state["x"] = state["a"] * c
    state["y"] = state["x"]
    return np.sum(state["y"])


def new_array_and_its_view(state: State, c: Any) -> Any:
    made = state["a"] * c
    state["x"] = made[1:]
    state["y"] = made
    return np.sum(made)


def copies(state: State, c: Any) -> Any:
    made = state["a"] * c
    state["x"], state["y"] = made, made.copy()
    return np.sum(made)


def views(state: State, c: Any) -> Any:
    state["x"] = state["m"].T
    state["y"] = [state["m"][0], state["m"].ravel(), {"diagonal": np.diagonal(state["m"])}]
    state["z"] = (state["a"][::-1], np.asarray(state["b"]), state["a"][state["a"] > 0.0])
    return np.sum(state["y"][0]) * c


def view_of_what_is_written(state: State, c: Any) -> Any:
    state["x"] = state["a"][1:]
    state["a"] *= c
    return np.sum(state["x"])


def reshape_that_is_written(state: State, c: Any) -> Any:
    flat = state["m"].reshape(4)
    flat[0] = c
    state["x"] = flat
    return np.sum(flat)


FUNCTIONS = [
    exchanged,
    exchanged_in_a_loop,
    rotated,
    leapfrog,
    new_array_twice,
    new_array_and_its_view,
    copies,
    views,
    view_of_what_is_written,
    reshape_that_is_written,
]


def make_state() -> State:
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    m = np.array([[1.0, 2.0], [3.0, 4.0]])
    return {"a": a, "b": b, "m": m, "levels": [a.copy(), b.copy(), a * b], "x": None, "y": None, "z": None}


def arrays_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [array for item in value.values() for array in arrays_in(item)]
    if isinstance(value, list | tuple):
        return [array for item in value for array in arrays_in(item)]
    return [value] if isinstance(value, np.ndarray) else []


def relations(state: State) -> list[tuple[bool, bool]]:
    """Return which arrays of a state are one, and which share memory."""
    arrays = arrays_in(state)
    return [(a is b, np.shares_memory(a, b)) for k, a in enumerate(arrays) for b in arrays[:k]]


def run(f: Callable[..., Any], wrap: Callable[[Any], Any]) -> tuple[list[float], State, list[bool]]:
    state = make_state()
    before = arrays_in(state)
    call = wrap(lambda c: f(state, c))
    values = [float(call(0.5)) for _ in range(3)]
    return values, state, [a is b for a in before for b in arrays_in(state)]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_arrays_stay_the_same_objects(f: Callable[..., Any], backend: Any) -> None:
    expected, plain, kept = run(f, lambda call: call)

    def with_gradient(call: Any) -> Any:
        both = tg.value_and_grad(call, backend=backend)
        return lambda c: both(c)[0]

    for wrap in (lambda call: tg.function(call, backend=backend), with_gradient):
        values, state, same = run(f, wrap)
        assert values == expected
        assert relations(state) == relations(plain)
        assert same == kept
        for one, other in zip(arrays_in(state), arrays_in(plain), strict=True):
            np.testing.assert_array_equal(one, other)


class Momentum:
    """Keeps its argument."""

    last: Any = None

    def cost(self, x: Any) -> Any:
        change = 0.0 if self.last is None else np.sum((x - self.last) ** 2)
        self.last = x
        return change + np.sum(x)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_arguments_are_kept(backend: Any) -> None:
    model, x = Momentum(), np.zeros(2)
    cost = tg.function(model.cost, backend=backend)
    values = []
    for _ in range(3):
        x += 0.5
        values.append(cost(x))
    assert values == [1.0, 2.0, 3.0]
    assert model.last is x


class Wave:
    """Two buffers, and a view into one of them."""

    def __init__(self) -> None:
        self.u, self.old = np.arange(4.0), np.zeros(4)
        self.probe = self.u[1:3]

    def step(self, c: Any) -> Any:
        self.old += c * self.u
        self.u, self.old = self.old, self.u
        return np.sum(self.probe)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_views_of_exchanged_buffers_stay_views(backend: Any) -> None:
    wave, plain = Wave(), Wave()
    step = tg.function(wave.step, backend=backend)
    assert step(0.5) == plain.step(0.5)
    assert np.shares_memory(wave.probe, wave.old)
    with pytest.raises(ArgumentError, match="shares memory"):
        step(0.5)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_a_condition_chooses_is_a_copy(backend: Any) -> None:
    state = make_state()
    original = copy.copy(state)

    def best(c: Any) -> Any:
        if np.sum(state["a"]) * c > 1.0:
            state["b"] = state["a"]
        return c * 2.0

    tg.function(best, backend=backend)(0.5)
    np.testing.assert_array_equal(state["b"], original["a"])
    assert not np.shares_memory(state["b"], state["a"])


class Best:
    """Keeps the best argument so far."""

    def __init__(self) -> None:
        self.x: Any = None
        self.first: Any = None
        self.both: Any = {"pair": None}
        self.cost = np.inf

    def __call__(self, x: Any) -> Any:
        cost = np.sum((x - 1.0) ** 2)
        if cost < self.cost - 1.0:
            self.cost, self.x, self.first = cost, x.copy(), x[0] * 2.0
        if cost < 0.5:
            self.both["pair"] = (cost, x * 2.0)
        return cost


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_none_stays_where_a_condition_stores_nothing(backend: Any) -> None:
    best, plain = Best(), Best()
    best.cost = plain.cost = 5.0
    gradient = tg.value_and_grad(best, backend=backend)
    for point in ([3.0, 3.0], [2.0, 1.5], [1.5, 0.5], [1.2, 1.0], [4.0, 4.0], [1.0, 1.1]):
        x = np.array(point)
        value, slope = gradient(x)
        assert value == plain(x)
        np.testing.assert_array_equal(slope, 2.0 * (x - 1.0))
        assert (best.cost, best.first) == (plain.cost, plain.first)
        np.testing.assert_equal(best.x, plain.x)
        np.testing.assert_equal(best.both, plain.both)
