"""The table of BLAS routines, found in two ways."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.driver import blas


@pytest.mark.parametrize("find", [blas._from_wheel, blas._from_capsules])
def test_routines_are_found_and_compute(find: object, rng: np.random.Generator) -> None:
    names = blas.routine_names()
    addresses = find(names)  # type: ignore[operator]
    if find is blas._from_wheel and not addresses:
        pytest.skip("this SciPy does not come from a wheel with its own OpenBLAS")
    assert set(addresses) == set(names)
    pointer = ctypes.c_void_p
    dgemm = ctypes.CFUNCTYPE(None, *[pointer] * 13)(addresses["dgemm"])
    a, b, c = (np.asfortranarray(rng.normal(size=shape)) for shape in ((3, 2), (2, 4), (3, 4)))
    m, n, k = ctypes.c_int(3), ctypes.c_int(4), ctypes.c_int(2)
    alpha, beta = ctypes.c_double(1.0), ctypes.c_double(0.0)
    rows, columns, inner, one, zero = (ctypes.addressof(v) for v in (m, n, k, alpha, beta))
    plain = ctypes.create_string_buffer(b"N")
    kept = ctypes.addressof(plain)
    dgemm(
        kept, kept, rows, columns, inner, one, a.ctypes.data, rows, b.ctypes.data, inner, zero, c.ctypes.data, rows
    )  # fmt: skip
    np.testing.assert_allclose(c, a @ b, rtol=1e-14)


def test_the_order_is_that_of_the_header() -> None:
    assert blas.routine_names() == ["dgemm", "sgemm", "zgemm", "cgemm"]
    table = ctypes.cast(blas.blas_table(), ctypes.POINTER(ctypes.c_void_p))
    addresses = blas._from_wheel(["dgemm", "cgemm"]) or blas._from_capsules(["dgemm", "cgemm"])
    assert table[0] == addresses["dgemm"] and table[3] == addresses["cgemm"]


@pytest.mark.parametrize(("dtype", "called"), [("f4", "sgemm"), ("f8", "dgemm"), ("c8", "cgemm"), ("c16", "zgemm")])
def test_a_text_declares_the_routine_that_it_calls(dtype: str, called: str, rng: np.random.Generator) -> None:
    def product(a: Any, b: Any) -> Any:
        return a @ b

    a, b = (rng.normal(size=shape).astype(dtype) for shape in ((40, 30), (30, 20)))
    made = tg.function(product, backend="c")
    text = made.source(a, b)
    for name in blas.routine_names():
        assert (f"(*{name})(void);" in text) == (name != called)
    assert "double" not in text or dtype in ("f8", "c16")
    np.testing.assert_allclose(made(a, b), a @ b, rtol=1e-4 if dtype in ("f4", "c8") else 1e-12)


def test_without_scipy_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(blas.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(blas.importlib, "import_module", fail)
    assert blas.blas_table.__wrapped__() == 0
