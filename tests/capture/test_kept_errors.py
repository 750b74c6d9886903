"""Exceptions that handlers keep, to raise or ask them later: which one it is may depend on traced values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.errors import NeedsPythonValue


class Failed(Exception):
    pass


class Flat(Failed):
    pass


class Missed(Failed):
    def __init__(self, text: str, by: Any) -> None:
        super().__init__(text)
        self.by = by


def one(x: Any) -> Any:
    if x > 3.0:
        raise Flat("flat")
    if x > 1.0:
        raise Failed("one")
    return x


def two(x: Any) -> Any:
    if x > 0.5:
        raise Failed("two")
    return x


def bisect(x: Any) -> Any:
    for _ in range(15):
        if abs(x) < 1e-6:
            raise Flat("flat")
        x = x * 0.5
        if abs(x - 0.1) < 0.05:
            return x
    raise Failed("steps")


def methods_in_turn(x: Any) -> Any:
    last = None
    for attempt in (one, two):
        try:
            result = attempt(x)
        except Failed as error:
            last = error
        else:
            break
    else:
        raise last
    return result


def two_handlers(x: Any) -> Any:
    last = None
    for attempt in (one, two):
        try:
            result = attempt(x)
        except Flat as error:
            last = error
        except Failed as error:
            last = error
        else:
            break
    else:
        raise last
    return result


def two_handlers_without_a_loop(x: Any) -> Any:
    last = None
    try:
        result = one(x)
    except Flat as error:
        last = error
    except Failed as error:
        last = error
    if last is not None:
        raise last
    return result


def retries_of_a_loop(x: Any) -> Any:
    last = None
    for _ in range(2):
        try:
            result = bisect(x)
        except Flat as error:
            last = error
        except Failed as error:
            last = error
        else:
            break
        x = x + 1000.0
    else:
        raise last
    return result


def many_retries(x: Any) -> Any:
    last = None
    for _ in range(200):
        try:
            result = one(x)
            break
        except Failed as error:
            last = error
            x = x - 0.01
    else:
        raise last
    return result + (1.0 if last is not None else 0.0)


def caught_by_class(x: Any) -> Any:
    last = None
    for _ in range(3):
        try:
            result = one(x)
            break
        except Flat as error:
            last = error
            x = x - 0.7
        except Failed as error:
            last = error
            x = x - 0.2
    else:
        try:
            raise last
        except Flat:
            return 10 * x
        except Failed:
            return 20 * x
    return result if last is None else result * 3


def asked_for_its_class(x: Any) -> Any:
    last, count = None, 0
    while count < 500:
        count += 1
        try:
            result = one(x)
            break
        except Flat as error:
            last = error
            x = x * 0.99
        except Failed as error:
            last = error
            x = x - 0.003
    else:
        return -1.0
    if isinstance(last, Flat):
        return result * 2
    if isinstance(last, Failed):
        return result * 3
    return result


def asked_for_its_text(x: Any) -> Any:
    last = Failed("none")
    try:
        result = one(x)
    except Failed as error:
        last = error
        result = 2 * x
    if str(last) == "flat":
        return result * 5
    return result * 7 if last.args[0] == "one" else result


def text_and_number(x: Any) -> Any:
    kept = None
    try:
        if x > 3:
            raise Missed("far", x)
        if x > 1:
            raise Missed("near", x * 2)
    except Missed as error:
        kept = error
    if kept is not None:
        if kept.by > 4:
            raise kept
        return kept.by * x
    return x


def first_of_several(x: Any) -> Any:
    first = None
    for _ in range(4):
        try:
            return one(x)
        except Failed as error:
            if first is None:
                first = error
            x = x - 0.6
    raise first


def raised_by_math(x: Any) -> Any:
    last = None
    for _ in range(3):
        try:
            return math.sqrt(1 - x) + math.log(x)
        except ValueError as error:
            last = error
            x = x - 0.5
    raise last


def of_user_and_math(x: Any) -> Any:
    last = None
    for attempt in (one, math.sqrt):
        try:
            return attempt(x - 2.2)
        except (Failed, ValueError) as error:
            last = error
            x = x - 3.4
    raise last


def as_a_cause(x: Any) -> Any:
    last = None
    for attempt in (one, two):
        try:
            return attempt(x)
        except Failed as error:
            last = error
    raise RuntimeError("all failed") from last


def chosen_before(x: Any) -> Any:
    error = ValueError("large") if x > 1 else KeyError("small")
    if abs(x) > 0.8:
        raise error
    return x


PROGRAMS = [
    methods_in_turn,
    two_handlers,
    two_handlers_without_a_loop,
    retries_of_a_loop,
    many_retries,
    caught_by_class,
    asked_for_its_class,
    asked_for_its_text,
    text_and_number,
    first_of_several,
    raised_by_math,
    of_user_and_math,
    as_a_cause,
    chosen_before,
]


def outcome(f: Callable[..., Any], x: float) -> Any:
    try:
        return f(x)
    except Exception as error:
        kind, text = type(error).__name__, str(error).partition("\n")[0]
        return text if kind == "Exception" else f"{kind}: {text}"


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_as_python(f: Callable[[Any], Any], backend: Any) -> None:
    compiled = tg.value_and_grad(f, backend=backend)
    for x in (-1.2, -0.4, 0.27, 0.9, 1.2553, 1.6137, 2.4519, 3.2571, 5.0123, 4e3):
        expected, found = outcome(f, x), outcome(compiled, x)
        if isinstance(expected, str):
            assert found == expected
            continue
        value, gradient = found
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        slope = central_differences(lambda a: f(float(a[0])), np.array([x]))
        np.testing.assert_allclose(gradient, slope[0], rtol=1e-6, atol=1e-7)


def test_what_is_refused() -> None:
    def of_two_classes(x: Any) -> Any:
        kept = None
        try:
            if x > 3:
                raise Missed("far", x)
            if x > 1:
                raise Flat("flat")
        except Failed as error:
            kept = error
        if kept is not None:
            raise kept
        return x

    def written(x: Any) -> Any:
        kept = Flat("flat") if x > 1 else Failed("one")
        kept.by = x
        return kept.by

    for f in (of_two_classes, written):
        with pytest.raises(NeedsPythonValue, match="TG112"):
            tg.function(f)(2.0)
