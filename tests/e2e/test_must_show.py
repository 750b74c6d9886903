"""What tracegrad promises, each promise as a test through the public API on both backends."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import tracegrad as tg
from tests.zoo.numerics import differences

ROOT = Path(__file__).parents[2]
each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def first_passage(x, rates):
    """A data-dependent while, a break and writes into an array."""
    path = np.zeros(12)
    level, k = x, 0
    while level < 10.0:
        level = level * rates[k % 3] + 0.1
        path[k] = level**2
        if k == 10:
            break
        k += 1
    return path.sum() + level


@each_backend
@pytest.mark.parametrize("start", [0.5, 2.0, 11.0, 1e-3])
def test_while_break_and_writes(backend: str, start: float) -> None:
    rates = np.array([1.5, 1.1, 1.3])
    expected = differences(first_passage, (start, rates), (0, 1), step=1e-5)
    found = tg.grad(first_passage, argnums=(0, 1), backend=backend)(start, rates)
    for ours, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-6, atol=1e-7)


def make_relaxation(steps: int) -> Any:
    def relax(x):
        y = x
        for _ in range(steps):
            y = y + 0.001 * (np.sin(y) - x * y)
        return np.sum(y)

    return relax


def without_numbers(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def test_ir_does_not_grow_with_the_number_of_steps() -> None:
    x = np.linspace(0.1, 1.0, 4)
    few, many = (tg.grad(make_relaxation(steps)).ir(x) for steps in (10, 100_000))
    assert without_numbers(str(few)) == without_numbers(str(many))


def test_compile_time_does_not_grow_with_the_number_of_steps() -> None:
    x = np.linspace(0.1, 1.0, 4)
    tg.grad(make_relaxation(3), backend="c")(x)

    def compile_s(steps: int) -> float:
        gradient = tg.grad(make_relaxation(steps), backend="c")
        start_s = time.perf_counter()
        gradient(x)
        first_s = time.perf_counter()
        gradient(x)
        return (first_s - start_s) - (time.perf_counter() - first_s)

    few_s, many_s = (min(compile_s(steps + extra) for extra in range(3)) for steps in (10, 100_000))
    assert many_s < 3.0 * few_s + 0.5  # wide: the machine may be busy; a loop that is unrolled takes minutes


@each_backend
def test_100_000_steps_give_the_right_gradient(backend: str) -> None:
    def decay(x):
        for _ in range(100_000):
            x = x - 1e-5 * x
        return x

    value, ct = tg.value_and_grad(decay, backend=backend)(2.0)
    assert float(value) == pytest.approx(2.0 * (1 - 1e-5) ** 100_000, rel=1e-9)
    assert float(ct) == pytest.approx((1 - 1e-5) ** 100_000, rel=1e-9)


WEIGHTS = np.array([1.0, 2.0, 3.0])
SCALE = 2.0
POWER = 2


def weighted_by_globals(x):
    return SCALE * np.sum(WEIGHTS * x**POWER)


@each_backend
def test_changed_globals_change_the_result(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    x = np.array([0.5, 1.0, -1.0])
    gradient = tg.grad(weighted_by_globals, backend=backend)
    np.testing.assert_allclose(gradient(x), 4 * WEIGHTS * x)
    monkeypatch.setattr(module, "SCALE", 5.0)
    np.testing.assert_allclose(gradient(x), 10 * WEIGHTS * x)
    monkeypatch.setattr(module, "WEIGHTS", np.array([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(gradient(x), [0.0, 10.0, 0.0])
    WEIGHTS[0] = 7.0
    np.testing.assert_allclose(gradient(x), 10 * WEIGHTS * x)
    monkeypatch.setattr(module, "POWER", 3)
    np.testing.assert_allclose(gradient(x), 15 * WEIGHTS * x**2)


@each_backend
def test_changed_closure_changes_the_result(backend: str) -> None:
    table, factor = np.array([1.0, 2.0]), 3.0

    def f(x):
        return factor * np.sum(table * x**2)

    x = np.array([1.0, 1.0])
    gradient = tg.grad(f, backend=backend)
    np.testing.assert_allclose(gradient(x), [6.0, 12.0])
    factor = 1.0
    table[1] = -1.0
    np.testing.assert_allclose(gradient(x), [2.0, -2.0])


def load_module(path: Path, text: str) -> Any:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@each_backend
def test_changed_helper_recompiles(backend: str, tmp_path: Path) -> None:
    module = load_module(
        tmp_path / "first_model.py", "def helper(x):\n    return x ** 2\n\ndef f(x):\n    return helper(x)\n"
    )
    gradient = tg.grad(module.f, backend=backend)
    assert float(gradient(3.0)) == pytest.approx(6.0)
    module.helper = load_module(tmp_path / "second_model.py", "def helper(x):\n    return x ** 3\n").helper
    assert float(gradient(3.0)) == pytest.approx(27.0)


@each_backend
def test_edited_callee_is_compiled_anew(backend: str, tmp_path: Path) -> None:
    """Two modules with the same names and another body of the helper: nothing is taken from the first."""
    text = "def helper(x):\n    return x ** {n}\n\ndef f(x):\n    return helper(x)\n"
    for n in (2, 3):
        (tmp_path / str(n)).mkdir()
        module = load_module(tmp_path / str(n) / "model.py", text.format(n=n))
        assert float(tg.grad(module.f, backend=backend)(2.0)) == pytest.approx(n * 2.0 ** (n - 1))


@each_backend
def test_where_with_log_at_zero_has_gradient_zero(backend: str) -> None:
    def guarded(x):
        return np.where(x > 0, np.log(x), 0.0)

    for zero in (0.0, np.float64(0.0), np.array(0.0)):
        with np.errstate(all="ignore"):  # the function itself warns: NumPy takes log(0) before where drops it
            ct = tg.grad(guarded, backend=backend)(zero)
        assert float(ct) == 0.0

    def summed(x):
        return np.sum(np.where(x > 0, np.log(x) + np.sqrt(x) + 1 / x, 0.0))

    x = np.array([0.0, 2.0, -1.0])
    with np.errstate(all="ignore"):
        ct = tg.grad(summed, backend=backend)(x)
    np.testing.assert_allclose(ct, [0.0, 0.5 + 0.5 / np.sqrt(2.0) - 0.25, 0.0], rtol=1e-14)


def network32(w, x):
    h = np.tanh(x @ w) * 0.5 + 1
    for _ in range(3):
        h = h - 0.1 * np.sin(h)
    scale = h.std() + 1e-3
    return np.mean((h / scale) ** 2) / 2


@each_backend
def test_float32_stays_float32(backend: str, rng: np.random.Generator) -> None:
    w, x = rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    transformed = tg.value_and_grad(network32, argnums=(0, 1), backend=backend)
    text = str(transformed.ir(w, x))
    assert "f32" in text
    assert re.search(r"\bf64\[", text) is None, "an intermediate is in double precision"
    value, (ct_w, ct_x) = transformed(w, x)
    assert value.dtype == ct_w.dtype == ct_x.dtype == np.float32
    expected = differences(network32, (w.astype(np.float64), x.astype(np.float64)), (0, 1))
    np.testing.assert_allclose(ct_w, expected[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(ct_x, expected[1], rtol=1e-3, atol=1e-5)


@each_backend
def test_gradient_has_the_structure_of_its_argument(backend: str) -> None:
    def loss(params, x):
        hidden = np.tanh(x @ params["layers"][0]["w"] + params["layers"][0]["b"])
        return np.sum(hidden * params["scale"]) + params["unused"].sum() * 0

    params = {
        "scale": 1.5,
        "layers": [{"w": np.ones((2, 3)), "b": np.zeros(3)}],
        "unused": np.ones(2),
    }
    ct = tg.grad(loss, backend=backend)(params, np.array([[0.1, 0.2], [0.3, -0.4]]))
    assert sorted(ct) == ["layers", "scale", "unused"]
    assert ct["layers"][0]["w"].shape == (2, 3)
    assert ct["layers"][0]["b"].shape == (3,)
    np.testing.assert_array_equal(ct["unused"], [0.0, 0.0])
    hidden = np.tanh(np.array([[0.1, 0.2], [0.3, -0.4]]) @ np.ones((2, 3)))
    np.testing.assert_allclose(ct["scale"], hidden.sum())
    np.testing.assert_allclose(ct["layers"][0]["b"], 1.5 * (1 - hidden**2).sum(axis=0))


@each_backend
def test_minimize_takes_the_gradient_as_jac(backend: str) -> None:
    def rosenbrock(x):
        total = 0.0
        for i in range(len(x) - 1):
            total += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
        return total

    start = np.array([-1.2, 1.0, 0.5, -0.3])
    result = minimize(rosenbrock, start, jac=tg.grad(rosenbrock, backend=backend), method="BFGS")
    np.testing.assert_allclose(result.x, 1.0, atol=1e-5)
    both = minimize(tg.value_and_grad(rosenbrock, backend=backend), start, jac=True, method="L-BFGS-B")
    np.testing.assert_allclose(both.x, 1.0, atol=1e-3)


def test_argnums_and_aux() -> None:
    def f(x, y, *, shift=0.0):
        return x**2 * y + shift, {"twice": 2 * x}

    ct, aux = tg.grad(f, argnums="y", has_aux=True)(3.0, 2.0)
    assert (float(ct), float(aux["twice"])) == (9.0, 6.0)
    (value, aux), (ct_x, ct_y) = tg.value_and_grad(f, argnums=("x", "y"), has_aux=True)(3.0, 2.0, shift=1.0)
    assert (float(value), float(ct_x), float(ct_y)) == (19.0, 12.0, 9.0)


@each_backend
def test_pullback_may_be_called_again(backend: str) -> None:
    def f(x):
        return {"square": x**2, "sum": np.sum(x)}

    x = np.array([1.0, 2.0])
    out, pullback = tg.vjp(f, x, backend=backend)
    np.testing.assert_allclose(out["square"], x**2)
    for factor in (1.0, 3.0):
        (ct,) = pullback({"square": np.full(2, factor), "sum": np.float64(1.0)})
        np.testing.assert_allclose(ct, 2 * factor * x + 1)
    x[:] = 100.0
    (ct,) = pullback({"square": np.ones(2), "sum": np.float64(0.0)})
    assert np.allclose(ct, [2.0, 4.0])


@each_backend
def test_stop_gradient(backend: str) -> None:
    ct = tg.grad(lambda x: x * tg.stop_gradient(x) ** 2, backend=backend)(3.0)
    assert float(ct) == 9.0


class Spring:
    def __init__(self, stiffness):
        self.stiffness = stiffness

    @tg.function(backend="c")
    def energy(self, x):
        return 0.5 * self.stiffness * np.sum(x**2)

    @tg.function
    def force(self, x):
        return -self.stiffness * x


def test_methods_are_decorated() -> None:
    x = np.array([1.0, 2.0])
    soft, hard = Spring(1.0), Spring(10.0)
    assert float(soft.energy(x)) == 2.5
    assert float(hard.energy(x)) == 25.0
    np.testing.assert_allclose(hard.force(x), [-10.0, -20.0])
    hard.stiffness = 2.0
    assert float(hard.energy(x)) == 5.0
    np.testing.assert_allclose(tg.grad(hard.energy)(x), 2 * x)


@each_backend
def test_second_derivative_through_a_loop(backend: str) -> None:
    def f(x):
        y = x
        for _ in range(5):
            y = y * np.sin(x) + x
        return y

    first = tg.grad(f, backend=backend)
    second = tg.grad(first, backend=backend)
    third = tg.grad(second, backend=backend)
    h = 1e-5
    assert float(second(0.7)) == pytest.approx(float(first(0.7 + h) - first(0.7 - h)) / (2 * h), rel=1e-8)
    assert float(third(0.7)) == pytest.approx(float(second(0.7 + h) - second(0.7 - h)) / (2 * h), rel=1e-8)


@each_backend
def test_faults_are_those_of_python(backend: str) -> None:
    def pick(x, k):
        total = 0.0
        for i in range(k):
            total += x[i]
        return total

    assert float(tg.function(pick, backend=backend)(np.ones(3), 3)) == 3.0
    with pytest.raises(IndexError):
        tg.function(pick, backend=backend)(np.ones(3), 4)
    with pytest.raises(np.linalg.LinAlgError):
        tg.grad(lambda a: np.linalg.solve(a, np.ones(2)).sum(), backend=backend)(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tg.grad(lambda x: x**2)(3), TypeError),
        (lambda: tg.grad(lambda x: x.sum())(np.arange(3)), TypeError),
        (lambda: tg.grad(lambda x: x)(np.ones(3)), (TypeError, ValueError)),
        (lambda: tg.grad(lambda x: x, argnums=1)(2.0), (TypeError, ValueError, IndexError)),
        (lambda: tg.grad(lambda x: x, argnums="z")(2.0), (TypeError, ValueError)),
    ],
)
def test_misuse_is_named(call: Any, error: Any) -> None:
    with pytest.raises(error):
        call()


def start(code: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRACEGRAD_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_a_second_process_starts_warm(tmp_path: Path) -> None:
    code = """
