"""The compiler writes what the golden files say.

After a wanted change: `python -m tests.golden --write`, then read the diff as a user would.
"""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.golden.build import CASES, SUFFIXES, build, case_names, load_case
from tracegrad.ir.parser import parse_function
from tracegrad.ir.printer import print_function
from tracegrad.runtime.signature import signature_of, unflatten


@pytest.mark.parametrize("name", case_names())
def test_texts(name: str) -> None:
    for suffix, text in build(name).items():
        assert text == (CASES / f"{name}{suffix}").read_text(), f"{name}{suffix}"


@pytest.mark.parametrize("name", case_names())
@pytest.mark.parametrize("suffix", [".ir", ".vjp.ir"])
def test_ir_round_trip(name: str, suffix: str) -> None:
    text = (CASES / f"{name}{suffix}").read_text()
    assert print_function(parse_function(text)) == text


@pytest.mark.parametrize("name", case_names())
def test_source_runs_alone(name: str) -> None:
    """The golden NumPy text, executed as it is, gives what `tg.grad` gives."""
    case = load_case(name)
    gradient = tg.grad(case.f, getattr(case, "ARGNUMS", 0))
    hidden = getattr(case, "HIDDEN", ())
    scope: dict[str, object] = {}
    exec(compile((CASES / f"{name}.np.py").read_text(), f"{name}.np.py", "exec"), scope)
    with np.errstate(all="ignore"):
        alone = scope[f"{case.f.__name__}_grad"](*_copies(case.ARGUMENTS), *hidden)  # type: ignore[operator]
        called = gradient(*_copies(case.ARGUMENTS))
    for found, expected in zip(_leaves(alone), _leaves(called), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("name", case_names())
def test_gradient_is_right(name: str) -> None:
    """Differences of the plain NumPy function along a random direction agree with the gradient."""
    case = load_case(name)
    argnums = getattr(case, "ARGNUMS", 0)
    with np.errstate(all="ignore"):
        gradient = tg.grad(case.f, argnums)(*_copies(case.ARGUMENTS))
    positions = argnums if isinstance(argnums, tuple) else (argnums,)
    gradients = gradient if isinstance(argnums, tuple) else (gradient,)
    rng = np.random.default_rng(1)
    step = 1e-6
    for position, part in zip(positions, gradients, strict=True):
        signature, leaves = signature_of(["x"], [case.ARGUMENTS[position]])
        moved = [rng.standard_normal(np.shape(leaf)) for leaf in leaves]
        if any(np.asarray(leaf).dtype == np.float32 for leaf in leaves):
            leaves = [np.asarray(leaf, np.float64) for leaf in leaves]
        values = []
        for side in (1.0, -1.0):
            arguments = list(case.ARGUMENTS)
            shifted = [leaf + side * step * d for leaf, d in zip(leaves, moved, strict=True)]
            arguments[position] = unflatten(signature.arguments[0], shifted)
            with np.errstate(all="ignore"):
                values.append(np.float64(case.f(*_copies(tuple(arguments)))))
        expected = (values[0] - values[1]) / (2 * step)
        found = sum(float(np.sum(np.asarray(g, np.float64) * d)) for g, d in zip(_leaves(part), moved, strict=True))
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_no_other_files() -> None:
    known = {f"{name}{suffix}" for name in case_names() for suffix in (".py", *SUFFIXES)}
    assert {path.name for path in CASES.iterdir() if path.is_file()} == known


def _copies(arguments: tuple[object, ...]) -> list[object]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def _leaves(value: object) -> list[np.ndarray]:
    return [np.asarray(v) for v in signature_of(["x"], [value])[1]]
