"""Derivatives by numbers are NumPy scalars of the dtype of the argument, in both backends; values are what Python
gives. Negative positions count the arguments that are not keyword-only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.errors import ArgumentError
from tracegrad.runtime.signature import flatten
from tracegrad.testing import check_grads

each_backend = pytest.mark.parametrize("backend", BACKENDS)


def product(a: Any, b: Any, c: Any) -> Any:
    return a * b * c


def of_tree(p: Any) -> Any:
    return p["a"] * p["b"][0] * p["b"][1]


def pulled(backend: str) -> Any:
    return tg.vjp(product, 2.0, 3.0, 4.0, backend=backend)[1](1.0)


#: derivatives of functions of Python numbers, and how many numbers they are
DERIVATIVES: list[tuple[Callable[[str], Any], int]] = [
    (lambda b: tg.grad(product, backend=b)(2.0, 3.0, 4.0), 1),
    (lambda b: tg.grad(product, argnums=(0, 1, 2), backend=b)(2.0, 3.0, 4.0), 3),
    (lambda b: tg.value_and_grad(product, argnums=(0, 2), backend=b)(2.0, 3.0, 4.0)[1], 2),
    (lambda b: tg.grad(of_tree, backend=b)({"a": 2.0, "b": [3.0, 4.0]}), 3),
    (lambda b: tg.grad(lambda x: (x * x, x), has_aux=True, backend=b)(2.0)[0], 1),
    (lambda b: tg.jacobian(lambda x: {"u": (x * 2.0, [x * x])}, backend=b)(3.0), 2),
    (lambda b: tg.hessian(product, argnums=(0, 1), backend=b)(2.0, 3.0, 4.0), 4),
    (lambda b: tg.jvp(product, (2.0, 3.0, 4.0), (1.0, 0.0, 1.0), backend=b)[1], 1),
    (lambda b: tg.hvp(product, (2.0, 3.0, 4.0), (1.0, 0.0, 1.0), backend=b), 3),
    (pulled, 3),
]


@each_backend
@pytest.mark.parametrize(("derivative", "count"), DERIVATIVES)
def test_derivatives_by_numbers(derivative: Callable[[str], Any], count: int, backend: str) -> None:
    for _ in range(3):  # the later calls are made by the launcher
        assert [type(leaf) for leaf in flatten(derivative(backend))[2]] == [np.float64] * count


@each_backend
def test_values_are_those_of_python(backend: str) -> None:
    both = tg.value_and_grad(product, backend=backend)
    for _ in range(3):
        value, gradient = both(2.0, 3.0, 4.0)
        assert type(value) is float and type(gradient) is np.float64
        assert type(tg.function(product, backend=backend)(2.0, 3.0, 4.0)) is float


@each_backend
def test_dtypes_are_those_of_the_arguments(backend: str) -> None:
    gradient = tg.grad(product, argnums=(0, 1, 2), backend=backend)
    for _ in range(3):
        assert [type(g) for g in gradient(np.float32(2), 3.0, np.float64(4))] == [np.float32, np.float64, np.float64]


def test_complex_cotangents() -> None:
    _, pull = tg.vjp(lambda z: z * z * 1j, 1 + 2j)
    (ct,) = pull(1 + 0j)
    assert type(ct) is np.complex128
    doubled = tg.jacobian(lambda z: z * (1 + 2j))
    for _ in range(3):
        assert type(doubled(1 + 2j)) is np.complex128


def scaled(x: Any, y: Any = 2.0, *, k: int = 3, s: float = 1.0) -> Any:
    return x * y**k * s


@each_backend
def test_negative_positions_leave_keyword_only_arguments_out(backend: str) -> None:
    assert tg.grad(scaled, argnums=-1, backend=backend)(2.0, 2.0) == 24.0
    assert tg.grad(scaled, argnums=-2, backend=backend)(2.0, k=2) == 4.0
    assert tg.grad(scaled, argnums=(-1, "s"), backend=backend)(2.0, 2.0, s=3.0) == (72.0, 16.0)
    assert tg.grad(scaled, argnums=3, backend=backend)(2.0, 2.0) == 16.0
    with pytest.raises(ArgumentError, match="TG205"):
        tg.grad(scaled, argnums=-3, backend=backend)(2.0, 2.0)
    check_grads(scaled, 2.0, 2.0, argnums=(-1, -2), backends=(backend,))
