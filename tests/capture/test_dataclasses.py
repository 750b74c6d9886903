"""Dataclasses made in a captured function: what their generated `__init__` does is captured."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS

X = np.array([1.0, 2.0, 3.0])


@dataclass
class Path:
    start: Any
    points: list[Any] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    weight: float = 2.0
    made: ClassVar[int] = 0


def appended(x: Any) -> Any:
    path = Path(x[0])
    other = Path(x[1], weight=3.0)
    for i in range(3):
        path.points.append(x[i] ** 2)
    other.points.append(x[2])
    path.names["last"] = x[2]
    return sum(path.points) * path.weight + other.points[0] * other.weight * path.names["last"] * path.start


@dataclass(frozen=True)
class Scaled:
    x: Any
    factor: InitVar[Any]
    scaled: Any = field(init=False, default=None)
    log: list[Any] = field(init=False, default_factory=list)

    def __post_init__(self, factor: Any) -> None:
        if self.x > factor:
            object.__setattr__(self, "scaled", self.x * factor)
        else:
            object.__setattr__(self, "scaled", self.x + factor)
        self.log.append(self.scaled)


def post_init(x: Any) -> Any:
    return Scaled(x[0], x[1]).log[0] * Scaled(factor=x[0], x=x[1]).scaled


@dataclass(slots=True, kw_only=True)
class Base:
    a: Any
    b: Any = 1.5


@dataclass(slots=True, kw_only=True)
class Derived(Base):
    c: Any = field(default_factory=lambda: [2.0, 3.0])


def inherited(x: Any) -> Any:
    one = Derived(a=x[0])
    one.c[0] = x[1]
    return one.a * one.b * one.c[0] * Derived(a=x[2], b=x[0]).b


@dataclass
class Own:
    a: Any

    def __init__(self, a: Any) -> None:
        self.a = a * 2.0


WITHOUT_SOURCE = """
from dataclasses import dataclass

@dataclass
class Own:
    a: object

    def __init__(self, a):
        self.a = a * 3.0
"""
names: dict[str, Any] = {}
exec(WITHOUT_SOURCE, names)
OwnWithoutSource = names["Own"]


def own_init(x: Any) -> Any:
    return Own(x[0]).a * OwnWithoutSource(x[1]).a * x[2]


Pair = collections.namedtuple("Pair", "a b")


def number_in_a_namedtuple(x: Any) -> Any:
    pair = Pair(x[0], 0.3)
    return pair.a * pair.b * x[1]


PROGRAMS: list[Callable[[Any], Any]] = [appended, post_init, inherited, own_init, number_in_a_namedtuple]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_dataclasses(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    for x in (X, X[::-1].copy()):
        assert value(x) == pytest.approx(f(x), rel=1e-14)
        differences = [(f(x + step) - f(x - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(gradient(x), differences, rtol=1e-7)


def test_the_error_for_a_wrong_call_is_python_s() -> None:
    def f(x: Any) -> Any:
        return Path().start * x[0]  # type: ignore[call-arg]

    with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required positional argument: 'start'"):
        tg.grad(f)(X)
