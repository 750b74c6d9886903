"""Programs about the semantics of the tape print what torch 2.13 printed (golden/)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.eager.calling_programs import PROGRAMS, lines
from tests.eager.torch_like import torch

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_program(program: Any) -> None:
    assert lines(torch, program) == (GOLDEN / f"{program.__name__}.txt").read_text()
