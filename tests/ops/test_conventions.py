"""Derivatives where differences cannot tell: kinks, ties, poles, zeros among factors, duplicate indices.

Each case is one line of docs/conventions.md.
"""

import numpy as np
import pytest

from tracegrad.ir.opdef import TABLE, interpreter
from tracegrad.ops import jvp_of, vjp_of
from tracegrad.ops.evaluate import Evaluator
from tracegrad.testing.rules import Case, Program

INF, NAN = np.inf, np.nan


def gradients(name, *operands, ct=1.0, **attrs):
    """Return the cotangents of the operands of an op for a cotangent of its result."""
    arrays = [np.asarray(x, np.float64) if np.asarray(x).dtype == float else np.asarray(x) for x in operands]
    op = TABLE[name]
    with interpreter(Evaluator()), np.errstate(all="ignore"):
        out = op(*arrays, **attrs)
        return vjp_of(op, (np.broadcast_to(np.float64(ct), out.shape),), (out,), arrays, attrs)


def tangent(name, operands, tangents, **attrs):
    op = TABLE[name]
    operands = [np.asarray(x) for x in operands]
    with interpreter(Evaluator()), np.errstate(all="ignore"):
        out = op(*operands, **attrs)
        (moved,) = jvp_of(op, [np.asarray(t) for t in tangents], (out,), operands, attrs)
    return moved


# Kinks: an element of the subdifferential


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("absolute", (0.0,), (0.0,)),
        ("copysign", (0.0, -1.0), (0.0, None)),
        ("copysign", (-2.0, -1.0), (1.0, None)),
        ("copysign", (2.0, -1.0), (-1.0, None)),
        ("hypot", (0.0, 0.0), (0.0, 0.0)),
        ("hypot", (0.0, -2.0), (0.0, -1.0)),
        ("hypot", (1e200, 1e200), (np.sqrt(0.5), np.sqrt(0.5))),
        ("arctan2", (1e200, 1e200), (5e-201, -5e-201)),
        ("maximum", (1.0, 1.0), (0.5, 0.5)),
        ("minimum", (1.0, 1.0), (0.5, 0.5)),
        ("fmax", (1.0, 1.0), (0.5, 0.5)),
        ("maximum", (1.0, 2.0), (0.0, 1.0)),
        ("minimum", (1.0, 2.0), (1.0, 0.0)),
        ("maximum", (INF, -INF), (1.0, 0.0)),
        ("fmax", (NAN, 2.0), (0.0, 1.0)),
        ("fmin", (2.0, NAN), (1.0, 0.0)),
        ("fmin", (NAN, NAN), (1.0, 1.0)),
        ("maximum", (NAN, 2.0), (1.0, 1.0)),
    ],
)
def test_kinks(name, operands, expected):
    found = gradients(name, *operands)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-15)


# Powers


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (0.0, 0.0, (0.0, 0.0)),
        (3.0, 0.0, (0.0, np.log(3.0))),
        (-3.0, 0.0, (0.0, 0.0)),
        (0.0, 1.0, (1.0, 0.0)),
        (0.0, 2.0, (0.0, 0.0)),
        (0.0, 3.5, (0.0, 0.0)),
        (0.0, 0.5, (INF, 0.0)),
        (-2.0, 3.0, (12.0, 0.0)),
        (-2.0, -1.0, (-0.25, 0.0)),
        (2.0, -1.0, (-0.25, np.log(2.0) / 2.0)),
    ],
)
def test_power(x, y, expected):
    np.testing.assert_allclose(gradients("power", x, y), expected, rtol=1e-15)


@pytest.mark.parametrize(("y", "expected"), [(0, 0.0), (1, 1.0), (2, 0.0), (3, 0.0)])
def test_power_with_integer_exponent_at_zero(y, expected):
    found, none = gradients("power", 0.0, np.int64(y))
    assert found == expected
    assert none is None


# Strong zero: a zero cotangent or tangent at a pole gives zero; another one gives the infinite partial

