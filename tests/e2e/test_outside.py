"""Dicts, lists and objects from outside a function: what they hold is never stale, and stores into them are seen."""

from __future__ import annotations

from typing import Any

import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS


class Model:
    """Holds parameters as users' classes do."""

    def __init__(self) -> None:
        self.scale = 2.0
        self.sizes = {"n": 1}
        self.last = 0.0

    def __call__(self, x: Any) -> Any:
        self.last = self.scale * x
        return self.last * len(self.sizes)


@pytest.mark.parametrize("backend", BACKENDS)
def test_containers_that_grow(backend: str) -> None:
    rates, weights = {"a": 1.0}, [1.0]

    def f(x: Any) -> Any:
        return x * sum(rates.values()) * sum(weights)

    compiled = tg.function(f, backend=backend)
    assert compiled(1.0) == 1.0
    rates["b"] = 2.0
    assert compiled(1.0) == 3.0
    weights.append(5.0)
    assert compiled(1.0) == 18.0
    del rates["a"]
    assert compiled(1.0) == 12.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_attributes(backend: str) -> None:
    model = Model()
    compiled = tg.function(model.__call__, backend=backend)
    assert compiled(3.0) == 6.0
    assert model.last == 6.0
    model.scale = 5.0
    model.sizes["m"] = 2
    assert compiled(3.0) == 30.0
    assert model.last == 15.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_stores_into_containers(backend: str) -> None:
    state = {"inner": {"total": 0.0}, "list": [1.0, 2.0]}
    cache: dict[str, Any] = {}

    def f(x: Any) -> Any:
        state["inner"]["total"] = state["inner"]["total"] + x  # type: ignore[index,call-overload]
        state["list"][1] = 10.0 * x  # type: ignore[index]
        if "first" not in cache:
            cache["first"] = x
        return x + cache["first"]

    compiled = tg.function(f, backend=backend)
    assert [compiled(3.0), compiled(4.0)] == [6.0, 7.0]
    assert state == {"inner": {"total": 7.0}, "list": [1.0, 40.0]}
    assert cache == {"first": 3.0}


@pytest.mark.parametrize("backend", BACKENDS)
def test_stores_into_a_dict_argument(backend: str) -> None:
    def f(values: Any) -> Any:
        values["y"] = 2.0 * values["x"]
        return values["y"]

    values = {"x": 1.5}
    assert tg.function(f, backend=backend)(values) == 3.0
    assert values == {"x": 1.5, "y": 3.0}
