"""Names that some iterations of a loop bind, and others read."""

# ruff: noqa

from __future__ import annotations

import linecache
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tests.differences import central_differences
from tracegrad.config import BACKENDS

X = np.array([0.5, -1.2, 2.0, 0.7, -0.3, 1.5])


def place_of_the_greatest(x: Any) -> Any:
    best = 0.0
    for i in range(len(x)):
        if x[i] > best:
            best = x[i]
            w = i
    return best * (1 + w)


def bound_first(x: Any) -> Any:
    tot = 0.0
    for i in range(200):
        if i == 0:
            prev = x[0]
        tot += prev * x[i % 6]
    return tot


def read_in_another_branch(x: Any) -> Any:
    total = 0.0
    seen = False
    for v in x:
        if v > 0.4:
            last = v
            seen = True
        elif seen:
            total += last * v
    return total


def bound_after_the_read(x: Any) -> Any:
    tot = 0.0
    for i in range(6):
        if i == 0:
            prev = x[i]
        else:
            tot += prev * x[i]
        prev = x[i]
    return tot


def tuple_in_nested_loops(x: Any) -> Any:
    best = -1.0
    for r in range(2):
        for c in range(3):
            s = x[r * 3 + c]
            if s > best:
                best, where = s, (r, c)
    return best * (where[0] + 2 * where[1] + 1)


def read_after_a_while(x: Any) -> Any:
    i = 0
    while i < 6:
        if x[i] > 1.0:
            tmp = np.sin(x[i])
            arr = x * x[i]
        i += 1
    return tmp + arr.sum()


def read_by_a_lambda(x: Any) -> Any:
    i = 0
    while True:
        if i >= 6:
            break
        if x[i] < 0:
            neg = x[i] ** 2
            i += 1
            continue
        i += 1
    g = lambda: neg * 2
    return g()


def nested_conditions(x: Any) -> Any:
    for v in x:
        if v > 1:
            if v > 1.9:
                z = v
            else:
                z = v * 3
        elif v < -1:
            z = -v * 5
            k = v
    return z * k


def two_conditions(x: Any) -> Any:
    t = 0.0
    for i in range(6):
        if i > 2:
            t = t + old * x[i]
        if i > 1:
            old = x[i] * 2
    return t


def read_by_the_test(x: Any) -> Any:
    first = True
    n = 0
    y = x[0]
    while first or abs(err) > 1e-6:
        new = 0.5 * (y + 2.0 / y) if y > 0 else y + 1.0
        err = new - y
        y = new
        first = False
        n += 1
        if n > 50:
            break
    return y * err + y


def inner_loop(x: Any) -> Any:
    tot = 0.0
    for v in x:
        if v > 0:
            for k in range(3):
                if k == 1:
                    cur = v * k
            tot += cur
    return tot * cur


def state_machine(x: Any) -> Any:
    # state machine
    state = 0
    out = 0.0
    for v in x:
        if state == 0:
            if v > 0.4:
                start = v
                state = 1
        else:
            if v < 0:
                out += start * v
                state = 0
    return out


def into_a_dict(x: Any) -> Any:
    d = {}
    for i in range(6):
        if i > 0:
            d["diff"] = x[i] - prev
            s = d["diff"] ** 2
        prev = x[i]
    return s + d["diff"]


def appended(x: Any) -> Any:
    out = []
    for i in range(6):
        if i > 0:
            out.append(x[i] * prev)
        prev = x[i]
    return sum(out)


def beside_none(x: Any) -> Any:
    best = None
    for i in range(6):
        c = (x[i] - 0.3) ** 2
        if best is None or c < best:
            best = c
            arg = x[i]
    return arg * best


def break_and_else(x: Any) -> Any:
    for i in range(6):
        if x[i] > 1.9:
            r = x[i]
            break
    else:
        r = x[0] * 3
    return r


def break_only(x: Any) -> Any:
    for i in range(6):
        if x[i] > 1.9:
            idx = i
            break
    return x[idx] * idx


def swapped(x: Any) -> Any:
    i = 0
    while i < 5:
        if x[i] > x[i + 1]:
            tmp = x[i]
            x[i] = x[i + 1]
            x[i + 1] = tmp
        i += 1
    return x[5] * tmp + x[0]


def returned_beside_its_log(x: Any) -> Any:
    log = []
    for k in range(10):
        if k * x[0] > 2.3:
            return sum(log) * x[1], log
        log.append(x[k % 6] * k)
    return x[2], log


def returned_with_a_log(x: Any) -> Any:
    y, log = returned_beside_its_log(x)
    log.append(y * x[3])
    return y + sum(log) * len(log)


def returned_from_an_inner_loop(x: Any) -> Any:
    def run(s: Any) -> Any:
        log = []
        for k in range(200):
            for j in range(3):
                s = s * 1.01 + 0.01
                log.append((s, k * x[j]))
                if s > 2.5:
                    return {"s": s, "log": log}
            if len(log) > 100:
                return {"s": 2 * s, "log": log}
        return {"s": -s, "log": log}

    found = run(abs(x[0]))
    return found["s"] + sum(a * b for a, b in found["log"])


