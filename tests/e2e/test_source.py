"""`.source(...)` shows the code that runs for such arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import codegen
from tracegrad.config import BACKENDS


@pytest.mark.parametrize("backend", BACKENDS)
def test_source_of_symbolic_sizes(backend: str) -> None:
    def loss(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total = total + x[i] ** 2
        return total

    gradient = tg.grad(loss, backend=backend)
    other = "c" if backend == "numpy" else "numpy"
    assert "made for x: f64[4]" in gradient.source(np.ones(4))
    gradient(np.ones(4))
    assert "made for x: f64[4]" in gradient.source(np.ones(4))
    assert "made for x: f64[5]" in gradient.source(np.ones(5))
    gradient(np.ones(5))
    for chosen in (backend, other):
        assert "made for x: f64[n]" in gradient.source(np.ones(5), backend=chosen)
        assert "made for x: f64[n]" in gradient.source(np.ones(7), backend=chosen)
        assert "made for x: f64[4]" in gradient.source(np.ones(4), backend=chosen)
        assert "made for x: f64[1]" in gradient.source(np.ones(1), backend=chosen)  # sizes 0 and 1 have their own
    assert "x: f64[n]" in gradient.lower(np.ones(7)).splitlines()[0]


def test_source_after_a_change_outside() -> None:
    settings = {"power": 2}

    def loss(x: Any) -> Any:
        return np.sum(x ** settings["power"])

    gradient = tg.grad(loss)
    gradient(np.ones(3))
    before = gradient.source(np.ones(3))
    assert "x ** 2" not in before
    settings["power"] = 3
    assert "x ** 2" in gradient.source(np.ones(3))
    settings["power"] = 2
    assert gradient.source(np.ones(3)) == before


def root(a: Any) -> Any:
    y = 1.0
    while abs(y * y - a) > 1e-9:
        y = 0.5 * (y + a / y)
    return y


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_derivative_runs_the_function_once(backend: str) -> None:
    """One loop for values and tangents, though it has a check, and its results are wanted too."""
    sources = {
        "hessian": tg.hessian(root).source(2.0, backend=backend),
        "hessian with aux": tg.hessian(lambda a: (root(a), a), has_aux=True).source(2.0, backend=backend),
        "hessian_diagonal": tg.hessian_diagonal(root).source(2.0, backend=backend),
        "jacfwd with aux": tg.jacfwd(lambda a: (root(a), a), has_aux=True).source(2.0, backend=backend),
        "jacrev with aux": tg.jacrev(lambda a: (root(a), a), has_aux=True).source(2.0, backend=backend),
        "jvp": tg.function(lambda a, t: tg.jvp(root, (a,), (t,))).source(2.0, 1.0, backend=backend),
        "hvp": tg.function(lambda a, t: tg.hvp(root, (a,), (t,))).source(2.0, 1.0, backend=backend),
    }
    for name, source in sources.items():
        assert sum(line.lstrip().startswith("while ") for line in source.splitlines()) == 1, name
        assert "rows[" not in source, name


def test_text_is_made_once_for_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    emit = codegen.emit_numpy
    monkeypatch.setattr(codegen, "emit_numpy", lambda function: texts.append(emit(function)) or texts[-1])
    gradient = tg.grad(lambda x: np.sum(np.sin(x)), backend="numpy")
    for _ in range(3):
        np.testing.assert_array_equal(gradient(np.arange(3.0)), np.cos(np.arange(3.0)))
    assert len(texts) == 1
