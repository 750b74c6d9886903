"""Errors of bad calls: torch's class, and the words of its message that say what is wrong."""

from __future__ import annotations

import pytest

import tracegrad as tg
from tests.peers.bad_calls import CALLS, error_of

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")


@pytest.mark.parametrize(("text", "phrase"), CALLS, ids=[text for text, _ in CALLS])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_bad_call(text: str, phrase: str) -> None:
    expected, found = error_of(torch, text), error_of(tg, text)
    assert expected is not None and phrase in str(expected), expected
    assert found is not None and phrase in str(found), found
    assert type(expected).__name__.removeprefix("_") in [kind.__name__ for kind in type(found).__mro__], found
