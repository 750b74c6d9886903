"""Items of dicts and attributes that a branch or a loop makes under a traced condition are there when it holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (np.array([1.3, -0.7, 0.9]), np.array([-0.4, 2.1, 0.3]), np.array([-0.2, -0.5, -1.1]))
PROGRAMS: list[Callable[[Any], Any]] = []


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(f)
    return f


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_python(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    for x in POINTS:
        try:
            expected = f(x)
        except (KeyError, AttributeError) as error:
            with pytest.raises(type(error)) as caught:
                value(x)
            assert str(error.args[0]) in str(caught.value)
            continue
        np.testing.assert_allclose(value(x), expected, rtol=1e-12)
        np.testing.assert_allclose(gradient(x), central_differences(f, x), atol=1e-5)


class Record:
    best: Any
    n: Any


class Slotted:
    __slots__ = ("n",)


# ---- taken out in a branch


@program
def deleted_in_a_branch(x: Any) -> Any:
    d = {"a": x[0], "b": x[1]}
    if x[0] > 0:
        del d["a"]
    return d.get("a", 3.0 * x[2]) + len(d)


@program
def popped_in_a_branch(x: Any) -> Any:
    d = {"a": x[0], "b": x[1]}
    total = 0.0
    if x[0] > 0:
        total += d.pop("a")
    if "a" in d:
        total += 5 * x[1]
    return total + sum(d.values())


@program
def changed_in_both_branches(x: Any) -> Any:
    d = {"a": x[0], "b": x[1]}
    if x[0] > 0:
        del d["a"]
    else:
        d["a"] = d.pop("b") * 2
    return d.get("a", 3.0 * x[2]) + d.get("b", x[2]) + len(d)


@program
def deleted_in_a_branch_in_a_branch(x: Any) -> Any:
    d = {"a": x[0], "b": x[1]}
    if x[2] > 0:
        if x[1] > 0:
            del d["a"]
        d["b"] *= 3
    return d["b"] + (4 * d["a"] if "a" in d else x[0])


@program
def read_after_a_deletion(x: Any) -> Any:
    d = {"a": x[0]}
    if x[0] > 0:
        del d["a"]
    return d["a"]


# ---- a dict comprehension with a traced test


@program
def numbers_that_pass(x: Any) -> Any:
    d = {i: v for i, v in enumerate(x) if v > 0}
    return sum(d.values()) + len(d)


@program
def texts_that_pass(x: Any) -> Any:
    d = {k: v * 2 for k, v in {"a": x[0], "b": x[1]}.items() if v > 0 if x[2] > -1}
    return d.get("a", 0.5) * 2 + d.get("b", x[2])


@program
def pairs_that_pass(x: Any) -> Any:
    d = {(i, j): a * b for i, a in enumerate(x) for j, b in enumerate(x) if a > b}
    return d.get((0, 1), x[2]) + len(d)


# ---- after a branch


@program
def key_in_dict(x: Any) -> Any:
    d: dict[str, Any] = {}
    if x[1] > 0:
        d["p"] = x[1]
    y = x[2] if "p" in d else x[0]
    return y if "p" not in d.keys() else y * d["p"]


@program
def truth_and_length(x: Any) -> Any:
    d: dict[str, Any] = {}
    if x[1] > 0:
        d["p"] = x[1]
    y = x[2] * 2 if d else x[0] * 3
    e = {"a": 1.0, **dict(a=2.0)}
    if x[0] > 0:
        e["b"] = x[0]
    return y * len(e) * (1 + len(d.values()))


@program
def get_with_a_default(x: Any) -> Any:
    d: dict[str, Any] = {}
    if x[1] > 0:
        d["p"] = x[1] * 2
    return d.get("p", x[0]) * d.copy().get("p", 3.0) * dict(d).get("q", 2.0)


@program
def setdefault_and_pop(x: Any) -> Any:
    d: dict[str, Any] = {}
    if x[0] > 0:
        d.setdefault("p", x[0] * 2)
    y = d.setdefault("p", x[1]) * d["p"]
    if x[1] > 0:
        d["q"] = x[1]
    return y * d.pop("q", x[2]) + len(d)


@program
def sum_of_values(x: Any) -> Any:
    d: dict[str, Any] = {}
    for k in range(3):
        if x[k] > 0:
            d[f"k{k}"] = x[k] * x[0]
    return sum(d.values()) + x[2]


@program
def missing_key(x: Any) -> Any:
    d: dict[str, Any] = {}
    if x[1] > 0:
        d["p"] = x[1]
    return d["p"] * x[0]


@program
def missing_attribute(x: Any) -> Any:
    r = Record()
    if x[1] > 0:
        r.n = x[1]
    return r.n * x[0]


@program
def attribute_with_hasattr_and_getattr(x: Any) -> Any:
    r = Record()
    if x[0] > 0:
        r.n = x[0]
    y = r.n * 2 if hasattr(r, "n") else x[1]
    return y * getattr(r, "n", x[1]) * (x[2] if "n" in vars(r) else 1.0)


# ---- in loops


@program
def minimum_so_far(x: Any) -> Any:
    r = Record()
    for v in x:
        if not hasattr(r, "best") or v < r.best:
            r.best = v
    return r.best


@program
def minimum_so_far_of_many(x: Any) -> Any:
    r = Record()
    for i in range(300):
        v = x[i % 3] * np.sin(1.0 * i)
        if not hasattr(r, "best") or v < r.best:
            r.best = v
    return r.best


@program
def attribute_made_in_the_first_iteration(x: Any) -> Any:
    r = Record()
    for v in x:
        if not hasattr(r, "n"):
            r.n = 0.0
        r.n += v * v
    return r.n


class Smoothed:
    def update(self, v: Any) -> Any:
        self.v = v if not hasattr(self, "v") else 0.9 * self.v + 0.1 * v
        return self.v


@program
def method_with_state(x: Any) -> Any:
    smoothed, total = Smoothed(), 0.0
    for i in range(200):
        total = total + smoothed.update(x[i % 3] * i)
    return total


@program
def slots(x: Any) -> Any:
    s = Slotted()
    for v in x:
        if v > 0:
            if hasattr(s, "n"):
                s.n = s.n + v
            else:
                s.n = v * 10
    return s.n if hasattr(s, "n") else x[0]


@program
def attribute_of_a_function(x: Any) -> Any:
    def f(v: Any) -> Any:
        if not hasattr(f, "m") or v > f.m:
            f.m = v  # type: ignore[attr-defined]
        return f.m  # type: ignore[attr-defined]

    for v in x:
        f(v)
    return f.m  # type: ignore[attr-defined]


@program
def remembered_in_a_dict(x: Any) -> Any:
    known: dict[str, Any] = {}

    def square(v: Any) -> Any:
        if "k" not in known:
            known["k"] = v * v
        return known["k"]

    total = 0.0
    for v in x:
        if v > 0:
            total = total + square(v)
    return total


@program
def sums_by_key(x: Any) -> Any:
    d: dict[str, Any] = {}
    e: Any = defaultdict(float)
    c: Any = Counter()
    for v in x:
        e["all"] += v * v
        if v > 0:
            d["p"] = d.get("p", 0.0) + v * v
            e["p"] += v
            c["p"] += 1
        else:
            e["n"] += v * 2
    return d.get("p", 0.0) * e["all"] + e["p"] * 3 - e["n"] + c["p"] * x[0]


@program
def arrays_by_key(x: Any) -> Any:
    d: dict[str, Any] = {}
    for v in x:
        if v > 0:
            d["p"] = d.get("p", np.zeros(3)) + v * x
    return np.sum(d["p"]) if "p" in d else x[0]


@program
def made_in_a_while_loop(x: Any) -> Any:
    d: dict[str, Any] = {}
    e: Any = defaultdict(float)
    r = Record()
    t = 0.1
    while t < abs(x[0]) + 1:
        d["last"] = t * x[1]
        e["s"] += t * x[1]
        r.n = r.n + t * x[1] if hasattr(r, "n") else x[2]
        t = t + 0.3
    return d["last"] * e["s"] * r.n


@program
def made_in_a_loop_in_a_loop(x: Any) -> Any:
    d: dict[str, Any] = {}
    for i in range(2):
        for v in x:
            if v > i - 1:
                d["p"] = v if "p" not in d else d["p"] * 0.5 + v
        d["q"] = d.get("q", 0.0) + d.get("p", 1.0)
    return d["q"] * d.get("p", x[1])


# ---- what is refused


def _make(x: Any) -> Any:
    d: dict[str, Any] = {"q": x[0]}
    if x[0] > 0:
        d["p"] = x[0]
    return d


KEPT = Record()


def _store(x: Any) -> Any:
    if x[0] > 0:
        KEPT.n = x[0]
    return x[0]


REFUSED: list[Callable[[Any], Any]] = [
    lambda x: [v for v in _make(x).values()][0],  # noqa: C416, RUF015
    lambda x: max(_make(x).values()),
    lambda x: list(_make(x))[0] == "p",  # noqa: RUF015
    lambda x: _make(x) == {"q": x[0]},
    lambda x: {**_make(x), "r": 0.0}["q"],
    lambda x: (_make(x) | {"r": 0.0})["q"],
    lambda x: dict(r=1.0, **_make(x))["q"],
    _make,
    _store,
]


@pytest.mark.parametrize("f", REFUSED)
def test_use_as_a_whole_is_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(TracegradError, match="under a traced condition only"):
        tg.function(f)(POINTS[0])
    assert not hasattr(KEPT, "n")


def many_keys(x, n):
    means = {}
    while n > 0:
        for k in range(14):
            means[k] = 0.9 * means.get(k, 0.0) + x[k] ** 2
        n = n - 1
    return sum(means.get(k, 0.0) for k in range(14))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_loop_fills_any_number_of_keys(backend: str) -> None:
    x = np.linspace(0.1, 1.4, 14)
    for n in (0, 1, 3):
        value, gradient = tg.value_and_grad(many_keys, backend=backend)(x, np.array(n))
        np.testing.assert_allclose(value, many_keys(x, n), rtol=1e-14)
        np.testing.assert_allclose(gradient, 2 * x * sum(0.9**k for k in range(n)), rtol=1e-14)
