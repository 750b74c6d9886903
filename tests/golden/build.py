"""Builds the four texts of a case program: captured IR, lowered gradient IR, NumPy source and C source.

A case is a file `cases/NAME.py` that defines `f`, written as a user would, and ARGUMENTS; ARGNUMS, when it is not 0.
Its golden texts stand beside it: NAME.ir, NAME.vjp.ir, NAME.np.py, NAME.c. They hold base names of files only, so they
are the same on every machine. `python -m tests.golden --write` writes them all again.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import tracegrad as tg

CASES = Path(__file__).parent / "cases"
SUFFIXES = (".ir", ".vjp.ir", ".np.py", ".c")


def case_names() -> list[str]:
    """Return the names of all cases."""
    return sorted(path.stem for path in CASES.glob("*.py") if "." not in path.stem)


def load_case(name: str) -> ModuleType:
    """Run a case file and return it as a module."""
    path = CASES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"golden_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(name: str) -> dict[str, str]:
    """Return the texts of a case by suffix."""
    case = load_case(name)
    gradient = tg.grad(case.f, getattr(case, "ARGNUMS", 0))
    arguments = case.ARGUMENTS
    return {
        ".ir": gradient.ir(*arguments),
        ".vjp.ir": gradient.lower(*arguments),
        ".np.py": gradient.source(*arguments, backend="numpy") + "\n",
        ".c": gradient.source(*arguments, backend="c").replace(f"{CASES}/", "") + "\n",
    }
