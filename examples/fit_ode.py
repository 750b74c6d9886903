"""Fit a predator-prey model to the pelts of the Hudson's Bay Company, through a plain RK4 loop.

The unknowns are the four rates of Lotka and Volterra and both populations of 1900. The misfit integrates the equations
with a `for` loop over NumPy arrays; its compiled gradient is the `jac` of SciPy's minimizer.
Run as `python examples/fit_ode.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

import tracegrad as tg

DATA = Path(__file__).with_name("hudson_bay.csv")
STEPS_PER_YEAR = 20


def growth(state, rates):
    hare, lynx = state
    alpha, beta, delta, gamma = rates
    return np.array([alpha * hare - beta * hare * lynx, delta * hare * lynx - gamma * lynx])


def simulate(log_theta, years):
    """Return the populations at the start of each year."""
    theta = np.exp(log_theta)
    rates, state = theta[:4], theta[4:]
    dt = 1.0 / STEPS_PER_YEAR
    path = np.zeros((years, 2))
    path[0] = state
    for step in range((years - 1) * STEPS_PER_YEAR):
        k1 = growth(state, rates)
        k2 = growth(state + 0.5 * dt * k1, rates)
        k3 = growth(state + 0.5 * dt * k2, rates)
        k4 = growth(state + dt * k3, rates)
        state = state + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        if (step + 1) % STEPS_PER_YEAR == 0:
            path[(step + 1) // STEPS_PER_YEAR] = state
    return path


def misfit(log_theta, pelts):
    """Sum of squares in the logarithm: errors are relative."""
    return np.sum((np.log(simulate(log_theta, len(pelts))) - np.log(pelts)) ** 2)


def fit():
    """Return the result of the minimizer, and the table of years, hares and lynxes."""
    table = np.loadtxt(DATA, delimiter=",", skiprows=3)
    pelts = table[:, 1:]
    start = np.log([0.6, 0.03, 0.03, 0.8, 30.0, 4.0])
    gradient = tg.value_and_grad(misfit, backend="c")

    def value_and_jac(log_theta):
        value, jac = gradient(log_theta, pelts)
        return float(value), jac

    return minimize(value_and_jac, start, jac=True, method="BFGS", options={"gtol": 1e-6}), table


def main():
    console = Console()
    result, table = fit()
    rates = np.exp(result.x)
    fitted = simulate(result.x, len(table))
    shown = Table(title="Hudson Bay, thousands of pelts", title_justify="left", header_style="bold")
    for column in ("year", "hare", "model", "lynx", "model"):
        shown.add_column(column, justify="right", style="cyan" if column == "model" else None)
    for (year, hare, lynx), (model_hare, model_lynx) in zip(table[::2], fitted[::2], strict=True):
        shown.add_row(f"{year:.0f}", f"{hare:.1f}", f"{model_hare:.1f}", f"{lynx:.1f}", f"{model_lynx:.1f}")
    console.print(shown)
    names = ("alpha", "beta", "delta", "gamma")
    console.print("rates    " + "   ".join(f"{name} {rate:.4f}" for name, rate in zip(names, rates[:4], strict=True)))
    console.print(f"misfit   {result.fun:.4f} after {result.nit} iterations and {result.njev} gradients")
    console.print(f"largest entry of the gradient at the end: {np.max(np.abs(result.jac)):.1e}", style="dim")


if __name__ == "__main__":
    main()
