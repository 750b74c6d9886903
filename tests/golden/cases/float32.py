"""float32 stays float32, with Python numbers and a loop in it."""

import numpy as np


def f(x):
    s = x
    for k in range(1, 4):
        s = s + 0.5 * np.cos(k * x)
    return np.mean(s)


ARGUMENTS = (np.array([0.1, 0.2, 0.3], np.float32),)
