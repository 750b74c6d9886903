"""Check the zoo against itself in plain NumPy: each program runs, and differences at two step sizes agree.

Run as `python -m tests.zoo.selfcheck`; prints what is not smooth at its inputs, and how long each program takes.
"""

from __future__ import annotations

import importlib
import time

import numpy as np

from tests.zoo import FAMILIES
from tests.zoo.numerics import differences, in_float64, scale
from tests.zoo.registry import PROGRAMS, Program


def load_all() -> list[Program]:
    """Import every family and return all programs."""
    for family in FAMILIES:
        importlib.import_module(f"tests.zoo.{family}")
    return PROGRAMS


def slopes_of(program: Program, step: float = 1e-3) -> list[np.ndarray]:
    """Return the gradient of the weighted outputs by differences."""
    return differences(program.function, in_float64(program.inputs()), program.wrt, step=step)


def disagreement(program: Program, coarse: list[np.ndarray]) -> float:
    """Return how far its slopes are from those with half the step, relative to the gradient."""
    fine = slopes_of(program, step=5e-4)
    return max(float(np.max(np.abs(c - f), initial=0.0)) for c, f in zip(coarse, fine, strict=True)) / scale(fine)


def main() -> None:
    programs = load_all()
    for program in programs:
        start = time.perf_counter()
        try:
            apart = disagreement(program, slopes_of(program))
        except Exception as error:
            print(f"{program.name:45s} {type(error).__name__}: {error}")
            continue
        elapsed_s = time.perf_counter() - start
        mark = "" if apart <= min(program.rtol, 1e-7) * 0.5 else "  <-- not smooth"
        if mark or elapsed_s > 0.3:
            print(f"{program.name:45s} {apart:9.1e} {elapsed_s:6.2f} s{mark}")
    print(f"{len(programs)} programs")


if __name__ == "__main__":
    main()
