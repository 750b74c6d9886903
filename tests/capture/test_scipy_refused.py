"""Functions and classes of SciPy without a rule are refused by name, also those that SciPy writes in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import CaptureError

interpolate = pytest.importorskip("scipy.interpolate")
optimize = pytest.importorskip("scipy.optimize")
signal = pytest.importorskip("scipy.signal")


def _filtered(x: Any) -> Any:
    numerator = [1.0]
    return signal.lfilter(numerator, [1.0, 0.5], x)


CALLS: dict[str, Callable[[Any], Any]] = {
    "scipy.interpolate.interp1d": lambda x: interpolate.interp1d(np.arange(3.0), x)(0.5),
    "scipy.interpolate.CubicSpline": lambda x: interpolate.CubicSpline(np.arange(3.0), x)(0.5),
    "scipy.optimize.brentq": lambda x: optimize.brentq(lambda t: t - x[0], 0.0, 5.0),
    "scipy.signal.lfilter": lambda x: _filtered(x)[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_name_is_said(name: str) -> None:
    with pytest.raises(CaptureError, match=rf"^{name} is not supported on traced values \[TG100\]"):
        tg.function(CALLS[name])(np.ones(3))
