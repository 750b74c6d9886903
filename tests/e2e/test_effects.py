"""What a function stores into its arguments and into objects from outside, under each transform, as Python does it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import TracegradError

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])
DIRECTION = np.array([1.0, 3.0])


def overwrite(x: Any) -> Any:
    x[0] = x[1] * 2
    return np.sum(x**2)


TRANSFORMED: dict[str, Callable[[Any, str], Any]] = {
    "jvp": lambda x, backend: tg.jvp(overwrite, (x,), (DIRECTION,), backend=backend)[1],
    "hvp": lambda x, backend: tg.hvp(overwrite, (x,), (DIRECTION,), backend=backend)[0],
    "vhp": lambda x, backend: tg.vhp(overwrite, (DIRECTION,), (x,), backend=backend)[0],
}
PRODUCTS: dict[str, Any] = {"jvp": 60.0, "hvp": [0.0, 30.0], "vhp": [0.0, 30.0]}


@each_backend
@pytest.mark.parametrize("name", TRANSFORMED)
def test_forward_mode_writes_into_its_arguments(name: str, backend: str) -> None:
    spaced = np.array([1.0, 0.0, 2.0, 0.0])[::2]
    for x in (np.array([1.0, 2.0]), spaced):
        assert np.array_equal(TRANSFORMED[name](x, backend), PRODUCTS[name])
        assert x.tolist() == [4.0, 2.0]


@each_backend
@pytest.mark.parametrize("name", TRANSFORMED)
def test_forward_mode_refuses_a_read_only_argument_that_is_written(name: str, backend: str) -> None:
    x = np.array([1.0, 2.0])
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only: x"):
        TRANSFORMED[name](x, backend)


@each_backend
def test_linearize_writes_into_its_arguments_once(backend: str) -> None:
    x = np.array([1.0, 2.0])
    value, push = tg.linearize(overwrite, x, backend=backend)
    assert value == 20.0
    assert x.tolist() == [4.0, 2.0]
    for _ in range(2):
        assert push(DIRECTION) == 60.0
        assert x.tolist() == [4.0, 2.0]


@each_backend
def test_linearize_at_what_an_earlier_write_left(backend: str) -> None:
    def accumulate(x: Any) -> Any:
        x *= x
        return np.sum(x)

    x = np.array([1.0, 3.0])
    _, first = tg.linearize(accumulate, x, backend=backend)
    value, second = tg.linearize(accumulate, x, backend=backend)
    assert (value, x.tolist()) == (82.0, [1.0, 81.0])
    assert (first(DIRECTION), second(DIRECTION)) == (20.0, 56.0)


@each_backend
def test_forward_mode_stores_into_objects(backend: str) -> None:
    kept: dict[str, Any] = {}

    def f(x: Any, notes: dict[str, Any]) -> Any:
        kept["triple"] = x * 3
        notes["double"] = x * 2
        return x * x

    notes = {"double": 0.0}
    assert tg.jvp(f, (2.0, notes), (1.0, None), backend=backend) == (4.0, 4.0)
    assert kept == {"triple": 6.0}
    assert notes == {"double": 4.0}
    assert tg.hvp(f, (3.0, notes), (1.0, None), backend=backend)[0] == 2.0
    assert kept == {"triple": 9.0}
    assert notes == {"double": 6.0}


INNER: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "grad": (lambda x: tg.grad(overwrite)(x), [0.0, 20.0]),
    "hessian": (lambda x: tg.hessian(overwrite)(x), [[0.0, 0.0], [0.0, 10.0]]),
    "jvp": (lambda x: tg.jvp(overwrite, (x,), (DIRECTION,))[1], 60.0),
    "hvp": (lambda x: tg.hvp(overwrite, (x,), (DIRECTION,))[0], [0.0, 30.0]),
    "vjp": (lambda x: tg.vjp(overwrite, x)[1](1.0)[0], [0.0, 20.0]),
    "linearize": (lambda x: tg.linearize(overwrite, x)[1](DIRECTION), 60.0),
}


@each_backend
@pytest.mark.parametrize("name", INNER)
def test_derivative_inside_a_function_writes_into_its_argument(name: str, backend: str) -> None:
    derivative, wanted = INNER[name]

    def f(x: Any) -> Any:
        y = x * 1.0
        return derivative(y), y

    found, written = tg.function(f, backend=backend)(np.array([1.0, 2.0]))
    assert np.array_equal(found, wanted)
    assert written.tolist() == [4.0, 2.0]
    x = np.array([1.0, 2.0])
    assert np.array_equal(tg.function(derivative, backend=backend)(x), wanted)
    assert x.tolist() == [4.0, 2.0]


@each_backend
def test_what_an_inner_gradient_wrote_has_a_derivative(backend: str) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        return np.sum(tg.grad(overwrite)(y)) + np.sum(y**2)  # 10 x_1 + 5 x_1^2

    assert tg.grad(f, backend=backend)(np.array([1.0, 2.0])).tolist() == [0.0, 30.0]


@each_backend
def test_batched_gradient_writes_into_its_argument(backend: str) -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert tg.vmap(tg.grad(overwrite), backend=backend)(x).tolist() == [[0.0, 20.0], [0.0, 40.0]]
    assert x.tolist() == [[4.0, 2.0], [8.0, 4.0]]


@each_backend
@pytest.mark.parametrize("kind", ["item", "element", "append"])
def test_inner_gradient_stores_into_objects_from_outside(kind: str, backend: str) -> None:
    def f(x: Any) -> Any:
        items, values = {"triple": 0.0}, [0.0]

        def inner(y: Any) -> Any:
            if kind == "item":
                items["triple"] = y * 3
            elif kind == "element":
                values[0] = y * 3
            else:
                values.append(y * 3)
            return y * y

        return tg.grad(inner)(x) + items["triple"] + values[-1]

    assert tg.value_and_grad(f, backend=backend)(2.0) == (10.0, 5.0)


LAST: dict[str, Any] = {}

#: what is stored, of the argument and of an array made of it; whether it is an array of its own
STORED: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "a copy": (lambda x, y: x.copy(), True),
    "a new array": (lambda x, y: y, True),
    "a part of a new array": (lambda x, y: y[1:], True),
    "a tuple": (lambda x, y: (y[:1].copy(), 3, x[0]), True),
    "a choice": (lambda x, y: np.where(x > 1, x, y), True),
    "the argument": (lambda x, y: x, False),
    "a view of the argument": (lambda x, y: x.reshape(3, 1), False),
    "one of two": (lambda x, y: y if x[0] > 0 else x, False),
    "an array twice": (lambda x, y: (y, y), False),
    "an array that is returned": (lambda x, y: y, False),
}


@each_backend
@pytest.mark.parametrize("name", STORED)
def test_inner_gradient_stores_an_array(name: str, backend: str) -> None:
    make, is_own = STORED[name]
    x, has_aux = np.array([1.0, 2.0, 3.0]), name == "an array that is returned"

    def f(x: Any) -> Any:
        y = x * 2.0
        LAST["of f"] = make(x, y)
        return (np.sum(x**3), y) if has_aux else np.sum(x**3)

    derivative = tg.jacfwd(tg.grad(f, has_aux=has_aux), has_aux=has_aux, backend=backend)
    LAST.clear()
    if not is_own:
        with pytest.raises(TracegradError, match="TG208"):
            derivative(x)
        assert not LAST
        return
    np.testing.assert_allclose(derivative(x), np.diag(6 * x), rtol=1e-14)
    found = LAST.pop("of f")
    f(x)
    expected = LAST["of f"]
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for mine, right in pairs:
        np.testing.assert_array_equal(mine, right)


@each_backend
def test_an_array_that_an_inner_gradient_stores_carries_derivatives(backend: str) -> None:
    def outer(x: Any) -> Any:
        kept = {"last": 0.0 * x}

        def inner(y: Any) -> Any:
            kept["last"] = (2.0 * y) ** 2
            return np.sum((2.0 * y) ** 3)

        for _ in range(3):
            slope = tg.grad(inner)(x)
        kept["last"][0] = 5.0
        return np.sum(slope * kept["last"])

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(tg.grad(outer, backend=backend)(x), [240.0, *(384 * x[1:] ** 3)], rtol=1e-13)


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any


def store(y: Any, kept: Any) -> Any:
    if isinstance(kept, Pair):
        kept.second = y * 3
    elif isinstance(kept, dict):
        kept["second"] = y * 3
    else:
        kept[1] = y * 3
    return np.sum(y * y)


def append(y: Any, kept: Any) -> Any:
    kept.append(y * 3)
    return np.sum(y * y)


CALLS: dict[str, Callable[[Callable[..., Any], Any, Any], Any]] = {
    "grad": lambda f, x, kept: tg.grad(f)(x, kept),
    "jvp": lambda f, x, kept: tg.jvp(f, (x, kept), (x, None)),
    "linearize": lambda f, x, kept: tg.linearize(f, x, kept),
    "hessian": lambda f, x, kept: tg.hessian(f)(x, kept),
    "vmap": lambda f, x, kept: tg.vmap(f, in_axes=(0, None))(np.stack([x, x]), kept),
    "checkpoint": lambda f, x, kept: tg.checkpoint(f)(x, kept),
    "custom_jvp": lambda f, x, kept: with_rule(f)(x, kept),
}


def with_rule(f: Callable[..., Any]) -> Any:
    made = tg.custom_jvp(f)
    made.defjvp(lambda primals, tangents: (f(*primals), np.sum(tangents[0])))
    return made


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("inner", "make"),
    [
        (store, lambda x: [x * 1.0, x * 2.0]),
        (store, lambda x: {"first": x * 1.0, "second": x * 2.0}),
        (store, lambda x: Pair(x * 1.0, x * 2.0)),
        (append, lambda x: [x * 1.0]),
    ],
    ids=["item", "key", "field", "append"],
)
def test_stores_into_containers_that_are_arguments_are_refused(
    name: str, inner: Callable[..., Any], make: Callable[[Any], Any]
) -> None:
    def f(x: Any) -> Any:
        CALLS[name](inner, x, make(x))
        return np.sum(x)

    with pytest.raises(tg.errors.CaptureError, match=r"TG208|TG225|TG234"):
        tg.function(f)(np.array([1.0, 2.0]))


def write_first(a: Any, b: Any) -> Any:
    a[0] = 7 * a[1]
    return np.sum(a) + np.sum(b * a[0])


def write_last(a: Any, b: Any) -> Any:
    total = np.sum(b)
    a[0] = total * a[1]
    return np.sum(a)


WRITERS: dict[str, Callable[[Callable[..., Any], Any, Any], Any]] = {
    "grad": lambda f, a, b: tg.grad(f, argnums=(0, 1))(a, b)[0],
    "grad by one": lambda f, a, b: tg.grad(f)(a, b),
    "vmap": lambda f, a, b: tg.vmap(f)(np.reshape(a, (1, -1)), np.reshape(b, (1, -1))),
    "checkpoint": lambda f, a, b: tg.checkpoint(f)(a, b),
}


@pytest.mark.parametrize("name", WRITERS)
def test_an_array_passed_twice_is_not_read_after_a_write(name: str) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        return np.sum(WRITERS[name](write_first, y, y)) + np.sum(y)

    def g(x: Any) -> Any:
        y = x * 1.0
        return np.sum(WRITERS[name](write_last, y, y)) + np.sum(y)

    with pytest.raises(tg.errors.TracegradError, match="TG136"):
        tg.function(f)(np.array([1.0, 2.0]))
    assert tg.function(g)(np.array([1.0, 2.0])) > 0


@each_backend
@pytest.mark.parametrize("name", ["grad", "checkpoint"])
def test_rows_of_one_array_are_written_apart(name: str, backend: str) -> None:
    def f(x: Any) -> Any:
        rows = np.outer(x, x)
        return np.sum(WRITERS[name](write_first, rows[0], rows[1])) + np.sum(rows)

    def g(x: Any) -> Any:
        first, second = np.outer(x, x)[0], np.outer(x, x)[1]
        return np.sum(WRITERS[name](write_first, first, second)) + np.sum(first) + np.sum(second)

    x = np.array([1.0, 2.0])
    assert np.allclose(tg.value_and_grad(f, backend=backend)(x)[1], tg.value_and_grad(g)(x)[1])
    assert tg.function(f, backend=backend)(x) == tg.function(g)(x)


def announce(x: Any) -> Any:
    total = 0.0
    for i in range(2):
        total = total + x[i] ** 2
        print("after", i)
    return total


ANNOUNCED: dict[str, Callable[[Any], Any]] = {
    "grad": lambda x: tg.grad(announce)(x),
    "jvp": lambda x: tg.jvp(announce, (x,), (x,)),
    "vjp": lambda x: [pull(1.0) for pull in [tg.vjp(announce, x)[1]] for _ in range(2)],
    "linearize": lambda x: [push(x) for push in [tg.linearize(announce, x)[1]] for _ in range(2)],
    "jacfwd": lambda x: tg.jacfwd(announce)(x),
    "jacrev": lambda x: tg.jacrev(lambda x: np.array([announce(x), x[0]]))(x),
    "jacobian with aux": lambda x: tg.jacobian(lambda x: (announce(x), x), has_aux=True)(x),
    "hessian": lambda x: tg.hessian(announce)(x),
    "hessian_diagonal": lambda x: tg.hessian_diagonal(announce)(x),
    "hvp": lambda x: tg.hvp(announce, (x,), (x,)),
    "vjp inside": lambda x: tg.function(lambda x: tg.vjp(announce, x)[1](1.0)[0])(x),
    "linearize inside": lambda x: tg.function(lambda x: tg.linearize(announce, x)[1](x))(x),
    "hessian inside": lambda x: tg.function(lambda x: tg.hessian(announce)(x))(x),
}


@pytest.mark.parametrize("name", ANNOUNCED)
def test_a_derivative_prints_what_the_function_prints_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    ANNOUNCED[name](np.array([1.0, 2.0]))
    assert capsys.readouterr().out == "after 0\nafter 1\n"


@each_backend
def test_linearize_stores_into_objects_once(backend: str) -> None:
    counts = {"calls": 0, "last": 0.0}

    def f(x: Any) -> Any:
        counts["calls"] += 1
        counts["last"] = x[0]
        return np.sum(x**2)

    _, push = tg.linearize(f, np.array([1.0, 2.0]), backend=backend)
    counts["last"] = 5.0
    assert [push(DIRECTION), push(DIRECTION)] == [14.0, 14.0]
    assert counts == {"calls": 1, "last": 5.0}


def test_a_sweep_checks_what_the_function_checks() -> None:
    def f(x: Any) -> Any:
        y = x[0]
        while y < 10:
            if x[1] == 0:
                raise ValueError("no factor")
            y = y * x[1]
        return y

    for transform in (tg.jacfwd, tg.jacrev, tg.hessian, tg.hessian_diagonal):
        with pytest.raises(ValueError, match="no factor"):
            transform(f)(np.array([1.0, 0.0]))
    assert tg.jacfwd(f)(np.array([20.0, 0.0])).tolist() == [1.0, 0.0]


def test_a_derivative_by_nothing_still_checks() -> None:
    def f(x: Any, k: Any) -> Any:
        if k > 2:
            raise ValueError("k is too large")
        return np.sum(x) * 2.0

    assert tg.jacfwd(f)(np.zeros(0), np.array(1)).shape == (0,)
    with pytest.raises(ValueError, match="too large"):
        tg.jacfwd(f)(np.zeros(0), np.array(3))