POLES = [
    ("sqrt", (0.0,)),
    ("cbrt", (0.0,)),
    ("log", (0.0,)),
    ("log2", (0.0,)),
    ("log10", (0.0,)),
    ("log1p", (-1.0,)),
    ("reciprocal", (0.0,)),
    ("divide", (0.0, 0.0)),
    ("divide", (1.0, 0.0)),
    ("arcsin", (1.0,)),
    ("arccos", (-1.0,)),
    ("arctanh", (1.0,)),
    ("arccosh", (1.0,)),
    ("arctan2", (0.0, 0.0)),
    ("power", (0.0, -1.0)),
    ("power", (0.0, 0.5)),
    ("exp", (1000.0,)),
    ("exp2", (2000.0,)),
    ("expm1", (1000.0,)),
    ("sinh", (1000.0,)),
    ("cosh", (-1000.0,)),
    ("lgamma", (0.0,)),
    ("digamma", (0.0,)),
    ("gamma", (0.0,)),
    ("gamma", (200.0,)),
    ("remainder", (1.0, 0.0)),
    ("fmod", (1.0, 0.0)),
]


@pytest.mark.parametrize(("name", "operands"), POLES)
def test_zero_cotangent_at_a_pole(name, operands):
    for ct in gradients(name, *operands, ct=0.0):
        assert ct == 0.0
    zeros = [0.0 for _ in operands]
    assert tangent(name, operands, zeros) == 0.0


@pytest.mark.parametrize(("name", "operands"), POLES)
def test_poles_are_kept(name, operands):
    assert not all(np.isfinite(ct) for ct in gradients(name, *operands))


def test_poles_and_other_elements_mix():
    (found,) = gradients("log", [0.0, 2.0, 0.0], ct=[0.0, 1.0, 0.0])
    np.testing.assert_array_equal(found, [0.0, 0.5, 0.0])


def test_masks_do_not_leak():
    condition = np.array([True, False])
    _, x, y = gradients("select", condition, [1.0, 2.0], [3.0, 4.0], ct=[INF, NAN])
    np.testing.assert_array_equal(x, [INF, 0.0])
    np.testing.assert_array_equal(y, [0.0, NAN])
    x, y = gradients("maximum", [1.0, 2.0], [2.0, 1.0], ct=[INF, NAN])
    np.testing.assert_array_equal(x, [0.0, NAN])
    np.testing.assert_array_equal(y, [INF, 0.0])
    (x,) = gradients("reduce_max", [1.0, 3.0, 2.0], ct=INF, axes=(0,))
    np.testing.assert_array_equal(x, [0.0, INF, 0.0])


# logaddexp


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (0.0, 0.0, (0.5, 0.5)),
        (-INF, 1.0, (0.0, 1.0)),
        (1.0, -INF, (1.0, 0.0)),
        (-INF, -INF, (0.5, 0.5)),
        (INF, 1.0, (1.0, 0.0)),
        (INF, INF, (0.5, 0.5)),
        (INF, -INF, (1.0, 0.0)),
        (1000.0, -1000.0, (1.0, 0.0)),
    ],
)
def test_logaddexp(x, y, expected):
    np.testing.assert_allclose(gradients("logaddexp", x, y), expected, rtol=1e-15)


# Accuracy


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("log1p", 1e-20, 1.0),
        ("expm1", -1e-20, 1.0),
        ("tanh", 20.0, 4.0 * np.exp(-40.0)),
        ("arcsin", 1.0 - 2.0**-52, 1.0 / np.sqrt(2.0**-52 * (2.0 - 2.0**-52))),
        ("arccosh", 1.0 + 2.0**-52, 1.0 / np.sqrt(2.0**-52 * (2.0 + 2.0**-52))),
        ("arctan", 1e200, 0.0),
        ("arcsinh", 1e100, 1e-100),
        ("erfc", 10.0, -2.0 / np.sqrt(np.pi) * np.exp(-100.0)),
    ],
)
def test_accurate_partials(name, x, expected):
    # tanh: from the result, whose spacing near 1 bounds the absolute error
    np.testing.assert_allclose(gradients(name, x)[0], expected, rtol=1e-14, atol=3e-16 if name == "tanh" else 0.0)


# Ties and zeros in reductions


