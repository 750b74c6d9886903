"""C text of loops that read and write single elements: no array is copied in a loop, and results are right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.codegen.programs import arguments, make_program
from tests.codegen.test_c_source import assert_agree
from tracegrad.codegen import c_elements, c_storage, c_writer
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.passes.manager import run_passes
from tracegrad.transform.vjp import gradient

#: length of the arrays of the programs, which appears in the text wherever a whole array is walked
N = 997


def integrator(x, n):
    s = np.array([1.0, 0.0]) * x
    out = np.zeros(n)
    for i in range(n):
        s = s + 1e-3 * np.array([s[1], -s[0]])
        out[i] = s[0]
    return np.sum(out**2)


def appended(x, n):
    s = np.array([1.0, 0.0]) * x
    out = []
    for _ in range(n):
        s = s + 1e-3 * np.array([s[1], -s[0]])
        out.append(s[0])
    return np.sum(np.array(out) ** 2)


def two_arrays(x, n):
    q = np.zeros(n)
    p = np.zeros(n)
    q[0] = x
    for i in range(n - 1):
        half = p[i] - 0.005 * np.sin(q[i])
        q[i + 1] = q[i] + 0.01 * half
        p[i + 1] = half - 0.005 * np.sin(q[i + 1])
    return np.sum(q**2) + p[n - 1]


def added_in_place(x, n):
    a = np.ones(n) * x
    for i in range(1, n):
        a[i] += 0.5 * np.sin(a[i - 1])
        a[i - 1] *= a[i]
    return np.sum(a)


def chosen_by_branch(x, n):
    a = np.zeros(n)
    s = x
    for i in range(n):
        s = 0.9 * np.sin(s) + 0.1
        if s > 0.5:
            a[i] = s * s
        else:
            a[i] = np.cos(s)
    return np.sum(a)


def rolling_buffer(x, n):
    buffer = np.zeros(20)
    out = np.zeros(n)
    s = x
    for k in range(n):
        s = np.sin(s) + 0.2
        buffer[k % 20] = s
        out[k] = np.mean(buffer) * buffer[(k + 1) % 20]
    return np.sum(out**2)


def swapped(x, n):
    a = np.ones(n) * x
    b = np.ones(n) * 0.5 * x
    for i in range(n):
        a[i] = a[i] * b[i]
        a, b = b, a
    return np.sum(a * a) + np.sum(b)


def rotated(x, n):
    a = np.ones(n) * x
    b = np.ones(n) * 0.5 * x
    c = np.ones(n) * 0.7 * x
    for i in range(n):
        a[i] = a[i] * b[i] + c[i]
        a, b, c = b, c, a
    return np.sum(a * a) + np.sum(b) + np.sum(b * c)


def rows(x, n):
    m = np.zeros((n, 30))
    m[0] = x * np.arange(30.0) / 30
    for i in range(1, n):
        m[i] = 0.9 * np.sin(m[i - 1]) + 0.1 * m[i - 1, ::-1]
    return np.sum(m * m)


def stencil(x, n):
    m = np.zeros((n, 30))
    m[0] = x * np.arange(30.0) / 30
    for i in range(1, n):
        m[i, 1:-1] = m[i - 1, 1:-1] + 0.1 * (m[i - 1, 2:] - 2 * m[i - 1, 1:-1] + m[i - 1, :-2])
        m[i, 0] = m[i, 1]
        m[i, -1] = m[i, -2] ** 2 * 0.01
    return np.sum(m * m)


def columns(x, n):
    m = np.zeros((4, n))
    m[:, 0] = x * np.arange(4.0)
    for i in range(n - 1):
        m[:, i + 1] = 0.9 * m[::-1, i] + 0.1 * np.sin(m[:, i])
    return m[1, n - 1] ** 2 + m[0, n - 2]


def last_of_a_list(x, n):
    ys = [x]
    for _ in range(n):
        ys.append(ys[-1] + 1e-3 * np.sin(ys[-1]))
    return np.sum(np.array(ys) ** 2)


def windows(x, n):
    a = np.ones(n) * x
    for i in range(n - 3):
        a[i : i + 3] = a[i : i + 3] * 0.9 + 0.1 * np.sin(a[i + 1])
    return np.sum(a)


def neighbours(x, n):
    a = np.sin(x * np.arange(n))
    for i in range(n - 1):
        if a[i] > a[i + 1]:
            a[i], a[i + 1] = a[i + 1], a[i]
    return np.sum(a * np.arange(n)) / n


PROGRAMS = [
    integrator, appended, two_arrays, added_in_place, chosen_by_branch, rolling_buffer, swapped, rotated, rows, stencil,
    columns, last_of_a_list, windows, neighbours,
]  # fmt: skip


def whole_array_work(text: str) -> list[str]:
    """Return the lines of C text, inside loops of 100 steps or more, that copy arrays or walk all N elements."""
    found: list[str] = []
    loops: list[bool] = []
    for line in map(str.strip, text.splitlines()):
        if any(loops) and ("memcpy(" in line or re.match(rf"for \(int64_t \w+ = 0; \w+ < {N}\d*;", line)):
            found.append(line)
        if line.startswith("}"):
            loops.pop()
        if line.endswith("{"):
            loops.append(re.match(r"(for|while) (?!.*; \w+ < \d?\d;)", line) is not None)
    return found


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("transform", [tg.function, tg.grad])
def test_loops_do_not_copy_arrays(program: Callable[..., Any], transform: Callable[..., Any]) -> None:
    compiled = transform(program, backend="c")
    text = compiled.source(0.7, N)
    assert whole_array_work(text[text.index("_entry(") :]) == []
    np.testing.assert_allclose(compiled(0.7, N), transform(program, backend="numpy")(0.7, N), rtol=1e-9)


def gradient_of(function: Function) -> Function:
    """Return the gradient of one number made from the last result of a random program."""
    last = function.results[-1]
    if last.shape:
        builder = Builder(function.body)
        sines = builder.apply(TABLE["sin"], [last], {})
        last = builder.apply(TABLE["reduce_sum"], [sines], {"axes": tuple(range(len(last.shape)))})
    assert isinstance(last, Value)
    function.body.yields = [last]
    return run_passes(gradient(function, (0, 1, 2, 3)))


@pytest.mark.parametrize("of_gradient", [False, True])
@pytest.mark.parametrize("seed", [*range(100, 107), 5001])
def test_random_programs_with_arrays_in_memory(seed: int, of_gradient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are treated as large: written in place, and exchanged by pointers."""
    monkeypatch.setattr(c_elements, "SMALL", 0 if seed % 2 else 16)
    for module in (c_elements, c_storage, c_writer):
        monkeypatch.setattr(module, "LOCAL", 1)
    function = make_program(seed)
    assert_agree(gradient_of(function) if of_gradient else function, *arguments(), flags=("-O1",), scale=1000.0)
