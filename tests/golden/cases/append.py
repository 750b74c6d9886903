"""Values appended to a list in a loop, and joined after it."""

import numpy as np


def f(y0):
    y, path = y0, []
    for _ in range(10):
        y = y + 0.1 * y * (1 - y)
        path.append(y)
    return np.mean(np.array(path))


ARGUMENTS = (0.1,)
