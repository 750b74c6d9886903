"""Central differences of functions in IR, and functions made of others, for tests of any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Value, clone_function
from tracegrad.ir.opdef import interpreter
from tracegrad.ops import add, multiply, reduce_sum
from tracegrad.testing.interpret import interpret


def central_difference(function: Function, arguments: Sequence[Any], position: int, step: float = 1e-6) -> Any:
    """Return the gradient of result 0, a scalar, by one argument."""
    x = np.asarray(arguments[position], np.float64)
    result = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        values = []
        for sign in (1.0, -1.0):
            moved = list(arguments)
            moved[position] = x.copy()
            moved[position][index] += sign * step
            values.append(float(interpret(function, *moved)[0]))
        result[index] = (values[0] - values[1]) / (2 * step)
    return result


def weighted_sum(function: Function, rng: np.random.Generator) -> Function:
    """Return the function that multiplies all results with fixed random weights and adds everything up."""
    result = clone_function(function)
    builder = Builder(result.body)
    total: Value | None = None
    with interpreter(builder):
        for value in result.results:
            # the weights of an array whose size is symbolic are all equal
            shape = value.shape if all(isinstance(d, int) for d in value.shape) else ()
            weight = builder.constant(np.asarray(rng.uniform(0.5, 1.5, shape)))
            product = value if shape != value.shape else multiply(value, weight)
            term = reduce_sum(product, axes=tuple(range(value.array_type.ndim))) if value.shape else product
            term = term if shape == value.shape else multiply(term, weight)
            total = term if total is None else add(total, term)
    assert total is not None, "a function has results"
    result.body.yields = [total]
    return result


def relative_error(found: Any, expected: Any) -> float:
    """Return the largest error, relative to the largest element and 1."""
    return float(
        np.max(np.abs(np.asarray(found) - expected), initial=0.0) / (1.0 + np.max(np.abs(expected), initial=0.0))
    )
