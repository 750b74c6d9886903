"""While loops whose counter is an attribute, an item or the length of a list."""

from __future__ import annotations

import collections
import heapq
import itertools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.errors import CaptureError

X = np.array([0.6, 0.3, -0.2])


class Body:
    def __init__(self, x: Any) -> None:
        self.x, self.v, self.t, self.n, self.log = x, np.zeros_like(x), 0.0, 0, []

    def step(self, dt: float) -> None:
        self.v = self.v - dt * np.sin(self.x)
        self.x = self.x + dt * self.v
        self.t += dt
        self.n += 1


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def tick(self) -> bool:
        self.now += 1
        return self.now < 20


def attribute(x: Any, steps: int) -> Any:
    body = Body(x)
    while body.t < 0.01 * steps - 1e-9:
        body.step(0.01)
    return np.sum(body.x) * body.n


def item(x: Any, steps: int) -> Any:
    state = {"n": 0, "y": x[0]}
    while state["n"] < steps:
        state["y"] = state["y"] * x[1] + 0.1
        state["n"] += 1
    return state["y"]


def place(x: Any, steps: int) -> Any:
    count, y = [0], x[0]
    while count[0] < steps:
        y = y * x[1] + 0.1
        count[0] += 1
    return y


def length(x: Any, steps: int) -> Any:
    path = [x[0]]
    while len(path) < steps:
        path.append(np.sin(path[-1] * x[1]) + 0.1)
    return sum(path) + path[3] * path[-2]


def logged(x: Any, steps: int) -> Any:
    body = Body(x)
    while len(body.log) < steps:
        body.step(0.01)
        body.log.append(body.x[0] * body.t)
    return sum(body.log)


def asked_by_a_method(x: Any, steps: int) -> Any:
    clock, y = Clock(), x[0]
    while clock.tick() or clock.now < steps:
        y = y * x[1] + 0.1
    return y * clock.now


@pytest.mark.parametrize("program", [attribute, item, place, length, logged, asked_by_a_method])
def test_text_does_not_depend_on_the_number_of_iterations(program: Callable[..., Any]) -> None:
    lines = [len(tg.grad(program).source(X, steps).splitlines()) for steps in (30, 5000, 100_000)]
    assert max(lines) - min(lines) < 4  # what is known of a list to which the loop appends


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", [attribute, item, place, length, logged, asked_by_a_method])
def test_value_and_gradient_are_those_of_python(program: Callable[..., Any], backend: str) -> None:
    check_agreement(lambda x: program(x, 40), backend, X)


def ends_with_else(x: Any) -> Any:
    body = Body(x)
    while body.n < 15:
        body.step(0.3)
        if body.x[0] < -0.2:
            break
    else:
        body.x = body.x * 2
    return np.sum(body.x) * body.n


def goes_on_early(x: Any) -> Any:
    body, total = Body(x), 0.0
    while body.n < 15:
        body.step(0.3)
        if body.x[0] < 0 or body.n % 3 == 0:
            continue
        total += body.x[0] ** 2
    return total


def returns(x: Any) -> Any:
    body = Body(x)
    while body.n < 40:
        body.step(0.3)
        if body.x[0] < 0:
            return body.x[1] * body.t + body.n
    return body.x[0]


def raises(x: Any) -> Any:
    body = Body(x)
    try:
        while body.n < 40:
            body.step(0.3)
            if body.x[0] < 0:
                raise ValueError("negative")
    except ValueError:
        return body.x[1] * body.t + body.n
    return body.x[0]


def ends_by_a_fault(x: Any) -> Any:
    state, y, weights = {"n": 0}, x[0], [0.1, 0.2, 0.3]
    try:
        while state["n"] < 10:
            y = y * x[1] + weights[state["n"]]
            state["n"] += 1
    except IndexError:
        y = y * 2
    return y * state["n"]


def nested(x: Any) -> Any:
    body = Body(x)
    while body.n < 20:
        inner = {"i": 0}
        while inner["i"] < 5:
            body.x = body.x * 0.99 + 0.01
            inner["i"] += 1
        body.n += 1
    return np.sum(body.x)


def in_branches(x: Any) -> Any:
    body = Body(x)
    if x[0] > 0.1:
        while body.n < 20:
            body.step(0.1)
    else:
        while body.n < 10:
            body.step(0.2)
    return np.sum(body.x) * body.n


def generated(x: Any) -> Any:
    state = {"n": 0}

    def values() -> Any:
        y = x[0]
        while state["n"] < 20:
            y = y * x[1] + 0.1
            state["n"] += 1
            yield y

    return sum(values()) * state["n"]


