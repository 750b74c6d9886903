"""Items by a traced index, and strings, functions and objects that a traced condition chooses, on both backends."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (np.array([1.0, -2.0, 2.9, 0.6]), np.array([-1.1, 0.8, 0.3, 0.7]))


class Node:
    def __init__(self, value: float = 0.0, left: Any = None, right: Any = None, axis: int = 0, at: float = 0.0) -> None:
        self.value, self.left, self.right, self.axis, self.at = value, left, right, axis, at

    def weigh(self, v: Any) -> Any:
        return v * self.value


TREE = Node(left=Node(2.0), right=Node(left=Node(3.0), right=Node(5.0), axis=1), at=0.5)


class Item:
    def __init__(self, key: Any, value: Any) -> None:
        self.key, self.value = key, value


def tolist_append(x: Any) -> Any:
    values = x.tolist()
    values.append(x[0] * 2)
    for i in range(5):
        values.append(values[-1] * 0.5 + values[i])
    return values[0] * values[-1] + sum(values)


def tolist_pop(x: Any) -> Any:
    values = x.tolist()
    last = values.pop()
    values[0] = values[1] * 3
    return last**2 + sum(values)


def tolist_of_rows(x: Any) -> Any:
    rows = np.outer(x, x).tolist()
    rows.append([1.0])
    rows[0].append(x[0])
    return rows[0][1] * rows[2][3] + rows[0][-1] + rows[-1][0]


def numbers_by_argmax(x: Any) -> Any:
    values = [x[0] * 2, x[1] * 3, x[2] ** 2, x[3]]
    return values[np.argmax(x)] ** 2 + (1.0, 2.0, 3.0, 4.0)[np.argmin(x)] * np.sum(x)


def number_from_the_end(x: Any) -> Any:
    values = [x[0], x[1] * 2, x[2] ** 2, x[3] ** 3]
    return values[-int(np.argmax(x))]


def arrays_by_argmax(x: Any) -> Any:
    return np.sum([x * 2, x**3, x**2, x][np.argmax(x)] ** 2)


def lists_by_argmax(x: Any) -> Any:
    pairs = [[x[0], x[1]], [x[1], x[2]], [x[2], x[3]], [x[0], x[3]]]
    return pairs[np.argmax(x)][1] ** 2


def write_into_a_chosen_array(x: Any) -> Any:
    rows = [x * 1, x * 2, x * 3, x * 4]
    row = rows[np.argmax(x)]
    row[0] = 7 * x[1]
    return sum(np.sum(a) for a in rows)


def read_after_a_write(x: Any) -> Any:
    rows = [x * 1, x * 2, x * 3, x * 4]
    row = rows[np.argmax(x)]
    rows[2][:] = x**2
    return np.sum(row)


def add_to_a_chosen_array(x: Any) -> Any:
    rows = [x * 1, x * 2, x * 3, x * 4]
    rows[np.argmax(x)][1] += x[0]
    return sum(np.sum(a * (k + 1)) for k, a in enumerate(rows))


def store_a_number(x: Any) -> Any:
    values = [x[0], x[1], x[2], x[3]]
    values[np.argmax(x)] = 0.0
    return sum(values)


def store_an_array(x: Any) -> Any:
    rows = [x * 1, x * 2, x * 3, x * 4]
    rows[np.argmax(x)] = x**2
    return np.sum(rows[2]) + np.sum(rows[1])


def arrays_by_a_while_counter(x: Any) -> Any:
    rows, i = [x * 2, x**3, x**2, x], 0
    while np.sum(rows[i]) > 0 and i < 3:
        i += 1
    return np.sum(rows[i] ** 2)


def numbers_after_a_while(x: Any) -> Any:
    i = 0
    while i < 3 and x[i] > 0:
        i += 1
    return [1.0, 2.0, 3.0, 5.0][i] * np.sum(x)


def layers_in_a_long_loop(x: Any) -> Any:
    weights = [np.eye(4), np.full((4, 4), 0.1), np.diag([1.0, 2.0, 3.0, 4.0])]
    h = x
    for _ in range(150):
        h = 0.7 * np.tanh(weights[int(np.argmax(h)) % 3] @ h)
    return np.sum(h)


def dicts_by_a_long_counter(x: Any) -> Any:
    layers = [{"w": x * 1, "b": x[0]}, {"w": x * 2, "b": x[1]}]
    h = x
    for i in range(150):
        h = 0.3 * np.tanh(h * layers[i % 2]["w"] + layers[i % 2]["b"])
    return np.sum(h)


def shortest_queue(x: Any) -> Any:
    queues = [0.0, 0.1, 0.2]
    for v in x:
        k = int(np.argmin(np.array(queues)))
        queues[k] = queues[k] + abs(v)
    return max(queues)


def functions_by_argmax(x: Any) -> Any:
    return np.sum([np.sin, np.cos, np.exp, np.tanh][int(np.argmax(x))](x))


def key_of_a_dict(x: Any) -> Any:
    d = {"hi": x[0] * 2, "lo": x[1] ** 2}
    total = {"hi": 0.0, "lo": 0.0}
    for v in x:
        total["hi" if v > 0 else "lo"] += v**2
    return d["hi" if x[0] > 0 else "lo"] + total["hi"] - 2 * total["lo"]


def key_bound_by_a_branch(x: Any) -> Any:
    if x[0] > 2:
        mode = "up"
    elif x[0] > 0:
        mode = "mid"
    else:
        mode = "down"
    factor = {"up": 1.0, "mid": 2.0, "down": 3.0}[mode]
    return factor * np.sum(x**2) + (x[0] if mode in ("mid", "down") else 0.0)


def new_key(x: Any) -> Any:
    d: dict[str, Any] = {}
    d["a" if x[0] > 0 else "b"] = x[1] ** 2
    return d.get("a", 0.0) + 3 * d.get("b", 0.0)


def attribute_by_name(x: Any) -> Any:
    n = Item(0.0, 0.0)
    setattr(n, "key" if x[0] > 0 else "value", x[1] ** 2)
    return n.key + 3 * n.value + getattr(x**2, "mean" if x[0] > 0 else "sum")()


def state_machine(x: Any) -> Any:
    state, t = "idle", 0.0
    for v in x:
        if state == "idle":
            if v < 0:
                state = "run"
            t += v
        elif state == "run":
            if v > 0:
                state = "done"
            t += v**2
        else:
            t += 3 * v
    return t


def state_machine_of_a_long_loop(x: Any) -> Any:
    state, t = "idle", 1.5 + x[0] / 10
    for _ in range(200):
        if state == "idle":
            t = t * 1.01
            if t > 3:
                state = "run"
        elif state == "run":
            t = t * 0.95
            if t < 1:
                state = "idle"
    return t


def state_machine_of_a_while(x: Any) -> Any:
    state, t, n = "idle", 1.5 + x[0] / 10, 0
    while n < 40 and t < 100:
        if state == "idle":
            t = t * 1.1
            if t > 3:
                state = "run"
        elif state == "run":
            t = t * 0.9
            if t < 1.5:
                state = "idle"
        n += 1
    return t * (2.0 if state == "run" else 3.0)


def function_of_a_while(x: Any) -> Any:
    f, t, n = np.sin, x[0] / 3, 0
    while n < 5 and t < 100:
        t = t + f(t)
        f = np.cos if t > 1.2 else np.sin
        n += 1
    return t


def operators_and_lambdas(x: Any) -> Any:
    op = operator.mul if x[0] > 0 else operator.add
    g = (lambda v: v**2) if x[1] > 0 else (lambda v: v**3)
    return op(g(x[1]), x[2])


def string_or_none(x: Any) -> Any:
    m = None
    if x[0] > 0:
        m = "Mean"
    return x[0] ** 2 * len(m.lower()) if m is not None else x[1]


def argument_of_a_helper(x: Any) -> Any:
    def helper(mode: str, v: Any) -> Any:
        return v**2 if mode == "square" else v

    return helper("square" if x[0] > 0 else "line", x[1])


def objects_from_outside(x: Any) -> Any:
    n = TREE.left if x[0] < 0.5 else TREE.right
    return n.weigh(x[1]) + (n.left.value * x[1] if n.left is not None else 0.0)


def decision_tree(x: Any) -> Any:
    n = TREE
    while n.left is not None:
        n = n.left if x[n.axis] < n.at else n.right
    return n.value * np.sum(x**2)


def recursive_decision_tree(x: Any) -> Any:
    def go(n: Node) -> Any:
        if n.left is None:
            return n.value * x[0]
        return go(n.left) if x[n.axis] < n.at else go(n.right)

    return go(TREE)


def sorted_objects(x: Any) -> Any:
    items = sorted((Item(x[i], x[i] ** 2) for i in range(4)), key=lambda item: item.key)
    return items[0].value * 2 + items[-1].key


def sorted_dicts(x: Any) -> Any:
    items = [{"key": x[i], "value": x[i] ** 2} for i in range(4)]
    items = sorted(items, key=lambda item: item["key"], reverse=True)
    return items[0]["value"] * 2 + items[-1]["key"]


def write_into_sorted_objects(x: Any) -> Any:
    items = [Item(x[i], x[i] ** 2) for i in range(3)]
    first = items[0]
    items.sort(key=lambda item: -item.key)
    items[0].value += 3 * x[0]
    first.value *= 2
    return sum(k * item.value for k, item in enumerate(items)) + first.value


def sorted_names(x: Any) -> Any:
    weights = {"a": x[0], "b": x[1], "c": x[2], "d": x[3]}
    order = sorted(weights, key=lambda name: weights[name])
    return weights[order[0]] ** 2 + 3 * weights[order[-1]]


PROGRAMS: list[Callable[..., Any]] = [
    tolist_append,
    tolist_pop,
    tolist_of_rows,
    numbers_by_argmax,
    number_from_the_end,
    arrays_by_argmax,
    lists_by_argmax,
    write_into_a_chosen_array,
    read_after_a_write,
    add_to_a_chosen_array,
    store_a_number,
    store_an_array,
    arrays_by_a_while_counter,
    numbers_after_a_while,
    layers_in_a_long_loop,
    dicts_by_a_long_counter,
    shortest_queue,
    functions_by_argmax,
    key_of_a_dict,
    key_bound_by_a_branch,
    new_key,
    attribute_by_name,
    state_machine,
    state_machine_of_a_long_loop,
    state_machine_of_a_while,
    function_of_a_while,
    operators_and_lambdas,
    string_or_none,
    argument_of_a_helper,
    objects_from_outside,
    decision_tree,
    recursive_decision_tree,
    sorted_objects,
    sorted_dicts,
    write_into_sorted_objects,
    sorted_names,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def outside_the_list(x: Any) -> Any:
    return [x[0], x[1]][int(np.argmax(x))]


def outside_the_dict(x: Any) -> Any:
    return {"hi": x[0]}["lo" if x[0] > 0 else "hi"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("program", "error"), [(outside_the_list, IndexError), (outside_the_dict, KeyError)])
def test_errors_at_run_time(program: Callable[..., Any], error: type[Exception], backend: str) -> None:
    with pytest.raises(error):
        tg.grad(program, backend=backend)(POINTS[0])


def returned_string(x: Any) -> Any:
    return x[0], "a" if x[0] > 0 else "b"


def dict_on_one_side(x: Any) -> Any:
    r = (x[0], None) if x[0] > 0 else (x[1], {"a": x[0]})
    return r[0]


def string_on_one_side(x: Any) -> Any:
    if x[0] > 0:
        r = {"u": (x[0], 1.0)}
    else:
        r = {"u": (x[0], "q")}
    return r["u"][1]


def other_shapes(x: Any) -> Any:
    return np.sum([x[:1], x[:2], x[:3], x][np.argmax(x)])


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        (returned_string, "TG112", "found: 'a' when true, 'b' when false"),
        (dict_on_one_side, "TG112", "different structure at [1]"),
        (string_on_one_side, "TG112", """give "r['u'][1]" different values"""),
        (other_shapes, "TG101", "which indexes a list of 4"),
    ],
)
def test_refused(program: Callable[..., Any], code: str, words: str) -> None:
    with pytest.raises(TracegradError) as raised:
        tg.value_and_grad(program, has_aux=program is returned_string)(POINTS[0])
    assert raised.value.code == code
    assert words in str(raised.value)


def raised_with_a_chosen_text(x: Any) -> Any:
    side = "low" if x[0] < 0 else "high" if x[0] > 5 else "middle"
    if x[1] > 100:
        raise ValueError(side)
    return x[0] ** 2


def raised_with_a_text_of_it(x: Any) -> Any:
    side = "low" if x[0] < 0 else "high" if x[0] > 5 else "middle"
    if x[1] > 100:
        raise ValueError(f"it is {side:>6}!")
    return x[0] ** 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [raised_with_a_chosen_text, raised_with_a_text_of_it])
def test_an_exception_has_the_message_that_is_chosen(program: Callable[..., Any], backend: str) -> None:
    compiled = tg.value_and_grad(program, backend=backend)
    check_agreement(program, backend, *POINTS)
    for first in (-1.0, 1.0, 8.0):
        x = np.array([first, 200.0])
        with pytest.raises(ValueError) as expected:
            program(x)
        with pytest.raises(ValueError) as raised:
            compiled(x)
        assert str(raised.value).startswith(str(expected.value))


def test_a_text_is_compared_as_the_one_that_is_chosen() -> None:
    def f(x: Any) -> Any:
        side = "low" if x[0] < 0 else "high"
        name = f"{side}-{3}"
        return x[0] * (2.0 if name == "low-3" else 3.0)

    check_agreement(f, "numpy", *POINTS)
