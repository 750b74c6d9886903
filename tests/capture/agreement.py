"""Comparison of a program under capture with the same program in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad as tg
from tests.differences import central_differences


def check_agreement(program: Callable[..., Any], backend: str, *points: np.ndarray) -> None:
    """Compare value and gradient at each point with what Python gives and its differences."""
    compiled = tg.value_and_grad(program, backend=backend)
    for x in points:
        value, gradient = compiled(x.copy())
        np.testing.assert_allclose(value, program(x.copy()), rtol=1e-11)
        np.testing.assert_allclose(gradient, central_differences(program, x), rtol=1e-6, atol=1e-7)
