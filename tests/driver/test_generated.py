"""Kernels of the C generator through the launcher: sizes, workspaces, faults, BLAS."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad.ops  # fills the op table  # noqa: F401
from tracegrad.codegen.c_source import emit_c
from tracegrad.driver.blas import blas_table, routine_names
from tracegrad.driver.launch import ExecutableSpec
from tracegrad.ir.parser import parse_function
from tracegrad.runtime.signature import Leaf, Tree
from tracegrad.transform.vjp import gradient

Build = Callable[..., Any]


def compile_ir(build: Build, text: str, wrt: tuple[int, ...] = ()) -> Any:
    """Return an Executable of an IR function, or of its gradient."""
    function = parse_function(text)
    if wrt:
        function = gradient(function, wrt, 0, keep_primal=True)
    code = emit_c(function)
    inputs = tuple(Leaf(p.array_type) for p in function.params)
    results = tuple(r.array_type for r in function.results)
    spec = ExecutableSpec(
        names=tuple(f"x{i}" for i in range(len(inputs))),
        arguments=tuple(Tree("leaf", i, ()) for i in range(len(inputs))),
        inputs=inputs,
        results=results,
        result=Tree("tuple", None, tuple(Tree("leaf", i, ()) for i in range(len(results)))),
    )
    assert list(code.sizes) == spec.symbols()
    return build(spec, code.text, code.name)


def test_sizes_are_symbols(build: Build) -> None:
    call = compile_ir(
        build,
        """
        func @outer(%x: f64[n], %y: f64[m]) -> (f64[n,m]) {
          %z: f64[n,m] = dot_general %x, %y {contract=((), ()), batch=((), ())}
          return %z
        }
        """,
    )
    for n, m in ((3, 2), (1, 5), (0, 4), (7, 0)):
        x, y = np.arange(n) + 1.0, np.arange(m) + 2.0
        np.testing.assert_array_equal(call(x, y)[0], np.outer(x, y))


def test_faults_have_a_line(build: Build) -> None:
    call = compile_ir(
        build,
        """
        func @take(%x: f64[n], %i: i64[]) -> (f64[]) {
          %y: f64[] = gather %x, %i {axes=(0,)}  // model.py:12:9
          return %y
        }
        """,
    )
    x = np.arange(4.0)
    assert [float(call(x, np.int64(i))[0]) for i in (0, 3, -1, -4)] == [0, 3, 3, 0]
    for i in (4, -5):
        with pytest.raises(IndexError, match=rf"index {i} is out of bounds .* size 4\n  --> model\.py:12"):
            call(x, np.int64(i))
    assert float(call(x, np.int64(2))[0]) == 2.0, "a fault spoils nothing"


LOOP = """
func @power(%x: f64[n], %limit: f64[]) -> (f64[]) {
  %axis: f64[] = reduce_sum %x {axes=(0,)}
  %s: f64[] = while %axis (%c: f64[]) {
    %more: bool[] = less %c, %limit
    yield %more
  } (%d: f64[]) {
    %e: f64[] = multiply %d, %d
    yield %e
  }
  return %s
}
"""


def test_stacks_grow_and_are_released(build: Build) -> None:
    call = compile_ir(build, LOOP, wrt=(0,))
    for limit in (10.0, 1e300, 10.0):
        value, gradient_x = call(np.array([1.0, 0.5]), np.float64(limit))
        expected, slope = 1.5, 1.0
        while expected < limit:
            slope *= 2 * expected
            expected *= expected
        assert value == expected
        np.testing.assert_allclose(gradient_x, [slope, slope], rtol=1e-15)
    del call
    gc.collect()


@pytest.mark.parametrize("n", [3, 60])
def test_matrix_products_use_blas(build: Build, n: int, rng: np.random.Generator) -> None:
    assert "dgemm" in routine_names() and blas_table() != 0
    call = compile_ir(
        build,
        f"""
        func @product(%x: f64[{n},{n + 1}], %y: f64[{n + 1},{n + 2}]) -> (f64[{n},{n + 2}]) {{
          %z: f64[{n},{n + 2}] = dot_general %x, %y {{contract=((1,), (0,)), batch=((), ())}}
          return %z
        }}
        """,
    )
    x, y = rng.normal(size=(n, n + 1)), rng.normal(size=(n + 1, n + 2))
    np.testing.assert_allclose(call(x, y)[0], x @ y, rtol=1e-13, atol=1e-13)
