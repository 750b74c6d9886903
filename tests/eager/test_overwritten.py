"""What the error says of a saved value that was overwritten: which node it comes from now."""

from __future__ import annotations

import pytest

import tracegrad as tg
from tests.eager.overwritten import PROGRAMS, error_of


@pytest.mark.parametrize(("program", "said"), PROGRAMS, ids=[program for program, _ in PROGRAMS])
def test_overwritten_value(program: str, said: str) -> None:
    assert said in error_of(tg, program)
