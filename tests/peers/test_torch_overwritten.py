"""What the error says of a saved value that was overwritten, against torch."""

from __future__ import annotations

import pytest

import tracegrad as tg
from tests.eager.overwritten import PROGRAMS, error_of

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")


@pytest.mark.parametrize("program", [program for program, _ in PROGRAMS])
def test_same_as_torch(program: str) -> None:
    found, expected = error_of(tg, program), error_of(torch, program)
    assert found.replace(" Fill,", " Fill2,") == expected, "torch numbers the overloads of fill_"
