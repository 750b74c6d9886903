"""Comparison of a program under capture with the same program in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad as tg
from tests.differences import central_differences

#: five numbers: of both signs, negative only, positive only
POINTS = (
    np.array([0.31, 1.82, -0.93, 0.454, 2.21]),
    np.array([-1.05, -7.1, -3.2, -0.23, -0.12]),
    np.array([2.53, 1.51, 0.52, 3.54, 0.253]),
)


class Programs(list[Callable[[Any], Any]]):
    """The programs of a file, which decorates them with this."""

    def __call__(self, program: Callable[[Any], Any]) -> Callable[[Any], Any]:
        self.append(program)
        return program


def check_agreement(program: Callable[..., Any], backend: str, *points: np.ndarray) -> None:
    """Compare value and gradient at each point with what Python gives and its differences."""
    compiled = tg.value_and_grad(program, backend=backend)
    for x in points:
        value, gradient = compiled(x.copy())
        np.testing.assert_allclose(value, program(x.copy()), rtol=1e-11)
        np.testing.assert_allclose(gradient, central_differences(program, x), rtol=1e-6, atol=1e-7)
