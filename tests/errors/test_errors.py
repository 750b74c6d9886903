"""Each error says what its golden text says, and the catalogue docs/errors.md is complete.

After a wanted change: `python -m tests.golden --write`, then read the diff as a user would.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.errors.build import CASES, case_names, provoke

ROOT = Path(__file__).parents[2]
CATALOGUE = ROOT / "docs" / "errors.md"


def _codes_in_package() -> dict[str, set[str]]:
    """Return each code that the package raises, with the files that do."""
    codes: dict[str, set[str]] = {}
    for path in (ROOT / "tracegrad").rglob("*.py"):
        for code in re.findall(r'"(TG\d+)"', path.read_text()):
            codes.setdefault(code, set()).add(str(path.relative_to(ROOT)))
    return codes


@pytest.mark.parametrize("name", case_names())
@pytest.mark.filterwarnings("ignore::tracegrad.driver.cache.CacheWarning")
def test_text(name: str) -> None:
    text = provoke(name)
    assert text == (CASES / f"{name}.err").read_text()
    assert f"[{name[:5]}]" in text


def test_every_code_has_a_golden_text() -> None:
    have = {name[:5] for name in case_names()}
    assert have == set(_codes_in_package())


def test_catalogue_lists_every_code_once() -> None:
    listed = re.findall(r"^\| (TG\d+) \|", CATALOGUE.read_text(), flags=re.MULTILINE)
    assert listed == sorted(_codes_in_package())


def test_no_other_files() -> None:
    texts = {path.name for path in CASES.glob("*.err")}
    assert texts == {f"{name}.err" for name in case_names()}
