"""What steps of optimizers and conversions of modules leave behind."""

from __future__ import annotations

import numpy as np

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
