"""Objects whose attributes are slots: a branch or loop makes, chooses and changes them as it does others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

POINTS = [np.array(p) for p in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [2.0, 3.0, 1.0], [1.5, 0.5, -1.0])]


class Body:
    __slots__ = ("__mass", "place")

    def __init__(self, place: Any, mass: Any) -> None:
        self.place, self.__mass = place, mass

    def mass(self) -> Any:
        return self.__mass


class Charged(Body):
    __slots__ = ("charge",)


class Named(Body):
    def __init__(self, place: Any, mass: Any, scale: Any) -> None:
        super().__init__(place, mass)
        self.scale = scale


def made_in_branches(x: Any) -> Any:
    if x[0] > x[1]:
        body = Body(x[0], x[1])
    else:
        body = Body(x[1], x[2])
    return body.place * body.mass()


def beside_other_attributes(x: Any) -> Any:
    body = Named(x[0], x[1], x[2]) if x[0] > x[1] else Named(x[1], x[2], x[0])
    return body.place * body.mass() * body.scale


def set_under_a_condition(x: Any) -> Any:
    body, other = Charged(x[0], x[1]), Charged(x[1], x[2]) if x[0] > x[1] else Charged(x[2], x[1])
    if x[0] > x[1]:
        body.charge = x[2]
    return (body.charge if hasattr(body, "charge") else x[1]) * (x[0] if hasattr(other, "charge") else other.place)


def carried_by_loops(x: Any) -> Any:
    body, heaviest = Body(x[0] ** 2, 1.0), None
    while body.place < 10.0:
        body = Body(body.place * 1.5 + 2.0, body.mass() * x[1])
    for v in x:
        if heaviest is None or heaviest.mass() < v:
            heaviest = Body(v * v, v)
    assert heaviest is not None
    return body.mass() * heaviest.place


def chosen_and_changed(x: Any) -> Any:
    one, other = Body(x[0], x[1]), Body(x[1], x[2])
    chosen = one if x[0] > x[1] else other
    chosen.place = x[0] * 5.0
    return one.place + other.place**2


def kept_in_lists(x: Any) -> Any:
    return sum(body.mass() * body.place for body in [Body(v, v * v) for v in x if v > 0.7])


PROGRAMS: list[Callable[[Any], Any]] = [
    made_in_branches,
    beside_other_attributes,
    set_under_a_condition,
    carried_by_loops,
    chosen_and_changed,
    kept_in_lists,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python_has_it(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)
