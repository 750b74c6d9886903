"""Generators whose items are taken one by one by a loop that a traced condition ends, or by functions of them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import POINTS, Programs, check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

program = Programs()


def newton(x0: Any, a: Any) -> Iterator[Any]:
    x = x0
    while True:
        yield x
        x = 0.5 * (x + a / x)


def pos(x: Any) -> Iterator[Any]:
    for v in x:
        if v > 0:
            yield (v * v)


def logs(x: Any) -> Iterator[Any]:
    for v in x:
        yield math.log(v)


@program
def log_break(x: Any) -> Any:
    s = 0.0
    for v in logs(x):
        if v < 0.5:
            break
        s += v
    return s


@program
def log_break_pos(x: Any) -> Any:

    def g() -> Any:
        for v in x:
            if v < 2.0:
                yield math.log(v + 1.0)

    s = 0.0
    for v in g():
        s += v
        if v > 0.9:
            break
    return s + x[0]


@program
def log_break_genexp(x: Any) -> Any:
    s = 0.0
    for v in (math.log(u) for u in x if u < 2):
        s += v
        if v < 0.5:
            break
    return s


@program
def log_return(x: Any) -> Any:

    def g() -> Any:
        for v in x:
            if v < 2.0:
                yield math.log(v)

    for v in g():
        if v < 0.5:
            return v
    return x[1]


@program
def with_any(x: Any) -> Any:

    def g() -> Any:
        for v in x:
            if v < 2.0:
                yield math.log(v)

    return x[0] if any(v < 0.5 for v in g()) else x[1]


@program
def with_next(x: Any) -> Any:

    def g() -> Any:
        for v in x:
            if v < 2.0:
                yield math.log(v)

    return next(g())


@program
def next_d(x: Any) -> Any:

    def g() -> Any:
        for v in x:
            if v > 0.0:
                yield math.log(v)

    return next(g(), x[0])


@program
def with_newton(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    for r in newton(1.5, a):
        if abs(r * r - a) < 1e-10:
            break
    return r


@program
def newton_return(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    for r in newton(1.5, a):
        if abs(r * r - a) < 1e-10:
            return r * x[1]
    return x[1]


@program
def newton_zip(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    for k, r in zip(range(50), newton(1.5, a), strict=False):
        if abs(r * r - a) < 1e-10 and k < 40:
            break
    return r + k * x[1]


@program
def newton_count(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    for k, r in zip(itertools.count(), newton(1.5, a), strict=False):
        if abs(r * r - a) < 1e-10 and k < 40:
            break
    return r + k * x[1]


@program
def newton_enum(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    for k, r in enumerate(newton(1.5, a)):
        if abs(r * r - a) < 1e-10 and k < 40:
            break
    return r + k * x[1]


@program
def newton_nexts(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    g = newton(1.5, a)
    p = next(g)
    q = next(g)
    r = next(g)
    return p + q * r


@program
def newton_next_loop(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    g = newton(1.5, a)
    old = next(g)
    for r in g:
        if abs(r - old) < 1e-10:
            break
        old = r
    return r + old * x[1]


@program
def newton_islice(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    return sum(itertools.islice(newton(1.5, a), 5))


@program
def newton_islice_break(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    for r in itertools.islice(newton(1.5, a), 3):
        if abs(r * r - a) < 0.001:
            break
    return r


@program
def newton_takewhile(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    s = 0.0
    for r in itertools.takewhile(lambda r: abs(r * r - a) > 1e-06, newton(1.5, a)):
        s += r
    return s


@program
def newton_last(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    return next(r for r in newton(1.5, a) if abs(r * r - a) < 1e-08)


@program
def newton_pair(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    g = newton(1.5, a)
    for p, q in itertools.pairwise(g):
        if abs(p - q) < 1e-09:
            break
    return q


@program
def newton_effects(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    log = []
    for r in newton(1.5, a):
        log.append(r)
        if abs(r * r - a) < 1e-10:
            break
    return sum(log)


@program
def newton_genexp(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    for r in (u * 2 for u in newton(1.5, a)):
        if abs(r * r - 4 * a) < 1e-10:
            break
    return r


@program
def newton_continue(x: Any) -> Any:
    a = 1.0 + x[0] ** 2
    s = 0.0
    for r in newton(1.5, a):
        if r > 50:
            continue
        s += r
        if abs(r * r - a) < 1e-10:
            break
    return s


@program
def effects_after_yield(x: Any) -> Any:
    log = []

    def g() -> Any:
        for v in x:
            if v < 2:
                log.append(v)
                yield v
                log.append(v * v)

    s = 0.0
    for v in g():
        s += v
        if v > 0.4:
            break
    return s + sum(log) + 10 * len(log) * x[0]


@program
def with_chain(x: Any) -> Any:
    return sum(itertools.chain(pos(x), x))


@program
def chain2(x: Any) -> Any:
    s = 0.0
    for v in itertools.chain([1.0], pos(x)):
        s = s * 0.5 + v
    return s


@program
def with_islice(x: Any) -> Any:
    return sum(itertools.islice(pos(x), 2))


@program
def with_accumulate(x: Any) -> Any:
    return sum(itertools.accumulate(pos(x)))


@program
def with_takewhile(x: Any) -> Any:
    return sum(itertools.takewhile(lambda v: v < 2, pos(x)))


@program
def with_dropwhile(x: Any) -> Any:
    return sum(itertools.dropwhile(lambda v: v < 2, pos(x)))


@program
def with_reduce(x: Any) -> Any:
    return functools.reduce(lambda a, b: a * 0.5 + b, pos(x), x[0])


@program
def with_in(x: Any) -> Any:
    return x[0] if 4.0 in pos(x) else x[1]


@program
def two_next(x: Any) -> Any:
    g = pos(x)
    a = next(g, x[0])
    s = 0.0
    for v in g:
        s += v
    return a * 2 + s


@program
def with_sorted(x: Any) -> Any:
    return sum((k * v for k, v in enumerate(sorted(pos(x)))))


@program
def with_array(x: Any) -> Any:
    return np.sum(np.array(list(pos(x))) ** 2)


@program
def with_max(x: Any) -> Any:
    return max(pos(x), default=x[0])


@program
def any_gen(x: Any) -> Any:
    return x[0] if any(v < 0.7 for v in logs(x)) else x[1]


@program
def with_traj(x: Any) -> Any:

    def traj(p: Any, v: Any, dt: Any) -> Any:
        while p > 0:
            yield (p, v)
            p, v = (p + dt * v, v - dt * 9.81)

    h = 0.0
    for p, v in traj(1.0 + x[0] ** 2, x[1], 0.05):
        h = max(h, p)
        if v < -3:
            break
    return h + v


@program
def batches(x: Any) -> Any:

    def batches(n: Any) -> Any:
        for i in range(0, len(x), n):
            yield x[i : i + n]

    s = 0.0
    for b in batches(2):
        if b[0] > 1:
            break
        s += np.sum(b**2)
    return s


@program
def layers(x: Any) -> Any:

    def layers() -> Any:
        for w in [np.ones(5), np.arange(5.0)]:
            yield (w, 2.0)

    h = x
    for w, b in layers():
        h = np.tanh(h * w + b)
        if h[0] > 0.99:
            break
    return np.sum(h)


@program
def nested_break(x: Any) -> Any:

    def g() -> Any:
        for v in x:
            for k in range(3):
                if v > k:
                    yield (v * k)

    s = 0.0
    for v in g():
        if v > 1.5:
            break
        s += v
    return s


@program
def yield_from_break(x: Any) -> Any:

    def inner(k: Any) -> Any:
        for v in x[k:]:
            if v > 0:
                yield (math.sqrt(v) * k)

    def g() -> Any:
        yield x[0]
        for k in range(2):
            yield from inner(k)

    s = 0.0
    for v in g():
        s += v
        if v > 1:
            break
    return s


@program
def with_else(x: Any) -> Any:
    s = 0.0
    for v in pos(x):
        if v > 3:
            break
        s += v
    else:
        s += 10 * x[0]
    return s


@program
def any_of_items_that_may_fail(x: Any) -> Any:
    return x[0] if any(math.log(v) < 0.7 for v in x) else x[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("run", program, ids=lambda run: run.__name__)
def test_programs(run: Callable[[Any], Any], backend: str) -> None:
    points = [x for x in POINTS if not _fails(run, x)]
    assert points
    check_agreement(run, backend, *points)


def _fails(run: Callable[[Any], Any], x: Any) -> bool:
    try:
        run(x.copy())
    except (ValueError, StopIteration):
        return True
    return False


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fault_that_is_reached_is_raised(backend: str) -> None:
    with pytest.raises(ValueError, match="domain"):
        tg.grad(log_return, backend=backend)(np.array([1.9, -1.0, 1.0]))


def test_next_of_nothing_ends() -> None:
    with pytest.raises(StopIteration):
        tg.grad(lambda x: next(pos(x)))(POINTS[1])


def names_of_a_lambda(x: Any) -> Any:
    first = lambda t: (any((y := v) > t for v in x), y)[1]
    return first(0.4)


def all_names_of_a_lambda(x: Any) -> Any:
    first = lambda t: (all((y := v) > t for v in x), y)[1]
    return first(0.4)


@pytest.mark.parametrize("run", [names_of_a_lambda, all_names_of_a_lambda], ids=lambda run: run.__name__)
def test_names_that_a_lambda_binds_in_items_are_refused(run: Callable[[Any], Any]) -> None:
    with pytest.raises(CaptureError, match=r"how many names `:=` binds in a lambda or comprehension \[TG101\]"):
        tg.grad(run)(POINTS[0])


class Steps:
    """An endless iterator that is no generator."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        return self.x


