"""What handlers read of exceptions: arguments are the values that were given, texts are printed and decide nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_handlers import POINTS, outcome
from tests.capture.test_ragged import slopes
from tracegrad.errors import NeedsPythonValue


class Unfit(Exception):
    def __init__(self, number, weight=2.0):
        super().__init__(f"number {number}", weight)
        self.number = number * weight
        self.size = 1.0 if number > 3 else 2.0 * number


class Told(ValueError):
    def __init__(self, number):
        self.text = f"told {number:.2f}"

    def __str__(self):
        return self.text


class Plain(ValueError):
    pass


@dataclasses.dataclass
class Record(Exception):
    number: float


class Inner(Unfit):
    def __init__(self, number):
        Unfit.__init__(self, number, 3.0)
        self.same = number


def array(x):
    try:
        if x[0] > 1.5:
            raise ValueError(x)
        return x[1]
    except ValueError as error:
        return len(error.args[0]) * x[0] + error.args[0][1] ** 2


def number(x):
    try:
        if x[0] > 1.5:
            raise Plain(x[0] * 3, "m")
        return x[1]
    except ValueError as error:
        return error.args[0] * x[1] + len(error.args[1])


def unpacked(x):
    try:
        if x[0] > 1.5:
            raise Plain(x[0] * 3)
        return x[1]
    except ValueError as error:
        (v,) = error.args
        return v * 2


def key(x):
    d = {1: x[0], 2: x[1]}
    try:
        return d[int(x[0] * 1.5)]
    except KeyError as error:
        return x[0] * error.args[0]


def asserted(x):
    try:
        assert x[0] < 1.5, x[1] * x[0]
    except AssertionError as error:
        return error.args[0] * x[1]
    return x[2]


def own_class(x):
    try:
        if x[0] > 1.5:
            raise Unfit(x[0] * x[1])
        return x[1]
    except Unfit as error:
        _, weight = error.args
        return error.number + error.size * weight


def given_on(x):
    try:
        if x[0] > 1.5:
            raise Unfit(x[0] * 3, weight=x[1])
        return x[1]
    except Unfit as error:
        try:
            raise Plain(*error.args) from error
        except Plain as other:
            return other.args[1] * 3 + other.__cause__.number


def extended(x):
    try:
        if x[0] > 1.5:
            raise ValueError(f"at {x[0]}")
        return x[1]
    except ValueError as error:
        error.args = (*error.args, x[0] * 2)
        return error.args[1] * x[1]


def without_arguments(x):
    try:
        if x[0] > 1.5:
            raise ValueError
        return x[1]
    except ValueError as error:
        return x[0] + len(error.args) + len(str(error))


def division(x):
    try:
        return float(x[1]) / (float(x[0]) - 1.7)
    except ZeroDivisionError as error:
        return len(str(error)) * x[1]


def whole_division(x):
    total = 0.0
    for divide in (lambda a, b: a / b, lambda a, b: a // b, lambda a, b: a % b):
        for kind in (int, float):
            try:
                total += divide(kind(7), kind(int(x[0])) - 1)
            except ZeroDivisionError as error:
                total += len(str(error)) * x[1]
    return total


def record(x):
    try:
        if x[0] > 1.5:
            raise Record(x[0] * x[1])
        return x[1]
    except Record as error:
        return error.number * 3


def derived(x):
    try:
        if x[0] > 1.5:
            raise Inner(x[0] * x[1])
        return x[1]
    except Unfit as error:
        return error.same * error.number + error.args[1]


PROGRAMS = [
    record,
    derived,
    array,
    number,
    unpacked,
    key,
    own_class,
    given_on,
    extended,
    without_arguments,
    division,
    whole_division,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python(f: Callable[[Any], Any], backend: Any) -> None:
    traced = tg.value_and_grad(f, backend=backend)
    for x in POINTS:
        value, gradient = traced(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        if f not in (division, whole_division) or x[0] not in (1.7, 1.1, 1.3):
            np.testing.assert_allclose(gradient, slopes(f, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_is_asserted(backend: Any) -> None:
    # pytest puts a text in the place of the argument in the plain function
    value, gradient = tg.value_and_grad(asserted, backend=backend)(POINTS[1])
    a, b, _ = POINTS[1]
    np.testing.assert_allclose(value, a * b * b, rtol=1e-12)
    np.testing.assert_allclose(gradient, [b * b, 2 * a * b, 0.0], rtol=1e-12)


def _failing(read: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def f(x):
        try:
            if x[0] > 1.5:
                raise ValueError(f"at {x[0]}")
            return x[1]
        except ValueError as error:
            return read(error, x)

    return f


@pytest.mark.parametrize(
    "read",
    [
        lambda error, x: x[0] if "1.7" in str(error) else x[1],
        lambda error, x: len(str(error)) * x[0],
        lambda error, x: len(f"{error}") * x[0],
        lambda error, x: len(error.args[0]) * x[0],
        lambda error, x: x[0] if str(error) == "at 1.7" else x[1],
        lambda error, x: x[0] if error.args[0].startswith("at") else x[1],
        lambda error, x: x[0] if repr(error)[0] == "V" else x[1],
        lambda error, x: {"at 1.7": x[0]}[str(error)],
    ],
)
def test_a_text_of_values_decides_nothing(read: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(NeedsPythonValue, match="TG101"):
        tg.grad(_failing(read))(POINTS[3])


def test_a_text_that_differs_from_that_of_python_decides_nothing() -> None:
    def f(x):
        try:
            return [x[0], x[1]][int(x[2])]
        except IndexError as error:
            return len(str(error)) * x[0]

    with pytest.raises(NeedsPythonValue, match="TG101"):
        tg.grad(f)(POINTS[3])


def shown(x):
    for raised in (lambda v: ValueError(f"at {v}"), Told, lambda v: Plain(v, "m"), lambda v: KeyError(v), Plain):
        try:
            if x[0] > 1.5:
                raise raised(float(x[0]))
        except (ValueError, KeyError) as error:
            print(error, str(error), f"<{error}>", sep="|")
            if not isinstance(error, Told):
                print(repr(error), error.args, error.args[0])
    return x[0]


def test_texts_are_printed(capsys: Any) -> None:
    shown(POINTS[3])
    expected = capsys.readouterr().out
    assert expected
    tg.function(shown, backend="numpy")(POINTS[3])
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_an_error_with_its_own_text_leaves(backend: Any) -> None:
    def f(x):
        if x[0] > 1.5:
            raise Told(float(x[0]))
        return x[1]

    assert outcome(tg.function(f, backend=backend), POINTS[3]) == ("ValueError", "Told: told <value>")
