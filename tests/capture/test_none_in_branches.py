"""`None` on one side of a branch, and a number on the other: asking which is refused, never answered at capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import TracegradError

X = np.array([1.0, -2.0, 3.0])


def _is(x: Any) -> Any:
    y = 1.0
    if x[0] > 0:
        y = None
    return x[1] if y is None else x[2]


def _is_not(x: Any) -> Any:
    if x[0] > 0:
        y = None
    else:
        y = 1.0
    if y is not None:
        return x[1]
    return x[2]


def _in_a_list(x: Any) -> Any:
    y = 1.0
    if x[0] > 0:
        y = None
    return x[1] if all(v is None for v in [y]) else x[2]


@pytest.mark.parametrize("function", [_is, _is_not, _in_a_list])
@pytest.mark.parametrize("transform", [tg.function, tg.grad])
def test_a_name_that_is_none_on_one_side(function: Any, transform: Any) -> None:
    with pytest.raises(TracegradError, match="TG112"):
        transform(function)(X)


def test_none_before_the_first_iteration() -> None:
    def largest(x: Any) -> Any:
        best = None
        for value in x:
            if best is None or value > best:
                best = value
        return best

    np.testing.assert_array_equal(tg.grad(largest)(X), [0.0, 0.0, 1.0])
