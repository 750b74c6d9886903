"""Comprehensions and generator expressions with traced tests or many items, and what is done with their lists."""

# ruff: noqa

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (np.array([0.5, -1.2, 2.0, 0.7, -0.3, 1.5]), np.array([0.65, 0.9, -0.1, -0.2, 0.8]))


def mean_of_positive(x: Any) -> Any:
    positive = [v for v in x if v > 0]
    return sum(positive) / len(positive)


def two_tests(x: Any) -> Any:
    return np.prod([1 + v for v in x if v > 0 if v < 1.0])


def none_passes(x: Any) -> Any:
    large = [v for v in x if v > 100]
    return x[0] if not large else sum(large)


def in_a_generator(x: Any) -> Any:
    return sum(v * v for v in x if v > 0) + math.fsum(v for v in x if v < 0) + max(-v for v in x if v < 0.6)


def sums(x: Any) -> Any:
    n = 0
    for v in x:
        if v > 0:
            n += 1
    counted = sum(x[k] * k for k in range(n)) + x[0] * sum(1 for v in x if v > 0.6)
    rows = sum(x * v for v in x if v > 0)
    return counted + rows.sum() + sum((v for v in x if v < 0), 2.5) + sum(a * b for a in x for b in x if a > b)


def pairs(x: Any) -> Any:
    return sum([a * b for a in x for b in x if a > b])


def unpacked(x: Any) -> Any:
    return sum([k * a * b for k, (a, b) in enumerate(zip(x[:-1], x[1:])) if a < b])


def table(x: Any) -> Any:
    t = [[x[i % len(x)] * np.sin(j * x[j % len(x)]) for j in range(30)] for i in range(30)]
    return sum([sum(row) for row in t]) + t[3][4] * t[-1][0]


def many(x: Any) -> Any:
    weights = [np.exp(-0.01 * i) * x[i % len(x)] for i in range(100)]
    return np.dot(np.array(weights), np.arange(100.0)) / len(weights)


def of_a_list_of_unknown_length(x: Any) -> Any:
    kept = []
    for v in x:
        if v > 0:
            kept.append(v)
    return sum([v * v for v in kept]) + sum(2.0 * v for v in kept if v < 1.0) + len([v for v in kept])


def spread(x: Any) -> Any:
    kept = [v for v in x if v > 0]
    m = sum(kept) / len(kept)
    return (sum((v - m) ** 2 for v in kept) / (len(kept) - 1)) ** 0.5 + statistics.mean(v for v in x if v > 0.1)


def positions(x: Any) -> Any:
    index = [i for i, v in enumerate(x) if v > 0]
    return sum(x[i] * i for i in index) + np.sum(x[np.array(index)] ** 2)


def rows(x: Any) -> Any:
    kept = [x * v for v in x if v > 0]
    return np.sum(np.array(kept)[0]) + np.vstack(kept).sum()


def first(x: Any) -> Any:
    return next(v for v in x if v > 0.6) ** 2 + next((v for v in x if v > 100), x[1] * 3)


def quantiles(x: Any) -> Any:
    kept = [v for v in x if v > 0]
    return np.median(kept) * np.percentile(kept, 30) + np.quantile(np.array(kept), 0.9)


def of_known_tests(x: Any) -> Any:
    others = [x[i] for i in range(len(x)) if i != 2]
    return np.prod(np.ones(len(others))) * sum(others) * others[2]


def functions(x: Any) -> Any:
    scaled = [lambda y: y * k for k in range(3)]
    return scaled[0](x[0]) + x[1]


def assigned(x: Any) -> Any:
    kept = [y for v in x if (y := v * 2.0) is not None]
    return sum(kept) * y


# lists of unknown length


