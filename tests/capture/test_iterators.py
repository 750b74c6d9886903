"""Iterators of captured code give each item once: `zip`, `enumerate`, `reversed` and what itertools combines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError, NeedsPythonValue

POINTS = (np.array([1.2, -0.3, 0.8, 2.1]), np.array([-0.7, 1.1, 0.4, 0.9]))


def used_twice(x: Any) -> Any:
    pairs, total = zip(x, x[::-1], strict=True), 0.0
    for a, b in pairs:
        total = total + a * b
    for a, b in pairs:
        total = total + a * b
    return total


def used_up_by_the_first_iteration(x: Any) -> Any:
    places, total = enumerate(x), x[0]
    for _ in range(3):
        for k, v in places:
            total = total + k * v**2
        total = total * 1.5
    return total


def made_in_each_iteration(x: Any) -> Any:
    total = x[0]
    for _ in range(300):
        pairs = zip(x, x[::-1], strict=True)
        for a, b in pairs:
            total = 0.9 * total + a * b
    return total


def without_the_first(x: Any) -> Any:
    places = enumerate(x)
    next(places)
    return sum(k * v**2 for k, v in places)


def mapped_twice(x: Any) -> Any:
    squares = map(np.square, x)
    total = next(squares)
    for v in squares:
        total = total + v * x[1]
    return total + sum(squares)


def mapped_in_passing(x: Any) -> Any:
    many = np.concatenate([np.linspace(x[0], x[1], 150), x])
    total = sum(map(np.sin, many)) + max(map(abs, many)) + np.sum(list(map(np.tanh, many)))
    for u, v in zip(map(np.cos, many), filter(lambda v: v < 5.0, many), strict=False):
        total = total + u * v
    return total


def backwards_twice(x: Any) -> Any:
    items = reversed(x)
    return sum([v * k for k, v in enumerate(items)]) + len(list(items)) * x[0]


def by_turns(x: Any) -> Any:
    places = enumerate(x)
    return sum([a * b * k for (k, a), (_, b) in zip(places, places, strict=False)])


def in_a_branch(x: Any) -> Any:
    pairs = zip(x, x[::-1], strict=True)
    total = x[1]
    if x[0] > 0:
        for a, b in pairs:
            total = total + a * b
    return total


def place_of_the_greatest(x: Any) -> Any:
    places = enumerate(x[x > 0.5])
    return max(places, key=lambda pair: pair[1])[0] * x[0] + len(list(places))


def lattice(x: Any) -> Any:
    total = 0.0
    for n in itertools.product(range(-1, 2), repeat=3):
        if n == (0, 0, 0):
            continue
        k = np.array(n) * x[0]
        total = total + np.cos(k @ x[1:]) / (k @ k)
    return total


def distances(x: Any) -> Any:
    total = 0.0
    for i, j in itertools.combinations(range(len(x) + 1), 2):
        total = total + i * (x[i] - x[j - 1]) ** 2
    return total


def determinant(x: Any) -> Any:
    matrix, total = np.outer(x, x) + np.diag(x**2), 0.0
    for places in itertools.permutations(range(4)):
        sign, product = 1.0, 1.0
        for i in range(4):
            product = product * matrix[i, places[i]]
            for j in range(i):
                if places[j] > places[i]:
                    sign = -sign
        total = total + sign * product
    return total


def first_of_a_kind(x: Any) -> Any:
    for i, j in itertools.product(range(4), repeat=2):
        if x[i] * x[j] < 0:
            return x[i] * (j + 1)
    return x[0]


def numbered(x: Any) -> Any:
    total = 0.0
    for place, (i, j) in enumerate(itertools.combinations_with_replacement(range(4), 2)):
        total = total + place * x[i] * x[j]
    return total


def names(x: Any) -> Any:
    table = {pair: number for number, pair in enumerate(itertools.product(range(12), range(12)))}
    total = 0.0
    for pair in itertools.product(range(12), range(12)):
        total = total + table[pair] * x[pair[0] % 4]
    return total


def first_of_many(x: Any) -> Any:
    first = next(v for v in list(x) if v > 0.5)
    return first * next((v * v for v in iter(x) if v < 0.2), 0.3) + next(filter(lambda v: v > 9.0, x), x[1])


def first_of_two_loops(x: Any) -> Any:
    return next((w * v for v in list(x) if v > -0.1 for w in iter([v, 2.0 * v]) if w > 1.0), x[1])


def first_is_taken_in_turn(x: Any) -> Any:
    items = iter(x)
    return next(v for k, v in enumerate(items) if k == 1) * sum(items)


def leading(x: Any) -> Any:
    total = 0.0
    for v in itertools.takewhile(lambda v: v < 1.0, x):
        total = total + v * v
    return total + sum(itertools.takewhile(lambda v: v > -0.5, list(x))) * x[3]


def after_the_leading(x: Any) -> Any:
    rest = list(itertools.dropwhile(lambda v: v > 0.5, x))
    return len(rest) * x[3] + sum(rest) ** 2 + next(itertools.dropwhile(lambda v: v < 0.6, x), x[0])


def of_the_leading(x: Any) -> Any:
    squares = sum(v * v for v in itertools.takewhile(lambda v: v < 1.0, x))
    cubes = [v**3 for v in itertools.dropwhile(lambda v: v < 1.0, x)]
    return squares + sum(cubes) * x[1] + len(cubes)


def leading_numbered(x: Any) -> Any:
    total = sum(k * v for k, v in enumerate(itertools.takewhile(lambda v: v < 1.0, x), 1))
    return total + sum(a * b for a, b in zip(itertools.dropwhile(lambda v: v > 0.6, x), x, strict=False))


def asked_of_the_leading(x: Any) -> Any:
    found = any(v > 0.5 for v in itertools.takewhile(lambda v: v > -0.5, x))
    return found * x[0] + next((v for v in itertools.takewhile(lambda v: v < 1.0, x) if v > 0.6), x[1])


def leading_up_to_each(x: Any) -> Any:
    return sum(sum(w for w in itertools.takewhile(lambda w: w > v - 1.0, x)) * v for v in x)


def filtered_by_lambdas(x: Any) -> Any:
    kept = [v * v for v in filter(lambda v: v > 0.5, x)]
    return sum(kept) + sum(v**3 for v in itertools.filterfalse(lambda v: v > 0.5, x)) * x[0]


def below_another(x: Any) -> Any:
    v = x[2]
    return sum(v * v for v in filter(lambda u: u < v, x)) * v


def called_in_a_later_item(x: Any) -> Any:
    return sum(f() * x[k] for k, f in enumerate([lambda: v for v in x]))


def leading_ints(x: Any) -> Any:
    few = itertools.takewhile(lambda k: k < 3, itertools.count())
    return sum(x[k] * k for k in few) + sum(itertools.dropwhile(lambda k: k < 5, [1, 7, 2])) * x[0]


def made_in_a_tried_statement(x: Any) -> Any:
    def inner(h: Any, pairs: Any) -> Any:
        for a, b in pairs:
            h = h + math.asin(h / 4.0 * a) * b
        return h

    try:
        y = inner(x[0], list(zip(x, x[::-1], strict=True)))
    except ValueError:
        y = 9.0 * x[1]
    return y


def of_a_comprehension(x: Any) -> Any:
    return sum(x[i] * x[j] ** 2 for i, j in itertools.product(range(4), range(4))) + max(
        [x[i] - x[j] for i, j in itertools.permutations(range(4), 2)]
    )


PROGRAMS = (
    used_twice,
    used_up_by_the_first_iteration,
    made_in_each_iteration,
    without_the_first,
    mapped_twice,
    mapped_in_passing,
    backwards_twice,
    by_turns,
    in_a_branch,
    place_of_the_greatest,
    lattice,
    distances,
    determinant,
    first_of_a_kind,
    numbered,
    names,
    of_a_comprehension,
    first_of_many,
    first_of_two_loops,
    first_is_taken_in_turn,
    leading,
    after_the_leading,
    of_the_leading,
    leading_numbered,
    asked_of_the_leading,
    leading_up_to_each,
    filtered_by_lambdas,
    below_another,
    called_in_a_later_item,
    leading_ints,
    made_in_a_tried_statement,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


@pytest.mark.parametrize("program", [lattice, distances, determinant])
def test_combinations_are_one_loop(program: Callable[[Any], Any]) -> None:
    assert "for: staged" in str(tg.explain(tg.grad(program))(POINTS[0]))
    assert len(tg.grad(program).source(POINTS[0]).splitlines()) < 120


def rest_after_break(x: Any) -> Any:
    places = enumerate(x)
    for _, v in places:
        if v > 0.5:
            break
    return sum(k * v for k, v in places)


def rest_after_any(x: Any) -> Any:
    places = enumerate(x)
    found = any(v > 0.5 for _, v in places)
    return sum(k * v for k, v in places) * found


def many_mapped_twice(x: Any) -> Any:
    squares = map(np.square, np.linspace(x[0], x[1], 150))
    return sum(squares) + sum(squares)


def filtered_twice(x: Any) -> Any:
    positive = filter(lambda v: v > 0.0, x)
    total = 0.0
    for v in positive:
        total = total + v
    return total + sum(positive)


@pytest.mark.parametrize("read", [list, tuple, sorted, sum, lambda m: max(m, default=0.0)])
def test_many_that_are_mapped_are_read_once(read: Callable[[Any], Any]) -> None:
    def program(x: Any) -> Any:
        squares = map(np.square, np.linspace(x[0], x[1], 150))
        return np.sum(read(squares)) + (np.sum(read(squares)) if twice else 0.0)

    twice = False
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.function(program)(x), program(x))
    twice = True
    np.testing.assert_allclose(tg.function(program)(x), program(x))


@pytest.mark.parametrize("read", [lambda m: [*m], lambda m: list(map(np.sin, m))])
def test_what_may_leave_items_is_the_last_to_read(read: Callable[[Any], Any]) -> None:
    def program(x: Any) -> Any:
        squares = map(np.square, np.linspace(x[0], x[1], 150))
        return np.sum(read(squares)) + (sum(squares) if twice else 0.0)

    twice = False
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.function(program)(x), program(x))
    twice = True
    with pytest.raises(CaptureError, match="of which a loop has taken some"):
        tg.function(program)(x)


@pytest.mark.parametrize("program", [many_mapped_twice, filtered_twice])
def test_what_has_been_read_is_empty(program: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(tg.function(program)(POINTS[0]), program(POINTS[0]))


@pytest.mark.parametrize("program", [rest_after_break, rest_after_any])
def test_a_rest_that_depends_on_values_is_refused(program: Callable[[Any], Any]) -> None:
    with pytest.raises(CaptureError, match="of which a loop has taken some"):
        tg.function(program)(POINTS[0])


def test_next_of_an_iterator_in_a_loop_says_what_to_do() -> None:
    def program(x: Any) -> Any:
        items, total = iter(x), 0.0
        v = next(items)
        while v < 3.0:
            total, v = total + v, next(items, 10.0)
        return total

    with pytest.raises(CaptureError, match=r"next of an iterator in a staged loop[^`]*index what it goes over"):
        tg.grad(program)(POINTS[0])


def test_next_of_nothing() -> None:
    def program(x: Any) -> Any:
        return next(filter(lambda v: v > 9.0, x))

    with pytest.raises(StopIteration, match="no item passes the test of an iterator"):
        tg.function(program)(POINTS[0])


def unpacked(x: Any) -> Any:
    a, *b = itertools.takewhile(lambda v: v < 9.0, x)
    return a + sum(b)


def by_a_lambda_of_the_item(x: Any) -> Any:
    return sum(v * w for v in x for w in itertools.takewhile(lambda w: w < v, x))


def test_items_that_are_there_or_not_say_what_to_do() -> None:
    with pytest.raises(CaptureError, match=r"a list whose length is known only when[^`]*make the list first, `values"):
        tg.grad(by_a_lambda_of_the_item)(POINTS[0])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_items_until_one_fails_are_unpacked(backend: str) -> None:
    for point in (*POINTS, np.array([1.0, 10.0, 2.0])):
        assert tg.function(unpacked, backend=backend)(point) == unpacked(point)
        expected = np.cumprod(point < 9.0)
        np.testing.assert_array_equal(tg.grad(unpacked, backend=backend)(point), expected)
    with pytest.raises(ValueError, match="not enough values to unpack"):
        tg.function(unpacked, backend=backend)(np.array([10.0, 1.0]))


@pytest.mark.parametrize("take", [itertools.takewhile, itertools.dropwhile])
def test_what_stops_an_iterator_under_a_traced_condition(take: Any) -> None:
    def f(x: Any) -> Any:
        values = iter(x)
        return sum(list(take(lambda v: v > 1.0, values)))

    with pytest.raises(NeedsPythonValue, match=rf"give it the list or array itself, itertools\.{take.__name__}"):
        tg.function(f)(np.ones(3))
