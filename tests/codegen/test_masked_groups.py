"""Elements that are read under a condition, a few side by side: gcc before 14 mixes them up when it makes vectors."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.codegen.c_library import avoid_masked_groups


def lagged_product(y):
    return np.sum(y[:-2] ** 2 * y[2:])


def padded(y):
    return np.sum(np.pad(y[:-2], ((2, 0), (0, 0))) ** 3)


def total_variation(image):
    u = image
    for _ in range(2):
        p = np.zeros_like(u)
        p[:, :-1] = u[:, 1:] - u[:, :-1]
        p = p / np.maximum(1, np.sqrt(p**2 + 0.1))
        d = p.copy()
        d[:, 1:] -= p[:, :-1]
        u = image + d
    return np.sum((u - image) ** 2)


def chosen_rows(y):
    return np.sum(np.where(y[1:] > 0.0, y[:-1], 2.0 * y[1:]) ** 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(14, 2), (5, 6), (13, 4)])
@pytest.mark.parametrize("function", [lagged_product, padded, total_variation, chosen_rows])
def test_gradients(function, shape, dtype, rng):
    y = rng.normal(size=shape).astype(dtype) * 3
    close = dict(rtol=1e-9, atol=1e-9) if dtype == np.float64 else dict(rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(tg.grad(function, backend="c")(y), tg.grad(function)(y), **close)


def test_complex_numbers(rng):
    z = rng.normal(size=(15, 2)) @ np.array([1, 1j])

    def far(z):
        return np.sum(np.abs(np.where(np.abs(z[1:]) > 1, 2 * z[:-1], z[1:])) ** 2)

    np.testing.assert_allclose(tg.grad(far, backend="c")(z), tg.grad(far)(z), rtol=1e-12)


@pytest.mark.parametrize(
    ("loop", "body", "guarded"),
    [
        ("for (int64_t i = 0; i < 14; i++) {", "y[2*i + 1] = i >= 2 ? t[2*i] : 0.0;", True),
        ("for (int64_t j = 0; j < 2; j++) {", "y[j] = k >= 2 ? t[j - 4] : 0.0;", True),
        ("for (int64_t j = i; j < i + 3; j++) {", "if (x[j] > 0.0) {\ny[j] = t[j];", True),
        ("for (int64_t j = 0; j < n; j++) {", "double complex u = m[j] ? z[j] : 0.0;", True),
        ("for (int64_t j = 0; j < 1000; j++) {", "y[j] = m[j] ? t[j] : 0.0;", False),
        ("for (int64_t j = 1; j < n1; j++) {", "y[j] = m[j] ? t[j] : 0.0;", False),
        ("for (int64_t j = 0; j < 4; j++) {", "y[j] = t[j]; /* y ? t[j] */", False),
        ("for (int64_t j = 0; j < 4; j++) {", "if (j >= n) {\n        return tg_fail();", False),
        ("for (int64_t j = 0; j < 14; j++) {", "y[2*j + 1] = t[2*j];", False),
    ],
)
def test_what_is_guarded(loop, body, guarded):
    text = f"    for (int64_t k = 0; k < n; k++) {{\n        {loop}\n            {body}"
    assert bool(avoid_masked_groups(text)) is guarded
