"""A time loop over a small state: one residual per step."""

import numpy as np


def f(x0, v0):
    x, v = x0, v0
    for _ in range(100):
        v = v - 0.1 * np.sin(x)
        x = x + 0.1 * v
    return x


ARGUMENTS = (1.0, 0.0)
ARGNUMS = (0, 1)
