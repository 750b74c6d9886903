"""What steps of optimizers and conversions of modules leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.eager.torch_like import torch


def test_adam_steps_in_real_and_imaginary_parts() -> None:
    z = torch.tensor([1 + 2j, 0 - 0.5j], requires_grad=True)
    optimizer = torch.optim.Adam([z], lr=0.1)
    (z.abs() ** 2).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(z.detach().numpy(), [0.9 + 1.9j, -0.4j], atol=1e-6)
    kept = optimizer.state[z]["exp_avg_sq"]
    assert kept.shape == z.shape
    assert kept.dtype == torch.complex64


def test_lbfgs_moves_complex_parameters_among_real_ones() -> None:
    z = torch.tensor([[0.5 - 1j], [0.5 + 0.1j]], dtype=torch.complex128, requires_grad=True)
    x = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([z, x], lr=0.5, max_iter=60)

    def closure() -> object:
        optimizer.zero_grad()
        loss = ((z - (1 + 2j) * x) * (z - (1 + 2j) * x).conj()).real.sum() + (x - 1).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(z.detach().numpy(), np.full((2, 1), 1 + 2j), atol=1e-4)
    np.testing.assert_allclose(x.detach().numpy(), [1.0], atol=1e-4)


def test_a_step_that_keeps_nothing_leaves_no_state() -> None:
    x = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.1)
    x.sum().backward()
    optimizer.step()
    assert optimizer.state_dict()["state"] == {}


def test_an_empty_batch_leaves_running_statistics() -> None:
    for norm, shape in ((torch.nn.BatchNorm1d(2), (0, 2)), (torch.nn.BatchNorm2d(2, momentum=None), (0, 2, 3, 3))):
        norm(torch.randn(4, *shape[1:]))
        before = norm.running_mean.clone(), norm.running_var.clone()
        result = norm(torch.ones(shape))
        assert result.shape == shape
        assert int(norm.num_batches_tracked) == 2
        np.testing.assert_array_equal(norm.running_mean.numpy(), before[0].numpy())
        np.testing.assert_array_equal(norm.running_var.numpy(), before[1].numpy())


def test_instance_norm_of_an_empty_batch() -> None:
    norm = torch.nn.InstanceNorm2d(2, affine=True, track_running_stats=True)
    x = torch.ones(0, 2, 3, 3, requires_grad=True)
    norm(x).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape
    assert norm.weight.grad.tolist() == [0.0, 0.0]
    assert norm.running_mean.tolist() == [0.0, 0.0] and norm.running_var.tolist() == [1.0, 1.0]


def test_modules_take_empty_batches() -> None:
    for module, shape, wanted in (
        (torch.nn.LSTM(3, 4), (5, 0, 3), (5, 0, 4)), (torch.nn.AdaptiveMaxPool1d(2), (0, 2, 5), (0, 2, 2)),
        (torch.nn.Unfold(2), (0, 1, 4, 4), (0, 4, 9)), (torch.nn.Fold((4, 4), 2), (0, 4, 9), (0, 1, 4, 4)),
        (torch.nn.ConvTranspose1d(2, 2, 3, groups=2), (0, 2, 5), (0, 2, 7)),
    ):  # fmt: skip
        x = torch.ones(shape, requires_grad=True)
        made = module(x)
        made = made[0] if isinstance(made, tuple) else made
        made.sum().backward()
        assert made.shape == wanted and x.grad is not None and x.grad.shape == shape
        assert all(p.grad.abs().sum().item() == 0 for p in module.parameters())
    x = torch.ones(0, 3, 4)
    assert [t.shape for t in torch.nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)] == [(0, 3, 4), (0, 3, 3)]


def test_vmap_over_no_elements() -> None:
    x = torch.ones(0, 3, requires_grad=True)
    total, twice = torch.func.vmap(lambda a: (a.sum(), a * 2), out_dims=(0, 1))(x)
    assert total.shape == (0,) and twice.shape == (3, 0) and total.requires_grad


def test_recorded_gradients_of_no_elements_require_grad() -> None:
    layer = torch.nn.Linear(2, 3)
    found = torch.autograd.grad(layer(torch.ones(0, 2)).pow(2).sum(), list(layer.parameters()), create_graph=True)
    assert [ct.requires_grad for ct in found] == [True, True]
    again = torch.autograd.grad(sum(ct.sum() for ct in found), layer.weight, allow_unused=True, materialize_grads=True)
    assert again[0].tolist() == [[0.0, 0.0]] * 3
    x = torch.ones(0, 2, requires_grad=True)
    assert not torch.autograd.grad((x * 3).sum(), x, create_graph=True)[0].requires_grad


CONVERSIONS: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda m: m.double(), torch.float64), (lambda m: m.half(), torch.float16),
    (lambda m: m.bfloat16(), torch.bfloat16),
    (lambda m: m.to(torch.float64), torch.float64), (lambda m: m.to(torch.ones(1).double()), torch.float64),
    (lambda m: m.type(torch.float64), torch.float64),
]  # fmt: skip


@pytest.mark.parametrize(("convert", "dtype"), CONVERSIONS, ids=range(len(CONVERSIONS)))
def test_a_module_is_converted_with_its_gradients(convert: Callable[[Any], Any], dtype: Any) -> None:
    module = torch.nn.Linear(2, 1)
    module(torch.ones(1, 2)).sum().backward()
    weight, gradient = module.weight, module.weight.grad
    convert(module)
    assert module.weight is weight and weight.grad is gradient
    assert gradient is not None and gradient.dtype == dtype
    module(torch.ones(1, 2, dtype=dtype)).sum().backward()
    assert weight.grad is not None and weight.grad.dtype == dtype
    assert weight.grad.tolist() == [[2.0, 2.0]]


def test_modules_are_not_converted_to_integers() -> None:
    with pytest.raises(TypeError, match=r"only accepts floating point or complex dtypes, .* dtype=torch\.int64"):
        torch.nn.Linear(2, 1).to(torch.int64)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_embeddings_and_a_reduction(mode: str) -> None:
    layer = torch.nn.EmbeddingBag(6, 3, mode=mode, padding_idx=5)
    line, starts = torch.tensor([0, 1, 5, 2, 3, 3, 5]), torch.tensor([0, 3, 3, 6])
    found = layer(line, starts)
    whole = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "max": lambda x: x.max(0).values}[mode]
    nothing = torch.zeros(3)
    expected = torch.stack([whole(layer.weight[[0, 1]]), nothing, whole(layer.weight[[2, 3, 3]]), nothing])
    assert found.allclose(expected)
    slopes = [torch.autograd.grad((y**2).sum(), layer.weight)[0] for y in (found, expected)]
    assert slopes[0].allclose(slopes[1]) and not slopes[0][5].any()
    assert layer(torch.tensor([[0, 1], [5, 5]])).allclose(expected[:2])


def test_adaptive_windows_of_volumes() -> None:
    x = torch.arange(120.0).view(1, 2, 3, 4, 5).requires_grad_()
    assert torch.nn.AdaptiveAvgPool3d(1)(x).flatten().allclose(x.mean((2, 3, 4)).flatten())
    assert torch.nn.AdaptiveMaxPool3d((None, 1, 1))(x).flatten().allclose(x.amax((3, 4)).flatten())
    values, places = torch.nn.functional.adaptive_max_pool3d(x[0], 2, return_indices=True)
    assert x[0].flatten(1).gather(1, places.flatten(1)).allclose(values.flatten(1))
    (slope,) = torch.autograd.grad(torch.nn.functional.adaptive_avg_pool3d(x, (3, 2, 5)).sum(), x)
    assert slope.allclose(torch.full_like(x, 0.5))
