"""Parameters of functions: the names, and the places where they can be given in order, are torch's."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

F = torch.nn.functional
FUNCTIONS = [
    n for n in dir(F) if not n.startswith("_") and inspect.isroutine(getattr(F, n)) and hasattr(tg.nn.functional, n)
]


def parameters_of(function: Any) -> list[str] | None:
    """Return the names of the parameters; for what Python knows nothing of, those in the first line of its text."""
    try:
        found = inspect.signature(function).parameters
    except ValueError:
        found = {}
    if found and "args" not in found:
        return list(found)
    text = (function.__doc__ or "").strip().split("\n\n")[0].split("->")[0]
    match = re.search(r"\((.*)\)", text, re.DOTALL)
    return re.findall(r"(\w+)(?=\s*[,=]|\s*$)", re.sub(r"=[^,]*", "=", match[1])) if match else None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters(name: str) -> None:
    expected, found = parameters_of(getattr(F, name)), parameters_of(getattr(tg.nn.functional, name))
    if expected is None:
        pytest.skip("torch does not say which parameters it has")
    assert [p for p in found or [] if p != "out"] == [p for p in expected if p != "out"]
