"""Globals, closure variables, attributes, lists and dicts from outside that a function rebinds, reorders or deletes."""

from __future__ import annotations

import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

TOTAL: Any = 0.0
LAST: Any = None
COUNT = 0
CHOSEN = {1, 2}


def running(x: Any) -> Any:
    global TOTAL
    TOTAL = TOTAL + 0.1 * x
    return x * TOTAL


def keeping(x: Any) -> Any:
    global LAST, COUNT
    LAST = 2.0 * x
    COUNT += 1
    return LAST * COUNT


def resetting(x: Any) -> Any:
    global TOTAL
    TOTAL = 5.0
    return x * TOTAL


def in_a_branch(x: Any) -> Any:
    global TOTAL
    if x > 0:
        TOTAL = x * TOTAL
    return x * TOTAL


def in_a_loop(x: Any) -> Any:
    global TOTAL
    for _ in range(5):
        TOTAL += x
    return x * TOTAL


def add(x: Any) -> None:
    global TOTAL
    TOTAL = TOTAL + x


def by_calls(x: Any) -> Any:
    for _ in range(4):
        add(x)
    if x > 1.5:
        add(x * x)
    return x * TOTAL


def deleting(x: Any) -> Any:
    global LAST
    LAST = x
    result = LAST * x
    del LAST
    return result


def arrays(x: Any) -> Any:
    global TOTAL
    TOTAL = TOTAL + np.array([x, x * x])
    return np.sum(TOTAL) * x


@pytest.fixture(autouse=True)
def reset() -> None:
    globals().update(TOTAL=0.0, LAST=None, COUNT=0, CHOSEN={1, 2})


def sets(x: Any) -> Any:
    global CHOSEN
    size = len(CHOSEN)
    CHOSEN = CHOSEN | {size}
    return x * size


FUNCTIONS = [sets, running, keeping, resetting, in_a_branch, in_a_loop, by_calls, deleting, arrays]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_globals(function: Callable[[Any], Any], backend: str) -> None:
    compiled = tg.function(function, backend=backend)

    def run(f: Callable[[Any], Any]) -> list[Any]:
        globals().update(TOTAL=0.5, LAST=None, COUNT=0, CHOSEN={1, 2})
        seen = []
        for number, x in enumerate([2.0, -3.0, 1.0, 4.0]):
            if number == 2:
                globals()["TOTAL"] = 7.0
            seen += [f(x), TOTAL, globals().get("LAST", "absent"), COUNT, CHOSEN]
        return seen

    for have, want in zip(run(compiled), run(function), strict=True):
        assert type(have) is type(want)
        assert np.all(have == want) or np.allclose(have, want)


