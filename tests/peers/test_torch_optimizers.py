"""Optimizers and schedules take torch's steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

# ruff: noqa: E501
torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

OPTIMIZERS: list[Callable[[Any, Any], Any]] = [
    lambda o, p: o.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True),
    lambda o, p: o.SGD(p, lr=0.05, momentum=0.5, dampening=0.3, maximize=True),
    lambda o, p: o.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True), lambda o, p: o.AdamW(p, lr=0.1, betas=(0.8, 0.99)),
    lambda o, p: o.RMSprop(p, lr=0.05, momentum=0.5), lambda o, p: o.Adagrad(p, lr=0.3, lr_decay=0.1),
    lambda o, p: o.Adadelta(p, lr=2.0, weight_decay=0.1), lambda o, p: o.Adamax(p, lr=0.1, weight_decay=0.1),
    lambda o, p: o.NAdam(p, lr=0.1, weight_decay=0.1), lambda o, p: o.RAdam(p, lr=0.1, betas=(0.8, 0.9)),
    lambda o, p: o.LBFGS(p, lr=0.3, max_iter=4), lambda o, p: o.LBFGS(p, lr=0.5, history_size=3, line_search_fn="strong_wolfe"),
    lambda o, p: o.LBFGS(p, max_iter=6, line_search_fn="strong_wolfe"),
]  # fmt: skip


@pytest.mark.parametrize("make", OPTIMIZERS, ids=range(len(OPTIMIZERS)))
def test_optimizer(make: Callable[[Any, Any], Any], rng: np.random.Generator) -> None:
    start, scale = rng.normal(size=(3, 4)), rng.uniform(0.2, 3.0, (3, 4))
    paths = []
    for T in (tg, torch):
        x, b = T.tensor(start, requires_grad=True), T.tensor(start[0], requires_grad=True)
        weights = T.tensor(scale)
        optimizer = make(T.optim, [x, b])
        evaluations = [0]

        def closure(
            optimizer: Any = optimizer, x: Any = x, b: Any = b, w: Any = weights, count: Any = evaluations
        ) -> Any:
            optimizer.zero_grad()
            loss = (w * (x - b).square()).sum() + (x.sin() * b).mean() + 0.1 * (x**4).sum()
            loss.backward()
            count[0] += 1
            return loss

        path = []
        for _ in range(9):
            loss = optimizer.step(closure)
            path += [float(loss.detach()), *x.detach().numpy().ravel(), *b.detach().numpy(), float(evaluations[0])]
        paths.append(path)
    np.testing.assert_allclose(*paths, rtol=1e-7, atol=1e-9)


COMPLEX: list[Callable[[Any, Any], Any]] = [
    *OPTIMIZERS, lambda o, p: o.RMSprop(p, lr=0.05, centered=True, weight_decay=0.1), lambda o, p: o.RMSprop(p, maximize=True),
    lambda o, p: o.Adagrad(p, initial_accumulator_value=0.3), lambda o, p: o.AdamW(p, amsgrad=True, weight_decay=0.2),
    lambda o, p: o.SGD(p, lr=0.05), lambda o, p: o.NAdam(p, decoupled_weight_decay=True, weight_decay=0.1),
]  # fmt: skip


@pytest.mark.parametrize("make", COMPLEX, ids=range(len(COMPLEX)))
def test_complex_parameters(make: Callable[[Any, Any], Any], rng: np.random.Generator) -> None:
    start = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    paths, states = [], []
    for T in (tg, torch):
        z, b = T.tensor(start, requires_grad=True), T.tensor(start[0].real, requires_grad=True)
        optimizer = make(T.optim, [z, b])

        def closure(optimizer: Any = optimizer, z: Any = z, b: Any = b) -> Any:
            optimizer.zero_grad()
            loss = ((z * z - 1j * b).abs() ** 2).sum() + (z.real * b).sin().sum()
            loss.backward()
            return loss

        path: list[Any] = []
        for _ in range(5):
            optimizer.step(closure)
            path += [*z.detach().numpy().ravel(), *b.detach().numpy()]
        paths.append(path)
        states.append({
            number: {name: (str(kept.dtype), kept.numpy()) for name, kept in each.items() if hasattr(kept, "numpy")}
            for number, each in optimizer.state_dict()["state"].items()
            if not isinstance(optimizer, T.optim.LBFGS)
        })  # fmt: skip
    np.testing.assert_allclose(*paths, rtol=1e-7, atol=1e-9)
    ours, theirs = states
    assert {k: sorted(v) for k, v in ours.items()} == {k: sorted(v) for k, v in theirs.items()}
    for number, each in theirs.items():
        for name, (dtype, kept) in each.items():
            assert ours[number][name][0] == dtype
            np.testing.assert_allclose(ours[number][name][1], kept, rtol=1e-6, atol=1e-9)


def test_adafactor_refuses_complex_parameters() -> None:
    for T in (tg, torch):
        z = T.ones(2, dtype=T.complex64, requires_grad=True)
        (z.abs() ** 2).sum().backward()
        with pytest.raises(RuntimeError, match="Adafactor does not support complex parameters"):
            T.optim.Adafactor([z]).step()


SCHEDULES: list[Callable[[Any, Any], Any]] = [
    lambda s, o: s.ConstantLR(o, 0.5, 3), lambda s, o: s.LinearLR(o, 0.2, 0.9, 6), lambda s, o: s.PolynomialLR(o, 7, 2.0),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01), lambda s, o: s.CyclicLR(o, 0.1, 0.5, 3, mode="triangular2"),
    lambda s, o: s.OneCycleLR(o, 0.5, total_steps=12),
    lambda s, o: s.OneCycleLR(o, 0.5, epochs=3, steps_per_epoch=4, anneal_strategy="linear", pct_start=0.4),
    lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], [4]),
]  # fmt: skip


@pytest.mark.parametrize("make", SCHEDULES, ids=range(len(SCHEDULES)))
def test_schedule(make: Callable[[Any, Any], Any]) -> None:
    rates = []
    for T in (tg, torch):
        optimizer = T.optim.SGD([T.ones(1, requires_grad=True)], lr=0.1, momentum=0.9)
        schedule = make(T.optim.lr_scheduler, optimizer)
        found = [schedule.get_last_lr()[0]]
        for _ in range(11):
            optimizer.step()
            schedule.step()
            found += [schedule.get_last_lr()[0], optimizer.param_groups[0]["momentum"]]
        rates.append(found)
    np.testing.assert_allclose(*rates, rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"mode": "max", "cooldown": 1}, {"threshold_mode": "abs", "min_lr": 0.03}])
def test_plateau(options: dict[str, Any]) -> None:
    measures = [1.0, 0.9, 0.95, 0.9, 0.91, 0.92, 0.89, 0.9, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6]
    rates = []
    for T in (tg, torch):
        optimizer = T.optim.SGD([T.ones(1, requires_grad=True)], lr=0.1)
        schedule = T.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, **options)
        found = []
        for measure in measures:
            schedule.step(T.tensor(measure))
            found.append(schedule.get_last_lr()[0])
        rates.append(found)
    np.testing.assert_allclose(*rates, rtol=1e-9)
