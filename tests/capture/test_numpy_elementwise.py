"""Ufuncs and elementwise functions: values, promotion and gradients against NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from tests.capture.numpy_rows import check, positive, random, rows

X, Y = random(2, 3), random(2, 3, seed=1)
P, Q = positive(2, 3), positive(2, 3, seed=1)
ROW, COLUMN = random(3, seed=2), random(2, 1, seed=3)
I, J = np.array([[3, -7, 2], [5, 4, -1]]), np.array([[2, 3, -4], [1, 2, 3]])
B, C = np.array([True, False, True]), np.array([True, True, False])
F32 = random(3, dtype=np.float32)
UNIT = random(2, 3, low=-0.9, high=0.9)
LARGE = P + 1.0


@rows(
    add=(lambda x, y: np.add(x, y), X, Y),
    add_operator=(lambda x, y: x + y, X, ROW),
    add_column=(lambda x, y: x + y, COLUMN, ROW),
    add_scalar=(lambda x: 2 + x, X),
    add_list=(lambda x: x + [1.0, 2.0, 3.0], X),
    add_int_array=(lambda x: x + np.arange(3), X),
    add_bools=(lambda a, b: a + b, B, C),
    multiply_bools=(lambda a, b: a * b, B, C),
    bool_times_float=(lambda a, x: a * x, B, ROW),
    subtract=(lambda x, y: x - y, X, COLUMN),
    rsub=(lambda x: 1.0 - x, X),
    multiply=(lambda x, y: x * y, X, Y),
    divide=(lambda x, y: x / y, X, P),
    divide_ints=(lambda i, j: i / j, I, J),
    rdiv=(lambda x: 1 / x, P),
    floor_divide=(lambda x, y: x // y, LARGE, Q),
    floor_divide_ints=(lambda i, j: i // j, I, J),
    remainder=(lambda x, y: x % y, LARGE, Q),
    remainder_ints=(lambda i, j: i % j, I, J),
    fmod=(lambda x, y: np.fmod(x, y), LARGE, Q),
    fmod_ints=(lambda i, j: np.fmod(i, j), I, J),
    divmod=(lambda x, y: divmod(x, y), LARGE, Q),
    np_divmod=(lambda x, y: np.divmod(x, y), LARGE, Q),
    modf=(lambda x: np.modf(x), LARGE),
    negative=(lambda x: -x, X),
    positive=(lambda x: +x, X),
    absolute=(lambda x: abs(x), X),
    fabs=(lambda x: np.fabs(x), X),
    fabs_ints=(lambda i: np.fabs(i), I),
    absolute_ints=(lambda i: np.abs(i), I),
    square=(lambda x: np.square(x), X),
    square_ints=(lambda i: np.square(i), I),
    reciprocal=(lambda x: np.reciprocal(x), P),
    sign=(lambda x: np.sign(x), X),
    sign_ints=(lambda i: np.sign(i), I),
    matrix_mixed=(lambda x, i: x * i, X, I),
    float32_scalar=(lambda x: x * 2.0 + 1, F32),
    float32_float64=(lambda x, y: x * y, F32, ROW),
    float32_int=(lambda x, i: x + i, F32, np.arange(3)),
    numpy_scalar=(lambda x: x * np.float64(2.0), F32),
    int_scalar_float=(lambda i: i * 0.5, I),
    int8_sin=(lambda i: np.sin(i), np.arange(3, dtype=np.int8)),
    uint8=(lambda i: i + 1, np.arange(3, dtype=np.uint8)),
)
def test_arithmetic(function: Any, arrays: Any) -> None:
    check(function, arrays)


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        (name, (X,))
        for name in (
            "sin cos tan exp exp2 expm1 sinh cosh tanh arctan arcsinh cbrt deg2rad rad2deg radians degrees floor "
            "ceil trunc rint isnan isfinite isinf sinc fix signbit logical_not conjugate isposinf isneginf real "
            "nan_to_num round"
        ).split()
    ]
    + [(name, (P,)) for name in "log log2 log10 log1p sqrt reciprocal".split()]
    + [(name, (UNIT,)) for name in "arcsin arccos arctanh".split()]
    + [("arccosh", (LARGE,))]
    + [
        (name, (X, Y))
        for name in (
            "arctan2 hypot maximum minimum fmax fmin logaddexp logaddexp2 copysign nextafter heaviside equal not_equal "
            "less less_equal greater greater_equal logical_and logical_or logical_xor isclose"
        ).split()
    ]
    + [("power", (P, Y)), ("float_power", (P, Y)), ("ldexp", (X, J))]
    + [
        (name, (I, J))
        for name in "maximum minimum fmax fmin hypot arctan2 bitwise_and bitwise_or bitwise_xor equal".split()
    ]
    + [(name, (B, C)) for name in "maximum minimum bitwise_and bitwise_or bitwise_xor logical_and equal less".split()]
    + [(name, (I,)) for name in "sqrt exp isnan isfinite floor invert logical_not conjugate rint".split()]
    + [(name, (np.abs(I), np.abs(J))) for name in "left_shift right_shift".split()],
)
def test_by_name(name: str, arrays: Any) -> None:
    check(getattr(np, name), arrays)


@rows(
    square=(lambda x: x**2, X),
    cube=(lambda x: x**3, X),
    fourth=(lambda x: x**4, X),
    seventh=(lambda x: x**7, X),
    first=(lambda x: x**1, X),
    zeroth=(lambda x: x**0, X),
    inverse=(lambda x: x**-1, P),
    inverse_square=(lambda x: x**-2, P),
    minus_fifth=(lambda x: x**-5, -P),
    root=(lambda x: x**0.5, P),
    inverse_root=(lambda x: x**-0.5, P),
    three_halves=(lambda x: x**1.5, P),
    float_whole=(lambda x: x**2.0, X),
    traced=(lambda x, y: x**y, P, Y),
    base_number=(lambda y: 2.0**y, Y),
    base_int=(lambda y: 2**y, Y),
    int_array_exponent=(lambda x, i: x**i, X, np.array([0, 1, 3])),
    constant_array_exponent=(lambda x: x ** np.array([0.0, 1.0, 2.5]), P),
    ints=(lambda i: i**2, I),
    ints_ints=(lambda i, j: i**j, I, np.abs(J)),
    ints_float=(lambda i: i**2.0, I),
    power_function=(lambda x: np.power(x, 3), X),
    float32=(lambda x: x**2, F32),
    pow_builtin=(lambda x: pow(x, 2), X),
)
def test_power(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    where=(lambda x, y: np.where(x > 0, x, y), X, Y),
    where_scalar=(lambda x: np.where(x > 0, x, 0.0), X),
    where_float32=(lambda x: np.where(x > 0, x, 0.0), F32),
    where_constant=(lambda x: np.where(np.array([True, False, True]), x, -x), X),
    where_number_condition=(lambda i, x: np.where(i, x, 1), I, X),
    clip=(lambda x: np.clip(x, -0.3, 0.4), X),
    clip_method=(lambda x: x.clip(-0.3, 0.4), X),
    clip_traced=(lambda x, y: np.clip(x, y, y + 0.5), X, Y),
    clip_low=(lambda x: np.clip(x, 0.1, None), X),
    clip_high=(lambda x: np.clip(x, a_min=None, a_max=0.1), X),
    clip_keywords=(lambda x: np.clip(x, min=-0.1, max=0.1), X),
    clip_ints=(lambda i: np.clip(i, 0, 3), I),
    round=(lambda x: np.round(x, 1), X),
    round_negative=(lambda x: np.round(x * 100, -1), X),
    round_method=(lambda x: x.round(2), X),
    round_ints=(lambda i: np.round(i, -1), I * 7),
    select=(lambda x: np.select([x < -0.3, x < 0.3], [x**2, 2 * x], default=1.0), X),
    choose=(lambda i, x, y: np.choose(i, [x, y]), np.array([0, 1, 1]), X, Y),
    nan_to_num=(lambda x: np.nan_to_num(x, nan=1.0, posinf=2.0), np.array([np.nan, np.inf, -np.inf, 1.0]) * np.ones(4)),
    real=(lambda x: np.real(x) + np.imag(x), X),
    interp=(
        lambda x, xp, fp: np.interp(x, xp, fp),
        np.array([-1.0, 0.3, 1.4, 2.6, 9.0]),
        np.array([0.0, 1.0, 2.5, 3.0]),
        random(4),
    ),
    interp_outside=(lambda x: np.interp(x, [0.0, 1.0], [1.0, 3.0], left=-1.0, right=7.0), np.array([-1.0, 0.3, 2.0])),
    heaviside=(lambda y: np.heaviside(np.array([-1.0, 0.0, 2.0]), y), random(3)),
    isclose=(lambda x: np.isclose(x, x + 1e-9), X),
    allclose=(lambda x: np.allclose(x, x + 1e-9), X),
    where_keyword=(lambda x, y: np.add(x, y, where=np.array([True, False, True]), out=np.zeros_like(x)), X, Y),
    dtype_keyword=(lambda x: np.add(x, 1, dtype=np.float64), F32),
    astype=(lambda x: x.astype(np.complex128).real * 2, X),
    astype_float32=(lambda x: x.astype(float) * 2, F32),
    astype_int=(lambda x: (x * 5).astype(int) * x, X),
    outer=(lambda x, y: np.multiply.outer(x, y), ROW, COLUMN),
    compare_chain=(lambda x: (x > -0.5) & (x < 0.5), X),
    compare_or=(lambda x: (x > 0.5) | ~(x < -0.5), X),
    equality_with_bool=(lambda a: a == True, B),  # noqa: E712
    operator_functions=(lambda x, y: operator.add(x, operator.mul(x, y)), X, Y),
)
def test_other(function: Any, arrays: Any) -> None:
    check(function, arrays)
