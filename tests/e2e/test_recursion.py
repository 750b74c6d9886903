"""Functions that call themselves until a traced condition ends it: values and derivatives, nothing unrolled."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.capture import user_calls
from tracegrad.driver import pipeline
from tracegrad.errors import CaptureError
from tracegrad.ir.core import Function, walk
from tracegrad.ir.parser import parse_function
from tracegrad.ir.printer import print_function
from tracegrad.ir.verifier import verify_function
from tracegrad.runtime.signature import signature_of

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def minor(A, row, free):
    n = A.shape[0]
    if row == n:
        return 1.0
    total, sign = 0.0, 1.0
    for j in range(n):
        if free[j]:
            rest = free.copy()
            rest[j] = False
            total = total + sign * A[row, j] * minor(A, row + 1, rest)
            sign = -sign
    return total


def determinant(A):
    return minor(A, 0, np.ones(A.shape[0], dtype=bool))


def functions_of(function: Function) -> list[Function]:
    found = [function]
    for current in found:
        for operation in walk(current.body):
            callee = operation.attrs.get("function")
            if callee is not None and callee not in found:
                found.append(callee)
    return found


@pytest.mark.parametrize(("backend", "n"), [("numpy", 3), ("numpy", 5), ("c", 3), ("c", 6), ("c", 8)])
def test_determinant_by_minors(backend: str, n: int) -> None:
    rng = np.random.default_rng(n)
    A, T = rng.normal(size=(2, n, n))
    expected = np.linalg.det(A)
    gradient = expected * np.linalg.inv(A).T
    np.testing.assert_allclose(tg.function(determinant, backend=backend)(A), expected, rtol=1e-11)
    np.testing.assert_allclose(tg.grad(determinant, backend=backend)(A), gradient, rtol=1e-10, atol=1e-12)
    if n < 8:
        t_out = tg.jvp(determinant, (A,), (T,), backend=backend)[1]
        np.testing.assert_allclose(t_out, np.sum(gradient * T), rtol=1e-10)


@each_backend
def test_determinant_example_and_second_derivative(backend: str) -> None:
    A = np.array([[2, 0.5, 1], [0.25, 3, -1], [1.5, 0.75, 4]])
    expected = [[12.75, -2.5, -4.3125], [-1.25, 6.5, -0.75], [-3.5, 2.25, 5.875]]
    assert tg.function(determinant, backend=backend)(A) == 19.9375
    np.testing.assert_allclose(tg.grad(determinant, backend=backend)(A), expected)
    hessian = tg.hessian(determinant, backend=backend)(A)
    np.testing.assert_allclose(hessian[0, 0], [[0, 0, 0], [0, A[2, 2], -A[2, 1]], [0, -A[1, 2], A[1, 1]]])


def test_code_does_not_grow_with_the_depth() -> None:
    g = tg.grad(determinant)
    assert len(g.lower(np.ones((4, 4))).splitlines()) == len(g.lower(np.ones((9, 9))).splitlines())


def test_ir_prints_parses_and_verifies() -> None:
    signature, _ = signature_of(["A"], [np.ones((3, 3))])
    program = pipeline.build_program(determinant, pipeline.Request("grad", (0,)), signature)
    for function in (program.captured.function, program.function):
        for each in functions_of(function):
            verify_function(each)
        text = print_function(function, spans=False)
        assert print_function(parse_function(text), spans=False) == text
        assert "call" in text


def ackermann(m, n, x, total):
    """Ackermann's recursion; x is added up along the way."""
    if m == 0:
        return n + 1, total + x * n
    if n == 0:
        return ackermann(m - 1, 1, x, total * 0.999)
    inner, total = ackermann(m, n - 1, x, total)
    return ackermann(m - 1, inner, x, total + np.sin(x))


@each_backend
def test_double_recursion_with_an_accumulator(backend: str) -> None:
    def f(x, m, n):
        value, total = ackermann(m, n, x, 0.0)
        return total * (value / 10)

    m, n = np.int64(2), np.int64(2)
    h = 1e-6
    expected = f(0.3, m, n)
    slope = (f(0.3 + h, m, n) - f(0.3 - h, m, n)) / (2 * h)
    np.testing.assert_allclose(tg.function(f, backend=backend)(0.3, m, n), expected, rtol=1e-12)
    np.testing.assert_allclose(tg.grad(f, backend=backend)(0.3, m, n), slope, rtol=1e-8)
    np.testing.assert_allclose(tg.jvp(f, (0.3, m, n), (1.0, None, None), backend=backend)[1], slope, rtol=1e-8)


