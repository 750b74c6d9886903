"""Loops over many elements on several threads: which loops, the same bits as without, faults, no data race."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.codegen.c_harness import FAST, WARNINGS, Kernel, KernelFault, compile_text
from tracegrad.codegen.c_source import emit_c
from tracegrad.ir.core import Function
from tracegrad.ir.parallel import is_independent

RNG = np.random.default_rng(5)
THREADS = (*FAST, "-pthread")


def climb(x, limit):
    """Its gradient keeps residuals on a stack that grows."""
    level = x[0]
    while level < limit:
        level = level * (1.0 + x[1] ** 2) + 0.1 * np.sin(level)
    return level**2


def fit(a, b, weights):
    return np.sum(np.linalg.solve(a @ a.T + np.eye(3), b) ** 2 * weights)


def relax(x, shared):
    y = x * 1.0
    for k in range(20):
        y = np.tanh(y * shared[k % 4] + x[0])
    return np.sum(y * y)


def pick(table, place):
    return table[place] * 2.0 + np.sum(np.cos(table) ** 2)


@dataclass
class Case:
    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def ir(self) -> Function:
        program = self.function._example(self.arguments, {}, "c")  # type: ignore[attr-defined]
        made: Function = program.function
        return made


def make(name: str, function: Callable[..., Any], *arguments: Any) -> Case:
    return Case(name, function, arguments)


X, LIMITS = RNG.uniform(0.5, 1.5, (5000, 2)), RNG.uniform(1.0, 20.0, 5000)
SQUARE, RIGHT, SHARED = RNG.normal(size=(7001, 3, 3)), RNG.normal(size=(7001, 3)), RNG.normal(size=4)
WIDE = RNG.normal(size=(3, 20011))

CASES = [
    make("value", tg.vmap(climb), X, LIMITS),
    make("grad", tg.vmap(tg.grad(climb)), X, LIMITS),
    make("hessian", tg.vmap(tg.hessian(relax), in_axes=(0, None)), X, SHARED),
    make("jacobian", tg.vmap(tg.jacobian(lambda x: np.exp(x) * x[0])), X.repeat(4, axis=0)),
    make("linalg", tg.vmap(tg.grad(fit, argnums=(0, 1)), in_axes=(0, 0, None)), SQUARE, RIGHT, SHARED[:3]),
    make("another axis", tg.vmap(lambda x: np.sum(np.exp(x)), in_axes=1), WIDE.repeat(8, axis=1)),
    make("one number each", tg.vmap(lambda x: np.exp(x) * np.sin(x) + x), RNG.normal(size=700_001)),
    make("nested", tg.vmap(tg.vmap(tg.grad(relax), (0, None)), in_axes=(0, None)), X.reshape(500, 10, 2), SHARED),
    make("checked", tg.vmap(tg.grad(pick), in_axes=(0, 0)), RNG.normal(size=(20_000, 30)), RNG.integers(0, 30, 20_000)),
]  # fmt: skip
IDS = [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_same_bits(case: Case) -> None:
    function = case.ir()
    expected = Kernel(function)(*case.arguments)
    for threads in (2, 3, 7):
        kernel = Kernel(function, THREADS, threads=threads)
        assert "pthread_create" in kernel.source.text
        for _ in range(3):
            for ours, theirs in zip(kernel(*case.arguments), expected, strict=True):
                assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_text_compiles_without_warnings(case: Case, compiler: str) -> None:
    compile_text(emit_c(case.ir(), threads=4).text, ("-O0", "-pthread"), compiler)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_parameters_that_only_comments_name_are_no_warnings(compiler: str) -> None:
    def f(x, y):
        return np.abs(y[0]) * x[0]

    compile_text(tg.grad(f, backend="c").source(np.ones(1), np.ones(1)), ("-O0",), compiler)


MAIN = """
#include <stdio.h>
int main(void)
{
    static double x[10000], limits[5000], out[10000];
    for (int k = 0; k < 10000; k++) x[k] = 0.5 + k%97/97.0;
    for (int k = 0; k < 5000; k++) limits[k] = 1 + k%19;
    void *pointers[] = {x, limits, out};
    const int64_t sizes[] = {5000};
    char *memory = calloc(1, (size_t)NAME_workspace(SIZES) + 64);
    void *workspace = (void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    int kind = 0;
    for (int k = 0; k < 5; k++) kind |= NAME_entry(pointers, sizes, workspace, NULL);
    free(memory);
    printf("%d %.17g\\n", kind, out[4321]);
    return kind;
}
"""


def test_no_data_race(tmp_path: Path) -> None:
    case = CASES[1]
    code = emit_c(case.ir(), threads=4)
    source = tmp_path / "kernel.c"
    source.write_text(code.text + MAIN.replace("NAME", code.name).replace("SIZES", ""))
    command = ["gcc", *WARNINGS, "-O1", "-g", "-fsanitize=thread", "-pthread", source, "-o", tmp_path / "run", "-lm"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not run on this kernel")
    assert done.returncode == 0 and "WARNING: ThreadSanitizer" not in done.stderr, done.stderr
    place = np.arange(10000)
    x = (0.5 + place % 97 / 97.0).reshape(5000, 2)
    expected = tg.vmap(tg.grad(climb), backend="c")(x, 1.0 + np.arange(5000) % 19)
    assert float(done.stdout.split()[1]) == pytest.approx(expected.ravel()[4321], rel=1e-13)


@pytest.mark.parametrize("bad", [0, 63, 64, 10_001, 19_999])
def test_fault_is_that_of_the_first_element(bad: int) -> None:
    case = CASES[-1]
    table, places = case.arguments
    function = case.ir()
    wrong = places.copy()
    wrong[bad], wrong[-1] = 30, 77
    serial, parts = Kernel(function), Kernel(function, THREADS, threads=4)
    with pytest.raises(KernelFault) as expected:
        serial(table, wrong)
    with pytest.raises(KernelFault) as found:
        parts(table, wrong)
    assert str(found.value) == str(expected.value)
    assert str(77 if bad == 19_999 else 30) in str(found.value)
    assert all(np.array_equal(a, b) for a, b in zip(parts(table, places), serial(table, places), strict=True))


def test_sizes_known_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One instance serves small and large batches; small ones start no thread."""
    monkeypatch.setenv("TRACEGRAD_NUM_THREADS", "3")
    batched = tg.vmap(tg.grad(climb), backend="c")
    monkeypatch.setenv("TRACEGRAD_NUM_THREADS", "1")
    serial = tg.vmap(tg.grad(climb), backend="c")
    for size in (5000, 4000, 2, 65, 640, 1000, 4999):
        arguments = X[:size], LIMITS[:size]
        monkeypatch.setenv("TRACEGRAD_NUM_THREADS", "3")
        found = batched(*arguments)
        monkeypatch.setenv("TRACEGRAD_NUM_THREADS", "1")
        assert found.tobytes() == serial(*arguments).tobytes()


def test_option_and_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    batched = tg.vmap(tg.grad(climb))
    assert "pthread" not in batched.source(X, LIMITS, backend="c")
    monkeypatch.setenv("TRACEGRAD_NUM_THREADS", "2")
    assert "TG_THREADS = 2" in batched.source(X, LIMITS, backend="c")
    assert "pthread" not in batched.source(X[:50], LIMITS[:50], backend="c")
    assert "pthread" not in tg.grad(relax).source(X[0], SHARED, backend="c")


def test_what_is_carried_across_elements_stays_in_order() -> None:
    """The derivative by what all elements share is a sum over them; residuals of a sweep over all elements are on a
    stack."""

    def total(x, shared):
        return np.sum(tg.vmap(relax, in_axes=(0, None))(x, shared))

    for argnums in (0, 1):
        function = tg.grad(total, argnums)._example((X, SHARED), {}, "c").function
        loops = [o for o in function.body.operations if o.op == "for"]
        assert loops and not any(is_independent(loop, function) for loop in loops)
        assert "pthread" not in emit_c(function, threads=4).text


def running_sum(x):
    total, sums = 0.0, np.zeros_like(x)
    for i in range(len(x)):
        total += np.exp(x[i])
        sums[i] = total
    return sums


def shifted(x):
    y = np.zeros_like(x)
    for i in range(len(x) - 1):
        y[i + 1] = np.exp(x[i])
    return y


def printed(x):
    print(x)
    return np.exp(x)


@pytest.mark.parametrize("function", [running_sum, shifted, tg.vmap(printed)], ids=["sum", "shifted", "printed"])
def test_dependent_loops(function: Callable[..., Any]) -> None:
    made = tg.function(function)._example((np.ones(100_000),), {}, "c").function
    loops = [o for o in made.body.operations if o.op == "for"]
    assert loops and not any(is_independent(loop, made) for loop in loops)
