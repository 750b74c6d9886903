"""`values * n` by a number that is traced, and `values += array`, which Python leaves to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import NeedsPythonValue

X = np.array([1.2, 2.3, 3.1, 0.5])


def _by_loop_number(x: Any) -> Any:
    total = 0.0
    for i in range(4):
        row = [x[i]] * i
        total += sum(row) + len(row)
    return total


def _weights(x: Any) -> Any:
    part = x[x > 0.7]
    w = [1 / len(part)] * len(part)
    return np.sum(np.array(w) * part) + np.dot([2.0] * len(part), part)


def _pairs(x: Any) -> Any:
    values = int(x[1]) * [0.5, x[0]]
    records = [(x[0], 1)] * int(x[1])
    return sum(values) + 10 * len(values) + sum(a * b for a, b in records)


def _joined(x: Any) -> Any:
    total = 0.0
    for i in range(3):
        row = [0.0] * i + [x[i]]
        total += row[-1] * (i + 1) + len(row)
    return total


def _extended(x: Any) -> Any:
    w = int(x[1])
    values: list[Any] = []
    values.extend([x[0]] * w)
    values += [x[2]] * w
    return sum(values) + len(values) + np.array([x[0]] * w + [x[2]] * (3 - w)).sum()


def _written(x: Any) -> Any:
    part = x[x > 0.7]
    out = [0.0] * len(part)
    for i in range(len(part)):
        out[i] = part[i] ** 2
    return sum(out)


def _triangle(x: Any) -> Any:
    total = 0.0
    for i in range(4):
        row = [1.0] * (i + 1)
        for j in range(1, i):
            row[j] = row[j] + x[j]
        total += sum(row)
    return total


def _twice(x: Any) -> Any:
    values = [v for v in x if v > 0.7]
    both = values * 2
    return sum(both) + len(both)


def _added(x: Any) -> Any:
    a: Any = [x[0]]
    a += x
    b: Any = [0.0] * 4
    b += x * 2
    c: Any = [x[0], 1.0]
    c += x[1]
    return sum(a) + 10.0 * len(a) + sum(b) * len(b) + sum(c)


def _multiplied(x: Any) -> Any:
    a: Any = [x[0], x[1]]
    a *= x[:2]
    return a.sum()


def _appended(x: Any) -> Any:
    values = [x[0]]
    other = values
    for v in x:
        values += [v]
    i = 0
    while i < 3:
        values += [x[i]]
        i += 1
    return sum(other) + len(other)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        _by_loop_number,
        _weights,
        _pairs,
        _joined,
        _extended,
        _written,
        _triangle,
        _twice,
        _added,
        _multiplied,
        _appended,
    ],
)
def test_lists_and_numbers(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, X, X[[1, 0, 2, 3]])


def test_repeated_by_what_is_no_int_is_the_error_of_python() -> None:
    for program in (lambda x: [x[0]] * x[1], lambda x: [x[0]] * (x[1] > 1)):
        with pytest.raises(TypeError, match="can't multiply sequence by non-int"):
            tg.function(program)(X)


def test_what_has_no_form_for_a_traced_number_is_refused() -> None:
    def in_place(x: Any) -> Any:
        values = [x[0]]
        values *= int(x[1])
        return sum(values)

    def of_tuple(x: Any) -> Any:
        return sum((x[0],) * int(x[1]))

    for program in (in_place, of_tuple):
        with pytest.raises(NeedsPythonValue, match="TG101"):
            tg.function(program)(X)
