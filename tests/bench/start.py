"""Time the start of one function in a new process; prints one number of seconds.

Run as `python -m tests.bench.start TARGET [--after-another]`: the time from calling a gradient that does not exist yet
to its first result, less the time of a second call, on the C backend. With --after-another, another function was
compiled and called before: what a process does once (finding the compiler, loading the launcher) is not counted.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import tracegrad as tg
from tests.bench import programs


def target_of(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a gradient that has not been called, and its arguments."""
    if name == "lorenz":
        return tg.grad(programs.lorenz_endpoint, argnums=(0, 1), backend="c"), programs.LORENZ_INPUTS
    if name == "layer":
        return tg.grad(programs.layer_loss, argnums=(0, 1), backend="c"), programs.LAYER_INPUTS
    kind, _, steps = name.partition("=")
    if kind != "steps":
        raise SystemExit(f"unknown target {name!r}")
    return tg.grad(programs.make_loop(int(steps)), backend="c"), (np.linspace(0.1, 1.0, 5),)


def main() -> None:
    name, *flags = sys.argv[1:]
    if "--after-another" in flags:
        tg.grad(programs.rosenbrock, backend="c")(np.linspace(-1.0, 1.0, 10))
    gradient, arguments = target_of(name)
    start_s = time.perf_counter()
    gradient(*arguments)
    first_s = time.perf_counter()
    gradient(*arguments)
    second_s = time.perf_counter()
    print((first_s - start_s) - (second_s - first_s))


if __name__ == "__main__":
    main()