def states(x: Any) -> Any:
    machine = {"state": "a", "n": 0, "y": x[0]}
    while machine["state"] != "end":
        if machine["state"] == "a":
            machine["y"] = machine["y"] * x[1]
            machine["state"] = "b"
        else:
            machine["y"] = machine["y"] + x[2]
            machine["state"] = "end" if machine["n"] > 12 else "a"
        machine["n"] += 1
    return machine["y"] * machine["n"]


def events(x: Any) -> Any:
    heap, y, n = [(1.0, 0), (0.5, 1), (2.0, 2)], x[0], 0
    heapq.heapify(heap)
    while heap:
        t, i = heapq.heappop(heap)
        y = y * 0.9 + t * x[i]
        n += 1
        if t < 3:
            heapq.heappush(heap, (t + 0.7, (i + 1) % 3))
    return y + n


def search(x: Any) -> Any:
    """A queue of ints that lead to Python lists."""
    links = {i: [(i * 7 + 1) % 40, (i * 3 + 2) % 40] for i in range(40)}
    seen, queue, total, weight = set(), collections.deque([0]), 0.0, 1.0
    while queue:
        node = queue.popleft()
        if node in seen:
            continue
        seen.add(node)
        weight *= 0.99
        total += x[node % 3] * weight
        for other in links[node]:
            queue.append(other)
    return total


def walks_a_tree(x: Any) -> Any:
    """A stack whose items are of several kinds: only Python can run the loop."""
    stack, total = [("add", ("mul", 0, 1), ("mul", ("add", 1, 2), 2))], 1.0
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(node[1:])
            total = total * (1.5 if node[0] == "mul" else x[1])
        else:
            total = total + x[node] * total
    return total


def pairs(x: Any) -> Any:
    values = [x[0], x[1], x[2], x[0] + x[1]]
    while len(values) > 1:
        values = [a * b + 0.1 for a, b in itertools.pairwise(values)]
    return values[0]


def reduced(x: Any) -> Any:
    values = [x[i % 3] + i for i in range(30)]
    while len(values) > 1:
        values.append(values.pop() * values.pop() * 0.1 + 0.1)
    return values[0]


def bound_in_the_body(x: Any) -> Any:
    body = Body(x)
    while body.n < 12:
        body.step(0.1)
        last = body.x[0]
    return last


def draws(x: Any) -> Any:
    state, y, random = {"n": 0}, x[0], np.random.default_rng(3)
    while state["n"] < 12:
        y = y * x[1] + random.normal()
        state["n"] += 1
    return y


def takes(x: Any) -> Any:
    """What is tried takes nothing from an iterator."""
    state, y, numbers = {"n": 0}, x[0], iter([0.1 * i for i in range(30)])
    while state["n"] < 12:
        y = y * x[1] + next(numbers)
        state["n"] += 1
    return y + next(numbers)


