"""Functions with rules of their own: right derivatives in all modes and places, from the rule and not the function."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.driver import pipeline
from tracegrad.errors import ArgumentTypeError
from tracegrad.ir.parser import parse_function
from tracegrad.ir.printer import print_function
from tracegrad.ir.verifier import verify_function
from tracegrad.runtime.signature import signature_of
from tracegrad.testing.check_grads import RuleSearch

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])
ROOT = Path(__file__).parents[2]
X = np.array([0.3, -1.0, 2.0])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@tg.custom_jvp
def softplus(x):
    return np.log1p(np.exp(x))


@softplus.defjvp
def softplus_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return softplus(x), t * sigmoid(x)


@tg.custom_vjp
def marked_power(x, n):
    """x**n with ten times its derivative, so that the rule shows; n is a Python int."""
    return x**n


def marked_forward(x, n):
    return x**n, (x, n)


def marked_backward(residuals, ct):
    x, n = residuals
    assert isinstance(n, int)
    return 10.0 * ct * n * x ** (n - 1), None


marked_power.defvjp(marked_forward, marked_backward)


def test_outside_a_capture_it_is_the_function() -> None:
    assert softplus(0.0) == np.log(2.0)
    assert marked_power(3.0, 2) == 9.0
    assert softplus.__name__ == "softplus"


@each_backend
def test_forward_rule_in_all_modes(backend: str) -> None:
    def f(x):
        return np.sum(softplus(x) * x)

    s = sigmoid(X)
    gradient = s * X + np.log1p(np.exp(X))
    second = 2 * s + X * s * (1 - s)
    np.testing.assert_allclose(tg.grad(f, backend=backend)(X), gradient, rtol=1e-14)
    np.testing.assert_allclose(tg.jvp(f, (X,), (X,), backend=backend)[1], gradient @ X, rtol=1e-14)
    np.testing.assert_allclose(tg.hessian(f, backend=backend)(X), np.diag(second), atol=1e-15)
    np.testing.assert_allclose(tg.jacfwd(softplus, backend=backend)(X), np.diag(s), atol=1e-15)
    np.testing.assert_allclose(tg.jacrev(softplus, backend=backend)(X), np.diag(s), atol=1e-15)
    twice = tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2), backend=backend)(X)
    np.testing.assert_allclose(twice, 2 * gradient * second, rtol=1e-14)
    pushed = tg.jvp(lambda x: tg.jvp(f, (x,), (X,))[1], (X,), (X,), backend=backend)[1]
    np.testing.assert_allclose(pushed, np.sum(second * X * X), rtol=1e-14)


@each_backend
def test_reverse_rule_in_all_modes(backend: str) -> None:
    def f(x):
        return np.sum(marked_power(x, 3))

    assert tg.function(f, backend=backend)(X) == pytest.approx(np.sum(X**3))
    np.testing.assert_allclose(tg.grad(f, backend=backend)(X), 30 * X**2)
    # the second derivative is that of the rule
    np.testing.assert_allclose(tg.hessian(f, backend=backend)(X), np.diag(60 * X))
    # forward mode is the transpose of the rule
    np.testing.assert_allclose(tg.jvp(f, (X,), (X,), backend=backend)[1], np.sum(30 * X**3))
    np.testing.assert_allclose(tg.jacobian(lambda x: marked_power(x, 2), backend=backend)(X), np.diag(20 * X))
    np.testing.assert_allclose(tg.vjp(f, X, backend=backend)[1](2.0)[0], 60 * X**2)


@each_backend
def test_in_loops_and_branches(backend: str) -> None:
    def f(x):
        total, k = 0.0, 0
        while k < 4:
            if x[0] * k > 0.5:
                total = total + np.sum(marked_power(x * k, 2))
            else:
                total = total + softplus(x[1])
            k += 1
        return total

    def gradient(x):
        result = np.zeros(3)
        for k in range(4):
            if x[0] * k > 0.5:
                result += 20 * x * k * k
            else:
                result[1] += sigmoid(x[1])
        return result

    for x in (X, -X):
        np.testing.assert_allclose(tg.grad(f, backend=backend)(x), gradient(x), rtol=1e-14)
        np.testing.assert_allclose(tg.jvp(f, (x,), (X,), backend=backend)[1], gradient(x) @ X, rtol=1e-14)


class Point(NamedTuple):
    x: np.ndarray
    y: np.ndarray


@each_backend
def test_pytrees_and_static_arguments(backend: str) -> None:
    @tg.custom_vjp
    def combine(point, options, mode):
        scale = options["scale"] if mode == "scaled" else 1.0
        return {"sum": point.x + point.y, "product": [scale * point.x * point.y], "mode": mode}

    def forward(point, options, mode):
        assert mode == "scaled"
        return combine(point, options, mode), (point, options["scale"])

    def backward(residuals, ct):
        point, scale = residuals
        assert ct["mode"] is None
        product = ct["product"][0]
        ct_scale = np.sum(product * point.x * point.y)
        return (
            Point(ct["sum"] + scale * product * point.y, ct["sum"] + scale * product * point.x),
            {
                "scale": ct_scale,
                "unused": None,
            },
            None,
        )

    combine.defvjp(forward, backward)

    def f(point, scale):
        out = combine(point, {"scale": scale, "unused": 1.0}, "scaled")
        assert out["mode"] == "scaled"
        return np.sum(out["sum"] ** 2) + np.sum(out["product"][0] ** 2)

    y = X[::-1].copy()
    (gx, gy), gs = tg.grad(f, argnums=(0, 1), backend=backend)(Point(X, y), 1.5)
    np.testing.assert_allclose(gx, 2 * (X + y) + 2 * 1.5**2 * X * y * y)
    np.testing.assert_allclose(gy, 2 * (X + y) + 2 * 1.5**2 * X * X * y)
    np.testing.assert_allclose(gs, 2 * 1.5 * np.sum((X * y) ** 2))
    t_out = tg.jvp(f, (Point(X, y), 1.5), (Point(X, y), 0.5), backend=backend)[1]
    np.testing.assert_allclose(t_out, gx @ X + gy @ y + 0.5 * gs)


@each_backend
def test_rules_with_loops(backend: str) -> None:
    @tg.custom_jvp
    def root(a):
        """The x with x + x**3 = a, by Newton's method."""
        x = a * 0.0
        while np.abs(x + x**3 - a) > 1e-14:
            x = x - (x + x**3 - a) / (1 + 3 * x**2)
        return x

    @root.defjvp
    def implicit(primals, tangents):
        x = root(*primals)
        total = 0.0
        for _ in range(4):
            total = total + tangents[0] / (1 + 3 * x**2) / 4
        return x, total

    def f(a):
        result = 0.0
        for k in range(3):
            result = result + root(a * (k + 1.0)) ** 2
        return result

    def gradient(a):
        result = 0.0
        for k in range(1, 4):
            x = root(a * k)
            result += 2 * x * k / (1 + 3 * x**2)
        return result

    np.testing.assert_allclose(tg.grad(f, backend=backend)(0.7), gradient(0.7), rtol=1e-12)
    np.testing.assert_allclose(tg.jvp(f, (0.7,), (1.0,), backend=backend)[1], gradient(0.7), rtol=1e-12)
    difference = (gradient(0.7 + 1e-5) - gradient(0.7 - 1e-5)) / 2e-5
    np.testing.assert_allclose(tg.hessian(f, backend=backend)(0.7), difference, rtol=1e-8)


