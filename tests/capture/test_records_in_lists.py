"""Lists of tuples, dicts and objects that staged loops and branches fill: each leaf of the items is a column."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINT = np.array([0.7, -0.4, 1.3, 0.25, -0.9, 0.55])
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Body:
    position: Any
    speed: Any


@dataclasses.dataclass(frozen=True)
class State:
    x: Any
    t: Any = 0.0


class Sample:
    def __init__(self, weight: Any, value: Any) -> None:
        self.weight, self.value = weight, value

    def product(self) -> Any:
        return self.weight * self.value

    def double(self) -> None:
        self.value = self.value * 2.0


# ---- tuples under conditions


def positive(x: Any) -> Any:
    pairs = []
    for i, v in enumerate(x):
        if v > 0:
            pairs.append((i, v))
    s = 0.0
    for i, v in pairs:
        s += i * v * v
    return s + len(pairs) * pairs[-1][1] + pairs[1][0] * pairs[0][1]


def array_of_pairs(x: Any) -> Any:
    pairs = []
    for i, v in enumerate(x):
        if v > 0:
            pairs.append((i, v * v))
    table = np.array(pairs)
    return (table[:, 0] * table[:, 1]).sum() + len(pairs)


def edges(x: Any) -> Any:
    found = []
    for i in range(6):
        for j in range(i):
            distance = abs(x[i] - x[j])
            if distance < 1.0:
                found.append((i, j, distance))
    s = 0.0
    for k in range(len(found) - 1):
        i, j, d = found[k]
        s += x[i] * x[j] * d * found[k + 1][2]
    return s / len(found)


def merged_intervals(x: Any) -> Any:
    merged = [(0.0, x[0])]
    for k in range(1, 20):
        low = k * 0.2
        high = low + abs(x[k % 6]) * 0.3
        if low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    s = 0.0
    for low, high in merged:
        s += (high - low) * (1.0 + low)
    return s * len(merged)


def appended_once_or_twice(x: Any) -> Any:
    out = []
    for k in range(30):
        out.append((k, x[k % 6]))
        if x[k % 6] > 0.4:
            out.append((k, x[k % 6] ** 2))
    s = 0.0
    for k, v in out:
        s = s * 0.9 + k * v
    return s


def straight_line(x: Any) -> Any:
    pairs = []
    if x[0] > 0.5:
        pairs.append((x[1], x[2]))
    if x[1] > 0.5:
        pairs.append((x[2], x[3]))
    s = 0.0
    for a, b in pairs:
        s += a * b
    return s + len(pairs)


def with_texts(x: Any) -> Any:
    log = []
    for k in range(20):
        if x[k % 6] > 0:
            log.append(("up", x[k % 6] * k, None))
    s = 0.0
    for name, v, nothing in log:
        if name == "up" and nothing is None:
            s += v
    return s


def named(x: Any) -> Any:
    pairs = []
    for v in x:
        if v > 0.3:
            pairs.append(Pair(v, 2.0))
    s = 0.0
    for p in pairs:
        s += p.a**2 * p.b
    return s


def ended_by_a_break(x: Any) -> Any:
    path = []
    state = (0.0, x[0])
    for _ in range(50):
        if state[0] > 1.0:
            break
        path.append(state)
        state = (state[0] + 0.05 * x[0], state[1] * 0.9)
    s = 0.0
    for k in range(1, len(path)):
        (t0, y0), (t1, y1) = path[k - 1], path[k]
        s += (t1 - t0) * (y0 + y1)
    return s


def arrays_and_numbers(x: Any) -> Any:
    out = []
    for k in range(30):
        if x[k % 6] > 0.4:
            out.append((k, x * k))
        elif x[k % 6] < 0:
            out.append((-k, x * 2.0))
    s = 0.0
    for k, v in out:
        s += k * v[0] * v[1]
    return s + out[-1][1].sum()


# ---- of known length


def path_of_a_thousand_steps(x: Any) -> Any:
    path = []
    t, y = 0.0, x * 1.0
    for _ in range(1000):
        path.append((t, y))
        y = y + 0.001 * np.sin(y)
        t += 0.001
    return path[-1][1].sum() * path[500][0]


def last_pair_goes_on(x: Any) -> Any:
    def integrate(y: Any, n: int) -> Any:
        path = [(0.0, y)]
        for _ in range(n):
            t, y = path[-1]
            path.append((t + 0.01, y + 0.01 * np.sin(y)))
        return path

    one, other = integrate(x[:3], 200), integrate(x[3:], 100)
    return one[-1][1].sum() * other[-1][0] + other[77][1][2]


def replaced(x: Any) -> Any:
    pairs = []
    for k in range(20):
        pairs.append((k, x[:3] * k))
    old = pairs[4]
    for k in range(1, 20):
        pairs[k] = (pairs[k - 1][0] + 1, pairs[k][1] * 0.5 + pairs[k - 1][1])
    pairs[3] = (7, x[:3])
    return pairs[-1][1].sum() * pairs[5][0] + old[1][1] + pairs[3][0]


def taken_from_the_end(x: Any) -> Any:
    stack = [(0.0, 1.0)]
    for k in range(20):
        stack.append((x[k % 6], x[(k + 1) % 6]))
    s = 0.0
    while len(stack) > 5:
        a, b = stack.pop()
        s += a * b
    return s + len(stack) + stack[-1][0]


def as_other_lists_have_it(x: Any) -> Any:
    pairs = []
    for k in range(20):
        pairs.append((k, x[k % 6]))
    s = 0.0
    for a, b in pairs[2:15:2]:
        s += a * b
    for a, b in reversed(pairs):
        s = s * 0.9 + a * b
    for (a, b), (c, d) in itertools.pairwise(pairs):
        s += (c - a) * b * d
    ts, xs = zip(*pairs, strict=True)
    more = pairs + [(1, x[0])]
    more += [(2, x[1])]
    pairs.extend([(3, x[2])])
    pairs.insert(0, (5, x[3]))
    return s + np.array(xs) @ np.array(ts) + sum(a * b for a, b in more) + len(more) + pairs[-1][1] + pairs[0][1]


def sorted_by_a_key(x: Any) -> Any:
    pairs = []
    for k in range(12):
        pairs.append((k, x[k % 6] * (k + 1)))
    ordered = sorted(pairs, key=lambda p: p[1])
    return ordered[0][1] * 2 + ordered[3][1] * ordered[2][0] + max(pairs)[1] + pairs[0][1]


def looked_up(x: Any) -> Any:
    table = [(k * 0.1, x[k % 6]) for k in range(100)]
    s = 0.0
    for i in range(200):
        a, b = table[(i * 7) % 100]
        s += a * b
    return s


def searched(x: Any) -> Any:
    pairs = []
    for k in range(20):
        pairs.append((k, x[k % 6]))
    return x[0] * 2.0 if (3, 0.25) in pairs and (3, 0.7) not in pairs else x[1]


def integers_become_floats(x: Any) -> Any:
    pairs = [(0, 1)]
    for k in range(20):
        pairs.append((k, x[0] * k))
    return pairs[0][1] + pairs[-1][1]


def tuples_in_tuples(x: Any) -> Any:
    found = []
    for k in range(30):
        found.append(((k, x[0] * k), (x[1] * k, [x[2], k])))
    s = 0.0
    for (k, a), (b, (c, d)) in found:
        s += k * a + b * c * d
    found[3][1][1][0] = 5.0
    return s + found[3][1][1][0] * found[2][0][1]


def best_of_each(x: Any) -> Any:
    chosen = []
    for i in range(10):
        best = (0, 0.0)
        for j in range(6):
            w = x[j] * i
            if w > best[1]:
                best = (j, w)
        chosen.append(best)
    s = 0.0
    for j, w in chosen:
        s += j * w
    return s


def bound_anew(x: Any) -> Any:
    pairs = []
    for i in range(20):
        if i % 3 == 0:
            pairs = []
        pairs.append((i, x[i % 6]))
    return sum(v for _, v in pairs)


def short_loop(x: Any) -> Any:
    names = {0: "a", 1: "b", 2: "c"}
    pairs = []
    for i in range(3):
        pairs.append((i, x[i]))
    return sum(v * ord(names[i]) for i, v in pairs)


# ---- dicts and objects


def history_of_dicts(x: Any) -> Any:
    history = []
    y = x.copy()
    for t in range(200):
        y = y * 0.99 + 0.01 * x * x
        history.append({"t": t, "x": y.copy()})
    s = 0.0
    for h in history:
        s += h["t"] * h["x"].sum() * 0.01
    return s + history[-1]["x"][0] + len(history)


def states_bound_anew(x: Any) -> Any:
    state = {"x": x[0], "v": x[1]}
    history = []
    for _ in range(200):
        history.append(state)
        state = {"x": state["x"] + 0.01 * state["v"], "v": state["v"] - 0.01 * state["x"]}
    return history[-1]["x"] + history[100]["v"] + state["x"] + history[0]["v"]


def frozen_states(x: Any) -> Any:
    states = [State(x)]
    for _ in range(150):
        last = states[-1]
        states.append(dataclasses.replace(last, x=last.x + 0.01 * np.sin(last.x), t=last.t + 0.01))
    return states[-1].x.sum() + states[100].x[0] * states[100].t


def bodies_under_a_condition(x: Any) -> Any:
    bodies = [Body(x[:2], 1.0)]
    for v in x:
        if v > 0.3:
            bodies.append(Body(v * x[1:3], v))
    s = 0.0
    for body in bodies:
        s += body.speed * body.position.sum()
    return s + bodies[-1].position[0]


def objects_with_methods(x: Any) -> Any:
    samples = []
    for k in range(150):
        samples.append(Sample(k, x[k % 6]))
    s = 0.0
    for sample in samples:
        s += sample.product()
    return s + samples[-1].value


def log_until_it_converges(x: Any) -> Any:
    root, log = x[0], []
    for k in range(100):
        error = root * root - 2.0 * x[2]
        log.append({"k": k, "root": root, "error": error})
        if abs(error) < 1e-9:
            break
        root = root - error / (2.0 * root)
    return log[-1]["root"] * len(log) + log[1]["error"]


def changed_in_a_short_loop(x: Any) -> Any:
    samples = []
    for k in range(12):
        samples.append(Sample(k, x[k % 6]))
    for sample in samples:
        sample.double()
    return sum(sample.product() for sample in samples)


PROGRAMS: list[Callable[[Any], Any]] = [
    positive,
    array_of_pairs,
    edges,
    merged_intervals,
    appended_once_or_twice,
    straight_line,
    with_texts,
    named,
    ended_by_a_break,
    arrays_and_numbers,
    path_of_a_thousand_steps,
    last_pair_goes_on,
    replaced,
    taken_from_the_end,
    as_other_lists_have_it,
    sorted_by_a_key,
    looked_up,
    searched,
    integers_become_floats,
    tuples_in_tuples,
    best_of_each,
    bound_anew,
    short_loop,
    history_of_dicts,
    states_bound_anew,
    frozen_states,
    bodies_under_a_condition,
    objects_with_methods,
    log_until_it_converges,
    changed_in_a_short_loop,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_python_has_it(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.value_and_grad(f, backend=backend)(POINT.copy())
    np.testing.assert_allclose(value, f(POINT.copy()))
    np.testing.assert_allclose(gradient, central_differences(f, POINT), rtol=1e-6, atol=1e-6)


# ---- what is refused


def dict_changed_in_each_iteration(x: Any) -> Any:
    state = {"x": x[0]}
    history = []
    for _ in range(200):
        state["x"] = state["x"] * 0.9
        history.append(state)
    return history[0]["x"]


def dict_written_after_the_append(x: Any) -> Any:
    history = []
    for k in range(200):
        entry = {"x": x[k % 6]}
        history.append(entry)
        entry["x"] = 5.0 * x[0]
    return history[0]["x"]


def dict_written_after_the_loop(x: Any) -> Any:
    history = []
    for k in range(200):
        entry = {"x": x[k % 6]}
        history.append(entry)
    entry["x"] = 5.0 * x[0]
    return history[-1]["x"]


def item_written(x: Any) -> Any:
    history = []
    for k in range(200):
        history.append({"x": x[k % 6]})
    history[3]["x"] = 5.0 * x[0]
    return history[3]["x"]


def first_object_written_by_another_name(x: Any) -> Any:
    history = []
    start = state = {"x": x[0]}
    for _ in range(200):
        history.append(state)
        state = {"x": state["x"] * 0.9}
    start["x"] = 9.0 * x[1]
    return history[0]["x"]


def written_in_the_loop_by_another_name(x: Any) -> Any:
    history = []
    start = state = {"x": x[0]}
    for k in range(200):
        start["x"] = x[1] * k
        history.append(state)
        state = {"x": state["x"] * 0.9}
    return history[0]["x"]


def object_written_after_a_condition(x: Any) -> Any:
    found = []
    one = Sample(1.0, x[0])
    if x[0] > 0:
        found.append(one)
    one.double()
    return found[0].value


def object_compared_with_an_item(x: Any) -> Any:
    found = []
    one = Sample(1.0, x[0])
    if x[0] > 0:
        found.append(one)
    return x[0] if found[0] is one else x[1]


def object_in_two_lists(x: Any) -> Any:
    one, other = [], []
    for k in range(200):
        sample = Sample(k, x[k % 6])
        one.append(sample)
        other.append(sample)
    other[0].double()
    return one[0].value


def array_written_in_place_after_the_append(x: Any) -> Any:
    path = []
    y = x.copy()
    for k in range(200):
        y += 0.1
        path.append((k, y))
    return path[0][1].sum()


def array_written_through_the_list(x: Any) -> Any:
    path = []
    for k in range(200):
        y = x * k
        path.append((y, k))
    path[-1][0][0] = 3.0
    return y.sum()


def tuples_of_two_lengths(x: Any) -> Any:
    found: list[Any] = [(1, x[0])]
    for k in range(20):
        if x[k % 6] > 0:
            found.append((x[k % 6],))
    return found[-1][0]


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (dict_changed_in_each_iteration, "TG120"),
    (dict_written_after_the_append, "TG120"),
    (dict_written_after_the_loop, "TG136"),
    (item_written, "TG136"),
    (first_object_written_by_another_name, "TG136"),
    (written_in_the_loop_by_another_name, "TG136"),
    (object_written_after_a_condition, "TG136"),
    (object_compared_with_an_item, "TG136"),
    (object_in_two_lists, "TG136"),
    (array_written_in_place_after_the_append, "TG120"),
    (array_written_through_the_list, "TG136"),
    (tuples_of_two_lengths, "TG113"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("f", "code"), REFUSED)
def test_refused(f: Callable[[Any], Any], code: str, backend: str) -> None:
    with pytest.raises(TracegradError) as caught:
        tg.grad(f, backend=backend)(POINT.copy())
    assert caught.value.code == code


# ---- results


def path_as_result(x: Any) -> Any:
    path, y = [], x[0]
    for k in range(20):
        path.append((k, y))
        y = y * 0.9 + x[1]
    return path


def history_as_result(x: Any) -> Any:
    history, y = [], x[:2]
    for k in range(200):
        history.append({"k": k, "y": y, "name": "{a}", "z": Pair(y[0], [y[1], 1.0])})
        y = y * 0.9 + x[1]
    return history


def states_as_result(x: Any) -> Any:
    states = [State(x)]
    for _ in range(20):
        states.append(State(states[-1].x * 0.9, states[-1].t + 1.0))
    return {"all": states}


def _leaves(value: Any) -> list[Any]:
    if dataclasses.is_dataclass(value):
        return [type(value), *_leaves(list(vars(value).values()))]
    if isinstance(value, dict):
        return [tuple(value), *_leaves(list(value.values()))]
    if isinstance(value, list | tuple):
        return [type(value), *(leaf for item in value for leaf in _leaves(item))]
    return [value]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [path_as_result, history_as_result, states_as_result])
def test_returned(f: Callable[[Any], Any], backend: str) -> None:
    found, expected = _leaves(tg.function(f, backend=backend)(POINT)), _leaves(f(POINT))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, int | float | np.generic | np.ndarray):
            np.testing.assert_allclose(one, other)
        else:
            assert one == other


@pytest.mark.parametrize("backend", BACKENDS)
def test_batched(backend: str) -> None:
    batch = np.stack([POINT, POINT * 2.0, POINT**2])
    found = tg.vmap(path_as_result, backend=backend)(batch)
    each = [path_as_result(x) for x in batch]
    assert len(found) == 20
    for k in range(20):
        np.testing.assert_allclose(found[k][1], [path[k][1] for path in each])


def test_generated_text_returns_the_records() -> None:
    source = tg.function(history_as_result).source(POINT)
    names: dict[str, Any] = {}
    exec(source, names)
    made = names["history_as_result"](POINT)
    expected = history_as_result(POINT)
    assert list(made[3]) == list(expected[3])
    assert made[3]["name"] == "{a}"
    np.testing.assert_allclose(made[3]["z"][1], expected[3]["z"][1])
