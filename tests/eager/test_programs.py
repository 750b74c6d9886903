"""Programs about the semantics of the tape print what torch 2.13 printed (golden/)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.eager.torch_like import torch
from tests.eager.training_programs import PROGRAMS, lines

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_program(program: Any) -> None:
    assert lines(torch, program) == (GOLDEN / f"{program.__name__}.txt").read_text()
