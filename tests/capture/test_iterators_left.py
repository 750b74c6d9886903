"""Iterators of which a loop, `any`, `in` or `next` leaves items: used again as Python does, or refused."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

POINTS = (np.array([0.8, 0.3, 1.7, 0.6]), np.array([0.5, 1.9, 0.2, 0.7]))


def scaled(x: Any) -> Iterator[Any]:
    for v in x:
        yield v * 1.5


def in_pairs(items: Iterator[Any]) -> Iterator[Any]:
    for v in items:
        yield v * next(items, 0.5)


class Marching:
    def __init__(self, x: Any) -> None:
        self.x, self.k = x, 0

    def __iter__(self) -> Marching:
        return self

    def __next__(self) -> Any:
        if self.k >= len(self.x):
            raise StopIteration
        self.k += 1
        return self.x[self.k - 1]


#: what makes an iterator of numbers
SOURCES: dict[str, Callable[[Any], Any]] = {
    "array": lambda x: iter(x),
    "list": lambda x: iter(list(x)),
    "tuple": lambda x: iter(tuple(x)),
    "constants": lambda x: iter([0.5, 2.0, 1.0, 4.0]),
    "range": lambda x: iter(range(5)),
    "values of a dict": lambda x: iter({"a": x[0], "b": x[1], "c": x[2]}.values()),
    "sorted": lambda x: iter(sorted(x)),
    "generator": scaled,
    "generator expression": lambda x: (v * 1.5 for v in x),
    "generator over an iterator": lambda x: in_pairs(iter(x)),
    "map": lambda x: map(abs, x),
    "map of an iterator": lambda x: map(abs, iter(x)),
    "filter": lambda x: filter(lambda v: v > 0.1, x),
    "reversed": lambda x: reversed(x),
    "islice": lambda x: itertools.islice(x, 1, None),
    "chain": lambda x: itertools.chain(x, x),
    "accumulate": lambda x: itertools.accumulate(x),
    "object": lambda x: Marching(x),
    "values of zip": lambda x: (a * b for a, b in zip(x, x[::-1], strict=True)),
}


def ended_by_break(items: Any, x: Any) -> Any:
    total = x[0]
    for v in items:
        if v > 1.5:
            break
        total = total + v
    return total


def ended_by_return(items: Any, x: Any) -> Any:
    for v in items:
        if v > 1.5:
            return v
    return x[0]


def ended_by_any(items: Any, x: Any) -> Any:
    return x[0] if any(v > 1.5 for v in items) else x[1]


def ended_by_all(items: Any, x: Any) -> Any:
    return x[0] if all(v < 1.5 for v in items) else x[1]


def ended_by_in(items: Any, x: Any) -> Any:
    return x[0] if x[2] in items else x[1]


def ended_by_next(items: Any, x: Any) -> Any:
    return next((v for v in items if v > 1.5), x[0])


def ended_inside_another(items: Any, x: Any) -> Any:
    return ended_by_break(map(abs, items), x)


def ended_inside_a_zip(items: Any, x: Any) -> Any:
    total = x[0]
    for v, w in zip(items, x, strict=False):
        if v * w > 1.5:
            break
        total = total + v
    return total


def ended_inside_an_enumerate(items: Any, x: Any) -> Any:
    return ended_by_break((v for _, v in enumerate(items)), x)


ENDS = (
    ended_by_break,
    ended_by_return,
    ended_by_any,
    ended_by_all,
    ended_by_in,
    ended_by_next,
    ended_inside_another,
    ended_inside_a_zip,
    ended_inside_an_enumerate,
)


def replaced(values: list[Any], items: Any) -> list[Any]:
    values[1:] = items
    values += items
    return values


def extended(values: list[Any], items: Any) -> list[Any]:
    values.extend(items)
    return values


def passed_on(items: Any) -> Iterator[Any]:
    yield from items


#: what takes further items
USES: dict[str, Callable[[Any, Any], Any]] = {
    "next": lambda items, x: next(items, x[1]),
    "sum": lambda items, x: sum(items),
    "sum of a generator expression": lambda items, x: sum(v * v for v in items),
    "list": lambda items, x: len(list(items)) * x[1],
    "display": lambda items, x: len([*items]) * x[1],
    "max": lambda items, x: max(items, default=x[1]),
    "in": lambda items, x: x[1] if 0.6 in items else x[2],
    "zip": lambda items, x: sum(v * w for v, w in zip(items, x, strict=False)),
    "enumerate": lambda items, x: sum(k * v for k, v in enumerate(items)),
    "comprehension": lambda items, x: sum([v * v for v in items]),
    "sorted": lambda items, x: sum(sorted(items)),
    "+=": lambda items, x: sum(operator.iadd([x[0]], items)),
    "slice": lambda items, x: sum(replaced([x[0]], items)),
    "extend": lambda items, x: sum(extended([x[0]], items)),
    "yield from": lambda items, x: sum(passed_on(items)),
    "unpacked": lambda items, x: (lambda first, *rest: first + len(rest))(*items),
    "chain": lambda items, x: sum(itertools.chain(items, x)),
    "map": lambda items, x: sum(map(abs, items)),
    "any": lambda items, x: x[1] if any(v > 1.0 for v in items) else x[2],
    "for": ended_by_break,
}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("source", SOURCES)
def test_what_is_left(source: str, end: Callable[..., Any]) -> None:
    wrong = []
    for name, use in USES.items():

        def program(x: Any, use: Callable[..., Any] = use) -> Any:
            items = SOURCES[source](x)
            start = end(items, x)
            return start * 10.0 + use(items, x)

        for x in POINTS:
            expected = outcome(program, x)
            found = outcome(tg.function(program), x)
            if found is not CaptureError and found != pytest.approx(expected):
                wrong.append((name, expected, found))
    assert not wrong


def outcome(program: Callable[..., Any], x: Any) -> Any:
    """Return the value, or the class of the error, one class for all that capture refuses."""
    try:
        return float(program(x.copy()))
    except CaptureError:
        return CaptureError
    except (TypeError, StopIteration) as error:
        return type(error)


# ---- right


def ended_by_known_values(x: Any) -> Any:
    items, total = iter(x), 0.0
    for k, v in zip(range(9), items, strict=False):
        if k == 1:
            break
        total = total + v
    return total * sum(v * v for v in items)


def taken_in_turn(x: Any) -> Any:
    items = iter(x)
    squares = map(np.square, items)
    return next(items) * next(squares) + sum(squares)


def of_a_generator_with_state(x: Any) -> Any:
    def sums(values: Any) -> Iterator[Any]:
        seen, last = [], np.zeros(2)
        for v in values:
            seen.append(v)
            last[len(seen) % 2] = v
            yield sum(seen) * last[0]

    total = x[0]
    for s in sums(x):
        if s > 1.5:
            break
        total = total + s
    return total


def other_iterators_go_on(x: Any) -> Any:
    a, b = iter(x), map(np.square, iter(x))
    return ended_by_break(a, x) * sum(b) + next(iter(x))


def taken_by_a_generator_in_turn(x: Any) -> Any:
    pairs = zip(x, x[::-1], strict=True)
    products = (a * b for a, b in pairs)
    return next(products) * next(pairs)[0] + sum(products)


def added_to_lists(x: Any) -> Any:
    items, pairs = [x[0]], [(x[0], x[1])]
    items.extend(reversed(x))
    items += map(np.square, iter(x))
    items[1:2] = iter(x)
    pairs.extend(zip(x, x[::-1], strict=True))
    pairs += zip(x, x, strict=True)
    return sum(items) + sum(a * b for a, b in pairs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        ended_by_known_values,
        taken_by_a_generator_in_turn,
        added_to_lists,
        taken_in_turn,
        of_a_generator_with_state,
        other_iterators_go_on,
    ],
    ids=lambda program: program.__name__,
)
def test_programs(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


# ---- refused


def in_an_attribute(x: Any) -> Any:
    class Holder:
        items = iter(x)

    return ended_by_return(Holder.items, x) + ended_by_return(Holder.items, x)


def in_a_closure(x: Any) -> Any:
    items = {"a": iter(x)}

    def take() -> Any:
        return ended_by_break(items["a"], x)

    return take() + take()


def under_another_iterator(x: Any) -> Any:
    items = iter(x)
    squares = (v * v for v in items)
    ended_by_break(items, x)
    return sum(squares)


def in_its_own_loop(x: Any) -> Any:
    items, total = iter(x), 0.0
    for v in items:
        for w in items:
            if w > v:
                break
            total = total + w
    return total


def numbered_in_its_own_loop(x: Any) -> Any:
    places, total = enumerate(x), 0.0
    for _, v in places:
        for _, w in places:
            total = total + v * w
    return total


def numbered_in_its_own_comprehension(x: Any) -> Any:
    places = enumerate(x)
    return sum([v * sum([w for _, w in places]) for _, v in places])


def numbered_in_a_branch(x: Any) -> Any:
    inner, total = enumerate(x), x[1]
    places = enumerate(inner)
    if x[0] > 0.6:
        for _, (_, v) in places:
            total = total + v
    return total + sum([v for _, v in inner])


def numbered_in_a_recursion(x: Any) -> Any:
    def product(places: Any, k: int) -> Any:
        for _, v in places:
            if k > 0 and v > x[1]:
                return v * product(places, k - 1)
        return x[2]

    return product(enumerate(x), 2)


def in_each_iteration(x: Any) -> Any:
    items, total = iter(x), 0.0
    for _ in range(3):
        total = 2.0 * total + ended_by_break(items, x)
    return total


@pytest.mark.parametrize(
    "program",
    [
        in_an_attribute,
        in_a_closure,
        under_another_iterator,
        in_its_own_loop,
        in_each_iteration,
        numbered_in_its_own_loop,
        numbered_in_its_own_comprehension,
        numbered_in_a_branch,
        numbered_in_a_recursion,
    ],
    ids=lambda program: program.__name__,
)
def test_second_use_is_refused(program: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError, match=r"of which a loop has taken some \[TG134\]"):
        tg.grad(program)(POINTS[0])


def a_list_outside(x: Any) -> Any:
    seen: list[Any] = []

    def noted() -> Iterator[Any]:
        for v in x:
            seen.append(v)
            yield v

    return ended_by_break(noted(), x) * len(seen)


def an_array_outside(x: Any) -> Any:
    seen = np.zeros(4)

    def noted() -> Iterator[Any]:
        for k, v in enumerate(x):
            seen[k] = v
            yield v

    return ended_by_break(noted(), x) * seen.sum()


def an_attribute(x: Any) -> Any:
    marching = Marching(x)
    return ended_by_break(marching, x) * marching.k


def a_set_outside(x: Any) -> Any:
    seen: set[int] = set()

    def noted() -> Iterator[Any]:
        for k, v in enumerate(x):
            seen.add(k)
            yield v

    return ended_by_any(noted(), x) * len(seen)


def filtered(x: Any) -> Any:
    marching = Marching(x)
    return ended_by_break(filter(lambda v: v > 0.1, marching), x) * marching.k


@pytest.mark.parametrize(
    "program",
    [an_attribute, filtered],
    ids=lambda program: program.__name__,
)
def test_changes_by_items_that_may_not_be_taken_are_refused(program: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError, match=r"changes something where a loop over it may have ended \[TG134\]"):
        tg.grad(program)(POINTS[0])


def test_a_set_that_a_generator_changes_in_a_loop_that_ends_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"set.add in a staged loop or branch \[TG134\]"):
        tg.grad(a_set_outside)(POINTS[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [a_list_outside, an_array_outside], ids=lambda program: program.__name__)
def test_a_generator_changes_what_python_lets_it_change(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_an_end_under_a_traced_condition_is_refused() -> None:
    def program(x: Any) -> Any:
        marching = Marching(x)
        if x[0] > 0.6:
            next(marching)
        return sum([*marching])

    with pytest.raises(CaptureError, match=r"ends under a traced condition \[TG101\]"):
        tg.grad(program)(POINTS[0])
