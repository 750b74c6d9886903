"""Messages of bad calls say what torch's say; tests/peers checks the classes too, against torch."""

from __future__ import annotations

import pytest

from tests.eager.torch_like import torch
from tests.peers.bad_calls import CALLS, error_of


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(("text", "phrase"), CALLS, ids=[text for text, _ in CALLS])
def test_bad_call(text: str, phrase: str) -> None:
    found = error_of(torch, text)
    assert found is not None and phrase in str(found), found
