"""The generator of random tensors depends on the test's name alone."""

from __future__ import annotations

import pytest

import tracegrad as tg


@pytest.fixture(autouse=True)
def tensor_seed(seed: int) -> None:
    """Seed the generator of tensors."""
    tg.manual_seed(seed)