@each_backend
def test_under_vmap(backend: str) -> None:
    rows = np.stack([X, 2 * X])

    def f(rows):
        return np.sum(tg.vmap(lambda x: marked_power(x, 2) * softplus(x[0]))(rows))

    gradient = 20 * rows * softplus(rows[:, :1])
    gradient[:, 0] += sigmoid(rows[:, 0]) * np.sum(rows**2, axis=1)
    np.testing.assert_allclose(tg.grad(f, backend=backend)(rows), gradient, rtol=1e-14)
    batched = tg.vmap(tg.grad(lambda x: np.sum(marked_power(x, 2))), backend=backend)(rows)
    np.testing.assert_allclose(batched, 20 * rows)


@each_backend
def test_values_from_outside(backend: str) -> None:
    weights = np.array([1.0, 2.0, 3.0])

    @tg.custom_vjp
    def weighted(x):
        return x * weights

    weighted.defvjp(lambda x: (weighted(x), None), lambda _, ct: (ct * weights * 10,))
    g = tg.grad(lambda x: np.sum(weighted(x)), backend=backend)
    np.testing.assert_allclose(g(X), 10 * weights)
    weights[:] = 1.0
    np.testing.assert_allclose(g(X), 10 * weights)

    def closes_over(x):
        @tg.custom_jvp
        def scaled(y):
            return y * tg.stop_gradient(x)

        scaled.defjvp(lambda primals, tangents: (scaled(*primals), 7.0 * tangents[0] * tg.stop_gradient(x)))
        return np.sum(scaled(x))

    np.testing.assert_allclose(tg.grad(closes_over, backend=backend)(X), 7 * X)


