"""Factorizations in C: what their factors must satisfy, for matrices of many kinds, in both precisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tracegrad.ops  # noqa: F401  fills the table
from tests.codegen.c_harness import Kernel, KernelFault
from tracegrad.ir.core import Function
from tracegrad.ir.parser import parse_function

DTYPES = ("f64", "f32")
NAMES = {"f64": np.float64, "f32": np.float32}


def kernel_of(text: str) -> Kernel:
    return Kernel(parse_function(text))


def matrices(rng: np.random.Generator, m: int, n: int) -> Iterator[np.ndarray]:
    """Yield matrices: ordinary, of low rank, zero, repeated values, huge, tiny, graded, with zero columns."""
    a = rng.normal(size=(m, n))
    yield a
    yield rng.normal(size=(m, 1)) @ rng.normal(size=(1, n))
    yield np.zeros((m, n))
    yield np.eye(m, n)
    yield a * 1e30
    yield a * 1e-30
    yield a * 10.0 ** -np.arange(0, 2 * n, 2)
    yield np.where(np.arange(n) % 2, a, 0.0)
    yield np.ones((m, n))


def assert_factors(name: str, found: np.ndarray, expected: np.ndarray, scale: float = 1.0) -> None:
    resolution = float(np.finfo(found.dtype).eps)
    size = max(found.shape[-1], 1)
    assert np.all(np.abs(found - expected) <= 50 * size * resolution * scale), (name, found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues(dtype: str) -> None:
    kernel = kernel_of(f"""func @f(%a: {dtype}[n,n]) -> ({dtype}[n], {dtype}[n,n]) {{
      %w: {dtype}[n], %v: {dtype}[n,n] = eigh %a {{lower=True}}
      return %w, %v
    }}""")
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 30, 80):
        for general in matrices(rng, n, n):
            a = np.asarray(general + general.T, NAMES[dtype])
            w, v = kernel(np.tril(a))
            scale = float(np.abs(a).max())
            assert_factors("ordered", np.sort(w), w)
            assert_factors("orthogonal", v.T @ v, np.eye(n, dtype=a.dtype))
            assert_factors("product", (v * w) @ v.T, a, scale)
            assert_factors("values", w, np.linalg.eigvalsh(a), scale)


SHAPES = {0: ((1, 1), (3, 3), (40, 40)), 1: ((5, 2), (60, 7), (6, 1)), -1: ((2, 5), (7, 60), (1, 6))}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("excess", SHAPES)
def test_singular_values(dtype: str, full: bool, excess: int) -> None:
    rows, columns = ("m", "m") if excess == 0 else ("m", "n")
    smaller = rows if excess < 0 else columns
    u_type = f"{dtype}[{rows},{rows if full else smaller}]"
    v_type = f"{dtype}[{columns if full else smaller},{columns}]"
    kernel = kernel_of(f"""func @f(%a: {dtype}[{rows},{columns}]) -> ({u_type}, {dtype}[{smaller}], {v_type}) {{
      %u: {u_type}, %s: {dtype}[{smaller}], %v: {v_type} = svd %a {{full_matrices={full}, excess={excess}}}
      return %u, %s, %v
    }}""")
    rng = np.random.default_rng(1)
    for m, n in SHAPES[excess]:
        k = min(m, n)
        for general in matrices(rng, m, n):
            a = np.asarray(general, NAMES[dtype])
            u, s, vh = kernel(a)
            scale = float(np.abs(a).max())
            assert np.all(s[1:] <= s[:-1]) and np.all(s >= 0)
            assert_factors("left", u.T @ u, np.eye(u.shape[1], dtype=a.dtype), max(m, n))
            assert_factors("right", vh @ vh.T, np.eye(len(vh), dtype=a.dtype), max(m, n))
            assert_factors("product", (u[:, :k] * s) @ vh[:k], a, scale * max(m, n))
            assert_factors("values", s, np.linalg.svd(a, compute_uv=False), scale * max(m, n))


@pytest.mark.parametrize("dtype", DTYPES)
def test_qr_is_that_of_lapack(dtype: str) -> None:
    kernel = kernel_of(f"""func @f(%a: {dtype}[m,n]) -> ({dtype}[m,n], {dtype}[n,n]) {{
      %q: {dtype}[m,n], %r: {dtype}[n,n] = qr %a
      return %q, %r
    }}""")
    rng = np.random.default_rng(2)
    for m, n in ((3, 3), (5, 2), (40, 30), (60, 7), (6, 1)):
        for kind, general in enumerate(matrices(rng, m, n)):
            a = np.asarray(general, NAMES[dtype])
            q, r = kernel(a)
            scale = float(np.abs(a).max()) * m
            assert np.array_equal(r, np.triu(r))
            assert_factors("orthogonal", q.T @ q, np.eye(n, dtype=a.dtype), m)
            assert_factors("product", q @ r, a, scale)
            if kind in (0, 4, 5):
                expected_q, expected_r = np.linalg.qr(a)
                assert_factors("q", q, expected_q, 1e3)
                assert_factors("r", r, expected_r, scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pseudoinverse(dtype: str) -> None:
    kernel = kernel_of(f"""func @f(%a: {dtype}[m,n]) -> ({dtype}[n,m]) {{
      %c: f64[] = constant {{value=1e-05}}
      %p: {dtype}[n,m] = pinv %a, %c
      return %p
    }}""")
    rng = np.random.default_rng(3)
    for m, n in ((3, 3), (5, 2), (2, 5), (20, 12)):
        for kind, general in enumerate(matrices(rng, m, n)):
            if kind == 6:
                continue  # values beside the cutoff
            a = np.asarray(general, NAMES[dtype])
            (p,) = kernel(a)
            expected = np.linalg.pinv(a, 1e-5)
            assert_factors("pinv", p, expected, 100 * float(np.abs(expected).max()))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite(bad: float) -> None:
    a: Any = np.array([[1.0, 2.0], [bad, 4.0]])
    eigh = kernel_of("""func @f(%a: f64[2,2]) -> (f64[2]) {
      %w: f64[2], %v: f64[2,2] = eigh %a {lower=True}
      return %w
    }""")
    assert np.isnan(eigh(a)).all()
    svd = kernel_of("""func @f(%a: f64[2,2]) -> (f64[2]) {
      %u: f64[2,2], %s: f64[2], %v: f64[2,2] = svd %a {full_matrices=False, excess=0}
      return %s
    }""")
    with pytest.raises(KernelFault, match="SVD did not converge"):
        svd(a)


def test_sizes_of_zero() -> None:
    function: Function = parse_function("""func @f(%a: f64[m,n]) -> (f64[m,n], f64[n], f64[n,n]) {
      %u: f64[m,n], %s: f64[n], %v: f64[n,n] = svd %a {full_matrices=False, excess=1}
      return %u, %s, %v
    }""")
    assert [x.shape for x in Kernel(function)(np.zeros((3, 0)))] == [(3, 0), (0,), (0, 0)]