def simpson(f, a, b, fa, fm, fb, whole, tolerance):
    m = (a + b) / 2
    left, right = (a + m) / 2, (m + b) / 2
    fl, fr = f(left), f(right)
    lower = (m - a) / 6 * (fa + 4 * fl + fm)
    upper = (b - m) / 6 * (fm + 4 * fr + fb)
    if abs(lower + upper - whole) <= 15 * tolerance:
        return lower + upper + (lower + upper - whole) / 15
    first = simpson(f, a, m, fa, fl, fm, lower, tolerance / 2)
    return first + simpson(f, m, b, fm, fr, fb, upper, tolerance / 2)


def integral(k, b):
    def f(x):
        return np.exp(-k * x) * np.sin(x * x)

    a = 0.0
    fa, fm, fb = f(a), f((a + b) / 2), f(b)
    return simpson(f, a, b, fa, fm, fb, (b - a) / 6 * (fa + 4 * fm + fb), 1e-9)


@each_backend
def test_adaptive_simpson(backend: str) -> None:
    value, (by_k, by_b) = tg.value_and_grad(integral, argnums=(0, 1), backend=backend)(0.5, 3.0)
    np.testing.assert_allclose(value, integral(0.5, 3.0), rtol=1e-13)
    np.testing.assert_allclose(by_b, np.exp(-1.5) * np.sin(9.0), rtol=1e-6)
    nodes = (np.arange(200000) + 0.5) * (3.0 / 200000)
    slope = np.mean(-nodes * np.exp(-0.5 * nodes) * np.sin(nodes**2)) * 3.0
    np.testing.assert_allclose(by_k, slope, rtol=1e-6)
    np.testing.assert_allclose(
        tg.jvp(integral, (0.5, 3.0), (1.0, 2.0), backend=backend)[1], by_k + 2 * by_b, rtol=1e-10
    )


def evaluate(node, left, right, op, leaves):
    """The value of an expression tree: op 0 is a leaf, 1 a sum, 2 a product, 3 a sine."""
    if op[node] == 0:
        return leaves[left[node]]
    first = evaluate(left[node], left, right, op, leaves)
    if op[node] == 3:
        return np.sin(first)
    second = evaluate(right[node], left, right, op, leaves)
    if op[node] == 1:
        return first + second
    return first * second


@each_backend
def test_tree_over_index_arrays(backend: str) -> None:
    # sin(a * b) + b * (c + a)
    op = np.array([1, 3, 2, 2, 0, 1, 0, 0, 0, 0])
    left = np.array([1, 3, 4, 6, 1, 8, 0, 1, 2, 0])
    right = np.array([2, 0, 5, 7, 0, 9, 0, 0, 0, 0])

    def f(leaves, left, right, op):
        return evaluate(np.int64(0), left, right, op, leaves)

    a, b, c = leaves = np.array([0.3, 0.7, -1.2])
    expected = [b * np.cos(a * b) + b, a * np.cos(a * b) + c + a, b]
    assert tg.function(f, backend=backend)(leaves, left, right, op) == pytest.approx(np.sin(a * b) + b * (c + a))
    np.testing.assert_allclose(tg.grad(f, backend=backend)(leaves, left, right, op), expected)
    twice = tg.grad(lambda x: np.sum(tg.grad(f)(x, left, right, op)), backend=backend)(leaves)
    np.testing.assert_allclose(
        twice,
        [
            -b * b * np.sin(a * b) + np.cos(a * b) - a * b * np.sin(a * b) + 1,
            np.cos(a * b) - a * b * np.sin(a * b) + 1 - a * a * np.sin(a * b) + 1,
            1.0,
        ],
    )


@each_backend
def test_depth_is_a_run_time_value(backend: str) -> None:
    def power(x, n):
        if n == 0:
            return 1.0
        return x * power(x, n - 1)

    value_and_grad = tg.value_and_grad(power, backend=backend)
    for n in (0, 1, 2, 30):
        value, gradient = value_and_grad(1.1, np.int64(n))
        np.testing.assert_allclose(value, 1.1**n)
        np.testing.assert_allclose(gradient, n * 1.1 ** (n - 1), rtol=1e-13)