def test_closing_over_what_is_differentiated_is_refused() -> None:
    def f(x):
        @tg.custom_vjp
        def scaled(y):
            return y * x

        scaled.defvjp(lambda y: (scaled(y), y), lambda y, ct: (ct,))
        return np.sum(scaled(2 * x))

    with pytest.raises(tg.errors.NotDifferentiableError, match="TG236"):
        tg.grad(f)(X)


def test_redefined_rule_is_used() -> None:
    @tg.custom_vjp
    def double(x):
        return 2 * x

    g = tg.grad(lambda x: np.sum(double(x)))
    double.defvjp(lambda x: (2 * x, None), lambda _, ct: (2 * ct,))
    np.testing.assert_allclose(g(X), 2.0)
    double.defvjp(lambda x: (2 * x, None), lambda _, ct: (3 * ct,))
    np.testing.assert_allclose(g(X), 3.0)


def test_method_partial_and_keyword() -> None:
    class Layer:
        def __init__(self, w):
            self.w = w

        @tg.custom_jvp
        def apply(self, x, *, shift=0.0):
            return self.w * x + shift

        @apply.defjvp
        def rule(primals, tangents, shift=None):
            layer, x, shift = primals
            return layer.w * x + shift, 5.0 * tangents[1]

    layer = Layer(2.0)
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(layer.apply(x, shift=1.0)))(X), 5.0)
    scaled = functools.partial(marked_power, n=2)
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(scaled(x)))(X), 20 * X)


def test_float32_and_complex() -> None:
    x = X.astype(np.float32)
    gradient = tg.grad(lambda x: np.sum(marked_power(x, 2)))(x)
    assert gradient.dtype == np.float32

    @tg.custom_vjp
    def holomorphic(z):
        return z * z

    holomorphic.defvjp(lambda z: (z * z, z), lambda z, ct: (2 * np.conj(z) * ct,))

    def f(z):
        return np.sum(np.abs(holomorphic(z)) ** 2)

    z = X + 1j * X[::-1]
    np.testing.assert_allclose(tg.grad(f)(z), tg.grad(lambda z: np.sum(np.abs(z * z) ** 2))(z))


def test_ir_prints_parses_and_verifies() -> None:
    def f(x):
        return np.sum(softplus(x) + marked_power(x, 2))

    signature, _ = signature_of(["x"], [X])
    program = pipeline.build_program(f, pipeline.Request(), signature)
    verify_function(program.captured.function)
    text = print_function(program.captured.function, spans=False)
    again = parse_function(text)
    verify_function(again)
    assert print_function(again, spans=False) == text
    assert "custom_jvp" in text
    assert "= custom_" not in tg.grad(f).lower(X)


