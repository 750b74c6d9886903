"""Loops that write through views and bind names anew: as Python has them, or refused; never another value."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import TracegradError

X = np.array([0.3, -0.2, 0.5, 0.1, -0.4, 0.25])
STEPS = 300


def views_taken_before(s):
    pos, vel = s[:3], s[3:]
    for _ in range(STEPS):
        vel -= 0.01 * pos
        pos += 0.01 * vel
    return np.sum(pos**2) + np.sum(vel)


def argument_and_view(s):
    q = s[:3]
    for _ in range(STEPS):
        q *= 0.999
        s[3:] += 0.01 * q
    return np.sum(s**3)


def nested_loops(s):
    a, b = s[::2], s[1::2]
    for _ in range(STEPS):
        for _ in range(2):
            a += 0.001 * b
            b -= 0.001 * a
        if a[0] > 0.5:
            a *= 0.9
    return np.sum(s**2)


def rows(s):
    m = s.reshape(2, 3)
    first = m[0]
    for _ in range(STEPS):
        first += 0.001 * m[1]
        m[1] *= 0.999
        s[0] *= 0.999
    return np.sum(m**2)


def views_in_a_dict(s):
    state = {"p": s[:3], "v": s[3:]}
    for _ in range(STEPS):
        state["v"] -= 0.01 * state["p"]
        state["p"] += 0.01 * state["v"]
    return np.sum(s**2)


def while_loop(s):
    a, b, t = s[:3], s[3:], 0.0
    while t < 5.0:
        a -= 0.01 * b
        b += 0.01 * a
        t += 0.01 + 0.0 * s[0]
    return np.sum(s**2)


def arguments_change_places(s):
    u, v = s, s * 0.5
    for _ in range(STEPS + 1):
        v[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u, v = v, u
    s[0] *= 2.0
    return np.sum(u**2) + np.sum(s)


def view_of_the_last_iteration(s):
    for _ in range(STEPS):
        part = s[1:4]
        part *= 0.999
    s[2] = 5.0 * s[0]
    return np.sum(part**2)


def places_change_until_convergence(u):
    v, d, w = u * 0.5, 1.0 + 0.0 * u[0], u
    while d > 0.1:
        v[1:-1] = 0.5 * (u[2:] + u[:-2])
        d = d * 0.5
        u, v = v, u
    u[0] = 3.0 * v[1]
    w[2] *= 2.0
    return np.sum(u**2) + np.sum(v) + np.sum(w**3)


def three_change_places(u):
    a, b, c, d = u, u * 2.0, u * 3.0, 1.0 + 0.0 * u[0]
    kept = (a, b, c)
    while d > 0.1:
        a[1] += 0.1 * b[0]
        d *= 0.5
        a, b, c = b, c, a
    b *= 1.5
    return np.sum(a) + 2 * np.sum(b**2) + sum((i + 1) * np.sum(k) for i, k in enumerate(kept))


def places_change_until_break(u):
    v = u * 0.5
    for i in range(STEPS):
        v[1:-1] = 0.5 * (u[2:] + u[:-2])
        u, v = v, u
        if i > 4 + 0.0 * u[0]:
            break
    return np.sum(u**2) + np.sum(v)


def two_names_where_nothing_runs(a):
    b, d = a * 0.5, 1.0 + 0.0 * a[0]
    while d > 2.0:
        d = d * 0.5
        b = b * 0.9
        a = b
    return np.sum(a**2) + np.sum(b)


PROGRAMS = [f for f in list(globals().values()) if getattr(f, "__module__", "") == __name__ and callable(f)]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_staged_as_python_runs_it(program: Callable[..., Any], backend: str) -> None:
    expected, left = X.copy(), X.copy()
    value = program(expected)
    assert float(tg.function(program, backend=backend)(left)) == pytest.approx(float(value), rel=1e-11)
    np.testing.assert_allclose(left, expected, rtol=1e-11)
    gradient = tg.grad(program, backend=backend)
    ct = gradient(X.copy())
    for k, unit in enumerate(np.eye(len(X))):
        slope = (program(X + 1e-6 * unit) - program(X - 1e-6 * unit)) / 2e-6
        assert float(ct[k]) == pytest.approx(float(slope), rel=1e-6, abs=1e-6)
    assert gradient.source(X.copy(), backend="numpy").count("\n") < STEPS


class Writer:
    """Writes a program with views and copies of one array under a few names, loops, branches and writes in place."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def name(self) -> str:
        return self.one("a", "b", "c")

    def value(self) -> str:
        x, y = self.name(), self.name()
        return self.one(
            f"0.3 * {x}", f"{x} * {y} * 0.1", f"{x} - 0.2 * {y}", f"np.sin({x})", f"{x}[::-1] * 0.5", "s[:3] * 0.2"
        )

    def part(self) -> str:
        x = self.name()
        return self.one(
            "s[:3]", "s[3:]", "s[::2]", "s[1::2]", "s[2:5]", x, f"{x}[::-1]", f"{x}.copy()", f"{x}.reshape(3, 1)[:, 0]"
        )

    def statement(self, indent: str, depth: int) -> list[str]:
        x, y, z = self.random.sample("abc", 3)
        choice = self.random.random()
        if depth < 2 and choice < 0.15:
            test = self.one("0.1", "t", f"{y}[1]")
            lines = [f"{indent}if {x}[0] > {test}:", *self.block(indent + "    ", depth + 1)]
            return [*lines, f"{indent}else:", *self.block(indent + "    ", depth + 1)] if choice < 0.06 else lines
        if depth < 2 and choice < 0.25:
            return [f"{indent}for _ in range({self.one('3', '4')}):", *self.block(indent + "    ", depth + 1)]
        line = self.one(
            *[f"{x} {self.one('+=', '-=', '*=')} {self.value()}"] * 3,
            f"{x}[{self.one('0', '1', '-1', ':2', '1:', '...')}] {self.one('=', '+=')} 0.3 * {y}[{self.one('0', '2')}]",
            f"{x}[:] = {self.value()}",
            f"s[{self.one('0', '2', '3', '5')}] {self.one('=', '+=', '*=')} {x}[1]",
            f"{x} = {self.part()}",
            f"{x} = {self.value()}",
            f"{x}, {y} = {y}, {x}",
            f"{x}, {y}, {z} = {y}, {z}, {x}",
            f"t = t + {x}[0]",
            f"d['k'] {self.one('=', '+=', '*=')} {self.value()}",
        )
        return [indent + line]

    def block(self, indent: str, depth: int) -> list[str]:
        return [line for _ in range(self.random.randint(1, 4)) for line in self.statement(indent, depth)]

    def program(self) -> str:
        head = self.one("for i in range(4):", "for i in range(3):", "while t < 1.0:\n        t = t + 0.3 + 0.0 * s[0]")
        return "\n".join(
            [
                "def program(s):",
                "    t = 0.0",
                f"    a = {self.one('s[:3]', 's[::2]', 's[:3].copy()')}",
                f"    b = {self.one('s[3:]', 's[1::2]', 's[3:].copy()', 'a')}",
                f"    c = {self.one('s[2:5]', 'a[::-1]', 'np.ones(3)', 's[3:] * 1.0')}",
                f"    d = {{'k': {self.one('s[1:4]', 'a', 'b * 1.0')}}}",
                f"    {head}",
                *self.block("        ", 0),
                *self.statement("    ", 2),
                "    return np.sum(s**2) + t + np.sum(a * b) + np.sum(c**2) + np.sum(d['k'])",
            ]
        )


