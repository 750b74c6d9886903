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


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "meta"])
@pytest.mark.parametrize("text", ["T.ones(1", "T.tensor(1.0", "T.randn(2", "T.zeros_like(m", "m.new_ones(2", "m.to("])
def test_devices_that_there_are_not(text: str, device: str) -> None:
    joined = text if text.endswith("(") else f"{text}, "
    assert error_of(torch, f"{joined}device='cpu')") is None
    found = error_of(torch, f"{joined}device='{device}')")
    assert isinstance(found, RuntimeError) and f"there is no device '{device}'" in str(found)


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
