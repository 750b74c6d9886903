"""`collections.OrderedDict` in arguments, results, branches and loops keeps its class and its order."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import ArgumentTypeError

X = np.array([1.0, 2.0])


def _weighted(d: Any) -> Any:
    return np.sum(d["z"]) ** 2 * d["a"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_and_hessian_by_an_ordered_dict(backend: str) -> None:
    given = OrderedDict(z=X, a=2.0)
    gradient = tg.grad(_weighted, backend=backend)(given)
    assert type(gradient) is OrderedDict
    assert list(gradient) == ["z", "a"]
    np.testing.assert_allclose(gradient["z"], [12.0, 12.0])
    assert gradient["a"] == 9.0
    nested = tg.function(lambda z: tg.hessian(_weighted)(OrderedDict(z=z, a=2.0))["z"]["z"], backend=backend)(X)
    np.testing.assert_allclose(nested, np.full((2, 2), 4.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_beside_what_is_differentiated(backend: str) -> None:
    for k in (2, 2.0):
        np.testing.assert_allclose(
            tg.grad(lambda x, d: np.sum(x * d["k"]), backend=backend)(X, OrderedDict(k=k)), [2.0, 2.0]
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_results(backend: str) -> None:
    made = tg.jacobian(lambda x: OrderedDict(u=x, a=[x * 2, OrderedDict(q=x[0])]), backend=backend)(X)
    assert type(made) is type(made["a"][1]) is OrderedDict
    np.testing.assert_allclose(made["a"][0], 2 * np.eye(2))
    batched = tg.vmap(lambda d: OrderedDict(b=d["z"] * 2), backend=backend)(OrderedDict(z=X))
    np.testing.assert_allclose(batched["b"], 2 * X)
    _, pull = tg.vjp(lambda z: OrderedDict(u=z * z), X, backend=backend)
    np.testing.assert_allclose(pull(OrderedDict(u=np.ones(2)))[0], 2 * X)
    with pytest.raises(ArgumentTypeError, match="OrderedDict of the same structure"):
        pull({"u": np.ones(2)})


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_reach_the_argument(backend: str) -> None:
    def program(d: Any) -> Any:
        d["z"][0] = 3.0
        d["a"] = d["a"] * 2
        return np.sum(d["z"]) * d["a"]

    given = OrderedDict(z=X.copy(), a=2.0)
    assert tg.function(program, backend=backend)(given) == 20.0
    assert given["a"] == 4.0
    assert given["z"][0] == 3.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_and_loops(backend: str) -> None:
    def program(x: Any) -> Any:
        d = OrderedDict(a=x[0], b=x[1])
        if x[1] > 1.5:
            d = OrderedDict(a=x[1], b=x[0])
        for v in x:
            d = OrderedDict(a=d["b"] * v, b=d["a"] + v)
        return d["a"] * d["b"]

    check_agreement(program, backend, X, X[::-1].copy())


def test_a_defaultdict_gets_no_new_keys() -> None:
    given = defaultdict(list, p=X)
    tg.grad(lambda d: np.sum(d["p"] ** 2))(given)
    assert list(given) == ["p"]
