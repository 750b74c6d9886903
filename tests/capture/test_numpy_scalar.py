"""Python scalars, builtins, math and operator on traced values: values, promotion, gradients, errors at run time."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.numpy_rows import capture, check, h, random, rows
from tracegrad.testing.interpret import interpret

V = random(5)
M = random(3, 4)
X, Y = 1.5, -0.7
K, L = 7, -3
N64, N32 = np.float64(1.5), np.float32(1.5)


@rows(
    add=(lambda x, y: x + y, X, Y),
    divide=(lambda x, y: x / y, X, Y),
    divide_ints=(lambda k, m: k / m, K, L),
    floor_divide=(lambda k, m: k // m, K, L),
    modulo=(lambda k, m: k % m, K, L),
    floor_divide_floats=(lambda x, y: x // y, X, Y),
    modulo_floats=(lambda x, y: x % y, X, Y),
    int_plus_float=(lambda k, x: k + x, K, X),
    bools_add=(lambda x, y: (x > 0) + (y > 0), X, Y),
    bools_multiply=(lambda x: (x > 0) * 3.0, X),
    bool_minus_bool=(lambda x, y: (x > 0) - (y > 0), X, Y),
    bool_and=(lambda x, y: (x > 0) & (y > 0), X, Y),
    invert_int=(lambda k: ~k, K),
    invert_bool=(lambda x: ~(x > 0), X),
    shift=(lambda k: (k << 2) + (k >> 1), K),
    bit_and=(lambda k: k & 3 | 8 ^ 1, K),
    power=(lambda x: x**2 + x**3, X),
    power_of_int=(lambda k: k**2, K),
    negative_power_of_int=(lambda k: k**-2, K),
    power_traced=(lambda x, y: x**y, X, Y),
    int_power=(lambda k: 2**k, K),
    negate=(lambda x: -x + (+x) + abs(x), Y),
    compare=(lambda x, y: x < y, X, Y),
    numpy_scalar=(lambda x: x * N32, X),
    float32_array=(lambda x: x * np.ones(3, np.float32), X),
    int_array=(lambda x: x * np.arange(3), X),
    int8_array=(lambda k: k + np.arange(3, dtype=np.int8), K),
    strong_scalar=(lambda x: x / 2 + 1, N64),
    float32_scalar=(lambda x: x * 2.0, N32),
    divmod=(lambda k, m: divmod(k, m), K, L),
)
def test_operators(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    float=(lambda x: h(float)(x) * 2, N64),
    float_of_int=(lambda k: h(float)(k), K),
    float_of_size_one=(lambda x: h(float)(x[0]) * x, V),
    int=(lambda x: h(int)(x), 2.7),
    int_negative=(lambda x: h(int)(x) * x, -2.7),
    bool=(lambda x: h(bool)(x), X),
    complex=(lambda x: abs(h(complex)(x, 2.0)), X),
    item=(lambda x: x[2].item() * x, V),
    np_float64=(lambda k: h(np.float64)(k) * 2, K),
    np_float32=(lambda x: h(np.float32)(x) * 2, X),
    len=(lambda x: h(len)(x) * x, V),
    abs=(lambda x: h(abs)(x), M),
    pow=(lambda x: h(pow)(x, 3), X),
    divmod=(lambda x: h(divmod)(x, 0.4), X),
    round=(lambda x: h(round)(x), 2.5),
    round_digits=(lambda x: h(round)(x, 1), 2.345),
    sum=(lambda x: h(sum)(x), V),
    sum_rows=(lambda x: h(sum)(x), M),
    sum_start=(lambda x: h(sum)(x, 1.0), V),
    sum_list=(lambda x: h(sum)([x[0], x[1] ** 2, 1]), V),
    sum_list_of_weak=(lambda x, y: h(sum)([x, y]), X, Y),
    max=(lambda x: h(max)(x), V),
    max_two=(lambda x: h(max)(x[0], x[1]), V),
    max_constant=(lambda x: h(max)(0.0, x), Y),
    max_list=(lambda x: h(max)([x[0], x[1], x[2], 0.1]), V),
    max_key=(lambda x: h(max)(x[0], x[1], key=abs), V),
    min=(lambda x: h(min)(x[0], x[1], x[2]), V),
    min_three=(lambda x, y: h(min)(x, y, 0.0), X, Y),
    sorted=(lambda x: h(sorted)([x[0], x[1], x[2]]), V),
    sorted_reverse=(lambda x: h(sorted)(list(x), reverse=True), V),
    any=(lambda x: h(any)([x[0] > 0, x[1] > 0]), V),
    all=(lambda x: h(all)([x[0] > -1, x[1] > 0]), V),
    any_array=(lambda x: h(any)(x > 0.9), V),
)
def test_builtins(function: Any, arrays: Any) -> None:
    check(function, arrays)


@pytest.mark.parametrize(
    "name",
    (
        "sin cos tan exp exp2 expm1 sinh cosh tanh atan asinh fabs erf erfc floor ceil trunc isnan isinf "
        "isfinite radians degrees cbrt"
    ).split(),
)
def test_math_of_any_number(name: str) -> None:
    function = getattr(math, name)
    check(lambda x: h(function)(x), [Y])
    check(lambda x: h(function)(x[1]), [np.array([0.0, 0.3])])


@rows(
    log=(lambda x: h(math.log)(x), X),
    log_base=(lambda x, b: h(math.log)(x, b), X, 3.0),
    log2=(lambda x: h(math.log2)(x), X),
    log10=(lambda x: h(math.log10)(x), X),
    log1p=(lambda x: h(math.log1p)(x), X),
    sqrt=(lambda x: h(math.sqrt)(x), X),
    asin=(lambda x: h(math.asin)(x), Y),
    acos=(lambda x: h(math.acos)(x), Y),
    atanh=(lambda x: h(math.atanh)(x), Y),
    acosh=(lambda x: h(math.acosh)(x), X),
    gamma=(lambda x: h(math.gamma)(x), X),
    lgamma=(lambda x: h(math.lgamma)(x), X),
    atan2=(lambda x, y: h(math.atan2)(x, y), X, Y),
    hypot=(lambda x, y: h(math.hypot)(x, y), X, Y),
    hypot_three=(lambda x, y: h(math.hypot)(x, y, 2.0), X, Y),
    dist=(lambda x, y: h(math.dist)([x, y], [0.0, 1.0]), X, Y),
    pow=(lambda x: h(math.pow)(x, 2), X),
    pow_traced=(lambda x, y: h(math.pow)(x, y), X, Y),
    fmod=(lambda x, y: h(math.fmod)(x, y), X, Y),
    copysign=(lambda x, y: h(math.copysign)(x, y), X, Y),
    isclose=(lambda x: h(math.isclose)(x, 1.5 + 1e-12), X),
    fsum=(lambda x: h(math.fsum)([x, 2.0, x * x]), X),
    prod=(lambda x: h(math.prod)([x, 2.0, x * x]), X),
    modf=(lambda x: h(math.modf)(x), X),
    of_int=(lambda k: h(math.sqrt)(k), K),
    of_float32=(lambda x: h(math.sin)(x), N32),
)
def test_math(function: Any, arrays: Any) -> None:
    check(function, arrays)


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod pow lt le gt ge eq ne".split())
def test_operator_module(name: str) -> None:
    function = getattr(operator, name)
    check(lambda x, y: h(function)(x, y), [np.abs(M), 0.5])


@pytest.mark.parametrize("name", "neg pos abs".split())
def test_operator_module_unary(name: str) -> None:
    check(lambda x: h(getattr(operator, name))(x), [M])


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda x: 1.0 / x, 0.0),
        (lambda x: 1 // x, 0),
        (lambda x: 1 % x, 0),
        (lambda x: 2.0 % x, 0.0),
    ],
)
def test_division_by_zero(function: Any, value: Any) -> None:
    made, _ = capture(function, [value])
    with pytest.raises(ZeroDivisionError) as expected:
        function(value)
    with pytest.raises(ZeroDivisionError, match=f"^{expected.value}"):
        interpret(made, value)


def test_numpy_scalars_divide_by_zero_without_error() -> None:
    made, _ = capture(lambda x: 1.0 / x, [np.float64(0.0)])
    with np.errstate(all="ignore"):
        assert interpret(made, 0.0)[0] == np.inf


def test_negative_power_of_traced_int() -> None:
    made, _ = capture(lambda k: 2**k, [3])
    assert interpret(made, 3)[0] == 8
    with pytest.raises(ValueError, match="negative power"):
        interpret(made, -1)


@pytest.mark.parametrize(
    ("value", "kinds", "expected"),
    [
        (V, np.ndarray, True),
        (V, (list, tuple), False),
        (V, float, False),
        (X, float, True),
        (X, (int, float), True),
        (X, int, False),
        (X, np.ndarray, False),
        (K, int, True),
        (K, float, False),
        (N64, float, True),
        (N64, np.floating, True),
        (N32, float, False),
        (N32, np.generic, True),
    ],
)
def test_isinstance(value: Any, kinds: Any, expected: bool) -> None:
    seen = []
    capture(lambda x: seen.append(h(isinstance)(x, kinds)) or x, [value])
    assert seen == [expected] == [isinstance(value, kinds)]


def test_print() -> None:
    def show(x: Any, y: Any) -> Any:
        h(print)("loss {}", x, "at", y, [x, 1], sep=", ")
        return x

    made, _ = capture(show, [X, V[:2]])
    (operation,) = [o for o in made.body.operations if o.op == "print"]
    assert operation.attrs["format"].format(1.5, "V", 1.5) == "loss {}, 1.5, at, V, [1.5, 1]\n"


def test_known_values_stay_known() -> None:
    def function(x: Any) -> Any:
        index = h(np.add)(h(np.asarray)([0, 1]), 0)
        from_zeros = np.zeros_like(x)
        from_zeros[0] = 1.0
        assert from_zeros.concrete is not None and from_zeros[:2].concrete is not None
        assert isinstance(from_zeros[0], float) and np.sum(from_zeros) == 1.0
        return x[index] * from_zeros[:2].T

    check(lambda x: function(x) if not isinstance(x, np.ndarray) else x[:2] * np.array([1.0, 0.0]), [V])


CONVERSIONS: list[Any] = [float, int, complex, math.exp, math.floor]


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_arrays_with_axes_are_converted_where_numpy_does(convert: Any) -> None:
    def f(x: Any) -> Any:
        return convert(x.reshape(1, -1) @ x.reshape(-1, 1))

    x = np.array([0.5, 1.0])
    try:
        expected = f(x)
    except TypeError:
        with pytest.raises(TypeError, match="takes one number"):
            tg.function(f)(x)
    else:
        assert tg.function(f)(x) == expected
