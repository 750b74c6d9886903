"""Indices without elements, in the text that NumPy runs."""

from __future__ import annotations

import numpy as np

import tracegrad as tg


def test_take_along_axis_of_no_rows() -> None:
    taken = tg.function(lambda x, i: np.take_along_axis(x, i, axis=-1), backend="numpy")
    for lead in ((0,), (0, 2)):
        assert taken(np.ones((*lead, 5)), np.zeros((*lead, 3), np.int64)).shape == (*lead, 3)
