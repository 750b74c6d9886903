"""What transforms return is pickled and copied by what it was made from, as functions are by their name."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

X = np.array([1.0, 2.0])


def energy(x: Any) -> Any:
    return np.sum(x**3)


@tg.function(dynamic=True)
def double(x: Any) -> Any:
    return 2.0 * x


@tg.custom_vjp
def halved(x: Any) -> Any:
    return x


halved.defvjp(lambda x: (x, None), lambda residuals, ct: (ct / 2,))


@tg.checkpoint
def slow(x: Any) -> Any:
    return np.sin(x)


@tg.grad
def steep(x: Any) -> Any:
    return np.sum(x**2)


class Model:
    """Holds what users' classes hold."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.slope = tg.grad(self.loss)

    def loss(self, x: Any) -> Any:
        return self.scale * np.sum(x**2)

    def __call__(self, x: Any) -> Any:
        return self.loss(x)

    @tg.function
    def scaled(self, x: Any) -> Any:
        return self.scale * x


gradient = tg.grad(energy)
MADE = [
    gradient,
    tg.value_and_grad(energy, 0),
    tg.jacobian(energy),
    tg.hessian(energy),
    tg.grad(tg.function(energy)),
    tg.vmap(tg.grad(energy), in_axes=0),
    tg.vmap(energy),
    tg.function(energy, backend="c"),
    double,
    halved,
    slow,
    steep,
    tg.grad(tg.checkpoint(energy)),
    Model(3.0).slope,
    Model(3.0).scaled,
]


@pytest.mark.parametrize("made", MADE, ids=lambda made: repr(made)[:60].split(" at ")[0])
def test_pickled_and_copied(made: Any) -> None:
    x = np.array([[1.0, 2.0]]) if "Batch" in repr(made) else X
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        np.testing.assert_equal(again(x), made(x))


@pytest.mark.parametrize("made", [double, halved, slow, steep])
def test_decorated_functions_are_found_by_name(made: Any) -> None:
    assert pickle.loads(pickle.dumps(made)) is made


def test_options_are_kept() -> None:
    again = pickle.loads(pickle.dumps(tg.grad(energy, argnums="x", backend="c")))
    assert repr(again) == "<tracegrad grad of energy, backend c>"


def test_callable_object_that_was_differentiated() -> None:
    model = Model(2.0)
    model.slope = tg.grad(model)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        again.scale = 5.0
        assert again.slope(X).tolist() == [10.0, 20.0]
        assert tg.grad(again)(X).tolist() == [10.0, 20.0]
    assert model.slope(X).tolist() == [4.0, 8.0]


def test_lambda_gives_the_error_of_pickle() -> None:
    made = tg.grad(lambda x: x * x)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(made)
    assert copy.deepcopy(made)(3.0) == 6.0


def test_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(gradient, [X, 2 * X])
    assert [f.tolist() for f in found] == [[3.0, 12.0], [12.0, 48.0]]