def test_an_endless_iterator_of_a_class_is_refused() -> None:
    def ended(x: Any) -> Any:
        for v in Steps(x[0]):
            if v > 100:
                break
        return v

    with pytest.raises(CaptureError, match=r"over an endless or long iterator ends under a traced condition \[TG120\]"):
        tg.grad(ended)(POINTS[0])


def handled(x: Any) -> Any:
    def given() -> Iterator[Any]:
        for v in x:
            try:
                yield v
            except ValueError:
                yield -v

    s = 0.0
    for v in given():
        if v > 0:
            s += math.log(v)
        if s > 1:
            break
    return s


def test_a_loop_in_the_try_of_a_generator_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"a fault that comes at run time cannot be caught \[TG137\]"):
        tg.grad(handled)(POINTS[0])


def halves(x: Any, factor: float) -> Iterator[Any]:
    v = abs(x[0]) + 0.1
    while True:
        v = v * factor
        yield v


def beside_a_tuple(x: Any) -> Any:
    total = 0.0
    for v, w in zip(halves(x, 0.5), (0.5, 1.0, 2.0), strict=False):
        total += v * w
    return total * next(v for v in halves(x, 1.5) if v > 20.0)


def beside_a_list(x: Any) -> Any:
    total = sum(v * w for v, w in zip(halves(x, 0.5), [0.5, 1.0, 2.0], strict=False))
    return total * next(v for v in halves(x, 1.5) if v > 20.0)


def two_at_once(x: Any) -> Any:
    for v, w in zip(halves(x, 1.5), halves(x, 1.7), strict=False):
        if v + w > 20.0:
            break
    return v * w


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_endless_generator_beside_a_tuple(backend: str) -> None:
    check_agreement(beside_a_tuple, backend, *POINTS)


@pytest.mark.parametrize("run", [beside_a_list, two_at_once], ids=lambda run: run.__name__)
def test_all_items_of_an_endless_generator_are_refused(run: Callable[[Any], Any]) -> None:
    with pytest.raises(CaptureError, match=r"all items of an endless generator are taken at once \[TG120\]"):
        tg.grad(run)(POINTS[0])
