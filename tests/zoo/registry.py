"""The registry of the zoo: ordinary functions with inputs at which they are smooth.

A program is a function as a user would write it, a factory for its arguments, and the arguments to differentiate
by. Programs may return any tree of arrays; whoever checks them weighs the outputs, see numerics.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

Inputs = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """One function of the zoo.

    Args:
        function: the user's function.
        inputs: makes its positional arguments; the same ones at each call.
        wrt: positions of the arguments to differentiate by.
        rtol: how far the gradient may be from differences, relative to the largest entry of the gradient.
    """

    function: Callable[..., Any]
    make_inputs: Inputs
    wrt: tuple[int, ...]
    rtol: float

    @property
    def name(self) -> str:
        function = self.function
        module = getattr(function, "__module__", "").rpartition(".")[2]
        return f"{module}.{getattr(function, '__name__', type(function).__name__)}"

    def inputs(self) -> tuple[Any, ...]:
        """Return fresh arguments: programs may write into them."""
        return self.make_inputs(np.random.default_rng(zlib.crc32(self.name.encode())))


PROGRAMS: list[Program] = []


def program(inputs: Inputs, wrt: int | tuple[int, ...] = 0, rtol: float = 1e-7) -> Callable[[Any], Any]:
    """Register the decorated function, and return it unchanged."""

    def register(function: Any) -> Any:
        PROGRAMS.append(Program(function, inputs, (wrt,) if isinstance(wrt, int) else wrt, rtol))
        return function

    return register


def parameters(programs: Sequence[Program]) -> list[Any]:
    """Return programs as parameters of a test."""
    return [pytest.param(p, id=p.name) for p in programs]


def half_in_c(programs: Sequence[Program]) -> list[Any]:
    """Return programs with a backend each as parameters of a test: all with NumPy, every second with C as well.

    For derivatives beyond the first, whose C takes longest to compile; the IR that both are made from is the same.
    """
    pairs = [(p, backend) for k, p in enumerate(programs) for backend in (["numpy", "c"] if k % 2 else ["numpy"])]
    return [pytest.param(p, backend, id=f"{p.name}-{backend}") for p, backend in pairs]
