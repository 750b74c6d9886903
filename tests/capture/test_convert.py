"""Converted functions must do exactly what the originals do, when the hooks do plain Python."""

from __future__ import annotations

from typing import Any

import pytest

from tests.capture import programs
from tests.capture.hooks import check

PROGRAMS = [pytest.param(function, calls, id=function.__name__) for function, calls in programs.PROGRAMS]


@pytest.mark.parametrize(("function", "calls"), PROGRAMS)
def test_behaves_like_the_original(function: Any, calls: list[tuple[Any, ...]]) -> None:
    check(function, *calls)