def in_order(x: Any) -> Any:
    kept = [v for v in x if v > 0]
    ordered, down = sorted(kept), sorted(kept, reverse=True)
    kept.reverse()
    total = kept[0] * 3 + ordered[0] * ordered[-1] + down[0]
    kept.sort()
    return total + kept[len(kept) // 2] ** 2


def parts(x: Any) -> Any:
    kept = [v for v in x if v > 0]
    total = sum(kept[1:]) + sum(kept[-2:]) * 2 + kept[:1][0] + sum(kept[::-1][:2]) + len(kept[5:])
    for a, b in zip(kept, kept[1:]):
        total += a * b
    return total


def inserted(x: Any) -> Any:
    kept = []
    for v in x:
        if v > 0:
            kept.insert(0, v)
    kept.insert(1, x[0] * x[1])
    kept.insert(-1, x[2] * x[1])
    kept.insert(100, x[3])
    total = 0.0
    for i, v in enumerate(kept):
        total = total + (i + 1) * v
    return total


def insertion_sort(x: Any) -> Any:
    ordered = [x[0]]
    for v in x[1:]:
        k = 0
        while k < len(ordered) and ordered[k] < v:
            k += 1
        ordered.insert(k, v)
    return ordered[0] * ordered[1] + ordered[-1] ** 2


def extended(x: Any) -> Any:
    kept = [x[0]]
    kept.extend(v * v for v in x if v > 0.6)
    kept.extend([v for v in x if v < 0])
    return max(kept) - min(kept) + len(kept) * kept[1]


def by_key(x: Any) -> Any:
    small = [v for v in x if v < 1]
    return max(small, key=lambda v: v * v) ** 3 + min(small, key=lambda v: abs(v - 0.4))


def distances_of_peaks(x: Any) -> Any:
    peaks = []
    for i in range(1, len(x) - 1):
        if x[i] > x[i - 1] and x[i] > x[i + 1]:
            peaks.append(i)
    between = [b - a for a, b in zip(peaks[:-1], peaks[1:])]
    return x[0] * (sum(between) / max(len(between), 1)) + sum(x[p] for p in peaks)


def filter_and_map(x: Any) -> Any:
    def small(v: Any) -> Any:
        return v < 0.6

    return sum(filter(small, x)) + sum(map(lambda v: v * v, (v for v in x if v > 0))) * sum(
        map(np.sin, filter(None, x))
    )


def listed(x: Any) -> Any:
    values = list(v for v in x if v > 0)
    values.append(3.0)
    a = np.array(values)
    return np.std(a) * a.max()


def neighbours(x: Any) -> Any:
    a, b = [v for v in x if v > 0], [v for v in x if v > 0.6]
    return sum(a[i + 1] * a[i] for i in range(len(a) - 1)) + sum(p * q for p, q in zip(a, b))


def beside_a_list(x: Any) -> Any:
    weights = [v * 2.0 for v in (x[0], x[1], x[2])]
    return sum(a * b for a, b in zip(weights, [v for v in x if v > 0]))


def of_a_wider_type(x: Any) -> Any:
    index = [k for k in range(len(x)) if x[k] < 0.77]
    index.append(x[0])
    index.extend([v - 1.3 for v in x if v > 0.77])
    return sum(index) * x[1]


def stack(x: Any) -> Any:
    todo, i = [x[0]], 0
    while len(todo) > 0 and i < 10:
        v = todo.pop()
        i += 1
        if v < 3.0:
            todo.append(v * 1.5)
    return v


def roots_apart(x: Any) -> Any:
    roots, all_apart = [], []
    for v in x:
        if not any(abs(v - r) < 0.3 for r in roots):
            roots.append(v)
        if all(abs(v - r) > 0.3 for r in all_apart if r > 0):
            all_apart.append(v)
    return sum(roots) * len(roots) + sum(v**2 for v in all_apart)


def any_of_many(x: Any) -> Any:
    large = np.outer(x, x).ravel()
    close = any(abs(a - 2 * b) < 0.1 for a in large for b in large)
    return x[0] * any(v > 1.0 for v in large) + x[1] * all(v > -0.5 for v in large) + x[2] * close


def any_that_ends_in_time(x: Any) -> Any:
    steps = np.concatenate([x, np.zeros(20)])
    return x[0] * any(steps[k] > 0.6 and steps[k + 1] < 1.0 for k in range(100))


def any_of_what_a_mask_selects(x: Any) -> Any:
    small = x[x < 1]
    return x[0] * any(v > 0.6 for v in small) + x[1] * all(small > 0.4) + x[2] * any(small > 0.4)


PROGRAMS = [
    sums,
    roots_apart, any_of_many, any_that_ends_in_time, any_of_what_a_mask_selects,
    beside_a_list, of_a_wider_type, stack,
    distances_of_peaks, filter_and_map, listed, neighbours,
    mean_of_positive, two_tests, none_passes, in_a_generator, pairs, unpacked, table, many, of_a_list_of_unknown_length,
    spread, positions, rows, first, quantiles, of_known_tests, functions, assigned, in_order, parts, inserted,
    insertion_sort, extended, by_key,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def test_items_that_are_known_stay_python_values() -> None:
    def f(x: Any) -> Any:
        shape = [k + 1 for k in range(20) if k % 7 == 1]
        return np.sum(np.ones(shape) * x[0]), shape

    value, shape = tg.function(f)(np.array([2.0]))
    assert shape == [2, 9, 16]
    assert value == 2.0 * 2 * 9 * 16


def test_many_items_are_a_loop() -> None:
    text = tg.grad(table).source(POINTS[0])
    assert len(text.splitlines()) < 80
    assert "for i in range(30):" in text
    assert "for j in range(30):" in text


def test_effects_of_known_items_happen_once() -> None:
    def f(x: Any) -> Any:
        numbers = iter(range(100))
        return sum([next(numbers) * v for v in [x[0], x[1], x[0]]]) + sum([x[0] * next(numbers) for _ in range(20)])

    x = np.array([2.0, 3.0])
    np.testing.assert_allclose(tg.function(f)(x), f(x))


def test_no_item_passes() -> None:
    def f(x: Any) -> Any:
        return next(v for v in x if v > 100)

    with pytest.raises(StopIteration):
        tg.function(f)(POINTS[0])


def of_a_set(x: Any) -> Any:
    return sum({v for v in x if v > 0})


def of_texts(x: Any) -> Any:
    return [str(k) for k, v in enumerate(x) if v > 0]


@pytest.mark.parametrize("f", [of_a_set, of_texts])
def test_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(TracegradError) as caught:
        tg.function(f)(POINTS[0])
    assert caught.value.code in ("TG101", "TG113")


def work_list(x: Any) -> Any:
    work = [v for v in x if v > 0]
    total = 0.0
    for k, v in enumerate(work):
        if v > 0.6:
            work.append(v / 2)
        total += v * k
    return total


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_list_that_grows_under_its_loop_is_refused(backend: str) -> None:
    with pytest.raises(TracegradError) as caught:
        tg.grad(work_list, backend=backend)(POINTS[0])
    assert caught.value.code == "TG134"


class Pair(NamedTuple):
    a: Any
    b: Any


def updated(p: Any, pairs: Iterable[Any]) -> Any:
    p = dict(p)
    p.update(pairs)
    return p


def from_pairs(pairs: Iterable[Any]) -> Any:
    return {key: value for key, value in pairs}


#: new parameters from a generator expression that is an argument of a call
STEPS: dict[str, Callable[..., Any]] = {
    "dict": lambda p, r: dict((k, p[k] - r * p[k]) for k in p),
    "dict with keywords": lambda p, r: dict(((k, p[k] - r * p[k]) for k in p), b=p["b"] * 0.5),
    "OrderedDict": lambda p, r: OrderedDict((k, p[k] - r * p[k]) for k in p),
    "defaultdict": lambda p, r: dict(defaultdict(float, ((k, p[k] - r * p[k]) for k in p))),
    "update": lambda p, r: updated(p, ((k, p[k] - r * p[k]) for k in p)),
    "deque": lambda p, r: dict(zip(p, deque(p[k] - r * p[k] for k in p))),
    "_make": lambda p, r: Pair._make(p[k] - r * p[k] for k in p)._asdict(),
    "reduce": lambda p, r: {"a": functools.reduce(lambda s, v: s + v, (p[k] * r for k in p)), "b": p["b"]},
    "zip": lambda p, r: {k: v for k, v in zip(p, (p[k] - r * p[k] for k in p))},
    "zip, first": lambda p, r: {k: v for v, k in zip((p[k] - r * p[k] for k in p), p)},
    "enumerate": lambda p, r: {"ab"[i]: v - i * r for i, v in enumerate(p[k] * 0.9 for k in p)},
    "chain": lambda p, r: dict(zip(p, itertools.chain((p[k] - r * p[k] for k in "a"), (p[k] for k in "b")))),
    "accumulate": lambda p, r: dict(zip(p, itertools.accumulate(p[k] * r for k in p))),
    "islice": lambda p, r: dict(zip(p, itertools.islice((p[k] * r for k in "aab"), 1, None))),
    "starmap": lambda p, r: dict(zip(p, itertools.starmap(lambda v, k: v * k, ((p[k], r) for k in p)))),
    "own function": lambda p, r: from_pairs((k, p[k] - r * p[k]) for k in p),
}


def in_vmap(step: Callable[..., Any], x: Any) -> Any:
    return np.sum(np.array([end(step({"a": x[0], "b": x[1]}, r)) for r in (x[2], 0.5 * x[2])]))


def in_real_vmap(step: Callable[..., Any], x: Any) -> Any:
    return np.sum(tg.vmap(lambda r: end(step({"a": x[0], "b": x[1]}, r)))(np.array([x[2], 0.5 * x[2]])))


def in_branch(step: Callable[..., Any], x: Any) -> Any:
    p = {"a": x[0], "b": x[1]}
    if x[2] > 0.35:
        p = step(p, x[2])
    else:
        p = step(p, 2 * x[2])
    return end(p)


def in_while(step: Callable[..., Any], x: Any) -> Any:
    p, n = dict(a=x[0], b=x[1]), 0.0
    while n < 1.1:
        p, n = dict(step(p, x[2])), n + x[2]
    return end(p)


def in_long_loop(step: Callable[..., Any], x: Any) -> Any:
    p = {"a": x[0], "b": x[1]}
    for _ in range(130):
        p = dict(step(p, x[2]))
    return end(p)


def end(p: Any) -> Any:
    return p["a"] ** 2 + np.sin(p["b"]) * p["a"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("region", [in_real_vmap, in_branch, in_while, in_long_loop], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", STEPS)
def test_generators_given_to_calls(name: str, region: Callable[..., Any], backend: str) -> None:
    plain = in_vmap if region is in_real_vmap else region
    x = np.array([0.7, 0.4, 0.31])
    value, gradient = tg.value_and_grad(functools.partial(region, STEPS[name]), backend=backend)(x)
    expected = functools.partial(plain, STEPS[name])
    np.testing.assert_allclose(value, expected(x), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(gradient, central_differences(expected, x), rtol=1e-6, atol=1e-7)


def test_a_generator_from_outside_a_loop_is_refused() -> None:
    def f(x: Any) -> Any:
        items = (v * v for v in x)
        total = 0.0
        while total < x[0]:
            total = total + sum(dict(enumerate(items)).values())
        return total

    with pytest.raises(
        TracegradError, match="an iterator from outside the loop or branch|items taken from an iterator"
    ):
        tg.grad(f)(np.ones(3))
