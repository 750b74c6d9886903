"""States in files, and the state of the generator."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.eager.torch_like import torch


def test_states_come_back(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "half": torch.ones(2).bfloat16(),
    }
    torch.save(state, tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt")
    assert loaded["epoch"] == 3 and loaded["half"].dtype == torch.bfloat16
    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    assert str(other.load_state_dict(loaded["model"])) == "<All keys matched successfully>"
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(loaded["optimizer"])
    assert float(again.state[other[0].weight]["step"]) == 1.0


def test_parameters_keep_their_class_and_flag() -> None:
    file = io.BytesIO()
    torch.save([torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)], file)
    file.seek(0)
    parameter, leaf = torch.load(file)
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad and leaf.requires_grad


def test_code_is_not_loaded() -> None:
    file = io.BytesIO()
    torch.save(torch.nn.Linear(2, 2), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file)
    file.seek(0)
    assert isinstance(torch.load(file, weights_only=False), torch.nn.Linear)


def test_state_of_the_generator() -> None:
    torch.manual_seed(3)
    torch.randn(5)
    state = torch.get_rng_state()
    first = torch.randn(4)
    torch.set_rng_state(state)
    assert state.dtype == torch.uint8 and torch.equal(torch.randn(4), first)
