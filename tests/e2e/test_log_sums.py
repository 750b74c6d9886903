"""Sums of exponentials in logarithms where all terms are zero: forbidden transitions, states that are not reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.testing import check_grads

INF = np.inf


def forward(a, x):
    """Log-likelihood of a chain that only stays or goes one state up; the later states are reached late or never."""
    n = len(a)
    A = np.full((n, n), -np.inf)
    A[range(n), range(n)] = a
    A[range(n - 1), range(1, n)] = -a[:-1]
    logs = np.where(np.arange(n) == 0, 0.0, -np.inf)
    for xt in x:
        logs = np.logaddexp.reduce(logs[:, None] + A, axis=0) - 0.5 * (xt - np.arange(n)) ** 2
    return np.logaddexp.reduce(logs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [1, 3, 9])
def test_states_that_are_not_reached(steps: int, backend: str) -> None:
    a, x = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.linspace(0.5, 2.0, steps)
    check_grads(forward, a, x, backends=[backend])
    gradient = tg.grad(forward, backend=backend)
    step = 1e-5
    expected = np.array([(gradient(a + e, x) - gradient(a - e, x)) / (2 * step) for e in step * np.eye(5)])
    np.testing.assert_allclose(tg.hessian(forward, backend=backend)(a, x), expected, atol=1e-8)


CASES: list[tuple[Any, Any, Any]] = [
    (lambda z: np.logaddexp.reduce(z), [-INF, -INF], [0.5, 0.5]),
    (lambda z: np.logaddexp.reduce(z), [-INF, 1.0, 1.0], [0.0, 0.5, 0.5]),
    (lambda z: logsumexp(z), [-INF, -INF, -INF, -INF], [0.25, 0.25, 0.25, 0.25]),
    (lambda z: logsumexp(z, b=np.array([1.0, 3.0])), [-INF, -INF], [0.5, 0.5]),
    (lambda z: logsumexp(z, b=np.array([1.0, 3.0])), [0.0, 0.0], [0.25, 0.75]),
    (lambda z: logsumexp(z, axis=(0, 1)), [[-INF, -INF], [-INF, -INF]], [[0.25, 0.25], [0.25, 0.25]]),
    (
        lambda z: np.sum(np.logaddexp.reduce(z, axis=1, keepdims=True) * np.array([[2.0], [3.0]])),
        [[-INF, -INF], [0.0, -INF]],
        [[1.0, 1.0], [3.0, 0.0]],
    ),
    (lambda z: np.sum(np.logaddexp.accumulate(z)), [-INF, -INF, 0.0], [1.5, 0.5, 1.0]),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "at", "expected"), CASES)
def test_equal_shares(function: Any, at: Any, expected: Any, backend: str) -> None:
    value, found = tg.value_and_grad(function, backend=backend)(np.array(at))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(value, function(np.array(at)))
    np.testing.assert_allclose(found, expected, rtol=1e-15)
