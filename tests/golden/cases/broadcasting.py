"""A matrix, a row and a number are broadcast against each other."""

import numpy as np


def f(scale, row, x):
    centred = (x - row) / scale
    return np.sum(np.log1p(centred**2))


ARGUMENTS = (2.0, np.array([0.0, 1.0, 2.0]), np.arange(12.0).reshape(4, 3))
ARGNUMS = (0, 1)
