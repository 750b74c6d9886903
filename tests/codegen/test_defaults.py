"""The function of a dumped text is called as the user's: its defaults are those of the user's function."""

import functools

import numpy as np
import pytest

import tracegrad as tg

X = np.array([1.0, 2.0])
WEIGHTS = np.array([0.5, 2.0])


def numbers(x, steps=3, dt=0.1, limit=float("inf"), below=-2.5):
    for _ in range(steps):
        x = x + dt * np.sin(x)
    return np.sum(np.clip(x, below, limit))


def structures(x, mode="square", w=None, pair=(2.0, (3, "a")), table={"a": 0.5}):  # noqa: B006
    y = x**2 if mode == "square" and w is None else x
    return np.sum(y) * pair[0] * pair[1][0] * table["a"]


def functions(x, activation=np.tanh, scale=2.0):
    return np.sum(activation(x)) * scale


def by_keyword(x, *, power=2.0, steps=2):
    return np.sum(x**power) * steps


def outside(x, scale=2.0):
    return np.sum(x * WEIGHTS) * scale


def more(x, *rest, scale=2.0):
    return np.sum(x) * sum(rest) * scale


def dumped(function, *args, transform=tg.grad, **kwargs):
    text = transform(function).source(*args, backend="numpy", **kwargs)
    space = {}
    exec(compile(text, "dumped.py", "exec"), space)
    return [made for made in space.values() if callable(made)][-1]


@pytest.mark.parametrize("function", [numbers, structures, functions, by_keyword])
def test_call_without_the_arguments_that_have_defaults(function):
    assert np.array_equal(dumped(function, X)(X), tg.grad(function)(X))


def test_signature_as_the_user_wrote_it():
    text = tg.grad(numbers).source(X, backend="numpy")
    assert "def numbers_grad(x, steps=3, dt=0.1, limit=np.inf, below=-2.5):" in text
    text = tg.grad(structures).source(X, backend="numpy")
    assert 'def structures_grad(x, mode="square", w=None, pair=(2.0, (3, "a")), table={"a": 0.5}):' in text
    assert "def functions_grad(x, activation=None, scale=2.0):" in tg.grad(functions).source(X, backend="numpy")


def test_other_values_are_given_as_to_the_users_function():
    made = dumped(numbers, X)
    assert np.array_equal(made(X, 3, 0.2, below=1.5), tg.grad(numbers)(X, 3, 0.2, below=1.5))
    assert np.array_equal(dumped(by_keyword, X)(X, power=3.0), tg.grad(by_keyword)(X, power=3.0))


def test_no_default_of_which_the_code_means_another():
    made = dumped(numbers, X, 5)  # the user's function would do 3 steps
    with pytest.raises(TypeError, match="steps"):
        made(X)
    assert np.array_equal(made(X, 5), tg.grad(numbers)(X, 5))
    with pytest.raises(TypeError, match="w"):
        dumped(structures, X, "square", X)(X, "square")


def test_no_default_where_sizes_were_computed_from_another():
    def padded(x, length=4.0):
        return np.sum(np.append(x, np.ones(int(length)))) * length

    assert dumped(padded, X, transform=tg.function)(X) == padded(X)
    with pytest.raises(TypeError, match="length"):
        dumped(padded, X, 6.0, transform=tg.function)(X)


def test_what_is_read_from_outside_goes_by_keyword():
    text = tg.grad(outside).source(X, backend="numpy")
    assert "# by keyword: WEIGHTS, read from outside at each call" in text
    assert np.array_equal(dumped(outside, X)(X, WEIGHTS=WEIGHTS), tg.grad(outside)(X))


def test_arguments_that_have_no_default():
    assert np.array_equal(dumped(more, X, 2.0, 3.0)(X, 2.0, 3.0), tg.grad(more)(X, 2.0, 3.0))

    def between(x, steps=3, w=X):
        return np.sum(x * w) * steps

    assert np.array_equal(dumped(between, X)(X, 3, X), tg.grad(between)(X))


def test_partial_functions_have_the_defaults_that_they_give():
    assert np.array_equal(dumped(functools.partial(numbers, steps=7), X)(X), tg.grad(numbers)(X, 7))
