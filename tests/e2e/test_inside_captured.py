"""Every transform inside a captured function: alone, in a loop under a branch, under grad and jvp, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

X = np.array([0.3, 0.7, 1.1])
V = np.array([0.5, -1.0, 2.0])


def energy(x):
    y = x * 1.0
    for _ in range(3):
        if y[0] > 0:
            y = y + 0.1 * np.sin(y) * x
        else:
            y = y - 0.1 * x
    return np.sum(y**2)


def field(x):
    return np.sin(x) * x[0] + x**2


def scaled(p, n):
    return np.sum(p["a"] ** 2) * p["b"] ** n


def counted(p):
    return np.sum(p["a"]) * p["n"]


def with_aux(x, c):
    return np.sum(x**3) * c["k"] + np.sum(c["a"] * x), {"s": np.cumsum(x), "n": 3}


def several(a, b, factor=2.0):
    return {"u": a * b + factor * a**2, "n": 1}


def linearize_scalar(x):
    out, push = tg.linearize(energy, x)
    return out + 2 * push(V * x[0]) + push(x)


def linearize_array(x):
    out, push = tg.linearize(field, x)
    return np.sum(out) + np.sum(push(V) * push(x))


def linearize_by_two(x):
    out, push = tg.linearize(several, x, x[0])
    return out["u"][0] + np.sum(push(x, 2.0)["u"] * push(V, None)["u"]) + np.sum(push(None, None)["u"])


def linearize_tree(x):
    out, push = tg.linearize(scaled, {"a": x, "b": x[0]}, 3)
    return out + push({"a": x, "b": 1.0}, None)


def linearize_in_vmap(x):
    return np.sum(tg.vmap(lambda a: tg.linearize(energy, a)[1](a**2))(np.outer(x, V)) * V)


def vjp_scalar(x):
    out, pull = tg.vjp(energy, x)
    return out + np.sum(pull(2.0 * x[0])[0])


def vjp_array(x):
    out, pull = tg.vjp(field, x)
    return np.sum(out) + np.sum(pull(V * x)[0] * pull(x)[0])


def vjp_tree(x):
    out, pull = tg.vjp(scaled, {"a": x, "b": x[0]}, 3)
    by_p, by_n = pull(x[0])
    assert by_n is None
    return out + np.sum(by_p["a"]) * by_p["b"]


def jvp_scalar(x):
    out, moved = tg.jvp(energy, (x,), (x * V,))
    return out * moved


def jvp_tree(x):
    out, moved = tg.jvp(scaled, ({"a": x, "b": x[1]}, 3), ({"a": V, "b": 1.0}, None))
    return out * moved


def jvp_with_an_int_in_the_tree(x):
    out, moved = tg.jvp(counted, ({"a": x, "n": 3},), ({"a": V, "n": None},))
    return out * moved


def jvp_by_one_of_two(x):
    _, moved = tg.jvp(several, (x, x[1]), (V, None))
    return np.sum(moved["u"])


def hvp(x):
    return np.sum(tg.hvp(energy, (x,), (V * x[0],))[0])


def vhp(x):
    return np.sum(tg.vhp(energy, (V * x[0],), (x,))[0])


def hvp_tree(x):
    products = tg.hvp(lambda n, p: scaled(p, n), (3, {"a": x, "b": x[1]}), (None, {"a": V, "b": 1.0}))
    assert products[0] is None
    return np.sum(products[1]["a"]) + products[1]["b"]


def hvp_by_one_of_two(x):
    by_a, by_b = tg.hvp(lambda a, b: np.sum(a**2) * b**3, (x, x[1]), (V, None))
    return np.sum(by_a) + by_b


def hessian(x):
    return V @ tg.hessian(energy)(x) @ x


def hessian_tree(x):
    return np.sum(tg.hessian(scaled)({"a": x, "b": x[0]}, 3)["a"]["b"])


def hessian_aux(x):
    matrix, aux = tg.hessian(lambda a: (np.sum(a**3), a[0]), has_aux=True)(x)
    return np.sum(matrix) * aux


def hessian_diagonal(x):
    return np.sum(tg.hessian_diagonal(energy)(x) * V)


def hessian_diagonal_aux(x):
    diagonal, aux = tg.hessian_diagonal(lambda a: (np.sum(a**3), a[0]), has_aux=True)(x)
    return np.sum(diagonal) * aux


def jacobian(x):
    return V @ tg.jacobian(field)(x) @ x


def jacfwd(x):
    return V @ tg.jacfwd(field)(x) @ x


def jacrev(x):
    return V @ tg.jacrev(field)(x) @ x


def jacobian_by_several(x):
    return np.sum(tg.jacobian(several, argnums=(0, 1))(x, x**2)["u"][1])


def jacrev_by_name(x):
    return np.sum(tg.jacrev(several, argnums="b")(x, x**2)["u"])


def jacfwd_aux(x):
    matrix, aux = tg.jacfwd(lambda a: (a**2, {"m": np.max(a)}), has_aux=True)(x)
    return np.sum(matrix) * aux["m"]


def vmap(x):
    return np.sum(tg.vmap(energy)(np.outer(x, V)) * V)


def vmap_of_grad(x):
    return np.sum(tg.vmap(tg.grad(energy))(np.outer(x, V)) * V)


def vmap_of_jvp(x):
    return np.sum(tg.vmap(lambda a: tg.jvp(energy, (a,), (a**2,))[1])(np.outer(x, V)) * V)


def vmap_shared(x):
    return np.sum(tg.vmap(lambda a, b: np.sum(a * b) ** 2, in_axes=(0, None))(np.outer(x, V), x) * V)


def checkpoint(x):
    return tg.checkpoint(energy)(x) ** 2


def grad_of_checkpoint(x):
    return np.sum(tg.grad(tg.checkpoint(energy))(x) * V)


def checkpoint_of_grad(x):
    return np.sum(tg.checkpoint(tg.grad(energy))(x) * V)


def checkpoint_of_vmap_of_grad(x):
    return np.sum(tg.checkpoint(tg.vmap(tg.grad(energy)))(np.outer(x, V)) * V)


def value_and_grad(x):
    value, gradient = tg.value_and_grad(energy)(x)
    return value * np.sum(gradient * V)


def value_and_grad_aux(x):
    (value, aux), gradient = tg.value_and_grad(with_aux, has_aux=True)(x, {"k": 2.0, "a": x})
    return value + np.sum(aux["s"] * gradient) + aux["n"]


def value_and_grad_by_several(x):
    (value, _), (by_x, by_c) = tg.value_and_grad(with_aux, argnums=(0, 1), has_aux=True)(x, {"k": 2.0, "a": x})
    return value + np.sum(by_c["a"]) * by_c["k"] + np.sum(by_x)


def value_and_grad_by_name(x):
    value, gradient = tg.value_and_grad(scaled, argnums="p")({"a": x, "b": x[2]}, n=2)
    return value + gradient["b"]


def grad_aux(x):
    gradient, aux = tg.grad(with_aux, has_aux=True)(x, {"k": 2.0, "a": x})
    return np.sum(gradient * aux["s"])


def function(x):
    return tg.function(energy)(x) * x[0]


def grad_in_a_rule(x):
    """A custom rule whose backward runs a gradient with a loop."""

    @tg.custom_vjp
    def own(a):
        return energy(a)

    own.defvjp(lambda a: (energy(a), a), lambda a, ct: (ct * tg.grad(energy)(a),))
    return own(x) * x[1]


PROGRAMS = [
    linearize_scalar, linearize_array, linearize_by_two, linearize_tree, linearize_in_vmap, vjp_scalar, vjp_array,
    vjp_tree, jvp_scalar, jvp_tree, jvp_with_an_int_in_the_tree, jvp_by_one_of_two, hvp, vhp, hvp_tree,
    hvp_by_one_of_two, hessian, hessian_tree, hessian_aux, hessian_diagonal, hessian_diagonal_aux, jacobian, jacfwd,
    jacrev, jacobian_by_several, jacrev_by_name, jacfwd_aux, vmap, vmap_of_grad, vmap_of_jvp, vmap_shared, checkpoint,
    grad_of_checkpoint, checkpoint_of_grad, checkpoint_of_vmap_of_grad, value_and_grad, value_and_grad_aux,
    value_and_grad_by_several, value_and_grad_by_name, grad_aux, function, grad_in_a_rule,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_inside(program: Callable[..., Any], backend: str) -> None:
    def in_a_loop(x):
        total = 0.0
        for k in range(4):
            if x[0] > -k:
                total = total + program(x) * 0.25
        return total

    value = program(X)
    slopes = np.array([(program(X + 1e-6 * e) - program(X - 1e-6 * e)) / 2e-6 for e in np.eye(3)])
    for f in (program, in_a_loop):
        np.testing.assert_allclose(tg.function(f, backend=backend)(X), value, rtol=1e-12)
        np.testing.assert_allclose(tg.grad(f, backend=backend)(X), slopes, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tg.jvp(program, (X,), (V,), backend=backend)[1], slopes @ V, rtol=1e-6, atol=1e-6)


def test_tangents_that_do_not_fit() -> None:
    with pytest.raises(tg.errors.ArgumentError, match="TG212"):
        tg.function(lambda x: tg.linearize(energy, x)[1](x, x))(X)
    for given in (V[:2], 1.0):
        with pytest.raises(tg.errors.ArgumentTypeError, match="the tangent does not fit the argument"):
            tg.function(lambda x, given=given: tg.jvp(energy, (x,), (given,))[1])(X)
        with pytest.raises(tg.errors.ArgumentTypeError, match="the tangent does not fit the argument"):
            tg.jvp(energy, (X,), (given,))
    with pytest.raises(tg.errors.ArgumentTypeError, match="the cotangent does not fit the result"):
        tg.function(lambda x: tg.vjp(field, x)[1](x[:2])[0])(X)


def test_the_part_that_is_no_float_is_named() -> None:
    with pytest.raises(tg.errors.ArgumentTypeError, match=r"with respect to p\['a'\]\[1\] is not defined"):
        tg.grad(lambda x, *, p: x * p["a"][0], argnums="p")(1.0, p={"a": [1.0, 3]})
