"""Measure tracegrad beside hand-written code and print one table; asserts nothing. Run by `make bench`.

Both sides of a ratio are measured alternately in the same run, and the fastest of many repetitions counts: other work
on the machine only ever adds time. Eager tensors (eager.py) are measured beside other libraries, by medians.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tracegrad as tg
from tests.bench import eager, programs, reference

REPEATS = 40


@dataclass
class Row:
    """One line of the table. `ratio` is tracegrad over reference; None where only a time has a target."""

    quantity: str
    reference: str
    tracegrad: str
    ratio: float | None
    target: str
    reached: bool | None


def fastest_s(*calls: Callable[[], Any], budget_s: float = 0.8) -> list[float]:
    """Return the fastest time of one call of each, measured in turn."""
    counts = []
    for call in calls:
        call()
        start_s = time.perf_counter()
        call()
        once_s = max(time.perf_counter() - start_s, 1e-7)
        counts.append(max(1, int(budget_s / REPEATS / once_s)))
    best = [float("inf")] * len(calls)
    for _ in range(REPEATS):
        for k, (call, count) in enumerate(zip(calls, counts, strict=True)):
            loop = range(count)
            start_s = time.perf_counter()
            for _ in loop:
                call()
            best[k] = min(best[k], (time.perf_counter() - start_s) / count)
    return best


def show(seconds: float) -> str:
    """Return a time with a unit that fits.

    >>> show(0.0000021)
    '2.10 µs'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size >= 10 else f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def against(quantity: str, hand: Callable[[], Any], ours: Callable[[], Any], note: str, limit: float) -> Row:
    """Measure a pair whose ratio has a target."""
    hand_s, ours_s = fastest_s(hand, ours)
    ratio = ours_s / hand_s
    return Row(quantity, f"{show(hand_s)}  {note}", show(ours_s), ratio, f"≤ {limit:g} ×", ratio <= limit)


def call_overhead() -> Row:
    x = np.linspace(-1.0, 1.0, 10)
    hand, _ = reference.prepare_rosenbrock(x)
    gradient = tg.grad(programs.rosenbrock, backend="c")
    hand_s, ours_s = fastest_s(hand, functools.partial(gradient, x))
    note = "C by ctypes, addresses ready"
    return Row(
        "call of a gradient, 10 elements",
        f"{show(hand_s)}  {note}",
        show(ours_s),
        ours_s / hand_s,
        "≤ 2 µs",
        ours_s <= 2e-6,
    )


def lorenz() -> Row:
    hand, _ = reference.prepare_lorenz(*programs.LORENZ_INPUTS)
    gradient = tg.grad(programs.lorenz_endpoint, argnums=(0, 1), backend="c")
    return against(
        "Lorenz RK4, 1000 steps, gradient", hand, lambda: gradient(*programs.LORENZ_INPUTS), "C, states stored", 2.0
    )


def chain() -> Row:
    x = np.random.default_rng(0).normal(size=1_000_000)
    hand, _ = reference.prepare_chain(x)
    both = tg.value_and_grad(programs.chain, backend="c")
    return against("elementwise chain, 1e6, value and gradient", hand, lambda: both(x), "C, one pass", 1.3)


def numpy_backend() -> Row:
    inputs = programs.LAYER_INPUTS
    gradient = tg.grad(programs.layer_loss, argnums=(0, 1), backend="numpy")
    return against(
        "NumPy backend, tanh layer 8x3x4, gradient",
        lambda: programs.layer_gradient_by_hand(*inputs),
        lambda: gradient(*inputs),
        "NumPy by hand",
        1.1,
    )


def bundle() -> Row:
    z, features = programs.bundle(1000)
    hand, _ = reference.prepare_bundle(z, features)
    jacobian = tg.vmap(tg.jacobian(programs.reprojection), backend="c")
    return against(
        "bundle adjustment, 1000 Jacobians 2x15", hand, lambda: jacobian(z, features), "C, two reverse sweeps", 2.0
    )


