"""The code in docs/ runs and prints what the pages say. To write the outputs again: `python -m tests.docs --write`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.ops_page import ops_page
from tests.docs.run import DOCS, ROOT

PAGES = sorted(page for page in DOCS.glob("*.md") if page.stem != "ops")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_page(page: Path) -> None:
    """The page runs in a process of its own, where nothing else has imported anything."""
    command = [sys.executable, "-m", "tests.docs", page.stem]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ops_page_is_current() -> None:
    assert ops_page() == (DOCS / "ops.md").read_text()


@pytest.mark.parametrize("page", [*PAGES, DOCS / "ops.md"], ids=lambda page: str(page.stem))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_conventions_name_tests_that_exist() -> None:
    """Each line of conventions.md names its test as `file.py::test`."""
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", (DOCS / "conventions.md").read_text())
    assert named
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    for file, test in named:
        assert f"def {test}(" in files[file], f"{file}::{test}"
