"""Messages of bad calls say what torch's say; tests/peers checks the classes too, against torch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.eager.torch_like import torch
from tests.peers.bad_calls import CALLS, error_of


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(("text", "phrase"), CALLS, ids=[text for text, _ in CALLS])
def test_bad_call(text: str, phrase: str) -> None:
    found = error_of(torch, text)
    assert found is not None and phrase in str(found), found


_PLACED = (
    "T.ones(1, device={})", "T.tensor(1.0, device={})", "T.randn(2, device={})", "T.zeros_like(m, device={})",
    "m.new_ones(2, device={})", "m.to(device={})", "m.to({})", "T.nn.Linear(2, 2).to({})",
    "T.nn.Linear(2, 2).to(device={})",
)  # fmt: skip


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "meta"])
@pytest.mark.parametrize("text", _PLACED)
def test_devices_that_there_are_not(text: str, device: str) -> None:
    for form in ("'{}'", "T.device('{}')"):
        assert error_of(torch, text.format(form.format("cpu"))) is None
        found = error_of(torch, text.format(form.format(device)))
        assert isinstance(found, RuntimeError) and f"there is no device '{device}'" in str(found)
    assert "there is no device 'cuda'" in str(error_of(torch, "T.nn.Linear(2, 2).cuda()"))


def test_operators_take_arrays() -> None:
    x, a = torch.ones(2, requires_grad=True), np.array([2.0, 3.0])
    for made in (x * a, a * x):
        assert made.tolist() == [2.0, 3.0] and made.requires_grad
    assert (a - x).tolist() == [1.0, 2.0] and (x**a).tolist() == [1.0, 1.0] and (x / a).dtype == torch.float64
    y = torch.ones(2)
    y += a
    assert y.tolist() == [3.0, 4.0]


def test_errors_of_users_are_left_alone() -> None:
    with pytest.raises(AttributeError, match="'int' object has no attribute 'shape'"):
        torch.ones(2).apply_(lambda x: (3).shape)