#: eager tensors against these, where they are installed
EAGER_LIMITS = {"torch": 1.0, "autograd": 0.2}


def eager_tensors() -> Iterator[Row]:
    for name, program, others in eager.PROGRAMS:
        found = eager.medians_s(eager.contestants(program, others))
        own_s = found["tracegrad"]
        for peer, limit in EAGER_LIMITS.items():
            if peer in found:
                ratio = own_s / found[peer]
                reference = f"{show(found[peer])}  {peer}"
                yield Row(f"eager: {name}", reference, show(own_s), ratio, f"≤ {limit:g} ×", ratio <= limit)
        if not EAGER_LIMITS.keys() & found:
            yield Row(f"eager: {name}", "no peer is installed", show(own_s), None, "", None)


def start_s(cache: str, *arguments: str) -> float:
    """Run start.py in a new process and return the time it prints."""
    environment = {**os.environ, "TRACEGRAD_CACHE_DIR": cache}
    command = [sys.executable, "-m", "tests.bench.start", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return float(done.stdout)


def starts() -> Iterator[Row]:
    cold_s, warm_s, first_s = float("inf"), float("inf"), float("inf")
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            cold_s = min(cold_s, start_s(cache, "lorenz", "--after-another"))
            for _ in range(3):
                warm_s = min(warm_s, start_s(cache, "lorenz", "--after-another"))
                first_s = min(first_s, start_s(cache, "lorenz"))
    yield Row("Lorenz gradient, cold: capture to first result", "", show(cold_s), None, "≤ 0.3 s", cold_s <= 0.3)
    yield Row("same in a second process", "", show(warm_s), None, "≤ 10 ms", warm_s <= 0.01)
    yield Row("same, as the first function of the process", "", show(first_s), None, "", None)


def trip_counts() -> Row:
    with tempfile.TemporaryDirectory() as cache:
        start_s(cache, "lorenz")  # finds the compiler, builds the launcher
        few_s, many_s = float("inf"), float("inf")
        for extra in range(3):  # other constants, so that nothing is found in the cache
            few_s = min(few_s, start_s(cache, f"steps={10 + extra}", "--after-another"))
            many_s = min(many_s, start_s(cache, f"steps={100_000 + extra}", "--after-another"))
    ratio = many_s / few_s
    note = "loop of 10 steps"
    return Row(
        "cold compile of a loop of 100,000 steps",
        f"{show(few_s)}  {note}",
        show(many_s),
        ratio,
        "the same",
        ratio <= 1.2,
    )


def import_time() -> Row:
    code = (
        "import time, numpy; t = time.perf_counter(); import tracegrad; tracegrad.grad; print(time.perf_counter() - t)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    ours_s = min(float(run.stdout) for run in runs)
    return Row("import tracegrad and its grad, beyond NumPy", "", show(ours_s), None, "≤ 50 ms", ours_s <= 0.05)


def measure() -> Iterator[Row]:
    """Yield the rows one by one."""
    yield call_overhead()
    yield lorenz()
    yield chain()
    yield numpy_backend()
    yield bundle()
    yield from eager_tensors()
    yield from starts()
    yield trip_counts()
    yield import_time()


def main() -> None:
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table(title="tracegrad beside hand-written code", title_justify="left", header_style="bold")
    table.add_column("quantity")
    table.add_column("reference", style="dim")
    table.add_column("tracegrad", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("target", justify="right")
    with console.status("measuring") as status:
        for row in measure():
            color = {True: "green", False: "red", None: "default"}[row.reached]
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            table.add_row(row.quantity, row.reference, f"[{color}]{row.tracegrad}[/]", ratio, row.target)
            status.update(f"measured: {row.quantity}")
    console.print(table)
    console.print(
        "fastest of many repetitions, float64, one thread (eager: medians, float32); green: the target was reached in "
        "this run",
        style="dim",
    )


if __name__ == "__main__":
    main()
