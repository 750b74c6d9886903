"""Compiled functions called with tensors are one node, on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.eager.torch_like import torch

BACKENDS = ("numpy", "c")


def energy(params: dict[str, Any], x: Any) -> Any:
    total = 0.0
    for k in range(x.shape[0]):
        if x[k] > 0:
            total = total + np.sin(params["w"][k] * x[k]) ** 2
    return total + params["b"] * np.sum(x)


def eager_energy(params: dict[str, Any], x: Any) -> Any:
    total = torch.tensor(0.0, dtype=torch.float64)
    for k in range(x.shape[0]):
        if x[k] > 0:
            total = total + torch.sin(params["w"][k] * x[k]) ** 2
    return total + params["b"] * x.sum()


def inputs() -> tuple[dict[str, Any], Any]:
    w = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64, requires_grad=True)
    b = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    return {"w": w, "b": b}, x


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_to_second_order(backend: str) -> None:
    f = tg.function(energy, backend=backend)
    found = []
    for function in (f, eager_energy):
        params, x = inputs()
        leaves = [params["w"], params["b"], x]
        y = function(params, x)
        first = torch.autograd.grad(y * y, leaves, create_graph=True)
        mixed = sum((g * g).sum() for g in first)
        second = torch.autograd.grad(mixed, leaves)
        found.append([y.item(), *[g.tolist() for g in (*first, *second)]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_is_one_node_with_hooks_and_retain_graph(backend: str) -> None:
    f = tg.function(energy, backend=backend)
    params, x = inputs()
    y = f(params, x)
    assert isinstance(y, torch.Tensor)
    assert y.grad_fn.name() == "CompiledFunctionBackward"
    assert {n.name() for n, _ in y.grad_fn.next_functions} == {"torch::autograd::AccumulateGrad"}
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g.item()))
    x.register_hook(lambda g: g * 2)
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * once.numpy())
    assert seen == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_structures_of_results_and_modes(backend: str) -> None:
    @tg.function(backend=backend)
    def f(x: Any, scale: float) -> Any:
        return {"double": x * 2, "count": np.argmax(x), "sum": np.sum(x) * scale}

    x = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64, requires_grad=True)
    out = f(x, 10.0)
    assert out["count"].item() == 1 and not out["count"].requires_grad
    (out["sum"] + out["double"][0]).backward()
    assert x.grad.tolist() == [12.0, 10.0, 10.0]
    with torch.no_grad():
        assert not f(x, 1.0)["sum"].requires_grad
    assert not f(x.detach(), 1.0)["sum"].requires_grad


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_functions_take_tensors_too(backend: str) -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    g = tg.grad(lambda x: np.sum(x**3), backend=backend)(x)
    assert g.tolist() == [3.0, 12.0]
    g.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_overwritten_argument_is_found() -> None:
    f = tg.function(lambda x: np.sum(x * x))
    x = torch.tensor([1.0, 2.0], requires_grad=True) * 1
    y = f(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_gradcheck_of_a_compiled_loop() -> None:
    @tg.function
    def f(x: Any) -> Any:
        while np.sum(x * x) > 1.0:
            x = x * 0.7
        return x

    x = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x,))
    assert torch.autograd.gradgradcheck(lambda x: f(x) ** 2, (x,))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_dual_tensors(backend: str) -> None:
    forward = tg.autograd.forward_ad

    @tg.function(backend=backend)
    def f(p: Any, k: int) -> Any:
        return {"a": p["w"] * np.sin(p["b"]) * k, "k": k, "none": None}

    with forward.dual_level():
        w = forward.make_dual(tg.tensor([1.0, 2.0]), tg.tensor([1.0, 0.0]))
        out = f({"w": w, "b": tg.tensor([0.5, 0.6])}, 3)
        primal, tangent = forward.unpack_dual(out["a"])
        np.testing.assert_allclose(primal.numpy(), [3 * np.sin(0.5), 6 * np.sin(0.6)], rtol=1e-6)
        np.testing.assert_allclose(tangent.numpy(), [3 * np.sin(0.5), 0.0], rtol=1e-6)
        assert out["k"] == 3 and out["none"] is None
        slope = forward.unpack_dual(tg.grad(lambda x: np.sum(x**3), backend=backend)(w[:1]))
        assert slope.primal.tolist() == [3.0] and slope.tangent.tolist() == [6.0]
        with pytest.raises(NotImplementedError, match="takes no dual tensors"):
            f({"w": w, "b": tg.tensor([0.5, 0.6], requires_grad=True)}, 3)


def weighted(a, x, *rest, scale=1.0):
    total = np.sum(a * x) * scale
    for r in rest:
        total = total + np.sum(r * 100)
    return total


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_keyword_arguments_reach_the_gradient(backend):
    compiled = tg.function(weighted, backend=backend)
    a = tg.tensor([1.0, 2.0], dtype=tg.double, requires_grad=True)
    x = tg.tensor([3.0, 4.0], dtype=tg.double)
    scale = tg.tensor(2.0, dtype=tg.double, requires_grad=True)
    for create_graph in (False, True):
        by_a, by_scale = tg.autograd.grad(compiled(a, x, scale=scale), [a, scale], create_graph=create_graph)
        assert by_a.tolist() == [6.0, 8.0]
        assert by_scale.item() == 11.0
    assert tg.autograd.grad(by_a.sum(), [scale])[0].item() == 7.0


FACTOR = 2.0
TABLE = np.array([1.0, 2.0])


def of_globals(p, x, *rest):
    total = np.sum(p["b"] * x) + np.sum(p["a"] ** 2) * FACTOR
    for r in rest:
        total = total + np.sum(r * TABLE)
    return total


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_calls_of_a_kind_that_was_seen_are_never_stale(backend, monkeypatch):
    compiled = tg.function(of_globals, backend=backend)
    for factor, table in ((2.0, [1.0, 2.0]), (2.0, [1.0, 2.0]), (3.0, [1.0, 2.0]), (3.0, [5.0, 6.0])):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        monkeypatch.setitem(globals(), "TABLE", np.array(table))
        a, b, x = (tg.tensor(v, dtype=tg.double, requires_grad=True) for v in ([1.0, 2.0], [3.0, 5.0], [7.0, factor]))
        compiled({"b": b, "a": a}, x, x).backward()
        assert a.grad.tolist() == [2.0 * factor, 4.0 * factor]
        assert b.grad.tolist() == [7.0, factor]
        assert x.grad.tolist() == [3.0 + table[0], 5.0 + table[1]]


def test_source_and_explanation_for_tensors():
    a, x = tg.ones(2, dtype=tg.double, requires_grad=True), tg.ones(2, dtype=tg.double)
    arrays = np.ones(2), np.ones(2)
    assert tg.grad(weighted).source(a, x) == tg.grad(weighted).source(*arrays)
    assert str(tg.explain(weighted)(a, x)) == str(tg.explain(weighted)(*arrays))


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_detached_and_written(backend: str) -> None:
    square = tg.function(lambda x: x * x, backend=backend)
    total = tg.function(lambda x: np.sum(np.sin(x) ** 2), backend=backend)
    w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert square(w).detach().numpy().tolist() == [1.0, 4.0]
    assert square(w)[1].detach().item() == 4.0
    assert tg.value_and_grad(lambda x: np.sum(x**3), backend=backend)(w)[1][0].detach().item() == 3.0
    for name, arguments in (("add_", (1,)), ("mul_", (2,)), ("zero_", ()), ("exp_", ()), ("t_", ())):
        expected, found = (torch.autograd.grad(getattr(y, name)(*arguments).sum(), w) for y in (w * w, square(w)))
        assert found[0].tolist() == expected[0].tolist()
        with torch.no_grad():
            y = square(w)
            assert getattr(y, name)(*arguments) is y
    y = square(w)
    y[0] = 1.0
    assert torch.autograd.grad(y.sum(), w)[0].tolist() == [0.0, 4.0]
    x, func = w.detach(), torch.func
    slope, bend = np.sin(2 * x.numpy()), 2 * np.cos(2 * x.numpy())
    found = [
        func.grad(total)(x), func.grad_and_value(total)(x)[0], func.vjp(total, x)[1](torch.ones((), dtype=x.dtype))[0],
        func.vmap(func.grad(total))(torch.stack([x, x]))[1],
    ]  # fmt: skip
    for gradient in found:
        np.testing.assert_allclose(gradient.numpy(), slope, rtol=1e-12)
    along = [
        func.jvp(total, (x,), (x,))[1], func.linearize(total, x)[1](x), torch.autograd.functional.jvp(total, x, x)[1],
    ]  # fmt: skip
    for tangent in along:
        np.testing.assert_allclose(tangent.item(), slope @ x.numpy(), rtol=1e-12)
    np.testing.assert_allclose(torch.autograd.functional.hvp(total, x, x)[1].numpy(), bend * x.numpy(), rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_saved_values_go_through_hooks(backend: str) -> None:
    f = tg.function(lambda x, scale: np.sum(np.tanh(x) * scale), backend=backend)
    x = torch.tensor([0.5, 0.7], dtype=torch.float64, requires_grad=True)
    seen: list[Any] = []

    def pack(tensor: Any) -> Any:
        seen.append(tensor.tolist())
        return tensor * 2

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor / 2):
        y = f(x, 3.0)
    assert seen == [[0.5, 0.7]]
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    tanh = np.tanh(x.detach().numpy())
    np.testing.assert_allclose(first.detach().numpy(), 3 * (1 - tanh**2), rtol=1e-12)
    (second,) = torch.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), -6 * tanh * (1 - tanh**2), rtol=1e-12)
    written = x * 1
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = f(written, 1.0)
        written.zero_()
        np.testing.assert_allclose(torch.autograd.grad(y, x)[0].numpy(), 1 - tanh**2, rtol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_hooks_of_leaves_run_in_the_order_of_the_arguments(backend: str) -> None:
    product = tg.function(lambda a, b: a * b, backend=backend)
    seen: list[str] = []
    w, v, u = (torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(3))
    for name, leaf in (("w", w), ("v", v), ("u", u)):
        leaf.register_hook(lambda ct, name=name: seen.append(name))
    for made in (product(w, v), product(v, w), product(product(w, v), u)):
        made.sum().backward()
    assert "".join(seen) == "wv" + "vw" + "uwv"
