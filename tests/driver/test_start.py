"""What the first gradient of a process imports, and that the import leaves the garbage collector as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
