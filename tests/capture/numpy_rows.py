"""Checks one call pattern of the NumPy surface: a traced function against NumPy, its gradient against differences.

Used by test_numpy_*.py. A row is a function of arrays, written as user code, and the arrays to call it with.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tracegrad.capture import numpy_api
from tracegrad.capture.context import Capture, capturing
from tracegrad.capture.memory import follows
from tracegrad.capture.tracer import Tracer, asarray, call_handler, from_value
from tracegrad.ir.core import Block, Function, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ir.verifier import verify_function
from tracegrad.testing.interpret import interpret
from tracegrad.transform.vjp import gradient

assert numpy_api is not None, "importing it registers the handlers"

Row = tuple[str, Callable[..., Any], tuple[Any, ...]]


def rows(**cases: tuple[Any, ...]) -> Any:
    """Parametrize a test over rows written as `name=(function, array, array, ...)`."""
    return pytest.mark.parametrize(
        ("function", "arrays"), [(case[0], case[1:]) for case in cases.values()], ids=list(cases)
    )


def h(function: Any) -> Callable[..., Any]:
    """Call a builtin as converted code does: by its handler when an argument is traced."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if _has_tracer((args, kwargs)):
            return call_handler(function, *args, **kwargs)
        return function(*args, **kwargs)

    return call


def _has_tracer(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_tracer, value))
    if isinstance(value, dict):
        return any(map(_has_tracer, value.values()))
    return isinstance(value, Tracer) or hasattr(type(value), "as_tracer")


def flat(value: Any) -> list[Any]:
    """Return the leaves of a result."""
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


def random(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0, dtype: Any = np.float64) -> Any:
    """Return random numbers in an interval."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def positive(*shape: int, seed: int = 0) -> Any:
    return random(*shape, seed=seed, low=0.5, high=2.0)


def capture(function: Callable[..., Any], arrays: Sequence[Any]) -> tuple[Function, list[Tracer]]:
    """Trace a function of arrays (Python scalars are traced as weak) into IR."""
    state = Capture(function)
    params = [Value(_type(a), f"x{k}") for k, a in enumerate(arrays)]
    with capturing(state):
        weak = [isinstance(a, bool | int | float) and not isinstance(a, np.generic) for a in arrays]
        tracers = [from_value(p, weak=w) for p, w in zip(params, weak, strict=True)]
        for tracer in tracers:
            tracer._storage.follows = frozenset((tracer._storage,))
        results = [asarray(r) for r in flat(function(*tracers))]
        values = [r.value for r in results]
    block = Block(params)
    block.operations = state.builder.block.operations
    block.yields = values
    made = Function("f", block, None)
    verify_function(made)
    return made, results


def _type(array: Any) -> ArrayType:
    content = np.asarray(array)
    return ArrayType(content.dtype, content.shape)


def copies(arrays: Sequence[Any]) -> list[Any]:
    return [
        a.copy() if isinstance(a, np.ndarray) and a.ndim else a[()] if isinstance(a, np.ndarray) else a for a in arrays
    ]


def check_values(function: Callable[..., Any], arrays: Sequence[Any], *, dtypes: bool = True) -> Function:
    """Check the results of a traced function against the function itself."""
    made, results = capture(function, arrays)
    with np.errstate(all="ignore"):
        expected = [np.asarray(e) for e in flat(function(*copies(arrays)))]
        found = interpret(made, *arrays)
    assert len(found) == len(expected)
    for value, want, result in zip(found, expected, results, strict=True):
        assert value.shape == want.shape
        if dtypes:
            assert value.dtype == want.dtype, f"dtype {value.dtype}, NumPy has {want.dtype}"
            assert result.dtype == want.dtype
        tolerance = 1e-12 if want.dtype in (np.float64, np.complex128, np.int64) else 1e-5
        np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance)
    check_order(function, arrays, results)
    return made


def check_order(function: Callable[..., Any], arrays: Sequence[Any], results: Sequence[Tracer]) -> None:
    """Check that what counts as C-ordered is that in NumPy, with the layouts of inputs of which it is noted."""
    for is_fortran in (False, True):
        given = [np.asfortranarray(a) if isinstance(a, np.ndarray) and is_fortran else a for a in copies(arrays)]
        with np.errstate(all="ignore"):
            expected = [np.asarray(e) for e in flat(function(*given))]
        for result, want in zip(results, expected, strict=True):
            if want.ndim > 1 and result.is_contiguous and not want.flags.c_contiguous:
                assert is_fortran and follows(result), f"a result of shape {want.shape} is not in C order in NumPy"


def check_gradient(function: Callable[..., Any], arrays: Sequence[Any], made: Function) -> None:
    """Check the gradient of a weighted sum of the results in a random direction against a central difference."""
    wrt = [k for k, a in enumerate(arrays) if np.asarray(a).dtype == np.float64]
    if not wrt:
        return
    rng = np.random.default_rng(zlib.crc32(repr([np.asarray(a).shape for a in arrays]).encode()))
    results = [k for k, y in enumerate(made.body.yields) if y.dtype == np.float64]
    directions = {k: rng.normal(size=np.asarray(arrays[k]).shape) for k in wrt}
    step = 1e-6

    def moved(sign: float) -> list[Any]:
        inputs = [a + sign * step * directions[k] if k in directions else a for k, a in enumerate(copies(arrays))]
        inputs = [float(i) if isinstance(a, float) else i for i, a in zip(inputs, arrays, strict=True)]
        with np.errstate(all="ignore"):
            return [np.asarray(r) for r in flat(function(*copies(inputs)))]

    above, below = moved(1.0), moved(-1.0)
    for k in results:
        weights = rng.normal(size=above[k].shape)
        difference = np.sum(weights * (above[k] - below[k])) / (2 * step)
        slope = _directional(made, k, wrt, arrays, weights, directions)
        np.testing.assert_allclose(slope, difference, rtol=2e-6, atol=2e-7)


def _directional(
    made: Function, result: int, wrt: Sequence[int], arrays: Sequence[Any], weights: Any, directions: dict[int, Any]
) -> float:
    from_weights, _ = capture(lambda y: np.sum(y * weights), [np.asarray(weights)])
    scalar = Function("g", Block(made.body.params), None)
    scalar.body.operations = [*made.body.operations]
    mapping = {from_weights.body.params[0]: made.body.yields[result]}
    for operation in from_weights.body.operations:
        operation.operands = [mapping.get(v, v) for v in operation.operands]
        scalar.body.operations.append(operation)
    scalar.body.yields = [mapping.get(v, v) for v in from_weights.body.yields]
    with np.errstate(all="ignore"):
        found = interpret(gradient(scalar, list(wrt), keep_primal=False), *arrays)
    return float(sum(np.sum(g * directions[k]) for g, k in zip(found, wrt, strict=True)))


def check(function: Callable[..., Any], arrays: Sequence[Any]) -> None:
    """Check values, dtypes and gradient of one row."""
    check_gradient(function, arrays, check_values(function, arrays))
