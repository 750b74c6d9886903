"""What the tape promises beyond what torch prints: messages with lines, memory, long chains, threads."""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

from tests.eager.torch_like import torch
from tracegrad.runtime.engine import engine
from tracegrad.runtime.kernel import quietly
from tracegrad.runtime.tensor import NAMES
from tracegrad.torch_names import EAGER


def test_list_of_public_names_is_what_runtime_registers() -> None:
    assert {n for n, place in EAGER.items() if place.startswith("runtime.")} == set(NAMES)
    for name in EAGER:
        assert getattr(torch, name) is not None or name == "newaxis"


def test_overwritten_value_names_operation_and_both_lines() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)  # the write
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.sum().backward()
    text = str(caught.value)
    assert "output 0 of Exp," in text
    assert "is at version 1; expected version 0" in text
    assert "saved by ExpBackward0" in text and "y = x.exp()" in text
    assert "overwritten by add_" in text and "y.add_(1)  # the write" in text


def test_the_error_of_a_value_that_a_function_saved_names_both_lines() -> None:
    class Square(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            square = a * a
            ctx.save_for_backward(a, square)
            return square

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * ct

    x = torch.ones(2, requires_grad=True)
    for overwritten, origin in ((0, "output 0 of Add"), (1, "output 0 of Square")):
        given = x * 1
        out = Square.apply(given)  # the call
        (given, out)[overwritten].add_(1)  # the write
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
            out.sum().backward()
        text = str(caught.value)
        assert f"[torch.FloatTensor [2]], which is {origin}, is at version 1; expected version 0" in text
        assert "saved by SquareBackward, made at " in text and "out = Square.apply(given)  # the call" in text
        assert "overwritten by add_ at " in text and ".add_(1)  # the write" in text and "a clone()" in text


def test_freed_graph_names_the_line_of_the_node() -> None:
    x = torch.ones(3, requires_grad=True)
    z = torch.nn.functional.softplus(x).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="SoftplusBackward0") as caught:
        z.backward()
    assert "z = torch.nn.functional.softplus(x).sum()" in str(caught.value)


def test_only_what_backward_reads_is_saved() -> None:
    x = torch.ones(3, requires_grad=True)
    w = torch.ones(3)
    assert not (x + w).grad_fn.saved
    assert [s.kind for s in (x * w).grad_fn.saved] == [("in", 1)]
    assert [s.kind for s in x.tanh().grad_fn.saved] == [("out", 0)]
    assert [s.kind for s in x.sin().grad_fn.saved] == [("in", 0)]
    y = x * 1
    product = y * w
    y.mul_(2)  # y itself is not needed: only w is
    product.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_what_is_copied_before_a_write_does_not_live_longer() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = x * 1
    out = y.softmax(0)
    (saved,) = (weakref.ref(item) for item in out.grad_fn.saved if item.kind == ("in", 0))
    assert len(y._storage.shielded) == 1
    out.sum().backward()
    gc.collect()
    assert saved() is None and len(y._storage.shielded) == 0
    out = y.softmax(0)
    y.zero_()
    assert [item.array.tolist() for item in out.grad_fn.saved if item.kind == ("in", 0)] == [[1.0] * 1000]
    assert y._storage.shielded is None


def test_optimizer_may_step_before_a_second_walk_through_a_softmax() -> None:
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    out = (x.softmax(0) * torch.tensor([1.0, 3.0])).sum()
    out.backward(retain_graph=True)
    before = x.grad.clone()
    torch.optim.SGD([x], lr=1.0).step()
    x.grad = None
    out.backward(retain_graph=True)
    assert x.grad.tolist() == before.tolist()
    assert torch.autograd.grad(out, x, create_graph=True)[0].tolist() == before.tolist()


def test_tangent_of_a_view_that_a_function_writes() -> None:
    forward = torch.autograd.forward_ad

    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t * 3

    with forward.dual_level():
        base = forward.make_dual(torch.ones(3), torch.ones(3)) * 1
        view = Triple.apply(base[:2])
        assert forward.unpack_dual(view).tangent.tolist() == [3.0, 3.0]
        assert forward.unpack_dual(base).tangent.tolist() == [3.0, 3.0, 1.0]
        Triple.apply(base)
        assert forward.unpack_dual(base).tangent.tolist() == [9.0, 9.0, 3.0]


