"""Train a two-layer network on scikit-learn's handwritten digits with a compiled C gradient.

The loss is plain NumPy. `tg.value_and_grad(..., backend="c")` turns it into C, compiles it on the first call and keeps
it in the cache; Adam below is plain NumPy too. Run as `python examples/digits.py`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import tracegrad as tg


def logits(params, images):
    hidden = np.tanh(images @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss(params, images, labels):
    scores = logits(params, images)
    scores = scores - np.max(scores, axis=1, keepdims=True)
    log_p = scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))
    decay = np.sum(params["w1"] ** 2) + np.sum(params["w2"] ** 2)
    return -np.mean(log_p[np.arange(len(labels)), labels]) + 1e-4 * decay


@dataclass
class Training:
    """What a training run gave."""

    losses: list[float]
    accuracy: float
    compile_s: float
    train_s: float
    gradient_s: float
    steps: int


def load_data(seed=0):
    """Return images (64 pixels from 0 to 1) and labels, for training and for testing."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images, labels = images[order] / 16.0, labels[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def train(epochs=40, hidden=48, batch=64, rate=0.01, seed=0, console=None):
    images, labels, test_images, test_labels = load_data(seed)
    rng = np.random.default_rng(seed)
    params = {
        "w1": rng.normal(size=(64, hidden)) / 8,
        "b1": np.zeros(hidden),
        "w2": rng.normal(size=(hidden, 10)) / np.sqrt(hidden),
        "b2": np.zeros(10),
    }
    first = {name: np.zeros_like(value) for name, value in params.items()}
    second = {name: np.zeros_like(value) for name, value in params.items()}
    gradient = tg.value_and_grad(loss, backend="c")

    start = time.perf_counter()
    gradient(params, images[:batch], labels[:batch])
    compile_s = time.perf_counter() - start

    columns = (
        TextColumn("[bold]training"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("loss [cyan]{task.fields[loss]:.4f}[/]   test accuracy [cyan]{task.fields[accuracy]:.1%}[/]"),
        TimeElapsedColumn(),
    )
    losses, step, accuracy, gradient_s = [], 0, 0.0, 0.0
    start = time.perf_counter()
    with Progress(*columns, console=console or Console()) as progress:
        task = progress.add_task("train", total=epochs, loss=float("nan"), accuracy=0.0)
        for _ in range(epochs):
            order = rng.permutation(len(labels))
            total = 0.0
            for k in range(len(labels) // batch):
                chosen = order[k * batch : (k + 1) * batch]
                arguments = params, images[chosen], labels[chosen]
                before = time.perf_counter()
                value, ct = gradient(*arguments)
                gradient_s += time.perf_counter() - before
                total += float(value)
                step += 1
                for name in params:
                    first[name] += 0.1 * (ct[name] - first[name])
                    second[name] += 0.001 * (ct[name] ** 2 - second[name])
                    scale = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                    params[name] = params[name] - scale * first[name] / (np.sqrt(second[name]) + 1e-8)
            losses.append(total / (len(labels) // batch))
            accuracy = np.mean(np.argmax(logits(params, test_images), axis=1) == test_labels)
            progress.update(task, advance=1, loss=losses[-1], accuracy=accuracy)
    train_s = time.perf_counter() - start
    return Training(losses, float(accuracy), compile_s, train_s, gradient_s, step)


def main():
    console = Console()
    result = train(console=console)
    console.print(
        f"loss {result.losses[0]:.4f} -> {result.losses[-1]:.4f}, test accuracy {result.accuracy:.1%} "
        f"after {result.steps} steps"
    )
    console.print(
        f"gradient ready in {result.compile_s:.2f} s, {result.gradient_s / result.steps * 1e6:.0f} µs each; "
        f"training {result.train_s:.2f} s",
        style="dim",
    )


if __name__ == "__main__":
    main()