def test_extreme_ties_share():
    (found,) = gradients("reduce_max", [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], axes=(1,))
    np.testing.assert_allclose(found, [[0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    (found,) = gradients("reduce_min", [[1.0, 3.0, 1.0], [2.0, 2.0, 1.0]], axes=(0, 1))
    np.testing.assert_allclose(found, [[1 / 3, 0.0, 1 / 3], [0.0, 0.0, 1 / 3]])
    moved = tangent("reduce_max", [np.array([2.0, 2.0])], [np.array([1.0, 3.0])], axes=(0,))
    assert moved == 2.0


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([2.0, 0.0, 5.0], [0.0, 10.0, 0.0]),
        ([0.0, 0.0, 5.0], [0.0, 0.0, 0.0]),
        ([0.0], [1.0]),
        ([2.0, -3.0, 5.0], [-15.0, 10.0, -6.0]),
    ],
)
def test_product_with_zeros(x, expected):
    (found,) = gradients("reduce_prod", x, axes=(0,))
    np.testing.assert_array_equal(found, expected)


def test_product_of_nothing():
    (found,) = gradients("reduce_prod", np.zeros((2, 0)), axes=(1,))
    assert found.shape == (2, 0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("x", [[2.0, 0.0, 5.0, 3.0], [0.0, 2.0, 0.0, 5.0], [0.0, 0.0, 0.0], [4.0]])
def test_running_product_with_zeros(x, reverse, rng):
    x = np.array(x)
    ct = rng.normal(size=x.shape)
    (found,) = gradients("cumprod", x, ct=ct, axis=0, reverse=reverse)
    expected = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            inside = range(j, len(x)) if reverse else range(j + 1)
            if i in inside:
                expected[i] += ct[j] * np.prod([x[k] for k in inside if k != i])
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


def test_running_extremes_follow_the_leader():
    (found,) = gradients("cummax", [1.0, 3.0, 2.0, 3.0, 4.0], ct=[1.0, 10.0, 100.0, 1000.0, 10000.0], axis=0)
    np.testing.assert_array_equal(found, [1.0, 110.0, 0.0, 1000.0, 10000.0])
    (found,) = gradients("cummin", [3.0, 1.0, 2.0], ct=[1.0, 10.0, 100.0], axis=0)
    np.testing.assert_array_equal(found, [1.0, 110.0, 0.0])


# Indices


def test_gather_adds_up_duplicates():
    found, none = gradients("gather", [1.0, 2.0, 3.0], np.array([0, -1, 0, 2]), ct=[1.0, 2.0, 4.0, 8.0], axes=(0,))
    np.testing.assert_array_equal(found, [5.0, 0.0, 10.0])
    assert none is None


def test_last_of_duplicate_writes_gets_the_cotangent():
    indices = np.array([0, 2, -3, 1])  # -3 writes the place of 0 again
    x, none, values = gradients("scatter_set", np.zeros(3), indices, np.ones(4), ct=[1.0, 2.0, 4.0], axes=(0,))
    np.testing.assert_array_equal(x, [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(values, [0.0, 4.0, 1.0, 2.0])
    assert none is None


def test_last_of_duplicate_writes_of_rows():
    i, j = np.array([[0, 1], [0, 1]]), np.array([[1, 0], [1, 1]])
    ct = np.arange(8.0).reshape(2, 2, 2)
    x, _, _, values = gradients("scatter_set", np.zeros((2, 2, 2)), i, j, np.ones((2, 2, 2)), ct=ct, axes=(0, 1))
    np.testing.assert_array_equal(values, [[[0.0, 0.0], ct[1, 0]], [ct[0, 1], ct[1, 1]]])
    np.testing.assert_array_equal(x, [[ct[0, 0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])


def test_index_out_of_range():
    for index in (3, -4):
        with pytest.raises(IndexError):
            gradients("gather", [1.0, 2.0, 3.0], np.int64(index), axes=(0,))


# Complex numbers: dL/dRe + i dL/dIm


@pytest.mark.parametrize("name", ["exp", "sin", "log", "sqrt", "tanh", "square", "reciprocal", "arcsin", "arccosh"])
def test_complex_gradient_is_that_of_its_parts(name):
    z, weight, h = 0.7 + 0.4j, 0.3 - 1.1j, 1e-6
    op = TABLE[name]

    def loss(value):
        with interpreter(Evaluator()):
            return np.real(np.conj(weight) * op(np.array(value)))

    along = [(loss(z + h * d) - loss(z - h * d)) / (2 * h) for d in (1.0, 1j)]
    with interpreter(Evaluator()):
        (found,) = vjp_of(op, (np.array(weight),), (op(np.array(z)),), (np.array(z),), {})
    np.testing.assert_allclose(found, along[0] + 1j * along[1], rtol=1e-8)


def test_modulus_squared_gives_twice_the_number():
    z = np.array([1.0 + 2.0j, 0.0])
    with interpreter(Evaluator()), np.errstate(all="ignore"):
        out = TABLE["absolute"](z)
        (found,) = vjp_of(TABLE["absolute"], (2.0 * out,), (out,), (z,), {})
    np.testing.assert_allclose(found, 2.0 * z)


# Linear algebra


@pytest.mark.parametrize(
    "a",
    [
        [[1.0, 2.0], [2.0, 4.0]],
        [[0.0, 0.0], [0.0, 3.0]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[2.0, 1.0, 0.0], [4.0, 2.0, 0.0], [1.0, 0.0, 1.0]],
        [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]],
    ],
)
def test_determinant_of_singular_matrices(a):
    a = np.array(a)
    n = len(a)
    (found,) = gradients("det", a)
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)] for i in range(n)
    ]
    np.testing.assert_allclose(found, minors, atol=1e-13)


@pytest.mark.parametrize("name", ["inv", "solve", "triangular_solve"])
def test_singular_systems_raise(name):
    attrs = {"lower": True, "transpose_a": False, "unit_diagonal": False} if name == "triangular_solve" else {}
    operands = (np.zeros((2, 2)),) if name == "inv" else (np.zeros((2, 2)), np.ones((2, 1)))
    with pytest.raises(np.linalg.LinAlgError):
        gradients(name, *operands, **attrs)


def test_cholesky_reads_the_lower_triangle_only(rng):
    a = np.array([[4.0, 99.0, 99.0], [1.0, 3.0, 99.0], [0.5, 0.2, 2.0]])
    ct = rng.normal(size=(3, 3))
    (found,) = gradients("cholesky", a, ct=ct)
    h = 1e-6
    for i in range(3):
        for j in range(3):
            step = np.zeros((3, 3))
            step[i, j] = h
            with interpreter(Evaluator()):
                above, below = TABLE["cholesky"](a + step), TABLE["cholesky"](a - step)
            np.testing.assert_allclose(found[i, j], np.sum(ct * (above - below)) / (2 * h), atol=1e-8)


def test_integers_and_cuts_carry_nothing():
    assert gradients("floor", 1.5) == (None,)
    assert gradients("add", np.int64(1), np.int64(2)) == (None, None)
    assert gradients("cast", 1.5, dtype=np.dtype(np.int64)) == (None,)
    assert gradients("argmax", [1.0, 2.0], axis=0) == (None,)


# Second order at the same places


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("power", (0.0, 2.0), 2.0),
        ("power", (0.0, 3.0), 0.0),
        ("power", (0.0, 1.0), 0.0),
        ("power", (0.0, 0.0), 0.0),
        ("power", (-2.0, 3.0), -12.0),
        ("power", (0.0, np.int64(2)), 2.0),
        ("power", (0.0, np.int64(0)), 0.0),
        ("power", (3.0, np.int64(-1)), 2.0 / 27.0),
        ("logaddexp", (1.0, 1.0), 0.25),
        ("logaddexp", (-INF, 1.0), 0.0),
        ("logaddexp", (900.0, -900.0), 0.0),
        ("hypot", (0.0, 2.0), 0.5),
        ("absolute", (0.0,), 0.0),
        ("square", (0.0,), 2.0),
        ("divide", (0.0, 2.0), 0.0),
        ("arctan", (0.0,), 0.0),
    ],
)
def test_second_derivative_in_the_first_operand(name, operands, expected):
    case = Case(TABLE[name], {}, [np.asarray(x) for x in operands], name)
    program = Program.of_vjp(case)
    inputs = [*case.operands, np.array(1.0)]
    direction = [np.array(1.0), *[np.zeros_like(x) for x in inputs[1:]]]
    with np.errstate(all="ignore"):
        forward = program.jvp(inputs, direction)[0]
        backward = program.vjp(inputs, [np.array(1.0), *[np.zeros_like(x) for x in case.operands[1:]]])[0]
    np.testing.assert_allclose([forward, backward], expected, rtol=1e-14, atol=1e-300)


def test_second_derivative_of_products_with_zeros():
    # d²(xyz)/dx dy = z, also where x = y = 0
    case = Case(TABLE["reduce_prod"], {"axes": (0,)}, [np.array([0.0, 0.0, 5.0])], "reduce_prod")
    program = Program.of_vjp(case)
    hessian = [program.jvp([*case.operands, np.array(1.0)], [row, np.array(0.0)])[0] for row in np.eye(3)]
    np.testing.assert_array_equal(hessian, [[0.0, 5.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
