"""tg.vmap against a Python loop over the elements: axes, trees, nesting with transforms, the zoo, both backends."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracegrad as tg
from tests.zoo.numerics import float_leaves, replace_leaves, scale, weights_like
from tests.zoo.registry import Program, half_in_c
from tests.zoo.selfcheck import load_all

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def stacked(f: Callable[..., Any], *args: Any, axes: Sequence[int | None] | None = None) -> Any:
    """Return the results of a Python loop over the elements, stacked."""
    axes = axes or [0] * len(args)
    sizes = {np.shape(x)[axis] for x, axis in zip(args, axes, strict=True) if axis is not None}
    (size,) = sizes
    rows = [
        f(*(x if axis is None else np.take(x, b, axis) for x, axis in zip(args, axes, strict=True)))
        for b in range(size)
    ]
    return np.stack(rows)


def close(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale([np.asarray(expected)]))


def climb(x, limit):
    """A while whose number of iterations depends on the element, with a branch and a write in it."""
    path = np.zeros(3)
    level, k = x[0], 0
    while level < limit:
        if k % 2 == 0:
            level = level * (1.0 + x[1]) + 0.3
        else:
            level = level + np.log(level + 1.0) + 0.1
        path[k % 3] += level**2
        k += 1
    return path.sum() + level * x[0]


def quadratic(a, x):
    return np.exp(-0.1 * x @ a @ x) + x[0]


POINTS = np.random.default_rng(0).uniform(0.5, 1.5, (5, 2))
LIMITS = np.array([1.0, 4.0, 0.0, 9.0, 2.5])


@each_backend
def test_loops_with_their_own_trip_counts(backend: str) -> None:
    close(tg.vmap(climb, backend=backend)(POINTS, LIMITS), stacked(climb, POINTS, LIMITS))


@each_backend
@pytest.mark.parametrize("transform", [tg.grad, tg.hessian, tg.jacfwd, tg.jacrev], ids=lambda t: t.__name__)
def test_vmap_of_a_derivative(transform: Any, backend: str) -> None:
    expected = stacked(transform(climb), POINTS, LIMITS)
    close(tg.vmap(transform(climb), backend=backend)(POINTS, LIMITS), expected)


@each_backend
def test_derivatives_of_vmap(backend: str) -> None:
    batched = tg.vmap(climb)
    rows = stacked(tg.grad(climb), POINTS, LIMITS)
    close(
        tg.grad(lambda x: np.sum(batched(x, LIMITS) ** 2), backend=backend)(POINTS),
        2 * batched(POINTS, LIMITS)[:, None] * rows,
    )
    jacobian = tg.jacobian(lambda x: batched(x, LIMITS), backend=backend)(POINTS)
    expected = np.zeros((5, 5, 2))
    expected[np.arange(5), np.arange(5)] = rows
    close(jacobian, expected)
    tangent = np.random.default_rng(1).normal(size=POINTS.shape)
    _, moved = tg.jvp(lambda x: batched(x, LIMITS), (POINTS,), (tangent,), backend=backend)
    close(moved, np.sum(rows * tangent, axis=1))
    out, pullback = tg.vjp(lambda x: batched(x, LIMITS), POINTS, backend=backend)
    close(out, stacked(climb, POINTS, LIMITS))
    close(pullback(LIMITS)[0], LIMITS[:, None] * rows)
    second = tg.hessian(lambda x: np.sum(batched(x, LIMITS)), backend=backend)(POINTS)
    blocks = np.zeros((5, 2, 5, 2))
    blocks[np.arange(5), :, np.arange(5)] = stacked(tg.hessian(climb), POINTS, LIMITS)
    close(second, blocks)


@each_backend
def test_grad_of_vmap_of_grad(backend: str) -> None:
    def penalty(x):
        return np.sum(tg.vmap(tg.grad(climb))(x, LIMITS) ** 2)

    def of_one(x, limit):
        return np.sum(tg.grad(climb)(x, limit) ** 2)

    close(tg.grad(penalty, backend=backend)(POINTS), stacked(tg.grad(of_one), POINTS, LIMITS), 1e-10)


@each_backend
def test_vmap_of_vmap_of_hessian(backend: str) -> None:
    grid = np.random.default_rng(2).uniform(0.5, 1.5, (3, 4, 2))
    inner = tg.vmap(tg.hessian(climb), in_axes=(0, None))
    found = tg.vmap(inner, in_axes=(1, 0), out_axes=2, backend=backend)(grid, LIMITS[:4])
    assert found.shape == (3, 2, 4, 2)
    for i in range(3):
        for j in range(4):
            close(found[i, :, j], tg.hessian(climb)(grid[i, j], LIMITS[j]))


@each_backend
def test_inside_a_captured_loop_and_function(backend: str) -> None:
    def simulate(x, steps):
        total = 0.0
        for k in range(steps):
            x = x + 0.01 * tg.vmap(tg.grad(climb))(x, LIMITS + 0.1 * k)
            if np.sum(x) > 0:
                total = total + np.sum(tg.vmap(quadratic, in_axes=(None, 0))(np.eye(2) * k, x))
        return total

    def plain(x, steps):
        total = 0.0
        for k in range(steps):
            x = x + 0.01 * stacked(tg.grad(climb), x, LIMITS + 0.1 * k)
            total = total + stacked(lambda row, k=k: quadratic(np.eye(2) * k, row), x).sum()
        return total

    close(tg.function(simulate, backend=backend)(POINTS, 4), plain(POINTS, 4))
    gradient = tg.grad(simulate, backend=backend)(POINTS, 4)
    for place in [(0, 0), (3, 1)]:
        step = np.zeros_like(POINTS)
        step[place] = 1e-5
        close(gradient[place], (plain(POINTS + step, 4) - plain(POINTS - step, 4)) / 2e-5, 1e-6)


# ---- axes


@each_backend
@pytest.mark.parametrize("in_axes", [(0, 1), (2, 0), (-1, -2), (None, 0), (1, None)])
@pytest.mark.parametrize("out_axis", [0, 1, -1])
def test_axes(in_axes: tuple[int | None, ...], out_axis: int, backend: str) -> None:
    rng = np.random.default_rng(3)
    args = []
    for axis, shape in zip(in_axes, [(2, 3), (3,)], strict=True):
        x = rng.normal(size=shape if axis is None else (4, *shape))
        args.append(x if axis is None else np.moveaxis(x, 0, axis))

    def f(a, x):
        return np.tanh(a @ x)

    expected = np.moveaxis(stacked(f, *args, axes=in_axes), 0, out_axis)
    close(tg.vmap(f, in_axes=in_axes, out_axes=out_axis, backend=backend)(*args), expected)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Layer:
    w: Any
    b: Any


@each_backend
def test_trees_of_axes(backend: str) -> None:
    def f(params, pair, layer, names):
        y = params["w"] @ pair.first + layer.b
        return {"y": y, "rest": (pair.second * layer.w, params["w"][0, 0]), names[0]: [y[0], 2]}

    rng = np.random.default_rng(4)
    params, layer = {"w": rng.normal(size=(2, 3)), "unused": None}, Layer(2.0, rng.normal(size=2))
    pair = Pair(rng.normal(size=(3, 5)), rng.normal(size=5))
    axes = ({"w": None, "unused": None}, Pair(1, 0), None, None)
    out_axes = {"y": 1, "rest": (0, None), "name": 0}
    found = tg.vmap(f, axes, out_axes, backend=backend)(params, pair, layer, ("name",))
    rows = [f(params, Pair(pair.first[:, b], pair.second[b]), layer, ("name",)) for b in range(5)]
    close(found["y"], np.stack([row["y"] for row in rows], axis=1))
    close(found["rest"][0], [row["rest"][0] for row in rows])
    assert np.shape(found["rest"][1]) == ()
    assert found["rest"][1] == params["w"][0, 0]
    close(found["name"][0], [row["name"][0] for row in rows])
    assert found["name"][1].tolist() == [2] * 5


@dataclass
class Settings:
    w: Any
    scale: int = 2
    signed: bool = True
    act: str = "tanh"
    bias: Any = None


class Powers(NamedTuple):
    base: Any
    power: int = 3


@each_backend
def test_axes_given_as_an_object_leave_its_settings_out(backend: str) -> None:
    def f(layer, powers, factor):
        assert layer.act == "tanh"
        z = np.tanh(layer.w) if layer.signed else layer.w
        z = z if layer.bias is None else z + layer.bias
        return Settings(layer.scale * np.sum(z) * factor + powers.base**powers.power, layer.scale, bias=z)

    rng = np.random.default_rng(8)
    w, base, bias = (rng.normal(size=shape) for shape in ((3, 2), 3, (2, 3)))
    out_axes = Settings(0, bias=1)
    for layer, axes in ((Settings(w), Settings(0)), (Settings(w, 4, False, "tanh", bias), Settings(0, bias=1))):
        for powers in (Powers(0), (0, None), Powers(0, 0), 0):
            g = tg.vmap(f, in_axes=(axes, powers, None), out_axes=out_axes, backend=backend)
            found = g(layer, Powers(base, 2), 1.5)
            biases = [None] * 3 if layer.bias is None else bias.T
            rows = [
                f(Settings(w[b], layer.scale, layer.signed, bias=biases[b]), Powers(base[b], 2), 1.5) for b in range(3)
            ]
            close(found.w, [row.w for row in rows])
            close(found.bias, np.stack([row.bias for row in rows], axis=1))
            assert found.act == "tanh" and np.all(found.scale == layer.scale)

    def counted(x):
        return Settings(x, np.sum(x > 0))

    for axes in (0, Settings(1, 0)):
        found = tg.vmap(counted, out_axes=axes, backend=backend)(w)
        assert found.scale.tolist() == np.sum(w > 0, axis=1).tolist()
    with pytest.raises(ValueError, match="TG220"):
        tg.vmap(f, in_axes=(Settings("text"), 0, None), backend=backend)(Settings(w), Powers(base), 1.5)


@each_backend
def test_defaults_keywords_and_numbers_are_the_same_for_all(backend: str) -> None:
    def f(x, scale=2.0, *, power=2, mode="plain"):
        return scale * np.sum(x**power) if mode == "plain" else x[0]

    g = tg.vmap(f, backend=backend)
    close(g(POINTS), 2.0 * np.sum(POINTS**2, axis=1))
    close(g(POINTS, 3.0, power=3), 3.0 * np.sum(POINTS**3, axis=1))
    close(g(POINTS, mode="first"), POINTS[:, 0])
    close(g(POINTS, LIMITS), LIMITS * np.sum(POINTS**2, axis=1))
    close(tg.vmap(f, in_axes=(1,), backend=backend)(POINTS), 2.0 * np.sum(POINTS**2, axis=0))


@each_backend
def test_any_number_of_elements(backend: str) -> None:
    g = tg.vmap(tg.grad(climb), in_axes=(0, None), backend=backend)
    for size in (5, 3, 1, 0, 7, 4):
        x = np.resize(POINTS, (size, 2))
        found = g(x, 3.0)
        assert found.shape == (size, 2)
        if size:
            close(found, stacked(lambda row: tg.grad(climb)(row, 3.0), x))


@each_backend
def test_integers_bools_and_dtypes(backend: str) -> None:
    def f(x, i, flag):
        picked = x[i] if flag else -x[i]
        return picked, i + 1, picked > 0

    x = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
    i, flag = np.array([0, -1, 2, 1]), np.array([True, False, False, True])
    values, numbers, signs = tg.vmap(f, backend=backend)(x, i, flag)
    expected = np.where(flag, 1, -1) * x[np.arange(4), i]
    assert (values.dtype, numbers.dtype, signs.dtype) == (np.float32, np.int64, np.bool_)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(numbers, i + 1)
    np.testing.assert_array_equal(signs, expected > 0)


@each_backend
def test_a_branch_not_taken_gives_no_nan(backend: str) -> None:
    def f(x):
        if np.isfinite(x):
            return x * x
        return 0.0 * np.log1p(0.0)

    x = np.array([2.0, np.inf, -1.0, np.nan])
    np.testing.assert_array_equal(tg.vmap(f, backend=backend)(x), [4.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(tg.vmap(tg.grad(f), backend=backend)(x), [4.0, 0.0, -2.0, 0.0])
    np.testing.assert_array_equal(tg.grad(lambda x: np.sum(tg.vmap(f)(x)), backend=backend)(x), [4.0, 0.0, -2.0, 0.0])


@each_backend
def test_writes_into_batched_arguments_are_seen(backend: str) -> None:
    def f(x, y):
        x[0] = y * x[1]
        return x.sum()

    x, y = POINTS.T.copy(), np.arange(5.0)
    mine = x.copy()
    found = tg.vmap(f, in_axes=(1, 0), backend=backend)(mine, y)
    x[0] = y * x[1]
    np.testing.assert_array_equal(mine, x)
    close(found, x.sum(axis=0))


@each_backend
def test_linear_algebra_scatter_and_sorting(backend: str) -> None:
    def f(a, b, i):
        a = a @ a.T + 3 * np.eye(3)
        y = np.linalg.solve(a, b)
        y[i] += np.linalg.det(a) + np.sort(b)[1]
        return np.cumsum(y) @ np.linalg.inv(a) + np.max(b), np.argsort(y)

    rng = np.random.default_rng(6)
    a, b, i = rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 3)), np.array([0, 2, -1, 1])
    found, order = tg.vmap(f, backend=backend)(a, b, i)
    close(found, stacked(lambda *args: f(*args)[0], a, b, i))
    np.testing.assert_array_equal(order, stacked(lambda *args: f(*args)[1], a, b, i))


def test_numpy_code_is_vectorised_and_c_code_is_a_loop() -> None:
    def f(w, x):
        return np.tanh(w @ x).sum()

    g = tg.vmap(tg.grad(f), in_axes=(None, 0))
    args = np.ones((3, 2)), np.ones((100, 2))
    assert "    for " not in g.source(*args, backend="numpy")
    text = g.source(*args, backend="c")
    assert "b < 100" in text
    _, _, workspace = text.partition("_workspace(void)\n{\n    ")
    assert workspace.startswith("return 0;")  # no intermediate value has the new axis


# ---- functions that say their derivative


@tg.custom_vjp
def mixed(x, w):
    """A while of its own length in each element, and a rule by what all elements share."""
    y = x
    while np.sum(y) > 1.0:
        y = y * 0.5
    return np.sin(y @ w) + x


def mixed_forward(x, w):
    y = x
    scale = 1.0
    while np.sum(y) > 1.0:
        y = y * 0.5
        scale *= 0.5
    return np.sin(y @ w) + x, (y, w, scale)


def mixed_backward(residuals, ct):
    y, w, scale = residuals
    inner = 3.0 * ct * np.cos(y @ w)
    return scale * w @ inner + 3.0 * ct, np.outer(y, inner)


mixed.defvjp(mixed_forward, mixed_backward)


@tg.custom_jvp
def raised(x, s):
    return np.log1p(np.exp(x)) * s


@raised.defjvp
def raised_rule(primals, tangents):
    x, s = primals
    t_x, t_s = tangents
    return raised(x, s), 3.0 * (s * t_x / (1.0 + np.exp(-x)) + t_s * raised(x, 1.0))


@tg.checkpoint
def bent(x):
    return np.sin(x) * np.exp(0.1 * x) if x[0] > 1.5 else x * x


def with_rules(rows, w, s):
    return tg.vmap(lambda x: bent(raised(mixed(x, w), s)) * 2.0)(rows)


def with_rules_one_by_one(rows, w, s):
    return np.stack([bent(raised(mixed(x, w), s)) * 2.0 for x in rows])


ROWS = np.random.default_rng(5).normal(size=(4, 3))
WEIGHTS = np.eye(3) + 0.1


@each_backend
@pytest.mark.parametrize("seed", range(3))
def test_functions_with_rules(seed: int, backend: str) -> None:
    # the rules are three times the derivative, so that only they give these
    rows = np.random.default_rng(seed).normal(size=(4, 3))
    arguments = rows, WEIGHTS, 1.3
    close(with_rules(*arguments), with_rules_one_by_one(*arguments))
    ours, theirs = (lambda *args, f=f: np.sum(f(*args) ** 2) for f in (with_rules, with_rules_one_by_one))
    for found, expected in zip(
        tg.grad(ours, argnums=(0, 1, 2), backend=backend)(*arguments),
        tg.grad(theirs, argnums=(0, 1, 2), backend="numpy")(*arguments),
        strict=True,
    ):
        close(found, expected)
    tangents = rows[::-1].copy(), WEIGHTS.T + 1.0, 0.7
    close(
        tg.jvp(with_rules, arguments, tangents, backend=backend)[1],
        tg.jvp(with_rules_one_by_one, arguments, tangents, backend="numpy")[1],
    )
    for found, expected in zip(
        tg.hvp(ours, arguments, tangents, backend=backend),
        tg.hvp(theirs, arguments, tangents, backend="numpy"),
        strict=True,
    ):
        close(found, expected, rtol=1e-10)


@each_backend
def test_functions_with_rules_in_vmap_of_vmap(backend: str) -> None:
    cube = np.stack([ROWS, 2.0 * ROWS])
    ours = tg.grad(
        lambda cube, w: np.sum(tg.vmap(with_rules, (0, None, None))(cube, w, 1.3) ** 2), (0, 1), backend=backend
    )
    theirs = tg.grad(lambda cube, w: sum(np.sum(with_rules_one_by_one(rows, w, 1.3) ** 2) for rows in cube), (0, 1))
    for found, expected in zip(ours(cube, WEIGHTS), theirs(cube, WEIGHTS), strict=True):
        close(found, expected)


@each_backend
def test_a_rule_that_maps_its_own_function(backend: str) -> None:
    def f(x, scale):
        @tg.custom_jvp
        def scaled_exp(x):
            return np.exp(x) * tg.stop_gradient(scale)

        @scaled_exp.defjvp
        def rule(primals, tangents):
            rows = tg.vmap(scaled_exp)(np.stack([primals[0], primals[0] + 1.0]))
            return scaled_exp(*primals), rows[1] * tangents[0]

        return np.sum(scaled_exp(x))

    x = np.array([0.1, 0.2])
    close(tg.grad(f, backend=backend)(x, 2.0), 2.0 * np.exp(x + 1.0))


def test_functions_with_rules_are_vectorised() -> None:
    text = tg.function(with_rules).source(ROWS, WEIGHTS, 1.3, backend="numpy")
    assert "range(" not in text
    total = tg.grad(lambda *args: np.sum(with_rules(*args)), argnums=(0, 1, 2))
    assert "range(4)" not in total.source(ROWS, WEIGHTS, 1.3, backend="numpy")


def test_a_function_with_a_rule_prints_for_each_element(capsys: pytest.CaptureFixture[str]) -> None:
    @tg.checkpoint
    def f(x):
        print("x is", x)
        return x * x

    np.testing.assert_array_equal(tg.vmap(f)(np.array([1.0, 2.0])), [1.0, 4.0])
    assert capsys.readouterr().out.split() == ["x", "is", "1.0", "x", "is", "2.0"]


# ---- the zoo


def _is_batchable(program: Program) -> bool:
    arguments = program.inputs()
    return all(isinstance(arguments[k], float | np.ndarray) for k in program.wrt)


BATCHABLE = [program for program in load_all() if _is_batchable(program)]


def test_much_of_the_zoo_takes_arrays() -> None:
    assert len(BATCHABLE) > 150


class Batch(NamedTuple):
    """A program of the arguments to differentiate by, batches of these, and what each element gives."""

    function: Callable[..., Any]
    arguments: list[np.ndarray[Any, Any]]
    ct: Any
    expected: list[list[np.ndarray[Any, Any]]]


@cache
def batch_of(program: Program) -> Batch:
    arguments = program.inputs()
    outputs = program.function(*program.inputs())
    ct = replace_leaves(copy.deepcopy(outputs), weights_like(float_leaves(outputs)))
    factors = (1.0, 1.02, 0.98)

    def partly(*chosen):
        full = list(arguments)
        for position, arg in zip(program.wrt, chosen, strict=True):
            full[position] = arg
        return program.function(*full)

    batch = [
        np.stack([arguments[k] * np.asarray(s, np.asarray(arguments[k]).dtype) for s in factors]) for k in program.wrt
    ]
    expected = []
    for b in range(len(factors)):
        out, pullback = tg.vjp(partly, *(x[b] for x in batch))
        expected.append([*float_leaves(out), *float_leaves(pullback(ct))])
    return Batch(partly, batch, ct, expected)


@pytest.mark.parametrize(("program", "backend"), half_in_c(BATCHABLE))
def test_zoo(program: Program, backend: str) -> None:
    function, batch, ct, expected = batch_of(program)

    def element(*chosen):
        out, pullback = tg.vjp(function, *chosen)
        return out, pullback(ct)

    out, cts = tg.vmap(element, backend=backend)(*batch)
    found = [*float_leaves(out), *float_leaves(cts)]
    rtol = 1e-9 if all(leaf.dtype == np.float64 for leaf in float_leaves(out)) else 1e-4
    for b, theirs in enumerate(expected):
        for our_leaf, their_leaf in zip(found, theirs, strict=True):
            close(our_leaf[b], their_leaf, rtol)
