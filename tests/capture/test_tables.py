"""Dicts by whose keys staged loops count, and items by traced ints."""

from __future__ import annotations

import collections
import copy
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.errors import CaptureError, NeedsPythonValue

POINTS = (np.array([0.7, 0.9, 0.4]), np.array([-0.3, 1.2, 0.45]), np.array([1.7, -0.6, 0.8]))
RATES = {0: 0.1, 1: 0.2, 3: 0.7}


# ---- lookups in dicts as they are


def number_by_key(x: Any) -> Any:
    return x[0] * RATES[int(abs(x[0])) % 2]


def traced_number_by_key(x: Any) -> Any:
    table = {0: x[1], 1: 0.2, 5: x[2] ** 2}
    return x[0] * table[5 * int(x[0] > 0)]


def default_by_key(x: Any) -> Any:
    return x[0] * RATES.get(int(abs(x[0])), x[1]) + RATES.get(7 * int(x[0] > 0), x[2])


def membership(x: Any) -> Any:
    k = int(abs(x[0]) * 2)
    return x[0] * RATES[k] if k in RATES else x[1]


def function_by_key(x: Any) -> Any:
    return {0: np.sin, 1: np.cos}[int(x[0] > 0)](x[1])


def pair_by_key(x: Any) -> Any:
    table = {(0, 0): x[0], (0, 1): x[1], (1, 0): 3.0, (1, 1): x[2]}
    return table[int(x[0] > 0), int(x[1] > 0)] * x[0]


def store_by_key(x: Any) -> Any:
    table = {0: x[0], 1: x[1]}
    table[int(x[0] > 0)] = x[2] ** 2
    return table[0] + 2 * table[1]


# ---- stores by the number of a loop


def history(x: Any) -> Any:
    hist = {0: x[0]}
    for it in range(1, 60):
        hist[it] = hist[it - 1] * 0.9 + x[it % 3]
    return max(hist.values()) + len(hist) + hist[len(hist) - 1]


def history_of_arrays(x: Any) -> Any:
    hist = {}
    s = x * 1.0
    for it in range(40):
        s = s * 0.9 + np.sin(s) * 0.1
        hist[it] = s
    return np.sum(hist[39] * hist[0]) + np.sum(hist[20])


def ring(x: Any) -> Any:
    log = {0: 0.0, 1: 0.0, 2: 0.0}
    s = x[0]
    for t in range(50):
        s = np.sin(s) + x[1]
        log[t % 3] = s
    return sum(log.values()) + log[1] * len(log)


def grid(x: Any) -> Any:
    n, cache = 12, {}
    for i in range(n):
        cache[i, 0] = x[0]
        cache[0, i] = x[1]
    for i in range(1, n):
        for j in range(1, n):
            cache[i, j] = 0.3 * cache[i - 1, j] + 0.5 * np.sin(cache[i, j - 1])
    return cache[n - 1, n - 1]


def knapsack(x: Any) -> Any:
    weights = [2, 3, 4, 5]
    best = {(0, c): 0.0 for c in range(20)}
    for i in range(1, 5):
        for c in range(20):
            best[i, c] = best[i - 1, c]
            if weights[i - 1] <= c:
                best[i, c] = max(best[i, c], best[i - 1, c - weights[i - 1]] + x[i % 3])
    return best[4, 19]


def until_small(x: Any) -> Any:
    hist = {}
    s = x[0]
    for it in range(300):
        s = s * 0.9 + 0.1 * x[1]
        hist[it] = s
        if abs(s) < 0.3:
            break
    return hist[it] + len(hist)


def some_keys(x: Any) -> Any:
    hist = {}
    for it in range(50):
        if np.sin(it * x[0]) > 0:
            hist[it] = x[1] * it
    return sum(hist.values()) + len(hist) * x[0] + max(hist.values())


def memo(x: Any) -> Any:
    known: dict[int, Any] = {}
    total = 0.0
    for it in range(60):
        k = it % 7
        if k not in known:
            known[k] = np.sin(k * x[0])
        total += known[k]
    return total