def test_check_finds_a_wrong_rule(tmp_path: Path) -> None:
    module = tmp_path / "wrong_rule.py"
    module.write_text(
        "import numpy as np\nimport tracegrad as tg\n\n"
        "@tg.custom_vjp\ndef square(x):\n    return x**2\n\n"
        "square.defvjp(lambda x: (x**2, x), lambda x, ct: (np.where(x > 0, 2, 3) * x * ct,))\n\n"
        "def f(x):\n    return np.sum(square(x))\n"
    )
    command = [sys.executable, "-m", "tracegrad", "check", f"{module}:f", "--arg", "x=f64[3]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode != 0
    assert "WRONG" in done.stdout
    assert "x = array([" in done.stdout


def while_tangents_are_small(x, t):
    while np.sum(t * t) < 100:
        t = 2 * t
    return t


def power_in_a_loop(x, t):
    product = t
    for _ in range(5):
        product = product * t
    return product


def branch_on_tangents(x, t):
    if np.sum(t) > 0:
        return 2 * x * t
    return 3 * x * t


def stored_squares(x, t):
    out = np.zeros(3)
    for i in range(3):
        out[i] = t[i] ** 2
    return out


def constant_boundary(x, t):
    out = 2 * x * t
    out[0] = 1.0
    return out


NONLINEAR = {
    "a constant is added": lambda x, t: 2 * x * t + 1,
    "constants, and a sum": lambda x, t: (np.sum(2 * x * t) - 3 - x) * 1.0,
    "a modulus": lambda x, t: t * np.abs(t),
    "a square": lambda x, t: t**2,
    "nothing of the tangents": lambda x, t: x,
    "a number": lambda x, t: np.ones(3),
    "a choice by tangents": lambda x, t: np.where(t > 0, t, 2 * t),
    "a branch by tangents": branch_on_tangents,
    "a loop that multiplies": power_in_a_loop,
    "a loop ended by tangents": while_tangents_are_small,
    "stores of squares": stored_squares,
    "a store of a constant": constant_boundary,
    "a cut tangent": lambda x, t: tg.stop_gradient(t) * x,
    "a norm": lambda x, t: t / np.linalg.norm(t),
    "a maximum": lambda x, t: np.maximum(t, 0),
    "integers": lambda x, t: t.astype(int) * 1.0,
    "an inner gradient": lambda x, t: tg.grad(lambda y: np.sum(y * t**2))(x),
    "a checkpoint": lambda x, t: tg.checkpoint(lambda s: s * s)(t),
    "an order by tangents": lambda x, t: np.sort(t),
}


def weighted_steps(x, t):
    total = t
    for _ in range(3):
        total = total * x + t
    while np.sum(x) < 100:
        x, total = 2 * x + 40, 2 * total
    return total


def stored_products(x, t):
    out = np.empty(3)
    for i in range(3):
        out[i] = t[i] * x[i]
    return out


def block_of_a_product(x, t):
    both = np.block([[np.diag(x), np.diag(t)], [np.zeros((3, 3)), np.diag(x)]])
    return (both @ both)[:3, 3:] @ np.ones(3)


LINEAR = {
    "zero": lambda x, t: 0 * t,
    "zeros": lambda x, t: np.zeros(3),
    "None": lambda x, t: None,
    "a choice by primals": lambda x, t: np.where(x > 0, t, 2 * t),
    "loops": weighted_steps,
    "stores": stored_products,
    "a part of a product": block_of_a_product,
    "a solve": lambda x, t: np.linalg.solve(np.eye(3) + np.outer(x, x), t),
    "an inner JVP": lambda x, t: tg.jvp(lambda y: np.sin(y) * y, (x,), (t,))[1],
    "an inner gradient": lambda x, t: tg.grad(lambda y: np.sum(y**3 * t))(x),
    "an inner Hessian product": lambda x, t: tg.hvp(lambda y: np.sum(y**3), (x,), (t,))[0],
    "a test for NaN": lambda x, t: np.nan_to_num(x * t),
    "a checkpoint": lambda x, t: tg.checkpoint(lambda a, b: np.sin(a) * b)(x, t),
    "an order by primals": lambda x, t: t[np.argsort(x)] + np.roll(np.cumsum(t), 1),
    "elements": lambda x, t: np.array([t[0] * x[1], t[1], 0.0]),
    "a batch": lambda x, t: tg.vmap(lambda a, b: a * b)(x, t),
    "single precision": lambda x, t: t.astype(np.float32).astype(float),
}
#: by complex numbers, which C has not
LINEAR_IN_NUMPY = {
    "a complex step": lambda x, t: np.imag(np.sin(x + 1e-30j * t)) / 1e-30,
    "a Fourier transform": lambda x, t: np.fft.irfft(np.fft.rfft(t * x), 3),
}


def with_tangent(rule):
    f = tg.custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (primals[0] ** 2, rule(primals[0], tangents[0])))
    return lambda x: np.sum(f(x))


@pytest.mark.parametrize("name", NONLINEAR)
def test_a_rule_that_is_seen_not_to_be_linear_is_refused(name: str) -> None:
    for transform in (tg.grad, tg.jacfwd, tg.function):
        with pytest.raises(tg.errors.ArgumentError, match="not linear in the tangents") as caught:
            transform(with_tangent(NONLINEAR[name]))(X)
        assert caught.value.code == "TG232"


