"""Functions that take functions, and symbolic sizes: values and gradients against NumPy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.numpy_rows import check, h, random, rows
from tracegrad.capture.context import Capture, capturing
from tracegrad.capture.sizes import as_size
from tracegrad.capture.tracer import asarray, from_value
from tracegrad.ir.core import Block, Function, Value
from tracegrad.ir.types import array_type, symbol
from tracegrad.ir.verifier import verify_function
from tracegrad.testing.interpret import interpret

V = random(5)
M = random(3, 4)


def bend(x: Any) -> Any:
    if x > 0:
        return x**2
    return -3.0 * x


@rows(
    piecewise=(lambda x: np.piecewise(x, [x < -0.3, x > 0.3], [lambda v: v**2, 1.0, lambda v: 2 * v]), V),
    piecewise_no_default=(lambda x: np.piecewise(x, [x < 0], [np.exp]), V),
    apply_along_axis=(lambda x: np.apply_along_axis(lambda r: np.cumsum(r) * r[0], 1, x), M),
    apply_along_axis_scalar=(lambda x: np.apply_along_axis(np.linalg.norm, 0, x), M),
    reduce=(lambda x: h(functools.reduce)(lambda a, b: a * b + 1, [x[0], x[1], x[2]]), V),
    accumulate=(lambda x: list(h(itertools.accumulate)([x[0], x[1], x[2]])), V),
    max_key=(lambda x: h(max)([x[0], x[1], x[2]], key=lambda v: -(v**2)), V),
)
def test_functions_of_functions(function: Any, arrays: Any) -> None:
    check(function, arrays)


def vectorized(x: Any) -> Any:
    return np.sum(np.vectorize(bend)(x) * x)


def vectorized_pair(x: Any) -> Any:
    return np.sum(np.vectorize(lambda a, b: a * b if a > b else a + b)(x, x[::-1]))


def piecewise_with_branches(x: Any) -> Any:
    return np.sum(np.piecewise(x, [x > 0], [lambda v: v * len(v), lambda v: v**3]))


def reduced_by_branches(x: Any) -> Any:
    return functools.reduce(lambda a, b: a + bend(b), list(x), 0.0)


@pytest.mark.parametrize("function", [vectorized, vectorized_pair, piecewise_with_branches, reduced_by_branches])
def test_user_functions_are_converted(function: Callable[..., Any]) -> None:
    assert tg.function(function)(V) == pytest.approx(function(V), rel=1e-12)
    step = 1e-6
    differences = [(function(V + step * e) - function(V - step * e)) / (2 * step) for e in np.eye(5)]
    np.testing.assert_allclose(tg.grad(function)(V), differences, rtol=1e-6, atol=1e-6)


# ---- symbolic sizes


SYMBOLIC: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda x, v: x * 2 + v,
    "sum": lambda x, v: np.sum(x, axis=0),
    "mean": lambda x, v: np.mean(x),
    "mean_axis": lambda x, v: np.mean(x, axis=0),
    "var": lambda x, v: np.var(x, axis=0, ddof=1),
    "std": lambda x, v: np.std(x),
    "max": lambda x, v: np.max(x, axis=0) + np.argmax(x, axis=0),
    "norm": lambda x, v: np.linalg.norm(x, axis=1),
    "reshape": lambda x, v: x.reshape(-1),
    "reshape_named": lambda x, v: x.reshape(x.shape[0] * 3),
    "transpose": lambda x, v: x.T @ x,
    "matmul": lambda x, v: x @ v,
    "first": lambda x, v: x[0],
    "last": lambda x, v: x[-1],
    "tail": lambda x, v: x[1:],
    "inner": lambda x, v: x[1:-1],
    "difference": lambda x, v: x[1:] - x[:-1],
    "every_other": lambda x, v: x[::2],
    "from_third": lambda x, v: x[3:],
    "up_to_third": lambda x, v: x[:3] * 2,
    "every_other_backwards": lambda x, v: x[::-2],
    "backwards_part": lambda x, v: x[-2:0:-1],
    "half": lambda x, v: x[: h(len)(x) // 2],
    "second_half": lambda x, v: x[h(len)(x) // 2 :],
    "element_at_size": lambda x, v: x[h(len)(x) - 2],
    "diagonal": lambda x, v: np.diagonal(x),
    "split_half": lambda x, v: np.split(x, [h(len)(x) // 2]),
    "backwards": lambda x, v: x[::-1],
    "column": lambda x, v: x[:, 1],
    "diff": lambda x, v: np.diff(x, axis=0),
    "concatenate": lambda x, v: np.concatenate([x, x]),
    "stack": lambda x, v: np.stack([x, x], axis=1),
    "zeros": lambda x, v: h(np.zeros)(x.shape) + x,
    "zeros_like": lambda x, v: np.zeros_like(x) + v,
    "eye": lambda x, v: h(np.eye)(x.shape[0]) @ x,
    "arange": lambda x, v: h(np.arange)(x.shape[0]) @ x,
    "linspace": lambda x, v: h(np.linspace)(0.0, 1.0, x.shape[0]) @ x,
    "cumsum": lambda x, v: np.cumsum(x, axis=0),
    "sort": lambda x, v: np.sort(x, axis=0),
    "median": lambda x, v: np.quantile(x, 0.3, axis=0),
    "where": lambda x, v: np.where(x > 0, x, v),
    "size": lambda x, v: x / h(len)(x) + x.size,
    "tile": lambda x, v: np.tile(x, (2, 1)),
    "repeat": lambda x, v: np.repeat(x, 2, axis=0),
    "pad": lambda x, v: np.pad(x, ((1, 2), (0, 0))),
    "roll": lambda x, v: np.roll(x, 1, axis=0),
    "outer": lambda x, v: np.outer(x[:, 0], x[:, 1]),
    "einsum": lambda x, v: np.einsum("ij,kj->ik", x, x),
    "trace": lambda x, v: np.trace(x @ x.T),
    "triu": lambda x, v: np.triu(x @ x.T),
    "diag": lambda x, v: np.diag(x[:, 0]),
    "solve": lambda x, v: np.linalg.solve(x @ x.T + h(np.eye)(x.shape[0]), x),
    "convolve": lambda x, v: np.convolve(x[:, 0], v),
    "trapezoid": lambda x, v: np.trapezoid(x, axis=0),
    "mask": lambda x, v: np.sum(x[x > 0]),
    "expand": lambda x, v: x[:, None, :] - x[None, :, :],
    "meshgrid": lambda x, v: np.meshgrid(x[:, 0], v),
    "searchsorted": lambda x, v: np.searchsorted(np.sort(x[:, 0]), v),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name: str) -> None:
    function = SYMBOLIC[name]
    state = Capture(function, {"n": 4}, as_size)
    params = [Value(array_type("f64[n,3]"), "x"), Value(array_type("f64[3]"), "v")]
    with capturing(state):
        results = function(*[from_value(p) for p in params])
        values = [asarray(r).value for r in (results if isinstance(results, tuple | list) else (results,))]
    made = Function(name, Block(params), None)
    made.body.operations, made.body.yields = state.builder.block.operations, values
    verify_function(made)
    assert symbol("n") == params[0].shape[0]
    for count in (4, 7):
        arrays = [random(count, 3), random(3, seed=2)]
        expected = function(*arrays)
        found = interpret(made, *arrays)
        for value, want in zip(found, expected if isinstance(expected, tuple | list) else (expected,), strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-10, atol=1e-12)