import numpy as np, tracegrad as tg
from tests.bench.programs import layer_loss, LAYER_INPUTS
ct = tg.grad(layer_loss, argnums=(0, 1), backend="c")(*LAYER_INPUTS)
print(repr(float(ct[0].sum())), repr(float(ct[1].sum())))
"""
    first = start(code, tmp_path)
    assert first.returncode == 0, first.stderr
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")}
    assert written
    second = start(code, tmp_path)
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")} == written  # nothing was compiled again


def test_dumped_numpy_source_runs_alone(tmp_path: Path) -> None:
    def loss(w, x):
        total = 0.0
        for row in x:
            total += np.tanh(row @ w) ** 2
        return total

    w, x = np.array([0.2, -0.5]), np.array([[1.0, 2.0], [0.5, -1.0]])
    source = tg.grad(loss).source(w, x, backend="numpy")
    path = tmp_path / "dumped.py"
    path.write_text(source)
    names = re.findall(r"^def (\w+)\(", source, flags=re.MULTILINE)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport numpy as np, dumped\n"
        f"out = dumped.{names[-1]}(np.array({w.tolist()}), np.array({x.tolist()}))\n"
        "print(*np.asarray(out).ravel().tolist())\nassert not any(m.startswith('tracegrad') for m in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = differences(loss, (w, x), (0,))[0]
    np.testing.assert_allclose([float(word) for word in done.stdout.split()], expected, rtol=1e-8)


def test_dumped_c_compiles_without_warnings(tmp_path: Path) -> None:
    path = tmp_path / "dumped.c"
    path.write_text(tg.grad(first_passage).source(0.5, np.array([1.5, 1.1, 1.3]), backend="c"))
    command = [
        "cc",
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        "-c",
        str(path),
        "-o",
        str(tmp_path / "dumped.o"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_arguments_may_have_the_names_of_cotangents_and_tangents(backend: str) -> None:
    def product(x: Any, ct: Any, t_x: Any) -> Any:
        return x * ct * t_x

    value, pullback = tg.vjp(tg.function(product, backend=backend), 2.0, 3.0, 5.0)
    assert (value, *pullback(1.0)) == (30.0, 15.0, 10.0, 6.0)
    assert tg.jvp(product, (2.0, 3.0, 5.0), (1.0, 0.0, 1.0), backend=backend) == (30.0, 21.0)


def _newton_or_error(c: Any) -> Any:
    x = c
    for _ in range(60):
        following = 0.5 * (x + c / x)
        if abs(following - x) < 1e-13:
            return following
        x = following
    else:
        raise RuntimeError("no convergence")


def _returned_or_more(c: Any) -> Any:
    x = c
    for _ in range(3):
        following = 0.5 * (x + c / x)
        if abs(following - x) < 0.1:
            return following * 2
        x = following
    else:
        x = x * c
    return x + 1


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", [_newton_or_error, _returned_or_more])
def test_loops_with_return_and_else(f: Any, backend: str) -> None:
    for c in (2.0, 0.05):
        expected = (f(c + 1e-7) - f(c - 1e-7)) / 2e-7
        assert tg.grad(f, backend=backend)(c) == pytest.approx(expected, rel=1e-6)
