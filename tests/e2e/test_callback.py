"""Python functions called from compiled code: values, declared types, and derivatives by rule."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import scipy.special

import tracegrad as tg

X = np.array([0.3, -1.0, 2.0])
calls: list[tuple[int, ...]] = []


def opaque(x, y):
    calls.append(x.shape)
    assert isinstance(x, np.ndarray)
    return np.sort(x) * y


def test_values_and_declared_types() -> None:
    f = tg.function(lambda x, y: tg.pure_callback(opaque, "f64[3]", 2 * x, y) + 1)
    np.testing.assert_allclose(f(X, 2.0), np.sort(2 * X) * 2 + 1)
    assert calls[-1] == (3,)
    assert "opaque" in f.source(X, 2.0)
    wrong = tg.function(lambda x: tg.pure_callback(opaque, "f64[4]", x, 1.0))
    with pytest.raises(tg.errors.ArgumentTypeError, match="TG238"):
        wrong(X)


def test_outside_a_capture_it_is_a_call() -> None:
    assert tg.pure_callback(np.sin, "f64[]", 0.0) == 0.0


def test_no_rule_is_an_error_and_no_zero() -> None:
    with pytest.raises(tg.errors.NotDifferentiableError, match="TG237"):
        tg.grad(lambda x: np.sum(tg.pure_callback(opaque, x, x, 1.0)))(X)
    with pytest.raises(tg.errors.NotDifferentiableError, match="TG237"):
        tg.jvp(lambda x: np.sum(tg.pure_callback(opaque, x, x, 1.0)), (X,), (X,))
    cut = tg.grad(lambda x: np.sum(x * tg.pure_callback(opaque, x, tg.stop_gradient(x), 1.0)))(X)
    np.testing.assert_allclose(cut, np.sort(X))


def smooth(x, y):
    return np.sin(x) * y, np.sum(x) * y**2, 7


@pytest.mark.parametrize(("rule", "rtol"), [("finite-difference", 1e-8), ("complex-step", 1e-14)])
def test_numeric_rules(rule: str, rtol: float) -> None:
    def f(x, y):
        a, b, n = tg.pure_callback(smooth, ("f64[3]", "f64[]", "i64[]"), x, y, rule=rule)
        return np.sum(a**2) * b + n

    def plain(x, y):
        a, b, n = smooth(x, y)
        return np.sum(a**2) * b + n

    expected = tg.grad(plain, argnums=(0, 1))(X, 1.5)
    for got, want in zip(tg.grad(f, argnums=(0, 1))(X, 1.5), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=rtol)
    t_out = tg.jvp(f, (X, 1.5), (X, 2.0))[1]
    np.testing.assert_allclose(t_out, expected[0] @ X + 2 * expected[1], rtol=rtol)
    assert rule.replace("-", "_") in tg.grad(f).source(X, 1.5)


def half(z):
    return 0.5 * float(z) ** 2


NOT_ANALYTIC = {
    "abs": np.abs,
    "real": lambda z: z.real**2,
    "float": half,
    "interp": lambda z: np.interp(z, [-1.0, 1.0, 2.0], [0.0, 1.0, 4.0]),
    "modulus in complex": lambda z: abs(z) ** 2 + 0j,
    "math": lambda z: math.exp(z),
    "noise": lambda z: scipy.special.jv(1, z),
    "zero": scipy.special.expi,
    "large": scipy.special.wofz,
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("fn", NOT_ANALYTIC.values(), ids=NOT_ANALYTIC)
def test_a_complex_step_that_is_not_the_derivative_is_refused(fn, dtype) -> None:
    def f(x):
        return 2 * tg.pure_callback(lambda z: np.real(fn(z)) if z.dtype.kind == "f" else fn(z), x, x, rule=rule)

    for value in (0.7, 1e-7, -1e-7):
        x, rule = dtype(value), "complex-step"
        with pytest.raises(tg.errors.NotDifferentiableError, match="TG235") as caught:
            tg.grad(f)(x)
        assert 'rule="finite-difference"' in str(caught.value)
    rule = "finite-difference"
    assert np.isfinite(tg.grad(f)(dtype(0.7)))


STEEP = {
    "log": (np.log, np.reciprocal, (1e-12, 1e-3, 0.3, 1.0, 1e5)),
    "exp": (lambda z: np.exp(1e6 * z), lambda x: 1e6 * np.exp(1e6 * x), (0.0, 1e-12, -1e-5, 3e-5)),
    "sin": (lambda z: np.sin(1e5 * z), lambda x: 1e5 * np.cos(1e5 * x), (0.0, 1e-12, 0.3, 1.0)),
    "units": (lambda z: np.sin(1e12 * z), lambda x: 1e12 * np.cos(1e12 * x), (3e-13, 1e-24, -1e-12)),
    "relu": (lambda z: np.where(z.real > 0, z, 0), lambda x: float(x > 0), (0.0, 1e-12, -1e-12, 1.0)),
    "constant": (lambda z: 3.0, lambda x: 0.0, (0.0, 1e-12, 1.0)),
    "edge": (lambda z: z**2.5, lambda x: 2.5 * x**1.5, (0.0, 1e-12, 1.0)),
    "nan": (np.square, lambda x: x, (np.nan,)),
}


@pytest.mark.parametrize("name", STEEP)
def test_a_complex_step_that_is_the_derivative_is_taken(name: str) -> None:
    fn, slope, points = STEEP[name]
    for x in map(np.float64, points):
        found = tg.grad(lambda x: tg.pure_callback(fn, "f64[]", x, rule="complex-step"))(x)
        np.testing.assert_allclose(found, slope(x), rtol=1e-13, atol=1e-40)


def test_a_complex_step_is_compared_at_every_call_and_in_every_argument() -> None:
    def bend(x, y):
        return np.where(x.real < 1, np.sin(x), np.abs(x)) * 3 + np.where(y[0].real < 1, y[1], y[1].real)

    g = tg.grad(lambda x, y: tg.pure_callback(bend, "f64[]", x, y, rule="complex-step"), argnums=(0, 1))
    assert g(0.5, np.zeros(2))[0] == pytest.approx(3 * np.cos(0.5), rel=1e-14)
    for x, y in ((1.5, np.zeros(2)), (0.5, np.ones(2))):
        with pytest.raises(tg.errors.NotDifferentiableError, match="TG235"):
            g(x, y)
    assert g(0.5, np.zeros(2))[1].tolist() == [0.0, 1.0]


def test_an_error_of_the_callback_itself_stays() -> None:
    def fails(x):
        raise OSError("no file")

    with pytest.raises(OSError, match="no file"):
        tg.grad(lambda x: tg.pure_callback(fails, "f64[]", x, rule="complex-step"))(1.0)


def test_complex_arguments_and_results() -> None:
    functions = {"square": lambda z: z**2, "modulus": lambda z: np.conj(z) * z, "wave": lambda z: np.exp(1j * z)}
    for z, t in ((1 + 2j, 1j), (1 + 2j, 1 + 0j), (0.3, 0.7)):
        for fn in functions.values():
            called = lambda z, rule="finite-difference": tg.pure_callback(fn, "c128[]", z, rule=rule)
            found, expected = tg.jvp(called, (z,), (t,))[1], tg.jvp(fn, (z,), (t,))[1]
            assert found == pytest.approx(complex(expected), rel=1e-8)
            with pytest.raises(tg.errors.ArgumentTypeError, match="TG235"):
                tg.jvp(lambda z: called(z, "complex-step"), (z,), (t,))
    power = lambda z: np.sum(tg.pure_callback(lambda z: abs(z) ** 2, "f64[2]", z, rule="finite-difference"))
    np.testing.assert_allclose(tg.grad(power)(np.array([1 + 2j, -1j])), [2 + 4j, -2j], rtol=1e-8)


@pytest.mark.parametrize("rule", ["complex-step", "finite-difference"])
@pytest.mark.parametrize("outer", [tg.grad, tg.jacfwd], ids=["grad", "jacfwd"])
def test_numeric_rules_have_no_second_derivative(rule: str, outer: Any) -> None:
    g = tg.grad(lambda x: np.sum(tg.pure_callback(np.sin, x, x, rule=rule)))
    with pytest.raises(tg.errors.NotDifferentiableError) as caught:
        outer(lambda x: np.sum(g(x)))(X)
    assert f"the {rule.replace('-', ' ')} of sin" in str(caught.value)
    assert "give tg.pure_callback a function as its rule" in str(caught.value)


def test_rule_as_a_function() -> None:
    def rule(primals, tangents):
        return np.sin(primals[0]), 3.0 * np.cos(primals[0]) * tangents[0]

    g = tg.grad(lambda x: np.sum(tg.pure_callback(np.sin, x, x, rule=rule)))
    np.testing.assert_allclose(g(X), 3 * np.cos(X))
    second = tg.grad(lambda x: np.sum(g(x)))
    np.testing.assert_allclose(second(X), -3 * np.sin(X))


def test_in_a_loop_under_vmap_and_with_sizes() -> None:
    def f(x):
        total = 0.0
        for k in range(3):
            total = total + np.sum(tg.pure_callback(np.cbrt, x, x * (k + 1.0), rule="finite-difference"))
        return total

    for x in (np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0])):
        expected = sum((k + 1) / 3 * np.abs(x * (k + 1)) ** (-2 / 3) for k in range(3))
        np.testing.assert_allclose(tg.grad(f)(x), expected, rtol=1e-8)
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(tg.vmap(f)(rows), [f(row) for row in rows])


def test_c_backend_falls_back() -> None:
    f = tg.function(lambda x: tg.pure_callback(np.sin, x, x), backend="c")
    with pytest.warns(RuntimeWarning, match="NumPy backend is used"):
        np.testing.assert_allclose(f(X), np.sin(X))


def sine(x):
    return tg.pure_callback(np.sin, "f64[3]", x, rule=lambda p, t: (sine(p[0]), cosine(p[0]) * t[0]))


def cosine(x):
    return tg.pure_callback(np.cos, "f64[3]", x, rule=lambda p, t: (cosine(p[0]), -sine(p[0]) * t[0]))


def test_rules_that_call_the_callback_itself() -> None:
    def f(x):
        return np.sum(sine(x) * x)

    def g(x):
        return np.sum(np.sin(x) * x)

    for derivative in (tg.grad, tg.hessian, tg.jacfwd, lambda f: tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2))):
        np.testing.assert_allclose(derivative(f)(X), derivative(g)(X), rtol=1e-13)


def parts(x):
    return {"wave": np.sin(x), "rest": [x[0] ** 2, (2 * x,)], "count": len(x)}


PARTS = {"wave": "f64[3]", "rest": ["f64[]", (X,)], "count": "i64[]"}


@pytest.mark.parametrize("rule", ["finite-difference", "complex-step"])
def test_results_of_any_structure(rule) -> None:
    def f(x):
        found = tg.pure_callback(parts, PARTS, x, rule=rule)
        return np.sum(found["wave"]) * found["rest"][0] + np.sum(found["rest"][1][0] ** 2) * found["count"]

    def g(x):
        return np.sum(np.sin(x)) * x[0] ** 2 + np.sum((2 * x) ** 2) * 3

    assert float(tg.function(f)(X)) == pytest.approx(float(g(X)), rel=1e-14)
    np.testing.assert_allclose(tg.grad(f)(X), tg.grad(g)(X), rtol=1e-7)
    found = tg.function(lambda x: tg.pure_callback(parts, PARTS, x))(X)
    assert list(found) == ["wave", "rest", "count"]
    assert found["rest"][1][0].tolist() == (2 * X).tolist()
    with pytest.raises(tg.errors.ArgumentTypeError, match="TG238"):
        tg.function(lambda x: tg.pure_callback(parts, {"wave": "f64[3]"}, x))(X)


def test_the_numeric_rule_is_named_in_the_code() -> None:
    for rule in ("finite-difference", "complex-step"):
        text = tg.grad(lambda x, rule=rule: np.sum(tg.pure_callback(np.sin, "f64[3]", x, rule=rule))).source(X)
        assert f"{rule.replace('-', '_')}_of_sin" in text


def test_functions_that_captured_code_defines() -> None:
    def f(x, power=2):
        def opaque(y, *, scale=1.5):
            out = np.empty_like(y)
            for i in range(len(y)):
                out[i] = y[i] ** power if y[i].real > 0 else y[i] * scale
            return out

        total = np.sum(tg.pure_callback(opaque, "f64[3]", x, rule="complex-step") ** 2)
        for k in range(3):
            total = total + tg.pure_callback(lambda y: 2 * y, "f64[3]", x * k, rule="finite-difference")[k]
        return total

    assert float(tg.function(f)(X)) == pytest.approx(float(f(X)), rel=1e-14)
    np.testing.assert_allclose(tg.grad(f)(X), [4 * X[0] ** 3, 4.5 * X[1] + 2, 4 * X[2] ** 3 + 4], rtol=1e-9)


def test_a_callback_that_reads_a_traced_value_is_refused() -> None:
    def f(x):
        return np.sum(tg.pure_callback(lambda y: y * x[0], "f64[3]", x))

    with pytest.raises(tg.errors.CaptureError, match=r"TG129(.|\n)*x, which the callback lambda reads"):
        tg.function(f)(X)


@dataclasses.dataclass
class Model:
    weights: Any
    kind: str = "square"


def apply(model, options, pair, n, name, nothing):
    assert type(model) is Model
    assert type(options) is dict
    assert type(pair) is tuple
    assert type(pair[1]) is list
    assert (type(n), type(name), nothing) == (int, str, None)
    assert model.kind == "square"
    return options["scale"] * np.sum(model.weights**n) + pair[0] * pair[1][0]


@pytest.mark.parametrize("rule", [None, "finite-difference", "complex-step"])
def test_arguments_arrive_as_they_were_given(rule: Any) -> None:
    def f(x, scale):
        args = Model(x), {"scale": scale}, (scale, [x[0]]), 2, "name", None
        return tg.pure_callback(apply, "f64[]", *args, rule=rule)

    def plain(x, scale):
        return scale * np.sum(x**2) + scale * x[0]

    assert tg.function(f, backend="numpy")(X, 3.0) == pytest.approx(plain(X, 3.0), rel=1e-14)
    if rule is not None:
        for got, want in zip(tg.grad(f, argnums=(0, 1))(X, 3.0), tg.grad(plain, argnums=(0, 1))(X, 3.0), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-8)


def test_static_values_are_told_apart() -> None:
    def describe(x, values):
        return float(sum(repr(v) in ("True", "'1'") for v in values)) * x

    @tg.function
    def f(x, values):
        return tg.pure_callback(describe, "f64[]", x, values)

    assert [f(2.0, values) for values in ((1, 1), (True, 1), ("1", True), (1, 1))] == [0.0, 2.0, 4.0, 0.0]


def test_a_rule_gets_dicts_too() -> None:
    def rule(primals, tangents):
        (given, n), (t, t_n) = primals, tangents
        assert t_n is None
        return tg.pure_callback(power, "f64[3]", given, n), n * given["x"] ** (n - 1) * t["x"]

    def power(given, n):
        return given["x"] ** n

    f = lambda x: np.sum(tg.pure_callback(power, x, {"x": x}, 3, rule=rule))
    np.testing.assert_allclose(tg.grad(f)(X), 3 * X**2)


def test_a_wrong_result_names_the_line() -> None:
    def f(x):
        return np.sum(tg.pure_callback(np.sort, "f64[4]", x))

    for transformed in (tg.function(f), tg.function(lambda x, *, k=1: f(x) * k)):
        with pytest.raises(tg.errors.ArgumentTypeError, match="TG238") as caught:
            transformed(X)
        assert caught.value.span is not None
        assert "test_callback.py" in str(caught.value)
        assert 'tg.pure_callback(np.sort, "f64[4]", x)' in str(caught.value)


def test_callbacks_on_one_line_are_told_apart() -> None:
    def difference(x: Any) -> Any:
        a, b = (lambda v: np.sin(v) if v > 0 else v), (lambda v: np.cos(v) if v > 0 else v)
        return tg.pure_callback(a, "f64[]", x) - 2 * tg.pure_callback(b, "f64[]", x)

    def rule(primals: Any, tangents: Any) -> Any:
        return primals[0] ** 2, 2 * primals[0] * tangents[0]

    def nested(x: Any) -> Any:
        return tg.pure_callback(lambda v: (lambda v: v**2)(v), "f64[]", x, rule=rule)

    assert tg.function(difference)(0.5) == pytest.approx(np.sin(0.5) - 2 * np.cos(0.5), rel=1e-14)
    assert tg.grad(nested)(0.5) == 1.0


@pytest.mark.parametrize("rule", ["finite-difference", "complex-step"])
def test_a_local_function_in_the_rule_of_another_callback(rule: str) -> None:
    def f(a):
        def slope(primals, tangents):
            inner = tg.pure_callback(lambda u: np.exp(u), primals[0], primals[0], rule=rule)
            return np.exp(primals[0]), tangents[0] * inner

        return tg.pure_callback(np.exp, a, a, rule=slope)

    assert tg.grad(f)(0.7) == pytest.approx(np.exp(0.7))
    assert tg.grad(tg.grad(f))(0.7) == pytest.approx(np.exp(0.7), rel=1e-6)


@pytest.mark.parametrize("rule", ["finite-difference", "complex-step"])
def test_a_numeric_rule_says_what_the_function_returned(rule: str) -> None:
    def first(x):
        return np.sin(x)[:1]

    def pair(x):
        return np.sin(x), np.sin(x)

    def complex_numbers(x):
        return np.sin(x) * 1j

    cases = {
        first: "first returns float64 array of shape (1,), not f64[3]",
        pair: "pair returns float64 array of shape (2, 3), not f64[3]",
        complex_numbers: "complex_numbers returns complex128 array of shape (3,), not f64[3]",
    }
    for fn, found in cases.items():
        if fn is complex_numbers and rule == "complex-step":
            continue  # its derivative is that of the real part
        with pytest.raises(tg.errors.ArgumentTypeError, match="TG238") as caught:
            tg.grad(lambda x, fn=fn: np.sum(tg.pure_callback(fn, "f64[3]", x, rule=rule)))(np.ones(3))
        assert found in str(caught.value)


def test_the_key_of_an_error_stays() -> None:
    table: dict[Any, Any] = {}

    def f(x):
        return np.sum(tg.pure_callback(lambda x: table["missing"], "f64[3]", x))

    with pytest.raises(KeyError) as caught:
        tg.function(f)(np.ones(3))
    assert caught.value.args == ("missing",)
    (note,) = caught.value.__notes__
    assert 'tg.pure_callback(lambda x: table["missing"]' in note
