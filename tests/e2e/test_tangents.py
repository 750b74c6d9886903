"""The tuples of tangents of forward mode: what is no tuple, or moves what is no float, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def scaled(x: Any, by: Any) -> Any:
    return x * by


@each_backend
@pytest.mark.parametrize("by", [3, np.array(3)])
def test_tangent_of_an_integer_must_be_zero(by: Any, backend: str) -> None:
    for zero in (0, 0.0, None, np.zeros(())):
        assert tg.jvp(scaled, (2.0, by), (1.0, zero), backend=backend) == (6.0, 3.0)
    for run in (
        lambda: tg.jvp(scaled, (2.0, by), (0.0, 1.0), backend=backend),
        lambda: tg.hvp(scaled, (2.0, by), (0.0, 1.0), backend=backend),
        lambda: tg.function(lambda x: tg.jvp(scaled, (x, by), (0.0, 1.0))[1], backend=backend)(2.0),
        lambda: tg.function(lambda x: tg.linearize(scaled, x, by)[1](0.0, 1.0), backend=backend)(2.0),
    ):
        with pytest.raises(tg.errors.ArgumentTypeError, match="TG201") as caught:
            run()
        assert "the tangent of by" in str(caught.value)


@each_backend
def test_tangent_of_an_integer_in_a_dict_must_be_zero(backend: str) -> None:
    def f(p: Any) -> Any:
        return p["x"] * p["n"]

    p = {"x": 2.0, "n": 3}
    assert tg.jvp(f, (p,), ({"x": 1.0, "n": 0},), backend=backend) == (6.0, 3.0)
    with pytest.raises(tg.errors.ArgumentTypeError, match="TG201"):
        tg.jvp(f, (p,), ({"x": 1.0, "n": 1.0},), backend=backend)


CALLS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "jvp": (lambda x, v: tg.jvp(np.sum, x, v), "primals"),
    "jvp, tangents": (lambda x, v: tg.jvp(np.sum, (x,), v), "tangents"),
    "hvp": (lambda x, v: tg.hvp(np.sum, x, v), "primals"),
    "hvp, vectors": (lambda x, v: tg.hvp(np.sum, (x,), v), "vectors"),
    "vhp": (lambda x, v: tg.vhp(np.sum, v, x), "primals"),
}


@pytest.mark.parametrize("call", CALLS)
def test_arguments_are_given_as_tuples(call: str) -> None:
    run, name = CALLS[call]
    for x, v in ((np.ones(3), np.ones(3)), (np.ones(1), np.ones(1)), (2.0, 1.0)):
        for f in (lambda x, v: run(x, v), tg.function(lambda x, v: run(x, v))):
            with pytest.raises(tg.errors.ArgumentTypeError, match=f"^{name} is a tuple with one entry per argument"):
                f(x, v)


def cubes(x: Any, k: Any) -> Any:
    return np.sum(x**3) * k, {"k": k, "name": "cubes", "doubled": x * 2}


@each_backend
def test_auxiliary_results(backend: str) -> None:
    x, t = np.array([1.0, 2.0]), np.array([1.0, 0.5])

    def check(out: Any, moved: Any, aux: Any, expected: Any) -> None:
        assert out == 18.0
        np.testing.assert_allclose(moved, expected)
        assert (aux["k"], aux["name"], aux["doubled"].tolist()) == (2, "cubes", [2.0, 4.0])

    def jvp(x: Any) -> Any:
        return tg.jvp(cubes, (x, 2), (t, None), has_aux=True, **options)

    def linearize(x: Any) -> Any:
        out, push, aux = tg.linearize(cubes, x, 2, has_aux=True, **options)
        return out, push(t, None), aux

    def vjp(x: Any) -> Any:
        out, pull, aux = tg.vjp(cubes, x, 2, has_aux=True, **options)
        return out, pull(1.0)[0], aux

    for transform, expected in ((jvp, 18.0), (linearize, 18.0), (vjp, [6.0, 24.0])):
        options: dict[str, Any] = {"backend": backend}
        check(*transform(x), expected)
        options = {}
        check(*tg.function(transform, backend=backend)(x), expected)


@each_backend
@pytest.mark.parametrize("inside", [False, True])
def test_an_auxiliary_result_needs_a_tuple_of_two(inside: bool, backend: str) -> None:
    x = np.ones(2)
    for run in (
        lambda x: tg.jvp(np.sin, (x,), (x,), has_aux=True)[1],
        lambda x: tg.vjp(np.sin, x, has_aux=True)[0],
        lambda x: tg.linearize(np.sin, x, has_aux=True)[0],
    ):
        with pytest.raises(tg.errors.ArgumentTypeError, match="TG203"):
            (tg.function(run, backend=backend) if inside else run)(x)


@pytest.mark.parametrize("transform", [tg.hessian, tg.hessian_diagonal, lambda f: lambda x: tg.hvp(f, (x,), (x,))])
@pytest.mark.parametrize("f", [lambda x: x**3, lambda x: (x[0], x[1])])
def test_second_derivatives_of_arrays_are_pointed_to(transform, f):
    with pytest.raises(TypeError, match=r"tg\.jacobian") as caught:
        transform(f)(np.ones(2))
    assert "tg.vjp" not in str(caught.value)
