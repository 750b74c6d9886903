"""Newton's method: an unbounded loop that is left in the middle."""

import numpy as np


def f(a):
    x = a
    while True:
        step = (x**3 - a) / (3 * x**2)
        if np.abs(step) < 1e-12:
            break
        x = x - step
    return x


ARGUMENTS = (5.0,)