_PROGRAMS = [
    ends_with_else,
    goes_on_early,
    returns,
    raises,
    ends_by_a_fault,
    nested,
    in_branches,
    generated,
    states,
    events,
    search,
    walks_a_tree,
    pairs,
    reduced,
    bound_in_the_body,
    draws,
    takes,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", _PROGRAMS)
def test_ways_to_run_and_to_end(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, X, X * 0.3 - 0.1)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_argument_holds_what_python_leaves_in_it(backend: str) -> None:
    def run(state: dict[str, Any], k: float) -> Any:
        while state["t"] < 2.0:
            state["y"] = state["y"] * k + 0.1
            state["t"] += 0.125
            state["m"] += np.float64(0.5)
        return state["y"]

    mine, python = ({"t": 0.0, "m": np.float64(0.0), "y": 0.5} for _ in range(2))
    value = tg.function(run, backend=backend)(mine, 0.9)
    assert value == pytest.approx(run(python, 0.9), rel=1e-14)
    assert mine == pytest.approx(python, rel=1e-14)
    assert [type(v) for v in mine.values()] == [type(v) for v in python.values()]


def test_loop_over_python_values_alone_runs_at_capture() -> None:
    def program(x: Any) -> Any:
        clock = Clock()
        while clock.now < 3000:
            clock.now += 1
        return x * np.arange(clock.now)[-1]

    assert tg.grad(program)(2.0) == 2999.0
    assert "while" not in tg.grad(program).source(2.0)


def test_few_iterations_that_take_items_are_unrolled() -> None:
    def program(x: Any) -> Any:
        queue, total = [0, 1, 2], 0.0
        while queue:
            i = queue.pop()
            total += x[i] * (i + 1)
        return total

    np.testing.assert_array_equal(tg.grad(program)(X), [1.0, 2.0, 3.0])
    assert "while" not in tg.grad(program).source(X)


def test_too_many_iterations_that_need_python_values() -> None:
    def program(x: Any) -> Any:
        clock = Clock()
        while clock.now < 3000:
            clock.now += 1
            logging.getLogger(str(clock.now % 3)).debug("a step")
            x = x * 0.99
        return x

    with pytest.raises(CaptureError, match="neither be staged nor unrolled") as caught:
        tg.grad(program)(2.0)
    assert "known only at run time; more than 1024 iterations" in str(caught.value)


def test_exception_alone_ends_the_loop() -> None:
    def program(x: Any) -> Any:
        clock = Clock()
        while clock.now < 1:
            x = x * 0.99
            if x < 0.1:
                raise ValueError("small")
        return x

    with pytest.raises(CaptureError, match="no end that is known at capture"):
        tg.grad(program)(2.0)


def shape(x: Any, steps: int) -> Any:
    body = Body(x)
    while body.t < 0.5 * steps:
        body.step(0.5)
    return body.x[0] * np.sum(np.ones(body.n)) * range(body.n)[2]


def index(x: Any, steps: int) -> Any:
    """A list whose items are of several kinds, and a dict of texts."""
    state, y = {"n": 0, "odd": 0}, x[0]
    while state["n"] < steps:
        y = y * 0.99
        state["n"] += 1
        if state["n"] % 2:
            state["odd"] += 1
    kinds: list[Any] = [2.0] * steps + [[3.0], "unused"]
    return y * kinds[state["n"]][0] * len({steps // 2: "abc"}[state["odd"]])


def nested_counts(x: Any, steps: int) -> Any:
    clock, total, y = Clock(), 0, x[0]
    while clock.now < steps:
        clock.now += 1
        y = y * 0.99
        for j in range(3):
            if j > 0:
                total = total + 1
    return y * np.ones(total)[-1] * total


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", [shape, index, nested_counts])
def test_what_python_knows_after_the_loop(program: Callable[..., Any], backend: str) -> None:
    check_agreement(lambda x: program(x, 40), backend, X)


def test_bound_that_is_an_argument_is_compared_where_a_shape_depends_on_it() -> None:
    def program(x: Any, bound: int) -> Any:
        clock = Clock()
        while clock.now < bound:
            clock.now += 1
            x = x * 0.5
        return x * np.sum(np.ones(clock.now))

    compiled = tg.grad(program)
    assert [compiled(1.0, n) for n in (4, 7, 4)] == [n * 0.5**n for n in (4, 7, 4)]


def test_result_that_depends_on_traced_values_is_not_known() -> None:
    def program(x: Any) -> Any:
        clock = Clock()
        while x > 0.1:
            clock.now += 1
            x = x * 0.5
        return x * np.sum(np.ones(clock.now))

    with pytest.raises(CaptureError, match="where Python needs an int"):
        tg.grad(program)(1.0)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_item_beyond_the_first_room_of_a_list(backend: str) -> None:
    def program(x: Any) -> Any:
        path = [x[0]]
        while len(path) < 3000:
            path.append(np.sin(path[-1] * x[1]) + 0.1)
        return path[2500] + path[-1]

    check_agreement(program, backend, X)


def test_item_that_a_list_never_gets() -> None:
    def program(x: Any) -> Any:
        path = [x]
        while path[-1] > 0.1:
            path.append(path[-1] * 0.5)
        return path[4000]

    with pytest.raises(IndexError, match="list index out of range"):
        tg.grad(program)(1.0)


def test_messages_of_a_loop_are_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: Any) -> Any:
        clock = Clock()
        while clock.now < 3:
            print("a step")
            print("step", clock.now)
            clock.now += 1
            x = x * 0.9
        return x

    compiled = tg.grad(program)
    compiled(1.0)
    assert capsys.readouterr().out == "a step\nstep 0\nstep 1\nstep 2\n"
    compiled(1.0)
    assert capsys.readouterr().out == "step 0\nstep 1\nstep 2\n"


def test_messages_of_a_loop_that_is_unrolled_are_those_of_python(caplog: pytest.LogCaptureFixture) -> None:
    def program(x: Any) -> Any:
        clock = Clock()
        while clock.now < 3:
            logging.info("step %d", clock.now)
            clock.now += 1
            x = x * 0.9
        return x

    with caplog.at_level(logging.INFO):
        tg.grad(program)(1.0)
    assert caplog.messages == ["step 0", "step 1", "step 2"]
