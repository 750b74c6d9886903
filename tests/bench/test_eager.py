"""The contestants of the eager benchmark compute the same."""

from __future__ import annotations

import numpy as np

from tests.bench.eager import contestants


def test_all_compute_the_same() -> None:
    steps = contestants()
    expected = steps.pop("NumPy by hand")()
    for step in steps.values():
        for a, b in zip(step(), expected, strict=True):
            np.testing.assert_allclose(np.asarray(a).reshape(np.shape(b)), b, rtol=2e-4, atol=1e-5)
