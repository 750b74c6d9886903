"""The C backend against the interpreter: every op of the table, then programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tracegrad.ops  # noqa: F401  fills the table
from tests.codegen.c_harness import Kernel
from tracegrad.codegen import c_elements, c_source
from tracegrad.codegen.c_expression import CTYPES
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Value
from tracegrad.ir.opdef import BY_TRANSFORM, TABLE, OpDef, interpreter
from tracegrad.ir.types import ArrayType
from tracegrad.testing.interpret import interpret
from tracegrad.testing.rules import Case, cases

OPS = sorted(name for name, op in TABLE.items() if op.marker is not BY_TRANSFORM and name != "print")


def supported(case: Case) -> bool:
    types = [ArrayType(x.dtype, x.shape) for x in case.operands]
    types += case.op.infer(*types, **case.attrs)
    return all(t.dtype in CTYPES for t in types)


def sample_cases(op: OpDef) -> Iterator[Case]:
    for dtype in ("f64", "f32"):
        yield from (c for c in cases(op, dtype) if supported(c))


def program_of(some: list[Case]) -> tuple[Function, list[Any]]:
    """Return one function that applies the op to the operands of all cases."""
    function = Function("kernel")
    builder = Builder(function.body)
    arrays: list[Any] = []
    with interpreter(builder):
        for case in some:
            params = [Value(ArrayType(x.dtype, x.shape), "") for x in case.operands]
            function.body.params += params
            arrays += case.operands
            results = case.op(*params, **case.attrs)
            function.body.yields += results if isinstance(results, tuple) else [results]
    return function, arrays


def assert_agree(
    function: Function, *arrays: Any, kernel: Kernel | None = None, scale: float = 1.0, **options: Any
) -> Kernel:
    """Check the C text against the interpreter; return the kernel."""
    kernel = kernel or Kernel(function, **options)
    with np.errstate(all="ignore"):
        expected = interpret(function, *arrays)
    found = kernel(*arrays)
    again = kernel(*arrays)
    for k, (a, b, c) in enumerate(zip(found, expected, again, strict=True)):
        b = np.asarray(b)
        tolerance = scale * (2e-5 if b.dtype == np.float32 else 1e-12)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"result {k}\n{kernel.source.text}")
        np.testing.assert_array_equal(a, c, err_msg=f"result {k} differs in a second call")
    return kernel


@pytest.mark.parametrize("small", [16, 0])
@pytest.mark.parametrize("name", [o for o in OPS if o != "undefined"])
def test_every_op(name: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_elements, "SMALL", small)
    some = list(sample_cases(TABLE[name]))
    if not some:
        with pytest.raises(Exception, match="C backend"):
            c_source.emit_c(program_of(list(cases(TABLE[name])))[0])
        return
    function, arrays = program_of(some)
    assert_agree(function, *arrays, flags=("-O1",))
