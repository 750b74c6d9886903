"""What the first gradient of a process imports, and that the garbage collector rests and is left as it was."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import pytest

import tracegrad as tg
from tracegrad.driver import pipeline

_FIRST = """
import gc, sys
import numpy as np
{before}
import tracegrad as tg

tg.grad(lambda x: np.sum(x * x))(np.linspace(0.0, 1.0, 3))
print(gc.isenabled(), [name for name in ("numpy.random", "scipy") if name in sys.modules])
"""


@pytest.mark.parametrize(("before", "says"), [("", "True"), ("gc.disable()", "False")])
def test_first_gradient(before: str, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FIRST.format(before=before)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{says} []\n"


def test_the_collector_rests_during_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, capture = [], pipeline.entry.capture

    def record(*args: Any) -> Any:
        seen.append(gc.isenabled())
        return capture(*args)

    monkeypatch.setattr(pipeline.entry, "capture", record)
    tg.grad(lambda x: x * x)(2.0)
    with pytest.raises(TypeError, match="refused"):
        tg.grad(refuse)(2.0)
    assert seen == [False, False] and gc.isenabled()


def refuse(x: Any) -> Any:
    raise TypeError("refused")
