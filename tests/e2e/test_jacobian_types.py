"""The dtype and the convention of a Jacobian do not depend on the mode by which it is computed, nor on the backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS

MODES = (tg.jacfwd, tg.jacrev, tg.jacobian)
SINGLE = np.array([1.5, 2.0, 0.5], np.float32)
DOUBLE = np.array([1.0, 2.0, 3.0])
REAL = np.array([1.0, 2.0])
COMPLEX = np.array([1.0 + 1.0j, 2.0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_precision(mode: Callable[..., Any], backend: str) -> None:
    by_single, by_double = mode(lambda a, c: a * c, argnums=(0, 1), backend=backend)(SINGLE, DOUBLE)
    assert (by_single.dtype, by_double.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(by_single, np.diag(DOUBLE))
    np.testing.assert_array_equal(by_double, np.diag(SINGLE))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_result_of_less_precision(mode: Callable[..., Any], backend: str) -> None:
    x = np.linspace(1.0, 2.0, 300)
    rows = mode(lambda x: (x * x).astype(np.float32), backend=backend)(x)
    assert rows.dtype == np.float64
    np.testing.assert_allclose(rows, np.diag(2 * x), rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_dict_of_both(mode: Callable[..., Any], backend: str) -> None:
    params = {"w": SINGLE, "b": DOUBLE}
    rows = mode(lambda p: np.array([np.sum(p["w"] * p["b"]), p["b"][0]]), backend=backend)(params)
    assert (rows["w"].dtype, rows["b"].dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(rows["w"], [DOUBLE, [0, 0, 0]])
    np.testing.assert_array_equal(rows["b"], [SINGLE, [1, 0, 0]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_hessian(backend: str) -> None:
    blocks = tg.hessian(lambda a, c: np.sum(a * c * c), argnums=(0, 1), backend=backend)(SINGLE, DOUBLE)
    assert [[block.dtype for block in row] for row in blocks] == [[np.float32, np.float64]] * 2
    np.testing.assert_array_equal(blocks[0][1], np.diag(2 * DOUBLE))
    np.testing.assert_array_equal(blocks[1][0], np.diag(2 * DOUBLE))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
def test_complex(mode: Callable[..., Any], backend: str) -> None:
    cases: list[tuple[Callable[..., Any], Any, Any]] = [
        (lambda x: x * (1 + 2j), REAL, np.full(2, 1 + 2j)),
        (lambda z: z * z, COMPLEX, 2 * COMPLEX),
        (lambda z: np.abs(z) ** 2, COMPLEX, 2 * COMPLEX),
        (lambda z: z.imag, COMPLEX, np.full(2, 1j)),
    ]
    for f, x, diagonal in cases:
        rows = mode(f, backend=backend)(x)
        assert rows.dtype == np.complex128
        np.testing.assert_allclose(rows, np.diag(diagonal), atol=1e-15)


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("jacobian", [tg.jacobian, tg.jacfwd, tg.jacrev])
def test_results_without_a_derivative(jacobian: Any, backend: str) -> None:
    for f in (lambda x: np.argmax(x), lambda x: (x > 0, {"n": np.argmin(x)}), lambda x: ("text", None)):
        with pytest.raises(tg.errors.ArgumentTypeError, match="TG202"):
            jacobian(f, backend=backend)(np.ones(2))
    found = jacobian(lambda x: {"best": np.argmax(x), "twice": 2 * x, "kind": "text"}, backend=backend)(np.ones(2))
    assert found["best"] is None
    assert found["kind"] is None
    np.testing.assert_array_equal(found["twice"], 2 * np.eye(2))