def known_contents_change_places(x):
    a, b = np.zeros(2), np.ones(2)
    third = b
    total = 0.0
    for _ in range(3):
        a[:] = b * x
        total += third[0]
        a, b = b, a
    return total


def known_contents_in_a_dict(x):
    d = {"a": np.zeros(2), "b": np.ones(2)}
    view = d["b"][1:]
    total = 0.0
    for _ in range(12):
        d["a"][:] = d["b"] * x
        total += view[0]
        d["a"], d["b"] = d["b"], d["a"]
    return total


def known_contents_in_a_list(x):
    a, b = np.zeros(2), np.ones(2)
    both = [a, b]
    total = 0.0
    for _ in range(3):
        a[:] = b * x
        total += both[0].sum()
        a, b = b, a
    return total


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", [known_contents_change_places, known_contents_in_a_dict, known_contents_in_a_list])
def test_known_contents_that_change_places_are_read_under_a_third_name(f: Callable[..., Any], backend: str) -> None:
    value, slope = tg.value_and_grad(f, backend=backend)(2.0)
    assert value == f(2.0)
    assert slope == pytest.approx((f(2.0 + 1e-6) - f(2.0 - 1e-6)) / 2e-6, rel=1e-6)


def load(text: str, name: str) -> Callable[..., Any]:
    """Return the function of a text that has a file name, so that its source is found."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {"np": np, "__name__": __name__}
    exec(compile(text, name, "exec"), scope)
    program: Callable[..., Any] = scope["program"]
    return program


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_random_programs_never_give_another_value(first: int) -> None:
    captured = 0
    for seed in range(first, first + 30):
        text = Writer(seed).program()
        program = load(text, f"<sharing {seed}>")
        for x in (X, -X[::-1].copy()):
            expected = x.copy()
            value = program(expected)
            got = x.copy()
            try:
                result = float(tg.function(program, backend="numpy")(got))
            except TracegradError:
                break
            assert result == pytest.approx(float(value), rel=1e-9, abs=1e-12), text
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12, err_msg=text)
        else:
            captured += 1
    assert captured >= 15
