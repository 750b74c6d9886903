"""What every test shares: a private compile cache, and random numbers that depend on the test's name alone."""

from __future__ import annotations

import gc
import os
import random
import shutil
import tempfile
import zlib

import numpy as np
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Compile into an empty directory, so that no test passes thanks to an earlier run; workers share it.

    Processes that tests start keep Python's bytecode there too, and need not compile tracegrad each time.
    Tracebacks show all frames, for who reads a failure.
    """
    if not hasattr(config, "workerinput"):
        directory = tempfile.mkdtemp(prefix="tracegrad-tests-")
        os.environ["TRACEGRAD_CACHE_DIR"] = os.path.join(directory, "cache")
        os.environ["TRACEGRAD_TRACEBACK"] = "full"
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(directory, "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of garbage collections, and have fewer: it is much, and it stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


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
