"""The contestants of the eager benchmark compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.bench.eager import PROGRAMS, contestants


@pytest.mark.parametrize(("name", "program", "others"), PROGRAMS, ids=[p[0] for p in PROGRAMS])
def test_all_compute_the_same(name: str, program: Any, others: Any) -> None:
    steps = contestants(program, others)
    expected = steps.pop("tracegrad")()
    for step in steps.values():
        for a, b in zip(step(), expected, strict=True):
            b = np.asarray(b)
            np.testing.assert_allclose(np.asarray(a).reshape(b.shape), b, rtol=2e-4, atol=1e-5)
