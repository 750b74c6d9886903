"""The examples run, and reach what they claim."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(name: str) -> str:
    environment = {**os.environ, "COLUMNS": "120", "PYTHONWARNINGS": "error", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_digits() -> None:
    text = run("digits.py")
    first, last, accuracy = map(float, re.findall(r"loss ([\d.]+) -> ([\d.]+), test accuracy ([\d.]+)%", text)[0])
    assert last < 0.1 < first
    assert accuracy >= 95.0


def test_fit_ode() -> None:
    text = run("fit_ode.py")
    misfit = float(re.findall(r"misfit +([\d.]+)", text)[0])
    gradient = float(re.findall(r"gradient at the end: ([\d.e+-]+)", text)[0])
    assert misfit == pytest.approx(2.0187, abs=1e-3)
    assert gradient < 1e-5


def test_while_convergence() -> None:
    text = run("while_convergence.py")
    assert float(re.findall(r"two gradients: ([\d.e+-]+)", text)[0]) < 1e-9


def test_demo() -> None:
    text = run("demo.py")
    assert "def " in text
    assert "int " in text
    assert float(re.findall(r"accuracy +([\d.]+)%", text)[0]) >= 95.0
    assert "cache" in text
