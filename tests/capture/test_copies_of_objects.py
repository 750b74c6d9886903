"""Copies of objects in loops: `copy`, `deepcopy`, `dataclasses.replace`, `vars`; attributes through `__dict__`."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS

X = np.array([0.7, 0.4, 1.9, 1.3, 0.2, 1.1])


@dataclasses.dataclass
class Record:
    p: Any
    q: Any = 1.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    p: Any
    q: Any
    name: str = "a"


class Plain:
    def __init__(self, p: Any, q: Any) -> None:
        self.p, self.q = p, q


def _replaced(s: Any) -> Any:
    return dataclasses.replace(s, p=s.p * 0.9)


def _as_dict(s: Any) -> Any:
    return type(s)(**{**dataclasses.asdict(s), "p": s.p * 0.9})


def _of_vars(s: Any) -> Any:
    return type(s)(**{**vars(s), "p": s.p * 0.9})


def _copied(s: Any) -> Any:
    made = copy.copy(s)
    made.p = s.p * 0.9
    return made


def _copied_deeply(s: Any) -> Any:
    made = copy.deepcopy(s)
    made.p *= 0.9
    return made


@pytest.mark.parametrize("steps", [3, 200])
@pytest.mark.parametrize(
    ("cls", "step"),
    [
        (Record, _replaced),
        (Frozen, _replaced),
        (Frozen, _as_dict),
        (Record, _of_vars),
        (Plain, _of_vars),
        (Record, _copied),
        (Plain, _copied),
        (Plain, _copied_deeply),
    ],
)
def test_object_made_anew_in_each_step(cls: Any, step: Callable[[Any], Any], steps: int) -> None:
    def in_for(x: Any) -> Any:
        s = cls(x, x[0])
        for _ in range(steps):
            s = step(s)
        return np.sum(s.p) * s.q

    def in_while(x: Any) -> Any:
        s = cls(x, x[0])
        i = 0
        while i < steps and s.p[0] > 0.1:
            s = step(s)
            i += 1
        return np.sum(s.p) * s.q

    def in_branch(x: Any) -> Any:
        s = cls(x, x[0])
        for k in np.arange(steps):
            if s.p[1] > 0.01 * k:
                s = step(s)
        return np.sum(s.p) * s.q

    for program in (in_for, in_while, in_branch):
        check_agreement(program, "numpy", X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_deep_copy_keeps_what_is_one_object(backend: str) -> None:
    def program(x: Any) -> Any:
        shared = Plain(x[:2].copy(), [x[2], {"r": x[3]}])
        both = [shared, shared, {"again": shared}]
        made = copy.deepcopy(both)
        for v in x:
            made[0].p *= v
            made[2]["again"].q[1]["r"] += v
        return np.sum(made[1].p) * made[1].q[1]["r"] + np.sum(shared.p) * shared.q[1]["r"]

    check_agreement(program, backend, X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_user_methods_for_copies_are_captured(backend: str) -> None:
    class Own(Plain):
        def __copy__(self) -> Any:
            return Own(self.p * 2, self.q)

        def __deepcopy__(self, memo: Any) -> Any:
            return Own(copy.deepcopy(self.p, memo), self.q * 3)

    def program(x: Any) -> Any:
        made = copy.copy(Own(x[0], x[1]))
        for _ in range(4):
            made = copy.deepcopy(made)
        return made.p * made.q

    check_agreement(program, backend, X)


def test_replace_of_a_field_that_is_not_for_init_is_the_error_of_python() -> None:
    @dataclasses.dataclass
    class Sized:
        p: Any
        n: int = dataclasses.field(init=False, default=0)

    def program(x: Any) -> Any:
        return dataclasses.replace(Sized(x), n=3).p

    with pytest.raises(ValueError, match="init=False"):
        tg.function(program)(X)


def _both_ways(x: Any) -> Any:
    a = Plain(x[0], x[1])
    d = vars(a)
    for v in x:
        if v > 0.5:
            a.p = a.q * v
        else:
            d["p"] = d["p"] * v
    return a.p


def _of_another_object(x: Any) -> Any:
    a, b = Plain(x[0], x[1]), Plain(x[2], x[3])
    c = a if x[4] > 0.9 else b
    d = vars(c)
    if x[5] > 1:
        c = b
        d = vars(c)
    for v in x:
        d["q"] += 0.1 * v
        vars(c).update(p=0.3 * c.q * a.p)
    return a.p * 2 + a.q * 3 + b.p * 5 + b.q * 7 + c.p * 11 + d["q"]


def _in_each_step(x: Any) -> Any:
    a, b = Plain(x[0], x[1]), Plain(x[2], x[3])
    c = a
    d = vars(c)
    for v in x:
        d["p"] += 0.1 * v
        if v > 0.75:
            c = b
            d = vars(c)
    return a.p * 2 + b.p * 5 + c.p * 11 + d["p"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_both_ways, _of_another_object, _in_each_step])
def test_attributes_through_the_dict_of_an_object(program: Any, backend: str) -> None:
    check_agreement(program, backend, X, X[::-1].copy())


def test_the_dict_of_an_object_is_returned_as_a_dict() -> None:
    def program(x: Any) -> Any:
        return {"one": vars(Plain(x, x * 2))}

    result = tg.function(program)(X)
    np.testing.assert_array_equal(result["one"]["q"], X * 2)
