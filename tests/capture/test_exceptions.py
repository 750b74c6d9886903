"""Faults that come at run time are raised as Python raises them; where a handler would catch them, they are refused."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import TracegradError

X = np.array([1.0, 2.0, 3.0, 4.5])
POINTS = [-math.inf, -3.0, -1.0, -0.5, -0.0, 0.0, 0.3, 1.0, 2.5, 700.0, 710.0, 1e300, math.inf, math.nan]
FUNCTIONS = [
    *(math.log, math.log2, math.log10, math.log1p, math.sqrt, math.acos, math.asin, math.atanh, math.acosh),
    *(math.exp, math.expm1, math.sinh, math.cosh, math.atan),
]


def outcome(function: Callable[..., Any], *args: float) -> Any:
    try:
        return function(*args)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return type(error), str(error).partition("\n")[0]


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_math_raises_as_python(function: Any, backend: Any) -> None:
    compiled = tg.function(lambda x: function(x), backend=backend)
    for point in POINTS:
        assert_same(outcome(compiled, point), outcome(function, point))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_math_of_two_raises_as_python() -> None:
    exponents = [-math.inf, -2.0, -1.5, 0.0, 0.5, 2.0, 3.0, math.inf, math.nan]
    traced = tg.function(lambda x, y: math.pow(x, y), backend="numpy")
    known = [tg.function(lambda x, y=y: math.pow(x, y), backend="numpy") for y in exponents]
    for x, (y, fixed) in itertools.product(POINTS, zip(exponents, known, strict=True)):
        assert_same(outcome(traced, x, y), outcome(math.pow, x, y))
        assert_same(outcome(fixed, x), outcome(math.pow, x, y))
    remainder = tg.function(lambda x, y: math.fmod(x, y), backend="numpy")
    logarithm = tg.function(lambda x, y: math.log(x, y), backend="numpy")
    for x, y in itertools.product([-2.5, 0.5, 1.0, 2.0], [-2.0, 0.0, 1.0, 0.3, 10.0]):
        assert_same(outcome(remainder, x, y), outcome(math.fmod, x, y))
        assert_same(outcome(logarithm, x, y), outcome(math.log, x, y))


def test_a_fault_in_a_branch_not_taken_is_none() -> None:
    def f(x: Any) -> Any:
        y = math.log(x) if x > 0 else 0.0
        if x > 1 and math.log(x - 1) < 2.0:
            y += math.sqrt(x - 1)
        return y

    for backend in ("numpy", "c"):
        g = tg.function(f, backend=backend)
        for x in (-1.0, 0.5, 1.0, 1.5, 20.0):
            assert g(x) == pytest.approx(f(x), rel=1e-14)
    np.testing.assert_allclose(tg.grad(f)(1.5), 1 / 1.5 + 0.5 / math.sqrt(0.5), rtol=1e-14)


def _suppressed(x: Any) -> Any:
    ignored = contextlib.suppress(ValueError, KeyError)
    with ignored:
        return math.sqrt(x[0] - 3.0)
    return x[0]


def _around_a_yield(x: Any) -> Any:
    def values() -> Any:
        for v in x:
            try:
                yield math.log(v)
            except ValueError:
                yield 0.0

    return sum(values())


def _does_not_converge(x: Any) -> Any:
    try:
        return np.linalg.svd(np.outer(x, x))[1].sum()
    except np.linalg.LinAlgError:
        return x[0]


def _drawn_before(x: Any) -> Any:
    rng = np.random.default_rng(0)
    try:
        y = rng.normal() * math.log(x[0] - 2.0)
    except ValueError:
        y = rng.normal() * x[1]
    return y


def _taken_before(x: Any) -> Any:
    numbers = iter([1.0, 2.0, 3.0])
    try:
        y = next(numbers) * math.log(x[0] - 2.0)
    except ValueError:
        y = next(numbers) * x[1]
    return y


def _printed_before(x: Any) -> Any:
    def shown(x: Any) -> Any:
        s = 0.0
        for k in range(3):
            s += x[k]
            print(s)
        return s

    try:
        y = math.log(shown(x) - 20.0)
    except ValueError:
        y = x[1]
    return y


REFUSED = [
    *(_suppressed, _around_a_yield, _does_not_converge),
    *(_drawn_before, _taken_before, _printed_before),
]


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_a_fault_that_cannot_be_caught(function: Callable[..., Any]) -> None:
    with pytest.raises(TracegradError, match=r"TG(137|122)"):
        tg.function(function)(X)


def broad_handlers(x: Any) -> Any:
    s = 0.0
    for i in range(3):
        name = "abc"[i]
        try:
            s += x[i] * len(f"{i}")
            table = {"a0": 1.0, "c2": 3.0}
            s += table[f"{name}{i}"] * x[i]
        except Exception:
            s += 100.0
    return s


def native_faults(x: Any) -> Any:
    s = 0.0
    try:
        s += {"a": 1.0}["b"]
    except KeyError as error:
        s += len(str(error)) * x[0]
    try:
        s += np.sum(x) / len(x)
    except ZeroDivisionError:
        s = 0.0
    try:
        s += (x + np.ones(3)).sum()
    except ValueError:
        s += 5.0
    with contextlib.suppress(ValueError):
        int("z")
    try:
        s += int("1")
    except ValueError:
        s = 0.0
    else:
        s += x[1]
    finally:
        s *= 2.0
    return s


def handlers_that_raise(x: Any) -> Any:
    y = float(x[0])
    try:
        z = math.log(y)
    except ValueError as error:
        raise RuntimeError("no logarithm") from error
    try:
        z += 1 / y
    except Exception:
        print("oh")
        raise
    try:
        z += math.sqrt(y)
    except (KeyError, IndexError, TypeError):
        z = 0.0
    try:
        z += y
    finally:
        z *= 2
    return z


@pytest.mark.parametrize("function", [broad_handlers, native_faults, handlers_that_raise], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_as_python(function: Any, backend: Any) -> None:
    np.testing.assert_allclose(tg.function(function, backend=backend)(X), function(X), rtol=1e-14)


def jumps_out_of_finally(x: Any) -> Any:
    a = x[0]
    for _ in range(3):
        try:
            if a > 0:
                a = a * 2
                break
        finally:
            continue  # noqa: B012
    return a


def catches_groups(x: Any) -> Any:
    y = x[1]
    try:
        y = math.acos(y)
    except* Exception:
        y = 2 * x[0]
    return y


def raises_instead(x: Any) -> Any:
    for _ in range(3):
        try:
            if x[0] > 0:
                return x[0]
        except TypeError:
            raise KeyError from None
        finally:
            if len(x) > 4:
                continue  # noqa: B012
    return x[1]


@pytest.mark.parametrize("function", [jumps_out_of_finally, catches_groups, raises_instead], ids=lambda f: f.__name__)
def test_code_that_runs_as_it_is_does_not_catch_what_capture_raises(function: Any) -> None:
    def f(x: Any) -> Any:
        try:
            return function(x)
        except KeyError:
            return x[2]

    for program in (function, f):
        with pytest.raises(TracegradError, match="TG101"):
            tg.function(program)(X)


def test_a_handler_does_not_see_what_capture_raises() -> None:
    def f(x: Any) -> Any:
        try:
            y = x[0] * len(f"{x[1]}")
        except Exception:
            y = x[2]
        return y

    with pytest.raises(TracegradError, match="TG101"):
        tg.function(f)(X)


class _Refusal(Exception):
    pass


class _Worse(_Refusal):
    pass


def _raises_one_of_several(x: Any) -> Any:
    if x[0] > 0:
        if x[1] > 0:
            raise _Worse("both")
        if x[1] > -1:
            raise _Refusal("one")
        raise ValueError("the first")
    return x[1]


def _raises_by_a_function(x: Any) -> Any:
    def refuse(y: Any) -> None:
        if y > 0:
            raise _Worse("both")
        raise _Refusal("one")

    if x[0] > 0:
        refuse(x[1])
    return x[1]


def _fails_before_it_raises(x: Any) -> Any:
    if x[0] > 0:
        root = math.sqrt(x[1])
        raise ValueError("the first")
    return x[1] if x[0] < -1 else x[1] * root if x[0] > 0 else x[0]


def _asserts_before_it_raises(x: Any) -> Any:
    if x[0] > 0:
        assert x[1] > 0, "both"
        raise ValueError("the first")
    return x[1]


def _checks_in_a_loop_before_it_raises(x: Any) -> Any:
    if x[0] > 0:
        for v in x:
            if v < -1:
                raise _Refusal("one")
        raise ValueError("the first")
    return x[1]


def _raises_in_a_loop(x: Any) -> Any:
    while x[0] > 0:
        if x[1] > 0:
            raise _Worse("both")
        raise _Refusal("one")
    return x[1]


RAISING = [
    _raises_one_of_several,
    _raises_by_a_function,
    _fails_before_it_raises,
    _asserts_before_it_raises,
    _checks_in_a_loop_before_it_raises,
    _raises_in_a_loop,
]


def _text(function: Callable[..., Any], x: Any) -> Any:
    try:
        return function(x)
    except (_Refusal, ValueError, AssertionError) as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    except Exception as error:  # the nearest one of Python's own, which names the user's
        return str(error).partition("\n")[0]


@pytest.mark.parametrize("f", RAISING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_the_first_of_several_errors_is_raised(f: Any, backend: Any) -> None:
    compiled, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    for first, second in itertools.product((-2.0, -0.5, 1.0), (-2.0, -0.5, 1.0)):
        x = np.array([first, second])
        expected = _text(f, x)
        found = _text(compiled, x)
        assert found == expected
        if isinstance(expected, str):
            assert _text(gradient, x) == expected


def _adaptive(f: Any, a: Any, b: Any, depth: int, most: int) -> Any:
    middle = 0.5 * (a + b)
    if depth > most:
        raise RecursionError("too deep")
    coarse, fine = (b - a) * f(middle), 0.5 * (b - a) * (f(0.5 * (a + middle)) + f(0.5 * (middle + b)))
    if abs(coarse - fine) < 0.01:
        return fine
    return _adaptive(f, a, middle, depth + 1, most) + _adaptive(f, middle, b, depth + 1, most)


def _integral(k: Any, most: int) -> Any:
    try:
        return _adaptive(lambda t: k * t * t, 0.0, 1.0, 0, most)
    except RecursionError:
        return -k


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_recursion_error_of_the_user_is_caught(backend: Any) -> None:
    compiled = tg.value_and_grad(lambda k: _integral(k, 1), backend=backend)
    for k in (0.1, 2.0, 30.0):
        value, gradient = compiled(k)
        assert value == pytest.approx(_integral(k, 1), rel=1e-14)
        assert gradient == pytest.approx(value / k, rel=1e-12)


def test_a_recursion_with_too_many_paths_to_a_handler_is_refused_at_once() -> None:
    with pytest.raises(TracegradError, match="TG137") as refused:
        tg.function(lambda k: _integral(k, 20))(2.0)
    assert "a function that stays a call" in str(refused.value)
