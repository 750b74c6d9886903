"""The golden files of tests/eager are what torch prints.

To write them anew: `python -m tests.peers.test_torch_programs`.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.eager.calling_programs import PROGRAMS, lines

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")
GOLDEN = Path(__file__).parents[1] / "eager" / "golden"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_program(program: Any) -> None:
    assert lines(torch, program) == (GOLDEN / f"{program.__name__}.txt").read_text()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in PROGRAMS:
        (GOLDEN / f"{each.__name__}.txt").write_text(lines(torch, each))
