"""Fourier transforms in C against NumPy's: lengths of every kind of factor, axes, factors, sizes known at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad.ops  # noqa: F401  fills the table
from tests.codegen.c_harness import Kernel
from tracegrad.ir.core import Function
from tracegrad.ir.parser import parse_function

#: powers of two and four, small odd factors, and primes of 50 and more, which go by chirps
LENGTHS = (*range(1, 28), 49, 64, 97, 105, 128, 206, 509, 512, 1000, 1018, 2187)


def transform(op: str, given: str, made: str, attrs: str) -> Function:
    return parse_function(f"func @f(%x: {given}) -> ({made}) {{\n  %y: {made} = {op} %x {{{attrs}}}\n  return %y\n}}")


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@pytest.mark.parametrize(("short", "tolerance"), [("c128", 2e-15), ("c64", 6e-7)])
@pytest.mark.parametrize("op", ["fft", "ifft"])
def test_every_length(op: str, short: str, tolerance: float, rng: np.random.Generator) -> None:
    kernel = Kernel(transform(op, f"{short}[n]", f"{short}[n]", "axes=(0,), norm='ortho'"))
    for n in LENGTHS:
        x = numbers(rng, n)
        expected = getattr(np.fft, op)(x, norm="ortho")
        error = np.linalg.norm(kernel(x)[0] - expected) / np.linalg.norm(expected)
        assert error < tolerance, (n, error)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 53, 106])
def test_half_transforms(n: int, rng: np.random.Generator) -> None:
    real, half = rng.normal(size=n), numbers(rng, n // 2 + 1)
    forward = Kernel(transform("rfft", f"f64[{n}]", f"c128[{n // 2 + 1}]", "axis=0, norm='backward'"))
    np.testing.assert_allclose(forward(real)[0], np.fft.rfft(real), rtol=1e-13, atol=1e-13)
    inverse = Kernel(transform("irfft", f"c128[{n // 2 + 1}]", f"f64[{n}]", f"count={n}, axis=0, norm='backward'"))
    np.testing.assert_allclose(inverse(half)[0], np.fft.irfft(half, n), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0,), (1,)])
def test_axes_of_more_than_a_few_elements(axes: tuple[int, ...], rng: np.random.Generator) -> None:
    x = numbers(rng, 12, 59)
    kernel = Kernel(transform("fft", "c128[12,59]", "c128[12,59]", f"axes={axes}, norm='forward'"))
    np.testing.assert_allclose(kernel(x)[0], np.fft.fftn(x, axes=axes, norm="forward"), rtol=1e-13, atol=1e-14)
