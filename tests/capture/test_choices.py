"""Lists, dicts and objects that a traced condition chooses: a write into the choice is one into what it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (np.array([0.5, 0.2, 0.8]), np.array([-0.5, 0.7, 0.1]), np.array([0.3, 0.9, -0.4]))


class Particle:
    def __init__(self, m: Any) -> None:
        self.m = m


def particles(x: Any) -> list[Particle]:
    return [Particle(v) for v in (x[0], x[1], x[2])]


def weigh(items: list[Particle]) -> Any:
    return sum((k + 1) * p.m**2 for k, p in enumerate(items))


def expression(x: Any) -> Any:
    a, b = Particle(0.0), Particle(0.0)
    t = a if x[0] < 0 else b
    t.m += x[0] ** 2
    return a.m + 2 * b.m


def item_of_a_list(x: Any) -> Any:
    a, b = [0.0], [0.0]
    t = a if x[0] < 0 else b
    t[0] += x[0] ** 2
    return a[0] + 2 * b[0]


def statement_and_dict(x: Any) -> Any:
    a, b = {"k": 0.0}, {"k": 0.0}
    if x[0] < 0:
        t = a
    else:
        t = b
    t["k"] += x[0] ** 2
    return a["k"] + 2 * b["k"]


def upd(p: Particle, v: Any) -> None:
    p.m += v * v


def argument(x: Any) -> Any:
    a, b = Particle(0.0), Particle(0.0)
    for v in x:
        upd(a if v > 0 else b, v)
    return a.m + 2 * b.m


def min_by_key(x: Any) -> Any:
    ps = particles(x)
    b = min(ps, key=lambda p: p.m)
    b.m += 10 * x[0]
    return weigh(ps)


def best_of_a_loop(x: Any) -> Any:
    ps = particles(x)
    best = ps[0]
    for p in ps:
        if p.m > best.m:
            best = p
    best.m = 0.0
    return weigh(ps)


def swapped(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    lo, hi = a, b
    if lo.m > hi.m:
        lo, hi = hi, lo
    lo.m += 100 * x[0]
    return a.m + 2 * b.m + 3 * lo.m + 5 * hi.m


def best_of_a_staged_loop(x: Any) -> Any:
    best = Particle(x[0])
    cur = Particle(x[1])
    s = 0.0
    for _i in range(5):
        cur.m = cur.m * 1.3 - x[2]
        if cur.m > best.m:
            best = cur
        s += best.m
    return best.m + s


def items_changed_places(x: Any) -> Any:
    ps = [Particle(x[0]), Particle(x[1])]
    qs = list(ps)
    if x[0] < x[1]:
        ps[0], ps[1] = ps[1], ps[0]
    ps[0].m += x[2]
    return qs[0].m + 2 * qs[1].m + 3 * ps[0].m + 5 * ps[1].m


def identity(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    w = a if x[0] > 0 else b
    return x[0] * 3 if w is a else x[1]


def pick(a: Particle, b: Particle, v: Any) -> Particle:
    if v > 0:
        return a
    return b


def same_on_both_sides(x: Any) -> Any:
    a = Particle(x[0])
    t = pick(a, a, x[0])
    t.m += x[1]
    return a.m * x[2]


def write_into_the_originals(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    t = a if x[0] > 0 else b
    a.m += x[1] * 2
    b.m *= 3
    return t.m + a.m * b.m


def choice_of_a_choice(x: Any) -> Any:
    a, b, c = Particle(x[0]), Particle(x[1]), Particle(x[2])
    t = a if x[0] > 0.45 else (b if x[1] > 0.5 else c)
    t.m *= x[0] + 3
    return a.m + 2 * b.m + 3 * c.m


def two_names_of_one_new_object(x: Any) -> Any:
    if x[0] > 0:
        a = Particle(x[1])
        b = a
    else:
        a = Particle(x[2])
        b = a
    b.m += x[0]
    return a.m * b.m


def bump(s: Particle) -> Particle:
    s.m += 1.0
    return s


def argument_that_comes_back(x: Any) -> Any:
    a = Particle(x[0])
    s = a
    for _i in range(200):
        s = bump(s)
    return a.m * x[1]


def best_bound_anew(x: Any) -> Any:
    a = Particle(x[0])
    b = Particle(x[1])
    best = a
    for v in x:
        if v > best.m:
            best = b
        b.m += v
        best.m += v
    return a.m + 2 * b.m + 3 * best.m


def objects_in_objects(x: Any) -> Any:
    p = Particle(Particle(x[0]))
    q = Particle(Particle(x[1]))
    t = p if x[0] > 0 else q
    t.m.m += x[2]
    t.m = Particle(7 * x[1])
    p.m.m *= 2
    return p.m.m + 3 * q.m.m + 5 * t.m.m


def attribute_bound_in_one_branch(x: Any) -> Any:
    a = Particle(x[0])
    b = Particle(x[1])
    p = Particle(a)
    if x[0] > 0:
        b.m = x[2] * 3
        p.m = b
    else:
        a.m = x[2]
    p.m.m += 1.0 * x[0]
    return p.m.m + 2 * a.m + 3 * b.m


def choice_in_a_loop(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    t = a
    i = 0
    while i < 3:
        t = a if x[i] > 0.4 else b
        t.m *= x[i]
        i += 1
    return a.m + 2 * b.m + 3 * t.m


def choice_in_a_while_loop(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    n = x[0] * 0 + 3
    i = 0 * x[0]
    while i < n:
        t = a if x[0] > 0.4 else b
        t.m *= x[1]
        i = i + 1
    return a.m + 2 * b.m


def arrays_in_objects(x: Any) -> Any:
    a, b = Particle(x.copy()), Particle(2 * x)
    t = a if x[0] > 0 else b
    t.m[0] += x[1]
    t.m += x
    return np.sum(a.m**2) + 3 * np.sum(b.m**2)


def new_object_in_each_iteration(x: Any) -> Any:
    s = Particle(x[0])
    for _i in range(300):
        s = Particle(s.m * 0.99 + x[1])
    s.m += x[2]
    return s.m


def argument_that_comes_back_in_a_while_loop(x: Any) -> Any:
    a = Particle(x[0])
    s = a
    n = x[1] * 0 + 5
    i = 0 * x[0]
    while i < n:
        s = bump(s)
        i = i + 1
    return a.m * x[1] + s.m


def lists_that_change_places(x: Any) -> Any:
    now, then = [x[0], x[1], x[2]], [0.0] * 3
    first = now
    for _ in range(201):
        for i in range(3):
            then[i] = 0.5 * now[i] + 0.5 * now[(i + 1) % 3] ** 2
        now, then = then, now
    return now[0] + 2 * then[1] + 3 * first[2]


def three_that_change_places(x: Any) -> Any:
    a, b, c = particles(x)
    kept = [a, b, c]
    for _ in range(200):
        a.m += 0.01 * x[2] * b.m
        a, b, c = b, c, a
    c.m += 1.0
    return a.m + 3 * b.m + 5 * weigh(kept)


def read_in_the_loop_under_another_name(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    first = a
    for _ in range(5):
        a.m += x[2] * first.m
        a, b = b, a
    return a.m + 3 * b.m


def places_changed_until_a_condition(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    while a.m < 3:
        a.m += 1.0 + x[2] ** 2
        a, b = b, a
    b.m += x[0]
    return a.m + 3 * b.m


def equality(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    t = a if x[0] > 0.4 else b
    return x[2] * (1.0 if t in [a] else 2.0) + x[1] * (3.0 if t == b else 5.0) + x[0] * [b, a].index(t)


def item_of_an_attribute(x: Any) -> Any:
    a, b = Particle([x[0], x[1]]), Particle([x[1], x[2]])
    most = max([a, b], key=lambda p: p.m[0])
    most.m[0], most.m[1] = most.m[1], most.m[0] * 3
    most.m[0] *= x[2]
    return a.m[0] + 2 * a.m[1] + 3 * b.m[0] + 5 * b.m[1]


def dict_taken_before_the_choice(x: Any) -> Any:
    a, b = particles(x)[:2]
    items = vars(a)
    chosen = a if x[0] < 0 else b
    items["m"] = items["m"] * x[2]
    items.update(m=items["m"] + x[1])
    return chosen.m * 2 + b.m


PROGRAMS: list[Callable[[Any], Any]] = [
    expression,
    item_of_a_list,
    statement_and_dict,
    argument,
    min_by_key,
    best_of_a_loop,
    swapped,
    best_of_a_staged_loop,
    items_changed_places,
    identity,
    same_on_both_sides,
    write_into_the_originals,
    choice_of_a_choice,
    two_names_of_one_new_object,
    argument_that_comes_back,
    best_bound_anew,
    objects_in_objects,
    attribute_bound_in_one_branch,
    choice_in_a_loop,
    choice_in_a_while_loop,
    arrays_in_objects,
    new_object_in_each_iteration,
    argument_that_comes_back_in_a_while_loop,
    lists_that_change_places,
    three_that_change_places,
    read_in_the_loop_under_another_name,
    places_changed_until_a_condition,
    equality,
    item_of_an_attribute,
    dict_taken_before_the_choice,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_python_has_it(f: Callable[[Any], Any], backend: str) -> None:
    check_agreement(f, backend, *POINTS)


def delete_from_the_choice(x: Any) -> Any:
    a, b = {"m": x[0]}, {"m": x[1]}
    t = a if x[0] > 0 else b
    del t["m"]
    return sum(a.values()) + 2 * sum(b.values())


def write_into_the_dict_that_a_loop_chose(x: Any) -> Any:
    a, b = {"v": x[0]}, {"v": x[1]}
    for k in range(20):
        chosen = a if x[k % 3] > 0 else b
    chosen["v"] = x[2] * 9.0
    return a["v"] + 2.0 * b["v"]


def write_into_what_a_loop_chose(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    for i in range(3):
        t = pick(a, b, x[i] - 0.3)
    t.m += x[0]
    return a.m + 2 * b.m


def names_that_change_places_beside_another(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    first = a
    for _ in range(201):
        a.m += 0.01 * x[2] * first.m
        a, b = b, a
    return a.m + 3 * b.m


def read_after_names_changed_places(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    first = a
    while a.m < 3:
        a.m += 1.0
        a, b = b, a
    return a.m + 3 * first.m


def written_after_names_changed_places(x: Any) -> Any:
    a, b = Particle(x[0]), Particle(x[1])
    first = a
    while a.m < 3:
        a.m += 1.0
        a, b = b, a
    first.m = x[2]
    return a.m + 3 * b.m


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (delete_from_the_choice, "TG136"),
    (write_into_what_a_loop_chose, "TG136"),
    (write_into_the_dict_that_a_loop_chose, "TG136"),
    (names_that_change_places_beside_another, "TG120"),
    (read_after_names_changed_places, "TG136"),
    (written_after_names_changed_places, "TG136"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("f", "code"), REFUSED)
def test_refused(f: Callable[[Any], Any], code: str, backend: str) -> None:
    with pytest.raises(TracegradError) as caught:
        tg.grad(f, backend=backend)(POINTS[0])
    assert caught.value.code == code
