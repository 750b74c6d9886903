"""What every test shares: a private compile cache, and random numbers that depend on the test's name alone."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compile into an empty directory, so that no test passes thanks to an earlier run."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEGRAD_CACHE_DIR", str(directory))
        yield directory


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> int:
    """Seed the global generators from the test id; tests that want their own Generator use this number."""
    number = zlib.crc32(request.node.nodeid.encode())
    random.seed(number)
    np.random.seed(number)
    return number


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a generator seeded from the test id."""
    return np.random.default_rng(seed)
