"""Dates, fractions and methods of ints: a loop that counts with what only Python can do is unrolled."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.errors import NeedsPythonValue

X = np.array([1.2, 0.6, 0.3, 0.9])
START = datetime.date(2021, 1, 30)
DAYS = np.array(["2021-01-30", "2021-02-02", "2021-03-01", "2021-03-02"], "datetime64[D]")


def timedelta_of_days(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] ** 2 * (START + datetime.timedelta(days=k)).month
    return total


def product_with_a_timedelta(x):
    total = 0.0
    for k in range(len(x)):
        day = START + k * datetime.timedelta(days=1)
        if datetime.timedelta(days=2) > k * datetime.timedelta(1):
            total += x[k]
        total += x[k] ** 2 * day.day
    return total


def quotient_of_a_timedelta(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] ** 2 * (datetime.timedelta(days=7) / (k + 1)).total_seconds()
    return total


def timedelta64_of_days(x):
    total = 0.0
    for k in range(len(x)):
        day = np.datetime64("2021-01-30") + np.timedelta64(k, "D")
        total += x[k] ** 2 * day.astype(object).month
    return total


def datetime64_and_a_number(x):
    total = 0.0
    for k in range(len(x)):
        day = np.datetime64("2021-01-30")
        day += k
        total += x[k] ** 2 * day.astype(object).month
    return total


def items_of_an_array_of_dates(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] ** 2 * ((DAYS[k] - DAYS[0]) / np.timedelta64(1, "D"))
    return total


def fraction_of_a_count(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] ** 2 * float(Fraction(k, 3)) + Fraction(k, 3) * x[k]
    return total


def fractions_and_counts(x):
    total = 0.0
    for k in range(len(x)):
        if Fraction(1, 3) < k:
            total += x[k] ** 2 * float(k - Fraction(1, 3)) * float(Fraction(1, 3) * k)
    return total


def float_times_fraction(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] ** 2 * Fraction(1, 3) - Fraction(2, 5) / x[k]
    return total


def decimal_of_a_count(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] ** 2 * float(Decimal(k) / 3 + (k + Decimal("0.5")))
    return total


def methods_of_ints(x):
    total = 0.0
    for k in range(len(x)):
        total += x[k] ** 2 * k.bit_length() * (k + 3).bit_count() + k.as_integer_ratio()[0] * x[k]
    return total


def methods_of_floats(x):
    total = 0.0
    for k in range(len(x)):
        if (k / 2).is_integer():
            total += x[k] ** 2
        if float(k).is_integer():
            total += x[k]
    return total


PROGRAMS: list[Callable[..., Any]] = [
    timedelta_of_days,
    product_with_a_timedelta,
    quotient_of_a_timedelta,
    timedelta64_of_days,
    datetime64_and_a_number,
    items_of_an_array_of_dates,
    fraction_of_a_count,
    fractions_and_counts,
    float_times_fraction,
    decimal_of_a_count,
    methods_of_ints,
    methods_of_floats,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_loop_is_unrolled(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, X)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_traced_number_is_refused(backend: str) -> None:
    def length(x):
        return x.sum() * (datetime.timedelta(days=x[0]).days + 1)

    def whole(x):
        return x.sum() * float(x[0]).is_integer()

    for program in (length, whole):
        with pytest.raises(NeedsPythonValue, match="Python needs a plain number"):
            tg.grad(program, backend=backend)(X)


def test_errors_of_python_are_its_own() -> None:
    def wrong(x):
        for k in range(len(x)):
            x = x * datetime.timedelta(days=k, years=1).days
        return x.sum()

    with pytest.raises(TypeError, match="years"):
        tg.grad(wrong)(X)

    def no_method(x):
        for k in range(len(x)):
            x = x * k.bits()
        return x.sum()

    with pytest.raises(AttributeError, match="bits"):
        tg.grad(no_method)(X)
