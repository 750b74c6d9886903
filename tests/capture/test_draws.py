"""Random numbers in captured code: constants where the generator is made from a constant seed, refused elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

X = np.array([0.3, 1.2, -0.7, 2.1, 0.9, -1.4])
OUTSIDE = np.random.default_rng(0)
ORDER = np.arange(6.0).reshape(3, 2)


def plain(x: Any) -> Any:
    rng = np.random.default_rng(0)
    return np.sum(x * rng.normal(size=x.shape) + rng.standard_t(3.0, size=6) * x)


def in_an_unrolled_loop(x: Any) -> Any:
    rng = np.random.default_rng(0)
    total = 0.0
    for i in range(5):
        total = total + x[i] * rng.normal()
    for v in x:
        total = total + v * rng.normal()
    return total


def in_comprehensions(x: Any) -> Any:
    rng = np.random.default_rng(0)
    return sum([rng.normal() * v for v in x]) + np.sum(np.array([rng.normal() for _ in range(6)]) * x)


def with_traced_parameters(x: Any) -> Any:
    rng = np.random.default_rng(seed=3)
    size = np.abs(x)
    noise = rng.normal(x, size, size=6) + rng.normal(x[0], 2.0) + rng.uniform(x, 3)
    noise = noise + rng.laplace(x, size) + rng.logistic(x, size) + rng.gumbel(x, size)
    noise = noise + rng.exponential(size) + rng.rayleigh(size, size=(2, 6))
    return np.sum(noise) + rng.lognormal(x[0], size[1] / 4, 3)[0]


def chosen(x: Any) -> Any:
    rng = np.random.default_rng(seed=3)
    drawn = x[rng.integers(0, 6, 6)] + 2 * rng.choice(x, 6) + 3 * rng.choice(x, 6, replace=False)
    return np.sum((drawn + rng.permutation(x) + x[rng.permutation(6)]) * np.arange(6.0))


def chosen_along_an_axis(x: Any) -> Any:
    rng = np.random.default_rng(seed=3)
    rows, line = x.reshape(3, 2) * 1.0, x * 1.0
    total = np.sum(rng.permutation(rows) * ORDER)
    rng.shuffle(rows)
    rng.shuffle(line)
    total += np.sum(rng.permutation(rows, axis=1) * ORDER) + np.sum(rows * ORDER) + np.sum(line * np.arange(6.0))
    return total + np.sum(rng.choice(rows, 2, axis=1)[0]) + rng.choice(rows, 2, replace=False, shuffle=False)[0, 1]


def of_the_older_class(x: Any) -> Any:
    rng = np.random.RandomState(0)
    rows, line = x.reshape(3, 2) * 1.0, x * 1.0
    rng.shuffle(line)
    rng.shuffle(rows)
    noise = x * rng.randn(6) * rng.rand(6) + rng.permutation(x) * np.arange(6) + line * np.arange(6) + rng.normal(x, 1)
    return np.sum(noise) + np.sum((rows + rng.permutation(rows)) * ORDER) + rng.choice(x)


def of_python(x: Any) -> Any:
    rng = random.Random(1)
    values = list(x)
    rng.shuffle(values)
    total = x[0] * rng.gauss(0, 1) + rng.random() * x[1] + values[0] * 2 + rng.choice(x) + rng.choice(list(x))
    return total + rng.gauss(x[0], 2.0) + rng.uniform(x[0], x[1]) + rng.normalvariate(x[0], 1.0)


def _noisy(x: Any, rng: Any) -> Any:
    return x * rng.standard_normal(6)


def in_a_helper(x: Any) -> Any:
    rng = np.random.default_rng(0)
    return np.sum(_noisy(x, rng) - _noisy(x**2, rng))


class Walk:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def step(self, x: Any) -> Any:
        return x * self.rng.normal(size=6)


def in_an_object(x: Any) -> Any:
    walk = Walk(4)
    return np.sum(walk.step(x) + walk.step(walk.step(x)))


def seeded_by_the_loop(x: Any) -> Any:
    total = 0.0
    for k in range(4):
        total = total + np.random.default_rng(k).normal() * x[k]
    return total


def made_in_a_staged_loop(x: Any) -> Any:
    total = 0.0
    for k in range(400):
        rng = np.random.default_rng(1)
        total = total + rng.normal() * x[k % 6]
    return total


def before_a_staged_loop(x: Any) -> Any:
    noise = np.random.default_rng(0).normal(size=(200, 6))
    total = 0.0
    for k in range(200):
        total = total + np.sum(noise[k] * x)
    return total


def of_several_generators(x: Any) -> Any:
    first, second = np.random.Generator(np.random.PCG64(3)).spawn(2)
    third = np.random.default_rng(np.random.SeedSequence(4).spawn(2)[0])
    return np.sum(x * (first.normal(size=6) + second.normal(size=6) + third.normal(size=6)))


def beside_a_loop_that_changes_a_list(x: Any) -> Any:
    rng, kept = np.random.default_rng(0), []
    for i in range(3):
        kept.append(rng.normal() * x[i])
        while len(kept) > 2:
            kept.pop()
    return sum(kept)


def in_a_try(x: Any) -> Any:
    rng = np.random.default_rng(0)
    try:
        y = rng.normal() * x[0]
    except ValueError:
        y = 0.0
    return y + rng.normal() * x[1]


PROGRAMS: tuple[Callable[[Any], Any], ...] = (
    *(plain, in_an_unrolled_loop, in_comprehensions, with_traced_parameters, chosen, chosen_along_an_axis),
    *(of_the_older_class, of_python, in_a_helper, in_an_object, seeded_by_the_loop, made_in_a_staged_loop),
    *(before_a_staged_loop, of_several_generators, beside_a_loop_that_changes_a_list, in_a_try),
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program: Callable[[Any], Any], backend: str) -> None:
    check_agreement(program, backend, X, X[::-1].copy())


def test_sizes_that_are_symbolic() -> None:
    @tg.function(dynamic=True)
    def f(x: Any) -> Any:
        return np.sum(x * np.random.default_rng(0).normal(size=len(x)))

    for n in (3, 5, 3):
        np.testing.assert_allclose(f(np.ones(n)), np.sum(np.random.default_rng(0).normal(size=n)), rtol=1e-12)


def test_seed_from_outside_is_read_again() -> None:
    space: dict[str, Any] = {"np": np, "SEED": 0}
    exec("def f(x):\n    return x * np.random.default_rng(SEED).normal()", space)
    compiled = tg.grad(space["f"])
    for seed in (0, 1):
        space["SEED"] = seed
        assert compiled(2.0) == np.random.default_rng(seed).normal()


def fresh(x: Any) -> Any:
    return np.sum(x + np.random.default_rng(None).normal(size=6))


def from_outside(x: Any) -> Any:
    return np.sum(x + OUTSIDE.normal(size=6))


def of_the_module(x: Any) -> Any:
    np.random.seed(0)
    return np.sum(x + np.random.normal(size=6))


def of_the_module_of_python(x: Any) -> Any:
    return np.sum(x) * random.random()


def under_a_condition(x: Any) -> Any:
    rng = np.random.default_rng(0)
    return rng.normal() * x[0] if x[0] > 0 else x[1]


def in_a_long_loop(x: Any) -> Any:
    rng = np.random.default_rng(0)
    total = 0.0
    for _ in range(400):
        total = total + x[0] * rng.normal()
    return total


def in_a_while_loop(x: Any) -> Any:
    rng = np.random.default_rng(0)
    total = x[0]
    while total < 10:
        total = total + abs(rng.normal())
    return total


def with_a_traced_seed(x: Any) -> Any:
    return np.random.default_rng(int(x[0])).normal() * x[1]


def with_a_traced_shape_parameter(x: Any) -> Any:
    return np.random.default_rng(0).gamma(x[1])


def in_an_inner_gradient(x: Any) -> Any:
    rng = np.random.default_rng(0)
    return np.sum(tg.grad(lambda v: np.sum(v * rng.normal(size=6)))(x))


REFUSED: dict[Callable[[Any], Any], str] = {
    fresh: "the same draw at every call",
    from_outside: r"make the generator in the function: `rng = np.random.default_rng\(0\)`",
    of_the_module: "the same draw at every call",
    of_the_module_of_python: "the same draw at every call",
    under_a_condition: "drawn in a staged loop or branch",
    in_a_long_loop: "draw all numbers before it",
    in_a_while_loop: "drawn in a staged loop or branch",
    with_a_traced_seed: "a traced value as the seed of a generator",
    with_a_traced_shape_parameter: "a traced value as an argument of `gamma`",
    in_an_inner_gradient: "a function that stays a call",
}


@pytest.mark.parametrize("program", REFUSED, ids=lambda f: f.__name__)
def test_refused(program: Callable[[Any], Any]) -> None:
    with pytest.raises(CaptureError, match=REFUSED[program]):
        tg.grad(program)(X)


def test_scipy_draws() -> None:
    stats = pytest.importorskip("scipy.stats")
    compiled = tg.grad(lambda x: np.sum(x * stats.norm.rvs(size=6, random_state=0)))
    np.testing.assert_array_equal(compiled(X), stats.norm.rvs(size=6, random_state=0))
    with pytest.raises(CaptureError, match="the same draw at every call"):
        tg.grad(lambda x: np.sum(x * stats.norm.rvs(size=6)))(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_negative_scale(backend: str) -> None:
    def f(x: Any) -> Any:
        return np.random.default_rng(0).normal(0.0, x)

    assert tg.grad(f, backend=backend)(2.0) == np.random.default_rng(0).normal()
    with pytest.raises(ValueError, match="scale < 0"):
        tg.grad(f, backend=backend)(-2.0)