def test_memory_of_saved_values_is_free_after_backward() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = (x * 2).exp()
    big = weakref.ref(y)
    loss = y.sum()
    del y
    loss.backward()
    gc.collect()
    assert big() is None
    (x * 2).exp().sum().backward()
    tracemalloc.start()
    losses = []
    for _ in range(50):
        loss = (x * 2).exp().sum()
        loss.backward()
        losses.append(loss)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 50 * x.numel() * 4 // 2


def test_nothing_is_left_when_a_graph_is_dropped() -> None:
    x = torch.ones(10, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        y = (x * 2).tanh()
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None, "a reference cycle keeps the graph"
    finally:
        gc.enable()


@pytest.mark.parametrize("create_graph", [False, True])
def test_long_chains(create_graph: bool) -> None:
    x = torch.tensor(1.0, requires_grad=True, dtype=torch.float64)
    y = x
    count = 5_000 if create_graph else 100_000 if engine else 20_000  # the walk in Python takes its time
    for _ in range(count):
        y = y * 1.00001
    y.backward(create_graph=create_graph)
    assert x.grad.item() == pytest.approx(1.00001**count, rel=1e-9)
    x.grad = None
    del y


def test_wide_graphs() -> None:
    x = torch.tensor(1.0, requires_grad=True)
    total = sum([x * k for k in range(2000)], torch.tensor(0.0))
    total.backward()
    assert x.grad.item() == sum(range(2000))


def test_gradients_alias_nothing() -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.ones(3, requires_grad=True)
    ct = torch.ones(3)
    (x + y).backward(ct)
    x.grad[0] = 100.0
    assert y.grad.tolist() == [1.0] * 3
    assert ct.tolist() == [1.0] * 3
    seen: list[Any] = []
    z = torch.ones(3, requires_grad=True)
    z.register_hook(seen.append)
    (z * 2).sum().backward()
    z.grad.zero_()
    assert seen[0].tolist() == [2.0] * 3
    w = torch.ones(3, requires_grad=True)
    (w * 1.0).backward(ct)
    w.grad.zero_()
    assert ct.tolist() == [1.0] * 3


def test_results_alias_operands_only_where_they_are_views() -> None:
    x = torch.ones(2, 3)
    for made in (
        x.clone(),
        x.flip(0),
        x.to(torch.float64),
        torch.cat([x]),
        x.cumsum(0),
        x + 0,
        x * 1,
        x.tril(),
        x.relu(),
    ):
        assert not np.shares_memory(made.numpy(), x.numpy())
    for view in (x.t(), x[0], x.view(3, 2), x.expand(4, 2, 3), x.unsqueeze(0), x.detach(), x.diagonal(), x.chunk(2)[0]):
        assert np.shares_memory(view.numpy(), x.numpy())


def test_element_writes_in_a_loop_make_one_kernel() -> None:
    x = torch.arange(1.0, 51.0, requires_grad=True)
    out = torch.zeros(50)
    for k in range(50):
        out[k] = x[k] * x[49 - k]
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * np.arange(50.0, 0.0, -1.0))


def test_separate_graphs_in_threads() -> None:
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        x = torch.full((5,), float(number), requires_grad=True)
        for _ in range(50):
            x.grad = None
            with torch.no_grad():
                _ = x * 2
            ((x * x).sum() + x.exp().sum() * 0).backward()
        results[number] = (x.grad.tolist(), torch.is_grad_enabled())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: ([2.0 * k] * 5, True) for k in range(4)}