@each_backend
def test_arrays_closures_and_several_results(backend: str) -> None:
    W = np.array([[0.5, -0.2], [0.1, 0.3]])

    def f(x, limit):
        def go(y, k, parts):
            if np.sum(np.abs(y)) < limit:
                return y, {"count": k, "sum": parts}
            new, out = go(np.tanh(W @ y), k + 1, parts + y)
            return new + x, out

        y, out = go(x, 0, np.zeros(2))
        return np.sum(y**2) + np.sum(out["sum"]) * out["count"]

    x = np.array([2.0, -1.0])
    expected = f(x, 0.05)
    assert tg.function(f, backend=backend)(x, 0.05) == pytest.approx(expected)
    h = 1e-6
    slopes = [(f(x + h * e, 0.05) - f(x - h * e, 0.05)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(tg.grad(f, backend=backend)(x, 0.05), slopes, rtol=1e-7)


def test_recursion_on_python_values_still_unrolls() -> None:
    def f(x, n):
        if n == 0:
            return x
        if x > 0:
            return f(np.sin(x), n - 1)
        return f(np.cos(x), n - 1)

    def layered(x, layers):
        if not layers:
            return x
        return layered(layers[0](x), layers[1:])

    np.testing.assert_allclose(tg.grad(f)(0.4, 3), np.cos(0.4) * np.cos(np.sin(0.4)) * np.cos(np.sin(np.sin(0.4))))
    np.testing.assert_allclose(tg.grad(lambda x: layered(x, [np.sin, np.exp]))(0.4), np.exp(np.sin(0.4)) * np.cos(0.4))


def test_prints_once(capsys: pytest.CaptureFixture[str]) -> None:
    def down(x, n):
        if n == 0:
            return x
        print("at", n)
        return down(x * x, n - 1)

    assert tg.grad(down)(1.5, np.int64(2)) == pytest.approx(4 * 1.5**3)
    assert capsys.readouterr().out.count("at") == 2


def test_without_an_end_is_refused() -> None:
    def forever(x):
        if x > 0:
            return forever(x - 1)
        return forever(x + 1)

    with pytest.raises(tg.errors.CaptureError, match="TG130"):
        tg.function(forever)(1.0)


@each_backend
def test_too_deep_is_an_error(backend: str) -> None:
    def down(x, n):
        if n == 0:
            return x
        return 0.5 * down(x, n - 1)

    for f in (tg.function(down, backend=backend), tg.grad(down, backend=backend)):
        f(1.0, np.int64(100))
        with pytest.raises(RuntimeError, match="maximum recursion depth exceeded"):
            f(1.0, np.int64(10**7))


@each_backend
def test_under_vmap(backend: str) -> None:
    def power(x, n):
        if n == 0:
            return 1.0
        return x * power(x, n - 1)

    x, n = np.array([0.5, 1.5, 2.0]), np.array([0, 3, 7])
    np.testing.assert_allclose(tg.vmap(power, backend=backend)(x, n), x**n)
    gradient = tg.grad(lambda x: np.sum(tg.vmap(power)(x, n)), backend=backend)(x)
    np.testing.assert_allclose(gradient, n * x ** np.maximum(n - 1.0, 0))


@each_backend
def test_elements_that_recur_to_other_depths_under_vmap(backend: str) -> None:
    def walk_down(x, depth):
        if depth <= 0:
            return np.sin(x)
        if x > 1.0:
            return walk_down(0.5 * x, depth - 1) * x
        return walk_down(x * x + 0.8, depth - 2) + 0.1 * walk_down(x, depth - 3)

    def ours(x, depth):
        return np.sum(tg.vmap(walk_down, (0, None))(x, depth) ** 2)

    def one_by_one(x, depth):
        return np.sum(np.array([walk_down(v, depth) for v in x]) ** 2)

    x, depth = np.random.default_rng(1).uniform(0.2, 1.8, 5), np.int64(6)
    np.testing.assert_allclose(tg.function(ours, backend=backend)(x, depth), one_by_one(x, depth), rtol=1e-13)
    for transform in (tg.grad, tg.hessian):
        expected = transform(one_by_one, backend="numpy")(x, depth)
        np.testing.assert_allclose(transform(ours, backend=backend)(x, depth), expected, rtol=1e-11, atol=1e-11)
    depths = np.array([0, 5, 3, 6, 1])
    gradients = tg.vmap(tg.grad(walk_down), backend=backend)(x, depths)
    expected = [tg.grad(walk_down, backend="numpy")(v, n) for v, n in zip(x, depths, strict=True)]
    np.testing.assert_allclose(gradients, expected, rtol=1e-12)


def test_recursion_under_vmap_is_vectorised() -> None:
    def power(x, n):
        return x if n <= 0 else x * power(x, n - 1)

    text = tg.vmap(power).source(np.ones(5), np.arange(5), backend="numpy")
    assert "def batch_power(" in text
    assert "range(" not in text


def counts_in_a_list(x, depth):
    counts = [0, 0, 0, 0, 0, 0]

    def visit(x, depth):
        counts[depth] += 1
        if depth <= 0 or x > 3.0:
            return x
        return visit(1.5 * x, depth - 1) + visit(1.2 * x, depth - 1)

    return visit(x, depth) + 0.1 * counts[0] + counts[2]


def sums_in_a_list(x, depth):
    sums = [0.0] * 6

    def visit(x, depth, sums):
        sums[depth] = sums[depth] + x * x
        if depth <= 0:
            return x
        return visit(0.5 * x, depth - 1, sums)

    return visit(x, depth, sums) * sums[1] + sum(sums)


class Counts:
    def __init__(self) -> None:
        self.counts = [0, 0, 0, 0, 0, 0]


def counts_in_an_object(x, depth):
    seen = Counts()

    def visit(x, depth):
        seen.counts[depth] += 1
        return x if x > 3.0 or depth <= 0 else visit(1.5 * x, depth - 1)

    return visit(x, depth) * seen.counts[1]


@each_backend
@pytest.mark.parametrize("f", [counts_in_a_list, sums_in_a_list, counts_in_an_object])
def test_a_list_of_numbers_is_indexed_by_a_depth(f: Any, backend: str) -> None:
    h = 1e-6
    for depth in np.array([4, 2, 1]):
        np.testing.assert_allclose(tg.function(f, backend=backend)(0.7, depth), f(0.7, depth), rtol=1e-13)
        slope = (f(0.7 + h, depth) - f(0.7 - h, depth)) / (2 * h)
        np.testing.assert_allclose(tg.grad(f, backend=backend)(0.7, depth), slope, rtol=1e-8)


def edit_distance(cost: Any, a: str = "kitten", b: str = "sitting") -> Any:
    @functools.cache
    def distance(i: int, j: int) -> Any:
        if i == 0 or j == 0:
            return (i + j) * cost
        changed = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]) * 1.5
        return min(distance(i - 1, j) + cost, distance(i, j - 1) + cost, changed)

    return distance(len(a), len(b))


