"""Python objects that loops change: followed, or unrolled; never changed once at capture for all iterations."""

from __future__ import annotations

import array
import heapq
import itertools
import operator
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import CaptureError

X = np.array([1.2, 0.6, 0.3, 0.9])


class Slots:
    __slots__ = ("v",)


def queue_of_numbers(x):
    q = deque(maxlen=3)
    total = 0.0
    for i in range(4):
        q.append(i + 1.0)
        total = total + sum(q) * x[i]
    return total * len(q)


def set_as_memory(x):
    seen, total = set(), 0.0
    for i in range(6):
        if i % 3 in seen:
            continue
        seen.add(i % 3)
        total = total + x[i % 3] ** 2
    return total * len(seen)


def heap_of_numbers(x):
    h = []
    for i in range(4):
        heapq.heappush(h, 3.0 - i)
    return x.sum() * len(h) * heapq.heappop(h) + x[0]


def iterator_in_a_loop(x):
    items, total = iter([1.0, 2.0, 3.0, 4.0]), 0.0
    for i in range(4):
        total = total + next(items) * x[i]
    return total


def counter_and_generator(x):
    count, squares, total = itertools.count(), (k * k for k in range(4)), 0.0
    for i in range(4):
        total = total + (next(count) + next(squares)) * x[i]
    return total


def pairs_from_one_iterator(x):
    total, items = 0.0, iter(x)
    for v in items:
        total = total + v * next(items)
    return total


def unbound_method(x):
    values = []
    for i in range(4):
        list.append(values, x[i])
    return sum(values) * len(values)


def write_into_the_end_of_a_list(x):
    values = []
    for i in range(4):
        values[len(values) :] = [x[i]]
    return sum(values) * len(values)


def inplace_operator_function(x):
    values = []
    for i in range(4):
        operator.iadd(values, [x[i]])
    return sum(values) * len(values)


def attributes_by_name(x):
    s = Slots()
    s.v = 0.0
    for i in range(4):
        setattr(s, "v", getattr(s, "v") * 0.5 + x[i])  # noqa: B009, B010 the functions are what is tested
    return s.v**2


def typed_array(x):
    a = array.array("d")
    for _ in range(4):
        a.append(1.0)
    return x.sum() * len(a)


def pops(x):
    values, table, total = [3.0, 1.0, 2.0], {0: 1.0, 1: 2.0, 2: 3.0}, 0.0
    for i in range(3):
        total = total + values.pop() * table.pop(max(table)) * x[i]
    return total


def insertions(x):
    values = []
    for i in range(4):
        values.insert(0, x[i])
    return values[0] * values[1] ** 2


def sorting_a_list(x):
    values = [x[0], x[1], x[2]]
    for _ in range(2):
        values.sort()
    return values[0] * 2 + values[1]


def new_keys(x):
    d, ordered, total = {"a": 1.0}, OrderedDict(), 0.0
    for i in range(3):
        total = total + d.setdefault("b", 2.0) * x[i]
        d["b"] = d["b"] * 2
        ordered[i] = x[i] ** 2
    return total + sum(ordered.values())


def walrus_in_a_while(x):
    s, i = 0.0, 0
    while (v := s * 0.9 + abs(x[i % 4])) < 3 and i < 20:
        s = v + 0.3
        i += 1
    return s


def pairs(values):
    for k in range(2):
        yield values[k], k + 1.0


def iterators_made_in_a_staged_loop(x):
    s = x[0]
    while s < 20.0:
        for a, b in zip((1.0, 2.0), [x[1], 0.5], strict=True):
            s = s * a + b
        for value, factor in pairs(x):
            s = s + value * factor
    return s


PROGRAMS = [
    f
    for name, f in list(globals().items())
    if getattr(f, "__module__", None) == __name__ and name[0].islower() and f is not pairs
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_gradient(program: Callable[..., Any]) -> None:
    value, ct = tg.value_and_grad(program)(X)
    assert float(value) == pytest.approx(float(program(X)), rel=1e-12)
    for k in range(len(X)):
        step = np.zeros_like(X)
        step[k] = 1e-6
        slope = (program(X + step) - program(X - step)) / 2e-6
        assert float(ct[k]) == pytest.approx(float(slope), rel=1e-6, abs=1e-7)


def test_another_endless_iterator_with_a_traced_end_is_refused() -> None:
    def halve(a: Any) -> Any:
        x = 1.0
        for factor in itertools.cycle([0.5, 0.25]):
            if x < 1e-3:
                break
            x = x * a * factor
        return x

    with pytest.raises(CaptureError, match="endless or long iterator"):
        tg.grad(halve)(0.5)


def test_sorted_by_names_of_traced_values() -> None:
    def weighted(p: Any) -> Any:
        return sum((i + 1) * v**2 for i, (_, v) in enumerate(sorted(p.items())))

    assert tg.grad(weighted)({"b": 2.0, "a": 3.0}) == {"b": 8.0, "a": 6.0}