def test_backward_in_threads_into_shared_leaves() -> None:
    x = torch.zeros(1000, requires_grad=True)
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(100):
            (x * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad.tolist() == [400.0] * 1000


def test_grad_mode_is_thread_local() -> None:
    seen: list[bool] = []
    with torch.no_grad():
        t = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_zero_gradient_is_zero_whatever_the_slope() -> None:
    x = torch.tensor([0.0, 1.0], requires_grad=True, dtype=torch.float64)
    (x.sqrt() * torch.tensor([0.0, 1.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [0.0, 0.5]
    x.grad = None
    x.norm().backward()
    (g,) = torch.autograd.grad((x * 0).norm(), x)
    assert g.tolist() == [0.0, 0.0]


def test_source_of_a_node_is_readable() -> None:
    x = torch.ones(3, requires_grad=True)
    assert "ct * (1.0 - out ** 2)" in x.tanh().grad_fn.source()


def test_saved_hooks_on_inputs_and_outputs_and_double_backward() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True, dtype=torch.float64)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.numpy().tobytes(), lambda b: torch.tensor(np.frombuffer(b))
    ):
        y = (x * x).exp().sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    values = x.detach().numpy()
    np.testing.assert_allclose(h.numpy(), (2 + 4 * values**2) * np.exp(values**2))


def test_anomaly_mode_names_the_line() -> None:
    x = torch.tensor([-1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        y = x.pow(0.5)  # NaN is made here
        with pytest.warns(UserWarning, match="NaN is made here"), pytest.raises(RuntimeError, match="returned nan"):
            y.backward()


def test_numpy_functions_tell_2_from_2_0() -> None:
    x = torch.arange(3)
    assert np.multiply(x, 2).dtype == torch.int64
    assert np.multiply(x, 2.0).dtype == torch.float64


def test_kernels_run_inside_kernels() -> None:
    x = torch.tensor([0.0])
    found = []

    class Noisy:
        def __del__(self) -> None:
            found.append((1 / x).item())

    def compute(holder: list[Any]) -> None:
        holder.clear()

    quietly(compute, [Noisy()])
    gc.collect()
    assert found == [float("inf")]


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh", "exp", "sqrt"])
def test_the_result_is_saved_not_the_operand(name: str) -> None:
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    h = x * 1
    y = getattr(h, name)()
    expected = torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist()
    h.mul_(3)
    assert torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() == expected
    y.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y.sum(), x)


def test_unfold_is_a_view() -> None:
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    h = x * 1
    windows = h.unfold(1, 2, 2)
    windows.mul_(3.0)
    assert h.tolist() == (x.detach() * 3).tolist() and h.grad_fn.name() == "torch::autograd::CopySlices"
    h[0, 0] = 7.0
    assert h.unfold(0, 2, 1)[0, 0].tolist() == [7.0, 12.0] and windows[0, 0].tolist() == [7.0, 3.0]
    (h * h).sum().backward()
    assert x.grad.flatten().tolist() == [0.0, *(18.0 * k for k in range(1, 12))]
    with pytest.raises(RuntimeError, match="more than one element"):
        h.unfold(1, 2, 1).mul_(2)
    with pytest.raises(RuntimeError, match="maximum size for tensor at dimension 1 is 4 but size is 5"):
        h.unfold(1, 5, 1)
    with pytest.raises(RuntimeError, match="step is 0 but must be > 0"):
        h.unfold(1, 2, 0)


@pytest.mark.parametrize("shown", ["user", "full"])
def test_traceback_of_anomaly_mode_is_of_the_user(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEGRAD_TRACEBACK", shown)
    x = torch.zeros(1, requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"), torch.autograd.detect_anomaly():
        y = torch.nn.Sequential(torch.nn.Tanh())(x) / x
        with (
            pytest.warns(UserWarning, match="Traceback of forward call") as seen,
            pytest.raises(RuntimeError, match="nan values"),
        ):
            y.sum().backward()
    text = next(str(w.message) for w in seen if "Traceback of forward call" in str(w.message))
    assert "test_tape.py" in text and "(x) / x" in text
    assert (f"tracegrad{os.sep}runtime" in text) == (shown == "full")


def test_what_as_strided_scatter_leaves_keeps_its_gradient() -> None:
    x, src = torch.arange(6.0, requires_grad=True), torch.ones(2, 2, requires_grad=True)
    y = torch.as_strided_scatter(x, src, (2, 2), (1, 2), 1)
    (y * torch.arange(1.0, 7.0)).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 6.0] and src.grad.tolist() == [[2.0, 4.0], [3.0, 5.0]]
    with pytest.raises(NotImplementedError, match="without gaps"):
        torch.arange(6.0)[::2].as_strided_scatter(torch.ones(1), (1,), (1,))
