"""Names of users that generated code uses for something else: signatures keep them, the code finds another name."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import special

import tracegrad as tg
from tests.codegen.test_numpy_source import load
from tracegrad.codegen.numpy_source import emit_numpy
from tracegrad.config import BACKENDS
from tracegrad.ir.parser import parse_function
from tracegrad.testing import check_grads


def helpers(gamma, each, polygamma):
    return (special.gamma(polygamma) * special.gammaln(gamma)).sum() * each + special.digamma(each)


def modules(np, math, ml_dtypes):
    return (special.gammaln(np) * math).sum() + special.expit(ml_dtypes)


def built_in(range, reversed, float):
    total = 0.0
    for i in [*enumerate(range["weights"])]:
        total = total + math.sin(reversed[i[0]]) * range["weights"][i[0]] * float
    return total


def loop_of_built_in(range, int):
    total, k = 0.0, 0
    while k < len(range):
        total = total + math.sin(range[k]) * int
        k += 1
    return total


def rebound(erf, lgamma):
    erf = special.erf(erf) * lgamma
    return special.erf(erf) + special.gammaln(lgamma)


def c_words(int64_t, double, restrict, malloc, INT64_MAX, lgamma, workspace, t):
    return (np.exp(int64_t * double) * special.gammaln(lgamma) * restrict).sum() * malloc * INT64_MAX + workspace * t


def stack_words(v, w):
    for v_stack in range(6):
        for v_stack_top in range(2):
            v = v + np.sin(v * w[v_stack]) * w[v_stack_top]
    for v_stack in range(3):
        v = v * np.cos(v + w[v_stack])
    return v


VECTOR = np.linspace(0.5, 2.5, 9)
PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (helpers, (VECTOR, 1.5, VECTOR[::-1].copy())),
    (modules, (VECTOR, VECTOR[::-1].copy(), 0.5)),
    (built_in, ({"weights": VECTOR}, VECTOR[::-1].copy(), 0.5)),
    (loop_of_built_in, (np.linspace(0.0, 3.0, 200), 0.5)),
    (rebound, (0.7, 1.3)),
    (stack_words, (0.7, VECTOR)),
    (c_words, (VECTOR, VECTOR, VECTOR, 2.0, 3.0, VECTOR, 0.5, 1.5)),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "arguments"), PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])
def test_parameters(function: Any, arguments: tuple[Any, ...], backend: str) -> None:
    check_grads(function, *arguments, backends=[backend])
    gradient = tg.grad(function, argnums=tuple(range(len(arguments))), backend=backend)
    for _ in range(3):  # the first call is another text than the later ones
        gradient(*arguments)
    dumped = load(gradient.source(*arguments, backend="numpy"), f"{function.__name__}_grad")
    assert list(inspect.signature(dumped).parameters) == list(inspect.signature(function).parameters)
    _assert_equal(dumped(*arguments), gradient(*arguments))


def _assert_equal(found: Any, expected: Any) -> None:
    for x, y in zip(found, expected, strict=True):
        if isinstance(y, dict):
            x, y = x["weights"], y["weights"]
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_function_with_the_name_of_its_helper(backend: str) -> None:
    @tg.function(backend=backend)
    def erf(x: Any) -> Any:
        return special.erf(x).sum()

    @tg.function(backend=backend)
    def np(range: Any) -> Any:
        return special.expit(range).sum()

    for _ in range(3):
        assert erf(VECTOR) == pytest.approx(special.erf(VECTOR).sum())
        assert np(VECTOR) == pytest.approx(special.expit(VECTOR).sum())
    assert "def erf(x):" in erf.source(VECTOR, backend="numpy")
    assert "def np(range):" in np.source(VECTOR, backend="numpy")


def test_temporaries_leave_names_to_the_user() -> None:
    def loss(x: Any) -> Any:
        s = np.exp(x) * np.cos(x)
        t = np.sin(s) * x
        sum = (t * t * s).sum()
        return sum * sum

    text = tg.grad(loss, backend="c").source(np.ones(50))
    assert "sum += t*t*s;" in text, text


def test_constant_with_the_name_of_a_variable() -> None:
    function = parse_function(
        """
func @scaled(%W: f64[6], %x: f64[6]) -> (f64[6], f64[6]) {
  %w: f64[6] = constant {value=[1.0, 2.0, 5.0, 9.0, 3.0, 7.0]}
  %x.1: f64[6] = constant {value=[1.0, 2.0, 5.0, 9.0, 3.0, 8.0]}
  %X: f64[6] = multiply %x, %x
  %0: f64[6] = multiply %W, %w
  %1: f64[6] = multiply %X, %x.1
  %2: f64[6] = add %X, %1
  return %0, %2
}
"""
    )
    W, x = np.full(6, 2.0), np.full(6, 3.0)
    first, second = load(emit_numpy(function), "scaled")(W, x)
    np.testing.assert_array_equal(first, [2.0, 4.0, 10.0, 18.0, 6.0, 14.0])
    np.testing.assert_array_equal(second, [18.0, 27.0, 54.0, 90.0, 36.0, 81.0])


WEIGHTS: dict[Any, Any] = {None: 6.0, "class": 2.0, "lambda": np.ones(3)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_that_are_keywords(backend: str) -> None:
    def f(x: Any) -> Any:
        return x * WEIGHTS[None] + WEIGHTS["class"] + WEIGHTS["lambda"].sum()

    assert tg.value_and_grad(f, backend=backend)(2.0) == (17.0, 6.0)


def heat(u0: Any, kappa: Any) -> Any:
    u = u0.copy()
    for _ in range(15):
        flow = u[:-2] + u[2:] - 2 * u[1:-1]
        u[1:-1] += kappa * flow
        u[0] = u[1]
    return np.sum(u**2)


def test_a_copy_that_a_loop_writes_has_the_users_name() -> None:
    text = tg.grad(heat).source(np.ones(6), 0.1, backend="numpy")
    assert "    u = u0.copy()\n" in text
    assert not any(line.strip() in ("u0 = u", "u = u0", "ct_u0 = ct_u") for line in text.splitlines())
    assert not re.search(r"\bu0\b", text.partition("u0.copy()")[2])
