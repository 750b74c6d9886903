"""Tracebacks of what goes wrong in a call show the user's frames, and none of tracegrad or NumPy."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.errors import InternalError
from tracegrad.frames import user_frames

X = np.ones(3)


@pytest.fixture(autouse=True)
def default_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEGRAD_TRACEBACK", raising=False)


def shown(call: Callable[[], Any]) -> list[tuple[str, str]]:
    """Return function and line of each frame that is shown, from the call inwards."""
    with pytest.raises(Exception) as caught:
        call()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert all(f.filename == __file__ or f.filename.startswith("<tracegrad ") for f in frames[1:])
    return [(f.name, f.line or "") for f in frames[2:]]


def missing(p: dict[str, Any]) -> Any:
    total = 0.0
    for k in range(3):
        total = total + k * np.sum(p["weights"])
    return total


def outer_missing(p: dict[str, Any]) -> Any:
    return missing(p) * 2.0


def test_a_fault_of_the_function_while_it_is_captured() -> None:
    expected = [("outer_missing", "return missing(p) * 2.0")]
    expected.append(("missing", 'total = total + k * np.sum(p["weights"])'))
    assert shown(lambda: tg.grad(outer_missing)({"w": X})) == expected
    assert shown(lambda: tg.grad(outer_missing).source({"w": X})) == expected
    assert shown(lambda: tg.vjp(outer_missing, {"w": X})) == expected
    assert shown(lambda: tg.jvp(outer_missing, ({"w": X},), ({"w": X},))) == expected
    assert shown(lambda: tg.vmap(outer_missing)({"w": X})) == expected


def unsupported(x: Any) -> Any:
    return np.sum(x) if "a" == str(x) else 0.0


def test_what_cannot_be_captured() -> None:
    assert [name for name, _ in shown(lambda: tg.grad(unsupported)(X))] == ["unsupported"]
    assert [name for name, _ in shown(lambda: tg.explain(unsupported)(X))] == ["unsupported"]
    assert shown(lambda: tg.grad(3)) == []  # type: ignore[arg-type]
    assert shown(lambda: tg.grad(missing, argnums="q")({"w": X})) == []


def unstageable(x: Any) -> Any:
    while x[0] > 0:
        x = x - (1.0 if str(x) == "a" else 2.0)
    return np.sum(x)


def test_causes_are_shown_in_the_same_way() -> None:
    with pytest.raises(tg.errors.CaptureError) as caught:
        tg.grad(unstageable)(X)
    cause = caught.value.__cause__
    assert cause is not None
    assert [f.name for f in traceback.extract_tb(cause.__traceback__)] == ["unstageable"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_faults_at_run_time(backend: str) -> None:
    @tg.function(backend=backend)
    def pick(x: Any, i: Any) -> Any:
        return x[i]

    for _ in range(3):
        frames = shown(lambda: pick(X, np.array(5)))
        assert [name for name, _ in frames] == (["pick"] if backend == "numpy" else [])


def test_all_frames_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEGRAD_TRACEBACK", "full")
    with pytest.raises(KeyError) as caught:
        tg.grad(outer_missing)({"w": X})
    assert any("calls.py" in f.filename for f in traceback.extract_tb(caught.value.__traceback__))


def test_faults_of_tracegrad_keep_all_frames() -> None:
    def fail() -> None:
        with user_frames:
            np.vectorize(broken)(1)

    def broken(x: Any) -> None:
        raise InternalError("odd", code="TG900", span=None, found="", help="")

    with pytest.raises(InternalError) as caught:
        fail()
    assert any("numpy" in f.filename for f in traceback.extract_tb(caught.value.__traceback__))
