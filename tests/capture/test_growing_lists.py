"""Lists that grow in a loop without a known end: there is room for so many items, and more where a run needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (
    np.array([1.1, -2.0, 3.0, 0.5, -0.7]),
    np.array([-1.1, -2.0, -3.0, 0.5, -0.7]),
    np.array([1.3, 2.0, 3.0, 0.5, 0.7]),
)


def adaptive_steps(x: Any) -> Any:
    t, y, h = 0.0, x[0], 0.3
    ts, ys = [t], [y]
    while t < 1.0:
        new = y + h * np.sin(y * x[1])
        error = abs(h * h * (y + 1))
        if error < 0.05:
            t = t + h
            y = new
            ts.append(t)
            ys.append(y)
        h = min(0.9 * h * (0.05 / (error + 1e-3)) ** 0.5, 0.5)
    return np.interp(0.77, np.array(ts), np.array(ys)) + sum(ys) + ys[-1]


def states_that_are_vectors(x: Any) -> Any:
    t, y = 0.0, x
    ts, ys = [], []
    while t < 1.0:
        y = y + 0.1 * np.sin(y)
        t = t + 0.1 + 0.01 * x[0] ** 2
        ts.append(t)
        ys.append(y)
    a = np.array(ys)
    return np.sum(a**2) + np.sum(ys[-1]) + a[-1, 0] + np.trapezoid(a, ts, axis=0)[1]


def vectors_written_in_place(x: Any) -> Any:
    y, t, history = x.copy(), x[0] ** 2, []
    while t < 5.0:
        y -= 0.1 * y
        t += 0.9
        history.append(y.copy())
    return np.sum(np.array(history).mean(axis=0) * x)


def ended_by_break(x: Any) -> Any:
    y, ys = x[0], []
    while True:
        y = y * 0.7 + 0.01 * x[1]
        if abs(y) < 0.1:
            break
        if y > 0.3:
            continue
        ys.append(y)
    return sum(ys) + len(ys)


def decided_by_its_items(x: Any) -> Any:
    ys = [x[0]]
    while len(ys) < 40 and abs(ys[-1]) > 0.1:
        ys.append(ys[-1] * 0.7)
    return sum(ys) + ys[len(ys) // 2]


def pairs(x: Any) -> Any:
    t, y, path = 0.0, x[0], []
    while abs(y) > 0.1:
        y, t = y * 0.7, t + 0.1
        path.append((t, y))
    return sum(t * y for t, y in path)


def list_in_a_loop(x: Any) -> Any:
    total = 0.0
    for v in x:
        ys = []
        while abs(v) > 0.1:
            v = v * 0.7
            ys.append(v)
        total += sum(ys) ** 2
    return total


def list_around_a_loop(x: Any) -> Any:
    ys = []
    for v in x:
        while abs(v) > 0.1:
            v = v * 0.7
            ys.append(v)
    return sum(ys) + len(ys)


def attribute(x: Any) -> Any:
    class Recorder:
        pass

    recorder = Recorder()
    recorder.ys = []  # type: ignore[attr-defined]
    y = x[0]
    while abs(y) > 0.1:
        y = y * -0.7
        recorder.ys.append(y)  # type: ignore[attr-defined]
    return sum(recorder.ys)  # type: ignore[attr-defined]


def several_at_once(x: Any) -> Any:
    y, ys = x[0], []
    while abs(y) > 0.1:
        y = y * -0.7
        ys.extend([y, y * y])
    return sum(ys) + max(ys, default=0.0) - min(ys, default=1.0) * (sorted(ys)[0] if ys else 2.0)


def inserted_in_front(x: Any) -> Any:
    y, ys = x[0], []
    while abs(y) > 0.1:
        y = y * -0.7
        ys.insert(0, y)
    return sum(k * y for k, y in enumerate(ys))


def stack_of_intervals(x: Any) -> Any:
    stack, total = [(0.0, 1.0)], 0.0
    while stack:
        a, b = stack.pop()
        m = 0.5 * (a + b)
        fa, fm, fb = np.sin(x[0] * a), np.sin(x[0] * m), np.sin(x[0] * b)
        if abs(fa - 2 * fm + fb) > 0.01:
            stack.append((a, m))
            stack.append((m, b))
        else:
            total += (b - a) * (fa + 4 * fm + fb) / 6
    return total


def differences(x: Any) -> Any:
    t, y = 0.0, x[0]
    ts, ys = [t], [y]
    while t < 1.0:
        y, t = y * 0.8, t + 0.13 + 0.001 * x[1] ** 2
        ts.append(t)
        ys.append(y)
    total = sum((a - b) ** 2 for a, b in zip(ys[:-1], ys[1:], strict=True))  # noqa: RUF007
    times, values, more = np.array(ts), np.array(ys), [x[1], 0.0]
    joined = ys + more + ys
    total += joined[-1] * joined[len(ys)] + max(more + ys)
    return total + np.trapezoid(values, times) + np.sum(np.diff(times) * values[1:])


def runs_of_positive_numbers(x: Any) -> Any:
    total, run = 0.0, []
    for v in x:
        if v > 0:
            run.append(v)
        else:
            total += sum(run) ** 2
            run.clear()
    return total + sum(run) ** 2 + len(run)


def full_batches(x: Any) -> Any:
    total, batch = 0.0, []
    for k in range(20):
        if x[k % 5] > -1.5:
            batch.append(x[k % 5] * k)
        if len(batch) == 3:
            total += np.prod(batch)
            batch.clear()
    return total + sum(batch)


def filled_again(x: Any) -> Any:
    values = []
    for k in range(20):
        values.append(x[k % 5] * k)
    total = sum(values)
    values.clear()
    for k in range(10):
        values.append(x[k % 5] ** 2)
    return total * sum(values) + len(values) * np.array(values)[3] + values[-1]


def cleared_while_it_grows(x: Any) -> Any:
    y, total, seen = x[0], 0.0, []
    while abs(y) > 0.1:
        y = y * -0.7
        seen.append(y)
        if y > 0.5:
            total += sum(seen) ** 2
            seen.clear()
    return total + sum(seen)


def parts_of_one_list(x: Any) -> Any:
    values, start, total = [], 0, 0.0
    for v in x:
        if v > 0:
            values.append(v)
        else:
            total += sum(values[start:]) ** 2
            start = len(values)
    return total + sum(values[start:]) ** 2


PROGRAMS: list[Callable[[Any], Any]] = [
    adaptive_steps,
    states_that_are_vectors,
    vectors_written_in_place,
    ended_by_break,
    decided_by_its_items,
    pairs,
    list_in_a_loop,
    list_around_a_loop,
    attribute,
    several_at_once,
    inserted_in_front,
    stack_of_intervals,
    differences,
    runs_of_positive_numbers,
    full_batches,
    cleared_while_it_grows,
    filled_again,
    parts_of_one_list,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_list_grows_in_a_while_loop(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, *POINTS)


def long_path(x: Any, h: float) -> Any:
    t, y, ys = 0.0, x[0], [x[0]]
    while t < 1.0:
        y = y + h * np.sin(y)
        t += h
        ys.append(y)
    return np.sum(np.array(ys) ** 2) * h + ys[-1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_needs_more_room_gets_it(backend: str) -> None:
    x = np.array([1.0, 2.0])
    compiled = tg.value_and_grad(long_path, backend=backend)
    for h in (0.1, 0.0003, 0.1, 0.00008):
        value, gradient = compiled(x, h)
        np.testing.assert_allclose(value, long_path(x, h), rtol=1e-11)
        np.testing.assert_allclose(gradient, central_differences(lambda x, h=h: long_path(x, h), x), rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_transforms_get_more_room_too(backend: str) -> None:
    def path(x: Any, h: float) -> Any:
        return long_path(x, h)

    x, h = np.array([1.0, 2.0]), 0.00031
    expected = central_differences(lambda x: long_path(x, h), x)
    out, pullback = tg.vjp(path, x, h, backend=backend)
    np.testing.assert_allclose(out, long_path(x, h), rtol=1e-11)
    np.testing.assert_allclose(pullback(2.0)[0], 2 * np.array(expected), rtol=1e-6)
    h = 0.00007
    expected = central_differences(lambda x: long_path(x, h), x)
    _, tangent = tg.jvp(path, (x, h), (np.array([1.0, 0.0]), 0.0), backend=backend)
    np.testing.assert_allclose(tangent, expected[0], rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_is_done_again_writes_its_arguments_once(backend: str) -> None:
    def count(x: Any, out: Any) -> Any:
        out[0] += 1
        ys = []
        while x > 1.0:
            x = x * 0.998
            ys.append(x)
        out[1] = sum(ys)
        return out[1] * 2

    results, expected = np.zeros(2), np.zeros(2)
    value, _ = tg.value_and_grad(count, backend=backend)(3000.0, results)
    np.testing.assert_allclose(value, count(3000.0, expected), rtol=1e-11)
    np.testing.assert_allclose(results, expected, rtol=1e-11)


def test_a_loop_over_a_list_that_it_fills_is_refused() -> None:
    def endless(x: Any) -> Any:
        ys = [x]
        while x > 1.0:
            x = x * 0.5
            ys.append(x)
        for y in ys:
            if y > 2.0:
                ys.append(y * 0.5)
        return sum(ys)

    with pytest.raises(TracegradError) as caught:
        tg.grad(endless)(8.0)
    assert caught.value.code == "TG134"


def test_a_list_from_outside_is_refused() -> None:
    history: list[Any] = []

    def record(x: Any) -> Any:
        while x > 1.0:
            x = x * 0.5
            history.append(x)
        return x

    with pytest.raises(TracegradError) as caught:
        tg.grad(record)(8.0)
    assert caught.value.code == "TG122"
    assert "a list from outside grows in a loop" in str(caught.value)
