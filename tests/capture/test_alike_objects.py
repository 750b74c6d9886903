"""Objects are told apart by identity, whatever their `__eq__` compares; numbers by their sign, too."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement

POINTS = [np.array(p) for p in ([0.7, 2.0, 5.0], [-0.7, 2.0, 5.0])]


class Steel:
    """Equal by its name alone."""

    def __init__(self, name: str, density: float) -> None:
        self.name, self.density = name, density

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steel) and self.name == other.name

    __hash__ = None  # type: ignore[assignment]


class Tagged(float):
    def __new__(cls, number: float, tag: str) -> Tagged:
        made = float.__new__(cls, number)
        made.tag = tag
        return made

    tag: str


COLD, HOT = Steel("steel", 7.8), Steel("steel", 7.6)


def by_expression(x: Any) -> Any:
    return (COLD if x[0] > 0 else HOT).density * x[1]


def by_statement(x: Any) -> Any:
    found = {"metal": COLD}
    if x[0] > 0:
        found["metal"] = HOT
    return found["metal"].density * x[1]


def by_index(x: Any) -> Any:
    return [COLD, HOT][int(x[0] > 0)].density * x[1] + {0: HOT, 1: COLD}[int(x[0] > 0)].density


def best(x: Any) -> Any:
    found = None
    for metal, weight in ((COLD, x[0]), (HOT, 0.0)):
        if found is None or weight > found[1]:
            found = metal, weight
    return found[0].density * x[1]


def made_inside(x: Any) -> Any:
    one, other = Steel("steel", 2.0), Steel("steel", x[2])
    return (one if x[0] > 0 else other).density * x[1]


def by_return(x: Any) -> Any:
    def pick() -> Steel:
        if x[0] > 0:
            return COLD
        return HOT

    return pick().density * x[1]


def partials(x: Any) -> Any:
    one, other = (functools.partial(lambda k, v: k * v, k) for k in (x[2], 3.0))
    return (one if x[0] > 0 else other)(x[1]) + [other, one][int(x[0] > 0)](2.0)


def numbers_with_more(x: Any) -> Any:
    return (Tagged(2.0, "a") if x[0] > 0 else Tagged(3.0, "b")) * x[1]


def signs(x: Any) -> Any:
    if x[0] > 0:
        zero = 0.0
    else:
        zero = -0.0
    edges = np.zeros(2)
    edges[1] = -0.0
    return np.arctan2(zero, -1.0) * x[1] + np.arctan2(edges[int(x[0] > 0)], -1.0) * x[2]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize(
    "function",
    [
        *(by_expression, by_statement, by_index, best, made_inside, by_return),
        *(partials, numbers_with_more, signs),
    ],
)
def test_as_python(function: Any, backend: str) -> None:
    check_agreement(function, backend, *POINTS)
