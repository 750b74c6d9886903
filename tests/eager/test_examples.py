"""The tutorial scripts print what they print under torch (golden/examples)."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("autograd_*.py"))
GOLDEN = Path(__file__).parent / "golden" / "examples"


def output(path: Path, library: str) -> str:
    """Run a script with a library in place of tracegrad; return what it prints."""
    source = path.read_text()
    assert source.count("import tracegrad as torch\n") == 1
    code = compile(source.replace("import tracegrad as torch\n", f"import {library} as torch\n"), str(path), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    return printed.getvalue()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path: Path) -> None:
    assert output(path, "tracegrad") == (GOLDEN / f"{path.stem}.txt").read_text()
