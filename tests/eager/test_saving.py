"""States in files, and the state of the generator."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.eager.torch_like import torch
from tracegrad.runtime import saving
from tracegrad.runtime.tensor import Storage


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


def saved_and_loaded(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


WAYS: list[Callable[[Any], Any]] = [
    copy.deepcopy, saved_and_loaded, lambda value: pickle.loads(pickle.dumps(value)),
]  # fmt: skip


@pytest.mark.parametrize("copied", WAYS, ids=["deepcopy", "save", "pickle"])
def test_copies_share_memory_as_the_tensors_do(copied: Callable[[Any], Any]) -> None:
    a = torch.arange(6.0)
    again = copied({"a": a, "part": a[1:3], "turned": a.view(2, 3).t(), "same": a, "other": a.clone()})
    again["a"][1] = 50.0
    again["turned"][2, 1] = 70.0
    assert again["same"] is again["a"]
    assert again["a"].tolist() == [0.0, 50.0, 2.0, 3.0, 4.0, 70.0]
    assert again["part"].tolist() == [50.0, 2.0] and again["part"].storage_offset() == 1
    assert again["turned"].stride() == (1, 3) and again["turned"].tolist() == [[0.0, 3.0], [50.0, 4.0], [2.0, 70.0]]
    assert again["other"].tolist() == a.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    base = torch.arange(24.0).view(2, 3, 4).permute(1, 2, 0) * 1  # in memory neither by rows nor by columns
    first, second = copied([base, base[1]])
    second.zero_()
    assert (
        first.stride() == base.stride() and first[1].abs().sum().item() == 0 and first[2].tolist() == base[2].tolist()
    )
    backwards, own = copied([torch.from_numpy(np.arange(4.0)[::-1].copy()[::2]), torch.tensor(3.0)])
    assert backwards.tolist() == [3.0, 1.0] and own.item() == 3.0


@pytest.mark.parametrize("copied", WAYS, ids=["deepcopy", "save", "pickle"])
def test_a_write_into_a_copy_is_seen_by_the_graph_of_another(copied: Callable[[Any], Any]) -> None:
    x = torch.ones(3)
    x, part = copied([x, x[1:]])
    x.requires_grad_()
    y = (x * x).sum()
    part.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_what_is_copied_of_parameters_and_gradients() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    own, data = copy.deepcopy([parameter, parameter.detach()])
    data.zero_()
    assert own.tolist() == [1.0, 1.0, 1.0]
    loaded, data = saved_and_loaded([parameter, parameter.detach()])
    data.zero_()
    assert isinstance(loaded, torch.nn.Parameter) and loaded.tolist() == [0.0, 0.0, 0.0]
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.ones(2)
    again, gradient = copy.deepcopy([x, x.grad])
    assert again.grad is gradient and gradient is not x.grad
    module = torch.nn.Linear(2, 2)
    module.register_buffer("row", module.weight.data[0])
    module = pickle.loads(pickle.dumps(module))
    module.weight.data.fill_(3.0)
    assert module.row.tolist() == [3.0, 3.0]


def test_copy_copy_shares_memory() -> None:
    x = torch.ones(3)
    copy.copy(x)[0] = 5.0
    assert x.tolist() == [5.0, 1.0, 1.0]


def test_results_and_attributes_are_pickled() -> None:
    x = torch.ones(2, requires_grad=True)
    result = x * 2
    result.name_of_mine = "y"
    for again in (saved_and_loaded(result), pickle.loads(pickle.dumps(result))):
        assert again.tolist() == [2.0, 2.0] and again.is_leaf and again.requires_grad and again.name_of_mine == "y"
    y = torch.ones(2, 3)
    y.t_()
    assert saved_and_loaded(y).stride() == (1, 3)


def test_a_file_cannot_name_memory_that_is_not_its_own() -> None:
    for dtype, offset in ((np.dtype(object), 0), (np.dtype(float), 8), (np.dtype(float), -8)):
        memory = saving._Memory(np.zeros(8, np.uint8))
        with pytest.raises((TypeError, ValueError)):
            saving._restored(torch.Tensor, False, memory, Storage(), dtype, (1,), offset, (8,))