def cached_under_a_condition(x: Any) -> Any:
    @functools.cache
    def term(k: int) -> Any:
        return x[k] * 2

    total = 0.0
    for i in range(5):
        total = total + (term(1) if x[0] * i > 1.5 else term(2) + term(2))
    return total + term(1)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_cached_function_is_called_once_where_its_result_is_seen(backend: str) -> None:
    distance = tg.value_and_grad(edit_distance, backend=backend)
    assert distance(1.0) == (4.0, 1.0)
    assert distance.ir(1.0).count("= select ") == 2 * 6 * 7, "each pair of positions once"
    x = np.array([1.0, 2.0, 3.0])
    value, ct = tg.value_and_grad(cached_under_a_condition, backend=backend)(x)
    assert value == cached_under_a_condition(x)
    np.testing.assert_array_equal(ct, [0.0, 8.0, 8.0])


def checkpointed_power(x: Any, depth: Any) -> Any:
    if depth <= 0:
        return x
    return tg.checkpoint(lambda y: checkpointed_power(y, depth - 1))(x) * x


def matrix_power(M: Any, n: Any) -> Any:
    if n == 0:
        return np.eye(3)
    return M @ matrix_power(M, n - 1)


@each_backend
def test_a_recursion_through_a_checkpoint(backend: str) -> None:
    x, depth = 0.7, np.array(3)
    assert tg.function(checkpointed_power, backend=backend)(x, depth) == pytest.approx(x**4, rel=1e-14)
    assert tg.grad(checkpointed_power, backend=backend)(x, depth) == pytest.approx(4 * x**3, rel=1e-14)
    found = tg.grad(tg.grad(checkpointed_power), backend=backend)(x, depth)
    assert found == pytest.approx(12 * x**2, rel=1e-14)


