"""Generated NumPy source: it computes what the IR says, bit for bit, in its dtypes, and reads as a person writes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codegen.evaluate import evaluate
from tests.codegen.programs import arguments, programs
from tracegrad.codegen.numpy_source import emit_numpy
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Value
from tracegrad.ir.opdef import BY_TRANSFORM, TABLE
from tracegrad.ir.types import BOOL, DTYPES, F32, F64, I64, ArrayType
from tracegrad.ir.verifier import verify_function
from tracegrad.testing.rules import cases


def load(text: str, name: str) -> Any:
    """Return the function that a module given as text defines."""
    variables: dict[str, Any] = {}
    exec(compile(text, "<generated>", "exec"), variables)
    return variables[name]


def run(function: Function, values: Iterable[Any]) -> list[Any]:
    """Return the results of the source of a function without interface."""
    result = load(emit_numpy(function), function.name)(*values)
    return [result] if len(function.results) == 1 else list(result)


def assert_runs_as_evaluated(function: Function, values: list[Any]) -> None:
    verify_function(function)
    kept = [np.array(v) for v in values]
    results = run(function, values)
    for result, expected in zip(results, evaluate(function, kept), strict=True):
        np.testing.assert_array_equal(np.asarray(result), expected, strict=True)
    for value, before in zip(values, kept, strict=True):
        np.testing.assert_array_equal(value, before)
    for position, result in enumerate(results):
        for other in [*values, *results[:position]]:
            assert not np.ndim(result) or not np.shares_memory(result, other)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("name", [n for n, op in TABLE.items() if op.marker is not BY_TRANSFORM])
def test_every_op(name: str, dtype: str) -> None:
    op = TABLE[name]
    for case in cases(op, dtype):
        if dtype in ("f16", "bf16") and not op.elementwise:
            continue
        function = Function("f")
        function.body.params = [Value(ArrayType(x.dtype, x.shape), "") for x in case.operands]
        result = Builder(function.body).apply(op, function.params, case.attrs)
        function.body.yields = list(result) if isinstance(result, tuple) else [result]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            assert_runs_as_evaluated(function, case.operands)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_programs_with_views_and_writes(function: Function) -> None:
    assert_runs_as_evaluated(function, arguments())


SHAPES = [(), (3,), (1,), (2, 3), (1, 3), (2, 1)]
KINDS = [F64, F32, DTYPES["f16"], I64, DTYPES["i32"], BOOL, DTYPES["c64"]]
FLOAT_OPS = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "negative",
    "tanh",
    "square",
    "maximum",
    "sign",
    "reciprocal",
]
INTEGER_OPS = ["add", "subtract", "multiply", "negative", "maximum", "absolute", "bitwise_and", "square"]
OPS = {
    "f": FLOAT_OPS,
    "i": INTEGER_OPS,
    "b": ["logical_and", "logical_not", "logical_or", "invert"],
    "c": ["add", "multiply", "negative", "exp", "conjugate"],
}


def stretches(shape: Any, full: Any) -> bool:
    """Return whether NumPy broadcasts a shape to another one."""
    return len(shape) <= len(full) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(full), strict=False))


def make_expression(seed: int) -> tuple[Function, list[Any]]:
    """Return a random function of arrays of several dtypes and shapes, and arguments for it."""
    chance = random.Random(seed)
    types = [ArrayType(d, s) for d in KINDS for s in chance.sample(SHAPES, 2)]
    function = Function("f")
    function.body.params = [Value(t, f"x{i}") for i, t in enumerate(types)]
    builder = Builder(function.body)
    pool = list(function.params)

    def pick(dtype: Any, shape: Any) -> Value:
        if chance.random() < 0.3:
            number = {"f": 1.7, "i": 3, "b": True, "c": 0.5 - 2j}[dtype.kind]
            return builder.apply(TABLE["full"], (), {"shape": shape, "dtype": dtype, "value": number})
        found = [v for v in pool if v.dtype == dtype and stretches(v.shape, shape)]
        if not found:
            return builder.apply(TABLE["full"], (), {"shape": shape, "dtype": dtype, "value": 0})
        value = found[-1 - min(chance.randint(0, 3), len(found) - 1)]
        return value if value.shape == shape else builder.apply(TABLE["broadcast_to"], (value,), {"shape": shape})

    for _ in range(chance.randint(3, 14)):
        dtype, shape, form = chance.choice(KINDS), chance.choice(SHAPES), chance.random()
        if form < 0.55:
            op = TABLE[chance.choice(OPS[dtype.kind])]
            operands = [pick(dtype, shape) for _ in op.operands]
            if op.name == "power" and chance.random() < 0.6:
                operands[1] = pick(I64, shape)
            value = builder.apply(op, operands, {})
        elif form < 0.65:
            value = builder.apply(TABLE["select"], (pick(BOOL, shape), pick(dtype, shape), pick(dtype, shape)), {})
        elif form < 0.75:
            value = builder.apply(TABLE["equal"], (pick(dtype, shape), pick(dtype, shape)), {})
        elif form < 0.9:
            source = chance.choice([k for k in KINDS if dtype.kind == "c" or k.kind != "c"])
            value = builder.apply(TABLE["cast"], (pick(source, shape),), {"dtype": dtype})
        elif dtype != BOOL and shape:
            value = builder.apply(TABLE["reduce_sum"], (pick(dtype, shape),), {"axes": (0,)})
        else:
            value = builder.apply(TABLE["reshape"], (pick(dtype, shape),), {"shape": (int(np.prod(shape)),)})
        value.name = chance.choice(["", "", "", "y"])
        pool.append(value)
    function.body.yields = [pool[-1], *chance.choices(pool, k=2)]
    generator = np.random.default_rng(seed)
    return function, [np.asarray(3.0 * generator.normal(size=t.shape)).astype(t.dtype) for t in types]


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1))
def test_expressions_keep_dtypes_and_shapes(seed: int) -> None:
    function, values = make_expression(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assert_runs_as_evaluated(function, values)
