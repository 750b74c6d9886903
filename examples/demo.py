"""The main job on real data: show a gradient as source, train a network with it, and say what was compiled.

Run by `make demo`, or as `python examples/demo.py`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

import digits

import tracegrad as tg
from tracegrad.config import load_options
from tracegrad.driver.cache import open_cache


def robust_loss(p, x, y):
    """Huber's loss of a line: residuals beyond 1 count linearly."""
    total = 0.0
    for i in range(len(x)):
        r = y[i] - (p["slope"] * x[i] + p["offset"])
        if -1.0 < r < 1.0:
            total += 0.5 * r**2
        else:
            total += abs(r) - 0.5
    return total / len(x)


def source_of(function):
    """Return the text of a function, from its file."""
    lines = Path(function.__code__.co_filename).read_text().splitlines()
    first = function.__code__.co_firstlineno
    last = max(line for _, _, line in function.__code__.co_lines() if line)
    return "\n".join(lines[first - 1 : last])


def head_of(lines, body):
    """Return the lines of the declaration that stands before the brace in line `body`."""
    start = body
    while start and lines[start - 1] and not lines[start - 1].endswith((";", "}")):
        start -= 1
    return "\n".join([*lines[start:body], ""])


def function_text(c_source, name):
    """Return one function out of a C text, without the helpers that stand before it."""
    lines = c_source.splitlines()
    body = next(k for k in range(len(lines)) if lines[k] == "{" and f"int {name}(" in head_of(lines, k))
    start = body - head_of(lines, body).count("\n")
    stop = lines.index("}", body)
    return "\n".join(lines[start : stop + 1])


def show(console, title, text, language):
    body = Syntax(text, language, theme="ansi_dark", word_wrap=True, background_color="default")
    console.print(Panel(body, title=title, title_align="left", border_style="dim", padding=(0, 1)))


def show_sources(console):
    params = {"slope": 0.5, "offset": 0.1}
    x = np.linspace(0.0, 3.0, 8)
    y = 0.7 * x + np.where(np.arange(8) == 5, 4.0, 0.0)
    gradient = tg.grad(robust_loss)
    show(console, "1. what you write: plain NumPy", source_of(robust_loss), "python")
    show(console, "2. its gradient, as NumPy", gradient.source(params, x, y, backend="numpy").strip(), "python")
    console.print(
        "Lines starting with # say which of your lines the code below comes from. ct_r is the derivative of the result "
        "by r, and so on; 0.125 is that by total: the last line divides by len(x), which is 8 here.\n"
    )
    text = gradient.source(params, x, y, backend="c")
    count = text.count("\n") + 1
    names = [line[4:].partition("(")[0] for line in text.splitlines() if line.startswith("int ") and "(" in line]
    name = next(name for name in names if not name.endswith("_entry"))
    body = function_text(text, name)
    show(console, "3. the same gradient, as C99", body, "c")
    console.print(f"The whole C file has {count} lines and needs neither Python nor any other file.\n")
    found = {key: float(value) for key, value in tg.grad(robust_loss, backend="c")(params, x, y).items()}
    h = 1e-6
    differences = {
        key: (robust_loss({**params, key: params[key] + h}, x, y) - robust_loss({**params, key: params[key] - h}, x, y))
        / (2 * h)
        for key in params
    }
    table = Table("parameter", "compiled C", "finite differences", header_style="bold")
    for key in params:
        table.add_row(key, f"{found[key]:+.9f}", f"{differences[key]:+.9f}")
    console.print(table)


def entries_of_demo():
    """Return what the cache keeps of this program; others may compile at the same time."""
    names = (f"{robust_loss.__name__}_", f"{digits.loss.__name__}_", "tracegrad_")
    return [entry for entry in open_cache(load_options()).entries() if entry.name.startswith(names)]


def show_cache(console, new, elapsed_s):
    if new:
        table = Table("compiled in this run", "size", header_style="bold", title_justify="left")
        for entry in new:
            table.add_row(entry.name, f"{entry.size_bytes / 1024:.0f} kB")
        console.print(table)
        console.print(f"kept for the next run in the cache {open_cache(load_options()).directory}")
    else:
        console.print("nothing had to be compiled: it was in the cache from an earlier run")
    console.print(f"the whole demo took {elapsed_s:.1f} s")


def main():
    start = time.perf_counter()
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 130
    console = Console(width=width)
    before = {entry.digest for entry in entries_of_demo()}
    console.print(Rule("[bold]tracegrad: plain NumPy in, gradient source out", align="left"))
    show_sources(console)
    console.print(Rule("[bold]a two-layer network on 1,797 handwritten digits", align="left"))
    result = digits.train(console=console)
    console.print(f"loss      {result.losses[0]:.4f} -> [bold]{result.losses[-1]:.4f}[/]")
    console.print(f"accuracy  [bold green]{result.accuracy:.1%}[/] on 360 digits it has not seen")
    new = [entry for entry in entries_of_demo() if entry.digest not in before]
    how = "reads the function, makes its gradient, and compiles it" if new else "finds the compiled code in the cache"
    console.print(f"start     {result.compile_s:.2f} s: the first call {how}")
    console.print(
        f"training  {result.steps} steps in {result.train_s:.2f} s; a loss and its gradient, for 64 digits, take "
        f"{result.gradient_s / result.steps * 1e6:.0f} µs"
    )
    console.print(Rule("[bold]compiled and cached", align="left"))
    show_cache(console, new, time.perf_counter() - start)


if __name__ == "__main__":
    main()
