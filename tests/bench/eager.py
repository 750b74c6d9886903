"""Eager tensors beside torch and HIPS autograd: forward and backward of a network 10 -> 32 -> 1 on a batch of 16.

Run by `python -m tests.bench.eager`; prints medians of CPU time, measured in turn in one run. A library that is not
installed is left out. Single thread, float32.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad as tg

ROUNDS, CALLS = 60, 30


def arrays() -> list[np.ndarray]:
    """Return input, target and the four parameters."""
    rng = np.random.default_rng(0)
    shapes = ((16, 10), (16, 1), (10, 32), (32,), (32, 1), (1,))
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


def with_tensors(T: Any) -> Callable[[], Any]:
    """Return one step under tracegrad or torch."""
    x, y, *parameters = (T.from_numpy(a.copy()) for a in arrays())
    w1, b1, w2, b2 = (p.requires_grad_() for p in parameters)

    def step() -> Any:
        loss = ((T.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean()
        loss.backward()
        gradients = [p.grad for p in parameters]
        for p in parameters:
            p.grad = None
        return [loss.detach(), *gradients]

    return step


def with_autograd() -> Callable[[], Any]:
    """Return one step under HIPS autograd."""
    numpy = importlib.import_module("autograd.numpy")
    value_and_grad = importlib.import_module("autograd").value_and_grad
    x, y, *parameters = arrays()

    def loss(parameters: Any) -> Any:
        w1, b1, w2, b2 = parameters
        return numpy.mean((numpy.dot(numpy.tanh(numpy.dot(x, w1) + b1), w2) + b2 - y) ** 2)

    both = value_and_grad(loss)

    def step() -> Any:
        value, gradients = both(parameters)
        return [value, *gradients]

    return step


def by_hand() -> Callable[[], Any]:
    """Return one step in plain NumPy."""
    x, y, w1, b1, w2, b2 = arrays()

    def step() -> Any:
        h = np.tanh(x @ w1 + b1)
        d = h @ w2 + b2 - y
        ct = d * np.float32(2 / 16)
        ct_z = (ct @ w2.T) * (1 - h * h)
        return [np.mean(d**2), x.T @ ct_z, ct_z.sum(0), h.T @ ct, ct.sum(0)]

    return step


def contestants() -> dict[str, Callable[[], Any]]:
    """Return the steps of the libraries that are installed."""
    steps = {"tracegrad": with_tensors(tg), "NumPy by hand": by_hand()}
    try:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        steps["torch"] = with_tensors(torch)
    except ImportError:
        pass
    try:
        steps["autograd"] = with_autograd()
    except ImportError:
        pass
    return steps


def medians_s(steps: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median time of one call of each, measured in turn."""
    for step in steps.values():
        for _ in range(50):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            start_s = time.process_time()  # other work on the machine does not count
            for _ in range(CALLS):
                step()
            times[name].append((time.process_time() - start_s) / CALLS)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Print the table."""
    found = medians_s(contestants())
    own = found["tracegrad"]
    for name, median in found.items():
        print(f"{name:14s} {median * 1e6:8.1f} µs   {median / own:5.2f} × tracegrad")


if __name__ == "__main__":
    main()
