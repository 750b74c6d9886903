"""Functions of math, powers and shifts raise what Python's do, with and without a handler, on both backends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_ragged import slopes
from tracegrad.errors import NeedsPythonValue

inf, nan = math.inf, math.nan
ONE = [0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 180.0, -180.5, 710.0, 711.0, -711.0, 1e306, 1e-320, 1e200, inf, -inf, nan]
ONE += [1024.0, -171.0, 170.0]
FUNCTIONS = [
    *(math.acos, math.acosh, math.asin, math.asinh, math.atan, math.atanh, math.cos, math.cosh, math.degrees),
    *(math.erf, math.erfc, math.exp, math.exp2, math.expm1, math.fabs, math.gamma, math.lgamma, math.log, math.log10),
    *(math.log1p, math.log2, math.radians, math.sin, math.sinh, math.sqrt, math.tan, math.tanh, math.cbrt),
]
FUNCTIONS_OF_TWO = [math.atan2, math.copysign, math.fmod, math.hypot, math.log, math.pow, math.remainder]
ROUNDINGS = [int, round, math.floor, math.ceil, math.trunc]


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except (ArithmeticError, ValueError) as error:
        return type(error).__name__


def with_handlers(f: Callable[..., Any]) -> Callable[..., Any]:
    def handled(*args):
        try:
            return float(f(*args))
        except ValueError:
            return 7.25
        except OverflowError:
            return 9.25
        except ZeroDivisionError:
            return 11.25

    return handled


def require_same(traced: Callable[..., Any], plain: Callable[..., Any], *args: Any) -> None:
    expected, found = outcome(plain, *args), outcome(traced, *args)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected, args
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=str(args))


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", [*FUNCTIONS, *ROUNDINGS], ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_one_number(f: Any, backend: Any) -> None:
    def plain(x):
        return float(f(x))

    for function in (plain, with_handlers(f)):
        traced = tg.function(function, backend=backend)
        for x in ONE:
            if function is plain and f in (math.sin, math.cos, math.tan) and math.isinf(x):
                assert math.isnan(traced(x))
            elif f not in ROUNDINGS or abs(x) < 2.0**63 or not math.isfinite(x):
                require_same(traced, function, x)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", FUNCTIONS_OF_TWO, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_two_numbers(f: Any, backend: Any) -> None:
    def plain(x, y):
        return float(f(x, y))

    for function in (plain, with_handlers(f)):
        traced = tg.function(function, backend=backend)
        for x, y in itertools.product(ONE, [0.0, 1.0, -2.0, 2.5, inf, -inf, nan, 1e3]):
            require_same(traced, function, x, y)


@pytest.mark.parametrize("y", [0.0, 1.0, -2.0, inf, nan])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_known_divisor(y: float) -> None:
    for f in (math.fmod, math.remainder):
        traced = tg.function(lambda x, f=f: f(x, y), backend="numpy")
        for x in ONE:
            require_same(traced, lambda x, f=f: f(x, y), x)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_ldexp_and_modf(backend: Any) -> None:
    def scaled(x, i):
        return math.ldexp(x, int(i))

    def pieces(x):
        fraction, whole = math.modf(x)
        return fraction + 2 * whole

    for function in (scaled, with_handlers(scaled)):
        traced = tg.function(function, backend=backend)
        for x, i in itertools.product(ONE, [0.0, 5.0, -5.0, 1100.0, -1100.0, 2000.0, -3000.0, 1e9]):
            require_same(traced, function, x, i)
    for x in ONE:
        require_same(tg.function(pieces, backend=backend), pieces, x)
    np.testing.assert_allclose(tg.grad(lambda x: math.ldexp(x, 3), backend=backend)(1.5), 8.0)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_in_a_body(backend: Any) -> None:
    powers = [lambda x: x**2, lambda x: x**200.0, lambda x: x**-1, lambda x: x**-2.0, lambda x: int(x) ** -1]
    for power in powers:
        function = with_handlers(power)
        traced = tg.value_and_grad(function, backend=backend)
        for x in (0.0, 1.5, 1e200, 3.0):
            if power is not powers[-1] or x < 1e18:
                require_same(lambda x, traced=traced: traced(x)[0], function, x)

    def general(x, y):
        return float(x) ** float(y)

    traced = tg.function(with_handlers(general), backend=backend)
    for x, y in itertools.product([0.0, 1.5, 1e200, inf, nan], [0.0, -1.0, 2.0, 200.5, inf, -inf, nan]):
        require_same(traced, with_handlers(general), x, y)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_power_that_a_broad_handler_hides_in_python_is_raised(backend: Any) -> None:
    def f(x):
        try:
            return x**2
        except Exception:
            return 3.0

    traced = tg.function(f, backend=backend)
    assert traced(2.0) == 4.0
    with pytest.raises(OverflowError):
        traced(1e200)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_shifts(backend: Any) -> None:
    for shift in (lambda x: 1 << int(x), lambda x: 100 >> int(x)):
        for function in (shift, with_handlers(shift)):
            traced = tg.function(function, backend=backend)
            for x in (3.0, 0.0, -1.5):
                require_same(traced, function, x)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_no_handler_catches_what_only_compiled_code_cannot_do(backend: Any) -> None:
    def power(x):
        try:
            return float(2 ** int(x))
        except ValueError:
            return 3.0

    def whole(x):
        try:
            return float(int(x))
        except OverflowError:
            return 3.0

    for function, x, error in ((power, -1.5, ValueError), (whole, 1e30, OverflowError)):
        traced = tg.function(function, backend=backend)
        assert traced(4.0) == function(4.0)
        with pytest.raises(error):
            traced(x)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_gradients_of_handlers(backend: Any) -> None:
    def f(x):
        total = 0.0
        for v in x:
            try:
                total += math.gamma(v) * math.sin(v)
            except ValueError:
                total += 7.0 * v
            except OverflowError:
                total += 9.0 * v
        return total

    x = np.array([0.0, -1.0, 180.0, 2.5, -0.5])
    value, gradient = tg.value_and_grad(f, backend=backend)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    smooth = slopes(f, x[3:])
    np.testing.assert_allclose(gradient, [7.0, 7.0, 9.0, *smooth], rtol=1e-5)


def test_what_is_known_to_be_finite_is_not_tested() -> None:
    def f(x):
        try:
            return math.sin(2.0 * math.atan(x))
        except ValueError:
            return 0.0

    def g(x):
        return math.sin(x)

    assert "np.abs(" not in tg.function(f, backend="numpy").source(1.0)
    assert "np.abs(" not in tg.function(g, backend="numpy").source(1.0)


@pytest.mark.parametrize("name", ["comb", "factorial", "frexp", "gcd", "isqrt", "lcm", "perm", "ulp"])
def test_functions_without_a_form_are_named(name: str) -> None:
    function = getattr(math, name)

    def f(x):
        numbers = (x,) if name in ("frexp", "ulp") else (int(x), 2) if name in ("comb", "gcd", "lcm") else (int(x),)
        return x * function(*numbers)

    with pytest.raises(NeedsPythonValue, match=rf"math\.{name} of a traced value is not supported \[TG101\]"):
        tg.function(f)(3.0)


def test_functions_of_known_ints_in_a_loop() -> None:
    def f(x, n):
        total = 0.0
        for k in range(5):
            total += x * math.comb(4, k) * math.gcd(k, 2) * math.comb(n[0], 2)
        return total

    n = np.array([5])
    np.testing.assert_allclose(tg.grad(f)(1.5, n), f(1.0, n))