def returned_with_an_object(x: Any) -> Any:
    d = {"n": x[1], "v": [x[0]]}

    def run(s: Any) -> Any:
        while True:
            if s > 50.0:
                return "far", d, s
            s = s * 1.3 + 1.0
            d["n"] += s
            d["v"].append(s * x[2])
            if d["n"] > 90.0:
                return "many", d, 2 * s

    word, same, s = run(x[0] * x[0])
    same["n"] += s
    return d["n"] * (2 if word == "many" else 3) + sum(d["v"])


def kept_in_some_iterations(x: Any) -> Any:
    log = []
    s = abs(x[0]) + 0.1
    for k in range(200):
        if 1.0 < s < 1.7:
            pair = (s, log)
        s = s * 1.01
        log.append(s)
    return pair[0] * sum(pair[1])


def bound_to_a_text(x: Any) -> Any:
    s = abs(x[0])
    while s < 1.0:
        word = "small"
        s = s * 1.5
    try:
        return s * (2 if word == "small" else 3)
    except UnboundLocalError:
        return s * 7


PROGRAMS = [
    place_of_the_greatest,
    bound_first,
    read_in_another_branch,
    bound_after_the_read,
    tuple_in_nested_loops,
    read_after_a_while,
    read_by_a_lambda,
    nested_conditions,
    two_conditions,
    read_by_the_test,
    inner_loop,
    state_machine,
    into_a_dict,
    appended,
    beside_none,
    break_and_else,
    break_only,
    swapped,
    returned_with_a_log,
    returned_from_an_inner_loop,
    returned_with_an_object,
    kept_in_some_iterations,
    bound_to_a_text,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, X)


def never_bound(x: Any) -> Any:
    for v in x:
        if v > 100:
            found = v
    return found


def text_never_bound(x: Any) -> Any:
    s = x[2]
    while s < 1.0:
        word = "small"
        s = s * 1.5
    return s if word == "small" else -s


def read_too_early(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v < 1.0:
            total += v * last
        else:
            last = v
    return total


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [never_bound, text_never_bound, read_too_early])
def test_unbound(program: Callable[..., Any], backend: str) -> None:
    with pytest.raises(UnboundLocalError) as expected:
        program(X)
    with pytest.raises(UnboundLocalError) as caught:
        tg.grad(program, backend=backend)(X)
    assert str(caught.value).splitlines()[0] == str(expected.value)


NAMES = "abc"


def random_expression(random: Random, depth: int = 0) -> str:
    kind = random.random()
    if kind < 0.3:
        return random.choice(NAMES)
    if depth < 2 and kind > 0.6:
        left, right = (random_expression(random, depth + 1) for _ in range(2))
        return f"({left} {random.choice('+-*')} {right})"
    return random.choice(["v", "v", "0.5", "-0.7"])


def random_block(random: Random, indent: str, depth: int) -> list[str]:
    lines = []
    for _ in range(random.randint(1, 3)):
        kind = random.random()
        test = f"{random.choice(['v', 'w', *NAMES])} < {random.choice(['-0.45', '0.05', '0.95'])}"
        if kind < 0.45:
            lines.append(f"{indent}{random.choice(NAMES)} = {random_expression(random)}")
        elif kind < 0.55:
            lines.append(f"{indent}w = np.sin({random_expression(random)})")
        elif kind < 0.8 and depth < 3:
            lines += [f"{indent}if {test}:", *random_block(random, indent + "    ", depth + 1)]
            if random.random() < 0.5:
                lines += [f"{indent}else:", *random_block(random, indent + "    ", depth + 1)]
        elif kind < 0.9 and depth < 2:
            lines += [f"{indent}for k in range({random.randint(1, 3)}):", *random_block(random, indent + "    ", 2)]
        else:
            lines.append(f"{indent}if {test}: {random.choice(['break', 'continue'])}")
    return lines


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    random = Random(seed)
    bound = [f"    {name} = x[0]" for name in NAMES if random.random() < 0.6]
    lines = ["def f(x):", "    w = 0.3", *bound, "    for v in x:", *random_block(random, "        ", 0)]
    lines += [f"    return w + {random.choice([*NAMES, '0.0'])}", "    a = b = c = 0.0"]
    text = "\n".join(lines) + "\n"
    linecache.cache[f"<names {seed}>"] = (len(text), None, text.splitlines(True), f"<names {seed}>")
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, f"<names {seed}>", "exec"), scope)
    for x in (np.array([0.3, -0.9, 1.3, 0.6]), np.array([1.2, 0.2, -0.7])):
        try:
            expected = scope["f"](x)
        except UnboundLocalError as error:
            with pytest.raises(UnboundLocalError) as caught:
                tg.grad(scope["f"])(x)
            name = str(error).split("'")[1]
            assert f"local variable {name!r}" in str(caught.value), text
        else:
            value, gradient = tg.value_and_grad(scope["f"])(x)
            np.testing.assert_allclose(value, expected, rtol=1e-11, err_msg=text)
            np.testing.assert_allclose(gradient, central_differences(scope["f"], x), 1e-5, 1e-6, err_msg=text)
