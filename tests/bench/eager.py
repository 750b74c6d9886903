"""Eager tensors beside torch and HIPS autograd, in four programs.

Run by `python -m tests.bench.eager`, and by `python -m tests.bench` for its table; medians of CPU time, measured in
turn in one run. A library that is not installed is left out. Single thread, float32.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad as tg

ROUNDS = 60
ROUND_S = 0.004

Step = Callable[[], Any]


def _arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


NETWORK = ((16, 10), (16, 1), (10, 32), (32,), (32, 1), (1,))


def network(T: Any) -> Step:
    """Forward and backward of a network 10 -> 32 -> 1 on a batch of 16, under tracegrad or torch."""
    x, y, *parameters = (T.from_numpy(a) for a in _arrays(*NETWORK))
    w1, b1, w2, b2 = (p.requires_grad_() for p in parameters)

    def step() -> Any:
        loss = ((T.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean()
        loss.backward()
        gradients = [p.grad for p in parameters]
        for p in parameters:
            p.grad = None
        return [loss.detach(), *gradients]

    return step


def network_autograd() -> Step:
    """The same under HIPS autograd."""
    numpy = importlib.import_module("autograd.numpy")
    value_and_grad = importlib.import_module("autograd").value_and_grad
    x, y, *parameters = _arrays(*NETWORK)

    def loss(parameters: Any) -> Any:
        w1, b1, w2, b2 = parameters
        return numpy.mean((numpy.dot(numpy.tanh(numpy.dot(x, w1) + b1), w2) + b2 - y) ** 2)

    both = value_and_grad(loss)

    def step() -> Any:
        value, gradients = both(parameters)
        return [value, *gradients]

    return step


def network_by_hand() -> Step:
    """The same in plain NumPy."""
    x, y, w1, b1, w2, b2 = _arrays(*NETWORK)

    def step() -> Any:
        h = np.tanh(x @ w1 + b1)
        d = h @ w2 + b2 - y
        ct = d * np.float32(2 / 16)
        ct_z = (ct @ w2.T) * (1 - h * h)
        return [np.mean(d**2), x.T @ ct_z, ct_z.sum(0), h.T @ ct, ct.sum(0)]

    return step


def training(T: Any) -> Step:
    """A training step of a classifier made of modules, with Adam."""
    x, *weights = _arrays((32, 20), (64, 20), (64, 64), (5, 64))
    inputs = T.from_numpy(x)
    target = T.from_numpy(np.arange(32) % 5)
    nn = T.nn
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5))
    with T.no_grad():
        for p, w in zip([p for p in model.parameters() if p.ndim == 2], weights, strict=True):
            p.copy_(T.from_numpy(w * np.float32(0.1)))
        for p in model.parameters():
            if p.ndim == 1:
                p.zero_()
    optimizer = T.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        logits = model(inputs)
        loss = nn.functional.cross_entropy(logits, target) + 0.01 * T.softmax(logits, dim=1).square().mean()
        loss.backward()
        optimizer.step()
        return [loss.detach()]

    return step


def chain(T: Any) -> Step:
    """Forward and backward of 1000 multiplications of numbers."""
    (x,) = (T.from_numpy(a).requires_grad_() for a in _arrays(()))

    def step() -> Any:
        y = x
        for _ in range(1000):
            y = y * 1.001
        y.backward()
        gradient = x.grad
        x.grad = None
        return [y.detach(), gradient]

    return step


def chain_autograd() -> Step:
    """The same under HIPS autograd."""
    value_and_grad = importlib.import_module("autograd").value_and_grad
    (x,) = _arrays(())

    def chained(x: Any) -> Any:
        for _ in range(1000):
            x = x * 1.001
        return x

    both = value_and_grad(chained)
    return lambda: both(float(x))


def views(T: Any) -> Step:
    """Forward and backward through slices, reshapes and writes in place."""
    x, w = (T.from_numpy(a) for a in _arrays((8, 12), (12, 4)))
    w.requires_grad_()

    def step() -> Any:
        h = x @ w
        h[:, 0] = h[:, 1] * 2.0
        h[0] += 1.0
        parts = h.view(2, 4, 4).transpose(0, 1).reshape(4, 8)
        parts = parts[:, ::2].clone()
        parts.mul_(0.5)
        parts[1:].add_(1.0)
        loss = (parts.t() @ parts).sum()
        loss.backward()
        gradient = w.grad
        w.grad = None
        return [loss.detach(), gradient]

    return step


#: name, the program for tracegrad and torch, and the same for others
PROGRAMS: tuple[tuple[str, Callable[[Any], Step], dict[str, Callable[[], Step]]], ...] = (
    ("small network", network, {"autograd": network_autograd, "NumPy by hand": network_by_hand}),
    ("training step, modules and Adam", training, {}),
    ("chain of 1000 multiplications", chain, {"autograd": chain_autograd}),
    ("views and writes in place", views, {}),
)


def contestants(program: Callable[[Any], Step], others: dict[str, Callable[[], Step]]) -> dict[str, Step]:
    """Return the steps of the libraries that are installed."""
    steps = {"tracegrad": program(tg)}
    try:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        steps["torch"] = program(torch)
    except ImportError:
        pass
    for name, make in others.items():
        try:
            steps[name] = make()
        except ImportError:
            pass
    return steps


def medians_s(steps: dict[str, Step]) -> dict[str, float]:
    """Return the median time of one call of each, measured in turn."""
    counts = {}
    for name, step in steps.items():
        for _ in range(20):
            step()
        start_s = time.perf_counter()
        step()
        counts[name] = max(1, int(ROUND_S / (time.perf_counter() - start_s)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            start_s = time.process_time()  # other work on the machine does not count
            for _ in range(counts[name]):
                step()
            times[name].append((time.process_time() - start_s) / counts[name])
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Print the table."""
    for program, make, others in PROGRAMS:
        found = medians_s(contestants(make, others))
        print(program)
        for name, median in found.items():
            print(f"  {name:14s} {median * 1e6:8.1f} µs   {median / found['tracegrad']:5.2f} × tracegrad")


if __name__ == "__main__":
    main()
