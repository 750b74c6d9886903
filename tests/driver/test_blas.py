"""The table of BLAS and LAPACK routines, found in two ways."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tracegrad.driver import blas


@pytest.mark.parametrize("find", [blas._from_wheel, blas._from_capsules])
def test_routines_are_found_and_compute(find: object, rng: np.random.Generator) -> None:
    names = blas.routine_names()
    addresses = find(names)  # type: ignore[operator]
    if find is blas._from_wheel and not addresses:
        pytest.skip("this SciPy does not come from a wheel with its own OpenBLAS")
    assert set(addresses) == set(names)
    pointer = ctypes.c_void_p
    dgemv = ctypes.CFUNCTYPE(None, *[pointer] * 11)(addresses["dgemv"])
    a, x, y = np.asfortranarray(rng.normal(size=(3, 2))), rng.normal(size=2), np.zeros(3)
    m, n, one = ctypes.c_int(3), ctypes.c_int(2), ctypes.c_int(1)
    alpha, beta = ctypes.c_double(1.0), ctypes.c_double(0.0)
    where = [ctypes.addressof(v) for v in (m, n, alpha, beta, one)]
    transpose = ctypes.create_string_buffer(b"N")
    dgemv(
        ctypes.addressof(transpose), where[0], where[1], where[2], a.ctypes.data, where[0], x.ctypes.data, where[4],
        where[3], y.ctypes.data, where[4],
    )  # fmt: skip
    np.testing.assert_allclose(y, a @ x, rtol=1e-14)


def test_the_order_is_that_of_the_header() -> None:
    assert blas.routine_names()[:4] == ["dgemm", "sgemm", "dgemv", "sgemv"]
    table = ctypes.cast(blas.blas_table(), ctypes.POINTER(ctypes.c_void_p))
    addresses = blas._from_wheel(["dgemm", "dgetrf"]) or blas._from_capsules(["dgemm", "dgetrf"])
    assert table[0] == addresses["dgemm"] and table[blas.routine_names().index("dgetrf")] == addresses["dgetrf"]


def test_without_scipy_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(blas.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(blas.importlib, "import_module", fail)
    assert blas.blas_table.__wrapped__() == 0