@pytest.mark.parametrize(
    ("name", "backend"),
    [*itertools.product(LINEAR, ["numpy", "c"]), *itertools.product(LINEAR_IN_NUMPY, ["numpy"])],
)
def test_a_linear_rule_is_the_same_in_both_modes(name: str, backend: str) -> None:
    f = with_tangent({**LINEAR, **LINEAR_IN_NUMPY}[name])
    forward, reverse = (made(f, backend=backend)(X) for made in (tg.jacfwd, tg.grad))
    np.testing.assert_allclose(forward, reverse, rtol=1e-6 if name == "single precision" else 1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("tangent", "wrong"),
    [
        ("2 * x * t + 1", "for zero tangents"),
        ("t * abs(t)", "for 3 times the tangents"),
        ("np.stack([x, t * t])[1]", "for 3 times the tangents"),  # not seen from the operations
    ],
)
def test_check_names_a_rule_that_is_not_linear(tmp_path: Path, tangent: str, wrong: str) -> None:
    module = tmp_path / "nonlinear_rule.py"
    module.write_text(
        "import numpy as np\nimport tracegrad as tg\n\n@tg.custom_jvp\ndef square(x):\n    return x**2\n\n"
        "@square.defjvp\ndef rule(primals, tangents):\n    (x,), (t,) = primals, tangents\n"
        f"    return square(x), {tangent}\n\ndef f(x):\n    return np.sum(square(x))\n"
    )
    command = [sys.executable, "-m", "tracegrad", "check", f"{module}:f", "--arg", "x=f64[3]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert f"the rule of square is not linear in the tangents: {wrong}" in done.stdout
    assert "x = array([" in done.stdout


@each_backend
def test_rule_that_calls_the_function_with_an_array_known_at_capture(backend: str) -> None:
    @tg.custom_vjp
    def solve(p: Any, start: Any) -> Any:
        return p * start + p

    solve.defvjp(
        lambda p, start: (solve(p, start), (p, start)), lambda kept, ct: (ct * (kept[1] + 1) * 2, ct * kept[0])
    )

    def f(p: Any) -> Any:
        return np.sum(solve(p, np.zeros(2))) + np.sum(solve(p, np.array([1.0, 2.0])) + solve(p, np.float64(3.0)))

    assert tg.grad(f, backend=backend)(np.ones(2)).tolist() == [14.0, 16.0]  # twice 1, 2 and 3, and 4
    assert tg.jvp(f, (np.ones(2),), (np.array([1.0, 0.0]),), backend=backend)[1] == 14.0

    @tg.custom_jvp
    def scaled(p: Any, by: Any) -> Any:
        return p * by

    scaled.defjvp(lambda primals, tangents: (scaled(*primals), 5 * tangents[0] * primals[1]))
    made = tg.grad(lambda p: np.sum(scaled(p, np.array([1.0, 2.0]))), backend=backend)
    assert made(np.ones(2)).tolist() == [5.0, 10.0]


@pytest.mark.parametrize("kind", ["custom_vjp", "custom_jvp", "checkpoint"])
def test_options_of_other_libraries_are_refused_with_a_hint(kind: str) -> None:
    made: Any = getattr(tg, kind)
    for misuse in (
        lambda: made(nondiff_argnums=(1,)),
        lambda: made(sigmoid, nondiff_argnums=(1,)),
        lambda: made(sigmoid, (1,)),
    ):
        with pytest.raises(tg.errors.ArgumentTypeError, match=rf"tg\.{kind} takes the function alone") as caught:
            misuse()
        assert f"write @tg.{kind} above the function" in caught.value.help
        assert "_Wrapped" not in str(caught.value)
    with pytest.raises(tg.errors.ArgumentTypeError, match=f"tg.{kind} needs a function"):
        made()


def test_messages_call_a_list_a_list() -> None:
    @tg.custom_vjp
    def same(x):
        return x

    def message() -> str:
        with pytest.raises(tg.errors.ArgumentTypeError, match="TG231") as caught:
            tg.grad(same)(1.0)
        return str(caught.value.found)

    same.defvjp(lambda x: (x, None), lambda _, ct: [ct])
    assert message() == "a list of 1"
    same.defvjp(lambda x: [x, x], lambda _, ct: (ct,))
    assert message() == "a list of 2"
    same.defvjp(lambda x: (x, None), lambda _, ct: ([ct],))
    assert message() == "the cotangent of x: a list of 1"


@tg.custom_vjp
def squared(x):
    return x**2


squared.defvjp(lambda x: (x**2, x), lambda x, ct: (3 * x * ct,))


def wrong_sine(primals, tangents):
    return np.sin(primals[0]), np.sin(primals[0]) * tangents[0]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: np.sum(tg.vmap(squared)(x)), "squared"),
        (lambda x: tg.function(lambda x: np.sum(squared(x)))(x), "squared"),
        (lambda x: np.sum(tg.pure_callback(np.sin, "f64[3]", x, rule=wrong_sine)), "sin"),
        (lambda x: np.sum(tg.vmap(lambda e: tg.pure_callback(np.sin, "f64[]", e, rule=wrong_sine))(x)), "sin"),
    ],
)
def test_a_wrong_rule_is_found_where_compiled_code_uses_it(function: Any, name: str) -> None:
    search = RuleSearch(function)
    search.at(["x"], [X], np.random.default_rng(0))
    ((call, wrong),) = search.found.values()
    assert call.name == name
    assert wrong