def test_gradients_of_functions_that_store() -> None:
    globals()["TOTAL"] = 1.0
    assert tg.grad(running)(2.0) == pytest.approx(1.4)
    assert pytest.approx(1.2) == TOTAL
    assert running(2.0) == pytest.approx(2.8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_closure_variables(backend: str) -> None:
    def make() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
        total, last = 1.0, None

        def step(x: Any) -> Any:
            nonlocal total, last
            last = x * total
            for _ in range(3):
                total += x
            return last * total

        return step, lambda: (total, last)

    (step, state), (plain, plain_state) = make(), make()
    compiled = tg.function(step, backend=backend)
    for x in (2.0, 3.0, -1.0):
        assert compiled(x) == plain(x)
        assert state() == plain_state()


def test_nothing_is_left_after_an_error() -> None:
    item = types.SimpleNamespace(a=1.0)

    def f(x: Any) -> Any:
        global TOTAL
        TOTAL = item.a = x
        raise KeyError(x)

    with pytest.raises(KeyError):
        tg.grad(f)(2.0)
    assert (TOTAL, item.a) == (0.0, 1.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_attributes_stored_in_branches_and_loops(backend: str) -> None:
    def make() -> tuple[Any, Callable[[Any], Any]]:
        item = types.SimpleNamespace(a=1.0, b=2.0)

        def f(x: Any) -> Any:
            if x > 0:
                item.a = x
            for _ in range(3):
                item.b = item.b + x
            return item.a * x + item.b

        return item, f

    (item, f), (plain_item, plain) = make(), make()
    compiled = tg.function(f, backend=backend)
    for x in (2.0, -3.0, 1.0):
        assert compiled(x) == plain(x)
        assert item == plain_item
        item.a = plain_item.a = 7.0


def reverse(items: list[Any]) -> None:
    items.reverse()


def sort(items: list[Any]) -> None:
    items.sort()


def slice_(items: list[Any]) -> None:
    items[:] = items[::-1]


def rotate(items: list[Any]) -> None:
    items.insert(0, items.pop())


def reverse_and_store(items: list[Any]) -> None:
    items[1] = items[0] * 2.0
    items.reverse()
    items[0] = items[1] + items[0]


LISTS = [reverse, sort, slice_, rotate, reverse_and_store]


def pop(items: dict[str, Any]) -> None:
    items["b"] += items.pop("a")


def delete(items: dict[str, Any]) -> None:
    del items["a"]


def clear(items: dict[str, Any]) -> None:
    items.clear()


def popitem(items: dict[str, Any]) -> None:
    items.popitem()


def move(items: dict[str, Any]) -> None:
    items["new"] = 3.0
    items["a"] = items.pop("a")


def replace(items: dict[str, Any]) -> None:
    value = items.pop("a")
    items["new"] = 2.0 * value
    del items["new"]
    items["new"] = value
    items["a"] = value * value


def pop_nothing(items: dict[str, Any]) -> None:
    items["b"] += items.pop("c", 1.0)


DICTS = [pop, delete, clear, popitem, move, replace, pop_nothing]


@pytest.mark.parametrize("is_global", [False, True])
@pytest.mark.parametrize("change", [*LISTS, *DICTS], ids=lambda f: f.__name__)
def test_lists_and_dicts(change: Callable[[Any], None], is_global: bool) -> None:
    def make() -> Any:
        return [3.0, 1.0, 2.0] if change in LISTS else {"a": 2.0, "b": 3.0}

    outside, plain = make(), make()

    def f(x: Any) -> Any:
        change(outside)
        return x

    def g(items: Any, x: Any) -> Any:
        change(items)
        return x

    change(plain)
    argument = make()
    if is_global:
        assert tg.grad(f)(2.0) == 1.0
    else:
        tg.grad(g, argnums=1)(argument, 2.0)
    have = outside if is_global else argument
    assert have == plain
    assert list(have) == list(plain)
    if change in LISTS:
        assert f(1.0) == 1.0


def test_ordered_dicts() -> None:
    cache = OrderedDict(a=1.0, b=2.0, c=3.0)

    def f(x: Any) -> Any:
        cache.move_to_end("a")
        cache.popitem(last=False)
        return x * cache["c"]

    assert tg.function(f)(2.0) == 6.0
    assert list(cache.items()) == [("c", 3.0), ("a", 1.0)]


def test_attributes_that_are_deleted() -> None:
    def f(item: Any, x: Any) -> Any:
        result = item.a * x
        del item.a
        return result

    item = types.SimpleNamespace(a=2.0, b=1.0)

    def g(x: Any) -> Any:
        return f(item, x)

    assert tg.function(g)(3.0) == 6.0
    assert vars(item) == {"b": 1.0}
    with pytest.raises(AttributeError):
        tg.function(g)(3.0)


def test_lengths_of_lists_stay() -> None:
    items = [1.0, 2.0]

    def f(x: Any) -> Any:
        items.reverse()
        items.append(x)
        return x

    with pytest.raises(CaptureError, match="TG124"):
        tg.grad(f)(2.0)
    assert items == [1.0, 2.0]


@pytest.mark.parametrize(
    "change",
    [
        lambda queue, data, chosen: queue.rotate(1),
        lambda queue, data, chosen: queue.append(queue.popleft()),
        lambda queue, data, chosen: data.__setitem__(0, 7),
        lambda queue, data, chosen: data.reverse(),
        lambda queue, data, chosen: chosen.add(5),
    ],
    ids=["rotate", "append", "setitem", "reverse", "add"],
)
def test_changes_that_are_refused(change: Callable[..., None]) -> None:
    queue, data, chosen = deque([1.0, 2.0, 3.0]), bytearray(b"ab"), {1, 2}

    def f(x: Any) -> Any:
        change(queue, data, chosen)
        return x * queue[0] * data[0] * len(chosen)

    with pytest.raises(CaptureError, match="TG124"):
        tg.grad(f)(2.0)
    assert (list(queue), data, chosen) == ([1.0, 2.0, 3.0], b"ab", {1, 2})


def test_functions_that_run_unconverted() -> None:
    space: dict[str, Any] = {}
    exec("T = 1.0\ndef f(x):\n    global T\n    T = T + x\n    return x * T\n", space)
    compiled = tg.value_and_grad(space["f"])
    assert compiled(2.0) == (6.0, 5.0)
    assert space["T"] == 3.0
    assert compiled(2.0) == (10.0, 7.0)
    assert space["f"](1.0) == 6.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_written_in_place_stay_the_same_arrays(backend: str) -> None:
    array = np.ones(3)
    item = types.SimpleNamespace(a=array)

    def f(x: Any) -> Any:
        global TOTAL
        TOTAL += x
        item.a *= 2.0
        return np.sum(TOTAL)

    total = np.zeros(3)
    globals()["TOTAL"] = total
    assert tg.function(f, backend=backend)(np.ones(3)) == 3.0
    assert TOTAL is total
    assert item.a is array
    assert (total.tolist(), array.tolist()) == ([1.0] * 3, [2.0] * 3)


def chosen_by_the_total(x: Any) -> Any:
    items = [x, 2.0 * x, 3.0 * x * x]

    def step() -> Any:
        global TOTAL
        item = items[int(TOTAL)]
        TOTAL = TOTAL + 0.5
        return item

    return step() + x * step()


def chosen_in_a_handler(x: Any) -> Any:
    global TOTAL
    items = [x, 2.0 * x, 3.0 * x * x]
    try:
        y = items[int(TOTAL)] / float(int(x))
    except ZeroDivisionError:
        y = items[int(TOTAL)]
        TOTAL = 1.0
    return y * x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [chosen_by_the_total, chosen_in_a_handler])
def test_the_content_of_what_is_rebound_is_that_before_the_call(f: Callable[[Any], Any], backend: str) -> None:
    first = tg.value_and_grad(f, backend=backend)
    second = tg.grad(lambda x: tg.grad(f)(x) * x, backend=backend)
    for total in (0.25, 1.25, 0.75, 0.25):
        for x in (2.5, 0.5):
            found = []
            for function in (f, first, second, lambda x: f(x + 1e-6), lambda x: f(x - 1e-6)):
                globals()["TOTAL"] = total
                found.append((function(x), TOTAL))
            (expected, after), ((value, slope), left), (curved, _), (above, _), (below, _) = found
            assert (value, left) == (expected, after)
            assert slope == pytest.approx((above - below) / 2e-6, rel=1e-6)
            globals()["TOTAL"] = total
            assert curved == pytest.approx(slope + x * (tg.hessian(f)(x)), rel=1e-9)
