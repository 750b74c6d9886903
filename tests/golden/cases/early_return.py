"""A return inside a loop."""

import numpy as np


def f(x):
    total = 0.0
    for value in x:
        if value < 0:
            return total
        total += np.sqrt(value)
    return 2 * total


ARGUMENTS = (np.array([1.0, 4.0, -1.0, 9.0]),)