@each_backend
def test_a_recursion_that_ends_with_a_constant_matrix(backend: str) -> None:
    M, n = np.array([[0.5, 0.25, 0.0], [1.0, 0.5, 0.5], [0.0, 0.25, 2.0]]), np.array(3)

    def f(M: Any, n: Any) -> Any:
        return np.sum(matrix_power(M, n) * np.linspace(1.0, 2.0, 9).reshape(3, 3)) + np.trace(M @ np.eye(3))

    weights = np.linspace(1.0, 2.0, 9).reshape(3, 3)
    value, slope = tg.value_and_grad(f, backend=backend)(M, n)
    assert value == pytest.approx(np.sum(np.linalg.matrix_power(M, 3) * weights) + np.trace(M), rel=1e-14)
    powers = [np.linalg.matrix_power(M.T, k) for k in range(3)]
    wanted = np.eye(3) + sum(powers[k] @ weights @ powers[2 - k] for k in range(3))
    np.testing.assert_allclose(slope, wanted, rtol=1e-13)


TABLE = np.array([0.5, -1.0, 2.0])


def branching(v: Any, n: Any) -> Any:
    if n <= 0:
        return v
    total = 0.0
    for j in range(2):
        total = total + branching(v * TABLE[j], n - 1) * TABLE[j + 1]
    return total + TABLE[n % 3]


def reads_a_table(x: Any) -> Any:
    total = 0.0
    for k in range(3):
        total = total + branching(np.sin(x[k]), k) * x[k]
    return total


def calls_each_other(x: Any) -> Any:
    t = 2 * x

    def even(v: Any, n: Any) -> Any:
        if n <= 0:
            return v * t[0]
        return odd(v, n - 1) * t[n % 3]

    def odd(v: Any, n: Any) -> Any:
        if n <= 0:
            return t[1] * TABLE[0]
        return np.sin(even(v, n - 1)) + TABLE[n % 3]

    total = 0.0
    for k in range(4):
        total = total + even(x[1] ** 2, k)
    return total


@tg.custom_jvp
def wave(x: Any) -> Any:
    return np.sin(TABLE * x)


@tg.custom_jvp
def shifted_wave(x: Any) -> Any:
    return np.cos(TABLE * x)


wave.defjvp(lambda primals, tangents: (wave(*primals), TABLE * shifted_wave(*primals) * tangents[0]))
shifted_wave.defjvp(lambda primals, tangents: (shifted_wave(*primals), -TABLE * wave(*primals) * tangents[0]))


def rules_call_each_other(x: Any) -> Any:
    return np.sum(wave(x) * x)


