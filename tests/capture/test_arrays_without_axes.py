"""Augmented assignment to arrays without axes writes into them, under all names and for the caller; numbers are bound
anew."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError, NeedsPythonValue, TracegradError

KINDS: tuple[Callable[[float], Any], ...] = (np.array, np.float64, float)


def difference(f: Callable[[float], Any], x: float) -> Any:
    """Return the slope of f at a number."""
    return central_differences(lambda vector: f(float(vector[0])), np.array([x]))[0]


def second_name(a: Any, q: Any) -> Any:
    b = a
    b += 1.0
    b *= q
    return a * q + b


def every_operator(a: Any, q: Any) -> Any:
    b = a
    b -= 0.5
    b /= 2.0
    b **= 2
    b //= 0.3
    b %= 4.0
    return a * q + b


def divided_in_a_while_loop(a: Any, q: Any) -> Any:
    b = a
    while b > 1.0:
        b /= 2.0
        q = q * 1.1 + a
    return q * (a + 1.0)


def read_in_a_loop(a: Any, q: Any) -> Any:
    b = a
    total = 0.0
    for i in range(4):
        b += 0.1 * (i + 1)
        total += a * q
    return total + b


def written_in_nested_loops(a: Any, q: Any) -> Any:
    b = a
    total = 0.0
    for _ in range(2):
        total += 0.5 * a
        for _ in range(3):
            total += b * q
            a += 0.25
    return total + b * a


def written_under_a_condition(a: Any, q: Any) -> Any:
    b = a
    if q > 1.0:
        b += 2.0
    else:
        b *= 3.0
    return a * q


def one_of_two(a: Any, q: Any) -> Any:
    other = np.array(0.5)
    b = np.asarray(a) if q > 1.0 else other
    b += 2.0
    return a * q + 3.0 * other


def of_a_result(a: Any, q: Any) -> Any:
    b = a + 1.0
    c = b
    c += 10.0
    return b * q


def of_an_element(a: Any, q: Any) -> Any:
    row = np.array([1.0, 2.0]) * q
    b = row[1]
    b += a
    return row[1] * q + b


def of_a_new_array(a: Any, q: Any) -> Any:
    total = np.zeros(())
    seen = total
    for i in range(3):
        total += q * i
        total[...] = total * 1.5
    return seen * a


def of_a_copy(a: Any, q: Any) -> Any:
    b = np.copy(a)
    c = b
    c += q
    return a * b


def of_a_reshaped(a: Any, q: Any) -> Any:
    b = np.reshape(a, ())
    b += q
    return a * b


def of_a_flipped(a: Any, q: Any) -> Any:
    b = np.flip(a)
    b += 1.0
    return a * q + b


def of_a_conjugate(a: Any, q: Any) -> Any:
    b = a.conj() if isinstance(a, np.ndarray) else a
    b += 1.0
    return a * q + b


def of_where(a: Any, q: Any) -> Any:
    b = np.where(q > 1.0, a, 2.0)
    c = b
    c += q
    return a * b


def of_a_sum(a: Any, q: Any) -> Any:
    b = np.sum(a)
    b += q
    return a * b


def first_an_array(a: Any, q: Any) -> Any:
    for _ in range(4):
        a += q
        a = a * 1.5
    return a


def appended_after_a_write(a: Any, q: Any) -> Any:
    seen = []
    for i in range(3):
        b = np.array(q * i)
        b += a
        seen.append(b)
    return sum(v * (i + 1.0) for i, v in enumerate(seen))


def by_out(a: Any, q: Any) -> Any:
    b = a
    np.multiply(a, q, out=np.asarray(b)) if isinstance(a, np.ndarray) else None
    return a * q


def in_a_helper(a: Any, q: Any) -> Any:
    def change(v: Any) -> None:
        v += 3.0

    change(a)
    return a * q


PROGRAMS = (
    second_name,
    every_operator,
    divided_in_a_while_loop,
    read_in_a_loop,
    written_in_nested_loops,
    written_under_a_condition,
    one_of_two,
    of_a_result,
    of_an_element,
    of_a_new_array,
    of_a_copy,
    of_a_reshaped,
    of_a_flipped,
    of_a_conjugate,
    of_where,
    of_a_sum,
    first_an_array,
    appended_after_a_write,
    by_out,
    in_a_helper,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_python_has_it(program: Callable[..., Any], kind: Callable[[float], Any], backend: str) -> None:
    for q in (1.5, 0.7):
        expected_argument, argument = kind(5.3), kind(5.3)
        expected = program(expected_argument, q)
        compiled = tg.value_and_grad(program, argnums=1, backend=backend)
        value, slope = compiled(argument, q)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        assert argument == expected_argument
        np.testing.assert_allclose(slope, difference(lambda p: program(kind(5.3), p), q), rtol=1e-5)
        assert compiled(kind(5.3), q)[0] == value
    by_the_first = tg.grad(program, backend=backend)(kind(5.3), 1.5)
    np.testing.assert_allclose(by_the_first, difference(lambda p: program(kind(p), 1.5), 5.3), rtol=1e-5)


def countdown(n: Any, q: Any) -> Any:
    k = n
    while k > 0:
        k -= 1
        q = q * 1.1
    return q * (n + 1)


def bits(n: Any, q: Any) -> Any:
    k = n
    k |= 8
    k >>= 1
    k **= 2
    k //= 3
    k ^= 5
    k &= 62
    k <<= 1
    return q * n + k


def in_a_dict(d: Any, q: Any) -> Any:
    k = d["n"]
    k += 2
    d["m"] *= 2
    return q * d["n"] * d["m"]


def plain(n: Any, q: Any) -> Any:
    n += 1
    return n * q


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [np.array, np.int64, int], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("program", [countdown, bits, plain], ids=lambda program: program.__name__)
def test_ints(program: Callable[..., Any], kind: Callable[[int], Any], backend: str) -> None:
    expected_argument, argument = kind(5), kind(5)
    expected = program(expected_argument, 1.5)
    value, slope = tg.value_and_grad(program, argnums=1, backend=backend)(argument, 1.5)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert argument == expected_argument
    np.testing.assert_allclose(slope, difference(lambda q: program(kind(5), q), 1.5), rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_items_of_a_dict(backend: str) -> None:
    given = {"n": np.array(3), "m": np.array(0.5)}
    expected = copy.deepcopy(given)
    value = in_a_dict(expected, 1.5)
    kept = given["m"]
    assert tg.function(in_a_dict, backend=backend)(given, 1.5) == value
    assert given == expected and given["m"] is kept


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_array_and_a_number_are_two_specializations(backend: str) -> None:
    compiled = tg.function(second_name, backend=backend)
    for _ in range(2):
        for kind in KINDS:
            argument, expected = kind(2.0), kind(2.0)
            assert compiled(argument, 1.5) == second_name(expected, 1.5) and argument == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_array_from_outside(backend: str) -> None:
    state = np.array(1.0)

    def advance(q: Any) -> Any:
        now = state
        now += q
        return now * 2.0

    compiled = tg.function(advance, backend=backend)
    assert [compiled(0.5), compiled(0.25)] == [3.0, 3.5] and state == 1.75


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tensor_is_an_array(backend: str) -> None:
    argument = tg.tensor(5.0, dtype=tg.float64)
    result = tg.function(second_name, backend=backend)(argument, 1.5)
    assert float(result) == 9.0 * 1.5 + 9.0 and float(argument) == 9.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_ints_take_no_floats(backend: str) -> None:
    def halve(n: Any, q: Any) -> Any:
        n /= 2
        return n * q

    for divide in (halve, lambda n, q: n.__iadd__(q)):
        with pytest.raises(TypeError):
            divide(np.array(4), 1.5)
        with pytest.raises(TypeError):
            tg.function(divide, backend=backend)(np.array(4), 1.5)


def test_an_array_on_one_path_only_is_refused() -> None:
    def either(a: Any, q: Any) -> Any:
        b = a if q > 1.0 else 2.0
        b += q
        return a * b

    with pytest.raises((CaptureError, NeedsPythonValue), match="an array without axes in one case, and a number"):
        tg.function(either)(np.array(5.0), 1.5)
    assert tg.function(either)(5.0, 1.5) == either(5.0, 1.5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_written_in_a_recursion(backend: str) -> None:
    def count_down(n: Any, q: Any) -> Any:
        if n <= 0:
            return q
        n -= 1
        return count_down(n, q * 1.5)

    compiled = tg.function(count_down, backend=backend)
    assert compiled(np.float64(3.0), 1.0) == 1.5**3
    with pytest.raises(TracegradError, match="count_down"):
        compiled(np.array(3.0), 1.0)
