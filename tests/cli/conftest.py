"""A directory with modules and data of a user, and a way to run the command line in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tracegrad.cli import main

MODEL = """
import numpy as np
import tracegrad as tg

SCALE = 2.5
WEIGHTS = np.array([1.0, 2.0, 3.0])
VALUE = 3

def loss(params, x, y, n=3, lr=0.1):
    h = np.tanh(x @ params["w"] + params["b"]) * SCALE
    for i in range(n):
        h = h * lr + i
    return np.mean((h - y) ** 2) * WEIGHTS[0]

def square(x):
    return np.sum(x * x)

def rows(x):
    return {"twice": 2.0 * x, "n": len(x)}

def first_key(p):
    return p["v"]

def product(x, y):
    return np.sum(x @ y)

def four_rows(x):
    assert x.shape == (4,), "x must have 4 rows"
    return np.sum(x)

def flagged(x, *, flag, scale=2.0):
    return np.sum(x) * (scale if flag else 1.0)

def total(*xs, **factors):
    return sum(np.sum(x) for x in xs) * factors["k"]

def entropy(p):
    return -np.sum(p * np.log(p))

def cut(x):
    return np.sum(x * tg.stop_gradient(x))

def layers(stack, x):
    for layer in stack:
        x = np.tanh(x @ layer["w"] + layer["b"])
    return np.sum(x)

def loud(x):
    print("captured")
    return np.sum(x)

def prints(x):
    print("x is", x)
    return np.sum(x**2)

def writes(x):
    x[0] = 2.0
    return np.sum(x**3)

@tg.function(backend="c")
def decorated(x):
    return np.sum(np.exp(x))

class Model:
    k = 2.0
    def value(self, x):
        return np.sum(x**2) * self.k

model = Model()
"""

RULES = """
import itertools

import numpy as np
import tracegrad as tg

def newton(a):
    x = a
    while abs(x * x - a) > 1e-9:
        x = 0.5 * (x + a / x)
    return x

def calls_endless(x):
    return sum(itertools.repeat(x))

@tg.custom_jvp
def wave(x, y):
    return np.sin(x) * y**2

wave.defjvp(lambda p, t: (wave(*p), np.cos(p[0]) * p[1] ** 2 * t[0] + np.sin(p[0]) * p[1] * t[1]))

def uses_wave(x, y, n=2):
    return np.sum(wave(n * x, y))

@tg.custom_vjp
def fit(w, y):
    return np.sum((w - y) ** 2)

fit.defvjp(lambda w, y: (fit(w, y), w - y), lambda r, ct: (2 * ct * r, None))
"""


@pytest.fixture(autouse=True)
def forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards what a command run in this process has imported from the directory of a test."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the current directory one with modules and data in it."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "syntax.py").write_text("def f(:\n    pass\n")
    (tmp_path / "leaves.py").write_text("import sys\nprint('bye')\nsys.exit(4)\n")
    (tmp_path / "needs.py").write_text("import a_module_that_is_not_there\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("from .other import power\n\ndef f(x):\n    return power(x).sum()\n")
    (package / "other.py").write_text("def power(x):\n    y = 2.0 * x\n    return y * y\n")
    data = {"params.w": np.array([0.3, -0.2, 0.5]), "params/b": np.array(0.1), "y": np.arange(4.0) / 3}
    np.savez(tmp_path / "batch.npz", x=np.linspace(-1, 1, 12).reshape(4, 3), **data)
    stack = {
        "stack.0.w": np.ones((2, 3)) / 3,
        "stack.0.b": np.zeros(3),
        "stack.1.w": np.ones((3, 1)),
        "stack.1.b": [0.5],
    }
    np.savez(tmp_path / "stack.npz", x=np.array([0.1, 0.2]), **stack)
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    (tmp_path / "text.npz").write_text("no archive")
    batch = {"params": {"w": [0.3, -0.2, 0.5], "b": 0.1}, "x": [[1, 2, 3.5], [4, 5, 6]], "y": [0, 1], "n": 2}
    (tmp_path / "batch.json").write_text(json.dumps(batch))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    monkeypatch.chdir(tmp_path)
    return tmp_path


Run = Callable[..., Result]


@pytest.fixture
def run(project: Path) -> Run:
    """Return a function that runs one command in the directory."""
    return lambda *words: CliRunner().invoke(main, list(words), prog_name="tracegrad")