def sums_by_get(x: Any) -> Any:
    sums: dict[int, Any] = {}
    for it in range(60):
        sums[it % 5] = sums.get(it % 5, 0.0) + x[it % 3] * it
    return sums[0] * sums[1] + sums[4]


def sums_by_default(x: Any) -> Any:
    sums: Any = collections.defaultdict(float)
    for it in range(60):
        sums[it % 5] += x[it % 3] * it
    return sums[0] * sums[1] + sums[4] + sums[9]


def counts(x: Any) -> Any:
    found: Any = collections.Counter()
    for it in range(60):
        found[int(np.sin(it * x[0]) > 0.3)] += 1
    return found[1] * x[1] + found[0] * x[2]


def arrays_in_place(x: Any) -> Any:
    sums: Any = collections.defaultdict(lambda: np.zeros(3))
    for it in range(30):
        sums[it % 2] += x * it
    return np.sum(sums[0] * sums[1])


def numbers_that_become_floats(x: Any) -> Any:
    sums = {0: 0, 1: 0}
    for it in range(40):
        sums[it % 2] += x[it % 3]
    return sums[0] * x[0] + sums[1] * x[1]


class Monitor:
    def __init__(self) -> None:
        self.log: dict[int, Any] = {}

    def note(self, it: int, value: Any) -> None:
        self.log[it] = value


def slot_of_object(x: Any) -> Any:
    monitor = Monitor()
    s = x[0]
    for it in range(40):
        s = np.sin(s) + 0.3 * x[1]
        monitor.note(it, s)
    return monitor.log[39] + monitor.log[10] * len(monitor.log)


def slot_of_a_copied_object(x: Any) -> Any:
    monitor = Monitor()
    for it in range(40):
        monitor.note(it, x[it % 3] * it)
    other = copy.deepcopy(monitor)
    for it in range(10, 60):
        other.note(it, x[0] * it)
    return sum(monitor.log.values()) + sum(other.log.values()) + len(other.log) * len(monitor.log) + other.log[3]


def beside_other_keys(x: Any) -> Any:
    d: dict[Any, Any] = {"total": 0.0}
    for it in range(40):
        d[it] = x[it % 3] * it
        d["total"] += d[it]
    return d["total"] * d[3] + len(d)


def negative_keys(x: Any) -> Any:
    hist = {}
    for it in range(-20, 20):
        hist[it] = x[it % 3] * it
    return hist[-5] * hist[5] + sum(k * v for k, v in hist.items())


def backwards(x: Any) -> Any:
    hist = {30: x[0]}
    for it in range(29, -1, -1):
        hist[it] = hist[it + 1] * 0.9 + x[it % 3]
    return hist[0] + max(hist.values()) + len(hist)


def in_two_loops(x: Any) -> Any:
    hist = {}
    for it in range(30):
        hist[it] = x[it % 3] * it
    for it in range(30, 80):
        hist[it] = hist[it - 30] + x[1] if it < 60 else hist[it - 1] * 0.5
    return sum(hist.values()) + len(hist) + hist[79]


# ---- all items


def in_order(x: Any) -> Any:
    hist = {}
    for it in range(50):
        hist[it] = np.sin(it * x[0]) + x[1]
    total = 0.0
    for k, value in hist.items():
        total += k * value
    for k in hist:
        total += hist[k] * 0.1
    values = np.array(list(hist.values()))
    return total + len(hist.keys()) + np.sum(values * np.arange(50)) + max(hist) + sum(v * v for v in hist.values())


def best_key(x: Any) -> Any:
    hist = {}
    for it in range(30):
        hist[it] = np.sin(it * x[0]) + x[1]
    return hist[min(hist, key=hist.get)] * x[2]


def two_at_once(x: Any) -> Any:
    first, second = {}, {}
    for it in range(30):
        first[it] = x[it % 3] * it
        second[it] = np.sin(first[it])
    return sum(a * b for a, b in zip(first.values(), second.values(), strict=True))


