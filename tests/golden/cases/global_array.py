"""An array read from a global: it is an input, read again at every call."""

import numpy as np

WEIGHTS = np.array([0.25, 0.5, 0.25])


def f(x):
    return np.sum(WEIGHTS * x**3)


ARGUMENTS = (np.array([1.0, 2.0, 3.0]),)
HIDDEN = (WEIGHTS,)
