"""Provokes the error of each small program in `cases/` and gives its text, the same on every machine.

A case is a file whose name starts with the code of its error, `TG112.py` or `TG112_dtype.py`, and that defines `run`.
Its golden text stands beside it, `TG112.err`; `python -m tests.golden --write` writes them all again.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from pathlib import Path

import pytest

from tracegrad.errors import TracegradError

CASES = Path(__file__).parent / "cases"


def case_names() -> list[str]:
    """Return the names of all cases."""
    return sorted(path.stem for path in CASES.glob("TG*.py"))


def provoke(name: str) -> str:
    """Run a case and return what Python would print as the last part of the traceback."""
    path = CASES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"error_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.raises(TracegradError) as raised:
        spec.loader.exec_module(module)
        module.run()
    kind = type(raised.value)
    return f"{kind.__module__}.{kind.__qualname__}: {_normalise(str(raised.value))}\n"


def _normalise(text: str) -> str:
    text = text.replace(f"{CASES}/", "")
    text = re.sub(re.escape(tempfile.gettempdir()) + r"/tracegrad-\w+-\w+", "TEMPORARY", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    return re.sub(r"(reproduce with: TEMPORARY/cc) .* (TEMPORARY/source.c .*)", r"\1 FLAGS \2", text)
