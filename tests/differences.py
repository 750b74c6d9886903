"""Central differences of a function of a vector, for tests of gradients where it is smooth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def central_differences(f: Callable[[Any], Any], x: Any) -> Any:
    """Return the slope of f at a vector x, by steps of 1e-6."""
    return [(f(x + step) - f(x - step)) / 2e-6 for step in 1e-6 * np.eye(len(x))]
