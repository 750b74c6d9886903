"""The NumPy text of records is what a person would write."""

import ml_dtypes
import numpy as np
import pytest

from tracegrad.ir.core import Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import DTYPES, F64, I64, array_type, symbol
from tracegrad.ops.text import bind_operands, numpy_text, scalar_text

N = symbol("n")


def text(name, *types, **attrs):
    kinds = [array_type(t) for t in types]
    results = list(TABLE[name].infer(*kinds, **attrs))
    return numpy_text(Operation(name, [Value(k) for k in kinds], attrs, [], results), "xyzuvw"[: len(kinds)])


@pytest.mark.parametrize(
    ("expected", "name", "types", "attrs"),
    [
        ("x + y", "add", ("f64[2]", "f64[2]"), {}),
        ("x ** 2", "square", ("f64[2]",), {}),
        ("np.where(x, y, z)", "select", ("bool[2]", "f64[2]", "f64[2]"), {}),
        ("x.astype(np.float32)", "cast", ("f64[2]",), {"dtype": DTYPES["f32"]}),
        ("np.float64(x)", "cast", ("i64[]",), {"dtype": F64}),
        ("x.astype(bool)", "cast", ("f64[2]",), {"dtype": DTYPES["bool"]}),
        ("np.sum(x)", "reduce_sum", ("f64[2,3]",), {"axes": (0, 1)}),
        ("np.sum(x, axis=1)", "reduce_sum", ("f64[2,3]",), {"axes": (1,)}),
        ("np.sum(x, axis=(0, 2))", "reduce_sum", ("f64[2,3,4]",), {"axes": (0, 2)}),
        ("np.sum(x, dtype=np.int32)", "reduce_sum", ("i32[2]",), {"axes": (0,)}),
        ("np.max(x, axis=0)", "reduce_max", ("f64[2,3]",), {"axes": (0,)}),
        ("x.T", "transpose", ("f64[2,3]",), {"axes": (1, 0)}),
        ("np.transpose(x, (0, 2, 1))", "transpose", ("f64[2,3,4]",), {"axes": (0, 2, 1)}),
        ("x.reshape(n, 3)", "reshape", ("f64[3*n]",), {"shape": (N, 3)}),
        ("np.reshape(x, (1,))", "reshape", ("f64[]",), {"shape": (1,)}),
        ("x[1:, :3]", "slice", ("f64[4,5]",), {"start": (1, 0), "stop": (4, 3), "step": (1, 1)}),
        ("x[1:]", "slice", ("f64[n,5]",), {"start": (1, 0), "stop": (N, 5), "step": (1, 1)}),
        ("x[::2]", "slice", ("f64[4]",), {"start": (0,), "stop": (4,), "step": (2,)}),
        ("x[:, ::-1]", "flip", ("f64[4,5]",), {"axes": (1,)}),
        ("np.pad(x, (1, 2))", "pad", ("f64[4]",), {"low": (1,), "high": (2,), "interior": (0,)}),
        ("np.concatenate([x, y])", "concatenate", ("f64[4]", "f64[5]"), {"axis": 0}),
        ("x[y]", "gather", ("f64[4,2]", "i64[3]"), {"axes": (0,)}),
        ("x[y, z]", "gather", ("f64[4,2]", "i64[3]", "i64[3]"), {"axes": (0, 1)}),
        ("x[:, y]", "gather", ("f64[4,2]", "i64[]"), {"axes": (1,)}),
        ("x.T[y]", "gather", ("f64[4,2]", "i64[3]"), {"axes": (1,)}),
        ("np.zeros((2, n))", "full", (), {"shape": (2, N), "dtype": F64, "value": 0.0}),
        ("np.ones(3)", "full", (), {"shape": (3,), "dtype": F64, "value": 1.0}),
        ("2.5", "full", (), {"shape": (), "dtype": F64, "value": 2.5}),
        ("np.full(3, -np.inf)", "full", (), {"shape": (3,), "dtype": F64, "value": -np.inf}),
        ("np.full(3, np.float32(0.1))", "full", (), {"shape": (3,), "dtype": DTYPES["f32"], "value": 0.1}),
        ("np.arange(n)", "iota", (), {"shape": (N,), "dtype": I64, "axis": 0}),
        ("np.array([1.0, 2.0])", "constant", (), {"value": np.array([1.0, 2.0])}),
        ("2 * n", "dim", (), {"dim": 2 * N}),
        ("x @ y", "dot_general", ("f64[2,3]", "f64[3]"), {"contract": ((1,), (0,)), "batch": ((), ())}),
        ("x.T @ y", "dot_general", ("f64[3,2]", "f64[3,4]"), {"contract": ((0,), (0,)), "batch": ((), ())}),
        ("x @ y.T", "dot_general", ("f64[2,3]", "f64[4,3]"), {"contract": ((1,), (1,)), "batch": ((), ())}),
        ("y @ x", "dot_general", ("f64[3]", "f64[4,3]"), {"contract": ((0,), (1,)), "batch": ((), ())}),
        ("np.outer(x, y)", "dot_general", ("f64[3]", "f64[4]"), {"contract": ((), ()), "batch": ((), ())}),
        ("x @ y", "dot_general", ("f64[5,2,3]", "f64[5,3,4]"), {"contract": ((2,), (1,)), "batch": ((0,), (0,))}),
        (
            'np.einsum("ab,ab->a", x, y)',
            "dot_general",
            ("f64[5,2]", "f64[5,2]"),
            {"contract": ((1,), (1,)), "batch": ((0,), (0,))},
        ),
    ],
)
def test_text(expected, name, types, attrs):
    assert text(name, *types, **attrs).replace(" ", "") == expected.replace(" ", "")


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "c64", "c128", "i32", "u8", "bool"])
def test_scalars_are_exact(dtype):
    for value in (0.1, 1.0, 2.0 / 3.0, 100.0):
        exact = np.asarray(value).astype(DTYPES[dtype])
        found = eval(scalar_text(exact, DTYPES[dtype]), {"np": np, "ml_dtypes": ml_dtypes})
        assert np.asarray(found).dtype == DTYPES[dtype]
        assert found == exact


def test_starred_operands_are_bound_together():
    assert bind_operands(TABLE["scatter_add"], list("xijv")) == {"x": "x", "indices": ("i", "j"), "values": "v"}
    assert bind_operands(TABLE["concatenate"], list("ab")) == {"xs": ("a", "b")}
    assert bind_operands(TABLE["gather"], list("xi")) == {"x": "x", "indices": ("i",)}
