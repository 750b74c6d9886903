"""Differentiate a `while` loop that runs until it converges: the friction of water in a pipe.

Colebrook and White give the friction factor f of a rough pipe only implicitly,
    1/sqrt(f) = -2 log10(k / 3.7 + 2.51 / (Re sqrt(f))),
so that everyone iterates. The gradient through the iteration is compared with the one of the implicit function theorem.
Run as `python examples/while_convergence.py`.
"""

from __future__ import annotations

import math

import numpy as np
from rich.console import Console
from rich.table import Table

import tracegrad as tg


def friction(roughness, reynolds):
    """Darcy's friction factor, to convergence. `roughness` is relative to the diameter."""
    f = 0.02
    change = 1.0
    while abs(change) > 1e-15:
        new = (-2.0 * math.log10(roughness / 3.7 + 2.51 / (reynolds * math.sqrt(f)))) ** -2
        change = new - f
        f = new
    return f


def implicit_gradient(roughness, reynolds):
    """df/d(roughness, Re) by the implicit function theorem: F(f, k, Re) = 0, so df = -dF/(dF/df)."""
    f = friction(roughness, reynolds)
    inside = roughness / 3.7 + 2.51 / (reynolds * math.sqrt(f))
    slope = 2.0 / (math.log(10.0) * inside)
    by_f = -0.5 * f**-1.5 - slope * 0.5 * 2.51 / (reynolds * f**1.5)
    by_roughness = slope / 3.7
    by_reynolds = -slope * 2.51 / (reynolds**2 * math.sqrt(f))
    return -by_roughness / by_f, -by_reynolds / by_f


PIPES = {
    "drawn copper": (1e-5, 2e5),
    "new steel": (4.5e-4, 1e5),
    "cast iron": (2.6e-3, 3e5),
    "concrete": (1e-2, 5e5),
}


def compare():
    """Yield name, friction factor, and both gradients of each pipe."""
    gradient = tg.grad(friction, argnums=(0, 1), backend="c")
    for name, (roughness, reynolds) in PIPES.items():
        compiled = tuple(float(part) for part in gradient(roughness, reynolds))
        yield name, friction(roughness, reynolds), compiled, implicit_gradient(roughness, reynolds)


def main():
    console = Console()
    table = Table(title="Friction factor by a while loop, and its gradient", title_justify="left", header_style="bold")
    table.add_column("pipe")
    for column in ("f", "df/dk", "implicit", "df/dRe", "implicit"):
        table.add_column(column, justify="right", style="dim" if column == "implicit" else None)
    worst = 0.0
    for name, f, compiled, implicit in compare():
        table.add_row(
            name,
            f"{f:.6f}",
            f"{compiled[0]:.7f}",
            f"{implicit[0]:.7f}",
            f"{compiled[1]:.4e}",
            f"{implicit[1]:.4e}",
        )
        worst = max(worst, *(abs(a / b - 1) for a, b in zip(compiled, implicit, strict=True)))
    console.print(table)
    console.print(f"largest relative difference between the two gradients: {worst:.1e}")
    assert np.isfinite(worst)


if __name__ == "__main__":
    main()