def changed_afterwards(x: Any) -> Any:
    hist = {}
    for it in range(30):
        hist[it] = x[it % 3] * it
    taken = hist.pop(3)
    copy = dict(hist)
    copy[4] = x[0]
    del hist[5]
    hist.update({6: x[1]})
    for it in range(20, 40):
        copy[it] = x[0] * it
    return taken + sum(hist.values()) + len(hist) + sum(copy.values()) + len({**hist, 1: x[2]})


PROGRAMS = [
    number_by_key,
    traced_number_by_key,
    default_by_key,
    membership,
    function_by_key,
    pair_by_key,
    store_by_key,
    history,
    history_of_arrays,
    ring,
    grid,
    knapsack,
    until_small,
    some_keys,
    memo,
    sums_by_get,
    sums_by_default,
    counts,
    arrays_in_place,
    numbers_that_become_floats,
    slot_of_object,
    slot_of_a_copied_object,
    beside_other_keys,
    negative_keys,
    backwards,
    in_two_loops,
    in_order,
    best_key,
    two_at_once,
    changed_afterwards,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_items_by_traced_ints(program: Any, backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_the_program_does_not_grow_with_the_loop() -> None:
    def lines(steps: int) -> int:
        def f(x: Any) -> Any:
            hist = {}
            for it in range(steps):
                hist[it] = hist[it - 1] * 0.9 + x if it > 0 else x
            return max(hist.values()) + len(hist)

        return len(tg.grad(f).source(1.5).splitlines())

    assert lines(50) == lines(500)


def test_all_items_are_returned_in_order() -> None:
    def f(x: Any) -> Any:
        hist = {}
        for it in range(30):
            hist[it] = x * it
        return hist

    found = tg.function(f)(2.0)
    assert type(found) is dict
    assert list(found.items()) == [(it, 2.0 * it) for it in range(30)]


def test_a_key_that_is_not_there_is_an_error_of_the_run() -> None:
    def f(x: Any) -> Any:
        hist = {}
        for it in range(40):
            if x > 0:
                hist[it] = x
        return hist[20] * RATES[int(x)]

    gradient = tg.grad(f)
    assert gradient(1.5) == pytest.approx(0.2)
    with pytest.raises(KeyError):
        gradient(-1.5)
    with pytest.raises(KeyError):
        gradient(2.5)


def test_keys_of_an_unknown_range_are_refused() -> None:
    def f(x: Any) -> Any:
        hist = {0: x}
        n = 0
        while hist[n] > 0.01:
            hist[n + 1] = hist[n] * 0.5
            n += 1
        return hist[n]

    with pytest.raises(CaptureError, match="cannot be staged") as raised:
        tg.grad(f)(1.5)
    assert "a dict key is known only" in raised.value.found
    assert "whose range is known" in raised.value.help


def test_values_without_a_form_are_refused_in_long_loops() -> None:
    def f(x: Any) -> Any:
        names: dict[int, Any] = {}
        for it in range(200):
            x = np.sin(x)
            names[it] = [x]
        return x

    with pytest.raises(CaptureError, match="neither be staged nor unrolled"):
        tg.grad(f)(1.5)


def test_an_array_that_is_written_under_its_key_is_not_read_by_another_name() -> None:
    def f(x: Any) -> Any:
        sums = {0: np.zeros(3), 1: np.zeros(3)}
        for it in range(200):
            sums[it % 2] += x * it
        held = sums[0]
        for it in range(200):
            sums[it % 2] += x * it
        return np.sum(held)

    with pytest.raises(NeedsPythonValue, match="an array that another name may share"):
        tg.grad(f)(POINTS[0])


def test_the_order_of_keys_that_depends_on_values_is_refused() -> None:
    def f(x: Any) -> Any:
        hist = {}
        for it in range(40):
            if np.sin(it * x) > 0:
                hist[it] = x
        return sum(k * v for k, v in hist.items())

    with pytest.raises(NeedsPythonValue, match="used as a whole") as raised:
        tg.grad(f)(1.5)
    assert raised.value.code == "TG139"
