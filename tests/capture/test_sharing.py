"""Arrays with two names, lists in branches and loops, and values that differ between branches: as Python has them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

X = np.array([1.0, 2.0, 3.0, 4.5])


def weigh(items):
    return sum(v * (i + 1) ** 2 for i, v in enumerate(items))


def write_into_either_of_two(x):
    a, b = x.copy(), x * 2
    w = a if x[1] > 1.5 else b
    w += x[0]
    return np.sum(a**2) + np.sum(b)


def write_after_a_branch_that_binds_anew(x):
    a = x * 1.0
    kept = a
    if x[0] > 5:
        a = a * 2
    a[1] = 7 * x[0]
    kept[2] = x[3] ** 2
    return np.sum(a * kept)


def append_then_write(x):
    out = []
    for i in range(4):
        r = np.zeros(2)
        out.append(r)
        r[0] = x[i]
    return np.sum(np.array(out) ** 2)


def append_what_is_written_again(x):
    th, hist = x[:2].copy(), []
    for _ in range(3):
        hist.append(th)
        th -= 0.1 * th**2
    return weigh([np.sum(h) for h in hist])


def write_then_append(x):
    s = np.array([x[0], x[1]])
    trace = [s]
    for _ in range(3):
        s += 0.1 * np.array([s[1], -s[0] * x[2]])
        trace.append(s)
    return weigh([np.sum(t) for t in trace])


def write_through_an_alias_of_a_rebound_name(x):
    a = x.copy()
    b = a
    for i in range(2):
        b[i] = 5.0 * x[i]
        a = a * 1.0
    return np.sum(a) + np.sum(b**2)


def alias_in_the_first_iteration(x):
    a = x.copy()
    for i in range(2):
        b = a if i == 0 else a.copy()
        b *= 2
    return np.sum(a * b)


def alias_kept_in_a_dict(x):
    b, d = x * 1.0, {}
    for i in range(3):
        b[i % 2] += x[i]
        d["last"] = b
    b[0] = 7 * x[0]
    return np.sum(d["last"] ** 2)


def swapped_buffers(x):
    a, b = x.copy(), np.zeros(4)
    for _ in range(5):
        b[1:-1] = 0.5 * (a[2:] + a[:-2])
        a, b = b, a
    return np.sum(a**2) + np.sum(b)


def one_append_in_each_branch(x):
    out = []
    for v in x:
        if v > 2.2:
            out.append(v**2)
        else:
            out.append(3 * v)
    return weigh(out)


def append_then_continue(x):
    out = []
    for i in range(4):
        if x[i] > 2.2:
            out.append(x[i])
            continue
        out.append(-x[i])
    return weigh(out) + len(out) * x[0]


def zero_for_an_array(x):
    left = 0.0 if x[0] > 5 else x[1:] * x[0]
    right = x[1:] ** 2 if x[0] < 5 else 0.0
    return np.sum(left + right)


def changes_of_a_list(x):
    p, s = [x[0], x[1], x[2]], 0.0
    for i in range(3):
        p.reverse()
        p[0] = p[0] * x[i]
        p.insert(1, x[i])
        s = s + weigh(p)
        del p[-1]
    return s + len(p)


def labels_by_the_index(x):
    s = 0.0
    for i in range(4):
        label = "even" if i % 2 == 0 else "odd"
        s += x[i] if label == "even" else 10 * x[i]
    return s


def cleared_in_each_iteration(x):
    p, s = [], 0.0
    for i in range(4):
        p.clear()
        p.append(x[i])
        p.append(s)
        s = s + weigh(p)
    return s


def mode_by_text(x):
    mode = "up" if x[0] > 2 else "down"
    return x[1] * (5.0 if mode == "down" else 7.0)


def state_machine(x):
    state, s = "a", 0.0
    for v in x:
        if v > 2.5:
            state = "b"
        if state == "a":
            s += v
        elif state == "b":
            s += 10 * v
    return s


def object_by_identity(x):
    first, second = object(), object()
    chosen = first if x[0] > 2 else second
    return x[1] * (2.0 if chosen is first else 3.0)


def function_by_condition(x):
    f = np.sin if x[0] > 2 else np.cos
    return f(x[1])


PROGRAMS = [
    f
    for n, f in list(globals().items())
    if getattr(f, "__module__", "") == __name__ and n[0].islower() and n != "weigh"
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_gradient(program: Callable[..., Any], backend: str) -> None:
    value, ct = tg.value_and_grad(program, backend=backend)(X)
    assert float(value) == pytest.approx(float(program(X)), rel=1e-12)
    for k in range(len(X)):
        step = np.zeros_like(X)
        step[k] = 1e-6
        slope = (program(X + step) - program(X - step)) / 2e-6
        assert float(ct[k]) == pytest.approx(float(slope), rel=1e-6, abs=1e-6)


def test_an_argument_that_only_the_first_iteration_writes() -> None:
    def f(x):
        for _ in range(3):
            x[0] = 2.0
            x = x * 1.5
        return np.sum(x**2)

    with pytest.raises(NotImplementedError, match="TG136"):
        tg.grad(f)(X.copy())


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda v: np.array([1, 0, 0, 2]), lambda x, v: operator.iadd(x, v)),
        (lambda v: np.arange(4)[1:], lambda x, v: operator.iadd(x, v[1:])),
        (lambda v: np.arange(4), lambda x, v: operator.itruediv(x, 2)),
        (lambda v: v > 1.5, lambda x, v: operator.ior(x, 1)),
        (lambda v: np.zeros(4, np.uint8), lambda x, v: operator.iadd(x, np.arange(4))),
        (lambda v: v, lambda x, v: operator.iadd(x, np.ones((1, 4)))),
    ],
)
def test_an_array_refuses_in_place_what_numpy_refuses(make: Callable[..., Any], change: Callable[..., Any]) -> None:
    def f(v):
        x = make(v)
        x = change(x, v)
        return np.sum(x * v)

    with pytest.raises((TypeError, ValueError)) as raised:
        f(X.copy())
    kind = TypeError if isinstance(raised.value, TypeError) else ValueError
    with pytest.raises(kind, match=r"TG13[12]"):
        tg.function(f)(X.copy())


def test_what_an_array_takes_in_place() -> None:
    def f(v):
        x, y = np.arange(4), v.astype(np.float32)
        x //= 2
        x **= 2
        x -= np.int32(2)
        x[0] += v[0] * 3
        y += v
        return np.sum(x * v) + np.sum(y)

    assert tg.function(f)(X) == pytest.approx(f(X), rel=1e-12)


def bound_in_one_branch_and_read_in_the_other(x):
    t = 2.0
    if x[0] > 0:
        t = 1.0
        y = t * x[1]
    else:
        y = t * x[1]
    return y


def continue_under_two_conditions(x):
    b = x * 1.0
    for k in range(3):
        if x[2] > 3.5 + k:
            continue
        if x[0] > x[1]:
            b = b * 0.9
        elif x[2] > 2.5 + k:
            continue
        b = b - 0.1 * b[1]
    return np.sum(b**2)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", [bound_in_one_branch_and_read_in_the_other, continue_under_two_conditions])
def test_branches_start_from_what_was_before(program: Callable[..., Any], backend: str) -> None:
    for x in (X, -X, X[::-1].copy(), np.array([2.0, 1.0, 3.0, 0.5])):
        assert float(tg.function(program, backend=backend)(x)) == pytest.approx(float(program(x)), rel=1e-12)


def slot_bound_and_written_in_a_branch(x):
    b, c, d = x * 0.5, np.zeros(4), {"q": x * 1.0}
    if x[0] > 2:
        b = b * 2
    else:
        d["q"] = c
        d["q"][0] += 0.2 * x[1]
    return weigh([np.sum(b), np.sum(c), np.sum(d["q"])])


def slot_of_an_array_that_the_other_branch_writes(x):
    b = x * 0.5
    d = {"q": b[1:]}
    if x[0] > 2:
        d["q"] = x[1:] * 2
    else:
        b[1] = x[2] ** 2
    return weigh([np.sum(b), np.sum(d["q"])])


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", [slot_bound_and_written_in_a_branch, slot_of_an_array_that_the_other_branch_writes])
def test_slots_have_what_a_branch_leaves_in_them(program: Callable[..., Any], backend: str) -> None:
    for x in (X, X[::-1].copy()):
        assert float(tg.function(program, backend=backend)(x)) == pytest.approx(float(program(x)), rel=1e-12)


def test_an_array_that_a_loop_writes_before_two_names_are_bound_anew() -> None:
    def f(x):
        a, b, c = x * 1.0, x * 0.5, x * 2.0
        kept = b
        for _ in range(3):
            a, b = b, a
            b = c.copy()
            a[1:] = c[:-1]
            a = b
        return kept[1] + np.sum(a)

    with pytest.raises(NotImplementedError, match="TG136"):
        tg.function(f)(X)


def bound_anew_in_nested_branches(s, v):
    v = v * 1.0
    if s > 0.2:
        if s > 0.3:
            v = np.tanh(v + v)
    v[0] = np.tanh(s)
    return s + np.sum(v**2)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("s", [0.1, 0.25, 0.5])
def test_array_that_nested_branches_bind_anew_is_written(s, backend):
    v = np.array([0.3, -0.2, 0.5])
    value = tg.function(bound_anew_in_nested_branches, backend=backend)(s, v)
    np.testing.assert_allclose(value, bound_anew_in_nested_branches(s, v))