@each_backend
@pytest.mark.parametrize("f", [reads_a_table, calls_each_other, rules_call_each_other])
def test_values_from_outside_reach_every_call(f: Any, backend: str) -> None:
    x = np.array([0.3, 0.7, -0.4])
    steps = 1e-6 * np.eye(3)
    value, ct = tg.value_and_grad(f, backend=backend)(x)
    assert float(value) == pytest.approx(float(f(x)), rel=1e-13)
    np.testing.assert_allclose(ct, [(f(x + s) - f(x - s)) / 2e-6 for s in steps], rtol=1e-7, atol=1e-8)
    found = tg.hessian(f, backend=backend)(x)
    wanted = [(tg.grad(f)(x + s) - tg.grad(f)(x - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    batched = tg.vmap(tg.grad(f), backend=backend)(np.stack([x, 2 * x]))
    np.testing.assert_allclose(batched, [tg.grad(f)(x), tg.grad(f)(2 * x)], rtol=1e-12)


@each_backend
@pytest.mark.parametrize("depth", [30, np.int64(30), np.array(30)], ids=["int", "int64", "array"])
def test_a_depth_of_any_int_ends_the_recursion(depth: Any, backend: str) -> None:
    def decay(y: Any, n: Any) -> Any:
        if abs(y) < 1e-3 or n == 0:
            return y
        return decay(0.9 * y, n - 1)

    for start in (0.1, 0.01):
        value, gradient = tg.value_and_grad(lambda y: decay(y, depth), backend=backend)(start)
        assert value == pytest.approx(decay(start, int(depth)))
        assert gradient == pytest.approx(decay(start, int(depth)) / start)


def bisect(low: Any, high: Any, p: Any, depth: Any) -> Any:
    if depth == 0:
        return None
    middle = 0.5 * (low + high)
    if abs(middle * middle - p) < 1e-3:
        return middle
    if middle * middle > p:
        return bisect(low, middle, p, depth - 1)
    return bisect(middle, high, p, depth - 1)


def root_or_zero(p: Any, depth: Any) -> Any:
    r = bisect(0.0, 3.0, p, depth)
    return r * r * p if r is not None else 0.0 * p


def none_of_a_call_or_by_the_result(p: Any, depth: Any) -> Any:
    def search(y: Any, d: Any) -> Any:
        r = search(y / 2, d) if y > 3 else None
        if r is None:
            return y * d
        return None if r > 1.6 * d else r

    r = search(p, depth)
    return p if r is None else r * p


@each_backend
@pytest.mark.parametrize("f", [root_or_zero, none_of_a_call_or_by_the_result])
@pytest.mark.parametrize("depth", [20, 3])
@pytest.mark.parametrize("p", [2.0, 5.0])
def test_a_recursive_function_gives_a_number_or_none(f: Any, depth: int, p: float, backend: str) -> None:
    value, gradient = tg.value_and_grad(f, backend=backend)(p, np.array(depth))
    assert value == pytest.approx(f(p, depth), rel=1e-12)
    assert gradient == pytest.approx((f(p + 1e-7, depth) - f(p - 1e-7, depth)) / 2e-7, rel=1e-6)


@each_backend
def test_many_calls_at_capture_are_refused(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr(user_calls, "CALLS_LIMIT", 200)
    parts = [{"part": 0.5, str(k): 0.0} for k in range(30)]

    def halve(low: Any, high: Any, p: Any, k: int) -> Any:
        middle = (low + high) * parts[k]["part"]
        if k == 20:
            return middle
        if middle * middle > p:
            return halve(low, middle, p, k + 1)
        return halve(middle, high, p, k + 1)

    with pytest.raises(CaptureError, match="200 calls of halve in one do not end") as caught:
        tg.grad(lambda p: halve(0.0, 3.0, p, 0), backend=backend)(2.0)
    assert caught.value.code == "TG130"
    assert caught.value.span is not None
    assert caught.value.span.line == halve.__code__.co_firstlineno + 1


@each_backend
def test_arguments_of_ever_other_structure_are_refused(backend: str) -> None:
    def search(p: Any, best: Any) -> Any:
        if best is not None and best > 40.0:
            return best
        if p < 0.1:
            return None
        if p > 5:
            return search(p / 2, None) * p
        return search(p / 2, p * p * 5)

    def f(p: Any) -> Any:
        r = search(p, None)
        return p if r is None else r * p

    with pytest.raises(CaptureError, match="nested calls of search"):
        tg.grad(f, backend=backend)(7.0)


def gives_back_a_dict(x):
    state = {"n": x * 2.0}

    def halve(y, state):
        if y < 1.0:
            return state, y
        return halve(y * 0.5, state)

    same, y = halve(x, state)
    same["n"] = same["n"] * y
    return state["n"] * x


def gives_back_a_list(x):
    items = [x * 2.0, 1.0]

    def halve(y, items):
        if y < 1.0:
            return items
        return halve(y * 0.5, items)

    same = halve(x, items)
    same[0] += 5.0
    return items[0] * x


def gives_back_another_one(x):
    state = {"n": x * 2.0, "k": 1.0}

    def halve(y, state):
        if y < 1.0:
            return state
        if y > 2.0:
            return halve(y * 0.5, state)
        return halve(y * 0.7, {"n": state["n"] * 1.5, "k": state["k"]})

    other = halve(x, state)
    return other["n"] * x + state["k"]


@each_backend
@pytest.mark.parametrize("f", [gives_back_a_dict, gives_back_a_list, gives_back_another_one])
def test_argument_as_result(f, backend):
    value, slope = tg.value_and_grad(f, backend=backend)(3.0)
    np.testing.assert_allclose(value, f(3.0), rtol=1e-12)
    np.testing.assert_allclose(slope, (f(3.0 + 1e-6) - f(3.0 - 1e-6)) / 2e-6, rtol=1e-8)


def test_recursion_on_ints_inside_a_gradient_may_be_deep() -> None:
    def power(x: Any, n: int) -> Any:
        return x * power(x, n - 1) if n else 1.0

    assert tg.grad(tg.grad(power))(1.0, 80) == 80.0 * 79.0

    def repeated(x: Any) -> Any:
        total = 0.0
        for k in range(3):
            total = total + k * power(x, 70)
        return total

    assert tg.grad(repeated)(1.0) == 210.0


def test_recursion_has_the_room_that_python_is_given() -> None:
    def power(x: Any, n: int) -> Any:
        return x * power(x, n - 1) if n else 1.0

    with pytest.raises(CaptureError, match=r"no room for the capture.*TG130"):
        tg.grad(power)(1.0, 900)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * limit)
    try:
        assert tg.grad(power)(1.0, 900) == 900.0
    finally:
        sys.setrecursionlimit(limit)
