"""Deques with `maxlen` that change under a condition: as in Python, or refused."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_handlers import POINTS
from tests.capture.test_ragged import slopes
from tracegrad.errors import TracegradError


def under_a_condition(x):
    d = deque(maxlen=2)
    s = 0.0
    for v in x:
        if v > 1.0:
            d.append(v)
        s += sum(d) * v
    return s


def full_at_first(x):
    d = deque([0.0, 0.0, 3.0], maxlen=2)
    s = 0.0
    for v in x:
        if v > 1.0:
            d.append(v)
        s += d[-1] * v + d[0]
    return s


def loop_without_known_end(x):
    d = deque(maxlen=3)
    s, k, v = 0.0, 0, x[0]
    while v < 20:
        if v > 0.3 * k:
            d.append(v)
        k += 1
        v = v + 0.7 * k
        if len(d) == 3:
            s += d[0] * d[2]
    return s * x[1] + sum(d)


def items_taken_too(x):
    d = deque(maxlen=4)
    for i in range(150):
        v = np.sin(i * x[0])
        if v > 0:
            d.append(v * x[1])
        if v < -0.9 and len(d) > 0:
            d.popleft()
    return sum(d) + len(d) + (max(d) if len(d) else 0.0)


def both_ends(x):
    d = deque(maxlen=3)
    for i in range(40):
        if np.sin(i * x[0]) > 0:
            d.appendleft(x[1] * i)
        else:
            d.extend([x[2], x[0] * i])
    return d[0] + 2 * d[1] + 3 * d[2] + np.mean(d)


def one_of_two(x):
    d, e = deque(maxlen=2), deque(maxlen=2)
    for v in x:
        if v > 1.2:
            d.append(v)
        q = d if v > 2.1 else e
        q.append(v * 2)
    return sum(d) + 3 * sum(e)


def in_a_list(x):
    qs = [deque(maxlen=2) for _ in range(3)]
    for i in range(30):
        if np.sin(i * x[0]) > 0.1:
            qs[i % 3].append(x[1] * i)
    return sum(sum(q) for q in qs)


def in_a_dict(x):
    qs = {k: deque(maxlen=2) for k in "abc"}
    for i in range(5):
        for k in "abc":
            if np.sin(i * x[0]) > 0.1:
                qs[k].append(x[1] * i)
    return sum(sum(q) for q in qs.values())


def made_in_a_loop(x):
    s = 0.0
    for i in range(20):
        d = deque(maxlen=2)
        for v in x:
            if v > np.sin(i):
                d.append(v)
        s += sum(d) * i
    return s


def extended_at_both_ends(x):
    d = deque([1.0], maxlen=3)
    for i in range(10):
        if np.cos(i * x[0]) > 0:
            d.extend([x[1], x[2] * i])
        else:
            d.extendleft([x[0], x[0] * i])
    return sum(v * (k + 1) for k, v in enumerate(d))


def beside_a_list(x):
    d = deque(maxlen=2)
    out = []
    for v in x:
        if v > 1.2:
            d.append(v)
            out.append(sum(d))
    return sum(out) + len(out)


def as_an_array(x):
    d = deque(maxlen=2)
    s = 0.0
    for v in x:
        if v > 1.2:
            d.append(v)
        if len(d) == 2:
            s += np.mean(d) + np.array(d) @ np.array([1.0, 2.0]) + np.std(list(d))
    return s


def exchanged(x):
    d, e = deque(maxlen=2), deque(maxlen=2)
    for i in range(30):
        if np.sin(i * x[0]) > 0:
            d.append(x[1] * i)
        d, e = e, d
    return sum(d) + 3 * sum(e)


def joined(x):
    d = deque(maxlen=2)
    for v in x:
        if v > 1.2:
            d.append(v)
    e = d + d
    return sum(e)


def augmented(x):
    d = deque(maxlen=2)
    for v in x:
        if v > 1.2:
            d += [v, v * 2]
    return sum(d)


def copied_before(x):
    d = deque([x[0], x[1]], maxlen=2)
    e = d.copy()
    for v in x:
        if v > 1.2:
            d.append(v)
            e.append(v * 2)
    return sum(e) + sum(d) * 2


def copied_by_module(x):
    d = deque([x[0], x[1]], maxlen=2)
    e = copy.copy(d)
    f = copy.deepcopy(d)
    for v in x:
        if v > 1.2:
            d.append(v)
            e.append(v * 2)
            f.append(v * 3)
    return sum(e) + sum(d) * 2 + 5 * sum(f)


def copied_after(x):
    d = deque([x[0], x[1]], maxlen=2)
    for v in x:
        if v > 1.2:
            d.append(v)
    e = copy.copy(d)
    e.append(x[0])
    return sum(e) + sum(d) * 2


def of_two_bounds(x):
    d = deque(maxlen=2)
    if x[0] > 1.5:
        d = deque([x[1], x[2]], maxlen=3)
    for k in range(3):
        d.append(x[k])
    return sum(d)


class Smoothed:
    def __init__(self, n):
        self.last, self.total = deque(maxlen=n), 0.0

    def feed(self, v):
        if v > 0.2:
            self.last.append(v)
        if len(self.last) == self.last.maxlen:
            self.total += sum(self.last) / len(self.last)


def in_an_object(x):
    smoothed = Smoothed(3)
    for i in range(50):
        smoothed.feed(np.sin(i * 0.7) * x[1] + x[0] * 0.1)
    return smoothed.total


def by_its_class(x):
    values = []
    for v in x:
        if v > 1.2:
            list.append(values, v)
    return sum(values) * len(values)


PROGRAMS = [
    under_a_condition,
    full_at_first,
    loop_without_known_end,
    items_taken_too,
    both_ends,
    one_of_two,
    in_a_list,
    in_a_dict,
    made_in_a_loop,
    extended_at_both_ends,
    beside_a_list,
    as_an_array,
    in_an_object,
    by_its_class,
]
REFUSED = [exchanged, joined, augmented, copied_before, copied_by_module, copied_after, of_two_bounds]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python(f: Callable[[Any], Any], backend: Any) -> None:
    traced = tg.value_and_grad(f, backend=backend)
    for x in POINTS:
        value, gradient = traced(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes(f, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_what_cannot_be_followed(f: Callable[[Any], Any]) -> None:
    with pytest.raises(TracegradError, match="TG134"):
        tg.grad(f)(POINTS[0])