def test_rules_that_are_right_are_not_blamed() -> None:
    def f(x: Any) -> Any:
        middle = tg.pure_callback(np.sin, "f64[]", x[0], rule="finite-difference")
        return middle + np.sum(tg.vmap(lambda e: tg.pure_callback(np.sin, "f64[]", e, rule="complex-step"))(x))

    search = RuleSearch(f)
    search.at(["x"], [X], np.random.default_rng(0))
    assert search.called
    assert not search.found


@tg.custom_jvp
def stable(z):
    return np.log1p(np.exp(z))


@stable.defjvp
def stable_jvp(primals, tangents):
    return stable(*primals), tangents[0] / (1.0 + np.exp(-primals[0]))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_rule_serves_all_sizes(backend, monkeypatch):
    def of_rows(x):
        return np.sum(stable(x))

    def one_by_one(x):
        total = 0.0
        for i in range(len(x)):
            total += stable(x[i])
        return total

    for f in (of_rows, one_by_one):
        gradient = tg.grad(f, backend=backend)
        for n in range(5, 8):
            np.testing.assert_allclose(gradient(np.ones(n)), np.full(n, 1.0 / (1.0 + np.exp(-1.0))), rtol=1e-12)
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "build_program", None)
            np.testing.assert_allclose(gradient(np.ones(11)), np.full(11, 1.0 / (1.0 + np.exp(-1.0))), rtol=1e-12)


@pytest.mark.parametrize(
    "kind, backend", [("jvp", "numpy"), ("jvp", "c"), ("vjp", "numpy"), ("vjp", "c"), ("callback", "numpy")]
)
def test_a_rule_may_give_python_numbers(kind: str, backend: str) -> None:
    @tg.custom_jvp
    def forward(x):
        return {"y": 2.0 * x, "count": np.sum(x > 0), "mean": np.mean(0.0 * x + 2.0), "any": np.any(x > 0)}

    forward.defjvp(
        lambda p, t: (
            {"y": 2.0 * p[0], "count": 2, "mean": 2, "any": True},
            {"y": 2.0 * t[0], "count": None, "mean": 0, "any": None},
        )
    )
    reverse = tg.custom_vjp(forward._function)
    reverse.defvjp(
        lambda x: ({"y": 2.0 * x, "count": np.int64(2), "mean": 2.0, "any": True}, 2),
        lambda k, ct: (k * ct["y"],),
    )

    def called(x):
        return tg.pure_callback(
            forward._function,
            {"y": "f64[2]", "count": "i64[]", "mean": "f64[]", "any": "bool[]"},
            x,
            rule=lambda p, t: (
                {"y": 2.0 * p[0], "count": 2, "mean": 2, "any": True},
                {"y": 2.0 * t[0], "count": None, "mean": 0.0, "any": None},
            ),
        )

    function = {"jvp": forward, "vjp": reverse, "callback": called}[kind]

    def f(x):
        r = function(x)
        return np.where(r["any"], np.sum(r["y"] ** 2) * r["count"] * r["mean"], 0.0)

    x = np.array([1.0, 3.0])
    np.testing.assert_allclose(tg.grad(f, backend=backend)(x), 32 * x, rtol=1e-14)


def test_floats_for_integers_are_refused() -> None:
    @tg.custom_jvp
    def f(x):
        return 2.0 * x, np.sum(x > 0)

    f.defjvp(lambda p, t: ((2.0 * p[0], 1.5), (2.0 * t[0], None)))
    with pytest.raises(ArgumentTypeError, match=r"the rule of f returns floats"):
        tg.grad(lambda x: np.sum(f(x)[0]))(np.ones(2))
