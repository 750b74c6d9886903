"""The fast path of eager tensors: plans are kept per signature of a call, and what is kept fits other calls."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.runtime.engine import engine
from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.tape import Plan, apply_composition, planned

ROOT = Path(__file__).parents[2]


def gradient(f: Any, *values: Any) -> list[Any]:
    """Return the gradients of the sum of f(*tensors) as arrays."""
    tensors = [tg.tensor(v, dtype=tg.float64, requires_grad=True) for v in values]
    return [np.asarray(g) for g in tg.autograd.grad(f(*tensors).sum(), tensors)]


def test_the_engine_is_compiled_where_tests_run() -> None:
    assert engine is not None or "TRACEGRAD_CC" in os.environ


def test_numbers_differ_from_call_to_call() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    for factor in (2.0, 3.0, 3, -0.5, 10**6, 2.0):
        (g,) = tg.autograd.grad((x * factor).sum(), x)
        assert (x * factor).tolist() == [factor, 2 * factor] and g.tolist() == [factor, factor]
        assert (factor - x).tolist() == [factor - 1, factor - 2]
    i = tg.tensor([1, 2])
    assert (i + 1).dtype is tg.int64 and (i + 1.0).dtype is tg.float32 and (i + 1).dtype is tg.int64
    assert (i + True).dtype is tg.int64 and (i * 1.5).tolist() == [1.5, 3.0]
    small = tg.tensor([1], dtype=tg.uint8)
    for number in (2, 300, -2, 300):
        assert (small + number).tolist() == [(1 + number) % 256]
        assert tg.where(small > 0, 7, small).tolist() == [7]
        with pytest.raises(RuntimeError, match="cannot be converted to type uint8_t without overflow"):
            tg.where(small > 0, 300, small)
    with pytest.raises(OverflowError, match="int too big"):
        i + 2**64


def test_one_tensor_for_two_operands() -> None:
    for _ in range(2):
        assert [g.tolist() for g in gradient(lambda x: x * x, [3.0])] == [[6.0]]
        assert [g.tolist() for g in gradient(lambda x, y: x * y, [3.0], [5.0])] == [[5.0], [3.0]]
        assert [g.tolist() for g in gradient(lambda x, y: y / x, [2.0], [5.0])] == [[-1.25], [0.5]]


def test_values_are_part_of_the_signature() -> None:
    x = tg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(0).tolist() == [4.0, 6.0] and x.sum(1).tolist() == [3.0, 7.0] and x.sum().item() == 10.0
    assert x.sum(dim=0, keepdim=True).shape == (1, 2) and x.sum(keepdim=True, dim=0).shape == (1, 2)
    assert x.sum(0, dtype=tg.float64).dtype is tg.float64 and x.sum(0).dtype is tg.float32
    assert (x**2).tolist() == [[1.0, 4.0], [9.0, 16.0]] and (x**3).tolist() == [[1.0, 8.0], [27.0, 64.0]]
    assert x.clamp(2.0, 3.0).tolist() == [[2.0, 2.0], [3.0, 3.0]] and x.clamp(max=1.5).max().item() == 1.5
    assert x.clamp(max=2.5).max().item() == 2.5 and x.clamp(min=2.5).min().item() == 2.5
    zero = tg.tensor([0.0])
    assert (1 / tg.copysign(zero, 0.0)).item() == np.inf and (1 / tg.copysign(zero, -0.0)).item() == -np.inf


def test_the_default_dtype_is_part_of_a_plan() -> None:
    i = tg.tensor([1, 2])
    assert (i / 2).dtype is tg.float32
    tg.set_default_dtype(tg.float64)
    try:
        assert (i / 2).dtype is tg.float64 and (i + 1.0).dtype is tg.float64
    finally:
        tg.set_default_dtype(tg.float32)
    assert (i / 2).dtype is tg.float32


def test_a_plan_that_is_a_result_is_not_kept() -> None:
    calls = []

    @planned()
    def twice(x: Any, other: Any = None) -> Any:
        calls.append(x)
        return x if other is None else NotImplemented

    x = tg.tensor([1.0])
    assert twice(x) is x and twice(x) is x and len(calls) == 2
    assert twice(x, x) is NotImplemented and len(calls) == 3
    with pytest.raises(TypeError, match="unsupported operand"):
        x + object()


def test_plans_are_made_once_per_signature() -> None:
    calls = []

    @planned(2)
    def product(x: Any, y: Any) -> Any:
        calls.append((x, y))
        plan = tg.mul.__wrapped__(x, y)
        assert isinstance(plan, Plan)
        return plan

    x, y = tg.tensor([1.0, 2.0]), tg.tensor([[3.0], [4.0]])
    for a, b in ((x, y), (x + 1, y), (x, 2.0), (x, 3.0), (x, 3), (y, x), (x, y.double())):
        assert product(a, b).tolist() == (a * b).tolist()
    assert len(calls) == (5 if engine else 7)


def test_many_signatures() -> None:
    for n in range(1, 700, 7):
        assert tg.ones(n).sum().item() == n
    x = tg.ones(3, requires_grad=True)
    for k in range(100):
        assert tg.autograd.grad((x ** (k / 8)).sum(), x)[0].tolist() == [k / 8] * 3


def test_a_zero_cotangent_at_an_infinite_slope() -> None:
    x = tg.tensor([0.0, 4.0, -1.0], requires_grad=True)
    tg.where(x > 0, x.sqrt(), 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.25, 0.0]
    x.grad = None
    x.sqrt()[:2].sum().backward()  # the slope itself is infinite
    assert x.grad.tolist() == [np.inf, 0.25, 0.0]
    rows = tg.tensor([[1.0, 2.0], [-np.inf, -np.inf]], requires_grad=True)
    rows.softmax(1)[0, 1].backward()
    assert np.isfinite(rows.grad.numpy()).all() and rows.grad[1].tolist() == [0.0, 0.0]


def test_a_leaf_gets_a_gradient_of_its_own() -> None:
    x = tg.ones(2, 2, requires_grad=True)
    (x.t() + 0).sum().backward()
    assert x.grad.is_contiguous()
    first = x.grad
    x.sum().backward()
    assert x.grad is first and first.tolist() == [[2.0, 2.0], [2.0, 2.0]] and first._version == 1
    y = tg.ones(2, requires_grad=True)
    given = tg.ones(2)
    (y * 1).backward(given)
    given.zero_()
    assert y.grad.tolist() == [1.0, 1.0]


def test_a_hook_in_the_midst_of_kernels() -> None:
    seen = []
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    h.register_hook(lambda g: seen.append((g.tolist(), tg.is_grad_enabled())) or g * 10)
    ((h * 3).sum() + h.sum()).backward()
    assert seen == [([4.0, 4.0], False)] and x.grad.tolist() == [80.0, 80.0] and tg.is_grad_enabled()
    with pytest.raises(ZeroDivisionError):
        y = x * 2
        y.register_hook(lambda g: 1 / 0)
        y.sum().backward()
    assert tg.is_grad_enabled()


def test_walks_in_threads() -> None:
    x = tg.ones(50, requires_grad=True)
    found = []

    def work(k: int) -> None:
        with tg.no_grad():
            assert not (x * 2).requires_grad
        for _ in range(50):
            (g,) = tg.autograd.grad(((x * k).tanh() * x).sum(), x)
        found.append((k, float(g[0])))
        (x * k).sum().backward()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    expected = {k: float(np.tanh(k) + k / np.cosh(k) ** 2) for k in range(1, 5)}
    assert {k: pytest.approx(v, rel=1e-5) for k, v in found} == expected
    assert x.grad.tolist() == [10.0] * 50


def test_a_step_function_has_a_gradient_of_zero() -> None:
    x = tg.tensor([1.5, -2.5], requires_grad=True)
    y = tg.tensor([1.0, 2.0], requires_grad=True)

    def overwritten(x: Any, y: Any) -> Any:
        h = x * 1
        h[:] = y
        return h

    for function in (tg.copysign, lambda x, y: x.floor() + y, lambda x, y: x.sign() * y, overwritten):
        for g in tg.autograd.grad(function(x, y).sum(), (x, y)):
            assert g is not None and g.shape == (2,)
    assert tg.autograd.grad(overwritten(x, y).sum(), x)[0].tolist() == [0.0, 0.0]
    assert not (x > y).float().requires_grad


def test_nothing_is_left_behind() -> None:
    def step() -> None:
        x = tg.ones(4, requires_grad=True)
        (x.reshape(2, 2).t() @ tg.ones(2, 2) * 2.0).tanh().sum().backward()

    step()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        step()
    gc.collect()
    assert len(gc.get_objects()) - before < 50


def test_operations_are_functions_to_others() -> None:
    assert copy.deepcopy(tg.tanh) is tg.tanh and copy.copy(tg.nn.functional.gelu) is tg.nn.functional.gelu
    assert tg.add.__name__ == "add" and tg.add.__doc__ == "Return input + alpha * other."
    x = tg.tensor([1.0])
    assert x.add(1).tolist() == [2.0] and tg.Tensor.add(x, 1).tolist() == [2.0] and (bound := x.tanh)().shape == (1,)
    assert bound.__self__ is x
    with pytest.raises(TypeError):
        tg.add(x)
    with pytest.raises(TypeError):
        tg.add(x, x, beta=1)


def test_adam_on_a_number() -> None:
    x = tg.tensor(2.0, requires_grad=True)
    optimizer = tg.optim.Adam([x], lr=0.5)
    for _ in range(200):
        optimizer.zero_grad()
        ((x - 1.0) ** 2).backward()
        optimizer.step()
    assert abs(x.item() - 1.0) < 1e-2


@pytest.mark.skipif(engine is None, reason="the values are kept by the fast path")
def test_what_the_primal_computes_is_not_computed_again() -> None:
    values = np.linspace(-2.0, 2.0, 6).reshape(2, 3)

    def applied() -> tuple[tg.Tensor, tg.Tensor]:
        x = tg.tensor(values, requires_grad=True)
        return x, tg.nn.functional.silu(x)

    first_x, first = applied()
    x, y = applied()
    assert [item.kind[0] for item in y.grad_fn.saved] == ["in", "kept"]
    assert "exp" not in y.grad_fn.pullback.brief.source() and "exp" in y.grad_fn.source()
    for leaf, out in ((first_x, first), (x, y)):
        out.sum().backward(retain_graph=True)
        sigmoid = 1 / (1 + np.exp(-values))
        assert np.allclose(leaf.grad, sigmoid * (1 + values * (1 - sigmoid)), rtol=1e-12)
    (slope,) = tg.autograd.grad(y.sum(), x, create_graph=True)
    (curvature,) = tg.autograd.grad(slope.sum(), x, retain_graph=True)
    assert np.allclose(curvature, sigmoid * (1 - sigmoid) * (2 + values * (1 - 2 * sigmoid)), rtol=1e-12)
    before = x.grad.clone()
    y.register_hook(lambda ct: 2 * ct)  # nodes with hooks are visited in Python
    y.sum().backward(retain_graph=True)
    assert np.allclose(x.grad - before, 2 * before, rtol=1e-12)
    with tg.no_grad():
        x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.skipif(engine is None, reason="the values are kept by the fast path")
def test_what_only_the_pullback_computes_is_not_kept() -> None:
    x = tg.ones(3, requires_grad=True)
    for function in (tg.sin, tg.nn.functional.silu, lambda x: tg.atan2(x, x)):
        for _ in range(3):
            kinds = [item.kind[0] for item in function(x).grad_fn.saved]
        assert kinds.count("kept") == (1 if function is tg.nn.functional.silu else 0), kinds


def test_an_operation_of_many_values() -> None:
    def f(x: tg.Tensor) -> tg.Tensor:
        parts = [np.exp(x * k) for k in range(1, 20)]
        return np.prod(np.stack(parts), axis=0) + sum(np.tanh(p) * np.exp(-p) for p in parts)

    composition = Composition("Many", f)
    values = np.array([0.01, -0.02])
    found = [gradient(lambda x: apply_composition(composition, (), [x]), values)[0] for _ in range(3)]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2]) and np.isfinite(found[0]).all()


def test_kept_values_share_no_memory_with_results() -> None:
    def f(x: tg.Tensor) -> tg.Tensor:
        h = x * 1.0
        y, total = tg.softmax(h, 1), tg.logsumexp(h, 1)
        norm = h.norm(dim=1)
        (y * total[:, None]).sum().backward(retain_graph=True)
        y.detach().zero_()  # nothing that is kept lies there
        return (h * norm[:, None]).sum() + total.sum()

    values = np.random.default_rng(0).normal(size=(3, 4))
    found = [gradient(f, values)[0] for _ in range(3)]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.skipif(engine is None, reason="the values are kept by the fast path")
def test_zero_times_infinity_stays_zero_with_kept_values() -> None:
    x = tg.zeros(3, dtype=tg.float64, requires_grad=True)
    for _ in range(3):
        y = tg.where(x > 0, (x * x).sum(0, keepdim=True).sqrt() * tg.logsumexp(x, 0), x)
        (g,) = tg.autograd.grad(y.sum(), x)
        assert g.tolist() == [1.0, 1.0, 1.0]


def test_without_a_compiler() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/eager/test_programs.py"]
    environment = {**os.environ, "TRACEGRAD_CC": "/nonexistent"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_texts_of_windows_do_not_grow_with_the_array() -> None:
    x = tg.randn(2, 600, requires_grad=True)
    assert len(x.unfold(1, 301, 1).grad_fn.source()) < 1000
    image = tg.randn(1, 1, 60, 60, requires_grad=True)
    assert len(tg.nn.functional.max_pool2d(image, 3, 2, 1).grad_fn.source()) < 6000


def test_a_stack_of_rows_times_a_matrix_is_one_product() -> None:
    x, w = tg.randn(2, 3, 4, requires_grad=True), tg.randn(5, 4, requires_grad=True)
    for made in (tg.nn.functional.linear(x, w), tg.nn.functional.linear(x, w, tg.ones(5)), x @ w.T):
        assert "tensordot" not in made.grad_fn.source()
