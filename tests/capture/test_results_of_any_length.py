"""Arrays and lists as results whose length is known when the function has run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (
    np.array([1.1, -2.2, 3.2, 0.5, -0.7]),
    np.array([-1.1, -2.2, -3.2, -0.5, -0.7]),
    np.array([1.3, 2.1, 3.1, 0.5, 0.7]),
)
HISTORY: dict[str, Any] = {}


def comprehension(x: Any) -> Any:
    return [v * 2 for v in x if v > 0]


def path(x: Any) -> Any:
    times, states, y, t = [0.0], [x], x, 0.0
    while t < 1.0:
        y, t = y * 0.8, t + 0.3 + 0.01 * x[0] ** 2
        times.append(t)
        states.append(y)
    return times, states, np.array(states), {"steps": list(zip(times, states, strict=True)), "count": len(times)}


def records(x: Any) -> Any:
    found = []
    for i, v in enumerate(x):
        if v > 0:
            found.append((i, {"value": v, "square": [v, v * v]}))
    return found, sorted(found, key=lambda pair: -pair[1]["value"])


def mask(x: Any) -> Any:
    return x[x > 0], x[x < 100.0]


def slices(x: Any) -> Any:
    n = 1
    while n < 4 and x[n] > -1:
        n += 1
    table = np.outer(x, x)
    return x[:n], table[:n, 1 : n + 1].copy(), [x[:n].copy(), n]


def chosen(x: Any) -> Any:
    a, b = [x[0], x[1]], [x[2], x[3]]
    for v in x:
        (a if v > 0 else b).append(v)
    t = [1.0, x[0]]
    u = t if x[0] > 0 else [x[1], 2.0]
    return a, b, u[0]


PROGRAMS: list[Callable[[Any], Any]] = [comprehension, path, records, mask, slices, chosen]


def require_same(actual: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            require_same(one, other)
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        require_same([*actual.values()], [*expected.values()])
    else:
        assert np.shape(actual) == np.shape(expected)
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_what_is_returned(program: Callable[[Any], Any], backend: str) -> None:
    compiled = tg.function(program, backend=backend)
    for x in POINTS:
        require_same(compiled(x), program(x))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_what_is_auxiliary(program: Callable[[Any], Any], backend: str) -> None:
    def with_value(x: Any) -> Any:
        return np.sum(x**3) + sum(comprehension(x)), program(x)

    x = POINTS[0]
    expected = central_differences(lambda x: with_value(x)[0], x)
    (value, aux), gradient = tg.value_and_grad(with_value, has_aux=True, backend=backend)(x)
    np.testing.assert_allclose(value, with_value(x)[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    require_same(aux, program(x))
    _, tangent, aux = tg.jvp(with_value, (x,), (np.ones(5),), has_aux=True, backend=backend)
    np.testing.assert_allclose(tangent, np.sum(expected), rtol=1e-6)
    require_same(aux, program(x))
    _, pullback, aux = tg.vjp(with_value, x, has_aux=True, backend=backend)
    np.testing.assert_allclose(pullback(1.0)[0], expected, rtol=1e-6)
    require_same(aux, program(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_kept_outside(backend: str) -> None:
    def keep(x: Any) -> Any:
        HISTORY["found"] = [v for v in x if v > 0]
        return np.sum(x**2)

    gradient = tg.grad(keep, backend=backend)(POINTS[0])
    np.testing.assert_allclose(gradient, 2 * POINTS[0])
    require_same(HISTORY["found"], [v for v in POINTS[0] if v > 0])


def test_the_text_runs() -> None:
    space: dict[str, Any] = {}
    exec(tg.function(path).source(POINTS[0], backend="numpy"), space)
    times, states, *_ = space["path"](POINTS[0])
    require_same((times, states), path(POINTS[0])[:2])


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f, x: tg.grad(f)(x),
        lambda f, x: tg.jacobian(f)(x),
        lambda f, x: tg.jvp(f, (x,), (x,)),
        lambda f, x: tg.vjp(f, x),
    ],
)
def test_a_derivative_of_it_is_refused(derivative: Callable[..., Any]) -> None:
    with pytest.raises(TracegradError) as caught:
        derivative(comprehension, POINTS[0])
    assert caught.value.code == "TG202"
    assert "has_aux=True" in str(caught.value)
